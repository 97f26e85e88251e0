"""Base class of the calibrators: input checks, fitting, prediction and JSON files."""

import inspect
import os
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from orcu import errors, geometry
from orcu.errors import CalibrationWarning, InputError
from orcu.inputs import (
    FloatArray,
    IntArray,
    as_codes,
    as_labels,
    as_logits,
    as_sample_weight,
    as_strings,
    check_not_probs,
)
from orcu.io.files import check_digest, read_json, with_digest, write_json
from orcu.predictions import Predictions
from orcu.predictions.used_rows import UsedRows
from orcu.raters.votes import Targets, as_votes, is_counts, is_votes, weighted_rows
from orcu.registry import Registry
from orcu.threads import one_blas_thread

STATE_VERSION = 2
ROWS_PER_PARAMETER = 5  # fewer rows cause a warning
MULTITHREADED_ROWS = 100_000  # from here on several BLAS threads pay off
MAX_SHOWN_NUMBERS = 8  # larger arrays are summarised
MAX_PARAMETER = 1e100  # larger fitted numbers are damage: products with logits would overflow
MAX_LOGIT = 1e9  # larger logits are clipped: the probabilities are the same, and squares do not overflow
CALIBRATORS: Registry[type["Calibrator"]] = Registry(
    "calibrator", package="orcu.calibrators", plugins="orcu.calibrators"
)


class Calibrator(ABC):
    """A map from a model's logits to calibrated logits, fitted on rows the model was not trained on.

    Call ``fit(logits, y)``, then ``predict_logits`` or ``predict_proba``; pass probabilities as ``probs=``. numpy
    arrays give float64 arrays, torch tensors give tensors on the same device. As in scikit-learn, options are stored
    unchanged and fitted attributes end in ``_``. A calibrator without parameters, such as the projection, predicts
    without `fit`.

    Two defaults protect against small samples. The fitted parameters are shrunk towards the uncalibrated model by a
    prior that is worth a fixed number of rows (chosen with ``benchmarks/few_rows.py``). Every prediction is mixed with
    the uniform distribution, with weight 1 / (2 (n + C)): a class that did not occur in n rows may occur in the next
    one. The mixture keeps unimodal rows unimodal. Options switch both off for published procedures.

    Subclasses define `n_parameters`, `_fit`, `_transform`, `_state` and `_restore`.
    """

    # Implements scikit-learn's estimator API without its base class: importing sklearn.base takes 0.9 s.

    name: ClassVar[str]
    expands_votes: ClassVar[bool] = True  # whether `_fit` gets votes as weighted rows, not as (n, C)
    frequency_weights: ClassVar[bool] = True  # whether a weight of 2 equals a repeated row, apart from shrinkage
    accepts_subgroup: ClassVar[bool] = False  # whether `fit` and `predict_*` take ``subgroup=``
    num_classes_: int
    floor_: float | None = None  # replacement of a probability of 0, if fitted on probabilities
    uniform_share_: float = 0.0  # share of the uniform distribution in every prediction
    votes_: Mapping[str, int | None] | None = None  # numbers of cases and votes, if fitted on votes

    @cached_property
    def fitted_on_(self) -> UsedRows:
        """The rows of the fit; no rows if there is nothing to fit."""
        self._check_is_fitted()
        return UsedRows.from_values(np.empty((0, 0)), ids=())

    def fit(
        self,
        logits: Any = None,
        y: Any = None,
        *,
        probs: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        ids: Any = None,
    ) -> Self:
        """Fit the map on held-out rows.

        Args:
            logits: logits of shape (n, C), or ``None`` if ``probs`` is given.
            y: labels 0..C-1, shape (n,); or votes of several raters, counts or shares of shape (n, C). A case with
                votes counts as one row, and its likelihood is the mean over its votes.
            probs: class probabilities of shape (n, C), instead of logits.
            sample_weight: non-negative weight of each row.
            groups: cluster of each row, such as its patient (scikit-learn's name); rows of a cluster stay in one fold
                of the cross-validation.
            ids: id of each row, stored in ``fitted_on_`` to detect evaluation on the same rows.

        Raises:
            InputError: if an argument is invalid; the message names the row.

        Warns:
            CalibrationWarning: if there are few rows or a class is missing.
        """
        return self._check_and_fit(logits, y, probs, sample_weight, groups, ids)

    def _check_and_fit(
        self, logits: Any, y: Any, probs: Any, sample_weight: Any, groups: Any, ids: Any, **columns: Any
    ) -> Self:
        """Check the arguments of `fit`, drop rows of weight 0, and call `_fit`; ``columns`` are further row labels."""
        self._check_options()
        values = _clip_logits(logits) if _are_logits(logits, probs) else Predictions(probs=probs).as_logits()[0]
        if logits is not None:
            check_not_probs(values, name="logits", hint="Pass them as probs=.")
        n, num_classes = values.shape
        votes = as_votes(y, num_classes, rows=n) if is_votes(y) else None
        targets: Targets = as_labels(y, num_classes, rows=n) if votes is None else votes
        weights = np.ones(n) if sample_weight is None else as_sample_weight(sample_weight, rows=n)
        used = weights > 0
        group_codes = None if groups is None else as_codes(groups, rows=n, name="groups")[used]
        used_columns = {
            name: None if column is None else as_strings(column, rows=n, name=name)[used]
            for name, column in columns.items()
        }
        self._check_rows(values[used], weighted_rows(targets[used]).label)
        self.num_classes_ = num_classes
        self.floor_ = None if logits is not None else float(np.exp(values.min()))  # also replaces 0 when predicting
        self.fitted_on_ = UsedRows.from_values(values, ids)
        self.votes_ = None if votes is None else _vote_numbers(votes[used])
        weights = weights[used] / weights[used].mean()
        self.uniform_share_ = 0.0
        if self._shrinks():
            n_effective = float(weights.sum() ** 2 / (weights @ weights))  # Kish's effective sample size
            self.uniform_share_ = 0.5 / (n_effective + num_classes)
            weights = weights * (n_effective / len(weights))
        values, targets = values[used], targets[used]
        if votes is not None and self.expands_votes:
            case, targets, weights = weighted_rows(targets, weights)
            if not self._shrinks():  # penalties of published procedures are those of a mean loss
                weights = weights / weights.mean()
            values, group_codes = values[case], case if group_codes is None else group_codes[case]
            used_columns = {name: None if column is None else column[case] for name, column in used_columns.items()}
        try:
            with one_blas_thread() if n < MULTITHREADED_ROWS else nullcontext():
                self._fit(values, targets, weights, group_codes, **used_columns)
        except Exception:
            del self.num_classes_  # not fitted
            raise
        return self

    def predict_logits(self, logits: Any = None, *, probs: Any = None) -> Any:
        """Calibrated logits, shape (n, C).

        Raises:
            NotFittedError: if the calibrator is not fitted.
            InputError: if an argument is invalid, or the calibrator was fitted for another number of classes.
        """
        return self._predict(self._mixed_logits, logits, probs)

    def predict_proba(self, logits: Any = None, *, probs: Any = None) -> Any:
        """Calibrated probabilities, shape (n, C); see `predict_logits`."""
        return self._predict(self._mixed_probs, logits, probs)

    def to_dict(self) -> dict[str, Any]:
        """Options and fitted state as JSON-serialisable data."""
        self._check_is_fitted()
        state = {
            "calibrator": self.name,
            "state_version": STATE_VERSION,
            "options": self.get_params(),
            "num_classes": getattr(self, "num_classes_", None),
            "fitted_on": self.fitted_on_.to_dict(),
            "floor": self.floor_,
            "share": self.uniform_share_,
            "state": self._state(),
        }
        return state if self.votes_ is None else state | {"votes": dict(self.votes_)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `to_dict` and its digest to a JSON file; the write is atomic."""
        write_json(path, with_digest(self.to_dict()))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options, as in scikit-learn."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **options: Any) -> Self:
        """Change options, as in scikit-learn."""
        names = self.get_params()
        for option, value in options.items():
            if option not in names:
                raise InputError(f"{self.name}: there is no option {option!r}; its options are: {', '.join(names)}.")
            setattr(self, option, value)
        return self

    def __repr__(self) -> str:
        defaults = {name: option.default for name, option in inspect.signature(type(self)).parameters.items()}
        values = {name: value for name, value in self.get_params().items() if repr(value) != repr(defaults.get(name))}
        if self.__sklearn_is_fitted__():
            values |= self._fitted_values()
        return f"{type(self).__name__}({', '.join(f'{name}={_short(value)}' for name, value in values.items())})"

    def _repr_html_(self) -> str:
        from orcu.report.card_html import card

        options = {name: repr(value) for name, value in self.get_params().items()}
        if not self.__sklearn_is_fitted__():
            return card(type(self).__name__, about="not fitted", facts=options)
        rows = self.fitted_on_.count
        about = f"fitted on {rows:,} rows of {self.num_classes_} classes" if rows else "nothing to fit"
        return card(type(self).__name__, about=about, facts=options, headings=["fitted", ""], rows=self._summary())

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags  # imported already by any caller

        required = self.n_parameters(2) > 0
        return Tags(estimator_type=None, target_tags=TargetTags(required=required), requires_fit=required)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "num_classes_") or self.n_parameters(2) == 0

    # Every subclass defines:

    @abstractmethod
    def n_parameters(self, num_classes: int) -> int:
        """Number of fitted parameters for C classes; with 0, `fit` is optional."""

    @abstractmethod
    def _fit(self, logits: FloatArray, y: IntArray, sample_weight: FloatArray, groups: IntArray | None) -> None:
        """Fit on checked rows; weights are positive and sum to the effective number of rows, or of cases with votes.

        The rows of the votes of a case are of one cluster. Calibrators with ``expands_votes = False`` get the
        votes, shape (n, C), as ``y``.
        """

    @abstractmethod
    def _transform(self, logits: FloatArray) -> FloatArray:
        """Calibrated logits, before the mixture with the uniform distribution."""

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """The fitted state as JSON-serialisable data."""

    @abstractmethod
    def _restore(self, state: Mapping[str, Any]) -> None:
        """Set the fitted state from what `_state` returned."""

    # A subclass may override:

    def _check_options(self) -> None:  # noqa: B027 -- optional
        """Raise `InputError` if an option is invalid; called by `fit` and when a file is read."""

    def _shrinks(self) -> bool:
        """Whether fit and predictions are regularised here: not in published procedures, nor twice around a step."""
        return self.n_parameters(2) > 0 and getattr(self, "shrinkage", None) != 0

    def _summary(self) -> list[list[str]]:
        """Names and values of the fitted state, as text."""
        return [[name.replace("_", " "), _summarise(value)] for name, value in self._state().items()]

    def _fitted_values(self) -> dict[str, Any]:
        """Fitted values that `__repr__` shows: single numbers, and the number of rows."""
        numbers = {name: value for name, value in self._state().items() if isinstance(value, float)}
        return numbers | ({"n_rows": self.fitted_on_.count} if self.fitted_on_.count else {})

    def _transform_probs(self, logits: FloatArray) -> FloatArray:
        return geometry.probs(self._transform(logits))

    def _check_rows(self, logits: FloatArray, y: IntArray) -> None:
        """Warn if there are few rows for the parameters, or a class has no rows; ``y`` has the labels of all votes."""
        num_classes = logits.shape[1]
        parameters = self.n_parameters(num_classes)
        advised = ROWS_PER_PARAMETER * parameters
        if len(logits) < advised:
            warn(f"{self.name}: {len(logits)} rows for {parameters} parameters; at least {advised} rows are advisable.")
        if parameters > 1:
            warn_of_absent_classes(self.name, y, num_classes)

    # Shared by all subclasses:

    def _mixed_logits(self, logits: FloatArray) -> FloatArray:
        transformed, share = self._transform(logits), self.uniform_share_
        if not share:
            return transformed
        mixed: FloatArray = np.logaddexp(
            geometry.log_probs(transformed) + np.log1p(-share), np.log(share / transformed.shape[1])
        )
        return mixed

    def _mixed_probs(self, logits: FloatArray) -> FloatArray:
        probs, share = self._transform_probs(logits), self.uniform_share_
        return (1 - share) * probs + share / probs.shape[1] if share else probs

    def _check_is_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise errors.NotFittedError(f"{type(self).__name__} is not fitted; call fit(logits, y) first.")

    def _as_logits(self, logits: Any, probs: Any) -> FloatArray:
        """Logits from either argument of `predict_logits`."""
        if _are_logits(logits, probs):
            return _clip_logits(logits)
        predictions = Predictions(probs=probs)
        if self.floor_ is not None:
            probs = predictions.probs
            smallest = np.min(probs, axis=1, where=probs > 0, initial=1.0, keepdims=True)
            return np.log(np.where(probs > 0, probs, np.minimum(self.floor_, smallest / 2)))
        if self.n_parameters(2) > 0 and not predictions.probs.all():
            row = int(np.argmin(predictions.probs.min(axis=1)))
            raise InputError(
                f"probs: row {row} has a probability of 0, whose logit is infinite, and {type(self).__name__} was "
                "fitted on logits. Pass logits, or fit on probabilities: the fit then stores a replacement for 0."
            )
        return predictions.as_logits()[0]

    def _predict(self, function: Callable[[FloatArray], FloatArray], logits: Any, probs: Any) -> Any:
        """Apply a function of checked logits, and return an array or tensor like the input."""
        return as_input_type(logits if logits is not None else probs, function(self._check_input(logits, probs)))

    def _check_input(self, logits: Any, probs: Any) -> FloatArray:
        """Logits of the fitted number of classes."""
        self._check_is_fitted()
        values = self._as_logits(logits, probs)
        num_classes = getattr(self, "num_classes_", values.shape[1])  # any number if nothing was fitted
        if values.shape[1] != num_classes:
            raise InputError(f"{type(self).__name__} was fitted for {num_classes} classes, got {values.shape[1]}.")
        return values


class WrappedCalibrator(Calibrator):
    """Base class of calibrators that predict with another fitted one, ``fitted_``, which does the shrinking."""

    frequency_weights = False  # the wrapped calibrator shrinks
    fitted_: Calibrator

    def _shrinks(self) -> bool:
        return False

    def _transform(self, logits: FloatArray) -> FloatArray:
        transformed: FloatArray = self.fitted_.predict_logits(logits)
        return transformed

    def _transform_probs(self, logits: FloatArray) -> FloatArray:
        probs: FloatArray = self.fitted_.predict_proba(logits)
        return probs


def clone(calibrator: Calibrator) -> Calibrator:
    """A copy with the same options that is not fitted."""
    return type(calibrator)(**calibrator.get_params())


def from_dict(state: Mapping[str, Any]) -> Calibrator:
    """Restore a fitted calibrator from the data of `Calibrator.to_dict`.

    Raises:
        InputError: if the data are not those of a calibrator of this version.

    Example:
        >>> from orcu.calibrators import TemperatureScaling
        >>> fitted = TemperatureScaling().fit([[2.0, 0.0]] * 5, [0, 1, 0, 0, 0])
        >>> from_dict(fitted.to_dict()).temperature_ == fitted.temperature_
        True
    """
    if not isinstance(state, Mapping) or "calibrator" not in state:
        raise InputError("not a calibrator: expected the JSON data that `orcu calibrate fit` writes.")
    if state.get("state_version") != STATE_VERSION:
        raise InputError(
            f"state_version: expected {STATE_VERSION}, got {state.get('state_version')!r}; fit the calibrator again."
        )
    from orcu.calibrators._schemas import CalibratorSchema
    from orcu.io.schema import validate

    checked = validate(CalibratorSchema, state, "the calibrator's data")
    try:
        calibrator: Calibrator = CALIBRATORS.create(checked.calibrator, **checked.options)
        if checked.num_classes is not None:
            calibrator.num_classes_ = checked.num_classes
        calibrator.fitted_on_ = UsedRows.from_dict(checked.fitted_on.model_dump())
        calibrator.floor_, calibrator.uniform_share_ = checked.floor, checked.share
        calibrator.votes_ = None if checked.votes is None else checked.votes.model_dump()
        calibrator._check_options()
        calibrator._restore(checked.state)
        calibrator._check_is_fitted()
        logits = calibrator._mixed_logits(np.zeros((1, getattr(calibrator, "num_classes_", 2))))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InputError(f"the calibrator's data are damaged ({_cause(error)}); fit the calibrator again.") from None
    if not np.isfinite(logits).all():
        raise InputError("the calibrator's data are damaged (not finite); fit the calibrator again.")
    return calibrator


def load(path: str | os.PathLike[str]) -> Calibrator:
    """Read a calibrator from a JSON file that `Calibrator.save` wrote.

    Raises:
        InputError: if the file is not that of a calibrator, or was changed or damaged after it was written.
    """
    return read_json(path, lambda content: from_dict(check_digest(content)))


def restored_array(values: Any, shape: tuple[int, ...], *, name: str, limit: float = MAX_PARAMETER) -> FloatArray:
    """Numbers of a file as a float64 array, for `Calibrator._restore`.

    Raises:
        ValueError: if there are other types than numbers, another shape, or a number beyond ``limit`` in size.

    Example:
        >>> restored_array([1, 2.5], (2,), name="bias")
        array([1. , 2.5])
    """
    array = np.array(values, dtype=object)
    if array.shape != shape:
        raise ValueError(f"{name}: shape {array.shape}, expected {shape}")
    if any(type(value) not in (int, float) for value in array.ravel()):
        raise ValueError(f"{name}: expected numbers")
    numbers: FloatArray = array.astype(np.float64)
    if not (np.abs(numbers) <= limit).all():
        raise ValueError(f"{name}: expected numbers from {-limit:g} to {limit:g}")
    return numbers


def restored_number(value: Any, *, name: str, low: float, high: float) -> float:
    """A number of a file, for `Calibrator._restore`; raises ValueError if it is not from ``low`` to ``high``."""
    if type(value) not in (int, float) or not low <= value <= high:
        raise ValueError(f"{name}: expected a number from {low:g} to {high:g}, got {value!r}")
    return float(value)


def as_input_type(source: Any, values: FloatArray) -> Any:
    """The values as a tensor like ``source`` if that is a tensor, else unchanged."""
    if not hasattr(source, "detach"):
        return values
    return source.new_tensor(values) if source.is_floating_point() else source.float().new_tensor(values)


def warn(message: str) -> None:
    """Issue a `CalibrationWarning` at the caller's line outside orcu."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("orcu."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, CalibrationWarning, stacklevel=level)


def warn_of_absent_classes(name: str, y: IntArray, num_classes: int) -> None:
    """Warn if a class has no rows."""
    absent = np.flatnonzero(np.bincount(y, minlength=num_classes) == 0)
    if len(absent):
        classes = ", ".join(map(str, absent))
        warn(f"{name}: no row has class {classes}, so its calibration cannot be fitted. Use rows of all classes.")


def _vote_numbers(votes: FloatArray) -> dict[str, int | None]:
    """Numbers of cases and of their votes; the latter is ``None`` for shares."""
    return {"cases": len(votes), "votes": int(votes.sum()) if is_counts(votes) else None}


def _cause(error: Exception) -> str:
    """What is wrong with the data of a file; a message of orcu says it, the others need the type of the error."""
    return f"{error}" if type(error) is ValueError or isinstance(error, InputError) else f"{error!r}"


def _summarise(value: Any) -> str:
    """A fitted value as text: numbers with four digits, large arrays by shape and range."""
    array = np.asarray(value)
    if array.dtype.kind != "f":
        return str(value)
    if array.size <= MAX_SHOWN_NUMBERS:
        return ", ".join(f"{number:.4g}" for number in array.ravel())
    return f"{' x '.join(map(str, array.shape))} numbers from {array.min():.4g} to {array.max():.4g}"


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else repr(value)


def _clip_logits(logits: Any) -> FloatArray:
    return np.clip(as_logits(logits), -MAX_LOGIT, MAX_LOGIT)


def _are_logits(logits: Any, probs: Any) -> bool:
    """Whether the predictions are logits; exactly one of both must be given."""
    if (logits is None) == (probs is None):
        raise InputError("logits, probs: pass exactly one of the two.")
    return logits is not None
