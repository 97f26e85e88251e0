"""Launchers: order, killed workers, GPUs, and folders evaluated by several processes."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import work
from waiting import eventually
from work import dying, seen_card

from orcu import Predictions, evaluate
from orcu.errors import InputError, UnknownNameError
from orcu.launchers import LAUNCHERS, device_names
from orcu.predictions import open_predictions


@pytest.mark.parametrize("jobs", [1, 2])
def test_map_ordered_returns_results_in_order(jobs):
    with LAUNCHERS.create("local", jobs=jobs) as workers:
        assert list(workers.map_ordered(abs, [-3, 2, -1])) == [3, 2, 1]
        assert list(workers.map_ordered(abs, [-5])) == [5]  # a second call in the same context


@pytest.mark.parametrize(
    ("variable", "gpus", "expected"),
    [
        (None, [3], ["3"]),
        ("2,3", [0, 1], ["2", "3"]),
        (" 5 , 7 ", [1], ["7"]),
        ("GPU-8932f937,MIG-41d8", [1, 0], ["MIG-41d8", "GPU-8932f937"]),
        ("", [], []),
    ],
)
def test_device_names_are_entries_of_the_parents_list(variable, gpus, expected, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if variable is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert device_names(gpus) == expected


def test_device_names_refuses_a_number_beyond_the_parents_list(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    with pytest.raises(InputError, match="no GPU 2.*'2,3' has 2"):
        device_names([2])


def test_local_worker_sees_one_gpu_of_the_parents_list(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,MIG-41d8")
    with LAUNCHERS.create("local", jobs=1, gpus=[1]) as workers:
        assert list(workers.map_ordered(seen_card, [0, 1])) == ["MIG-41d8", "MIG-41d8"]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,MIG-41d8"


def test_map_unordered_repeats_the_items_of_a_killed_worker(tmp_path):
    with LAUNCHERS.create("local", jobs=2) as workers:
        results = dict(workers.map_unordered(partial(dying, folder=tmp_path), range(5)))
    assert results == {0: 0, 1: 10, 2: 20, 3: 30, 4: 40}
    assert (tmp_path / "died").exists()


def test_map_unordered_gives_up_after_three_killed_pools(tmp_path):
    with LAUNCHERS.create("local", jobs=2) as workers, pytest.raises(InputError, match="^jobs: .* 3 times"):
        list(workers.map_unordered(partial(dying, folder=tmp_path, always=True), range(5)))


def test_unknown_launcher_is_refused():
    with pytest.raises(UnknownNameError, match="'local'"):
        LAUNCHERS.create("locl", jobs=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three files of unequal length with ties across files, subgroups and weights; and a file of all rows."""
    directory = tmp_path_factory.mktemp("predictions")
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3000, 4)).round(1)  # ties
    y = rng.integers(4, size=3000)
    predictions = Predictions(logits=logits, y=y, sample_weight=rng.random(3000), subgroup=rng.choice(["a", "b"], 3000))
    for k, part in enumerate((slice(0, 500), slice(500, 2500), slice(2500, 3000))):
        predictions[part].write(directory / f"part-{k}.parquet")
    predictions.write(directory.parent / f"{directory.name}.parquet")
    return directory


def test_evaluate_of_a_folder_equals_one_file(folder):
    file = folder.parent / f"{folder.name}.parquet"
    of_file, of_folder = (evaluate(open_predictions(path), n_resamples=50) for path in (file, folder))
    assert of_folder.rows == 3000
    for name, estimate in of_file.metrics.items():
        assert of_folder[name] == estimate, name
    assert "3 Parquet files" in of_folder.notes[0]


@pytest.mark.slow
def test_evaluate_of_a_streamed_folder_is_bit_equal_for_any_number_of_jobs(folder, monkeypatch):
    monkeypatch.setattr("orcu.evaluation.statistics.IN_MEMORY_CELLS", 4000)
    streamed = evaluate(open_predictions(folder), n_resamples=50)
    of_file = evaluate(open_predictions(folder.parent / f"{folder.name}.parquet"), n_resamples=50)
    assert streamed.sampled
    for jobs in (1, 2):
        with LAUNCHERS.create("local", jobs=jobs) as workers:
            parallel = evaluate(open_predictions(folder), n_resamples=50, launcher=workers)
        assert parallel.to_dict() == streamed.to_dict(), jobs
        for name, estimate in of_file.metrics.items():
            assert parallel[name].value == estimate.value, name  # also ACE, with ties across files


def test_open_predictions_refuses_a_folder_of_different_files(folder, tmp_path):
    with pytest.raises(InputError, match=r"\.parquet"):
        open_predictions(tmp_path)
    Predictions(probs=[[0.5, 0.5]], y=[0]).write(tmp_path / "a.parquet")
    Predictions(logits=[[0.5, 0.5, 1.0]], y=[0]).write(tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet"):
        open_predictions(tmp_path)
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"b\.parquet"):
        open_predictions(tmp_path)


def test_open_predictions_skips_files_without_rows_and_hidden_files(folder, tmp_path):
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "part-0.parquet")
    (tmp_path / "deep").mkdir()
    pq.write_table(table, tmp_path / "deep" / "part-0.parquet")
    pq.write_table(table[:0], tmp_path / "part-1.parquet")
    (tmp_path / "_metadata.parquet").write_bytes(b"nothing")
    source = open_predictions(tmp_path)
    assert [fragment.name for fragment in source.fragments] == [f"{tmp_path.name}/deep/part-0.parquet"]
    assert len(source.load()) == 500
    assert source.notes[0] == "1 Parquet files, 1 of them in subfolders; ignored: 1 without rows"
    pq.write_table(table[:0], tmp_path / "deep" / "part-0.parquet")
    with pytest.raises(InputError, match="2 Parquet files have no rows"):
        open_predictions(tmp_path)


def test_evaluate_names_file_and_row_of_an_invalid_value(folder, tmp_path):
    Predictions(probs=[[0.5, 0.5], [0.1, 0.9]], y=[0, 1]).write(tmp_path / "a.parquet")
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(tmp_path / "a.parquet")
    bad = table.set_column(table.column_names.index("prob_0"), "prob_0", pa.array([0.5, 0.7]))
    pq.write_table(bad, tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet: row 2"):
        evaluate(open_predictions(tmp_path))


def test_evaluate_refuses_files_with_different_kinds_of_labels(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name, label in (("a", ["low", "high"]), ("b", ["0", "1"])):
        pq.write_table(pa.table({"y": label, "p0": [0.4, 0.6], "p1": [0.6, 0.4]}), tmp_path / f"{name}.parquet")
    source = open_predictions(tmp_path, label="y", probs=["p0", "p1"], classes=["low", "high"])
    with pytest.raises(InputError, match="^y: .*class names.*positions"):
        evaluate(source)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGKILL])
def test_local_workers_end_with_their_parent(tmp_path, signal_number):
    code = (
        "import sys; from functools import partial\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from orcu.launchers import LAUNCHERS\n"
        "from work import sleeping\n"
        "if __name__ == '__main__':\n"
        "    with LAUNCHERS.create('local', jobs=2) as workers:\n"
        "        list(workers.map_unordered(partial(sleeping, folder=sys.argv[1]), [1, 2, 3]))\n"
    )
    script = tmp_path / "parent.py"
    script.write_text(code)
    notes = tmp_path / "notes"
    notes.mkdir()
    parent = subprocess.Popen(
        [sys.executable, script, notes, Path(work.__file__).parent], stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert eventually(lambda: len(list(notes.iterdir())) == 2)
    workers = [Path("/proc", note.suffix[1:]) for note in notes.iterdir()]
    if signal_number == signal.SIGINT:
        os.killpg(parent.pid, signal_number)  # as a terminal does
    else:
        os.kill(parent.pid, signal_number)
    parent.wait(timeout=120)
    assert eventually(lambda: not any(worker.exists() for worker in workers))
