"""Marks of an exam, carried by this package."""

import csv
from collections.abc import Iterator
from pathlib import Path

from orcu.data.base import DATASETS, TABLE, Card, Dataset, Row, class_index, require_file


@DATASETS.register("example_exams")
class ExampleExams(Dataset):
    """Made-up marks from the hours of work, the share of lessons attended and the mark of the year before."""

    card = Card(
        title="Marks of an exam, made up",
        kind=TABLE,
        classes=("fail", "pass", "good", "excellent"),
        counts=(69, 96, 81, 54),
        licence="public domain",
        citation="none, an example",
        obtain="It comes with the package.",
        layout="exams.csv with the columns hours, attendance, before and mark.",
        package="orcu-example-plugin",
    )

    def root(self) -> Path:
        """In the package."""
        return Path(__file__).parent

    def rows(self, root: Path) -> Iterator[Row]:
        """The exams, in the file's order."""
        file = require_file(root / "exams.csv", self.card)
        with file.open(encoding="utf-8", newline="") as lines:
            for number, line in enumerate(csv.DictReader(lines), 1):
                label = class_index(line.pop("mark"), self.classes, f"{file}: line {number + 1}")
                yield Row(str(number), label, features={name: float(value) for name, value in line.items()})
