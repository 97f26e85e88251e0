"""The Ray launcher on this machine."""

import importlib.util
import os
from functools import partial
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest

from orcu import Predictions, bench, data, evaluate
from orcu.bench.execution import execute
from orcu.bench.jobs import jobs
from orcu.bench.spec import load_spec
from orcu.bench.tables import lines, render_table
from orcu.errors import InputError
from orcu.launchers import LAUNCHERS
from orcu.predictions import open_predictions

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed"),
    pytest.mark.filterwarnings("ignore"),  # of Ray itself
]


def test_execute_with_ray_and_local_launcher_gives_the_same_bytes(spec_file, tmp_path):
    source = "from torch import nn\n\n\nclass Mine(nn.CrossEntropyLoss):\n    pass\n"
    (tmp_path / "mine.py").write_text(source)
    spec_file.write_text(spec_file.read_text().replace('losses = ["ce"', 'losses = ["mine.py:Mine"'))
    spec = load_spec(spec_file)
    (tmp_path / "mine.py").unlink()  # workers need no file
    data.prepare("lev", output=tmp_path / "data" / "lev")
    tables, files = [], []
    for launcher, count in (("local", 1), ("ray", 2)):
        results = tmp_path / launcher
        with LAUNCHERS.create(launcher, jobs=count) as workers:
            outcomes = list(workers.map_ordered(partial(execute, results=results), jobs(spec)))
        assert outcomes == ["done"] * 4
        plan = bench.status(spec, results=results)
        assert set(plan.states) == {"finished"}
        tables.append(render_table(spec, lines(spec, plan.records()), "csv"))
        files.append({path.name: (path / "result.json").read_bytes() for path in (results / "runs").iterdir()})
    assert tables[0] == tables[1]
    assert files[0] == files[1]


def test_local_instance_assigns_the_chosen_gpu_of_the_parents_list(monkeypatch):
    def seen_card(number):  # local functions are sent to the workers by value
        return os.environ["CUDA_VISIBLE_DEVICES"]

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-8932f937")
    with LAUNCHERS.create("ray", jobs=1, gpus=[1]) as workers:
        assert list(workers.map_ordered(seen_card, [0, 1])) == ["GPU-8932f937", "GPU-8932f937"]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,GPU-8932f937"


@pytest.mark.parametrize(
    ("options", "jobs", "share"),
    [
        ({"jobs": None, "gpus": None}, 4, 1.0),  # one run for each GPU of the cluster
        ({"jobs": 8, "gpus": None}, 8, 0.5),
        ({"jobs": None, "gpus": ()}, 8, 0.0),  # --devices cpu: 32 CPUs of the cluster, 4 threads each
    ],
)
def test_cluster_runs_request_its_gpus_not_those_of_the_driver(options, jobs, share, monkeypatch):
    requested = []

    def remote(**resources):
        requested.append(resources)
        return lambda function: SimpleNamespace(remote=None)

    cluster = SimpleNamespace(
        init=lambda **arguments: None,
        cluster_resources=lambda: {"CPU": 32.0, "GPU": 4.0},
        remote=remote,
        put=lambda value: value,
        shutdown=lambda: None,
    )
    monkeypatch.setattr("orcu.launchers.ray.importlib.import_module", lambda name: cluster)
    with LAUNCHERS.create("ray", threads=4, address="head:6379", **options) as workers:
        assert list(workers.map_unordered(abs, [])) == []
        assert workers.jobs == jobs
    assert requested == [{"num_cpus": 4, "num_gpus": share, "max_retries": 3}]


def test_evaluate_folder_with_ray_gives_the_same_bits(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(3000, 4)).round(1), rng.integers(4, size=3000)
    for k in range(3):
        part = slice(1000 * k, 1000 * (k + 1))
        Predictions(logits=logits[part], y=y[part]).write(tmp_path / f"part-{k}.parquet")
    monkeypatch.setattr("orcu.evaluation.statistics.IN_MEMORY_CELLS", 4000)
    here = evaluate(open_predictions(tmp_path), n_resamples=50)
    with LAUNCHERS.create("ray", jobs=2) as workers:
        there = evaluate(open_predictions(tmp_path), n_resamples=50, launcher=workers)
        assert here.sampled
        assert there.to_dict() == here.to_dict()
        table = pq.read_table(tmp_path / "part-1.parquet").to_pandas()
        table.loc[7, "logit_0"] = np.nan
        table.to_parquet(tmp_path / "part-1.parquet")
        with pytest.raises(InputError, match=r"^\S+/part-1\.parquet: .*row 8"):
            evaluate(open_predictions(tmp_path, label="label", logits="logit_*"), launcher=workers)
