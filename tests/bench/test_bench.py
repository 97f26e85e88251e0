"""Benchmarks: specs, plans, runs and tables."""

import csv
import io
import json
import shutil
from functools import partial

import numpy as np
import pytest

from orcu import bench, data
from orcu.bench import execution
from orcu.bench.execution import execute
from orcu.bench.jobs import Job, jobs
from orcu.bench.paper import PAPER, PAPER_LOSSES, PAPER_METRICS, compare_lines, paper_layout
from orcu.bench.plan import check_parts, count_distinct, planned_runs
from orcu.bench.spec import CONFIGS, DataSpec, Spec, TwoStage, load_spec
from orcu.bench.summary import summarise
from orcu.bench.tables import lines, render_table, select_best
from orcu.errors import InputError, UnknownNameError
from orcu.io.reading import read_table
from orcu.launchers import LAUNCHERS
from orcu.losses.base import LOSSES
from orcu.predictions import Predictions
from orcu.training.two_stage import branches


def report(spec, results):
    """HTML text of a benchmark's report."""
    return bench.report(spec, results=results).read_text(encoding="utf-8")


def records(spec, results):
    return bench.status(spec, results=results).records()


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_planned_runs_without_data_are_pending_or_name_the_prepare_command(path, tmp_path, monkeypatch):
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "nothing"))
    spec = load_spec(path.stem)
    assert spec.name == path.stem
    runs = planned_runs(spec, tmp_path / "results")
    assert all(run.state in {"pending", "no data"} for run in runs)
    assert all("orcu data prepare" in run.reason for run in runs if run.state == "no data")


def test_jobs_of_the_papers_specs_have_the_papers_number_of_runs():
    counts = {
        name: len(jobs(load_spec(name)))
        for name in ("main", "gradcam", "backbones", "posthoc", "text", "ablation", "scale", "two_stage")
    }
    # the ablation: nine rows on DR, eight on the others
    assert counts == {
        "main": 275,
        "gradcam": 8,
        "backbones": 550,
        "posthoc": 50,
        "text": 10 + 10,  # the paper's split and the official one
        "ablation": 9 * 5 + 8 * (5 + 5 + 10),
        "scale": 5 * 5 + 5 * 5 + 5,
        "two_stage": 5,
    }
    assert len(jobs(load_spec("ablation", extra="grid"))) == 6 * 4 * (5 + 5 + 5 + 10)
    with pytest.raises(UnknownNameError, match="Did you mean 'grid'"):
        load_spec("ablation", extra="gird")


def test_ablation_spec_has_every_row_of_the_papers_table():
    with PAPER.open() as file:
        published = {row["loss"] for row in csv.DictReader(file) if row["table"] == "ablation"}
    assert {job.loss_name for job in jobs(load_spec("ablation"))} == published
    for name in ("ablation", "scale", "posthoc"):
        check_parts(load_spec(name))
    check_parts(load_spec("ablation", extra="grid"))


def test_lines_ties_share_the_first_rank():
    spec = load_spec("text")
    rows = [
        {"data": "sst5", "loss": loss, "calibrator": "none", "fold": 0, "seed": 0, **dict.fromkeys(spec.columns, value)}
        for loss, value in (("ce", 0.5), ("sord", 0.5), ("ls", 0.3), ("orcu", 0.1))
    ]
    ranks = {line.loss: line.cells["accuracy"].rank for line in lines(spec, rows)}
    assert ranks == {"ce": 1, "sord": 1, "ls": 0, "orcu": 0}
    lower = {line.loss: line.cells["sce"].rank for line in lines(spec, rows)}
    assert lower == {"ce": 0, "sord": 0, "ls": 2, "orcu": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("losses", "loses"), "'losses'"),
        (("hidden_layer_sizes", "hidden_layer_size"), "'hidden_layer_sizes'"),
        (("folds = [0, 1]", "folds = [7]"), r"^lev: folds: .*0\.\.4, got 7"),
        (('set = "lev"', 'set = "levv"'), "'lev'"),
        (('"ce"', "3"), r"losses\.0"),
        (("[[data]]", "[[data"), r"small\.toml: .*TOML"),
        (('"sce"', '"cse"'), "'sce'"),
        (('"ce"', '"ce", "ce"'), "losses: duplicate 'ce'.*label"),
        (('"sce"', '"sce", "sce"'), "columns: duplicate 'sce'"),
        (("folds = [0, 1]", "folds = [1, 1]"), "folds of lev: duplicate 1"),
        (("folds = [0, 1]", "folds = []"), r"data\.0\.folds"),
        (('name = "small"', 'name = "small"\nseeds = [0, 0]'), "seeds: duplicate 0"),
        (('name = "small"', 'name = "small"\nseeds = [-1]'), r"seeds\.0"),
        (('set = "lev"', 'set = "lev"\nseeds = [2, 2]'), "seeds of lev: duplicate 2"),
        (('name = "small"', 'name = "../small"'), "name"),
        (('calibrators = ["none", "temperature"]', "calibrators = []"), "calibrators"),
        (("sizes = [16]", "sizes = [-4]"), r"data\.0\.hidden_layer_sizes"),
        (("sizes = [16]", 'sizes = [16]\nexclude = ["cee"]'), "'ce'"),
        (("sizes = [16]", 'sizes = [16]\nexclude = ["ce", "ours"]'), "lev: exclude"),
        (("sizes = [16]", 'sizes = [16]\nselect = "eec"'), "'ece'"),
        (("[[data]]", "[two_stage]\nscal = 3.0\n[[data]]"), "'scale'"),
        (("[[data]]", "[two_stage]\nscale = 3.0\n[[data]]"), "either losses or a .two_stage."),
    ],
)
def test_load_spec_invalid_entry_raises_and_names_it(spec_file, change, message):
    spec_file.write_text(spec_file.read_text().replace(*change))
    with pytest.raises(InputError, match=message):
        jobs(load_spec(spec_file))


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("recipe", "training", ("training =", "recipe =")),
        ("hidden", "hidden_layer_sizes", ("hidden_layer_sizes =", "hidden =")),
        ("without", "exclude", ("folds = [0, 1]", 'without = ["ce"]')),
        ("rows", "split", ('name = "small"', 'name = "small"\nrows = "validation"')),
        ("more", "extra", ('name = "small"', 'name = "small"\nmore = { grid = [] }')),
        ("story", "summary", ('name = "small"', 'name = "small"\nstory = {}')),
        ("folds", "cv", ('"ce"', "{ folds = 5 }")),
        ("members", "estimators", ('"ce"', '{ cv = 5, members = ["network"] }')),
    ],
)
def test_load_spec_key_of_version_0_2_raises_and_names_the_new_key(spec_file, old, new, change):
    spec_file.write_text(spec_file.read_text().replace(*change))
    with pytest.raises(InputError, match=f"'{old}' is called '{new}'"):
        load_spec(spec_file)


def test_load_spec_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="'main'"):
        load_spec("mian")


def test_execute_runs_each_job_once_and_tables_show_its_metrics(spec_file, tmp_path):
    spec, results = load_spec(spec_file), tmp_path / "results"
    assert [execute(job, results) for job in jobs(spec)] == ["done"] * 4
    assert {run.state for run in planned_runs(spec, results)} == {"finished"}
    assert [execute(job, results) for job in jobs(spec)] == ["skipped"] * 4
    rows = records(spec, results)
    assert len(rows) == 8
    table = lines(spec, rows)
    assert [(line.loss, line.calibrator) for line in table] == [
        ("ce", "none"),
        ("ours", "none"),
        ("ce", "temperature"),
        ("ours", "temperature"),
    ]
    cell = table[0].cells["accuracy"]
    values = [row["accuracy"] for row in rows if (row["loss"], row["calibrator"]) == ("ce", "none")]
    assert cell.mean == pytest.approx(sum(values) / 2)
    assert cell.std == pytest.approx(abs(values[0] - values[1]) / 2**0.5)  # n - 1
    assert "| lev | ce ‡ | none |" in render_table(spec, table, "markdown")  # two epochs are too few: collapsed
    assert r"\begin{tabular}" in render_table(spec, table, "latex")
    assert "<td>ours ‡</td>" in render_table(spec, table, "html")
    read = list(csv.DictReader(io.StringIO(render_table(spec, table, "csv"))))
    assert float(read[0]["accuracy"]) == cell.mean
    with pytest.raises(UnknownNameError, match="'html'"):
        render_table(spec, table, "htm")
    page = report(spec, results)
    assert "4 of 4 runs are finished" in page
    assert page.count("<svg") == 2
    assert cell.text("accuracy") in page
    assert page == report(spec, results)  # no time, no host name


@pytest.mark.slow
def test_execute_in_two_processes_gives_the_same_bytes_as_in_one(spec_file, tmp_path):
    spec = load_spec(spec_file)
    data.prepare("lev", output=tmp_path / "data" / "lev")
    tables = []
    for name, count in (("one", 1), ("two", 2)):
        results = tmp_path / name
        with LAUNCHERS.create("local", jobs=count) as workers:
            outcomes = list(workers.map_ordered(partial(execute, results=results), jobs(spec)))
        assert outcomes == ["done"] * 4
        tables.append(render_table(spec, lines(spec, records(spec, results)), "csv"))
        shutil.rmtree(results / "runs" / "none", ignore_errors=True)
    assert tables[0] == tables[1]
    first, second = (
        {path.name: (path / "result.json").read_bytes() for path in (tmp_path / name / "runs").iterdir()}
        for name in ("one", "two")
    )
    assert first == second


def test_execute_failed_run_is_recorded_and_tried_again(spec_file, tmp_path, monkeypatch):
    spec, results = load_spec(spec_file), tmp_path / "results"
    job = jobs(spec)[0]
    original = execution._train

    def fail(*arguments):
        raise FloatingPointError("the loss is nan")

    monkeypatch.setattr(execution, "_train", fail)
    assert execute(job, results) == "failed"
    run = next(run for run in planned_runs(spec, results) if run.job == job)
    assert run.state == "failed"
    assert "the loss is nan" in run.reason
    monkeypatch.setattr(execution, "_train", original)
    assert execute(job, results) == "done"
    assert next(run for run in planned_runs(spec, results) if run.job == job).state == "finished"


def test_planned_runs_of_changed_data_are_pending(spec_file, tmp_path):
    spec, results = load_spec(spec_file), tmp_path / "results"
    assert execute(jobs(spec)[0], results) == "done"
    shutil.rmtree(tmp_path / "data" / "lev")
    data.prepare("swd", output=tmp_path / "data" / "lev")  # other rows under the same name
    assert {run.state for run in planned_runs(spec, results)} == {"pending"}


def test_compare_lines_same_task_gives_both_numbers():
    assert set(PAPER_LOSSES.values()) - {"hinge"} == set(LOSSES.names()) & set(PAPER_LOSSES.values())
    assert set(PAPER_METRICS) >= {"SCE", "ACE", "ECE"}
    spec = load_spec("text")
    rows = [
        {"data": "sst5", "loss": loss, "calibrator": "none", "fold": 0, "seed": 0, **dict.fromkeys(spec.columns, 0.4)}
        for loss in ("ce", "orcu")
    ]
    comparison = compare_lines(spec, lines(spec, rows))
    assert {row["loss"] for row in comparison.rows} == {"ce", "orcu"}
    assert all(row["ours"] == pytest.approx(40) for row in comparison.rows)
    assert json.dumps(comparison.rows)
    assert comparison.not_compared == {"sst5, official split": ["protocol 'official', in the paper 'paper'"]}
    first = next(row for row in comparison.rows if (row["loss"], row["metric"]) == ("ce", "ece"))
    assert (first["ours_std"], first["paper"]) == (None, 3.17)
    assert first["difference"] == pytest.approx(40 - 3.17)


def test_compare_lines_different_task_or_loss_settings_are_not_compared():
    main = load_spec("main")
    record = {"fold": 0, "seed": 0, "calibrator": "none", **dict.fromkeys(main.columns, 0.5)}
    for changes, difference in (
        ({"weights": "random"}, "weights 'random', in the paper 'pretrained'"),
        ({"training": {"epochs": 4}}, "training {'epochs': 4}, in the paper {}"),
        ({"frozen": True, "size": 96}, "frozen True, in the paper False; size 96, in the paper 224"),
        ({"protocol": "five_folds"}, "protocol 'five_folds', in the paper 'paper'"),
        ({"backbone": "resnet18"}, "backbone 'resnet18', in the paper 'resnet50'"),
        ({"set": "lev"}, "set lev, which is not in these tables of the paper"),
    ):
        other = main.data[1].model_copy(update=changes)
        spec = main.model_copy(update={"data": [main.data[3], other]})
        rows = [{**record, "data": data.title, "loss": loss} for data in spec.data for loss in ("sord", "orcu")]
        comparison = compare_lines(spec, lines(spec, rows))
        assert {row["data"] for row in comparison.rows} == {"diabetic_retinopathy"}
        assert {name: "; ".join(parts) for name, parts in comparison.not_compared.items()} == {other.title: difference}
    tuned = [
        {"label": "orcu", "name": "orcu", "scale": 5.0},
        {"label": "cdw_ce", "name": "cdw_ce", "alpha": 2.0},
        "sord",
    ]
    spec = main.model_copy(update={"data": [main.data[3]], "losses": tuned})
    rows = [{**record, "data": "diabetic_retinopathy", "loss": loss} for loss in ("orcu", "cdw_ce", "sord")]
    comparison = compare_lines(spec, lines(spec, rows))
    assert {row["loss"] for row in comparison.rows} == {"sord"}  # the label alone does not make a loss the paper's
    assert set(comparison.not_compared) == {"diabetic_retinopathy, orcu", "diabetic_retinopathy, cdw_ce"}
    sord = {**record, "data": "diabetic_retinopathy", "loss": "sord"}
    folds = [{**sord, "fold": fold, "sce": 0.5 + 0.02 * fold} for fold in (0, 1)]
    rows = {row["metric"]: row for row in compare_lines(main, lines(main, folds)).rows}
    assert rows["sce"]["in_std"] == pytest.approx(
        (51 - rows["sce"]["paper"]) / np.hypot(rows["sce"]["paper_std"], 100 * 0.02 / 2**0.5)
    )
    assert "99.90 in Table VII" in rows["unimodality"]["conflict"]
    assert rows["sce"]["conflict"] == ""


def test_paper_layout_has_a_row_for_each_metric_and_a_column_for_each_loss():
    main = load_spec("main")
    record = {"seed": 0, "calibrator": "none", **dict.fromkeys(main.columns, 0.5)}
    rows = [
        {**record, "data": "adience", "loss": loss, "fold": fold, "sce": 0.1 * (2 + k) + 0.01 * fold}
        for k, loss in enumerate(("ce", "sord", "orcu"))
        for fold in (0, 1)
    ]
    first, second = paper_layout(main, lines(main, rows), paper=True)
    assert (first.title, second.title) == ("Table III", "Table IV and appendix Table IV")
    assert first.headings == ["data", "metric", "source", "CE", "SORD", "ORCU"]
    assert [row[1:3] for row in first.rows[:2]] == [["SCE (%) ↓", "ours"], ["SCE (%) ↓", "paper"]]
    assert first.rows[0][3].text == "20.50 ± 0.71"
    assert first.rows[0][3].emphasis == "best"
    assert [row[1] for row in second.rows[::2]] == ["Acc (%) ↑", "QWK (10⁻²) ↑", "MAE (10⁻²) ↓"]
    latex = first.text("latex")
    body = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert {line.count(" & ") for line in body} == {5}
    assert r"\multirow{8}{*}{Adience} & \multirow{2}{*}{SCE (\%) $\downarrow$} & ours" in latex
    assert r"\textbf{20.50 $\pm$ 0.71}" in latex
    assert "| Adience | SCE (%) ↓ | ours | **20.50 ± 0.71** |" in first.text("markdown")
    with pytest.raises(UnknownNameError, match="'latex'"):
        first.text("latx")
    (single,) = paper_layout(main.model_copy(update={"paper": []}), lines(main, rows))
    assert len(single.rows) == len(main.columns)


def test_check_parts_invalid_loss_calibrator_or_training_raises_and_names_it(spec_file):
    text = spec_file.read_text()
    for change, message in (
        (('"ce"', '"cee"'), "Did you mean 'ce'"),
        (('"temperature"', '"temperture"'), "Did you mean 'temperature'"),
        (("scale = 3.0", "scale = -3.0"), "scale"),
        (("epochs = 2", "epochs = -2"), "epochs"),
        (("epochs = 2", "epoch = 2"), "Did you mean 'epochs'"),
        (("hidden_layer_sizes = [16]", 'backbone = "resnet18"'), "^lev: .*no backbone"),
    ):
        spec_file.write_text(text.replace(*change))
        with pytest.raises(InputError, match=message):
            check_parts(load_spec(spec_file))


def test_execute_two_stage_spec_gives_a_row_for_each_branch(tmp_path, monkeypatch):
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
hidden_layer_sizes = [16]
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
    markdown = render_table(spec, table, "markdown")
    assert "| image_aesthetics | sord | - | - |" in markdown
    assert "feasible_sce % ↓" in markdown
    assert ",,0," in render_table(spec, table, "csv")
    curves = read_table(next((results / "runs").glob("*/two_stage.parquet")))
    assert {*curves["branch"].to_pylist()} == set(branches(3.0))
    assert "2 of 2 runs are finished" in report(spec, results)
    # compared with the paper's Table II: in percent, except A_TF
    same = {"set": "image_aesthetics", "backbone": "resnet50", "protocol": "paper"}
    paper_spec = spec.model_copy(update={"data": [spec.data[0].model_copy(update=same)]})
    assert "two_stage" in compare_lines(paper_spec, table).not_compared["image_aesthetics"][0]
    paper_spec = paper_spec.model_copy(update={"two_stage": TwoStage()})
    rows = {(row["loss"], row["metric"]): row for row in compare_lines(paper_spec, table).rows}
    assert rows["orcu", "feasible_active"]["ours"] == 100
    assert rows["orcu", "alignment"]["ours"] == table[2].cells["alignment"].mean
    assert rows["sord", "feasible_sce"]["paper"] == 16.87


def test_select_best_takes_the_best_mean_on_validation_rows(spec_file, tmp_path):
    text = spec_file.read_text().replace("sizes = [16]", 'sizes = [16]\nselect = "sce"')
    spec_file.write_text(text.replace('name = "small"', 'name = "small"\nsplit = "validation"'))
    spec, results = load_spec(spec_file), tmp_path / "results"
    for job in jobs(spec):
        execute(job, results)
    validation = records(spec, results)
    assert {record["calibrator"] for record in validation} == {"none"}
    means = {loss: sum(r["sce"] for r in validation if r["loss"] == loss) / 2 for loss in ("ce", "ours")}
    best, worst = min(means, key=means.get), max(means, key=means.get)
    assert select_best(spec, validation) == [("lev", "sce", best)]
    negated = [{**record, "sce": -record["sce"]} for record in validation]
    assert select_best(spec, negated) == [("lev", "sce", worst)]
    assert f"<b>{best}</b>" in report(spec, results)


def test_execute_keep_models_stores_the_weights(spec_file, tmp_path):
    spec_file.write_text("keep_models = true\n" + spec_file.read_text())
    spec, results = load_spec(spec_file), tmp_path / "results"
    assert execute(jobs(spec)[0], results) == "done"
    assert len(list((results / "runs").glob("*/model.safetensors"))) == 1


def test_execute_keep_models_replaces_a_result_without_its_model(spec_file, tmp_path, monkeypatch):
    plain, results = load_spec(spec_file), tmp_path / "results"
    keeping = plain.model_copy(update={"name": "keeping", "keep_models": True})
    job, keeping_job = jobs(plain)[0], jobs(keeping)[0]
    assert execute(job, results) == "done"
    expected = bench.status(plain, results=results).records()
    (folder,) = (results / "runs").iterdir()
    run = bench.status(keeping, results=results).runs[0]
    assert (run.id, run.state) == (folder.name, "pending")
    assert "no model" in run.reason
    with monkeypatch.context() as patch:  # a failed attempt keeps the result
        patch.setattr("orcu.bench.execution._train", lambda *_: 1 / 0)
        assert execute(keeping_job, results) == "failed"
    assert bench.status(keeping, results=results).runs[0].state == "failed"
    assert bench.status(plain, results=results).records() == expected
    assert execute(keeping_job, results) == "done"
    assert execute(keeping_job, results) == execute(job, results) == "skipped"
    assert (folder / "model.safetensors").exists()
    assert [path.name for path in (results / "runs").iterdir()] == [folder.name]
    for spec in (plain, keeping):
        assert bench.status(spec, results=results).runs[0].state == "finished"
        assert bench.status(spec, results=results).records() == expected


def test_execute_finds_a_run_that_version_0_2_stored_with_its_model(spec_file, tmp_path):
    spec, results = load_spec(spec_file).model_copy(update={"keep_models": True}), tmp_path / "results"
    job = jobs(spec)[0]
    assert execute(job, results) == "done"
    (folder,) = (results / "runs").iterdir()
    former = job.id_with_model(json.loads((folder / "result.json").read_text())["manifest"])
    folder.rename(folder.with_name(former))
    assert execute(job, results) == "skipped"
    assert bench.status(spec, results=results).runs[0].id == former
    assert len(bench.status(spec, results=results).records()) == len(spec.calibrators)


def test_jobs_of_the_grad_cam_spec_are_runs_of_the_main_table():
    spec = load_spec("gradcam")
    assert all(job.keep_model for job in jobs(spec))
    main = {(job.data.set, job.id("manifest")) for job in jobs(load_spec("main"))}
    assert {(job.data.set, job.id("manifest")) for job in jobs(spec)} < main
    assert {job.data.set for job in jobs(spec)} == {"image_aesthetics", "adience"}  # of Fig. S6
    assert [job.loss for job in jobs(spec)][:4] == ["ce", "sord", "ls", "orcu"]


def test_packaged_specs_of_the_paper_mirror_the_border_except_of_fundus_photographs():
    for name in ("main", "posthoc", "backbones", "ablation", "scale", "two_stage", "gradcam"):
        for data_spec in load_spec(name).data:
            is_mirrored = data_spec.set in {"image_aesthetics", "adience", "limuc"}
            assert (data_spec.rotation_border == "reflect") == is_mirrored, (name, data_spec.set)


def test_job_id_and_run_config_depend_on_the_border_of_rotations():
    data_spec = {"set": "folder", "folds": [0]}
    black, mirrored = (
        Job(DataSpec(**data_spec, rotation_border=border), "ce", 0, 0, (), 1) for border in ("constant", "reflect")
    )
    assert "rotation_border" not in black.hashed_fields()["data"]
    assert mirrored.hashed_fields()["data"]["rotation_border"] == "reflect"
    assert [execution.run_config(job).rotation_border for job in (black, mirrored)] == ["constant", "reflect"]


def test_jobs_keep_models_of_single_networks_only():
    data = [{"set": "lev", "folds": [0]}]
    single, ensemble = jobs(Spec(name="x", data=data, losses=["ce", {"cv": 2}], keep_models=True))
    (stages,) = jobs(Spec(name="x", data=data, two_stage={}, keep_models=True))
    assert [job.keep_model for job in (single, ensemble, stages)] == [True, False, False]


def test_status_specs_with_the_same_training_share_runs(spec_file, tmp_path):
    results = tmp_path / "results"
    spec = load_spec(spec_file)
    assert [execute(job, results) for job in jobs(spec)] == ["done"] * 4
    grid = {"label": "the paper's", "name": "temperature", "search": "grid"}
    changes = {"losses": [{"label": "plain", "name": "ce"}], "calibrators": ["none", "gap+projection", grid]}
    other = load_spec(spec.model_copy(update={"name": "other", **changes}))
    plan = bench.status(other, results=results)
    assert len(plan.finished) == 2  # another calibrator or label needs no training
    assert count_distinct([plan, bench.status(spec, results=results)]) == (4, 4)
    rows = plan.records()
    assert {row["calibrator"] for row in rows} == {"none", "gap+projection", "the paper's"}
    files = sorted((results / "calibrated").glob("*/*.json"))
    assert len(files) == 4 + 4  # temperature of the first spec, two calibrators of the second
    content = json.loads(next(path for path in files if "search" in path.read_text()).read_text())
    assert content["calibrator"] == {"name": "temperature", "search": "grid"}
    files[0].write_text("truncated")
    assert plan.records() == rows  # a damaged file is computed again
    with pytest.raises(InputError, match="calibrators: duplicate 'temperature'.*label"):
        load_spec(spec.model_copy(update={"calibrators": ["temperature", {"label": "temperature", "name": "gap"}]}))
    with pytest.raises(UnknownNameError, match="'search'"):
        bench.plan(spec.model_copy(update={"calibrators": [{"name": "temperature", "serch": "grid"}]}), results=results)
    with pytest.raises(UnknownNameError, match="Did you mean 'grid'"):
        bench.plan(
            spec.model_copy(update={"calibrators": [{"name": "temperature", "search": "gird"}]}), results=results
        )
    bench.run(other, results=results)
    index = json.loads((results / "other" / "runs.json").read_text())
    assert [(entry["loss"], entry["fold"]) for entry in index] == [("plain", 0), ("plain", 1)]
    assert "Comparison with the paper" not in report(other, results)
    with_paper = other.model_copy(update={"paper": ["main"]})
    assert "lev: set lev" in report(with_paper, results)


def test_status_results_of_version_0_1_are_refused(spec_file, tmp_path):
    (tmp_path / "results" / "small" / "runs").mkdir(parents=True)
    with pytest.raises(InputError, match=r"small: results of orcu 0\.1 .*--results"):
        bench.status(spec_file, results=tmp_path / "results")


def test_run_ensemble_is_a_row_of_the_table(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "data"))
    file = tmp_path / "ensemble.toml"
    file.write_text(
        'name = "ensemble"\n'
        'losses = ["ce", { label = "trees and networks", cv = 2, estimators = ["network", "boosting"] }]\n'
        'calibrators = ["none", "auto"]\n'
        '[[data]]\nset = "lev"\nhidden_layer_sizes = [8]\nfolds = [0]\ntraining = { epochs = 2 }\n'
    )
    bench.run(file, results=tmp_path / "results", jobs=1)
    plan = bench.status(file, results=tmp_path / "results")
    assert [run.state for run in plan.runs] == ["finished", "finished"]
    rows = {(row["loss"], row["calibrator"]): row for row in plan.records()}
    assert rows["trees and networks", "auto"]["unimodality"] == 1
    ensemble = next(run for run in plan.runs if run.job.loss_name == "trees and networks")
    out_of_fold = Predictions.read(plan.file(ensemble, "validation.parquet"))
    single = Predictions.read(plan.file(plan.runs[0], "validation.parquet"))
    assert len(out_of_fold) > 2 * len(single)  # all rows of train and validation
    result = json.loads(plan.file(ensemble, "result.json").read_text())
    assert sum(result["weights"].values()) == pytest.approx(1)


SUMMARY = """
[summary]
baseline = { loss = "ce", calibrator = "temperature", name = "what <b>we</b> did" }
paper = { loss = "orcu", name = "the paper's" }
proposed = { loss = "ensemble", calibrator = "auto", name = "the new way", how = "fit it" }
"""


def summary_file(tmp_path, summary=SUMMARY):
    file = tmp_path / "summary.toml"
    file.write_text(
        'name = "with_summary"\n'
        'losses = ["ce", "orcu", { cv = 2, losses = ["ce"], estimators = ["network"], training = { epochs = 3 } }]\n'
        f'calibrators = ["none", "temperature", "auto"]\n{summary}\n'
        '[[data]]\nset = "lev"\nhidden_layer_sizes = [8]\nfolds = [0]\ntraining = { epochs = 1 }\n'
    )
    return file


def test_summarise_sentences_follow_from_the_records(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "data"))
    file, results = summary_file(tmp_path), tmp_path / "results"
    bench.run(file, results=results, jobs=1)
    table = bench.table(file, results=results)
    comparison, result, recommendation = summarise(table).sentences
    assert "the new way, and 6 other" in comparison
    assert "LEV (200 rows)" in comparison
    rows = {(row["loss"], row["calibrator"]): row for row in table.plan.records()}
    baseline, proposed = rows["ce", "temperature"], rows["ensemble", "auto"]
    percent = 100 * (proposed["rps"] / baseline["rps"] - 1)
    assert f"{abs(percent):.1f} % {'lower' if percent < 0 else 'higher'} on LEV (significant)" in result
    assert proposed["unimodality"] == 1
    assert "All of its predictions" in result
    # three epochs of an ensemble against one epoch of a network: a large difference
    assert "the new way is significantly better than what <b>we</b> did" in result
    assert "the new way: fit it" in recommendation
    page = bench.report(file, results=results).read_text(encoding="utf-8")
    assert "what &lt;b&gt;we&lt;/b&gt; did" in page
    assert "<b>we</b>" not in page
    assert page.index("the new way: fit it") < page.index("One example") < page.index("runs are finished")
    content = json.loads(table.plan.file(table.plan.runs[2], "result.json").read_text())
    assert content["training"]["epochs"] == 3  # the training settings of the ensemble, not of the data set


def test_summarise_unfinished_runs_give_none(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "data"))
    file, results = summary_file(tmp_path), tmp_path / "results"
    data.prepare("lev", output=tmp_path / "data" / "lev")
    execute(jobs(load_spec(file))[0], results)
    assert summarise(bench.table(file, results=results)) is None
    assert "One example" not in bench.report(file, results=results).read_text(encoding="utf-8")


def test_paper_layout_shows_significance_marks():
    spec = Spec(name="x", data=[{"set": "lev"}], losses=["ce", "sord", "orcu"], columns=["sce"], seeds=[0])
    rows = [
        {"data": "lev", "loss": loss, "calibrator": "none", "fold": 0, "seed": 0, "qwk": 0.5, "sce": error}
        for loss, error in (("ce", 0.05), ("sord", 0.06), ("orcu", 0.04))
    ]
    (table,) = paper_layout(spec, lines(spec, rows, {("lev", "sord", "none", "sce"): "▼"}))
    assert [getattr(cell, "text", cell) for cell in table.rows[0]][-3:] == ["5.00", "6.00 ▼", "4.00"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('loss = "ce"', 'loss = "cee"', "loss of the summary 'cee'.*'ce'"),
        ('calibrator = "auto"', 'calibrator = "gap"', "calibrator of the summary 'gap'"),
        ("paper =", "papers =", r"summary\.papers: .*'paper'"),
        (', name = "the paper\'s"', "", r"summary\.paper\.name"),
    ],
)
def test_load_spec_summary_with_unknown_rows_raises(tmp_path, old, new, message):
    with pytest.raises(InputError, match=message):
        load_spec(summary_file(tmp_path, SUMMARY.replace(old, new)))


def test_lines_collapsed_model_is_marked_and_not_ranked():
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
    shown = {form: render_table(spec, list(by_loss.values()), form) for form in ("markdown", "latex", "html", "csv")}
    assert "| cdw_ce ‡ | 1.00 |" in shown["markdown"]
    assert r"CDW-CE $\ddagger$" in shown["latex"]
    assert "<td>cdw_ce ‡</td><td>1.00</td>" in shown["html"]
    assert [row.split(",")[-1] for row in shown["csv"].splitlines()] == ["collapsed", "", "collapsed", "", ""]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{ cv = 1 }", "cv: .*2"),
        ("{ cv = 5, loses = ['ce'] }", "loses"),
        ("{ cv = 5, losses = ['mdca'] }", "losses: mdca"),
        ("{ cv = 5, losses = ['nix'] }", "nix"),
    ],
)
def test_plan_invalid_ensemble_raises(tmp_path, entry, message):
    file = tmp_path / "ensemble.toml"
    file.write_text(f'name = "ensemble"\nlosses = [{entry}]\n[[data]]\nset = "lev"\nhidden_layer_sizes = [8]\n')
    with pytest.raises(InputError, match=message):
        bench.plan(file, results=tmp_path)


def test_plan_ensemble_on_images_needs_frozen_features(tmp_path):
    file = tmp_path / "ensemble.toml"
    for frozen, message in (("", "retinamnist: .*frozen = true"), ("frozen = true\n", "retinamnist: estimators")):
        estimators = ', estimators = ["boosting"]' if frozen else ""
        file.write_text(
            f'name = "ensemble"\nlosses = ["ce", {{ cv = 5{estimators} }}]\n'
            f'[[data]]\nset = "retinamnist"\nprotocol = "official"\n{frozen}'
        )
        with pytest.raises(InputError, match=message):
            bench.plan(file, results=tmp_path)
    file.write_text(
        'name = "ensemble"\nlosses = ["ce", { cv = 5 }]\n'
        '[[data]]\nset = "retinamnist"\nprotocol = "official"\nexclude = ["ensemble"]\n'
    )
    assert len(bench.plan(file, results=tmp_path).runs) == 1


@pytest.mark.slow
def test_spec_lists_losses_and_heads_as_rows(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "data"))
    entries = ["ce", "coral", {"name": "ce", "head": "cumulative"}, {"label": "corn", "name": "ce", "head": "corn"}]
    training = {"epochs": 1}
    spec = Spec(name="heads", data=[DataSpec(set="lev", folds=[0], training=training)], losses=entries)
    assert spec.row_names == ["ce", "coral", "ce (head=cumulative)", "corn"]
    plain, coral, cumulative, corn = jobs(spec)
    assert len({job.id("manifest") for job in (plain, coral, cumulative, corn)}) == 4
    assert [job.loss_spec for job in (plain, cumulative, corn)] == ["ce"] * 3
    assert "head" not in plain.hashed_fields()
    bench.run(spec, results=tmp_path / "results")
    table = records(spec, tmp_path / "results")
    assert {row["loss"]: np.isfinite(row["rps"]) for row in table} == dict.fromkeys(spec.row_names, True)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"name": "ce", "head": "cumulativ"}, "unknown head 'cumulativ'"),
        ({"name": "ce", "head": "poe"}, "^head: the loss 'ce' takes logits"),
        ({"name": "poe", "head": "corn"}, "^head: the loss 'poe' takes the output of the head 'poe'"),
        ({"cv": 5, "head": "corn"}, "unknown key 'head'"),
    ],
    ids=str,
)
def test_spec_with_a_head_that_the_loss_cannot_have_raises(entry, message):
    with pytest.raises(InputError, match=message):
        check_parts(Spec(name="heads", data=[DataSpec(set="lev")], losses=[entry]))
