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
  the archived rows (and with the archived version of orcu), without fitting the rivals again.

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
SCALE = 3000.0  # of archived scores
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
    """AutoGluon's best preset without GPU; its models are fitted one after another in this process.

    On one core 120 seconds are enough for about 1,000 training rows. On larger tables most of its models do not finish.
    """

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


def _preset(name: str) -> Family:
    """`OrdinalClassifier` with another preset than the default."""

    def predict(x: Any, y: IntArray, new: Any) -> FloatArray:
        from orcu import OrdinalClassifier

        return OrdinalClassifier(presets=name, random_state=SEED).fit(x, y).predict_proba(new)

    return _rival(f"orcu, {name}", predict, "orcu")


PRESETS = (_preset("fast"), _preset("best"))


def families(seconds: float) -> list[Family]:
    """Families of orcu's presets and all rivals, AutoGluon with the given time limit."""
    return [_from_defaults(DEFAULT, "orcu"), *PRESETS, *RIVALS, _autogluon(seconds)]


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
    return [DEFAULT, *autogluon, *(family.methods[0] for family in (*PRESETS, *RIVALS))]


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
    """Add the scores of archived methods that the store does not have, and those of the archived version of orcu."""
    table = pq.read_table(archive)
    columns = [name for name in table.column_names if name.startswith(("rps:", "nll:"))]
    for task, rows in by_task.items():
        part = table.filter(pc.equal(table["task"], task))
        if not part.num_rows:
            continue
        if not all(np.array_equal(part[name].to_numpy(), getattr(rows, name)) for name in ("fold", "row")):
            raise SystemExit(f"{archive}: its rows of {task} are not the test rows of these tables.")
        for column in columns:
            score, method = column.split(":", 1)
            roots = part[column].to_numpy(zero_copy_only=False).astype(np.float64)  # null becomes NaN
            if method not in rows.forecasts or method == DEFAULT:
                title = f"{DEFAULT} (archived)" if method == DEFAULT else method
                rows.scores[score, title] = np.square(roots / part["scale"].to_numpy())
        for score, method in [key for key, values in rows.scores.items() if not np.isfinite(values).any()]:
            del rows.scores[score, method]


def summaries(by_task: dict[str, TaskRows]) -> list[dict[str, Any]]:
    """A line for each task, subset of rows and method."""
    lines = []
    for task, rows in by_task.items():
        for subset, chosen in ((ALL, np.ones(len(rows.row), dtype=bool)), (UNSEEN, ~rows.twin)):
            for method in dict.fromkeys(method for _, method in rows.scores):
                scored = np.isfinite(rows.scores["rps", method])
                shared = scored & np.isfinite(rows.scores.get(("rps", DEFAULT), scored))
                if (chosen & shared).any():
                    line = {"task": task, "subset": subset, "method": method}
                    lines.append(line | _summary(rows, method, shared, chosen & shared))
    return lines


def _summary(rows: TaskRows, method: str, shared: np.ndarray, chosen: np.ndarray) -> dict[str, Any]:
    """Metrics of a method on chosen rows of the folds that it shares with orcu's default, and differences from it."""
    folds = np.unique(rows.fold[shared]).tolist()
    line: dict[str, Any] = {"folds": len(folds), "rows": int(chosen.sum())}
    line |= {score: float(rows.scores[score, method][chosen].mean()) for score in SCORES}
    if method in rows.forecasts:
        forecasts = [rows.forecasts[method][fold] for fold in folds]
        probs, y = np.concatenate([forecast.probs for forecast in forecasts])[chosen[shared]], rows.y[chosen]
        values = {**metrics_of(probs, y), "qwk": metrics.qwk(probs, y)}
        line |= {name: values[name] for name in ("accuracy", "qwk", "mae", "unimodal")}
        line |= {name: float(np.mean([getattr(f, name) for f in forecasts])) for name in ("seconds", "cpu_seconds")}
        line["time_limit"] = None if np.isnan(forecasts[0].time_limit) else forecasts[0].time_limit
        line["version"] = "; ".join(dict.fromkeys(forecast.version for forecast in forecasts))
    if method != DEFAULT and ("rps", DEFAULT) in rows.scores:
        for score in SCORES:
            default = rows.scores[score, DEFAULT]
            if method not in rows.forecasts:  # archived: both are rounded, so that equal predictions have equal scores
                default = np.square(rounded_roots(default) / scale_of(len(default)))
            difference = (rows.scores[score, method] - default)[chosen]
            low, high = bootstrap_interval(difference)
            line |= {f"{score} difference": float(difference.mean()), f"{score} low": low, f"{score} high": high}
            line[f"{score} verdict"] = verdict(low, high)
    return line


def verdict(low: float, high: float) -> str:
    """Significance of a method's difference from orcu's default, from its interval; lower scores are better."""
    return "better" if high < 0 else "worse" if low > 0 else "tie"


def scale_of(rows: int) -> float:
    """Scale of the archived scores of a table: lower for large tables, where rounding errors average out."""
    return float(np.round(SCALE / np.sqrt(rows)))


def rounded_roots(scores: FloatArray) -> FloatArray:
    """Square roots of the scores of all rows of a table, in units of 1 / scale."""
    return np.round(np.sqrt(scores) * scale_of(len(scores)))


def write_rows(by_task: dict[str, TaskRows], file: Path, versions: dict[str, str]) -> None:
    """Archive the rounded square roots of the scores of all test rows.

    The file has half the size of one with half-precision numbers, and the mean of a table changes by about 0.1 %.
    """
    methods = list(dict.fromkeys(method for rows in by_task.values() for _, method in rows.scores))
    sizes = [len(rows.row) for rows in by_task.values()]
    columns: dict[str, Any] = {
        "task": np.repeat(list(by_task), sizes),
        "fold": np.concatenate([rows.fold for rows in by_task.values()]).astype(np.int32),
        "row": np.concatenate([rows.row for rows in by_task.values()]).astype(np.int32),
        "twin": np.concatenate([rows.twin for rows in by_task.values()]),
        "scale": np.repeat([scale_of(size) for size in sizes], sizes),
    }
    for score in SCORES:
        for method in methods:
            parts = [rows.scores.get((score, method), np.full(len(rows.row), np.nan)) for rows in by_task.values()]
            roots = np.concatenate([rounded_roots(part) for part in parts])
            missing = np.isnan(roots)
            columns[f"{score}:{method}"] = pa.array(np.where(missing, 0, roots).astype(np.int32), mask=missing)
    about = {
        "task, fold, row": "test rows of benchmarks/defaults.py: split_folds(y, 5)",
        "twin": "whether a training row of the fold has the same features",
        "rps:METHOD, nll:METHOD": "ranked probability score and negative log-likelihood of the row: (value / scale)², "
        "null if not predicted. Rounding changes the mean of a table by about 0.1 %",
        "command": "python benchmarks/rivals.py --write",
        "versions": versions,
    }
    table = pa.table(columns).replace_schema_metadata({"orcu": json.dumps(about, ensure_ascii=False)})
    encoding = {name: "BYTE_STREAM_SPLIT" for name in columns if ":" in name}  # the upper bytes are zero
    encoding |= {"fold": "DELTA_BINARY_PACKED", "row": "DELTA_BINARY_PACKED"}
    with atomic_write(file) as temporary:
        pq.write_table(
            table,
            temporary,
            compression="zstd",
            compression_level=19,
            use_dictionary=["task", "scale"],
            column_encoding=encoding,
        )


def write(by_task: dict[str, TaskRows], out: Path, console: Console, *, archive_rows: bool = True) -> None:
    """Write rivals.csv, rivals.parquet and rival_rows.parquet, and print the RPS of all methods."""
    out.mkdir(parents=True, exist_ok=True)
    lines = summaries(by_task)
    columns = dict.fromkeys(column for line in lines for column in line)
    table = pa.Table.from_pylist([{column: line.get(column) for column in columns} for line in lines])
    for ending in ("csv", "parquet"):
        write_table(table, out / f"rivals.{ending}")
    if archive_rows:
        write_rows(by_task, out / "rival_rows.parquet", {line["method"]: line["version"] for line in lines})
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
        by_task = {line["task"]: line for line in lines if line["method"] == method}
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
        write(by_task, options.write, console, archive_rows=options.archive is None)
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
