"""Calibrators with few rows: distribution of the excess NLL over the uncalibrated model.

    python benchmarks/few_rows.py            # 1,000 fits per cell; minutes
    python benchmarks/few_rows.py --fits 100

Models are simulated: latent ordinal grades and normal logits; calibrated, over-confident (x 3, x 2.5) and
under-confident (x 0.5). A cell has the median and the 99th percentile over the fits of the test NLL minus that of the
uncalibrated model; "p < 1e-12" is the share of fits with a smaller probability of a true class in some test row.
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
    """Logits and labels of a model; labels are drawn from the softmax before a factor and noise are applied."""
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
    """Excess test NLL of each fit, and the share of fits with a probability below 1e-12 for a true class."""
    rng = np.random.default_rng(0)
    logits, y = world(kind, num_classes, TEST_ROWS, rng)
    rows_ = np.arange(TEST_ROWS)
    before = -geometry.log_probs(logits)[rows_, y].mean()
    losses, tiny = [], 0
    for _ in range(fits):
        fitted = calibrators.create(method).fit(*world(kind, num_classes, rows, rng))
        log_probs = geometry.log_probs(fitted.predict_logits(logits))[rows_, y]
        losses.append(-log_probs.mean())
        tiny += log_probs.min() < np.log(1e-12)
    return np.array(losses) - before, tiny / fits


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=1000)
    parser.add_argument("--num-classes", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore", calibrators.CalibrationWarning)
    print(f"{options.num_classes} classes, {options.fits} fits: median / 99th percentile of excess NLL (p < 1e-12)\n")
    print(f"| model | rows | {' | '.join(METHODS)} |\n|---|---:|{'---:|' * len(METHODS)}")
    for kind in WORLDS:
        for rows in ROWS:
            cells = []
            for method in METHODS:
                over, tiny = excess(method, kind, rows, options.fits, options.num_classes)
                cells.append(f"{np.median(over):+.3f} / {np.quantile(over, 0.99):+.3f} ({tiny:.1%})")
            print(f"| {kind} | {rows} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
