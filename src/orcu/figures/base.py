"""What every figure of the registry has, and the one function that makes them."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from orcu.errors import InputError, UnknownNameError
from orcu.figures import style
from orcu.figures.sources import Sources
from orcu.registry import Registry


class Figure(ABC):
    """A figure of one or more panels; a subclass in a file of its own registers itself.

    Attributes:
        title: what it shows, in one line.
        paper: the paper's figures of this kind.
        needs: what ``--from`` has to give, in words; empty if nothing.
        command: what makes that.
        takes: which of ``--data`` and ``--losses`` choose something in it.
    """

    title: ClassVar[str]
    paper: ClassVar[str]
    needs: ClassVar[str] = ""
    command: ClassVar[str] = ""
    takes: ClassVar[tuple[str, ...]] = ("data", "losses")

    @abstractmethod
    def make(self, *args: Any, **options: Any) -> Any:
        """A matplotlib figure from ``sources``, at ``width``, with the subclass's own options."""

    @classmethod
    def options(cls) -> dict[str, Any]:
        """The options beside sources and width, with their defaults."""
        parameters = inspect.signature(cls.make).parameters.values()
        return {one.name: one.default for one in parameters if one.name not in {"self", "sources", "width"}}

    def lacks(self, why: str) -> InputError:
        """The error for sources that do not hold what the figure needs."""
        return InputError(f"needs {self.needs}, but {why}. Make it with `{self.command}`.")


FIGURES: Registry[type[Figure]] = Registry("figure", package="orcu.figures.panels", plugins="orcu.figures")


def make(name: str, sources: Sources | None = None, *, width: str = style.PAGE, **options: Any) -> Any:
    """A figure of the registry, ready to be saved by `orcu.figures.save.save`.

    Args:
        name: one of ``FIGURES.names()``.
        sources: the results it is drawn from; ``None`` for those that need nothing.
        width: "column" (3.5 in), "page" (7.16 in, both columns) or "screen" (10 in).
        options: of the figure, see ``FIGURES.get(name).options()``.

    Returns:
        A ``matplotlib.figure.Figure`` whose layout is settled.

    Raises:
        InputError: if the name, the width or an option is unknown, or the sources lack something.

    Example:
        >>> figure = make("equilibrium", width="column", classes=3)
        >>> figure.get_size_inches()[0].item(), len(figure.axes)
        (3.5, 3)
    """
    import matplotlib

    kind = FIGURES.get(name)
    for option in options:
        if option not in kind.options():
            raise UnknownNameError(f"option of figure {name!r}", option, kind.options())
    style.scale(width)  # refuses an unknown one before the work
    with matplotlib.rc_context(style.printed(width)):
        try:
            figure = kind().make(sources or Sources(), width=width, **options)
        except UnknownNameError:
            raise
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        # Ticks are made at the first draw, with the settings that hold then. They are kept: a panel
        # that has made room for them would else choose others, and the room would be wrong again.
        figure.draw_without_rendering()
        _keep_ticks(figure)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


@contextmanager
def axes(ax: Any = None, *, size: tuple[float, float] = (3.8, 3.2)) -> Iterator[Any]:
    """The axes that a panel is drawn on: those handed in as they are, or new ones of pyplot, which a notebook shows.

    Args:
        ax: of the caller, or ``None``.
        size: of a new figure, in inches.
    """
    if ax is not None:
        yield ax
        return
    import matplotlib
    from matplotlib import pyplot

    # Before the settings are changed: the first figure starts a notebook's backend, which has settings of its own.
    figure = pyplot.figure(figsize=size, layout="constrained")
    with matplotlib.rc_context(style.SETTINGS):
        ax = figure.add_subplot()
        yield ax
        figure.draw_without_rendering()  # ticks are made now, in this style


def blank(width: str, height: float, *, layout: Any = "constrained") -> Any:
    """An empty figure of a width and a height in inches of print, whose panels arrange themselves."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    size = style.WIDTHS[width], height * style.scale(width)
    figure = Canvas(figsize=size, layout=layout)
    FigureCanvasAgg(figure)
    return figure


def grid(
    width: str, rows: int, columns: int, *, height: float, around: float = 0.0, square: bool = False
) -> tuple[Any, list[list[Any]]]:
    """A figure of rows x columns panels.

    Args:
        width: of the figure.
        rows: of panels.
        columns: of panels.
        height: of a row, in inches of print.
        around: what legend and note take besides.
        square: the panels keep their aspect, and stand close to each other.
    """
    layout = "compressed" if square else "constrained"
    figure = blank(width, rows * height + around, layout=layout)
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, [list(row) for row in axes]


def note(figure: Any, text: str) -> None:
    """A sentence under a figure: the rule by which its rows were chosen, what a band is."""
    import textwrap

    size = _small()
    letters = int(figure.get_size_inches()[0] * 72 / (0.54 * size))  # a letter is half as wide as high
    text = text.replace(" %", "\N{NO-BREAK SPACE}%")
    figure.supxlabel(textwrap.fill(text, letters), fontsize=size, color=style.ROLES["muted"])


def letter(index: int, text: str) -> str:
    """A panel's title with its letter, as papers count panels.

    Example:
        >>> letter(1, "Zero gradients")
        '(b) Zero gradients'
    """
    return f"({'abcdefghijklmnopqrstuvwxyz'[index % 26]}) {text}"


def at_least(low: int, **options: int) -> None:
    """Refuse an option that is a whole number below ``low``.

    Raises:
        InputError: if one is.
    """
    for name, value in options.items():
        if value < low:
            raise InputError(f"{name}: expected a whole number from {low}, got {value}.")


def class_or_middle(label: int | str, classes: int) -> int:
    """The label of an option, or the middle class (the lower one of two) if it is empty.

    Raises:
        InputError: if it is no whole number.

    Example:
        >>> class_or_middle("", 5), class_or_middle("1", 5)
        (2, 1)
    """
    if label == "":
        return (classes - 1) // 2
    try:
        return int(label)
    except ValueError:
        raise InputError(f"label: expected a whole number, got {label!r}.") from None


def _keep_ticks(figure: Any) -> None:
    from matplotlib.ticker import FixedLocator

    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(FixedLocator(axis.get_majorticklocs()))


def _small() -> float:
    import matplotlib

    return float(matplotlib.rcParams["xtick.labelsize"])
