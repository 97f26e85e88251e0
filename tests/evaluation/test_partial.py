"""Evaluations of parts that are merged: the same bits for any partition, and intervals like local ones."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from prediction_tables import COLUMNS, table_of

import orcu
from orcu.errors import InputError
from orcu.evaluation import partial
from orcu.evaluation.partial import PartialEvaluation, _hash_texts
from orcu.predictions import Predictions, open_predictions
from orcu.resampling import interval

SCORES = ("accuracy", "mae", "rps", "brier", "nll", "qwk")


def miscalibrated(rows, seed=0, *, kind="probs", **columns):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([2, 2, 2], rows)
    true = 0.7 * p + 0.3 * rng.dirichlet([1, 1, 1], rows)
    y = (rng.random(rows)[:, None] > true.cumsum(1)[:, :-1]).sum(1)
    scores = {"probs": p} if kind == "probs" else {"logits": np.log(p) + 1}
    return Predictions(**scores, y=y, ids=[f"row {seed} {k}" for k in range(rows)], **columns)


def of(*parts, **options):
    states = []
    for part in parts:
        states.append(PartialEvaluation(**options))
        states[-1].update(part)
    return PartialEvaluation.merge_all(states)


@pytest.mark.parametrize(("kind", "columns"), [("probs", ()), ("logits", ("sample_weight", "uncertainty", "cluster"))])
def test_partial_evaluation_does_not_depend_on_the_partition(kind, columns, monkeypatch):
    monkeypatch.setattr(partial, "SAMPLE_ROWS", 300)  # more rows than the sample
    rng = np.random.default_rng(1)
    rows = 1_000
    optional = {
        "sample_weight": rng.choice([0.0, 1e-9, 0.3, 7.0], rows),
        "uncertainty": rng.normal(size=rows),
        "cluster": rng.integers(90, size=rows),
    }
    predictions = miscalibrated(rows, kind=kind, **{name: optional[name] for name in columns})
    expected = of(predictions)
    for ends in ([1, 700, 701], sorted(rng.integers(rows, size=20))):
        shuffled = predictions[rng.permutation(rows)]
        parts = [shuffled[slice(*ends)] for ends in zip([0, *ends], [*ends, rows], strict=True)]
        merged = of(*parts)
        np.testing.assert_array_equal(merged._state, expected._state)
        assert merged.statistics().sample.ids.tolist() == expected.statistics().sample.ids.tolist()
    assert merged.evaluate(n_resamples=30).to_dict() == expected.evaluate(n_resamples=30).to_dict()


def test_sample_with_duplicate_ids_does_not_depend_on_the_partition(monkeypatch):
    monkeypatch.setattr(partial, "SAMPLE_ROWS", 15)
    predictions = miscalibrated(40)._with(ids=np.array([f"r{k // 4}" for k in range(40)], dtype=object))
    samples = [
        of(*parts).statistics().sample.probs
        for parts in ([predictions], [predictions[20:], predictions[:20]], [predictions[np.arange(40)[::-1]]])
    ]
    np.testing.assert_array_equal(samples[0], samples[1])
    np.testing.assert_array_equal(samples[0], samples[2])


@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_metrics_of_merged_parts_are_those_of_evaluate_and_of_one_tally(kind):
    predictions = miscalibrated(1_000, kind=kind)
    merged, local = of(predictions[:300], predictions[300:]), orcu.evaluate(predictions, n_resamples=0)
    tally = orcu.Tally(3)
    tally.update(y=predictions.y, **predictions.scores)
    computed, expected = merged.tally.compute(), tally.compute()
    evaluation = merged.evaluate(n_resamples=0)
    assert np.isnan(evaluation["ace"].value)
    for name in set(computed) - {"ace"}:
        assert computed[name] == expected[name] == evaluation[name].value
        assert evaluation[name].value == pytest.approx(local[name].value, rel=1e-12)


@pytest.mark.slow
def test_intervals_and_references_of_merged_parts_are_like_local_ones():
    """Widths agree within 4 standard errors: 256 blocks determine a standard error within about 4.4 %."""
    predictions = miscalibrated(12_000)
    merged = of(predictions[:9_000], predictions[9_000:]).evaluate(n_resamples=500)
    local = orcu.evaluate(predictions, n_resamples=500)
    for name in SCORES:
        ours, theirs = merged[name], local[name]
        assert (ours.high - ours.low) / (theirs.high - theirs.low) == pytest.approx(1, abs=0.18)
        assert ours.low == pytest.approx(theirs.low, abs=0.35 * (theirs.high - theirs.low))
    for name in ("ece", "sce"):  # far above the reference
        ours, theirs = merged[name], local[name]
        assert ours.expected == pytest.approx(theirs.expected, rel=0.1)
        assert ours.limit == pytest.approx(theirs.limit, rel=0.1)
        assert ours.low == pytest.approx(theirs.low, rel=0.1)
        assert ours.p_value < 1e-6
    for ours, theirs in zip(merged.per_threshold, local.per_threshold, strict=True):
        assert ours["auc"].value == pytest.approx(theirs["auc"].value, rel=1e-9)
    assert merged.to_html().count("<svg") == local.to_html().count("<svg")


def test_intervals_of_clusters_are_those_of_blocks_of_clusters():
    """Rows of a cluster are copies: intervals must be as wide as those of the clusters, not of the rows."""
    few = miscalibrated(400)
    copies = few[np.repeat(np.arange(400), 25)].replace(ids=np.arange(10_000), cluster=np.repeat(np.arange(400), 25))
    clustered, rows = of(copies), of(copies.replace(cluster=None))
    ends = {name: part.evaluate(n_resamples=400)["accuracy"] for name, part in {"c": clustered, "r": rows}.items()}
    local = orcu.evaluate(copies, n_resamples=400)["accuracy"]
    assert (ends["c"].high - ends["c"].low) / (local.high - local.low) == pytest.approx(1, abs=0.25)
    assert (ends["c"].high - ends["c"].low) > 3 * (ends["r"].high - ends["r"].low)


@pytest.mark.slow
def test_intervals_of_merged_parts_cover_the_true_values():
    """200 simulated data sets of 800 rows: a coverage of 95 % has a standard error of 1.5 %."""
    population, simulations = orcu.Tally(3), 200
    for seed in range(1000, 1005):
        sample = miscalibrated(200_000, seed)
        population.update(sample.probs, sample.y)
    true = population.compute()
    covered = dict.fromkeys(SCORES, 0)
    for seed in range(simulations):
        rows = miscalibrated(800, seed)
        statistics = of(rows[:500], rows[500:]).statistics()
        draws = statistics.resampled(400, random_state=seed)
        for name in SCORES:
            metric = orcu.metrics.base.METRICS.get(name)
            low, high = interval(float(metric(statistics.totals)), metric(draws), statistics.small_sample_factor)
            covered[name] += low <= true[name] <= high
    for name, count in covered.items():
        assert 0.905 <= count / simulations <= 0.985, (name, count)


def test_state_is_restored_from_bytes_and_pickle():
    state = of(miscalibrated(500, cluster=np.arange(500) // 4), rule=np.ones((3, 3)) - np.eye(3))
    for restored in (PartialEvaluation.from_bytes(state.to_bytes()), pickle.loads(pickle.dumps(state))):
        assert restored.evaluate(n_resamples=40).to_dict() == state.evaluate(n_resamples=40).to_dict()
        assert repr(restored) == repr(state) == "PartialEvaluation(500 rows, classes=0, 1, 2, n_bins=15)"
    empty = PartialEvaluation.from_bytes(PartialEvaluation().to_bytes())
    assert empty.merge(of(miscalibrated(20))).rows == 20


def test_damaged_bytes_are_refused():
    content = of(miscalibrated(20)).to_bytes()
    for damaged in (b"", b"text", content[: len(content) // 2], content[:-20]):
        with pytest.raises(InputError, match=r"^PartialEvaluation.from_bytes: damaged"):
            PartialEvaluation.from_bytes(damaged)


def test_batches_of_engines_are_pandas_polars_and_arrow_frames():
    table = table_of(60)
    batches = [table[:0], table[:20], table[20:40].to_batches()[0], table[40:].to_pandas()]
    merged = PartialEvaluation.from_batches(batches, **COLUMNS)
    expected = of(Predictions.from_frame(table, **COLUMNS))
    np.testing.assert_array_equal(merged._state, expected._state)
    polars = pytest.importorskip("polars", reason="needs polars")
    np.testing.assert_array_equal(
        PartialEvaluation.from_batches([polars.from_arrow(table)], **COLUMNS)._state, expected._state
    )


def test_files_are_added_like_batches(tmp_path):
    from orcu.io.writing import write_table

    for name, start in (("a", 0), ("b", 500)):
        write_table(table_of(50, start=start), tmp_path / f"{name}.csv")
    state = PartialEvaluation()
    state.update(open_predictions(tmp_path, **COLUMNS))
    assert state.rows == 100


def test_labels_of_a_batch_need_not_contain_the_lowest_class():
    """Positions 0, 1, 2 are recognised from all rows together."""
    rows = pa.table(
        {"id": ["a", "b", "c"], "y": [2, 1, 0], "p_p": [0.2, 0.3, 0.5], "p_q": [0.3] * 3, "p_r": [0.5, 0.4, 0.2]}
    )
    options = {"label": "y", "probs": "p_*", "id": "id", "classes": ["p", "q", "r"]}
    states = [PartialEvaluation.from_batches([part], **options) for part in (rows[:1], rows[1:2], rows[2:])]
    assert PartialEvaluation.merge_all(states).evaluate(n_resamples=0).rows == 3
    with pytest.raises(InputError, match="none is 0, so they may start at 1"):
        PartialEvaluation.merge_all(states[:2]).evaluate()


def test_invalid_rows_and_merges_are_refused():
    predictions = miscalibrated(30)
    with pytest.raises(InputError, match="the rows have no ids"):
        of(predictions.replace(ids=None))
    with pytest.raises(InputError, match="subgroups need a PartialEvaluation each"):
        of(predictions.replace(subgroup=["a"] * 30))
    with pytest.raises(InputError, match="classes: expected 0, 1, 2, got a, b, c"):
        of(predictions, predictions.replace(classes=["a", "b", "c"]))
    with pytest.raises(InputError, match="some rows have weights, uncertainty, clusters or logits, and others do not"):
        of(predictions, predictions.replace(cluster=np.arange(30)))
    with pytest.raises(InputError, match="different n_bins or rules"):
        of(predictions).merge(of(predictions, n_bins=10))
    with pytest.raises(InputError, match="there are no rows"):
        PartialEvaluation().evaluate()
    with pytest.raises(InputError, match="there are none to merge"):
        PartialEvaluation.merge_all([])
    with pytest.raises(InputError, match="all rows have the class '0'"):
        of(predictions.replace(codes=np.zeros(30, dtype=int))).evaluate()
    with pytest.raises(InputError, match="all weights are 0"):
        of(predictions[:10]._with(sample_weight=np.zeros(10))).evaluate()


def test_hashes_of_texts_of_all_lengths_differ_and_are_evenly_spread():
    texts = ["", "a", "b", *("a" * k for k in range(2, 40)), *("a" * k + "b" for k in range(1, 40)), "é", "🙂"]
    assert len(set(_hash_texts(np.array(texts, dtype=object)).tolist())) == len(texts)
    hashes = _hash_texts(np.arange(100_000))
    np.testing.assert_array_equal(hashes, _hash_texts(np.arange(100_000).astype(str)))
    counts = np.bincount(partial._mix(hashes) % np.uint64(partial.N_BLOCKS), minlength=partial.N_BLOCKS)
    expected = len(hashes) / partial.N_BLOCKS
    statistic = ((counts - expected) ** 2 / expected).sum()  # chi-squared with 255 degrees of freedom
    assert abs(statistic - 255) < 4 * np.sqrt(2 * 255)
