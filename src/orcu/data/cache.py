"""The image cache: all images of a manifest, decoded once to one size, in a memory-mapped file."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from orcu.data.base import Dataset
from orcu.data.download import check_disk_space
from orcu.data.images import read_image, resize_image
from orcu.data.manifest import Manifest
from orcu.errors import InputError
from orcu.inputs import FloatArray, as_count
from orcu.io.files import file_lock
from orcu.threads import available_cpus

if TYPE_CHECKING:
    from PIL.Image import Image

VERSION = 2
BLOCK = 256  # images per checksum
PIXELS, INDEX, JOURNAL, SUMS = "images.u8", "index.json", "journal.jsonl", "sums.npy"
Pixels = npt.NDArray[np.uint8]
Progress = Callable[[str, int, int], None]


class ImageCache:
    """Images of one size in the order of the manifest: uint8, shape (n, 3, size, size).

    ``folder`` was written by `build_cache`; it is an `InputError` if it is incomplete or belongs to another manifest.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        if not folder.is_dir():
            raise InputError(f"{folder}: image cache not found; run `orcu data prepare NAME --size N`.")
        try:
            self.index: dict[str, Any] = json.loads((folder / INDEX).read_text())
            self.sums: FloatArray = np.load(folder / SUMS, allow_pickle=False)
            file_size = (folder / PIXELS).stat().st_size
        except (OSError, ValueError) as error:
            raise InputError(f"{folder}: the cache is damaged ({error}); run `orcu data prepare` again.") from None
        if self.index["manifest"] != manifest.digest or self.index["version"] != VERSION:
            raise InputError(f"{folder}: the cache belongs to another manifest; run `orcu data prepare` again.")
        shape = _shape(len(manifest), int(self.index["size"]))
        if file_size != np.prod(shape) or len(self.sums) != len(manifest):
            raise InputError(f"{folder}: the cache is truncated; run `orcu data prepare` again.")
        self.images: Pixels = np.memmap(folder / PIXELS, dtype=np.uint8, mode="r", shape=shape)

    def __len__(self) -> int:
        return len(self.images)

    def verify(self) -> None:
        """Raise `InputError` if images do not match their checksums."""
        for block, (pixels, checksum) in enumerate(zip(_blocks(self.images), self.index["sha256"], strict=True)):
            if sha256(pixels.data).hexdigest() != checksum:
                raise InputError(
                    f"{self.folder}: images {block * BLOCK} to {block * BLOCK + len(pixels) - 1} do not match their "
                    "checksum; run `orcu data prepare` again."
                )

    def mean_and_std(self, rows: npt.NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of each colour channel over some images, of values in [0, 1]."""
        pixels = len(rows) * self.images.shape[2] * self.images.shape[3]
        total, squares = self.sums[rows].sum(axis=0) / pixels
        mean = total / 255
        return mean, np.sqrt(np.maximum(squares / 255**2 - mean**2, 0))


class DecodedImages:
    """Images of all rows of a data set, decoded while it is checked, in a file that `build_cache` takes over.

    ``folder`` is a temporary folder on the file system of the cache.
    """

    def __init__(self, folder: str, rows: int, size: int, dataset: Dataset) -> None:
        self.path, self._dataset, self._size = Path(folder) / PIXELS, dataset, size
        check_disk_space(Path(folder), int(np.prod(_shape(rows, size))))
        self._images: Pixels = np.memmap(self.path, dtype=np.uint8, mode="w+", shape=_shape(rows, size))

    def add(self, row: int, image: "Image") -> None:
        """Store the image of a row."""
        self._images[row] = _to_pixels(image, self._dataset, self._size)

    def select(self, rows: Sequence[int]) -> None:
        """Keep the images of some rows, given in ascending order."""
        for target, row in enumerate(rows):
            if target != row:
                self._images[target] = self._images[row]
        self._images = self._images[: len(rows)]
        os.truncate(self.path, self._images.size)

    def move(self, folder: Path, header: dict[str, Any]) -> None:
        """Move the file into an unfinished cache, as if the images had been decoded there."""
        checksums = [sha256(block.data).hexdigest() for block in _blocks(self._images)]
        self.path.replace(folder / PIXELS)
        entries = [{"block": n, "sha256": checksum} for n, checksum in enumerate(checksums)]
        (folder / JOURNAL).write_text("".join(json.dumps(entry) + "\n" for entry in [{"ticket": header}, *entries]))


def build_cache(
    manifest: Manifest,
    folder: Path,
    size: int,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    verify: bool = False,
    wait: bool = False,
    decoded: DecodedImages | None = None,
) -> ImageCache:
    """Decode all images of a manifest; an existing cache is used, an interrupted one is completed.

    Args:
        manifest: manifest of the images.
        folder: target folder; it appears when the cache is complete.
        size: side of the square images, in pixels.
        workers: number of threads; by default one for each available CPU.
        progress: called with "decode", the number of decoded images, and the number of all images.
        verify: whether to compare an existing cache with its checksums; a damaged one is rebuilt.
        wait: whether to wait while another process builds the cache, instead of raising an error.
        decoded: the images of all rows, if they are decoded already.

    Raises:
        InputError: if the disk is full or an image cannot be decoded.
    """
    shape = _shape(len(manifest), as_count(size, name="size", minimum=1))
    with file_lock(folder.with_name(f".{folder.name}.lock"), wait=wait):
        if folder.exists():
            try:
                cache = ImageCache(folder, manifest)
                if verify:
                    cache.verify()
                return cache
            except InputError:
                shutil.rmtree(folder)
        part = folder.with_name(f".{folder.name}.part")
        part.mkdir(parents=True, exist_ok=True)
        header = {"version": VERSION, "manifest": manifest.digest, "size": size, "block": BLOCK}
        if decoded is None:
            check_disk_space(part, int(np.prod(shape)))
        else:
            decoded.move(part, header)
        checksums = _finished_blocks(part, header, shape)
        images = np.memmap(part / PIXELS, dtype=np.uint8, mode="r+" if checksums else "w+", shape=shape)
        dataset, root, paths = manifest.dataset(), manifest.root, manifest.column("path")

        def decode(row: int) -> None:
            images[row] = _to_pixels(read_image(root, paths[row]), dataset, size)

        sums, digests = np.zeros((len(manifest), 2, 3)), []
        try:
            with ThreadPoolExecutor(workers or available_cpus()) as pool, (part / JOURNAL).open("a") as journal:
                for block, pixels in enumerate(_blocks(images)):
                    rows = range(block * BLOCK, block * BLOCK + len(pixels))
                    digest = sha256(pixels.data).hexdigest() if block in checksums else ""
                    if digest != checksums.get(block):
                        list(pool.map(decode, rows))
                        images.flush()
                        digest = sha256(pixels.data).hexdigest()
                        journal.write(json.dumps({"block": block, "sha256": digest}) + "\n")
                        journal.flush()
                    digests.append(digest)
                    values = pixels.astype(np.float64)
                    sums[rows.start : rows.stop, 0] = values.sum(axis=(2, 3))
                    sums[rows.start : rows.stop, 1] = (values**2).sum(axis=(2, 3))
                    if progress is not None:
                        progress("decode", rows.stop, len(manifest))
        except OSError as error:
            raise InputError(
                f"{part}: {error.strerror or error}. Decoded images are kept; free some space and run it again."
            ) from None
        np.save(part / SUMS, sums)
        (part / INDEX).write_text(json.dumps(header | {"sha256": digests}))
        (part / JOURNAL).unlink()
        part.rename(folder)
        return ImageCache(folder, manifest)


def _finished_blocks(part: Path, header: dict[str, Any], shape: tuple[int, ...]) -> dict[int, str]:
    """Checksums of the blocks that an interrupted build has finished; files of another cache are removed."""
    first, journal = {"ticket": header}, part / JOURNAL
    if journal.exists() and (part / PIXELS).exists() and (part / PIXELS).stat().st_size == np.prod(shape):
        entries = [_parse_json(line) for line in journal.read_text().splitlines()]  # the last may be incomplete
        if entries and entries[0] == first:
            return {entry["block"]: entry["sha256"] for entry in entries[1:] if entry}
    shutil.rmtree(part)
    part.mkdir()
    journal.write_text(json.dumps(first) + "\n")
    return {}


def _parse_json(line: str) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except ValueError:
        return {}


def _to_pixels(image: "Image", dataset: Dataset, size: int) -> Pixels:
    return resize_image(dataset.preprocess(image), size).transpose(2, 0, 1)


def _shape(rows: int, size: int) -> tuple[int, int, int, int]:
    return rows, 3, size, size


def _blocks(images: Pixels) -> Iterator[Pixels]:
    return (images[first : first + BLOCK] for first in range(0, len(images), BLOCK))
