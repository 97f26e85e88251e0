"""Comparison of calibrators by cross-validation, with a recommendation."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu import geometry, metrics
from orcu.calibrators.auto import AutoCalibration
from orcu.calibrators.base import CALIBRATORS, Calibrator, clone
from orcu.calibrators.chain import create
from orcu.calibrators.cross_validation import N_FOLDS
from orcu.calibrators.projection import nearest_unimodal
from orcu.errors import CalibrationWarning, InputError
from orcu.inputs import FloatArray, IntArray, as_labels, as_logits
from orcu.model_selection import stratified_folds

COMPARED = ("auto", "temperature", "vector", "dirichlet", "ordinal_dirichlet", "gap")
METRICS = ("nll", "rps", "sce", "ece", "unimodality", "accuracy", "mae")
MIN_ROWS = 50


@dataclass(frozen=True)
class Recommendation:
    """The cross-validated metrics of the calibrators, and the recommended one.

    Attributes:
        table: metrics of each calibrator, by name.
        chosen: name of the recommended calibrator, or "none".
        reason: explanation of the choice.
        calibrator: the recommended calibrator, fitted on all rows; ``None`` if it is "none".
    """

    table: dict[str, dict[str, float]]
    chosen: str
    reason: str
    calibrator: Calibrator | None

    def __str__(self) -> str:
        lines = [f"{'calibrator':32s}" + "".join(f"{metric:>12s}" for metric in METRICS)]
        for name, row in self.table.items():
            mark = "→ " if name == self.chosen else "  "
            lines.append(f"{mark}{name:30s}" + "".join(f"{row[metric]:12.4f}" for metric in METRICS))
        return "\n".join([*lines, self.reason])

    def _repr_html_(self) -> str:
        from orcu.report.card_html import card
        from orcu.report.text_tables import Cell

        rows = [
            [Cell(text, "best" if name == self.chosen else "") for text in (name, *(f"{row[m]:.4f}" for m in METRICS))]
            for name, row in self.table.items()
        ]
        about = "no calibration needed" if self.calibrator is None else "fitted on all rows: .calibrator"
        return card(f"Recommended: {self.chosen}", about=about, headings=["", *METRICS], rows=rows, note=self.reason)


def recommend(
    logits: Any,
    y: Any,
    *,
    min_unimodality: float = 0.99,
    calibrators: tuple[str, ...] = COMPARED,
    random_state: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> Recommendation:
    """Compare calibrators by five-fold cross-validation and recommend one.

    Each calibrator is evaluated alone and followed by the projection, which is a part of "auto". The recommendation has
    the lowest ranked probability score (RPS) among those with enough unimodal predictions.

    Args:
        logits: logits of rows the model was not trained on, shape (n, C).
        y: labels 0..C-1, shape (n,).
        min_unimodality: smallest share of unimodal predictions, 0 to 1.
        calibrators: names of the compared calibrators.
        random_state: seed of the folds.
        progress: function called before each calibrator with its name, its number and the number of calibrators.

    Raises:
        InputError: if an argument is invalid, or there are fewer than 50 rows.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = -((np.arange(3) - rng.uniform(-0.5, 2.5, size=(400, 1))) ** 2)
        >>> p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        >>> y = (rng.random((400, 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
        >>> recommend(4 * z, y, calibrators=("temperature",)).chosen
        'temperature'
    """
    if isinstance(calibrators, str) or not calibrators:
        raise InputError(f"calibrators: expected names such as ('temperature', 'gap'), got {calibrators!r}.")
    values = as_logits(logits)
    labels = as_labels(y, values.shape[1], rows=len(values))
    if len(labels) < MIN_ROWS:
        raise InputError(
            f"y: {len(labels)} rows are too few to compare calibrators, expected at least {MIN_ROWS}; use temperature "
            "scaling."
        )
    uncalibrated = geometry.probs(values)
    table = {"none": calibration_metrics(labels, probs=uncalibrated)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)  # folds are small; the final fit may warn
        for number, name in enumerate(calibrators):
            if progress is not None:
                progress(name, number, len(calibrators))
            probs = cross_val_predict_proba(CALIBRATORS.create(name), values, labels, random_state=random_state)
            table[name] = calibration_metrics(labels, probs=probs)
            if name != AutoCalibration.name:
                table[f"{name}+projection"] = calibration_metrics(labels, probs=nearest_unimodal(probs))
    table["projection"] = calibration_metrics(labels, probs=nearest_unimodal(uncalibrated))
    unimodal = [name for name, row in table.items() if row["unimodality"] >= min_unimodality]
    chosen = min(unimodal or ["projection"], key=lambda name: table[name]["rps"])
    calibrator = None if chosen == "none" else create(chosen).fit(values, labels)
    best, before = table[chosen]["rps"], table["none"]["rps"]
    reason = (
        f"{chosen}: the lowest cross-validated RPS ({best:.4f}; uncalibrated {before:.4f}) among {len(unimodal)} of "
        f"{len(table)} candidates, those with at least {min_unimodality:.1%} unimodal rows."
    )
    return Recommendation(table, chosen, reason, calibrator)


def cross_val_predict_proba(
    calibrator: Calibrator, logits: FloatArray, y: IntArray, *, cv: int = N_FOLDS, random_state: int = 0
) -> FloatArray:
    """Out-of-fold calibrated probabilities, shape (n, C)."""
    fold = stratified_folds(y, cv, random_state)
    probs = np.empty(logits.shape)
    for k in range(cv):
        fitted = clone(calibrator).fit(logits[fold != k], y[fold != k])
        probs[fold == k] = fitted.predict_proba(logits[fold == k])
    return probs


def calibration_metrics(
    y: IntArray,
    *,
    probs: FloatArray | None = None,
    logits: FloatArray | None = None,
    sample_weight: FloatArray | None = None,
) -> dict[str, float]:
    """The metrics that calibrators are compared by; from logits the NLL does not underflow.

    Example:
        >>> row = calibration_metrics(np.array([0, 1]), logits=np.array([[0.0, 0.0], [0.0, 900.0]]))
        >>> row["accuracy"], round(row["nll"], 4)
        (1.0, 0.3466)
    """
    probs = geometry.probs(logits) if probs is None else probs
    row = {}
    for name in METRICS:
        arguments = (probs,) if name == "unimodality" else (probs, y)
        row[name] = getattr(metrics, name)(*arguments, sample_weight=sample_weight)
    return row if logits is None else row | {"nll": metrics.nll(logits=logits, y=y, sample_weight=sample_weight)}
