"""The default beside what people do today: same rows to fit on, same rows to judge, five folds, paired intervals.

    python benchmarks/defaults.py --tables DIR --results results/defaults [--tasks lev,wine] [--folds 5]
    python benchmarks/defaults.py --results results/defaults --write docs/results   # the tables

DIR holds winequality-red.csv, winequality-white.csv, car_evaluation.csv and abalone.csv (UCI); LEV, SWD, ERA, ESL, fair
and the diamonds come with packages of `orcu[data]`; images and texts are read from the store ($ORCU_DATA), as features
of a frozen backbone, where trees are not tried. A task whose data are not there is left out with a word, as is a method
that refuses a task. Predictions are kept file by file, so a run that was cut off goes on. Of the diamonds 12,000 rows
are used.
"""

import argparse
import csv
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from orcu import OrdinalBoosting, OrdinalClassifier, calibrators, metrics
from orcu.decisions.rules import decide_checked
from orcu.evaluation.comparison import paired_differences
from orcu.evaluation.evidence import gather
from orcu.inputs import FloatArray, IntArray
from orcu.predictions.predictions import Predictions
from orcu.tables.files import replacing

DEFAULT = "orcu, default"
TREES = "orcu, OrdinalBoosting"
JUDGED = ("rps", "nll", "sce", "accuracy", "mae")
LOWER = ("rps", "nll", "sce", "mae")
FOLDS, SEED, MOST_ROWS = 5, 0, 12_000


class AbsentError(Exception):
    """The data of a task are not on this machine."""


def _csv(folder: Path | None, name: str) -> Any:
    import pandas as pd

    if folder is None or not (folder / name).exists():
        raise AbsentError(f"{name} is not in --tables")
    head = (folder / name).read_text(encoding="utf-8").splitlines()[0]
    return pd.read_csv(folder / name, sep=";" if ";" in head else ",")


def _codes(values: Any) -> IntArray:
    return np.unique(np.asarray(values), return_inverse=True)[1].astype(np.int64)


def _packaged(name: str) -> tuple[Any, IntArray]:
    import pandas as pd
    import skordinal.datasets

    bunch = getattr(skordinal.datasets, f"load_{name}")()
    return pd.DataFrame(np.asarray(bunch.data)).rename(columns=str), _codes(bunch.target)


def _wine(folder: Path | None, colour: str) -> tuple[Any, IntArray]:
    frame = _csv(folder, f"winequality-{colour}.csv")
    return frame.drop(columns="quality"), _codes(frame["quality"])


def _fair() -> tuple[Any, IntArray]:
    import statsmodels.api as sm

    frame = sm.datasets.fair.load_pandas().data
    return frame.drop(columns="rate_marriage"), _codes(frame["rate_marriage"])


def _car(folder: Path | None) -> tuple[Any, IntArray]:
    frame, order = _csv(folder, "car_evaluation.csv"), ["unacc", "acc", "good", "vgood"]
    return frame.drop(columns="class"), np.array([order.index(one) for one in frame["class"]])


def _abalone(folder: Path | None) -> tuple[Any, IntArray]:
    frame = _csv(folder, "abalone.csv")
    rings = frame["Rings"].to_numpy()
    eighths = np.unique(np.quantile(rings, np.arange(1, 8) / 8))  # two of them are the same number of rings
    return frame.drop(columns="Rings"), _codes(np.digitize(rings, eighths))


def _diamonds(label: str) -> tuple[Any, IntArray]:
    from plotnine.data import diamonds

    rows = np.random.default_rng(SEED).permutation(len(diamonds))[:MOST_ROWS]
    frame = diamonds.iloc[rows].reset_index(drop=True)
    return frame.drop(columns=label), frame[label].cat.codes.to_numpy().astype(np.int64)


def _features(name: str, backbone: str, size: int = 128) -> tuple[Any, IntArray]:
    """Features of a frozen backbone, of a data set in the store."""
    from orcu.data.store import MANIFEST, load, store_folder
    from orcu.training.run import Run, Settings

    if not (store_folder() / name / MANIFEST).exists():
        raise AbsentError(f"{name} is not prepared: orcu data prepare {name}")
    prepared = load(store_folder() / name)
    everything = np.arange(len(prepared.manifest.labels))
    prepared.decode(size)
    settings = Settings(frozen=True, backbone=backbone, size=size)
    run = Run(prepared, {"train": everything, "validation": everything, "test": everything}, settings, device="cpu")
    return run.features().numpy(), prepared.manifest.labels


def tasks(folder: Path | None) -> dict[str, Callable[[], tuple[Any, IntArray]]]:
    """Every task: a frame or a matrix, and labels 0..C-1."""
    return {
        "LEV": lambda: _packaged("lev"),
        "SWD": lambda: _packaged("swd"),
        "ERA": lambda: _packaged("era"),
        "ESL": lambda: _packaged("esl"),
        "wine, red": lambda: _wine(folder, "red"),
        "wine, white": lambda: _wine(folder, "white"),
        "fair": _fair,
        "car": lambda: _car(folder),
        "abalone": lambda: _abalone(folder),
        "diamonds, cut": lambda: _diamonds("cut"),
        "diamonds, clarity": lambda: _diamonds("clarity"),
        "ELPV": lambda: _features("elpv", "efficientnet_lite0"),
        "APTOS": lambda: _features("aptos2019", "efficientnet_lite0"),
        "RetinaMNIST": lambda: _features("retinamnist", "efficientnet_lite0", size=28),
        "SST-5": lambda: _features("sst5", "minilm"),
    }


def _encoder(x: Any) -> Any:
    """What scikit-learn's own estimators need before them."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    if isinstance(x, np.ndarray):
        return StandardScaler()
    categories = make_column_selector(dtype_exclude=np.number)
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer((one_hot, categories), remainder=StandardScaler())


def _default(x: Any, y: IntArray, new: Any) -> FloatArray:
    return OrdinalClassifier(random_state=SEED).fit(x, y).predict_proba(new)


def _single(loss: str, calibrator: str | None) -> Callable[..., FloatArray]:
    """One network with rows held back, as up to version 0.1."""

    def fitted(x: Any, y: IntArray, new: Any) -> FloatArray:
        model = OrdinalClassifier(loss, folds=1, calibrator=calibrator, random_state=SEED).fit(x, y)
        return model.predict_proba(new)

    return fitted


def _trees(method: str) -> Callable[..., FloatArray]:
    """Boosted trees of scikit-learn with its own calibration."""

    def fitted(x: Any, y: IntArray, new: Any) -> FloatArray:
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.compose import make_column_selector, make_column_transformer
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.model_selection import StratifiedKFold
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OrdinalEncoder

        trees = HistGradientBoostingClassifier(random_state=SEED)
        if not isinstance(x, np.ndarray):
            codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
            columns = make_column_transformer(
                (codes, make_column_selector(dtype_exclude=np.number)), remainder="passthrough"
            )
            trees = make_pipeline(columns, trees)
        if method == "none":
            return trees.fit(x, y).predict_proba(new)
        folds = StratifiedKFold(5, shuffle=True, random_state=SEED)
        return CalibratedClassifierCV(trees, method=method, cv=folds).fit(x, y).predict_proba(new)

    return fitted


def _perceptron(x: Any, y: IntArray, new: Any) -> FloatArray:
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline

    net = MLPClassifier((256,), early_stopping=True, max_iter=200, random_state=SEED)
    return make_pipeline(_encoder(x), net).fit(x, y).predict_proba(new)


def _mord(x: Any, y: IntArray, new: Any) -> FloatArray:
    import mord

    encoder = _encoder(x)
    model = mord.LogisticAT().fit(encoder.fit_transform(x), y)
    return model.predict_proba(encoder.transform(new))


def _skorch(x: Any, y: IntArray, new: Any) -> FloatArray:
    """Cross-entropy in skorch with its defaults, and a temperature on a fifth of the rows."""
    from skorch import NeuralNetClassifier
    from skorch.callbacks import EarlyStopping

    encoder = _encoder(x)
    matrix = np.asarray(encoder.fit_transform(x), dtype=np.float32)
    held = np.arange(len(y)) % 5 == 0
    torch.manual_seed(SEED)
    width, classes = matrix.shape[1], int(y.max()) + 1
    net = NeuralNetClassifier(
        torch.nn.Sequential(torch.nn.Linear(width, 256), torch.nn.ReLU(), torch.nn.Linear(256, classes)),
        criterion=torch.nn.CrossEntropyLoss,
        optimizer=torch.optim.AdamW,
        lr=3e-3,
        max_epochs=50,
        batch_size=128,
        callbacks=[EarlyStopping(patience=10)],
        verbose=0,
    ).fit(matrix[~held], y[~held])
    temperature = calibrators.create("temperature").fit(net.forward(matrix[held]).numpy(), y[held])
    return temperature.predict_proba(net.forward(np.asarray(encoder.transform(new), dtype=np.float32)).numpy())


def _boosting(x: Any, y: IntArray, new: Any) -> FloatArray:
    return OrdinalBoosting(random_state=SEED).fit(x, y).predict_proba(new)


METHODS: dict[str, Callable[..., FloatArray]] = {
    DEFAULT: _default,
    TREES: _boosting,
    "one network, CE + temperature": _single("ce", "temperature"),
    "one network, ORCU + gap + projection (0.1)": _single("orcu", "gap+projection"),
    "one network, SORD + gap + projection": _single("sord", "gap+projection"),
    "skorch, CE + temperature": _skorch,
    "MLPClassifier": _perceptron,
    "HistGradientBoosting": _trees("none"),
    "HistGradientBoosting + isotonic": _trees("isotonic"),
    "HistGradientBoosting + sigmoid": _trees("sigmoid"),
    "HistGradientBoosting + temperature": _trees("temperature"),
    "mord": _mord,
}


def divided(y: IntArray, folds: int) -> list[tuple[IntArray, IntArray]]:
    """Rows to fit on and rows to judge, fold by fold."""
    from sklearn.model_selection import StratifiedKFold

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes with few rows
        return list(StratifiedKFold(folds, shuffle=True, random_state=SEED).split(np.zeros(len(y)), y))


def run(folder: Path, tables: Path | None, wanted: list[str], folds: int, console: Console) -> None:
    """Predict the test rows of every task, fold and method that has no file yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for task, load in tasks(tables).items():
        if wanted and task not in wanted:
            continue
        try:
            x, y = load()
        except AbsentError as reason:
            console.print(f"{task}: left out, {reason}")
            continue
        for number, (fit, judge) in enumerate(divided(y, FOLDS)[:folds]):
            known, new = (x[part] if isinstance(x, np.ndarray) else x.iloc[part] for part in (fit, judge))
            for method, predicted in METHODS.items():
                path = _path(folder, task, number, method)
                if path.exists() or (isinstance(x, np.ndarray) and (method == TREES or method.startswith("Hist"))):
                    continue
                started = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        probs = _whole(predicted(known, y[fit], new), np.unique(y[fit]), int(y.max()) + 1)
                    except ValueError as error:  # of scikit-learn: classes with fewer rows than folds
                        console.print(f"{task}, fold {number}, {method}: refuses ({error})")
                        continue
                seconds = time.perf_counter() - started
                with replacing(path) as temporary, Path(temporary).open("wb") as file:
                    np.savez(file, probs=probs, y=y[judge], seconds=seconds)
                console.print(
                    f"{task}, fold {number}, {method}: {seconds:.1f} s, RPS {metrics.rps(probs, y[judge]):.4f}"
                )


def _path(folder: Path, task: str, number: int, method: str) -> Path:
    return folder / f"{task}_{number}_{method}.npz".replace(" ", "_")


def _whole(probs: FloatArray, fitted_on: IntArray, classes: int) -> FloatArray:
    """A column for every class, also for those that no row to fit on has."""
    out = np.zeros((len(probs), classes))
    out[:, fitted_on if probs.shape[1] == len(fitted_on) else np.arange(probs.shape[1])] = probs
    out = np.clip(out, 0, None)
    return out / out.sum(axis=1, keepdims=True)


def kept(folder: Path) -> dict[str, dict[str, tuple[FloatArray, IntArray]]]:
    """Of each task and method: probabilities and labels of all folds that every method has."""
    by_task: dict[str, dict[str, tuple[FloatArray, IntArray]]] = {}
    for task in tasks(None):
        files = {method: [_path(folder, task, number, method) for number in range(FOLDS)] for method in METHODS}
        files = {method: paths for method, paths in files.items() if any(path.exists() for path in paths)}
        numbers = [n for n in range(FOLDS) if files and all(paths[n].exists() for paths in files.values())]
        if not numbers:
            continue
        by_task[task] = {}
        for method, paths in files.items():
            parts = [np.load(paths[number]) for number in numbers]
            by_task[task][method] = (
                np.concatenate([part["probs"] for part in parts]),
                np.concatenate([part["y"] for part in parts]),
            )
    return by_task


def metrics_of(probs: FloatArray, y: IntArray) -> dict[str, float]:
    """The metrics of the table; MAE by the median decision, a certain 0 as the smallest double."""
    decided = np.eye(probs.shape[1])[decide_checked(probs, "median")]
    floored = np.maximum(probs, 1e-12)
    floored /= floored.sum(axis=1, keepdims=True)
    return {
        "rps": metrics.rps(probs, y),
        "nll": metrics.nll(floored, y),
        "sce": metrics.sce(probs, y),
        "accuracy": metrics.accuracy(probs, y),
        "mae": metrics.mae(decided, y),
        "unimodal": metrics.unimodality(probs),
    }


def beaten(ours: FloatArray, theirs: FloatArray, y: IntArray) -> list[str]:
    """The metrics in which the other is better beyond chance (95 %, paired bootstrap)."""
    pairs = [np.maximum(one, 1e-12) / np.maximum(one, 1e-12).sum(axis=1, keepdims=True) for one in (ours, theirs)]
    evidence = [gather(Predictions(probs=one, y=y), bins=15)[0] for one in pairs]
    every = paired_differences(evidence[0], evidence[1], 2000, SEED)
    medians = [np.abs(decide_checked(one, "median") - y).astype(np.float64) for one in pairs]
    apart = medians[0] - medians[1]
    draws = np.random.default_rng(SEED).integers(len(y), size=(2000, len(y)))
    ends = {name: (every[name].low, every[name].high) for name in JUDGED}
    ends["mae"] = tuple(np.quantile(apart[draws].mean(axis=1), [0.025, 0.975]))
    return [name for name, (low, high) in ends.items() if (low > 0 if name in LOWER else high < 0)]


def write(folder: Path, out: Path, console: Console) -> None:
    """The tables: a CSV of every number, and who is better than the default in what."""
    by_task = kept(folder)
    lines, verdicts = [], []
    for task, by_method in by_task.items():
        ours, y = by_method[DEFAULT]
        losses = {}
        for method, (probs, labels) in by_method.items():
            values = metrics_of(probs, labels)
            better = [] if method == DEFAULT else beaten(ours, probs, y)
            losses[method] = better
            lines.append({"task": task, "rows": len(y), "method": method, **values, "better": " ".join(better)})
        verdicts.append((task, {name: [m for m, better in losses.items() if name in better] for name in JUDGED}))
    out.mkdir(parents=True, exist_ok=True)
    with replacing(out / "defaults.csv") as temporary, Path(temporary).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        for line in lines:
            writer.writerow({key: f"{value:.5f}" if isinstance(value, float) else value for key, value in line.items()})
    table = Table("task", *JUDGED, title="who is better than the default beyond chance (95 %)")
    for task, by_metric in verdicts:
        table.add_row(task, *("; ".join(by_metric[name]) or "-" for name in JUDGED))
    console.print(table)
    for name in JUDGED:
        first = sum(not by_metric[name] for _, by_metric in verdicts)
        console.print(f"{name}: not beaten beyond chance on {first} of {len(verdicts)}")


def main() -> None:
    """Predict what is missing, or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, default=None)
    parser.add_argument("--results", type=Path, default=Path("results/defaults"))
    parser.add_argument("--tasks", default="")
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--write", type=Path, default=None)
    options = parser.parse_args()
    console = Console()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    if options.write is not None:
        write(options.results, options.write, console)
        return
    run(options.results, options.tables, [one for one in options.tasks.split(",") if one], options.folds, console)


if __name__ == "__main__":
    main()
