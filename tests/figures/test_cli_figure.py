"""``orcu figure`` as a user types it."""

import numpy as np
import pytest
from command import run

from orcu import Predictions
from orcu.cli import main
from orcu.figures.base import FIGURES


@pytest.fixture
def here(monkeypatch, capsys):
    """The command in this process, which has imported everything already: exit code, stdout, stderr."""

    def told(*arguments):
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr("sys.argv", ["orcu", "figure", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code or 0, *capsys.readouterr()

    return told


@pytest.fixture
def predictions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=200)
    for name in ("ce", "orcu"):
        logits = rng.normal(size=(200, 4)) - np.abs(np.arange(4) - y[:, None])
        Predictions(logits=logits, y=y, ids=range(200)).write(tmp_path / f"{name}.parquet")
    return tmp_path


def test_the_list_names_every_figure(here):
    code, out, _ = here("list")
    assert code == 0
    for name in FIGURES.names():
        assert name in out


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


def test_all_that_the_sources_can_give(predictions, here):
    code, out, _ = here(
        "all", "--from", "ce.parquet", "--from", "orcu.parquet", "-o", "figures", "--format", "svg",
        "--set", "scale=5",
    )  # fmt: skip
    assert code == 0
    made = {path.stem for path in (predictions / "figures").glob("*.svg")}
    assert made == {"distributions", "equilibrium", "gradient", "intro", "reliability", "update"}
    for name in set(FIGURES.names()) - made:
        assert f"left out {name}: needs" in out


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
def test_mistakes_are_one_line(arguments, message, tmp_path, monkeypatch, here):
    monkeypatch.chdir(tmp_path)
    code, _, error = here(*arguments)
    assert code == 2
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not list(tmp_path.glob("x.*"))
