"""LIMUC: endoscopic images of ulcerative colitis with four Mayo scores."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from orcu.data.base import DATASETS, IMAGES, Card, Dataset, Row, require_file
from orcu.data.download import Download
from orcu.data.folds import FixedTestKFold, ListedFolds, Protocol
from orcu.data.images import SUFFIXES
from orcu.errors import InputError

SCORES = ("Mayo 0", "Mayo 1", "Mayo 2", "Mayo 3")
PARTS = {"train_and_validation_sets": "train", "test_set": "test"}
PATIENT = re.compile(r"UC_patient_(\d+)_\d+")
RECORD = "https://zenodo.org/records/5827695/files"


@DATASETS.register("limuc")
class Limuc(Dataset):
    """LIMUC as in the paper: the publisher's test set, and ten patient-exclusive folds of the other images.

    Args:
        lists: folder of the authors' fold lists (fold_I/train.json, val.json) for the protocol "authors".
    """

    card = Card(
        title="LIMUC: labeled images for ulcerative colitis",
        kind=IMAGES,
        classes=SCORES,
        counts=(6105, 3052, 1254, 865),
        licence="CC BY 4.0",
        citation="Polat et al.: Labeled Images for Ulcerative Colitis (LIMUC) dataset, Zenodo 2022",
        obtain="Download train_and_validation_sets.zip and test_set.zip from Zenodo record 5827695, or use --download.",
        layout="train_and_validation_sets/Mayo 0 .. Mayo 3/UC_patient_<patient>_<n>.bmp and test_set/ likewise.",
        downloads=tuple(Download(f"{RECORD}/{part}.zip", f"{part}.zip", unpack=True) for part in PARTS),
        paper=True,
    )
    protocols: ClassVar[Mapping[str, Protocol]] = {"paper": FixedTestKFold(n_splits=10, by_cluster=True)}

    def __init__(self, *, lists: str | None = None) -> None:
        if lists is not None:
            authors = ListedFolds(n_splits=10, folder=Path(lists))
            self.protocols = {**self.protocols, "authors": authors}  # type: ignore[misc]

    def rows(self, root: Path) -> Iterator[Row]:
        """The images of both parts, sorted by score and name."""
        for part, split in PARTS.items():
            for label, score in enumerate(SCORES):
                for file in sorted(require_file(root / part / score, self.card).iterdir()):
                    if file.suffix.lower() not in SUFFIXES:
                        continue
                    patient = PATIENT.match(file.stem)
                    if patient is None:
                        raise InputError(f"{file}: no patient in the name; expected UC_patient_<patient>_<n>.")
                    path = f"{part}/{score}/{file.name}"
                    yield Row(path, label, path=path, cluster=patient[1], split=split)
