"""``orcu monitor``."""

import json

import numpy as np
import pandas as pd
import pytest
from command import assert_data_error, assert_usage_error, plain, run

CLASSES = ["none", "mild", "severe"]
READING = ("--label", "grade", "--probs", "p_*", "--classes", "none,mild,severe")


def write_predictions(path, rows, *, days=("2026-11-01",), sharpen=1.0, seed=0, unlabelled=0):
    rng = np.random.default_rng(seed)
    count = rows * len(days)
    logits = -((np.arange(3) - rng.uniform(-0.5, 2.5, size=(count, 1))) ** 2)
    truth = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random(count)[:, None] > np.cumsum(truth, 1)[:, :-1]).sum(1)
    probs = np.exp(sharpen * logits)
    frame = pd.DataFrame((probs / probs.sum(1, keepdims=True)).round(4), columns=[f"p_{name}" for name in CLASSES])
    frame["grade"] = np.array(CLASSES, dtype=object)[y]
    frame.loc[: unlabelled - 1, "grade"] = None
    frame["day"], frame["case"] = np.repeat(days, rows), [f"case {k}" for k in range(count)]
    frame.to_csv(path, index=False)


@pytest.fixture
def folder(tmp_path):
    days = [f"2026-11-{day:02}" for day in range(1, 15)]
    write_predictions(tmp_path / "calm.csv", 80, days=days, unlabelled=5)
    write_predictions(tmp_path / "sharp.csv", 80, days=days, sharpen=4.0)
    write_predictions(tmp_path / "one.csv", 50, unlabelled=10)
    return tmp_path


def test_monitor_add_and_check_a_calibrated_model(folder):
    result = run("monitor", "add", "calm.csv", "--date", "day", "--log", "monitor", *READING, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "2026-11-01: 75 labelled rows, 5 unlabelled" in result.stdout
    assert "wrote 14 days to monitor" in result.stdout
    result = run("monitor", "check", "monitor", cwd=folder, width=80)
    assert result.returncode == 0, result.stderr
    assert "2026-11-14" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_monitor_check_alarm_exits_with_4_and_writes_files(folder):
    run("monitor", "add", "sharp.csv", "--date", "day", "--log", "monitor", *READING, cwd=folder)
    files = ("--report", "page.html", "--json", "out.json", "--plot", "chart.png", "--title", "Ward 3")
    result = run("monitor", "check", "monitor", "--alpha", "0.01", *files, cwd=folder)
    assert result.returncode == 4, result.stderr
    assert "ALARM" in result.stdout
    assert "100" in plain(result.stdout)  # 1 / alpha, the e-value of an alarm
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


def test_monitor_add_late_labels(folder):
    add = ("monitor", "add", "one.csv", "--day", "2026-11-01", "--log", "monitor", *READING)
    assert "40 labelled rows, 10 unlabelled" in run(*add, cwd=folder).stdout
    assert_data_error(run(*add, cwd=folder), "2026-11-01", "40", "--overwrite", "--append")
    write_predictions(folder / "one.csv", 50)
    assert "2026-11-01: 50 labelled rows\n" in run(*add, "--overwrite", cwd=folder).stdout
    assert "--id" in run(*add, "--append", cwd=folder).stdout
    with_ids = (*add, "--id", "case")
    assert run(*with_ids, "--overwrite", cwd=folder).returncode == 0
    assert_data_error(run(*with_ids, "--append", cwd=folder), "50 of the 50 rows")


DAY = ("--day", "2026-11-01")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "one.csv", "--log", "m"), ["--day, --date:"]),
        (("add", "one.csv", "--log", "m", *DAY, "--date", "day"), ["--day, --date:"]),
        (("add", "one.csv", "--log", "m", "--day", "1.11.2026"), ["--day:", "1.11.2026"]),
        (("add", "one.csv", "--log", "m", *DAY, "--append", "--overwrite"), ["--overwrite, --append:"]),
        (("add", "none.csv", "--log", "m", *DAY), ["none.csv:"]),
        (("check", "nowhere"), ["nowhere:"]),
        (("check", "log", "--alpha", "1.5"), ["alpha:"]),
        (("check", "log", "--tolerance", "-1"), ["tolerance:"]),
        (("check", "log", "--reference", "nowhere"), ["nowhere:"]),
        (("check", "log", "--since", "May"), ["--since:"]),
        (("check", "log", "--plot", "chart.jpg"), [".pdf, .svg or .png"]),
        (("check", "log", "--json", "log/out.json"), ["log/out.json:", "input folder log"]),
    ],
)
def test_monitor_usage_errors(folder, arguments, words):
    (folder / "log").mkdir()
    assert_usage_error(run("monitor", *arguments, cwd=folder), *words)
    assert not (folder / "m").exists()


def test_monitor_data_errors(folder):
    (folder / "log").mkdir()
    assert_data_error(run("monitor", "check", "log", cwd=folder), "log")
    (folder / "log" / "2026-11-01.json").write_text('{"monitored_day": 1, ')
    assert_data_error(run("monitor", "check", "log", cwd=folder), "2026-11-01.json", "JSON")
    result = run("monitor", "add", "one.csv", *DAY, "--log", "m", "--probs", "p_*", cwd=folder)
    assert_data_error(result, "--label")
