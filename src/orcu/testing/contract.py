"""Contracts: named rules for objects of one kind, and the assertions that rules use."""

import re
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from orcu import geometry
from orcu.errors import CalibrationWarning, InputError
from orcu.inputs import FloatArray, IntArray


class ContractError(AssertionError):
    """A broken rule of a contract; the message names the rule, gives the numbers and says how to fix it."""


class Rule:
    """Decorator that turns a method of a `Contract` into a rule; ``fix`` says how to fix an object that breaks it."""

    def __init__(self, fix: str, applies: Callable[[Any], bool] = lambda contract: True) -> None:
        self.fix, self.applies = fix, applies

    def __call__(self, check: Callable[[Any], None]) -> "Rule":  # noqa: D102
        self._check = check
        return self

    def run(self, contract: "Contract") -> None:
        """Check the rule for the object of a contract."""
        name = self._check.__name__.replace("_", " ")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CalibrationWarning)  # the samples of the rules may have few rows
                self._check(contract)
        except ContractError as error:
            raise ContractError(f"{contract.title}: {name}: {error}. {self.fix}") from None
        except Exception as error:
            raise ContractError(f"{contract.title}: {name}: raises {_describe(error)}. {self.fix}") from error


class Contract:
    """Rules for an object; a subclass sets ``title``, the object's name in messages, and defines rules as methods.

    A rule raises `ContractError`, usually by `expect`, `expect_close` or `expect_error`. Its name is that of the
    method, with spaces instead of underscores.

    Example:
        >>> class EvenNumber(Contract):
        ...     def __init__(self, value):
        ...         self.title, self.value = f"number {value}", value
        ...
        ...     @Rule("Add 1.")
        ...     def remainder(self):
        ...         expect(self.value % 2 == 0, f"{self.value} is odd")
        >>> list(EvenNumber(3).checks())
        ['remainder']
        >>> EvenNumber(3).check()
        Traceback (most recent call last):
        orcu.testing.contract.ContractError: number 3: remainder: 3 is odd. Add 1.
    """

    title: str

    def checks(self) -> dict[str, Callable[[], None]]:
        """The rules that apply to the object, by name; each raises `ContractError` if it is broken."""
        rules = {name.replace("_", " "): rule for name, rule in vars(type(self)).items() if isinstance(rule, Rule)}
        return {name: partial(rule.run, self) for name, rule in rules.items() if rule.applies(self)}

    def check(self) -> None:
        """Check all rules that apply to the object.

        Raises:
            ContractError: if rules are broken; the message has a line for each.
        """
        errors, checks = [], self.checks()
        for check in checks.values():
            try:
                check()
            except ContractError as error:
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            lines = "".join(f"\n- {error}" for error in errors)
            raise ContractError(f"{len(errors)} of {len(checks)} rules are broken:{lines}") from errors[0]


def wrong_type(kind: str, expected: str, value: Any, base: type) -> InputError:
    """Build the error for an object that is neither a name nor a class of the expected kind."""
    shown = value.__name__ if isinstance(value, type) else f"an instance of {type(value).__name__}"
    hint = " Pass its class." if isinstance(value, base) else ""
    return InputError(
        f"{kind}: expected {expected}, or a class that derives from {base.__module__.removesuffix('.base')}."
        f"{base.__name__}, got {shown}.{hint}"
    )


def ordinal_sample(rows: int, num_classes: int, *, seed: int = 0) -> tuple[FloatArray, IntArray, np.random.Generator]:
    """Draw calibrated logits with labels; also returns the random generator."""
    rng = np.random.default_rng(seed)
    center = rng.uniform(-0.5, num_classes - 0.5, size=(rows, 1))
    logits = -((np.arange(num_classes) - center) ** 2) + rng.normal(scale=0.5, size=(rows, num_classes))
    y = (rng.random((rows, 1)) > geometry.probs(logits).cumsum(axis=1)[:, :-1]).sum(axis=1)
    return logits, y, rng


def expect(condition: object, text: str) -> None:
    """Raise `ContractError` with the text unless the condition holds."""
    if not condition:
        raise ContractError(text)


def expect_close(actual: Any, expected: Any, what: str, *, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise `ContractError` unless arrays, tensors or numbers are equal up to rounding; NaN equals NaN."""
    values, targets = _array(actual), _array(expected)
    expect(values.shape == targets.shape, f"{what} has shape {values.shape}, expected {targets.shape}")
    wrong = ~np.isclose(values, targets, rtol=rtol, atol=atol, equal_nan=True)
    if wrong.any():
        with np.errstate(invalid="ignore"):
            gap = np.where(wrong, np.nan_to_num(np.abs(values - targets), nan=np.inf), -1)
        index = tuple(map(int, np.unravel_index(int(gap.argmax()), values.shape)))
        where = f" at {list(index)}" if index else ""
        count = f" ({wrong.sum()} of {wrong.size} numbers differ)" if index else ""
        raise ContractError(f"{what} is {values[index]:.6g}{where}, expected {targets[index]:.6g}{count}")


def expect_finite(values: Any, what: str) -> None:
    """Raise `ContractError` if a value is NaN or infinite."""
    array = _array(values)
    bad = int((~np.isfinite(array)).sum())
    expect(bad == 0, f"{what}: {bad} of {array.size} numbers are NaN or infinite")


def expect_error(call: Callable[[], Any], match: str, what: str) -> None:
    """Raise `ContractError` unless a call raises `InputError` with a message that matches a regular expression."""
    try:
        call()
    except InputError as error:
        expect(re.search(match, str(error)), f"{what} raises InputError {str(error)!r}, expected {match!r}")
    except Exception as error:
        raise ContractError(f"{what} raises {_describe(error)}, expected InputError with {match!r}") from error
    else:
        raise ContractError(f"{what} is accepted, expected InputError with {match!r}")


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(" .")


def _array(values: Any) -> Any:
    return np.asarray(values.detach().cpu().double() if hasattr(values, "detach") else values, dtype=np.float64)
