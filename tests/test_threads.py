"""Several threads: the order stays, errors arrive, and not one bit depends on how many there are."""

import json
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orcu import threads
from orcu.evaluation.evaluate import evaluate
from orcu.predictions.predictions import Predictions, open_predictions


def test_results_stand_in_the_order_of_the_items():
    late = threading.Event()

    def work(item):
        if item == 0:
            late.wait(5)  # the first is finished last
        else:
            late.set()
        return 10 * item

    assert list(threads.map_ordered(work, range(5), threads=3)) == [0, 10, 20, 30, 40]
    assert list(threads.map_ordered(abs, [-1, 2], threads=1)) == [1, 2]
    assert list(threads.map_ordered(abs, [], threads=4)) == []


def test_few_items_are_taken_ahead():
    taken = []

    def items():
        for item in range(100):
            taken.append(item)
            yield item

    results = threads.map_ordered(abs, items(), threads=2)
    assert next(results) == 0
    assert len(taken) <= 4
    results.close()


@pytest.mark.parametrize("count", [1, 3])
def test_an_error_arrives_in_its_place(count):
    results = threads.map_ordered(lambda item: 1 // item, [1, 0, 1], threads=count)
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)


@pytest.mark.parametrize(("wanted", "most"), [("1", 1), ("many", None), ("0", None), ("1000000", None)])
def test_the_usual_variable_limits_the_threads(wanted, most, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    all_cores = threads.cores()
    monkeypatch.setenv("OMP_NUM_THREADS", wanted)
    assert threads.cores() == (all_cores if most is None else most)


def large(rows=24_000, num_classes=4):
    rng = np.random.default_rng(3)
    logits = rng.normal(0, 1.5, (rows, num_classes))
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return probs.astype(np.float32), (logits + rng.gumbel(size=logits.shape)).argmax(1), rng.integers(3, size=rows)


@pytest.mark.parametrize("streamed", [False, True])
def test_the_same_bits_whatever_the_number_of_threads(streamed, tmp_path, monkeypatch):
    probs, y, site = large()
    columns = {f"p{k}": probs[:, k] for k in range(4)} | {"label": y, "site": site.astype(str)}
    pq.write_table(pa.table(columns), tmp_path / "many.parquet", row_group_size=3_000)
    monkeypatch.setattr("orcu.evaluation.evidence.PART_ROWS", 4_096)
    monkeypatch.setattr("orcu.io.reading.BATCH_ROWS", 3_000)
    if streamed:
        monkeypatch.setattr("orcu.evaluation.evidence.IN_MEMORY_CELLS", 8_000)
    told = []
    for count in (1, 2, 5):
        monkeypatch.setattr(threads, "cores", lambda count=count: count)
        source = open_predictions(tmp_path / "many.parquet", label="label", probs="p*", group="site")
        told.append(json.dumps(evaluate(source, bootstrap=50).to_dict()))
    assert told[0] == told[1] == told[2]


def test_parts_that_do_not_fit_are_read_again(tmp_path, monkeypatch):
    probs, y, _ = large(9_000)
    columns = {f"p{k}": probs[:, k] for k in range(4)} | {"label": y}
    pq.write_table(pa.table(columns), tmp_path / "many.parquet")
    monkeypatch.setattr("orcu.io.reading.BATCH_ROWS", 1_000)
    monkeypatch.setattr("orcu.evaluation.evidence.IN_MEMORY_CELLS", 8_000)
    told = []
    for kept in (10**9, 50_000, 0):
        monkeypatch.setattr("orcu.evaluation.evidence.KEPT_BYTES", kept)
        source = open_predictions(tmp_path / "many.parquet", label="label", probs="p*")
        told.append(json.dumps(evaluate(source, bootstrap=50).to_dict()))
    assert told[0] == told[1] == told[2]


def test_groups_of_equal_count_are_the_same_in_parts(monkeypatch):
    probs, y, _ = large(9_000)
    whole = evaluate(Predictions(probs=probs, y=y), bootstrap=0)["ace"].value
    monkeypatch.setattr("orcu.evaluation.evidence.PART_ROWS", 1_000)
    assert evaluate(Predictions(probs=probs, y=y), bootstrap=0)["ace"].value == whole


def test_memory_is_kept_where_that_can_be_asked_for(monkeypatch):
    asked = []

    class Libc:
        @staticmethod
        def mallopt(name, value):
            asked.append((name, value))

    monkeypatch.setattr(threads.ctypes, "CDLL", lambda name: Libc)
    threads.keep_freed_memory()
    assert [name for name, _ in asked] == [-1, -2, -3]
    monkeypatch.setattr(threads.ctypes, "CDLL", lambda name: object())  # another libc
    threads.keep_freed_memory()
