"""Archive of docs/results: Parquet tables with their provenance, and paired confidence intervals over folds.

`tools/results.py` and `tools/claims.py` read them; all numbers of the documentation are in one of these tables.
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
OVERLAP = 1 / 4  # ratio of test rows to training rows with five folds


def load_rows(name: str) -> list[dict[str, Any]]:
    """Rows of a table without empty cells; an empty list if there is no such table."""
    file = FOLDER / f"{name}.parquet"
    rows = pq.read_table(file).to_pylist() if file.exists() else []
    return [{key: value for key, value in row.items() if value is not None} for row in rows]


def load_metadata(name: str) -> dict[str, Any]:
    """Provenance of a table, as given to `save_rows`."""
    metadata: dict[str, Any] = json.loads(pq.read_schema(FOLDER / f"{name}.parquet").metadata[b"orcu"])
    return metadata


def save_rows(name: str, rows: list[dict[str, Any]], **metadata: Any) -> None:
    """Write a table with the current versions and other metadata.

    Args:
        name: file name without suffix.
        rows: rows; the columns are the union of their keys.
        metadata: spec or command that created the table, and other information for readers.
    """
    versions = {package: version(package) for package in ("orcu", "torch", "numpy", "scikit-learn")}
    content = {"versions": {"python": platform.python_version(), **versions}, **metadata}
    columns = dict.fromkeys(column for row in rows for column in row)
    table = pa.Table.from_pylist([{column: row.get(column) for column in columns} for row in rows])
    write_table(table.replace_schema_metadata({"orcu": json.dumps(content)}), FOLDER / f"{name}.parquet")


class Difference(NamedTuple):
    """Difference of a metric between two models on a data set, with its 95 % interval."""

    data: str
    value: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 or -1 if the interval excludes zero, else 0."""
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


Pipeline = tuple[str, str]  # a loss and a calibrator


class PairedRuns:
    """Rows of a table by data set, fold and seed, for paired comparisons."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.data: dict[str, dict[tuple[int, int], dict[Pipeline, dict[str, Any]]]] = {}
        for row in rows:
            pipelines = self.data.setdefault(row["data"], {}).setdefault((row["fold"], row["seed"]), {})
            pipelines[row["loss"], row["calibrator"]] = row

    def differences(self, metric: str, first: Pipeline, second: Pipeline) -> list[Difference]:
        """Metric of the first minus the second pipeline on each data set, paired by fold and seed."""
        result = []
        for data, runs in self.data.items():
            pairs = [(run[first], run[second]) for run in runs.values() if first in run and second in run]
            values = [one[metric] - two[metric] for one, two in pairs if metric in one and metric in two]
            if len(values) > 1:
                several_folds = len({fold for fold, _ in runs}) > 1
                result.append(Difference(data, mean(values), *interval(values, OVERLAP if several_folds else 0.0)))
        return result

    def marks(self, metrics: list[str], baseline: str) -> dict[tuple[str, str, str, str], str]:
        """Significance marks by data, loss, calibrator and metric, against the baseline with the same calibrator."""
        pipelines = dict.fromkeys(key for runs in self.data.values() for run in runs.values() for key in run)
        return {
            (difference.data, loss, calibrator, metric): mark(difference.sign, metric)
            for loss, calibrator in pipelines
            if loss != baseline
            for metric in metrics
            for difference in self.differences(metric, (loss, calibrator), (baseline, calibrator))
        }


def interval(differences: list[float], overlap: float = 0.0) -> tuple[float, float]:
    """95 % confidence interval of the mean of paired differences.

    Over seeds or data sets it is the t interval. Over folds it is the corrected t interval of Nadeau and Bengio (2003),
    because folds share training rows: the variance of the mean is that of one difference times 1 / n + test rows /
    training rows (``overlap``).
    """
    count = len(differences)
    half = float(t.ppf(0.975, count - 1)) * stdev(differences) * math.sqrt(1 / count + overlap)
    return mean(differences) - half, mean(differences) + half


def mark(sign: int, metric: str) -> str:
    """▲ (better) or ▼ (worse) for a difference above (1) or below (-1) zero, by the metric's direction; "" for 0."""
    cost = column(metric).cost
    return "" if not sign else BETTER if cost(1.0 + sign) < cost(1.0) else WORSE
