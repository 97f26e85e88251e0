"""Thumbnails of all figures for the documentation: ``python tools/gallery.py FROM [FROM ...]``, or ``make gallery``.

Each FROM is a value of ``orcu figure --from``. A figure is drawn from the first one that has its input.
"""

import sys
from pathlib import Path

from PIL import Image

from orcu.errors import InputError
from orcu.figures.base import FIGURES, make
from orcu.figures.save import save
from orcu.figures.sources import Sources

FOLDER = Path(__file__).parents[1] / "docs" / "_static" / "figures"
DPI, COLORS = 100, 160  # about 700 pixels wide, and small enough for the repository
LOSSES = {"tsne": ("ce", "sord", "ls", "orcu")}  # a thumbnail has no space for all


def main(origins: list[str]) -> int:
    """Draw all figures; exit code 1 if an input is missing."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    missing = 0
    for name in FIGURES.names():
        reasons = []
        for origin in [[origin] for origin in origins] or [[]]:
            try:
                file = FOLDER / f"{name}.png"
                save(make(name, Sources(origin, losses=LOSSES.get(name, ()))), file, dpi=DPI)
                with Image.open(file) as image:
                    small = image.convert("RGB").quantize(
                        COLORS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
                    )
                small.save(file, optimize=True)
                print(f"{name}: {file.stat().st_size // 1024} KiB")
                break
            except InputError as error:
                reasons.append(str(error))
        else:
            missing += 1
            print(f"skipped {reasons[-1]}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
