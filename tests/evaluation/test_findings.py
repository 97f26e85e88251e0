"""One decision about calibration: headline, advice and marks never contradict each other."""

import dataclasses
import html
import itertools
import re

import numpy as np
import pytest

from orcu import evaluate
from orcu.evaluation.findings import PRIMARY, SIGNIFICANT, adjust, findings, interval_p_value
from orcu.evaluation.intervals import reference_p_value
from orcu.metrics.sums import Sums
from orcu.metrics.thresholds import decision_rates
from orcu.predictions import Predictions
from orcu.report.headline import KEY_FIGURES, failures, headline, key_figures, next_step, significance
from orcu.report.pipelines import subgroup_table
from orcu.resampling import Estimate, clopper_pearson, effective_size

GAPS = {
    "over": (0.08, 0.06, 0.10),
    "under": (-0.08, -0.10, -0.06),
    "borderline": (0.019, 0.0004, 0.037),  # significant alone, not among four tests
    "none": (0.001, -0.02, 0.02),
}


@pytest.fixture(scope="module")
def base():
    rng = np.random.default_rng(5)
    z = -((np.arange(4) - rng.uniform(-0.5, 3.5, size=(600, 1))) ** 2)
    truth = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    y = (rng.random((600, 1)) > truth.cumsum(1)[:, :-1]).sum(1)
    site = np.array(["north", "south"])[np.arange(600) % 2]
    return evaluate(Predictions(logits=z, y=y, subgroup=site, classes=list("abcd")), n_resamples=60)


FAILURES = ("none", "useless", "never", "useless and never", "few rows", "errors of subgroups differ")


def altered(evaluation, *, gap, errors, classes, history=(), rows=600, unimodality=1.0, failure="none", mae=0.4):
    """A copy whose tests have given results."""
    metrics = dict(evaluation.metrics)
    metrics["mae"] = Estimate(mae, mae - 0.05, mae + 0.05)
    confusion = np.full((4, 4), 5.0) + np.diag([50.0, 60.0, 70.0, 80.0])
    if "never" in failure:
        confusion[:, 3] = 0
    if failure == "few rows":
        confusion[0] = [3, 0, 0, 0]
    skill = Estimate(0.01, -0.02, 0.04) if "useless" in failure else Estimate(0.5, 0.4, 0.6)
    rates = {
        name: [Estimate(float(value), float(value) / 2, float(value)) for value in rate]
        for name, rate in decision_rates(confusion).items()
    }
    metrics["overconfidence"] = Estimate(*GAPS[gap])
    for name, estimate in metrics.items():
        if estimate.p_value is not None:
            metrics[name] = dataclasses.replace(estimate, p_value=1e-6 if errors else 0.4)
    metrics["unimodality"] = dataclasses.replace(metrics["unimodality"], value=unimodality)
    sample = evaluation.sample.replace(history=history)
    p_value = 1e-6 if classes else 0.4
    return dataclasses.replace(
        evaluation,
        rows=rows,
        metrics=metrics,
        sample=sample,
        per_class=[{**record, "ce_p_value": p_value} for record in evaluation.per_class],
        per_threshold=[
            {**record, "ce_p_value": p_value} | {name: rate[k] for name, rate in rates.items()}
            for k, record in enumerate(evaluation.per_threshold)
        ],
        sums=Sums({"confusion": confusion, "top": evaluation.sums.top}.__getitem__, float(confusion.sum())),
        corp=evaluation.corp | {"skill": skill, "discrimination": Estimate(0.1, -0.01, 0.2)},
    )


CASES = [
    case
    for case in itertools.product(
        GAPS,
        (False, True),  # binned errors
        (False, True),  # classes and thresholds
        ("none", "one is off", "opposite", "both are off"),  # subgroups
        ((), ({"step": "calibrate", "method": "gap", "rows": 600},)),
        (600, 20),
        (1.0, 0.9),
        FAILURES,
    )
    if case[-1] == "none" or (case[0] in ("over", "none") and case[-2] == 1.0)
]


@pytest.mark.parametrize(("gap", "errors", "classes", "subgroups", "history", "rows", "unimodality", "failure"), CASES)
def test_page_sentences_advice_and_marks_agree(
    base, gap, errors, classes, subgroups, history, rows, unimodality, failure
):
    kinds = {
        "none": ("none", "none"),
        "one is off": ("over", "none"),
        "opposite": ("over", "under"),
        "both are off": ("over", "over"),
    }[subgroups]
    evaluation = altered(
        base,
        gap=gap,
        errors=errors,
        classes=classes,
        history=history,
        rows=rows,
        unimodality=unimodality,
        failure=failure,
    )
    errors_differ = failure == "errors of subgroups differ"
    evaluation.subgroups = {
        name: altered(part, gap=kind, errors=False, classes=False, rows=300, mae=mae)
        for (name, part), kind, mae in zip(
            base.subgroups.items(), kinds, (0.4, 0.9 if errors_differ else 0.4), strict=True
        )
    }
    results, sentences, advice = findings(evaluation), headline(evaluation), next_step(evaluation)
    text = " ".join(sentences)
    first_three = " ".join(sentences[:3])
    number = len(failures(evaluation))
    assert sentences[:number] == failures(evaluation)
    assert ("Never predicted" in first_three) == ("never" in failure)
    significant = rows >= 30 and (errors or gap in ("over", "under"))
    assert results.is_miscalibrated == significant
    marks = {name: significance(evaluation, name) for name in evaluation.metrics}
    if rows < 30:
        assert "too few" in sentences[number]
        assert advice.startswith("Evaluate on more labelled rows")
        assert SIGNIFICANT not in marks.values()
        return
    # failures
    useless, differ = "useless" in failure, subgroups in ("one is off", "opposite")
    assert ("not significantly better than always predicting the class frequencies" in first_three) == useless
    assert ('the sensitivity for "d" is 0 of ' in first_three) == ("never" in failure)
    assert ("Too few rows to assess" in first_three) == (failure == "few rows")
    assert ("mean absolute error differs significantly" in first_three) == errors_differ
    assert number == sum(
        [useless, "never" in failure, failure == "few rows", errors_differ or differ]
    )  # no other sentence is a failure
    assert advice.startswith("Do not use these predictions") == useless
    if useless:
        assert "no evidence that further calibration is needed" not in advice
        assert "orcu calibrate" not in advice
        return
    assert ("Check the decisions before use" in advice) == ("never" in failure)
    assert ("Collect more labelled rows" in advice) == (failure == "few rows")
    assert ("Report the errors of each subgroup" in advice) == errors_differ
    # marks of the table, tiles, classes and thresholds
    assert (SIGNIFICANT in marks.values() or gap in ("over", "under")) == significant
    for name, figure in zip(KEY_FIGURES, key_figures(evaluation), strict=True):
        assert figure["significance"] == marks[name]
    assert bool(results.classes) == bool(results.thresholds) == (significant and classes)
    # sentences
    off = gap in ("over", "under") or (gap == "borderline" and errors)  # the last of four tests is not adjusted
    assert ("(statistically significant)" in sentences[number]) == off
    assert ("No calibration error is significant" in text) == (not significant)
    assert ("classes" in re.findall(r"Significant on .*?\. ", text + " ")[0]) == classes if significant else True
    # advice
    assert ("Calibrate the model" in advice) == (significant and not history)
    assert ("fit the calibrator again" in advice) == (significant and bool(history))
    assert ("subgroups differ" in advice) == differ
    assert ("--subgroup" in advice) == (differ or (subgroups == "both are off" and not significant))
    assert ("No subgroup has a significant" in text) == (subgroups == "none")
    if not significant and subgroups == "none":
        assert ("projection" in advice) == (unimodality < 1)
        assert advice.startswith("No calibration error is significant") == (failure == "none")
    # subgroup table
    crosses = sum("✗" in cell for row in subgroup_table(evaluation)[1] for cell in row)
    assert crosses == 0  # only the over-confidence of subgroups is off, which has its interval


@pytest.fixture(scope="module")
def five_grades():
    rng = np.random.default_rng(3)
    z = -((np.arange(5) - rng.uniform(-0.5, 4.5, size=(400, 1))) ** 2)
    probs = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    y = (rng.random((400, 1)) > probs.cumsum(1)[:, :-1]).sum(1)
    return probs, y, ["none", "mild", "moderate", "severe", "proliferative"]


def opening(evaluation, *, page=""):
    """The first three sentences, which the notebook card and a page have too."""
    for sentence in headline(evaluation)[:3]:
        shown = html.escape(sentence, quote=True).replace(" %", "\u00a0%")
        assert shown in evaluation._repr_html_()
        assert not page or shown in page.replace("&#34;", "&quot;")
    return " ".join(headline(evaluation)[:3])


def test_headline_class_that_is_never_predicted_is_in_the_first_three_sentences(five_grades):
    probs, y, classes = five_grades
    chosen = np.flatnonzero((y < 3) | (np.cumsum(y >= 3) <= 8))
    probs, y = probs[chosen], y[chosen]
    probs = probs * [1, 1, 1, 1e-6, 1e-6]
    evaluation = evaluate(probs=probs / probs.sum(1, keepdims=True), y=y, classes=classes, n_resamples=100)
    text = opening(evaluation, page=evaluation.to_html())
    assert 'Never predicted: "severe" (' in text
    assert 'the sensitivity for "severe or above" is 0 of 8 (95 % interval 0.0 – 36.9 %).' in text
    assert next_step(evaluation).startswith("Check the decisions before use")
    assert evaluation.per_threshold[2]["sensitivity"].high == pytest.approx(0.3694, abs=1e-4)


def test_headline_class_that_is_rarely_predicted_is_in_the_first_three_sentences(five_grades):
    probs, y, classes = five_grades
    probs = probs * [1, 1, 1, 0.5, 1]
    evaluation = evaluate(probs=probs / probs.sum(1, keepdims=True), y=y, classes=classes, n_resamples=100)
    assert re.search(
        r'Rarely predicted: "severe" \(predicted for \d+ rows, but \d+ rows have it\)', opening(evaluation)
    )


@pytest.mark.parametrize("kind", ["constant", "shuffled"])
def test_headline_useless_model_is_in_the_first_sentence(five_grades, kind):
    probs, y, classes = five_grades
    probs = np.tile(np.bincount(y) / len(y), (len(y), 1)) if kind == "constant" else probs[::-1]
    for n_resamples in (0, 100):
        evaluation = evaluate(probs=probs, y=y, classes=classes, n_resamples=n_resamples)
        assert "always predicting the class frequencies" in headline(evaluation)[0]
        assert next_step(evaluation).startswith("Do not use these predictions")
    opening(evaluation)


def test_headline_subgroup_that_is_off_is_in_the_first_three_sentences(five_grades):
    probs, y, classes = five_grades
    site = np.where(np.arange(400) < 100, "south", "north")
    probs = np.concatenate([probs[:100][::-1], probs[100:]])
    evaluation = evaluate(probs=probs, y=y, classes=classes, subgroup=site, n_resamples=100)
    text = opening(evaluation)
    assert re.search(r"classes in south, 0\.\d\d in north", text)
    assert "south is over-confident" in text


def test_next_step_useless_model_depends_on_whether_it_orders_the_rows(base, five_grades):
    probs, y, classes = five_grades
    reverse = evaluate(probs=probs[:, ::-1], y=y, classes=classes, n_resamples=100)
    assert "orders the rows in reverse (C-index 0." in next_step(reverse)
    rng = np.random.default_rng(1)
    random = evaluate(probs=rng.dirichlet(np.ones(5), size=400), y=y, classes=classes, n_resamples=100)
    assert "calibration does not help a model without discrimination" in next_step(random)
    few = altered(base, gap="none", errors=False, classes=False, failure="useless")  # better, but not significantly
    few.corp["discrimination"] = Estimate(0.1, 0.01, 0.2)
    assert "not significantly better than always predicting" in headline(few)[0]
    assert "evaluate on more labelled rows" in next_step(few)


def test_headline_three_failures_at_once_are_the_first_three_sentences(five_grades):
    probs, y, classes = five_grades
    site = np.where(np.arange(400) < 250, "south", "north")
    probs = np.concatenate([probs[:250][::-1], probs[250:]]) * [1, 1e-4, 1, 1e-4, 1]
    evaluation = evaluate(probs=probs / probs.sum(1, keepdims=True), y=y, classes=classes, subgroup=site)
    sentences = re.split(r"(?<=\.) (?=[A-Z])", " ".join(headline(evaluation)))
    assert "always predicting the class frequencies" in sentences[0]
    assert sentences[1].startswith('Never predicted: "mild" (')
    assert "differs significantly between the subgroups" in sentences[2]


def test_rate_of_zero_has_the_interval_of_whole_clusters(five_grades):
    probs, y, classes = five_grades
    y = np.where(y > 2, 4, y)
    severe, patient = np.flatnonzero(y == 4), np.arange(400).astype(str)
    patient[severe] = [f"p{number // 10}" for number in range(len(severe))]  # ten rows of each patient
    probs = probs * [1, 1, 1, 1e-6, 1e-6]
    options = {"probs": probs / probs.sum(1, keepdims=True), "y": y, "classes": classes, "n_resamples": 60}
    sizes = np.unique(patient[severe], return_counts=True)[1]
    effective = sizes.sum() ** 2 / (sizes**2).sum()
    rate = evaluate(**options, cluster=patient).per_threshold[3]["sensitivity"]
    assert (rate.value, rate.low) == (0, 0)
    assert rate.high == pytest.approx(1 - 0.025 ** (1 / effective))  # the rule of Clopper and Pearson for 0 events
    independent = evaluate(**options).per_threshold[3]["sensitivity"]
    assert independent.high == pytest.approx(1 - 0.025 ** (1 / len(severe)))
    weighted = evaluate(**options, sample_weight=np.full(400, 7.0)).per_threshold[3]["sensitivity"]
    assert weighted.high == pytest.approx(independent.high)  # the unit of the weights does not matter


def test_rate_of_very_few_rows_has_an_exact_interval():
    probs = np.tile([0.9, 0.1], (60, 1))
    probs[:2] = [0.1, 0.9]  # two decisions for the second class, of which one is right
    y = np.array([1, 0] + [0, 1] * 29)
    rate = evaluate(probs=probs, y=y, n_resamples=100).per_threshold[0]["ppv"]
    assert (rate.value, *clopper_pearson(1, 2)) == pytest.approx((0.5, rate.low, rate.high))


def test_interval_of_a_rate_of_zero_covers_errors_of_whole_clusters():
    """Clusters fail as a whole with a probability of 3 %; data sets without a failure must not exclude it too often."""
    rng = np.random.default_rng(4)
    clusters, rows, sets, rate = 40, 10, 2_000, 0.03
    without = (rng.random((sets, clusters)) >= rate).all(axis=1).mean()  # 30 % of the data sets
    sizes = np.full(clusters, float(rows))
    assert without > 0.25
    assert clopper_pearson(0, effective_size(sizes)).high > rate  # none of them excludes the truth
    assert clopper_pearson(0, clusters * rows).high < rate  # as independent rows, all of them would


def test_headline_good_model_has_no_failures_and_weights_are_shares(five_grades):
    probs, y, classes = five_grades
    assert failures(evaluate(probs=probs, y=y, classes=classes, n_resamples=100)) == []
    weighted = evaluate(
        probs=probs * [1, 1, 1, 0, 1] / (1 - probs[:, 3:4]), y=y, classes=classes, sample_weight=np.full(400, 0.5)
    )
    assert '"severe" (2' in failures(weighted)[0]
    assert "% of the rows)" in failures(weighted)[0]


@pytest.mark.slow
def test_findings_calibrated_model_is_called_miscalibrated_in_at_most_five_percent():
    rng = np.random.default_rng(11)
    false_alarms, runs = 0, 60
    for _ in range(runs):
        z = -((np.arange(4) - rng.uniform(-0.5, 3.5, size=(300, 1))) ** 2)
        truth = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        y = (rng.random((300, 1)) > truth.cumsum(1)[:, :-1]).sum(1)
        false_alarms += findings(evaluate(logits=z, y=y, n_resamples=100)).is_miscalibrated
    assert false_alarms <= 8  # 3 are expected at most; more than 8 have a probability below 1 %


def test_findings_miscalibrated_model_is_found():
    rng = np.random.default_rng(12)
    z = -((np.arange(4) - rng.uniform(-0.5, 3.5, size=(500, 1))) ** 2)
    truth = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    y = (rng.random((500, 1)) > truth.cumsum(1)[:, :-1]).sum(1)
    results = findings(evaluate(logits=2 * z, y=y, n_resamples=200))
    assert results.is_miscalibrated
    assert all(results.significance(name) == SIGNIFICANT for name in PRIMARY)


def test_adjust_leaves_nan_out_of_the_family():
    adjusted = adjust({"a": 0.02, "b": float("nan"), "c": 0.03})
    assert (adjusted["a"], adjusted["c"]) == (0.04, 0.04)
    assert np.isnan(adjusted["b"])


@pytest.mark.parametrize(("value", "low", "high"), [(0.02, 0.0, 0.05), (-0.02, -0.05, 0.0), (0.0, 0.0, 0.1)])
def test_interval_p_value_is_five_percent_where_the_interval_touches_zero(value, low, high):
    expected = 0.05 if value else 1.0
    assert interval_p_value(Estimate(value, low, high)) == pytest.approx(expected)


def test_reference_p_value_agrees_with_the_share_of_draws_and_handles_no_noise():
    errors = np.abs(np.random.default_rng(1).normal(size=(20_000, 15))).mean(axis=1)
    for quantile in (0.5, 0.9, 0.95, 0.99):
        assert reference_p_value(np.quantile(errors, quantile), errors) == pytest.approx(1 - quantile, rel=0.25)
    assert reference_p_value(0.1, np.zeros(50)) == 0
    assert reference_p_value(0.0, np.zeros(50)) == 1


def test_evaluate_compare_has_differences_of_each_subgroup():
    rng = np.random.default_rng(3)
    z, y = rng.normal(size=(400, 3)), rng.integers(3, size=400)
    site = np.where(np.arange(400) < 100, "north", "south")
    first, second = (Predictions(logits=k * z, y=y, subgroup=site) for k in (1.0, 3.0))
    evaluation = evaluate(first, compare={"sharp": second}, n_resamples=100)
    alone = evaluate(first[:100], compare={"sharp": second[:100]}, n_resamples=100)
    part = evaluation.subgroups["north"].differences["sharp"]["rps"]
    assert part.value == pytest.approx(alone.differences["sharp"]["rps"].value)
    page = evaluation.to_html()
    assert "model minus sharp, by subgroup" in page
    assert "better" in page
