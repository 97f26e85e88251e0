"""Schema of a saved calibrator."""

from typing import Any

from pydantic import Field, model_validator

from orcu.io.schema import ClassNames, NumClasses, Schema, UsedRowsSchema


class VotesSchema(Schema):
    """Numbers of cases and votes of a fit; the number of votes behind shares is not known."""

    cases: int = Field(ge=1)
    votes: int | None = Field(ge=1)


class CalibratorSchema(Schema):
    """Result of `Calibrator.to_dict`; the command line adds classes, file and calibrated."""

    calibrator: str
    state_version: int
    options: dict[str, Any]
    num_classes: NumClasses | None
    fitted_on: UsedRowsSchema
    floor: float | None = Field(gt=0, lt=1)
    share: float = Field(default=0.0, ge=0, le=1 / 6)  # 1 / (2 (n + C)) of one row and two classes
    state: dict[str, Any]
    votes: VotesSchema | None = None
    classes: ClassNames | None = None
    file: str | None = None
    calibrated: list[str] | None = None

    @model_validator(mode="after")
    def _check_classes(self) -> "CalibratorSchema":
        if self.classes is not None and self.num_classes not in {None, len(self.classes)}:
            raise ValueError(f"{len(self.classes)} names in classes, but num_classes is {self.num_classes}")
        return self
