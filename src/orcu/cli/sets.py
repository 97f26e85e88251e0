"""``orcu sets``: prediction sets without holes, fitted and applied."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape

from orcu.cli.calibrate import _read
from orcu.cli.options import (
    Classes,
    Decimal,
    Id,
    Label,
    Logits,
    Percent,
    Probs,
    Separator,
    bad_data,
    check_classes,
    check_paths,
    reading_options,
    told_warnings,
    write_fitted,
)
from orcu.errors import InputError

sets_app = typer.Typer(help="Prediction sets without holes: right as often as promised.", no_args_is_help=True)


@sets_app.command("fit")
def fit(
    file: Annotated[Path, typer.Argument(help="Labelled, calibrated predictions of rows used for nothing else.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Write the sets' thresholds here, as JSON.")],
    alpha: Annotated[float, typer.Option(help="The share of misses that is allowed.")] = 0.1,
    calibrator: Annotated[
        Path | None, typer.Option(help="The calibrator that made the predictions, to refuse rows it was fitted on.")
    ] = None,
    conditional: Annotated[bool, typer.Option("--conditional", help="Keep the promise for every true class.")] = False,
    label: Label = None,
    probs: Probs = None,
    logits: Logits = None,
    classes: Classes = None,
    id_column: Id = None,
    percent: Percent = False,
    sep: Separator = None,
    decimal: Decimal = None,
) -> None:
    """Find the thresholds of contiguous prediction sets."""
    from orcu import calibrators
    from orcu.decisions.conformal import REUSED, OrdinalPredictionSets

    check_paths([file, *([calibrator] if calibrator else [])], [out])
    options = reading_options(
        probs=probs,
        logits=logits,
        classes=classes,
        sep=sep,
        decimal=decimal,
        label=label,
        id=id_column,
        percent=percent,
    )
    with bad_data(), told_warnings():
        told = _read(file, options)
        for step in told.history:
            if step.get("shared"):
                raise InputError(f"{file.name}: {step['shared']:,} of the {step['rows']:,} rows {REUSED}")
        made = OrdinalPredictionSets(alpha=alpha, conditional=conditional)
        named = None if calibrator is None else calibrators.load(calibrator)
        made.fit(told.probs, told.labels, ids=told.ids, calibrator=named)
    write_fitted(out, made, told.classes, file)
    Console().print(f"wrote {escape(str(out))}: fitted on {made.fitted_on_.count:,} rows", highlight=False)


@sets_app.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(help="Calibrated predictions; labels are not needed.")],
    sets: Annotated[Path, typer.Argument(help="What `orcu sets fit` wrote.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Write id, lowest and highest class here (.csv, .parquet).")],
    label: Label = None,
    probs: Probs = None,
    logits: Logits = None,
    classes: Classes = None,
    id_column: Id = None,
    percent: Percent = False,
    sep: Separator = None,
    decimal: Decimal = None,
) -> None:
    """Write a set for every row; with labels, report coverage and size by class."""
    import pyarrow as pa

    from orcu.decisions.conformal import OrdinalPredictionSets
    from orcu.predictions.used_rows import UsedRows
    from orcu.tables.writing import write_table

    check_paths([file, sets], [out])
    options = reading_options(
        probs=probs,
        logits=logits,
        classes=classes,
        sep=sep,
        decimal=decimal,
        label=label,
        id=id_column,
        percent=percent,
    )
    console = Console()
    with bad_data():
        fitted = OrdinalPredictionSets.load(sets)
        told = _read(file, options)
        check_classes(sets, told.classes, file)
        fitted.fitted_on_.refuse(
            UsedRows.of(told.probs, told.ids), because=f"in {file.name} have fitted these sets; apply them to others."
        )
        low, high = fitted.predict(told.probs)
    names = np.array(told.classes, dtype=object)
    ids = np.arange(1, len(told) + 1) if told.ids is None else told.ids
    table = pa.table({"id": pa.array(ids), "lowest": names[low], "highest": names[high], "size": high - low + 1})
    write_table(table, out)
    if told.y is not None:
        found = fitted.quality(told.probs, told.y, ids=told.ids)
        console.print(
            f"coverage {found.coverage:.1%} (promised {1 - fitted.alpha:.1%}), mean size {found.size:.2f}",
            highlight=False,
        )
        for name, share, size in zip(told.classes, found.class_coverage, found.class_size, strict=True):
            console.print(f"  {escape(name)}: coverage {share:.1%}, mean size {size:.2f}", highlight=False)
    console.print(f"wrote {escape(str(out))}", highlight=False)
