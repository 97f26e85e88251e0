"""Calibrators fitted on few rows stay close to the uncalibrated model."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from orcu import calibrators, geometry
from orcu.calibrators.temperature import inverse_temperature_prior

spec = importlib.util.spec_from_file_location("few_rows", Path(__file__).parents[2] / "benchmarks" / "few_rows.py")
few_rows = importlib.util.module_from_spec(spec)
spec.loader.exec_module(few_rows)

pytestmark = pytest.mark.filterwarnings("ignore::orcu.calibrators.CalibrationWarning")


@pytest.mark.slow
@pytest.mark.parametrize("rows", few_rows.ROWS)
@pytest.mark.parametrize("method", few_rows.METHODS)
def test_calibrator_fitted_on_few_rows_loses_at_most_a_tenth_of_a_nat(method, rows):
    over, tiny = few_rows.excess(method, "normal", rows, fits=1000)
    assert np.quantile(over, 0.99) < 0.1
    assert tiny == 0


@pytest.mark.parametrize("kind", ["sharp latent", "normal x 2.5"])
@pytest.mark.parametrize("method", [*few_rows.METHODS, "gap+projection"])
def test_calibrator_fitted_on_ten_rows_loses_little(method, kind):  # gap scaling of 0.1.0 gave p = 1e-59
    over, tiny = few_rows.excess(method, kind, 10, fits=60)
    assert over.max() < 0.2
    assert tiny == 0


@pytest.mark.parametrize("method", few_rows.METHODS)
def test_predictions_include_a_uniform_share(method):
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=80)
    logits = 8.0 * np.eye(4)[y] + rng.normal(size=(80, 4))
    fitted = calibrators.create(method).fit(logits, y)
    extreme = fitted.predict_proba([[0.0, 50.0, 800.0, -1e4]])
    assert extreme.min() >= 1 / (2 * 4 * (80 + 4)) * (1 - 1e-9)
    assert extreme.sum() == pytest.approx(1)
    assert geometry.probs(fitted.predict_logits([[0.0, 50.0, 800.0, -1e4]])) == pytest.approx(extreme)


@pytest.mark.parametrize(
    "options",
    [
        {"name": "temperature", "search": "grid"},
        {"name": "temperature", "shrinkage": 0},
        {"name": "vector", "shrinkage": 0},
        {"name": "dirichlet", "select": "fit"},
        {"name": "dirichlet", "off_diagonal": 0.1, "bias": 0.1},
        {"name": "dirichlet_paper", "epochs": 1},
    ],
)
def test_published_procedures_have_no_uniform_share(options):
    z, y = few_rows.world("normal", 3, 100, np.random.default_rng(0))
    fitted = calibrators.create(options).fit(z, y)
    assert fitted.uniform_share_ == 0
    assert fitted.predict_proba(z) == pytest.approx(geometry.probs(fitted._transform(z)), abs=0)


def test_temperature_shrinkage_decreases_with_the_number_of_rows():
    z, y = few_rows.world("latent x 3", 5, 2000, np.random.default_rng(0))
    plain = calibrators.create("temperature", shrinkage=0).fit(z, y).temperature_
    distance = [
        abs(np.log(calibrators.create("temperature").fit(z[:n], y[:n]).temperature_ / plain)) for n in (5, 2000)
    ]
    assert distance[1] < 0.005
    assert distance[1] < distance[0]


def test_inverse_temperature_prior_derivatives_equal_finite_differences():
    for log_scale in (-2.0, -0.1, 0.05, 1.5):
        value, gradient, hessian = inverse_temperature_prior(log_scale)
        up, down = inverse_temperature_prior(log_scale + 1e-6), inverse_temperature_prior(log_scale - 1e-6)
        assert value > 0
        assert gradient == pytest.approx((up[0] - down[0]) / 2e-6, rel=1e-6)
        assert hessian == pytest.approx((up[1] - down[1]) / 2e-6, rel=1e-6)


def test_invalid_shrinkage_is_refused():
    for wrong in (-0.1, float("nan"), "strong", True):
        with pytest.raises(ValueError, match="^shrinkage:"):
            calibrators.create("gap", shrinkage=wrong).fit([[0.0, 2.0]] * 3, [0, 1, 1])
