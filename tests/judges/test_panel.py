"""`JudgePanel`: calibration of judges to human grades, prediction sets, escalation, and saved panels."""

import copy
import functools
import json
import math
import random
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from orcu import geometry, metrics
from orcu.errors import CalibrationWarning, InputError
from orcu.judges.escalation import design_effect, error_probability, escalation_threshold
from orcu.judges.grades import Grades
from orcu.judges.panel import JudgePanel, fit_for_prediction, is_inverted
from orcu.judges.votes import fit_prior, smooth_votes

WRITTEN_BY_0_2 = Path(__file__).parents[1] / "data" / "written_by_0_2" / "judges"
QUICK = "vector+projection"  # for tests that do not depend on the choice of the calibrator


def simulate(items=400, *, seed=0, noise=(0.8,), sharpness=6.0, groups=None, shift=0.0, raters=1, classes=5):
    """Human grades around a hidden quality, and overconfident judges that observe it with noise."""
    rng = np.random.default_rng(seed)
    quality = rng.uniform(-0.5, classes - 0.5, size=items)
    group = None if groups is None else rng.integers(groups, size=items)
    people = np.rint(quality[:, None] + rng.normal(scale=0.7, size=(items, raters))).clip(0, classes - 1).astype(int)
    lift = 0 if group is None else shift * group
    ratings = {}
    for k, scale in enumerate(noise):
        observed = quality + lift + rng.normal(scale=scale, size=items)
        ratings[f"judge{k}"] = geometry.probs(-sharpness * (np.arange(classes) - observed[:, None]) ** 2)
    human = np.stack([(people == k).mean(axis=1) for k in range(classes)], axis=1)
    columns = {} if group is None else {"subgroup": [f"g{number}" for number in group]}
    return Grades.from_arrays(f"1..{classes}", ratings, human=human, **columns), people[:, 0]


def select_judges(grades, *judges):
    return replace(grades, ratings={judge: grades.ratings[judge] for judge in judges})


def clusters(count, items):
    return np.array([f"q{k % count}" for k in range(items)], dtype=object)


def rps(panel, grades, y):
    return metrics.rps(panel.predict_proba(grades), y)


def test_fit_calibrates_overconfident_judge():
    grades, y = simulate(800)
    panel = JudgePanel().fit(grades[:400])
    probs, labels = panel.predict_proba(grades[400:]), y[400:]
    before = grades.ratings["judge0"][400:]
    assert metrics.unimodality(probs) == 1
    assert metrics.ece(probs, labels) < 0.5 * metrics.ece(before, labels)
    assert metrics.rps(probs, labels) < metrics.rps(before, labels)


def test_fit_pools_judges_and_drops_uninformative_one():
    grades, y = simulate(900, noise=(0.8, 0.8))
    noise = np.random.default_rng(1).dirichlet(np.ones(5), size=900)
    pooled = JudgePanel(calibrator=QUICK).fit(replace(grades, ratings=grades.ratings | {"noise": noise})[:500])
    single = JudgePanel(calibrator=QUICK).fit(select_judges(grades, "judge0")[:500])
    assert pooled.pool_.weights["noise"] == 0
    assert pooled.required_judges == list(pooled.calibrated_judges_) == ["judge0", "judge1"]
    assert sum(pooled.pool_.weights.values()) == pytest.approx(1)
    assert pooled.summary().endswith("noise")
    assert rps(pooled, grades[500:], y[500:]) < rps(single, select_judges(grades, "judge0")[500:], y[500:])


def test_fit_with_few_human_grades_averages_judges():
    grades, y = simulate(700, noise=(1.0, 1.0, 1.0), seed=8)
    averaged = JudgePanel(calibrator=QUICK).fit(grades[:30])
    assert averaged.averaged_
    assert averaged.summary().startswith("3 judges")
    assert averaged.required_judges == ["judge0", "judge1", "judge2"]
    single = JudgePanel(calibrator=QUICK).fit(select_judges(grades, "judge0")[:30])
    assert rps(averaged, grades[100:], y[100:]) < rps(single, select_judges(grades, "judge0")[100:], y[100:])
    with pytest.raises(InputError, match="^grades: .*judge2"):
        averaged.predict_proba(select_judges(grades, "judge0", "judge1"))


def test_predict_proba_pools_available_judges_of_each_item():
    grades, _ = simulate(300, noise=(0.8, 0.8))
    ratings = {name: values.copy() for name, values in grades.ratings.items()}
    ratings["judge1"][:30] = np.nan
    panel = JudgePanel(calibrator=QUICK).fit(replace(grades, ratings=ratings))
    probs = panel.predict_proba(replace(grades, ratings=ratings))
    assert np.isfinite(probs).all()
    ratings["judge0"][0] = np.nan
    with pytest.raises(InputError, match="^grades: item '1'"):
        panel.predict_proba(replace(grades, ratings=ratings))


@pytest.mark.slow
def test_fit_adjusts_subgroups_only_where_they_differ():
    grades, y = simulate(900, groups=2, shift=1.5, seed=3)
    adjusted = JudgePanel(calibrator=QUICK).fit(grades[:600])
    shared = JudgePanel(calibrator=QUICK).fit(replace(grades, subgroup=None)[:600])
    adjustment = adjusted.pool_.adjustment
    assert np.isfinite(adjustment.prior_strength)
    assert (
        adjustment.by_subgroup["g0"][1] > adjustment.by_subgroup["g1"][1]
    )  # judges are more lenient in the second group
    assert rps(adjusted, grades[600:], y[600:]) < rps(shared, replace(grades, subgroup=None)[600:], y[600:])
    equal, _ = simulate(600, groups=4, shift=0.0, seed=4)
    panel = JudgePanel(calibrator=QUICK).fit(equal)
    assert np.isinf(panel.pool_.adjustment.prior_strength)
    assert panel.pool_.adjustment.summary("items") in panel.summary()


def test_apply_notes_subgroups_without_human_grades():
    grades, _ = simulate(600, groups=2, shift=1.5, seed=3)
    panel = JudgePanel(calibrator=QUICK).fit(grades)
    new = replace(grades, subgroup=np.array(["other"] * 600, dtype=object))
    assert any(note.startswith("subgroups") and note.endswith("other") for note in panel.apply(new).notes)


@pytest.mark.slow
def test_apply_prediction_set_coverage():
    grades, y = simulate(2400, seed=5)
    panel = JudgePanel().fit(grades[:400])
    for alpha in (0.1, 0.3):
        predictions = panel.apply(grades[400:], alpha=alpha)
        inside = (predictions.low <= y[400:]) & (y[400:] <= predictions.high)
        assert inside.mean() > 1 - alpha - 0.04


def test_apply_prediction_sets_account_for_clusters():
    grades, _ = simulate(300, seed=5)
    independent = JudgePanel(calibrator=QUICK).fit(grades)
    clustered = JudgePanel(calibrator=QUICK).fit(replace(grades, cluster=clusters(30, 300)))
    sizes = [(p.high - p.low).mean() for p in (panel.apply(grades, alpha=0.1) for panel in (independent, clustered))]
    assert sizes[0] < sizes[1]
    few = JudgePanel(calibrator=QUICK).fit(replace(grades, cluster=clusters(5, 300)))
    predictions = few.apply(grades, alpha=0.1)
    assert (predictions.high - predictions.low == 4).all()
    assert any(note.startswith("5 clusters") and "alpha = 0.1" in note for note in predictions.notes)
    assert independent.apply(grades, alpha=0.1).low.tolist() == independent.apply(grades, alpha=0.1).low.tolist()


def test_apply_class_conditional_sets_cover_each_grade():
    """Marginal sets cover the rare grade 1 too rarely; class-conditional sets cover each grade within 3 points."""
    covered, counts = np.zeros((2, 5)), np.zeros(5)
    for seed in range(4):
        grades, y = simulate(2600, seed=seed, noise=(3.0,))
        rare = (y > 0) | (np.random.default_rng(seed).random(len(y)) < 0.4)
        grades, y = grades[rare], y[rare]
        panel = JudgePanel(calibrator=QUICK).fit(grades[:600])
        counts += np.bincount(y[600:], minlength=5)
        for flag in (False, True):
            predictions = panel.apply(grades[600:], class_conditional=flag)
            inside = (predictions.low <= y[600:]) & (y[600:] <= predictions.high)
            covered[int(flag)] += np.bincount(y[600:], weights=inside, minlength=5)
    marginal, conditional = covered / counts
    assert marginal.min() < 0.8
    assert conditional.min() > 0.87


def test_apply_class_conditional_names_grades_with_too_few_items():
    grades, y = simulate(200)
    few = np.flatnonzero(y == 0)[5:]
    panel = JudgePanel(calibrator=QUICK).fit(grades[np.setdiff1d(np.arange(200), few)])
    predictions = panel.apply(grades, class_conditional=True)
    assert (predictions.low == 0).all()
    assert any("1 (5 items)" in note and "alpha = 0.1" in note for note in predictions.notes)


def test_set_coverage_reports_each_grade():
    grades, y = simulate(400, noise=(1.5,))
    panel = JudgePanel(calibrator=QUICK).fit(grades)
    marginal, conditional = (panel.set_coverage(class_conditional=flag) for flag in (False, True))
    assert marginal.coverage == pytest.approx(0.9, abs=0.03)
    assert marginal.class_counts.tolist() == np.bincount(y).tolist()
    assert conditional.class_coverage.min() > marginal.class_coverage.min()


DATA = Path(__file__).parents[3] / "shared" / "data" / "judges" / "mllm_judge_logprobs.csv"  # outside the repository


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason=f"{DATA.name} is missing")
def test_apply_class_conditional_sets_cover_each_grade_of_real_judges():
    """Grades of held-out blocks of neighbours; the coverage of no grade is more than 3 points below the target."""
    import pandas as pd

    for _, table in pd.read_csv(DATA).groupby("judge"):
        probs = table[[f"p_{grade}" for grade in range(1, 6)]].to_numpy()
        grades, block = (
            Grades.from_arrays("1..5", {"judge": probs}, human=table["human"].tolist()),
            np.arange(len(table)) // 50,
        )
        covered, counts = np.zeros(5), np.zeros(5)
        for seed in range(4):
            rng = np.random.default_rng(seed)
            is_test = np.isin(block, rng.permutation(block.max() + 1)[: (block.max() + 1) // 2])
            panel = JudgePanel(calibrator=QUICK).fit(grades[rng.permutation(np.flatnonzero(~is_test))[:1000]])
            y = grades[is_test].human.argmax(axis=1)
            predictions = panel.apply(grades[is_test], class_conditional=True)
            inside = (predictions.low <= y) & (y <= predictions.high)
            covered += np.bincount(y, weights=inside, minlength=5)
            counts += np.bincount(y, minlength=5)
        assert (covered / counts).min() > 0.87


@pytest.mark.slow
def test_apply_escalation_bounds_the_error_rate():
    grades, y = simulate(3000, seed=6, noise=(0.4,))
    panel = JudgePanel().fit(grades[:600])
    predictions = panel.apply(grades[600:], max_error=0.35)
    accepted = ~predictions.escalate
    wrong = predictions.decision != y[600:]
    assert 0.05 < accepted.mean() < 0.95
    assert wrong[accepted].mean() < 0.35 < wrong[~accepted].mean()
    near = panel.apply(grades[600:], max_error=0.1, within=1)
    assert (np.abs(near.decision - y[600:]) > 1)[~near.escalate].mean() < 0.1
    none = panel.apply(grades[600:], max_error=0.0)
    assert none.escalate.all()
    assert any(note.startswith("all items are escalated") for note in none.notes)


@pytest.mark.parametrize(("low", "high"), [(0.201, 0.201), (0.0, 0.6), (0.1, 0.35)])
def test_escalation_threshold_breaks_its_promise_in_at_most_a_tenth_of_the_draws(low, high):
    """Error rates above and around the promise of 20 %; the rate up to a threshold is the mean of low and threshold."""
    rng, broken = np.random.default_rng(0), 0
    for _ in range(200):
        risk = np.full(100, low) + rng.uniform(0, high - low, size=100)
        threshold = escalation_threshold(risk, rng.random(100) < risk, 0.2, None)
        broken += threshold >= 0 and (low + min(threshold, high)) / 2 > 0.2
    assert broken <= 20


def test_escalation_threshold_of_certain_items_escalates_only_the_others():
    risk = np.where(np.arange(100) < 70, 0.01, 0.6)
    assert escalation_threshold(risk, np.arange(100) >= 80, 0.1, None) == 0.01
    assert escalation_threshold(risk, np.zeros(100, dtype=bool), 0.1, None) == math.inf
    assert escalation_threshold(risk, np.ones(100, dtype=bool), 0.1, None) == -1
    many = [f"q{k // 35}" for k in range(100)]  # three clusters have little information
    assert escalation_threshold(risk, np.arange(100) >= 80, 0.1, many) == -1


@pytest.mark.slow
@pytest.mark.parametrize(("max_error", "within"), [(0.2, 1), (0.45, 0)])
def test_apply_max_error_holds_for_panels_of_100_human_grades(max_error, within):
    """In 200 draws of 100 human grades, at most a tenth of the panels have a larger error rate on 20,000 items."""
    new, y = simulate(20_000, seed=999, noise=(1.0,))
    broken = 0
    for seed in range(200):
        panel = JudgePanel(calibrator=QUICK, random_state=seed).fit(simulate(100, seed=seed, noise=(1.0,))[0])
        predictions = panel.apply(new, max_error=max_error, within=within)
        wrong = (np.abs(predictions.decision - y) > within)[~predictions.escalate]
        broken += len(wrong) > 0 and wrong.mean() > max_error
    assert broken <= 20


def test_apply_rule_decides():
    grades, _ = simulate(300)
    panel = JudgePanel().fit(grades)
    probs = panel.predict_proba(grades)
    assert panel.apply(grades).decision.tolist() == probs.argmax(axis=1).tolist()
    median = (probs.cumsum(axis=1) >= 0.5 - 1e-12).argmax(axis=1)
    assert panel.apply(grades, rule="median").decision.tolist() == median.tolist()
    costs = np.ones((5, 5)) - np.eye(5)
    costs[:, 4] = -1
    assert set(panel.apply(grades, rule=costs).decision.tolist()) == {4}
    predictions = panel.apply(grades, max_error=0.5)
    table = predictions.to_arrow()
    assert table.column_names[:2] == ["item", "p_1"]
    assert table.column_names[-6:] == ["expected", "decision", "confidence", "set_low", "set_high", "escalate"]
    escalated = int(predictions.escalate.sum())
    assert repr(predictions) == f"PanelPredictions(items=300, levels='1, 2, 3, 4, 5', escalated={escalated})"


def test_fit_counts_every_rater():
    grades, _ = simulate(300, raters=5)
    panel = JudgePanel(calibrator=QUICK).fit(replace(grades, n_raters=np.full(300, 5)))
    assert "1,500 human grades of 300 items" in panel.notes_[0]
    mean = (panel.predict_proba(grades) @ grades.levels.values).mean()
    assert mean == pytest.approx(grades.human_mean.mean(), abs=0.1)


def test_fit_smooths_votes_by_fitted_prior():
    rng = np.random.default_rng(0)
    votes = np.stack([rng.multinomial(3, p) for p in rng.dirichlet(np.full(4, 0.5), size=500)]).astype(float)
    prior = fit_prior(votes)
    assert prior.sum() == pytest.approx(2.0, rel=0.3)
    assert fit_prior(np.eye(4)).tolist() == [0.5] * 4  # single votes do not identify it
    assert (smooth_votes(votes, prior) > 0).all()
    y = (rng.random((500, 1)) > smooth_votes(votes, prior).cumsum(axis=1)[:, :-1]).sum(axis=1)
    panel = JudgePanel(calibrator=QUICK).fit(Grades.from_arrays("0..3", {"vote": votes}, kind="votes", human=y))
    assert panel.calibrated_judges_["vote"].prior is not None


def test_fit_single_votes_matches_table_of_human_grades(tmp_path):
    rng = np.random.default_rng(0)
    conditional = np.array([[16, 4, 0, 0], [3, 5, 2, 0], [1, 3, 4, 2], [0, 1, 3, 6]]) / [[20], [10], [10], [10]]
    vote = rng.integers(4, size=3000)
    y = np.array([rng.choice(4, p=conditional[k]) for k in vote])
    grades = Grades.from_arrays("1..4", {"gpt": np.eye(4)[vote]}, kind="votes", human=y + 1)
    panel = JudgePanel().fit(grades[:200])
    counts = np.zeros((4, 4))
    np.add.at(counts, (vote[:200], y[:200]), 1)
    table = (counts + 0.5) / (counts + 0.5).sum(axis=1, keepdims=True)
    assert rps(panel, grades[200:], y[200:]) < metrics.rps(table[vote[200:]], y[200:]) + 0.002
    panel.save(tmp_path / "panel.json")
    loaded = JudgePanel.load(tmp_path / "panel.json")
    np.testing.assert_array_equal(loaded.predict_proba(grades), panel.predict_proba(grades))


def test_predict_proba_without_subgroup_raises_and_large_max_error_escalates_nothing():
    grades, _ = simulate(600, groups=2, shift=1.5, seed=3)
    panel = JudgePanel(calibrator=QUICK).fit(grades)
    with pytest.raises(InputError, match="^subgroup:"):
        panel.predict_proba(replace(grades, subgroup=None))
    assert not panel.apply(grades, max_error=0.95).escalate.any()


def test_design_effect_of_correlated_errors_in_clusters():
    grades, _ = simulate(400, seed=6, noise=(0.4,))
    order = np.argsort(grades.human_mean)  # clusters of items with similar grades
    cluster = np.empty(400, dtype=object)
    cluster[order] = [f"q{k // 40}" for k in range(400)]
    panel = JudgePanel(calibrator=QUICK).fit(replace(grades, cluster=cluster))
    wrong = panel.oof_probs_.argmax(axis=1) != panel.oof_grades_
    assert design_effect(wrong, panel.cluster_) >= design_effect(wrong, None) == 1.0


def test_load_saved_panel_gives_equal_predictions(tmp_path):
    grades, _ = simulate(200, noise=(0.8, 1.0), groups=2, shift=1.5)
    panel = JudgePanel(calibrator=QUICK).fit(grades)
    panel.save(tmp_path / "panel.json")
    loaded = JudgePanel.load(tmp_path / "panel.json")
    assert str(loaded) == str(panel)
    np.testing.assert_array_equal(loaded.predict_proba(grades), panel.predict_proba(grades))
    np.testing.assert_array_equal(loaded.predict_proba_out_of_fold(grades), panel.predict_proba_out_of_fold(grades))
    for field in ("low", "high", "escalate"):
        values = [getattr(fitted.apply(grades, max_error=0.4), field) for fitted in (panel, loaded)]
        np.testing.assert_array_equal(*values)


@pytest.mark.parametrize("name", ["pooled", "averaged_votes", "single_votes"])
def test_load_panel_written_by_0_2_gives_equal_predictions(name):
    expected = json.loads((WRITTEN_BY_0_2 / f"{name}.expected.json").read_text())
    panel = JudgePanel.load(WRITTEN_BY_0_2 / f"{name}.json")
    columns = {key: expected[key] for key in ("items", "subgroup", "cluster")}
    grades = Grades.from_arrays(panel.levels_, expected["ratings"], kind=expected["kind"], **columns)
    predictions = panel.apply(grades, rule="median", alpha=0.2, max_error=0.5, within=1)
    assert panel.averaged_ == expected["averaged"]
    assert predictions.probs.tolist() == expected["probs"]
    assert panel.predict_proba_out_of_fold(grades).tolist() == expected["held_out"]
    for field in ("decision", "low", "high", "escalate"):
        assert getattr(predictions, field).tolist() == expected[field]
    assert JudgePanel.from_dict(panel.to_dict()).predict_proba(grades).tolist() == expected["probs"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"judge_panel": 99}, "judge_panel: .*99"),
        ({"grades": ["1"]}, r"\(grades:"),
        ({"held_grades": [0]}, "held_grades does not fit"),
        ({"held_grades": [7] * 60}, "held_grades does not fit"),
        ({"held_probs": [[0.5, 0.5]] * 60}, "held_probs does not fit"),
        ({"held_probs": [[0.2] * 5] * 59 + [[1.0]]}, "held_probs does not fit"),
        ({"held_probs": [[0.2] * 5] * 59 + [[1, "x", 0, 0, 0]]}, r"\(held_probs"),
        ({"held_probs": [[1e308] * 5] * 60}, r"\(held_probs"),
        ({"held_probs": [[10**400] * 5] * 60}, r"\(held_probs"),
        ({"held_probs": [[float("nan")] * 5] * 60}, r"\(held_probs"),
        ({"held_probs": [[0.0] * 5] * 60}, "damaged"),
        ({"fold": [0] * 60}, "fold does not fit"),
        ({"fold": [10**400] * 60}, "fold does not fit"),
        ({"fold": [9] * 60}, "fold does not fit"),
        ({"items": ["a"] * 60}, "items does not fit"),
        ({"cluster": ["a"]}, "cluster does not fit"),
        ({"weights": {"other": 1.0}}, "weights does not fit"),
        ({"weights": {"judge0": 0.5}}, "weights does not fit"),
        ({"judges": ["a", "b"]}, "weights does not fit"),
        ({"rows": 3}, "items does not fit"),
        ({"kind": "votes"}, "prior or calibrator"),
        ({"grades": ["1", "2", "3", "4", "4"]}, "levels:"),
        ({"adjustments": {"a": [1e308, 10**400]}}, "adjustments"),
        ({"members": {}}, r"\(members:"),
        ({"weights": {"judge0": 7.0}}, r"\(weights.judge0:"),
    ],
)
def test_load_damaged_panel_raises(tmp_path, change, message):
    panel = JudgePanel(calibrator=QUICK).fit(simulate(60)[0])
    (tmp_path / "panel.json").write_text(json.dumps(panel.to_dict() | change))
    with pytest.raises(InputError, match=f"panel.json: .*{message}"):
        JudgePanel.load(tmp_path / "panel.json")
    (tmp_path / "panel.json").write_text("[]")
    with pytest.raises(InputError, match=r"panel.json: .*not a panel"):
        JudgePanel.load(tmp_path / "panel.json")


def test_load_panel_with_a_changed_number_raises(tmp_path):
    JudgePanel(calibrator=QUICK).fit(simulate(60)[0]).save(tmp_path / "panel.json")
    state = json.loads((tmp_path / "panel.json").read_text())
    state["held_probs"][3] = state["held_probs"][3][::-1]
    (tmp_path / "panel.json").write_text(json.dumps(state))
    with pytest.raises(InputError, match=r"panel.json: .*digest \(sha256\)"):
        JudgePanel.load(tmp_path / "panel.json")


def test_load_panel_with_a_number_of_many_digits_raises(tmp_path):
    (tmp_path / "panel.json").write_text('{"judge_panel": ' + "9" * 5000 + "}")
    with pytest.raises(InputError, match=r"panel.json: not valid JSON"):
        JudgePanel.load(tmp_path / "panel.json")


def parts(value, path=()):
    """Paths of all parts of plain data."""
    yield path
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from parts(part, (*path, key))


REPLACEMENTS = [None, True, -1, 0, 7, 0.5, 1e308, 10**400, math.nan, math.inf, "x", "", [], {}, [[]], [None], [[1e308]]]


def mutate(state, rng):
    """A copy with one part removed, repeated, shuffled, scaled or replaced; parts of all depths are as likely."""
    state, by_depth = copy.deepcopy(state), {}
    for path in parts(state):
        by_depth.setdefault(len(path), []).append(path)
    *above, key = rng.choice(by_depth[rng.choice([depth for depth in by_depth if depth])])
    parent = functools.reduce(lambda part, step: part[step], above, state)
    change = rng.randrange(5)
    if change == 0:
        del parent[key]
    elif change == 1 and isinstance(parent, list):
        parent.insert(0, copy.deepcopy(parent[key]))
    elif change == 2 and isinstance(parent[key], list):
        rng.shuffle(parent[key])
    elif change == 3 and isinstance(parent[key], int | float):
        parent[key] = rng.choice([-parent[key], parent[key] + 1, 1e308, -(10**400)])
    else:
        parent[key] = rng.choice(REPLACEMENTS)
    return state


@pytest.mark.slow
def test_load_mutated_panels_raise_an_input_error_or_predict_distributions(tmp_path):
    votes = Grades.from_arrays("1..5", {"judge0": np.rint(4 * simulate(60)[0].ratings["judge0"])}, kind="votes")
    votes = replace(votes, human=simulate(60)[0].human, n_raters=np.ones(60, dtype=np.int64))
    pooled = replace(simulate(120, noise=(0.8, 1.0), groups=2, shift=1.5)[0], cluster=clusters(12, 120))
    rng, refused = random.Random(0), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        panels = [(grades, JudgePanel().fit(grades).to_dict()) for grades in (simulate(60)[0], votes, pooled)]
    for _ in range(500):
        grades, state = rng.choice(panels)
        (tmp_path / "panel.json").write_text(json.dumps(mutate(state, rng)))
        try:
            with np.errstate(all="ignore"):  # numbers such as 1e308 overflow
                panel = JudgePanel.load(tmp_path / "panel.json")
                predictions = panel.apply(grades, max_error=0.3)
        except InputError:
            refused += 1
            continue
        assert predictions.probs.sum(axis=1) == pytest.approx(1)
        assert (predictions.low <= predictions.high).all()
        str(panel)
    assert refused > 250


@pytest.mark.parametrize(
    "use",
    [
        lambda panel, grades: panel.to_dict(),
        lambda panel, grades: panel.summary(),
        lambda panel, grades: panel.required_judges,
        lambda panel, grades: panel.save("panel.json"),
        lambda panel, grades: panel.predict_proba(grades),
        lambda panel, grades: panel.predict_proba_out_of_fold(grades),
        lambda panel, grades: panel.apply(grades),
        lambda panel, grades: panel.escalation_threshold(max_error=0.1),
    ],
)
def test_panel_before_fit_raises_not_fitted_error(use):
    with pytest.raises(NotFittedError, match="JudgePanel is not fitted"):
        use(JudgePanel(), simulate(60)[0])


def test_fit_for_prediction_panel_without_folds_raises_not_fitted_error():
    grades, _ = simulate(60)
    panel = fit_for_prediction(grades, calibrator=QUICK)
    for use in (panel.to_dict, lambda: panel.apply(grades), lambda: panel.predict_proba_out_of_fold(grades)):
        with pytest.raises(NotFittedError):
            use()


@pytest.mark.parametrize("kind", ["probs", "votes"])
def test_fit_inverted_scale_warns(kind):
    grades, _ = simulate(200)
    ratings = grades.ratings["judge0"][:, ::-1]
    ratings = ratings if kind == "probs" else np.eye(5)[ratings.argmax(axis=1)]
    inverted = replace(grades, ratings={"gpt": ratings}, kind=kind)
    with pytest.warns(
        CalibrationWarning, match=r"^gpt: its grades fall as human grades rise \(correlation -0.*inverted"
    ):
        panel = JudgePanel(calibrator=QUICK).fit(inverted)
    assert "gpt: negative correlation with the human grades" in panel.notes_


def test_fit_useless_judge_rarely_warns_of_an_inverted_scale():
    rng = np.random.default_rng(0)
    grades, _ = simulate(100)
    warned = [is_inverted(replace(grades, human=grades.human[rng.permutation(100)]), "judge0") for _ in range(300)]
    assert np.mean(warned) < 0.01


def test_predict_proba_out_of_fold_of_fitted_items():
    grades, y = simulate(200, sharpness=1.0)
    grades = replace(grades, n_raters=np.where(np.arange(200) < 100, 1, 0))
    panel = JudgePanel(calibrator="dirichlet+projection").fit(grades)
    out_of_fold, in_sample = panel.predict_proba_out_of_fold(grades), panel.predict_proba(grades)
    np.testing.assert_array_equal(out_of_fold[:100], panel.oof_probs_)
    assert metrics.nll(out_of_fold[:100], y[:100]) > metrics.nll(in_sample[:100], y[:100])


def test_predict_proba_out_of_fold_of_items_in_fitted_clusters():
    grades, _ = simulate(120)
    cluster = clusters(12, 120)
    grades = replace(grades, cluster=cluster, n_raters=np.where(np.arange(120) < 60, 1, 0))
    panel = JudgePanel(calibrator=QUICK).fit(grades)
    fold = panel.fold_[panel.cluster_.index(cluster[100])]
    expected = panel._predict(panel.fold_judges_[fold], grades)[100]
    np.testing.assert_array_equal(panel.predict_proba_out_of_fold(grades)[100], expected)


def test_fit_with_few_or_equal_human_grades_raises():
    grades, _ = simulate(60)
    with pytest.raises(InputError, match="^human: 5 rated items"):
        JudgePanel().fit(replace(grades, n_raters=np.where(np.arange(60) < 5, 1, 0)))
    with pytest.raises(InputError, match="^human: all human grades are 4"):
        JudgePanel().fit(replace(grades, human=np.tile(np.eye(5)[3], (60, 1))))


def test_fit_constant_judge_warns_and_predicts_frequencies():
    grades, y = simulate(200)
    constant = replace(grades, ratings={"four": np.tile([0.01, 0.01, 0.01, 0.96, 0.01], (200, 1))})
    with pytest.warns(CalibrationWarning, match="^four:"):
        panel = JudgePanel().fit(constant)
    assert panel.predict_proba(constant)[0] == pytest.approx(np.bincount(y) / 200, abs=0.06)


def test_fit_level_without_human_grades_warns():
    grades, y = simulate(200)
    with pytest.warns(CalibrationWarning, match="^human: no human grade is 5"):
        JudgePanel().fit(replace(grades, human=np.eye(5)[np.minimum(y, 3)]))


def test_predict_proba_with_other_levels_judges_or_kind_raises():
    grades, _ = simulate(60)
    panel = JudgePanel().fit(grades)
    with pytest.raises(InputError, match="^grades: the levels are 0, 1, 2, 3, 4"):
        panel.predict_proba(Grades.from_arrays("0..4", grades.ratings))
    with pytest.raises(InputError, match="^grades: no ratings of judge0"):
        panel.predict_proba(Grades.from_arrays("1..5", {"other": grades.ratings["judge0"]}))
    with pytest.raises(InputError, match="^grades: expected probabilities.*got votes"):
        panel.predict_proba(Grades.from_arrays("1..5", {"judge0": np.ones((3, 5))}, kind="votes"))
    with pytest.raises(InputError, match="^JudgePanel is not fitted"):
        JudgePanel().predict_proba(grades)
    with pytest.raises(InputError, match="^within:"):
        panel.apply(grades, max_error=0.1, within=4)
    with pytest.raises(InputError, match="^max_error:"):
        panel.apply(grades, max_error=1.5)


def test_fit_keeps_clusters_in_one_fold_and_rejects_a_single_cluster():
    grades, _ = simulate(120)
    cluster = np.array([f"q{k // 10}" for k in range(120)], dtype=object)
    panel = JudgePanel().fit(replace(grades, cluster=cluster))
    folds = {name: set(panel.fold_[cluster == name].tolist()) for name in set(cluster.tolist())}
    assert all(len(numbers) == 1 for numbers in folds.values())
    with pytest.raises(InputError, match="^cluster:"):
        JudgePanel().fit(replace(grades, cluster=np.array(["q"] * 120, dtype=object)))


def test_fit_for_prediction_equals_fit():
    grades, _ = simulate(150)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        panel = fit_for_prediction(grades)
    np.testing.assert_array_equal(panel.predict_proba(grades), JudgePanel().fit(grades).predict_proba(grades))


def test_repr_of_panel_names_options_judges_and_summary():
    assert repr(JudgePanel(cv=3)) == str(JudgePanel(cv=3)) == "JudgePanel(calibrator='auto', cv=3, random_state=0)"
    grades, _ = simulate(60)
    for panel in (JudgePanel(calibrator=QUICK).fit(grades), fit_for_prediction(grades, calibrator=QUICK)):
        assert "judges=['judge0'], levels='1, 2, 3, 4, 5'" in repr(panel)
        assert str(panel).endswith(panel.summary())


def test_error_probability_is_the_mass_beyond_within():
    probs = np.array([[0.1, 0.2, 0.4, 0.3]])
    assert error_probability(probs, np.array([2]), 0)[0] == pytest.approx(0.6)
    assert error_probability(probs, np.array([2]), 1)[0] == pytest.approx(0.1)
