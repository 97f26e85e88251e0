"""Grade levels: the ordered grades that judges and people may give, and their numeric values."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.inputs import FloatArray
from orcu.predictions.labels import canonical_label

_ROUNDING = 1e-9  # distance from a level up to which a rescaled number is equal to it
MAX_LEVELS = 101  # 0..100; a finer scale is a measurement, not a grade


@dataclass(frozen=True)
class GradeLevels:
    """Ordered grade levels.

    Attributes:
        names: names of the grades, lowest first.

    Example:
        >>> levels = GradeLevels.parse("1..5")
        >>> levels.names, levels.code("4.0"), levels.code("six")
        (('1', '2', '3', '4', '5'), 3, None)
        >>> GradeLevels.parse("1..3:0.5").names
        ('1', '1.5', '2', '2.5', '3')
        >>> GradeLevels.parse("poor,fair,good").values
        array([1., 2., 3.])
    """

    names: tuple[str, ...]

    @classmethod
    def parse(cls, levels: "str | Sequence[Any] | GradeLevels | None") -> "GradeLevels":
        """Parse ``"1..5"``, ``"1..5:0.5"`` (with a step), ``"poor,fair,good"`` or a sequence of names, lowest first.

        Raises:
            InputError: if there are fewer than two levels, duplicates, or numbers that do not increase.
        """
        if isinstance(levels, GradeLevels):
            return levels
        if isinstance(levels, str):
            levels = _parse_range(levels) if ".." in levels else levels.split(",")
        names = tuple(canonical_label(name) for name in levels or ())
        if len(names) < 2 or "" in names or len(set(names)) < len(names):
            raise InputError(
                "levels: expected two or more different grades, lowest first, such as 1..5, 0..3, 1..5:0.5 or "
                f"poor,fair,good (--levels); got {', '.join(names) or 'none'}."
            )
        if len({name.casefold() for name in names}) < len(names):
            raise InputError(f"levels: {', '.join(names)} have names that differ only in upper and lower case.")
        numbers = _to_numbers(names)
        if numbers is not None and numbers != sorted(numbers):
            raise InputError(f"levels: {', '.join(names)} is not in increasing order; put the lowest grade first.")
        return cls(names)

    def __len__(self) -> int:
        return len(self.names)

    def __str__(self) -> str:
        return ", ".join(self.names if len(self) <= 12 else (*self.names[:3], "...", self.names[-1]))

    @property
    def is_numeric(self) -> bool:
        """Whether all levels are numbers."""
        return _to_numbers(self.names) is not None

    @cached_property
    def values(self) -> FloatArray:
        """Numeric value of each level, shape (C,): its number, or 1, 2, ... for levels that are words."""
        return np.array(_to_numbers(self.names) or range(1, len(self) + 1), dtype=np.float64)

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {name.casefold(): code for code, name in enumerate(self.names)}

    def code(self, grade: Any) -> int | None:
        """Position 0..C-1 of a grade, ignoring case and number format; ``None`` if it is not a level."""
        return self._codes.get(canonical_label(grade).casefold())

    def require_code(self, grade: Any, where: str) -> int:
        """Position 0..C-1 of a grade; if it is not a level, raise an InputError that begins with ``where``."""
        code = self.code(grade)
        if code is None:
            raise InputError(f"{where}: {self.mismatch_message(grade)}")
        return code

    def shares(self, value: float) -> FloatArray:
        """Shares of the two levels next to a number, whose mean it is, shape (C,); one level if it is equal to it.

        Raises:
            InputError: if the number is outside the levels.

        Example:
            >>> GradeLevels.parse("1..5").shares(3.25)
            array([0.  , 0.  , 0.75, 0.25, 0.  ])
        """
        if not self.values[0] <= value <= self.values[-1]:
            raise InputError(f"{value:g} is outside the levels {self}")
        upper = int(np.searchsorted(self.values, value))
        shares = np.zeros(len(self))
        if self.values[upper] == value:
            shares[upper] = 1.0
        else:
            low, high = self.values[upper - 1], self.values[upper]
            shares[upper - 1], shares[upper] = (high - value) / (high - low), (value - low) / (high - low)
        return shares

    def rescale(self, value: float, scale: tuple[float, float]) -> float:
        """Map a number linearly from a scale to the values of the levels; rounding errors next to a level are removed.

        Example:
            >>> (
            ...     GradeLevels.parse("1..5").rescale(0.7, (0.0, 1.0)),
            ...     GradeLevels.parse("1..5").rescale(0.75, (0.0, 1.0)),
            ... )
            (3.8, 4.0)
        """
        low, high = scale
        number = self.values[0] + (value - low) / (high - low) * (self.values[-1] - self.values[0])
        nearest = float(self.values[np.argmin(np.abs(self.values - number))])
        return nearest if abs(nearest - number) < _ROUNDING else float(number)

    def mismatch_message(self, grade: Any) -> str:
        """Error message for a grade that is not a level, with a suggestion for ``levels=``."""
        text = canonical_label(grade)
        number = _to_numbers((text,))
        suggestion = "all grades in order, lowest first"
        if self.is_numeric and number is not None:
            low, high = min(self.values[0], number[0]), max(self.values[-1], number[0])
            is_between = self.values[0] <= number[0] <= self.values[-1]
            suggestion = f"{self.names[0]}..{self.names[-1]}:0.5" if is_between else f"{low:g}..{high:g}"
        return f"{text!r} is not one of the grades {self}. Set levels= (--levels) to the full scale: {suggestion}."


def parse_scale(scale: str) -> tuple[float, float]:
    """Lowest and highest number of the scale ``"LOW..HIGH"``, such as ``"0..1"``.

    Raises:
        InputError: if it is not two increasing numbers.

    Example:
        >>> parse_scale("0..1")
        (0.0, 1.0)
    """
    ends = _to_numbers(str(scale).split(".."))
    if ends is None or len(ends) != 2 or ends[0] >= ends[1]:
        raise InputError(
            f"scale: expected LOW..HIGH, the ends of the scale of the scores, such as 0..1; got {scale!r}."
        )
    return ends[0], ends[1]


def _to_numbers(names: Sequence[str]) -> list[float] | None:
    """Numbers of all names, or ``None`` if one is not a finite number."""
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _parse_range(text: str) -> list[str]:
    """Level names of LOW..HIGH or LOW..HIGH:STEP, in decimal arithmetic so that 0.1 + 0.2 is 0.3."""
    ends, _, step = text.partition(":")
    low, _, high = ends.partition("..")
    try:
        first, last, width = Decimal(low.strip()), Decimal(high.strip()), Decimal(step.strip() or 1)
        count = int((last - first) / width) + 1 if width > 0 else 0
    except (ArithmeticError, ValueError):
        raise InputError(f"levels: expected LOW..HIGH such as 1..5, or LOW..HIGH:STEP; got {text!r}.") from None
    if not 2 <= count <= MAX_LEVELS or first + (count - 1) * width != last:
        raise InputError(
            f"levels: {text!r} is not a valid range; expected LOW..HIGH or LOW..HIGH:STEP with 2 to {MAX_LEVELS} "
            "grades and a step that divides the range."
        )
    return [format((first + k * width).normalize(), "f") for k in range(count)]
