"""Human grades that are not missing at random: the check, the warning and the weights."""

import warnings

import numpy as np
import pytest

from orcu.errors import CalibrationWarning, InputError
from orcu.judges import Grades, JudgePanel, compare_systems, graded_weights, missingness_effects

QUICK = "vector+projection"


def draw(seed, items):
    """Items of two systems: system, kind, quality and human grade."""
    rng = np.random.default_rng(seed)
    system = np.where(np.arange(items) % 2, "new", "old")
    hard = rng.random(items) < 0.4
    quality = rng.normal(3.2 + 0.3 * (system == "new") - 0.8 * hard, 0.9)
    return rng, system, hard, quality, np.rint(quality).clip(1, 5)


def simulate(seed, *, items=1200, slope=0.0, hard_share=0.25):
    """Judged items; the chance of a human grade depends on the judge's grade and on the kind of item."""
    rng, system, hard, quality, truth = draw(seed, items)
    judged = np.rint(quality + rng.normal(scale=0.7, size=items)).clip(1, 5)
    chance = np.where(hard, hard_share, 0.25) * np.exp(slope * (judged - 3))
    graded = rng.random(items) < chance.clip(0, 0.95)
    human = [int(grade) if known else None for grade, known in zip(truth, graded, strict=True)]
    probs = np.eye(5)[judged.astype(int) - 1] * 0.96 + 0.008
    kind = np.where(hard, "hard", "easy")
    return Grades.from_arrays("1..5", {"gpt": probs}, human=human, system=system, bias={"kind": kind})


def compare(grades, **options):
    expected = grades.expected_grade("gpt")
    return compare_systems(expected, grades.human_mean, grades.system, **options)


def test_missingness_effects_of_random_grades_are_rarely_significant():
    alarms = 0
    for seed in range(100):
        grades = simulate(seed, items=200)
        effects = missingness_effects(grades)
        alarms += any(effect.is_significant for effect in effects)
    assert alarms <= 11  # 5 of 100 are expected


def test_missingness_effects_find_the_judge_grade_and_the_column():
    grades = simulate(0, slope=0.4)
    by_grade, _ = missingness_effects(grades)
    assert by_grade.column == "grade of gpt"
    assert by_grade.is_significant
    assert by_grade.low > 0
    grades = simulate(0, hard_share=0.6)
    by_kind = missingness_effects(grades)[1]
    assert by_kind.is_significant
    assert by_kind.effect == pytest.approx(0.35, abs=0.08)
    assert "the share of graded items is higher by" in str(by_kind)
    assert "for kind hard than for easy" in str(by_kind)


def test_missingness_effects_without_missing_grades_are_empty():
    grades = simulate(0)
    assert missingness_effects(grades[grades.human_mask]) == ()
    with pytest.raises(InputError, match="with and without a human grade"):
        graded_weights(grades[grades.human_mask])


def test_panel_warns_only_if_grades_are_not_missing_at_random():
    grades = simulate(0, slope=0.5)
    with pytest.warns(CalibrationWarning, match="share of graded items rises by"):
        JudgePanel(calibrator=QUICK).fit(grades)
    random = simulate(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        JudgePanel(calibrator=QUICK).fit(random)


def test_missingness_skips_columns_that_differ_within_items():
    grades = simulate(0)
    twice = np.concatenate([grades.items, grades.items])
    rows = grades.rating_rows
    both = {"kind": np.concatenate([rows.columns["kind"]] * 2), "position": np.repeat([1.0, 2.0], len(grades))}
    doubled = type(rows)(twice, np.concatenate([rows.judge] * 2), np.concatenate([rows.expected] * 2), both)
    effects = missingness_effects(Grades(**vars(grades) | {"rating_rows": doubled}))
    assert [effect.column for effect in effects] == ["grade of gpt", "kind"]


def test_graded_weights_of_random_grades_are_nearly_equal_and_sum_to_the_items():
    grades = simulate(0)
    weights = graded_weights(grades)
    assert weights.shape == (1200,)
    assert weights[grades.human_mask].sum() == pytest.approx(1200, rel=0.02)
    assert weights.std() / weights.mean() < 0.15


def test_compare_systems_with_equal_weights_is_nearly_the_estimate_without():
    grades = simulate(0)
    plain, weighted = compare(grades), compare(grades, human_weight=np.full(1200, 4.0))
    assert weighted["new"].human_mean == pytest.approx(plain["new"].human_mean)
    assert weighted["new"].mean == pytest.approx(plain["new"].mean, abs=0.02)
    assert weighted["new"].high - weighted["new"].low == pytest.approx(plain["new"].high - plain["new"].low, rel=0.1)
    assert weighted.notes[0].startswith("Human grades are weighted")
    graded = int(grades.human_mask.sum())
    assert f"The {graded} weighted grades are worth {graded} grades of equal weight" in weighted.notes[0]


@pytest.mark.parametrize("options", [{"slope": 0.5}, {"hard_share": 0.75}])
def test_weights_correct_a_choice_that_depends_on_known_columns(options):
    _, system, _, _, truth = draw(999, 200_000)
    truth_by_system = {name: truth[system == name].mean() for name in ("old", "new")}
    covered, errors, plain_errors = [], [], []
    for seed in range(20):
        grades = simulate(seed, **options)
        weighted, plain = compare(grades, human_weight=graded_weights(grades)), compare(grades)
        for name, truth in truth_by_system.items():
            mean = weighted[name]
            covered.append(mean.low <= truth <= mean.high)
            errors.append(mean.human_mean - truth)
            plain_errors.append(plain[name].human_mean - truth)
    assert abs(np.mean(plain_errors)) > 0.1  # human grades alone are biased
    assert abs(np.mean(errors)) < 0.05
    assert np.mean(covered) >= 0.85


def test_compare_systems_refuses_invalid_weights():
    grades = simulate(0, items=100)
    weights = np.ones(100)
    weights[np.flatnonzero(grades.human_mask)[0]] = 0
    with pytest.raises(InputError, match=r"human_weight: row \d+ has a human grade and the weight 0.0"):
        compare(grades, human_weight=weights)
    with pytest.raises(InputError, match="human_weight: expected one grade per item"):
        compare(grades, human_weight=weights[:5])
