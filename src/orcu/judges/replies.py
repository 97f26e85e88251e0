"""What judges said of items, as it was read from logs, and what could not be read."""

from collections import Counter
from dataclasses import dataclass

from orcu.errors import InputError
from orcu.inputs import FloatArray

REASONS_SHOWN = 3


@dataclass(frozen=True)
class Reply:
    """What one judge said of one item, once; several replies of a judge about an item are samples.

    Attributes:
        item: that was graded.
        judge: who graded it.
        probs: of the grades, shape (C,), sums to 1; ``None`` where only a grade is known.
        grade: 0..C-1, the one in the text.
        mass: the grades' share of all probability before they were brought to 1; ``None`` without ``probs``.
    """

    item: str
    judge: str
    probs: FloatArray | None
    grade: int | None
    mass: float | None


@dataclass(frozen=True)
class Unread:
    """A reply that could not be read.

    Attributes:
        where: it stands, such as "answers.jsonl, line 17"; lines count from 1.
        item: it is about; "" if that is not known.
        reason: why it could not be read.
        outside: whether it gives a grade that is none of the scale.
    """

    where: str
    item: str
    reason: str
    outside: bool = False


@dataclass(frozen=True)
class Replies:
    """All that a log holds: every reply is in one of the two lists.

    Attributes:
        replies: that were read, in the order of the log.
        unread: those that were not.
        notes: what there is to say about those that were.
    """

    replies: list[Reply]
    unread: list[Unread]
    notes: list[str]


class UnreadableError(Exception):
    """One reply cannot be read; the text is the reason, which `Unread` keeps."""


class OutsideError(UnreadableError):
    """One reply gives a grade that is none of the scale."""


def need_replies(replies: Replies, name: str) -> Replies:
    """The replies, unless there are none.

    Raises:
        InputError: if nothing was read; the text names the most frequent reasons with their counts.

    Example:
        >>> need_replies(Replies([], [Unread("a.jsonl, line 1", "", "no choices")], []), "a.jsonl")
        Traceback (most recent call last):
        orcu.errors.InputError: a.jsonl: none of its 1 replies can be read. 1 of them: no choices
    """
    if replies.replies:
        return replies
    if not replies.unread:
        raise InputError(f"{name}: holds no replies of judges.")
    reasons = Counter(unread.reason for unread in replies.unread).most_common(REASONS_SHOWN)
    raise InputError(
        f"{name}: none of its {len(replies.unread)} replies can be read. "
        + "; ".join(f"{count} of them: {reason}" for reason, count in reasons)
    )
