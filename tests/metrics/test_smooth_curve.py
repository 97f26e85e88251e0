"""Smooth calibration curve and ECI against statsmodels and a spline written out, and their intervals."""

import numpy as np
import pytest

from orcu import evaluate, metrics
from orcu.errors import UnknownNameError
from orcu.evaluation.smooth_curves import smooth_calibration
from orcu.figures.panels import calibration_curve
from orcu.metrics.rows import checked_rows
from orcu.metrics.smooth_curve import smooth_fit, spline_basis


def sample(rows=400, factor=2.0, seed=0, num_classes=3):
    rng = np.random.default_rng(seed)
    z = -((np.arange(num_classes) - rng.uniform(-0.5, num_classes - 0.5, size=(rows, 1))) ** 2)
    truth, probs = (np.exp(part) / np.exp(part).sum(1, keepdims=True) for part in (z, factor * z))
    return probs, (rng.random((rows, 1)) > truth.cumsum(1)[:, :-1]).sum(1)


def harrell(x, knots):
    """Restricted cubic spline, written as in Harrell (2015), eq. 2.25."""
    positive = lambda u: np.where(u > 0, u, 0.0) ** 3  # noqa: E731
    span, columns = (knots[-1] - knots[0]) ** 2, [np.ones_like(x), x]
    for j in range(len(knots) - 2):
        left = positive(x - knots[-2]) * (knots[-1] - knots[j]) / (knots[-1] - knots[-2])
        right = positive(x - knots[-1]) * (knots[-2] - knots[j]) / (knots[-1] - knots[-2])
        columns.append((positive(x - knots[j]) - left + right) / span)
    return np.stack(columns, axis=1)


def test_eci_equals_statsmodels_and_the_influence_gives_the_sandwich_covariance():
    statsmodels = pytest.importorskip("statsmodels.api")
    probs, y = sample(factor=0.7)
    rows, values = checked_rows(probs, y), metrics.eci(probs, y)
    for k in range(2):
        prob = probs[:, k + 1 :].sum(axis=1)
        odds, fit = np.log(prob / (1 - prob)), smooth_fit(rows, k)
        assert fit.knots == pytest.approx(np.quantile(odds, [0.05, 0.275, 0.5, 0.725, 0.95]), abs=0.1)
        family = statsmodels.families.Binomial()
        basis = harrell(odds, fit.knots)
        peer = statsmodels.GLM((y > k).astype(float), basis, family=family).fit(tol=1e-14, maxiter=300)
        assert values[k] == pytest.approx(100 * np.mean((peer.predict() - prob) ** 2), rel=1e-6)
        mean = peer.predict()
        bread = np.linalg.inv(basis.T @ ((mean * (1 - mean))[:, None] * basis))
        sandwich = bread @ (basis.T @ (((y > k) - mean)[:, None] ** 2 * basis)) @ bread
        covariance = fit.influence @ fit.influence.T / len(y) ** 2
        assert covariance == pytest.approx(sandwich, rel=1e-3)


def test_spline_is_linear_beyond_the_outer_knots():
    basis = spline_basis(np.array([-9.0, -8.0, -7.0, 7.0, 8.0, 9.0]), np.array([-3.0, -1.0, 0.0, 2.0]))
    assert np.diff(basis[:3], 2, axis=0) == pytest.approx(0, abs=1e-9)
    assert np.diff(basis[3:], 2, axis=0) == pytest.approx(0, abs=1e-9)


def test_eci_weights_equal_repeated_rows():
    probs, y = sample()
    counts = np.random.default_rng(1).integers(1, 4, size=len(y))
    weighted = metrics.eci(probs, y, sample_weight=counts)
    assert weighted == pytest.approx(metrics.eci(np.repeat(probs, counts, axis=0), np.repeat(y, counts)), rel=1e-6)


def test_eci_with_few_distinct_probabilities_uses_a_line_and_constants_are_undefined():
    probs = np.array([[0.2, 0.8], [0.7, 0.3]] * 40)
    y = np.array([1, 0, 0, 0, 1, 1, 1, 0] * 10)  # half and a quarter have the event
    rate = np.array([y[::2].mean(), y[1::2].mean()])
    assert metrics.eci(probs, y)[0] == pytest.approx(100 * np.mean((rate - [0.8, 0.3]) ** 2))
    assert np.isnan(metrics.eci(np.array([[0.4, 0.6]] * 8), [0, 1] * 4)).all()
    separated = np.linspace(0.01, 0.99, 100)
    assert np.isnan(metrics.eci(np.stack([1 - separated, separated], 1), (separated > 0.5).astype(int))).all()


def test_smooth_curves_of_a_calibrated_model_are_within_the_reference_and_of_an_overconfident_one_not():
    for factor, is_off in ((1.0, False), (3.0, True)):
        probs, y = sample(2_000, factor)
        evaluation = evaluate(probs=probs, y=y, n_resamples=200)
        for curve, record in zip(evaluation.smooth_curves, evaluation.per_threshold, strict=True):
            index = record["eci"]
            assert (index.value > index.limit) == is_off
            assert (index.low > 0) == is_off
            middle = slice(15, -15)
            inside = (curve.low <= curve.prob_pred) & (curve.prob_pred <= curve.high)
            assert inside[middle].mean() > 0.8 if not is_off else inside[middle].mean() < 0.8


def test_smooth_curve_bands_are_wider_for_clusters_of_equal_rows():
    probs, y = sample(300)
    rows = checked_rows(np.repeat(probs, 4, axis=0), np.repeat(y, 4))
    options = {"n_resamples": 300, "factor": 1.0, "random_state": 0}
    alone = smooth_calibration(rows, np.arange(1200), 1200, **options)
    together = smooth_calibration(rows, np.repeat(np.arange(300), 4), 300, **options)
    width = [np.mean(result.curves[0].high - result.curves[0].low) for result in (alone, together)]
    assert width[1] == pytest.approx(2 * width[0], rel=0.25)
    assert together.eci[0].expected == pytest.approx(4 * alone.eci[0].expected, rel=0.3)


def test_calibration_curve_plots_both_kinds_and_refuses_others():
    probs, y = sample()
    evaluation = evaluate(probs=probs, y=y, n_resamples=60)
    labels = [
        calibration_curve.plot(evaluation, kind=kind).get_legend_handles_labels()[1] for kind in ("isotonic", "smooth")
    ]
    assert labels == [["95 % band if calibrated", "observed (isotonic)"], ["95 % confidence band", "observed (spline)"]]
    with pytest.raises(UnknownNameError, match="kind of curve"):
        calibration_curve.plot(evaluation, kind="loess")
