"""The picture of the README from the results of `make demo`: one example, and calibration error against unimodality.

make demo && python tools/demo_picture.py build docs/_static/demo.png
"""

import sys
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from orcu import bench
from orcu.bench.summary import summarise
from orcu.figures.panels import pipelines, single_prediction
from orcu.figures.style import SETTINGS


def main(results: Path, target: Path) -> None:
    """Draw the summary of the demo's report."""
    summary = summarise(bench.table("demo", results=results))
    if summary is None:
        raise SystemExit("the demo is not finished; run `make demo`")
    baseline, _, proposed = summary.example.probs.items()
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(10.4, 2.9), layout="constrained")
        left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1.75))
        for ax, (name, probs) in ((left, baseline), (middle, proposed)):
            single_prediction.draw(ax, probs, summary.example.label, summary.example.classes)
            ax.set(ylim=(-0.06, 0.6), title=name, ylabel="probability" if ax is left else "")
            ax.set_yticks([0, 0.25, 0.5], ["0", "25 %", "50 %"])
            ax.title.set(fontsize=10, fontweight="bold")
        data, points = next(iter(summary.points.items()))
        pipelines.draw(right, points)
        right.set_title(f"{data}: all pipelines of the demo", fontsize=10, fontweight="bold")
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target, dpi=130, facecolor="white", metadata={"Software": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
