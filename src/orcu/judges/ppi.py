"""Prediction-powered estimates of a mean grade, with cluster jackknife moments and skewness-corrected intervals.

PPI++ (Angelopoulos, Duchi and Zrnic 2023) with cross-fitted predictions (Zrnic and Candès 2024). The formulas are in
the docstring of `orcu.judges.systems.compare_systems`.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import stdtr, stdtrit

from orcu.errors import InputError
from orcu.inputs import FloatArray

_ROUNDING = 1e-12  # a variance below this share of its terms is zero
_MIN_SKEWNESS = 1e-6  # below this the skewness correction changes no digit


@dataclass(frozen=True)
class Estimate:
    """An estimate with the moments of the cluster contributions."""

    value: float
    square: float  # sum of squared contributions, which is the variance
    cube: float  # sum of cubed contributions
    freedom: float  # degrees of freedom

    @property
    def error(self) -> float:
        """The standard error."""
        return math.sqrt(self.square)

    @property
    def skewness(self) -> float:
        """γ of the estimate, shrunk towards 0 relative to the skewness that a symmetric sample of this size shows."""
        raw = self.cube / self.error**3
        return raw**3 / (raw**2 + 6 / (self.freedom + 1) ** 2)

    def interval(self, confidence_level: float) -> tuple[float, float]:
        """Lower and upper end of the interval: the inverse of Hall's transformation at the quantiles of t."""
        high = float(stdtrit(self.freedom, (1 + confidence_level) / 2))
        ends, skewness = [high, -high], self.skewness
        if abs(skewness) > _MIN_SKEWNESS:
            ends = [3 / skewness * (math.cbrt(1 + skewness * (x - skewness / 6)) - 1) for x in ends]
        return self.value - self.error * ends[0], self.value - self.error * ends[1]

    def prob_positive(self) -> float:
        """Probability that the estimated quantity is above 0."""
        x, skewness = self.value / self.error, self.skewness
        return float(stdtr(self.freedom, x + skewness * x**2 / 3 + skewness**2 * x**3 / 27 + skewness / 6))


@dataclass(frozen=True)
class SystemSample:
    """Estimates from the items of a system with K clusters."""

    name: str
    cluster: npt.NDArray[np.intp]  # indices of the clusters, shape (K,)
    sums: FloatArray  # shape (K, 8): number of graded items, their h, f, h f, f²; number of ungraded items, their f, f²
    human: Estimate  # mean human grade from human grades alone
    mean: Estimate  # mean human grade from human grades and the judge
    contributions: FloatArray  # jackknife contribution of each cluster to ``mean``, shape (K,)
    judge_weight: float  # λ
    graded_z_score: float | None  # mean prediction of graded minus ungraded items, in standard errors


def fit_system(
    name: str,
    predicted: FloatArray,
    human: FloatArray,
    cluster: npt.NDArray[np.intp],
    human_weight: FloatArray | None = None,
) -> SystemSample:
    """Estimate the mean grade of a system from predicted grades, human grades (NaN if missing) and cluster indices.

    With weights of the human grades, the estimates are those of `_weighted_jackknife`.
    """
    graded = ~np.isnan(human)
    grades = human[graded]
    clusters, position = np.unique(cluster, return_inverse=True)
    _check_grades(name, grades, position[graded])
    centre = float(grades.mean())  # centring keeps the squares small and changes no difference
    h, f = np.where(graded, human - centre, 0.0), predicted - centre
    columns = (graded, h, graded * f, graded * h * f, graded * f**2, ~graded, ~graded * f, ~graded * f**2)
    sums = np.array([np.bincount(position, weights=column, minlength=len(clusters)) for column in columns]).T

    count = sums[:, 0]
    n_graded_clusters = int((count > 0).sum())
    if human_weight is None:
        freedom = _degrees_of_freedom(count, sums[:, 1], float((h**2).sum()))
        *values, weight = _jackknife(sums)
    else:
        w = np.where(graded, human_weight, 0.0)
        parts = (w, w * h, w * f, w * h * f, w * f**2, np.ones(len(f)), f)
        weighted = np.array([np.bincount(position, weights=part, minlength=len(clusters)) for part in parts]).T
        freedom = max(1.0, float(weighted[:, 0].sum() ** 2 / (weighted[:, 0] ** 2).sum() - 1))
        *values, weight = _weighted_jackknife(weighted)
    contributions = [math.sqrt(1 - 1 / n_graded_clusters) * (value[0] - value[1:]) for value in values]
    human_only, combined, shift = (
        Estimate(float(value[0]), float((part**2).sum()), float((part**3).sum()), freedom)
        for value, part in zip(values, contributions, strict=True)
    )
    min_error = math.sqrt(_ROUNDING) * float(grades.std())
    if min(human_only.error, combined.error) <= min_error:
        raise InputError(
            f"human: the mean grade of system {name!r} is equal in its {n_graded_clusters} graded clusters, so its "
            "standard error cannot be estimated; grade items of more clusters."
        )
    z_score = shift.value / shift.error if shift.error > min_error else None
    human_mean, mean = (replace(estimate, value=centre + estimate.value) for estimate in (human_only, combined))
    return SystemSample(name, clusters, sums, human_mean, mean, contributions[1], float(weight[0]), z_score)


def joint_moments(samples: list[SystemSample], n_clusters: int) -> tuple[FloatArray, FloatArray]:
    """Sums over clusters of d_s d_t, which is V, and of d_s² d_t, both of shape (S, S); d are the contributions."""
    row = np.concatenate([sample.cluster for sample in samples])
    column = np.repeat(np.arange(len(samples)), [len(sample.cluster) for sample in samples])
    contributions = np.concatenate([sample.contributions for sample in samples])
    table = sparse.csr_array((contributions, (row, column)), shape=(n_clusters, len(samples)))
    return (table.T @ table).toarray(), ((table**2).T @ table).toarray()


def difference(samples: list[SystemSample], squares: FloatArray, cubes: FloatArray, s: int, t: int) -> Estimate:
    """Mean grade of system s minus that of system t."""
    first, second = samples[s], samples[t]
    square = float(squares[s, s] - 2 * squares[s, t] + squares[t, t])
    if square <= _ROUNDING * squares[s, s]:
        raise InputError(
            f"system: {first.name!r} and {second.name!r} differ by the same amount in every cluster, as copies do, so "
            "the standard error of their difference cannot be estimated; remove one of them."
        )
    cube = float(cubes[s, s] - 3 * cubes[s, t] + 3 * cubes[t, s] - cubes[t, t])
    freedom = min(first.mean.freedom, second.mean.freedom)
    return Estimate(first.mean.value - second.mean.value, square, cube, freedom)


def rank_probabilities(
    samples: list[SystemSample], covariance: FloatArray, n_draws: int, random_state: int
) -> FloatArray:
    """Probability of each rank of each system, shape (S, S), from draws of the joint t distribution."""
    rng = np.random.default_rng(random_state)
    freedom = min(sample.mean.freedom for sample in samples)
    eigenvalues, axes = np.linalg.eigh(covariance)
    root = (axes * np.sqrt(eigenvalues.clip(min=0))) @ axes.T  # symmetric, so the signs of the axes do not matter
    normal = rng.standard_normal((n_draws, len(samples))) @ root
    noise = normal / np.sqrt(rng.chisquare(freedom, size=(n_draws, 1)) / freedom)
    order = np.argsort(-(noise + [sample.mean.value for sample in samples]), axis=1)
    return np.array([(order == s).mean(axis=0) for s in range(len(samples))])


def _degrees_of_freedom(count: FloatArray, totals: FloatArray, squares: float) -> float:
    """Degrees of freedom of a mean over clusters, (Σ v_c)² / Σ v_c² - 1 with v_c = n_c (1 + (n_c - 1) ρ).

    v_c is the variance of a cluster of n_c graded items with intraclass correlation ρ (Imbens and Kolesár 2016).
    ``totals`` are the sums of the grades of each cluster, ``squares`` is the sum of all squared grades.
    """
    has_grades = count > 0
    n = count[has_grades]
    variances = n * (1 + (n - 1) * intraclass_correlation(n, totals[has_grades], squares))
    return max(1.0, float(variances.sum() ** 2 / (variances**2).sum() - 1))


def intraclass_correlation(n: FloatArray, sums: FloatArray, squares: float) -> float:
    """Analysis-of-variance estimate of the correlation of two values of a cluster, in [0, 1].

    Args:
        n: number of values of each cluster, above 0.
        sums: sum of the values of each cluster.
        squares: sum of all squared values.

    Example:
        >>> values = np.array([[1.0, 1.2], [3.0, 3.2], [2.0, 1.8]])
        >>> round(intraclass_correlation(np.full(3, 2.0), values.sum(axis=1), float((values**2).sum())), 2)
        0.98
    """
    items, clusters = float(n.sum()), len(n)
    if not items > clusters > 1:
        return 0.0
    between = float((sums**2 / n).sum())
    mean_square_between = (between - float(sums.sum()) ** 2 / items) / (clusters - 1)
    mean_square_within = (squares - between) / (items - clusters)
    size = (items - float((n**2).sum()) / items) / (clusters - 1)
    spread = mean_square_between + (size - 1) * mean_square_within
    ratio = (mean_square_between - mean_square_within) / spread if spread > 0 else 0.0
    return min(1.0, max(0.0, ratio))


def _check_grades(name: str, grades: FloatArray, cluster: npt.NDArray[np.intp]) -> None:
    """Raise if no interval can be computed from the human grades of a system."""
    if len(grades) < 2:
        problem = (
            f"human: system {name!r} has {len(grades)} human grades, expected 2 or more (30 for a useful interval)"
        )
    elif len(np.unique(cluster)) < 2:
        problem = f"cluster: the {len(grades)} human grades of system {name!r} are in one cluster, expected 2 or more"
    elif np.ptp(grades) == 0:
        problem = f"human: all {len(grades)} human grades of system {name!r} are {grades[0]:g}, expected some spread"
    else:
        return
    raise InputError(f"{problem}; grade more of its items, or remove the system.")


def _weighted_jackknife(sums: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    r"""`_jackknife` with weights w of the graded items, the inverse of their probability of being graded.

    The mean is :math:`\bar h_w + \lambda (\bar f_{all} - \bar f_w)` with weighted means of the graded items and λ the
    weighted regression of h on f, clipped to [0, 1]. ``sums`` are the sums of w, w h, w f, w h f, w f², 1 and f of each
    cluster, shape (K, 7). The third estimate is the weighted mean prediction of graded items minus that of all.
    """
    left = sums.sum(axis=0) - np.vstack([np.zeros(sums.shape[1]), sums])
    w, h, f, hf, ff, n, all_f = left.T
    h, f, hf, ff, all_f = h / w, f / w, hf / w, ff / w, all_f / n
    covariance, variance = hf - h * f, ff - f**2
    weight = np.divide(covariance, variance, out=np.zeros(len(w)), where=variance > _ROUNDING * ff).clip(0, 1)
    return h, h + weight * (all_f - f), f - all_f, weight


def _jackknife(sums: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Estimates from all K clusters (first), and without each cluster; each of shape (1 + K,).

    They are the mean from human grades alone, the mean from human grades and the judge, the mean prediction of graded
    minus ungraded items, and λ.
    """
    left = sums.sum(axis=0) - np.vstack([np.zeros(sums.shape[1]), sums])
    n, h, f, hf, ff, m, u, uu = left.T
    share = np.divide(1.0, m, out=np.zeros(len(m)), where=m > 0)
    h, f, u = h / n, f / n, u * share
    covariance, variance = hf / n - h * f, ff / n - f**2 + n * share * (uu * share - u**2)
    has_spread = (m > 0) & (variance > _ROUNDING * (ff / n + n * share * uu * share))
    weight = np.divide(covariance, variance, out=np.zeros(len(m)), where=has_spread).clip(0, 1)
    shift = np.where(m > 0, f - u, 0)
    return h, h - weight * shift, shift, weight
