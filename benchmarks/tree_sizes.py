"""Tree size and number of rounds: RPS of `OrdinalBoosting` by number of leaves and by the factor beyond early stopping.

    python benchmarks/tree_sizes.py --tables DIR [--tasks LEV,wine] [--folds 2]

Tasks and folds are those of `benchmarks/defaults.py`. `num_leaves=None` is the default: 7 or 31, selected on the
early-stopping rows.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from defaults import SEED, AbsentError, split_folds, tasks
from rich.console import Console
from rich.table import Table

from orcu import OrdinalBoosting, metrics
from orcu.boosting import learner

SETTINGS = [(leaves, learner.ROUND_FACTOR) for leaves in (7, 31)] + [(None, factor) for factor in (1.0, 1.5, 2.0)]


def main() -> None:
    """Print a row for each task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--tasks", default="LEV,SWD,ERA,ESL,red,fair,car")
    parser.add_argument("--folds", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    console = Console()
    table = Table("task", *(f"{leaves} leaves, x {factor:g}" for leaves, factor in SETTINGS))
    for task, load in tasks(options.tables).items():
        if not any(part and part in task for part in options.tasks.split(",")):
            continue
        try:
            x, y = load()
        except AbsentError as reason:
            console.print(f"{task}: skipped, {reason}")
            continue
        if isinstance(x, np.ndarray):
            continue
        cells = []
        for leaves, factor in SETTINGS:
            learner.ROUND_FACTOR = factor
            scores = []
            for train, test in split_folds(y, 5)[: options.folds]:
                model = OrdinalBoosting(num_leaves=leaves, random_state=SEED).fit(x.iloc[train], y[train])
                test = test[np.isin(y[test], model.classes_)]
                probs = model.predict_proba(x.iloc[test])
                scores.append(metrics.rps(probs, np.searchsorted(model.classes_, y[test])))
            cells.append(f"{np.mean(scores):.4f}")
        console.print(task, *cells)
        table.add_row(task, *cells)
    console.print(table)


if __name__ == "__main__":
    main()
