"""The items of the TRIPOD+AI checklist that an evaluation answers, filled with its numbers.

TRIPOD+AI is the reporting guideline for studies of prediction models (Collins et al., BMJ 2024;385:e078378). The
numbers of the items are those of its checklist of 11 January 2024; the texts are those of orcu.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import orcu
from orcu.decisions.rules import RULES
from orcu.errors import InputError
from orcu.evaluation.evaluation import Evaluation, format_metric, format_metric_interval
from orcu.evaluation.findings import findings
from orcu.evaluation.formatting import format_interval, format_value
from orcu.metrics.base import METRICS
from orcu.report.headline import headline, next_step
from orcu.report.page import Provenance, render_page
from orcu.report.pdf import write_page
from orcu.report.text_tables import escape_markdown, html, markdown
from orcu.resampling import Estimate

SUFFIXES = (".md", ".html", ".htm")
STATED = ("accuracy", "mae", "qwk", "rps", "brier", "nll", "overconfidence", "ece", "sce", "threshold_ce")
BY_SUBGROUP = ("accuracy", "mae", "rps", "overconfidence")
OTHER_ITEMS = (
    "1 to 4 (title, abstract, background, objectives), 5a to 6c (data, participants), 7 (data preparation), 8b and 8c "
    "(assessment of the outcome), 9a to 9c (predictors), 12a to 12c (development), 13 (class imbalance), 16 (training "
    "versus evaluation), 17 (ethical approval), 18a to 18e (open science), 19 (patient and public involvement), 20c "
    "(comparison with the development data), 22 (model specification) and 27a to 27c (usability)"
)
HEADINGS = ["item", "topic", "from this evaluation", "to be filled by the authors"]


@dataclass(frozen=True)
class ChecklistItem:
    """An item of TRIPOD+AI: what the evaluation says, and what only the authors can say."""

    number: str
    topic: str
    answer: str
    missing: str


def checklist(evaluation: Evaluation, provenance: Provenance | None = None) -> list[ChecklistItem]:
    """Items of TRIPOD+AI that the evaluation answers at least in part, in the order of the checklist.

    Example:
        >>> probs = [[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7], [0.5, 0.4, 0.1]]
        >>> items = checklist(orcu.evaluate(probs=probs, y=[0, 1, 2, 1], n_resamples=100))
        >>> items[0].number, items[0].topic, items[0].answer
        ('8a', 'Outcome', '3 ordered classes, lowest first: 0, 1, 2.')
    """
    return [
        ChecklistItem(number, topic, answer(evaluation, provenance or Provenance()), missing)
        for number, topic, answer, missing in _ITEMS
    ]


def write_checklist(evaluation: Evaluation, path: str | os.PathLike[str], provenance: Provenance | None = None) -> None:
    """Write the checklist as Markdown or HTML, chosen by the suffix.

    Raises:
        InputError: if the suffix is neither .md nor .html.
    """
    check_suffix(path)
    items = [[item.number, item.topic, item.answer, item.missing] for item in checklist(evaluation, provenance)]
    title = f"TRIPOD+AI checklist: {evaluation.name}"
    about = (
        "Items of the reporting guideline TRIPOD+AI (Collins et al., BMJ 2024;385:e078378) that this evaluation "
        f"answers at least in part. To be filled by the authors alone: items {OTHER_ITEMS}."
    )
    if Path(path).suffix.lower() == ".md":
        text = f"# {escape_markdown(title)}\n\n{escape_markdown(about)}\n\n{markdown(HEADINGS, items, 'llll')}"
    else:
        text = render_page("checklist.html.j2", title=title, about=about, table=html(HEADINGS, items))
    write_page(text, path)


def check_suffix(path: str | os.PathLike[str]) -> None:
    """Raise `InputError` unless a checklist can be written to the path."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: a checklist is written as .md or .html; choose a name with one of these endings.")


def _outcome(evaluation: Evaluation, provenance: Provenance) -> str:
    return f"{len(evaluation.classes)} ordered classes, lowest first: {', '.join(evaluation.classes)}."


def _sample_size(evaluation: Evaluation, provenance: Provenance) -> str:
    clusters = "" if evaluation.clusters is None else f" of {evaluation.clusters:,} clusters"
    few = findings(evaluation).failures.few_rows
    listed = f" Too few rows to assess: {', '.join(few)}." if few else ""
    return f"{evaluation.rows:,} rows{clusters}. By class: {_class_counts(evaluation)}.{listed}"


def _class_counts(evaluation: Evaluation) -> str:
    labels = evaluation.sums.confusion.sum(1)
    if evaluation.weighted:
        shares = [format_value(float(count / labels.sum()), percent=True) for count in labels]
    else:
        shares = [f"{count:,.10g}" for count in labels.tolist()]
    return ", ".join(f"{name}: {share}" for name, share in zip(evaluation.classes, shares, strict=True))


def _missing_data(evaluation: Evaluation, provenance: Provenance) -> str:
    return "Every evaluated row has a prediction and a label; no row was left out by the evaluation."


def _heterogeneity(evaluation: Evaluation, provenance: Provenance) -> str:
    parts = []
    if evaluation.clusters is not None:
        parts.append(
            f"{evaluation.clusters:,} clusters were resampled as a whole, so the intervals include their variation."
        )
    if evaluation.subgroups:
        parts.append(
            f"{len(evaluation.subgroups)} subgroups were evaluated separately ({', '.join(evaluation.subgroups)}); "
            "differences were tested by Cochran's test of homogeneity."
        )
    return " ".join(parts) or "Not examined: no clusters and no subgroups were given."


def _measures(evaluation: Evaluation, provenance: Provenance) -> str:
    titles = ", ".join(metric.title for metric in evaluation.metric_list)
    compared = (
        f" Compared, in pairs on the same rows, with {', '.join(evaluation.differences)}."
        if evaluation.differences
        else ""
    )
    return (
        f"Metrics: {titles}. For each threshold: AUC, sensitivity, specificity, predictive values, calibration "
        "intercept and slope, estimated calibration index (ECI), smooth calibration error. Plots: reliability "
        f"diagrams, isotonic and smooth calibration curves, decision curves (net benefit), confusion matrix.{compared}"
    )


def _updating(evaluation: Evaluation, provenance: Provenance) -> str:
    applied = findings(evaluation).calibrators
    return (
        f"The predictions had been recalibrated on other rows before this evaluation ({', '.join(applied)})."
        if applied
        else "None is recorded in the predictions."
    )


def _predictions(evaluation: Evaluation, provenance: Provenance) -> str:
    if not provenance.files:
        return "Read from memory."
    return "Read from " + ", ".join(f"{name} (SHA-256 {digest})" for name, digest in provenance.files) + "."


def _fairness(evaluation: Evaluation, provenance: Provenance) -> str:
    if not evaluation.subgroups:
        return "No subgroups were evaluated."
    return f"Evaluated by subgroup: {', '.join(evaluation.subgroups)}; results under item 23a."


def _output(evaluation: Evaluation, provenance: Provenance) -> str:
    rule = RULES[evaluation.rule] if isinstance(evaluation.rule, str) else "lowest expected cost by a given cost matrix"
    return f"Probabilities of {len(evaluation.classes)} ordered classes. Decision: {rule}."


def _code(evaluation: Evaluation, provenance: Provenance) -> str:
    command = f" Command: {provenance.command}." if provenance.command else ""
    return f"Evaluated with orcu {orcu.__version__}, random seed {evaluation.random_state}.{command}"


def _participants(evaluation: Evaluation, provenance: Provenance) -> str:
    clusters = "" if evaluation.clusters is None else f" of {evaluation.clusters:,} clusters"
    return f"Evaluated: {evaluation.rows:,} rows{clusters}. With each outcome: {_class_counts(evaluation)}."


def _characteristics(evaluation: Evaluation, provenance: Provenance) -> str:
    if not evaluation.subgroups:
        return f"Outcome: {_class_counts(evaluation)}."
    parts = [f"{name}: {part.rows:,} rows ({_class_counts(part)})" for name, part in evaluation.subgroups.items()]
    return f"Outcome by subgroup: {'; '.join(parts)}."


def _performance(evaluation: Evaluation, provenance: Provenance) -> str:
    overall = "; ".join(_metric(evaluation, name) for name in STATED)
    c_index = f"Ordinal C-index {_estimate(evaluation.c_index)}"
    lines = [
        f"{record['event']}: AUC {_estimate(record['auc'])}, calibration intercept {_estimate(record['intercept'])}, "
        f"slope {_estimate(record['slope'])}, ECI {_estimate(record['eci'])}"
        for record in evaluation.per_threshold
    ]
    groups = [
        f"{name} ({part.rows:,} rows): {'; '.join(_metric(part, metric) for metric in BY_SUBGROUP)}"
        for name, part in evaluation.subgroups.items()
    ]
    intervals = "95 % bootstrap intervals in brackets." if evaluation.n_resamples else "No intervals were computed."
    by_subgroup = f" By subgroup: {'. '.join(groups)}." if groups else ""
    return f"{overall}; {c_index}. By threshold: {'; '.join(lines)}.{by_subgroup} {intervals}"


def _metric(evaluation: Evaluation, name: str) -> str:
    metric = METRICS.get(name)
    interval = format_metric_interval(evaluation, metric) if evaluation.n_resamples else ""
    return f"{metric.title} {format_metric(evaluation, metric)}" + (f" ({interval})" if interval else "")


def _estimate(estimate: Estimate) -> str:
    ends = "" if np.isnan(estimate.low) else f" ({format_interval(estimate.low, estimate.high, percent=False)})"
    return format_value(estimate.value, percent=False) + ends


def _cluster_results(evaluation: Evaluation, provenance: Provenance) -> str:
    results = findings(evaluation)
    if not evaluation.subgroups or not evaluation.n_resamples:
        return "Not examined: no subgroups were given, or no intervals were computed."
    found = {"over-confidence": results.subgroups_differ, "mean absolute error": results.subgroup_errors_differ}
    return " ".join(
        f"The {name} of the subgroups {'differs' if differs else 'does not differ'} significantly."
        for name, differs in found.items()
    )


def _updated_results(evaluation: Evaluation, provenance: Provenance) -> str:
    if not findings(evaluation).calibrators:
        return "No updating is recorded in the predictions."
    return "Items 21 and 23a are the results after recalibration."


def _interpretation(evaluation: Evaluation, provenance: Provenance) -> str:
    return f"{' '.join(filter(None, headline(evaluation)))} Recommended next step: {next_step(evaluation)}"


def _limitations(evaluation: Evaluation, provenance: Provenance) -> str:
    few = findings(evaluation).failures.few_rows
    warnings = [note.removeprefix("WARNING: ") for note in evaluation.notes if note.startswith("WARNING")]
    if few:
        warnings.append(f"too few rows to assess the classes {', '.join(few)}.")
    return " ".join(warnings) or "The evaluation gave no warnings."


_Answer = Callable[[Evaluation, Provenance], str]
_ITEMS: list[tuple[str, str, _Answer, str]] = [
    ("8a", "Outcome", _outcome, "definition, time horizon, how and when it was assessed, consistency across groups"),
    ("10", "Sample size", _sample_size, "how the size was arrived at, and whether it is sufficient"),
    ("11", "Missing data", _missing_data, "missing predictors and outcomes, and rows left out before"),
    ("12d", "Heterogeneity across clusters (methods)", _heterogeneity, "what the clusters and subgroups are"),
    ("12e", "Performance measures and plots", _measures, "their rationale"),
    ("12f", "Model updating (methods)", _updating, "any other updating, and the rows that were used for it"),
    ("12g", "How predictions were calculated", _predictions, "the code, formula or service that made the predictions"),
    ("14", "Fairness", _fairness, "approaches to fairness and their rationale"),
    ("15", "Model output", _output, "rationale of the classes and of the decision rule"),
    ("18f", "Code sharing", _code, "availability of the code"),
    ("20a", "Flow of participants", _participants, "flow from recruitment to the evaluated rows, follow-up time"),
    ("20b", "Characteristics of participants", _characteristics, "dates, predictors, treatments, missing data"),
    ("21", "Participants and events in each analysis", _participants, "numbers of development and tuning"),
    ("23a", "Model performance", _performance, "further subgroups"),
    (
        "23b",
        "Heterogeneity across clusters (results)",
        _cluster_results,
        "results for single clusters, such as centres",
    ),
    ("24", "Model updating (results)", _updated_results, "the updated model"),
    (
        "25",
        "Interpretation",
        _interpretation,
        "interpretation with regard to objectives, fairness and previous studies",
    ),
    ("26", "Limitations", _limitations, "limitations of the study and their effect"),
]
