"""Choosing an option by the likelihood of rows it was not fitted on."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray
from orcu.model_selection import deal, stratified_folds

FOLDS = 5
MOST_ROWS = 5_000  # for choosing options; with more, any choice does as well


def splits(
    y: IntArray, seed: int = 0, subject: IntArray | None = None
) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """Rows to fit on and rows to judge on, fold by fold; of very many rows a stratified part.

    The rows of a subject stay together, unless there is only one.
    """
    if len(y) < 2:
        raise InputError("1 row is not enough to choose options by cross-validation; use more rows.")
    rows = np.arange(len(y))
    if len(y) > MOST_ROWS:
        parts = -(-len(y) // MOST_ROWS)
        rows = rows[stratified_folds(y, parts, seed) == 0]
    subjects = 1 if subject is None else len(np.unique(subject[rows]))
    if subject is not None and subjects > 1:
        for dealt in deal(y[rows], min(FOLDS, subjects), stop=0, groups=subject[rows], seed=seed):
            yield rows[dealt.train], rows[dealt.held]
        return
    fold = stratified_folds(y[rows], min(FOLDS, len(rows)), seed)
    for k in range(fold.max() + 1):
        yield rows[fold != k], rows[fold == k]


class LogScores(NamedTuple):
    """How candidates fared on rows they were not fitted on.

    Attributes:
        own: the log loss of each candidate on each row, shape (K, n).
        share: of each row in the mean, summing to 1.
        subject: of each row, whose rows err together; or ``None``.
    """

    own: FloatArray
    share: FloatArray
    subject: IntArray | None = None

    @property
    def means(self) -> FloatArray:
        """The mean log loss of each candidate."""
        return self.own @ self.share

    def simplest(self, errors: float = 1.0) -> int:
        """The first candidate that is at most so many standard errors behind the best.

        Candidates stand from the simplest, or the strongest pull, on: on few rows, where the best likelihood is mostly
        luck, the tamer map wins.
        """
        apart = self.own - self.own[np.argmin(self.means)]
        behind = apart @ self.share
        shares = (apart - behind[:, None]) * self.share
        if self.subject is not None:
            shares = np.stack([np.bincount(self.subject, weights=one) for one in shares])
        return int(np.argmax(behind <= errors * np.sqrt((shares**2).sum(axis=1))))


def cross_validated(
    y: IntArray,
    weight: FloatArray,
    log_probs: Callable[[npt.NDArray[np.intp], npt.NDArray[np.intp]], list[FloatArray]],
    *,
    subject: IntArray | None = None,
) -> LogScores:
    """Score candidates by five folds.

    Args:
        y: labels.
        weight: weights.
        log_probs: for rows to fit on and rows to judge on, the log-probabilities of the latter under
            each candidate.
        subject: of each row, 0..S-1, whose rows stay together; or ``None``.
    """
    losses, weights, order = [], [], []
    for fit, judge in splits(y, subject=subject):
        candidates = log_probs(fit, judge)
        losses.append(-np.array([log[np.arange(len(judge)), y[judge]] for log in candidates]))
        weights.append(weight[judge])
        order.append(judge)
    share = np.concatenate(weights)
    subjects = None if subject is None else subject[np.concatenate(order)]
    return LogScores(np.concatenate(losses, axis=1), share / share.sum(), subjects)
