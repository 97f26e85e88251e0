"""Models of images, texts and tables: what each is built of, what it is fed with, and how it meets new cases.

A model's `Plan` names its kind; everything that depends on the kind is asked of one object, `model_kind`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from orcu.boosting.columns import TreeColumns
from orcu.data.base import DATASETS, IMAGES, TABLE, TEXTS, Dataset
from orcu.data.batches import ArrayBatches, Batches, ImageBatches, RowNumbers, TextBatches
from orcu.data.images import SUFFIXES, BadImageError, check_image, read_image, resized
from orcu.data.manifest import Manifest
from orcu.data.store import Prepared
from orcu.data.transforms import Augmentation, normalized
from orcu.errors import InputError, UnknownNameError
from orcu.inputs import IntArray
from orcu.io.reading import read_table
from orcu.models.backbones import LITE0_PACKAGE, PRETRAINED, ImageBackbone
from orcu.models.classifier import Classifier, Frozen
from orcu.models.ensemble import EnsembleClassifier
from orcu.models.tabular import MISSING, Mlp, TableEncoder
from orcu.models.text import MINILM_PACKAGE, TextEncoder

BATCH = 64  # new cases at once
JUDGED_ROWS = 4096  # of a matrix at once
MakeBatches = Callable[..., Batches]  # of row numbers; train, batch_size, seed and device by name


@dataclass(frozen=True)
class Plan:
    """What it takes to build a model: all but its weights.

    Args:
        kind: "images", "texts" or "table".
        classes: from lowest to highest.
        backbone: its name; unused for a table.
        head: one of `orcu.models.heads.HEADS`.
        hidden: layers of a perceptron on the table or on frozen features; empty for none.
        frozen: the backbone keeps its weights.
        size: the side of images, in pixels.
        mean: of each colour, in [0, 1].
        std: likewise.
        columns: what the table's encoder has learned.
        dataset: whose preprocessing images get.
        weights: of the log-probabilities of an ensemble's networks, loss by loss and in each fold by fold; empty for
            a single network.
        folds: of the ensemble.
        trees: of the ensemble: of each loss its name, library, weight and start.
    """

    kind: str
    classes: list[str]
    backbone: str = ""
    head: str = "linear"
    hidden: list[int] = field(default_factory=list)
    frozen: bool = False
    size: int = 224
    mean: list[float] = field(default_factory=list)
    std: list[float] = field(default_factory=list)
    columns: list[dict[str, Any]] = field(default_factory=list)
    dataset: str = ""
    weights: list[float] = field(default_factory=list)
    folds: int = 1
    trees: list[dict[str, Any]] = field(default_factory=list)

    def build(
        self, *, weights: str = PRETRAINED, download: bool = False, seed: int = 0
    ) -> Classifier | EnsembleClassifier:
        """A model of this plan.

        Args:
            weights: of the backbone: "pretrained", "random" or a file.
            download: whether they may be fetched from the hub.
            seed: of the weights that start at random.
        """
        torch.manual_seed(seed)
        if self.weights or self.trees:
            features = replace(self, hidden=[], weights=[], trees=[])
            body = model_kind(self.kind).backbone(features, weights=weights, download=download, seed=seed)
            return EnsembleClassifier(body, len(self.classes), hidden=self.hidden, weights=self.weights)
        backbone = model_kind(self.kind).backbone(self, weights=weights, download=download, seed=seed)
        return Classifier(backbone, len(self.classes), head=self.head)


class NewCases(NamedTuple):
    """Cases that a trained model is asked about: their ids, batches of inputs, what the user should know, the table."""

    ids: list[str]
    batches: Iterator[Any]
    notes: list[str]
    table: dict[str, list[Any]] | None = None  # of a table its columns


class ModelKind(ABC):
    """What differs between models of images, of texts and of tables.

    Attributes:
        default_backbone: what is trained unless another is named; "" if there is no backbone.
        default_frozen: whose features are trained on where a whole backbone would take too long.
    """

    default_backbone: ClassVar[str] = ""
    default_frozen: ClassVar[str] = ""

    @property
    def has_backbone(self) -> bool:
        """Whether there is a network below the perceptron, which may be frozen."""
        return bool(self.default_backbone)

    @abstractmethod
    def backbone(self, plan: Plan, *, weights: str, download: bool, seed: int) -> Any:
        """A module from inputs to features, with an attribute ``width``; see `Plan.build`."""

    def learned(self, prepared: Prepared, train: RowNumbers, *, size: int, frozen: bool) -> dict[str, Any]:
        """Entries of the plan that follow from the training rows.

        Args:
            prepared: the data.
            train: the training rows.
            size: the side of images.
            frozen: whether the backbone keeps its weights.
        """
        return {}

    def expected(self, body: Any) -> dict[str, Any]:
        """Entries of the plan that a frozen body expects."""
        return {}

    def packaged(self, backbone: str) -> list[str]:
        """The packages, with their versions, that a pretrained body follows from; none where others have a say."""
        return []

    @abstractmethod
    def batch_maker(self, prepared: Prepared, plan: Plan, body: Any, *, augment: bool = False) -> MakeBatches:
        """A function from row numbers to batches.

        Args:
            prepared: the data.
            plan: of the model.
            body: the network that takes the inputs.
            augment: whether batches to train on are augmented.
        """

    @abstractmethod
    def new_cases(self, plan: Plan, inputs: Path, backbone: Any, *, device: str, skip_bad: bool) -> NewCases:
        """New cases from a file or a folder that exists; see `orcu.training.predict.predict_new`.

        Raises:
            InputError: if they cannot be read.
        """


class _Pretrained(ModelKind):
    """A network by name, trained as a whole or frozen below a perceptron."""

    network: ClassVar[type[ImageBackbone] | type[TextEncoder]]

    def backbone(self, plan: Plan, *, weights: str, download: bool, seed: int) -> Any:
        """The network, or a perceptron on it."""
        if not plan.frozen:
            return self.network(plan.backbone, weights=weights, download=download)
        if weights == PRETRAINED:
            body = _frozen_body(self, plan.backbone, download)
        else:
            body = self.network(plan.backbone, weights=weights, download=download)
        torch.manual_seed(seed)  # the same, whether the body was at hand or had to be built
        return Frozen(body, plan.hidden)


@lru_cache(maxsize=1)
def _frozen_body(kind: _Pretrained, name: str, download: bool) -> Any:
    """A frozen body never changes, so the runs of a benchmark share it."""
    return kind.network(name, download=download)


class ImageModels(_Pretrained):
    """Images: a convolutional network, the paper's augmentation, colours normalised."""

    default_backbone = "resnet50"
    default_frozen = "efficientnet_lite0"
    network = ImageBackbone

    def learned(self, prepared: Prepared, train: RowNumbers, *, size: int, frozen: bool) -> dict[str, Any]:
        """The size, and the colours' statistics of the training images."""
        if frozen:
            return {"size": size}
        mean, std = prepared.cache(size).mean_and_std(train)  # Paper: the training set's own statistics.
        return {"size": size, "mean": mean.tolist(), "std": std.tolist()}

    def expected(self, body: Any) -> dict[str, Any]:
        """The statistics that the body was trained with."""
        return {"mean": list(body.mean), "std": list(body.std)}

    def packaged(self, backbone: str) -> list[str]:
        """The packages of the network and of EfficientNet-Lite0's weights."""
        return _versions("timm", LITE0_PACKAGE) if backbone == "efficientnet_lite0" else []

    def batch_maker(self, prepared: Prepared, plan: Plan, body: Any, *, augment: bool = False) -> MakeBatches:
        """Batches from the cache of decoded images."""
        cache, labels = prepared.cache(plan.size), prepared.manifest.labels
        mean, std = np.array(plan.mean), np.array(plan.std)

        def batches(rows: RowNumbers, *, train: bool = False, **options: Any) -> Batches:
            augmentation = Augmentation() if train and augment else None
            return ImageBatches(
                cache, rows, labels, mean=mean, std=std, augmentation=augmentation, shuffle=train, **options
            )

        return batches

    def new_cases(self, plan: Plan, inputs: Path, backbone: Any, *, device: str, skip_bad: bool) -> NewCases:
        """The images of a folder, or one."""
        root = inputs if inputs.is_dir() else inputs.parent
        files = sorted(root.rglob("*")) if inputs.is_dir() else [inputs]
        paths = [file.relative_to(root).as_posix() for file in files if file.suffix.lower() in SUFFIXES]
        if not paths:
            raise InputError(f"{inputs}: there are no images in it; this model takes images.")
        bad = {}
        for path in paths:
            try:
                check_image(root, path)
            except BadImageError as error:
                bad[path] = str(error)
        if bad and (not skip_bad or len(bad) == len(paths)):
            raise InputError(
                f"{len(bad):,} of {len(paths):,} images: {next(iter(bad.values()))}. --skip-bad goes on without."
            )
        paths = [path for path in paths if path not in bad]
        dataset: type[Dataset] = DATASETS.get(plan.dataset)
        mean, std = (torch.tensor(values, dtype=torch.float32, device=device) for values in (plan.mean, plan.std))

        def batches() -> Iterator[Tensor]:
            for first in range(0, len(paths), BATCH):
                pixels = [
                    resized(dataset.preprocess(read_image(root, path)), plan.size)
                    for path in paths[first : first + BATCH]
                ]
                images = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).contiguous().float()
                yield normalized(images.to(device), mean, std)

        return NewCases(paths, batches(), [f"left out: {why}" for why in bad.values()])


class TextModels(_Pretrained):
    """Texts: a transformer."""

    default_backbone = "bert-tiny"
    default_frozen = "minilm"
    network = TextEncoder

    def packaged(self, backbone: str) -> list[str]:
        """Transformers and the package of MiniLM."""
        return _versions("transformers", MINILM_PACKAGE) if backbone == "minilm" else []

    def batch_maker(self, prepared: Prepared, plan: Plan, body: Any, *, augment: bool = False) -> MakeBatches:
        """Batches of tokens."""
        texts, labels = prepared.manifest.column("text"), prepared.manifest.labels

        def batches(rows: RowNumbers, *, train: bool = False, **options: Any) -> Batches:
            return TextBatches(body, texts, rows, labels, shuffle=train, **options)

        return batches

    def new_cases(self, plan: Plan, inputs: Path, backbone: Any, *, device: str, skip_bad: bool) -> NewCases:
        """The lines of a .txt file, whose numbers are the ids, or the column "text" of a table."""
        _need_file(inputs, "texts")
        if inputs.suffix.lower() == ".txt":
            lines = enumerate(inputs.read_text(encoding="utf-8").splitlines(), 1)
            numbered = {str(number): line for number, line in lines if line.strip()}
            ids, texts = list(numbered), list(numbered.values())
        else:
            columns = _columns(inputs)
            if "text" not in columns:
                raise InputError(f"{inputs}: has no column 'text'.")
            texts = [str(text) for text in columns["text"]]
            ids = _ids(columns, len(texts))
        if not texts:
            raise InputError(f"{inputs}: there are no texts in it.")
        encoder: TextEncoder = backbone.body if plan.frozen else backbone
        tokens = encoder.tokenize(texts)
        batches = (encoder.batch(tokens[i : i + BATCH]).to(device) for i in range(0, len(tokens), BATCH))
        return NewCases(ids, batches, [])


class TableModels(ModelKind):
    """Tables: a perceptron on standardised numbers and one-hot categories."""

    def backbone(self, plan: Plan, *, weights: str, download: bool, seed: int) -> Any:
        """The perceptron."""
        if plan.frozen:
            raise InputError("frozen: a table has no backbone that could be; leave it out.")
        return Mlp(TableEncoder.from_dict(plan.columns).width, hidden=plan.hidden)

    def learned(self, prepared: Prepared, train: RowNumbers, *, size: int, frozen: bool) -> dict[str, Any]:
        """What the encoder has learned about the columns."""
        columns = table_features(prepared.manifest)
        table = {name: [values[row] for row in train.tolist()] for name, values in columns.items()}
        return {"columns": TableEncoder.fit(table).to_dict()}

    def batch_maker(self, prepared: Prepared, plan: Plan, body: Any, *, augment: bool = False) -> MakeBatches:
        """Batches of the encoded table."""
        matrix = TableEncoder.from_dict(plan.columns).encode(table_features(prepared.manifest))
        return matrix_batches(torch.from_numpy(matrix), prepared.manifest.labels)

    def new_cases(self, plan: Plan, inputs: Path, backbone: Any, *, device: str, skip_bad: bool) -> NewCases:
        """The rows of a table."""
        _need_file(inputs, "a table")
        columns = _columns(inputs)
        encoder = TableEncoder.from_dict(plan.columns)
        matrix = torch.from_numpy(encoder.encode(columns))
        if len(matrix) == 0:
            raise InputError(f"{inputs}: has no rows.")
        batches = (matrix[i : i + BATCH].to(device) for i in range(0, len(matrix), BATCH))
        return NewCases(_ids(columns, len(matrix)), batches, encoder.unseen(columns), columns)


MODEL_KINDS: dict[str, ModelKind] = {IMAGES: ImageModels(), TEXTS: TextModels(), TABLE: TableModels()}


def model_kind(name: str) -> ModelKind:
    """What models of a kind of data do.

    Raises:
        UnknownNameError: if there is none of that name.

    Example:
        >>> model_kind("texts").default_backbone, model_kind("table").has_backbone
        ('bert-tiny', False)
    """
    if name not in MODEL_KINDS:
        raise UnknownNameError("kind of data", name, MODEL_KINDS)
    return MODEL_KINDS[name]


def _versions(*packages: str) -> list[str]:
    """The packages with their versions, or none if one of them is not installed."""
    try:
        return [f"{package} {version(package)}" for package in packages]
    except PackageNotFoundError:
        return []


def matrix_batches(matrix: Tensor, labels: IntArray) -> MakeBatches:
    """Batches of a matrix in memory: an encoded table, or the features of a frozen body."""

    def batches(rows: RowNumbers, *, train: bool = False, batch_size: int, **options: Any) -> Batches:
        if not train:  # small rows: many at a time are quicker, and the outputs are the same
            batch_size = max(batch_size, JUDGED_ROWS)
        return ArrayBatches(matrix, rows, labels, batch_size=batch_size, shuffle=train, **options)

    return batches


def table_features(manifest: Manifest) -> dict[str, list[Any]]:
    """The columns of a table that a model learns from, by name."""
    return {name: manifest.feature(name) for name in manifest.about.features}


def tree_columns(plan: Plan) -> TreeColumns:
    """The table of a plan as trees take it: where a category is missing there is a gap."""
    known = {column["name"]: column["categories"] for column in plan.columns}
    return TreeColumns(
        {name: None if names is None else [n for n in names if n != MISSING] for name, names in known.items()}
    )


def _need_file(inputs: Path, what: str) -> None:
    if inputs.is_dir():
        raise InputError(f"{inputs}: is a folder; this model takes {what}.")


def _columns(inputs: Path) -> dict[str, list[Any]]:
    table = read_table(inputs)
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _ids(columns: dict[str, list[Any]], rows: int) -> list[str]:
    named = columns.get("id")
    return [str(number) for number in range(1, rows + 1)] if named is None else [str(one) for one in named]
