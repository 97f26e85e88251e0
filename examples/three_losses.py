"""Train the same small network with three losses on four real ordinal tables and compare them.

    python examples/three_losses.py

The tables come with the package skordinal: lecturers graded by students (LEV), the risk to
children judged by social workers (SWD), job applicants matched to posts (ESL) and job offers rated
by applicants (ERA). Five folds; every loss sees the same folds, batches and initial weights.

The predictions for the test folds are kept in build/three_losses, and judged there in a report.
"""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table
from skordinal.datasets import load_era, load_esl, load_lev, load_swd
from torch import Tensor, nn

from orcu import Predictions, evaluate, losses, metrics
from orcu.calibrators.cross_validation import stratified_folds
from orcu.report import write

DATA: dict[str, Callable] = {"LEV": load_lev, "SWD": load_swd, "ESL": load_esl, "ERA": load_era}
LOSSES = ["ce", "sord", "orcu"]
FOLDS = 5
EPOCHS = 50
BATCH = 64
KEPT = Path("build/three_losses")
JUDGED = "SWD"  # the table whose predictions the report judges

# heading -> (metric, factor and digits in print, which way is better)
COLUMNS = {
    "accuracy\n% ↑": (metrics.accuracy, 100, 1, max),
    "MAE\nclasses ↓": (metrics.mae, 1, 3, min),
    "ECE\n% ↓": (metrics.ece, 100, 1, min),
    "SCE\n% ↓": (metrics.sce, 100, 1, min),
    "unimodal\n% ↑": (lambda probs, y: metrics.unimodality(probs), 100, 1, max),
}


def train(loss: str, x: Tensor, y: Tensor, num_classes: int, seed: int) -> nn.Module:
    """A small network trained with the named loss."""
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


def predictions(loss: str, x: np.ndarray, y: np.ndarray, num_classes: int, test: np.ndarray, seed: int) -> np.ndarray:
    """Logits for the test rows from a network trained on the others."""
    seen = ~test
    scaled = torch.from_numpy((x - x[seen].mean(0)) / x[seen].std(0))
    model = train(loss, scaled[seen], torch.from_numpy(y)[seen], num_classes, seed)
    with torch.no_grad():
        return model(scaled[test]).double().numpy()


def main() -> None:
    """Run the comparison and print the table."""
    started = time.perf_counter()
    torch.set_num_threads(1)  # the networks are too small for more
    table = Table(title=f"Mean ± standard deviation over {FOLDS} test folds", box=box.SIMPLE_HEAD, padding=(0, 1))
    for heading in ("data", "loss", *COLUMNS):
        table.add_column(heading, justify="left" if heading in ("data", "loss") else "right", no_wrap=True)

    runs = [(name, loss, fold) for name in DATA for loss in LOSSES for fold in range(FOLDS)]
    results: dict[tuple[str, str], list[list[float]]] = {}
    kept: dict[tuple[str, str], np.ndarray] = {}  # logits of all rows, each from its test fold
    for name, loss, fold in track(runs, description="training", transient=True):
        data = DATA[name]()
        x, y = np.asarray(data.data, np.float32), np.asarray(data.target, np.int64)
        test = stratified_folds(y, FOLDS, random_state=0) == fold
        logits = predictions(loss, x, y, data.n_classes, test, seed=fold)
        probs = torch.from_numpy(logits).softmax(-1)
        row = [metric(probs, y[test]) for metric, *_ in COLUMNS.values()]
        results.setdefault((name, loss), []).append(row)
        kept.setdefault((name, loss), np.zeros((len(y), data.n_classes)))[test] = logits

    for name in DATA:
        means = {loss: np.mean(results[name, loss], axis=0) for loss in LOSSES}
        for loss in LOSSES:
            spread = np.std(results[name, loss], axis=0, ddof=1)
            cells = []
            for i, (_, factor, digits, better) in enumerate(COLUMNS.values()):
                cell = f"{factor * means[loss][i]:.{digits}f} ±{factor * spread[i]:.{digits}f}"
                best = means[loss][i] == better(means[other][i] for other in LOSSES)
                cells.append(f"[bold green]{cell}[/]" if best else cell)
            table.add_row(name if loss == LOSSES[0] else "", loss, *cells, end_section=loss == LOSSES[-1])

    console = Console()
    console.print(table)
    seconds = time.perf_counter() - started
    report = judge(kept)
    console.print(
        f"{len(runs)} networks in {seconds:.0f} s; the best of each column is green.\n"
        "ECE and SCE: how far probabilities are from what happens. Unimodal: rows whose mass falls off "
        "away from the mode.\n\n"
        f"The predictions are in {KEPT}, and {report} judges those on {JUDGED}. Judge others yourself:\n"
        f"  .venv/bin/orcu evaluate {KEPT}/LEV-orcu.parquet --compare {KEPT}/LEV-ce.parquet "
        "--report lev.html",
        highlight=False,
        soft_wrap=True,
    )


def judge(kept: dict[tuple[str, str], np.ndarray]) -> Path:
    """Keep all predictions as Parquet files, and write the report on one table."""
    KEPT.mkdir(parents=True, exist_ok=True)
    told = {}
    for (name, loss), logits in kept.items():
        y = np.asarray(DATA[name]().target, np.int64)
        told[name, loss] = Predictions(logits=logits, y=y, ids=np.arange(len(y)))
        told[name, loss].write(KEPT / f"{name}-{loss}.parquet")
    others = {loss: told[JUDGED, loss] for loss in LOSSES if loss != "orcu"}
    found = evaluate(told[JUDGED, "orcu"], compare=others, name="orcu")
    write(found, KEPT / "report.html")
    return KEPT / "report.html"


if __name__ == "__main__":
    main()
