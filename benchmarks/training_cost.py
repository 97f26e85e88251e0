"""CPU time of fitting and predicting beside LightGBM's own multiclass with early stopping, by the size of the table.

    python benchmarks/training_cost.py [--sizes 10000x20,100000x20,8260x200] [--methods ...] [--write FILE.parquet]

Each fit runs in a separate process on one thread, one after the other, and the ratios are those of one run. The columns
are the CPU time of fit, the CPU time of predicting 10,000 test rows, the peak memory of the process, and the RPS of
these rows. The rows are simulated: five classes cut from a latent score with interactions, thresholds, noise that
depends on a column, and columns without information. LightGBM has its defaults (learning rate 0.1, 31 leaves), 1,000
rounds and early stopping after 30 rounds on a tenth of the rows.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from orcu.inputs import FloatArray, IntArray
from orcu.io.writing import write_table

SIZES = "10000x20,8260x200,100000x20"
TEST_ROWS = 10_000
CLASSES = 5
SEED = 0


def simulate(rows: int, columns: int, seed: int = SEED) -> tuple[FloatArray, IntArray]:
    """Rows of normal columns and labels of five classes; half of the columns, 12 at most, have information."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    used = min(columns // 2, 12)
    weights = 1 / np.sqrt(1 + np.arange(used))
    score = x[:, :used] @ weights + 1.2 * x[:, 0] * x[:, 1] + 1.5 * (x[:, 2] > 0.5) * x[:, 3] - 0.6 * x[:, 4] ** 2
    score += np.exp(0.3 * x[:, 5]) * rng.logistic(size=rows)
    return x, np.digitize(score, [-3.0, -1.0, 0.5, 2.0])


def _lightgbm(x: FloatArray, y: IntArray) -> Any:
    import lightgbm as lgb

    order = np.random.default_rng(SEED).permutation(len(y))
    stopping, train = np.split(order, [len(y) // 10])
    model = lgb.LGBMClassifier(n_estimators=1000, random_state=SEED, n_jobs=1, verbosity=-1)
    return model.fit(
        x[train], y[train], eval_set=[(x[stopping], y[stopping])], callbacks=[lgb.early_stopping(30, verbose=False)]
    )


def _boosting(x: FloatArray, y: IntArray) -> Any:
    from orcu import OrdinalBoosting

    return OrdinalBoosting(random_state=SEED, n_jobs=1, verbose=-1).fit(x, y)


def _classifier(x: FloatArray, y: IntArray) -> Any:
    from orcu import OrdinalClassifier

    return OrdinalClassifier(random_state=SEED, n_jobs=1, verbose=-1).fit(x, y)


METHODS = {"LightGBM": _lightgbm, "OrdinalBoosting": _boosting, "OrdinalClassifier": _classifier}


def measure(method: str, rows: int, columns: int) -> dict[str, Any]:
    """Fit one method in this process."""
    from orcu import metrics

    x, y = simulate(rows + TEST_ROWS, columns)
    warnings.simplefilter("ignore")
    METHODS[method](*simulate(300, 10))  # imports, and compiled code
    start = time.process_time()
    model = METHODS[method](x[:rows], y[:rows])
    fitted = time.process_time()
    probs = model.predict_proba(x[rows:])
    predicted = time.process_time()
    return {
        "method": method,
        "rows": rows,
        "columns": columns,
        "fit_cpu_s": fitted - start,
        "predict_cpu_s": predicted - fitted,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "rps": float(metrics.rps(probs, y[rows:])),
        "weights": getattr(model, "weights_", None),
    }


def main() -> None:
    """Print a row for each method and size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=SIZES, help="rows x columns, separated by commas")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--write", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [tuple(map(int, size.split("x"))) for size in options.sizes.split(",")]
    if options.one:
        print(json.dumps(measure(options.one, *sizes[0])))
        return
    console, results = Console(), []
    table = Table("rows x columns", "method", "fit, CPU s", "ratio", "predict, CPU s", "ratio", "peak GB", "RPS")
    for rows, columns in sizes:
        baseline: dict[str, Any] | None = None
        for method in options.methods.split(","):
            command = [sys.executable, __file__, "--one", method, "--sizes", f"{rows}x{columns}"]
            environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
            result = json.loads(
                subprocess.run(  # noqa: S603 -- this script
                    command, env=environment, check=True, capture_output=True
                ).stdout
            )
            baseline = result if baseline is None else baseline
            result |= {
                f"{name}_ratio": result[f"{name}_cpu_s"] / baseline[f"{name}_cpu_s"] for name in ("fit", "predict")
            }
            results.append(result)
            cells = [
                f"{rows:,} x {columns}",
                method,
                f"{result['fit_cpu_s']:.1f}",
                f"{result['fit_ratio']:.1f}",
                f"{result['predict_cpu_s']:.2f}",
                f"{result['predict_ratio']:.1f}",
                f"{result['peak_gb']:.2f}",
                f"{result['rps']:.4f}",
            ]
            console.print(*cells, result["weights"] or "")
            table.add_row(*cells)
    console.print(table)
    if options.write:
        names = ("numpy", "scikit-learn", "lightgbm", "torch", "orcu")
        about = {"command": "python benchmarks/training_cost.py", "versions": {name: version(name) for name in names}}
        rows = pa.Table.from_pylist([{key: value for key, value in row.items() if key != "weights"} for row in results])
        write_table(rows.replace_schema_metadata({"orcu": json.dumps(about)}), options.write)


if __name__ == "__main__":
    main()
