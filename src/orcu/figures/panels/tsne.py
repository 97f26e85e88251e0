"""t-SNE of the features, coloured by the order of the classes, with the ordinal alignment curve."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.figures.base import FIGURES, Figure, at_least, grid, note
from orcu.figures.sources import Sources
from orcu.figures.style import COLUMN, CURVE, PAGE, ROLES, class_colors, data_title, fitted, loss_title
from orcu.inputs import FloatArray, IntArray

SHOWN = ("ce", "sord", "ls", "orcu")  # the paper's choice
FEWEST = 10  # rows that an embedding says something about
ITERATIONS = 500  # at a few hundred points the rest of the usual 1000 changes nothing one can see


@dataclass(frozen=True)
class Embedding:
    """Points (n, 2) in [-1, 1] with labels (n,); a centroid per class that occurs; the curve (m, 2)."""

    points: FloatArray
    labels: IntArray
    centroids: FloatArray
    curve: FloatArray


def evenly(rows: int, most: int) -> IntArray:
    """At most so many row numbers, at even distances.

    Example:
        >>> evenly(10, 4).tolist()
        [0, 3, 6, 9]
    """
    if rows <= most:
        return np.arange(rows)
    return np.linspace(0, rows - 1, most).round().astype(np.intp)


def alignment_curve(centroids: FloatArray, *, points: int = 160) -> FloatArray:
    """A smooth curve through centroids in the order of the classes, shape (points, 2).

    Piecewise cubic and monotone in each coordinate between two centroids, so that it does not swing
    out beyond them.

    Example:
        >>> alignment_curve(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]]), points=5)[2].tolist()
        [1.0, 1.0]
    """
    from scipy.interpolate import PchipInterpolator

    if len(centroids) < 2:
        return centroids
    steps = np.sqrt(np.linalg.norm(np.diff(centroids, axis=0), axis=1))
    places = np.concatenate([[0.0], np.cumsum(np.maximum(steps, 1e-9))])
    curve: FloatArray = PchipInterpolator(places, centroids)(np.linspace(0, places[-1], points))
    return curve


def data(features: FloatArray, labels: IntArray, *, most: int = 1500) -> Embedding:
    """Embed features in the plane.

    Args:
        features: shape (n, D).
        labels: shape (n,).
        most: rows to embed, drawn at even distances if there are more.

    Raises:
        InputError: if there are fewer than ten rows.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = np.repeat([0, 1], 20)
        >>> embedding = data(rng.normal(size=(40, 3)) + 20 * labels[:, None], labels)
        >>> gap = np.linalg.norm(embedding.centroids[0] - embedding.centroids[1])
        >>> embedding.points.shape, bool(gap > 1)
        ((40, 2), True)
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    at_least(FEWEST, most=most)
    if len(features) < FEWEST:
        raise InputError(f"t-SNE needs at least {FEWEST} rows, and the run has {len(features)}.")
    rows = evenly(len(features), most)
    kept, y = features[rows], labels[rows]
    perplexity = min(30.0, max(2.0, (len(rows) - 1) / 3))
    with threadpool_limits(1):  # threads add in another order each time
        plane = TSNE(2, perplexity=perplexity, init="pca", random_state=0, max_iter=ITERATIONS).fit_transform(kept)
    points = np.asarray(plane, dtype=np.float64)
    points -= (points.max(axis=0) + points.min(axis=0)) / 2
    points /= np.abs(points).max() or 1.0
    centroids = np.stack([points[y == k].mean(axis=0) for k in np.unique(y)])
    return Embedding(points, y, centroids, alignment_curve(centroids))


def draw(ax: Any, embedding: Embedding, classes: int) -> None:
    """Points by class, the curve through the centroids of the classes."""
    from matplotlib import patheffects

    colors = class_colors(classes)
    ax.scatter(
        *embedding.points.T, c=[colors[k] for k in embedding.labels], s=4.5, linewidths=0, alpha=0.8, rasterized=True
    )
    white = [patheffects.Stroke(linewidth=3.0, foreground="white"), patheffects.Normal()]
    ax.plot(
        *embedding.curve.T,
        color=CURVE,
        linewidth=1.6,
        linestyle=(0, (3, 1.5)),
        path_effects=white,
        label="centroids in class order",
    )
    ax.scatter(
        *embedding.centroids.T,
        c=[colors[k] for k in np.unique(embedding.labels)],
        s=22,
        edgecolors="white",
        linewidths=0.8,
        zorder=4,
    )
    ax.set(xlim=(-1.06, 1.06), ylim=(-1.06, 1.06), aspect="equal", xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set(visible=True, color=ROLES["grid"])


@FIGURES.register("tsne")
class TsneFigure(Figure):
    """Features of the test rows of the first fold: a column for each loss, a row for each data set."""

    title = "t-SNE of the features with the ordinal alignment curve"
    paper = "Fig. 5, S3"
    needs = "features of runs"
    command = "orcu bench run SPEC"

    def make(self, sources: Sources, *, width: str = PAGE, most: int = 1500) -> Any:
        """CE, SORD, LS and ORCU unless --losses says otherwise; ``most`` rows, drawn evenly."""
        from threadpoolctl import threadpool_limits

        runs = {
            name: {
                loss: run
                for loss in sources.losses(SHOWN, data=name)
                if (run := sources.runs(name, loss)[0]).has("features.safetensors")
            }
            for name in sources.datasets()
        }
        runs = {name: by_loss for name, by_loss in runs.items() if by_loss}
        if not runs:
            raise self.lacks(sources.missing())
        most_columns = 2 if width == COLUMN else 4
        panels = [
            (name, loss, run, place % most_columns)
            for name, by_loss in runs.items()
            for place, (loss, run) in enumerate(by_loss.items())
        ]
        columns = min(most_columns, max(len(by_loss) for by_loss in runs.values()))
        lines = sum(-(-len(by_loss) // columns) for by_loss in runs.values())
        side = (2.5 if width == COLUMN else 6.0) / max(columns, 2 if width == COLUMN else 4)
        figure, axes = grid(width, lines, columns, height=side + 0.2, around=0.6, square=True)
        models = [run.predictions() for _, _, run, _ in panels]

        def embedded(place: int) -> Embedding:
            y = models[place].labels
            return data(panels[place][2].features(), y, most=most)

        with threadpool_limits(1), ThreadPoolExecutor(os.cpu_count()) as pool:
            embeddings = list(pool.map(embedded, range(len(panels))))
        row, before = -1, ""
        for (name, loss, _, column), model, embedding in zip(panels, models, embeddings, strict=True):
            row += column == 0
            ax = axes[row][column]
            draw(ax, embedding, model.num_classes)
            ax.set_title(fitted(loss_title(loss), 22))
            if column == 0:
                ax.set_ylabel(data_title(name))
            if name != before:
                _legend(axes[row][-1], model.classes)
                before = name
        for ax in (ax for line in axes for ax in line if not ax.has_data()):
            ax.set_axis_off()
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center")
        shown = {loss for by_loss in runs.values() for loss in by_loss}
        there = {loss for name in runs for loss in sources.losses(data=name)}
        part = f"{len(shown)} of {len(there)} losses (--losses chooses); " if shown < there else ""
        folds = any(len(sources.runs(name, loss)) > 1 for name in runs for loss in runs[name])
        rows = "test rows of the first fold" if folds else "test rows"
        note(figure, f"{part}{rows}, at most {most:,}, drawn evenly")
        return figure


def _legend(ax: Any, classes: tuple[str, ...]) -> None:
    """The classes from highest to lowest, to the right of a row of panels."""
    from matplotlib.lines import Line2D

    dots = [
        Line2D([], [], linestyle="none", marker="o", markersize=4, color=color) for color in class_colors(len(classes))
    ]
    names = [fitted(text, 12) for text in classes]
    ax.legend(dots[::-1], names[::-1], loc="center left", bbox_to_anchor=(1.03, 0.5), handletextpad=0.1, borderpad=0)
