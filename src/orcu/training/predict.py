"""A trained model on new cases: images, texts or rows of a table, to calibrated predictions."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from orcu import calibrators
from orcu.errors import InputError
from orcu.models.classifier import predict
from orcu.models.kinds import BATCH, model_kind
from orcu.predictions.predictions import Predictions
from orcu.training.model_file import load_model
from orcu.training.run import best_device

CALIBRATOR, CARD = "calibrator.json", "card.json"


def predict_new(
    folder: str | os.PathLike[str],
    inputs: str | os.PathLike[str],
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
    folder, inputs = Path(folder), Path(inputs)
    model, plan = load_model(folder)
    calibrator = load_calibrator(folder)
    device = best_device() if device == "auto" else device
    model.to(device)
    if not inputs.exists():
        raise InputError(f"{inputs}: there is no such file or folder.")
    cases = model_kind(plan.kind).new_cases(plan, inputs, model.backbone, device=device, skip_bad=skip_bad)

    def counted() -> Iterator[tuple[Any]]:
        for number, batch in enumerate(cases.batches):
            yield (batch,)
            if progress is not None:
                progress(min(len(cases.ids), (number + 1) * BATCH), len(cases.ids))

    logits, _ = predict(model, counted())
    predictions = Predictions(logits=logits.double().numpy(), classes=plan.classes, ids=cases.ids, notes=cases.notes)
    return predictions if calibrator is None else predictions.calibrated(calibrator)


def load_calibrator(folder: Path) -> calibrators.Calibrator | None:
    """The calibrator of a trained model; ``None`` for a model that was trained without.

    Raises:
        InputError: if the model's card names one that is not there, or it cannot be read.
    """
    path, card = folder / CALIBRATOR, folder / CARD
    if path.exists():
        return calibrators.load(path)
    if card.exists():
        raise InputError(
            f"{path}: is missing, but the model was judged with its calibrator; its probabilities would be others. "
            "Copy the whole folder that `orcu train` wrote, or train again."
        )
    return None
