"""Calibrators fitted on votes of several raters."""

import numpy as np
import pytest

from orcu import calibrators, geometry, metrics
from orcu.calibrators import recommend
from orcu.calibrators.recommend import calibration_metrics, cross_val_predict_proba
from orcu.errors import InputError
from orcu.raters.votes import expand_votes

NAMES = ["auto", "temperature", "vector", "dirichlet", "ordinal_dirichlet", "gap", "gap+projection"]


@pytest.fixture(scope="module")
def rated():
    """Overconfident logits of 400 cases, and the votes of ten raters for each of five grades."""
    rng = np.random.default_rng(0)
    logits = -((np.arange(5) - rng.uniform(-0.5, 4.5, size=(400, 1))) ** 2)
    votes = np.stack([rng.multinomial(10, probs) for probs in geometry.probs(logits)])
    return 3 * logits, votes


@pytest.mark.parametrize("name", NAMES)
def test_calibrator_fitted_on_votes_approaches_the_distribution_of_votes(rated, name):
    logits, votes = rated
    truth = geometry.probs(logits / 3)
    by_votes, by_majority = (
        calibrators.create(name).fit(logits, y).predict_proba(logits) for y in (votes, votes.argmax(axis=1))
    )
    assert np.abs(by_votes - truth).mean() < 0.01 < 0.05 < np.abs(by_majority - truth).mean()


def test_temperature_without_shrinkage_minimises_the_mean_log_loss_of_the_votes(rated):
    logits, votes = rated
    weight = np.linspace(0.5, 2, len(votes))
    case, label, share = expand_votes(votes.astype(float))
    by_votes = calibrators.TemperatureScaling(shrinkage=0).fit(logits, votes, sample_weight=weight)
    by_rows = calibrators.TemperatureScaling(shrinkage=0).fit(logits[case], label, sample_weight=share * weight[case])
    assert by_votes.temperature_ == pytest.approx(by_rows.temperature_, rel=1e-9)


@pytest.mark.parametrize("options", [{"off_diagonal": 0.1, "bias": 0.1}, {"select": "cv"}, {"select": "fit"}])
def test_dirichlet_with_odir_penalties_does_not_depend_on_repeated_votes(rated, options):
    logits, votes = rated
    once, repeated = (calibrators.DirichletCalibration(**options).fit(logits, y) for y in (votes, 3 * votes))
    assert np.allclose(once.weight_, repeated.weight_, atol=1e-6)


def test_dirichlet_penalty_has_the_strength_of_one_row_per_case(rated):
    """Votes that are split between two grades are two rows, which must not double the penalty of a mean loss."""
    logits, _ = rated
    rng = np.random.default_rng(1)
    split = (rng.permutation(np.eye(5)[rng.integers(5, size=400)]) + np.eye(5)[rng.integers(5, size=400)]) / 2
    case, label, share = expand_votes(split)
    fitted = calibrators.DirichletCalibration(off_diagonal=1.0, bias=1.0).fit(logits, split)
    rows = calibrators.DirichletCalibration(off_diagonal=1.0, bias=1.0).fit(logits[case], label, sample_weight=share)
    assert np.allclose(fitted.weight_, rows.weight_, atol=1e-6)


def test_uniform_share_counts_cases_not_votes(rated):
    logits, votes = rated
    fitted = calibrators.TemperatureScaling().fit(logits, votes)
    assert fitted.uniform_share_ == calibrators.TemperatureScaling().fit(logits, votes.argmax(axis=1)).uniform_share_


def test_to_dict_records_cases_and_votes_and_is_unchanged_for_labels(rated):
    logits, votes = rated
    fitted = calibrators.create("auto").fit(logits, votes)
    assert fitted.to_dict()["votes"] == {"cases": 400, "votes": 4000}
    assert calibrators.from_dict(fitted.to_dict()).votes_ == {"cases": 400, "votes": 4000}
    assert calibrators.create("gap").fit(logits, votes / 10).to_dict()["votes"] == {"cases": 400, "votes": None}
    assert "votes" not in calibrators.create("gap").fit(logits, votes.argmax(axis=1)).to_dict()


def test_grouped_calibration_adjusts_subgroups_by_their_votes(rated):
    logits, votes = rated
    site = np.array(["north", "south"] * 200)
    shifted = logits / 3 * np.where(site == "north", 4.0, 0.7)[:, None]
    fitted = calibrators.GroupedCalibration("temperature").fit(shifted, votes, subgroup=site)
    probs = fitted.predict_proba(shifted, subgroup=site)
    assert set(fitted.adjustment_.by_subgroup) == {"north", "south"}
    assert np.abs(probs - geometry.probs(logits / 3)).mean() < 0.02


def test_recommend_on_votes_reports_expected_scores_over_the_votes(rated):
    logits, votes = rated
    result = recommend(logits, votes, calibrators=("temperature",))
    case, label, share = expand_votes(votes.astype(float))
    assert result.chosen == "temperature"
    assert result.table["none"]["rps"] == metrics.rps(geometry.probs(logits)[case], label, sample_weight=share)
    assert result.calibrator.votes_ == {"cases": 400, "votes": 4000}


def test_cross_val_predict_proba_on_one_vote_per_case_equals_labels(rated):
    logits, votes = rated
    y = votes.argmax(axis=1)
    by_label, by_vote = (
        cross_val_predict_proba(calibrators.create("gap"), logits, target) for target in (y, np.eye(5)[y])
    )
    assert np.array_equal(by_label, by_vote)
    assert calibration_metrics(y, probs=by_label) == calibration_metrics(np.eye(5)[y], probs=by_label)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda votes: votes[:, :4], "votes have 4 columns, expected 5"),
        (lambda votes: votes[:9], "votes of 9 cases for 400 rows"),
        (lambda votes: np.where(np.arange(400)[:, None] == 7, -votes, votes), "row 7 has -[0-9]+ votes"),
        (lambda votes: np.where(np.arange(400)[:, None] == 7, np.nan, votes), "row 7 has nan"),
        (lambda votes: np.where(np.arange(400)[:, None] == 7, 0, votes), "row 7 has no vote"),
        (lambda votes: votes / 9, "row 0 sums to 1.11111, expected shares"),
        (lambda votes: np.where(np.arange(400)[:, None] < 7, votes / 10, votes), "row 7 sums to 10, expected shares"),
    ],
)
def test_fit_with_invalid_votes_names_the_row(rated, change, message):
    logits, votes = rated
    for fit in (calibrators.create("auto").fit, recommend):
        with pytest.raises(InputError, match=message):
            fit(logits, change(votes))
