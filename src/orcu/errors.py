"""Errors whose text says what is wrong, where, what was expected, and what to do."""

import difflib
import importlib.util
from collections.abc import Iterable

SHOWN = 40  # names in a message


class InputError(ValueError):
    """A value handed to orcu cannot be used; the text names the argument, the place and the fix."""


class UnknownNameError(InputError):
    """A name that no registry or signature knows; the text offers the nearest known one."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        known = list(known)
        close = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
        super().__init__(f"unknown {kind} {name!r}.{hint} Known: {', '.join(known[:SHOWN]) or 'none'}{more}.")


class MissingExtraError(ImportError):
    """A part of orcu was touched whose optional dependencies are not installed."""

    def __init__(self, what: str, package: str, extra: str | None) -> None:
        wanted = package if extra is None else f"'orcu[{extra}]'"
        super().__init__(f"{what} needs {package}, which is not installed. Install it with: pip install {wanted}")


def require(package: str, *, extra: str | None, what: str) -> None:
    """Raise `MissingExtraError` unless ``package`` can be imported; without an extra it is named itself."""
    if importlib.util.find_spec(package) is None:
        raise MissingExtraError(what, package, extra)


class CalibrationWarning(UserWarning):
    """A calibrator or prediction sets were fitted on rows that cannot determine them well; the text says why."""


class PluginWarning(UserWarning):
    """A package that offers something to orcu's registries cannot be used; the text names it and says why."""


class ConvergenceError(RuntimeError):
    """A solver did not reach its tolerance; the text says how close it came."""


def first_line(error: BaseException) -> str:
    """The first line of an error's text, to be quoted in ours; its kind if it has none."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
