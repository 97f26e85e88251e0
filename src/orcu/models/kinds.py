"""Models of images, texts and tables: how each is built, fed with batches, and applied to new inputs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from orcu.data.base import DATASETS, IMAGES, TABLE, TEXTS, Dataset
from orcu.data.batches import ArrayBatches, Batches, ImageBatches, RowNumbers, TextBatches
from orcu.data.images import SUFFIXES, BadImageError, read_image, resize_image
from orcu.data.manifest import Manifest
from orcu.data.store import PreparedData
from orcu.data.transforms import Augmentation, normalize
from orcu.errors import InputError, UnknownNameError
from orcu.io.reading import read_table
from orcu.models.backbones import LITE0_PACKAGE, PRETRAINED, ImageBackbone
from orcu.models.classifier import Classifier, FrozenBackbone
from orcu.models.ensemble import EnsembleClassifier
from orcu.models.tabular import Mlp
from orcu.models.text import MINILM_PACKAGE, TextEncoder
from orcu.preprocessing import Inputs, TableEncoder
from orcu.raters.votes import Targets

PREDICT_BATCH = 64  # new inputs per batch
EVALUATION_ROWS = 4096  # minimum batch size for rows of a matrix outside of training
MakeBatches = Callable[..., Batches]  # from row numbers; keyword arguments train, batch_size, seed and device


@dataclass(frozen=True)
class ModelConfig:
    """Everything that defines a model except its weights.

    Args:
        kind: "images", "texts" or "table".
        classes: class names from lowest to highest.
        backbone: name of the backbone; unused for a table.
        head: name of the head in `orcu.models.heads.HEADS`.
        hidden_layer_sizes: units of each hidden layer of a perceptron on the table or on frozen features.
        frozen: whether the weights of the backbone are frozen.
        size: side of the images, in pixels.
        mean: mean of each colour channel, in [0, 1].
        std: standard deviation of each colour channel.
        columns: columns of the table's encoder.
        dataset: data set whose preprocessing is applied to images.
        weights: weights of the log-probabilities of an ensemble's networks, ordered by loss and fold; empty for a
            single network.
        folds: number of folds of the ensemble.
        estimators: kind, name and weight of each member of the ensemble that is not a network; for boosted trees also
            the library and the start values.
    """

    kind: str
    classes: list[str]
    backbone: str = ""
    head: str = "linear"
    hidden_layer_sizes: list[int] = field(default_factory=list)
    frozen: bool = False
    size: int = 224
    mean: list[float] = field(default_factory=list)
    std: list[float] = field(default_factory=list)
    columns: list[dict[str, Any]] = field(default_factory=list)
    dataset: str = ""
    weights: list[float] = field(default_factory=list)
    folds: int = 1
    estimators: list[dict[str, Any]] = field(default_factory=list)

    def build(
        self, *, weights: str = PRETRAINED, download: bool = False, seed: int = 0
    ) -> Classifier | EnsembleClassifier:
        """Build the model; ``weights`` and ``download`` are those of the backbone, ``seed`` is for random weights."""
        torch.manual_seed(seed)
        options: dict[str, Any] = {"weights": weights, "download": download, "seed": seed}
        kind, sizes = model_kind(self.kind), self.hidden_layer_sizes
        if self.weights or self.estimators:
            body = kind.build_backbone(replace(self, hidden_layer_sizes=[], weights=[], estimators=[]), **options)
            return EnsembleClassifier(body, len(self.classes), hidden_layer_sizes=sizes, weights=self.weights)
        return Classifier(kind.build_backbone(self, **options), len(self.classes), head=self.head)


class NewInputs(NamedTuple):
    """New inputs of a trained model; ``ids`` and ``notes`` are complete after the last batch."""

    ids: list[str]
    batches: Iterator[Any]
    notes: list[str]  # remarks for the user
    total: int  # number of rows, including images that are skipped
    encoded: Inputs | None = None  # the rows of a table, for members that are not networks


class ModelKind(ABC):
    """The parts of a model that depend on the kind of data.

    Attributes:
        default_backbone: backbone that is trained by default; "" if there is none.
        default_frozen: backbone whose features are used by default where training a whole backbone takes too long.
    """

    default_backbone: ClassVar[str] = ""
    default_frozen: ClassVar[str] = ""

    @property
    def has_backbone(self) -> bool:
        """Whether there is a backbone, which may be frozen."""
        return bool(self.default_backbone)

    def find_weights(self, backbone: str, *, download: bool = False) -> Path | None:
        """File or folder of a backbone's pretrained weights, without building it; ``None`` if there is no backbone."""
        return None

    @abstractmethod
    def build_backbone(self, config: ModelConfig, *, weights: str, download: bool, seed: int) -> Any:
        """A module from inputs to features, with an attribute ``width``; see `ModelConfig.build`."""

    def fit_inputs(self, prepared: PreparedData, train: RowNumbers, *, size: int, frozen: bool) -> dict[str, Any]:
        """Entries of the model config that are computed from the training rows."""
        return {}

    def body_inputs(self, body: Any) -> dict[str, Any]:
        """Entries of the model config that a frozen body requires."""
        return {}

    def package_versions(self, backbone: str) -> list[str]:
        """Packages, with versions, that fully determine a pretrained body; empty if other files do."""
        return []

    @abstractmethod
    def batch_maker(
        self,
        prepared: PreparedData,
        config: ModelConfig,
        body: Any,
        augmentation: Augmentation | None = None,
        y: Targets | None = None,
    ) -> MakeBatches:
        """A function from row numbers to batches; batches of images for training are augmented.

        ``y`` are the shares of votes of all rows, in place of their labels.
        """

    @abstractmethod
    def read_inputs(self, config: ModelConfig, path: Path, backbone: Any, device: str, skip_bad: bool) -> NewInputs:
        """Read new inputs from an existing file or folder; see `orcu.training.predict.predict`."""


class _Pretrained(ModelKind):
    """A pretrained network, trained as a whole or frozen below a perceptron."""

    network: ClassVar[type[ImageBackbone] | type[TextEncoder]]
    packages: ClassVar[Mapping[str, tuple[str, ...]]]  # code and weights of backbones that come from packages

    def package_versions(self, backbone: str) -> list[str]:
        """The packages of a backbone with their versions; empty if one of them is not installed."""
        try:
            return [f"{package} {version(package)}" for package in self.packages.get(backbone, ())]
        except PackageNotFoundError:
            return []

    def find_weights(self, backbone: str, *, download: bool = False) -> Path | None:
        """The weights of a package, of the local hub cache, or downloaded to it; `InputError` without them."""
        return self.network.find_weights(backbone or self.default_backbone, download=download)

    def build_backbone(self, config: ModelConfig, *, weights: str, download: bool, seed: int) -> Any:
        """The network, or a perceptron on the frozen network."""
        if config.frozen and weights == PRETRAINED:
            body = _frozen_body(self, config.backbone, download)
        else:
            body = self.network(config.backbone, weights=weights, download=download)
        if not config.frozen:
            return body
        torch.manual_seed(seed)  # the perceptron must not depend on whether the body was cached
        return FrozenBackbone(body, config.hidden_layer_sizes)


@lru_cache(maxsize=1)
def _frozen_body(kind: _Pretrained, name: str, download: bool) -> Any:
    """A frozen body never changes, so the runs of a benchmark share it."""
    return kind.network(name, download=download)


class ImageModels(_Pretrained):
    """Images: a convolutional network, the augmentation of the paper, normalised colours."""

    default_backbone = "resnet50"
    default_frozen = "efficientnet_lite0"
    network = ImageBackbone
    packages: ClassVar[Mapping[str, tuple[str, ...]]] = {"efficientnet_lite0": ("timm", LITE0_PACKAGE)}

    def fit_inputs(self, prepared: PreparedData, train: RowNumbers, *, size: int, frozen: bool) -> dict[str, Any]:
        """Image size, and colour statistics of the training images."""
        if frozen:
            return {"size": size}
        mean, std = prepared.cache(size).mean_and_std(train)  # Paper: statistics of the training set
        return {"size": size, "mean": mean.tolist(), "std": std.tolist()}

    def body_inputs(self, body: Any) -> dict[str, Any]:
        """Colour statistics that the body was trained with."""
        return {"mean": list(body.mean), "std": list(body.std)}

    def batch_maker(
        self,
        prepared: PreparedData,
        config: ModelConfig,
        body: Any,
        augmentation: Augmentation | None = None,
        y: Targets | None = None,
    ) -> MakeBatches:
        """Batches from the image cache."""
        cache, labels = prepared.cache(config.size), prepared.manifest.labels if y is None else y
        statistics = {"mean": np.array(config.mean), "std": np.array(config.std)}

        def batches(rows: RowNumbers, *, train: bool = False, **options: Any) -> Batches:
            changes = augmentation if train else None
            return ImageBatches(cache, rows, labels, augmentation=changes, shuffle=train, **statistics, **options)

        return batches

    def read_inputs(self, config: ModelConfig, path: Path, backbone: Any, device: str, skip_bad: bool) -> NewInputs:
        """The images of a folder, or a single image; each is decoded once."""
        root = path if path.is_dir() else path.parent
        files = sorted(root.rglob("*")) if path.is_dir() else [path]
        names = [file.relative_to(root).as_posix() for file in files if file.suffix.lower() in SUFFIXES]
        if not names:
            raise InputError(f"{path}: no images found; this model takes images.")
        dataset: type[Dataset] = DATASETS.get(config.dataset)
        mean, std = (torch.tensor(values, dtype=torch.float32, device=device) for values in (config.mean, config.std))
        ids: list[str] = []
        notes: list[str] = []

        def batches() -> Iterator[Tensor]:
            pixels: list[Any] = []
            for number, name in enumerate(names, 1):
                try:
                    pixels.append(resize_image(dataset.preprocess(read_image(root, name)), config.size))
                    ids.append(name)
                except BadImageError as error:
                    notes.append(f"skipped: {error}")
                    if not skip_bad or len(notes) == len(names):
                        raise InputError(f"{error} (image {number} of {len(names)}); --skip-bad skips it.") from None
                if len(pixels) == PREDICT_BATCH or (pixels and number == len(names)):
                    images = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).contiguous().float()
                    yield normalize(images.to(device), mean, std)
                    pixels = []

        return NewInputs(ids, batches(), notes, len(names))


class TextModels(_Pretrained):
    """Texts: a transformer."""

    default_backbone = "bert-tiny"
    default_frozen = "minilm"
    network = TextEncoder
    packages: ClassVar[Mapping[str, tuple[str, ...]]] = {"minilm": ("transformers", MINILM_PACKAGE)}

    def batch_maker(
        self,
        prepared: PreparedData,
        config: ModelConfig,
        body: Any,
        augmentation: Augmentation | None = None,
        y: Targets | None = None,
    ) -> MakeBatches:
        """Batches of tokens."""
        texts, labels = prepared.manifest.column("text"), prepared.manifest.labels if y is None else y

        def batches(rows: RowNumbers, *, train: bool = False, **options: Any) -> Batches:
            return TextBatches(body, texts, rows, labels, shuffle=train, **options)

        return batches

    def read_inputs(self, config: ModelConfig, path: Path, backbone: Any, device: str, skip_bad: bool) -> NewInputs:
        """The lines of a .txt file, with line numbers as ids, or the column "text" of a table."""
        if path.suffix.lower() == ".txt" and path.is_file():
            lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            numbered = {number: line for number, line in lines if line.strip()}
            columns: dict[str, list[Any]] = {"id": list(numbered), "text": list(numbered.values())}
        else:
            columns = _read_columns(path, "texts")
        if not columns.get("text"):
            raise InputError(f"{path}: column 'text' is missing or empty.")
        encoder: TextEncoder = backbone.body if config.frozen else backbone
        tokens = encoder.tokenize([str(text) for text in columns["text"]])
        batches = (encoder.batch(part).to(device) for part in _parts(tokens))
        return NewInputs(_ids(columns, len(tokens)), batches, [], len(tokens))


class TableModels(ModelKind):
    """Tables: a perceptron on standardised numbers and one-hot categories."""

    def build_backbone(self, config: ModelConfig, *, weights: str, download: bool, seed: int) -> Any:
        """The perceptron."""
        if config.frozen:
            raise InputError("frozen: a table has no backbone to freeze; leave it out.")
        return Mlp(TableEncoder.from_dict(config.columns).width, hidden_layer_sizes=config.hidden_layer_sizes)

    def fit_inputs(self, prepared: PreparedData, train: RowNumbers, *, size: int, frozen: bool) -> dict[str, Any]:
        """Columns of the encoder, fitted on the training rows."""
        columns = table_features(prepared.manifest)
        table = {name: [values[row] for row in train.tolist()] for name, values in columns.items()}
        return {"columns": TableEncoder.fit(table, robust=False, warn=False).to_dict()}

    def batch_maker(
        self,
        prepared: PreparedData,
        config: ModelConfig,
        body: Any,
        augmentation: Augmentation | None = None,
        y: Targets | None = None,
    ) -> MakeBatches:
        """Batches of the encoded table."""
        inputs = TableEncoder.from_dict(config.columns).encode(table_features(prepared.manifest))
        labels = prepared.manifest.labels if y is None else y
        return matrix_batches(torch.from_numpy(inputs.features), labels)

    def read_inputs(self, config: ModelConfig, path: Path, backbone: Any, device: str, skip_bad: bool) -> NewInputs:
        """The rows of a table."""
        encoder = TableEncoder.from_dict(config.columns)
        columns = _read_columns(path, "a table", features=[column.name for column in encoder.columns])
        try:
            encoded = encoder.encode(columns)
        except InputError as error:
            raise InputError(f"{path.name}: {error}") from None
        matrix = torch.from_numpy(encoded.features)
        if len(matrix) == 0:
            raise InputError(f"{path}: no rows found.")
        batches = (part.to(device) for part in _parts(matrix))
        return NewInputs(_ids(columns, len(matrix)), batches, encoder.unseen(columns), len(matrix), encoded)


MODEL_KINDS: dict[str, ModelKind] = {IMAGES: ImageModels(), TEXTS: TextModels(), TABLE: TableModels()}


def model_kind(name: str) -> ModelKind:
    """The model kind for a kind of data, or `UnknownNameError`.

    Example:
        >>> model_kind("texts").default_backbone, model_kind("table").has_backbone
        ('bert-tiny', False)
    """
    if name not in MODEL_KINDS:
        raise UnknownNameError("kind of data", name, MODEL_KINDS)
    return MODEL_KINDS[name]


def matrix_batches(matrix: Tensor, labels: Targets) -> MakeBatches:
    """A function from row numbers to batches of a matrix: an encoded table, or features of a frozen body."""

    def batches(rows: RowNumbers, *, train: bool = False, batch_size: int, **options: Any) -> Batches:
        if not train:  # large batches of small rows are faster, with the same outputs
            batch_size = max(batch_size, EVALUATION_ROWS)
        return ArrayBatches(matrix, rows, labels, batch_size=batch_size, shuffle=train, **options)

    return batches


def table_features(manifest: Manifest) -> dict[str, list[Any]]:
    """The feature columns of a table by name."""
    return {name: manifest.feature(name) for name in manifest.about.features}


def _read_columns(path: Path, what: str, features: Collection[str] = ()) -> dict[str, list[Any]]:
    """The columns of a table by name; ids stay text unless they are a feature."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; this model takes {what}.")
    table = read_table(path, text_columns={"id"}.difference(features))
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _parts(rows: Any) -> Iterator[Any]:
    return (rows[i : i + PREDICT_BATCH] for i in range(0, len(rows), PREDICT_BATCH))


def _ids(columns: dict[str, list[Any]], rows: int) -> list[str]:
    """The column "id", or row numbers."""
    return [str(value) for value in columns.get("id", range(1, rows + 1))]
