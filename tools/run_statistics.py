"""Statistics of single runs that test sentences of the paper about confidence, errors, embeddings and convergence.

    python tools/run_statistics.py --results DIR    docs/results/run_statistics.parquet

They are computed from the stored predictions, features and training curves of a results folder:

- confidence_spread: standard deviation of the top probability over the test rows.
- p_true_on_errors: mean probability of the true class, on test rows that SORD and ORCU both decide wrongly.
- side_on_errors: on the same rows, the mass on the true class's side of the predicted class minus the mass on its
  other side.
- tsne_order, feature_order: Spearman's rank correlation between the distance of two test rows (in the t-SNE embedding
  of the paper's figures, in the features of the last layer) and the distance of their classes, over all pairs of rows.
- validation_sce, feasible_share: of two-stage runs, the SCE of all validation rows after stage two, and the share of
  the set F.
- epochs_ece, epochs_sce, epochs_ace: first epoch whose validation error is at most 10 % above the run's lowest.
"""

import argparse
from pathlib import Path
from typing import Any

import archive
import numpy as np
import pyarrow.parquet as pq
from results import split_sizes
from safetensors.numpy import load_file
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr

from orcu import bench
from orcu.bench.plan import Plan, PlannedRun
from orcu.figures.panels import tsne
from orcu.geometry import probs as softmax
from orcu.inputs import FloatArray, IntArray
from orcu.predictions import Predictions

NAME = "run_statistics"
SPECS = ("results_tables", "results_images", "results_retina", "results_text", "results_converged", "results_finetuned")
TWO_STAGE = "results_two_stage"
EMBEDDED = ("results_images", "results_retina", "results_converged", "results_finetuned")  # the paper embeds images
LOSSES = ("ce", "sord", "ls", "orcu")  # of Figs. 5, 6 and S7
TOLERANCE = 0.1
MAX_ROWS = 800  # of an embedding


def statistics(plan: Plan, archived: dict[tuple[str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each finished run of the losses; runs that are archived under spec and id are not computed again."""
    cells: dict[tuple[str, int, int], dict[str, PlannedRun]] = {}
    for run in plan.finished:
        if run.job.loss_name in LOSSES:
            key = (run.job.data.title, run.job.fold, run.job.seed)
            cells.setdefault(key, {})[run.job.loss_name] = run
    rows = []
    for (data, fold, seed), runs in cells.items():
        known = [archived.get((plan.spec.name, str(run.id))) for run in runs.values()]
        if all(known):
            rows += [row for row in known if row]
            continue
        by_loss = {loss: _test_rows(plan, run) for loss, run in runs.items()}
        wrong = {loss: probs.argmax(1) != labels for loss, (probs, labels) in by_loss.items()}
        errors = wrong["sord"] & wrong["orcu"] if {"sord", "orcu"} <= wrong.keys() else None
        for loss, run in runs.items():
            probs, labels = by_loss[loss]
            row = {"spec": plan.spec.name, "data": data, "loss": loss, "calibrator": "none", "fold": fold, "seed": seed}
            row["run"] = run.id
            row["confidence_spread"] = float(probs.max(1).std())
            if errors is not None and loss in {"sord", "orcu"}:
                row["common_errors"] = int(errors.sum())
                row |= on_errors(probs[errors], labels[errors])
            row |= convergence(pq.read_table(plan.file(run, "curves.parquet")).to_pydict())
            if plan.spec.name in EMBEDDED:
                features = load_file(plan.file(run, "features.safetensors"))["test"].astype(np.float64)
                row |= order(features, labels)
            rows.append(row)
    return rows


def two_stage(plan: Plan) -> list[dict[str, Any]]:
    """One row for each finished two-stage run and branch, at its last epoch."""
    rows = []
    for run in plan.finished:
        last = {row["branch"]: row for row in pq.read_table(plan.file(run, "two_stage.parquet")).to_pylist()}
        for branch, epoch in last.items():
            job = run.job
            row = {
                "spec": plan.spec.name,
                "data": job.data.title,
                "loss": branch,
                "calibrator": "none",
                "fold": job.fold,
            }
            row |= {"seed": job.seed, "run": run.id}
            rows.append(row | {name: epoch[name] for name in ("validation_sce", "feasible_share")})
    return rows


def _test_rows(plan: Plan, run: PlannedRun) -> tuple[FloatArray, IntArray]:
    predictions = Predictions.read(plan.file(run, "test.parquet"))
    return softmax(predictions.as_logits()[0]), predictions.labels


def on_errors(probs: FloatArray, labels: IntArray) -> dict[str, float]:
    """Mass on the true class, and its side minus the other side, of wrong decisions; shapes (n, C) and (n,).

    Example:
        >>> on_errors(np.array([[0.25, 0.5, 0.25]]), np.array([0]))
        {'p_true_on_errors': 0.25, 'side_on_errors': 0.0}
    """
    rows, modes = np.arange(len(labels)), probs.argmax(1)
    below = np.cumsum(probs, axis=1)[rows, modes] - probs[rows, modes]
    above = 1 - below - probs[rows, modes]
    side = np.where(labels < modes, below - above, above - below)
    return {"p_true_on_errors": float(probs[rows, labels].mean()), "side_on_errors": float(side.mean())}


def convergence(curves: dict[str, list[float]]) -> dict[str, int]:
    """First epoch at which each validation error is at most 10 % above the lowest of the run.

    Example:
        >>> convergence({f"validation_{name}": [0.5, 0.21, 0.2] for name in ("ece", "sce", "ace")})[
        ...     "epochs_sce"
        ... ]
        2
    """
    epochs = {}
    for name in ("ece", "sce", "ace"):
        values = np.asarray(curves[f"validation_{name}"])
        epochs[f"epochs_{name}"] = int(np.argmax(values <= (1 + TOLERANCE) * values.min())) + 1
    return epochs


def order(features: FloatArray, labels: IntArray) -> dict[str, float]:
    """Rank correlation of the distances of rows with the distances of their classes; shapes (n, D) and (n,)."""
    shown = tsne.evenly_spaced(len(labels), MAX_ROWS)
    features, labels = features[shown], labels[shown]
    classes = pdist(labels[:, None].astype(float))
    embedding = tsne.data(features, labels, max_rows=MAX_ROWS).points
    return {
        name: float(spearmanr(pdist(points), classes).statistic)
        for name, points in (("feature_order", features), ("tsne_order", embedding))
    }


def with_split_sizes(rows: list[dict[str, Any]], sizes: dict[tuple[str, int], dict[str, int]]) -> list[dict[str, Any]]:
    """Rows with the number of training and test rows of their split, also those that are archived with other numbers.

    The predictions of the training rows cannot give it: a run stores at most 2,000 of them.
    """
    return [row | sizes[row["data"], row["fold"]] for row in rows]


def main() -> None:
    """Collect the statistics of all specs in a results folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results"), help="results folder")
    results = parser.parse_args().results
    archived = {(row["spec"], row["run"]): row for row in archive.load_rows(NAME)}
    rows = []
    for spec in SPECS:
        plan = bench.status(spec, results=results)
        rows += with_split_sizes(statistics(plan, archived), split_sizes(plan))
        print(f"{spec}: {sum(row['spec'] == spec for row in rows)} runs", flush=True)
    stages = bench.status(TWO_STAGE, results=results)
    rows += with_split_sizes(two_stage(stages), split_sizes(stages))
    archive.save_rows(NAME, rows, command="python tools/run_statistics.py", tolerance=TOLERANCE, max_rows=MAX_ROWS)


if __name__ == "__main__":
    main()
