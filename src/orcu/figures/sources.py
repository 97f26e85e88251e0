"""What figures are drawn from: results of a benchmark, folders of runs, files of predictions."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from orcu.errors import InputError, UnknownNameError
from orcu.figures.style import LOOKS, data_title, loss_title
from orcu.inputs import FloatArray
from orcu.io.reading import read_table
from orcu.predictions.predictions import Predictions

TWO_STAGE = "two_stage.parquet"
INDEX = "runs.json"  # of a benchmark: which of the shared runs are its own, and what it calls them


@dataclass(frozen=True)
class RunFiles:
    """One run, or one file of predictions: where it is and what it is of."""

    path: Path
    data: str
    loss: str
    fold: int = 0
    seed: int = 0
    loss_spec: Any = None  # as the spec has it: a name or a table of name and options
    validation: dict[str, float] = field(default_factory=dict)  # metrics of the validation rows
    manifest: str = ""  # digest of the data's rows
    finished: float = 0.0
    place: int = 0  # of its --from
    reading: Mapping[str, Any] = field(default_factory=dict)  # how a file is read

    @property
    def is_file(self) -> bool:
        """Whether it is a file of predictions rather than the folder of a run."""
        return self.path.is_file()

    def has(self, name: str) -> bool:
        """Whether the run has written a file."""
        return (self.path / name).is_file()

    def predictions(self) -> Predictions:
        """What it says of its test rows, or of the rows of the file."""
        if self.is_file:
            return Predictions.read(self.path, **self.reading)
        return Predictions.read(self.path / "test.parquet")

    def curves(self) -> dict[str, FloatArray]:
        """Its record per epoch, by column."""
        table = read_table(self.path / "curves.parquet")
        return {name: np.asarray(table.column(name).to_pylist()) for name in table.column_names}

    def features(self) -> FloatArray:
        """The features of its test rows, in their order, shape (n, D)."""
        from safetensors.numpy import load_file

        return np.asarray(load_file(self.path / "features.safetensors")["test"], dtype=np.float64)


class Sources:
    """What ``--from`` gave, read when a figure asks for it.

    Args:
        given: the results folder of one benchmark, folders that ``orcu train`` or ``orcu two-stage`` has
            written, or files of predictions; ``NAME=path`` gives a run or file a name of your own.
        data: keep only these data sets; all by default. Case does not count.
        losses: keep only these losses, in this order; a figure's own choice by default.
        reading: how files of predictions are read, as `Predictions.read` takes it.

    Raises:
        InputError: if something is not there, or is nothing of this kind.

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
        given: Iterable[str | Path] = (),
        *,
        data: Sequence[str] = (),
        losses: Sequence[str] = (),
        reading: Mapping[str, Any] | None = None,
    ) -> None:
        self.given = [str(one) for one in given]
        self._data, self._losses = list(data), list(losses)
        self._reading = {key: value for key, value in (reading or {}).items() if value is not None}
        self._read: dict[tuple[str, str], Predictions] = {}
        self._places = [_place(one) for one in self.given]

    @cached_property
    def _all(self) -> list[RunFiles]:
        runs = [
            replace(run, place=place, reading=self._reading if run.is_file else {})
            for place, (name, path) in enumerate(self._places)
            for run in _runs(name, path)
        ]
        if self._data:
            self._data = _known("data set", self._data, [run.data for run in runs])
            runs = [run for run in runs if run.data in self._data]
        if self._losses:
            known = [run.loss for run in runs if not run.has(TWO_STAGE)]
            self._losses = _known("loss", self._losses, known)
            runs = [run for run in runs if run.loss in self._losses or run.has(TWO_STAGE)]
        newest: dict[tuple[str, str, int, int], RunFiles] = {}
        for run in runs:
            key = (run.data, run.loss, run.fold, run.seed)
            rival = newest.get(key)
            if rival is not None and rival.place != run.place:
                raise self._clash(rival, run)
            # a spec that was changed leaves its old runs behind
            if rival is None or run.finished > rival.finished:
                newest[key] = run
        return sorted(newest.values(), key=lambda run: (run.fold, run.seed))

    def _clash(self, one: RunFiles, two: RunFiles) -> InputError:
        both = f"{self.given[one.place]} and {self.given[two.place]}"
        what = repr(two.loss) + (f" on {two.data}" if two.data else "")
        return InputError(
            f"--from: {both} both hold {what}, and only one can be shown; leave one out, or give a file or run a "
            f"name of its own: --from NAME={self._places[two.place][1]}."
        )

    def runs(self, data: str | None = None, loss: str | None = None) -> list[RunFiles]:
        """The runs of a data set and a loss, by fold and seed."""
        return [
            run for run in self._all if data in (None, run.data) and loss in (None, run.loss) and not run.has(TWO_STAGE)
        ]

    def datasets(self) -> list[str]:
        """The data sets that there are runs of: in the order asked for, else by name."""
        names = {run.data for run in self.runs()}
        return [name for name in self._data if name in names] or sorted(names)

    def losses(self, preferred: Sequence[str] = (), *, data: str | None = None) -> list[str]:
        """The losses that there are runs of.

        Args:
            preferred: a figure's own choice; it counts unless the user has chosen, or has none of them.
            data: of this data set only.
        """
        names = list(dict.fromkeys(run.loss for run in self.runs(data)))
        if self._losses:
            return [name for name in self._losses if name in names]
        order = {name: place for place, name in enumerate(LOOKS)}  # the paper's order, ours last
        first = {run.loss: run.place for run in reversed(self.runs(data))}

        def place(name: str) -> tuple[Any, ...]:  # of names that are none of ours: as given, else by number
            return name == "orcu", order.get(name, -1), first[name], _by_number(name)

        names.sort(key=place)
        return [name for name in preferred if name in names] or names

    def predictions(self, data: str, loss: str) -> Predictions:
        """The test rows of all folds and seeds together; ids say the fold where they repeat."""
        if (data, loss) not in self._read:
            runs = self.runs(data, loss)
            if not runs:
                known = ", ".join(f"{run.loss} on {run.data}" for run in self.runs()) or "nothing"
                raise InputError(f"there is no run of {loss} on {data}; there is {known}.")
            self._read[data, loss] = _together(runs, [run.predictions() for run in runs])
        return self._read[data, loss]

    def two_stage(self) -> dict[str, list[dict[str, Any]]]:
        """The records of two-stage runs by data set: one per fold, branch and epoch."""
        records: dict[str, list[dict[str, Any]]] = {}
        for run in self._all:
            if run.has(TWO_STAGE):
                rows = read_table(run.path / TWO_STAGE).to_pylist()
                records.setdefault(run.data, []).extend({**row, "fold": run.fold} for row in rows)
        return records

    @property
    def chose_losses(self) -> bool:
        """Whether the user has named the losses."""
        return bool(self._losses)

    def rows_caption(self, data: str | None = None) -> str:
        """What the rows of the predictions are, for captions."""
        runs = self.runs(data)
        if runs and all(run.is_file for run in runs):
            return "rows of the file" if len(runs) == 1 else "rows of each file"
        several = len({(run.fold, run.seed) for run in runs}) > 1
        return "test rows of all folds" if several else "test rows"

    def data_caption(self, data: str) -> str:
        """The data set that is shown, for captions, and how to choose another where there is one."""
        many = len(self.datasets())
        return data_title(data) + (f", one of {many} data sets (--data chooses)" if many > 1 else "")

    def missing(self) -> str:
        """What was given, for messages."""
        return f"{', '.join(self.given)} holds none" if self.given else "nothing was given (--from)"


def matched(models: Sequence[Predictions]) -> list[Predictions]:
    """Several models on the rows that all of them know, by id, in the first one's order.

    Raises:
        InputError: if they have other classes, or no row in common.

    Example:
        >>> one = Predictions(probs=[[0.7, 0.3], [0.4, 0.6]], y=[0, 1], ids=["a", "b"])
        >>> [part.ids.tolist() for part in matched([one, one[[1]]])]
        [['b'], ['b']]
    """
    first = models[0]
    if any(one.classes != first.classes for one in models):
        raise InputError("the models have other classes; they cannot be shown side by side.")
    if any(one.ids is None for one in models):
        if any(not np.array_equal(one.labels, first.labels) for one in models):
            raise InputError("the models have other rows and no ids to match them by.")
        return list(models)
    places = [{str(name): row for row, name in enumerate(_ids(one))} for one in models]
    common = [str(name) for name in _ids(first) if all(str(name) in place for place in places)]
    if not common:
        raise InputError("the models have no row in common; their ids differ.")
    return [one[np.array([place[name] for name in common])] for one, place in zip(models, places, strict=True)]


def _ids(model: Predictions) -> list[Any]:
    return [] if model.ids is None else list(model.ids.tolist())


def _together(runs: list[RunFiles], parts: list[Predictions]) -> Predictions:
    if len(parts) == 1:
        return parts[0]
    ids = [str(name) for one in parts for name in _ids(one)]
    if len(set(ids)) < len(ids):
        ids = [
            f"{name} (fold {run.fold}, seed {run.seed})"
            for run, one in zip(runs, parts, strict=True)
            for name in _ids(one)
        ]
    return Predictions(
        logits=np.concatenate([one.as_logits()[0] for one in parts]),
        y=np.concatenate([one.label_names() for one in parts]),
        classes=parts[0].classes,
        ids=ids or None,
    )


def _known(kind: str, asked: Sequence[str], known: Sequence[str]) -> list[str]:
    """The names asked for as they are written in the results, each once; case does not count."""
    title = loss_title if kind == "loss" else data_title
    written = {title(name).casefold(): name for name in known}
    written |= {name.casefold(): name for name in known}
    names = []
    for name in asked:
        if name not in known and name.casefold() not in written:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            raise UnknownNameError(kind, name if near else name.lower(), dict.fromkeys(known))
        names.append(name if name in known else written[name.casefold()])
    return list(dict.fromkeys(names))


def _by_number(name: str) -> list[tuple[float, str]]:
    """A key that sorts "s = 5" before "s = 10"."""
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return [(float(part) if place % 2 else 0.0, part) for place, part in enumerate(parts)]


def _place(text: str) -> tuple[str, Path]:
    """The name and the path of one ``--from``; name and path may hold equals signs themselves."""
    if text and Path(text).exists():
        return "", Path(text)
    end = len(text)
    while (end := text.rfind("=", 0, end)) >= 0:
        rest = text[end + 1 :]
        if rest and Path(rest).exists():
            return text[:end].strip(), Path(rest)
    raise InputError(f"--from {text}: there is no such file or folder.")


def _runs(name: str, path: Path) -> list[RunFiles]:
    if path.is_file():
        stem = path.name.removesuffix(".gz").rsplit(".", 1)[0]
        return [RunFiles(path, "", name or stem)]
    if (path / INDEX).is_file():
        entries = json.loads((path / INDEX).read_text())
        files = [(path.parent / "runs" / entry["run"] / "result.json", entry) for entry in entries]
        return [_of_result(file, entry) for file, entry in files if file.is_file()]
    stages = [
        RunFiles(file.parent, name or _dataset(file.parent / "stage_one") or path.name, "two_stage", fold)
        for fold, file in enumerate(sorted(path.glob(f"fold_*/{TWO_STAGE}")))
    ]
    if stages:
        return stages
    if (path / "run.json").is_file() and (path / "test.parquet").is_file():
        return [_of_training(name, path)]
    inside = sorted(one.parent.name for one in path.glob(f"*/{INDEX}"))
    hint = f" Name one of the benchmarks in it: {', '.join(inside)}." if inside else ""
    raise InputError(
        f"--from {path}: no results of `orcu bench run`, no folder of `orcu train` or `orcu two-stage`.{hint}"
    )


def _of_result(file: Path, entry: dict[str, Any]) -> RunFiles:
    """A run of a benchmark, called as the benchmark calls it."""
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
        result.get("manifest", ""),
        finished,
    )


def _of_training(name: str, path: Path) -> RunFiles:
    spec = json.loads((path / "run.json").read_text())["spec"]
    loss = spec["settings"]["loss"]
    title = name or (loss if isinstance(loss, str) else str(loss.get("name", "loss")))
    return RunFiles(path, _dataset(path), title, 0, spec["settings"]["seed"], loss, manifest=spec["manifest"])


def _dataset(folder: Path) -> str:
    plan = folder / "model.json"
    return str(json.loads(plan.read_text())["dataset"]) if plan.is_file() else ""
