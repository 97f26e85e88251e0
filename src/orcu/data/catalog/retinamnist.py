"""RetinaMNIST: small fundus photographs with five grades."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np

from orcu.data.base import DATASETS, IMAGES, Card, Dataset, Row, require_file
from orcu.data.download import Download
from orcu.data.folds import HoldoutSplit, Protocol

FILE = "retinamnist.npz"
SPLITS = {"train": "train", "val": "validation", "test": "test"}


@DATASETS.register("retinamnist")
class RetinaMnist(Dataset):
    """RetinaMNIST of MedMNIST v2: 28 x 28 pixels, with an official split."""

    card = Card(
        title="RetinaMNIST (MedMNIST v2)",
        kind=IMAGES,
        classes=("0", "1", "2", "3", "4"),
        counts=(714, 186, 326, 282, 92),
        licence="CC BY 4.0",
        citation="Yang et al.: MedMNIST v2, Scientific Data 2023; from DeepDRiD, Liu et al. 2022",
        obtain="Download retinamnist.npz from Zenodo record 10519652, or use --download.",
        layout="retinamnist.npz.",
        downloads=(
            Download(f"https://zenodo.org/records/10519652/files/{FILE}", FILE, md5="bd4c0672f1bba3e3a89f0e4e876791e4"),
        ),
    )
    protocols: ClassVar[Mapping[str, Protocol]] = {"official": HoldoutSplit(), **Dataset.protocols}

    def rows(self, root: Path) -> Iterator[Row]:
        """Train, validation and test, in the order of the file."""
        path = require_file(root / FILE, self.card)
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            labels = {part: archive[f"{part}_labels"].reshape(-1) for part in SPLITS}
        for part, split in SPLITS.items():
            for index, label in enumerate(labels[part].tolist()):
                yield Row(f"{part}/{index}", label, path=f"{FILE}#{part}_images/{index}", split=split)
