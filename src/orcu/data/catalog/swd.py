"""SWD: social workers decisions, an ordinal table of skordinal."""

from orcu.data.base import DATASETS
from orcu.data.catalog.skordinal_tables import SkordinalTable, skordinal_card


@DATASETS.register("swd")
class Swd(SkordinalTable):
    """SWD: social workers decisions."""

    card = skordinal_card("SWD: social workers decisions", (32, 352, 399, 217))
    loader = "load_swd"
