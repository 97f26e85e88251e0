"""Whether a loss differs from another beyond chance: a paired bootstrap over folds and rows."""

from hashlib import sha256
from pathlib import Path

import numpy as np

from orcu.bench.collect import FINISHED, Planned, planned
from orcu.bench.run import BINS, calibrated
from orcu.bench.spec import Spec
from orcu.bench.store import Store
from orcu.bench.tables import BETTER, WORSE
from orcu.errors import InputError, UnknownNameError
from orcu.evaluation.evidence import gather
from orcu.evaluation.intervals import resampled_sums
from orcu.metrics.base import METRICS, Metric
from orcu.predictions.predictions import Predictions

RESAMPLES = 1000


def marks(spec: Spec, results: Path, reference: str) -> dict[tuple[str, str, str, str], str]:
    """For each data set, loss, calibrator and metric: better or worse than the reference, or neither.

    The statistic is that of the table: the mean over folds of the loss's metric minus the
    reference's. Each resample draws folds with replacement, and rows within each fold, the same for
    both losses; folds that share their test rows share the draw. A mark stands where the 95 %
    interval leaves zero out.

    Args:
        spec: the benchmark.
        results: its folder of results.
        reference: a loss as it is called in tables.

    Raises:
        InputError: if the spec has no such loss, or its runs keep no predictions.
    """
    if reference not in spec.row_names:
        raise UnknownNameError(f"loss of {spec.name}", reference, spec.row_names)
    if spec.two_stage or spec.rows != "test":
        raise InputError(f"--against: {spec.name} does not judge single models on test rows.")
    columns = [METRICS.get(name) for name in spec.columns]
    plan, store, found = planned(spec, results), Store(results), {}
    for data in spec.data:
        for calibrator in spec.calibrators:
            judged = {name: _judged(plan, store, data.title, name, calibrator) for name in spec.row_names}
            own = judged[reference]
            for name, folds in judged.items():
                shared = [key for key in folds if key in own]
                if name == reference or not shared:
                    continue
                pairs = [(folds[key], own[key]) for key in shared]
                for metric, mark in zip(columns, compared(pairs, columns), strict=True):
                    found[data.title, name, calibrator, metric.name] = mark
    return found


def compared(pairs: list[tuple[Predictions, Predictions]], columns: list[Metric], *, seed: int = 0) -> list[str]:
    """Of each metric, whether the first model is better or worse than the second over all folds.

    Args:
        pairs: two models' predictions of the same rows, fold by fold.
        columns: the metrics.
        seed: of the draws of folds.

    Raises:
        InputError: if two models of a fold were judged on other rows.
    """
    values, drawn = [], []
    for mine, theirs in pairs:
        if not np.array_equal(mine.labels, theirs.labels):
            raise InputError("two losses of one fold were judged on other rows; run them anew.")
        both = [gather(one, bins=BINS)[0] for one in (mine, theirs)]
        whole = [one.layout.tables(one.vector[None]) for one in both]
        seed_of_rows = _seed(mine)
        draws = [one.layout.tables(resampled_sums(one.sums, RESAMPLES, seed_of_rows)) for one in both]
        values.append([metric(whole[0]) - metric(whole[1]) for metric in columns])
        drawn.append([metric(draws[0]) - metric(draws[1]) for metric in columns])
    value = np.array(values)[..., 0].mean(0)  # (metrics,)
    differences = np.array(drawn)  # (folds, metrics, resamples)
    picks = np.random.default_rng(seed).integers(len(pairs), size=(len(pairs), RESAMPLES))
    resampled = differences[picks, :, np.arange(RESAMPLES)].mean(0).T  # (metrics, resamples)
    told = []
    for metric, own, here in zip(columns, value, resampled, strict=True):
        # Noise makes a binned error of a resample larger; what it adds on average is taken out.
        bias = float(here.mean() - own) if metric.binned else 0.0
        low, high = np.quantile(here - bias, [0.025, 0.975])
        sign = 0 if low <= 0 <= high else (1 if low > 0 else -1)
        better = {"higher": 1, "lower": -1}.get(metric.better, 0)
        told.append("" if sign * better == 0 else BETTER if sign == better else WORSE)
    return told


def _seed(rows: Predictions) -> int:
    """A seed from the ids of the rows, so that the same rows are drawn alike."""
    told = "\n".join(map(str, rows.ids if rows.ids is not None else range(len(rows))))
    return int.from_bytes(sha256(told.encode()).digest()[:4])


def _judged(
    plan: list[Planned], store: Store, data: str, loss: str, calibrator: str
) -> dict[tuple[int, int], Predictions]:
    """The test rows of each fold and seed, after the calibrator."""
    found = {}
    for one in plan:
        if (one.job.data.title, one.job.loss_name, one.state) == (data, loss, FINISHED) and one.run:
            held, test = (
                Predictions.read(store.runs / one.run / f"{split}.parquet") for split in ("validation", "test")
            )
            found[one.job.fold, one.job.seed] = calibrated(calibrator, held, test)
    return found
