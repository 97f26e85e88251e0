"""``orcu calibrate``: fit a calibrator, apply it, compare all calibrators."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from typer import Argument, Option

from orcu.cli.console import escape, fits, new_table, progress_bar, say, say_wrote, show, task
from orcu.cli.files import calibrators_of, check_classes, check_json, check_page, check_paths, write_fitted
from orcu.cli.options import Column, LabelledReadOptions, TableOptions, command
from orcu.errors import InputError
from orcu.io.locations import Location

if TYPE_CHECKING:
    from orcu.predictions import Predictions

calibrate_app = typer.Typer(
    help="Calibrate predictions: fit a calibrator, apply it, compare all calibrators.", no_args_is_help=True
)
COLUMNS = ("accuracy", "mae", "ece", "sce", "rps", "nll", "unimodality")
CalibratorName = Annotated[
    str, Option("--calibrator", help="Calibrator: a name, a chain such as dirichlet+projection, or auto.")
]


@dataclass(frozen=True)
class CalibrateReadOptions(LabelledReadOptions):
    """Columns of the predictions that calibrators use."""

    sample_weight: Annotated[str | None, Column(help="Column of sample weights.")] = None
    subgroup: Annotated[
        str | None,
        Column(
            help="Column of subgroups, such as sites, with a correction each, shrunk towards the shared calibrator."
        ),
    ] = None
    cluster: Annotated[str | None, Column(help="Column of clusters, such as patients, that stay in one fold.")] = None


@command(calibrate_app)
def fit(
    file: Annotated[Location, Argument(help="Labelled predictions for rows that the model was not trained on.")],
    read: CalibrateReadOptions,
    output: Annotated[Location, Option("--output", "-o", help="Output file of the calibrator (JSON).")],
    calibrator: CalibratorName = "auto",
) -> None:
    """Fit a calibrator on held-out rows and write it as JSON."""
    from orcu import calibrators
    from orcu.calibrators.recommend import calibration_metrics
    from orcu.predictions import Predictions

    check_paths([file], [output])
    check_json(output)
    options = read.arguments()
    estimator = calibrators.create(calibrator)
    if read.subgroup is not None:
        estimator = calibrators.GroupedCalibration(estimator)
    with task(f"reading {file.name}") as update:
        predictions = Predictions.read(file, **options)
        y, weights = predictions.labels_or_votes, predictions.sample_weight
        update(f"fitting {calibrator} on {len(predictions):,} rows")
        predictions.fit_calibrator(estimator)
        outputs = predictions.scores
        before = calibration_metrics(y, **outputs, sample_weight=weights)
        after = calibration_metrics(y, logits=predictions.calibrated(estimator).logits, sample_weight=weights)
    _print_notes(predictions, estimator.floor_, is_fit=True)
    write_fitted(output, estimator, predictions, file)
    if isinstance(estimator, calibrators.AutoCalibration | calibrators.GroupedCalibration):
        say(estimator.reason_)
    name = calibrator
    if isinstance(estimator, calibrators.GroupedCalibration):
        name = f"{calibrator}, by subgroup"
        if estimator.adjustment_:
            table = new_table("subgroup", ">inverse temperature", ">tilt", title="correction of each subgroup")
            for subgroup, (log_inverse_temperature, tilt) in estimator.adjustment_.by_subgroup.items():
                table.add_row(escape(subgroup), f"x {math.exp(log_inverse_temperature):.2f}", f"{tilt:+.2f}")
            show(table)
    rows = {"uncalibrated": before, name: after}
    _print_impossible(predictions, rows)
    show(_metric_table(rows, "on the fitting rows (optimistically biased)"))
    say_wrote(output)


@command(calibrate_app)
def apply(
    file: Annotated[Location, Argument(help="Predictions to calibrate; labels are optional.")],
    calibrator: Annotated[Location, Argument(help="Calibrator file written by `orcu calibrate fit`.")],
    table: TableOptions,
    read: CalibrateReadOptions,
) -> None:
    """Apply a fitted calibrator to new predictions.

    The output is FILE with all its rows and columns; the probabilities or logits are replaced by the calibrated ones.
    A CSV file gets a column calibrated_by, so that `orcu evaluate` knows that it is calibrated. Labels are not used, so
    rows without a label are calibrated too.
    """
    from orcu import calibrators
    from orcu.predictions import open_predictions
    from orcu.predictions.calibration import leakage_warnings
    from orcu.predictions.source import CALIBRATED_BY
    from orcu.predictions.write_back import write_back

    check_paths([file, calibrator], [table.output])
    options = read.arguments()
    with task(f"calibrating {file.name}"):
        estimator = calibrators.load(calibrator)
        source = open_predictions(file, **options)
        check_classes(calibrator, source.classes, file)
        predictions = source.load_all_rows()[0]
        calibrated = predictions.calibrated(estimator)
        write_back(
            source,
            table.output,
            values=getattr(calibrated, source.kind),
            history=calibrated.history,
            escape_formulas=table.escape_formulas,
        )
    _print_notes(predictions, estimator.floor_)
    say(*leakage_warnings(calibrated.history), style="bold red")
    if earlier := ", ".join(calibrators_of(predictions)):
        say(f"WARNING: the input was already calibrated ({earlier}); now it is calibrated twice", style="bold red")
    if table.output.suffix != ".parquet":
        say(
            "a CSV file does not record the rows that the calibrator was fitted on; write .parquet, or pass the "
            "calibrator to `orcu sets fit --calibrator-file`",
            style="dim",
        )
    new = "" if table.output.suffix == ".parquet" else f"; column {CALIBRATED_BY} names the calibrator"
    say_wrote(table.output, f"{len(predictions):,} rows; {', '.join(source.value_columns)} are calibrated{new}")


@command(calibrate_app)
def compare(
    file: Annotated[Location, Argument(help="Labelled predictions for rows that the model was not trained on.")],
    read: CalibrateReadOptions,
    test: Annotated[
        Location | None, Option(help="Labelled test predictions. Default: cross-validation on FILE.")
    ] = None,
    unimodality: Annotated[float, Option(min=0, max=1, help="Minimum unimodality of the recommendation.")] = 0.99,
    report: Annotated[Location | None, Option(help="Report file (.html or .pdf); needs --test.")] = None,
) -> None:
    """Compare all calibrators by accuracy, errors, scores and unimodality, and recommend one.

    The recommendation has the lowest log loss (nll), by which `orcu calibrate fit` weights its default as well.
    """
    from orcu import calibrators
    from orcu.calibrators.recommend import calibration_metrics, subgroup_metrics
    from orcu.evaluation.evaluate import evaluate
    from orcu.predictions import Predictions
    from orcu.predictions.used_rows import UsedRows
    from orcu.report.pdf import write_page

    check_paths([file, test], [report])
    check_page(report)
    if report is not None and test is None:
        raise InputError("--report: needs --test, with rows that no calibrator is fitted on.")
    options = read.arguments()
    with task(), progress_bar() as bar:
        held_out = Predictions.read(file, **options)
        unseen = None if test is None else Predictions.read(test, **options)
        if test is not None and unseen is not None:
            UsedRows.from_values(held_out.as_logits()[0], held_out.ids).check_disjoint(
                UsedRows.from_values(unseen.as_logits()[0], unseen.ids),
                reason=f"of {test.name} are also in {file.name}; use other rows to test.",
            )
        job = bar.add_task("calibrators, five folds each")
        recommendation = calibrators.recommend(
            held_out.logits,
            probs=held_out.probs if held_out.logits is None else None,
            y=held_out.labels_or_votes,
            sample_weight=held_out.sample_weight,
            subgroup=None if read.subgroup is None else held_out.subgroup,
            cluster=held_out.cluster,
            min_unimodality=unimodality,
            progress=lambda name, done, total: bar.update(
                job, description=f"{name}, five folds", completed=done, total=total
            ),
        )
        rows, chosen, where = recommendation.table, recommendation.chosen, "five-fold cross-validation"
        by_subgroup, evaluated = recommendation.by_subgroup, held_out
        if test is not None and unseen is not None:
            if unseen.classes != held_out.classes:
                raise InputError(
                    f"{test.name}: the classes are {', '.join(unseen.classes)}, expected those of {file.name}: "
                    f"{', '.join(held_out.classes)}."
                )
            calibrated = _calibrate_all(list(rows), held_out, unseen)
            rows = {
                name: calibration_metrics(unseen.labels_or_votes, **result.scores, sample_weight=unseen.sample_weight)
                for name, result in calibrated.items()
            }
            evaluated = unseen
            if by_subgroup and unseen.subgroup is not None:
                outputs = {name: result.scores for name, result in calibrated.items()}
                by_subgroup = subgroup_metrics(outputs, unseen.labels_or_votes, unseen.subgroup, unseen.sample_weight)
            where = f"fitted on {file.name}, evaluated on {test.name}"
            if report is not None:
                evaluation = evaluate(calibrated.pop(chosen), compare=calibrated, name=chosen)
                write_page(evaluation.to_html(title="Comparison of calibrators"), report)
    _print_notes(held_out, None)
    _print_impossible(evaluated, rows)
    show(_metric_table(rows, where, chosen))
    if by_subgroup:
        show(_subgroup_table(by_subgroup, evaluated, chosen))
    say(f"→ chosen on {file.name}: {recommendation.reason}")
    if report is not None:
        say_wrote(report)


def _calibrate_all(names: list[str], held_out: "Predictions", unseen: "Predictions") -> "dict[str, Predictions]":
    """Return the unseen rows as each calibrator, fitted on the held-out rows, predicts them."""
    from orcu import calibrators

    held_out, unseen = (rows.replace(ids=None) for rows in (held_out, unseen))
    return {
        name: unseen if name == "none" else unseen.calibrated_on(held_out, calibrators.create(name)) for name in names
    }


def _metric_table(rows: dict[str, dict[str, float]], title: str, chosen: str = "") -> Table:
    from orcu.evaluation.formatting import ARROWS, format_value
    from orcu.metrics.base import METRICS

    metrics = [METRICS.get(name) for name in COLUMNS]
    headings = [f">{metric.name} {ARROWS[metric.better]}" for metric in metrics]

    def build(names: dict[str, str]) -> Table:
        table = new_table("calibrator", *headings, title=title, padding=1)
        for name, row in rows.items():
            cells = [format_value(row[metric.name], percent=metric.percent) for metric in metrics]
            mark, style = ("→ ", "bold green") if name == chosen else ("", "")
            table.add_row(escape(mark + names[name]), *cells, style=style)
        return table

    table = build({name: name for name in rows})
    if fits(table):
        return table
    # In a narrow terminal a calibrator with a projection has a short name, below the calibrator alone.
    short = {}
    for name in rows:
        first, _, others = name.partition("+")
        short[name] = f"  + {others}" if others and first in rows else name
    return build(short)


def _subgroup_table(
    by_subgroup: dict[str, dict[str, dict[str, float]]], predictions: "Predictions", chosen: str
) -> Table:
    """Scores of each subgroup: uncalibrated, with the chosen calibrator, and the calibrator of the lowest log loss."""
    import numpy as np

    from orcu.evaluation.formatting import format_value

    headings = [f">{metric} {name}" for metric in ("nll", "ece") for name in dict.fromkeys(("none", chosen))]
    table = new_table("subgroup", ">rows", *headings, "lowest nll", title="by subgroup", padding=1)
    for subgroup, rows in by_subgroup.items():
        cells = [
            format_value(rows[name][metric], percent=metric == "ece")
            for metric in ("nll", "ece")
            for name in dict.fromkeys(("none", chosen))
        ]
        count = int(np.sum(predictions.subgroup == subgroup))
        table.add_row(escape(subgroup), f"{count:,}", *cells, escape(min(rows, key=lambda name: rows[name]["nll"])))
    return table


def _print_impossible(predictions: "Predictions", metrics: dict[str, dict[str, float]]) -> None:
    """Print which NLL is infinite, and the number of rows whose true class has a probability of 0."""
    infinite = [name for name, row in metrics.items() if math.isinf(row["nll"])]
    if predictions.logits is None and infinite:
        import numpy as np

        from orcu.metrics.rows import Rows

        rows = Rows.from_predictions(predictions)
        count = len(np.unique(rows.spread(np.arange(len(predictions)))[rows.likelihood == 0]))
        verb = "row gives" if count == 1 else "rows give"
        say(
            f"infinite nll ({', '.join(infinite)}): {count:,} {verb} probability 0 to the true class before "
            "calibration, as in `orcu evaluate`",
            style="dim",
        )


def _print_notes(predictions: "Predictions", floor: float | None, *, is_fit: bool = False) -> None:
    matched = [] if predictions.y is None else [predictions.label_mapping]
    say(*predictions.notes, *matched, style="dim")
    zeros = int((predictions.probs == 0).sum()) if predictions.logits is None else 0
    if zeros:
        value = (
            "half the smallest positive value" if floor is None else f"{floor:.2g}" + (", as in the fit" * (not is_fit))
        )
        say(f"{zeros:,} probabilities of 0 were replaced by {value}, because 0 has no logit", style="dim")
