"""Reader of the scores that evaluation tools store: promptfoo, DeepEval, lm-evaluation-harness and MLflow."""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from orcu.errors import InputError, UnknownNameError
from orcu.inputs import FloatArray
from orcu.judges.entries import as_name, error_message, get, read_entries
from orcu.judges.levels import GradeLevels
from orcu.judges.replies import OutOfRangeError, ParsedLog, ParseFailure, Reply, ReplyError, escape_surrogates

# Assertions of promptfoo that a language model grades; the score of the others is not a judge's
MODEL_GRADED = {
    *("llm-rubric", "g-eval", "search-rubric", "factuality", "model-graded-closedqa", "model-graded-factuality"),
    *("answer-relevance", "context-faithfulness", "context-recall", "context-relevance", "conversation-relevance"),
    "trajectory:goal-success",
}
PERSON = "HUMAN"  # source of an assessment of MLflow
_MAX_NAMED = 10  # names in a message


class Score(NamedTuple):
    """Score of a scorer for a record."""

    scorer: str
    value: Any = None
    model: str = ""  # model of the judge, or name of the person
    error: str = ""  # why there is no value
    is_human: bool = False
    is_judge: bool = True  # whether the score is read if no scorer is selected


class ScoreFormat(NamedTuple):
    """Format of the scores of an evaluation tool."""

    name: str
    field: str  # where the score is, for messages
    records: Callable[[str, Mapping[str, Any]], Iterator[tuple[str, Mapping[str, Any]]]]  # of an entry; none of others
    item: Callable[[Mapping[str, Any]], Any]  # default name of a record
    item_field: str
    scores: Callable[[Mapping[str, Any]], Iterable[Score]]
    has_unit_scale: bool = False  # whether the tool documents scores from 0 to 1
    may_repeat: bool = False  # whether a record may have several scores of the same judge


def grade_of(value: Any, levels: GradeLevels, scale: tuple[float, float] | None) -> tuple[FloatArray | None, int]:
    """Distribution and grade 0..C-1 of a score; without a scale there is no distribution.

    With a scale, the score is mapped linearly to the levels. A number between two levels is divided between them.

    Raises:
        ReplyError: if the score is not one of the levels, or not on the scale.

    Example:
        >>> grade_of(4, GradeLevels.parse("1..5"), None), grade_of(0.5, GradeLevels.parse("0..3"), (0.0, 1.0))
        ((None, 3), (array([0. , 0.5, 0.5, 0. ]), 1))
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise ReplyError("not scored")
    if not isinstance(value, str | int | float):
        raise ReplyError("the score is a list of values; expected one value")
    if scale is None:
        grade = levels.code(value)
        if grade is None:
            raise OutOfRangeError(levels.mismatch_message(value))
        return None, grade
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except ValueError:
        number = math.nan
    if not scale[0] <= number <= scale[1]:
        raise OutOfRangeError(f"{value!r} is not on the scale from {scale[0]:g} to {scale[1]:g} (--scale)")
    shares = levels.shares(levels.rescale(number, scale))
    return shares, int(np.argmax(shares))


def find_score_format(entry: Any) -> ScoreFormat | None:
    """Format of the tool that wrote an entry, or ``None``."""
    if not isinstance(entry, Mapping):
        return None
    return next((each for each in SCORE_FORMATS if next(each.records("", entry), None) is not None), None)


def read_scores(
    path: str | os.PathLike[str],
    levels: GradeLevels,
    score_format: ScoreFormat,
    *,
    item: str | None = None,
    scorer: str | None = None,
    scale: tuple[float, float] | None = None,
) -> ParsedLog:
    """Read the scores of a log: one reply per record and scorer.

    A judge has the name of its scorer, followed by the model if the log names it. ``item`` is the key of the item names
    in a record, with dots for nested keys; if no record has it, the format's own name is used. ``scorer`` selects one
    scorer; by default all that language models compute are judges. ``scale`` is described in `grade_of`.

    Raises:
        InputError: if the levels do not fit the scale of the tool, or names are missing or repeated.
    """
    path = Path(path)
    if score_format.has_unit_scale and scale is None and not _is_within_unit(levels):
        raise InputError(
            f"levels: the scores of {score_format.name} are from 0 to 1, and the levels are {levels}. Give the scale "
            "of the scores with scale= (--scale 0..1), which maps its ends to the lowest and the highest level, or "
            "levels of the scores themselves, such as 0,0.5,1 (--levels)."
        )
    replies, human, failures = list[Reply](), list[Reply](), list[ParseFailure]()
    records = list[tuple[str, Mapping[str, Any]]]()
    for where, entry in read_entries(path):
        of_entry = list(score_format.records(where, entry)) if isinstance(entry, Mapping) else []
        failures += [] if of_entry else [ParseFailure(where, "", f"not an entry of {score_format.name}")]
        records += of_entry
    key = item if item is not None and any(get(record, item) is not None for _, record in records) else None
    scores = [(where, record, score) for where, record in records for score in score_format.scores(record)]
    selected = _select([score for _, _, score in scores], scorer, path.name)
    for where, record, score in scores:
        if score.scorer not in selected:
            continue
        name = ""
        try:
            name = _item_name(record, score_format, key)
            if score.error:
                raise ReplyError(score.error)
            reply = Reply(name, _judge_name(score), *grade_of(score.value, levels, scale))
            (human if score.is_human else replies).append(reply)
        except ReplyError as error:
            reason = escape_surrogates(str(error))
            failures.append(ParseFailure(f"{where}, {score.scorer}", name, reason, isinstance(error, OutOfRangeError)))
    if key is None and not score_format.may_repeat:
        _check_unique(replies, score_format, path.name)
    items = key or score_format.item_field
    items += f" (no entry has the key {item!r})" if item and not key else ""
    source = f"{len(records):,} entries of {score_format.name}, grades in {score_format.field}, items in {items}"
    notes = _notes(records, scores, selected)
    return ParsedLog(replies, failures, notes, human=human, source=source).require_replies(path.name)


def _judge_name(score: Score) -> str:
    """Name of a judge, or of a person."""
    if score.is_human:
        return escape_surrogates(score.model or "person")
    return escape_surrogates(f"{score.scorer} ({score.model})" if score.model else score.scorer)


def _is_within_unit(levels: GradeLevels) -> bool:
    return levels.is_numeric and bool(levels.values[0] >= 0 and levels.values[-1] <= 1)


def _select(scores: list[Score], scorer: str | None, name: str) -> list[str]:
    """Scorers to read."""
    names = list(dict.fromkeys(score.scorer for score in scores))
    if not names:
        raise InputError(f"{name}: the file contains no scores.")
    if scorer is not None:
        if scorer not in names:
            raise UnknownNameError("scorer", scorer, names)
        return [scorer]
    judges = list(dict.fromkeys(score.scorer for score in scores if score.is_judge and not score.is_human))
    if not judges:
        raise InputError(
            f"scorer: no score of {name} is known to be that of a language model; select one with scorer= (--scorer): "
            f"{', '.join(names[:_MAX_NAMED])}."
        )
    if len(judges) > 1 and any(score.is_human for score in scores):
        raise InputError(
            f"scorer: {name} has human grades and several scorers; select one with scorer= (--scorer): "
            f"{', '.join(judges[:_MAX_NAMED])}."
        )
    return judges


def _notes(
    records: list[tuple[str, Mapping[str, Any]]],
    scores: list[tuple[str, Mapping[str, Any], Score]],
    selected: list[str],
) -> list[str]:
    """Remarks about scores and entries that are not read."""
    others = dict.fromkeys(score.scorer for _, _, score in scores if score.scorer not in selected)
    unscored = len(records) - len({where for where, _, score in scores if score.scorer in selected})
    notes = [f"other scores of the file are not read: {', '.join(list(others)[:_MAX_NAMED])}"] if others else []
    return notes + ([f"{unscored:,} entries have no score of {', '.join(selected[:_MAX_NAMED])}"] if unscored else [])


def _item_name(record: Mapping[str, Any], score_format: ScoreFormat, key: str | None) -> str:
    if key is None:
        return as_name(score_format.item(record), score_format.item_field)
    value = get(record, key)
    if value is None:
        raise ReplyError(f"no key {key!r} for the item name")
    return as_name(value, key)


def _check_unique(replies: list[Reply], score_format: ScoreFormat, name: str) -> None:
    """Raise if a judge has several scores of an item, which would count as samples, although items share the name."""
    pairs = set[tuple[str, str]]()
    for reply in replies:
        if (reply.item, reply.judge) in pairs:
            raise InputError(
                f"{name}: {reply.judge!r} has several scores of the item {reply.item!r}. If they are different items, "
                f"name another key than {score_format.item_field} with item= (--item); if they are different criteria, "
                "give each its own name in the tool, or select one with scorer= (--scorer)."
            )
        pairs.add((reply.item, reply.judge))


def _mappings(entries: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def _promptfoo_records(where: str, entry: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Results of an output file (.json), or of a line of the .jsonl output."""
    if {"testIdx", "promptIdx", "gradingResult"} <= entry.keys():
        yield where, entry
    for number, result in enumerate(_mappings(get(entry, "results.results")), 1):
        if "testIdx" in result:
            yield f"{where}, result {number}", result


def _promptfoo_item(result: Mapping[str, Any]) -> str:
    return f"{result.get('testIdx')}:{result.get('promptIdx')}"


def _promptfoo_scores(result: Mapping[str, Any]) -> Iterator[Score]:
    """Scores of the assertions of a result; without any, the score of the result."""
    grading = result.get("gradingResult")
    parts = _mappings(get(grading, "componentResults"))
    if not parts:
        error = str(result.get("error") or ("" if isinstance(grading, Mapping) else "not graded"))
        yield Score("score", get(grading, "score"), error=error, is_judge=False)
    for part in parts:
        kind, provider = get(part, "assertion.type"), get(part, "assertion.provider")
        failed = get(part, "metadata.graderError")
        yield Score(
            str(get(part, "assertion.metric") or kind or "score"),
            part.get("score"),
            model=provider if isinstance(provider, str) else "",
            error=f"the grader failed: {error_message(part.get('reason'))}" if failed else "",
            is_judge=kind in MODEL_GRADED,
        )


def _deepeval_records(where: str, entry: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    run = entry.get("testRunData", entry)
    cases = [*_mappings(get(run, "testCases")), *_mappings(get(run, "conversationalTestCases"))]
    for number, case in enumerate(cases, 1):
        yield f"{where}, result {number}", case


def _deepeval_scores(case: Mapping[str, Any]) -> Iterator[Score]:
    for metric in _mappings(case.get("metricsData")):
        error = error_message(metric["error"]) if metric.get("error") else ""
        yield Score(str(metric.get("name")), metric.get("score"), str(metric.get("evaluationModel") or ""), error)


def _lm_eval_records(where: str, entry: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if {"doc_id", "filtered_resps", "metrics"} <= entry.keys():
        yield where, entry


def _lm_eval_scores(sample: Mapping[str, Any]) -> Iterator[Score]:
    """Scores of the metrics of a sample; its filter is the name behind them, if it is not the only one."""
    names, post = sample.get("metrics"), sample.get("filter")
    for name in names if isinstance(names, list) else ():
        yield Score(str(name), sample.get(name), model="" if post in (None, "none") else str(post))


def _mlflow_records(where: str, entry: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Traces as `Trace.to_json` or `search_traces` writes them, or a list of them under ``traces``."""
    if isinstance(get(entry, "info.trace_id"), str) or ("trace_id" in entry and "assessments" in entry):
        yield where, entry
    for number, trace in enumerate(_mappings(entry.get("traces")), 1):
        yield from _mlflow_records(f"{where}, result {number}", trace)


def _mlflow_item(trace: Mapping[str, Any]) -> Any:
    return get(trace, "info.trace_id") or trace.get("trace_id")


def _mlflow_scores(trace: Mapping[str, Any]) -> Iterator[Score]:
    """Feedback of judges and people; expectations, and feedback that a later one replaced, are not grades."""
    for assessment in _mappings(get(trace, "info.assessments") or trace.get("assessments")):
        feedback, source = assessment.get("feedback"), get(assessment, "source.source_type")
        if isinstance(feedback, Mapping) and assessment.get("valid", True):
            error = feedback.get("error")
            yield Score(
                str(assessment.get("assessment_name")),
                feedback.get("value"),
                str(get(assessment, "source.source_id") or ""),
                error_message({"message": error.get("error_message")} if isinstance(error, Mapping) else error)
                if error
                else "",
                is_human=source == PERSON,
                is_judge=source != "CODE",
            )


SCORE_FORMATS = (
    ScoreFormat(
        "promptfoo results",
        "gradingResult.componentResults[].score",
        _promptfoo_records,
        _promptfoo_item,
        "testIdx:promptIdx",
        _promptfoo_scores,
        has_unit_scale=True,
    ),
    ScoreFormat(
        "a DeepEval test run",
        "metricsData[].score",
        _deepeval_records,
        lambda case: case.get("name"),
        "name",
        _deepeval_scores,
        has_unit_scale=True,
    ),
    ScoreFormat(
        "lm-eval samples",
        "the keys that metrics lists",
        _lm_eval_records,
        lambda sample: sample.get("doc_id"),
        "doc_id",
        _lm_eval_scores,
    ),
    ScoreFormat(
        "MLflow traces",
        "assessments[].feedback.value",
        _mlflow_records,
        _mlflow_item,
        "trace_id",
        _mlflow_scores,
        may_repeat=True,
    ),
)
