"""Time of forward and backward passes of the losses relative to F.cross_entropy, on one thread.

    python benchmarks/losses.py    # or: make bench

A second table has dense outputs, (n, C, H, W) with labels (n, H, W), as in segmentation.

Rounds interleave the candidates, so that other load affects all of them equally; medians of process time are compared.
``F.cross_entropy`` itself depends on the machine: torch's log-softmax over a short last axis is not vectorised until
the axis fills a vector register (8 floats with AVX2, 16 with AVX-512), so the ratio of a loss varies between 0.6 and 2.
The header therefore has the instruction set; use ``ATEN_CPU_CAPABILITY=avx2`` for the narrower one. ``torch.compile``
needs a C++ compiler.
"""

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table

from orcu import losses

SIZES = [(64, 5), (4096, 5), (4096, 7), (4096, 8), (262144, 5), (262144, 8)]
DENSE = (8, 5, 512, 512)


def median_times(
    candidates: dict[str, Callable[[], object]], repeats: int, rounds: int, warm_ups: int = 2
) -> dict[str, float]:
    """Median seconds of each candidate over interleaved rounds."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for step in candidates.values():
        for _ in range(warm_ups):
            step()
    for _ in range(rounds):
        for name, step in candidates.items():
            started = time.process_time()
            for _ in range(repeats):
                step()
            times[name].append((time.process_time() - started) / repeats)
    return {name: statistics.median(values) for name, values in times.items()}


def steps(rows: int, num_classes: int) -> dict[str, Callable[[], object]]:
    """Forward and backward passes of every loss on the same logits."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(rows, num_classes, generator=generator).requires_grad_()
    y = torch.randint(num_classes, (rows,), generator=generator)

    def step(loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(loss(logits, y), logits)

    candidates = {"F.cross_entropy": step(F.cross_entropy)}
    for name in losses.names():
        if name not in {"poe", "ensemble"}:  # these need the outputs of special heads
            candidates[f"orcu: {name}"] = step(losses.create(name, num_classes=num_classes))
    compiled = torch.compile(losses.create("orcu", num_classes=num_classes))
    candidates["orcu: orcu, torch.compile"] = step(compiled)
    candidates["torch: label smoothing"] = step(partial(F.cross_entropy, label_smoothing=0.05))
    if importlib.util.find_spec("dlordinal"):
        from dlordinal.losses import CDWCELoss, EMDLoss, SLACELoss, SORDLoss, WKLoss

        candidates["dlordinal: CDW-CE"] = step(CDWCELoss(num_classes=num_classes, alpha=5.0))
        sord = SORDLoss(num_classes=num_classes, train_targets=y, alpha=1.0)
        candidates["dlordinal: SORD"] = step(sord)
        candidates["dlordinal: EMD (orcu: rps)"] = step(EMDLoss(num_classes=num_classes))
        candidates["dlordinal: WK"] = step(WKLoss(num_classes=num_classes, use_logits=True))
        slace = SLACELoss(num_classes=num_classes, alpha=1.0)
        candidates["dlordinal: SLACE"] = step(slace)
    if importlib.util.find_spec("coral_pytorch"):
        from coral_pytorch.dataset import levels_from_labelbatch
        from coral_pytorch.losses import coral_loss

        def coral(z: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return coral_loss(z[:, 1:], levels_from_labelbatch(y, num_classes=z.shape[1]))

        if rows <= 4096:  # converts labels in a Python loop over rows
            candidates["coral-pytorch: CORAL"] = step(coral)
    return candidates


def dense_steps(shape: tuple[int, ...]) -> dict[str, Callable[[], object]]:
    """Forward and backward passes of every loss on dense outputs, and of ORCU on the same number of rows."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(shape, generator=generator).requires_grad_()
    y = torch.randint(shape[1], (shape[0], *shape[2:]), generator=generator)
    rows = logits.detach().movedim(1, -1).reshape(-1, shape[1]).requires_grad_()
    candidates: dict[str, Callable[[], object]] = {
        "F.cross_entropy": lambda: torch.autograd.grad(F.cross_entropy(logits, y), logits)
    }
    for name in losses.names():
        if name not in {"poe", "ensemble"}:
            loss = losses.create(name, num_classes=shape[1])
            candidates[f"orcu: {name}"] = lambda loss=loss: torch.autograd.grad(loss(logits, y), logits)
    orcu = losses.create("orcu", num_classes=shape[1])
    candidates["orcu: orcu, the same as rows"] = lambda: torch.autograd.grad(orcu(rows, y.flatten()), rows)
    return candidates


def main() -> None:
    """Print the tables of ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="number of interleaved rounds (default 15)")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    results = {(n, c): median_times(steps(n, c), repeats=max(1, 60000 // n), rounds=rounds) for n, c in SIZES}
    capability = torch.backends.cpu.get_cpu_capability()
    width = {"AVX512": "vectors of 16 floats", "AVX2": "vectors of 8 floats"}.get(capability, "")
    title = f"forward + backward, ratio to F.cross_entropy (torch {torch.__version__}, {capability} {width})"
    table = Table(title=title)
    table.add_column("loss")
    for n, c in SIZES:
        table.add_column(f"{n} x {c}", justify="right")
    first = "F.cross_entropy"
    table.add_row(first, *(f"{1e6 * results[size][first]:.0f} µs" for size in SIZES), end_section=True)
    for name in results[SIZES[0]]:
        if name != first:
            ratios = [results[size].get(name, 0.0) / results[size][first] for size in SIZES]
            table.add_row(name, *(f"{ratio:.2f}" if ratio else "" for ratio in ratios))
    Console(width=100).print(table)

    times = median_times(dense_steps(DENSE), repeats=1, rounds=min(rounds, 5))
    table = Table(title=f"dense outputs, {' x '.join(map(str, DENSE))} ({capability} {width})")
    table.add_column("loss")
    table.add_column("forward + backward", justify="right")
    table.add_row(first, f"{1e3 * times[first]:.0f} ms", end_section=True)
    for name, seconds in times.items():
        if name != first:
            table.add_row(name, f"{seconds / times[first]:.2f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
