"""FIRM score against the test data of the package scores, and against its definition as a loop."""

import numpy as np
import pytest

from orcu import decide, evaluate, metrics
from orcu.decisions.firm import firm_costs
from orcu.errors import InputError

# Forecasts and observations of the tests of the package scores (its authors are those of the score), as categories of
# the thresholds 0, 5 and 8, and the published scores of each pair at risk 0.7.
FORECAST = np.array([2, 0, 0, 0, 0, 1, 3, 0, 0])
OBSERVED = np.array([1, 3, 0, 3, 0, 1, 3, 0, 3])
PUBLISHED = [0.3, 2.1, 0.0, 2.1, 0.0, 0.0, 0.0, 0.0, 2.1]


def loop(y, pred, risk, weights):
    total = 0.0
    for truth, decision in zip(y, pred, strict=True):
        for k, weight in enumerate(weights, start=1):
            total += weight * risk * (decision < k <= truth) + weight * (1 - risk) * (truth < k <= decision)
    return total / len(y)


def test_firm_equals_the_published_scores():
    costs = firm_costs(4, risk=0.7)
    assert costs[OBSERVED, FORECAST] == pytest.approx(PUBLISHED)
    assert metrics.firm(OBSERVED, FORECAST, num_classes=4, risk=0.7) == pytest.approx(np.mean(PUBLISHED))
    # one threshold, at 5
    above = metrics.firm((OBSERVED > 1).astype(int), (FORECAST > 1).astype(int), num_classes=2, risk=0.7)
    assert above == pytest.approx(2.4 / 9)


def test_firm_equals_a_loop_with_weights():
    rng = np.random.default_rng(0)
    y, pred, weights = rng.integers(5, size=200), rng.integers(5, size=200), [1.0, 2.0, 0.5, 4.0]
    value = metrics.firm(y, pred, num_classes=5, risk=0.8, threshold_weights=weights)
    assert value == pytest.approx(loop(y, pred, 0.8, weights))
    counts = rng.integers(0, 4, size=200)
    weighted = metrics.firm(y, pred, num_classes=5, risk=0.8, sample_weight=counts)
    assert weighted == pytest.approx(loop(np.repeat(y, counts), np.repeat(pred, counts), 0.8, [1, 1, 1, 1]))


@pytest.mark.parametrize("risk", [0.2, 0.5, 0.9])
def test_firm_costs_decide_by_the_threshold_probability(risk):
    probs = np.random.default_rng(1).dirichlet(np.ones(4), size=300)
    above = probs[:, ::-1].cumsum(axis=1)[:, ::-1]  # P(Y >= k)
    expected = (above[:, 1:] > 1 - risk).sum(axis=1)
    assert decide(probs, firm_costs(4, risk=risk)).tolist() == expected.tolist()
    y = np.random.default_rng(2).integers(4, size=300)
    evaluation = evaluate(probs=probs, y=y, rule=firm_costs(4, risk=risk), n_resamples=0)
    assert evaluation["cost"].value == pytest.approx(metrics.firm(y, expected, num_classes=4, risk=risk))


def test_firm_with_a_risk_of_one_half_is_half_the_mean_absolute_error():
    y, pred = [0, 2, 1, 2], [1, 0, 1, 2]
    assert metrics.firm(y, pred, num_classes=3, risk=0.5) == pytest.approx(metrics.mae(y=y, pred=pred) / 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"risk": 1.0}, "risk: expected a number above 0 and below 1"),
        ({"risk": 0.5, "threshold_weights": [1.0]}, "threshold_weights: expected 2 numbers above 0"),
        ({"risk": 0.5, "threshold_weights": [1.0, 0.0]}, "threshold_weights"),
        ({"risk": 0.5, "num_classes": 1}, "num_classes: expected a whole number"),
        ({"risk": 0.5, "num_classes": 2}, "num_classes: a label or decision is 2"),
    ],
)
def test_firm_refuses_invalid_arguments(options, message):
    with pytest.raises(InputError, match=message):
        metrics.firm([0, 2], [1, 1], **{"num_classes": 3, **options})
