"""Coverage of the intervals of `compare_systems`, and their widths relative to human grades alone.

    python benchmarks/judge_systems.py [--data DIR] [--draws 500] [--calibrator NAME] [--only PREFIX]

Simulated: two systems with human grades 1..5 and a judge with a given latent correlation, half a grade too lenient with
one of them; uniform grades or mostly fives; independent items, or 40 prompts of different sizes that both systems
answer. Real, with a folder that contains `mllm_judge_logprobs.csv` and `llmjudge_dl23_votes.csv`: each draw resamples
the data with replacement, hides all human grades except n of each system, calibrates the judge on these with five
folds, and checks whether the intervals contain the means of all data.

- items: each of the 14 data sets is a system; single items are resampled; two fifths of the draws are enough.
- blocks: even and odd items are two systems; blocks of 50 neighbours are resampled and are the clusters.
- queries: even and odd passages are two systems; the 25 queries are resampled and are the clusters.

A cell averages the intervals of all systems and draws; with 500 draws the standard error is at most 0.7 points (1.0 for
differences of two systems). Draws with constant human grades raise an error; they are left out and counted. Widths are
relative to those of human grades alone. QWK is that of the uncalibrated judge. `--calibrator auto` selects the
calibrator in every fold, which takes several times as long.
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
from orcu.model_selection import cross_fit_folds

FOLDS, BLOCK = 5, 50
CALIBRATOR = "ordinal_dirichlet+projection"  # mostly selected by auto on these data
CUTS = {"all grades": (-1.0, -0.3, 0.5, 1.3), "mostly fives": (-2.2, -1.7, -1.2, -0.5)}  # thresholds of a latent grade
SHIFTS = {"first": 0.0, "second": 0.3}
LENIENCE = {"first": 0.0, "second": 0.5}
HEADINGS = ["sample", "n", "QWK", "both", "humans alone", "differences", "width", "width of differences", "refused"]


@dataclass
class Items:
    """Items of a draw: the arguments of `compare_systems`."""

    predicted: np.ndarray
    human: np.ndarray
    system: np.ndarray
    cluster: np.ndarray | None

    def compare(self) -> tuple[SystemComparison, SystemComparison]:
        """Comparisons with the judge and without it (a constant judge has no information)."""
        return tuple(
            compare_systems(predicted, self.human, self.system, cluster=self.cluster)
            for predicted in (self.predicted, np.zeros(len(self.human)))
        )


@dataclass
class Tally:
    """Results of the draws of a cell."""

    both: list[bool] = field(default_factory=list)
    humans: list[bool] = field(default_factory=list)
    differences: list[bool] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    difference_widths: list[float] = field(default_factory=list)
    refused: int = 0

    def add(self, items: Items, truth: dict[str, float]) -> None:
        """Count the intervals of a draw; constant human grades raise an error."""
        try:
            comparison, humans_alone = items.compare()
        except InputError:
            self.refused += 1
            return
        for mean in comparison.systems:
            self.both.append(mean.low <= truth[mean.system] <= mean.high)
            self.humans.append(mean.human_low <= truth[mean.system] <= mean.human_high)
            self.widths.append(mean.width_ratio)
        widths = {frozenset((pair.first, pair.second)): pair.high - pair.low for pair in humans_alone.differences}
        for pair in comparison.differences:
            self.differences.append(pair.low <= truth[pair.first] - truth[pair.second] <= pair.high)
            self.difference_widths.append((pair.high - pair.low) / widths[frozenset((pair.first, pair.second))])

    def row(self) -> list[str]:
        """Cells of the table."""
        shares = [f"{100 * np.mean(covered):.1f} %" for covered in (self.both, self.humans, self.differences)]
        return [*shares, f"{np.mean(self.widths):.2f}", f"{np.mean(self.difference_widths):.2f}", str(self.refused)]


@dataclass
class Simulation:
    """Two systems, and a judge with a given correlation to human grades."""

    cuts: tuple[float, ...]
    correlation: float
    clusters: int
    items: int

    @property
    def truth(self) -> dict[str, float]:
        """Mean grade of each system."""
        return {name: 1 + ndtr(shift - np.array(self.cuts)).sum() for name, shift in SHIFTS.items()}

    @property
    def qwk(self) -> float:
        """QWK of the judge's rounded expected grade on many items."""
        items, human = self._all(np.random.default_rng(0), 20_000)
        decided = np.rint(items.predicted).clip(1, 5).astype(int) - 1
        return metrics.qwk(pred=decided, y=human.astype(int) - 1)

    def draw(self, n: int, rng: np.random.Generator) -> Items:
        """Items of both systems with n human grades each."""
        items, human = self._all(rng, self.items)
        for name in SHIFTS:
            graded = rng.choice(np.flatnonzero(items.system == name), n, replace=False)
            items.human[graded] = human[graded]
        return items

    def _all(self, rng: np.random.Generator, count: int) -> tuple[Items, np.ndarray]:
        """Items without human grades, and their grades."""
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
class RealData:
    """Real data: logits of a judge, human grades 0..C-1, systems, and blocks of rows for the resampling."""

    logits: np.ndarray
    y: np.ndarray
    system: np.ndarray
    blocks: list[np.ndarray]
    clustered: bool
    calibrator: str

    @cached_property
    def truth(self) -> dict[str, float]:
        """Mean grade of each system."""
        return {str(name): float(self.y[self.system == name].mean()) for name in np.unique(self.system)}

    @property
    def qwk(self) -> float:
        """QWK of the uncalibrated judge."""
        return metrics.qwk(pred=self.logits.argmax(axis=1), y=self.y)

    def draw(self, n: int, rng: np.random.Generator) -> Items:
        """A resample with n human grades of each system, and the judge calibrated on them."""
        picked = [self.blocks[k] for k in rng.integers(len(self.blocks), size=len(self.blocks))]
        rows = np.concatenate(picked)
        cluster = np.repeat(np.arange(len(picked)), [len(block) for block in picked])
        of_system = [np.flatnonzero(self.system[rows] == name) for name in self.truth]
        graded = np.concatenate([rng.choice(candidates, n, replace=False) for candidates in of_system])
        human = np.full(len(rows), np.nan)
        human[graded] = self.y[rows[graded]]
        predicted = self._predicted(rows, graded, cluster, int(rng.integers(1 << 31)))
        return Items(predicted, human, self.system[rows], cluster if self.clustered else None)

    def _predicted(self, rows: np.ndarray, graded: np.ndarray, cluster: np.ndarray, seed: int) -> np.ndarray:
        """Expected grades from calibrators that were not fitted on the item's cluster, else the mean of all."""
        y, by_fold, unseen = self.y[rows[graded]], [], []
        for fold in cross_fit_folds(y, FOLDS, early_stopping=0, groups=cluster[graded], random_state=seed):
            calibrator = calibrators.create(self.calibrator).fit(self.logits[rows[graded[fold.train]]], y[fold.train])
            expected = calibrator.predict_proba(self.logits) @ np.arange(self.logits.shape[1])
            by_fold.append(expected[rows])
            unseen.append(np.isin(cluster, cluster[graded[fold.test]]))
        return np.where(np.any(unseen, axis=0), np.sum(np.where(unseen, by_fold, 0), axis=0), np.mean(by_fold, axis=0))


def simulations() -> Iterator[tuple[str, Simulation, int]]:
    """Simulated cells."""
    sizes = ((30, 300), (50, 1000), (200, 2000))
    for kind, clusters, correlation, (n, items) in product(CUTS, (0, 40), (0.0, 0.7, 0.85), sizes):
        where = f"{clusters} prompts" if clusters else "items"
        name = f"simulated, {kind}, {where}, r = {correlation:g}, N = {items:,}"
        yield name, Simulation(CUTS[kind], correlation, clusters, items), n


def real_sets(folder: Path, calibrator: str) -> Iterator[tuple[str, RealData, int]]:
    """Cells of the real data."""
    sizes = (50, 100, 200)
    table = pd.read_csv(folder / "mllm_judge_logprobs.csv").dropna(subset=["dataset"])
    for judge, rows in table.groupby("judge"):
        rows = rows.sort_values("item")
        logits = np.log(rows[[f"p_{grade}" for grade in range(1, 6)]].to_numpy().clip(1e-12))
        judged = partial(RealData, logits, rows["human"].to_numpy() - 1, calibrator=calibrator)
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
        judged = RealData(np.log(votes), table["human"].to_numpy(), half, queries, True, calibrator)
        yield "votes of 24 judges, queries", judged, n


def main() -> None:
    """Print the table row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the two real data sets")
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--calibrator", default=CALIBRATOR)
    parser.add_argument("--only", default="", help="prefix of the samples to run")
    options = parser.parse_args()
    warnings.simplefilter("ignore", calibrators.CalibrationWarning)
    cells = list(simulations())
    if options.data is None:
        print("Real data are skipped; give their folder with --data.\n")
    else:
        try:
            cells += real_sets(options.data, options.calibrator)
        except FileNotFoundError as absent:
            print(f"Real data are skipped: {absent.filename} does not exist.\n")
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
