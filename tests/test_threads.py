"""Threads: results are in order, errors are raised, and results do not depend on the number of threads."""

import json
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orcu import threads
from orcu.evaluation.evaluate import evaluate
from orcu.predictions import Predictions, open_predictions


def test_map_ordered_yields_results_in_the_order_of_the_items():
    others_done = threading.Event()

    def work(item):
        if item == 0:
            others_done.wait(5)  # the first item is finished last
        else:
            others_done.set()
        return 10 * item

    assert list(threads.map_ordered(work, range(5), threads=3)) == [0, 10, 20, 30, 40]
    assert list(threads.map_ordered(abs, [-1, 2], threads=1)) == [1, 2]
    assert list(threads.map_ordered(abs, [], threads=4)) == []


def test_map_ordered_takes_few_items_ahead():
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
def test_map_ordered_raises_an_error_in_order(count):
    results = threads.map_ordered(lambda item: 1 // item, [1, 0, 1], threads=count)
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)


@pytest.mark.parametrize(("variable", "expected"), [("1", 1), ("many", None), ("0", None), ("1000000", None)])
def test_cores_are_limited_by_omp_num_threads(variable, expected, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    all_cores = threads.cores()
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    assert threads.cores() == (all_cores if expected is None else expected)


@pytest.fixture
def no_limits(monkeypatch, tmp_path):
    """Eight CPUs of the affinity, and a folder of control groups without a quota."""
    for name in ("OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    (tmp_path / "cgroup").write_text("5:memory:/elsewhere\n0::/job\n")
    (tmp_path / "job").mkdir()
    monkeypatch.setattr(threads, "CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(threads, "CGROUPS", tmp_path)
    threads._cgroup_cpus.cache_clear()
    yield tmp_path / "job" / "cpu.max"
    threads._cgroup_cpus.cache_clear()


@pytest.mark.parametrize(
    ("slurm", "quota", "expected"),
    [
        (None, None, 8),
        ("4", None, 4),
        ("64", None, 8),  # never more than the affinity
        ("4(x2)", None, 8),
        (None, "max 100000", 8),
        (None, "250000 100000", 3),
        ("2", "250000 100000", 2),
        (None, "broken", 8),
    ],
)
def test_available_cpus_are_those_of_the_allocation(slurm, quota, expected, no_limits, monkeypatch):
    if slurm is not None:
        monkeypatch.setenv("SLURM_CPUS_PER_TASK", slurm)
    if quota is not None:
        no_limits.write_text(quota + "\n")
    assert threads.available_cpus() == expected
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert (threads.available_cpus(), threads.cores()) == (expected, 1)


def make_rows(rows=24_000, num_classes=4):
    rng = np.random.default_rng(3)
    logits = rng.normal(0, 1.5, (rows, num_classes))
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return probs.astype(np.float32), (logits + rng.gumbel(size=logits.shape)).argmax(1), rng.integers(3, size=rows)


@pytest.mark.parametrize("streamed", [False, True])
def test_evaluate_gives_the_same_bits_for_any_number_of_threads(streamed, tmp_path, monkeypatch):
    probs, y, site = make_rows()
    columns = {f"p{k}": probs[:, k] for k in range(4)} | {"label": y, "site": site.astype(str)}
    pq.write_table(pa.table(columns), tmp_path / "many.parquet", row_group_size=3_000)
    monkeypatch.setattr("orcu.evaluation.statistics.PART_ROWS", 4_096)
    monkeypatch.setattr("orcu.io.reading.BATCH_ROWS", 3_000)
    if streamed:
        monkeypatch.setattr("orcu.evaluation.statistics.IN_MEMORY_CELLS", 8_000)
    results_json = []
    for count in (1, 2, 5):
        monkeypatch.setattr(threads, "cores", lambda count=count: count)
        source = open_predictions(tmp_path / "many.parquet", label="label", probs="p*", subgroup="site")
        results_json.append(json.dumps(evaluate(source, n_resamples=50).to_dict()))
    assert results_json[0] == results_json[1] == results_json[2]


def test_evaluate_reads_batches_again_that_do_not_fit_in_memory(tmp_path, monkeypatch):
    probs, y, _ = make_rows(9_000)
    columns = {f"p{k}": probs[:, k] for k in range(4)} | {"label": y}
    pq.write_table(pa.table(columns), tmp_path / "many.parquet")
    monkeypatch.setattr("orcu.io.reading.BATCH_ROWS", 1_000)
    monkeypatch.setattr("orcu.evaluation.statistics.IN_MEMORY_CELLS", 8_000)
    results_json = []
    for cached_bytes in (10**9, 50_000, 0):
        monkeypatch.setattr("orcu.evaluation.statistics.CACHED_BYTES", cached_bytes)
        source = open_predictions(tmp_path / "many.parquet", label="label", probs="p*")
        results_json.append(json.dumps(evaluate(source, n_resamples=50).to_dict()))
    assert results_json[0] == results_json[1] == results_json[2]


def test_evaluate_adaptive_bins_are_the_same_in_parts(monkeypatch):
    probs, y, _ = make_rows(9_000)
    expected = evaluate(Predictions(probs=probs, y=y), n_resamples=0)["ace"].value
    monkeypatch.setattr("orcu.evaluation.statistics.PART_ROWS", 1_000)
    assert evaluate(Predictions(probs=probs, y=y), n_resamples=0)["ace"].value == expected


def test_keep_freed_memory_sets_the_options_of_glibc_only(monkeypatch):
    options = []

    class Libc:
        @staticmethod
        def mallopt(name, value):
            options.append((name, value))

    monkeypatch.setattr(threads.ctypes, "CDLL", lambda name: Libc)
    threads.keep_freed_memory()
    assert [name for name, _ in options] == [-1, -2, -3]
    monkeypatch.setattr(threads.ctypes, "CDLL", lambda name: object())  # another libc
    threads.keep_freed_memory()
