"""`OrdinalClassifier` and other libraries on the diamonds: fitting time and test metrics.

    python benchmarks/estimator.py [--quick]

The task is to predict the `cut` of 53,940 diamonds (five classes) from the other columns; 80 % of the rows are training
rows. The networks have one hidden layer of 256 units, batches of 128 rows, ten epochs and AdamW with learning rate
0.01. skorch uses a fifth of the training rows for validation; orcu a tenth, and a twentieth each for calibrator and
sets. The other models have their defaults. All run in one process on two threads, after a small warm-up fit.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from sklearn.compose import make_column_transformer
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from orcu import OrdinalClassifier, losses, metrics
from orcu.inputs import IntArray

EPOCHS, HIDDEN, BATCH, RATE = 10, 256, 128, 1e-2
COLUMNS = ("accuracy", "mae", "qwk", "nll", "rps", "ece", "sce", "unimodality")


def table() -> tuple[Any, np.ndarray]:
    """Features, and the cut as 0..4."""
    from plotnine.data import diamonds

    return diamonds.drop(columns="cut"), diamonds["cut"].cat.codes.to_numpy().astype(np.int64)


def fit_skorch(loss: Callable[[], Any], x: np.ndarray, y: np.ndarray) -> Any:
    """Fit a skorch classifier with the same perceptron."""
    from skorch import NeuralNetClassifier

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(x.shape[1], HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 5))
    net = NeuralNetClassifier(
        module,
        criterion=loss,
        optimizer=torch.optim.AdamW,
        lr=RATE,
        max_epochs=EPOCHS,
        batch_size=BATCH,
        verbose=0,
        predict_nonlinearity=lambda z: z.softmax(-1),
    )
    return net.fit(x.astype(np.float32), y)


class Task(NamedTuple):
    """The diamonds: features as a frame and as a matrix, the cut as 0..4, training rows and test rows."""

    frame: Any
    x: np.ndarray
    y: np.ndarray
    train: IntArray
    test: IntArray


def task(rows: int | None = None) -> Task:
    """The task with four fifths of the rows (or of ``rows`` random rows) as training rows."""
    frame, y = table()
    order = np.random.default_rng(0).permutation(len(y))[:rows]
    cut = int(0.8 * len(order))
    encoder = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["color", "clarity"]), remainder=StandardScaler()
    )
    return Task(frame, encoder.fit_transform(frame), y, order[:cut], order[cut:])


def fits(task: Task) -> dict[str, Callable[[IntArray], Any]]:
    """Functions that fit each model on some rows."""
    frame, x, y = task.frame, task.x, task.y
    options = {
        "hidden_layer_sizes": (HIDDEN,),
        "batch_size": BATCH,
        "epochs": EPOCHS,
        "learning_rate": RATE,
        "patience": None,
        "random_state": 0,
        "validation_fraction": 0.1,
        "calibration_fraction": 0.05,
    }

    def orcu_model(**more: Any) -> Callable[[IntArray], Any]:
        return lambda rows: OrdinalClassifier(**options | more).fit(frame.iloc[rows], y[rows])

    def skorch(loss: Callable[[], Any]) -> Callable[[IntArray], Any]:
        return lambda rows: fit_skorch(loss, x[rows], y[rows])

    def dlordinal(rows: IntArray) -> Any:
        from dlordinal.losses import CDWCELoss

        return fit_skorch(lambda: CDWCELoss(num_classes=5), x[rows], y[rows])

    def perceptron(rows: IntArray) -> Any:
        return MLPClassifier((HIDDEN,), batch_size=BATCH, max_iter=EPOCHS, random_state=0).fit(x[rows], y[rows])

    def mord(rows: IntArray) -> Any:
        import mord as library

        return library.LogisticAT().fit(x[rows], y[rows])

    def skordinal(rows: IntArray) -> Any:
        from skordinal.classifiers import POM

        return POM().fit(x[rows], y[rows])

    return {
        "orcu's ce, one network": orcu_model(loss="ce", cv=1),
        "skorch, cross-entropy": skorch(torch.nn.CrossEntropyLoss),
        "orcu, s = 3, one network": orcu_model(loss="orcu", scale=3.0, cv=1),
        "skorch, orcu's loss, s = 3": skorch(lambda: losses.create("orcu", num_classes=5)),
        "orcu, auto scale, one network": orcu_model(loss="orcu", cv=1),
        "orcu, an ensemble of networks": orcu_model(estimators="network"),
        "skorch + dlordinal (CDW-CE)": dlordinal,
        "scikit-learn's MLP": perceptron,
        "mord (LogisticAT)": mord,
        "skordinal (POM)": skordinal,
    }


def main() -> None:
    """Fit all models and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="5,000 rows, two epochs")
    quick = parser.parse_args().quick
    global EPOCHS
    EPOCHS = 2 if quick else EPOCHS
    warnings.simplefilter("ignore")
    torch.set_num_threads(2)
    diamonds = task(5000 if quick else None)
    frame, x, y, train, test = diamonds
    results = Table(box=None, pad_edge=False)
    for heading in ("model", "seconds", *COLUMNS):
        results.add_column(heading, justify="left" if heading == "model" else "right")
    for name, fit in fits(diamonds).items():
        fit(train[:1000])
        started = time.perf_counter()
        model = fit(train)
        seconds = time.perf_counter() - started
        print(f"{name}: {seconds:.1f} s", flush=True)
        uses_frame = isinstance(model, OrdinalClassifier)
        rows = frame.iloc[test] if uses_frame else x[test].astype(np.float32)
        probs = np.asarray(model.predict_proba(rows), dtype=np.float64)
        if not np.isfinite(probs).all():
            share = np.mean(~np.isfinite(probs).all(1))
            results.add_row(name, f"{seconds:.1f}", f"not finite: {share:.0%}")
            continue
        probs /= probs.sum(1, keepdims=True)
        values = [
            metrics.unimodality(probs) if c == "unimodality" else getattr(metrics, c)(probs, y[test]) for c in COLUMNS
        ]
        results.add_row(name, f"{seconds:.1f}", *(f"{value:.4f}" for value in values))
    Console(width=140).print(results)
    ensemble_cost(1000 if quick else 10_000)


def ensemble_cost(rows: int) -> None:
    """Print the fitting time of an ensemble (five folds, three losses) and of one network on all rows."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 1280)).astype(np.float32)
    y = np.digitize(x[:, :20].sum(axis=1) / 4.5 + 0.5 * rng.normal(size=rows), [-1, -0.3, 0.3, 1])
    options = {"epochs": EPOCHS, "patience": None, "calibrator": None, "random_state": 0}
    models = {
        "one network": OrdinalClassifier("ce", cv=1, validation_fraction=0, calibration_fraction=0, **options),
        "ensemble, 5 folds x 3 losses": OrdinalClassifier(**options),
    }
    seconds = {}
    for name, model in models.items():
        started = time.perf_counter()
        model.fit(x, y)
        seconds[name] = time.perf_counter() - started
    first, second = seconds.values()
    print(f"{rows:,} x 1,280 features: one network {first:.1f} s, ensemble {second:.1f} s, {second / first:.1f} times")


if __name__ == "__main__":
    main()
