"""Evaluation of a model's predictions: all metrics with intervals, references and comparisons."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from orcu import geometry
from orcu.errors import InputError
from orcu.evaluation.comparison import align, check_same_rows, paired_differences
from orcu.evaluation.corp import corp
from orcu.evaluation.decision_curves import DecisionCurve, decision_curves
from orcu.evaluation.evaluation import Evaluation
from orcu.evaluation.intervals import MIN_CLUSTERS, calibrated_sums, default_draws, gap_interval, reference_p_value
from orcu.evaluation.mean_cost import evaluation_metrics
from orcu.evaluation.raters import RaterEvaluation, evaluate_raters
from orcu.evaluation.smooth_curves import smooth_calibration
from orcu.evaluation.statistics import (
    SUBSAMPLE_ROWS,
    Progress,
    SufficientStatistics,
    collect,
    ignore_progress,
    plain_sums,
    subsample_index,
)
from orcu.inputs import BoolArray, FloatArray, IntArray, as_count, as_n_bins, dense_outputs, is_dense
from orcu.launchers import Launcher
from orcu.metrics.base import Metric, total_gap
from orcu.metrics.calibration import class_gaps, threshold_gaps
from orcu.metrics.concordance import concordance_fit
from orcu.metrics.mean_grade import grade_deviation, mean_difference
from orcu.metrics.ordinal import class_mae, class_recall
from orcu.metrics.referral import curve_from_rows
from orcu.metrics.rows import Rows
from orcu.metrics.scoring import decomposition, impossible_rows
from orcu.metrics.sums import VALUE, Sums
from orcu.metrics.thresholds import ThresholdFit, decision_rates, rate_cells, threshold_fit
from orcu.predictions import Predictions, PredictionsSource
from orcu.predictions.calibration import leakage_warnings
from orcu.predictions.source import MAX_DIGITS
from orcu.resampling import (
    CONFIDENCE_LEVEL,
    Estimate,
    clopper_pearson,
    effective_size,
    interval,
    intervals,
    number_of_resamples,
    resampled_means,
)
from orcu.threads import map_ordered, one_blas_thread

Source = Predictions | PredictionsSource
REFERENCE_ROWS = 50_000  # rows from which the noise of a calibrated model is simulated
MIN_SUBGROUP_ROWS = 50_000  # smallest subsample of a subgroup with more rows
UNIMODAL_SHARE = 0.9  # share of unimodal rows in another class order above which a warning is given
MAX_SUBGROUPS_NAMED = 10  # subgroups named in a warning
PERMUTED_CLASSES, ORDER_ROWS = 6, 500  # all orders are tried up to this number of classes, on this number of rows


def evaluate(
    predictions: Source | None = None,
    *,
    probs: Any = None,
    logits: Any = None,
    y: Any = None,
    classes: Sequence[Any] | None = None,
    sample_weight: Any = None,
    uncertainty: Any = None,
    subgroup: Any = None,
    cluster: Any = None,
    mask: Any = None,
    compare: Mapping[str, Source] | None = None,
    name: str = "model",
    rule: Any = "argmax",
    n_resamples: int | None = None,
    random_state: int = 0,
    n_bins: int = 15,
    progress: Progress | None = None,
    launcher: Launcher | None = None,
) -> Evaluation:
    """Evaluate predictions: all metrics with 95 % intervals and references, by class, threshold and subgroup.

    Args:
        predictions: predictions from `Predictions`, a file or a data frame; or pass arrays:
        probs: class probabilities, shape (n, C), or (n, C, d1, ...) of dense outputs, whose positions are the rows.
        logits: logits, instead of probs.
        y: labels, class names or 0..C-1, shape (n,) or (n, d1, ...); or votes of several raters, shape (n, C), whose
            expected scores are computed.
        classes: class names in their order.
        sample_weight: non-negative row weights.
        uncertainty: score of each row for the referral curve, highest referred first, instead of the confidence.
        subgroup: subgroup of each row, or of each dense output; subgroups are evaluated separately.
        cluster: cluster of each row, such as a patient; the bootstrap resamples whole clusters, and intervals are
            widened for few clusters. By default each dense output is a cluster.
        mask: booleans in the shape of the labels, true where a row counts; other positions are ignored.
        compare: predictions of other models for the same rows, by name.
        name: name of this model.
        rule: decision rule, as in `orcu.decide`: "argmax", "median", "mean" or a cost matrix.
        n_resamples: number of bootstrap resamples, at least 30; 0 for none; by default chosen by the number of rows.
        random_state: seed of the resamples and simulated outcomes.
        n_bins: number of bins of the binned errors.
        progress: function that is called with the name of a stage and the number of rows done.
        launcher: entered `orcu.launchers.Launcher` that reads the files of a folder in parallel; the numbers are the
            same to the last bit.

    Raises:
        InputError: if an argument is invalid, labels are missing, or the models have different rows.

    Example:
        >>> probs = [[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7], [0.5, 0.4, 0.1]]
        >>> evaluation = evaluate(probs=probs, y=[0, 1, 2, 1], n_resamples=100)
        >>> evaluation["accuracy"].value, round(evaluation["rps"].value, 4)
        (0.75, 0.135)
    """
    scores = {"probs": probs, "logits": logits}
    columns = {"y": y, "sample_weight": sample_weight, "uncertainty": uncertainty}
    columns |= {"subgroup": subgroup, "cluster": cluster}
    if predictions is None:
        if mask is not None or is_dense(probs) or is_dense(logits):
            scores, columns = _flatten_dense(scores, columns, mask)
        predictions = Predictions(**scores, **columns, classes=classes)
    elif any(array is not None for array in (classes, mask, *scores.values(), *columns.values())):
        raise InputError("predictions: pass either one object or arrays, not both.")
    if n_resamples is not None:
        n_resamples = as_count(n_resamples, name="n_resamples", minimum=0)
    random_state = as_count(random_state, name="random_state", minimum=0)
    collect_from = partial(collect, n_bins=as_n_bins(n_bins), rule=rule, progress=progress, launcher=launcher)
    evaluate_statistics = partial(_evaluate_statistics, n_resamples=n_resamples, random_state=random_state)
    report_progress = progress or ignore_progress
    with one_blas_thread():
        statistics, subgroups = collect_from(predictions)
        report_progress("intervals", statistics.rows)
        evaluation = evaluate_statistics(name, statistics)
        # The subsamples of all subgroups together are about as large as that of all rows.
        size = max(MIN_SUBGROUP_ROWS, SUBSAMPLE_ROWS // max(len(subgroups), 1))
        deviation = grade_deviation(statistics.totals, statistics.rows)
        report_progress("intervals of subgroups", statistics.rows)
        evaluations = map_ordered(
            lambda name: evaluate_statistics(name, subgroups[name], subsample_rows=size, deviation=deviation),
            subgroups,
            threads=_threads(statistics.rows),
        )
        evaluation.subgroups = dict(zip(subgroups, evaluations, strict=True))
        evaluation.notes += _subgroup_cluster_warnings(subgroups)
        others: dict[str, Rows] = {}
        for other_name, other in (compare or {}).items():
            if other_name == name:
                raise InputError(f"compare: two models have the name {name!r}; use different names.")
            if isinstance(other, PredictionsSource) and not statistics.sampled:
                other = other.load()
            other_statistics, other_subgroups = collect_from(align(statistics, other, other_name))
            check_same_rows(statistics, other_statistics, other_name)
            report_progress(f"comparing with {other_name}", other_statistics.rows)
            evaluation.others.append(evaluate_statistics(other_name, other_statistics))
            others[other_name] = other_statistics.subsample(SUBSAMPLE_ROWS)[0]
            evaluation.differences[other_name] = paired_differences(
                statistics, other_statistics, evaluation.n_resamples, random_state
            )
            for subgroup_name, part in evaluation.subgroups.items():
                if subgroup_name in other_subgroups:
                    part.differences[other_name] = paired_differences(
                        subgroups[subgroup_name], other_subgroups[subgroup_name], part.n_resamples, random_state
                    )
        evaluation.decision_curves = _decision_curves(statistics, evaluation, others)
    return evaluation


def evaluate_merged(
    statistics: SufficientStatistics, *, name: str, n_resamples: int | None, random_state: int
) -> Evaluation:
    """Evaluate statistics that were merged from several parts; for `orcu.evaluation.partial`."""
    with one_blas_thread():
        evaluation = _evaluate_statistics(name, statistics, n_resamples=n_resamples, random_state=random_state)
        evaluation.decision_curves = _decision_curves(statistics, evaluation, {})
    return evaluation


def _decision_curves(
    statistics: SufficientStatistics, evaluation: Evaluation, others: dict[str, Rows]
) -> list[DecisionCurve]:
    rows, unit = statistics.subsample(SUBSAMPLE_ROWS)
    return decision_curves(
        rows,
        unit,
        statistics.units,
        [record["event"] for record in evaluation.per_threshold],
        n_resamples=evaluation.n_resamples,
        factor=statistics.small_sample_factor if evaluation.n_resamples else 1.0,
        random_state=evaluation.random_state,
        others=others,
    )


def _flatten_dense(scores: dict[str, Any], columns: dict[str, Any], mask: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Positions of dense outputs as rows. Neighbouring positions are correlated, so each output is a cluster."""
    if (scores["probs"] is None) == (scores["logits"] is None):
        raise InputError("probs, logits: pass exactly one of the two.")
    [(kind, values)] = ((kind, values) for kind, values in scores.items() if values is not None)
    if is_dense(values) and columns["cluster"] is None:
        columns = {**columns, "cluster": np.arange(len(values))}
    rows, parts = zip(*dense_outputs(values, columns, mask=mask, name=kind), strict=True)
    roles = [role for role, column in columns.items() if column is not None]
    return {kind: np.concatenate(rows)}, {role: np.concatenate([part[role] for part in parts]) for role in roles}


def _evaluate_statistics(
    name: str,
    statistics: SufficientStatistics,
    *,
    n_resamples: int | None,
    random_state: int,
    subsample_rows: int = SUBSAMPLE_ROWS,
    deviation: float | None = None,
) -> Evaluation:
    """Evaluation of some rows; ``deviation`` is the standard deviation of the grades of all rows."""
    sample, sums = statistics.sample, statistics.totals
    rows, unit = statistics.subsample(subsample_rows)
    n_resamples = number_of_resamples(n_resamples, statistics.rows, statistics.layout.size)
    clusters = statistics.cluster_weights
    if (statistics.units if clusters is None else len(clusters)) < 2:  # a single unit cannot be resampled
        n_resamples = 0
    draws = statistics.resampled(n_resamples, random_state) if n_resamples else None
    factor = statistics.small_sample_factor if n_resamples else 1.0
    rows.cumulative, rows.columns  # noqa: B018 - computed once, before several threads read them
    fits = list(map_ordered(partial(threshold_fit, rows), range(rows.num_classes - 1), threads=_threads(len(rows))))
    fit_draws = _resample_fits(statistics, fits, unit, n_resamples, random_state) if n_resamples else None
    reference = _Reference(statistics, rows, draws, factor, random_state)
    raters = None if sample.votes is None else evaluate_raters(statistics, n_resamples, random_state)
    effective = partial(_effective_rows, statistics, rows)
    calibration = corp(
        rows,
        unit,
        statistics.units,
        clustered=draws is not None and (sample.cluster is not None or sample.votes is not None),
        n_resamples=n_resamples,
        factor=factor,
        random_state=random_state,
        threads=_threads(len(rows)),
    )
    smooth = smooth_calibration(
        rows,
        unit,
        statistics.units,
        n_resamples=n_resamples,
        factor=factor,
        random_state=random_state,
        threads=_threads(len(rows)),
    )
    return Evaluation(
        name=name,
        classes=sample.classes,
        rows=statistics.rows,
        clusters=statistics.clusters,
        weighted=sample.sample_weight is not None,
        impossible_rows=_count_impossible(statistics),
        metrics={
            metric.name: _estimate(metric, sums, draws, reference, factor)
            for metric in evaluation_metrics(statistics.rule)
        },
        per_class=_per_class(sums, draws, reference, factor, sample.classes, effective),
        per_threshold=[
            record | parts | {"eci": index}
            for record, parts, index in zip(
                _per_threshold(sums, draws, reference, fits, fit_draws, factor, sample.classes, effective),
                calibration.per_threshold,
                smooth.eci,
                strict=True,
            )
        ],
        decomposition=vars(decomposition(sums)),
        referral=curve_from_rows(rows),
        sums=sums,
        sample=sample,
        n_resamples=n_resamples,
        random_state=random_state,
        n_bins=statistics.layout.n_bins,
        label_mapping=sample.label_mapping,
        notes=[
            *_notes(statistics, rows.cases),
            *_rater_notes(raters),
            *_zero_probability_notes(sums, sample, _count_impossible(statistics)),
            *_cluster_warnings(statistics),
            *_label_offset_warnings(sums),
            *_class_order_warnings(rows.probs, sample.classes),
        ],
        rule=statistics.rule,
        raters=raters,
        corp=calibration.parts,
        mean_difference=_mean_difference(
            sums, draws, grade_deviation(sums, statistics.rows) if deviation is None else deviation, factor
        ),
        c_index=_c_index(rows, unit, statistics.units, n_resamples, factor, random_state),
        calibration_curves=calibration.curves,
        smooth_curves=smooth.curves,
    )


def _mean_difference(sums: Sums, draws: Sums | None, deviation: float, factor: float) -> Estimate:
    """Mean expected grade minus mean observed grade, in standard deviations of the observed grades of all rows."""
    if not deviation > 0:
        return Estimate(math.nan)
    changes = None if draws is None else mean_difference(draws)[:, None] / deviation
    return _estimates(mean_difference(sums)[None] / deviation, changes, factor, (-math.inf, math.inf))[0]


def _c_index(rows: Rows, unit: IntArray, units: int, n_resamples: int, factor: float, random_state: int) -> Estimate:
    fit = concordance_fit(rows)
    draws = None
    if n_resamples:
        draws = fit.value + resampled_means(fit.influence[None], unit, units, n_resamples, random_state)
    return _estimates(np.array([fit.value]), draws, factor, (0.0, 1.0))[0]


def _threads(rows: int) -> int | None:
    return 1 if rows < 50_000 else None  # starting a thread may take longer than the work


def _notes(statistics: SufficientStatistics, subsample_rows: int) -> list[str]:
    notes = [*statistics.sample.notes, *leakage_warnings(statistics.sample.history)]
    if subsample_rows < statistics.rows:
        notes.append(
            "AUC, C-index, calibration lines and curves, CORP, decision curves and the referral curve use "
            f"{subsample_rows:,} rows spread evenly over the {statistics.rows:,}, the calibrated reference at most "
            f"{REFERENCE_ROWS:,}; all other numbers use all rows"
        )
    if statistics.sampled:
        notes.append(f"the rows were streamed: the examples come from a sample of {len(statistics.sample):,} rows")
    return notes


def _rater_notes(raters: RaterEvaluation | None) -> list[str]:
    """What the scores of cases with several raters estimate."""
    if raters is None:
        return []
    if raters.votes is None or raters.votes_per_case is None:
        return [
            "the labels are shares of votes: each score is its mean over the votes of a case. The number of raters is "
            "unknown, so there are no ceilings"
        ]
    fewest, most = raters.votes_per_case
    per_case = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    names = "" if raters.raters is None else f" of {raters.raters} raters"
    scope = "new cases and new raters" if raters.raters_resampled else "new cases with raters like these"
    return [
        f"{raters.votes:,} votes{names}, {per_case} per case: each score is its mean over the votes of a case, and the "
        f"intervals hold for {scope}"
    ]


def _zero_probability_notes(sums: Sums, sample: Predictions, count: int) -> list[str]:
    """What makes the NLL infinite, and its value if a small probability replaces 0, as calibrators do."""
    if not count or sample.logits is not None:
        return []
    smallest = float(sample.probs[sample.probs > 0].min())
    digits = round(-math.log10(smallest))
    rounded = digits < MAX_DIGITS and math.isclose(smallest, 10.0**-digits, rel_tol=0.01)
    least = 0.5 * 10.0**-digits
    cause = f"; the probabilities are rounded to {digits} digits, so 0 means less than {least:g}" if rounded else ""
    finite = float((sums.score("nll") - sums.score("impossible") * math.log(smallest / 2)) / sums.total)
    verb = "row gives" if count == 1 else "rows give"
    return [
        f"the NLL is infinite, because {count:,} {verb} probability 0 to the label{cause}. With {smallest / 2:.2g} "
        f"(half the smallest positive probability) in place of 0 it is {finite:.3f}"
    ]


def _cluster_warnings(statistics: SufficientStatistics) -> list[str]:
    """Warning if there are too few clusters for reliable intervals."""
    weights = statistics.cluster_weights
    if weights is None or len(weights) >= MIN_CLUSTERS:
        return []
    if len(weights) == 1:
        return [
            "WARNING: all rows belong to one cluster, so there are no intervals, and the reference 'if calibrated' is "
            "that of independent rows. Is it the right column? Evaluate rows of at least five clusters, or leave out "
            "cluster= (--cluster) if the rows are independent."
        ]
    return [
        f"WARNING: there are only {len(weights)} clusters. The intervals are wide and may be too narrow all the same; "
        "evaluate rows of at least five clusters."
    ]


def _subgroup_cluster_warnings(subgroups: Mapping[str, SufficientStatistics]) -> list[str]:
    """Warning that names the subgroups with too few clusters for reliable intervals."""
    counts = {name: len(part.cluster_weights) for name, part in subgroups.items() if part.cluster_weights is not None}
    few = [f"{name} ({count})" for name, count in counts.items() if count < MIN_CLUSTERS]
    if not few:
        return []
    shown = ", ".join(few[:MAX_SUBGROUPS_NAMED]) + (" and others" if len(few) > MAX_SUBGROUPS_NAMED else "")
    return [
        f"WARNING: subgroups with fewer than {MIN_CLUSTERS} clusters: {shown}. Their intervals are wide and may be too "
        "narrow all the same; with one cluster there are none."
    ]


def _class_order_warnings(probs: FloatArray, classes: Sequence[str]) -> list[str]:
    """Warning if few rows are unimodal, but almost all would be with the classes in another order."""
    num_classes = probs.shape[1]
    if num_classes < 3 or geometry.is_unimodal(probs).mean() > UNIMODAL_SHARE / 2:
        return []
    some = probs[subsample_index(len(probs), ORDER_ROWS)]
    if num_classes <= PERMUTED_CLASSES:  # an order and its reverse are equivalent
        orders = [order for order in itertools.permutations(range(num_classes)) if order[0] < order[-1]]
    else:  # spectral ordering: classes that share rows are neighbours
        shared = some.T @ some
        np.fill_diagonal(shared, 0)
        order = np.argsort(np.linalg.eigh(np.diag(shared.sum(axis=0)) - shared)[1][:, 1], kind="stable")
        orders = [tuple(order.tolist() if order[0] < order[-1] else order[::-1].tolist())]
    shares = [float(geometry.is_unimodal(some[:, order]).mean()) for order in orders]
    best = int(np.argmax(shares))
    if shares[best] < UNIMODAL_SHARE:
        return []
    names = ", ".join(classes[k] for k in orders[best])
    return [
        f"WARNING: {geometry.is_unimodal(some).mean():.0%} of the rows are unimodal, but {shares[best]:.0%} would be "
        f"with the classes in the order {names} (or its reverse). Are the columns in the order of the classes? Pass "
        "the class names from lowest to highest: classes= (--classes)."
    ]


def _label_offset_warnings(sums: Sums) -> list[str]:
    """Warning if labels shifted by one class would fit far better: they may start at another number."""
    total = float(sums.total)
    accuracy = float(np.trace(sums.confusion)) / total
    for offset, shift in ((1, "one class higher"), (-1, "one class lower")):
        shifted = float(np.trace(sums.confusion, offset=offset)) / total
        if shifted > accuracy + 0.2:
            return [
                f"WARNING: the accuracy is {accuracy:.0%}, but {shifted:.0%} with all labels {shift}; do labels and "
                "classes start at the same number?"
            ]
    return []


def _count_impossible(statistics: SufficientStatistics) -> int:
    """Number of rows with p_y = 0; for a streamed, weighted file the sum of their weights, rounded up."""
    weight = statistics.sample.sample_weight
    if statistics.sampled or (weight is None and statistics.sample.votes is None):
        return int(np.ceil(statistics.totals.score("impossible")))
    rows = statistics.sample_rows()
    impossible = (impossible_rows(rows) > 0) & (rows.weights > 0)
    return int(impossible.sum() if rows.case is None else len(np.unique(rows.case[impossible])))


class _Reference:
    """Distribution of the binned errors of a perfectly calibrated model with the same probabilities.

    Labels are simulated from the probabilities. Rows of a cluster and votes for a case are correlated, which simulated
    labels would not be: with clusters or votes the distribution is the noise of the resamples around the observed gaps.
    """

    def __init__(
        self, statistics: SufficientStatistics, rows: Rows, draws: Sums | None, factor: float, random_state: int
    ) -> None:
        self._center: Sums | None = None
        if statistics.sample.votes is not None and draws is None and statistics.units > 1:
            draws = statistics.resampled(
                number_of_resamples(None, statistics.rows, statistics.layout.size), random_state
            )
        if draws is not None and (statistics.sample.cluster is not None or statistics.sample.votes is not None):
            self._center, self._draws, self._scale = statistics.totals, draws, factor
            return
        layout, vector = statistics.layout, statistics.vector
        if len(rows) > REFERENCE_ROWS:
            rows = rows[subsample_index(len(rows), REFERENCE_ROWS)]
        if len(rows) < statistics.rows:
            vector = plain_sums(layout, rows)
        self._draws = calibrated_sums(layout, rows, vector, default_draws(len(rows), layout), random_state + 1)
        # Noise decreases with the root of the number of rows: the noise of a subsample is scaled to all rows.
        self._scale = float(np.sqrt(len(rows) / statistics.rows))

    def errors(self, gaps: Callable[[Sums], Any], reduce: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Error reduce(|gaps|) of each draw."""
        drawn = np.asarray(gaps(self._draws))
        if self._center is not None:
            drawn = drawn - np.asarray(gaps(self._center))
        return reduce(np.abs(drawn)) * self._scale


def _estimate(metric: Metric, sums: Sums, draws: Sums | None, reference: _Reference, factor: float) -> Estimate:
    value = float(metric(sums))
    if metric.reduce is None:
        return (
            Estimate(value)
            if draws is None
            else Estimate(
                value, *np.clip(interval(value, metric(draws), factor, metric.bounds), *metric.bounds).tolist()
            )
        )
    if math.isnan(value):  # the ACE of merged parts
        return Estimate(value)
    errors = reference.errors(metric.formula, metric.reduce)
    expected, limit = float(errors.mean()), float(np.quantile(errors, CONFIDENCE_LEVEL))
    p_value = float(reference_p_value(value, errors))
    if draws is None:
        return Estimate(value, expected=expected, limit=limit, p_value=p_value)
    ends = gap_interval(metric.formula(sums), metric.formula(draws), metric.reduce, factor)
    # A value that a calibrated model could have does not show an error, even if the resamples do not vary.
    low = 0.0 if value <= limit else min(ends.low, 1.0)
    return Estimate(value, low, min(ends.high, 1.0), expected, limit, 1.0 if low == 0 else p_value)


def _resample_fits(
    statistics: SufficientStatistics, fits: list[ThresholdFit], unit: IntArray, n_resamples: int, random_state: int
) -> FloatArray:
    """AUC, intercept and slope of each resample by their influence functions, (n_resamples, C-1, 3)."""
    influence = np.concatenate([fit.influence for fit in fits])  # (3 (C-1), n)
    change = resampled_means(influence, unit, statistics.units, n_resamples, random_state)
    center = np.array([(fit.auc, fit.intercept, fit.slope) for fit in fits])
    return center + change.reshape(n_resamples, len(fits), 3)


def _per_class(
    sums: Sums,
    draws: Sums | None,
    reference: _Reference,
    factor: float,
    classes: tuple[str, ...],
    effective: Callable[[BoolArray], float],
) -> list[dict[str, Any]]:
    ce, errors = total_gap(np.abs(class_gaps(sums))), reference.errors(class_gaps, total_gap)
    columns = {
        "prevalence": sums.confusion.sum(-1) / sums.total,
        "mean_probability": sums.classes[..., VALUE, :].sum(-1) / sums.total,
        "ce": ce,
        "ce_limit": np.quantile(errors, CONFIDENCE_LEVEL, axis=0),
        "ce_p_value": reference_p_value(ce, errors),
        "recall": class_recall(sums.confusion),
        "mae": class_mae(sums.confusion),
    }
    decided, total = _share_decided(sums), np.ones((len(classes), len(classes)), dtype=bool)
    decided_draws = None if draws is None else _share_decided(draws)
    shares = _rates(decided, decided_draws, factor, [partial(effective, total)] * len(classes))
    return _records(
        {"class": classes, **{name: values.tolist() for name, values in columns.items()}, "decided": shares}
    )


def _share_decided(sums: Sums) -> FloatArray:
    """Share of the rows that are decided as each class, shape (..., C)."""
    return sums.confusion.sum(-2) / sums.total[..., None]


def _per_threshold(
    sums: Sums,
    draws: Sums | None,
    reference: _Reference,
    fits: list[ThresholdFit],
    fit_draws: FloatArray | None,
    factor: float,
    classes: tuple[str, ...],
    effective: Callable[[BoolArray], float],
) -> list[dict[str, Any]]:
    labels = sums.confusion.sum(-1)
    ce, errors = total_gap(np.abs(threshold_gaps(sums))), reference.errors(threshold_gaps, total_gap)
    columns: dict[str, Sequence[Any]] = {
        "event": [*(f"{name} or above" for name in classes[1:-1]), classes[-1]],
        "prevalence": [float(labels[k + 1 :].sum() / labels.sum()) for k in range(len(fits))],
        "ce": ce.tolist(),
        "ce_limit": np.quantile(errors, CONFIDENCE_LEVEL, axis=0).tolist(),
        "ce_p_value": reference_p_value(ce, errors).tolist(),
        "brier": (sums.threshold_squares / sums.total).tolist(),
    }
    rate_draws = {} if draws is None else decision_rates(draws.confusion)
    for name, rate in decision_rates(sums.confusion).items():
        rows_of_rate = [partial(effective, cells) for cells in rate_cells(name, len(classes))]
        columns[name] = _rates(rate, rate_draws.get(name), factor, rows_of_rate)
    for i, name in enumerate(("auc", "intercept", "slope")):
        values = np.array([getattr(fit, name) for fit in fits])
        bounds = (0.0, 1.0) if name == "auc" else (-np.inf, np.inf)
        columns[name] = _estimates(values, None if fit_draws is None else fit_draws[:, :, i], factor, bounds)
    return _records(columns)


def _rates(
    values: FloatArray, draws: FloatArray | None, factor: float, effective_rows: Sequence[Callable[[], float]]
) -> list[Estimate]:
    """Rates with their intervals, which are exact where resamples say too little.

    All resamples agree on a rate of 0 or 1, and a rate of very few rows is undefined in resamples without these.
    """
    rates = _estimates(values, draws, factor, (0.0, 1.0))
    if draws is None:
        return rates
    for k, rate in enumerate(rates):
        if rate.value in (0.0, 1.0) or (math.isnan(rate.low) and not math.isnan(rate.value)):
            total = effective_rows[k]()
            rates[k] = Estimate(rate.value, *clopper_pearson(rate.value * total, total))
    return rates


def _effective_rows(statistics: SufficientStatistics, rows: Rows, cells: BoolArray) -> float:
    """Effective number of independent rows in some cells of the confusion matrix, for a rate of 0 or 1.

    Such a rate does not show how similar the rows of a cluster are, so their intraclass correlation is taken as 1, its
    largest value: the design effect is that of whole clusters, and the interval is conservative. Weighted rows have
    their effective number.
    """
    sample = statistics.sample
    if sample.cluster is not None or sample.votes is not None:
        by_cell = statistics.unit_sums[:, statistics.layout.slices["confusion"]]
        return effective_size(np.asarray(by_cell @ cells.ravel().astype(np.float64)).ravel())
    if sample.sample_weight is None:
        return float(statistics.totals.confusion[cells].sum())
    weights = rows.weights[cells[rows.y, rows.decision]]
    return effective_size(weights) * statistics.rows / len(rows)


def _records(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, record, strict=True)) for record in zip(*columns.values(), strict=True)]


def _estimates(
    values: FloatArray, draws: FloatArray | None, factor: float, bounds: tuple[float, float]
) -> list[Estimate]:
    """Each of several values with its interval, from draws of shape (n_resamples, values)."""
    return [
        Estimate(float(value), *np.clip(ends, *bounds).tolist())
        for value, ends in zip(values, intervals(values, draws, factor, bounds), strict=True)
    ]
