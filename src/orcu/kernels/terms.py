"""The terms that losses are made of: value and gradient together, in closed form.

A chain of small operations costs autograd more in bookkeeping than in arithmetic, and kernels that reduce over a short
last axis go value by value. So these work class-first, (C, n), where reductions over classes add long rows. Every
function takes numpy arrays or torch tensors and answers in kind; autograd may differentiate the values of the torch
form, and no gradient is computed before it is asked for.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from orcu import geometry
from orcu.geometry import indicator, namespace, positive_part


class Term(NamedTuple):
    """A part of a loss: factor times the value of each sample.

    Attributes:
        value: shape (n,).
        gradient: gives the gradient of the values in the logits, shape (C, n), when called; a fresh array.
        factor: what both are multiplied by.
        curvature: gives the second derivative in each logit, or an upper bound of it that is not negative, shape
            (C, n), when called; ``None`` where no one has needed it.
    """

    value: Any
    gradient: Callable[[], Any]
    factor: float = 1.0
    curvature: Callable[[], Any] | None = None


class ClassFirst:
    """Logits with the classes on the first axis, and what the terms of a loss share of them.

    Args:
        z: logits, shape (C, n).
        weight: of the samples, shape (n,), for terms that are statistics of the batch; or ``None``.
    """

    def __init__(self, z: Any, weight: Any = None) -> None:
        self.z, self.weight = z, weight
        self._top: Any = None
        self._log_totals: Any = None  # numpy's: the logarithms of the sums of their exponentials
        self._log_probs: Any = None
        self._probs: Any = None

    @property
    def top(self) -> Any:
        """The largest logit of each sample, (n,)."""
        if self._top is None:
            self._top = self.z.max(0) if namespace(self.z) is np else self.z.amax(0)
        return self._top

    @property
    def lowest(self) -> Any:
        """The smallest logit of each sample, (n,), as a constant for the gradient."""
        return self.z.min(0) if namespace(self.z) is np else self.z.detach().amin(0)

    @property
    def log_probs(self) -> Any:
        """Log softmax, (C, n)."""
        if self._log_probs is None:
            if namespace(self.z) is np:
                self._normalise()
                self._log_probs = self.z - self.top
                self._log_probs -= self._log_totals
            else:
                self._log_probs = self.z.log_softmax(0)
        return self._log_probs

    @property
    def probs(self) -> Any:
        """Softmax, (C, n)."""
        if self._probs is None:
            if namespace(self.z) is np:
                self._normalise()
            else:
                self._probs = self.log_probs.exp()
        return self._probs

    def log_prob_at(self, place: Any) -> Any:
        """The log probability of one class in each column, see `place_of`; shape (n,)."""
        if namespace(self.z) is not np:
            return at_class(self.log_probs, place)
        self._normalise()
        return at_class(self.z, place) - self.top - self._log_totals

    def _normalise(self) -> None:
        if self._probs is None:
            exps = in_place(np.exp, self.z - self.top)
            totals = exps.sum(0)
            exps /= totals
            self._probs, self._log_totals = exps, np.log(totals)

    def through_softmax(self, slopes: Any) -> Any:
        """The gradient in the logits of a term with the given gradient in the probabilities, which is overwritten."""
        slopes -= (slopes * self.probs).sum(0)
        slopes *= self.probs
        return slopes


def total_weight(weight: Any) -> Any:
    """The sum of weights to divide by: 1 where it is 0, so that the mean of nothing is 0."""
    total = weight.sum()
    return total + (total == 0)


def in_place(function: Callable[..., Any], values: Any) -> Any:
    """function(values), in the memory of an array that is needed no more: what is in the cache need not leave it."""
    return function(values, out=values) if namespace(values) is np else function(values)


def place_of(index: Any, values: Any) -> Any:
    """Where the class ``index`` of each column stands in class-first values, as `at_class` and `with_class` take it."""
    if namespace(values) is np:
        return index * values.shape[1] + np.arange(values.shape[1])  # a flat index takes a third of a pair's time
    return index[None]


def at_class(values: Any, place: Any) -> Any:
    """The value of one class in each column, shape (n,)."""
    return values.reshape(-1).take(place) if namespace(values) is np else values.gather(0, place)[0]


def with_class(values: Any, place: Any, new: Any) -> Any:
    """The values with that of one class in each column replaced."""
    if namespace(values) is not np:
        return values.scatter(0, place, new if isinstance(new, float) else new[None])
    return put_class(values.copy(), place, new)


def put_class(values: Any, place: Any, new: Any) -> Any:
    """As `with_class`, in the values themselves."""
    if namespace(values) is not np:
        return values.scatter_(0, place, new[None])
    values.reshape(-1)[place] = new
    return values


def top_class(batch: ClassFirst) -> Any:
    """Where the largest logit of each sample stands, the first of those that tie; see `place_of`."""
    z = batch.z
    if namespace(z) is not np:
        return z.max(0, keepdim=True).indices  # many times quicker than argmax
    # argmax over a first axis takes four times as long as this
    ranks = np.arange(len(z), 0, -1, dtype=np.min_scalar_type(len(z)))[:, None]
    first = ((z == batch.top).view(np.uint8) * ranks).max(0, initial=1)  # NaN equals nothing: any class will do
    return place_of(len(z) - first.astype(np.intp), z)


def columns(table: Any, y: Any) -> Any:
    """The table's row of each label as columns, shape (K, n), averaged over a label distribution.

    Args:
        table: shape (C, K).
        y: labels, shape (n,), or label distributions, shape (n, C).
    """
    if y.ndim == 2:
        return table.T @ y.T
    if namespace(table) is np:
        return np.ascontiguousarray(table.take(y, axis=0).T)  # twice as quick as to take columns
    return table.t().index_select(1, y)


def soft_cross_entropy(batch: ClassFirst, targets: Any) -> Term:
    """-sum_k t_k log p_k with the gradient p - t (Eq. 62) and the curvature p (1 - p)."""
    value = -(targets * batch.log_probs).sum(0)
    return Term(value, lambda: batch.probs - targets, curvature=lambda: batch.probs * (1 - batch.probs))


def cross_entropy(batch: ClassFirst, y: Any) -> Term:
    """-log p_y: `soft_cross_entropy` of one-hot targets, without making them."""
    place = place_of(y, batch.z)

    def gradient() -> Any:
        return with_class(batch.probs, place, at_class(batch.probs, place) - 1)

    return Term(-batch.log_prob_at(place), gradient)


def gap_penalty(
    scores: Any,
    signs: Any,
    penalty: Callable[[Any], Any],
    slope: Callable[[Any], Any],
    bend: Callable[[Any], Any] | None = None,
) -> Term:
    """A penalty of the directed gaps of class-first scores, summed, and its gradient in the scores (Eqs. 80-83).

    Args:
        scores: logits or probabilities, shape (C, n).
        signs: which way each gap points, as `orcu.geometry.gap_signs`, shape (C - 1, n).
        penalty: of each gap, element by element.
        slope: its derivative.
        bend: its second derivative; a logit bends by those of its two gaps.
    """
    r = signs * (scores[1:] - scores[:-1])
    curvature = None if bend is None else lambda: _of_both_gaps(bend(r))
    return Term(penalty(r).sum(0), lambda: _from_steps(signs * slope(r)), curvature=curvature)


def _of_both_gaps(bends: Any) -> Any:
    """The sum of each class's two gaps, shape (C, n), from that of every gap."""
    total = np.zeros((len(bends) + 1, bends.shape[1]), dtype=bends.dtype)
    total[1:] += bends
    total[:-1] += bends
    return total


def expected_gap_penalty(scores: Any, y: Any, penalty: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Term:
    """As `gap_penalty` for label distributions, shape (n, C): gap k points up for labels up to k, down for the rest."""
    steps, below = scores[1:] - scores[:-1], geometry.cumulative(y).T
    value = (below * penalty(steps) + (1 - below) * penalty(-steps)).sum(0)
    return Term(value, lambda: _from_steps(below * slope(steps) - (1 - below) * slope(-steps)))


def _from_steps(slopes: Any) -> Any:
    """The gradient in the scores of a term with the given gradient in the steps z_{k+1} - z_k."""
    xp = namespace(slopes)
    gradient = xp.empty((len(slopes) + 1, slopes.shape[1]), dtype=slopes.dtype, **_device(slopes))
    gradient[0], gradient[-1] = -slopes[0], slopes[-1]
    if len(slopes) > 1:
        xp.subtract(slopes[:-1], slopes[1:], out=gradient[1:-1])
    return gradient


def _device(values: Any) -> dict[str, Any]:
    return {} if namespace(values) is np else {"device": values.device}


def focal(batch: ClassFirst, y: Any, gamma: Callable[[Any], Any]) -> Term:
    """-(1 - p_y)^gamma log p_y; the exponent, a constant for the gradient, may depend on -log p_y.

    With l = -log p_y the slope in l is (1 - p_y)^gamma + gamma (1 - p_y)^(gamma - 1) p_y l; expm1 keeps 1 - p_y exact
    where p_y is close to 1.
    """
    place = place_of(y, batch.z)
    nll = -batch.log_prob_at(place)
    exponent, wrong = gamma(nll), -namespace(nll).expm1(-nll)

    def gradient() -> Any:
        slope = wrong**exponent + exponent * wrong ** (exponent - 1) * (1 - wrong) * nll
        return put_class(batch.probs * slope, place, -wrong * slope)

    def curvature() -> Any:
        # f'(l) p (1 - p) + f''(l) (p - onehot)^2, where f'' is negative without it: an upper bound
        slope = wrong**exponent + exponent * wrong ** (exponent - 1) * (1 - wrong) * nll
        inner = (exponent - 1) * (1 - wrong) * nll - wrong * nll + 2 * wrong
        second = positive_part(exponent * wrong ** (exponent - 2) * (1 - wrong) * inner)
        apart = with_class(batch.probs, place, -wrong)
        return slope * batch.probs * (1 - batch.probs) + second * apart * apart

    return Term(wrong**exponent * nll, gradient, curvature=curvature)


def distance_weighted(batch: ClassFirst, costs: Any) -> Term:
    """-sum_k w_k log(1 - p_k), the w_k of each sample in a column of ``costs``.

    Only the largest p_k can exceed 1/2, so only its 1 - p_k needs the log-sum-exp of the others.
    """
    xp = namespace(batch.z)
    top = top_class(batch)
    top_cost = at_class(costs, top)
    top_logit = batch.top if xp is np else at_class(batch.z, top)  # where several tie, the gradient is of the first
    others = with_class(batch.z, top, -np.inf)
    second = others.max(0) if xp is np else others.detach().amax(0)
    exps = in_place(xp.exp, others - second)  # 0 at the top
    sums = exps.sum(0)
    gap = xp.log(sums) + second - top_logit  # log-odds of all others together
    odds = xp.exp(gap)
    top_prob = 1 / (1 + odds)
    scale = odds * top_prob / sums
    probs = exps * scale
    value = -(costs * in_place(xp.log1p, -probs)).sum(0) - top_cost * (gap - xp.log1p(odds))

    def gradient() -> Any:
        # w_j o_j - p_j sum_k w_k o_k with odds o = p / (1 - p); the top's odds, which may be
        # infinite, enter as p_j o_top = exps_j p_top / sums and o_top (1 - p_top) = p_top
        slopes = costs * probs
        slopes /= 1 - probs
        sum_of_odds = slopes.sum(0)
        slopes -= exps * (scale * sum_of_odds + top_cost * top_prob / sums)
        return put_class(slopes, top, top_prob * (top_cost - sum_of_odds))

    def curvature() -> Any:
        # -log(1 - p_k) is the log-sum-exp of all classes less that of the others, which is convex too: an upper bound
        return costs.sum(0) * batch.probs * (1 - batch.probs)

    return Term(value, gradient, curvature=curvature)


def distance_weighted_beyond(batch: ClassFirst, costs: Any, margin: float) -> Term:
    """-sum_k w_k log(min(1, 1 - p_k + m)): a wrong class with p_k <= m costs nothing."""
    beyond = positive_part(batch.probs - margin)
    value = -(costs * namespace(beyond).log1p(-beyond)).sum(0)
    return Term(value, lambda: batch.through_softmax(costs * indicator(beyond > 0, beyond) / (1 - beyond)))


def logit_margin(batch: ClassFirst, margin: float) -> Term:
    """(1/C) sum_k max(0, max_j z_j - z_k - m); the gradient reaches the largest logit too, shared where several tie."""
    num_classes, top = len(batch.z), batch.top
    if _all_within(margin, batch):
        return _nothing(batch)
    beyond = positive_part(top - batch.z - margin)

    def gradient() -> Any:
        share = indicator(beyond > 0, beyond) * (-1 / num_classes)
        is_top = indicator(batch.z == top, beyond)
        return share - is_top * (share.sum(0) / is_top.sum(0))

    return Term(beyond.sum(0) / num_classes, gradient)


def _all_within(margin: float, batch: ClassFirst) -> bool:
    """Whether no logit falls behind the largest by more than a margin: two passes that spare ten, by numpy alone."""
    return namespace(batch.z) is np and bool((batch.top - batch.lowest).max() <= margin)


def _nothing(batch: ClassFirst) -> Term:
    return Term(np.zeros_like(batch.z[0]), lambda: np.zeros_like(batch.z))


def adaptive_margin(batch: ClassFirst, margin: float, *, pos: float, neg: float, from_lowest: bool) -> Term:
    """Squared hinges: pos max(0, z_top - m)^2 + neg/(C-1) sum_{k not top} max(0, sg(z_top) - z_k - m)^2.

    Every logit equal to the largest counts as top.

    Args:
        batch: the logits.
        margin: m.
        pos: the factor of the first part.
        neg: the factor of the second part.
        from_lowest: take z_top - sg(min_k z_k) in the first part.
    """
    if _all_within(margin, batch) and (from_lowest or batch.top.max() <= margin):
        return _nothing(batch)
    fixed, top = (batch.z, batch.top) if namespace(batch.z) is np else (batch.z.detach(), batch.top.detach())
    is_top = indicator(fixed == top, fixed)
    floor = batch.lowest if from_lowest else 0.0
    above = positive_part(batch.z - (floor + margin)) * is_top
    below = positive_part((top - margin) - batch.z)  # 0 at the top itself
    each = neg / (len(batch.z) - 1)
    value = pos * (above * above).sum(0) + each * (below * below).sum(0)
    return Term(value, lambda: 2 * pos * above - 2 * each * below)


def confidence_frequency_gap(batch: ClassFirst, y: Any) -> Term:
    """(1/C) sum_k |mean_n p_nk - mean_n t_nk|: a statistic of the batch, as the same value of every sample.

    Args:
        batch: the logits, with the weights that both means take.
        y: labels, shape (n,), or label distributions, shape (n, C).
    """
    xp = namespace(batch.z)
    num_classes, n = batch.z.shape
    labels = _one_hot(y, batch.z) if y.ndim == 1 else y.T
    if batch.weight is None:
        gaps = (batch.probs - labels).sum(1) / n
    else:
        gaps = ((batch.probs - labels) * batch.weight).sum(1) / total_weight(batch.weight)
    value = xp.abs(gaps).sum() / num_classes

    def gradient() -> Any:
        slopes = xp.sign(gaps) / num_classes
        return batch.probs * (slopes[:, None] - slopes @ batch.probs)

    return Term(xp.broadcast_to(value, (n,)), gradient)


def _one_hot(y: Any, like: Any) -> Any:
    classes = namespace(y).arange(len(like), **_device(like))
    return indicator(classes[:, None] == y, like)
