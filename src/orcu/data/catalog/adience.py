"""Adience: face images in eight age groups, with the five folds of its authors."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from orcu.data.base import DATASETS, IMAGES, Card, Dataset, Row, check_choice, number_repeats, read_csv, require_file
from orcu.data.folds import Protocol, RotatingKFold

AGES = ("(0, 2)", "(4, 6)", "(8, 12)", "(15, 20)", "(25, 32)", "(38, 43)", "(48, 53)", "(60, 100)")
PREFIXES = {"faces": "coarse_tilt_aligned_face", "aligned": "landmark_aligned_face"}


@DATASETS.register("adience")
class Adience(Dataset):
    """Adience as in the paper: the eight age groups; rows with another age are left out.

    Args:
        images: archive of the publisher, "faces" or "aligned".
    """

    card = Card(
        title="Adience: unfiltered faces for age and gender classification",
        kind=IMAGES,
        classes=AGES,
        counts=(2518, 2163, 2132, 1655, 4950, 2300, 830, 875),
        licence="research only, after registration",
        citation="Eidinger, Enbar, Hassner: Age and Gender Estimation of Unfiltered Faces, IEEE TIFS 2014",
        obtain="Register on the Adience page of the Open University of Israel (Face Image Project), then download "
        "the fold files and faces.tar.gz or aligned.tar.gz.",
        layout="fold_0_data.txt to fold_4_data.txt, and faces/<user>/coarse_tilt_aligned_face.<id>.<image> or "
        "aligned/<user>/landmark_aligned_face.<id>.<image>.",
        notes="the fold files contain 17,424 rows of the eight groups, the paper has 17,423 (one fewer in (0, 2)); "
        "repeated rows are kept under numbered ids. Validation is a fifth of the people in the four training folds: "
        "our choice, since the paper does not say",
        paper=True,
    )
    protocols: ClassVar[Mapping[str, Protocol]] = {
        # Paper: Appendix II-A trains on four folds, about 80 %; validation rows are taken from them.
        "paper": RotatingKFold(n_splits=5, predefined=True, by_cluster=True, validation_size=0.2),
        "fold_for_validation": RotatingKFold(n_splits=5, predefined=True),
    }

    def __init__(self, *, images: str = "faces") -> None:
        self.images = check_choice(images, PREFIXES, "images of Adience")

    def rows(self, root: Path) -> Iterator[Row]:
        """The rows of the five fold files, in their order."""
        counts: Counter[str] = Counter()
        columns = ("user_id", "face_id", "original_image", "age")
        for fold in range(5):
            file = require_file(root / f"fold_{fold}_data.txt", self.card)
            for _, cells in read_csv(file, columns, delimiter="\t"):
                user, face, image, age = (cells[name] for name in columns)
                if age in AGES:
                    yield Row(
                        number_repeats(f"{user}/{face}.{image}", counts),
                        AGES.index(age),
                        path=f"{self.images}/{user}/{PREFIXES[self.images]}.{face}.{image}",
                        cluster=user,
                        split=str(fold),
                    )
