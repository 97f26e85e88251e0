"""Diabetic Retinopathy: fundus photographs of Kaggle 2015 with five grades, balanced as in the paper."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from orcu.data.base import DATASETS, IMAGES, Card, Dataset, Row, class_index, find_image, read_csv, require_file
from orcu.data.catalog.aptos2019 import CODES, GRADES, Aptos2019
from orcu.data.folds import FixedTestKFold, Protocol, RotatingKFold
from orcu.data.images import crop_dark_border

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_SIZE = 1024  # longer side in pixels. Paper: Appendix II-A


@DATASETS.register("diabetic_retinopathy")
class DiabeticRetinopathy(Dataset):
    """Diabetic Retinopathy as in the paper: 88,702 labelled images, of which the protocols draw 1,914 of each grade.

    Args:
        aptos: folder of APTOS 2019, as a second source. The paper names it too, but Kaggle 2015 alone already has
            the paper's 88,702 images.
    """

    card = Card(
        title="Diabetic Retinopathy Detection (Kaggle 2015, EyePACS)",
        kind=IMAGES,
        classes=GRADES,
        counts=(65343, 6205, 13153, 2087, 1914),
        licence="Kaggle competition rules: research, after registration",
        citation="EyePACS and Kaggle: Diabetic Retinopathy Detection, 2015",
        obtain="Register for the Kaggle competition 'diabetic-retinopathy-detection', accept its rules, download train "
        "and test images, trainLabels.csv, and the released test labels retinopathy_solution.csv.",
        layout="trainLabels.csv, retinopathy_solution.csv, train/10_left.jpeg .., test/1_left.jpeg ..",
        notes="the paper's 9,570 images are 1,914 of each grade, drawn by the protocols; 'paper' splits by image, so "
        "the two eyes of a patient may be in different splits; 'subject_exclusive' splits by patient",
        paper=True,
    )
    protocols: ClassVar[Mapping[str, Protocol]] = {
        "paper": FixedTestKFold(n_splits=5, test_size=0.2, balanced=True),
        "subject_exclusive": FixedTestKFold(n_splits=5, test_size=0.2, balanced=True, by_cluster=True),
        "rotating": RotatingKFold(n_splits=5, balanced=True, validation_size=0.2),
    }

    def __init__(self, *, aptos: str | None = None) -> None:
        self.aptos = aptos

    @property
    def counts(self) -> tuple[int, ...] | None:
        """Counts of Kaggle 2015; ``None`` with a second source."""
        return self.card.counts if self.aptos is None else None

    def rows(self, root: Path) -> Iterator[Row]:
        """The rows of both label files, then those of the second source."""
        for file, folder in (("trainLabels.csv", "train"), ("retinopathy_solution.csv", "test")):
            for where, cells in read_csv(require_file(root / file, self.card), ("image", "level")):
                image = cells["image"]
                yield Row(
                    image,
                    class_index(cells["level"], CODES, where),
                    path=find_image(root, f"{folder}/{image}", (".jpeg", ".jpg", ".png")),
                    cluster=image.rsplit("_", 1)[0],
                    split=folder,
                )
        if self.aptos is not None:
            for row in Aptos2019().rows(Path(self.aptos)):
                path = str(Path(self.aptos).resolve() / str(row.path))
                yield Row(f"aptos/{row.id}", row.label, path=path, cluster=f"aptos/{row.id}", split="aptos")

    @staticmethod
    def preprocess(image: "Image") -> "Image":
        """Crop the image to the retina and shrink it to at most 1024 pixels a side."""
        return crop_dark_border(image, max_size=MAX_SIZE)
