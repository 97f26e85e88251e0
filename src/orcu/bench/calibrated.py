"""Test metrics of a run after a calibrator that is fitted on its validation rows.

Calibrators are applied to stored predictions when a table needs them, so another calibrator costs no training. The
metrics are stored next to the runs, by the calibrator's options and the version of orcu.
"""

import json
import math
import warnings
from hashlib import sha256
from typing import Any

import numpy as np

import orcu
from orcu import calibrators
from orcu.bench.spec import CalibratorSpec
from orcu.bench.store import Store
from orcu.evaluation.statistics import check_two_classes, exact_metrics
from orcu.predictions import Predictions

N_BINS = 15
NONE = "none"


def calibrate(calibrator: CalibratorSpec, validation: Predictions, test: Predictions) -> Predictions:
    """Test predictions after a calibrator fitted on validation rows; "none" returns them unchanged."""
    if calibrator == NONE:
        return test
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrators.CalibrationWarning)
        return test.calibrated_on(validation, calibrators.create(_options(calibrator)))


def compute_metrics(predictions: Predictions) -> dict[str, float]:
    """All finite metrics of `exact_metrics`."""
    check_two_classes(predictions.class_counts, predictions.classes)
    values = exact_metrics(predictions, n_bins=N_BINS)
    return {name: value for name, value in sorted(values.items()) if math.isfinite(value)}


def metrics_after(store: Store, run: str, calibrator: CalibratorSpec) -> dict[str, float]:
    """All test metrics of a finished run after a calibrator; computed once, then read from the store.

    Raises:
        InputError: if the calibrator cannot be fitted on the run's validation rows.
    """
    if calibrator == NONE:
        content: dict[str, Any] | None = store.result(run)
    else:
        content = store.calibrated(run, _key(calibrator))
    if content is None:
        parts = (Predictions.read(store.runs / run / f"{split}.parquet") for split in ("validation", "test"))
        content = {
            "calibrator": _options(calibrator),
            "orcu": orcu.__version__,
            "test": compute_metrics(calibrate(calibrator, *parts)),
        }
        store.save_calibrated(run, _key(calibrator), content)
    metrics: dict[str, float] = content["test"]
    return metrics


def check_calibrator(calibrator: CalibratorSpec) -> None:
    """Fit a calibrator on a few random rows: some options are only checked by ``fit``.

    Raises:
        InputError: if an option is not valid.
    """
    if calibrator != NONE:
        rng = np.random.default_rng(0)
        rows = Predictions(logits=rng.normal(size=(30, 3)), y=np.arange(30) % 3)
        calibrate(calibrator, rows, rows[:3])


def _options(calibrator: CalibratorSpec) -> Any:
    """The argument of `orcu.calibrators.create`."""
    if isinstance(calibrator, str):
        return calibrator
    return {key: value for key, value in calibrator.items() if key != "label"}


def _key(calibrator: CalibratorSpec) -> str:
    """File name of a calibrator's metrics, from its options and the version of orcu."""
    options = _options(calibrator)
    text = json.dumps([options, orcu.__version__, N_BINS], sort_keys=True)
    name = str(options if isinstance(options, str) else options.get("name", ""))
    stem = "".join(letter if letter.isalnum() else "_" for letter in name)
    return f"{stem[:40]}-{sha256(text.encode()).hexdigest()[:12]}"
