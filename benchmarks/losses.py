"""Time forward + backward of the losses as ratios to F.cross_entropy, in one run on one thread.

    python benchmarks/losses.py    # or: make bench

The rounds interleave the candidates, so that a busy machine slows all of them alike; the medians
of process time are compared. ``F.cross_entropy`` itself depends on the machine: torch's
log-softmax over a short last axis goes value by value until the axis fills a vector register (8
floats with AVX2, 16 with AVX-512), so the same loss is 0.6 times its cost at one width and 2 times
at another. The header therefore names the instruction set.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table

from orcu import losses

SIZES = [(64, 5), (4096, 5), (4096, 7), (4096, 8), (262144, 5), (262144, 8)]


def median_times(
    candidates: dict[str, Callable[[], object]], repeats: int, rounds: int
) -> dict[str, float]:
    """Median seconds of each candidate over interleaved rounds."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for step in candidates.values():
        step()
        step()
    for _ in range(rounds):
        for name, step in candidates.items():
            started = time.process_time()
            for _ in range(repeats):
                step()
            times[name].append((time.process_time() - started) / repeats)
    return {name: statistics.median(values) for name, values in times.items()}


def steps(rows: int, num_classes: int) -> dict[str, Callable[[], object]]:
    """A forward + backward of every loss on the same logits."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(rows, num_classes, generator=generator).requires_grad_()
    y = torch.randint(num_classes, (rows,), generator=generator)

    def step(loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(loss(logits, y), logits)

    candidates = {"F.cross_entropy": step(F.cross_entropy)}
    for name in losses.names():
        candidates[f"orcu: {name}"] = step(losses.create(name, num_classes=num_classes))
    return candidates


def main() -> None:
    """Print the table of ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds (default 15)")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    results = {
        (n, c): median_times(steps(n, c), repeats=max(1, 60000 // n), rounds=rounds)
        for n, c in SIZES
    }
    capability = torch.backends.cpu.get_cpu_capability()
    table = Table(
        title=f"forward + backward, ratio to F.cross_entropy (torch {torch.__version__}, {capability})"
    )
    table.add_column("loss")
    for n, c in SIZES:
        table.add_column(f"{n} x {c}", justify="right")
    first = "F.cross_entropy"
    table.add_row(
        first, *(f"{1e6 * results[size][first]:.0f} µs" for size in SIZES), end_section=True
    )
    for name in results[SIZES[0]]:
        if name != first:
            table.add_row(
                name, *(f"{results[size][name] / results[size][first]:.2f}" for size in SIZES)
            )
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
