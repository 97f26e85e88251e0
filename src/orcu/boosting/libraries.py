"""The base learners of the boosting libraries, LightGBM and XGBoost."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from orcu.boosting.adapters import lightgbm_metric, lightgbm_objective, xgboost_metric, xgboost_objective
from orcu.boosting.learner import BoostingConfig, BoostingLearner, EnsembleSize
from orcu.boosting.model_text import check_xgboost, checked_lightgbm
from orcu.ensemble.learner import NO_DEADLINE, Deadline, TrainingData
from orcu.inputs import FloatArray
from orcu.preprocessing import float32_codes, table_codes
from orcu.raters.votes import grades
from orcu.threads import cores

# Largest step of a logit by one leaf, before the learning rate. The Hessian of a rare class is close to zero, and
# without this bound a single leaf moves logits by thousands, in LightGBM's own multiclass as well.
MAX_DELTA_STEP = 0.7
MAX_TREE_COLUMNS = 400  # a tree sees a random part of the columns of wider tables, such as features of images
SMALL_TABLE = 200_000  # values; on smaller tables several threads are not faster than one


class LightGBMLearner(BoostingLearner):
    """LightGBM: leaf-wise growth, native categorical splits."""

    suffix = "txt"

    def stop_early(  # noqa: D102
        self, train: TrainingData, stopping: TrainingData, num_leaves: int, deadline: Deadline = NO_DEADLINE
    ) -> tuple[Any, int, float]:
        import lightgbm as lgb

        params = self._params(train, num_leaves)
        dataset = self._dataset(train, params)
        booster = lgb.train(
            params | self._objective(dataset, train),
            dataset,
            num_boost_round=self.config.n_estimators,
            valid_sets=[self._dataset(stopping, params, dataset)],
            feval=lightgbm_metric("rps", num_classes=train.num_classes, votes=_votes(stopping)),
            callbacks=[
                lgb.early_stopping(self.config.early_stopping_rounds, verbose=False),
                _lightgbm_stop_at(deadline),
            ],
        )
        return booster, booster.best_iteration, float(booster.best_score["valid_0"]["rps"])

    def train(self, data: TrainingData, size: EnsembleSize, deadline: Deadline = NO_DEADLINE) -> Any:  # noqa: D102
        import lightgbm as lgb

        params = self._params(data, size.num_leaves)
        dataset = self._dataset(data, params)
        booster = lgb.train(
            params | self._objective(dataset, data),
            dataset,
            num_boost_round=size.n_estimators,
            callbacks=[_lightgbm_stop_at(deadline)],
        )
        booster.best_iteration = booster.current_iteration()
        return booster

    def _objective(self, dataset: Any, data: TrainingData) -> dict[str, Any]:
        """LightGBM's own objective for the cross-entropy of labels, and where no column can be split.

        LightGBM refuses custom objectives without a column to split. The trees are then empty under every objective,
        and the initial score alone predicts.
        """
        assert self.objective is not None  # noqa: S101
        dataset.construct()
        can_split = any(dataset.feature_num_bin(column) > 1 for column in range(dataset.num_feature()))
        votes = _votes(data)
        if (self.objective.name == "ce" and votes is None) or not can_split:
            return {"objective": "multiclass"}
        return {"objective": lightgbm_objective(self.objective, num_classes=data.num_classes, votes=votes)}

    def _dataset(self, data: TrainingData, params: dict[str, Any], reference: Any = None) -> Any:
        import lightgbm as lgb

        return lgb.Dataset(
            table_codes(data.inputs),
            grades(data.y),
            weight=data.sample_weight,
            init_score=np.tile(self.init_score, (len(data.y), 1)),
            categorical_feature=list(self.categorical) or "auto",
            reference=reference,
            params={"objective": "multiclass"} | params,  # LightGBM checks the number of classes here too
        )

    def _params(self, data: TrainingData, num_leaves: int) -> dict[str, Any]:
        return {
            "num_class": data.num_classes,
            "learning_rate": self.config.learning_rate,
            "num_leaves": num_leaves,
            "min_data_in_leaf": max(1, min(10, len(data.y) // 20)),
            # LightGBM's defaults suit categories with a hundred rows and more.
            "min_data_per_group": 10,
            "cat_smooth": 1.0,
            "cat_l2": 1.0,
            "max_delta_step": MAX_DELTA_STEP,
            "feature_fraction": min(1.0, MAX_TREE_COLUMNS / table_codes(data.inputs).shape[1]),
            "metric": "None",
            "seed": self.seed,
            "deterministic": True,
            "force_col_wise": True,
            "num_threads": self.n_threads,
            "verbosity": -1,
            **self.config.params,
        }

    def predict_raw(self, booster: Any, codes: FloatArray) -> FloatArray:  # noqa: D102
        threads = 1 if codes.size < SMALL_TABLE else cores()
        scores = booster.predict(
            codes, raw_score=True, num_iteration=booster.best_iteration, num_threads=threads, validate_features=False
        )
        return np.asarray(scores, dtype=np.float64)

    def n_iter(self, model: Any) -> int:  # noqa: D102
        return int(model.best_iteration)

    def shape(self, booster: Any) -> tuple[int, int]:  # noqa: D102
        return booster.num_feature(), booster.num_model_per_iteration()

    def total_gains(self, booster: Any, n_columns: int) -> FloatArray:  # noqa: D102
        return np.asarray(booster.feature_importance("gain"), dtype=np.float64)

    def to_text(self, booster: Any) -> str:  # noqa: D102
        return str(booster.model_to_string(num_iteration=booster.best_iteration))

    def from_text(self, text: str) -> Any:  # noqa: D102
        import lightgbm as lgb

        booster = lgb.Booster(model_str=checked_lightgbm(text))
        booster.best_iteration = booster.current_iteration()
        return booster


def _votes(data: TrainingData) -> FloatArray | None:
    """Votes that objective and metric take in place of the labels of the library's data set."""
    return data.y if data.y.ndim == 2 else None


def _lightgbm_stop_at(deadline: Deadline) -> Callable[[Any], None]:
    """A callback that ends the training at the deadline, with the best round so far."""
    from lightgbm.callback import EarlyStopException

    best_round = 0
    best_scores: list[Any] = []

    def callback(env: Any) -> None:
        nonlocal best_round, best_scores
        scores = env.evaluation_result_list or []
        if not best_scores or (scores and scores[0][2] < best_scores[0][2]):
            best_round, best_scores = env.iteration, scores
        if deadline.is_over():
            raise EarlyStopException(best_round if scores else env.iteration, best_scores)

    return callback


class XGBoostLearner(BoostingLearner):
    """XGBoost: histograms with leaf-wise growth."""

    suffix = "json"

    def stop_early(  # noqa: D102
        self, train: TrainingData, stopping: TrainingData, num_leaves: int, deadline: Deadline = NO_DEADLINE
    ) -> tuple[Any, int, float]:
        import xgboost as xgb

        booster = self.train(
            train,
            EnsembleSize(num_leaves, self.config.n_estimators),
            deadline,
            evals=[(self._dmatrix(stopping), "stop")],
            custom_metric=xgboost_metric("rps", num_classes=train.num_classes, votes=_votes(stopping)),
            verbose_eval=False,
            callbacks=[xgb.callback.EarlyStopping(rounds=self.config.early_stopping_rounds)],
        )
        rounds = booster.best_iteration + 1
        return booster[:rounds], rounds, float(booster.best_score)

    def train(  # noqa: D102
        self,
        data: TrainingData,
        size: EnsembleSize,
        deadline: Deadline = NO_DEADLINE,
        *,
        callbacks: Sequence[Any] = (),
        **early_stopping: Any,
    ) -> Any:
        import xgboost as xgb

        class StopAtDeadline(xgb.callback.TrainingCallback):
            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                return deadline.is_over()

        assert self.objective is not None  # noqa: S101
        params = {
            "num_class": data.num_classes,
            "base_score": 0.0,  # the initial score is each row's base margin
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_depth": 0,
            "max_leaves": size.num_leaves,
            "max_delta_step": MAX_DELTA_STEP,
            "learning_rate": self.config.learning_rate,
            "colsample_bytree": min(1.0, MAX_TREE_COLUMNS / table_codes(data.inputs).shape[1]),
            "disable_default_eval_metric": True,
            "seed": self.seed,
            "nthread": self.n_threads,
            "verbosity": 0,
            **self.config.params,
        }
        objective = xgboost_objective(self.objective, num_classes=data.num_classes, votes=_votes(data))
        dmatrix = self._dmatrix(data)
        return xgb.train(
            params,
            dmatrix,
            num_boost_round=size.n_estimators,
            obj=objective,
            callbacks=[*callbacks, StopAtDeadline()],  # after early stopping, which has to see every round
            **early_stopping,
        )

    def _dmatrix(self, data: TrainingData) -> Any:
        import xgboost as xgb

        codes = float32_codes(table_codes(data.inputs))  # XGBoost refuses numbers that float32 does not hold
        return xgb.DMatrix(
            codes,
            label=grades(data.y),
            weight=data.sample_weight,
            base_margin=np.tile(self.init_score, (len(data.y), 1)),
            feature_types=["c" if column in self.categorical else "float" for column in range(codes.shape[1])],
            enable_categorical=True,
            nthread=self.n_threads,
        )

    def predict_raw(self, booster: Any, codes: FloatArray) -> FloatArray:  # noqa: D102
        import xgboost as xgb

        data = xgb.DMatrix(float32_codes(codes), feature_types=booster.feature_types, enable_categorical=True)
        return np.asarray(booster.predict(data, output_margin=True), dtype=np.float64)

    def n_iter(self, model: Any) -> int:  # noqa: D102
        return int(model.num_boosted_rounds())

    def shape(self, booster: Any) -> tuple[int, int]:  # noqa: D102
        learner = json.loads(booster.save_config())["learner"]
        return booster.num_features(), int(learner["learner_model_param"]["num_class"])

    def total_gains(self, booster: Any, n_columns: int) -> FloatArray:  # noqa: D102
        total = np.zeros(n_columns)
        for feature, gain in booster.get_score(importance_type="total_gain").items():
            total[int(feature.removeprefix("f"))] = gain
        return total

    def to_text(self, booster: Any) -> str:  # noqa: D102
        return str(booster.save_raw("json").decode("utf-8"))

    def from_text(self, text: str) -> Any:  # noqa: D102
        import xgboost as xgb

        check_xgboost(text)
        booster = xgb.Booster()
        booster.load_model(bytearray(text, "utf-8"))
        return booster


def boosting_learner(name: str, config: BoostingConfig, **options: Any) -> BoostingLearner:
    """The learner of the config's library; options as for `BoostingLearner`."""
    learner = LightGBMLearner if config.library == "lightgbm" else XGBoostLearner
    return learner(name, config=config, **options)
