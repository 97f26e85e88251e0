"""``orcu judge``."""

import contextlib
import errno
import json
import os
import signal
import subprocess
import time

import judge_logs as example
import numpy as np
import pandas as pd
import pytest
from command import ORCU, assert_data_error, assert_usage_error, run, run_process

from orcu import geometry
from orcu.judges.panel import JudgePanel

BASIC = ("--probs", "p_*", "--item", "item")
QUICK = ("--calibrator", "vector+projection")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judge")
    rng = np.random.default_rng(0)
    quality = rng.uniform(0.5, 5.5, size=300)
    person = np.rint(quality + rng.normal(scale=0.7, size=300)).clip(1, 5).astype(int)
    judge = quality + 0.5 + rng.normal(scale=0.8, size=300)
    probs = geometry.probs(-6 * (np.arange(1, 6) - judge[:, None]) ** 2)
    frame = pd.DataFrame(probs, columns=[f"p_{k}" for k in range(1, 6)])
    frame["item"], frame["system"] = [f"a{k}" for k in range(300)], np.where(np.arange(300) % 2, "new", "old")
    frame["person"] = np.where(np.arange(300) < 120, person, np.nan)
    frame.to_csv(folder / "graded.csv", index=False)
    frame.drop(columns="person").to_csv(folder / "new.csv", index=False)
    frame[["item", "person"]].dropna().to_csv(folder / "people.csv", index=False)
    votes = pd.DataFrame({"item": np.repeat(frame["item"], 3), "score": np.repeat(probs.argmax(1) + 1, 3)})
    votes.to_csv(folder / "votes.csv", index=False)
    return folder


def test_judge_fit_and_apply(folder):
    result = run("judge", "fit", "graded.csv", *BASIC, "--human", "person", *QUICK, "-o", "j.json", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "120 human grades" in result.stdout
    assert "180 of 300 items" in result.stdout
    assert json.loads((folder / "j.json").read_text())["file"] == "graded.csv"
    options = ("--rule", "median", "--max-error", "0.3", "-o", "o.csv")
    result = run("judge", "apply", "new.csv", "j.json", *BASIC, *options, cwd=folder)
    assert result.returncode == 0, result.stderr
    table, before = (pd.read_csv(folder / name) for name in ("o.csv", "new.csv"))
    pd.testing.assert_frame_equal(table[list(before)], before)  # every row and column is as it was
    assert table[[f"calibrated_{k}" for k in range(1, 6)]].sum(axis=1).to_numpy() == pytest.approx(1)
    assert set(table["decision"]) <= {1, 2, 3, 4, 5}
    assert (table["set_low"] <= table["decision"]).all()
    assert (table["decision"] <= table["set_high"]).all()


def test_judge_apply_takes_a_cost_matrix(folder):
    run("judge", "fit", "graded.csv", *BASIC, "--human", "person", *QUICK, "-o", "j.json", cwd=folder)
    levels = range(1, 6)
    rows = [f"{true}," + ",".join(str((true - chosen) ** 2) for chosen in levels) for true in levels]
    (folder / "squared.csv").write_text("\n".join(["true,1,2,3,4,5", *rows]) + "\n")
    (folder / "constant.csv").write_text("\n".join(["true,1,2,3,4,5", *(f"{k},0,1,1,1,1" for k in levels)]) + "\n")
    for rule in ("squared.csv", "mean", "constant.csv"):
        options = ("--rule", rule, "-o", f"{rule}.out.csv")
        result = run("judge", "apply", "new.csv", "j.json", *BASIC, *options, cwd=folder)
        assert result.returncode == 0, result.stderr
    decisions = {rule: pd.read_csv(folder / f"{rule}.out.csv")["decision"] for rule in ("squared.csv", "mean")}
    assert (decisions["squared.csv"] == decisions["mean"]).all()
    assert (pd.read_csv(folder / "constant.csv.out.csv")["decision"] == 1).all()


def test_judge_fit_reads_human_grades_from_another_file(folder):
    for name, files in (("one.json", ("graded.csv",)), ("two.json", ("new.csv", "--human-file", "people.csv"))):
        result = run("judge", "fit", *files, *BASIC, "--human", "person", *QUICK, "-o", name, cwd=folder)
        assert result.returncode == 0, result.stderr
    one, two = (json.loads((folder / name).read_text()) for name in ("one.json", "two.json"))
    assert one["held_probs"] == two["held_probs"]


def test_judge_read_writes_a_table_that_fit_can_read(folder):
    options = ("--grade", "score", "--levels", "1..5", "--item", "item", "-o", "v.csv")
    result = run("judge", "read", "votes.csv", *options, cwd=folder)
    assert result.returncode == 0, result.stderr
    table = pd.read_csv(folder / "v.csv")
    assert list(table.columns) == ["item", "judge", "n_1", "n_2", "n_3", "n_4", "n_5"]
    assert (table.filter(like="n_").sum(axis=1) == 3).all()
    again = ("--votes", "n_*", "--item", "item", "--judge", "judge", "--human-file", "people.csv", "--human", "person")
    result = run("judge", "fit", "v.csv", *again, *QUICK, "-o", "votes.json", cwd=folder)
    assert result.returncode == 0, result.stderr


def test_judge_report_escapes_the_name_of_the_judge(folder):
    frame = pd.read_csv(folder / "graded.csv").assign(who="<b>gpt</b>")
    frame.to_csv(folder / "bold.csv", index=False)
    options = ("--judge", "who", "--human", "person", *QUICK, "-o", "r.html")
    result = run("judge", "report", "bold.csv", *BASIC, *options, cwd=folder)
    assert result.returncode == 0, result.stderr
    page = (folder / "r.html").read_text()
    assert "bold.csv" in page
    assert page.count("<h2") >= 3
    assert "<svg" in page
    assert "<script" not in page
    assert "<b>gpt</b>" not in page
    assert "&lt;b&gt;gpt&lt;/b&gt;" in page


def test_judge_audit_tests_bias_within_and_between_items(folder):
    rng = np.random.default_rng(0)
    quality, columns = rng.uniform(2.2, 3.8, size=200), [f"p_{k}" for k in range(1, 6)]
    person = np.rint(quality + rng.normal(scale=0.7, size=200)).clip(1, 5).astype(int)
    tables = []
    for position, shift in (("first", 0.4), ("second", -0.4)):
        judge = quality + shift + rng.normal(scale=0.5, size=200)
        table = pd.DataFrame(geometry.probs(-4 * (np.arange(1, 6) - judge[:, None]) ** 2), columns=columns)
        tables.append(table.assign(item=range(200), position=position, person=person, answer="# yes"))
    pd.concat(tables).to_csv(folder / "swapped.csv", index=False)
    options = ("--human", "person", "--bias", "position", "--text", "answer", *QUICK, "--json", "a.json")
    result = run("judge", "audit", "swapped.csv", *BASIC, *options, cwd=folder, width=200)
    assert result.returncode == 0, result.stderr
    assert "Bias of judge: the error is lower by" in result.stdout
    assert "for position second than for first" in result.stdout
    assert "alpha (ordinal)" in result.stdout
    position, length, formatting = json.loads((folder / "a.json").read_text())["bias"]
    assert position["low"] < -0.8 < position["high"]
    assert position["n_clusters"] == 200
    assert length["note"] == formatting["note"] == "all entries of the column are equal"


def test_judge_pairs_writes_a_table_json_and_a_page(folder):
    rng = np.random.default_rng(0)
    rows = [
        {"prompt": prompt, "x": x, "y": y, "verdict": rng.choice(["A", "tie", "B"], p=shares)}
        for prompt in range(40)
        for x, y, shares in (("old", "new", [0.2, 0.3, 0.5]), ("new", "old", [0.5, 0.3, 0.2]))
    ]
    table = pd.DataFrame(rows)
    table["person"] = table["verdict"].where(table["prompt"] < 20)
    table.to_csv(folder / "pairs.csv", index=False)
    columns = ("--first", "x", "--second", "y", "--item", "prompt", "--grade", "verdict", "--levels", "A,tie,B")
    options = ("--human", "person", "--json", "p.json", "--report", "p.html", "-o", "p.csv")
    result = run("judge", "pairs", "pairs.csv", *columns, *options, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "position bias" in result.stdout
    ranking = json.loads((folder / "p.json").read_text())
    assert [row["system"] for row in ranking["systems"]] == ["new", "old"]
    assert "<svg" in (folder / "p.html").read_text()
    assert pd.read_csv(folder / "p.csv")[["p_A", "p_tie", "p_B"]].sum(axis=1).to_numpy() == pytest.approx(1)
    table.assign(x="new", y="old", verdict="A").to_csv(folder / "pairs.csv", index=False)
    failed = run("judge", "pairs", "pairs.csv", *columns, cwd=folder, width=300)
    assert_data_error(failed, "(old) loses all comparisons", "--probs")


def test_judge_compare_systems_writes_all_systems(folder):
    options = ("--human", "person", "--system", "system", *QUICK, "--json", "c.json", "--report", "c.html")
    result = run("judge", "compare-systems", "graded.csv", *BASIC, *options, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "old" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert "<svg" in (folder / "c.html").read_text()
    comparison = json.loads((folder / "c.json").read_text())
    assert {system["system"] for system in comparison["systems"]} == {"old", "new"}


def test_judge_compare_systems_warns_about_chosen_grades_and_reweights(folder):
    frame = pd.read_csv(folder / "graded.csv")
    rng = np.random.default_rng(0)
    expected = frame[[f"p_{k}" for k in range(1, 6)]].to_numpy() @ np.arange(1, 6)
    person = np.rint(expected - 0.5 + rng.normal(scale=0.7, size=300)).clip(1, 5)
    frame["person"] = np.where(rng.random(300) < expected / 6, person, np.nan)  # good answers are graded more often
    frame["kind"] = rng.choice(["a", "b"], size=300)
    frame.to_csv(folder / "chosen.csv", index=False)
    command = ("judge", "compare-systems", "chosen.csv", *BASIC, "--human", "person", "--system", "system", *QUICK)
    result = run(*command, "--graded-by", "kind", "--json", "chosen.json", cwd=folder, width=300)
    assert result.returncode == 0, result.stderr
    assert "The items with human grades are not a random part" in result.stderr
    assert "--reweight" in result.stderr
    comparison = json.loads((folder / "chosen.json").read_text())
    assert comparison["notes"][0].startswith("The items with human grades are not a random part")
    by_grade, by_kind = comparison["missingness"]
    assert by_grade["is_significant"]
    assert not by_kind["is_significant"]
    result = run(*command, "--reweight", cwd=folder, width=300)
    assert "Human grades are weighted by the inverse of the probability" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "check", "words"),
    [
        (("fit", "graded.csv", *BASIC, "-o", "x.json"), assert_data_error, ["--human:"]),
        (("fit", "graded.csv", "--item", "item", "--human", "person", "-o", "x.json"), assert_data_error, ["probs"]),
        (("fit", "votes.csv", "--grade", "score", "--item", "item", "-o", "x.json"), assert_data_error, ["--levels"]),
        (("fit", "nothing.csv", *BASIC, "-o", "x.json"), assert_usage_error, ["nothing.csv:"]),
        (("apply", "new.csv", "graded.csv", *BASIC, "-o", "x.csv"), assert_data_error, ["graded.csv"]),
        (("apply", "new.csv", "j.json", *BASIC, "--rule", "money", "-o", "x.csv"), assert_usage_error, ["'money'"]),
        (
            ("apply", "votes.csv", "j.json", "--grade", "score", "--item", "item", "-o", "x.csv"),
            assert_data_error,
            ["votes"],
        ),
    ],
)
def test_judge_errors(folder, arguments, check, words):
    run("judge", "fit", "graded.csv", *BASIC, "--human", "person", *QUICK, "-o", "j.json", cwd=folder)
    check(run("judge", *arguments, cwd=folder), *words)
    assert not (folder / "x.json").exists()


FIT = ("fit", "graded.csv", *BASIC, "--human", "person", *QUICK)
COMMANDS = {
    "fit": (*FIT, "-o", "full.json"),
    "apply": ("apply", "new.csv", "j.json", *BASIC, "-o", "full.csv"),
    "read": ("read", "votes.csv", "--grade", "score", "--levels", "1..5", "--item", "item", "-o", "full.csv"),
    "report": ("report", "graded.csv", *BASIC, "--human", "person", *QUICK, "-o", "full.html"),
    "compare-systems": (
        *("compare-systems", "graded.csv", *BASIC, "--human", "person", *QUICK),
        *("--system", "system", "--json", "full.json"),
    ),
}


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("fit", errno.ENOSPC),
        ("apply", errno.EROFS),
        ("read", errno.EROFS),
        ("compare-systems", errno.ENOSPC),
        pytest.param("report", errno.ENOSPC, marks=pytest.mark.slow),
    ],
)
def test_judge_full_disk_or_read_only_folder_is_a_usage_error(folder, monkeypatch, command, number):
    if command == "apply":
        assert run("judge", *FIT, "-o", "j.json", cwd=folder).returncode == 0

    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("orcu.io.files.tempfile.mkstemp", fail)
    files = sorted(folder.iterdir())
    result = run("judge", *COMMANDS[command], cwd=folder, width=300)
    assert_usage_error(result, "full.", "cannot be written", os.strerror(number))
    assert sorted(folder.iterdir()) == files


def test_judge_fit_says_that_a_scale_is_inverted(folder):
    frame = pd.read_csv(folder / "graded.csv")
    frame["person"] = 6 - frame["person"]
    frame.to_csv(folder / "inverted.csv", index=False)
    arguments = ("fit", "inverted.csv", *BASIC, "--human", "person", *QUICK, "-o", "i.json")
    result = run("judge", *arguments, cwd=folder, width=300)
    assert result.returncode == 0
    assert "judge: negative correlation with the human grades" in result.stdout
    assert "warning: judge: its grades fall as human grades rise" in result.stderr


def completion(item, text):
    return json.dumps({"custom_id": item, "model": "m\ud83d", "choices": [{"message": {"content": text}}]})


def test_judge_read_lists_ambiguous_replies_and_escapes_lone_surrogates(folder):
    lines = [completion(f"a{k}\udfff", "Step 2 is wrong, so 3") for k in range(12)]
    lines.append(json.dumps({"custom_id": "b\udfff", "error": {"message": "bad \udfff"}}))
    (folder / "log.jsonl").write_text("\n".join(lines))
    result = run("judge", "read", "log.jsonl", "--levels", "1..5", "-o", "log.csv", cwd=folder, width=200)
    assert result.returncode == 0, result.stderr
    assert "12 of 12 replies have several candidate grades" in result.stdout
    assert "ambiguous reply" in result.stdout
    assert "log.jsonl, line 10" in result.stdout
    assert "log.jsonl, line 11" not in result.stdout
    assert "and 2 more ambiguous replies" in result.stdout
    assert "bad \\udfff" in result.stdout
    assert pd.read_csv(folder / "log.csv")["item"][0] == "a0\\udfff"


def test_judge_commands_keep_names_as_texts(folder):
    frame = pd.read_csv(folder / "graded.csv")
    frame["item"] = [f"{10**19 + k}" for k in range(300)]
    frame["system"] = np.where(np.arange(300) % 2, "1.1", "1.10")
    frame.to_csv(folder / "numbers.csv", index=False)
    arguments = ("numbers.csv", *BASIC, "--human", "person", *QUICK)
    result = run("judge", "compare-systems", *arguments, "--system", "system", "--json", "n.json", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert {row["system"] for row in json.loads((folder / "n.json").read_text())["systems"]} == {"1.1", "1.10"}
    assert run("judge", "fit", *arguments, "-o", "n.json", cwd=folder).returncode == 0
    assert json.loads((folder / "n.json").read_text())["items"][0] == str(10**19)


def test_judge_columns_that_do_not_name_the_levels_are_refused_with_the_mapping(folder):
    frame = pd.read_csv(folder / "graded.csv").rename(columns={f"p_{k}": f"p_{k - 1}" for k in range(1, 6)})
    frame.to_csv(folder / "shifted.csv", index=False)
    options = ("--item", "item", "--human", "person", "--levels", "1..5", *QUICK, "-o", "s.json")
    result = run("judge", "fit", "shifted.csv", "--probs", "p_*", *options, cwd=folder, width=400)
    assert_data_error(result, "1 = p_0, 2 = p_1", "--probs p_0,p_1,p_2,p_3,p_4")
    result = run("judge", "fit", "shifted.csv", "--probs", "p_0,p_1,p_2,p_3,p_4", *options, cwd=folder, width=400)
    assert result.returncode == 0, result.stderr
    assert "levels, lowest first: 1 (p_0), 2 (p_1)" in result.stdout


@pytest.mark.slow
def test_judge_fit_killed_at_any_time_loses_nothing(folder):
    """Twenty kills at times spread over a run: the earlier panel stays complete, and no input changes."""
    start = time.monotonic()
    assert run_process("judge", *FIT, "-o", "kill.json", cwd=folder).returncode == 0
    duration = time.monotonic() - start
    content, inputs = (folder / "kill.json").read_bytes(), (folder / "graded.csv").read_bytes()
    rng, killed = np.random.default_rng(0), 0
    for delay in rng.permutation(np.linspace(0.3, 1.05, 20)) * duration:
        process = subprocess.Popen(
            [ORCU, "judge", *FIT, "-o", "kill.json"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=delay)
        process.kill()
        killed += process.wait() == -signal.SIGKILL
        assert (folder / "kill.json").read_bytes() == content
        assert (folder / "graded.csv").read_bytes() == inputs
    assert killed
    result = run("judge", "apply", "new.csv", "kill.json", *BASIC, "-o", "kill.csv", cwd=folder)
    assert result.returncode == 0, result.stderr


def _log_of(name, folder):
    """A log with the grades of `judge_logs.grades` in a format, and options to read it."""
    judge, person = example.grades()
    unit = [(grade - 1) / 4 for grade in judge]
    scaled, items = ["--scale", "0..1"], [str(k) for k in range(len(judge))]
    if name == "records":
        lines = [{"id": item, "score": grade} for item, grade in zip(items, judge, strict=True)]
        return example.write_lines(folder / "log.jsonl", lines), ["--grade", "score"]
    if name == "promptfoo":
        results = [example.promptfoo_result(k, score, vars={"id": k}) for k, score in enumerate(unit)]
        path = example.write_json(folder / "results.json", example.promptfoo_output(results))
        return path, [*scaled, "--item", "vars.id"]
    if name == "deepeval":
        cases = [{**example.deepeval_case(k, score), "name": str(k)} for k, score in enumerate(unit)]
        return example.write_json(folder / "run.json", example.deepeval_run(cases)), scaled
    if name == "lm-eval":
        samples = [example.lm_eval_sample(k, grade) for k, grade in enumerate(judge)]
        return example.write_lines(folder / "samples_task.jsonl", samples), []
    if name == "mlflow":
        traces = [
            example.mlflow_trace(k, example.assessment("q", a), example.assessment("q", b, "HUMAN", "ann"))
            for k, (a, b) in enumerate(zip(judge, person, strict=True))
        ]
        return example.write_lines(folder / "traces.jsonl", traces), []
    replies = {
        "chat": lambda text: {"response": {"body": example.chat_completion(text)}},
        "responses": lambda text: {"response": {"body": example.openai_response(text)}},
        "anthropic": lambda text: {"result": {"type": "succeeded", "message": example.anthropic_message(text)}},
    }
    lines = [{"custom_id": item, **replies[name](f"Score: {grade}")} for item, grade in zip(items, judge, strict=True)]
    return example.write_lines(folder / "batch.jsonl", lines), ["--item", "custom_id"]


@pytest.mark.parametrize(
    "name", ["records", "chat", "responses", "anthropic", "promptfoo", "deepeval", "lm-eval", "mlflow"]
)
def test_judge_fit_reads_every_format_and_says_what_it_recognised(tmp_path, name):
    path, options = _log_of(name, tmp_path)
    key = options[options.index("--item") + 1] if "--item" in options else "id"
    people = pd.DataFrame({key: range(example.N_ITEMS), "grade": example.grades()[1]})
    people.to_csv(tmp_path / "people.csv", index=False)
    human = ["--human-file", tmp_path / "people.csv", "--human", "grade", "--item", key] if name != "mlflow" else []
    options = [option for option in options if option not in ("--item", key)]
    done = run("judge", "fit", path, "--levels", "1..5", *options, *human, *QUICK, "-o", tmp_path / "judge.json")
    assert done.returncode == 0, done.stderr
    assert "grades in" in done.stdout
    assert f"fitted on {example.N_ITEMS} human grades of {example.N_ITEMS} items" in done.stdout
    assert JudgePanel.load(tmp_path / "judge.json").n_items_ == example.N_ITEMS
