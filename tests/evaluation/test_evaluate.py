"""`orcu.evaluate`: the numbers of the functions, groups, models, streams, gates, and bad input."""

import cProfile
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
from orcu.evaluation.gates import Gate
from orcu.metrics.base import METRICS, all_metrics
from orcu.metrics.thresholds import auc, calibration_line, decision_rates
from orcu.predictions.predictions import open_predictions
from orcu.report.headline import headline, next_step


@pytest.fixture(scope="module")
def judged(ordinal_sample):
    logits, y = ordinal_sample(1200)
    return evaluate(logits=logits, y=y, classes=["a", "b", "c", "d", "e"], bootstrap=200)


@pytest.mark.parametrize("kept", ["single", "half", 4, 5, 6, 7, 8])
def test_probabilities_that_were_rounded_are_judged_all_the_same(ordinal_sample, softmax, kept):
    logits, y = ordinal_sample(900)
    exact = softmax(logits)
    kinds = {"single": np.float32, "half": np.float16}
    rounded = exact.astype(kinds[kept]) if kept in kinds else exact.round(kept)
    told, expected = (evaluate(probs=probs, y=y, bootstrap=0).metrics for probs in (rounded, exact))
    for name in ("threshold_ce", "ece", "rps", "accuracy"):
        assert told[name].value == pytest.approx(expected[name].value, abs=2e-3), name


def test_values_are_those_of_the_functions(ordinal_sample, softmax):
    logits, y = ordinal_sample(900)
    probs = softmax(logits)
    weight = np.random.default_rng(2).random(900)
    for w in (None, weight):
        found = evaluate(probs=probs, y=y, weight=w, bootstrap=20)
        for metric in all_metrics():
            function = getattr(metrics, metric.name)
            arguments = (probs,) if metric.name in {"unimodality", "sharpness"} else (probs, y)
            assert found[metric.name].value == pytest.approx(function(*arguments, weight=w), abs=1e-12), metric.name
        assert [r["auc"].value for r in found.per_threshold] == pytest.approx(auc(probs, y, weight=w))
        line = calibration_line(probs, y, weight=w)
        assert [r["intercept"].value for r in found.per_threshold] == pytest.approx(line[:, 0])
        assert [r["slope"].value for r in found.per_threshold] == pytest.approx(line[:, 1])
        parts = metrics.rps_decomposition(probs, y, weight=w)
        assert found.decomposition == pytest.approx(vars(parts))
        assert [r["ce"] for r in found.per_class] == pytest.approx(metrics.class_ce(probs, y, weight=w))


def test_thresholds_are_those_of_a_clinic(judged, ordinal_sample, softmax):
    logits, y = ordinal_sample(1200)
    pred = softmax(logits).argmax(1)
    for k, record in enumerate(judged.per_threshold):
        event, alarm = y > k, pred > k
        assert record["prevalence"] == pytest.approx(event.mean())
        assert record["sensitivity"].value == pytest.approx(alarm[event].mean())
        assert record["specificity"].value == pytest.approx((~alarm)[~event].mean())
        assert record["ppv"].value == pytest.approx(event[alarm].mean())
        assert record["npv"].value == pytest.approx((~event)[~alarm].mean())
        for name in ("sensitivity", "specificity", "ppv", "npv", "auc", "intercept", "slope"):
            assert record[name].low < record[name].value < record[name].high, name
    assert [r["event"] for r in judged.per_threshold] == ["b or above", "c or above", "d or above", "e"]
    with np.errstate(all="raise"):
        assert math.isnan(decision_rates(np.array([[4.0, 0.0], [0.0, 0.0]]))["sensitivity"][0])


def test_influence_intervals_are_those_of_refitting(ordinal_sample, softmax):
    """AUC and calibration line of resamples, by influence and by brute force."""
    logits, y = ordinal_sample(500, num_classes=3)
    probs = softmax(logits)
    found = evaluate(probs=probs, y=y, bootstrap=400).per_threshold
    rng = np.random.default_rng(5)
    picks = [rng.integers(500, size=500) for _ in range(400)]
    areas = np.array([auc(probs[p], y[p]) for p in picks])
    lines = np.array([calibration_line(probs[p], y[p]) for p in picks])
    for k in range(2):
        for name, draws in (("auc", areas[:, k]), ("intercept", lines[:, k, 0]), ("slope", lines[:, k, 1])):
            width = found[k][name].high - found[k][name].low
            low, high = np.quantile(draws, [0.025, 0.975])
            assert width == pytest.approx(high - low, rel=0.25), (k, name)


def test_groups_are_judged_like_files_of_their_own(ordinal_sample):
    logits, y = ordinal_sample(600)
    site = np.where(np.arange(600) % 3 == 0, "north", "south")
    found = evaluate(logits=logits, y=y, group=site, bootstrap=50)
    alone = evaluate(logits=logits[site == "north"], y=y[site == "north"], bootstrap=50)
    assert list(found.groups) == ["north", "south"]
    assert found.groups["north"].metrics == alone.metrics
    one_class = np.where(y == 0, "only zeros", "rest")
    found = evaluate(logits=logits, y=y, group=one_class, bootstrap=20)
    assert math.isnan(found.groups["only zeros"].per_threshold[0]["auc"].value)
    with pytest.raises(InputError, match="group: 600 different groups.*--cluster"):
        evaluate(logits=logits, y=y, group=np.arange(600))


def test_subjects_are_drawn_as_wholes(ordinal_sample):
    logits, y = ordinal_sample(200)
    again, labels = np.repeat(logits, 10, axis=0), np.repeat(y, 10)
    subject = np.repeat(np.arange(200), 10)
    rows = evaluate(logits=again, y=labels, bootstrap=300)
    whole = evaluate(logits=again, y=labels, subject=subject, bootstrap=300)
    once = evaluate(logits=logits, y=y, bootstrap=300)
    assert whole.subjects == 200
    width = whole["rps"].high - whole["rps"].low
    assert width == pytest.approx(once["rps"].high - once["rps"].low, rel=0.01)
    assert width > 2 * (rows["rps"].high - rows["rps"].low)


def test_the_reference_respects_subjects(ordinal_sample):
    """Rows repeated for each subject: a calibrated model must not be condemned."""
    beyond = 0
    for seed in range(12):
        logits, y = ordinal_sample(150, sharpen=1.0, seed=seed)
        found = evaluate(
            logits=np.repeat(logits, 8, axis=0), y=np.repeat(y, 8), subject=np.repeat(np.arange(150), 8), bootstrap=200
        )
        beyond += found["sce"].value > found["sce"].limit
    assert beyond <= 3
    sharp = evaluate(
        logits=np.repeat(4 * logits, 8, axis=0), y=np.repeat(y, 8), subject=np.repeat(np.arange(150), 8), bootstrap=200
    )
    assert sharp["sce"].value > sharp["sce"].limit


def test_labels_that_are_off_by_one_are_doubted(ordinal_sample):
    logits, y = ordinal_sample(400, num_classes=3, sharpen=6.0)
    keep = y < 2
    found = evaluate(logits=logits[keep], y=y[keep] + 1, bootstrap=20)
    assert "WARNING: labels one class lower would be right in" in found.notes[-1]
    assert "WARNING" in found.to_html()
    assert not evaluate(logits=logits, y=y, bootstrap=20).notes


def test_the_smallest_float_is_judged():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), size=40)
    probs[0], probs[1] = [5e-324, 1.0, 0.0], [0.0, 0.5, 0.5]
    found = evaluate(probs=probs, y=rng.integers(3, size=40), bootstrap=20)
    assert np.isfinite(found.per_threshold[0]["slope"].value)


def test_intervals_stay_in_range():
    found = evaluate(probs=[[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.6, 0.3, 0.1]], y=[1, 1, 2], bootstrap=50)
    for name in METRICS.names():
        metric = METRICS.get(name)
        if metric.percent and np.isfinite(found[name].high):
            assert -1 <= found[name].low <= found[name].high <= 1, name
    assert all(r["auc"].low >= 0 for r in found.per_threshold if np.isfinite(r["auc"].low))
    assert repr(found).startswith("Evaluation('model', 3 rows: accuracy 0.333")


def test_decisions_follow_the_rule(ordinal_sample, softmax):
    from orcu import decide

    logits, y = ordinal_sample(500, sharpen=0.5)
    probs = softmax(logits)
    for rule in ("median", "mean", np.abs(np.arange(5)[:, None] - np.arange(5)) ** 3):
        found = evaluate(logits=logits, y=y, decide=rule, bootstrap=0)
        pred = decide(probs, rule)
        assert found["mae"].value == pytest.approx(metrics.mae(y=y, pred=pred))
        assert found["accuracy"].value == pytest.approx(metrics.accuracy(y=y, pred=pred))
        assert found["ece"].value == pytest.approx(metrics.ece(probs, y))  # of the top label as ever
        assert found.referral.mae[0] == pytest.approx(found["mae"].value)
        assert json.dumps(found.to_dict()["decide"])
    small = evaluate(probs=[[0.9, 0.1], [0.2, 0.8]], y=[0, 1], decide="median", bootstrap=0)
    assert "smallest class with P(Y" in small.to_html()


def test_models_are_compared_in_pairs(ordinal_sample):
    logits, y = ordinal_sample(800)
    ids = np.array([f"row{i}" for i in range(800)])
    order = np.random.default_rng(0).permutation(800)
    mine = Predictions(logits=logits, y=y, ids=ids)
    cooler = Predictions(logits=logits[order] / 1.5, y=y[order], ids=ids[order])
    found = evaluate(mine, compare={"cooler": cooler}, bootstrap=200, name="sharp")
    difference = found.differences["cooler"]
    assert difference["accuracy"].value == 0
    assert difference["accuracy"].favour == 0.5
    assert difference["nll"].low > 0
    assert difference["nll"].favour < 0.01
    assert difference["sharpness"].favour is None
    assert difference["overconfidence"].favour < 0.1
    assert found.others[0].name == "cooler"
    # pairing removes the noise that both share
    alone = found["nll"].high - found["nll"].low
    assert difference["nll"].high - difference["nll"].low < alone
    reverse = evaluate(cooler, compare={"sharp": mine}, bootstrap=200, name="cooler")
    assert reverse.differences["sharp"]["nll"].value == pytest.approx(-difference["nll"].value)


def test_models_on_other_rows_are_refused(ordinal_sample):
    logits, y = ordinal_sample(50)
    mine = Predictions(logits=logits, y=y)
    with pytest.raises(InputError, match="other: 49 rows, the first model has 50"):
        evaluate(mine, compare={"other": Predictions(logits=logits[1:], y=y[1:])})
    with pytest.raises(InputError, match=r"other: other labels.*in row 1;.*--id COLUMN"):
        evaluate(mine, compare={"other": Predictions(logits=logits, y=(y + 1) % 5)})
    with pytest.raises(InputError, match="its classes are a, b, c, d, e"):
        evaluate(mine, compare={"other": Predictions(logits=logits, y=y, classes=list("abcde"))})
    with pytest.raises(InputError, match="two models are called 'model'"):
        evaluate(mine, compare={"model": mine})
    named = Predictions(logits=logits, y=y, ids=np.arange(50))
    with pytest.raises(InputError, match="1 ids of the first model are not there, for example '0'"):
        evaluate(named, compare={"other": Predictions(logits=logits, y=y, ids=np.arange(1, 51))})


@pytest.fixture
def long_file(tmp_path, ordinal_sample):
    logits, y = ordinal_sample(5000)
    frame = pd.DataFrame(logits.round(1), columns=[f"z_{k}" for k in range(5)])  # ties
    frame["y"], frame["site"] = y, np.where(np.arange(5000) % 4 == 0, "a", "b")
    frame["w"], frame["patient"] = np.arange(5000) % 7 + 0.25, np.arange(5000) // 2
    frame.to_parquet(tmp_path / "long.parquet", row_group_size=700)
    return tmp_path / "long.parquet"


def test_a_stream_gives_the_same_bits_as_memory(long_file, monkeypatch):
    options = {"label": "y", "logits": "z_*", "group": "site", "weight": "w"}
    whole = evaluate(open_predictions(long_file, **options), bootstrap=100)
    monkeypatch.setattr("orcu.evaluation.evidence.IN_MEMORY_CELLS", 10_000)
    monkeypatch.setattr("orcu.io.reading.BATCH_ROWS", 611)
    streamed = evaluate(open_predictions(long_file, **options), bootstrap=100)
    assert not whole.sampled
    assert streamed.sampled
    assert 400 < len(streamed.sample) < 600
    assert "streamed" in streamed.notes[-1]
    for name in METRICS.names():
        assert streamed[name].value == whole[name].value, name
        if name != "ace":  # its groups are those of the whole file in a stream
            for group in ("a", "b"):
                assert streamed.groups[group][name].value == whole.groups[group][name].value, name
    assert streamed.rows == whole.rows == 5000
    assert (streamed.tables.confusion == whole.tables.confusion).all()
    for name in ("sce", "ece"):
        assert streamed[name].expected == pytest.approx(whole[name].expected, rel=0.35)
    assert streamed["rps"].high - streamed["rps"].low == pytest.approx(whole["rps"].high - whole["rps"].low, rel=0.35)
    assert streamed.per_threshold[1]["auc"].value == pytest.approx(whole.per_threshold[1]["auc"].value, abs=0.03)


def test_streams_take_subjects_and_other_models(long_file, monkeypatch):
    monkeypatch.setattr("orcu.evaluation.evidence.IN_MEMORY_CELLS", 10_000)
    options = {"label": "y", "logits": "z_*", "subject": "patient"}
    mine, other = (open_predictions(long_file, **options) for _ in range(2))
    found = evaluate(mine, compare={"again": other}, bootstrap=50)
    assert found.differences["again"]["rps"].value == 0
    assert found["rps"].low < found["rps"].value < found["rps"].high


def test_what_cannot_be_judged_is_refused(ordinal_sample):
    logits, y = ordinal_sample(30)
    with pytest.raises(InputError, match="the predictions have no labels.*--label"):
        evaluate(logits=logits)
    with pytest.raises(InputError, match="every row has the class '0'; at least two"):
        evaluate(logits=logits, y=np.zeros(30, dtype=int))
    with pytest.raises(InputError, match="exactly one of the two"):
        evaluate(y=y)
    with pytest.raises(InputError, match="as one object or as arrays"):
        evaluate(Predictions(logits=logits, y=y), y=y)
    with pytest.raises(InputError, match="bootstrap: expected a whole number of at least 0"):
        evaluate(logits=logits, y=y, bootstrap=-1)


def test_few_rows_are_judged_without_a_nan_in_sight_of_a_warning():
    found = evaluate(probs=[[0.9, 0.1], [0.2, 0.8]], y=[0, 1])
    assert found["accuracy"].value == 1
    assert math.isnan(found.per_threshold[0]["slope"].value)
    no_resamples = evaluate(probs=[[0.9, 0.1], [0.2, 0.8]], y=[0, 1], bootstrap=0)
    assert math.isnan(no_resamples["accuracy"].low)


def test_an_impossible_label_is_counted(tmp_path):
    found = evaluate(probs=[[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], y=[0, 0, 1], bootstrap=20)
    assert found["nll"].value == math.inf
    assert found.impossible_rows == 1
    assert "infinite (1 rows)" in found.to_markdown()
    assert found.to_dict()["metrics"]["nll"]["value"] is None
    assert found.to_dict()["infinite_nll_rows"] == 1


def test_results_are_plain_data(judged):
    plain = json.loads(json.dumps(judged.to_dict(), allow_nan=False))
    assert plain["metrics"]["sce"]["value"] == judged["sce"].value
    assert plain["metrics"]["sce"]["calibrated_95"] == judged["sce"].limit
    assert plain["classes"] == ["a", "b", "c", "d", "e"]
    assert plain["bootstrap"] == {"resamples": 200, "seed": 0, "level": 0.95}
    assert plain["conventions"]["ece"].startswith("top label, 15 equal-width bins (a, b]")
    assert len(plain["per_threshold"]) == 4
    assert np.sum(plain["confusion"]) == 1200


def test_an_evaluation_travels_as_pickle(judged):
    assert pickle.loads(pickle.dumps(judged)).to_dict() == judged.to_dict()


def test_gates(judged):
    sce = judged["sce"].value
    assert Gate.parse(f"sce>{sce / 2}").trips(judged)
    assert not Gate.parse(f"sce > {sce * 2}").trips(judged)
    assert Gate.parse(f"sce.low>={judged['sce'].low}").trips(judged)
    assert Gate.parse("accuracy<1").trips(judged)
    assert not Gate.parse("accuracy <= 0").trips(judged)
    assert "sce.high = " in Gate.parse("sce.high>1").reason(judged)
    undefined = evaluate(probs=[[0.9, 0.1], [0.2, 0.8]], y=[0, 1], bootstrap=0)
    assert Gate.parse("sce.low>0.9").trips(undefined)  # what is not known does not pass
    assert "not defined" in Gate.parse("sce.low>0.9").reason(undefined)
    for wrong in ("sce", "sce>", "sce>abc", "sce.mean>0.1", ">0.1", "sce=0.1"):
        with pytest.raises(InputError, match="expected a metric, a comparison and a number"):
            Gate.parse(wrong)
    with pytest.raises(InputError, match="values are fractions.*5 % is 0.05"):
        Gate.parse("sce>5")
    assert not Gate.parse("mae>5").trips(judged)  # in classes
    with pytest.raises(UnknownNameError, match="unknown metric 'sec'. Did you mean"):
        Gate.parse("sec>0.1")


def test_more_rows_take_no_more_calls_and_no_table_of_pairs(ordinal_sample):
    """Calls and memory in place of seconds, which depend on the machine."""

    def calls(rows):
        logits, y = ordinal_sample(rows)
        profile = cProfile.Profile()
        profile.runcall(evaluate, logits=logits, y=y, bootstrap=100)
        return sum(entry.callcount for entry in profile.getstats())

    few, many = calls(2000), calls(10_000)
    assert many < 1.5 * few
    logits, y = ordinal_sample(10_000)
    tracemalloc.start()
    evaluate(logits=logits, y=y, bootstrap=100)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10_000**2  # bytes: one for each pair of rows


def test_an_error_that_chance_explains_has_an_interval_from_zero():
    y = np.arange(31) % 3
    probs = np.full((31, 3), 0.01)
    probs[np.arange(31), y] = 0.98  # every row is right, so that no resample differs
    found = evaluate(probs=probs, y=y)["ece"]
    assert found.value == pytest.approx(0.02)
    assert found.value < found.limit
    assert found.low == 0


def test_a_score_of_the_file_refers_rows_in_memory_and_in_a_stream(tmp_path):
    rng = np.random.default_rng(5)
    probs, y = rng.dirichlet(np.ones(3), size=300), rng.integers(3, size=300)
    doubt = (probs.argmax(1) != y) + 0.01 * rng.random(300)
    given = evaluate(probs=probs, y=y, doubt=doubt, bootstrap=0)
    assert (given.referral.by, given.to_dict()["referral"]["by"]) == ("doubt", "doubt")
    assert given.referral.error_area < evaluate(probs=probs, y=y, bootstrap=0).referral.error_area
    assert "most doubtful first" in given.to_html()
    Predictions(probs=probs, y=y, doubt=doubt).write(tmp_path / "own.parquet")
    assert evaluate(open_predictions(tmp_path / "own.parquet"), bootstrap=0).referral.error == pytest.approx(
        given.referral.error
    )
    lines = [f"{a},{b},{c},{k},{d}" for (a, b, c), k, d in zip(probs, y, doubt, strict=True)]
    (tmp_path / "preds.csv").write_text("\n".join(["p_0,p_1,p_2,y,epistemic", *lines]))
    read = open_predictions(tmp_path / "preds.csv", label="y", probs="p_*", doubt="epistemic")
    assert evaluate(read, bootstrap=0).referral.error == pytest.approx(given.referral.error)
    (tmp_path / "gaps.csv").write_text("\n".join(["p_0,p_1,p_2,y,epistemic", *lines[:5], "0.2,0.3,0.5,1,"]))
    with pytest.raises(InputError, match="epistemic"):
        evaluate(open_predictions(tmp_path / "gaps.csv", label="y", probs="p_*", doubt="epistemic"), bootstrap=0)


def test_what_is_true_of_all_rows_is_not_said_where_groups_cancel_out():
    rng = np.random.default_rng(1)
    probs = np.tile([0.1, 0.6, 0.3], (2000, 1))
    site = np.repeat(["north", "south"], 1000)
    right = rng.random(2000) < np.where(site == "north", 0.75, 0.45)  # said 0.6 in both
    evaluation = evaluate(probs=probs, y=np.where(right, 1, 2), group=site, bootstrap=200)
    assert headline(evaluation)[0].startswith("Confidence matches accuracy within noise")
    first, second = headline(evaluation)[1].split(", ")[1:]
    assert {first.split()[0], second.split()[0]} == {"north", "south"}
    assert "south is over-confident by 1" in headline(evaluation)[1]
    assert "north is under-confident by 1" in headline(evaluation)[1]
    assert "orcu calibrate fit --group" in next_step(evaluation)
    assert next_step(evaluation) in evaluation.to_html()


def test_without_resamples_nothing_is_said_of_chance():
    probs, y = [[0.9, 0.1]] * 40, [0] * 20 + [1] * 20
    other = {"other": Predictions(probs=[[0.6, 0.4]] * 40, y=y)}
    silent = evaluate(probs=probs, y=y, group=["a"] * 20 + ["b"] * 20, compare=other, bootstrap=0)
    assert not any("group" in sentence or "Beside it" in sentence for sentence in headline(silent))
    few = evaluate(probs=probs, y=y, group=["a"] * 20 + ["b"] * 20, bootstrap=50)
    assert headline(few)[1].endswith("2 of 2 have too few rows to tell.")


def test_what_to_do_follows_from_what_is_wrong():
    rng = np.random.default_rng(2)
    z = -((np.arange(4) - rng.uniform(-0.5, 3.5, size=(3000, 1))) ** 2)
    truth = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    y = (rng.random((3000, 1)) > truth.cumsum(1)[:, :-1]).sum(1)
    assert next_step(evaluate(logits=z, y=y, bootstrap=100)).startswith("As far as these rows can tell")
    assert next_step(evaluate(logits=3 * z, y=y, bootstrap=100)).startswith("Calibrate it")
    assert "12 are too few" in next_step(evaluate(logits=z[:12], y=y[:12], bootstrap=20))
    other = evaluate(logits=3 * z, y=y, compare={"calm": Predictions(logits=z, y=y)}, bootstrap=100)
    words = headline(other)[-1]
    assert re.fullmatch(r"Beside it, calm is better beyond chance in (\d+) of \d+ metrics and worse in 0\.", words)
    assert int(re.search(r"in (\d+) of", words)[1]) >= 5


def test_gates_look_at_groups():
    probs, y = [[0.9, 0.1]] * 40, [0] * 20 + [1] * 20
    site = ["a:1"] * 20 + ["b"] * 20
    evaluation = evaluate(probs=probs, y=y, group=site, bootstrap=0)
    assert not Gate.parse("a:1: accuracy<0.9").trips(evaluation)
    assert Gate.parse("b: accuracy < 0.9").trips(evaluation)
    worst = Gate.parse("*: accuracy<0.9")
    assert worst.trips(evaluation)
    assert worst.reason(evaluation) == "accuracy in b = 0"
    assert Gate.parse("*: accuracy<-0.5").reason(evaluation) == "accuracy in b = 0"  # the nearest to it
    with pytest.raises(UnknownNameError, match="Known: a:1, b"):
        Gate.parse("c: accuracy<0.9").trips(evaluation)
    with pytest.raises(InputError, match="there are no groups"):
        Gate.parse("*: accuracy<0.9").trips(evaluate(probs=probs, y=y, bootstrap=0))


def test_models_of_other_subjects_are_not_paired():
    probs, y = [[0.6, 0.4], [0.7, 0.3], [0.2, 0.8]], [0, 0, 1]
    first = Predictions(probs=probs, y=y, subject=["ann", "bob", "cid"])
    swapped = first.replace(subject=["bob", "ann", "cid"])
    with pytest.raises(InputError, match="row 1 has subject 'bob', the first model's 'ann'"):
        evaluate(first, compare={"other": swapped}, bootstrap=0)


def test_classes_in_the_order_of_the_alphabet_are_refused_until_someone_says_theirs(tmp_path):
    file = tmp_path / "preds.csv"
    file.write_text("y,p_mild,p_none,p_severe\nnone,0.2,0.7,0.1\nsevere,0.2,0.1,0.7\nmild,0.6,0.2,0.2\n")
    with pytest.raises(InputError, match=r"order of the alphabet \(mild, none, severe\)"):
        Predictions.read(file, label="y", probs="p_*")
    right = Predictions.read(file, label="y", probs="p_*", classes=["none", "mild", "severe"])
    assert right.probs[0].tolist() == [0.7, 0.2, 0.1]
    assert Predictions.read(file, label="y", probs="p_*", classes=["mild", "none", "severe"]).classes[0] == "mild"
    with pytest.raises(InputError, match="the same but for capital letters"):
        Predictions.read(file, label="y", probs="p_*", classes=["None", "Mild", "Severe"])
    file.write_text("y,p_0,p_1\n1,0.8,0.2\n2,0.3,0.7\n")  # numbers are positions, whatever the classes are called
    assert Predictions.read(file, label="y", probs="p_*", classes=["1", "2"]).y.tolist() == [0, 1]
    file.write_text("y,p_grade 1,p_grade 10,p_grade 2\ngrade 1,0.7,0.2,0.1\ngrade 2,0.1,0.2,0.7\n")
    with pytest.raises(InputError, match="order of the alphabet"):
        Predictions.read(file, label="y", probs="p_*")
    file.write_text("y,p_grade 1,p_grade 2,p_grade 3\ngrade 1,0.7,0.2,0.1\ngrade 3,0.1,0.2,0.7\n")
    assert Predictions.read(file, label="y", probs="p_*").classes == ("grade 1", "grade 2", "grade 3")


def test_rows_that_were_rounded_to_two_digits_are_taken_as_far_as_rounding_goes(tmp_path):
    file = tmp_path / "preds.csv"
    lines = ["y,p_0,p_1,p_2,p_3,p_4", "2,0.01,0.03,0.60,0.35,0.03", "1,0.20,0.50,0.20,0.05,0.05"]
    file.write_text("\n".join(lines))
    predictions = Predictions.read(file, label="y", probs="p_*")
    assert predictions.probs[0].sum() == pytest.approx(1)
    assert any("1 row" in note for note in predictions.notes)
    file.write_text("\n".join([*lines, "1,0.20,0.50,0.20,0.05,0.08"]))
    with pytest.raises(InputError, match=r"row 3 sums to 1\.03"):
        Predictions.read(file, label="y", probs="p_*")


def test_models_are_paired_in_the_same_way_or_not_at_all(ordinal_sample, softmax):
    logits, y = ordinal_sample(300)
    probs, who = softmax(logits), np.arange(300) // 3
    with pytest.raises(InputError, match="a subject is known of the first model's rows and not of other"):
        evaluate(probs=probs, y=y, subject=who, compare={"other": Predictions(probs=probs, y=y)}, bootstrap=20)
    weighted = Predictions(probs=probs, y=y, weight=np.linspace(0.5, 1, 300))
    with pytest.raises(InputError, match="a weight is known of other and not of the first model's rows"):
        evaluate(probs=probs, y=y, compare={"other": weighted}, bootstrap=20)


def test_rows_that_were_impossible_are_counted_alike_with_weights():
    plain = evaluate(logits=[[0.0, 1e6], [1.0, 0.0], [0.0, 1.0]], y=[0, 0, 1], bootstrap=0)
    weighted = evaluate(logits=[[0.0, 1e6], [1.0, 0.0], [0.0, 1.0]], y=[0, 0, 1], weight=[2.0, 1.0, 1.0], bootstrap=0)
    assert plain.impossible_rows == weighted.impossible_rows == 1
    without = evaluate(logits=[[0.0, 1e6], [1.0, 0.0], [0.0, 1.0]], y=[0, 0, 1], weight=[0.0, 1.0, 1.0], bootstrap=0)
    assert without.impossible_rows == 0


@pytest.mark.parametrize("num_classes", [4, 5, 8])
def test_classes_in_another_order_are_noticed(num_classes):
    rng = np.random.default_rng(0)
    center = rng.uniform(-0.5, num_classes - 0.5, size=(400, 1))
    logits = -((np.arange(num_classes) - center) ** 2)
    names = [f"grade {k}" for k in range(num_classes)]
    y = np.array(names)[logits.argmax(axis=1)]
    order = rng.permutation(num_classes)
    while order.tolist() in (sorted(order), sorted(order)[::-1]):
        order = rng.permutation(num_classes)
    mixed = evaluate(logits=logits[:, order], y=y, classes=[names[k] for k in order], bootstrap=0)
    (doubt,) = [note for note in mixed.notes if "order" in note and note.startswith("WARNING")]
    either = [", ".join(one) for one in (names, names[::-1])]
    assert any(f"in the order {one} (or its reverse)" in doubt for one in either)
    right = evaluate(logits=logits, y=y, classes=names, bootstrap=0)
    bumpy = evaluate(logits=rng.normal(size=(400, num_classes)), y=y, classes=names, bootstrap=0)
    for one in (right, bumpy):
        assert not [note for note in one.notes if "in the order" in note]
