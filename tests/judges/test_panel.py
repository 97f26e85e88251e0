"""Judges calibrated to people."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

from orcu import geometry, metrics
from orcu.errors import CalibrationWarning, InputError
from orcu.judges.agreement import agreement, krippendorff
from orcu.judges.grades import Grades
from orcu.judges.panel import JudgePanel, fitted_map, risk
from orcu.judges.votes import fitted_prior, smoothed


def world(items=400, *, seed=0, noise=(0.8,), sharpness=6.0, groups=None, shift=0.0, raters=1, classes=5):
    """People's grades around a hidden quality, and judges that hear it with noise and are far too sure."""
    rng = np.random.default_rng(seed)
    quality = rng.uniform(-0.5, classes - 0.5, size=items)
    group = None if groups is None else rng.integers(groups, size=items)
    people = np.rint(quality[:, None] + rng.normal(scale=0.7, size=(items, raters))).clip(0, classes - 1).astype(int)
    lift = 0 if group is None else shift * group
    said = {}
    for k, scale in enumerate(noise):
        heard = quality + lift + rng.normal(scale=scale, size=items)
        said[f"judge{k}"] = geometry.probs(-sharpness * (np.arange(classes) - heard[:, None]) ** 2)
    human = np.stack([(people == k).mean(axis=1) for k in range(classes)], axis=1)
    columns = {} if group is None else {"group": [f"g{one}" for one in group]}
    return Grades.of(f"1..{classes}", said, human=human, **columns), people[:, 0]


QUICK = "vector+projection"  # where the choice of a calibrator is not what is tested


def rps(panel, grades, y):
    return metrics.rps(panel.predict_proba(grades), y)


def test_a_judge_that_is_too_sure_is_calibrated():
    grades, y = world(800)
    panel = JudgePanel().fit(grades[:400])
    probs, new = panel.predict_proba(grades[400:]), y[400:]
    before = grades.said["judge0"][400:]
    assert metrics.unimodality(probs) == 1
    assert metrics.ece(probs, new) < 0.5 * metrics.ece(before, new)
    assert metrics.rps(probs, new) < metrics.rps(before, new)


def test_judges_are_pooled_and_one_that_knows_nothing_is_left_out():
    grades, y = world(900, noise=(0.8, 0.8))
    deaf = replace(grades, said=grades.said | {"deaf": np.random.default_rng(1).dirichlet(np.ones(5), size=900)})
    together = JudgePanel(calibrator=QUICK).fit(deaf[:500])
    alone = JudgePanel(calibrator=QUICK).fit(replace(grades, said={"judge0": grades.said["judge0"]})[:500])
    assert together.pooling_.weights["deaf"] == 0
    assert set(together.members_) == {"judge0", "judge1"}
    assert together.judges == ["judge0", "judge1"]
    assert sum(together.pooling_.weights.values()) == pytest.approx(1)
    only = replace(grades, said={"judge0": grades.said["judge0"]})[500:]
    assert rps(together, grades[500:], y[500:]) < rps(alone, only, y[500:])


def test_of_few_human_grades_judges_are_averaged_before_they_are_calibrated():
    grades, y = world(700, noise=(1.0, 1.0, 1.0), seed=8)
    few = JudgePanel(calibrator=QUICK).fit(grades[:30])
    assert few.averaged_
    assert "3 judges are averaged" in few.described()
    assert few.judges == ["judge0", "judge1", "judge2"]
    one = JudgePanel(calibrator=QUICK).fit(replace(grades, said={"judge0": grades.said["judge0"]})[:30])
    only = replace(grades, said={"judge0": grades.said["judge0"]})[100:]
    assert rps(few, grades[100:], y[100:]) < rps(one, only, y[100:])
    with pytest.raises(InputError, match="nothing by judge2"):
        few.predict_proba(replace(grades, said={"judge0": grades.said["judge0"], "judge1": grades.said["judge1"]}))


def test_votes_of_several_judges_are_added_up():
    votes = {"a": [[1, 0], [0, 2]], "b": [[0, 3], [np.nan, np.nan]]}
    together = Grades.of("0..1", votes, kind="votes").together()
    assert next(iter(together.said.values())).tolist() == [[1, 3], [0, 2]]


def test_an_item_that_one_judge_was_silent_on_is_pooled_from_the_others():
    grades, _ = world(300, noise=(0.8, 0.8))
    silent = {name: values.copy() for name, values in grades.said.items()}
    silent["judge1"][:30] = np.nan
    panel = JudgePanel(calibrator=QUICK).fit(replace(grades, said=silent))
    probs = panel.predict_proba(replace(grades, said=silent))
    assert np.isfinite(probs).all()
    silent["judge0"][0] = np.nan
    with pytest.raises(InputError, match="said anything of item '1'"):
        panel.predict_proba(replace(grades, said=silent))


@pytest.mark.slow
def test_groups_get_a_turn_where_they_differ_and_none_where_they_do_not():
    apart, y = world(900, groups=2, shift=1.5, seed=3)
    turned = JudgePanel(calibrator=QUICK).fit(apart[:600])
    common = JudgePanel(calibrator=QUICK).fit(replace(apart, group=None)[:600])
    assert np.isfinite(turned.pooling_.turns.pull)
    turns = turned.pooling_.turns.by_group
    assert turns["g0"][1] > turns["g1"][1]  # the second is graded too mildly
    assert rps(turned, apart[600:], y[600:]) < rps(common, replace(apart, group=None)[600:], y[600:])
    alike, _ = world(600, groups=4, shift=0.0, seed=4)
    panel = JudgePanel(calibrator=QUICK).fit(alike)
    assert np.isinf(panel.pooling_.turns.pull)
    assert "one map for all" in panel.described()


def test_a_group_without_human_grades_is_judged_like_all_and_said_so():
    apart, _ = world(600, groups=2, shift=1.5, seed=3)
    panel = JudgePanel(calibrator=QUICK).fit(apart)
    new = replace(apart, group=np.array(["other"] * 600, dtype=object))
    assert any("judged like all: other" in note for note in panel.apply(new).notes)


@pytest.mark.slow
def test_sets_hold_the_human_grade_as_often_as_promised():
    grades, y = world(2400, seed=5)
    panel = JudgePanel().fit(grades[:400])
    for alpha in (0.1, 0.3):
        verdicts = panel.apply(grades[400:], alpha=alpha)
        inside = (verdicts.low <= y[400:]) & (y[400:] <= verdicts.high)
        assert inside.mean() > 1 - alpha - 0.04


def test_sets_know_that_clusters_are_fewer_than_items():
    grades, _ = world(300, seed=5)
    alone = JudgePanel(calibrator=QUICK).fit(grades)
    prompts = np.array([f"q{k % 30}" for k in range(300)], dtype=object)
    together = JudgePanel(calibrator=QUICK).fit(replace(grades, cluster=prompts))
    sizes = [(v.high - v.low).mean() for v in (p.apply(grades, alpha=0.1) for p in (alone, together))]
    assert sizes[0] < sizes[1]
    few = JudgePanel(calibrator=QUICK).fit(
        replace(grades, cluster=np.array([f"q{k % 5}" for k in range(300)], dtype=object))
    )
    verdicts = few.apply(grades, alpha=0.1)
    assert (verdicts.high - verdicts.low == 4).all()
    assert any("5 clusters with human grades are too few" in note for note in verdicts.notes)


@pytest.mark.slow
def test_what_is_not_sent_to_a_person_is_wrong_as_rarely_as_promised():
    grades, y = world(3000, seed=6, noise=(0.4,))
    panel = JudgePanel().fit(grades[:600])
    some = panel.apply(grades[600:], error=0.25)
    kept = ~some.escalate
    wrong = some.decision != y[600:]
    assert 0.05 < kept.mean() < 0.95
    assert wrong[kept].mean() < 0.27 < wrong[~kept].mean()
    near = panel.apply(grades[600:], error=0.05, within=1)
    assert (np.abs(near.decision - y[600:]) > 1)[~near.escalate].mean() < 0.06
    none = panel.apply(grades[600:], error=0.0)
    assert none.escalate.all()
    assert any("all go to a person" in note for note in none.notes)


def test_decisions_follow_the_cost():
    grades, _ = world(300)
    panel = JudgePanel().fit(grades)
    probs = panel.predict_proba(grades)
    assert panel.apply(grades).decision.tolist() == probs.argmax(axis=1).tolist()
    middle = (probs.cumsum(axis=1) >= 0.5 - 1e-12).argmax(axis=1)
    assert panel.apply(grades, cost="absolute").decision.tolist() == middle.tolist()
    always_five = np.ones((5, 5)) - np.eye(5)
    always_five[:, 4] = -1
    assert set(panel.apply(grades, cost=always_five).decision.tolist()) == {4}
    table = panel.apply(grades, error=0.5).to_arrow()
    assert table.column_names[:2] == ["item", "p_1"]
    assert table.column_names[-6:] == ["expected", "decision", "confidence", "low", "high", "escalate"]


def test_several_raters_count_with_each_of_their_grades():
    grades, _ = world(300, raters=5)
    panel = JudgePanel(calibrator=QUICK).fit(replace(grades, raters=np.full(300, 5)))
    assert "1,500 human grades of 300 items" in panel.notes_[0]
    mean = (panel.predict_proba(grades) @ grades.scale.values).mean()
    assert mean == pytest.approx(grades.human_mean.mean(), abs=0.1)


def test_votes_are_smoothed_by_their_own_prior():
    rng = np.random.default_rng(0)
    votes = np.stack([rng.multinomial(3, p) for p in rng.dirichlet(np.full(4, 0.5), size=500)]).astype(float)
    prior = fitted_prior(votes)
    assert prior.sum() == pytest.approx(2.0, rel=0.3)
    assert fitted_prior(np.eye(4)).tolist() == [0.5] * 4  # single votes tell nothing of it
    assert (smoothed(votes, prior) > 0).all()
    y = (rng.random((500, 1)) > smoothed(votes, prior).cumsum(axis=1)[:, :-1]).sum(axis=1)
    panel = JudgePanel(calibrator=QUICK).fit(Grades.of("0..3", {"vote": votes}, kind="votes", human=y))
    assert panel.members_["vote"].prior is not None


def test_single_grades_are_as_good_as_a_table_of_them(tmp_path):
    rng = np.random.default_rng(0)
    given = np.array([[16, 4, 0, 0], [3, 5, 2, 0], [1, 3, 4, 2], [0, 1, 3, 6]]) / [[20], [10], [10], [10]]
    vote = rng.integers(4, size=3000)
    y = np.array([rng.choice(4, p=given[k]) for k in vote])
    grades = Grades.of("1..4", {"gpt": np.eye(4)[vote]}, kind="votes", human=y + 1)
    panel = JudgePanel().fit(grades[:200])
    counts = np.zeros((4, 4))
    np.add.at(counts, (vote[:200], y[:200]), 1)
    table = (counts + 0.5) / (counts + 0.5).sum(axis=1, keepdims=True)
    assert rps(panel, grades[200:], y[200:]) < metrics.rps(table[vote[200:]], y[200:]) + 0.002
    panel.save(tmp_path / "panel.json")
    again = JudgePanel.load(tmp_path / "panel.json")
    np.testing.assert_array_equal(again.predict_proba(grades), panel.predict_proba(grades))


def test_a_panel_with_groups_asks_for_them_and_nothing_is_sent_to_a_person_where_all_is_well():
    apart, _ = world(600, groups=2, shift=1.5, seed=3)
    panel = JudgePanel(calibrator=QUICK).fit(apart)
    with pytest.raises(InputError, match="name the column of groups"):
        panel.predict_proba(replace(apart, group=None))
    assert not panel.apply(apart, error=0.95).escalate.any()


def test_items_that_err_together_tell_less(tmp_path):
    grades, _ = world(400, seed=6, noise=(0.4,))
    order = np.argsort(grades.human_mean)  # prompts of items that are graded alike
    prompts = np.empty(400, dtype=object)
    prompts[order] = [f"q{k // 40}" for k in range(400)]
    alone = JudgePanel(calibrator=QUICK).fit(grades)
    together = JudgePanel(calibrator=QUICK).fit(replace(grades, cluster=prompts))
    wrong = np.abs(together.held_probs_.argmax(axis=1) - together.held_grades_) > 0
    assert together._design_effect(wrong) >= alone._design_effect(wrong) == 1.0


def test_a_saved_panel_says_the_same(tmp_path):
    grades, _ = world(200, noise=(0.8, 1.0), groups=2, shift=1.5)
    panel = JudgePanel(calibrator=QUICK).fit(grades)
    panel.save(tmp_path / "panel.json")
    again = JudgePanel.load(tmp_path / "panel.json")
    np.testing.assert_array_equal(again.predict_proba(grades), panel.predict_proba(grades))
    np.testing.assert_array_equal(again.held_out(grades), panel.held_out(grades))
    for field in ("low", "high", "escalate"):
        one, two = (getattr(p.apply(grades, error=0.4), field) for p in (panel, again))
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"judge_panel": 99}, "reads version"),
        ({"grades": ["1"]}, "damaged"),
        ({"held_grades": [0]}, "a row for each fitted item"),
        ({"members": {}}, "damaged"),
        ({"weights": {"judge0": 7.0}}, "damaged"),
    ],
)
def test_a_damaged_panel_is_refused(tmp_path, change, words):
    panel = JudgePanel(calibrator=QUICK).fit(world(60)[0])
    (tmp_path / "panel.json").write_text(json.dumps(panel.to_dict() | change))
    with pytest.raises(InputError, match=words):
        JudgePanel.load(tmp_path / "panel.json")
    (tmp_path / "panel.json").write_text("[]")
    with pytest.raises(InputError, match="no panel of judges"):
        JudgePanel.load(tmp_path / "panel.json")


def test_predictions_of_fitted_items_can_be_had_from_maps_that_have_not_seen_them():
    grades, y = world(200, sharpness=1.0)
    known = replace(grades, raters=np.where(np.arange(200) < 100, 1, 0))
    panel = JudgePanel(calibrator="dirichlet+projection").fit(known)
    held, fitted = panel.held_out(known), panel.predict_proba(known)
    np.testing.assert_array_equal(held[:100], panel.held_probs_)
    assert metrics.nll(held[:100], y[:100]) > metrics.nll(fitted[:100], y[:100])


def test_items_of_a_fitted_cluster_are_predicted_by_maps_that_have_not_seen_it():
    grades, _ = world(120)
    prompts = np.array([f"q{k % 12}" for k in range(120)], dtype=object)
    known = replace(grades, cluster=prompts, raters=np.where(np.arange(120) < 60, 1, 0))
    panel = JudgePanel(calibrator=QUICK).fit(known)
    held = panel.held_out(known)
    fold = panel.fold_[panel.cluster_.index(prompts[100])]
    np.testing.assert_array_equal(held[100], panel._probs(panel.fold_members_[fold], known)[100])


def test_too_few_or_equal_human_grades_are_refused():
    grades, _ = world(60)
    with pytest.raises(InputError, match="5 judged items have a human grade"):
        JudgePanel().fit(replace(grades, raters=np.where(np.arange(60) < 5, 1, 0)))
    with pytest.raises(InputError, match="every human grade is 4"):
        JudgePanel().fit(replace(grades, human=np.tile(np.eye(5)[3], (60, 1))))


def test_a_judge_that_always_says_the_same_is_warned_of_and_gives_the_frequencies():
    grades, y = world(200)
    always = replace(grades, said={"four": np.tile([0.01, 0.01, 0.01, 0.96, 0.01], (200, 1))})
    with pytest.warns(CalibrationWarning, match="four says the same of every item"):
        panel = JudgePanel().fit(always)
    assert panel.predict_proba(always)[0] == pytest.approx(np.bincount(y) / 200, abs=0.06)


def test_a_grade_that_no_person_gave_is_warned_of():
    grades, y = world(200)
    human = np.eye(5)[np.minimum(y, 3)]
    with pytest.warns(CalibrationWarning, match="no person gave the grade 5"):
        JudgePanel().fit(replace(grades, human=human))


def test_other_scales_judges_and_kinds_are_refused():
    grades, _ = world(60)
    panel = JudgePanel().fit(grades)
    with pytest.raises(InputError, match="the scale is 0, 1, 2, 3, 4"):
        panel.predict_proba(Grades.of("0..4", grades.said))
    with pytest.raises(InputError, match="nothing by judge0"):
        panel.predict_proba(Grades.of("1..5", {"other": grades.said["judge0"]}))
    with pytest.raises(InputError, match="these are votes"):
        panel.predict_proba(Grades.of("1..5", {"judge0": np.ones((3, 5))}, kind="votes"))
    with pytest.raises(InputError, match="not fitted"):
        JudgePanel().predict_proba(grades)
    with pytest.raises(InputError, match="within"):
        panel.apply(grades, error=0.1, within=4)
    with pytest.raises(InputError, match="error"):
        panel.apply(grades, error=1.5)


def test_clusters_stay_together_and_one_alone_is_refused():
    grades, _ = world(120)
    prompts = np.array([f"q{k // 10}" for k in range(120)], dtype=object)
    panel = JudgePanel().fit(replace(grades, cluster=prompts))
    by_prompt = {prompt: set(panel.fold_[prompts == prompt].tolist()) for prompt in set(prompts.tolist())}
    assert all(len(folds) == 1 for folds in by_prompt.values())
    with pytest.raises(InputError, match="one cluster"):
        JudgePanel().fit(replace(grades, cluster=np.array(["q"] * 120, dtype=object)))


def test_the_quick_fit_predicts_like_the_whole_one():
    grades, _ = world(150)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick = fitted_map(grades)
    np.testing.assert_array_equal(quick.predict_proba(grades), JudgePanel().fit(grades).predict_proba(grades))


def test_the_risk_is_the_mass_further_off():
    probs = np.array([[0.1, 0.2, 0.4, 0.3]])
    assert risk(probs, np.array([2]), 0)[0] == pytest.approx(0.6)
    assert risk(probs, np.array([2]), 1)[0] == pytest.approx(0.1)


def test_agreement_is_krippendorffs_and_the_kappa_of_two_raters():
    # Krippendorff (2011), four observers of twelve units
    observers = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
        [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
    ]
    counts = np.array([[sum(one[unit] == k for one in observers) for k in range(1, 6)] for unit in range(12)], float)
    for level, value in (("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)):
        assert krippendorff(counts, level) == pytest.approx(value, abs=5e-4)
    with pytest.raises(InputError, match="nominal, ordinal, interval"):
        krippendorff(counts, "ratio")

    from sklearn.metrics import cohen_kappa_score

    rng = np.random.default_rng(0)
    first = rng.integers(4, size=200)
    second = (first + rng.integers(-1, 2, size=200)).clip(0, 3)
    two = np.eye(4)[first] + np.eye(4)[second]
    both = cohen_kappa_score(np.r_[first, second], np.r_[second, first], weights="quadratic")
    assert agreement(two).qwk == pytest.approx(both)
    assert agreement(two).exact == pytest.approx((first == second).mean())
    assert agreement(np.eye(4)) is None
    assert np.isnan(agreement(np.array([[2, 0], [2, 0]])).alpha)
