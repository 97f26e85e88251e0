"""Ranks over data sets, compared with the published example and with scipy."""

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from orcu.errors import InputError, UnknownNameError
from orcu.evaluation.ranks import Result, rank_models

# Demsar (2006), Table 6: AUC of four versions of C4.5 on 14 data sets. The fourth digits of "voting" restore the order
# of two values that were equal after rounding.
NAMES = ("C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf")
AUC = [
    (0.763, 0.768, 0.771, 0.798),
    (0.599, 0.591, 0.590, 0.569),
    (0.954, 0.971, 0.968, 0.967),
    (0.628, 0.661, 0.654, 0.657),
    (0.882, 0.888, 0.886, 0.898),
    (0.936, 0.931, 0.916, 0.931),
    (0.661, 0.668, 0.609, 0.685),
    (0.583, 0.583, 0.563, 0.625),
    (0.775, 0.838, 0.866, 0.875),
    (1.000, 1.000, 1.000, 1.000),
    (0.940, 0.962, 0.965, 0.962),
    (0.619, 0.666, 0.614, 0.669),
    (0.972, 0.981, 0.9752, 0.9751),
    (0.957, 0.978, 0.946, 0.970),
]


def results(table, names=NAMES, metric="accuracy", **others):
    """Results of one fold for each row (data set) and column (model) of a table."""
    return [
        Result(f"set {i}", name, (0, 0), {metric: value, **others})
        for i, row in enumerate(table)
        for name, value in zip(names, row, strict=True)
    ]


def test_rank_models_gives_the_published_numbers():
    test = rank_models(results(AUC), metric="accuracy")
    means = dict(zip(test.models, test.mean_ranks.round(3).tolist(), strict=True))
    assert means == {"C4.5": 3.143, "C4.5+m": 2.0, "C4.5+cf": 2.893, "C4.5+m+cf": 1.964}
    assert test.models[0] == "C4.5+m+cf"
    assert test.critical_difference == pytest.approx(1.25, abs=0.005)
    assert rank_models(results(AUC), metric="accuracy", alpha=0.1).critical_difference == pytest.approx(1.12, abs=0.005)
    # The published statistics are not corrected for ties: three pairs (6 each) and one quadruple (60).
    uncorrected = test.chi_square * (1 - (3 * 6 + 60) / (14 * 4 * 15))
    assert uncorrected == pytest.approx(9.28, abs=0.005)
    assert 13 * uncorrected / (14 * 3 - uncorrected) == pytest.approx(3.69, abs=0.005)
    assert test.f_statistic == pytest.approx(13 * test.chi_square / (14 * 3 - test.chi_square))


def test_rank_models_statistic_equals_scipy():
    rng = np.random.default_rng(0)
    table = rng.integers(6, size=(9, 5)) / 10  # with ties
    test = rank_models(results(table, names="abcde", metric="mae"), metric="mae")
    assert test.chi_square == pytest.approx(stats.friedmanchisquare(*table.T).statistic)


def test_rank_models_p_value_is_that_of_all_permutations():
    table = [(1, 2, 3), (1, 3, 2), (1, 2, 3)]
    test = rank_models(results(table, names="abc", metric="mae"), metric="mae")
    totals = [
        sum((first + second + third - 6) ** 2 for first, second, third in zip(*rows, strict=True))
        for rows in np.array(np.meshgrid(*[np.arange(6)] * 3)).reshape(3, -1).T.tolist()
        for rows in [[list(permutations((1, 2, 3)))[k] for k in rows]]
    ]
    observed = sum((sum(column) - 6) ** 2 for column in zip(*table, strict=True))
    exact = np.mean([total >= observed for total in totals])
    assert exact == pytest.approx(7 / 36)
    assert test.p_value == pytest.approx(exact, abs=0.015)  # four standard errors of 9,999 permutations
    assert not test.is_significant
    assert test.groups == [("a", "b", "c")]
    # Iman and Davenport's approximation would reject, which is why it is not used.
    assert stats.f.sf(test.f_statistic, 2, 4) < 0.05


def test_rank_models_groups_are_maximal_and_overlap():
    rng = np.random.default_rng(1)
    table = np.arange(6) + 0.8 * rng.normal(size=(12, 6))
    test = rank_models(results(table, names="abcdef", metric="mae"), metric="mae")
    difference, mean = test.critical_difference, dict(zip(test.models, test.mean_ranks, strict=True))
    assert test.is_significant
    for group in test.groups:
        assert mean[group[-1]] - mean[group[0]] < difference
    assert len(test.groups) > 1
    assert not any(set(group) < set(other) for group in test.groups for other in test.groups)
    together = {(a, b) for group in test.groups for a in group for b in group}
    for a in mean:
        for b in mean:
            assert (abs(mean[a] - mean[b]) < difference) == ((a, b) in together or a == b)
    assert f"not distinguished: {', '.join(test.groups[0])}" in "\n".join(test.lines())


def test_rank_models_drops_incomplete_and_collapsed_data_sets_and_says_why():
    complete = results([(0.1, 0.2)] * 4, names="ab", metric="sce", qwk=0.5)
    folds = [
        Result("half", name, (fold, 0), {"sce": 0.1}) for name, count in (("a", 2), ("b", 1)) for fold in range(count)
    ]
    flat = [
        Result("flat", "a", (0, 0), {"sce": 0.0, "qwk": 0.02}),
        Result("flat", "b", (0, 0), {"sce": 0.3, "qwk": 0.5}),
    ]
    test = rank_models([*folds, *complete, *flat], metric="sce")
    assert test.datasets == ("set 0", "set 1", "set 2", "set 3")
    assert test.dropped == {"half": "no sce of b on some or all of its folds", "flat": "collapsed (QWK below 0.1): a"}
    assert "dropped: flat: collapsed (QWK below 0.1): a" in test.lines()
    with pytest.raises(InputError, match=r"at least 3 data sets with all 2 losses, got 2.*half: no sce of b"):
        rank_models([*folds, *complete[:4]], metric="sce")
    # without b, which has no complete results there, the data set counts
    three = [result._replace(model="c") for result in folds if result.model == "a"]
    complete = rank_models(
        [*folds, *three, *(r._replace(model="c") for r in complete if r.model == "b"), *complete],
        metric="sce",
        models=["a", "c"],
    )
    assert complete.dropped == {}
    assert len(complete.datasets) == 5


def test_rank_models_means_are_over_folds():
    runs = [
        Result(f"set {i}", name, (fold, 0), {"mae": value})
        for i in range(3)
        for name, values in (("a", (0.1, 0.9)), ("b", (0.2, 0.3)))
        for fold, value in enumerate(values)
    ]
    assert rank_models(runs, metric="mae").models == ("b", "a")


def test_rank_models_equal_models_share_the_rank_and_are_not_distinguished():
    test = rank_models(results([(0.5, 0.5, 0.5)] * 3, names="abc"), metric="accuracy")
    assert test.mean_ranks.tolist() == [2, 2, 2]
    assert (test.chi_square, test.p_value) == (0, 1)


def test_rank_models_names_data_sets_with_the_same_rows():
    runs = [run._replace(origin="lev" if run.data != "set 0" else "swd") for run in results(AUC[:3])]
    assert (
        "not independent, so p is too small: set 1, set 2 have the same rows"
        in rank_models(runs, metric="accuracy").lines()
    )


def test_rank_models_invalid_arguments_raise_and_name_them():
    with pytest.raises(InputError, match="at least 3 data sets with all 4 losses, got 2. Add data sets"):
        rank_models(results(AUC[:2]), metric="accuracy")
    with pytest.raises(InputError, match="at least two losses, got 1"):
        rank_models(results(AUC), metric="accuracy", models=["C4.5"])
    with pytest.raises(InputError, match="alpha: expected a number between 0 and 1"):
        rank_models(results(AUC), metric="accuracy", alpha=5)
    with pytest.raises(InputError, match="no value of sharpness is better"):
        rank_models(results(AUC, metric="sharpness"), metric="sharpness")
    with pytest.raises(UnknownNameError, match="'sce'"):
        rank_models(results(AUC), metric="scee")
