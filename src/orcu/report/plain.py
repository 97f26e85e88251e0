"""An evaluation as plain data for JSON, and as tables for the terminal and Markdown."""

import math
from typing import Any

import numpy as np

import orcu
from orcu.evaluation.comparison import Difference
from orcu.evaluation.evaluate import Estimate, Evaluation, conventions
from orcu.metrics.base import Metric, all_metrics

RESULT_VERSION = 1
ARROWS = {"higher": "↑", "lower": "↓", "zero": "→0", "": ""}


def as_dict(found: Evaluation) -> dict[str, Any]:
    """Everything but the rows: fractions, None where a value is not defined or infinite."""
    out: dict[str, Any] = {
        "result_version": RESULT_VERSION,
        "orcu": orcu.__version__,
        "model": found.name,
        "rows": found.rows,
        "subjects": found.subjects,
        "weighted": found.weighted,
        "classes": list(found.classes),
        "label_mapping": found.mapping,
        "decide": found.decide if isinstance(found.decide, str) else np.asarray(found.decide).tolist(),
        "notes": found.notes,
        "bootstrap": {"resamples": found.resamples, "seed": found.seed, "level": 0.95},
        "conventions": conventions(found.bins),
        "metrics": {
            metric.name: _estimate(found.metrics[metric.name]) | {"better": metric.better or None}
            for metric in all_metrics()
        },
        "infinite_nll_rows": found.impossible_rows,
        "rps_decomposition": {name: _number(value) for name, value in found.decomposition.items()},
        "per_class": [_plain(record) for record in found.per_class],
        "per_threshold": [_plain(record) for record in found.per_threshold],
        "referral": {
            "referred": found.referral.referred.round(6).tolist(),
            "error": found.referral.error.tolist(),
            "mae": found.referral.mae.tolist(),
            "error_area": found.referral.error_area,
            "mae_area": found.referral.mae_area,
        },
        "confusion": found.tables.confusion.tolist(),
        "reliability": {
            "columns": ["weight", "sum of probabilities", "sum of outcomes"],
            "top_label": found.tables.top.tolist(),
            "per_class": found.tables.classes.tolist(),
            "per_threshold": found.tables.thresholds.tolist(),
        },
    }
    if found.groups:
        out["groups"] = {name: _short(group) for name, group in found.groups.items()}
    if found.others:
        out["others"] = {other.name: _short(other) for other in found.others}
        out["differences"] = {
            name: {metric: _plain(vars(difference)) for metric, difference in per_metric.items()}
            for name, per_metric in found.differences.items()
        }
    return out


def _short(found: Evaluation) -> dict[str, Any]:
    return {
        "rows": found.rows,
        "notes": found.notes,
        "metrics": {name: _estimate(estimate) for name, estimate in found.metrics.items()},
        "per_class": [_plain(record) for record in found.per_class],
        "per_threshold": [_plain(record) for record in found.per_threshold],
        "confusion": found.tables.confusion.tolist(),
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    out = {name: _number(getattr(estimate, name)) for name in ("value", "low", "high")}
    if estimate.limit is not None:
        out |= {"calibrated_mean": estimate.expected, "calibrated_95": estimate.limit}
    return out


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _estimate(value) if isinstance(value, Estimate) else _number(value) if isinstance(value, float) else value
        for name, value in record.items()
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def shown(value: float, *, percent: bool, signed: bool = False) -> str:
    """A value for a printed table: percent with one or two digits, else three digits.

    Example:
        >>> shown(0.1234, percent=True), shown(0.00123, percent=True), shown(0.5, percent=False)
        ('12.3 %', '0.12 %', '0.500')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "infinite"
    sign = "+" if signed and value > 0 else ""
    if percent:
        return f"{sign}{value * 100:.{1 if abs(value) >= 0.01 or value == 0 else 2}f} %"
    return f"{sign}{round(value, 3) + 0.0:.3f}"  # + 0.0: no minus before a zero


def shown_interval(low: float | None, high: float | None, *, percent: bool, signed: bool = False) -> str:
    """Two ends for a printed table.

    Example:
        >>> shown_interval(0.02, 0.11, percent=True)
        '2.0 – 11.0 %'
    """
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return "–"
    ends = [shown(end, percent=percent, signed=signed) for end in (low, high)]
    if percent:
        digits = 1 if max(abs(low), abs(high)) >= 0.01 else 2
        plus = ["+" if signed and end > 0 else "" for end in (low, high)]
        return f"{plus[0]}{low * 100:.{digits}f} – {plus[1]}{high * 100:.{digits}f} %"
    return f"{ends[0]} – {ends[1]}"


def shown_value(found: Evaluation, metric: Metric) -> str:
    """A metric's value in words fit for a table cell."""
    value = found.metrics[metric.name].value
    if metric.name == "nll" and math.isinf(value):
        return f"infinite ({found.impossible_rows:,} rows)"
    return shown(value, percent=metric.percent, signed=metric.better == "zero")


def shown_reference(estimate: Estimate, *, percent: bool = True) -> str:
    """What a calibrated model would show: the mean, and the 95 % point."""
    if estimate.expected is None or estimate.limit is None:
        return ""
    return f"{shown(estimate.expected, percent=percent)}, up to {shown(estimate.limit, percent=percent)}"


def shown_difference(difference: Difference, metric: Metric) -> tuple[str, str, str]:
    """Difference, interval and share of resamples in favour."""
    favour = "" if difference.favour is None else f"{difference.favour:.0%}".replace("%", " %")
    return (
        shown(difference.value, percent=metric.percent, signed=True),
        shown_interval(difference.low, difference.high, percent=metric.percent, signed=True),
        favour,
    )


def metric_rows(found: Evaluation) -> list[tuple[Metric, list[str]]]:
    """The rows of the table of metrics: name with direction, value, interval, reference."""
    rows = []
    for metric in all_metrics():
        estimate = found.metrics[metric.name]
        signed = metric.better == "zero"
        cells = [
            f"{metric.title}\u00a0{ARROWS[metric.better]}".strip(),
            shown_value(found, metric),
            shown_interval(estimate.low, estimate.high, percent=metric.percent, signed=signed),
            shown_reference(estimate),
        ]
        rows.append((metric, cells))
    return rows


def as_markdown(found: Evaluation) -> str:
    """The table of metrics, and the differences to other models."""
    lines = [
        f"**{found.name}**: {found.rows:,} rows, classes {', '.join(found.classes)}",
        "",
        "| metric | value | 95 % interval | a calibrated model would show |",
        "|---|---:|---:|---:|",
    ]
    lines += ["| " + " | ".join(map(_cell, cells)) + " |" for _, cells in metric_rows(found)]
    for other, differences in found.differences.items():
        lines += [
            "",
            f"**{found.name} minus {other}**, the same rows",
            "",
            "| metric | difference | 95 % interval | resamples in favour |",
            "|---|---:|---:|---:|",
        ]
        for metric in all_metrics():
            cells = [metric.title, *shown_difference(differences[metric.name], metric)]
            lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
