"""``orcu monitor`` as a user meets it: days are added, late labels too; looks end with an exit code."""

import json

import numpy as np
import pandas as pd
import pytest
from command import run

CLASSES = ["none", "mild", "severe"]
READING = ("--label", "grade", "--probs", "p_*", "--classes", "none,mild,severe")


def table(path, rows, *, days=("2026-11-01",), sharpen=1.0, seed=0, waiting=0):
    rng = np.random.default_rng(seed)
    count = rows * len(days)
    logits = -((np.arange(3) - rng.uniform(-0.5, 2.5, size=(count, 1))) ** 2)
    truth = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random(count)[:, None] > np.cumsum(truth, 1)[:, :-1]).sum(1)
    said = np.exp(sharpen * logits)
    frame = pd.DataFrame((said / said.sum(1, keepdims=True)).round(4), columns=[f"p_{name}" for name in CLASSES])
    frame["grade"] = np.array(CLASSES, dtype=object)[y]
    frame.loc[: waiting - 1, "grade"] = None
    frame["day"], frame["case"] = np.repeat(days, rows), [f"case {k}" for k in range(count)]
    frame.to_csv(path, index=False)


@pytest.fixture
def folder(tmp_path):
    days = [f"2026-11-{day:02}" for day in range(1, 15)]
    table(tmp_path / "calm.csv", 80, days=days, waiting=5)
    table(tmp_path / "sharp.csv", 80, days=days, sharpen=4.0)
    table(tmp_path / "one.csv", 50, waiting=10)
    return tmp_path


def test_a_log_is_filled_and_looked_at(folder):
    result = run("monitor", "add", "calm.csv", "--date", "day", "--log", "monitor", *READING, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "2026-11-01: 75 labelled rows, 5 without a label yet" in result.stdout
    assert "wrote 14 days to monitor" in result.stdout
    result = run("monitor", "check", "monitor", cwd=folder, width=80)
    assert result.returncode == 0, result.stderr
    assert "No alarm: the evidence that the probabilities are off by more than 2 points" in result.stdout.replace(
        "\n", " "
    )
    assert "2026-11-14" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_an_alarm_has_an_exit_code_and_files(folder):
    run("monitor", "add", "sharp.csv", "--date", "day", "--log", "monitor", *READING, cwd=folder)
    files = ("--report", "page.html", "--json", "out.json", "--plot", "chart.png", "--title", "Ward 3")
    result = run("monitor", "check", "monitor", "--alpha", "0.01", *files, cwd=folder)
    assert result.returncode == 4, result.stderr
    assert "ALARM" in result.stdout
    assert "an alarm needs 100" in result.stdout.replace("\n", " ")
    assert "<h1>Ward 3</h1>" in (folder / "page.html").read_text()
    state = json.loads((folder / "out.json").read_text())
    assert state["alarm"] is True
    assert state["provenance"]["command"].startswith("orcu monitor check monitor --alpha 0.01")
    assert (folder / "chart.png").read_bytes().startswith(b"\x89PNG")
    same = run("monitor", "check", "monitor", "--reference-days", "7", cwd=folder)
    assert same.returncode == 0, same.stdout
    run("monitor", "add", "calm.csv", "--date", "day", "--log", "before", *READING, cwd=folder)
    other = run("monitor", "check", "monitor", "--reference", "before", cwd=folder)
    assert other.returncode == 4, other.stderr


def test_a_day_gets_its_late_labels(folder):
    add = ("monitor", "add", "one.csv", "--day", "2026-11-01", "--log", "monitor", *READING)
    assert "40 labelled rows, 10 without a label yet" in run(*add, cwd=folder).stdout
    refused = run(*add, cwd=folder)
    assert refused.returncode == 3
    assert "there already, with 40 labelled rows" in refused.stderr
    table(folder / "one.csv", 50)
    assert "2026-11-01: 50 labelled rows\n" in run(*add, "--replace", cwd=folder).stdout
    more = run(*add, "--more", cwd=folder)
    assert "nobody can see whether a row was there already" in more.stdout
    ids = (*add, "--id", "case")
    assert run(*ids, "--replace", cwd=folder).returncode == 0
    doubles = run(*ids, "--more", cwd=folder)
    assert doubles.returncode == 3
    assert "50 of the 50 rows are there already" in doubles.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add", "one.csv", "--log", "m"), "--day, --date: give one of the two"),
        (("add", "one.csv", "--log", "m", "--day", "2026-11-01", "--date", "day"), "--day, --date: give one"),
        (("add", "one.csv", "--log", "m", "--day", "1.11.2026"), "--day: expected a day such as 2026-11-01"),
        (("add", "one.csv", "--log", "m", "--day", "2026-11-01", "--more", "--replace"), "only one of the two"),
        (("add", "none.csv", "--log", "m", "--day", "2026-11-01"), "there is no such file"),
        (("check", "nowhere"), "there is no such folder"),
        (("check", "log", "--alpha", "1.5"), "alpha: expected"),
        (("check", "log", "--tolerance", "-1"), "tolerance: expected"),
        (("check", "log", "--reference", "nowhere"), "there is no such file"),
        (("check", "log", "--since", "May"), "--since: expected a day"),
        (("check", "log", "--plot", "chart.jpg"), "ends in .pdf, .svg or .png"),
        (("check", "log", "--json", "log/out.json"), "lies in the input folder"),
    ],
)
def test_wrong_usage_ends_with_2(folder, arguments, message):
    (folder / "log").mkdir()
    result = run("monitor", *arguments, cwd=folder, width=200)
    assert result.returncode == 2, result.stdout
    assert message in result.stderr
    assert not (folder / "m").exists()


def test_bad_data_end_with_3(folder):
    (folder / "log").mkdir()
    empty = run("monitor", "check", "log", cwd=folder)
    assert (empty.returncode, "the log has no day yet" in empty.stderr) == (3, True)
    (folder / "log" / "2026-11-01.json").write_text('{"monitored_day": 1, ')
    cut = run("monitor", "check", "log", cwd=folder)
    assert (cut.returncode, "not a JSON file" in cut.stderr) == (3, True)
    unlabelled = run("monitor", "add", "one.csv", "--day", "2026-11-01", "--log", "m", "--probs", "p_*", cwd=folder)
    assert unlabelled.returncode == 3
    assert "--label" in unlabelled.stderr
