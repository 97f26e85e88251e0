"""Look at a log: has the calibration drifted, since when, and where?"""

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
from orcu.evaluation.printed import shown
from orcu.evaluation.tally import Tally
from orcu.figures.panels.monitoring import power
from orcu.inputs import FloatArray, as_count, as_fraction
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT
from orcu.monitoring.evidence import Hypothesis, cell_weights, enter, gap_interval, log_evidence, start_weights, tables
from orcu.monitoring.log import Day, Log, as_day, need_alike, read_day

REFERENCE_SHARE = 0.2  # of alpha: for intervals of the reference that miss
TOLERANCE = 0.02  # against what the model says
SHOWN = ("accuracy", "ece", "sce", "overconfidence")


@dataclass(frozen=True)
class DayResult:
    """One day, as the log knows it today.

    Attributes:
        day: of the predictions.
        rows: that have a label.
        waiting: that have none yet.
        accuracy: as a fraction; not a number without labelled rows, as the next three.
        ece: expected calibration error.
        sce: class-wise calibration error.
        overconfidence: confidence minus accuracy.
        log_evidence: the natural logarithm of the evidence of all days up to this one.
        low: the lower end of the over-confidence of all rows up to this day, that holds at all looks at once.
        high: the upper end.
    """

    day: date
    rows: int
    waiting: int
    accuracy: float
    ece: float
    sce: float
    overconfidence: float
    log_evidence: float
    low: float
    high: float

    @property
    def evidence(self) -> float:
        """The evidence of all days up to this one: 1 at the start."""
        return math.exp(min(self.log_evidence, math.log(sys.float_info.max)))


@dataclass(frozen=True)
class Drift:
    """Where the evidence is largest.

    Attributes:
        since: the day with which it most likely began.
        rows: of the cell since then.
        said: the mean of what was said of them.
        true: the share that came true.
        threshold: k of the event that the grade is at most k; ``None`` for the event that the top label is right.
        bin: the ends of the bin of what was said; ``None`` for all rows.
        low: the least that the share may lie above the mean, by the hypothesis.
        high: the most.
        tallies: of all rows before that day, and since.
    """

    since: date
    rows: int
    said: float
    true: float
    threshold: int | None
    bin: tuple[float, float] | None
    low: float
    high: float
    tallies: tuple[Tally, Tally]


@dataclass(frozen=True)
class Reference:
    """The period with which days are compared.

    Attributes:
        first: its first day.
        last: its last day.
        rows: labelled ones.
        tally: of them.
        low: the lower end of its over-confidence, by what its rows can tell.
        high: the upper end.
    """

    first: date
    last: date
    rows: int
    tally: Tally
    low: float
    high: float


@dataclass(frozen=True)
class Check:
    """What a look at a log says.

    Attributes:
        days: that were looked at, in order.
        classes: names of the classes, lowest first.
        alpha: the probability of ever raising a false alarm.
        tolerance: how far probabilities may be off without counting as evidence.
        limit: the evidence at which there is an alarm.
        reference: what the days are compared with; ``None`` if with what was said itself.
        drift: where the evidence is; ``None`` without an alarm.
        tally: of all rows that were looked at.
    """

    days: list[DayResult]
    classes: tuple[str, ...]
    alpha: float
    tolerance: float
    limit: float
    reference: Reference | None
    drift: Drift | None
    tally: Tally

    @property
    def evidence(self) -> float:
        """Of all days: what an alarm is decided by."""
        return self.days[-1].evidence

    @property
    def alarm(self) -> bool:
        """Whether the evidence has reached the limit."""
        return self.drift is not None

    @functools.cached_property
    def sentences(self) -> list[str]:
        """What there is to say, most important first."""
        last = self.days[-1]
        waiting = sum(day.waiting for day in self.days)
        span = f"{self.days[0].day} to {last.day}" if len(self.days) > 1 else f"{last.day}"
        sentences = [*(self._alarm() if self.alarm else self._calm())]
        peak = max(self.days, key=lambda day: day.log_evidence)
        if not self.alarm and peak.evidence >= self.limit:
            sentences.append(
                f"By the labels known today the evidence of the days up to {peak.day} was {shown_evidence(peak)}, "
                "above the limit, and it has fallen since: look at what happened then."
            )
        sentences.append(
            f"Over-confidence of all rows so far: {_points(self.tally.compute()['overconfidence'])} points, between "
            f"{_points(last.low)} and {_points(last.high)} ({100 * (1 - self.alpha):g} %, at all looks at once)."
        )
        late = f"; {waiting:,} more wait for their label" if waiting else ""
        sentences.append(f"{span}: {self.tally.rows:,} labelled rows{late}.")
        return sentences

    def _calm(self) -> list[str]:
        return [
            f"No alarm: the evidence that {self._drifting()} is {shown_evidence(self.days[-1])}, and an alarm needs "
            f"{self.limit:g}."
        ]

    def _drifting(self) -> str:
        within = f" by more than {100 * self.tolerance:g} points" if self.tolerance else ""
        if self.reference is None:
            return f"the probabilities are off{within}"
        since = f"{self.reference.first} to {self.reference.last}"
        return f"the calibration differs{within} from that of the reference ({since})"

    def _alarm(self) -> list[str]:
        drift = self.drift
        assert drift is not None  # noqa: S101 - there is an alarm
        said, true = shown(drift.said, percent=True), shown(drift.true, percent=True)
        points = f"{100 * abs(drift.said - drift.true):.1f} points"
        rows = f"{drift.rows:,} rows since then"
        if drift.threshold is None:
            which = "All rows" if drift.bin is None else f"Rows of a confidence of {_percents(drift.bin)}"
            kind = "too sure" if drift.said > drift.true else "not sure enough"
            where = (
                f"{which}: it says {said} on average and is right {true} of the time on the {rows}, {points} {kind}."
            )
        else:
            event = f"P(at most {self.classes[drift.threshold]})"
            which = event if drift.bin is None else f"{event} of {_percents(drift.bin)}"
            kind = "higher" if drift.said > drift.true else "lower"
            where = (
                f"{which}: it says {said} on average and {true} came true on the {rows}: grades are {kind} than it "
                f"says, by {points}."
            )
        if self.reference is not None:
            low, high = self.tolerance - drift.high, -self.tolerance - drift.low
            where += f" In the reference it said {_points(low)} to {_points(high)} points more than came true."
        return [
            f"ALARM: {self._drifting()}, most likely since {drift.since}. The evidence is "
            f"{shown_evidence(self.days[-1])}, and an alarm needs {self.limit:g}.",
            where,
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, fit for JSON; what is not a number is ``None``."""
        reference, drift = self.reference, self.drift
        return {
            "alarm": self.alarm,
            "evidence": self.evidence,
            "limit": self.limit,
            "alpha": self.alpha,
            "tolerance": self.tolerance,
            "classes": list(self.classes),
            "reference": None
            if reference is None
            else {
                "first": reference.first.isoformat(),
                "last": reference.last.isoformat(),
                "rows": reference.rows,
                "overconfidence": [reference.low, reference.high],
            },
            "drift": None
            if drift is None
            else {
                "since": drift.since.isoformat(),
                "event": "top label is right"
                if drift.threshold is None
                else f"at most {self.classes[drift.threshold]}",
                "bin": None if drift.bin is None else list(drift.bin),
                "rows": drift.rows,
                "said": drift.said,
                "true": drift.true,
            },
            "sentences": self.sentences,
            "days": [
                {
                    "day": day.day.isoformat(),
                    "rows": day.rows,
                    "waiting": day.waiting,
                    **{name: _or_none(getattr(day, name)) for name in SHOWN},
                    "evidence": day.evidence,
                    "log_evidence": day.log_evidence,
                    "overconfidence_so_far": [day.low, day.high],
                }
                for day in self.days
            ],
        }

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def check(
    log: Log | str | os.PathLike[str],
    *,
    reference: Log | str | os.PathLike[str] | None = None,
    reference_days: int | None = None,
    since: Any = None,
    alpha: float = 0.05,
    tolerance: float | None = None,
) -> Check:
    """Look at all days of a log; look as often as you like.

    However many looks are taken, the probability that a model without drift ever raises an alarm is at most alpha.
    Drift is against the reference where there is one, else against what the model says.

    Args:
        log: the log, or its folder.
        reference: another log, or its folder, or one of its files: the period with which days are compared.
        reference_days: in its place, so many days from the log's first; they are then not looked at.
        since: only days from this one on count, such as the first after the model was mended.
        alpha: the probability of ever raising a false alarm.
        tolerance: how far probabilities may be off, as a fraction, without counting as evidence; by default 0.02
            against what the model says, for no model is right to the last point, and 0 against a reference, whose own
            uncertainty is allowed for anyway.

    Raises:
        InputError: if a number is out of range, the log has no labelled rows, or the reference does not fit it.

    Example:
        >>> import tempfile
        >>> from orcu import Predictions
        >>> log = Log(tempfile.mkdtemp())
        >>> probs = [[0.9, 0.1]] * 100
        >>> for day in range(1, 8):  # it is right on 60 rows of a hundred, and says 90 %
        ...     _ = log.add(f"2026-11-0{day}", Predictions(probs=probs, y=[0] * 60 + [1] * 40))
        >>> result = check(log)
        >>> result.alarm, str(result.drift.since)
        (True, '2026-11-01')
    """
    need_settings(alpha=alpha, tolerance=tolerance, reference=reference, reference_days=reference_days)
    if tolerance is None:
        tolerance = TOLERANCE if reference is None and reference_days is None else 0.0
    log = log if isinstance(log, Log) else Log(log)
    days = log.days()
    if not days:
        raise InputError(f"{log.path}: the log has no day yet; add one with `orcu monitor add`.")
    kept = _reference_days(log, days, reference, reference_days)
    days = days if reference_days is None else days[len(kept) :]
    if since is not None:
        days = [day for day in days if day.day >= as_day(since, name="since")]
    if not sum(day.tally.rows for day in days):
        after = "" if since is None and reference_days is None else " among the days that count"
        raise InputError(f"{log.path}: no row has a label yet{after}; add some with `orcu monitor add`.")
    limit, hypothesis, compared = 1 / alpha, None, None
    if kept:
        limit = 1 / ((1 - REFERENCE_SHARE) * alpha)
        hypothesis, compared = _compared(kept, tolerance, alpha)
    sums = [tables(day.tally) for day in days]
    if hypothesis is None:
        hypothesis = Hypothesis.trustworthy(*_size(sums[0]), tolerance=tolerance)
    trail, wealth = _trail(days, sums, hypothesis)
    drift = _drift(days, sums, hypothesis, wealth) if trail[-1] >= math.log(limit) else None
    return Check(
        days=_results(days, sums, trail, alpha),
        classes=days[0].classes,
        alpha=alpha,
        tolerance=tolerance,
        limit=limit,
        reference=compared,
        drift=drift,
        tally=_merged(days),
    )


def need_settings(*, alpha: float, tolerance: float | None, reference: Any, reference_days: int | None) -> None:
    """Refuse settings that cannot be used, whatever the log holds.

    Raises:
        InputError: which names the setting.
    """
    if as_fraction(alpha, name="alpha") == 0:
        raise InputError(f"alpha: expected a number between 0 and 1, such as 0.05, got {alpha!r}.")
    if tolerance is not None:
        as_fraction(tolerance, name="tolerance")
    if reference is not None and reference_days is not None:
        raise InputError("reference, reference_days: give only one of the two.")
    if reference_days is not None:
        as_count(reference_days, name="reference_days", minimum=1)


def shown_evidence(day: DayResult) -> str:
    """The evidence of the days up to one, as it is printed.

    Example:
        >>> day = DayResult(date(2026, 11, 1), 9, 0, 0.9, 0.1, 0.1, 0.0, math.log(1234.4), -0.1, 0.1)
        >>> shown_evidence(day)
        '1,234'
    """
    if day.log_evidence >= math.log(1e6):
        return power(round(day.log_evidence / math.log(10)))
    return f"{day.evidence:.2g}" if day.evidence < 10 else f"{day.evidence:,.0f}"


def _reference_days(log: Log, days: list[Day], reference: Any, count: int | None) -> list[Day]:
    """The days of the reference; none if there is none."""
    if count is not None:
        end = days[0].day + timedelta(days=count)
        kept = [day for day in days if day.day < end]
        if len(kept) == len(days):
            raise InputError(f"{log.path}: no day after the {count} reference days, which end before {end}; wait.")
    elif reference is None:
        return []
    else:
        path = reference.path if isinstance(reference, Log) else Path(reference)
        if not path.exists():
            raise InputError(f"{path}: there is no such file or folder.")
        if path.resolve() == log.path.resolve() or path.resolve().parent == log.path.resolve():
            raise InputError(
                f"{path}: the reference lies in the log itself, so its rows would be compared with themselves; take "
                "the log's first days as the reference (--reference-days 30), or another log."
            )
        kept = [read_day(path)] if path.is_file() else Log(path).days()
        for day in kept:
            try:
                need_alike(days[0], day)
            except InputError as error:
                raise InputError(f"reference {path}: {error}") from None
    if not sum(day.tally.rows for day in kept):
        raise InputError("reference: no row has a label; add some, or choose another.")
    return kept


def _compared(kept: list[Day], tolerance: float, alpha: float) -> tuple[Hypothesis, Reference]:
    tally = _merged(kept)
    hypothesis = Hypothesis.as_in(tables(tally), tolerance=tolerance, miss=REFERENCE_SHARE * alpha)
    low, high = -hypothesis.high[0, -1] + tolerance, -hypothesis.low[0, -1] - tolerance
    return hypothesis, Reference(kept[0].day, kept[-1].day, tally.rows, tally, float(low), float(high))


def _trail(days: list[Day], sums: list[FloatArray], hypothesis: Hypothesis) -> tuple[list[float], FloatArray]:
    """The logarithm of the evidence after each day, and of each bet's wealth after the last."""
    since_first = np.array([(day.day - days[0].day).days for day in days])
    weights = cell_weights(*_size(sums[0]))
    wealth = np.full_like(hypothesis.log_capital(sums[0]), -np.inf)
    trail = []
    for day, share, passed in zip(sums, start_weights(since_first), since_first, strict=True):
        wealth = enter(wealth, hypothesis.log_capital(day), share)
        trail.append(float(log_evidence(wealth, weights, 1 / (passed + 2))))
    return trail, wealth


def _drift(days: list[Day], sums: list[FloatArray], hypothesis: Hypothesis, wealth: FloatArray) -> Drift:
    """The cell with the largest part of the evidence, and the start with the largest part of the cell's."""
    num_classes, bins = _size(sums[0])
    cells = np.logaddexp.reduce(wealth, axis=-1) + np.log(cell_weights(num_classes, bins))
    table, column = (int(place) for place in np.unravel_index(int(cells.argmax()), cells.shape))
    logs = np.array([hypothesis.log_capital(day)[table, column] for day in sums])
    from_day = logs[::-1].cumsum(axis=0)[::-1]
    shares = start_weights(np.array([(day.day - days[0].day).days for day in days]))
    start = int((np.logaddexp.reduce(from_day, axis=-1) + np.log(shares)).argmax())
    which = slice(None) if column == bins else slice(column, column + 1)
    count, said, true = np.sum(sums[start:], axis=0)[table][:, which].sum(-1)[[WEIGHT, VALUE, OUTCOME]]
    return Drift(
        since=days[start].day,
        rows=int(count),
        said=float(said / count),
        true=float(true / count),
        threshold=None if table == 0 else table - 1,
        bin=None if column == bins else (column / bins, (column + 1) / bins),
        low=float(hypothesis.low[table, column]),
        high=float(hypothesis.high[table, column]),
        tallies=(_merged(days[:start]) if start else Tally(num_classes, bins=bins), _merged(days[start:])),
    )


def _results(days: list[Day], sums: list[FloatArray], trail: list[float], alpha: float) -> list[DayResult]:
    top = np.cumsum([day[0].sum(-1) for day in sums], axis=0)
    low, high = gap_interval(top[:, WEIGHT], top[:, VALUE], top[:, OUTCOME], alpha)
    results = []
    for day, log_wealth, least, most in zip(days, trail, -high, -low, strict=True):
        values = day.tally.compute() if day.tally.rows else dict.fromkeys(SHOWN, math.nan)
        figures = {name: values[name] for name in SHOWN}
        results.append(
            DayResult(
                day.day,
                day.tally.rows,
                day.waiting,
                **figures,
                log_evidence=log_wealth,
                low=float(least),
                high=float(most),
            )
        )
    return results


def _size(sums: FloatArray) -> tuple[int, int]:
    """Classes and bins."""
    return sums.shape[0], sums.shape[2]


def _merged(days: list[Day]) -> Tally:
    return functools.reduce(Tally.merge, (day.tally for day in days))


def _percents(ends: tuple[float, float]) -> str:
    return f"{100 * ends[0]:.0f} to {100 * ends[1]:.0f} %"


def _points(fraction: float) -> str:
    return f"{100 * fraction:+.1f}"


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
