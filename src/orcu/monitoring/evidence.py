"""Evidence against calibration that may be looked at as often as one likes: e-processes of daily sums.

A *cell* is a set of rows with an event each: the top label is right, or the grade is at most k; in one bin of what was
said, or in all bins. Its rows have n, the sum of what was said, and how often the event came true. A bet with the stake
lambda multiplies its capital by exp(lambda y) / E[exp(lambda y)] at each row, whose mean is 1 as long as the hypothesis
holds. What the capital of all bets has become is the *evidence*: by Ville's inequality it ever reaches 1/alpha with a
probability of at most alpha, however many looks are taken and whenever one stops.

The capital is a product over rows, so it depends on which rows have a label and not on the order in which labels came.
"""

from dataclasses import dataclass

import numpy as np

from orcu.evaluation.tally import Tally
from orcu.inputs import FloatArray, IntArray
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT

# Stakes lambda, on both sides: the log-odds by which what comes true is off. At a probability of one half the smallest
# stands for 0.3 points and the largest for 33; between two of them one grows at more than four fifths of the best rate.
STAKES: FloatArray = np.concatenate([-0.0125 * 2.0 ** np.arange(8), 0.0125 * 2.0 ** np.arange(8)])


def tables(tally: Tally) -> FloatArray:
    """The sums of the cells: of the top label, and of each threshold, shape (C, 3, B).

    Example:
        >>> tally = Tally(num_classes=3)
        >>> tally.update([[0.7, 0.2, 0.1]], [1])
        >>> tables(tally).sum(-1).round(2).tolist()  # rows, what was said, what came true
        [[1.0, 0.7, 0.0], [1.0, 0.7, 0.0], [1.0, 0.9, 1.0]]
    """
    sums = tally.tables()
    return np.concatenate([sums.top[None], sums.thresholds])


def log_capital(
    count: FloatArray, said: FloatArray, true: FloatArray, low: FloatArray | float = 0.0, high: FloatArray | float = 0.0
) -> FloatArray:
    r"""The logarithm of each bet's capital after some rows of each cell, shape (..., bets).

    .. math:: \lambda Y - n \log(1 - m + m e^\lambda), \qquad m = \bar p + (h \text{ if } \lambda > 0 \text{ else } l)

    The hypothesis: each row comes true with a probability between p + l and p + h. The factor of a row is the exact one
    of its nearest such probability. Its logarithm is concave in p, so by Jensen's inequality n times that of the mean
    takes off at least as much as row by row: the capital is never more than that of an exact martingale.

    Args:
        count: n, the rows of each cell, shape (...).
        said: the sums of p, shape (...).
        true: Y, how many came true, shape (...).
        low: l, the least that what comes true may lie above what was said, that broadcasts to (...).
        high: h, the most.

    Example:
        >>> capital = np.exp(
        ...     log_capital(np.array(100.0), np.array(80.0), np.array(60.0))
        ... )  # 80 said, 60 came true
        >>> STAKES[capital.argmax()].item(), capital.max().round(1).item()
        (-0.8, 23807.5)
        >>> np.exp(log_capital(np.array(100.0), np.array(80.0), np.array(60.0), -0.2, 0.0)).max().round(
        ...     2
        ... ).item()
        1.0
    """
    mean = said / np.maximum(count, 1)
    nearest = np.where(STAKES > 0, np.clip(mean + high, 0, 1)[..., None], np.clip(mean + low, 0, 1)[..., None])
    logs: FloatArray = STAKES * true[..., None] - count[..., None] * np.log1p(nearest * np.expm1(STAKES))
    return logs


def start_weights(since_first: IntArray) -> FloatArray:
    r"""The share of the capital that enters at each day, shape (days,).

    .. math:: w_d = \frac{1}{(d + 1)(d + 2)}, \qquad d = 0, 1, \ldots

    A drift that begins late would be seen late by bets that have lost on the good days before it, so a part of the
    capital waits for each day to come. The shares sum to 1 and are fixed in advance: the whole is an e-process again.
    What waits for days that have no rows enters at the next one that has.

    Args:
        since_first: d, the number of days since the first, ascending from 0, shape (days,).

    Example:
        >>> start_weights(np.array([0, 1, 2, 9])).round(3).tolist()
        [0.5, 0.167, 0.083, 0.159]
    """
    waiting = 1 / (since_first + 2)
    weights: FloatArray = -np.diff(waiting, prepend=1.0)
    return weights


def enter(log_wealth: FloatArray, log_day: FloatArray, weight: float) -> FloatArray:
    r"""The logarithm of each bet's wealth after a day, over all days at which it may have begun.

    .. math:: R_t = (R_{t-1} + w_t) e^{L_t} = \sum_{d \le t} w_d \, e^{L_d + \ldots + L_t}

    Args:
        log_wealth: log R of the day before, shape (...); minus infinity before the first.
        log_day: L, the `log_capital` of the day's rows, shape (...).
        weight: w of the day, by `start_weights`.

    Example:
        >>> first = enter(np.array(-np.inf), np.log(np.array(4.0)), 0.5)
        >>> np.exp(enter(first, np.log(np.array(3.0)), 0.25)).round(3).item()  # 0.5 * 4 * 3 + 0.25 * 3
        6.75
    """
    wealth: FloatArray = np.logaddexp(log_wealth, np.log(weight)) + log_day
    return wealth


def cell_weights(num_classes: int, bins: int) -> FloatArray:
    """The share of the capital that is bet on each cell, shape (C, B + 1): of sum 1, fixed in advance.

    One half is bet on the top label, one half on the C-1 thresholds together; of each, one half on all rows and one
    half on the bins. Averages of e-processes are e-processes, however the cells depend on each other.

    Args:
        num_classes: C; the first row is of the top label, row k of the event that the grade is at most k - 1.
        bins: B; the last column is of all bins together.

    Example:
        >>> cell_weights(num_classes=3, bins=2).tolist()
        [[0.125, 0.125, 0.25], [0.0625, 0.0625, 0.125], [0.0625, 0.0625, 0.125]]
    """
    tables = np.array([0.5, *[0.5 / (num_classes - 1)] * (num_classes - 1)])
    cells: FloatArray = tables[:, None] * np.array([*[0.5 / bins] * bins, 0.5])
    return cells


def log_evidence(log_wealth: FloatArray, weights: FloatArray, waiting: float) -> FloatArray:
    """The logarithm of the evidence, shape (...): the mean over bets and cells, and what waits for days to come.

    Args:
        log_wealth: of each bet, shape (..., C, B + 1, bets).
        weights: of the cells, shape (C, B + 1).
        waiting: the capital that has not entered.

    Example:
        >>> wealth = np.full((2, 3, len(STAKES)), np.log(0.5))  # what has entered is as much as it was
        >>> np.exp(log_evidence(wealth, cell_weights(2, 2), 0.5)).round(3).item()
        1.0
    """
    shares = log_wealth + np.log(weights / len(STAKES))[..., None]
    entered = np.logaddexp.reduce(shares.reshape(*shares.shape[:-3], -1), axis=-1)
    whole: FloatArray = np.logaddexp(entered, np.log(waiting))
    return whole


def gap_interval(
    count: FloatArray, said: FloatArray, true: FloatArray, miss: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """Between which ends the mean of what comes true minus what is said lies; it holds at all looks at once.

    A confidence sequence: the gaps at which the mean capital of the bets has not reached 1/miss. Of no rows: -1 and 1.

    Args:
        count: rows of each cell, shape (...).
        said: the sums of p, shape (...).
        true: how many came true, shape (...).
        miss: the probability with which the true gap may ever lie outside, that broadcasts to (...).

    Returns:
        The lower and the upper ends, each of shape (...).

    Example:
        >>> low, high = gap_interval(np.array(1000.0), np.array(700.0), np.array(650.0), 0.05)
        >>> low.round(3).item(), high.round(3).item()
        (-0.101, -0.001)
    """
    mean, rate = said / np.maximum(count, 1), true / np.maximum(count, 1)
    limit = -np.log(miss) * np.ones_like(mean)
    ends = []
    for outermost in (-mean, 1 - mean):
        # At the rate itself no bet has won, and the capital is convex in the gap: one crossing on each side.
        inside, outside = rate - mean, outermost
        for _ in range(50):
            middle = (inside + outside) / 2
            logs = log_capital(count, said, true, middle, middle)
            held = np.logaddexp.reduce(logs, axis=-1) - np.log(len(STAKES)) < limit
            inside, outside = np.where(held, middle, inside), np.where(held, outside, middle)
        ends.append(outside)
    low, high = ends
    return np.where(count > 0, low, -1.0), np.where(count > 0, high, 1.0)


@dataclass(frozen=True)
class Hypothesis:
    """How far what comes true may lie above what is said, in each cell, before it counts as evidence.

    Attributes:
        low: the least, shape (..., C, B + 1): the bins of each table, and all of its rows.
        high: the most.
        by_row: whether it is said of every row; then all rows of a table are a sum over its bins, which says more.
    """

    low: FloatArray
    high: FloatArray
    by_row: bool

    @classmethod
    def trustworthy(cls, num_classes: int, bins: int, *, tolerance: float) -> "Hypothesis":
        """Each row comes true with a probability within the tolerance of what was said.

        Example:
            >>> Hypothesis.trustworthy(3, 15, tolerance=0.02).high.max().item()
            0.02
        """
        ends = np.full((num_classes, bins + 1), tolerance)
        return cls(-ends, ends, by_row=True)

    @classmethod
    def as_in(cls, reference: FloatArray, *, tolerance: float, miss: float) -> "Hypothesis":
        """In each cell the mean gap is within the tolerance of what it may be by a reference.

        Args:
            reference: the sums of its rows, by `tables`, shape (..., C, 3, B).
            tolerance: added to both sides.
            miss: the probability with which the true gap of any cell may ever lie outside its interval; cells share it
                by their weights.

        Example:
            >>> reference = np.zeros((2, 3, 1)) + [[1000.0], [700.0], [650.0]]
            >>> hypothesis = Hypothesis.as_in(reference, tolerance=0.0, miss=0.01)
            >>> hypothesis.low[0].round(3).tolist(), hypothesis.high[0].round(3).tolist()
            ([-0.116, -0.116], [0.012, 0.012])
        """
        shares = miss * cell_weights(reference.shape[-3], reference.shape[-1])
        cells = np.concatenate([reference, reference.sum(-1, keepdims=True)], axis=-1)
        low, high = gap_interval(cells[..., WEIGHT, :], cells[..., VALUE, :], cells[..., OUTCOME, :], shares)
        return cls(low - tolerance, high + tolerance, by_row=False)

    def log_capital(self, sums: FloatArray) -> FloatArray:
        """The logarithm of each bet's capital after some rows, shape (..., C, B + 1, bets).

        Args:
            sums: of the rows, by `tables`, shape (..., C, 3, B).
        """
        count, said, true = (sums[..., part, :] for part in (WEIGHT, VALUE, OUTCOME))
        bins = log_capital(count, said, true, self.low[..., :-1], self.high[..., :-1])
        if self.by_row:
            whole = bins.sum(axis=-2)
        else:
            totals = (count.sum(-1), said.sum(-1), true.sum(-1))
            whole = log_capital(*totals, self.low[..., -1], self.high[..., -1])
        return np.concatenate([bins, whole[..., None, :]], axis=-2)
