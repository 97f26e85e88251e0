"""A run: one loss, one backbone, one fold of a prepared data set, from its rows to its predictions."""

import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import orcu
from orcu import losses
from orcu.data.batches import Batches, RowNumbers
from orcu.data.store import Prepared
from orcu.errors import InputError
from orcu.io.files import atomic_write
from orcu.io.writing import write_table
from orcu.losses.ensemble import MEMBERS, EnsembleLoss
from orcu.models.backbones import PRETRAINED
from orcu.models.classifier import Classifier, Frozen, predict
from orcu.models.ensemble import EnsembleClassifier
from orcu.models.kinds import MakeBatches, Plan, matrix_batches, model_kind
from orcu.predictions.predictions import Predictions
from orcu.training.config import TRAIN_CONFIGS, TrainConfig
from orcu.training.loop import Curve, Moment, fit
from orcu.training.model_file import save_model
from orcu.training.parallel import first_before_others, is_first

Splits = Mapping[str, RowNumbers]
FEATURE_ROWS = 64  # that go through a frozen body at once
PLAIN = ("linear", "unimodal")  # heads for any loss that takes logits
MOST_TRAIN_ROWS = 2000  # whose predictions are kept, drawn evenly


@dataclass(frozen=True)
class RunConfig:
    """What a run is made of; everything that its result depends on besides the data.

    Args:
        loss: a name or a table, as for `orcu.losses.create`.
        backbone: "" for the kind's default: resnet50 for images, bert-tiny for texts.
        head: one of `orcu.models.heads.HEADS`; "" takes what the loss needs.
        weights: of the backbone: "pretrained", "random" or a file.
        frozen: keep the backbone's weights and train a perceptron on its features.
        hidden: layers of the perceptron, for tables and frozen features.
        size: the side of images, in pixels.
        augment: the paper's flips and rotation, for images that are trained on.
        recipe: changes to the kind's recipe.
        seed: of weights, order, augmentation and dropout.
        download: whether weights may be fetched from the hub.
    """

    loss: Any = "orcu"
    backbone: str = ""
    head: str = ""
    weights: str = PRETRAINED
    frozen: bool = False
    hidden: tuple[int, ...] = (256,)
    size: int = 224
    augment: bool = True
    recipe: Mapping[str, Any] | None = None
    seed: int = 0
    download: bool = False


@dataclass(frozen=True)
class Result:
    """What a run has written."""

    folder: Path
    model: Classifier | EnsembleClassifier
    plan: Plan
    curves: list[Curve]
    predictions: dict[str, Predictions]
    recipe: TrainConfig


class Run:
    """A run over one division of a prepared data set.

    Args:
        prepared: the data.
        splits: row numbers of train, validation and test.
        settings: everything else.
        device: "cpu", "cuda" or "mps"; "auto" takes the best there is.

    Raises:
        InputError: if a setting cannot be used, a class has no training rows, or weights are not at hand.
    """

    def __init__(self, prepared: Prepared, splits: Splits, settings: RunConfig, *, device: str = "auto") -> None:
        self.prepared, self.splits, self.settings = prepared, splits, settings
        self.device = best_device() if device == "auto" else device
        manifest = prepared.manifest
        self.kind, self.labels = model_kind(manifest.about.kind), manifest.labels
        absent = set(range(len(manifest.classes))) - set(self.labels[splits["train"]].tolist())
        if absent:
            names = ", ".join(manifest.classes[k] for k in sorted(absent))
            raise InputError(f"no training row has class {names}; every class needs some.")
        recipe = TRAIN_CONFIGS["frozen" if settings.frozen else manifest.about.kind]
        self.recipe: TrainConfig = recipe.but(**dict(settings.recipe or {}))
        self.criterion = losses.create(settings.loss, num_classes=len(manifest.classes))
        self.plan = self._plan()
        known = self._known_body()
        if known is not None:
            self.plan = replace(self.plan, **known["expected"])
        elif settings.frozen:
            self.plan = replace(self.plan, **self.kind.expected(self.model.backbone.body))
        else:
            _ = self.model  # what it needs is missed now, not after the data are decoded
        self._features: Tensor | None = None

    @cached_property
    def model(self) -> Classifier:
        """The network, as it is before and after training.

        Of a frozen body whose features are kept it is built when it is asked for: an ensemble trains on the features
        alone, and importing timm or transformers takes longer than that.
        """
        settings = self.settings
        model = self.plan.build(weights=settings.weights, download=settings.download, seed=settings.seed)
        assert isinstance(model, Classifier)  # noqa: S101 -- a plan of a single network
        return model

    @property
    def _body_note(self) -> Path | None:
        """Where is noted which features a frozen body from packages has given, by the packages' versions."""
        packages = self.kind.packaged(self.plan.backbone) if self.settings.weights == PRETRAINED else []
        if not self.settings.frozen or not packages:
            return None
        about = [self.prepared.manifest.digest, self.plan.backbone, self.plan.size, self.plan.kind, *packages]
        return self.prepared.derived / f"body_{sha256(json.dumps(about).encode()).hexdigest()[:16]}.json"

    def _known_body(self) -> dict[str, Any] | None:
        """What a frozen body expects and the file of its features, if they are kept."""
        note = self._body_note
        if note is None or not note.exists():
            return None
        known: dict[str, Any] = json.loads(note.read_text(encoding="utf-8"))
        return known if (self.prepared.derived / known["features"]).exists() else None

    def _plan(self) -> Plan:
        settings, manifest = self.settings, self.prepared.manifest
        head = settings.head or self.criterion.head
        if head != self.criterion.head and (self.criterion.needs_head or head not in PLAIN):
            wanted = "its own head" if self.criterion.needs_head else f"another head than {head}"
            raise InputError(f"head: the loss {settings.loss!r} needs {wanted}.")
        if isinstance(self.criterion, EnsembleLoss) and len(self.criterion.members) != len(MEMBERS):
            raise InputError(
                f"loss: a model's head has a slice for each of {len(MEMBERS)} losses; the ensemble has "
                f"{len(self.criterion.members)}."
            )
        return Plan(
            kind=manifest.about.kind,
            classes=list(manifest.classes),
            backbone=settings.backbone or self.kind.default_backbone,
            head=head,
            hidden=list(settings.hidden) if settings.frozen or not self.kind.has_backbone else [],
            frozen=settings.frozen,
            dataset=manifest.about.dataset,
            **self.kind.learned(self.prepared, self.splits["train"], size=settings.size, frozen=settings.frozen),
        )

    def batches(self, split: str, *, train: bool = False, rows: RowNumbers | None = None) -> Batches:
        """The batches of a split: in order, or shuffled and augmented for training."""
        return self._make_batches(
            self.splits[split] if rows is None else rows,
            train=train,
            batch_size=self.recipe.batch_size,
            seed=self.settings.seed,
            device=self.device,
        )

    @cached_property
    def _make_batches(self) -> MakeBatches:
        if self.settings.frozen:
            return matrix_batches(self.features(), self.labels)
        augment = self.settings.augment
        return self.kind.batch_maker(self.prepared, self.plan, self.model.backbone, augment=augment)

    def features(self, progress: Callable[[int, int], None] | None = None) -> Tensor:
        """The frozen body's features of every row, computed once for the data set and kept beside it."""
        if self._features is not None:
            return self._features
        known = self._known_body()
        if known is not None:
            self._features = load_file(self.prepared.derived / known["features"])["features"]
            return self._features
        assert isinstance(self.model.backbone, Frozen)  # noqa: S101
        body = self.model.backbone.body.to(self.device)
        digest = sha256(self.prepared.manifest.digest.encode())
        for name, value in body.state_dict().items():
            digest.update(name.encode() + value.detach().cpu().numpy().tobytes())
        digest.update(json.dumps([self.plan.backbone, self.plan.size, self.plan.kind]).encode())
        path = self.prepared.derived / f"features_{digest.hexdigest()[:16]}.safetensors"
        if not path.exists():
            make_batches = self.kind.batch_maker(self.prepared, self.plan, body)
            batches = make_batches(np.arange(len(self.labels)), batch_size=FEATURE_ROWS, device=self.device)
            parts = []
            with torch.no_grad():
                for number, (inputs, *_) in enumerate(batches.epoch(0), 1):
                    parts.append(body(inputs).float().cpu())
                    if progress is not None:
                        progress(number, len(batches))
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as temporary:
                save_file({"features": torch.cat(parts).contiguous()}, temporary)
        if self._body_note is not None:
            with atomic_write(self._body_note) as temporary:
                temporary.write_text(json.dumps({"features": path.name, "expected": self.kind.expected(body)}) + "\n")
        self._features = load_file(path)["features"]
        return self._features

    def matrix(self, progress: Callable[[int, int], None] | None = None) -> Tensor:
        """Every row as a perceptron takes it: the frozen body's features, or the encoded table.

        Raises:
            InputError: if there is no such matrix, since a whole backbone is trained.
        """
        if self.settings.frozen:
            return self.features(progress)
        if self.kind.has_backbone:
            raise InputError("folds: a whole backbone is trained once; use --frozen, or --folds 1.")
        everything = self._make_batches(np.arange(len(self.labels)), batch_size=len(self.labels), device="cpu")
        return torch.cat([inputs for inputs, *_ in everything.epoch(0)])

    def train(
        self,
        folder: Path,
        *,
        progress: Callable[[Moment], None] | None = None,
        after_epoch: Callable[[int, Classifier], Curve] | None = None,
    ) -> Result:
        """Train, or go on where a training in this folder was cut off, and write the result.

        Writes model.safetensors and model.json, curves.parquet, predictions of a part of the training
        rows, of validation and test, and the features of the last two.

        Args:
            folder: of the run.
            progress: called after every step and epoch.
            after_epoch: further entries of an epoch's record.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with first_before_others():
            claim(folder, self.spec())
            trained = self._trained()
        curves = fit(
            trained,
            self.criterion,
            self.batches("train", train=True),
            self.batches("validation"),
            self.recipe,
            folder=folder,
            seed=self.settings.seed,
            device=self.device,
            progress=progress,
            after_epoch=after_epoch,
        )
        if trained is not self.model:
            assert isinstance(self.model.backbone, Frozen)  # noqa: S101
            self.model.backbone.mlp.load_state_dict(trained.backbone.state_dict())
            self.model.head.load_state_dict(trained.head.state_dict())
        predictions, features = self._predictions(trained)
        result = Result(folder, self.model, self.plan, curves, predictions, self.recipe)
        if not is_first():
            return result
        save_model(folder, self.model, self.plan)
        write_table(pa.Table.from_pylist(curves), folder / "curves.parquet")
        for split, part in predictions.items():
            part.write(folder / f"{split}.parquet")
        with atomic_write(folder / "features.safetensors") as temporary:
            save_file(features, temporary)
        return result

    def _trained(self) -> Classifier:
        """What the loop trains: all of it, or what stands on frozen features."""
        if not self.settings.frozen:
            return self.model
        self.features()
        assert isinstance(self.model.backbone, Frozen)  # noqa: S101
        part = Classifier(self.model.backbone.mlp, len(self.plan.classes), head=self.plan.head)
        part.head.load_state_dict(self.model.head.state_dict())
        return part

    def _predictions(self, model: Classifier) -> tuple[dict[str, Predictions], dict[str, Tensor]]:
        predictions, features = {}, {}
        step = max(1, -(-len(self.splits["train"]) // MOST_TRAIN_ROWS))
        parts = {**self.splits, "train": self.splits["train"][::step]}
        for split, rows in parts.items():
            logits, inner = predict(model, self.batches(split, rows=rows).epoch(0))
            predictions[split] = self.predictions(logits.numpy(), rows, split)
            if split != "train":
                features[split] = inner.contiguous()
        return predictions, features

    def predictions(self, logits: Any, rows: RowNumbers, split: str) -> Predictions:
        """Logits of some rows, with all that is known of them."""
        manifest = self.prepared.manifest
        subjects = manifest.column("subject")
        return Predictions(
            logits=logits,
            codes=self.labels[rows],
            classes=manifest.classes,
            ids=[manifest.ids[row] for row in rows],
            split=[split] * len(rows),
            subject=None if subjects[0] is None else [subjects[row] for row in rows],
        )

    def spec(self) -> dict[str, Any]:
        """What the run is made of, and the versions it runs with."""
        rows = {name: sha256(np.asarray(part).tobytes()).hexdigest()[:16] for name, part in self.splits.items()}
        spec = {
            "settings": json.loads(json.dumps(asdict(self.settings), default=str)),
            "recipe": asdict(self.recipe),
            "manifest": self.prepared.manifest.digest,
            "rows": rows,
        }
        versions = {"orcu": orcu.__version__, "torch": torch.__version__, "python": platform.python_version()}
        return {"spec": spec, "versions": versions}


def claim(folder: Path, mine: Mapping[str, Any]) -> None:
    """Note in run.json what a folder's run is made of; refuse a folder of another run.

    Raises:
        InputError: if the folder holds another run.
    """
    path = folder / "run.json"
    started = any((folder / name).exists() for name in ("checkpoint", "members", "model.json"))
    if path.exists() and started:
        changed = _differences(json.loads(path.read_text())["spec"], mine["spec"])
        if changed:
            raise InputError(
                f"{folder}: holds a run with another {', '.join(changed)}; choose another folder or delete it."
            )
        return
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(mine, indent=1) + "\n")


def _differences(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[str]:
    """The names of what differs; the data's manifest is called what it is."""
    names = []
    for key in sorted({*one, *two}):
        first, second = one.get(key), two.get(key)
        if isinstance(first, Mapping) and isinstance(second, Mapping) and key != "rows":
            names += _differences(first, second)
        elif first != second:
            names.append({"manifest": "set of data", "rows": "division of the rows"}.get(key, key))
    return list(dict.fromkeys(names))


def best_device() -> str:
    """The best device there is: "cuda", "mps" or "cpu"."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
