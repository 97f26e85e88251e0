"""Result of an evaluation, as plain data for JSON, as tables and as reports."""

import math
from dataclasses import dataclass, field, is_dataclass
from typing import Any

import numpy as np

import orcu
from orcu.evaluation import tracking
from orcu.evaluation.comparison import Difference
from orcu.evaluation.corp import CalibrationCurve
from orcu.evaluation.decision_curves import DecisionCurve
from orcu.evaluation.formatting import ARROWS, format_interval, format_value
from orcu.evaluation.mean_cost import evaluation_metrics
from orcu.evaluation.raters import RaterEvaluation
from orcu.evaluation.smooth_curves import SmoothCurve
from orcu.metrics.base import Metric
from orcu.metrics.binning import PAPER
from orcu.metrics.referral import ReferralCurve
from orcu.metrics.sums import Sums
from orcu.predictions import Predictions
from orcu.resampling import CONFIDENCE_LEVEL, Estimate

RESULT_VERSION = 2


@dataclass(repr=False)
class Evaluation:
    """Result of `orcu.evaluate` for one model; all shares are fractions.

    ``evaluation["sce"].value``, ``.low`` and ``.high`` are a metric and its interval. `to_dict`, `to_markdown` and
    `to_html` give all results.
    """

    name: str
    classes: tuple[str, ...]
    rows: int
    clusters: int | None
    weighted: bool
    impossible_rows: int  # rows whose label has probability 0
    metrics: dict[str, Estimate]
    per_class: list[dict[str, Any]]
    per_threshold: list[dict[str, Any]]
    decomposition: dict[str, float]
    referral: ReferralCurve
    sums: Sums
    sample: Predictions  # all rows, or a sample of a streamed file
    n_resamples: int
    random_state: int
    n_bins: int
    label_mapping: str
    notes: list[str]
    rule: Any = "argmax"
    raters: RaterEvaluation | None = None  # of cases with votes of several raters
    corp: dict[str, Estimate] = field(default_factory=dict)  # parts of the RPS, and its skill
    calibration_curves: list[CalibrationCurve] = field(default_factory=list)  # of each threshold
    smooth_curves: list[SmoothCurve] = field(default_factory=list)  # likewise, by splines
    c_index: Estimate = field(default_factory=lambda: Estimate(math.nan))  # ordinal concordance of the expected class
    mean_difference: Estimate = field(
        default_factory=lambda: Estimate(math.nan)
    )  # of expected and observed grade, in SD
    decision_curves: list[DecisionCurve] = field(default_factory=list)  # of each threshold
    subgroups: dict[str, "Evaluation"] = field(default_factory=dict)
    others: list["Evaluation"] = field(default_factory=list)
    differences: dict[str, dict[str, Difference]] = field(default_factory=dict)  # by other model

    @property
    def sampled(self) -> bool:
        """Whether ranks, curves and examples come from a sample of the rows."""
        return len(self.sample) < self.rows

    @property
    def metric_list(self) -> list[Metric]:
        """The evaluated metrics in the order of a report."""
        return evaluation_metrics(self.rule, self.metrics)

    def __getitem__(self, metric: str) -> Estimate:
        return self.metrics[metric]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={self.metrics[name].value:.3f}" for name in ("accuracy", "mae", "sce", "rps"))
        rule = self.rule if isinstance(self.rule, str) else "cost matrix"
        counts = f"{self.rows} rows, {len(self.classes)} classes"
        return f"Evaluation({self.name!r}: {counts}, {values}; rule={rule!r}, n_resamples={self.n_resamples})"

    def _repr_html_(self) -> str:
        from orcu.report.card import evaluation_card

        return evaluation_card(self)

    def to_dict(self) -> dict[str, Any]:
        """All results except the rows as plain data for JSON: fractions, ``None`` if not defined or infinite."""
        result: dict[str, Any] = {
            "result_version": RESULT_VERSION,
            "orcu": orcu.__version__,
            "model": self.name,
            "rows": self.rows,
            "clusters": self.clusters,
            "weighted": self.weighted,
            "classes": list(self.classes),
            "label_mapping": self.label_mapping,
            "rule": self.rule if isinstance(self.rule, str) else np.asarray(self.rule).tolist(),
            "notes": self.notes,
            "bootstrap": {
                "n_resamples": self.n_resamples,
                "seed": self.random_state,
                "confidence_level": CONFIDENCE_LEVEL,
            },
            "conventions": conventions(self),
            "metrics": {m.name: _plain(self.metrics[m.name]) | {"better": m.better or None} for m in self.metric_list},
            "infinite_nll_rows": self.impossible_rows,
            "rps_decomposition": _plain(self.decomposition),
            "corp": _plain(self.corp),
            "c_index": _plain(self.c_index),
            "standardized_mean_difference": _plain(self.mean_difference),
            "decision_curves": _plain([curve.to_dict() for curve in self.decision_curves]),
            "per_class": _plain(self.per_class),
            "per_threshold": _plain(self.per_threshold),
            "referral": {
                "by": self.referral.by,
                "referred": self.referral.referred.round(6).tolist(),
                "error": self.referral.error.tolist(),
                "mae": self.referral.mae.tolist(),
                "error_area": self.referral.error_area,
                "mae_area": self.referral.mae_area,
            },
            "confusion": self.sums.confusion.tolist(),
            "reliability": {
                "columns": ["weight", "sum of probabilities", "sum of outcomes"],
                "top_label": self.sums.top.tolist(),
                "per_class": self.sums.classes.tolist(),
                "per_threshold": self.sums.thresholds.tolist(),
            },
        }
        if self.raters is not None:
            result["raters"] = _plain(self.raters)
        if self.subgroups:
            result["subgroups"] = {name: subgroup._summary() for name, subgroup in self.subgroups.items()}
        if self.others:
            result["others"] = {other.name: other._summary() for other in self.others}
            result["differences"] = _plain(self.differences)
        return result

    def _summary(self) -> dict[str, Any]:
        """Results of a subgroup, or of another model, as plain data."""
        return {
            "rows": self.rows,
            "notes": self.notes,
            "metrics": _plain(self.metrics),
            "standardized_mean_difference": _plain(self.mean_difference),
            "per_class": _plain(self.per_class),
            "per_threshold": _plain(self.per_threshold),
            "confusion": self.sums.confusion.tolist(),
        }

    def to_markdown(self) -> str:
        """Markdown table of the metrics, and of the differences to other models."""
        from orcu.report.text_tables import escape_markdown, markdown

        headings = ["metric", "value", "95 % interval", "a calibrated model would have"]
        blocks = [
            f"**{escape_markdown(self.name)}**: {self.rows:,} rows, "
            f"classes {escape_markdown(', '.join(self.classes))}\n",
            markdown(headings, [cells for _, cells in metric_rows(self)], "lrrr"),
        ]
        headings = ["metric", "difference", "95 % interval", f"resamples in favour of {self.name}"]
        for other, differences in self.differences.items():
            rows = [[metric.title, *format_difference(differences[metric.name], metric)] for metric in self.metric_list]
            pair = escape_markdown(f"{self.name} minus {other}")
            blocks += [f"**{pair}**, paired on the same rows\n", markdown(headings, rows, "lrrr")]
        return "\n".join(blocks)

    def to_html(self, **options: Any) -> str:
        """Report as one self-contained HTML page; options as in `orcu.report.build`."""
        from orcu.report.page import build

        return build(self, **options)

    def log(self, to: Any, *, step: int | None = None, prefix: str = "orcu/", report: bool = True) -> None:
        """Log all metrics and the ends of their intervals to an experiment tracker, with the report if it takes one.

        Names are ``orcu/sce``, ``orcu/sce_low`` and ``orcu/sce_high``; values are fractions. Without resamples
        (``n_resamples=0``) there are no intervals.

        Args:
            to: the module ``mlflow``, with an active run; a ``SummaryWriter`` of TensorBoard, which gets the tables
                instead of the report; a run of ``wandb``; or any object with ``log_metrics(metrics, step)``.
            step: step of the tracker, such as the epoch.
            prefix: prefix of all names; use another to log a subgroup or another model.
            report: whether to create the report too, which takes longer than the numbers.

        Raises:
            InputError: if ``to`` is none of these.

        Warns:
            UserWarning: if values are not defined or infinite; they are omitted.

        Example:
            >>> from orcu import evaluate
            >>> class Printer:
            ...     def log_metrics(self, metrics, step=None):
            ...         print(step, metrics["val/accuracy"])
            >>> evaluation = evaluate(probs=[[0.9, 0.1], [0.8, 0.2]], y=[0, 1], n_resamples=0)
            >>> evaluation.log(Printer(), step=3, prefix="val/")
            3 0.5
        """
        ends = ("low", "high") if self.n_resamples else ()
        values = {name: estimate.value for name, estimate in self.metrics.items()}
        values |= {f"{name}_{end}": getattr(estimate, end) for name, estimate in self.metrics.items() for end in ends}
        tracking.log(self, values, to, step=step, prefix=prefix, report=report)


def conventions(evaluation: Evaluation) -> dict[str, str]:
    """Definitions of the metrics in words, by name."""
    n_bins = evaluation.n_bins
    texts = {metric.name: metric.convention_for(n_bins) for metric in evaluation.metric_list if metric.convention}
    return texts | {"bins": f"{n_bins} equal-width bins on [0, 1], {PAPER.words}"}


def metric_rows(evaluation: Evaluation) -> list[tuple[Metric, list[str]]]:
    """Rows of the table of metrics: title with direction, value, interval and reference."""
    rows = []
    for metric in evaluation.metric_list:
        estimate = evaluation.metrics[metric.name]
        reference = ""
        if estimate.expected is not None and estimate.limit is not None:
            reference = ", up to ".join(format_value(end, percent=True) for end in (estimate.expected, estimate.limit))
        title = f"{metric.title}\u00a0{ARROWS[metric.better]}".strip()
        cells = format_metric(evaluation, metric), format_metric_interval(evaluation, metric)
        rows.append((metric, [title, *cells, reference]))
    return rows


def format_metric_interval(evaluation: Evaluation, metric: Metric) -> str:
    """Interval of a metric for a table cell."""
    estimate = evaluation.metrics[metric.name]
    if metric.binned and estimate.high == 0:
        return "0 (only noise)"
    return format_interval(estimate.low, estimate.high, percent=metric.percent, signed=metric.better == "zero")


def format_metric(evaluation: Evaluation, metric: Metric) -> str:
    """Value of a metric for a table cell."""
    value = evaluation.metrics[metric.name].value
    if metric.name == "nll" and math.isinf(value):
        count = evaluation.impossible_rows
        return f"infinite ({count:,} row{'s' if count > 1 else ''})"
    return format_value(value, percent=metric.percent, signed=metric.better == "zero")


def format_difference(difference: Difference, metric: Metric) -> tuple[str, str, str]:
    """Outcome for the first model ("better", "worse" or "level"), difference and interval, for table cells."""
    return (
        difference.outcome(metric),
        format_value(difference.value, percent=metric.percent, signed=True),
        format_interval(difference.low, difference.high, percent=metric.percent, signed=True),
    )


def _plain(value: Any) -> Any:
    """Estimates, differences and numbers, also nested, as JSON data; ``None`` for numbers that are not finite."""
    if hasattr(value, "_asdict"):  # a named tuple
        value = value._asdict()
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if is_dataclass(value) and not isinstance(value, Estimate):
        value = vars(value)
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, Estimate):
        ends = {name: _plain(getattr(value, name)) for name in ("value", "low", "high")}
        return (
            ends
            if value.limit is None
            else ends | {"calibrated_mean": value.expected, "calibrated_95": value.limit, "p_value": value.p_value}
        )
    return None if isinstance(value, float) and not math.isfinite(value) else value
