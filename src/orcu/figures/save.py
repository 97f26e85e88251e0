"""Writing figures to PDF, SVG or PNG files; the same figure gives the same bytes."""

import os
from pathlib import Path
from typing import Any

from orcu.errors import InputError
from orcu.figures import style
from orcu.io.files import atomic_write
from orcu.io.locations import as_location

# Metadata with the time or the version of matplotlib, which are removed.
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": dict.fromkeys(("CreationDate", "Creator", "Producer")),
    "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    "png": {"Software": None},
}
FORMATS = tuple(_METADATA)


def check_format(name: str) -> str:
    """File format in lower case.

    Raises:
        InputError: if it is not pdf, svg or png.
    """
    if name.lower() not in FORMATS:
        raise InputError(f"expected a file name that ends in .pdf, .svg or .png, got {name!r}.")
    return name.lower()


def save(figure: Any, path: str | os.PathLike[str], *, dpi: int = 300) -> None:
    """Write a figure to a file atomically.

    Args:
        figure: figure of `orcu.figures.base.make`.
        path: file name that ends in .pdf, .svg or .png.
        dpi: pixels per inch of a PNG, and of bitmaps in the other formats.

    Raises:
        InputError: if the file name ends otherwise, or the file cannot be written.
    """
    import matplotlib

    path = as_location(path)
    kind = check_format(path.suffix.removeprefix(".") or path.name)
    if isinstance(path, Path) and not path.absolute().parent.is_dir():
        raise InputError(f"{path}: the folder does not exist; create it first.")
    try:
        with atomic_write(path) as temporary, matplotlib.rc_context(style.print_settings(style.PAGE)):
            figure.savefig(temporary, format=kind, dpi=dpi, metadata=_METADATA[kind])
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error}); choose another file.") from None
