"""``orcu evaluate``: printed tables, reports, gates, exit codes, errors."""

import json
import re
from xml.etree import ElementTree

import command
import numpy as np
import pandas as pd
import pytest
from command import assert_data_error, assert_usage_error, plain

CLASSES = ["none", "mild", "severe"]


def run(*arguments, cwd, width=80):
    return command.run("evaluate", *arguments, cwd=cwd, width=width)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Predictions of two models for the same 300 rows, and a handwritten CSV file."""
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


def test_evaluate_prints_a_table_that_fits_80_columns(folder):
    result = run("sharp.parquet", *BASIC, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    for expected in (
        "0 = none (p_none), 1 = mild (p_mild)",
        "Over-confident by",
        "unimodal",
        "Expected calibration error (ECE) ↓",
        "95 % interval",
        "2,000 bootstrap resamples, random seed 0",
    ):
        assert expected in plain(result.stdout.replace("\u00a0", " ")), expected
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_evaluate_detects_the_csv_dialect(folder):
    result = run("hand.csv", *BASIC, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "separator semicolon, decimal comma" in result.stdout
    explicit = run("hand.csv", *BASIC, "--sep", ";", "--decimal", ",", cwd=folder)
    assert "separator semicolon, decimal comma" in explicit.stdout
    assert explicit.stdout != result.stdout
    assert_data_error(run("hand.csv", *BASIC, "--sep", ",", cwd=folder), "hand.csv")


def test_evaluate_with_all_options(folder, tmp_path):
    report, numbers = tmp_path / "report.html", tmp_path / "out.json"
    result = run(
        "sharp.parquet",
        *BASIC,
        "--subgroup",
        "site",
        "--cluster",
        "patient",
        "--id",
        "image",
        "--n-resamples",
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
    assert "gate sce>0.05: failed (sce = 0." in result.stdout
    assert "gate accuracy<0.1: passed" in result.stdout
    assert "sharp minus calm" in result.stdout
    assert "north" in result.stdout
    assert "100 bootstrap resamples of 150 clusters" in plain(result.stdout)
    content = json.loads(numbers.read_text())
    assert content["model"] == "sharp"
    assert content["clusters"] == 150
    assert content["subgroups"]["north"]["rows"] == 100
    assert content["others"]["calm"]["rows"] == 300
    assert content["differences"]["calm"]["sce"]["value"] > 0
    assert len(content["provenance"]["files"][0]["sha256"]) == 64
    assert "--probs 'p_*'" in content["provenance"]["command"]
    page = report.read_text()
    assert content["provenance"]["files"][0]["sha256"] in page
    assert "img0" not in page
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.json", "report.html"]


def test_evaluate_show_ids_puts_row_ids_into_the_report(folder, tmp_path):
    options = ("--id", "image", "--n-resamples", "50", "--show-ids", "--report", tmp_path / "r.html")
    run("sharp.parquet", *BASIC, *options, cwd=folder)
    assert "img" in (tmp_path / "r.html").read_text()


def test_evaluate_passed_gate_exits_with_0(folder):
    result = run("calm.parquet", *BASIC, "--fail-if", "sce.low>0.05", "--n-resamples", "200", cwd=folder)
    assert result.returncode == 0
    assert "gate sce.low>0.05: passed (sce.low = " in result.stdout


GATES = ("--n-resamples", "50", "--fail-if", "sce>0.05", "--fail-if", "accuracy<0.1")


def test_evaluate_github_format_prints_workflow_commands_and_appends_the_summary(folder, tmp_path, monkeypatch):
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    result = run("sharp.parquet", *BASIC, *GATES, "--format", "github", "--report", tmp_path / "r.html", cwd=folder)
    assert result.returncode == 4, result.stderr
    assert re.search(r"\n::error title=gate \w+::sharp: sce>0\.05 \(sce = 0\.", result.stdout)
    assert "\n::notice title=gate passed::sharp: accuracy<0.1" in result.stdout
    assert page.read_text().startswith("before\n### orcu evaluate: sharp\n")
    assert page.read_text().removeprefix("before\n").strip() in result.stdout
    assert (tmp_path / "r.html").exists()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    result = run("sharp.parquet", *BASIC, "--n-resamples", "0", "--format", "github", cwd=folder)
    assert_usage_error(result, "GITHUB_STEP_SUMMARY:")


def test_evaluate_other_formats_write_no_github_summary(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    for form in ("text", "junit"):
        assert run("calm.parquet", *BASIC, "--n-resamples", "0", "--format", form, cwd=folder).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_evaluate_junit_format_prints_only_xml(folder, tmp_path):
    result = run("sharp.parquet", *BASIC, *GATES, "--format", "junit", "--json", tmp_path / "n.json", cwd=folder)
    assert result.returncode == 4
    suite = ElementTree.fromstring(result.stdout.encode())
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent.parquet", *BASIC], ["absent.parquet:"]),
        (["sharp.parquet", *BASIC, "--fail-if", "sec>0.05"], ["'sec'"]),
        (["sharp.parquet", *BASIC, "--fail-if", "sce=0.05"], ["--fail-if 'sce=0.05'"]),
        (["sharp.parquet", *BASIC, "--fail-if", "sce>5"], ["--fail-if 'sce>5'", "0.05"]),
        (["sharp.parquet", *BASIC, "--report", "no/such/folder.html"], ["no/such/folder.html:"]),
        (["sharp.parquet", *BASIC, "--decimal", "x"], ["--decimal:", "'x'"]),
        (["sharp.parquet", *BASIC, "--sep", "ab"], ["--sep:", "'ab'"]),
        (["sharp.parquet", *BASIC, "--n-resamples", "-1"], ["--n-resamples"]),
        (["sharp.parquet", *BASIC, "--logits", "p_*"], ["--probs, --logits:"]),
        (["sharp.parquet", *BASIC, "--report", "sharp.parquet"], ["sharp.parquet:", "input"]),
        (["sharp.parquet", *BASIC, "--report", "x.html", "--json", "x.html"], ["x.html:", "two outputs"]),
        (["sharp.parquet", *BASIC, "--json", "."], ["folder"]),
        (["sharp.parquet", *BASIC, "--report", "x.doc"], ["x.doc:", ".html"]),
        (["sharp.parquet", *BASIC, "--rule", "modus"], ["decision rule", "'modus'", "argmax, median, mean"]),
        (["sharp.parquet", *BASIC, "--format", "xml"], ["--format", "'xml'", "'text', 'github', 'junit'"]),
        (["sharp.parquet", *BASIC, "--address", "auto"], ["--address:", "--launcher ray"]),
        ([], ["Missing argument"]),
    ],
)
def test_evaluate_usage_errors_exit_with_2(arguments, words, folder):
    assert_usage_error(run(*arguments, cwd=folder), *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sharp.parquet", "--probs", "p_*"], ["--label"]),
        (["sharp.parquet", "--label", "grade"], ["--probs"]),
        (["sharp.parquet", "--label", "grades", "--probs", "p_*"], ["'grades'", "Did you mean 'grade'?", "p_none"]),
        (["sharp.parquet", "--label", "patient", "--probs", "p_*"], ["row 1", "'0'"]),
        (["sharp.parquet", *BASIC, "--classes", "a,b"], ["2 names (a, b)", "3 columns"]),
        (["sharp.parquet", *BASIC, "--subgroup", "image"], ["subgroup: 300"]),
        (["sharp.parquet", "--label", "grade", "--logits", "p_*", "--percent"], ["percent"]),
        (["cut.parquet", *BASIC], ["cut.parquet", "Parquet"]),
        (["sharp.parquet", *BASIC, "--compare", "hand.csv"], ["3 rows", "300"]),
    ],
)
def test_evaluate_data_errors_exit_with_3_and_write_nothing(arguments, words, folder, tmp_path):
    (folder / "cut.parquet").write_bytes((folder / "sharp.parquet").read_bytes()[:-40])
    outputs = ["--report", tmp_path / "r.html", "--json", tmp_path / "o.json"]
    assert_data_error(run(*arguments, *outputs, cwd=folder), *words)
    assert list(tmp_path.iterdir()) == []


def test_evaluate_compares_several_files(folder):
    result = run("calm.csv.gz", "sharp.csv.gz", *BASIC, "--n-resamples", "50", "--rule", "median", cwd=folder)
    assert result.returncode == 0
    assert "calm minus sharp" in result.stdout
    assert "sharp: sharp.csv.gz: separator comma" in result.stdout  # notes of each file


def test_evaluate_does_not_truncate_numbers(folder):
    (folder / "zero.csv").write_text(
        "grade,p_none,p_mild,p_severe\n" + "none,0,0.6,0.4\nmild,0.2,0.5,0.3\nsevere,0.1,0.2,0.7\n" * 20
    )
    result = run("zero.csv", *BASIC, cwd=folder)
    assert result.returncode == 0
    assert "infinite (20 rows)" in result.stdout.replace("\u00a0", " ")
    assert "…" not in result.stdout


def test_evaluate_compare_takes_options_of_its_own(tmp_path):
    (tmp_path / "a.csv").write_text("y,p_no,p_yes\n" + "no,0.9,0.1\nyes,0.2,0.8\n" * 20)
    (tmp_path / "b.csv").write_text("truth;q_no;q_yes\n" + "no;60;40\nyes;30;70\n" * 20)
    first = ("a.csv", "--label", "y", "--probs", "p_*", "--n-resamples", "100")
    result = run(*first, "--compare", "b.csv,label=truth,probs=q_*,percent=true", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "a minus b" in result.stdout
    wrong = run(*first, "--compare", "b.csv,lable=truth", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "'lable'" in wrong.stderr
    assert "label" in wrong.stderr
    missing = run(*first, "--compare", "c.csv", cwd=tmp_path)
    assert missing.returncode != 0
    assert "c.csv" in missing.stderr


def test_evaluate_several_models_are_one_table(tmp_path):
    for name, high in {"a": 0.9, "b": 0.7, "c": 0.6}.items():
        text = "y,p_no,p_yes\n" + f"no,{high},{1 - high:.1f}\nyes,0.2,0.8\n" * 30
        (tmp_path / f"{name}.csv").write_text(text)
    files = ("a.csv", "b.csv", "c.csv")
    result = run(*files, "--label", "y", "--probs", "p_*", "--n-resamples", "100", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Compared with" not in result.stdout
    assert "It is compared with 2 other models below" in plain(result.stdout)
    *_, row = (line for line in result.stdout.splitlines() if line.startswith("Ranked probability"))
    assert row.count("▲") == 2


def planted(kind, rng):
    """Predictions for 400 rows with a failure, and what the opening must say."""
    centre = rng.uniform(-0.5, 2.5, size=(400, 1))
    logits = -((np.arange(3) - centre) ** 2)
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random((400, 1)) > probs.cumsum(1)[:, :-1]).sum(1)
    site = np.where(np.arange(400) < 100, "south", "north")
    if kind == "class never predicted":
        probs, expected = probs * [1, 1, 0.05], 'Never predicted: "severe" ('
    elif kind == "subgroup":
        probs, expected = np.where(site[:, None] == "south", probs[::-1], probs), " classes in south, 0."
    elif kind == "base rates":
        probs, expected = np.tile(np.bincount(y) / 400, (400, 1)), "The model is not better than always predicting"
    else:
        probs, expected = rng.dirichlet(np.ones(3), 400), "The model is worse than always predicting"
    data = pd.DataFrame(probs / probs.sum(1, keepdims=True), columns=[f"p_{c}" for c in CLASSES])
    return data.assign(grade=np.array(CLASSES)[y], site=site, patient=np.arange(400) // 2), expected


@pytest.mark.parametrize("kind", ["class never predicted", "subgroup", "base rates", "random"])
def test_evaluate_names_a_planted_failure_in_the_first_three_sentences(tmp_path, kind):
    data, expected = planted(kind, np.random.default_rng(8))
    data.to_parquet(tmp_path / "p.parquet")
    options = ("--subgroup", "site", "--cluster", "patient", "--report", "r.html", "--json", "n.json")
    result = run("p.parquet", *BASIC, *options, "--n-resamples", 60, cwd=tmp_path, width=1000)
    assert result.returncode == 0, result.stderr
    opening, _, rest = result.stdout.replace("\u00a0", " ").split("by value\n\n", 1)[1].partition("Next step:")
    sentences = re.split(r"(?<=\.)\s+(?=[A-Z])", opening.strip())
    assert expected in " ".join(sentences[:3])
    page = (tmp_path / "r.html").read_text().replace("\u00a0", " ").replace("&#34;", '"')
    assert "Standardized mean difference →0</td>" in page
    leads = re.findall(r'<p class="lead[^"]*">([^<]*)</p>', page)
    assert expected in " ".join(re.split(r"(?<=\.)\s+(?=[A-Z])", " ".join(leads))[:3])
    # The advice agrees with the numbers below.
    numbers, advice = json.loads((tmp_path / "n.json").read_text()), rest.split("\n\n")[0]
    skill = numbers["corp"]["skill"]
    assert ("Do not use these predictions" in advice) == (skill["low"] <= 1e-9)
    assert "no evidence that further calibration is needed" not in advice  # every model here has a failure
    never = [record["class"] for record in numbers["per_class"] if record["decided"]["value"] == 0]
    assert all(f'"{name}" (' in opening for name in never)
    assert ("Never predicted" in opening) == bool(never)
    assert ("Report the errors of each subgroup" in advice) == ("mean absolute error differs" in opening)


def test_evaluate_checklist_writes_a_table_with_the_command(folder, tmp_path):
    path = tmp_path / "checklist.md"
    result = run("calm.parquet", *BASIC, "--n-resamples", 60, "--checklist", path, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert f"wrote {path}" in plain(result.stdout).replace(" ", "").replace("wrote", "wrote ")
    text = path.read_text()
    assert "| 23a | Model performance | Accuracy " in text
    assert "Command: orcu evaluate calm.parquet --label grade" in text
    assert_usage_error(run("calm.parquet", *BASIC, "--checklist", "c.pdf", cwd=folder), "c.pdf", ".md or .html")
