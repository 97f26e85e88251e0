"""Evaluation of a folder of Parquet files with one process, several processes and Ray: the same bytes, and the times.

    python benchmarks/folder.py [--rows 20000000] [--files 20] [--folder DIR]

The rows are drawn from a calibrated model, with ties, subgroups and sample weights.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import orcu
from orcu.launchers import LAUNCHERS
from orcu.predictions import open_predictions

CLASSES = 5


def make(folder: Path, rows: int, files: int) -> None:
    """Write the files if they do not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in range(files):
        path = folder / f"part-{file:05d}.parquet"
        if path.exists():
            continue
        rng = np.random.default_rng(file)
        count = rows // files
        logits = rng.normal(size=(count, CLASSES)).astype(np.float32).round(2)
        probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        label = (probs.cumsum(1) < rng.random((count, 1))).sum(1).clip(max=CLASSES - 1)
        columns = {f"z_{k}": logits[:, k] for k in range(CLASSES)}
        table = pa.table({**columns, "label": label, "site": rng.choice(["a", "b", "c"], count)})
        pq.write_table(table, path)


def main() -> None:
    """Evaluate the folder with each launcher."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp())
    make(folder, options.rows, options.files)
    first = None
    for launcher, jobs in (("local", 1), ("local", 2), ("ray", 2)):
        started = time.perf_counter()
        source = open_predictions(folder, label="label", logits="z_*", subgroup="site")
        with LAUNCHERS.create(launcher, jobs=jobs) as workers:
            evaluation = orcu.evaluate(source, launcher=None if jobs == 1 else workers)
        seconds = time.perf_counter() - started
        text = json.dumps(evaluation.to_dict(), sort_keys=True)
        first = first or text
        same = "the same bytes" if text == first else "OTHER NUMBERS"
        print(f"{launcher:5} jobs {jobs}: {evaluation.rows:,} rows, {seconds:6.1f} s, {same}", flush=True)
        if text != first:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
