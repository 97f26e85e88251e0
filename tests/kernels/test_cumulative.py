"""Closed forms of the cumulative link model."""

import numpy as np
import pytest
from scipy.special import expit

from orcu.kernels import cumulative

THRESHOLDS = np.array([-1.5, -0.2, 0.1, 2.0])


def test_cumulative_log_probs_equal_differences_of_sigmoids():
    scores = np.linspace(-3, 3, 13)
    below = expit(np.concatenate([[-np.inf], THRESHOLDS, [np.inf]]) - scores[:, None])
    np.testing.assert_allclose(np.exp(cumulative.log_probs(scores, THRESHOLDS)), np.diff(below, axis=1), atol=1e-14)


def test_cumulative_log_probs_are_finite_and_normalised_for_extreme_scores():
    log_probs = cumulative.log_probs(np.array([-1e4, -50.0, 0.0, 50.0, 1e4]), THRESHOLDS)
    assert np.isfinite(log_probs).all()
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1)
    # In the tail a step of the score is a step of the log-probability: no digits are lost by cancellation.
    tail = cumulative.log_probs(np.array([100.0, 101.0]), THRESHOLDS)
    assert np.diff(tail[:, 1])[0] == pytest.approx(-1.0, abs=1e-9)


def test_log_loss_gradient_equals_finite_differences():
    rng = np.random.default_rng(0)
    scores, y, weight = rng.normal(size=20) * 3, rng.integers(5, size=20), rng.uniform(0.5, 2, size=20)
    value, of_scores, of_thresholds = cumulative.log_loss_gradient(scores, THRESHOLDS, y, weight)
    assert value == pytest.approx(-weight @ cumulative.log_probs(scores, THRESHOLDS)[np.arange(20), y])

    def difference(index, which):
        step = np.zeros(20 if which == "scores" else 4)
        step[index] = 1e-6
        values = [
            cumulative.log_loss_gradient(
                scores + sign * step if which == "scores" else scores,
                THRESHOLDS + sign * step if which == "thresholds" else THRESHOLDS,
                y,
                weight,
            )[0]
            for sign in (1, -1)
        ]
        return (values[0] - values[1]) / 2e-6

    assert of_scores == pytest.approx([difference(i, "scores") for i in range(20)], abs=1e-6)
    assert of_thresholds == pytest.approx([difference(i, "thresholds") for i in range(4)], abs=1e-6)
