"""Schemas of saved prediction sets."""

from typing import Annotated, Literal

from pydantic import Field

from orcu.io.schema import ClassNames, NumClasses, Schema, UsedRowsSchema


class CrossConformalSchema(Schema):
    """File written by `CrossConformalSets.save`."""

    prediction_sets: Literal["cross"]
    state_version: int
    num_classes: NumClasses
    scores: list[list[Annotated[float, Field(ge=0, le=2)]]] = Field(min_length=2)


class PredictionSetsSchema(Schema):
    """Result of `OrdinalPredictionSets.to_dict`; a threshold of ``None`` includes every class."""

    prediction_sets: Literal["ordinal"]
    state_version: int
    alpha: float = Field(ge=0, lt=1)
    conditional: bool
    num_classes: NumClasses
    fitted_on: UsedRowsSchema
    thresholds: list[float | None]
    classes: ClassNames | None = None
    file: str | None = None
    calibrated: list[str] | None = None
