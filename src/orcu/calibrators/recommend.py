"""Which calibrator for these rows: a cross-validated comparison and a stated rule."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu import geometry, metrics
from orcu.calibrators.base import CALIBRATORS, Calibrator
from orcu.calibrators.chain import create
from orcu.calibrators.cross_validation import FOLDS
from orcu.calibrators.projection import nearest_unimodal
from orcu.errors import CalibrationWarning, InputError
from orcu.inputs import FloatArray, IntArray, as_labels, as_logits
from orcu.io.card import card
from orcu.io.text import Cell
from orcu.model_selection import stratified_folds

METHODS = ("temperature", "vector", "dirichlet", "ordinal_dirichlet", "gap")
COLUMNS = ("nll", "rps", "sce", "ece", "unimodality", "accuracy", "mae")
FEWEST_ROWS = 50


@dataclass(frozen=True)
class Recommendation:
    """The comparison, the winner by the rule, and the winner fitted on all rows."""

    table: dict[str, dict[str, float]]
    chosen: str
    rule: str
    calibrator: Calibrator | None  # None: leave the predictions as they are

    def __str__(self) -> str:
        lines = [f"{'method':32s}" + "".join(f"{column:>12s}" for column in COLUMNS)]
        for name, row in self.table.items():
            mark = "→ " if name == self.chosen else "  "
            lines.append(f"{mark}{name:30s}" + "".join(f"{row[column]:12.4f}" for column in COLUMNS))
        return "\n".join([*lines, self.rule])

    def _repr_html_(self) -> str:
        rows = [
            [Cell(text, "best" if name == self.chosen else "") for text in (name, *(f"{row[c]:.4f}" for c in COLUMNS))]
            for name, row in self.table.items()
        ]
        about = "leave the predictions as they are" if self.calibrator is None else "fitted on all rows: .calibrator"
        return card(f"Recommended: {self.chosen}", about=about, headings=["", *COLUMNS], rows=rows, note=self.rule)


def recommend(
    logits: Any,
    y: Any,
    *,
    unimodality: float = 0.99,
    methods: tuple[str, ...] = METHODS,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> Recommendation:
    """Compare calibrators on held-out rows by cross-validation and pick one.

    Every method, alone and followed by the projection, is fitted on four fifths and judged on the
    fifth, in turn. The rule: the lowest RPS among those with at least the asked unimodality; if
    none has it, the lowest RPS after the projection.

    Args:
        logits: shape (n, C), of rows the model was not trained on.
        y: labels 0..C-1, shape (n,).
        unimodality: the share of unimodal predictions that is asked for, 0 to 1.
        methods: names of calibrators to try.
        seed: of the folds.
        progress: called before each method with its name, how many are done, and how many there are.

    Raises:
        InputError: if an argument cannot be used, or rows are too few to compare anything.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = -((np.arange(3) - rng.uniform(-0.5, 2.5, size=(400, 1))) ** 2)
        >>> p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        >>> y = (rng.random((400, 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
        >>> recommend(4 * z, y, methods=("temperature",)).chosen
        'temperature'
    """
    if isinstance(methods, str) or not methods:
        raise InputError(f"methods: expected names such as ('temperature', 'gap'), got {methods!r}.")
    values = as_logits(logits)
    labels = as_labels(y, values.shape[1], rows=len(values))
    if len(labels) < FEWEST_ROWS:
        raise InputError(
            f"recommend: {len(labels)} rows are too few to compare calibrators; {FEWEST_ROWS} are the least. "
            "Use temperature scaling."
        )
    as_they_are = geometry.probs(values)
    table = {"none": metric_row(labels, probs=as_they_are)}
    with warnings.catch_warnings():
        # Folds are small; the final fit may warn.
        warnings.simplefilter("ignore", CalibrationWarning)
        for done, name in enumerate(methods):
            if progress is not None:
                progress(name, done, len(methods))
            probs = cross_fitted(CALIBRATORS.create(name), values, labels, seed=seed)
            table[name] = metric_row(labels, probs=probs)
            table[f"{name}+projection"] = metric_row(labels, probs=nearest_unimodal(probs))
    table["projection"] = metric_row(labels, probs=nearest_unimodal(as_they_are))
    kept = [name for name, row in table.items() if row["unimodality"] >= unimodality]
    chosen = min(kept or ["projection"], key=lambda name: table[name]["rps"])
    calibrator = None if chosen == "none" else create(chosen).fit(values, labels)
    rule = f"rule: the lowest cross-validated RPS among methods with at least {unimodality:.1%} unimodal rows"
    return Recommendation(table, chosen, rule, calibrator)


def cross_fitted(
    calibrator: Calibrator, logits: FloatArray, y: IntArray, *, folds: int = FOLDS, seed: int = 0
) -> FloatArray:
    """Probabilities of every row from a calibrator that has not seen it, shape (n, C)."""
    fold = stratified_folds(y, folds, seed)
    out = np.empty(logits.shape)
    for k in range(folds):
        fitted = _fresh(calibrator).fit(logits[fold != k], y[fold != k])
        out[fold == k] = fitted.predict_proba(logits[fold == k])
    return out


def _fresh(calibrator: Calibrator) -> Calibrator:
    return type(calibrator)(**calibrator.get_params())


def metric_row(
    y: IntArray, *, probs: FloatArray | None = None, logits: FloatArray | None = None, weight: FloatArray | None = None
) -> dict[str, float]:
    """The metrics that calibrators are compared by, of probabilities or of logits, whose NLL does not underflow.

    Example:
        >>> row = metric_row(np.array([0, 1]), logits=np.array([[0.0, 0.0], [0.0, 900.0]]))
        >>> row["accuracy"], round(row["nll"], 4)
        (1.0, 0.3466)
    """
    probs = geometry.probs(logits) if probs is None else probs
    row = {}
    for name in COLUMNS:
        function = getattr(metrics, name)
        row[name] = function(probs, weight=weight) if name == "unimodality" else function(probs, y, weight=weight)
    return row if logits is None else row | {"nll": metrics.nll(logits=logits, y=y, weight=weight)}
