"""Agreement of raters: Krippendorff's alpha, quadratic weighted kappa, Gwet's AC2 and shares of equal grades.

Every measure is a function of sums over cases, so the bootstrap over cases is one matrix product of counts and sums.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from orcu.errors import InputError, UnknownNameError
from orcu.inputs import FloatArray, IntArray, as_array, as_codes
from orcu.raters.votes import NOT_RATED, Ratings, as_votes, is_counts
from orcu.resampling import TAILS, Estimate, number_of_resamples, resampled_sums, resampling_units, small_sample_factor

MEASURES = (
    "alpha_ordinal",
    "alpha_interval",
    "alpha_nominal",
    "qwk_pooled",
    "qwk_pairwise",
    "ac2_quadratic",
    "ac2_linear",
    "exact",
    "off_by_one",
)
MIN_COMMON_CASES = 5  # pairs of raters with fewer common cases have no kappa
MAX_UNDEFINED = 0.01  # share of resamples in which a measure may be undefined; more, and it has no interval
_CHUNK = 50_000  # cases whose sums are in memory at a time
_PAIR_CHUNK = 500  # pairs of raters whose resampled sums are in memory at a time


@dataclass(frozen=True)
class PairAgreement:
    """Quadratic weighted kappa (Cohen) of two raters on the cases that both graded."""

    first: str
    second: str
    n_cases: int
    qwk: Estimate


@dataclass(frozen=True)
class Agreement:
    """Agreement of raters; ``result["alpha_ordinal"]`` is an `Estimate` with ``value``, ``low`` and ``high``.

    Attributes:
        estimates: value and 95 % interval of each measure of `MEASURES`; NaN where it is not defined.
        undefined: reason for each measure without a value or without an interval.
        pairs: kappa of each pair of named raters with 5 or more common cases; empty if raters are unknown.
        n_cases: number of cases with two or more grades.
        n_single: number of cases with one grade. They count only in the chance agreement of AC2.
        n_raters: number of raters; ``None`` if unknown.
        population: cases and raters that the intervals describe.
    """

    estimates: dict[str, Estimate]
    undefined: dict[str, str]
    pairs: tuple[PairAgreement, ...]
    n_cases: int
    n_single: int
    n_raters: int | None
    population: str

    def __getitem__(self, measure: str) -> Estimate:
        if measure not in self.estimates:
            raise UnknownNameError("measure of agreement", measure, self.estimates)
        return self.estimates[measure]

    def to_dict(self) -> dict[str, Any]:
        """All results as plain data for JSON; ``None`` where a number is not defined."""
        plain = asdict(self)
        plain["estimates"] = {measure: _ends(estimate) for measure, estimate in self.estimates.items()}
        plain["pairs"] = [asdict(pair) | {"qwk": _ends(pair.qwk)} for pair in self.pairs]
        return plain


def _ends(estimate: Estimate) -> dict[str, float | None]:
    ends = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return {name: number if np.isfinite(number) else None for name, number in ends.items()}


def agreement(
    ratings: Any,
    *,
    values: Any = None,
    cluster: Any = None,
    raters: str = "fixed",
    n_resamples: int | None = None,
    random_state: int = 0,
) -> Agreement:
    """Compute the agreement of raters, with 95 % intervals.

    | measure | definition |
    |---|---|
    | ``alpha_ordinal``, ``alpha_interval``, ``alpha_nominal`` | Krippendorff's alpha, see `krippendorff_alpha` |
    | ``qwk_pooled`` | quadratic weighted kappa over all pairs of grades of a case; all raters share one distribution |
    | ``qwk_pairwise`` | mean of Cohen's quadratic weighted kappa over the pairs of named raters (Light's kappa) |
    | ``ac2_quadratic``, ``ac2_linear`` | Gwet's AC2, whose chance agreement is small if most cases have one grade |
    | ``exact``, ``off_by_one`` | share of pairs of grades of a case that are equal, or differ by at most one class |

    A case with m grades has the weight m in alpha, ``qwk_pooled`` and the shares, and the same weight as every other
    case in AC2, as their authors define it.

    Args:
        ratings: `Ratings`, or counts of votes of shape (n, C).
        values: numeric values of the classes in order, shape (C,), for kappa, AC2 and ``alpha_interval``; by default
            0, 1, ...
        cluster: cluster of each case (for example a patient), shape (n,); clusters are then resampled.
        raters: "fixed": the intervals describe new cases with the same raters. "random": new cases with new raters of
            the same kind; they add the variance of leaving out one rater at a time (jackknife). Needs `Ratings` with
            three or more raters.
        n_resamples: number of bootstrap resamples; 0 for no intervals.
        random_state: seed of the resamples.

    Raises:
        InputError: if votes are shares instead of counts, or an argument has a wrong shape or value.

    Example:
        >>> result = agreement(np.array([[2, 0, 0], [0, 1, 1], [0, 0, 2]]), n_resamples=0)
        >>> round(result["qwk_pooled"].value, 3), round(result["alpha_ordinal"].value, 3), result.n_cases
        (0.793, 0.778, 3)
        >>> result.undefined["qwk_pairwise"]
        'the raters of the votes are unknown; pass Ratings'
    """
    if raters not in {"fixed", "random"}:
        raise InputError(f'raters: expected "fixed" or "random", got {raters!r}.')
    named = ratings if isinstance(ratings, Ratings) else None
    if raters == "random" and (named is None or len(named.raters) < 3):
        raise InputError('raters: "random" needs Ratings of three or more raters. Use "fixed" otherwise.')
    counts = _as_counts(ratings)
    values = _as_values(values, counts.shape[1])
    codes = None if cluster is None else as_codes(cluster, rows=len(counts), name="cluster")
    unit, n_units = resampling_units(len(counts), codes)
    sums = _unit_sums(counts, values, unit, n_units)
    n_cases = int(sums[:, -1].sum())
    n_resamples = number_of_resamples(n_resamples, len(counts), sums.shape[1]) if n_cases else 0
    point = _measures(sums.sum(axis=0), values)
    draws = _measures(resampled_sums(sums, n_resamples, random_state), values) if n_resamples else {}
    pairs: tuple[PairAgreement, ...] = ()
    if named is not None:
        pairs, mean_draws = _pairwise(named, values, unit, n_units, n_resamples, random_state)
        point["qwk_pairwise"], draws["qwk_pairwise"] = np.array(_mean_kappa(pairs)), mean_draws
    rater_variance = _jackknife_variance(named, values) if raters == "random" and named is not None else {}
    factor = small_sample_factor(sums[:, -1]) if np.count_nonzero(sums[:, -1]) > 1 else 1.0
    estimates, undefined = {}, {}
    for measure in MEASURES:
        value = float(point.get(measure, np.nan))
        estimates[measure] = Estimate(value)
        if np.isnan(value):
            undefined[measure] = _why_undefined(measure, n_cases, named)
        elif n_resamples:
            ends, reason = _interval(value, draws[measure], factor, rater_variance.get(measure))
            estimates[measure] = Estimate(value, *ends)
            if reason:
                undefined[measure] = reason
    return Agreement(
        estimates=estimates,
        undefined=undefined,
        pairs=pairs,
        n_cases=n_cases,
        n_single=int((counts.sum(axis=1) == 1).sum()),
        n_raters=None if named is None else len(named.raters),
        population=_population("cases" if cluster is None else "clusters of cases", named is not None, raters),
    )


def krippendorff_alpha(counts: Any, level_of_measurement: str = "ordinal") -> float:
    """Krippendorff's alpha, 1 - observed / expected disagreement; NaN if all grades are equal.

    With o_ck = sum_i n_ic (n_ik - [c = k]) / (m_i - 1) the coincidences of the grades, n_c their row sums and n the
    sum of these, alpha = 1 - (n - 1) sum o_ck d_ck / sum n_c n_k d_ck. The distance d_ck is [c != k] (nominal),
    (c - k)^2 (interval) or (sum_{c <= g <= k} n_g - (n_c + n_k) / 2)^2 (ordinal).

    Args:
        counts: count of each grade for each case, shape (n, C); cases with one grade are ignored.
        level_of_measurement: "nominal", "ordinal" or "interval".

    Raises:
        InputError: if the level of measurement is unknown, or votes are not counts.

    Example:
        >>> round(krippendorff_alpha(np.array([[2, 0, 0], [0, 1, 1], [0, 0, 2]])), 3)
        0.778
    """
    if level_of_measurement not in {"nominal", "ordinal", "interval"}:
        raise InputError(f"level_of_measurement: expected nominal, ordinal or interval, got {level_of_measurement!r}.")
    counts = _as_counts(counts)
    values = _as_values(None, counts.shape[1])
    return float(_measures(_case_sums(counts, values).sum(axis=0), values)[f"alpha_{level_of_measurement}"])


def _as_counts(ratings: Any) -> FloatArray:
    if isinstance(ratings, Ratings):
        return ratings.counts
    array = as_array(ratings, "ratings")
    votes = as_votes(array, array.shape[1] if array.ndim == 2 else 0, name="ratings")
    if not is_counts(votes):
        raise InputError(
            "ratings: expected whole counts of votes, got shares. Agreement depends on the number of votes behind a "
            "share: multiply each row by it."
        )
    return votes


def _as_values(values: Any, size: int) -> FloatArray:
    if values is None:
        return np.arange(size, dtype=np.float64)
    array = np.asarray(as_array(values, "values"), dtype=np.float64)
    steps = np.diff(array) if array.shape == (size,) and np.isfinite(array).all() else np.zeros(1)
    if not ((steps > 0).all() or (steps < 0).all()):
        raise InputError(
            f"values: expected {size} finite numbers in increasing or decreasing order, one per class, got "
            f"{array.tolist()}."
        )
    return array


def _population(unit: str, named: bool, raters: str) -> str:
    if raters == "random":
        return f"new {unit} graded by new raters of the same kind"
    return f"new {unit} graded by the same raters" if named else f"new {unit} with raters chosen as for these"


def _why_undefined(measure: str, n_cases: int, named: Ratings | None) -> str:
    if not n_cases:
        return "no case has two or more grades"
    if measure == "qwk_pairwise":
        if named is None:
            return "the raters of the votes are unknown; pass Ratings"
        return f"no two raters have {MIN_COMMON_CASES} or more common cases with different grades"
    return "all grades are equal"


def _case_sums(counts: FloatArray, values: FloatArray) -> FloatArray:
    """What each case adds: coincidences o_ck of c <= k, weighted agreements, shares, and whether it has 1, 2 grades."""
    totals = counts.sum(axis=1)
    paired = totals >= 2
    weighted = counts * np.divide(1.0, totals - 1, out=np.zeros_like(totals), where=paired)[:, None]
    lower, upper = np.triu_indices(counts.shape[1])
    coincidences = weighted[:, lower] * (counts[:, upper] - (lower == upper))
    shares = counts / np.maximum(totals, 1)[:, None]
    agreements = [
        (coincidences * ((1 + (lower != upper)) * weights[lower, upper])).sum(axis=1) / np.maximum(totals, 1)
        for weights in _agreement_weights(values)
    ]
    return np.column_stack([coincidences, *agreements, shares, totals > 0, paired])


def _agreement_weights(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Quadratic and linear weights of a pair of grades, 1 if they are equal and 0 at the largest distance."""
    distance = np.abs(values[:, None] - values) / np.ptp(values)
    return 1 - distance**2, 1 - distance


def _unit_sums(counts: FloatArray, values: FloatArray, unit: npt.NDArray[np.intp], n_units: int) -> FloatArray:
    """Sums of the cases of each unit, shape (units, sums)."""
    total: FloatArray | float = 0.0
    for start in range(0, len(counts), _CHUNK):
        rows = slice(start, start + _CHUNK)
        ones = np.ones(len(unit[rows]))
        membership = sparse.csr_array((ones, (unit[rows], np.arange(len(ones)))), shape=(n_units, len(ones)))
        total = total + membership @ _case_sums(counts[rows], values)
    return np.asarray(total)


def _measures(sums: FloatArray, values: FloatArray) -> dict[str, FloatArray]:
    """All measures that do not depend on the names of raters, from sums of shape (..., sums)."""
    size = len(values)
    lower, upper = np.triu_indices(size)
    coincidences, (quadratic, linear, *_), shares, n_rated, n_paired = (
        sums[..., : len(lower)],
        np.moveaxis(sums[..., len(lower) :], -1, 0),
        sums[..., len(lower) + 2 : -2],
        sums[..., -2],
        sums[..., -1],
    )
    pairs = coincidences * (1 + (lower != upper))  # both orders of two grades
    margins = _margins(coincidences, size)
    total = margins.sum(axis=-1)
    products = margins[..., lower] * margins[..., upper] * (1 + (lower != upper))
    midranks = np.cumsum(margins, axis=-1) - margins / 2
    squares = (values[lower] - values[upper]) ** 2
    distances = {
        "nominal": 1.0 * (lower != upper),
        "ordinal": (midranks[..., lower] - midranks[..., upper]) ** 2,
        "interval": squares,
    }
    with np.errstate(divide="ignore", invalid="ignore"):
        measures = {
            f"alpha_{level}": 1 - (total - 1) * (pairs * distance).sum(axis=-1) / (products * distance).sum(axis=-1)
            for level, distance in distances.items()
        }
        observed, expected = (pairs * squares).sum(axis=-1), (products * squares).sum(axis=-1)
        measures["qwk_pooled"] = 1 - observed * total / expected
        prevalence = shares / n_rated[..., None]
        spread = (prevalence * (1 - prevalence)).sum(axis=-1) / (size * (size - 1))
        for name, agreement_sum, weights in zip(
            ("ac2_quadratic", "ac2_linear"), (quadratic, linear), _agreement_weights(values), strict=True
        ):
            chance = weights.sum() * spread
            measures[name] = (agreement_sum / n_paired - chance) / (1 - chance)
        measures["exact"] = (pairs * (lower == upper)).sum(axis=-1) / total
        measures["off_by_one"] = (pairs * (upper - lower <= 1)).sum(axis=-1) / total
    return {name: np.where(np.isfinite(measure), measure, np.nan) for name, measure in measures.items()}


def _margins(coincidences: FloatArray, size: int) -> FloatArray:
    """Row sums of the symmetric matrix of coincidences, from its entries c <= k, shape (..., C)."""
    lower, upper = np.triu_indices(size)
    entry, grade = np.arange(len(lower)), np.zeros((len(lower), size))
    grade[entry, lower] = 1.0
    grade[entry, upper] = 1.0
    return coincidences @ grade


def _pairwise(
    ratings: Ratings, values: FloatArray, unit: npt.NDArray[np.intp], n_units: int, n_resamples: int, random_state: int
) -> tuple[tuple[PairAgreement, ...], FloatArray]:
    """Kappa of each pair of raters, and the mean over the pairs in each resample."""
    first, second = _common_pairs(ratings)
    pairs: list[PairAgreement] = []
    total, defined = np.zeros(n_resamples), np.zeros(n_resamples)
    for start in range(0, len(first), _PAIR_CHUNK):
        chunk = slice(start, start + _PAIR_CHUNK)
        sums = _pair_sums(ratings, values, first[chunk], second[chunk], unit, n_units)
        kappas = _kappas(np.asarray(sums.sum(axis=0)))
        draws = _kappas(resampled_sums(sums, n_resamples, random_state)) if n_resamples else None
        common = sums[:, ::6].tocsc()  # common cases of each pair in each unit
        for number, (r, s) in enumerate(zip(first[chunk], second[chunk], strict=True)):
            kappa, cases = float(kappas[number]), common.data[common.indptr[number] : common.indptr[number + 1]]
            ends: tuple[float, float] = (np.nan, np.nan)
            if draws is not None and np.isfinite(kappa) and len(cases) > 1:
                ends = _interval(kappa, draws[:, number], small_sample_factor(cases), None)[0]
            names = ratings.raters[r], ratings.raters[s]
            pairs.append(PairAgreement(*names, int(cases.sum()), Estimate(kappa, *ends)))
        if draws is not None:
            used = np.isfinite(draws) & np.isfinite(kappas)
            total += np.where(used, draws, 0.0).sum(axis=1)
            defined += used.sum(axis=1)
    with np.errstate(invalid="ignore"):
        return tuple(pairs), total / defined


def _mean_kappa(pairs: Iterable[PairAgreement]) -> float:
    """Mean kappa of the pairs in which it is defined."""
    kappas = [pair.qwk.value for pair in pairs if np.isfinite(pair.qwk.value)]
    return float(np.mean(kappas)) if kappas else float("nan")


def _common_pairs(ratings: Ratings) -> tuple[IntArray, IntArray]:
    """Indices of the two raters of each pair with enough common cases."""
    rated = sparse.csr_array((ratings.codes != NOT_RATED).astype(np.float64))
    common = sparse.coo_array(rated.T @ rated)
    enough = (common.row < common.col) & (common.data >= MIN_COMMON_CASES)
    order = np.lexsort((common.col[enough], common.row[enough]))
    return common.row[enough][order], common.col[enough][order]


def _pair_sums(
    ratings: Ratings, values: FloatArray, first: IntArray, second: IntArray, unit: npt.NDArray[np.intp], n_units: int
) -> Any:
    """Sums of each unit over the common cases of each pair, (1, a, b, a^2, b^2, ab), shape (units, 6 P), sparse."""
    centred = values - values.mean()
    case, pair = np.nonzero((ratings.codes[:, first] != NOT_RATED) & (ratings.codes[:, second] != NOT_RATED))
    a, b = centred[ratings.codes[case, first[pair]]], centred[ratings.codes[case, second[pair]]]
    terms = np.stack([np.ones_like(a), a, b, a**2, b**2, a * b], axis=1)
    columns = 6 * pair[:, None] + np.arange(6)
    rows = np.repeat(unit[case], 6)
    return sparse.csr_array((terms.ravel(), (rows, columns.ravel())), shape=(n_units, 6 * len(first)))


def _kappas(sums: FloatArray) -> FloatArray:
    """Quadratic weighted kappa 1 - E(a - b)^2 / (E a^2 + E b^2 - 2 E a E b) from sums (..., 6 P), shape (..., P)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        n, *moments = np.moveaxis(sums.reshape(*sums.shape[:-1], -1, 6), -1, 0)
        a, b, aa, bb, ab = (moment / n for moment in moments)
        expected = aa + bb - 2 * a * b
        kappas: FloatArray = np.where(expected > 1e-12 * (aa + bb), 1 - (aa + bb - 2 * ab) / expected, np.nan)
    return kappas


def _jackknife_variance(ratings: Ratings, values: FloatArray) -> dict[str, tuple[float, int]]:
    """Variance of each measure over raters, from leaving out one rater at a time, and the number of raters used."""
    raters = len(ratings.raters)
    unit = np.zeros(len(ratings), dtype=np.intp)
    pairs = _pairwise(ratings, values, unit, 1, 0, 0)[0]
    without = []
    for rater in range(raters):
        codes = np.delete(ratings.codes, rater, axis=1)
        rest = Ratings(codes, tuple(np.delete(ratings.raters, rater)), ratings.num_classes)
        measures = _measures(_unit_sums(rest.counts, values, unit, 1)[0], values)
        name = ratings.raters[rater]
        measures["qwk_pairwise"] = np.array(
            _mean_kappa(pair for pair in pairs if name not in (pair.first, pair.second))
        )
        without.append(measures)
    variance = {}
    for measure in MEASURES:
        points = np.array([float(measures[measure]) for measures in without])
        points = points[np.isfinite(points)]
        share = (len(points) - 1) / len(points) if len(points) > 1 else np.nan
        variance[measure] = float(share * ((points - points.mean()) ** 2).sum()), len(points)
    return variance


def _interval(
    value: float, draws: FloatArray, factor: float, rater_variance: tuple[float, int] | None
) -> tuple[tuple[float, float], str]:
    """95 % interval of a measure from its resamples, and the reason if there is none.

    It is symmetric on the scale of log(1 - value), so it ends below 1. The standard error is that of the resamples
    times the `small_sample_factor`. Cases and raters are drawn independently, so their half widths are added in
    quadrature. That of the raters has a t distribution with (R - 1) / 2 degrees of freedom: agreement is a mean over
    pairs of raters, and R raters are R / 2 independent pairs. With R - 1, intervals of few raters are too short.
    """
    draws = draws[np.isfinite(draws)] if np.isfinite(draws).mean() >= 1 - MAX_UNDEFINED else draws
    if not np.isfinite(draws).all():
        share = 100 * (1 - np.isfinite(draws).mean())
        return (np.nan, np.nan), f"no interval: not defined in {share:.0f} % of the resamples"
    if np.ptp(draws) == 0:
        return (np.nan, np.nan), "no interval: every resample has the same value"
    half = special.ndtri(TAILS[1]) * factor * float(draws.std())
    if rater_variance is not None:
        variance, raters = rater_variance
        half = float(np.hypot(half, special.stdtrit((raters - 1) / 2, TAILS[1]) * np.sqrt(variance)))
    disagreement = 1 - value  # 0 only if the resamples do not vary
    step = half / disagreement
    return (float(1 - disagreement * np.exp(step)), float(1 - disagreement * np.exp(-step))), ""
