"""SST-5: sentences of film reviews, five levels of sentiment."""

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from orcu.data.base import DATASETS, TEXTS, Card, Dataset, Row, need_file, position
from orcu.data.download import Download
from orcu.data.folds import OneSplit, Protocol
from orcu.errors import InputError

SPLITS = {"train": "train", "dev": "validation", "test": "test"}
LEVELS = ("0", "1", "2", "3", "4")
LEAF = re.compile(r"\(\d ([^()]+)\)")
BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


@DATASETS.register("sst5")
class Sst5(Dataset):
    """The paper's SST-5: whole sentences, from Penn-style trees or tab-separated files."""

    card = Card(
        title="Stanford Sentiment Treebank, five levels, sentences",
        kind=TEXTS,
        classes=("strongly negative", "negative", "neutral", "positive", "strongly positive"),
        counts=(1510, 3140, 2242, 3111, 1852),
        licence="research, with citation",
        citation="Socher et al.: Recursive Deep Models for Semantic Compositionality, EMNLP 2013",
        obtain="Fetch trainDevTestTrees_PTB.zip from the Stanford sentiment page, or use --download.",
        layout="train.txt, dev.txt, test.txt with a tree a line (also in trees/), or train.tsv, dev.tsv, test.tsv "
        "with the columns label and text.",
        downloads=(
            Download(
                "https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip", "trainDevTestTrees_PTB.zip", unpack=True
            ),
        ),
        paper=True,
    )
    protocols: ClassVar[Mapping[str, Protocol]] = {"paper": OneSplit(shares=(7, 1, 2)), "official": OneSplit()}

    def rows(self, root: Path) -> Iterator[Row]:
        """Train, dev and test, in the order of their files."""
        for part, split in SPLITS.items():
            choices = (root / f"{part}.tsv", root / f"{part}.txt", root / "trees" / f"{part}.txt")
            file = next((one for one in choices if one.exists()), choices[1])
            need_file(file, self.card)
            read = _table if file.suffix == ".tsv" else _trees
            for number, (label, text) in enumerate(read(file), 1):
                where = f"{file}: line {number}"
                yield Row(f"{part}/{number}", position(label, LEVELS, where), text=text, split=split)


def sentence(tree: str) -> str:
    """The words of a Penn-style tree, with its brackets written as brackets.

    Example:
        >>> sentence("(3 (2 It) (4 (2 's) (4 lovely)))")
        "It 's lovely"
    """
    return " ".join(BRACKETS.get(word, word) for word in LEAF.findall(tree))


def _trees(file: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        text = sentence(line)
        if not re.match(r"\(\d ", line) or not text or line.count("(") != line.count(")"):
            raise InputError(f"{file}: line {number} is no tree such as (3 (2 It) (4 works)).")
        yield line[1], text


def _table(file: Path) -> Iterator[tuple[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        for line in csv.DictReader(lines, delimiter="\t"):
            if not {"label", "text"} <= line.keys():
                raise InputError(f"{file}: expected the columns label and text.")
            yield line["label"], line["text"]
