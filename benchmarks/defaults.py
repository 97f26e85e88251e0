"""orcu's defaults and common practice: the same training and test rows, five folds, paired intervals.

    python benchmarks/defaults.py --tables DIR --results results/defaults [--tasks lev,wine] [--methods tuned]
    python benchmarks/defaults.py --results results/defaults --write results/defaults   # the tables

DIR contains winequality-red.csv, winequality-white.csv, car_evaluation.csv and abalone.csv (UCI). LEV, SWD, ERA, ESL,
fair and the diamonds (12,000 rows) come with packages of `orcu[data]`. Images and texts are read from the data store
($ORCU_DATA) as features of a frozen backbone, without trees. Tasks without data and methods that fail on a task are
skipped with a message; --tasks and --methods are parts of names. Predictions are stored in files, so an interrupted run
continues; all tasks have their first fold before any has its second. The tuned boosters need `pip install lightgbm
xgboost catboost`.

There are four tables, each with orcu and other methods on the folds that all of them have: headline.csv (a network or
LightGBM with temperature scaling, and ORCU alone), defaults.csv (common methods), tuned.csv (tuned boosters) and
single.csv (every loss as one network, with several calibrators). `--methods headline` runs the first;
`tools/results.py collect` archives them.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from rich.console import Console
from rich.table import Table

from orcu import OrdinalBoosting, OrdinalClassifier, calibrators, geometry, metrics
from orcu.decisions.rules import decide_checked
from orcu.evaluation.comparison import paired_differences
from orcu.evaluation.statistics import collect
from orcu.inputs import FloatArray, IntArray
from orcu.io.files import atomic_write
from orcu.io.writing import write_table
from orcu.model_selection import train_calibration_split
from orcu.predictions import Predictions

DEFAULT = "orcu, default"
TREES = "orcu, OrdinalBoosting"
METRICS = ("rps", "nll", "sce", "accuracy", "mae")
LOWER = ("rps", "nll", "sce", "mae")
FOLDS, SEED, MAX_ROWS = 5, 0, 12_000


class AbsentError(Exception):
    """The data of a task are not available."""


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
    return frame.drop(columns="class"), np.array([order.index(name) for name in frame["class"]])


def _abalone(folder: Path | None) -> tuple[Any, IntArray]:
    frame = _csv(folder, "abalone.csv")
    rings = frame["Rings"].to_numpy()
    eighths = np.unique(np.quantile(rings, np.arange(1, 8) / 8))  # two of them are equal
    return frame.drop(columns="Rings"), _codes(np.digitize(rings, eighths))


def _diamonds(label: str) -> tuple[Any, IntArray]:
    from plotnine.data import diamonds

    rows = np.random.default_rng(SEED).permutation(len(diamonds))[:MAX_ROWS]
    frame = diamonds.iloc[rows].reset_index(drop=True)
    return frame.drop(columns=label), frame[label].cat.codes.to_numpy().astype(np.int64)


def _features(name: str, backbone: str, size: int = 128) -> tuple[Any, IntArray]:
    """Features of a frozen backbone for a data set in the store."""
    from orcu.data.store import MANIFEST, load, store_folder
    from orcu.training.run import Run, RunConfig

    if not (store_folder() / name / MANIFEST).exists():
        raise AbsentError(f"{name} is not prepared in the store (orcu data prepare)")
    prepared = load(store_folder() / name)
    all_rows = np.arange(len(prepared.manifest.labels))
    prepared.decode(size)
    settings = RunConfig(frozen=True, backbone=backbone, size=size)
    run = Run(prepared, {"train": all_rows, "validation": all_rows, "test": all_rows}, settings, device="cpu")
    return run.features().numpy(), prepared.manifest.labels


def tasks(folder: Path | None) -> dict[str, Callable[[], tuple[Any, IntArray]]]:
    """Loaders of all tasks: a frame or a matrix, and labels 0..C-1."""
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
        "VADER tweets": lambda: _features("vader_tweets", "minilm"),
    }


def _encoder(x: Any) -> Any:
    """Preprocessing for scikit-learn's estimators."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    if isinstance(x, np.ndarray):
        return StandardScaler()
    categories = make_column_selector(dtype_exclude=np.number)
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer((one_hot, categories), remainder=StandardScaler())


class Family(NamedTuple):
    """Methods that share a fit: their names, and a function that returns the probabilities of new rows by each."""

    methods: tuple[str, ...]
    predict: Callable[[Any, IntArray, Any], Sequence[FloatArray]]
    tables_only: bool = False
    max_rows: int | None = None  # larger tasks are skipped
    package: str = ""  # distribution whose version is stored with the predictions
    time_limit: float = np.nan  # seconds, for methods with a limit


def _single_method(method: str, predict: Callable[[Any, IntArray, Any], FloatArray], **options: Any) -> Family:
    return Family((method,), lambda x, y, new: [predict(x, y, new)], **options)


def _rows(x: Any, rows: IntArray) -> Any:
    return x[rows] if isinstance(x, np.ndarray) else x.iloc[rows]


def _default(x: Any, y: IntArray, new: Any) -> FloatArray:
    return OrdinalClassifier(random_state=SEED).fit(x, y).predict_proba(new)


def _boosting(x: Any, y: IntArray, new: Any) -> FloatArray:
    return OrdinalBoosting(random_state=SEED).fit(x, y).predict_proba(new)


CALIBRATORS = {" + temperature": "temperature", " + gap + projection": "gap+projection", " + auto": "auto"}


def _single(loss: str, title: str, **options: Any) -> Family:
    """One network, trained once for all calibrators, which are fitted on a tenth of the rows.

    `OrdinalClassifier(loss, cv=1)` would reserve another tenth for prediction sets, which are not needed here.
    """

    def predict(x: Any, y: IntArray, new: Any) -> list[FloatArray]:
        calibration = train_calibration_split(y, validation=0.0, calibration=0.1, random_state=SEED)["calibration"]
        train = np.setdiff1d(np.arange(len(y)), calibration)
        model = OrdinalClassifier(loss, cv=1, calibrator=None, calibration_fraction=0.0, random_state=SEED)
        model.fit(_rows(x, train), y[train])
        logits, new_logits = model.predict_logits(_rows(x, calibration)), model.predict_logits(new)
        codes = np.searchsorted(model.classes_, y[calibration])
        fitted = (calibrators.create(name).fit(logits, codes) for name in CALIBRATORS.values())
        return [geometry.probs(new_logits), *(calibrator.predict_proba(new_logits) for calibrator in fitted)]

    methods = tuple(f"one network, {title}{calibrator}" for calibrator in ("", *CALIBRATORS))
    return Family(methods, predict, **options)


def _histogram_trees(x: Any, y: IntArray, new: Any) -> list[FloatArray]:
    """Boosted trees of scikit-learn with its calibration methods over five folds; all methods share the trees."""
    from sklearn.base import clone
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.frozen import FrozenEstimator
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder

    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    columns = make_column_transformer((codes, make_column_selector(dtype_exclude=np.number)), remainder="passthrough")
    trees = make_pipeline(columns, HistGradientBoostingClassifier(random_state=SEED))
    plain = clone(trees).fit(x, y).predict_proba(new)
    folds = split_folds(y, 5)
    total = [np.zeros_like(plain) for _ in HISTOGRAM[1:]]
    for train, calibration in folds:
        frozen = FrozenEstimator(clone(trees).fit(_rows(x, train), y[train]))
        for sums, method in zip(total, HISTOGRAM[1:], strict=True):
            calibrated = CalibratedClassifierCV(frozen, method=method, cv=[(train, calibration)], ensemble=True).fit(
                x, y
            )
            sums += _with_all_classes(calibrated.predict_proba(new), np.unique(y[train]), sums.shape[1])
    return [plain, *(sums / len(folds) for sums in total)]


HISTOGRAM = ("", "isotonic", "sigmoid", "temperature")


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
    """Cross-entropy in skorch with its defaults, and temperature scaling on a fifth of the rows."""
    from skorch import NeuralNetClassifier
    from skorch.callbacks import EarlyStopping

    encoder = _encoder(x)
    matrix = np.asarray(encoder.fit_transform(x), dtype=np.float32)
    calibration = np.arange(len(y)) % 5 == 0
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
    ).fit(matrix[~calibration], y[~calibration])
    temperature = calibrators.create("temperature").fit(net.forward(matrix[calibration]).numpy(), y[calibration])
    return temperature.predict_proba(net.forward(np.asarray(encoder.transform(new), dtype=np.float32)).numpy())


def _skordinal(name: str) -> Callable[..., FloatArray]:
    """The proportional-odds model of skordinal, or its network of 50 units with the same output."""

    def predict(x: Any, y: IntArray, new: Any) -> FloatArray:
        import skordinal.classifiers

        encoder = _encoder(x)
        model = getattr(skordinal.classifiers, name)(**({"random_state": SEED} if name == "NNPOM" else {}))
        return model.fit(encoder.fit_transform(x), y).predict_proba(encoder.transform(new))

    return predict


# Grid of the tuned boosters: three tree sizes and two penalties, with early stopping. Smaller learning rates gave no
# significant improvement.
SIZES = ((8, 3), (16, 4), (32, 6))  # leaves of LightGBM, depth of XGBoost and CatBoost
PENALTIES = (1.0, 10.0)  # L2
RATE, ROUNDS, PATIENCE = 0.1, 1000, 30


class Setting(NamedTuple):
    """Settings of a booster: tree size, L2 penalty, and maximum number of rounds."""

    leaves: int
    depth: int
    penalty: float
    rounds: int = ROUNDS


Predict = Callable[[Any], FloatArray]
Rows = tuple[Any, IntArray]


def _lightgbm(fit: Rows, stop: Rows | None, classes: int, setting: Setting) -> tuple[Predict, int]:
    """Fit LightGBM's multiclass; returns the prediction function and the number of rounds."""
    import lightgbm

    params = {
        "objective": "multiclass",
        "num_class": classes,
        "num_leaves": setting.leaves,
        "lambda_l2": setting.penalty,
        "learning_rate": RATE,
        "seed": SEED,
        "verbose": -1,
        "num_threads": torch.get_num_threads(),
    }
    validation = [] if stop is None else [lightgbm.Dataset(*stop)]
    callbacks = [] if stop is None else [lightgbm.early_stopping(PATIENCE, verbose=False)]
    trees = lightgbm.train(params, lightgbm.Dataset(*fit), setting.rounds, valid_sets=validation, callbacks=callbacks)
    return trees.predict, trees.best_iteration if stop is not None else setting.rounds


def _xgboost(fit: Rows, stop: Rows | None, classes: int, setting: Setting) -> tuple[Predict, int]:
    """Fit XGBoost's multi:softprob; returns the prediction function and the number of rounds."""
    import xgboost

    def matrix(x: Any, y: Any = None) -> Any:
        return xgboost.DMatrix(x, y, enable_categorical=True)

    params = {
        "objective": "multi:softprob",
        "num_class": classes,
        "max_depth": setting.depth,
        "reg_lambda": setting.penalty,
        "eta": RATE,
        "seed": SEED,
        "eval_metric": "mlogloss",
        "nthread": torch.get_num_threads(),
    }
    patience = None if stop is None else PATIENCE
    validation = [] if stop is None else [(matrix(*stop), "stop")]
    trees = xgboost.train(
        params, matrix(*fit), setting.rounds, evals=validation, early_stopping_rounds=patience, verbose_eval=False
    )
    rounds = setting.rounds if stop is None else trees.best_iteration + 1
    return lambda new: trees.predict(matrix(new), iteration_range=(0, rounds)), rounds


def _catboost(fit: Rows, stop: Rows | None, classes: int, setting: Setting) -> tuple[Predict, int]:
    """Fit CatBoost's MultiClass with one-hot categories (target statistics take ten times as long)."""
    import catboost

    trees = catboost.CatBoostClassifier(
        loss_function="MultiClass",
        classes_count=classes,
        depth=setting.depth,
        l2_leaf_reg=setting.penalty,
        learning_rate=RATE,
        iterations=setting.rounds,
        early_stopping_rounds=None if stop is None else PATIENCE,
        one_hot_max_size=32,
        cat_features=list(fit[0].select_dtypes("category")),
        random_seed=SEED,
        thread_count=torch.get_num_threads(),
        allow_writing_files=False,
        verbose=False,
    ).fit(*fit, eval_set=stop)
    return trees.predict_proba, trees.tree_count_


def _isotonic(known: FloatArray, y: IntArray, new: FloatArray) -> FloatArray:
    """One-vs-rest isotonic calibration, as in scikit-learn's `CalibratedClassifierCV`."""
    from sklearn.isotonic import IsotonicRegression

    maps = (IsotonicRegression(out_of_bounds="clip", y_min=0.0, y_max=1.0) for _ in known.T)
    columns = [isotonic.fit(known[:, k], y == k).predict(new[:, k]) for k, isotonic in enumerate(maps)]
    probs = np.stack(columns, axis=1)
    total = probs.sum(axis=1, keepdims=True)
    return np.where(total > 0, probs / np.where(total > 0, total, 1.0), 1 / probs.shape[1])


def _tuned(library: str, fit_trees: Callable[..., tuple[Predict, int]], **options: Any) -> Family:
    """A booster, tuned by the log loss on a fifth of the rows, then calibrated as in `CalibratedClassifierCV`.

    For each of five folds, trees with the selected settings are fitted on the other folds and a calibrator on the fold;
    the calibrated probabilities are averaged. Ordered categories are encoded as numbers.
    """

    def predict(x: Any, y: IntArray, new: Any) -> list[FloatArray]:
        x, new = tree_frame(x, x), tree_frame(new, x)
        classes = int(y.max()) + 1
        folds = split_folds(y, 5)

        def part(rows: IntArray) -> Rows:
            return x.iloc[rows], y[rows]

        scores = {}
        for leaves, depth in SIZES:
            for penalty in PENALTIES:
                trees, rounds = fit_trees(
                    part(folds[0][0]), part(folds[0][1]), classes, Setting(leaves, depth, penalty)
                )
                probs = np.maximum(np.asarray(trees(x.iloc[folds[0][1]]), dtype=np.float64), 1e-12)
                score = metrics.nll(probs / probs.sum(axis=1, keepdims=True), y[folds[0][1]])
                scores[Setting(leaves, depth, penalty, rounds)] = score
        best = min(scores, key=scores.__getitem__)
        total = [np.zeros((len(new), classes)) for _ in range(2)]
        for train, calibration in folds:
            trees, _ = fit_trees(part(train), None, classes, best)
            known, unknown = _predict_normalised(trees, x.iloc[calibration], new)
            temperature = calibrators.create("temperature").fit(probs=known, y=y[calibration])
            total[0] += temperature.predict_proba(probs=unknown)
            total[1] += _isotonic(known, y[calibration], unknown)
        return [sums / len(folds) for sums in total]

    methods = tuple(f"{library}, tuned + {calibrator}" for calibrator in ("temperature", "isotonic"))
    return Family(methods, predict, tables_only=True, **options)


def tree_frame(frame: Any, fitted: Any) -> Any:
    """A frame for boosters, with the categories of the training frame."""
    import pandas as pd

    frame = frame.copy()
    for name in fitted.select_dtypes(exclude="number"):
        if getattr(fitted[name].dtype, "ordered", False):
            frame[name] = frame[name].cat.codes
        else:
            frame[name] = pd.Categorical(frame[name].astype(str), categories=sorted(set(fitted[name].astype(str))))
    return frame


def _predict_normalised(trees: Predict, *frames: Any) -> list[FloatArray]:
    predictions = (np.asarray(trees(rows), dtype=np.float64) for rows in frames)
    return [probs / probs.sum(axis=1, keepdims=True) for probs in predictions]


def _plain_lightgbm(x: Any, y: IntArray, new: Any) -> FloatArray:
    """LightGBM with defaults; a fifth of the rows is used for early stopping and temperature scaling."""
    x, new = tree_frame(x, x), tree_frame(new, x)
    train, calibration = split_folds(y, 5)[0]
    classes = int(y.max()) + 1
    stop = x.iloc[calibration], y[calibration]
    trees, _ = _lightgbm((x.iloc[train], y[train]), stop, classes, Setting(31, -1, 0.0))
    known, unknown = _predict_normalised(trees, x.iloc[calibration], new)
    return calibrators.create("temperature").fit(probs=known, y=y[calibration]).predict_proba(probs=unknown)


ORCU = (_single_method(DEFAULT, _default), _single_method(TREES, _boosting, tables_only=True))
LIGHTGBM = _single_method("LightGBM + temperature", _plain_lightgbm, tables_only=True)
OTHERS = (
    _single_method("skorch, CE + temperature", _skorch),
    _single_method("MLPClassifier", _perceptron),
    Family(
        tuple(f"HistGradientBoosting{f' + {name}' if name else ''}" for name in HISTOGRAM),
        _histogram_trees,
        tables_only=True,
    ),
    _single_method("mord", _mord),
    _single_method("skordinal, POM", _skordinal("POM")),
    _single_method("skordinal, NNPOM", _skordinal("NNPOM"), tables_only=True),
)
BOOSTERS = (_tuned("LightGBM", _lightgbm), _tuned("XGBoost", _xgboost), _tuned("CatBoost", _catboost))
NETWORKS = (
    _single("ce", "CE"),
    _single("sord", "SORD"),
    _single("cdw_ce", "CDW-CE"),
    _single("co2", "CO2"),
    _single("ls", "LS"),
    _single("flsd", "FLSD"),
    _single("mbls", "MbLS"),
    _single("mdca", "MDCA"),
    _single("acls", "ACLS"),
    _single("orcu", "ORCU"),
    _single("poe", "POE", max_rows=2000),  # its triplets and samples are twenty times slower
)
FAMILIES = (*ORCU, LIGHTGBM, *BOOSTERS, *OTHERS, *NETWORKS)
TABLES = {
    "headline": ["one network, CE + temperature", "LightGBM + temperature", "one network, ORCU"],
    **{
        name: [method for family in families for method in family.methods]
        for name, families in (("defaults", OTHERS), ("tuned", BOOSTERS), ("single", NETWORKS))
    },
}


def split_folds(y: IntArray, folds: int) -> list[tuple[IntArray, IntArray]]:
    """Training and test rows of each fold."""
    from sklearn.model_selection import StratifiedKFold

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes with few rows
        return list(StratifiedKFold(folds, shuffle=True, random_state=SEED).split(np.zeros(len(y)), y))


Loaded = dict[str, tuple[Any, IntArray]]


def load_tasks(tables: Path | None, names: Sequence[str], console: Console) -> Loaded:
    """Features and labels of the tasks; tasks without data are skipped with a message."""
    loaded = {}
    for task in names:
        try:
            loaded[task] = tasks(tables)[task]()
        except AbsentError as reason:
            console.print(f"{task}: skipped, {reason}")
    return loaded


def run(folder: Path, loaded: Loaded, families: Sequence[Family], folds: Sequence[int], console: Console) -> None:
    """Predict the test rows of every fold, task and method without a stored file."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in folds:
        for task, (x, y) in loaded.items():
            for family in families:
                if family.tables_only and isinstance(x, np.ndarray):
                    continue
                if family.max_rows is not None and len(y) > family.max_rows:
                    continue
                if not all(prediction_file(folder, task, number, method).exists() for method in family.methods):
                    _predict(folder, task, number, family, x, y, console)


def matches(name: str, parts: Sequence[str]) -> bool:
    """Whether a name contains one of the parts; always if there are none."""
    return not parts or any(part.lower() in name.lower() for part in parts)


def _predict(folder: Path, task: str, number: int, family: Family, x: Any, y: IntArray, console: Console) -> None:
    """Fit a family on the training rows of a fold, and store the predictions of the test rows."""
    train, test = split_folds(y, FOLDS)[number]
    started, cpu_started = time.perf_counter(), _cpu_seconds()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            predictions = family.predict(_rows(x, train), y[train], _rows(x, test))
        # libraries raise errors of many types, for example for classes with fewer rows than folds
        except Exception as error:
            console.print(f"{task}, fold {number}, {family.methods[0]}: skipped ({error})")
            return
    record = {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": _cpu_seconds() - cpu_started,
        "version": f"{family.package} {version(family.package)}" if family.package else "",
        "time_limit": family.time_limit,
    }
    for method, columns in zip(family.methods, predictions, strict=True):
        probs = _with_all_classes(columns, np.unique(y[train]), int(y.max()) + 1)
        file = prediction_file(folder, task, number, method)
        with atomic_write(file) as temporary, Path(temporary).open("wb") as stream:
            np.savez(stream, probs=probs, y=y[test], **record)
        rps = metrics.rps(probs, y[test])
        console.print(f"{task}, fold {number}, {method}: {record['seconds']:.1f} s, RPS {rps:.4f}", soft_wrap=True)


def _cpu_seconds() -> float:
    """CPU seconds of this process and its child processes that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def prediction_file(folder: Path, task: str, number: int, method: str) -> Path:
    """File with the predictions of a method on a fold of a task."""
    return folder / f"{task}_{number}_{method}.npz".replace(" ", "_")


def _with_all_classes(probs: FloatArray, fitted_on: IntArray, classes: int) -> FloatArray:
    """Probabilities with a column for every class, including classes without training rows."""
    out = np.zeros((len(probs), classes))
    out[:, fitted_on if probs.shape[1] == len(fitted_on) else np.arange(probs.shape[1])] = probs
    out = np.clip(out, 0, None)
    return out / out.sum(axis=1, keepdims=True)


class Forecasts(NamedTuple):
    """Predictions of a method on some folds, with labels."""

    probs: FloatArray
    y: IntArray
    folds: int


def load_forecasts(folder: Path, task: str, methods: Sequence[str]) -> dict[str, Forecasts]:
    """Probabilities and labels of each method on the folds that all methods have."""
    files = {method: [prediction_file(folder, task, number, method) for number in range(FOLDS)] for method in methods}
    files = {method: paths for method, paths in files.items() if any(path.exists() for path in paths)}
    numbers = [n for n in range(FOLDS) if all(paths[n].exists() for paths in files.values())]
    if not numbers or DEFAULT not in files:
        return {}
    parts = {method: [np.load(paths[number]) for number in numbers] for method, paths in files.items()}
    return {
        method: Forecasts(
            np.concatenate([fold["probs"] for fold in folds]), np.concatenate([fold["y"] for fold in folds]), len(folds)
        )
        for method, folds in parts.items()
    }


def metrics_of(probs: FloatArray, y: IntArray) -> dict[str, float]:
    """Metrics of the table; MAE of the median rule, probabilities of 0 count as 1e-12 in the NLL."""
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


class Comparison(NamedTuple):
    """Comparison with an orcu method: metrics that are significantly better and worse, and the RPS interval."""

    better: list[str]
    worse: list[str]
    rps: tuple[float, float]  # 95 % interval of its RPS minus orcu's


def compare(orcu: FloatArray, other: FloatArray, y: IntArray) -> Comparison:
    """Compare two methods with a paired bootstrap of the rows."""
    pair = [np.maximum(probs, 1e-12) for probs in (orcu, other)]
    pair = [probs / probs.sum(axis=1, keepdims=True) for probs in pair]
    statistics = [collect(Predictions(probs=probs, y=y), n_bins=15)[0] for probs in pair]
    differences = paired_differences(statistics[0], statistics[1], 2000, SEED)
    errors = [np.abs(decide_checked(probs, "median") - y).astype(np.float64) for probs in pair]
    ends = {name: (differences[name].low, differences[name].high) for name in METRICS}
    ends["mae"] = bootstrap_interval(errors[0] - errors[1])
    higher = {name for name, (low, _) in ends.items() if low > 0}
    lower = {name for name, (_, high) in ends.items() if high < 0}
    low, high = ends["rps"]
    return Comparison(
        [name for name in METRICS if name in (higher if name in LOWER else lower)],
        [name for name in METRICS if name in (lower if name in LOWER else higher)],
        (-high, -low),
    )


def bootstrap_interval(differences: FloatArray) -> tuple[float, float]:
    """95 % bootstrap interval of the mean of paired differences of rows."""
    draws = np.random.default_rng(SEED).integers(len(differences), size=(2000, len(differences)))
    low, high = np.quantile(differences[draws].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def write(folder: Path, out: Path, console: Console) -> None:
    """Write the tables as CSV: all metrics, and significant differences from orcu's default and boosting."""
    out.mkdir(parents=True, exist_ok=True)
    for name, methods in TABLES.items():
        lines = []
        orcu = (DEFAULT,) if name == "headline" else (DEFAULT, TREES)
        for task in tasks(None):
            by_method = load_forecasts(folder, task, (*orcu, *methods))
            if by_method.keys() <= {DEFAULT, TREES}:
                continue
            for method, (probs, y, folds) in by_method.items():
                line = {"task": task, "rows": len(y), "folds": folds, "method": method, **metrics_of(probs, y)}
                comparisons = {
                    name: compare(by_method[name].probs, probs, y) for name in (DEFAULT, TREES) if name in by_method
                }
                default, trees = comparisons[DEFAULT], comparisons.get(TREES, comparisons[DEFAULT])
                is_orcu = method in (DEFAULT, TREES)
                line["better"] = "" if is_orcu else " ".join(default.better)
                line["better than trees"] = "" if is_orcu or TREES not in comparisons else " ".join(trees.better)
                line["worse"] = "" if is_orcu else " ".join(default.worse)
                line["rps low"], line["rps high"] = default.rps
                lines.append(line)
        if lines:
            write_table(pa.Table.from_pylist(lines), out / f"{name}.csv")
            _print_verdict(name, lines, console)


def _print_verdict(name: str, lines: list[dict[str, Any]], console: Console) -> None:
    by_task = dict.fromkeys(line["task"] for line in lines)
    table = Table("task", *METRICS, title=f"{name}: methods that are significantly better than the default (95 %)")
    unbeaten = dict.fromkeys(METRICS, 0)
    for task in by_task:
        better = {
            metric: [line["method"] for line in lines if line["task"] == task and metric in line["better"].split()]
            for metric in METRICS
        }
        table.add_row(task, *("; ".join(names) or "-" for names in better.values()))
        unbeaten = {metric: count + (not better[metric]) for metric, count in unbeaten.items()}
    console.print(table)
    counts = ", ".join(f"{metric} {count}" for metric, count in unbeaten.items())
    console.print(f"tasks (of {len(by_task)}) without a significantly better method: {counts}")


def main() -> None:
    """Compute missing predictions, or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, default=None)
    parser.add_argument("--results", type=Path, default=Path("results/defaults"))
    parser.add_argument("--tasks", default="")
    parser.add_argument("--methods", default="")
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--write", type=Path, default=None)
    options = parser.parse_args()
    console = Console()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    if options.write is not None:
        write(options.results, options.write, console)
        return
    wanted, methods = ([part for part in names.split(",") if part] for names in (options.tasks, options.methods))
    if methods == ["headline"]:
        methods = [DEFAULT, *TABLES["headline"]]
    loaded = load_tasks(options.tables, [task for task in tasks(None) if matches(task, wanted)], console)
    families = [family for family in FAMILIES if any(matches(method, methods) for method in family.methods)]
    run(options.results, loaded, families, range(options.folds), console)


if __name__ == "__main__":
    main()
