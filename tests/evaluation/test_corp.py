"""CORP of an evaluation: exact parts, intervals, references, bands and the report."""

import numpy as np
import pytest

from orcu import evaluate, metrics
from orcu.errors import UnknownNameError
from orcu.evaluation.corp import PARTS, corp
from orcu.figures.panels import calibration_curve
from orcu.metrics.rows import Rows


def sample(rows, factor=1.0, seed=0, num_classes=4):
    """Probabilities whose logits are the true ones times a factor, and labels."""
    rng = np.random.default_rng(seed)
    z = -((np.arange(num_classes) - rng.uniform(-0.5, num_classes - 0.5, size=(rows, 1))) ** 2)
    truth = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    y = (rng.random((rows, 1)) > truth.cumsum(1)[:, :-1]).sum(1)
    probs = truth**factor
    return probs / probs.sum(1, keepdims=True), y


def test_evaluate_corp_parts_add_up_to_the_rps_and_equal_the_function():
    probs, y = sample(300, 2)
    weight = np.random.default_rng(1).uniform(0.5, 2, size=300)
    for w in (None, weight):
        evaluation = evaluate(probs=probs, y=y, sample_weight=w, n_resamples=50)
        mcb, dsc, unc = (evaluation.corp[name].value for name in PARTS)
        assert mcb - dsc + unc == pytest.approx(evaluation["rps"].value, abs=1e-12)
        parts = metrics.corp_decomposition(probs, y, sample_weight=w)
        for name in PARTS:
            assert [r[name].value for r in evaluation.per_threshold] == pytest.approx(getattr(parts, name))
        smooth = [r["smooth_ece"].value for r in evaluation.per_threshold]
        assert smooth == pytest.approx(metrics.smooth_ece(probs, y, sample_weight=w), abs=1e-9)


def test_evaluate_corp_calibrated_model_is_within_its_reference_and_over_confident_model_is_not():
    (calm, y), (sharp, _) = sample(600), sample(600, 3)
    good, bad = (evaluate(probs=probs, y=y, n_resamples=100) for probs in (calm, sharp))
    assert good.corp["miscalibration"].value <= good.corp["miscalibration"].limit
    assert good.corp["miscalibration"].low == 0
    assert bad.corp["miscalibration"].low > 0
    assert bad.corp["miscalibration"].p_value < 0.001
    # isotonic recalibration undoes a monotone distortion
    assert bad.corp["discrimination"].value == pytest.approx(good.corp["discrimination"].value, abs=0.01)
    for curve, outside in ((good.calibration_curves[0], False), (bad.calibration_curves[0], True)):
        observed = np.interp(curve.band_pred, curve.prob_pred, curve.prob_true)
        beyond = np.mean((observed < curve.band_low) | (observed > curve.band_high))
        assert (beyond > 0.2) == outside


def test_corp_bands_contain_the_curves_of_calibrated_models():
    inside = []
    for seed in range(12):
        probs, y = sample(200, seed=seed, num_classes=2)
        curve = corp(
            Rows(probs, y), np.arange(200), 200, clustered=False, n_resamples=0, factor=1.0, random_state=0
        ).curves[0]
        observed = np.interp(curve.band_pred, curve.prob_pred, curve.prob_true)
        inside.append(np.mean((observed >= curve.band_low) & (observed <= curve.band_high)))
    assert np.mean(inside) > 0.85  # 95 % at each point


def test_evaluate_corp_repeated_rows_in_clusters_have_the_reference_of_the_single_rows():
    probs, y = sample(150, seed=3)
    single = evaluate(probs=probs, y=y, n_resamples=50).corp["miscalibration"]
    many = evaluate(
        probs=np.repeat(probs, 4, axis=0), y=np.repeat(y, 4), cluster=np.repeat(np.arange(150), 4), n_resamples=50
    ).corp["miscalibration"]
    ignored = evaluate(probs=np.repeat(probs, 4, axis=0), y=np.repeat(y, 4), n_resamples=50).corp["miscalibration"]
    assert many.value == pytest.approx(single.value)
    assert many.limit == pytest.approx(single.limit, rel=0.35)
    assert ignored.limit < 0.6 * single.limit


def test_evaluate_corp_is_in_json_and_report_and_has_no_intervals_without_resamples():
    probs, y = sample(120)
    evaluation = evaluate(probs=probs, y=y, classes=list("abcd"), n_resamples=0)
    assert evaluation.to_dict()["corp"]["miscalibration"]["low"] is None
    assert evaluation.to_dict()["corp"]["miscalibration"]["calibrated_95"] > 0
    assert "smooth_ece" in evaluation.to_dict()["per_threshold"][0]
    page = evaluation.to_html()
    assert "Calibration curve: b or above" in page
    assert "within the bins" not in page


def test_calibration_curve_plot_unknown_event_lists_the_events():
    probs, y = sample(60)
    evaluation = evaluate(probs=probs, y=y, n_resamples=0)
    with pytest.raises(UnknownNameError, match="1 or above"):
        calibration_curve.plot(evaluation, event="7 or above")
    assert calibration_curve.plot(evaluation, event="2 or above").get_xlabel() == "P(2 or above)"
