"""Coverage of prediction sets: CV+ from out-of-fold predictions, and split conformal sets.

    python benchmarks/sets.py [--draws 100] [--tables DIR]

Simulated grades (four classes, noisy; `OrdinalClassifier` with networks only) with n = 50, 200 and 1000 training rows,
and with the folder of `benchmarks/defaults.py` the real tables in five folds. A cell has the coverage at 1 - alpha = 90
% and the mean number of classes in a set; the standard error of the simulation is below 0.5 points.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from defaults import AbsentError, split_folds, tasks

from orcu import OrdinalClassifier

ALPHA, NEW = 0.1, 500
QUICK = {"estimators": "network", "hidden_layer_sizes": (16,), "epochs": 15, "learning_rate": 0.02}


def sample(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of four numbers, two of them informative."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4))
    return x, np.digitize(x[:, 0] - x[:, 1] + rng.normal(size=rows), [-1.5, 0, 1.5])


def coverage_and_size(model: OrdinalClassifier, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Coverage and mean size of the prediction sets."""
    low, high = model.predict_sets(x, ALPHA).T.astype(int)
    return float(((low <= y) & (y <= high)).mean()), float((high - low + 1).mean())


def main() -> None:
    """Print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--tables", type=Path, default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for rows in (50, 200, 1000):
        cells = []
        for sets in ("cv+", "split"):
            coverages = []
            for draw in range(options.draws):
                x, y = sample(rows + NEW, draw)
                share = max(0.1, 20 / rows)  # at least twenty calibration rows
                model = OrdinalClassifier(**QUICK, sets=sets, calibration_fraction=min(share, 0.4), random_state=draw)
                coverages.append(coverage_and_size(model.fit(x[:rows], y[:rows]), x[rows:], y[rows:]))
            coverage, size = np.mean(coverages, axis=0)
            cells.append(f"{sets} {100 * coverage:.1f} % ({size:.2f})")
        print(f"simulated, {rows} rows: {', '.join(cells)}", flush=True)
    if options.tables is None:
        return
    for task, load in tasks(options.tables).items():
        try:
            x, y = load()
        except (AbsentError, ImportError) as reason:
            print(f"{task}: skipped, {reason}")
            continue
        if isinstance(x, np.ndarray):
            continue
        cells = []
        for sets in ("cv+", "split"):
            coverages = []
            for train, test in split_folds(y, 5):
                model = OrdinalClassifier(estimators="network", sets=sets, epochs=20, random_state=0).fit(
                    x.iloc[train], y[train]
                )
                coverages.append(coverage_and_size(model, x.iloc[test], y[test]))
            coverage, size = np.mean(coverages, axis=0)
            cells.append(f"{sets} {100 * coverage:.1f} % ({size:.2f})")
        print(f"{task}: {', '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
