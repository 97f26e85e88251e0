"""What every loss shares: the checks, the weights, the reduction, the tables, the card."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from orcu.errors import InputError, UnknownNameError
from orcu.inputs import SUM_TOLERANCE, FloatArray, as_count, label_out_of_range
from orcu.kernels.terms import total_weight
from orcu.registry import Registry, parameters_of

REDUCTIONS = ("mean", "sum", "none")
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_COMMON_OPTIONS = ("num_classes", "reduction", "weight", "ignore_index")
IGNORED = -100  # the label that torch leaves out by default

LossT = TypeVar("LossT", bound="type[OrdinalLoss]")


@dataclasses.dataclass(frozen=True)
class LossCard:
    """What the catalogue says of a loss.

    Args:
        name: the registry name.
        title: the name people use.
        family: ``"nominal"``, ``"ordinal"``, ``"calibration"`` or ``"ordinal calibration"``.
        paper: authors and year.
        formula: the per-sample loss in plain text, in the paper's symbols.
        notes: where a choice is ours, or a trap; may be empty.
        defaults: the loss's own options; filled from its signature on registration.
    """

    name: str
    title: str
    family: str
    paper: str
    formula: str
    notes: str = ""
    defaults: dict[str, Any] = dataclasses.field(default_factory=dict)


class OrdinalLoss(nn.Module):
    """Base of all losses: ``loss(logits, y)``, drop-in for ``nn.CrossEntropyLoss()``.

    A loss file writes `per_sample` (or, for a batch statistic, `evaluate`) and registers itself;
    shapes, labels, ignored ones, half precision, weights and reductions are handled here.

    Args:
        num_classes: C, at least 2.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: one non-negative weight per class; sample n counts ``weight[y_n]``. ``"mean"``
            divides by the sum of the weights.
        ignore_index: samples with this label do not count; ``None`` refuses all labels but 0..C-1.

    Raises:
        InputError: if an argument cannot be used.
    """

    card: ClassVar[LossCard]
    term: ClassVar[str] = "loss"  # what `parts` calls this loss
    soft_labels: bool = True  # whether y may be label distributions, of the shape of the logits
    dense: bool = False  # whether `evaluate` takes (n, C, ...) as it is; else it gets rows
    default_strength: ClassVar[float] = 1.0  # the factor of this term in a sum
    head: ClassVar[str] = "linear"  # which of `orcu.models.heads.HEADS` it takes the output of
    batch_statistic: bool = False  # whether the value is no mean over samples
    stops_gradient: ClassVar[bool] = False  # whether autograd sees less than the whole derivative
    shift_invariant: ClassVar[bool] = True  # whether z + constant has the same value as z

    def __init__(
        self,
        num_classes: int,
        *,
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = IGNORED,
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
        """The loss of a batch; a sample is a row, or a pixel, voxel or token of a dense output.

        Args:
            logits: shape (n, C), (n, C, d1, ...) or (C,), any floating type. Half types are computed in float32.
            y: integer labels 0..C-1 (or ``ignore_index``), shape (n,), (n, d1, ...) or (); or label distributions of
                the shape of the logits, for which the loss is the average over labels.
            sample_weight: of the shape of the labels, non-negative; multiplies the class weights. With label
                distributions a sample's class weight is the average over its labels.

        Returns:
            A scalar, or the shape of the labels with ``reduction="none"``; float32 for half inputs. Ignored samples
            have the value 0 and no gradient, and a mean is over the others. Where all are ignored it is 0
            (torch's is NaN, which no training survives).

        Raises:
            InputError: if shapes, types, labels or weights do not fit. Under `torch.compile` and
                `torch.func` only shapes and types are checked; on CUDA a bad label trips an
                asynchronous assertion.
        """
        ignored = self._check(logits, y, sample_weight)
        device = "cpu" if logits.is_cpu else logits.device.type  # the type's name takes as long as an addition
        if torch.is_autocast_enabled(device):  # or the products in here would be taken in half
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
        if ignored is not None:  # what is left out may be anything, NaN too
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

    if TYPE_CHECKING:  # of a module it would be Any

        def __call__(self, logits: Tensor, y: Tensor, *, sample_weight: Tensor | None = None) -> Tensor: ...  # noqa: D102

    def per_sample(self, logits: Tensor, y: Tensor) -> Tensor:
        """The unweighted loss of each sample: checked (n, C) logits and (n,) labels to (n,)."""
        if type(self).evaluate is OrdinalLoss.evaluate:
            raise TypeError(f"{type(self).__name__} must define per_sample or evaluate")
        return self.evaluate(logits, y, None, "none")

    def evaluate(self, logits: Tensor, y: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
        """The reduced loss; a batch statistic or a fused kernel defines this instead of `per_sample`."""
        value = reduce(self.per_sample(logits, y), weight, reduction)
        self.record({self.term: value})
        return value

    @property
    def needs_head(self) -> bool:
        """Whether it takes the output of its own head, not logits."""
        return self.head != OrdinalLoss.head

    @property
    def parts(self) -> dict[str, Tensor]:
        """After a forward: each term of the loss, reduced like the loss and detached."""
        if self._part_numbers is not None:
            numbers, dtype = self._part_numbers
            self._parts = {name: torch.tensor(value, dtype=dtype) for name, value in numbers.items()}
            self._part_numbers = None
        return self._parts

    def set_parts(self, numbers: dict[str, float], dtype: torch.dtype) -> None:
        """Keep the parts of a value on the CPU as numbers: most steps of a training do not look at them."""
        self.__dict__["_part_numbers"] = numbers, dtype  # modules look long at what is set

    def record(self, parts: dict[str, Tensor]) -> None:
        """Keep the parts of the value for logging; under `torch.func` they are not tensors to keep."""
        if not torch._C._are_functorch_transforms_active():
            self._parts, self._part_numbers = {name: value.detach() for name, value in parts.items()}, None

    def add_table(self, name: str, values: FloatArray) -> None:
        """Keep a constant table as a buffer in float64; it follows the device, not the type."""
        self.register_buffer(name, torch.from_numpy(values.copy()), persistent=False)

    def table(self, name: str, like: Tensor, *, transpose: bool = False) -> Tensor:
        """The table in the type and on the device of ``like``, converted once."""
        key = (name, like.dtype, like.device, transpose)
        kept = self._cast_tables.get(key)
        if kept is None or is_traced():
            kept = self.get_buffer(name).to(device=like.device, dtype=like.dtype)
            kept = kept.t().contiguous() if transpose else kept
            if not is_traced() and not torch.is_inference_mode_enabled():
                self._cast_tables[key] = kept
        return kept

    def array(self, name: str, dtype: np.dtype[Any]) -> FloatArray:
        """The table as an array of numpy's, converted once."""
        kept = self._cast_tables.get((name, dtype))
        if kept is None:
            kept = self._cast_tables[name, dtype] = self.get_buffer(name).numpy().astype(dtype)
        return kept

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "OrdinalLoss":
        # `.half()` must not round the tables, and `.to("mps")` must not fail on float64: they take
        # only the device from fn, and the widest type that it has.
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
        """Refuse what cannot be used; the mask of the labels that are ignored, or ``None`` if there are none."""
        if not isinstance(logits, Tensor) or not logits.is_floating_point():
            raise InputError(f"logits: expected a floating-point tensor, got {_describe(logits)}.")
        shape, num_classes = tuple(logits.shape), self.num_classes
        if not shape or shape[min(1, len(shape) - 1)] != num_classes:
            raise InputError(
                f"logits: expected shape (n, {num_classes}) or (n, {num_classes}, ...) for {num_classes} classes, "
                f"got {shape}."
            )
        if 0 in shape:
            raise InputError("logits: the batch is empty; a loss needs at least one row.")
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
        if sample_weight is not None and not sample_weight.is_cuda and not is_traced():
            lowest, highest = torch.aminmax(sample_weight)
            if not (lowest.item() >= 0 and 0 < highest.item() < math.inf):
                raise InputError(
                    "sample_weight: expected finite weights of at least 0, not all 0; "
                    f"got values from {lowest.item():g} to {highest.item():g}."
                )
        if not soft:
            return self._ignored(_long(y))
        if not is_traced():
            self._check_distributions(y)
        return None

    def _ignored(self, y: Tensor) -> Tensor | None:
        if is_traced():
            return None if self.ignore_index is None else y == self.ignore_index
        on_cuda = y.is_cuda  # where an eager look would stall the GPU at every step
        if not on_cuda and (self.ignore_index is None or not 0 <= self.ignore_index < self.num_classes):
            lowest, highest = torch.aminmax(y)
            if lowest.item() >= 0 and highest.item() < self.num_classes:
                return None
        bad, ignored = (y < 0) | (y >= self.num_classes), None
        if self.ignore_index is not None:
            ignored = y == self.ignore_index
            bad &= ~ignored
        if on_cuda:
            torch._assert_async(~bad.any(), f"y: a label lies outside 0..{self.num_classes - 1}")
            return ignored
        if bad.any():
            place = np.unravel_index(int(bad.flatten().int().argmax()), tuple(y.shape))
            row = int(place[0]) if len(place) == 1 else tuple(int(at) for at in place)
            raise InputError(label_out_of_range("y", row, int(y[place]), self.num_classes))
        return ignored if ignored is not None and ignored.any() else None

    def _check_distributions(self, y: Tensor) -> None:
        tolerance = max(SUM_TOLERANCE, self.num_classes * torch.finfo(y.dtype).eps / 2)
        y = as_rows(y)
        bad = ~((y >= 0).all(1) & ((y.float().sum(1) - 1).abs() <= tolerance))  # NaN is bad too
        if y.is_cuda:
            torch._assert_async(~bad.any(), "y: a row is not a distribution over the classes")
        elif bad.any():
            row = int(bad.int().argmax())
            raise InputError(
                f"y: row {row} is {[round(v, 4) for v in y[row].tolist()]}, expected a distribution over "
                f"{self.num_classes} classes: values of at least 0 that sum to 1."
            )


def _long(y: Tensor) -> Tensor:
    """Labels as int64, which most are: to ask is quicker than to call."""
    return y if y.dtype is torch.int64 else y.long()


def is_traced() -> bool:
    """Whether a compiler or a function transform looks on: nothing may depend on values or be kept."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def labels_shape(logits: Tensor) -> tuple[int, ...]:
    """The shape of the labels of (n, C), (n, C, d1, ...) or (C,) logits."""
    shape = tuple(logits.shape)
    return shape[:1] + shape[2:] if len(shape) > 1 else ()


def as_rows(dense: Tensor) -> Tensor:
    """(n, C, d1, ...) as (n d1 ..., C), and (C,) as (1, C)."""
    return dense.movedim(1, -1).flatten(0, -2) if dense.dim() > 1 else dense[None]


def register_loss(card: LossCard) -> Callable[[LossT], LossT]:
    """Decorator that gives a loss its card and files it under the card's name."""
    return _registrar(LOSSES, card)


def register_regularizer(card: LossCard) -> Callable[[LossT], LossT]:
    """Decorator that gives a regularizer its card and files it under the card's name."""
    return _registrar(REGULARIZERS, card)


def _registrar(registry: "Registry[type[OrdinalLoss]]", card: LossCard) -> Callable[[LossT], LossT]:
    def add(loss: LossT) -> LossT:
        parameters = parameters_of(loss).values()
        defaults = {p.name: p.default for p in parameters if p.name not in _COMMON_OPTIONS}
        loss.card = dataclasses.replace(card, defaults=defaults)
        if loss.term == OrdinalLoss.term:
            loss.term = card.name
        registry.register(card.name)(loss)
        return loss

    return add


def reduce(values: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """Weigh and reduce per-sample values; ``"mean"`` divides by the sum of the weights, and is 0 where that is 0.

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
    return f"{type(value).__name__}"


LOSSES: Registry[type[OrdinalLoss]] = Registry("loss", package="orcu.losses", plugins="orcu.losses")
REGULARIZERS: Registry[type[OrdinalLoss]] = Registry("regularizer", package="orcu.losses", plugins="orcu.losses")
