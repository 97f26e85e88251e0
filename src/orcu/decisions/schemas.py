"""Schemas of saved prediction sets."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from orcu.io.schema import ClassNames, NumClasses, Schema, UsedRowsSchema

Score = Annotated[float, Field(ge=0, le=2)]  # a probability mass, plus up to 1e-9 per class


class CrossConformalSchema(Schema):
    """File written by `CrossConformalSets.save`."""

    prediction_sets: Literal["cross"]
    state_version: int
    num_classes: NumClasses
    scores: list[list[Score]] = Field(min_length=1)
    target: Literal["vote", "majority"] | None = None
    weights: list[list[Annotated[float, Field(gt=0, le=1)]]] | None = None

    @model_validator(mode="after")
    def _check_weights(self) -> "CrossConformalSchema":
        if self.weights is not None and list(map(len, self.weights)) != list(map(len, self.scores)):
            raise ValueError("weights: expected one for each of the scores")
        return self


class PredictionSetsSchema(Schema):
    """Result of `OrdinalPredictionSets.to_dict`; a class with a threshold of ``None`` is in every set."""

    prediction_sets: Literal["ordinal"]
    state_version: int
    alpha: float = Field(ge=0, lt=1)
    conditional: bool
    num_classes: NumClasses
    fitted_on: UsedRowsSchema
    thresholds: list[Score | None]
    n_clusters: int | None = Field(default=None, ge=1)
    target: Literal["vote", "majority"] | None = None  # of sets fitted on votes
    subgroups: dict[str, Score] = Field(default_factory=dict)
    classes: ClassNames | None = None
    file: str | None = None
    calibrated: list[str] | None = None

    @model_validator(mode="after")
    def _check_consistency(self) -> "PredictionSetsSchema":
        if len(self.thresholds) != self.num_classes:
            raise ValueError(f"thresholds: expected {self.num_classes}, one per class, got {len(self.thresholds)}")
        if not self.conditional and len(set(self.thresholds)) > 1:
            raise ValueError(
                "thresholds: expected the same for all classes, because the sets are not class-conditional"
            )
        if self.conditional and self.subgroups:
            raise ValueError("subgroups: expected none, because the sets are class-conditional")
        if (self.state_version == 3) != bool(self.subgroups):
            raise ValueError("subgroups: expected in state_version 3, and only there")
        if self.classes is not None and len(self.classes) != self.num_classes:
            raise ValueError(f"{len(self.classes)} names in classes, but num_classes is {self.num_classes}")
        return self
