"""APTOS 2019: fundus photographs with five grades of diabetic retinopathy."""

from collections.abc import Iterator
from pathlib import Path

from orcu.data.base import DATASETS, IMAGES, Card, Dataset, Row, class_index, find_image, read_csv, require_file

GRADES = ("no DR", "mild", "moderate", "severe", "proliferative")
CODES = ("0", "1", "2", "3", "4")  # the grades in the label files


@DATASETS.register("aptos2019")
class Aptos2019(Dataset):
    """The labelled images of the APTOS 2019 competition."""

    card = Card(
        title="APTOS 2019 Blindness Detection",
        kind=IMAGES,
        classes=GRADES,
        counts=(1805, 370, 999, 193, 295),
        licence="Kaggle competition rules: research, after registration",
        citation="Asia Pacific Tele-Ophthalmology Society: APTOS 2019 Blindness Detection, Kaggle 2019",
        obtain="Register for the Kaggle competition 'aptos2019-blindness-detection', accept its rules, download "
        "train.csv and train_images.",
        layout="train.csv (id_code, diagnosis) and train_images/<id_code>.png or .jpg.",
        notes="123 groups of byte-identical images, 30 of them with different labels; a resized copy of the data set "
        "may contain fewer",
    )

    def rows(self, root: Path) -> Iterator[Row]:
        """The rows of train.csv, in their order."""
        for where, cells in read_csv(require_file(root / "train.csv", self.card), ("id_code", "diagnosis")):
            name = cells["id_code"]
            path = find_image(root, f"train_images/{name}", (".png", ".jpg"))
            yield Row(name, class_index(cells["diagnosis"], CODES, where), path=path)
