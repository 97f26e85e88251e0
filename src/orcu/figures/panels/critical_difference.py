"""Critical-difference diagram: mean ranks of losses over data sets, and which of them are not distinguished."""

from typing import Any

from orcu.evaluation.ranks import RankTest, Result, rank_models
from orcu.figures.base import FIGURES, Figure, add_note, grid
from orcu.figures.sources import Sources
from orcu.figures.style import PAGE, ROLES, loss_styles, shorten
from orcu.figures.titles import loss_title, metric_title

LINE = 0.17  # height of a line in inches of print
_ABOVE = 3.2  # lines above the axis: the critical difference and the tick labels
_NAME = 20  # longest name in letters


def data(sources: Sources, *, metric: str = "sce", alpha: float = 0.05) -> RankTest:
    """Ranks of the losses on the test rows of each data set, by the mean of a metric over folds; see `rank_models`."""
    runs = [
        Result(run.data, loss, (run.fold, run.seed), sources.metrics(run), run.manifest)
        for name in sources.datasets()
        for loss in sources.losses(name)
        for run in sources.runs(name, loss)
    ]
    return rank_models(runs, metric=metric, alpha=alpha)


def draw(ax: Any, test: RankTest) -> None:
    """Draw the axis of ranks, a line to the name of each loss, bars over undistinguished losses, and the difference."""
    count, middle = len(test.models), (len(test.models) + 1) // 2
    size = ax.xaxis.get_ticklabels()[0].get_fontsize()
    titles = [shorten(loss_title(name), _NAME) for name in test.models]
    first_name = 0.55 + 0.45 * len(test.groups)  # line of the uppermost names, below the bars
    room = _room(titles, size, ax)
    ax.set(xlim=(1 - room, count + room), ylim=(-(first_name + middle - 0.3), _ABOVE))
    ax.set_axis_off()
    ink, thin = ROLES["ink"], {"color": ROLES["ink"], "linewidth": 0.8, "clip_on": False}
    ax.plot([1, count], [0, 0], **thin)
    step = 1 if count <= 12 else 2
    for rank in range(1, count + 1):
        ax.plot([rank, rank], [0, 0.25], **thin)
        if (rank - 1) % step == 0:
            ax.text(rank, 0.4, str(rank), ha="center", va="bottom", fontsize=size)
    styles = loss_styles(list(test.models))
    for j, (name, mean) in enumerate(zip(test.models, test.mean_ranks, strict=True)):
        is_left = j < middle
        # The outermost names are uppermost on both sides, so that no line crosses another.
        level = -(first_name + (j if is_left else count - 1 - j))
        end = 1 - 0.15 * room if is_left else count + 0.15 * room
        style = {"color": styles[name].color, "linestyle": styles[name].line, "linewidth": 0.9}
        ax.plot([mean, mean, end], [0, level, level], clip_on=False, zorder=1, **style)
        text = f"{titles[j]} {mean:.2f}" if is_left else f"{mean:.2f} {titles[j]}"
        shift = -0.05 * room if is_left else 0.05 * room
        ax.text(end + shift, level, text, ha="right" if is_left else "left", va="center", fontsize=size, color=ink)
    for number, group in enumerate(test.groups):
        ends = [float(test.mean_ranks[test.models.index(name)]) for name in (group[0], group[-1])]
        height = -(0.4 + 0.45 * number)
        ax.plot(
            [ends[0] - 0.03, ends[1] + 0.03], [height] * 2, color=ink, linewidth=2.6, solid_capstyle="butt", zorder=2
        )
    _draw_difference(ax, test, size)


def _draw_difference(ax: Any, test: RankTest, size: float) -> None:
    """Draw the length of the critical difference above the axis; it is cut at the end of the axis."""
    height, start = 1.9, 1.0
    end = min(start + test.critical_difference, float(len(test.models)))
    thin = {"color": ROLES["ink"], "linewidth": 0.8, "clip_on": False}
    ax.plot([start, end], [height] * 2, **thin)
    is_cut = end < start + test.critical_difference
    for position in (start,) if is_cut else (start, end):
        ax.plot([position] * 2, [height - 0.2, height + 0.2], **thin)
    text = f"critical difference {test.critical_difference:.2f}" + (", longer than the axis" if is_cut else "")
    ax.text(start, height + 0.35, text, ha="left", va="bottom", fontsize=size)


def _room(titles: list[str], size: float, ax: Any) -> float:
    """Ranks on each side of the axis that the names need."""
    width = ax.get_figure().get_size_inches()[0] * 72
    share = min(0.36, (0.62 * size * (max(map(len, titles)) + 6)) / width)  # a letter is about 0.62 of its size wide
    return float(share / (1 - 2 * share) * max(1, len(titles) - 1))


def figure(test: RankTest, *, width: str = PAGE, calibrator: str = "") -> Any:
    """A figure of the ranks with a note on the test; ``calibrator`` is its text on the calibrator."""
    lines = _ABOVE + 0.55 + 0.45 * len(test.groups) + (len(test.models) + 1) // 2
    canvas, axes = grid(width, 1, 1, height=LINE * lines, around=0.45)
    draw(axes[0][0], test)
    bars = (
        f"bars: not distinguished (Nemenyi, alpha = {test.alpha:g})"
        if test.is_significant
        else "bar: the test does not reject equal ranks"
    )
    add_note(
        canvas,
        f"mean ranks of {metric_title(test.metric)}{calibrator} over {len(test.datasets)} data sets, "
        f"1 is best; Friedman test: p = {test.p_value:.4f}; {bars}",
    )
    return canvas


@FIGURES.register("critical_difference")
class CriticalDifferenceFigure(Figure):
    """Mean ranks of the losses over the data sets of a benchmark."""

    title = "Mean ranks of losses over data sets, with the critical difference"
    paper = "none"
    needs = "test results of losses on three data sets"
    command = "orcu bench run SPEC"
    filters = ("data", "losses", "calibrator")

    def make(self, sources: Sources, *, width: str = PAGE, metric: str = "sce", alpha: float = 0.05) -> Any:
        """Draw the ranks by ``metric``, with bars over losses that are not distinguished at ``alpha``."""
        if len(sources.datasets()) == 0:
            raise self.missing_input(sources)
        test = data(sources, metric=metric, alpha=alpha)
        sources.notes += [f"critical_difference: {line}" for line in test.lines()]
        return figure(test, width=width, calibrator=sources.calibrator_caption)
