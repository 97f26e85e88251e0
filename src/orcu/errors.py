"""Exception and warning types; messages say what is wrong, where, what was expected, and how to fix it."""

import difflib
import importlib
import importlib.util
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

MAX_NAMES_SHOWN = 40


class InputError(ValueError):
    """An argument, file or option is invalid."""


if TYPE_CHECKING:

    class NotFittedError(InputError):
        """An object is used before `fit`; also scikit-learn's NotFittedError."""


def __getattr__(name: str) -> Any:
    if name != "NotFittedError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sklearn import exceptions  # the import of scikit-learn is slow, so it waits until the error is needed

    class NotFittedError(InputError, exceptions.NotFittedError):  # type: ignore[misc]
        """An object is used before `fit`; also scikit-learn's NotFittedError."""

    NotFittedError.__qualname__ = "NotFittedError"  # can be pickled
    globals()["NotFittedError"] = NotFittedError
    return NotFittedError


class UnknownNameError(InputError):
    """A name or option does not exist; the message suggests the closest valid name."""

    def __init__(self, kind: str, name: object, valid: Iterable[str]) -> None:
        names = list(valid)
        close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        shown = ", ".join(names[:MAX_NAMES_SHOWN]) or "none"
        more = f" and {len(names) - MAX_NAMES_SHOWN} more" if len(names) > MAX_NAMES_SHOWN else ""
        super().__init__(f"unknown {kind} {name!r}.{hint} Available: {shown}{more}.")


class MissingExtraError(ImportError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, package: str, extra: str | None) -> None:
        target = package if extra is None else f"'orcu[{extra}]'"
        super().__init__(f"{feature} needs {package}, which is not installed. Install it with: pip install {target}")


def require(package: str, *, extra: str | None, feature: str) -> None:
    """Raise `MissingExtraError` if a package of an extra (``None``: of no extra) is not installed."""
    if importlib.util.find_spec(package) is None:
        raise MissingExtraError(feature, package, extra)


def import_problem(package: str) -> str:
    """Return why a package cannot be imported, as the end of a sentence; empty if it can be imported."""
    if importlib.util.find_spec(package) is None:
        return "is not installed"
    try:
        importlib.import_module(package)
    except (ImportError, OSError) as error:  # for example a missing libgomp
        return f"cannot be loaded ({first_line(error)})"
    return ""


class CalibrationWarning(UserWarning):
    """A calibrator or prediction sets were fitted on too few or unsuitable rows."""


class PluginWarning(UserWarning):
    """A plugin cannot be loaded, or registers nothing."""


class ConvergenceError(RuntimeError):
    """A solver did not reach its tolerance."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type if the message is empty."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
