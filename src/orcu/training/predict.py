"""Predictions of a trained model for new images, texts or rows of a table."""

import copy
import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from orcu import calibrators, geometry
from orcu.data.base import TABLE
from orcu.decisions.conformal import CrossConformalSets
from orcu.decisions.disagreement import mutual_information
from orcu.ensemble.ensemble import calibrated_probs
from orcu.ensemble.learner import CrossFitted
from orcu.ensemble.pool import log_pool
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray, as_fraction
from orcu.io.extending import write_extended
from orcu.io.frames import columns_from_frame, is_frame
from orcu.io.reading import PARQUET, open_table
from orcu.io.writing import write_table
from orcu.models.classifier import Classifier, predict_batches
from orcu.models.ensemble import EnsembleClassifier
from orcu.models.kinds import PREDICT_BATCH, ModelConfig, model_kind
from orcu.predictions import Predictions
from orcu.preprocessing import Inputs, TableEncoder
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
    by_fold = _fold_logits(members, config)
    sets = CrossConformalSets.load(folder / SETS, alpha=alpha)
    low, high = sets.predict(np.stack([calibrated_probs(calibrator, logits) for logits in by_fold]))
    epistemic = mutual_information(np.stack([calibrated_probs(calibrator, logits) for logits in members]))
    return result(log_pool(members, _member_weights(config)), low=low, high=high, epistemic=epistemic)


def _member_weights(config: ModelConfig) -> FloatArray:
    """Weight of the log-probabilities of each model of an ensemble, (M K,): other members first, then networks."""
    others = [member["weight"] / config.folds for member in config.estimators for _ in range(config.folds)]
    return np.array(others + config.weights)


def _fold_logits(members: FloatArray, config: ModelConfig) -> FloatArray:
    """Logits of the ensemble's models of each fold, (K, n, C), from log-probabilities (M K, n, C)."""
    by_loss = _member_weights(config).reshape(-1, config.folds) * config.folds
    logits: FloatArray = np.einsum("lk,lknc->knc", by_loss, members.reshape(*by_loss.shape, *members.shape[1:]))
    return logits


def _with_split_sets(result: PredictResult, logits: FloatArray, folder: Path, alpha: float) -> PredictResult:
    """Add the split-conformal sets of a single network."""
    if not (folder / SETS).exists():  # too few validation rows, or a model of version 0.2
        return result
    low, high = _split_sets(CrossConformalSets.load(folder / SETS, alpha=alpha), logits, result.predictions.probs)
    return replace(result, low=low, high=high)


def _split_sets(sets: CrossConformalSets, logits: FloatArray, probs: FloatArray) -> tuple[IntArray, IntArray]:
    """Split-conformal sets, which are computed before the calibrator.

    The calibrator may change the most probable class. A set is extended to it, which can only raise the coverage.
    """
    low, high = sets.predict(geometry.probs(logits)[None])
    predicted = probs.argmax(axis=1)
    return np.minimum(low, predicted), np.maximum(high, predicted)


@dataclass(frozen=True)
class TableModel:
    """A trained model of tables in memory, for a service that predicts rows as they come.

    Attributes:
        network: the networks.
        config: classes, columns and weights.
        others: members that are not networks.
        encoder: encoder of the columns.
        calibrator: fitted calibrator, or ``None``.
        sets: fitted prediction sets, or ``None`` for a single network without sets.json.
    """

    network: Classifier | EnsembleClassifier
    config: ModelConfig
    others: Sequence[CrossFitted]
    encoder: TableEncoder
    calibrator: calibrators.Calibrator | None
    sets: CrossConformalSets | None

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "TableModel":
        """Read the folder of a table that ``orcu train`` has written.

        Raises:
            InputError: if the folder is not that of a table, or a file is missing or was changed.
        """
        folder = Path(folder)
        network, config, others = load_members(folder)
        if config.kind != TABLE:
            raise InputError(f"{folder}: is a model of {config.kind}, expected a model of a table.")
        sets = CrossConformalSets.load(folder / SETS) if (folder / SETS).exists() else None
        encoder = TableEncoder.from_dict(config.columns)
        return cls(network.eval(), config, others, encoder, load_calibrator(folder), sets)

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names from lowest to highest."""
        return tuple(self.config.classes)

    def encode(self, table: Any) -> Inputs:
        """Rows of a frame, or of a dictionary from column names to values, for `predict_logits`.

        Raises:
            InputError: if a column is missing or has another type, or the columns are of unequal length.
        """
        columns = columns_from_frame(table) if is_frame(table) else dict(table)
        lengths = {len(columns[column.name]) for column in self.encoder.columns if column.name in columns}
        if lengths == {0} or len(lengths) > 1:
            raise InputError(f"table: expected columns of one length of at least 1, got {sorted(lengths)}.")
        inputs = self.encoder.encode(columns)
        for note in self.encoder.unseen(columns):
            warnings.warn(f"table: {note}.", UserWarning, stacklevel=3)
        return inputs

    def predict_logits(self, inputs: Inputs) -> FloatArray:
        """Logits before the calibrator, (n, C)."""
        if not isinstance(self.network, EnsembleClassifier):
            return predict_batches(self.network, [(torch.from_numpy(inputs.features),)])[0].double().numpy()
        return log_pool(self._member_log_probs(inputs), _member_weights(self.config))

    def predict_proba(self, table: Any) -> FloatArray:
        """Calibrated probabilities of rows, given as for `encode`; columns in the order of the classes, (n, C)."""
        return calibrated_probs(self.calibrator, self.predict_logits(self.encode(table)))

    def predict_sets(self, table: Any, alpha: float = 0.1) -> tuple[IntArray, IntArray]:
        """The lowest and the highest class number of each row's prediction set, each (n,).

        Raises:
            InputError: if the model has no sets, or too few rows for this alpha.
        """
        if self.sets is None:
            raise InputError("the model has no prediction sets: too few rows were left for them.")
        sets, inputs = copy.copy(self.sets), self.encode(table)
        sets.alpha = as_fraction(alpha, name="alpha")
        if not isinstance(self.network, EnsembleClassifier):
            logits = self.predict_logits(inputs)
            return _split_sets(sets, logits, calibrated_probs(self.calibrator, logits))
        by_fold = _fold_logits(self._member_log_probs(inputs), self.config)
        return sets.predict(np.stack([calibrated_probs(self.calibrator, logits) for logits in by_fold]))

    def _member_log_probs(self, inputs: Inputs) -> FloatArray:
        """Log-probabilities by each model of an ensemble, (M K, n, C), in the order of `_member_weights`."""
        assert isinstance(self.network, EnsembleClassifier)  # noqa: S101
        with torch.inference_mode():
            networks = self.network.member_log_probs(torch.from_numpy(inputs.features)).double().numpy()
        return np.concatenate([*(member.predict_log_proba(inputs) for member in self.others), networks])


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
