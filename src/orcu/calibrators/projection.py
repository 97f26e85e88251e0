"""Unimodal projection: the nearest unimodal distribution in least squares, exact for any prediction."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from orcu import geometry
from orcu.calibrators.base import CALIBRATORS, Calibrator, as_input_type
from orcu.inputs import FloatArray, IntArray
from orcu.predictions import Predictions

# Modes whose distances differ by less are tied, and the first is taken. Symmetric rows have ties, which rounding would
# otherwise break differently on each platform.
TIE_TOLERANCE = 1e-12
LOG_OF_ZERO = -1e6  # below the log-likelihoods that count as infinite, and not so large that it looks like an error


@CALIBRATORS.register("projection")
class UnimodalProjection(Calibrator):
    """The closest unimodal distribution in least squares; unimodal rows do not change.

    For each mode the rising part is an increasing isotonic regression and the falling part a decreasing one; the best
    mode gives the exact projection. Values stay non-negative and sum to 1. There is nothing to fit: `fit` only stores
    the number of classes, which predictions are then checked against, and the rows.

    Example:
        >>> UnimodalProjection().predict_proba(probs=[[0.5, 0.1, 0.4]])
        array([[0.5 , 0.25, 0.25]])
    """

    name = "projection"

    def n_parameters(self, num_classes: int) -> int:
        """None."""
        return 0

    def _fit(self, logits: FloatArray, y: IntArray, sample_weight: FloatArray, groups: IntArray | None) -> None:
        pass

    def predict_proba(self, logits: Any = None, *, probs: Any = None) -> Any:
        """The nearest unimodal probabilities, shape (n, C); zeros of ``probs`` are projected as they are."""
        if logits is not None or probs is None:
            return super().predict_proba(logits, probs=probs)
        return self._project(probs, lambda unimodal: unimodal)

    def predict_logits(self, logits: Any = None, *, probs: Any = None) -> Any:
        """Logarithms of the nearest unimodal probabilities, shape (n, C); that of 0 is -1e6.

        So 0 remains 0, and the negative log-likelihood of a true class with a probability of 0 is infinite, as before.
        """
        if logits is not None or probs is None:
            return super().predict_logits(logits, probs=probs)
        return self._project(probs, lambda unimodal: np.where(unimodal > 0, finite_log(unimodal), LOG_OF_ZERO))

    def _project(self, probs: Any, transform: Callable[[FloatArray], FloatArray]) -> Any:
        """Project probabilities without logits, which zeros do not have."""
        self._check_input(None, probs)
        return as_input_type(probs, transform(nearest_unimodal(Predictions(probs=probs).probs)))

    def _transform_probs(self, logits: FloatArray) -> FloatArray:
        return nearest_unimodal(geometry.probs(logits))

    def _transform(self, logits: FloatArray) -> FloatArray:
        return finite_log(self._transform_probs(logits))

    def _state(self) -> dict[str, Any]:
        return {}

    def _restore(self, state: Mapping[str, Any]) -> None:
        pass


def finite_log(probs: FloatArray) -> FloatArray:
    """Logarithms, with the smallest normal number in place of smaller probabilities."""
    return np.log(np.maximum(probs, np.finfo(np.float64).tiny))


def nearest_unimodal(probs: FloatArray) -> FloatArray:
    """Project probabilities of shape (n, C) on the unimodal distributions, in least squares.

    Example:
        >>> nearest_unimodal(np.array([[0.5, 0.1, 0.4], [0.2, 0.5, 0.3]]))
        array([[0.5 , 0.25, 0.25],
               [0.2 , 0.5 , 0.3 ]])
    """
    multimodal = ~geometry.is_unimodal(probs)
    if not multimodal.any():
        return probs
    rows = probs[multimodal]
    size = rows.shape[1]
    left, right = _IsotonicRegression(rows), _IsotonicRegression(rows[:, ::-1])
    error = np.zeros((len(rows), size))
    for k in range(size):
        error[:, k] += left.push()
        if k + 1 < size:
            error[:, size - 2 - k] += right.push()
    distance = np.sqrt(error)
    # last class of the rising part, for the first mode among the nearest
    last = (distance <= distance.min(axis=1, keepdims=True) + TIE_TOLERANCE).argmax(axis=1)
    projected = probs.copy()
    projected[multimodal] = _isotonic_upto(rows, last) + _isotonic_upto(rows[:, ::-1], size - 2 - last)[:, ::-1]
    return projected


def _isotonic_upto(rows: FloatArray, last: IntArray) -> FloatArray:
    """Increasing fit of the classes 0..last of each row, 0 elsewhere."""
    regression = _IsotonicRegression(rows)
    out = np.zeros_like(rows)
    for k in range(rows.shape[1]):
        regression.push()
        done = np.flatnonzero(last == k)
        if len(done):
            out[done] = regression.values(done)
    return out


class _IsotonicRegression:
    """Increasing isotonic regression of many rows at once: pool adjacent violators, class by class.

    The blocks of a row are a stack: sums, counts and the index of the top block.
    """

    def __init__(self, rows: FloatArray) -> None:
        self.rows = rows
        n, size = rows.shape
        self.sums, self.counts = np.zeros((n, size)), np.zeros((n, size))
        self.top = np.full(n, -1)
        self.error = np.zeros(n)  # squared distance of the fit so far
        self.next = 0

    def push(self) -> FloatArray:
        """Add the next class to every row and return the squared distance of the fit so far."""
        all_rows = np.arange(len(self.rows))
        value = self.rows[:, self.next]
        self.next += 1
        self.top += 1
        self.sums[all_rows, self.top], self.counts[all_rows, self.top] = value, 1
        rows = np.flatnonzero(self.top > 0)
        while len(rows):
            top = self.top[rows]
            upper, lower = self.sums[rows, top], self.sums[rows, top - 1]
            upper_count, lower_count = self.counts[rows, top], self.counts[rows, top - 1]
            violating = lower * upper_count > upper * lower_count
            rows, top = rows[violating], top[violating]
            upper, lower = upper[violating], lower[violating]
            upper_count, lower_count = upper_count[violating], lower_count[violating]
            self.sums[rows, top - 1] += upper
            self.counts[rows, top - 1] += upper_count
            self.counts[rows, top] = 0
            # increase by merging two blocks, as a sum of squares, so that small distances keep their digits
            merged = lower_count * upper_count / (lower_count + upper_count)
            self.error[rows] += merged * (lower / lower_count - upper / upper_count) ** 2
            self.top[rows] -= 1
            rows = rows[self.top[rows] > 0]
        return self.error.copy()

    def values(self, rows: IntArray) -> FloatArray:
        """Fitted values of some rows, class by class; 0 for classes that were not added."""
        out = np.zeros((len(rows), self.rows.shape[1]))
        ends = np.cumsum(self.counts[rows], axis=1)
        classes = np.arange(self.rows.shape[1])
        for block in range(int(self.top[rows].max()) + 1):
            count = self.counts[rows, block]
            mean = np.divide(self.sums[rows, block], count, out=np.zeros(len(rows)), where=count > 0)
            inside = (classes >= (ends[:, block] - count)[:, None]) & (classes < ends[:, block][:, None])
            inside &= (block <= self.top[rows])[:, None]
            out = np.where(inside, mean[:, None], out)
        return out
