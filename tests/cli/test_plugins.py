"""Plugins in the commands: what they register can be used; a faulty plugin is one warning line."""

import sys

import numpy as np
import pytest
from command import run
from plugins import EXAMPLE, distribution, example_distribution

from orcu import Predictions, metrics
from orcu.calibrators.base import CALIBRATORS
from orcu.data.base import DATASETS
from orcu.figures.base import FIGURES
from orcu.kernels.soft_targets import distances, distributions
from orcu.launchers import LAUNCHERS
from orcu.losses.base import LOSSES, REGULARIZERS
from orcu.metrics.base import METRICS, metric

REGISTRIES = (LOSSES, REGULARIZERS, distances, distributions, METRICS, CALIBRATORS, DATASETS, FIGURES, LAUNCHERS)

LOSS = """
from orcu.losses.base import LossCard, OrdinalLoss, {0}

@{0}(LossCard(name="{1}", title="A loss of a plugin", family="ordinal", paper="none", formula="{2}"))
class PluginPart(OrdinalLoss):
    def per_sample(self, logits, y):
        return {2}
"""
DISTANCE = (
    "from orcu.kernels.soft_targets import distances\n@distances.register('cubed')\ndef cubed(d):\n    return d ** 3\n"
)
FIGURE = """
from orcu.figures.base import FIGURES, Figure

@FIGURES.register("of_a_plugin")
class PluginPart(Figure):
    title, paper = "A figure of a plugin", "none"

    def make(self, sources, *, width):
        raise NotImplementedError
"""
LAUNCHER = """
from orcu.launchers import LAUNCHERS, Launcher

@LAUNCHERS.register("one_by_one")
class OneByOne(Launcher):
    def map_unordered(self, function, items):
        return enumerate(map(function, items))

    def __exit__(self, kind, error, trace):
        pass
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on ``sys.path`` for distributions; all registries search for plugins again, during one test only."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.syspath_prepend(EXAMPLE / "src")
    modules = set(sys.modules)
    for registry in REGISTRIES:
        registry.names()
        monkeypatch.setattr(registry, "_complete", False)
        monkeypatch.setattr(registry, "_components", dict(registry._components))
    yield folder
    for name in set(sys.modules) - modules:
        if getattr(sys.modules[name], "__file__", None) and str(sys.modules[name].__file__).startswith(str(folder)):
            del sys.modules[name]
    for name in [name for name in sys.modules if name.startswith("orcu_example_plugin")]:
        del sys.modules[name]


@pytest.fixture
def predictions_file(tmp_path):
    rng = np.random.default_rng(0)
    file = tmp_path / "preds" / "preds.parquet"
    file.parent.mkdir()
    logits = 3 * rng.normal(size=(300, 4))
    Predictions(logits=logits, y=rng.integers(4, size=300)).write(file)
    return file


def test_plugins_of_all_registries_are_available_in_the_commands(site, predictions_file, tmp_path):
    example_distribution(site)
    modules = {
        "loss_of_a_plugin": LOSS.format("register_loss", "plain", "-logits.log_softmax(1)[range(len(y)), y]"),
        "term_of_a_plugin": LOSS.format("register_regularizer", "small", "logits.square().mean(1)"),
        "distance_of_a_plugin": DISTANCE,
        "figure_of_a_plugin": FIGURE,
        "launcher_of_a_plugin": LAUNCHER,
    }
    groups = {
        "orcu.losses": {"one": "loss_of_a_plugin", "two": "term_of_a_plugin"},
        "orcu.targets": {"one": "distance_of_a_plugin"},
        "orcu.figures": {"one": "figure_of_a_plugin"},
        "orcu.launchers": {"one": "launcher_of_a_plugin"},
    }
    distribution(site, "every_axis", groups, modules)

    listed = run("losses", width=160).stdout
    for name in ("expected_distance", "plain", "small", "cubed"):
        assert name in listed
    assert "sum_k p_k |k - y|^power" in run("losses", "show", "expected_distance").stdout
    assert "comes with orcu-example-plugin" in run("data", "list", width=160).stdout
    assert "exams.csv with the columns hours" in run("data", "info", "example_exams").stdout
    assert "A figure of a plugin" in run("figure", "list", width=160).stdout
    evaluated = run("evaluate", predictions_file, "--fail-if", "far_off<0.01", "--n-resamples", "0")
    assert evaluated.returncode == 0, evaluated.stderr
    assert "Two classes off" in evaluated.stdout
    assert run("evaluate", predictions_file.parent, "--launcher", "one_by_one", "--n-resamples", "0").returncode == 0
    assert "Did you mean 'one_by_one'" in run("evaluate", predictions_file.parent, "--launcher", "one_by_on").stderr
    fitted = run(
        "calibrate", "fit", predictions_file, "--calibrator", "smoothing+projection", "-o", tmp_path / "c.json"
    )
    assert fitted.returncode == 0, fitted.stderr
    planned = run("bench", "plan", EXAMPLE / "spec.toml", "--results", tmp_path / "results")
    assert planned.returncode == 0, planned.stderr
    assert "8 runs: 8 pending" in planned.stdout


def test_faulty_plugins_are_warning_lines_and_the_command_works(site, predictions_file):
    example_distribution(site)
    code = "from orcu.calibrators.base import CALIBRATORS\n@CALIBRATORS.register('gap')\nclass Mine: ...\n"
    modules = {"takes_gap": code, "takes_none": "", "has_a_fault": "import not_there_at_all"}
    distribution(site, "wrong", {"orcu.calibrators": {name: name for name in modules}}, modules)
    output = predictions_file.with_name("c.json")
    result = run("calibrate", "fit", predictions_file, "--calibrator", "smoothing", "-o", output, width=400)
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith("warning: ") and "plugin" in line]
    assert len(lines) == 3
    expected = (
        ("takes_gap", "InputError", "'gap'", "orcu.calibrators.gap.GapScaling", "takes_gap.Mine"),
        ("takes_none", "orcu.calibrators"),
        ("has_a_fault", "ModuleNotFoundError"),
    )
    for line, words in zip(lines, expected, strict=True):
        assert all(word in line for word in ("wrong", *words)), line


def test_faulty_plugin_of_two_registries_is_one_warning(site):
    distribution(site, "faulty", {"orcu.losses": {"one": "faulty_losses"}}, {"faulty_losses": "1 / 0"})
    result = run("losses", width=160)
    assert result.returncode == 0
    lines = [line for line in result.stderr.splitlines() if "faulty_losses" in line]
    assert len(lines) == 1
    assert lines[0].startswith("warning: ")
    assert "ZeroDivisionError" in lines[0]
    assert "Traceback" not in result.stderr
    assert "orcu" in result.stdout


def test_metric_registered_again_replaces_the_first_one(site):
    def cell(factor):
        @metric("of_a_cell", "Of a cell", family="decision", better="lower")
        def of_a_cell(sums):
            return factor * sums.total

        return of_a_cell

    cell(1)
    again = cell(2)
    assert METRICS.get("of_a_cell") is again
    assert not hasattr(metrics, "of_a_cell")
