"""Tests of decision metrics and scores against scikit-learn, dlordinal and loops."""

import math

import numpy as np
import pytest
from dlordinal.metrics import amae, ranked_probability_score
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    cohen_kappa_score,
    log_loss,
    mean_absolute_error,
    roc_auc_score,
)

from orcu import evaluate, metrics
from orcu.errors import InputError
from orcu.metrics.referral import referral_curve
from orcu.metrics.rows import Rows
from orcu.metrics.thresholds import auc, calibration_line, threshold_fit

LABEL_METRICS = [
    metrics.accuracy,
    metrics.balanced_accuracy,
    metrics.off_by_one_accuracy,
    metrics.mae,
    metrics.macro_mae,
    metrics.qwk,
]
SCORES = [
    metrics.ece,
    metrics.sce,
    metrics.threshold_ce,
    metrics.mce,
    metrics.rps,
    metrics.brier,
    metrics.nll,
    metrics.overconfidence,
    *LABEL_METRICS,
]


def sample(rows=400, num_classes=5, seed=0):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(num_classes, 0.7), size=rows)
    y = (rng.random(rows)[:, None] > np.cumsum(probs, 1)[:, :-1]).sum(1)
    return probs, y, rng


def test_metrics_equal_scikit_learn_and_dlordinal():
    probs, y, rng = sample()
    weight = rng.random(len(y))
    pred = probs.argmax(1)
    for w in (None, weight):
        close = pytest.approx
        assert metrics.accuracy(probs, y, sample_weight=w) == close(accuracy_score(y, pred, sample_weight=w))
        assert metrics.balanced_accuracy(probs, y, sample_weight=w) == close(
            balanced_accuracy_score(y, pred, sample_weight=w)
        )
        assert metrics.mae(probs, y, sample_weight=w) == close(mean_absolute_error(y, pred, sample_weight=w))
        assert metrics.qwk(probs, y, sample_weight=w) == close(
            cohen_kappa_score(y, pred, weights="quadratic", sample_weight=w)
        )
        assert metrics.off_by_one_accuracy(probs, y, sample_weight=w) == close(
            np.average(np.abs(pred - y) <= 1, weights=w)
        )
        assert metrics.nll(probs, y, sample_weight=w) == close(log_loss(y, probs, sample_weight=w))
        onehot = np.eye(5)[y]
        assert metrics.brier(probs, y, sample_weight=w) == close(np.average(((probs - onehot) ** 2).sum(1), weights=w))
        assert metrics.overconfidence(probs, y, sample_weight=w) == close(
            np.average(probs.max(1) - (pred == y), weights=w)
        )
    assert metrics.macro_mae(probs, y) == pytest.approx(amae(y, pred))
    assert metrics.rps(probs, y) == pytest.approx(ranked_probability_score(y, probs))
    assert metrics.rps(probs, y, normalized=True) == pytest.approx(metrics.rps(probs, y) / 4)


@pytest.mark.parametrize("metric", LABEL_METRICS)
def test_decision_metrics_of_pred_equal_those_of_probs(metric):
    probs, y, _ = sample()
    assert metric(y=y, pred=probs.argmax(1)) == metric(probs, y)
    with pytest.raises(InputError, match="^probs, pred:"):
        metric(probs, y, pred=probs.argmax(1))
    with pytest.raises(InputError, match="^probs, pred:"):
        metric(y=y)
    with pytest.raises(InputError, match="^pred: row 1 .*-1"):
        metric(y=[0, 1], pred=[0, -1])


def test_off_by_one_accuracy_counts_both_sides():  # skordinal counted only one side once
    assert metrics.off_by_one_accuracy(y=[1, 1, 1, 1], pred=[0, 2, 1, 3]) == 0.75


def test_class_averages_omit_absent_classes():
    assert metrics.balanced_accuracy(y=[0, 0, 4], pred=[0, 1, 4]) == pytest.approx(0.75)
    assert metrics.macro_mae(y=[0, 0, 4], pred=[0, 1, 4]) == pytest.approx(0.25)


@pytest.mark.parametrize("metric", SCORES)
def test_metrics_sample_weight_of_two_equals_a_row_twice(metric):
    probs, y, rng = sample(60)
    weight = rng.integers(0, 4, size=len(y)).astype(float)
    repeated = np.repeat(np.arange(len(y)), weight.astype(int))
    assert metric(probs, y, sample_weight=weight) == pytest.approx(metric(probs[repeated], y[repeated]))


def test_label_free_metrics_sample_weight_equals_repeated_rows():
    probs, y, rng = sample(60)
    weight = rng.integers(0, 4, size=len(y)).astype(float)
    repeated = np.repeat(np.arange(len(y)), weight.astype(int))
    for metric in (metrics.unimodality, metrics.sharpness):
        assert metric(probs, sample_weight=weight) == pytest.approx(metric(probs[repeated]))
    assert metrics.ace(probs, y, sample_weight=np.full(60, 3.0)) == pytest.approx(metrics.ace(probs, y))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0, -1.0], "^sample_weight: row 1 .*-1"),
        ([1.0, np.nan], "^sample_weight: row 1 .*nan"),
        ([1.0, np.inf], "^sample_weight: row 1 .*inf"),
        ([0.0, 0.0], "^sample_weight: "),
        ([1.0], r"^sample_weight: .*\(2,\).*\(1,\)"),
        (["a", "b"], "^sample_weight: .*numbers"),
    ],
)
def test_ece_invalid_sample_weight_raises(weight, message):
    with pytest.raises(InputError, match=message):
        metrics.ece([[0.5, 0.5], [0.2, 0.8]], [0, 1], sample_weight=weight)


def test_nll_impossible_label_is_infinite_and_logits_do_not_underflow():
    assert metrics.nll([[1.0, 0.0]], [1]) == math.inf
    assert metrics.nll([[1.0, 0.0], [0.5, 0.5]], [1, 0], sample_weight=[0, 1]) == pytest.approx(math.log(2))
    assert metrics.nll(logits=[[0.0, 1e4]], y=[0]) == pytest.approx(1e4)


def test_qwk_of_one_class_is_nan():
    assert math.isnan(metrics.qwk(y=[1, 1], pred=[1, 1]))


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(1, 40))
@settings(deadline=None, max_examples=50)
def test_rps_decomposition_parts_add_up(seed, num_classes, rows):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(num_classes), size=rows)
    y = rng.integers(num_classes, size=rows)
    parts = metrics.rps_decomposition(probs, y)
    total = parts.reliability - parts.resolution + parts.uncertainty + parts.within_bins
    assert total == pytest.approx(metrics.rps(probs, y), abs=1e-12)
    frequency = np.bincount(y, minlength=num_classes) / rows
    climate = metrics.rps_decomposition(np.repeat(frequency[None], rows, axis=0), y)
    assert climate.reliability == pytest.approx(0, abs=1e-12)
    assert climate.resolution == pytest.approx(0, abs=1e-12)
    assert climate.uncertainty == pytest.approx(parts.uncertainty)


def test_sharpness_is_the_expected_rps():
    probs, _, rng = sample(2)
    draws = np.array([rng.choice(5, p=probs[0] / probs[0].sum(), size=40_000)]).ravel()
    simulated = metrics.rps(np.repeat(probs[:1], len(draws), axis=0), draws)
    assert metrics.sharpness(probs[:1]) == pytest.approx(simulated, rel=0.02)


def test_auc_equals_scikit_learn():
    probs, y, rng = sample()
    probs = (probs * 10).round()  # ties
    probs /= probs.sum(1, keepdims=True)
    weight = rng.random(len(y))
    for w in (None, weight):
        expected = [roc_auc_score(y > k, -np.cumsum(probs, 1)[:, k].round(12), sample_weight=w) for k in range(4)]
        assert auc(probs, y, sample_weight=w) == pytest.approx(expected, abs=1e-9)
    assert math.isnan(auc(probs, np.zeros(len(y), dtype=int))[0])


def test_calibration_line_equals_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    probs, y, rng = sample(1500)
    weight = rng.random(len(y))
    for w in (None, weight):
        line = calibration_line(probs, y, sample_weight=w)
        for k in range(4):
            below = probs[:, : k + 1].sum(1)
            odds = (np.log(1 - below) - np.log(below))[:, None]
            fit = LogisticRegression(C=np.inf, tol=1e-10).fit(odds, y > k, sample_weight=w)
            assert line[k, 1] == pytest.approx(float(fit.coef_[0, 0]), abs=1e-5)
            # the intercept with slope 1 equates mean prediction and observed rate
            shifted = 1 / (1 + np.exp(-(odds[:, 0] + line[k, 0])))
            assert np.average(shifted, weights=w) == pytest.approx(np.average(y > k, weights=w))


def test_calibration_line_that_cannot_be_fitted_is_nan():
    line = calibration_line([[0.8, 0.2], [0.7, 0.3], [0.4, 0.6]], [0, 0, 1])
    assert math.isfinite(line[0, 0])
    assert math.isnan(line[0, 1])  # separated: the slope is unbounded
    assert np.isnan(calibration_line([[0.8, 0.2], [0.4, 0.6]], [0, 0])).all()
    certain = calibration_line([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.5, 0.5]], [0, 1, 1, 0])
    assert np.isfinite(certain).all()  # log-odds of 0 and 1 are floored


@pytest.mark.parametrize("scale", [30.0, 200.0, 1000.0, 20_000.0])
def test_calibration_line_of_extreme_log_odds_is_finite(scale):
    rng = np.random.default_rng(0)
    odds = rng.normal(size=50)
    event = rng.random(50) < 1 / (1 + np.exp(-1.5 * odds - 0.3))
    logits = np.column_stack([np.zeros(50), scale * odds])
    with np.errstate(all="raise", under="ignore"):
        fit = threshold_fit(Rows.from_logits(logits, event.astype(np.int64)), 0)
    mean = ((1 + np.tanh((scale * odds + fit.intercept) / 2)) / 2).mean()
    assert mean == pytest.approx(event.mean())
    unit = threshold_fit(Rows.from_logits(logits / scale, event.astype(np.int64)), 0)
    assert fit.slope * scale == pytest.approx(unit.slope)
    record = evaluate(logits=logits, y=event.astype(np.int64), n_resamples=50).per_threshold[0]
    assert (record["intercept"].value, record["slope"].value) == (fit.intercept, fit.slope)
    assert record["slope"].low < fit.slope < record["slope"].high
    separated = threshold_fit(Rows.from_logits(logits, (odds > 0).astype(np.int64)), 0)
    assert math.isfinite(separated.intercept)
    assert math.isnan(separated.slope)


def test_referral_curve_by_uncertainty():
    rng = np.random.default_rng(3)
    probs, y = rng.dirichlet(np.ones(3), size=400), rng.integers(3, size=400)
    wrong = (probs.argmax(1) != y).astype(float)
    perfect, worst = (referral_curve(probs, y, uncertainty=sign * wrong) for sign in (1, -1))
    assert perfect.by == "uncertainty"
    share = wrong.mean()
    assert perfect.error[perfect.referred > share].max() == pytest.approx(0)  # all wrong rows are referred
    assert worst.error[-1] == pytest.approx(1)
    alike = referral_curve(probs, y, uncertainty=1 - probs.max(1))
    assert alike.error == pytest.approx(referral_curve(probs, y).error)
    for invalid, message in (
        ([0.1], "^uncertainty: .*400"),
        ([np.nan] * 400, "^uncertainty: row 0 .*nan"),
        (["a"] * 400, "^uncertainty:"),
    ):
        with pytest.raises(InputError, match=message):
            referral_curve(probs, y, uncertainty=invalid)


def test_referral_curve_equals_a_loop_and_ignores_the_order_of_ties():
    probs, y, rng = sample(400)
    probs = (probs * 6).round()
    probs /= probs.sum(1, keepdims=True)
    curve = referral_curve(probs, y)
    order = rng.permutation(len(y))
    again = referral_curve(probs[order], y[order])
    assert again.error == pytest.approx(curve.error)
    assert again.error_area == pytest.approx(curve.error_area)
    assert curve.error[0] == pytest.approx(1 - metrics.accuracy(probs, y))
    assert curve.mae[0] == pytest.approx(metrics.mae(probs, y))
    distinct = sample(400, seed=5)[0]
    curve = referral_curve(distinct, y)
    by_confidence = np.argsort(-distinct.max(1))
    wrong = (distinct.argmax(1) != y)[by_confidence]
    assert curve.error[10] == pytest.approx(wrong[:200].mean())
    assert curve.error_area == pytest.approx(np.mean(np.cumsum(wrong) / np.arange(1, 401)), abs=2e-3)


def test_referral_curve_of_constant_confidence_has_the_overall_error_as_area():
    probs = np.repeat([[0.6, 0.4]], 10, axis=0)
    curve = referral_curve(probs, [0] * 7 + [1] * 3)
    assert curve.error_area == pytest.approx(0.3)
    assert curve.error == pytest.approx(np.full(20, 0.3))
