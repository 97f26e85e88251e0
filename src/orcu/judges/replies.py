"""What one judge said of one item, once; and what of it could not be read."""

from dataclasses import dataclass

from orcu.inputs import FloatArray


@dataclass(frozen=True)
class Reply:
    """What a judge said of an item.

    Attributes:
        item: its name.
        judge: whose reply it is.
        probs: of the grades, shape (C,), summing to 1; ``None`` where only a grade is known.
        grade: the one that was given, 0..C-1; ``None`` where only probabilities are known.
        mass: what the grades had of all probability before they were brought to 1.
    """

    item: str
    judge: str
    probs: FloatArray | None = None
    grade: int | None = None
    mass: float | None = None


@dataclass(frozen=True)
class Unread:
    """What could not be read: where it stands, of which item, and why."""

    where: str
    item: str
    reason: str


@dataclass(frozen=True)
class Replies:
    """All replies of a log, what could not be read of it, and what there is to say."""

    replies: list[Reply]
    unread: list[Unread]
    notes: list[str]
