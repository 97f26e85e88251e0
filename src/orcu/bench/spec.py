"""Benchmark specs in TOML: data sets, losses, calibrators, and what the tables show."""

import json
import os
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, PrivateAttr, ValidationError

from orcu.bench.columns import TWO_STAGE, column
from orcu.errors import InputError, UnknownNameError
from orcu.registry import file_and_class, read_source

_PACKAGED = Path(__file__).parent / "configs"
CONFIGS = _PACKAGED if _PACKAGED.exists() else Path(__file__).parents[3] / "configs"  # of a source checkout

BRANCHES = ("sord", "hinge", "orcu")  # of the two-stage diagnostic
COLUMNS = ("accuracy", "mae", "qwk", "ece", "sce", "ace", "rps", "unimodality")
RENAMED_KEYS = {  # keys of version 0.2 and their new names
    "recipe": "training",
    "hidden": "hidden_layer_sizes",
    "without": "exclude",
    "more": "extra",
    "rows": "split",
    "story": "summary",
    "today": "baseline",
    "ours": "proposed",
    "folds": "cv",
    "members": "estimators",
}

CalibratorSpec = str | dict[str, Any]
LossSpec = str | dict[str, Any]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSpec(_Strict):
    """A data set and its training.

    Attributes:
        set: name of a registered data set.
        prepared: name of the prepared data set in the store; ``set`` by default.
        name: name in tables; ``prepared`` by default.
        options: options of the data set.
        protocol: name of the split protocol.
        folds: fold numbers; all folds by default.
        seeds: seeds in place of the spec's.
        backbone: name of the backbone, as in `orcu.training.run.RunConfig`.
        weights: weights of the backbone.
        frozen: train on features of a frozen backbone.
        hidden_layer_sizes: hidden layers of the perceptron on tables and frozen features.
        size: image size in pixels.
        augment: train with flips and rotations.
        rotation_border: pixels outside of a rotated image, "constant" (black) or "reflect".
        training: changes to the default `orcu.training.config.TrainConfig`.
        label: "label", or "votes" to train and evaluate on the votes of several raters, for data sets that have them.
        exclude: names of the spec's losses that are not run on this data set.
        select: metric on validation rows that selects the best loss, for example the best scale s.
    """

    set: str
    prepared: str = Field(default="", pattern=r"^(\w[\w.-]*)?$")  # no path outside the store
    name: str = ""
    options: dict[str, Any] = Field(default_factory=dict)
    protocol: str = "five_folds"
    folds: list[NonNegativeInt] | None = Field(default=None, min_length=1)
    seeds: list[NonNegativeInt] | None = Field(default=None, min_length=1)
    backbone: str = ""
    weights: str = "pretrained"
    frozen: bool = False
    hidden_layer_sizes: list[PositiveInt] = Field(default_factory=lambda: [256])
    size: PositiveInt = 224
    augment: bool = True
    rotation_border: Literal["constant", "reflect"] = "constant"
    training: dict[str, Any] = Field(default_factory=dict)
    label: Literal["label", "votes"] = "label"
    exclude: list[str] = Field(default_factory=list)
    select: str = ""

    @property
    def store(self) -> str:
        """Name of the prepared data set in the store."""
        return self.prepared or self.set

    @property
    def title(self) -> str:
        """Name in tables."""
        return self.name or self.store


class TwoStage(_Strict):
    """Settings of the two-stage diagnostic (Section III-D): SoftCE, then three branches from its checkpoint.

    Attributes:
        scale: scale s of the barrier.
        epochs: epochs of stage one and of stage two.
    """

    scale: float = Field(default=3.0, gt=0)
    epochs: tuple[PositiveInt, PositiveInt] = (50, 50)


class EnsembleSpec(_Strict):
    """A cross-fitted ensemble, as an entry of ``losses``.

    Attributes:
        label: name in tables.
        cv: number of cross-fitting folds over the rows of train and validation.
        losses: losses of the networks, as for `orcu.losses.create`.
        estimators: base learners; by default those of `OrdinalClassifier` on tables, networks on other data.
        training: changes to the ensemble's default `orcu.training.config.TrainConfig`.
    """

    label: str = ""
    cv: int = Field(ge=2)
    losses: list[LossSpec] = Field(default=["ce", "sord", "orcu"], min_length=1)
    estimators: list[Literal["linear", "forest", "network", "boosting"]] | None = Field(default=None, min_length=1)
    training: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def of(cls, loss: Any) -> "EnsembleSpec | None":
        """The ensemble of an entry of ``losses``, or ``None`` if the entry is a single loss (it has no ``cv``).

        Raises:
            InputError: if a key or value of the ensemble is not valid.

        Example:
            >>> EnsembleSpec.of({"cv": 5}).losses, EnsembleSpec.of("ce")
            (['ce', 'sord', 'orcu'], None)
        """
        if not isinstance(loss, dict) or not {"cv", "folds"} & loss.keys():
            return None
        try:
            return cls(**loss)
        except ValidationError as error:
            raise InputError(f"losses: {json.dumps(loss)}: {_first_error(error, cls)}") from None


class Pipeline(_Strict):
    """A loss followed by a calibrator: one row of the tables.

    Attributes:
        loss: name of a loss of the spec.
        calibrator: name of a calibrator of the spec.
        name: name in sentences and figures.
        how: instructions for the reader who wants to use it.
    """

    loss: str
    calibrator: str = "none"
    name: str
    how: str = ""


class SummarySpec(_Strict):
    """The pipelines that the summary at the top of the report compares.

    Attributes:
        baseline: current practice.
        paper: the paper's loss, unchanged.
        proposed: the recommended pipeline.
    """

    baseline: Pipeline
    paper: Pipeline
    proposed: Pipeline

    @property
    def pipelines(self) -> list[Pipeline]:
        """All three pipelines, in order of appearance."""
        return [self.baseline, self.paper, self.proposed]


class Spec(_Strict):
    """A benchmark.

    Attributes:
        name: name of the benchmark and of its results folder.
        title: one-line title of tables and report.
        data: data sets.
        losses: names or tables, as for `orcu.losses.create`; a table may have a ``label`` and a ``head``, a name in
            `orcu.models.heads.HEADS`. A table with ``cv`` is an `EnsembleSpec`. The file of a name such as
            "my_loss.py:MyLoss" is relative to the spec.
        seeds: random seeds; each repeats every run.
        calibrators: "none", names, chains such as "gap+projection", or tables of a name, its options and a label.
        columns: metrics of the tables.
        threads: CPU threads of a run; results depend on this number.
        paper: tables of the paper with the same experiments, for `compare`.
        split: rows that the tables evaluate, "test" or "validation".
        extra: optional lists of losses by name; ``--extra NAME`` adds one of them to all data sets.
        keep_models: store the model of each run that trains a single network, for example for Grad-CAM; a run that is
            finished without its model is executed again.
        two_stage: the two-stage diagnostic in place of ``losses``; its branches are the rows of the tables.
        summary: pipelines that the report's summary compares.
    """

    name: str = Field(pattern=r"^\w[\w.-]*$")
    title: str = ""
    data: list[DataSpec] = Field(min_length=1)
    losses: list[LossSpec] = Field(default_factory=list)
    seeds: list[NonNegativeInt] = Field(default_factory=lambda: [0], min_length=1)
    calibrators: list[CalibratorSpec] = Field(default=["none"], min_length=1)
    columns: list[str] = Field(default_factory=lambda: list(COLUMNS), min_length=1)
    threads: int = Field(default=1, ge=1)
    paper: list[str] = Field(default_factory=list)
    split: Literal["test", "validation"] = "test"
    extra: dict[str, list[LossSpec]] = Field(default_factory=dict)
    keep_models: bool = False
    two_stage: TwoStage | None = None
    summary: SummarySpec | None = None
    _overrides: dict[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def overrides(self) -> dict[str, Any]:
        """Keys that were set for all data sets in place of the file's values, such as "training.epochs"."""
        return dict(self._overrides)

    @property
    def set_options(self) -> str:
        """The options of the command line for `overrides`, after a space; empty if there are none."""
        return "".join(f" --set {shlex.quote(f'{key}={_as_text(value)}')}" for key, value in self._overrides.items())

    def with_overrides(self, overrides: Mapping[str, Any]) -> "Spec":
        """A copy in which every data set has these values.

        Args:
            overrides: values by key of a ``[[data]]`` entry; the part after a dot is a key of a table.

        Raises:
            InputError: if a key does not exist, or a value is not valid.

        Example:
            >>> spec = load_spec("main").with_overrides({"training.epochs": 2, "size": 64})
            >>> spec.data[3].training, spec.data[3].size
            ({'epochs': 2}, 64)
        """
        data = [_override(entry, overrides) for entry in self.data]
        changed = self.model_copy(update={"data": data})
        changed._overrides = {**self._overrides, **overrides}
        return changed

    @property
    def row_names(self) -> list[str]:
        """Names of the losses, or of the branches of the two-stage diagnostic, in tables."""
        return list(BRANCHES) if self.two_stage else [loss_name(loss) for loss in self.losses]

    @property
    def calibrator_names(self) -> list[str]:
        """Names of the calibrators in tables."""
        return [calibrator_name(calibrator) for calibrator in self.calibrators]


def calibrator_name(calibrator: CalibratorSpec) -> str:
    """Name of a calibrator in tables: its label, or its name and options.

    Example:
        >>> calibrator_name("gap+projection"), calibrator_name({"name": "temperature", "search": "grid"})
        ('gap+projection', 'temperature (search=grid)')
    """
    if isinstance(calibrator, str):
        return calibrator
    options = ", ".join(f"{key}={value}" for key, value in calibrator.items() if key not in {"name", "label"})
    name = str(calibrator.get("name", ""))
    return str(calibrator.get("label") or (f"{name} ({options})" if options else name))


def loss_name(loss: LossSpec) -> str:
    """Name of a loss in tables: its label, its name with the head that the spec gives, or its options.

    Example:
        >>> loss_name("ce"), loss_name({"label": "s = 5", "name": "orcu", "scale": 5.0})
        ('ce', 's = 5')
        >>> loss_name({"name": "ce", "head": "cumulative"})
        'ce (head=cumulative)'
    """
    if isinstance(loss, str):
        return loss
    default = "ensemble" if "cv" in loss else json.dumps(loss, sort_keys=True)
    name = str(loss.get("name") or default)
    return str(loss.get("label") or (f"{name} (head={loss['head']})" if "head" in loss else name))


def load_spec(
    path: str | os.PathLike[str] | Spec, *, extra: str | None = None, overrides: Mapping[str, Any] | None = None
) -> Spec:
    """Load and check a spec.

    Args:
        path: TOML file, name of a spec that comes with orcu, or a spec made in Python.
        extra: name of one of the spec's lists of extra losses.
        overrides: values that replace those of every data set, as for `Spec.with_overrides`.

    Raises:
        InputError: if the file cannot be read, or a key or value is not valid.
    """
    file, spec = (Path(path.name), path) if isinstance(path, Spec) else _read(path)
    lists = {name: [_with_source(loss, file.parent) for loss in losses] for name, losses in spec.extra.items()}
    spec = spec.model_copy(update={"losses": [_with_source(loss, file.parent) for loss in spec.losses], "extra": lists})
    if overrides:
        spec = spec.with_overrides(overrides)
    if extra is not None:
        if extra not in spec.extra:
            raise UnknownNameError(f"extra losses (--extra) of {spec.name}", extra, spec.extra)
        data = [entry.model_copy(update={"exclude": []}) for entry in spec.data]
        spec = spec.model_copy(update={"losses": spec.losses + spec.extra[extra], "data": data})
    if bool(spec.losses) == bool(spec.two_stage):
        raise InputError(f"{file}: expected either losses or a [two_stage] table.")
    if spec.two_stage and any(data.label != "label" for data in spec.data):
        raise InputError(f'{file}: the two-stage diagnostic needs one label per row; remove label = "votes".')
    if spec.two_stage and "columns" not in spec.model_fields_set:
        spec = spec.model_copy(update={"columns": list(TWO_STAGE)})
    for name in (*spec.columns, *(data.select for data in spec.data if data.select)):
        column(name)
    for loss in spec.losses:
        EnsembleSpec.of(loss)
    _check_names(spec, file)
    return spec


def _read(path: str | os.PathLike[str]) -> tuple[Path, Spec]:
    file = Path(path)
    if not file.is_file():  # a folder may have the name of a spec
        names = sorted(config.stem for config in CONFIGS.glob("*.toml"))
        if str(path) not in names:
            raise UnknownNameError("spec", path, names)
        file = CONFIGS / f"{path}.toml"
    try:
        return file, Spec(**tomllib.loads(file.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: not a TOML file ({error}).") from None
    except ValidationError as error:
        raise InputError(f"{file}: {_first_error(error, Spec)}") from None


def _as_text(value: Any) -> str:
    """The value of ``--set`` in the spelling of TOML; text has no quotes."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return json.dumps(value) if isinstance(value, list) else str(value)


def _with_source(loss: LossSpec, folder: Path) -> LossSpec:
    """A loss of a Python file with the text of the file, so that workers need no file and the run id depends on it."""
    table = {"name": loss} if isinstance(loss, str) else loss
    parts = file_and_class(table.get("name"))
    if any(file_and_class(member) for member in table.get("losses", ()) if isinstance(member, str)):
        raise InputError("losses: an ensemble takes registered losses only, none of a Python file.")
    if parts is None or "source" in table:
        return loss
    file, class_name = parts
    source = read_source("losses", folder / file)
    return {"label": class_name, **table, "name": f"{file.name}:{class_name}", "source": source}


def _override(data: DataSpec, overrides: Mapping[str, Any]) -> DataSpec:
    content: dict[str, Any] = data.model_dump(exclude_unset=True)
    for key, value in overrides.items():
        name, _, entry = key.partition(".")
        if name not in DataSpec.model_fields:
            renamed = RENAMED_KEYS.get(name)
            if renamed in DataSpec.model_fields:
                raise InputError(f"--set {key}: the key {name!r} is called {renamed!r} since version 0.3.")
            raise UnknownNameError("key of a data set (--set)", name, DataSpec.model_fields)
        if not entry:
            content[name] = value
        elif isinstance(getattr(data, name), dict):
            content[name] = {**content.get(name, {}), entry: value}
        else:
            raise InputError(f"--set {key}: {name} is not a table; give {name}=VALUE.")
    try:
        return DataSpec(**content)
    except ValidationError as error:
        raise InputError(f"--set: {_first_error(error, DataSpec)}") from None


def _check_names(spec: Spec, file: Path) -> None:
    """Refuse duplicates, and names that refer to nothing."""
    lists: dict[str, list[Any]] = {
        "losses": spec.row_names,
        "seeds": spec.seeds,
        "calibrators": spec.calibrator_names,
        "columns": spec.columns,
        "data": [data.title for data in spec.data],
        **{f"folds of {data.title}": data.folds or [] for data in spec.data},
        **{f"seeds of {data.title}": data.seeds or [] for data in spec.data},
    }
    hints = {"losses": "; give it another label", "calibrators": "; give it another label"}
    for key, names in lists.items():
        for position, name in enumerate(names):
            if name in names[:position]:
                hint = "; give it another name" if key == "data" else hints.get(key, "")
                raise InputError(f"{file}: {key}: duplicate {name!r}{hint}.")
    for pipeline in spec.summary.pipelines if spec.summary else ():
        for key, name, names in (
            ("loss", pipeline.loss, spec.row_names),
            ("calibrator", pipeline.calibrator, spec.calibrator_names),
        ):
            if name not in names:
                raise UnknownNameError(f"{key} of the summary", name, names)
        if any(pipeline.loss in data.exclude for data in spec.data):
            raise InputError(f"{file}: summary: the loss {pipeline.loss!r} is excluded from a data set (exclude).")
    for data in spec.data:
        for name in data.exclude:
            if name not in spec.row_names:
                raise UnknownNameError(f"loss in exclude of {data.title}", name, spec.row_names)
        if spec.losses and set(spec.row_names) <= set(data.exclude):
            raise InputError(f"{file}: {data.title}: exclude removes every loss.")


def _first_error(error: ValidationError, model: type[_Strict]) -> str:
    # A misspelt key is reported twice, as unknown and as missing; the unknown key is more helpful.
    first = min(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")
    where = ".".join(map(str, first["loc"]))
    if first["type"] != "extra_forbidden":
        return f"{where}: {first['msg']}."
    key = first["loc"][-1]
    if model is Spec and len(first["loc"]) > 1:
        parts: dict[str, type[_Strict]] = {"data": DataSpec, "two_stage": TwoStage, "summary": SummarySpec}
        model = parts.get(str(first["loc"][0]), Spec)
    if RENAMED_KEYS.get(str(key)) in model.model_fields:
        return f"{where}: the key {key!r} is called {RENAMED_KEYS[str(key)]!r} since version 0.3."
    return f"{where}: {UnknownNameError('key', key, model.model_fields)}"
