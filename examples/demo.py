"""Train the same small network with three losses on real ordered labels and compare them.

    python examples/demo.py        # or: make demo

The data are 1,000 lecturers graded 0 to 4 by their students (LEV), which the package skordinal
brings along. Five folds; every model sees the same folds, batches and initial weights.
"""

import time

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from skordinal.datasets import load_lev
from torch import Tensor, nn

from orcu import losses, metrics

LOSSES = ["ce", "sord", "orcu"]
FOLDS = 5
EPOCHS = 100
BATCH = 64

# name in the table -> (metric, factor for print, unit, which way is better)
COLUMNS = {
    "accuracy": (metrics.accuracy, 100, "%", max),
    "MAE": (metrics.mae, 1, "classes", min),
    "ECE": (metrics.ece, 100, "%", min),
    "SCE": (metrics.sce, 100, "%", min),
    "unimodal": (lambda probs, y: metrics.unimodality(probs), 100, "%", max),
}


def stratified_folds(y: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """The fold of each row: every class is dealt out evenly, in random order."""
    order = np.random.default_rng(seed).permutation(len(y))
    fold = np.empty(len(y), dtype=int)
    fold[order[np.argsort(y[order], kind="stable")]] = np.arange(len(y)) % folds
    return fold


def train(loss: str, x: Tensor, y: Tensor, num_classes: int, seed: int) -> nn.Module:
    """A two-layer network trained with the named loss."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, num_classes)
    )
    criterion = losses.create(loss, num_classes=num_classes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            criterion(model(x[batch]), y[batch]).backward()
            optimizer.step()
    return model


def main() -> None:
    """Run the comparison and print the table."""
    started = time.perf_counter()
    torch.set_num_threads(1)  # the network is too small for more
    data = load_lev()
    x, y, num_classes = np.asarray(data.data, np.float32), np.asarray(data.target, int), data.n_classes
    fold = stratified_folds(y, FOLDS, seed=0)

    scores: dict[str, list[list[float]]] = {loss: [] for loss in LOSSES}
    runs = [(loss, test) for test in range(FOLDS) for loss in LOSSES]
    for loss, test in track(runs, description="training"):
        seen = fold != test
        center, spread = x[seen].mean(0), x[seen].std(0)
        inputs, labels = torch.from_numpy((x - center) / spread), torch.from_numpy(y)
        model = train(loss, inputs[seen], labels[seen], num_classes, seed=test)
        with torch.no_grad():
            probs = model(inputs[~seen]).double().softmax(-1).numpy()
        scores[loss].append([metric(probs, y[~seen]) for metric, *_ in COLUMNS.values()])

    table = Table(title=f"LEV: {len(y)} lecturers, {num_classes} grades, mean ± std of {FOLDS} test folds")
    table.add_column("loss")
    means = {loss: np.mean(rows, axis=0) for loss, rows in scores.items()}
    stds = {loss: np.std(rows, axis=0, ddof=1) for loss, rows in scores.items()}
    for name, (_, _, unit, better) in COLUMNS.items():
        table.add_column(f"{name}\n{unit} {'↑' if better is max else '↓'}", justify="right")
    for loss in LOSSES:
        cells = []
        for i, (_, factor, _, better) in enumerate(COLUMNS.values()):
            best = means[loss][i] == better(means[other][i] for other in LOSSES)
            digits = 1 if factor == 100 else 3
            cell = f"{factor * means[loss][i]:.{digits}f} ± {factor * stds[loss][i]:.{digits}f}"
            cells.append(f"[bold]{cell}[/]" if best else cell)
        table.add_row(loss, *cells)
    console = Console()
    console.print(table)
    console.print(f"{len(runs)} networks in {time.perf_counter() - started:.0f} s. Bold is best.", highlight=False)


if __name__ == "__main__":
    main()
