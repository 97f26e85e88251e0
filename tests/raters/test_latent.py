"""`RaterModel`."""

import json
import warnings

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from orcu.errors import InputError, NotFittedError
from orcu.raters import RaterModel, Ratings
from orcu.raters.latent import _indicators, _Layout, _objective

SHIFTS = np.array([-0.6, -0.2, 0.0, 0.3, 0.5])
LOG_SPREADS = np.array([-0.5, -0.2, 0.0, 0.2, 0.5])
PRIOR = (0.1, 0.3, 0.3, 0.2, 0.1)


def simulated(rng, n, shifts=SHIFTS, log_spreads=LOG_SPREADS, *, scale=0.35, prior=PRIOR, missing=0.2):
    """True grades and ratings drawn from the model with equal gaps."""
    truth = rng.choice(len(prior), size=n, p=prior)
    noise = scale * np.exp(log_spreads) * rng.logistic(size=(n, len(shifts)))
    codes = np.rint(truth[:, None] + shifts + noise).clip(0, len(prior) - 1).astype(int)
    absent = rng.random(codes.shape) < missing
    absent[np.arange(n), rng.integers(len(shifts), size=n)] = False
    codes[absent] = -1
    return truth, Ratings(codes, tuple(f"rater {r}" for r in range(len(shifts))), len(prior))


def fit_quietly(ratings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RaterModel().fit(ratings)


def rps(probs, truth):
    below = np.arange(probs.shape[1])[None] >= truth[:, None]
    return float(((probs.cumsum(axis=1) - below) ** 2).sum(axis=1).mean())


@pytest.fixture(scope="module")
def fitted():
    truth, ratings = simulated(np.random.default_rng(0), 800)
    return truth, ratings, RaterModel().fit(ratings)


def test_objective_gradient_equals_finite_differences():
    rng = np.random.default_rng(1)
    _, ratings = simulated(rng, 40)
    for differ in (True, False):
        layout = _Layout(5, 5, differ)
        vector = rng.normal(scale=0.5, size=layout.size)
        indicators = _indicators(ratings)
        numeric = approx_fprime(vector, lambda x, i=indicators, lay=layout: _objective(x, i, lay)[0], 1e-6)
        assert _objective(vector, indicators, layout)[1] == pytest.approx(numeric, abs=1e-3, rel=1e-4)


def test_objective_is_finite_at_extreme_parameters():
    _, ratings = simulated(np.random.default_rng(1), 40)
    layout = _Layout(5, 5, True)
    for scale in (-6.0, 6.0):
        vector = np.zeros(layout.size)
        vector[layout.scale] = scale
        vector[layout.shift] = [-4, 4, 0, 0, 0]
        value, gradient = _objective(vector, _indicators(ratings), layout)
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()


def test_rater_model_recovers_shifts_and_spreads(fitted):
    _, ratings, model = fitted
    shifts = np.array([rater.shift.value for rater in model.raters_])
    spreads = np.array([rater.spread.value for rater in model.raters_])
    assert shifts == pytest.approx(SHIFTS - SHIFTS.mean(), abs=0.12)
    assert np.log(spreads) == pytest.approx(LOG_SPREADS, abs=0.2)
    assert shifts.sum() == pytest.approx(0, abs=1e-9)
    assert np.log(spreads).sum() == pytest.approx(0, abs=1e-9)
    assert model.scale_ == pytest.approx(0.35, abs=0.04)
    assert model.prior_ == pytest.approx(PRIOR, abs=0.06)
    assert model.locations_ == pytest.approx(np.arange(5), abs=0.2)
    assert [rater.n_cases for rater in model.raters_] == (ratings.codes >= 0).sum(axis=0).tolist()
    assert (model.converged_, model.starts_agreeing_) == (True, 3)


def test_rater_model_names_differences_whose_interval_excludes_the_average(fitted):
    model = fitted[2]
    assert model.raters_[0].difference == "harsher, more consistent"
    assert model.raters_[2].difference == ""
    assert model.raters_[4].difference == "milder, noisier"
    assert model.raters_differ_
    assert model.p_value_ < 1e-6
    assert model.bic_ < model.bic_equal_
    assert model.log_likelihood_ > model.log_likelihood_equal_


def test_rater_model_posterior_is_calibrated_and_beats_the_votes(fitted):
    _, _, model = fitted
    truth, ratings = simulated(np.random.default_rng(2), 4000)
    posterior = model.predict_proba(ratings)
    assert posterior.sum(axis=1) == pytest.approx(1)
    for grade in range(5):
        for low, high in ((0.05, 0.35), (0.35, 0.65), (0.65, 0.95)):
            inside = (posterior[:, grade] > low) & (posterior[:, grade] <= high)
            if inside.sum() > 100:
                gap = posterior[inside, grade].mean() - (truth[inside] == grade).mean()
                assert abs(gap) < 0.06 + 3 * 0.5 / np.sqrt(inside.sum()), (grade, low)
    counts = ratings.counts
    majority = (counts == counts.max(axis=1, keepdims=True)).astype(float)
    majority /= majority.sum(axis=1, keepdims=True)
    smoothed = (counts + 0.2) / (counts + 0.2).sum(axis=1, keepdims=True)
    rows = np.arange(len(truth))
    assert rps(posterior, truth) < 0.8 * min(rps(majority, truth), rps(smoothed, truth))
    assert -np.log(posterior[rows, truth]).mean() < 0.8 * -np.log(smoothed[rows, truth]).mean()


def test_rater_model_without_differences_warns():
    _, ratings = simulated(np.random.default_rng(3), 150, np.zeros(4), np.zeros(4))
    with pytest.warns(UserWarning, match="do not show that raters differ"):
        model = RaterModel().fit(ratings)
    assert not model.raters_differ_


def test_rater_model_of_rater_with_one_case_has_infinite_interval():
    _, ratings = simulated(np.random.default_rng(4), 100)
    codes = np.column_stack([ratings.codes, np.full(100, -1), np.full(100, -1)])
    codes[0, 5] = 4
    model = fit_quietly(Ratings(codes, (*ratings.raters, "new", "absent"), 5))
    for rater in model.raters_[5:]:
        assert (rater.shift.low, rater.shift.high) == (-np.inf, np.inf)
        assert (rater.spread.low, rater.spread.high) == (0, np.inf)
        assert rater.difference == ""
    assert [rater.n_cases for rater in model.raters_[5:]] == [1, 0]


@pytest.mark.parametrize("raters", [2, 4])
def test_rater_model_with_equal_grades_is_finite(raters):
    truth = np.random.default_rng(5).choice(3, size=60)
    ratings = Ratings(np.repeat(truth[:, None], raters, axis=1), tuple("abcd"[:raters]), 4)  # grade 3 is never used
    model = fit_quietly(ratings)
    posterior = model.predict_proba(ratings)
    assert np.isfinite(posterior).all()
    assert (posterior.argmax(axis=1) == truth).all()
    assert model.converged_
    assert [rater.difference for rater in model.raters_] == [""] * raters


def test_rater_model_of_two_raters_and_two_classes_is_finite():
    _, ratings = simulated(
        np.random.default_rng(6), 80, np.array([-0.3, 0.3]), np.zeros(2), prior=(0.5, 0.5), missing=0
    )
    model = fit_quietly(ratings)
    assert model.converged_
    assert np.isfinite(model.predict_proba(ratings)).all()
    assert model.raters_[0].shift.value < 0 < model.raters_[1].shift.value


def test_rater_model_fit_is_deterministic_and_ignores_the_order_of_cases(fitted):
    _, ratings, model = fitted
    again = RaterModel().fit(ratings)
    assert again.to_dict() == model.to_dict()
    reverse = RaterModel().fit(ratings[::-1])
    assert reverse.raters_[0].shift.value == pytest.approx(model.raters_[0].shift.value, abs=1e-4)


def test_rater_model_from_dict_restores_it(fitted):
    _, ratings, model = fitted
    restored = RaterModel.from_dict(json.loads(json.dumps(model.to_dict())))
    assert restored.predict_proba(ratings).tolist() == model.predict_proba(ratings).tolist()
    assert restored.raters_ == model.raters_
    assert restored.raters_differ_


def test_rater_model_predicts_with_raters_in_another_order(fitted):
    _, ratings, model = fitted
    order = [3, 1, 0, 4, 2]
    shuffled = Ratings(ratings.codes[:, order], tuple(ratings.raters[r] for r in order), 5)
    assert model.predict_proba(shuffled) == pytest.approx(model.predict_proba(ratings))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state_version": 0}, "^state: expected the data of a RaterModel"),
        ({"prior": [0.5, 0.6]}, "^state: the parameters of the RaterModel are out of range"),
        ({"prior": "x"}, "^state: the data of the RaterModel are damaged"),
        ({"scale": -1.0}, "^state: the parameters of the RaterModel are out of range"),
        ({"raters": [{}]}, "^state: the data of the RaterModel are damaged"),
        ({"raters": []}, "^state: the parameters of the RaterModel are out of range"),
    ],
)
def test_rater_model_from_damaged_dict_raises(fitted, change, message):
    with pytest.raises(InputError, match=message):
        RaterModel.from_dict(fitted[2].to_dict() | change)


def test_rater_model_with_invalid_ratings_names_them(fitted):
    _, ratings, model = fitted
    with pytest.raises(InputError, match="^ratings: expected two or more raters, got 1"):
        RaterModel().fit(Ratings(np.array([[0], [1]]), ("a",), 2))
    with pytest.raises(InputError, match="^ratings: no case has two or more grades"):
        RaterModel().fit(Ratings(np.array([[0, -1], [-1, 1]]), ("a", "b"), 2))
    with pytest.raises(InputError, match="^ratings: case 1 has no grade"):
        RaterModel().fit(Ratings(np.array([[0, 1], [-1, -1]]), ("a", "b"), 2))
    with pytest.raises(InputError, match="^ratings: expected Ratings with the name of each rater, got ndarray"):
        RaterModel().fit(np.eye(3))
    with pytest.raises(InputError, match="^ratings: the rater 'eve' was not in the fit"):
        model.predict_proba(Ratings(np.array([[0]]), ("eve",), 5))
    with pytest.raises(InputError, match="^ratings: 3 classes, expected 5"):
        model.predict_proba(Ratings(np.array([[0]]), ("rater 0",), 3))
    with pytest.raises(NotFittedError, match="RaterModel is not fitted"):
        RaterModel().predict_proba(ratings)


@pytest.mark.slow
def test_rater_model_intervals_cover_the_true_parameters():
    rng = np.random.default_rng(7)
    shifts, log_spreads = np.array([-0.5, 0.0, 0.2, 0.3]), np.array([-0.4, 0.0, 0.1, 0.3])
    covered = []
    for _ in range(150):
        model = fit_quietly(simulated(rng, 250, shifts, log_spreads)[1])
        spreads = np.exp(log_spreads - log_spreads.mean())
        covered.append(
            [
                [rater.shift.low <= shift <= rater.shift.high, rater.spread.low <= spread <= rater.spread.high]
                for rater, shift, spread in zip(model.raters_, shifts, spreads, strict=True)
            ]
        )
    shift_share, spread_share = np.mean(covered, axis=(0, 1))
    assert 0.92 <= shift_share <= 0.98
    assert 0.92 <= spread_share <= 0.98
