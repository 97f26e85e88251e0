"""Logging of evaluations to MLflow, TensorBoard, Weights & Biases, or any object with ``log_metrics``.

None of these packages is imported here: the caller has imported it already.
"""

import math
import warnings
from collections.abc import Mapping
from typing import Any

from orcu.errors import InputError


def log(result: Any, values: Mapping[str, float], to: Any, *, step: int | None, prefix: str, report: bool) -> None:
    """Log values by name, and ``result.to_html()`` or ``to_markdown()`` if the tracker takes it: `Evaluation.log`."""
    package = str(getattr(to, "__name__", None) or type(to).__module__).partition(".")[0]
    is_wandb = package == "wandb" and hasattr(to, "log")
    is_tracker = hasattr(to, "log_metrics") and not isinstance(to, type)
    is_mlflow = package == "mlflow" and is_tracker
    is_tensorboard = not is_mlflow and not is_wandb and hasattr(to, "add_scalar")
    if not (is_wandb or is_tensorboard or is_tracker):
        raise InputError(
            "to: expected the module mlflow, a SummaryWriter, a run of wandb, or an object with "
            f"log_metrics(metrics, step); got {to!r}."
        )
    metrics = {f"{prefix}{name}": float(value) for name, value in values.items() if math.isfinite(value)}
    omitted = [f"{name} = {value}" for name, value in values.items() if not math.isfinite(value)]
    if omitted:
        warnings.warn(f"log: values that are not finite are omitted: {', '.join(omitted)}", stacklevel=3)
    name = f"{prefix}report"
    if is_wandb:
        if report:
            from wandb import Html

            # not committed: the metrics that follow belong to the same step
            to.log({name: Html(result.to_html(), inject=False)}, step=step, commit=False)
        to.log(metrics, step=step)
    elif is_tensorboard:  # it shows no pages, but Markdown
        if report:
            to.add_text(name, result.to_markdown(), step)
        for metric, value in metrics.items():
            to.add_scalar(metric, value, step)
    else:
        if is_mlflow and report:
            to.log_text(result.to_html(), f"{name}.html")
        to.log_metrics(metrics, step=step)
