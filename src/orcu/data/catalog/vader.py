"""VADER ground truth: short texts with the ratings of all raters, from -4 to 4."""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median_low

from orcu.data.base import DATASETS, TEXTS, Card, Dataset, Row, check_choice, require_file
from orcu.errors import InputError

SOURCES = {
    "tweets": "tweets",
    "movies": "movieReviewSnippets",
    "amazon": "amazonReviewSnippets",
    "nyt": "nytEditorialSnippets",
}


@DATASETS.register("vader")
class Vader(Dataset):
    """Texts labelled with their median rating (the lower one of two); the column ``ratings`` has all ratings.

    Args:
        source: "tweets", "movies", "amazon" or "nyt".
    """

    card = Card(
        title="VADER ground truth: rated tweets, film, product and newspaper snippets",
        kind=TEXTS,
        classes=tuple(str(rating) for rating in range(-4, 5)),
        counts=None,
        licence="MIT",
        citation="Hutto, Gilbert: VADER, ICWSM 2014",
        obtain="Copy the *_GroundTruth.txt and *_anonDataRatings.txt of the vaderSentiment repository.",
        layout="<source>_GroundTruth.txt (id, mean, text) and <source>_anonDataRatings.txt (id, mean, deviation, "
        "ratings), tab-separated.",
        notes="the film snippets overlap SST-5: do not train on one and test on the other; for 195 tweets the "
        "published mean differs from the mean of the published ratings, which are used here",
    )

    def __init__(self, *, source: str = "tweets") -> None:
        self.source = check_choice(source, SOURCES, "source of vader")

    def rating_code(self, rating: int) -> int:
        """Class index of a rating from -4 to 4."""
        return rating + 4

    def rows(self, root: Path) -> Iterator[Row]:
        """The texts in their order, joined with their ratings by id."""
        stem = SOURCES[self.source]
        ratings = {}
        for where, cells in read_lines(require_file(root / f"{stem}_anonDataRatings.txt", self.card), 4):
            ratings[cells[0]] = json.loads(cells[3])
            if not all(-4 <= rating <= 4 for rating in ratings[cells[0]]):
                raise InputError(f"{where}: {cells[0]} has a rating outside -4..4.")
        for where, cells in read_lines(require_file(root / f"{stem}_GroundTruth.txt", self.card), 3):
            if cells[0] not in ratings:
                raise InputError(f"{where}: {cells[0]} has no ratings.")
            votes = ratings[cells[0]]
            # The id of a snippet starts with the id of the text it is part of.
            document = cells[0].split("_")[0] if "_" in cells[0] else None
            yield Row(cells[0], int(median_low(votes)) + 4, text=cells[2], cluster=document, extra={"ratings": votes})


def read_lines(file: Path, columns: int) -> Iterator[tuple[str, list[str]]]:
    """Location and cells of each line of a tab-separated file with a fixed number of columns and no header."""
    with file.open(encoding="utf-8-sig", errors="replace") as text:
        for number, line in enumerate(text, 1):
            cells = line.rstrip("\n").split("\t", columns - 1)
            if len(cells) != columns:
                raise InputError(f"{file}: line {number} has {len(cells)} columns, expected {columns}.")
            yield f"{file}: line {number}", cells
