"""Panels of one evaluation in a notebook: `plot` returns the axes."""

import os
import subprocess
import sys

import matplotlib
import numpy as np
import pytest

import orcu
from orcu.errors import InputError, UnknownNameError
from orcu.figures import confidence, confusion, forest, referral, reliability
from orcu.resampling import Estimate

PANELS = {
    "reliability": reliability.plot,
    "confidence": confidence.plot,
    "confusion": confusion.plot,
    "referral": referral.plot,
    "forest": lambda evaluation, **options: forest.plot(evaluation, "sce", **options),
}


@pytest.fixture(scope="module")
def evaluation(ordinal_sample):
    logits, y = ordinal_sample(300, 3)
    options = {"codes": y, "classes": ["$5", "mild", "severe"], "subgroup": ["north", "south"] * 150}
    sharp, calm = (orcu.Predictions(logits=factor * logits, **options) for factor in (1, 1 / 1.5))
    return orcu.evaluate(sharp, name="sharp", compare={"calm": calm}, n_resamples=50)


@pytest.fixture
def pyplot():
    """Pyplot without a window; figures are closed afterwards."""
    matplotlib.use("agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


@pytest.mark.parametrize("name", PANELS)
def test_plot_without_axes_creates_a_pyplot_figure(name, evaluation, pyplot):
    before = dict(matplotlib.rcParams)
    ax = PANELS[name](evaluation)
    assert isinstance(ax, matplotlib.axes.Axes)
    assert pyplot.gcf() is ax.figure
    ax.set_title("ours")
    ax.figure.canvas.draw()
    assert ax.get_title() == "ours"
    assert dict(matplotlib.rcParams) == before  # the settings apply to the panel only
    assert not ax.spines["top"].get_visible()


@pytest.mark.parametrize("name", PANELS)
def test_plot_draws_on_given_axes(name, evaluation, pyplot):
    figure, (left, right) = pyplot.subplots(1, 2)
    assert PANELS[name](evaluation, ax=right) is right
    assert right.has_data()
    assert not left.has_data()
    assert pyplot.get_fignums() == [figure.number]


def test_reliability_plot_of_a_class_shows_its_bins(evaluation, pyplot):
    ax = reliability.plot(evaluation, class_name="mild")
    weight, value, _ = evaluation.sums.classes[1]
    points = np.sort(np.concatenate([line.get_xdata() for line in ax.lines[1:]]))
    assert points == pytest.approx(np.sort(value[weight > 0] / weight[weight > 0]))
    assert ax.get_xlabel() == "probability of mild"
    assert reliability.plot(evaluation).get_xlabel() == "confidence"


def test_forest_plot_axis_ends_at_the_bounds_of_the_metric(evaluation, pyplot):
    for part in (evaluation, *evaluation.others):
        part.metrics["unimodality"] = Estimate(1.0, 0.98, 1.0)
    low, high = forest.plot(evaluation, "unimodality").get_xlim()
    assert low < 98
    assert high == 100
    low, high = forest.plot(evaluation, "mae").get_xlim()
    assert low >= 0


def test_forest_plot_has_a_line_for_each_model_or_subgroup(evaluation, pyplot):
    assert [text.get_text() for text in forest.plot(evaluation, "mae").get_yticklabels()] == ["sharp", "calm"]
    subgroups = forest.plot(evaluation, "sce", by="subgroup")
    assert [text.get_text() for text in subgroups.get_yticklabels()] == ["all", "north", "south"]


def test_plot_invalid_argument_raises_and_names_it(evaluation, pyplot):
    with pytest.raises(UnknownNameError, match="class 'mid'.*'mild'"):
        reliability.plot(evaluation, class_name="mid")
    with pytest.raises(UnknownNameError, match="metric 'sec'"):
        forest.plot(evaluation, "sec")
    with pytest.raises(InputError, match="^by: .*'site'"):
        forest.plot(evaluation, "sce", by="site")
    with pytest.raises(InputError, match=r"^by: .*subgroup.* Predictions\(..., subgroup=...\)"):
        forest.plot(evaluation.others[0], "sce", by="subgroup")
    assert pyplot.get_fignums() == []  # no empty figure is created


def test_figures_modules_are_attributes_of_the_package(evaluation, pyplot):
    assert orcu.figures.reliability.plot(evaluation) is pyplot.gca()
    assert "figures" in dir(orcu)


def test_make_returns_a_figure_with_axes():
    figure = orcu.figures.base.make("equilibrium", width="column", num_classes=3)
    assert len(figure.axes) == 3
    figure.axes[0].set_title("ours")


NOTEBOOK = """
import matplotlib
import numpy as np
from orcu import evaluate
from orcu.figures import reliability

rng = np.random.default_rng(0)
evaluation = evaluate(probs=rng.dirichlet(np.ones(3), size=30), y=rng.integers(3, size=30), n_resamples=0)
reliability.plot(evaluation)
assert matplotlib.is_interactive()  # or later figures would not be shown
"""
BACKEND = """
import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas

matplotlib.interactive(True)  # like the notebook backend at the first figure
"""


def test_plot_keeps_the_settings_of_the_notebook_backend(tmp_path):
    (tmp_path / "notebook_backend.py").write_text(BACKEND)
    environment = os.environ | {"MPLBACKEND": "module://notebook_backend"}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])
    process = subprocess.run(
        [sys.executable, "-c", NOTEBOOK], env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
