"""Latency of predictions: one row and 1,000 rows by `OrdinalClassifier`, a model folder and ONNX, beside LightGBM.

    python benchmarks/latency.py [--quick]

The table is simulated: 2,000 training rows, 16 columns of numbers and 4 of categories, five classes. The ensemble is
the default one. Each call is repeated in turn with the others, so that all see the same load of the machine. The tables
show the median and the 99th percentile in milliseconds. *members* is the sum of what the libraries of the members take
for rows that are encoded already, in every fold: LightGBM's predict, scikit-learn's compiled trees (without the checks
and threads of its forests), torch's forward pass, and one product for the linear model. *LightGBM* is an LGBMClassifier
with its defaults. ONNX has one thread. `--quick` trains a small ensemble. The imports are measured in new processes.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import onnxruntime
import pandas as pd
import torch
from rich.console import Console
from rich.table import Table
from sklearn.tree._tree import Tree

from orcu import OrdinalClassifier
from orcu.boosting.libraries import LightGBMLearner
from orcu.ensemble.forest import Forest, ForestLearner
from orcu.ensemble.linear import LinearLearner
from orcu.integrations.onnx import model_to_onnx
from orcu.preprocessing import float32_codes
from orcu.training.experiment import train
from orcu.training.predict import TableModel

ROWS, CATEGORIES = 2000, ("north", "south", "east", "west")
IMPORTS = {
    "onnxruntime": "import onnxruntime",
    "orcu, a model with joblib": "import orcu; orcu.OrdinalClassifier",
    "orcu, a model folder": "import orcu.training.predict",
}


def table(rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Twenty columns, and a grade that depends on four of them."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{k}": rng.normal(size=rows) for k in range(16)})
    for k in range(4):
        frame[f"c{k}"] = rng.choice(CATEGORIES, rows)
    score = frame["x0"] + 0.7 * frame["x1"] * frame["x2"] + (frame["c0"] == "north") + rng.normal(scale=0.7, size=rows)
    return frame, np.digitize(score, [-1.5, -0.5, 0.5, 1.5])


def own_predict(model: OrdinalClassifier, frame: pd.DataFrame) -> Callable[[], None]:
    """The prediction of every member by its own library, without orcu."""
    inputs = model._encode(frame)
    codes, features = inputs.codes, inputs.features
    rows, tensor = float32_codes(codes), torch.from_numpy(features)
    calls: list[Callable[[], Any]] = []
    for member in model.ensemble_.members:
        for fitted in member.models:
            if isinstance(member.learner, LightGBMLearner):
                calls.append(lambda booster=fitted: booster.predict(codes, raw_score=True, num_threads=1))
            elif isinstance(member.learner, ForestLearner):
                calls += [lambda tree=tree: tree.predict(rows) for tree in as_trees(fitted)]
            elif isinstance(member.learner, LinearLearner):
                calls.append(lambda linear=fitted: features @ linear.coef)
            else:
                calls.append(lambda network=fitted: network(tensor))

    def predict() -> None:
        with torch.inference_mode():
            for call in calls:
                call()

    return predict


def as_trees(forest: Forest) -> list[Tree]:
    """The trees of a forest as scikit-learn has them."""
    trees = []
    for nodes, values in forest.trees():
        tree = Tree(forest.n_columns, np.ones(values.shape[1], dtype=np.intp), values.shape[1])
        padded = np.ascontiguousarray(values[:, :, None])
        tree.__setstate__({"max_depth": len(nodes), "node_count": len(nodes), "nodes": nodes, "values": padded})
        trees.append(tree)
    return trees


def folder_of(frame: pd.DataFrame, y: np.ndarray, folder: Path, *, epochs: int) -> TableModel:
    """A model folder of the same rows."""
    frame.assign(grade=y).to_csv(folder / "table.csv", index=False)
    options = {"file": "table.csv", "label": "grade"}
    train("table", folder / "model", root=folder, options=options, training={"epochs": epochs})
    return TableModel.load(folder / "model")


def session_of(model: Any, file: Path) -> onnxruntime.InferenceSession:
    """The exported model on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model_to_onnx(model, file), options)


def session_inputs(session: onnxruntime.InferenceSession, frame: pd.DataFrame) -> dict[str, Any]:
    """The columns of a frame as the graph takes them."""
    return {value.name: frame[value.name].to_numpy() for value in session.get_inputs()}


def measure(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, np.ndarray]:
    """Milliseconds of each call, repeated in turn."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(repeats + 3):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if repeat >= 3:  # the first calls are slower
                times[name].append(1e3 * (time.perf_counter() - start))
    return {name: np.array(values) for name, values in times.items()}


def print_times(console: Console, rows: int, times: dict[str, np.ndarray]) -> None:
    """A table of medians, 99th percentiles and ratios."""
    printed = Table("1 row" if rows == 1 else f"{rows:,} rows", "p50, ms", "p99, ms", "p50 / LightGBM", "p50 / members")
    medians = {name: float(np.median(values)) for name, values in times.items()}
    for name, values in times.items():
        ratios = [f"{medians[name] / medians[base]:.2f}" for base in ("LightGBM", "members")]
        if name.startswith("folder"):  # another ensemble: its test rows do not train
            ratios[1] = ""
        printed.add_row(name, f"{medians[name]:.2f}", f"{np.quantile(values, 0.99):.2f}", *ratios)
    console.print(printed)


def main() -> None:
    """Fit, export, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="train a small ensemble and repeat less")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    console = Console()
    frame, y = table(300 if quick else ROWS, 0)
    new, _ = table(1000, 1)
    epochs = 3 if quick else 50
    model = OrdinalClassifier(epochs=epochs, random_state=0, verbose=-1).fit(frame, y)
    lgb_frame = frame.astype({f"c{k}": "category" for k in range(4)})
    lgb_new = new.astype({f"c{k}": lgb_frame[f"c{k}"].dtype for k in range(4)})
    single = lightgbm.LGBMClassifier(n_jobs=1, verbosity=-1).fit(lgb_frame, y)
    codes = model._encode(new).codes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        loaded = folder_of(frame, y, folder, epochs=epochs)
        session = session_of(model, folder / "model.onnx")
        console.print(model.ensemble_.summary())
        console.print("folder:", {entry["name"]: round(entry["weight"], 2) for entry in loaded.config.estimators})
        size = (folder / "model.onnx").stat().st_size / 1e6
        for rows, repeats in ((1, 30 if quick else 300), (1000, 3 if quick else 30)):
            part, inputs = new[:rows], session_inputs(session, new[:rows])
            columns = {column: part[column].tolist() for column in part}
            calls = {
                "LightGBM": lambda rows=rows: single.booster_.predict(codes[:rows], num_threads=1),
                "LightGBM, frame": lambda rows=rows: single.predict_proba(lgb_new[:rows]),
                "members": own_predict(model, part),
                "predict_proba": lambda part=part: model.predict_proba(part),
                "predict_sets": lambda part=part: model.predict_sets(part),
                "folder, predict_proba": lambda columns=columns: loaded.predict_proba(columns),
                "folder, predict_sets": lambda columns=columns: loaded.predict_sets(columns),
                "ONNX": lambda inputs=inputs: session.run(["probs"], inputs),
            }
            print_times(console, rows, measure(calls, repeats))
        console.print(f"the ONNX file has {size:.0f} MB")
    for what, code in IMPORTS.items():
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 -- code of this file
        console.print(f"import, {what}: {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
