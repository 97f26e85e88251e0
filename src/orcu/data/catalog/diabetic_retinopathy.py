"""Diabetic Retinopathy: Kaggle 2015 fundus photographs, five grades, balanced as in the paper."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from orcu.data.base import DATASETS, IMAGES, Card, Dataset, Row, need_file, position
from orcu.data.catalog.aptos2019 import GRADES, Aptos2019
from orcu.data.folds import FixedTest, Protocol, Rotation
from orcu.data.images import without_dark_border
from orcu.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

LARGEST = 1024  # pixels of the longer side, as the paper prepares them


@DATASETS.register("diabetic_retinopathy")
class DiabeticRetinopathy(Dataset):
    """The paper's DR: 88,702 labelled images, of which a protocol draws 1,914 a grade.

    Args:
        aptos: a folder with APTOS 2019 as a second source. The paper names it too, but its 88,702 are
            already reached by Kaggle 2015 alone.
    """

    card = Card(
        title="Diabetic Retinopathy Detection (Kaggle 2015, EyePACS)",
        kind=IMAGES,
        classes=GRADES,
        counts=(65343, 6205, 13153, 2087, 1914),
        licence="Kaggle competition rules: research, after registration",
        citation="EyePACS and Kaggle: Diabetic Retinopathy Detection, 2015",
        obtain="Register for the Kaggle competition 'diabetic-retinopathy-detection', accept its rules, fetch train "
        "and test images, trainLabels.csv, and the released test labels retinopathy_solution.csv.",
        layout="trainLabels.csv, retinopathy_solution.csv, train/10_left.jpeg .., test/1_left.jpeg ..",
        notes="the paper's 9,570 are 1,914 of each grade, drawn by the protocols; 'paper' divides by image, so "
        "that the two eyes of a patient may stand on two sides, 'subject_exclusive' by patient",
        paper=True,
    )
    protocols: ClassVar[Mapping[str, Protocol]] = {
        "paper": FixedTest(parts=5, test=0.2, balanced=True),
        "subject_exclusive": FixedTest(parts=5, test=0.2, balanced=True, by_subject=True),
        "rotating": Rotation(parts=5, balanced=True, validation=0.2),
    }

    def __init__(self, *, aptos: str | None = None) -> None:
        self.aptos = aptos

    @property
    def counts(self) -> tuple[int, ...] | None:
        """Of Kaggle 2015; with a second source nothing is expected."""
        return self.card.counts if self.aptos is None else None

    def rows(self, root: Path) -> Iterator[Row]:
        """The rows of both label files, then those of the second source."""
        for file, folder in (("trainLabels.csv", "train"), ("retinopathy_solution.csv", "test")):
            table = need_file(root / file, self.card)
            with table.open(encoding="utf-8", newline="") as lines:
                for line in csv.DictReader(lines):
                    if not {"image", "level"} <= line.keys():
                        raise InputError(f"{table}: expected the columns image and level.")
                    image = line["image"]
                    patient = image.rsplit("_", 1)[0]
                    yield Row(
                        image,
                        position(line["level"], _LEVELS, f"{table}: {image}"),
                        path=_existing(root, f"{folder}/{image}"),
                        subject=patient,
                        split=folder,
                    )
        if self.aptos is not None:
            for row in Aptos2019().rows(Path(self.aptos)):
                path = str(Path(self.aptos).resolve() / str(row.path))
                yield Row(f"aptos/{row.id}", row.label, path=path, subject=f"aptos/{row.id}", split="aptos")

    @staticmethod
    def preprocess(image: "Image") -> "Image":
        """Cut to the retina, at most 1024 pixels a side."""
        return without_dark_border(image, at_most=LARGEST)


_LEVELS = ("0", "1", "2", "3", "4")


def _existing(root: Path, stem: str) -> str:
    endings = (".jpeg", ".jpg", ".png")
    return stem + next((end for end in endings if (root / (stem + end)).exists()), endings[0])
