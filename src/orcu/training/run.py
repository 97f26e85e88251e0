"""A run: training of one network on one split of a prepared data set, up to its predictions."""

import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from safetensors.torch import load_file
from torch import Tensor

import orcu
from orcu import losses
from orcu.data.base import TABLE
from orcu.data.batches import Batches, RowNumbers
from orcu.data.store import PreparedData
from orcu.data.transforms import Augmentation
from orcu.defaults import NETWORK_LOSSES
from orcu.errors import InputError, UnknownNameError
from orcu.inputs import IntArray
from orcu.io.files import read_json, write_json
from orcu.io.writing import write_table
from orcu.losses.ensemble import EnsembleLoss
from orcu.model_selection import copy_groups
from orcu.models.backbones import PRETRAINED, RANDOM
from orcu.models.classifier import Classifier, FrozenBackbone, predict_batches
from orcu.models.ensemble import EnsembleClassifier
from orcu.models.heads import check_head
from orcu.models.kinds import MakeBatches, ModelConfig, matrix_batches, model_kind, table_features
from orcu.predictions import Predictions
from orcu.raters.votes import Targets, label_shares, loss_targets, weighted_rows
from orcu.training.checkpoint import write_tensors
from orcu.training.config import TRAIN_CONFIGS, TrainConfig
from orcu.training.loop import Curve, TrainingProgress, fit
from orcu.training.model_file import MEMBERS, save_weights, write_config
from orcu.training.parallel import first_before_others, is_first

Splits = Mapping[str, RowNumbers]
FEATURE_BATCH = 64  # rows per forward pass of a frozen body
MAX_TRAIN_PREDICTIONS = 2000  # training rows whose predictions are written, evenly spaced
TRAIN_KEYS = {"head_rate": "head_learning_rate", "rate": "learning_rate"}
TRAIN_KEYS |= {"schedule": "scheduler", "clip": "max_grad_norm"}
TITLES = {"manifest": "data", "rows": "split of the rows", "pretrained": "pretrained weights"}
SOURCE_KEYS = {"download", "pretrained_path"}  # settings of where weights come from, not of what they are
OLD_KEYS = {  # keys of run.json in orcu 0.2, by the new name of the table that they are in
    "spec": {"settings": "config", "recipe": "train_config", "folds": "cv", "growth": "boosting"},
    "config": {"hidden": "hidden_layer_sizes", "recipe": "training"},
    "training": TRAIN_KEYS,
    "train_config": TRAIN_KEYS,
    "boosting": {"rounds": "n_estimators", "leaves": "num_leaves", "patience": "early_stopping_rounds"},
}
LABEL, VOTES = LABELS = ("label", "votes")  # what a run is trained on
# Keys that run.json of earlier versions does not have.
ADDED_KEYS = {"config": {"rotation_border": "constant", "label": LABEL}}


@dataclass(frozen=True)
class RunConfig:
    """Settings of a run: everything besides the data that its result depends on.

    Args:
        loss: name or mapping, as for `orcu.losses.create`.
        backbone: name of the backbone; "" for the default: resnet50 for images, bert-tiny for texts.
        head: name in `orcu.models.heads.HEADS`; "" for the head of the loss.
        weights: weights of the backbone: "pretrained", "random" or a file.
        frozen: whether to freeze the backbone and train a perceptron on its features.
        hidden_layer_sizes: units of each hidden layer of the perceptron, for tables and frozen features.
        size: side of images, in pixels.
        augment: whether to augment training images by the flips and rotations of the paper.
        rotation_border: pixels outside of a rotated image, "constant" (black) or "reflect", as for
            `orcu.data.transforms.rotate`.
        training: changes to the default `TrainConfig`.
        seed: seed of weights, order, augmentation and dropout.
        label: "label", or "votes" to train, stop early, calibrate and evaluate on the votes of several raters.
        download: whether weights may be downloaded from the Hugging Face hub.
        pretrained_path: file (images) or folder (texts) with a local copy of the pretrained weights.
    """

    loss: Any = "orcu"
    backbone: str = ""
    head: str = ""
    weights: str = PRETRAINED
    frozen: bool = False
    hidden_layer_sizes: tuple[int, ...] = (256,)
    size: int = 224
    augment: bool = True
    rotation_border: str = "constant"
    training: Mapping[str, Any] | None = None
    seed: int = 0
    label: str = LABEL
    download: bool = False
    pretrained_path: str = ""


@dataclass(frozen=True)
class Result:
    """Result of a run: its folder, the trained model, metrics of each epoch, and predictions by split."""

    folder: Path
    model: Classifier | EnsembleClassifier
    model_config: ModelConfig
    curves: list[Curve]
    predictions: dict[str, Predictions]
    train_config: TrainConfig


class Run:
    """A run on one split of a prepared data set.

    Args:
        prepared: prepared data.
        splits: row numbers of train, validation and test.
        config: settings.
        device: "cpu", "cuda" or "mps"; "auto" for the best available.

    Raises:
        InputError: if a setting is not valid, a class has no training rows, or weights are not available.
    """

    def __init__(self, prepared: PreparedData, splits: Splits, config: RunConfig, *, device: str = "auto") -> None:
        self.prepared, self.splits, self.config = prepared, splits, config
        self.device = best_device() if device == "auto" else device
        self.augmentation = Augmentation(border=config.rotation_border) if config.augment else None
        manifest = prepared.manifest
        self.kind, self.labels = model_kind(manifest.about.kind), manifest.labels
        if config.label not in LABELS:
            raise UnknownNameError("label of a run", config.label, LABELS)
        self.targets: Targets = label_shares(manifest.votes) if config.label == VOTES else manifest.labels
        absent = set(range(len(manifest.classes))) - set(weighted_rows(self.targets[splits["train"]]).label.tolist())
        if absent:
            names = ", ".join(manifest.classes[k] for k in sorted(absent))
            raise InputError(f"split: no training rows of class {names}; every class needs some.")
        train_config = TRAIN_CONFIGS["frozen" if config.frozen else manifest.about.kind]
        self.train_config: TrainConfig = train_config.replace(**dict(config.training or {}))
        self.criterion = losses.create(config.loss, num_classes=len(manifest.classes))
        self.model_config = self._make_model_config()
        cached = self._cached_features()
        if cached is not None:
            self.model_config = replace(self.model_config, **cached["expected"])
        elif config.frozen:
            self.model_config = replace(self.model_config, **self.kind.body_inputs(self.model.backbone.body))
        else:
            _ = self.model  # missing weights are an error now, not after the images are decoded
        self.pretrained_digest = self._pretrained_digest()
        self._features: Tensor | None = None

    @cached_property
    def model(self) -> Classifier:
        """The network.

        With cached features of a frozen body it is built on demand: an ensemble needs only the features, and importing
        timm or transformers takes longer than training it.
        """
        config = self.config
        is_copy = config.weights == PRETRAINED and config.pretrained_path
        weights = config.pretrained_path if is_copy else config.weights
        model = self.model_config.build(weights=weights, download=config.download, seed=config.seed)
        assert isinstance(model, Classifier)  # noqa: S101 -- the config of a single network
        return model

    def _pretrained_digest(self) -> str | None:
        """SHA-256 of the backbone's weights before the training, the same for every file format.

        ``None`` for random weights, and for a frozen backbone that the versions of packages determine.
        """
        if not self.kind.has_backbone or self.config.weights == RANDOM or self._features_index is not None:
            return None
        backbone: Any = self.model.backbone
        body = backbone.body.body if self.config.frozen else backbone.body
        # Files differ in the integers, which count the batches of batch normalisation.
        tensors = {name: value for name, value in body.state_dict().items() if value.is_floating_point()}
        return _add_tensors(sha256(), tensors).hexdigest()

    @property
    def _features_index(self) -> Path | None:
        """File that names the cached features of a frozen body from packages, for the versions of the packages."""
        config = self.model_config
        from_package = self.config.weights == PRETRAINED and not self.config.pretrained_path
        packages = self.kind.package_versions(config.backbone) if from_package else []
        if not self.config.frozen or not packages:
            return None
        key = [self.prepared.manifest.digest, config.backbone, config.size, config.kind, *packages]
        return self.prepared.derived / f"body_{sha256(json.dumps(key).encode()).hexdigest()[:16]}.json"

    def _cached_features(self) -> dict[str, Any] | None:
        """The file of cached features ("features") and the inputs that their body requires ("expected"), if any."""
        index = self._features_index
        if index is None or not index.exists():
            return None
        cached: dict[str, Any] = json.loads(index.read_text(encoding="utf-8"))
        return cached if (self.prepared.derived / cached["features"]).exists() else None

    def _make_model_config(self) -> ModelConfig:
        config, manifest, criterion = self.config, self.prepared.manifest, self.criterion
        head = config.head or criterion.head
        check_head(head, criterion, str(config.loss))
        if isinstance(criterion, EnsembleLoss) and len(criterion.members) != len(NETWORK_LOSSES):
            raise InputError(
                f"loss: the ensemble head of a model has {len(NETWORK_LOSSES)} losses, got {len(criterion.members)}."
            )
        return ModelConfig(
            kind=manifest.about.kind,
            classes=list(manifest.classes),
            backbone=config.backbone or self.kind.default_backbone,
            head=head,
            hidden_layer_sizes=list(config.hidden_layer_sizes) if config.frozen or not self.kind.has_backbone else [],
            frozen=config.frozen,
            dataset=manifest.about.dataset,
            **self.kind.fit_inputs(self.prepared, self.splits["train"], size=config.size, frozen=config.frozen),
        )

    def batches(self, split: str, *, train: bool = False, rows: RowNumbers | None = None) -> Batches:
        """The batches of a split, or of some rows: in order, or shuffled and augmented for training."""
        return self._make_batches(
            self.splits[split] if rows is None else rows,
            train=train,
            batch_size=self.train_config.batch_size,
            seed=self.config.seed,
            device=self.device,
        )

    @cached_property
    def _make_batches(self) -> MakeBatches:
        if self.config.frozen:
            return matrix_batches(self.features(), loss_targets(self.targets))
        return self.kind.batch_maker(
            self.prepared, self.model_config, self.model.backbone, self.augmentation, loss_targets(self.targets)
        )

    def features(self, progress: Callable[[int, int], None] | None = None) -> Tensor:
        """Features of all rows by the frozen body, which are cached next to the data.

        Args:
            progress: called with the number of finished batches and of all batches.

        Raises:
            InputError: if the backbone is not frozen.
        """
        if not self.config.frozen:
            raise InputError("frozen: features need a frozen backbone; use --frozen, or --cv 1 for a single network.")
        if self._features is None:
            cached = self._cached_features()
            name = self._compute_features(progress) if cached is None else cached["features"]
            self._features = load_file(self.prepared.derived / name)["features"]
        return self._features

    def _compute_features(self, progress: Callable[[int, int], None] | None) -> str:
        """Write the file of features, unless it exists; returns its name."""
        config = self.model_config
        body = self._frozen_backbone().body.to(self.device)
        digest = _add_tensors(sha256(self.prepared.manifest.digest.encode()), body.state_dict())
        digest.update(json.dumps([config.backbone, config.size, config.kind]).encode())
        path = self.prepared.derived / f"features_{digest.hexdigest()[:16]}.safetensors"
        if not path.exists():
            make_batches = self.kind.batch_maker(self.prepared, config, body)
            batches = make_batches(np.arange(len(self.labels)), batch_size=FEATURE_BATCH, device=self.device)
            parts = []
            with torch.no_grad():
                for number, (inputs, *_) in enumerate(batches.epoch(0), 1):
                    parts.append(body(inputs).float().cpu())
                    if progress is not None:
                        progress(number, len(batches))
            write_tensors(path, {"features": torch.cat(parts)})
        if self._features_index is not None:
            write_json(self._features_index, {"features": path.name, "expected": self.kind.body_inputs(body)})
        return path.name

    def _frozen_backbone(self) -> FrozenBackbone:
        assert isinstance(self.model.backbone, FrozenBackbone)  # noqa: S101 -- the config is frozen
        return self.model.backbone

    def train(
        self,
        folder: Path,
        *,
        progress: Callable[[TrainingProgress], None] | None = None,
        after_epoch: Callable[[int, Classifier], Curve] | None = None,
        complete: bool = True,
    ) -> Result:
        """Train the network, or continue an interrupted training of this folder, and write the result.

        Writes model.safetensors, curves.parquet, predictions of some training rows and of all validation and test
        rows, and the features of the latter. ``progress`` and ``after_epoch`` are those of `fit`. At the end writes
        model.json if ``complete``; otherwise the caller does, after the files that it adds.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with first_before_others():
            claim(folder, self.spec())
            network = self._trainable_part()
        curves = fit(
            network,
            self.criterion,
            self.batches("train", train=True),
            self.batches("validation"),
            self.train_config,
            folder=folder,
            seed=self.config.seed,
            device=self.device,
            progress=progress,
            after_epoch=after_epoch,
        )
        if network is not self.model:
            self._frozen_backbone().mlp.load_state_dict(network.backbone.state_dict())
            self.model.head.load_state_dict(network.head.state_dict())
        predictions, features = self._predict_splits(network)
        result = Result(folder, self.model, self.model_config, curves, predictions, self.train_config)
        if is_first():
            save_weights(folder, self.model)
            write_table(pa.Table.from_pylist(curves), folder / "curves.parquet")
            for split, part in predictions.items():
                part.write(folder / f"{split}.parquet")
            write_tensors(folder / "features.safetensors", features)
            if complete:
                write_config(folder, self.model_config)
        return result

    def _trainable_part(self) -> Classifier:
        """The whole network, or the perceptron and head on frozen features."""
        if not self.config.frozen:
            return self.model
        self.features()
        part = Classifier(self._frozen_backbone().mlp, len(self.model_config.classes), head=self.model_config.head)
        part.head.load_state_dict(self.model.head.state_dict())
        return part

    def _predict_splits(self, model: Classifier) -> tuple[dict[str, Predictions], dict[str, Tensor]]:
        """Predictions by split, and features of the validation and test rows."""
        predictions, features = {}, {}
        step = max(1, -(-len(self.splits["train"]) // MAX_TRAIN_PREDICTIONS))
        parts = {**self.splits, "train": self.splits["train"][::step]}
        for split, rows in parts.items():
            logits, hidden = predict_batches(model, self.batches(split, rows=rows).epoch(0))
            predictions[split] = self.predictions(logits.numpy(), rows, split)
            if split != "train":
                features[split] = hidden
        return predictions, features

    def predictions(self, logits: Any, rows: RowNumbers, split: str) -> Predictions:
        """Logits of some rows with their ids, clusters, and labels; votes for a run that is trained on votes."""
        manifest = self.prepared.manifest
        clusters = manifest.clusters()
        labels = {"y": manifest.votes[rows]} if self.config.label == VOTES else {"codes": self.labels[rows]}
        return Predictions(
            logits=logits,
            **labels,
            classes=manifest.classes,
            ids=[manifest.ids[row] for row in rows],
            split=[split] * len(rows),
            cluster=None if clusters is None else [clusters[row] for row in rows],
        )

    def spec(self) -> dict[str, Any]:
        """Settings, hashes of the rows, and versions, for run.json."""
        rows = {name: sha256(np.asarray(part).tobytes()).hexdigest()[:16] for name, part in self.splits.items()}
        spec = {
            "config": json.loads(json.dumps(asdict(self.config), default=str)),
            "train_config": asdict(self.train_config),
            "manifest": self.prepared.manifest.digest,
            "rows": rows,
        }
        if self.pretrained_digest is not None:
            spec["pretrained"] = self.pretrained_digest
        versions = {"orcu": orcu.__version__, "torch": torch.__version__, "python": platform.python_version()}
        return {"spec": spec, "versions": versions}


@lru_cache(maxsize=1)  # splits, folds, messages and card need it
def row_copies(prepared: PreparedData) -> IntArray | None:
    """Number of each row, equal for copies of a row; ``None`` without copies.

    Copies are images or texts of the same content, and the rows of a table that `copy_groups` finds.
    """
    manifest = prepared.manifest
    if manifest.about.kind == TABLE:
        table = {name: np.array(values, dtype=object) for name, values in table_features(manifest).items()}
        return copy_groups(table, manifest.labels)
    groups = manifest.samples().groups(by_cluster=False)
    return groups if int(groups.max()) + 1 < len(groups) else None


def claim(folder: Path, content: Mapping[str, Any]) -> None:
    """Write the settings of a run to run.json; `InputError` if the folder contains a run with other settings."""
    path = folder / "run.json"
    started = any((folder / name).exists() for name in ("checkpoint", "model.json", *MEMBERS))
    if path.exists() and started:
        earlier = read_json(path, _parse_spec)
        # Earlier versions do not record the digest of the pretrained weights.
        settings = {key: value for key, value in content["spec"].items() if key != "pretrained" or key in earlier}
        changed = _differences(earlier, settings)
        if changed:
            raise InputError(
                f"{folder}: contains a run with different {', '.join(changed)}; choose another folder or delete it."
            )
        return
    write_json(path, content)


def _parse_spec(content: Any) -> dict[str, Any]:
    try:
        return _upgrade(content["spec"])
    except (KeyError, TypeError, AttributeError):
        raise InputError("not the settings of a run; delete the folder and train again.") from None


def _upgrade(entries: Mapping[str, Any], table: str = "spec") -> dict[str, Any]:
    """The content of a run.json with the keys of this version."""
    names = OLD_KEYS.get(table, {})
    renamed = {names.get(key, key): "ensemble" if value == "committee" else value for key, value in entries.items()}
    upgraded = {key: _upgrade(value, key) if isinstance(value, Mapping) else value for key, value in renamed.items()}
    return ADDED_KEYS.get(table, {}) | upgraded


def _differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Names of the settings that differ."""
    names = []
    for key in sorted({*first, *second} - SOURCE_KEYS):
        values = first.get(key), second.get(key)
        if all(isinstance(value, Mapping) for value in values) and key != "rows":
            names += _differences(*values)  # type: ignore[arg-type]
        elif values[0] != values[1]:
            names.append(TITLES.get(key, key))
    return list(dict.fromkeys(names))


def _add_tensors(digest: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Add the names and values of tensors to a digest."""
    for name, value in tensors.items():
        digest.update(name.encode() + value.detach().cpu().numpy().tobytes())
    return digest


def best_device() -> str:
    """The best available device: "cuda", "mps" or "cpu"."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
