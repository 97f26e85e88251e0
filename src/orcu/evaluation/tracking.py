"""Where an evaluation is logged: MLflow, TensorBoard, Weights & Biases, or anything with ``log_metrics``.

None of them is imported here: who logs has it already.
"""

import math
import warnings
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from orcu.errors import InputError


@runtime_checkable
class Tracker(Protocol):
    """What an evaluation is logged to: one method, as the module ``mlflow`` and Lightning's loggers have it."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> Any:
        """Note the values of one step by name."""


class Page(Protocol):
    """What makes the report of an evaluation."""

    def to_html(self) -> str:
        """As a page."""

    def to_markdown(self) -> str:
        """As tables."""


class _MLflow:
    """The module ``mlflow``: metrics, and the report as an artifact of the run."""

    def __init__(self, mlflow: Any) -> None:
        self._mlflow = mlflow

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self._mlflow.log_metrics(metrics, step=step)

    def log_report(self, page: Page, name: str, step: int | None) -> None:
        self._mlflow.log_text(page.to_html(), f"{name}.html")


class _TensorBoard:
    """A ``SummaryWriter`` of torch or tensorboardX: scalars, and the tables as text, since it shows no pages."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def log_report(self, page: Page, name: str, step: int | None) -> None:
        self._writer.add_text(name, page.to_markdown(), step)


class _WandB:
    """A run of Weights & Biases, or the module ``wandb`` with its current run: metrics, and the report as a page."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self._run.log(metrics, step=step)

    def log_report(self, page: Page, name: str, step: int | None) -> None:
        from wandb import Html

        # not committed: the metrics that follow belong to the same step
        self._run.log({name: Html(page.to_html(), inject=False)}, step=step, commit=False)


def log(page: Page, values: Mapping[str, float], to: Any, *, step: int | None, prefix: str, report: bool) -> None:
    """Log values by name, and the page they stand on where the tracker takes one; see `Evaluation.log`."""
    tracker = _tracker(to)
    finite = {name: float(value) for name, value in values.items() if math.isfinite(value)}
    left_out = [f"{name} = {value}" for name, value in values.items() if name not in finite]
    if left_out:
        warnings.warn(f"log: left out what is not finite: {', '.join(left_out)}", stacklevel=3)
    if report and isinstance(tracker, (_MLflow, _TensorBoard, _WandB)):
        tracker.log_report(page, f"{prefix}report", step)
    tracker.log_metrics({f"{prefix}{name}": value for name, value in finite.items()}, step=step)


def _tracker(to: Any) -> Tracker:
    """What was handed in as a tracker, recognised by its package or its methods.

    Raises:
        InputError: if it is none.
    """
    package = str(getattr(to, "__name__", None) or type(to).__module__).partition(".")[0]
    if package == "mlflow" and hasattr(to, "log_metrics"):
        return _MLflow(to)
    if package == "wandb" and hasattr(to, "log"):
        return _WandB(to)
    if hasattr(to, "add_scalar"):
        return _TensorBoard(to)
    if isinstance(to, Tracker) and not isinstance(to, type):
        return to
    raise InputError(
        "to: expected the module mlflow, a SummaryWriter, a run of wandb, or something with "
        f"log_metrics(metrics, step); got {to!r}."
    )
