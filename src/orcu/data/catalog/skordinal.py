"""Four small ordinal tables of the package skordinal: ERA, ESL, LEV and SWD."""

from collections.abc import Iterator
from pathlib import Path

from orcu.data.base import DATASETS, TABLE, Card, Dataset, Row, import_data_module


def skordinal_card(title: str, counts: tuple[int, ...]) -> Card:
    """Card of a table of skordinal."""
    return Card(
        title=title,
        kind=TABLE,
        classes=tuple(str(level) for level in range(1, len(counts) + 1)),
        counts=counts,
        licence="BSD-3 (skordinal); data of A. Ben-David, donated to WEKA",
        citation="Ben-David: Automatic Generation of Symbolic Multiattribute Ordinal Knowledge-Based DSSs, 1992",
        obtain="Install the package skordinal: pip install 'orcu[data]'.",
        layout="in the package.",
        package="skordinal",
    )


class SkordinalTable(Dataset):
    """A table returned by the function of ``skordinal.datasets`` for the name of the class, such as ``load_era``."""

    def rows(self, root: Path) -> Iterator[Row]:
        """The rows in the order of the package."""
        data = getattr(import_data_module("skordinal.datasets"), f"load_{type(self).__name__.lower()}")()
        names = [str(name) for name in data.feature_names]
        for number, (values, label) in enumerate(zip(data.data.tolist(), data.target.tolist(), strict=True), 1):
            yield Row(str(number), int(label), features=dict(zip(names, values, strict=True)))


@DATASETS.register("era")
class Era(SkordinalTable):
    """ERA: employee rejection or acceptance."""

    card = skordinal_card("ERA: employee rejection or acceptance", (92, 142, 181, 172, 158, 118, 88, 31, 18))


@DATASETS.register("esl")
class Esl(SkordinalTable):
    """ESL: employee selection."""

    card = skordinal_card("ESL: employee selection", (2, 12, 38, 100, 116, 135, 62, 19, 4))


@DATASETS.register("lev")
class Lev(SkordinalTable):
    """LEV: lecturers evaluation."""

    card = skordinal_card("LEV: lecturers evaluation", (93, 280, 403, 197, 27))


@DATASETS.register("swd")
class Swd(SkordinalTable):
    """SWD: social workers decisions."""

    card = skordinal_card("SWD: social workers decisions", (32, 352, 399, 217))
