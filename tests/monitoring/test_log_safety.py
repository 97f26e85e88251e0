"""`Log`: duplicates, implausible days, files that are not regular, full disks, and processes that end early."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from orcu import InputError, Predictions
from orcu.monitoring import Log, check
from orcu.monitoring import log as log_module

CLASSES = ["low", "mid", "high"]
READING = {"label": "grade", "probs": "p_*", "classes": CLASSES}


def predictions(rows=20, seed=0, **options):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(3), size=rows)
    return Predictions(probs=probs, y=rng.integers(3, size=rows), classes=CLASSES, **options)


def year(path, *, days=30, rows=4, date_format="%d.%m.%Y", missing=0.0, first=date(2026, 1, 1)):
    rng = np.random.default_rng(1)
    count = days * rows
    frame = pd.DataFrame(rng.dirichlet(np.ones(3), size=count).round(6), columns=[f"p_{name}" for name in CLASSES])
    frame["grade"] = np.array(CLASSES, dtype=object)[rng.integers(3, size=count)]
    frame.loc[rng.random(count) < missing, "grade"] = None
    frame["visit"] = [f"v{k}" for k in range(count)]
    frame["visit_date"] = [(first + timedelta(days=k // rows)).strftime(date_format) for k in range(count)]
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path / "monitor")


def days(log):
    return [(str(day.day), day.tally.rows) for day in log.days()]


def test_log_add_same_ids_under_another_day_raises(log):
    ids = [f"v{k}" for k in range(20)]
    log.add("2026-11-01", predictions(ids=ids))
    with pytest.raises(InputError, match=r"2026-11-02: 5 of the 20 rows .* under 2026-11-01.*--allow-duplicates"):
        log.add("2026-11-02", predictions(seed=1, ids=ids[:5] + [f"w{k}" for k in range(15)]))
    log.add("2026-11-02", predictions(seed=1, ids=ids), allow_duplicates=True)
    assert days(log) == [("2026-11-01", 20), ("2026-11-02", 20)]


def test_log_add_same_predictions_without_ids_raise(log):
    log.add("2026-11-01", predictions())
    with pytest.raises(InputError, match="2026-11-02: the same predictions are in the log already, under 2026-11-01"):
        log.add("2026-11-02", predictions()[np.arange(20)[::-1]])  # in any order
    with pytest.raises(InputError, match="2026-11-01: the same predictions are in the log already"):
        log.add("2026-11-01", predictions(), append=True)
    log.add("2026-11-02", predictions(), allow_duplicates=True)
    log.add("2026-11-01", predictions(), overwrite=True, allow_duplicates=True)
    assert days(log) == [("2026-11-01", 20), ("2026-11-02", 20)]


def test_log_add_few_equal_rows_are_no_duplicates(log):
    for day in (1, 2):  # rounded probabilities of a few rows are often equal
        log.add(f"2026-11-0{day}", Predictions(probs=[[0.5, 0.5]] * 30, y=[0] * 30))
    assert len(log.days()) == 2


def test_log_add_file_same_id_under_two_days_of_a_file_raises(log, tmp_path):
    file = year(tmp_path / "year.csv")
    frame = pd.read_csv(file)
    frame.loc[7, "visit"] = frame.loc[0, "visit"]
    frame.to_csv(file, index=False)
    with pytest.raises(InputError, match="1 of the 4 rows are in the log already"):
        log.add_file(file, date="visit_date", id="visit", **READING)
    assert log.days() == []


@pytest.mark.parametrize(
    ("day", "message"),
    [
        ("2026-10-31", "before 2026-11-01, the first day of the log"),
        ("0001-01-01", "before 1970-01-01"),
        ("2099-01-01", "in the future"),
    ],
)
def test_log_add_implausible_day_raises(log, day, message):
    log.add("2026-11-01", predictions())
    with pytest.raises(InputError, match=f"^{day}: .*{message}.*--allow-any-day"):
        log.add(day, predictions(seed=1))
    assert days(log) == [("2026-11-01", 20)]
    log.add(day, predictions(seed=1), allow_any_day=True)
    assert len(log.days()) == 2


def test_log_add_first_day_far_away_and_long_gap_raise(log):
    for day in ("0001-01-01", "2099-12-31"):
        with pytest.raises(InputError, match="--allow-any-day"):
            log.add(day, predictions())
    log.add("2023-11-01", predictions())
    with pytest.raises(InputError, match="2023-11-01 and 2026-11-01: there is no day between them"):
        log.add("2026-11-01", predictions(seed=1))
    log.add(date.today() + timedelta(days=1), predictions(seed=1), allow_any_day=True)


def test_log_add_tomorrow_is_accepted(log):
    log.add(date.today() + timedelta(days=1), predictions())
    assert len(log.days()) == 1


@pytest.mark.parametrize("kind", ["device", "link", "pipe", "folder"])
def test_log_days_file_that_is_not_regular_raises(log, tmp_path, kind):
    log.add("2026-11-01", predictions())
    file = log.path / "2026-11-02.json"
    if kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "link":
        shutil.copy(log.path / "2026-11-01.json", tmp_path / "elsewhere.json")
        file.symlink_to(tmp_path / "elsewhere.json")
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.mkdir()
    for action in (log.days, lambda: check(log), lambda: log.add("2026-11-03", predictions(seed=1))):
        with pytest.raises(InputError, match=r"2026-11-02.json: expected a regular file in the log folder, got a"):
            action()


def test_log_add_lock_that_is_a_link_raises_and_keeps_its_target(log, tmp_path):
    target = tmp_path / "precious"
    target.write_text("content")
    log.path.mkdir()
    (log.path / ".lock").symlink_to(target)
    with pytest.raises(InputError, match=r"\.lock: expected a regular file"):
        log.add("2026-11-01", predictions())
    assert target.read_text() == "content"


def test_check_reference_that_is_a_device_raises(log):
    log.add("2026-11-01", predictions())
    with pytest.raises(InputError, match="/dev/zero: expected a log or one of its files"):
        check(log, reference="/dev/zero")


@pytest.mark.parametrize("file_number", [0, 1, 5])
def test_log_add_file_full_disk_raises_and_changes_nothing(log, tmp_path, monkeypatch, file_number):
    log.add("2026-01-01", predictions())
    write, count = log_module.write_json, iter(range(100))

    def fail(path, content):
        if next(count) == file_number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, content)

    file = year(tmp_path / "year.csv")
    monkeypatch.setattr(log_module, "write_json", fail)
    with pytest.raises(InputError, match="monitor: the log cannot be written .No space left on device"):
        log.add_file(file, date="visit_date", overwrite=True, **READING)
    monkeypatch.undo()
    assert days(log) == [("2026-01-01", 20)]
    assert sorted(path.name for path in log.path.iterdir()) == [".lock", "2026-01-01.json"]


def test_log_add_folder_that_cannot_be_created_raises(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="log: the log cannot be written .Not a directory"):
        Log(tmp_path / "file" / "log").add("2026-11-01", predictions())


def test_log_days_interrupted_add_is_complete_or_absent(log, tmp_path, monkeypatch):
    log.add("2026-01-01", predictions())
    file, options = year(tmp_path / "year.csv"), {"date": "visit_date", "overwrite": True, **READING}
    # Ended before the days were complete: nothing has changed.
    monkeypatch.setattr(Path, "rename", lambda path, target: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        log.add_file(file, **options)
    monkeypatch.undo()
    assert days(log) == [("2026-01-01", 20)]
    # Ended while complete days were moved: all are there, before and after the next writer has moved them.
    replace, count = Path.replace, iter(range(100))

    def stop(path, target):
        if path.parent.name == ".pending" and next(count) == 10:
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        log.add_file(file, **options)
    monkeypatch.undo()
    assert (log.path / ".pending").is_dir()
    expected = [(str(date(2026, 1, 1) + timedelta(days=k)), 4) for k in range(30)]
    assert days(log) == days(Log(log.path)) == expected
    log.add("2026-02-01", predictions())
    assert days(log) == [*expected, ("2026-02-01", 20)]
    assert not [path for path in log.path.iterdir() if path.name.startswith(".pending")]


def test_log_add_file_german_dates_and_given_format(log, tmp_path):
    file = year(tmp_path / "year.csv")
    added = log.add_file(file, date="visit_date", **READING)
    assert (str(added[0].day), str(added[-1].day), len(added)) == ("2026-01-01", "2026-01-30", 30)
    months = year(tmp_path / "months.csv", days=9, date_format="%m/%d/%Y")
    other = Log(tmp_path / "other")
    with pytest.raises(InputError, match=r"months.csv: column 'visit_date', row 5: '01/02/2026' is ambiguous"):
        other.add_file(months, date="visit_date", **READING)
    added = other.add_file(months, date="visit_date", date_format="%m/%d/%Y", **READING)
    assert str(added[-1].day) == "2026-01-09"


def test_log_add_file_labels_that_arrive_later(log, tmp_path):
    options = {"date": "visit_date", "id": "visit", **READING}
    frame = pd.read_csv(year(tmp_path / "complete.csv"))
    frame.assign(grade=None).to_csv(tmp_path / "unlabelled.csv", index=False)
    log.add_file(tmp_path / "unlabelled.csv", **options)
    assert sum(day.unlabelled for day in log.days()) == 120
    with pytest.raises(InputError, match="no row has a label"):
        check(log)
    frame[:60].to_csv(tmp_path / "first.csv", index=False)
    log.add_file(tmp_path / "first.csv", append=True, **options)
    assert sum(day.unlabelled for day in log.days()) == 60
    log.add_file(tmp_path / "complete.csv", overwrite=True, **options)
    assert sum(day.unlabelled for day in log.days()) == 0
    at_once = Log(tmp_path / "at_once")
    at_once.add_file(tmp_path / "complete.csv", **options)
    assert check(log).e_value == check(at_once).e_value


def test_log_add_clusters_appended_labels_are_a_new_occasion(log):
    cluster = ["a"] * 10 + ["b"] * 10
    log.add("2026-11-01", predictions(cluster=cluster)[:15])
    day = log.add("2026-11-01", predictions(cluster=cluster)[15:], append=True)
    assert sorted(day.clusters.values()) == [(0,), (0, 1)]
    day = log.add("2026-11-02", predictions(seed=1, cluster=["b"] * 20))
    assert [*day.clusters.values()] == [(2,)]
    day = log.add("2026-11-01", predictions(cluster=cluster), overwrite=True)
    assert sorted(day.clusters.values()) == [(0,), (0,)]
    with pytest.raises(InputError, match="no weights, subgroups or clusters, but 2026-11-01 has the columns --cluster"):
        log.add("2026-11-03", predictions(seed=2))


@pytest.mark.parametrize("name", ["", "\ud800"])
def test_log_add_subgroup_name_that_cannot_be_stored_raises(log, name):
    with pytest.raises(InputError, match="^subgroup: "):
        log.add("2026-11-01", predictions(subgroup=["a", name] * 10))
    assert log.days() == []


def test_check_file_instead_of_folder_raises(log):
    log.add("2026-11-01", predictions())
    with pytest.raises(InputError, match="2026-11-01.json: expected the folder of a log"):
        check(log.path / "2026-11-01.json")


def test_check_weights_change_metrics_and_a_common_factor_does_not(tmp_path):
    results = []
    for factor in (1, 1, 250):
        log, rng = Log(tmp_path / f"log {len(results)}"), np.random.default_rng(0)
        for day in range(1, 6):
            weight = None if not results else factor * rng.integers(1, 4, size=20)
            log.add(f"2026-11-0{day}", predictions(seed=day, sample_weight=weight))
        results.append(check(log))
    plain, first, second = results
    assert first.days[0].accuracy != plain.days[0].accuracy
    assert first.e_value == pytest.approx(second.e_value, rel=1e-12)
    assert first.tally.compute()["ece"] == pytest.approx(second.tally.compute()["ece"], rel=1e-12)
    assert first.days[0].ece_chance.limit > plain.days[0].ece_chance.limit


def test_check_all_weights_of_a_day_zero_gives_no_metrics(log):
    log.add("2026-11-01", predictions(sample_weight=np.ones(20)))
    frame = predictions(seed=1, sample_weight=np.r_[np.zeros(10), np.ones(10)])
    log.add("2026-11-02", frame[:10])
    result = check(log)
    assert np.isnan(result.days[1].accuracy)
    assert result.days[1].e_value == pytest.approx(result.days[0].e_value)


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
import test_log_safety as tests
from orcu.monitoring import Log
print("ready", flush=True)
Log(sys.argv[1]).add_file(sys.argv[2], date="visit_date", id="visit", overwrite=True, **tests.READING)
"""


def start_adding(log, file):
    """Process that overwrites all days of the log, and has imported what it needs."""
    command = [sys.executable, "-c", SCRIPT, log.path, file, Path(__file__).parent]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    process.stdout.readline()
    return process


def kill_while_adding(tmp_path, kills, seed=0):
    """Kill a process at random times while it overwrites all days; each time the log has the old or the new labels.

    Every second kill waits until the process has begun to write.
    """
    rng = np.random.default_rng(seed)
    log = Log(tmp_path / "log")
    options = {"date": "visit_date", "id": "visit", **READING}
    files = [year(tmp_path / "half.csv", days=150, missing=0.5), year(tmp_path / "complete.csv", days=150)]
    states = []
    for file in files:
        start = time.monotonic()
        with start_adding(log, file) as process:
            process.wait()
        seconds = time.monotonic() - start
        states.append(days(log))
    assert states[0] != states[1]
    outcomes, expected, number = [], states[1], 0
    while len(outcomes) < kills:
        number += 1
        with start_adding(log, files[number % 2]) as process:
            staged = [log.path / name for name in (".pending.part", ".pending")]
            while number % 2 and process.poll() is None and not any(path.exists() for path in staged):
                time.sleep(0.001)
            time.sleep(rng.uniform(0, seconds / (4 if number % 2 else 1)))
            process.send_signal(signal.SIGKILL)
        staged_names = [path.name for path in staged if path.exists()]
        assert days(log) in (expected, states[number % 2])
        expected = days(log)
        if process.returncode == -signal.SIGKILL:
            outcomes.append((expected == states[number % 2], *staged_names))
        else:
            seconds *= 0.7  # it ended before the kill
    log.add_file(files[1], overwrite=True, **options)
    assert days(log) == states[1]
    assert sorted(path.name for path in log.path.iterdir() if path.suffix != ".json") == [".lock"]
    return outcomes


@pytest.mark.slow
def test_log_add_file_killed_processes_lose_nothing(tmp_path):
    kill_while_adding(tmp_path, 4)
