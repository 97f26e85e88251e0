"""What the commands that train share: their options."""

from pathlib import Path
from typing import Annotated, Any

import typer

from orcu.cli.options import pairs

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
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of split, weights, order and augmentation.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Go on without images that are missing or damaged.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")]


def recipe_changes(entries: list[str]) -> dict[str, Any]:
    """RunConfig of a recipe from texts: numbers, true, false and none are what they say.

    Raises:
        InputError: if an entry is no KEY=VALUE.

    Example:
        >>> recipe_changes(["epochs=20", "clip=1.5", "patience=none", "schedule=linear"])
        {'epochs': 20, 'clip': 1.5, 'patience': None, 'schedule': 'linear'}
    """
    return {key: _value(text) for key, text in pairs(entries, "--set").items()}


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return text
