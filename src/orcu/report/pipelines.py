"""Output for pipelines: Markdown and workflow commands for GitHub, JUnit XML for others."""

import re
import secrets
from collections.abc import Sequence
from xml.etree import ElementTree

from orcu.evaluation.evaluation import Evaluation, format_metric, format_metric_interval
from orcu.evaluation.findings import NOT_SIGNIFICANT, SIGNIFICANT, findings
from orcu.evaluation.formatting import ARROWS
from orcu.evaluation.gates import Gate
from orcu.metrics.base import METRICS
from orcu.report.headline import headline, next_step
from orcu.report.text_tables import escape_markdown, markdown

SUBGROUP_METRICS = ("accuracy", "mae", "ece", "sce", "unimodality")
MARKS = {SIGNIFICANT: " ✗", NOT_SIGNIFICANT: " ✓", "": ""}
_INVALID_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # not allowed in XML 1.0


def summary(evaluation: Evaluation, gates: Sequence[Gate]) -> str:
    """Evaluation and gates as GitHub Markdown, for the summary of a job."""
    warnings = [note for note in evaluation.notes if note.startswith("WARNING")]
    sentences = [
        escape_markdown(sentence) for sentence in (*warnings, *headline(evaluation), next_step(evaluation)) if sentence
    ]
    blocks = [f"### orcu evaluate: {escape_markdown(evaluation.name)}\n", "\n\n".join(sentences) + "\n"]
    if gates:
        rows = [
            [gate.text, "✗ failed" if gate.fails(evaluation) else "✓ passed", gate.reason(evaluation)] for gate in gates
        ]
        blocks.append(markdown(["gate", "", "value"], rows, "llr"))
    blocks.append(evaluation.to_markdown())
    if evaluation.subgroups:
        headings, rows = subgroup_table(evaluation)
        blocks.append(markdown(headings, rows, "l" + "r" * (len(headings) - 1)))
    return "\n".join(blocks)


def subgroup_table(evaluation: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of a table of the subgroups; significant calibration errors are marked.

    Over-confidence has its interval, since that of two subgroups may cancel out over all rows.
    """
    metrics = [METRICS.get(name) for name in SUBGROUP_METRICS]
    names = [f"{metric.name} {ARROWS[metric.better]}".strip() for metric in metrics]
    gap, rows, results = METRICS.get("overconfidence"), [], findings(evaluation)
    for name, part in evaluation.subgroups.items():
        marks = (MARKS[results.subgroups[name].significance(metric.name)] for metric in metrics)
        values = [format_metric(part, metric) + mark for metric, mark in zip(metrics, marks, strict=True)]
        interval = format_metric_interval(part, gap)
        rows.append([name, f"{part.rows:,}", format_metric(part, gap), interval, *values])
    return ["subgroup", "rows", gap.name, "95 % interval", *names], rows


def github(evaluation: Evaluation, gates: Sequence[Gate]) -> str:
    """Log of a GitHub job: the summary, and a workflow command for each gate.

    A failed gate is an error of the job, a passed gate a notice. Workflow commands are disabled within the summary,
    until an unpredictable token, so that no name in it is executed as one.
    """
    token = secrets.token_hex(16)
    lines = [f"::stop-commands::{token}", summary(evaluation, gates), f"::{token}::"]
    for gate in gates:
        kind, outcome = ("error", "failed") if gate.fails(evaluation) else ("notice", "passed")
        lines.append(_command(kind, f"gate {outcome}", f"{evaluation.name}: {gate.text} ({gate.reason(evaluation)})"))
    return "\n".join(lines) + "\n"


def _command(kind: str, title: str, message: str) -> str:
    r"""Workflow command with its special characters escaped.

    Example:
        >>> _command("error", "a, b: c", "100 %\nof it")
        '::error title=a%2C b%3A c::100 %25%0Aof it'
    """

    def escape(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    return f"::{kind} title={escape(title).replace(':', '%3A').replace(',', '%2C')}::{escape(message)}"


def junit(evaluation: Evaluation, gates: Sequence[Gate]) -> str:
    """JUnit XML: a test case for each gate, which fails if the gate fails; the summary is the output.

    Without gates there is one case that passes, ``evaluated``: most pipelines report a suite without cases as broken.
    """
    failed = [gate for gate in gates if gate.fails(evaluation)]
    counts = {"tests": str(len(gates) or 1), "failures": str(len(failed)), "errors": "0", "skipped": "0"}
    name = _one_line(evaluation.name)
    suite = ElementTree.Element("testsuite", {"name": f"orcu evaluate: {name}", **counts})
    for gate in gates:
        case = ElementTree.SubElement(suite, "testcase", {"classname": name, "name": _one_line(gate.text)})
        if gate in failed:
            reason = _one_line(gate.reason(evaluation))
            failure = ElementTree.SubElement(case, "failure", {"type": "gate", "message": reason})
            failure.text = f"--fail-if {gate.text!r}: {reason}"
    if not gates:
        ElementTree.SubElement(suite, "testcase", {"classname": name, "name": "evaluated"})
    ElementTree.SubElement(suite, "system-out").text = _valid_xml(summary(evaluation, gates))
    ElementTree.indent(suite)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suite, encoding="unicode")}\n'


def _one_line(text: str) -> str:
    """Name for XML on one line: a line break in it could start a workflow command."""
    return " ".join(_valid_xml(text).split())


def _valid_xml(text: str) -> str:
    return _INVALID_XML.sub("\N{REPLACEMENT CHARACTER}", text)
