"""Any table in, any table out: dialects of CSV, frames, files that are whole or not there, locks."""

from orcu.tables.frames import table_of

__all__ = ["table_of"]
