"""``orcu train`` and ``orcu predict``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from orcu.cli.options import bad_data, pairs, told_warnings
from orcu.cli.training import (
    Backbone,
    Data,
    Device,
    Download,
    FrozenFlag,
    Option,
    Root,
    Seed,
    Set,
    Size,
    SkipBad,
    Weights,
    bars,
    check_early,
    prepared_data,
    recipe_changes,
    settings_for,
    slow_way,
)


def train(
    data: Data,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the result.")],
    root: Root = None,
    option: Option = None,
    subject_from: Annotated[
        str | None, typer.Option(help="Subjects: a regular expression on paths (images), or a column (tables).")
    ] = None,
    split: Annotated[str, typer.Option(help="Shares of train, validation and test.")] = "70/15/15",
    protocol: Annotated[str | None, typer.Option(help="A protocol of the data set, in place of --split.")] = None,
    fold: Annotated[int, typer.Option(min=0, help="The protocol's fold.")] = 0,
    loss: Annotated[str, typer.Option(help="A loss; `orcu losses` shows them.")] = "orcu",
    backbone: Backbone = "",
    head: Annotated[str, typer.Option(help="linear, unimodal or poe; what the loss needs by default.")] = "",
    weights: Weights = "pretrained",
    download: Download = False,
    frozen: FrozenFlag = None,
    size: Size = 224,
    set_: Set = None,
    calibrator: Annotated[str, typer.Option(help="Fitted on validation.")] = "gap+projection",
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write the curves for TensorBoard.")] = False,
    skip_bad: SkipBad = False,
    seed: Seed = 0,
    device: Device = "auto",
) -> None:
    """Train on your own images, texts or table, calibrate, judge on untouched rows, write a report."""
    from orcu.training.experiment import divided, shares, small_classes, train_and_judge
    from orcu.training.parallel import first_before_others, is_first, joined

    with bad_data(), told_warnings(), joined() as own_device:
        device = own_device or device
        console = Console(quiet=not is_first())
        recipe = recipe_changes(set_ or [])
        check_early(loss, head, calibrator, recipe)
        options = pairs(option or [], "--option")
        if subject_from is not None:
            options["subject"] = subject_from
        with first_before_others():
            prepared = prepared_data(data, root, options, out, console, skip_bad)
        settings = settings_for(
            prepared,
            console,
            loss=loss,
            backbone=backbone,
            head=head,
            weights=weights,
            download=download,
            frozen=frozen,
            size=size,
            recipe=recipe,
            seed=seed,
            device=device,
        )
        parts = prepared.split(protocol, fold) if protocol else divided(prepared, shares(split), seed)
        told = ", ".join(f"{len(rows):,} {name}" for name, rows in parts.items())
        alone = "; the rows of a subject stay together" if prepared.manifest.column("subject")[0] else ""
        console.print(f"{escape(prepared.name)}: {told}{alone}", highlight=False)
        for name in small_classes(prepared):
            console.print(f"[yellow]warning:[/] class {escape(name)} has fewer than 20 rows", highlight=False)
        quicker = "; --frozen is quicker on a CPU" if slow_way(prepared, settings, device) else ""
        with bars(console, out if tensorboard else None, quicker) as (watch, features):
            judged = train_and_judge(
                prepared,
                parts,
                settings,
                out,
                calibrator=calibrator,
                device=device,
                progress=watch,
                on_features=features,
            )
    from orcu.report.headline import headline

    for sentence in headline(judged.evaluation):
        console.print(escape(sentence), highlight=False)
    console.print(
        f"wrote {escape(str(out))}: model.safetensors, calibrator.json, predictions, card.json, report.html",
        highlight=False,
    )


def predict(
    model: Annotated[Path, typer.Argument(help="What `orcu train` has written.")],
    inputs: Annotated[Path, typer.Argument(help="A folder of images, a table (.csv, .parquet), or texts (.txt).")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Write predictions here (.parquet, .csv).")],
    skip_bad: SkipBad = False,
    device: Device = "auto",
) -> None:
    """Apply a trained model and its calibrator to new cases."""
    from orcu.cli.options import check_paths
    from orcu.predictions.predictions import Predictions
    from orcu.tables.writing import write_table
    from orcu.training.predict import predict_new

    check_paths([], [out])
    console = Console()
    with bad_data(), Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("predicting")
        told = predict_new(
            model,
            inputs,
            device=device,
            skip_bad=skip_bad,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
        probs = Predictions(probs=told.probs, classes=told.classes, ids=told.ids)
        likely = [told.classes[k] for k in told.probs.argmax(axis=1)]
        write_table(probs.to_arrow().append_column("predicted", [likely]), out)
    for note in told.notes:
        console.print(f"[yellow]{escape(note)}[/]", highlight=False)
    console.print(f"wrote {escape(str(out))}: {len(told):,} cases", highlight=False)
