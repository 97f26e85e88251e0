"""Grades in the logs of Inspect, read by its own package."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from orcu.errors import InputError, UnknownNameError, first_line, require
from orcu.judges.replies import Replies, Reply, Unread, UnreadableError, need_replies
from orcu.judges.scale import Scale


def read_inspect(path: str | os.PathLike[str], scale: Scale, *, scorer: str | None = None) -> Replies:
    """The grades that the scorers of an Inspect log gave, one reply per sample, epoch and scorer.

    Items are the samples' ids. A judge has its scorer's name, and that of its model where the score's metadata have
    one as ``model``. Inspect's letters C, I, P and N are grades only where the scale names them.

    Args:
        path: of an ``.eval`` or ``.json`` log.
        scale: of the grades.
        scorer: the scorer to read, by default each is a judge; ``name.key`` where a score holds several values.

    Raises:
        InputError: if the log cannot be read, the scorer is not in it or which of its values is meant is not said, or
            no score is a grade.
        MissingExtraError: if the package is not installed.

    Example:
        >>> read_inspect("log.txt", Scale.of("1..5"))
        Traceback (most recent call last):
        orcu.errors.InputError: log.txt: expected a log of Inspect, a file .eval or .json.
    """
    path, scale = Path(path), Scale.of(scale)
    if path.suffix.lower() not in {".eval", ".json"}:
        raise InputError(f"{path}: expected a log of Inspect, a file .eval or .json.")
    log = _log(path)
    samples = log.samples or []
    name, key = _scorer(samples, scorer)
    replies, unread = list[Reply](), list[Unread]()
    for sample in samples:
        where, item = f"{path.name}, sample {sample.id}, epoch {sample.epoch}", str(sample.id)
        try:
            for judge, score in _scores(sample, name):
                try:
                    replies.append(Reply(item, _judge(judge, key, score), None, _grade(judge, score, key, scale), None))
                except UnreadableError as error:
                    unread.append(Unread(f"{where}, scorer {judge}", item, str(error)))
        except UnreadableError as error:
            unread.append(Unread(where, item, str(error)))
    notes = [] if log.status == "success" else [f"the log's status is {log.status!r}: samples may be missing"]
    return need_replies(Replies(replies, unread, notes), path.name)


def is_inspect_log(path: Path) -> bool:
    """Whether a file is a log of Inspect: by its ending .eval, or of a .json file by what it holds."""
    if path.suffix.lower() != ".json":
        return path.suffix.lower() == ".eval"
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False  # the reader of completions says what is wrong with it
    return isinstance(content, dict) and "eval" in content


def _log(path: Path) -> Any:
    require("inspect_ai", extra="inspect", what="reading logs of Inspect")
    from inspect_ai.log import read_eval_log

    if not path.is_file():
        raise InputError(f"{path}: there is no such file.")
    try:
        return read_eval_log(str(path))
    except Exception as error:  # whatever its parsers raise for a damaged file
        raise InputError(f"{path}: not a log of Inspect ({first_line(error)}).") from None


def _scorer(samples: list[Any], scorer: str | None) -> tuple[str | None, str | None]:
    """The scorer and the key of its values that a user named."""
    if scorer is None:
        return None, None
    known = {name: score.value for sample in samples for name, score in (sample.scores or {}).items()}
    if scorer in known:
        return scorer, None
    name, _, key = scorer.rpartition(".")
    if name not in known:
        raise UnknownNameError("scorer", scorer, known)
    keys = _keys(score.value for sample in samples for at, score in (sample.scores or {}).items() if at == name)
    if key not in keys:
        raise UnknownNameError("scorer", scorer, [f"{name}.{each}" for each in keys] or [name])
    return name, key


def _keys(values: Iterator[Any]) -> list[str]:
    return list(dict.fromkeys(key for value in values if isinstance(value, Mapping) for key in value))


def _scores(sample: Any, name: str | None) -> list[tuple[str, Any]]:
    """A sample's scores by their scorers.

    Raises:
        UnreadableError: if it has none.
    """
    scores = [(scorer, score) for scorer, score in (sample.scores or {}).items() if name in (None, scorer)]
    if not scores and sample.error is not None:
        raise UnreadableError(f"the sample failed: {first_line(Exception(sample.error.message))}")
    if not scores:
        raise UnreadableError("no score" if name is None else f"no score of {name!r}")
    return scores


def _judge(scorer: str, key: str | None, score: Any) -> str:
    name = scorer if key is None else f"{scorer}.{key}"
    model = (score.metadata or {}).get("model")
    return f"{name} ({model})" if isinstance(model, str) and model else name


def _grade(scorer: str, score: Any, key: str | None, scale: Scale) -> int:
    """The grade of a score.

    Raises:
        UnreadableError: if it is none of the scale.
        InputError: if it holds several values and none is named.
    """
    value = score.value
    if isinstance(value, Mapping) and key is None:
        raise InputError(
            f"scorer: {scorer!r} gives several values ({', '.join(value)}); name one, such as "
            f"scorer='{scorer}.{next(iter(value), 'key')}'."
        )
    if key is not None:
        value = value.get(key) if isinstance(value, Mapping) else None
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise UnreadableError("not scored")
    if not isinstance(value, str | int | float):
        raise UnreadableError("the score is a list of values, not one")
    grade = scale.code(value)
    if grade is None:
        raise UnreadableError(scale.refusal(value))
    return grade
