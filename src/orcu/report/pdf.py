"""HTML pages as PDF, printed on A4 by an installed browser."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from orcu.errors import InputError
from orcu.io.files import atomic_write
from orcu.io.locations import as_location

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
TIMEOUT = 120  # seconds


def is_pdf(path: str | os.PathLike[str]) -> bool:
    """Whether the suffix of a path is .pdf."""
    return as_location(path).suffix.lower() == ".pdf"


def browser() -> str:
    """Path of the browser that prints: ``$ORCU_BROWSER``, or the first installed of Chromium, Chrome and Edge."""
    named = os.environ.get("ORCU_BROWSER")
    program = next((path for name in ([named] if named else BROWSERS) if (path := shutil.which(name))), None)
    if program is None:
        problem = (
            f"$ORCU_BROWSER is {named!r}, which is not a program" if named else "no Chromium, Chrome or Edge found"
        )
        raise InputError(
            f"a PDF is printed by a browser: {problem}. Install one (Debian: apt-get install chromium), or write a "
            "file with the suffix .html and print it."
        )
    return program


def write_page(html: str, path: str | os.PathLike[str]) -> None:
    """Write a page as HTML, or as PDF if the suffix is .pdf; the file is written completely or not at all."""
    with atomic_write(path) as temporary:
        if is_pdf(path):
            _print(html, Path(temporary))
        else:
            Path(temporary).write_text(html, encoding="utf-8")


def _print(html: str, target: Path) -> None:
    program = browser()
    # A browser that was stopped may still be writing its profile.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page, pdf = Path(folder, "page.html"), Path(folder, "page.pdf")
        page.write_text(html, encoding="utf-8")
        command = [
            program,
            "--headless",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--no-pdf-header-footer",
            f"--user-data-dir={Path(folder, 'profile')}",
            f"--print-to-pdf={pdf}",
            # Chromium does not run as root inside its sandbox; the page is our own and has no scripts.
            *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
            page.as_uri(),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)  # noqa: S603
            problem = (done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"])[0]
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = str(error)
        if not pdf.exists():
            raise InputError(f"{program} printed no PDF ({problem}); write a file with the suffix .html and print it.")
        shutil.copyfile(pdf, target)
