"""``orcu sets``: fit and apply contiguous prediction sets."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from orcu.cli.console import say, say_wrote, task
from orcu.cli.files import calibrators_of, check_classes, check_json, check_paths, write_fitted
from orcu.cli.options import Column, ReadOptions, TableOptions, command
from orcu.errors import InputError

sets_app = typer.Typer(help="Contiguous prediction sets with guaranteed coverage.", no_args_is_help=True)


@command(sets_app)
def fit(
    file: Annotated[
        Path, Argument(help="Labelled calibrated predictions for rows unused in training and calibration.")
    ],
    read: ReadOptions,
    output: Annotated[Path, Option("--output", "-o", help="Output file of the thresholds (JSON).")],
    alpha: Annotated[
        float, Option(min=0.001, max=0.5, help="Target miscoverage: 0.1 for sets with 90 % coverage.")
    ] = 0.1,
    calibrator_file: Annotated[
        Path | None,
        Option(help="Calibrator that made FILE. It is not applied; rows that it was fitted on are refused."),
    ] = None,
    class_conditional: Annotated[
        bool, Option("--class-conditional", help="Guarantee the coverage within each true class.")
    ] = False,
) -> None:
    """Fit the thresholds of contiguous prediction sets (split conformal)."""
    from orcu import calibrators
    from orcu.decisions.conformal import REUSED, OrdinalPredictionSets
    from orcu.predictions import Predictions

    check_paths([file, calibrator_file], [output])
    check_json(output)
    options = read.arguments()
    with task(f"fitting sets on {file.name}"):
        predictions = Predictions.read(file, **options)
        for step in predictions.history:
            if step.get("shared"):
                raise InputError(f"{file.name}: {step['shared']:,} of the {step['rows']:,} rows {REUSED}")
        sets = OrdinalPredictionSets(alpha=alpha, class_conditional=class_conditional)
        calibrator = None if calibrator_file is None else calibrators.load(calibrator_file)
        sets.fit(predictions.probs, predictions.labels, ids=predictions.ids, calibrator=calibrator)
    write_fitted(output, sets, predictions, file)
    say_wrote(output, f"fitted on {sets.fitted_on_.count:,} rows")


@dataclass(frozen=True)
class ApplyReadOptions(ReadOptions):
    """Columns of the predictions that sets are applied to."""

    subgroup: Annotated[str | None, Column(help="Column of subgroups; the coverage of each is printed.")] = None


@command(sets_app)
def apply(
    file: Annotated[Path, Argument(help="Calibrated predictions; labels are optional.")],
    sets: Annotated[Path, Argument(help="Prediction sets written by `orcu sets fit`.")],
    table: TableOptions,
    read: ApplyReadOptions,
) -> None:
    """Write the prediction set of each row; with labels, print coverage and size by class.

    The output table has the columns id, lowest, highest (class names) and size.
    """
    import numpy as np
    import pyarrow as pa

    from orcu.decisions.conformal import OrdinalPredictionSets
    from orcu.predictions import Predictions
    from orcu.predictions.used_rows import UsedRows

    check_paths([file, sets], [table.output])
    options = read.arguments()
    with task(f"reading {file.name}"):
        fitted = OrdinalPredictionSets.load(sets)
        predictions = Predictions.read(file, **options)
        check_classes(sets, predictions.classes, file)
        fitted.fitted_on_.check_disjoint(
            UsedRows.from_values(predictions.probs, predictions.ids),
            reason=f"in {file.name} were used to fit these sets; apply the sets to other rows.",
        )
        low, high = fitted.predict(predictions.probs)
    before, now = json.loads(sets.read_text()).get("calibrated"), calibrators_of(predictions)
    if before is not None and before != now:
        then, today = (", ".join(names) or "no calibrator" for names in (before, now))
        say(
            f"WARNING: the sets were fitted on predictions of {then}, these come from {today}: the coverage is not "
            "guaranteed",
            style="bold red",
        )
    names, size = np.array(predictions.classes, dtype=object), high - low + 1
    ids = np.arange(1, len(predictions) + 1) if predictions.ids is None else predictions.ids
    table.write(pa.table({"id": pa.array(ids), "lowest": names[low], "highest": names[high], "size": size}))
    if predictions.y is not None:
        report = fitted.coverage_report(predictions.probs, predictions.y, ids=predictions.ids)
        say(f"coverage {report.coverage:.1%} (target {1 - fitted.alpha:.1%}), mean size {report.size:.2f}")
        covered = (low <= predictions.y) & (predictions.y <= high)
        for subgroup in np.unique(predictions.subgroup) if predictions.subgroup is not None else ():
            rows = predictions.subgroup == subgroup
            say(f"  subgroup {subgroup}: coverage {covered[rows].mean():.1%}, mean size {size[rows].mean():.2f}")
        for name, share, mean in zip(predictions.classes, report.class_coverage, report.class_size, strict=True):
            say(f"  {name}: coverage {share:.1%}, mean size {mean:.2f}")
    say_wrote(table.output)
