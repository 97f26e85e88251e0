"""Any table in, any table out: dialects of CSV, frames, files that are whole or not there, locks."""

from typing import Any

__all__ = ["table_of"]


def __getattr__(name: str) -> Any:
    if name == "table_of":  # with numpy, which the command line does not need to show its help
        from orcu.io.frames import table_of

        return table_of
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
