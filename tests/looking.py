"""Looking at a drawn figure: what is written where, and what covers what."""

from itertools import combinations

from matplotlib.text import Text

TOUCHING = 0.75  # pixels by which boxes may meet; a box is a little larger than its letters


def written(figure):
    """Every text that is drawn, its box in pixels (left, bottom, right, top), and whether a panel has it on purpose."""
    renderer = figure.canvas.get_renderer()
    inside = {text for ax in figure.axes for text in ax.texts}
    hidden = set()
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            room = 1e-6 * (high - low)
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                shown = ax.axison and low - room <= tick.get_loc() <= high + room
                if not shown:
                    hidden |= {tick.label1, tick.label2}
            if not ax.axison:
                hidden |= {axis.label, axis.offsetText}
    found = []
    for text in figure.findobj(Text):
        if text in hidden or not text.get_visible() or not text.get_text().strip():
            continue
        found.append((text, text.get_window_extent(renderer).extents.tolist(), text in inside))
    return found


def faults(figure, smallest=6.5):
    """What is wrong with a figure's texts: too small, cut off, over another or over a panel's frame."""
    figure.canvas.draw()
    texts, whole, found = written(figure), figure.bbox, []
    for text, box, _ in texts:
        name = repr(text.get_text())
        if text.get_fontsize() < smallest:
            found.append(f"{name} is {text.get_fontsize():.1f} points")
        left, bottom, right, top = box
        if left < -1 or bottom < -1 or right > whole.x1 + 1 or top > whole.y1 + 1:
            found.append(f"{name} is cut off")
    for (one, box, _), (two, other, _) in combinations(texts, 2):
        if _cover(box, other):
            found.append(f"{one.get_text()!r} is over {two.get_text()!r}")
    panels = [ax.get_window_extent().extents.tolist() for ax in figure.axes if ax.axison or ax.images]
    for text, box, on_purpose in texts:
        if on_purpose:
            continue
        found += [f"{text.get_text()!r} is over a frame" for panel in panels if _cover(box, panel)]
    return found


def _cover(one, two):
    across = min(one[2], two[2]) - max(one[0], two[0])
    along = min(one[3], two[3]) - max(one[1], two[1])
    return across > TOUCHING and along > TOUCHING
