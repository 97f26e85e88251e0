"""`agreement` and `krippendorff_alpha`."""

import json

import numpy as np
import pytest

from orcu.errors import InputError
from orcu.raters import Ratings, agreement, krippendorff_alpha
from orcu.raters.agreement import MEASURES

# Krippendorff (2011), Computing Krippendorff's Alpha-Reliability: four observers of twelve units, grades 1 to 5, and 0
# where there is none. Gwet (2014), Handbook of Inter-Rater Reliability, 4th edition, p. 120, has the same counts.
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
    [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
]
PUBLISHED = Ratings(np.array(OBSERVERS).T - 1, ("a", "b", "c", "d"), 5)


def simulated(rng, n, shifts, *, noise=0.5, missing=0.2, num_classes=5):
    quality = rng.normal((num_classes - 1) / 2, 1.2, n)
    codes = np.rint(quality[:, None] + shifts + noise * rng.normal(size=(n, len(shifts)))).clip(0, num_classes - 1)
    codes[rng.random(codes.shape) < missing] = -1
    return Ratings(codes.astype(int), tuple(f"rater {r}" for r in range(len(shifts))), num_classes)


def test_krippendorff_alpha_equals_published_values():
    result = agreement(PUBLISHED, n_resamples=0)
    for level, value in (("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)):
        assert krippendorff_alpha(PUBLISHED.counts, level) == pytest.approx(value, abs=5e-4)
        assert result[f"alpha_{level}"].value == krippendorff_alpha(PUBLISHED.counts, level)
    with pytest.raises(InputError, match="^level_of_measurement: .*'ratio'"):
        krippendorff_alpha(PUBLISHED.counts, "ratio")


def test_ac2_equals_reference_values():
    # irrCAC 0.4.4 on the same grades, whose AC1 is Gwet's published 0.775; its alpha with the same weights is the
    # published 0.849. The unit with one grade counts in the chance agreement.
    result = agreement(PUBLISHED, n_resamples=0)
    assert result["ac2_quadratic"].value == pytest.approx(0.91400, abs=5e-6)
    assert result["ac2_linear"].value == pytest.approx(0.85874, abs=5e-6)
    assert (result.n_cases, result.n_single, result.n_raters) == (11, 1, 4)


def test_agreement_equals_peer_libraries():
    krippendorff = pytest.importorskip("krippendorff", reason="compares with the package krippendorff")
    irr = pytest.importorskip("irrCAC.raw", reason="compares with the package irrCAC")
    pandas = pytest.importorskip("pandas")
    ratings = simulated(np.random.default_rng(1), 60, np.array([-0.3, 0.0, 0.2, 0.4]), missing=0.3)
    ratings = ratings[(ratings.codes >= 0).any(axis=1)]
    table = np.where(ratings.codes < 0, np.nan, ratings.codes)
    result = agreement(ratings, n_resamples=0)
    for level in ("nominal", "ordinal", "interval"):
        peer = krippendorff.alpha(table.T, level_of_measurement=level, value_domain=list(range(5)))
        assert result[f"alpha_{level}"].value == pytest.approx(peer, abs=1e-12)
    for weights in ("quadratic", "linear"):
        peer = irr.CAC(pandas.DataFrame(table), weights=weights, categories=list(range(5))).gwet()
        assert result[f"ac2_{weights}"].value == pytest.approx(peer["est"]["coefficient_value"], abs=1e-5)


def test_pooled_kappa_pools_margins_and_pairwise_kappa_is_cohens():
    from sklearn.metrics import cohen_kappa_score

    rng = np.random.default_rng(0)
    first = rng.integers(4, size=200)
    second = (first + rng.integers(0, 2, size=200)).clip(0, 3)  # grades higher, so the margins differ
    result = agreement(Ratings(np.stack([first, second], axis=1), ("a", "b"), 4), n_resamples=0)
    both_orders = cohen_kappa_score(np.r_[first, second], np.r_[second, first], weights="quadratic")
    assert result["qwk_pooled"].value == pytest.approx(both_orders)
    assert result["qwk_pairwise"].value == pytest.approx(cohen_kappa_score(first, second, weights="quadratic"))
    assert result["qwk_pairwise"].value != pytest.approx(result["qwk_pooled"].value, abs=1e-3)
    assert result["exact"].value == pytest.approx((first == second).mean())
    assert result["off_by_one"].value == 1


def test_pairwise_kappa_is_the_mean_over_pairs_with_enough_common_cases():
    ratings = simulated(np.random.default_rng(2), 80, np.array([-0.2, 0.0, 0.2, 0.3]))
    codes = ratings.codes.copy()
    codes[4:, 3] = -1  # the last rater graded four cases
    result = agreement(Ratings(codes, ratings.raters, 5))
    assert [(pair.first, pair.second) for pair in result.pairs] == [
        ("rater 0", "rater 1"),
        ("rater 0", "rater 2"),
        ("rater 1", "rater 2"),
    ]
    assert result["qwk_pairwise"].value == pytest.approx(np.mean([pair.qwk.value for pair in result.pairs]))
    assert all(pair.qwk.low < pair.qwk.value < pair.qwk.high < 1 for pair in result.pairs)
    assert result.pairs[1].n_cases == ((codes[:, 0] >= 0) & (codes[:, 2] >= 0)).sum()


def test_agreement_of_counts_equals_that_of_ratings():
    ratings = simulated(np.random.default_rng(3), 100, np.array([-0.2, 0.0, 0.2]), missing=0)
    by_name, by_count = agreement(ratings), agreement(ratings.counts)
    for measure in set(MEASURES) - {"qwk_pairwise"}:
        assert by_name[measure] == by_count[measure]
    assert by_count.undefined == {"qwk_pairwise": "the raters of the votes are unknown; pass Ratings"}
    assert (by_name.n_raters, by_count.n_raters) == (3, None)
    assert by_name.population == "new cases graded by the same raters"


def test_agreement_resamples_equal_the_measures_of_resampled_cases():
    from orcu.raters.agreement import _interval
    from orcu.resampling import resampled_sums, small_sample_factor

    ratings = simulated(np.random.default_rng(4), 60, np.array([-0.2, 0.0, 0.2]), missing=0)
    times = resampled_sums(np.eye(60), 40, 5).astype(int)
    draws = [agreement(ratings.counts[np.repeat(np.arange(60), row)], n_resamples=0) for row in times]
    result = agreement(ratings, n_resamples=40, random_state=5)
    for measure in ("alpha_ordinal", "ac2_quadratic", "off_by_one"):
        values = np.array([draw[measure].value for draw in draws])
        ends, _ = _interval(result[measure].value, values, small_sample_factor(np.ones(60)), None)
        assert ends == pytest.approx((result[measure].low, result[measure].high))


def test_agreement_of_repeated_cases_with_cluster_has_the_interval_of_the_cases():
    ratings = simulated(np.random.default_rng(5), 50, np.array([-0.2, 0.0, 0.2]), missing=0)
    once = agreement(ratings.counts)
    twice = agreement(np.repeat(ratings.counts, 2, axis=0), cluster=np.repeat(np.arange(50), 2))
    assert twice["exact"].low == pytest.approx(once["exact"].low)
    assert agreement(np.repeat(ratings.counts, 2, axis=0))["exact"].low > once["exact"].low
    assert twice.population == "new clusters of cases with raters chosen as for these"


def test_agreement_of_random_raters_has_wider_intervals():
    ratings = simulated(np.random.default_rng(6), 150, np.array([-0.6, -0.2, 0.1, 0.7]))
    fixed, new = agreement(ratings), agreement(ratings, raters="random")
    for measure in MEASURES:
        assert new[measure].value == fixed[measure].value
        assert new[measure].low < fixed[measure].low < fixed[measure].high < new[measure].high
    assert new.population == "new cases graded by new raters of the same kind"


def test_agreement_with_equal_grades_is_undefined_with_a_reason():
    result = agreement(Ratings(np.full((20, 3), 2), ("a", "b", "c"), 4))
    for measure in ("alpha_ordinal", "alpha_interval", "alpha_nominal", "qwk_pooled"):
        assert np.isnan(result[measure].value)
        assert result.undefined[measure] == "all grades are equal"
    assert result["exact"].value == result["ac2_linear"].value == 1
    assert np.isnan(result["exact"].low)
    assert result.undefined["exact"] == "no interval: every resample has the same value"


def test_agreement_with_few_different_grades_has_no_interval():
    counts = np.tile([3.0, 0, 0], (20, 1))
    counts[0] = [2, 1, 0]
    result = agreement(counts)
    assert np.isnan(result["alpha_ordinal"].low)
    assert "not defined in 3" in result.undefined["alpha_ordinal"]


@pytest.mark.parametrize("codes", [[[0], [1], [2]], [[0, -1], [-1, 1], [2, -1]]])
def test_agreement_without_paired_grades_is_undefined(codes):
    ratings = Ratings(np.array(codes), ("a", "b")[: len(codes[0])], 3)
    result = agreement(ratings)
    assert (result.n_cases, result.n_single) == (0, 3)
    assert set(result.undefined.values()) == {"no case has two or more grades"}
    assert json.loads(json.dumps(result.to_dict()))["estimates"]["exact"] == {"value": None, "low": None, "high": None}


def test_agreement_ignores_cases_with_one_grade_except_in_ac2():
    ratings = simulated(np.random.default_rng(7), 60, np.array([-0.2, 0.2]), missing=0)
    single = np.vstack([ratings.counts, np.eye(5)[[0] * 30]])
    alone, more = agreement(ratings.counts, n_resamples=0), agreement(single, n_resamples=0)
    assert (more.n_cases, more.n_single) == (60, 30)
    for measure in ("alpha_ordinal", "qwk_pooled", "exact", "off_by_one"):
        assert more[measure].value == pytest.approx(alone[measure].value)
    assert more["ac2_linear"].value != pytest.approx(alone["ac2_linear"].value)


def test_agreement_with_values_measures_their_distance():
    counts = np.array([[1, 1, 0], [0, 2, 0], [0, 0, 2], [2, 0, 0]])
    near = agreement(counts, values=[0, 1, 10], n_resamples=0)
    for measure in ("qwk_pooled", "alpha_interval", "ac2_quadratic", "ac2_linear"):
        assert near[measure].value > agreement(counts, n_resamples=0)[measure].value
    reverse = agreement(counts, values=[2, 1, 0], n_resamples=0)
    assert reverse["qwk_pooled"].value == pytest.approx(agreement(counts, n_resamples=0)["qwk_pooled"].value)


def test_agreement_with_invalid_arguments_names_them():
    counts = np.array([[1, 1], [2, 0]])
    with pytest.raises(InputError, match="^ratings: expected whole counts of votes, got shares"):
        agreement([[0.5, 0.5]])
    with pytest.raises(InputError, match="^raters: expected .*'all'"):
        agreement(counts, raters="all")
    with pytest.raises(InputError, match='^raters: "random" needs Ratings of three or more raters'):
        agreement(counts, raters="random")
    for values in ([0, 0], [0, np.nan], [1, 2, 3]):
        with pytest.raises(InputError, match="^values: expected 2 finite numbers"):
            agreement(counts, values=values)
    with pytest.raises(InputError, match=r"^cluster: expected one entry per row, shape \(2,\)"):
        agreement(counts, cluster=["a"])
    with pytest.raises(InputError, match="measure of agreement 'alpha_ordnal'.*'alpha_ordinal'"):
        agreement(counts)["alpha_ordnal"]


@pytest.mark.slow
@pytest.mark.parametrize("raters", ["fixed", "random"])
def test_agreement_intervals_cover_the_population_value(raters):
    rng = np.random.default_rng(8)
    repetitions, n = 500, 200
    shifts = np.linspace(-0.4, 0.4, 5)
    population = shifts if raters == "fixed" else 0.3 * np.sqrt(2) * _normal_scores(40)
    large = simulated(rng, 40_000 if raters == "fixed" else 3_000, population, missing=0.1)
    truth = agreement(large, n_resamples=0)
    covered = dict.fromkeys(MEASURES, 0)
    for repetition in range(repetitions):
        drawn = shifts if raters == "fixed" else 0.3 * np.sqrt(2) * rng.normal(size=5)
        result = agreement(
            simulated(rng, n, drawn, missing=0.1), raters=raters, n_resamples=300, random_state=repetition
        )
        for measure, estimate in result.estimates.items():
            covered[measure] += estimate.low <= truth[measure].value <= estimate.high
    for measure, count in covered.items():
        # 93 to 97 % plus twice the standard error of 500 repetitions; new raters: conservative
        assert 0.91 <= count / repetitions <= (0.99 if raters == "fixed" else 1.0), measure


def _normal_scores(count):
    from scipy.special import ndtri

    return ndtri((np.arange(count) + 0.5) / count)


@pytest.mark.parametrize(
    ("codes", "raters", "message"),
    [
        ([[0, 3]], ("a", "b"), "^codes: case 0, rater 'b' has 3, expected a class from 0 to 2"),
        ([[0, -2]], ("a", "b"), "^codes: case 0, rater 'b' has -2"),
        ([[0, 1]], ("a",), r"^codes: expected integers of shape \(n, 1\)"),
        ([[0.0, 1.0]], ("a", "b"), "^codes: expected integers .* got float64"),
        ([[0, 1]], ("a", "a"), "^raters: expected a different name for each rater"),
    ],
)
def test_ratings_with_invalid_codes_names_case_and_rater(codes, raters, message):
    with pytest.raises(InputError, match=message):
        Ratings(np.array(codes), raters, 3)
