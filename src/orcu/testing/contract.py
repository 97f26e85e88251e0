"""Contracts: the rules that all things of one kind keep, each a check of its own."""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from orcu.errors import CalibrationWarning, InputError


class ContractError(AssertionError):
    """A rule of a contract is broken; the text names the rule, gives the numbers and says how to mend it."""


class Subject(Protocol):
    """What a contract is checked on."""

    @property
    def title(self) -> str:
        """How messages call it, such as ``"loss 'rps'"``."""


S = TypeVar("S", bound=Subject)
Check = Callable[[S], None]


@dataclass(frozen=True)
class _Rule(Generic[S]):
    name: str
    check: Check[S]
    mend: str
    concerns: Callable[[S], bool]

    def __call__(self, subject: S) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CalibrationWarning)  # samples of a contract may be few rows
                self.check(subject)
        except ContractError as fault:
            raise ContractError(f"{subject.title}: {self.name}: {fault}. {self.mend}") from None
        except Exception as error:
            raise ContractError(f"{subject.title}: {self.name}: it raises {_quoted(error)}. {self.mend}") from error


class Contract(Generic[S]):
    """The rules of one kind of thing.

    A rule is a function that raises `ContractError`, mostly by `demand`, `close` or `refuses`; its name, without
    underscores, says what holds.

    Example:
        >>> @dataclass
        ... class Number:
        ...     title: str
        ...     value: int
        >>> numbers = Contract()
        >>> @numbers.rule("Add 1.")
        ... def _it_is_even(number):
        ...     demand(number.value % 2 == 0, f"{number.value} is odd")
        >>> list(numbers.checks(Number("three", 3)))
        ['it is even']
        >>> numbers.check(Number("three", 3))
        Traceback (most recent call last):
        orcu.testing.contract.ContractError: three: it is even: 3 is odd. Add 1.
    """

    def __init__(self) -> None:
        self._rules: list[_Rule[S]] = []

    def rule(self, mend: str, concerns: Callable[[S], bool] = lambda subject: True) -> Callable[[Check[S]], Check[S]]:
        """Decorator that adds a rule.

        Args:
            mend: a sentence for whoever breaks it.
            concerns: which things it holds for; all by default.
        """

        def add(check: Check[S]) -> Check[S]:
            self._rules.append(_Rule(check.__name__.strip("_").replace("_", " "), check, mend, concerns))
            return check

        return add

    def checks(self, subject: S) -> dict[str, Callable[[], None]]:
        """The rules that concern a thing, by name; each raises `ContractError` if it is broken."""
        return {rule.name: partial(rule, subject) for rule in self._rules if rule.concerns(subject)}

    def check(self, subject: S) -> None:
        """Check all rules that concern a thing, also after one is broken.

        Raises:
            ContractError: with a line for each broken rule.
        """
        faults, checks = [], self.checks(subject)
        for check in checks.values():
            try:
                check()
            except ContractError as fault:
                faults.append(fault)
        if len(faults) == 1:
            raise faults[0]
        if faults:
            lines = "".join(f"\n- {fault}" for fault in faults)
            raise ContractError(f"{len(faults)} of {len(checks)} rules are broken:{lines}") from faults[0]


def demand(condition: object, text: str) -> None:
    """Raise `ContractError` with the text unless the condition holds."""
    if not condition:
        raise ContractError(text)


def close(actual: Any, expected: Any, what: str, *, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Demand that arrays, tensors or numbers are equal but for rounding; NaN equals NaN.

    Example:
        >>> close([1.0, 2.0], [1.0, 2.5], "the doubled loss")
        Traceback (most recent call last):
        orcu.testing.contract.ContractError: the doubled loss is 2 at [1], expected 2.5 (1 of 2 numbers differ)
    """
    given, wanted = _array(actual), _array(expected)
    demand(given.shape == wanted.shape, f"{what} has shape {given.shape}, expected {wanted.shape}")
    wrong = ~np.isclose(given, wanted, rtol=rtol, atol=atol, equal_nan=True)
    if wrong.any():
        with np.errstate(invalid="ignore"):
            gap = np.where(wrong, np.nan_to_num(np.abs(given - wanted), nan=np.inf), -1)
        place = np.unravel_index(int(gap.argmax()), given.shape)
        where = f" at [{', '.join(str(int(at)) for at in place)}]" if given.ndim else ""
        count = f" ({wrong.sum()} of {wrong.size} numbers differ)" if given.ndim else ""
        raise ContractError(f"{what} is {given[place]:.6g}{where}, expected {wanted[place]:.6g}{count}")


def finite(values: Any, what: str) -> None:
    """Demand that there is no NaN and no infinity."""
    array = _array(values)
    bad = int((~np.isfinite(array)).sum())
    demand(bad == 0, f"{what}: {bad} of {array.size} numbers are NaN or infinite")


def refuses(call: Callable[[], Any], message: str, what: str) -> None:
    """Demand that a call raises `InputError` with a text that the regular expression finds."""
    try:
        call()
    except InputError as error:
        demand(re.search(message, str(error)), f"{what} is refused with {str(error)!r}, expected {message!r}")
    except Exception as error:
        raise ContractError(f"{what} raises {_quoted(error)}, expected InputError with {message!r}") from error
    else:
        raise ContractError(f"{what} is not refused; expected InputError with {message!r}")


def _quoted(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(" .")


def _array(values: Any) -> Any:
    return np.asarray(values.detach().cpu().double() if hasattr(values, "detach") else values, dtype=np.float64)
