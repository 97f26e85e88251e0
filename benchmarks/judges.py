"""LLM judges calibrated with human grades: uncalibrated, common calibration methods, and `orcu judge fit`.

    python benchmarks/judges.py --data DIR --results results/judges.csv [--draws 20]    # run, and print the means
    python benchmarks/judges.py --results results/judges.csv                            # print the means

DIR contains mllm_judge_logprobs.csv (token probabilities of two judges and human grades 1-5; split by blocks of 50
neighbouring items) and llmjudge_dl23_votes.csv (votes of 24 runs and human grades 0-3; split by query). Half of the
blocks or queries are test rows; 25, 50, 200 or all human grades are drawn from the other half. The result has a row for
each split and draw; `tools/results.py collect` archives it. `isotonic` is an isotonic regression of "the human grade is
above k" on the expected grade, for each threshold k.
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
from orcu.judges import Grades, read
from orcu.judges.panel import JudgePanel, fit_for_prediction

SIZES = (25, 50, 200)
SPLITS = 4
COLUMNS = ("accuracy", "mae", "qwk", "ece", "sce", "rps", "nll", "unimodality")
ORCU = "orcu judge fit"


def sets(folder: Path) -> dict[str, Grades]:
    """Grades of each judge; clusters must not be split."""
    import pandas as pd

    table = pd.read_csv(folder / "mllm_judge_logprobs.csv", keep_default_na=False)
    table["block"] = table["item"] // 50
    several = {
        name: read(rows, probs="p_*", item="item", human="human", cluster="block")
        for name, rows in table.groupby("judge")
    }
    both = read(table, probs="p_*", item="item", judge="judge", human="human", cluster="block")
    several["both judges"] = both[np.all([both.rated_mask(judge) for judge in both.judges], axis=0)]
    votes = pd.read_csv(folder / "llmjudge_dl23_votes.csv")
    several["24 runs' votes"] = read(votes, votes="n_*", item="item", human="human", cluster="query")
    return several


def shares(grades: Grades) -> FloatArray:
    """Uncalibrated probabilities, averaged over the judges."""
    ratings = [values / values.sum(axis=1, keepdims=True) for values in grades.ratings.values()]
    return np.asarray(np.mean(ratings, axis=0))


def temperature(known: Grades, new: Grades) -> FloatArray:
    """Temperature scaling."""
    return np.asarray(create("temperature").fit(probs=shares(known), y=labels(known)).predict_proba(probs=shares(new)))


def isotonic(known: Grades, new: Grades) -> FloatArray:
    """Isotonic regression on the expected grade for each threshold."""
    from sklearn.isotonic import IsotonicRegression

    size = len(known.levels)
    expected, new_expected = (shares(part) @ np.arange(size) for part in (known, new))
    above = [
        IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        .fit(expected, labels(known) > k)
        .predict(new_expected)
        for k in range(size - 1)
    ]
    tails = np.minimum.accumulate(np.stack([np.ones(len(new)), *above, np.zeros(len(new))], axis=1), axis=1)
    return np.asarray(-np.diff(tails, axis=1))


def frequencies(known: Grades, new: Grades) -> FloatArray:
    """Frequencies of the human grades, without the judge."""
    counts = np.bincount(labels(known), minlength=len(known.levels)) + 0.5
    return np.tile(counts / counts.sum(), (len(new), 1))


def orcu_fit(known: Grades, new: Grades) -> FloatArray:
    """The method of `orcu judge fit`."""
    return fit_for_prediction(known).predict_proba(new)


METHODS: dict[str, Callable[[Grades, Grades], FloatArray]] = {
    "uncalibrated": lambda known, new: shares(new),
    "class frequencies": frequencies,
    "temperature": temperature,
    "isotonic": isotonic,
    ORCU: orcu_fit,
}


def labels(grades: Grades) -> IntArray:
    """Human grades 0..C-1."""
    return grades.human.argmax(axis=1)


def compute_metrics(probs: FloatArray, y: IntArray) -> dict[str, float]:
    """Metrics of the table; probabilities of 0 count as 1e-12 in the NLL."""
    floored = np.maximum(probs, 1e-12)
    floored /= floored.sum(axis=1, keepdims=True)
    values = {name: getattr(metrics, name)(floored, y) for name in COLUMNS if name != "unimodality"}
    return values | {"unimodality": metrics.unimodality(probs)}


def run(folder: Path, draws: int, console: Console) -> list[dict[str, Any]]:
    """Results of all data sets, splits, numbers of human grades, draws and methods."""
    lines = []
    for name, grades in sets(folder).items():
        assert grades.cluster is not None  # noqa: S101 - all data have clusters
        clusters = np.unique(grades.cluster)
        for split in range(SPLITS):
            rng = np.random.default_rng(split)
            is_test = np.isin(grades.cluster, rng.permutation(clusters)[: len(clusters) // 2])
            new, pool = grades[is_test], np.flatnonzero(~is_test)
            for size in (*SIZES, len(pool)):
                for draw in range(max(1, draws // SPLITS) if size in SIZES else 1):
                    known = grades[rng.choice(pool, size, replace=False)]
                    title = str(size) if size in SIZES else "all"
                    cell: dict[str, Any] = {"judge": name, "human grades": title, "division": split, "draw": draw}
                    for method, predict in METHODS.items():
                        lines.append({**cell, "method": method, **compute_metrics(predict(known, new), labels(new))})
            predictions = JudgePanel().fit(grades[pool]).apply(new, alpha=0.1)
            inside = (predictions.low <= labels(new)) & (labels(new) <= predictions.high)
            lines[-1] |= {"coverage": inside.mean(), "set size": (predictions.high - predictions.low + 1).mean()}
            console.print(f"{name}: {split + 1} of {SPLITS} splits")
    return lines


def means(lines: list[dict[str, str]]) -> dict[tuple[str, str, str], dict[str, float]]:
    """Mean metrics of each judge, number of human grades and method, over splits and draws."""
    groups: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for line in lines:
        groups.setdefault((line["judge"], line["human grades"], line["method"]), []).append(line)
    return {
        cell: {name: float(np.mean([float(row[name]) for row in rows])) for name in COLUMNS}
        for cell, rows in groups.items()
    }


def goals(by_cell: dict[tuple[str, str, str], dict[str, float]], console: Console) -> None:
    """Print the ratios behind two statements: few grades do no harm, and 200 are nearly as good as all."""
    rps = {cell: values["rps"] for cell, values in by_cell.items()}
    for judge in dict.fromkeys(judge for judge, _, _ in by_cell):
        for size in ("25", "50"):
            best = min(rps[judge, size, method] for method in ("temperature", "class frequencies"))
            ratio = rps[judge, size, ORCU] / best
            console.print(
                f"{judge}: RPS with {size} grades relative to the better of temperature and frequencies: {ratio:.3f}"
            )
        ratio = rps[judge, "200", ORCU] / rps[judge, "all", ORCU]
        console.print(f"{judge}: RPS with 200 grades relative to all grades: {ratio:.3f}")


def main() -> None:
    """Run the study and print the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--results", type=Path, default=Path("results/judges.csv"))
    parser.add_argument("--draws", type=int, default=20, help="draws of each number of human grades (default 20)")
    options = parser.parse_args()
    console = Console()
    warnings.simplefilter("ignore", CalibrationWarning)
    if options.data is not None:
        if not (options.data / "mllm_judge_logprobs.csv").exists():
            parser.error(
                f"{options.data}: mllm_judge_logprobs.csv does not exist; give the folder of both tables with --data"
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
