"""A trained model on new cases: images, texts or rows of a table, to calibrated predictions."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from orcu import calibrators, geometry
from orcu.calibrators.pool import pooled
from orcu.decisions.conformal import CrossConformalSets
from orcu.decisions.disagreement import mutual_information
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray
from orcu.models.classifier import predict
from orcu.models.ensemble import EnsembleClassifier
from orcu.models.kinds import BATCH, Plan, model_kind, tree_columns
from orcu.predictions.predictions import Predictions
from orcu.training.ensemble_run import SETS
from orcu.training.model_file import load_members
from orcu.training.run import best_device

CALIBRATOR, CARD = "calibrator.json", "card.json"


@dataclass(frozen=True)
class Answers:
    """What a trained model says of new cases.

    Attributes:
        predictions: calibrated distributions.
        low: the lowest class of each prediction set; ``None`` for a single network, which has none.
        high: the highest.
        epistemic: what the members of an ensemble disagree about, in nats (see
            `orcu.decisions.disagreement.mutual_information`); ``None`` for a single network.
    """

    predictions: Predictions
    low: IntArray | None = None
    high: IntArray | None = None
    epistemic: FloatArray | None = None

    def to_arrow(self) -> pa.Table:
        """A row per case: id, a column per class, predicted, confidence, and what an ensemble adds."""
        probs, classes = self.predictions.probs, self.predictions.classes
        plain = Predictions(probs=probs, classes=classes, ids=self.predictions.ids)
        table = plain.to_arrow().append_column("predicted", [[classes[k] for k in probs.argmax(axis=1)]])
        columns: dict[str, Any] = {"confidence": probs.max(axis=1)}
        if self.low is not None and self.high is not None:
            columns["set_low"] = [classes[k] for k in self.low]
            columns["set_high"] = [classes[k] for k in self.high]
        if self.epistemic is not None:
            columns["epistemic"] = self.epistemic
        for name, values in columns.items():
            table = table.append_column(name, pa.array(values))
        return table


def predict_new(
    folder: str | os.PathLike[str],
    inputs: str | os.PathLike[str],
    *,
    device: str = "auto",
    skip_bad: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Predictions:
    """Predictions of a trained model for new cases, moved by its calibrator; as `answer`, without sets."""
    return _said(folder, inputs, device=device, skip_bad=skip_bad, progress=progress)[0]


def answer(
    folder: str | os.PathLike[str],
    inputs: str | os.PathLike[str],
    *,
    alpha: float = 0.1,
    device: str = "auto",
    skip_bad: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Answers:
    """What a trained model says of new cases; an ensemble also gives sets, and what its members disagree about.

    Args:
        folder: what `orcu train` has written.
        inputs: a folder of images or one image; a .csv or .parquet table; for texts a table with a
            column "text", or a .txt file with a text a line.
        alpha: the share of misses that sets aim at.
        device: "cpu", "cuda" or "mps"; "auto" takes the best there is.
        skip_bad: go on without images that cannot be decoded; ``notes`` tells which.
        progress: called with the cases done, and all.

    Raises:
        InputError: if the model or the inputs cannot be used.
    """
    predictions, members, plan = _said(folder, inputs, device=device, skip_bad=skip_bad, progress=progress)
    calibrator, path = load_calibrator(Path(folder)), Path(folder) / SETS
    if members is None:
        return Answers(predictions)
    moved = geometry.probs if calibrator is None else calibrator.predict_proba
    epistemic = mutual_information(np.stack([moved(one) for one in members]))
    if not path.exists():
        raise InputError(f"{path}: is missing; copy the whole folder that `orcu train` wrote, or train again.")
    weights = _weights(plan).reshape(-1, plan.folds)
    shape = (*weights.shape, *members.shape[1:])
    by_fold = np.einsum("lk,lknc->knc", weights * plan.folds, members.reshape(shape))
    low, high = CrossConformalSets.load(path, alpha=alpha).predict(np.stack([moved(one) for one in by_fold]))
    return Answers(predictions, low, high, epistemic)


def _said(
    folder: str | os.PathLike[str],
    inputs: str | os.PathLike[str],
    *,
    device: str,
    skip_bad: bool,
    progress: Callable[[int, int], None] | None,
) -> tuple[Predictions, FloatArray | None, Plan]:
    """Calibrated predictions, the log-probabilities of an ensemble's members (M, n, C), and the model's plan."""
    folder, inputs = Path(folder), Path(inputs)
    model, plan, trees = load_members(folder)
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

    members = None
    if isinstance(model, EnsembleClassifier):
        with torch.no_grad():
            parts = [model.eval().member_log_probs(batch).double().cpu() for (batch,) in counted()]
        members = torch.cat(parts, dim=1).numpy()
        if trees:
            assert cases.table is not None  # noqa: S101 -- trees are grown on tables
            matrix = tree_columns(plan).matrix(cases.table)
            members = np.concatenate([*(one.said(matrix) for one in trees), members])
        logits = pooled(members, _weights(plan))
    else:
        logits = predict(model, counted())[0].double().numpy()
    predictions = Predictions(logits=logits, classes=plan.classes, ids=cases.ids, notes=cases.notes)
    return (predictions if calibrator is None else predictions.calibrated(calibrator)), members, plan


def _weights(plan: Plan) -> FloatArray:
    """Of every member of an ensemble, trees first."""
    return np.array([tree["weight"] / plan.folds for tree in plan.trees for _ in range(plan.folds)] + plan.weights)


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
