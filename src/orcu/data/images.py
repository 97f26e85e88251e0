"""Reading images: from files, and from arrays in an archive."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from orcu.errors import InputError

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})


class BadImageError(InputError):
    """An image that is missing, truncated or no image at all."""


def read_image(root: Path, path: str) -> Image.Image:
    """An RGB image, turned upright where its camera has said how it was held.

    Args:
        root: the folder that ``path`` is relative to.
        path: a file, or ``archive.npz#name/3``.

    Raises:
        BadImageError: if it cannot be read to its end.
    """
    if "#" in path and ".npz" in path:
        return Image.fromarray(_entry(root, path)).convert("RGB")
    with _naming(path), Image.open(root / path) as image:
        image.load()
        return _rgb(ImageOps.exif_transpose(image))


def check_image(root: Path, path: str) -> str:
    """The SHA-256 of an image's bytes, if it can be decoded to its end.

    Raises:
        BadImageError: if it cannot.
    """
    if "#" in path and ".npz" in path:
        return sha256(_entry(root, path).tobytes()).hexdigest()
    with _naming(path):
        content = (root / path).read_bytes()
        with Image.open(io.BytesIO(content)) as image:
            # A JPEG is unpacked to its end at an eighth of its size, which is quicker.
            image.draft("RGB", (max(1, image.width // 8), max(1, image.height // 8)))
            image.load()
            _rgb(image)
    return sha256(content).hexdigest()


def resized(image: Image.Image, size: int) -> npt.NDArray[np.uint8]:
    """Pixels of shape (size, size, 3); the aspect is not kept, as in the paper's 224 x 224."""
    square = image.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(square, dtype=np.uint8)


def without_dark_border(image: Image.Image, *, at_most: int, threshold: int = 10) -> Image.Image:
    """A fundus photograph cut to what is brighter than its black surround, no side above ``at_most``.

    Args:
        image: RGB.
        at_most: the longest side of the result, in pixels.
        threshold: the brightness up to which a pixel counts as surround, of 255.

    Example:
        >>> pixels = np.zeros((40, 60, 3), dtype=np.uint8)
        >>> pixels[10:30, 20:50] = 200
        >>> without_dark_border(Image.fromarray(pixels), at_most=15).size
        (15, 10)
    """
    box = image.convert("L").point(lambda value: 255 if value > threshold else 0).getbbox()
    cut = image.crop(box) if box else image
    longest = max(cut.size)
    if longest <= at_most:
        return cut
    width, height = (max(1, round(side * at_most / longest)) for side in cut.size)
    return cut.resize((width, height), Image.Resampling.BILINEAR)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Whatever decoding raises, as one kind of error that names the file."""
    try:
        yield
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise BadImageError(f"{path}: {_reason(error)}") from None


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16"):  # 16 bits a pixel, which PIL would clip at 255
        values = np.asarray(image).astype(np.int64)
        return Image.fromarray((values >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in {"I", "F"}:
        raise ValueError("32 bits a pixel, whose range nobody knows; save it with 8 or 16")
    return image.convert("RGB")


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, UnidentifiedImageError):
        return "is no image"
    return f"cannot be decoded ({error})" if str(error) else "cannot be decoded"


def _entry(root: Path, path: str) -> npt.NDArray[np.uint8]:
    file, place = path.split("#", 1)
    name, index = place.rsplit("/", 1)
    return _array(root / file, name)[int(index)]


@lru_cache(maxsize=8)
def _array(file: Path, name: str) -> npt.NDArray[np.uint8]:
    with np.load(file, allow_pickle=False) as archive:
        entries: npt.NDArray[np.uint8] = archive[name]
        return entries
