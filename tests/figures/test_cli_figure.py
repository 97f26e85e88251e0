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
        "figure",
        "distributions",
        "--from",
        "mine=orcu.parquet",
        "--from",
        "ce.parquet",
        "--losses",
        "ce,mine",
        "--set",
        "count=2",
        "-o",
        "out.svg",
        cwd=predictions,
    )
    assert told.returncode == 0, told.stderr
    svg = (predictions / "out.svg").read_text()
    assert ">CE<" in svg
    assert ">mine<" in svg
    assert "wrote out.svg" in told.stdout


def test_foreign_files_are_read_as_the_options_say(predictions, here):
    rows = ["grade,z_low,z_high", *("low,1.5,0.2", "high,0.3,0.9", "low,0.1,0.4") * 10]
    (predictions / "own.csv").write_text("\n".join(rows))
    code, _, error = here("reliability", "--from", "own.csv", "-o", "x.svg")
    assert code == 2
    read = ("--label", "grade", "--logits", "z_*", "--classes", "low,high")
    code, _, error = here("reliability", "--from", "own.csv", "-o", "x.svg", *read)
    assert (code, error) == (0, "")
    assert "rows of the file" in (predictions / "x.svg").read_text()
    code, _, error = here("gradient", "-o", "y.svg", "--label", "grade")
    assert (code, "--label: only files" in error) == (2, True)


def test_what_can_be_drawn_is_and_the_rest_is_told(predictions, here):
    code, out, error = here("tsne", "reliability", "curves", "--from", "ce.parquet", "-o", "several", "--format", "svg")
    assert code == 2
    assert [path.name for path in (predictions / "several").iterdir()] == ["reliability.svg"]
    assert "wrote several/reliability.svg" in out
    assert [line.split()[:2] for line in error.splitlines()] == [["error:", "tsne:"], ["error:", "curves:"]]


def test_what_cannot_be_written_is_told(predictions, here, monkeypatch):
    (predictions / "taken").write_text("")
    code, _, error = here("gradient", "update", "-o", "taken/deep")
    assert (code, "-o taken/deep: cannot be written" in error) == (2, True)
    (predictions / "x.png").mkdir()
    code, _, error = here("equilibrium", "-o", "x.png")
    assert (code, "x.png: cannot be written" in error) == (2, True)
    assert len(error.splitlines()) == 1


CE, ORCU = ("--from", "ce.parquet"), ("--from", "orcu.parquet")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reliability", "--from", "a=ce.parquet", "--from", "a=orcu.parquet"], "both hold 'a'"),
        (["distributions", *CE, *ORCU, "--from", "b=ce.parquet", "--losses", "ce,orcu,b"], "compares two losses"),
        (["distributions", *CE, *ORCU, "--set", "count=0"], "count: expected a whole number from 1"),
        (["intro", *CE, *ORCU, "--set", "count=0"], "count: expected a whole number from 1"),
        (["intro", *CE, *ORCU, "--set", "unimodal=90"], "unimodal: expected a share above 0 and up to 1"),
        (["intro", *CE, *ORCU, "--set", "calibrated=10"], "calibrated: expected a share"),
        (["reliability", *CE, "--set", "bins=0"], "bins: expected a whole number from 1"),
        (["tsne", *CE, "--set", "seed=1"], "unknown option of figure 'tsne' 'seed'"),
        (["gradient", "--set", "classes=2"], "classes: expected at least 3"),
        (["gradient", "--losses", "ce"], "--losses: gradient has no losses to choose from"),
        (["update", "--data", "lev"], "--data: update has no data to choose from"),
        (["two_stage", "--losses", "ce"], "--losses: two_stage has no losses"),
        (["gradient", "--format", "svg"], "--format svg: -o x.png says png"),
        (["update", "--set", "label=one"], "label: expected a whole number"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message, predictions, here):
    code, _, error = here(*arguments, "-o", "x.png")
    assert code == 2
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not (predictions / "x.png").exists()


def test_repeated_losses_count_once_in_the_order_given(predictions, here):
    code, _, error = here("reliability", *CE, *ORCU, "--losses", "orcu,CE,orcu", "-o", "x.svg")
    assert (code, error) == (0, "")
    svg = (predictions / "x.svg").read_text()
    assert svg.count(">ORCU<") == svg.count(">CE<") == 1
    assert svg.index(">ORCU<") < svg.index(">CE<")
    assert "rows of each file" in svg


def test_all_that_the_sources_can_give(predictions, here):
    code, out, _ = here(
        "all", "--from", "ce.parquet", "--from", "orcu.parquet", "-o", "figures", "--format", "svg", "--set", "scale=5"
    )
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
