"""Grad-CAM: where the last convolutional layer looks, for losses that all decide the same, rightly."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError, require
from orcu.figures.base import FIGURES, Figure, at_least, grid, note
from orcu.figures.sources import RunFiles, Sources, matched
from orcu.figures.style import COLUMN, PAGE, fitted, loss_title, shortened
from orcu.figures.typical import RULE, typical_rows
from orcu.inputs import FloatArray
from orcu.metrics.rows import Rows

SHOWN = ("ce", "sord", "ls", "orcu")  # the paper's choice
Pixels = npt.NDArray[np.uint8]
_SHORTCUTS = {"downsample", "shortcut"}  # as timm's networks call them


@dataclass(frozen=True)
class Maps:
    """One image (H, W, 3), its label, and for each loss a map (H, W) in [0, 1]."""

    id: str
    label: str
    image: Pixels
    maps: dict[str, FloatArray]


def last_convolution(model: Any, inputs: Any) -> Any:
    """The layer whose map is shown: the last convolution that runs and still sees space.

    Convolutions on a single pixel, such as those that weigh channels, have nothing to show, and those
    on a shortcut around a block are not the block's result.

    Raises:
        InputError: if the model has none.
    """
    import torch

    ran: list[Any] = []

    def notice(layer: Any, _: Any, output: Any) -> None:
        if min(output.shape[-2:]) > 1:
            ran.append(layer)

    layers = [
        layer
        for name, layer in model.named_modules()
        if isinstance(layer, torch.nn.Conv2d) and not _SHORTCUTS & set(name.split("."))
    ]
    hooks = [layer.register_forward_hook(notice) for layer in layers]
    with torch.no_grad():
        model(inputs)
    for hook in hooks:
        hook.remove()
    if not ran:
        raise InputError("the model has no convolution whose output is larger than a pixel.")
    return ran[-1]


def grad_cam(model: Any, inputs: Any, target: int) -> FloatArray:
    """Grad-CAM of one image for one class, at the image's size, shape (H, W).

    It runs from 0 at its least to 1 at its greatest value; a map of one value is all 0.

    Args:
        model: a classifier, in evaluation mode.
        inputs: one normalised image, shape (1, 3, H, W).
        target: the class, 0-based.
    """
    require("captum", extra="figures", what="Grad-CAM")
    from captum.attr import LayerAttribution, LayerGradCam

    # A frozen body has no weights that want gradients; the image then has to.
    inputs = inputs.clone().requires_grad_(True)
    layer = last_convolution(model, inputs)
    attribution = LayerGradCam(lambda images: model(images).logits, layer).attribute(
        inputs, target=target, relu_attributions=True
    )
    sized = LayerAttribution.interpolate(attribution, tuple(inputs.shape[-2:]), "bilinear")
    heat: FloatArray = sized[0, 0].detach().numpy().astype(np.float64)
    heat -= heat.min()
    return heat / (heat.max() or 1.0)


def data(runs: dict[str, RunFiles], *, count: int = 4) -> list[Maps]:
    """Maps of test images that every loss gets right.

    One image for each of at most ``count`` labels, spread evenly over the classes: of the images of
    that label, the one at the median of the mean confidence over the losses.

    Args:
        runs: a run on the same fold for each loss, with its model.
        count: the most images.

    Raises:
        InputError: if no image is right for all, or the data set is not prepared here.
    """
    import torch

    from orcu.training.model_file import load_model

    predictions = matched([run.predictions() for run in runs.values()])
    labels = predictions[0].labels
    right = np.all([Rows.of(one).pred == labels for one in predictions], axis=0)
    if not right.any():
        raise InputError(f"there is no test image that all of {', '.join(runs)} get right.")
    confidence = np.mean([Rows.of(one).confidence for one in predictions], axis=0)
    chosen = typical_rows(labels, confidence, among=np.flatnonzero(right), count=count)
    ids = [str(predictions[0].ids[row]) for row in chosen]  # type: ignore[index]
    models = {name: load_model(run.path) for name, run in runs.items()}
    plans = [plan for _, plan in models.values()]
    images = _images(next(iter(runs.values())), ids, plans[0].size)
    examples = []
    for name, row, pixels in zip(ids, chosen, images, strict=True):
        maps = {}
        for loss, (model, plan) in models.items():
            mean, std = (torch.tensor(v, dtype=torch.float32) for v in (plan.mean, plan.std))
            inputs = (torch.from_numpy(pixels.copy()).float()[None] / 255 - mean[:, None, None]) / std[:, None, None]
            maps[loss] = grad_cam(model, inputs, int(labels[row]))
        examples.append(Maps(name, predictions[0].classes[labels[row]], pixels.transpose(1, 2, 0), maps))
    return examples


def _images(run: RunFiles, ids: Sequence[str], size: int) -> list[Pixels]:
    """Images (3, H, W) of a run's data set by id, from the set as it was prepared."""
    for prepared in _candidates(run):
        if prepared.manifest.digest == run.manifest:
            row_of = {str(name): row for row, name in enumerate(prepared.manifest.ids)}
            cache = prepared.cache(size)
            return [np.asarray(cache.images[row_of[name]]) for name in ids]
    raise InputError(
        f"the data set {run.data} is not prepared here as it was for the run; set $ORCU_DATA to its folder, or "
        f"run `orcu data prepare {run.data}`."
    )


def _candidates(run: RunFiles) -> Iterator[Any]:
    """The likeliest first, because reading a manifest takes a while."""
    from orcu.data.store import MANIFEST, Prepared, prepared_names, store_folder

    folders: list[Path] = [run.path / "data", store_folder() / run.data]
    folders += [store_folder() / name for name in prepared_names() if name != run.data]
    yield from (Prepared(folder) for folder in folders if (folder / MANIFEST).exists())


def draw(ax: Any, example: Maps, loss: str | None) -> None:
    """The image, in grey under the map where a loss is named."""
    ax.set_axis_off()
    if loss is None:
        ax.imshow(example.image)
        return
    ax.imshow(example.image.mean(axis=2), cmap="gray", vmin=0, vmax=255)
    heat = example.maps[loss]
    # What is not looked at stays visible: the map's own height is its opacity.
    ax.imshow(heat, cmap="inferno", vmin=0, vmax=1, alpha=0.65 * heat)


@FIGURES.register("gradcam")
class GradCamFigure(Figure):
    """A row for each image: the image, and the map of each loss."""

    title = "Grad-CAM of the last convolutional layer"
    paper = "S6"
    needs = "image models that were kept"
    command = "orcu bench run SPEC, with keep_models = true and an image set in the spec"

    def make(self, sources: Sources, *, width: str = PAGE, count: int = 4) -> Any:
        """The first data set with models; CE, SORD, LS and ORCU unless --losses says otherwise."""
        at_least(1, count=count)
        for name in sources.datasets():
            losses = sources.losses(SHOWN, data=name)
            runs = {loss: sources.runs(name, loss)[0] for loss in losses}
            runs = {loss: run for loss, run in runs.items() if _is_image_model(run)}
            if runs:
                break
        else:
            raise self.lacks(sources.missing())
        require("captum", extra="figures", what="Grad-CAM")
        examples = data(runs, count=count)
        columns = len(runs) + 1
        side = (3.3 if width == COLUMN else 6.9) / max(columns, 5)
        figure, axes = grid(width, len(examples), columns, height=side, around=0.55, square=True)
        for line, example in zip(axes, examples, strict=True):
            for ax, loss in zip(line, (None, *runs), strict=True):
                draw(ax, example, loss)
                if line is axes[0]:
                    ax.set_title("image" if loss is None else fitted(loss_title(loss), int(13 * side)))
            # An axis that is off hides its label, so the label stands as text.
            name_shown = shortened(example.label, 9) if width == COLUMN else fitted(example.label, 18)
            line[0].text(-0.06, 0.5, name_shown, rotation=90, transform=line[0].transAxes, ha="right", va="center")
        several = len(sources.runs(name, next(iter(runs)))) > 1
        where = sources.data_caption(name) + ("; first fold" if several else "")
        note(
            figure,
            f"{where}: test images that all get right; {RULE}; labels without such an image are left out; "
            f"each map from its least to its greatest value",
        )
        return figure


def _is_image_model(run: RunFiles) -> bool:
    if not (run.has("model.json") and run.has("model.safetensors")):
        return False
    return bool(json.loads((run.path / "model.json").read_text())["kind"] == "images")
