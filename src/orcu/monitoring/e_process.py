"""E-processes of daily sums: evidence against calibration that is valid at any number of checks.

A *cell* is a set of rows with a binary event: the top label is right, or the grade is at most k, in one bin of the
predicted probability or in all bins. The sums of a cell are its rows n, the predicted probabilities, and the events Y
that occurred. A bet with stake lambda multiplies its wealth by exp(lambda y) / E[exp(lambda y)] at each row, which has
mean 1 under the hypothesis. The *e-value* is the mean wealth of all bets. By Ville's inequality the probability that it
ever reaches 1/alpha is at most alpha, for any number of checks and any stopping rule.

The wealth is a product over rows: it depends on which rows have a label, and not on the order in which labels arrive.
"""

from dataclasses import dataclass

import numpy as np

from orcu.evaluation.tally import Tally
from orcu.inputs import FloatArray, IntArray
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT

# Stakes lambda for both directions: log-odds ratios of observed and predicted rates. At a probability of 0.5 they
# range from 0.3 to 33 percentage points; between two stakes the growth rate is at least four fifths of the best.
STAKES: FloatArray = np.concatenate([-0.0125 * 2.0 ** np.arange(8), 0.0125 * 2.0 ** np.arange(8)])


def cell_sums(tally: Tally) -> FloatArray:
    """Sums of the bins for the top label and for each threshold, shape (C, 3, B).

    Example:
        >>> tally = Tally(num_classes=3)
        >>> tally.update([[0.7, 0.2, 0.1]], [1])
        >>> cell_sums(tally).sum(-1).round(2).tolist()  # rows, predicted probability, events
        [[1.0, 0.7, 0.0], [1.0, 0.7, 0.0], [1.0, 0.9, 1.0]]
    """
    sums = tally.sums()
    return np.concatenate([sums.top[None], sums.thresholds])


def log_wealth(
    count: FloatArray,
    predicted: FloatArray,
    observed: FloatArray,
    low: FloatArray | float = 0.0,
    high: FloatArray | float = 0.0,
) -> FloatArray:
    r"""Logarithm of the wealth of each bet after the rows of each cell, shape (..., bets).

    .. math:: \lambda Y - n \log(1 - m + m e^\lambda), \qquad m = \bar p + (h \text{ if } \lambda > 0 \text{ else } l)

    Under the hypothesis each event has a probability between p + l and p + h, and the factor of a row uses the nearest
    such probability. Its logarithm is concave in p, so by Jensen's inequality using the mean of p never exceeds the
    product over rows: the wealth is at most that of an exact martingale.

    Args:
        count: n, number of rows of each cell, or the sum of their weights, shape (...).
        predicted: sums of p, shape (...).
        observed: Y, number of events, shape (...).
        low: l, smallest gap (observed minus predicted rate) under the hypothesis, broadcast to (...).
        high: h, largest gap under the hypothesis.

    Example:
        >>> rows, predicted, observed = np.array(100.0), np.array(80.0), np.array(60.0)
        >>> wealth = np.exp(log_wealth(rows, predicted, observed))
        >>> STAKES[wealth.argmax()].item(), wealth.max().round(1).item()
        (-0.8, 23807.5)
        >>> np.exp(log_wealth(rows, predicted, observed, -0.2, 0.0)).max().round(2).item()
        1.0
    """
    mean = predicted / np.where(count > 0, count, 1)
    nearest = np.where(STAKES > 0, np.clip(mean + high, 0, 1)[..., None], np.clip(mean + low, 0, 1)[..., None])
    return STAKES * observed[..., None] - count[..., None] * np.log1p(nearest * np.expm1(STAKES))


def start_weights(since_first: IntArray) -> FloatArray:
    r"""Share of the wealth that starts betting at each day, shape (days,).

    .. math:: w_d = \frac{1}{(d + 1)(d + 2)}, \qquad d = 0, 1, \ldots

    Bets that lost on good days would detect a later drift late, so a part of the wealth is reserved for each future
    day. The shares are fixed in advance and sum to 1, so the total is an e-process. The share of days without rows
    starts at the next day with rows.

    Args:
        since_first: d, number of days since the first, ascending from 0, shape (days,).

    Example:
        >>> start_weights(np.array([0, 1, 2, 9])).round(3).tolist()
        [0.5, 0.167, 0.083, 0.159]
    """
    return -np.diff(1 / (since_first + 2), prepend=1.0)


def update_wealth(log_total: FloatArray, log_day: FloatArray, weight: float) -> FloatArray:
    r"""Logarithm of the wealth of each bet after a day, summed over all starting days.

    .. math:: R_t = (R_{t-1} + w_t) e^{L_t} = \sum_{d \le t} w_d \, e^{L_d + \ldots + L_t}

    Args:
        log_total: log R of the previous day, shape (...); minus infinity before the first day.
        log_day: L, the `log_wealth` of the rows of the day, shape (...).
        weight: w of the day, from `start_weights`.

    Example:
        >>> first = update_wealth(np.array(-np.inf), np.log(np.array(4.0)), 0.5)
        >>> np.exp(update_wealth(first, np.log(np.array(3.0)), 0.25)).round(3).item()  # 0.5 * 4 * 3 + 0.25 * 3
        6.75
    """
    return np.logaddexp(log_total, np.log(weight)) + log_day


def cell_weights(num_classes: int, n_bins: int) -> FloatArray:
    """Share of the wealth that is bet on each cell, fixed in advance, sum 1, shape (C, B + 1).

    Half is bet on the top label and half on the C-1 thresholds; of each, half on all rows and half on the bins.
    Averages of e-processes are e-processes for any dependence between the cells.

    Args:
        num_classes: C; row 0 is the top label, row k the event that the grade is at most k - 1.
        n_bins: B; the last column is all bins together.

    Example:
        >>> cell_weights(num_classes=3, n_bins=2).tolist()
        [[0.125, 0.125, 0.25], [0.0625, 0.0625, 0.125], [0.0625, 0.0625, 0.125]]
    """
    events = np.array([0.5, *[0.5 / (num_classes - 1)] * (num_classes - 1)])
    return events[:, None] * np.array([*[0.5 / n_bins] * n_bins, 0.5])


def population_weights(appearance: list[int]) -> FloatArray:
    r"""Share of the wealth that is bet on all rows and on each subgroup, sum at most 1, shape (subgroups + 1,).

    Without subgroups all rows have the whole wealth, otherwise one half. Of the other half, the subgroups of the first
    day share :math:`1/2` equally, those that appear on the next day with new subgroups :math:`1/6`, then
    :math:`1/12`, and so on: the number of future subgroups is unknown, and shares must be fixed in advance.

    Args:
        appearance: for each subgroup the number, from 0, of its day among the days with new subgroups.

    Example:
        >>> population_weights([0, 0, 1]).round(4).tolist()
        [0.5, 0.125, 0.125, 0.0833]
        >>> population_weights([]).tolist()
        [1.0]
    """
    if not appearance:
        return np.ones(1)
    position = np.array(appearance)
    shares = occasion_weights(int(position.max()) + 1) / np.bincount(position)
    return np.concatenate([[0.5], 0.5 * shares[position]])


def occasion_weights(count: int) -> FloatArray:
    r"""Share of alpha of the e-process of each occasion, shape (count,).

    .. math:: v_r = \frac{1}{(r + 1)(r + 2)}, \qquad r = 0, 1, \ldots

    Rows of a cluster depend on its earlier rows, so the e-processes of different occasions are martingales under
    different histories, and their average is not one under any. Each may have an alarm with its share of alpha
    (Bonferroni's inequality).

    Example:
        >>> occasion_weights(3).round(4).tolist()
        [0.5, 0.1667, 0.0833]
    """
    rank = np.arange(count)
    return 1 / ((rank + 1) * (rank + 2))


def log_e_value(log_total: FloatArray, weights: FloatArray, reserved: float) -> FloatArray:
    """Logarithm of the e-value, shape (...): the mean wealth over bets and cells, plus the reserved wealth.

    Args:
        log_total: logarithm of the wealth of each bet, shape (..., C, B + 1, bets).
        weights: weights of the cells, shape (C, B + 1).
        reserved: wealth reserved for future days.

    Example:
        >>> wealth = np.full((2, 3, len(STAKES)), np.log(0.5))  # unchanged since the start
        >>> np.exp(log_e_value(wealth, cell_weights(2, 2), 0.5)).round(3).item()
        1.0
    """
    shares = log_total + np.log(weights / len(STAKES))[..., None]
    active = np.logaddexp.reduce(shares.reshape(*shares.shape[:-3], -1), axis=-1)
    return np.logaddexp(active, np.log(reserved))


def gap_interval(
    count: FloatArray, predicted: FloatArray, observed: FloatArray, alpha: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """Confidence sequence of the gap (observed minus predicted rate): the interval is valid at all checks at once.

    It contains the gaps at which the mean wealth of the bets is below 1/alpha. Without rows it is [-1, 1].

    Args:
        count: number of rows of each cell, shape (...).
        predicted: sums of p, shape (...).
        observed: number of events, shape (...).
        alpha: probability that the true gap is ever outside, broadcast to (...).

    Returns:
        The lower and the upper ends, each of shape (...).

    Example:
        >>> low, high = gap_interval(np.array(1000.0), np.array(700.0), np.array(650.0), 0.05)
        >>> low.round(3).item(), high.round(3).item()
        (-0.101, -0.001)
    """
    total = np.where(count > 0, count, 1)
    mean, rate = predicted / total, observed / total
    limit = -np.log(alpha) * np.ones_like(mean)
    ends = []
    for outermost in (-mean, 1 - mean):
        # At the observed gap no bet has won, and the wealth is convex in the gap: bisect for the crossing on each side.
        inside, outside = rate - mean, outermost
        for _ in range(50):
            middle = (inside + outside) / 2
            logs = log_wealth(count, predicted, observed, middle, middle)
            is_inside = np.logaddexp.reduce(logs, axis=-1) - np.log(len(STAKES)) < limit
            inside, outside = np.where(is_inside, middle, inside), np.where(is_inside, outside, middle)
        ends.append(outside)
    low, high = ends
    return np.where(count > 0, low, -1.0), np.where(count > 0, high, 1.0)


@dataclass(frozen=True)
class Hypothesis:
    """Null hypothesis: the range of the gap (observed minus predicted rate) of each cell.

    Attributes:
        low: smallest gap, shape (..., C, B + 1): the bins of each event, and all its rows.
        high: largest gap.
        by_row: whether it holds for every row; then the wealth of all rows of an event is the product over its bins.
    """

    low: FloatArray
    high: FloatArray
    by_row: bool

    @classmethod
    def calibrated(cls, num_classes: int, n_bins: int, *, tolerance: float) -> "Hypothesis":
        """The probability of each event is within the tolerance of the predicted one.

        Example:
            >>> Hypothesis.calibrated(3, 15, tolerance=0.02).high.max().item()
            0.02
        """
        ends = np.full((num_classes, n_bins + 1), tolerance)
        return cls(-ends, ends, by_row=True)

    @classmethod
    def from_reference(cls, reference: FloatArray, *, tolerance: float, alpha: FloatArray | float) -> "Hypothesis":
        """The mean gap of each cell is within the tolerance of its confidence interval in a reference period.

        Args:
            reference: `cell_sums` of the reference period, shape (..., C, 3, B).
            tolerance: extension of the interval on both sides.
            alpha: probability that the true gap of any cell is ever outside its interval, shared by the cell weights;
                broadcast to (..., C, B + 1).

        Example:
            >>> reference = np.zeros((2, 3, 1)) + [[1000.0], [700.0], [650.0]]
            >>> hypothesis = Hypothesis.from_reference(reference, tolerance=0.0, alpha=0.01)
            >>> hypothesis.low[0].round(3).tolist(), hypothesis.high[0].round(3).tolist()
            ([-0.116, -0.116], [0.012, 0.012])
        """
        shares = alpha * cell_weights(reference.shape[-3], reference.shape[-1])
        cells = np.concatenate([reference, reference.sum(-1, keepdims=True)], axis=-1)
        low, high = gap_interval(cells[..., WEIGHT, :], cells[..., VALUE, :], cells[..., OUTCOME, :], shares)
        return cls(low - tolerance, high + tolerance, by_row=False)

    def log_wealth(self, sums: FloatArray) -> FloatArray:
        """Logarithm of the wealth of each bet after rows with these `cell_sums`, shape (..., C, B + 1, bets)."""
        count, predicted, observed = (sums[..., part, :] for part in (WEIGHT, VALUE, OUTCOME))
        bins = log_wealth(count, predicted, observed, self.low[..., :-1], self.high[..., :-1])
        if self.by_row:
            all_rows = bins.sum(axis=-2)
        else:
            totals = (count.sum(-1), predicted.sum(-1), observed.sum(-1))
            all_rows = log_wealth(*totals, self.low[..., -1], self.high[..., -1])
        return np.concatenate([bins, all_rows[..., None, :]], axis=-2)
