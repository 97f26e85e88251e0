"""Predictions of a trained model for new images, texts or rows of a table."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from orcu import calibrators, geometry
from orcu.decisions.conformal import CrossConformalSets
from orcu.decisions.disagreement import mutual_information
from orcu.ensemble.pool import log_pool
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray
from orcu.io.extending import write_extended
from orcu.io.reading import PARQUET, open_table
from orcu.io.writing import write_table
from orcu.models.classifier import predict_batches
from orcu.models.ensemble import EnsembleClassifier
from orcu.models.kinds import PREDICT_BATCH, model_kind
from orcu.predictions import Predictions
from orcu.training.model_file import AGAIN, CALIBRATOR, SETS, load_members
from orcu.training.run import best_device

CARD = "card.json"
TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", *PARQUET)  # a .txt file has a text per line


@dataclass(frozen=True)
class PredictResult:
    """Predictions of a trained model.

    Attributes:
        predictions: calibrated probabilities.
        low: lowest class of each prediction set; ``None`` for a single network without sets.json.
        high: highest class of each prediction set.
        epistemic: disagreement of the members of an ensemble, in nats (see
            `orcu.decisions.disagreement.mutual_information`); ``None`` for a single network.
    """

    predictions: Predictions
    low: IntArray | None = None
    high: IntArray | None = None
    epistemic: FloatArray | None = None

    def to_arrow(self) -> pa.Table:
        """A table with id, class probabilities, decision, confidence, set, and for an ensemble epistemic."""
        table = self._probabilities()
        for name, values in self._columns().items():
            table = table.append_column(name, pa.array(values))
        return table

    def write(
        self, path: str | os.PathLike[str], inputs: str | os.PathLike[str], *, escape_formulas: bool = False
    ) -> None:
        """Write the results; those of a table with all rows and columns of the table.

        The new columns are prob_CLASS, decision, confidence, set_low, set_high and, for an ensemble, epistemic.

        Args:
            path: file to write (.csv, .csv.gz or .parquet).
            inputs: the file or folder that was predicted.
            escape_formulas: whether to put a ' before texts in CSV that a spreadsheet would run as formulas.

        Raises:
            InputError: if the table has a column of such a name, or the file cannot be written.
        """
        if not Path(inputs).name.lower().endswith(TABLES):
            write_table(self.to_arrow(), path, escape_formulas=escape_formulas)
            return
        file, probs = open_table(inputs), self._probabilities()
        metadata = json.loads(probs.schema.metadata[b"orcu"])
        values = {name: probs.column(name) for name in probs.column_names if name != "id"}
        metadata["columns"] = {"probs": list(values)} | ({"id": "id"} if "id" in file.names else {})
        add = {name: column.to_numpy() for name, column in values.items()} | self._columns()
        write_extended([file], path, add=add, metadata={"orcu": json.dumps(metadata)}, escape_formulas=escape_formulas)

    def _probabilities(self) -> pa.Table:
        predictions = self.predictions
        return Predictions(probs=predictions.probs, classes=predictions.classes, ids=predictions.ids).to_arrow()

    def _columns(self) -> dict[str, Any]:
        probs, classes = self.predictions.probs, self.predictions.classes
        decision = [classes[k] for k in probs.argmax(axis=1)]
        columns: dict[str, Any] = {"decision": decision, "confidence": probs.max(axis=1)}
        if self.low is not None and self.high is not None:
            columns["set_low"] = [classes[k] for k in self.low]
            columns["set_high"] = [classes[k] for k in self.high]
        if self.epistemic is not None:
            columns["epistemic"] = self.epistemic
        return columns


def predict(
    folder: str | os.PathLike[str],
    inputs: str | os.PathLike[str],
    *,
    alpha: float = 0.1,
    device: str = "auto",
    skip_bad: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> PredictResult:
    """Predict new inputs with a trained model and its calibrator, and their prediction sets.

    Args:
        folder: folder that `orcu train` has written.
        inputs: folder of images or one image; .csv or .parquet table; for texts a table with a column "text", or a
            .txt file with one text per line.
        alpha: target miscoverage of the prediction sets.
        device: "cpu", "cuda" or "mps"; "auto" for the best available.
        skip_bad: whether to skip images that cannot be decoded; ``predictions.notes`` names them.
        progress: called with the number of finished rows and of all rows.

    Raises:
        InputError: if the model or the inputs cannot be used.
    """
    folder, inputs = Path(folder), Path(inputs)
    model, config, others = load_members(folder)
    calibrator = load_calibrator(folder)
    device = best_device() if device == "auto" else device
    model.to(device)
    if not inputs.exists():
        raise InputError(f"{inputs}: file or folder not found.")
    new = model_kind(config.kind).read_inputs(config, inputs, model.backbone, device, skip_bad)

    def batches() -> Iterator[tuple[Any]]:
        for number, batch in enumerate(new.batches, 1):
            yield (batch,)
            if progress is not None:
                progress(min(new.total, number * PREDICT_BATCH), new.total)

    def result(logits: FloatArray, **ensemble: Any) -> PredictResult:
        predictions = Predictions(logits=logits, classes=config.classes, ids=new.ids, notes=new.notes)
        return PredictResult(predictions if calibrator is None else predictions.calibrated(calibrator), **ensemble)

    if not isinstance(model, EnsembleClassifier):
        logits = predict_batches(model, batches())[0].double().numpy()
        return _with_split_sets(result(logits), logits, folder, alpha)
    if not (folder / SETS).exists():
        raise InputError(f"{folder / SETS}: file not found. {AGAIN}")
    with torch.no_grad():
        parts = [model.eval().member_log_probs(batch).double().cpu() for (batch,) in batches()]
    members = torch.cat(parts, dim=1).numpy()
    if others:
        assert new.encoded is not None  # noqa: S101 -- only tables have members that are not networks
        members = np.concatenate([*(member.predict_log_proba(new.encoded) for member in others), members])
    other_weights = [member["weight"] / config.folds for member in config.estimators for _ in range(config.folds)]
    weights = np.array(other_weights + config.weights)
    by_loss = weights.reshape(-1, config.folds) * config.folds
    by_fold = np.einsum("lk,lknc->knc", by_loss, members.reshape(*by_loss.shape, *members.shape[1:]))
    to_probs = geometry.probs if calibrator is None else calibrator.predict_proba
    sets = CrossConformalSets.load(folder / SETS, alpha=alpha)
    low, high = sets.predict(np.stack([to_probs(logits) for logits in by_fold]))
    epistemic = mutual_information(np.stack([to_probs(logits) for logits in members]))
    return result(log_pool(members, weights), low=low, high=high, epistemic=epistemic)


def _with_split_sets(result: PredictResult, logits: FloatArray, folder: Path, alpha: float) -> PredictResult:
    """Add the split-conformal sets of a single network, which are computed before the calibrator.

    The calibrator may change the most probable class. A set is extended to it, which can only raise the coverage.
    """
    if not (folder / SETS).exists():  # too few validation rows, or a model of version 0.2
        return result
    low, high = CrossConformalSets.load(folder / SETS, alpha=alpha).predict(geometry.probs(logits)[None])
    predicted = result.predictions.probs.argmax(axis=1)
    return replace(result, low=np.minimum(low, predicted), high=np.maximum(high, predicted))


def load_calibrator(folder: Path) -> calibrators.Calibrator | None:
    """The calibrator of a trained model; ``None`` if the model was trained without one."""
    path = folder / CALIBRATOR
    if path.exists():
        return calibrators.load(path)
    if (folder / CARD).exists():
        raise InputError(
            f"{path}: file not found, but the model was evaluated with its calibrator, which changes the "
            f"probabilities. {AGAIN}"
        )
    return None
