"""``compute_loss_func``, ``compute_metrics`` and `best_model` for the `Trainer` of Hugging Face transformers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from orcu.errors import InputError, require

require("torch", extra="train", feature="orcu.integrations.transformers")

from torch import Tensor  # noqa: E402

from orcu import geometry, losses  # noqa: E402
from orcu.evaluation.tally import Tally  # noqa: E402
from orcu.inputs import as_logits  # noqa: E402
from orcu.metrics import ace  # noqa: E402
from orcu.metrics.base import METRICS, all_metrics  # noqa: E402


def compute_loss_func(
    loss: str | Mapping[str, Any] = "orcu", *, num_classes: int, **options: Any
) -> Callable[..., Tensor]:
    """Create the argument ``compute_loss_func`` of `Trainer` from a loss of orcu.

    The sum over the rows is divided by ``num_items_in_batch``, the number of rows of the accumulated batch on all
    devices, so that gradients do not depend on how the batch is split. Class weights multiply the loss of each row;
    the divisor stays the number of rows, because the weights of the other parts are unknown.

    Args:
        loss: name or spec of the loss, see `orcu.losses.create`.
        num_classes: number of classes.
        options: options of the loss, such as ``scale`` or ``weight``, without ``reduction``.

    Raises:
        InputError: if an argument is invalid, or the loss needs a special head (POE).

    Example:
        >>> import torch
        >>> function = compute_loss_func("ce", num_classes=2)
        >>> outputs = {"logits": torch.zeros(2, 2)}
        >>> round(function(outputs, torch.tensor([0, 1]), num_items_in_batch=4).item(), 4)
        0.3466
    """
    if "reduction" in options:
        raise InputError("reduction: not an option here, because Trainer averages over the accumulated batch.")
    criterion = losses.create(loss, num_classes=num_classes, reduction="sum", **options)
    if criterion.needs_head:
        raise InputError(f"loss: {loss!r} needs a special model head, which models of transformers do not have.")

    def function(outputs: Any, labels: Tensor | None, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        if labels is None:
            raise InputError("labels: the batch has no labels; the data collator must return 'labels'.")
        n_rows = len(labels) if num_items_in_batch is None else num_items_in_batch
        total: Tensor = criterion(_logits(outputs), labels)
        return total / n_rows

    return function


def compute_metrics(
    num_classes: int, names: Sequence[str] | None = None, *, n_bins: int = 15
) -> Callable[..., dict[str, float]]:
    """Create the argument ``compute_metrics`` of `Trainer` from metrics of orcu.

    With ``TrainingArguments(batch_eval_metrics=True)`` the rows are summed batch by batch in constant memory. The
    adaptive calibration error (ACE), which needs all rows at once, is then left out.

    Args:
        num_classes: number of classes.
        names: names of the metrics; all by default.
        n_bins: number of bins of the binned errors.

    Raises:
        InputError: if a name is unknown, or ACE is requested batch by batch.

    Example:
        >>> import numpy as np
        >>> from types import SimpleNamespace
        >>> prediction = SimpleNamespace(predictions=np.array([[1.0, 0.0]]), label_ids=np.array([0]))
        >>> compute_metrics(2, ["accuracy", "mae"])(prediction)
        {'accuracy': 1.0, 'mae': 0.0}
    """
    all_metrics(names or ())  # refuses unknown names now, not after the first epoch
    running = Tally(num_classes, n_bins=n_bins)

    def function(prediction: Any, compute_result: bool | None = None) -> dict[str, float]:
        nonlocal running
        outputs = prediction.predictions
        logits = as_logits(outputs[0] if isinstance(outputs, tuple | list) else outputs, name="predictions")
        running.update(logits=logits, y=prediction.label_ids)
        if compute_result is False:  # a batch before the last one
            return {}
        tally, running = running, Tally(num_classes, n_bins=n_bins)
        values = tally.compute()
        if compute_result is None:  # all rows at once
            values["ace"] = ace(geometry.probs(logits), prediction.label_ids, n_bins=n_bins)
        else:
            del values["ace"]
            if names is not None and "ace" in names:
                raise InputError("names: 'ace' needs all rows at once; leave it out with batch_eval_metrics=True.")
        return {name: values[name] for name in names or values}

    return function


def best_model(metric: str) -> dict[str, Any]:
    """Arguments of `TrainingArguments` that keep the checkpoint with the best value of a metric.

    Trainer takes higher values as better for every name that does not end in "loss", so ``metric_for_best_model="rps"``
    alone would keep the worst checkpoint.

    Args:
        metric: name of a metric of `compute_metrics`.

    Raises:
        InputError: if the name is unknown, or no direction of the metric is better.

    Example:
        >>> best_model("rps")
        {'load_best_model_at_end': True, 'metric_for_best_model': 'rps', 'greater_is_better': False}
    """
    better = METRICS.get(metric).better
    if better not in ("higher", "lower"):
        raise InputError(f"metric: {metric!r} has no better direction; choose another metric, such as 'rps'.")
    return {"load_best_model_at_end": True, "metric_for_best_model": metric, "greater_is_better": better == "higher"}


def _logits(outputs: Any) -> Tensor:
    """Logits of the output of a transformers model: an output object, a dict or a tuple."""
    if isinstance(outputs, Mapping):
        logits: Tensor = outputs["logits"]
    else:
        logits = outputs.logits if hasattr(outputs, "logits") else outputs[0]
    return logits
