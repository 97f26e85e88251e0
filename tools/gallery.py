"""Thumbnails of every figure for the docs: ``python tools/gallery.py FROM [FROM ...]``.

Each FROM is what ``orcu figure --from`` takes, or several of them joined by commas, such as the folders
of four models for Grad-CAM. A figure is drawn from the first FROM that holds what it needs.
"""

import sys
from pathlib import Path

from orcu.errors import InputError
from orcu.figures.base import FIGURES, make
from orcu.figures.save import save
from orcu.figures.sources import Sources

FOLDER = Path(__file__).parents[1] / "docs" / "_static" / "figures"
DPI = 80  # about 570 pixels wide


def main(given: list[str]) -> int:
    """Draw what can be drawn; the exit code says whether all could."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    groups = [Sources(one.split(",")) for one in given] or [Sources()]
    missing = 0
    for name in FIGURES.names():
        reasons = []
        for sources in groups:
            try:
                save(make(name, sources), FOLDER / f"{name}.png", dpi=DPI)
                print(f"{name}: {(FOLDER / f'{name}.png').stat().st_size // 1024} KiB")
                break
            except InputError as error:
                reasons.append(str(error))
        else:
            missing += 1
            print(f"left out {reasons[-1]}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
