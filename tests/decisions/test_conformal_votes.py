"""Prediction sets fitted on votes of several raters: what they cover, by simulation, and invalid votes."""

import numpy as np
import pytest

from orcu import geometry
from orcu.decisions.conformal import CrossConformalSets, OrdinalPredictionSets
from orcu.errors import CalibrationWarning, InputError, UnknownNameError
from orcu.raters.votes import label_shares, majority_grade

NUM_CLASSES, TOLERANCE = 5, 0.015


def simulate(rng, n, *, clusters=None, raters=None):
    """Predicted probabilities, and votes of one to six raters whose distribution differs from the prediction."""
    position = rng.uniform(-0.5, NUM_CLASSES - 0.5, size=n)
    effect = 0.0 if clusters is None else rng.normal(scale=0.7, size=n)[clusters]  # of all cases of a cluster
    logits = -((np.arange(NUM_CLASSES) - (position + effect)[:, None]) ** 2)
    true = geometry.probs(logits * rng.choice([0.4, 1.5], size=(n, 1)))  # raters agree on some cases only
    n_raters = rng.integers(1, 7, size=n) if raters is None else np.full(n, raters)
    votes = rng.multinomial(n_raters, true).astype(float)
    predicted = geometry.probs(-1.3 * (np.arange(NUM_CLASSES) - position[:, None]) ** 2)
    return predicted, votes


def covered_votes(low, high, votes):
    """Share of the votes of each case that its set contains."""
    grades = np.arange(NUM_CLASSES)
    return (label_shares(votes) * ((low[:, None] <= grades) & (grades <= high[:, None]))).sum(axis=1)


@pytest.mark.parametrize("clustered", [False, True])
def test_sets_for_the_vote_of_a_new_rater_have_the_stated_coverage(clustered):
    rng, coverage = np.random.default_rng(0), []
    for _ in range(300):
        clusters = np.repeat(np.arange(120), rng.integers(1, 5, size=120)) if clustered else None
        n = 250 if clusters is None else len(clusters)
        probs, votes = simulate(rng, n, clusters=clusters)
        sets = OrdinalPredictionSets(alpha=0.1).fit(probs, votes, groups=clusters)
        new_clusters = np.arange(500) if clustered else None
        new_probs, new_vote = simulate(rng, 500, clusters=new_clusters, raters=1)
        coverage.append(covered_votes(*sets.predict(new_probs), new_vote).mean())
    assert abs(np.mean(coverage) - 0.9) < TOLERANCE


def test_sets_for_the_majority_have_the_stated_coverage_and_are_smaller():
    rng, coverage, sizes = np.random.default_rng(1), [], []
    for _ in range(300):
        probs, votes = simulate(rng, 250)
        new_probs, new_votes = simulate(rng, 500)
        majority, vote = (OrdinalPredictionSets(alpha=0.1, target=t).fit(probs, votes) for t in ("majority", "vote"))
        low, high = majority.predict(new_probs)
        grade = majority_grade(new_votes)
        coverage.append(((low <= grade) & (grade <= high)).mean())
        vote_low, vote_high = vote.predict(new_probs)
        sizes.append([(high - low).mean(), (vote_high - vote_low).mean()])
    assert abs(np.mean(coverage) - 0.9) < TOLERANCE
    assert np.mean(sizes, axis=0)[0] < np.mean(sizes, axis=0)[1]


def test_class_conditional_sets_cover_the_votes_of_each_grade():
    rng, hits = np.random.default_rng(2), np.zeros((2, NUM_CLASSES))
    for _ in range(200):
        probs, votes = simulate(rng, 500)
        new_probs, new_votes = simulate(rng, 500)
        sets = OrdinalPredictionSets(alpha=0.1, class_conditional=True).fit(probs, votes)
        low, high = sets.predict(new_probs)
        shares, grades = label_shares(new_votes), np.arange(NUM_CLASSES)
        inside = (low[:, None] <= grades) & (grades <= high[:, None])
        hits += np.stack([(shares * inside).sum(axis=0), shares.sum(axis=0)])
    assert (hits[0] / hits[1] > 0.9 - TOLERANCE).all()


def test_cross_conformal_sets_for_votes_have_the_stated_coverage():
    rng, coverage = np.random.default_rng(3), []
    for _ in range(100):
        probs, votes = simulate(rng, 250)
        new_probs, new_vote = simulate(rng, 500, raters=1)
        sets = CrossConformalSets(alpha=0.1).fit(probs, votes, fold=np.arange(250) % 5)
        coverage.append(covered_votes(*sets.predict(np.stack([new_probs] * 5)), new_vote).mean())
    assert abs(np.mean(coverage) - 0.9) < TOLERANCE


@pytest.mark.parametrize("target", ["vote", "majority"])
@pytest.mark.parametrize("options", [{}, {"class_conditional": True}])
@pytest.mark.parametrize("clusters", [None, np.arange(200) // 2])
def test_one_vote_per_case_gives_the_sets_of_labels(target, options, clusters):
    probs, votes = simulate(np.random.default_rng(4), 200, raters=1)
    by_votes, by_labels = (
        OrdinalPredictionSets(target=target, **options).fit(probs, y, groups=clusters)
        for y in (votes, votes.argmax(axis=1))
    )
    if clusters is None or not options or target == "majority":
        assert np.array_equal(by_votes.thresholds_, by_labels.thresholds_)
    assert by_votes.n_clusters_ == by_labels.n_clusters_
    assert "target" not in by_labels.to_dict()


def test_one_vote_per_case_gives_the_cross_conformal_sets_of_labels():
    probs, votes = simulate(np.random.default_rng(5), 200, raters=1)
    fold = np.arange(200) % 4
    low, high = CrossConformalSets().fit(probs, votes, fold=fold).predict(np.stack([probs] * 4))
    by_label = CrossConformalSets().fit(probs, votes.argmax(axis=1), fold=fold).predict(np.stack([probs] * 4))
    assert np.array_equal(low, by_label[0])
    assert np.array_equal(high, by_label[1])


def test_saved_sets_of_votes_keep_target_and_predictions(tmp_path):
    probs, votes = simulate(np.random.default_rng(6), 100)
    site = np.array(["a", "b"] * 50)
    sets = OrdinalPredictionSets(target="majority").fit(probs, votes, subgroup=site)
    sets.save(tmp_path / "sets.json")
    loaded = OrdinalPredictionSets.load(tmp_path / "sets.json")
    assert repr(loaded) == repr(sets)
    assert "target='majority'" in repr(sets)
    cross = CrossConformalSets().fit(probs, votes, fold=np.arange(100) % 2)
    cross.save(tmp_path / "cross.json")
    new = np.stack([probs, probs])
    assert np.array_equal(CrossConformalSets.load(tmp_path / "cross.json").predict(new), cross.predict(new))
    assert repr(cross) == "CrossConformalSets(alpha=0.1; 5 classes, 100 rows in 2 folds)"


def test_coverage_report_of_votes_is_the_mean_share_of_covered_votes():
    rng = np.random.default_rng(7)
    probs, votes = simulate(rng, 300)
    sets = OrdinalPredictionSets().fit(probs, votes)
    new_probs, new_votes = simulate(rng, 300)
    report = sets.coverage_report(new_probs, new_votes, subgroup=["a", "b"] * 150)
    assert report.coverage == pytest.approx(covered_votes(*sets.predict(new_probs), new_votes).mean())
    assert report.overall.rows == 300
    assert report.overall.low < report.coverage < report.overall.high
    assert sum(report.class_counts) == pytest.approx(300, abs=3)
    one = simulate(rng, 300, raters=1)
    by_votes, by_labels = (sets.coverage_report(one[0], y) for y in (one[1], one[1].argmax(axis=1)))
    assert str(by_votes) == str(by_labels)


def test_few_cases_warn_of_cases():
    probs, votes = simulate(np.random.default_rng(8), 5)
    with pytest.warns(CalibrationWarning, match="too few cases for alpha = 0.1.*at least 9 cases"):
        OrdinalPredictionSets().fit(probs, votes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda votes: votes[:, :4], "votes have 4 columns, expected 5"),
        (lambda votes: votes - 2, "expected 0 or more"),
        (lambda votes: votes * np.nan, "row 0 has nan"),
        (lambda votes: votes * (np.arange(50) != 7)[:, None], "row 7 has no vote"),
        (lambda votes: votes / 7, "expected shares that sum to 1"),
        (lambda votes: votes[:9], "votes of 9 cases for 50 rows"),
    ],
)
def test_invalid_votes_are_refused(change, message):
    probs, votes = simulate(np.random.default_rng(9), 50)
    for fit in (OrdinalPredictionSets().fit, lambda p, y: CrossConformalSets().fit(p, y, fold=np.arange(50) % 2)):
        with pytest.raises(InputError, match=message):
            fit(probs, change(votes))


def test_unknown_target_is_refused():
    probs, votes = simulate(np.random.default_rng(9), 50)
    with pytest.raises(UnknownNameError, match="median"):
        OrdinalPredictionSets(target="median").fit(probs, votes)
