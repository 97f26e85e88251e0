"""Fitting time of the calibrators relative to scikit-learn's temperature scaling, on one thread.

    python benchmarks/calibrators.py    # or: make bench

Rounds interleave the candidates, so that other load affects all of them equally; medians of process time are compared.
netcal, probmetrics and TorchUncertainty are included if they are installed.
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
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from orcu import calibrators, metrics


class Logits(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose features are logits."""

    def fit(self, X: Any, y: Any) -> "Logits":
        """Store the classes."""
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: Any) -> Any:
        """Return the logits."""
        return X

    def predict(self, X: Any) -> Any:
        """Return the most probable class."""
        return self.classes_[X.argmax(1)]


def sample(rows: int, num_classes: int) -> tuple[Any, Any]:
    """Over-confident ordinal logits and labels."""
    rng = np.random.default_rng(0)
    logits = -((np.arange(num_classes) - rng.uniform(-0.5, num_classes - 0.5, size=(rows, 1))) ** 2) / 1.5
    logits += rng.normal(scale=0.3, size=logits.shape)
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return 2 * logits, (rng.random((rows, 1)) > np.cumsum(probs, 1)[:, :-1]).sum(1)


def candidates(logits: Any, y: Any, small: bool) -> dict[str, Callable[[], Any]]:
    """Fit functions of all installed calibrators; each returns calibrated probabilities of some rows."""
    few = logits[:1000]
    softmax = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))

    def ours(spec: Any) -> Callable[[], Any]:
        return lambda: calibrators.create(spec).fit(logits, y).predict_proba(few)

    def sklearn_temperature() -> Any:
        frozen = FrozenEstimator(Logits().fit(logits, y))
        fitted = CalibratedClassifierCV(frozen, method="temperature").fit(logits, y)
        return fitted.predict_proba(few)

    def projection() -> Any:
        return calibrators.create("projection").predict_proba(logits)[:1000]

    fits = {
        "scikit-learn: temperature": sklearn_temperature,
        "orcu: temperature": ours("temperature"),
        "orcu: vector": ours("vector"),
        "orcu: ordinal Dirichlet": ours("ordinal_dirichlet"),
        "orcu: Dirichlet": ours("dirichlet"),
        "orcu: gap": ours("gap"),
        "orcu: projection, applied": projection,
    }
    if small:
        fits["orcu: Dirichlet, 65 penalties cross-validated"] = ours({"name": "dirichlet", "select": "cv"})
    if importlib.util.find_spec("netcal") and small:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from netcal.scaling import TemperatureScaling

        def netcal_temperature() -> Any:
            fitted = TemperatureScaling()
            fitted.fit(softmax, y)
            return fitted.transform(softmax[:1000])

        fits["netcal: temperature"] = netcal_temperature
    if importlib.util.find_spec("probmetrics") and small:
        from probmetrics.calibrators import get_calibrator

        def probmetrics_temperature() -> Any:
            fitted = get_calibrator("temp-scaling")
            fitted.fit(softmax, y)
            return fitted.predict_proba(softmax[:1000])

        fits["probmetrics: temperature"] = probmetrics_temperature
    if importlib.util.find_spec("torch_uncertainty") and small:
        import torch
        from torch_uncertainty.post_processing import DirichletScaler, TemperatureScaler

        data = torch.utils.data.TensorDataset(torch.tensor(logits).float(), torch.tensor(y))

        def scaled(scaler: Any) -> Any:
            scaler.fit(torch.utils.data.DataLoader(data, batch_size=len(data)), progress=False)
            return scaler(torch.tensor(few).float()).softmax(-1).detach().numpy()

        fits["TorchUncertainty: temperature"] = lambda: scaled(TemperatureScaler(model=torch.nn.Identity()))
        fits["TorchUncertainty: Dirichlet"] = lambda: scaled(
            DirichletScaler(num_classes=logits.shape[1], model=torch.nn.Identity())
        )
    return fits


def main() -> None:
    """Print a table for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for rows, num_classes in ((10_000, 5), (1_000_000, 8)):
        logits, y = sample(rows, num_classes)
        contenders = candidates(logits, y, small=rows <= 10_000)
        times = median_times(contenders, repeats=1, rounds=options.rounds if rows <= 10_000 else 1)
        table = Table(title=f"fit on {rows:,} x {num_classes}, CPU time")
        for heading in ("who", "ms", "ratio", "NLL of 1000 rows"):
            table.add_column(heading, justify="left" if heading == "who" else "right", no_wrap=True)
        for who, seconds in times.items():
            probs = np.asarray(contenders[who](), dtype=np.float64)
            probs = probs / probs.sum(1, keepdims=True)
            ratio = seconds / times["scikit-learn: temperature"]
            table.add_row(who, f"{1e3 * seconds:.1f}", f"{ratio:.2f}", f"{metrics.nll(probs, y[:1000]):.4f}")
        Console(width=110).print(table)


if __name__ == "__main__":
    main()
