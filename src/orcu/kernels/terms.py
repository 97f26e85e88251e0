"""Terms of the losses in closed form: value, gradient and Hessian diagonal.

The terms work on class-first arrays (C, n), where reductions over classes add long rows; reductions over a short last
axis are slow, and so is a chain of small autograd operations. Each function takes numpy arrays or torch tensors and
returns the same kind. Autograd can differentiate the torch values, and gradients are computed only when called.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from orcu.geometry import array_namespace, cumulative
from orcu.kernels.penalties import indicator, positive_part


class Term(NamedTuple):
    """Term of a loss: a factor times a value per sample.

    Attributes:
        value: values of the samples, shape (n,).
        gradient: function that returns the gradient of the values in the logits as a new array, shape (C, n).
        factor: factor of value, gradient and Hessian.
        hessian: function that returns the diagonal of the Hessian in the logits, or a non-negative upper bound of it,
            shape (C, n); ``None`` for terms that no boosting objective uses.
    """

    value: Any
    gradient: Callable[[], Any]
    factor: float = 1.0
    hessian: Callable[[], Any] | None = None


class ClassFirst:
    """Logits with the classes on the first axis, with cached quantities that terms share.

    Args:
        z: logits, shape (C, n).
        weight: sample weights, shape (n,), for terms that are statistics of the batch; or ``None``.
    """

    def __init__(self, z: Any, weight: Any = None) -> None:
        self.z, self.weight = z, weight
        self._top: Any = None
        self._log_totals: Any = None  # numpy only: logarithms of the sums of exponentials
        self._log_probs: Any = None
        self._probs: Any = None

    @property
    def top(self) -> Any:
        """Largest logit of each sample, (n,)."""
        if self._top is None:
            self._top = self.z.max(0) if array_namespace(self.z) is np else self.z.amax(0)
        return self._top

    @property
    def lowest(self) -> Any:
        """Smallest logit of each sample, (n,), detached from the gradient."""
        return self.z.min(0) if array_namespace(self.z) is np else self.z.detach().amin(0)

    @property
    def log_probs(self) -> Any:
        """Log softmax, (C, n)."""
        if self._log_probs is None:
            if array_namespace(self.z) is np:
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
            if array_namespace(self.z) is np:
                self._normalise()
            else:
                self._probs = self.log_probs.exp()
        return self._probs

    def log_prob_at(self, position: Any) -> Any:
        """Log-probability of one class per column, shape (n,); see `class_position`."""
        if array_namespace(self.z) is not np:
            return at_class(self.log_probs, position)
        self._normalise()
        return at_class(self.z, position) - self.top - self._log_totals

    def _normalise(self) -> None:
        if self._probs is None:
            exps = in_place(np.exp, self.z - self.top)
            totals = exps.sum(0)
            exps /= totals
            self._probs, self._log_totals = exps, np.log(totals)

    def through_softmax(self, gradient: Any) -> Any:
        """Convert a gradient in the probabilities, which is overwritten, to the gradient in the logits."""
        gradient -= (gradient * self.probs).sum(0)
        gradient *= self.probs
        return gradient


def total_weight(weight: Any) -> Any:
    """Sum of the weights as a divisor: 1 where it is 0, so that the mean over no samples is 0."""
    total = weight.sum()
    return total + (total == 0)


def in_place(function: Callable[..., Any], values: Any) -> Any:
    """Apply a function to values, in place for a numpy array, which avoids a new allocation."""
    return function(values, out=values) if array_namespace(values) is np else function(values)


def class_position(index: Any, values: Any) -> Any:
    """Positions of the class ``index`` of each column in class-first values, for `at_class` and `with_class`."""
    if array_namespace(values) is np:
        return index * values.shape[1] + np.arange(values.shape[1])  # a flat index is three times as fast as a pair
    return index[None]


def at_class(values: Any, position: Any) -> Any:
    """Values of one class per column, shape (n,)."""
    return values.reshape(-1).take(position) if array_namespace(values) is np else values.gather(0, position)[0]


def with_class(values: Any, position: Any, new: Any) -> Any:
    """Copy of the values with one class per column replaced."""
    if array_namespace(values) is not np:
        return values.scatter(0, position, new if isinstance(new, float) else new[None])
    return put_class(values.copy(), position, new)


def put_class(values: Any, position: Any, new: Any) -> Any:
    """Replace one class per column in place."""
    if array_namespace(values) is not np:
        return values.scatter_(0, position, new[None])
    values.reshape(-1)[position] = new
    return values


def top_class(batch: ClassFirst) -> Any:
    """Positions of the largest logit of each sample, the first one in a tie; see `class_position`."""
    z = batch.z
    if array_namespace(z) is not np:
        return z.max(0, keepdim=True).indices  # much faster than argmax
    # argmax over a first axis takes four times as long as this
    ranks = np.arange(len(z), 0, -1, dtype=np.min_scalar_type(len(z)))[:, None]
    first = ((z == batch.top).view(np.uint8) * ranks).max(0, initial=1)  # NaN equals no value: any class
    return class_position(len(z) - first.astype(np.intp), z)


def columns(table: Any, y: Any) -> Any:
    """Rows of a table selected by label, as columns (K, n); averaged over a label distribution.

    Args:
        table: table with one row per class, shape (C, K).
        y: labels, shape (n,), or label distributions, shape (n, C).
    """
    if y.ndim == 2:
        return table.T @ y.T
    if array_namespace(table) is np:
        return np.ascontiguousarray(table.take(y, axis=0).T)  # twice as fast as taking columns
    return table.t().index_select(1, y)


def soft_cross_entropy(batch: ClassFirst, targets: Any) -> Term:
    """-sum_k t_k log p_k with the gradient p - t (Eq. 61) and the Hessian diagonal p (1 - p)."""
    value = -(targets * batch.log_probs).sum(0)
    return Term(value, lambda: batch.probs - targets, hessian=lambda: batch.probs * (1 - batch.probs))


def cross_entropy(batch: ClassFirst, y: Any) -> Term:
    """-log p_y: `soft_cross_entropy` for integer labels, without one-hot targets."""
    position = class_position(y, batch.z)

    def gradient() -> Any:
        return with_class(batch.probs, position, at_class(batch.probs, position) - 1)

    return Term(-batch.log_prob_at(position), gradient)


def gap_penalty(
    scores: Any,
    signs: Any,
    penalty: Callable[[Any], Any],
    gradient: Callable[[Any], Any],
    hessian: Callable[[Any], Any] | None = None,
) -> Term:
    """Sum of a penalty over the directed gaps of class-first scores, with its gradient in the scores (Eqs. 79-82).

    Args:
        scores: logits or probabilities, shape (C, n).
        signs: directions of the gaps, columns of `orcu.geometry.gap_signs`, shape (C - 1, n).
        penalty: penalty of each gap, element by element.
        gradient: first derivative of the penalty.
        hessian: second derivative of the penalty; a logit's diagonal entry is the sum over its two gaps.
    """
    r = signs * (scores[1:] - scores[:-1])
    diagonal = None if hessian is None else lambda: _sum_of_adjacent_gaps(hessian(r))
    return Term(penalty(r).sum(0), lambda: _gradient_from_steps(signs * gradient(r)), hessian=diagonal)


def _sum_of_adjacent_gaps(values: Any) -> Any:
    """Sum of the values of the two gaps of each class, shape (C, n), from values per gap."""
    total = np.zeros((len(values) + 1, values.shape[1]), dtype=values.dtype)
    total[1:] += values
    total[:-1] += values
    return total


def expected_gap_penalty(
    scores: Any,
    y: Any,
    penalty: Callable[[Any], Any],
    gradient: Callable[[Any], Any],
    hessian: Callable[[Any], Any] | None = None,
) -> Term:
    """`gap_penalty` averaged over label distributions (n, C): gap k is z_{k+1} - z_k for labels <= k, else negated."""
    steps, below = scores[1:] - scores[:-1], cumulative(y).T
    value = (below * penalty(steps) + (1 - below) * penalty(-steps)).sum(0)
    return Term(
        value,
        lambda: _gradient_from_steps(below * gradient(steps) - (1 - below) * gradient(-steps)),
        hessian=None
        if hessian is None
        else lambda: _sum_of_adjacent_gaps(below * hessian(steps) + (1 - below) * hessian(-steps)),
    )


def expected_term(term_of_label: Callable[[Any], Term], y: Any) -> Term:
    """A numpy term averaged over label distributions (n, C), for terms that are not linear in a table of labels."""
    terms = [term_of_label(np.full(len(y), label)) for label in range(y.shape[1])]
    shares = y.T

    def mean(parts: list[Any]) -> Any:
        return sum(share * part for share, part in zip(shares, parts, strict=True))

    return Term(
        mean([term.value for term in terms]),
        lambda: mean([term.gradient() for term in terms]),
        hessian=lambda: mean([term.hessian() for term in terms if term.hessian is not None]),
    )


def _gradient_from_steps(steps: Any) -> Any:
    """Gradient in the scores, from the gradient in the steps z_{k+1} - z_k."""
    xp = array_namespace(steps)
    gradient = xp.empty((len(steps) + 1, steps.shape[1]), dtype=steps.dtype, **_device(steps))
    gradient[0], gradient[-1] = -steps[0], steps[-1]
    if len(steps) > 1:
        xp.subtract(steps[:-1], steps[1:], out=gradient[1:-1])
    return gradient


def _device(values: Any) -> dict[str, Any]:
    return {} if array_namespace(values) is np else {"device": values.device}


def focal(batch: ClassFirst, y: Any, gamma: Callable[[Any], Any]) -> Term:
    """-(1 - p_y)^gamma log p_y; gamma is a function of -log p_y and a constant for the gradient.

    With l = -log p_y the derivative in l is (1 - p_y)^gamma + gamma (1 - p_y)^(gamma - 1) p_y l. expm1 computes
    1 - p_y accurately where p_y is close to 1.
    """
    position = class_position(y, batch.z)
    nll = -batch.log_prob_at(position)
    exponent, wrong = gamma(nll), -array_namespace(nll).expm1(-nll)

    def derivative() -> Any:
        return wrong**exponent + exponent * wrong ** (exponent - 1) * (1 - wrong) * nll

    def gradient() -> Any:
        first = derivative()
        return put_class(batch.probs * first, position, -wrong * first)

    def hessian() -> Any:
        # f'(l) p (1 - p) + f''(l) (p - onehot)^2; an upper bound, since a negative f'' is replaced by 0
        inner = (exponent - 1) * (1 - wrong) * nll - wrong * nll + 2 * wrong
        second = positive_part(exponent * wrong ** (exponent - 2) * (1 - wrong) * inner)
        difference = with_class(batch.probs, position, -wrong)
        return derivative() * batch.probs * (1 - batch.probs) + second * difference * difference

    return Term(wrong**exponent * nll, gradient, hessian=hessian)


def distance_weighted(batch: ClassFirst, costs: Any) -> Term:
    """-sum_k w_k log(1 - p_k), with the w_k of each sample in a column of ``costs``.

    Only the largest p_k can exceed 1/2, so only its 1 - p_k is computed as the log-sum-exp of the others.
    """
    xp = array_namespace(batch.z)
    top = top_class(batch)
    top_cost = at_class(costs, top)
    top_logit = batch.top if xp is np else at_class(batch.z, top)  # in a tie the gradient is that of the first
    others = with_class(batch.z, top, -np.inf)
    second = others.max(0) if xp is np else others.detach().amax(0)
    exps = in_place(xp.exp, others - second)  # 0 at the top
    sums = exps.sum(0)
    gap = xp.log(sums) + second - top_logit  # log-odds of all other classes
    odds = xp.exp(gap)
    top_prob = 1 / (1 + odds)
    scale = odds * top_prob / sums
    probs = exps * scale
    value = -(costs * in_place(xp.log1p, -probs)).sum(0) - top_cost * (gap - xp.log1p(odds))

    def gradient() -> Any:
        # w_j o_j - p_j sum_k w_k o_k with odds o = p / (1 - p); the top's odds, which may be
        # infinite, enter as p_j o_top = exps_j p_top / sums and o_top (1 - p_top) = p_top
        weighted_odds = costs * probs
        weighted_odds /= 1 - probs
        sum_of_odds = weighted_odds.sum(0)
        weighted_odds -= exps * (scale * sum_of_odds + top_cost * top_prob / sums)
        return put_class(weighted_odds, top, top_prob * (top_cost - sum_of_odds))

    def hessian() -> Any:
        # -log(1 - p_k) is the log-sum-exp of all classes minus that of the others; without the latter, which is
        # convex, this is an upper bound
        return costs.sum(0) * batch.probs * (1 - batch.probs)

    return Term(value, gradient, hessian=hessian)


def distance_weighted_with_margin(batch: ClassFirst, costs: Any, margin: float) -> Term:
    """-sum_k w_k log(min(1, 1 - p_k + m)): a wrong class with p_k <= m has no cost."""
    excess = positive_part(batch.probs - margin)
    value = -(costs * array_namespace(excess).log1p(-excess)).sum(0)
    return Term(value, lambda: batch.through_softmax(costs * indicator(excess > 0, excess) / (1 - excess)))


def ranked_probability_score(batch: ClassFirst, observed: Any) -> Term:
    """sum_k (F_k - G_k)^2 over the C - 1 thresholds, with the cumulative probabilities F_k = p_0 + ... + p_k.

    With S_j = sum_{k < j} (F_k - G_k), the gradient in the logits is 2 p_j (sum_i p_i S_i - S_j).

    Args:
        batch: logits.
        observed: cumulative label distributions G_k, shape (C - 1, n); for a label y, G_k = 1[y <= k].
    """
    predicted = _running_sums(batch.probs)[:-1]
    error = predicted - observed

    def gradient() -> Any:
        steps = array_namespace(error).zeros_like(batch.probs)
        steps[1:] = _running_sums(error)
        steps *= -2
        return batch.through_softmax(steps)

    def hessian() -> Any:
        # 2 p^2 A + (1 - 2 p) g with A_j = sum_k (1[j <= k] - F_k)^2 and the gradient g. As g, and not p^2 A, bounds the
        # curvature of improbable classes, |g| in place of (1 - 2 p) g also bounds a Newton step by 1.
        curvature = np.zeros_like(batch.probs)
        curvature[:-1] = _running_sums((1 - 2 * predicted)[::-1])[::-1]
        curvature += (predicted * predicted).sum(0)
        curvature *= 2 * batch.probs * batch.probs
        return curvature + np.abs(gradient())

    return Term((error * error).sum(0), gradient, hessian=hessian)


def _running_sums(values: Any) -> Any:
    """Cumulative sums over the classes of class-first values."""
    if array_namespace(values) is not np:
        return values.cumsum(0)
    sums = values.copy()
    for previous, current in pairwise(sums):  # np.cumsum over a first axis takes four times as long
        current += previous
    return sums


def expected_cost(batch: ClassFirst, costs: Any) -> Term:
    """sum_k c_k p_k, the expected cost under the predicted probabilities, with costs c of shape (C, n).

    The Hessian diagonal is (1 - 2 p_j) g_j with the gradient g_j = p_j (c_j - sum_k c_k p_k); |g_j| bounds it.
    """

    def gradient() -> Any:
        return batch.through_softmax(costs + 0)  # a copy, since it is overwritten

    return Term((costs * batch.probs).sum(0), gradient, hessian=lambda: np.abs(gradient()))


def weighted_disagreement(batch: ClassFirst, costs: Any, table: Any, y: Any) -> Term:
    """1 - kappa: the mean cost over the mean cost of independent labels and predictions, a statistic of the batch.

    With costs w, label frequencies f and mean probabilities m of the batch, it is N / D with N = mean_n sum_k w_{y_n k}
    p_nk and D = sum_ik f_i w_ik m_k. D is 0 only if all labels and predictions are one class; the value is then 1, its
    limit for a batch of one class.

    Args:
        batch: logits, with the sample weights of all means.
        costs: costs of each sample, columns of ``table``, shape (C, n).
        table: costs w of each label and class, shape (C, C).
        y: labels, shape (n,), or label distributions, shape (n, C).
    """
    xp = array_namespace(batch.z)
    num_classes, n = batch.z.shape
    weight = batch.weight
    total = n if weight is None else total_weight(weight)
    if y.ndim == 2:
        counts = y.sum(0) if weight is None else weight @ y
    elif xp is np:
        counts = np.bincount(y, weights=weight, minlength=num_classes).astype(batch.z.dtype)
    else:
        ones = xp.ones_like(batch.z[0]) if weight is None else weight
        counts = xp.zeros_like(batch.z[:, 0]).index_add(0, y, ones)
    mean_probs = (batch.probs.sum(1) if weight is None else batch.probs @ weight) / total
    disagreement = (costs * batch.probs).sum(0)
    observed = (disagreement.sum() if weight is None else disagreement @ weight) / total
    by_class = counts @ table / total  # expected cost of each predicted class
    expected = by_class @ mean_probs
    undefined = expected <= float(np.finfo(np.float32).tiny)  # False for NaN
    expected = expected + undefined
    value = (observed + undefined) / expected

    def gradient() -> Any:
        return batch.through_softmax((costs - value * by_class[:, None]) / expected)

    return Term(xp.broadcast_to(value, (n,)), gradient)


def logit_margin(batch: ClassFirst, margin: float) -> Term:
    """(1/C) sum_k max(0, max_j z_j - z_k - m); the gradient includes the largest logit and is shared between ties."""
    num_classes, top = len(batch.z), batch.top
    if _all_within(margin, batch):
        return _zero_term(batch)
    excess = positive_part(top - batch.z - margin)

    def gradient() -> Any:
        share = indicator(excess > 0, excess) * (-1 / num_classes)
        is_top = indicator(batch.z == top, excess)
        return share - is_top * (share.sum(0) / is_top.sum(0))

    return Term(excess.sum(0) / num_classes, gradient)


def _all_within(margin: float, batch: ClassFirst) -> bool:
    """Whether all logits are within a margin of the largest; checked for numpy only, where it saves most passes."""
    return array_namespace(batch.z) is np and bool((batch.top - batch.lowest).max() <= margin)


def _zero_term(batch: ClassFirst) -> Term:
    return Term(np.zeros_like(batch.z[0]), lambda: np.zeros_like(batch.z))


def adaptive_margin(batch: ClassFirst, margin: float, *, pos: float, neg: float, from_lowest: bool) -> Term:
    """Squared hinges: pos max(0, z_top - m)^2 + neg/(C-1) sum_{k not top} max(0, sg(z_top) - z_k - m)^2.

    Every logit equal to the largest counts as top; sg stops the gradient.

    Args:
        batch: logits.
        margin: margin m.
        pos: factor of the first part.
        neg: factor of the second part.
        from_lowest: whether the first part takes z_top - sg(min_k z_k) instead of z_top.
    """
    if _all_within(margin, batch) and (from_lowest or batch.top.max() <= margin):
        return _zero_term(batch)
    fixed, top = (batch.z, batch.top) if array_namespace(batch.z) is np else (batch.z.detach(), batch.top.detach())
    is_top = indicator(fixed == top, fixed)
    floor = batch.lowest if from_lowest else 0.0
    above = positive_part(batch.z - (floor + margin)) * is_top
    below = positive_part((top - margin) - batch.z)  # 0 at the top itself
    factor = neg / (len(batch.z) - 1)
    value = pos * (above * above).sum(0) + factor * (below * below).sum(0)
    return Term(value, lambda: 2 * pos * above - 2 * factor * below)


def confidence_frequency_gap(batch: ClassFirst, y: Any) -> Term:
    """(1/C) sum_k |mean_n p_nk - mean_n t_nk|: a statistic of the batch, repeated for each sample.

    Args:
        batch: logits, with the sample weights of both means.
        y: labels, shape (n,), or label distributions, shape (n, C).
    """
    xp = array_namespace(batch.z)
    num_classes, n = batch.z.shape
    labels = _one_hot(y, batch.z) if y.ndim == 1 else y.T
    if batch.weight is None:
        gaps = (batch.probs - labels).sum(1) / n
    else:
        gaps = ((batch.probs - labels) * batch.weight).sum(1) / total_weight(batch.weight)
    value = xp.abs(gaps).sum() / num_classes

    def gradient() -> Any:
        signs = xp.sign(gaps) / num_classes
        return batch.probs * (signs[:, None] - signs @ batch.probs)

    return Term(xp.broadcast_to(value, (n,)), gradient)


def _one_hot(y: Any, like: Any) -> Any:
    classes = array_namespace(y).arange(len(like), **_device(like))
    return indicator(classes[:, None] == y, like)
