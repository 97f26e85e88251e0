"""``orcu sets``: prediction sets without holes, fitted and applied."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from orcu.cli.options import (
    Classes,
    Decimal,
    Id,
    Label,
    Logits,
    NoFormulas,
    Percent,
    Probs,
    Separator,
    bad_data,
    calibrated_by,
    check_classes,
    check_paths,
    printed_warnings,
    reading_options,
    working,
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
    from orcu.predictions.predictions import Predictions

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
    with bad_data(), printed_warnings(), working(f"fitting sets on {file.name}"):
        predictions = Predictions.read(file, **options)
        for step in predictions.history:
            if step.get("shared"):
                raise InputError(f"{file.name}: {step['shared']:,} of the {step['rows']:,} rows {REUSED}")
        sets = OrdinalPredictionSets(alpha=alpha, conditional=conditional)
        named = None if calibrator is None else calibrators.load(calibrator)
        sets.fit(predictions.probs, predictions.labels, ids=predictions.ids, calibrator=named)
    write_fitted(out, sets, predictions, file)
    Console().print(f"wrote {escape(str(out))}: fitted on {sets.fitted_on_.count:,} rows", highlight=False)


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
    group: Annotated[str | None, typer.Option(help="Column of groups, to report the coverage of each.")] = None,
    percent: Percent = False,
    sep: Separator = None,
    decimal: Decimal = None,
    no_formulas: NoFormulas = False,
) -> None:
    """Write a set for every row; with labels, report coverage and size by class."""
    import numpy as np
    import pyarrow as pa

    from orcu.decisions.conformal import OrdinalPredictionSets
    from orcu.io.writing import write_table
    from orcu.predictions.predictions import Predictions
    from orcu.predictions.used_rows import UsedRows

    check_paths([file, sets], [out])
    options = reading_options(
        probs=probs,
        logits=logits,
        classes=classes,
        sep=sep,
        decimal=decimal,
        label=label,
        id=id_column,
        group=group,
        percent=percent,
    )
    console = Console()
    with bad_data(), working(f"reading {file.name}"):
        fitted = OrdinalPredictionSets.load(sets)
        predictions = Predictions.read(file, **options)
        check_classes(sets, predictions.classes, file)
        fitted.fitted_on_.refuse(
            UsedRows.of(predictions.probs, predictions.ids),
            because=f"in {file.name} have fitted these sets; apply them to others.",
        )
        low, high = fitted.predict(predictions.probs)
    then, now = json.loads(sets.read_text()).get("calibrated"), calibrated_by(predictions)  # checked when it was loaded
    if then is not None and then != now:
        words = [", ".join(names) or "no calibrator" for names in (then, now)]
        console.print(
            f"[bold red]WARNING: the sets were fitted on predictions moved by {escape(words[0])}, these were moved by "
            f"{escape(words[1])}: the promise does not hold[/]",
            highlight=False,
        )
    names = np.array(predictions.classes, dtype=object)
    ids = np.arange(1, len(predictions) + 1) if predictions.ids is None else predictions.ids
    table = pa.table({"id": pa.array(ids), "lowest": names[low], "highest": names[high], "size": high - low + 1})
    write_table(table, out, no_formulas=no_formulas)
    if predictions.y is not None:
        quality = fitted.quality(predictions.probs, predictions.y, ids=predictions.ids)
        console.print(
            f"coverage {quality.coverage:.1%} (promised {1 - fitted.alpha:.1%}), mean size {quality.size:.2f}",
            highlight=False,
        )
        if predictions.group is not None:
            inside = (low <= predictions.y) & (predictions.y <= high)
            for name in np.unique(predictions.group):
                rows = predictions.group == name
                share, size = inside[rows].mean(), (high - low + 1)[rows].mean()
                console.print(f"  group {escape(name)}: coverage {share:.1%}, mean size {size:.2f}", highlight=False)
        for name, share, size in zip(predictions.classes, quality.class_coverage, quality.class_size, strict=True):
            console.print(f"  {escape(name)}: coverage {share:.1%}, mean size {size:.2f}", highlight=False)
    console.print(f"wrote {escape(str(out))}", highlight=False)
