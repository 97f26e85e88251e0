"""Votes of several raters: validation, expansion, and long tables."""

import numpy as np
import pytest

from orcu import InputError, OrdinalClassifier, Predictions, metrics
from orcu.metrics.referral import referral_curve
from orcu.raters import Ratings, as_votes, expand_votes, label_shares
from orcu.raters.votes import multilabel_warning, raters_are_resampled

PROBS = np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]])
VOTES = np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 3.0]])
FUNCTIONS = (
    metrics.accuracy,
    metrics.off_by_one_accuracy,
    metrics.mae,
    metrics.qwk,
    metrics.rps,
    metrics.brier,
    metrics.nll,
    metrics.ece,
    metrics.sce,
    metrics.threshold_ce,
    metrics.overconfidence,
)


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        ([[1, 0]], "y: votes have 2 columns, expected 3"),
        ([[1, 0, -2]], "y: row 0 has -2 votes for class 2, expected 0 or more"),
        ([[1, 0, 0], [0, 0, 0]], "y: row 1 has no vote"),
        ([[0.5, 0.2, 0.2]], "y: row 0 sums to 0.9, expected shares that sum to 1"),
        ([[0.5, 0.25, 0.25], [2, 0, 0]], "y: row 1 sums to 2, expected shares"),
        ([[1.5, 0.5, 0.0]], "y: row 0 sums to 2, expected shares"),
        ([[np.nan, 0.5, 0.5]], "y: row 0 has nan"),
        ([[np.inf, 0, 0]], "y: row 0 has inf"),
        ([["a", "b", "c"]], "y: expected real numbers"),
        ([[True, False, True]], "y: booleans are not votes"),
        ([[1, 1, 0], [0, 0, 0]], "y: row 1 has no vote; .*label.* is not votes"),
        ([], "y: expected shape"),
    ],
)
def test_as_votes_with_invalid_input_raises(votes, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        as_votes(votes, 3)


def test_as_votes_with_another_number_of_rows_raises():
    with pytest.raises(InputError, match="votes of 2 cases for 3 rows"):
        as_votes([[1, 0], [0, 1]], 2, rows=3)


def test_as_votes_normalises_rounded_shares_and_keeps_counts():
    assert as_votes([[0.333, 0.333, 0.333]], 3).sum() == pytest.approx(1, abs=1e-15)
    assert as_votes([[3, 0, 4]], 3).tolist() == [[3, 0, 4]]


def test_multilabel_matrix_in_place_of_votes_gives_a_warning():
    one_label = np.eye(3)[np.arange(40) % 3]
    matrix = np.maximum(one_label, [0, 1, 0])  # one or two labels per row
    assert "no two votes agree in any of the 27 cases with several votes" in multilabel_warning(matrix)
    for votes in (matrix[:20], np.vstack([matrix, [2, 0, 0]]), one_label, label_shares(matrix)):
        assert multilabel_warning(votes) == ""
    probs = np.full((40, 3), 1 / 3)
    assert any("is not votes" in note for note in Predictions(probs=probs, y=matrix).notes)
    named = Ratings(np.where(matrix > 0, np.arange(3), -1), ("a", "b", "c"), 3)
    assert Predictions(probs=probs, ratings=named).notes == ()
    with pytest.warns(UserWarning, match="y: no two votes agree"):
        OrdinalClassifier(estimators=["linear"], cv=2, random_state=0).fit(np.arange(40.0)[:, None] % 7, matrix)


def test_expand_votes_gives_weights_that_sum_to_one_per_case():
    case, label, weight = expand_votes(VOTES)
    assert np.bincount(case, weights=weight) == pytest.approx(np.ones(3))
    assert label.tolist() == [0, 1, 1, 0, 1, 2]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_metric_of_votes_equals_the_metric_of_each_vote_as_a_weighted_row(function):
    rows, labels, weights = [], [], []
    for i, votes in enumerate(VOTES):
        for k, count in enumerate(votes):
            for _ in range(int(count)):
                rows.append(PROBS[i])
                labels.append(k)
                weights.append(1 / votes.sum())
    expected = function(np.array(rows), np.array(labels), sample_weight=np.array(weights))
    assert function(PROBS, VOTES) == pytest.approx(expected, rel=1e-12)
    assert function(PROBS, label_shares(VOTES)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("function", [*FUNCTIONS, metrics.ace], ids=lambda function: function.__name__)
def test_metric_of_one_vote_per_case_equals_the_metric_of_labels_to_the_last_bit(function):
    y = np.array([0, 1, 2])
    assert function(PROBS, np.eye(3)[y]) == function(PROBS, y)


def test_ace_bins_have_equal_numbers_of_cases():
    # Four cases with one bin each; a case with two grades must not fill two bins.
    probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.1, 0.9]])
    votes = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    expected = np.mean(np.abs(probs[:, 0] - votes[:, 0] / votes.sum(axis=1)))
    assert metrics.ace(probs, votes, n_bins=4) == pytest.approx(expected)


def test_decision_metrics_take_votes_and_decisions():
    pred = np.array([0, 1, 2])
    assert metrics.accuracy(y=VOTES, pred=pred) == pytest.approx((2 / 3 + 1 + 3 / 5) / 3)
    with pytest.raises(InputError, match="pred: row 2 has label 3"):
        metrics.accuracy(y=VOTES, pred=[0, 1, 3])


def test_referral_curve_of_votes_uses_the_uncertainty_of_each_case():
    curve = referral_curve(PROBS, VOTES, uncertainty=[0.1, 0.9, 0.2])
    assert curve.error[0] == pytest.approx(1 - metrics.accuracy(PROBS, VOTES))
    with pytest.raises(InputError, match=r"uncertainty: expected one score per row, shape \(3,\)"):
        referral_curve(PROBS, VOTES, uncertainty=[0.1, 0.9])


def test_ratings_from_long_with_a_repeated_grade_names_both_rows():
    with pytest.raises(InputError, match=r"rater: ann graded the case a in rows 0 and 2"):
        Ratings.from_long(["a", "b", "a"], ["ann", "ann", "ann"], [0, 1, 1], 3)


def test_ratings_from_long_with_a_missing_rater_raises():
    with pytest.raises(InputError, match="rater: row 1 is empty"):
        Ratings.from_long(["a", "b"], ["ann", None], [0, 1], 3)


def test_ratings_counts_ignore_missing_raters():
    ratings = Ratings(np.array([[0, -1, 2], [-1, 1, 1]]), ("ann", "bob", "cem"), 3)
    assert ratings.counts.tolist() == [[1, 0, 1], [0, 2, 0]]
    assert ratings[[1]].counts.tolist() == [[0, 2, 0]]


def test_raters_are_resampled_only_if_five_raters_have_two_cases():
    codes = np.zeros((4, 5), dtype=np.int64)
    names = tuple("abcde")
    assert raters_are_resampled(Ratings(codes, names, 2))
    codes[1:, 0] = -1  # a rater who graded one case
    assert not raters_are_resampled(Ratings(codes, names, 2))
