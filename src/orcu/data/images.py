"""Reading images from files and from arrays in .npz archives."""

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
    """An image file is missing, truncated or cannot be decoded."""


def read_image(root: Path, path: str) -> Image.Image:
    """Read an RGB image, rotated as its EXIF orientation says; `BadImageError` if it cannot be decoded completely.

    ``path`` is a file in ``root``, or ``archive.npz#name/3`` for entry 3 of an array.
    """
    if _is_array_entry(path):
        return Image.fromarray(_read_array_entry(root, path)).convert("RGB")
    with _decoding_errors(path), Image.open(root / path) as image:
        return _to_rgb(ImageOps.exif_transpose(image))


def read_and_hash(root: Path, path: str) -> tuple[Image.Image, str]:
    """The image as `read_image` returns it, and the hash of its content as `hash_image` returns it."""
    if _is_array_entry(path):
        return read_image(root, path), hash_image(root, path)
    with _decoding_errors(path):
        content = (root / path).read_bytes()
        with Image.open(io.BytesIO(content)) as image:
            return _to_rgb(ImageOps.exif_transpose(image)), sha256(content).hexdigest()


def hash_image(root: Path, path: str) -> str:
    """Check that an image can be decoded completely, and return the SHA-256 of its content; see `read_image`."""
    if _is_array_entry(path):
        return sha256(_read_array_entry(root, path).tobytes()).hexdigest()
    with _decoding_errors(path):
        content = (root / path).read_bytes()
        with Image.open(io.BytesIO(content)) as image:
            # A JPEG is decoded to its end at an eighth of its size, which is faster.
            image.draft("RGB", (max(1, image.width // 8), max(1, image.height // 8)))
            _to_rgb(image)
        return sha256(content).hexdigest()


def resize_image(image: Image.Image, size: int) -> npt.NDArray[np.uint8]:
    """Pixels of shape (size, size, 3); the aspect ratio is not preserved, as in the paper's 224 x 224."""
    square = image.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(square, dtype=np.uint8)


def crop_dark_border(image: Image.Image, *, max_size: int, threshold: int = 10) -> Image.Image:
    """Crop the border with brightness up to ``threshold``, and shrink the image to at most ``max_size`` pixels a side.

    Example:
        >>> pixels = np.zeros((40, 60, 3), dtype=np.uint8)
        >>> pixels[10:30, 20:50] = 200
        >>> crop_dark_border(Image.fromarray(pixels), max_size=15).size
        (15, 10)
    """
    box = image.convert("L").point(lambda value: 255 if value > threshold else 0).getbbox()
    cropped = image.crop(box) if box else image
    longest = max(cropped.size)
    if longest <= max_size:
        return cropped
    width, height = (max(1, round(side * max_size / longest)) for side in cropped.size)
    return cropped.resize((width, height), Image.Resampling.BILINEAR)


@contextmanager
def _decoding_errors(path: str) -> Iterator[None]:
    """Turn errors of decoding into `BadImageError` with the file name."""
    try:
        yield
    except FileNotFoundError:
        raise BadImageError(f"{path}: file not found") from None
    except UnidentifiedImageError:
        raise BadImageError(f"{path}: not an image") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise BadImageError(f"{path}: cannot be decoded{f' ({error})' if str(error) else ''}") from None


def _to_rgb(image: Image.Image) -> Image.Image:
    image.load()
    if image.mode.startswith("I;16"):  # PIL would clip 16-bit values at 255
        values = np.asarray(image).astype(np.int64)
        return Image.fromarray((values >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in {"I", "F"}:
        raise ValueError("32 bits per pixel, of unknown range; save it with 8 or 16 bits")
    return image.convert("RGB")


def _is_array_entry(path: str) -> bool:
    return "#" in path and ".npz" in path


def _read_array_entry(root: Path, path: str) -> npt.NDArray[np.uint8]:
    file, entry = path.split("#", 1)
    name, index = entry.rsplit("/", 1)
    return _load_array(root / file, name)[int(index)]


@lru_cache(maxsize=8)
def _load_array(file: Path, name: str) -> npt.NDArray[np.uint8]:
    with np.load(file, allow_pickle=False) as archive:
        entries: npt.NDArray[np.uint8] = archive[name]
        return entries
