"""The benchmark: specs, plans, runs that are done once, tables."""

import csv
import io
import json
import shutil
from functools import partial

import numpy as np
import pytest

from orcu import bench, data
from orcu.bench import execution
from orcu.bench.collect import planned, records
from orcu.bench.convert import Conversion, convert
from orcu.bench.execution import execute
from orcu.bench.jobs import jobs
from orcu.bench.paper import PAPER, PAPER_LOSSES, PAPER_METRICS, compared, in_paper_layout
from orcu.bench.plan import check_parts, distinct
from orcu.bench.spec import CONFIGS, Spec, TwoStage, load_spec
from orcu.bench.story import opening
from orcu.bench.tables import chosen, lines, rendered
from orcu.errors import InputError, UnknownNameError
from orcu.io.reading import read_table
from orcu.launchers import LAUNCHERS
from orcu.losses.base import LOSSES
from orcu.predictions.predictions import Predictions
from orcu.training.two_stage import branches


def report(spec, results):
    """The page of a benchmark."""
    return bench.report(spec, results=results).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_spec_that_comes_with_orcu_can_be_planned_without_data(path, tmp_path, monkeypatch):
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "nothing"))
    spec = load_spec(path.stem)
    assert spec.name == path.stem
    found = planned(spec, tmp_path / "results")
    assert all(one.state in {"waiting", "no data"} for one in found)
    assert all("orcu data prepare" in one.why for one in found if one.state == "no data")


def test_the_papers_tables_have_as_many_runs_as_it_made():
    counts = {
        name: len(jobs(load_spec(name)))
        for name in ("main", "backbones", "posthoc", "text", "ablation", "scale", "two_stage")
    }
    # the ablation: nine rows on DR, eight on the others
    assert counts == {
        "main": 275,
        "backbones": 550,
        "posthoc": 50,
        "text": 10 + 10,  # the official split beside the paper's
        "ablation": 9 * 5 + 8 * (5 + 5 + 10),
        "scale": 5 * 5 + 5 * 5 + 5,
        "two_stage": 5,
    }
    assert len(jobs(load_spec("ablation", more="grid"))) == 6 * 4 * (5 + 5 + 5 + 10)
    with pytest.raises(UnknownNameError, match="Did you mean 'grid'"):
        load_spec("ablation", more="gird")


def test_every_row_of_the_papers_ablation_is_a_loss_here():
    with PAPER.open() as file:
        published = {row["loss"] for row in csv.DictReader(file) if row["table"] == "ablation"}
    made = {job.loss_name: job.loss_spec for job in jobs(load_spec("ablation"))}
    assert set(made) == published
    for name in ("ablation", "scale", "posthoc"):
        check_parts(load_spec(name))
    check_parts(load_spec("ablation", more="grid"))


def test_ties_share_the_first_place(spec_file):
    spec = load_spec("text")
    found = [
        {"data": "sst5", "loss": loss, "calibrator": "none", "fold": 0, "seed": 0, **dict.fromkeys(spec.columns, value)}
        for loss, value in (("ce", 0.5), ("sord", 0.5), ("ls", 0.3), ("orcu", 0.1))
    ]
    ranks = {line.loss: line.cells["accuracy"].rank for line in lines(spec, found)}
    assert ranks == {"ce": 1, "sord": 1, "ls": 0, "orcu": 0}
    lower = {line.loss: line.cells["sce"].rank for line in lines(spec, found)}
    assert lower == {"ce": 0, "sord": 0, "ls": 2, "orcu": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("losses", "loses"), "Did you mean 'losses'"),
        (("hidden", "hiden"), "Did you mean 'hidden'"),
        (("folds = [0, 1]", "folds = [7]"), "folds 0..4, got 7"),
        (('set = "lev"', 'set = "levv"'), "Did you mean 'lev'"),
        (('"ce"', "3"), "losses.0"),
        (("[[data]]", "[[data"), "no TOML"),
        (('"sce"', '"cse"'), "Did you mean 'sce'"),
        (('"ce"', '"ce", "ce"'), "'ce' stands twice; give them labels"),
        (('"sce"', '"sce", "sce"'), "'sce' stands twice"),
        (("folds = [0, 1]", "folds = [1, 1]"), "folds of lev: 1 stands twice"),
        (("folds = [0, 1]", "folds = []"), "folds"),
        (('name = "small"', 'name = "small"\nseeds = [0, 0]'), "seeds: 0 stands twice"),
        (('name = "small"', 'name = "small"\nseeds = [-1]'), "seeds"),
        (('set = "lev"', 'set = "lev"\nseeds = [2, 2]'), "seeds of lev: 2 stands twice"),
        (('name = "small"', 'name = "../small"'), "name"),
        (('calibrators = ["none", "temperature"]', "calibrators = []"), "calibrators"),
        (("hidden = [16]", "hidden = [-4]"), "hidden"),
        (("hidden = [16]", 'hidden = [16]\nwithout = ["cee"]'), "Did you mean 'ce'"),
        (("hidden = [16]", 'hidden = [16]\nwithout = ["ce", "ours"]'), "every loss is left out"),
        (("hidden = [16]", 'hidden = [16]\nselect = "eec"'), "Did you mean 'ece'"),
        (("[[data]]", "[two_stage]\nscal = 3.0\n[[data]]"), "Did you mean 'scale'"),
        (("[[data]]", "[two_stage]\nscale = 3.0\n[[data]]"), "name losses, or a"),
    ],
)
def test_mistakes_in_a_spec_are_told(spec_file, change, message):
    spec_file.write_text(spec_file.read_text().replace(*change))
    with pytest.raises(InputError, match=message):
        jobs(load_spec(spec_file))


def test_unknown_specs_are_told_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'main'"):
        load_spec("mian")


def test_runs_are_done_once_and_tables_follow(spec_file, tmp_path):
    spec, results = load_spec(spec_file), tmp_path / "results"
    assert [execute(job, results) for job in jobs(spec)] == ["done"] * 4
    assert {one.state for one in planned(spec, results)} == {"finished"}
    assert [execute(job, results) for job in jobs(spec)] == ["skipped"] * 4
    found = records(spec, results)
    assert len(found) == 8
    table = lines(spec, found)
    assert [(line.loss, line.calibrator) for line in table] == [
        ("ce", "none"),
        ("ours", "none"),
        ("ce", "temperature"),
        ("ours", "temperature"),
    ]
    cell = table[0].cells["accuracy"]
    own = [r["accuracy"] for r in found if (r["loss"], r["calibrator"]) == ("ce", "none")]
    assert cell.mean == pytest.approx(sum(own) / 2)
    assert cell.std == pytest.approx(abs(own[0] - own[1]) / 2**0.5)  # n - 1
    assert "| lev | ce ‡ | none |" in rendered(spec, table, "markdown")  # two epochs on a tenth: it has learned nothing
    assert r"\begin{tabular}" in rendered(spec, table, "latex")
    assert "<td>ours ‡</td>" in rendered(spec, table, "html")
    read = list(csv.DictReader(io.StringIO(rendered(spec, table, "csv"))))
    assert float(read[0]["accuracy"]) == cell.mean
    with pytest.raises(UnknownNameError, match="Did you mean 'html'"):
        rendered(spec, table, "htm")
    page = report(spec, results)
    assert "4 of 4 runs are finished" in page
    assert page.count("<svg") == 2
    assert cell.text("accuracy") in page
    assert page == report(spec, results)  # no clock, no host


def test_two_processes_give_the_same_bytes_as_one(spec_file, tmp_path):
    spec = load_spec(spec_file)
    data.prepare("lev", out=tmp_path / "data" / "lev")
    tables = []
    for name, count in (("one", 1), ("two", 2)):
        results = tmp_path / name
        with LAUNCHERS.create("local", jobs=count) as workers:
            ended = list(workers.map_ordered(partial(execute, results=results), jobs(spec)))
        assert ended == ["done"] * 4
        tables.append(rendered(spec, lines(spec, records(spec, results)), "csv"))
        shutil.rmtree(results / "runs" / "none", ignore_errors=True)
    assert tables[0] == tables[1]
    first, second = (
        {path.name: (path / "result.json").read_bytes() for path in (tmp_path / name / "runs").iterdir()}
        for name in ("one", "two")
    )
    assert first == second


def test_a_failed_run_is_noted_and_tried_again(spec_file, tmp_path, monkeypatch):
    spec, results = load_spec(spec_file), tmp_path / "results"
    job = jobs(spec)[0]
    real = execution._result

    def broken(*arguments):
        raise FloatingPointError("the loss is nan")

    monkeypatch.setattr(execution, "_result", broken)
    assert execute(job, results) == "failed"
    state = next(one for one in planned(spec, results) if one.job == job)
    assert state.state == "failed"
    assert "the loss is nan" in state.why
    monkeypatch.setattr(execution, "_result", real)
    assert execute(job, results) == "done"
    assert next(one for one in planned(spec, results) if one.job == job).state == "finished"


def test_other_rows_are_other_runs(spec_file, tmp_path):
    spec, results = load_spec(spec_file), tmp_path / "results"
    assert execute(jobs(spec)[0], results) == "done"
    shutil.rmtree(tmp_path / "data" / "lev")
    data.prepare("swd", out=tmp_path / "data" / "lev")  # other rows under the same name
    assert {one.state for one in planned(spec, results)} == {"waiting"}


def test_ours_stand_beside_the_papers(tmp_path):
    assert set(PAPER_LOSSES.values()) - {"hinge"} == set(LOSSES.names()) & set(PAPER_LOSSES.values())
    assert set(PAPER_METRICS) >= {"SCE", "ACE", "ECE"}
    spec = load_spec("text")
    found = [
        {"data": "sst5", "loss": loss, "calibrator": "none", "fold": 0, "seed": 0, **dict.fromkeys(spec.columns, 0.4)}
        for loss in ("ce", "orcu")
    ]
    beside = compared(spec, lines(spec, found))
    assert {row["loss"] for row in beside} == {"ce", "orcu"}
    assert all(row["ours"] == pytest.approx(40) for row in beside)
    assert json.dumps(beside.rows)
    assert beside.unlike == {"sst5, official split": ["protocol 'official', in the paper 'paper'"]}
    first = next(row for row in beside if (row["loss"], row["metric"]) == ("ce", "ece"))
    assert (first["ours_std"], first["paper"]) == (None, 3.17)
    assert first["difference"] == pytest.approx(40 - 3.17)


def test_only_the_same_task_is_compared():
    main = load_spec("main")
    record = {"fold": 0, "seed": 0, "calibrator": "none", **dict.fromkeys(main.columns, 0.5)}
    for changes, words in (
        ({"weights": "random"}, "weights 'random', in the paper 'pretrained'"),
        ({"recipe": {"epochs": 4}}, "recipe {'epochs': 4}, in the paper {}"),
        ({"frozen": True, "size": 96}, "frozen True, in the paper False; size 96, in the paper 224"),
        ({"protocol": "five_folds"}, "protocol 'five_folds', in the paper 'paper'"),
        ({"backbone": "resnet18"}, "backbone 'resnet18', in the paper 'resnet50'"),
        ({"set": "lev"}, "set lev, which these tables of the paper do not have"),
    ):
        other = main.data[1].model_copy(update=changes)
        spec = main.model_copy(update={"data": [main.data[3], other]})
        told = [{**record, "data": one.title, "loss": loss} for one in spec.data for loss in ("sord", "orcu")]
        beside = compared(spec, lines(spec, told))
        assert {row["data"] for row in beside} == {"diabetic_retinopathy"}
        assert {name: "; ".join(differs) for name, differs in beside.unlike.items()} == {other.title: words}
    tuned = [
        {"label": "orcu", "name": "orcu", "scale": 5.0},
        {"label": "cdw_ce", "name": "cdw_ce", "alpha": 2.0},
        "sord",
    ]
    spec = main.model_copy(update={"data": [main.data[3]], "losses": tuned})
    told = [{**record, "data": "diabetic_retinopathy", "loss": loss} for loss in ("orcu", "cdw_ce", "sord")]
    beside = compared(spec, lines(spec, told))
    assert {row["loss"] for row in beside} == {"sord"}  # a label does not make another loss the paper's
    assert set(beside.unlike) == {"diabetic_retinopathy, orcu", "diabetic_retinopathy, cdw_ce"}
    sord = {**record, "data": "diabetic_retinopathy", "loss": "sord"}
    twice = [{**sord, "fold": fold, "sce": 0.5 + 0.02 * fold} for fold in (0, 1)]
    rows = {row["metric"]: row for row in compared(main, lines(main, twice))}
    assert rows["sce"]["in_units"] == pytest.approx(
        (51 - rows["sce"]["paper"]) / np.hypot(rows["sce"]["paper_std"], 100 * 0.02 / 2**0.5)
    )
    assert "99.90 in Table VII" in rows["unimodality"]["conflict"]
    assert rows["sce"]["conflict"] == ""


def test_tables_in_the_papers_form():
    main = load_spec("main")
    record = {"seed": 0, "calibrator": "none", **dict.fromkeys(main.columns, 0.5)}
    told = [
        {**record, "data": "adience", "loss": loss, "fold": fold, "sce": 0.1 * (2 + k) + 0.01 * fold}
        for k, loss in enumerate(("ce", "sord", "orcu"))
        for fold in (0, 1)
    ]
    first, second = in_paper_layout(main, lines(main, told), with_paper=True)
    assert (first.title, second.title) == ("Table III", "Table IV and appendix Table IV")
    assert first.headings == ["data", "metric", "whose", "ce", "sord", "orcu"]
    assert [row[1:3] for row in first.rows[:2]] == [["sce % ↓", "ours"], ["sce % ↓", "paper"]]
    assert first.rows[0][3].text == "20.50 ± 0.71"
    assert first.rows[0][3].emphasis == "best"
    assert [row[1] for row in second.rows[::2]] == ["accuracy % ↑", "100 qwk ↑", "100 mae ↓"]
    latex = first.text("latex")
    body = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert {line.count(" & ") for line in body} == {5}
    assert r"\textbf{20.50 $\pm$ 0.71}" in latex
    assert "| adience | sce % ↓ | ours | **20.50 ± 0.71** |" in first.text("markdown")
    with pytest.raises(UnknownNameError, match="Did you mean 'latex'"):
        first.text("latx")
    (own,) = in_paper_layout(main.model_copy(update={"paper": []}), lines(main, told))
    assert len(own.rows) == len(main.columns)


def test_mistakes_in_losses_and_calibrators_are_told_before_the_runs(spec_file):
    text = spec_file.read_text()
    for change, message in (
        (('"ce"', '"cee"'), "Did you mean 'ce'"),
        (('"temperature"', '"temperture"'), "Did you mean 'temperature'"),
        (("scale = 3.0", "scale = -3.0"), "scale"),
        (("epochs = 2", "epochs = -2"), "epochs"),
        (("epochs = 2", "epoch = 2"), "Did you mean 'epochs'"),
        (("hidden = [16]", 'backbone = "resnet18"'), "a table has no backbone"),
    ):
        spec_file.write_text(text.replace(*change))
        with pytest.raises(InputError, match=message):
            check_parts(load_spec(spec_file))


def test_the_two_stage_diagnostic_is_a_benchmark_too(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "data"))
    path = tmp_path / "stages.toml"
    path.write_text(
        """
name = "stages"
two_stage = { scale = 3.0, epochs = [8, 2] }
paper = ["two_stage"]

[[data]]
set = "lev"
name = "image_aesthetics"
folds = [0, 1]
hidden = [16]
"""
    )
    spec, results = load_spec(path), tmp_path / "results"
    assert [execute(job, results) for job in jobs(spec)] == ["done"] * 2
    assert [execute(job, results) for job in jobs(spec)] == ["skipped"] * 2
    table = lines(spec, records(spec, results))
    assert [line.loss for line in table] == ["sord", "hinge", "orcu"] == list(branches(3.0))
    assert "alignment" not in table[0].cells  # SoftCE has no regularizer
    assert table[2].cells["feasible_active"].mean == 1.0
    assert table[2].cells["feasible_active"].count == 2
    markdown = rendered(spec, table, "markdown")
    assert "| image_aesthetics | sord | - | - |" in markdown
    assert "feasible_sce % ↓" in markdown
    assert ",,0," in rendered(spec, table, "csv")
    curves = read_table(next((results / "runs").glob("*/two_stage.parquet")))
    assert {*curves["branch"].to_pylist()} == set(branches(3.0))
    assert "2 of 2 runs are finished" in report(spec, results)
    # beside the paper's Table II: percent, but for A_TF
    same = {"set": "image_aesthetics", "backbone": "resnet50", "protocol": "paper"}
    whole = spec.model_copy(update={"data": [spec.data[0].model_copy(update=same)]})
    assert "two stages" in compared(whole, table).unlike["image_aesthetics"][0]
    whole = whole.model_copy(update={"two_stage": TwoStage()})
    beside = {(row["loss"], row["metric"]): row for row in compared(whole, table)}
    assert beside["orcu", "feasible_active"]["ours"] == 100
    assert beside["orcu", "alignment"]["ours"] == table[2].cells["alignment"].mean
    assert beside["sord", "feasible_sce"]["paper"] == 16.87


def test_the_best_on_validation_rows_is_chosen(spec_file, tmp_path):
    text = spec_file.read_text().replace("hidden = [16]", 'hidden = [16]\nselect = "sce"')
    spec_file.write_text(text.replace('name = "small"', 'name = "small"\nrows = "validation"'))
    spec, results = load_spec(spec_file), tmp_path / "results"
    for job in jobs(spec):
        execute(job, results)
    held = records(spec, results)
    assert {record["calibrator"] for record in held} == {"none"}
    own = {loss: sum(r["sce"] for r in held if r["loss"] == loss) / 2 for loss in ("ce", "ours")}
    assert chosen(spec, held) == [("lev", "sce", min(own, key=own.get))]
    flipped = [{**record, "sce": -record["sce"]} for record in held]
    assert chosen(spec, flipped) == [("lev", "sce", max(own, key=own.get))]
    assert f"<b>{min(own, key=own.get)}</b>" in report(spec, results)


def test_models_are_kept_on_demand(spec_file, tmp_path):
    spec_file.write_text("keep_models = true\n" + spec_file.read_text())
    kept, results = load_spec(spec_file), tmp_path / "results"
    assert execute(jobs(kept)[0], results) == "done"
    assert len(list((results / "runs").glob("*/model.safetensors"))) == 1


def test_specs_share_their_runs(spec_file, tmp_path):
    results = tmp_path / "results"
    spec = load_spec(spec_file)
    assert [execute(job, results) for job in jobs(spec)] == ["done"] * 4
    grid = {"label": "the paper's", "name": "temperature", "search": "grid"}
    changes = {"losses": [{"label": "plain", "name": "ce"}], "calibrators": ["none", "gap+projection", grid]}
    other = load_spec(spec.model_copy(update={"name": "other", **changes}))
    plan = bench.status(other, results=results)
    assert len(plan.finished) == 2  # nothing is trained for one more calibrator, or another name of a loss
    assert distinct([plan, bench.status(spec, results=results)]) == (4, 4)
    once = plan.records()
    assert {record["calibrator"] for record in once} == {"none", "gap+projection", "the paper's"}
    kept = sorted((results / "calibrated").glob("*/*.json"))
    assert len(kept) == 4 + 4  # temperature of the first spec, two of the second
    about = json.loads(next(path for path in kept if "search" in path.read_text()).read_text())
    assert about["calibrator"] == {"name": "temperature", "search": "grid"}
    kept[0].write_text("cut off")
    assert plan.records() == once  # what is damaged is computed again
    with pytest.raises(InputError, match="'temperature' stands twice; give them labels"):
        load_spec(spec.model_copy(update={"calibrators": ["temperature", {"label": "temperature", "name": "gap"}]}))
    with pytest.raises(UnknownNameError, match="Did you mean 'search'"):
        bench.plan(spec.model_copy(update={"calibrators": [{"name": "temperature", "serch": "grid"}]}), results=results)
    with pytest.raises(UnknownNameError, match="Did you mean 'grid'"):
        bench.plan(
            spec.model_copy(update={"calibrators": [{"name": "temperature", "search": "gird"}]}), results=results
        )
    bench.run(other, results=results)
    index = json.loads((results / "other" / "runs.json").read_text())
    assert [(entry["loss"], entry["fold"]) for entry in index] == [("plain", 0), ("plain", 1)]
    assert "Beside the paper" not in report(other, results)
    answering = other.model_copy(update={"paper": ["main"]})
    assert "Not compared, another task: lev: set lev" in report(answering, results)


def old_store(results, spec):
    """The results of a spec as version 0.1.0 kept them."""
    plan = bench.status(spec, results=results)
    folder = results / spec.name / "runs"
    folder.mkdir(parents=True)
    for one in plan.finished:
        result = json.loads(plan.file(one, "result.json").read_text())
        after = {"none": result["test"], "temperature": result["test"]}
        result["job"]["calibrators"] = list(after)
        result |= {"run": "old", "data": "lev", "loss": one.job.loss_name, "test": after}
        old = folder / f"old-{one.run}"
        shutil.copytree(plan.file(one, "result.json").parent, old)
        (old / "result.json").write_text(json.dumps(result))
        (old / "timings.json").write_text(json.dumps({"seconds": 1.0, "finished": 0.0}))
    shutil.rmtree(results / "runs")


def test_results_of_the_first_version_are_taken_over(spec_file, tmp_path):
    spec, results = load_spec(spec_file), tmp_path / "results"
    assert [execute(job, results) for job in jobs(spec)] == ["done"] * 4
    before = bench.status(spec, results=results).records()
    old_store(results, spec)
    with pytest.raises(InputError, match="`orcu bench convert --results"):
        bench.status(spec, results=results)
    assert convert(results) == Conversion(taken=4, doubles=0)
    assert bench.status(spec, results=results).records() == before
    assert len(list((results / "small" / "runs_of_0.1.0").glob("*/result.json"))) == 4  # nothing is deleted
    with pytest.raises(InputError, match=r"no runs of version 0\.1\.0"):
        convert(results)


def test_a_ensemble_stands_beside_the_losses(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "data"))
    file = tmp_path / "ensemble.toml"
    file.write_text(
        'name = "ensemble"\n'
        'losses = ["ce", { label = "trees and networks", folds = 2, members = ["network", "boosting"] }]\n'
        'calibrators = ["none", "auto"]\n'
        '[[data]]\nset = "lev"\nhidden = [8]\nfolds = [0]\nrecipe = { epochs = 2 }\n'
    )
    bench.run(file, results=tmp_path / "results", jobs=1)
    plan = bench.status(file, results=tmp_path / "results")
    assert [run.state for run in plan.runs] == ["finished", "finished"]
    rows = {(row["loss"], row["calibrator"]): row for row in plan.records()}
    assert rows["trees and networks", "auto"]["unimodality"] == 1
    ensemble = next(run for run in plan.runs if run.job.loss_name == "trees and networks")
    held = Predictions.read(plan.file(ensemble, "validation.parquet"))
    single = Predictions.read(plan.file(plan.runs[0], "validation.parquet"))
    assert len(held) > 2 * len(single)  # every row of train and validation, out of fold
    result = json.loads(plan.file(ensemble, "result.json").read_text())
    assert sum(result["weights"].values()) == pytest.approx(1)


STORY = """
[story]
today = { loss = "ce", calibrator = "temperature", name = "what <b>we</b> did" }
paper = { loss = "orcu", name = "the paper's" }
ours = { loss = "ensemble", calibrator = "auto", name = "the new way", how = "fit it" }
"""


def story_file(tmp_path, story=STORY):
    file = tmp_path / "story.toml"
    file.write_text(
        'name = "told"\n'
        'losses = ["ce", "orcu", { folds = 2, losses = ["ce"], members = ["network"], recipe = { epochs = 3 } }]\n'
        f'calibrators = ["none", "temperature", "auto"]\n{story}\n'
        '[[data]]\nset = "lev"\nhidden = [8]\nfolds = [0]\nrecipe = { epochs = 1 }\n'
    )
    return file


def test_a_report_opens_with_its_story(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "data"))
    file, results = story_file(tmp_path), tmp_path / "results"
    bench.run(file, results=results, jobs=1)
    table = bench.table(file, results=results)
    told = opening(table)
    compared, result, to_do = told.sentences
    assert "the new way, and 6 more pairs" in compared
    assert "LEV (200 rows)" in compared
    rows = {(row["loss"], row["calibrator"]): row for row in table.plan.records()}
    today, ours = rows["ce", "temperature"], rows["ensemble", "auto"]
    percent = 100 * (ours["rps"] / today["rps"] - 1)
    assert f"is {abs(percent):.1f} % {'lower' if percent < 0 else 'higher'} on LEV (beyond chance)" in result
    assert "all its rows are unimodal" in result
    # three epochs of an ensemble against one of a network: the result is not left to chance
    assert "the new way wins against what <b>we</b> did" in result
    assert to_do == "To do: take the new way: fit it."
    page = bench.report(file, results=results).read_text(encoding="utf-8")
    assert "what &lt;b&gt;we&lt;/b&gt; did" in page
    assert "<b>we</b>" not in page
    assert page.index("To do: take") < page.index("One case, before and after") < page.index("runs are finished")
    result = json.loads(table.plan.file(table.plan.runs[2], "result.json").read_text())
    assert result["recipe"]["epochs"] == 3  # an ensemble has a recipe of its own


def test_a_story_that_is_not_finished_is_not_told(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "data"))
    file, results = story_file(tmp_path), tmp_path / "results"
    data.prepare("lev", out=tmp_path / "data" / "lev")
    execute(jobs(load_spec(file))[0], results)
    assert opening(bench.table(file, results=results)) is None
    assert "One case" not in bench.report(file, results=results).read_text(encoding="utf-8")


def test_marks_of_significance_stand_in_the_papers_layout_too():
    spec = Spec(name="x", data=[{"set": "lev"}], losses=["ce", "sord", "orcu"], columns=["sce"], seeds=[0])
    rows = [
        {"data": "lev", "loss": loss, "calibrator": "none", "fold": 0, "seed": 0, "qwk": 0.5, "sce": error}
        for loss, error in (("ce", 0.05), ("sord", 0.06), ("orcu", 0.04))
    ]
    (own,) = in_paper_layout(spec, lines(spec, rows, {("lev", "sord", "none", "sce"): "▼"}))
    assert [getattr(cell, "text", cell) for cell in own.rows[0]][-3:] == ["5.00", "6.00 ▼", "4.00"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('loss = "ce"', 'loss = "cee"', "unknown loss of the story 'cee'. Did you mean 'ce'"),
        ('calibrator = "auto"', 'calibrator = "gap"', "unknown calibrator of the story 'gap'"),
        ("paper =", "papers =", "Did you mean 'paper'"),
        (', name = "the paper\'s"', "", "story.paper.name"),
    ],
)
def test_a_story_of_rows_that_the_tables_do_not_have_is_refused(tmp_path, old, new, words):
    with pytest.raises(InputError, match=words):
        load_spec(story_file(tmp_path, STORY.replace(old, new)))


def test_a_collapsed_model_is_marked_and_never_best(tmp_path):
    spec = Spec(
        name="x", data=[{"set": "lev"}], losses=["ce", "cdw_ce", "sord", "orcu"], columns=["sce", "accuracy"], seeds=[0]
    )
    kappa = {"ce": 0.6, "cdw_ce": 0.02, "sord": 0.6, "orcu": 0.6}
    error = {"ce": 0.05, "cdw_ce": 0.01, "sord": 0.06, "orcu": 0.07}
    records = [
        {"data": "lev", "loss": loss, "calibrator": "none", "fold": 0, "seed": 0}
        | {"qwk": kappa[loss], "sce": error[loss], "accuracy": 0.5}
        for loss in kappa
    ]
    by_loss = {line.loss: line for line in lines(spec, records)}
    assert [loss for loss, line in by_loss.items() if line.collapsed] == ["cdw_ce"]
    assert {loss: line.rank("sce") for loss, line in by_loss.items()} == {"ce": 1, "cdw_ce": 0, "sord": 2, "orcu": 0}
    shown = {form: rendered(spec, list(by_loss.values()), form) for form in ("markdown", "latex", "html", "csv")}
    assert "| cdw_ce ‡ | 1.00 |" in shown["markdown"]
    assert r"cdw\_ce $\ddagger$" in shown["latex"]
    assert "<td>cdw_ce ‡</td><td>1.00</td>" in shown["html"]
    assert [row.split(",")[-1] for row in shown["csv"].splitlines()] == ["collapsed", "", "collapsed", "", ""]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{ folds = 1 }", "greater than or equal to 2"),
        ("{ folds = 5, loses = ['ce'] }", "loses"),
        ("{ folds = 5, losses = ['mdca'] }", "mdca cannot be part of an ensemble"),
        ("{ folds = 5, losses = ['nix'] }", "nix"),
    ],
)
def test_a_ensemble_that_cannot_be_is_told_before_the_runs(tmp_path, entry, words):
    file = tmp_path / "ensemble.toml"
    file.write_text(f'name = "ensemble"\nlosses = [{entry}]\n[[data]]\nset = "lev"\nhidden = [8]\n')
    with pytest.raises(InputError, match=words):
        bench.plan(file, results=tmp_path)


def test_a_ensemble_in_folds_needs_frozen_features(tmp_path):
    file = tmp_path / "ensemble.toml"
    for more, words in (("", "frozen = true"), ("frozen = true\n", "grown on tables")):
        members = ', members = ["boosting"]' if more else ""
        file.write_text(
            f'name = "ensemble"\nlosses = ["ce", {{ folds = 5{members} }}]\n'
            f'[[data]]\nset = "retinamnist"\nprotocol = "official"\n{more}'
        )
        with pytest.raises(InputError, match=words):
            bench.plan(file, results=tmp_path)
    file.write_text(
        'name = "ensemble"\nlosses = ["ce", { folds = 5 }]\n'
        '[[data]]\nset = "retinamnist"\nprotocol = "official"\nwithout = ["ensemble"]\n'
    )
    assert len(bench.plan(file, results=tmp_path).runs) == 1
