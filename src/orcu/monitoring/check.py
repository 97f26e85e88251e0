"""Check of a monitoring log: whether, since when and where the calibration has drifted."""

import functools
import math
import os
import sys
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.evaluation.formatting import format_value
from orcu.evaluation.tally import Tally
from orcu.figures.panels.monitoring import power_of_ten
from orcu.inputs import FloatArray, as_count, as_fraction
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT
from orcu.monitoring.e_process import (
    Hypothesis,
    cell_sums,
    cell_weights,
    gap_interval,
    log_e_value,
    start_weights,
    update_wealth,
)
from orcu.monitoring.log import Day, Log, as_day, check_compatible, read_day

REFERENCE_SHARE = 0.2  # share of alpha for the confidence intervals of the reference
TOLERANCE = 0.02  # default tolerance without a reference
DAY_METRICS = ("accuracy", "ece", "sce", "overconfidence")


@dataclass(frozen=True)
class DayResult:
    """Results of one day; the metrics are NaN without labelled rows."""

    day: date
    rows: int  # number of labelled rows
    unlabelled: int  # number of rows without a label
    accuracy: float
    ece: float  # expected calibration error
    sce: float  # class-wise calibration error
    overconfidence: float  # mean confidence minus accuracy
    log_e_value: float  # natural logarithm of the e-value of all days up to this one
    overconfidence_low: float  # confidence sequence of the overconfidence of all rows up to this day
    overconfidence_high: float

    @property
    def e_value(self) -> float:
        """E-value of all days up to this one; 1 at the start."""
        return math.exp(min(self.log_e_value, math.log(sys.float_info.max)))


@dataclass(frozen=True)
class Drift:
    """Cell with the largest e-value, and its most likely start."""

    since: date  # most likely first day of the drift
    rows: int  # number of rows of the cell since then
    prob_pred: float  # mean predicted probability of these rows
    prob_true: float  # observed rate of these rows
    threshold: int | None  # k of the event "grade at most k"; None for the event "top label is right"
    bin: tuple[float, float] | None  # ends of the bin of predicted probabilities; None for all rows
    gap_low: float  # smallest gap (observed minus predicted rate) under the hypothesis
    gap_high: float  # largest gap under the hypothesis
    tallies: tuple[Tally, Tally]  # all rows before that day, and since


@dataclass(frozen=True)
class Reference:
    """Reference period."""

    first: date
    last: date
    rows: int  # number of labelled rows
    tally: Tally
    overconfidence_low: float  # confidence interval
    overconfidence_high: float


@dataclass(frozen=True, repr=False)
class Check:
    """Result of a check.

    Attributes:
        days: results of the checked days, in order.
        classes: class names, lowest first.
        alpha: bound on the probability that a log without drift ever has an alarm.
        tolerance: tolerated deviation of the probabilities.
        alarm_threshold: e-value at which there is an alarm.
        reference: reference period; ``None`` if days are compared with the predicted probabilities.
        drift: location of the drift; ``None`` without an alarm.
        tally: sums of all checked rows.
    """

    days: list[DayResult]
    classes: tuple[str, ...]
    alpha: float
    tolerance: float
    alarm_threshold: float
    reference: Reference | None
    drift: Drift | None
    tally: Tally

    def __repr__(self) -> str:
        since = f", since='{self.since}'" if self.alarm else ""
        return (
            f"Check(alarm={self.alarm}, e_value={self.e_value:.3g}, alarm_threshold={self.alarm_threshold:g}{since}, "
            f"days={len(self.days)}, rows={self.tally.rows})"
        )

    def __str__(self) -> str:
        return "\n".join(self.findings)

    @property
    def e_value(self) -> float:
        """E-value of all days, which decides about the alarm."""
        return self.days[-1].e_value

    @property
    def since(self) -> date | None:
        """Most likely first day of the drift; ``None`` without an alarm."""
        return None if self.drift is None else self.drift.since

    @property
    def alarm(self) -> bool:
        """Whether the e-value has reached the alarm threshold."""
        return self.drift is not None

    @functools.cached_property
    def findings(self) -> list[str]:
        """Findings in sentences, most important first."""
        last, peak = self.days[-1], max(self.days, key=lambda day: day.log_e_value)
        within = f" by more than {100 * self.tolerance:g} points" if self.tolerance else ""
        if self.reference is None:
            drifting = f"the probabilities are off{within}"
        else:
            span = f"{self.reference.first} to {self.reference.last}"
            drifting = f"the calibration differs{within} from the reference ({span})"
        e_value = f"e-value {format_e_value(last)}, alarm threshold {self.alarm_threshold:g}"
        if self.drift is None:
            findings = [f"No alarm: no significant evidence that {drifting} ({e_value})."]
        else:
            findings = [
                f"ALARM: {drifting}, most likely since {self.drift.since} ({e_value}).",
                self._describe(self.drift),
            ]
        if not self.alarm and peak.e_value >= self.alarm_threshold:
            findings.append(
                f"The e-value of the days up to {peak.day} was {format_e_value(peak)}, above the alarm threshold, and "
                "has decreased since. Check these days."
            )
        findings.append(
            f"Overconfidence of all rows: {_points(self.tally.compute()['overconfidence'])} points, "
            f"{100 * (1 - self.alpha):g} % confidence sequence {_points(last.overconfidence_low)} to "
            f"{_points(last.overconfidence_high)}."
        )
        unlabelled = sum(day.unlabelled for day in self.days)
        labels_missing = f"; {unlabelled:,} rows have no label yet" if unlabelled else ""
        span = f"{self.days[0].day} to {last.day}" if len(self.days) > 1 else f"{last.day}"
        return [*findings, f"{span}: {self.tally.rows:,} labelled rows{labels_missing}."]

    def _describe(self, drift: Drift) -> str:
        """Sentence about the rows with the drift."""
        predicted, observed = (format_value(rate, percent=True) for rate in (drift.prob_pred, drift.prob_true))
        gap = f"{100 * abs(drift.prob_pred - drift.prob_true):.1f} points"
        too_high = drift.prob_pred > drift.prob_true
        in_bin = "" if drift.bin is None else f" of {100 * drift.bin[0]:.0f} to {100 * drift.bin[1]:.0f} %"
        if drift.threshold is None:
            cell = f"Rows with a confidence{in_bin}" if drift.bin else "All rows"
            kind = f"{'over' if too_high else 'under'}confident by {gap}"
        else:
            cell = f"P({self._event(drift)}){in_bin}"
            kind = f"grades are {'higher' if too_high else 'lower'} than predicted, by {gap}"
        sentence = (
            f"{cell}: mean prediction {predicted}, observed rate {observed} on {drift.rows:,} rows since then; {kind}."
        )
        if self.reference is None:
            return sentence
        low, high = self.tolerance - drift.gap_high, -self.tolerance - drift.gap_low
        return f"{sentence} In the reference the predictions were {_points(low)} to {_points(high)} points too high."

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; NaN is ``None``."""
        reference, drift = self.reference, self.drift
        return {
            "alarm": self.alarm,
            "e_value": self.e_value,
            "alarm_threshold": self.alarm_threshold,
            "alpha": self.alpha,
            "tolerance": self.tolerance,
            "classes": list(self.classes),
            "reference": None if reference is None else _plain(reference),
            "drift": None if drift is None else _plain(drift) | {"event": self._event(drift)},
            "findings": self.findings,
            "days": [_plain(day) | {"e_value": day.e_value} for day in self.days],
        }

    def _event(self, drift: Drift) -> str:
        return "top label is right" if drift.threshold is None else f"at most {self.classes[drift.threshold]}"


def check(
    log: Log | str | os.PathLike[str],
    *,
    reference: Log | str | os.PathLike[str] | None = None,
    reference_days: int | None = None,
    since: Any = None,
    alpha: float = 0.05,
    tolerance: float | None = None,
) -> Check:
    """Check all days of a log for drift of the calibration, as often as you like.

    The probability that a model without drift ever has an alarm is at most alpha, for any number of checks. Drift is
    relative to the reference period if there is one, else to the predicted probabilities.

    Args:
        log: log, or its folder.
        reference: reference period: another log, its folder, or one of its files.
        reference_days: number of days at the start of the log that are the reference period instead; they are not
            checked.
        since: first day to check, such as the first day after a repair of the model.
        alpha: bound on the probability that a log without drift ever has an alarm.
        tolerance: tolerated deviation of the probabilities, as a fraction. By default 0.02 without a reference, because
            no model is perfectly calibrated, and 0 with one, whose uncertainty is accounted for.

    Raises:
        InputError: if a number is out of range, the log has no labelled rows, or the reference does not fit the log.

    Example:
        >>> import tempfile
        >>> from orcu import Predictions
        >>> log = Log(tempfile.mkdtemp())
        >>> probs = [[0.9, 0.1]] * 100
        >>> for day in range(1, 8):  # accuracy 60 %, confidence 90 %
        ...     _ = log.add(f"2026-11-0{day}", Predictions(probs=probs, y=[0] * 60 + [1] * 40))
        >>> check(log)
        Check(alarm=True, e_value=5.79e+74, alarm_threshold=20, since='2026-11-01', days=7, rows=700)
    """
    validate_settings(alpha=alpha, tolerance=tolerance, reference=reference, reference_days=reference_days)
    if tolerance is None:
        tolerance = TOLERANCE if reference is None and reference_days is None else 0.0
    log = log if isinstance(log, Log) else Log(log)
    days = log.days()
    if not days:
        raise InputError(f"{log.path}: the log has no days; add one with `orcu monitor add`.")
    reference_period = _select_reference(log, days, reference, reference_days)
    days = days if reference_days is None else days[len(reference_period) :]
    if since is not None:
        days = [day for day in days if day.day >= as_day(since, name="since")]
    if not sum(day.tally.rows for day in days):
        selected = "" if since is None and reference_days is None else " among the selected days"
        raise InputError(f"{log.path}: no row has a label{selected}; add labelled rows with `orcu monitor add`.")
    sums = [cell_sums(day.tally) for day in days]
    if reference_period:
        alarm_threshold = 1 / ((1 - REFERENCE_SHARE) * alpha)
        hypothesis, summary = _reference_hypothesis(reference_period, tolerance, alpha)
    else:
        alarm_threshold, summary = 1 / alpha, None
        hypothesis = Hypothesis.calibrated(*_shape(sums[0]), tolerance=tolerance)
    log_e_values, log_total = _log_e_values(days, sums, hypothesis)
    has_alarm = log_e_values[-1] >= math.log(alarm_threshold)
    return Check(
        days=_day_results(days, sums, log_e_values, alpha),
        classes=days[0].classes,
        alpha=alpha,
        tolerance=tolerance,
        alarm_threshold=alarm_threshold,
        reference=summary,
        drift=_locate_drift(days, sums, hypothesis, log_total) if has_alarm else None,
        tally=_merge_tallies(days),
    )


def validate_settings(*, alpha: float, tolerance: float | None, reference: Any, reference_days: int | None) -> None:
    """Validate the settings of a check without reading the log; an InputError names the invalid setting."""
    if as_fraction(alpha, name="alpha") == 0:
        raise InputError(f"alpha: expected a number between 0 and 1, such as 0.05, got {alpha!r}.")
    if tolerance is not None:
        as_fraction(tolerance, name="tolerance")
    if reference is not None and reference_days is not None:
        raise InputError("reference, reference_days: give only one of the two.")
    if reference_days is not None:
        as_count(reference_days, name="reference_days", minimum=1)


def format_e_value(day: DayResult) -> str:
    """E-value of the days up to this one, as text."""
    if day.log_e_value >= math.log(1e6):
        return power_of_ten(round(day.log_e_value / math.log(10)))
    return f"{day.e_value:.2g}" if day.e_value < 10 else f"{day.e_value:,.0f}"


def _select_reference(log: Log, days: list[Day], reference: Any, n_days: int | None) -> list[Day]:
    """Days of the reference period; empty without one."""
    if n_days is not None:
        end = days[0].day + timedelta(days=n_days)
        selected = [day for day in days if day.day < end]
        if len(selected) == len(days):
            raise InputError(f"{log.path}: no day after the {n_days} reference days, which end before {end}; add days.")
    elif reference is None:
        return []
    else:
        path = reference.path if isinstance(reference, Log) else Path(reference)
        if not path.exists():
            raise InputError(f"{path}: there is no such file or folder.")
        if log.path.resolve() in (path.resolve(), path.resolve().parent):
            raise InputError(
                f"{path}: the reference is in the log itself, so its rows would be compared with themselves; use the "
                "first days of the log as the reference (--reference-days 30), or another log."
            )
        selected = [read_day(path)] if path.is_file() else Log(path).days()
        for day in selected:
            check_compatible(days[0], day, where=f"reference {path}: ")
    if not sum(day.tally.rows for day in selected):
        raise InputError("reference: no row has a label; add labelled rows, or choose another reference.")
    return selected


def _reference_hypothesis(days: list[Day], tolerance: float, alpha: float) -> tuple[Hypothesis, Reference]:
    tally = _merge_tallies(days)
    hypothesis = Hypothesis.from_reference(cell_sums(tally), tolerance=tolerance, alpha=REFERENCE_SHARE * alpha)
    low, high = -hypothesis.high[0, -1] + tolerance, -hypothesis.low[0, -1] - tolerance
    return hypothesis, Reference(days[0].day, days[-1].day, tally.rows, tally, float(low), float(high))


def _log_e_values(days: list[Day], sums: list[FloatArray], hypothesis: Hypothesis) -> tuple[list[float], FloatArray]:
    """Logarithm of the e-value after each day, and of the wealth of each bet after the last."""
    since_first = np.array([(day.day - days[0].day).days for day in days])
    weights = cell_weights(*_shape(sums[0]))
    log_total = np.full_like(hypothesis.log_wealth(sums[0]), -np.inf)
    log_e_values = []
    for day, share, passed in zip(sums, start_weights(since_first), since_first, strict=True):
        log_total = update_wealth(log_total, hypothesis.log_wealth(day), share)
        log_e_values.append(float(log_e_value(log_total, weights, 1 / (passed + 2))))
    return log_e_values, log_total


def _locate_drift(days: list[Day], sums: list[FloatArray], hypothesis: Hypothesis, log_total: FloatArray) -> Drift:
    """Cell with the largest share of the e-value, and start with the largest share of the cell's wealth."""
    num_classes, n_bins = _shape(sums[0])
    cells = np.logaddexp.reduce(log_total, axis=-1) + np.log(cell_weights(num_classes, n_bins))
    event, column = (int(index) for index in np.unravel_index(int(cells.argmax()), cells.shape))
    logs = np.array([hypothesis.log_wealth(day)[event, column] for day in sums])
    from_day = logs[::-1].cumsum(axis=0)[::-1]
    shares = start_weights(np.array([(day.day - days[0].day).days for day in days]))
    start = int((np.logaddexp.reduce(from_day, axis=-1) + np.log(shares)).argmax())
    bins = slice(None) if column == n_bins else slice(column, column + 1)
    count, predicted, observed = np.sum(sums[start:], axis=0)[event][:, bins].sum(-1)[[WEIGHT, VALUE, OUTCOME]]
    before = _merge_tallies(days[:start]) if start else Tally(num_classes, n_bins=n_bins)
    return Drift(
        since=days[start].day,
        rows=int(count),
        prob_pred=float(predicted / count),
        prob_true=float(observed / count),
        threshold=None if event == 0 else event - 1,
        bin=None if column == n_bins else (column / n_bins, (column + 1) / n_bins),
        gap_low=float(hypothesis.low[event, column]),
        gap_high=float(hypothesis.high[event, column]),
        tallies=(before, _merge_tallies(days[start:])),
    )


def _day_results(days: list[Day], sums: list[FloatArray], log_e_values: list[float], alpha: float) -> list[DayResult]:
    top = np.cumsum([day[0].sum(-1) for day in sums], axis=0)
    low, high = gap_interval(top[:, WEIGHT], top[:, VALUE], top[:, OUTCOME], alpha)
    results = []
    for day, logs, lower, upper in zip(days, log_e_values, (-high).tolist(), (-low).tolist(), strict=True):
        metrics = day.tally.compute() if day.tally.rows else dict.fromkeys(DAY_METRICS, math.nan)
        accuracy, ece, sce, gap = (metrics[name] for name in DAY_METRICS)
        counts = day.tally.rows, day.unlabelled
        results.append(DayResult(day.day, *counts, accuracy, ece, sce, gap, logs, lower, upper))
    return results


def _shape(sums: FloatArray) -> tuple[int, int]:
    """Numbers of classes and bins."""
    return sums.shape[0], sums.shape[2]


def _merge_tallies(days: list[Day]) -> Tally:
    return functools.reduce(Tally.merge, (day.tally for day in days))


def _plain(record: DayResult | Drift | Reference) -> dict[str, Any]:
    """Fields of a result for JSON, without tallies."""
    state = {name: value for name, value in vars(record).items() if name not in ("tally", "tallies")}
    for name, value in state.items():
        if isinstance(value, date):
            state[name] = value.isoformat()
        elif isinstance(value, float) and math.isnan(value):
            state[name] = None
    return state


def _points(fraction: float) -> str:
    return f"{100 * fraction:+.1f}"
