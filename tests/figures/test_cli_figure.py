"""``orcu figure`` as a user types it."""

import numpy as np
import pytest
from command import run
from typer.testing import CliRunner

from orcu import Predictions
from orcu.cli import app
from orcu.figures.base import FIGURES


def here(*arguments):
    """The command in this process, which has imported everything already."""
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["figure", *map(str, arguments)])


@pytest.fixture
def predictions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=200)
    for name in ("ce", "orcu"):
        logits = rng.normal(size=(200, 4)) - np.abs(np.arange(4) - y[:, None])
        Predictions(logits=logits, y=y, ids=range(200)).write(tmp_path / f"{name}.parquet")
    return tmp_path


def test_the_list_names_every_figure():
    told = here("list")
    assert told.exit_code == 0, told.output
    for name in FIGURES.names():
        assert name in told.stdout


def test_one_figure_from_named_files(predictions):
    told = run(
        "figure", "distributions", "--from", "mine=orcu.parquet", "--from", "ce.parquet",
        "--losses", "ce,mine", "--set", "count=2", "-o", "out.svg", cwd=predictions,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    svg = (predictions / "out.svg").read_text()
    assert ">CE<" in svg
    assert ">mine<" in svg
    assert "wrote out.svg" in told.stdout


def test_all_that_the_sources_can_give(predictions):
    told = here(
        "all", "--from", "ce.parquet", "--from", "orcu.parquet", "-o", "figures", "--format", "svg",
        "--set", "scale=5",
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    made = {path.stem for path in (predictions / "figures").glob("*.svg")}
    assert made == {"distributions", "equilibrium", "gradient", "intro", "reliability", "update"}
    for name in set(FIGURES.names()) - made:
        assert f"left out {name}: needs" in told.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tsen", "-o", "x.pdf"], "Did you mean 'tsne'"),
        (["gradient"], "-o: say where to write"),
        (["gradient", "-o", "x.jpg"], "ends in .pdf, .svg or .png"),
        (["gradient", "update", "-o", "x.pdf"], "several figures go into a folder"),
        (["gradient", "-o", "x.pdf", "--set", "scale=much"], "--set scale: expected a number"),
        (["gradient", "-o", "x.pdf", "--set", "scal=3"], "Did you mean 'scale'"),
        (["gradient", "update", "-o", "x", "--set", "scal=3"], "Did you mean 'scale'"),
        (["reliability", "-o", "x.pdf"], "reliability: needs test predictions"),
        (["reliability", "--from", "no.parquet", "-o", "x.pdf"], "no such file"),
        (["update", "--set", "logits=1,a", "-o", "x.pdf"], "logits: expected numbers"),
    ],
)
def test_mistakes_are_one_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = here(*arguments)
    assert told.exit_code == 3
    assert message in told.stderr
    assert len(told.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.glob("x.*"))
