"""What the commands that train print: lines on the console, bars on stderr."""

import importlib.util
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from orcu.data.prepare import Findings
from orcu.data.store import Prepared
from orcu.errors import InputError
from orcu.report.headline import headline
from orcu.training.experiment import Experiment, Watcher, small_classes
from orcu.training.loop import Moment
from orcu.training.run import Splits

ENOUGH_STEPS = 5  # before the total time is foretold
SHOWN = ("ece", "sce", "ace", "qwk", "unimodality")


class Screen(Watcher):
    """Prints what happens in a training; once, early, the time that it will take.

    Args:
        console: for lines.
        board: a folder for TensorBoard's files, if they are asked for.

    Raises:
        InputError: if TensorBoard is asked for and not installed.
    """

    def __init__(self, console: Console, board: Path | None = None) -> None:
        if board is not None and importlib.util.find_spec("tensorboard") is None:
            raise InputError("--tensorboard: the package is not installed; pip install tensorboard.")
        self.console, self.board = console, board
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self._bars = Progress(*columns, console=Console(stderr=True), transient=True)
        self._tasks: dict[str, TaskID] = {}
        self._foretold = False
        self._hint = ""
        self._writer: Any = None

    def __enter__(self) -> "Screen":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        if self._writer is not None:
            self._writer.close()

    def prepared(self, findings: Findings) -> None:
        """The findings; the set's own folds are not used."""
        for line in findings.lines(folds=False):
            self.console.print(f"[dim]{escape(line)}[/]", highlight=False)

    def frozen(self, backbone: str) -> None:
        """What is done for want of a GPU."""
        self.console.print(
            f"no GPU: training on features of a frozen {backbone}; --fine-tune trains all of it", highlight=False
        )

    def decoding(self, done: int, total: int) -> None:
        """A bar."""
        self._bar("decoding", "decoding images", done, total)

    def starting(self, prepared: Prepared, splits: Splits, *, slow: bool) -> None:
        """The rows of each split, and classes with few rows."""
        self._stop()
        counts = ", ".join(f"{len(rows):,} {name}" for name, rows in splits.items())
        together = "; the rows of a subject stay together" if prepared.manifest.column("subject")[0] else ""
        self.console.print(f"{escape(prepared.name)}: {counts}{together}", highlight=False)
        for name in small_classes(prepared):
            self.console.print(f"[yellow]warning:[/] class {escape(name)} has fewer than 20 rows", highlight=False)
        self._hint = "; --frozen is quicker on a CPU" if slow else ""

    def features(self, done: int, total: int) -> None:
        """A bar."""
        self._bar("features", "features of the frozen backbone", done, total)

    def fold(self, number: int) -> None:
        """Its time is foretold anew."""
        self._stop()
        self._foretold = False

    def training(self, moment: Moment, *, stage: str = "") -> None:
        """A bar, and a line for each epoch."""
        prefix = f"{stage}, " if stage else ""
        done = moment.epoch * moment.steps + moment.step
        if not self._foretold and done >= ENOUGH_STEPS:
            self._foretold = True
            self.console.print(f"{_duration(moment.seconds_left)} to train{self._hint}", highlight=False)
        if moment.curve is not None:
            self._record(moment, prefix)
        left = f"{prefix}epoch {moment.epoch + 1}/{moment.epochs}, {moment.seconds_left:.0f} s left"
        self._bar("training", left, done, moment.epochs * moment.steps)

    def member(self, loss: str, done: int, total: int, rps: float) -> None:
        """A bar for each loss."""
        if loss.endswith(" trees"):
            self._bar(loss, f"ensemble, {loss}: fold {done}/{total}", done, total)
            return
        self._bar(loss, f"ensemble, {loss}: epoch {done}/{total} at most", done, total)
        self._scalars({f"{loss}/validation_rps": rps}, done - 1)

    def finished(self, experiment: Experiment) -> None:
        """What was chosen, the headline, and what was written."""
        self._stop()
        if experiment.choice:
            self.console.print(f"[dim]ensemble: {escape(experiment.choice)}[/]", highlight=False)
        for sentence in headline(experiment.evaluation):
            self.console.print(escape(sentence), highlight=False)
        sets = ", sets.json" if experiment.choice else ""
        self.console.print(
            f"wrote {escape(str(experiment.result.folder))}: model.safetensors, calibrator.json{sets}, predictions, "
            "card.json, report.html",
            highlight=False,
        )

    def _bar(self, name: str, description: str, done: int, total: int) -> None:
        self._bars.start()
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name)
        self._bars.update(self._tasks[name], description=description, completed=done, total=total)

    def _stop(self) -> None:
        if self._bars.live.is_started:
            self._bars.stop()

    def _scalars(self, values: dict[str, float], epoch: int) -> None:
        """Numbers of an epoch for TensorBoard, where it is asked for."""
        if self.board is None:
            return
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(self.board / "tensorboard")
        for name, value in values.items():
            self._writer.add_scalar(name, value, epoch)

    def _record(self, moment: Moment, prefix: str) -> None:
        curve = moment.curve or {}
        self._scalars(curve, moment.epoch)
        numbers = ", ".join(f"{name} {curve[f'validation_{name}']:.3f}" for name in SHOWN)
        parts = {key: value for key, value in curve.items() if key.startswith("train_")}
        losses = ", ".join(f"{key.removeprefix('train_')} {value:.3f}" for key, value in parts.items())
        rates = "/".join(f"{value:.0e}" for key, value in curve.items() if key.startswith("rate_"))
        self._bars.console.print(
            f"[dim]{prefix}epoch {moment.epoch + 1:3d}  {losses}  validation {numbers}  rates {rates}[/]",
            highlight=False,
        )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"about {seconds:.0f} seconds"
    return f"about {seconds / 60:.0f} minutes" if seconds < 5400 else f"about {seconds / 3600:.1f} hours"
