"""Display of a training: lines on stdout, progress bars on stderr, curves for TensorBoard."""

import importlib.util
import time
from pathlib import Path
from typing import Any

from rich.progress import TaskID

from orcu.cli.console import progress_bar, say, say_problem, say_wrote
from orcu.data.prepare import PrepareReport
from orcu.data.store import PreparedData
from orcu.ensemble.progress import LINE_INTERVAL, duration
from orcu.errors import InputError
from orcu.report.headline import headline
from orcu.training.experiment import Callback, Experiment, small_classes
from orcu.training.loop import TrainingProgress
from orcu.training.model_file import SETS
from orcu.training.run import Splits

MIN_STEPS = 5  # number of steps before the total time is estimated
METRICS = ("ece", "sce", "ace", "qwk", "unimodality")


class TrainingDisplay(Callback):
    """Prints the progress of a training and, once, an estimate of its duration; ``board`` is TensorBoard's folder."""

    def __init__(self, board: Path | None = None) -> None:
        if board is not None and importlib.util.find_spec("tensorboard") is None:
            raise InputError("--tensorboard: the package is not installed; run `pip install tensorboard`.")
        self.board = board
        self._bars = progress_bar()
        self._tasks: dict[str, TaskID] = {}
        self._estimated = False
        self._hint = ""
        self._writer: Any = None
        self._last_line = time.monotonic()

    def close(self) -> None:
        """Stop the progress bars and close TensorBoard's file."""
        self._stop()
        if self._writer is not None:
            self._writer.close()

    def prepared(self, report: PrepareReport) -> None:
        """Print the findings about the data; the stored folds are not used."""
        say(*report.lines(folds=False), style="dim")

    def frozen(self, backbone: str) -> None:
        """Print that the backbone is frozen because there is no GPU."""
        say(f"no GPU: training on features of a frozen {backbone}; --fine-tune trains the whole backbone")

    def decoding(self, done: int, total: int) -> None:
        """Show the number of decoded images."""
        self._bar("decoding", "decoding images", done, total)

    def starting(self, prepared: PreparedData, splits: Splits, *, slow: bool) -> None:
        """Print the number of rows of each split, and warn of small classes."""
        self._stop()
        counts = ", ".join(f"{len(rows):,} {name}" for name, rows in splits.items())
        clusters = "; clusters are kept in one split" if prepared.manifest.column("cluster")[0] else ""
        say(f"{prepared.name}: {counts}{clusters}")
        for name in small_classes(prepared):
            say_problem("warning", f"class {name} has fewer than 20 rows")
        self._hint = "; --frozen is faster on a CPU" if slow else ""

    def copies(self, rows: int, total: int, leaking: int) -> None:
        """Print the number of copies, and warn of those that a protocol leaves in several splits."""
        self._stop()
        if not leaking:
            say(f"{rows:,} of {total:,} rows are copies of other rows; copies are kept in one split and one fold")
            return
        say_problem(
            "warning",
            f"{leaking:,} test rows have a copy among the training and validation rows, so the test is too optimistic. "
            "Remove duplicate rows, or use --split in place of --protocol, which keeps copies in one split",
        )

    def features(self, done: int, total: int) -> None:
        """Show the number of batches whose features are computed."""
        self._bar("features", "features of the frozen backbone", done, total)

    def fold(self, number: int) -> None:
        """Start a new estimate of the duration."""
        self._stop()
        self._estimated = False

    def training(self, progress: TrainingProgress, *, stage: str = "") -> None:
        """Show the current step, and print a line for each epoch."""
        prefix = f"{stage}, " if stage else ""
        done = progress.epoch * progress.steps + progress.step
        if not self._estimated and done >= MIN_STEPS:
            self._estimated = True
            say(f"about {duration(progress.seconds_left)} to train{self._hint}")
        if progress.curve is not None:
            self._record(progress, progress.curve, prefix)
        left = f"{prefix}epoch {progress.epoch + 1}/{progress.epochs}, {progress.seconds_left:.0f} s left"
        self._bar("training", left, done, progress.epochs * progress.steps)

    def member(self, loss: str, done: int, total: int, rps: float) -> None:
        """Show the number of finished epochs of the networks of a loss, or of finished folds of trees."""
        if loss.endswith(" trees"):
            self._bar(loss, f"ensemble, {loss}: fold {done}/{total}", done, total)
            return
        self._bar(loss, f"ensemble, {loss}: epoch {done}/{total} at most", done, total)
        self._scalars({f"{loss}/validation_rps": rps}, done - 1)

    def finished(self, experiment: Experiment) -> None:
        """Print the composition of the ensemble, the headline of the evaluation, and the written files."""
        self._stop()
        if experiment.summary:
            say(f"ensemble: {experiment.summary}", style="dim")
        say(*headline(experiment.evaluation))
        sets = ", sets.json" if (experiment.result.folder / SETS).exists() else ""
        files = f"model.safetensors, calibrator.json{sets}, predictions, card.json, report.html"
        say_wrote(experiment.result.folder, files)

    def _bar(self, name: str, description: str, done: int, total: int) -> None:
        if not self._bars.is_shown:  # a file or a pipe
            if time.monotonic() - self._last_line >= LINE_INTERVAL:
                self._last_line = time.monotonic()
                count = "" if f"{done}/{total}" in description else f": {done:,} of {total:,}"
                say(f"{description}{count}", style="dim", stderr=True)
            return
        self._bars.start()
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name)
        self._bars.update(self._tasks[name], description=description, completed=done, total=total)

    def _stop(self) -> None:
        if self._bars.live.is_started:
            self._bars.stop()

    def _scalars(self, values: dict[str, float], epoch: int) -> None:
        if self.board is None:
            return
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(self.board / "tensorboard")
        for name, value in values.items():
            self._writer.add_scalar(name, value, epoch)

    def _record(self, progress: TrainingProgress, curve: dict[str, float], prefix: str) -> None:
        self._scalars(curve, progress.epoch)
        metrics = ", ".join(f"{name} {curve[f'validation_{name}']:.3f}" for name in METRICS)
        losses = ", ".join(
            f"{key.removeprefix('train_')} {value:.3f}" for key, value in curve.items() if key.startswith("train_")
        )
        rates = "/".join(f"{value:.0e}" for key, value in curve.items() if key.startswith("learning_rate_"))
        self._bars.say(
            f"{prefix}epoch {progress.epoch + 1:3d}  {losses}  validation {metrics}  learning rates {rates}",
            style="dim",
        )
