"""VADER's ground truth: short texts with every rater's rating, -4 to 4."""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median_low

from orcu.data.base import DATASETS, TEXTS, Card, Dataset, Row, need_file
from orcu.errors import InputError, UnknownNameError

SOURCES = {
    "tweets": "tweets",
    "movies": "movieReviewSnippets",
    "amazon": "amazonReviewSnippets",
    "nyt": "nytEditorialSnippets",
}
RATINGS = tuple(str(rating) for rating in range(-4, 5))


@DATASETS.register("vader")
class Vader(Dataset):
    """Texts whose label is the median rating (the lower of two); ``ratings`` holds all of them.

    Args:
        source: "tweets", "movies", "amazon" or "nyt".
    """

    card = Card(
        title="VADER ground truth: rated tweets, film, product and newspaper snippets",
        kind=TEXTS,
        classes=RATINGS,
        counts=None,
        licence="MIT",
        citation="Hutto, Gilbert: VADER, ICWSM 2014",
        obtain="Copy the *_GroundTruth.txt and *_anonDataRatings.txt of the vaderSentiment repository.",
        layout="<source>_GroundTruth.txt (id, mean, text) and <source>_anonDataRatings.txt (id, mean, deviation, "
        "ratings), tab-separated.",
        notes="the film snippets overlap SST-5: never train on one and test on the other; for 195 tweets the "
        "published mean is not that of the published ratings, which we use",
    )

    def __init__(self, *, source: str = "tweets") -> None:
        if source not in SOURCES:
            raise UnknownNameError("source of vader", source, SOURCES)
        self.source = source

    def rows(self, root: Path) -> Iterator[Row]:
        """The texts in their order, joined with their ratings by id."""
        stem = SOURCES[self.source]
        ratings = {}
        for file, cells in lines(need_file(root / f"{stem}_anonDataRatings.txt", self.card), 4):
            votes = json.loads(cells[3])
            if not all(-4 <= rating <= 4 for rating in votes):
                raise InputError(f"{file}: {cells[0]} has a rating outside -4..4.")
            ratings[cells[0]] = votes
        for file, cells in lines(need_file(root / f"{stem}_GroundTruth.txt", self.card), 3):
            if cells[0] not in ratings:
                raise InputError(f"{file}: {cells[0]} has no ratings.")
            votes = ratings[cells[0]]
            label = int(median_low(votes)) + 4
            # A snippet's id starts with that of the text it was cut from.
            document = cells[0].split("_")[0] if "_" in cells[0] else None
            yield Row(cells[0], label, text=cells[2], subject=document, more={"ratings": votes})


def lines(file: Path, columns: int) -> Iterator[tuple[Path, list[str]]]:
    """The cells of each line of a tab-separated file.

    Raises:
        InputError: if a line has another number of columns.
    """
    with file.open(encoding="utf-8-sig", errors="replace") as text:
        for number, line in enumerate(text, 1):
            cells = line.rstrip("\n").split("\t", columns - 1)
            if len(cells) != columns:
                raise InputError(f"{file}: line {number} has {len(cells)} columns, expected {columns}.")
            yield file, cells
