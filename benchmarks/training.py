"""Overhead of the training loop and of the ORCU loss relative to a plain training step.

    python benchmarks/training.py    # or: make bench

The plain step is forward pass, cross-entropy, backward pass and AdamW on the same ResNet-18 and the same batches of 64
images with 64 pixels. Rounds interleave the candidates; medians are compared.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from orcu import losses
from orcu.models.backbones import ImageBackbone
from orcu.models.classifier import Classifier
from orcu.training.config import TrainConfig
from orcu.training.loop import fit

STEPS, BATCH, SIZE, CLASSES, ROUNDS = 6, 64, 64, 5, 9


class Ready:
    """Batches that are created before the timing starts."""

    def __init__(self, steps: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.rows = np.arange(steps * BATCH)
        self.labels = rng.integers(CLASSES, size=len(self.rows))
        self._batches = [
            (torch.randn(BATCH, 3, SIZE, SIZE), torch.from_numpy(self.labels[i * BATCH : (i + 1) * BATCH]))
            for i in range(steps)
        ]

    def __len__(self) -> int:
        return len(self._batches)

    def epoch(self, number: int) -> Any:
        """Return the same batches in each epoch."""
        return iter(self._batches)


def network() -> Classifier:
    """A ResNet-18 with five classes."""
    torch.manual_seed(0)
    return Classifier(ImageBackbone("resnet18", weights="random"), CLASSES)


def bare(criterion: nn.Module, train: Ready, validation: Ready) -> Callable[[], None]:
    """Time of a plain loop over the same steps, and of a pass over the validation batches."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def run() -> None:
        model.train()
        for images, labels in train.epoch(0):
            optimizer.zero_grad(set_to_none=True)
            criterion(model(images).logits, labels).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for images, _ in validation.epoch(0):
                model(images)

    return run


def looped(criterion: nn.Module, train: Ready, validation: Ready) -> Callable[[], None]:
    """Time of orcu's training loop: one epoch with metrics and progress."""
    model = network()
    train_config = TrainConfig(epochs=1, head_learning_rate=1e-3, learning_rate=1e-3)

    def run() -> None:
        fit(model, criterion, train, validation, train_config, progress=lambda progress: None)

    return run


def main() -> None:
    """Print the table."""
    torch.set_num_threads(torch.get_num_threads())
    train, validation = Ready(STEPS, 0), Ready(1, 1)
    ce, orcu = nn.CrossEntropyLoss(), losses.create("orcu", num_classes=CLASSES)
    candidates = {
        "bare loop, cross-entropy": bare(ce, train, validation),
        "bare loop, ORCU": bare(orcu, train, validation),
        "orcu.training.loop, cross-entropy": looped(ce, train, validation),
    }
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for run in candidates.values():
        run()
    for _ in range(ROUNDS):
        for name, run in candidates.items():
            start = time.process_time()
            run()
            times[name].append(time.process_time() - start)
    reference = np.array(times["bare loop, cross-entropy"])
    table = Table(title=f"ResNet-18, {SIZE} px, {STEPS} steps of {BATCH} and a validation batch, CPU time")
    for heading in ("what", "seconds", "ratio (median of rounds)"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for name, taken in times.items():
        table.add_row(name, f"{np.median(taken):.2f}", f"{np.median(np.array(taken) / reference):.3f}")
    # The time of the loss is far below the noise of a step, so it is measured separately.
    logits = torch.randn(BATCH, CLASSES, requires_grad=True)
    labels = torch.randint(CLASSES, (BATCH,))
    cost = {}
    for name, criterion in (("ce", ce), ("orcu", orcu)):
        start = time.process_time()
        for _ in range(300):
            criterion(logits, labels).backward()
        cost[name] = (time.process_time() - start) / 300
    step = float(np.median(reference)) / (STEPS + 0.33)
    Console(width=110).print(table)
    Console(width=110).print(
        f"ORCU adds {1e6 * (cost['orcu'] - cost['ce']):.0f} us to a step of {1e3 * step:.0f} ms: "
        f"{(cost['orcu'] - cost['ce']) / step:.3%}"
    )


if __name__ == "__main__":
    main()
