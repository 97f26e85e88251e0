"""ESL: employee selection, an ordinal table of skordinal."""

from orcu.data.base import DATASETS
from orcu.data.catalog.skordinal_tables import SkordinalTable, skordinal_card


@DATASETS.register("esl")
class Esl(SkordinalTable):
    """ESL: employee selection."""

    card = skordinal_card("ESL: employee selection", (2, 12, 38, 100, 116, 135, 62, 19, 4))
    loader = "load_esl"
