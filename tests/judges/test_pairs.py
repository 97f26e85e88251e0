"""`rank_pairs`: position bias, calibration, strengths and their intervals in simulated preferences."""

import json

import numpy as np
import pandas as pd
import pytest

from orcu import metrics
from orcu.errors import InputError
from orcu.judges import Preferences, rank_pairs, read_preferences
from orcu.judges.bradley_terry import outcome_scores
from orcu.judges.preferences import calibrate, combine_orders
from orcu.report.pairs import build

STRENGTHS = np.array([-0.6, -0.2, 0.2, 0.6])
LEVELS = {3: "A,tie,B", 5: "A>>B,A>B,tie,B>A,B>>A"}


def simulate(seed, *, prompts=60, outcomes=3, human=0.4, orders=2, position=0.8, own=0.0, kind="votes"):
    """Preferences of people by Davidson's model, and of a noisy judge that prefers a position and the first system."""
    rng = np.random.default_rng(seed)
    scores, rows, ratings, people = outcome_scores(outcomes), [], [], []
    for prompt in range(prompts):
        for s in range(4):
            for t in range(s + 1, 4):
                weights = np.exp(scores * (STRENGTHS[s] - STRENGTHS[t]) + 0.3 * (np.abs(scores) < 0.5))
                outcome = rng.choice(outcomes, p=weights / weights.sum())
                latent = 4 * scores[outcome] + rng.logistic() + own * (s == 0)
                is_graded = rng.random() < human
                for swapped in rng.permutation(2)[:orders]:
                    seen = position + 0.3 * rng.logistic() + (-latent if swapped else latent)
                    probs = np.exp(-((seen - np.linspace(2, -2, outcomes)) ** 2)) + 1e-9
                    rows.append((prompt, *("abcd"[k] for k in ((t, s) if swapped else (s, t)))))
                    ratings.append(np.eye(outcomes)[probs.argmax()] if kind == "votes" else probs / probs.sum())
                    chosen = np.eye(outcomes)[outcomes - 1 - outcome if swapped else outcome]
                    people.append(chosen if is_graded else np.full(outcomes, np.nan))
    item, first, second = zip(*rows, strict=True)
    columns = {"item": item, "first": first, "second": second, kind: ratings}
    return Preferences.from_arrays(LEVELS[outcomes], **columns, human=people if human else None)


@pytest.fixture(scope="module")
def ranking():
    return rank_pairs(simulate(0, prompts=150), n_resamples=100)


def test_rank_pairs_orders_the_systems_and_finds_the_position_bias(ranking):
    assert [row.system for row in ranking.systems] == ["d", "c", "b", "a"]
    assert sum(row.strength for row in ranking.systems) == pytest.approx(0)
    assert all(row.low < row.strength < row.high for row in ranking.systems)
    assert ranking.position_bias.low > 0.5
    assert str(ranking.position_bias) in ranking.notes
    assert "Position bias towards the first answer" in str(ranking)
    assert ranking["d"].ranks[0] > 0.9


def test_position_bias_matches_its_definition_and_is_absent_without_one():
    preferences = simulate(0, human=0)
    bias = rank_pairs(preferences, n_resamples=100).position_bias
    scores = preferences.shares @ [1, 0.5, 0]
    assert bias.first_score == pytest.approx(scores.mean())  # every comparison has both orders
    table = pd.DataFrame(
        {"item": preferences.item, "first": preferences.first, "second": preferences.second, "s": scores}
    )
    swapped = table.rename(columns={"first": "second", "second": "first"})
    merged = table.merge(swapped, on=["item", "first", "second"])
    assert bias.inconsistent == pytest.approx((merged["s_x"] != 1 - merged["s_y"]).mean())
    fair = rank_pairs(simulate(0, human=0, position=0.0), n_resamples=100).position_bias
    assert fair.low < 0.5 < fair.high
    assert str(fair).startswith("No significant position bias")


def test_calibrated_preferences_do_not_depend_on_the_names_of_the_systems():
    preferences = simulate(1, kind="probs", outcomes=5)
    renamed = {"a": "z", "b": "y", "c": "x", "d": "w"}  # the order of the alphabet is reversed
    names = {
        role: np.array([renamed[name] for name in getattr(preferences, role)], dtype=object)
        for role in ("first", "second")
    }
    other = Preferences(**vars(preferences) | names)
    one, reversed_probs = (calibrate(combine_orders(each)) for each in (preferences, other))
    assert one == pytest.approx(reversed_probs[:, ::-1], abs=1e-4)
    assert one.sum(axis=1) == pytest.approx(1)


def test_calibration_improves_the_score_on_unseen_comparisons():
    comparisons = combine_orders(simulate(2, prompts=100, human=0.5))
    unseen = simulate(2, prompts=100, human=1.0)  # the same draws with all human preferences
    truth = combine_orders(unseen).human.argmax(axis=1)
    before, after = (metrics.rps(probs, truth) for probs in (comparisons.probs, calibrate(comparisons)))
    assert after < before


def test_rank_pairs_of_one_order_estimates_the_position_in_the_model():
    ranking = rank_pairs(simulate(3, human=0, orders=1), n_resamples=0)
    assert ranking.position_bias is None
    assert ranking.model.position > 0.2
    assert any("an effect of the position is part of the model" in note for note in ranking.notes)
    assert np.isnan(ranking.systems[0].low)
    json.dumps(ranking.to_dict(), allow_nan=False)


def test_rank_pairs_of_one_order_with_one_system_always_first_warns():
    votes = np.eye(3)[[0, 1, 2, 0] * 5]
    preferences = Preferences.from_arrays(
        "A,tie,B", item=range(20), first=["old"] * 20, second=["new"] * 20, votes=votes
    )
    assert "cannot be distinguished" in rank_pairs(preferences, n_resamples=0).notes[-1]


def test_read_preferences_reads_a_table_and_counts_orders(tmp_path):
    frame = pd.DataFrame(
        {
            "prompt": ["007", "007", "7", "7"],
            "x": ["old", "new", "old", "new"],
            "y": ["new", "old", "new", "old"],
            "verdict": ["B", "A", "tie", "tie"],
            "person": ["B", None, "tie", None],
        }
    )
    frame.to_csv(tmp_path / "pairs.csv", index=False)
    options = {"levels": "A,tie,B", "first": "x", "second": "y", "item": "prompt", "human": "person"}
    preferences = read_preferences(tmp_path / "pairs.csv", grade="verdict", **options)
    comparisons = combine_orders(preferences)
    assert comparisons.item.tolist() == ["007", "7"]  # two prompts
    assert comparisons.first.tolist() == ["new", "new"]
    assert comparisons.probs.tolist() == [[1, 0, 0], [0, 1, 0]]
    assert comparisons.human.tolist() == [[1, 0, 0], [0, 1, 0]]
    assert comparisons.order.tolist() == [0, 0]


def test_rank_pairs_page_is_escaped_and_deterministic(ranking):
    preferences = simulate(0, prompts=15)
    names = {
        role: np.array([f"<b>{n}</b>" for n in getattr(preferences, role)], dtype=object)
        for role in ("first", "second")
    }
    result = rank_pairs(Preferences(**vars(preferences) | names), n_resamples=50)
    page = build(result)
    assert page == build(result)
    assert "<b>a" not in page
    assert "&lt;b&gt;a&lt;/b&gt;" in page
    assert page.count('<svg role="img"') == 1
    plain = ranking.to_dict()
    assert [row["system"] for row in plain["systems"]] == ["d", "c", "b", "a"]
    assert sum(plain["pairs"][0]["probs"]) == pytest.approx(1)


def test_preferences_refuse_invalid_rows():
    columns = {"item": [1, 2], "first": ["a", "b"], "second": ["b", "b"]}
    with pytest.raises(InputError, match="row 2 compares 'b' with itself"):
        Preferences.from_arrays("A,tie,B", **columns, votes=np.eye(3)[:2])
    columns["second"] = ["b", "a"]
    with pytest.raises(InputError, match="give one of the two"):
        Preferences.from_arrays("A,tie,B", **columns)
    with pytest.raises(InputError, match="expected 2 to 7 outcomes"):
        Preferences.from_arrays("1..8", **columns, votes=np.eye(8)[:2])
    preferences = Preferences.from_arrays("A,tie,B", **columns | {"item": [1, 1]}, votes=np.eye(3)[:2], cluster=[1, 2])
    with pytest.raises(InputError, match=r"row 1 \(1\) and row 2 \(2\) are of the same prompt"):
        combine_orders(preferences)
    few = Preferences.from_arrays("A,tie,B", **columns, votes=np.eye(3)[:2], human=["A", None])
    with pytest.raises(InputError, match="1 comparisons in 1 prompts have a human preference"):
        rank_pairs(few)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"own": 1.0}, {"outcomes": 5, "kind": "probs"}, {"human": 1.0}])
def test_intervals_of_strengths_cover_also_if_the_judge_prefers_a_system(options):
    covered = []
    for seed in range(40):
        ranking = rank_pairs(simulate(seed, **options), n_resamples=100)
        rows = [ranking[name] for name in "abcd"]
        covered += [row.low <= truth <= row.high for row, truth in zip(rows, STRENGTHS, strict=True)]
    assert np.mean(covered) >= 0.9


@pytest.mark.parametrize("levels", ["A,B,tie", "Tie,A,B", "A,B,draw"])
def test_preferences_with_a_tie_at_an_end_are_refused(levels):
    with pytest.raises(InputError, match="a tie lies in the middle"):
        Preferences.from_arrays(levels, votes=np.eye(3), first=["x"] * 3, second=["y"] * 3, item=["1", "2", "3"])
