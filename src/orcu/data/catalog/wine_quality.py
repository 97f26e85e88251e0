"""Wine quality: eleven measurements of Portuguese wines and the tasters' grade."""

import csv
from collections.abc import Iterator
from pathlib import Path

from orcu.data.base import DATASETS, TABLE, Card, Dataset, Row, need_file, position
from orcu.data.download import Download
from orcu.errors import InputError, UnknownNameError

GRADES = {
    "red": {"3": 10, "4": 53, "5": 681, "6": 638, "7": 199, "8": 18},
    "white": {"3": 20, "4": 163, "5": 1457, "6": 2198, "7": 880, "8": 175, "9": 5},
}


@DATASETS.register("wine_quality")
class WineQuality(Dataset):
    """The grades that occur are the classes: 3 to 8 for red, 3 to 9 for white wines.

    Args:
        color: "red" or "white".
    """

    card = Card(
        title="Wine quality (UCI): red or white Vinho Verde",
        kind=TABLE,
        classes=tuple(GRADES["red"]),
        counts=tuple(GRADES["red"].values()),
        licence="CC BY 4.0",
        citation="Cortez et al.: Modeling wine preferences by data mining, Decision Support Systems 2009",
        obtain="Fetch wine+quality.zip of UCI data set 186, or use --download.",
        layout="winequality-red.csv and winequality-white.csv, separated by semicolons.",
        downloads=(
            Download("https://archive.ics.uci.edu/static/public/186/wine+quality.zip", "wine+quality.zip", unpack=True),
        ),
    )

    def __init__(self, *, color: str = "red") -> None:
        if color not in GRADES:
            raise UnknownNameError("color of wine_quality", color, GRADES)
        self.color = color

    @property
    def classes(self) -> tuple[str, ...]:
        """The grades, from lowest to highest."""
        return tuple(GRADES[self.color])

    @property
    def counts(self) -> tuple[int, ...]:
        """Wines per grade."""
        return tuple(GRADES[self.color].values())

    def rows(self, root: Path) -> Iterator[Row]:
        """The wines, in the file's order."""
        file = need_file(root / f"winequality-{self.color}.csv", self.card)
        with file.open(encoding="utf-8", newline="") as lines:
            for number, line in enumerate(csv.DictReader(lines, delimiter=";"), 1):
                where = f"{file}: line {number + 1}"
                if "quality" not in line:
                    raise InputError(f"{where}: no column quality; are the columns separated by semicolons?")
                label = position(line.pop("quality"), self.classes, where)
                try:
                    features = {name: float(value) for name, value in line.items()}
                except (TypeError, ValueError):
                    raise InputError(f"{where}: expected numbers, got {line}.") from None
                yield Row(str(number), label, features=features)
