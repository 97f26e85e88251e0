"""Recognition of the format of a log file, and the reader for all formats."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orcu.errors import InputError
from orcu.judges.completions import read_completions
from orcu.judges.entries import read_entries
from orcu.judges.inspect_logs import read_inspect
from orcu.judges.levels import GradeLevels
from orcu.judges.messages import is_reply
from orcu.judges.replies import ParsedLog
from orcu.judges.scores import ScoreFormat, find_score_format, read_scores

LOG_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".eval")
INSPECT, REPLIES, RECORDS = "an Inspect log", "replies of a server", "JSON records"
_N_ENTRIES = 100  # entries that are tested for a format, so that a damaged beginning does not decide


def recognise(path: str | os.PathLike[str]) -> ScoreFormat | str:
    """Format of a log file: a `ScoreFormat`, ``INSPECT``, ``REPLIES`` or ``RECORDS``.

    It is the format of the first entry that has one of them. A file without any is ``RECORDS`` if it has JSON objects.

    Raises:
        InputError: if the file cannot be read.
    """
    path = Path(path)
    if path.suffix.lower() == ".eval":
        return INSPECT
    has_objects = False
    for number, (_, entry) in enumerate(read_entries(path)):
        if path.suffix.lower() == ".json" and isinstance(entry, Mapping) and isinstance(entry.get("eval"), Mapping):
            return INSPECT
        score_format = find_score_format(entry)
        if score_format is not None:
            return score_format
        if is_reply(entry):
            return REPLIES
        has_objects = has_objects or isinstance(entry, Mapping)
        if number >= _N_ENTRIES:
            break
    return RECORDS if has_objects else REPLIES


def read_log(
    path: str | os.PathLike[str],
    levels: GradeLevels,
    log_format: ScoreFormat | str,
    *,
    pattern: str | None = None,
    number_words: bool = False,
    item: str | None = None,
    judge: str | None = None,
    scorer: str | None = None,
    scale: tuple[float, float] | None = None,
) -> ParsedLog:
    """Read the grades of a log whose format `recognise` found.

    Raises:
        InputError: if an option does not apply to the format, or as for the reader of the format.
    """
    is_text = log_format == REPLIES
    name = log_format.name if isinstance(log_format, ScoreFormat) else log_format
    options: dict[str, Any] = {"scorer": scorer, "scale": scale}
    if not is_text:
        options = {"pattern": pattern, "number_words": number_words or None, "judge": judge}
    unused = [f"{option}= (--{option.replace('_', '-')})" for option, value in options.items() if value is not None]
    if unused:
        reason = (
            "texts and has no scorers" if is_text else "scores and no texts; select a judge with scorer= (--scorer)"
        )
        raise InputError(f"{Path(path).name}: this file is {name} with {reason}. Leave out {', '.join(unused)}.")
    if is_text:
        return read_completions(path, levels, pattern=pattern, number_words=number_words, item=item, judge=judge)
    if isinstance(log_format, ScoreFormat):
        return read_scores(path, levels, log_format, item=item, scorer=scorer, scale=scale)
    return read_inspect(path, levels, scorer=scorer, scale=scale)
