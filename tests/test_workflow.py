"""The workflow of the repository and the hooks run targets of the Makefile, and nothing else."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))


def test_workflow_runs_only_targets_of_the_makefile():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    commands = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert all(re.fullmatch(r"make [a-z-]+", command) for command in commands)
    assert {command.removeprefix("make ") for command in commands} <= TARGETS
    assert {"make check", "make test", "make test-slow"} <= set(commands)


def test_hooks_run_a_target_of_the_makefile():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    assert [hook["entry"] for hook in hooks] == ["make check"]


def test_issue_forms_have_the_fields_that_are_shown():
    for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert form["name"]
        assert form["description"]
        assert all(field["type"] and field["attributes"]["label"] for field in form["body"])
