"""`OrdinalClassifier`: a scikit-learn classifier whose probabilities are unimodal and calibrated."""

import copy
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from orcu import calibrators, geometry
from orcu.boosting.columns import TreeColumns
from orcu.boosting.trees import BOOSTING, NETWORK, CrossFittedTrees, Growth, check_kinds, grow, join_unasked
from orcu.boosting.trees import LOSSES as TREE_LOSSES
from orcu.calibrators.pool import pool
from orcu.decisions.conformal import OrdinalPredictionSets
from orcu.errors import InputError, UnknownNameError, require
from orcu.estimators.base import OrdinalEstimator
from orcu.estimators.diagnosis import Diagnosis, beside_baseline
from orcu.estimators.splitting import rows_by_job
from orcu.inputs import FloatArray, IntArray, as_count, as_fraction, as_positive
from orcu.model_selection import deal, first_rows
from orcu.predictions.labels import canonical

if TYPE_CHECKING:
    import torch

    from orcu.estimators.network import Cases
    from orcu.model_selection import Fold
    from orcu.training.config import TrainConfig
    from orcu.training.cross_fitting import CrossFitted

DIAGNOSED = 80  # rows that a diagnosis takes
ENSEMBLE = ("ce", "sord", "orcu")
SETS = ("cv+", "split")
# Options that are neither numbers nor names of a list: which values can be used, and how to call them.
USABLE: dict[str, tuple[Callable[[Any], bool], str]] = {
    "loss": (
        lambda loss: (
            isinstance(loss, (str, Mapping))
            or (
                isinstance(loss, (tuple, list))
                and len(loss) > 0
                and all(isinstance(one, (str, Mapping)) for one in loss)
            )
        ),
        "a name or a table, or several of them",
    ),
    "calibrator": (
        lambda calibrator: calibrator is None or isinstance(calibrator, (str, dict)) or hasattr(calibrator, "fit"),
        "a name or a calibrator",
    ),
    "hidden": (
        lambda hidden: np.iterable(hidden) and all(isinstance(u, (int, np.integer)) and u > 0 for u in hidden),
        "units of each layer such as (256,)",
    ),
    "module": (
        lambda module: module is None or (hasattr(module, "state_dict") and not isinstance(module, type)),
        "an nn.Module",
    ),
    "class_weight": (
        lambda weight: isinstance(weight, Mapping) or weight in (None, "balanced"),
        "None, 'balanced' or a dictionary",
    ),
}


class OrdinalClassifier(OrdinalEstimator):
    """An ensemble of boosted trees and networks, cross-fitted, calibrated on all rows, unimodal.

    The rows are dealt into five folds. For each fold trees are grown on the others, and for each loss a perceptron (or
    your module) is trained; what they say of their own fold's rows, which they have not seen, weighs them and fits one
    calibrator. So every row trains and every row calibrates, and none does both for the same member. A prediction
    averages the log-probabilities of all members, then calibrates.

    With ``folds=1`` there is one network (ORCU's, if several losses are named), and rows have one job each: most train;
    ``validation_fraction`` of them stop the training and choose the scale; ``calibration_fraction`` fit the calibrator,
    and as many again the prediction sets.

    Args:
        loss: of the networks: names or tables, as for `orcu.losses.create`; or a single one.
        members: "boosting" for trees (of cross-entropy and of ORCU, as `OrdinalBoosting` grows them), "network", or
            both in a tuple; "auto": both on tables of up to 200 columns where LightGBM is installed and ``loss`` and
            ``module`` are not set, else networks.
        folds: how many; 1 for networks that do not see all rows.
        scale: s of ORCU: a number, or "auto": the paper's 3 in an ensemble, whose calibrator does what another scale
            would; chosen on the validation rows where ORCU is alone and ``folds=1`` (see `orcu.suggest_scale`).
        calibrator: a name or a chain such as "gap+projection"; "auto" chooses one (see
            `orcu.calibrators.AutoCalibration`); ``None`` for none.
        sets: how `predict_sets` is fitted: "cv+" from what was predicted out of fold; "split" on
            ``calibration_fraction`` of the rows, which nothing else sees: a stronger promise, and fewer rows to learn
            from. ``folds=1`` always splits.
        budget: seconds after which no further loss is added to the ensemble, trees first; ``None`` for all of them.
        hidden: layers of the perceptron.
        module: any ``nn.Module`` from a float32 tensor of rows to logits (n, C), in place of the perceptron.
        epochs: passes over the training rows, at most.
        batch_size: rows per step.
        learning_rate: at the start; it falls along a half cosine.
        weight_decay: AdamW's.
        patience: epochs without a lower validation RPS before training stops; ``None`` for all epochs.
        validation_fraction: share of the rows that stop the training and choose s; 0 for none.
        calibration_fraction: share for the calibrator, and again for the sets; 0 for neither. Of an ensemble only
            ``sets="split"`` takes it.
        class_weight: ``None``, "balanced", or a dictionary from class to weight.
        decide: how ``predict`` decides, as for `orcu.decide`.
        metric: of ``score``: "accuracy" or "qwk".
        classes: labels from lowest to highest. Needed for strings; numbers and ordered pandas categories carry
            their order.
        warm_start: go on from the weights of the last fit.
        random_state: a seed, or numpy's ``RandomState``.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(400, 3))
        >>> y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=400), [-1, 0, 1])
        >>> model = OrdinalClassifier(hidden=(16,), epochs=10, random_state=0).fit(X, y)
        >>> probs = model.predict_proba(X)
        >>> from orcu import metrics
        >>> probs.shape, metrics.unimodality(probs)
        ((400, 4), 1.0)
    """

    model_: Any  # nn.Module; of an ensemble with trees there is none
    scale_: float | str | None
    chosen_: Any  # of `orcu.training.choose_scale`, where the scale was chosen
    n_iter_: int
    _sets: tuple[FloatArray, IntArray] | None  # logits and labels of the rows held back for sets
    _fitted_on: "tuple[Cases, dict[str, IntArray]] | None"  # the rows of the fit and their jobs
    _dealt: "list[Fold]"  # of an ensemble

    def __init__(
        self,
        loss: Any = ENSEMBLE,
        *,
        members: Any = "auto",
        folds: int = 5,
        scale: float | str = "auto",
        calibrator: Any = "auto",
        sets: str = "cv+",
        budget: float | None = None,
        hidden: Sequence[int] = (256,),
        module: Any = None,
        epochs: int = 50,
        batch_size: int = 128,
        learning_rate: float = 3e-3,
        weight_decay: float = 1e-4,
        patience: int | None = 10,
        validation_fraction: float = 0.1,
        calibration_fraction: float = 0.1,
        class_weight: Any = None,
        decide: Any = "argmax",
        metric: str = "accuracy",
        classes: Sequence[Any] | None = None,
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.members = members
        self.folds = folds
        self.scale = scale
        self.calibrator = calibrator
        self.sets = sets
        self.budget = budget
        self.hidden = hidden
        self.module = module
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.calibration_fraction = calibration_fraction
        self.class_weight = class_weight
        self.decide = decide
        self.metric = metric
        self.classes = classes
        self.warm_start = warm_start
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Train, weigh, calibrate.

        Args:
            X: an array of numbers (gaps as NaN), or a frame of numbers and categories.
            y: labels.
            sample_weight: one weight per row.
            groups: of each row, such as its subject; the rows of a group stay in one fold.

        Raises:
            InputError: if the order of the classes is not known, a label is none of them, or an option
                cannot be used.
        """
        require("torch", extra="train", what="OrdinalClassifier")
        self._check_options()
        return self._become(copy.copy(self)._fit(X, y, sample_weight, groups))

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Self:
        x, codes, weight, classes, groups = self._read(X, y, sample_weight, groups=groups)
        folds = self._used_folds(len(codes), fewest=1)
        if folds > 1:
            return self._fit_ensemble(x, codes, weight, classes, groups, folds)
        if groups is not None:
            raise InputError("groups: with folds=1 rows are divided one by one; use folds=2 or more.")
        return self._fit_divided(x, codes, weight, classes)

    def _fit_ensemble(
        self, x: Any, codes: IntArray, weight: FloatArray | None, classes: npt.NDArray[Any], groups: Any, folds: int
    ) -> Self:
        """Cross-fit every loss, weigh them, calibrate on what was said out of fold."""
        from orcu.training.ensemble import as_module

        if self.warm_start:
            raise InputError("warm_start: an ensemble is fitted anew; use folds=1 to go on from the last fit.")
        self.classes_ = classes
        seed = int(check_random_state(self.random_state).randint(2**31))
        self._seed, self._passes = seed, 0
        held = np.zeros(0, np.int64)
        if self.sets == "split":
            order = np.random.default_rng(seed).permutation(len(codes))
            held = np.sort(first_rows(order, self.calibration_fraction * len(codes), groups))
        rows = np.setdiff1d(np.arange(len(codes)), held)
        kinds = self._kinds(x)
        table = _rows(x, rows)
        self._learn_columns(x, rows)
        cases = self._cases(x, codes, weight)
        fitting, known = cases[rows], None if groups is None else groups[rows]
        dealt = deal(fitting.y, folds, stop=self.validation_fraction, groups=known, seed=seed)
        own = None if fitting.weight is None else fitting.weight.astype(np.float64)
        started = time.monotonic()
        members: list[Any] = []
        if BOOSTING in kinds:
            members += self._grown(table, fitting.y, own, dealt, seed, started)
        if NETWORK in kinds and not (members and self._spent(started)):
            members += self._cross_fitted(fitting, dealt, seed, started)
        self.pool_ = pool(members, dealt, fitting.y, own)
        self.weights_ = self.pool_.weights
        if not self._has_trees():
            self.model_ = as_module(self.pool_)
        self.scale_, self.chosen_ = (self._fixed_scale() if self._has_orcu() else None), None
        self.n_iter_ = max((epochs for one in members for epochs in getattr(one, "epochs", [])), default=self.epochs)
        self._pooled_labels = fitting.y
        self.calibrator_ = self._fitted_calibrator(self.pool_.logits, fitting.y, own, known)
        self._sets = None
        if len(held):
            self._sets = self._together(self._of_members(_rows(x, held))), codes[held]
        self._fitted_on, self._dealt = (fitting, {}), dealt
        return self

    def _kinds(self, x: Any) -> tuple[str, ...]:
        """The kinds of members; those that "auto" stands for."""
        if self.members != "auto":
            return (self.members,) if isinstance(self.members, str) else tuple(self.members)
        plain = self.module is None and self.loss == ENSEMBLE
        return (BOOSTING, NETWORK) if plain and join_unasked(len(x), without="members='network'") else (NETWORK,)

    def _spent(self, started: float) -> bool:
        return self.budget is not None and time.monotonic() - started > self.budget

    def _has_trees(self) -> bool:
        return self.pool_ is not None and any(isinstance(one, CrossFittedTrees) for one in self.pool_.kept)

    def _grown(
        self, table: Any, codes: IntArray, weight: FloatArray | None, folds: "list[Fold]", seed: int, started: float
    ) -> list[CrossFittedTrees]:
        """Trees of every loss that trees are grown by; within the budget."""
        self.columns_ = TreeColumns.fit(table)
        matrix, counted = self.columns_.matrix(table), self._counted(codes, weight)
        members: list[CrossFittedTrees] = []
        for name in TREE_LOSSES:
            if members and self._spent(started):
                break
            loss, called = self._objective(name, float(self._fixed_scale())), f"{name} trees"
            members.append(
                grow(loss, matrix, self.columns_, codes, folds, Growth(), name=called, weight=counted, seed=seed)
            )
        return members

    def _cross_fitted(self, cases: "Cases", folds: "list[Fold]", seed: int, started: float) -> "list[CrossFitted]":
        """Every loss in every fold: perceptrons together, other networks one by one; within the budget."""
        from orcu.estimators import network
        from orcu.training.cross_fitting import CrossFitted, out_of_fold, stacks, train_together

        recipe = self._recipe(selects=all(len(fold.stop) for fold in folds))
        own = self._counted(cases.y, None if cases.weight is None else cases.weight.astype(np.float64))
        counted = replace(cases, weight=None if own is None else own.astype(np.float32))
        members: list[CrossFitted] = []
        together: dict[str, Any] = {}
        for name, spec in self._losses().items():
            criterion = self._loss(spec, self._fixed_scale(), reduction="sum")
            if self.module is None and stacks(criterion):
                together[name] = criterion
        # With a budget one loss after the other, so that some are whole when it is used up.
        batches = [[name] for name in together] if self.budget is not None else [list(together)] if together else []
        batches += [[name] for name in self._losses() if name not in together]
        for names in batches:
            if members and self._spent(started):
                break
            if names[0] in together:
                members += train_together(
                    {name: together[name] for name in names},
                    cases.x,
                    cases.y,
                    folds,
                    recipe,
                    num_classes=len(self.classes_),
                    hidden=self.hidden,
                    weight=counted.weight,
                    seed=seed,
                )
                continue
            networks, epochs = [], []
            for number, fold in enumerate(folds):
                model = self._network(self._losses()[names[0]], seed + number)
                criterion = self._loss(self._losses()[names[0]], self._fixed_scale())
                stop = counted[fold.stop] if len(fold.stop) else None
                curve = network.train(model, criterion, counted[fold.train], stop, recipe, seed=seed + number)
                networks.append(model)
                epochs.append(len(curve))
            said = out_of_fold(networks, cases.x, folds, len(self.classes_))
            members.append(CrossFitted(names[0], networks, said, epochs))
        return members

    def _fit_divided(self, x: Any, codes: IntArray, weight: FloatArray | None, classes: npt.NDArray[Any]) -> Self:
        """One network, with rows held back for everything else."""
        from orcu.estimators.network import logits

        going_on = self.warm_start and hasattr(self, "model_")
        if going_on:
            self._check_same_network(classes)
        self.classes_ = classes
        seed = int(check_random_state(self.random_state).randint(2**31))
        jobs = self._jobs(codes, seed)
        self._seed, self._passes = seed, 0
        if not going_on:
            self._learn_columns(x, jobs["train"])
        cases = self._cases(x, codes, weight)
        start = copy.deepcopy(self.model_.state_dict()) if going_on else None
        self._train(cases, jobs, seed, start)
        self.weights_, self.pool_ = {self._name(self._one_loss()): 1.0}, None
        held = cases[jobs["calibration"]]
        own = None if held.weight is None else held.weight.astype(np.float64)
        said = logits(self.model_, held.x) if len(held.y) else np.zeros((0, len(classes)))
        self.calibrator_ = self._fitted_calibrator(said, held.y, own)
        held = cases[jobs["sets"]]
        self._sets = (logits(self.model_, held.x), held.y) if len(held.y) else None
        self._fitted_on = (cases, jobs)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """One pass over some rows; there is no row to spare, so probabilities are projected, not calibrated.

        To calibrate, hold rows back and fit a calibrator on their ``predict_logits``.

        Args:
            X: rows.
            y: labels.
            classes: all labels from lowest to highest; needed in the first call unless given to the constructor.
            sample_weight: one weight per row.
        """
        require("torch", extra="train", what="OrdinalClassifier")
        self._check_options()
        return self._become(copy.copy(self)._partial_fit(X, y, classes, sample_weight))

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Self:
        from orcu.estimators import network
        from orcu.training.choose_scale import FIRST

        if getattr(self, "pool_", None) is not None:
            raise InputError("partial_fit: an ensemble does not go on; fit one network with folds=1, or none before.")
        first = not hasattr(self, "model_")
        known = self.classes if first else self.classes_
        if classes is not None and known is not None and list(classes) != list(known):
            raise InputError(
                f"classes: the model has {', '.join(map(str, known))}, in this order; got "
                f"{', '.join(map(str, classes))}."
            )
        known = classes if known is None else known
        x, codes, weight, self.classes_, _ = self._read(X, y, sample_weight, classes=known, reset=first)
        if first:
            self._seed = int(check_random_state(self.random_state).randint(2**31))
            self._learn_columns(x, np.arange(len(codes)))
            self.model_ = self._network(self._one_loss(), self._seed)
            self.scale_ = FIRST if self.scale == "auto" else self.scale
            self._passes = 0
        else:
            self.model_ = copy.deepcopy(self.model_)
        self.weights_, self.pool_ = {self._name(self._one_loss()): 1.0}, None
        # What a fit has held back may be trained on now, and the network moves on.
        self.calibrator_, self._sets, self._fitted_on = calibrators.UnimodalProjection(), None, None
        self._passes += 1
        recipe = self._recipe(selects=False).but(epochs=1, schedule="constant")  # no one knows the last pass
        criterion, cases = self._criterion(self.scale_, codes), self._cases(x, codes, weight)
        network.train(self.model_, criterion, cases, None, recipe, seed=self._seed + self._passes)
        return self

    def _said(self, X: Any) -> FloatArray:
        check_is_fitted(self, self.fitted_by)
        x = self._checked(X, reset=False)
        said = self._of_members(x)
        for note in [] if self.module is not None else self.encoder_.unseen(x):
            warnings.warn(f"X: {note}.", UserWarning, stacklevel=4)
        return said

    def _of_members(self, x: Any) -> FloatArray:
        """As `_said`, of rows that were looked at; of a single network its logits, (1, 1, n, C)."""
        from orcu.estimators.network import logits

        tensor = self._tensor(x)
        if self.pool_ is None:
            return logits(self.model_, tensor)[None, None]
        matrix = self.columns_.matrix(x) if self._has_trees() else None
        return np.stack([one.said(matrix if isinstance(one, CrossFittedTrees) else tensor) for one in self.pool_.kept])

    def __getattr__(self, name: str) -> Any:
        if name == "model_" and self.__dict__.get("pool_") is not None:
            raise AttributeError(
                "model_: this ensemble has trees, and no module answers as it does; fit with members='network' to "
                "have one."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def predict_sets(self, X: Any, alpha: float = 0.1) -> npt.NDArray[Any]:
        """The lowest and the highest class of each row's set, shape (n, 2).

        With ``sets="split"`` the truth is inside with 1 - alpha or more; with "cv+" about as often, and by proof with
        about 1 - 2 alpha (see `orcu.decisions.conformal.CrossConformalSets`).

        Raises:
            InputError: if too few rows were held back for this alpha.
        """
        check_is_fitted(self, self.fitted_by)
        alpha = as_fraction(alpha, name="alpha")
        if self.sets == "cv+" and self.pool_ is not None:
            return self._cross_conformal(X, alpha)
        probs = self.predict_proba(X)
        held, y = self._sets or (np.zeros((0, 2)), np.zeros(0, np.int64))
        if not alpha or len(y) < 1 / alpha - 1:
            raise InputError(
                f"alpha: {len(y)} rows were held back for sets, too few for {alpha}; fit on more rows, raise "
                "calibration_fraction, or ask for a larger alpha."
            )
        low, high = OrdinalPredictionSets(alpha=alpha).fit(self._probs(held), y).predict(probs)
        return np.stack([self.classes_[low], self.classes_[high]], axis=1)

    def diagnose(self) -> Diagnosis:
        """Compare with plain cross-entropy and temperature scaling on rows that neither was trained on.

        The baseline is a single network, trained on the same rows and stopped by the same ones; of an ensemble both are
        judged out of fold, on all rows. Both calibrators are cross-fitted on the rows that are judged.

        Raises:
            InputError: if the model was not fitted with rows to spare.
        """
        check_is_fitted(self, self.fitted_by)
        from orcu.estimators.network import logits

        if self._fitted_on is None:
            raise InputError(
                "diagnose: the rows of the fit are not kept in files and copies, and partial_fit holds none back; "
                "call it after fit, on the model that was fitted."
            )
        cases, jobs = self._fitted_on
        if self.pool_ is not None:
            return self._diagnose_ensemble(cases)
        held = cases[np.concatenate([jobs["calibration"], jobs["sets"]])]
        if len(held.y) < DIAGNOSED:
            needed = f"at least {DIAGNOSED} are needed; fit on more rows, or raise calibration_fraction."
            raise InputError(f"diagnose: {len(held.y)} rows were held back, {needed}")
        baseline = copy.copy(self).set_params(loss="ce", calibrator=None, warm_start=False)
        baseline._train(cases, jobs, self._seed, None)
        ours, theirs = (logits(model.model_, held.x) for model in (self, baseline))
        chain = "none" if self.calibrator_ is None else self.calibrator
        return beside_baseline(ours, theirs, held.y, chain, what=self._name(self._one_loss()))

    def _diagnose_ensemble(self, cases: "Cases") -> Diagnosis:
        pool = self.pool_
        assert pool is not None  # noqa: S101
        if len(cases.y) < DIAGNOSED:
            raise InputError(f"diagnose: the model was fitted on {len(cases.y)} rows, at least {DIAGNOSED} are needed.")
        theirs = next((one.log_probs for one in pool.kept if one.name == "ce"), None)
        if theirs is None:
            plain = copy.copy(self).set_params(loss="ce")
            theirs = plain._cross_fitted(cases, self._dealt, self._seed, time.monotonic())[0].log_probs
        chain = "none" if self.calibrator_ is None else self.calibrator
        return beside_baseline(pool.logits, theirs, cases.y, chain, what="the ensemble")

    # --- the parts of a fit ---

    def _check_options(self) -> None:
        """Refuse options that cannot be used, before anything is changed; scikit-learn wants this in ``fit``."""
        as_count(self.epochs, name="epochs", minimum=1)
        as_count(self.batch_size, name="batch_size", minimum=2)
        as_positive(self.learning_rate, name="learning_rate")
        if self.scale != "auto":
            as_positive(self.scale, name="scale")
        for name, (usable, expected) in USABLE.items():
            value = getattr(self, name)
            if not usable(value):
                raise InputError(f"{name}: expected {expected}, got {value!r}.")
        self._check_shared_options()
        as_count(self.folds, name="folds", minimum=1)
        self._check_members()
        if self.sets not in SETS:
            raise UnknownNameError("way to fit sets", self.sets, SETS)
        if self.budget is not None:
            as_positive(self.budget, name="budget")
        if not 0 <= self.calibration_fraction < 0.5:
            raise InputError(
                f"calibration_fraction: expected a share from 0 to below 0.5, got {self.calibration_fraction!r}."
            )

    def _check_members(self) -> None:
        if self.members == "auto":
            return
        kinds = [self.members] if isinstance(self.members, str) else self.members
        check_kinds(kinds)
        if BOOSTING not in kinds:
            return
        if self.folds == 1:
            raise InputError("members: with folds=1 there is one network; use folds=5, or OrdinalBoosting.")
        if self.module is not None:
            raise InputError(
                "members: trees take tables, and with module= rows may be anything; use members='network'."
            )
        if NETWORK not in kinds and self.loss != ENSEMBLE:
            raise InputError("loss: is that of the networks, and members names none; use OrdinalBoosting(loss=...).")

    def _check_same_network(self, classes: npt.NDArray[Any]) -> None:
        """Refuse a warm start with other classes than the last fit's, or a network of another shape."""
        if tuple(map(canonical, classes.tolist())) != self._names():
            raise InputError(
                f"warm_start: the last fit has other classes ({', '.join(self._names())}, in this order); its weights "
                "would get another meaning. Fit a new model, or set warm_start=False."
            )
        fresh = copy.copy(self)
        fresh.classes_ = classes
        fresh.model_ = fresh._network(self._one_loss(), 0)
        before, now = ({name: value.shape for name, value in one.model_.state_dict().items()} for one in (self, fresh))
        if before != now:
            raise InputError(
                "warm_start: the network of the last fit has other layers or other columns; fit a new model, or set "
                "warm_start=False."
            )

    def _learn_columns(self, x: Any, rows: IntArray) -> None:
        if self.module is None:
            from orcu.models.tabular import TableEncoder

            self.encoder_ = TableEncoder.fit({name: values[rows] for name, values in x.items()})

    def _tensor(self, x: Any) -> "torch.Tensor":
        import torch

        return torch.from_numpy(np.asarray(x, dtype=np.float32) if self.module is not None else self.encoder_.encode(x))

    def _cases(self, x: Any, codes: IntArray, weight: FloatArray | None) -> "Cases":
        from orcu.estimators.network import Cases

        return Cases(self._tensor(x), codes, None if weight is None else weight.astype(np.float32))

    def _jobs(self, codes: IntArray, seed: int) -> dict[str, IntArray]:
        return rows_by_job(codes, validation=self.validation_fraction, calibration=self.calibration_fraction, seed=seed)

    def _losses(self) -> dict[str, Any]:
        """The losses by name, as they stand in ``weights_``."""
        return {self._name(spec): spec for spec in self._specs()}

    def _one_loss(self) -> Any:
        """The loss where there is one network: ORCU, if it is among several."""
        specs = self._specs()
        return next((spec for spec in specs if self._is_orcu(spec)), specs[0])

    def _is_orcu(self, spec: Any) -> bool:
        return spec == "orcu" or (isinstance(spec, Mapping) and spec.get("name") == "orcu")

    def _has_orcu(self) -> bool:
        return any(self._is_orcu(spec) for spec in self._specs())

    def _fixed_scale(self) -> float | str:
        from orcu.training.choose_scale import FIRST

        return FIRST if self.scale == "auto" else self.scale

    def _network(self, spec: Any, seed: int) -> Any:
        """A fresh network for a loss."""
        import torch

        from orcu.models.classifier import Classifier
        from orcu.models.tabular import Mlp

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            if self.module is not None:
                return copy.deepcopy(self.module)
            body = Mlp(self.encoder_.width, hidden=tuple(self.hidden))
            return Classifier(body, len(self.classes_), head=self._loss(spec, 1.0).head)

    def _loss(self, spec: Any, scale: Any, **options: Any) -> Any:
        from orcu import losses

        table = {"name": spec} if isinstance(spec, str) else {key: spec[key] for key in spec if key != "label"}
        if table.get("name") == "orcu":
            table.setdefault("scale", scale)
        return losses.create(table, num_classes=len(self.classes_), **options)

    def _criterion(self, scale: Any, codes: IntArray) -> Any:
        options = {} if self.class_weight is None else {"weight": self._class_weights(codes)}
        return self._loss(self._one_loss(), scale, **options)

    def _recipe(self, *, selects: bool) -> "TrainConfig":
        """How the network is trained; with rows to validate by it selects its best epoch."""
        from orcu.training.config import TrainConfig

        rate = float(self.learning_rate)
        patience = None if self.patience is None or not selects else max(1, self.patience)
        return TrainConfig(
            epochs=self.epochs,
            batch_size=self.batch_size,
            head_rate=rate,
            rate=rate,
            weight_decay=self.weight_decay,
            schedule="cosine",
            select="rps" if selects else None,
            patience=patience,
        )

    def _train(self, cases: "Cases", jobs: dict[str, IntArray], seed: int, start: Any) -> None:
        from orcu.estimators import network
        from orcu.training.choose_scale import FIRST, choose_scale, shortened

        train = cases[jobs["train"]]
        validation = cases[jobs["validation"]] if len(jobs["validation"]) else None
        recipe = self._recipe(selects=validation is not None)

        def train_with(scale: Any, first: Any) -> None:
            """A whole training, or a short one that goes on from the weights of the first."""
            self.model_ = self._network(self._one_loss(), seed)
            weights = start if first is None else first
            if weights is not None:
                self.model_.load_state_dict(weights)
            chosen = recipe if first is None else recipe.but(**shortened(recipe, self.n_iter_))
            criterion = self._criterion(scale, train.y)
            curve = network.train(self.model_, criterion, train, validation, chosen, seed=seed)
            if first is None:
                self.n_iter_, self.curve_ = len(curve), curve

        self.scale_, self.chosen_ = None, None
        one = self._one_loss()
        if self._is_orcu(one):
            self.scale_ = FIRST if self.scale == "auto" else self.scale
        if validation is None or one != "orcu" or self.scale != "auto":
            train_with(self.scale_, None)
            return

        def trial(scale: float, first: Any) -> tuple[Any, FloatArray]:
            train_with(scale, first)
            return copy.deepcopy(self.model_.state_dict()), geometry.probs(network.logits(self.model_, validation.x))

        self.chosen_ = choose_scale(trial, validation.y)
        self.scale_ = self.chosen_.best.scale
        self.model_.load_state_dict(self.chosen_.best.state)

    def __getstate__(self) -> dict[str, Any]:
        """What is saved: all but the rows of the fit, which may be large and are nobody's business."""
        state: dict[str, Any] = super().__getstate__()
        return state | {"_fitted_on": None} if "_fitted_on" in state else state


def _rows(x: Any, rows: IntArray) -> Any:
    """Some rows of a table's columns, or of an array."""
    return x[rows] if isinstance(x, np.ndarray) else {name: values[rows] for name, values in x.items()}
