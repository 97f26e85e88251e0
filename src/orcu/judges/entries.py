"""Entries of a log file: JSON objects with their locations, and the names and values in them."""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from orcu.errors import InputError, first_line
from orcu.inputs import cell_text
from orcu.io.files import read_json
from orcu.judges.replies import ReplyError, escape_surrogates
from orcu.predictions.labels import is_missing


def read_entries(path: Path) -> Iterator[tuple[str, Any]]:
    """Location and content of each line of a .jsonl file, or of each entry of a .json file.

    The content is ``None`` if a line is not JSON.

    Raises:
        InputError: if the file cannot be read.
    """
    if path.suffix.lower() == ".json":
        content = read_json(path, lambda content: content)
        for number, entry in enumerate(content if isinstance(content, list) else [content], 1):
            yield f"{path.name}, entry {number}", entry
        return
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opener(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield f"{path.name}, line {number}", _parse_json(line)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file.") from None
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{path}: not readable ({first_line(error)}).") from None


def _parse_json(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def get(content: Any, path: str) -> Any:
    """Value at a dotted path, ``None`` if it is missing; a key that contains dots itself takes precedence.

    Example:
        >>> get({"vars": {"id": 7}}, "vars.id"), get({"vars": {}}, "vars.id")
        (7, None)
    """
    if isinstance(content, Mapping) and path in content:
        return content[path]
    key, _, rest = path.partition(".")
    inner = content.get(key) if isinstance(content, Mapping) else None
    return get(inner, rest) if rest else inner


def as_name(value: Any, key: str) -> str:
    """A string, or an integer as a string; lone surrogates are escaped.

    Raises:
        ReplyError: if the value is neither.
    """
    if not isinstance(value, str | int | float) or isinstance(value, bool) or is_missing(value):
        raise ReplyError(f"{key!r} is neither a string nor a number")
    if isinstance(value, float) and not (value.is_integer() and abs(value) < 2**53):
        raise ReplyError(f"{key!r} is the float {value!r}; write names as strings, because 1.1 and 1.10 are one number")
    return escape_surrogates(cell_text(value))


def error_message(error: Any) -> str:
    """First line of an error object of a server."""
    while isinstance(error, Mapping) and isinstance(error.get("error"), Mapping):
        error = error["error"]
    text = str(error.get("message") or error.get("code") or error) if isinstance(error, Mapping) else str(error)
    return text.strip().splitlines()[0][:200] if text.strip() else "no error message"
