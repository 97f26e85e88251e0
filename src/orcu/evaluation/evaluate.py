"""Judge a model's predictions: every metric with its interval and its reference, side by side."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from orcu import blas, geometry
from orcu.errors import InputError
from orcu.evaluation.comparison import aligned, check_same_rows, paired_differences
from orcu.evaluation.evaluation import Estimate, Evaluation
from orcu.evaluation.evidence import DRAWN_ROWS, Evidence, Progress, gather, plain_sums, silent, spread
from orcu.evaluation.intervals import (
    LEVEL,
    Interval,
    calibrated_sums,
    check_resamples,
    default_draws,
    default_resamples,
    gap_interval,
    interval,
    intervals,
    resampled_sums,
)
from orcu.inputs import FloatArray, IntArray, as_bins, as_count, dense_outputs, is_dense
from orcu.launchers import Launcher
from orcu.metrics.base import Metric, all_metrics, total_gap
from orcu.metrics.calibration import class_gaps, threshold_gaps
from orcu.metrics.ordinal import class_mae_of, recall_of
from orcu.metrics.referral import curve_of
from orcu.metrics.rows import Rows
from orcu.metrics.scoring import decomposition, impossible_rows
from orcu.metrics.sums import VALUE, Sums
from orcu.metrics.thresholds import ThresholdFit, decision_rates, threshold_fit
from orcu.predictions.predictions import Predictions, PredictionsSource, reuse_notes
from orcu.threads import map_ordered

Source = Predictions | PredictionsSource
REFERENCE_ROWS = 50_000  # from which the noise of a calibrated model is drawn
FEWEST_DRAWN = 50_000  # of a group, if it has more rows
MOSTLY = 0.9  # of the rows must be unimodal in another order of the classes before it is spoken of
FEW_CLASSES, ORDERED_ROWS = 6, 500  # all orders of so many classes are tried, on so many rows


def evaluate(
    predictions: Source | None = None,
    *,
    probs: Any = None,
    logits: Any = None,
    y: Any = None,
    classes: Sequence[Any] | None = None,
    weight: Any = None,
    doubt: Any = None,
    group: Any = None,
    subject: Any = None,
    mask: Any = None,
    compare: Mapping[str, Source] | None = None,
    name: str = "model",
    decide: Any = "argmax",
    bootstrap: int | None = None,
    seed: int = 0,
    bins: int = 15,
    progress: Progress | None = None,
    launcher: Launcher | None = None,
) -> Evaluation:
    """Judge predictions: metrics, 95 % intervals, references, per class, threshold and group.

    Args:
        predictions: from `Predictions`, a file or a frame; or give arrays:
        probs: class probabilities, shape (n, C), or (n, C, d1, ...) of dense outputs, whose positions are the rows.
        logits: logits, in place of probs.
        y: labels, names or 0..C-1, shape (n,) or (n, d1, ...).
        classes: names of the classes in their order.
        weight: one weight per row.
        doubt: a score per row by which the referral curve refers rows, the highest first, in place of the confidence.
        group: a group per row, or per dense output; groups are judged side by side.
        subject: a subject per row, or per dense output, which is one by default; the bootstrap then draws whole
            subjects.
        mask: booleans of the shape of the labels, true where a row counts; what stands elsewhere is not looked at.
        compare: other models' predictions for the same rows, by name.
        name: what this model is called.
        decide: how decisions are made, as for `orcu.decide`: "argmax", "median", "mean" or a cost matrix.
        bootstrap: number of resamples; 0 for none; by default it depends on the number of rows.
        seed: of the resamples and simulated outcomes.
        bins: B of the binned errors.
        progress: called with a stage and the rows done.
        launcher: an entered `orcu.launchers.Launcher` that reads the files of a folder side by side; the
            numbers are the same to the last bit.

    Raises:
        InputError: if something cannot be used, labels are missing, or models are not on the same rows.

    Example:
        >>> probs = [[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7], [0.5, 0.4, 0.1]]
        >>> report = evaluate(probs=probs, y=[0, 1, 2, 1], bootstrap=100)
        >>> report["accuracy"].value, round(report["rps"].value, 4)
        (0.75, 0.135)
    """
    if predictions is None:
        columns = {"y": y, "weight": weight, "doubt": doubt, "group": group, "subject": subject}
        if mask is not None or is_dense(probs) or is_dense(logits):
            values = {"probs": probs, "logits": logits}
            predictions = _of_dense(values, columns, classes, mask)
        else:
            predictions = Predictions(probs=probs, logits=logits, classes=classes, **columns)
    elif any(array is not None for array in (probs, logits, y, classes, weight, doubt, group, subject, mask)):
        raise InputError("predictions: give them as one object or as arrays, not both.")
    if bootstrap is not None:
        bootstrap = as_count(bootstrap, name="bootstrap", minimum=0)
    bins = as_bins(bins)
    seed = as_count(seed, name="seed", minimum=0)
    with blas.one_thread():
        return _evaluate(predictions, compare or {}, name, decide, bootstrap, seed, bins, progress, launcher)


def _of_dense(
    values: Mapping[str, Any], columns: Mapping[str, Any], classes: Sequence[Any] | None, mask: Any
) -> Predictions:
    """The positions of dense outputs as rows; neighbours are alike, so an output is a subject."""
    given = [kind for kind, value in values.items() if value is not None]
    if len(given) != 1:
        raise InputError("probs, logits: give exactly one of the two; it is never guessed.")
    dense = values[given[0]]
    if is_dense(dense) and columns["subject"] is None:
        columns = {**columns, "subject": np.arange(len(dense))}
    parts = list(dense_outputs(dense, columns, mask=mask, name=given[0]))
    joined: dict[str, Any] = {given[0]: np.concatenate([rows for rows, _ in parts])}
    for role, column in columns.items():
        if column is not None:
            joined[role] = np.concatenate([of_output[role] for _, of_output in parts])
    return Predictions(classes=classes, **joined)


def _evaluate(
    predictions: Source,
    compare: Mapping[str, Source],
    name: str,
    decide: Any,
    bootstrap: int | None,
    seed: int,
    bins: int,
    progress: Progress | None,
    launcher: Launcher | None,
) -> Evaluation:
    evidence, groups = gather(predictions, bins=bins, decide=decide, progress=progress, launcher=launcher)
    tell = progress or silent
    tell("intervals", evidence.rows)
    evaluation = _evaluation(name, evidence, bootstrap, seed)
    drawn = max(FEWEST_DRAWN, DRAWN_ROWS // max(len(groups), 1))  # of each group: as many together as of all rows
    tell("intervals of groups", evidence.rows)
    judge = partial(_evaluation, bootstrap=bootstrap, seed=seed, most_drawn=drawn)
    judged = map_ordered(lambda name: judge(name, groups[name]), groups, threads=_threads(evidence.rows))
    evaluation.groups = dict(zip(groups, judged, strict=True))
    for other_name, other in compare.items():
        if other_name == name or other_name in evaluation.differences:
            raise InputError(f"compare: two models are called {other_name!r}; name them differently.")
        if isinstance(other, PredictionsSource) and not evidence.sampled:
            other = other.load()
        other = aligned(evidence, other, other_name)
        theirs, _ = gather(other, bins=bins, decide=decide, progress=progress, launcher=launcher)
        check_same_rows(evidence, theirs, other_name)
        tell(f"comparing with {other_name}", theirs.rows)
        evaluation.others.append(_evaluation(other_name, theirs, bootstrap, seed))
        evaluation.differences[other_name] = paired_differences(evidence, theirs, evaluation.resamples, seed)
    return evaluation


def _evaluation(
    name: str, evidence: Evidence, bootstrap: int | None, seed: int, most_drawn: int = DRAWN_ROWS
) -> Evaluation:
    sample, sums = evidence.sample, evidence.totals
    rows, unit = evidence.drawn(most_drawn)
    size = evidence.layout.size
    resamples = default_resamples(evidence.rows, size) if bootstrap is None else bootstrap
    check_resamples(resamples, size)
    if evidence.units < 2:  # one unit cannot be resampled
        resamples = 0
    draws = evidence.resampled(resamples, seed) if resamples else None
    rows.cumulative, rows.columns  # noqa: B018 - made once, before several threads read them
    fits = list(map_ordered(partial(threshold_fit, rows), range(rows.num_classes - 1), threads=_threads(len(rows))))
    fit_draws = _fit_draws(evidence, fits, unit, resamples, seed) if resamples else None
    reference = _Reference(evidence, rows, draws, seed)
    return Evaluation(
        name=name,
        classes=sample.classes,
        rows=evidence.rows,
        subjects=evidence.subjects,
        weighted=sample.weight is not None,
        impossible_rows=_impossible(evidence),
        metrics={metric.name: _estimate(metric, sums, draws, reference) for metric in all_metrics()},
        per_class=_per_class(sums, reference, sample.classes),
        per_threshold=_per_threshold(sums, draws, reference, fits, fit_draws, sample.classes),
        decomposition={part: float(value) for part, value in decomposition(sums).items()},
        referral=curve_of(rows),
        tables=sums,
        sample=sample,
        resamples=resamples,
        seed=seed,
        bins=evidence.layout.bins,
        mapping=sample.mapping,
        notes=[*_notes(evidence, len(rows)), *_label_doubts(sums), *_order_doubts(rows.probs, sample.classes)],
        decide=evidence.decide,
    )


def _threads(rows: int) -> int | None:
    """One where starting another takes longer than the work, else as many as there are cores."""
    return 1 if rows < 50_000 else None


def _notes(evidence: Evidence, drawn: int) -> list[str]:
    notes = [*evidence.sample.notes, *reuse_notes(evidence.sample.history)]
    if drawn < evidence.rows:
        notes.append(
            f"AUC, calibration lines and the referral curve come from {drawn:,} rows spread evenly over the "
            f"{evidence.rows:,}, the calibrated reference from at most {REFERENCE_ROWS:,}; all else from all rows"
        )
    if evidence.sampled:
        notes.append(f"the file was streamed: the examples come from {len(evidence.sample):,} of its rows")
    return notes


def _order_doubts(probs: FloatArray, classes: Sequence[str]) -> list[str]:
    """A warning where hardly any row is unimodal, and nearly all were if the classes stood in another order."""
    num_classes = probs.shape[1]
    if num_classes < 3 or geometry.is_unimodal(probs).mean() > MOSTLY / 2:
        return []
    some = probs[spread(len(probs), ORDERED_ROWS)] if len(probs) > ORDERED_ROWS else probs
    if num_classes <= FEW_CLASSES:  # an order and its reverse are the same
        orders = [order for order in itertools.permutations(range(num_classes)) if order[0] < order[-1]]
    else:  # classes that share rows are neighbours: the order of the graph's second eigenvector
        shared = some.T @ some
        np.fill_diagonal(shared, 0)
        order = np.argsort(np.linalg.eigh(np.diag(shared.sum(axis=0)) - shared)[1][:, 1], kind="stable")
        orders = [tuple(order.tolist() if order[0] < order[-1] else order[::-1].tolist())]
    shares = [float(geometry.is_unimodal(some[:, order]).mean()) for order in orders]
    best = int(np.argmax(shares))
    if shares[best] < MOSTLY:
        return []
    named = ", ".join(classes[k] for k in orders[best])
    return [
        f"WARNING: {geometry.is_unimodal(some).mean():.0%} of the rows are unimodal; with the classes in the order "
        f"{named} (or its reverse) {shares[best]:.0%} were. Are the columns in the order of the classes? Name them "
        "lowest first: classes= (--classes)."
    ]


def _label_doubts(sums: Sums) -> list[str]:
    """A warning where labels moved by one class would fit far better: they may start elsewhere."""
    total = float(sums.total)
    right = float(np.trace(sums.confusion)) / total
    for shift, where in ((1, "one class higher"), (-1, "one class lower")):
        moved = float(np.trace(sums.confusion, offset=shift)) / total
        if moved > right + 0.2:
            return [
                f"WARNING: labels {where} would be right in {moved:.0%} of the rows instead of {right:.0%}; "
                "do labels and classes start at the same number?"
            ]
    return []


def _impossible(evidence: Evidence) -> int:
    """Rows with p_y = 0; of a streamed, weighted file their weight, rounded up."""
    if evidence.sampled or evidence.sample.weight is None:
        return int(np.ceil(evidence.totals.score("impossible")))
    return int(impossible_rows(evidence.sample_rows())[evidence.sample.weight > 0].sum())


class _Reference:
    """What binned errors would be if the model were calibrated, as draws of their distribution.

    Labels are drawn from the probabilities. Rows of one subject are not independent, which such draws
    would miss: with subjects it is the noise of the resamples around the observed gaps.
    """

    def __init__(self, evidence: Evidence, rows: Rows, draws: Sums | None, seed: int) -> None:
        self._around: Sums | None = None
        self._scale = 1.0
        if evidence.sample.subject is not None and draws is not None:
            self._around, self._draws = evidence.totals, draws
            return
        layout, vector = evidence.layout, evidence.vector
        if len(rows) > REFERENCE_ROWS:
            rows = rows[spread(len(rows), REFERENCE_ROWS)]
        if len(rows) < evidence.rows:
            vector = plain_sums(layout, rows)
        self._draws = calibrated_sums(layout, rows, vector, default_draws(len(rows), layout), seed + 1)
        # Noise falls with the root of the rows, so that of a sample is scaled to all of them.
        self._scale = float(np.sqrt(len(rows) / evidence.rows))

    def of(self, gaps: Callable[[Sums], Any], reduce: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """The error that ``reduce`` makes of |gaps|, in every draw."""
        drawn = np.asarray(gaps(self._draws))
        if self._around is not None:
            drawn = drawn - np.asarray(gaps(self._around))
        return reduce(np.abs(drawn)) * self._scale


def _estimate(metric: Metric, sums: Sums, draws: Sums | None, reference: _Reference) -> Estimate:
    value = float(metric(sums))
    if metric.reduce is None:
        ends = _interval(value, None if draws is None else metric(draws))
        return Estimate(value, ends.low, ends.high)
    null = reference.of(metric.formula, metric.reduce)
    expected, limit = float(null.mean()), float(np.quantile(null, LEVEL))
    if draws is None:
        return Estimate(value, expected=expected, limit=limit)
    ends = gap_interval(metric.formula(sums), metric.formula(draws), metric.reduce)
    # What a calibrated model shows proves nothing, also where the resamples do not vary.
    low = 0.0 if value <= limit else min(ends.low, 1.0)
    return Estimate(value, low, min(ends.high, 1.0), expected, limit)


def _interval(value: float, draws: FloatArray | None) -> Interval:
    return Interval(np.nan, np.nan) if draws is None else interval(value, draws)


def _fit_draws(evidence: Evidence, fits: list[ThresholdFit], unit: IntArray, resamples: int, seed: int) -> FloatArray:
    """AUC, intercept and slope of every resample by their influence, (resamples, C-1, 3)."""
    influence = np.concatenate([fit.influence for fit in fits])  # (3 (C-1), n)
    per_unit = np.stack([np.bincount(unit, weights=row, minlength=evidence.units) for row in influence], axis=1)
    moved = resampled_sums(per_unit, resamples, seed) / len(unit)
    center = np.array([(fit.auc, fit.intercept, fit.slope) for fit in fits])
    return center + moved.reshape(resamples, len(fits), 3)


def _per_class(sums: Sums, reference: _Reference, classes: tuple[str, ...]) -> list[dict[str, Any]]:
    error, null = total_gap(np.abs(class_gaps(sums))), reference.of(class_gaps, total_gap)
    recall, off = recall_of(sums.confusion), class_mae_of(sums.confusion)
    probability = sums.classes[..., VALUE, :].sum(-1) / sums.total
    prevalence = sums.confusion.sum(-1) / sums.total
    limits = np.quantile(null, LEVEL, axis=0)
    return [
        {
            "class": name,
            "prevalence": float(prevalence[k]),
            "mean_probability": float(probability[k]),
            "ce": float(error[k]),
            "ce_limit": float(limits[k]),
            "recall": float(recall[k]),
            "mae": float(off[k]),
        }
        for k, name in enumerate(classes)
    ]


def _per_threshold(
    sums: Sums,
    draws: Sums | None,
    reference: _Reference,
    fits: list[ThresholdFit],
    fit_draws: FloatArray | None,
    classes: tuple[str, ...],
) -> list[dict[str, Any]]:
    error, null = total_gap(np.abs(threshold_gaps(sums))), reference.of(threshold_gaps, total_gap)
    rates = decision_rates(sums.confusion)
    rate_draws = None if draws is None else decision_rates(draws.confusion)
    estimates = {
        name: _estimates(rate, None if rate_draws is None else rate_draws[name]) for name, rate in rates.items()
    }
    for i, name in enumerate(("auc", "intercept", "slope")):
        values = np.array([getattr(fit, name) for fit in fits])
        bounds = (0.0, 1.0) if name == "auc" else (-np.inf, np.inf)
        estimates[name] = _estimates(values, None if fit_draws is None else fit_draws[:, :, i], bounds)
    limits = np.quantile(null, LEVEL, axis=0)
    labels = sums.confusion.sum(-1)
    records = []
    for k in range(len(fits)):
        record: dict[str, Any] = {
            "event": f"{classes[k + 1]} or above" if k + 2 < len(classes) else classes[k + 1],
            "prevalence": float(labels[k + 1 :].sum() / labels.sum()),
            "ce": float(error[k]),
            "ce_limit": float(limits[k]),
            "brier": float(sums.threshold_squares[k] / sums.total),
        }
        records.append(record | {name: several[k] for name, several in estimates.items()})
    return records


def _estimates(
    values: FloatArray, draws: FloatArray | None, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> list[Estimate]:
    """Each of several values with its interval, from draws of shape (resamples, values)."""
    return [
        Estimate(float(value), *np.clip([ends.low, ends.high], *bounds).tolist())
        for value, ends in zip(values, intervals(values, draws), strict=True)
    ]
