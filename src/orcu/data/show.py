"""Looking at a prepared data set: a contact sheet per class, or a sample of texts or rows."""

import re
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from orcu.data.folds import chance
from orcu.data.images import read_image
from orcu.data.manifest import Manifest
from orcu.data.store import Prepared
from orcu.io.files import atomic_write

TILE, GAP, HEAD = 160, 8, 44  # pixels


def sample(prepared: Prepared, label: int, count: int, seed: int = 0) -> list[int]:
    """Rows of one class, drawn by hash."""
    rows = np.flatnonzero(prepared.manifest.labels == label).tolist()
    ids = prepared.manifest.ids
    return sorted(rows, key=lambda row: chance(seed, ids[row]))[:count]


def line(manifest: Manifest, row: int) -> str:
    """A row in one line: its text, or its features by name."""
    text = manifest.column("text")[row]
    return text or ", ".join(f"{name} {manifest.feature(name)[row]}" for name in manifest.about.features)


def contact_sheets(prepared: Prepared, folder: Path, *, count: int = 24, columns: int = 6, seed: int = 0) -> list[Path]:
    """Write one PNG per class that has images; the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    manifest, written = prepared.manifest, []
    for label, name in enumerate(manifest.classes):
        rows = sample(prepared, label, count, seed)
        if not rows:
            continue
        total = int((manifest.labels == label).sum())
        title = f"{prepared.name} · {name} · {len(rows)} of {total:,}"
        tiles = [read_image(manifest.root, manifest.column("path")[row]) for row in rows]
        safe = re.sub(r"[^\w.-]+", "_", name).strip("_")
        path = folder / f"{prepared.name}_{label}_{safe}.png"
        with atomic_write(path) as temporary:
            sheet(tiles, title, columns).save(temporary, format="PNG")
        written.append(path)
    return written


def sheet(tiles: list[Image.Image], title: str, columns: int) -> Image.Image:
    """Images in rows under a title, each fitted into a square without losing its aspect."""
    columns = min(columns, len(tiles))
    lines = -(-len(tiles) // columns)
    font = ImageFont.load_default(size=20)
    width = max(columns * (TILE + GAP) + GAP, round(font.getlength(title)) + 2 * GAP)
    page = Image.new("RGB", (width, lines * (TILE + GAP) + GAP + HEAD), "white")
    ImageDraw.Draw(page).text((GAP, GAP + 4), title, fill="#222222", font=font)
    for place, tile in enumerate(tiles):
        fitted = _fitted(tile)
        line, column = divmod(place, columns)
        left = GAP + column * (TILE + GAP) + (TILE - fitted.width) // 2
        top = HEAD + GAP + line * (TILE + GAP) + (TILE - fitted.height) // 2
        page.paste(fitted, (left, top))
    return page


def _fitted(tile: Image.Image) -> Image.Image:
    scale = TILE / max(tile.size)
    size = tuple(max(1, round(side * scale)) for side in tile.size)
    method = Image.Resampling.NEAREST if scale > 2 else Image.Resampling.BILINEAR
    return tile.resize((size[0], size[1]), method)
