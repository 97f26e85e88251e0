"""SST-5: sentences of film reviews with five levels of sentiment."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from orcu.data.base import DATASETS, TEXTS, Card, Dataset, Row, class_index, read_csv, require_file
from orcu.data.download import Download
from orcu.data.folds import HoldoutSplit, Protocol
from orcu.errors import InputError

SPLITS = {"train": "train", "dev": "validation", "test": "test"}
LEVELS = ("0", "1", "2", "3", "4")
LEAF = re.compile(r"\(\d ([^()]+)\)")
BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
ARCHIVE = "trainDevTestTrees_PTB.zip"


@DATASETS.register("sst5")
class Sst5(Dataset):
    """SST-5 as in the paper: whole sentences, from Penn-style trees or tab-separated files."""

    card = Card(
        title="Stanford Sentiment Treebank, five levels, sentences",
        kind=TEXTS,
        classes=("strongly negative", "negative", "neutral", "positive", "strongly positive"),
        counts=(1510, 3140, 2242, 3111, 1852),
        licence="research, with citation",
        citation="Socher et al.: Recursive Deep Models for Semantic Compositionality, EMNLP 2013",
        obtain=f"Download {ARCHIVE} from the Stanford sentiment page, or use --download.",
        layout="train.txt, dev.txt, test.txt with one tree per line (also in trees/), or train.tsv, dev.tsv, test.tsv "
        "with the columns label and text.",
        downloads=(Download(f"https://nlp.stanford.edu/sentiment/{ARCHIVE}", ARCHIVE, unpack=True),),
        paper=True,
    )
    protocols: ClassVar[Mapping[str, Protocol]] = {"paper": HoldoutSplit(sizes=(7, 1, 2)), "official": HoldoutSplit()}

    def rows(self, root: Path) -> Iterator[Row]:
        """Train, dev and test, in the order of their files."""
        for part, split in SPLITS.items():
            candidates = (root / f"{part}.tsv", root / f"{part}.txt", root / "trees" / f"{part}.txt")
            file = require_file(next((path for path in candidates if path.exists()), candidates[1]), self.card)
            read = _read_table if file.suffix == ".tsv" else _read_trees
            for number, (where, label, text) in enumerate(read(file), 1):
                yield Row(f"{part}/{number}", class_index(label, LEVELS, where), text=text, split=split)


def sentence(tree: str) -> str:
    """The words of a Penn-style tree, with escaped brackets replaced by brackets.

    Example:
        >>> sentence("(3 (2 It) (4 (2 's) (4 lovely)))")
        "It 's lovely"
    """
    return " ".join(BRACKETS.get(word, word) for word in LEAF.findall(tree))


def _read_trees(file: Path) -> Iterator[tuple[str, str, str]]:
    """Location, label and sentence of each tree."""
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        text = sentence(line)
        if not re.match(r"\(\d ", line) or not text or line.count("(") != line.count(")"):
            raise InputError(f"{file}: line {number}: expected a tree such as (3 (2 It) (4 works)).")
        yield f"{file}: line {number}", line[1], text


def _read_table(file: Path) -> Iterator[tuple[str, str, str]]:
    """Location, label and text of each line."""
    for where, cells in read_csv(file, ("label", "text"), delimiter="\t"):
        yield where, cells["label"], cells["text"]
