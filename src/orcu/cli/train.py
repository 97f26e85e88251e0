"""``orcu train``, ``orcu predict`` and ``orcu two-stage``."""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from orcu.cli.options import bad_data, pairs, told_warnings
from orcu.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from orcu.data import Prepared
    from orcu.training.loop import Moment
    from orcu.training.run import Settings

ENOUGH_STEPS = 5  # before the total time is foretold
SHOWN = ("ece", "sce", "ace", "qwk", "unimodality")

Data = Annotated[
    str,
    typer.Option("--data", help="A data set: a name, `folder` or `table`, or a prepared folder."),
]
Root = Annotated[
    Path | None, typer.Option("--root", help="The folder of its files, if it is not prepared yet.")
]
Option = Annotated[list[str] | None, typer.Option("--option", help="KEY=VALUE of the data set.")]
Backbone = Annotated[
    str,
    typer.Option(
        "--backbone", help="A timm model for images, bert-tiny, minilm or a folder for texts."
    ),
]
Weights = Annotated[
    str, typer.Option("--weights", help="pretrained, random, or a .safetensors or .pth file.")
]
Download = Annotated[
    bool, typer.Option("--download", help="Fetch pretrained weights from the hub.")
]
FrozenFlag = Annotated[
    bool | None,
    typer.Option(
        "--frozen/--fine-tune",
        help="Train on features of a frozen backbone; the default without a GPU.",
    ),
]
Size = Annotated[int, typer.Option("--size", min=8, max=2048, help="Side of the images in pixels.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="KEY=VALUE of the recipe, such as epochs=20 or batch_size=32."),
]
Seed = Annotated[int, typer.Option("--seed", help="Of split, weights, order and augmentation.")]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Go on without images that are missing or damaged.")
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")]


def train(
    data: Data,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the result.")],
    root: Root = None,
    option: Option = None,
    subject_from: Annotated[
        str | None,
        typer.Option(
            help="Subjects: a regular expression on paths (images), or a column (tables)."
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="Shares of train, validation and test.")] = "70/15/15",
    protocol: Annotated[
        str | None, typer.Option(help="A protocol of the data set, in place of --split.")
    ] = None,
    fold: Annotated[int, typer.Option(min=0, help="The protocol's fold.")] = 0,
    loss: Annotated[str, typer.Option(help="A loss; `orcu losses` shows them.")] = "orcu",
    backbone: Backbone = "",
    head: Annotated[
        str, typer.Option(help="linear, unimodal or poe; what the loss needs by default.")
    ] = "",
    weights: Weights = "pretrained",
    download: Download = False,
    frozen: FrozenFlag = None,
    size: Size = 224,
    set_: Set = None,
    calibrator: Annotated[str, typer.Option(help="Fitted on validation.")] = "gap+projection",
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write the curves for TensorBoard.")
    ] = False,
    skip_bad: SkipBad = False,
    seed: Seed = 0,
    device: Device = "auto",
) -> None:
    """Train on your own images, texts or table, calibrate, judge on untouched rows, write a report."""
    from orcu.training.parallel import first_before_others, is_first, joined
    from orcu.training.project import divided, shares, small_classes, train_and_judge

    with bad_data(), told_warnings(), joined() as own_device:
        device = own_device or device
        console = Console(quiet=not is_first())
        recipe = _recipe(set_ or [])
        _check_early(loss, head, calibrator, recipe)
        options = pairs(option or [], "--option")
        if subject_from is not None:
            options["subject"] = subject_from
        with first_before_others():
            prepared = _prepared(data, root, options, out, console, skip_bad)
        settings = _settings(
            prepared, console, loss=loss, backbone=backbone, head=head, weights=weights, download=download,
            frozen=frozen, size=size, recipe=recipe, seed=seed, device=device,
        )  # fmt: skip
        parts = (
            prepared.split(protocol, fold) if protocol else divided(prepared, shares(split), seed)
        )
        told = ", ".join(f"{len(rows):,} {name}" for name, rows in parts.items())
        alone = (
            "; the rows of a subject stay together"
            if prepared.manifest.column("subject")[0]
            else ""
        )
        console.print(f"{escape(prepared.name)}: {told}{alone}", highlight=False)
        for name in small_classes(prepared):
            console.print(
                f"[yellow]warning:[/] class {escape(name)} has fewer than 20 rows", highlight=False
            )
        quicker = "; --frozen is quicker on a CPU" if _slow_way(prepared, settings, device) else ""
        with _told(console, out if tensorboard else None, quicker) as (watch, features):
            judged = train_and_judge(
                prepared, parts, settings, out, calibrator=calibrator, device=device, progress=watch,
                on_features=features,
            )  # fmt: skip
    from orcu.report.headline import headline

    for sentence in headline(judged.evaluation):
        console.print(escape(sentence), highlight=False)
    console.print(
        f"wrote {escape(str(out))}: model.safetensors, calibrator.json, predictions, card.json, report.html",
        highlight=False,
    )


def predict(
    model: Annotated[Path, typer.Argument(help="What `orcu train` has written.")],
    inputs: Annotated[
        Path, typer.Argument(help="A folder of images, a table (.csv, .parquet), or texts (.txt).")
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="Write predictions here (.parquet, .csv).")
    ],
    skip_bad: SkipBad = False,
    device: Device = "auto",
) -> None:
    """Apply a trained model and its calibrator to new cases."""
    from orcu.cli.options import check_paths
    from orcu.files import write_table
    from orcu.predictions import Predictions
    from orcu.training.apply import predict_new

    check_paths([], [out])
    console = Console()
    with bad_data(), Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("predicting")
        told = predict_new(
            model, inputs, device=device, skip_bad=skip_bad,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )  # fmt: skip
        probs = Predictions(probs=told.probs, classes=told.classes, ids=told.ids)
        likely = [told.classes[k] for k in told.probs.argmax(axis=1)]
        write_table(probs.to_arrow().append_column("predicted", [likely]), out)
    for note in told.notes:
        console.print(f"[yellow]{escape(note)}[/]", highlight=False)
    console.print(f"wrote {escape(str(out))}: {len(told):,} cases", highlight=False)


def two_stage(
    data: Data,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the result.")],
    root: Root = None,
    option: Option = None,
    protocol: Annotated[
        str | None, typer.Option(help="A protocol; the paper's where there is one.")
    ] = None,
    folds: Annotated[int | None, typer.Option(min=1, help="Only the first so many folds.")] = None,
    scale: Annotated[float, typer.Option(help="s.")] = 3.0,
    epochs: Annotated[str, typer.Option(help="Epochs of stage one and stage two.")] = "50/50",
    backbone: Backbone = "",
    weights: Weights = "pretrained",
    download: Download = False,
    frozen: FrozenFlag = None,
    size: Size = 224,
    set_: Set = None,
    seed: Seed = 0,
    device: Device = "auto",
) -> None:
    """The paper's two-stage diagnostic: SoftCE, then SoftCE, hinge and ORCU from one checkpoint."""
    import pyarrow as pa

    from orcu.files import write_table
    from orcu.training.two_stage import summary
    from orcu.training.two_stage import two_stage as both_stages

    console = Console()
    with bad_data():
        first, _, second = epochs.partition("/")
        if not (first.isdigit() and second.isdigit() and int(first) and int(second)):
            raise InputError(f"epochs: expected two numbers such as 50/50, got {epochs!r}.")
        prepared = _prepared(data, root, pairs(option or [], "--option"), out, console)
        settings = _settings(
            prepared, console, loss="sord", backbone=backbone, weights=weights, download=download, frozen=frozen,
            size=size, recipe=_recipe(set_ or []), seed=seed, device=device,
        )  # fmt: skip
        known = prepared.protocols()
        protocol = protocol or ("paper" if "paper" in known else next(iter(known)))
        count = min(folds or known.get(protocol, 1), known.get(protocol, 1))
        records: list[dict[str, Any]] = []
        for fold in range(count):
            with _told(console) as (watch, _):
                found = both_stages(
                    prepared, prepared.split(protocol, fold), settings, out / f"fold_{fold}", scale=scale,
                    epochs=(int(first), int(second)), device=device,
                    progress=partial(_stage_watch, watch, fold),
                )  # fmt: skip
            records += [{"fold": fold, **record} for record in found]
    table = summary(records)
    write_table(pa.Table.from_pylist(records), out / "curves.parquet")
    write_table(pa.Table.from_pylist(table), out / "table.csv")
    share = sum(record["feasible_share"] for record in records) / len(records)
    console.print(f"F holds {share:.1%} of the validation rows", highlight=False)
    console.print(_stage_table(table))
    console.print(f"wrote {escape(str(out))}: curves.parquet, table.csv", highlight=False)


def _stage_watch(watch: Callable[..., None], fold: int, name: str, moment: "Moment") -> None:
    watch(moment, f"fold {fold}, {name}, ")


def _stage_table(rows: list[dict[str, Any]]) -> Table:
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("branch", "active % ↑", "A_TF ↑", "SCE % ↓", "ECE % ↓", "unimodal % ↑"):
        shown.add_column(heading, justify="left" if heading == "branch" else "right")
    for row in rows:
        own = row["alignment"] == row["alignment"]
        shown.add_row(
            row["branch"], f"{100 * row['feasible_active']:.2f}" if own else "-",
            f"{row['alignment']:.4f}" if own else "-", f"{100 * row['feasible_sce']:.2f}",
            f"{100 * row['feasible_ece']:.2f}", f"{100 * row['feasible_unimodality']:.1f}",
        )  # fmt: skip
    return shown


def _prepared(
    name: str,
    root: Path | None,
    options: dict[str, Any],
    out: Path,
    console: Console,
    skip_bad: bool = False,
) -> "Prepared":
    """A prepared data set; one that is not prepared yet is, inside the result's folder."""
    from orcu import data
    from orcu.data.store import MANIFEST, store_folder

    there = [path for path in (Path(name), store_folder() / name) if (path / MANIFEST).exists()]
    if there and root is None and not options:
        return data.load(there[0])
    if Path(name).is_dir() and name not in data.names():
        raise InputError(
            f"--data {name}: to train on your own images say --data folder --root {name}."
        )
    kept = out / "data"
    if not (kept / MANIFEST).exists():
        prepared, found = data.prepare(name, root, out=kept, options=options, skip_bad=skip_bad)
    else:  # what a run was made of stays as it is
        with TemporaryDirectory(dir=out) as folder:
            fresh, found = data.prepare(name, root, out=folder, options=options, skip_bad=skip_bad)
            prepared = data.load(kept)
            if fresh.manifest.digest != prepared.manifest.digest:
                raise InputError(
                    f"{out}: was made from other data; choose another folder or delete it."
                )
    for line in found.lines():
        if "protocol" not in line:  # the split is another
            console.print(f"[dim]{escape(line)}[/]", highlight=False)
    return prepared


def _check_early(loss: str, head: str, calibrator: str, recipe: dict[str, Any]) -> None:
    """Refuse wrong names before the data are looked at."""
    from orcu import calibrators, losses
    from orcu.models.heads import HEADS
    from orcu.training.recipes import Recipe

    losses.create(loss, num_classes=3)
    calibrators.create(calibrator)
    Recipe().but(**recipe)
    if head and head not in HEADS:
        raise UnknownNameError("head", head, HEADS)


def _settings(
    prepared: "Prepared", console: Console, *, device: str, frozen: bool | None, **given: Any
) -> "Settings":
    """The run's settings; on a CPU images and texts are not fine-tuned unless asked for."""
    from orcu.data.base import IMAGES, TABLE
    from orcu.data.cache import build
    from orcu.data.store import cache_folder
    from orcu.training.parallel import first_before_others
    from orcu.training.run import Settings, best_device

    kind = prepared.manifest.about.kind
    slow = kind != TABLE and (best_device() if device == "auto" else device) == "cpu"
    if frozen is None:
        frozen = slow and given["weights"] != "random"
        if frozen:
            given["backbone"] = given["backbone"] or (
                "efficientnet_lite0" if kind == IMAGES else "minilm"
            )
            console.print(
                f"no GPU: training on features of a frozen {given['backbone']}; --fine-tune trains all of it",
                highlight=False,
            )
    if kind == IMAGES:
        with first_before_others(), Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("decoding images")
            build(
                prepared.manifest, cache_folder(prepared.folder, given["size"]), given["size"],
                progress=lambda stage, done, total: bar.update(task, completed=done, total=total),
            )  # fmt: skip
    return Settings(frozen=bool(frozen) and kind != TABLE, **given)


def _slow_way(prepared: "Prepared", settings: "Settings", device: str) -> bool:
    """Whether a whole backbone is trained on a CPU."""
    from orcu.data.base import TABLE
    from orcu.training.run import best_device

    on_cpu = (best_device() if device == "auto" else device) == "cpu"
    return on_cpu and not settings.frozen and prepared.manifest.about.kind != TABLE


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"about {seconds:.0f} seconds"
    return (
        f"about {seconds / 60:.0f} minutes"
        if seconds < 5400
        else f"about {seconds / 3600:.1f} hours"
    )


@contextmanager
def _told(
    console: Console, board: Path | None = None, hint: str = ""
) -> Iterator[tuple[Callable[..., None], Callable[[int, int], None]]]:
    """Bars for a training and for frozen features; once, early, the time that it will take."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    writer = _tensorboard(board)
    with Progress(
        *columns, console=Console(stderr=True, quiet=console.quiet), transient=True
    ) as bar:
        tasks: dict[str, TaskID] = {}
        foretold = False

        def task(name: str) -> TaskID:
            if name not in tasks:
                tasks[name] = bar.add_task(name)
            return tasks[name]

        def watch(moment: "Moment", prefix: str = "") -> None:
            nonlocal foretold
            done = moment.epoch * moment.steps + moment.step
            if not foretold and done >= ENOUGH_STEPS:
                foretold = True
                console.print(f"{_duration(moment.seconds_left)} to train{hint}", highlight=False)
            text = f"{prefix}epoch {moment.epoch + 1}/{moment.epochs}, {moment.seconds_left:.0f} s left"
            if moment.curve is not None:
                for name, value in moment.curve.items() if writer is not None else ():
                    writer.add_scalar(name, value, moment.epoch)
                numbers = ", ".join(
                    f"{name} {moment.curve[f'validation_{name}']:.3f}" for name in SHOWN
                )
                parts = {k: v for k, v in moment.curve.items() if k.startswith("train_")}
                losses = ", ".join(
                    f"{key.removeprefix('train_')} {value:.3f}" for key, value in parts.items()
                )
                rates = "/".join(
                    f"{v:.0e}" for k, v in moment.curve.items() if k.startswith("rate_")
                )
                bar.console.print(
                    f"[dim]{prefix}epoch {moment.epoch + 1:3d}  {losses}  validation {numbers}  rates {rates}[/]",
                    highlight=False,
                )
            bar.update(
                task("training"),
                description=text,
                completed=done,
                total=moment.epochs * moment.steps,
            )

        def features(done: int, total: int) -> None:
            bar.update(
                task("features"),
                description="features of the frozen backbone",
                completed=done,
                total=total,
            )

        yield watch, features
    if writer is not None:
        writer.close()


def _tensorboard(folder: Path | None) -> Any:
    """A writer of TensorBoard's, if it is asked for."""
    if folder is None:
        return None
    if importlib.util.find_spec("tensorboard") is None:
        raise InputError("--tensorboard: the package is not installed; pip install tensorboard.")
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(folder / "tensorboard")


def _recipe(given: list[str]) -> dict[str, Any]:
    """Settings of a recipe from texts: numbers, true, false and none are what they say."""
    words = {"true": True, "false": False, "none": None}
    found: dict[str, Any] = {}
    for key, text in pairs(given, "--set").items():
        if text.lower() in words:
            found[key] = words[text.lower()]
            continue
        try:
            found[key] = int(text) if text.lstrip("-").isdigit() else float(text)
        except ValueError:
            found[key] = text
    return found
