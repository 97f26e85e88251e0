"""Replies of judges parsed from log files, and the replies that could not be parsed."""

from collections import Counter
from dataclasses import dataclass, field

from orcu.errors import InputError
from orcu.inputs import FloatArray


@dataclass(frozen=True)
class Reply:
    """One reply of a judge about an item; several replies of a judge about the same item are samples."""

    item: str
    judge: str
    probs: FloatArray | None  # probabilities of the grades, shape (C,), sum 1; None if only the grade is known
    grade: int  # 0..C-1, in the text


@dataclass(frozen=True)
class ParseFailure:
    """A reply that could not be parsed."""

    where: str  # location in the file, such as "answers.jsonl, line 17" (lines count from 1)
    item: str  # "" if unknown
    reason: str
    is_out_of_range: bool = False  # whether the reply gives a grade that is not one of the levels


@dataclass(frozen=True)
class AmbiguousReply:
    """A parsed reply in which other candidates than its grade may be the grade."""

    where: str  # location in the file
    item: str
    grade: str  # name of the grade that is used
    others: tuple[str, ...]  # the other candidates, as they are written


@dataclass(frozen=True)
class ParsedLog:
    """Content of a log file: every reply is in one of the first two lists."""

    replies: list[Reply]
    failures: list[ParseFailure]
    notes: list[str]  # remarks about the parsed replies
    ambiguous: list[AmbiguousReply] = field(default_factory=list)
    human: list[Reply] = field(default_factory=list)  # grades of people in the log; the judge is the rater
    source: str = ""  # recognised format, and the field of the grades

    def require_replies(self, name: str) -> "ParsedLog":
        """This log, if it has a parsed reply; otherwise raise an InputError with the most frequent reasons."""
        if self.replies:
            return self
        if not self.failures:
            raise InputError(f"{name}: the file contains no replies of judges.")
        reasons = Counter(failure.reason for failure in self.failures).most_common(3)
        raise InputError(
            f"{name}: none of the {len(self.failures)} replies could be parsed. "
            + "; ".join(f"{count} of them: {reason}" for reason, count in reasons)
        )


def escape_surrogates(text: str) -> str:
    """Text that can be printed and stored: lone surrogates, which JSON allows and UTF-8 does not, become escapes.

    Example:
        >>> len(escape_surrogates(chr(0xD83D))), escape_surrogates("4 of 5")
        (6, '4 of 5')
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


class ReplyError(Exception):
    """A reply cannot be parsed; the message is the reason in its `ParseFailure`."""


class OutOfRangeError(ReplyError):
    """A reply gives a grade that is not one of the levels."""
