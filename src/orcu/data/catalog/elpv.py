"""ELPV: electroluminescence images of solar cells, four levels of defect."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from orcu.data.base import DATASETS, IMAGES, Card, Dataset, Row, need_file, need_package, position

LEVELS = ("0.0", "0.3333333333333333", "0.6666666666666666", "1.0")


@DATASETS.register("elpv")
class Elpv(Dataset):
    """The cells of the package elpv-dataset; the label is the probability of a defect."""

    card = Card(
        title="ELPV: defective photovoltaic cells",
        kind=IMAGES,
        classes=("functional", "possibly defective", "likely defective", "defective"),
        counts=(1508, 295, 106, 715),
        licence="CC BY-NC-SA 4.0",
        citation="Buerhop-Lutz et al.: A Benchmark for Visual Identification of Defective Solar Cells, 2018",
        obtain="pip install 'orcu[data]' brings it (elpv-dataset).",
        layout="labels.csv and images/cell0001.png ..",
        package="elpv_dataset",
    )

    def root(self) -> Path:
        """In the package."""
        need_package("elpv_dataset")
        spec = importlib.util.find_spec("elpv_dataset")
        return Path(str(spec.origin)).parent / "data"  # type: ignore[union-attr]

    def rows(self, root: Path) -> Iterator[Row]:
        """The rows of labels.csv: path, probability and kind of cell, between blanks."""
        table = need_file(root / "labels.csv", self.card)
        for line in table.read_text(encoding="utf-8").splitlines():
            if line.strip():
                path, probability, kind = line.split()
                label = position(str(_level(probability)), LEVELS, f"{table}: {path}")
                yield Row(Path(path).stem, label, path=path, more={"cell": kind})


def _level(text: str) -> float:
    """The third that a rounded number stands for."""
    thirds = round(float(text) * 3)
    return thirds / 3
