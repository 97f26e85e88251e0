"""Panels of one evaluation, as a notebook asks for them: axes come back, to be changed."""

import os
import subprocess
import sys

import matplotlib
import numpy as np
import pytest

import orcu
from orcu.errors import InputError, UnknownNameError
from orcu.figures import confidence, confusion, forest, referral, reliability

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
    options = {"codes": y, "classes": ["$5", "mild", "severe"], "group": ["north", "south"] * 150}
    sharp, calm = (orcu.Predictions(logits=factor * logits, **options) for factor in (1, 1 / 1.5))
    return orcu.evaluate(sharp, name="sharp", compare={"calm": calm}, bootstrap=50)


@pytest.fixture
def pyplot():
    """Pyplot without a window, and without figures left over."""
    matplotlib.use("agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


@pytest.mark.parametrize("name", PANELS)
def test_a_panel_gives_axes_of_a_figure_that_a_notebook_shows(name, evaluation, pyplot):
    before = dict(matplotlib.rcParams)
    ax = PANELS[name](evaluation)
    assert isinstance(ax, matplotlib.axes.Axes)
    assert pyplot.gcf() is ax.figure
    ax.set_title("ours")
    ax.figure.canvas.draw()
    assert ax.get_title() == "ours"
    assert dict(matplotlib.rcParams) == before  # the style is the panel's own
    assert not ax.spines["top"].get_visible()


@pytest.mark.parametrize("name", PANELS)
def test_a_panel_draws_on_axes_that_it_is_given(name, evaluation, pyplot):
    figure, (left, right) = pyplot.subplots(1, 2)
    assert PANELS[name](evaluation, ax=right) is right
    assert right.has_data()
    assert not left.has_data()
    assert pyplot.get_fignums() == [figure.number]


def test_a_reliability_diagram_shows_the_rows_of_its_class(evaluation, pyplot):
    ax = reliability.plot(evaluation, of="mild")
    weight, said, _ = evaluation.tables.classes[1]
    points = np.sort(np.concatenate([line.get_xdata() for line in ax.lines[1:]]))
    assert points == pytest.approx(np.sort(said[weight > 0] / weight[weight > 0]))
    assert ax.get_xlabel() == "probability of mild"
    assert reliability.plot(evaluation).get_xlabel() == "confidence"


def test_a_forest_has_a_line_for_each_model_or_group(evaluation, pyplot):
    assert [text.get_text() for text in forest.plot(evaluation, "mae").get_yticklabels()] == ["sharp", "calm"]
    groups = forest.plot(evaluation, "sce", by="group")
    assert [text.get_text() for text in groups.get_yticklabels()] == ["all", "north", "south"]


def test_what_a_panel_cannot_show_is_told(evaluation, pyplot):
    with pytest.raises(UnknownNameError, match=r"unknown class 'mid'. Did you mean 'mild'"):
        reliability.plot(evaluation, of="mid")
    with pytest.raises(UnknownNameError, match="unknown metric 'sec'"):
        forest.plot(evaluation, "sec")
    with pytest.raises(InputError, match="expected 'group' or 'model', got 'site'"):
        forest.plot(evaluation, "sce", by="site")
    with pytest.raises(InputError, match=r"no other group .* Predictions\(..., group=...\)"):
        forest.plot(evaluation.others[0], "sce", by="group")
    assert pyplot.get_fignums() == []  # no empty figure is left behind


def test_figures_are_reached_from_the_package_alone(evaluation, pyplot):
    assert orcu.figures.reliability.plot(evaluation) is pyplot.gca()
    assert "figures" in dir(orcu)


def test_a_whole_figure_has_its_axes():
    figure = orcu.figures.base.make("equilibrium", width="column", classes=3)
    assert len(figure.axes) == 3
    figure.axes[0].set_title("ours")


NOTEBOOK = """
import matplotlib
import numpy as np
from orcu import evaluate
from orcu.figures import reliability

rng = np.random.default_rng(0)
evaluation = evaluate(probs=rng.dirichlet(np.ones(3), size=30), y=rng.integers(3, size=30), bootstrap=0)
reliability.plot(evaluation)
assert matplotlib.is_interactive()  # or no later figure would be shown
"""
BACKEND = """
import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas

matplotlib.interactive(True)  # as the backend of notebooks does when the first figure starts it
"""


def test_the_first_figure_leaves_the_settings_of_a_notebook(tmp_path):
    (tmp_path / "notebook_backend.py").write_text(BACKEND)
    environment = os.environ | {"MPLBACKEND": "module://notebook_backend"}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
