"""Base class and registry of figures, and helpers to build them."""

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
    """A figure of one or more panels; subclasses register themselves in `FIGURES`.

    Attributes:
        title: content of the figure in one line.
        paper: numbers of the paper's figures of this kind.
        needs: required input of ``--from``; empty if the figure needs none.
        command: command that creates the required input.
        filters: options among ``--data``, ``--losses`` and ``--calibrator`` that the figure uses.
    """

    title: ClassVar[str]
    paper: ClassVar[str]
    needs: ClassVar[str] = ""
    command: ClassVar[str] = ""
    filters: ClassVar[tuple[str, ...]] = ("data", "losses")

    @abstractmethod
    def make(self, *args: Any, **options: Any) -> Any:
        """Draw the figure from ``sources`` at a ``width``, with the options of the subclass."""

    @classmethod
    def options(cls) -> dict[str, Any]:
        """Options of the figure with their defaults."""
        parameters = inspect.signature(cls.make).parameters.values()
        return {option.name: option.default for option in parameters if option.name not in {"self", "sources", "width"}}

    def missing_input(self, sources: Sources, reason: str = "") -> InputError:
        """The error for sources without the required input."""
        return InputError(f"needs {self.needs}, but {reason or sources.describe()}. Create it with `{self.command}`.")


FIGURES: Registry[type[Figure]] = Registry("figure", package="orcu.figures.panels", plugins="orcu.figures")


def make(name: str, sources: Sources | None = None, *, width: str = style.PAGE, **options: Any) -> Any:
    """Draw a figure of the registry; write it with `orcu.figures.save.save`.

    Args:
        name: one of ``FIGURES.names()``.
        sources: results to draw; ``None`` for figures that need none.
        width: "column" (3.5 in), "page" (7.16 in, both columns) or "screen" (10 in).
        options: options of the figure, see ``FIGURES.get(name).options()``.

    Returns:
        A ``matplotlib.figure.Figure`` with its final layout.

    Raises:
        InputError: if the name, the width or an option is unknown, or the sources do not have the required input.

    Example:
        >>> figure = make("equilibrium", width="column", num_classes=3)
        >>> figure.get_size_inches()[0].item(), len(figure.axes)
        (3.5, 3)
    """
    import matplotlib

    kind = FIGURES.get(name)
    for option in options:
        if option not in kind.options():
            raise UnknownNameError(f"option of figure {name!r}", option, kind.options())
    style.font_scale(width)  # raises for an unknown width before the work
    with matplotlib.rc_context(style.print_settings(width)):
        try:
            figure = kind().make(sources or Sources(), width=width, **options)
        except UnknownNameError:
            raise
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        # The first draw chooses the ticks. They are fixed, because a layout that made room for them would otherwise
        # choose other ticks.
        figure.draw_without_rendering()
        _fix_ticks(figure)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


@contextmanager
def axes_or_new(ax: Any = None, *, size: tuple[float, float] = (3.8, 3.2)) -> Iterator[Any]:
    """The given axes, or axes of a new pyplot figure, which a notebook shows.

    Args:
        ax: axes of the caller, or ``None``.
        size: size of a new figure in inches.
    """
    if ax is not None:
        yield ax
        return
    import matplotlib
    from matplotlib import pyplot

    # Before the settings change: the first figure initialises the notebook backend, which changes settings itself.
    figure = pyplot.figure(figsize=size, layout="constrained")
    with matplotlib.rc_context(style.SETTINGS):
        ax = figure.add_subplot()
        yield ax
        figure.draw_without_rendering()  # creates the ticks while the settings apply


def grid(
    width: str, rows: int, columns: int, *, height: float, around: float = 0.0, square: bool = False
) -> tuple[Any, list[list[Any]]]:
    """A figure with a grid of panels.

    Args:
        width: width of the figure.
        rows: number of rows.
        columns: number of columns.
        height: height of a row in inches of print.
        around: height for legend and note in inches of print.
        square: keep the aspect ratio of the panels and place them closely.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    size = style.WIDTHS[width], (rows * height + around) * style.font_scale(width)
    figure = Canvas(figsize=size, layout="compressed" if square else "constrained")
    FigureCanvasAgg(figure)
    return figure, [list(row) for row in figure.subplots(rows, columns, squeeze=False)]


def shared_legend(figure: Any, extra: dict[str, Any] | None = None, **options: Any) -> None:
    """One legend above the figure with the distinct entries of all panels, and ``extra`` handles by label."""
    entries: dict[str, Any] = {}
    for ax in figure.axes:
        handles, labels = ax.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    entries |= extra or {}
    figure.legend(entries.values(), entries.keys(), loc="outside upper center", **options)


def add_note(figure: Any, text: str) -> None:
    """Add an explanation below a figure, such as the selection of rows or the meaning of a band."""
    import textwrap

    import matplotlib

    size = float(matplotlib.rcParams["xtick.labelsize"])
    letters = int(figure.get_size_inches()[0] * 72 / (0.54 * size))  # a letter is half as wide as high
    text = text.replace(" %", "\N{NO-BREAK SPACE}%")
    figure.supxlabel(textwrap.fill(text, letters), fontsize=size, color=style.ROLES["muted"])


def panel_title(index: int, text: str) -> str:
    """Title of a panel with its letter.

    Example:
        >>> panel_title(1, "Zero gradients")
        '(b) Zero gradients'
    """
    return f"({'abcdefghijklmnopqrstuvwxyz'[index % 26]}) {text}"


def check_at_least(low: int, **options: int) -> None:
    """Refuse a whole-number option below ``low``.

    Raises:
        InputError: if an option is smaller.
    """
    for name, value in options.items():
        if value < low:
            raise InputError(f"{name}: expected a whole number of at least {low}, got {value}.")


def class_or_middle(true_class: int | str, num_classes: int) -> int:
    """The class of an option, or the middle class (the lower of two) if the option is empty.

    Raises:
        InputError: if it is not a whole number.

    Example:
        >>> class_or_middle("", 5), class_or_middle("1", 5)
        (2, 1)
    """
    if true_class == "":
        return (num_classes - 1) // 2
    try:
        return int(true_class)
    except ValueError:
        raise InputError(f"true_class: expected a whole number, got {true_class!r}.") from None


def _fix_ticks(figure: Any) -> None:
    from matplotlib.ticker import FixedLocator

    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(FixedLocator(axis.get_majorticklocs()))
