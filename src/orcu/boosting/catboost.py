"""CatBoost as a base learner of an ensemble."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from orcu import geometry
from orcu.ensemble.learner import NO_DEADLINE, Deadline, FoldLearner, TrainingData
from orcu.errors import InputError, first_line, import_problem
from orcu.inputs import FloatArray
from orcu.model_selection import Fold
from orcu.preprocessing import Inputs, table_codes
from orcu.threads import cores

N_ESTIMATORS, EARLY_STOPPING_ROUNDS = 1000, 50
_NUM_CLASSES = "num_classes"  # in the model's metadata: its own classes are those of the training rows


class _StopAtDeadline:
    """Callback of CatBoost that ends the training at the deadline."""

    def __init__(self, deadline: Deadline) -> None:
        self.deadline = deadline

    def after_iteration(self, info: Any) -> bool:
        return not self.deadline.is_over()


@dataclass(frozen=True)
class CatBoostLearner(FoldLearner):
    """CatBoost's ``MultiClass`` with its default settings, stopped by the log loss of the early-stopping rows.

    Args:
        categorical: indices of the categorical columns.
        seed: seed of the library.
        name: name in the ensemble's weights.
    """

    subfolder: ClassVar[str] = "catboost"
    suffix = "cbm"
    categorical: tuple[int, ...] = ()
    seed: int = 0
    name: str = "catboost"

    def fit(self, data: TrainingData, fold: Fold, deadline: Deadline = NO_DEADLINE) -> Any:
        """Train the model of a fold."""
        from catboost import CatBoostClassifier

        train, stopping = data[fold.train].with_labels(), data[fold.early_stopping].with_labels()
        stopping = stopping[np.flatnonzero(np.isin(stopping.y, np.unique(train.y)))]
        model = CatBoostClassifier(
            iterations=N_ESTIMATORS,
            loss_function="MultiClass",
            early_stopping_rounds=EARLY_STOPPING_ROUNDS if len(stopping.y) else None,
            random_seed=self.seed % 2**31,
            thread_count=cores(),
            allow_writing_files=False,
            verbose=False,
        )
        pools = [self._pool(part.inputs, part) for part in (train, stopping)]
        callbacks = [_StopAtDeadline(deadline)]
        model.fit(pools[0], eval_set=pools[1] if len(stopping.y) else None, callbacks=callbacks)
        model.get_metadata()[_NUM_CLASSES] = str(data.num_classes)
        return model

    def _pool(self, inputs: Inputs, data: TrainingData | None = None) -> Any:
        from catboost import Pool

        codes = table_codes(inputs)
        columns: npt.NDArray[Any] = codes
        if self.categorical:
            columns = codes.astype(object)
            for column in self.categorical:
                columns[:, column] = codes[:, column].astype(str)
        if data is None:
            return Pool(columns, cat_features=list(self.categorical))
        return Pool(columns, data.y, cat_features=list(self.categorical), weight=data.sample_weight)

    def n_iter(self, model: Any) -> int:
        """Number of boosting rounds."""
        return int(model.tree_count_)

    def predict_log_proba(self, model: Any, inputs: Inputs) -> FloatArray:
        """Log-probabilities of rows, (n, C)."""
        scores = np.asarray(model.predict(self._pool(inputs), prediction_type="RawFormulaVal"), dtype=np.float64)
        # A class without training rows is less probable than every other class of the row.
        logits = np.tile(scores.min(axis=1, keepdims=True) - 1.0, int(model.get_metadata()[_NUM_CLASSES]))
        logits[:, np.asarray(model.classes_, dtype=np.int64)] = scores
        log_probs: FloatArray = geometry.log_probs(logits)
        return log_probs

    def shape(self, model: Any) -> tuple[int, int]:
        """Number of columns and of classes."""
        return len(model.feature_names_), int(model.get_metadata()[_NUM_CLASSES])

    def save(self, model: Any, path: Path) -> None:
        """Write the model in CatBoost's binary format."""
        model.save_model(str(path), format="cbm")

    def load(self, path: Path) -> Any:
        """Read a model; `InputError` if the file is missing or damaged, or CatBoost is not installed."""
        problem = import_problem("catboost")
        if problem:
            raise InputError(f"{path}: needs catboost, which {problem}: pip install catboost.")
        from catboost import CatBoostClassifier

        try:
            return CatBoostClassifier().load_model(str(path), format="cbm")
        except Exception as error:  # CatBoost's own exception type
            raise InputError(f"{path}: cannot be read ({first_line(error)}); train the model again.") from None
