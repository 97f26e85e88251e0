"""The log: one file for each day, late labels, doubles, and what is refused."""

import json
from datetime import date

import numpy as np
import pandas as pd
import pytest

from orcu import InputError, Predictions
from orcu.monitoring import Log
from orcu.monitoring.log import Day, as_day

PROBS = [[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3]]
CLASSES = ["low", "mid", "high"]
READING = {"label": "grade", "probs": "p_*", "classes": CLASSES}


def predictions(rows=slice(None), **options):
    return Predictions(probs=PROBS, y=["low", "mid", "high", "low"], classes=CLASSES, **options)[rows]


def table(path, labels, *, when=None, ids=None, probs=PROBS):
    frame = pd.DataFrame(probs, columns=[f"p_{name}" for name in CLASSES])
    frame["grade"] = labels
    if when is not None:
        frame["when"] = when
    if ids is not None:
        frame["id"] = ids
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path / "monitor")


def test_a_day_is_read_as_it_was_written(log):
    log.add(date(2026, 11, 1), predictions(ids=["a", "b", "c", "d"]), waiting=3)
    (day,) = log.days()
    assert (day.day, day.classes, day.waiting) == (date(2026, 11, 1), tuple(CLASSES), 3)
    assert day.tally.compute()["accuracy"] == 0.75
    assert len(day.ids) == 4
    text = (log.path / "2026-11-01.json").read_text()
    assert '"a"' not in text  # hashed
    assert sorted(path.name for path in log.path.iterdir()) == [".lock", "2026-11-01.json"]


def test_a_day_that_is_there_is_refused_replaced_or_added_to(log):
    log.add("2026-11-01", predictions(slice(0, 2)), waiting=2)
    with pytest.raises(InputError, match=r"there already, with 2 labelled rows.*--replace.*--more"):
        log.add("2026-11-01", predictions())
    more = log.add("2026-11-01", predictions(slice(2, 4)), more=True)
    assert (more.tally.rows, more.waiting) == (4, 0)
    assert more.tally.compute() == pytest.approx(
        Day.of("2026-11-01", predictions(), predictions().y).tally.compute(), nan_ok=True
    )
    assert log.add("2026-11-01", predictions(slice(0, 3)), replace=True).tally.rows == 3
    with pytest.raises(InputError, match="only one of the two"):
        log.add("2026-11-01", predictions(), replace=True, more=True)


def test_rows_that_wait_without_an_id_are_not_forgotten(log):
    log.add("2026-11-01", predictions(slice(0, 2), ids=["a", "b", "c", "d"]), waiting=5)
    more = log.add("2026-11-01", predictions(slice(2, 3), ids=["a", "b", "c", "d"]), more=True)
    assert (more.tally.rows, more.waiting) == (3, 4)
    (day,) = log.days()
    assert day.waiting == 4


def test_ids_show_doubles(log, tmp_path):
    ids = ["a", "b", "c", "d"]
    first = table(tmp_path / "first.csv", ["low", None, "high", ""], ids=ids)
    (day,) = log.add_file(first, day="2026-11-01", id="id", **READING)
    assert (day.tally.rows, day.waiting) == (2, 2)
    again = table(tmp_path / "again.csv", ["low", "mid", "high", "low"], ids=ids)
    with pytest.raises(InputError, match="2 of the 4 rows are there already"):
        log.add_file(again, day="2026-11-01", id="id", more=True, **READING)
    late = table(tmp_path / "late.csv", ["mid"], ids=["b"], probs=PROBS[1:2])
    (day,) = log.add_file(late, day="2026-11-01", id="id", more=True, **READING)
    assert (day.tally.rows, day.waiting) == (3, 1)
    with pytest.raises(InputError, match="some of its rows have ids and some have none"):
        log.add_file(late, day="2026-11-01", more=True, **READING)
    twice = table(tmp_path / "twice.csv", ["low"] * 4, ids=["x", "y", "x", "z"])
    with pytest.raises(InputError, match="every id must be unique"):
        log.add_file(twice, day="2026-11-02", id="id", **READING)


def test_rows_without_a_label_wait_and_are_checked(log, tmp_path):
    file = table(tmp_path / "none.csv", [None] * 4)
    (day,) = log.add_file(file, day="2026-11-01", **READING)
    assert (day.tally.rows, day.waiting) == (0, 4)
    probs = [*PROBS[:3], [0.9, 0.9, 0.9]]
    broken = table(tmp_path / "broken.csv", ["low", None, "mid", None], probs=probs)
    with pytest.raises(InputError, match="row 4"):
        log.add_file(broken, day="2026-11-02", **READING)
    other = table(tmp_path / "other.csv", [None, "low", None, "lwo"])
    with pytest.raises(InputError, match="row 4 has label 'lwo'"):
        log.add_file(other, day="2026-11-02", **READING)
    with pytest.raises(InputError, match="which column holds the labels"):
        log.add_file(file, day="2026-11-02", probs="p_*")
    numbers = table(tmp_path / "numbers.csv", [0, None, 2, 2])  # positions of the named classes
    (day,) = log.add_file(numbers, day="2026-11-02", **READING)
    assert (day.tally.rows, day.waiting) == (3, 1)
    assert day.tally.compute()["accuracy"] == pytest.approx(2 / 3)


def test_a_file_is_split_into_its_days(log, tmp_path):
    when = ["2026-11-02", "2026-11-01T23:59:59", "2026-11-02 08:00", "2026-11-01"]
    file = table(tmp_path / "days.csv", ["low", "mid", "high", None], when=when)
    log.add_file(file, dates="when", **READING)
    assert [(str(day.day), day.tally.rows, day.waiting) for day in log.days()] == [
        ("2026-11-01", 1, 1),
        ("2026-11-02", 2, 0),
    ]
    frame = pd.read_csv(file).assign(when=pd.to_datetime(["2026-12-01", "2026-12-02"] * 2))
    frame.to_parquet(tmp_path / "days.parquet")
    later = log.add_file(tmp_path / "days.parquet", dates="when", **READING)
    assert [str(day.day) for day in later] == ["2026-12-01", "2026-12-02"]


@pytest.mark.parametrize("when", ["11/01/2026", "2026-13-01", "01.11.2026", "tomorrow", "20261101"])
def test_dates_that_may_mean_anything_are_refused(log, tmp_path, when):
    file = table(tmp_path / "days.csv", ["low"] * 4, when=["2026-11-01", "2026-11-01", when, when])
    with pytest.raises(InputError, match=r"days.csv: column 'when', row 3: expected a day such as 2026-11-01"):
        log.add_file(file, dates="when", **READING)
    with pytest.raises(InputError, match="--day: expected a day"):
        as_day(when, name="--day")
    assert log.days() == []


def test_nothing_is_written_if_one_day_does_not_fit(log, tmp_path):
    log.add("2026-11-02", predictions())
    file = table(tmp_path / "days.csv", ["low"] * 4, when=["2026-11-01", "2026-11-02"] * 2)
    with pytest.raises(InputError, match="there already"):
        log.add_file(file, dates="when", **READING)
    assert [str(day.day) for day in log.days()] == ["2026-11-02"]


def test_rows_of_another_kind_are_refused(log, tmp_path):
    log.add("2026-11-01", predictions())
    with pytest.raises(InputError, match="classes 0, 1, but 2026-11-01 has low, mid, high"):
        log.add("2026-11-02", Predictions(probs=[[0.5, 0.5]], y=[0]))
    with pytest.raises(InputError, match="classes high, mid, low, but 2026-11-01 has low, mid, high"):
        log.add("2026-11-02", Predictions(probs=PROBS, y=["low"] * 4, classes=CLASSES[::-1]))
    with pytest.raises(InputError, match="10 bins, but 2026-11-01 has 15; say --bins 15"):
        log.add("2026-11-02", predictions(), bins=10)
    with pytest.raises(InputError, match="counted in rows"):
        log.add("2026-11-02", predictions(weight=[1, 2, 1, 1]))
    predictions(weight=[1, 2, 1, 1]).write(tmp_path / "weighted.parquet")
    with pytest.raises(InputError, match="has weights in the column 'weight'"):
        log.add_file(tmp_path / "weighted.parquet", day="2026-11-02")
    with pytest.raises(InputError, match="of which day"):
        log.add_file(tmp_path / "weighted.parquet")
    with pytest.raises(InputError, match="no labels"):
        log.add("2026-11-02", Predictions(probs=PROBS, classes=CLASSES))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file; a log is a folder"):
        Log(tmp_path / "file").add("2026-11-02", predictions())
    assert len(log.days()) == 1


def changed(state, **changes):
    return {**state, **changes}


DAMAGES = {
    "cut off": (lambda state: json.dumps(state)[:200], "not a JSON file"),
    "a list": (lambda state: "[]", "not a day of a log"),
    "another kind": (lambda state: '{"a": 1}', "not a day of a log"),
    "another version": (lambda state: json.dumps(changed(state, monitored_day=7)), "version 7, this orcu reads 1"),
    "no classes": (lambda state: json.dumps(changed(state, classes=[])), r"damaged \(classes"),
    "fewer names": (lambda state: json.dumps(changed(state, classes=["a", "b"])), "3 classes, but 2 names"),
    "no tally": (lambda state: json.dumps(changed(state, tally={})), r"damaged \(tally"),
    "a tally of another version": (
        lambda state: json.dumps(changed(state, tally=changed(state["tally"], state_version=9))),
        "state_version: expected 1, got 9",
    ),
    "a tally of other metrics": (
        lambda state: json.dumps(changed(state, tally=changed(state["tally"], scores=["mine"]))),
        "does not fit this version",
    ),
    "a ragged tally": (
        lambda state: json.dumps(changed(state, tally=changed(state["tally"], limbs=[[1], [1, 2]]))),
        "of different lengths",
    ),
    "a huge number": (
        lambda state: json.dumps(changed(state, tally=changed(state["tally"], limbs=[[10**30]]))),
        r"damaged \(tally.limbs",
    ),
    "weights": (lambda state: json.dumps(changed(state, tally=changed(state["tally"], rows=3))), "have weights"),
    "another day": (lambda state: json.dumps(changed(state, day="2026-11-02")), "should be called 2026-11-02.json"),
    "no day": (lambda state: json.dumps(changed(state, day="1.11.")), "expected a day such as"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named(log, damage):
    log.add("2026-11-01", predictions())
    file = log.path / "2026-11-01.json"
    change, message = DAMAGES[damage]
    file.write_text(change(json.loads(file.read_text())))
    with pytest.raises(InputError, match=message) as told:
        log.days()
    assert str(file) in str(told.value)


def test_a_file_of_another_log_is_named(log, tmp_path):
    log.add("2026-11-01", predictions())
    other = Log(tmp_path / "other")
    other.add("2026-11-02", Predictions(probs=np.eye(2), y=[0, 1]))
    (other.path / "2026-11-02.json").rename(log.path / "2026-11-02.json")
    with pytest.raises(InputError, match=r"2026-11-02.json: 2026-11-02 has the classes 0, 1"):
        log.days()
