"""A trained model on new cases: images, texts or rows of a table, to calibrated predictions."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from orcu import calibrators
from orcu.data.base import DATASETS, IMAGES, TEXTS, Dataset
from orcu.data.images import SUFFIXES, BadImageError, check_image, read_image, resized
from orcu.data.transforms import normalized
from orcu.errors import InputError
from orcu.models.classifier import predict
from orcu.models.tabular import TableEncoder
from orcu.models.text import TextEncoder
from orcu.predictions.predictions import Predictions
from orcu.tables.reading import read_table
from orcu.training.model_file import Plan, load_model
from orcu.training.run import best_device

BATCH = 64
CALIBRATOR = "calibrator.json"


def predict_new(
    folder: Path,
    inputs: Path,
    *,
    device: str = "auto",
    skip_bad: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Predictions:
    """Predictions of a trained model for new cases, moved by its calibrator.

    Args:
        folder: what `orcu train` has written.
        inputs: a folder of images or one image; a .csv or .parquet table; for texts a table with a
            column "text", or a .txt file with a text a line.
        device: "cpu", "cuda" or "mps"; "auto" takes the best there is.
        skip_bad: go on without images that cannot be decoded; ``notes`` tells which.
        progress: called with the cases done, and all.

    Raises:
        InputError: if the model or the inputs cannot be used.
    """
    model, plan = load_model(folder)
    device = best_device() if device == "auto" else device
    model.to(device)
    ids, batches, notes = _cases(plan, inputs, model.backbone, device, skip_bad)

    def counted() -> Iterator[tuple[Any, Any]]:
        for number, batch in enumerate(batches):
            yield batch, None
            if progress is not None:
                progress(min(len(ids), (number + 1) * BATCH), len(ids))

    logits, _ = predict(model, counted())
    told = Predictions(logits=logits.double().numpy(), classes=plan.classes, ids=ids)
    told.notes += notes
    path = folder / CALIBRATOR
    return told.calibrated(calibrators.load(path)) if path.exists() else told


Cases = tuple[list[str], Iterator[Any], list[str]]  # ids, batches, notes


def _cases(plan: Plan, inputs: Path, backbone: Any, device: str, skip_bad: bool) -> Cases:
    if not inputs.exists():
        raise InputError(f"{inputs}: there is no such file or folder.")
    if plan.kind == IMAGES:
        return _images(plan, inputs, device, skip_bad)
    if inputs.is_dir():
        raise InputError(f"{inputs}: is a folder; this model takes {'texts' if plan.kind == TEXTS else 'a table'}.")
    if plan.kind == TEXTS:
        return _texts(inputs, backbone, device)
    table = read_table(inputs)
    if table.num_rows == 0:
        raise InputError(f"{inputs}: has no rows.")
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    encoder = TableEncoder.from_dict(plan.columns)
    matrix = torch.from_numpy(encoder.encode(columns))
    batches = (matrix[i : i + BATCH].to(device) for i in range(0, len(matrix), BATCH))
    return _ids(columns, len(matrix)), batches, encoder.unseen(columns)


def _images(plan: Plan, inputs: Path, device: str, skip_bad: bool) -> Cases:
    root = inputs if inputs.is_dir() else inputs.parent
    files = sorted(root.rglob("*")) if inputs.is_dir() else [inputs]
    paths = [file.relative_to(root).as_posix() for file in files if file.suffix.lower() in SUFFIXES]
    if not paths:
        raise InputError(f"{inputs}: there are no images in it; this model takes images.")
    bad = {}
    for path in paths:
        try:
            check_image(root, path)
        except BadImageError as error:
            bad[path] = str(error)
    if bad and (not skip_bad or len(bad) == len(paths)):
        raise InputError(
            f"{len(bad):,} of {len(paths):,} images: {next(iter(bad.values()))}. --skip-bad goes on without."
        )
    paths = [path for path in paths if path not in bad]
    kind: type[Dataset] = DATASETS.get(plan.dataset)
    mean, std = (torch.tensor(values, dtype=torch.float32, device=device) for values in (plan.mean, plan.std))

    def batches() -> Iterator[Tensor]:
        for first in range(0, len(paths), BATCH):
            pixels = [
                resized(kind.preprocess(read_image(root, path)), plan.size) for path in paths[first : first + BATCH]
            ]
            images = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).contiguous().float()
            yield normalized(images.to(device), mean, std)

    return paths, batches(), [f"left out: {why}" for why in bad.values()]


def _texts(inputs: Path, backbone: Any, device: str) -> Cases:
    encoder: TextEncoder = backbone if isinstance(backbone, TextEncoder) else backbone.body
    if inputs.suffix.lower() == ".txt":
        written = enumerate(inputs.read_text(encoding="utf-8").splitlines(), 1)
        told = [(str(number), line) for number, line in written if line.strip()]  # ids are line numbers
        ids, texts = [number for number, _ in told], [line for _, line in told]
    else:
        table = read_table(inputs)
        if "text" not in table.column_names:
            raise InputError(f"{inputs}: has no column 'text'.")
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
        texts, ids = [str(text) for text in columns["text"]], _ids(columns, table.num_rows)
    if not texts:
        raise InputError(f"{inputs}: there are no texts in it.")
    tokens = encoder.tokenize(texts)
    batches = (encoder.batch(tokens[i : i + BATCH]).to(device) for i in range(0, len(tokens), BATCH))
    return ids, batches, []


def _ids(columns: dict[str, list[Any]], rows: int) -> list[str]:
    named = columns.get("id")
    return [str(number) for number in range(1, rows + 1)] if named is None else [str(one) for one in named]
