"""An experiment: your data in, a calibrated model and its report out, by one call of `train`."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from orcu import calibrators, losses
from orcu.boosting.trees import BOOSTING, NETWORK, check_kinds, join_unasked
from orcu.data.base import DATASETS, TABLE
from orcu.data.folds import SPLITS, OneSplit
from orcu.data.prepare import Findings
from orcu.data.shared import prepare_own, shared
from orcu.data.store import MANIFEST, Prepared, load, store_folder
from orcu.errors import InputError, UnknownNameError
from orcu.evaluation.evaluate import evaluate
from orcu.evaluation.evaluation import Evaluation
from orcu.io.files import atomic_write
from orcu.losses.ensemble import MEMBERS
from orcu.models.backbones import RANDOM
from orcu.models.heads import HEADS
from orcu.models.kinds import model_kind
from orcu.training.config import TrainConfig
from orcu.training.cross_fitting import stacks
from orcu.training.ensemble_run import SETS, ensemble_run, fitted_sets
from orcu.training.loop import Moment
from orcu.training.parallel import first_before_others, is_first, joined
from orcu.training.predict import CALIBRATOR
from orcu.training.run import Result, Run, RunConfig, Splits, best_device

FEW_ROWS = 20  # of a class, in all splits
DEFAULT_FOLDS = 5


@dataclass(frozen=True)
class Experiment:
    """A trained, calibrated model and what it is worth on the test rows."""

    prepared: Prepared
    splits: Splits
    result: Result
    calibrator: calibrators.Calibrator
    evaluation: Evaluation
    choice: str = ""  # what an ensemble was put together of, and its calibrator, in words


class Watcher:
    """Whoever watches a training: each method is called when something happens, and here does nothing."""

    def prepared(self, findings: Findings) -> None:
        """The data have been scanned."""

    def frozen(self, backbone: str) -> None:
        """For want of a GPU only the features of a frozen backbone are trained on."""

    def decoding(self, done: int, total: int) -> None:
        """So many images are decoded."""

    def starting(self, prepared: Prepared, splits: Splits, *, slow: bool) -> None:
        """Data and rows are chosen; ``slow`` if a whole backbone is about to be trained on a CPU."""

    def features(self, done: int, total: int) -> None:
        """A frozen backbone has computed the features of so many batches."""

    def fold(self, number: int) -> None:
        """A fold begins."""

    def training(self, moment: Moment, *, stage: str = "") -> None:
        """A step or an epoch is over."""

    def member(self, loss: str, done: int, total: int, rps: float) -> None:
        """The ensemble's networks of a loss have done so many epochs; the mean RPS of the rows that stop them.

        Of trees: so many folds, and NaN.
        """

    def finished(self, experiment: Experiment) -> None:
        """The model is judged and everything written."""


def train(
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
    skip_bad: bool = False,
    split: Sequence[float] = (70, 15, 15),
    protocol: str | None = None,
    fold: int = 0,
    folds: int | None = None,
    members: Sequence[str] | None = None,
    calibrator: str = "auto",
    frozen: bool | None = None,
    device: str = "auto",
    watcher: Watcher | None = None,
    **settings: Any,
) -> Experiment:
    """Train on your own images, texts or table, calibrate, judge on untouched rows, write it all down.

    On a table or on the features of a frozen backbone this is an ensemble: perceptrons of several losses, and on a
    table boosted trees, cross-fitted on the rows of train and validation (see `orcu.training.ensemble_run`). A whole
    backbone is trained once.

    What is written is listed in the documentation (Training). A training that was cut off goes on; a finished
    one is only calibrated and judged. Under torchrun every process calls this, and the first one writes.

    Args:
        data: a prepared data set, by its name in the store or its folder; or the name of one that is then
            prepared inside ``out``, such as "folder", "table" and "texts" for your own.
        out: the folder of the result.
        root: the folder of the data's files, if they are not prepared yet.
        options: of the data set.
        skip_bad: go on without images that are missing or cannot be decoded.
        split: shares of train, validation and test; the rows of a subject stay together.
        protocol: a protocol of the data set, in place of ``split``.
        fold: the protocol's.
        folds: of the ensemble; 1 for a single network. By default 5 where an ensemble can be trained.
        members: of the ensemble: "boosting" (trees, on tables), "network" or both. By default both on tables where
            LightGBM is installed and no loss is named, else networks.
        calibrator: a name, as for `orcu.calibrators.create`; fitted on what the ensemble says out of fold, or on
            the validation rows of a single network.
        frozen: train on the features of a frozen backbone; by default where there is one and no GPU.
        device: "cpu", "cuda" or "mps"; "auto" takes the best there is.
        watcher: is told what happens.
        **settings: of the run, as for `RunConfig`: ``loss`` (or several in a list), ``backbone``, ``recipe``, ``seed``
            and so on.

    Raises:
        InputError: if a name, the data or the folder cannot be used.

    Example:
        >>> import tempfile
        >>> lev = train("lev", tempfile.mkdtemp(), recipe={"epochs": 1}, calibrator="temperature", device="cpu")
        >>> lev.evaluation.rows
        150
    """
    specs, settings = _losses(settings)
    check_settings(settings | {"loss": specs[0]})
    for spec in specs:
        losses.create(spec, num_classes=3)
    calibrators.create(calibrator)
    with joined() as own_device:
        device = own_device or device
        watcher = watcher if watcher is not None and is_first() else Watcher()
        prepared = find_or_prepare(data, Path(out), root=root, options=options, skip_bad=skip_bad, watcher=watcher)
        chosen = choose_settings(prepared, device=device, frozen=frozen, watcher=watcher, **settings)
        folds, specs = _ensemble(folds, specs, prepared, chosen)
        kinds = _kinds(members, folds, specs, prepared)
        chosen = replace(chosen, loss=specs[0])
        splits = prepared.split(protocol, fold) if protocol else divided(prepared, split, chosen.seed)
        slow = model_kind(prepared.manifest.about.kind).has_backbone and not chosen.frozen and _on_cpu(device)
        watcher.starting(prepared, splits, slow=slow)
        options = {"calibrator": calibrator, "device": device, "watcher": watcher}
        if folds > 1:
            experiment = train_ensemble(prepared, splits, chosen, Path(out), specs, folds=folds, kinds=kinds, **options)
        else:
            experiment = train_and_judge(prepared, splits, chosen, Path(out), **options)
        watcher.finished(experiment)
    return experiment


def _losses(settings: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The losses that were asked for, those of the ensemble by default, and the other settings.

    Raises:
        InputError: if there is none, or one stands twice.
    """
    others = {name: value for name, value in settings.items() if name != "loss"}
    asked = settings.get("loss")
    specs = list(asked) if isinstance(asked, (list, tuple)) else list(MEMBERS) if asked is None else [asked]
    if not specs:
        raise InputError("loss: name at least one.")
    twice = [str(spec) for place, spec in enumerate(specs) if spec in specs[:place]]
    if twice:
        raise InputError(f"loss: {twice[0]} stands twice.")
    return specs, others


def _ensemble(folds: int | None, specs: list[Any], prepared: Prepared, settings: RunConfig) -> tuple[int, list[Any]]:
    """How many folds, and which losses: an ensemble where perceptrons can be trained, else ORCU or the one asked for.

    Raises:
        InputError: if folds, or several losses, are asked of what is trained once.
    """
    kind = model_kind(prepared.manifest.about.kind)
    whole = kind.has_backbone and not settings.frozen
    alone = [spec for spec in specs if not stacks(losses.create(spec, num_classes=3))]
    if folds is None:
        folds = 1 if whole or alone or settings.head not in ("", "linear") else DEFAULT_FOLDS
    elif folds > 1 and whole:
        raise InputError("folds: a whole backbone is trained once; use --frozen, or --folds 1.")
    if folds == 1 and len(specs) > 1:
        if tuple(specs) != MEMBERS:
            raise InputError("loss: a single network has one loss; name one, or use --folds 5.")
        specs = [RunConfig.loss]
    return folds, specs


def _kinds(members: Sequence[str] | None, folds: int, specs: list[Any], prepared: Prepared) -> tuple[str, ...]:
    """The kinds of members of the ensemble.

    Raises:
        InputError: if a kind is not known, or trees are asked for where there can be none.
    """
    about = prepared.manifest.about
    if members is None:
        plain = about.kind == TABLE and folds > 1 and tuple(specs) == MEMBERS
        trees = plain and join_unasked(len(about.features), without="--members network")
        return (BOOSTING, NETWORK) if trees else (NETWORK,)
    check_kinds(members)
    if BOOSTING in members and (about.kind != TABLE or folds == 1):
        raise InputError("members: trees are grown on tables, in two folds or more; use --members network.")
    if NETWORK not in members and tuple(specs) != MEMBERS:
        raise InputError("loss: is that of the networks, and --members names none.")
    return tuple(members)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse wrong names before the data are looked at.

    Raises:
        InputError: if there is no such setting, loss, head or entry of a recipe.
    """
    known = [field.name for field in fields(RunConfig)]
    for name in settings:
        if name not in known:
            raise UnknownNameError("setting", name, known)
    losses.create(settings.get("loss", RunConfig.loss), num_classes=3)
    TrainConfig().but(**dict(settings.get("recipe") or {}))
    head = settings.get("head")
    if head and head not in HEADS:
        raise UnknownNameError("head", head, HEADS)


def find_or_prepare(
    data: str | os.PathLike[str],
    out: Path,
    *,
    root: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
    skip_bad: bool = False,
    watcher: Watcher,
) -> Prepared:
    """A prepared data set; one that is not prepared yet is, inside the result's folder.

    Raises:
        InputError: if there is none, or the folder holds a result of other data.
    """
    with first_before_others():
        name = os.fspath(data)
        there = [path for path in (Path(name), store_folder() / name) if (path / MANIFEST).exists()]
        if there and root is None and not options:
            return load(there[0])
        if Path(name).is_dir() and name not in DATASETS.names():
            raise InputError(f"--data {name}: to train on your own images say --data folder --root {name}.")
        place = None if root is None else Path(root)
        kept = out / "data"
        if not (kept / MANIFEST).exists():
            prepared, findings = prepare_own(name, place, kept, options=options, skip_bad=skip_bad)
        else:  # what a run was trained on stays as it is
            with TemporaryDirectory(dir=out) as folder:
                fresh, findings = prepare_own(name, place, Path(folder), options=options, skip_bad=skip_bad)
                prepared = shared(kept)
                if fresh.manifest.digest != prepared.manifest.digest:
                    raise InputError(f"{out}: was made from other data; choose another folder or delete it.")
        watcher.prepared(findings)
        return prepared


def choose_settings(
    prepared: Prepared, *, device: str = "auto", frozen: bool | None = None, watcher: Watcher, **settings: Any
) -> RunConfig:
    """The run's settings, and what they need at hand; on a CPU nothing is fine-tuned unless asked for.

    Args:
        prepared: the data; images are decoded.
        device: as for `Run`.
        frozen: ``None`` decides by the device.
        watcher: is told what happens.
        **settings: the others.
    """
    kind = model_kind(prepared.manifest.about.kind)
    if frozen is None:
        frozen = kind.has_backbone and _on_cpu(device) and settings.get("weights") != RANDOM
        if frozen:
            settings["backbone"] = settings.get("backbone") or kind.default_frozen
            watcher.frozen(settings["backbone"])
    chosen = RunConfig(frozen=frozen and kind.has_backbone, **settings)
    with first_before_others():
        prepared.decode(chosen.size, progress=lambda stage, done, total: watcher.decoding(done, total))
    return chosen


def _on_cpu(device: str) -> bool:
    return (best_device() if device == "auto" else device) == "cpu"


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


def divided(prepared: Prepared, parts: Sequence[float], seed: int) -> Splits:
    """Row numbers of train, validation and test: stratified, subjects and doubles kept together.

    Raises:
        InputError: if there are not three shares above 0, or a split would be empty.
    """
    if len(parts) != len(SPLITS) or min(parts) <= 0:
        raise InputError(f"split: expected three shares above 0 such as (70, 15, 15), got {tuple(parts)!r}.")
    first, second, third = parts
    folds, _ = OneSplit(shares=(first, second, third), by_subject=True).folds(prepared.manifest.cases(), seed)
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
    settings: RunConfig,
    folder: Path,
    *,
    calibrator: str = "auto",
    device: str = "auto",
    watcher: Watcher | None = None,
) -> Experiment:
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
        watcher: is told what happens.
    """
    watcher = watcher or Watcher()
    fitted: calibrators.Calibrator = calibrators.create(calibrator)
    run = Run(prepared, splits, settings, device=device)
    if settings.frozen:
        with first_before_others():
            run.features(watcher.features)
    result = run.train(folder, progress=watcher.training)
    test = result.predictions["test"]
    calibrated = test.calibrated_on(result.predictions["validation"], fitted)
    evaluation = evaluate(calibrated, compare={"before calibration": test}, name="calibrated")
    experiment = Experiment(prepared, splits, result, fitted, evaluation)
    if not is_first():
        return experiment
    fitted.save(folder / CALIBRATOR)
    calibrated.write(folder / "test_calibrated.parquet")
    with atomic_write(folder / "report.html") as temporary:
        temporary.write_text(evaluation.to_html(title=f"{_name(prepared, folder)}: {settings.loss}"), encoding="utf-8")
    with atomic_write(folder / "card.json") as temporary:
        training = run.spec() | {"epochs": len(result.curves), "last_epoch": result.curves[-1]}
        about = {"name": calibrator, "fitted_on": "validation", "rows": len(splits["validation"])}
        if isinstance(fitted, calibrators.AutoCalibration):
            about["choice"] = fitted.reason_
        card = _card(experiment, training, about, before=evaluate(test))
        temporary.write_text(json.dumps(card, indent=1) + "\n")
    return experiment


def train_ensemble(
    prepared: Prepared,
    splits: Splits,
    settings: RunConfig,
    folder: Path,
    specs: Sequence[Any],
    *,
    folds: int = 5,
    kinds: Sequence[str] = (NETWORK,),
    calibrator: str = "auto",
    device: str = "auto",
    watcher: Watcher | None = None,
) -> Experiment:
    """As `train_and_judge`, by an ensemble: the rows of train and validation train and calibrate, test is untouched.

    Writes everything `EnsembleRun.train` does, and calibrator.json, sets.json, test_calibrated.parquet, report.html
    and card.json.

    Args:
        prepared: the data.
        splits: row numbers of train, validation and test.
        settings: of the run.
        folder: of the result; losses that are trained already stay.
        specs: the losses.
        folds: how many.
        kinds: of members, as for `EnsembleRun`.
        calibrator: a name, as for `orcu.calibrators.create`.
        device: of the frozen backbone.
        watcher: is told what happens.
    """
    watcher = watcher or Watcher()
    fitted: calibrators.Calibrator = calibrators.create(calibrator)
    ensemble = ensemble_run(prepared, splits, settings, specs, folds=folds, kinds=kinds, device=device)
    if settings.frozen:
        with first_before_others():
            ensemble.run.features(watcher.features)
    result, together = ensemble.train(folder, progress=watcher.member)
    test = result.predictions["test"]
    calibrated = test.calibrated_on(result.predictions["out_of_fold"], fitted)
    choice = together.described(fitted)
    evaluation = evaluate(calibrated, compare={"before calibration": test}, name="calibrated")
    page = evaluation.to_html(title=f"{_name(prepared, folder)}: ensemble", about=f"An ensemble of {choice}")
    experiment = Experiment(prepared, splits, result, fitted, evaluation, choice)
    if not is_first():
        return experiment
    fitted.save(folder / CALIBRATOR)
    fitted_sets(together, ensemble.labels, fitted).save(folder / SETS)
    calibrated.write(folder / "test_calibrated.parquet")
    with atomic_write(folder / "report.html") as temporary:
        temporary.write_text(page, encoding="utf-8")
    with atomic_write(folder / "card.json") as temporary:
        about = {"name": calibrator, "fitted_on": "out of fold", "rows": len(ensemble.rows), "choice": choice}
        training = ensemble.spec() | {"weights": together.weights}
        card = _card(experiment, training, about, before=evaluate(test))
        temporary.write_text(json.dumps(card, indent=1) + "\n")
    return experiment


def _name(prepared: Prepared, folder: Path) -> str:
    """What was judged: the data's name, or the result's where they were prepared inside it."""
    return folder.name if prepared.folder.parent == folder else prepared.name


def _card(
    experiment: Experiment, training: dict[str, Any], calibrator: dict[str, Any], *, before: Evaluation
) -> dict[str, Any]:
    """What someone who is handed the model needs to know, all of it measured or noted."""
    result, splits, manifest = experiment.result, experiment.splits, experiment.prepared.manifest
    labels, classes = manifest.labels, manifest.classes
    rows = {
        name: dict(zip(classes, np.bincount(labels[part], minlength=len(classes)).tolist(), strict=True))
        for name, part in splits.items()
    }
    subjects = manifest.column("subject")
    metrics = {
        name: {metric: asdict(value) for metric, value in evaluation.metrics.items()}
        for name, evaluation in (("calibrated", experiment.evaluation), ("before calibration", before))
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
        "training": training,
        "calibrator": calibrator,
        "test": metrics,
        "limits": [f"class {name}: fewer than {FEW_ROWS} rows" for name in small_classes(experiment.prepared)],
    }
