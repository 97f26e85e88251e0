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
    assert "2026-11-01 to 2026-11-14: 1,115 labelled rows, 5 unlabelled" in result.stdout  # not a line per day
    assert "wrote 14 days to monitor" in result.stdout
    assert len(result.stdout.splitlines()) <= 3
    result = run("monitor", "check", "monitor", cwd=folder, width=80)
    assert result.returncode == 0, result.stderr
    assert "2026-11-14" in result.stdout
    assert "if calib." in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    weeks = run("monitor", "check", "monitor", "--period", "week", cwd=folder)
    assert [line.split()[:2] for line in weeks.stdout.splitlines()[1:5]] == [
        ["week", "of"],
        ["2026-10-26", "75"],
        ["2026-11-02", "560"],
        ["2026-11-09", "480"],
    ]
    months = run("monitor", "check", "monitor", "--period", "month", "--json", "out.json", cwd=folder)
    assert "2026-11 " in months.stdout
    state = json.loads((folder / "out.json").read_text())
    assert (len(state["days"]), len(state["periods"])) == (14, 1)
    assert state["periods"][0]["rows"] == sum(day["rows"] for day in state["days"]) == 1115
    assert state["periods"][0]["e_value"] == state["e_value"]
    assert state["days"][0]["ece_chance_limit"] > state["periods"][0]["ece_chance_limit"] > 0


def test_monitor_check_long_log_prints_months(folder):
    days = [f"{year}-{month:02}-{day:02}" for year in (2024, 2025) for month in range(1, 13) for day in (1, 8, 15)]
    write_predictions(folder / "long.csv", 3, days=days)
    run("monitor", "add", "long.csv", "--date", "day", "--log", "monitor", *READING, cwd=folder)
    lines = run("monitor", "check", "monitor", cwd=folder).stdout.splitlines()
    assert lines[1].split()[0] == "month"
    assert sum(line.startswith("202") for line in lines) == 24 + 1  # and the last finding


def test_monitor_add_subgroups_clusters_and_weights(folder):
    frame = pd.read_csv(folder / "calm.csv")
    frame["site"] = np.where(np.arange(len(frame)) % 2, "[red]north", "south")
    frame["patient"], frame["factor"] = np.arange(len(frame)) // 3, 1 + np.arange(len(frame)) % 4
    frame["day"] = pd.to_datetime(frame["day"]).dt.strftime("%d.%m.%Y")
    frame.to_csv(folder / "sites.csv", index=False)
    columns = ("--subgroup", "site", "--cluster", "patient", "--sample-weight", "factor", "--id", "case")
    add = ("monitor", "add", "sites.csv", "--date", "day", "--log", "monitor", *columns, *READING)
    assert run(*add, cwd=folder).returncode == 0
    result = run("monitor", "check", "monitor", "--report", "page.html", "--json", "out.json", cwd=folder, width=80)
    assert result.returncode == 0, result.stderr
    assert "[red]north" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    page = (folder / "page.html").read_text()
    assert '<section id="subgroups">' in page
    assert "assumes that clusters are independent" in page
    assert [part["name"] for part in json.loads((folder / "out.json").read_text())["subgroups"]] == [
        "[red]north",
        "south",
    ]
    assert_data_error(run(*add[:7], *READING, "--append", cwd=folder), "--cluster")


def test_monitor_add_duplicates_and_implausible_days(folder):
    add = ("monitor", "add", "one.csv", "--log", "monitor", *READING)
    assert run(*add, "--day", "01.11.2026", cwd=folder).returncode == 0
    assert_data_error(run(*add, "--day", "2026-11-02", cwd=folder), "2026-11-01", "--allow-duplicates")
    assert run(*add, "--day", "2026-11-02", "--allow-duplicates", cwd=folder).returncode == 0
    assert_data_error(run(*add, "--day", "2025-11-03", cwd=folder), "2025-11-03", "--allow-any-day")
    twice = ("--day", "2025-11-03", "--allow-any-day", "--allow-duplicates")
    assert run(*add, *twice, cwd=folder).returncode == 0
    day = run(*add, "--day", "11/03/2026", "--date-format", "%m/%d/%Y", "--allow-duplicates", cwd=folder)
    assert "2026-11-03: 40 labelled rows" in day.stdout


def test_monitor_add_folder_that_cannot_be_written(folder):
    result = run("monitor", "add", "one.csv", "--day", "2026-11-01", "--log", "calm.csv/log", *READING, cwd=folder)
    assert_data_error(result, "calm.csv/log: the log cannot be written", "Not a directory")


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
    assert_data_error(run(*add, "--append", cwd=folder), "--allow-duplicates")
    assert "--id" in run(*add, "--append", "--allow-duplicates", cwd=folder).stdout
    with_ids = (*add, "--id", "case")
    assert run(*with_ids, "--overwrite", cwd=folder).returncode == 0
    assert_data_error(run(*with_ids, "--append", cwd=folder), "50 of the 50 rows")


DAY = ("--day", "2026-11-01")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "one.csv", "--log", "m"), ["--day, --date:"]),
        (("add", "one.csv", "--log", "m", *DAY, "--date", "day"), ["--day, --date:"]),
        (("add", "one.csv", "--log", "m", "--day", "1/11/2026"), ["--day:", "1/11/2026", "--date-format"]),
        (("add", "one.csv", "--log", "m", *DAY, "--date-format", "%Y"), ["date_format:", "%Y"]),
        (("check", "log", "--period", "year"), ["year"]),
        (("add", "one.csv", "--log", "m", *DAY, "--append", "--overwrite"), ["--overwrite, --append:"]),
        (("add", "none.csv", "--log", "m", *DAY), ["none.csv:"]),
        (("check", "nowhere"), ["nowhere:"]),
        (("check", "log", "--subgroup", "site"), ["No such option: --subgroup. The log has", "monitor add --subgroup"]),
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
