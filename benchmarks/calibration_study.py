"""All calibrators after CE, SORD and ORCU on real ordinal tables: calibration errors and unimodality.

    python benchmarks/calibration_study.py --tables DIR    # minutes
    python benchmarks/calibration_study.py --quick         # one table, one seed
    python benchmarks/calibration_study.py --markdown      # rows of docs/calibrators.md

Each network is trained on three fifths of the rows, each calibrator is fitted on one fifth, and all are evaluated on
the last fifth. LEV and SWD come with skordinal; red wine needs DIR/winequality-red.csv (UCI), diamonds need plotnine.
"""

import argparse
import importlib.util
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from skordinal.datasets import load_lev, load_swd
from torch import nn

from orcu import calibrators, geometry, losses, metrics
from orcu.report import text_tables

LOSSES = ("ce", "sord", "orcu")
METHODS = (
    "none",
    "temperature",
    "vector",
    "dirichlet",
    "ordinal_dirichlet",
    "gap",
    "projection",
    "temperature+projection",
    "dirichlet+projection",
    "ordinal_dirichlet+projection",
    "gap+projection",
)
DOCUMENTED = ("none", "temperature", "dirichlet", "gap", "dirichlet+projection", "gap+projection")
COLUMNS = ("accuracy", "mae", "ece", "sce", "unimodality", "nll", "rps")
EPOCHS = 60


def skordinal_table(load: Callable) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of a data set of skordinal."""
    data = load()
    return np.asarray(data.data, np.float32), np.asarray(data.target, np.int64)


def wine(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Red wine quality (UCI): 1599 wines, six levels."""
    import csv

    lines = path.read_text().splitlines()
    rows = list(csv.reader(lines, delimiter=";" if ";" in lines[0] else ","))[1:]
    table = np.array(rows, dtype=np.float32)
    return table[:, :-1], table[:, -1].astype(np.int64) - int(table[:, -1].min())


def diamonds() -> tuple[np.ndarray, np.ndarray]:
    """Cut of 12,000 diamonds: five levels, from price and measures."""
    from plotnine.data import diamonds as frame

    part = frame.sample(12_000, random_state=0)
    numbers = part[["carat", "depth", "table", "price", "x", "y", "z"]].to_numpy(np.float32)
    grades = np.stack([part["color"].cat.codes, part["clarity"].cat.codes], axis=1).astype(np.float32)
    return np.concatenate([numbers, grades], axis=1), part["cut"].cat.codes.to_numpy(np.int64)


def tables(folder: Path | None) -> dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]]:
    """The available tables."""
    loaders = {"LEV": lambda: skordinal_table(load_lev), "SWD": lambda: skordinal_table(load_swd)}
    red = None if folder is None else folder / "winequality-red.csv"
    if red is not None and red.exists():
        loaders["wine red"] = lambda: wine(red)
    if importlib.util.find_spec("plotnine"):
        loaders["diamonds cut"] = diamonds
    return loaders


def logits_of(loss: str, x: np.ndarray, y: np.ndarray, seed: int, epochs: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Logits and labels of the calibration and the test rows of one network."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    train, calibration, test = np.split(order, [int(0.6 * len(y)), int(0.8 * len(y))])
    scaled = torch.from_numpy((x - x[train].mean(0)) / (x[train].std(0) + 1e-6))
    torch.manual_seed(seed)
    size = int(y.max()) + 1
    model = nn.Sequential(nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, size))
    criterion = losses.create(loss, num_classes=size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    rows, labels = scaled[train], torch.from_numpy(y)[train]
    for _ in range(epochs):
        for batch in torch.randperm(len(rows)).split(64):
            optimizer.zero_grad()
            criterion(model(rows[batch]), labels[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        out = model(scaled).double().numpy()
    return [(out[part], y[part]) for part in (calibration, test)]


def values(logits: np.ndarray, y: np.ndarray) -> list[float]:
    """Metrics of the table."""
    probs = np.exp(geometry.log_probs(logits))
    row = {name: getattr(metrics, name)(probs, y) for name in COLUMNS if name not in {"unimodality", "nll"}}
    row |= {"unimodality": metrics.unimodality(probs), "nll": metrics.nll(logits=logits, y=y)}
    return [row[name] for name in COLUMNS]


def format_means(runs: list[list[float]]) -> list[str]:
    """Means over seeds, shares in percent."""
    return [
        f"{100 * v:.1f}" if c in {"accuracy", "ece", "sce", "unimodality"} else f"{v:.3f}"
        for c, v in zip(COLUMNS, np.mean(runs, axis=0), strict=True)
    ]


def print_markdown(names: list[str], results: dict[tuple[str, str, str], list[list[float]]]) -> None:
    """Print the table of the documentation with the main methods."""
    headings = ["data", "loss", "calibrator", "accuracy %", "MAE", "ECE %", "SCE %", "unimodal %", "NLL", "RPS"]
    rows = []
    for (name, loss, method), runs in results.items():
        if method in DOCUMENTED and name in names:
            first = name if (loss, method) == (LOSSES[0], "none") else ""
            rows.append([first, loss if method == "none" else "", method, *format_means(runs)])
    print(text_tables.markdown(headings, rows, "lll" + "r" * len(COLUMNS)), end="")


def main() -> None:
    """Train, calibrate and evaluate; print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, help="folder with winequality-red.csv")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", calibrators.CalibrationWarning)
    loaders = tables(options.tables)
    names = ["LEV"] if options.quick else list(loaders)
    seeds = 1 if options.quick else options.seeds
    epochs = 5 if options.quick else EPOCHS
    runs = [(name, loss, seed) for name in names for loss in LOSSES for seed in range(seeds)]
    results: dict[tuple[str, str, str], list[list[float]]] = {}
    for name, loss, seed in track(runs, description="networks", transient=True):
        x, y = loaders[name]()
        long = len(y) > 5000
        (fit, fit_y), (test, test_y) = logits_of(loss, x, y, seed, epochs // 3 if long else epochs)
        for method in METHODS:
            calibrated = test
            if method != "none":
                calibrated = calibrators.create(method).fit(fit, fit_y).predict_logits(test)
            results.setdefault((name, loss, method), []).append(values(calibrated, test_y))
    if options.markdown:
        print_markdown(names, results)
        return
    for name in names:
        table = Table(title=f"{name}: means over {seeds} seeds")
        for heading in ("loss", "calibrator", *COLUMNS):
            table.add_column(heading, justify="left" if heading in {"loss", "calibrator"} else "right", no_wrap=True)
        for loss in LOSSES:
            for method in METHODS:
                cells = format_means(results[name, loss, method])
                table.add_row(loss if method == "none" else "", method, *cells)
            table.add_section()
        Console(width=130).print(table)


if __name__ == "__main__":
    main()
