"""Diamonds: price and measurements of 53,940 stones; the target is cut, clarity or colour."""

from collections.abc import Iterator
from pathlib import Path

from orcu.data.base import DATASETS, TABLE, Card, Dataset, Row, check_choice, import_data_module

NUMBERS = ("carat", "depth", "table", "price", "x", "y", "z")
TARGETS = {  # classes from worst to best, with their counts
    "cut": {"Fair": 1610, "Good": 4906, "Very Good": 12082, "Premium": 13791, "Ideal": 21551},
    "clarity": {"I1": 741, "SI2": 9194, "SI1": 13065, "VS2": 12258}
    | {"VS1": 8171, "VVS2": 5066, "VVS1": 3655, "IF": 1790},
    "color": {"J": 2808, "I": 5422, "H": 8304, "G": 11292, "F": 9542, "E": 9797, "D": 6775},
}


@DATASETS.register("diamonds")
class Diamonds(Dataset):
    """The diamonds table of the package plotnine.

    Args:
        target: "cut", "clarity" or "color"; the other two are features.
    """

    card = Card(
        title="Diamonds (ggplot2): cut, clarity or colour of 53,940 stones",
        kind=TABLE,
        classes=tuple(TARGETS["cut"]),
        counts=tuple(TARGETS["cut"].values()),
        licence="MIT (plotnine; the data of ggplot2)",
        citation="Wickham: ggplot2, Springer 2016",
        obtain="Install the package plotnine: pip install 'orcu[data]'.",
        layout="in the package.",
        package="plotnine",
    )

    def __init__(self, *, target: str = "cut") -> None:
        self.target = check_choice(target, TARGETS, "target of diamonds")
        self.class_counts = TARGETS[target]

    def rows(self, root: Path) -> Iterator[Row]:
        """The stones in the order of the package."""
        frame = import_data_module("plotnine.data").diamonds
        columns = {name: frame[name].astype(float).tolist() for name in NUMBERS}
        columns |= {name: frame[name].astype(str).tolist() for name in TARGETS if name != self.target}
        for row, name in enumerate(frame[self.target].astype(str).tolist()):
            features = {column: values[row] for column, values in columns.items()}
            yield Row(str(row + 1), self.classes.index(name), features=features)
