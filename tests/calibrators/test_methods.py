"""Each calibrator compared with its definition and with independent solvers."""

import json
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar

from orcu import Predictions, calibrators, geometry, metrics
from orcu.calibrators import (
    CalibrationWarning,
    DirichletCalibration,
    GapScaling,
    OrdinalDirichlet,
    TemperatureScaling,
    UnimodalProjection,
    VectorScaling,
    create,
)
from orcu.calibrators.cross_validation import splits
from orcu.calibrators.gap import _objective
from orcu.calibrators.linear_map import Problem
from orcu.calibrators.projection import nearest_unimodal
from orcu.errors import InputError, UnknownNameError
from orcu.model_selection import stratified_folds


def sample(rows=800, num_classes=4, sharpen=2.0, seed=0):
    rng = np.random.default_rng(seed)
    center = rng.uniform(-0.5, num_classes - 0.5, size=(rows, 1))
    logits = -((np.arange(num_classes) - center) ** 2) + rng.normal(scale=0.5, size=(rows, num_classes))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random(rows)[:, None] > np.cumsum(p, 1)[:, :-1]).sum(1)
    return sharpen * logits, y


def test_temperature_scaling_minimises_the_negative_log_likelihood():
    for seed in range(5):
        z, y = sample(300, sharpen=0.2 + seed, seed=seed)
        fitted = TemperatureScaling(shrinkage=0).fit(z, y)
        optimum = minimize_scalar(
            lambda s, z=z, y=y: metrics.nll(logits=z * np.exp(s), y=y),
            bounds=(-8, 8),
            method="bounded",
            options={"xatol": 1e-10},
        )
        assert fitted.temperature_ == pytest.approx(np.exp(-optimum.x), rel=1e-5)
        assert (fitted.predict_proba(z).argmax(1) == z.argmax(1)).all()


def test_temperature_scaling_of_float32_logits_converges():  # netcal stays at 1
    z, y = sample(1000, sharpen=3.0)
    assert TemperatureScaling().fit(z.astype(np.float32), y).temperature_ > 2


def test_temperature_and_dirichlet_equal_the_reference_optima(loss_vectors, reference_logits):
    z, y = reference_logits
    expected = loss_vectors["metrics_200"]
    fitted = TemperatureScaling(shrinkage=0).fit(z, y)
    assert fitted.temperature_ == pytest.approx(expected["temperature_continuous_nll"], abs=1e-6)
    assert metrics.nll(logits=fitted.predict_logits(z), y=y) == pytest.approx(
        expected["nll_at_T_continuous"], abs=1e-12
    )
    assert TemperatureScaling(search="grid").fit(z, y).temperature_ == expected["temperature_grid_nll"]
    for key, options in {
        "dirichlet_logprob_lambda0.1_mu0.1_normalised": {"off_diagonal": 0.1, "bias": 0.1},
        "dirichlet_logits_lambda0.1_mu0.1_normalised": {"off_diagonal": 0.1, "bias": 0.1, "on": "logits"},
        "dirichlet_logprob_lambda0.01_mu0.01_unnormalised": {"off_diagonal": 0.01, "bias": 0.01, "normalize": False},
    }.items():
        fitted = DirichletCalibration(**options).fit(z, y)
        assert fitted.weight_ == pytest.approx(np.array(expected[key]["W"]), abs=1e-6)
        assert fitted.bias_ == pytest.approx(np.array(expected[key]["b"]), abs=1e-6)
        assert metrics.nll(logits=fitted.predict_logits(z), y=y) == pytest.approx(expected[key]["nll"], abs=1e-8)
        assert metrics.ece(fitted.predict_proba(z), y) == pytest.approx(expected[key]["ece_after"], abs=1e-6)


def test_linear_problem_gradient_and_hessian_equal_finite_differences():
    rng = np.random.default_rng(0)
    n, size = 60, 3
    features = np.concatenate([rng.normal(size=(n, size)), np.ones((n, 1))], axis=1)
    anchor = np.eye(size, size + 1)
    free = rng.random((size, size + 1)) < 0.7
    problem = Problem(features, rng.integers(size, size=n), rng.random(n), anchor, free, rng.random((size, size + 1)))
    point = rng.normal(size=(size, size + 1))
    probs = problem.objective(point)[1]
    gradient, hessian = problem.gradient(point, probs), problem.hessian(probs)
    step = 1e-5
    for i, index in enumerate(np.argwhere(free)):
        up, down = point.copy(), point.copy()
        up[tuple(index)] += step
        down[tuple(index)] -= step
        (loss_up, probs_up), (loss_down, probs_down) = map(problem.objective, (up, down))
        numeric = (loss_up - loss_down) / (2 * step)
        assert gradient[i] == pytest.approx(numeric, abs=1e-7)
        numeric_row = (problem.gradient(up, probs_up) - problem.gradient(down, probs_down)) / (2 * step)
        assert hessian[i] == pytest.approx(numeric_row, abs=1e-6)


def test_vector_scaling_minimises_the_negative_log_likelihood():
    z, y = sample(500)

    def loss(p):
        return metrics.nll(logits=z * p[:4] + p[4:], y=y)

    optimum = minimize(loss, np.r_[np.ones(4), np.zeros(4)], method="BFGS")
    fitted = VectorScaling(shrinkage=0).fit(z, y)
    assert loss(np.r_[np.diag(fitted.weight_), fitted.bias_]) == pytest.approx(optimum.fun, abs=1e-5)
    assert (fitted.weight_[~np.eye(4, dtype=bool)] == 0).all()


def test_dirichlet_select_cv_beats_select_fit_on_new_rows():
    z, y = sample(150, num_classes=5)
    by_cv = DirichletCalibration(select="cv").fit(z, y)
    by_fit = DirichletCalibration(select="fit").fit(z, y)
    assert by_fit.off_diagonal_ == 0
    assert by_fit.bias_penalty_ == 0
    assert by_cv.off_diagonal_ > 0
    new, labels = sample(4000, num_classes=5, seed=9)
    loss_cv, loss_fit = (metrics.nll(logits=c.predict_logits(new), y=labels) for c in (by_cv, by_fit))
    assert loss_cv < loss_fit


def test_ordinal_dirichlet_beats_dirichlet_on_few_rows():
    wins = 0
    for seed in range(6):
        z, y = sample(160, num_classes=8, seed=seed)
        new, labels = sample(3000, num_classes=8, seed=100 + seed)
        with pytest.warns(UserWarning, match="160 rows for 72 parameters"):
            full = DirichletCalibration(off_diagonal=0.0025, bias=0.01).fit(z, y)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            banded = OrdinalDirichlet().fit(z, y)
        k = np.arange(8)
        assert (banded.weight_[np.abs(k[:, None] - k) > banded.band] == 0).all()
        wins += metrics.rps(banded.predict_proba(new), labels) < metrics.rps(full.predict_proba(new), labels)
    assert wins >= 5


@pytest.mark.parametrize("calibrator", [VectorScaling(), DirichletCalibration(), OrdinalDirichlet()])
def test_linear_map_keeps_the_probability_of_a_class_without_rows_above_zero(calibrator):
    z, y = sample(300)
    new, labels = sample(400, seed=1)
    with pytest.warns(UserWarning, match="no row has class 0"):
        fitted = calibrator.fit(z[y != 0], y[y != 0])
    label_log_probs = geometry.log_probs(fitted.predict_logits(new))[labels == 0, 0]
    assert label_log_probs.min() > 3 * geometry.log_probs(new)[labels == 0, 0].min() - 5


def test_gap_scaling_gradient_equals_finite_differences():
    z, y = sample(50)
    gaps = np.diff(z, axis=1)
    gaps[3, 1] = 0.0
    weight = np.random.default_rng(1).random(50)
    weight /= weight.mean()
    objective, _ = _objective(gaps, y, weight, scale=1.3, prior_share=0.3)
    point = np.random.default_rng(2).normal(scale=0.3, size=7)
    _, gradient = objective(point)
    for i in range(7):
        step = np.zeros(7)
        step[i] = 1e-6
        numeric = (objective(point + step)[0] - objective(point - step)[0]) / 2e-6
        assert gradient[i] == pytest.approx(numeric, abs=1e-7)


@given(st.integers(0, 2**32 - 1), st.integers(2, 9))
@settings(deadline=None, max_examples=60)
def test_gap_scaling_keeps_unimodal_rows_unimodal_with_the_same_mode(seed, num_classes):
    rng = np.random.default_rng(seed)
    calibrator = GapScaling()
    calibrator.num_classes_ = num_classes
    calibrator.log_parameters_ = rng.normal(scale=1.5, size=2 * (num_classes - 1) + 1).clip(-1.6, 1.0)
    rows = np.sort(rng.normal(size=(30, num_classes)), axis=1)
    mode = rng.integers(num_classes, size=30)
    unimodal = np.stack(
        [np.concatenate([np.sort(r[:m]), np.sort(r[m:])[::-1]]) for r, m in zip(rows, mode, strict=True)]
    )
    scaled = calibrator.predict_logits(unimodal)
    before = geometry.is_unimodal(unimodal)
    assert before.any()
    assert geometry.is_unimodal(scaled)[before].all()
    assert (scaled.argmax(1) == unimodal.argmax(1))[before].all()
    logits = rng.normal(size=(30, num_classes))
    assert (np.sign(np.diff(calibrator.predict_logits(logits))) == np.sign(np.diff(logits))).all()


def test_gap_scaling_with_strong_shrinkage_equals_temperature_scaling():
    z, y = sample(2000)
    gap = GapScaling(shrinkage=1e6).fit(z, y)
    assert gap.predict_logits(z) == pytest.approx(TemperatureScaling().fit(z, y).predict_logits(z), abs=1e-2)
    assert gap.power_ == pytest.approx(1, abs=1e-3)
    assert gap.scales_ == pytest.approx(1 / TemperatureScaling().fit(z, y).temperature_, abs=1e-3)


def test_gap_scaling_beats_temperature_scaling_if_directions_differ():
    rng = np.random.default_rng(0)
    z, y = sample(4000, sharpen=1.0)
    gaps = np.diff(z, axis=1)
    scaled = np.where(gaps > 0, 3 * gaps, 0.7 * gaps) * [1, 2, 0.5]
    z = np.concatenate([np.zeros((4000, 1)), np.cumsum(scaled, 1)], axis=1)
    half = rng.random(4000) < 0.5
    gap, temperature = (c.fit(z[half], y[half]).predict_proba(z[~half]) for c in (GapScaling(), TemperatureScaling()))
    assert metrics.sce(gap, y[~half]) < 0.6 * metrics.sce(temperature, y[~half])
    assert metrics.rps(gap, y[~half]) < metrics.rps(temperature, y[~half])


def brute_force(p):
    """Best least-squares fit over all modes, with scikit-learn's isotonic regression."""
    from sklearn.isotonic import IsotonicRegression

    best, cost = None, np.inf
    size = len(p)
    for split in range(size):
        left = IsotonicRegression().fit_transform(np.arange(split + 1), p[: split + 1])
        right = p[split + 1 :]
        if len(right):
            right = IsotonicRegression(increasing=False).fit_transform(np.arange(len(right)), right)
        fit = np.concatenate([left, right])
        if ((fit - p) ** 2).sum() < cost - 1e-15:
            best, cost = fit, ((fit - p) ** 2).sum()
    return best, cost


@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.sampled_from([0.1, 1.0, 10.0]))
@settings(deadline=None, max_examples=60)
def test_nearest_unimodal_equals_a_search_over_all_modes(seed, num_classes, concentration):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(num_classes, concentration), size=6)
    projected = nearest_unimodal(probs)
    assert geometry.is_unimodal(projected).all()
    assert projected.sum(1) == pytest.approx(probs.sum(1))
    assert (projected >= 0).all()
    for row, fit in zip(probs, projected, strict=True):
        _, cost = brute_force(row)
        assert ((fit - row) ** 2).sum() == pytest.approx(cost, abs=1e-12)
        if geometry.is_unimodal(row):
            assert (fit == row).all()
    assert nearest_unimodal(projected) == pytest.approx(projected)


def test_projection_is_exact_without_fit_and_for_extreme_logits():
    projection = UnimodalProjection()
    assert projection.predict_proba(probs=[[1.0, 0.0, 0.0]]).round(9).tolist() == [[1.0, 0.0, 0.0]]
    extreme = projection.predict_proba([[1e4, -1e4, 1e4]])
    assert extreme == pytest.approx(np.array([[0.5, 0.25, 0.25]]))
    assert np.isfinite(projection.predict_logits([[1e4, -1e4, 0.0]])).all()


def test_projection_of_a_probability_of_0_keeps_its_infinite_log_loss():
    calibration = Predictions(probs=[[0.6, 0.4, 0.0], [0.2, 0.3, 0.5], [0.5, 0.1, 0.4]], y=[2, 0, 1])
    projected = calibration.calibrated_on(calibration, UnimodalProjection())
    assert projected.probs[0].tolist() == [0.6, 0.4, 0.0]
    assert metrics.nll(projected.probs, projected.y) == metrics.nll(logits=projected.logits, y=projected.y) == np.inf
    assert projected.notes == calibration.notes


def test_splits_are_stratified_and_use_at_most_5000_rows():
    y = np.repeat([0, 1, 2], [50_000, 20_000, 1_000])
    test_rows = [test for _, test in splits(y)]
    assert sum(map(len, test_rows)) <= 5_000
    assert len(np.unique(np.concatenate(test_rows))) == sum(map(len, test_rows))
    for train, test in splits(y):
        assert not set(train) & set(test)
        assert (np.bincount(y[test], minlength=3) > 0).all()
    counts = np.bincount(stratified_folds(y[:100], 5))
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("name", ["vector", "dirichlet", "ordinal_dirichlet"])
def test_linear_map_keeps_the_mean_probability_of_a_class_without_rows(name):
    rng = np.random.default_rng(0)
    z = -((np.arange(4) - rng.uniform(-0.5, 3.5, size=(900, 1))) ** 2)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (rng.random((900, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    with pytest.warns(CalibrationWarning, match="no row has class 2"):
        fitted = create(name).fit(z[y != 2], y[y != 2])
    assert fitted.predict_proba(z)[:, 2].mean() == pytest.approx(p[:, 2].mean(), abs=0.1)


@pytest.mark.filterwarnings("ignore::orcu.calibrators.CalibrationWarning")
@pytest.mark.parametrize("name", ["temperature", "vector", "dirichlet", "ordinal_dirichlet", "gap"])
def test_calibrator_fitted_on_one_row_changes_little(name):
    probs = create(name).fit([[0.0, 1.0, 2.0]], [1]).predict_proba([[0.0, 1.0, 2.0]])
    assert probs == pytest.approx(geometry.probs(np.array([[0.0, 1.0, 2.0]])), abs=0.1)


@pytest.mark.filterwarnings("ignore::orcu.calibrators.CalibrationWarning")
def test_dirichlet_select_cv_with_one_row_is_refused():
    with pytest.raises(InputError, match="^y: 1 row"):
        DirichletCalibration(select="cv").fit([[0.0, 1.0, 2.0]], [1])


def test_create_refuses_options_of_a_chain_and_unknown_steps():
    with pytest.raises(InputError, match=r"^gap\+projection: .*options"):
        create("gap+projection", shrinkage=1.0)
    with pytest.raises(UnknownNameError, match="unknown calibrator ''"):
        create("gap+")
    assert create("gap + projection").steps == ["gap", "projection"]


@pytest.mark.parametrize(
    "damage",
    [
        {"state": {"log_parameters": [float("nan")] * 7, "shrinkage": 1.0}},
        {"state": {"log_parameters": [0.0] * 3, "shrinkage": 1.0}},
        {"state": {}},
        {"fitted_on": "nonsense"},
        {"num_classes": "four"},
    ],
)
def test_load_refuses_damaged_data(damage, tmp_path):
    rng = np.random.default_rng(0)
    fitted = create("gap").fit(rng.normal(size=(200, 4)), rng.integers(4, size=200))
    (tmp_path / "gap.json").write_text(json.dumps(fitted.to_dict() | damage))
    with pytest.raises(InputError, match=r"gap.json: the calibrator's data are damaged"):
        calibrators.load(tmp_path / "gap.json")
    with pytest.raises(InputError, match="there is no such file"):
        calibrators.load(tmp_path / "absent.json")


def test_nearest_unimodal_of_tied_modes_takes_the_first_despite_rounding():
    for row, nearest in (  # in exact arithmetic the other mode is as near
        ([0.4, 0.2, 0.0, 0.4], [0.4, 0.2, 0.2, 0.2]),
        ([0.3, 0.2, 0.0, 0.3, 0.2], [0.3, 0.2, 1 / 6, 1 / 6, 1 / 6]),
        ([0.1, 0.1, 0.3, 0.2, 0.3], [0.1, 0.1, 0.3, 0.25, 0.25]),
    ):
        assert nearest_unimodal(np.array([row]))[0] == pytest.approx(nearest)


def test_gap_scaling_of_rows_that_are_all_correct_stays_below_certainty():
    y = np.arange(60) % 3
    logits = 2.0 * np.eye(3)[y]
    with pytest.warns(CalibrationWarning, match="all 60 rows are predicted correctly"):
        fitted = calibrators.create("gap").fit(logits, y)
    assert fitted.predict_proba(logits).max() < 61 / 62
    with pytest.warns(CalibrationWarning, match="all 30 rows are predicted correctly"):
        few = calibrators.create("gap").fit(logits[:30], y[:30])
    assert few.predict_proba(logits).max() < 31 / 32


def test_predict_proba_of_small_probabilities_does_not_apply_the_floor():
    rng = np.random.default_rng(0)
    probs, y = rng.dirichlet(np.full(3, 8.0), size=200), rng.integers(3, size=200)
    new = np.array([[1e-6, 0.001, 0.998999]])
    by_probs = calibrators.create("temperature").fit(probs=probs, y=y)
    by_logits = calibrators.create("temperature").fit(np.log(probs), y)
    assert by_probs.predict_proba(probs=new) == pytest.approx(by_logits.predict_proba(np.log(new)), abs=1e-9)
    # a replaced zero is not larger than the smallest probability of its row, whatever the other rows
    zero = np.array([[0.0, 0.5, 0.5], [0.0, 1e-9, 1 - 1e-9]])
    both, first = by_probs.predict_proba(probs=zero), by_probs.predict_proba(probs=zero[:1])
    assert (both[0] == first[0]).all()
    assert both[1, 0] <= both[1, 1]


def test_projection_of_a_row_does_not_depend_on_other_rows():
    row, other = [0.5, 0.0, 0.5, 0.0], [1e-9, 0.0, 0.5, 0.5 - 1e-9]
    expected = [[0.5, 0.25, 0.25, 0.0]]
    projection = calibrators.create("projection")
    assert projection.predict_proba(probs=[row]) == pytest.approx(np.array(expected))
    assert projection.predict_proba(probs=torch.tensor([row], dtype=torch.float64)).tolist() == expected
    alone, beside = (projection.predict_logits(probs=rows)[0] for rows in ([row], [row, other]))
    assert (alone == beside).all()
    assert np.exp(alone) == pytest.approx(expected[0], abs=1e-12)


def test_calibrator_is_not_fitted_after_a_failed_fit():
    calibrator = calibrators.create("temperature", search="nowhere")
    with pytest.raises(InputError):
        calibrator.fit(np.random.default_rng(0).normal(size=(50, 3)), np.arange(50) % 3)
    with pytest.raises(InputError, match="not fitted"):
        calibrator.predict_proba(np.zeros((1, 3)))
