"""What a run is worth after a calibrator: fitted on its validation rows, judged on its test rows, kept once known.

A run is data and training; calibrators are applied to its stored predictions when a table asks, so that one more
calibrator costs no training. What they give is kept beside the runs, by the calibrator's options and orcu's version.
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
from orcu.evaluation.evidence import need_two_classes
from orcu.evaluation.tally import Tally
from orcu.metrics.rows import Rows
from orcu.predictions.predictions import Predictions

BINS = 15
NONE = "none"


def calibrated(calibrator: CalibratorSpec, held: Predictions, test: Predictions) -> Predictions:
    """The test rows after a calibrator that was fitted on validation rows; "none" leaves them."""
    if calibrator == NONE:
        return test
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrators.CalibrationWarning)
        return test.calibrated_on(held, calibrators.create(_options(calibrator)))


def values(predictions: Predictions) -> dict[str, float]:
    """Every metric that is defined on these rows, from exact sums: the same bits on every machine."""
    need_two_classes(np.bincount(predictions.labels, minlength=predictions.num_classes), predictions.classes)
    tally = Tally(predictions.num_classes, bins=BINS)
    tally.add(Rows.of(predictions).grouped(BINS))
    return {name: value for name, value in sorted(tally.compute().items()) if math.isfinite(value)}


def values_after(store: Store, run: str, calibrator: CalibratorSpec) -> dict[str, float]:
    """Every metric of a finished run's test rows after a calibrator.

    Raises:
        InputError: if the calibrator cannot be fitted on the run's validation rows.
    """
    if calibrator == NONE:
        known: dict[str, float] = store.result(run)["test"]
        return known
    key = _key(calibrator)
    kept = store.calibrated(run, key)
    if kept is None:
        held, test = (Predictions.read(store.runs / run / f"{split}.parquet") for split in ("validation", "test"))
        kept = {
            "calibrator": _options(calibrator),
            "orcu": orcu.__version__,
            "test": values(calibrated(calibrator, held, test)),
        }
        store.keep_calibrated(run, key, kept)
    after: dict[str, float] = kept["test"]
    return after


def check_calibrator(calibrator: CalibratorSpec) -> None:
    """Make it and fit it on a few made-up rows, since some options are looked at by the fit only.

    Raises:
        InputError: if it cannot be made.
    """
    if calibrator != NONE:
        rng = np.random.default_rng(0)
        rows = Predictions(logits=rng.normal(size=(30, 3)), y=np.arange(30) % 3)
        calibrated(calibrator, rows, rows[:3])


def _options(calibrator: CalibratorSpec) -> Any:
    """What `orcu.calibrators.create` takes."""
    if isinstance(calibrator, str):
        return calibrator
    return {key: value for key, value in calibrator.items() if key != "label"}


def _key(calibrator: CalibratorSpec) -> str:
    """The name under which a calibrator's values are kept: by what they depend on, whatever its label."""
    text = json.dumps([_options(calibrator), orcu.__version__, BINS], sort_keys=True)
    options = _options(calibrator)
    name = options if isinstance(options, str) else options.get("name", "")
    called = "".join(letter if letter.isalnum() else "_" for letter in str(name))
    return f"{called[:40]}-{sha256(text.encode()).hexdigest()[:12]}"
