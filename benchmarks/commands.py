"""Time of complete commands relative to reading the same file and computing three metrics with numpy.

    python benchmarks/commands.py            # or: make bench
    python benchmarks/commands.py --large    # also 50 million rows: 2 GB of disk, two minutes

Each command runs in a new process, including start-up. The reference also runs in a new process: it reads the file with
pyarrow and computes ECE, SCE and RPS with short numpy formulas (no checks, no intervals). Wall time is compared,
because both use all cores.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

AT_ONCE = 1_000_000
PLAIN = """
import sys, numpy as np, pyarrow.parquet as pq
def plain(batch):
    probs = np.column_stack([batch.column(k).to_numpy() for k in range(batch.num_columns - last)]).astype(np.float64)
    y, edges = batch.column("label").to_numpy(), np.arange(1, 15) / 15
    right = probs.argmax(1) == y
    gaps = [np.bincount(np.searchsorted(edges, probs.max(1)), weights=right - probs.max(1), minlength=15)]
    for k in range(probs.shape[1]):
        gaps.append(np.bincount(np.searchsorted(edges, probs[:, k]), weights=(y == k) - probs[:, k], minlength=15))
    outcome = y[:, None] <= np.arange(probs.shape[1] - 1)
    return np.array(gaps), ((probs.cumsum(1)[:, :-1] - outcome) ** 2).sum(), len(y)
file = pq.ParquetFile(sys.argv[1]); last = 1 + ("site" in file.schema.names)
gaps, rps, rows = map(sum, zip(*(plain(batch) for batch in file.iter_batches(1 << 20))))
print(np.abs(gaps[0]).sum() / rows, np.abs(gaps[1:]).sum() / rows / (len(gaps) - 1), rps / rows)
"""


def write(path: Path, rows: int, num_classes: int, *, group: bool = False) -> Path:
    """Write a Parquet file of float32 probabilities, labels drawn from them, and four subgroups."""
    rng, writer = np.random.default_rng(2), None
    for start in range(0, rows, AT_ONCE):
        count = min(AT_ONCE, rows - start)
        centre = rng.uniform(-1, num_classes, (count, 1))
        logits = -1.2 * np.abs(np.arange(num_classes) - centre) + rng.normal(0, 0.5, (count, num_classes))
        probs = np.exp(logits - logits.max(1, keepdims=True))
        probs /= probs.sum(1, keepdims=True)
        labels = (probs.cumsum(1)[:, :-1] < rng.random((count, 1))).sum(1)
        columns = {f"p{k}": probs[:, k].astype(np.float32) for k in range(num_classes)} | {"label": labels}
        if group:
            columns["site"] = np.array(["north", "east", "south", "west"])[rng.integers(4, size=count)]
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()
    return path


def timed(command: list[str]) -> tuple[float, float, float]:
    """Wall time, CPU time and peak memory in GB of a command."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"failed: {' '.join(command)}")
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e6


def best(step: Callable[[], tuple[float, float, float]], rounds: int) -> tuple[float, float, float]:
    """The fastest of several rounds."""
    return min(step() for _ in range(rounds))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="also run 50 million rows")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    orcu = str(Path(sys.executable).with_name("orcu"))
    table = Table(title="Commands, and reading + ECE, SCE and RPS in numpy (seconds of wall time)")
    for heading in ("", "plain", "orcu", "ratio", "processors", "peak GB"):
        table.add_column(heading, justify="left" if not heading else "right")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        report = ["--report", str(home / "report.html")]
        files = [
            ("10,000 x 5", write(home / "small.parquet", 10_000, 5), []),
            ("10,000 x 5, with report", home / "small.parquet", report),
            ("1M x 8", write(home / "million.parquet", 1_000_000, 8), []),
            (
                "1M x 8, four groups, with report",
                write(home / "groups.parquet", 1_000_000, 8, group=True),
                ["--subgroup", "site", *report],
            ),
            ("10M x 8", write(home / "ten.parquet", 10_000_000, 8), []),
        ]
        if options.large:
            files.append(("50M x 8", write(home / "fifty.parquet", 50_000_000, 8), []))
        for name, path, more in files:
            rounds = options.rounds if path.stat().st_size < 10**9 else 1
            plain = best(lambda path=path: timed([sys.executable, "-c", PLAIN, str(path)]), rounds)
            command = [orcu, "evaluate", str(path), "--label", "label", "--probs", "p*", *more]
            ours = best(lambda command=command: timed(command), rounds)
            figures = (plain[0], ours[0], ours[0] / plain[0], ours[1], ours[2])
            table.add_row(f"evaluate {name}", *(f"{figure:.2f}" for figure in figures))
        rng = np.random.default_rng(0)
        logits_file = home / "logits.parquet"
        logits = rng.normal(0, 1, (2_800, 5)) - 2 * np.abs(np.arange(5) - rng.uniform(-0.5, 4.5, (2_800, 1)))
        labels = (logits + rng.gumbel(size=logits.shape)).argmax(1)
        pq.write_table(pa.table({f"z{k}": logits[:, k] for k in range(5)} | {"label": labels}), logits_file)
        read_options = ["--label", "label", "--logits", "z*"]
        for name, command in {
            "calibrate compare 2,800 x 5": [orcu, "calibrate", "compare", str(logits_file), *read_options],
            "--help": [orcu, "--help"],
            "import orcu (without the start of python)": [sys.executable, "-c", "import orcu"],
        }.items():
            wall, processors, _ = best(lambda command=command: timed(command), options.rounds)
            if name.startswith("import"):
                wall -= best(lambda: timed([sys.executable, "-c", ""]), options.rounds)[0]
            table.add_row(name, "", f"{wall:.3f}", "", f"{processors:.2f}", "")
    Console().print(table)


if __name__ == "__main__":
    main()
