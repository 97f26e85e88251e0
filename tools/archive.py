"""Archive of docs/results: Parquet tables with their provenance, and paired confidence intervals over folds.

`tools/results.py` and `tools/claims.py` read them; all numbers of the documentation are in one of these tables.
"""

import json
import math
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import norm, t

from orcu.bench.columns import column
from orcu.bench.significance import BETTER, WORSE
from orcu.io.writing import write_table

FOLDER = Path(__file__).parents[1] / "docs" / "results"


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
    """Difference of a metric between two models on a data set, with its 95 % interval and two-sided p value."""

    data: str
    value: float
    low: float
    high: float
    p: float

    @property
    def sign(self) -> int:
        """1 or -1 if the interval excludes zero, else 0."""
        return 1 if self.low > 0 else -1 if self.high < 0 else 0

    @classmethod
    def of_values(cls, data: str, values: Sequence[float], overlap: float = 0.0, margin: float = 0.0) -> "Difference":
        """Mean of paired differences with the t interval of `interval`, tested against ``-margin``.

        A margin moves value and interval: a positive sign then means "above -margin" (non-inferior if higher is
        better).
        """
        low, high = interval(values, overlap)
        return cls(data, mean(values) + margin, low + margin, high + margin, _p_value(values, overlap, margin))

    @classmethod
    def of_bootstrap(cls, data: str, value: float, low: float, high: float, margin: float = 0.0) -> "Difference":
        """A difference with a bootstrap interval; its p value is that of a normal distribution of the same width."""
        error = (high - low) / (2 * norm.ppf(0.975))
        value += margin
        p = 2 * norm.sf(abs(value) / error) if error > 0 else float(value == 0)
        return cls(data, value, low + margin, high + margin, float(p))


Pipeline = tuple[str, str]  # a loss and a calibrator


class PairedRuns:
    """Rows of a table by data set, fold and seed, for paired comparisons."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.data: dict[str, dict[tuple[int, int], dict[Pipeline, dict[str, Any]]]] = {}
        for row in rows:
            pipelines = self.data.setdefault(row["data"], {}).setdefault((row["fold"], row["seed"]), {})
            pipelines[row["loss"], row["calibrator"]] = row

    def pairs(
        self, metric: str, first: Pipeline, second: Pipeline
    ) -> dict[str, list[tuple[dict[str, Any], dict[str, Any]]]]:
        """Rows of the first and the second pipeline with the metric, paired by fold and seed; at least two pairs."""
        pairs_by_data = {}
        for data, runs in self.data.items():
            pairs = [(run[first], run[second]) for run in runs.values() if first in run and second in run]
            pairs = [pair for pair in pairs if all(metric in run for run in pair)]
            if len(pairs) > 1:
                pairs_by_data[data] = pairs
        return pairs_by_data

    def differences(self, metric: str, first: Pipeline, second: Pipeline, margin: float = 0.0) -> list[Difference]:
        """Metric of the first minus the second pipeline on each data set, paired by fold and seed."""
        return [
            Difference.of_values(
                data, [one[metric] - two[metric] for one, two in pairs], overlap(one for one, _ in pairs), margin
            )
            for data, pairs in self.pairs(metric, first, second).items()
        ]

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


def overlap(rows: Iterable[dict[str, Any]]) -> float:
    """Ratio of test rows to training rows of runs on several folds; 0 for runs that differ in their seeds only.

    Raises:
        ValueError: if the number of rows of a fold is not stored; collect the runs again.
    """
    runs = list(rows)
    if len({row["fold"] for row in runs}) < 2:
        return 0.0
    missing = [f"{row['data']}, fold {row['fold']}" for row in runs if "train_rows" not in row]
    if missing:
        raise ValueError(f"the number of training rows is not stored: {missing[0]}; run tools/results.py collect.")
    return mean(row["test_rows"] / row["train_rows"] for row in runs)


def interval(differences: Sequence[float], overlap: float = 0.0) -> tuple[float, float]:
    """95 % confidence interval of the mean of paired differences.

    Over seeds or data sets it is the t interval. Over folds it is the corrected t interval of Nadeau and Bengio (2003),
    because folds share training rows: the variance of the mean is that of one difference times 1 / n + test rows /
    training rows (``overlap``).
    """
    half = float(t.ppf(0.975, len(differences) - 1)) * _standard_error(differences, overlap)
    return mean(differences) - half, mean(differences) + half


def _p_value(differences: Sequence[float], overlap: float, margin: float) -> float:
    """Two-sided p value of the t test that belongs to `interval`."""
    error, value = _standard_error(differences, overlap), mean(differences) + margin
    if error == 0:
        return float(value == 0)
    return float(2 * t.sf(abs(value) / error, len(differences) - 1))


def _standard_error(differences: Sequence[float], overlap: float) -> float:
    return stdev(differences) * math.sqrt(1 / len(differences) + overlap)


def mark(sign: int, metric: str) -> str:
    """▲ (better) or ▼ (worse) for a difference above (1) or below (-1) zero, by the metric's direction; "" for 0."""
    cost = column(metric).cost
    return "" if not sign else BETTER if cost(1.0 + sign) < cost(1.0) else WORSE
