"""Model selection among calibrators by the cross-validated log loss."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray
from orcu.model_selection import cross_fit_folds, stratified_folds
from orcu.raters.votes import Targets, grades, weighted_rows

N_FOLDS = 5
MAX_ROWS = 5_000  # rows used for a selection; more do not change it
# Largest distance of a choice from the lowest log loss. Deviation: one standard error is customary. The flexible
# candidates are shrunk already, so a full standard error is too cautious.
STANDARD_ERRORS = 0.5
PRIOR_ROWS = 1.0  # rows that count for each candidate of an average but the most flexible one
_MAX_STEPS, _TOLERANCE = 1000, 1e-6  # of the weights of an average


def splits(
    y: Targets, random_state: int = 0, groups: IntArray | None = None
) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """Train and test row numbers of each of five stratified folds, of at most `MAX_ROWS` rows.

    Rows of a cluster (``groups``) stay in one fold, unless there is only one cluster. Votes of shape (n, C) are
    stratified by their majority grade.
    """
    y = grades(y)
    if len(y) < 2:
        raise InputError("y: 1 row is not enough to choose options by cross-validation; pass more rows.")
    rows = np.arange(len(y))
    if len(y) > MAX_ROWS:
        rows = rows[stratified_folds(y, -(-len(y) // MAX_ROWS), random_state) == 0]
    n_groups = 1 if groups is None else len(np.unique(groups[rows]))
    if groups is not None and n_groups > 1:
        for fold in cross_fit_folds(
            y[rows], min(N_FOLDS, n_groups), early_stopping=0, groups=groups[rows], random_state=random_state
        ):
            yield rows[fold.train], rows[fold.test]
        return
    fold_of_row = stratified_folds(y[rows], min(N_FOLDS, len(rows)), random_state)
    for k in range(fold_of_row.max() + 1):
        yield rows[fold_of_row != k], rows[fold_of_row == k]


class LogLosses(NamedTuple):
    """Log losses of candidates on rows they were not fitted on.

    Attributes:
        losses: log loss of each candidate on each row, shape (K, n).
        share: weight of each row in the mean; the weights sum to 1.
        groups: cluster of each row, whose errors are correlated; or ``None``.
        case: case of each row, if rows are the votes of cases; or ``None``.
    """

    losses: FloatArray
    share: FloatArray
    groups: IntArray | None = None
    case: IntArray | None = None

    @property
    def means(self) -> FloatArray:
        """Mean log loss of each candidate."""
        return self.losses @ self.share

    def simplest(self, standard_errors: float = 1.0) -> int:
        """Index of the first candidate within so many standard errors of the best.

        Candidates are sorted from the simplest, or the most strongly regularised, to the most flexible. With few rows
        the best log loss is mostly chance, and the rule prefers the simpler candidate.
        """
        difference = self.losses - self.losses[np.argmin(self.means)]
        excess = difference @ self.share
        errors = (difference - excess[:, None]) * self.share
        if self.groups is not None:
            errors = np.stack([np.bincount(self.groups, weights=row_errors) for row_errors in errors])
        return int(np.argmax(excess <= standard_errors * np.sqrt((errors**2).sum(axis=1))))

    def average_weights(self) -> FloatArray:
        """Weights of the average of the candidates' probabilities that has the lowest log loss, shape (K,).

        They are the mixture weights of highest likelihood, by the EM algorithm. A further row counts for each candidate
        but the last, most flexible one, so that few rows do not give weight to it by chance.

        Example:
            >>> losses = -np.log([[0.8] * 50 + [0.2] * 50, [0.5] * 100, [0.1] * 100])
            >>> LogLosses(losses, np.full(100, 0.01)).average_weights().round(2)
            array([0.15, 0.85, 0.  ])
        """
        likelihoods = np.exp(self.losses.min(axis=0) - self.losses)
        share = self.share if self.case is None else np.bincount(self.case, weights=self.share)
        prior = PRIOR_ROWS * (share @ share)  # as a share of Kish's effective sample size
        weights = np.full(len(likelihoods), 1 / len(likelihoods))
        for _ in range(_MAX_STEPS):
            previous = weights
            weights = previous * (likelihoods @ (self.share / (previous @ likelihoods)))
            weights[:-1] += prior
            weights /= weights.sum()
            if np.abs(weights - previous).max() < _TOLERANCE:
                break
        return weights


def cross_val_log_losses(
    y: Targets,
    sample_weight: FloatArray,
    log_probs: Callable[[npt.NDArray[np.intp], npt.NDArray[np.intp]], list[FloatArray]],
    *,
    groups: IntArray | None = None,
) -> LogLosses:
    """Log losses of candidates by five-fold cross-validation; rows of a cluster stay in one fold.

    ``y`` are labels, or shares of votes of shape (n, C), each of whose votes then has a loss. ``log_probs`` is a
    function of train and test rows to the log-probabilities of the test rows under each candidate.
    """
    losses, weights, rows = [], [], []
    for train, test in splits(y, groups=groups):
        candidates = log_probs(train, test)
        case, label, weight = weighted_rows(y[test], sample_weight[test])
        losses.append(-np.array([values[case][np.arange(len(label)), label] for values in candidates]))
        weights.append(weight)
        rows.append(test[case])
    share, row = np.concatenate(weights), np.concatenate(rows)
    cases = None if y.ndim == 1 else row
    row_groups = cases if groups is None else groups[row]
    return LogLosses(np.concatenate(losses, axis=1), share / share.sum(), row_groups, cases)
