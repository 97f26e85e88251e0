"""Unimodal projection: the nearest unimodal distribution, exact, for any predictions."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from orcu import geometry
from orcu.calibrators.base import CALIBRATORS, Calibrator, like
from orcu.inputs import FloatArray, IntArray
from orcu.predictions.predictions import Predictions

# Splits whose distances differ by less are equally near, and the first is taken. Symmetric rows have such
# splits; without this, rounding would choose between their fits, and differently on every platform.
TIE = 1e-12


@CALIBRATORS.register("projection")
class UnimodalProjection(Calibrator):
    """The closest unimodal distribution in least squares; rows that are unimodal stay as they are.

    Over every split the rising part is the increasing isotonic regression, the falling part the
    decreasing one; the best split is the exact answer. Pooling by means keeps every value
    non-negative and the sum at 1. There is nothing to fit: `fit` only notes the number of classes, which is then
    held to, and the rows.

    Example:
        >>> UnimodalProjection().predict_proba(probs=[[0.5, 0.1, 0.4]])
        array([[0.5 , 0.25, 0.25]])
    """

    name = "projection"

    def parameters(self, num_classes: int) -> int:
        """None."""
        return 0

    def _fit(self, logits: FloatArray, y: IntArray, weight: FloatArray) -> None:
        pass

    def predict_proba(self, logits: Any = None, *, probs: Any = None) -> Any:
        """The nearest unimodal probabilities, shape (n, C); given probabilities keep their zeros.

        Raises:
            InputError: if it was fitted for another number of classes.
        """
        if logits is not None or probs is None:
            return super().predict_proba(logits, probs=probs)
        return self._projected(probs, lambda unimodal: unimodal)

    def predict_logits(self, logits: Any = None, *, probs: Any = None) -> Any:
        """The logarithms of the nearest unimodal probabilities, shape (n, C); of 0 that of the smallest number.

        Raises:
            InputError: if it was fitted for another number of classes.
        """
        if logits is not None or probs is None:
            return super().predict_logits(logits, probs=probs)
        return self._projected(probs, logs)

    def _projected(self, probs: Any, form: Callable[[FloatArray], FloatArray]) -> Any:
        """Of given probabilities, whose zeros need no logit on the way."""
        self._checked(None, probs)
        values = form(nearest_unimodal(Predictions(probs=probs).probs))
        return like(probs, values) if hasattr(probs, "detach") else values

    def _transform_probs(self, logits: FloatArray) -> FloatArray:
        return nearest_unimodal(geometry.probs(logits))

    def _transform(self, logits: FloatArray) -> FloatArray:
        return logs(self._transform_probs(logits))

    def _state(self) -> dict[str, Any]:
        return {}

    def _restore(self, state: Mapping[str, Any]) -> None:
        pass


def logs(probs: FloatArray) -> FloatArray:
    """Logarithms; the smallest normal number stands for probabilities that underflow."""
    logs: FloatArray = np.log(np.maximum(probs, np.finfo(np.float64).tiny))
    return logs


def nearest_unimodal(probs: FloatArray) -> FloatArray:
    """The least-squares unimodal rows of checked probabilities, shape (n, C).

    Example:
        >>> nearest_unimodal(np.array([[0.5, 0.1, 0.4], [0.2, 0.5, 0.3]]))
        array([[0.5 , 0.25, 0.25],
               [0.2 , 0.5 , 0.3 ]])
    """
    bent = ~geometry.is_unimodal(probs)
    if not bent.any():
        return probs
    rows = probs[bent]
    left, right = _Pooling(rows), _Pooling(rows[:, ::-1])
    error = np.zeros((len(rows), rows.shape[1]))
    for k in range(rows.shape[1]):
        error[:, k] += left.push()
        if k + 1 < rows.shape[1]:
            error[:, rows.shape[1] - 2 - k] += right.push()
    distance = np.sqrt(error)
    # The last class of the rising part: of the first split that is as near as any.
    last = (distance <= distance.min(axis=1, keepdims=True) + TIE).argmax(axis=1)
    out = probs.copy()
    out[bent] = _isotonic_upto(rows, last) + _isotonic_upto(rows[:, ::-1], rows.shape[1] - 2 - last)[:, ::-1]
    return out


def _isotonic_upto(rows: FloatArray, last: IntArray) -> FloatArray:
    """The increasing fit of each row's classes 0..last, 0 elsewhere."""
    pooling = _Pooling(rows)
    out = np.zeros_like(rows)
    for k in range(rows.shape[1]):
        pooling.push()
        done = np.flatnonzero(last == k)
        if len(done):
            out[done] = pooling.fitted(done)
    return out


class _Pooling:
    """Pool-adjacent-violators for many rows at once: blocks on a stack, one class pushed at a time."""

    def __init__(self, rows: FloatArray) -> None:
        self.rows = rows
        n, size = rows.shape
        self.sums, self.counts = np.zeros((n, size)), np.zeros((n, size))
        self.top = np.full(n, -1)
        self.error = np.zeros(n)  # the squared distance of the fit so far
        self.next = 0

    def push(self) -> FloatArray:
        """Add the next class to every row; the squared distance of the fit so far."""
        everyone = np.arange(len(self.rows))
        value = self.rows[:, self.next]
        self.next += 1
        self.top += 1
        self.sums[everyone, self.top], self.counts[everyone, self.top] = value, 1
        rows = np.flatnonzero(self.top > 0)
        while len(rows):
            at = self.top[rows]
            upper, lower = self.sums[rows, at], self.sums[rows, at - 1]
            many, few = self.counts[rows, at], self.counts[rows, at - 1]
            violating = lower * many > upper * few
            rows, at = rows[violating], at[violating]
            upper, lower, many, few = (a[violating] for a in (upper, lower, many, few))
            self.sums[rows, at - 1] += upper
            self.counts[rows, at - 1] += many
            self.counts[rows, at] = 0
            # what joining two blocks adds; a sum of squares, so that small distances keep their digits
            self.error[rows] += few * many / (few + many) * (lower / few - upper / many) ** 2
            self.top[rows] -= 1
            rows = rows[self.top[rows] > 0]
        return self.error.copy()

    def fitted(self, rows: IntArray) -> FloatArray:
        """The block means of some rows, class by class; 0 for classes not pushed yet."""
        out = np.zeros((len(rows), self.rows.shape[1]))
        ends = np.cumsum(self.counts[rows], axis=1)
        for block in range(int(self.top[rows].max()) + 1):
            count = self.counts[rows, block]
            mean = np.divide(self.sums[rows, block], count, out=np.zeros(len(rows)), where=count > 0)
            classes = np.arange(self.rows.shape[1])
            inside = (classes >= (ends[:, block] - count)[:, None]) & (classes < ends[:, block][:, None])
            inside &= (block <= self.top[rows])[:, None]
            out = np.where(inside, mean[:, None], out)
        return out
