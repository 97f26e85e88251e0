"""The automatic calibrator with few rows of two LLM judges.

    python benchmarks/auto.py --judges mllm_judge_logprobs.csv [--draws 50]

The file has a row per answer: judge, p_1..p_5 (probabilities of the grades), human (human grade). For each judge, every
other block of 50 answers is used for fitting, n rows at a time, and the others for evaluation. A cell is the mean RPS
over the draws, after the projection, divided by the best fixed method or the class frequencies of its line.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pyarrow.csv

from orcu import calibrators, metrics
from orcu.calibrators.projection import nearest_unimodal

ROWS = (25, 50, 100, 200, 400)
FIXED = ("temperature", "vector", "gap", "dirichlet")
METHODS = (*FIXED, "ordinal_dirichlet", "auto")
BLOCK = 50


def main() -> None:
    """Print a line for each judge and number of rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judges", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=50)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # few rows
    table = pyarrow.csv.read_csv(options.judges)
    judges = np.array(table["judge"].to_pylist())
    probs = np.stack([table[f"p_{k}"].to_numpy() for k in range(1, 6)], axis=1)
    grades = table["human"].to_numpy().astype(np.int64) - 1
    print(f"{'judge':16s}{'rows':>5s}{'best':>8s}" + "".join(f"{name:>19s}" for name in (*METHODS, "frequencies")))
    for judge in np.unique(judges):
        rows_of_judge = judges == judge
        p, y = np.maximum(probs[rows_of_judge], 1e-12), grades[rows_of_judge]
        p /= p.sum(axis=1, keepdims=True)
        odd = (np.arange(len(y)) // BLOCK) % 2 == 1
        pool, test = np.flatnonzero(~odd), np.flatnonzero(odd)
        for rows in ROWS:
            scores = {name: [] for name in (*METHODS, "frequencies")}
            for draw in range(options.draws):
                fit = np.random.default_rng(draw).choice(pool, rows, replace=False)
                for name in METHODS:
                    calibrated = calibrators.create(name).fit(probs=p[fit], y=y[fit]).predict_proba(probs=p[test])
                    scores[name].append(metrics.rps(nearest_unimodal(calibrated), y[test]))
                share = np.bincount(y[fit], minlength=5) / rows
                scores["frequencies"].append(metrics.rps(np.tile(share, (len(test), 1)), y[test]))
            means = {name: float(np.mean(values)) for name, values in scores.items()}
            best = min(means[name] for name in (*FIXED, "frequencies"))
            cells = "".join(f"{mean / best:19.3f}" for mean in means.values())
            print(f"{judge[:15]:16s}{rows:5d}{best:8.3f}{cells}", flush=True)


if __name__ == "__main__":
    main()
