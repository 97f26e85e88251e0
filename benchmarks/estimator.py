"""`OrdinalClassifier` beside other libraries on diamonds: seconds of a fit, and every metric of its test rows.

    python benchmarks/estimator.py [--quick]

The task is the `cut` of 53,940 diamonds (five classes) from the other columns; 80 % of the rows train. The
networks have one hidden layer of 256 units, batches of 128 rows and as many epochs; libraries without
one use their own defaults. All run in one process, on two threads.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from sklearn.compose import make_column_transformer
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from orcu import OrdinalClassifier, losses, metrics

EPOCHS, HIDDEN, BATCH = 10, 256, 128
COLUMNS = ("accuracy", "mae", "qwk", "nll", "rps", "ece", "sce", "unimodality")


def table() -> tuple[Any, np.ndarray]:
    """The frame without its label, and the cut as 0..4."""
    from plotnine.data import diamonds

    return diamonds.drop(columns="cut"), diamonds["cut"].cat.codes.to_numpy().astype(np.int64)


def of_skorch(loss: Callable[[], Any], x: np.ndarray, y: np.ndarray) -> Any:
    """Skorch's classifier around the same perceptron."""
    from skorch import NeuralNetClassifier

    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(x.shape[1], HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 5)
    )
    net = NeuralNetClassifier(
        module, criterion=loss, optimizer=torch.optim.AdamW, lr=3e-3, max_epochs=EPOCHS,
        batch_size=BATCH, verbose=0, predict_nonlinearity=lambda z: z.softmax(-1),
    )  # fmt: skip
    return net.fit(x.astype(np.float32), y)


def main() -> None:
    """Fit each, print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="5,000 rows, two epochs")
    quick = parser.parse_args().quick
    global EPOCHS
    EPOCHS = 2 if quick else EPOCHS
    warnings.simplefilter("ignore")
    torch.set_num_threads(2)
    frame, y = table()
    order = np.random.default_rng(0).permutation(len(y))[: 5000 if quick else None]
    cut = int(0.8 * len(order))
    train, test = order[:cut], order[cut:]
    encoder = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["color", "clarity"]), remainder=StandardScaler()
    )
    x = encoder.fit_transform(frame)
    options = {
        "hidden": (HIDDEN,), "batch_size": BATCH, "epochs": EPOCHS, "patience": None, "random_state": 0,
    }  # fmt: skip

    def ours(**more: Any) -> Callable[[], Any]:
        return lambda: OrdinalClassifier(**options | more).fit(frame.iloc[train], y[train])

    def dlordinal() -> Any:
        from dlordinal.losses import CDWCELoss

        return of_skorch(lambda: CDWCELoss(num_classes=5), x[train], y[train])

    def mord() -> Any:
        import mord as library

        return library.LogisticAT().fit(x[train], y[train])

    def skordinal() -> Any:
        from skordinal.classifiers import POM

        return POM().fit(x[train], y[train])

    makers: dict[str, tuple[Callable[[], Any], bool]] = {
        "orcu, s = 3, no calibrator": (ours(scale=3.0, calibrator=None), True),
        "orcu, auto scale, gap + projection": (ours(), True),
        "orcu's ce, gap + projection": (ours(loss="ce"), True),
        "skorch, cross-entropy": (lambda: of_skorch(torch.nn.CrossEntropyLoss, x[train], y[train]), False),
        "skorch, orcu's loss": (
            lambda: of_skorch(lambda: losses.create("orcu", num_classes=5), x[train], y[train]), False
        ),
        "skorch + dlordinal (CDW-CE)": (dlordinal, False),
        "scikit-learn's MLP": (
            lambda: MLPClassifier((HIDDEN,), batch_size=BATCH, max_iter=EPOCHS, random_state=0).fit(x[train], y[train]),
            False,
        ),
        "mord (LogisticAT)": (mord, False),
        "skordinal (POM)": (skordinal, False),
    }  # fmt: skip
    shown = Table(box=None, pad_edge=False)
    for heading in ("model", "seconds", *COLUMNS):
        shown.add_column(heading, justify="left" if heading == "model" else "right")
    for name, (make, framed) in makers.items():
        started = time.perf_counter()
        try:
            model = make()
        except Exception as error:
            shown.add_row(name, "-", f"failed: {type(error).__name__}: {error}"[:60])
            continue
        seconds = time.perf_counter() - started
        rows = frame.iloc[test] if framed else x[test].astype(np.float32)
        if not hasattr(model, "predict_proba"):
            shown.add_row(name, f"{seconds:.1f}", "no probabilities")
            continue
        probs = np.asarray(model.predict_proba(rows), dtype=np.float64)
        probs /= probs.sum(1, keepdims=True)
        values = [
            metrics.unimodality(probs)
            if c == "unimodality"
            else getattr(metrics, c)(probs, y[test])
            for c in COLUMNS
        ]
        shown.add_row(name, f"{seconds:.1f}", *(f"{value:.4f}" for value in values))
    Console(width=140).print(shown)


if __name__ == "__main__":
    main()
