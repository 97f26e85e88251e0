"""Comparison of several models over several data sets by their ranks: Friedman test and critical difference."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import NamedTuple

import numpy as np

from orcu.errors import InputError
from orcu.inputs import FloatArray
from orcu.metrics.base import METRICS

MIN_DATASETS = 3
COLLAPSED = 0.1  # QWK below this value: the model has learned nothing, and its small calibration errors mean nothing
PERMUTATIONS = 9_999  # the smallest p-value is 1 / 10,000


class Result(NamedTuple):
    """Metrics of one run."""

    data: str
    model: str
    repeat: tuple[int, int]  # fold and seed
    metrics: Mapping[str, float]
    origin: str = ""  # data set whose rows it has, if several entries of a benchmark use the same


@dataclass(frozen=True)
class RankTest:
    """Ranks of models on data sets, with the Friedman test and Nemenyi's critical difference.

    Attributes:
        metric: name of the metric.
        models: names of the models, best mean rank first.
        datasets: names of the data sets.
        ranks: rank of each model on each data set, shape (N, k); 1 is best, ties share the mean of their ranks.
        chi_square: Friedman's statistic, corrected for ties.
        f_statistic: Iman and Davenport's F of the same ranks, infinite if all data sets rank the models alike.
        p_value: share of permutations of the ranks within the data sets whose statistic is at least as large.
        critical_difference: smallest difference of two mean ranks that is significant at ``alpha``.
        alpha: significance level.
        dropped: why each data set that is not used was dropped, by name.
        shared: data sets with the same rows, which the test treats as independent.
    """

    metric: str
    models: tuple[str, ...]
    datasets: tuple[str, ...]
    ranks: FloatArray
    chi_square: float
    f_statistic: float
    p_value: float
    critical_difference: float
    alpha: float
    dropped: dict[str, str]
    shared: list[list[str]]

    @property
    def mean_ranks(self) -> FloatArray:
        """Mean rank of each model over the data sets, shape (k,)."""
        mean: FloatArray = self.ranks.mean(axis=0)
        return mean

    @property
    def is_significant(self) -> bool:
        """Whether the Friedman test rejects that all models have the same rank."""
        return self.p_value <= self.alpha

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """Largest sets of at least two models that are not distinguished, best first; overlapping sets are possible.

        All models are one set if the Friedman test does not reject. Otherwise the mean ranks within a set differ by
        less than the critical difference.
        """
        if not self.is_significant:
            return [self.models]
        mean, groups, last = self.mean_ranks, list[tuple[str, ...]](), 0
        for start in range(len(mean)):
            end = int(np.searchsorted(mean, mean[start] + self.critical_difference, side="left"))
            if end - start > 1 and end > last:
                groups.append(self.models[start:end])
                last = end
        return groups

    def lines(self) -> list[str]:
        """The test in sentences: statistics, critical difference, sets of models, and dropped data sets."""
        k, n = len(self.models), len(self.datasets)
        f_text = "inf" if np.isinf(self.f_statistic) else f"{self.f_statistic:.2f}"
        p_text = f"{self.p_value:.4f}" if self.p_value > 1 / (PERMUTATIONS + 1) else f"<= {self.p_value:.4f}"
        lines = [
            f"Friedman test on {n} data sets: chi-square({k - 1}) = {self.chi_square:.2f}, "
            f"F({k - 1}, {(k - 1) * (n - 1)}) = {f_text}, p = {p_text} (ranks permuted within data sets)",
            f"Nemenyi critical difference of mean ranks at alpha = {self.alpha:g}: {self.critical_difference:.3f}",
        ]
        if not self.is_significant:
            lines.append("the test does not reject equal ranks: no two are distinguished")
        else:
            groups = "; ".join(", ".join(group) for group in self.groups)
            lines.append(f"not distinguished: {groups}" if groups else "all pairs are distinguished")
        lines += [f"dropped: {name}: {reason}" for name, reason in self.dropped.items()]
        lines += [f"not independent, so p is too small: {', '.join(names)} have the same rows" for names in self.shared]
        return lines


def rank_models(results: Iterable[Result], *, metric: str, models: Sequence[str] = (), alpha: float = 0.05) -> RankTest:
    r"""Rank models on each data set by their mean over folds, and test whether the mean ranks differ.

    The procedure is that of Demsar (JMLR 7, 2006). With N data sets, k models and mean ranks :math:`R_j`, Friedman's
    statistic without ties is :math:`\frac{12N}{k(k+1)} \sum_j (R_j - \frac{k+1}{2})^2`. Two models differ if their mean
    ranks differ by at least :math:`q_\alpha \sqrt{k(k+1) / 6N}`, with the quantile :math:`q_\alpha` of the studentized
    range divided by :math:`\sqrt 2` (Nemenyi). The p-value is that of a permutation test, because the usual
    approximations are poor for few data sets.

    A data set is dropped if a model has no value on some fold, or has collapsed (QWK below 0.1).

    Args:
        results: metrics of the runs; the QWK, if there is one, shows collapsed models.
        metric: name of the metric that ranks the models.
        models: names of the models; all by default.
        alpha: significance level.

    Raises:
        InputError: if there are fewer than two models or three complete data sets, no value of the metric is better
            than another, or ``alpha`` is not in (0, 1).

    Example:
        >>> errors = {"a": 0.1, "b": 0.2, "c": 0.3}
        >>> results = [
        ...     Result(f"set {i}", name, (0, 0), {"sce": errors[name]}) for i in range(6) for name in errors
        ... ]
        >>> test = rank_models(results, metric="sce")
        >>> test.mean_ranks.tolist(), test.chi_square, round(test.critical_difference, 3)
        ([1.0, 2.0, 3.0], 12.0, 1.353)
        >>> test.groups
        [('a', 'b'), ('b', 'c')]
    """
    if METRICS.get(metric).better == "":
        raise InputError(f"metric: no value of {metric} is better than another, so it gives no ranks.")
    if not 0 < alpha < 1:
        raise InputError(f"alpha: expected a number between 0 and 1, such as 0.05, got {alpha:g}.")
    results = list(results)
    names = list(models) or list(dict.fromkeys(result.model for result in results))
    if len(names) < 2:
        raise InputError(f"ranks need at least two losses, got {len(names)}.")
    values, dropped = dict[str, list[float]](), dict[str, str]()
    for data in dict.fromkeys(result.data for result in results):
        by_model = {name: [r for r in results if (r.data, r.model) == (data, name)] for name in names}
        if reason := _fault(by_model, metric):
            dropped[data] = reason
        else:
            values[data] = [mean(run.metrics[metric] for run in by_model[name]) for name in names]
    if len(values) < MIN_DATASETS:
        reasons = "".join(f" {data}: {reason}." for data, reason in dropped.items())
        fix = " Add data sets, or leave out losses (--losses)." if dropped else " Add data sets."
        raise InputError(
            f"ranks need at least {MIN_DATASETS} data sets with all {len(names)} losses, got {len(values)}."
            f"{reasons}{fix}"
        )
    origins = {result.data: result.origin for result in results if result.origin and result.data in values}
    by_origin = [[data for data in origins if origins[data] == name] for name in dict.fromkeys(origins.values())]
    shared = [entries for entries in by_origin if len(entries) > 1]
    costs: FloatArray = METRICS.get(metric).cost(np.array(list(values.values())))
    return _test(costs, metric, names, list(values), alpha, dropped, shared)


def _fault(by_model: Mapping[str, Sequence[Result]], metric: str) -> str:
    """Why a data set cannot be used, or an empty text."""
    repeats = {run.repeat for runs in by_model.values() for run in runs}
    complete = {
        name: {run.repeat for run in runs if math.isfinite(run.metrics.get(metric, math.nan))} == repeats
        for name, runs in by_model.items()
    }
    if incomplete := [name for name in by_model if not (complete[name] and repeats)]:
        return f"no {metric} of {', '.join(incomplete)} on some or all of its folds"
    collapsed = [
        name for name, runs in by_model.items() if mean(run.metrics.get("qwk", 1.0) for run in runs) < COLLAPSED
    ]
    return f"collapsed (QWK below {COLLAPSED}): {', '.join(collapsed)}" if collapsed else ""


def _test(
    costs: FloatArray,
    metric: str,
    names: Sequence[str],
    datasets: Sequence[str],
    alpha: float,
    dropped: dict[str, str],
    shared: list[list[str]],
) -> RankTest:
    from scipy import stats

    ranks = stats.rankdata(costs, axis=1)
    n, k = ranks.shape
    chi_square, p_value = _friedman(ranks)
    rest = n * (k - 1) - chi_square
    f_statistic = (n - 1) * chi_square / rest if rest > 1e-9 * n * k else float("inf")
    quantile = float(stats.studentized_range.ppf(1 - alpha, k, np.inf)) / math.sqrt(2)
    order = np.argsort(ranks.mean(axis=0), kind="stable")
    return RankTest(
        metric,
        tuple(names[j] for j in order),
        tuple(datasets),
        ranks[:, order],
        chi_square,
        f_statistic,
        p_value,
        quantile * math.sqrt(k * (k + 1) / (6 * n)),
        alpha,
        dropped,
        shared,
    )


def _friedman(ranks: FloatArray) -> tuple[float, float]:
    """Friedman's statistic of ranks (N, k), corrected for ties, and its p-value over permutations of each row."""
    n, k = ranks.shape
    centered = ranks - (k + 1) / 2
    variance = float((centered**2).sum()) / (n * (k - 1))  # mean over the data sets; k (k + 1) / 12 without ties
    if variance == 0:  # all models are equal on every data set
        return 0.0, 1.0
    rng = np.random.default_rng(0)
    permuted = rng.permuted(np.broadcast_to(centered, (PERMUTATIONS, n, k)), axis=2)
    observed, others = (_squared_sums(part) / (n * variance) for part in (centered[None], permuted))
    at_least = int((others >= observed[0] * (1 - 1e-9)).sum())
    return float(observed[0]), (1 + at_least) / (PERMUTATIONS + 1)


def _squared_sums(ranks: FloatArray) -> FloatArray:
    """Sum of squares of the columns' sums of several tables (B, N, k), shape (B,)."""
    sums: FloatArray = (ranks.sum(axis=1) ** 2).sum(axis=1)
    return sums
