"""Probabilities of all grades from the tokens that a server returned where the grade was written."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from orcu.inputs import MAX_SUM_TOLERANCE, FloatArray
from orcu.judges.parsing import GradeMatch, GradeParser, strip_prefix
from orcu.judges.replies import ReplyError

_ROUNDING = 1e-6  # a log-probability above 0 by at most this is rounding
_NOISE = 1e-12  # missing probability up to this is rounding
_UNKNOWN = -9999.0  # placeholder of servers for "very unlikely", not a log-probability
_CONTINUES = re.compile(r"[^\W_]|[.,]\d")  # beginning of a token that extends a number or a word
_NON_ASCII = re.compile(r"[^\x00-\x7f]+")
_TEXT_MISMATCH = "the tokens do not spell the text, so the token of the grade is unknown"


@dataclass(frozen=True)
class TokenProbs:
    """Probabilities of the grades from the tokens of a reply."""

    probs: FloatArray  # shape (C,), sum 1
    mass: float  # total probability of the returned grades, before imputation
    is_imputed: bool  # whether grades that were not returned received missing probability
    is_divided: bool  # whether the probability of a token that begins several grades was divided among them
    no_alternatives: bool  # whether only the sampled token was returned
    has_two_digits: bool  # whether a token has two digits, so that this judge writes each number as one token


def token_probs(
    tokens: Sequence[Mapping[str, Any]],
    text: str,
    match: GradeMatch,
    parser: GradeParser,
    *,
    single_token: bool = False,
) -> TokenProbs:
    """Compute the probabilities of the grades from the tokens of a reply.

    Returned tokens that spell the same grade are summed, ignoring punctuation and white space. If the grade has
    several tokens, the sampled ones are followed: with w the probability of the path to a position and p that of a
    token returned there, w p goes to the grade that the token leads to. A token that does not extend the number or
    word ends it, and counts for the grade spelled so far. The probability of a token that was not sampled and can
    become several grades is divided evenly among them.

    Grades that no token of a position leads to share the probability missing there. With R the sum of the returned
    probabilities and k such grades, each receives w min(max(0, 1 - R) / k, p_min), with p_min the smallest returned
    probability. A logprob of -9999 counts as not returned. The result is normalised to 1.

    ``tokens`` is the ``logprobs.content`` of a choice, and ``match`` the position of the grade in its text. A judge
    with ``single_token`` writes each number as one token, so that a token "1" cannot become 10. A ReplyError says that
    the tokens do not spell the text, or that their probabilities are invalid.
    """
    spellings = [_token_bytes(token) for token in tokens]
    first, lead = _first_token(spellings, text, match)
    mass, imputed = np.zeros(len(parser.levels)), np.zeros(len(parser.levels))
    path_probability, spelled = 1.0, b""
    is_divided, no_alternatives, has_two_digits = False, True, False
    reachable = frozenset(range(len(parser.levels)))
    for position in range(first, len(tokens)):
        returned = _returned_tokens(tokens[position], lead, is_first=position == first)
        sampled = _casefold(spellings[position].removeprefix(lead) if position == first else spellings[position])
        target = _next_grades(spelled, sampled, parser, single_token=False)
        step, covered = 0.0, frozenset[int]()
        for piece, p in returned:
            has_two_digits |= re.search(rb"\d\d", piece) is not None
            if piece == sampled:
                step += p
                covered |= target
                continue
            grades = _next_grades(spelled, piece, parser, single_token=single_token)
            covered |= grades
            is_divided |= len(grades) > 1
            for grade in grades:
                mass[grade] += path_probability * p / len(grades)
        missing, uncovered = 1 - sum(p for _, p in returned), list(reachable - covered)
        if uncovered and missing > _NOISE:
            share = min(missing / len(uncovered), min((p for _, p in returned), default=0.0))
            imputed[uncovered] += path_probability * share
        no_alternatives &= len(returned) < 2
        path_probability *= step
        if len(target) < 2:
            break
        spelled, reachable = spelled + sampled, target
    else:  # the reply ends with the grade, so no later token tells how the number continues
        target = frozenset({match.grade})
    if target != {match.grade}:
        raise ReplyError(f"the grade is only a part of the token {_decode(spellings[first])!r}")
    mass[match.grade] += path_probability
    if not mass.sum() > 0:
        raise ReplyError("no token returned at the position of the grade is a grade")
    return TokenProbs(
        probs=(mass + imputed) / (mass + imputed).sum(),
        mass=min(1.0, float(mass.sum())),
        is_imputed=bool(imputed.any()),
        is_divided=is_divided,
        no_alternatives=no_alternatives,
        has_two_digits=has_two_digits,
    )


def _next_grades(spelled: bytes, piece: bytes, parser: GradeParser, *, single_token: bool) -> frozenset[int]:
    """Grades that a token can lead to, after what the previous tokens have spelled of the grade."""
    grades = parser.possible_grades(_decode(spelled + piece), single_token=single_token) if piece else frozenset[int]()
    if grades or not spelled or (piece and _CONTINUES.match(_decode(piece))):
        return grades
    ended = parser.code(_decode(spelled))
    return frozenset() if ended is None else frozenset({ended})


def _first_token(spellings: Sequence[bytes], text: str, match: GradeMatch) -> tuple[int, bytes]:
    """Index of the token in which the grade begins, and the bytes of this token before the grade."""
    full_text = _decode(b"".join(spellings))
    offset = len(full_text[: _grade_start(full_text, text, match)].encode("utf-8", "surrogateescape"))
    for index, end in enumerate(accumulate(map(len, spellings))):
        if offset < end:
            return index, spellings[index][: len(spellings[index]) - (end - offset)]
    raise ReplyError(_TEXT_MISMATCH)


def _grade_start(full_text: str, text: str, match: GradeMatch) -> int:
    """Position of the grade in the text of all tokens: the reply, reasoning before it, special tokens after it."""
    offset = full_text.rfind(text)
    if offset >= 0:
        return offset + match.start
    # Servers lose the bytes of characters that are split over tokens: compare the ASCII characters only.
    before, grade, after = text[: match.start], text[match.start : match.end], text[match.end :]
    if _NON_ASCII.search(before + after) is None:
        raise ReplyError(_TEXT_MISMATCH)
    before = before.lstrip("".join(_NON_ASCII.findall(before)))
    loose = [r"[^\x00-\x7f]*".join(map(re.escape, _NON_ASCII.split(part))) for part in (before, after)]
    matches = list(re.finditer(f"{loose[0]}({re.escape(grade)}){loose[1]}", full_text))
    if not matches:
        raise ReplyError(_TEXT_MISMATCH)
    return matches[-1].start(1)


def _returned_tokens(token: Mapping[str, Any], lead: bytes, *, is_first: bool) -> list[tuple[bytes, float]]:
    """Bytes that each returned token adds to the grade, with its probability; includes the sampled ``token``.

    Of the first token, its bytes before the grade (``lead``) and leading punctuation are ignored.
    """
    top = token.get("top_logprobs") or []
    if not isinstance(top, list):
        raise ReplyError("top_logprobs is not a list of tokens")
    entries = [(_token_bytes(entry), _logprob(entry)) for entry in top]
    if _token_bytes(token) not in (spelling for spelling, _ in entries):
        entries.append((_token_bytes(token), _logprob(token)))
    returned = [(spelling, min(1.0, math.exp(logprob))) for spelling, logprob in entries if logprob > _UNKNOWN]
    total = sum(p for _, p in returned)
    if total > 1 + MAX_SUM_TOLERANCE:
        raise ReplyError(f"the probabilities returned at the position of the grade sum to {total:.3g}; expected 1")
    if not is_first:
        return [(_casefold(spelling), p) for spelling, p in returned]
    stripped = (strip_prefix(_decode(spelling.removeprefix(lead))).casefold() for spelling, _ in returned)
    return [(text.encode("utf-8", "surrogateescape"), p) for text, (_, p) in zip(stripped, returned, strict=True)]


def _logprob(entry: Mapping[str, Any]) -> float:
    logprob = entry.get("logprob")
    if not isinstance(logprob, int | float) or isinstance(logprob, bool) or math.isnan(logprob) or logprob > _ROUNDING:
        raise ReplyError(f"logprob {logprob!r} is not the logarithm of a probability")
    return float(logprob)


def _token_bytes(entry: Any) -> bytes:
    """Bytes of a token; a character may be split over several tokens."""
    token, spelling = (entry.get("token"), entry.get("bytes")) if isinstance(entry, Mapping) else (None, None)
    try:
        if isinstance(spelling, list) and spelling:
            return bytes(spelling)
    except (TypeError, ValueError):
        token = None
    if not isinstance(token, str):
        raise ReplyError("a token in logprobs has neither text nor bytes")
    return token.encode("utf-8", "surrogatepass")


def _decode(spelling: bytes) -> str:
    return spelling.decode("utf-8", "surrogateescape")


def _casefold(spelling: bytes) -> bytes:
    return _decode(spelling).casefold().encode("utf-8", "surrogateescape")
