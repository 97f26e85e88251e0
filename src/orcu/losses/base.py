"""Base class of the losses: input checks, weights, reductions, constant tables, catalogue entries, registries."""

import dataclasses
import inspect
import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, TypeVar, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from orcu.errors import InputError, UnknownNameError
from orcu.inputs import SUM_TOLERANCE, FloatArray, as_count, label_range_message
from orcu.kernels.terms import total_weight
from orcu.registry import Registry, accepted_parameters

REDUCTIONS = ("mean", "sum", "none")
OUTPUT_HEADS = ("poe", "ensemble")  # heads whose output is more than logits
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_ARGUMENTS = re.compile(r"^Args:\n((?: +.*\n)+)", re.MULTILINE)  # section of a docstring
_ARGUMENT = re.compile(r"^    (\w+):.*\n(?: {8}.*\n)*", re.MULTILINE)  # entry of that section

LossT = TypeVar("LossT", bound="type[OrdinalLoss]")


class LossOptions(TypedDict, total=False):
    """Keyword arguments that all losses accept, described in `OrdinalLoss`.

    A loss that takes ``**common: Unpack[LossOptions]`` and passes it to ``super().__init__`` gets the complete
    signature and docstring from `OrdinalLoss`.
    """

    reduction: str
    weight: Sequence[float] | Tensor | None
    ignore_index: int | None


@dataclasses.dataclass(frozen=True)
class LossCard:
    """Catalogue entry of a loss.

    Args:
        name: name in the registry.
        title: name in the literature.
        family: ``"nominal"``, ``"ordinal"``, ``"calibration"`` or ``"ordinal calibration"``.
        paper: authors and year.
        formula: per-sample loss in plain text, in the paper's symbols.
        notes: choices that the paper does not make, and pitfalls; may be empty.
        defaults: options of this loss beyond the common ones, with defaults; set from the signature on registration.
    """

    name: str
    title: str
    family: str
    paper: str
    formula: str
    notes: str = ""
    defaults: dict[str, Any] = dataclasses.field(default_factory=dict)


class OrdinalLoss(nn.Module):
    """Base class of all losses: ``loss(logits, y)``, a drop-in replacement for ``nn.CrossEntropyLoss()``.

    A subclass defines `per_sample` (or `evaluate`, for a batch statistic) and is registered with `register_loss`. The
    base class handles shapes, label checks, ignored labels, half precision, weights and reductions.

    Args:
        num_classes: number of classes, C, at least 2.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``; a batch statistic has no ``"none"``.
        weight: one non-negative weight per class; sample n has the weight ``weight[y_n]``, and ``"mean"`` divides by
            the sum of the weights.
        ignore_index: label of samples to leave out; ``None`` accepts the labels 0..C-1 only.

    Raises:
        InputError: if an argument has an invalid value.
    """

    card: ClassVar[LossCard]
    term: ClassVar[str] = "loss"  # key of this loss in `parts`
    soft_labels: bool = True  # whether y may be label distributions, of the shape of the logits
    dense: bool = False  # whether `evaluate` takes logits (n, C, ...); otherwise it gets rows
    default_strength: ClassVar[float] = 1.0  # factor of this term as the regularizer of a sum
    head: ClassVar[str] = "linear"  # key in `orcu.models.heads.HEADS` of the head that a model of this loss has
    batch_statistic: bool = False  # whether the value is not a mean over samples
    stops_gradient: ClassVar[bool] = False  # whether part of the formula is detached from the gradient
    shift_invariant: ClassVar[bool] = True  # whether adding a constant to the logits leaves the value unchanged
    reversible: ClassVar[bool] = True  # whether reversing the order of the classes leaves the value unchanged

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Complete the signature and the docstring of a subclass by the common arguments."""
        super().__init_subclass__(**arguments)
        init = cls.__dict__.get("__init__", OrdinalLoss.__init__)
        signature = inspect.signature(init)
        *parameters, last = signature.parameters.values()
        if last.annotation == Unpack[LossOptions]:
            common = inspect.signature(OrdinalLoss.__init__).parameters
            parameters += [common[name] for name in LossOptions.__annotations__]
            init.__signature__ = signature.replace(parameters=parameters)
        if cls.__dict__.get("__doc__"):
            cls.__doc__ = _complete_docstring(cls.__doc__ or "", list(inspect.signature(cls).parameters))

    def __init__(
        self,
        num_classes: int,
        *,
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = -100,  # the default of nn.CrossEntropyLoss
    ) -> None:
        super().__init__()
        self.num_classes = as_count(num_classes, name="num_classes", minimum=2)
        if reduction not in REDUCTIONS:
            raise UnknownNameError("reduction", reduction, REDUCTIONS)
        if reduction == "none" and self.batch_statistic:
            raise InputError(
                f"reduction: {type(self).__name__} is a statistic of the whole batch and has no "
                "per-sample values; use 'mean' or 'sum'."
            )
        if ignore_index is not None and (isinstance(ignore_index, bool) or not isinstance(ignore_index, int)):
            raise InputError(f"ignore_index: expected a whole number or None, got {ignore_index!r}.")
        self.reduction, self.ignore_index = reduction, ignore_index
        self._parts: dict[str, Tensor] = {}
        self._part_numbers: tuple[dict[str, float], torch.dtype] | None = None
        self._cast_tables: dict[tuple[Any, ...], Any] = {}
        self.weighted = weight is not None
        if weight is not None:
            self.add_table("weight", _class_weights(weight, self.num_classes))

    def forward(self, logits: Tensor, y: Tensor, *, sample_weight: Tensor | None = None) -> Tensor:
        """Compute the loss of a batch; a sample is a row, or a pixel, voxel or token of a dense output.

        Args:
            logits: logits of shape (n, C), (n, C, d1, ...) or (C,), any floating type. Half types are computed in
                float32.
            y: integer labels 0..C-1 (or ``ignore_index``), shape (n,), (n, d1, ...) or (); or label distributions of
                the shape of the logits, for which the loss is the average over labels.
            sample_weight: non-negative weights of the shape of the labels; multiplied by the class weights. With
                label distributions a sample's class weight is the average over its labels.

        Returns:
            A scalar, or the shape of the labels with ``reduction="none"``; float32 for half inputs. Ignored samples
            have the value 0 and no gradient, and the mean is taken over the others. If all samples are ignored, the
            loss is 0 (torch returns NaN).

        Raises:
            InputError: if a shape, a type, a label or a weight is invalid. Under `torch.compile` and on CUDA an invalid
                label or distribution, and under `torch.compile` an invalid weight, is a RuntimeError of torch. Under
                `torch.func` only shapes and types are checked.
        """
        ignored = self._check(logits, y, sample_weight)
        device = "cpu" if logits.is_cpu else logits.device.type  # reading device.type takes as long as an addition
        if torch.is_autocast_enabled(device):  # autocast would compute the products in half precision
            with torch.autocast(device, enabled=False):
                return self.forward(logits, y, sample_weight=sample_weight)
        if logits.dim() == 1:
            value = self.forward(
                logits[None], y[None], sample_weight=None if sample_weight is None else sample_weight[None]
            )
            return value.reshape(())
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        y = y.to(logits.dtype) if y.is_floating_point() else _long(y)
        if ignored is not None:  # the logits of ignored samples may be NaN
            logits, y = logits.masked_fill(ignored.unsqueeze(1), 0.0), y.masked_fill(ignored, 0)
            counts = (~ignored).to(logits.dtype)
            sample_weight = counts if sample_weight is None else counts * sample_weight
        weight = self._weights(logits, y, sample_weight)
        if logits.dim() == 2 or self.dense:
            return self.evaluate(logits, y, weight, self.reduction)
        weight = None if weight is None else weight.flatten()
        value = self.evaluate(
            as_rows(logits), as_rows(y) if y.dim() == logits.dim() else y.flatten(), weight, self.reduction
        )
        return value.reshape(labels_shape(logits)) if self.reduction == "none" else value

    if TYPE_CHECKING:  # nn.Module declares it as Any

        def __call__(self, logits: Tensor, y: Tensor, *, sample_weight: Tensor | None = None) -> Tensor: ...  # noqa: D102

    def per_sample(self, logits: Tensor, y: Tensor) -> Tensor:
        """Compute the unweighted loss of each sample, shape (n,), from checked logits (n, C) and labels (n,)."""
        if type(self).evaluate is OrdinalLoss.evaluate:
            raise TypeError(f"{type(self).__name__} must define per_sample or evaluate")
        return self.evaluate(logits, y, None, "none")

    def evaluate(self, logits: Tensor, y: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
        """Compute the reduced loss; batch statistics and fused kernels define this instead of `per_sample`."""
        value = reduce(self.per_sample(logits, y), weight, reduction)
        self.record({self.term: value})
        return value

    @property
    def needs_head(self) -> bool:
        """Whether the loss takes the output of its head instead of logits."""
        return self.head in OUTPUT_HEADS

    @property
    def parts(self) -> dict[str, Tensor]:
        """Terms of the last forward pass, reduced like the loss and detached."""
        if self._part_numbers is not None:
            numbers, dtype = self._part_numbers
            self._parts = {name: torch.tensor(value, dtype=dtype) for name, value in numbers.items()}
            self._part_numbers = None
        return self._parts

    def set_parts(self, numbers: dict[str, float], dtype: torch.dtype) -> None:
        """Store the parts as Python floats; tensors are created only if `parts` is read."""
        self.__dict__["_part_numbers"] = numbers, dtype  # nn.Module.__setattr__ is slow

    def record(self, parts: dict[str, Tensor]) -> None:
        """Store the parts for logging, except under `torch.func`, whose tensors must not outlive the transform."""
        if not torch._C._are_functorch_transforms_active():
            self._parts, self._part_numbers = {name: value.detach() for name, value in parts.items()}, None

    def add_table(self, name: str, values: FloatArray) -> None:
        """Register a constant table as a float64 buffer that follows the device but not the data type."""
        self.register_buffer(name, torch.from_numpy(values.copy()), persistent=False)

    def table(self, name: str, like: Tensor) -> Tensor:
        """Return a table in the data type and on the device of ``like``; the conversion is cached."""
        key = (name, like.dtype, like.device)
        table: Tensor | None = self._cast_tables.get(key)
        if table is None or is_traced():
            table = self.get_buffer(name).to(device=like.device, dtype=like.dtype)
            if not is_traced() and not torch.is_inference_mode_enabled():
                self._cast_tables[key] = table
        return table

    def array(self, name: str, dtype: np.dtype[Any]) -> FloatArray:
        """Return a table as a numpy array of a data type; the conversion is cached."""
        array: FloatArray | None = self._cast_tables.get((name, dtype))
        if array is None:
            array = self._cast_tables[name, dtype] = self.get_buffer(name).numpy().astype(dtype)
        return array

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "OrdinalLoss":
        # `.half()` must not round the tables and `.to("mps")`, which has no float64, must not fail: the tables take
        # the device from fn and keep the widest type of that device.
        tables = {name: table for name, table in self._buffers.items() if table is not None}
        self._buffers.clear()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        device = fn(torch.empty(0)).device
        widest = torch.float32 if device.type == "mps" else torch.float64
        for name, table in tables.items():
            self._buffers[name] = table.to(device=device, dtype=widest)
        self._cast_tables.clear()
        return self

    def extra_repr(self) -> str:  # noqa: D102
        return f"num_classes={self.num_classes}, reduction={self.reduction!r}"

    def _weights(self, logits: Tensor, y: Tensor, sample_weight: Tensor | None) -> Tensor | None:
        weight = None
        if self.weighted:
            table = self.table("weight", logits)
            soft = y.dim() == logits.dim()
            weight = y.movedim(1, -1) @ table if soft else table.index_select(0, y.flatten()).reshape(y.shape)
        if sample_weight is None:
            return weight
        sample_weight = sample_weight.to(logits.dtype)
        return sample_weight if weight is None else weight * sample_weight

    def _check(self, logits: Tensor, y: Tensor, sample_weight: Tensor | None) -> Tensor | None:
        """Check the inputs and return the mask of the ignored samples, or ``None`` if there are none."""
        if not isinstance(logits, Tensor) or not logits.is_floating_point():
            raise InputError(f"logits: expected a floating-point tensor, got {_describe(logits)}.")
        shape, num_classes = tuple(logits.shape), self.num_classes
        if not shape or shape[min(1, len(shape) - 1)] != num_classes:
            raise InputError(
                f"logits: expected shape (n, {num_classes}) or (n, {num_classes}, ...) for {num_classes} classes, "
                f"got {shape}."
            )
        if 0 in shape:
            raise InputError(f"logits: shape {shape} is empty; expected at least one row.")
        soft = isinstance(y, Tensor) and y.is_floating_point() and y.dim() == len(shape)
        if soft and not self.soft_labels:
            raise InputError(f"y: {type(self).__name__} takes integer labels, not label distributions.")
        if not soft and (not isinstance(y, Tensor) or y.dtype not in _INTEGERS):
            raise InputError(
                f"y: expected a tensor of integer labels 0..{num_classes - 1}, got {_describe(y)}."
                + (" Labels stored as floats need `y.long()`." if isinstance(y, Tensor) else "")
            )
        expected = shape[:1] + shape[2:] if len(shape) > 1 else ()
        if y.shape != (shape if soft else expected):
            raise InputError(
                f"y: expected integer labels of shape {expected}, or floating-point label "
                f"distributions of shape {shape}; got {_describe(y)}."
            )
        if sample_weight is not None and (not isinstance(sample_weight, Tensor) or sample_weight.shape != expected):
            raise InputError(f"sample_weight: expected a tensor of shape {expected}, got {_describe(sample_weight)}.")
        if sample_weight is not None and torch.compiler.is_compiling():
            valid = (sample_weight >= 0).all() & (sample_weight > 0).any() & sample_weight.isfinite().all()
            _assert_later(valid, "sample_weight: expected finite weights of at least 0, not all 0")
        elif sample_weight is not None and not sample_weight.is_cuda and not is_traced():
            lowest, highest = torch.aminmax(sample_weight)
            if not (lowest.item() >= 0 and 0 < highest.item() < math.inf):
                raise InputError(
                    "sample_weight: expected finite weights of at least 0, not all 0; "
                    f"got values from {lowest.item():g} to {highest.item():g}."
                )
        if not soft:
            return self._ignored_mask(_long(y))
        self._check_distributions(y)
        return None

    def _ignored_mask(self, y: Tensor) -> Tensor | None:
        if is_traced():
            ignored = None if self.ignore_index is None else y == self.ignore_index
            valid = (y >= 0) & (y < self.num_classes)
            _assert_later((valid if ignored is None else valid | ignored).all(), self._label_message)
            return ignored
        on_cuda = y.is_cuda  # reading values would synchronise the GPU in each step
        if not on_cuda and (self.ignore_index is None or not 0 <= self.ignore_index < self.num_classes):
            lowest, highest = torch.aminmax(y)
            if lowest.item() >= 0 and highest.item() < self.num_classes:
                return None
        bad, ignored = (y < 0) | (y >= self.num_classes), None
        if self.ignore_index is not None:
            ignored = y == self.ignore_index
            bad &= ~ignored
        if on_cuda:
            _assert_later(~bad.any(), self._label_message)
            return ignored
        if bad.any():
            index = tuple(map(int, np.unravel_index(int(bad.flatten().int().argmax()), tuple(y.shape))))
            row = index[0] if len(index) == 1 else index
            raise InputError(label_range_message("y", row, int(y[index]), self.num_classes))
        return ignored if ignored is not None and ignored.any() else None

    @property
    def _label_message(self) -> str:
        return f"y: a label is outside 0..{self.num_classes - 1}"

    def _check_distributions(self, y: Tensor) -> None:
        tolerance = max(SUM_TOLERANCE, self.num_classes * torch.finfo(y.dtype).eps / 2)
        y = as_rows(y)
        bad = ~((y >= 0).all(1) & ((y.float().sum(1) - 1).abs() <= tolerance))  # NaN is bad too
        if y.is_cuda or is_traced():
            _assert_later(~bad.any(), "y: a row is not a distribution over the classes")
        elif bad.any():
            row = int(bad.int().argmax())
            raise InputError(
                f"y: row {row} is {[round(v, 4) for v in y[row].tolist()]}, expected a distribution over "
                f"{self.num_classes} classes: values of at least 0 that sum to 1."
            )


def _long(y: Tensor) -> Tensor:
    """Convert labels to int64; checking the type first is faster than calling ``long``."""
    return y if y.dtype is torch.int64 else y.long()


def is_traced() -> bool:
    """Whether `torch.compile` or `torch.func` traces the code: it must not depend on values or cache tensors."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def _assert_later(condition: Tensor, message: str) -> None:
    """Assert a condition without reading its value: in compiled code and on CUDA; `torch.func` cannot."""
    if not torch._C._are_functorch_transforms_active():
        torch._assert_async(condition, message)


def labels_shape(logits: Tensor) -> tuple[int, ...]:
    """Shape of the labels of logits of shape (n, C), (n, C, d1, ...) or (C,)."""
    shape = tuple(logits.shape)
    return shape[:1] + shape[2:] if len(shape) > 1 else ()


def as_rows(dense: Tensor) -> Tensor:
    """Reshape (n, C, d1, ...) to (n d1 ..., C), and (C,) to (1, C)."""
    return dense.movedim(1, -1).flatten(0, -2) if dense.dim() > 1 else dense[None]


def _complete_docstring(text: str, parameters: list[str]) -> str:
    """Add the descriptions of common arguments in `OrdinalLoss` to the docstring of a loss."""
    text = inspect.cleandoc(text) + "\n"
    entries = _argument_docs(inspect.cleandoc(OrdinalLoss.__doc__ or "")) | _argument_docs(text)
    section = "Args:\n" + "".join(entries[name] for name in parameters if name in entries)
    if "Args:\n" in text:
        return _ARGUMENTS.sub(lambda _: section, text)
    summary, example, code = text.partition("Example:\n")
    return f"{summary.rstrip()}\n\n{section}\n{example}{code}"


def _argument_docs(text: str) -> dict[str, str]:
    return {entry[1]: entry[0] for section in _ARGUMENTS.findall(text) for entry in _ARGUMENT.finditer(section)}


LOSSES: Registry[type[OrdinalLoss]] = Registry("loss", package="orcu.losses", plugins="orcu.losses")
REGULARIZERS: Registry[type[OrdinalLoss]] = Registry("regularizer", package="orcu.losses", plugins="orcu.losses")


def register_loss(card: LossCard, registry: Registry[type[OrdinalLoss]] = LOSSES) -> Callable[[LossT], LossT]:
    """Decorator that registers a loss under the name of its card."""

    def decorate(loss: LossT) -> LossT:
        common = ("num_classes", *LossOptions.__annotations__)
        defaults = {p.name: p.default for p in accepted_parameters(loss).values() if p.name not in common}
        loss.card = dataclasses.replace(card, defaults=defaults)
        if loss.term == OrdinalLoss.term:
            loss.term = card.name
        registry.register(card.name)(loss)
        return loss

    return decorate


def register_regularizer(card: LossCard) -> Callable[[LossT], LossT]:
    """Decorator that registers a regularizer under the name of its card."""
    return register_loss(card, REGULARIZERS)


def reduce(values: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """Weight and reduce per-sample values; ``"mean"`` divides by the sum of the weights and is 0 where that is 0.

    Deviation: torch's cross-entropy with probability targets divides by n instead.
    """
    if weight is not None:
        values = values * weight
    if reduction == "none":
        return values
    if reduction == "sum":
        return values.sum()
    return values.mean() if weight is None else values.sum() / total_weight(weight)


def _class_weights(weight: Any, num_classes: int) -> FloatArray:
    try:
        values = np.asarray(weight.detach().cpu() if isinstance(weight, Tensor) else weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"weight: expected {num_classes} numbers, got {weight!r}.") from error
    if values.shape != (num_classes,):
        raise InputError(f"weight: expected one weight per class, shape ({num_classes},), got {values.shape}.")
    bad = ~np.isfinite(values) | (values < 0)
    if bad.any() or not values.any():
        where = f"class {int(np.argmax(bad))} has {values[np.argmax(bad)]}" if bad.any() else "all are 0"
        raise InputError(f"weight: {where}; expected finite weights of at least 0, not all 0.")
    return values


def _describe(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
    return type(value).__name__
