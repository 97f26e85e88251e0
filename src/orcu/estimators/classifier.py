"""`OrdinalClassifier`: a scikit-learn classifier whose probabilities are unimodal and calibrated."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from orcu import calibrators, geometry
from orcu.boosting.objective import objective
from orcu.boosting.table_learners import table_learners
from orcu.decisions.conformal import OrdinalPredictionSets, check_target
from orcu.defaults import EPOCHS, EPOCHS_ROWS, HIDDEN_LAYER_SIZES, MIN_EPOCHS, NETWORK_LOSSES
from orcu.ensemble.ensemble import calibrated_probs, fit_calibrator, fit_ensemble
from orcu.ensemble.estimator import EstimatorLearner
from orcu.ensemble.forest import FORESTS
from orcu.ensemble.kinds import KINDS, NETWORK, PRESETS, Preset, check_kinds, default_kinds
from orcu.ensemble.learner import BaseLearner, TrainingData
from orcu.errors import InputError, require
from orcu.estimators.base import OrdinalEstimator
from orcu.estimators.diagnosis import Diagnosis, HeldOutRows, compare_with_baseline
from orcu.estimators.parameters import (
    COMMON_CHECKS,
    count,
    fold_count,
    is_number,
    name_or,
    one_of,
    optional,
    positive,
    share,
    valid_if,
)
from orcu.inputs import FloatArray, IntArray, as_fraction
from orcu.model_selection import Fold, first_rows, take_rows, train_calibration_split
from orcu.predictions.labels import canonical_label
from orcu.preprocessing import Inputs, TableEncoder
from orcu.raters.votes import Targets, grades

if TYPE_CHECKING:
    from orcu.training.config import TrainConfig

MIN_DIAGNOSIS_ROWS = 80
SETS = ("cv+", "split")
MEMBER_NAMES = (
    *KINDS,
    *FORESTS,
    *NETWORK_LOSSES,
    *(f"{loss} trees" for preset in PRESETS.values() for loss in preset.boosting_losses),
)


@dataclass(frozen=True)
class _TrainingRecord:
    """What `OrdinalClassifier.diagnose` needs of the last fit."""

    data: TrainingData
    folds: list[Fold]  # empty for a single network
    splits: dict[str, IntArray]  # of a single network
    y: Targets  # without class weights
    sample_weight: FloatArray | None  # without class weights
    groups: npt.NDArray[Any] | None


class OrdinalClassifier(OrdinalEstimator):
    """An ensemble of linear models, forests, networks and boosted trees: cross-fitted, calibrated, unimodal.

    For each of five folds every base learner is trained on the other folds. Their out-of-fold predictions weight them
    and fit one calibrator, so every row is used for training and for calibration, but never both for the same model.
    A prediction averages the log-probabilities of all members, then calibrates. Copies of rows stay in one fold
    (see `orcu.model_selection.copy_groups`).

    With ``cv=1`` there is one network (with ORCU's loss, if several losses are given), and the rows are split: most
    train, ``validation_fraction`` are for early stopping and choosing the scale, ``calibration_fraction`` fit the
    calibrator, and as many again the prediction sets.

    Args:
        loss: losses of the networks: names or tables, as for `orcu.losses.create`; or a single one.
        estimators: base learners, in a list: names and (name, estimator) pairs, as in scikit-learn's
            ``StackingClassifier``. The names are "linear" (proportional odds), "forest" (extremely randomised trees and
            a random forest), "network" (perceptrons of ``loss``), "boosting" (LightGBM) and "catboost". The estimator
            of a pair is any classifier with ``predict_proba``; it gets the rows as they are passed to ``fit``. "auto"
            takes those of ``presets``; of these only networks and boosting for tables of more than 100 columns.
        presets: "fast" (linear, forest and a network), "default" (networks of three losses and boosting in addition)
            or "best" (boosted trees of ORCU, and CatBoost where it is installed, in addition).
        cv: number of folds, or a scikit-learn splitter whose test folds partition the rows; 1 for a single network.
            "auto" is 5, and from 20,000 rows on one held-out part of 10,000 rows at most, which costs a fifth. A
            splitter with one split, such as ``ShuffleSplit(1)``, holds out its test rows.
        scale: s of ORCU: a number, or "auto". In an ensemble "auto" is the paper's 3, because the calibrator makes
            other scales unnecessary; for a single ORCU network it is chosen on the validation rows (see
            `orcu.suggest_scale`).
        calibrator: name of a calibrator or a chain such as "gap+projection"; "auto" chooses one (see
            `orcu.calibrators.AutoCalibration`); ``None`` for none.
        sets: conformal method of `predict_sets`: "cv+" uses the out-of-fold predictions; "split" holds out
            ``calibration_fraction`` of the rows for the sets alone, which gives a stronger guarantee and leaves fewer
            training rows. ``cv=1`` always uses "split".
        time_limit: seconds for the training of the base learners; ``None`` for no limit. Learners end with the
            rounds, epochs or trees that they have by then; estimators of other packages are not interrupted.
        hidden_layer_sizes: number of units of each hidden layer of the perceptrons.
        head: head of the perceptrons, such as "cumulative", a name in `orcu.models.heads.HEADS`; ``None`` for the head
            of each loss. Other base learners have no head. Perceptrons without a linear head are trained one by one.
        module: ``nn.Module`` from a float32 tensor of rows to logits (n, C), in place of the perceptron.
        epochs: maximum number of passes over the training rows; "auto" is 50 for up to 15,000 training rows, and fewer
            for more, down to 10.
        batch_size: rows per step.
        learning_rate: initial learning rate, with cosine decay.
        weight_decay: weight decay of AdamW.
        patience: epochs without a lower validation RPS before training stops; ``None`` for all epochs.
        validation_fraction: share of the rows for early stopping and choosing s; 0 for none.
        calibration_fraction: share of the rows for the calibrator, and as much again for the sets; 0 for neither. An
            ensemble uses it only with ``sets="split"``.
        class_weight: ``None``, "balanced", or a dictionary from class to weight.
        rule: decision rule of ``predict``, as for `orcu.decide`: "argmax", "median", "mean" or a cost matrix.
        scoring: metric of ``score``: "accuracy" or "qwk".
        classes: labels from lowest to highest. Needed for strings; numbers and ordered pandas categories have an
            order.
        warm_start: continue from the weights of the last fit; needs ``cv=1``.
        random_state: seed, or numpy's ``RandomState``.
        n_jobs: number of threads of ``fit``; ``None`` or -1 for all CPUs of this process (``OMP_NUM_THREADS`` limits
            ``None``). Folds, trees, networks and BLAS share them. Estimators of other packages have their own option.
        verbose: 0 prints one line if the fit is expected to take more than a minute; 1 a line at least every 5 seconds
            of work and for each base learner; 2 every step (fold or epoch); -1 nothing. The lines go to stderr.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(400, 3))
        >>> y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=400), [-1, 0, 1])
        >>> model = OrdinalClassifier(hidden_layer_sizes=(16,), epochs=10, random_state=0).fit(X, y)
        >>> probs = model.predict_proba(X)
        >>> from orcu import metrics
        >>> probs.shape, metrics.unimodality(probs)
        ((400, 4), 1.0)
    """

    _parameter_checks = COMMON_CHECKS | {
        "epochs": name_or("auto", count(1)),
        "batch_size": count(2),
        "weight_decay": valid_if(lambda decay: is_number(decay) and 0 <= decay < np.inf, "a finite number >= 0"),
        "patience": optional(count(0)),
        "hidden_layer_sizes": valid_if(
            lambda sizes: (
                np.iterable(sizes) and all(isinstance(size, (int, np.integer)) and size > 0 for size in sizes)
            ),
            "the number of units of each layer such as (128, 128)",
        ),
        "module": valid_if(
            lambda module: module is None or (hasattr(module, "state_dict") and not isinstance(module, type)),
            "an nn.Module",
        ),
        "cv": name_or("auto", fold_count(1)),
        "presets": one_of("preset", PRESETS),
        "sets": one_of("conformal method of sets", SETS),
        "time_limit": optional(positive),
        "calibration_fraction": share,
        "warm_start": valid_if(lambda warm: isinstance(warm, (bool, np.bool_)), "True or False"),
    }
    model_: Any  # nn.Module; not set for an ensemble with trees
    scale_: float | str | None
    scale_choice_: Any  # from `orcu.training.choose_scale`, where the scale was chosen
    n_iter_: int
    _set_rows: tuple[FloatArray, Targets] | None  # logits, and labels or votes, of the rows held out for sets
    _split_sets: dict[tuple[float, str], OrdinalPredictionSets]  # fitted sets by alpha and target
    _training_rows: "_TrainingRecord | None"

    def __init__(
        self,
        loss: Any = NETWORK_LOSSES,
        *,
        estimators: Any = "auto",
        presets: str = "default",
        cv: Any = "auto",
        scale: float | str = "auto",
        calibrator: Any = "auto",
        sets: str = "cv+",
        time_limit: float | None = None,
        hidden_layer_sizes: Sequence[int] = HIDDEN_LAYER_SIZES,
        head: str | None = None,
        module: Any = None,
        epochs: int | str = "auto",
        batch_size: int = 128,
        learning_rate: float = 3e-3,
        weight_decay: float = 1e-4,
        patience: int | None = 10,
        validation_fraction: float = 0.1,
        calibration_fraction: float = 0.1,
        class_weight: Any = None,
        rule: Any = "argmax",
        scoring: str = "accuracy",
        classes: Sequence[Any] | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.estimators = estimators
        self.presets = presets
        self.cv = cv
        self.scale = scale
        self.calibrator = calibrator
        self.sets = sets
        self.time_limit = time_limit
        self.hidden_layer_sizes = hidden_layer_sizes
        self.head = head
        self.module = module
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.calibration_fraction = calibration_fraction
        self.class_weight = class_weight
        self.rule = rule
        self.scoring = scoring
        self.classes = classes
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Self:
        training = self._validate_training(X, y, sample_weight, groups=groups)
        table, targets, weight, classes = training.table, training.y, training.weight, training.classes
        n_folds = self._n_folds(len(targets), min_folds=1)
        self._seed = int(check_random_state(self.random_state).randint(2**31))
        self._partial_fits, self._split_sets = 0, {}
        groups = self._group_copies(table, targets, training.groups)
        if n_folds == 1:
            return self._fit_single(table, targets, weight, classes, groups)
        if sample_weight is not None:  # rows of weight 0 are left out of the table too
            X = take_rows(X, training.rows)
        return self._fit_ensemble(table, X, targets, weight, classes, groups, n_folds)

    def _fit_ensemble(
        self,
        table: Any,
        X: Any,
        targets: Targets,
        weight: FloatArray | None,
        classes: npt.NDArray[Any],
        groups: npt.NDArray[Any] | None,
        n_folds: Any,
    ) -> Self:
        from orcu.training.networks import as_module, network_members

        if self.warm_start:
            raise InputError("warm_start: needs a single network; set cv=1, or warm_start=False.")
        self.classes_ = classes
        set_rows = np.zeros(0, np.int64)
        if self.sets == "split":
            order = np.random.default_rng(self._seed).permutation(len(targets))
            set_rows = np.sort(first_rows(order, self.calibration_fraction * len(targets), groups))
        rows = np.setdiff1d(np.arange(len(targets)), set_rows)
        self._fit_encoder(table, rows)
        inputs = self._inputs(table, X)
        y, groups = targets[rows], None if groups is None else groups[rows]
        weight = None if weight is None else weight[rows]
        folds = self._folds(y, n_folds, groups, self._seed)
        training_y, training_weight = self._apply_class_weight(y, weight)
        data = TrainingData(inputs[rows], training_y, len(classes), training_weight)
        ensemble = fit_ensemble(
            self._learners(table, folds),
            data,
            folds,
            calibrator=self.calibrator,
            sample_weight=data.sample_weight,  # with class weights, which a calibrator without them would undo
            groups=groups,
            time_limit=self.time_limit,
            progress=self._progress(),
        )
        self._set_ensemble(ensemble)
        networks = network_members(ensemble)
        if len(networks) == len(ensemble.members):
            self.model_ = as_module(ensemble)
        has_orcu = any(self._is_orcu(loss) for loss in self._loss_list())
        self.scale_, self.scale_choice_ = self._default_scale() if has_orcu else None, None
        self.n_iter_ = max((member.n_iter for member in networks or ensemble.members), default=0)
        self._set_rows = None
        if len(set_rows):
            self._set_rows = ensemble.predict_logits(inputs[set_rows]), targets[set_rows]
        self._training_rows = _TrainingRecord(data, folds, {}, y, weight, groups)
        return self

    def _learners(self, table: Any, folds: Sequence[Fold]) -> list[BaseLearner]:
        """The base learners, in the order of ``estimators`` or of the preset."""
        preset, entries = PRESETS[self.presets], self._estimator_list()
        if entries is None and self.module is not None:
            entries = [NETWORK]
        elif entries is None:
            entries = list(
                default_kinds(preset, len(table), without_boosting="estimators=['linear', 'forest', 'network']")
            )
        objectives = {
            loss: objective(self._loss_table(loss), num_classes=len(self.classes_)) for loss in preset.boosting_losses
        }
        learners: list[BaseLearner] = []
        for entry in entries:
            if not isinstance(entry, str):
                learners.append(EstimatorLearner(*entry))
            elif entry == NETWORK:
                learners += self._network_learners(folds, preset)
            else:
                categorical = self.encoder_.categorical
                learners += table_learners(entry, objectives=objectives, categorical=categorical, seed=self._seed)
        return learners

    def _estimator_list(self) -> list[Any] | None:
        """Names and (name, estimator) pairs; ``None`` for "auto"."""
        if isinstance(self.estimators, str):
            return None if self.estimators == "auto" else [self.estimators]
        return [self.estimators] if _is_pair(self.estimators) else list(self.estimators)

    def _network_learners(self, folds: Sequence[Fold], preset: Preset) -> list[BaseLearner]:
        """Perceptrons of batchable losses as one learner, other networks one learner each."""
        from orcu.training.networks import ModuleLearner, PerceptronLearner, is_batchable

        rows = max(len(fold.train) for fold in folds)
        config = self._train_config(rows, early_stopping=all(len(fold.early_stopping) for fold in folds))
        sizes = tuple(self.hidden_layer_sizes)
        loss_list = preset.network_losses if self.loss == NETWORK_LOSSES else self._loss_list()
        losses = {self._loss_name(loss): loss for loss in loss_list}
        criteria = {name: self._create_loss(loss, reduction="sum") for name, loss in losses.items()}
        is_linear = self.module is None and self.head in (None, "linear")
        batched = [name for name in criteria if is_linear and is_batchable(criteria[name])]
        # With a time limit one loss after the other, so that some are complete when it is reached.
        parts = [[name] for name in batched] if self.time_limit is not None else [batched] if batched else []
        learners: list[BaseLearner] = [
            PerceptronLearner({name: criteria[name] for name in part}, config, sizes, self._seed) for part in parts
        ]
        return learners + [
            ModuleLearner(name, self._create_loss(loss), config, self.module, sizes, self._seed, self.head or "")
            for name, loss in losses.items()
            if name not in batched
        ]

    def _fit_single(
        self,
        table: Any,
        targets: Targets,
        weight: FloatArray | None,
        classes: npt.NDArray[Any],
        groups: npt.NDArray[Any] | None,
    ) -> Self:
        """Fit one network, on rows split into train, validation, calibration and sets."""
        from orcu.training.networks import predict_logits

        warm = self.warm_start and hasattr(self, "model_")
        if warm:
            self._check_same_network(classes)
        self.classes_ = classes
        splits = train_calibration_split(
            grades(targets),
            validation=self.validation_fraction,
            calibration=self.calibration_fraction,
            groups=groups,
            random_state=self._seed,
        )
        if not warm:
            self._fit_encoder(table, splits["train"])
        data = TrainingData(self._inputs(table), targets, len(classes), weight)
        self._train(data, splits, copy.deepcopy(self.model_.state_dict()) if warm else None)
        self.weights_, self.ensemble_ = {self._loss_name(self._single_loss()): 1.0}, None
        part, sets = data[splits["calibration"]], data[splits["sets"]]
        logits = predict_logits(self.model_, part.inputs.features) if len(part.y) else np.zeros((0, len(classes)))
        part_y, weight = self._apply_class_weight(part.y, part.sample_weight) if len(part.y) else (part.y, None)
        self.calibrator_ = fit_calibrator(self.calibrator, logits, part_y, sample_weight=weight)
        self._set_rows = (predict_logits(self.model_, sets.inputs.features), sets.y) if len(sets.y) else None
        self._training_rows = _TrainingRecord(data, [], splits, data.y, data.sample_weight, groups)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train the single network for one pass over some rows.

        No rows are held out, so probabilities are made unimodal but not calibrated. To calibrate, fit a calibrator on
        the ``predict_logits`` of other rows.

        Args:
            X: rows.
            y: labels, or votes of several raters, shape (n, C).
            classes: all labels from lowest to highest; needed in the first call unless given to the constructor.
            sample_weight: weight of each row, scaled to mean one; a common factor changes nothing. Rows of weight 0
                are left out, and their labels stay in ``classes_``.
        """
        self._check_parameters()
        return self._adopt(copy.copy(self)._partial_fit(X, y, classes, sample_weight))

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Self:
        from orcu.training.networks import train_network

        if getattr(self, "ensemble_", None) is not None:
            raise InputError("partial_fit: needs a single network; fit with cv=1 first, or use an unfitted model.")
        first = not hasattr(self, "model_")
        model_classes = self.classes if first else self.classes_
        if classes is not None and model_classes is not None and list(classes) != list(model_classes):
            raise InputError(
                f"classes: the model has {', '.join(map(str, model_classes))}, in this order; got "
                f"{', '.join(map(str, classes))}."
            )
        model_classes = classes if model_classes is None else model_classes
        training = self._validate_training(X, y, sample_weight, classes=model_classes, reset=first)
        table, y, self.classes_ = training.table, training.y, training.classes
        if first:
            self._seed = int(check_random_state(self.random_state).randint(2**31))
            self._fit_encoder(table, np.arange(len(y)))
            self.model_ = self._network(self._inputs(table), self._seed)
            self.scale_ = self._default_scale()
            self._partial_fits = 0
        else:
            self.model_ = copy.deepcopy(self.model_)
        self.weights_, self.ensemble_ = {self._loss_name(self._single_loss()): 1.0}, None
        # Rows that a fit has held out may be trained on now, and the network changes.
        self.calibrator_, self._set_rows, self._training_rows = calibrators.UnimodalProjection(), None, None
        self._partial_fits, self._split_sets = self._partial_fits + 1, {}
        # The last pass is not known in advance, so the learning rate is constant.
        config = self._train_config(1, early_stopping=False).replace(epochs=1, scheduler="constant")
        data = TrainingData(self._inputs(table), y, len(self.classes_), training.weight)
        criterion = self._single_criterion(self.scale_, y)
        train_network(self.model_, criterion, data, data[np.arange(0)], config, seed=self._seed + self._partial_fits)
        return self

    def _inputs(self, table: Any, X: Any = None) -> Inputs:
        if self.module is not None:
            return Inputs(None, np.asarray(table, dtype=np.float32))
        inputs = self.encoder_.encode(table)
        pairs = [entry for entry in self._estimator_list() or [] if not isinstance(entry, str)]
        return replace(inputs, rows=X if hasattr(X, "iloc") else np.asarray(X)) if pairs else inputs

    def _member_log_probs(self, X: Any) -> FloatArray:
        if getattr(self, "ensemble_", None) is not None:
            return super()._member_log_probs(X)
        from orcu.training.networks import predict_logits

        inputs = self._encode(X)
        return predict_logits(self.model_, inputs.features)[None, None]

    def __getattr__(self, name: str) -> Any:
        if name == "model_" and self.__dict__.get("ensemble_") is not None:
            raise AttributeError(
                "model_: this ensemble contains members that are not an nn.Module, such as trees; fit with "
                "estimators='network' to get one."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def predict_sets(self, X: Any, alpha: float = 0.1, *, target: str = "vote") -> npt.NDArray[Any]:
        """The lowest and the highest class of each row's prediction set, shape (n, 2).

        With ``sets="split"`` the true class is inside with probability 1 - alpha or more; with "cv+" about as often,
        and with a guarantee of about 1 - 2 alpha (see `orcu.decisions.conformal.CrossConformalSets`). A model fitted
        on votes covers the vote of a new rater, or with ``target="majority"`` the grade with the most votes.

        Raises:
            InputError: if there are too few rows for this alpha, or the target is unknown.
        """
        check_is_fitted(self, "weights_")
        alpha = as_fraction(alpha, name="alpha")
        if self.sets == "cv+" and self.ensemble_ is not None:
            return super().predict_sets(X, alpha, target=target)
        check_target(target)
        probs = self.predict_proba(X)
        if (alpha, target) not in self._split_sets:
            logits, y = self._set_rows or (np.zeros((0, 2)), np.zeros(0, np.int64))
            if not alpha or len(y) < 1 / alpha - 1:
                raise InputError(
                    f"alpha: {len(y)} rows were held out for sets, too few for {alpha}; fit on more rows, raise "
                    "calibration_fraction, or use a larger alpha."
                )
            sets = OrdinalPredictionSets(alpha=alpha, target=target)
            self._split_sets[alpha, target] = sets.fit(calibrated_probs(self.calibrator_, logits), y)
        low, high = self._split_sets[alpha, target].predict(probs)
        return np.stack([self.classes_[low], self.classes_[high]], axis=1)

    def diagnose(self) -> Diagnosis:
        """Compare with plain cross-entropy and temperature scaling on rows that neither was trained on.

        The baseline is a single network trained on the same rows with the same early stopping. For an ensemble both
        are compared out of fold, on all rows. Both calibrators are cross-fitted on the compared rows. The metrics use
        the sample weights of ``fit``. Its groups, and copies of rows, stay together in the cross-fitting, and the
        intervals resample them.

        Raises:
            InputError: if the model was fitted without held-out rows, or these are of one group.
        """
        check_is_fitted(self, "weights_")
        from orcu.training.networks import predict_logits

        if self._training_rows is None:
            raise InputError(
                "diagnose: the training rows are not available; they are not saved with the model, and partial_fit "
                "holds none out. Call diagnose on the fitted model itself, after fit."
            )
        record = self._training_rows
        data, folds, splits, groups = record.data, record.folds, record.splits, record.groups
        calibrator = "none" if self.calibrator_ is None else self.calibrator
        if self.ensemble_ is not None:
            held_out_rows = self.ensemble_.rows
            if len(held_out_rows) < MIN_DIAGNOSIS_ROWS:
                raise InputError(
                    f"diagnose: {len(held_out_rows)} rows are out of fold; at least {MIN_DIAGNOSIS_ROWS} are needed."
                )
            baseline = next((member for member in self.ensemble_.members if member.name == "ce"), None)
            if baseline is None:
                plain = copy.copy(self).set_params(loss="ce", head=None, time_limit=None)
                (learner,) = plain._network_learners(folds, PRESETS[self.presets])
                (baseline,) = learner.cross_fit(data, folds)
            rows = data[held_out_rows]
            held_out = HeldOutRows(
                record.y[held_out_rows],
                None if record.sample_weight is None else record.sample_weight[held_out_rows],
                rows.y,
                rows.sample_weight,
                None if groups is None else groups[held_out_rows],
            )
            return compare_with_baseline(
                self.ensemble_.logits, baseline.log_probs[held_out_rows], held_out, calibrator, name="the ensemble"
            )
        numbers = np.concatenate([splits["calibration"], splits["sets"]])
        rows = data[numbers]
        if len(rows.y) < MIN_DIAGNOSIS_ROWS:
            raise InputError(
                f"diagnose: {len(rows.y)} rows were held out; at least {MIN_DIAGNOSIS_ROWS} are needed. Fit on more "
                "rows, or raise calibration_fraction."
            )
        plain = copy.copy(self).set_params(loss="ce", head=None, calibrator=None, warm_start=False)
        plain._train(data, splits, None)
        ours, theirs = (predict_logits(model.model_, rows.inputs.features) for model in (self, plain))
        held_out = HeldOutRows(
            rows.y,
            rows.sample_weight,
            *self._apply_class_weight(rows.y, rows.sample_weight),
            None if groups is None else groups[numbers],
        )
        return compare_with_baseline(ours, theirs, held_out, calibrator, name=self._loss_name(self._single_loss()))

    # --- parameters ---

    def _check_parameters(self) -> None:
        require("torch", extra="train", feature="OrdinalClassifier")
        super()._check_parameters()
        self._check_estimators()
        self._check_head()

    def _check_estimators(self) -> None:
        if self.estimators is None or not (isinstance(self.estimators, str) or np.iterable(self.estimators)):
            raise InputError(
                f"estimators: expected 'auto', or a list of names and (name, estimator); got {self.estimators!r}."
            )
        entries = self._estimator_list()
        if entries is None:
            return
        pairs = [entry for entry in entries if not isinstance(entry, str)]
        for pair in pairs:
            _check_pair(pair)
        kinds = [entry for entry in entries if isinstance(entry, str)]
        if kinds or not pairs:
            check_kinds(kinds)
        names = [entry if isinstance(entry, str) else entry[0] for entry in entries]
        duplicate = next((name for index, name in enumerate(names) if name in names[:index]), None)
        if duplicate is not None:
            raise InputError(f"estimators: duplicate estimator {duplicate!r}; give each one a name of its own.")
        if self.cv == 1 and names != [NETWORK]:
            raise InputError("estimators: cv=1 fits a single network; use cv=5, or estimators='network'.")
        if self.module is not None and names != [NETWORK]:
            raise InputError("estimators: module= is a network for any rows; use estimators='network' with it.")
        if NETWORK not in kinds and self.loss != NETWORK_LOSSES:
            raise InputError("loss: sets the loss of networks, and estimators has none; use OrdinalBoosting(loss=...).")

    def _check_head(self) -> None:
        """Check that the head exists, that every loss takes its output, and that there is a perceptron that has it."""
        if self.head is None:
            return
        from orcu import losses
        from orcu.models.heads import check_head

        for loss in self._loss_list():
            check_head(self.head, losses.create(self._loss_table(loss), num_classes=3), self._loss_name(loss))
        if self.module is not None:
            raise InputError("head: is part of a perceptron, and module= replaces it; leave one of them out.")
        if NETWORK not in (self._estimator_list() or [NETWORK]):
            raise InputError("head: is part of networks, and estimators has none; add 'network', or leave head out.")

    def _check_same_network(self, classes: npt.NDArray[Any]) -> None:
        """Check that a warm start has the classes and the network shape of the last fit."""
        if tuple(map(canonical_label, classes.tolist())) != self._class_names():
            raise InputError(
                f"warm_start: the last fit has other classes ({', '.join(self._class_names())}, in this order), so its "
                "weights have another meaning. Fit a new model, or set warm_start=False."
            )
        width = 0 if self.module is not None else self.encoder_.width
        fresh = self._network(Inputs(None, np.zeros((1, width), np.float32)), 0)
        before, now = ({key: value.shape for key, value in net.state_dict().items()} for net in (self.model_, fresh))
        if before != now:
            raise InputError(
                "warm_start: the network of the last fit has other layers or other columns; fit a new model, or set "
                "warm_start=False."
            )

    # --- networks ---

    def _fit_encoder(self, table: Any, rows: IntArray) -> None:
        if self.module is None:
            self.encoder_ = TableEncoder.fit(take_rows(table, rows))

    def _single_loss(self) -> Any:
        """The loss of a single network: ORCU, if it is among several."""
        losses = self._loss_list()
        return next((loss for loss in losses if self._is_orcu(loss)), losses[0])

    def _is_orcu(self, loss: Any) -> bool:
        return loss == "orcu" or (isinstance(loss, Mapping) and loss.get("name") == "orcu")

    def _network(self, inputs: Inputs, seed: int) -> Any:
        """A network of the single loss with fresh weights."""
        from orcu.training.networks import ModuleLearner

        config, sizes = self._train_config(1, early_stopping=False), tuple(self.hidden_layer_sizes)
        criterion = self._create_loss(self._single_loss())
        learner = ModuleLearner("", criterion, config, self.module, sizes, head=self.head or "")
        return learner.network(inputs.features.shape[-1], len(self.classes_), seed)

    def _create_loss(self, loss: Any, **options: Any) -> Any:
        from orcu import losses

        return losses.create(self._loss_table(loss), num_classes=len(self.classes_), **options)

    def _single_criterion(self, scale: Any, y: Targets) -> Any:
        options = {} if self.class_weight is None else {"weight": self._class_weights(y)}
        loss = self._single_loss()
        if self._is_orcu(loss):
            loss = {"scale": scale} | ({"name": loss} if isinstance(loss, str) else dict(loss))
        return self._create_loss(loss, **options)

    def _train_config(self, rows: int, *, early_stopping: bool) -> "TrainConfig":
        """Training settings for a number of training rows; with early-stopping rows the best epoch is selected."""
        from orcu.training.config import TrainConfig

        rate = float(self.learning_rate)
        epochs = self.epochs
        if isinstance(epochs, str):  # "auto"
            epochs = max(MIN_EPOCHS, min(EPOCHS, EPOCHS * EPOCHS_ROWS // rows))
        return TrainConfig(
            epochs=epochs,
            batch_size=self.batch_size,
            head_learning_rate=rate,
            learning_rate=rate,
            weight_decay=self.weight_decay,
            scheduler="cosine",
            select="rps" if early_stopping else None,
            patience=None if self.patience is None or not early_stopping else max(1, self.patience),
        )

    def _train(self, data: TrainingData, splits: dict[str, IntArray], initial_weights: Any) -> None:
        """Train the single network, and choose the scale of ORCU if it is "auto"."""
        from orcu.training.choose_scale import choose_scale, short_training
        from orcu.training.networks import predict_logits, train_network

        train, validation = data[splits["train"]], data[splits["validation"]]
        has_validation = len(validation.y) > 0
        config = self._train_config(len(train.y), early_stopping=has_validation)
        progress = self._progress()
        name = self._loss_name(self._single_loss())

        def train_with(scale: Any, first_weights: Any) -> None:
            """A full training, or a short one that continues from the weights of the first."""
            self.model_ = self._network(data.inputs, self._seed)
            weights = initial_weights if first_weights is None else first_weights
            if weights is not None:
                self.model_.load_state_dict(weights)
            settings = config if first_weights is None else config.replace(**short_training(config, self.n_iter_))
            criterion = self._single_criterion(scale, train.y)
            curve = train_network(
                self.model_, criterion, train, validation, settings, seed=self._seed, name=name, progress=progress
            )
            if first_weights is None:
                self.n_iter_, self.curve_ = len(curve), curve

        loss = self._single_loss()
        self.scale_, self.scale_choice_ = self._default_scale() if self._is_orcu(loss) else None, None
        if not has_validation or loss != "orcu" or self.scale != "auto":
            train_with(self.scale_, None)
            return

        def trial(scale: float, first_weights: Any) -> tuple[Any, FloatArray]:
            train_with(scale, first_weights)
            probs = geometry.probs(predict_logits(self.model_, validation.inputs.features))
            return copy.deepcopy(self.model_.state_dict()), probs

        self.scale_choice_ = choose_scale(trial, validation.y)
        self.scale_ = self.scale_choice_.best.scale
        self.model_.load_state_dict(self.scale_choice_.best.state)

    def __getstate__(self) -> dict[str, Any]:
        """State for pickle and copies, without the training rows, which may be large and private."""
        state: dict[str, Any] = super().__getstate__()
        return state | {"_training_rows": None} if "_training_rows" in state else state


def _is_pair(value: Any) -> bool:
    """Whether a value is one (name, estimator) pair, rather than a list of names and pairs."""
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and hasattr(value[1], "fit")


def _check_pair(pair: Any) -> None:
    if not _is_pair(pair):
        raise InputError(f"estimators: expected a name or a pair (name, estimator), got {pair!r}.")
    name, estimator = pair
    if name in MEMBER_NAMES:
        raise InputError(f"estimators: the name {name!r} is that of a built-in member; use another one.")
    if isinstance(estimator, type) or not hasattr(estimator, "get_params") or not hasattr(estimator, "predict_proba"):
        raise InputError(
            f"estimators: {name!r} must be a scikit-learn classifier with predict_proba, got {estimator!r}; for an "
            "SVC use SVC(probability=True)."
        )
