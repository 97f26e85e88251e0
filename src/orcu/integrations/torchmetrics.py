"""Metrics for torchmetrics and Lightning whose state is a `Tally`: integers that are summed over processes."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from orcu.errors import InputError, UnknownNameError, require

require("torchmetrics", extra=None, what="orcu.integrations.torchmetrics")

import torchmetrics  # noqa: E402

from orcu.evaluation.tally import Tally  # noqa: E402
from orcu.inputs import as_matrix, refuse_distributions  # noqa: E402
from orcu.metrics.base import all_metrics  # noqa: E402

INPUTS = ("logits", "probs")
_NEEDS_ALL_ROWS = "ace"


def names() -> list[str]:
    """The metrics that follow from sums, in the order of a report: all but the adaptive error (ACE).

    Example:
        >>> names()[:3]
        ['ece', 'sce', 'threshold_ce']
    """
    return [metric.name for metric in all_metrics() if metric.name != _NEEDS_ALL_ROWS]


class _Tallied(torchmetrics.Metric):
    """The state that both classes share: the limbs of a tally and its row count, as int64, summed."""

    is_differentiable = False
    full_state_update = False
    limbs: Tensor
    rows: Tensor

    def __init__(self, num_classes: int, *, bins: int, inputs: str, **options: Any) -> None:
        super().__init__(**options)
        if inputs not in INPUTS:
            raise UnknownNameError("kind of inputs", inputs, INPUTS)
        empty = Tally(num_classes, bins=bins)
        self.num_classes, self.bins, self.inputs = empty.num_classes, empty.bins, inputs
        self.add_state("limbs", torch.from_numpy(empty.limbs), dist_reduce_fx="sum")
        self.add_state("rows", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, preds: Tensor, target: Tensor, weight: Tensor | None = None) -> None:
        """Add rows.

        Args:
            preds: logits or probabilities, as ``inputs`` says, shape (n, C).
            target: labels 0..C-1, shape (n,).
            weight: one non-negative weight per row.

        Raises:
            InputError: if an argument cannot be used; the text names the row.
        """
        if self.inputs == "logits":
            hint = "Say inputs='probs' when making the metric, or hand over the logits."
            refuse_distributions(as_matrix(preds, name="preds"), name="preds", hint=hint)
        batch = Tally(self.num_classes, bins=self.bins)
        batch.update(y=target, weight=weight, **{self.inputs: preds})
        self.limbs = self.limbs + torch.from_numpy(batch.limbs).to(self.limbs.device)
        self.rows = self.rows + batch.rows

    def tally(self) -> Tally:
        """The rows of this process (inside `compute`: of all processes) as a `Tally`."""
        return Tally.of_limbs(self.num_classes, self.limbs.cpu().numpy(), rows=int(self.rows), bins=self.bins)

    def set_dtype(self, dst_type: str | torch.dtype) -> "_Tallied":
        """Nothing: the sums are integers and stay so, or they would not be exact."""
        return self

    def _as_tensor(self, value: float) -> Tensor:
        # float64 keeps the bits; Apple's GPUs do not have it
        kind = torch.float32 if self.limbs.device.type == "mps" else torch.float64
        return torch.tensor(value, dtype=kind, device=self.limbs.device)


class OrdinalMetrics(_Tallied):
    """All metrics of orcu at once, from one pass and a state of a few thousand integers.

    The state is summed over processes, and sums of integers do not depend on their order: however
    the rows are split, ordered or spread over machines, the results are the same to the last bit. (A
    `DistributedSampler` that repeats rows to fill the last batch changes the rows, not the sums.)

    The adaptive calibration error (ACE) is left out: it needs the sorted order of all rows, which no
    sum holds. `orcu.evaluate` has it.

    Args:
        num_classes: how many classes, C.
        bins: B of the binned errors; the paper does not say, 15 is usual.
        names: which metrics, see `names`; all by default.
        prefix: put before each name, such as ``"val_"``.
        inputs: what `update` is given: "logits" or "probs". It is never guessed.
        options: those of `torchmetrics.Metric`.

    Raises:
        InputError: if an argument cannot be used.

    Example:
        >>> metric = OrdinalMetrics(num_classes=3, names=["accuracy", "mae"], prefix="val_")
        >>> metric.update(torch.tensor([[2.0, 0.0, -1.0], [0.0, 1.0, 3.0]]), torch.tensor([0, 1]))
        >>> {name: value.item() for name, value in metric.compute().items()}
        {'val_accuracy': 0.5, 'val_mae': 0.5}
    """

    def __init__(
        self,
        num_classes: int,
        bins: int = 15,
        names: Sequence[str] | None = None,
        prefix: str = "",
        *,
        inputs: str = "logits",
        **options: Any,
    ) -> None:
        super().__init__(num_classes, bins=bins, inputs=inputs, **options)
        self.names = _checked(names)
        self.prefix = prefix

    def compute(self) -> dict[str, Tensor]:
        """The metrics by name, float64.

        Raises:
            InputError: if no row was added.
        """
        values = self.tally().compute()
        return {f"{self.prefix}{name}": self._as_tensor(values[name]) for name in self.names}


class OrdinalMetric(_Tallied):
    """One metric of orcu by name; several of them in a `MetricCollection` share one state.

    Args:
        name: one of `names`, such as "sce", "rps", "qwk" or "unimodality".
        num_classes: how many classes, C.
        bins: B of the binned errors.
        inputs: what `update` is given: "logits" or "probs".
        options: those of `torchmetrics.Metric`.

    Raises:
        InputError: if an argument cannot be used, or the metric does not follow from sums.

    Example:
        >>> metric = OrdinalMetric("sce", num_classes=2, inputs="probs")
        >>> metric.update(torch.tensor([[0.9, 0.1], [0.8, 0.2]]), torch.tensor([0, 1]))
        >>> round(metric.compute().item(), 4)
        0.45
    """

    def __init__(self, name: str, num_classes: int, bins: int = 15, *, inputs: str = "logits", **options: Any) -> None:
        super().__init__(num_classes, bins=bins, inputs=inputs, **options)
        (self.name,) = _checked([name])

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]  # theirs is of the class
        """Which way is better; ``None`` for a metric that is best at 0 or only describes."""
        better = {metric.name: metric.better for metric in all_metrics()}[self.name]
        return {"higher": True, "lower": False}.get(better)

    def compute(self) -> Tensor:
        """The metric, float64.

        Raises:
            InputError: if no row was added.
        """
        return self._as_tensor(self.tally().compute()[self.name])


def _checked(asked: Sequence[str] | None) -> list[str]:
    if asked is None:
        return names()
    if isinstance(asked, str) or not asked:
        raise InputError(f"names: expected names such as ['sce', 'mae'], got {asked!r}.")
    for name in asked:
        if name == _NEEDS_ALL_ROWS:
            raise InputError(
                "names: 'ace' needs the sorted order of all rows and cannot be summed over batches; "
                "keep the predictions and use orcu.metrics.ace or orcu.evaluate."
            )
        if name not in names():
            raise UnknownNameError("metric", name, names())
    return list(asked)
