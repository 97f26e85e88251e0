"""ELPV: electroluminescence images of solar cells with four levels of defect."""

from collections.abc import Iterator
from pathlib import Path

from orcu.data.base import DATASETS, IMAGES, Card, Dataset, Row, class_index, require_file

THIRDS = ("0", "1", "2", "3")  # defect probabilities in thirds


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
        obtain="Install the package elpv-dataset: pip install 'orcu[data]'.",
        layout="labels.csv and images/cell0001.png ..",
        package="elpv_dataset",
    )

    def root(self) -> Path:
        """Folder of the data in the package."""
        return Path(str(super().root())) / "data"

    def rows(self, root: Path) -> Iterator[Row]:
        """The rows of labels.csv: path, defect probability and type of cell, separated by spaces."""
        table = require_file(root / "labels.csv", self.card)
        for line in table.read_text(encoding="utf-8").splitlines():
            if line.strip():
                path, probability, cell = line.split()
                label = class_index(str(round(float(probability) * 3)), THIRDS, f"{table}: {path}")
                yield Row(Path(path).stem, label, path=path, extra={"cell": cell})
