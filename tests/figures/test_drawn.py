"""All figures of the registry, drawn from real runs and checked for overlaps."""

import json
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from looking import faults
from matplotlib.text import Text

from orcu import InputError, Predictions
from orcu.errors import UnknownNameError
from orcu.figures.base import FIGURES, make
from orcu.figures.panels import critical_difference
from orcu.figures.save import save
from orcu.figures.sources import Sources
from orcu.figures.titles import loss_title

NAMES = FIGURES.names()
PAPER = "intro update two_stage reliability tsne distributions scale gradcam curves gradient equilibrium"
ADDED = "critical_difference"
STARTS = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}


def test_registry_has_the_papers_figures():
    assert {*PAPER.split(), ADDED} == set(NAMES)
    for name in NAMES:
        kind = FIGURES.get(name)
        assert kind.__module__ == f"orcu.figures.panels.{name}"  # the module has the name of the figure
        assert kind.title
        assert kind.paper
        assert bool(kind.needs) == bool(kind.command)


# The screen width is a scaled page, so two figures are enough.
SIZES = [(name, width) for name in NAMES for width in ("column", "page")]
SIZES += [("gradient", "screen"), ("update", "screen")]


def test_gallery_shows_every_figure():
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "figures.md").read_text()
    for name in NAMES:
        assert f"## `{name}`" in page
        assert f"`orcu figure {name}" in page
        if name != "gradcam":  # its images have another licence
            assert f"(_static/figures/{name}.png)" in page
            assert (docs / "_static" / "figures" / f"{name}.png").stat().st_size < 60_000


@pytest.mark.parametrize(("name", "width"), SIZES)
def test_make_has_no_overlapping_cut_off_or_small_text(name, width, drawn):
    figure = drawn(name, width)
    assert figure.get_size_inches()[0] == {"column": 3.5, "page": 7.16, "screen": 10.0}[width]
    assert faults(figure) == []


@pytest.mark.parametrize("name", NAMES)
def test_save_writes_every_format(name, drawn, tmp_path):
    for suffix, start in STARTS.items():
        save(drawn(name, "page"), tmp_path / f"out.{suffix}", dpi=70)
        assert (tmp_path / f"out.{suffix}").read_bytes().startswith(start)
    assert b"/Type3" not in (tmp_path / "out.pdf").read_bytes()
    assert b"<text" in (tmp_path / "out.svg").read_bytes()


@pytest.mark.parametrize("name", ["gradcam", "tsne", "scale"])
def test_save_gives_the_same_bytes(name, drawn, sources_for, tmp_path):
    figures = drawn(name, "column"), make(name, sources_for(name), width="column")
    for suffix in STARTS if name == "gradcam" else ["svg"]:  # it has bitmaps and text
        contents = []
        for number, figure in enumerate(figures):
            save(figure, tmp_path / f"{number}.{suffix}", dpi=70)
            contents.append((tmp_path / f"{number}.{suffix}").read_bytes())
        assert contents[0] == contents[1]


@pytest.mark.parametrize("name", [n for n in NAMES if FIGURES.get(n).needs])
def test_make_without_its_input_raises_and_names_the_command(name):
    with pytest.raises(InputError, match=f"^{name}: .*--from.*`orcu"):
        make(name)


def test_make_restores_the_settings_of_the_user(sources_for):
    before = dict(matplotlib.rcParams)
    with matplotlib.rc_context({"font.size": 30, "text.usetex": False}):
        figure = make("reliability", sources_for("reliability"))
    assert faults(figure) == []
    assert dict(matplotlib.rcParams) == before


def test_make_and_save_invalid_names_raise(tmp_path):
    with pytest.raises(UnknownNameError, match="'tsne'"):
        make("tsen")
    with pytest.raises(UnknownNameError, match="option of figure 'gradient' 'scal'"):
        make("gradient", scal=3)
    with pytest.raises(UnknownNameError, match="unknown width 'pge'"):
        make("gradient", width="pge")
    figure = make("equilibrium")
    with pytest.raises(InputError, match=r"\.pdf, \.svg or \.png"):
        save(figure, tmp_path / "out.jpg")
    with pytest.raises(InputError, match=r"nowhere/out\.pdf: .*folder"):
        save(figure, tmp_path / "nowhere" / "out.pdf")


def test_faults_detects_overlaps_and_small_text():
    figure = make("equilibrium", width="column", num_classes=3)
    figure.axes[1].set_ylabel("a label that overlaps the next panel")
    figure.axes[1].yaxis.set_label_coords(-0.9, 0.5)
    figure.axes[0].title.set_fontsize(5)
    figure.axes[2].set_title("far beyond the edge of the figure", loc="left")
    messages = " ".join(faults(figure))
    for message in ("over a frame", "is 5.0 points", "is cut off", "is over 'far"):
        assert message in messages


def caption(figure):
    return " ".join(figure.get_supxlabel().split())


def tick_labels(ax):
    return [label.get_text() for label in ax.get_xticklabels()]


def write_sources(tmp_path, classes, names=("sord", "orcu"), rows=300):
    rng = np.random.default_rng(0)
    y = rng.integers(len(classes), size=rows)
    for name in names:
        logits = 3 * rng.normal(size=(rows, len(classes)))
        logits -= np.abs(np.arange(len(classes)) - y[:, None])
        predictions = Predictions(logits=logits, y=np.array(classes)[y], classes=classes)
        predictions.write(tmp_path / f"{name}.parquet")
    return Sources([tmp_path / f"{name}.parquet" for name in names])


def test_titles_and_axes_use_the_same_class_names(drawn, tmp_path):
    short = drawn("distributions", "page")  # LEV has the classes 1..5
    assert tick_labels(short.axes[0]) == ["1", "2", "3", "4", "5"]
    label = int(short.axes[0].lines[0].get_xdata()[0])  # position of the dashed line
    assert short.axes[0].get_title() == f"label {label + 1}"
    assert short.axes[0].get_ylabel() == "(a) both correct\nprobability"
    tops = [ax for ax in drawn("intro", "page").axes if ax.axison and ax.get_xlabel() == "class"]
    assert tops
    assert all(tick_labels(ax) == ["1", "2", "3", "4", "5"] for ax in tops)
    sources = write_sources(tmp_path, ["functional", "possibly defective", "defective"])
    long = make("distributions", sources)
    assert tick_labels(long.axes[1]) == ["0", "1", "2"]
    assert long.axes[1].get_title() == "label possibly defective (1)"
    names = [text.get_text() for text in make("intro", sources).legends[0].get_texts()]
    assert names[:2] == ["label functional (0)", "label defective (2)"]


def test_captions_name_the_rows_and_the_rules(drawn, sources_for, tmp_path, results):
    assert caption(drawn("distributions", "page")).startswith("LEV; test rows of all folds that")
    assert "15 bins, test rows of all folds;" in caption(drawn("reliability", "page"))
    assert caption(drawn("tsne", "page")) == "test rows of the first fold, at most 1,500, evenly spaced"
    assert "mean ranks of SCE over 5 data sets, 1 is best; Friedman test: p = " in caption(
        drawn("critical_difference", "page")
    )
    assert "labels without such an image are left out" in caption(drawn("gradcam", "page"))
    assert "pale bars: fewer than 30 rows" in caption(drawn("intro", "page"))
    assert "k: lower class of the pair" in caption(drawn("gradient", "page"))
    stages = drawn("two_stage", "page")
    assert "band: one standard deviation" in caption(stages)
    assert "without SoftCE, which has no regularizer" in caption(stages)
    names = [text.get_text() for text in stages.legends[0].get_texts()]
    assert names == ["SoftCE", "SoftCE + hinge", "ORCU"]
    files = write_sources(tmp_path, ["a", "b", "c"])
    assert caption(make("distributions", files)).startswith("rows of each file that both predict")
    assert "below: rows of each file, pale" in caption(make("intro", files))
    sources = Sources([results])
    sources.datasets = lambda: ["lev", "other"]
    for name in ("distributions", "intro"):
        assert caption(make(name, sources)).startswith("LEV; ")
    assert sources.notes == [
        "distributions: shows sord, orcu, 2 of 6 losses; choose with --losses",
        "distributions: shows lev, 1 of 2 data sets; choose with --data",
        "intro: shows lev, 1 of 2 data sets; choose with --data",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_make_writes_no_options_of_the_command_line_into_the_picture(name, drawn):
    texts = [text.get_text() for text in drawn(name, "page").findobj(Text)]
    assert not [text for text in texts if "--" in text]


def test_tsne_figure_draws_every_loss(drawn):
    titles = [ax.get_title() for ax in drawn("tsne", "page").axes if ax.has_data()]
    assert titles == ["CE", "SORD", "LS", "ORCU", "s = 1", "s = 5"]


def test_gradcam_figure_of_many_losses_draws_the_papers_and_says_so(image_runs, monkeypatch):
    pytest.importorskip("captum")
    monkeypatch.setattr("orcu.figures.panels.gradcam.MOST", 3)
    monkeypatch.setattr("orcu.figures.panels.gradcam.SHOWN", ("ce", "orcu"))
    sources = Sources(image_runs)
    figure = make("gradcam", sources, n_examples=1)
    assert [ax.get_title() for ax in figure.axes] == ["image", "CE", "ORCU"]
    assert sources.notes == ["gradcam: shows ce, orcu, 2 of 4 losses; choose with --losses"]
    chosen = Sources(image_runs, losses=["ls", "ce", "sord", "orcu"])
    assert len(make("gradcam", chosen, n_examples=1).axes) == 5
    assert chosen.notes == []


def test_scale_figure_caption_names_the_criterion_of_each_data_set(results, tmp_path):
    folder = tmp_path / "results" / "small"
    folder.mkdir(parents=True)
    (folder.parent / "runs").symlink_to(results.parent / "runs")
    entries = json.loads((results / "runs.json").read_text())
    both = [entry | {"select": "sce"} for entry in entries]
    both += [entry | {"data": "sst5", "select": "ece"} for entry in entries]
    (folder / "runs.json").write_text(json.dumps(both))
    assert caption(make("scale", Sources([folder]))).endswith(
        "dashed: selected s, lowest SCE (LEV) or lowest ECE (SST-5)"
    )


def test_critical_difference_figure_shows_ranks_and_groups(drawn, ranked):
    test = critical_difference.data(Sources([ranked]))
    texts = [text.get_text() for text in drawn("critical_difference", "page").axes[0].texts]
    for name, mean in zip(test.models, test.mean_ranks, strict=True):
        assert {f"{loss_title(name)} {mean:.2f}", f"{mean:.2f} {loss_title(name)}"} & set(texts)
    assert f"critical difference {test.critical_difference:.2f}" in texts
    bars = [line for line in drawn("critical_difference", "page").axes[0].lines if line.get_linewidth() == 2.6]
    assert len(bars) == len(test.groups) == 3
    sources = Sources([ranked], data=["lev", "swd"])
    with pytest.raises(InputError, match="critical_difference: ranks need at least 3 data sets"):
        make("critical_difference", sources)


def test_ece_text_is_above_the_bars(drawn):
    for name in ("reliability", "intro"):
        figure = drawn(name, "page")
        texts = [(ax, t) for ax in figure.axes for t in ax.texts if t.get_text().startswith("ECE")]
        assert len(texts) >= 4 if name == "reliability" else texts
        for ax, text in texts:
            assert text.get_window_extent().y0 >= ax.get_window_extent().y1


def test_legend_has_the_colour_of_the_gap(tmp_path):
    figure = make("reliability", write_sources(tmp_path, ["a", "b", "c"], rows=12))  # all bins are pale
    handles = figure.legends[0].legend_handles
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    swatch = dict(zip(names, handles, strict=True))["gap"]
    assert matplotlib.colors.to_hex(swatch.get_facecolor()) == "#c2571a"


@pytest.mark.slow
def test_many_classes_have_few_ticks_and_unclipped_markers(tmp_path):
    sources = write_sources(tmp_path, [f"class {k}" for k in range(40)])
    logits = ",".join(str(-abs(k - 20)) for k in range(40))
    figures = [make(name, sources) for name in ("distributions", "intro")]
    for figure in [*figures, make("update", logits=logits), make("equilibrium", num_classes=24)]:
        assert faults(figure) == []
    for figure in figures:
        lines = [line for line in figure.axes[0].lines if line.get_marker() not in ("", "None")]
        assert lines
        assert not any(line.get_clip_on() for line in lines)


@pytest.mark.parametrize("scale", [0.05, 0.3, 60.0])
@pytest.mark.parametrize("width", ["column", "page"])
def test_gradient_figure_is_legible_at_any_scale(scale, width):
    figure = make("gradient", scale=scale, width=width)
    assert faults(figure) == []
    for ax in figure.axes:
        low, high = ax.get_xlim()
        assert low <= -4 / scale**2
        assert 2 <= sum(low <= tick <= high for tick in ax.get_xticks()) <= 6


def test_update_figure_numbers_panels_and_counts_gaps(drawn):
    figure = drawn("update", "page")
    assert [ax.get_title()[:3] for ax in figure.axes] == [f"({x})" for x in "abcdef"]
    assert [text.get_text() for text in figure.axes[0].texts] == ["7 gaps"]
    small = make("update", logits="-1,0,-1;0,1,2,3")  # the middle class is the true class
    positions = [ax.lines[0].get_xdata()[0] for ax in (small.axes[1], small.axes[4])]
    assert positions == [1, 1]
    assert make("gradient", num_classes=3) is not None


def test_long_names_are_not_shortened_if_they_fit(tmp_path):
    figure = make("reliability", write_sources(tmp_path, ["a", "b"], ("ResNet, last epoch", "orcu")))
    assert "ResNet, last epoch" in [ax.get_title() for ax in figure.axes]
    assert faults(figure) == []


@pytest.mark.slow
def test_many_classes_and_long_names_do_not_overlap(tmp_path):
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
    assert faults(make("equilibrium", num_classes=8, width="column")) == []
