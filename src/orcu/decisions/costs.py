"""What decisions cost, read from a table: a row for each true class, a column for each decision."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from orcu.errors import InputError
from orcu.inputs import FloatArray
from orcu.io.reading import read_table


def read_costs(path: str | os.PathLike[str], classes: Sequence[str]) -> FloatArray:
    r"""The cost matrix of a file, shape (C, C); entry [true, decided], in the order of the classes.

    The first column names the true class, the others are named by the decisions; their order does not matter.

    Args:
        path: of a CSV or Parquet file.
        classes: lowest first.

    Raises:
        InputError: if a class is missing or not known, or a cost is no number of 0 or more.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "costs.csv"
        >>> _ = path.write_text("true,well,ill\nwell,0,1\nill,10,0\n")
        >>> read_costs(path, ["well", "ill"]).tolist()
        [[0.0, 1.0], [10.0, 0.0]]
    """
    table = read_table(path)
    name, columns = Path(path).name, table.column_names
    first = [str(one) for one in table.column(0).to_pylist()]
    for what, there in (("rows (its first column)", first), ("columns", columns[1:])):
        unlike = [one for one in there if one not in classes] + [one for one in classes if there.count(one) != 1]
        if unlike:
            raise InputError(
                f"{name}: expected a table of costs whose {what} are the classes {', '.join(classes)}, each once; "
                f"{unlike[0]!r} is not known, missing or there twice."
            )
    costs = np.empty((len(classes), len(classes)))
    for decided in classes:
        for true, cost in zip(first, table.column(decided).to_pylist(), strict=True):
            if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not 0 <= cost < float("inf"):
                raise InputError(
                    f"{name}: deciding for {decided!r} where {true!r} is true costs {cost!r}; expected a number of 0 "
                    "or more."
                )
            costs[classes.index(true), classes.index(decided)] = cost
    return costs
