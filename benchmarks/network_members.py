"""Would other losses or heads of the networks improve the default ensemble?

    python benchmarks/network_members.py --tables DIR [--tasks ESL,LEV] [--folds 2] [--write FILE.parquet]

Tasks and folds are those of `benchmarks/defaults.py`. Each variant changes the networks of `OrdinalClassifier()` only.
Differences are RPS of the variant minus RPS of the default, with a paired bootstrap of the rows (95 %).
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from defaults import SEED, AbsentError, bootstrap_interval, matches, split_folds, tasks
from rich.console import Console

from orcu import OrdinalClassifier
from orcu.defaults import NETWORK_LOSSES
from orcu.inputs import FloatArray, IntArray
from orcu.io.writing import write_table

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "rps in addition": {"loss": (*NETWORK_LOSSES, "rps")},
    "rps in place of orcu": {"loss": ("ce", "sord", "rps")},
    "cumulative heads": {"head": "cumulative"},
}
TASKS = "ESL,LEV,SWD,ERA,red,car,abalone"


def row_scores(probs: FloatArray, y: IntArray) -> FloatArray:
    """RPS of each row."""
    return np.square(probs.cumsum(axis=1) - (y[:, None] <= np.arange(probs.shape[1]))).sum(axis=1)


def main() -> None:
    """Print a line for each task and variant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--tasks", default=TASKS)
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    console, results = Console(), []
    for task, load in tasks(options.tables).items():
        if not matches(task, options.tasks.split(",")):
            continue
        try:
            x, y = load()
        except AbsentError as reason:
            console.print(f"{task}: skipped, {reason}")
            continue
        scores: dict[str, list[FloatArray]] = {name: [] for name in VARIANTS}
        weights: dict[str, dict[str, float]] = {}
        for train, test in split_folds(y, 5)[: options.folds]:
            for name, variant in VARIANTS.items():
                model = OrdinalClassifier(random_state=SEED, verbose=-1, **variant).fit(x.iloc[train], y[train])
                known = test[np.isin(y[test], model.classes_)]
                labels = np.searchsorted(model.classes_, y[known])
                scores[name].append(row_scores(model.predict_proba(x.iloc[known]), labels))
                weights[name] = {key: round(weight, 2) for key, weight in model.weights_.items()}
        default = np.concatenate(scores["default"])
        for name in VARIANTS:
            values = np.concatenate(scores[name])
            low, high = bootstrap_interval(values - default) if name != "default" else (0.0, 0.0)
            line = {"task": task, "variant": name, "rows": len(values), "rps": float(values.mean())}
            results.append(line | {"difference": float((values - default).mean()), "low": low, "high": high})
            console.print(f"{task}, {name}: {values.mean():.4f} ({low:+.4f} to {high:+.4f})", weights[name])
    if options.write:
        about = {"command": "python benchmarks/network_members.py --tables DIR", "folds": options.folds}
        write_table(pa.Table.from_pylist(results).replace_schema_metadata({"orcu": json.dumps(about)}), options.write)


if __name__ == "__main__":
    main()
