"""E-processes: the wealth of the bets is at most that of a martingale, for any order of rows, checks and labels."""

import itertools

import numpy as np
import pytest

from orcu import Tally
from orcu.monitoring.e_process import (
    STAKES,
    Hypothesis,
    cell_sums,
    cell_weights,
    gap_interval,
    log_e_value,
    log_wealth,
    start_weights,
    update_wealth,
)


def test_log_wealth_has_mean_at_most_one_over_all_outcomes():
    probs = np.array([0.05, 0.4, 0.45, 0.9])
    mean = np.zeros(len(STAKES))
    for outcome in itertools.product((0, 1), repeat=len(probs)):
        chance = np.prod(np.where(outcome, probs, 1 - probs))
        mean += chance * np.exp(log_wealth(np.array(4.0), probs.sum(), np.array(float(sum(outcome)))))
    assert mean.max() <= 1 + 1e-12
    assert mean.min() > 0.5  # the loss by Jensen's inequality
    equal = np.full(4, 0.3)
    exact = sum(
        np.prod(np.where(outcome, equal, 1 - equal))
        * np.exp(log_wealth(np.array(4.0), equal.sum(), np.array(float(sum(outcome)))))
        for outcome in itertools.product((0, 1), repeat=4)
    )
    assert exact == pytest.approx(np.ones(len(STAKES)))


@pytest.mark.parametrize("off", [-0.03, 0.0, 0.03])
def test_log_wealth_within_the_tolerance_has_mean_at_most_one(off):
    probs = np.array([0.02, 0.4, 0.99])
    truth = np.clip(probs + off, 0, 1)
    mean = np.zeros(len(STAKES))
    for outcome in itertools.product((0, 1), repeat=3):
        chance = np.prod(np.where(outcome, truth, 1 - truth))
        wealth = log_wealth(np.array(3.0), probs.sum(), np.array(float(sum(outcome))), -0.03, 0.03)
        mean += chance * np.exp(wealth)
    assert mean.max() <= 1 + 1e-12


def test_log_wealth_without_rows_is_zero():
    zero = np.zeros(())
    assert log_wealth(zero, zero, zero).tolist() == [0.0] * len(STAKES)


def test_start_weights_and_cell_weights_sum_to_one():
    for days in (np.arange(400), np.array([0, 3, 90, 5000])):
        weights = start_weights(days)
        assert weights.min() > 0
        assert weights.sum() + 1 / (days[-1] + 2) == pytest.approx(1)
    assert cell_weights(6, 15).sum() == pytest.approx(1)


def test_start_weights_of_a_gap_go_to_the_next_day():
    weights = start_weights(np.array([0, 1, 2, 3]))
    gap = start_weights(np.array([0, 1, 3]))
    assert gap.tolist() == pytest.approx([weights[0], weights[1], weights[2] + weights[3]])


def test_update_wealth_equals_sum_over_starting_days():
    logs = np.random.default_rng(0).normal(size=(5, 2))
    weights = start_weights(np.arange(5))
    wealth = np.full(2, -np.inf)
    for day, weight in zip(logs, weights, strict=True):
        wealth = update_wealth(wealth, day, weight)
    plain = sum(weight * np.exp(logs[start:].sum(0)) for start, weight in enumerate(weights))
    assert np.exp(wealth) == pytest.approx(plain)


def largest_log_e_values(rng, hypothesis, years, days, rows, *, truth=0.0):
    """Largest log e-value of each year of a model that predicts 0.55 or 0.85, off by `truth`."""
    top = np.zeros(years) - np.inf
    wealth = np.full((years, 2, 6, len(STAKES)), -np.inf)
    for day, weight in enumerate(start_weights(np.arange(days))):
        sums = np.zeros((years, 2, 3, 5))
        for predicted, column in ((0.55, 2), (0.85, 4)):
            count = np.full(years, rows)
            events = rng.binomial(rows, predicted + truth, size=years)
            cell = np.stack([count, predicted * count, events], axis=-1)
            sums[:, 0, :, column] += cell  # the top label is class 0 in all rows, so both events are the same
            sums[:, 1, :, column] += cell
        wealth = update_wealth(wealth, hypothesis.log_wealth(sums), weight)
        top = np.maximum(top, log_e_value(wealth, cell_weights(2, 5), 1 / (day + 2)))
    return top


def test_false_alarm_rate_of_a_calibrated_model():
    rng = np.random.default_rng(1)
    exact = largest_log_e_values(rng, Hypothesis.calibrated(2, 5, tolerance=0.0), 300, 60, 40)
    assert 0 < (exact >= np.log(20)).mean() <= 0.05
    edge = largest_log_e_values(rng, Hypothesis.calibrated(2, 5, tolerance=0.02), 300, 60, 40, truth=-0.02)
    assert (edge >= np.log(20)).mean() <= 0.05
    beyond = largest_log_e_values(rng, Hypothesis.calibrated(2, 5, tolerance=0.02), 50, 60, 40, truth=-0.1)
    assert (beyond >= np.log(20)).mean() > 0.95


def test_false_alarm_rate_with_a_reference():
    rng = np.random.default_rng(2)
    years, rows, off = 200, 1500, -0.1
    sums = np.zeros((years, 2, 3, 5))
    for predicted, column in ((0.55, 2), (0.85, 4)):
        events = rng.binomial(rows, predicted + off, size=years)
        cell = np.stack([np.full(years, rows), np.full(years, predicted * rows), events], axis=-1)
        sums[:, :, :, column] = cell[:, None]
    hypothesis = Hypothesis.from_reference(sums, tolerance=0.0, alpha=0.01)
    same = largest_log_e_values(rng, hypothesis, years, 60, 40, truth=off)
    assert (same >= np.log(25)).mean() <= 0.05
    other = largest_log_e_values(rng, hypothesis, years, 60, 40, truth=0.0)
    assert (other >= np.log(25)).mean() > 0.9


def test_hypothesis_of_empty_reference_bins_has_no_wealth():
    empty = Hypothesis.from_reference(np.zeros((2, 3, 4)), tolerance=0.0, alpha=0.01)
    sums = np.zeros((2, 3, 4)) + np.array([50.0, 45.0, 0.0])[:, None]
    assert empty.log_wealth(sums).max() <= 1e-9


def test_gap_interval_covers_the_gap_at_all_checks():
    rng = np.random.default_rng(3)
    predicted, gap, sequences, checks = 0.7, -0.05, 200, 40
    events = rng.binomial(10, predicted + gap, size=(sequences, checks)).cumsum(1).astype(float)
    count = np.broadcast_to(10.0 * np.arange(1, checks + 1), events.shape)
    low, high = gap_interval(count, predicted * count, events, 0.1)
    missed = ((low > gap) | (high < gap)).any(axis=1).mean()
    assert missed <= 0.1
    assert (high - low)[:, -1].mean() < 0.2
    assert (low[:, -1] > -predicted).all()


def test_cell_sums_of_a_tally():
    tally = Tally(3, n_bins=4)
    tally.update([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]], [0, 1])
    sums = cell_sums(tally)
    assert sums.shape == (3, 3, 4)
    assert sums[0].sum(-1).tolist() == pytest.approx([2, 1.2, 1])
    assert sums[1].sum(-1).tolist() == pytest.approx([2, 0.7, 1])  # event: the grade is at most 0
