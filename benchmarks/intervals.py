"""Coverage of 95 % intervals by simulation: orcu's and bootstrap percentile intervals.

    python benchmarks/intervals.py --sets 200

Each data set draws labels from an ordinal model, and evaluates the model with its logits scaled by a factor (1:
calibrated). The true value is the binned error of 2,000,000 rows.
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from orcu.evaluation.intervals import gap_interval, unit_sums
from orcu.evaluation.tally import Tally
from orcu.metrics.base import METRICS
from orcu.metrics.layout import Layout
from orcu.metrics.rows import Rows
from orcu.resampling import interval, resampled_sums

NAMES = ("ece", "sce", "ace", "threshold_ce", "mce")
LAYOUT = Layout(num_classes=5, n_bins=15)


def sample(rng: np.random.Generator, rows: int, factor: float) -> Rows:
    """Rows with their equal-count bins."""
    logits = -((np.arange(5) - rng.normal(2, 1.6, size=(rows, 1))) ** 2) / 1.5
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random(rows)[:, None] > np.cumsum(probs, 1)[:, :-1]).sum(1)
    sharp = np.exp(factor * (logits - logits.max(1, keepdims=True)))
    return Rows(sharp / sharp.sum(1, keepdims=True), y).with_adaptive_bins(15)


def truth(factor: float) -> dict[str, float]:
    """Errors of a very large sample."""
    tally = Tally(5)
    tally.add(sample(np.random.default_rng(1), 2_000_000, factor))
    return tally.compute()


def main() -> None:
    """Print coverage and mean width."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=200)
    options = parser.parse_args()
    table = Table(title=f"coverage of {options.sets} intervals (mean width)")
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
                sums = unit_sums(LAYOUT, sample(rng, rows, factor), np.arange(rows), rows)
                all_rows = LAYOUT.sums(np.asarray(sums.sum(0)).ravel())
                draws = LAYOUT.sums(resampled_sums(sums, 400, seed))
                for name in NAMES:
                    metric = METRICS.get(name)
                    value = float(metric(all_rows))
                    values[name] += value / options.sets
                    ours = gap_interval(metric.formula(all_rows), metric.formula(draws), metric.reduce)
                    for i, ends in enumerate((ours, interval(value, metric(draws)))):
                        # for a calibrated model the error of 2,000,000 rows is noise: a slack of 0.002
                        hits[name][i] += ends.low - 0.002 <= right[name] <= ends.high + 0.002
                        widths[name][i] += (ends.high - ends.low) / options.sets
            for name in NAMES:
                cells = [f"{h:.2f} ({w:.3f})" for h, w in zip(hits[name] / options.sets, widths[name], strict=True)]
                table.add_row(f"{factor:g}", f"{rows:,}", name, f"{right[name]:.4f}", f"{values[name]:.4f}", *cells)
        table.add_section()
    Console().print(table)


if __name__ == "__main__":
    main()
