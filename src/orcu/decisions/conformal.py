"""Prediction sets without holes: "grade 2 to 3", right as often as promised."""

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from orcu.errors import CalibrationWarning, InputError
from orcu.inputs import FloatArray, IntArray, as_fraction, as_labels, as_probs
from orcu.io.files import read_json, write_json
from orcu.predictions.used_rows import UsedRows

STATE_VERSION = 2
REUSED = (
    "have fitted the calibrator that moved them, so sets fitted on them would not keep their promise. "
    "Use other labelled rows."
)


class Fitted(Protocol):
    """What remembers the rows that fitted it, such as a calibrator."""

    @property
    def fitted_on_(self) -> UsedRows:
        """The rows."""


@dataclass(frozen=True)
class SetQuality:
    """How sets fare on labelled rows: coverage and mean size, overall and by true class."""

    coverage: float
    size: float
    class_coverage: FloatArray  # (C,), NaN for a class without rows
    class_size: FloatArray


class OrdinalPredictionSets:
    """Split-conformal sets that are always contiguous.

    Each row's classes are added around its mode, the likelier neighbour first, so the sets are nested
    intervals; a class's score is the mass of the interval that it joins. Sets hold the classes
    whose score is at most the ceil((n+1)(1-alpha))-th smallest score of the fitting rows' labels, and
    always the mode. For exchangeable rows the true class is inside with probability 1 - alpha or
    more, whatever the model.

    Args:
        alpha: the share of misses that is allowed.
        conditional: promise it for every true class; classes then have thresholds of their own, and
            holes are filled.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> probs = rng.dirichlet(np.ones(4), size=500)
        >>> y = (rng.random((500, 1)) > np.cumsum(probs, axis=1)[:, :-1]).sum(axis=1)
        >>> sets = OrdinalPredictionSets(alpha=0.1).fit(probs[:250], y[:250])
        >>> low, high = sets.predict(probs[250:])
        >>> bool(sets.quality(probs[250:], y[250:]).coverage > 0.85)
        True
    """

    def __init__(self, *, alpha: float = 0.1, conditional: bool = False) -> None:
        self.alpha = alpha
        self.conditional = conditional

    def fit(self, probs: Any, y: Any, *, ids: Any = None, calibrator: Fitted | None = None) -> Self:
        """Find the thresholds from labelled rows that neither trained nor calibrated the model.

        Args:
            probs: calibrated class probabilities, shape (n, C).
            y: labels 0..C-1, shape (n,).
            ids: one id per row, kept in ``fitted_on_`` so that these rows are not used again to judge.
            calibrator: the one that gave the probabilities, fitted with ids too; rows that it was
                fitted on are refused.

        Raises:
            InputError: if an argument cannot be used, or a row has fitted the calibrator.

        Warns:
            CalibrationWarning: if there are too few rows for the promise, so that sets must hold
                every class.
        """
        alpha = as_fraction(self.alpha, name="alpha")
        checked = as_probs(probs)
        num_classes = checked.shape[1]
        labels = as_labels(y, num_classes, rows=len(checked))
        used = UsedRows.of(checked, ids)
        if calibrator is not None and calibrator.fitted_on_.count:
            if used.ids is None or calibrator.fitted_on_.ids is None:
                raise InputError("ids: give them to the calibrator's fit and to this one, to tell if rows do two jobs.")
            calibrator.fitted_on_.refuse(used, because=REUSED)
        own = scores(checked)[np.arange(len(labels)), labels]
        groups = [labels == k for k in range(num_classes)] if self.conditional else [labels >= 0]
        thresholds = [_threshold(own[group], alpha) for group in groups]
        short = [k for k, value in enumerate(thresholds) if np.isinf(value)]
        if short:
            needed = int(np.ceil(1 / alpha)) - 1 if alpha > 0 else 0
            who = f"class {', '.join(map(str, short))}" if self.conditional else "the promise"
            then = "it is then in every set" if self.conditional else "these sets hold every class"
            more = f"{needed} rows or more" if alpha > 0 else "alpha above 0"
            warnings.warn(
                f"prediction sets: too few rows for {who} at alpha = {alpha:g} (it takes {more}"
                f"{' each' if self.conditional else ''}); {then}.",
                CalibrationWarning,
                stacklevel=2,
            )
        self.num_classes_ = num_classes
        self.fitted_on_ = used
        self.thresholds_ = np.array(thresholds if self.conditional else thresholds * num_classes)
        return self

    def predict(self, probs: Any) -> tuple[IntArray, IntArray]:
        """The lowest and the highest class of each row's set, both included.

        Raises:
            InputError: if it is not fitted, or was fitted for another number of classes.
        """
        if not hasattr(self, "thresholds_"):
            raise InputError("OrdinalPredictionSets is not fitted; call fit(probs, y) first.")
        checked = as_probs(probs)
        if checked.shape[1] != self.num_classes_:
            raise InputError(
                f"OrdinalPredictionSets was fitted for {self.num_classes_} classes, got {checked.shape[1]}."
            )
        inside = scores(checked) <= self.thresholds_
        inside[np.arange(len(checked)), checked.argmax(axis=1)] = True
        low = inside.argmax(axis=1)
        high = self.num_classes_ - 1 - inside[:, ::-1].argmax(axis=1)
        return low, high

    def quality(self, probs: Any, y: Any, *, ids: Any = None) -> SetQuality:
        """Coverage and size on labelled rows that were not used for fitting.

        Raises:
            InputError: if an argument cannot be used, or a row has fitted the sets.
        """
        low, high = self.predict(probs)
        self.fitted_on_.refuse(
            UsedRows.of(as_probs(probs), ids),
            because="have fitted these sets; coverage on them says nothing. Use other labelled rows.",
        )
        labels = as_labels(y, self.num_classes_, rows=len(low))
        hit = (low <= labels) & (labels <= high)
        size = high - low + 1
        counts = np.bincount(labels, minlength=self.num_classes_)
        by_class = [
            np.divide(
                np.bincount(labels, weights=values, minlength=self.num_classes_),
                counts,
                out=np.full(self.num_classes_, np.nan),
                where=counts > 0,
            )
            for values in (hit, size)
        ]
        return SetQuality(float(hit.mean()), float(size.mean()), *by_class)

    def to_dict(self) -> dict[str, Any]:
        """Options and thresholds as plain data, fit for JSON; None stands for "every class"."""
        return {
            "prediction_sets": "ordinal",
            "state_version": STATE_VERSION,
            "alpha": self.alpha,
            "conditional": self.conditional,
            "num_classes": self.num_classes_,
            "fitted_on": self.fitted_on_.to_dict(),
            "thresholds": [value if np.isfinite(value) else None for value in self.thresholds_.tolist()],
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "OrdinalPredictionSets":
        """The fitted sets that `to_dict` gave.

        Raises:
            InputError: if the data are of another kind or version.
        """
        if not isinstance(state, Mapping) or state.get("prediction_sets") != "ordinal":
            raise InputError("these are no prediction sets: expected the JSON that `orcu sets fit` writes.")
        if state.get("state_version") != STATE_VERSION:
            raise InputError(f"state_version: this orcu reads {STATE_VERSION}; fit the sets anew.")
        from orcu.predictions.schemas import FittedSets, validated

        checked = validated(FittedSets, state, "the sets' data")
        sets = cls(alpha=checked.alpha, conditional=checked.conditional)
        sets.num_classes_ = checked.num_classes
        sets.fitted_on_ = UsedRows.from_dict(checked.fitted_on.model_dump())
        sets.thresholds_ = np.array([np.inf if t is None else t for t in checked.thresholds], dtype=np.float64)
        if sets.thresholds_.shape != (sets.num_classes_,):
            raise InputError("the sets' data are damaged (a threshold for each class is needed); fit anew.")
        return sets

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `to_dict` as JSON; the file appears whole or not at all."""
        write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "OrdinalPredictionSets":
        """The sets in a JSON file that `save` wrote.

        Raises:
            InputError: if the file cannot be read as such.
        """
        return read_json(path, cls.from_dict)


class CrossConformalSets:
    """Contiguous sets from predictions that were made out of fold: CV+, which needs no rows of its own.

    With the scores s of `OrdinalPredictionSets`, s_i of row i by the members of its fold k(i), and s_k(x, c) of class c
    of a new row by the members of fold k, the set is

        {c : #{i : s_i < s_k(i)(x, c)} < (1 - alpha)(n + 1)},

    with its holes filled, and always the mode. For exchangeable rows and members that treat them alike the true class
    is inside with probability 1 - 2 alpha - min(2 (1 - 1/K) / (n/K + 1), (1 - K/n) / (K + 1)) at least (Barber et al.,
    2021; Romano et al., 2020); in practice with 1 - alpha. What all folds share, such as a calibrator fitted on all
    out-of-fold rows, is not covered by the proof; the documentation shows what it does to coverage.

    Args:
        alpha: the share of misses that is aimed at.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> probs = rng.dirichlet(np.ones(4), size=600)
        >>> y = (rng.random((600, 1)) > np.cumsum(probs, axis=1)[:, :-1]).sum(axis=1)
        >>> sets = CrossConformalSets(alpha=0.1).fit(probs[:400], y[:400], fold=np.arange(400) % 5)
        >>> low, high = sets.predict(np.stack([probs[400:]] * 5))
        >>> bool(((low <= y[400:]) & (y[400:] <= high)).mean() > 0.85)
        True
    """

    def __init__(self, *, alpha: float = 0.1) -> None:
        self.alpha = alpha

    def fit(self, probs: Any, y: Any, *, fold: Any) -> Self:
        """Keep the scores of labelled rows.

        Args:
            probs: of each row by the members of its fold, shape (n, C).
            y: labels 0..C-1.
            fold: of each row, 0..K-1.

        Raises:
            InputError: if an argument cannot be used.
        """
        checked = as_probs(probs)
        self.num_classes_ = checked.shape[1]
        labels = as_labels(y, self.num_classes_, rows=len(checked))
        folds = np.asarray(fold)
        if folds.shape != labels.shape or folds.dtype.kind not in "iu" or folds.min() < 0:
            raise InputError(f"fold: expected the fold 0..K-1 of each of {len(labels)} rows.")
        own = scores(checked)[np.arange(len(labels)), labels]
        self.scores_ = [np.sort(own[folds == k]) for k in range(int(folds.max()) + 1)]
        return self

    def predict(self, probs: Any) -> tuple[IntArray, IntArray]:
        """The lowest and the highest class of each row's set, both included.

        Args:
            probs: of each new row by the members of every fold, shape (K, n, C).

        Raises:
            InputError: if it is not fitted, the shape is another, or it was fitted on too few rows for this alpha.
        """
        if not hasattr(self, "scores_"):
            raise InputError("CrossConformalSets is not fitted; call fit(probs, y, fold=...) first.")
        alpha, rows = as_fraction(self.alpha, name="alpha"), sum(map(len, self.scores_))
        if not alpha or rows < 1 / alpha - 1:
            raise InputError(f"alpha: {rows} rows are too few for {alpha}; ask for a larger alpha.")
        if np.ndim(probs) != 3 or len(probs) != len(self.scores_) or np.shape(probs)[2] != self.num_classes_:
            raise InputError(
                f"probs: expected shape ({len(self.scores_)}, n, {self.num_classes_}), a distribution by each fold; "
                f"got {np.shape(probs)}."
            )
        by_fold = [as_probs(one) for one in probs]
        counts = [np.searchsorted(own, scores(one)) for own, one in zip(self.scores_, by_fold, strict=True)]
        below = np.sum(counts, axis=0)
        inside = below < (1 - alpha) * (rows + 1) - 1e-9
        inside[np.arange(len(inside)), np.mean(by_fold, axis=0).argmax(axis=1)] = True
        return inside.argmax(axis=1), self.num_classes_ - 1 - inside[:, ::-1].argmax(axis=1)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the scores as JSON; the file appears whole or not at all."""
        state = {
            "prediction_sets": "cross",
            "state_version": STATE_VERSION,
            "num_classes": self.num_classes_,
            "scores": [own.tolist() for own in self.scores_],
        }
        write_json(path, state)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, alpha: float = 0.1) -> "CrossConformalSets":
        """The sets in a JSON file that `save` wrote, at any alpha.

        Raises:
            InputError: if the file cannot be read as such.
        """
        return read_json(path, cls(alpha=alpha)._restore)

    def _restore(self, state: Any) -> "CrossConformalSets":
        if not isinstance(state, Mapping) or state.get("prediction_sets") != "cross":
            raise InputError("these are no prediction sets of an ensemble: expected the sets.json of `orcu train`.")
        if state.get("state_version") != STATE_VERSION:
            raise InputError(f"state_version: this orcu reads {STATE_VERSION}; train anew.")
        from orcu.predictions.schemas import FittedCrossSets, validated

        checked = validated(FittedCrossSets, state, "the sets' data")
        self.num_classes_ = checked.num_classes
        self.scores_ = [np.sort(np.array(own, dtype=np.float64)) for own in checked.scores]
        return self


def scores(probs: FloatArray) -> FloatArray:
    """The mass of the interval, grown from the mode, before each class joins it, shape (n, C).

    Of two neighbours the likelier joins first, the lower one on a tie. (Counting the class's own mass
    would give every last class a score of 1, a tie that makes sets too large.) Each step also adds
    1e-9, so that classes too unlikely to move the mass keep the order in which they join.

    Example:
        >>> scores(np.array([[0.1, 0.5, 0.3, 0.1]])).round(3)
        array([[0.8, 0. , 0.5, 0.9]])
    """
    n, size = probs.shape
    rows = np.arange(n)
    low = high = probs.argmax(axis=1)
    mass = probs[rows, low]
    out = np.zeros_like(probs)
    padded = np.concatenate([np.full((n, 1), -1.0), probs, np.full((n, 1), -1.0)], axis=1)
    for step in range(1, size):
        below, above = padded[rows, low], padded[rows, high + 2]
        down = below >= above
        low, high = low - down, high + ~down
        out[rows, np.where(down, low, high)] = mass + 1e-9 * step
        mass = mass + np.where(down, below, above)
    return out


def _threshold(own: FloatArray, alpha: float) -> float:
    """The ceil((n+1)(1-alpha))-th smallest score; infinite if there is none."""
    rank = int(np.ceil((len(own) + 1) * (1 - alpha) - 1e-9))
    return float(np.sort(own)[rank - 1]) if rank <= len(own) else np.inf
