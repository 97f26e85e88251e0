"""Chance limits of daily calibration errors from binned sums."""

import numpy as np
import pytest

from orcu import Predictions, Tally, evaluate
from orcu.monitoring.chance import NO_LIMIT, chance_limit, tally_limits


@pytest.mark.parametrize(("num_classes", "rows"), [(2, 11), (4, 11), (4, 200)])
def test_tally_limits_agree_with_evaluate(num_classes, rows):
    rng = np.random.default_rng(0)
    logits = -((np.arange(num_classes) - rng.normal(num_classes / 2, 1.5, size=(rows, 1))) ** 2)
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random((rows, 1)) > probs.cumsum(1)[:, :-1]).sum(1)
    tally = Tally(num_classes)
    tally.update(probs, y)
    metrics = evaluate(Predictions(probs=probs, y=y), n_resamples=0).metrics
    for name, limit in zip(("ece", "sce"), tally_limits(tally, rows), strict=True):
        assert limit.expected == pytest.approx(metrics[name].expected, rel=0.05)
        assert limit.limit == pytest.approx(metrics[name].limit, rel=0.1)


def test_chance_limit_fewer_effective_rows_give_a_higher_limit():
    table = np.array([[[100.0], [80.0], [80.0]]])
    assert chance_limit(table, 20).limit > 1.8 * chance_limit(table, 100).limit
    assert chance_limit(np.zeros((1, 3, 4)), 0) is NO_LIMIT
    assert tally_limits(Tally(3), 0) == (NO_LIMIT, NO_LIMIT)
