"""Net benefit against dcurves 1.1.7, and the C-index against its definition and lifelines 0.30.0."""

import numpy as np
import pytest

from orcu import evaluate, metrics
from orcu.errors import InputError
from orcu.figures.panels import decision_curve
from orcu.metrics.concordance import concordance_fit
from orcu.metrics.rows import Rows
from orcu.metrics.thresholds import auc
from orcu.predictions import Predictions

PROB = np.array([0.1, 0.4, 0.3, 0.9, 0.6, 0.6, 0.2, 0.8])
EVENT = np.array([0, 0, 1, 1, 1, 0, 0, 1])
LIFELINES = 0.7867386850437698
POINTS = [0.1, 0.25, 0.5, 0.7]


def grades(rows=120, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(4, size=rows)
    z = -np.abs(np.arange(4) - (y + rng.normal(0, 1.2, size=rows)).round(1)[:, None])
    probs = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    return probs, y, rng.uniform(0.2, 2, size=rows)


def test_net_benefit_equals_dcurves():
    # dcurves.dca(data, "event", ["prob"], thresholds=POINTS), rows of the model and of "all"
    values = metrics.net_benefit(np.stack([1 - PROB, PROB], axis=1), EVENT, threshold_probabilities=POINTS)
    assert values[0] == pytest.approx([0.444444, 0.416667, 0.25, 0.25], abs=1e-6)
    everyone = metrics.net_benefit(np.tile([0.0, 1.0], (8, 1)), EVENT, threshold_probabilities=POINTS)
    assert everyone[0] == pytest.approx([0.444444, 0.333333, 0.0, -0.666667], abs=1e-6)


def test_net_benefit_weights_equal_repeated_rows():
    probs, y, _ = grades()
    counts = np.random.default_rng(1).integers(0, 4, size=len(y))
    weighted = metrics.net_benefit(probs, y, sample_weight=counts)
    assert weighted == pytest.approx(metrics.net_benefit(np.repeat(probs, counts, axis=0), np.repeat(y, counts)))


@pytest.mark.parametrize("points", [[0.0, 0.5], [1.0], [], 0.5])
def test_net_benefit_threshold_probability_outside_of_0_and_1_is_refused(points):
    with pytest.raises(InputError, match="threshold_probabilities: expected numbers above 0 and below 1"):
        metrics.net_benefit([[0.5, 0.5]] * 2, [0, 1], threshold_probabilities=points)


def test_evaluate_decision_curves_have_intervals_and_paired_differences():
    probs, y, weight = grades(300)
    blurred = 0.5 * probs + 0.5 / 4
    first, second = (Predictions(probs=p, y=y, sample_weight=weight, classes=list("abcd")) for p in (probs, blurred))
    evaluation = evaluate(first, compare={"blurred": second, "same": first}, n_resamples=100)
    expected, other = (metrics.net_benefit(p, y, sample_weight=weight) for p in (probs, blurred))
    for k, curve in enumerate(evaluation.decision_curves):
        assert [e.value for e in curve.net_benefit] == pytest.approx(expected[k])
        assert [e.value for e in curve.differences["blurred"]] == pytest.approx(expected[k] - other[k], abs=1e-12)
        assert all((e.value, e.low, e.high) == (0, 0, 0) for e in curve.differences["same"])
        assert all(e.low <= e.value <= e.high for e in curve.net_benefit)
        prevalence = evaluation.per_threshold[k]["prevalence"]
        assert curve.treat_all == pytest.approx(prevalence - (1 - prevalence) * np.arange(1, 20) / np.arange(19, 0, -1))
    assert len(evaluation.to_dict()["decision_curves"][0]["differences"]["blurred"]) == 19
    page = evaluation.to_html()
    assert "Decision curve: b or above" in page
    assert "minus that of another model on the same rows" in page
    assert decision_curve.plot(evaluation, event="d").get_ylabel() == "net benefit"
    with pytest.raises(InputError, match="b or above"):
        decision_curve.plot(evaluation, event="e")


def test_c_index_equals_its_definition_over_all_pairs():
    probs, y, weight = grades()
    expected = (probs @ np.arange(4)).round(12)
    pairs = weight[:, None] * weight * (y[:, None] > y)
    difference = expected[:, None] - expected
    value = (pairs * ((difference > 0) + 0.5 * (difference == 0))).sum() / pairs.sum()
    assert metrics.c_index(probs, y, sample_weight=weight) == pytest.approx(value, abs=1e-12)


def test_c_index_equals_lifelines():
    # lifelines.utils.concordance_index(y, expected class) for rows without censoring
    probs, y, _ = grades()
    assert metrics.c_index(probs, y) == pytest.approx(LIFELINES, abs=1e-9)


def test_c_index_of_two_classes_is_the_auc():
    probs = np.stack([1 - PROB, PROB], axis=1)
    assert metrics.c_index(probs, EVENT) == pytest.approx(auc(probs, EVENT)[0])


def test_concordance_fit_influence_predicts_the_change_by_a_little_more_weight_of_a_row():
    probs, y, weight = grades(60)
    fit, step = concordance_fit(Rows(probs, y, weight)), 1e-6
    for row in (0, 21, 44):
        more = weight.copy()
        more[row] *= 1 + step
        change = (concordance_fit(Rows(probs, y, more)).value - fit.value) / step
        assert change == pytest.approx(fit.influence[row] / len(y), abs=1e-6)


def test_evaluate_c_index_has_an_interval_and_is_nan_for_a_subgroup_of_one_class():
    probs, y, _ = grades()
    evaluation = evaluate(probs=probs, y=y, subgroup=np.where(y == 0, "one class", "others"), n_resamples=100)
    assert evaluation.c_index.value == pytest.approx(metrics.c_index(probs, y))
    assert evaluation.c_index.low < evaluation.c_index.value < evaluation.c_index.high
    assert np.isnan(evaluation.subgroups["one class"].c_index.value)
    assert evaluation.to_dict()["c_index"]["value"] == evaluation.c_index.value
