"""`compare_systems`: computed by hand, by simulation, and with invalid input."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from orcu.errors import InputError
from orcu.judges.systems import compare_systems

NAN = math.nan


def simulated(rng, *, items=400, graded=60, noise=0.5, shift=0.0, systems=("one",)):
    """Predicted grades, human grades of some items, systems; the second system is better by the shift."""
    system = np.repeat(systems, items)
    quality = rng.normal(size=len(system)) + shift * (system != systems[0])
    human = np.rint(3 + quality + noise * rng.normal(size=len(system))).clip(1, 5)
    for name in systems:
        rows = np.flatnonzero(system == name)
        human[rng.permutation(rows)[graded:]] = NAN
    return 3 + quality, human, system


def interval_by_hall(value, added, freedom, level=0.95):
    """Values that are not rejected, by grid search: the reference for the closed form."""
    error = np.sqrt((added**2).sum())
    skewness = (added**3).sum() / error**3
    skewness *= skewness**2 / (skewness**2 + 6 / (freedom + 1) ** 2)
    theta = value + error * np.linspace(-8, 8, 160_001)
    x = (value - theta) / error
    accepted = np.abs(x + skewness * x**2 / 3 + skewness**2 * x**3 / 27 + skewness / 6) <= stats.t.ppf(
        (1 + level) / 2, freedom
    )
    return theta[accepted].min(), theta[accepted].max()


def mean_by_hand(f, h):
    """The estimate by its formula, and λ."""
    graded = ~np.isnan(h)
    n, m = graded.sum(), (~graded).sum()
    variance = np.var(f[graded]) + n / m * np.var(f[~graded])
    weight = np.clip(np.cov(h[graded], f[graded], ddof=0)[0, 1] / variance, 0, 1)
    return h[graded].mean() + weight * (f[~graded].mean() - f[graded].mean()), weight


def test_compare_systems_small_case_agrees_with_the_formula():
    f, h = np.array([1.0, 2, 4, 2, 3, 5]), np.array([2.0, 3, 4, NAN, NAN, NAN])
    mean = compare_systems(f, h, ["a"] * 6)["a"]
    # Cov(h, f) = 1; Var of f: 14 / 9 on both sides; λ = 1 / (28 / 9); the ungraded items are 1 grade better.
    assert mean.judge_weight == pytest.approx(9 / 28)
    assert mean.mean == pytest.approx(3 + 9 / 28)
    assert (mean.n_items, mean.n_graded, mean.n_graded_clusters, mean.human_mean) == (6, 3, 3, 3.0)


@pytest.mark.parametrize("clustered", [False, True])
def test_compare_systems_interval_is_that_of_the_cluster_jackknife(clustered):
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


def test_compare_systems_without_ungraded_items_is_the_classical_mean():
    grades = np.array([1.0, 2, 3, 4, 5, 5, 4, 3, 2, 1])  # symmetric
    comparison = compare_systems(np.zeros(10), grades, ["a"] * 10)
    mean = comparison["a"]
    low, high = stats.t.interval(0.95, 9, loc=3, scale=stats.sem(grades))
    assert (mean.mean, mean.low, mean.high) == pytest.approx((3, low, high))
    assert (mean.human_low, mean.human_high) == pytest.approx((low, high))
    assert (mean.judge_weight, mean.width_ratio, mean.graded_z_score) == (0, 1, None)
    assert comparison.notes[0].startswith("a: all items have a human grade")


def test_compare_systems_interval_of_skewed_grades_is_asymmetric():
    grades = np.array([5.0] * 24 + [4.0] * 4 + [1.0] * 2)
    mean = compare_systems(np.zeros(31), np.append(grades, NAN), ["a"] * 31)["a"]
    assert mean.mean - mean.low > 1.2 * (mean.high - mean.mean)


def test_compare_systems_uninformative_judge_has_weight_0():
    f, h, system = simulated(np.random.default_rng(0))
    mean = compare_systems(6 - f, h, system)["one"]  # reversed
    assert mean.judge_weight == 0
    assert (mean.mean, mean.low, mean.high) == (mean.human_mean, mean.human_low, mean.human_high)
    noise = compare_systems(np.random.default_rng(1).normal(size=400), h, system)["one"]
    assert noise.judge_weight < 0.2
    constant = compare_systems(np.full(400, 3.3), h, system)["one"]
    assert (constant.judge_weight, constant.graded_z_score) == (0, None)


def test_compare_systems_good_judge_narrows_the_interval_regardless_of_leniency():
    f, h, system = simulated(np.random.default_rng(0), items=2000)
    mean = compare_systems(f, h, system)["one"]
    assert mean.width_ratio < 0.6
    lenient = compare_systems(f + 1.5, h, system)["one"]
    assert (lenient.mean, lenient.low, lenient.high) == pytest.approx((mean.mean, mean.low, mean.high))


def test_compare_systems_is_invariant_to_row_order():
    rng = np.random.default_rng(2)
    f, h, system = simulated(rng, systems=("a", "b", "c"), shift=0.2)
    cluster = rng.integers(50, size=len(f))
    order = rng.permutation(len(f))
    first = compare_systems(f, h, system, cluster=cluster)
    second = compare_systems(f[order], h[order], system[order], cluster=cluster[order])
    for a, b in zip(first.systems, second.systems, strict=True):
        for key, value in a.to_dict().items():
            assert b.to_dict()[key] == pytest.approx(value), key
    for a, b in zip(first.differences, second.differences, strict=True):
        assert (b.value, b.low, b.high) == pytest.approx((a.value, a.low, a.high))


def test_compare_systems_clusters_of_single_items_equal_no_clusters():
    f, h, system = simulated(np.random.default_rng(2), systems=("a", "b"))
    alone = compare_systems(f, h, system)
    named = compare_systems(f, h, system, cluster=[f"item {i}" for i in range(len(f))])
    for a, b in zip(alone.systems, named.systems, strict=True):
        assert (b.low, b.high, *b.ranks) == pytest.approx((a.low, a.high, *a.ranks))


def test_compare_systems_shared_clusters_are_compared_pairwise():
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
    assert paired.prob_first_higher > 0.99 > unpaired.prob_first_higher


def test_compare_systems_rank_probabilities_of_separated_and_equal_systems():
    rng = np.random.default_rng(5)
    f, h, system = simulated(rng, systems=("worse", "better"), shift=1.0)
    comparison = compare_systems(f, h, system)
    assert [mean.system for mean in comparison.systems] == ["better", "worse"]
    assert comparison["better"].ranks == pytest.approx((1, 0), abs=1e-3)
    assert comparison["worse"].expected_rank == pytest.approx(2, abs=1e-3)
    (difference,) = comparison.differences
    assert difference.prob_first_higher > 0.999
    assert difference.low > 0
    f, h, system = simulated(rng, systems=("a", "b", "c"))
    comparison = compare_systems(f, h, system)
    for mean in comparison.systems:
        assert sum(mean.ranks) == pytest.approx(1)
        assert max(mean.ranks) < 0.95
    assert len(comparison.differences) == 3


def test_compare_systems_prob_first_higher_matches_the_interval():
    f, h, system = simulated(np.random.default_rng(6), systems=("a", "b"), shift=0.15)
    probability = compare_systems(f, h, system).differences[0].prob_first_higher
    at_the_limit = compare_systems(f, h, system, confidence_level=2 * probability - 1).differences[0]
    assert at_the_limit.low == pytest.approx(0, abs=1e-9)


def test_compare_systems_ranks_depend_on_random_state_only_slightly():
    f, h, system = simulated(np.random.default_rng(7), systems=("a", "b", "c"), shift=0.1)
    ranks = [compare_systems(f, h, system, random_state=seed)["a"].ranks for seed in (0, 0, 1)]
    assert ranks[0] == ranks[1] != ranks[2]
    assert ranks[0] == pytest.approx(ranks[2], abs=0.03)


def test_compare_systems_notes_graded_items_that_differ():
    f, h, system = simulated(np.random.default_rng(8))
    (check,) = compare_systems(f, h, system).notes
    assert "random part of its items. Check" in check
    h = np.where(f > np.quantile(f, 0.8), np.rint(f).clip(1, 5), NAN)  # only good ones are graded
    comparison = compare_systems(f, h, system)
    assert comparison["one"].graded_z_score > 3
    assert comparison.notes[0].startswith("one (")
    assert "not missing at random" in comparison.notes[0]
    assert "higher" in comparison.notes[0]
    assert comparison.notes[0] in str(comparison)


def test_compare_systems_single_system_table_has_no_ranks():
    f, h, system = simulated(np.random.default_rng(9))
    comparison = compare_systems(f, h, system)
    assert comparison.differences == ()
    assert comparison["one"].ranks == (1.0,)
    assert "P(first)" not in comparison.to_markdown()


def test_system_comparison_to_dict_and_to_markdown():
    f, h, system = simulated(np.random.default_rng(9), systems=("a|b", "c"), shift=0.5)
    comparison = compare_systems(f, h, system, confidence_level=0.9)
    state = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert state["confidence_level"] == 0.9
    assert [mean["system"] for mean in state["systems"]] == ["c", "a|b"]
    assert state["systems"][0]["ranks"] == list(comparison["c"].ranks)
    assert state["differences"][0]["first"] == "c"
    assert "random sample" in state["target"]
    lines = comparison.to_markdown().splitlines()
    assert lines[0].startswith("| system | items | graded | mean | 90 % interval | humans alone |")
    assert lines[3].startswith(r"| a\|b | 400 | 60 | ")
    with pytest.raises(InputError, match="system 'd'"):
        comparison["d"]


def test_compare_systems_accepts_none_and_numeric_names():
    f, h, system = simulated(np.random.default_rng(9))
    nullable = [None if math.isnan(grade) else int(grade) for grade in h]
    assert compare_systems(f, nullable, np.ones(400, dtype=int))["1"].mean == pytest.approx(
        compare_systems(f, h, system)["one"].mean
    )


F, H, S = [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 4.0, NAN], ["a"] * 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, NAN, 3.0, 4.0], H, S), "predicted: row 1 has nan"),
        (([1.0, 2.0, math.inf, 4.0], H, S), "predicted: row 2 has inf"),
        ((F, [1.0, 2.0, -math.inf, NAN], S), "human: row 2 has -inf"),
        ((F, ["good", "bad", "good", "bad"], S), "human: expected numbers, got <U4"),
        ((F, [True, False, True, True], S), "human: expected numbers, got bool"),
        ((F, np.array([1.0, "good", None, 2], dtype=object), S), "human: row 1 has 'good'"),
        ((F, H[:3], S), r"human: .*\(4,\); got \(3,\)"),
        ((F, H, S[:3]), r"system: expected one entry per item, shape \(4,\)"),
        (([[1.0, 2.0]], H, S), "predicted: expected one grade per item"),
        (([], [], []), "predicted: expected one grade per item"),
        ((F, H, ["a", None, "a", "a"]), "system: row 1 is empty"),
        ((F, H, ["a", "a", " ", "a"]), "system: row 2 is empty"),
        ((F, [1.0, NAN, NAN, NAN], S), "human: system 'a' has 1 human grades, expected 2"),
        ((F, [NAN] * 4, ["a", "a", "a", "b"]), "human: system 'a' has 0 human grades"),
        ((F, [4.0, 4.0, 4.0, NAN], S), "human: all 3 human grades of system 'a' are 4"),
    ],
)
def test_compare_systems_invalid_arguments_raise(arguments, message):
    with pytest.raises(InputError, match=rf"^{message}"):
        compare_systems(*arguments)


def test_compare_systems_invalid_clusters_raise():
    with pytest.raises(InputError, match="cluster: row 1 is empty"):
        compare_systems(F, H, S, cluster=["p", "", "q", "q"])
    with pytest.raises(InputError, match="^cluster: the 3 human grades of system 'a'"):
        compare_systems(F, H, S, cluster=["p", "p", "p", "q"])
    with pytest.raises(InputError, match="^human: .*system 'a' .* 2 graded clusters"):
        compare_systems(F, [1.0, 5.0, 1.0, 5.0], S, cluster=["p", "p", "q", "q"])


def test_compare_systems_without_human_grades_of_a_system_compares_the_others():
    f, h, system = simulated(np.random.default_rng(9), systems=("a", "b"), shift=0.5)
    both = compare_systems(f, h, system)
    more = compare_systems(np.append(f, [3.0, 4.0]), np.append(h, [NAN, NAN]), np.append(system, ["new", "new"]))
    assert more.systems == both.systems
    assert list(more.excluded) == ["new"]
    assert more.notes[0].startswith("Not compared: human: system 'new' has 0 human grades")


def test_compare_systems_notes_name_all_systems_in_one_sentence():
    h = [1.0, 2.0, 4.0, 5.0, 3.0, 2.0]
    notes = compare_systems(h, h, ["a", "a", "a", "b", "b", "b"]).notes
    assert [note for note in notes if "all items have a human grade" in note] == [notes[0]]
    assert notes[0].startswith("b, a:")


def test_build_page_of_systems_is_escaped_and_has_a_picture():
    from orcu.report.systems import build

    f, h, system = simulated(np.random.default_rng(9), systems=("<b>a</b>", "c"), shift=0.5)
    page = build(compare_systems(f, h, system))
    assert "<svg" in page
    assert "<b>a</b>" not in page
    assert "&lt;b&gt;a&lt;/b&gt;" in page
    assert page == build(compare_systems(f, h, system))


def test_compare_systems_copy_of_a_system_raises():
    f, h, _ = simulated(np.random.default_rng(9))
    twice = [np.tile(column, 2) for column in (f, h)]
    with pytest.raises(InputError, match="^system: 'a' and 'b'"):
        compare_systems(*twice, np.repeat(["a", "b"], 400), cluster=np.tile(np.arange(400), 2))


@pytest.mark.parametrize("level", [0, 1, 95, -0.5, "0.9", True])
def test_compare_systems_confidence_level_out_of_range_raises(level):
    with pytest.raises(InputError, match="^confidence_level:"):
        compare_systems(F, H, S, confidence_level=level)


def test_compare_systems_invalid_random_state_raises():
    with pytest.raises(InputError, match="^random_state:"):
        compare_systems(F, H, S, random_state=-1)


@pytest.mark.parametrize("clusters", [None, 30])
def test_compare_systems_interval_coverage(clusters):
    rng = np.random.default_rng(10)
    covered, draws = 0, 200
    for _ in range(draws):
        f, h, system = simulated(rng, items=300, graded=40)
        cluster = None
        if clusters:
            cluster = rng.integers(clusters, size=300)
            effect = 0.3 * rng.normal(size=clusters)[cluster]
            f, h = f + effect, h + effect
        mean = compare_systems(f, h, system, cluster=cluster)["one"]
        covered += mean.low <= 3 <= mean.high
    assert 0.90 < covered / draws < 0.99  # 0.95 within three standard errors
