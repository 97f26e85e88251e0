"""Comparison of a model with several raters per case: what one rater, the other raters and a perfect model reach.

A case with m votes has the shares s_k and the cumulative shares G(k). All means over a random vote, such as the RPS of
the model, are linear in the shares and unbiased for any number of votes. Squares of shares are not: their expectation
depends on m. Where an unbiased estimate exists, from pairs of different raters, it is used. Otherwise the quantity is
enclosed by an optimistic value (the same votes choose the prediction and score it) and a pessimistic one (a vote is
scored by the other m - 1 votes).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu import geometry
from orcu.evaluation.statistics import SufficientStatistics
from orcu.inputs import FloatArray, IntArray
from orcu.metrics.mean_grade import prmse_of_sums, prmse_sums
from orcu.predictions import Predictions
from orcu.raters.agreement import Agreement, agreement
from orcu.raters.votes import is_counts, label_shares, median_votes, raters_are_resampled
from orcu.resampling import Estimate, interval, resampled_sums

MIN_VOTES_FOR_SHAPE = 3  # two votes for distant grades say little about the shape of all opinions
MAX_CASES_LISTED = 5
BOUNDS = {"accuracy": (0.0, 1.0), "mae": (0.0, math.inf), "rps": (0.0, math.inf), "brier": (0.0, 2.0)}


@dataclass(frozen=True)
class Ceiling:
    """What the model, raters and a perfect model reach in one metric, on cases with two or more votes.

    A perfect model predicts the distribution from which the votes of each case are drawn. Its value is known to lie
    between ``perfect_optimistic`` and ``perfect_pessimistic``, which are equal where an unbiased estimate exists.
    """

    metric: str
    model: Estimate
    single_rater: Estimate  # one rater's grade as the prediction of another rater's
    other_raters: Estimate  # the grades of all other raters as the prediction of a rater's
    perfect_optimistic: Estimate
    perfect_pessimistic: Estimate


@dataclass(frozen=True)
class SplitCase:
    """A case on which the model and the raters differ in how certain they are."""

    row: int
    raters_disagree: float  # probability that two raters give different grades
    model_disagrees: float  # the same if both grades were drawn from the prediction


@dataclass(frozen=True)
class RaterEvaluation:
    """Votes of an evaluation: their number, agreement, ceilings, and cases on which model and raters differ."""

    votes: int | None  # number of votes; None if only shares are known
    raters: int | None  # number of raters; None if they are not named
    votes_per_case: tuple[int, int] | None  # fewest and most
    paired_cases: int  # cases with two or more votes
    raters_resampled: bool  # whether the intervals of the metrics hold for new raters too
    ceilings: list[Ceiling]
    distances: dict[str, Estimate]  # between the predicted distribution and that of the votes
    prmse: Estimate | None  # of the expected grade, for the true grades of all cases; None without two votes of a case
    unimodal_votes: Estimate | None  # share of cases with unimodal votes, among those with three or more
    agreement: Agreement | None
    people_split: list[SplitCase]  # raters disagree, the model is certain
    model_split: list[SplitCase]  # raters agree, the model is uncertain


def evaluate_raters(statistics: SufficientStatistics, n_resamples: int, random_state: int) -> RaterEvaluation:
    """Compare a model with the raters of its cases; ``statistics`` have votes."""
    sample = statistics.sample
    if sample.votes is None:
        raise ValueError("statistics: the cases have no votes.")
    bootstrap = _CaseBootstrap(statistics, n_resamples, random_state)
    ratings = sample.ratings
    has_counts = is_counts(sample.votes)
    totals = sample.votes.sum(axis=1)
    paired = totals >= 2 if has_counts else np.zeros(len(totals), dtype=bool)
    columns = _CaseValues(sample, _decisions(statistics)) if paired.any() else None
    people, model = _split_cases(sample, paired)
    return RaterEvaluation(
        votes=int(totals.sum()) if has_counts else None,
        raters=len(ratings.raters) if ratings is not None else None,
        votes_per_case=(int(totals.min()), int(totals.max())) if has_counts else None,
        paired_cases=int(paired.sum()),
        raters_resampled=ratings is not None and not statistics.sampled and raters_are_resampled(ratings),
        ceilings=[] if columns is None else _ceilings(columns, paired, bootstrap),
        distances=_distances(sample, columns, paired, bootstrap),
        prmse=bootstrap.prmse(sample) if paired.any() else None,
        unimodal_votes=_unimodal_votes(sample, has_counts, bootstrap),
        agreement=_agreement(sample, n_resamples, random_state) if paired.any() else None,
        people_split=people,
        model_split=model,
    )


def _agreement(sample: Predictions, n_resamples: int, random_state: int) -> Agreement:
    ratings = sample.votes if sample.ratings is None else sample.ratings
    return agreement(ratings, cluster=sample.cluster, n_resamples=n_resamples, random_state=random_state)


def _decisions(statistics: SufficientStatistics) -> IntArray:
    rows = statistics.sample_rows()
    return rows[rows.first_rows].decision


class _CaseBootstrap:
    """Weighted means over cases, with intervals from resamples of cases or clusters."""

    def __init__(self, statistics: SufficientStatistics, n_resamples: int, random_state: int) -> None:
        self._unit, self._units = statistics.sample_unit, statistics.units
        weight = statistics.sample.sample_weight
        self._weight = np.ones(len(statistics.sample)) if weight is None else weight
        self._n_resamples, self._random_state = n_resamples, random_state
        self._factor = statistics.small_sample_factor if n_resamples else 1.0

    def mean(self, values: FloatArray, used: Any, bounds: tuple[float, float]) -> Estimate:
        """Mean of the values (n,) over the used cases, with its interval."""
        weight = self._weight * used
        if not weight.any():
            return Estimate(math.nan)
        weighted = np.where(used, values, 0.0) * weight
        value = float(weighted.sum() / weight.sum())
        if not self._n_resamples:
            return Estimate(value)
        sums = np.stack([np.bincount(self._unit, weights=part, minlength=self._units) for part in (weighted, weight)])
        draws = resampled_sums(sums.T, self._n_resamples, self._random_state)
        with np.errstate(invalid="ignore"):
            means = draws[:, 0] / draws[:, 1]
        return Estimate(value, *interval(value, means[np.isfinite(means)], self._factor, bounds))

    def prmse(self, sample: Predictions) -> Estimate:
        """PRMSE of the expected grade, with its interval."""
        columns = prmse_sums(sample.probs, np.asarray(sample.votes), self._weight)
        value = float(prmse_of_sums(columns.sum(axis=0)))
        if not self._n_resamples or math.isnan(value):
            return Estimate(value)
        sums = np.stack([np.bincount(self._unit, weights=part, minlength=self._units) for part in columns.T], axis=1)
        draws = prmse_of_sums(resampled_sums(sums, self._n_resamples, self._random_state))
        return Estimate(value, *interval(value, draws, self._factor))


class _CaseValues:
    """Quantities of each case, shape (n,), from counts of votes; NaN where a case has no pair of votes."""

    def __init__(self, sample: Predictions, decision: IntArray) -> None:
        votes = sample.votes
        if votes is None:
            raise ValueError("sample: the cases have no votes.")
        grades, totals = np.arange(votes.shape[1]), votes.sum(axis=1)
        shares, below = label_shares(votes), geometry.cumulative(label_shares(votes))
        with np.errstate(divide="ignore", invalid="ignore"):
            pairs = totals / (totals - 1)  # a mean over pairs of different raters is this factor times that over all
            spread = pairs * (below * (1 - below)).sum(axis=1)
            differ = pairs * (1 - (shares**2).sum(axis=1))
        difference = geometry.cumulative(sample.probs) - below
        self.model = {
            "accuracy": shares[np.arange(len(votes)), decision],
            "mae": (shares * np.abs(grades - decision[:, None])).sum(axis=1),
            "rps": (difference**2).sum(axis=1) + (below * (1 - below)).sum(axis=1),
            "brier": ((sample.probs - shares) ** 2).sum(axis=1) + 1 - (shares**2).sum(axis=1),
        }
        # E|Y_i - Y_j| = 2 sum_k G(k) (1 - G(k)), and a point prediction has this RPS too.
        self.single_rater = {"accuracy": 1 - differ, "mae": 2 * spread, "rps": 2 * spread, "brier": 2 * differ}
        # The shares of m - 1 votes have a variance of G (1 - G) / (m - 1) around G.
        mode, median = _left_out(votes, shares)
        self.other_raters = {"accuracy": mode, "mae": median, "rps": pairs * spread, "brier": pairs * differ}
        center = median_votes(votes)
        self.optimistic = {
            "accuracy": shares.max(axis=1),
            "mae": (shares * np.abs(grades - center[:, None])).sum(axis=1),
            "rps": spread,
            "brier": differ,
        }
        self.pessimistic = {"accuracy": mode, "mae": median, "rps": spread, "brier": differ}


def _left_out(votes: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Score of each vote by the mode (accuracy; ties count in part) and the median (MAE) of the other votes, (n,)."""
    accuracy, error = np.zeros(len(votes)), np.zeros(len(votes))
    for k in range(votes.shape[1]):
        others = votes.copy()
        others[:, k] -= 1
        has_vote = votes[:, k] > 0
        others = np.where(has_vote[:, None], others, votes)
        modes = others == others.max(axis=1, keepdims=True)
        accuracy += shares[:, k] * modes[:, k] / modes.sum(axis=1)
        error += shares[:, k] * np.abs(k - median_votes(others))
    return accuracy, error


def _ceilings(values: _CaseValues, paired: Any, bootstrap: _CaseBootstrap) -> list[Ceiling]:
    columns = (values.model, values.single_rater, values.other_raters, values.optimistic, values.pessimistic)
    return [
        Ceiling(metric, *(bootstrap.mean(column[metric], paired, bounds) for column in columns))
        for metric, bounds in BOUNDS.items()
    ]


def _distances(
    sample: Predictions, values: _CaseValues | None, paired: Any, bootstrap: _CaseBootstrap
) -> dict[str, Estimate]:
    """Distances between the predicted distributions and those of the votes.

    "rps_excess" is sum_k (F(k) - G(k))^2, unbiased: the RPS of the model minus that of a perfect model. "emd" is the
    earth mover's distance sum_k |F(k) - G(k)| to the observed shares, which few votes increase.
    """
    if sample.votes is None:
        return {}
    below = geometry.cumulative(label_shares(sample.votes))
    difference = geometry.cumulative(sample.probs) - below
    every = np.ones(len(sample), dtype=bool)
    distances = {"emd": bootstrap.mean(np.abs(difference).sum(axis=1), every, (0.0, math.inf))}
    if values is not None:
        excess = values.model["rps"] - values.optimistic["rps"]
        distances["rps_excess"] = bootstrap.mean(excess, paired, (-math.inf, math.inf))
    return distances


def _unimodal_votes(sample: Predictions, has_counts: bool, bootstrap: _CaseBootstrap) -> Estimate | None:
    if sample.votes is None:
        return None
    enough = sample.votes.sum(axis=1) >= MIN_VOTES_FOR_SHAPE if has_counts else np.ones(len(sample), dtype=bool)
    if not enough.any():
        return None
    return bootstrap.mean(geometry.is_unimodal(sample.votes).astype(np.float64), enough, (0.0, 1.0))


def _split_cases(sample: Predictions, paired: Any) -> tuple[list[SplitCase], list[SplitCase]]:
    """Cases with the largest differences between the disagreement of raters and that which the model expects."""
    if sample.votes is None or not paired.any():
        return [], []
    totals, shares = sample.votes.sum(axis=1), label_shares(sample.votes)
    with np.errstate(divide="ignore", invalid="ignore"):
        raters = np.where(paired, totals / (totals - 1) * (1 - (shares**2).sum(axis=1)), np.nan)
    model = 1 - (sample.probs**2).sum(axis=1)
    surplus = np.where(paired, raters - model, 0.0)
    order = np.argsort(-surplus, kind="stable")
    reverse = np.argsort(surplus, kind="stable")
    people = [row for row in order[:MAX_CASES_LISTED].tolist() if surplus[row] > 0]
    certain = [row for row in reverse[:MAX_CASES_LISTED].tolist() if surplus[row] < 0]
    lists = [[SplitCase(row, float(raters[row]), float(model[row])) for row in rows] for rows in (people, certain)]
    return lists[0], lists[1]
