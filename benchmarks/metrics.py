"""Time of the metrics on 1,000,000 x 8 relative to plain numpy formulas, on one thread.

    python benchmarks/metrics.py    # or: make bench

The references are short vectorised formulas on valid arrays: no checks, no weights. orcu is timed twice: on checked
rows, and through its public functions, including checks. Rounds interleave the candidates, so that other load affects
all of them equally; medians of process time are compared. Other libraries have other conventions; their values are
printed.
"""

import argparse
import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from losses import median_times
from rich.console import Console
from rich.table import Table

from orcu import metrics
from orcu.metrics.base import METRICS
from orcu.metrics.rows import Rows, confusion_counts
from orcu.metrics.sums import Sums, row_sums

BINS = 15
EDGES = np.arange(1, BINS) / BINS


def sample(rows: int, num_classes: int) -> tuple[Any, Any]:
    """Over-confident predictions and labels."""
    rng = np.random.default_rng(0)
    logits = rng.normal(scale=2, size=(rows, num_classes))
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random(rows)[:, None] > np.cumsum(np.sqrt(probs) / np.sqrt(probs).sum(1, keepdims=True), 1)[:, :-1]).sum(1)
    return probs, y


def reference_ece(probs: Any, y: Any) -> float:
    """ECE from one weighted count of correct - confidence."""
    confidence, right = probs.max(1), probs.argmax(1) == y
    gaps = np.bincount(np.searchsorted(EDGES, confidence), weights=right - confidence, minlength=BINS)
    return float(np.abs(gaps).sum() / len(y))


def reference_sce(probs: Any, y: Any) -> float:
    """SCE from one weighted count per class."""
    total = 0.0
    for k in range(probs.shape[1]):
        gap = (y == k) - probs[:, k]
        total += np.abs(np.bincount(np.searchsorted(EDGES, probs[:, k]), weights=gap, minlength=BINS)).sum()
    return float(total / probs.size)


def reference_rps(probs: Any, y: Any) -> float:
    """RPS from cumulative sums."""
    outcome = y[:, None] <= np.arange(probs.shape[1] - 1)
    return float(((probs.cumsum(1)[:, :-1] - outcome) ** 2).sum(1).mean())


def reference_qwk(pred: Any, y: Any) -> float:
    """QWK from one count of pairs."""
    size = 8
    counts = np.bincount(y * size + pred, minlength=size**2).reshape(size, size)
    cost = (np.arange(size)[:, None] - np.arange(size)) ** 2
    return float(1 - (cost * counts).sum() * len(y) / (cost * np.outer(counts.sum(1), counts.sum(0))).sum())


def reference_unimodality(probs: Any) -> float:
    """Unimodality: increasing before the argmax and decreasing after it."""
    step = np.diff(probs, axis=1)
    after = np.arange(probs.shape[1] - 1) >= probs.argmax(1)[:, None]
    return float(np.where(after, step <= 0, step >= 0).all(1).mean())


def candidates(probs: Any, y: Any) -> dict[str, dict[str, Callable[[], Any]]]:
    """Functions of each metric: the reference, orcu, and the other installed libraries."""
    pred = probs.argmax(1)

    def on_rows(name: str) -> Callable[[], float]:
        return lambda: float(METRICS.get(name)(row_sums(Rows(probs, y), BINS)))

    def on_decisions() -> float:
        return float(METRICS.get("qwk")(Sums({"confusion": confusion_counts(pred, y, 8)}.__getitem__)))

    contenders: dict[str, dict[str, Callable[[], Any]]] = {
        "ECE": {
            "reference": lambda: reference_ece(probs, y),
            "orcu, checked rows": on_rows("ece"),
            "orcu": lambda: metrics.ece(probs, y),
        },
        "SCE": {
            "reference": lambda: reference_sce(probs, y),
            "orcu, checked rows": on_rows("sce"),
            "orcu": lambda: metrics.sce(probs, y),
        },
        "RPS": {
            "reference": lambda: reference_rps(probs, y),
            "orcu, checked rows": on_rows("rps"),
            "orcu": lambda: metrics.rps(probs, y),
        },
        "QWK": {
            "reference": lambda: reference_qwk(pred, y),
            "orcu, checked rows": on_decisions,
            "orcu": lambda: metrics.qwk(y=y, pred=pred),
        },
        "unimodality": {
            "reference": lambda: reference_unimodality(probs),
            "orcu, checked rows": on_rows("unimodality"),
            "orcu": lambda: metrics.unimodality(probs),
        },
    }
    if importlib.util.find_spec("torchmetrics"):
        import torch
        from torchmetrics.functional.classification import multiclass_calibration_error, multiclass_cohen_kappa

        torch.set_num_threads(1)
        p32, labels, decided = torch.tensor(probs).float(), torch.tensor(y), torch.tensor(pred)
        contenders["ECE"]["torchmetrics"] = lambda: multiclass_calibration_error(p32, labels, 8, n_bins=BINS)
        contenders["QWK"]["torchmetrics"] = lambda: multiclass_cohen_kappa(decided, labels, 8, weights="quadratic")
    if importlib.util.find_spec("netcal"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from netcal.metrics import ECE

        contenders["ECE"]["netcal"] = lambda: ECE(BINS).measure(probs, y)
    if importlib.util.find_spec("sklearn"):
        from sklearn.metrics import cohen_kappa_score

        contenders["QWK"]["scikit-learn"] = lambda: cohen_kappa_score(y, pred, weights="quadratic")
    if importlib.util.find_spec("dlordinal"):
        from dlordinal.metrics import ranked_probability_score

        contenders["RPS"]["dlordinal"] = lambda: ranked_probability_score(y, probs)
    if importlib.util.find_spec("skordinal"):
        from skordinal.metrics import ranked_probability_score as skordinal_rps

        contenders["RPS"]["skordinal"] = lambda: skordinal_rps(y, probs)
    if importlib.util.find_spec("mapie"):
        from mapie.metrics.calibration import expected_calibration_error

        contenders["ECE"]["MAPIE"] = lambda: expected_calibration_error(
            (pred == y).astype(int), probs.max(1), num_bins=BINS, split_strategy="uniform"
        )
        contenders["SCE"]["MAPIE"] = lambda: expected_calibration_error(
            pred == y, probs, num_bins=BINS, split_strategy="uniform", classwise=True, class_labels=y
        )
    if importlib.util.find_spec("torch_uncertainty"):
        import torch
        from torch_uncertainty.metrics import ClasswiseCalibrationError

        def classwise() -> Any:
            metric = ClasswiseCalibrationError(num_classes=8, num_bins=BINS)
            metric.update(torch.tensor(probs).float(), torch.tensor(y))
            return metric.compute()

        contenders["SCE"]["TorchUncertainty"] = classwise
    return contenders


def main() -> None:
    """Print a table of all metrics."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    probs, y = sample(options.rows, 8)
    table = Table(title=f"{options.rows:,} x 8, CPU time, median of {options.rounds} interleaved rounds")
    for heading in ("metric", "who", "ms", "ratio", "value"):
        table.add_column(heading, justify="left" if heading in {"metric", "who"} else "right")
    for name, contenders in candidates(probs, y).items():
        times = median_times(contenders, repeats=1, rounds=options.rounds)
        for who, seconds in times.items():
            ratio = seconds / times["reference"]
            table.add_row(name, who, f"{1e3 * seconds:.1f}", f"{ratio:.2f}", f"{float(contenders[who]()):.7f}")
            name = ""
        table.add_section()
    Console().print(table)


if __name__ == "__main__":
    main()
