"""False-alarm rate of `orcu monitor check` in a year of daily checks, and its detection delay.

    python benchmarks/monitoring.py [--years 200] [--rows 100]

A simulated model of five grades predicts a hundred rows a day. Labels are drawn from its probabilities, or with some
points of probability moved from the most probable grade to its neighbours, which is over-confidence by as many points.
Every day of a year is checked: with the labels of all rows, or with delayed labels (half of them at once, the others
after one, two or four weeks). The reference period is sixty days before the year, drawn again for each year. For
comparison, a test of over-confidence at 5 % uses each day's rows alone.

Detection delays are medians over half as many years, without years with an earlier alarm; in brackets the share of
years in which the drift is detected before the end of the year; a dash if that is less than half.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from orcu.inputs import FloatArray
from orcu.metrics.binning import bin_index
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT
from orcu.monitoring.check import REFERENCE_SHARE
from orcu.monitoring.e_process import Hypothesis, cell_weights, log_e_value, start_weights, update_wealth
from orcu.report.text_tables import markdown

CLASSES, BINS, DAYS, ALPHA = 5, 15, 365, 0.05
REFERENCE_DAYS = 60
DELAYS = (0, 7, 14, 28)  # days; half of the labels have no delay
CHUNK = 50  # years that are simulated at once


@dataclass(frozen=True)
class Model:
    """Predictions of many rows, and their bins in the tables of the predicted class and of the thresholds."""

    probs: FloatArray  # (n, C)
    values: FloatArray  # (C, n)
    bins: FloatArray  # (C, n)

    @classmethod
    def draw(cls, rng: np.random.Generator, rows: int = 50_000) -> "Model":
        """Draw rows of an ordinal model."""
        logits = -((np.arange(CLASSES) - rng.normal(2, 1.6, size=(rows, 1))) ** 2) / 1.5
        probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        values = np.concatenate([probs.max(1)[None], probs.cumsum(1).T[:-1]]).clip(0, 1)
        return cls(probs, values, np.array([bin_index(column, BINS) for column in values]))

    def truth(self, points: float) -> FloatArray:
        """Cumulative label distributions for which the model is over-confident by ``points`` percentage points."""
        top = self.probs.argmax(1)
        moved = self.probs.copy()
        rows = np.arange(len(top))
        moved[rows, top] -= points / 100
        for side in (-1, 1):
            inside = np.clip(top + side, 0, CLASSES - 1)
            other = np.where(inside == top, top - side, inside)  # the lowest and highest class have one neighbour
            moved[rows, other] += points / 200
        return moved.cumsum(1)[:, :-1]

    def day(self, rng: np.random.Generator, truth: FloatArray, years: int, rows: int) -> FloatArray:
        """Sums of a day's rows in several years, shape (years, C, 3, B)."""
        row = rng.integers(len(self.probs), size=years * rows)
        y = (rng.random(len(row))[:, None] > truth[row]).sum(1)
        true = np.concatenate([(y == self.probs.argmax(1)[row])[None], y <= np.arange(CLASSES - 1)[:, None]])
        year = np.repeat(np.arange(years), rows)
        sums = np.empty((years, CLASSES, 3, BINS))
        for table in range(CLASSES):
            cell = year * BINS + self.bins[table][row]
            for part, weights in ((WEIGHT, None), (VALUE, self.values[table][row]), (OUTCOME, true[table])):
                sums[:, table, part] = np.bincount(cell, weights, years * BINS).reshape(years, BINS)
        return sums


def daily_log_e_values(
    hypothesis: Hypothesis, days: Iterator[list[FloatArray]], delays: tuple[int, ...], years: int
) -> Iterator[FloatArray]:
    """Log e-value of each day's check, shape (years,); each day is a list of the parts of its labels by delay."""
    weights, shares = cell_weights(CLASSES, BINS), start_weights(np.arange(DAYS))
    complete = np.full((years, CLASSES, BINS + 1, 16), -np.inf)  # wealth of all days with complete labels
    open_days: list[tuple[list[FloatArray], FloatArray, FloatArray]] = []  # parts, received labels, log wealth
    for today, parts in enumerate(days):
        open_days.append((parts, np.zeros_like(parts[0]), np.zeros(())))
        for position, (parts_, received, _) in enumerate(open_days):
            age = len(open_days) - 1 - position
            if age in delays:
                received = received + parts_[delays.index(age)]
                open_days[position] = (parts_, received, hypothesis.log_wealth(received))
        wealth = complete
        for position, (_, _, log_wealth) in enumerate(open_days):
            day = today - (len(open_days) - 1 - position)
            wealth = update_wealth(wealth, log_wealth, shares[day])
            if position == 0 and len(open_days) > delays[-1]:
                complete = wealth
        if len(open_days) > delays[-1]:
            open_days.pop(0)
        yield log_e_value(wealth, weights, 1 / (today + 2))


def first_alarms(
    model: Model,
    *,
    years: int,
    rows: int,
    tolerance: float,
    before: float = 0.0,
    after: float = 0.0,
    drift_day: int = DAYS,
    reference: bool = False,
    late: bool = False,
    seed: int = 0,
) -> tuple[FloatArray, float]:
    """Day of each year's first alarm (infinite without one), and the share of years with an alarm of the daily test."""
    truths = model.truth(before), model.truth(after)
    delays = DELAYS if late else (0,)
    shares = [0.5, *[0.5 / (len(DELAYS) - 1)] * (len(DELAYS) - 1)] if late else [1.0]
    first, naive = [], []
    for chunk in range(0, years, CHUNK):
        rng = np.random.default_rng([seed, chunk])
        count = min(CHUNK, years - chunk)
        hypothesis, limit = Hypothesis.calibrated(CLASSES, BINS, tolerance=tolerance), 1 / ALPHA
        if reference:
            period = model.day(rng, truths[0], count, rows * REFERENCE_DAYS)
            hypothesis = Hypothesis.from_reference(period, tolerance=tolerance, alpha=REFERENCE_SHARE * ALPHA)
            limit = 1 / ((1 - REFERENCE_SHARE) * ALPHA)
        alarm, daily = np.full(count, np.inf), np.zeros(count, dtype=bool)

        def year(rng: np.random.Generator = rng, count: int = count, daily: FloatArray = daily) -> Iterator:
            for day in range(DAYS):
                truth = truths[int(day >= drift_day)]
                parts = [model.day(rng, truth, count, max(1, round(rows * share))) for share in shares]
                top = np.sum(parts, axis=0)[:, 0]
                mean = top[:, VALUE] / np.maximum(top[:, WEIGHT], 1)
                spread = np.sqrt((top[:, WEIGHT] * mean * (1 - mean)).sum(-1))
                daily |= np.abs((top[:, OUTCOME] - top[:, VALUE]).sum(-1)) > 1.96 * spread
                yield parts

        for day, logs in enumerate(daily_log_e_values(hypothesis, year(), delays, count)):
            alarm = np.where((logs >= np.log(limit)) & np.isinf(alarm), day, alarm)
        first.append(alarm)
        naive.append(daily)
    return np.concatenate(first), float(np.concatenate(naive).mean())


def share(values: FloatArray) -> str:
    """Share of years in percent."""
    return f"{100 * float(np.mean(values)):.1f} %"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--years", type=int, default=200)
    parser.add_argument("--rows", type=int, default=100)
    options = parser.parse_args()
    model = Model.draw(np.random.default_rng(7))
    many = {"years": options.years, "rows": options.rows}
    few = {"years": -(-options.years // 2), "rows": options.rows}

    cases = [
        ("calibrated", "perfect calibration, tolerance 0", {"tolerance": 0.0}),
        ("calibrated", "perfect calibration, tolerance 2 points", {"tolerance": 0.02}),
        ("2 points over-confident", "perfect calibration, tolerance 2 points", {"tolerance": 0.02, "before": 2.0}),
        ("calibrated, late labels", "perfect calibration, tolerance 0", {"tolerance": 0.0, "late": True}),
        (
            "5 points over-confident",
            "previous 60 days, tolerance 0",
            {"tolerance": 0.0, "before": 5.0, "reference": True},
        ),
        (
            "5 points over-confident, late labels",
            "previous 60 days, tolerance 0",
            {"tolerance": 0.0, "before": 5.0, "reference": True, "late": True},
        ),
    ]
    rows = []
    for name, null, case in cases:
        alarms, naive = first_alarms(model, **many, **case)
        rows.append([name, null, share(np.isfinite(alarms)), "–" if case.get("before") else share(np.array(naive))])
    headings = ["model", "null hypothesis", "years with an alarm", "years with an alarm of the daily test at 5 %"]
    print(markdown(headings, rows, "llrr"))

    rows = []
    for null, setting in (
        ("perfect calibration, tolerance 0", {"tolerance": 0.0}),
        ("perfect calibration, tolerance 2 points", {"tolerance": 0.02}),
        ("previous 60 days, tolerance 0", {"tolerance": 0.0, "reference": True}),
        ("previous 60 days, tolerance 2 points", {"tolerance": 0.02, "reference": True}),
    ):
        for start in (0, 180):
            cells = []
            for points in (3.0, 5.0, 10.0):
                alarms, _ = first_alarms(model, **few, **setting, after=points, drift_day=start)
                delays = alarms[alarms >= start] - start + 1
                middle = float(np.median(delays))
                cells.append(f"{middle:.0f} ({share(np.isfinite(delays))})" if np.isfinite(middle) else "–")
            rows.append([null, f"day {start + 1}", *cells])
    headings = ["null hypothesis", "start of the drift", "3 points", "5 points", "10 points"]
    print(markdown(headings, rows, "llrrr"))


if __name__ == "__main__":
    main()
