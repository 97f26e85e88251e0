"""Comparison of calibrators by cross-validation, with a recommendation."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from orcu import geometry, metrics
from orcu.calibrators.auto import AutoCalibration
from orcu.calibrators.base import CALIBRATORS, Calibrator, clone
from orcu.calibrators.chain import create
from orcu.calibrators.cross_validation import N_FOLDS
from orcu.calibrators.projection import UnimodalProjection, nearest_unimodal
from orcu.errors import CalibrationWarning, InputError
from orcu.inputs import (
    FloatArray,
    IntArray,
    ObjectArray,
    as_codes,
    as_labels,
    as_logits,
    as_probs,
    as_sample_weight,
    as_strings,
)
from orcu.model_selection import cross_fit_folds, fold_numbers, stratified_folds
from orcu.raters.votes import Targets, as_votes, grades, is_votes, weighted_rows

COMPARED = ("auto", "temperature", "vector", "dirichlet", "ordinal_dirichlet", "gap")
WITH_SUBGROUPS = "grouped"  # compared in addition if there are subgroups
UNIMODAL = (AutoCalibration.name, WITH_SUBGROUPS)  # not compared with a projection after them
SCORE = "nll"  # calibrators are fitted by likelihood, and `auto` is weighted by it
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
        by_subgroup: metrics of each calibrator in each subgroup; empty without subgroups.
    """

    table: dict[str, dict[str, float]]
    chosen: str
    reason: str
    calibrator: Calibrator | None
    by_subgroup: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)

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
    logits: Any = None,
    y: Any = None,
    *,
    probs: Any = None,
    sample_weight: Any = None,
    subgroup: Any = None,
    cluster: Any = None,
    min_unimodality: float = 0.99,
    calibrators: tuple[str, ...] = COMPARED,
    random_state: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> Recommendation:
    """Compare calibrators by five-fold cross-validation and recommend one.

    Each calibrator is evaluated alone and followed by the projection, which is a part of "auto". The recommendation has
    the lowest negative log-likelihood (NLL, log loss) among those with enough unimodal predictions. "auto" weights its
    calibrators by the same score, on the same folds.

    Args:
        logits: logits of rows the model was not trained on, shape (n, C).
        y: labels 0..C-1, shape (n,); or votes of several raters, counts or shares of shape (n, C). The metrics are then
            expectations over a random vote of each case.
        probs: class probabilities of shape (n, C), instead of logits. The NLL of the uncalibrated predictions is
            infinite if a true class has a probability of 0.
        sample_weight: non-negative weight of each row.
        subgroup: subgroup of each row, such as its hospital. The metrics of each subgroup are reported as well, and
            "grouped" (a correction per subgroup) is compared in addition.
        cluster: cluster of each row, such as its patient; rows of a cluster stay in one fold.
        min_unimodality: smallest share of unimodal predictions, 0 to 1.
        calibrators: names of the compared calibrators.
        random_state: seed of the folds.
        progress: function called before each calibrator with its name, its number and the number of calibrators.

    Raises:
        InputError: if an argument is invalid, or there are fewer than 50 rows, or a single cluster.

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
    rows = _Rows.from_arguments(logits, y, probs, sample_weight, subgroup, cluster)
    labels = rows.y
    if len(labels) < MIN_ROWS:
        raise InputError(
            f"y: {len(labels)} rows are too few to compare calibrators, expected at least {MIN_ROWS}; use temperature "
            "scaling."
        )
    if rows.subgroup is not None and WITH_SUBGROUPS not in calibrators:
        calibrators = (*calibrators, WITH_SUBGROUPS)
    candidates = {"none": rows.scores}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)  # folds are small; the final fit may warn
        for number, name in enumerate(calibrators):
            if progress is not None:
                progress(name, number, len(calibrators))
            calibrated = cross_val_predict_proba(
                CALIBRATORS.create(name),
                y=labels,
                **rows.scores,
                sample_weight=rows.sample_weight,
                subgroup=rows.subgroup,
                cluster=rows.cluster,
                random_state=random_state,
            )
            candidates[name] = {"probs": calibrated}
            if name not in UNIMODAL:
                candidates[f"{name}+projection"] = {"probs": nearest_unimodal(calibrated)}
    candidates["projection"] = {"logits": UnimodalProjection().predict_logits(**rows.scores)}
    table = {
        name: calibration_metrics(labels, **scores, sample_weight=rows.sample_weight)
        for name, scores in candidates.items()
    }
    unimodal = [name for name, row in table.items() if row["unimodality"] >= min_unimodality]
    chosen = min(unimodal or ["projection"], key=lambda name: table[name][SCORE])
    calibrator = None if chosen == "none" else rows.fit(create(chosen))
    best, before = (_score_text(table[name][SCORE]) for name in (chosen, "none"))
    reason = (
        f"{chosen}: the lowest cross-validated log loss (NLL {best}; uncalibrated {before}) among {len(unimodal)} of "
        f"{len(table)} candidates, those with at least {min_unimodality:.1%} unimodal rows."
    )
    return Recommendation(
        table,
        chosen,
        reason,
        calibrator,
        {} if rows.subgroup is None else subgroup_metrics(candidates, labels, rows.subgroup, rows.sample_weight),
    )


def _score_text(score: float) -> str:
    return "infinite" if np.isinf(score) else f"{score:.4f}"


@dataclass(frozen=True)
class _Rows:
    """Checked arguments of `recommend`, without rows of weight 0; ``scores`` are logits or probs."""

    scores: dict[str, Any]
    y: Targets  # labels, or votes
    sample_weight: FloatArray | None
    subgroup: ObjectArray | None
    cluster: IntArray | None

    @classmethod
    def from_arguments(
        cls, logits: Any, y: Any, probs: Any, sample_weight: Any, subgroup: Any, cluster: Any
    ) -> "_Rows":
        if (logits is None) == (probs is None):
            raise InputError("logits, probs: pass exactly one of the two.")
        name, values = ("probs", as_probs(probs)) if logits is None else ("logits", as_logits(logits))
        n = len(values)
        num_classes = values.shape[1]
        is_labels = not is_votes(y)
        labels = as_labels(y, num_classes, rows=n) if is_labels else as_votes(y, num_classes, rows=n)
        weights = None if sample_weight is None else as_sample_weight(sample_weight, rows=n)
        used = np.ones(n, dtype=bool) if weights is None else weights > 0
        clusters = None if cluster is None else as_codes(cluster, rows=n, name="cluster")[used]
        if clusters is not None and len(np.unique(clusters)) < 2:
            raise InputError(
                "cluster: all rows are of one cluster, so calibrators cannot be compared on other clusters. Use rows "
                "of several clusters, or omit cluster (--cluster)."
            )
        names = None if subgroup is None else as_strings(subgroup, rows=n, name="subgroup")[used]
        return cls({name: values[used]}, labels[used], None if weights is None else weights[used], names, clusters)

    def fit(self, calibrator: Calibrator) -> Calibrator:
        """Fit a calibrator on all rows."""
        options = {"subgroup": self.subgroup} if calibrator.accepts_subgroup else {}
        return calibrator.fit(**self.scores, y=self.y, sample_weight=self.sample_weight, groups=self.cluster, **options)


def cross_val_predict_proba(
    calibrator: Calibrator,
    logits: FloatArray | None = None,
    y: Targets | None = None,
    *,
    probs: FloatArray | None = None,
    sample_weight: FloatArray | None = None,
    subgroup: ObjectArray | None = None,
    cluster: IntArray | None = None,
    cv: int = N_FOLDS,
    random_state: int = 0,
) -> FloatArray:
    """Out-of-fold calibrated probabilities of logits or ``probs``, shape (n, C); a cluster stays in one fold.

    ``y`` are labels, or votes of shape (n, C), whose folds are stratified by the majority grade.
    """
    name, values = ("logits", logits) if logits is not None else ("probs", probs)
    if values is None or y is None:
        raise InputError("logits, probs, y: pass labels, and logits or probs.")
    if cluster is None:
        fold = stratified_folds(grades(y), cv, random_state)
    else:
        n_folds = min(cv, len(np.unique(cluster)))
        folds = cross_fit_folds(grades(y), n_folds, early_stopping=0, groups=cluster, random_state=random_state)
        fold = fold_numbers(folds, len(y))
    calibrated = np.empty(values.shape)
    for k in range(int(fold.max()) + 1):
        train, test = fold != k, fold == k
        subgroups = [
            {"subgroup": subgroup[rows]} if calibrator.accepts_subgroup and subgroup is not None else {}
            for rows in (train, test)
        ]
        fitted = clone(calibrator).fit(
            **{name: values[train]},
            y=y[train],
            sample_weight=None if sample_weight is None else sample_weight[train],
            groups=None if cluster is None else cluster[train],
            **subgroups[0],
        )
        calibrated[test] = fitted.predict_proba(**{name: values[test]}, **subgroups[1])
    return calibrated


def subgroup_metrics(
    candidates: dict[str, dict[str, FloatArray]], y: Targets, subgroup: ObjectArray, sample_weight: FloatArray | None
) -> dict[str, dict[str, dict[str, float]]]:
    """`calibration_metrics` of each candidate, given as ``probs`` or ``logits``, in each subgroup."""
    results: dict[str, dict[str, dict[str, float]]] = {}
    for group in sorted(set(subgroup.tolist())):
        rows = np.asarray(subgroup == group)
        weights = None if sample_weight is None else sample_weight[rows]
        results[group] = {
            name: calibration_metrics(
                y[rows], **{kind: values[rows] for kind, values in scores.items()}, sample_weight=weights
            )
            for name, scores in candidates.items()
        }
    return results


def calibration_metrics(
    y: Targets,
    *,
    probs: FloatArray | None = None,
    logits: FloatArray | None = None,
    sample_weight: FloatArray | None = None,
) -> dict[str, float]:
    """The metrics that calibrators are compared by; from logits the NLL does not underflow.

    ``y`` are labels, or votes of shape (n, C): the metrics are then expectations over a random vote of each case.

    Example:
        >>> row = calibration_metrics(np.array([0, 1]), logits=np.array([[0.0, 0.0], [0.0, 900.0]]))
        >>> row["accuracy"], round(row["nll"], 4)
        (1.0, 0.3466)
    """
    case, y, sample_weight = weighted_rows(y, sample_weight)
    logits = None if logits is None else logits[case]
    probs = geometry.probs(logits) if probs is None else probs[case]
    row = {}
    for name in METRICS:
        arguments = (probs,) if name == "unimodality" else (probs, y)
        row[name] = getattr(metrics, name)(*arguments, sample_weight=sample_weight)
    return row if logits is None else row | {"nll": metrics.nll(logits=logits, y=y, sample_weight=sample_weight)}
