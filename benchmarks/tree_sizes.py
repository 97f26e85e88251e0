"""How large trees are and how long they grow: RPS of `OrdinalBoosting` by leaves, and by how far past the stop it goes.

    python benchmarks/tree_sizes.py --tables DIR [--tasks LEV,wine] [--folds 2]

The tasks are those of `benchmarks/defaults.py`, as are the folds. `leaves=None` is the default: 7 or 31, as the rows
that stop them prefer.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from defaults import SEED, AbsentError, divided, tasks
from rich.console import Console
from rich.table import Table

from orcu import OrdinalBoosting, metrics
from orcu.boosting import trees

SETTINGS = [(leaves, trees.FURTHER) for leaves in (7, 31)] + [(None, further) for further in (1.0, 1.5, 2.0)]


def main() -> None:
    """Print a row for each task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--tasks", default="LEV,SWD,ERA,ESL,red,fair,car")
    parser.add_argument("--folds", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    console = Console()
    table = Table("task", *(f"leaves {leaves}, x {further:g}" for leaves, further in SETTINGS))
    for task, load in tasks(options.tables).items():
        if not any(part and part in task for part in options.tasks.split(",")):
            continue
        try:
            x, y = load()
        except AbsentError as reason:
            console.print(f"{task}: left out, {reason}")
            continue
        if isinstance(x, np.ndarray):
            continue
        cells = []
        for leaves, further in SETTINGS:
            trees.FURTHER = further
            scores = []
            for fit, judge in divided(y, 5)[: options.folds]:
                model = OrdinalBoosting(leaves=leaves, random_state=SEED).fit(x.iloc[fit], y[fit])
                known = np.isin(y[judge], model.classes_)
                probs = model.predict_proba(x.iloc[judge[known]])
                scores.append(metrics.rps(probs, np.searchsorted(model.classes_, y[judge[known]])))
            cells.append(f"{np.mean(scores):.4f}")
        console.print(task, *cells)
        table.add_row(task, *cells)
    console.print(table)


if __name__ == "__main__":
    main()
