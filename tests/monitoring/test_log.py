"""`Log`: files per day, late labels, duplicates, and invalid input."""

import copy
import json
from datetime import date

import numpy as np
import pandas as pd
import pytest

from orcu import InputError, Predictions
from orcu.monitoring import Log
from orcu.monitoring.log import Day, _checksum, as_day

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


def test_log_days_returns_the_added_day(log):
    log.add(date(2026, 11, 1), predictions(ids=["a", "b", "c", "d"]), unlabelled=3)
    (day,) = log.days()
    assert (day.day, day.classes, day.unlabelled) == (date(2026, 11, 1), tuple(CLASSES), 3)
    assert day.tally.compute()["accuracy"] == 0.75
    assert len(day.ids) == 4
    text = (log.path / "2026-11-01.json").read_text()
    assert '"a"' not in text  # hashed
    assert sorted(path.name for path in log.path.iterdir()) == [".lock", "2026-11-01.json"]


def test_log_add_existing_day_raises_overwrites_or_appends(log):
    log.add("2026-11-01", predictions(slice(0, 2)), unlabelled=2)
    with pytest.raises(InputError, match=r"2026-11-01.json: .*2 labelled rows.*--overwrite.*--append"):
        log.add("2026-11-01", predictions())
    appended = log.add("2026-11-01", predictions(slice(2, 4)), append=True)
    assert (appended.tally.rows, appended.unlabelled) == (4, 0)
    at_once = Day.from_predictions("2026-11-01", predictions(), predictions().y)
    assert appended.tally.compute() == pytest.approx(at_once.tally.compute(), nan_ok=True)
    assert log.add("2026-11-01", predictions(slice(0, 3)), overwrite=True).tally.rows == 3
    with pytest.raises(InputError, match="^overwrite, append:"):
        log.add("2026-11-01", predictions(), overwrite=True, append=True)


def test_log_add_keeps_unlabelled_rows_without_id(log):
    log.add("2026-11-01", predictions(slice(0, 2), ids=["a", "b", "c", "d"]), unlabelled=5)
    appended = log.add("2026-11-01", predictions(slice(2, 3), ids=["a", "b", "c", "d"]), append=True)
    assert (appended.tally.rows, appended.unlabelled) == (3, 4)
    (day,) = log.days()
    assert day.unlabelled == 4


def test_log_add_file_detects_duplicate_ids(log, tmp_path):
    ids = ["a", "b", "c", "d"]
    first = table(tmp_path / "first.csv", ["low", None, "high", ""], ids=ids)
    (day,) = log.add_file(first, day="2026-11-01", id="id", **READING)
    assert (day.tally.rows, day.unlabelled) == (2, 2)
    again = table(tmp_path / "again.csv", ["low", "mid", "high", "low"], ids=ids)
    with pytest.raises(InputError, match="2026-11-01: 2 of the 4 rows"):
        log.add_file(again, day="2026-11-01", id="id", append=True, **READING)
    late = table(tmp_path / "late.csv", ["mid"], ids=["b"], probs=PROBS[1:2])
    (day,) = log.add_file(late, day="2026-11-01", id="id", append=True, **READING)
    assert (day.tally.rows, day.unlabelled) == (3, 1)
    with pytest.raises(InputError, match="2026-11-01: some rows have ids"):
        log.add_file(late, day="2026-11-01", append=True, **READING)
    twice = table(tmp_path / "twice.csv", ["low"] * 4, ids=["x", "y", "x", "z"])
    with pytest.raises(InputError, match="ids: .*'x'"):
        log.add_file(twice, day="2026-11-02", id="id", **READING)


def test_log_add_file_counts_and_validates_unlabelled_rows(log, tmp_path):
    file = table(tmp_path / "none.csv", [None] * 4)
    (day,) = log.add_file(file, day="2026-11-01", **READING)
    assert (day.tally.rows, day.unlabelled) == (0, 4)
    probs = [*PROBS[:3], [0.9, 0.9, 0.9]]
    broken = table(tmp_path / "broken.csv", ["low", None, "mid", None], probs=probs)
    with pytest.raises(InputError, match="row 4"):
        log.add_file(broken, day="2026-11-02", **READING)
    other = table(tmp_path / "other.csv", [None, "low", None, "lwo"])
    with pytest.raises(InputError, match="row 4 .*'lwo'"):
        log.add_file(other, day="2026-11-02", **READING)
    with pytest.raises(InputError, match="label="):
        log.add_file(file, day="2026-11-02", probs="p_*")
    numbers = table(tmp_path / "numbers.csv", [0, None, 2, 2])  # positions of the named classes
    (day,) = log.add_file(numbers, day="2026-11-02", **READING)
    assert (day.tally.rows, day.unlabelled) == (3, 1)
    assert day.tally.compute()["accuracy"] == pytest.approx(2 / 3)


def test_log_add_file_splits_rows_by_date(log, tmp_path):
    when = ["2026-11-02", "2026-11-01T23:59:59", "2026-11-02 08:00", "2026-11-01"]
    file = table(tmp_path / "days.csv", ["low", "mid", "high", None], when=when)
    log.add_file(file, date="when", **READING)
    assert [(str(day.day), day.tally.rows, day.unlabelled) for day in log.days()] == [
        ("2026-11-01", 1, 1),
        ("2026-11-02", 2, 0),
    ]
    frame = pd.read_csv(file).assign(when=pd.to_datetime(["2026-11-11", "2026-11-12"] * 2))
    frame.to_parquet(tmp_path / "days.parquet")
    later = log.add_file(tmp_path / "days.parquet", date="when", **READING)
    assert [str(day.day) for day in later] == ["2026-11-11", "2026-11-12"]


@pytest.mark.parametrize("when", ["11/01/2026", "2026-13-01", "01.11.2026", "tomorrow", "20261101"])
def test_log_add_file_ambiguous_date_raises(log, tmp_path, when):
    file = table(tmp_path / "days.csv", ["low"] * 4, when=["2026-11-01", "2026-11-01", when, when])
    with pytest.raises(InputError, match=r"days.csv: column 'when', row 3:"):
        log.add_file(file, date="when", **READING)
    if when != "01.11.2026":
        with pytest.raises(InputError, match="^--day:"):
            as_day(when, name="--day")
    assert log.days() == []


def test_log_add_file_writes_nothing_if_one_day_is_invalid(log, tmp_path):
    log.add("2026-11-02", predictions())
    file = table(tmp_path / "days.csv", ["low"] * 4, when=["2026-11-01", "2026-11-02"] * 2)
    with pytest.raises(InputError, match="2026-11-02.json: "):
        log.add_file(file, date="when", **READING)
    assert [str(day.day) for day in log.days()] == ["2026-11-02"]


def test_log_add_incompatible_rows_raise(log, tmp_path):
    log.add("2026-11-01", predictions())
    with pytest.raises(InputError, match="classes 0, 1, but 2026-11-01 has low, mid, high"):
        log.add("2026-11-02", Predictions(probs=[[0.5, 0.5]], y=[0]))
    with pytest.raises(InputError, match="classes high, mid, low, but 2026-11-01 has low, mid, high"):
        log.add("2026-11-02", Predictions(probs=PROBS, y=["low"] * 4, classes=CLASSES[::-1]))
    with pytest.raises(InputError, match="10 bins, but 2026-11-01 has 15; set --n-bins 15"):
        log.add("2026-11-02", predictions(), n_bins=10)
    for column in ({"sample_weight": [1, 2, 1, 1]}, {"subgroup": list("aabb")}, {"cluster": list("aabb")}):
        option = next(iter(column)).replace("_", "-")
        with pytest.raises(InputError, match=f"the columns --{option}, but 2026-11-01 has no weights"):
            log.add("2026-11-02", predictions(**column))
    predictions(sample_weight=[1, 2, 1, 1]).write(tmp_path / "weighted.parquet")
    with pytest.raises(InputError, match="^day, date:"):
        log.add_file(tmp_path / "weighted.parquet")
    with pytest.raises(InputError, match="no labels"):
        log.add("2026-11-02", Predictions(probs=PROBS, classes=CLASSES))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file: expected a folder"):
        Log(tmp_path / "file").add("2026-11-02", predictions())
    assert len(log.days()) == 1


def signed(state, **changes):
    """The state with changes and a checksum that fits, as a person who knows the format could write it."""
    state = {**state, **changes}
    return json.dumps(state | {"sha256": _checksum(state)})


def changed_state(state, amount):
    """The tally with an event more or less in the first cell that has one."""
    sums = copy.deepcopy(state["tally"])
    cell = next(k for k, value in enumerate(sums["state"][1]) if value)
    sums["state"][1][cell] += amount * 2
    return sums


DAMAGES = {
    "cut off": (lambda state: json.dumps(state)[:200], "not valid JSON"),
    "a list": (lambda state: "[]", "not a day"),
    "another kind": (lambda state: '{"a": 1}', "not a day"),
    "another version": (lambda state: json.dumps(dict(state, monitored_day=7)), "monitored_day: .*7"),
    "no classes": (lambda state: json.dumps(dict(state, classes=[])), r"damaged \(classes"),
    "fewer names": (lambda state: json.dumps(dict(state, classes=["a", "b"])), "3 classes, but 2 names"),
    "no tally": (lambda state: json.dumps(dict(state, tally={})), r"damaged \(tally"),
    "a tally of another version": (
        lambda state: json.dumps(dict(state, tally=dict(state["tally"], state_version=9))),
        "state_version: expected 2, got 9",
    ),
    "a tally of other metrics": (
        lambda state: json.dumps(dict(state, tally=dict(state["tally"], row_scores=["mine"]))),
        "row score 'mine'",
    ),
    "a ragged tally": (
        lambda state: json.dumps(dict(state, tally=dict(state["tally"], state=[[1], [1, 2]]))),
        "tally: state: ",
    ),
    "a huge number": (
        lambda state: json.dumps(dict(state, tally=dict(state["tally"], state=[[10**30]]))),
        r"damaged \(tally: state",
    ),
    "weights": (lambda state: json.dumps(dict(state, tally=dict(state["tally"], rows=3))), "tally: .*weight"),
    "another day": (lambda state: signed(state, day="2026-11-02"), "expected the name 2026-11-02.json"),
    "no day": (lambda state: signed(state, day="1.11."), "day: .*1.11."),
    "a changed number": (lambda state: json.dumps(dict(state, unlabelled=7)), "sha256: the content has been changed"),
    "a negative count": (lambda state: signed(state, tally=changed_state(state, -1)), "tally: "),
    "a moved row": (lambda state: signed(state, tally=changed_state(state, 1)), "tally: "),
    "an integer of thousands of digits": (
        lambda state: json.dumps(state).replace('"unlabelled": 0', '"unlabelled": ' + "9" * 5000),
        "damaged",
    ),
    "a class name that is not text": (lambda state: signed(state, classes=["a", "b", "\ud800"]), "damaged"),
    "deep nesting": (lambda state: "[" * 100_000, "not valid JSON"),
    "no bets": (lambda state: signed(state, weighted=True), "bets: missing"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_log_days_damaged_file_raises_with_its_name(log, damage):
    log.add("2026-11-01", predictions())
    file = log.path / "2026-11-01.json"
    change, message = DAMAGES[damage]
    file.write_text(change(json.loads(file.read_text())))
    with pytest.raises(InputError, match=message) as error:
        log.days()
    assert str(file) in str(error.value)


def test_log_days_file_of_another_log_raises_with_its_name(log, tmp_path):
    log.add("2026-11-01", predictions())
    other = Log(tmp_path / "other")
    other.add("2026-11-02", Predictions(probs=np.eye(2), y=[0, 1]))
    (other.path / "2026-11-02.json").rename(log.path / "2026-11-02.json")
    with pytest.raises(InputError, match=r"2026-11-02.json: 2026-11-02 has the classes 0, 1"):
        log.days()
