"""Evaluation against the votes of several raters."""

import json

import numpy as np
import pytest

from orcu import InputError, Predictions, Tally, evaluate
from orcu.evaluation import statistics
from orcu.predictions import open_predictions
from orcu.raters import Ratings

NUM_CLASSES = 4


def graded_cases(cases, raters, *, shift=0.0, seed=0):
    """Probabilities of a model, and the grades of raters who are harsher or milder by a normal shift."""
    rng = np.random.default_rng(seed)
    severity = rng.uniform(-0.5, NUM_CLASSES - 0.5, size=(cases, 1))
    grades = np.arange(NUM_CLASSES)
    probs = np.exp(-((grades - severity) ** 2))
    seen = severity + shift * rng.normal(size=raters)
    truth = np.exp(-((grades - seen[:, :, None]) ** 2) / 1.5)
    truth /= truth.sum(axis=-1, keepdims=True)
    codes = (rng.random((cases, raters, 1)) > truth.cumsum(axis=-1)[:, :, :-1]).sum(axis=-1)
    return probs / probs.sum(axis=1, keepdims=True), Ratings(codes, tuple(f"r{r}" for r in range(raters)), NUM_CLASSES)


def ends(estimate):
    return estimate.value, estimate.low, estimate.high


def test_evaluate_one_vote_per_case_equals_labels_to_the_last_bit():
    probs, ratings = graded_cases(150, 1)
    labels = evaluate(probs=probs, y=ratings.codes[:, 0])
    votes = evaluate(probs=probs, y=ratings.counts)
    for name, estimate in labels.metrics.items():
        if estimate.limit is None:  # the reference of binned errors is simulated for labels
            assert ends(votes[name]) == ends(estimate), name
        assert votes[name].value == estimate.value, name
    assert [ends(record["auc"]) for record in votes.per_threshold] == [
        ends(record["auc"]) for record in labels.per_threshold
    ]


def test_evaluate_counts_cases_not_votes():
    probs, ratings = graded_cases(60, 3)
    evaluation = evaluate(probs=probs, y=ratings.counts, n_resamples=50)
    assert evaluation.rows == 60
    assert evaluation.raters.votes == 180
    assert evaluation.sums.total == pytest.approx(60)
    assert evaluation.sums.confusion.sum() == pytest.approx(60)


def test_evaluate_shares_and_counts_give_the_same_scores_but_shares_have_no_ceiling():
    probs, ratings = graded_cases(60, 4)
    counts = evaluate(probs=probs, y=ratings.counts, n_resamples=50)
    shares = evaluate(probs=probs, y=ratings.counts / 4, n_resamples=50)
    assert shares["rps"].value == pytest.approx(counts["rps"].value, rel=1e-12)
    assert shares.raters.ceilings == []
    assert "The number of raters is unknown" in " ".join(shares.notes)


def test_ceilings_equal_loops_over_pairs_of_votes():
    probs, ratings = graded_cases(20, 3)
    evaluation = evaluate(probs=probs, y=ratings.counts, n_resamples=0)
    same, distance, left_out, perfect = [], [], [], []
    for grades in ratings.codes:
        pairs = [(a, b) for i, a in enumerate(grades) for j, b in enumerate(grades) if i != j]
        same.append(np.mean([a == b for a, b in pairs]))
        distance.append(np.mean([abs(a - b) for a, b in pairs]))
        for i, grade in enumerate(grades):
            others = np.delete(grades, i)
            below = np.array([(others <= k).mean() for k in range(NUM_CLASSES - 1)])
            left_out.append(((below - (grade <= np.arange(NUM_CLASSES - 1))) ** 2).sum())
        # Unbiased variance of the indicators [grade <= k]
        indicators = grades[:, None] <= np.arange(NUM_CLASSES - 1)
        perfect.append(indicators.var(axis=0, ddof=1).sum())
    ceilings = {ceiling.metric: ceiling for ceiling in evaluation.raters.ceilings}
    assert ceilings["accuracy"].single_rater.value == pytest.approx(np.mean(same))
    assert ceilings["mae"].single_rater.value == pytest.approx(np.mean(distance))
    assert ceilings["rps"].single_rater.value == pytest.approx(np.mean(distance))
    assert ceilings["rps"].other_raters.value == pytest.approx(np.mean(left_out))
    assert ceilings["rps"].perfect_optimistic.value == pytest.approx(np.mean(perfect))
    assert ceilings["rps"].model.value == pytest.approx(evaluation["rps"].value)
    excess = evaluation.raters.distances["rps_excess"].value
    assert excess == pytest.approx(evaluation["rps"].value - np.mean(perfect))


def test_ceiling_of_accuracy_and_mae_scores_a_vote_by_the_other_votes():
    # Votes 0, 0, 2: without a 0 the others are 0 and 2 (a tie, median 0); without the 2 they are 0 and 0.
    evaluation = evaluate(probs=[[0.6, 0.2, 0.2], [0.1, 0.1, 0.8]], y=[[2, 0, 1], [0, 0, 3]], n_resamples=0)
    ceilings = {ceiling.metric: ceiling for ceiling in evaluation.raters.ceilings}
    assert ceilings["accuracy"].perfect_pessimistic.value == pytest.approx(((0.5 + 0.5 + 0) / 3 + 1) / 2)
    assert ceilings["accuracy"].perfect_optimistic.value == pytest.approx((2 / 3 + 1) / 2)
    assert ceilings["mae"].perfect_pessimistic.value == pytest.approx((2 / 3 + 0) / 2)
    assert ceilings["mae"].perfect_optimistic.value == pytest.approx((2 / 3 + 0) / 2)


def test_perfect_model_has_no_excess_for_any_number_of_votes():
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.ones(5), size=4000)
    for votes in (2, 10):
        evaluation = evaluate(probs=truth, y=rng.multinomial(votes, truth).astype(float), n_resamples=200)
        excess = evaluation.raters.distances["rps_excess"]
        assert excess.low < 0 < excess.high


def test_cases_with_one_vote_count_in_scores_but_not_in_ceilings():
    probs, ratings = graded_cases(40, 3)
    codes = ratings.codes.copy()
    codes[20:, 1:] = -1
    some = Ratings(codes, ratings.raters, NUM_CLASSES)
    evaluation = evaluate(Predictions(probs=probs, ratings=some), n_resamples=50)
    both = evaluate(probs=probs[:20], y=some.counts[:20], n_resamples=50)
    assert (evaluation.rows, evaluation.raters.paired_cases) == (40, 20)
    pairs = [part.raters.ceilings[0].single_rater.value for part in (evaluation, both)]
    assert pairs[0] == pytest.approx(pairs[1])
    alone = evaluate(probs=probs, y=np.eye(NUM_CLASSES)[ratings.codes[:, 0]], n_resamples=50)
    assert alone.raters.ceilings == []
    assert alone.raters.agreement is None


def test_intervals_resample_named_raters_that_differ():
    probs, ratings = graded_cases(200, 8, shift=0.6)
    named = evaluate(Predictions(probs=probs, ratings=ratings), n_resamples=200)
    unnamed = evaluate(probs=probs, y=ratings.counts, n_resamples=200)
    assert named["rps"].value == unnamed["rps"].value
    width = [e["rps"].high - e["rps"].low for e in (named, unnamed)]
    assert width[0] > 1.5 * width[1]
    assert "new cases and new raters" in " ".join(named.notes)
    assert "new cases with raters like these" in " ".join(unnamed.notes)
    assert named["unimodality"].low == pytest.approx(1)
    assert named["unimodality"].high <= 1


def test_few_named_raters_are_not_resampled():
    probs, ratings = graded_cases(100, 4, shift=0.6)
    named = evaluate(Predictions(probs=probs, ratings=ratings), n_resamples=100)
    unnamed = evaluate(probs=probs, y=ratings.counts, n_resamples=100)
    assert ends(named["rps"]) == ends(unnamed["rps"])


@pytest.mark.slow
@pytest.mark.parametrize("votes", [1, 2, 5, 10])
def test_intervals_of_scores_against_votes_cover_95_percent(votes):
    rng = np.random.default_rng(0)
    probs, _ = graded_cases(20_000, 1)
    truth = np.exp(1.4 * np.log(probs))
    truth /= truth.sum(axis=1, keepdims=True)
    exact = evaluate(probs=probs, y=truth, n_resamples=0)
    below = truth.cumsum(axis=1)[:, :-1]
    perfect = (below * (1 - below)).sum(axis=1).mean()
    inside = []
    for simulation in range(300):
        chosen = rng.integers(len(probs), size=300)
        counts = rng.multinomial(votes, truth[chosen]).astype(float)
        evaluation = evaluate(probs=probs[chosen], y=counts, n_resamples=300, random_state=simulation)
        row = [evaluation[name].low <= exact[name].value <= evaluation[name].high for name in ("rps", "nll", "mae")]
        if votes > 1:
            ceiling = evaluation.raters.ceilings[2].perfect_optimistic
            row.append(ceiling.low <= perfect <= ceiling.high)
        inside.append(row)
    # Three standard errors of 300 draws at 95 %, and the range of the issue, 93 to 97 %.
    assert np.all(np.abs(np.mean(inside, axis=0) - 0.95) < 0.02 + 3 * np.sqrt(0.95 * 0.05 / 300) / 2)


def test_split_cases_list_certain_models_and_split_raters():
    probs = [[0.98, 0.01, 0.01], [0.4, 0.3, 0.3], [0.1, 0.8, 0.1]]
    evaluation = evaluate(probs=probs, y=[[2, 0, 2], [4, 0, 0], [0, 4, 0]], n_resamples=0)
    assert [case.row for case in evaluation.raters.people_split] == [0]
    assert [case.row for case in evaluation.raters.model_split] == [1, 2]


def test_comparison_of_models_needs_the_same_votes():
    probs, ratings = graded_cases(50, 3)
    first = Predictions(probs=probs, y=ratings.counts)
    other = Predictions(probs=probs[:, ::-1].copy(), y=ratings.counts)
    difference = evaluate(first, compare={"reversed": other}, n_resamples=50).differences["reversed"]["rps"]
    assert difference.high < 0
    with pytest.raises(InputError, match="reversed: row 1 has another votes than in the first model"):
        evaluate(first, compare={"reversed": other.replace(y=ratings.counts[::-1].copy())}, n_resamples=0)
    with pytest.raises(InputError, match="reversed: has labels, but the first model has votes"):
        evaluate(first, compare={"reversed": other.with_median_labels()}, n_resamples=0)


def test_streamed_votes_equal_votes_in_memory(tmp_path, monkeypatch):
    probs, ratings = graded_cases(400, 3)
    subgroup = np.where(np.arange(400) % 3, "a", "b")
    written = Predictions(probs=probs, y=ratings.counts, subgroup=subgroup, cluster=np.arange(400) // 2)
    written.write(tmp_path / "votes.parquet")
    source = open_predictions(tmp_path / "votes.parquet")
    in_memory = evaluate(source, n_resamples=50)
    monkeypatch.setattr(statistics, "IN_MEMORY_CELLS", 500)
    streamed = evaluate(source, n_resamples=50)
    for name, estimate in in_memory.metrics.items():
        assert streamed[name].value == estimate.value, name
        assert streamed.subgroups["a"]["rps"].value == in_memory.subgroups["a"]["rps"].value
    assert streamed.rows == in_memory.rows == 400


def test_tally_of_votes_counts_cases_and_merges_exactly():
    probs, ratings = graded_cases(30, 3)
    whole, first, second = Tally(NUM_CLASSES), Tally(NUM_CLASSES), Tally(NUM_CLASSES)
    whole.update(probs, ratings.counts)
    first.update(probs[:10], ratings.counts[:10])
    second.update(probs[10:], ratings.counts[10:])
    assert first.merge(second).compute() == pytest.approx(whole.compute(), nan_ok=True, abs=0)
    assert whole.rows == 30


def test_impossible_votes_count_cases():
    evaluation = evaluate(probs=[[1.0, 0.0], [0.5, 0.5]], y=[[1, 2], [1, 1]], n_resamples=0)
    assert evaluation.impossible_rows == 1
    assert np.isinf(evaluation["nll"].value)


def test_evaluation_of_votes_as_json_and_report():
    probs, ratings = graded_cases(60, 3)
    evaluation = evaluate(Predictions(probs=probs, ratings=ratings, ids=range(60)), n_resamples=50)
    plain = json.loads(json.dumps(evaluation.to_dict()))["raters"]
    assert plain["votes"] == 180
    assert {ceiling["metric"] for ceiling in plain["ceilings"]} == {"accuracy", "mae", "rps", "brier"}
    page = evaluation.to_html(show_ids=True)
    assert "<h2>Raters</h2>" in page
    assert "Raters are split, the model is certain" in page
    assert "<h2>Raters</h2>" not in evaluate(probs=probs, y=ratings.codes[:, 0], n_resamples=50).to_html()
