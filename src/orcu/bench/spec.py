"""Specs: what a benchmark consists of, as TOML; unknown keys are refused with the nearest name."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError

from orcu.bench.columns import TWO_STAGE, column
from orcu.errors import InputError, UnknownNameError

_PACKAGED = Path(__file__).parent / "configs"
CONFIGS = _PACKAGED if _PACKAGED.exists() else Path(__file__).parents[3] / "configs"  # or a work tree's

BRANCHES = ("sord", "hinge", "orcu")  # of the two-stage diagnostic
COLUMNS = ("accuracy", "mae", "qwk", "ece", "sce", "ace", "rps", "unimodality")


CalibratorSpec = str | dict[str, Any]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSpec(_Strict):
    """One data set and how it is trained on.

    Attributes:
        set: a registered data set.
        prepared: what it is called in the store; the set's own name by default.
        name: what it is called in tables; as in the store by default.
        options: of the data set.
        protocol: how it is divided.
        folds: which folds; all by default.
        seeds: in place of the spec's, where one division is all there is.
        backbone: see `orcu.training.run.RunConfig`, as for the following.
        weights: of the backbone.
        frozen: train on features of a frozen backbone.
        hidden: layers of the perceptron, for tables and frozen features.
        size: of images, in pixels.
        augment: flips and rotations.
        recipe: changes to the recipe.
        without: losses of the spec that are left out here, as they are called in tables.
        select: a metric by which the best loss is chosen here, on validation rows; such as the scale s.
    """

    set: str
    prepared: str = Field(default="", pattern=r"^(\w[\w.-]*)?$")  # no way out of the store
    name: str = ""
    options: dict[str, Any] = Field(default_factory=dict)
    protocol: str = "five_folds"
    folds: list[NonNegativeInt] | None = Field(default=None, min_length=1)
    seeds: list[NonNegativeInt] | None = Field(default=None, min_length=1)
    backbone: str = ""
    weights: str = "pretrained"
    frozen: bool = False
    hidden: list[PositiveInt] = Field(default_factory=lambda: [256])
    size: PositiveInt = 224
    augment: bool = True
    recipe: dict[str, Any] = Field(default_factory=dict)
    without: list[str] = Field(default_factory=list)
    select: str = ""

    @property
    def store(self) -> str:
        """What it is called in the store."""
        return self.prepared or self.set

    @property
    def title(self) -> str:
        """What it is called in tables."""
        return self.name or self.store


class TwoStage(_Strict):
    """The two-stage diagnostic (Section III-D): SoftCE, then its branches from one checkpoint.

    Attributes:
        scale: s.
        epochs: of stage one and of stage two.
    """

    scale: float = Field(default=3.0, gt=0)
    epochs: tuple[PositiveInt, PositiveInt] = (50, 50)


class EnsembleSpec(_Strict):
    """An ensemble in place of a loss: cross-fitted members, weighed by what they say out of fold.

    Attributes:
        label: what it is called in tables.
        folds: that the rows of train and validation are dealt into.
        losses: of its networks, as for `orcu.losses.create`.
        members: their kinds; as `orcu train` chooses them by default: trees and networks on tables, networks elsewhere.
        recipe: changes to the ensemble's own recipe; the data set's is that of single networks.
    """

    label: str = ""
    folds: int = Field(ge=2)
    losses: list[str | dict[str, Any]] = Field(default=["ce", "sord", "orcu"], min_length=1)
    members: list[Literal["network", "boosting"]] | None = Field(default=None, min_length=1)
    recipe: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def of(cls, loss: Any) -> "EnsembleSpec | None":
        """The ensemble that an entry of ``losses`` describes, which is one if it has folds.

        Raises:
            InputError: if it has folds and cannot be one.

        Example:
            >>> EnsembleSpec.of({"folds": 5}).losses, EnsembleSpec.of("ce")
            (['ce', 'sord', 'orcu'], None)
        """
        if not isinstance(loss, dict) or "folds" not in loss:
            return None
        try:
            return cls(**loss)
        except ValidationError as error:
            raise InputError(f"losses: {json.dumps(loss)} is no ensemble ({_fault(error)}).") from None


class Pipeline(_Strict):
    """A row of a spec's tables: a loss and a calibrator as they are called there, and what it is called in sentences.

    Attributes:
        loss: of the spec.
        calibrator: of the spec.
        name: in sentences and figures.
        how: what a reader does to have it.
    """

    loss: str
    calibrator: str = "none"
    name: str
    how: str = ""


class Story(_Strict):
    """Which rows of the tables the report opens with.

    Attributes:
        today: what people do.
        paper: the loss of the paper as it is.
        ours: what they could do.
    """

    today: Pipeline
    paper: Pipeline
    ours: Pipeline

    @property
    def pipelines(self) -> list[Pipeline]:
        """All three, in the order of the story."""
        return [self.today, self.paper, self.ours]


class Spec(_Strict):
    """A benchmark.

    Attributes:
        name: of the benchmark, and of its folder among the results.
        title: a sentence for tables and the report.
        data: the data sets.
        losses: names or tables, as for `orcu.losses.create`; a table with ``folds`` is a `EnsembleSpec`.
        seeds: each makes every run once more.
        calibrators: what follows each run: "none", names, chains such as "gap+projection", or tables of a name, its
            options and a label.
        columns: metrics of the tables.
        threads: of each run; part of what a result depends on.
        paper: which tables of the paper it answers, in `compare`.
        rows: which rows the tables judge, "test" or "validation".
        more: further losses by a name, which ``--with`` adds everywhere, also where ``without`` leaves some out.
        keep_models: keep each run's weights among the results, for Grad-CAM.
        two_stage: the two-stage diagnostic in place of single runs; its branches stand for the losses.
        story: which rows the report opens with, in words.
    """

    name: str = Field(pattern=r"^\w[\w.-]*$")
    title: str = ""
    data: list[DataSpec] = Field(min_length=1)
    losses: list[str | dict[str, Any]] = Field(default_factory=list)
    seeds: list[NonNegativeInt] = Field(default_factory=lambda: [0], min_length=1)
    calibrators: list[CalibratorSpec] = Field(default=["none"], min_length=1)
    columns: list[str] = Field(default_factory=lambda: list(COLUMNS), min_length=1)
    threads: int = Field(default=1, ge=1)
    paper: list[str] = Field(default_factory=list)
    rows: Literal["test", "validation"] = "test"
    more: dict[str, list[str | dict[str, Any]]] = Field(default_factory=dict)
    keep_models: bool = False
    two_stage: TwoStage | None = None
    story: Story | None = None

    @property
    def row_names(self) -> list[str]:
        """The losses, or branches of the two-stage diagnostic, as they are called in tables."""
        return list(BRANCHES) if self.two_stage else [loss_name(loss) for loss in self.losses]

    @property
    def calibrator_names(self) -> list[str]:
        """The calibrators, as they are called in tables."""
        return [calibrator_name(calibrator) for calibrator in self.calibrators]


def calibrator_name(calibrator: CalibratorSpec) -> str:
    """How a calibrator of a spec is called in tables: its label, or its name and options.

    Example:
        >>> calibrator_name("gap+projection"), calibrator_name({"name": "temperature", "search": "grid"})
        ('gap+projection', 'temperature (search=grid)')
    """
    if isinstance(calibrator, str):
        return calibrator
    options = ", ".join(f"{key}={value}" for key, value in calibrator.items() if key not in {"name", "label"})
    name = str(calibrator.get("name", ""))
    return str(calibrator.get("label") or (f"{name} ({options})" if options else name))


def loss_name(loss: str | dict[str, Any]) -> str:
    """How a loss of a spec is called in tables: its label, its name, or itself.

    Example:
        >>> loss_name("ce"), loss_name({"label": "s = 5", "name": "orcu", "scale": 5.0})
        ('ce', 's = 5')
    """
    if isinstance(loss, str):
        return loss
    unnamed = "ensemble" if "folds" in loss else json.dumps(loss, sort_keys=True)
    return str(loss.get("label") or loss.get("name") or unnamed)


def load_spec(path: str | os.PathLike[str] | Spec, *, more: str | None = None) -> Spec:
    """A spec from a TOML file, or one of those that come with orcu, by name; or one that was made in Python, checked.

    Args:
        path: the file, the name, or the spec.
        more: the name of further losses in the spec.

    Raises:
        InputError: if it cannot be read, or a key or value cannot be used; with its place.
    """
    file, spec = (Path(path.name), path) if isinstance(path, Spec) else _read(path)
    if more is not None:
        if more not in spec.more:
            raise UnknownNameError(f"further losses (--with) of {spec.name}", more, spec.more)
        whole = [one.model_copy(update={"without": []}) for one in spec.data]
        spec = spec.model_copy(update={"losses": spec.losses + spec.more[more], "data": whole})
    if bool(spec.losses) == bool(spec.two_stage):
        raise InputError(f"{file}: name losses, or a [two_stage] in their place.")
    if spec.two_stage and "columns" not in spec.model_fields_set:
        spec = spec.model_copy(update={"columns": list(TWO_STAGE)})
    for name in (*spec.columns, *(one.select for one in spec.data if one.select)):
        column(name)
    _check_names(spec, file)
    return spec


def _read(path: str | os.PathLike[str]) -> tuple[Path, Spec]:
    """The file of a spec, and what it says."""
    file = Path(path)
    if not file.is_file():  # a folder may be called as a spec is
        known = sorted(one.stem for one in CONFIGS.glob("*.toml"))
        if str(path) not in known:
            raise UnknownNameError("spec", path, known)
        file = CONFIGS / f"{path}.toml"
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: no TOML ({error}).") from None
    try:
        return file, Spec(**content)
    except ValidationError as error:
        raise InputError(f"{file}: {_fault(error)}") from None


def _check_names(spec: Spec, file: Path) -> None:
    """Refuse what stands twice, which would be counted twice, and names that nothing has."""
    lists: dict[str, list[Any]] = {
        "losses": spec.row_names,
        "seeds": spec.seeds,
        "calibrators": spec.calibrator_names,
        "columns": spec.columns,
        "data": [one.title for one in spec.data],
        **{f"folds of {one.title}": one.folds or [] for one in spec.data},
        **{f"seeds of {one.title}": one.seeds or [] for one in spec.data},
    }
    for what, names in lists.items():
        twice = [name for k, name in enumerate(names) if name in names[:k]]
        if twice:
            hints = {"losses": "; give them labels", "calibrators": "; give them labels", "data": "; give them names"}
            raise InputError(f"{file}: {what}: {twice[0]!r} stands twice{hints.get(what, '')}.")
    for pipeline in spec.story.pipelines if spec.story else ():
        for what, name, known in (
            ("loss", pipeline.loss, spec.row_names),
            ("calibrator", pipeline.calibrator, spec.calibrator_names),
        ):
            if name not in known:
                raise UnknownNameError(f"{what} of the story", name, known)
        if any(pipeline.loss in one.without for one in spec.data):
            raise InputError(f"{file}: story: {pipeline.loss} is left out of a data set (without).")
    for one in spec.data:
        for name in one.without:
            if name not in spec.row_names:
                raise UnknownNameError(f"loss in without of {one.title}", name, spec.row_names)
        if spec.losses and set(spec.row_names) <= set(one.without):
            raise InputError(f"{file}: {one.title}: every loss is left out (without).")


def _fault(error: ValidationError) -> str:
    # A misspelt key is both unknown and, under its right name, missing: the former says more.
    first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        parts: dict[str, type[_Strict]] = {"data": DataSpec, "two_stage": TwoStage, "story": Story}
        models = parts if len(first["loc"]) > 1 else {}
        model = models.get(str(first["loc"][0]), Spec)
        return str(UnknownNameError("key", first["loc"][-1], model.model_fields)) + f" (at {place})"
    return f"{place}: {first['msg']}"
