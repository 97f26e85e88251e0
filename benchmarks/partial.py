"""Rates of `orcu.PartialEvaluation`, and from them the plan of docs/guides/large.md for many rows.

    python benchmarks/partial.py [--rows 4000000] [--classes 5] [--planned 1000000000] [--cores 32]

Times are those of a processor core, not of a clock, so that other processes do not matter. The rows have a random
text id of 16 characters, float32 probabilities and a label, in Parquet.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import orcu
from orcu.predictions import open_predictions


def make(path: Path, rows: int, num_classes: int) -> None:
    """Write rows of a calibrated model."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(num_classes), rows)
    label = (rng.random((rows, 1)) > probs.cumsum(1)[:, :-1]).sum(1)
    columns = {f"p_{k}": probs[:, k].astype(np.float32) for k in range(num_classes)}
    pq.write_table(
        pa.table({"id": [f"{k * 0x9E3779B97F4A7C15 % 2**64:016x}" for k in range(rows)], "label": label, **columns}),
        path,
    )


def seconds(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Return the result of a call and its time on a core."""
    started = time.process_time()
    result = function(*arguments)
    return result, time.process_time() - started


def main() -> None:
    """Measure, then plan."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--classes", type=int, default=5)
    parser.add_argument("--planned", type=int, default=1_000_000_000)
    parser.add_argument("--cores", type=int, default=32)
    options = parser.parse_args()
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "part-0.parquet")
        make(path, options.rows, options.classes)
        file_bytes = path.stat().st_size / options.rows
        source = open_predictions(path, id="id", label="label", probs="p_*")
        parts = list(source.batches())
        _, read = seconds(lambda: sum(len(batch) for batch in source.batches()))
        state = orcu.PartialEvaluation()
        state.update(parts[0])  # imports and caches
        state, tally = orcu.PartialEvaluation(), orcu.Tally(options.classes)
        _, update = seconds(lambda: [state.update(part) for part in parts])
        _, plain = seconds(lambda: [tally.update(part.probs, part.y) for part in parts])
        content, encode = seconds(state.to_bytes)
        other, decode = seconds(orcu.PartialEvaluation.from_bytes, content)
        _, merge = seconds(state.merge, other)
        _, result = seconds(state.evaluate)
    rows = options.rows
    print(f"{rows:,} rows, {options.classes} classes, one core")
    print(f"file                {file_bytes:8.1f} bytes per row")
    print(f"read and check      {rows / read / 1e6:8.2f} million rows per second")
    print(
        f"update              {rows / update / 1e6:8.2f} million rows per second (Tally alone {rows / plain / 1e6:.2f})"
    )
    print(f"state, to_bytes     {len(content) / 1e6:8.1f} MB, in {encode:.2f} s")
    print(f"from_bytes, merge   {decode + merge:8.2f} s per state")
    print(f"evaluate            {result:8.1f} s")
    planned, cores = options.planned, options.cores
    work = planned * (read + update) / rows / cores
    print(f"plan: {planned:,} rows on {cores} cores")
    print(f"data                {planned * file_bytes / 1e9:8.0f} GB")
    print(f"read and update     {work:8.0f} s on each core")
    print(f"network             {planned * file_bytes / work / 1e6:8.0f} MB per second for all cores together")
    print(f"states, {cores} parts   {cores * len(content) / 1e6:8.0f} MB for the driver")
    print(f"merge and evaluate  {cores * (decode + merge) + result:8.0f} s")


if __name__ == "__main__":
    main()
