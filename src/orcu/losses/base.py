"""What every loss shares: the checks, the weights, the reduction, the tables, the card."""

import dataclasses
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from orcu.errors import InputError, UnknownNameError
from orcu.inputs import SUM_TOLERANCE, FloatArray, as_count, label_out_of_range
from orcu.registry import Registry

REDUCTIONS = ("mean", "sum", "none")
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_COMMON_OPTIONS = ("num_classes", "reduction", "weight")

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
    shapes, labels, half precision, weights and reductions are handled here.

    Args:
        num_classes: C, at least 2.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: one non-negative weight per class; sample n counts ``weight[y_n]``. ``"mean"``
            divides by the sum of the weights.

    Raises:
        InputError: if an argument cannot be used.
    """

    card: ClassVar[LossCard]
    term: ClassVar[str] = "loss"  # what `parts` calls this loss
    soft_labels: bool = True  # whether y may be label distributions, shape (n, C)
    default_strength: ClassVar[float] = 1.0  # the factor of this term in a sum
    head: ClassVar[str] = "linear"  # which of `orcu.models.heads.HEADS` it takes the output of
    batch_statistic: bool = False  # whether the value is no mean over samples
    stops_gradient: ClassVar[bool] = False  # whether autograd sees less than the whole derivative
    shift_invariant: ClassVar[bool] = True  # whether z + constant has the same value as z

    def __init__(
        self, num_classes: int, *, reduction: str = "mean", weight: Sequence[float] | Tensor | None = None
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
        self.reduction = reduction
        self._parts: dict[str, Tensor] = {}
        self._part_numbers: tuple[dict[str, float], torch.dtype] | None = None
        self._cast_tables: dict[tuple[Any, ...], Any] = {}
        self.weighted = weight is not None
        if weight is not None:
            self.add_table("weight", _class_weights(weight, self.num_classes))

    def forward(self, logits: Tensor, y: Tensor, *, sample_weight: Tensor | None = None) -> Tensor:
        """The loss of a batch.

        Args:
            logits: shape (n, C), any floating type. Half types are computed in float32.
            y: integer labels 0..C-1, shape (n,); or label distributions, shape (n, C), for which
                the loss is the average over labels.
            sample_weight: shape (n,), non-negative; multiplies the class weights. With label
                distributions a sample's class weight is the average over its labels.

        Returns:
            A scalar, or shape (n,) with ``reduction="none"``; float32 for half inputs.

        Raises:
            InputError: if shapes, types, labels or weights do not fit. Under `torch.compile` and
                `torch.func` only shapes and types are checked; on CUDA a bad label trips an
                asynchronous assertion.
        """
        self._check(logits, y, sample_weight)
        device = logits.device.type
        if torch.is_autocast_enabled(device):  # or the products in here would be taken in half
            with torch.autocast(device, enabled=False):
                return self.forward(logits, y, sample_weight=sample_weight)
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        y = y.to(logits.dtype) if y.is_floating_point() else y.long()
        weight = self._weights(logits, y, sample_weight)
        return self.evaluate(logits, y, weight, self.reduction)

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
            weight = table.index_select(0, y) if y.dim() == 1 else y @ table
        if sample_weight is None:
            return weight
        sample_weight = sample_weight.to(logits.dtype)
        return sample_weight if weight is None else weight * sample_weight

    def _check(self, logits: Tensor, y: Tensor, sample_weight: Tensor | None) -> None:
        if not isinstance(logits, Tensor) or not logits.is_floating_point():
            raise InputError(f"logits: expected a floating-point tensor, got {_describe(logits)}.")
        if logits.dim() != 2 or logits.shape[1] != self.num_classes:
            raise InputError(
                f"logits: expected shape (n, {self.num_classes}) for {self.num_classes} classes, "
                f"got {tuple(logits.shape)}."
            )
        if logits.shape[0] == 0:
            raise InputError("logits: the batch is empty; a loss needs at least one row.")
        soft = isinstance(y, Tensor) and y.is_floating_point() and y.dim() == 2
        if soft and not self.soft_labels:
            raise InputError(f"y: {type(self).__name__} takes integer labels, not label distributions.")
        if not soft and (not isinstance(y, Tensor) or y.dtype not in _INTEGERS):
            raise InputError(
                f"y: expected a tensor of integer labels 0..{self.num_classes - 1}, got {_describe(y)}."
                + (" Labels stored as floats need `y.long()`." if isinstance(y, Tensor) else "")
            )
        if y.shape != (logits.shape if soft else logits.shape[:1]):
            raise InputError(
                f"y: expected integer labels of shape ({logits.shape[0]},), or floating-point label "
                f"distributions of shape {tuple(logits.shape)}; got {_describe(y)}."
            )
        if sample_weight is not None and (
            not isinstance(sample_weight, Tensor) or sample_weight.shape != logits.shape[:1]
        ):
            raise InputError(
                f"sample_weight: expected a tensor of shape ({logits.shape[0]},), got {_describe(sample_weight)}."
            )
        if not is_traced():
            self._check_distributions(y) if soft else self._check_labels(y.long())
            if sample_weight is not None and sample_weight.device.type != "cuda":
                lowest, highest = torch.aminmax(sample_weight)
                if not (lowest.item() >= 0 and 0 < highest.item() < math.inf):
                    raise InputError(
                        "sample_weight: expected finite weights of at least 0, not all 0; "
                        f"got values from {lowest.item():g} to {highest.item():g}."
                    )

    def _check_labels(self, y: Tensor) -> None:
        if y.device.type == "cuda":  # an eager check would stall the GPU at every step
            inside = ((y >= 0) & (y < self.num_classes)).all()
            torch._assert_async(inside, f"y: a label lies outside 0..{self.num_classes - 1}")
            return
        labels = (y if y.device.type == "cpu" else y.cpu()).numpy()
        if int(labels.view(np.uint64).max()) >= self.num_classes:  # negative ones are the largest of these
            row = int(((y < 0) | (y >= self.num_classes)).int().argmax())
            raise InputError(label_out_of_range("y", row, int(y[row]), self.num_classes))

    def _check_distributions(self, y: Tensor) -> None:
        tolerance = max(SUM_TOLERANCE, self.num_classes * torch.finfo(y.dtype).eps / 2)
        bad = ~((y >= 0).all(1) & ((y.float().sum(1) - 1).abs() <= tolerance))  # NaN is bad too
        if y.device.type == "cuda":
            torch._assert_async(~bad.any(), "y: a row is not a distribution over the classes")
        elif bad.any():
            row = int(bad.int().argmax())
            raise InputError(
                f"y: row {row} is {[round(v, 4) for v in y[row].tolist()]}, expected a distribution over "
                f"{self.num_classes} classes: values of at least 0 that sum to 1."
            )


def is_traced() -> bool:
    """Whether a compiler or a function transform looks on: nothing may depend on values or be kept."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def register_loss(card: LossCard) -> Callable[[LossT], LossT]:
    """Decorator that gives a loss its card and files it under the card's name."""
    return _registrar(LOSSES, card)


def register_regularizer(card: LossCard) -> Callable[[LossT], LossT]:
    """Decorator that gives a regularizer its card and files it under the card's name."""
    return _registrar(REGULARIZERS, card)


def _registrar(registry: "Registry[type[OrdinalLoss]]", card: LossCard) -> Callable[[LossT], LossT]:
    def add(loss: LossT) -> LossT:
        parameters = inspect.signature(loss).parameters.values()
        defaults = {p.name: p.default for p in parameters if p.name not in _COMMON_OPTIONS}
        loss.card = dataclasses.replace(card, defaults=defaults)
        if loss.term == OrdinalLoss.term:
            loss.term = card.name
        registry.register(card.name)(loss)
        return loss

    return add


def reduce(values: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """Weigh and reduce per-sample values; ``"mean"`` divides by the sum of the weights.

    Deviation: torch's cross-entropy with probability targets divides by n instead.
    """
    if weight is not None:
        values = values * weight
    if reduction == "none":
        return values
    if reduction == "sum":
        return values.sum()
    return values.mean() if weight is None else values.sum() / weight.sum()


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
