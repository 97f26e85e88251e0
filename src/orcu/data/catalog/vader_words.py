"""VADER lexicon: words, slang and emoticons, each rated by ten people from -4 to 4."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median_low

from orcu.data.base import DATASETS, TEXTS, Card, Dataset, Row, number_repeats, require_file
from orcu.data.catalog.vader import read_lines

OUTER = 3  # largest level: only three words have a median of 4


@DATASETS.register("vader_words")
class VaderWords(Dataset):
    """Words labelled with their median rating (the lower one of two); the column ``ratings`` has all ratings."""

    card = Card(
        title="VADER lexicon: words and emoticons rated by ten people",
        kind=TEXTS,
        classes=("-3 or less", "-2", "-1", "0", "1", "2", "3 or more"),
        counts=(676, 1824, 1373, 860, 1147, 1359, 281),
        licence="MIT",
        citation="Hutto, Gilbert: VADER, ICWSM 2014",
        obtain="Install the package vaderSentiment: pip install 'orcu[data]'.",
        layout="vader_lexicon.txt: word, mean, deviation and ratings, tab-separated.",
        package="vaderSentiment",
        notes="medians of -4 and 4 are merged with -3 and 3; forms of one word (foolish, foolishly) may be in "
        "different splits",
    )

    def rating_code(self, rating: int) -> int:
        """Class index of a rating; -4 and 4 are merged with -3 and 3."""
        return min(max(rating, -OUTER), OUTER) + OUTER

    def rows(self, root: Path) -> Iterator[Row]:
        """The words in their order; a repeated word gets a numbered id."""
        counts: Counter[str] = Counter()
        for _, (word, _, _, ratings) in read_lines(require_file(root / "vader_lexicon.txt", self.card), 4):
            votes = json.loads(ratings)
            median = min(max(int(median_low(votes)), -OUTER), OUTER)
            yield Row(number_repeats(word, counts), median + OUTER, text=word, extra={"ratings": votes})
