"""An experiment: from your data to a calibrated model and its report, by one call of `train`."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from orcu import calibrators, losses
from orcu.data.base import DATASETS, TABLE
from orcu.data.folds import SPLITS, HoldoutSplit
from orcu.data.prepare import PrepareReport
from orcu.data.shared import prepare_user_data
from orcu.data.store import MANIFEST, PreparedData, load, store_folder
from orcu.decisions.conformal import CrossConformalSets
from orcu.defaults import CV, HIDDEN_LAYER_SIZES, NETWORK_LOSSES
from orcu.ensemble.kinds import NETWORK, PRESETS, check_kinds, default_kinds
from orcu.errors import InputError, UnknownNameError
from orcu.evaluation.evaluate import evaluate
from orcu.evaluation.evaluation import Evaluation
from orcu.explain.model_explanation import ModelExplanation
from orcu.inputs import FloatArray
from orcu.io.files import atomic_write
from orcu.model_selection import n_copies
from orcu.models.backbones import RANDOM
from orcu.models.classifier import predict_batches
from orcu.models.heads import HEADS
from orcu.models.kinds import model_kind
from orcu.preprocessing import Inputs
from orcu.training.config import TrainConfig
from orcu.training.ensemble_run import EnsembleRun
from orcu.training.explanation import explain_table
from orcu.training.loop import TrainingProgress
from orcu.training.model_file import CALIBRATOR, SETS, write_config
from orcu.training.networks import is_batchable
from orcu.training.parallel import first_before_others, is_first, process_group
from orcu.training.run import Result, Run, RunConfig, Splits, best_device, row_copies

MIN_SET_ROWS = 9  # rows that prediction sets with alpha = 0.1 need
FEW_ROWS = 20  # rows of a class, in all splits, below which results for it are unreliable


@dataclass(frozen=True)
class Experiment:
    """A trained, calibrated model and its evaluation on the test rows."""

    prepared: PreparedData
    splits: Splits
    result: Result
    calibrator: calibrators.Calibrator
    evaluation: Evaluation
    summary: str = ""  # members, weights and calibrator of an ensemble
    explanation: ModelExplanation | None = None  # of tables: what the predictions depend on


class Callback:
    """Events of a training; override the methods that you need."""

    def prepared(self, report: PrepareReport) -> None:
        """The data were scanned."""

    def frozen(self, backbone: str) -> None:
        """Without a GPU, the model is trained on the features of a frozen backbone."""

    def decoding(self, done: int, total: int) -> None:
        """Images were decoded."""

    def starting(self, prepared: PreparedData, splits: Splits, *, slow: bool) -> None:
        """The training starts; ``slow`` if a whole backbone is trained on a CPU."""

    def copies(self, rows: int, total: int, leaking: int) -> None:
        """Some ``rows`` of a table are copies; ``leaking`` test rows of a protocol have a copy outside of the test."""

    def features(self, done: int, total: int) -> None:
        """A frozen backbone has computed the features of a batch."""

    def fold(self, number: int) -> None:
        """A fold starts."""

    def training(self, progress: TrainingProgress, *, stage: str = "") -> None:
        """A step or an epoch has ended."""

    def member(self, name: str, done: int, total: int, rps: float) -> None:
        """A base learner of an ensemble has done an epoch (networks) or a fold (trees).

        ``rps`` is the mean ranked probability score of the early-stopping rows, NaN where it is not known.
        """

    def finished(self, experiment: Experiment) -> None:
        """The model is evaluated and everything is written."""


def train(
    data: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
    skip_bad: bool = False,
    split: Sequence[float] = (70, 15, 15),
    protocol: str | None = None,
    fold: int = 0,
    cv: int | None = None,
    estimators: Sequence[str] | None = None,
    calibrator: str = "auto",
    frozen: bool | None = None,
    device: str = "auto",
    callback: Callback | None = None,
    **config: Any,
) -> Experiment:
    """Train on your own images, texts or table, calibrate, evaluate on the test rows, and write model and report.

    On a table or on the features of a frozen backbone the model is an ensemble: perceptrons of several losses, and on
    a table boosted trees, cross-fitted on the rows of train and validation. A whole backbone is a single network.

    The documentation (Training) lists the files. An interrupted training resumes; a finished one is only calibrated
    and evaluated. Under torchrun every process calls this function, and the first one writes.

    Args:
        data: name or folder of a prepared data set; or the name of one that is then prepared inside ``output``, such
            as "folder", "table" and "texts" for your own data.
        output: folder of the result.
        root: folder of the data files, if they are not prepared yet.
        options: options of the data set.
        skip_bad: skip images that are missing or damaged.
        split: shares of train, validation and test; the rows of a cluster stay together.
        protocol: protocol of the data set, in place of ``split``.
        fold: fold of the protocol.
        cv: number of cross-fitting folds; 1 for a single network. By default 5 where an ensemble can be trained.
        estimators: names of the base learners, as for `OrdinalClassifier`. By default those of its default preset on
            tables, otherwise networks.
        calibrator: name, as for `orcu.calibrators.create`; fitted on out-of-fold predictions, or on the validation
            rows of a single network.
        frozen: train on the features of a frozen backbone; by default where there is a backbone and no GPU.
        device: "cpu", "cuda" or "mps"; "auto" takes the best available one.
        callback: receives the events of the training.
        **config: settings of the run, as for `RunConfig`: ``loss`` (or a list of losses), ``backbone``, ``training``,
            ``seed`` and so on.

    Raises:
        InputError: if a name, the data or the folder cannot be used.

    Example:
        >>> import tempfile
        >>> lev = train(
        ...     "lev", tempfile.mkdtemp(), training={"epochs": 1}, calibrator="temperature", device="cpu"
        ... )
        >>> lev.evaluation.rows
        150
    """
    loss_list, config = _losses(config)
    check_config(config | {"loss": loss_list[0]})
    for loss in loss_list:
        losses.create(loss, num_classes=3)
    calibrators.create(calibrator)
    folder = Path(output)
    with process_group() as process_device:
        device = process_device or device
        callback = callback if callback is not None and is_first() else Callback()
        size = config.get("size", RunConfig.size)
        prepared = find_or_prepare(
            data, folder, root=root, options=options, skip_bad=skip_bad, size=size, callback=callback
        )
        run_config = choose_config(prepared, device=device, frozen=frozen, callback=callback, **config)
        n_folds, loss_list = _cross_fitting(cv, loss_list, prepared, run_config)
        kinds = _estimators(estimators, n_folds, loss_list, prepared)
        run_config = replace(run_config, loss=loss_list[0])
        if n_folds > 1 and "hidden_layer_sizes" not in config and prepared.manifest.about.kind == TABLE:
            run_config = replace(run_config, hidden_layer_sizes=HIDDEN_LAYER_SIZES)
        splits = prepared.split(protocol, fold) if protocol else split_rows(prepared, split, run_config.seed)
        if prepared.manifest.about.kind == TABLE:
            _report_copies(prepared, splits, callback)
        slow = model_kind(prepared.manifest.about.kind).has_backbone and not run_config.frozen and _on_cpu(device)
        callback.starting(prepared, splits, slow=slow)
        run = Run(prepared, splits, run_config, device=device)
        ensemble_run = EnsembleRun(run, loss_list, cv=n_folds, estimators=kinds) if n_folds > 1 else None
        if run_config.frozen:
            with first_before_others():
                run.features(callback.features)
        if ensemble_run is not None:
            experiment = train_ensemble(ensemble_run, folder, calibrator=calibrator, callback=callback)
        else:
            experiment = train_network(run, folder, calibrator=calibrator, callback=callback)
        callback.finished(experiment)
    return experiment


def _losses(config: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The losses, by default those of the ensemble, and the other settings."""
    others = {name: value for name, value in config.items() if name != "loss"}
    loss = config.get("loss")
    loss_list = list(loss) if isinstance(loss, (list, tuple)) else list(NETWORK_LOSSES) if loss is None else [loss]
    if not loss_list:
        raise InputError("loss: expected at least one loss, got none.")
    for index, entry in enumerate(loss_list):
        if entry in loss_list[:index]:
            raise InputError(f"loss: duplicate loss {str(entry)!r}.")
    return loss_list, others


def _cross_fitting(
    cv: int | None, loss_list: list[Any], prepared: PreparedData, config: RunConfig
) -> tuple[int, list[Any]]:
    """Number of folds and the losses: an ensemble where perceptrons can be trained, otherwise a single network."""
    whole_backbone = model_kind(prepared.manifest.about.kind).has_backbone and not config.frozen
    if cv is None:
        batchable = all(is_batchable(losses.create(loss, num_classes=3)) for loss in loss_list)
        cv = CV if batchable and not whole_backbone and config.head in ("", "linear") else 1
    elif cv > 1 and config.head not in ("", "linear"):
        raise InputError(f"head: the networks of an ensemble have linear heads, got {config.head}; use --cv 1.")
    elif cv > 1 and whole_backbone:
        raise InputError("cv: a whole backbone is trained as a single network; use --frozen, or --cv 1.")
    if cv == 1 and len(loss_list) > 1:
        if tuple(loss_list) != NETWORK_LOSSES:
            raise InputError("loss: a single network has one loss; give one, or use --cv 5.")
        loss_list = [RunConfig.loss]
    return cv, loss_list


def _estimators(
    estimators: Sequence[str] | None, n_folds: int, loss_list: list[Any], prepared: PreparedData
) -> Sequence[str]:
    """The kinds of base learners."""
    about = prepared.manifest.about
    if estimators is None:
        if about.kind != TABLE or n_folds == 1:
            return (NETWORK,)
        option = "--estimators linear,forest,network"
        return default_kinds(PRESETS["default"], len(about.features), without_boosting=option)
    check_kinds(estimators)
    others = [kind for kind in estimators if kind != NETWORK]
    if others and (about.kind != TABLE or n_folds == 1):
        raise InputError(f"estimators: {others[0]} needs a table and two folds or more; use --estimators network.")
    if NETWORK not in estimators and tuple(loss_list) != NETWORK_LOSSES:
        raise InputError("loss: sets the loss of networks, and --estimators has none.")
    return tuple(estimators)


def check_config(config: Mapping[str, Any]) -> None:
    """Check names of settings before the data are read.

    Raises:
        InputError: if a setting, loss, head or training setting is unknown.
    """
    names = [field.name for field in fields(RunConfig)]
    for name in config:
        if name not in names:
            raise UnknownNameError("setting", name, names)
    losses.create(config.get("loss", RunConfig.loss), num_classes=3)
    TrainConfig().replace(**dict(config.get("training") or {}))
    head = config.get("head")
    if head and head not in HEADS:
        raise UnknownNameError("head", head, HEADS)


def find_or_prepare(
    data: str | os.PathLike[str],
    output: Path,
    *,
    root: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
    skip_bad: bool = False,
    size: int = RunConfig.size,
    callback: Callback,
) -> PreparedData:
    """Open a prepared data set, or prepare it inside the folder of the result and decode its images to ``size``.

    Raises:
        InputError: if there is no such data set, or the folder has a result of other data.
    """
    with first_before_others():
        name = os.fspath(data)
        existing = [path for path in (Path(name), store_folder() / name) if (path / MANIFEST).exists()]
        if existing and root is None and not options:
            return load(existing[0])
        if Path(name).is_dir() and name not in DATASETS.names():
            raise InputError(
                f"--data {name}: is a folder; to train on your own images use --data folder --root {name}."
            )
        source = None if root is None else Path(root)
        folder = output / "data"
        settings: dict[str, Any] = {
            "options": options,
            "skip_bad": skip_bad,
            "size": size,
            "progress": lambda stage, done, total: callback.decoding(done, total),
        }
        if not (folder / MANIFEST).exists():
            prepared, report = prepare_user_data(name, source, folder, **settings)
        else:  # the data that a run was trained on do not change
            with TemporaryDirectory(dir=output) as temporary:
                fresh, report = prepare_user_data(name, source, Path(temporary), **settings)
                prepared = PreparedData(folder, shared=True)
                if fresh.manifest.digest != prepared.manifest.digest:
                    raise InputError(
                        f"{output}: was trained on other data, or with other options of the data; choose another "
                        "folder or delete it."
                    )
        callback.prepared(report)
        return prepared


def choose_config(
    prepared: PreparedData, *, device: str = "auto", frozen: bool | None = None, callback: Callback, **config: Any
) -> RunConfig:
    """Complete the settings of a run and decode the images; on a CPU the backbone is frozen by default.

    Args:
        prepared: data set.
        device: device, as for `Run`.
        frozen: whether the backbone is frozen; ``None`` decides by the device.
        callback: receives the events.
        **config: other settings.
    """
    kind = model_kind(prepared.manifest.about.kind)
    if frozen is None:
        frozen = kind.has_backbone and _on_cpu(device) and config.get("weights") != RANDOM
        if frozen:
            config["backbone"] = config.get("backbone") or kind.default_frozen
            callback.frozen(config["backbone"])
    run_config = RunConfig(frozen=frozen and kind.has_backbone, **config)
    with first_before_others():
        prepared.decode(run_config.size, progress=lambda stage, done, total: callback.decoding(done, total))
    return run_config


def _on_cpu(device: str) -> bool:
    return (best_device() if device == "auto" else device) == "cpu"


def parse_split(text: str) -> tuple[float, float, float]:
    """The shares of train, validation and test in a text such as 70/15/15.

    Raises:
        InputError: if the text is anything else.

    Example:
        >>> parse_split("70/15/15")
        (70.0, 15.0, 15.0)
    """
    try:
        train, validation, test = (float(part) for part in text.split("/"))
    except ValueError:
        raise InputError(f"split: expected three shares such as 70/15/15, got {text!r}.") from None
    if min(train, validation, test) <= 0:
        raise InputError(f"split: every share must be above 0, got {text!r}.")
    return train, validation, test


def split_rows(prepared: PreparedData, shares: Sequence[float], seed: int) -> Splits:
    """Row numbers of train, validation and test: stratified, with clusters and copies of rows kept together.

    Copies are found by `row_copies`.

    Raises:
        InputError: if there are not three shares above 0, or a split would be empty.
    """
    if len(shares) != len(SPLITS) or min(shares) <= 0:
        raise InputError(f"split: expected three shares above 0 such as (70, 15, 15), got {tuple(shares)!r}.")
    train, validation, test = shares
    samples, copies = prepared.manifest.samples(), row_copies(prepared)
    if copies is not None:
        samples = replace(samples, contents=[str(group) for group in copies.tolist()])
    folds, _ = HoldoutSplit(sizes=(train, validation, test), by_cluster=True).split(samples, seed)
    splits = {name: np.flatnonzero(folds[0] == code) for code, name in enumerate(SPLITS)}
    empty = [name for name, rows in splits.items() if len(rows) == 0]
    if empty:
        raise InputError(f"split: no rows are left for {empty[0]}; there are too few clusters or rows.")
    return splits


def _report_copies(prepared: PreparedData, splits: Splits, callback: Callback) -> None:
    """Report copies of rows of a table, and those that a protocol has put into several splits."""
    copies = row_copies(prepared)
    if copies is not None:
        outside = np.isin(copies[splits["test"]], copies[np.concatenate([splits["train"], splits["validation"]])])
        callback.copies(n_copies(copies), len(copies), int(np.count_nonzero(outside)))


def small_classes(prepared: PreparedData) -> list[str]:
    """Classes with too few rows for reliable results, with their counts."""
    counts = zip(prepared.manifest.classes, prepared.manifest.counts(), strict=True)
    return [f"{name} ({count})" for name, count in counts if count < FEW_ROWS]


def train_network(run: Run, folder: Path, *, calibrator: str = "auto", callback: Callback | None = None) -> Experiment:
    """Train a single network on the training rows, calibrate on validation, evaluate on the test rows.

    Writes the files of `Run.train`, and calibrator.json, sets.json, test_calibrated.parquet, report.html and card.json.
    The prediction sets are fitted on the validation rows too, but from the probabilities before the calibrator, so that
    these rows are new to what the scores are computed with. With fewer than 9 validation rows there are none.

    Args:
        run: data, splits and settings.
        folder: folder of the result; an interrupted training resumes.
        calibrator: name, as for `orcu.calibrators.create`.
        callback: receives the events of the training.
    """
    fitted: calibrators.Calibrator = calibrators.create(calibrator)
    result = run.train(folder, progress=None if callback is None else callback.training, complete=False)
    validation = result.predictions["validation"]
    validation.fit_calibrator(fitted)
    if is_first() and len(validation) >= MIN_SET_ROWS:
        # One fold: the network was trained on none of these rows, so the CV+ sets are split-conformal sets.
        fold = np.zeros(len(validation), dtype=np.int64)
        targets = run.targets[run.splits["validation"]]
        CrossConformalSets().fit(validation.probs, targets, fold=fold).save(folder / SETS)
    calibrator_card = {"name": calibrator, "fitted_on": "validation", "rows": len(run.splits["validation"])}
    if isinstance(fitted, calibrators.AutoCalibration):
        calibrator_card["choice"] = fitted.reason_
    training = run.spec() | {"epochs": len(result.curves), "last_epoch": result.curves[-1]}

    def predict_logits(inputs: Inputs) -> FloatArray:
        device = next(result.model.parameters()).device
        rows = torch.from_numpy(np.asarray(inputs.features, dtype=np.float32)).to(device)
        with torch.no_grad():
            return predict_batches(result.model, [(rows,)])[0].double().numpy()

    return _evaluate_and_write(
        run, result, fitted, training, calibrator_card, title=str(run.config.loss), predict_logits=predict_logits
    )


def train_ensemble(
    ensemble_run: EnsembleRun, folder: Path, *, calibrator: str = "auto", callback: Callback | None = None
) -> Experiment:
    """Train an ensemble on the rows of train and validation, calibrate out of fold, evaluate on the test rows.

    Writes the files of `EnsembleRun.train`, and calibrator.json, sets.json, test_calibrated.parquet, report.html and
    card.json.

    Args:
        ensemble_run: data, splits and settings.
        folder: folder of the result; members that are trained already are read.
        calibrator: name, as for `orcu.calibrators.create`.
        callback: receives the events of the training.
    """
    progress = None if callback is None else callback.member
    result, ensemble = ensemble_run.train(folder, calibrator=calibrator, progress=progress, complete=False)
    summary = ensemble.summary()
    if is_first():
        ensemble.sets.save(folder / SETS)
    rows = len(ensemble_run.rows)
    return _evaluate_and_write(
        ensemble_run.run,
        result,
        ensemble.calibrator,
        ensemble_run.spec() | {"weights": ensemble.weights},
        {"name": calibrator, "fitted_on": "out of fold", "rows": rows, "choice": summary},
        title="ensemble",
        summary=summary,
        predict_logits=ensemble.predict_logits,
    )


def _evaluate_and_write(
    run: Run,
    result: Result,
    calibrator: calibrators.Calibrator,
    training: dict[str, Any],
    calibrator_card: dict[str, Any],
    *,
    title: str,
    predict_logits: Callable[[Inputs], FloatArray],
    summary: str = "",
) -> Experiment:
    """Evaluate on the test rows before and after the calibrator, and write calibrator, predictions, report and card."""
    folder, test = result.folder, result.predictions["test"]
    calibrated = test.calibrated(calibrator)
    evaluation = evaluate(calibrated, compare={"before calibration": test}, name="calibrated")
    experiment = Experiment(run.prepared, run.splits, result, calibrator, evaluation, summary)
    if not is_first():
        return experiment
    if run.prepared.manifest.about.kind == TABLE:
        explanation = explain_table(
            run, result.model_config.columns, lambda inputs: calibrator.predict_proba(predict_logits(inputs))
        )
        experiment = replace(experiment, explanation=explanation)
    calibrator.save(folder / CALIBRATOR)
    calibrated.write(folder / "test_calibrated.parquet")
    name = folder.name if run.prepared.folder.parent == folder else run.prepared.name
    about = {"about": f"An ensemble of {summary}"} if summary else {}
    with atomic_write(folder / "report.html") as temporary:
        page = evaluation.to_html(title=f"{name}: {title}", explanation=experiment.explanation, **about)
        temporary.write_text(page, encoding="utf-8")
    with atomic_write(folder / "card.json") as temporary:
        temporary.write_text(json.dumps(_card(experiment, training, calibrator_card), indent=1) + "\n")
    write_config(folder, result.model_config)
    return experiment


def _card(experiment: Experiment, training: dict[str, Any], calibrator: dict[str, Any]) -> dict[str, Any]:
    """The model card: what a user of the model needs to know."""
    result, splits, manifest = experiment.result, experiment.splits, experiment.prepared.manifest
    labels, classes = manifest.labels, manifest.classes
    rows = {
        name: dict(zip(classes, np.bincount(labels[part], minlength=len(classes)).tolist(), strict=True))
        for name, part in splits.items()
    }
    clusters, copies = manifest.clusters(), row_copies(experiment.prepared)
    (before,) = experiment.evaluation.others
    metrics = {
        name: {metric: asdict(value) for metric, value in evaluation.metrics.items()}
        for name, evaluation in (("calibrated", experiment.evaluation), ("before calibration", before))
    }
    return {
        "model": asdict(result.model_config) | {"columns": [column["name"] for column in result.model_config.columns]},
        "classes": list(classes),
        "data": {
            "set": manifest.about.dataset,
            "options": manifest.about.options,
            "manifest": manifest.digest,
            "rows": rows,
            "clusters": None if clusters is None else len(set(clusters)),
            "cluster_exclusive": clusters is not None,
            "copies": 0 if copies is None else n_copies(copies),
        },
        "training": training,
        "calibrator": calibrator,
        "test": metrics,
        "explanation": None if experiment.explanation is None else experiment.explanation.to_dict(),
        "limits": [f"class {name}: fewer than {FEW_ROWS} rows" for name in small_classes(experiment.prepared)],
    }
