"""Batches for a training loop: cached images, rows of a matrix, texts.

Each kind has ``epoch(number)``, an iterator of (inputs, labels), or (inputs, labels, weights), that follows from the
seed and the number alone, so that a run that was cut off goes on as if it had not been.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from orcu.data.cache import ImageCache
from orcu.data.transforms import Augmentation, normalized
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray, as_count

if TYPE_CHECKING:
    import torch

Batch = tuple["torch.Tensor", "torch.Tensor"]
RowNumbers = npt.NDArray[np.intp]


class Batches(Protocol):
    """What a training loop takes batches from."""

    rows: RowNumbers
    labels: IntArray

    def epoch(self, number: int) -> Iterator[tuple[Any, ...]]:
        """The batches of one epoch: inputs, labels and, if rows are weighted, their weights."""

    def __len__(self) -> int: ...


def ordered(rows: RowNumbers, shuffle: bool, seed: int, epoch: int) -> RowNumbers:
    """The rows in the order of an epoch; under torchrun, the part of this process, all of one length."""
    if not shuffle:
        return rows
    order = np.random.default_rng([seed, epoch]).permutation(rows)
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    each = -(-len(order) // world)
    return np.resize(order, each * world)[rank::world]  # the first rows fill up the last round


def _usable(rows: Any, batch_size: int) -> RowNumbers:
    as_count(batch_size, name="batch_size", minimum=1)
    numbers = np.asarray(rows)
    if len(numbers) == 0:
        raise InputError("rows: none are given; a split must not be empty.")
    if not np.issubdtype(numbers.dtype, np.integer):
        raise InputError(f"rows: expected row numbers, got {numbers.dtype}; use np.flatnonzero of a mask.")
    return numbers


class ImageBatches:
    """Batches of (images, labels) from an image cache.

    Images are float, shape (B, 3, H, W); labels are int64. A thread reads
    the next batch while the present one is used. An epoch's order and augmentation follow from the
    seed and the epoch's number, whatever was drawn before.

    Args:
        cache: the images.
        rows: the cache's rows to use.
        labels: of all rows of the cache.
        mean: of each colour, in [0, 1].
        std: likewise.
        batch_size: images per batch; the last may be smaller.
        augmentation: ``None`` for images as they are.
        shuffle: in a new order each epoch.
        seed: of order and augmentation.
        device: where batches are made.
    """

    def __init__(
        self,
        cache: ImageCache,
        rows: RowNumbers,
        labels: IntArray,
        *,
        mean: FloatArray,
        std: FloatArray,
        batch_size: int = 64,
        augmentation: Augmentation | None = None,
        shuffle: bool = False,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        rows = _usable(rows, batch_size)
        self.cache, self.rows, self.labels = cache, rows, labels
        self.mean, self.std = mean, std
        self.batch_size, self.augmentation = batch_size, augmentation
        self.shuffle, self.seed, self.device = shuffle, seed, device

    def __len__(self) -> int:
        return -(-len(ordered(self.rows, self.shuffle, self.seed, 0)) // self.batch_size)

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of one epoch."""
        import torch

        order = ordered(self.rows, self.shuffle, self.seed, number)
        generator = torch.Generator().manual_seed(int(np.random.default_rng([self.seed, number, 1]).integers(2**62)))
        mean = torch.as_tensor(self.mean, dtype=torch.float32, device=self.device)
        std = torch.as_tensor(self.std, dtype=torch.float32, device=self.device)
        parts = [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(self._gather, parts[0])
            for step, part in enumerate(parts):
                pixels = coming.result()
                if step + 1 < len(parts):
                    coming = pool.submit(self._gather, parts[step + 1])
                images = torch.from_numpy(pixels).to(self.device, non_blocking=True)
                images = self.augmentation(images, generator) if self.augmentation else images.float()
                labels = torch.from_numpy(self.labels[part]).to(self.device)
                yield normalized(images, mean, std), labels

    def _gather(self, part: RowNumbers) -> npt.NDArray[np.uint8]:
        return self.cache.images[part]


class ArrayBatches:
    """Batches of rows of a matrix that is held in memory, on the device.

    Args:
        matrix: float32, shape (n, ...).
        rows: the rows to use.
        labels: of all rows.
        weights: of all rows; batches are then (inputs, labels, weights).
        batch_size: rows per batch; the last may be smaller.
        shuffle: in a new order each epoch.
        seed: of the order.
        generator: draws the orders in place of the seed, one after another, whatever an epoch's number: for a
            training that is not resumed, by one process.
        device: where the matrix is kept.

    Example:
        >>> import torch
        >>> batches = ArrayBatches(torch.eye(3), np.arange(3), np.array([0, 1, 2]), batch_size=2)
        >>> [labels.tolist() for inputs, labels in batches.epoch(0)]
        [[0, 1], [2]]
    """

    def __init__(
        self,
        matrix: "torch.Tensor",
        rows: RowNumbers,
        labels: IntArray,
        *,
        weights: npt.NDArray[np.float32] | None = None,
        batch_size: int = 64,
        shuffle: bool = False,
        seed: int = 0,
        generator: "torch.Generator | None" = None,
        device: str = "cpu",
    ) -> None:
        import torch

        rows = _usable(rows, batch_size)
        self.rows, self.labels = rows, labels
        self.batch_size, self.shuffle, self.seed = batch_size, shuffle, seed
        self._generator = generator
        per_row = [labels] if weights is None else [labels, weights]
        self._tensors = [matrix.to(device), *(torch.from_numpy(np.array(values)).to(device) for values in per_row)]

    def __len__(self) -> int:
        rows = self.rows if self._generator is not None else ordered(self.rows, self.shuffle, self.seed, 0)
        return -(-len(rows) // self.batch_size)

    def epoch(self, number: int) -> Iterator[tuple["torch.Tensor", ...]]:
        """The batches of one epoch."""
        import torch

        if self._generator is not None:
            order = self.rows[torch.randperm(len(self.rows), generator=self._generator).numpy()]
        else:
            order = ordered(self.rows, self.shuffle, self.seed, number)
        for part in torch.split(torch.from_numpy(np.array(order)).to(self._tensors[0].device), self.batch_size):
            yield tuple(values.index_select(0, part) for values in self._tensors)


class TextBatches:
    """Batches of texts, each padded to its longest.

    Args:
        encoder: a `orcu.models.text.TextEncoder`, whose tokens are used.
        texts: of all rows; tokens are made once.
        rows: the rows to use.
        labels: of all rows.
        batch_size: texts per batch; the last may be smaller.
        shuffle: in a new order each epoch.
        seed: of the order.
        device: where batches are made.
    """

    def __init__(
        self,
        encoder: Any,
        texts: Sequence[str],
        rows: RowNumbers,
        labels: IntArray,
        *,
        batch_size: int = 256,
        shuffle: bool = False,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        rows = _usable(rows, batch_size)
        self.encoder, self.rows, self.labels = encoder, rows, labels
        self.batch_size, self.shuffle, self.seed, self.device = batch_size, shuffle, seed, device
        tokens = encoder.tokenize([texts[row] for row in rows])
        self._tokens = dict(zip(rows.tolist(), tokens, strict=True))

    def __len__(self) -> int:
        return -(-len(ordered(self.rows, self.shuffle, self.seed, 0)) // self.batch_size)

    def epoch(self, number: int) -> Iterator[tuple[Any, "torch.Tensor"]]:
        """The batches of one epoch: tokens and labels."""
        import torch

        order = ordered(self.rows, self.shuffle, self.seed, number)
        for first in range(0, len(order), self.batch_size):
            part = order[first : first + self.batch_size]
            tokens = self.encoder.batch([self._tokens[int(row)] for row in part])
            yield tokens.to(self.device), torch.from_numpy(self.labels[part]).to(self.device)
