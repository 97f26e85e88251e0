"""What the commands that train share: options, the data, the settings, the bars."""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from orcu.cli.options import pairs
from orcu.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from orcu.data import Prepared
    from orcu.training.loop import Moment
    from orcu.training.run import Settings

ENOUGH_STEPS = 5  # before the total time is foretold
SHOWN = ("ece", "sce", "ace", "qwk", "unimodality")

Data = Annotated[str, typer.Option("--data", help="A data set: a name, `folder` or `table`, or a prepared folder.")]
Root = Annotated[Path | None, typer.Option("--root", help="The folder of its files, if it is not prepared yet.")]
Option = Annotated[list[str] | None, typer.Option("--option", help="KEY=VALUE of the data set.")]
Backbone = Annotated[
    str, typer.Option("--backbone", help="A timm model for images, bert-tiny, minilm or a folder for texts.")
]
Weights = Annotated[str, typer.Option("--weights", help="pretrained, random, or a .safetensors or .pth file.")]
Download = Annotated[bool, typer.Option("--download", help="Fetch pretrained weights from the hub.")]
FrozenFlag = Annotated[
    bool | None,
    typer.Option("--frozen/--fine-tune", help="Train on features of a frozen backbone; the default without a GPU."),
]
Size = Annotated[int, typer.Option("--size", min=8, max=2048, help="Side of the images in pixels.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="KEY=VALUE of the recipe, such as epochs=20 or batch_size=32.")
]
Seed = Annotated[int, typer.Option("--seed", help="Of split, weights, order and augmentation.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Go on without images that are missing or damaged.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")]


def prepared_data(
    name: str, root: Path | None, options: dict[str, Any], out: Path, console: Console, skip_bad: bool = False
) -> "Prepared":
    """A prepared data set; one that is not prepared yet is, inside the result's folder."""
    from orcu import data
    from orcu.data.store import MANIFEST, store_folder

    there = [path for path in (Path(name), store_folder() / name) if (path / MANIFEST).exists()]
    if there and root is None and not options:
        return data.load(there[0])
    if Path(name).is_dir() and name not in data.names():
        raise InputError(f"--data {name}: to train on your own images say --data folder --root {name}.")
    kept = out / "data"
    if not (kept / MANIFEST).exists():
        prepared, found = data.prepare(name, root, out=kept, options=options, skip_bad=skip_bad)
    else:  # what a run was made of stays as it is
        with TemporaryDirectory(dir=out) as folder:
            fresh, found = data.prepare(name, root, out=folder, options=options, skip_bad=skip_bad)
            prepared = data.load(kept)
            if fresh.manifest.digest != prepared.manifest.digest:
                raise InputError(f"{out}: was made from other data; choose another folder or delete it.")
    for line in found.lines():
        if "protocol" not in line:  # the split is another
            console.print(f"[dim]{escape(line)}[/]", highlight=False)
    return prepared


def check_early(loss: str, head: str, calibrator: str, recipe: dict[str, Any]) -> None:
    """Refuse wrong names before the data are looked at."""
    from orcu import calibrators, losses
    from orcu.models.heads import HEADS
    from orcu.training.recipes import Recipe

    losses.create(loss, num_classes=3)
    calibrators.create(calibrator)
    Recipe().but(**recipe)
    if head and head not in HEADS:
        raise UnknownNameError("head", head, HEADS)


def settings_for(
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
            given["backbone"] = given["backbone"] or ("efficientnet_lite0" if kind == IMAGES else "minilm")
            console.print(
                f"no GPU: training on features of a frozen {given['backbone']}; --fine-tune trains all of it",
                highlight=False,
            )
    if kind == IMAGES:
        with first_before_others(), Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("decoding images")
            build(
                prepared.manifest,
                cache_folder(prepared.folder, given["size"]),
                given["size"],
                progress=lambda stage, done, total: bar.update(task, completed=done, total=total),
            )
    return Settings(frozen=bool(frozen) and kind != TABLE, **given)


def slow_way(prepared: "Prepared", settings: "Settings", device: str) -> bool:
    """Whether a whole backbone is trained on a CPU."""
    from orcu.data.base import TABLE
    from orcu.training.run import best_device

    on_cpu = (best_device() if device == "auto" else device) == "cpu"
    return on_cpu and not settings.frozen and prepared.manifest.about.kind != TABLE


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"about {seconds:.0f} seconds"
    return f"about {seconds / 60:.0f} minutes" if seconds < 5400 else f"about {seconds / 3600:.1f} hours"


@contextmanager
def bars(
    console: Console, board: Path | None = None, hint: str = ""
) -> Iterator[tuple[Callable[..., None], Callable[[int, int], None]]]:
    """Bars for a training and for frozen features; once, early, the time that it will take."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    writer = _tensorboard(board)
    with Progress(*columns, console=Console(stderr=True, quiet=console.quiet), transient=True) as bar:
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
                numbers = ", ".join(f"{name} {moment.curve[f'validation_{name}']:.3f}" for name in SHOWN)
                parts = {k: v for k, v in moment.curve.items() if k.startswith("train_")}
                losses = ", ".join(f"{key.removeprefix('train_')} {value:.3f}" for key, value in parts.items())
                rates = "/".join(f"{v:.0e}" for k, v in moment.curve.items() if k.startswith("rate_"))
                bar.console.print(
                    f"[dim]{prefix}epoch {moment.epoch + 1:3d}  {losses}  validation {numbers}  rates {rates}[/]",
                    highlight=False,
                )
            bar.update(task("training"), description=text, completed=done, total=moment.epochs * moment.steps)

        def features(done: int, total: int) -> None:
            bar.update(task("features"), description="features of the frozen backbone", completed=done, total=total)

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


def recipe_changes(given: list[str]) -> dict[str, Any]:
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
