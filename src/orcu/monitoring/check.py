"""Check of a monitoring log: whether, since when and where the calibration has drifted."""

import functools
import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from orcu.errors import InputError, UnknownNameError
from orcu.evaluation.formatting import format_value
from orcu.evaluation.tally import Tally
from orcu.figures.panels.monitoring import power_of_ten
from orcu.inputs import FloatArray, as_count, as_fraction
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT
from orcu.monitoring.chance import ChanceLimit, chance_limit, tally_limits
from orcu.monitoring.e_process import (
    Hypothesis,
    cell_sums,
    cell_weights,
    gap_interval,
    log_e_value,
    occasion_weights,
    population_weights,
    start_weights,
    update_wealth,
)
from orcu.monitoring.log import Day, Log, as_day, check_compatible, read_day

REFERENCE_SHARE = 0.2  # share of alpha for the confidence intervals of the reference
TOLERANCE = 0.02  # default tolerance without a reference
DAY_METRICS = ("accuracy", "ece", "sce", "overconfidence")
PERIODS = ("day", "week", "month")
MAX_PERIODS = 31  # the default period is the shortest with at most this many results
ALL_ROWS = ""  # name of the population of all rows


@dataclass(frozen=True)
class DayResult:
    """Results of one day, or of a week or month; the metrics are NaN without labelled rows."""

    day: date  # first day of a week or month
    rows: int  # number of labelled rows
    unlabelled: int  # number of rows without a label
    accuracy: float
    ece: float  # expected calibration error
    sce: float  # class-wise calibration error
    overconfidence: float  # mean confidence minus accuracy
    log_e_value: float  # natural logarithm of the e-value of all days up to this one
    overconfidence_low: float  # confidence sequence of the overconfidence of all rows up to this day
    overconfidence_high: float
    tally: Tally = field(repr=False)  # sums of the labelled rows
    squares: float = field(repr=False)  # sum of squared weights of independent rows or clusters

    @property
    def ece_chance(self) -> ChanceLimit:
        """ECE of a perfectly calibrated model on as many rows."""
        return self._limits[0]

    @property
    def sce_chance(self) -> ChanceLimit:
        """SCE of a perfectly calibrated model on as many rows."""
        return self._limits[1]

    @functools.cached_property
    def _limits(self) -> tuple[ChanceLimit, ChanceLimit]:
        total = float(self.tally.sums().total)
        return tally_limits(self.tally, total**2 / self.squares if self.squares else 0.0)

    @property
    def e_value(self) -> float:
        """E-value of all days up to this one; 1 at the start."""
        return _bounded_exp(self.log_e_value)


@dataclass(frozen=True)
class SubgroupResult:
    """Results of the rows of a subgroup on all checked days; the metrics are NaN without labelled rows."""

    name: str
    rows: int  # number of labelled rows
    unlabelled: int  # number of rows without a label
    accuracy: float
    ece: float
    overconfidence: float
    log_e_value: float  # natural logarithm of the e-value of this subgroup alone
    alarm_threshold: float  # e-value at which this subgroup has an alarm
    ece_chance: ChanceLimit

    @property
    def e_value(self) -> float:
        """E-value of this subgroup alone."""
        return _bounded_exp(self.log_e_value)

    @property
    def alarm(self) -> bool:
        """Whether this subgroup has an alarm; false alarms of all subgroups and all rows share alpha."""
        return self.log_e_value >= math.log(self.alarm_threshold)


@dataclass(frozen=True)
class Drift:
    """Cell with the largest e-value, and its most likely start."""

    since: date  # most likely first day of the drift
    rows: int  # number of rows of the cell since then; effective number with weights or clusters
    prob_pred: float  # mean predicted probability of these rows
    prob_true: float  # observed rate of these rows
    threshold: int | None  # k of the event "grade at most k"; None for the event "top label is right"
    bin: tuple[float, float] | None  # ends of the bin of predicted probabilities; None for all rows
    gap_low: float  # smallest gap (observed minus predicted rate) under the hypothesis
    gap_high: float  # largest gap under the hypothesis
    tables: tuple[FloatArray, FloatArray]  # top-label bins, (3, B), of the rows before that day, and since
    subgroup: str | None = None  # subgroup of the rows; None for all


@dataclass(frozen=True)
class Reference:
    """Reference period."""

    first: date
    last: date
    rows: int  # number of labelled rows
    tally: Tally
    overconfidence_low: float  # confidence interval
    overconfidence_high: float
    missing_subgroups: tuple[str, ...] = ()  # subgroups of the checked days without labelled rows in the reference


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
        period: period of ``periods``: day, week or month.
        subgroups: results of the subgroups, if the log has them.
        columns: options of the log that change the bets: weights, subgroups, clusters.
    """

    days: list[DayResult]
    classes: tuple[str, ...]
    alpha: float
    tolerance: float
    alarm_threshold: float
    reference: Reference | None
    drift: Drift | None
    tally: Tally
    period: str = "day"
    subgroups: list[SubgroupResult] = field(default_factory=list)
    columns: str = ""

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
    def periods(self) -> list[DayResult]:
        """Results of each ``period``; the e-value is that of the last day of the period."""
        if self.period == "day":
            return self.days
        results = []
        for start, group in groupby(self.days, key=lambda day: _period_start(day.day, self.period)):
            days = list(group)
            tally = functools.reduce(Tally.merge, (day.tally for day in days))
            squares, last = sum(day.squares for day in days), days[-1]
            ends = last.log_e_value, last.overconfidence_low, last.overconfidence_high
            results.append(_day_result(start, tally, squares, sum(day.unlabelled for day in days), *ends))
        return results

    @functools.cached_property
    def findings(self) -> list[str]:
        """Findings in sentences, most important first."""
        last, peak = self.days[-1], max(self.days, key=lambda day: day.log_e_value)
        within = f" by more than {100 * self.tolerance:g} points" if self.tolerance else ""
        subgroup = "" if self.drift is None or self.drift.subgroup is None else f" of subgroup {self.drift.subgroup!r}"
        if self.reference is None:
            drifting = f"the probabilities{subgroup} are off{within}"
        else:
            span = f"{self.reference.first} to {self.reference.last}"
            drifting = f"the calibration{subgroup} differs{within} from the reference ({span})"
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
        if self.subgroups and self.reference is not None and self.reference.missing_subgroups:
            missing = ", ".join(self.reference.missing_subgroups)
            findings.append(f"Subgroups without labelled rows in the reference, not checked on their own: {missing}.")
        alarms = [subgroup.name for subgroup in self.subgroups if subgroup.alarm]
        if alarms:
            findings.append(f"Subgroups with an alarm: {', '.join(alarms)}.")
        findings.append(
            f"Overconfidence of all rows: {_points(self.tally.compute()['overconfidence'])} points, "
            f"{100 * (1 - self.alpha):g} % confidence sequence"
            f"{' with each cluster once' if '--cluster' in self.columns else ''} {_points(last.overconfidence_low)} to "
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
        if drift.subgroup is not None:
            cell = f"Subgroup {drift.subgroup!r}, {cell[0].lower() + cell[1:] if drift.threshold is None else cell}"
        effective = "effective " if {"--cluster", "--sample-weight"} & {*self.columns.split(", ")} else ""
        sentence = (
            f"{cell}: mean prediction {predicted}, observed rate {observed} on {drift.rows:,} {effective}rows since "
            f"then; {kind}."
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
            "subgroups": [_plain(part) | {"e_value": part.e_value, "alarm": part.alarm} for part in self.subgroups],
            "days": [_plain_day(day) for day in self.days],
            "period": self.period,
            "periods": [_plain_day(day) for day in self.periods],
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
    period: str | None = None,
) -> Check:
    """Check all days of a log for drift of the calibration, as often as you like.

    The probability that a model without drift ever has an alarm is at most alpha, for any number of checks, and for all
    rows and subgroups together. Drift is relative to the reference period if there is one, else to the predicted
    probabilities.

    Args:
        log: log, or its folder.
        reference: reference period: another log, its folder, or one of its files.
        reference_days: number of days with labelled rows at the start of the log that are the reference period instead;
            they are not checked.
        since: first day to check, such as the first day after a repair of the model.
        alpha: bound on the probability that a log without drift ever has an alarm.
        tolerance: tolerated deviation of the probabilities, as a fraction. By default 0.02 without a reference, because
            no model is perfectly calibrated, and 0 with one, whose uncertainty is accounted for.
        period: period of the results in ``periods``: "day", "week" or "month"; by default the shortest of which there
            are at most 31. It does not change the e-values.

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
    validate_settings(
        alpha=alpha, tolerance=tolerance, reference=reference, reference_days=reference_days, period=period
    )
    if tolerance is None:
        tolerance = TOLERANCE if reference is None and reference_days is None else 0.0
    log = log if isinstance(log, Log) else Log(log)
    if log.path.exists() and not log.path.is_dir():
        raise InputError(f"{log.path}: expected the folder of a log, got a file.")
    days = log.days()
    if not days:
        raise InputError(f"{log.path}: the log has no days; add one with `orcu monitor add`.")
    reference_period = _select_reference(log, days, reference, reference_days)
    days = days if reference_days is None else days[len(reference_period) :]
    if since is not None:
        days = [day for day in days if day.day >= as_day(since, name="since")]
    if not any(day.squares for day in days):
        selected = "" if since is None and reference_days is None else " among the selected days"
        raise InputError(f"{log.path}: no row has a label{selected}; add labelled rows with `orcu monitor add`.")
    return check_days(days, reference=reference_period, alpha=alpha, tolerance=tolerance, period=period)


def check_days(
    days: Sequence[Day], *, reference: Sequence[Day], alpha: float, tolerance: float, period: str | None = None
) -> Check:
    """Check some days that have labelled rows against a reference, which is empty if there is none."""
    populations, weights = _populations(days)
    series = list(_series(days, populations))
    shape = days[0].tally.num_classes, days[0].tally.n_bins
    if reference:
        alarm_threshold = 1 / ((1 - REFERENCE_SHARE) * alpha)
        hypothesis, summary = _reference_hypothesis(reference, populations, weights, tolerance, alpha)
    else:
        alarm_threshold, summary = 1 / alpha, None
        hypothesis = Hypothesis.calibrated(*shape, tolerance=tolerance)
    since_first = np.array([(day.day - days[0].day).days for day in days])
    for part in series:
        part.run(since_first, hypothesis, weights)
    log_e_values = np.max([part.log_e_values(len(days)) for part in series], axis=0).tolist()
    has_alarm = log_e_values[-1] >= math.log(alarm_threshold)
    columns = days[0].columns
    return Check(
        days=_day_results(days, series, log_e_values, alpha),
        classes=days[0].classes,
        alpha=alpha,
        tolerance=tolerance,
        alarm_threshold=alarm_threshold,
        reference=summary,
        drift=_locate_drift(days, series, since_first, populations, weights, hypothesis) if has_alarm else None,
        tally=_merge_tallies(days),
        period=period or _shortest_period([day.day for day in days]),
        subgroups=_subgroup_results(days, series, populations, weights, alarm_threshold),
        columns=columns,
    )


def validate_settings(
    *, alpha: float, tolerance: float | None, reference: Any, reference_days: int | None, period: str | None = None
) -> None:
    """Validate the settings of a check without reading the log; an InputError names the invalid setting."""
    if as_fraction(alpha, name="alpha") == 0:
        raise InputError(f"alpha: expected a number between 0 and 1, such as 0.05, got {alpha!r}.")
    if tolerance is not None:
        as_fraction(tolerance, name="tolerance")
    if reference is not None and reference_days is not None:
        raise InputError("reference, reference_days: give only one of the two.")
    if reference_days is not None:
        as_count(reference_days, name="reference_days", minimum=1)
    if period is not None and period not in PERIODS:
        raise UnknownNameError("period", period, PERIODS)


def format_period(day: date, period: str) -> str:
    """Name of the period that starts on a day: the day itself, for a week its Monday, or the month.

    Example:
        >>> format_period(date(2026, 11, 1), "month"), format_period(date(2026, 11, 2), "week")
        ('2026-11', '2026-11-02')
    """
    return f"{day:%Y-%m}" if period == "month" else day.isoformat()


def format_e_value(day: DayResult | SubgroupResult) -> str:
    """E-value of the days up to this one, as text."""
    if day.log_e_value >= math.log(1e6):
        return power_of_ten(round(day.log_e_value / math.log(10)))
    return f"{day.e_value:.2g}" if day.e_value < 10 else f"{day.e_value:,.0f}"


def _select_reference(log: Log, days: list[Day], reference: Any, n_days: int | None) -> list[Day]:
    """Days of the reference period; empty without one."""
    if n_days is not None:
        labelled = [position for position, day in enumerate(days) if day.tally.rows]
        if len(labelled) <= n_days:
            raise InputError(
                f"{log.path}: no day after the {n_days} reference days, because the log has {len(labelled)} days with "
                "labelled rows; add days, or use fewer."
            )
        selected = days[: labelled[n_days - 1] + 1]
    elif reference is None:
        return []
    else:
        path = reference.path if isinstance(reference, Log) else Path(reference)
        if not path.exists():
            raise InputError(f"{path}: there is no such file or folder.")
        if not path.is_file() and not path.is_dir():
            raise InputError(f"{path}: expected a log or one of its files, got a device or a pipe.")
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


def _bounded_exp(logarithm: float) -> float:
    return math.exp(min(logarithm, math.log(sys.float_info.max)))


def _period_start(day: date, period: str) -> date:
    if period == "month":
        return day.replace(day=1)
    return day - timedelta(days=min(day.weekday(), day.toordinal() - 1)) if period == "week" else day


def _shortest_period(days: Sequence[date]) -> str:
    """Shortest period with at most `MAX_PERIODS` results; months if there are more."""
    counts = {period: len({_period_start(day, period) for day in days}) for period in PERIODS}
    return next((period for period in PERIODS if counts[period] <= MAX_PERIODS), PERIODS[-1])


def _populations(days: Sequence[Day]) -> tuple[list[str], FloatArray]:
    """All rows and the subgroups in the order of their appearance, and their shares of the wealth."""
    names, appearance, position = [ALL_ROWS], [], 0
    for day in days:
        new = sorted(name for name in day.subgroups or () if name not in names)
        names += new
        appearance += [position] * len(new)
        position += bool(new)
    return names, population_weights(appearance)


@dataclass
class _Series:
    """Days of one occasion: sums of each population, (P, C, 3, B), in which every cluster occurs once."""

    share: float  # of alpha
    days: list[int]  # positions among the checked days
    sums: list[FloatArray]
    log_wealth: list[FloatArray] = field(default_factory=list)  # of each day, (P, C, B + 1, bets)
    log_total: FloatArray = field(default_factory=lambda: np.zeros(()))  # wealth of each bet after the last day
    log_populations: FloatArray = field(default_factory=lambda: np.zeros(()))  # e-value of each after each day, (D, P)
    log_combined: list[float] = field(default_factory=list)  # e-value of all populations after each day

    def run(self, since_first: Any, hypothesis: Hypothesis, weights: FloatArray) -> None:
        """Compute the e-values."""
        passed = since_first[self.days]
        shape = self.sums[0].shape
        cells = cell_weights(shape[-3], shape[-1])
        self.log_wealth = [hypothesis.log_wealth(day) for day in self.sums]
        self.log_total = np.full_like(self.log_wealth[0], -np.inf)
        by_day = []
        for day, share, days in zip(self.log_wealth, start_weights(passed), passed, strict=True):
            self.log_total = update_wealth(self.log_total, day, share)
            by_day.append(log_e_value(self.log_total, cells, 1 / (days + 2)))
        self.log_populations = np.array(by_day)
        self.log_combined = np.logaddexp.reduce(self.log_populations + np.log(weights), axis=-1).tolist()

    def log_e_values(self, count: int) -> FloatArray:
        """Logarithm of the e-value of this occasion times its share, after each of the checked days."""
        values = np.full(count, 0.0)  # an e-process that has not started is 1
        for position, value in zip(self.days, self.log_combined, strict=True):
            values[position:] = value
        return values + math.log(self.share)


def _series(days: Sequence[Day], populations: list[str]) -> Iterator[_Series]:
    """Series of each occasion in the order of their appearance; a log without clusters has one."""
    if days[0].clusters is None:
        yield _Series(1.0, [*range(len(days))], [_sums(day, populations, 0) for day in days])
        return
    appearance: dict[int, list[int]] = {}
    for position, day in enumerate(days):
        for occasion in [] if day.bets is None else day.bets.occasions:
            appearance.setdefault(occasion, []).append(position)
    ordered = sorted(appearance.items(), key=lambda item: (item[1][0], item[0]))
    for share, (occasion, positions) in zip(occasion_weights(len(ordered)), ordered, strict=True):
        yield _Series(float(share), positions, [_sums(days[k], populations, occasion) for k in positions])


def _sums(day: Day, populations: list[str], occasion: int) -> FloatArray:
    """Sums of the bets of each population on one day, shape (P, C, 3, B)."""
    if day.bets is None:
        return cell_sums(day.tally)[None]
    shape = day.tally.num_classes, day.tally.n_bins
    return np.stack([day.bets.table(name, occasion, *shape) for name in populations])


def _reference_hypothesis(
    days: Sequence[Day], populations: list[str], weights: FloatArray, tolerance: float, alpha: float
) -> tuple[Hypothesis, Reference]:
    series = [np.sum(part.sums, axis=0) for part in _series(days, populations)]
    # With clusters the intervals use the occasion with most rows, in which every cluster occurs once.
    sums = max(series, key=lambda part: part[0, 0, WEIGHT].sum())
    shares = REFERENCE_SHARE * alpha * weights[:, None, None]
    hypothesis = Hypothesis.from_reference(sums, tolerance=tolerance, alpha=shares)
    low, high = -hypothesis.high[0, 0, -1] + tolerance, -hypothesis.low[0, 0, -1] - tolerance
    tally = _merge_tallies(days)
    missing = tuple(name for name, part in zip(populations, sums, strict=True) if not part[0, WEIGHT].sum())
    return hypothesis, Reference(days[0].day, days[-1].day, tally.rows, tally, float(low), float(high), missing)


def _locate_drift(
    days: Sequence[Day],
    series: list[_Series],
    since_first: Any,
    populations: list[str],
    weights: FloatArray,
    hypothesis: Hypothesis,
) -> Drift:
    """Cell with the largest share of the e-value, and start with the largest share of the cell's wealth."""
    part = max(series, key=lambda part: part.log_combined[-1] + math.log(part.share))
    num_classes, n_bins = part.sums[0].shape[1], part.sums[0].shape[3]
    cells = np.logaddexp.reduce(part.log_total, axis=-1) + np.log(cell_weights(num_classes, n_bins))
    cells = cells + np.log(weights)[:, None, None]
    largest = np.unravel_index(int(cells.argmax()), cells.shape)
    population, event, column = (int(index) for index in largest)
    logs = np.array([day[largest] for day in part.log_wealth])
    from_day = logs[::-1].cumsum(axis=0)[::-1]
    shares = start_weights(since_first[part.days])
    start = int((np.logaddexp.reduce(from_day, axis=-1) + np.log(shares)).argmax())
    bins = slice(None) if column == n_bins else slice(column, column + 1)
    first, name = part.days[start], populations[population]
    # One occasion of the clusters gave the alarm; the rates are those of all rows since then.
    since = [sums for each in series for day, sums in zip(each.days, each.sums, strict=True) if day >= first]
    totals = np.sum(since, axis=0)[population, event][:, bins].sum(-1)
    count, predicted, observed = totals[[WEIGHT, VALUE, OUTCOME]]
    low, high = (np.broadcast_to(ends, cells.shape)[largest] for ends in (hypothesis.low, hypothesis.high))
    return Drift(
        since=days[first].day,
        rows=round(float(count)),
        prob_pred=float(predicted / count),
        prob_true=float(observed / count),
        threshold=None if event == 0 else event - 1,
        bin=None if column == n_bins else (column / n_bins, (column + 1) / n_bins),
        gap_low=float(low),
        gap_high=float(high),
        tables=(_top_table(days[:first], name, n_bins), _top_table(days[first:], name, n_bins)),
        subgroup=name or None,
    )


def _top_table(days: Sequence[Day], population: str, n_bins: int) -> FloatArray:
    """Top-label bins of the rows of a population, shape (3, B)."""
    if not population:
        return sum((day.tally.sums().top for day in days), np.zeros((3, n_bins)))
    parts = (day.subgroups[population] for day in days if day.subgroups and population in day.subgroups)
    return sum((part.top for part in parts), np.zeros((3, n_bins)))


def _day_result(
    day: date, tally: Tally, squares: float, unlabelled: int, log_e: float, low: float, high: float
) -> DayResult:
    metrics = tally.compute() if tally.rows else dict.fromkeys(DAY_METRICS, math.nan)
    accuracy, ece, sce, gap = (metrics[name] for name in DAY_METRICS)
    return DayResult(day, tally.rows, unlabelled, accuracy, ece, sce, gap, log_e, low, high, tally, squares)


def _day_results(
    days: Sequence[Day], series: list[_Series], log_e_values: list[float], alpha: float
) -> list[DayResult]:
    top = np.zeros((len(series), len(days), 3))  # sums of all rows up to each day, by occasion
    for part, sums in zip(series, top, strict=True):
        sums[part.days] = [day[0, 0].sum(-1) for day in part.sums]
    top = top.cumsum(axis=1)
    # With clusters each day shows the interval of the occasion with most rows so far, with its share of alpha.
    best = top[:, :, WEIGHT].argmax(axis=0)
    count, predicted, observed = top[best, np.arange(len(days))].T
    low, high = gap_interval(count, predicted, observed, alpha * np.array([part.share for part in series])[best])
    ends = zip(log_e_values, (-high).tolist(), (-low).tolist(), strict=True)
    return [
        _day_result(day.day, day.tally, day.squares, day.unlabelled, *values)
        for day, values in zip(days, ends, strict=True)
    ]


def _subgroup_results(
    days: Sequence[Day], series: list[_Series], populations: list[str], weights: FloatArray, alarm_threshold: float
) -> list[SubgroupResult]:
    logs = np.max([part.log_populations[-1] + math.log(part.share) for part in series], axis=0)
    # Share of the rows that count as independent, which is 1 without weights and clusters.
    independent = sum(day.effective_rows for day in days) / sum(day.tally.rows for day in days)
    results = []
    for name, log_e, weight in sorted(zip(populations, logs, weights, strict=True)):
        if name == ALL_ROWS:
            continue
        parts = [day.subgroups[name] for day in days if day.subgroups and name in day.subgroups]
        table = np.sum([part.top for part in parts], axis=0)
        count, predicted, observed = table.sum(-1)
        rows = sum(part.rows for part in parts)
        results.append(
            SubgroupResult(
                name=name,
                rows=rows,
                unlabelled=sum(part.unlabelled for part in parts),
                accuracy=float(observed / count) if count else math.nan,
                ece=float(np.abs(table[OUTCOME] - table[VALUE]).sum() / count) if count else math.nan,
                overconfidence=float((predicted - observed) / count) if count else math.nan,
                log_e_value=float(log_e),
                alarm_threshold=alarm_threshold / float(weight),
                ece_chance=chance_limit(table[None], independent * rows),
            )
        )
    return results


def _merge_tallies(days: Sequence[Day]) -> Tally:
    return functools.reduce(Tally.merge, (day.tally for day in days))


def _plain_day(day: DayResult) -> dict[str, Any]:
    limits = {f"{name}_chance": getattr(day, f"{name}_chance") for name in ("ece", "sce")}
    return _plain(day, **limits) | {"e_value": day.e_value}


def _plain(record: DayResult | SubgroupResult | Drift | Reference, **limits: ChanceLimit) -> dict[str, Any]:
    """Fields of a result and limits for JSON, without sums."""
    state: dict[str, Any] = {}
    for name, value in (vars(record) | limits).items():
        if isinstance(value, ChanceLimit):
            state[f"{name}_expected"], state[f"{name}_limit"] = value.expected, value.limit
        elif name not in ("tally", "tables", "squares", "_limits"):
            state[name] = value.isoformat() if isinstance(value, date) else value
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in state.items()}


def _points(fraction: float) -> str:
    return f"{100 * fraction:+.1f}"
