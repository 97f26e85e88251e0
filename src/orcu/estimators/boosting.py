"""`OrdinalBoosting`: boosted trees for tables, cross-fitted, calibrated, unimodal."""

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from orcu.boosting.columns import TreeColumns
from orcu.boosting.objective import objective
from orcu.boosting.trees import LIBRARIES, LOSSES, SCALE, Growth, grow
from orcu.calibrators.pool import pool
from orcu.errors import InputError, require
from orcu.estimators.base import OrdinalEstimator
from orcu.inputs import FloatArray, as_count, as_fraction, as_positive
from orcu.model_selection import deal


class OrdinalBoosting(OrdinalEstimator):
    """Boosted trees (LightGBM, XGBoost) by ordinal objectives: cross-fitted, weighed, calibrated, unimodal.

    The rows are dealt into five folds. For each fold and loss trees are grown on the others, as large and as long as
    the RPS of a part of them asks for; what they say of their own fold's rows weighs the losses and fits one
    calibrator. A prediction averages the log-probabilities of all of them, then calibrates. The boosters are the
    library's own (``boosters_``); their raw scores start at ``starts_``, which a later ``predict`` of a booster does
    not hold.

    Args:
        loss: names or tables, as for `orcu.boosting.objective`; or a single one. "ce" is LightGBM's ``multiclass``.
        library: "lightgbm" or "xgboost".
        folds: how many.
        scale: s of ORCU: a number, or "auto": the paper's 3, since the calibrator does what another scale would.
        calibrator: a name or a chain; "auto" chooses one; ``None`` for none.
        rounds: trees of each class, at most.
        learning_rate: of a round.
        leaves: of a tree, at most; ``None``: 7 or 31, whichever the rows that stop them prefer.
        patience: rounds without a lower RPS before trees stop growing.
        validation_fraction: share of the rows that stops them; afterwards trees are grown on these rows too.
        params: further parameters of the library, such as ``{"monotone_constraints": [1, 0, -1]}``.
        class_weight: ``None``, "balanced", or a dictionary from class to weight.
        decide: how ``predict`` decides, as for `orcu.decide`.
        metric: of ``score``: "accuracy" or "qwk".
        classes: labels from lowest to highest. Needed for strings; numbers and ordered pandas categories carry their
            order.
        random_state: a seed, or numpy's ``RandomState``.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(600, 3))
        >>> y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=600), [-1, 0, 1])
        >>> model = OrdinalBoosting(rounds=30, random_state=0).fit(X, y)
        >>> probs = model.predict_proba(X)
        >>> from orcu import metrics
        >>> probs.shape, metrics.unimodality(probs)
        ((600, 4), 1.0)
    """

    def __init__(
        self,
        loss: Any = LOSSES,
        *,
        library: str = "lightgbm",
        folds: int = 5,
        scale: float | str = "auto",
        calibrator: Any = "auto",
        rounds: int = 1000,
        learning_rate: float = 0.1,
        leaves: int | None = None,
        patience: int = 30,
        validation_fraction: float = 0.1,
        params: Mapping[str, Any] | None = None,
        class_weight: Any = None,
        decide: Any = "argmax",
        metric: str = "accuracy",
        classes: Sequence[Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.library = library
        self.folds = folds
        self.scale = scale
        self.calibrator = calibrator
        self.rounds = rounds
        self.learning_rate = learning_rate
        self.leaves = leaves
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.params = params
        self.class_weight = class_weight
        self.decide = decide
        self.metric = metric
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Grow, weigh, calibrate.

        Args:
            X: an array of numbers (gaps as NaN), or a frame of numbers and categories.
            y: labels.
            sample_weight: one weight per row.
            groups: of each row, such as its subject; the rows of a group stay in one fold.

        Raises:
            InputError: if the order of the classes is not known, a label is none of them, or an option cannot be used.
        """
        self._check_options()
        package = LIBRARIES[self.library].package
        require(package, extra="boosting" if package == "lightgbm" else None, what="OrdinalBoosting")
        return self._become(copy.copy(self)._fit(X, y, sample_weight, groups))

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Self:
        table, codes, weight, self.classes_, groups = self._read(X, y, sample_weight, groups=groups)
        seed = int(check_random_state(self.random_state).randint(2**31))
        self.columns_ = TreeColumns.fit(table)
        matrix = self.columns_.matrix(table)
        folds = self._used_folds(len(codes), fewest=2)
        dealt = deal(codes, folds, stop=self.validation_fraction, groups=groups, seed=seed)
        counted = self._counted(codes, weight)
        fitted = [
            grow(
                self._objective(spec, self._scale()),
                matrix,
                self.columns_,
                codes,
                dealt,
                self._growth(),
                name=self._name(spec),
                weight=counted,
                seed=seed,
            )
            for spec in self._specs()
        ]
        self.pool_ = pool(fitted, dealt, codes, weight)
        self._pooled_labels = codes
        self.weights_ = self.pool_.weights
        self.boosters_ = {one.name: one.boosters for one in self.pool_.kept}
        self.starts_ = {one.name: one.start for one in self.pool_.kept}
        self.n_iter_ = max(one.rounds for one in self.pool_.kept)
        self.calibrator_ = self._fitted_calibrator(self.pool_.logits, codes, weight, groups)
        return self

    def _said(self, X: Any) -> FloatArray:
        check_is_fitted(self, self.fitted_by)
        assert self.pool_ is not None  # noqa: S101
        table = self._checked(X, reset=False)
        matrix = self.columns_.matrix(table)
        for note in self.columns_.unseen(table):
            warnings.warn(f"X: {note}.", UserWarning, stacklevel=4)
        return np.stack([one.said(matrix) for one in self.pool_.kept])

    def predict_sets(self, X: Any, alpha: float = 0.1) -> npt.NDArray[Any]:
        """The lowest and the highest class of each row's set, shape (n, 2); see `CrossConformalSets`.

        Raises:
            InputError: if rows are too few for this alpha.
        """
        check_is_fitted(self, self.fitted_by)
        return self._cross_conformal(X, as_fraction(alpha, name="alpha"))

    @property
    def feature_importances_(self) -> FloatArray:
        """The share of each column in the gain of all splits, weighed as the losses are; shape (D,)."""
        check_is_fitted(self, self.fitted_by)
        assert self.pool_ is not None  # noqa: S101
        gains = np.stack([one.gains(len(self.columns_.names)) for one in self.pool_.kept])
        total = np.array([self.weights_[one.name] for one in self.pool_.kept]) @ gains
        return np.asarray(total / max(float(total.sum()), 1e-300))

    def _scale(self) -> Any:
        return SCALE if self.scale == "auto" else self.scale

    def _growth(self) -> Growth:
        return Growth(
            self.library, self.rounds, self.learning_rate, self.leaves, self.patience, dict(self.params or {})
        )

    def _check_options(self) -> None:
        as_count(self.folds, name="folds", minimum=2)
        as_positive(self._scale(), name="scale")
        self._growth()
        specs = self._specs()
        if not specs:
            raise InputError("loss: name at least one.")
        for spec in specs:
            if not isinstance(spec, (str, Mapping)):
                raise InputError(f"loss: expected a name or a table, got {spec!r}.")
            table = {"name": spec} if isinstance(spec, str) else {key: spec[key] for key in spec if key != "label"}
            try:
                objective(table, num_classes=3)
            except InputError as error:
                raise InputError(f"loss: {error}") from None
        self._check_shared_options()
