"""What pipelines read: no name of a class or group can end a table, a workflow command or the XML."""

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
    predictions = Predictions(logits=logits, codes=y, classes=classes, group=["::stop-commands::y", "*s*"] * 100)
    return evaluate(predictions, name=HOSTILE, bootstrap=50)


def runner_commands(log):
    """The commands that GitHub's runner would carry out, line by line, as its own parser reads them."""
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


def test_each_gate_is_one_command_and_names_are_none(evaluation):
    log = pipelines.github(evaluation, GATES)
    errors, *notices = runner_commands(log)
    assert errors[:2] == ("error", "title=gate tripped")
    assert [notice[:2] for notice in notices] == [("notice", "title=gate passed")] * 2
    value = evaluation["sce"].value
    assert errors[2] == f"{HOSTILE}: sce>0.01 (sce = {value:.4g})".replace("%", "%25").replace("\n", "%0A")
    assert pipelines.github(evaluation, []) != pipelines.github(evaluation, [])  # nobody knows the word


def test_the_summary_is_tables_that_hold_what_was_judged(evaluation):
    html = MarkdownIt("commonmark").enable("table").render(pipelines.summary(evaluation, GATES))
    assert html.count("<table>") == 3  # gates, metrics, groups
    assert html.count("✗ tripped") == 1
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
    assert "�� 100 %" in suite.get("name")  # what XML does not allow


def test_a_value_that_is_not_defined_fails_its_case():
    evaluation = evaluate(probs=[[0.6, 0.4], [0.4, 0.6], [0.3, 0.7]], y=[0, 1, 1], bootstrap=0)
    suite = ElementTree.fromstring(pipelines.junit(evaluation, [Gate.parse("sce.low>0.05")]))
    assert suite.get("failures") == "1"
    assert suite.find("testcase/failure").get("message") == "sce.low is not defined"


def test_without_gates_one_case_says_that_it_was_judged(evaluation):
    suite = ElementTree.fromstring(pipelines.junit(evaluation, []).encode())
    assert [case.get("name") for case in suite.findall("testcase")] == ["judged"]
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")
    assert runner_commands(pipelines.github(evaluation, [])) == []


def test_groups_stand_side_by_side_with_their_marks(evaluation):
    headings, rows = pipelines.group_table(evaluation)
    assert headings[:5] == ["group", "rows", "overconfidence", "95 % interval", "accuracy ↑"]
    assert [row[:2] for row in rows] == [["*s*", "100"], ["::stop-commands::y", "100"]]
    assert np.array([row[6].endswith((" ✗", " ✓")) for row in rows]).all()
