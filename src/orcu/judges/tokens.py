"""The distribution over grades at the place of the grade, from the tokens that a server returned there."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from orcu.inputs import LARGEST_TOLERANCE, FloatArray
from orcu.judges.replies import UnreadableError
from orcu.judges.wording import Mention, Wording, without_marks_before

_ROUNDING = 1e-6  # a logarithm above 0 by no more is a probability of 1
_NOISE = 1e-12  # what adding up leaves, which is not missing
_UNKNOWN = -9999.0  # what servers write for "very unlikely": no probability
_CONTINUES = re.compile(r"[^\W_]|[.,]\d")  # what makes a number or a word longer
_FOREIGN = re.compile(r"[^\x00-\x7f]+")


@dataclass(frozen=True)
class TokenGrades:
    """What the tokens at the place of a grade say of all grades.

    Attributes:
        probs: of the grades, shape (C,), sums to 1.
        mass: their share of all probability, before those that were not returned got any.
        filled: whether grades that were not returned got some of the missing probability.
        divided: whether a token that begins several grades was divided among them.
        alone: whether no token was returned but the one that was taken.
        joins: whether a token holds two digits, so that this judge's numbers are one token each.
    """

    probs: FloatArray
    mass: float
    filled: bool
    divided: bool
    alone: bool
    joins: bool


def token_grades(
    tokens: Sequence[Mapping[str, Any]], text: str, mention: Mention, wording: Wording, *, joined: bool = False
) -> TokenGrades:
    """The probabilities of the grades, from the tokens of a reply.

    Returned tokens that spell the same grade are summed; marks and white space around it do not count. Where the grade
    has several tokens, those that were taken are followed: with w the probability of the way to a place and p that of a
    token returned there, w p belongs to the grade that the token leads to; a token that adds nothing to the number or
    word ends it, for the grade that it spells by then. A token that may become several grades and was not taken is
    divided evenly among them.

    Grades that no token of a place leads to share what is missing there: with R the sum of all returned probabilities
    and k such grades, each gets w min(max(0, 1 - R) / k, p_min), never more than the least likely token returned. A
    logprob of -9999, which servers write for "very unlikely", counts as not returned. Then all are brought to 1.

    Args:
        tokens: ``logprobs.content`` of a choice: ``token``, ``bytes``, ``logprob``, ``top_logprobs``.
        text: of the reply.
        mention: of the grade in it.
        wording: how grades are written.
        joined: whether this judge's numbers are one token each, so that a token "1" is no beginning of 10.

    Raises:
        UnreadableError: if the tokens do not spell the text or are no probabilities.

    Example:
        >>> from orcu.judges.scale import Scale
        >>> top = [{"token": "4", "logprob": math.log(0.6)}, {"token": " 5", "logprob": math.log(0.2)}]
        >>> tokens = [{"token": "4", "logprob": math.log(0.6), "top_logprobs": top}]
        >>> wording = Wording(Scale.of("3..5"))
        >>> grades = token_grades(tokens, "4", wording.mention("4"), wording)
        >>> grades.probs.round(3), round(grades.mass, 3)  # the missing 0.2 is 3's: as much as 5 has
        (array([0.2, 0.6, 0.2]), 0.8)
    """
    spelled = [_bytes(token) for token in tokens]
    first, lead = _place(spelled, text, mention)
    mass, fill = np.zeros(len(wording.scale)), np.zeros(len(wording.scale))
    way, done, divided, alone, joins = 1.0, b"", False, True, False
    reachable = frozenset(range(len(wording.scale)))
    for place in range(first, len(tokens)):
        returned = _returned(tokens[place], lead, begins=place == first)
        taken = _folded(spelled[place].removeprefix(lead) if place == first else spelled[place])
        goal = _leads_to(done, taken, wording, joined=False)
        step, offered = 0.0, frozenset[int]()
        for piece, p in returned:
            joins |= re.search(rb"\d\d", piece) is not None
            if piece == taken:
                step += p
                offered |= goal
                continue
            grades = _leads_to(done, piece, wording, joined=joined)
            offered |= grades
            divided |= len(grades) > 1
            for grade in grades:
                mass[grade] += way * p / len(grades)
        missing, left_out = 1 - sum(p for _, p in returned), list(reachable - offered)
        if left_out and missing > _NOISE:
            fill[left_out] += way * min(missing / len(left_out), min((p for _, p in returned), default=0.0))
        alone &= len(returned) < 2
        way *= step
        if len(goal) < 2:
            break
        done, reachable = done + taken, goal
    else:  # the reply ends before a token could say how the number goes on
        goal = frozenset({mention.grade})
    if goal != {mention.grade}:
        raise UnreadableError(f"the grade is only a part of the token {_text(spelled[first])!r}")
    mass[mention.grade] += way
    if not mass.sum() > 0:
        raise UnreadableError("no token returned at the grade's place is a grade")
    return TokenGrades(
        probs=(mass + fill) / (mass + fill).sum(),
        mass=min(1.0, float(mass.sum())),
        filled=bool(fill.any()),
        divided=divided,
        alone=alone,
        joins=joins,
    )


def _leads_to(done: bytes, piece: bytes, wording: Wording, *, joined: bool) -> frozenset[int]:
    """The grades that a token may become, behind what the tokens before it have spelled of the grade."""
    grades = wording.becoming(_text(done + piece), joined=joined) if piece else frozenset[int]()
    if grades or not done or (piece and _CONTINUES.match(_text(piece))):
        return grades
    ended = wording.code(_text(done))
    return frozenset() if ended is None else frozenset({ended})


def _place(spelled: Sequence[bytes], text: str, mention: Mention) -> tuple[int, bytes]:
    """The token in which the grade begins, and what this token holds before it."""
    whole = _text(b"".join(spelled))
    start = _start(whole, text, mention)
    at = len(whole[:start].encode("utf-8", "surrogateescape"))
    for place, end in enumerate(accumulate(map(len, spelled))):
        if at < end:
            return place, spelled[place][: len(spelled[place]) - (end - at)]
    raise UnreadableError(_OTHER_TEXT)


_OTHER_TEXT = "the tokens do not spell the text, so the grade's token is not known"


def _start(whole: str, text: str, mention: Mention) -> int:
    """Where the grade begins in what the tokens spell: the text, thoughts before it, special tokens behind it."""
    at = whole.rfind(text)
    if at >= 0:
        return at + mention.start
    # Servers lose the bytes of characters that are split over tokens: there, anything but ASCII may stand.
    before, grade, after = text[: mention.start], text[mention.start : mention.end], text[mention.end :]
    if _FOREIGN.search(before + after) is None:
        raise UnreadableError(_OTHER_TEXT)
    before = before.lstrip("".join(_FOREIGN.findall(before)))
    loose = [r"[^\x00-\x7f]*".join(map(re.escape, _FOREIGN.split(part))) for part in (before, after)]
    matches = list(re.finditer(f"{loose[0]}({re.escape(grade)}){loose[1]}", whole))
    if not matches:
        raise UnreadableError(_OTHER_TEXT)
    return matches[-1].start(1)


def _returned(token: Mapping[str, Any], lead: bytes, *, begins: bool) -> list[tuple[bytes, float]]:
    """What the tokens returned at a place add to the grade, with their probabilities; the one taken is among them.

    Args:
        token: that was taken there.
        lead: what the first token of the grade holds before it.
        begins: whether the place is that of the first token, where marks before the grade do not count.
    """
    top = token.get("top_logprobs") or []
    if not isinstance(top, list):
        raise UnreadableError("top_logprobs is no list of tokens")
    entries = [(_bytes(entry), _logprob(entry)) for entry in top]
    if _bytes(token) not in (spelled for spelled, _ in entries):
        entries.append((_bytes(token), _logprob(token)))
    known = [(spelled, min(1.0, math.exp(logprob))) for spelled, logprob in entries if logprob > _UNKNOWN]
    total = sum(p for _, p in known)
    if total > 1 + LARGEST_TOLERANCE:
        raise UnreadableError(
            f"the probabilities returned at the grade's place sum to {total:.3g}, so they are no distribution"
        )
    return [(_folded(_unmarked(spelled.removeprefix(lead)) if begins else spelled), p) for spelled, p in known]


def _logprob(entry: Mapping[str, Any]) -> float:
    logprob = entry.get("logprob")
    if not isinstance(logprob, int | float) or isinstance(logprob, bool) or math.isnan(logprob) or logprob > _ROUNDING:
        raise UnreadableError(f"the logprob {logprob!r} is no logarithm of a probability")
    return float(logprob)


def _bytes(entry: Any) -> bytes:
    """What a token spells; a character may be split over several."""
    token, spelled = (entry.get("token"), entry.get("bytes")) if isinstance(entry, Mapping) else (None, None)
    try:
        if isinstance(spelled, list) and spelled:
            return bytes(spelled)
    except (TypeError, ValueError):
        token = None
    if not isinstance(token, str):
        raise UnreadableError("a token of the logprobs has neither text nor bytes")
    return token.encode("utf-8", "surrogatepass")


def _text(spelled: bytes) -> str:
    return spelled.decode("utf-8", "surrogateescape")


def _unmarked(spelled: bytes) -> bytes:
    return without_marks_before(_text(spelled)).encode("utf-8", "surrogateescape")


def _folded(spelled: bytes) -> bytes:
    return _text(spelled).casefold().encode("utf-8", "surrogateescape")
