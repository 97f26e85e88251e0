"""What is known of one model after judging it, and that as plain data for JSON and as tables."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import orcu
from orcu.evaluation import tracking
from orcu.evaluation.comparison import Difference
from orcu.evaluation.intervals import LEVEL
from orcu.evaluation.printed import ARROWS, shown, shown_interval
from orcu.io.text import markdown, markdown_text
from orcu.metrics.base import Metric, all_metrics
from orcu.metrics.binning import PAPER
from orcu.metrics.referral import ReferralCurve
from orcu.metrics.sums import Sums
from orcu.predictions.predictions import Predictions
from orcu.registry import Registry

RESULT_VERSION = 1
# A page needs figures, which are drawn from evaluations: what makes one stands above, and registers itself here.
PAGES: Registry[Callable[..., str]] = Registry("page", package="orcu.report")


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
    tables: Sums
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
        values = ", ".join(f"{name} {self.metrics[name].value:.3f}" for name in ("accuracy", "mae", "sce"))
        return f"Evaluation({self.name!r}, {self.rows} rows: {values}, ...)"

    def _repr_html_(self) -> str:
        return PAGES.get("card")(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the rows as plain data, fit for JSON: fractions, None where not defined or infinite."""
        out: dict[str, Any] = {
            "result_version": RESULT_VERSION,
            "orcu": orcu.__version__,
            "model": self.name,
            "rows": self.rows,
            "subjects": self.subjects,
            "weighted": self.weighted,
            "classes": list(self.classes),
            "label_mapping": self.mapping,
            "decide": self.decide if isinstance(self.decide, str) else np.asarray(self.decide).tolist(),
            "notes": self.notes,
            "bootstrap": {"resamples": self.resamples, "seed": self.seed, "level": LEVEL},
            "conventions": conventions(self.bins),
            "metrics": {
                metric.name: _plain(self.metrics[metric.name]) | {"better": metric.better or None}
                for metric in all_metrics()
            },
            "infinite_nll_rows": self.impossible_rows,
            "rps_decomposition": _plain(self.decomposition),
            "per_class": [_plain(record) for record in self.per_class],
            "per_threshold": [_plain(record) for record in self.per_threshold],
            "referral": {
                "by": self.referral.by,
                "referred": self.referral.referred.round(6).tolist(),
                "error": self.referral.error.tolist(),
                "mae": self.referral.mae.tolist(),
                "error_area": self.referral.error_area,
                "mae_area": self.referral.mae_area,
            },
            "confusion": self.tables.confusion.tolist(),
            "reliability": {
                "columns": ["weight", "sum of probabilities", "sum of outcomes"],
                "top_label": self.tables.top.tolist(),
                "per_class": self.tables.classes.tolist(),
                "per_threshold": self.tables.thresholds.tolist(),
            },
        }
        if self.groups:
            out["groups"] = {name: group._in_short() for name, group in self.groups.items()}
        if self.others:
            out["others"] = {other.name: other._in_short() for other in self.others}
            out["differences"] = {
                name: {metric: _plain(vars(difference)) for metric, difference in per_metric.items()}
                for name, per_metric in self.differences.items()
            }
        return out

    def _in_short(self) -> dict[str, Any]:
        """What is told of a group, or of another model."""
        return {
            "rows": self.rows,
            "notes": self.notes,
            "metrics": _plain(self.metrics),
            "per_class": [_plain(record) for record in self.per_class],
            "per_threshold": [_plain(record) for record in self.per_threshold],
            "confusion": self.tables.confusion.tolist(),
        }

    def to_markdown(self) -> str:
        """The table of metrics in Markdown, and the differences to other models."""
        headings = ["metric", "value", "95 % interval", "a calibrated model would show"]
        blocks = [
            f"**{markdown_text(self.name)}**: {self.rows:,} rows, classes {markdown_text(', '.join(self.classes))}\n",
            markdown(headings, [cells for _, cells in metric_rows(self)], "lrrr"),
        ]
        headings = ["metric", "difference", "95 % interval", f"in favour of {self.name}"]
        for other, differences in self.differences.items():
            rows = [[metric.title, *shown_difference(differences[metric.name], metric)] for metric in all_metrics()]
            pair = markdown_text(f"{self.name} minus {other}")
            blocks += [f"**{pair}**, the same rows\n", markdown(headings, rows, "lrrr")]
        return "\n".join(blocks)

    def to_html(self, **options: Any) -> str:
        """The report as one self-contained page; options as for `orcu.report.build`."""
        return PAGES.get("html")(self, **options)

    def log(self, to: Any, *, step: int | None = None, prefix: str = "orcu/", report: bool = True) -> None:
        """Log every metric and the ends of its interval, and the report where it can be kept.

        Names are ``orcu/sce``, ``orcu/sce_low`` and ``orcu/sce_high``, fractions as everywhere. Without resamples
        (``bootstrap=0``) there are no ends.

        Args:
            to: the module ``mlflow``, whose active run it is; a ``SummaryWriter`` of TensorBoard, which gets the tables
                in place of the report; a run of ``wandb``; or anything with ``log_metrics(metrics, step)``.
            step: such as the epoch.
            prefix: before every name; a group or another model is logged beside it by one of its own.
            report: whether to draw the report too, which takes longer than the numbers.

        Raises:
            InputError: if ``to`` is none of these.

        Warns:
            UserWarning: of values that are not defined or infinite; they are left out.

        Example:
            >>> from orcu import evaluate
            >>> class Printer:
            ...     def log_metrics(self, metrics, step=None):
            ...         print(step, metrics["val/accuracy"])
            >>> evaluation = evaluate(probs=[[0.9, 0.1], [0.8, 0.2]], y=[0, 1], bootstrap=0)
            >>> evaluation.log(Printer(), step=3, prefix="val/")
            3 0.5
        """
        ends = ("low", "high") if self.resamples else ()
        values = {name: estimate.value for name, estimate in self.metrics.items()}
        values |= {f"{name}_{end}": getattr(one, end) for name, one in self.metrics.items() for end in ends}
        tracking.log(self, values, to, step=step, prefix=prefix, report=report)


def conventions(bins: int) -> dict[str, str]:
    """How each metric was computed, by name."""
    texts = {metric.name: metric.convention_for(bins) for metric in all_metrics() if metric.convention}
    return texts | {"bins": f"{bins} equal-width bins on [0, 1], {PAPER.words}"}


def metric_rows(evaluation: Evaluation) -> list[tuple[Metric, list[str]]]:
    """The rows of the table of metrics: name with direction, value, interval, reference."""
    rows = []
    for metric in all_metrics():
        estimate = evaluation.metrics[metric.name]
        signed = metric.better == "zero"
        cells = [
            f"{metric.title}\u00a0{ARROWS[metric.better]}".strip(),
            shown_value(evaluation, metric),
            shown_interval(estimate.low, estimate.high, percent=metric.percent, signed=signed),
            _shown_reference(estimate),
        ]
        rows.append((metric, cells))
    return rows


def shown_value(evaluation: Evaluation, metric: Metric) -> str:
    """A metric's value in words fit for a table cell."""
    value = evaluation.metrics[metric.name].value
    if metric.name == "nll" and math.isinf(value):
        return f"infinite ({evaluation.impossible_rows:,} rows)"
    return shown(value, percent=metric.percent, signed=metric.better == "zero")


def _shown_reference(estimate: Estimate) -> str:
    """What a calibrated model would show: the mean, and the 95 % point."""
    if estimate.expected is None or estimate.limit is None:
        return ""
    return f"{shown(estimate.expected, percent=True)}, up to {shown(estimate.limit, percent=True)}"


def shown_difference(difference: Difference, metric: Metric) -> tuple[str, str, str]:
    """Difference, interval and share of resamples in favour."""
    favour = "" if difference.favour is None else f"{difference.favour:.0%}".replace("%", " %")
    return (
        shown(difference.value, percent=metric.percent, signed=True),
        shown_interval(difference.low, difference.high, percent=metric.percent, signed=True),
        favour,
    )


def _plain(value: Any) -> Any:
    """An estimate, a number, or a record of these, as JSON takes them: None for what is not finite."""
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, Estimate):
        ends = {name: _plain(getattr(value, name)) for name in ("value", "low", "high")}
        return ends if value.limit is None else ends | {"calibrated_mean": value.expected, "calibrated_95": value.limit}
    return None if isinstance(value, float) and not math.isfinite(value) else value
