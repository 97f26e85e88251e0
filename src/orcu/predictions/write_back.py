"""Writing the file of some predictions back: all its columns and rows, with values replaced and results added."""

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.io.extending import write_extended
from orcu.io.reading import PARQUET
from orcu.predictions.predictions import SCHEMA_VERSION
from orcu.predictions.source import CALIBRATED_BY, METHOD_SEPARATOR, PredictionsSource


def write_back(
    source: PredictionsSource,
    path: str | os.PathLike[str],
    *,
    values: npt.ArrayLike | None = None,
    add: Mapping[str, Any] | None = None,
    history: Iterable[Mapping[str, Any]] | None = None,
    escape_formulas: bool = False,
) -> None:
    r"""Write a copy of a file of predictions, with all its columns and rows.

    A Parquet file also records the roles of its columns and the history, so it is read without options. A text file
    has the calibrators of the history in the column ``calibrated_by``, so that evaluations of it know about them.

    Args:
        source: the file, opened by `orcu.predictions.open_predictions`.
        path: file to write, as for `orcu.io.extending.write_extended`.
        values: new probabilities or logits, as the file has them, shape (n, C); they replace the file's.
        add: values of new columns by name, one for each row.
        history: processing steps; those of the file by default.
        escape_formulas: whether to put a ' before texts in CSV that a spreadsheet would run as formulas.

    Raises:
        InputError: if the source is a frame, or a column to add exists in the file.

    Example:
        >>> import tempfile, pathlib
        >>> from orcu.predictions import open_predictions
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "preds.csv"
        >>> _ = path.write_text("patient,p_low,p_high\n017,0.9,0.1\n")
        >>> source = open_predictions(path, probs="p_*")
        >>> write_back(source, path.with_name("new.csv"), values=[[0.75, 0.25]])
        >>> path.with_name("new.csv").read_text()
        'patient,p_low,p_high\n017,0.75,0.25\n'
    """
    files = [fragment.table for fragment in source.fragments]
    if None in files:
        raise InputError(f"{source.name}: only files can be written back; assign the results to the frame instead.")
    columns = source.columns
    overwrite: dict[str, Any] = {}
    if values is not None:
        shown = np.asarray(values, dtype=np.float64) * (100 if columns.percent else 1)
        overwrite = dict(zip(source.value_columns, shown.T, strict=True))
    steps = list(source.history if history is None else history)
    calibrators = [step["method"] for step in steps if step.get("step") == "calibrate"]
    if calibrators and not str(path).lower().endswith(PARQUET):
        new = overwrite if CALIBRATED_BY in source.table_columns else (add := dict(add or {}))
        rows = len(next(iter((overwrite or add or {}).values())))
        new[CALIBRATED_BY] = np.full(rows, METHOD_SEPARATOR.join(calibrators), dtype=object)
    roles: dict[str, Any] = dict(source.own_columns)
    roles |= {"label_shares": source.share_columns} if source.share_columns else {}
    roles |= {"rater": source.rater_columns} if source.rater_columns else {}
    metadata = {
        "schema_version": SCHEMA_VERSION,
        "kind": source.kind,
        "classes": list(source.classes),
        "history": steps,
        "columns": roles | {source.kind: source.value_columns, "percent": columns.percent},
    }
    write_extended(
        [file for file in files if file is not None],
        path,
        overwrite=overwrite,
        add=add,
        metadata={"orcu": json.dumps(metadata)},
        escape_formulas=escape_formulas,
    )
