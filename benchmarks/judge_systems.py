"""How often the intervals of `compare_systems` hold the true mean grade, and how wide they are beside humans alone.

    python benchmarks/judge_systems.py [--data DIR] [--draws 500] [--calibrator NAME] [--only PREFIX]

Simulated: two systems whose human grades 1..5 go with a judge's expected grade at a chosen latent correlation, the
judge half a grade too lenient with one of them; grades of all kinds, or mostly fives; items alone, or in 40 prompts of
unequal size that both systems answer. Real, with a folder that holds `mllm_judge_logprobs.csv` and
`llmjudge_dl23_votes.csv`: each draw resamples the set with replacement, hides all human grades but n of each system,
calibrates the judge on these in five folds, and looks whether the intervals hold the means of the whole set.

- items: each of the 14 data sets is a system; single items are resampled; two fifths of the draws will do.
- blocks: even and odd items are two systems; blocks of 50 neighbours are resampled, and are the clusters.
- queries: even and odd passages are two systems; the 25 queries are resampled, and are the clusters.

A cell counts the intervals of all systems of all draws, of 500 draws with a standard error of 0.7 points or less (1.0
for differences of two systems); draws whose human grades are refused, since they are all alike, are left out and
counted. Widths are divided by those of humans alone. QWK is that of the judge as it comes. `--calibrator auto` chooses
the map in every fold, which takes several times as long.
"""

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtr

from orcu import calibrators, metrics
from orcu.errors import InputError
from orcu.judges.systems import SystemComparison, compare_systems
from orcu.model_selection import deal

FOLDS, BLOCK = 5, 50
CALIBRATOR = "ordinal_dirichlet+projection"  # what auto mostly chooses on these sets
CUTS = {"all grades": (-1.0, -0.3, 0.5, 1.3), "mostly fives": (-2.2, -1.7, -1.2, -0.5)}  # of a latent grade
SHIFTS = {"first": 0.0, "second": 0.3}
LENIENCE = {"first": 0.0, "second": 0.5}
HEADINGS = ["sample", "n", "QWK", "both", "humans alone", "differences", "width", "width of differences", "refused"]


@dataclass
class Items:
    """Items of a draw as `compare_systems` takes them."""

    predicted: np.ndarray
    human: np.ndarray
    system: np.ndarray
    cluster: np.ndarray | None

    def compared(self) -> tuple[SystemComparison, SystemComparison]:
        """By people and judge, and by people alone: a judge that always says the same tells nothing."""
        return tuple(
            compare_systems(predicted, self.human, self.system, cluster=self.cluster)
            for predicted in (self.predicted, np.zeros(len(self.human)))
        )


@dataclass
class Tally:
    """What the draws of a cell have shown."""

    both: list[bool] = field(default_factory=list)
    humans: list[bool] = field(default_factory=list)
    differences: list[bool] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    difference_widths: list[float] = field(default_factory=list)
    refused: int = 0

    def add(self, items: Items, truth: dict[str, float]) -> None:
        """Count the intervals of a draw; human grades without any spread are refused."""
        try:
            comparison, alone = items.compared()
        except InputError:
            self.refused += 1
            return
        for mean in comparison.systems:
            self.both.append(mean.low <= truth[mean.system] <= mean.high)
            self.humans.append(mean.humans_low <= truth[mean.system] <= mean.humans_high)
            self.widths.append(mean.width_ratio)
        by_humans = {frozenset((one.first, one.second)): one.high - one.low for one in alone.differences}
        for one in comparison.differences:
            self.differences.append(one.low <= truth[one.first] - truth[one.second] <= one.high)
            self.difference_widths.append((one.high - one.low) / by_humans[frozenset((one.first, one.second))])

    def row(self) -> list[str]:
        """The cells of a table."""
        shares = [f"{100 * np.mean(held):.1f} %" for held in (self.both, self.humans, self.differences)]
        return [*shares, f"{np.mean(self.widths):.2f}", f"{np.mean(self.difference_widths):.2f}", str(self.refused)]


@dataclass
class Simulation:
    """Two systems, and a judge of a chosen worth."""

    cuts: tuple[float, ...]
    correlation: float
    clusters: int
    items: int

    @property
    def truth(self) -> dict[str, float]:
        """The mean grade of each system."""
        return {name: 1 + ndtr(shift - np.array(self.cuts)).sum() for name, shift in SHIFTS.items()}

    @property
    def qwk(self) -> float:
        """Of the judge's expected grade, rounded, over many items."""
        items, human = self._all(np.random.default_rng(0), 20_000)
        decided = np.rint(items.predicted).clip(1, 5).astype(int) - 1
        return metrics.qwk(pred=decided, y=human.astype(int) - 1)

    def draw(self, n: int, rng: np.random.Generator) -> Items:
        """Items of both systems, n of each graded."""
        items, human = self._all(rng, self.items)
        for name in SHIFTS:
            graded = rng.choice(np.flatnonzero(items.system == name), n, replace=False)
            items.human[graded] = human[graded]
        return items

    def _all(self, rng: np.random.Generator, count: int) -> tuple[Items, np.ndarray]:
        """Items of which none is graded, and their grades."""
        system = np.repeat(list(SHIFTS), count)
        judged, rest = rng.normal(size=(2, 2 * count))
        prompt = None
        if self.clusters:
            share = rng.gamma(1.5, size=self.clusters)
            prompt = rng.choice(self.clusters, 2 * count, p=share / share.sum())
            judged = 0.5 * rng.normal(size=self.clusters)[prompt] + np.sqrt(1 - 0.5**2) * judged
            rest = 0.3 * rng.normal(size=self.clusters)[prompt] + np.sqrt(1 - 0.3**2) * rest
        noise = np.sqrt(1 - self.correlation**2)
        known = np.repeat(list(SHIFTS.values()), count) + self.correlation * judged
        human = 1.0 + np.searchsorted(self.cuts, known + noise * rest)
        expected = 1 + ndtr((known - np.array(self.cuts)[:, None]) / noise).sum(axis=0)
        if not self.correlation:
            expected = 3 + judged  # noise
        predicted = expected + np.repeat(list(LENIENCE.values()), count)
        return Items(predicted, np.full(2 * count, np.nan), system, prompt), human


@dataclass
class Judged:
    """A real set: a judge's logits, human grades 0..C-1, systems, and blocks of rows that are resampled."""

    logits: np.ndarray
    y: np.ndarray
    system: np.ndarray
    blocks: list[np.ndarray]
    clustered: bool
    calibrator: str

    @cached_property
    def truth(self) -> dict[str, float]:
        """The mean grade of each system."""
        return {str(name): float(self.y[self.system == name].mean()) for name in np.unique(self.system)}

    @property
    def qwk(self) -> float:
        """Of the judge as it comes."""
        return metrics.qwk(pred=self.logits.argmax(axis=1), y=self.y)

    def draw(self, n: int, rng: np.random.Generator) -> Items:
        """A resample with n graded items of each system, and the judge calibrated on them."""
        picked = [self.blocks[k] for k in rng.integers(len(self.blocks), size=len(self.blocks))]
        rows = np.concatenate(picked)
        cluster = np.repeat(np.arange(len(picked)), [len(block) for block in picked])
        of_system = [np.flatnonzero(self.system[rows] == name) for name in self.truth]
        graded = np.concatenate([rng.choice(mine, n, replace=False) for mine in of_system])
        human = np.full(len(rows), np.nan)
        human[graded] = self.y[rows[graded]]
        predicted = self._predicted(rows, graded, cluster, int(rng.integers(1 << 31)))
        return Items(predicted, human, self.system[rows], cluster if self.clustered else None)

    def _predicted(self, rows: np.ndarray, graded: np.ndarray, cluster: np.ndarray, seed: int) -> np.ndarray:
        """Expected grades by maps that have not seen the cluster of the item; the mean of all where none has."""
        y, by_fold, unseen = self.y[rows[graded]], [], []
        for fold in deal(y, FOLDS, stop=0, groups=cluster[graded], seed=seed):
            mapped = calibrators.create(self.calibrator).fit(self.logits[rows[graded[fold.train]]], y[fold.train])
            expected = mapped.predict_proba(self.logits) @ np.arange(self.logits.shape[1])
            by_fold.append(expected[rows])
            unseen.append(np.isin(cluster, cluster[graded[fold.held]]))
        return np.where(np.any(unseen, axis=0), np.sum(np.where(unseen, by_fold, 0), axis=0), np.mean(by_fold, axis=0))


def simulations() -> Iterator[tuple[str, Simulation, int]]:
    """The simulated cells."""
    sizes = ((30, 300), (50, 1000), (200, 2000))
    for kind, clusters, correlation, (n, items) in product(CUTS, (0, 40), (0.0, 0.7, 0.85), sizes):
        where = f"{clusters} prompts" if clusters else "items"
        name = f"simulated, {kind}, {where}, r = {correlation:g}, N = {items:,}"
        yield name, Simulation(CUTS[kind], correlation, clusters, items), n


def real_sets(folder: Path, calibrator: str) -> Iterator[tuple[str, Judged, int]]:
    """The cells of the real sets."""
    sizes = (50, 100, 200)
    table = pd.read_csv(folder / "mllm_judge_logprobs.csv").dropna(subset=["dataset"])
    for judge, rows in table.groupby("judge"):
        rows = rows.sort_values("item")
        logits = np.log(rows[[f"p_{grade}" for grade in range(1, 6)]].to_numpy().clip(1e-12))
        judged = partial(Judged, logits, rows["human"].to_numpy() - 1, calibrator=calibrator)
        half = np.where(rows["item"] % 2, "odd", "even")
        blocks = np.split(np.arange(len(rows)), np.flatnonzero(np.diff(rows["item"] // BLOCK)) + 1)
        single = list(np.arange(len(rows))[:, None])
        for n in sizes:
            yield f"{judge}, items", judged(rows["dataset"].to_numpy(dtype=str), single, clustered=False), n
        for n in sizes:
            yield f"{judge}, blocks", judged(half, blocks, clustered=True), n
    table = pd.read_csv(folder / "llmjudge_dl23_votes.csv").sort_values("query", kind="stable")
    votes = table[[f"n_{grade}" for grade in range(4)]].to_numpy() + 0.5
    half = np.where(np.arange(len(table)) % 2, "odd", "even")
    queries = np.split(np.arange(len(table)), np.flatnonzero(np.diff(pd.factorize(table["query"])[0])) + 1)
    for n in sizes:
        judged = Judged(np.log(votes), table["human"].to_numpy(), half, queries, True, calibrator)
        yield "votes of 24 judges, queries", judged, n


def main() -> None:
    """Print the table, a row as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder of the two real sets")
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--calibrator", default=CALIBRATOR)
    parser.add_argument("--only", default="", help="samples whose name begins so")
    options = parser.parse_args()
    warnings.simplefilter("ignore", calibrators.CalibrationWarning)
    cells = list(simulations())
    if options.data is None:
        print("The real sets are left out; --data names their folder.\n")
    else:
        try:
            cells += real_sets(options.data, options.calibrator)
        except FileNotFoundError as absent:
            print(f"The real sets are left out: {absent.filename} is not there.\n")
    print(f"| {' | '.join(HEADINGS)} |\n|---|{'---:|' * (len(HEADINGS) - 1)}")
    for name, sample, n in cells:
        if not name.startswith(options.only):
            continue
        tally, rng = Tally(), np.random.default_rng(0)
        few = len(sample.truth) <= 2
        for _ in range(options.draws if few else -(-2 * options.draws // 5)):
            tally.add(sample.draw(n, rng), sample.truth)
        print(f"| {' | '.join([name, str(n), f'{sample.qwk:.2f}', *tally.row()])} |", flush=True)


if __name__ == "__main__":
    main()
