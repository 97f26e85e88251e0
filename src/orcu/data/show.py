"""Views of a prepared data set: a contact sheet of each class, or a sample of texts or rows."""

import re
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from orcu.data.folds import hash_key
from orcu.data.images import read_image
from orcu.data.manifest import Manifest
from orcu.data.store import PreparedData
from orcu.io.files import atomic_write

TILE, GAP, HEAD = 160, 8, 44  # pixels


def sample(prepared: PreparedData, label: int, count: int, seed: int = 0) -> list[int]:
    """Row numbers of a reproducible random sample of one class."""
    rows = np.flatnonzero(prepared.manifest.labels == label).tolist()
    ids = prepared.manifest.ids
    return sorted(rows, key=lambda row: hash_key(seed, ids[row]))[:count]


def line(manifest: Manifest, row: int) -> str:
    """One line about a row: its text, or its features by name."""
    text = manifest.column("text")[row]
    return text or ", ".join(f"{name} {manifest.feature(name)[row]}" for name in manifest.about.features)


def contact_sheets(
    prepared: PreparedData, folder: Path, *, count: int = 24, columns: int = 6, seed: int = 0
) -> list[Path]:
    """Write one PNG for each class that has images; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    manifest, paths = prepared.manifest, []
    for label, name in enumerate(manifest.classes):
        rows = sample(prepared, label, count, seed)
        if not rows:
            continue
        total = int((manifest.labels == label).sum())
        title = f"{prepared.name} · {name} · {len(rows)} of {total:,}"
        tiles = [read_image(manifest.root, manifest.column("path")[row]) for row in rows]
        safe_name = re.sub(r"[^\w.-]+", "_", name).strip("_")
        path = folder / f"{prepared.name}_{label}_{safe_name}.png"
        with atomic_write(path) as temporary:
            draw_sheet(tiles, title, columns).save(temporary, format="PNG")
        paths.append(path)
    return paths


def draw_sheet(tiles: list[Image.Image], title: str, columns: int) -> Image.Image:
    """Images in a grid below a title, each fitted into a square with its aspect ratio preserved."""
    columns = min(columns, len(tiles))
    lines = -(-len(tiles) // columns)
    font = ImageFont.load_default(size=20)
    width = max(columns * (TILE + GAP) + GAP, round(font.getlength(title)) + 2 * GAP)
    page = Image.new("RGB", (width, lines * (TILE + GAP) + GAP + HEAD), "white")
    ImageDraw.Draw(page).text((GAP, GAP + 4), title, fill="#222222", font=font)
    for index, tile in enumerate(tiles):
        scale = TILE / max(tile.size)
        size = (max(1, round(tile.width * scale)), max(1, round(tile.height * scale)))
        scaled = tile.resize(size, Image.Resampling.NEAREST if scale > 2 else Image.Resampling.BILINEAR)
        row, column = divmod(index, columns)
        left = GAP + column * (TILE + GAP) + (TILE - scaled.width) // 2
        top = HEAD + GAP + row * (TILE + GAP) + (TILE - scaled.height) // 2
        page.paste(scaled, (left, top))
    return page
