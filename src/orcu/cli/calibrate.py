"""``orcu calibrate``: fit a calibrator, apply it, compare all of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    Percent,
    Probs,
    Separator,
    Weight,
    bad_data,
    check_classes,
    check_paths,
    reading_options,
    told_warnings,
    write_fitted,
)
from orcu.errors import InputError
from orcu.tables.files import replacing

if TYPE_CHECKING:
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
        str, typer.Option(help="A calibrator, or several joined by +, such as dirichlet+projection.")
    ] = "gap",
    label: Label = None,
    probs: Probs = None,
    logits: Logits = None,
    classes: Classes = None,
    weight: Weight = None,
    id_column: Id = None,
    percent: Percent = False,
    sep: Separator = None,
    decimal: Decimal = None,
) -> None:
    """Fit a calibrator on held-out rows and write it as JSON."""
    from orcu import calibrators

    check_paths([file], [out])
    made = calibrators.create(method)
    options = reading_options(
        probs=probs,
        logits=logits,
        classes=classes,
        sep=sep,
        decimal=decimal,
        label=label,
        weight=weight,
        id=id_column,
        percent=percent,
    )
    console = Console()
    with bad_data(), told_warnings():
        told = _read(file, options)
        values, replaced = told.as_logits()
        rows = told.rows()
        with Console(stderr=True).status(f"fitting {method} on {len(told):,} rows"):
            made.fit(values, rows.y, weight=told.weight, ids=told.ids)
        before, after = _judged(values, rows.y), _judged(made.predict_logits(values), rows.y)
    _tell(console, told, replaced)
    write_fitted(out, made, told.classes, file)
    console.print(_table({"as it was": before, method: after}, "on the fitting rows, which flatters it"))
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
    group: Annotated[str | None, typer.Option(help="Column of groups, carried along.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Column of subjects, carried along.")] = None,
    percent: Percent = False,
    sep: Separator = None,
    decimal: Decimal = None,
) -> None:
    """Apply a calibrator to new predictions."""
    from orcu import calibrators
    from orcu.predictions.predictions import reuse_notes

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
    with bad_data():
        fitted = calibrators.load(calibrator)
        told = _read(file, options)
        check_classes(calibrator, told.classes, file)
        replaced = told.as_logits()[1]
        result = told.calibrated(fitted)
        result.write(out)
    _tell(console, told, replaced)
    for note in reuse_notes(result.history):
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
    report: Annotated[Path | None, typer.Option(help="With --test: write an HTML report here.")] = None,
) -> None:
    """Compare every calibrator: accuracy, errors, scores and shape, and recommend one."""
    from orcu import calibrators
    from orcu.predictions.used_rows import UsedRows

    check_paths([file, *([test] if test else [])], [report])
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
    with bad_data(), told_warnings():
        told = _read(file, options)
        values, replaced = told.as_logits()
        y = told.labels
        new = None if test is None else _read(test, options)
        if new is not None:
            UsedRows.of(values, told.ids).refuse(
                UsedRows.of(new.as_logits()[0], new.ids),
                because=f"of {test.name if test else file.name} are in {file.name} too; judge on other rows.",
            )
        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("calibrators, five folds each")
            found = calibrators.recommend(
                values,
                y,
                unimodality=unimodality,
                progress=lambda name, done, of: bar.update(
                    task, description=f"{name}, five folds", completed=done, total=of
                ),
            )
        rows = {name: {column: row[column] for column in COLUMNS} for name, row in found.table.items()}
        where = "five-fold cross-validation"
        if test is not None and new is not None:
            if new.classes != told.classes:
                raise InputError(f"{test.name}: its classes are {', '.join(new.classes)}.")
            rows, page = _on_test(list(found.table), values, y, new, found.chosen, report is not None)
            where = f"fitted on {file.name}, judged on {test.name}"
            if report is not None:
                with replacing(report) as temporary:
                    temporary.write_text(page, encoding="utf-8")
    _tell(console, told, replaced)
    console.print(_table(rows, where, found.chosen))
    console.print(f"→ {found.chosen}: chosen on {escape(file.name)} by this {found.rule}", highlight=False)
    if report is not None:
        console.print(f"wrote {escape(str(report))}", highlight=False)


def _on_test(
    names: list[str], logits: Any, y: Any, test: "Predictions", chosen: str, paged: bool
) -> tuple[dict[str, dict[str, float]], str]:
    """Every method fitted on one file and judged on the other; the report compares them in pairs."""
    from orcu import calibrators
    from orcu.evaluation.evaluate import evaluate
    from orcu.predictions.predictions import Predictions

    labels, values = test.labels, test.as_logits()[0]
    told = {}
    for name in names:
        moved = values if name == "none" else calibrators.create(name).fit(logits, y).predict_logits(values)
        told[name] = Predictions(logits=moved, y=labels)
    rows = {name: _judged(one.logits, labels) for name, one in told.items()}
    if not paged:
        return rows, ""
    for one in told.values():
        one.classes = test.classes
    others = {name: one for name, one in told.items() if name != chosen}
    return rows, evaluate(told[chosen], compare=others, name=chosen).to_html(title="Which calibrator?")


def _read(file: Path, options: dict[str, Any]) -> "Predictions":
    from orcu.predictions.opening import open_predictions

    return open_predictions(file, **options).load()


def _judged(logits: Any, y: Any) -> dict[str, float]:

    from orcu import geometry, metrics
    from orcu.calibrators.recommend import judged

    probs = geometry.probs(logits)
    return judged(probs, y) | {"nll": metrics.nll(logits=logits, y=y)}  # logits do not underflow


def _table(rows: dict[str, dict[str, float]], title: str, chosen: str = "") -> Table:
    from orcu.metrics.base import METRICS
    from orcu.report.plain import ARROWS, shown

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), title=title, title_justify="left")
    table.add_column("method", overflow="fold")
    for name in COLUMNS:
        table.add_column(f"{name} {ARROWS[METRICS.get(name).better]}", justify="right", no_wrap=True)
    for method, row in rows.items():
        cells = [shown(row[name], percent=METRICS.get(name).percent) for name in COLUMNS]
        style = "bold green" if method == chosen else ""
        table.add_row(escape(("→ " if method == chosen else "") + method), *cells, style=style)
    return table


def _tell(console: Console, told: "Predictions", replaced: int) -> None:
    for note in [*told.notes, told.mapping]:
        console.print(f"[dim]{escape(note)}[/]", highlight=False)
    if replaced:
        console.print(f"[dim]{replaced:,} probabilities of 0 became half the smallest positive value, for logits[/]")
