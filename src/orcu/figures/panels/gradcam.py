"""Grad-CAM: where the last convolutional layer looks, on images that all losses predict correctly."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError, require
from orcu.figures.base import FIGURES, Figure, add_note, check_at_least, grid
from orcu.figures.sources import RunFiles, Sources, match_rows
from orcu.figures.style import COLUMN, PAGE, shorten, wrap_name
from orcu.figures.titles import data_title, loss_title
from orcu.figures.typical import RULE, typical_rows
from orcu.inputs import FloatArray
from orcu.metrics.rows import Rows

SHOWN = ("ce", "sord", "ls", "orcu")  # the paper's choice
MOST = 6  # columns of maps that are large enough to be read
Pixels = npt.NDArray[np.uint8]
_SHORTCUTS = {"downsample", "shortcut"}  # module names in timm's networks


@dataclass(frozen=True)
class Maps:
    """One image (H, W, 3), its label, and for each loss a map (H, W) in [0, 1]."""

    id: str
    label: str
    image: Pixels
    maps: dict[str, FloatArray]


def last_convolution(model: Any, inputs: Any) -> Any:
    """The last executed convolution with an output larger than one pixel.

    Convolutions on a single pixel, such as channel attention, have no spatial map. Convolutions on a shortcut do not
    compute the result of their block.

    Raises:
        InputError: if the model has no such convolution.
    """
    import torch

    executed: list[Any] = []

    def record(layer: Any, _: Any, output: Any) -> None:
        if min(output.shape[-2:]) > 1:
            executed.append(layer)

    layers = [
        layer
        for name, layer in model.named_modules()
        if isinstance(layer, torch.nn.Conv2d) and not _SHORTCUTS & set(name.split("."))
    ]
    hooks = [layer.register_forward_hook(record) for layer in layers]
    with torch.no_grad():
        model(inputs)
    for hook in hooks:
        hook.remove()
    if not executed:
        raise InputError("the model has no convolution with an output larger than one pixel.")
    return executed[-1]


def grad_cam(model: Any, inputs: Any, target: int) -> FloatArray:
    """Grad-CAM of one image for one class, at the image's size, shape (H, W).

    The map is scaled to [0, 1]; a constant map is 0.

    Args:
        model: classifier in evaluation mode.
        inputs: one normalised image, shape (1, 3, H, W).
        target: class number from 0.
    """
    require("captum", extra="figures", feature="Grad-CAM")
    from captum.attr import LayerAttribution, LayerGradCam

    # A frozen backbone has no trainable weights, so the gradient needs a trainable input.
    inputs = inputs.clone().requires_grad_(True)
    layer = last_convolution(model, inputs)
    attribution = LayerGradCam(lambda images: model(images).logits, layer).attribute(
        inputs, target=target, relu_attributions=True
    )
    sized = LayerAttribution.interpolate(attribution, tuple(inputs.shape[-2:]), "bilinear")
    heat: FloatArray = sized[0, 0].detach().numpy().astype(np.float64)
    heat -= heat.min()
    return heat / (heat.max() or 1.0)


def data(runs: dict[str, RunFiles], *, n_examples: int = 4) -> list[Maps]:
    """Grad-CAM maps of test images that every loss predicts correctly.

    One image is selected for each of at most ``n_examples`` labels, evenly spaced: the image of that label at the
    median of the mean confidence over the losses.

    Args:
        runs: a run with its model for each loss, all on the same fold.
        n_examples: largest number of images.

    Raises:
        InputError: if no image is predicted correctly by all losses, or the data set is not prepared here.
    """
    import torch

    from orcu.training.model_file import load_model

    predictions = [run.predictions().with_median_labels() for run in runs.values()]
    predictions = match_rows(predictions)
    labels = predictions[0].labels
    rows = [Rows.from_predictions(model) for model in predictions]
    correct = np.all([part.pred == labels for part in rows], axis=0)
    if not correct.any():
        raise InputError(f"no test image is predicted correctly by all of {', '.join(runs)}.")
    confidence = np.mean([part.confidence for part in rows], axis=0)
    selected = typical_rows(labels, confidence, among=np.flatnonzero(correct), count=n_examples)
    ids = [str(predictions[0].ids[row]) for row in selected]  # type: ignore[index]
    models = {name: load_model(run.path) for name, run in runs.items()}
    plans = [plan for _, plan in models.values()]
    images = _images(next(iter(runs.values())), ids, plans[0].size)
    examples = []
    for name, row, pixels in zip(ids, selected, images, strict=True):
        maps = {}
        for loss, (model, plan) in models.items():
            mean, std = (torch.tensor(v, dtype=torch.float32) for v in (plan.mean, plan.std))
            inputs = (torch.from_numpy(pixels.copy()).float()[None] / 255 - mean[:, None, None]) / std[:, None, None]
            maps[loss] = grad_cam(model, inputs, int(labels[row]))
        examples.append(Maps(name, predictions[0].classes[labels[row]], pixels.transpose(1, 2, 0), maps))
    return examples


def _images(run: RunFiles, ids: Sequence[str], size: int) -> list[Pixels]:
    """Images (3, H, W) by id, from the prepared data set of a run."""
    for prepared in _candidates(run):
        if prepared.manifest.digest == run.manifest:
            row_of = {str(name): row for row, name in enumerate(prepared.manifest.ids)}
            cache = prepared.cache(size)
            return [np.asarray(cache.images[row_of[name]]) for name in ids]
    raise InputError(
        f"the prepared data set {run.data} of the run was not found; set $ORCU_DATA to its folder, or run "
        f"`orcu data prepare {run.data}`."
    )


def _candidates(run: RunFiles) -> Iterator[Any]:
    """Prepared data sets, the most likely first, because reading a manifest is slow."""
    from orcu.data.store import MANIFEST, PreparedData, prepared_names, store_folder

    folders: list[Path] = [run.path / "data", store_folder() / run.data]
    folders += [store_folder() / name for name in prepared_names() if name != run.data]
    yield from (PreparedData(folder) for folder in folders if (folder / MANIFEST).exists())


def draw(ax: Any, example: Maps, loss: str | None) -> None:
    """Draw the image, or with a loss its map over the image in grey."""
    ax.set_axis_off()
    if loss is None:
        ax.imshow(example.image)
        return
    ax.imshow(example.image.mean(axis=2), cmap="gray", vmin=0, vmax=255)
    heat = example.maps[loss]
    # The opacity follows the map, so the image stays visible where the map is low.
    ax.imshow(heat, cmap="inferno", vmin=0, vmax=1, alpha=0.65 * heat)


@FIGURES.register("gradcam")
class GradCamFigure(Figure):
    """A row for each image: the image and the map of each loss."""

    title = "Grad-CAM of the last convolutional layer"
    paper = "S6"
    needs = "stored image models"
    command = "orcu bench run gradcam, or a spec with keep_models = true and an image set"

    def make(self, sources: Sources, *, width: str = PAGE, n_examples: int = 4) -> Any:
        """Draw the first data set with models; of more than six losses the paper's four, if the user has not chosen."""
        check_at_least(1, n_examples=n_examples)
        for name in sources.datasets():
            runs = {loss: sources.runs(name, loss)[0] for loss in sources.losses(name)}
            available = {loss: run for loss, run in runs.items() if _is_image_model(run)}
            if available:
                break
        else:
            raise self.missing_input(sources)
        require("captum", extra="figures", feature="Grad-CAM")
        runs = available
        if len(available) > MOST and not sources.has_loss_filter:
            shown = [loss for loss in SHOWN if loss in available] or list(available)[:MOST]
            runs = {loss: available[loss] for loss in shown}
        sources.note_selection("gradcam", list(runs), list(available), "losses")
        sources.note_selection("gradcam", [name], sources.datasets(), "data")
        examples = data(runs, n_examples=n_examples)
        columns = len(runs) + 1
        side = (3.3 if width == COLUMN else 6.9) / max(columns, 5)
        figure, axes = grid(width, len(examples), columns, height=side, around=0.55, square=True)
        for line, example in zip(axes, examples, strict=True):
            for ax, loss in zip(line, (None, *runs), strict=True):
                draw(ax, example, loss)
                if line is axes[0]:
                    ax.set_title("image" if loss is None else wrap_name(loss_title(loss), int(13 * side)))
            # Axes that are off hide their label, so it is drawn as text.
            title = shorten(example.label, 9) if width == COLUMN else wrap_name(example.label, 18)
            line[0].text(-0.06, 0.5, title, rotation=90, transform=line[0].transAxes, ha="right", va="center")
        several_folds = len(sources.runs(name, next(iter(runs)))) > 1
        caption = data_title(name) + ("; first fold" if several_folds else "")
        add_note(
            figure,
            f"{caption}: test images that all losses predict correctly; {RULE}; labels without such an image are left "
            f"out; each map is scaled to its range",
        )
        return figure


def _is_image_model(run: RunFiles) -> bool:
    if not (run.has("model.json") and run.has("model.safetensors")):
        return False
    return bool(json.loads((run.path / "model.json").read_text())["kind"] == "images")
