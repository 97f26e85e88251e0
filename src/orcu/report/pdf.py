"""A page as PDF: printed on A4 by a browser that is on the machine."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from orcu.errors import InputError
from orcu.io.files import atomic_write

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
SECONDS = 120  # after which a browser that does not answer is given up


def is_pdf(path: str | os.PathLike[str]) -> bool:
    """Whether a page is to be written as PDF: by the file's ending."""
    return Path(path).suffix.lower() == ".pdf"


def browser() -> str:
    """The browser that prints: the one that ``$ORCU_BROWSER`` names, or the first of Chromium, Chrome and Edge here.

    Raises:
        InputError: if there is none.
    """
    named = os.environ.get("ORCU_BROWSER")
    program = next((path for name in ([named] if named else BROWSERS) if (path := shutil.which(name))), None)
    if program is None:
        what = f"$ORCU_BROWSER is {named!r}, which is no program" if named else "no Chromium, Chrome or Edge is here"
        raise InputError(
            f"a PDF is printed by a browser, and {what}. Install one (Debian: apt-get install chromium), or write "
            "a file that ends in .html and print it."
        )
    return program


def write_page(html: str, path: str | os.PathLike[str]) -> None:
    """Write a page as HTML, or as PDF if the file ends in .pdf; it appears whole or not at all.

    Args:
        html: a page that needs nothing from outside.
        path: of the file.

    Raises:
        InputError: if a PDF is asked for and no browser can print it.
    """
    with atomic_write(path) as temporary:
        if is_pdf(path):
            _print(html, Path(temporary))
        else:
            Path(temporary).write_text(html, encoding="utf-8")


def _print(html: str, target: Path) -> None:
    program = browser()
    # a browser that is told to stop may still be writing its profile
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page, printed = Path(folder, "page.html"), Path(folder, "page.pdf")
        page.write_text(html, encoding="utf-8")
        command = [
            program,
            "--headless",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--no-pdf-header-footer",
            f"--user-data-dir={Path(folder, 'profile')}",
            f"--print-to-pdf={printed}",
            # Chromium refuses to run as root inside its sandbox; the page is our own, without scripts.
            *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
            page.as_uri(),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)  # noqa: S603
            fault = done.stderr.strip().splitlines()[-1:] or [f"it ended with code {done.returncode}"]
        except (OSError, subprocess.TimeoutExpired) as error:
            fault = [str(error)]
        if not printed.exists():
            raise InputError(f"{program} printed no PDF ({fault[0]}); write a file that ends in .html and print it.")
        shutil.copyfile(printed, target)
