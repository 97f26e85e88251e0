"""Significance of differences between losses: a paired bootstrap over folds and rows."""

from hashlib import sha256

import numpy as np

from orcu.bench.calibrated import N_BINS, calibrate
from orcu.bench.plan import Plan
from orcu.bench.spec import CalibratorSpec
from orcu.errors import InputError, UnknownNameError
from orcu.evaluation.statistics import collect
from orcu.metrics.base import METRICS, Metric
from orcu.predictions import Predictions
from orcu.resampling import TAILS

RESAMPLES = 1000
BETTER, WORSE = "▲", "▼"  # significantly better or worse than the baseline
METHOD = "paired 95 % interval from a bootstrap over folds and rows"


def marks(plan: Plan, baseline: str) -> dict[tuple[str, str, str, str], str]:
    """Significance mark (better, worse or neither) of each data set, loss, calibrator and metric against a baseline.

    The statistic is the one of the table: the mean over folds of the loss's metric minus the baseline's. Each resample
    draws folds with replacement, and rows within each fold, the same for both losses; folds with the same test rows
    share the draw. A difference is marked if its 95 % interval excludes zero.

    Args:
        plan: plan of the benchmark.
        baseline: name of a loss in the tables.

    Raises:
        InputError: if the spec has no such loss, or its runs have no test predictions.
    """
    spec = plan.spec
    if baseline not in spec.row_names:
        raise UnknownNameError(f"loss of {spec.name}", baseline, spec.row_names)
    if spec.two_stage or spec.split != "test":
        raise InputError(f"--baseline: the tables of {spec.name} are not computed from test predictions.")
    columns = [METRICS.get(name) for name in spec.columns]
    by_cell = {}
    for data in spec.data:
        for calibrator_name, calibrator in zip(spec.calibrator_names, spec.calibrators, strict=True):
            predictions = {name: predictions_of(plan, data.title, name, calibrator) for name in spec.row_names}
            reference = predictions[baseline]
            for name, folds in predictions.items():
                pairs = [(folds[key], reference[key]) for key in folds if key in reference]
                if name == baseline or not pairs:
                    continue
                for metric, mark in zip(columns, compare_models(pairs, columns), strict=True):
                    by_cell[data.title, name, calibrator_name, metric.name] = mark
    return by_cell


def compare_models(pairs: list[tuple[Predictions, Predictions]], columns: list[Metric], *, seed: int = 0) -> list[str]:
    """Significance mark of each metric: whether the first model is better or worse than the second over all folds.

    Args:
        pairs: predictions of both models on the same rows, one pair for each fold.
        columns: metrics.
        seed: seed of the resampled folds.

    Raises:
        InputError: if the two models of a fold were evaluated on different rows.
    """
    values, resamples = [], []
    for first, second in pairs:
        if not np.array_equal(first.labels_or_votes, second.labels_or_votes):
            raise InputError("two losses of the same fold have different test rows; run them again.")
        statistics = [collect(model, n_bins=N_BINS)[0] for model in (first, second)]
        draws = [model.resampled(RESAMPLES, _row_seed(first)) for model in statistics]
        with np.errstate(invalid="ignore"):  # infinite in both
            values.append([metric(statistics[0].totals) - metric(statistics[1].totals) for metric in columns])
            resamples.append([metric(draws[0]) - metric(draws[1]) for metric in columns])
    estimates = np.array(values).mean(0)  # (metrics,)
    differences = np.array(resamples)  # (folds, metrics, resamples)
    folds = np.random.default_rng(seed).integers(len(pairs), size=(len(pairs), RESAMPLES))
    resampled = differences[folds, :, np.arange(RESAMPLES)].mean(0).T  # (metrics, resamples)
    result = []
    for metric, estimate, distribution in zip(columns, estimates, resampled, strict=True):
        # Resampling noise inflates a binned calibration error; its mean is subtracted. `gap_difference_interval`, which
        # `orcu evaluate` uses, does not apply: it scales the gaps of one evaluation of each model, and the error here
        # is a mean over folds, whose gaps differ and are resampled too.
        bias = float(distribution.mean() - estimate) if metric.binned else 0.0
        low, high = np.quantile(distribution - bias, TAILS)
        sign = 1 if low > 0 else -1 if high < 0 else 0  # 0 also if a metric is undefined, or infinite in both
        better = {"higher": 1, "lower": -1}.get(metric.better, 0)
        result.append("" if sign * better == 0 else BETTER if sign == better else WORSE)
    return result


def _row_seed(rows: Predictions) -> int:
    """A seed from the row ids, so that equal rows are resampled alike."""
    ids = "\n".join(map(str, rows.ids if rows.ids is not None else range(len(rows))))
    return int.from_bytes(sha256(ids.encode()).digest()[:4])


def predictions_of(plan: Plan, data: str, loss: str, calibrator: CalibratorSpec) -> dict[tuple[int, int], Predictions]:
    """Test predictions by fold and seed, after the calibrator."""
    by_fold = {}
    for run in plan.finished:
        if (run.job.data.title, run.job.loss_name) == (data, loss):
            parts = (Predictions.read(plan.file(run, f"{split}.parquet")) for split in ("validation", "test"))
            by_fold[run.job.fold, run.job.seed] = calibrate(calibrator, *parts)
    return by_fold
