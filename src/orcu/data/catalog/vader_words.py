"""VADER's lexicon: words, slang and emoticons, each rated by ten people, -4 to 4."""

import importlib.util
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median_low

from orcu.data.base import DATASETS, TEXTS, Card, Dataset, Row, need_file, need_package
from orcu.data.catalog.vader import lines

OUTER = 3  # only three words have a median of 4


@DATASETS.register("vader_words")
class VaderWords(Dataset):
    """Words whose label is the median rating (the lower of two); ``ratings`` holds all of them."""

    card = Card(
        title="VADER's lexicon: words and emoticons rated by ten people",
        kind=TEXTS,
        classes=("-3 or less", "-2", "-1", "0", "1", "2", "3 or more"),
        counts=(676, 1824, 1373, 860, 1147, 1359, 281),
        licence="MIT",
        citation="Hutto, Gilbert: VADER, ICWSM 2014",
        obtain="pip install 'orcu[data]' brings it (vaderSentiment).",
        layout="vader_lexicon.txt: word, mean, deviation and ratings, tab-separated.",
        package="vaderSentiment",
        notes="medians of -4 and 4 are joined with -3 and 3; forms of one word (foolish, foolishly) may stand on "
        "two sides of a split",
    )

    def root(self) -> Path:
        """In the package."""
        need_package("vaderSentiment")
        spec = importlib.util.find_spec("vaderSentiment")
        return Path(str(spec.origin)).parent  # type: ignore[union-attr]

    def rows(self, root: Path) -> Iterator[Row]:
        """The words in their order; the second line of a word gets a number."""
        times: Counter[str] = Counter()
        for _, (word, _, _, ratings) in lines(need_file(root / "vader_lexicon.txt", self.card), 4):
            votes = json.loads(ratings)
            times[word] += 1
            name = word if times[word] == 1 else f"{word}#{times[word]}"
            median = min(max(int(median_low(votes)), -OUTER), OUTER)
            yield Row(name, median + OUTER, text=word, more={"ratings": votes})
