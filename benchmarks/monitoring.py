"""How often `orcu monitor check` raises a false alarm in a year of daily looks, and how soon it sees a drift.

    python benchmarks/monitoring.py [--years 200] [--rows 100]

A simulated model of five grades says probabilities of a hundred rows a day; labels are drawn from these, or from these
with so many points of probability moved from the most likely grade to its neighbours, which is over-confidence by as
many points. Every day of a year is a look: with the labels of all rows so far, or with those that have come, where half
of them come at once and the others one, two or four weeks later. The reference is sixty days before the year, drawn
anew for each year. Beside it: a test of over-confidence at 5 % of each day's rows alone.

Delays are medians over half as many years without an earlier alarm, in brackets the share of them in which the drift is
seen before the year ends; a dash where that is less than half.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from orcu.inputs import FloatArray
from orcu.io.text import markdown
from orcu.metrics.binning import bin_index
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT
from orcu.monitoring.check import REFERENCE_SHARE
from orcu.monitoring.evidence import Hypothesis, cell_weights, enter, log_evidence, start_weights

CLASSES, BINS, DAYS, ALPHA = 5, 15, 365, 0.05
REFERENCE_DAYS = 60
DELAYS = (0, 7, 14, 28)  # days; half of the labels come at once
TOGETHER = 50  # years


@dataclass(frozen=True)
class Model:
    """Many rows of what a model says, and where each stands in the tables of the top label and of the thresholds."""

    probs: FloatArray  # (n, C)
    values: FloatArray  # (C, n)
    place: FloatArray  # (C, n)

    @classmethod
    def draw(cls, rng: np.random.Generator, rows: int = 50_000) -> "Model":
        """Rows of an ordinal model."""
        logits = -((np.arange(CLASSES) - rng.normal(2, 1.6, size=(rows, 1))) ** 2) / 1.5
        probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        values = np.concatenate([probs.max(1)[None], probs.cumsum(1).T[:-1]]).clip(0, 1)
        return cls(probs, values, np.array([bin_index(column, BINS) for column in values]))

    def truth(self, points: float) -> FloatArray:
        """The cumulative distributions of labels of which the model is over-confident by so many points."""
        top = self.probs.argmax(1)
        moved = self.probs.copy()
        rows = np.arange(len(top))
        moved[rows, top] -= points / 100
        for side in (-1, 1):
            inside = np.clip(top + side, 0, CLASSES - 1)
            other = np.where(inside == top, top - side, inside)  # at an end both halves go to the one neighbour
            moved[rows, other] += points / 200
        return moved.cumsum(1)[:, :-1]

    def day(self, rng: np.random.Generator, truth: FloatArray, years: int, rows: int) -> FloatArray:
        """The sums of a day's rows in each of several years, shape (years, C, 3, B)."""
        row = rng.integers(len(self.probs), size=years * rows)
        y = (rng.random(len(row))[:, None] > truth[row]).sum(1)
        true = np.concatenate([(y == self.probs.argmax(1)[row])[None], y <= np.arange(CLASSES - 1)[:, None]])
        year = np.repeat(np.arange(years), rows)
        sums = np.empty((years, CLASSES, 3, BINS))
        for table in range(CLASSES):
            place = year * BINS + self.place[table][row]
            for part, weights in ((WEIGHT, None), (VALUE, self.values[table][row]), (OUTCOME, true[table])):
                sums[:, table, part] = np.bincount(place, weights, years * BINS).reshape(years, BINS)
        return sums


def looks(
    hypothesis: Hypothesis, days: Iterator[list[FloatArray]], delays: tuple[int, ...], years: int
) -> Iterator[FloatArray]:
    """The logarithm of the evidence at each day's look, shape (years,); each day comes as what its delays bring."""
    weights, shares = cell_weights(CLASSES, BINS), start_weights(np.arange(DAYS))
    settled = np.full((years, CLASSES, BINS + 1, 16), -np.inf)  # the wealth of all days whose labels have come
    open_days: list[tuple[list[FloatArray], FloatArray, FloatArray]] = []  # what will come, what has, its capital
    for today, parts in enumerate(days):
        open_days.append((parts, np.zeros_like(parts[0]), np.zeros(())))
        for place, (coming, come, _) in enumerate(open_days):
            age = len(open_days) - 1 - place
            if age in delays:
                come = come + coming[delays.index(age)]
                open_days[place] = (coming, come, hypothesis.log_capital(come))
        wealth = settled
        for place, (_, _, capital) in enumerate(open_days):
            day = today - (len(open_days) - 1 - place)
            wealth = enter(wealth, capital, shares[day])
            if place == 0 and len(open_days) > delays[-1]:
                settled = wealth
        if len(open_days) > delays[-1]:
            open_days.pop(0)
        yield log_evidence(wealth, weights, 1 / (today + 2))


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
    """The day of each year's first alarm, infinite if it has none, and the share of years with one by a daily test."""
    truths = model.truth(before), model.truth(after)
    delays = DELAYS if late else (0,)
    shares = [0.5, *[0.5 / (len(DELAYS) - 1)] * (len(DELAYS) - 1)] if late else [1.0]
    first, naive = [], []
    for chunk in range(0, years, TOGETHER):
        rng = np.random.default_rng([seed, chunk])
        count = min(TOGETHER, years - chunk)
        hypothesis, limit = Hypothesis.trustworthy(CLASSES, BINS, tolerance=tolerance), 1 / ALPHA
        if reference:
            period = model.day(rng, truths[0], count, rows * REFERENCE_DAYS)
            hypothesis = Hypothesis.as_in(period, tolerance=tolerance, miss=REFERENCE_SHARE * ALPHA)
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

        for day, logs in enumerate(looks(hypothesis, year(), delays, count)):
            alarm = np.where((logs >= np.log(limit)) & np.isinf(alarm), day, alarm)
        first.append(alarm)
        naive.append(daily)
    return np.concatenate(first), float(np.concatenate(naive).mean())


def share(values: FloatArray) -> str:
    """A share of years in percent."""
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
        ("calibrated", "what it says, tolerance 0", {"tolerance": 0.0}),
        ("calibrated", "what it says, tolerance 2 points", {"tolerance": 0.02}),
        ("2 points over-confident", "what it says, tolerance 2 points", {"tolerance": 0.02, "before": 2.0}),
        ("calibrated, late labels", "what it says, tolerance 0", {"tolerance": 0.0, "late": True}),
        (
            "5 points over-confident",
            "60 days before, tolerance 0",
            {"tolerance": 0.0, "before": 5.0, "reference": True},
        ),
        (
            "5 points over-confident, late labels",
            "60 days before, tolerance 0",
            {"tolerance": 0.0, "before": 5.0, "reference": True, "late": True},
        ),
    ]
    rows = []
    for name, null, case in cases:
        alarms, naive = first_alarms(model, **many, **case)
        rows.append([name, null, share(np.isfinite(alarms)), "–" if case.get("before") else share(np.array(naive))])
    headings = ["model", "compared with", "years with an alarm", "with a daily test at 5 %"]
    print(markdown(headings, rows, "llrr"))

    rows = []
    for null, setting in (
        ("what it says, tolerance 0", {"tolerance": 0.0}),
        ("what it says, tolerance 2 points", {"tolerance": 0.02}),
        ("60 days before, tolerance 0", {"tolerance": 0.0, "reference": True}),
        ("60 days before, tolerance 2 points", {"tolerance": 0.02, "reference": True}),
    ):
        for start in (0, 180):
            cells = []
            for points in (3.0, 5.0, 10.0):
                alarms, _ = first_alarms(model, **few, **setting, after=points, drift_day=start)
                delays = alarms[alarms >= start] - start + 1
                middle = float(np.median(delays))
                cells.append(f"{middle:.0f} ({share(np.isfinite(delays))})" if np.isfinite(middle) else "–")
            rows.append([null, f"day {start + 1}", *cells])
    headings = ["compared with", "drift begins on", "3 points", "5 points", "10 points"]
    print(markdown(headings, rows, "llrrr"))


if __name__ == "__main__":
    main()
