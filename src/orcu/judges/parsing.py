"""Finding a grade in the text of a judge's reply, and the grades that the beginning of a text can become."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from orcu.errors import InputError
from orcu.judges.levels import GradeLevels
from orcu.judges.replies import OutOfRangeError, ReplyError
from orcu.judges.reply_text import (
    FORMATTING,
    Candidate,
    ReplyText,
    blank,
    is_bound,
    is_negated,
    is_question,
    label_positions,
    reasoning_spans,
)

# Characters stripped around a grade: white space, quotes, brackets, Markdown. Signs and decimal points belong to it.
_BEFORE = " \t\r\n\v\f\u00a0*_`\"'“”‘’([{<#~$:：=>|"
_AFTER = " \t\r\n\v\f\u00a0*_`\"'“”‘’)]}<>#~$:;,.!?|/%"
_MAX_QUOTE_LENGTH = 40  # characters of the reply that an error message quotes

_ONES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")

_FRACTIONS = {"½": 0.5, "¼": 0.25, "¾": 0.75, "1/2": 0.5, "1/4": 0.25, "3/4": 0.75, "1/3": 1 / 3, "2/3": 2 / 3}
_FRACTION = r"(?:[ \t]?[½¼¾]|[ \t]+(?:1[/⁄][234]|2[/⁄]3|3[/⁄]4)(?![\d/]))"
_DIGITS = rf"[-+−–]?\d++(?:[.,]\d++)*+(?:{_FRACTION})?+"
_WORD = (
    rf"(?:(?:{'|'.join(_TENS)})(?:[-\s](?:{'|'.join(_ONES[1:])})\b)?+|{'|'.join(_TEENS + _ONES)})\b"
    r"(?:\s+(?:hundred|thousand|and\s+a\s+half|point\s+\w+)\b)?+"
)
# "1 (worst) to 5", "3 or 4", "1..5"
_TO = r"(?:[ \t]*+\([^()\d]*+\))?[ \t]*+(?:[-–—~]|\.{2,3}|…|\b(?:to|through|and|or)\b)[ \t]*+"
_MARKS = r"[\s*_`()\[\]]*+"
_SLASH = "[/⁄∕／]"
# Before a denominator: "4/5", "4 out of 5", "4 of 5", "4 points of 5", "4 on a scale of 5", "4 (max 5)"
_OVER = (
    rf"(?:{_SLASH}|\bmax(?:imum|\.)?(?![^\W_])[\s:=]*+|\b(?:points?|stars?|marks?)\s++of\b"
    rf"|\bout\s++of\b(?:\s++[^\W\d_]++){{0,3}}?|\bscale\s++(?:of|from)\b|(?<=\d)[*_`]*+\s++of\b){_MARKS}"
)
_SEPARATOR = r"(?:\s*+[,/|;]\s*+(?:(?:and|or)\s++)?+|\s++(?:and|or)\s++)"  # in a list of all levels
_SCALE_AFTER = re.compile(r"[-\s]*+(?:points?[-\s]++)?(?:[^\W\d_]++\s++)?scale\b", re.I)  # "1-10 scale"
_POINT_SCALE = re.compile(r"[-\s]*+points?[-\s]++(?:[^\W\d_]++\s++)?scale\b", re.I)  # "5-point Likert scale"
# Before a grade, a denominator that is not the highest level: "Score (out of 10): 4"
_OTHER_BASE = re.compile(rf"{_OVER}(?P<number>{_DIGITS}|{_WORD})[^\w.!?;\n]{{0,12}}\Z", re.I)


@dataclass(frozen=True)
class GradeMatch:
    """A grade 0..C-1 found between two character positions of a text."""

    start: int
    end: int
    grade: int
    others: tuple[str, ...] = ()  # other candidates, if no rule decides between them and the grade

    @property
    def is_ambiguous(self) -> bool:
        """Whether another grade in the text may be the one that the judge gave."""
        return bool(self.others)


class GradeParser:
    """Parser of grades in free text.

    With a pattern, the grade is the last match of its group. Without one:

    1. Reasoning in tags (<think>...</think>) is ignored.
    2. The notation of the scale is ignored: the range of the levels ("1-5", "1 to 5", "(1..5)"), the list of all
       levels, and the highest level as a denominator ("/5", "out of 5"). Another denominator, another scale, a range
       ("3 or 4"), a bound ("<4", "at least 4") and a number between the levels ("3 1/2") are errors.
    3. All other numbers, or level names if levels are words, are candidates. A negated one ("not good") and one with a
       question mark ("5?") are never the grade, but may make another one ambiguous.
    4. The grade is the verdict at the end of the reply, else the one at its beginning, else the last announced
       candidate ("Score: 4", "my rating is 4"), else the last one. A verdict is a sentence that starts with its label
       ("Score: 4."), or a grade alone on the first or last line. The verdict at the beginning does not count if the
       reply revises it ("actually", "wait").
    5. The grade is ambiguous if there are candidates of other grades. The exception: it is a verdict, and all verdicts,
       all announced candidates, and a candidate at the very end agree. A grade without a label is also ambiguous if a
       label has no grade ("Score: N/A"), or the judge refuses ("I cannot grade this"). So is one that the judge quotes
       ('The answer says "Score: 5"'), one with another number in brackets ("4 (five)"), or behind it ("1 0").

    With ``number_words``, English words count as numbers ("four" as 4). Without, an announced word is an error, and
    another one (except "one") is a candidate that is never the grade.

    Example:
        >>> parser = GradeParser(GradeLevels.parse("1..5"))
        >>> parser.find("On a scale of 1 to 5 this is a **4**/5.")
        GradeMatch(start=33, end=34, grade=3, others=())
        >>> parser.find("<think>A score of 5? No.</think> Score: 4. Step 2 is wrong.")
        GradeMatch(start=40, end=41, grade=3, others=())
        >>> parser.find("The student wrote: Score: 5. Final: 2")
        GradeMatch(start=36, end=37, grade=1, others=('5',))
        >>> sorted(GradeParser(GradeLevels.parse("1..10")).possible_grades("1"))
        [0, 9]
    """

    def __init__(self, levels: GradeLevels, *, pattern: str | None = None, number_words: bool = False) -> None:
        if number_words and not levels.is_numeric:
            raise InputError(f"number_words: the levels must be numbers; got {levels}.")
        self.levels = levels
        self._pattern = None if pattern is None else _compile_pattern(pattern)
        self._words = dict(_number_words(levels)) if levels.is_numeric else {}
        self._number_words = self._words if number_words else {}
        number = rf"(?:{_DIGITS}|{_WORD})"
        self._number = re.compile(
            rf"(?P<over>{_OVER})?(?<![^\W_])(?<![^\W_][-–_])"
            rf"(?P<number>(?P<low>{_DIGITS}|(?P<word>{_WORD}))(?:{_TO}(?P<high>(?(word){_WORD}|{_DIGITS})))?+"
            r"(?:[+](?![^\W_]|\s*\d)|-(?=[\s.,;]*\Z))?+)(?![^\W_])",  # "4+" and "4-" are not 4
            re.IGNORECASE,
        )
        self._denominator = re.compile(
            rf"\s?(?P<percent>[%％٪]|per\s?cent\b)|[^\d.;\n]{{0,20}}?(?:{_OVER}(?P<number>{number})(?![^\W_])(?!{_TO}\d)"
            rf"|[(\[](?P<maximum>{_DIGITS})\s*+max(?:imum)?\b)",
            re.IGNORECASE,
        )
        self._cache: dict[tuple[str, bool], frozenset[int]] = {}

    def code(self, text: str) -> int | None:
        """Grade 0..C-1 that a text spells, ignoring surrounding punctuation; ``None`` if it spells none."""
        text = " ".join(text.split())
        grade = self.levels.code(text)  # before stripping, because a level name may contain punctuation: "5*"
        if grade is None:
            text = strip_prefix(text).rstrip(_AFTER)
            grade = self.levels.code(text)
        if grade is None:
            grade = self._number_words.get(text.casefold())
        return _mixed_number(text, self.levels) if grade is None else grade

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
        reasoning = reasoning_spans(text)
        if self._pattern is not None:
            candidates = self._pattern_candidates(self._pattern, text, reasoning)
            chosen, is_decided, visible, doubt = candidates[-1], False, text, None
        else:
            visible = blank(text, reasoning)
            reply = self._parse(visible)
            if all(candidate.is_excluded for candidate in reply.candidates):
                reasons = [candidate.problem for candidate in reply.candidates if candidate.problem]
                missing = "no grade in the text after its reasoning" if reasoning else "no grade in the text"
                raise ReplyError(reasons[-1] if reasons else missing)
            (chosen, is_decided), candidates = reply.choose(), reply.candidates
            doubt = reply.doubt(chosen)
        if chosen.problem:
            raise ReplyError(chosen.problem)
        start, end = self._strip(text, chosen.start, chosen.end)
        if _is_inside_number(text, start, end):
            raise ReplyError(f"the pattern matches {text[start:end]!r}, which is part of a longer number")
        if chosen.grade is None:
            raise OutOfRangeError(self.levels.mismatch_message(_shorten(chosen.text.strip())))
        if self.levels.is_numeric:
            self._check_denominator(visible, start, end)
        others = {
            candidate.key: _shorten(candidate.text.strip())
            for candidate in candidates
            if candidate.key != chosen.key and self._is_on_scale(candidate)
        }
        listed = () if is_decided else tuple(others.values())
        return GradeMatch(start, end, chosen.grade, listed if doubt is None else (*listed, doubt))

    def _strip(self, text: str, start: int, end: int) -> tuple[int, int]:
        """Span of a candidate without surrounding punctuation."""
        quote = text[start:end]
        if self.levels.code(quote) is None:
            start += len(quote) - len(strip_prefix(quote))
            end = max(start, end - len(quote) + len(quote.rstrip(_AFTER)))
        return start, end

    def _pattern_candidates(
        self, pattern: re.Pattern[str], text: str, reasoning: list[tuple[int, int]]
    ) -> list[Candidate]:
        """Matches of the pattern outside the reasoning; at least one."""
        hidden = blank(text, reasoning)
        spans = (match.span(1) for match in pattern.finditer(text) if match[1])
        candidates = [
            Candidate(start, end, text[start:end], self.code(text[start:end]))
            for start, end in spans
            if hidden[start:end] == text[start:end]
        ]
        if not candidates:
            raise ReplyError("the pattern does not match the text")
        return candidates

    def _check_denominator(self, text: str, start: int, end: int) -> None:
        """Raise if the denominator after a grade is not the highest level."""
        denominator = self._denominator.match(text, end)
        if denominator is None:
            return
        highest = "100" if denominator["percent"] else denominator["number"] or denominator["maximum"]
        if self._any_code(highest) != len(self.levels) - 1:
            raise ReplyError(
                f"{text[start : denominator.end()]!r}: the highest grade is {self.levels.names[-1]}, not {highest}"
            )

    def _parse(self, text: str) -> ReplyText:
        """Candidates of a text without reasoning."""
        for pattern in (FORMATTING, self._level_lists):
            text = blank(text, (match.span() for match in pattern.finditer(text)))
        if not self.levels.is_numeric:
            spans = [match.span() for match in self._level_names.finditer(text)]
            return ReplyText(text, list(self._describe(text, spans)))
        notation, spans = list[tuple[int, int]](), list[tuple[int, int]]()
        for number in self._number.finditer(text):
            if self._describes_scale(number):
                notation.append(number.span())
            elif number["over"] is None or number["high"] is not None:
                spans.append(number.span("number"))
        text = blank(text, notation)
        return ReplyText(text, list(self._describe(text, spans)))

    def _describe(self, text: str, spans: list[tuple[int, int]]) -> Iterator[Candidate]:
        """Candidates of the spans, with what the words around them say."""
        labels = label_positions(text, (start for start, _ in spans))
        for (start, end), label in zip(spans, labels, strict=True):
            quote = text[start:end]
            is_unread_word = self.levels.is_numeric and quote[0].isalpha() and not self._number_words
            is_excluded, problem = is_negated(text, start), ""
            if is_unread_word and label is None:
                if self._any_code(quote) is None or quote.casefold() == "one":  # "this one" is not a grade
                    continue
                is_excluded = True
            elif is_unread_word:
                problem = f"{_shorten(quote)!r} is a number word; read number words with number_words= (--number-words)"
            elif is_excluded:
                problem = f"{_shorten(quote)!r} is negated, and there is no other grade"
            elif is_question(text, end):
                is_excluded, problem = True, f"{_shorten(quote)!r} is a question, and there is no other grade"
            elif is_bound(text, start, end):
                problem = f"{text[max(0, start - 10) : end].strip()!r} is a bound, not a grade"
            elif self.levels.is_numeric and (base := _OTHER_BASE.search(text[max(0, start - 40) : start])):
                problem = f"the highest grade is {self.levels.names[-1]}, not {base['number']}"
            grade = self._any_code(quote) if is_unread_word else self.code(quote)
            yield Candidate(start, end, quote, grade, label, is_excluded, problem)

    def _any_code(self, text: str) -> int | None:
        """Grade that a number or a number word spells."""
        code = self.code(text)
        return self._words.get(" ".join(text.casefold().split())) if code is None else code

    def _describes_scale(self, number: re.Match[str]) -> bool:
        """Whether a number is the highest level as a denominator, or the range of the scale.

        Raise a ReplyError for another scale, such as "on a scale of 1 to 10" if the levels are 1..5.
        """
        highest, text = len(self.levels) - 1, number.string
        if number["high"] is not None:
            is_scale = (self._any_code(number["low"]), self._any_code(number["high"])) == (0, highest)
            names_scale = (number["over"] or "").lower().startswith("scale") or _SCALE_AFTER.match(text, number.end())
        elif number["over"] is not None:
            return self._any_code(number["low"]) == highest
        else:
            names_scale = _POINT_SCALE.match(text, number.end())
            is_scale = bool(names_scale) and (
                self._any_code(number["low"]) == highest or number["low"] == str(len(self.levels))
            )
        if names_scale and not is_scale:
            ends = f"{self.levels.names[0]} to {self.levels.names[-1]}"
            raise ReplyError(f"the reply has another scale, {_shorten(number['number'])!r}; the levels are {ends}")
        return is_scale

    def _is_on_scale(self, candidate: Candidate) -> bool:
        """Whether a candidate may be meant as a grade: a level, or no number outside the scale."""
        if candidate.grade is not None or not self.levels.is_numeric:
            return True
        try:
            value = float(candidate.text.replace(",", "."))
        except ValueError:
            return True  # a range
        return bool(self.levels.values[0] <= value <= self.levels.values[-1])

    @cached_property
    def _level_lists(self) -> re.Pattern[str]:
        """List of all levels, such as "1, 2, 3" or "poor/fair/good"; of two levels only in brackets: 0/1 is a grade."""
        names = _SEPARATOR.join(map(re.escape, self.levels.names))
        pattern = rf"(?<![\w.,]){names}(?!\w)" if len(self.levels) > 2 else rf"[(\[]\s*+{names}\s*+[)\]]"
        return re.compile(pattern, re.IGNORECASE)

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


def _mixed_number(text: str, levels: GradeLevels) -> int | None:
    """Grade of a number with a fraction: "3 1/2" is 3.5."""
    whole, fraction = text[:-1], text[-1:]
    if fraction not in _FRACTIONS:
        whole, _, fraction = text.replace("⁄", "/").rpartition(" ")
    if fraction not in _FRACTIONS or not whole.strip().isdecimal():
        return None
    return levels.code(f"{int(whole) + _FRACTIONS[fraction]:.10g}")


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_QUOTE_LENGTH else f"{text[:_MAX_QUOTE_LENGTH]}..."


def _is_inside_number(text: str, start: int, end: int) -> bool:
    """Whether the span has a digit next to it, so that it is only a part of a number."""
    before = text[start : start + 1].isdigit() and re.search(r"\d[.,]?\Z", text[max(0, start - 2) : start])
    return bool(before or (text[end - 1 : end].isdigit() and re.match(r"\d|[.,]\d", text[end : end + 2])))
