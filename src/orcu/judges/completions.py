"""Grades in chat completions, as OpenAI-compatible servers and vLLM write them: a JSON object per line."""

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orcu.errors import InputError, first_line
from orcu.io.files import read_json
from orcu.judges.replies import OutsideError, Replies, Reply, Unread, UnreadableError, need_replies
from orcu.judges.scale import Scale
from orcu.judges.tokens import TokenGrades, token_grades
from orcu.judges.wording import Mention, Wording
from orcu.predictions.labels import canonical, is_missing

ITEM_KEYS = ("custom_id", "item")
NAMELESS = "judge"  # a judge without a name
MOST_OUTSIDE = 0.05  # the share of replies with a grade outside the scale that may be slips


@dataclass(frozen=True)
class _Grading:
    """A grade that was read from a choice, in both ways in which a judge may write numbers.

    Attributes:
        where, item, judge: it comes from; the judge is "" if nothing names it.
        grade: in the text.
        was_cut: whether more than the grade was written, and ended by the limit of tokens.
        doubtful: whether another grade stands in the text too, and nothing says which is meant.
        tokens: what its tokens say, and what they say should this judge's numbers be one token each; ``None`` without
            logprobs.
        goes_on: whether the limit of tokens cut it where the grade may go on, in both cases.
    """

    where: str
    item: str
    judge: str
    grade: int
    was_cut: bool
    doubtful: bool
    tokens: tuple[TokenGrades | None, TokenGrades | None]
    goes_on: tuple[bool, bool]

    def reply(self, joined: bool) -> Reply:
        """The reply of a judge whose numbers are one token each, or not."""
        tokens = self.tokens[joined]
        probs, mass = (None, None) if tokens is None else (tokens.probs, tokens.mass)
        return Reply(self.item, self.judge or NAMELESS, probs, self.grade, mass)


def read_completions(
    path: str | os.PathLike[str],
    scale: Scale,
    *,
    pattern: str | None = None,
    words: bool = False,
    item: str | None = None,
    judge: str | None = None,
) -> Replies:
    r"""The grades in a file of chat completions.

    Each line is a completion (``choices[].message.content`` and, for probabilities,
    ``choices[].logprobs.content[].top_logprobs``), a line of OpenAI's batch output, or an object that holds a
    completion under ``completion``, ``response`` or ``body``. Every choice is a reply. `Wording` says where the grade
    stands in the text, `token_grades` how its tokens become probabilities of all grades.

    Where a judge returns a token of two digits anywhere, its numbers are one token each, and a token "1" that was not
    taken is 1; otherwise it may as well have become 10, and is divided.

    Args:
        path: of JSON lines (``.jsonl``, ``.jsonl.gz``), or of a ``.json`` file that holds a list.
        scale: of the grades.
        pattern: a regular expression with one group around the grade, of which the last match counts, such as
            ``Score: (\d+)``; by default the last number, or the last name of a grade where grades are words.
        words: whether "four" is 4. "One" is a common word: name a pattern, or let judges answer in a word.
        item: the key of the item's name in a line; dots lead into objects. By default ``custom_id`` or ``item``.
        judge: the key of the judge's name. By default ``judge``, or the completion's ``model``.

    Raises:
        InputError: if the pattern or the file cannot be used, or nothing in it can be read.

    Example:
        >>> import tempfile
        >>> line = {"item": "a", "model": "m", "choices": [{"message": {"content": "Score: 4/5"}}]}
        >>> path = Path(tempfile.mkdtemp()) / "answers.jsonl"
        >>> _ = path.write_text(json.dumps(line))
        >>> read_completions(path, Scale.of("1..5")).replies
        [Reply(item='a', judge='m', probs=None, grade=3, mass=None)]
    """
    wording, path = Wording(Scale.of(scale), pattern=pattern, words=words), Path(path)
    entries = [entry for where, line in _lines(path) for entry in _gradings(where, line, wording, item, judge)]
    tokens = [(entry.judge, entry.tokens[0]) for entry in entries if isinstance(entry, _Grading) and entry.tokens[0]]
    joining = {name for name, token in tokens if token.joins}
    unread, read = list[Unread](), list[_Grading]()
    for entry in entries:
        if isinstance(entry, Unread):
            unread.append(entry)
        elif tokens and entry.tokens[0] is None:
            unread.append(Unread(entry.where, entry.item, _NO_LOGPROBS))
        elif entry.goes_on[entry.judge in joining]:
            unread.append(Unread(entry.where, entry.item, _GOES_ON))
        else:
            read.append(entry)
    replies = [entry.reply(entry.judge in joining) for entry in read]
    notes = _notes(read, joining, by_default=pattern is None)
    _check_scale(unread, len(entries), path.name)
    return need_replies(Replies(replies, unread, notes), path.name)


def _check_scale(unread: list[Unread], replies: int, name: str) -> None:
    """Refuse a file whose grades are of another scale: what is left of it would be a selection.

    Raises:
        InputError: if more than a few replies give a grade that is none of the scale.
    """
    outside = [one for one in unread if one.outside]
    if len(outside) > max(1, MOST_OUTSIDE * replies):
        raise InputError(
            f"{name}: {len(outside):,} of {replies:,} replies give a grade outside the scale, the first in "
            f"{outside[0].where}: {outside[0].reason} If these are no grades, say where the grade stands with pattern= "
            "(--pattern)."
        )


_NO_LOGPROBS = (
    "no logprobs, where other lines have them: a bare grade beside probabilities would count unevenly; read judges "
    "without logprobs from a file of their own"
)
_GOES_ON = "cut at its token limit where the grade may go on, as 1 to 10; allow a token more"


def _notes(read: list[_Grading], joining: set[str], *, by_default: bool) -> list[str]:
    """What there is to say about the replies of a file."""
    tokens = [token for entry in read if (token := entry.tokens[entry.judge in joining]) is not None]
    counts = {
        "name no judge (no key judge, no model) and are taken as those of one": sum(not entry.judge for entry in read),
        "were cut at their token limit, so their last number may not be the grade; name a pattern": (
            sum(entry.was_cut for entry in read) if by_default else 0
        ),
        "hold several grades, of which the last was taken; name a pattern, such as 'Score: (\\d+)'": sum(
            entry.doubtful for entry in read
        ),
        "have no logprobs: their grades were read, without probabilities": len(read) - len(tokens),
        "returned no token beside the one taken; ask the server for top_logprobs": sum(t.alone for t in tokens),
        "did not return all grades: the missing probability was divided evenly among those left out, each at most as "
        "likely as the least likely token returned": sum(t.filled for t in tokens),
        "returned tokens that begin several grades and were not taken; their probability was divided evenly among "
        "these grades": sum(t.divided for t in tokens),
        "put less than half of their probability on grades": sum(t.mass < 0.5 for t in tokens),
    }
    return [f"{count} of {len(read)} replies {note}" for note, count in counts.items() if count]


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    """What each line holds, and where it stands; ``None`` for a line that is not JSON."""
    if path.suffix.lower() == ".json":
        content = read_json(path, lambda content: content)
        for number, entry in enumerate(content if isinstance(content, list) else [content], 1):
            yield f"{path.name}, entry {number}", entry
        return
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opener(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield f"{path.name}, line {number}", _parsed(line)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file.") from None
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{path}: not readable ({first_line(error)}).") from None


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _gradings(
    where: str, line: Any, wording: Wording, item_key: str | None, judge_key: str | None
) -> Iterator[_Grading | Unread]:
    """The grades of a line's choices."""
    item = ""
    try:
        if not isinstance(line, dict):
            raise UnreadableError("not a JSON object")
        item = _item(line, item_key)
        completion = _completion(line)
        judge = _judge(line, completion, judge_key)
        choices = completion["choices"]
    except UnreadableError as error:
        yield Unread(where, item, str(error))
        return
    for number, choice in enumerate(choices, 1):
        place = where if len(choices) == 1 else f"{where}, choice {number}"
        try:
            yield _grading(place, item, judge, choice, wording)
        except UnreadableError as error:
            yield Unread(place, item, str(error), isinstance(error, OutsideError))


def _grading(where: str, item: str, judge: str, choice: Any, wording: Wording) -> _Grading:
    """The grade of a choice.

    Raises:
        UnreadableError: if it has none.
    """
    text, was_cut = _content(choice)
    try:
        mention = wording.mention(text)
    except UnreadableError as error:
        raise type(error)(f"{error} (cut at its token limit)" if was_cut else str(error)) from None
    at_end = was_cut and len(text) - mention.end < 2  # a decimal point may stand behind it
    rest = text[mention.start :]
    apart, joined = (at_end and len(wording.becoming(rest, joined=joined)) > 1 for joined in (False, True))
    was_cut = was_cut and text.strip() != text[mention.start : mention.end]
    tokens = _tokens(choice, text, mention, wording)
    return _Grading(where, item, judge, mention.grade, was_cut, mention.doubtful, tokens, (apart, joined))


def _tokens(
    choice: Any, text: str, mention: Mention, wording: Wording
) -> tuple[TokenGrades | None, TokenGrades | None]:
    """What the tokens of a choice say, if numbers may have several tokens, and if they have one each."""
    content = _at(choice, "logprobs.content")
    if not content:
        return None, None
    if not isinstance(content, list):
        raise UnreadableError("logprobs.content is no list of tokens")
    apart = token_grades(content, text, mention, wording)
    return apart, token_grades(content, text, mention, wording, joined=True) if apart.divided else apart


def _content(choice: Any) -> tuple[str, bool]:
    """The text of a choice, and whether it was cut at the limit of tokens."""
    message = _at(choice, "message")
    if not isinstance(message, dict):
        raise UnreadableError("no message; expected chat completions, choices[].message.content")
    reason, text = choice.get("finish_reason"), message.get("content")
    if message.get("refusal"):
        raise UnreadableError("the judge refused to answer")
    if text is not None and not isinstance(text, str):
        raise UnreadableError("the content is no text")
    if not text or not text.strip():
        raise UnreadableError(f"empty content (finish_reason {reason})" if reason else "empty content")
    return text, reason == "length"


def _completion(line: dict[str, Any]) -> dict[str, Any]:
    """The completion in a line."""
    wrapped = (line, *(_at(line, key) for key in ("response.body", "completion", "response", "body")))
    holders = [holder for holder in wrapped if isinstance(holder, dict)]
    for holder in holders:
        if holder.get("error"):
            raise UnreadableError(f"an error instead of a completion: {_message(holder['error'])}")
    for holder in holders:
        choices = holder.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):  # a question's choices are texts
            return holder
    raise UnreadableError("no choices")


def _message(error: Any) -> str:
    text = str(error.get("message") or error.get("code") or error) if isinstance(error, dict) else str(error)
    return text.strip().splitlines()[0][:200] if text.strip() else "without a message"


def _item(line: dict[str, Any], key: str | None) -> str:
    for name in ITEM_KEYS if key is None else (key,):
        value = _at(line, name)
        if value is not None:
            return _name(value, name)
    if key is not None:
        raise UnreadableError(f"no {key!r} in the line, which should name the item")
    raise UnreadableError("nothing names the item, neither custom_id nor item; name its key with item=")


def _judge(line: dict[str, Any], completion: dict[str, Any], key: str | None) -> str:
    value = _at(line, "judge" if key is None else key)
    if value is None and key is not None:
        raise UnreadableError(f"no {key!r} in the line, which should name the judge")
    value = completion.get("model") if value is None else value
    return "" if value is None else _name(value, key or "judge or model")


def _name(value: Any, key: str) -> str:
    """A text as it is, or a number as text."""
    if not isinstance(value, str | int | float) or isinstance(value, bool) or is_missing(value):
        raise UnreadableError(f"{key!r} is neither a text nor a number")
    return value if isinstance(value, str) else canonical(value)


def _at(holder: Any, path: str) -> Any:
    """What a dotted path leads to; a key that holds dots itself is tried first."""
    if isinstance(holder, Mapping) and path in holder:
        return holder[path]
    key, _, rest = path.partition(".")
    inner = holder.get(key) if isinstance(holder, Mapping) else None
    return _at(inner, rest) if rest else inner
