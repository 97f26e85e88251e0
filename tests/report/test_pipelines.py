"""Tests of the output for pipelines with names that contain markup and commands."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from markdown_it import MarkdownIt

from orcu import Predictions, evaluate
from orcu.evaluation.gates import Gate
from orcu.report import pipelines

GATES = [Gate.parse(text) for text in ("sce>0.01", "mae.high>2", "accuracy < 0.1")]
HOSTILE = "a|b\n::error::x ##[error] <b>&\x00\x1b 100 %"


@pytest.fixture(scope="module")
def evaluation(ordinal_sample):
    logits, y = ordinal_sample(200, 3, sharpen=4)
    classes = ["::warning::x", "<script>", "]]>"]
    predictions = Predictions(logits=logits, codes=y, classes=classes, subgroup=["::stop-commands::y", "*s*"] * 100)
    return evaluate(predictions, name=HOSTILE, n_resamples=50)


def runner_commands(log):
    """Commands that GitHub's runner would execute, parsed like its own parser."""
    commands, stop = [], None
    for line in log.split("\n"):
        command = re.match(r"::([^: ]+)(?: (.*?))?::(.*)$", line.lstrip())
        old = re.search(r"##\[(\w+)\](.*)", line)
        if stop is not None:
            if command and command[1] == stop:
                stop = None
        elif command and command[1] == "stop-commands":
            stop = command[3]
        elif command:
            commands.append(command.groups())
        elif old:
            commands.append((old[1], None, old[2]))
    assert stop is None
    return commands


def test_github_writes_one_command_per_gate_and_none_from_names(evaluation):
    log = pipelines.github(evaluation, GATES)
    errors, *notices = runner_commands(log)
    assert errors[:2] == ("error", "title=gate failed")
    assert [notice[:2] for notice in notices] == [("notice", "title=gate passed")] * 2
    value = evaluation["sce"].value
    assert errors[2] == f"{HOSTILE}: sce>0.01 (sce = {value:.4g})".replace("%", "%25").replace("\n", "%0A")
    assert pipelines.github(evaluation, []) != pipelines.github(evaluation, [])  # the token is random


def test_summary_contains_tables_with_escaped_names(evaluation):
    html = MarkdownIt("commonmark").enable("table").render(pipelines.summary(evaluation, GATES))
    assert html.count("<table>") == 3  # gates, metrics, subgroups
    assert html.count("✗ failed") == 1
    assert html.count("✓ passed") == 2
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "::stop-commands::y" in html
    assert "<td>*s*</td>" in html
    assert "Over-confident by" in html


def test_junit_has_a_case_for_each_gate(evaluation):
    suite = ElementTree.fromstring(pipelines.junit(evaluation, GATES).encode())
    assert suite.tag == "testsuite"
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "0",
    }
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == ["sce>0.01", "mae.high>2", "accuracy < 0.1"]
    assert [case.find("failure") is not None for case in cases] == [True, False, False]
    failure = cases[0].find("failure")
    assert failure.get("message") == f"sce = {evaluation['sce'].value:.4g}"
    assert "sce>0.01" in failure.text
    assert "::warning::x" in suite.find("system-out").text
    assert "�� 100 %" in suite.get("name")  # characters that XML does not allow


def test_junit_undefined_value_fails_its_case():
    evaluation = evaluate(probs=[[0.6, 0.4], [0.4, 0.6], [0.3, 0.7]], y=[0, 1, 1], n_resamples=0)
    suite = ElementTree.fromstring(pipelines.junit(evaluation, [Gate.parse("sce.low>0.05")]))
    assert suite.get("failures") == "1"
    assert suite.find("testcase/failure").get("message") == "sce.low is not defined"


def test_junit_without_gates_has_one_passing_case(evaluation):
    suite = ElementTree.fromstring(pipelines.junit(evaluation, []).encode())
    assert [case.get("name") for case in suite.findall("testcase")] == ["evaluated"]
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")
    assert runner_commands(pipelines.github(evaluation, [])) == []


def test_subgroup_table_marks_calibration_errors(evaluation):
    headings, rows = pipelines.subgroup_table(evaluation)
    assert headings[:5] == ["subgroup", "rows", "overconfidence", "95 % interval", "accuracy ↑"]
    assert [row[:2] for row in rows] == [["*s*", "100"], ["::stop-commands::y", "100"]]
    assert np.array([row[6].endswith((" ✗", " ✓")) for row in rows]).all()
