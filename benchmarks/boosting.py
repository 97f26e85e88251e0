"""Training time of orcu's boosting objectives relative to the built-in ones, and the effect of the initial score.

    python benchmarks/boosting.py [--rows 54000,1000000] [--rounds 30]    # or: make bench

Same rows, same trees, all cores; training time as a ratio to the built-in multiclass cross-entropy of LightGBM
(XGBoost). CatBoost's custom objective is timed if it is installed: it is called for every row in Python, so orcu has no
adapter.
"""

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from orcu import boosting, geometry, metrics
from orcu.inputs import FloatArray, IntArray
from orcu.threads import cores

CLASSES, COLUMNS, REPEATS = 5, 10, 3


def sample(rows: int, seed: int = 0) -> tuple[FloatArray, IntArray]:
    """Ten numeric columns, five of them informative, and five classes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, COLUMNS))
    risk = x[:, 0] - x[:, 1] + np.sin(2 * x[:, 2]) + x[:, 3] * x[:, 4] + 0.7 * rng.normal(size=rows)
    return x, np.digitize(risk, [-3.0, -1.0, 0.5, 2.5])


def lightgbm_seconds(x: FloatArray, y: IntArray, rounds: int) -> dict[str, float]:
    """Training time of LightGBM with its multiclass objective and with orcu's."""
    import lightgbm as lgb

    data = lgb.Dataset(x, y, params={"verbosity": -1}, free_raw_data=False).construct()
    common = {"num_class": CLASSES, "num_threads": cores(), "verbosity": -1, "force_col_wise": True}

    def train(objective: Any) -> Callable[[], Any]:
        return lambda: lgb.train(common | {"objective": objective}, data, num_boost_round=rounds)

    return _medians(
        {
            "multiclass": train("multiclass"),
            'lightgbm_objective("ce")': train(boosting.lightgbm_objective("ce", num_classes=CLASSES)),
            'lightgbm_objective("orcu")': train(boosting.lightgbm_objective("orcu", num_classes=CLASSES)),
        }
    )


def xgboost_seconds(x: FloatArray, y: IntArray, rounds: int) -> dict[str, float]:
    """Training time of XGBoost with multi:softprob and with orcu's objectives."""
    import xgboost as xgb

    data = xgb.QuantileDMatrix(x, label=y)
    common = {"num_class": CLASSES, "nthread": cores(), "verbosity": 0, "disable_default_eval_metric": True}

    def train(objective: Any) -> Callable[[], Any]:
        if isinstance(objective, str):
            return lambda: xgb.train(common | {"objective": objective}, data, rounds)
        return lambda: xgb.train(common | {"base_score": 0.0}, data, rounds, obj=objective)

    return _medians(
        {
            "multi:softprob": train("multi:softprob"),
            'xgboost_objective("ce")': train(boosting.xgboost_objective("ce", num_classes=CLASSES)),
            'xgboost_objective("orcu")': train(boosting.xgboost_objective("orcu", num_classes=CLASSES)),
        }
    )


def catboost_seconds(x: FloatArray, y: IntArray, rounds: int) -> dict[str, float]:
    """Training time of CatBoost with MultiClass and with a custom cross-entropy."""
    from catboost import CatBoost

    class CrossEntropy:
        loss = boosting.objective("ce", num_classes=CLASSES)

        def calc_ders_multi(self, scores: Any, label: float, weight: float) -> tuple[list[float], list[list[float]]]:
            gradient, hessian = self.loss.gradient_and_hessian_unchecked(
                np.array([scores]), np.array([int(label)]), None
            )
            return (-gradient[0]).tolist(), np.diag(-hessian[0]).tolist()

    def train(loss: Any) -> Callable[[], Any]:
        options = {"iterations": rounds, "thread_count": cores(), "verbose": False, "allow_writing_files": False}
        return lambda: CatBoost(
            options | {"loss_function": loss, "eval_metric": "MultiClass", "classes_count": CLASSES}
        ).fit(x, y)

    return _medians({"MultiClass": train("MultiClass"), "custom objective": train(CrossEntropy())}, repeats=1)


def _medians(candidates: dict[str, Callable[[], Any]], repeats: int = REPEATS) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(repeats):  # interleaved, so that other load affects all candidates equally
        for name, step in candidates.items():
            started = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in times.items()}


def rps_by_round(rows: int = 4000, rounds: Sequence[int] = (1, 3, 10, 30, 100)) -> dict[str, list[float]]:
    """RPS of test rows by boosting round, with initial score 0 and `Objective.init_score`, on imbalanced classes."""
    import lightgbm as lgb

    x, _ = sample(2 * rows)
    rng = np.random.default_rng(1)
    y = np.digitize(x[:, 0] + x[:, 1] + 0.7 * rng.normal(size=2 * rows), [1.0, 2.0, 3.0, 4.0])
    loss = boosting.objective("orcu", num_classes=CLASSES)
    curves = {}
    for name, start in (("0", np.zeros(CLASSES)), ("equilibrium", loss.init_score(y[:rows]))):
        data = lgb.Dataset(x[:rows], y[:rows], init_score=np.tile(start, (rows, 1)), params={"verbosity": -1})
        objective = boosting.lightgbm_objective(loss, num_classes=CLASSES)
        params = {"objective": objective, "num_class": CLASSES, "num_threads": 1, "verbosity": -1}
        booster = lgb.train(params, data, num_boost_round=max(rounds))
        raw = [np.asarray(booster.predict(x[rows:], raw_score=True, num_iteration=n)) + start for n in rounds]
        curves[name] = [metrics.rps(geometry.probs(z), y[rows:]) for z in raw]
    return curves


def main() -> None:
    """Time the installed libraries."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="54000,1000000")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    console = Console()
    table = Table(
        "rows", "library", "objective", "seconds", "ratio", title=f"{options.rounds} rounds, {CLASSES} classes"
    )
    for rows in (int(number) for number in options.rows.split(",")):
        x, y = sample(rows)
        for package, timed in (("lightgbm", lightgbm_seconds), ("xgboost", xgboost_seconds)):
            if importlib.util.find_spec(package) is None:
                console.print(f"{package}: not installed")
                continue
            seconds = timed(x, y, options.rounds)
            reference = next(iter(seconds.values()))
            for name, value in seconds.items():
                table.add_row(f"{rows:,}", package, name, f"{value:.2f}", f"{value / reference:.2f}")
    if importlib.util.find_spec("catboost") is not None:
        x, y = sample(20_000)
        seconds = catboost_seconds(x, y, options.rounds)
        for name, value in seconds.items():
            table.add_row("20,000", "catboost", name, f"{value:.2f}", f"{value / seconds['MultiClass']:.2f}")
    console.print(table)
    if importlib.util.find_spec("lightgbm") is not None:
        table = Table("initial score", "1 round", "3", "10", "30", "100", title="RPS of test rows, ORCU loss")
        for name, values in rps_by_round().items():
            table.add_row(name, *(f"{value:.4f}" for value in values))
        console.print(table)


if __name__ == "__main__":
    main()
