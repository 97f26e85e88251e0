"""Image Aesthetics (beauty-icwsm15): Flickr photographs rated for beauty on five levels."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import ClassVar

from orcu.data.base import DATASETS, IMAGES, Card, Dataset, Row, check_choice, find_image, read_csv, require_file
from orcu.data.folds import FixedTestKFold, Protocol, RotatingKFold
from orcu.errors import InputError

TSV = "beauty-icwsm15-dataset.tsv"
COUNTS = (36, 654, 8157, 4211, 306)
ROUNDING: dict[str, Callable[[float], int]] = {  # rules for medians between two levels
    "down": math.floor,
    "up": math.ceil,
    "even": round,
    "middle": lambda value: math.floor(value) if value > 3 else math.ceil(value),
}


@DATASETS.register("image_aesthetics")
class ImageAesthetics(Dataset):
    """Image Aesthetics as in the paper: the label is the median vote minus 1.

    Args:
        halves: rounding of medians such as 2.5: "down", "up", "even", "middle" (towards level 3), or "nearest", the
            rule whose class counts are nearest to the paper's.
        ratings: whether the prepared data hold the votes of every image, for training on votes.
    """

    card = Card(
        title="Image Aesthetics (beauty-icwsm15)",
        kind=IMAGES,
        classes=("unacceptable", "flawed", "ordinary", "professional", "exceptional"),
        counts=COUNTS,
        licence="ratings free for research; the photographs under their owners' Flickr licences",
        citation="Schifanella, Redi, Aiello: An Image Is Worth More than a Thousand Favorites, ICWSM 2015",
        obtain="Download the ratings (beauty-icwsm15-dataset.tsv) from the authors' page of the ICWSM 2015 paper, and "
        "the photographs that still exist from Flickr by their ids.",
        layout=f"{TSV} and images/<flickr_photo_id>.jpg (or .png, or next to the table).",
        notes="the paper does not say how medians between two levels are rounded; see the option halves",
        paper=True,
    )
    protocols: ClassVar[Mapping[str, Protocol]] = {
        "paper": FixedTestKFold(n_splits=5, test_size=0.2),
        "rotating": RotatingKFold(n_splits=5, validation_size=0.2),
    }

    def __init__(self, *, halves: str = "nearest", ratings: bool | str = False) -> None:
        self.halves = check_choice(halves, [*ROUNDING, "nearest"], "rule for halves")
        self.ratings = str(ratings).lower() == "true"  # options of the command line are texts

    def rating_code(self, rating: int) -> int:
        """Class index of a vote from 1 to 5."""
        return rating - 1

    def rows(self, root: Path) -> Iterator[Row]:
        """The rows of the table, in their order."""
        lines = list(_read_votes(require_file(root / TSV, self.card)))
        medians = [float(median(votes)) for _, votes, _ in lines]
        rule = nearest_rule(medians) if self.halves == "nearest" else self.halves
        folder = "images/" if (root / "images").is_dir() else ""
        for (photo, votes, category), middle in zip(lines, medians, strict=True):
            path = find_image(root, f"{folder}{photo}", (".jpg", ".png", ".jpeg"))
            extra = {"category": category} | ({"ratings": votes} if self.ratings else {})
            yield Row(photo, ROUNDING[rule](middle) - 1, path=path, extra=extra)


def nearest_rule(medians: list[float]) -> str:
    """The rounding rule whose class shares have the smallest squared distance to the paper's.

    Example:
        >>> nearest_rule([2.5] * 98 + [3.0] * 2)
        'up'
    """

    def squared_distance(rule: str) -> float:
        counts = Counter(ROUNDING[rule](value) for value in medians)
        shares = [counts[level] / len(medians) for level in range(1, 6)]
        return sum((s - c / sum(COUNTS)) ** 2 for s, c in zip(shares, COUNTS, strict=True))

    return min(ROUNDING, key=squared_distance)


def _read_votes(table: Path) -> Iterator[tuple[str, list[int], str]]:
    """Photo id, votes and category of each line."""
    for where, cells in read_csv(table, ("#flickr_photo_id", "category", "beauty_scores"), delimiter="\t"):
        try:
            votes = [int(vote) for vote in cells["beauty_scores"].split(",")]
        except ValueError:
            votes = []
        if not votes or not all(1 <= vote <= 5 for vote in votes):
            raise InputError(
                f"{where}: expected votes from 1 to 5 separated by commas, got {cells['beauty_scores']!r}."
            )
        yield cells["#flickr_photo_id"], votes, cells["category"]
