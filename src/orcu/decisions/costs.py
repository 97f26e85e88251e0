"""Cost matrix of decisions from a table: one row for each true class, one column for each decision."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from orcu.errors import InputError
from orcu.inputs import FloatArray
from orcu.io.reading import read_table


def read_costs(path: str | os.PathLike[str], classes: Sequence[str]) -> FloatArray:
    r"""Read a cost matrix, shape (C, C), with entry [true, decided] in the order of the classes.

    The first column contains the true class, the names of the other columns are the decisions, in any order.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "costs.csv"
        >>> _ = path.write_text("true,well,ill\nwell,0,1\nill,10,0\n")
        >>> read_costs(path, ["well", "ill"]).tolist()
        [[0.0, 1.0], [10.0, 0.0]]
    """
    table = read_table(path)
    name = Path(path).name
    true_classes = [str(value) for value in table.column(0).to_pylist()]
    for part, names in (("rows (its first column)", true_classes), ("columns", table.column_names[1:])):
        wrong = [label for label in names if label not in classes]
        wrong += [label for label in classes if names.count(label) != 1]
        if wrong:
            raise InputError(
                f"{name}: expected a cost matrix whose {part} are the classes {', '.join(classes)}, each once; "
                f"{wrong[0]!r} is unknown, missing or duplicated."
            )
    costs = np.empty((len(classes), len(classes)))
    for decided in classes:
        for true, cost in zip(true_classes, table.column(decided).to_pylist(), strict=True):
            if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not 0 <= cost < float("inf"):
                raise InputError(
                    f"{name}: the cost of deciding {decided!r} if {true!r} is true is {cost!r}; expected a finite "
                    "number of at least 0."
                )
            costs[classes.index(true), classes.index(decided)] = cost
    return costs
