"""Images per second of the decoded cache and of a DataLoader that decodes JPEGs.

    python benchmarks/data.py                 # or: make bench

Both return normalised, augmented batches of 64 images at 224 pixels on the CPU. The JPEGs are photographs of solar
cells (elpv-dataset), enlarged to 1024 pixels as in the paper, and at 224 pixels. If albumentations is installed, its
rotation is compared with orcu's pixel by pixel, with both borders.
"""

import argparse
import importlib.util
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.table import Table
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from orcu import data
from orcu.data.batches import ImageBatches
from orcu.data.transforms import BORDERS, Augmentation, rotate

SIZE, BATCH = 224, 64


def write_jpegs(folder: Path, side: int, count: int) -> None:
    """Write photographs to four class folders."""
    root = data.create("elpv").root()
    for number, row in enumerate(data.create("elpv").rows(root)):
        if number == count:
            return
        target = folder / str(row.label) / f"{row.id}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(root / row.path) as image:
            image.convert("RGB").resize((side, side)).save(target, quality=92)


def torchvision_batches(folder: Path, workers: int) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
    """A typical DataLoader."""
    steps = v2.Compose(
        [
            v2.ToImage(),
            v2.Resize((SIZE, SIZE), antialias=True),
            v2.RandomHorizontalFlip(),
            v2.RandomVerticalFlip(),
            v2.RandomApply([v2.RandomRotation(20, interpolation=v2.InterpolationMode.BILINEAR)]),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.2] * 3),
        ]
    )
    return DataLoader(
        ImageFolder(folder, steps), batch_size=BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0
    )


def cached_batches(folder: Path, out: Path) -> ImageBatches:
    """The same batches from the cache."""
    classes = ",".join(sorted(path.name for path in folder.iterdir()))
    prepared, _ = data.prepare("folder", folder, output=out, size=SIZE, options={"classes": classes})
    rows = np.arange(len(prepared.manifest))
    return ImageBatches(
        prepared.cache(SIZE),
        rows,
        prepared.manifest.labels,
        mean=np.full(3, 0.5),
        std=np.full(3, 0.2),
        batch_size=BATCH,
        shuffle=True,
        augmentation=Augmentation(),
    )


def rate(epochs: Iterator[Iterable[tuple[torch.Tensor, torch.Tensor]]]) -> float:
    """Images per second of an epoch after a warm-up epoch."""
    for _ in next(epochs):
        pass
    start, images_read = time.perf_counter(), 0
    for images, _ in next(epochs):
        images_read += len(images)
    return images_read / (time.perf_counter() - start)


def compare_rotations(console: Console, border: str, count: int = 50) -> None:
    """Difference between the rotations of orcu and Albumentations on real images."""
    import albumentations as A
    import cv2

    border_mode = {"constant": cv2.BORDER_CONSTANT, "reflect": cv2.BORDER_REFLECT_101}[border]
    root = data.create("elpv").root()
    rng, worst, mean = np.random.default_rng(0), [], []
    for _, row in zip(range(count), data.create("elpv").rows(root), strict=False):
        with Image.open(root / row.path) as image:
            pixels = np.asarray(image.convert("RGB").resize((SIZE, SIZE)))
        angle = float(rng.uniform(-20, 20))
        theirs = A.Rotate(limit=(angle, angle), p=1, border_mode=border_mode, interpolation=cv2.INTER_LINEAR)(
            image=pixels
        )["image"].astype(np.float64)
        images = torch.from_numpy(pixels).permute(2, 0, 1)[None].float()
        ours = rotate(images, torch.tensor([np.radians(angle)]), border=border)
        off = np.abs(ours[0].permute(1, 2, 0).numpy() - theirs)
        worst.append(off.max())
        mean.append(off.mean())
    console.print(
        f"rotation against albumentations {A.__version__}, border {border}, {count} images: mean difference "
        f"{np.mean(mean):.2f} of 255, largest {np.max(worst):.0f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=512)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    console = Console(width=100)
    table = Table(title=f"images per second, batches of {BATCH} at {SIZE} px, augmented, CPU")
    for heading in ("JPEGs of", "DataLoader, 0 workers", "DataLoader, 2 workers", "cache", "ratio to the best"):
        table.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        for side in (1024, SIZE):
            source = Path(folder) / str(side)
            write_jpegs(source, side, options.images)
            loaders = [torchvision_batches(source, workers) for workers in (0, 2)]
            rates = [rate(iter([loader, loader])) for loader in loaders]
            cached = cached_batches(source, Path(folder) / f"out{side}")
            ours = rate(cached.epoch(number) for number in range(2))
            cells = [f"{r:.0f}" for r in (*rates, ours)]
            table.add_row(f"{side} px", *cells, f"{ours / max(rates):.1f}")
    console.print(table)
    if importlib.util.find_spec("albumentations"):
        for border in BORDERS:
            compare_rotations(console, border)


if __name__ == "__main__":
    main()
