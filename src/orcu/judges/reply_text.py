"""Words and signs around a grade in a judge's reply: reasoning, announcements, bounds, negations, and the verdict."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_REASONING = re.compile(r"[<\[](?P<close>/?)(?:think|thinking|thought|reasoning|analysis|scratchpad)[>\]]", re.I)
_CLOSING_TAG = re.compile(r"</[a-z_]{1,30}>", re.I)
FORMATTING = re.compile(r"</?(?:b|i|u|em|strong|p|br|span|div|code|h[1-6])\s?/?>", re.I)
_LABEL = re.compile(
    r"(?<![^\W_])(?:scores?|grades?|ratings?|marks?|verdict|assessment|boxed"
    r"|(?:final(?:\s+answer)?|overall|total)(?=[\s*_`\"'”]*[:=：]))(?![^\W_])|<answer>|评分|得分|分数",
    re.IGNORECASE,
)
_MAX_GAP = 100  # characters between a label and its grade
_FILL = r"(?:(?![.!?;])[\W_])*"  # punctuation within a sentence
# Between label and grade: "Score (higher is better): ", "grade is "
_GAP = re.compile(rf"{_FILL}(?:\([^()\d]{{0,60}}\){_FILL})?(?:(?:is|of|as|was|at)\b{_FILL})?", re.I)
_WINDOW = 60  # characters before a grade in which its bound or negation is searched
_QUOTES = r"[*_`\"'“‘(\[]*\Z"
_BOUND = re.compile(
    r"(?:[<>≤≥⩽⩾]=?\s*|\b(?:(?:less|more|lower|higher|greater|worse|better)\s+than|below|above|under|over"
    rf"|at\s+(?:least|most)|up\s+to|almost|nearly|exceeds|exceeding)\s+(?:an?\s+)?){_QUOTES}",
    re.IGNORECASE,
)
_NOT_BOUND = re.compile(rf"(?:<[^<>]{{1,30}}>|[-=>]>|(?:\A|\n)\s*>)\s*{_QUOTES}")  # a tag, an arrow, a quoted line
_NEGATION = re.compile(
    r"\b(?:not|never|no|nor|neither|cannot|hardly|barely|without|far\s+from|rather\s+than|instead\s+of|\w+n['’]t)\s+"
    r"(?:(?:an?|the|be|been|give|deserve|merit|reach|get|is|quite|really|so|very|exactly|just|even|as|too|that|it)\s+)"
    rf"{{0,4}}{_QUOTES}",
    re.IGNORECASE,
)
_LEAD_WORDS = "so|thus|therefore|hence|finally|final|overall|total|my|the|our|its?|i|give|assign"
_LEAD = rf"[\W_]*(?:(?:{_LEAD_WORDS})(?![^\W_])[\W_]*){{0,4}}"
_OPENING = re.compile(_LEAD, re.I)
_SENTENCE_START = re.compile(rf"(?:\A|[\n.!?;。！？]|[,{{]\s*[\"'“]|<){_LEAD}\Z", re.I)
_SENTENCE_END = re.compile(r"[ \t*_`\"'”’)\]}>]*+(?:\Z|[\n.;,!|(<—–-])")
_LINE_END = re.compile(r"[^\S\n]*+[*_`\"'”’)\]}.|]*+[^\S\n]*+(?:\Z|\n)")
_REVISION = re.compile(
    r"\b(?:actually|wait|on\s+(?:second|reflection)|scratch\s+that|correction|reconsider\w*|revis(?:e|ed|ing|ion)"
    r"|i\s+take|changed?\s+my)\b|\bno\s*+[,.:;!—–]",
    re.IGNORECASE,
)
# A label with a colon, such as "Score: "; a refusal, such as "I cannot score this"; a question mark after a grade
_COLON = re.compile(rf"(?:{_LABEL.pattern})[\s*_`\"'”()\[\]]*+[:=：]", re.IGNORECASE)
_REFUSAL = re.compile(
    r"\b(?:cannot|can['’]t|can\s+not|unable\s+to|won['’]t|will\s+not|not\s+able\s+to|refuse\s+to|decline\s+to)\s+"
    r"(?:\w+\s+){0,2}(?:score|grade|rate|evaluate|judge|assess)\b",
    re.IGNORECASE,
)
# Before a grade that is quoted from the graded answer: 'The answer says "', "The student wrote: "
_QUOTATION = re.compile(
    r"\b(?:answer|response|reply|text|student|candidate|author|user|model|assistant|submission|it)\s+(?:itself\s+)?"
    r"(?:says?|said|states?|stated|claims?|claimed|ends?|ended|writes?|wrote|contains?|reads?|includes?|asks?)\b"
    r"[^.!?\n]{0,40}[:\"'“‘«]\s*+[\"'“‘«`*_\s]*+\Z",
    re.IGNORECASE,
)
_SECOND_NUMBER = re.compile(r"[ \t]+\d|[ \t]*[(\[](?:[^\W\d_]+|\d+)[)\]]")  # "1 0", "4 (five)"
_QUESTION = re.compile(r"[*_`\"'”’)\]]*+[?？]")


@dataclass(frozen=True)
class Candidate:
    """A text that may be the grade of a reply."""

    start: int
    end: int
    text: str
    grade: int | None  # 0..C-1, or None if the text is not one of the levels
    label: int | None = None  # position of the word that announces it, such as "Score"
    is_excluded: bool = False  # whether it is in the text, but cannot be the grade
    problem: str = ""  # why it is not a grade, although it is written like one

    @property
    def key(self) -> int | str:
        """Candidates with equal keys give the same grade."""
        return self.text.casefold() if self.grade is None else self.grade


def blank(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Replace the characters of ascending spans by spaces, so that all positions stay valid."""
    parts, position = [], 0
    for start, end in spans:
        parts += [text[position:start], " " * (end - start)]
        position = end
    return "".join([*parts, text[position:]])


def reasoning_spans(text: str) -> list[tuple[int, int]]:
    """Spans of the reasoning before an answer, such as <think>...</think>, in ascending order.

    Everything before a closing tag without an opening one is reasoning, and so is everything after an opening tag
    without a closing one.
    """
    spans: list[tuple[int, int]] = []
    opened: int | None = None
    for tag in _REASONING.finditer(text):
        if not tag["close"]:
            opened = tag.start() if opened is None else opened
        elif opened is None:
            spans = [(0, tag.end())]
        else:
            spans.append((opened, tag.end()))
            opened = None
    return spans if opened is None else [*spans, (opened, len(text))]


def label_positions(text: str, starts: Iterable[int]) -> Iterator[int | None]:
    """For each of ascending positions, where the word that announces a grade there begins; ``None`` without one."""
    labels = _LABEL.finditer(text)
    following, label = next(labels, None), None
    for start in starts:
        while following is not None and following.end() <= start:
            label, following = following, next(labels, None)
        near = label is not None and start - label.end() <= _MAX_GAP
        yield label.start() if near and label and _GAP.fullmatch(text, label.end(), start) else None


def is_bound(text: str, start: int, end: int) -> bool:
    """Whether a number is a bound, such as "<4" or "at least 4"; "<4>" and "-> 4" are not."""
    before = text[max(0, start - _WINDOW) : start]
    bound = _BOUND.search(before)
    if bound is None or _NOT_BOUND.search(before):
        return False
    return not (bound[0].startswith("<") and text[end : end + 1] == ">")


def is_negated(text: str, start: int) -> bool:
    """Whether a grade is denied, such as "not good" or "rather than a 5"."""
    return _NEGATION.search(text[max(0, start - _WINDOW) : start]) is not None


def is_question(text: str, end: int) -> bool:
    """Whether a question mark follows a grade."""
    return _QUESTION.match(text, end) is not None


@dataclass(frozen=True)
class ReplyText:
    """Visible text of a reply, and its candidates in ascending order."""

    text: str  # without reasoning and the notation of the scale
    candidates: list[Candidate]

    def choose(self) -> tuple[Candidate, bool]:
        """The grade of the reply, and whether a rule decides between it and other candidates.

        See `orcu.judges.parsing.GradeParser` for the rules.
        """
        affirmed = [candidate for candidate in self.candidates if not candidate.is_excluded]
        labelled = [candidate for candidate in affirmed if candidate.label is not None]
        closing = affirmed[-1] if self._is_closing(affirmed[-1]) else None
        opening = affirmed[0] if self._is_opening(affirmed[0]) else None
        if opening is not None and _REVISION.search(self.text, opening.end):
            opening = None
        chosen = closing or opening or (labelled or affirmed)[-1]
        rivals = [candidate for candidate in self.candidates if candidate.label is not None]
        rivals += [*(verdict for verdict in (closing, opening) if verdict is not None)]
        if self._ends_with(affirmed[-1]):
            rivals.append(affirmed[-1])
        has_verdict = closing is not None or opening is not None
        return chosen, has_verdict and all(rival.key == chosen.key for rival in rivals)

    def doubt(self, chosen: Candidate) -> str | None:
        """Text that casts doubt on a grade.

        It is a quotation of the graded answer before it, or a second number behind it; for a grade without a label also
        a label without a grade, or a refusal.
        """
        start = chosen.start if chosen.label is None else chosen.label
        quotation = _QUOTATION.search(self.text[max(0, start - 2 * _WINDOW) : start])
        if quotation is not None:
            return quotation[0].strip()
        second = _SECOND_NUMBER.match(self.text, chosen.end)
        rivals = {candidate.start for candidate in self.candidates if candidate.key != chosen.key}
        if second is not None and rivals & set(range(second.start(), second.end())):
            return self.text[chosen.start : second.end()].strip()
        if chosen.label is not None:
            return None
        labels = {candidate.label for candidate in self.candidates}
        empty = (match for match in _COLON.finditer(self.text) if match.start() not in labels)
        doubt = next(empty, None) or _REFUSAL.search(self.text)
        return None if doubt is None else self.text[doubt.start() : doubt.end() + 10].split("\n")[0].strip()

    def _ends_with(self, candidate: Candidate) -> bool:
        text = _CLOSING_TAG.sub("", self.text[candidate.end :])
        return not any(character.isalnum() for character in text)

    def _is_closing(self, candidate: Candidate) -> bool:
        """Whether a grade ends the reply: as a sentence that begins with its label, or alone on the last line."""
        if not self._ends_with(candidate):
            return False
        if candidate.label is not None:
            before = self.text[max(0, candidate.label - _WINDOW) : candidate.label]
            return _SENTENCE_START.search(before if candidate.label > _WINDOW else f"\n{before}") is not None
        line = self.text[self.text.rfind("\n", 0, candidate.start) + 1 : candidate.start]
        return not any(character.isalnum() for character in line)

    def _is_opening(self, candidate: Candidate) -> bool:
        """Whether a grade begins the reply: as a sentence that begins with its label, or alone on the first line."""
        if candidate.label is not None:
            return (
                _OPENING.fullmatch(self.text, 0, candidate.label) is not None
                and _SENTENCE_END.match(self.text, candidate.end) is not None
            )
        before = self.text[: candidate.start]
        is_first = not any(character.isalnum() for character in before)
        return is_first and _LINE_END.match(self.text, candidate.end) is not None
