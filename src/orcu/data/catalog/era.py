"""ERA: employee rejection or acceptance, an ordinal table of skordinal."""

from orcu.data.base import DATASETS
from orcu.data.catalog.skordinal_tables import SkordinalTable, skordinal_card


@DATASETS.register("era")
class Era(SkordinalTable):
    """ERA: employee rejection or acceptance."""

    card = skordinal_card("ERA: employee rejection or acceptance", (92, 142, 181, 172, 158, 118, 88, 31, 18))
    loader = "load_era"
