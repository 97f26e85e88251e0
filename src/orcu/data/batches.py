"""Batches of cached images for a training loop: gathered ahead, augmented on the device."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from orcu.data.cache import ImageCache
from orcu.data.transforms import Augmentation, normalized
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray

if TYPE_CHECKING:
    import torch

Batch = tuple["torch.Tensor", "torch.Tensor"]


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
        rows: npt.NDArray[np.intp],
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
        if len(rows) == 0:
            raise InputError("rows: none are given; a split must not be empty.")
        self.cache, self.rows, self.labels = cache, np.asarray(rows), labels
        self.mean, self.std = mean, std
        self.batch_size, self.augmentation = batch_size, augmentation
        self.shuffle, self.seed, self.device = shuffle, seed, device

    def __len__(self) -> int:
        return -(-len(self.rows) // self.batch_size)

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of one epoch."""
        import torch

        order = self.rows
        if self.shuffle:
            order = np.random.default_rng([self.seed, number]).permutation(self.rows)
        generator = torch.Generator().manual_seed(
            int(np.random.default_rng([self.seed, number, 1]).integers(2**62))
        )
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
                images = (
                    self.augmentation(images, generator) if self.augmentation else images.float()
                )
                labels = torch.from_numpy(self.labels[part]).to(self.device)
                yield normalized(images, mean, std), labels

    def _gather(self, part: npt.NDArray[np.intp]) -> npt.NDArray[np.uint8]:
        return self.cache.images[part]
