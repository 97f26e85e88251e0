"""Colours, sizes and the settings of every figure.

The colours by role are those of the light page; in a page they become CSS variables of the role's
name, so each must differ from all others. The colours of losses are Okabe and Ito's, which differ
for every kind of colour vision, and the same loss looks the same in every figure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orcu.errors import UnknownNameError

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

COLUMN, PAGE, SCREEN = "column", "page", "screen"
WIDTHS = {COLUMN: 3.5, PAGE: 7.16, SCREEN: 10.0}  # inches; the first two are IEEE's
SMALL = 6.7  # points: ticks and notes in print, never less
SHORT = 3  # letters of a class name that fits under a tick


def scale(width: str) -> float:
    """How much larger than in print everything is drawn at a width.

    Raises:
        UnknownNameError: if there is no such width.

    Example:
        >>> scale("page"), round(scale("screen"), 2)
        (1.0, 1.4)
    """
    if width not in WIDTHS:
        raise UnknownNameError("width", width, WIDTHS)
    return WIDTHS[width] / WIDTHS[PAGE] if width == SCREEN else 1.0


def printed(width: str) -> dict[Any, Any]:
    """The settings of a figure of its own, in a file, at one of the widths."""
    points = scale(width)
    return SETTINGS | {
        "axes.labelpad": 2.0 * points,
        "axes.labelsize": 7.5 * points,
        "axes.titlepad": 3.5 * points,
        "axes.titlesize": 8 * points,
        "font.size": 8 * points,
        "legend.borderaxespad": 0.2,
        "legend.fontsize": 7.2 * points,
        "pdf.fonttype": 42,  # text stays text, in a font that is carried along
        "svg.hashsalt": "orcu",
        "xtick.labelsize": SMALL * points,
        "xtick.major.pad": 2.6 * points,
        "xtick.major.size": 2.0 * points,
        "xtick.major.width": 0.6,
        "ytick.labelsize": SMALL * points,
        "ytick.major.pad": 2.2 * points,
        "ytick.major.size": 2.0 * points,
        "ytick.major.width": 0.6,
    }


@dataclass(frozen=True)
class Look:
    """How one of several losses is drawn."""

    color: str
    line: Any = "-"
    marker: str = "o"
    width: float = 1.1


_BLACK, _GREY, _ORANGE, _SKY = "#3d3d3d", "#8a8a8a", "#e69f00", "#56b4e9"
GREEN, _BLUE, _RED, _PURPLE = "#009e73", "#0072b2", "#d55e00", "#cc79a7"
CURVE = "#ff8c1a"  # the paper's orange, for lines over the class colours
_DASHED, _DOTTED = (0, (4, 1.6)), (0, (1.2, 1.2))
LOOKS = {
    "ce": Look(_BLACK, marker="s"),
    "sord": Look(_BLUE, marker="^"),
    "cdw_ce": Look(_SKY, marker="v"),
    "co2": Look(_PURPLE, marker="D"),
    "poe": Look(_GREY, _DOTTED, "P"),
    "ls": Look(_ORANGE, marker="X"),
    "flsd": Look(_RED, marker="<"),
    "hinge": Look(_RED, marker="v"),
    "mbls": Look(_PURPLE, _DASHED, ">"),
    "mdca": Look(_BLUE, _DASHED, "p"),
    "acls": Look(_SKY, _DASHED, "h"),
    "orcu": Look(GREEN, width=1.7),
    "ensemble": Look(_RED, marker="*", width=1.7),
}
_OTHERS = [
    Look(color, line, marker)
    for line in ("-", _DASHED, _DOTTED)
    for color, marker in zip((_BLUE, _ORANGE, _PURPLE, _SKY, _RED, _BLACK, _GREY), "^XDv<sP", strict=True)
]
_TITLES = {"ensemble": "ensemble", "cdw_ce": "CDW-CE", "mbls": "MbLS", "hinge": "SoftCE + hinge"}


def looks(names: list[str]) -> dict[str, Look]:
    """How each of several losses is drawn; those of the paper always look the same, others like none of these.

    Example:
        >>> chosen = looks(["orcu", "sord", "mine"])
        >>> chosen["orcu"].color, chosen["mine"].color == chosen["sord"].color
        ('#009e73', False)
    """
    known = [LOOKS[name] for name in names if name in LOOKS]
    unlike = [look for look in _OTHERS if all(look.color != one.color for one in known)]
    free = unlike or [
        look for look in _OTHERS if all((look.color, look.line) != (one.color, one.line) for one in known)
    ]
    unknown = [name for name in names if name not in LOOKS]
    return {name: LOOKS.get(name) or free[unknown.index(name) % len(free)] for name in names}


def loss_title(name: str) -> str:
    """What a loss is called in a figure; names that are none of ours stay.

    Example:
        >>> loss_title("cdw_ce"), loss_title("orcu"), loss_title("My model")
        ('CDW-CE', 'ORCU', 'My model')
    """
    return _TITLES.get(name) or (name.upper() if name in LOOKS else name)


def data_title(name: str) -> str:
    """What a data set is called in a figure: a name of the registry as people write it.

    Example:
        >>> data_title("elpv"), data_title("image_aesthetics"), data_title("Cells, 96 px")
        ('ELPV', 'Image aesthetics', 'Cells, 96 px')
    """
    if not name.replace("_", "").isalnum() or not name.islower():
        return name
    return name.upper() if len(name) <= 5 else name.replace("_", " ").capitalize()


def class_colors(count: int) -> list[Any]:
    """One colour for each class, in the order of the classes, of the viridis map.

    Its yellow end is left out: it cannot be seen on white.

    Example:
        >>> len(class_colors(5))
        5
    """
    import matplotlib

    ends = (0.0, 0.93)
    step = (ends[1] - ends[0]) / max(1, count - 1)
    return [matplotlib.colormaps["viridis"](ends[0] + step * k) for k in range(count)]


def fitted(name: str, length: int) -> str:
    r"""A name on one line of at most so many letters, else on two; cut only if two are too few.

    Example:
        >>> fitted("possibly defective", 22), fitted("possibly defective", 10)
        ('possibly defective', 'possibly\ndefective')
    """
    import textwrap

    lines = textwrap.wrap(name, length) if len(name) > length else [name]
    if len(lines) > 2:
        lines = [lines[0], shortened(name[len(lines[0]) :].strip(), length)]
    return "\n".join(lines)


def class_names(classes: Sequence[str]) -> list[str]:
    """What stands on an axis of classes: their names where all are short, else their numbers from 0.

    Example:
        >>> class_names(["1", "2"]), class_names(["none", "severe"])
        (['1', '2'], ['0', '1'])
    """
    short = max(map(len, classes)) <= SHORT
    return [name if short else str(k) for k, name in enumerate(classes)]


def class_title(classes: Sequence[str], k: int) -> str:
    """What a class is called beside such an axis: its name, with its number if that stands there.

    Example:
        >>> class_title(["1", "2"], 0), class_title(["none", "severe"], 1)
        ('1', 'severe (1)')
    """
    shown = class_names(classes)[k]
    return shown if shown == classes[k] else f"{classes[k]} ({k})"


def class_axis(ax: Any, names: Sequence[str]) -> None:
    """Ticks for the classes 0..C-1, as many as have room, and the limits around them."""
    figure = ax.get_figure()
    room = ax.get_position().width * figure.get_size_inches()[0] * 72
    letters = room / (0.62 * ax.xaxis.get_ticklabels()[0].get_fontsize())  # in points, whatever the style says
    most = max(2.0, letters / (max(map(len, names)) + 0.6))
    steps = (step * 10**power for power in range(4) for step in (1, 2, 5))
    step = next((step for step in steps if len(names) <= most * step), len(names))
    places = range(0, len(names), step)
    ax.set_xticks(list(places), [names[k] for k in places])
    around = max(0.4, 0.03 * len(names))
    ax.set_xlim(-around, len(names) - 1 + around)


def ticked(count: int, most: int = 40) -> range:
    """The classes that get a name on an axis: all of them, or evenly spaced ones where they would not fit.

    Example:
        >>> list(ticked(3)), list(ticked(1000, most=4))
        ([0, 1, 2], [0, 250, 500, 750])
    """
    return range(0, count, -(-count // most))


def shortened(name: str, length: int = 14) -> str:
    """A name that fits a figure; beginning and end stay, so that similar names can be told apart.

    Example:
        >>> shortened("proliferative retinopathy", 14)
        'prolife…opathy'
    """
    if len(name) <= length:
        return name
    return name[: length // 2] + "…" + name[len(name) - (length - length // 2 - 1) :]
