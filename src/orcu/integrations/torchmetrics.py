"""Metrics for torchmetrics and Lightning; their state is a `Tally`, integers that are summed over processes."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from orcu.errors import InputError, UnknownNameError, require

require("torchmetrics", extra=None, feature="orcu.integrations.torchmetrics")

import torchmetrics  # noqa: E402

from orcu.evaluation.tally import Tally  # noqa: E402
from orcu.inputs import as_matrix, check_not_probs  # noqa: E402
from orcu.metrics.base import METRICS, all_metrics  # noqa: E402

INPUTS = ("logits", "probs")
_NEEDS_ALL_ROWS = "ace"


def names() -> list[str]:
    """Names of the metrics that can be summed over batches: all but the adaptive calibration error (ACE).

    Example:
        >>> names()[:3]
        ['ece', 'sce', 'threshold_ce']
    """
    return [metric.name for metric in all_metrics() if metric.name != _NEEDS_ALL_ROWS]


class OrdinalMetrics(torchmetrics.Metric):
    """All metrics of orcu from one pass, with a state of a few thousand integers.

    The state is summed over processes. Sums of integers do not depend on their order, so the results are the same to
    the last bit for any split and order of the rows. (A `DistributedSampler` that repeats rows to fill the last batch
    changes the rows.) The adaptive calibration error (ACE) is left out, because it needs the sorted order of all rows;
    `orcu.evaluate` computes it.

    Args:
        num_classes: number of classes.
        n_bins: number of bins of the binned errors; the paper does not state it, 15 is usual.
        names: names of the metrics, see `names`; all by default.
        prefix: prefix of each name in the result, such as ``"val_"``.
        inputs: kind of the predictions in `update`, "logits" or "probs"; it is never guessed.
        options: options of `torchmetrics.Metric`.

    Raises:
        InputError: if an argument is invalid.

    Example:
        >>> metric = OrdinalMetrics(num_classes=3, names=["accuracy", "mae"], prefix="val_")
        >>> metric.update(torch.tensor([[2.0, 0.0, -1.0], [0.0, 1.0, 3.0]]), torch.tensor([0, 1]))
        >>> {name: value.item() for name, value in metric.compute().items()}
        {'val_accuracy': 0.5, 'val_mae': 0.5}
    """

    is_differentiable = False
    full_state_update = False
    sums: Tensor
    rows: Tensor

    def __init__(
        self,
        num_classes: int,
        n_bins: int = 15,
        names: Sequence[str] | None = None,
        prefix: str = "",
        *,
        inputs: str = "logits",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if inputs not in INPUTS:
            raise UnknownNameError("kind of inputs", inputs, INPUTS)
        empty = Tally(num_classes, n_bins=n_bins)
        self.num_classes, self.n_bins, self.inputs = empty.num_classes, empty.n_bins, inputs
        self.names, self.prefix = _check_names(names), prefix
        self.add_state("sums", torch.from_numpy(empty.state), dist_reduce_fx="sum")
        self.add_state("rows", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> None:
        """Add rows.

        Args:
            preds: logits or probabilities, depending on ``inputs``, shape (n, C).
            target: labels 0..C-1, shape (n,).
            sample_weight: non-negative weight of each row.

        Raises:
            InputError: if an argument is invalid; the message names the row.
        """
        if self.inputs == "logits":
            hint = "Create the metric with inputs='probs', or pass logits."
            check_not_probs(as_matrix(preds, name="preds"), name="preds", hint=hint)
        batch = Tally(self.num_classes, n_bins=self.n_bins)
        batch.update(y=target, sample_weight=sample_weight, **{self.inputs: preds})
        self.sums = self.sums + torch.from_numpy(batch.state).to(self.sums.device)
        self.rows = self.rows + batch.rows

    def tally(self) -> Tally:
        """The rows of this process as a `Tally`; inside `compute`, those of all processes."""
        return Tally.from_state(self.num_classes, self.sums.cpu().numpy(), rows=int(self.rows), n_bins=self.n_bins)

    def set_dtype(self, dst_type: str | torch.dtype) -> "OrdinalMetrics":
        """No effect: the sums stay integers, which makes them exact."""
        return self

    def compute(self) -> Any:
        """The metrics by name, in float64.

        Raises:
            InputError: if no rows were added.
        """
        # float64 keeps all bits; Apple GPUs do not support it
        dtype = torch.float32 if self.sums.device.type == "mps" else torch.float64
        values, device = self.tally().compute(), self.sums.device
        return {self.prefix + name: torch.tensor(values[name], dtype=dtype, device=device) for name in self.names}


class OrdinalMetric(OrdinalMetrics):
    """One metric of orcu by name; several of them in a `MetricCollection` share one state.

    Args:
        name: name of the metric, see `names`, such as "sce", "rps", "qwk" or "unimodality".
        num_classes: number of classes.
        n_bins: number of bins of the binned errors.
        inputs: kind of the predictions in `update`, "logits" or "probs".
        options: options of `torchmetrics.Metric`.

    Raises:
        InputError: if an argument is invalid, or the metric cannot be summed over batches.

    Example:
        >>> metric = OrdinalMetric("sce", num_classes=2, inputs="probs")
        >>> metric.update(torch.tensor([[0.9, 0.1], [0.8, 0.2]]), torch.tensor([0, 1]))
        >>> round(metric.compute().item(), 4)
        0.45
    """

    def __init__(
        self, name: str, num_classes: int, n_bins: int = 15, *, inputs: str = "logits", **options: Any
    ) -> None:
        super().__init__(num_classes, n_bins, [name], inputs=inputs, **options)
        self.name = name

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]  # a class attribute in torchmetrics
        """Direction of the metric; ``None`` if it is best at 0 or only descriptive."""
        return {"higher": True, "lower": False}.get(METRICS.get(self.name).better)

    def compute(self) -> Tensor:
        """The metric, in float64."""
        value: Tensor = super().compute()[self.name]
        return value


def _check_names(selected: Sequence[str] | None) -> list[str]:
    if selected is None:
        return names()
    if isinstance(selected, str) or not selected:
        raise InputError(f"names: expected names such as ['sce', 'mae'], got {selected!r}.")
    if _NEEDS_ALL_ROWS in selected:
        raise InputError(
            "names: 'ace' needs the sorted order of all rows and cannot be summed over batches; store the predictions "
            "and use orcu.metrics.ace or orcu.evaluate."
        )
    all_metrics(selected)  # refuses unknown names
    return list(selected)
