"""How judges write grades: where a grade stands in a text, and which grades the beginning of a word may become."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from orcu.errors import InputError
from orcu.judges.replies import OutsideError, UnreadableError
from orcu.judges.scale import Scale

# What may surround a grade: white space, quotes, brackets, marks of Markdown; a sign or a decimal point belongs to it.
_BEFORE = " \t\r\n\v\f\u00a0*_`\"'“”‘’([{<#~$:：=>|"
_AFTER = " \t\r\n\v\f\u00a0*_`\"'“”‘’)]}<>#~$:;,.!?|/%"
_LONGEST_QUOTE = 40  # characters of a text in a reason

_ONES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")

_DIGITS = r"[-+−–]?\d++(?:[.,]\d++)*+"
_WORD = (
    rf"(?:(?:{'|'.join(_TENS)})(?:[-\s](?:{'|'.join(_ONES[1:])})\b)?+|{'|'.join(_TEENS + _ONES)})\b"
    r"(?:\s+(?:hundred|thousand|and\s+a\s+half|point\s+\w+)\b)?+"
)
_TO = r"(?:[ \t]*\([^()\d]*\))?[ \t]*(?:[-–—]|\b(?:to|through|and|or)\b)[ \t]*"  # 1 (worst) to 5, or in doubt: 3 or 4
_MARKS = r"[\s*_`()\[\]]*"
# "Score: 4", "**Rating**: 4", "the grade is 4", right before the number
_CALLED = re.compile(r"\b(?:score|grade|rating|mark|verdict)\b[\W_]{0,6}(?:(?:is|of|as)\b[\W_]{1,4})?\Z", re.I)
_OVER = rf"(?:/|\bout\s+of\b(?:\s+[^\W\d_]+){{0,3}}|(?<=\d)[*_`]*\s+of\b){_MARKS}"  # a denominator follows


@dataclass(frozen=True)
class Mention:
    """A grade in a text.

    Attributes:
        start, end: of its characters.
        grade: 0..C-1.
        doubtful: whether another grade stands in the text too, and nothing says which of them is meant.
    """

    start: int
    end: int
    grade: int
    doubtful: bool = False


class Wording:
    r"""How the grades of a scale are written.

    The grade is what the last match of a pattern holds. Without a pattern it is the last number that is called so
    ("Score: 4", "my rating is 4"), or the last number of the text, or the last name of a grade where grades are words.
    Numbers behind "/" or "out of" are denominators, which must be the
    highest grade; "1 to 5" or "1-5" is the name of the scale where it leads from its lowest to its highest grade, and
    otherwise no grade, as is "3 or 4".

    Args:
        scale: of the grades.
        pattern: a regular expression with one group, such as ``Score: (\d+)``.
        words: whether "four" is 4.

    Raises:
        InputError: if the pattern is no regular expression with one group, or ``words`` is asked for where grades are
            no numbers.

    Example:
        >>> wording = Wording(Scale.of("1..5"))
        >>> wording.mention("On a scale of 1 to 5 this is a **4**/5.")
        Mention(start=33, end=34, grade=3, doubtful=False)
        >>> wording.mention("Score: 4. Step 2 is wrong.").grade
        3
        >>> sorted(Wording(Scale.of("1..10")).becoming("1"))
        [0, 9]
    """

    def __init__(self, scale: Scale, *, pattern: str | None = None, words: bool = False) -> None:
        if words and not scale.is_numeric:
            raise InputError(f"words: number words are for grades that are numbers; these are {scale}.")
        self.scale = scale
        self._pattern = None if pattern is None else _compiled(pattern)
        self._words = dict(_number_words(scale)) if words else {}
        number = rf"(?:{_DIGITS}|{_WORD})" if words else _DIGITS
        self._number = re.compile(
            rf"(?P<over>{_OVER})?(?<![^\W_])(?<![^\W_][-–_])"
            rf"(?P<number>(?P<low>{number})(?:{_TO}(?P<high>{number}))?+)(?![^\W_])",
            re.IGNORECASE,
        )
        self._denominator = re.compile(rf"\s?(?P<percent>%)|[^\d.;\n]{{0,20}}?{_OVER}(?P<number>{number})", re.I)
        self._cache: dict[tuple[str, bool], frozenset[int]] = {}

    def code(self, text: str) -> int | None:
        """The grade that a text spells, whatever marks surround it; ``None`` if it spells none."""
        text = " ".join(text.split())
        grade = self.scale.code(text)  # the name of a grade may itself hold marks: "5*"
        if grade is None:
            text = without_marks_before(text).rstrip(_AFTER)
            grade = self.scale.code(text)
        return self._words.get(text.casefold()) if grade is None else grade

    def becoming(self, beginning: str, *, joined: bool = False) -> frozenset[int]:
        """The grades that a text spells or may still become, if more letters or digits follow.

        Args:
            beginning: of a text, without the marks before it; bytes that are no character yet are escaped.
            joined: whether one token holds all digits of a number, so that no digit follows a digit.
        """
        key = (beginning, joined)
        if key not in self._cache:
            self._cache[key] = frozenset(self._becoming(beginning.casefold(), joined)) if beginning else frozenset()
        return self._cache[key]

    def _becoming(self, beginning: str, joined: bool) -> Iterable[int]:
        grade = self.code(beginning)
        if grade is not None:
            yield grade
        start = beginning.encode("utf-8", "surrogateescape")
        for spelling, code in self._spellings:
            if spelling.startswith(start) and len(spelling) > len(start):
                digits = spelling[len(start) - 1 : len(start) + 1].isdigit()
                if not (joined and digits):
                    yield code

    @cached_property
    def _spellings(self) -> list[tuple[bytes, int]]:
        names = ((name.casefold(), code) for code, name in enumerate(self.scale.names))
        return [(text.encode(), code) for text, code in (*names, *self._words.items())]

    def mention(self, text: str) -> Mention:
        """The grade in a text.

        Raises:
            UnreadableError: if there is none, or it is none of the scale.
        """
        spans = self._spans(text)
        called = [span for span in spans if self._pattern is None and _CALLED.search(text, 0, span[0])]
        if not spans:
            raise UnreadableError(
                "no grade in the text" if self._pattern is None else "the pattern matches nothing in the text"
            )
        start, end = (called or spans)[-1]
        quote = text[start:end]
        if self.scale.code(quote) is None:
            start += len(quote) - len(without_marks_before(quote))
            end = max(start, end - len(quote) + len(quote.rstrip(_AFTER)))
        if _is_torn(text, start, end):
            raise UnreadableError(f"the pattern takes {text[start:end]!r} out of a longer number")
        grade = self.code(text[start:end])
        if grade is None:
            raise OutsideError(self.scale.refusal(_short(quote)))
        denominator = self._denominator.match(text, end) if self.scale.is_numeric else None
        if denominator is not None:
            highest = "100" if denominator["percent"] else denominator["number"]
            if self.code(highest) != len(self.scale) - 1:
                raise UnreadableError(
                    f"{text[start : denominator.end()]!r}: the highest grade is {self.scale.names[-1]}, not {highest}"
                )
        doubtful = self._pattern is None and len({text[a:b].casefold() for a, b in called or spans}) > 1
        return Mention(start, end, grade, doubtful)

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """The characters of every grade, or of what stands where one should."""
        if self._pattern is not None:
            return [match.span(1) for match in self._pattern.finditer(text) if match[1]]
        if self.scale.is_numeric:
            return [match.span("number") for match in self._number.finditer(text) if not self._is_aside(match)]
        return [match.span() for match in self._names.finditer(text)]

    def _is_aside(self, number: re.Match[str]) -> bool:
        """Whether a number is a denominator or part of the scale's name, hence no grade."""
        if number["over"] or number["high"] is None:
            return bool(number["over"])
        return (self.code(number["low"]), self.code(number["high"])) == (0, len(self.scale) - 1)

    @cached_property
    def _names(self) -> re.Pattern[str]:
        """Names as whole words, longer ones first; a letter alone keeps its case, since "a" is no grade A.

        The sign behind a name is taken along, so that B+ is refused where it is no grade, and not read as B.
        """
        names = sorted(self.scale.names, key=len, reverse=True)
        words = (rf"(?-i:{re.escape(n)})" if len(n) == 1 else r"\s+".join(map(re.escape, n.split())) for n in names)
        return re.compile(rf"(?<![^\W_])(?:{'|'.join(words)})(?:[+-](?![^\W_]))?+(?![^\W_])", re.IGNORECASE)


def without_marks_before(text: str) -> str:
    """The text without the white space and the marks that may stand before a grade.

    Example:
        >>> without_marks_before(" **4**")
        '4**'
    """
    return text.lstrip(_BEFORE)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError(f"pattern: {pattern!r} is no regular expression ({error}).") from None
    if compiled.groups != 1:
        raise InputError(
            rf"pattern: expected one group, around the grade, such as 'Score: (\d+)'; {pattern!r} has "
            f"{compiled.groups}. Groups that are not the grade are written (?:...)."
        )
    return compiled


def _number_words(scale: Scale) -> Iterable[tuple[str, int]]:
    """The grades from 0 to below 100 in English, halves too."""
    for code, value in enumerate(scale.values):
        whole = int(value)
        if 0 <= value < 100 and value - whole in (0, 0.5):
            ones = f"-{_ONES[whole % 10]}" if whole % 10 else ""
            word = (_ONES + _TEENS)[whole] if whole < 20 else f"{_TENS[whole // 10 - 2]}{ones}"
            yield (word if value == whole else f"{word} and a half"), code


def _is_torn(text: str, start: int, end: int) -> bool:
    """Whether digits stand directly before or behind digits, so that a part of a number would be its grade."""
    before = text[start : start + 1].isdigit() and re.search(r"\d[.,]?$", text[max(0, start - 2) : start])
    return bool(before or (text[end - 1 : end].isdigit() and re.match(r"\d|[.,]\d", text[end : end + 2])))


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."
