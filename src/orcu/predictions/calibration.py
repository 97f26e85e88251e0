"""Interface of calibrators for `Predictions`, and warnings about rows that a calibrator was fitted on."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol, TypeVar

from orcu.inputs import ObjectArray
from orcu.predictions.used_rows import UsedRows


class SupportsCalibration(Protocol):
    """Interface of `orcu.calibrators.Calibrator`."""

    name: ClassVar[str]
    accepts_subgroup: ClassVar[bool]

    @property
    def fitted_on_(self) -> UsedRows:
        """Rows that the calibrator was fitted on."""

    def fit(
        self,
        logits: Any = None,
        y: Any = None,
        *,
        probs: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        ids: Any = None,
    ) -> Any:
        """Fit the calibrator on labelled rows."""

    def predict_logits(self, logits: Any = None, *, probs: Any = None) -> Any:
        """Return the calibrated logits."""


CalibratorT = TypeVar("CalibratorT", bound=SupportsCalibration)


def subgroup_option(calibrator: SupportsCalibration, subgroup: ObjectArray | None) -> dict[str, Any]:
    """Return the option ``subgroup`` for calibrators that accept it."""
    return {"subgroup": subgroup} if calibrator.accepts_subgroup else {}


def leakage_warnings(history: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a warning for each calibrator that was fitted on rows it has transformed."""
    return [
        f"WARNING: {step['shared']:,} of {step['rows']:,} rows were used to fit the {step['method']} calibrator that "
        "transformed them; evaluating on these rows is optimistically biased"
        for step in history
        if step.get("shared")
    ]
