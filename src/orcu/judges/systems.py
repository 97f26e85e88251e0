"""Comparison of systems by their mean human grade, from few human grades and many judged items."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError, UnknownNameError
from orcu.evaluation.formatting import format_interval, format_value
from orcu.inputs import FloatArray, as_array, as_count, as_fraction, as_numbers
from orcu.judges.grades import as_names
from orcu.judges.ppi import SystemSample, difference, fit_system, joint_moments, rank_probabilities
from orcu.predictions.labels import is_null
from orcu.resampling import CONFIDENCE_LEVEL

N_DRAWS = 10_000  # draws of the joint distribution of all means, for the ranks
MAX_Z_SCORE = 3.0  # difference between graded and ungraded items, in standard errors, up to which it may be chance
TARGET = (
    "the mean human grade over the population of items that these are a random sample of, all items weighted equally"
)


@dataclass(frozen=True)
class SystemMean:
    """Estimated mean human grade of a system."""

    system: str
    n_items: int  # number of judged items
    n_graded: int  # number of items with a human grade
    n_graded_clusters: int  # number of clusters with a human grade
    mean: float  # estimate from human grades and the judge
    low: float  # ends of its interval
    high: float
    human_mean: float  # mean of the human grades alone
    human_low: float  # ends of its interval
    human_high: float
    judge_weight: float  # λ, from 0 (the judge has no information) to 1
    graded_z_score: float | None  # mean prediction of graded minus ungraded items, in standard errors
    ranks: tuple[float, ...]  # probability of rank 1 (the highest mean), 2, ...

    @property
    def expected_rank(self) -> float:
        """Mean of the rank distribution."""
        return sum(rank * share for rank, share in enumerate(self.ranks, 1))

    @property
    def width_ratio(self) -> float:
        """Width of the interval of ``mean`` relative to that of ``human_mean``."""
        return (self.high - self.low) / (self.human_high - self.human_low)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        derived = {"width_ratio": self.width_ratio, "expected_rank": self.expected_rank, "ranks": list(self.ranks)}
        return asdict(self) | derived


@dataclass(frozen=True)
class SystemDifference:
    """Mean grade of one system minus that of another, paired where they share clusters."""

    first: str
    second: str
    value: float
    low: float  # ends of the interval
    high: float
    prob_first_higher: float  # probability that the mean of the first system is higher


@dataclass(frozen=True)
class SystemComparison:
    """Mean grades of all systems, the highest first."""

    systems: tuple[SystemMean, ...]
    differences: tuple[SystemDifference, ...]  # of each pair of systems, the higher one first
    confidence_level: float
    notes: tuple[str, ...]
    excluded: Mapping[str, str] = field(default_factory=dict)  # systems without an interval, and why

    def __getitem__(self, system: str) -> SystemMean:
        means = {mean.system: mean for mean in self.systems}
        if system not in means:
            raise UnknownNameError("system", system, means)
        return means[system]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "target": TARGET,
            "confidence_level": self.confidence_level,
            "systems": [mean.to_dict() for mean in self.systems],
            "differences": [asdict(difference) for difference in self.differences],
            "notes": list(self.notes),
            "excluded": dict(self.excluded),
        }

    def to_markdown(self) -> str:
        """Markdown table with a row per system."""
        from orcu.report.text_tables import markdown

        interval = f"{100 * self.confidence_level:g} % interval"
        headings = ["system", "items", "graded", "mean", interval, "humans alone", interval, "width", "λ"]
        is_ranked = len(self.systems) > 1
        headings += ["rank", "P(first)", "P(above the next)"] if is_ranked else []
        prob_higher = {(pair.first, pair.second): pair.prob_first_higher for pair in self.differences}
        rows = []
        for mean, next_system in zip(self.systems, [*(mean.system for mean in self.systems[1:]), ""], strict=True):
            row = [mean.system, f"{mean.n_items:,}", f"{mean.n_graded:,}"]
            row += [format_value(mean.mean, percent=False), format_interval(mean.low, mean.high, percent=False)]
            row += [format_value(mean.human_mean, percent=False)]
            row += [format_interval(mean.human_low, mean.human_high, percent=False)]
            row += [f"{mean.width_ratio:.2f}", f"{mean.judge_weight:.2f}"]
            if is_ranked:
                row += [f"{mean.expected_rank:.1f}", format_value(mean.ranks[0], percent=True)]
                row += [format_value(prob_higher.get((mean.system, next_system), math.nan), percent=True)]
            rows.append(row)
        return markdown(headings, rows, "l" + "r" * (len(headings) - 1))

    def __str__(self) -> str:
        return "\n".join([self.to_markdown(), *self.notes])


def compare_systems(
    predicted: Any,
    human: Any,
    system: Any,
    *,
    cluster: Any = None,
    human_weight: Any = None,
    confidence_level: float = CONFIDENCE_LEVEL,
    random_state: int = 0,
) -> SystemComparison:
    r"""Estimate the mean human grade of each system from few human grades and many judged items.

    Prediction-powered inference: the expected grade of a calibrated judge replaces the missing human grades, and the
    human grades correct its bias. The interval is valid for any judge, and narrower for a better one. The target is
    the mean human grade over the population of items that these are a random sample of. With h the human grade, f
    the judge's expected grade, n graded and m ungraded items of a system

    .. math:: \hat\theta = \bar h_{graded} + \lambda (\bar f_{ungraded} - \bar f_{graded}).

    Any fixed λ is unbiased if the graded items are a random part of the judged ones. Here λ minimises the estimated
    variance for independent items, clipped to [0, 1]:

    .. math:: \lambda = \frac{\operatorname{Cov}_{graded}(h, f)}
        {\operatorname{Var}_{graded}(f) + \frac n m \operatorname{Var}_{ungraded}(f)}.

    The covariance of the systems s and t is that of the jackknife over clusters c (single items without clusters), with
    λ estimated each time, and :math:`G_s` the number of clusters with human grades of s:

    .. math:: V_{st} = \sqrt{\tfrac{G_s - 1}{G_s} \tfrac{G_t - 1}{G_t}} \sum_c
        (\hat\theta_s^{-c} - \hat\theta_s)(\hat\theta_t^{-c} - \hat\theta_t).

    Quantiles are those of t with :math:`(\sum_c v_c)^2 / \sum_c v_c^2 - 1` degrees of freedom (at least 1),
    :math:`v_c = n_c (1 + (n_c - 1) \rho)` with :math:`n_c` the graded items of cluster c and ρ the intraclass
    correlation of the human grades. Grades often pile up at an end of the scale, where t intervals undercover on one
    side. The interval therefore contains those θ whose :math:`T = (\hat\theta - \theta) / \sqrt V`, corrected for
    its skewness γ by Hall's transformation (1992),

    .. math:: g(T) = T + \gamma T^2 / 3 + \gamma^2 T^3 / 27 + \gamma / 6,

    is between the quantiles. γ is that of the jackknife, times :math:`\gamma^2 / (\gamma^2 + 6 / G^2)` with G the
    degrees of freedom plus 1, because few clusters show some skewness by chance. For human grades alone, without
    clusters and skewness, this is the classical interval of a mean. Differences have the smaller degrees of freedom
    of the two; ranks come from draws of the joint t distribution with the smallest, without skewness.

    Args:
        predicted: expected human grade of each item by a calibrated judge, shape (n,); out of fold for graded items and
            their clusters.
        human: human grade of each item (the mean of several raters), NaN if missing, shape (n,).
        system: name of the system of each item, shape (n,).
        cluster: sampling unit of each item, such as its prompt, shape (n,); systems that share clusters are compared
            pairwise. ``None`` for independent items.
        human_weight: weights of the human grades if the graded items are not a random part, the inverse of their
            probability of being graded, shape (n,); see `orcu.judges.graded_weights`. Entries without a human grade
            are ignored. The weights count as known.
        confidence_level: confidence level of the intervals.
        random_state: seed of the draws for the ranks.

    Returns:
        The means, their differences, and notes about systems without ungraded items (λ is 0), systems whose graded
        items differ from the others, and systems that cannot be compared: those with fewer than two graded items or
        clusters, or human grades without spread.

    Raises:
        InputError: if lengths differ, a prediction is not finite, a system or cluster name is missing, or no system can
            be compared.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> quality = rng.normal(np.repeat([3.0, 3.5], 1000), 1.0)
        >>> human = np.rint(quality + rng.normal(0, 0.5, 2000)).clip(1, 5)
        >>> human[rng.random(2000) > 0.05] = np.nan
        >>> comparison = compare_systems(quality, human, np.repeat(["old", "new"], 1000))
        >>> new = comparison["new"]
        >>> print(f"{new.mean:.2f} ({new.low:.2f} to {new.high:.2f}), {new.width_ratio:.2f} of the width")
        3.55 (3.38 to 3.71), 0.52 of the width
        >>> comparison.differences[0].prob_first_higher > 0.99
        True
    """
    predictions = _as_grades(predicted, "predicted")
    rows = len(predictions)
    grades = _as_grades(human, "human", rows=rows, may_be_missing=True)
    names, system_of = _as_codes(system, "system", rows)
    cluster_of: npt.NDArray[np.intp] = np.arange(rows) if cluster is None else _as_codes(cluster, "cluster", rows)[1]
    if as_fraction(confidence_level, name="confidence_level") == 0:
        raise InputError("confidence_level: expected a number above 0 and below 1, such as 0.95; got 0.")
    random_state = as_count(random_state, name="random_state", minimum=0)
    weights = None if human_weight is None else _as_weights(human_weight, ~np.isnan(grades))

    samples, excluded = [], dict[str, str]()
    for code, name in enumerate(names):
        selected = np.flatnonzero(system_of == code)
        try:
            samples.append(fit_system(name, *_select(selected, predictions, grades, cluster_of, weights)))
        except InputError as error:
            excluded[name] = str(error)
    if not samples:
        raise InputError(next(iter(excluded.values())))
    samples.sort(key=lambda sample: (-sample.mean.value, sample.name))
    squares, cubes = joint_moments(samples, int(cluster_of.max()) + 1)
    ranks = rank_probabilities(samples, squares, N_DRAWS, random_state)
    differences = []
    for s, t in combinations(range(len(samples)), 2):
        pair = difference(samples, squares, cubes, s, t)
        ends = pair.interval(confidence_level)
        differences.append(SystemDifference(samples[s].name, samples[t].name, pair.value, *ends, pair.prob_positive()))
    return SystemComparison(
        tuple(map(_system_mean, samples, ranks.tolist(), [confidence_level] * len(samples))),
        tuple(differences),
        float(confidence_level),
        (*_weight_notes(weights, grades), *_notes(samples, excluded, is_weighted=weights is not None)),
        excluded,
    )


def _system_mean(sample: SystemSample, ranks: list[float], confidence_level: float) -> SystemMean:
    graded, ungraded = (int(sample.sums[:, column].sum()) for column in (0, 5))
    counts = graded + ungraded, graded, int((sample.sums[:, 0] > 0).sum())
    mean = sample.mean.value, *sample.mean.interval(confidence_level)
    human = sample.human.value, *sample.human.interval(confidence_level)
    return SystemMean(sample.name, *counts, *mean, *human, sample.judge_weight, sample.graded_z_score, tuple(ranks))


def _select(selected: Any, *columns: FloatArray | npt.NDArray[np.intp] | None) -> list[Any]:
    return [None if column is None else column[selected] for column in columns]


def _as_weights(values: Any, graded: npt.NDArray[np.bool_]) -> FloatArray:
    """Validate the weights of the human grades."""
    weights = _as_grades(values, "human_weight", rows=len(graded), may_be_missing=True)
    invalid = graded & ~(weights > 0)
    if invalid.any():
        row = int(np.argmax(invalid))
        raise InputError(f"human_weight: row {row} has a human grade and the weight {weights[row]}, expected above 0.")
    return weights


def _weight_notes(weights: FloatArray | None, grades: FloatArray) -> list[str]:
    if weights is None:
        return []
    used = weights[~np.isnan(grades)]
    return [
        "Human grades are weighted by the inverse of the probability that an item has one. The means are valid only if "
        f"the columns of the weights decide which items were graded. The {len(used):,} weighted grades are worth "
        f"{used.sum() ** 2 / (used**2).sum():,.0f} grades of equal weight."
    ]


def _notes(samples: list[SystemSample], excluded: Mapping[str, str], *, is_weighted: bool) -> list[str]:
    """Remarks about the items of the systems, one sentence for all systems that it is about."""
    notes = [f"Not compared: {reason}" for reason in excluded.values()]
    complete = [sample.name for sample in samples if not sample.sums[:, 5].any()]
    if complete:
        listed = ", ".join(complete)
        notes.append(f"{listed}: all items have a human grade, so the mean is that of human grades alone (λ = 0).")
    checked = [(sample.name, sample.graded_z_score) for sample in samples if sample.graded_z_score is not None]
    differing = [(name, z) for name, z in checked if abs(z) > MAX_Z_SCORE]
    if differing:
        listed = ", ".join(f"{name} ({abs(z):.1f} {'higher' if z > 0 else 'lower'})" for name, z in differing)
        notes.append(
            f"{listed}: the graded items differ from the others. The number is the difference of the judge's mean "
            "grade, in standard errors. Human grades are then not missing at random, and the intervals are not valid. "
            "Draw the graded items at random, compare only items of the graded kind, or weight the human grades "
            "(human_weight=, --reweight)."
        )
    elif checked and not is_weighted:
        largest = max(abs(z) for _, z in checked)
        notes.append(
            "The intervals assume that the graded items of each system are a random part of its items. Check: the "
            f"judge's mean grades of graded and other items differ by at most {largest:.1f} standard errors (limit "
            f"{MAX_Z_SCORE:g})."
        )
    return notes


def _as_grades(values: Any, name: str, *, rows: int | None = None, may_be_missing: bool = False) -> FloatArray:
    """Validate numbers of shape (n,), finite, or NaN where they may be missing."""
    array = as_array(values, name)
    if array.ndim != 1 or array.size == 0 or len(array) != (rows or len(array)):
        raise InputError(f"{name}: expected one grade per item, shape ({rows or 'n'},); got {array.shape}.")
    if array.dtype == object:
        array = as_numbers(np.array([math.nan if is_null(e) else e for e in array.tolist()], dtype=object), name)
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name}: expected numbers, got {array.dtype} (row 0 is {array[0]!r}).")
    invalid = np.isinf(array) if may_be_missing else ~np.isfinite(array)
    if invalid.any():
        row = int(np.argmax(invalid))
        hint = "use NaN for items without a grade" if may_be_missing else "predict the item, or remove it"
        raise InputError(f"{name}: row {row} has {array[row]}, expected a finite grade; {hint}.")
    return array.astype(np.float64)


def _as_codes(values: Any, name: str, rows: int) -> tuple[list[str], npt.NDArray[np.intp]]:
    """Sorted unique names of a column, and the index of each row's name."""
    column = as_array(values, name)
    if column.shape != (rows,):
        raise InputError(f"{name}: expected one entry per item, shape ({rows},); got {column.shape}.")
    unique, code = np.unique(as_names(column.tolist(), name), return_inverse=True)
    return unique.tolist(), code
