"""From a prepared data set to a judged model: split, train, calibrate, judge, write it all down."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orcu import calibrators
from orcu.data.folds import SPLITS, OneSplit
from orcu.data.store import Prepared
from orcu.errors import InputError
from orcu.evaluation.evaluate import Evaluation, evaluate
from orcu.tables.files import replacing
from orcu.training.loop import Moment
from orcu.training.parallel import first_before_others, is_first
from orcu.training.predict import CALIBRATOR
from orcu.training.run import Result, Run, Settings, Splits

FEW_ROWS = 20  # of a class, in all splits


@dataclass(frozen=True)
class Judged:
    """A trained, calibrated model and what it is worth on the test rows."""

    result: Result
    calibrator: calibrators.Calibrator
    evaluation: Evaluation


def shares(text: str) -> tuple[float, float, float]:
    """The shares of train, validation and test, from a text such as 70/15/15.

    Raises:
        InputError: if it is anything else.

    Example:
        >>> shares("70/15/15")
        (70.0, 15.0, 15.0)
    """
    try:
        first, second, third = (float(part) for part in text.split("/"))
    except ValueError:
        raise InputError(f"split: expected three shares such as 70/15/15, got {text!r}.") from None
    if min(first, second, third) <= 0:
        raise InputError(f"split: every share must be above 0, got {text!r}.")
    return first, second, third


def divided(prepared: Prepared, parts: tuple[float, float, float], seed: int) -> Splits:
    """Row numbers of train, validation and test: stratified, subjects and doubles kept together.

    Raises:
        InputError: if a split would be empty, or a class would have no training rows.
    """
    folds, _ = OneSplit(shares=parts, by_subject=True).folds(prepared.manifest.cases(), seed)
    splits = {name: np.flatnonzero(folds[0] == code) for code, name in enumerate(SPLITS)}
    empty = [name for name, rows in splits.items() if len(rows) == 0]
    if empty:
        raise InputError(f"split: no rows are left for {empty[0]}; there are too few subjects or rows.")
    return splits


def small_classes(prepared: Prepared) -> list[str]:
    """Classes with so few rows that nothing reliable can be said of them."""
    counts = zip(prepared.manifest.classes, prepared.manifest.counts(), strict=True)
    return [f"{name} ({count})" for name, count in counts if count < FEW_ROWS]


def train_and_judge(
    prepared: Prepared,
    splits: Splits,
    settings: Settings,
    folder: Path,
    *,
    calibrator: str = "gap+projection",
    device: str = "auto",
    progress: Callable[[Moment], None] | None = None,
    on_features: Callable[[int, int], None] | None = None,
) -> Judged:
    """Train on the training rows, calibrate on validation, judge on the untouched test rows.

    Writes everything `Run.train` does, and calibrator.json, test_calibrated.parquet, report.html and
    card.json.

    Args:
        prepared: the data.
        splits: row numbers of train, validation and test.
        settings: of the run.
        folder: of the result; a training that was cut off goes on.
        calibrator: a name, as for `orcu.calibrators.create`.
        device: as for `Run`.
        progress: told after every step and epoch.
        on_features: told while a frozen backbone computes its features: batches done, and all.
    """
    made = calibrators.create(calibrator)
    run = Run(prepared, splits, settings, device=device)
    if settings.frozen:
        with first_before_others():
            run.features(on_features)
    result = run.train(folder, progress=progress)
    held, test = result.predictions["validation"], result.predictions["test"]
    made.fit(held.as_logits()[0], held.labels, ids=held.ids)
    moved = test.calibrated(made)
    found = evaluate(moved, compare={"before calibration": test}, name="calibrated")
    if not is_first():
        return Judged(result, made, found)
    made.save(folder / CALIBRATOR)
    moved.write(folder / "test_calibrated.parquet")
    name = prepared.name
    with replacing(folder / "report.html") as temporary:
        temporary.write_text(found.to_html(title=f"{name}: {settings.loss}"), encoding="utf-8")
    with replacing(folder / "card.json") as temporary:
        card = _card(prepared, run, splits, result, calibrator, found, evaluate(test))
        temporary.write_text(json.dumps(card, indent=1) + "\n")
    return Judged(result, made, found)


def _card(
    prepared: Prepared, run: Run, splits: Splits, result: Result, calibrator: str, after: Evaluation, before: Evaluation
) -> dict[str, Any]:
    """What someone who is handed the model needs to know, all of it measured or noted."""
    manifest = prepared.manifest
    labels, classes = manifest.labels, manifest.classes
    rows = {
        name: dict(zip(classes, np.bincount(labels[part], minlength=len(classes)).tolist(), strict=True))
        for name, part in splits.items()
    }
    subjects = manifest.column("subject")
    told = {
        name: {metric: asdict(value) for metric, value in found.metrics.items()}
        for name, found in (("calibrated", after), ("before calibration", before))
    }
    return {
        "model": asdict(result.plan) | {"columns": [column["name"] for column in result.plan.columns]},
        "classes": list(classes),
        "data": {
            "set": manifest.about.dataset,
            "options": manifest.about.options,
            "manifest": manifest.digest,
            "rows": rows,
            "subjects": None if subjects[0] is None else len(set(subjects)),
            "subject_exclusive": subjects[0] is not None,
        },
        "training": run.spec() | {"epochs": len(result.curves), "last_epoch": result.curves[-1]},
        "calibrator": {"name": calibrator, "fitted_on": "validation", "rows": len(splits["validation"])},
        "test": told,
        "limits": [f"class {name}: fewer than {FEW_ROWS} rows" for name in small_classes(prepared)],
    }
