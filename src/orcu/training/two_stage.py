"""The two-stage diagnostic (Section III-D): SoftCE first, then three branches from its checkpoint."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from orcu import geometry, metrics
from orcu.data.store import PreparedData
from orcu.defaults import SCALE
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray, as_positive
from orcu.io.writing import write_table
from orcu.models.classifier import Classifier, predict_batches
from orcu.theory.alignment import activity
from orcu.training.experiment import Callback, check_config, choose_config, find_or_prepare
from orcu.training.loop import Curve, TrainingProgress
from orcu.training.run import VOTES, Run, RunConfig, Splits

STAGE_ONE = "sord"  # SoftCE on squared distances
EPOCHS = (50, 50)  # epochs of the two stages


@dataclass(frozen=True)
class Diagnostic:
    """Result of `train`: metrics of every epoch, branch and fold, and a table of the last epochs."""

    records: list[dict[str, Any]]
    table: list[dict[str, Any]]

    @property
    def feasible_share(self) -> float:
        """Share of feasible validation rows, the set F, in all folds."""
        return sum(float(record["feasible_share"]) for record in self.records) / len(self.records)


def train(
    data: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
    protocol: str | None = None,
    max_folds: int | None = None,
    scale: float = SCALE,
    epochs: tuple[int, int] = EPOCHS,
    frozen: bool | None = None,
    device: str = "auto",
    callback: Callback | None = None,
    **config: Any,
) -> Diagnostic:
    """Run the diagnostic on the folds of a data set; writes curves.parquet and table.csv.

    Each fold has a subfolder of ``output`` and continues an interrupted training there. ``protocol`` is "paper" by
    default if the data set has it, else its first one; ``max_folds`` limits the number of folds; ``scale`` and
    ``epochs`` are those of `two_stage`. The other arguments are those of `orcu.training.experiment.train`.
    """
    output, callback = Path(output), callback or Callback()
    config["loss"] = STAGE_ONE
    check_config(config)
    size = config.get("size", RunConfig.size)
    prepared = find_or_prepare(data, output, root=root, options=options, size=size, callback=callback)
    run_config = choose_config(prepared, device=device, frozen=frozen, callback=callback, **config)
    protocols = prepared.protocols()
    protocol = protocol or ("paper" if "paper" in protocols else next(iter(protocols)))
    folds = protocols.get(protocol, 1)
    records: list[dict[str, Any]] = []
    for fold in range(min(max_folds or folds, folds)):
        callback.fold(fold)

        def show(branch: str, progress: TrainingProgress, fold: int = fold) -> None:
            callback.training(progress, stage=f"fold {fold}, {branch}")

        folder = output / f"fold_{fold}"
        arguments = (prepared, prepared.split(protocol, fold), run_config, folder)
        curves = two_stage(*arguments, scale=scale, epochs=epochs, device=device, progress=show)
        records += [{"fold": fold, **record} for record in curves]
    table = summary(records)
    write_table(pa.Table.from_pylist(records), output / "curves.parquet")
    write_table(pa.Table.from_pylist(table), output / "table.csv")
    return Diagnostic(records, table)


def branches(scale: float) -> dict[str, tuple[Any, str | None]]:
    """Loss of each branch of stage two, and its regularizer besides SoftCE, with weight 1."""
    return {
        STAGE_ONE: (STAGE_ONE, None),
        "hinge": ({"anchor": STAGE_ONE, "regularizer": {"name": "hinge", "scale": scale}, "strength": 1.0}, "hinge"),
        "orcu": ({"name": "orcu", "scale": scale}, "lbe"),
    }


def two_stage(
    prepared: PreparedData,
    splits: Splits,
    config: RunConfig,
    folder: Path,
    *,
    scale: float = SCALE,
    epochs: tuple[int, int] = EPOCHS,
    device: str = "auto",
    progress: Callable[[str, TrainingProgress], None] | None = None,
) -> list[dict[str, Any]]:
    """Run both stages on one fold; returns the metrics of each branch and epoch.

    The set F are the validation rows whose directed gaps all exceed the margin 1/s^2 at the end of stage one; it
    stays fixed. Every branch starts with a new optimiser and scheduler (our choice).

    Args:
        prepared: prepared data.
        splits: row numbers of train, validation and test.
        config: settings of the runs; its loss is not used.
        folder: folder of the result, with a subfolder for each stage and branch; an interrupted training continues.
        scale: scale s.
        epochs: number of epochs of stage one and of stage two.
        device: as for `Run`.
        progress: called with the name of the stage or branch, and its progress.

    Raises:
        InputError: if no validation row is feasible after stage one.
    """
    as_positive(scale, name="scale")
    if config.label == VOTES:
        raise InputError("label: the two-stage diagnostic needs one label per row, got votes; use label=label.")

    def make_run(loss: Any, epochs: int) -> Run:
        training = {**(config.training or {}), "epochs": epochs}
        return Run(prepared, splits, replace(config, loss=loss, training=training), device=device)

    def show(name: str) -> Callable[[TrainingProgress], None] | None:
        return None if progress is None else partial(progress, name)

    first = make_run(STAGE_ONE, epochs[0]).train(folder / "stage_one", progress=show("stage one"))
    start = {name: value.clone() for name, value in first.model.state_dict().items()}
    validation = first.predictions["validation"]
    assert validation.logits is not None  # noqa: S101 - runs write logits
    feasible = geometry.is_feasible(validation.logits, validation.labels, scale=scale)
    if not feasible.any():
        raise InputError("scale: no validation row is feasible after stage one; use more epochs or a larger scale.")
    records = []
    for branch, (loss, regularizer) in branches(scale).items():
        run = make_run(loss, epochs[1])
        run.model.load_state_dict(start)

        def diagnose(epoch: int, model: Classifier, run: Run = run, regularizer: str | None = regularizer) -> Curve:
            train, validation = (
                (predict_batches(model, run.batches(split).epoch(0))[0].double().numpy(), run.labels[splits[split]])
                for split in ("train", "validation")
            )
            return diagnostics(train, validation, feasible, regularizer, scale)

        curves = run.train(folder / branch, progress=show(branch), after_epoch=diagnose).curves
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
    """Metrics of an epoch from logits and labels of the training and validation rows, and the mask of the set F."""
    probs = geometry.probs(validation[0])
    feasible_probs, y = probs[feasible], validation[1][feasible]
    curve = {
        "validation_sce": metrics.sce(probs, validation[1]),
        "feasible_sce": metrics.sce(feasible_probs, y),
        "feasible_ece": metrics.ece(feasible_probs, y),
        "feasible_unimodality": metrics.unimodality(feasible_probs),
    }
    if regularizer is None:
        return curve | dict.fromkeys(("interior_slope", "zero_gradients", "feasible_active", "alignment"), float("nan"))
    on_train = activity(*train, regularizer=regularizer, scale=scale)
    on_feasible = activity(validation[0][feasible], y, regularizer=regularizer, scale=scale)
    return curve | {
        "interior_slope": on_train.interior_slope,
        "zero_gradients": on_train.zero_gradients,
        "feasible_active": 1 - on_feasible.zero_gradients,
        "alignment": on_feasible.alignment,
    }


def summary(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Table II of the paper: metrics of the last epoch of each branch, averaged over folds."""
    rows = []
    for branch in dict.fromkeys(record["branch"] for record in records):
        last = max(record["epoch"] for record in records if record["branch"] == branch)
        final = [r for r in records if r["branch"] == branch and r["epoch"] == last]
        columns = ("feasible_active", "alignment", "feasible_sce", "feasible_ece", "feasible_unimodality")
        rows.append({"branch": branch, **{name: float(np.mean([r[name] for r in final])) for name in columns}})
    return rows
