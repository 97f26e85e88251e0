"""The scale of grades: their names from the lowest on, and what each is worth in a mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.inputs import FloatArray
from orcu.predictions.labels import canonical

MOST_GRADES = 101  # 0..100; more are no grades but a measurement


@dataclass(frozen=True)
class Scale:
    """Grades in their order.

    Attributes:
        names: of the grades, lowest first.

    Example:
        >>> scale = Scale.of("1..5")
        >>> scale.names, scale.code("4.0"), scale.code("six")
        (('1', '2', '3', '4', '5'), 3, None)
        >>> Scale.of("1..3:0.5").names
        ('1', '1.5', '2', '2.5', '3')
        >>> Scale.of("poor,fair,good").values
        array([1., 2., 3.])
    """

    names: tuple[str, ...]

    @classmethod
    def of(cls, grades: "str | Sequence[Any] | Scale") -> "Scale":
        """The scale in what a user wrote: ``"1..5"``, ``"1..5:0.5"`` (in halves), or the names, lowest first.

        Raises:
            InputError: if it is none of these, or a name stands twice.
        """
        if isinstance(grades, Scale):
            return grades
        if isinstance(grades, str):
            grades = _range(grades) if ".." in grades else grades.split(",")
        names = tuple(canonical(name) for name in grades)
        if len(names) < 2 or "" in names or len(set(names)) < len(names):
            raise InputError(
                "grades: expected two or more different grades, lowest first, such as 1..5, 0..3, 1..5:0.5 or "
                f"poor,fair,good; got {', '.join(names) or 'none'}."
            )
        numbers = _numbers(names)
        if numbers is not None and numbers != sorted(numbers):
            raise InputError(f"grades: {', '.join(names)} do not rise; name the lowest grade first.")
        return cls(names)

    def __len__(self) -> int:
        return len(self.names)

    def __str__(self) -> str:
        shown = self.names if len(self) <= 12 else (*self.names[:3], "...", self.names[-1])
        return ", ".join(shown)

    @property
    def is_numeric(self) -> bool:
        """Whether the grades are numbers."""
        return _numbers(self.names) is not None

    @cached_property
    def values(self) -> FloatArray:
        """What each grade counts in a mean, shape (C,): its number, or 1, 2, ... where grades are words."""
        return np.array(_numbers(self.names) or range(1, len(self) + 1), dtype=np.float64)

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {name.casefold(): code for code, name in enumerate(self.names)}

    def code(self, grade: Any) -> int | None:
        """The position of a grade 0..C-1, however it is written; ``None`` if it is none of these."""
        return self._codes.get(canonical(grade).casefold())

    def refusal(self, grade: Any) -> str:
        """What to say of a grade that is none of these."""
        text, hint = canonical(grade), "Say --grades (grades=) as the scale really is."
        number = _numbers((text,))
        if self.is_numeric and number is not None:
            low, high = self.values[0], self.values[-1]
            if low <= number[0] <= high:
                hint = f"Is the scale a finer one? Then say --grades {self.names[0]}..{self.names[-1]}:0.5."
            else:
                low, high = min(low, number[0]), max(high, number[0])
                hint = f"Does the scale run from {low:g} to {high:g}? Then say so with --grades."
        return f"{text!r} is no grade of {self}. {hint}"


def _numbers(names: Sequence[str]) -> list[float] | None:
    """The numbers that all names write, or ``None``."""
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _range(text: str) -> list[str]:
    """The grades of LOW..HIGH or LOW..HIGH:STEP, in decimals, so that 0.1 + 0.2 is 0.3."""
    ends, _, step = text.partition(":")
    low, _, high = ends.partition("..")
    try:
        first, last, width = Decimal(low.strip()), Decimal(high.strip()), Decimal(step.strip() or 1)
        count = int((last - first) / width) + 1 if width > 0 else 0
    except (InvalidOperation, OverflowError, ValueError):
        raise InputError(f"grades: expected LOW..HIGH such as 1..5, or 1..5:0.5 in halves; got {text!r}.") from None
    if not 2 <= count <= MOST_GRADES or first + (count - 1) * width != last:
        raise InputError(
            f"grades: {text!r} has {'no two' if count < 2 else 'too many or uneven'} steps; expected LOW..HIGH such as "
            f"1..5, with at most {MOST_GRADES} grades and a step that leads from one end to the other."
        )
    return [format((first + k * width).normalize(), "f") for k in range(count)]
