"""Schema of the JSON file of a judge panel. Imported on demand, because pydantic is slow to import."""

import math
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, model_validator

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

    @model_validator(mode="after")
    def _check_shapes(self) -> "PanelSchema":
        """Compare the lengths of the lists, and the names of the judges."""
        used = {judge for judge, weight in self.weights.items() if weight > 0}
        rows = len(self.items)
        checks = {
            "held_probs": len(self.held_probs) == rows and {len(row) for row in self.held_probs} == {len(self.grades)},
            "held_grades": len(self.held_grades) == rows and max(self.held_grades, default=0) < len(self.grades),
            "fold": len(self.fold) == rows and set(self.fold) == set(range(len(self.folds))),
            "cluster": self.cluster is None or len(self.cluster) == rows,
            "items": len(set(self.items)) == rows and 0 < rows <= self.rows,
            "weights": math.isclose(sum(self.weights.values()), 1, abs_tol=1e-6)
            and (len(self.weights) == 1 if self.averaged else set(self.weights) == set(self.judges)),
            "pool": (self.pool is None) == (len(self.weights) == 1),
            "members": all(set(members) == used for members in (self.members, *self.folds)),
            "judges": len(set(self.judges)) == len(self.judges),
            "adjustments": not self.adjustments or self.prior_strength is not None,
        }
        for field, is_valid in checks.items():
            if not is_valid:
                raise ValueError(f"{field} does not fit the other fields")
        return self
