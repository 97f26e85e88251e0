"""Names of losses, data sets and metrics in figures and in tables for a paper."""

import re

from orcu.metrics.base import METRICS

# Losses as the paper writes them, in its order.
LOSS_TITLES = {
    "ce": "CE",
    "sord": "SORD",
    "cdw_ce": "CDW-CE",
    "co2": "CO2",
    "poe": "POE",
    "ls": "LS",
    "flsd": "FLSD",
    "mbls": "MbLS",
    "mdca": "MDCA",
    "acls": "ACLS",
    "orcu": "ORCU",
    "hinge": "Hinge",
}
# Data sets whose name is neither an abbreviation of up to five letters nor a plain word.
_DATA_TITLES = {
    "aptos2019": "APTOS 2019",
    "diabetic_retinopathy": "Diabetic Retinopathy",
    "fair": "Fair",
    "image_aesthetics": "Image Aesthetics",
    "retinamnist": "RetinaMNIST",
    "sst5": "SST-5",
    "vader_words": "VADER words",
}
_METRIC_TITLES = {
    "accuracy": "Acc",
    "ace": "ACE",
    "alignment": "A_TF",
    "ece": "ECE",
    "feasible_active": "Act.",
    "feasible_ece": "ECE on F",
    "feasible_sce": "SCE on F",
    "feasible_unimodality": "Unimodal on F",
    "macro_mae": "Macro MAE",
    "mae": "MAE",
    "mce": "MCE",
    "nll": "NLL",
    "qwk": "QWK",
    "rps": "RPS",
    "sce": "SCE",
    "unimodality": "Unimodal",
}


def loss_title(name: str) -> str:
    """Name of a loss; names that are not the paper's are unchanged.

    Example:
        >>> loss_title("cdw_ce"), loss_title("orcu"), loss_title("My model")
        ('CDW-CE', 'ORCU', 'My model')
    """
    return LOSS_TITLES.get(name, name)


def data_title(name: str) -> str:
    """Name of a data set: names of the catalog as text, other names unchanged.

    Example:
        >>> (
        ...     data_title("elpv"),
        ...     data_title("image_aesthetics"),
        ...     data_title("limuc_resnet34"),
        ...     data_title("Cells, 96 px"),
        ... )
        ('ELPV', 'Image Aesthetics', 'LIMUC, ResNet-34', 'Cells, 96 px')
        >>> data_title("sst5, official split")
        'SST-5, official split'
    """
    head, comma, rest = name.partition(", ")
    if parts := re.fullmatch(r"(\w+)_resnet(\d+)", head):
        return f"{data_title(parts[1])}, ResNet-{parts[2]}{comma}{rest}"
    if head not in _DATA_TITLES and head.islower() and head.replace("_", "").isalnum():
        head = head.upper() if len(head) <= 5 else head.replace("_", " ").capitalize()
    return f"{_DATA_TITLES.get(head, head)}{comma}{rest}"


def metric_title(name: str) -> str:
    """Name of a metric or of a quantity of the two-stage diagnostic, short where the paper has a short name.

    Example:
        >>> metric_title("sce"), metric_title("accuracy"), metric_title("brier")
        ('SCE', 'Acc', 'Brier score')
    """
    if name in _METRIC_TITLES:
        return _METRIC_TITLES[name]
    return METRICS.get(name).title if name in METRICS.names() else name
