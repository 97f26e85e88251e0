"""The automatic calibrator, fixed calibrators and those of probmetrics: RPS and NLL on real tables and LLM judges.

    python benchmarks/auto.py --tables DIR [--draws 12] [--json FILE]
    python benchmarks/auto.py --judges mllm_judge_logprobs.csv [--draws 50]

With --tables, LightGBM, a neural network and logistic regression are trained on a third of a table (at most 3,000
rows). Calibrators are fitted on 100, 400 and 1,000 other rows and evaluated on the rest. DIR and the tables are those
of benchmarks/defaults.py. The candidates of `auto` and its prior were chosen on the tables of `CHOSEN_ON`; the others
are held out. A cell is the mean over the draws, divided by that of `auto`. probmetrics (SMS, SVS, temperature) is
compared if it is installed: `pip install probmetrics numba`.

With --judges, the file has a row per answer: judge, p_1..p_5 (probabilities of the grades), human (human grade). For
each judge, every other block of 50 answers is used for fitting, n rows at a time, and the others for evaluation. A cell
is the mean RPS over the draws, after the projection, divided by the best fixed method or the class frequencies.
"""

import argparse
import importlib.util
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
from defaults import AbsentError, _diamonds, tasks

from orcu import calibrators, metrics
from orcu.calibrators.projection import nearest_unimodal

ROWS = (25, 50, 100, 200, 400)
FIXED = ("temperature", "vector", "gap", "dirichlet")
METHODS = (*FIXED, "ordinal_dirichlet", "auto")
BLOCK = 50

CHOSEN_ON = ("SWD", "ERA", "ESL", "abalone", "fair", "car")
HELD_OUT = ("LEV", "wine, red", "wine, white", "diamonds, cut", "diamonds, clarity", "diamonds, color")
MODELS = ("LightGBM", "network", "linear")
CALIBRATION_ROWS = (100, 400, 1000)
COMPARED = ("temperature+projection", "gap+projection", "dirichlet+projection")
PROBMETRICS = {"SMS": "logistic", "SVS": "svs", "temperature (probmetrics)": "ts-mix"}
MAX_TRAIN, MAX_TEST, MIN_TEST = 3000, 4000, 100
MIN_PROB = 1e-12


def model(name: str, seed: int) -> Any:
    """A classifier that is not fitted."""
    from lightgbm import LGBMClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if name == "LightGBM":
        return LGBMClassifier(num_leaves=15, min_child_samples=5, n_jobs=1, verbose=-1, random_state=seed)
    if name == "network":
        network = MLPClassifier((64, 64), learning_rate_init=3e-3, batch_size=64, max_iter=40, random_state=seed)
        return make_pipeline(StandardScaler(), network)
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))


def predictions(table: str, x: Any, y: np.ndarray, seed: int) -> Iterator[tuple[str, int, np.ndarray, np.ndarray, Any]]:
    """Model, number of calibration rows, probabilities and labels of the rows that follow, and the test rows."""
    import pandas as pd

    features = pd.get_dummies(pd.DataFrame(x)).to_numpy(np.float64)
    order = np.random.default_rng(seed).permutation(len(y))
    train_rows = min(MAX_TRAIN, len(y) // 3)
    if train_rows + CALIBRATION_ROWS[-1] + MIN_TEST > len(y) > CALIBRATION_ROWS[-1] + 2 * MIN_TEST:
        train_rows = 300  # so that 1,000 rows are left
    train, rest = np.split(order, [train_rows])
    for name in MODELS:
        fitted = model(name, seed).fit(features[train], y[train])
        probs = np.full((len(rest), int(y.max()) + 1), MIN_PROB)
        probs[:, fitted.classes_] = np.maximum(fitted.predict_proba(features[rest]), MIN_PROB)
        probs /= probs.sum(axis=1, keepdims=True)
        sizes = [size for size in CALIBRATION_ROWS if size + MIN_TEST <= len(rest)]
        test = slice(sizes[-1], sizes[-1] + MAX_TEST)
        for size in sizes:
            yield name, size, probs, y[rest], test


def calibrated(method: str, probs: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Calibrated probabilities of new rows."""
    if method not in PROBMETRICS:
        return calibrators.create(method).fit(probs=probs, y=y).predict_proba(probs=new)
    from probmetrics.calibrators import get_calibrator

    fitted = get_calibrator(PROBMETRICS[method])
    fitted.fit(probs, y)
    result = np.maximum(np.asarray(fitted.predict_proba(new), np.float64), MIN_PROB)
    return result / result.sum(axis=1, keepdims=True)


def compare_on_tables(folder: Path, draws: int, file: Path | None) -> None:
    """Print a line for each setting, and the number of settings in which `auto` has the lower score."""
    methods = ["auto", *COMPARED]
    if importlib.util.find_spec("probmetrics"):
        methods += PROBMETRICS
    else:
        print("probmetrics is not installed: its calibrators are skipped")
    loaders = {**tasks(folder), "diamonds, color": lambda: _diamonds("color")}
    scores: dict[tuple[str, str, int], dict[str, list[tuple[float, float, float]]]] = {}
    for table in (*CHOSEN_ON, *HELD_OUT):
        try:
            x, y = loaders[table]()
        except (AbsentError, ImportError) as error:
            print(f"{table} is skipped: {error}")
            continue
        for seed in range(draws):
            for name, size, probs, labels, test in predictions(table, x, y, seed):
                row = scores.setdefault((table, name, size), {method: [] for method in methods})
                for method in methods:
                    p = calibrated(method, probs[:size], labels[:size], probs[test])
                    values = metrics.rps(p, labels[test]), metrics.nll(p, labels[test]), metrics.unimodality(p)
                    row[method].append(values)
        print(f"{table} done", flush=True)
    means = {setting: {m: np.mean(v, axis=0).tolist() for m, v in row.items()} for setting, row in scores.items()}
    if file is not None:
        lines = [{"setting": list(setting), "rps_nll_unimodality": row} for setting, row in means.items()]
        file.write_text(json.dumps(lines, indent=1))
    print_wins(means, methods[1:])


def print_wins(means: dict[tuple[str, str, int], dict[str, list[float]]], rivals: list[str]) -> None:
    """Print the scores relative to `auto`, and in how many settings those of `auto` are lower."""
    print(f"\n{'RPS / NLL relative to auto':40s}" + "".join(f"{name[:20]:>22s}" for name in rivals))
    for (table, name, size), row in means.items():
        cells = (f"{row[rival][0] / row['auto'][0]:.3f} / {row[rival][1] / row['auto'][1]:.3f}" for rival in rivals)
        print(f"{table:20s}{name:14s}{size:6d}" + "".join(f"{cell:>22s}" for cell in cells))
    for title, tables in (("chosen on", CHOSEN_ON), ("held out", HELD_OUT)):
        for models in (MODELS[:2], MODELS[2:]):
            rows = [row for (table, name, _), row in means.items() if table in tables and name in models]
            if not rows:
                continue
            shares = min(row["auto"][2] for row in rows)
            print(f"\n{title}, {' and '.join(models)}: auto is lower in ... of {len(rows)}; unimodal {shares:.1%}")
            for rival in rivals:
                lower = [sum(row["auto"][k] < row[rival][k] for row in rows) for k in range(2)]
                gain = [100 * np.mean([row["auto"][k] / row[rival][k] - 1 for row in rows]) for k in range(2)]
                print(f"  {rival:28s} RPS {lower[0]:3d} ({gain[0]:+.2f} %)   NLL {lower[1]:3d} ({gain[1]:+.2f} %)")


def compare_on_judges(file: Path, draws: int) -> None:
    """Print a line for each judge and number of rows."""
    table = pyarrow.csv.read_csv(file)
    judges = np.array(table["judge"].to_pylist())
    probs = np.stack([table[f"p_{k}"].to_numpy() for k in range(1, 6)], axis=1)
    grades = table["human"].to_numpy().astype(np.int64) - 1
    print(f"{'judge':16s}{'rows':>5s}{'best':>8s}" + "".join(f"{name:>19s}" for name in (*METHODS, "frequencies")))
    for judge in np.unique(judges):
        rows_of_judge = judges == judge
        p, y = np.maximum(probs[rows_of_judge], 1e-12), grades[rows_of_judge]
        p /= p.sum(axis=1, keepdims=True)
        odd = (np.arange(len(y)) // BLOCK) % 2 == 1
        pool, test = np.flatnonzero(~odd), np.flatnonzero(odd)
        for rows in ROWS:
            scores = {name: [] for name in (*METHODS, "frequencies")}
            for draw in range(draws):
                fit = np.random.default_rng(draw).choice(pool, rows, replace=False)
                for name in METHODS:
                    unimodal = nearest_unimodal(calibrated(name, p[fit], y[fit], p[test]))
                    scores[name].append(metrics.rps(unimodal, y[test]))
                share = np.bincount(y[fit], minlength=5) / rows
                scores["frequencies"].append(metrics.rps(np.tile(share, (len(test), 1)), y[test]))
            means = {name: float(np.mean(values)) for name, values in scores.items()}
            best = min(means[name] for name in (*FIXED, "frequencies"))
            cells = "".join(f"{mean / best:19.3f}" for mean in means.values())
            print(f"{judge[:15]:16s}{rows:5d}{best:8.3f}{cells}", flush=True)


def main() -> None:
    """Run the comparisons whose data are given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, help="folder of the CSV files")
    parser.add_argument("--judges", type=Path, help="CSV file of two LLM judges")
    parser.add_argument("--draws", type=int, help="number of draws (default 12 for tables, 50 for judges)")
    parser.add_argument("--json", type=Path, help="output file of the scores on the tables")
    options = parser.parse_args()
    if options.tables is None and options.judges is None:
        parser.error("pass --tables, --judges or both")
    warnings.simplefilter("ignore")  # few rows, networks that have not converged
    if options.tables is not None:
        compare_on_tables(options.tables, options.draws or 12, options.json)
    if options.judges is not None:
        compare_on_judges(options.judges, options.draws or 50)


if __name__ == "__main__":
    main()
