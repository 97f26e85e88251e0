"""The archive of docs/results: small Parquet tables that say where their numbers come from, and intervals over folds.

`tools/results.py` and `tools/claims.py` read them; nothing in the documentation has a number that is not in one.
"""

import json
import math
import platform
from importlib.metadata import version
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import t

from orcu.bench.columns import column
from orcu.bench.significance import BETTER, WORSE
from orcu.io.writing import write_table

FOLDER = Path(__file__).parents[1] / "docs" / "results"
OVERLAP = 1 / 4  # test rows over training rows of five folds


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of a table, without their empty cells; none where it is not there."""
    file = FOLDER / f"{name}.parquet"
    every = pq.read_table(file).to_pylist() if file.exists() else []
    return [{key: value for key, value in row.items() if value is not None} for row in every]


def about(name: str) -> dict[str, Any]:
    """Where a table comes from, as `keep` was told."""
    return json.loads(pq.read_schema(FOLDER / f"{name}.parquet").metadata[b"orcu"])


def keep(name: str, lines: list[dict[str, Any]], **about_: Any) -> None:
    """Write a table, with today's versions and what is said of it.

    Args:
        name: of the file, without its ending.
        lines: its rows; all columns of any row become columns.
        about_: what made it (a spec, a command), and what a reader must know.
    """
    versions = {one: version(one) for one in ("orcu", "torch", "numpy", "scikit-learn")}
    told = {"versions": {"python": platform.python_version(), **versions}, **about_}
    names = dict.fromkeys(name for line in lines for name in line)
    table = pa.Table.from_pylist([{name: line.get(name) for name in names} for line in lines])
    write_table(table.replace_schema_metadata({"orcu": json.dumps(told)}), FOLDER / f"{name}.parquet")


class Difference(NamedTuple):
    """A metric of one minus that of another on a data set, with its interval."""

    data: str
    value: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 or -1 where the interval leaves zero out, else 0."""
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


Pipeline = tuple[str, str]  # a loss and a calibrator


class Folds:
    """The rows of a table by data set, fold and seed, so that pipelines are compared where both were run."""

    def __init__(self, records: list[dict[str, Any]]) -> None:
        self.data: dict[str, dict[tuple[int, int], dict[Pipeline, dict[str, Any]]]] = {}
        for row in records:
            cells = self.data.setdefault(row["data"], {}).setdefault((row["fold"], row["seed"]), {})
            cells[row["loss"], row["calibrator"]] = row

    def differences(self, metric: str, first: Pipeline, second: Pipeline) -> list[Difference]:
        """The metric of one minus that of the other on each data set, paired by fold and seed."""
        by_data = []
        for data, cells in self.data.items():
            both = [(cell[first], cell[second]) for cell in cells.values() if first in cell and second in cell]
            apart = [one[metric] - two[metric] for one, two in both if metric in one and metric in two]
            if len(apart) > 1:
                folds = len({fold for fold, _ in cells}) > 1
                by_data.append(Difference(data, mean(apart), *interval(apart, OVERLAP if folds else 0.0)))
        return by_data

    def marks(self, metrics: list[str], reference: str) -> dict[tuple[str, str, str, str], str]:
        """By data, loss, calibrator and metric: better or worse than the reference with the same calibrator."""
        pipelines = dict.fromkeys(one for cells in self.data.values() for cell in cells.values() for one in cell)
        return {
            (difference.data, loss, calibrator, metric): mark(difference.sign, metric)
            for loss, calibrator in pipelines
            if loss != reference
            for metric in metrics
            for difference in self.differences(metric, (loss, calibrator), (reference, calibrator))
        }


def interval(apart: list[float], overlap: float = 0.0) -> tuple[float, float]:
    """A 95 % interval of the mean of paired differences.

    Over seeds, or data sets, it is the plain t. Over folds it is the corrected t of Nadeau and Bengio (2003), which
    knows that folds share their training rows: the variance of the mean is that of one difference times
    1 / n + test rows / training rows.
    """
    half = float(t.ppf(0.975, len(apart) - 1)) * stdev(apart) * math.sqrt(1 / len(apart) + overlap)
    return mean(apart) - half, mean(apart) + half


def mark(sign: int, metric: str) -> str:
    """▲ or ▼ for a difference above (1) or below (-1) zero, by what is better in a metric; nothing for 0."""
    cost = column(metric).cost
    return "" if not sign else BETTER if cost(1.0 + sign) < cost(1.0) else WORSE
