"""Every figure of the registry, drawn from real runs and looked at."""

from pathlib import Path

import matplotlib
import numpy as np
import pytest
from looking import faults

from orcu import InputError, Predictions
from orcu.errors import UnknownNameError
from orcu.figures.base import FIGURES, make
from orcu.figures.save import save
from orcu.figures.sources import Sources

NAMES = FIGURES.names()
PAPER = "intro update two_stage reliability tsne distributions scale gradcam curves gradient equilibrium"
STARTS = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}


def test_the_registry_has_the_papers_figures():
    assert set(PAPER.split()) == set(NAMES)
    for name in NAMES:
        kind = FIGURES.get(name)
        assert kind.title
        assert kind.paper
        assert bool(kind.needs) == bool(kind.command)


# The screen shows the page, larger: two of them stand for all.
SIZES = [(name, width) for name in NAMES for width in ("column", "page")]
SIZES += [("gradient", "screen"), ("update", "screen")]


def test_the_gallery_shows_every_figure():
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "figures.md").read_text()
    for name in NAMES:
        assert f"## `{name}`" in page
        assert f"`orcu figure {name}" in page
        if name != "gradcam":  # its images have a licence of their own
            assert f"(_static/figures/{name}.png)" in page
            assert (docs / "_static" / "figures" / f"{name}.png").stat().st_size < 60_000


@pytest.mark.parametrize(("name", "width"), SIZES)
def test_nothing_is_covered_cut_off_or_too_small(name, width, drawn):
    figure = drawn(name, width)
    assert figure.get_size_inches()[0] == {"column": 3.5, "page": 7.16, "screen": 10.0}[width]
    assert faults(figure) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_format_can_be_written(name, drawn, tmp_path):
    for suffix, start in STARTS.items():
        save(drawn(name, "page"), tmp_path / f"out.{suffix}", dpi=70)
        assert (tmp_path / f"out.{suffix}").read_bytes().startswith(start)
    assert b"/Type3" not in (tmp_path / "out.pdf").read_bytes()
    assert b"<text" in (tmp_path / "out.svg").read_bytes()


@pytest.mark.parametrize("name", ["gradcam", "tsne", "scale"])
def test_files_repeat_to_the_byte(name, drawn, sources_for, tmp_path):
    figures = drawn(name, "column"), make(name, sources_for(name), width="column")
    for suffix in STARTS if name == "gradcam" else ["svg"]:  # it has pictures beside text
        contents = []
        for number, figure in enumerate(figures):
            save(figure, tmp_path / f"{number}.{suffix}", dpi=70)
            contents.append((tmp_path / f"{number}.{suffix}").read_bytes())
        assert contents[0] == contents[1]


@pytest.mark.parametrize("name", [n for n in NAMES if FIGURES.get(n).needs])
def test_a_missing_source_is_told(name):
    with pytest.raises(InputError, match=f"^{name}: needs .*Make it with `orcu"):
        make(name)


def test_settings_of_the_user_stay(sources_for):
    before = dict(matplotlib.rcParams)
    with matplotlib.rc_context({"font.size": 30, "text.usetex": False}):
        figure = make("reliability", sources_for("reliability"))
    assert faults(figure) == []
    assert dict(matplotlib.rcParams) == before


def test_wrong_names_and_endings_are_refused(tmp_path):
    with pytest.raises(UnknownNameError, match="Did you mean 'tsne'"):
        make("tsen")
    with pytest.raises(UnknownNameError, match="option of figure 'gradient' 'scal'"):
        make("gradient", scal=3)
    with pytest.raises(UnknownNameError, match="unknown width 'pge'"):
        make("gradient", width="pge")
    figure = make("equilibrium")
    with pytest.raises(InputError, match=r"\.pdf, \.svg or \.png"):
        save(figure, tmp_path / "out.jpg")
    with pytest.raises(InputError, match="its folder does not exist"):
        save(figure, tmp_path / "nowhere" / "out.pdf")


def test_the_check_itself_finds_faults():
    figure = make("equilibrium", width="column", classes=3)
    figure.axes[1].set_ylabel("a label that runs into the panel beside it")
    figure.axes[1].yaxis.set_label_coords(-0.9, 0.5)
    figure.axes[0].title.set_fontsize(5)
    figure.axes[2].set_title("far beyond the edge of the figure", loc="left")
    found = " ".join(faults(figure))
    for fault in ("over a frame", "is 5.0 points", "is cut off", "is over 'far"):
        assert fault in found


def test_many_classes_and_long_names_fit(tmp_path):
    rng = np.random.default_rng(0)
    classes = [f"a rather long name of class {k}" for k in range(8)]
    y = rng.integers(8, size=300)
    paths = []
    for name in ("a model with a name that goes on and on", "orcu", "sord", "mine"):
        logits = rng.normal(size=(300, 8)) - np.abs(np.arange(8) - y[:, None])
        paths.append(tmp_path / f"{name}.parquet")
        Predictions(logits=logits, y=np.array(classes)[y], classes=classes).write(paths[-1])
    for name in ("reliability", "distributions", "intro"):
        assert faults(make(name, Sources(paths), width="column")) == []
    assert faults(make("equilibrium", classes=8, width="column")) == []
