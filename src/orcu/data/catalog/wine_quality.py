"""Wine quality: eleven measurements of Portuguese wines and the grade of the tasters."""

from collections.abc import Iterator
from pathlib import Path

from orcu.data.base import DATASETS, TABLE, Card, Dataset, Row, check_choice, class_index, read_csv, require_file
from orcu.data.download import Download
from orcu.errors import InputError

GRADES = {
    "red": {"3": 10, "4": 53, "5": 681, "6": 638, "7": 199, "8": 18},
    "white": {"3": 20, "4": 163, "5": 1457, "6": 2198, "7": 880, "8": 175, "9": 5},
}
ARCHIVE = "wine+quality.zip"


@DATASETS.register("wine_quality")
class WineQuality(Dataset):
    """Red or white wines; the classes are the grades that occur, 3 to 8 for red and 3 to 9 for white wines.

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
        obtain=f"Download {ARCHIVE} of UCI data set 186, or use --download.",
        layout="winequality-red.csv and winequality-white.csv, separated by semicolons.",
        downloads=(Download(f"https://archive.ics.uci.edu/static/public/186/{ARCHIVE}", ARCHIVE, unpack=True),),
    )

    def __init__(self, *, color: str = "red") -> None:
        self.color = check_choice(color, GRADES, "color of wine_quality")
        self.class_counts = GRADES[color]

    def rows(self, root: Path) -> Iterator[Row]:
        """The wines in the order of the file."""
        file = require_file(root / f"winequality-{self.color}.csv", self.card)
        for number, (where, cells) in enumerate(read_csv(file, ["quality"], delimiter=";"), 1):
            label = class_index(cells.pop("quality"), self.classes, where)
            try:
                features = {name: float(value) for name, value in cells.items()}
            except (TypeError, ValueError):
                raise InputError(f"{where}: expected numbers, got {cells}.") from None
            yield Row(str(number), label, features=features)
