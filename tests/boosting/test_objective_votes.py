"""Boosting objectives of votes: they equal the mean over the objectives of the single votes."""

import numpy as np
import pytest

from orcu.boosting import objective
from orcu.boosting.adapters import lightgbm_metric, lightgbm_objective
from orcu.errors import InputError
from orcu.metrics import rps
from orcu.raters.votes import expand_votes

SPECS = ["ce", "ls", "sord", "orcu", "cdw_ce", "flsd", {"anchor": "huber", "regularizer": "softplus"}]
SPECS += [{"anchor": "ce", "regularizer": "hinge"}]


@pytest.fixture
def rated():
    rng = np.random.default_rng(0)
    return rng.normal(size=(30, 4)), rng.multinomial(5, [0.4, 0.3, 0.2, 0.1], size=30)


class Data:
    """The parts of a LightGBM Dataset that objectives and metrics read."""

    def __init__(self, rows):
        self.rows = rows

    def get_label(self):
        return np.zeros(self.rows)

    def get_weight(self):
        return None


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_objective_of_votes_is_the_mean_over_the_votes(rated, spec):
    logits, votes = rated
    loss = objective(spec, num_classes=4)
    case, label, share = expand_votes(votes.astype(float))
    gradient, hessian = loss.gradient_and_hessian(logits, votes)
    rows = loss.gradient_and_hessian(logits[case], label, share)
    for computed, expected in zip((gradient, hessian), rows, strict=True):
        sums = np.zeros_like(logits)
        np.add.at(sums, case, expected)
        assert np.allclose(computed, sums, rtol=1e-6, atol=1e-5)
    assert loss.value(logits, votes) == pytest.approx(loss.value(logits[case], label, share))
    assert np.allclose(loss.init_score(votes), loss.init_score(label, share), atol=1e-6)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_objective_of_one_vote_equals_that_of_its_label(rated, spec):
    logits, votes = rated
    y = votes.argmax(axis=1)
    loss = objective(spec, num_classes=4)
    for by_vote, by_label in zip(
        loss.gradient_and_hessian(logits, np.eye(4)[y]), loss.gradient_and_hessian(logits, y), strict=True
    ):
        assert np.allclose(by_vote, by_label, atol=1e-12)


def test_lightgbm_adapters_take_votes_in_place_of_labels(rated):
    logits, votes = rated
    gradient, _ = lightgbm_objective("orcu", num_classes=4, votes=votes)(logits, Data(30))
    expected, _ = objective("orcu", num_classes=4).gradient_and_hessian(logits, votes)
    assert np.allclose(gradient, expected, atol=1e-5)
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    case, label, share = expand_votes(votes.astype(float))
    _, value, _ = lightgbm_metric("rps", num_classes=4, votes=votes)(logits, Data(30))
    assert value == pytest.approx(rps(probs[case], label, sample_weight=share))


def test_invalid_votes_are_refused(rated):
    logits, votes = rated
    with pytest.raises(InputError, match="votes of 30 cases for 29 rows"):
        lightgbm_objective("ce", num_classes=4, votes=votes)(logits[:29], Data(29))
    with pytest.raises(InputError, match="votes have 3 columns, expected 4"):
        objective("ce", num_classes=4).gradient_and_hessian(logits, votes[:, :3])
    with pytest.raises(InputError, match="row 0 has -1"):
        lightgbm_metric("rps", num_classes=4, votes=-np.ones((30, 4)))
