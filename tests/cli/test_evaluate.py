"""``orcu evaluate`` as a user meets it: tables, reports, exit codes, one-line errors."""

import json
from xml.etree import ElementTree

import command
import numpy as np
import pandas as pd
import pytest

CLASSES = ["none", "mild", "severe"]


def run(*arguments, cwd, width=80):
    return command.run("evaluate", *arguments, cwd=cwd, width=width)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two models of the same 300 rows, by pandas; a file typed by hand."""
    folder = tmp_path_factory.mktemp("preds")
    rng = np.random.default_rng(0)
    logits = -((np.arange(3) - rng.uniform(-0.5, 2.5, size=(300, 1))) ** 2)
    truth = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random(300)[:, None] > np.cumsum(truth, 1)[:, :-1]).sum(1)
    for name, factor in (("sharp", 4.0), ("calm", 1.0)):
        e = np.exp(factor * logits)
        data = pd.DataFrame(e / e.sum(1, keepdims=True), columns=[f"p_{c}" for c in CLASSES])
        data["grade"] = np.array(CLASSES)[y]
        data["site"] = np.where(np.arange(300) < 100, "north", "south")
        data["patient"], data["image"] = np.arange(300) // 2, [f"img{i}" for i in range(300)]
        data.to_parquet(folder / f"{name}.parquet")
        data.to_csv(folder / f"{name}.csv.gz", index=False)
    (folder / "hand.csv").write_text(
        "grade;p_none;p_mild;p_severe\nnone;0,8;0,15;0,05\nmild;0,2;0,5;0,3\nsevere;0,0;0,3;0,7\n"
    )
    return folder


BASIC = ("--label", "grade", "--probs", "p_*")


def test_the_table_fits_a_terminal_and_says_what_it_read(folder):
    result = run("sharp.parquet", *BASIC, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    for expected in (
        "0 = none (p_none), 1 = mild (p_mild)",
        "labels matched to class names by value",
        "Over-confident by",
        "All predictions are unimodal",
        "Expected calibration error (ECE) ↓",
        "95 % interval",
        "2,000 bootstrap resamples, seed 0",
    ):
        assert expected in result.stdout.replace("\n", " ").replace("\u00a0", " "), expected
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_file_typed_by_hand_is_read(folder):
    result = run("hand.csv", *BASIC, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "separator semicolon, decimal comma (recognised)" in result.stdout
    forced = run("hand.csv", *BASIC, "--sep", ";", "--decimal", ",", cwd=folder)
    assert "(given)" in forced.stdout
    wrong = run("hand.csv", *BASIC, "--sep", ",", cwd=folder)
    assert wrong.returncode == 3


def test_everything_at_once(folder, tmp_path):
    report, numbers = tmp_path / "report.html", tmp_path / "out.json"
    result = run(
        "sharp.parquet",
        *BASIC,
        "--group",
        "site",
        "--cluster",
        "patient",
        "--id",
        "image",
        "--bootstrap",
        "100",
        "--compare",
        "calm.csv.gz",
        "--report",
        report,
        "--json",
        numbers,
        "--fail-if",
        "sce>0.05",
        "--fail-if",
        "accuracy<0.1",
        cwd=folder,
    )
    assert result.returncode == 4, result.stdout + result.stderr
    assert "gate sce>0.05: tripped (sce = 0." in result.stdout
    assert "gate accuracy<0.1: passed" in result.stdout
    assert "sharp minus calm" in result.stdout
    assert "north" in result.stdout
    assert "100 bootstrap resamples of 150 whole subjects" in result.stdout
    found = json.loads(numbers.read_text())
    assert found["model"] == "sharp"
    assert found["subjects"] == 150
    assert found["groups"]["north"]["rows"] == 100
    assert found["others"]["calm"]["rows"] == 300
    assert found["differences"]["calm"]["sce"]["value"] > 0
    assert len(found["provenance"]["files"][0]["sha256"]) == 64
    assert "--probs 'p_*'" in found["provenance"]["command"]
    page = report.read_text()
    assert found["provenance"]["files"][0]["sha256"] in page
    assert "img0" not in page
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.json", "report.html"]


def test_ids_appear_only_when_asked(folder, tmp_path):
    run(
        "sharp.parquet",
        *BASIC,
        "--id",
        "image",
        "--bootstrap",
        "20",
        "--show-ids",
        "--report",
        tmp_path / "r.html",
        cwd=folder,
    )
    assert "img" in (tmp_path / "r.html").read_text()


def test_gates_pass_quietly(folder):
    result = run("calm.parquet", *BASIC, "--fail-if", "sce.low>0.05", "--bootstrap", "200", cwd=folder)
    assert result.returncode == 0
    assert "gate sce.low>0.05: passed (sce.low = " in result.stdout


GATES = ("--bootstrap", "50", "--fail-if", "sce>0.05", "--fail-if", "accuracy<0.1")


def test_github_gets_commands_and_the_page_of_the_job(folder, tmp_path, monkeypatch):
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    result = run("sharp.parquet", *BASIC, *GATES, "--format", "github", "--report", tmp_path / "r.html", cwd=folder)
    assert result.returncode == 4, result.stderr
    assert "\n::error title=gate tripped::sharp: sce>0.05 (sce = 0." in result.stdout
    assert "\n::notice title=gate passed::sharp: accuracy<0.1" in result.stdout
    assert page.read_text().startswith("before\n### orcu evaluate: sharp\n")
    assert page.read_text().removeprefix("before\n").strip() in result.stdout
    assert (tmp_path / "r.html").exists()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    refused = run("sharp.parquet", *BASIC, "--bootstrap", "0", "--format", "github", cwd=folder)
    assert refused.returncode == 2
    assert "GITHUB_STEP_SUMMARY" in refused.stderr


def test_the_page_of_the_job_is_only_for_github(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    for form in ("text", "junit"):
        assert run("calm.parquet", *BASIC, "--bootstrap", "0", "--format", form, cwd=folder).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_junit_is_all_of_the_output(folder, tmp_path):
    result = run("sharp.parquet", *BASIC, *GATES, "--format", "junit", "--json", tmp_path / "n.json", cwd=folder)
    assert result.returncode == 4
    suite = ElementTree.fromstring(result.stdout.encode())
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.parquet", *BASIC], "absent.parquet: there is no such file"),
        (["sharp.parquet", *BASIC, "--fail-if", "sec>0.05"], "unknown metric 'sec'"),
        (["sharp.parquet", *BASIC, "--fail-if", "sce=0.05"], "expected a metric, a comparison and a number"),
        (["sharp.parquet", *BASIC, "--report", "no/such/folder.html"], "its folder does not exist"),
        (["sharp.parquet", *BASIC, "--decimal", "x"], "--decimal: expected . or ,"),
        (["sharp.parquet", *BASIC, "--sep", "ab"], "--sep: expected one character"),
        (["sharp.parquet", *BASIC, "--bootstrap", "-1"], "--bootstrap"),
        (["sharp.parquet", *BASIC, "--logits", "p_*"], "give only one of the two"),
        (["sharp.parquet", *BASIC, "--fail-if", "sce>5"], "5 % is 0.05"),
        (["sharp.parquet", *BASIC, "--report", "sharp.parquet"], "sharp.parquet: is an input"),
        (["sharp.parquet", *BASIC, "--report", "x", "--json", "x"], "is named for two outputs"),
        (["sharp.parquet", *BASIC, "--json", "."], "is a folder"),
        (["sharp.parquet", *BASIC, "--decide", "modus"], "unknown decision rule"),
        (["sharp.parquet", *BASIC, "--format", "xml"], "unknown format 'xml'. Known: text, github, junit"),
        ([], "Missing argument"),
    ],
)
def test_wrong_usage_is_code_2(arguments, message, folder):
    result = run(*arguments, cwd=folder, width=200)
    assert result.returncode == 2, result.stdout
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sharp.parquet", "--probs", "p_*"], "no labels"),
        (["sharp.parquet", "--label", "grade"], "say where the predictions are"),
        (["sharp.parquet", "--label", "grades", "--probs", "p_*"], "Did you mean 'grade'? The columns are"),
        (["sharp.parquet", "--label", "patient", "--probs", "p_*"], "row 1 has label '0'"),
        (["sharp.parquet", *BASIC, "--classes", "a,b"], "2 names (a, b) for 3 columns"),
        (["sharp.parquet", *BASIC, "--group", "image"], "group: 300 different groups"),
        (["sharp.parquet", "--label", "grade", "--logits", "p_*", "--percent"], "logits are not percentages"),
        (["cut.parquet", *BASIC], "not a whole Parquet file"),
        (["sharp.parquet", *BASIC, "--compare", "hand.csv"], "3 rows, the first model has 300"),
    ],
)
def test_bad_data_is_code_3_and_writes_nothing(arguments, message, folder, tmp_path):
    (folder / "cut.parquet").write_bytes((folder / "sharp.parquet").read_bytes()[:-40])
    outputs = ["--report", tmp_path / "r.html", "--json", tmp_path / "o.json"]
    result = run(*arguments, *outputs, cwd=folder)
    assert result.returncode == 3, result.stdout + result.stderr
    assert result.stderr.startswith("bad data: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_one_command_compares_several_files(folder):
    result = run("calm.csv.gz", "sharp.csv.gz", *BASIC, "--bootstrap", "50", "--decide", "median", cwd=folder)
    assert result.returncode == 0
    assert "calm minus sharp" in result.stdout
    assert "sharp: sharp.csv.gz: separator comma" in result.stdout  # the notes of every file


def test_numbers_are_never_cut(folder):
    (folder / "zero.csv").write_text(
        "grade,p_none,p_mild,p_severe\n" + "none,0,0.6,0.4\nmild,0.2,0.5,0.3\nsevere,0.1,0.2,0.7\n" * 20
    )
    result = run("zero.csv", *BASIC, cwd=folder)
    assert result.returncode == 0
    assert "infinite (20 rows)" in result.stdout.replace("\u00a0", " ")
    assert "…" not in result.stdout
