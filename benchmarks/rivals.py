"""The strongest installable rivals of `OrdinalClassifier()` on eleven tables: the same five folds, paired intervals.

    python benchmarks/rivals.py --tables DIR --results results/rivals [--tasks lev,wine] [--methods forest,xrfm]
    python benchmarks/rivals.py --tables DIR --results results/rivals --write results/rivals   # the tables
    python benchmarks/rivals.py --tables DIR --results NEW --archive rival_rows.parquet --write NEW

Tables, folds and the store of predictions are those of `benchmarks/defaults.py`: an interrupted run continues, and all
tasks have their first fold before any has its second. --tasks and --methods are parts of names. A method whose package
is not installed is skipped with a message. AutoGluon pins older versions of torch and pandas, so it needs a separate
environment; several environments can write to the same folder. Set OMP_NUM_THREADS to the number of cores to use.

A test row has a twin if a training row of its fold has exactly the same features. Scores are reported for all rows and
for rows without a twin. --write creates

- rivals.csv and rivals.parquet: metrics of each task, method and subset of rows on the folds that the method and
  orcu's default have, with the difference in RPS and NLL from orcu's default (paired bootstrap of rows, 95 %);
- rival_rows.parquet: RPS and NLL of every test row and method. With --archive a later version of orcu is compared with
  the archived rows, without fitting the rivals again.

TabPFN and TabICL are missing. They download their weights when they are fitted first, which needs a network.
"""

import argparse
import io
import json
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from defaults import (
    DEFAULT,
    FAMILIES,
    FOLDS,
    SEED,
    Family,
    bootstrap_interval,
    load_tasks,
    matches,
    metrics_of,
    prediction_file,
    run,
    split_folds,
    tree_frame,
)
from rich.console import Console
from rich.table import Table

from orcu import metrics
from orcu.inputs import FloatArray, IntArray
from orcu.io.files import atomic_write
from orcu.io.writing import write_table

TASKS = (  # small tables first
    "ESL",
    "LEV",
    "SWD",
    "ERA",
    "wine, red",
    "car",
    "abalone",
    "wine, white",
    "fair",
    "diamonds, cut",
    "diamonds, clarity",
)
TREES = 500  # of a forest
ALL, UNSEEN = "all", "without twin"  # subsets of the test rows
SCORES = ("rps", "nll")  # compared row by row
INSTALL = {  # what to install for a package
    "autogluon.tabular": '"autogluon.tabular[catboost,fastai,lightgbm]==1.6.3" in a separate environment',
    "catboost": "catboost",
    "interpret-core": "interpret",
    "lightgbm": "lightgbm",
    "ogboost": "ogboost",
    "pytabkit": '"pytabkit[models]"',
    "skordinal": "skordinal",
    "xrfm": '"pytabkit[models]" xrfm',
}


def _matrices(x: Any, new: Any) -> tuple[FloatArray, FloatArray]:
    """Numeric features of training and new rows: ordered categories as codes, other categories one-hot."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.preprocessing import OneHotEncoder

    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer(
        (one_hot, make_column_selector(dtype_include="category")), remainder="passthrough"
    )
    return columns.fit_transform(tree_frame(x, x)), columns.transform(tree_frame(new, x))


Predict = Callable[[Any, IntArray, Any], FloatArray]


def _rival(method: str, predict: Predict, package: str, **options: Any) -> Family:
    return Family((method,), lambda x, y, new: [predict(x, y, new)], package=package, **options)


def _from_defaults(method: str, package: str, title: str | None = None) -> Family:
    """A method of `benchmarks/defaults.py`, without the other methods of its family."""
    family = next(family for family in FAMILIES if method in family.methods)
    place = family.methods.index(method)
    return _rival(title or method, lambda x, y, new: family.predict(x, y, new)[place], package)


def _forest(name: str) -> Family:
    """A forest of scikit-learn; half a vote is added to each class, because a probability of 0 has an infinite NLL."""

    def predict(x: Any, y: IntArray, new: Any) -> FloatArray:
        import sklearn.ensemble

        train, test = _matrices(x, new)
        forest = getattr(sklearn.ensemble, f"{name}Classifier")(
            TREES, random_state=SEED, n_jobs=torch.get_num_threads()
        )
        votes = TREES * forest.fit(train, y).predict_proba(test)
        return (votes + 0.5) / (TREES + 0.5 * votes.shape[1])

    return _rival(name, predict, "scikit-learn")


def _ogboost(x: Any, y: IntArray, new: Any) -> FloatArray:
    from ogboost import GradientBoostingOrdinal

    train, test = _matrices(x, new)
    model = GradientBoostingOrdinal(n_estimators=300, n_iter_no_change=20, random_state=SEED)
    return model.fit(train, y).predict_proba(test)


def _ebm(x: Any, y: IntArray, new: Any) -> FloatArray:
    """An explainable boosting machine with its defaults (pairs of features included)."""
    from interpret.glassbox import ExplainableBoostingClassifier

    model = ExplainableBoostingClassifier(random_state=SEED, n_jobs=torch.get_num_threads())
    return model.fit(tree_frame(x, x), y).predict_proba(tree_frame(new, x))


def _pytabkit(name: str, folds: int, **options: Any) -> Predict:
    """A classifier of pytabkit, selected by cross-entropy and calibrated with a mixture of temperature scaling."""

    def predict(x: Any, y: IntArray, new: Any) -> FloatArray:
        import pytabkit

        model = getattr(pytabkit, f"{name}_Classifier")(
            n_cv=folds,
            device="cpu",
            n_threads=torch.get_num_threads(),
            random_state=SEED,
            val_metric_name="cross_entropy",
            calibration_method="ts-mix",
            **options,
        )
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # progress of every iteration
            return model.fit(tree_frame(x, x), y).predict_proba(tree_frame(new, x))

    return predict


def _autogluon(seconds: float) -> Family:
    """AutoGluon's best preset without GPU; its models are fitted one after another in this process."""

    def predict(x: Any, y: IntArray, new: Any) -> FloatArray:
        from autogluon.tabular import TabularPredictor

        with tempfile.TemporaryDirectory() as folder:
            predictor = TabularPredictor(
                "label", problem_type="multiclass", eval_metric="log_loss", path=f"{folder}/models", verbosity=1
            ).fit(
                x.assign(label=y),
                presets="best_quality_v150",
                time_limit=seconds,
                calibrate=True,
                dynamic_stacking=False,
                num_cpus=torch.get_num_threads(),
                num_gpus=0,
                ag_args_ensemble={"fold_fitting_strategy": "sequential_local"},
            )
            frame = predictor.predict_proba(new)
        probs = np.zeros((len(new), int(y.max()) + 1))
        probs[:, frame.columns.to_numpy().astype(np.int64)] = frame.to_numpy()
        return probs

    return _rival(f"AutoGluon, {seconds:g} s", predict, "autogluon.tabular", time_limit=seconds)


RIVALS = (  # fast ones first
    _from_defaults("skordinal, POM", "skordinal", "proportional odds"),
    _forest("ExtraTrees"),
    _forest("RandomForest"),
    _rival("xRFM", _pytabkit("XRFM_D", 5), "xrfm"),
    _rival("EBM", _ebm, "interpret-core"),
    _rival("ogboost", _ogboost, "ogboost"),
    _from_defaults("LightGBM, tuned + temperature", "lightgbm"),
    _from_defaults("CatBoost, tuned + temperature", "catboost"),
    _rival("RealMLP", _pytabkit("RealMLP_TD", 5, use_ls=False), "pytabkit"),
    _rival("TabM", _pytabkit("TabM_D", 1), "pytabkit"),
)


def families(seconds: float) -> list[Family]:
    """Families of orcu's default and all rivals, AutoGluon with the given time limit."""
    return [_from_defaults(DEFAULT, "orcu"), *RIVALS, _autogluon(seconds)]


def installed(wanted: Sequence[Family], console: Console) -> list[Family]:
    """Families whose package is installed; a message says what to install for the others."""
    available = []
    for family in wanted:
        try:
            version(family.package)
            available.append(family)
        except PackageNotFoundError:
            hint = INSTALL.get(family.package, family.package)
            console.print(
                f"{family.methods[0]}: skipped, {family.package} is not installed (pip install {hint})", markup=False
            )
    return available


def stored_methods(folder: Path) -> list[str]:
    """Methods that may have predictions in a folder: all rivals, and AutoGluon with each stored time limit."""
    limits = {re.search(r"_AutoGluon,_(.+)_s\.npz$", file.name) for file in folder.glob("*_AutoGluon,_*_s.npz")}
    autogluon = [f"AutoGluon, {limit} s" for limit in sorted({match[1] for match in limits if match}, key=float)]
    return [DEFAULT, *autogluon, *(family.methods[0] for family in RIVALS)]


def has_twin(x: Any, train: IntArray, test: IntArray) -> np.ndarray:
    """Whether a training row has exactly the features of a test row, for each test row."""
    groups = x.groupby(list(x.columns), dropna=False, observed=True, sort=False).ngroup().to_numpy()
    return np.isin(groups[test], groups[train])


class Forecast(NamedTuple):
    """Stored predictions of a method on a fold."""

    probs: FloatArray
    seconds: float
    cpu_seconds: float
    time_limit: float
    version: str


class TaskRows(NamedTuple):
    """All test rows of a task, fold after fold, with the scores of methods; NaN for folds that a method lacks."""

    fold: IntArray
    row: IntArray
    twin: np.ndarray
    y: IntArray
    scores: dict[tuple[str, str], FloatArray]  # by score and method
    forecasts: dict[str, dict[int, Forecast]]  # by method and fold; empty for archived methods


def row_scores(probs: FloatArray, y: IntArray) -> dict[str, FloatArray]:
    """RPS and NLL of each row; probabilities of 0 count as 1e-12 in the NLL."""
    floored = np.maximum(probs, 1e-12)
    floored /= floored.sum(axis=1, keepdims=True)
    below = y[:, None] <= np.arange(probs.shape[1])
    return {"rps": np.square(probs.cumsum(axis=1) - below).sum(axis=1), "nll": -np.log(floored[np.arange(len(y)), y])}


def load_rows(folder: Path, task: str, x: Any, y: IntArray) -> TaskRows:
    """Scores of all stored methods on the test rows of a task."""
    folds = split_folds(y, FOLDS)
    numbers = np.concatenate([np.full(len(test), number) for number, (_, test) in enumerate(folds)])
    rows = np.concatenate([test for _, test in folds])
    twins = np.concatenate([has_twin(x, train, test) for train, test in folds])
    result = TaskRows(numbers, rows, twins, y[rows], {}, {})
    for method in stored_methods(folder):
        for number, (_, test) in enumerate(folds):
            file = prediction_file(folder, task, number, method)
            if not file.exists():
                continue
            with np.load(file) as stored:
                if not np.array_equal(stored["y"], y[test]):
                    raise SystemExit(f"{file}: its labels are not those of fold {number} of {task}; delete the file.")
                values = {name: stored[name].item() for name in Forecast._fields[1:]}
                forecast = Forecast(stored["probs"], **values)
            result.forecasts.setdefault(method, {})[number] = forecast
            for score, values in row_scores(forecast.probs, y[test]).items():
                column = result.scores.setdefault((score, method), np.full(len(rows), np.nan))
                column[numbers == number] = values
    return result


def add_archived(by_task: dict[str, TaskRows], archive: Path) -> None:
    """Add the scores of archived methods that the store does not have."""
    table = pq.read_table(archive)
    columns = {name: tuple(name.split(":", 1)) for name in table.column_names if name.startswith(("rps:", "nll:"))}
    for task, rows in by_task.items():
        part = table.filter(pc.equal(table["task"], task))
        if not part.num_rows:
            continue
        if not all(np.array_equal(part[name].to_numpy(), getattr(rows, name)) for name in ("fold", "row")):
            raise SystemExit(f"{archive}: its rows of {task} are not the test rows of these tables.")
        for name, (score, method) in columns.items():
            values = part[name].to_numpy(zero_copy_only=False).astype(np.float64)
            if method not in rows.forecasts and np.isfinite(values).any():
                rows.scores[score, method] = values


def summaries(by_task: dict[str, TaskRows]) -> list[dict[str, Any]]:
    """A line for each task, subset of rows and method."""
    lines = []
    for task, rows in by_task.items():
        methods = list(dict.fromkeys(method for _, method in rows.scores))
        for subset, chosen in ((ALL, np.ones(len(rows.row), dtype=bool)), (UNSEEN, ~rows.twin)):
            lines += [
                {"task": task, "subset": subset, "method": method, **_summary(rows, method, chosen)}
                for method in methods
                if chosen.any()
            ]
    return lines


def _summary(rows: TaskRows, method: str, chosen: np.ndarray) -> dict[str, Any]:
    """Metrics of a method on chosen rows of the folds that it shares with orcu's default, and differences from it."""
    own = np.isfinite(rows.scores["rps", method])
    shared = own & np.isfinite(rows.scores.get(("rps", DEFAULT), own))
    chosen = chosen & shared
    folds = np.unique(rows.fold[shared]).tolist()
    line: dict[str, Any] = {"folds": len(folds), "rows": int(chosen.sum())}
    line |= {score: float(rows.scores[score, method][chosen].mean()) for score in SCORES if chosen.any()}
    forecasts = [rows.forecasts[method][fold] for fold in folds if method in rows.forecasts]
    if forecasts and chosen.any():
        probs, y = np.concatenate([forecast.probs for forecast in forecasts])[chosen[shared]], rows.y[chosen]
        values = {**metrics_of(probs, y), "qwk": metrics.qwk(probs, y)}
        line |= {name: values[name] for name in ("accuracy", "qwk", "mae", "unimodal")}
        line |= {name: float(np.mean([getattr(f, name) for f in forecasts])) for name in ("seconds", "cpu_seconds")}
        line["time_limit"] = None if np.isnan(forecasts[0].time_limit) else forecasts[0].time_limit
        line["version"] = "; ".join(dict.fromkeys(forecast.version for forecast in forecasts))
    if method != DEFAULT and ("rps", DEFAULT) in rows.scores and chosen.any():
        for score in SCORES:
            difference = (rows.scores[score, method] - rows.scores[score, DEFAULT])[chosen]
            low, high = bootstrap_interval(difference)
            line |= {f"{score} difference": float(difference.mean()), f"{score} low": low, f"{score} high": high}
            line[f"{score} verdict"] = verdict(low, high)
    return line


def verdict(low: float, high: float) -> str:
    """Significance of a method's difference from orcu's default, from its interval; lower scores are better."""
    return "better" if high < 0 else "worse" if low > 0 else "tie"


def write_rows(by_task: dict[str, TaskRows], file: Path, versions: dict[str, str]) -> None:
    """Archive the scores of all test rows, rounded to half precision (relative error below 0.1 %)."""
    methods = list(dict.fromkeys(method for rows in by_task.values() for _, method in rows.scores))
    columns: dict[str, Any] = {
        "task": pa.array(np.repeat(list(by_task), [len(rows.row) for rows in by_task.values()])).dictionary_encode(),
        "fold": pa.array(np.concatenate([rows.fold for rows in by_task.values()]).astype(np.int8)),
        "row": pa.array(np.concatenate([rows.row for rows in by_task.values()]).astype(np.int32)),
        "twin": pa.array(np.concatenate([rows.twin for rows in by_task.values()])),
    }
    for score in SCORES:
        for method in methods:
            parts = [rows.scores.get((score, method), np.full(len(rows.row), np.nan)) for rows in by_task.values()]
            columns[f"{score}:{method}"] = pa.array(np.concatenate(parts).astype(np.float16))
    about = {
        "task, fold, row, twin": "test rows of benchmarks/defaults.py: split_folds(y, 5); twin: a training row of the "
        "fold has the same features",
        "rps:METHOD, nll:METHOD": "ranked probability score and negative log-likelihood of the row, in half precision "
        "(relative error below 0.1 %); NaN: not predicted",
        "command": "python benchmarks/rivals.py --write",
        "versions": versions,
    }
    table = pa.table(columns).replace_schema_metadata({"orcu": json.dumps(about)})
    with atomic_write(file) as temporary:
        pq.write_table(
            table,
            temporary,
            compression="zstd",
            compression_level=19,
            use_dictionary=["task"],
            use_byte_stream_split=[name for name in columns if ":" in name],
        )


def write(by_task: dict[str, TaskRows], out: Path, console: Console) -> None:
    """Write rivals.csv, rivals.parquet and rival_rows.parquet, and print the RPS of all methods."""
    out.mkdir(parents=True, exist_ok=True)
    lines = summaries(by_task)
    columns = dict.fromkeys(column for line in lines for column in line)
    table = pa.Table.from_pylist([{column: line.get(column) for column in columns} for line in lines])
    for ending in ("csv", "parquet"):
        write_table(table, out / f"rivals.{ending}")
    write_rows(by_task, out / "rival_rows.parquet", {line["method"]: line.get("version", "") for line in lines})
    for subset in (ALL, UNSEEN):
        _print_table(subset, [line for line in lines if line["subset"] == subset], console)


def _print_table(subset: str, lines: list[dict[str, Any]], console: Console) -> None:
    """Print the RPS of each method and task, and in how many tasks it is significantly better and worse."""
    marks = {"better": " +", "worse": " -"}
    tasks = list(dict.fromkeys(line["task"] for line in lines))
    caption = "+ significantly better, - worse than orcu's default (paired, 95 %); (n): on n folds only"
    heads = ("RPS +/-", "NLL +/-")
    table = Table("method", *tasks, *heads, title=f"RPS, rows: {subset}", caption=caption)
    for method in dict.fromkeys(line["method"] for line in lines):
        by_task = {line["task"]: line for line in lines if line["method"] == method and line["rows"]}
        cells = []
        for task in tasks:
            line = by_task.get(task)
            if line is None:
                cells.append("")
                continue
            folds = f" ({line['folds']})" if line["folds"] < FOLDS else ""
            cells.append(f"{line['rps']:.4f}{marks.get(line.get('rps verdict', ''), '')}{folds}")
        for score in SCORES:
            verdicts = [line.get(f"{score} verdict") for line in by_task.values()]
            cells.append(f"{verdicts.count('better')}/{verdicts.count('worse')}" if any(verdicts) else "")
        table.add_row(method, *cells)
    console.print(table)


def main() -> None:
    """Compute missing predictions, or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, default=None)
    parser.add_argument("--results", type=Path, default=Path("results/rivals"))
    parser.add_argument("--tasks", default="")
    parser.add_argument("--methods", default="")
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--autogluon-seconds", type=float, default=240.0)
    parser.add_argument("--write", type=Path, default=None)
    parser.add_argument("--archive", type=Path, default=None)
    options = parser.parse_args()
    console = Console()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    wanted = [part.strip() for part in options.tasks.split(",") if part]
    loaded = load_tasks(options.tables, [task for task in TASKS if matches(task, wanted)], console)
    if options.write is not None:
        by_task = {task: load_rows(options.results, task, x, y) for task, (x, y) in loaded.items()}
        if options.archive is not None:
            add_archived(by_task, options.archive)
        write(by_task, options.write, console)
        return
    everything = families(options.autogluon_seconds)
    if options.methods in {family.methods[0] for family in everything}:  # names contain commas
        parts = [options.methods]
    else:
        parts = [part.strip() for part in options.methods.split(",") if part]
    chosen = [family for family in everything if matches(family.methods[0], parts)]
    run(options.results, loaded, installed(chosen, console), range(options.folds), console)


if __name__ == "__main__":
    main()
