"""LEV: lecturers evaluation, an ordinal table of skordinal."""

from orcu.data.base import DATASETS
from orcu.data.catalog.skordinal_tables import SkordinalTable, skordinal_card


@DATASETS.register("lev")
class Lev(SkordinalTable):
    """LEV: lecturers evaluation."""

    card = skordinal_card("LEV: lecturers evaluation", (93, 280, 403, 197, 27))
    loader = "load_lev"
