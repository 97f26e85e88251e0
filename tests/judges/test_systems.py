"""Means of systems from few human grades and many judged items: by hand, by simulation, and what is refused."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from orcu.errors import InputError
from orcu.judges.systems import compare_systems

NAN = math.nan


def simulated(rng, *, items=400, graded=60, noise=0.5, shift=0.0, systems=("one",)):
    """Expected grades, human grades of some items, systems; the second system is better by the shift."""
    system = np.repeat(systems, items)
    quality = rng.normal(size=len(system)) + shift * (system != systems[0])
    human = np.rint(3 + quality + noise * rng.normal(size=len(system))).clip(1, 5)
    for name in systems:
        mine = np.flatnonzero(system == name)
        human[rng.permutation(mine)[graded:]] = NAN
    return 3 + quality, human, system


def interval_by_hall(value, added, freedom, level=0.95):
    """The values that are not refused, found by looking: the reference for the closed form."""
    error = np.sqrt((added**2).sum())
    skewness = (added**3).sum() / error**3
    skewness *= skewness**2 / (skewness**2 + 6 / (freedom + 1) ** 2)
    theta = value + error * np.linspace(-8, 8, 160_001)
    x = (value - theta) / error
    kept = np.abs(x + skewness * x**2 / 3 + skewness**2 * x**3 / 27 + skewness / 6) <= stats.t.ppf(
        (1 + level) / 2, freedom
    )
    return theta[kept].min(), theta[kept].max()


def mean_by_hand(f, h):
    """The formula in plain words, and λ."""
    graded = ~np.isnan(h)
    n, m = graded.sum(), (~graded).sum()
    variance = np.var(f[graded]) + n / m * np.var(f[~graded])
    weight = np.clip(np.cov(h[graded], f[graded], ddof=0)[0, 1] / variance, 0, 1)
    return h[graded].mean() + weight * (f[~graded].mean() - f[graded].mean()), weight


def test_a_small_case_agrees_with_the_formula_by_hand():
    f, h = np.array([1.0, 2, 4, 2, 3, 5]), np.array([2.0, 3, 4, NAN, NAN, NAN])
    mean = compare_systems(f, h, ["a"] * 6)["a"]
    # Cov(h, f) = 1; Var of f: 14 / 9 on both sides; λ = 1 / (28 / 9); the ungraded items are 1 grade better.
    assert mean.judge_weight == pytest.approx(9 / 28)
    assert mean.mean == pytest.approx(3 + 9 / 28)
    assert (mean.items, mean.graded, mean.graded_clusters, mean.humans_mean) == (6, 3, 3, 3.0)


@pytest.mark.parametrize("clustered", [False, True])
def test_the_interval_is_that_of_the_jackknife_over_clusters(clustered):
    rng = np.random.default_rng(3)
    f, h, system = simulated(rng, items=80, graded=25)
    cluster = rng.integers(12, size=80) if clustered else np.arange(80)
    mean = compare_systems(f, h, system, cluster=cluster)["one"]
    value, weight = mean_by_hand(f, h)
    assert (mean.mean, mean.judge_weight) == pytest.approx((value, weight))
    units = np.unique(cluster)
    left_out = [mean_by_hand(f[cluster != c], h[cluster != c])[0] for c in units]
    count = np.array([(~np.isnan(h[cluster == c])).sum() for c in units])
    groups = (count > 0).sum()
    added = np.sqrt((groups - 1) / groups) * (value - np.array(left_out))
    freedom = count.sum() ** 2 / (count**2).sum() - 1
    assert (mean.low, mean.high) == pytest.approx(interval_by_hall(value, added, freedom), abs=1e-4)


def test_without_ungraded_items_it_is_the_classical_mean():
    grades = np.array([1.0, 2, 3, 4, 5, 5, 4, 3, 2, 1])  # symmetric
    comparison = compare_systems(np.zeros(10), grades, ["a"] * 10)
    mean = comparison["a"]
    low, high = stats.t.interval(0.95, 9, loc=3, scale=stats.sem(grades))
    assert (mean.mean, mean.low, mean.high) == pytest.approx((3, low, high))
    assert (mean.humans_low, mean.humans_high) == pytest.approx((low, high))
    assert (mean.judge_weight, mean.width_ratio, mean.graded_apart) == (0, 1, None)
    assert "people graded all its items" in comparison.notes[0]


def test_the_interval_of_skewed_grades_reaches_farther_to_their_tail():
    grades = np.array([5.0] * 24 + [4.0] * 4 + [1.0] * 2)
    mean = compare_systems(np.zeros(31), np.append(grades, NAN), ["a"] * 31)["a"]
    assert mean.mean - mean.low > 1.2 * (mean.high - mean.mean)


def test_a_judge_that_knows_nothing_gets_no_weight():
    f, h, system = simulated(np.random.default_rng(0))
    mean = compare_systems(6 - f, h, system)["one"]  # the wrong way round
    assert mean.judge_weight == 0
    assert (mean.mean, mean.low, mean.high) == (mean.humans_mean, mean.humans_low, mean.humans_high)
    noise = compare_systems(np.random.default_rng(1).normal(size=400), h, system)["one"]
    assert noise.judge_weight < 0.2
    constant = compare_systems(np.full(400, 3.3), h, system)["one"]
    assert (constant.judge_weight, constant.graded_apart) == (0, None)


def test_a_good_judge_narrows_the_interval_and_his_lenience_does_not_matter():
    f, h, system = simulated(np.random.default_rng(0), items=2000)
    mean = compare_systems(f, h, system)["one"]
    assert mean.width_ratio < 0.6
    lenient = compare_systems(f + 1.5, h, system)["one"]
    assert (lenient.mean, lenient.low, lenient.high) == pytest.approx((mean.mean, mean.low, mean.high))


def test_the_order_of_rows_changes_nothing():
    rng = np.random.default_rng(2)
    f, h, system = simulated(rng, systems=("a", "b", "c"), shift=0.2)
    cluster = rng.integers(50, size=len(f))
    order = rng.permutation(len(f))
    one = compare_systems(f, h, system, cluster=cluster)
    other = compare_systems(f[order], h[order], system[order], cluster=cluster[order])
    for mine, theirs in zip(one.systems, other.systems, strict=True):
        for key, value in mine.to_dict().items():
            assert theirs.to_dict()[key] == pytest.approx(value), key
    for mine, theirs in zip(one.differences, other.differences, strict=True):
        assert (theirs.value, theirs.low, theirs.high) == pytest.approx((mine.value, mine.low, mine.high))


def test_clusters_of_single_items_are_no_clusters():
    f, h, system = simulated(np.random.default_rng(2), systems=("a", "b"))
    alone = compare_systems(f, h, system)
    named = compare_systems(f, h, system, cluster=[f"item {i}" for i in range(len(f))])
    for mine, theirs in zip(alone.systems, named.systems, strict=True):
        assert (theirs.low, theirs.high, *theirs.ranks) == pytest.approx((mine.low, mine.high, *mine.ranks))


def test_systems_with_the_same_prompts_are_compared_pair_by_pair():
    rng = np.random.default_rng(4)
    difficulty = 2 * rng.normal(size=150)
    f = 10 + np.concatenate([difficulty, difficulty + 0.3]) + 0.3 * rng.normal(size=300)
    h = f + 0.3 * rng.normal(size=300)
    h[np.tile(rng.random(150) > 0.4, 2)] = NAN
    system, prompt = np.repeat(["old", "new"], 150), np.tile(np.arange(150), 2)
    paired = compare_systems(f, h, system, cluster=prompt).differences[0]
    unpaired = compare_systems(f, h, system).differences[0]
    assert (paired.first, paired.second) == ("new", "old")
    assert paired.value == pytest.approx(unpaired.value)
    assert paired.high - paired.low < 0.4 * (unpaired.high - unpaired.low)
    assert paired.first_higher > 0.99 > unpaired.first_higher


def test_well_separated_systems_have_sure_ranks_and_equal_ones_have_not():
    rng = np.random.default_rng(5)
    f, h, system = simulated(rng, systems=("worse", "better"), shift=1.0)
    comparison = compare_systems(f, h, system)
    assert [mean.system for mean in comparison.systems] == ["better", "worse"]
    assert comparison["better"].ranks == pytest.approx((1, 0), abs=1e-3)
    assert comparison["worse"].expected_rank == pytest.approx(2, abs=1e-3)
    (difference,) = comparison.differences
    assert difference.first_higher > 0.999
    assert difference.low > 0
    f, h, system = simulated(rng, systems=("a", "b", "c"))
    comparison = compare_systems(f, h, system)
    for mean in comparison.systems:
        assert sum(mean.ranks) == pytest.approx(1)
        assert max(mean.ranks) < 0.95
    assert len(comparison.differences) == 3


def test_the_probability_of_an_order_goes_with_the_interval():
    f, h, system = simulated(np.random.default_rng(6), systems=("a", "b"), shift=0.15)
    probability = compare_systems(f, h, system).differences[0].first_higher
    at_its_edge = compare_systems(f, h, system, level=2 * probability - 1).differences[0]
    assert at_its_edge.low == pytest.approx(0, abs=1e-9)


def test_ranks_are_the_same_for_the_same_seed_and_near_for_another():
    f, h, system = simulated(np.random.default_rng(7), systems=("a", "b", "c"), shift=0.1)
    ranks = [compare_systems(f, h, system, seed=seed)["a"].ranks for seed in (0, 0, 1)]
    assert ranks[0] == ranks[1] != ranks[2]
    assert ranks[0] == pytest.approx(ranks[2], abs=0.03)


def test_graded_items_that_look_different_are_named():
    f, h, system = simulated(np.random.default_rng(8))
    assert compare_systems(f, h, system).notes == ()
    h = np.where(f > np.quantile(f, 0.8), np.rint(f).clip(1, 5), NAN)  # only good ones are graded
    comparison = compare_systems(f, h, system)
    assert comparison["one"].graded_apart > 3
    assert "one: its graded items look different" in comparison.notes[0]
    assert "higher" in comparison.notes[0]
    assert "draw them at random" in str(comparison)


def test_a_single_system_has_a_mean_and_no_ranks_in_its_table():
    f, h, system = simulated(np.random.default_rng(9))
    comparison = compare_systems(f, h, system)
    assert comparison.differences == ()
    assert comparison["one"].ranks == (1.0,)
    assert "P(first)" not in comparison.to_markdown()


def test_the_result_is_plain_data_and_a_table():
    f, h, system = simulated(np.random.default_rng(9), systems=("a|b", "c"), shift=0.5)
    comparison = compare_systems(f, h, system, level=0.9)
    state = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert state["level"] == 0.9
    assert [mean["system"] for mean in state["systems"]] == ["c", "a|b"]
    assert state["systems"][0]["ranks"] == list(comparison["c"].ranks)
    assert state["differences"][0]["first"] == "c"
    assert "random sample" in state["target"]
    lines = comparison.to_markdown().splitlines()
    assert lines[0].startswith("| system | items | graded | mean | 90 % interval | humans alone |")
    assert lines[3].startswith(r"| a\|b | 400 | 60 | ")
    with pytest.raises(InputError, match="unknown system 'd'"):
        comparison["d"]


def test_missing_human_grades_may_be_none_and_names_may_be_numbers():
    f, h, system = simulated(np.random.default_rng(9))
    nullable = [None if math.isnan(grade) else int(grade) for grade in h]
    assert compare_systems(f, nullable, np.ones(400, dtype=int))["1"].mean == pytest.approx(
        compare_systems(f, h, system)["one"].mean
    )


F, H, S = [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 4.0, NAN], ["a"] * 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1.0, NAN, 3.0, 4.0], H, S), "predicted: row 1 has nan"),
        (([1.0, 2.0, math.inf, 4.0], H, S), "predicted: row 2 has inf"),
        ((F, [1.0, 2.0, -math.inf, NAN], S), "human: row 2 has -inf, expected a finite grade; NaN where nobody"),
        ((F, ["good", "bad", "good", "bad"], S), "human: expected grades as numbers, got <U4"),
        ((F, [True, False, True, True], S), "human: expected grades as numbers, got bool"),
        (
            (F, np.array([1.0, "good", None, 2], dtype=object), S),
            "human: row 1 has 'good', expected a grade as a number",
        ),
        ((F, H[:3], S), "human: 3 entries for 4 predicted grades"),
        ((F, H, S[:3]), r"system: expected one entry per item, shape \(4,\)"),
        (([[1.0, 2.0]], H, S), "predicted: expected one grade per item"),
        (([], [], []), "predicted: expected one grade per item"),
        ((F, H, ["a", None, "a", "a"]), "system: row 1 is empty; every item needs a system"),
        ((F, H, ["a", "a", " ", "a"]), "system: row 2 is empty"),
        ((F, [1.0, NAN, NAN, NAN], S), "human: the human grades of system 'a' are 1 in number, expected 2"),
        ((F, H, ["a", "a", "a", "b"]), "human grades of system 'b' are 0 in number"),
        ((F, [4.0, 4.0, 4.0, NAN], S), "human: all 3 human grades of system 'a' are 4; without spread"),
    ],
)
def test_what_cannot_be_used_is_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        compare_systems(*arguments)


def test_clusters_that_cannot_be_used_are_refused():
    with pytest.raises(InputError, match="cluster: row 1 is empty"):
        compare_systems(F, H, S, cluster=["p", "", "q", "q"])
    with pytest.raises(InputError, match="the 3 human grades of system 'a' are all of one cluster"):
        compare_systems(F, H, S, cluster=["p", "p", "p", "q"])
    with pytest.raises(InputError, match="do not differ between its 2 graded clusters"):
        compare_systems(F, [1.0, 5.0, 1.0, 5.0], S, cluster=["p", "p", "q", "q"])


def test_a_copy_of_a_system_is_refused():
    f, h, _ = simulated(np.random.default_rng(9))
    twice = [np.tile(column, 2) for column in (f, h)]
    with pytest.raises(InputError, match="'a' and 'b' differ by the same in every cluster"):
        compare_systems(*twice, np.repeat(["a", "b"], 400), cluster=np.tile(np.arange(400), 2))


@pytest.mark.parametrize("level", [0, 1, 95, -0.5, "0.9", True])
def test_a_level_out_of_range_is_refused(level):
    with pytest.raises(InputError, match="level: expected a number"):
        compare_systems(F, H, S, level=level)


def test_a_seed_that_is_no_count_is_refused():
    with pytest.raises(InputError, match="seed"):
        compare_systems(F, H, S, seed=-1)


@pytest.mark.parametrize("clusters", [None, 30])
def test_intervals_hold_the_truth_as_often_as_they_say(clusters):
    rng = np.random.default_rng(10)
    held, draws = 0, 200
    for _ in range(draws):
        f, h, system = simulated(rng, items=300, graded=40)
        cluster = None
        if clusters:
            cluster = rng.integers(clusters, size=300)
            effect = 0.3 * rng.normal(size=clusters)[cluster]
            f, h = f + effect, h + effect
        mean = compare_systems(f, h, system, cluster=cluster)["one"]
        held += mean.low <= 3 <= mean.high
    assert 0.90 < held / draws < 0.99  # 0.95 within three standard errors
