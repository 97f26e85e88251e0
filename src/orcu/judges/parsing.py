"""Finding a grade in the text of a judge's reply, and the grades that the beginning of a text can become."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from orcu.errors import InputError
from orcu.judges.levels import GradeLevels
from orcu.judges.replies import OutOfRangeError, ReplyError

# Characters stripped around a grade: white space, quotes, brackets, Markdown. Signs and decimal points belong to it.
_BEFORE = " \t\r\n\v\f\u00a0*_`\"'“”‘’([{<#~$:：=>|"
_AFTER = " \t\r\n\v\f\u00a0*_`\"'“”‘’)]}<>#~$:;,.!?|/%"
_MAX_QUOTE_LENGTH = 40  # characters of the reply that an error message quotes

_ONES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")

_DIGITS = r"[-+−–]?\d++(?:[.,]\d++)*+"
_WORD = (
    rf"(?:(?:{'|'.join(_TENS)})(?:[-\s](?:{'|'.join(_ONES[1:])})\b)?+|{'|'.join(_TEENS + _ONES)})\b"
    r"(?:\s+(?:hundred|thousand|and\s+a\s+half|point\s+\w+)\b)?+"
)
_TO = r"(?:[ \t]*\([^()\d]*\))?[ \t]*(?:[-–—]|\b(?:to|through|and|or)\b)[ \t]*"  # "1 (worst) to 5", "3 or 4"
_MARKS = r"[\s*_`()\[\]]*"
# Announcement right before the number: "Score: 4", "**Rating**: 4", "the grade is 4"
_ANNOUNCED = re.compile(r"\b(?:score|grade|rating|mark|verdict)\b[\W_]{0,6}(?:(?:is|of|as)\b[\W_]{1,4})?\Z", re.I)
_OVER = rf"(?:/|\bout\s+of\b(?:\s+[^\W\d_]+){{0,3}}|(?<=\d)[*_`]*\s+of\b){_MARKS}"  # introduces a denominator


@dataclass(frozen=True)
class GradeMatch:
    """A grade 0..C-1 found between two character positions of a text."""

    start: int
    end: int
    grade: int
    is_ambiguous: bool = False  # whether other candidates are as plausible


class GradeParser:
    """Parser of grades in free text.

    With a pattern, the grade is the last match of its group. Without one, it is the last announced number
    ("Score: 4", "my rating is 4"), else the last number of the text, or the last level name if levels are words.
    Numbers after "/" or "out of" are denominators and must be the highest level. "1 to 5" or "1-5" is ignored as a
    description of the scale if it goes from the lowest to the highest level; any other range, such as "3 or 4", is
    an error. With ``number_words``, English words count as numbers ("four" as 4).

    Example:
        >>> parser = GradeParser(GradeLevels.parse("1..5"))
        >>> parser.find("On a scale of 1 to 5 this is a **4**/5.")
        GradeMatch(start=33, end=34, grade=3, is_ambiguous=False)
        >>> parser.find("Score: 4. Step 2 is wrong.").grade
        3
        >>> sorted(GradeParser(GradeLevels.parse("1..10")).possible_grades("1"))
        [0, 9]
    """

    def __init__(self, levels: GradeLevels, *, pattern: str | None = None, number_words: bool = False) -> None:
        if number_words and not levels.is_numeric:
            raise InputError(f"number_words: the levels must be numbers; got {levels}.")
        self.levels = levels
        self._pattern = None if pattern is None else _compile_pattern(pattern)
        self._number_words = dict(_number_words(levels)) if number_words else {}
        number = rf"(?:{_DIGITS}|{_WORD})" if number_words else _DIGITS
        self._number = re.compile(
            rf"(?P<over>{_OVER})?(?<![^\W_])(?<![^\W_][-–_])"
            rf"(?P<number>(?P<low>{number})(?:{_TO}(?P<high>{number}))?+)(?![^\W_])",
            re.IGNORECASE,
        )
        self._denominator = re.compile(rf"\s?(?P<percent>%)|[^\d.;\n]{{0,20}}?{_OVER}(?P<number>{number})", re.I)
        self._cache: dict[tuple[str, bool], frozenset[int]] = {}

    def code(self, text: str) -> int | None:
        """Grade 0..C-1 that a text spells, ignoring surrounding punctuation; ``None`` if it spells none."""
        text = " ".join(text.split())
        grade = self.levels.code(text)  # before stripping, because a level name may contain punctuation: "5*"
        if grade is None:
            text = strip_prefix(text).rstrip(_AFTER)
            grade = self.levels.code(text)
        return self._number_words.get(text.casefold()) if grade is None else grade

    def possible_grades(self, prefix: str, *, single_token: bool = False) -> frozenset[int]:
        """Grades that a text spells or can become if more characters follow.

        Incomplete UTF-8 bytes are surrogate-escaped. With ``single_token`` no digit follows a digit.
        """
        key = (prefix, single_token)
        if key not in self._cache:
            self._cache[key] = frozenset(self._possible_grades(prefix.casefold(), single_token) if prefix else ())
        return self._cache[key]

    def _possible_grades(self, prefix: str, single_token: bool) -> Iterable[int]:
        grade = self.code(prefix)
        if grade is not None:
            yield grade
        start = prefix.encode("utf-8", "surrogateescape")
        for spelling, code in self._spellings:
            if spelling.startswith(start) and len(spelling) > len(start):
                splits_number = spelling[len(start) - 1 : len(start) + 1].isdigit()
                if not (single_token and splits_number):
                    yield code

    @cached_property
    def _spellings(self) -> list[tuple[bytes, int]]:
        names = ((name.casefold(), code) for code, name in enumerate(self.levels.names))
        return [(text.encode(), code) for text, code in (*names, *self._number_words.items())]

    def find(self, text: str) -> GradeMatch:
        """Find the grade in a text; raise a ReplyError if there is none, or it is not one of the levels."""
        spans = self._candidate_spans(text)
        if not spans:
            missing = "no grade in the text" if self._pattern is None else "the pattern does not match the text"
            raise ReplyError(missing)
        announced = [span for span in spans if self._pattern is None and _ANNOUNCED.search(text, 0, span[0])]
        start, end = (announced or spans)[-1]
        quote = text[start:end]
        if self.levels.code(quote) is None:
            start += len(quote) - len(strip_prefix(quote))
            end = max(start, end - len(quote) + len(quote.rstrip(_AFTER)))
        if _is_inside_number(text, start, end):
            raise ReplyError(f"the pattern matches {text[start:end]!r}, which is part of a longer number")
        grade = self.code(text[start:end])
        if grade is None:
            shown = quote.strip()
            shown = shown if len(shown) <= _MAX_QUOTE_LENGTH else f"{shown[:_MAX_QUOTE_LENGTH]}..."
            raise OutOfRangeError(self.levels.mismatch_message(shown))
        denominator = self._denominator.match(text, end) if self.levels.is_numeric else None
        if denominator is not None:
            highest = "100" if denominator["percent"] else denominator["number"]
            if self.code(highest) != len(self.levels) - 1:
                raise ReplyError(
                    f"{text[start : denominator.end()]!r}: the highest grade is {self.levels.names[-1]}, not {highest}"
                )
        candidates = {text[first:last].casefold() for first, last in announced or spans}
        return GradeMatch(start, end, grade, is_ambiguous=self._pattern is None and len(candidates) > 1)

    def _candidate_spans(self, text: str) -> list[tuple[int, int]]:
        """Character positions of all candidate grades."""
        if self._pattern is not None:
            return [match.span(1) for match in self._pattern.finditer(text) if match[1]]
        if self.levels.is_numeric:
            return [match.span("number") for match in self._number.finditer(text) if not self._describes_scale(match)]
        return [match.span() for match in self._level_names.finditer(text)]

    def _describes_scale(self, number: re.Match[str]) -> bool:
        """Whether a number is a denominator or the range of the scale."""
        if number["over"] or number["high"] is None:
            return bool(number["over"])
        return (self.code(number["low"]), self.code(number["high"])) == (0, len(self.levels) - 1)

    @cached_property
    def _level_names(self) -> re.Pattern[str]:
        """Level names as whole words, the longest first; single letters are case-sensitive, since "a" is an article.

        A sign after a name is part of the match: "B+" is out of range if it is not a level, and is not read as "B".
        """
        names = sorted(self.levels.names, key=len, reverse=True)
        words = (rf"(?-i:{re.escape(n)})" if len(n) == 1 else r"\s+".join(map(re.escape, n.split())) for n in names)
        return re.compile(rf"(?<![^\W_])(?:{'|'.join(words)})(?:[+-](?![^\W_]))?+(?![^\W_])", re.IGNORECASE)


def strip_prefix(text: str) -> str:
    """Remove the white space and punctuation before a grade."""
    return text.lstrip(_BEFORE)


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError(f"pattern: {pattern!r} is not a regular expression ({error}).") from None
    if compiled.groups != 1:
        raise InputError(
            rf"pattern: expected one group around the grade, such as 'Score: (\d+)'; {pattern!r} has "
            f"{compiled.groups}. Write other groups as (?:...)."
        )
    return compiled


def _number_words(levels: GradeLevels) -> Iterable[tuple[str, int]]:
    """English words of the levels from 0 to below 100, including halves."""
    for code, value in enumerate(levels.values):
        integer = int(value)
        if 0 <= value < 100 and value - integer in (0, 0.5):
            ones = f"-{_ONES[integer % 10]}" if integer % 10 else ""
            word = (_ONES + _TEENS)[integer] if integer < 20 else f"{_TENS[integer // 10 - 2]}{ones}"
            yield (word if value == integer else f"{word} and a half"), code


def _is_inside_number(text: str, start: int, end: int) -> bool:
    """Whether the span has a digit next to it, so that it is only a part of a number."""
    before = text[start : start + 1].isdigit() and re.search(r"\d[.,]?$", text[max(0, start - 2) : start])
    return bool(before or (text[end - 1 : end].isdigit() and re.match(r"\d|[.,]\d", text[end : end + 2])))
