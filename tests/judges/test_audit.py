"""`audit` and its HTML page."""

import json
from dataclasses import replace

import numpy as np
import pytest

from orcu.errors import CalibrationWarning
from orcu.judges import Grades, audit
from orcu.judges.audit import CurvePoint, learning_curve
from orcu.judges.bias import ColumnEffect
from orcu.report.judge import build
from orcu.report.page import Provenance

QUICK = "vector+projection"


def simulate(items=200, *, raters=1, shift=0.6):
    rng = np.random.default_rng(0)
    quality = rng.uniform(-0.5, 4.5, size=items)
    people = np.rint(quality[:, None] + rng.normal(scale=0.6, size=(items, raters))).clip(0, 4)
    distance = np.arange(5) - (quality + shift + rng.normal(scale=0.7, size=items))[:, None]
    probs = np.exp(-6 * distance**2) + 1e-9
    human = np.stack([(people == k).mean(axis=1) for k in range(5)], axis=1)
    subgroup = np.where(np.arange(items) % 2, "odd", "<even>")
    ratings = {"<b>gpt</b>": probs / probs.sum(axis=1, keepdims=True)}
    return Grades.from_arrays("1..5", ratings, human=human, subgroup=subgroup)


@pytest.fixture(scope="module")
def result():
    return audit(simulate(), calibrator=QUICK, train_sizes=(25, 50, 500), n_repeats=2)


def test_audit_improves_calibration_and_reports_leniency(result):
    (raw,) = result.evaluation.others
    assert result.evaluation["rps"].value < raw["rps"].value
    rows = {(row.judge, row.subgroup): row for row in result.leniency}
    assert set(rows) == {(judge, name) for judge in ("<b>gpt</b>", "calibrated") for name in ("all", "<even>", "odd")}
    overall = rows["<b>gpt</b>", "all"]
    assert (overall.direction, overall.n_items) == ("more lenient", 200)
    assert overall.low < overall.difference < overall.high
    assert overall.difference == pytest.approx(0.5, abs=0.2)
    assert rows["calibrated", "all"].direction == "no significant difference"
    assert [point.n_items for point in result.learning_curve] == [25, 50]
    assert result.human_agreement is None


def test_audit_reports_the_coverage_of_each_grade(result):
    assert result.coverage.class_counts.sum() == 200
    assert result.class_coverage.class_conditional
    page = build(result)
    assert "coverage, class-conditional" in page
    assert f"<td>{result.coverage.class_counts[0]}</td>" in page


def test_sufficiency_says_what_the_grades_are_enough_for_with_intervals(result):
    scores, sets, escalation = result.sufficiency()
    first, last = result.learning_curve[0], result.learning_curve[-1]
    assert f"{100 * first.excess:.1f} % (95 % interval {100 * first.excess_low:.1f}" in scores
    assert first.excess_low < first.excess < first.excess_high
    assert last.excess == 0
    assert "with 200 graded items, the coverage of new items is between 86 and 94 %" in sets
    wrong = (result.panel.oof_probs_.argmax(axis=1) != result.panel.oof_grades_).mean()
    assert escalation.startswith(f"Escalation: {100 * wrong:.0f} % of the decisions")


def test_audit_findings_have_the_numbers(result):
    (raw,) = result.evaluation.others
    text = "\n".join(result.findings())
    assert f"from {raw['rps'].value:.3f} to {result.evaluation['rps'].value:.3f}" in text
    assert "200 human grades" in text
    assert "<b>gpt</b> is more lenient" in text


def test_audit_with_several_raters_reports_human_agreement():
    grades = simulate(80, raters=3)
    grades = Grades(**vars(grades) | {"n_raters": np.full(80, 3)})
    result = audit(grades, calibrator=QUICK, train_sizes=(), n_repeats=1)
    assert result.human_agreement.n_cases == 80
    assert f"{result.human_agreement['qwk_pooled'].value:.2f}" in "\n".join(result.findings())
    assert result.learning_curve == []
    assert "people with people" in build(result)


@pytest.mark.parametrize(("scores", "items"), [((0.5, 0.401, 0.4), 50), ((0.5, 0.45, 0.4), None), ((0.4,), None)])
def test_sufficient_items_is_the_first_flat_point(result, scores, items):
    curve = [CurvePoint(25 * 2**k, score, 0.0, 0.0, 0.0) for k, score in enumerate(scores)]
    assert replace(result, learning_curve=curve).sufficient_items == items


def test_learning_curve_skips_draws_of_one_cluster():
    grades = simulate(60)
    cluster = np.array(["a"] * 55 + [f"q{k}" for k in range(5)], dtype=object)
    grades = Grades(**vars(grades) | {"cluster": cluster, "subgroup": None})
    curve = learning_curve(grades, calibrator=QUICK, train_sizes=(10,), n_repeats=4)
    assert all(point.n_items == 10 for point in curve)


def test_build_page_is_escaped_and_deterministic(result):
    provenance = Provenance(date="2026-11-17", command="orcu judge audit <file>")
    page = build(result, title="Grades", provenance=provenance)
    assert page == build(result, title="Grades", provenance=provenance)
    assert "<b>gpt" not in page
    assert "&lt;b&gt;gpt&lt;/b&gt;" in page
    assert "<script" not in page
    assert page.count('<svg role="img"') == 2 + 2 * 6 + 2 + 2  # example, reliability, confusion, learning curve
    assert all(f'id="{name}"' in page for name in ("item", "numbers", "reliability", "leniency", "agreement", "enough"))


def test_audit_of_an_inverted_scale_says_so_first():
    grades = simulate()
    inverted = replace(grades, ratings={"gpt": grades.ratings["<b>gpt</b>"][:, ::-1]})
    with pytest.warns(CalibrationWarning, match="inverted"):
        result = audit(inverted, calibrator=QUICK, train_sizes=(25,), n_repeats=1)
    assert result.findings()[0].startswith("gpt: its grades fall as human grades rise (correlation -0.")


def test_audit_agreement_matches_the_evaluation_and_scikit_learn(result):
    from sklearn.metrics import cohen_kappa_score

    calibrated = result.agreement["calibrated"]
    human = result.grades.human.argmax(axis=1)
    kappa = cohen_kappa_score(result.panel.oof_probs_.argmax(axis=1), human, weights="quadratic")
    assert calibrated["qwk_pairwise"].value == pytest.approx(kappa)
    assert calibrated["qwk_pairwise"].value == pytest.approx(result.evaluation["qwk"].value)
    for measure in ("qwk_pairwise", "ac2_quadratic", "alpha_ordinal"):
        for agreement in result.agreement.values():
            assert agreement[measure].low < agreement[measure].value < agreement[measure].high


def test_audit_counts_each_human_grade_in_the_agreement():
    grades = simulate(80, raters=3)
    grades = Grades(**vars(grades) | {"n_raters": np.full(80, 3)})
    result = audit(grades, calibrator=QUICK, train_sizes=(), n_repeats=1)
    assert {agreement.n_cases for agreement in result.agreement.values()} == {240}


def test_audit_reports_bias_in_findings_page_and_json():
    grades = simulate()
    noise = np.random.default_rng(1).normal(size=200)
    columns = {
        "excess": grades.expected_grade("<b>gpt</b>") - grades.human_mean + noise,
        "<i>kind</i>": ["a", "b"] * 100,
    }
    grades = grades.with_bias_columns(
        grades.items.tolist(), {k: np.asarray(v, dtype=None if k == "excess" else object) for k, v in columns.items()}
    )
    result = audit(grades, calibrator=QUICK, train_sizes=(), n_repeats=1)
    planted, harmless = result.bias
    assert planted.is_significant
    assert not harmless.is_significant
    (sentence,) = result.bias_findings()
    assert sentence in result.findings()
    assert "rises by" in sentence
    assert "per unit of excess" in sentence
    page = build(result)
    assert "<i>kind" not in page
    assert "&lt;i&gt;kind&lt;/i&gt;: b against a" in page
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert [row["column"] for row in plain["bias"]] == ["excess", "<i>kind</i>"]
    assert plain["bias"][0]["effect"] == planted.effect


def test_bias_findings_list_the_most_significant_effects_and_count_the_others(result):
    p_values = (0.04, 0.001, 0.03, 0.02, 0.2, 0.01, 0.05)
    effects = tuple(
        ColumnEffect("gpt", f"c{k}", None, None, 100, 100, 0.1, 0.0, 0.2, p, p) for k, p in enumerate(p_values)
    )
    sentences = replace(result, bias=effects).bias_findings()
    assert [sentence.rpartition(" of ")[2] for sentence in sentences[:5]] == ["c1.", "c5.", "c3.", "c2.", "c0."]
    assert sentences[5:] == ["Significant, but not listed here: 1 more."]
    (nothing,) = replace(result, bias=effects[4:5]).bias_findings()
    assert nothing.startswith("No significant bias in 1 comparisons")


def test_bias_findings_name_a_preference_for_own_answers(result):
    own = ColumnEffect("gpt", "system", "gpt", None, 100, 100, 0.3, 0.1, 0.5, 0.001, 0.001)
    (sentence,) = replace(result, bias=(own,)).bias_findings()
    assert sentence.endswith("for system gpt than for the others. It prefers its own answers.")
