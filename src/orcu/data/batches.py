"""Batches for the training loop: of cached images, of rows of a matrix, of texts.

The order and the augmentation of an epoch depend only on the seed and on the number of the epoch, so that an
interrupted training resumes with the same batches.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from orcu.data.cache import ImageCache
from orcu.data.transforms import Augmentation, normalize
from orcu.errors import InputError
from orcu.inputs import FloatArray, as_count
from orcu.raters.votes import Targets
from orcu.threads import map_ordered

if TYPE_CHECKING:
    import torch

RowNumbers = npt.NDArray[np.intp]


class Batches(ABC):
    """Base class for batches of some rows of a data set; subclasses define ``epoch``.

    Args:
        rows: row numbers.
        labels: labels of all rows of the data set, (n,); or shares of their votes in float32, (n, C).
        batch_size: rows per batch; the last batch may be smaller.
        shuffle: whether each epoch has a new order.
        seed: seed of the order and of augmentation.
        device: device of the batches.

    Raises:
        InputError: if there are no rows, or an argument is not valid.
    """

    def __init__(
        self,
        rows: Any,
        labels: Targets,
        batch_size: int = 64,
        shuffle: bool = False,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        as_count(batch_size, name="batch_size", minimum=1)
        self.rows: RowNumbers = np.asarray(rows)
        if len(self.rows) == 0:
            raise InputError("rows: expected at least one row number; a split must not be empty.")
        if not np.issubdtype(self.rows.dtype, np.integer):
            raise InputError(f"rows: expected row numbers, got {self.rows.dtype}; use np.flatnonzero for a mask.")
        self.labels, self.batch_size, self.shuffle, self.seed, self.device = labels, batch_size, shuffle, seed, device

    def order(self, epoch: int) -> RowNumbers:
        """The rows in the order of an epoch; under torchrun the part of this process, of equal length for all."""
        if not self.shuffle:
            return self.rows
        order = np.random.default_rng([self.seed, epoch]).permutation(self.rows)
        rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        length = -(-len(order) // world_size)
        return np.resize(order, length * world_size)[rank::world_size]  # the first rows are repeated at the end

    @abstractmethod
    def epoch(self, number: int) -> Iterator[tuple[Any, ...]]:
        """The batches of an epoch: inputs, labels and, for weighted rows, sample weights."""

    def __len__(self) -> int:
        return -(-len(self.order(0)) // self.batch_size)

    def _parts(self, epoch: int) -> list[RowNumbers]:
        order = self.order(epoch)
        return [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]


class ImageBatches(Batches):
    """Batches of images, float of shape (B, 3, H, W), and labels, from an image cache.

    Threads read the next batches while the current one is used.

    Args:
        cache: image cache.
        rows: row numbers of the cache.
        labels: labels of all rows of the cache.
        mean: mean of each colour channel, in [0, 1].
        std: standard deviation of each colour channel.
        augmentation: random changes of the images, or ``None``.
        **options: further options of `Batches`.
    """

    def __init__(
        self,
        cache: ImageCache,
        rows: RowNumbers,
        labels: Targets,
        *,
        mean: FloatArray,
        std: FloatArray,
        augmentation: Augmentation | None = None,
        **options: Any,
    ) -> None:
        super().__init__(rows, labels, **options)
        self.cache, self.mean, self.std, self.augmentation = cache, mean, std, augmentation

    def epoch(self, number: int) -> Iterator[tuple["torch.Tensor", "torch.Tensor"]]:
        """The batches of an epoch."""
        import torch

        generator = torch.Generator().manual_seed(int(np.random.default_rng([self.seed, number, 1]).integers(2**62)))
        mean, std = (torch.as_tensor(v, dtype=torch.float32, device=self.device) for v in (self.mean, self.std))
        parts = self._parts(number)
        for rows, pixels in zip(parts, map_ordered(self.cache.images.__getitem__, parts, threads=2), strict=True):
            images = torch.from_numpy(pixels).to(self.device, non_blocking=True)
            images = self.augmentation(images, generator) if self.augmentation else images.float()
            yield normalize(images, mean, std), torch.from_numpy(self.labels[rows]).to(self.device)


class ArrayBatches(Batches):
    """Batches of rows of a matrix that is in the memory of the device.

    Args:
        matrix: float32, shape (n, ...).
        rows: row numbers.
        labels: labels of all rows of the matrix.
        weights: sample weights of all rows; batches then are (inputs, labels, weights).
        generator: generator that draws the orders one after another in place of the seed, for a training that is not
            resumed, in one process.
        **options: further options of `Batches`.

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
        labels: Targets,
        *,
        weights: npt.NDArray[np.float32] | None = None,
        generator: "torch.Generator | None" = None,
        **options: Any,
    ) -> None:
        import torch

        super().__init__(rows, labels, **options)
        self._generator = generator
        columns = [labels] if weights is None else [labels, weights]
        tensors = [matrix, *(torch.from_numpy(np.array(values)) for values in columns)]
        self._tensors = [tensor.to(self.device) for tensor in tensors]

    def __len__(self) -> int:
        return super().__len__() if self._generator is None else -(-len(self.rows) // self.batch_size)

    def epoch(self, number: int) -> Iterator[tuple["torch.Tensor", ...]]:
        """The batches of an epoch."""
        import torch

        if self._generator is None:
            order = self.order(number)
        else:
            order = self.rows[torch.randperm(len(self.rows), generator=self._generator).numpy()]
        for part in torch.split(torch.from_numpy(np.array(order)).to(self.device), self.batch_size):
            yield tuple(values.index_select(0, part) for values in self._tensors)


class TextBatches(Batches):
    """Batches of tokens, each padded to its longest text, and labels.

    Args:
        encoder: `orcu.models.text.TextEncoder` whose tokenizer is used.
        texts: texts of all rows; those of ``rows`` are tokenized once.
        rows: row numbers.
        labels: labels of all rows.
        **options: further options of `Batches`.
    """

    def __init__(self, encoder: Any, texts: Sequence[str], rows: RowNumbers, labels: Targets, **options: Any) -> None:
        super().__init__(rows, labels, **options)
        self.encoder = encoder
        tokens = encoder.tokenize([texts[row] for row in self.rows])
        self._tokens = dict(zip(self.rows.tolist(), tokens, strict=True))

    def epoch(self, number: int) -> Iterator[tuple[Any, "torch.Tensor"]]:
        """The batches of an epoch."""
        import torch

        for rows in self._parts(number):
            tokens = self.encoder.batch([self._tokens[int(row)] for row in rows])
            yield tokens.to(self.device), torch.from_numpy(self.labels[rows]).to(self.device)
