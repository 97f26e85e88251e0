"""Schema of a saved calibrator."""

from typing import Any

from pydantic import Field

from orcu.io.schema import ClassNames, NumClasses, Schema, UsedRowsSchema


class CalibratorSchema(Schema):
    """Result of `Calibrator.to_dict`; the command line adds classes, file and calibrated."""

    calibrator: str
    state_version: int
    options: dict[str, Any]
    num_classes: NumClasses | None
    fitted_on: UsedRowsSchema
    floor: float | None = Field(gt=0, lt=1)
    share: float = Field(default=0.0, ge=0, lt=1)
    state: dict[str, Any]
    classes: ClassNames | None = None
    file: str | None = None
    calibrated: list[str] | None = None
