"""`OrdinalBoosting`: boosted trees for tables, cross-fitted, calibrated, unimodal."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from orcu.boosting.learner import LIBRARIES, BoostingConfig, BoostingLearner
from orcu.boosting.objective import objective
from orcu.ensemble.ensemble import fit_ensemble
from orcu.ensemble.learner import TrainingData
from orcu.errors import InputError, require
from orcu.estimators.base import OrdinalEstimator
from orcu.estimators.parameters import COMMON_CHECKS, count, fold_count, name_or, one_of, optional, valid_if
from orcu.inputs import FloatArray
from orcu.preprocessing import Inputs, TableEncoder


class OrdinalBoosting(OrdinalEstimator):
    """Boosted trees (LightGBM or XGBoost) with ordinal objectives: cross-fitted, pooled, calibrated, unimodal.

    For each fold and loss, trees are trained on the other folds, with the number of leaves and rounds that the RPS of
    early-stopping rows selects. Their out-of-fold predictions weight the losses and fit one calibrator. A prediction
    averages the log-probabilities of all boosters, then calibrates. The boosters are the library's own
    (``boosters_``); add ``init_scores_`` to their raw scores, which do not contain it.

    Args:
        loss: a name or table, as for `orcu.boosting.objective`, or several. "ce" is LightGBM's ``multiclass``. Trees of
            other losses take five times as long, because their gradients are computed in Python.
        library: "lightgbm" or "xgboost".
        cv: number of folds, or a scikit-learn splitter whose test folds partition the rows. "auto" is 5, and from
            20,000 rows on one held-out part of 10,000 rows at most, which costs a fifth.
        scale: s of ORCU: a number, or "auto" for the paper's 3; the calibrator makes other scales unnecessary.
        calibrator: name of a calibrator or chain; "auto" chooses one; ``None`` for none.
        n_estimators: maximum number of boosting rounds; each round adds a tree per class.
        learning_rate: shrinkage of a round.
        num_leaves: maximum number of leaves of a tree; ``None`` chooses 7 or 31 by the early-stopping rows.
        early_stopping_rounds: rounds without a lower RPS before boosting stops.
        validation_fraction: share of the rows for early stopping; afterwards the trees are trained on them too.
        params: further parameters of the library, such as ``{"monotone_constraints": [1, 0, -1]}``.
        class_weight: ``None``, "balanced", or a dictionary from class to weight.
        rule: decision rule of ``predict``, as for `orcu.decide`: "argmax", "median", "mean" or a cost matrix.
        scoring: metric of ``score``: "accuracy" or "qwk".
        classes: labels from lowest to highest. Needed for strings; numbers and ordered pandas categories have an
            order.
        random_state: seed, or numpy's ``RandomState``.
        n_jobs: number of threads of ``fit``; ``None`` or -1 for all CPUs of this process (``OMP_NUM_THREADS`` limits
            ``None``). Folds, trees, networks and BLAS share them. Estimators of other packages have their own option.
        verbose: 0 prints one line if the fit is expected to take more than a minute; 1 a line at least every 5 seconds
            of work and for each base learner; 2 every step (fold or epoch); -1 nothing. The lines go to stderr.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(600, 3))
        >>> y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=600), [-1, 0, 1])
        >>> model = OrdinalBoosting(n_estimators=30, random_state=0).fit(X, y)
        >>> probs = model.predict_proba(X)
        >>> from orcu import metrics
        >>> probs.shape, metrics.unimodality(probs)
        ((600, 4), 1.0)
    """

    _parameter_checks = COMMON_CHECKS | {
        "library": one_of("boosting library", LIBRARIES),
        "cv": name_or("auto", fold_count(2)),
        "n_estimators": count(1),
        "num_leaves": optional(count(2)),
        "early_stopping_rounds": count(1),
        "params": optional(
            valid_if(
                lambda params: (
                    isinstance(params, Mapping)
                    and all(isinstance(name, str) and name not in ("objective", "num_class") for name in params)
                ),
                "a dictionary from names of the library's parameters, other than objective and num_class, to values",
            )
        ),
    }

    def __init__(
        self,
        loss: Any = "ce",
        *,
        library: str = "lightgbm",
        cv: Any = "auto",
        scale: float | str = "auto",
        calibrator: Any = "auto",
        n_estimators: int = 1000,
        learning_rate: float = 0.1,
        num_leaves: int | None = None,
        early_stopping_rounds: int = 30,
        validation_fraction: float = 0.1,
        params: Mapping[str, Any] | None = None,
        class_weight: Any = None,
        rule: Any = "argmax",
        scoring: str = "accuracy",
        classes: Sequence[Any] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.library = library
        self.cv = cv
        self.scale = scale
        self.calibrator = calibrator
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.early_stopping_rounds = early_stopping_rounds
        self.validation_fraction = validation_fraction
        self.params = params
        self.class_weight = class_weight
        self.rule = rule
        self.scoring = scoring
        self.classes = classes
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Self:
        training = self._validate_training(X, y, sample_weight, groups=groups)
        table, y, self.classes_ = training.table, training.y, training.classes
        groups = self._group_copies(table, y, training.groups)
        seed = int(check_random_state(self.random_state).randint(2**31))
        self.encoder_ = TableEncoder.fit(table)
        n_folds = self._n_folds(len(y), min_folds=2)
        folds = self._folds(y, n_folds, groups, seed)
        targets, training_weight = self._apply_class_weight(y, training.weight)
        ensemble = fit_ensemble(
            [self._boosting_learner(loss, self._loss_name(loss), self._config(), seed) for loss in self._loss_list()],
            TrainingData(self._inputs(table), targets, len(self.classes_), training_weight),
            folds,
            calibrator=self.calibrator,
            sample_weight=training_weight,
            groups=groups,
            progress=self._progress(),
        )
        self._set_ensemble(ensemble)
        self.boosters_ = {member.name: member.models for member in ensemble.members}
        self.init_scores_ = {name: learner.init_score for name, learner in self._learners().items()}
        self.n_iter_ = max(member.n_iter for member in ensemble.members)
        return self

    def _inputs(self, table: Any, X: Any = None) -> Inputs:
        return self.encoder_.encode(table, features=False)

    def _learners(self) -> dict[str, BoostingLearner]:
        assert self.ensemble_ is not None  # noqa: S101
        learners = {member.name: member.learner for member in self.ensemble_.members}
        return {name: learner for name, learner in learners.items() if isinstance(learner, BoostingLearner)}

    @property
    def feature_importances_(self) -> FloatArray:
        """Share of each column in the gain of all splits, weighted by the losses' weights; shape (D,)."""
        check_is_fitted(self, "weights_")
        n_columns = len(self.encoder_.columns)
        gains = {name: learner.gains(self.boosters_[name], n_columns) for name, learner in self._learners().items()}
        total = np.array([self.weights_[name] for name in gains]) @ np.stack(list(gains.values()))
        return np.asarray(total / max(float(total.sum()), 1e-300))

    def _config(self) -> BoostingConfig:
        return BoostingConfig(
            self.library,
            self.n_estimators,
            self.learning_rate,
            self.num_leaves,
            self.early_stopping_rounds,
            dict(self.params or {}),
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for loss in self._loss_list():
            try:
                objective(self._loss_table(loss), num_classes=3)
            except InputError as error:
                raise InputError(f"loss: {error}") from None
        require(self.library, extra="boosting" if self.library == "lightgbm" else None, feature="OrdinalBoosting")
