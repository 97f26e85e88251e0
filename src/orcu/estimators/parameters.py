"""Constraints of the estimators' parameters: each parameter has one check, declared with the estimator."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from orcu import calibrators
from orcu.decisions.rules import RULES
from orcu.errors import InputError, UnknownNameError
from orcu.inputs import as_count, as_positive
from orcu.metrics.ordinal import accuracy, qwk
from orcu.model_selection import check_share, is_splitter

Check = Callable[[Any, str], object]  # raises InputError if a value, which is that of the named parameter, is invalid
SCORERS = {"accuracy": accuracy, "qwk": qwk}


def check_parameters(estimator: Any, checks: Mapping[str, Check]) -> None:
    """Check the parameters of an estimator in the order of the declaration."""
    for name, check in checks.items():
        check(getattr(estimator, name), name)


def valid_if(is_valid: Callable[[Any], bool], expected: str) -> Check:
    """The value fulfils a condition; ``expected`` says which, for the message."""

    def check(value: Any, name: str) -> None:
        if not is_valid(value):
            raise InputError(f"{name}: expected {expected}, got {value!r}.")

    return check


def one_of(kind: str, names: Iterable[str]) -> Check:
    """The value is one of the names."""
    valid = list(names)

    def check(value: Any, name: str) -> None:
        if not isinstance(value, str) or value not in valid:
            raise UnknownNameError(kind, value, valid)

    return check


def count(minimum: int) -> Check:
    """The value is a whole number of at least ``minimum``."""
    return lambda value, name: as_count(value, name=name, minimum=minimum)


def positive(value: Any, name: str) -> None:
    """Check that the value is a finite number above 0."""
    as_positive(value, name=name)


def share(value: Any, name: str) -> None:
    """Check that the value is a share of the rows, from 0 to below 0.5."""
    valid_if(is_number, "a share from 0 to below 0.5")(value, name)
    check_share(value, name)


def optional(check: Check) -> Check:
    """The value is ``None``, or passes the check."""
    return lambda value, name: None if value is None else check(value, name)


def name_or(word: str, check: Check) -> Check:
    """The value is a word such as "auto", or passes the check."""
    return lambda value, name: None if isinstance(value, str) and value == word else check(value, name)


def fold_count(minimum: int) -> Check:
    """The value is a number of folds of at least ``minimum``, or a scikit-learn splitter."""
    return lambda value, name: None if is_splitter(value) else as_count(value, name=name, minimum=minimum)


def is_number(value: Any) -> bool:
    """Whether a value is a real number other than NaN; booleans are not."""
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return real and not np.isnan(value)


def is_name_or_table(loss: Any) -> bool:
    """Whether a loss is given by name or by a table of options."""
    return isinstance(loss, (str, Mapping))


def calibrator(value: Any, name: str) -> None:
    """Check that the value is the name of a calibrator or chain, a table of options, or a calibrator."""
    if isinstance(value, (str, dict)):
        calibrators.create(value)
    elif isinstance(value, type) or not hasattr(value, "fit"):
        raise InputError(f"{name}: expected a name or a calibrator, got {value!r}.")


def _class_weight(value: Any, name: str) -> None:
    if not isinstance(value, Mapping):
        valid_if(
            lambda value: value is None or (isinstance(value, str) and value == "balanced"),
            "None, 'balanced' or a dictionary",
        )(value, name)
        return
    for label, weight in value.items():
        if not (is_number(weight) and 0 <= weight < np.inf):
            raise InputError(f"{name}: the weight of class {label!r} is {weight!r}, expected a finite number >= 0.")


def _classes(value: Any, name: str) -> None:
    if value is not None and (isinstance(value, str) or not np.iterable(value)):
        raise InputError(f"{name}: expected a list of two or more labels, lowest first; got {value!r}.")


def _rule(value: Any, name: str) -> None:
    if isinstance(value, str):
        one_of("rule", RULES)(value, name)
    elif not np.iterable(value):
        raise InputError(f"{name}: expected {', '.join(map(repr, RULES))} or a cost matrix, got {value!r}.")


def _random_state(value: Any, name: str) -> None:
    try:
        check_random_state(value)
    except ValueError as error:
        raise InputError(f"{name}: expected None, a seed from 0 to 2**32 - 1, or a RandomState ({error}).") from None


COMMON_CHECKS: dict[str, Check] = {
    "loss": valid_if(
        lambda loss: (
            is_name_or_table(loss)
            or (isinstance(loss, (tuple, list)) and len(loss) > 0 and all(map(is_name_or_table, loss)))
        ),
        "a name or a table, or several of them",
    ),
    "learning_rate": positive,
    "scale": name_or("auto", positive),
    "calibrator": optional(calibrator),
    "validation_fraction": share,
    "class_weight": _class_weight,
    "rule": _rule,
    "scoring": one_of("scoring", SCORERS),
    "classes": _classes,
    "random_state": _random_state,
    "verbose": valid_if(
        lambda verbose: isinstance(verbose, (int, np.integer)) and bool(verbose >= -1),
        "-1 (no output), 0, 1 or 2 (more output)",
    ),
    "n_jobs": optional(
        valid_if(
            lambda n_jobs: isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool) and bool(n_jobs),
            "None, a number of threads, or -1 for all CPUs",
        )
    ),
}
