"""t-SNE of the features, coloured by class, with the ordinal alignment curve."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.figures.base import FIGURES, Figure, add_note, check_at_least, grid
from orcu.figures.sources import Sources
from orcu.figures.style import COLUMN, CURVE, PAGE, ROLES, class_colors, wrap_name
from orcu.figures.titles import data_title, loss_title
from orcu.inputs import FloatArray, IntArray
from orcu.threads import available_cpus

MIN_ROWS = 10  # smallest number of rows for a meaningful embedding
ITERATIONS = 500  # with a few hundred points the default of 1000 makes no visible difference


@dataclass(frozen=True)
class Embedding:
    """Points (n, 2) in [-1, 1] with labels (n,), centroids of the classes that occur, and the curve (m, 2)."""

    points: FloatArray
    labels: IntArray
    centroids: FloatArray
    curve: FloatArray


def evenly_spaced(rows: int, most: int) -> IntArray:
    """At most ``most`` evenly spaced row numbers.

    Example:
        >>> evenly_spaced(10, 4).tolist()
        [0, 3, 6, 9]
    """
    if rows <= most:
        return np.arange(rows)
    return np.linspace(0, rows - 1, most).round().astype(np.intp)


def alignment_curve(centroids: FloatArray, *, points: int = 160) -> FloatArray:
    """A smooth curve through the centroids in class order, shape (points, 2).

    It is a piecewise cubic that is monotone in each coordinate between two centroids, so it does not overshoot.

    Example:
        >>> alignment_curve(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]]), points=5)[2].tolist()
        [1.0, 1.0]
    """
    from scipy.interpolate import PchipInterpolator

    if len(centroids) < 2:
        return centroids
    steps = np.sqrt(np.linalg.norm(np.diff(centroids, axis=0), axis=1))
    positions = np.concatenate([[0.0], np.cumsum(np.maximum(steps, 1e-9))])
    curve: FloatArray = PchipInterpolator(positions, centroids)(np.linspace(0, positions[-1], points))
    return curve


def data(features: FloatArray, labels: IntArray, *, max_rows: int = 1500) -> Embedding:
    """Embed features in the plane with t-SNE.

    Args:
        features: features, shape (n, D).
        labels: labels, shape (n,).
        max_rows: largest number of rows; evenly spaced rows are used if there are more.

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

    check_at_least(MIN_ROWS, max_rows=max_rows)
    if len(features) < MIN_ROWS:
        raise InputError(f"t-SNE needs at least {MIN_ROWS} rows, got {len(features)}.")
    rows = evenly_spaced(len(features), max_rows)
    y = labels[rows]
    perplexity = min(30.0, max(2.0, (len(rows) - 1) / 3))
    with threadpool_limits(1):  # the order of summation depends on the threads
        tsne = TSNE(2, perplexity=perplexity, init="pca", random_state=0, max_iter=ITERATIONS)
        plane = tsne.fit_transform(features[rows])
    points = np.asarray(plane, dtype=np.float64)
    points -= (points.max(axis=0) + points.min(axis=0)) / 2
    points /= np.abs(points).max() or 1.0
    centroids = np.stack([points[y == k].mean(axis=0) for k in np.unique(y)])
    return Embedding(points, y, centroids, alignment_curve(centroids))


def draw(ax: Any, embedding: Embedding, num_classes: int) -> None:
    """Draw the points coloured by class, and the curve through the centroids of the classes."""
    from matplotlib import patheffects

    colors = class_colors(num_classes)
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
    """Features of the test rows of the first fold; a column for each loss, a row for each data set."""

    title = "t-SNE of the features with the ordinal alignment curve"
    paper = "Fig. 5, S3"
    needs = "features of runs"
    command = "orcu bench run SPEC"

    def make(self, sources: Sources, *, width: str = PAGE, max_rows: int = 1500) -> Any:
        """Draw all losses with at most ``max_rows`` evenly spaced rows."""
        from threadpoolctl import threadpool_limits

        runs = {
            name: {
                loss: run
                for loss in sources.losses(name)
                if (run := sources.runs(name, loss)[0]).has("features.safetensors")
            }
            for name in sources.datasets()
        }
        runs = {name: by_loss for name, by_loss in runs.items() if by_loss}
        if not runs:
            raise self.missing_input(sources)
        max_columns = 2 if width == COLUMN else 4
        panels = [
            (name, loss, run, position % max_columns)
            for name, by_loss in runs.items()
            for position, (loss, run) in enumerate(by_loss.items())
        ]
        columns = min(max_columns, max(len(by_loss) for by_loss in runs.values()))
        lines = sum(-(-len(by_loss) // columns) for by_loss in runs.values())
        side = (2.5 if width == COLUMN else 6.0) / max(columns, 2 if width == COLUMN else 4)
        figure, axes = grid(width, lines, columns, height=side + 0.2, around=0.6, square=True)
        models = [run.predictions() for _, _, run, _ in panels]

        def embed(index: int) -> Embedding:
            return data(panels[index][2].features(), models[index].with_median_labels().labels, max_rows=max_rows)

        with threadpool_limits(1), ThreadPoolExecutor(available_cpus()) as pool:
            embeddings = list(pool.map(embed, range(len(panels))))
        row, previous = -1, ""
        for (name, loss, _, column), model, embedding in zip(panels, models, embeddings, strict=True):
            row += column == 0
            ax = axes[row][column]
            draw(ax, embedding, model.num_classes)
            ax.set_title(wrap_name(loss_title(loss), 22))
            if column == 0:
                ax.set_ylabel(data_title(name))
            if name != previous:
                _legend(axes[row][-1], model.classes)
                previous = name
        for ax in (ax for line in axes for ax in line if not ax.has_data()):
            ax.set_axis_off()
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center")
        several_folds = any(len(sources.runs(name, loss)) > 1 for name in runs for loss in runs[name])
        rows = "test rows of the first fold" if several_folds else "test rows"
        add_note(figure, f"{rows}, at most {max_rows:,}, evenly spaced")
        return figure


def _legend(ax: Any, classes: tuple[str, ...]) -> None:
    """Add a legend of the classes, highest first, to the right of a row of panels."""
    from matplotlib.lines import Line2D

    dots = [
        Line2D([], [], linestyle="none", marker="o", markersize=4, color=color) for color in class_colors(len(classes))
    ]
    names = [wrap_name(text, 12) for text in classes]
    ax.legend(dots[::-1], names[::-1], loc="center left", bbox_to_anchor=(1.03, 0.5), handletextpad=0.1, borderpad=0)
