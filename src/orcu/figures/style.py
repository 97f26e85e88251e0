"""Colours by role and the settings of every figure.

The colours are those of the light page; in a page they become CSS variables of the role's name, so
each must differ from all others.
"""

from typing import Any

ROLES = {
    "ink": "#1d2733",
    "muted": "#66717e",
    "grid": "#dce1e7",
    "accent": "#1f6fb2",
    "alarm": "#c2571a",
    "quiet": "#9db4c8",
}

SETTINGS: dict[Any, Any] = {
    "axes.edgecolor": ROLES["muted"],
    "axes.labelcolor": ROLES["ink"],
    "axes.labelsize": 9,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.labelcolor": ROLES["ink"],
    "svg.fonttype": "none",  # text stays text: searchable, small, in the page's font
    "text.color": ROLES["ink"],
    "text.parse_math": False,  # a class may be called $5
    "xtick.color": ROLES["muted"],
    "xtick.labelcolor": ROLES["ink"],
    "xtick.labelsize": 8,
    "ytick.color": ROLES["muted"],
    "ytick.labelcolor": ROLES["ink"],
    "ytick.labelsize": 8,
}


def shortened(name: str, length: int = 14) -> str:
    """A name that fits a figure; beginning and end stay, so that similar names can be told apart.

    Example:
        >>> shortened("proliferative retinopathy", 14)
        'prolife…opathy'
    """
    if len(name) <= length:
        return name
    return name[: length // 2] + "…" + name[len(name) - (length - length // 2 - 1) :]
