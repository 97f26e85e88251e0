"""``orcu train`` and ``orcu predict``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from orcu.cli.options import NoFormulas, bad_data, check_paths, pairs, printed_warnings
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
    recipe_changes,
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
    loss: Annotated[
        str | None,
        typer.Option(help="A loss, or several with commas between (`orcu losses`); ce,sord,orcu by default."),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(min=1, help="Of the ensemble; 1 for one network. 5 by default on tables and frozen features."),
    ] = None,
    members: Annotated[
        str | None,
        typer.Option(help="Of the ensemble: boosting (trees), network, or both with a comma; both on tables."),
    ] = None,
    backbone: Backbone = "",
    head: Annotated[str, typer.Option(help="linear, unimodal or poe; what the loss needs by default.")] = "",
    weights: Weights = "pretrained",
    download: Download = False,
    frozen: FrozenFlag = None,
    size: Size = 224,
    set_: Set = None,
    calibrator: Annotated[
        str, typer.Option(help="Fitted out of fold, or on validation with one network; auto chooses.")
    ] = "auto",
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write the curves for TensorBoard.")] = False,
    skip_bad: SkipBad = False,
    seed: Seed = 0,
    device: Device = "auto",
) -> None:
    """Train on your own images, texts or table, calibrate, judge on untouched rows, write a report."""
    from orcu.cli.screen import Screen
    from orcu.training import experiment

    with bad_data(), printed_warnings(), Screen(Console(), out if tensorboard else None) as screen:
        options = pairs(option or [], "--option")
        if subject_from is not None:
            options["subject"] = subject_from
        shares = {} if protocol else {"split": experiment.shares(split)}
        experiment.train(
            data,
            out,
            root=root,
            options=options,
            skip_bad=skip_bad,
            protocol=protocol,
            fold=fold,
            folds=folds,
            members=None if members is None else [name.strip() for name in members.split(",") if name.strip()],
            calibrator=calibrator,
            frozen=frozen,
            device=device,
            watcher=screen,
            loss=_losses(loss),
            backbone=backbone,
            head=head,
            weights=weights,
            size=size,
            recipe=recipe_changes(set_ or []),
            seed=seed,
            download=download,
            **shares,
        )


def _losses(text: str | None) -> list[str] | None:
    """The losses in a text: names with commas between, or one table."""
    if text is None:
        return None
    return [text] if "{" in text else [name.strip() for name in text.split(",") if name.strip()]


def predict(
    model: Annotated[Path, typer.Argument(help="What `orcu train` has written.")],
    inputs: Annotated[Path, typer.Argument(help="A folder of images, a table (.csv, .parquet), or texts (.txt).")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Write predictions here (.parquet, .csv).")],
    alpha: Annotated[
        float, typer.Option(min=0.001, max=0.5, help="Share of misses that prediction sets aim at; of ensembles.")
    ] = 0.1,
    skip_bad: SkipBad = False,
    device: Device = "auto",
    no_formulas: NoFormulas = False,
) -> None:
    """Apply a trained model and its calibrator to new cases: probabilities, decision, set and confidence."""
    from orcu.io.writing import write_table
    from orcu.training.predict import answer

    check_paths([], [out])
    console = Console()
    with bad_data(), Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("predicting")
        answers = answer(
            model,
            inputs,
            alpha=alpha,
            device=device,
            skip_bad=skip_bad,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
        write_table(answers.to_arrow(), out, no_formulas=no_formulas)
    for note in answers.predictions.notes:
        console.print(f"[yellow]{escape(note)}[/]", highlight=False)
    console.print(f"wrote {escape(str(out))}: {len(answers.predictions):,} cases", highlight=False)
