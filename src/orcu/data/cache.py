"""Decode once: all images of a manifest at one size, in one file that is mapped into memory."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.data.download import enough_space
from orcu.data.images import read_image, resized
from orcu.data.manifest import Manifest
from orcu.errors import InputError
from orcu.inputs import FloatArray, as_count
from orcu.io.files import atomic_write, locked

VERSION = 2
BLOCK = 256  # images that are checked and resumed together
PIXELS, INDEX, JOURNAL, SUMS = "images.u8", "index.json", "journal.jsonl", "sums.npy"
Pixels = npt.NDArray[np.uint8]
Progress = Callable[[str, int, int], None]


class ImageCache:
    """Images of one size, uint8, shape (n, 3, size, size), row by row as in the manifest.

    Colours are planes, so that a batch needs no reordering.

    Args:
        folder: what `build` has written.
        manifest: the manifest that it must belong to.

    Raises:
        InputError: if it is not there, not whole, or of other rows.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        if not folder.is_dir():
            raise InputError(f"{folder}: there is no image cache; make it with `orcu data prepare NAME --size N`.")
        try:
            self.index: dict[str, Any] = json.loads((folder / INDEX).read_text())
            self.sums: FloatArray = np.load(folder / SUMS, allow_pickle=False)
            there = (folder / PIXELS).stat().st_size
        except (OSError, ValueError) as error:
            raise InputError(f"{folder}: the cache is damaged ({error}); run `orcu data prepare` again.") from None
        if self.index["manifest"] != manifest.digest or self.index["version"] != VERSION:
            raise InputError(f"{folder}: this cache was made from another manifest; run `orcu data prepare` again.")
        size = int(self.index["size"])
        shape = (len(manifest), 3, size, size)
        if there != np.prod(shape) or len(self.sums) != len(manifest):
            raise InputError(f"{folder}: the cache is cut off; run `orcu data prepare` again.")
        self.images: Pixels = np.memmap(folder / PIXELS, dtype=np.uint8, mode="r", shape=shape)

    def __len__(self) -> int:
        return len(self.images)

    def verify(self) -> None:
        """Read everything and compare it with the checksums.

        Raises:
            InputError: naming the first block that has changed.
        """
        for block, (part, known) in enumerate(zip(_blocks(self.images), self.index["sha256"], strict=True)):
            if sha256(part.data).hexdigest() != known:
                raise InputError(
                    f"{self.folder}: images {block * BLOCK} to {block * BLOCK + len(part) - 1} are not as "
                    "they were written; run `orcu data prepare` again."
                )

    def mean_and_std(self, rows: npt.NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of each colour over some images, of values in [0, 1]."""
        pixels = len(rows) * self.images.shape[2] * self.images.shape[3]
        total, squares = self.sums[rows].sum(axis=0) / pixels
        mean = total / 255
        return mean, np.sqrt(np.maximum(squares / 255**2 - mean**2, 0))


def build(
    manifest: Manifest,
    folder: Path,
    size: int,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    verify: bool = False,
    wait: bool = False,
) -> ImageCache:
    """Decode every image once; a cache that is there is kept, one that was cut off is finished.

    Args:
        manifest: whose images.
        folder: where to write; it appears when everything is there.
        size: the side of the square images, in pixels.
        workers: threads that decode; as many as there are cores by default.
        progress: called with "decode", the images done, and all.
        verify: read a cache that is there against its checksums; one that is damaged is made again.
        wait: while another process builds it, instead of complaining.

    Raises:
        InputError: if the disk is full or an image cannot be decoded.
    """
    size = as_count(size, name="size", minimum=1)
    with locked(folder.with_name(f".{folder.name}.lock"), wait=wait):
        if folder.exists():
            try:
                cache = ImageCache(folder, manifest)
                if verify:
                    cache.verify()
                return cache
            except InputError:
                shutil.rmtree(folder)
        return _built(manifest, folder, size, workers, progress)


def _built(manifest: Manifest, folder: Path, size: int, workers: int | None, progress: Progress | None) -> ImageCache:
    part = folder.with_name(f".{folder.name}.part")
    part.mkdir(parents=True, exist_ok=True)
    shape = (len(manifest), 3, size, size)
    ticket = {"version": VERSION, "manifest": manifest.digest, "size": size, "block": BLOCK}
    done = _resumed(part, ticket, shape)
    enough_space(part, int(np.prod(shape)))
    images = np.memmap(part / PIXELS, dtype=np.uint8, mode="r+" if (part / PIXELS).exists() else "w+", shape=shape)
    dataset, root, paths = manifest.dataset(), manifest.root, manifest.column("path")

    def decode(row: int) -> None:
        images[row] = resized(dataset.preprocess(read_image(root, paths[row])), size).transpose(2, 0, 1)

    sums = np.zeros((len(manifest), 2, 3))
    digests = []
    try:
        with ThreadPoolExecutor(workers or os.cpu_count()) as pool, (part / JOURNAL).open("a") as journal:
            for block, pixels in enumerate(_blocks(images)):
                first = block * BLOCK
                digest = sha256(pixels.data).hexdigest() if block in done else ""
                if digest != done.get(block):
                    list(pool.map(decode, range(first, first + len(pixels))))
                    images.flush()
                    digest = sha256(pixels.data).hexdigest()
                    journal.write(json.dumps({"block": block, "sha256": digest}) + "\n")
                    journal.flush()
                digests.append(digest)
                values = pixels.astype(np.float64)
                sums[first : first + len(pixels), 0] = values.sum(axis=(2, 3))
                sums[first : first + len(pixels), 1] = (values**2).sum(axis=(2, 3))
                if progress is not None:
                    progress("decode", first + len(pixels), len(manifest))
    except OSError as error:
        raise InputError(
            f"{part}: {error.strerror or error}. What is decoded is kept; make room and run it again."
        ) from None
    np.save(part / SUMS, sums)
    (part / INDEX).write_text(json.dumps(ticket | {"sha256": digests}))
    (part / JOURNAL).unlink()
    part.rename(folder)
    return ImageCache(folder, manifest)


def _resumed(part: Path, ticket: dict[str, Any], shape: tuple[int, ...]) -> dict[int, str]:
    """Blocks that an earlier attempt at the same cache has finished; another attempt is removed."""
    first = {"ticket": ticket}
    journal = part / JOURNAL
    if journal.exists():
        lines = journal.read_text().splitlines()
        whole = (part / PIXELS).exists() and (part / PIXELS).stat().st_size == np.prod(shape)
        if whole and lines and _json(lines[0]) == first:
            entries = [_json(line) for line in lines[1:]]  # the last line may be cut off
            return {entry["block"]: entry["sha256"] for entry in entries if entry}
    shutil.rmtree(part)
    part.mkdir()
    with atomic_write(journal) as temporary:
        temporary.write_text(json.dumps(first) + "\n")
    return {}


def _json(line: str) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except ValueError:
        return {}


def _blocks(images: Pixels) -> Iterator[Pixels]:
    for first in range(0, len(images), BLOCK):
        yield images[first : first + BLOCK]
