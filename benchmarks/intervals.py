"""How often 95 % intervals hold the truth: orcu's against bootstrap percentiles, by simulation.

    python benchmarks/intervals.py --sets 200

Each set draws labels from an ordinal model's own distribution and judges that model sharpened by a
factor (1: calibrated). The truth is the binned error of 2,000,000 rows.
"""

import argparse
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from orcu.evaluation.intervals import gap_interval, interval, resampled_sums, unit_sums
from orcu.evaluation.tally import Tally
from orcu.metrics.base import METRICS
from orcu.metrics.binning import even_groups
from orcu.metrics.layout import Layout
from orcu.metrics.rows import Rows

NAMES = ("ece", "sce", "ace", "threshold_ce", "mce")
LAYOUT = Layout(num_classes=5, bins=15)


def sample(rng: np.random.Generator, rows: int, factor: float) -> tuple[Rows, Any]:
    """Rows and their equal-count groups."""
    logits = -((np.arange(5) - rng.normal(2, 1.6, size=(rows, 1))) ** 2) / 1.5
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random(rows)[:, None] > np.cumsum(probs, 1)[:, :-1]).sum(1)
    sharp = np.exp(factor * (logits - logits.max(1, keepdims=True)))
    made = Rows(sharp / sharp.sum(1, keepdims=True), y)
    return made, np.array([even_groups(column, 15) for column in made.columns])


def truth(factor: float) -> dict[str, float]:
    """The errors of very many rows."""
    rows, groups = sample(np.random.default_rng(1), 2_000_000, factor)
    tally = Tally(5)
    tally.add(rows, groups)
    return tally.compute()


def main() -> None:
    """Print coverage and mean width."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=200)
    options = parser.parse_args()
    table = Table(title=f"share of {options.sets} intervals that hold the true error (mean width)")
    for heading in ("sharpened", "rows", "error", "truth", "mean value", "orcu", "percentiles"):
        table.add_column(heading, justify="right")
    for factor in (1.0, 1.25, 2.0):
        right = truth(factor)
        for rows in (200, 2000):
            hits = {name: np.zeros(2) for name in NAMES}
            widths = {name: np.zeros(2) for name in NAMES}
            values = dict.fromkeys(NAMES, 0.0)
            rng = np.random.default_rng(2)
            for seed in range(options.sets):
                made, groups = sample(rng, rows, factor)
                sums = unit_sums(LAYOUT, made, groups, np.arange(rows), rows)
                all_rows = LAYOUT.tables(np.asarray(sums.sum(0)).ravel())
                draws = LAYOUT.tables(resampled_sums(sums, 400, seed))
                for name in NAMES:
                    metric = METRICS.get(name)
                    value = float(metric(all_rows))
                    values[name] += value / options.sets
                    ours = gap_interval(metric.from_tables(all_rows), metric.from_tables(draws), metric.reduce)
                    for i, found in enumerate((ours, interval(value, metric(draws)))):
                        # what 2,000,000 rows show of a calibrated model is noise: 0.002 of slack
                        hits[name][i] += found.low - 0.002 <= right[name] <= found.high + 0.002
                        widths[name][i] += (found.high - found.low) / options.sets
            for name in NAMES:
                cells = [f"{h:.2f} ({w:.3f})" for h, w in zip(hits[name] / options.sets, widths[name], strict=True)]
                table.add_row(f"{factor:g}", f"{rows:,}", name, f"{right[name]:.4f}", f"{values[name]:.4f}", *cells)
        table.add_section()
    Console().print(table)


if __name__ == "__main__":
    main()
