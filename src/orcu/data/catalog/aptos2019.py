"""APTOS 2019: fundus photographs, five grades of diabetic retinopathy."""

import csv
from collections.abc import Iterator
from pathlib import Path

from orcu.data.base import DATASETS, IMAGES, Card, Dataset, Row, need_file, position
from orcu.errors import InputError

GRADES = ("no DR", "mild", "moderate", "severe", "proliferative")


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
        obtain="Register for the Kaggle competition 'aptos2019-blindness-detection', accept its rules, fetch "
        "train.csv and train_images.",
        layout="train.csv (id_code, diagnosis) and train_images/<id_code>.png or .jpg.",
        notes="123 groups of byte-identical originals, 30 of them with different labels; a smaller copy of the "
        "images may show fewer",
    )

    def rows(self, root: Path) -> Iterator[Row]:
        """The rows of train.csv, in its order."""
        table = need_file(root / "train.csv", self.card)
        with table.open(encoding="utf-8", newline="") as lines:
            for line in csv.DictReader(lines):
                if not {"id_code", "diagnosis"} <= line.keys():
                    raise InputError(f"{table}: expected the columns id_code and diagnosis.")
                name = line["id_code"]
                label = position(line["diagnosis"], ("0", "1", "2", "3", "4"), f"{table}: {name}")
                suffix = next((s for s in (".png", ".jpg") if (root / f"train_images/{name}{s}").exists()), ".png")
                yield Row(name, label, path=f"train_images/{name}{suffix}")
