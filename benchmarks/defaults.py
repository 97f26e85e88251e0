"""The default beside what people do today: same rows to fit on, same rows to judge, five folds, paired intervals.

    python benchmarks/defaults.py --tables DIR --results results/defaults [--tasks lev,wine] [--methods tuned]
    python benchmarks/defaults.py --results results/defaults --write results/defaults   # the tables

DIR holds winequality-red.csv, winequality-white.csv, car_evaluation.csv and abalone.csv (UCI); LEV, SWD, ERA, ESL, fair
and the diamonds come with packages of `orcu[data]`; images and texts are read from the store ($ORCU_DATA), as features
of a frozen backbone, where trees are not tried. A task whose data are not there is left out with a word, as is a method
that refuses a task; --tasks and --methods take parts of names. Predictions are kept file by file, so a run that was cut
off goes on; all tasks have their first fold before any has its second. Of the diamonds 12,000 rows are used. The tuned
boosters need `pip install lightgbm xgboost catboost`; without one of them its methods are left out.

There are four tables, each with ours beside others on the folds that all of them have: headline.csv (a network or
LightGBM with a temperature, and ORCU alone), defaults.csv (everything that people do), tuned.csv (boosters that were
tuned) and single.csv (every loss as one network, with several calibrators). `--methods headline` runs the first;
`tools/results.py collect` keeps them.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from rich.console import Console
from rich.table import Table

from orcu import OrdinalBoosting, OrdinalClassifier, calibrators, geometry, metrics
from orcu.decisions.rules import decide_checked
from orcu.estimators.splitting import rows_by_job
from orcu.evaluation.comparison import paired_differences
from orcu.evaluation.evidence import gather
from orcu.inputs import FloatArray, IntArray
from orcu.io.files import atomic_write
from orcu.io.writing import write_table
from orcu.predictions.predictions import Predictions

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
    from orcu.training.run import Run, RunConfig

    if not (store_folder() / name / MANIFEST).exists():
        raise AbsentError(f"{name} is not prepared in the store (orcu data prepare)")
    prepared = load(store_folder() / name)
    everything = np.arange(len(prepared.manifest.labels))
    prepared.decode(size)
    settings = RunConfig(frozen=True, backbone=backbone, size=size)
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
        "VADER tweets": lambda: _features("vader_tweets", "minilm"),
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


class Family(NamedTuple):
    """Methods that share a fit: their names, and the probabilities of new rows by each, in this order."""

    methods: tuple[str, ...]
    predicted: Callable[[Any, IntArray, Any], Sequence[FloatArray]]
    tables_only: bool = False
    most_rows: int | None = None  # of a task, where more would take too long


def _alone(method: str, predicted: Callable[[Any, IntArray, Any], FloatArray], **options: Any) -> Family:
    return Family((method,), lambda x, y, new: [predicted(x, y, new)], **options)


def _rows(x: Any, rows: IntArray) -> Any:
    return x[rows] if isinstance(x, np.ndarray) else x.iloc[rows]


def _default(x: Any, y: IntArray, new: Any) -> FloatArray:
    return OrdinalClassifier(random_state=SEED).fit(x, y).predict_proba(new)


def _boosting(x: Any, y: IntArray, new: Any) -> FloatArray:
    return OrdinalBoosting(random_state=SEED).fit(x, y).predict_proba(new)


CALIBRATORS = {" + temperature": "temperature", " + gap + projection": "gap+projection", " + auto": "auto"}


def _single(loss: str, title: str, **options: Any) -> Family:
    """One network, trained once for all calibrators, which are fitted on a tenth of the rows.

    `OrdinalClassifier(loss, folds=1)` holds back another tenth for prediction sets, which are not asked for here: so
    these networks see more rows than it gives them.
    """

    def predicted(x: Any, y: IntArray, new: Any) -> list[FloatArray]:
        held = rows_by_job(y, validation=0.0, calibration=0.1, seed=SEED)["calibration"]
        train = np.setdiff1d(np.arange(len(y)), held)
        model = OrdinalClassifier(loss, folds=1, calibrator=None, calibration_fraction=0.0, random_state=SEED)
        model.fit(_rows(x, train), y[train])
        known, asked = model.predict_logits(_rows(x, held)), model.predict_logits(new)
        codes = np.searchsorted(model.classes_, y[held])
        fitted = (calibrators.create(name).fit(known, codes) for name in CALIBRATORS.values())
        return [geometry.probs(asked), *(calibrator.predict_proba(asked) for calibrator in fitted)]

    methods = tuple(f"one network, {title}{calibrator}" for calibrator in ("", *CALIBRATORS))
    return Family(methods, predicted, **options)


def _histogram_trees(x: Any, y: IntArray, new: Any) -> list[FloatArray]:
    """Boosted trees of scikit-learn with its own calibration over five folds, whose trees all methods share."""
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
    folds = divided(y, 5)
    total = [np.zeros_like(plain) for _ in HISTOGRAM[1:]]
    for train, held in folds:
        frozen = FrozenEstimator(clone(trees).fit(_rows(x, train), y[train]))
        for sums, method in zip(total, HISTOGRAM[1:], strict=True):
            calibrated = CalibratedClassifierCV(frozen, method=method, cv=[(train, held)], ensemble=True).fit(x, y)
            sums += _whole(calibrated.predict_proba(new), np.unique(y[train]), sums.shape[1])
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


def _skordinal(name: str) -> Callable[..., FloatArray]:
    """The proportional-odds model of skordinal, or its network of 50 units with the same output."""

    def fitted(x: Any, y: IntArray, new: Any) -> FloatArray:
        import skordinal.classifiers

        encoder = _encoder(x)
        model = getattr(skordinal.classifiers, name)(**({"random_state": SEED} if name == "NNPOM" else {}))
        return model.fit(encoder.fit_transform(x), y).predict_proba(encoder.transform(new))

    return fitted


# The search of the tuned boosters: three sizes of trees times two penalties, rounds by early stopping. Slower learning
# rates gained nothing beyond the noise of the rows that choose.
SIZES = ((8, 3), (16, 4), (32, 6))  # leaves of LightGBM, depth of XGBoost and CatBoost
PENALTIES = (1.0, 10.0)  # L2
RATE, ROUNDS, PATIENCE = 0.1, 1000, 30


class Setting(NamedTuple):
    """Of a booster: how large its trees are, how strongly leaves are shrunk, and how many rounds at most."""

    leaves: int
    depth: int
    penalty: float
    rounds: int = ROUNDS


Predict = Callable[[Any], FloatArray]
Rows = tuple[Any, IntArray]


def _lightgbm(fit: Rows, stop: Rows | None, classes: int, setting: Setting) -> tuple[Predict, int]:
    """Trees of LightGBM's multiclass, and their rounds."""
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
    watched = [] if stop is None else [lightgbm.Dataset(*stop)]
    callbacks = [] if stop is None else [lightgbm.early_stopping(PATIENCE, verbose=False)]
    trees = lightgbm.train(params, lightgbm.Dataset(*fit), setting.rounds, valid_sets=watched, callbacks=callbacks)
    return trees.predict, trees.best_iteration if stop is not None else setting.rounds


def _xgboost(fit: Rows, stop: Rows | None, classes: int, setting: Setting) -> tuple[Predict, int]:
    """Trees of XGBoost's multi:softprob, and their rounds."""
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
    watched = [] if stop is None else [(matrix(*stop), "stop")]
    trees = xgboost.train(
        params, matrix(*fit), setting.rounds, evals=watched, early_stopping_rounds=patience, verbose_eval=False
    )
    rounds = setting.rounds if stop is None else trees.best_iteration + 1
    return lambda new: trees.predict(matrix(new), iteration_range=(0, rounds)), rounds


def _catboost(fit: Rows, stop: Rows | None, classes: int, setting: Setting) -> tuple[Predict, int]:
    """Trees of CatBoost's MultiClass, and their rounds; categories one-hot, their statistics took ten times as long."""
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
    """An isotonic map for each class against the rest, as scikit-learn's `CalibratedClassifierCV` fits them."""
    from sklearn.isotonic import IsotonicRegression

    maps = (IsotonicRegression(out_of_bounds="clip", y_min=0.0, y_max=1.0) for _ in known.T)
    columns = [one.fit(known[:, k], y == k).predict(new[:, k]) for k, one in enumerate(maps)]
    probs = np.stack(columns, axis=1)
    total = probs.sum(axis=1, keepdims=True)
    return np.where(total > 0, probs / np.where(total > 0, total, 1.0), 1 / probs.shape[1])


def _tuned(library: str, grow: Callable[..., tuple[Predict, int]], **options: Any) -> Family:
    """A booster, tuned by log score on a fifth of the rows, then calibrated as `CalibratedClassifierCV` does.

    For each of five folds trees are grown on the others, with the size, penalty and rounds that were chosen, and a
    calibrator is fitted on the fold; the calibrated probabilities are averaged. Ordered categories are numbers to the
    trees, others categories.
    """

    def predicted(x: Any, y: IntArray, new: Any) -> list[FloatArray]:
        x, new = _tree_frame(x, x), _tree_frame(new, x)
        classes = int(y.max()) + 1
        folds = divided(y, 5)

        def part(rows: IntArray) -> Rows:
            return x.iloc[rows], y[rows]

        scores = {}
        for leaves, depth in SIZES:
            for penalty in PENALTIES:
                trees, rounds = grow(part(folds[0][0]), part(folds[0][1]), classes, Setting(leaves, depth, penalty))
                probs = np.maximum(np.asarray(trees(x.iloc[folds[0][1]]), dtype=np.float64), 1e-12)
                score = metrics.nll(probs / probs.sum(axis=1, keepdims=True), y[folds[0][1]])
                scores[Setting(leaves, depth, penalty, rounds)] = score
        best = min(scores, key=scores.__getitem__)
        total = [np.zeros((len(new), classes)) for _ in range(2)]
        for train, held in folds:
            trees, _ = grow(part(train), None, classes, best)
            known, asked = (np.asarray(trees(rows), dtype=np.float64) for rows in (x.iloc[held], new))
            known, asked = (one / one.sum(axis=1, keepdims=True) for one in (known, asked))
            temperature = calibrators.create("temperature").fit(probs=known, y=y[held])
            total[0] += temperature.predict_proba(probs=asked)
            total[1] += _isotonic(known, y[held], asked)
        return [one / len(folds) for one in total]

    methods = tuple(f"{library}, tuned + {calibrator}" for calibrator in ("temperature", "isotonic"))
    return Family(methods, predicted, tables_only=True, **options)


def _tree_frame(frame: Any, fitted: Any) -> Any:
    """A frame as boosters take it, with the categories of the frame that is fitted on."""
    import pandas as pd

    frame = frame.copy()
    for name in fitted.select_dtypes(exclude="number"):
        if getattr(fitted[name].dtype, "ordered", False):
            frame[name] = frame[name].cat.codes
        else:
            frame[name] = pd.Categorical(frame[name].astype(str), categories=sorted(set(fitted[name].astype(str))))
    return frame


def _plain_lightgbm(x: Any, y: IntArray, new: Any) -> FloatArray:
    """LightGBM as it comes, stopped by a fifth of the rows, on which a temperature is fitted."""
    x, new = _tree_frame(x, x), _tree_frame(new, x)
    train, held = divided(y, 5)[0]
    classes = int(y.max()) + 1
    trees, _ = _lightgbm((x.iloc[train], y[train]), (x.iloc[held], y[held]), classes, Setting(31, -1, 0.0))
    known, asked = (np.asarray(trees(rows), dtype=np.float64) for rows in (x.iloc[held], new))
    known, asked = (one / one.sum(axis=1, keepdims=True) for one in (known, asked))
    return calibrators.create("temperature").fit(probs=known, y=y[held]).predict_proba(probs=asked)


OURS = (_alone(DEFAULT, _default), _alone(TREES, _boosting, tables_only=True))
LIGHTGBM = _alone("LightGBM + temperature", _plain_lightgbm, tables_only=True)
OTHERS = (
    _alone("skorch, CE + temperature", _skorch),
    _alone("MLPClassifier", _perceptron),
    Family(
        tuple(f"HistGradientBoosting{f' + {name}' if name else ''}" for name in HISTOGRAM),
        _histogram_trees,
        tables_only=True,
    ),
    _alone("mord", _mord),
    _alone("skordinal, POM", _skordinal("POM")),
    _alone("skordinal, NNPOM", _skordinal("NNPOM"), tables_only=True),
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
    _single("poe", "POE", most_rows=2000),  # its triplets and samples take twenty times as long as the other losses
)
FAMILIES = (*OURS, LIGHTGBM, *BOOSTERS, *OTHERS, *NETWORKS)
TABLES = {
    "headline": ["one network, CE + temperature", "LightGBM + temperature", "one network, ORCU"],
    **{
        name: [method for family in families for method in family.methods]
        for name, families in (("defaults", OTHERS), ("tuned", BOOSTERS), ("single", NETWORKS))
    },
}


def divided(y: IntArray, folds: int) -> list[tuple[IntArray, IntArray]]:
    """Rows to fit on and rows to judge, fold by fold."""
    from sklearn.model_selection import StratifiedKFold

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes with few rows
        return list(StratifiedKFold(folds, shuffle=True, random_state=SEED).split(np.zeros(len(y)), y))


def run(
    folder: Path, tables: Path | None, wanted: Sequence[str], methods: Sequence[str], folds: int, console: Console
) -> None:
    """Predict the test rows of every fold, task and method that has no file yet."""
    folder.mkdir(parents=True, exist_ok=True)
    loaded = {}
    for task, load in tasks(tables).items():
        if _named(task, wanted):
            try:
                loaded[task] = load()
            except AbsentError as reason:
                console.print(f"{task}: left out, {reason}")
    families = [family for family in FAMILIES if any(_named(method, methods) for method in family.methods)]
    for number in range(folds):
        for task, (x, y) in loaded.items():
            for family in families:
                if family.tables_only and isinstance(x, np.ndarray):
                    continue
                if family.most_rows is not None and len(y) > family.most_rows:
                    continue
                if not all(_path(folder, task, number, method).exists() for method in family.methods):
                    _predict(folder, task, number, family, x, y, console)


def _named(name: str, parts: Sequence[str]) -> bool:
    return not parts or any(part.lower() in name.lower() for part in parts)


def _predict(folder: Path, task: str, number: int, family: Family, x: Any, y: IntArray, console: Console) -> None:
    """Fit a family on a fold's rows, and keep what its methods say of the others."""
    fit, judge = divided(y, FOLDS)[number]
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            predicted = family.predicted(_rows(x, fit), y[fit], _rows(x, judge))
        # of scikit-learn: classes with fewer rows than folds
        except (ValueError, ImportError) as error:
            console.print(f"{task}, fold {number}, {family.methods[0]}: left out ({error})")
            return
    seconds = time.perf_counter() - started
    for method, columns in zip(family.methods, predicted, strict=True):
        probs = _whole(columns, np.unique(y[fit]), int(y.max()) + 1)
        with atomic_write(_path(folder, task, number, method)) as temporary, Path(temporary).open("wb") as file:
            np.savez(file, probs=probs, y=y[judge], seconds=seconds)
        rps = metrics.rps(probs, y[judge])
        console.print(f"{task}, fold {number}, {method}: {seconds:.1f} s, RPS {rps:.4f}", soft_wrap=True)


def _path(folder: Path, task: str, number: int, method: str) -> Path:
    return folder / f"{task}_{number}_{method}.npz".replace(" ", "_")


def _whole(probs: FloatArray, fitted_on: IntArray, classes: int) -> FloatArray:
    """A column for every class, also for those that no row to fit on has."""
    out = np.zeros((len(probs), classes))
    out[:, fitted_on if probs.shape[1] == len(fitted_on) else np.arange(probs.shape[1])] = probs
    out = np.clip(out, 0, None)
    return out / out.sum(axis=1, keepdims=True)


class Forecasts(NamedTuple):
    """What a method says of the rows of some folds, and their labels."""

    probs: FloatArray
    y: IntArray
    folds: int


def kept(folder: Path, task: str, methods: Sequence[str]) -> dict[str, Forecasts]:
    """Of each method that has met a task: probabilities and labels of all folds that every one of them has."""
    files = {method: [_path(folder, task, number, method) for number in range(FOLDS)] for method in methods}
    files = {method: paths for method, paths in files.items() if any(path.exists() for path in paths)}
    numbers = [n for n in range(FOLDS) if all(paths[n].exists() for paths in files.values())]
    if not numbers or DEFAULT not in files:
        return {}
    parts = {method: [np.load(paths[number]) for number in numbers] for method, paths in files.items()}
    return {
        method: Forecasts(
            np.concatenate([one["probs"] for one in folds]), np.concatenate([one["y"] for one in folds]), len(folds)
        )
        for method, folds in parts.items()
    }


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


class Comparison(NamedTuple):
    """Another method beside ours: in what it is better and worse beyond chance (95 %), and by how much in RPS."""

    better: list[str]
    worse: list[str]
    rps: tuple[float, float]  # the interval of its RPS less ours


def compared(ours: FloatArray, theirs: FloatArray, y: IntArray) -> Comparison:
    """A paired bootstrap of the rows."""
    pairs = [np.maximum(one, 1e-12) / np.maximum(one, 1e-12).sum(axis=1, keepdims=True) for one in (ours, theirs)]
    evidence = [gather(Predictions(probs=one, y=y), bins=15)[0] for one in pairs]
    every = paired_differences(evidence[0], evidence[1], 2000, SEED)
    medians = [np.abs(decide_checked(one, "median") - y).astype(np.float64) for one in pairs]
    apart = medians[0] - medians[1]
    draws = np.random.default_rng(SEED).integers(len(y), size=(2000, len(y)))
    ends = {name: (every[name].low, every[name].high) for name in JUDGED}  # of ours less theirs
    ends["mae"] = tuple(np.quantile(apart[draws].mean(axis=1), [0.025, 0.975]))
    higher = {name for name, (low, _) in ends.items() if low > 0}
    lower = {name for name, (_, high) in ends.items() if high < 0}
    low, high = ends["rps"]
    return Comparison(
        [name for name in JUDGED if name in (higher if name in LOWER else lower)],
        [name for name in JUDGED if name in (lower if name in LOWER else higher)],
        (-high, -low),
    )


def write(folder: Path, out: Path, console: Console) -> None:
    """The tables: CSVs of every number, and who is better than the default, and than our trees, in what."""
    out.mkdir(parents=True, exist_ok=True)
    for name, methods in TABLES.items():
        lines = []
        ours = (DEFAULT,) if name == "headline" else (DEFAULT, TREES)
        for task in tasks(None):
            by_method = kept(folder, task, (*ours, *methods))
            if by_method.keys() <= {DEFAULT, TREES}:
                continue
            for method, (probs, y, folds) in by_method.items():
                line = {"task": task, "rows": len(y), "folds": folds, "method": method, **metrics_of(probs, y)}
                beside = {
                    name: compared(by_method[name].probs, probs, y) for name in (DEFAULT, TREES) if name in by_method
                }
                default, trees = beside[DEFAULT], beside.get(TREES, beside[DEFAULT])
                own = method in (DEFAULT, TREES)
                line["better"] = "" if own else " ".join(default.better)
                line["better than trees"] = "" if own or TREES not in beside else " ".join(trees.better)
                line["worse"] = "" if own else " ".join(default.worse)
                line["rps low"], line["rps high"] = default.rps
                lines.append(line)
        if lines:
            write_table(pa.Table.from_pylist(lines), out / f"{name}.csv")
            _print_verdict(name, lines, console)


def _print_verdict(name: str, lines: list[dict[str, Any]], console: Console) -> None:
    by_task = dict.fromkeys(line["task"] for line in lines)
    table = Table("task", *JUDGED, title=f"{name}: who is better than the default beyond chance (95 %)")
    unbeaten = dict.fromkeys(JUDGED, 0)
    for task in by_task:
        better = {
            metric: [line["method"] for line in lines if line["task"] == task and metric in line["better"].split()]
            for metric in JUDGED
        }
        table.add_row(task, *("; ".join(names) or "-" for names in better.values()))
        unbeaten = {metric: count + (not better[metric]) for metric, count in unbeaten.items()}
    console.print(table)
    counts = ", ".join(f"{metric} {count}" for metric, count in unbeaten.items())
    console.print(f"not beaten beyond chance, of {len(by_task)} tasks: {counts}")


def main() -> None:
    """Predict what is missing, or write the tables."""
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
    wanted, methods = ([one for one in names.split(",") if one] for names in (options.tasks, options.methods))
    if methods == ["headline"]:
        methods = [DEFAULT, *TABLES["headline"]]
    run(options.results, options.tables, wanted, methods, options.folds, console)


if __name__ == "__main__":
    main()
