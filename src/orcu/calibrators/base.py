"""What every calibrator shares: checks, containers, parameters, JSON."""

import inspect
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import nullcontext
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from orcu import blas, geometry
from orcu.calibrators.shrinkage import effective_rows, share_for_all, softened
from orcu.errors import CalibrationWarning, InputError
from orcu.inputs import FloatArray, IntArray, as_codes, as_labels, as_logits, as_weight, refuse_distributions
from orcu.io.card import card
from orcu.io.files import read_json, write_json
from orcu.predictions.predictions import Predictions
from orcu.predictions.used_rows import UsedRows
from orcu.registry import Registry

STATE_VERSION = 2
MANY_ROWS = 100_000
BRIEF = 8  # numbers on a line
LARGEST = 1e9  # logits further out say no more, and their squares would overflow
CALIBRATORS: Registry[type["Calibrator"]] = Registry(
    "calibrator", package="orcu.calibrators", plugins="orcu.calibrators"
)


class Calibrator(ABC):
    """A map from a model's logits to better ones, fitted on rows the model was not trained on.

    ``fit(logits, y)``, then ``predict_logits`` or ``predict_proba``. What is given by position is
    logits; probabilities are given as ``probs=``. numpy in, numpy out (float64); torch in, torch
    out, on the tensor's device. Options are stored as given, what is learned ends in ``_``. One that
    fits no parameters, such as the projection, predicts and is saved without `fit`.

    No calibrator claims more than its rows can tell: what it learns is pulled towards the model as it is, the more
    the fewer the rows (see `orcu.calibrators.shrinkage`), and a share of 1 / (2 (n + C)) of every prediction is spread
    evenly over all classes. Neither is part of the procedures of the paper and of other papers, which are reached by
    their options.
    """

    # An estimator of scikit-learn by its methods, not by derivation: sklearn.base takes 0.9 s to import (it brings
    # scipy.stats and pandas), more than all that is needed here.

    name: ClassVar[str]
    weight_repeats: ClassVar[bool] = True  # whether a weight of 2 is the row twice, shrinkage aside
    by_group: ClassVar[bool] = False  # whether `fit` and `predict_logits` take ``group=``
    num_classes_: int
    floor_: float | None = None  # what stood for a probability of 0 when fitting
    share_for_all_: float = 0.0  # of every prediction, spread evenly over all classes

    @cached_property
    def fitted_on_(self) -> UsedRows:
        """The rows that fitted it; none where nothing was to be fitted.

        Raises:
            InputError: if it is not fitted.
        """
        self._need_fit()
        return UsedRows.of(np.empty((0, 0)), ids=())

    _subject: IntArray | None = None  # of the rows while they are fitted, for whoever deals them into folds

    def fit(
        self,
        logits: Any = None,
        y: Any = None,
        *,
        probs: Any = None,
        weight: Any = None,
        ids: Any = None,
        subject: Any = None,
    ) -> Self:
        """Learn the map from held-out rows.

        Args:
            logits: shape (n, C), or ``None`` if ``probs`` is given.
            y: labels 0..C-1, shape (n,).
            probs: class probabilities in place of logits.
            weight: one non-negative weight per row.
            ids: one id per row, kept in ``fitted_on_`` so that these rows are not used again to judge.
            subject: one per row, such as a patient or a prompt: what is chosen by cross-validation is judged on rows of
                other subjects than it was fitted on.

        Raises:
            InputError: if an argument cannot be used; the text names the row.

        Warns:
            CalibrationWarning: if rows are few or a class is missing.
        """
        values = _bounded(logits) if _by_logits(logits, probs) else Predictions(probs=probs).as_logits()[0]
        if logits is not None:
            refuse_distributions(values, name="logits", hint="Hand them over as probs=.")
        n, num_classes = values.shape
        labels = as_labels(y, num_classes, rows=n)
        weights = np.ones(n) if weight is None else as_weight(weight, rows=n)
        counts = weights > 0  # a row of no weight is no row
        used, used_labels, used_weights = values[counts], labels[counts], weights[counts]
        self._check(used, used_labels)
        self.num_classes_ = num_classes
        self.floor_ = None if logits is not None else float(np.exp(values.min()))  # later rows get the same for a 0
        self.fitted_on_ = UsedRows.of(values, ids)
        used_weights = used_weights / used_weights.mean()
        if self._is_as_published():
            self.share_for_all_ = 0.0
        else:
            effective = effective_rows(used_weights)
            self.share_for_all_ = share_for_all(effective, num_classes)
            used_weights = used_weights * (effective / len(used_weights))
        self._subject = None if subject is None else as_codes(subject, rows=n, name="subject")[counts]
        try:
            with blas.one_thread() if n < MANY_ROWS else nullcontext():
                self._fit(used, used_labels, used_weights)
        except Exception:
            del self.num_classes_  # nothing is learned
            raise
        finally:
            self._subject = None
        return self

    def predict_logits(self, logits: Any = None, *, probs: Any = None) -> Any:
        """Calibrated logits, shape (n, C).

        Raises:
            InputError: if it is not fitted, or was fitted for another number of classes.
        """
        return self._apply(self._spread, logits, probs)

    def predict_proba(self, logits: Any = None, *, probs: Any = None) -> Any:
        """Calibrated probabilities, shape (n, C).

        Raises:
            InputError: if it is not fitted, or was fitted for another number of classes.
        """
        return self._apply(self._spread_probs, logits, probs)

    def to_dict(self) -> dict[str, Any]:
        """Options and learned state as plain data, fit for JSON.

        Raises:
            InputError: if it is not fitted.
        """
        self._need_fit()
        return {
            "calibrator": self.name,
            "state_version": STATE_VERSION,
            "options": self.get_params(),
            "num_classes": getattr(self, "num_classes_", None),
            "fitted_on": self.fitted_on_.to_dict(),
            "floor": self.floor_,
            "share": self.share_for_all_,
            "state": self._state(),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `to_dict` as JSON; the file appears whole or not at all."""
        write_json(path, self.to_dict())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options, as scikit-learn asks for them."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **options: Any) -> Self:
        """Change options, as scikit-learn does.

        Raises:
            InputError: if there is no such option.
        """
        known = self.get_params()
        for option, value in options.items():
            if option not in known:
                raise InputError(f"{self.name}: there is no option {option!r}; known: {', '.join(known)}.")
            setattr(self, option, value)
        return self

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({options})"

    def _repr_html_(self) -> str:
        options = {name: repr(value) for name, value in self.get_params().items()}
        if not self.__sklearn_is_fitted__():
            return card(type(self).__name__, about="not fitted", facts=options)
        rows = self.fitted_on_.count
        about = f"fitted on {rows:,} rows of {self.num_classes_} classes" if rows else "nothing to fit"
        return card(type(self).__name__, about=about, facts=options, headings=["learned", ""], rows=self._learned())

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags  # who asks has imported it

        required = self.parameters(2) > 0
        return Tags(estimator_type=None, target_tags=TargetTags(required=required), requires_fit=required)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "num_classes_") or self.parameters(2) == 0

    # What a calibrator writes:

    @abstractmethod
    def parameters(self, num_classes: int) -> int:
        """How many numbers are fitted for C classes; with none there is no need to call `fit`."""

    @abstractmethod
    def _fit(self, logits: FloatArray, y: IntArray, weight: FloatArray) -> None:
        """Learn from checked rows; weights add up to the number of rows that they are worth: 1 each where all are 1."""

    @abstractmethod
    def _transform(self, logits: FloatArray) -> FloatArray:
        """The calibrated logits."""

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """What was learned, as plain data."""

    @abstractmethod
    def _restore(self, state: Mapping[str, Any]) -> None:
        """Take back what `_state` gave."""

    # what it may write:

    def _is_as_published(self) -> bool:
        """Whether its options ask for a published procedure or plain likelihood, which is not to be changed."""
        return self.parameters(2) == 0 or getattr(self, "shrinkage", None) == 0

    def _learned(self) -> list[list[str]]:
        """What was learned, to be read: names and values."""
        return [[name.replace("_", " "), _brief(value)] for name, value in self._state().items()]

    # and what it gets:

    def _spread(self, logits: FloatArray) -> FloatArray:
        moved = self._transform(logits)
        return softened(moved, self.share_for_all_) if self.share_for_all_ else moved

    def _spread_probs(self, logits: FloatArray) -> FloatArray:
        probs = self._transform_probs(logits)
        return (
            (1 - self.share_for_all_) * probs + self.share_for_all_ / probs.shape[1] if self.share_for_all_ else probs
        )

    def _transform_probs(self, logits: FloatArray) -> FloatArray:
        return geometry.probs(self._transform(logits))

    def _check(self, logits: FloatArray, y: IntArray) -> None:
        """Warn where the rows cannot determine the map well."""
        num_classes = logits.shape[1]
        wanted = 5 * self.parameters(num_classes)
        if len(y) < wanted:
            warn(
                f"{self.name}: {len(y)} rows for {self.parameters(num_classes)} parameters; "
                f"{wanted} or more are advisable."
            )
        counts = np.bincount(y, minlength=num_classes)
        if self.parameters(num_classes) > 1 and (counts == 0).any():
            absent = ", ".join(map(str, np.flatnonzero(counts == 0)))
            warn(f"{self.name}: no row has class {absent}; nothing is learned about it.")

    def _need_fit(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise InputError(f"{type(self).__name__} is not fitted; call fit(logits, y) first.")

    def _as_logits(self, logits: Any, probs: Any) -> FloatArray:
        """What the fitted map is applied to."""
        if _by_logits(logits, probs):
            return _bounded(logits)
        predictions = Predictions(probs=probs)
        if self.floor_ is not None:
            probs = predictions.probs
            smallest = np.min(probs, axis=1, where=probs > 0, initial=1.0, keepdims=True)
            return np.log(np.where(probs > 0, probs, np.minimum(self.floor_, smallest / 2)))
        if self.parameters(2) > 0 and not predictions.probs.all():
            row = int(np.argmin(predictions.probs.min(axis=1)))
            raise InputError(
                f"probs: row {row} has a probability of 0, which has no logit, and {type(self).__name__} was fitted on "
                "logits. Give logits, or fit it on probabilities: what stands for 0 is then part of the fit."
            )
        return predictions.as_logits()[0]

    def _apply(self, function: Any, logits: Any, probs: Any) -> Any:
        source = logits if logits is not None else probs
        result = function(self._checked(logits, probs))
        return like(source, result) if hasattr(source, "detach") else result

    def _checked(self, logits: Any, probs: Any) -> FloatArray:
        """Logits that the fitted map can be applied to."""
        self._need_fit()
        values = self._as_logits(logits, probs)
        num_classes = getattr(self, "num_classes_", values.shape[1])  # any, where nothing was fitted
        if values.shape[1] != num_classes:
            raise InputError(f"{type(self).__name__} was fitted for {num_classes} classes, got {values.shape[1]}.")
        return values


def from_dict(state: Mapping[str, Any]) -> Calibrator:
    """The fitted calibrator that `Calibrator.to_dict` gave.

    Raises:
        InputError: if the data are of another kind or version.

    Example:
        >>> from orcu.calibrators import TemperatureScaling
        >>> fitted = TemperatureScaling().fit([[2.0, 0.0]] * 5, [0, 1, 0, 0, 0])
        >>> from_dict(fitted.to_dict()).temperature_ == fitted.temperature_
        True
    """
    if not isinstance(state, Mapping) or "calibrator" not in state:
        raise InputError("this is no calibrator: expected the JSON that `orcu calibrate fit` writes.")
    if state.get("state_version") != STATE_VERSION:
        raise InputError(
            f"state_version: this orcu reads {STATE_VERSION}, got {state.get('state_version')!r}; fit it anew."
        )
    from orcu.predictions.schemas import FittedCalibrator, validated

    checked = validated(FittedCalibrator, state, "the calibrator's data")
    try:
        calibrator: Calibrator = CALIBRATORS.create(checked.calibrator, **checked.options)
        if checked.num_classes is not None:
            calibrator.num_classes_ = checked.num_classes
        calibrator.fitted_on_ = UsedRows.from_dict(checked.fitted_on.model_dump())
        calibrator.floor_, calibrator.share_for_all_ = checked.floor, checked.share
        calibrator._restore(checked.state)
        calibrator._need_fit()
        logits = calibrator._spread(np.zeros((1, getattr(calibrator, "num_classes_", 2))))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"the calibrator's data are damaged ({error!r}); fit it anew.") from None
    if not np.isfinite(logits).all():
        raise InputError("the calibrator's data are damaged (not finite); fit it anew.")
    return calibrator


def load(path: str | os.PathLike[str]) -> Calibrator:
    """The calibrator in a JSON file that `Calibrator.save` wrote.

    Raises:
        InputError: if the file cannot be read as one.
    """
    return read_json(path, from_dict)


def _brief(value: Any) -> str:
    """A learned value in a few letters: numbers with four digits, and of large arrays the shape."""
    array = np.asarray(value)
    if array.dtype.kind != "f":
        return str(value)
    if array.size <= BRIEF:
        return ", ".join(f"{number:.4g}" for number in array.ravel())
    return f"{' x '.join(map(str, array.shape))} numbers from {array.min():.4g} to {array.max():.4g}"


def _bounded(logits: Any) -> FloatArray:
    return np.clip(as_logits(logits), -LARGEST, LARGEST)


def _by_logits(logits: Any, probs: Any) -> bool:
    """Whether predictions are given as logits.

    Raises:
        InputError: if they are given both ways, or not at all.
    """
    if (logits is None) == (probs is None):
        raise InputError("logits, probs: give exactly one of the two.")
    return logits is not None


def like(tensor: Any, values: FloatArray) -> Any:
    """The values as a tensor of the same kind, on the same device."""
    return tensor.new_tensor(values) if tensor.is_floating_point() else tensor.float().new_tensor(values)


def warn(text: str) -> None:
    """Warn whoever called `Calibrator.fit`, from within its `_check` or `_fit`."""
    warnings.warn(text, CalibrationWarning, stacklevel=4)
