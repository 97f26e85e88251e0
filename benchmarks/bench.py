"""Overhead of benchmark runs: time ratio to a plain training loop, in one process.

    python benchmarks/bench.py [--folds 1]    # or: make bench

The runs are those of quick_losses (eleven losses, frozen image features and a table). The plain loop has forward pass,
loss, backward pass and AdamW over the same batches and epochs, and a pass over the validation rows after each epoch,
without metrics, curves, checkpoints, predictions, calibrators or files. Shared work (decoded images, features) is not
timed.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import torch

from orcu.bench.execution import execute, run_config
from orcu.bench.jobs import Job, Outcome, jobs
from orcu.bench.prepared import prepared_data
from orcu.bench.spec import load_spec
from orcu.models.classifier import Classifier
from orcu.training.run import Run


def plain_seconds(job: Job) -> float:
    """Seconds of a plain training loop over the run's batches."""
    prepared = prepared_data(job)
    if prepared is None:
        raise SystemExit("install the data: pip install 'orcu[data]'")
    run = Run(prepared, prepared.split(job.data.protocol, job.fold), run_config(job), device="cpu")
    model: Classifier = run._trained()
    batches, validation = run.batches("train", train=True), run.batches("validation")
    started = time.perf_counter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(run.train_config.epochs):
        model.train()
        for inputs, labels in batches.epoch(epoch):
            optimizer.zero_grad(set_to_none=True)
            run.criterion(model(inputs).for_loss, labels).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for inputs, labels in validation.epoch(0):
                run.criterion(model(inputs).for_loss, labels)
    return time.perf_counter() - started


def main() -> None:
    """Print the ratio of each data set and of all runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folds", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("ORCU_DATA", str(Path(folder) / "data"))
        seconds: dict[str, list[tuple[float, float]]] = {}
        for job in jobs(load_spec("quick_losses")):
            if job.fold >= options.folds:
                continue
            if job.data.title not in seconds:  # shared work, once
                seconds[job.data.title] = []
                execute(job, Path(folder) / "warm")
                plain_seconds(job)
            plain = plain_seconds(job)
            started = time.perf_counter()
            if execute(job, Path(folder) / "results") is not Outcome.DONE:
                raise SystemExit(f"{job.title} failed")
            seconds[job.data.title].append((plain, time.perf_counter() - started))
    seconds["all"] = [pair for pairs in seconds.values() for pair in pairs]
    for title, pairs in seconds.items():
        plain, total = (sum(column) for column in zip(*pairs, strict=True))
        print(f"{title:5} {len(pairs)} runs: {total:6.2f} s, plain loop {plain:6.2f} s, ratio {total / plain:.2f}")


if __name__ == "__main__":
    main()
