"""``orcu sets``: prediction sets without holes, fitted and applied."""

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape

from orcu.cli.calibrate import _read, _told_warnings
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
    check_paths,
    digest,
    reading_options,
)
from orcu.errors import InputError
from orcu.files import replacing

sets_app = typer.Typer(
    help="Prediction sets without holes: right as often as promised.", no_args_is_help=True
)


@sets_app.command("fit")
def fit(
    file: Annotated[
        Path, typer.Argument(help="Labelled, calibrated predictions of rows used for nothing else.")
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="Write the sets' thresholds here, as JSON.")
    ],
    alpha: Annotated[float, typer.Option(help="The share of misses that is allowed.")] = 0.1,
    conditional: Annotated[
        bool, typer.Option("--conditional", help="Keep the promise for every true class.")
    ] = False,
    label: Label = None,
    probs: Probs = None,
    logits: Logits = None,
    classes: Classes = None,
    percent: Percent = False,
    sep: Separator = None,
    decimal: Decimal = None,
) -> None:
    """Find the thresholds of contiguous prediction sets."""
    from orcu.conformal import OrdinalPredictionSets

    check_paths([file], [out])
    options = reading_options(
        probs=probs,
        logits=logits,
        classes=classes,
        sep=sep,
        decimal=decimal,
        label=label,
        percent=percent,
    )
    with bad_data(), _told_warnings():
        told = _read(file, options)
        for step in told.history:
            if step.get("sha256") == step.get("source"):
                raise InputError(
                    f"{file.name}: these rows fitted the calibrator that moved them, so sets fitted on them "
                    "would not keep their promise. Use other labelled rows."
                )
        sets = OrdinalPredictionSets(alpha=alpha, conditional=conditional).fit(
            told.probs, told.rows().y
        )
    about = {
        "classes": list(told.classes),
        "fitted_on": {"file": file.name, "sha256": digest(file)},
    }
    with replacing(out) as temporary:
        temporary.write_text(json.dumps(sets.to_dict() | about, indent=1) + "\n")
    Console().print(f"wrote {escape(str(out))}: fitted on {sets.rows_:,} rows", highlight=False)


@sets_app.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(help="Calibrated predictions; labels are not needed.")],
    sets: Annotated[Path, typer.Argument(help="What `orcu sets fit` wrote.")],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="Write id, lowest and highest class here (.csv).")
    ],
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
    import pyarrow.csv

    from orcu.conformal import OrdinalPredictionSets

    check_paths([file, sets], [out])
    options = reading_options(
        probs=probs, logits=logits, classes=classes, sep=sep, decimal=decimal, label=label, id=id_column,
        percent=percent,
    )  # fmt: skip
    console = Console()
    with bad_data():
        fitted = OrdinalPredictionSets.load(sets)
        told = _read(file, options)
        about = json.loads(sets.read_text())
        if about.get("fitted_on", {}).get("sha256") == digest(file):
            raise InputError(
                f"{file.name}: the sets were fitted on these very rows; apply them to others."
            )
        if tuple(about.get("classes", told.classes)) != told.classes:
            raise InputError(
                f"{file.name}: its classes are {', '.join(told.classes)}, the sets' are others."
            )
        low, high = fitted.predict(told.probs)
    names = np.array(told.classes, dtype=object)
    ids = np.arange(1, len(told) + 1) if told.ids is None else told.ids
    table = pa.table(
        {"id": pa.array(ids), "lowest": names[low], "highest": names[high], "size": high - low + 1}
    )
    with replacing(out) as temporary:
        pyarrow.csv.write_csv(table, temporary)
    if told.y is not None:
        found = fitted.quality(told.probs, told.y)
        console.print(
            f"coverage {found.coverage:.1%} (promised {1 - fitted.alpha:.1%}), mean size {found.size:.2f}",
            highlight=False,
        )
        for name, share, size in zip(
            told.classes, found.class_coverage, found.class_size, strict=True
        ):
            console.print(
                f"  {escape(name)}: coverage {share:.1%}, mean size {size:.2f}", highlight=False
            )
    console.print(f"wrote {escape(str(out))}", highlight=False)
