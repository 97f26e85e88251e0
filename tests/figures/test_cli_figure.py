"""``orcu figure``."""

import numpy as np
import pytest
from command import assert_usage_error, run

from orcu import Predictions
from orcu.figures.base import FIGURES


def draw(*arguments):
    """Run ``orcu figure ARGUMENTS`` in the current folder."""
    return run("figure", *arguments, width=200)


@pytest.fixture
def predictions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=200)
    for name in ("ce", "orcu"):
        logits = rng.normal(size=(200, 4)) - np.abs(np.arange(4) - y[:, None])
        Predictions(logits=logits, y=y, ids=range(200)).write(tmp_path / f"{name}.parquet")
    return tmp_path


def test_figure_list_names_all_figures():
    result = draw("list")
    assert result.returncode == 0
    for name in FIGURES.names():
        assert name in result.stdout


def test_figure_from_named_files(predictions):
    sources = ("--from", "mine=orcu.parquet", "--from", "ce.parquet", "--losses", "ce,mine")
    result = draw("distributions", *sources, "--set", "n_examples=2", "-o", "out.svg")
    assert result.returncode == 0, result.stderr
    svg = (predictions / "out.svg").read_text()
    assert ">CE<" in svg
    assert ">mine<" in svg
    assert "wrote out.svg" in result.stdout


def test_figure_calibrator_is_applied_and_other_figures_are_named(results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = ("--from", results, "--losses", "ce,orcu", "--calibrator", "temperature")
    result = draw("reliability", "curves", *source, "-o", "out", "--format", "svg")
    assert result.returncode == 0, result.stderr
    assert "--calibrator changes nothing in curves" in result.stdout
    assert "(calibrator: temperature)" in (tmp_path / "out" / "reliability.svg").read_text()
    assert_usage_error(draw("curves", *source, "-o", "x.svg"), "--calibrator: not used by curves")


def test_figure_prints_what_is_not_drawn(predictions):
    (predictions / "third.parquet").write_bytes((predictions / "ce.parquet").read_bytes())
    result = draw(
        "distributions", "--from", "ce.parquet", "--from", "third.parquet", "--from", "orcu.parquet", "-o", "x.svg"
    )
    assert result.returncode == 0, result.stderr
    assert "distributions: shows ce, orcu, 2 of 3 losses; choose with --losses" in result.stdout
    assert "--losses" not in (predictions / "x.svg").read_text()


def test_figure_reads_files_with_the_input_options(predictions):
    rows = ["grade;z_low;z_high", *("low;1,5;0,2", "high;0,3;0,9", "low;0,1;0,4") * 10]
    (predictions / "own.csv").write_text("\n".join(rows))
    assert_usage_error(draw("reliability", "--from", "own.csv", "-o", "x.svg"))
    read = ("--label", "grade", "--logits", "z_*", "--classes", "low,high", "--sep", ";", "--decimal", ",")
    result = draw("reliability", "--from", "own.csv", "-o", "x.svg", *read)
    assert (result.returncode, result.stderr) == (0, "")
    assert "30 rows" in (predictions / "x.svg").read_text()
    assert_usage_error(draw("gradient", "-o", "y.svg", "--label", "grade"), "--label:", "--from")


def test_figure_draws_what_is_possible_and_reports_failures(predictions):
    result = draw("tsne", "reliability", "curves", "--from", "ce.parquet", "-o", "several", "--format", "svg")
    assert result.returncode == 2
    assert [path.name for path in (predictions / "several").iterdir()] == ["reliability.svg"]
    assert "wrote several/reliability.svg" in result.stdout
    assert [line.split()[:2] for line in result.stderr.splitlines()] == [["error:", "tsne:"], ["error:", "curves:"]]


def test_figure_output_that_cannot_be_written_is_a_usage_error(predictions):
    (predictions / "taken").write_text("")
    assert_usage_error(draw("gradient", "update", "-o", "taken/deep"), "--output taken/deep:")
    (predictions / "x.png").mkdir()
    assert_usage_error(draw("equilibrium", "-o", "x.png"), "x.png:")


CE, ORCU = ("--from", "ce.parquet"), ("--from", "orcu.parquet")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reliability", "--from", "a=ce.parquet", "--from", "a=orcu.parquet"], ["'a'"]),
        (["distributions", *CE, *ORCU, "--from", "b=ce.parquet", "--losses", "ce,orcu,b"], ["distributions:", "two"]),
        (["distributions", *CE, *ORCU, "--set", "n_examples=0"], ["n_examples:"]),
        (["intro", *CE, *ORCU, "--set", "n_examples=0"], ["n_examples:"]),
        (["intro", *CE, *ORCU, "--set", "min_unimodality=90"], ["min_unimodality:"]),
        (["intro", *CE, *ORCU, "--set", "max_ece=10"], ["max_ece:"]),
        (["reliability", *CE, "--set", "n_bins=0"], ["n_bins:"]),
        (["tsne", *CE, "--set", "seed=1"], ["'tsne'", "'seed'"]),
        (["gradient", "--set", "num_classes=2"], ["num_classes:"]),
        (["gradient", "--losses", "ce"], ["--losses:", "gradient"]),
        (["update", "--data", "lev"], ["--data:", "update"]),
        (["two_stage", "--losses", "ce"], ["--losses:", "two_stage"]),
        (["gradient", "--format", "svg"], ["--format svg:", "--output x.png"]),
        (["update", "--set", "true_class=one"], ["true_class:"]),
    ],
)
def test_figure_unusable_options_are_usage_errors(arguments, words, predictions):
    assert_usage_error(draw(*arguments, "-o", "x.png"), *words)
    assert not (predictions / "x.png").exists()


def test_figure_losses_are_drawn_once_in_the_given_order(predictions):
    result = draw("reliability", *CE, *ORCU, "--losses", "orcu,CE,orcu", "-o", "x.svg")
    assert (result.returncode, result.stderr) == (0, "")
    svg = (predictions / "x.svg").read_text()
    assert svg.count(">ORCU<") == svg.count(">CE<") == 1
    assert svg.index(">ORCU<") < svg.index(">CE<")
    assert "each file" in svg


def test_figure_all_draws_what_the_sources_allow(predictions):
    result = draw("all", *CE, *ORCU, "-o", "figures", "--format", "svg", "--set", "scale=5")
    assert result.returncode == 0
    drawn = {path.stem for path in (predictions / "figures").glob("*.svg")}
    assert drawn == {"distributions", "equilibrium", "gradient", "intro", "reliability", "update"}
    for name in set(FIGURES.names()) - drawn:
        assert f"skipped {name}: " in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tsen", "-o", "x.pdf"], ["'tsen'", "Did you mean 'tsne'"]),
        (["gradient"], ["--output:"]),
        (["gradient", "-o", "x.jpg"], [".pdf, .svg or .png"]),
        (["gradient", "update", "-o", "x.pdf"], ["--output x.pdf:", "folder"]),
        (["gradient", "-o", "x.pdf", "--set", "scale=much"], ["--set scale:", "'much'"]),
        (["gradient", "-o", "x.pdf", "--set", "scal=3"], ["'scal'", "Did you mean 'scale'"]),
        (["gradient", "update", "-o", "x", "--set", "scal=3"], ["'scal'", "Did you mean 'scale'"]),
        (["reliability", "-o", "x.pdf"], ["reliability:"]),
        (["reliability", "--from", "no.parquet", "-o", "x.pdf"], ["no.parquet"]),
        (["update", "--set", "logits=1,a", "-o", "x.pdf"], ["logits:"]),
    ],
)
def test_figure_usage_errors(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_usage_error(draw(*arguments), *words)
    assert not list(tmp_path.glob("x.*"))
