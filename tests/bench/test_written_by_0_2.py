"""Run ids and stored results of version 0.2, which wrote the files in tests/data/written_by_0_2/bench."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from orcu import bench, data
from orcu.bench.jobs import jobs
from orcu.bench.spec import CONFIGS, Spec, load_spec

FOLDER = Path(__file__).parents[1] / "data" / "written_by_0_2" / "bench"
RUN_IDS = json.loads((FOLDER / "run_ids.json").read_text())
CHANGED = {"results_posthoc", "results_converged", "results_finetuned", "results_text"}  # other losses since 0.3
DATA = {"set": "lev", "hidden_layer_sizes": [16], "folds": [1], "training": {"epochs": 2, "scheduler": "cosine"}}
ENSEMBLE = {
    "label": "trees and networks",
    "cv": 2,
    "losses": ["ce", {"name": "orcu", "scale": 2.0}],
    "estimators": ["network", "boosting"],
    "training": {"epochs": 3, "scheduler": "constant"},
}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("plain", {"losses": ["ce"], "seeds": [3]}),
        ("options", {"losses": [{"label": "ours", "name": "orcu", "scale": 3.0}], "seeds": [3]}),
        ("anchor", {"losses": [{"anchor": "huber", "regularizer": "lbe"}], "seeds": [3]}),
        ("ensemble", {"losses": [{"cv": 5}], "seeds": [3]}),
        ("ensemble with options", {"losses": [ENSEMBLE], "seeds": [3]}),
        ("ensemble of heads", {"losses": ["ensemble"], "seeds": [3]}),
        ("ensemble of heads as a table", {"losses": [{"name": "ensemble", "label": "heads"}], "seeds": [3]}),
        ("two-stage", {"two_stage": {"scale": 2.0, "epochs": [3, 4]}}),
        ("kept model", {"losses": ["sord"], "keep_models": True, "threads": 2}),
    ],
)
def test_job_id_is_the_same_as_in_version_0_2_unless_it_is_an_ensemble_on_a_table(name, options):
    (job,) = jobs(load_spec(Spec(name="x", data=[DATA], **options)))
    run = job.id_with_model("manifest") if job.keep_model else job.id("manifest")
    is_same = run == RUN_IDS["jobs"][name]
    assert is_same != (name in ("ensemble", "ensemble with options"))  # other members and features since 0.3


def digest(spec):
    ids = [job.id("manifest") for job in jobs(spec)]
    return {"runs": len(ids), "digest": hashlib.sha256("\n".join(ids).encode()).hexdigest()[:20]}


def with_black_border(spec):
    """A spec with the border of rotations of version 0.2."""
    data = [entry.model_copy(update={"rotation_border": "constant"}) for entry in spec.data]
    return spec.model_copy(update={"data": data})


def test_job_ids_of_all_packaged_specs_with_a_black_border_are_the_same_as_in_version_0_2():
    assert {path.stem for path in CONFIGS.glob("*.toml")} >= RUN_IDS["specs"].keys() - {"ablation with grid", *CHANGED}
    for name, expected in RUN_IDS["specs"].items():
        if name in CHANGED:
            continue
        spec = load_spec("ablation", extra="grid") if name == "ablation with grid" else load_spec(name)
        spec = with_black_border(spec)
        if name == "demo":  # has an ensemble on a table, whose members and features are others since 0.3
            assert digest(spec)["runs"] == expected["runs"]
            assert digest(spec) != expected
        else:
            assert digest(spec) == expected, name


def test_records_of_a_store_of_version_0_2_are_read_with_the_same_numbers(tmp_path, monkeypatch):
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "data"))

    data.prepare("lev", output=tmp_path / "data" / "lev")
    shutil.copytree(FOLDER / "results", tmp_path / "results")
    ensemble = {"cv": 2, "losses": ["ce"], "estimators": ["network"], "training": {"epochs": 2}}
    spec = Spec(
        name="small",
        losses=["ce", {**ensemble, "label": "committee"}],
        calibrators=["none", "temperature"],
        columns=["accuracy", "off_by_one_accuracy", "sce"],
        data=[
            {"set": "lev", "folds": [0], "hidden_layer_sizes": [4], "training": {"epochs": 1, "scheduler": "cosine"}}
        ],
    )
    plan = bench.status(spec, results=tmp_path / "results")
    assert [run.state for run in plan.runs] == ["finished", "pending"]  # ensembles on tables are others since 0.3
    stored = [row for row in json.loads((FOLDER / "records.json").read_text()) if row["loss"] == "ce"]
    expected = [{**row, "off_by_one_accuracy": row["within_one"]} for row in stored]
    records = plan.records()
    assert [{**row, "within_one": row["off_by_one_accuracy"]} for row in records] == expected
    assert "40.50" in bench.table(plan).text()
