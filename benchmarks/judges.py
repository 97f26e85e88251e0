"""Language models as judges, calibrated to people: before, what others would do, and ours.

    python benchmarks/judges.py --data DIR --results results/judges.csv [--draws 20]    # measure, and print the means
    python benchmarks/judges.py --results results/judges.csv                            # the means alone

DIR holds mllm_judge_logprobs.csv (token probabilities of two judges beside a human grade, 1-5; divided by blocks of 50
neighbouring items) and llmjudge_dl23_votes.csv (votes of 24 runs beside a human grade, 0-3; divided by query). Half of
the blocks or queries judges, the human grades are drawn from the other half: 25, 50, 200, or all of them. The file has
a row for each division and draw; `tools/results.py collect` keeps it. `isotonic` is what one would do with the expected
grade: for each threshold a monotone regression of "the person's grade is above it".
"""

import argparse
import csv
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from orcu import metrics
from orcu.calibrators import CalibrationWarning, create
from orcu.inputs import FloatArray, IntArray
from orcu.io.writing import write_table
from orcu.judges.grades import Grades, read
from orcu.judges.panel import JudgePanel, fitted_map

SIZES = (25, 50, 200)
DIVISIONS = 4
COLUMNS = ("accuracy", "mae", "qwk", "ece", "sce", "rps", "nll", "unimodality")
OURS = "orcu judge fit"


def sets(folder: Path) -> dict[str, Grades]:
    """Each judge's grades, with what stays together as the cluster."""
    import pandas as pd

    table = pd.read_csv(folder / "mllm_judge_logprobs.csv", keep_default_na=False)
    table["block"] = table["item"] // 50
    several = {
        name: read(rows, probs="p_*", item="item", human="human", cluster="block")
        for name, rows in table.groupby("judge")
    }
    both = read(table, probs="p_*", item="item", judge="judge", human="human", cluster="block")
    several["both judges"] = both[np.all([both.spoke(judge) for judge in both.judges], axis=0)]
    votes = pd.read_csv(folder / "llmjudge_dl23_votes.csv")
    several["24 runs' votes"] = read(votes, votes="n_*", item="item", human="human", cluster="query")
    return several


def shares(grades: Grades) -> FloatArray:
    """What is said as it comes: of several judges the mean."""
    said = [values / values.sum(axis=1, keepdims=True) for values in grades.said.values()]
    return np.asarray(np.mean(said, axis=0))


def temperature(known: Grades, new: Grades) -> FloatArray:
    """Temperature scaling, as others would."""
    return np.asarray(create("temperature").fit(probs=shares(known), y=labels(known)).predict_proba(probs=shares(new)))


def isotonic(known: Grades, new: Grades) -> FloatArray:
    """A monotone map of the expected grade for each threshold."""
    from sklearn.isotonic import IsotonicRegression

    size = len(known.scale)
    expected, fresh = (shares(one) @ np.arange(size) for one in (known, new))
    above = [
        IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(expected, labels(known) > k).predict(fresh)
        for k in range(size - 1)
    ]
    tails = np.minimum.accumulate(np.stack([np.ones(len(fresh)), *above, np.zeros(len(fresh))], axis=1), axis=1)
    return np.asarray(-np.diff(tails, axis=1))


def frequencies(known: Grades, new: Grades) -> FloatArray:
    """The grades of people, whatever the judge says."""
    counts = np.bincount(labels(known), minlength=len(known.scale)) + 0.5
    return np.tile(counts / counts.sum(), (len(new), 1))


def ours(known: Grades, new: Grades) -> FloatArray:
    """What `orcu judge fit` does."""
    return fitted_map(known).predict_proba(new)


METHODS: dict[str, Callable[[Grades, Grades], FloatArray]] = {
    "as it comes": lambda known, new: shares(new),
    "class frequencies": frequencies,
    "temperature": temperature,
    "isotonic": isotonic,
    OURS: ours,
}


def labels(grades: Grades) -> IntArray:
    """The human grades 0..C-1."""
    return grades.human.argmax(axis=1)


def measured(probs: FloatArray, y: IntArray) -> dict[str, float]:
    """The metrics of the table; a certain 0 counts 1e-12 in the NLL."""
    floored = np.maximum(probs, 1e-12)
    floored /= floored.sum(axis=1, keepdims=True)
    values = {name: getattr(metrics, name)(floored, y) for name in COLUMNS if name != "unimodality"}
    return values | {"unimodality": metrics.unimodality(probs)}


def run(folder: Path, draws: int, console: Console) -> list[dict[str, Any]]:
    """Every set, division, number of human grades, draw and method."""
    lines = []
    for name, grades in sets(folder).items():
        assert grades.cluster is not None  # noqa: S101 - every set has one
        clusters = np.unique(grades.cluster)
        for division in range(DIVISIONS):
            rng = np.random.default_rng(division)
            judging = np.isin(grades.cluster, rng.permutation(clusters)[: len(clusters) // 2])
            new, pool = grades[judging], np.flatnonzero(~judging)
            for size in (*SIZES, len(pool)):
                for draw in range(max(1, draws // DIVISIONS) if size in SIZES else 1):
                    known = grades[rng.choice(pool, size, replace=False)]
                    told = str(size) if size in SIZES else "all"
                    cell: dict[str, Any] = {"judge": name, "human grades": told, "division": division, "draw": draw}
                    for method, predicted in METHODS.items():
                        lines.append({**cell, "method": method, **measured(predicted(known, new), labels(new))})
            verdicts = JudgePanel().fit(grades[pool]).apply(new, alpha=0.1)
            inside = (verdicts.low <= labels(new)) & (labels(new) <= verdicts.high)
            lines[-1] |= {"coverage": inside.mean(), "set size": (verdicts.high - verdicts.low + 1).mean()}
            console.print(f"{name}: {division + 1} of {DIVISIONS} divisions")
    return lines


def means(lines: list[dict[str, str]]) -> dict[tuple[str, str, str], dict[str, float]]:
    """Each metric of a judge, a number of human grades and a method, over divisions and draws."""
    several: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for one in lines:
        several.setdefault((one["judge"], one["human grades"], one["method"]), []).append(one)
    return {
        cell: {name: float(np.mean([float(one[name]) for one in rows])) for name in COLUMNS}
        for cell, rows in several.items()
    }


def goals(by_cell: dict[tuple[str, str, str], dict[str, float]], console: Console) -> None:
    """What is promised of judges: few grades are no loss, 200 are nearly as good as all."""
    rps = {cell: values["rps"] for cell, values in by_cell.items()}
    for judge in dict.fromkeys(judge for judge, _, _ in by_cell):
        for size in ("25", "50"):
            best = min(rps[judge, size, method] for method in ("temperature", "class frequencies"))
            ratio = rps[judge, size, OURS] / best
            console.print(f"{judge}: at {size} grades RPS is {ratio:.3f} of the best of temperature and frequencies")
        ratio = rps[judge, "200", OURS] / rps[judge, "all", OURS]
        console.print(f"{judge}: at 200 grades RPS is {ratio:.3f} of that with all")


def main() -> None:
    """Measure, and print the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--results", type=Path, default=Path("results/judges.csv"))
    parser.add_argument("--draws", type=int, default=20, help="of each number of human grades (default 20)")
    options = parser.parse_args()
    console = Console()
    warnings.simplefilter("ignore", CalibrationWarning)
    if options.data is not None:
        if not (options.data / "mllm_judge_logprobs.csv").exists():
            parser.error(
                f"{options.data}: mllm_judge_logprobs.csv is not there; --data names the folder of both tables"
            )
        lines = run(options.data, options.draws, console)
        options.results.parent.mkdir(parents=True, exist_ok=True)
        names = dict.fromkeys(name for line in lines for name in line)
        write_table(pa.Table.from_pylist([{name: line.get(name) for name in names} for line in lines]), options.results)
    with options.results.open(encoding="utf-8", newline="") as file:
        by_cell = means(list(csv.DictReader(file)))
    table = Table("judge", "human grades", "method", *COLUMNS)
    for cell, values in by_cell.items():
        table.add_row(*cell, *(f"{values[name]:.3f}" for name in COLUMNS))
    console.print(table)
    goals(by_cell, console)


if __name__ == "__main__":
    main()
