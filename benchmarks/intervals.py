"""Coverage of 95 % intervals by simulation: orcu's and bootstrap percentile intervals.

    python benchmarks/intervals.py --sets 200
    python benchmarks/intervals.py --sets 150 --without-bins

Each data set draws labels from an ordinal model, and evaluates the model with its logits scaled by a factor (1:
calibrated). The true value is that of 2,000,000 rows. The second command measures the miscalibration and discrimination
of the ranked probability score (CORP), and the estimated calibration index (ECI) of each threshold.
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from orcu.evaluation.corp import corp
from orcu.evaluation.intervals import gap_interval, unit_sums
from orcu.evaluation.smooth_curves import smooth_calibration
from orcu.evaluation.tally import Tally
from orcu.metrics.base import METRICS
from orcu.metrics.corp import corp_fit
from orcu.metrics.layout import Layout
from orcu.metrics.rows import Rows
from orcu.metrics.smooth_curve import eci_of, smooth_fit
from orcu.resampling import Estimate, interval, resampled_sums

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


def without_bins(sets: int) -> None:
    """Print the coverage of the parts of the ranked probability score and of the estimated calibration index."""
    table = Table(title=f"coverage of {sets} intervals (mean width)")
    for heading in ("sharpened", "rows", "number", "truth", "mean value", "orcu"):
        table.add_column(heading, justify="right")
    for factor in (1.0, 1.25, 2.0):
        many = sample(np.random.default_rng(1), 2_000_000, factor)
        parts = np.sum(
            [corp_fit(1 - below, many.y > k, many.weights).parts for k, below in enumerate(many.cumulative)], 0
        )
        right = {"MCB": parts[0], "DSC": parts[1]}
        right |= {f"ECI {k + 1}": eci_of(many, k, smooth_fit(many, k)) for k in range(4)}
        for rows in (200, 2000):
            found = {name: list[Estimate]() for name in right}
            rng = np.random.default_rng(2)
            for seed in range(sets):
                data, unit = sample(rng, rows, factor), np.arange(rows)
                options = {"n_resamples": 400, "factor": 1.0, "random_state": seed}
                score = corp(data, unit, rows, clustered=False, **options).parts
                found["MCB"].append(score["miscalibration"])
                found["DSC"].append(score["discrimination"])
                for k, index in enumerate(smooth_calibration(data, unit, rows, **options).eci):
                    found[f"ECI {k + 1}"].append(index)
            for name, estimates in found.items():
                # for a calibrated model the values of 2,000,000 rows are noise: a slack of 0.0005
                hits = np.mean([e.low - 0.0005 <= right[name] <= e.high + 0.0005 for e in estimates])
                width, value = np.mean([(e.high - e.low, e.value) for e in estimates], axis=0)
                cells = (
                    f"{factor:g}",
                    f"{rows:,}",
                    name,
                    f"{right[name]:.4f}",
                    f"{value:.4f}",
                    f"{hits:.2f} ({width:.3f})",
                )
                table.add_row(*cells)
        table.add_section()
    Console().print(table)


def main() -> None:
    """Print coverage and mean width."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--without-bins", action="store_true")
    options = parser.parse_args()
    if options.without_bins:
        without_bins(options.sets)
        return
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
