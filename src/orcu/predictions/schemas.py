"""What orcu writes for itself, checked field by field when it is read again: one schema per file format.

They need pydantic, which takes its time to import: who reads such a file imports this module then.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orcu.errors import InputError

MOST_CLASSES = 100_000


class Schema(BaseModel):
    """Fields of exactly their types; numbers are finite."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


SchemaT = TypeVar("SchemaT", bound=Schema)


class _Versioned(Schema):
    schema_version: int


class Metadata(_Versioned):
    """The metadata of a Parquet file of predictions under the key "orcu".

    Attributes:
        schema_version: of the file.
        kind: what its columns hold.
        classes: lowest first.
        history: what was done to the predictions, and with which rows.
    """

    kind: Literal["probs", "logits"]
    classes: list[str] = Field(min_length=2, max_length=MOST_CLASSES)
    history: list[dict[str, Any]] = Field(default_factory=list)

    @classmethod
    def parse(cls, text: str, *, schema_version: int) -> "Metadata":
        """The metadata in a text.

        Raises:
            InputError: if it is damaged, or of another version.

        Example:
            >>> Metadata.parse("{}", schema_version=1)
            Traceback (most recent call last):
            orcu.errors.InputError: its metadata are damaged (schema_version: Field required).
        """
        try:
            version = _Versioned.model_validate_json(text).schema_version  # first: another may have other fields
            if version != schema_version:
                raise InputError(f"schema version {version}, this orcu reads {schema_version}.")
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise InputError(f"its metadata are damaged ({fault(error)}).") from None


class Rows(Schema):
    """The rows that fitted something, as `UsedRows.to_dict` gives them."""

    count: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    ids: list[str] | None = None


class FittedCalibrator(Schema):
    """A fitted calibrator, as `Calibrator.to_dict` gives it; the command line adds classes and file."""

    calibrator: str
    state_version: int
    options: dict[str, Any]
    num_classes: int | None = Field(ge=2, le=MOST_CLASSES)
    fitted_on: Rows
    floor: float | None = Field(gt=0, lt=1)
    share: float = Field(default=0.0, ge=0, lt=1)
    state: dict[str, Any]
    classes: list[str] | None = Field(default=None, min_length=2, max_length=MOST_CLASSES)
    file: str | None = None
    calibrated: list[str] | None = None


class FittedCrossSets(Schema):
    """Prediction sets of an ensemble, as `CrossConformalSets.save` writes them."""

    prediction_sets: Literal["cross"]
    state_version: int
    num_classes: int = Field(ge=2, le=MOST_CLASSES)
    scores: list[list[Annotated[float, Field(ge=0, le=2)]]] = Field(min_length=2)


class FittedSets(Schema):
    """Fitted prediction sets, as `OrdinalPredictionSets.to_dict` gives them; ``None`` stands for every class."""

    prediction_sets: Literal["ordinal"]
    state_version: int
    alpha: float = Field(ge=0, lt=1)
    conditional: bool
    num_classes: int = Field(ge=2, le=MOST_CLASSES)
    fitted_on: Rows
    thresholds: list[float | None]
    classes: list[str] | None = Field(default=None, min_length=2, max_length=MOST_CLASSES)
    file: str | None = None
    calibrated: list[str] | None = None


class FittedJudge(Schema):
    """One judge of a panel: what smooths its votes, and its calibrator."""

    prior: list[Annotated[float, Field(gt=0)]] | list[list[Annotated[float, Field(gt=0, le=1)]]] | None
    calibrator: dict[str, Any]


class FittedPanel(Schema):
    """A panel of judges, as `orcu.judges.panel.JudgePanel.to_dict` gives it; the command line adds the file."""

    judge_panel: int
    grades: list[str] = Field(min_length=2, max_length=MOST_CLASSES)
    kind: Literal["probs", "votes"]
    calibrator: str
    seed: int
    rows: int = Field(ge=1)
    notes: list[str]
    groups: list[str]
    judges: list[str] = Field(min_length=1)
    averaged: bool
    weights: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(min_length=1)
    pool: dict[str, Any] | None
    pull: float | None = Field(gt=0)
    turns: dict[str, Annotated[list[float], Field(min_length=2, max_length=2)]]
    members: dict[str, FittedJudge] = Field(min_length=1)
    folds: list[dict[str, FittedJudge]] = Field(min_length=2)
    items: list[str]
    fold: list[Annotated[int, Field(ge=0)]]
    cluster: list[str] | None
    held_probs: list[list[Annotated[float, Field(ge=0, le=1)]]]
    held_grades: list[Annotated[int, Field(ge=0)]]
    file: str | None = None


class TallyState(Schema):
    """The sums of some rows, as `orcu.Tally.to_dict` gives them."""

    state_version: int
    num_classes: int = Field(ge=2, le=MOST_CLASSES)
    bins: int = Field(ge=1)
    rows: int = Field(ge=0)
    scores: list[str]
    limbs: list[list[Annotated[int, Field(gt=-(2**63), lt=2**63)]]]


class MonitoredDay(Schema):
    """One day of a monitor's log, as `orcu.monitoring.log.Day.to_dict` gives it."""

    monitored_day: int
    day: str
    classes: list[str] = Field(min_length=2, max_length=MOST_CLASSES)
    waiting: int = Field(ge=0)
    ids: list[str] | None
    waiting_ids: list[str] | None
    sources: list[dict[str, str]]
    tally: TallyState


def validated(schema: type[SchemaT], state: Mapping[str, Any], what: str) -> SchemaT:
    """Plain data as their schema.

    Args:
        schema: that they should have.
        state: the data.
        what: they are, in messages.

    Raises:
        InputError: which names the field.

    Example:
        >>> validated(Rows, {"count": -1, "sha256": "0" * 64}, "its rows")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        orcu.errors.InputError: its rows are damaged (count: Input should be ...); fit anew.
    """
    try:
        return schema.model_validate(dict(state))
    except ValidationError as error:
        raise InputError(f"{what} are damaged ({fault(error)}); fit anew.") from None


def fault(error: ValidationError) -> str:
    """The first thing that is wrong, with its place."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else str(first["msg"])
