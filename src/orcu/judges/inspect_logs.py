"""Reader of grades in the logs of Inspect, with the ``inspect_ai`` package."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orcu.errors import InputError, UnknownNameError, first_line, require
from orcu.inputs import cell_text
from orcu.judges.levels import GradeLevels
from orcu.judges.replies import ParsedLog, ParseFailure, Reply, ReplyError, escape_surrogates
from orcu.judges.scores import grade_of


def read_inspect(
    path: str | os.PathLike[str],
    levels: GradeLevels,
    *,
    scorer: str | None = None,
    scale: tuple[float, float] | None = None,
) -> ParsedLog:
    """Read the grades of an Inspect log: one reply per sample, epoch and scorer.

    Items are the sample ids. A judge has the name of its scorer, followed by the model if the metadata of the score
    have a ``model``. Inspect's letters C, I, P and N are grades only if the levels contain them.

    ``scorer`` is the name of a scorer, or ``name.key`` if a score has several values; by default every scorer is a
    judge. ``scale`` is described in `orcu.judges.scores.grade_of`.
    """
    path = Path(path)
    log = _read_log(path)
    samples = log.samples or []
    name, key = _split_scorer(samples, scorer)
    replies, failures = list[Reply](), list[ParseFailure]()
    for sample in samples:
        item = escape_surrogates(cell_text(sample.id))
        where = f"{path.name}, sample {item}, epoch {sample.epoch}"
        scores = {judge: score for judge, score in (sample.scores or {}).items() if name in (None, judge)}
        for judge, score in scores.items():
            try:
                grade = grade_of(_value(judge, score, key), levels, scale)
                replies.append(Reply(item, _judge_name(judge, key, score), *grade))
            except ReplyError as error:
                failures.append(ParseFailure(f"{where}, scorer {judge}", item, escape_surrogates(str(error))))
        if not scores:
            reason = "no score" if name is None else f"no score of {name!r}"
            if sample.error is not None:
                reason = f"the sample failed: {first_line(Exception(sample.error.message))}"
            failures.append(ParseFailure(where, item, escape_surrogates(reason)))
    notes = [] if log.status == "success" else [f"the status of the log is {log.status!r}: samples may be missing"]
    source = f"{len(samples):,} samples of an Inspect log, grades in scores, items in id"
    return ParsedLog(replies, failures, notes, source=source).require_replies(path.name)


def _read_log(path: Path) -> Any:
    require("inspect_ai", extra="inspect", feature="reading logs of Inspect")
    from inspect_ai.log import read_eval_log

    if not path.is_file():
        raise InputError(f"{path}: there is no such file.")
    try:
        return read_eval_log(str(path))
    except Exception as error:  # its parsers raise many types for a damaged file
        raise InputError(f"{path}: not an Inspect log ({first_line(error)}).") from None


def _split_scorer(samples: list[Any], scorer: str | None) -> tuple[str | None, str | None]:
    """Scorer name and value key in the ``scorer`` argument."""
    if scorer is None:
        return None, None
    scores = [(name, score.value) for sample in samples for name, score in (sample.scores or {}).items()]
    names = dict.fromkeys(name for name, _ in scores)
    if scorer in names:
        return scorer, None
    name, _, key = scorer.rpartition(".")
    if name not in names:
        raise UnknownNameError("scorer", scorer, names)
    keys = dict.fromkeys(
        key for other, value in scores if other == name and isinstance(value, Mapping) for key in value
    )
    if key not in keys:
        raise UnknownNameError("scorer", scorer, [f"{name}.{each}" for each in keys] or [name])
    return name, key


def _judge_name(scorer: str, key: str | None, score: Any) -> str:
    name = scorer if key is None else f"{scorer}.{key}"
    model = (score.metadata or {}).get("model")
    return escape_surrogates(f"{name} ({model})" if isinstance(model, str) and model else name)


def _value(scorer: str, score: Any, key: str | None) -> Any:
    """Value of a score, or of one of its keys."""
    value = score.value
    if isinstance(value, Mapping) and key is None:
        raise InputError(
            f"scorer: {scorer!r} has several values ({', '.join(value)}); select one, such as "
            f"scorer='{scorer}.{next(iter(value), 'key')}'."
        )
    if key is None:
        return value
    return value.get(key) if isinstance(value, Mapping) else None
