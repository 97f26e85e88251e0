"""Colours, sizes and matplotlib settings of all figures.

The colours by role are those of the light page. In a page they become CSS variables named after the role, so all of
them must differ. Losses have Okabe and Ito's colours, which are safe for colour-blind readers, and a loss has the same
style in every figure.
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
    "svg.fonttype": "none",  # keep text as text: searchable, small, in the page's font
    "text.color": ROLES["ink"],
    "text.parse_math": False,  # a class name may contain $
} | {
    f"{axis}tick.{name}": value
    for axis in "xy"
    for name, value in {"color": ROLES["muted"], "labelcolor": ROLES["ink"], "labelsize": 8}.items()
}

COLUMN, PAGE, SCREEN = "column", "page", "screen"
WIDTHS = {COLUMN: 3.5, PAGE: 7.16, SCREEN: 10.0}  # inches; the first two are IEEE's
SMALL = 6.7  # smallest font size in print, in points
SHORT = 3  # letters of a class name that fits under a tick


def font_scale(width: str) -> float:
    """Scale factor of fonts and heights at a width, relative to print.

    Raises:
        UnknownNameError: if the width is unknown.

    Example:
        >>> font_scale("page"), round(font_scale("screen"), 2)
        (1.0, 1.4)
    """
    if width not in WIDTHS:
        raise UnknownNameError("width", width, WIDTHS)
    return WIDTHS[width] / WIDTHS[PAGE] if width == SCREEN else 1.0


def print_settings(width: str) -> dict[Any, Any]:
    """Matplotlib settings of a figure that is written to a file."""
    points = font_scale(width)
    return SETTINGS | {
        "axes.labelpad": 2.0 * points,
        "axes.labelsize": 7.5 * points,
        "axes.titlepad": 3.5 * points,
        "axes.titlesize": 8 * points,
        "font.size": 8 * points,
        "legend.borderaxespad": 0.2,
        "legend.fontsize": 7.2 * points,
        "pdf.fonttype": 42,  # keep text as text, with embedded fonts
        "svg.hashsalt": "orcu",
        "xtick.major.pad": 2.6 * points,
        "ytick.major.pad": 2.2 * points,
        **dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), SMALL * points),
        **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 2.0 * points),
        **dict.fromkeys(("xtick.major.width", "ytick.major.width"), 0.6),
    }


@dataclass(frozen=True)
class LineStyle:
    """Colour, line, marker and line width of a loss."""

    color: str
    line: Any = "-"
    marker: str = "o"
    width: float = 1.1


_BLACK, _GREY, _ORANGE, _SKY = "#3d3d3d", "#8a8a8a", "#e69f00", "#56b4e9"
GREEN, _BLUE, _RED, _PURPLE = "#009e73", "#0072b2", "#d55e00", "#cc79a7"
CURVE = "#ff8c1a"  # the paper's orange, for lines above the class colours
_DASHED, _DOTTED = (0, (4, 1.6)), (0, (1.2, 1.2))
LOSS_STYLES = {
    "ce": LineStyle(_BLACK, marker="s"),
    "sord": LineStyle(_BLUE, marker="^"),
    "cdw_ce": LineStyle(_SKY, marker="v"),
    "co2": LineStyle(_PURPLE, marker="D"),
    "poe": LineStyle(_GREY, _DOTTED, "P"),
    "ls": LineStyle(_ORANGE, marker="X"),
    "flsd": LineStyle(_RED, marker="<"),
    "hinge": LineStyle(_RED, marker="v"),
    "mbls": LineStyle(_PURPLE, _DASHED, ">"),
    "mdca": LineStyle(_BLUE, _DASHED, "p"),
    "acls": LineStyle(_SKY, _DASHED, "h"),
    "orcu": LineStyle(GREEN, width=1.7),
    "ensemble": LineStyle(_RED, marker="*", width=1.7),
}
_OTHERS = [
    LineStyle(color, line, marker)
    for line in ("-", _DASHED, _DOTTED)
    for color, marker in zip((_BLUE, _ORANGE, _PURPLE, _SKY, _RED, _BLACK, _GREY), "^XDv<sP", strict=True)
]


def loss_styles(names: list[str]) -> dict[str, LineStyle]:
    """Line styles of several losses: fixed for the losses of the paper, distinct from these for others.

    Example:
        >>> styles = loss_styles(["orcu", "sord", "mine"])
        >>> styles["orcu"].color, styles["mine"].color == styles["sord"].color
        ('#009e73', False)
    """
    fixed = [LOSS_STYLES[name] for name in names if name in LOSS_STYLES]
    free = [style for style in _OTHERS if all(style.color != other.color for other in fixed)] or [
        style for style in _OTHERS if all((style.color, style.line) != (other.color, other.line) for other in fixed)
    ]
    unknown = [name for name in names if name not in LOSS_STYLES]
    return {name: LOSS_STYLES.get(name) or free[unknown.index(name) % len(free)] for name in names}


def class_colors(count: int) -> list[Any]:
    """A colour for each class in order, from the viridis map without its yellow end, which is invisible on white.

    Example:
        >>> len(class_colors(5))
        5
    """
    import matplotlib

    step = 0.93 / max(1, count - 1)
    return [matplotlib.colormaps["viridis"](step * k) for k in range(count)]


def wrap_name(name: str, length: int) -> str:
    r"""A name on one line of at most ``length`` letters, else on two lines; the second is shortened if necessary.

    Example:
        >>> wrap_name("possibly defective", 22), wrap_name("possibly defective", 10)
        ('possibly defective', 'possibly\ndefective')
    """
    import textwrap

    lines = textwrap.wrap(name, length) if len(name) > length else [name]
    if len(lines) > 2:
        lines = [lines[0], shorten(name[len(lines[0]) :].strip(), length)]
    return "\n".join(lines)


def tick_names(classes: Sequence[str]) -> list[str]:
    """Tick labels of a class axis: the names if all are short, else numbers from 0.

    Example:
        >>> tick_names(["1", "2"]), tick_names(["none", "severe"])
        (['1', '2'], ['0', '1'])
    """
    short = max(map(len, classes)) <= SHORT
    return [name if short else str(k) for k, name in enumerate(classes)]


def class_title(classes: Sequence[str], k: int) -> str:
    """Name of a class, with its number if the axis shows numbers.

    Example:
        >>> class_title(["1", "2"], 0), class_title(["none", "severe"], 1)
        ('1', 'severe (1)')
    """
    label = tick_names(classes)[k]
    return label if label == classes[k] else f"{classes[k]} ({k})"


def class_axis(ax: Any, names: Sequence[str]) -> None:
    """Set the ticks of the classes 0..C-1, as many as fit, and the limits of the axis."""
    room = ax.get_position().width * ax.get_figure().get_size_inches()[0] * 72
    letters = room / (0.62 * ax.xaxis.get_ticklabels()[0].get_fontsize())  # both in points
    most = max(2.0, letters / (max(map(len, names)) + 0.6))
    steps = (step * 10**power for power in range(4) for step in (1, 2, 5))
    step = next((step for step in steps if len(names) <= most * step), len(names))
    positions = range(0, len(names), step)
    ax.set_xticks(list(positions), [names[k] for k in positions])
    around = max(0.4, 0.03 * len(names))
    ax.set_xlim(-around, len(names) - 1 + around)


def tick_positions(count: int, most: int = 40) -> range:
    """Classes with a tick label: all of them, or at most ``most`` evenly spaced ones.

    Example:
        >>> list(tick_positions(3)), list(tick_positions(1000, most=4))
        ([0, 1, 2], [0, 250, 500, 750])
    """
    return range(0, count, -(-count // most))


def shorten(name: str, length: int = 14) -> str:
    """A name with at most ``length`` letters; beginning and end are kept, so similar names stay distinct.

    Example:
        >>> shorten("proliferative retinopathy", 14)
        'prolife…opathy'
    """
    if len(name) <= length:
        return name
    return name[: length // 2] + "…" + name[len(name) - (length - length // 2 - 1) :]
