"""Adience: faces in eight age groups, with five folds of its authors'."""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from orcu.data.base import DATASETS, IMAGES, Card, Dataset, Row, need_file
from orcu.data.folds import Protocol, Rotation
from orcu.errors import UnknownNameError

AGES = ("(0, 2)", "(4, 6)", "(8, 12)", "(15, 20)", "(25, 32)", "(38, 43)", "(48, 53)", "(60, 100)")
PREFIXES = {"faces": "coarse_tilt_aligned_face", "aligned": "landmark_aligned_face"}


@DATASETS.register("adience")
class Adience(Dataset):
    """The paper's Adience: the eight age groups, every other age string left out.

    Args:
        images: "faces" or "aligned", the publisher's two archives.
    """

    card = Card(
        title="Adience: unfiltered faces for age and gender classification",
        kind=IMAGES,
        classes=AGES,
        counts=(2518, 2163, 2132, 1655, 4950, 2300, 830, 875),
        licence="research only, after registration",
        citation="Eidinger, Enbar, Hassner: Age and Gender Estimation of Unfiltered Faces, IEEE TIFS 2014",
        obtain="Register on the Adience page of the Open University of Israel (Face Image Project), then fetch "
        "the fold files and faces.tar.gz or aligned.tar.gz.",
        layout="fold_0_data.txt to fold_4_data.txt, and faces/<user>/coarse_tilt_aligned_face.<id>.<image> or "
        "aligned/<user>/landmark_aligned_face.<id>.<image>.",
        notes="the fold files hold 17,424 rows of the eight groups, the paper has 17,423: one more of (0, 2); "
        "rows that a file repeats are kept, with running ids. Validation is a fifth of the "
        "subjects of the four training folds: our choice, the paper does not say",
        paper=True,
    )
    protocols: ClassVar[Mapping[str, Protocol]] = {
        # Paper: Appendix II-A has four folds for training, about 80 %; validation is cut from them.
        "paper": Rotation(parts=5, predefined=True, by_subject=True, validation=0.2),
        "fold_for_validation": Rotation(parts=5, predefined=True),
    }

    def __init__(self, *, images: str = "faces") -> None:
        if images not in PREFIXES:
            raise UnknownNameError("images of Adience", images, PREFIXES)
        self.images = images

    def rows(self, root: Path) -> Iterator[Row]:
        """The rows of the five fold files, in their order."""
        times: Counter[str] = Counter()
        for fold in range(5):
            file = need_file(root / f"fold_{fold}_data.txt", self.card)
            with file.open(encoding="utf-8", newline="") as lines:
                for line in csv.DictReader(lines, delimiter="\t"):
                    if line["age"] not in AGES:
                        continue
                    user, face, image = line["user_id"], line["face_id"], line["original_image"]
                    name = f"{user}/{face}.{image}"
                    times[name] += 1
                    yield Row(
                        name if times[name] == 1 else f"{name}#{times[name]}",
                        AGES.index(line["age"]),
                        path=f"{self.images}/{user}/{PREFIXES[self.images]}.{face}.{image}",
                        subject=user,
                        split=str(fold),
                    )
