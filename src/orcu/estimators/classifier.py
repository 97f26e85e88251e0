"""`OrdinalClassifier`: a scikit-learn classifier whose probabilities are unimodal and calibrated."""

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, validate_data

from orcu import calibrators, geometry
from orcu.decisions.conformal import OrdinalPredictionSets
from orcu.decisions.rules import RULES, decide_checked
from orcu.errors import CalibrationWarning, InputError, UnknownNameError, require
from orcu.estimators.diagnosis import Diagnosis, beside_baseline
from orcu.estimators.labels import carries_order, class_codes, ordered_labels
from orcu.estimators.splitting import rows_by_job
from orcu.inputs import FloatArray, IntArray, as_count, as_fraction, as_positive
from orcu.metrics.ordinal import accuracy, qwk
from orcu.predictions.labels import canonical, check_no_gaps
from orcu.tables.frames import check_numbers, is_frame, table_of

if TYPE_CHECKING:
    import torch

    from orcu.estimators.network import Cases
    from orcu.training.recipes import Recipe

FEW = 40  # rows for which a calibrator is not worth it
SCORES = {"accuracy": accuracy, "qwk": qwk}
# Options that are neither numbers nor names of a list: which values can be used, and how to call them.
USABLE: dict[str, tuple[Callable[[Any], bool], str]] = {
    "loss": (lambda loss: isinstance(loss, (str, Mapping)), "a name or a table"),
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


class OrdinalClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A multilayer perceptron (or your module) trained with an ordinal loss, calibrated, unimodal.

    Rows have one job each: most train; ``validation_fraction`` of them stop the training and choose the scale;
    ``calibration_fraction`` fit the calibrator, and as many again the prediction sets.

    Args:
        loss: a name or a table, as for `orcu.losses.create`.
        scale: s of ORCU: a number, or "auto" to choose it on the validation rows (see `orcu.suggest_scale`).
        calibrator: a name or a chain such as "gap+projection", which "auto" stands for; ``None`` for none.
        hidden: layers of the perceptron.
        module: any ``nn.Module`` from a float32 tensor of rows to logits (n, C), in place of the perceptron.
        epochs: passes over the training rows, at most.
        batch_size: rows per step.
        learning_rate: at the start; it falls along a half cosine.
        weight_decay: AdamW's.
        patience: epochs without a lower validation RPS before training stops; ``None`` for all epochs.
        validation_fraction: share of the rows that stop the training and choose s; 0 for none.
        calibration_fraction: share for the calibrator, and again for the sets; 0 for neither.
        class_weight: ``None``, "balanced", or a dictionary from class to weight.
        decide: how ``predict`` decides, as for `orcu.decide`.
        metric: of ``score``: "accuracy" or "qwk".
        classes: labels from lowest to highest. Needed for strings; numbers and ordered pandas categories carry
            their order.
        warm_start: go on from the weights of the last fit.
        random_state: a seed, or numpy's ``RandomState``.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(1000, 3))
        >>> y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=1000), [-1, 0, 1])
        >>> model = OrdinalClassifier(hidden=(16,), epochs=10, random_state=0).fit(X, y)
        >>> probs = model.predict_proba(X)
        >>> from orcu import metrics
        >>> probs.shape, metrics.unimodality(probs)
        ((1000, 4), 1.0)
    """

    knows_order = True  # of its classes, whatever the alphabet says
    model_: Any  # nn.Module
    scale_: float | str | None
    n_iter_: int
    _sets: tuple[FloatArray, IntArray] | None  # logits and labels of the rows held back for sets
    _fitted_on: "tuple[Cases, dict[str, IntArray]] | None"  # the rows of the fit and their jobs

    def __init__(
        self,
        loss: Any = "orcu",
        *,
        scale: float | str = "auto",
        calibrator: Any = "auto",
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
        self.scale = scale
        self.calibrator = calibrator
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train, choose the scale, calibrate.

        Args:
            X: an array of numbers (gaps as NaN), or a frame of numbers and categories.
            y: labels.
            sample_weight: one weight per row.

        Raises:
            InputError: if the order of the classes is not known, a label is none of them, or an option
                cannot be used.
        """
        require("torch", extra="train", what="OrdinalClassifier")
        self._check_options()
        return self._become(copy.copy(self)._fit(X, y, sample_weight))

    def _become(self, other: Self) -> Self:
        """Take over what another has learned; until then, a fit that fails leaves this one as it was."""
        self.__dict__.clear()
        self.__dict__.update(other.__dict__)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        from orcu.estimators.network import logits

        x, codes, weight, classes = self._read(X, y, sample_weight)
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
        self.calibrator_ = self._fitted_calibrator(cases[jobs["calibration"]])
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

        first = not hasattr(self, "model_")
        known = self.classes if first else self.classes_
        if classes is not None and known is not None and list(classes) != list(known):
            raise InputError(
                f"classes: the model has {', '.join(map(str, known))}, in this order; got "
                f"{', '.join(map(str, classes))}."
            )
        known = classes if known is None else known
        x, codes, weight, self.classes_ = self._read(X, y, sample_weight, classes=known, reset=first)
        if first:
            self._seed = int(check_random_state(self.random_state).randint(2**31))
            self._learn_columns(x, np.arange(len(codes)))
            self._build(self._seed)
            self.scale_ = FIRST if self.scale == "auto" else self.scale
            self._passes = 0
        else:
            self.model_ = copy.deepcopy(self.model_)
        # What a fit has held back may be trained on now, and the network moves on.
        self.calibrator_, self._sets, self._fitted_on = calibrators.UnimodalProjection(), None, None
        self._passes += 1
        recipe = self._recipe(selects=False).but(epochs=1, schedule="constant")  # no one knows the last pass
        criterion, cases = self._criterion(self.scale_, codes), self._cases(x, codes, weight)
        network.train(self.model_, criterion, cases, None, recipe, seed=self._seed + self._passes)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Calibrated, unimodal probabilities, columns in the order of ``classes_``, shape (n, C)."""
        return self._probs(self.predict_logits(X))

    def predict_logits(self, X: Any) -> FloatArray:
        """The network's logits, before the calibrator, shape (n, C)."""
        check_is_fitted(self, "model_")
        from orcu.estimators.network import logits

        x = self._checked(X, reset=False)
        tensor = self._tensor(x)
        if self.module is None:
            for note in self.encoder_.unseen(x):
                warnings.warn(f"X: {note}.", UserWarning, stacklevel=2)
        return logits(self.model_, tensor)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The decided class of each row, the most likely one unless ``decide`` says otherwise."""
        probs = self.predict_proba(X)
        return self.classes_[decide_checked(probs, self.decide)]

    def predict_sets(self, X: Any, alpha: float = 0.1) -> npt.NDArray[Any]:
        """The lowest and the highest class of each row's set, shape (n, 2); the truth is inside with 1 - alpha.

        Raises:
            InputError: if too few rows were held back for this alpha.
        """
        alpha = as_fraction(alpha, name="alpha")
        probs = self.predict_proba(X)
        held, y = self._sets or (np.zeros((0, 2)), np.zeros(0, np.int64))
        if not alpha or len(y) < 1 / alpha - 1:
            raise InputError(
                f"alpha: {len(y)} rows were held back for sets, too few for {alpha}; fit on more rows, raise "
                "calibration_fraction, or ask for a larger alpha."
            )
        low, high = OrdinalPredictionSets(alpha=alpha).fit(self._probs(held), y).predict(probs)
        return np.stack([self.classes_[low], self.classes_[high]], axis=1)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy, or quadratic weighted kappa if ``metric`` says so."""
        check_is_fitted(self, "model_")
        self._check_options()
        codes = class_codes(y, self.classes_)
        check_consistent_length(X, codes)
        pred = decide_checked(self.predict_proba(X), self.decide)
        if self.metric == "accuracy" and sample_weight is None:
            return float(np.mean(pred == codes))
        probs = np.eye(len(self.classes_))[pred]
        return SCORES[self.metric](probs, codes, weight=sample_weight)

    def diagnose(self) -> Diagnosis:
        """Compare with plain cross-entropy and temperature scaling on rows that neither was trained on.

        The baseline is trained on the same rows and stopped by the same ones; both calibrators are
        cross-fitted on the rows held back.

        Raises:
            InputError: if the model was not fitted with rows to spare.
        """
        check_is_fitted(self, "model_")
        from orcu.estimators.network import logits

        if self._fitted_on is None:
            raise InputError(
                "diagnose: the rows of the fit are not kept in files and copies, and partial_fit holds none back; "
                "call it after fit, on the model that was fitted."
            )
        cases, jobs = self._fitted_on
        held = cases[np.concatenate([jobs["calibration"], jobs["sets"]])]
        if len(held.y) < 2 * FEW:
            needed = f"at least {2 * FEW} are needed; fit on more rows, or raise calibration_fraction."
            raise InputError(f"diagnose: {len(held.y)} rows were held back, {needed}")
        baseline = copy.copy(self).set_params(loss="ce", calibrator=None, warm_start=False)
        baseline._train(cases, jobs, self._seed, None)
        ours, theirs = (logits(model.model_, held.x) for model in (self, baseline))
        chain = "none" if self.calibrator_ is None else self._chain()
        return beside_baseline(ours, theirs, held.y, chain, what=str(self.loss))

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
        if isinstance(self.calibrator, (str, dict)):
            calibrators.create(self._chain())
        if isinstance(self.decide, str) and self.decide not in RULES:
            raise UnknownNameError("decision rule", self.decide, list(RULES))
        if self.metric not in SCORES:
            raise UnknownNameError("metric", self.metric, SCORES)

    def _check_same_network(self, classes: npt.NDArray[Any]) -> None:
        """Refuse a warm start with other classes than the last fit's, or a network of another shape."""
        if tuple(map(canonical, classes.tolist())) != self._names():
            raise InputError(
                f"warm_start: the last fit has other classes ({', '.join(self._names())}, in this order); its weights "
                "would get another meaning. Fit a new model, or set warm_start=False."
            )
        fresh = copy.copy(self)
        fresh.classes_ = classes
        fresh._build(0)
        before, now = ({name: value.shape for name, value in one.model_.state_dict().items()} for one in (self, fresh))
        if before != now:
            raise InputError(
                "warm_start: the network of the last fit has other layers or other columns; fit a new model, or set "
                "warm_start=False."
            )

    def _read(
        self, X: Any, y: Any, sample_weight: Any, *, classes: Any = None, reset: bool = True
    ) -> tuple[Any, IntArray, FloatArray | None, npt.NDArray[Any]]:
        from sklearn.utils.multiclass import check_classification_targets
        from sklearn.utils.validation import _check_sample_weight, column_or_1d

        if y is None:
            raise ValueError("requires y to be passed, but the target y is None.")
        x = self._checked(X, reset=reset)
        check_consistent_length(X, y)
        order = self.classes if classes is None else classes
        check_no_gaps(y, order)
        if order is None and carries_order(y):
            order = ordered_labels(y, None)
        if carries_order(y) or getattr(getattr(y, "dtype", None), "kind", "") == "i":  # or pandas' Int64
            y = np.asarray(y, dtype=object if carries_order(y) else np.int64)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        weight = None
        if sample_weight is not None:
            if not np.asarray(sample_weight).any():
                raise InputError("sample_weight: every weight is zero; at least one must not be.")
            weight = _check_sample_weight(
                sample_weight, np.zeros((len(y), 1)), dtype=np.float64, ensure_non_negative=True
            )
            counts = weight > 0  # a row of no weight is no row
            x = x[counts] if isinstance(x, np.ndarray) else {k: v[counts] for k, v in x.items()}
            y, weight = y[counts], weight[counts]
        labels = ordered_labels(y, order)
        codes = class_codes(y, labels)
        if classes is None and len(np.unique(codes)) < 2:
            raise InputError(
                f"y: every row has the class {labels.tolist()[codes[0]]!r}; a classifier needs more than one class."
            )
        return x, codes, weight, labels

    def _names(self) -> tuple[str, ...]:
        return tuple(canonical(label) for label in self.classes_.tolist())

    def _checked(self, X: Any, *, reset: bool) -> Any:
        if is_frame(X) and self.module is None:
            if not len(X):
                raise InputError("X: has no rows; at least one is needed.")
            validate_data(self, X, reset=reset, skip_check_array=True)
            return table_of(X)
        if is_frame(X):
            check_numbers(X, "module=")
        if self.module is not None and np.ndim(X) != 2:  # images, sequences
            return check_array(X, dtype=np.float32, allow_nd=True, ensure_2d=False)
        finite = "allow-nan" if self.module is None else True
        array = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite=finite)
        if self.module is not None:
            return array
        names = getattr(self, "feature_names_in_", [f"x{k}" for k in range(array.shape[1])])
        return {str(name): array[:, k] for k, name in enumerate(names)}

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

    def _build(self, seed: int) -> None:
        import torch

        from orcu.models.classifier import Classifier
        from orcu.models.tabular import Mlp

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            if self.module is not None:
                self.model_ = copy.deepcopy(self.module)
                return
            body = Mlp(self.encoder_.width, hidden=tuple(self.hidden))
            head = "poe" if self._criterion(1.0, None).needs_head else "linear"
            self.model_ = Classifier(body, len(self.classes_), head=head)

    def _criterion(self, scale: Any, codes: IntArray | None) -> Any:
        from orcu import losses

        spec = {"name": self.loss} if isinstance(self.loss, str) else dict(self.loss)
        if spec.get("name") == "orcu":
            spec.setdefault("scale", scale)
        options = {}
        if self.class_weight is not None and codes is not None:
            options["weight"] = self._class_weights(codes)
        return losses.create(spec, num_classes=len(self.classes_), **options)

    def _class_weights(self, codes: IntArray) -> list[float]:
        counts = np.bincount(codes, minlength=len(self.classes_))
        if self.class_weight == "balanced":
            return [len(codes) / (np.count_nonzero(counts) * max(count, 1)) for count in counts]
        weights = {canonical(label): float(weight) for label, weight in self.class_weight.items()}
        strange = set(weights) - set(self._names())
        if strange:
            raise InputError(f"class_weight: {sorted(strange)[0]!r} is none of the classes.")
        return [weights.get(name, 1.0) for name in self._names()]

    def _recipe(self, *, selects: bool) -> "Recipe":
        """How the network is trained; with rows to validate by it selects its best epoch."""
        from orcu.training.recipes import Recipe

        rate = float(self.learning_rate)
        patience = None if self.patience is None or not selects else max(1, self.patience)
        return Recipe(
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
            self._build(seed)
            weights = start if first is None else first
            if weights is not None:
                self.model_.load_state_dict(weights)
            chosen = recipe if first is None else recipe.but(**shortened(recipe, self.n_iter_))
            criterion = self._criterion(scale, train.y)
            curve = network.train(self.model_, criterion, train, validation, chosen, seed=seed)
            if first is None:
                self.n_iter_, self.curve_ = len(curve), curve

        self.scale_, self.chosen_ = None, None
        if self.loss == "orcu" or (isinstance(self.loss, Mapping) and self.loss.get("name") == "orcu"):
            self.scale_ = FIRST if self.scale == "auto" else self.scale
        if validation is None or self.loss != "orcu" or self.scale != "auto":
            train_with(self.scale_, None)
            return

        def trial(scale: float, first: Any) -> tuple[Any, FloatArray]:
            train_with(scale, first)
            return copy.deepcopy(self.model_.state_dict()), geometry.probs(network.logits(self.model_, validation.x))

        self.chosen_ = choose_scale(trial, validation.y)
        self.scale_ = self.chosen_.best.scale
        self.model_.load_state_dict(self.chosen_.best.state)

    def _probs(self, logits: FloatArray) -> FloatArray:
        if self.calibrator_ is None:
            plain: FloatArray = geometry.probs(logits)
            return plain
        calibrated: FloatArray = self.calibrator_.predict_proba(logits)
        return calibrated

    def _chain(self) -> Any:
        return "gap+projection" if self.calibrator == "auto" else self.calibrator

    def _fitted_calibrator(self, held: "Cases") -> Any:
        """The calibrator, fitted; with too few rows only the projection, and a warning."""
        from orcu.estimators.network import logits

        if self.calibrator is None:
            return None
        if len(held.y) >= FEW:
            chain = self._chain()
            calibrator = calibrators.create(chain) if isinstance(chain, (str, dict)) else copy.deepcopy(chain)
            return calibrator.fit(logits(self.model_, held.x), held.y, weight=held.weight)
        warnings.warn(
            f"{len(held.y)} rows are held back for the calibrator, fewer than {FEW}: probabilities are projected, not "
            "calibrated. Fit on more rows, or raise calibration_fraction.",
            CalibrationWarning,
            stacklevel=3,
        )
        return calibrators.UnimodalProjection()

    def __getstate__(self) -> dict[str, Any]:
        """What is saved: all but the rows of the fit, which may be large and are nobody's business."""
        state: dict[str, Any] = super().__getstate__()
        return state | {"_fitted_on": None} if "_fitted_on" in state else state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.module is None
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
