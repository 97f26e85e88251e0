"""``orcu train``, ``orcu two-stage`` and ``orcu predict``."""

import difflib
import errno
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from orcu.cli.calibrate import CalibratorName
from orcu.cli.console import new_table, progress_bar, say, say_wrote, show, task
from orcu.cli.data import Root, SkipBad
from orcu.cli.files import check_paths
from orcu.cli.options import TableOptions, key_values, names, parse_value
from orcu.errors import InputError
from orcu.io.locations import Location

RESUMES = "; parts that are trained are kept"
Device = Annotated[str, Option("--device", help="Device: auto (the best available), cpu, cuda or mps.")]


@dataclass(frozen=True)
class TrainOptions:
    """Data, model and training of a run."""

    data: Annotated[
        str,
        Option(
            help="Built-in data set, prepared folder, or one of folder, table, texts to read your own files in --root."
        ),
    ]
    output: Annotated[Path, Option("--output", "-o", help="Output folder.")]
    root: Root = None
    set_: Annotated[
        list[str] | None,
        Option("--set", help="KEY=VALUE training setting, such as epochs=20, or data set option; repeatable."),
    ] = None
    backbone: Annotated[str, Option(help="Backbone: a timm model (images); bert-tiny, minilm, a folder (texts).")] = ""
    weights: Annotated[str, Option(help="Backbone weights: pretrained, random, or a weights file.")] = "pretrained"
    download: Annotated[bool, Option("--download", help="Download pretrained weights from the hub.")] = False
    frozen: Annotated[
        bool | None, Option("--frozen/--fine-tune", help="Freeze or train the backbone. Default: frozen without a GPU.")
    ] = None
    size: Annotated[int, Option(min=8, max=2048, help="Side of the images in pixels.")] = 224
    seed: Annotated[int, Option(min=0, help="Random seed of split, weights, row order and augmentation.")] = 0
    device: Device = "auto"

    def arguments(self) -> dict[str, Any]:
        """Return the options as keyword arguments of `orcu.training.experiment.train`."""
        training, options = split_settings(key_values(self.set_), self.data)
        others = {name: value for name, value in vars(self).items() if name != "set_"}
        return others | {"options": options, "training": training}


@contextmanager
def _writing(output: Location, after: str = "") -> Iterator[None]:
    """Turn a full disk, a read-only folder and other errors of the file system into an `InputError`."""
    try:
        yield
    except OSError as error:
        path, reason = error.filename or output, error.strerror or str(error)
        if error.errno == errno.ENOSPC:
            raise InputError(f"{output}: the disk is full. Free some space and run the command again{after}.") from None
        raise InputError(f"{path}: cannot be read or written ({reason}).") from None


def split_settings(settings: dict[str, str], data: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Split the entries of ``--set`` into training settings and options of the data set."""
    from orcu.data.base import DATASETS
    from orcu.registry import accepted_parameters
    from orcu.training.config import TrainConfig

    training_keys = [field.name for field in fields(TrainConfig)]
    option_keys = [*accepted_parameters(DATASETS.get(data))] if data in DATASETS.names() else []
    kinds = {"training settings": training_keys, f"options of the data set {data!r}": option_keys}
    for key in settings:
        if key not in training_keys and key not in option_keys:
            nearest = (
                f"{kind}: {', '.join(difflib.get_close_matches(key, keys, n=3, cutoff=0.5) or keys) or 'none'}"
                for kind, keys in kinds.items()
            )
            raise InputError(f"--set: unknown key {key!r}. Nearest {'; '.join(nearest)}.")
    training = {key: parse_value(text) for key, text in settings.items() if key in training_keys}
    return training, {key: text for key, text in settings.items() if key not in training_keys}


def train(
    options: TrainOptions,
    cluster_from: Annotated[
        str | None,
        Option(help="Clusters, such as patients, kept in one split: a regular expression on paths, or a column."),
    ] = None,
    label_shares: Annotated[
        str | None,
        Option(help="Train on votes: columns of shares or counts, one per class, such as 'y_*' (table, texts)."),
    ] = None,
    rater: Annotated[
        str | None, Option(help="Train on votes: columns of labels, one per rater, such as 'r_*' (table, texts).")
    ] = None,
    label: Annotated[
        str, Option(help="What to train on: label, or votes of several raters, where the data set has them.")
    ] = "label",
    split: Annotated[str, Option(help="Percentages of train, validation and test rows.")] = "70/15/15",
    protocol: Annotated[str | None, Option(help="Protocol of the data set, in place of --split.")] = None,
    fold: Annotated[int, Option(min=0, help="Fold of the protocol, from 0.")] = 0,
    loss: Annotated[
        str | None, Option(help="Losses of the networks, from `orcu losses`. Default: ce,sord,orcu.")
    ] = None,
    cv: Annotated[
        int | None,
        Option(
            min=1, help="Number of folds of the ensemble; 1 for one ORCU network. Default: 5, or 1 with --fine-tune."
        ),
    ] = None,
    estimators: Annotated[
        str | None,
        Option(
            help="Estimators of the ensemble: linear, forest, network, boosting, catboost, separated by commas. "
            "Default: the first four on tables, else network."
        ),
    ] = None,
    head: Annotated[
        str, Option(help="Output layer of a single network, from `orcu losses`. Default: that of the loss.")
    ] = "",
    calibrator: CalibratorName = "auto",
    tensorboard: Annotated[bool, Option("--tensorboard", help="Also write the curves for TensorBoard.")] = False,
    skip_bad: SkipBad = False,
) -> None:
    """Train on your own images, texts or table, calibrate, evaluate on the test rows, write a report."""
    from orcu.cli.progress import TrainingDisplay
    from orcu.training import experiment

    arguments = options.arguments()
    if label not in ("label", "votes"):
        raise InputError(
            f"--label {label}: expected label or votes, what to train on. The column of the labels is an option of the "
            f"data set: --set label={label}."
        )
    if cluster_from is not None:
        arguments["options"]["cluster"] = cluster_from
    for name, pattern in (("label_shares", label_shares), ("rater", rater)):
        if pattern is not None:
            arguments["options"][name], label = pattern, "votes"
    if protocol is None:
        arguments["split"] = experiment.parse_split(split)
    display = TrainingDisplay(options.output if tensorboard else None)
    with task(), closing(display), _writing(options.output, RESUMES):
        experiment.train(
            **arguments,
            skip_bad=skip_bad,
            protocol=protocol,
            fold=fold,
            cv=cv,
            estimators=None if estimators is None else names(estimators),
            calibrator=calibrator,
            callback=display,
            loss=None if loss is None else [loss] if "{" in loss else names(loss),
            head=head,
            label=label,
        )


def two_stage(
    options: TrainOptions,
    protocol: Annotated[str | None, Option(help="Protocol of the data set. Default: paper, or the first.")] = None,
    max_folds: Annotated[int | None, Option(min=1, help="Number of folds to run. Default: all.")] = None,
    scale: Annotated[float, Option(help="Scale s of ORCU's log-barrier, above 0.")] = 3.0,
    epochs: Annotated[str, Option(help="Numbers of epochs of stage one and stage two.")] = "50/50",
) -> None:
    """Run the paper's two-stage diagnostic: SoftCE, then SoftCE, hinge and ORCU from the same checkpoint."""
    from orcu.cli.progress import TrainingDisplay
    from orcu.training.two_stage import train

    first, _, second = epochs.partition("/")
    if not (first.isdigit() and second.isdigit() and int(first) and int(second)):
        raise InputError(f"--epochs: expected two numbers such as 50/50, got {epochs!r}.")
    arguments = options.arguments()
    with task(), closing(TrainingDisplay()) as display, _writing(options.output, RESUMES):
        diagnostic = train(
            **arguments,
            protocol=protocol,
            max_folds=max_folds,
            scale=scale,
            epochs=(int(first), int(second)),
            callback=display,
        )
    say(f"feasible set F: {diagnostic.feasible_share:.1%} of the validation rows")
    table = new_table("branch", ">active % ↑", ">A_TF ↑", ">SCE % ↓", ">ECE % ↓", ">unimodal % ↑")
    for row in diagnostic.table:
        regularized = row["alignment"] == row["alignment"]  # NaN without a regularizer
        table.add_row(
            row["branch"],
            f"{100 * row['feasible_active']:.2f}" if regularized else "-",
            f"{row['alignment']:.4f}" if regularized else "-",
            f"{100 * row['feasible_sce']:.2f}",
            f"{100 * row['feasible_ece']:.2f}",
            f"{100 * row['feasible_unimodality']:.1f}",
        )
    show(table)
    say_wrote(options.output, "curves.parquet, table.csv")


def predict(
    model: Annotated[Path, Argument(help="Model folder written by `orcu train`.")],
    inputs: Annotated[Path, Argument(help="Folder of images, table (.csv, .parquet) or texts (.txt).")],
    table: TableOptions,
    alpha: Annotated[float, Option(min=0.001, max=0.5, help="Target miscoverage of the prediction sets.")] = 0.1,
    skip_bad: SkipBad = False,
    device: Device = "auto",
) -> None:
    """Apply a trained model and its calibrator to new inputs: probabilities, decision, prediction set, confidence.

    The output of a table is the table with all its rows and columns, and these results.
    """
    from orcu.training.predict import predict as predict_inputs

    check_paths([], [table.output])
    with task(), progress_bar() as bar:
        job = bar.add_task("predicting")
        result = predict_inputs(
            model,
            inputs,
            alpha=alpha,
            device=device,
            skip_bad=skip_bad,
            progress=lambda done, total: bar.update(job, completed=done, total=total),
        )
        with _writing(table.output):
            result.write(table.output, inputs, escape_formulas=table.escape_formulas)
    say(*result.predictions.notes, style="yellow")
    say_wrote(table.output, f"{len(result.predictions):,} rows")
