"""Launchers: order, workers that die, cards, and folders judged by several processes."""

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
from orcu.launchers import LAUNCHERS
from orcu.predictions.predictions import open_predictions


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_order(jobs):
    with LAUNCHERS.create("local", jobs=jobs) as workers:
        assert list(workers.map_ordered(abs, [-3, 2, -1])) == [3, 2, 1]
        assert list(workers.map_ordered(abs, [-5])) == [5]  # again, in the same context


def test_every_worker_sees_one_card():
    with LAUNCHERS.create("local", jobs=1, gpus=[3]) as workers:
        assert list(workers.map_ordered(seen_card, [0, 1])) == ["3", "3"]


def test_a_killed_worker_does_not_stop_the_others(tmp_path):
    with LAUNCHERS.create("local", jobs=2) as workers:
        found = dict(workers.results(partial(dying, folder=tmp_path), range(5)))
    assert found == {0: 0, 1: 10, 2: 20, 3: 30, 4: 40}
    assert (tmp_path / "died").exists()


def test_workers_that_keep_dying_are_told(tmp_path):
    with LAUNCHERS.create("local", jobs=2) as workers, pytest.raises(InputError, match="killed 3 times"):
        list(workers.results(partial(dying, folder=tmp_path, always=True), range(5)))


def test_unknown_launchers_are_told():
    with pytest.raises(UnknownNameError, match="Did you mean 'local'"):
        LAUNCHERS.create("locl", jobs=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three files of unequal length, with ties across them, groups and weights; and one without rows."""
    where = tmp_path_factory.mktemp("predictions")
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3000, 4)).round(1)  # ties
    y = rng.integers(4, size=3000)
    whole = Predictions(logits=logits, y=y, weight=rng.random(3000), group=rng.choice(["a", "b"], 3000))
    for k, part in enumerate((slice(0, 500), slice(500, 2500), slice(2500, 3000))):
        whole[part].write(where / f"part-{k}.parquet")
    whole.write(where.parent / f"{where.name}.parquet")
    return where


def test_a_folder_is_its_files_one_after_another(folder):
    whole = folder.parent / f"{folder.name}.parquet"
    one, many = (evaluate(open_predictions(path), bootstrap=50) for path in (whole, folder))
    assert many.rows == 3000
    for name, estimate in one.metrics.items():
        assert many[name] == estimate, name
    assert "3 Parquet files" in many.notes[0]


def test_a_streamed_folder_has_the_same_bits_whoever_reads_it(folder, monkeypatch):
    monkeypatch.setattr("orcu.evaluation.evidence.IN_MEMORY_CELLS", 4000)
    here = evaluate(open_predictions(folder), bootstrap=50)
    whole = evaluate(open_predictions(folder.parent / f"{folder.name}.parquet"), bootstrap=50)
    assert here.sampled
    for jobs in (1, 2):
        with LAUNCHERS.create("local", jobs=jobs) as workers:
            there = evaluate(open_predictions(folder), bootstrap=50, launcher=workers)
        assert there.to_dict() == here.to_dict(), jobs
        for name, estimate in whole.metrics.items():
            assert there[name].value == estimate.value, name  # ACE too: rows that tie are dealt alike


def test_files_of_a_folder_must_be_alike(folder, tmp_path):
    with pytest.raises(InputError, match="no .parquet file"):
        open_predictions(tmp_path)
    Predictions(probs=[[0.5, 0.5]], y=[0]).write(tmp_path / "a.parquet")
    Predictions(logits=[[0.5, 0.5, 1.0]], y=[0]).write(tmp_path / "b.parquet")
    with pytest.raises(InputError, match="must be alike"):
        open_predictions(tmp_path)
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="b.parquet: not a whole Parquet file"):
        open_predictions(tmp_path)


def test_files_without_rows_and_hidden_ones_are_skipped(folder, tmp_path):
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "part-0.parquet")
    (tmp_path / "deep").mkdir()
    pq.write_table(table, tmp_path / "deep" / "part-0.parquet")
    pq.write_table(table[:0], tmp_path / "part-1.parquet")
    (tmp_path / "_metadata.parquet").write_bytes(b"nothing")
    source = open_predictions(tmp_path)
    assert [one.name for one in source.fragments] == [f"{tmp_path.name}/deep/part-0.parquet"]
    assert len(source.load()) == 500
    assert source.notes[0] == "1 Parquet files, 1 of them in subfolders; left out: 1 without rows"
    pq.write_table(table[:0], tmp_path / "deep" / "part-0.parquet")
    with pytest.raises(InputError, match="hold no rows"):
        open_predictions(tmp_path)


def test_a_bad_row_is_named_with_its_file(folder, tmp_path):
    Predictions(probs=[[0.5, 0.5], [0.1, 0.9]], y=[0, 1]).write(tmp_path / "a.parquet")
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(tmp_path / "a.parquet")
    bad = table.set_column(table.column_names.index("prob_0"), "prob_0", pa.array([0.5, 0.7]))
    pq.write_table(bad, tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet: row 2"):
        evaluate(open_predictions(tmp_path))


def test_labels_must_be_written_alike_in_all_files(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name, label in (("a", ["low", "high"]), ("b", ["0", "1"])):
        pq.write_table(pa.table({"y": label, "p0": [0.4, 0.6], "p1": [0.6, 0.4]}), tmp_path / f"{name}.parquet")
    source = open_predictions(tmp_path, label="y", probs=["p0", "p1"], classes=["low", "high"])
    with pytest.raises(InputError, match="in some rows the labels are names"):
        evaluate(source)


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_its_parent(tmp_path, how):
    code = (
        "import sys; from functools import partial\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from orcu.launchers import LAUNCHERS\n"
        "from work import sleeping\n"
        "if __name__ == '__main__':\n"
        "    with LAUNCHERS.create('local', jobs=2) as workers:\n"
        "        list(workers.results(partial(sleeping, folder=sys.argv[1]), [1, 2, 3]))\n"
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
    if how == signal.SIGINT:
        os.killpg(parent.pid, how)  # as a terminal does
    else:
        os.kill(parent.pid, how)
    parent.wait(timeout=120)
    assert eventually(lambda: not any(worker.exists() for worker in workers))
