"""How often prediction sets hold the truth: CV+ from out-of-fold predictions beside sets on rows of their own.

    python benchmarks/sets.py [--draws 100] [--tables DIR]

Simulated grades (four classes, noisy; ensembles of `OrdinalClassifier`'s networks, no trees) at n = 50, 200 and 1000
rows to fit on, and, with the folder of `benchmarks/defaults.py`, the real tables in five folds. A cell is coverage % at
1 - alpha = 90 %, with the mean number of classes in a set; the simulation's standard error is below 0.5 points.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from defaults import AbsentError, divided, tasks

from orcu import OrdinalClassifier

ALPHA, NEW = 0.1, 500
QUICK = {"members": "network", "hidden": (16,), "epochs": 15, "learning_rate": 0.02}


def sample(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of four numbers, of which two tell of the grade."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4))
    return x, np.digitize(x[:, 0] - x[:, 1] + rng.normal(size=rows), [-1.5, 0, 1.5])


def covered(model: OrdinalClassifier, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The share of rows whose class is in its set, and the mean size."""
    low, high = model.predict_sets(x, ALPHA).T.astype(int)
    return float(((low <= y) & (y <= high)).mean()), float((high - low + 1).mean())


def main() -> None:
    """Print the lines."""
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
                share = max(0.1, 20 / rows)  # twenty rows or more for the threshold
                model = OrdinalClassifier(**QUICK, sets=sets, calibration_fraction=min(share, 0.4), random_state=draw)
                coverages.append(covered(model.fit(x[:rows], y[:rows]), x[rows:], y[rows:]))
            coverage, size = np.mean(coverages, axis=0)
            cells.append(f"{sets} {100 * coverage:.1f} % ({size:.2f})")
        print(f"simulated, {rows} rows: {', '.join(cells)}", flush=True)
    if options.tables is None:
        return
    for task, load in tasks(options.tables).items():
        try:
            x, y = load()
        except (AbsentError, ImportError) as reason:
            print(f"{task}: left out, {reason}")
            continue
        if isinstance(x, np.ndarray):
            continue
        cells = []
        for sets in ("cv+", "split"):
            coverages = []
            for fit, judge in divided(y, 5):
                model = OrdinalClassifier(members="network", sets=sets, epochs=20, random_state=0).fit(
                    x.iloc[fit], y[fit]
                )
                coverages.append(covered(model, x.iloc[judge], y[judge]))
            coverage, size = np.mean(coverages, axis=0)
            cells.append(f"{sets} {100 * coverage:.1f} % ({size:.2f})")
        print(f"{task}: {', '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
