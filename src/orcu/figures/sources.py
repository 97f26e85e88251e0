"""Inputs of figures: benchmark results, folders of runs, and files of predictions."""

import difflib
import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from orcu import calibrators
from orcu.errors import InputError, UnknownNameError
from orcu.evaluation.statistics import exact_metrics
from orcu.figures.titles import data_title, loss_title
from orcu.inputs import FloatArray
from orcu.io.reading import read_table
from orcu.predictions import Predictions

TWO_STAGE = "two_stage.parquet"
INDEX = "runs.json"  # of a benchmark: ids, data sets and losses of its runs, in the order of the spec
SPEC = "spec.json"  # of a benchmark: the spec as it was run


@dataclass(frozen=True)
class RunFiles:
    """A run, or a file of predictions."""

    path: Path
    data: str
    loss: str
    fold: int = 0
    seed: int = 0
    loss_spec: Any = None  # a name, or a table of name and options
    validation: dict[str, float] = field(default_factory=dict)  # metrics on validation rows
    test: dict[str, float] = field(default_factory=dict)  # metrics on test rows
    manifest: str = ""  # digest of the data
    finished: float = 0.0
    source: int = 0  # position of its --from
    position: int = 0  # in the list of a benchmark's runs, which has the order of the spec
    select: str = ""  # metric on validation rows by which the spec selects a loss of this data set
    read_options: Mapping[str, Any] = field(default_factory=dict)  # for a file

    @property
    def is_file(self) -> bool:
        """Whether it is a file of predictions, not the folder of a run."""
        return self.path.is_file()

    def has(self, name: str) -> bool:
        """Whether the run has a file of this name."""
        return (self.path / name).is_file()

    def predictions(self, calibrator: Any = None) -> Predictions:
        """Predictions of the run's test rows, or of the file.

        Args:
            calibrator: argument of `orcu.calibrators.create`; it is fitted on the run's validation rows.

        Raises:
            InputError: if the run has no validation predictions for the calibrator.
        """
        if calibrator is None:
            return Predictions.read(self.path, **self.read_options) if self.is_file else self._split("test")
        if self.is_file or not self.has("validation.parquet"):
            raise InputError(
                f"--calibrator: {self.path} has no validation rows to fit it on; give the results of `orcu bench run` "
                "or `orcu train`."
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", calibrators.CalibrationWarning)
            return self._split("test").calibrated_on(self._split("validation"), calibrators.create(calibrator))

    def _split(self, name: str) -> Predictions:
        return Predictions.read(self.path / f"{name}.parquet")

    def curves(self) -> dict[str, FloatArray]:
        """Training curves by column, one value for each epoch."""
        table = read_table(self.path / "curves.parquet")
        return {name: np.asarray(table.column(name).to_pylist()) for name in table.column_names}

    def features(self) -> FloatArray:
        """Features of the test rows, shape (n, D)."""
        from safetensors.numpy import load_file

        return np.asarray(load_file(self.path / "features.safetensors")["test"], dtype=np.float64)


class Sources:
    """The inputs of ``--from``; files are read when a figure needs them.

    Args:
        paths: results folder of a benchmark, output folders of ``orcu train`` or ``orcu two-stage``, or files of
            predictions; ``NAME=path`` sets the name of a run or file.
        data: names of the data sets to use, case-insensitive; all by default.
        losses: names of the losses to use, in this order; the figure's choice by default.
        calibrator: calibrator that is fitted on the validation rows of each run and applied to its test rows: its name
            in a benchmark's spec, or the name of a calibrator or chain; none by default.
        read_options: options of `Predictions.read` for files of predictions.

    Attributes:
        notes: what the drawn figures leave out, and the option that changes it.

    Raises:
        InputError: if a path does not exist, or has unknown content, or the calibrator is unknown.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "mine.parquet"
        >>> Predictions(probs=[[0.7, 0.3], [0.4, 0.6]], y=[0, 1]).write(path)
        >>> sources = Sources([path])
        >>> sources.losses(), len(sources.predictions("", "mine"))
        (['mine'], 2)
    """

    def __init__(
        self,
        paths: Iterable[str | Path] = (),
        *,
        data: Sequence[str] = (),
        losses: Sequence[str] = (),
        calibrator: str | None = None,
        read_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.arguments = [str(path) for path in paths]
        self.notes: list[str] = []
        self._data, self._losses = list(data), list(losses)
        self._read_options = {key: value for key, value in (read_options or {}).items() if value is not None}
        self._predictions: dict[tuple[str, str], Predictions] = {}
        self._named_paths = [_split_name(argument) for argument in self.arguments]
        self.calibrator = "" if calibrator in {None, "none"} else str(calibrator)
        self._calibrator = _calibrator_options(self.calibrator, [path for _, path in self._named_paths])

    @cached_property
    def _all(self) -> list[RunFiles]:
        runs = [
            replace(run, source=source, read_options=self._read_options if run.is_file else {})
            for source, (name, path) in enumerate(self._named_paths)
            for run in _find_runs(name, path)
        ]
        if self._data:
            self._data = _resolve_names("data set", self._data, [run.data for run in runs])
            runs = [run for run in runs if run.data in self._data]
        if self._losses:
            available = [run.loss for run in runs if not run.has(TWO_STAGE)]
            self._losses = _resolve_names("loss", self._losses, available)
            runs = [run for run in runs if run.loss in self._losses or run.has(TWO_STAGE)]
        newest: dict[tuple[str, str, int, int], RunFiles] = {}
        for run in runs:
            key = (run.data, run.loss, run.fold, run.seed)
            other = newest.get(key)
            if other is not None and other.source != run.source:
                raise self._duplicate_error(other, run)
            # a benchmark whose spec was changed still has the old runs
            if other is None or run.finished > other.finished:
                newest[key] = run
        return sorted(newest.values(), key=lambda run: (run.fold, run.seed))

    def _duplicate_error(self, first: RunFiles, second: RunFiles) -> InputError:
        name = repr(second.loss) + (f" on {second.data}" if second.data else "")
        return InputError(
            f"--from: duplicate {name} in {self.arguments[first.source]} and {self.arguments[second.source]}; remove "
            f"one, or rename it: --from NAME={self._named_paths[second.source][1]}."
        )

    def runs(self, data: str | None = None, loss: str | None = None) -> list[RunFiles]:
        """Runs of a data set and a loss, by fold and seed."""
        return [
            run for run in self._all if data in (None, run.data) and loss in (None, run.loss) and not run.has(TWO_STAGE)
        ]

    def datasets(self) -> list[str]:
        """Data sets with runs, in the order of ``data``, or of the inputs: --from, and the spec of a benchmark."""
        names = [run.data for run in self._in_order(self.runs())]
        return [name for name in self._data if name in names] or list(dict.fromkeys(names))

    def losses(self, data: str | None = None) -> list[str]:
        """Losses with runs, in the order of ``losses``, or of the inputs: --from, and the spec of a benchmark.

        Args:
            data: name of a data set; all by default.
        """
        names = [run.loss for run in self._in_order(self.runs(data))]
        return [name for name in self._losses if name in names] or list(dict.fromkeys(names))

    @staticmethod
    def _in_order(runs: list[RunFiles]) -> list[RunFiles]:
        return sorted(runs, key=lambda run: (run.source, run.position))

    def predictions(self, data: str, loss: str) -> Predictions:
        """Test rows of all folds and seeds, after the calibrator; ids that repeat get the fold and seed."""
        if (data, loss) not in self._predictions:
            runs = self.runs(data, loss)
            if not runs:
                available = ", ".join(f"{run.loss} on {run.data}" for run in self.runs()) or "none"
                raise InputError(f"no run of {loss} on {data}; available runs: {available}.")
            self._predictions[data, loss] = _concatenate(runs, [run.predictions(self._calibrator) for run in runs])
        return self._predictions[data, loss]

    def metrics(self, run: RunFiles) -> Mapping[str, float]:
        """All metrics of a run's test rows, or of a file, after the calibrator."""
        if run.test and self._calibrator is None:
            return run.test
        return exact_metrics(run.predictions(self._calibrator))

    def two_stage(self) -> dict[str, list[dict[str, Any]]]:
        """Records of two-stage runs by data set, one for each fold, branch and epoch."""
        records: dict[str, list[dict[str, Any]]] = {}
        for run in self._all:
            if run.has(TWO_STAGE):
                rows = read_table(run.path / TWO_STAGE).to_pylist()
                records.setdefault(run.data, []).extend({**row, "fold": run.fold} for row in rows)
        return records

    @property
    def has_loss_filter(self) -> bool:
        """Whether the user has chosen the losses."""
        return bool(self._losses)

    def rows_caption(self, data: str | None = None) -> str:
        """Description of the rows for captions, with the calibrator."""
        runs = self.runs(data)
        if runs and all(run.is_file for run in runs):
            return "rows of the file" if len(runs) == 1 else "rows of each file"
        several = len({(run.fold, run.seed) for run in runs}) > 1
        return ("test rows of all folds" if several else "test rows") + self.calibrator_caption

    @property
    def calibrator_caption(self) -> str:
        """The calibrator for captions, after a space; empty if there is none."""
        return f" (calibrator: {self.calibrator})" if self.calibrator else ""

    def note_selection(self, figure: str, drawn: Sequence[str], available: Sequence[str], chosen_by: str) -> None:
        """Add a note if a figure does not draw all data sets or losses.

        Args:
            figure: name of the figure.
            drawn: names that are drawn.
            available: names with runs.
            chosen_by: "data" or "losses", the argument that chooses others.
        """
        if set(drawn) < set(available):
            kind = "data sets" if chosen_by == "data" else chosen_by
            count = f"{len(drawn)} of {len(available)} {kind}"
            self.notes.append(f"{figure}: shows {', '.join(drawn)}, {count}; choose with --{chosen_by}")

    def describe(self) -> str:
        """The inputs, for error messages about missing content."""
        return f"{', '.join(self.arguments)} has none" if self.arguments else "no input was given (--from)"


def match_rows(models: Sequence[Predictions]) -> list[Predictions]:
    """Predictions of several models on their common rows, matched by id, in the order of the first model.

    Raises:
        InputError: if the classes differ, or no row is common.

    Example:
        >>> model = Predictions(probs=[[0.7, 0.3], [0.4, 0.6]], y=[0, 1], ids=["a", "b"])
        >>> [part.ids.tolist() for part in match_rows([model, model[[1]]])]
        [['b'], ['b']]
    """
    first = models[0]
    if any(model.classes != first.classes for model in models):
        raise InputError("the models have different classes, so they cannot be compared.")
    if any(model.ids is None for model in models):
        if any(not np.array_equal(model.labels_or_votes, first.labels_or_votes) for model in models):
            raise InputError("the models have different rows, and no ids to match them.")
        return list(models)
    row_of = [{str(name): row for row, name in enumerate(_ids(model))} for model in models]
    common = [str(name) for name in _ids(first) if all(str(name) in rows for rows in row_of)]
    if not common:
        raise InputError("the models have no row in common: their ids differ.")
    return [model[np.array([rows[name] for name in common])] for model, rows in zip(models, row_of, strict=True)]


def _ids(model: Predictions) -> list[Any]:
    return [] if model.ids is None else list(model.ids.tolist())


def _concatenate(runs: list[RunFiles], parts: list[Predictions]) -> Predictions:
    if len(parts) == 1:
        return parts[0]
    ids = [str(name) for part in parts for name in _ids(part)]
    if len(set(ids)) < len(ids):
        ids = [
            f"{name} (fold {run.fold}, seed {run.seed})"
            for run, part in zip(runs, parts, strict=True)
            for name in _ids(part)
        ]
    # Logits of probabilities would replace zeros, so they are used only if all parts have them.
    logits = [part.logits for part in parts if part.logits is not None]
    arrays, key = (logits, "logits") if len(logits) == len(parts) else ([part.probs for part in parts], "probs")
    scores: dict[str, Any] = {key: np.concatenate(arrays)}
    return Predictions(
        **scores, y=np.concatenate([part.label_names() for part in parts]), classes=parts[0].classes, ids=ids or None
    )


def _resolve_names(kind: str, requested: Sequence[str], available: Sequence[str]) -> list[str]:
    """The requested names as spelt in the results, without duplicates; case-insensitive, titles are accepted."""
    title = loss_title if kind == "loss" else data_title
    spelling = {title(name).casefold(): name for name in available} | {name.casefold(): name for name in available}
    names = []
    for name in requested:
        if name not in available and name.casefold() not in spelling:
            near = difflib.get_close_matches(name, available, n=1, cutoff=0.5)
            raise UnknownNameError(kind, name if near else name.lower(), dict.fromkeys(available))
        names.append(name if name in available else spelling[name.casefold()])
    return list(dict.fromkeys(names))


def _calibrator_options(name: str, paths: Sequence[Path]) -> Any:
    """Argument of `orcu.calibrators.create` for a calibrator by its label in a spec, or by its name."""
    if not name:
        return None
    for path in paths:
        spec = json.loads((path / SPEC).read_text()) if (path / SPEC).is_file() else {}
        for entry in spec.get("calibrators", []):
            if isinstance(entry, dict) and entry.get("label") == name:
                return {key: value for key, value in entry.items() if key != "label"}
    calibrators.create(name)  # raises if it is unknown
    return name


def _split_name(argument: str) -> tuple[str, Path]:
    """Name and path of a ``--from``; both may contain equals signs."""
    if argument and Path(argument).exists():
        return "", Path(argument)
    end = len(argument)
    while (end := argument.rfind("=", 0, end)) >= 0:
        path = argument[end + 1 :]
        if path and Path(path).exists():
            return argument[:end].strip(), Path(path)
    raise InputError(f"--from {argument}: no such file or folder.")


def _find_runs(name: str, path: Path) -> list[RunFiles]:
    if path.is_file():
        stem = path.name.removesuffix(".gz").rsplit(".", 1)[0]
        return [RunFiles(path, "", name or stem)]
    if (path / INDEX).is_file():
        entries = json.loads((path / INDEX).read_text())
        files = [path.parent / "runs" / entry["run"] / "result.json" for entry in entries]
        return [
            replace(_benchmark_run(file, entry), position=position)
            for position, (file, entry) in enumerate(zip(files, entries, strict=True))
            if file.is_file()
        ]
    stages = [
        RunFiles(file.parent, name or _dataset_name(file.parent / "stage_one") or path.name, "two_stage", fold)
        for fold, file in enumerate(sorted(path.glob(f"fold_*/{TWO_STAGE}")))
    ]
    if stages:
        return stages
    if (path / "run.json").is_file() and (path / "test.parquet").is_file():
        return [_training_run(name, path)]
    benchmarks = sorted(file.parent.name for file in path.glob(f"*/{INDEX}"))
    hint = f" Choose one of its benchmarks: {', '.join(benchmarks)}." if benchmarks else ""
    raise InputError(
        f"--from {path}: expected results of `orcu bench run`, or the output of `orcu train` or `orcu two-stage`.{hint}"
    )


def _benchmark_run(file: Path, entry: dict[str, Any]) -> RunFiles:
    """A run of a benchmark, with the benchmark's names for data set and loss."""
    result = json.loads(file.read_text())
    timings = file.with_name("timings.json")
    finished = json.loads(timings.read_text())["finished"] if timings.exists() else 0.0
    job = result["job"]
    return RunFiles(
        file.parent,
        entry["data"],
        entry["loss"],
        job["fold"],
        job["seed"],
        job.get("loss"),
        result.get("validation") or {},
        result.get("test") or {},
        result.get("manifest", ""),
        finished,
        select=entry.get("select", ""),
    )


def _training_run(name: str, path: Path) -> RunFiles:
    spec = json.loads((path / "run.json").read_text())["spec"]
    config = spec.get("config") or spec["settings"]  # orcu 0.2 wrote "settings"
    loss = config["loss"]
    title = name or (loss if isinstance(loss, str) else str(loss.get("name", "loss")))
    return RunFiles(path, _dataset_name(path), title, 0, config["seed"], loss, manifest=spec["manifest"])


def _dataset_name(folder: Path) -> str:
    file = folder / "model.json"
    return str(json.loads(file.read_text())["dataset"]) if file.is_file() else ""
