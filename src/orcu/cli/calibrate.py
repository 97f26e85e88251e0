"""``orcu calibrate``: fit a calibrator, apply it, compare all of them."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

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
    Weight,
    bad_data,
    calibrated_by,
    check_classes,
    check_page,
    check_paths,
    printed_warnings,
    reading_options,
    working,
    write_fitted,
)
from orcu.errors import InputError

if TYPE_CHECKING:
    from orcu.calibrators import GroupedCalibration
    from orcu.predictions.predictions import Predictions

calibrate_app = typer.Typer(
    help="Calibrate predictions: fit a calibrator, apply it, compare all of them.", no_args_is_help=True
)
COLUMNS = ("accuracy", "mae", "ece", "sce", "rps", "nll", "unimodality")


@calibrate_app.command("fit")
def fit(
    file: Annotated[Path, typer.Argument(help="Labelled predictions the model was not trained on.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Write the calibrator here, as JSON.")],
    method: Annotated[
        str, typer.Option(help="A calibrator, or several joined by +, such as dirichlet+projection; auto chooses.")
    ] = "auto",
    label: Label = None,
    probs: Probs = None,
    logits: Logits = None,
    classes: Classes = None,
    weight: Weight = None,
    id_column: Id = None,
    cluster: Annotated[
        str | None, typer.Option(help="Column of subjects; auto chooses on other subjects than it fits on.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Column of groups: each gets a turn of its own, as far as its rows ask for it.")
    ] = None,
    percent: Percent = False,
    sep: Separator = None,
    decimal: Decimal = None,
) -> None:
    """Fit a calibrator on held-out rows and write it as JSON."""
    from orcu import calibrators
    from orcu.calibrators.recommend import metric_row
    from orcu.predictions.predictions import Predictions

    check_paths([file], [out])
    calibrator = calibrators.create(method)
    if group is not None:
        calibrator = calibrators.GroupedCalibration(calibrator)
    options = reading_options(
        probs=probs,
        logits=logits,
        classes=classes,
        sep=sep,
        decimal=decimal,
        label=label,
        weight=weight,
        id=id_column,
        group=group,
        subject=cluster,
        percent=percent,
    )
    console = Console()
    with bad_data(), printed_warnings():
        with working(f"reading {file.name}"):
            predictions = Predictions.read(file, **options)
        y = predictions.labels
        with working(f"fitting {method} on {len(predictions):,} rows"):
            predictions.fit_calibrator(calibrator)
            as_given = {predictions.kind: predictions.probs if predictions.logits is None else predictions.logits}
            before = metric_row(y, **as_given, weight=predictions.weight)
            after = metric_row(y, logits=predictions.calibrated(calibrator).logits, weight=predictions.weight)
    _print_notes(console, predictions, calibrator.floor_)
    write_fitted(out, calibrator, predictions, file)
    if isinstance(calibrator, calibrators.AutoCalibration | calibrators.GroupedCalibration):
        console.print(escape(calibrator.reason_), highlight=False)
    if isinstance(calibrator, calibrators.GroupedCalibration) and calibrator.turns_:
        console.print(_turns_table(calibrator))
    chosen = getattr(calibrator, "chosen_", method) if group is None else f"{method}, by group"
    console.print(_table({"as it was": before, chosen: after}, "on the fitting rows, which flatters it"))
    console.print(f"wrote {escape(str(out))}", highlight=False)


@calibrate_app.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(help="Predictions to calibrate; labels are not needed.")],
    calibrator: Annotated[Path, typer.Argument(help="What `orcu calibrate fit` wrote.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Write the predictions here (.parquet, .csv).")],
    label: Label = None,
    probs: Probs = None,
    logits: Logits = None,
    classes: Classes = None,
    weight: Weight = None,
    id_column: Id = None,
    group: Annotated[
        str | None, typer.Option(help="Column of groups: whose turn each row gets, if the calibrator has turns.")
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Column of subjects, carried along.")] = None,
    percent: Percent = False,
    sep: Separator = None,
    decimal: Decimal = None,
    no_formulas: NoFormulas = False,
) -> None:
    """Apply a calibrator to new predictions."""
    from orcu import calibrators
    from orcu.predictions.predictions import Predictions, reuse_notes

    check_paths([file, calibrator], [out])
    options = reading_options(
        probs=probs,
        logits=logits,
        classes=classes,
        sep=sep,
        decimal=decimal,
        label=label,
        weight=weight,
        id=id_column,
        group=group,
        subject=cluster,
        percent=percent,
    )
    console = Console()
    with bad_data(), printed_warnings(), working(f"calibrating {file.name}"):
        fitted = calibrators.load(calibrator)
        predictions = Predictions.read(file, **options)
        check_classes(calibrator, predictions.classes, file)
        moved = predictions.calibrated(fitted)
        moved.write(out, no_formulas=no_formulas)
    _print_notes(console, predictions, fitted.floor_)
    before = calibrated_by(predictions)
    twice = f"WARNING: they were calibrated before ({', '.join(before)}); calibrating twice is seldom meant"
    for note in [*reuse_notes(moved.history), *([twice] if before else [])]:
        console.print(f"[bold red]{escape(note)}[/]", highlight=False)
    if out.suffix != ".parquet":
        console.print(
            "[dim]a CSV file cannot tell which rows fitted what; write .parquet, or name the calibrator to "
            "`orcu sets fit --calibrator`[/]",
            highlight=False,
        )
    console.print(f"wrote {escape(str(out))}", highlight=False)


@calibrate_app.command("compare")
def compare(
    file: Annotated[Path, typer.Argument(help="Labelled predictions the model was not trained on.")],
    test: Annotated[Path | None, typer.Option(help="Judge on these; without it by cross-validation on FILE.")] = None,
    label: Label = None,
    probs: Probs = None,
    logits: Logits = None,
    classes: Classes = None,
    id_column: Id = None,
    percent: Percent = False,
    sep: Separator = None,
    decimal: Decimal = None,
    unimodality: Annotated[
        float, typer.Option(min=0, max=1, help="The share of unimodal predictions that is asked for.")
    ] = 0.99,
    report: Annotated[Path | None, typer.Option(help="With --test: write a report here, .html or .pdf.")] = None,
) -> None:
    """Compare every calibrator: accuracy, errors, scores and shape, and recommend one."""
    from orcu import calibrators
    from orcu.calibrators.recommend import metric_row
    from orcu.evaluation.evaluate import evaluate
    from orcu.predictions.predictions import Predictions
    from orcu.predictions.used_rows import UsedRows
    from orcu.report.pdf import write_page

    check_paths([file, *([test] if test else [])], [report])
    check_page(report)
    if report is not None and test is None:
        raise InputError("--report: needs --test, rows that no calibrator was fitted on.")
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
    with bad_data(), printed_warnings():
        with working(f"reading {file.name}"):
            held = Predictions.read(file, **options)
        values = held.as_logits()[0]
        y = held.labels
        new = None if test is None else Predictions.read(test, **options)
        if test is not None and new is not None:
            UsedRows.of(values, held.ids).refuse(
                UsedRows.of(new.as_logits()[0], new.ids),
                because=f"of {test.name} are in {file.name} too; judge on other rows.",
            )
        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("calibrators, five folds each")
            recommendation = calibrators.recommend(
                values,
                y,
                unimodality=unimodality,
                progress=lambda name, done, of: bar.update(
                    task, description=f"{name}, five folds", completed=done, total=of
                ),
            )
        rows, chosen = recommendation.table, recommendation.chosen
        where = "five-fold cross-validation"
        if test is not None and new is not None:
            if new.classes != held.classes:
                raise InputError(f"{test.name}: its classes are {', '.join(new.classes)}.")
            moved = _calibrated_on(list(rows), held, new)
            rows = {name: metric_row(new.labels, logits=one.logits) for name, one in moved.items()}
            where = f"fitted on {file.name}, judged on {test.name}"
            if report is not None:
                evaluation = evaluate(moved.pop(chosen), compare=moved, name=chosen)
                write_page(evaluation.to_html(title="Which calibrator?"), report)
    _print_notes(console, held, None)
    console.print(_table(rows, where, chosen))
    console.print(f"→ {chosen}: chosen on {escape(file.name)} by this {recommendation.rule}", highlight=False)
    if report is not None:
        console.print(f"wrote {escape(str(report))}", highlight=False)


def _calibrated_on(names: list[str], held: "Predictions", new: "Predictions") -> "dict[str, Predictions]":
    """The new rows, moved by each method fitted on the held ones; weights and groups play no part in a comparison."""
    from orcu import calibrators
    from orcu.predictions.predictions import Predictions

    held, new = (
        Predictions(logits=rows.as_logits()[0], y=rows.label_names(), classes=rows.classes) for rows in (held, new)
    )
    return {name: new if name == "none" else new.calibrated_on(held, calibrators.create(name)) for name in names}


def _table(rows: dict[str, dict[str, float]], title: str, chosen: str = "") -> Table:
    from orcu.evaluation.printed import ARROWS, shown
    from orcu.metrics.base import METRICS

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), title=title, title_justify="left")
    table.add_column("method", overflow="fold")
    for name in COLUMNS:
        table.add_column(f"{name} {ARROWS[METRICS.get(name).better]}", justify="right", no_wrap=True)
    for method, row in rows.items():
        cells = [shown(row[name], percent=METRICS.get(name).percent) for name in COLUMNS]
        style = "bold green" if method == chosen else ""
        table.add_row(escape(("→ " if method == chosen else "") + method), *cells, style=style)
    return table


def _turns_table(calibrator: "GroupedCalibration") -> Table:
    """What was found of each group."""
    table = Table(
        "group", box=None, pad_edge=False, padding=(0, 1, 0, 0), title="each group's turn", title_justify="left"
    )
    table.add_column("sharpness", justify="right")
    table.add_column("tilt", justify="right")
    for name, (log_sharpness, tilt) in calibrator.turns_.by_group.items():
        table.add_row(escape(name), f"x {math.exp(log_sharpness):.2f}", f"{tilt:+.2f}")
    return table


def _print_notes(console: Console, predictions: "Predictions", floor: float | None) -> None:
    notes = [*predictions.notes, predictions.mapping]
    zeros = int((predictions.probs == 0).sum()) if predictions.logits is None else 0
    if zeros:
        half = "half the smallest positive value" if floor is None else f"{floor:.2g}, as in the fit"
        notes.append(f"{zeros:,} probabilities of 0 were taken for {half}, since 0 has no logit")
    for note in notes:
        console.print(f"[dim]{escape(note)}[/]", highlight=False)
