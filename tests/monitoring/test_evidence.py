"""The bets: their capital is that of a martingale or less, whatever the order of rows, looks and labels."""

import itertools

import numpy as np
import pytest

from orcu import Tally
from orcu.monitoring.evidence import (
    STAKES,
    Hypothesis,
    cell_weights,
    enter,
    gap_interval,
    log_capital,
    log_evidence,
    start_weights,
    tables,
)


def test_the_mean_capital_over_all_outcomes_is_at_most_one():
    probs = np.array([0.05, 0.4, 0.45, 0.9])
    mean = np.zeros(len(STAKES))
    for outcome in itertools.product((0, 1), repeat=len(probs)):
        chance = np.prod(np.where(outcome, probs, 1 - probs))
        mean += chance * np.exp(log_capital(np.array(4.0), probs.sum(), np.array(float(sum(outcome)))))
    assert mean.max() <= 1 + 1e-12
    assert mean.min() > 0.5  # what Jensen's inequality costs
    alike = np.full(4, 0.3)
    exact = sum(
        np.prod(np.where(outcome, alike, 1 - alike))
        * np.exp(log_capital(np.array(4.0), alike.sum(), np.array(float(sum(outcome)))))
        for outcome in itertools.product((0, 1), repeat=4)
    )
    assert exact == pytest.approx(np.ones(len(STAKES)))


@pytest.mark.parametrize("off", [-0.03, 0.0, 0.03])
def test_within_the_tolerance_the_mean_capital_is_at_most_one(off):
    probs = np.array([0.02, 0.4, 0.99])
    truth = np.clip(probs + off, 0, 1)
    mean = np.zeros(len(STAKES))
    for outcome in itertools.product((0, 1), repeat=3):
        chance = np.prod(np.where(outcome, truth, 1 - truth))
        capital = log_capital(np.array(3.0), probs.sum(), np.array(float(sum(outcome))), -0.03, 0.03)
        mean += chance * np.exp(capital)
    assert mean.max() <= 1 + 1e-12


def test_no_rows_move_no_capital():
    zero = np.zeros(())
    assert log_capital(zero, zero, zero).tolist() == [0.0] * len(STAKES)


def test_shares_of_days_and_cells_sum_to_one():
    for days in (np.arange(400), np.array([0, 3, 90, 5000])):
        weights = start_weights(days)
        assert weights.min() > 0
        assert weights.sum() + 1 / (days[-1] + 2) == pytest.approx(1)
    assert cell_weights(6, 15).sum() == pytest.approx(1)


def test_a_day_that_comes_later_leaves_the_shares_of_the_others():
    # the bets that wait for a day without rows begin at the next one, and at that day once it has rows
    weights = start_weights(np.array([0, 1, 2, 3]))
    gap = start_weights(np.array([0, 1, 3]))
    assert gap.tolist() == pytest.approx([weights[0], weights[1], weights[2] + weights[3]])


def test_the_recursion_is_the_sum_over_starts():
    logs = np.random.default_rng(0).normal(size=(5, 2))
    weights = start_weights(np.arange(5))
    wealth = np.full(2, -np.inf)
    for day, weight in zip(logs, weights, strict=True):
        wealth = enter(wealth, day, weight)
    plain = sum(weight * np.exp(logs[start:].sum(0)) for start, weight in enumerate(weights))
    assert np.exp(wealth) == pytest.approx(plain)


def calibrated_years(rng, hypothesis, years, days, rows, *, truth=0.0):
    """The largest evidence of each year of a model that says 0.6 or 0.8 of two classes, off by `truth`."""
    top = np.zeros(years) - np.inf
    wealth = np.full((years, 2, 6, len(STAKES)), -np.inf)
    for day, weight in enumerate(start_weights(np.arange(days))):
        sums = np.zeros((years, 2, 3, 5))
        for said, place in ((0.55, 2), (0.85, 4)):
            count = np.full(years, rows)
            true = rng.binomial(rows, said + truth, size=years)
            cell = np.stack([count, said * count, true], axis=-1)
            sums[:, 0, :, place] += cell  # the top label is class 0 in all rows, so its event is that of the threshold
            sums[:, 1, :, place] += cell
        wealth = enter(wealth, hypothesis.log_capital(sums), weight)
        top = np.maximum(top, log_evidence(wealth, cell_weights(2, 5), 1 / (day + 2)))
    return top


def test_few_years_of_a_calibrated_model_have_an_alarm():
    rng = np.random.default_rng(1)
    exact = calibrated_years(rng, Hypothesis.trustworthy(2, 5, tolerance=0.0), 300, 60, 40)
    assert 0 < (exact >= np.log(20)).mean() <= 0.05
    edge = calibrated_years(rng, Hypothesis.trustworthy(2, 5, tolerance=0.02), 300, 60, 40, truth=-0.02)
    assert (edge >= np.log(20)).mean() <= 0.05
    beyond = calibrated_years(rng, Hypothesis.trustworthy(2, 5, tolerance=0.02), 50, 60, 40, truth=-0.1)
    assert (beyond >= np.log(20)).mean() > 0.95


def test_few_years_like_their_reference_have_an_alarm():
    rng = np.random.default_rng(2)
    years, rows, off = 200, 1500, -0.1
    sums = np.zeros((years, 2, 3, 5))
    for said, place in ((0.55, 2), (0.85, 4)):
        true = rng.binomial(rows, said + off, size=years)
        cell = np.stack([np.full(years, rows), np.full(years, said * rows), true], axis=-1)
        sums[:, :, :, place] = cell[:, None]
    hypothesis = Hypothesis.as_in(sums, tolerance=0.0, miss=0.01)
    same = calibrated_years(rng, hypothesis, years, 60, 40, truth=off)
    assert (same >= np.log(25)).mean() <= 0.05
    other = calibrated_years(rng, hypothesis, years, 60, 40, truth=0.0)
    assert (other >= np.log(25)).mean() > 0.9


def test_a_bin_without_reference_gives_no_evidence():
    empty = Hypothesis.as_in(np.zeros((2, 3, 4)), tolerance=0.0, miss=0.01)
    sums = np.zeros((2, 3, 4)) + np.array([50.0, 45.0, 0.0])[:, None]
    assert empty.log_capital(sums).max() <= 1e-9


def test_the_interval_holds_the_gap_at_all_looks_of_most_sequences():
    rng = np.random.default_rng(3)
    said, gap, sequences, looks = 0.7, -0.05, 200, 40
    true = rng.binomial(10, said + gap, size=(sequences, looks)).cumsum(1).astype(float)
    count = np.broadcast_to(10.0 * np.arange(1, looks + 1), true.shape)
    low, high = gap_interval(count, said * count, true, 0.1)
    missed = ((low > gap) | (high < gap)).any(axis=1).mean()
    assert missed <= 0.1
    assert (high - low)[:, -1].mean() < 0.2
    assert (low[:, -1] > -said).all()


def test_the_tables_are_those_of_the_tally():
    tally = Tally(3, bins=4)
    tally.update([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]], [0, 1])
    sums = tables(tally)
    assert sums.shape == (3, 3, 4)
    assert sums[0].sum(-1).tolist() == pytest.approx([2, 1.2, 1])
    assert sums[1].sum(-1).tolist() == pytest.approx([2, 0.7, 1])  # P(at most 0), and how often it was
