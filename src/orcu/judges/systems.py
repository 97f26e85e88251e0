"""Which system do people grade best: from few human grades and many judged items, with intervals that hold.

Prediction-powered inference (PPI++: Angelopoulos, Duchi and Zrnic 2023; with cross-fitted predictions: Zrnic and Candès
2024). The calibrated judge's expected grade stands in for the grades that nobody gave, and the human grades say how far
it is off. However bad the judge is, the interval stays right; the better it is, the narrower.
"""

import math
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import stdtr, stdtrit

from orcu.errors import InputError, UnknownNameError
from orcu.evaluation.intervals import LEVEL
from orcu.evaluation.printed import shown, shown_interval
from orcu.inputs import FloatArray, as_array, as_count, as_fraction
from orcu.io import text
from orcu.predictions.labels import is_missing, is_null

DRAWS = 10_000  # of all means together, for the ranks
FAR_APART = 3.0  # standard errors between graded and ungraded items, beyond which chance is no explanation
TARGET = "the mean human grade over all items of the kind that these are a random sample of, every item counted alike"
_ROUNDING = 1e-12  # a variance that is a smaller part of its terms is zero
_SYMMETRIC = 1e-6  # a skewness that changes no digit


@dataclass(frozen=True)
class SystemMean:
    """What people would grade a system on average.

    Attributes:
        system: its name.
        items: judged.
        graded: of these, by people.
        graded_clusters: among which these are spread.
        mean: of the human grade, by both people and the judge.
        low: where its interval begins.
        high: where its interval ends.
        humans_mean: the mean of the human grades alone.
        humans_low: where its interval begins.
        humans_high: where its interval ends.
        width_ratio: of the interval by both to that of humans alone.
        judge_weight: λ, from 0 (the judge tells nothing) to 1.
        graded_apart: the judge's mean grade of graded minus that of ungraded items in standard errors; ``None`` where
            there is nothing to compare.
        ranks: the probability of rank 1 (the highest mean), 2, ...
    """

    system: str
    items: int
    graded: int
    graded_clusters: int
    mean: float
    low: float
    high: float
    humans_mean: float
    humans_low: float
    humans_high: float
    width_ratio: float
    judge_weight: float
    graded_apart: float | None
    ranks: tuple[float, ...]

    @property
    def expected_rank(self) -> float:
        """The mean of its rank."""
        return sum(rank * share for rank, share in enumerate(self.ranks, 1))

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data, fit for JSON."""
        return asdict(self) | {"ranks": list(self.ranks), "expected_rank": self.expected_rank}


@dataclass(frozen=True)
class SystemDifference:
    """The mean of one system minus that of another, paired where they share clusters.

    Attributes:
        first: name of the one.
        second: name of the other.
        value: the difference.
        low: where its interval begins.
        high: where its interval ends.
        first_higher: the probability that the first one's mean is the higher.
    """

    first: str
    second: str
    value: float
    low: float
    high: float
    first_higher: float


@dataclass(frozen=True)
class SystemComparison:
    """The means of all systems, from the highest to the lowest, and what is known of their order.

    Attributes:
        systems: the mean of each.
        differences: between every two of them, the higher first.
        level: of all intervals.
        notes: what a reader must know of these numbers.
    """

    systems: tuple[SystemMean, ...]
    differences: tuple[SystemDifference, ...]
    level: float
    notes: tuple[str, ...]

    def __getitem__(self, system: str) -> SystemMean:
        known = {mean.system: mean for mean in self.systems}
        if system not in known:
            raise UnknownNameError("system", system, known)
        return known[system]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data, fit for JSON."""
        return {
            "target": TARGET,
            "level": self.level,
            "systems": [one.to_dict() for one in self.systems],
            "differences": [asdict(one) for one in self.differences],
            "notes": list(self.notes),
        }

    def to_markdown(self) -> str:
        """A row for each system."""
        interval = f"{100 * self.level:g} % interval"
        headings = ["system", "items", "graded", "mean", interval, "humans alone", interval, "width", "λ"]
        ranked = len(self.systems) > 1
        headings += ["rank", "P(first)", "P(above the next)"] if ranked else []
        above = {(one.first, one.second): one.first_higher for one in self.differences}
        following = [one.system for one in self.systems[1:]] + [""]
        rows = []
        for one, after in zip(self.systems, following, strict=True):
            row = [one.system, f"{one.items:,}", f"{one.graded:,}"]
            row += [_shown(one.mean), _shown(one.low, one.high)]
            row += [_shown(one.humans_mean), _shown(one.humans_low, one.humans_high)]
            row += [f"{one.width_ratio:.2f}", f"{one.judge_weight:.2f}"]
            if ranked:
                row += [f"{one.expected_rank:.1f}", shown(one.ranks[0], percent=True)]
                row += [shown(above.get((one.system, after), math.nan), percent=True)]
            rows.append(row)
        return text.markdown(headings, rows, "l" + "r" * (len(headings) - 1))

    def __str__(self) -> str:
        return "\n".join([self.to_markdown(), *self.notes])


def compare_systems(
    predicted: Any, human: Any, system: Any, *, cluster: Any = None, level: float = LEVEL, seed: int = 0
) -> SystemComparison:
    r"""The mean human grade of each system, from few human grades and many judged items.

    What is estimated is the mean human grade over all items of the kind that these are a random sample of, every item
    counted alike. With h the human grade, f the judge's expected grade, n graded and m ungraded items of a system

    .. math:: \hat\theta = \bar h_{graded} + \lambda (\bar f_{ungraded} - \bar f_{graded}).

    Any fixed λ is unbiased, whatever the judge says, as long as the graded items are a random part of the judged ones.
    Here it is the one of least estimated variance if items were drawn by themselves, clipped to [0, 1]:

    .. math:: \lambda = \frac{\operatorname{Cov}_{graded}(h, f)}
        {\operatorname{Var}_{graded}(f) + \frac n m \operatorname{Var}_{ungraded}(f)}.

    The covariance of the systems s and t is that of the jackknife over clusters c (single items, if there are none), λ
    estimated anew each time, with :math:`G_s` the clusters that hold human grades of s:

    .. math:: V_{st} = \sqrt{\tfrac{G_s - 1}{G_s} \tfrac{G_t - 1}{G_t}} \sum_c
        (\hat\theta_s^{-c} - \hat\theta_s)(\hat\theta_t^{-c} - \hat\theta_t).

    Quantiles are those of t with :math:`(\sum_c v_c)^2 / \sum_c v_c^2 - 1` degrees of freedom (at least 1),
    :math:`v_c = n_c (1 + (n_c - 1) \rho)` with :math:`n_c` the graded items of cluster c and ρ the correlation of human
    grades within clusters: clusters of unequal size count as fewer. Grades pile up at an end of their scale, and
    t misses such means more often than it says, always on the same side; so an interval holds those θ whose
    :math:`T = (\hat\theta - \theta) / \sqrt V`, less its skewness γ by Hall's transformation (1992),

    .. math:: g(T) = T + \gamma T^2 / 3 + \gamma^2 T^3 / 27 + \gamma / 6,

    is between the quantiles; γ is that of the jackknife, times :math:`\gamma^2 / (\gamma^2 + 6 / G^2)` with G the
    degrees of freedom plus 1, since few clusters show some skewness by chance. For humans alone, without clusters and
    skewness, this is the classical interval of a mean. Differences have the fewer degrees of freedom of the two; ranks
    come from draws of the joint t distribution with the fewest, without skewness.

    Args:
        predicted: the expected human grade of each item by a calibrated judge that has not seen the human grades of
            this item (nor of its cluster), shape (n,): out of fold for graded items.
        human: the human grade of each item (of several raters their mean), NaN where nobody graded, shape (n,).
        system: the name of the system of each item, shape (n,).
        cluster: what was drawn together, such as the prompt, shape (n,); systems may share clusters, and are then
            compared pair by pair. ``None`` if every item was drawn by itself.
        level: of the intervals.
        seed: of the draws for the ranks.

    Returns:
        The means, their differences, and notes: systems without ungraded items (λ is 0), and systems whose graded
        items look different from the others.

    Raises:
        InputError: if arrays are of unequal length, a prediction is missing or not finite, a system or cluster has no
            name, a system has fewer than two graded items or clusters, or its human grades show no spread: an interval
            of width 0 would be false.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> quality = rng.normal(np.repeat([3.0, 3.5], 1000), 1.0)
        >>> human = np.rint(quality + rng.normal(0, 0.5, 2000)).clip(1, 5)
        >>> human[rng.random(2000) > 0.05] = np.nan
        >>> comparison = compare_systems(quality, human, np.repeat(["old", "new"], 1000))
        >>> new = comparison["new"]
        >>> print(f"{new.mean:.2f} ({new.low:.2f} to {new.high:.2f}), {new.width_ratio:.2f} of the width")
        3.55 (3.38 to 3.71), 0.52 of the width
        >>> comparison.differences[0].first_higher > 0.99
        True
    """
    expected = _grades(predicted, "predicted")
    rows = len(expected)
    humans = _grades(human, "human", rows=rows, missing=True)
    names, system_of = _entries(system, "system", rows)
    cluster_of: npt.NDArray[np.intp] = np.arange(rows) if cluster is None else _entries(cluster, "cluster", rows)[1]
    if as_fraction(level, name="level") == 0:
        raise InputError("level: expected a number above 0 and below 1, such as 0.95; got 0.")
    seed = as_count(seed, name="seed", minimum=0)

    samples = []
    for code, name in enumerate(names):
        mine = np.flatnonzero(system_of == code)
        samples.append(_sample(name, expected[mine], humans[mine], cluster_of[mine]))
    samples.sort(key=lambda sample: (-sample.mean.value, sample.name))
    squares, cubes = _joint_moments(samples, int(cluster_of.max()) + 1)
    ranks = _ranks(samples, squares, seed)
    return SystemComparison(
        tuple(_system_mean(sample, tuple(row), level) for sample, row in zip(samples, ranks.tolist(), strict=True)),
        tuple(_difference(samples, squares, cubes, s, t, level) for s, t in combinations(range(len(samples)), 2)),
        float(level),
        tuple(note for sample in samples for note in _notes(sample)),
    )


@dataclass(frozen=True)
class _Estimate:
    """An estimate and its moments, by what each cluster adds to it.

    Attributes:
        value: the estimate.
        square: the sum of squares of what clusters add, which is the variance.
        cube: the sum of cubes.
        freedom: degrees of freedom.
    """

    value: float
    square: float
    cube: float
    freedom: float

    @property
    def error(self) -> float:
        """The standard error."""
        return math.sqrt(self.square)

    @property
    def skewness(self) -> float:
        """γ, of the estimate, shrunk the more the less it exceeds what a symmetric sample of this size shows."""
        plain = self.cube / self.error**3
        return plain**3 / (plain**2 + 6 / (self.freedom + 1) ** 2)

    def interval(self, level: float) -> tuple[float, float]:
        """The ends of the interval: where Hall's g is a quantile of t."""
        high = float(stdtrit(self.freedom, (1 + level) / 2))
        skewness = self.skewness
        if abs(skewness) > _SYMMETRIC:
            ends = [3 / skewness * (math.cbrt(1 + skewness * (x - skewness / 6)) - 1) for x in (high, -high)]
        else:
            ends = [high, -high]
        return self.value - self.error * ends[0], self.value - self.error * ends[1]

    def above_zero(self) -> float:
        """The probability that what is estimated is above 0."""
        x, skewness = self.value / self.error, self.skewness
        return float(stdtr(self.freedom, x + skewness * x**2 / 3 + skewness**2 * x**3 / 27 + skewness / 6))


@dataclass(frozen=True)
class _Sample:
    """The items of a system.

    Attributes:
        name: of the system.
        cluster: the numbers of its K clusters.
        sums: of each cluster, shape (K, 8): graded items, their h, f, h f and f²; ungraded items, their f and f².
        humans: the mean human grade, by people alone.
        mean: the same by people and judge.
        added: what each cluster adds to the latter, by the jackknife, shape (K,).
        judge_weight: λ.
        graded_apart: the expected grade of graded minus that of ungraded items, in standard errors.
    """

    name: str
    cluster: npt.NDArray[np.intp]
    sums: FloatArray
    humans: _Estimate
    mean: _Estimate
    added: FloatArray
    judge_weight: float
    graded_apart: float | None


def _sample(name: str, expected: FloatArray, humans: FloatArray, cluster_of: npt.NDArray[np.intp]) -> _Sample:
    """The estimates from the items of a system: expected grade, human grade or NaN, cluster.

    Raises:
        InputError: if there are too few human grades, or they show no spread.
    """
    graded = ~np.isnan(humans)
    grades = humans[graded]
    cluster, place = np.unique(cluster_of, return_inverse=True)
    _check_grades(name, grades, place[graded])
    centre = float(grades.mean())  # subtracted from all grades, which changes no difference and keeps squares small
    h, f = np.where(graded, humans - centre, 0.0), expected - centre
    columns = (graded, h, graded * f, graded * h * f, graded * f**2, ~graded, ~graded * f, ~graded * f**2)
    sums = np.array([np.bincount(place, weights=column, minlength=len(cluster)) for column in columns]).T

    count = sums[:, 0]
    clusters = int((count > 0).sum())
    freedom = _freedom(count, sums[:, 1], float((h**2).sum()))
    *values, weight = _estimates(sums)
    added = [math.sqrt(1 - 1 / clusters) * (value[0] - value[1:]) for value in values]
    alone, both, apart = (
        _Estimate(float(value[0]), float((part**2).sum()), float((part**3).sum()), freedom)
        for value, part in zip(values, added, strict=True)
    )
    least = math.sqrt(_ROUNDING) * float(grades.std())
    if min(alone.error, both.error) <= least:
        raise InputError(
            f"human: the grades of system {name!r} do not differ between its {clusters} graded clusters, so nothing "
            "tells how sure their mean is; let people grade items of more clusters."
        )
    return _Sample(
        name,
        cluster,
        sums,
        humans=replace(alone, value=centre + alone.value),
        mean=replace(both, value=centre + both.value),
        added=added[1],
        judge_weight=float(weight[0]),
        graded_apart=apart.value / apart.error if apart.error > least else None,
    )


def _freedom(count: FloatArray, totals: FloatArray, squares: float) -> float:
    """Degrees of freedom of a mean over clusters, (Σ v_c)² / Σ v_c² - 1 with v_c = n_c (1 + (n_c - 1) ρ).

    v_c is the variance that a cluster of n_c graded items brings where any two of them are correlated by ρ (Imbens and
    Kolesár 2016); ρ is that of the human grades by the analysis of variance, in [0, 1].

    Args:
        count: graded items of each cluster.
        totals: of their grades.
        squares: the sum of all squared grades.
    """
    there = count > 0
    n, sums = count[there], totals[there]
    items, clusters, correlation = float(n.sum()), len(n), 0.0
    if items > clusters:
        between = float((sums**2 / n).sum())
        among = (between - float(sums.sum()) ** 2 / items) / (clusters - 1)
        within = (squares - between) / (items - clusters)
        size = (items - float((n**2).sum()) / items) / (clusters - 1)
        spread = among + (size - 1) * within
        correlation = min(1.0, max(0.0, (among - within) / spread)) if spread > 0 else 0.0
    variances = n * (1 + (n - 1) * correlation)
    return max(1.0, float(variances.sum() ** 2 / (variances**2).sum() - 1))


def _check_grades(name: str, grades: FloatArray, cluster_of: npt.NDArray[np.intp]) -> None:
    """Refuse human grades of a system from which no interval follows."""
    if len(grades) < 2:
        raise InputError(
            f"human: the human grades of system {name!r} are {len(grades)} in number, expected 2 at the very least (30 "
            "or more make a useful interval); let people grade more of its items, or leave the system out."
        )
    if len(np.unique(cluster_of)) < 2:
        raise InputError(
            f"cluster: the {len(grades)} human grades of system {name!r} are all of one cluster, expected 2 clusters "
            "at the very least; let people grade items of other clusters, or leave the system out."
        )
    if np.ptp(grades) == 0:
        raise InputError(
            f"human: all {len(grades)} human grades of system {name!r} are {grades[0]:g}; without spread an interval "
            "would have the width 0, which is false. Let people grade more of its items, or leave the system out."
        )


def _estimates(sums: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Estimates from the sums of K clusters: from all (first), and without each in turn; each of shape (1 + K,).

    Returns:
        The mean human grade by people alone, by people and judge, the expected grade of graded minus that of ungraded
        items, and λ.
    """
    left = sums.sum(axis=0) - np.vstack([np.zeros(sums.shape[1]), sums])
    n, h, f, hf, ff, m, u, uu = left.T
    share = np.divide(1.0, m, out=np.zeros(len(m)), where=m > 0)
    h, f, u = h / n, f / n, u * share
    covariance, variance = hf / n - h * f, ff / n - f**2 + n * share * (uu * share - u**2)
    tells = (m > 0) & (variance > _ROUNDING * (ff / n + n * share * uu * share))
    weight = np.divide(covariance, variance, out=np.zeros(len(m)), where=tells).clip(0, 1)
    shift = np.where(m > 0, f - u, 0)
    return h, h - weight * shift, shift, weight


def _joint_moments(samples: list[_Sample], clusters: int) -> tuple[FloatArray, FloatArray]:
    """The sums over clusters of d_s d_t, which is V, and of d_s² d_t, both of shape (S, S); d is what clusters add."""
    row = np.concatenate([sample.cluster for sample in samples])
    column = np.repeat(np.arange(len(samples)), [len(sample.cluster) for sample in samples])
    added = np.concatenate([sample.added for sample in samples])
    table = sparse.csr_array((added, (row, column)), shape=(clusters, len(samples)))
    return (table.T @ table).toarray(), ((table**2).T @ table).toarray()


def _ranks(samples: list[_Sample], covariance: FloatArray, seed: int) -> FloatArray:
    """The probability of each rank of each system, shape (S, S), by draws of the joint t distribution."""
    size, rng = len(samples), np.random.default_rng(seed)
    freedom = min(sample.mean.freedom for sample in samples)
    level, axes = np.linalg.eigh(covariance)
    root = (axes * np.sqrt(level.clip(min=0))) @ axes.T  # symmetric: no sign of an axis is left to chance
    noise = rng.standard_normal((DRAWS, size)) @ root / np.sqrt(rng.chisquare(freedom, size=(DRAWS, 1)) / freedom)
    falling = np.argsort(-(noise + [sample.mean.value for sample in samples]), axis=1)
    return np.array([(falling == s).mean(axis=0) for s in range(size)])


def _system_mean(sample: _Sample, ranks: tuple[float, ...], level: float) -> SystemMean:
    low, high = sample.mean.interval(level)
    humans_low, humans_high = sample.humans.interval(level)
    graded, ungraded = (int(sample.sums[:, column].sum()) for column in (0, 5))
    return SystemMean(
        system=sample.name,
        items=graded + ungraded,
        graded=graded,
        graded_clusters=int((sample.sums[:, 0] > 0).sum()),
        mean=sample.mean.value,
        low=low,
        high=high,
        humans_mean=sample.humans.value,
        humans_low=humans_low,
        humans_high=humans_high,
        width_ratio=(high - low) / (humans_high - humans_low),
        judge_weight=sample.judge_weight,
        graded_apart=sample.graded_apart,
        ranks=ranks,
    )


def _difference(
    samples: list[_Sample], squares: FloatArray, cubes: FloatArray, s: int, t: int, level: float
) -> SystemDifference:
    """System s minus system t.

    Raises:
        InputError: if they differ by the same in all clusters.
    """
    first, second = samples[s], samples[t]
    square = float(squares[s, s] - 2 * squares[s, t] + squares[t, t])
    if square <= _ROUNDING * squares[s, s]:
        raise InputError(
            f"system: {first.name!r} and {second.name!r} differ by the same in every cluster, as if one was copied "
            "from the other, so nothing tells how sure their difference is; leave one of them out."
        )
    cube = float(cubes[s, s] - 3 * cubes[s, t] + 3 * cubes[t, s] - cubes[t, t])
    value, freedom = first.mean.value - second.mean.value, min(first.mean.freedom, second.mean.freedom)
    difference = _Estimate(value, square, cube, freedom)
    return SystemDifference(first.name, second.name, value, *difference.interval(level), difference.above_zero())


def _notes(sample: _Sample) -> list[str]:
    """What must be known of a system's numbers."""
    if not sample.sums[:, 5].any():
        return [f"{sample.name}: people graded all its items, so its mean is that of humans alone (λ = 0)."]
    if sample.graded_apart is None or abs(sample.graded_apart) <= FAR_APART:
        return []
    return [
        f"{sample.name}: its graded items look different from the others: the judge's mean grade of them is "
        f"{abs(sample.graded_apart):.1f} standard errors {'higher' if sample.graded_apart > 0 else 'lower'}. The "
        "interval holds only if the graded items are a random part of the judged ones: draw them at random, or judge "
        "only items of the kind that was graded."
    ]


def _shown(low: float, high: float | None = None) -> str:
    """A mean grade, or two ends of its interval."""
    return shown(low, percent=False) if high is None else shown_interval(low, high, percent=False)


def _grades(values: Any, name: str, *, rows: int | None = None, missing: bool = False) -> FloatArray:
    """Numbers of shape (n,), finite, or NaN where they may be missing.

    Raises:
        InputError: which names the row.
    """
    array = as_array(values, name)
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"{name}: expected one grade per item, shape (n,); got shape {array.shape}.")
    if rows is not None and len(array) != rows:
        raise InputError(f"{name}: {len(array)} entries for {rows} predicted grades; there must be one per item.")
    if array.dtype == object:
        entries = [math.nan if is_null(entry) else entry for entry in array.tolist()]
        for row, entry in enumerate(entries):
            if isinstance(entry, bool) or not isinstance(entry, Real):
                raise InputError(f"{name}: row {row} has {entry!r}, expected a grade as a number.")
        array = np.array(entries, dtype=np.float64)
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name}: expected grades as numbers, got {array.dtype} (row 0 is {array[0]!r}).")
    array = array.astype(np.float64)
    wrong = np.isinf(array) if missing else ~np.isfinite(array)
    if wrong.any():
        row = int(np.argmax(wrong))
        hint = "NaN where nobody graded" if missing else "judge the item, or drop it"
        raise InputError(f"{name}: row {row} has {array[row]}, expected a finite grade; {hint}.")
    return array


def _entries(values: Any, name: str, rows: int) -> tuple[list[str], npt.NDArray[np.intp]]:
    """The different names in a column, and which of them each row has.

    Raises:
        InputError: if there is not one per row; the text names the row.
    """
    column = as_array(values, name)
    if column.shape != (rows,):
        raise InputError(f"{name}: expected one entry per item, shape ({rows},); got {column.shape}.")
    entries, code = np.unique(column, return_inverse=True) if column.dtype != object else (column, np.arange(rows))
    empty = [k for k, entry in enumerate(entries.tolist()) if is_missing(entry)]
    if empty:
        row = int(np.argmax(np.isin(code, empty)))
        raise InputError(f"{name}: row {row} is empty; every item needs a {name}.")
    names, name_of = np.unique([str(entry).strip() for entry in entries.tolist()], return_inverse=True)
    return names.tolist(), name_of[code]
