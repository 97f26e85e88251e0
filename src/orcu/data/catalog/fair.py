"""Fair's survey on marriages: rating of the marriage on five levels."""

from collections.abc import Iterator
from pathlib import Path

from orcu.data.base import DATASETS, TABLE, Card, Dataset, Row, import_data_module


@DATASETS.register("fair")
class Fair(Dataset):
    """The rating of the marriage and eight other answers; the table of the package statsmodels."""

    card = Card(
        title="Fair's affairs: rating of the marriage, 6,366 women",
        kind=TABLE,
        classes=("very poor", "poor", "fair", "good", "very good"),
        counts=(99, 348, 993, 2242, 2684),
        licence="public domain (statsmodels)",
        citation="Fair: A Theory of Extramarital Affairs, Journal of Political Economy 1978",
        obtain="Install the package statsmodels: pip install 'orcu[data]'.",
        layout="in the package.",
        package="statsmodels",
    )

    def rows(self, root: Path) -> Iterator[Row]:
        """The answers in the order of the package."""
        frame = import_data_module("statsmodels.datasets.fair").load_pandas().data
        names = [name for name in frame.columns if name != "rate_marriage"]
        labels = frame["rate_marriage"].astype(int).tolist()
        for row, values in enumerate(frame[names].astype(float).to_numpy().tolist()):
            yield Row(str(row + 1), labels[row] - 1, features=dict(zip(names, values, strict=True)))
