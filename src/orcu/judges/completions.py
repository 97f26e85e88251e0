"""Reader of grades in replies of servers: chat completions and responses of OpenAI, and messages of Anthropic."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orcu.errors import InputError
from orcu.judges.entries import as_name, get, read_entries
from orcu.judges.levels import GradeLevels
from orcu.judges.messages import ReplyFormat, find_completion
from orcu.judges.parsing import GradeMatch, GradeParser
from orcu.judges.replies import (
    AmbiguousReply,
    OutOfRangeError,
    ParsedLog,
    ParseFailure,
    Reply,
    ReplyError,
    escape_surrogates,
)
from orcu.judges.tokens import TokenProbs, token_probs

ITEM_KEYS = ("custom_id", "item")
DEFAULT_JUDGE = "judge"  # name of a judge without a name
MAX_OUT_OF_RANGE = 0.05  # share of replies with a grade outside the levels up to which they count as slips
_NO_LOGPROBS = (
    "no logprobs, but other lines have them; grades with and without probabilities cannot be mixed, so put judges "
    "without logprobs into a separate file"
)
_TRUNCATED = "cut at the token limit inside the grade (1 may become 10); allow one more token"


@dataclass(frozen=True)
class _ChoiceGrade:
    """Grade of a choice; pairs are for judges whose numbers have several tokens, and for those with one."""

    where: str
    item: str
    reply_format: ReplyFormat
    judge: str  # "" if the line does not name it
    grade: int  # 0..C-1
    is_cut: bool  # whether the text has more than the grade and was cut at the token limit
    others: tuple[str, ...]  # other candidates, if the grade is ambiguous
    tokens: tuple[TokenProbs | None, TokenProbs | None]  # None without logprobs
    is_truncated: tuple[bool, bool]  # whether the token limit may have cut the grade itself


def read_completions(
    path: str | os.PathLike[str],
    levels: GradeLevels,
    *,
    pattern: str | None = None,
    number_words: bool = False,
    item: str | None = None,
    judge: str | None = None,
) -> ParsedLog:
    """Read the grades in a file of chat completions, of OpenAI's responses or of Anthropic's messages.

    Each line is a completion (``choices[].message.content`` and, for probabilities,
    ``choices[].logprobs.content[].top_logprobs``), a response (``output[].content[].text`` and ``logprobs``), a
    message (``content[].text``), a line of the batch output of one of them, or an object with one of them under
    ``completion``, ``response`` or ``body``. Every choice is a reply. See `GradeParser` for how the grade is
    found in the text, and `token_probs` for how its tokens become probabilities of all grades.

    If a judge returns a token of two digits anywhere, each of its numbers is one token, and a token "1" that was not
    sampled is the grade 1. Otherwise that token could also have become 10, and its probability is divided.

    The keys ``item`` and ``judge`` may have dots for nested objects. By default the item name is ``custom_id`` or
    ``item``, and the judge name ``judge`` or the completion's ``model``.
    """
    parser, path = GradeParser(levels, pattern=pattern, number_words=number_words), Path(path)
    entries = [entry for where, line in read_entries(path) for entry in _parse_line(where, line, parser, item, judge)]
    tokens = [
        (entry.judge, entry.tokens[0]) for entry in entries if isinstance(entry, _ChoiceGrade) and entry.tokens[0]
    ]
    single_token_judges = {name for name, token in tokens if token.has_two_digits}
    failures, grades, replies = list[ParseFailure](), list[_ChoiceGrade](), list[Reply]()
    for entry in entries:
        if isinstance(entry, ParseFailure):
            failures.append(entry)
        elif tokens and entry.tokens[0] is None:
            failures.append(ParseFailure(entry.where, entry.item, _NO_LOGPROBS))
        elif entry.is_truncated[entry.judge in single_token_judges]:
            failures.append(ParseFailure(entry.where, entry.item, _TRUNCATED))
        else:
            token = entry.tokens[entry.judge in single_token_judges]
            probs = None if token is None else token.probs
            replies.append(Reply(entry.item, entry.judge or DEFAULT_JUDGE, probs, entry.grade))
            grades.append(entry)
    notes = _notes(grades, single_token_judges, has_pattern=pattern is not None)
    _check_levels(failures, len(entries), path.name)
    ambiguous = [
        AmbiguousReply(entry.where, entry.item, levels.names[entry.grade], tuple(map(escape_surrogates, entry.others)))
        for entry in grades
        if entry.others
    ]
    counts = Counter(entry.reply_format for entry in grades).most_common()
    source = "; ".join(f"{count:,} {kind.name}, grades in {kind.field}" for kind, count in counts)
    return ParsedLog(replies, failures, notes, ambiguous, source=source).require_replies(path.name)


def _check_levels(failures: list[ParseFailure], n_replies: int, name: str) -> None:
    """Raise if many grades are outside the levels, because the remaining replies would be a biased selection."""
    outside = [failure for failure in failures if failure.is_out_of_range]
    if len(outside) > max(1, MAX_OUT_OF_RANGE * n_replies):
        raise InputError(
            f"{name}: {len(outside):,} of {n_replies:,} replies have a grade outside the levels, the first in "
            f"{outside[0].where}: {outside[0].reason} If these numbers are not grades, locate the grade with pattern= "
            "(--pattern)."
        )


def _notes(grades: list[_ChoiceGrade], single_token_judges: set[str], *, has_pattern: bool) -> list[str]:
    """Remarks about the replies of a file, with counts."""
    tokens = [token for entry in grades if (token := entry.tokens[entry.judge in single_token_judges]) is not None]
    counts = {
        f"do not name a judge (no key judge or model); all are assigned to {DEFAULT_JUDGE!r}": sum(
            not entry.judge for entry in grades
        ),
        "were cut at the token limit, so the last number may not be the grade; set a pattern": (
            0 if has_pattern else sum(entry.is_cut for entry in grades)
        ),
        "have several candidate grades, and no rule decides between them; set a pattern, such as 'Score: (\\d+)'": sum(
            bool(entry.others) for entry in grades
        ),
        "have no logprobs; they give grades without probabilities": len(grades) - len(tokens),
        "have logprobs of the sampled token only; request top_logprobs from the server": sum(
            token.no_alternatives for token in tokens
        ),
        "lack some grades in top_logprobs; the missing probability is divided evenly among these grades, each at most "
        "as likely as the least likely returned token": sum(token.is_imputed for token in tokens),
        "have tokens that begin several grades and were not sampled; their probability is divided evenly among these "
        "grades": sum(token.is_divided for token in tokens),
        "put less than half of the probability on grades": sum(token.mass < 0.5 for token in tokens),
    }
    return [f"{count} of {len(grades)} replies {note}" for note, count in counts.items() if count]


def _parse_line(
    where: str, line: Any, parser: GradeParser, item_key: str | None, judge_key: str | None
) -> Iterator[_ChoiceGrade | ParseFailure]:
    """Grades of the choices of a line."""
    item = ""
    try:
        if not isinstance(line, dict):
            raise ReplyError("not a JSON object")
        item = _item_name(line, item_key)
        reply_format, completion = find_completion(line)
        judge = _judge_name(line, completion, judge_key)
        choices = completion["choices"]
    except ReplyError as error:
        yield ParseFailure(where, item, escape_surrogates(str(error)))
        return
    for number, choice in enumerate(choices, 1):
        location = where if len(choices) == 1 else f"{where}, choice {number}"
        try:
            yield _parse_choice(location, item, reply_format, judge, choice, parser)
        except ReplyError as error:
            yield ParseFailure(location, item, escape_surrogates(str(error)), isinstance(error, OutOfRangeError))


def _parse_choice(
    where: str, item: str, reply_format: ReplyFormat, judge: str, choice: Any, parser: GradeParser
) -> _ChoiceGrade:
    """Find the grade of a choice."""
    text, is_cut = _content(choice)
    try:
        match = parser.find(text)
    except ReplyError as error:
        raise type(error)(f"{error} (cut at the token limit)" if is_cut else str(error)) from None
    at_end = is_cut and len(text) - match.end < 2  # a decimal point may follow the grade
    rest = text[match.start :]
    several, single = (at_end and len(parser.possible_grades(rest, single_token=flag)) > 1 for flag in (False, True))
    is_cut = is_cut and text.strip() != text[match.start : match.end]
    tokens = _token_probs(choice, text, match, parser)
    return _ChoiceGrade(where, item, reply_format, judge, match.grade, is_cut, match.others, tokens, (several, single))


def _token_probs(
    choice: Any, text: str, match: GradeMatch, parser: GradeParser
) -> tuple[TokenProbs | None, TokenProbs | None]:
    """Token probabilities of a choice if numbers may have several tokens, and if they have one."""
    content = get(choice, "logprobs.content")
    if not content:
        return None, None
    if not isinstance(content, list):
        raise ReplyError("logprobs.content is not a list of tokens")
    several = token_probs(content, text, match, parser)
    return several, token_probs(content, text, match, parser, single_token=True) if several.is_divided else several


def _content(choice: Any) -> tuple[str, bool]:
    """Text of a choice, and whether it was cut at the token limit."""
    message = get(choice, "message")
    if not isinstance(message, dict):
        raise ReplyError("no message; expected chat completions with choices[].message.content")
    reason, text = choice.get("finish_reason"), message.get("content")
    if message.get("refusal"):
        raise ReplyError("the judge refused to answer")
    if text is not None and not isinstance(text, str):
        raise ReplyError("the content is not a text")
    if not text or not text.strip():
        raise ReplyError(f"empty content (finish_reason {reason})" if reason else "empty content")
    return text, reason == "length"


def _item_name(line: dict[str, Any], key: str | None) -> str:
    for name in ITEM_KEYS if key is None else (key,):
        value = get(line, name)
        if value is not None:
            return as_name(value, name)
    if key is not None:
        raise ReplyError(f"the line has no key {key!r} for the item name")
    raise ReplyError("the line has no item name (custom_id or item); set its key with item=")


def _judge_name(line: dict[str, Any], completion: dict[str, Any], key: str | None) -> str:
    value = get(line, "judge" if key is None else key)
    if value is None and key is not None:
        raise ReplyError(f"the line has no key {key!r} for the judge name")
    value = completion.get("model") if value is None else value
    return "" if value is None else as_name(value, key or "judge or model")
