"""Human rating distributions: unimodality, and their distance to predicted distributions.

    orcu bench run results_raters
    python benchmarks/rater_study.py --results results [--write results]

1. Share of unimodal human rating distributions. A small number of ratings often looks bimodal by chance, so the share
   is compared with its expectation if all texts were unimodal: the same number of ratings drawn from the unimodal
   distribution nearest to each histogram. A text is significantly multimodal if its histogram is farther from unimodal
   than 95 % of such draws.
2. Distance between predicted and human distributions: the mean of sum_k (F(k) - H(k))^2 over the thresholds for each
   loss and calibrator, with F predicted and H human. The true distribution has the distance "floor", the sampling
   variance of H.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from orcu import bench, geometry
from orcu.bench.calibrated import calibrate
from orcu.calibrators.projection import nearest_unimodal
from orcu.data.store import load, store_folder
from orcu.inputs import FloatArray
from orcu.io.writing import write_table
from orcu.predictions import Predictions

SPEC = "results_raters"
CALIBRATORS = ("none", "temperature", "dirichlet", "gap", "gap+projection")
DRAWS = 200


def histograms(store: str) -> tuple[dict[str, FloatArray], dict[str, int]]:
    """Shares of the ratings -4..4 and number of ratings of each text."""
    manifest = load(store_folder() / store).manifest
    shares, counts = {}, {}
    for name, ratings in zip(manifest.ids, manifest.column("ratings"), strict=True):
        bars = np.bincount(np.asarray(ratings) + 4, minlength=9)
        shares[str(name)], counts[str(name)] = bars / bars.sum(), int(bars.sum())
    return shares, counts


def shape(store: str, seed: int = 0) -> dict[str, Any]:
    """Shares of unimodal histograms, expected if all were unimodal, and significantly multimodal."""
    shares, counts = histograms(store)
    human, raters = np.array(list(shares.values())), np.array(list(counts.values()))
    nearest = nearest_unimodal(human)
    distances = ((human - nearest) ** 2).sum(axis=1)
    rng = np.random.default_rng(seed)
    exceeded, expected = np.zeros(len(human)), 0.0
    for _ in range(DRAWS):
        drawn = rng.multinomial(raters, nearest / nearest.sum(axis=1, keepdims=True)) / raters[:, None]
        exceeded += ((drawn - nearest_unimodal(drawn)) ** 2).sum(axis=1) >= distances - 1e-12
        expected += geometry.is_unimodal(drawn).mean() / DRAWS
    return {
        "data": store,
        "texts": len(human),
        "raters": int(np.median(raters)),
        "unimodal": float(geometry.is_unimodal(human).mean()),
        "expected_if_unimodal": float(expected),
        "significantly_multimodal": float(np.mean(exceeded / DRAWS < 0.05)),
    }


def distance(predicted: Predictions, shares: dict[str, FloatArray]) -> float:
    """Mean squared distance of cumulative distributions, summed over thresholds."""
    human = np.array([shares[str(name)] for name in predicted.ids])
    gaps = np.cumsum(predicted.probs, axis=1) - np.cumsum(human, axis=1)
    return float((gaps[:, :-1] ** 2).sum(axis=1).mean())


def floor(shares: dict[str, FloatArray], counts: dict[str, int]) -> float:
    """Distance of the true distributions: the unbiased sampling variance of H."""
    variances = []
    for name, share in shares.items():
        mass = np.cumsum(share)[:-1]
        variances.append((mass * (1 - mass)).sum() / max(counts[name] - 1, 1))
    return float(np.mean(variances))


def main() -> None:
    """Run both studies, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--write", type=Path, help="folder of rater_shapes.csv and rater_distances.csv")
    options = parser.parse_args()
    plan = bench.status(SPEC, results=options.results)
    shapes = [shape(data.store) for data in plan.spec.data]
    for row in shapes:
        print(row, flush=True)
    distances = []
    humans = {data.title: histograms(data.store) for data in plan.spec.data}
    for title, human in humans.items():
        distances.append({"data": title, "loss": "floor", "calibrator": "", "fold": None, "distance": floor(*human)})
    for run in plan.finished:
        validation, test = (Predictions.read(plan.file(run, f"{part}.parquet")) for part in ("validation", "test"))
        for name in CALIBRATORS:
            value = distance(calibrate(name, validation, test), humans[run.job.data.title][0])
            distances.append(
                {
                    "data": run.job.data.title,
                    "loss": run.job.loss_name,
                    "calibrator": name,
                    "fold": run.job.fold,
                    "distance": value,
                }
            )
        print(run.job.title, f"{value:.4f}", flush=True)
    if options.write:
        for name, rows in (("rater_shapes", shapes), ("rater_distances", distances)):
            write_table(pa.Table.from_pylist(rows), options.write / f"{name}.csv")


if __name__ == "__main__":
    main()
