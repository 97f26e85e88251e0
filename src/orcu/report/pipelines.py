"""What a pipeline reads: Markdown and workflow commands for GitHub, JUnit's XML for the others."""

import re
import secrets
from collections.abc import Sequence
from xml.etree import ElementTree

from orcu.evaluation.evaluation import Evaluation, shown_value
from orcu.evaluation.gates import Gate
from orcu.evaluation.printed import ARROWS, shown_interval
from orcu.io.text import markdown, markdown_text
from orcu.metrics.base import METRICS
from orcu.report.headline import headline, next_step, verdict

OF_GROUPS = ("accuracy", "mae", "ece", "sce", "unimodality")
MARKS = {"beyond chance": " ✗", "within chance": " ✓", "": ""}
# What XML 1.0 does not let stand in a document, however it is written.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def summary(evaluation: Evaluation, gates: Sequence[Gate]) -> str:
    """An evaluation and its gates in GitHub's Markdown, for the page of a job."""
    warnings = [note for note in evaluation.notes if note.startswith("WARNING")]
    sentences = [
        markdown_text(sentence) for sentence in (*warnings, *headline(evaluation), next_step(evaluation)) if sentence
    ]
    blocks = [f"### orcu evaluate: {markdown_text(evaluation.name)}\n", "\n\n".join(sentences) + "\n"]
    if gates:
        rows = [
            [gate.text, "✗ tripped" if gate.trips(evaluation) else "✓ passed", gate.reason(evaluation)]
            for gate in gates
        ]
        blocks.append(markdown(["gate", "", "value"], rows, "llr"))
    blocks.append(evaluation.to_markdown())
    if evaluation.groups:
        headings, rows = group_table(evaluation)
        blocks.append(markdown(headings, rows, "l" + "r" * (len(headings) - 1)))
    return "\n".join(blocks)


def group_table(evaluation: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the groups side by side; a mark says whether chance explains a binned error.

    Over-confidence has its interval, since those of two groups may cancel out in what is said of all rows.
    """
    metrics = [METRICS.get(name) for name in OF_GROUPS]
    names = [f"{metric.name} {ARROWS[metric.better]}".strip() for metric in metrics]
    gap, rows = METRICS.get("overconfidence"), []
    for name, group in evaluation.groups.items():
        estimate = group.metrics[gap.name]
        interval = shown_interval(estimate.low, estimate.high, percent=True, signed=True)
        values = [shown_value(group, metric) + MARKS[verdict(group, metric.name)] for metric in metrics]
        rows.append([name, f"{group.rows:,}", shown_value(group, gap), interval, *values])
    return ["group", "rows", gap.name, "95 % interval", *names], rows


def github(evaluation: Evaluation, gates: Sequence[Gate]) -> str:
    """What the log of a GitHub job shows: the summary, and a workflow command for each gate.

    A tripped gate becomes an error of the job, one that passed a notice. Names in the summary are not taken for
    commands, whatever they are: the runner is told to read none until a word that nobody can know.
    """
    stop = secrets.token_hex(16)
    lines = [f"::stop-commands::{stop}", summary(evaluation, gates), f"::{stop}::"]
    for gate in gates:
        kind, what = ("error", "tripped") if gate.trips(evaluation) else ("notice", "passed")
        lines.append(_command(kind, f"gate {what}", f"{evaluation.name}: {gate.text} ({gate.reason(evaluation)})"))
    return "\n".join(lines) + "\n"


def _command(kind: str, title: str, message: str) -> str:
    r"""A workflow command, with what would end it or its parts written out.

    Example:
        >>> _command("error", "a, b: c", "100 %\nof it")
        '::error title=a%2C b%3A c::100 %25%0Aof it'
    """
    text = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    name = title.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A").replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={name}::{text}"


def junit(evaluation: Evaluation, gates: Sequence[Gate]) -> str:
    """JUnit's XML: a test case for each gate, which fails where the gate trips; the tables are its output.

    Without gates there is one case that passes, ``judged``: a suite without cases counts as broken in most pipelines.
    """
    tripped = [gate for gate in gates if gate.trips(evaluation)]
    counts = {"tests": str(len(gates) or 1), "failures": str(len(tripped)), "errors": "0", "skipped": "0"}
    name = _xml(evaluation.name)
    suite = ElementTree.Element("testsuite", {"name": f"orcu evaluate: {name}", **counts})
    for gate in gates:
        case = ElementTree.SubElement(suite, "testcase", {"classname": name, "name": gate.text})
        if gate in tripped:
            reason = gate.reason(evaluation)
            failure = ElementTree.SubElement(case, "failure", {"type": "gate", "message": reason})
            failure.text = f"--fail-if {gate.text!r}: {reason}"
    if not gates:
        ElementTree.SubElement(suite, "testcase", {"classname": name, "name": "judged"})
    ElementTree.SubElement(suite, "system-out").text = _xml(summary(evaluation, gates))
    ElementTree.indent(suite)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suite, encoding="unicode")}\n'


def _xml(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
