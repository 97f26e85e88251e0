"""Figures as files: PDF, SVG or PNG, the same bytes for the same figure."""

import os
from pathlib import Path
from typing import Any

from orcu.errors import InputError
from orcu.figures import style
from orcu.io.files import atomic_write

# What would tell the hour and the version of the library that drew it.
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": dict.fromkeys(("CreationDate", "Creator", "Producer")),
    "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    "png": {"Software": None},
}
FORMATS = tuple(_METADATA)


def checked_format(name: str) -> str:
    """A format of files, in small letters.

    Raises:
        InputError: if it is none of the three.
    """
    if name.lower() not in FORMATS:
        raise InputError(f"expected a file that ends in .pdf, .svg or .png, got {name!r}.")
    return name.lower()


def save(figure: Any, path: str | os.PathLike[str], *, dpi: int = 300) -> None:
    """Write a figure; the file appears whole or not at all.

    Args:
        figure: of `orcu.figures.base.make`.
        path: its ending says whether PDF, SVG or PNG.
        dpi: pixels per inch of a PNG, and of pictures inside the others.

    Raises:
        InputError: if the ending is another, or the file cannot be written.
    """
    import matplotlib

    path = Path(path)
    kind = checked_format(path.suffix.removeprefix(".") or path.name)
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path}: its folder does not exist; make it first.")
    try:
        with atomic_write(path) as temporary, matplotlib.rc_context(style.printed(style.PAGE)):
            figure.savefig(temporary, format=kind, dpi=dpi, metadata=_METADATA[kind])
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error}); choose another place.") from None
