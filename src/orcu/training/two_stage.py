"""The two-stage continuation (Section III-D): SoftCE first, then three branches from its checkpoint."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from orcu import geometry, metrics
from orcu.data.store import Prepared
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray, as_positive
from orcu.io.writing import write_table
from orcu.models.classifier import Classifier, predict
from orcu.theory.alignment import activity
from orcu.training.experiment import Watcher, check_settings, choose_settings, find_or_prepare
from orcu.training.loop import Curve, Moment
from orcu.training.run import Run, RunConfig, Splits

STAGE_ONE = "sord"  # SoftCE on squared distances
NAN = float("nan")


@dataclass(frozen=True)
class Diagnostic:
    """What `train` has found: a record of every epoch, branch and fold, and the table of last epochs."""

    records: list[dict[str, Any]]
    table: list[dict[str, Any]]

    @property
    def feasible_share(self) -> float:
        """How many of the validation rows are in F, from 0 to 1, over all folds."""
        return sum(float(record["feasible_share"]) for record in self.records) / len(self.records)


def train(
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
    protocol: str | None = None,
    folds: int | None = None,
    scale: float = 3.0,
    epochs: tuple[int, int] = (50, 50),
    frozen: bool | None = None,
    device: str = "auto",
    watcher: Watcher | None = None,
    **settings: Any,
) -> Diagnostic:
    """Both stages on every fold of a data set; writes curves.parquet and table.csv.

    Args:
        data: as for `orcu.training.experiment.train`, like ``root``, ``options``, ``frozen``, ``watcher``.
        out: the folder of the result; each fold gets a folder in it, and goes on where it was cut off.
        root: the folder of the data's files, if they are not prepared yet.
        options: of the data set.
        protocol: whose folds; "paper" where there is one by default.
        folds: only the first so many.
        scale: s.
        epochs: of stage one and of stage two.
        frozen: train on the features of a frozen backbone.
        device: as for `Run`.
        watcher: is told what happens.
        **settings: of the runs, as for `RunConfig`; the losses are set.

    Raises:
        InputError: if a name, the data or the folder cannot be used.
    """
    out, watcher = Path(out), watcher or Watcher()
    settings["loss"] = STAGE_ONE
    check_settings(settings)
    prepared = find_or_prepare(data, out, root=root, options=options, watcher=watcher)
    chosen = choose_settings(prepared, device=device, frozen=frozen, watcher=watcher, **settings)
    known = prepared.protocols()
    protocol = protocol or ("paper" if "paper" in known else next(iter(known)))
    count = min(folds or known.get(protocol, 1), known.get(protocol, 1))
    records: list[dict[str, Any]] = []
    for fold in range(count):
        watcher.fold(fold)

        def progress(name: str, moment: Moment, fold: int = fold) -> None:
            watcher.training(moment, stage=f"fold {fold}, {name}")

        curves = two_stage(
            prepared,
            prepared.split(protocol, fold),
            chosen,
            out / f"fold_{fold}",
            scale=scale,
            epochs=epochs,
            device=device,
            progress=progress,
        )
        records += [{"fold": fold, **record} for record in curves]
    table = summary(records)
    write_table(pa.Table.from_pylist(records), out / "curves.parquet")
    write_table(pa.Table.from_pylist(table), out / "table.csv")
    return Diagnostic(records, table)


def branches(scale: float) -> dict[str, tuple[Any, str | None]]:
    """The losses of stage two and the regularizer that each has besides SoftCE, all with weight 1."""
    return {
        STAGE_ONE: (STAGE_ONE, None),
        "hinge": ({"anchor": STAGE_ONE, "regularizer": {"name": "hinge", "scale": scale}, "strength": 1.0}, "hinge"),
        "orcu": ({"name": "orcu", "scale": scale}, "lbe"),
    }


def two_stage(
    prepared: Prepared,
    splits: Splits,
    settings: RunConfig,
    folder: Path,
    *,
    scale: float = 3.0,
    epochs: tuple[int, int] = (50, 50),
    device: str = "auto",
    progress: Callable[[str, Moment], None] | None = None,
) -> list[dict[str, Any]]:
    """Run both stages on one fold; the curves of the three branches, one record per epoch.

    F are the validation rows whose directed gaps all clear the margin 1/s^2 at the end of stage one; it
    is frozen. Optimiser and schedule start anew, alike, in every branch (our choice).

    Args:
        prepared: the data.
        splits: row numbers of train, validation and test.
        settings: of the runs; its loss is not used.
        folder: each stage and branch gets a folder in it, and goes on where it was cut off.
        scale: s.
        epochs: of stage one and of stage two.
        device: as for `Run`.
        progress: called with the name of the stage or branch, and where its training stands.

    Raises:
        InputError: if no validation row is feasible after stage one.
    """
    as_positive(scale, name="scale")

    def run(loss: Any, count: int) -> Run:
        recipe = {**(settings.recipe or {}), "epochs": count}
        return Run(prepared, splits, replace(settings, loss=loss, recipe=recipe), device=device)

    def watch(name: str) -> Callable[[Moment], None] | None:
        return None if progress is None else partial(progress, name)

    first = run(STAGE_ONE, epochs[0]).train(folder / "stage_one", progress=watch("stage one"))
    start = {name: value.clone() for name, value in first.model.state_dict().items()}
    held = first.predictions["validation"]
    assert held.logits is not None  # noqa: S101 - runs write logits
    feasible = geometry.is_feasible(held.logits, held.labels, scale=scale)
    if not feasible.any():
        raise InputError("no validation row is feasible after stage one; train it longer, or use a larger scale.")
    records = []
    for branch, (loss, regularizer) in branches(scale).items():
        second = run(loss, epochs[1])
        second.model.load_state_dict(start)

        def diagnose(
            epoch: int, model: Classifier, second: Run = second, regularizer: str | None = regularizer
        ) -> Curve:
            train, validation = (
                (_logits(model, second, split), second.labels[splits[split]]) for split in ("train", "validation")
            )
            return diagnostics(train, validation, feasible, regularizer, scale)

        curves = second.train(folder / branch, progress=watch(branch), after_epoch=diagnose).curves
        records += [{"branch": branch, "feasible_share": float(feasible.mean()), **curve} for curve in curves]
    write_table(pa.Table.from_pylist(records), folder / "two_stage.parquet")
    return records


def diagnostics(
    train: tuple[FloatArray, IntArray],
    validation: tuple[FloatArray, IntArray],
    feasible: Any,
    regularizer: str | None,
    scale: float,
) -> Curve:
    """The diagnostics of one epoch: of training rows, of validation rows, and of the frozen set F.

    Args:
        train: logits and labels of the training rows.
        validation: likewise.
        feasible: which validation rows are in F.
        regularizer: the branch's own, or ``None``.
        scale: s.
    """
    probs = geometry.probs(validation[0])
    inside, y = probs[feasible], validation[1][feasible]
    curve = {
        "validation_sce": metrics.sce(probs, validation[1]),
        "feasible_sce": metrics.sce(inside, y),
        "feasible_ece": metrics.ece(inside, y),
        "feasible_unimodality": metrics.unimodality(inside),
        "interior_slope": NAN,
        "zero_gradients": NAN,
        "feasible_active": NAN,
        "alignment": NAN,
    }
    if regularizer is not None:
        everywhere = activity(*train, regularizer=regularizer, scale=scale)
        within = activity(validation[0][feasible], y, regularizer=regularizer, scale=scale)
        curve |= {
            "interior_slope": everywhere.interior_slope,
            "zero_gradients": everywhere.zero_gradients,
            "feasible_active": 1 - within.zero_gradients,
            "alignment": within.alignment,
        }
    return curve


def summary(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Table II: the last epoch of each branch, means over folds where there are several."""
    rows = []
    for branch in dict.fromkeys(record["branch"] for record in records):
        last = max(record["epoch"] for record in records if record["branch"] == branch)
        final = [r for r in records if r["branch"] == branch and r["epoch"] == last]
        columns = ("feasible_active", "alignment", "feasible_sce", "feasible_ece", "feasible_unimodality")
        rows.append({"branch": branch, **{name: float(np.mean([r[name] for r in final])) for name in columns}})
    return rows


def _logits(model: Classifier, run: Run, split: str) -> FloatArray:
    with torch.no_grad():
        logits: FloatArray = predict(model, run.batches(split).epoch(0))[0].double().numpy()
    return logits
