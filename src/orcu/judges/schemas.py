"""Schema of the JSON file of a judge panel. Imported on demand, because pydantic is slow to import."""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field

from orcu.io.schema import ClassNames, Schema


class JudgeSchema(Schema):
    """A judge of a panel: the prior of its votes, and its calibrator."""

    prior: list[Annotated[float, Field(gt=0)]] | list[list[Annotated[float, Field(gt=0, le=1)]]] | None
    calibrator: dict[str, Any]


class PanelSchema(Schema):
    """A panel of judges, as written by `orcu.judges.panel.JudgePanel.to_dict`; the command line adds the file."""

    judge_panel: int
    grades: ClassNames
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
    prior_strength: float | None = Field(gt=0, validation_alias=AliasChoices("prior_strength", "pull"))  # pull: 0.2
    adjustments: dict[str, Annotated[list[float], Field(min_length=2, max_length=2)]] = Field(
        validation_alias=AliasChoices("adjustments", "turns")  # turns: orcu 0.2
    )
    members: dict[str, JudgeSchema] = Field(min_length=1)
    folds: list[dict[str, JudgeSchema]] = Field(min_length=2)
    items: list[str]
    fold: list[Annotated[int, Field(ge=0)]]
    cluster: list[str] | None
    held_probs: list[list[Annotated[float, Field(ge=0, le=1)]]]
    held_grades: list[Annotated[int, Field(ge=0)]]
    file: str | None = None
