"""For Hugging Face's `Trainer`: a loss as ``compute_loss_func`` and metrics as ``compute_metrics``."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from orcu.errors import InputError, UnknownNameError, require

require("torch", extra="train", what="orcu.integrations.transformers")

from torch import Tensor  # noqa: E402

from orcu import geometry, losses  # noqa: E402
from orcu.evaluation.tally import Tally  # noqa: E402
from orcu.inputs import as_logits  # noqa: E402
from orcu.metrics import ace  # noqa: E402
from orcu.metrics.base import all_metrics  # noqa: E402


def compute_loss_func(
    loss: str | Mapping[str, Any] = "orcu", *, num_classes: int, **options: Any
) -> Callable[..., Tensor]:
    """A loss of orcu in the form that ``Trainer(compute_loss_func=...)`` takes.

    The sum over the rows is divided by ``num_items_in_batch``, the number of rows of the whole
    accumulated batch on all devices, so that gradients do not depend on how a batch was cut up. Class weights
    multiply each row's loss; the divisor stays the number of rows, since the sum of the weights of
    the other parts is not known.

    Args:
        loss: a name or spec, see `orcu.losses.create`.
        num_classes: how many classes, C.
        options: of the loss, such as ``scale`` or ``weight``; the reduction is chosen here.

    Raises:
        InputError: if an argument cannot be used, or the loss needs a head of its own (POE).

    Example:
        >>> import torch
        >>> function = compute_loss_func("ce", num_classes=2)
        >>> outputs = {"logits": torch.zeros(2, 2)}
        >>> round(function(outputs, torch.tensor([0, 1]), num_items_in_batch=4).item(), 4)
        0.3466
    """
    if "reduction" in options:
        raise InputError("reduction: Trainer's sum over the accumulated batch leaves no choice.")
    criterion = losses.create(loss, num_classes=num_classes, reduction="sum", **options)
    if criterion.needs_head:
        raise InputError(f"loss: {loss!r} needs a head of its own; models of transformers lack it.")

    def function(outputs: Any, labels: Tensor | None, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        if labels is None:
            raise InputError("labels: the batch has none; the collator must give 'labels'.")
        rows = len(labels) if num_items_in_batch is None else num_items_in_batch
        total: Tensor = criterion(_logits(outputs), labels)
        return total / rows

    return function


def compute_metrics(
    num_classes: int, names: Sequence[str] | None = None, *, bins: int = 15
) -> Callable[..., dict[str, float]]:
    """Metrics of orcu in the form that ``Trainer(compute_metrics=...)`` takes.

    With ``TrainingArguments(batch_eval_metrics=True)`` the rows are tallied batch by batch in constant
    memory; then the adaptive calibration error (ACE), which needs all rows at once, is left out.

    Args:
        num_classes: how many classes, C.
        names: which metrics; all by default.
        bins: B of the binned errors.

    Raises:
        InputError: if a name is unknown, or ACE is asked for batch by batch.

    Example:
        >>> import numpy as np
        >>> from types import SimpleNamespace
        >>> prediction = SimpleNamespace(predictions=np.array([[1.0, 0.0]]), label_ids=np.array([0]))
        >>> compute_metrics(2, ["accuracy", "mae"])(prediction)
        {'accuracy': 1.0, 'mae': 0.0}
    """
    known = [metric.name for metric in all_metrics()]
    for name in names or []:
        if name not in known:
            raise UnknownNameError("metric", name, known)
    kept = Tally(num_classes, bins=bins)

    def function(prediction: Any, compute_result: bool | None = None) -> dict[str, float]:
        nonlocal kept
        outputs = prediction.predictions
        logits = as_logits(outputs[0] if isinstance(outputs, tuple | list) else outputs, name="predictions")
        kept.update(logits=logits, y=prediction.label_ids)
        if compute_result is False:  # batch by batch, and more are to come
            return {}
        tally, kept = kept, Tally(num_classes, bins=bins)
        values = tally.compute()
        if compute_result is None:  # all rows are here
            values["ace"] = ace(geometry.probs(logits), prediction.label_ids, bins=bins)
        else:
            del values["ace"]
            if names is not None and "ace" in names:
                raise InputError("names: 'ace' needs all rows at once; leave it out with batch_eval_metrics=True.")
        return {name: values[name] for name in names or values}

    return function


def _logits(outputs: Any) -> Tensor:
    """The logits of what a model of transformers gives: an output object, a dict or a tuple."""
    if isinstance(outputs, Mapping):
        logits: Tensor = outputs["logits"]
    else:
        logits = outputs.logits if hasattr(outputs, "logits") else outputs[0]
    return logits
