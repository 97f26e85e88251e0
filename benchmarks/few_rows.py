"""Calibrators on few rows: how much worse than no calibrator can luck make them?

    python benchmarks/few_rows.py            # 1,000 fits a cell; minutes
    python benchmarks/few_rows.py --fits 100

Models are simulated: latent ordinal grades and plain normal logits, calibrated, too sharp (x 3, x 2.5) and too flat
(x 0.5). A cell shows the median and the 99th percentile of the test NLL over the fits, minus that of the model as it
comes; "p < 1e-12" is the share of fits that give some test row's true class less.
"""

import argparse
import warnings

import numpy as np
from scipy.special import ndtr, ndtri

from orcu import calibrators, geometry

ROWS = (10, 40, 100)
METHODS = ("temperature", "vector", "gap", "ordinal_dirichlet", "dirichlet")
WORLDS = ("latent", "sharp latent", "latent x 0.5", "latent x 3", "normal", "normal x 2.5")
TEST_ROWS = 4000


def world(kind: str, num_classes: int, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Logits of a model, and labels: drawn from what the logits say before a factor and some noise."""
    if "latent" in kind:
        mean = 1.5 * rng.normal(size=(rows, 1))
        cuts = 1.8 * ndtri(np.arange(1, num_classes) / num_classes)
        below = ndtr((cuts - mean) / (0.3 if "sharp" in kind else 0.8))
        bounds = np.concatenate([np.zeros((rows, 1)), below, np.ones((rows, 1))], axis=1)
        probs = np.diff(bounds, axis=1).clip(1e-6)
        probs /= probs.sum(axis=1, keepdims=True)
        logits = np.log(probs)
    else:
        logits = 2 * rng.normal(size=(rows, num_classes))
        probs = geometry.probs(logits)
    y = (rng.random((rows, 1)) > probs.cumsum(axis=1)[:, :-1]).sum(axis=1)
    factor = float(kind.split(" x ")[1]) if " x " in kind else 1.0
    return factor * logits + 0.3 * rng.normal(size=logits.shape), y


def excess(method: str, kind: str, rows: int, fits: int, num_classes: int = 5) -> tuple[np.ndarray, float]:
    """The test NLL of each fit minus that of the model as it comes, and how often a true class gets below 1e-12."""
    rng = np.random.default_rng(0)
    logits, y = world(kind, num_classes, TEST_ROWS, rng)
    everyone = np.arange(TEST_ROWS)
    before = -geometry.log_probs(logits)[everyone, y].mean()
    losses, tiny = [], 0
    for _ in range(fits):
        fitted = calibrators.create(method).fit(*world(kind, num_classes, rows, rng))
        own = geometry.log_probs(fitted.predict_logits(logits))[everyone, y]
        losses.append(-own.mean())
        tiny += own.min() < np.log(1e-12)
    return np.array(losses) - before, tiny / fits


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=1000)
    parser.add_argument("--classes", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore", calibrators.CalibrationWarning)
    print(f"{options.classes} classes, {options.fits} fits: median / 99th percentile of the excess NLL (p < 1e-12)\n")
    print(f"| model | rows | {' | '.join(METHODS)} |\n|---|---:|{'---:|' * len(METHODS)}")
    for kind in WORLDS:
        for rows in ROWS:
            cells = []
            for method in METHODS:
                over, tiny = excess(method, kind, rows, options.fits, options.classes)
                cells.append(f"{np.median(over):+.3f} / {np.quantile(over, 0.99):+.3f} ({tiny:.1%})")
            print(f"| {kind} | {rows} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
