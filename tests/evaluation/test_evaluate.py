"""Tests of `orcu.evaluate`, gates and headlines."""

import cProfile
import dataclasses
import json
import math
import pickle
import re
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from orcu import Predictions, evaluate, metrics
from orcu.errors import InputError, UnknownNameError
from orcu.evaluation.evaluation import format_metric_interval
from orcu.evaluation.gates import Gate
from orcu.metrics.base import METRICS, all_metrics
from orcu.metrics.thresholds import auc, calibration_line, decision_rates
from orcu.predictions import open_predictions
from orcu.report.headline import failures, headline, next_step


@pytest.fixture(scope="module")
def evaluation(ordinal_sample):
    logits, y = ordinal_sample(1200)
    return evaluate(logits=logits, y=y, classes=["a", "b", "c", "d", "e"], n_resamples=200)


@pytest.mark.parametrize("precision", ["single", "half", 4, 5, 6, 7, 8])
def test_evaluate_rounded_probabilities_gives_nearly_the_same_metrics(ordinal_sample, softmax, precision):
    logits, y = ordinal_sample(900)
    exact = softmax(logits)
    kinds = {"single": np.float32, "half": np.float16}
    rounded = exact.astype(kinds[precision]) if precision in kinds else exact.round(precision)
    of_rounded, of_exact = (evaluate(probs=probs, y=y, n_resamples=0).metrics for probs in (rounded, exact))
    for name in ("threshold_ce", "ece", "rps", "accuracy"):
        assert of_rounded[name].value == pytest.approx(of_exact[name].value, abs=2e-3), name


def test_evaluate_values_equal_the_metric_functions(ordinal_sample, softmax):
    logits, y = ordinal_sample(900)
    probs = softmax(logits)
    weight = np.random.default_rng(2).random(900)
    for w in (None, weight):
        evaluation = evaluate(probs=probs, y=y, sample_weight=w, n_resamples=50)
        for metric in all_metrics():
            function = getattr(metrics, metric.name)
            arguments = (probs,) if metric.name in {"unimodality", "sharpness"} else (probs, y)
            assert evaluation[metric.name].value == pytest.approx(function(*arguments, sample_weight=w), abs=1e-12), (
                metric.name
            )
        assert [r["auc"].value for r in evaluation.per_threshold] == pytest.approx(auc(probs, y, sample_weight=w))
        line = calibration_line(probs, y, sample_weight=w)
        assert [r["intercept"].value for r in evaluation.per_threshold] == pytest.approx(line[:, 0])
        assert [r["slope"].value for r in evaluation.per_threshold] == pytest.approx(line[:, 1])
        parts = metrics.rps_decomposition(probs, y, sample_weight=w)
        assert evaluation.decomposition == pytest.approx(vars(parts))
        assert [r["ce"] for r in evaluation.per_class] == pytest.approx(
            metrics.classwise_ece(probs, y, sample_weight=w)
        )


def test_evaluate_per_threshold_rates_equal_their_definitions(evaluation, ordinal_sample, softmax):
    logits, y = ordinal_sample(1200)
    pred = softmax(logits).argmax(1)
    for k, record in enumerate(evaluation.per_threshold):
        event, alarm = y > k, pred > k
        assert record["prevalence"] == pytest.approx(event.mean())
        assert record["sensitivity"].value == pytest.approx(alarm[event].mean())
        assert record["specificity"].value == pytest.approx((~alarm)[~event].mean())
        assert record["ppv"].value == pytest.approx(event[alarm].mean())
        assert record["npv"].value == pytest.approx((~event)[~alarm].mean())
        for name in ("sensitivity", "specificity", "ppv", "npv", "auc", "intercept", "slope"):
            assert record[name].low < record[name].value < record[name].high, name
    assert [r["event"] for r in evaluation.per_threshold] == ["b or above", "c or above", "d or above", "e"]
    with np.errstate(all="raise"):
        assert math.isnan(decision_rates(np.array([[4.0, 0.0], [0.0, 0.0]]))["sensitivity"][0])


def test_evaluate_influence_intervals_match_refitting(ordinal_sample, softmax):
    """AUC and calibration line of resamples, by influence and by brute force."""
    logits, y = ordinal_sample(500, num_classes=3)
    probs = softmax(logits)
    evaluation = evaluate(probs=probs, y=y, n_resamples=400).per_threshold
    rng = np.random.default_rng(5)
    picks = [rng.integers(500, size=500) for _ in range(400)]
    areas = np.array([auc(probs[p], y[p]) for p in picks])
    lines = np.array([calibration_line(probs[p], y[p]) for p in picks])
    for k in range(2):
        for name, draws in (("auc", areas[:, k]), ("intercept", lines[:, k, 0]), ("slope", lines[:, k, 1])):
            width = evaluation[k][name].high - evaluation[k][name].low
            low, high = np.quantile(draws, [0.025, 0.975])
            assert width == pytest.approx(high - low, rel=0.25), (k, name)


def test_evaluate_subgroup_equals_evaluation_of_its_rows(ordinal_sample):
    logits, y = ordinal_sample(600)
    site = np.where(np.arange(600) % 3 == 0, "north", "south")
    evaluation = evaluate(logits=logits, y=y, subgroup=site, n_resamples=50)
    alone = evaluate(logits=logits[site == "north"], y=y[site == "north"], n_resamples=50)
    assert list(evaluation.subgroups) == ["north", "south"]
    assert evaluation.subgroups["north"].metrics == alone.metrics
    by_class = np.where(y == 0, "only zeros", "rest")
    evaluation = evaluate(logits=logits, y=y, subgroup=by_class, n_resamples=50)
    assert math.isnan(evaluation.subgroups["only zeros"].per_threshold[0]["auc"].value)
    with pytest.raises(InputError, match="^subgroup: 600 .*--cluster"):
        evaluate(logits=logits, y=y, subgroup=np.arange(600))


def test_evaluate_cluster_resamples_whole_clusters(ordinal_sample):
    logits, y = ordinal_sample(200)
    again, labels = np.repeat(logits, 10, axis=0), np.repeat(y, 10)
    patient = np.repeat(np.arange(200), 10)
    rows = evaluate(logits=again, y=labels, n_resamples=300)
    clustered = evaluate(logits=again, y=labels, cluster=patient, n_resamples=300)
    once = evaluate(logits=logits, y=y, n_resamples=300)
    assert clustered.clusters == 200
    width = clustered["rps"].high - clustered["rps"].low
    assert width == pytest.approx(once["rps"].high - once["rps"].low, rel=0.02)
    assert width > 2 * (rows["rps"].high - rows["rps"].low)


def test_evaluate_reference_with_clusters_keeps_its_level(ordinal_sample):
    """Rows repeated for each cluster: a calibrated model must not have significant errors."""
    significant = 0
    for seed in range(12):
        logits, y = ordinal_sample(150, sharpen=1.0, seed=seed)
        evaluation = evaluate(
            logits=np.repeat(logits, 8, axis=0),
            y=np.repeat(y, 8),
            cluster=np.repeat(np.arange(150), 8),
            n_resamples=200,
        )
        significant += evaluation["sce"].value > evaluation["sce"].limit
    assert significant <= 3
    sharp = evaluate(
        logits=np.repeat(4 * logits, 8, axis=0),
        y=np.repeat(y, 8),
        cluster=np.repeat(np.arange(150), 8),
        n_resamples=200,
    )
    assert sharp["sce"].value > sharp["sce"].limit


def test_evaluate_labels_off_by_one_warns(ordinal_sample):
    logits, y = ordinal_sample(400, num_classes=3, sharpen=6.0)
    keep = y < 2
    evaluation = evaluate(logits=logits[keep], y=y[keep] + 1, n_resamples=50)
    assert evaluation.notes[-1].startswith("WARNING")
    assert "one class lower" in evaluation.notes[-1]
    assert "WARNING" in evaluation.to_html()
    assert not evaluate(logits=logits, y=y, n_resamples=50).notes


def test_evaluate_smallest_float_has_finite_slope():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), size=40)
    probs[0], probs[1] = [5e-324, 1.0, 0.0], [0.0, 0.5, 0.5]
    evaluation = evaluate(probs=probs, y=rng.integers(3, size=40), n_resamples=50)
    assert np.isfinite(evaluation.per_threshold[0]["slope"].value)


def test_evaluate_intervals_of_few_rows_stay_in_range():
    evaluation = evaluate(probs=[[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.6, 0.3, 0.1]], y=[1, 1, 2], n_resamples=50)
    for name in METRICS.names():
        metric = METRICS.get(name)
        if metric.percent and np.isfinite(evaluation[name].high):
            assert -1 <= evaluation[name].low <= evaluation[name].high <= 1, name
    assert all(r["auc"].low >= 0 for r in evaluation.per_threshold if np.isfinite(r["auc"].low))
    for part in ("'model'", "3 rows", "3 classes", "accuracy=0.333", "rule='argmax'", "n_resamples=50"):
        assert part in repr(evaluation)


def test_evaluate_rule_changes_the_decisions(ordinal_sample, softmax):
    from orcu import decide

    logits, y = ordinal_sample(500, sharpen=0.5)
    probs = softmax(logits)
    for rule in ("median", "mean", np.abs(np.arange(5)[:, None] - np.arange(5)) ** 3):
        evaluation = evaluate(logits=logits, y=y, rule=rule, n_resamples=0)
        pred = decide(probs, rule)
        assert evaluation["mae"].value == pytest.approx(metrics.mae(y=y, pred=pred))
        assert evaluation["accuracy"].value == pytest.approx(metrics.accuracy(y=y, pred=pred))
        assert evaluation["ece"].value == pytest.approx(metrics.ece(probs, y))  # always that of the top label
        assert evaluation.referral.mae[0] == pytest.approx(evaluation["mae"].value)
        assert json.dumps(evaluation.to_dict()["rule"])
    small = evaluate(probs=[[0.9, 0.1], [0.2, 0.8]], y=[0, 1], rule="median", n_resamples=0)
    assert "smallest class with P(Y" in small.to_html()


def test_evaluate_compare_gives_paired_differences(ordinal_sample):
    logits, y = ordinal_sample(800)
    ids = np.array([f"row{i}" for i in range(800)])
    order = np.random.default_rng(0).permutation(800)
    first = Predictions(logits=logits, y=y, ids=ids)
    cooler = Predictions(logits=logits[order] / 1.5, y=y[order], ids=ids[order])
    evaluation = evaluate(first, compare={"cooler": cooler}, n_resamples=200, name="sharp")
    difference = evaluation.differences["cooler"]
    assert difference["accuracy"].value == 0
    assert difference["accuracy"].favour == 0.5
    assert difference["nll"].low > 0
    assert difference["nll"].favour < 0.01
    assert difference["sharpness"].favour is None
    assert difference["overconfidence"].favour < 0.1
    assert evaluation.others[0].name == "cooler"
    # pairing removes the noise that both share
    alone = evaluation["nll"].high - evaluation["nll"].low
    assert difference["nll"].high - difference["nll"].low < alone
    reverse = evaluate(cooler, compare={"sharp": first}, n_resamples=200, name="cooler")
    assert reverse.differences["sharp"]["nll"].value == pytest.approx(-difference["nll"].value)


def test_evaluate_compare_other_rows_raises(ordinal_sample):
    logits, y = ordinal_sample(50)
    first = Predictions(logits=logits, y=y)
    with pytest.raises(InputError, match="^other: 49 rows, .* 50;"):
        evaluate(first, compare={"other": Predictions(logits=logits[1:], y=y[1:])})
    with pytest.raises(InputError, match=r"^other: row 1 .*label.*--id COLUMN"):
        evaluate(first, compare={"other": Predictions(logits=logits, y=(y + 1) % 5)})
    with pytest.raises(InputError, match="^other: .*classes.* a, b, c, d, e"):
        evaluate(first, compare={"other": Predictions(logits=logits, y=y, classes=list("abcde"))})
    with pytest.raises(InputError, match="^compare: .*'model'"):
        evaluate(first, compare={"model": first})
    named = Predictions(logits=logits, y=y, ids=np.arange(50))
    with pytest.raises(InputError, match="^other: .*1 ids .*'0'"):
        evaluate(named, compare={"other": Predictions(logits=logits, y=y, ids=np.arange(1, 51))})


@pytest.fixture
def long_file(tmp_path, ordinal_sample):
    logits, y = ordinal_sample(5000)
    frame = pd.DataFrame(logits.round(1), columns=[f"z_{k}" for k in range(5)])  # ties
    frame["y"], frame["site"] = y, np.where(np.arange(5000) % 4 == 0, "a", "b")
    frame["w"], frame["patient"] = np.arange(5000) % 7 + 0.25, np.arange(5000) // 2
    frame.to_parquet(tmp_path / "long.parquet", row_group_size=700)
    return tmp_path / "long.parquet"


def test_evaluate_stream_gives_the_same_bits_as_memory(long_file, monkeypatch):
    options = {"label": "y", "logits": "z_*", "subgroup": "site", "sample_weight": "w"}
    in_memory = evaluate(open_predictions(long_file, **options), n_resamples=100)
    monkeypatch.setattr("orcu.evaluation.statistics.IN_MEMORY_CELLS", 10_000)
    monkeypatch.setattr("orcu.io.reading.BATCH_ROWS", 611)
    streamed = evaluate(open_predictions(long_file, **options), n_resamples=100)
    assert not in_memory.sampled
    assert streamed.sampled
    assert 400 < len(streamed.sample) < 600
    assert "streamed" in streamed.notes[-1]
    for name in METRICS.names():
        assert streamed[name].value == in_memory[name].value, name
        if name != "ace":  # a stream uses the bins of the whole file for its subgroups
            for group in ("a", "b"):
                assert streamed.subgroups[group][name].value == in_memory.subgroups[group][name].value, name
    assert streamed.rows == in_memory.rows == 5000
    assert (streamed.sums.confusion == in_memory.sums.confusion).all()
    for name in ("sce", "ece"):
        assert streamed[name].expected == pytest.approx(in_memory[name].expected, rel=0.35)
    assert streamed["rps"].high - streamed["rps"].low == pytest.approx(
        in_memory["rps"].high - in_memory["rps"].low, rel=0.35
    )
    assert streamed.per_threshold[1]["auc"].value == pytest.approx(in_memory.per_threshold[1]["auc"].value, abs=0.03)


def test_evaluate_stream_takes_clusters_and_other_models(long_file, monkeypatch):
    monkeypatch.setattr("orcu.evaluation.statistics.IN_MEMORY_CELLS", 10_000)
    options = {"label": "y", "logits": "z_*", "cluster": "patient"}
    first, other = (open_predictions(long_file, **options) for _ in range(2))
    evaluation = evaluate(first, compare={"again": other}, n_resamples=50)
    assert evaluation.differences["again"]["rps"].value == 0
    assert evaluation["rps"].low < evaluation["rps"].value < evaluation["rps"].high


def test_evaluate_invalid_arguments_raise(ordinal_sample):
    logits, y = ordinal_sample(30)
    with pytest.raises(InputError, match="--label"):
        evaluate(logits=logits)
    with pytest.raises(InputError, match="^label: .*'0'"):
        evaluate(logits=logits, y=np.zeros(30, dtype=int))
    with pytest.raises(InputError, match="^probs, logits:"):
        evaluate(y=y)
    with pytest.raises(InputError, match="^predictions:"):
        evaluate(Predictions(logits=logits, y=y), y=y)
    with pytest.raises(InputError, match="^n_resamples: .*0"):
        evaluate(logits=logits, y=y, n_resamples=-1)


def test_evaluate_two_rows_leaves_undefined_values_nan():
    evaluation = evaluate(probs=[[0.9, 0.1], [0.2, 0.8]], y=[0, 1])
    assert evaluation["accuracy"].value == 1
    assert math.isnan(evaluation.per_threshold[0]["slope"].value)
    no_resamples = evaluate(probs=[[0.9, 0.1], [0.2, 0.8]], y=[0, 1], n_resamples=0)
    assert math.isnan(no_resamples["accuracy"].low)


def test_evaluate_impossible_label_is_counted(tmp_path):
    evaluation = evaluate(probs=[[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], y=[0, 0, 1], n_resamples=50)
    assert evaluation["nll"].value == math.inf
    assert evaluation.impossible_rows == 1
    assert "infinite (1 row)" in evaluation.to_markdown()
    assert evaluation.to_dict()["metrics"]["nll"]["value"] is None
    assert evaluation.to_dict()["infinite_nll_rows"] == 1


def test_evaluation_to_dict_is_plain_data(evaluation):
    plain = json.loads(json.dumps(evaluation.to_dict(), allow_nan=False))
    assert plain["metrics"]["sce"]["value"] == evaluation["sce"].value
    assert plain["metrics"]["sce"]["calibrated_95"] == evaluation["sce"].limit
    assert plain["classes"] == ["a", "b", "c", "d", "e"]
    assert plain["bootstrap"] == {"n_resamples": 200, "seed": 0, "confidence_level": 0.95}
    assert plain["conventions"]["ece"].startswith("top label, 15 equal-width bins (a, b]")
    assert len(plain["per_threshold"]) == 4
    assert np.sum(plain["confusion"]) == 1200


def test_evaluation_pickle_round_trip(evaluation):
    assert pickle.loads(pickle.dumps(evaluation)).to_dict() == evaluation.to_dict()


def test_gate_parse_and_fails(evaluation):
    sce = evaluation["sce"].value
    assert Gate.parse(f"sce>{sce / 2}").fails(evaluation)
    assert not Gate.parse(f"sce > {sce * 2}").fails(evaluation)
    assert Gate.parse(f"sce.low>={evaluation['sce'].low}").fails(evaluation)
    assert Gate.parse("accuracy<1").fails(evaluation)
    assert not Gate.parse("accuracy <= 0").fails(evaluation)
    assert "sce.high = " in Gate.parse("sce.high>1").reason(evaluation)
    undefined = evaluate(probs=[[0.9, 0.1], [0.2, 0.8]], y=[0, 1], n_resamples=0)
    assert Gate.parse("sce.low>0.9").fails(undefined)  # an undefined value does not pass
    assert "not defined" in Gate.parse("sce.low>0.9").reason(undefined)
    for wrong in ("sce", "sce>", "sce>abc", "sce.mean>0.1", ">0.1", "sce=0.1"):
        with pytest.raises(InputError, match="^--fail-if .*sce.low>0.05"):
            Gate.parse(wrong)
    with pytest.raises(InputError, match="^--fail-if 'sce>5': .*0.05"):
        Gate.parse("sce>5")
    assert not Gate.parse("mae>5").fails(evaluation)  # in classes
    with pytest.raises(UnknownNameError, match="metric 'sec'.*'sce'"):
        Gate.parse("sec>0.1")


def test_evaluate_calls_and_memory_do_not_grow_with_pairs_of_rows(ordinal_sample):
    """Counts calls and memory instead of seconds, which depend on the machine."""

    def calls(rows):
        logits, y = ordinal_sample(rows)
        profile = cProfile.Profile()
        profile.runcall(evaluate, logits=logits, y=y, n_resamples=100)
        return sum(entry.callcount for entry in profile.getstats())

    few, many = calls(2000), calls(10_000)
    assert many < 1.5 * few
    logits, y = ordinal_sample(10_000)
    tracemalloc.start()
    evaluate(logits=logits, y=y, n_resamples=100)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10_000**2  # bytes: one for each pair of rows


def test_evaluate_insignificant_error_has_an_interval_from_zero():
    y = np.arange(31) % 3
    probs = np.full((31, 3), 0.01)
    probs[np.arange(31), y] = 0.98  # all rows are right, so that all resamples are equal
    evaluation = evaluate(probs=probs, y=y)["ece"]
    assert evaluation.value == pytest.approx(0.02)
    assert evaluation.value < evaluation.limit
    assert evaluation.low == 0


def test_evaluate_uncertainty_column_orders_the_referral_curve(tmp_path):
    rng = np.random.default_rng(5)
    probs, y = rng.dirichlet(np.ones(3), size=300), rng.integers(3, size=300)
    uncertainty = (probs.argmax(1) != y) + 0.01 * rng.random(300)
    by_uncertainty = evaluate(probs=probs, y=y, uncertainty=uncertainty, n_resamples=0)
    assert (by_uncertainty.referral.by, by_uncertainty.to_dict()["referral"]["by"]) == ("uncertainty", "uncertainty")
    assert by_uncertainty.referral.error_area < evaluate(probs=probs, y=y, n_resamples=0).referral.error_area
    assert "uncertainty" in by_uncertainty.to_html()
    Predictions(probs=probs, y=y, uncertainty=uncertainty).write(tmp_path / "own.parquet")
    assert evaluate(open_predictions(tmp_path / "own.parquet"), n_resamples=0).referral.error == pytest.approx(
        by_uncertainty.referral.error
    )
    lines = [f"{a},{b},{c},{k},{d}" for (a, b, c), k, d in zip(probs, y, uncertainty, strict=True)]
    (tmp_path / "preds.csv").write_text("\n".join(["p_0,p_1,p_2,y,epistemic", *lines]))
    read = open_predictions(tmp_path / "preds.csv", label="y", probs="p_*", uncertainty="epistemic")
    assert evaluate(read, n_resamples=0).referral.error == pytest.approx(by_uncertainty.referral.error)
    (tmp_path / "gaps.csv").write_text("\n".join(["p_0,p_1,p_2,y,epistemic", *lines[:5], "0.2,0.3,0.5,1,"]))
    with pytest.raises(InputError, match="epistemic"):
        evaluate(
            open_predictions(tmp_path / "gaps.csv", label="y", probs="p_*", uncertainty="epistemic"), n_resamples=0
        )


def test_headline_names_subgroups_whose_gaps_cancel_out():
    rng = np.random.default_rng(1)
    probs = np.tile([0.1, 0.6, 0.3], (2000, 1))
    site = np.repeat(["north", "south"], 1000)
    right = rng.random(2000) < np.where(site == "north", 0.75, 0.45)  # predicted with 0.6 in both
    evaluation = evaluate(probs=probs, y=np.where(right, 1, 2), subgroup=site, n_resamples=200)
    by_subgroup = next(sentence for sentence in failures(evaluation) if "south" in sentence)
    overall = headline(evaluation)[len(failures(evaluation))]
    assert "60.0 %" in overall
    assert "over-confident" not in overall
    assert "under-confident" not in overall
    assert re.search(r"south is over-confident by 1\d points", by_subgroup)
    assert re.search(r"north is under-confident by 1\d points", by_subgroup)
    assert next_step(evaluation).startswith("Do not use these predictions")  # the same probabilities for all rows
    assert next_step(evaluation) in evaluation.to_html()


def test_headline_without_resamples_makes_no_statement_about_significance():
    probs, y = [[0.9, 0.1]] * 40, [0] * 20 + [1] * 20
    other = {"other": Predictions(probs=[[0.6, 0.4]] * 40, y=y)}
    silent = evaluate(probs=probs, y=y, subgroup=["a"] * 20 + ["b"] * 20, compare=other, n_resamples=0)
    assert not any(
        "group" in sentence or "other" in sentence or "significant" in sentence
        for sentence in (*headline(silent)[:3], *headline(silent)[4:])
    )
    assert len(failures(silent)) == 2  # useless, and a class is never predicted
    assert len(headline(silent)) == 6
    few = evaluate(probs=probs, y=y, subgroup=["a"] * 20 + ["b"] * 20, n_resamples=50)
    assert any("2 of 2 have fewer than 30 rows" in sentence for sentence in headline(few))


def test_next_step_follows_from_the_results():
    rng = np.random.default_rng(2)
    z = -((np.arange(4) - rng.uniform(-0.5, 3.5, size=(3000, 1))) ** 2)
    truth = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    y = (rng.random((3000, 1)) > truth.cumsum(1)[:, :-1]).sum(1)
    assert next_step(evaluate(logits=z, y=y, n_resamples=100)).startswith(
        "No calibration error is significant on these rows (corrected for noise, the SCE is at most "
    )
    assert "orcu calibrate fit" in next_step(evaluate(logits=3 * z, y=y, n_resamples=100))
    assert "12 rows" in next_step(evaluate(logits=z[:12], y=y[:12], n_resamples=50))
    other = evaluate(logits=3 * z, y=y, compare={"calm": Predictions(logits=z, y=y)}, n_resamples=100)
    better, metrics_compared, worse = map(
        int, re.search(r'"calm".* in (\d+) of (\d+) .* in (\d+)', headline(other)[-1]).groups()
    )
    assert (better, metrics_compared) == (0, 15)
    assert worse >= 5


def test_gate_with_subgroup_fails_on_its_rows():
    probs, y = [[0.9, 0.1]] * 40, [0] * 20 + [1] * 20
    site = ["a:1"] * 20 + ["b"] * 20
    evaluation = evaluate(probs=probs, y=y, subgroup=site, n_resamples=0)
    assert not Gate.parse("a:1: accuracy<0.9").fails(evaluation)
    assert Gate.parse("b: accuracy < 0.9").fails(evaluation)
    worst = Gate.parse("*: accuracy<0.9")
    assert worst.fails(evaluation)
    assert worst.reason(evaluation) == "accuracy in b = 0"
    assert Gate.parse("*: accuracy<-0.5").reason(evaluation) == "accuracy in b = 0"  # the closest value
    with pytest.raises(UnknownNameError, match="Available: a:1, b"):
        Gate.parse("c: accuracy<0.9").fails(evaluation)
    with pytest.raises(InputError, match="--subgroup"):
        Gate.parse("*: accuracy<0.9").fails(evaluate(probs=probs, y=y, n_resamples=0))


def test_evaluate_compare_other_clusters_raises():
    probs, y = [[0.6, 0.4], [0.7, 0.3], [0.2, 0.8]], [0, 0, 1]
    first = Predictions(probs=probs, y=y, cluster=["ann", "bob", "cid"])
    swapped = first.replace(cluster=["bob", "ann", "cid"])
    with pytest.raises(InputError, match="^other: row 1 .*cluster 'bob'.*'ann'"):
        evaluate(first, compare={"other": swapped}, n_resamples=0)


def test_predictions_read_alphabetical_classes_need_an_explicit_order(tmp_path):
    file = tmp_path / "preds.csv"
    file.write_text("y,p_mild,p_none,p_severe\nnone,0.2,0.7,0.1\nsevere,0.2,0.1,0.7\nmild,0.6,0.2,0.2\n")
    with pytest.raises(InputError, match=r"alphabetical order \(mild, none, severe\)"):
        Predictions.read(file, label="y", probs="p_*")
    right = Predictions.read(file, label="y", probs="p_*", classes=["none", "mild", "severe"])
    assert right.probs[0].tolist() == [0.7, 0.2, 0.1]
    assert Predictions.read(file, label="y", probs="p_*", classes=["mild", "none", "severe"]).classes[0] == "mild"
    with pytest.raises(InputError, match="None, Mild, Severe"):
        Predictions.read(file, label="y", probs="p_*", classes=["None", "Mild", "Severe"])
    file.write_text("y,p_0,p_1\n1,0.8,0.2\n2,0.3,0.7\n")  # numbers are positions
    assert Predictions.read(file, label="y", probs="p_*", classes=["1", "2"]).y.tolist() == [0, 1]
    file.write_text("y,p_grade 1,p_grade 10,p_grade 2\ngrade 1,0.7,0.2,0.1\ngrade 2,0.1,0.2,0.7\n")
    with pytest.raises(InputError, match="alphabetical order"):
        Predictions.read(file, label="y", probs="p_*")
    file.write_text("y,p_grade 1,p_grade 2,p_grade 3\ngrade 1,0.7,0.2,0.1\ngrade 3,0.1,0.2,0.7\n")
    assert Predictions.read(file, label="y", probs="p_*").classes == ("grade 1", "grade 2", "grade 3")


def test_predictions_read_two_digits_are_normalised_within_rounding(tmp_path):
    file = tmp_path / "preds.csv"
    lines = ["y,p_0,p_1,p_2,p_3,p_4", "2,0.01,0.03,0.60,0.35,0.03", "1,0.20,0.50,0.20,0.05,0.05"]
    file.write_text("\n".join(lines))
    predictions = Predictions.read(file, label="y", probs="p_*")
    assert predictions.probs[0].sum() == pytest.approx(1)
    assert any("1 row" in note for note in predictions.notes)
    file.write_text("\n".join([*lines, "1,0.20,0.50,0.20,0.05,0.08"]))
    with pytest.raises(InputError, match=r"row 3 sums to 1\.03"):
        Predictions.read(file, label="y", probs="p_*")


def test_evaluate_compare_needs_cluster_and_weight_of_both_models(ordinal_sample, softmax):
    logits, y = ordinal_sample(300)
    probs, who = softmax(logits), np.arange(300) // 3
    with pytest.raises(InputError, match="^other: cluster is missing.*--cluster"):
        evaluate(probs=probs, y=y, cluster=who, compare={"other": Predictions(probs=probs, y=y)}, n_resamples=50)
    weighted = Predictions(probs=probs, y=y, sample_weight=np.linspace(0.5, 1, 300))
    with pytest.raises(InputError, match="^other: sample_weight is given.*--sample-weight"):
        evaluate(probs=probs, y=y, compare={"other": weighted}, n_resamples=50)


def test_evaluate_impossible_rows_do_not_depend_on_positive_weights():
    plain = evaluate(logits=[[0.0, 1e6], [1.0, 0.0], [0.0, 1.0]], y=[0, 0, 1], n_resamples=0)
    weighted = evaluate(
        logits=[[0.0, 1e6], [1.0, 0.0], [0.0, 1.0]], y=[0, 0, 1], sample_weight=[2.0, 1.0, 1.0], n_resamples=0
    )
    assert plain.impossible_rows == weighted.impossible_rows == 1
    without = evaluate(
        logits=[[0.0, 1e6], [1.0, 0.0], [0.0, 1.0]], y=[0, 0, 1], sample_weight=[0.0, 1.0, 1.0], n_resamples=0
    )
    assert without.impossible_rows == 0


@pytest.mark.parametrize("num_classes", [4, 5, 8])
def test_evaluate_permuted_classes_warns_with_their_order(num_classes):
    rng = np.random.default_rng(0)
    center = rng.uniform(-0.5, num_classes - 0.5, size=(400, 1))
    logits = -((np.arange(num_classes) - center) ** 2)
    names = [f"grade {k}" for k in range(num_classes)]
    y = np.array(names)[logits.argmax(axis=1)]
    order = rng.permutation(num_classes)
    while order.tolist() in (sorted(order), sorted(order)[::-1]):
        order = rng.permutation(num_classes)
    mixed = evaluate(logits=logits[:, order], y=y, classes=[names[k] for k in order], n_resamples=0)
    (warning,) = [note for note in mixed.notes if "order" in note and note.startswith("WARNING")]
    orders = [", ".join(order) for order in (names, names[::-1])]
    assert any(text in warning for text in orders)
    right = evaluate(logits=logits, y=y, classes=names, n_resamples=0)
    bumpy = evaluate(logits=rng.normal(size=(400, num_classes)), y=y, classes=names, n_resamples=0)
    for other in (right, bumpy):
        assert not [note for note in other.notes if note.startswith("WARNING")]


def test_evaluate_rounded_zeros_explain_the_infinite_nll_and_give_a_finite_value():
    probs, y = [[0.999, 0.001, 0.0], [0.5, 0.499, 0.001], [0.2, 0.3, 0.5]], [2, 0, 1]
    evaluation = evaluate(probs=probs, y=y, n_resamples=0)
    (note,) = (note for note in evaluation.notes if "NLL" in note)
    expected = -np.log([0.0005, 0.5, 0.3]).mean()
    assert "1 row gives probability 0" in note
    assert "rounded to 3 digits, so 0 means less than 0.0005" in note
    assert note.endswith(f"it is {expected:.3f}")
    assert not any("NLL" in note for note in evaluate(probs=[[0.6, 0.4], [0.4, 0.6]], y=[0, 1], n_resamples=0).notes)


def test_evaluate_cost_matrix_gives_the_mean_cost_with_interval_and_gate():
    rng = np.random.default_rng(4)
    probs, y = rng.dirichlet([1, 1, 1], size=300), rng.integers(3, size=300)
    costs = np.array([[0, 1, 2], [3, 0, 1], [9, 4, 0]])
    evaluation = evaluate(probs=probs, y=y, rule=costs, subgroup=np.arange(300) % 2, n_resamples=200)
    cost = evaluation["cost"]
    assert cost.value == pytest.approx(costs[y, (probs @ costs).argmin(axis=1)].mean())
    assert cost.low < cost.value < cost.high
    assert Gate.parse(f"cost > {cost.value - 0.01}").fails(evaluation)
    assert not Gate.parse(f"cost > {cost.value + 0.01}").fails(evaluation)
    assert Gate.parse("*: cost.high < 100").fails(evaluation)
    assert "Mean cost" in evaluation.to_markdown()
    assert evaluation.to_dict()["metrics"]["cost"]["better"] == "lower"
    with pytest.raises(InputError, match="--rule costs.csv"):
        Gate.parse("cost > 1").fails(evaluate(probs=probs, y=y, n_resamples=0))


def test_format_metric_interval_without_an_error_above_noise_is_explained():
    evaluation = evaluate(probs=[[0.5, 0.5]] * 40, y=[0, 1] * 20, n_resamples=50)
    estimate = dataclasses.replace(evaluation["sce"], low=0.0, high=0.0)
    evaluation.metrics["sce"] = estimate
    assert format_metric_interval(evaluation, METRICS.get("sce")) == "0 (only noise)"
