"""Judge a model's predictions: every metric with its interval and its reference, side by side."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.evaluation.comparison import Difference, aligned, check_same_rows, paired_differences
from orcu.evaluation.evidence import Evidence, Progress, gather
from orcu.evaluation.intervals import (
    Interval,
    calibrated_sums,
    default_draws,
    default_resamples,
    gap_interval,
    interval,
    resampled_sums,
)
from orcu.inputs import FloatArray, as_count
from orcu.launchers import Launcher
from orcu.metrics.base import Metric, all_metrics, total_gap
from orcu.metrics.binning import CONVENTIONS
from orcu.metrics.calibration import class_gaps, threshold_gaps
from orcu.metrics.ordinal import class_mae_of, recall_of
from orcu.metrics.referral import ReferralCurve, curve_of
from orcu.metrics.scoring import decomposition
from orcu.metrics.sums import Tables
from orcu.metrics.thresholds import decision_rates, threshold_fit
from orcu.predictions.predictions import Predictions, reuse_notes
from orcu.predictions.source import PredictionsSource

Judged = Predictions | PredictionsSource


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval, and what a calibrated model would show.

    For binned errors the interval is that of the true error (see `gap_interval`); ``expected`` and
    ``limit`` are the mean and the 95 % point of the error when labels are drawn from these very
    probabilities. NaN: not defined here.
    """

    value: float
    low: float = float("nan")
    high: float = float("nan")
    expected: float | None = None
    limit: float | None = None


@dataclass(repr=False)
class Evaluation:
    """What is known of one model after judging it; fractions throughout.

    ``metrics["sce"].value``, ``.low``, ``.high``; `to_dict`, `to_markdown`, `to_html`.
    """

    name: str
    classes: tuple[str, ...]
    rows: int
    subjects: int | None
    weighted: bool
    impossible_rows: int  # rows whose label had probability 0
    metrics: dict[str, Estimate]
    per_class: list[dict[str, Any]]
    per_threshold: list[dict[str, Any]]
    decomposition: dict[str, float]
    referral: ReferralCurve
    tables: Tables
    sample: Predictions  # all rows, or an even sample of a streamed file
    resamples: int
    seed: int
    bins: int
    mapping: str
    notes: list[str]
    decide: Any = "argmax"
    groups: dict[str, "Evaluation"] = field(default_factory=dict)
    others: list["Evaluation"] = field(default_factory=list)
    differences: dict[str, dict[str, Difference]] = field(default_factory=dict)  # by other model

    @property
    def sampled(self) -> bool:
        """Whether ranks, curves and examples come from a sample of the rows."""
        return len(self.sample) < self.rows

    def __getitem__(self, metric: str) -> Estimate:
        return self.metrics[metric]

    def __repr__(self) -> str:
        told = ", ".join(f"{name} {self.metrics[name].value:.3f}" for name in ("accuracy", "mae", "sce"))
        return f"Evaluation({self.name!r}, {self.rows} rows: {told}, ...)"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data, fit for JSON: fractions, None where not defined."""
        from orcu.report.plain import as_dict

        return as_dict(self)

    def to_markdown(self) -> str:
        """The table of metrics in Markdown."""
        from orcu.report.plain import as_markdown

        return as_markdown(self)

    def to_html(self, **options: Any) -> str:
        """The report as one self-contained page; options as for `orcu.report.build`."""
        from orcu.report.build import build

        return build(self, **options)


def evaluate(
    predictions: Judged | None = None,
    *,
    probs: Any = None,
    logits: Any = None,
    y: Any = None,
    classes: Sequence[Any] | None = None,
    weight: Any = None,
    group: Any = None,
    subject: Any = None,
    compare: Mapping[str, Judged] | None = None,
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
        probs: class probabilities, shape (n, C).
        logits: logits, shape (n, C), in place of probs.
        y: labels, names or 0..C-1.
        classes: names of the classes in their order.
        weight: one weight per row.
        group: a group per row; groups are judged side by side.
        subject: a subject per row; the bootstrap then draws whole subjects.
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
        predictions = Predictions(
            probs=probs, logits=logits, y=y, classes=classes, weight=weight, group=group, subject=subject
        )
    elif any(given is not None for given in (probs, logits, y, classes, weight, group, subject)):
        raise InputError("predictions: give them as one object or as arrays, not both.")
    if bootstrap is not None:
        bootstrap = as_count(bootstrap, name="bootstrap", minimum=0)
    bins = as_count(bins, name="bins", minimum=1)
    seed = as_count(seed, name="seed", minimum=0)
    predictions = _deciding(predictions, decide)
    evidence, groups = gather(predictions, bins=bins, progress=progress, launcher=launcher)
    judged = _judge(name, evidence, predictions, bootstrap, seed)
    judged.groups = {
        group_name: _judge(group_name, found, predictions, bootstrap, seed) for group_name, found in groups.items()
    }
    for other_name, other in (compare or {}).items():
        if other_name == name or other_name in judged.differences:
            raise InputError(f"compare: two models are called {other_name!r}; name them differently.")
        if isinstance(other, PredictionsSource) and not evidence.sampled:
            other = other.load()
        others_rows = _deciding(aligned(evidence, other, other_name), decide)
        theirs, _ = gather(others_rows, bins=bins, progress=progress, launcher=launcher)
        check_same_rows(evidence, theirs, other_name)
        judged.others.append(_judge(other_name, theirs, others_rows, bootstrap, seed))
        judged.differences[other_name] = paired_differences(evidence, theirs, judged.resamples, seed)
    return judged


def _deciding(source: Judged, rule: Any) -> Judged:
    """The same predictions, deciding by the rule."""
    if isinstance(source, PredictionsSource):
        return source.deciding(rule)
    part = source[:]
    part.rule = rule
    return part


def _judge(name: str, evidence: Evidence, source: Judged, bootstrap: int | None, seed: int) -> Evaluation:
    layout, sample = evidence.layout, evidence.sample
    tables = layout.tables(evidence.vector)
    resamples = default_resamples(evidence.rows) if bootstrap is None else bootstrap
    if evidence.sums.shape[0] < 2:  # one unit cannot be resampled
        resamples = 0
    fits = [threshold_fit(sample.rows(), k) for k in range(layout.num_classes - 1)]
    drawn = resampled_sums(evidence.sums, resamples, seed) if resamples else None
    draws = None if drawn is None else layout.tables(drawn)
    reference = _Reference(evidence, tables, draws, seed)
    metrics = {}
    for metric in all_metrics():
        found = _interval(metric, tables, draws)
        null = reference.of(metric.from_tables, metric.reduce) if metric.reduce else None
        value, limit = (float(metric(tables)), None if null is None else float(np.quantile(null, 0.95)))
        # What a calibrated model shows proves nothing, also where the resamples do not vary.
        low = 0.0 if limit is not None and value <= limit and draws is not None else found.low
        metrics[metric.name] = Estimate(value, low, found.high, None if null is None else float(null.mean()), limit)
    fit_draws = None
    if resamples:
        fit_draws = _fit_draws(evidence, fits, resamples, seed)
    return Evaluation(
        name=name,
        classes=sample.classes,
        rows=evidence.rows,
        subjects=evidence.subjects,
        weighted=sample.weight is not None,
        impossible_rows=_impossible(evidence, tables),
        metrics=metrics,
        per_class=_per_class(tables, reference, sample.classes),
        per_threshold=_per_threshold(tables, draws, reference, fits, fit_draws, sample.classes),
        decomposition={part: float(value) for part, value in decomposition(tables).items()},
        referral=curve_of(sample.rows()),
        tables=tables,
        sample=sample,
        resamples=resamples,
        seed=seed,
        bins=layout.bins,
        mapping=sample.mapping,
        notes=[*_notes(source, evidence), *_label_doubts(tables)],
        decide=sample.rule,
    )


def _notes(source: Judged, evidence: Evidence) -> list[str]:
    notes = source.all_notes() if isinstance(source, PredictionsSource) else list(source.notes)
    notes += reuse_notes(source.history)
    if evidence.sampled:
        notes.append(
            f"the file was streamed: AUC, calibration lines, the referral curve, the calibrated reference "
            f"and the examples come from {len(evidence.sample):,} rows spread evenly over its "
            f"{evidence.rows:,}; everything else from all rows"
        )
    return notes


def _label_doubts(tables: Tables) -> list[str]:
    """A warning where labels moved by one class would fit far better: they may start elsewhere."""
    total = float(tables.total)
    right = float(np.trace(tables.confusion)) / total
    for shift, told in ((1, "one class higher"), (-1, "one class lower")):
        moved = float(np.trace(tables.confusion, offset=shift)) / total
        if moved > right + 0.2:
            return [
                f"WARNING: labels {told} would be right in {moved:.0%} of the rows instead of {right:.0%}; "
                "do labels and classes start at the same number?"
            ]
    return []


def _impossible(evidence: Evidence, tables: Tables) -> int:
    """Rows with p_y = 0; of a streamed, weighted file their weight, rounded up."""
    if evidence.sampled:
        return int(np.ceil(tables.scores["impossible"]))
    return int(np.isinf(evidence.sample.rows().log_likelihood).sum())


def _sample_vector(evidence: Evidence) -> FloatArray:
    if not evidence.sampled:
        return evidence.vector
    from orcu.evaluation.tally import Tally

    tally = Tally(evidence.layout.num_classes, bins=evidence.layout.bins)
    tally.add(evidence.sample.rows(), evidence.sample_groups)
    return tally.vector()


class _Reference:
    """What binned errors would be if the model were calibrated, as draws of their distribution.

    Labels are drawn from the probabilities. Rows of one subject are not independent, which such draws
    would miss: with subjects it is the noise of the resamples around the observed gaps.
    """

    def __init__(self, evidence: Evidence, tables: Tables, draws: Tables | None, seed: int) -> None:
        rows = evidence.sample.rows()
        clustered = "subject" in evidence.sample.extras and draws is not None
        self._around = tables if clustered else None
        self._scale = 1.0
        if clustered and draws is not None:
            self._tables = draws
            return
        layout = evidence.layout
        simulated = calibrated_sums(
            layout, rows, evidence.sample_groups, _sample_vector(evidence), default_draws(len(rows)), seed + 1
        )
        self._tables = layout.tables(simulated)
        # Noise falls with the root of the rows, so that of a sample is scaled to all of them.
        self._scale = float(np.sqrt(len(rows) / evidence.rows))

    def of(self, gaps: Callable[[Tables], Any], reduce: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """The error that ``reduce`` makes of |gaps|, in every draw."""
        drawn = np.asarray(gaps(self._tables))
        if self._around is not None:
            drawn = drawn - np.asarray(gaps(self._around))
        return reduce(np.abs(drawn)) * self._scale


def _interval(metric: Metric, tables: Tables, draws: Tables | None) -> Interval:
    if draws is None:
        return Interval(np.nan, np.nan)
    if metric.reduce is None:
        return interval(float(metric(tables)), metric(draws))
    found = gap_interval(metric.from_tables(tables), metric.from_tables(draws), metric.reduce)
    return Interval(min(found.low, 1.0), min(found.high, 1.0))


def _fit_draws(evidence: Evidence, fits: list[Any], resamples: int, seed: int) -> FloatArray:
    """AUC, intercept and slope of every resample by their influence, (resamples, C-1, 3)."""
    influence = np.concatenate([fit.influence for fit in fits])  # (3 (C-1), n)
    units = evidence.sums.shape[0]
    per_unit = np.stack([np.bincount(evidence.sample_unit, weights=row, minlength=units) for row in influence], axis=1)
    moved = resampled_sums(per_unit, resamples, seed) / len(evidence.sample)
    center = np.array([(fit.auc, fit.intercept, fit.slope) for fit in fits])
    return center + moved.reshape(resamples, len(fits), 3)


def _per_class(tables: Tables, reference: _Reference, classes: tuple[str, ...]) -> list[dict[str, Any]]:
    error, null = total_gap(np.abs(class_gaps(tables))), reference.of(class_gaps, total_gap)
    recall, off = recall_of(tables.confusion), class_mae_of(tables.confusion)
    said = tables.classes[..., 1, :].sum(-1) / tables.total
    seen = tables.confusion.sum(-1) / tables.total
    return [
        {
            "class": name,
            "prevalence": float(seen[k]),
            "mean_probability": float(said[k]),
            "ce": float(error[k]),
            "ce_limit": float(np.quantile(null[:, k], 0.95)),
            "recall": float(recall[k]),
            "mae": float(off[k]),
        }
        for k, name in enumerate(classes)
    ]


def _per_threshold(
    tables: Tables,
    draws: Tables | None,
    reference: _Reference,
    fits: list[Any],
    fit_draws: FloatArray | None,
    classes: tuple[str, ...],
) -> list[dict[str, Any]]:
    error, null = total_gap(np.abs(threshold_gaps(tables))), reference.of(threshold_gaps, total_gap)
    rates = decision_rates(tables.confusion)
    rate_draws = None if draws is None else decision_rates(draws.confusion)
    seen = tables.confusion.sum(-1)
    out = []
    for k, fit in enumerate(fits):
        record: dict[str, Any] = {
            "event": f"{classes[k + 1]} or above" if k + 2 < len(classes) else classes[k + 1],
            "prevalence": float(seen[k + 1 :].sum() / seen.sum()),
            "ce": float(error[k]),
            "ce_limit": float(np.quantile(null[:, k], 0.95)),
            "brier": float(tables.threshold_squares[k] / tables.total),
        }
        for name, rate in rates.items():
            found = Interval(np.nan, np.nan) if rate_draws is None else interval(float(rate[k]), rate_draws[name][:, k])
            record[name] = Estimate(float(rate[k]), found.low, found.high)
        for i, name in enumerate(("auc", "intercept", "slope")):
            value = float(getattr(fit, name))
            found = Interval(np.nan, np.nan) if fit_draws is None else interval(value, fit_draws[:, k, i])
            if name == "auc":
                found = Interval(*np.clip([found.low, found.high], 0, 1).tolist())
            record[name] = Estimate(value, found.low, found.high)
        out.append(record)
    return out


def conventions(bins: int) -> dict[str, str]:
    """How each metric was computed, by name."""
    told = {metric.name: metric.convention for metric in all_metrics()}
    return {name: text.replace("15 ", f"{bins} ", 1) for name, text in told.items() if text} | {
        "bins": f"{bins} equal-width bins on [0, 1], {CONVENTIONS['paper']}"
    }
