"""Tables for a paper: names, rules, comments, provenance, and the paper's orientation."""

import csv
import io
import re

import pandas as pd
import pytest

from orcu.bench.jobs import State, jobs
from orcu.bench.paper import PAPER_LOSSES, PAPER_METRICS, paper_layout, paper_text, published
from orcu.bench.plan import Plan, PlannedRun
from orcu.bench.spec import load_spec
from orcu.bench.tables import Table, lines
from orcu.figures.titles import loss_title, metric_title
from orcu.report.text_tables import Cell

SPEC = """
name = "small"
losses = ["ce", "cdw_ce", "orcu"]
calibrators = ["none", "temperature"]
columns = ["sce", "qwk"]
seeds = [3, 5]
[[data]]
set = "image_aesthetics"
protocol = "paper"
folds = [0, 1]
backbone = "resnet50"
[[data]]
set = "sst5"
protocol = "paper"
backbone = "bert-tiny"
"""


def records(spec, *, metrics=None):
    """One record for each loss, calibrator, fold and seed, with different values."""
    rows = []
    for data in spec.data:
        for number, loss in enumerate(loss for loss in spec.row_names if loss not in data.exclude):
            for calibrator in spec.calibrator_names:
                for fold in (0, 1):
                    values = dict.fromkeys(metrics or spec.columns, 0.1 * (2 + number) + 0.01 * fold)
                    key = {"data": data.title, "loss": loss, "calibrator": calibrator, "fold": fold, "seed": 0}
                    rows.append({**key, "qwk": 0.5, **values})
    return rows


def finished_table(path, tmp_path, *, baseline=None, marks=None):
    """The table of a benchmark whose runs are all finished, without running them."""
    spec = load_spec(path)
    runs = [PlannedRun(job, State.FINISHED, "id") for job in jobs(spec)]
    plan = Plan(spec, tmp_path / "results", runs, str(path))
    return Table(plan, lines(spec, records(spec), marks), [], baseline)


@pytest.fixture
def spec_path(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SPEC)
    return path


def test_titles_of_losses_and_metrics_are_the_papers():
    assert all(loss_title(name) == title for title, name in PAPER_LOSSES.items())
    numbers = published()
    assert {number.loss for number in numbers if number.table == "main"} < {*map(loss_title, PAPER_LOSSES.values())}
    for title, name in PAPER_METRICS.items():
        if "feasible" not in title:
            assert metric_title(name) == title


def test_table_text_latex_has_names_rules_packages_and_legend(spec_path, tmp_path):
    marks = {("image_aesthetics", "orcu", "none", "sce"): "▼"}
    text = finished_table(spec_path, tmp_path, baseline="ce", marks=marks).text("latex")
    comments = [line for line in text.splitlines() if line.startswith("%")]
    assert comments[0] == r"% \usepackage{booktabs, multirow, amssymb}"
    assert "test rows; mean and sample standard deviation over 2 folds x 2 seeds (Image Aesthetics)" in comments[1]
    assert "bold: best, underlined: second best" in comments[2]
    assert "triangle up: significantly better than CE" in comments[3]
    assert "% spec: small" in comments
    assert "% seeds: 3 5" in comments
    assert any(re.match(r"% versions of the table: python .*, orcu .*, numpy ", line) for line in comments)
    body = [line for line in text.splitlines() if not line.startswith("%")]
    assert body[0] == r"\begin{tabular}{lllrr}"
    assert body[1:4] == [
        r"\toprule",
        r"Data set & Calibrator & Loss & SCE (\%) $\downarrow$ & QWK $\uparrow$ \\",
        r"\midrule",
    ]
    assert body[4].startswith(
        r"\multirow{6}{*}{Image Aesthetics} & \multirow{3}{*}{none} & CE & \textbf{20.50 $\pm$0.71}"
    )
    assert body[5].startswith(" &  & CDW-CE & ")
    assert body[6].startswith(" &  & ORCU & 40.50 $\\pm$0.71 $\\blacktriangledown$")
    assert body[7] == r"\cmidrule(l){2-5}"
    assert body[11] == r"\midrule"
    assert body[12].startswith(r"\multirow{6}{*}{SST-5} & ")
    assert body[-2:] == [r"\bottomrule", r"\end{tabular}"]
    rows = [line for line in body if line.endswith(r"\\")]
    assert {line.count(" & ") for line in rows} == {4}


def test_table_text_csv_is_read_by_any_reader_and_has_provenance_columns(spec_path, tmp_path):
    table = finished_table(spec_path, tmp_path, baseline="ce")
    text = table.text("csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    frame = pd.read_csv(io.StringIO(text), comment="#")
    assert len(rows) == len(frame) == 12
    assert frame["sce"].dtype == float
    assert {row["spec"] for row in rows} == {"small"}
    assert {row["seeds"] for row in rows} == {"3 5"}
    assert {row["runs"] for row in rows} == {"18 of 18"}
    assert {row["run_versions"] for row in rows} == {"not recorded"}
    assert "numpy" in rows[0]["table_versions"]
    # with a baseline the columns of marks exist also if nothing is significant
    assert {row["sce_vs_baseline"] for row in rows} == {""}
    assert {row["baseline"] for row in rows} == {"ce"}
    marks = {("sst5", "orcu", "none", "sce"): "▲", ("sst5", "orcu", "none", "qwk"): "▼"}
    rows = list(
        csv.DictReader(io.StringIO(finished_table(spec_path, tmp_path, baseline="ce", marks=marks).text("csv")))
    )
    marked = next(row for row in rows if (row["data"], row["loss"], row["calibrator"]) == ("sst5", "orcu", "none"))
    assert (marked["sce_vs_baseline"], marked["qwk_vs_baseline"]) == ("better", "worse")
    assert "sce_vs_baseline" not in finished_table(spec_path, tmp_path).text("csv")


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_table_text_provenance_is_a_comment_below_the_table(form, spec_path, tmp_path):
    text = finished_table(spec_path, tmp_path).text(form)
    assert text.startswith("| data |" if form == "markdown" else "<table>")
    last = text.splitlines()[-1]
    assert last.startswith("<!-- spec: small; runs: 18 of 18; seeds: 3 5; versions of the runs: not recorded; ")
    assert last.endswith(" -->")


def test_paper_layout_of_the_ablation_has_a_row_for_each_combination():
    spec = load_spec("ablation")
    (table,) = paper_layout(spec, lines(spec, records(spec)), paper=True)
    titles = ["SCE (%) ↓", "ACE (%) ↓", "ECE (%) ↓", "Unimodal (%) ↑"]
    assert table.headings == ["data", "distance", "regularizer", "source", *titles]
    assert table.rows[0][:4] == ["Diabetic Retinopathy", "Squared", "-", "ours"]
    assert table.rows[1][3:5] == ["paper", "4.08 ± 0.17"]
    ours = [row[:3] for row in table.rows if row[3] == "ours"]
    assert len(ours) == 9 + 3 * 8
    assert ours[5:7] == [["Diabetic Retinopathy", "Squared", "LBE"], ["Diabetic Retinopathy", "Absolute", "LBE"]]
    latex = table.text("latex")
    assert r"\multirow{18}{*}{Diabetic Retinopathy} & \multirow{12}{*}{Squared} & \multirow{2}{*}{-} & ours" in latex
    assert latex.count(r"\midrule") == 4
    assert r"\cmidrule" not in latex


def test_paper_layout_of_the_two_stage_diagnostic_has_a_row_for_each_branch():
    spec = load_spec("two_stage")
    rows = records(spec)
    for row in rows:
        row["alignment"] = 0.0866
        if row["loss"] == "sord":
            del row["alignment"], row["feasible_active"]
    (table,) = paper_layout(spec, lines(spec, rows), paper=True)
    assert table.title == "Table II, Image Aesthetics"
    assert table.headings == ["branch", "source", "Act. (%) ↑", "A_TF ↑", "SCE on F (%) ↓", "ECE on F (%) ↓"]
    assert [row[0] for row in table.rows[::2]] == ["SORD", "Hinge", "ORCU"]
    assert table.rows[1][2:] == ["-", "-", "16.87", "41.62"]
    assert table.rows[3][3] == "0.0626"  # four digits, not in percent
    assert isinstance(table.rows[4][3], Cell)
    assert table.rows[4][3].text == "0.0866 ± 0.0000"
    assert r"$A_{\mathrm{TF}}$ $\uparrow$" in table.text("latex")


def test_paper_text_csv_has_one_header_and_names_the_table(tmp_path):
    text = paper_text(finished_table("main", tmp_path), "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["table"] for row in rows} == {"Table III", "Table IV and appendix Table IV"}
    assert {row["spec"] for row in rows} == {"main"}
    assert rows[0]["CDW-CE"] == "40.50 ± 0.71"
    latex = paper_text(finished_table("main", tmp_path), "latex")
    assert latex.index(r"\usepackage{booktabs") < latex.index("% Table III") < latex.index("% Table IV")
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 2
