"""Cost matrix of decisions from a table of true classes and decisions."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orcu.errors import InputError
from orcu.inputs import FloatArray
from orcu.io.locations import as_location
from orcu.io.reading import read_table
from orcu.predictions.labels import canonical_label

# Words of the corner, which is the name of the first column.
TRUTH = {"truth", "true", "actual", "observed", "gold"}
DECISION = {"decision", "decisions", "decided", "decide", "predicted", "prediction", "predictions", "pred", "action"}
LABEL = {"label", "labels", "target", "reference"}  # the truth, unless it is the "predicted label"


@dataclass(frozen=True)
class CostTable:
    """Cost matrix of a file, and how it was read."""

    matrix: FloatArray  # (C, C), entry [true, decided], in the order of the classes
    reading: str  # orientation and an example in words; empty if the matrix is symmetric


def read_costs(path: str | os.PathLike[str], classes: Sequence[str], *, encoding: str | None = None) -> CostTable:
    r"""Read a cost matrix whose rows and columns are the classes, in any order.

    The corner, which is the name of the first column, says what the rows are: "truth" (also "true", "actual" or
    "label") or "decision" (also "predicted" or "prediction"). A corner such as "predicted / true" names the rows first.
    Rows are true classes if the corner says neither. A text file that is not UTF-8 is read in ``encoding``.

    Raises:
        InputError: if the rows and columns are not the classes, a cost is not a number of at least 0, or the corner has
            words for both without a separator.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "costs.csv"
        >>> _ = path.write_text("decision,well,ill\nwell,0,10\nill,1,0\n")
        >>> table = read_costs(path, ["well", "ill"])
        >>> table.matrix.tolist()
        [[0.0, 1.0], [10.0, 0.0]]
        >>> table.reading
        "costs.csv: rows are decisions, as its corner says; predicting 'well' when the truth is 'ill' costs 10"
    """
    try:
        table = read_table(path)
    except InputError:
        if encoding is None:
            raise
        table = read_table(path, encoding=encoding)
    name, corner = as_location(path).name, table.column_names[0]
    rows = [canonical_label(value) for value in table.column(0).to_pylist()]
    columns = [canonical_label(value) for value in table.column_names[1:]]
    for part, names in (("rows (its first column)", rows), ("columns", columns)):
        wrong = [label for label in names if label not in classes]
        wrong += [label for label in classes if names.count(label) != 1]
        if wrong:
            raise InputError(
                f"{name}: expected a cost matrix whose {part} are the classes {', '.join(classes)}, each once; "
                f"{wrong[0]!r} is unknown, missing or duplicated."
            )
    named = _rows_named(corner, name)
    costs = np.empty((len(classes), len(classes)))
    for column, column_class in enumerate(columns):
        for row_class, cost in zip(rows, table.column(column + 1).to_pylist(), strict=True):
            true, decided = (column_class, row_class) if named == "decision" else (row_class, column_class)
            if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not 0 <= cost < float("inf"):
                raise InputError(
                    f"{name}: the cost of deciding {decided!r} if {true!r} is true is {cost!r}; expected a finite "
                    "number of at least 0."
                )
            costs[classes.index(true), classes.index(decided)] = cost
    return CostTable(costs, _reading(costs, classes, name, named))


def _named(part: str, corner: str, name: str) -> str:
    """What a part of the corner names: "truth", "decision", or nothing."""
    words = {word for word in re.split("[^a-z]+", part.casefold()) if word}
    if words & TRUTH and words & DECISION:
        raise InputError(
            f"{name}: the corner {corner!r} does not say whether rows are true classes or decisions; write 'truth' or "
            "'decision'."
        )
    return "decision" if words & DECISION else "truth" if words & (TRUTH | LABEL) else ""


def _rows_named(corner: str, name: str) -> str:
    """What the corner says about the rows: "truth", "decision", or nothing."""
    rows, *columns = re.split(r"[\\/|]|\b(?:vs|versus|x|by)\b", corner, maxsplit=1, flags=re.IGNORECASE)
    opposite = {"truth": "decision", "decision": "truth", "": ""}
    return _named(rows, corner, name) or opposite[_named(" ".join(columns), corner, name)]


def _reading(costs: FloatArray, classes: Sequence[str], name: str, rows: str) -> str:
    excess = costs - costs.T
    if not excess.any():
        return ""
    true, decided = divmod(int(np.argmax(excess)), len(classes))
    source = "as its corner says" if rows else "because its corner says neither 'truth' nor 'decision'"
    return (
        f"{name}: rows are {'decisions' if rows == 'decision' else 'true classes'}, {source}; predicting "
        f"{classes[decided]!r} when the truth is {classes[true]!r} costs {costs[true, decided]:g}"
    )
