"""The expected grade against observed grades: standardized mean difference, and accuracy for true grades (PRMSE).

The expected grade of a row is sum_k k p_k. The formulas are those of scoring engines in education, as documented by
RSMTool (Madnani and Loukina).
"""

from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.inputs import FloatArray, as_probs
from orcu.metrics.base import documented, function_of
from orcu.metrics.rows import checked_weight
from orcu.metrics.sums import VALUE, Sums, labelled_sums
from orcu.raters.votes import as_votes, is_counts, is_votes


@function_of(labelled_sums)
def standardized_mean_difference(sums: Sums) -> float:
    """Standardized mean difference (SMD): mean expected grade minus mean observed grade, in standard deviations.

    The standard deviation is that of the observed grades, with N - 1. Above 0 the model grades too high. NaN if all
    grades are equal.

    Example:
        >>> round(
        ...     standardized_mean_difference([[0.5, 0.5], [0.5, 0.5], [0.1, 0.9], [0.1, 0.9]], [0, 1, 0, 1]), 4
        ... )
        0.3464
    """
    spread = grade_deviation(sums, float(sums.total))
    return float(mean_difference(sums)) / spread if spread > 0 else np.nan


def mean_difference(sums: Sums) -> FloatArray:
    """Mean expected grade minus mean observed grade, shape (...)."""
    grades = np.arange(sums.confusion.shape[-1])
    return (sums.classes[..., VALUE, :].sum(-1) - sums.confusion.sum(-1)) @ grades / sums.total


def grade_deviation(sums: Sums, rows: float) -> float:
    """Standard deviation of the observed grades, with N - 1 for N rows."""
    labels = sums.confusion.sum(-1) / sums.total
    grades = np.arange(len(labels))
    variance = float(labels @ (grades - labels @ grades) ** 2)
    return float(np.sqrt(variance * rows / (rows - 1))) if rows > 1 else 0.0


@documented
def prmse(probs: Any, y: Any, *, sample_weight: Any = None) -> float:
    """Proportional reduction in mean squared error (PRMSE) of the expected grade as a prediction of the true grade.

    The true grade of a case is the mean over all raters. Its variance and the error of the prediction are estimated
    from the votes, corrected for the variance of the errors of raters: about 1 for a perfect prediction, and 0 for
    always predicting the mean. The estimate may exceed 1. ``y`` are counts of votes, shape (n, C), with two or more
    votes of some cases. NaN without variance of true grades.

    Example:
        >>> votes = [[2, 0, 0], [0, 2, 0], [0, 1, 1], [0, 0, 2]]
        >>> round(prmse([[0.6, 0.4, 0.0], [0.1, 0.8, 0.1], [0.1, 0.7, 0.2], [0.0, 0.4, 0.6]], votes), 4)
        0.9138
    """
    probs = as_probs(probs)
    if not is_votes(y):
        raise InputError("y: expected counts of votes, shape (n, C): one label per row does not show errors of raters.")
    votes = as_votes(y, probs.shape[1], rows=len(probs))
    if not is_counts(votes) or votes.sum(axis=1).max() < 2:
        raise InputError("y: expected counts of votes with two or more votes of at least one case.")
    weight = checked_weight(sample_weight, len(probs))
    return float(prmse_of_sums(prmse_sums(probs, votes, weight).sum(axis=0)))


def prmse_sums(probs: FloatArray, votes: FloatArray, weight: FloatArray | None = None) -> FloatArray:
    """Contribution of each case to the sums of the PRMSE, shape (n, 7); weights have a mean of 1.

    With c votes of a case, their mean h and the expected grade m: 1, c, c^2, c h, c h^2, c (h - m)^2, and the sum of
    squares of the votes around h.
    """
    grades = np.arange(probs.shape[1])
    count, expected = votes.sum(axis=1), probs @ grades
    mean = votes @ grades / count
    within = (votes * (grades - mean[:, None]) ** 2).sum(axis=1)
    columns = [
        np.ones(len(count)), count, count**2, count * mean, count * mean**2, count * (mean - expected) ** 2, within,
    ]  # fmt: skip
    sums = np.stack(columns, axis=1)
    return sums if weight is None else sums * (weight / weight.mean())[:, None]


def prmse_of_sums(sums: FloatArray) -> FloatArray:
    """PRMSE of the sums of `prmse_sums`, shape (..., 7) to (...).

    The error variance is the pooled variance of the votes within cases. The variance of true grades is that between
    cases, and the mean squared error that of h, each minus the part of the error variance.
    """
    cases, votes, squares, total, total_squares, error, within = np.moveaxis(sums, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        error_variance = within / (votes - cases)
        between = total_squares - total**2 / votes
        true_variance = (between - (cases - 1) * error_variance) / (votes - squares / votes)
        squared_error = (error - cases * error_variance) / votes
        return np.where(true_variance > 0, 1 - squared_error / true_variance, np.nan)
