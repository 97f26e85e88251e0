"""Image Aesthetics (beauty-icwsm15): Flickr photographs rated for beauty, five levels."""

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import ClassVar

from orcu.data.base import DATASETS, IMAGES, Card, Dataset, Row, need_file
from orcu.data.folds import FixedTest, Protocol, Rotation
from orcu.errors import InputError, UnknownNameError

TSV = "beauty-icwsm15-dataset.tsv"
COUNTS = (36, 654, 8157, 4211, 306)
HALVES: dict[str, Callable[[float], int]] = {  # for a median between two levels
    "down": math.floor,
    "up": math.ceil,
    "even": round,
    "middle": lambda value: math.floor(value) if value > 3 else math.ceil(value),
}


@DATASETS.register("image_aesthetics")
class ImageAesthetics(Dataset):
    """The paper's Image Aesthetics: label = median vote - 1.

    Args:
        halves: what to do with medians such as 2.5: "down", "up", "even", "middle" (towards level 3), or
            "nearest", the one whose counts come nearest to the paper's.
    """

    card = Card(
        title="Image Aesthetics (beauty-icwsm15)",
        kind=IMAGES,
        classes=("unacceptable", "flawed", "ordinary", "professional", "exceptional"),
        counts=COUNTS,
        licence="ratings free for research; the photographs under their owners' Flickr licences",
        citation="Schifanella, Redi, Aiello: An Image Is Worth More than a Thousand Favorites, ICWSM 2015",
        obtain="The ratings are on the authors' page of the ICWSM 2015 paper (beauty-icwsm15-dataset.tsv); "
        "the photographs have to be fetched from Flickr by their ids, as far as they are still there.",
        layout=f"{TSV} and images/<flickr_photo_id>.jpg (or .png, or beside the table).",
        notes="the paper does not say how medians between two levels are rounded; see the option halves",
        paper=True,
    )
    protocols: ClassVar[Mapping[str, Protocol]] = {
        "paper": FixedTest(parts=5, test=0.2),
        "rotating": Rotation(parts=5, validation=0.2),
    }

    def __init__(self, *, halves: str = "nearest") -> None:
        if halves not in {*HALVES, "nearest"}:
            raise UnknownNameError("rule for halves", halves, [*HALVES, "nearest"])
        self.halves = halves

    def rows(self, root: Path) -> Iterator[Row]:
        """The rows of the table, in its order."""
        table = need_file(root / TSV, self.card)
        votes = list(_votes(table))
        rule = HALVES[self.halves if self.halves != "nearest" else nearest_rule([m for _, m, _ in votes])]
        folder = "images/" if (root / "images").is_dir() else ""
        for photo, middle, category in votes:
            suffix = next((s for s in (".jpg", ".png", ".jpeg") if (root / f"{folder}{photo}{s}").exists()), ".jpg")
            yield Row(photo, rule(middle) - 1, path=f"{folder}{photo}{suffix}", more={"category": category})


def nearest_rule(medians: list[float]) -> str:
    """The rule for halves whose counts come nearest to the paper's, in squares of shares.

    Example:
        >>> nearest_rule([2.5] * 98 + [3.0] * 2)
        'up'
    """

    def miss(rule: str) -> float:
        counts = Counter(HALVES[rule](value) for value in medians)
        shares = [counts[level] / len(medians) for level in range(1, 6)]
        return sum((s - c / sum(COUNTS)) ** 2 for s, c in zip(shares, COUNTS, strict=True))

    return min(HALVES, key=miss)


def _votes(table: Path) -> Iterator[tuple[str, float, str]]:
    with table.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file, delimiter="\t"):
            missing = {"#flickr_photo_id", "category", "beauty_scores"} - line.keys()
            if missing:
                raise InputError(f"{table}: has no column {', '.join(sorted(missing))}.")
            photo = line["#flickr_photo_id"]
            try:
                votes = [int(vote) for vote in line["beauty_scores"].split(",")]
            except ValueError:
                raise InputError(f"{table}: {photo} has votes {line['beauty_scores']!r}, expected 1..5.") from None
            if not all(1 <= vote <= 5 for vote in votes):
                raise InputError(f"{table}: {photo} has a vote outside 1..5: {line['beauty_scores']!r}.")
            yield photo, float(median(votes)), line["category"]
