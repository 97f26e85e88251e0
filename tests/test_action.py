"""The GitHub Action: its steps, run in bash as the runner does, with ordinary and hostile inputs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from command import run

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
INSTALL, EVALUATE = ACTION["runs"]["steps"]
INPUT = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")
SHELL = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]  # as the runner starts it
RECORDED = """printf '%s\\0' "$@" > arguments; exit 3"""  # stands for orcu; stores its arguments
CLASSES = ["none", "mild", "severe"]


@pytest.fixture(scope="module")
def predictions():
    rng = np.random.default_rng(0)
    logits = -((np.arange(3) - rng.uniform(-0.5, 2.5, size=(90, 1))) ** 2)
    truth = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random((90, 1)) > truth.cumsum(1)[:, :-1]).sum(1)
    sharp = np.exp(4 * logits)
    frame = pd.DataFrame(sharp / sharp.sum(1, keepdims=True), columns=[f"p_{name}" for name in CLASSES])
    return frame.assign(grade=np.array(CLASSES)[y])


@pytest.fixture
def job(tmp_path, predictions):
    """Run the action in a new folder: returns the process, the job summary and the outputs."""
    work, runner = tmp_path / "work", tmp_path / "runner"
    work.mkdir()
    predictions.to_parquet(work / "preds.parquet")

    def run(*, orcu=f'exec "{sys.executable}" -m orcu "$@"', **inputs):
        installed = runner / "orcu" / "bin" / "orcu"  # installed by the first step
        installed.parent.mkdir(parents=True, exist_ok=True)
        installed.write_text(f"#!/bin/sh\n{orcu}\n")
        installed.chmod(0o755)
        values = {name: about.get("default", "") for name, about in ACTION["inputs"].items()}
        values |= {name.replace("_", "-"): value for name, value in inputs.items()}
        variables = {name: values[INPUT.fullmatch(text)[1]] for name, text in EVALUATE["env"].items()}
        page, outputs, script = tmp_path / "summary.md", tmp_path / "outputs", tmp_path / "step.sh"
        page.write_text("# before\n")
        outputs.write_text("")
        script.write_text(EVALUATE["run"])
        settings = {"GITHUB_STEP_SUMMARY": page, "GITHUB_OUTPUT": outputs, "RUNNER_TEMP": runner}
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")} | variables
        environment |= {name: str(path) for name, path in settings.items()}
        done = subprocess.run([*SHELL, script], cwd=work, env=environment, capture_output=True, text=True, check=False)
        return done, page.read_text(), read_outputs(outputs.read_text())

    run.work = work
    return run


def read_outputs(text):
    """Parse GITHUB_OUTPUT as the runner does: name=value, or name<<END and lines up to END."""
    outputs, lines = {}, iter(text.splitlines())
    for line in lines:
        name, sign, rest = re.match(r"([^=<]+)(=|<<)(.*)", line).groups()
        outputs[name] = rest if sign == "=" else "\n".join(iter(lambda: next(lines), rest))
    return outputs


@pytest.mark.slow
def test_action_passed_gate_writes_summary_and_outputs(job):
    done, page, outputs = job(
        predictions="preds.parquet", label="grade", probs="p_*", classes="none,mild,severe", fail_if="accuracy<0.1"
    )
    assert done.returncode == 0, done.stderr
    assert page.startswith("# before\n### orcu evaluate: preds")
    assert "| accuracy\\<0.1 | ✓ passed |" in page
    assert "::notice title=gate passed::preds: accuracy<0.1" in done.stdout
    assert outputs == {"report": "orcu-report.html", "json": "", "exit-code": "0"}
    assert "<html" in (job.work / "orcu-report.html").read_text()


@pytest.mark.slow
def test_action_failed_gate_exits_with_4_and_sets_outputs(job):
    gates = "sce>0.05\n\n  mae.high>2\noverconfidence.low > 0.01"
    done, page, outputs = job(
        predictions="preds.parquet\n", label="grade", probs="p_*", fail_if=gates, json="numbers.json", report=""
    )
    assert done.returncode == 4, done.stderr
    assert len(re.findall("::error title=gate [a-z]+::", done.stdout)) == 2
    assert page.count("| ✗ ") == 2
    assert page.count("✓ passed") == 1
    assert outputs == {"report": "", "json": "numbers.json", "exit-code": "4"}


@pytest.mark.slow
def test_action_passes_on_exit_codes_of_errors(job):
    done, page, outputs = job(predictions="preds.parquet", label="mark", probs="p_*")
    assert (done.returncode, outputs["exit-code"], outputs["report"]) == (3, "3", "")
    assert "'mark'" in done.stderr
    assert page == "# before\n"
    assert job(predictions="absent.parquet")[0].returncode == 2
    assert job(predictions="")[0].returncode == 2


@pytest.mark.parametrize(
    "nasty",
    [
        "$(touch pwned)",
        "`touch pwned`",
        "; touch pwned #",
        '" && touch pwned && "',
        "' ; touch pwned; '",
        "--help",
        "-x",
        " a  b ",
        "*",
        "%0A::error::x",
        "${HOME}",
        "\\",
    ],
)
def test_action_passes_inputs_unchanged_and_never_runs_them(nasty, job):
    names = [name for name in ACTION["inputs"] if name != "predictions"]
    done, _, outputs = job(orcu=RECORDED, predictions=nasty, **dict.fromkeys(names, nasty))
    assert done.returncode == 3
    assert outputs == {"report": "", "json": "", "exit-code": "3"}
    assert done.stdout + done.stderr == ""
    arguments = (job.work / "arguments").read_text().split("\0")[:-1]
    assert arguments[:2] == ["evaluate", "--format=github"]
    assert arguments[-2:] == ["--", nasty]
    assert sorted(arguments[2:-2]) == sorted(f"--{name}={nasty}" for name in names)
    assert sorted(path.name for path in job.work.iterdir()) == ["arguments", "preds.parquet"]


def test_action_omits_empty_inputs_and_splits_lines(job):
    job(orcu=RECORDED, predictions="\na.parquet\nb c.parquet\n", fail_if="sce>0.05\n\nmae>1", report="")
    arguments = (job.work / "arguments").read_text().split("\0")[:-1]
    assert arguments == [
        *("evaluate", "--format=github", "--fail-if=sce>0.05", "--fail-if=mae>1"),
        *("--", "a.parquet", "b c.parquet"),
    ]


@pytest.mark.parametrize("name", ["it's $HOME; x.html", "two\nlines=1.html", '"quoted" {a,b}.html', "-n"])
def test_action_sets_unusual_paths_as_outputs_unchanged(name, job):
    (job.work / name).touch()
    _, _, outputs = job(orcu="exit 0", predictions="preds.parquet", report=name)
    assert outputs == {"report": name, "json": "", "exit-code": "0"}


@pytest.mark.slow
def test_action_values_that_look_like_options_are_values(job):
    done, _, _ = job(predictions="preds.parquet", label="--help", probs="p_*", report="")
    assert done.returncode == 3
    assert "'--help'" in done.stderr


@pytest.mark.slow
def test_action_compares_several_models(job, predictions):
    predictions.to_parquet(job.work / "the other.parquet")
    done, page, _ = job(predictions="preds.parquet\nthe other.parquet", label="grade", probs="p_*", report="")
    assert done.returncode == 0, done.stderr
    assert "**preds minus the other**" in page


def test_action_scripts_have_no_expressions_and_inputs_are_options_of_evaluate():
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"
    assert {INPUT.fullmatch(text)[1] for text in EVALUATE["env"].values()} == set(ACTION["inputs"])
    options = re.findall(r"--([\w-]+)", run("evaluate", "--help", width=200).stdout)
    assert set(ACTION["inputs"]) - {"predictions"} <= set(options)


def test_action_installs_the_checkout_in_a_separate_environment(tmp_path):
    calls = tmp_path / "calls"
    fake = tmp_path / "bin" / "python3"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/sh\necho "$@" >> {calls}\nif [ "$2" = venv ]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; fi\n'
    )
    fake.chmod(0o755)
    environment = {
        "PATH": f"{fake.parent}:{os.environ['PATH']}",
        "RUNNER_TEMP": str(tmp_path / "a b"),
        "GITHUB_ACTION_PATH": str(ROOT),
    }
    subprocess.run([*SHELL, "-c", INSTALL["run"]], env=environment, check=True, cwd=tmp_path)
    assert calls.read_text().splitlines() == [f"-m venv {tmp_path / 'a b'}/orcu", f"-m pip install --quiet {ROOT}"]
