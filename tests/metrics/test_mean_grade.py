"""SMD and PRMSE against the formulas and tests of RSMTool, their intervals, and what a report says of subgroups."""

import numpy as np
import pytest

from orcu import evaluate, metrics
from orcu.errors import InputError
from orcu.metrics.mean_grade import prmse_of_sums, prmse_sums
from orcu.report.headline import failures, next_step


def rsmtool_prmse(system, scores):
    """`rsmtool.utils.prmse.prmse_true` (version 8), written out; scores of raters with NaN where there is none."""
    count, mean = (~np.isnan(scores)).sum(axis=1), np.nanmean(scores, axis=1)
    several = count > 1
    error = np.average(np.nanvar(scores[several], ddof=1, axis=1), weights=count[several] - 1)
    total = count.sum()
    between = (count * (mean - np.nanmean(scores)) ** 2).sum()
    true_variance = (between - (len(scores) - 1) * error) / (total - (count**2).sum() / total)
    return 1 - ((count * (mean - system) ** 2).sum() - len(scores) * error) / total / true_variance


def graded(cases=200, seed=0, single=0.4):
    """Probabilities, and grades of one to three raters."""
    rng = np.random.default_rng(seed)
    true = rng.normal(2, 1.2, size=cases)
    scores = np.clip(np.rint(true[:, None] + rng.normal(0, 0.6, size=(cases, 3))), 0, 4)
    scores[rng.random(cases) < single, 1:] = np.nan
    logits = -((np.arange(5) - true[:, None] - rng.normal(0, 0.5, size=(cases, 1))) ** 2)
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    votes = np.stack([(scores == k).sum(axis=1) for k in range(5)], axis=1)
    return probs, votes, scores


@pytest.mark.parametrize("single", [0.0, 0.6])
def test_prmse_equals_rsmtool(single):
    probs, votes, scores = graded(single=single)
    assert metrics.prmse(probs, votes) == pytest.approx(rsmtool_prmse(probs @ np.arange(5), scores))


def test_prmse_of_double_scored_cases_equals_the_documented_formula():
    probs, votes, scores = graded(single=0.0)
    scores = scores[:, :2]
    votes = np.stack([(scores == k).sum(axis=1) for k in range(5)], axis=1)
    error = ((scores[:, 0] - scores[:, 1]) ** 2).sum() / (2 * len(scores))
    mean, system = scores.mean(axis=1), probs @ np.arange(5)
    expected = 1 - (np.mean((mean - system) ** 2) - error / 2) / (mean.var(ddof=1) - error / 2)
    assert metrics.prmse(probs, votes) == pytest.approx(expected)


def test_prmse_is_the_accuracy_for_true_grades_that_are_known():
    rng = np.random.default_rng(3)
    true = rng.uniform(0, 4, size=20_000)
    low = np.floor(true).astype(int)
    scores = low[:, None] + (
        rng.random((len(true), 2)) < (true - low)[:, None]
    )  # votes with the mean of the true grade
    votes = np.stack([(scores == k).sum(axis=1) for k in range(5)], axis=1)
    probs = np.eye(5)[np.clip(np.rint(true + rng.normal(0, 0.7, size=len(true))), 0, 4).astype(int)]
    expected = 1 - np.mean((probs @ np.arange(5) - true) ** 2) / true.var()
    assert metrics.prmse(probs, votes) == pytest.approx(expected, abs=0.01)


def test_evaluate_prmse_has_the_value_and_an_interval_that_covers():
    estimates = []
    for seed in range(12):
        probs, votes, _ = graded(60, seed=seed)
        estimates.append(evaluate(probs=probs, y=votes, n_resamples=60).raters.prmse)
        assert estimates[-1].value == pytest.approx(metrics.prmse(probs, votes))
    center = np.mean([estimate.value for estimate in estimates])
    assert np.mean([estimate.low <= center <= estimate.high for estimate in estimates]) >= 0.75


def test_prmse_weights_equal_repeated_cases_up_to_the_number_of_cases():
    probs, votes, _ = graded()
    weight = np.random.default_rng(1).uniform(0.5, 2, size=len(votes))
    sums = (prmse_sums(probs, votes) * (weight / weight.mean())[:, None]).sum(axis=0)
    assert metrics.prmse(probs, votes, sample_weight=weight) == pytest.approx(float(prmse_of_sums(sums)))


def test_prmse_needs_votes():
    with pytest.raises(InputError, match="expected counts of votes, shape"):
        metrics.prmse([[0.5, 0.5]] * 2, [0, 1])
    with pytest.raises(InputError, match="two or more votes of at least one case"):
        metrics.prmse([[0.5, 0.5]] * 2, [[1, 0], [0, 1]])
    assert np.isnan(metrics.prmse([[0.5, 0.5]] * 2, [[2, 0], [2, 0]]))


def test_standardized_mean_difference_equals_its_definition_also_for_subgroups():
    probs, _, scores = graded()
    y, system = scores[:, 0].astype(int), probs @ np.arange(5)
    expected = (system.mean() - y.mean()) / y.std(ddof=1)
    assert metrics.standardized_mean_difference(probs, y) == pytest.approx(expected)
    site = np.where(np.arange(200) < 80, "south", "north")
    evaluation = evaluate(probs=probs, y=y, subgroup=site, n_resamples=100)
    assert evaluation.mean_difference.value == pytest.approx(expected)
    assert evaluation.mean_difference.low < expected < evaluation.mean_difference.high
    south = (system[:80].mean() - y[:80].mean()) / y.std(ddof=1)  # with the deviation of all rows
    assert evaluation.subgroups["south"].mean_difference.value == pytest.approx(south)
    assert evaluation.to_dict()["subgroups"]["south"]["standardized_mean_difference"]["value"] == pytest.approx(south)
    assert np.isnan(metrics.standardized_mean_difference([[0.5, 0.5]] * 2, [1, 1]))


def test_subgroup_that_is_graded_too_high_is_a_failure_although_its_errors_are_not_larger():
    rng = np.random.default_rng(5)
    true = rng.normal(2, 1.0, size=1_200)
    y = np.clip(np.rint(true + rng.normal(0, 0.5, size=len(true))), 0, 4).astype(int)
    site = np.array(["north", "south"])[np.arange(1_200) % 2]
    shift = np.where(site == "south", 0.35, -0.35)  # errors of the same size in opposite directions
    logits = -2 * (np.arange(5) - (true + shift)[:, None]) ** 2
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    evaluation = evaluate(probs=probs, y=y, subgroup=site, n_resamples=100)
    (sentence,) = [text for text in failures(evaluation) if "mean observed grade" in text]
    assert "standard deviations in south, -0." in sentence
    assert "Check the labels and training rows of the subgroups" in next_step(evaluation)
    fair = evaluate(probs=probs, y=y, subgroup=rng.permutation(site), n_resamples=100)
    assert not any("mean observed grade" in text for text in failures(fair))
