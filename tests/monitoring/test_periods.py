"""Two periods: PSI, migration matrix and Jeffreys test, against published numbers, scipy and loops."""

import numpy as np
import pytest
from command import assert_usage_error, run
from scipy import stats

from orcu import decide
from orcu.errors import InputError, UnknownNameError
from orcu.monitoring import compare_periods
from orcu.monitoring.periods import jeffreys_test, migration_matrix, population_stability_index
from orcu.predictions import Predictions


def portfolio(rows=300, shift=0.0, seed=0, first=0, **columns):
    rng = np.random.default_rng(seed)
    logits = -((np.arange(4) - rng.normal(1.2 + shift, 1.2, size=(rows, 1))) ** 2)
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random((rows, 1)) > probs.cumsum(1)[:, :-1]).sum(1)
    ids = [f"loan {number}" for number in range(first, first + rows)]
    return Predictions(probs=probs, y=y, ids=ids, classes=list("ABCD"), **columns)


def test_jeffreys_test_equals_a_published_example_and_scipy():
    # Roesch and Scheule, Deep Credit Risk: 2 defaults of 6, predicted 3.67 %, p = 0.0044
    assert jeffreys_test(0.0367, 2, 6) == pytest.approx(0.0044, abs=5e-5)
    predicted, events, rows = [0.01, 0.2, 0.5], [0, 30, 12], [40, 100, 12]
    expected = [stats.beta(k + 0.5, n - k + 0.5).cdf(p) for p, k, n in zip(predicted, events, rows, strict=True)]
    assert jeffreys_test(predicted, events, rows) == pytest.approx(expected)


def test_jeffreys_test_of_a_right_probability_is_small_in_about_five_percent():
    rng = np.random.default_rng(0)
    events = rng.binomial(200, 0.1, size=4_000)
    assert (jeffreys_test(0.1, events, 200) < 0.05).mean() == pytest.approx(0.05, abs=0.015)


def test_population_stability_index_is_the_symmetric_divergence():
    before, after = np.array([120, 60, 15, 5]), np.array([80, 90, 20, 10])
    expected = stats.entropy(before, after) + stats.entropy(after, before)
    assert population_stability_index(before, after) == pytest.approx(expected)
    assert population_stability_index(before, 7 * before) == pytest.approx(0)
    assert population_stability_index([1, 1, 0], [2, 2, 0]) == pytest.approx(0)  # a grade without rows
    assert population_stability_index([1, 1, 0], [1, 1, 1]) == np.inf


def test_stability_limit_is_exceeded_in_five_percent_without_a_change():
    rng, shares = np.random.default_rng(1), [0.4, 0.3, 0.2, 0.1]
    first, second = rng.multinomial(800, shares, size=2_000), rng.multinomial(300, shares, size=2_000)
    limit = stats.chi2(3).ppf(0.95) * (1 / 800 + 1 / 300)
    above = [population_stability_index(*pair) > limit for pair in zip(first, second, strict=True)]
    assert np.mean(above) == pytest.approx(0.05, abs=0.015)
    probs = np.eye(4)[np.repeat(np.arange(4), [8, 6, 4, 2])] * 0.9 + 0.025
    result = compare_periods(Predictions(probs=probs), Predictions(probs=probs[:15]))
    assert result.stability_limit == pytest.approx(stats.chi2(3).ppf(0.95) * (1 / 20 + 1 / 15))


def test_compare_periods_equals_loops():
    before, after = portfolio(), portfolio(250, shift=0.4, seed=1, first=100)
    result = compare_periods(before, after, rule="median", event="C")
    first, second = decide(before.probs, "median"), decide(after.probs, "median")
    expected = np.zeros((4, 4), dtype=int)
    for number in range(100, 300):  # ids of both periods
        expected[first[number], second[number - 100]] += 1
    assert result.migration.tolist() == expected.tolist()
    assert result.counts.tolist() == [
        np.bincount(first, minlength=4).tolist(),
        np.bincount(second, minlength=4).tolist(),
    ]
    assert result.stability_index == pytest.approx(population_stability_index(*result.counts))
    assert result.event == "C or above"
    for k, grade in enumerate(result.backtest):
        chosen = second == k
        assert (grade.rows, grade.events) == (chosen.sum(), (after.y[chosen] >= 2).sum())
        assert grade.predicted == pytest.approx(after.probs[chosen, 2:].sum(1).mean())
        assert grade.p_value == pytest.approx(float(jeffreys_test(grade.predicted, grade.events, grade.rows)))


def test_compare_periods_finds_grades_with_too_low_probabilities():
    before, after = portfolio(2_000), portfolio(2_000, seed=2)
    fair = compare_periods(before, after)
    assert all(grade.p_value > 0.01 for grade in fair.backtest)
    low = after.probs * [1, 1, 1, 0.4]
    result = compare_periods(
        before, Predictions(probs=low / low.sum(1, keepdims=True), y=after.y, classes=list("ABCD"))
    )
    assert result.backtest[2].p_value < 0.001
    assert result.migration is None  # no ids


def test_compare_periods_leaves_unknown_labels_out_of_the_backtest():
    before, after = portfolio(), portfolio(seed=1)
    labels = np.where(np.arange(300) < 120, -1, after.y)
    result = compare_periods(before, after, y=labels)
    assert sum(grade.rows for grade in result.backtest) == 180
    assert result.counts[1].sum() == 300


def test_compare_periods_refuses_what_it_cannot_compare():
    with pytest.raises(InputError, match="its classes are A, B, those of the first period A, B, C, D"):
        compare_periods(portfolio(), Predictions(probs=[[0.5, 0.5]], classes=["A", "B"]))
    with pytest.raises(InputError, match="before: rows have sample weights"):
        compare_periods(portfolio(sample_weight=np.ones(300)), portfolio())
    for event in ("A", "E"):  # every row has the lowest class or above
        with pytest.raises(UnknownNameError, match="event"):
            compare_periods(portfolio(), portfolio(), event=event)
    with pytest.raises(InputError, match="expected grades 0 to 1"):
        migration_matrix([0, 2], [0, 1], 2)
    with pytest.raises(InputError, match="as many grades in both"):
        population_stability_index([1, 2], [1, 2, 3])
    with pytest.raises(InputError, match="not all 0"):
        population_stability_index([0, 0], [1, 2])
    with pytest.raises(InputError, match="predicted: expected probabilities"):
        jeffreys_test(1.2, 1, 2)
    with pytest.raises(InputError, match="events: expected numbers"):
        jeffreys_test(0.2, 3, 2)


def test_monitor_compare_prints_and_writes_the_numbers(tmp_path):
    before, after = portfolio(), portfolio(250, shift=0.4, seed=1, first=100)
    before.write(tmp_path / "q1.csv")
    after.write(tmp_path / "q2.csv")
    options = ("--probs", "prob_*", "--label", "label", "--classes", "A,B,C,D", "--id", "id")
    result = run("monitor", "compare", "q1.csv", "q2.csv", *options, "--json", "n.json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    expected = compare_periods(before, after)
    assert f"Population stability index: {expected.stability_index:.4f}" in result.stdout
    assert "200 cases are in both periods." in result.stdout
    assert '"stability_index"' in (tmp_path / "n.json").read_text()
    without = run("monitor", "compare", "q1.csv", "q2.csv", *options[:-2], cwd=tmp_path)
    assert "No migration matrix: it needs the ids" in without.stdout
    assert_usage_error(run("monitor", "compare", "q1.csv", "q3.csv", *options, cwd=tmp_path), "q3.csv", "no such file")
    wrong = run("monitor", "compare", "q1.csv", "q2.csv", *options, "--event", "Z", cwd=tmp_path)
    assert wrong.returncode in (2, 3)
    assert "event" in wrong.stderr
