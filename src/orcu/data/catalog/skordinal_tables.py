"""Small ordinal tables that the package skordinal carries."""

import importlib
from collections.abc import Iterator
from pathlib import Path

from orcu.data.base import TABLE, Card, Dataset, Row, need_package


def skordinal_card(title: str, counts: tuple[int, ...]) -> Card:
    """The card of one of its tables."""
    return Card(
        title=title,
        kind=TABLE,
        classes=tuple(str(level) for level in range(1, len(counts) + 1)),
        counts=counts,
        licence="BSD-3 (skordinal); data of A. Ben-David, donated to WEKA",
        citation="Ben-David: Automatic Generation of Symbolic Multiattribute Ordinal Knowledge-Based DSSs, 1992",
        obtain="pip install 'orcu[data]' brings it (skordinal).",
        layout="in the package.",
        package="skordinal",
    )


class SkordinalTable(Dataset):
    """A table that ``skordinal.datasets.load_NAME`` gives."""

    loader: str

    def root(self) -> Path:
        """In the package."""
        need_package("skordinal")
        return Path(str(importlib.import_module("skordinal").__file__)).parent

    def rows(self, root: Path) -> Iterator[Row]:
        """The rows, in the package's order."""
        need_package("skordinal")
        data = getattr(importlib.import_module("skordinal.datasets"), self.loader)()
        names = [str(name) for name in data.feature_names]
        for number, (values, label) in enumerate(zip(data.data.tolist(), data.target.tolist(), strict=True), 1):
            yield Row(str(number), int(label), features=dict(zip(names, values, strict=True)))
