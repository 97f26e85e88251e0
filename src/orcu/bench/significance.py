"""Whether a loss differs from another beyond chance: a paired bootstrap over folds and rows."""

from hashlib import sha256

import numpy as np

from orcu.bench.calibrated import BINS, calibrated
from orcu.bench.plan import Plan
from orcu.bench.spec import CalibratorSpec
from orcu.errors import InputError, UnknownNameError
from orcu.evaluation.evidence import gather
from orcu.evaluation.intervals import TAILS
from orcu.metrics.base import METRICS, Metric
from orcu.predictions.predictions import Predictions

RESAMPLES = 1000
BETTER, WORSE = "▲", "▼"  # than the reference, beyond chance


def marks(plan: Plan, reference: str) -> dict[tuple[str, str, str, str], str]:
    """For each data set, loss, calibrator and metric: better or worse than the reference, or neither.

    The statistic is that of the table: the mean over folds of the loss's metric minus the
    reference's. Each resample draws folds with replacement, and rows within each fold, the same for
    both losses; folds that share their test rows share the draw. A mark stands where the 95 %
    interval leaves zero out.

    Args:
        plan: of the benchmark.
        reference: a loss as it is called in tables.

    Raises:
        InputError: if the spec has no such loss, or its runs keep no predictions.
    """
    spec = plan.spec
    if reference not in spec.row_names:
        raise UnknownNameError(f"loss of {spec.name}", reference, spec.row_names)
    if spec.two_stage or spec.rows != "test":
        raise InputError(f"--against: {spec.name} does not judge single models on test rows.")
    columns = [METRICS.get(name) for name in spec.columns]
    by_cell = {}
    for data in spec.data:
        for called, calibrator in zip(spec.calibrator_names, spec.calibrators, strict=True):
            predictions = {name: predictions_of(plan, data.title, name, calibrator) for name in spec.row_names}
            own = predictions[reference]
            for name, folds in predictions.items():
                shared = [key for key in folds if key in own]
                if name == reference or not shared:
                    continue
                pairs = [(folds[key], own[key]) for key in shared]
                for metric, mark in zip(columns, compared(pairs, columns), strict=True):
                    by_cell[data.title, name, called, metric.name] = mark
    return by_cell


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
        seed_of_rows = _seed(mine)
        draws = [one.resampled(RESAMPLES, seed_of_rows) for one in both]
        with np.errstate(invalid="ignore"):  # infinite in both
            values.append([metric(both[0].totals) - metric(both[1].totals) for metric in columns])
            drawn.append([metric(draws[0]) - metric(draws[1]) for metric in columns])
    value = np.array(values).mean(0)  # (metrics,)
    differences = np.array(drawn)  # (folds, metrics, resamples)
    picks = np.random.default_rng(seed).integers(len(pairs), size=(len(pairs), RESAMPLES))
    resampled = differences[picks, :, np.arange(RESAMPLES)].mean(0).T  # (metrics, resamples)
    verdicts = []
    for metric, own, here in zip(columns, value, resampled, strict=True):
        # Noise makes a binned error of a resample larger; what it adds on average is taken out.
        bias = float(here.mean() - own) if metric.binned else 0.0
        low, high = np.quantile(here - bias, TAILS)
        sign = 1 if low > 0 else -1 if high < 0 else 0  # 0 too where a metric is not defined, or infinite in both
        better = {"higher": 1, "lower": -1}.get(metric.better, 0)
        verdicts.append("" if sign * better == 0 else BETTER if sign == better else WORSE)
    return verdicts


def _seed(rows: Predictions) -> int:
    """A seed from the ids of the rows, so that the same rows are drawn alike."""
    ids = "\n".join(map(str, rows.ids if rows.ids is not None else range(len(rows))))
    return int.from_bytes(sha256(ids.encode()).digest()[:4])


def predictions_of(plan: Plan, data: str, loss: str, calibrator: CalibratorSpec) -> dict[tuple[int, int], Predictions]:
    """The test rows of each fold and seed, after the calibrator."""
    by_fold = {}
    for run in plan.finished:
        if (run.job.data.title, run.job.loss_name) == (data, loss):
            held, test = (Predictions.read(plan.file(run, f"{split}.parquet")) for split in ("validation", "test"))
            by_fold[run.job.fold, run.job.seed] = calibrated(calibrator, held, test)
    return by_fold
