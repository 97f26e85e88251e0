"""The Ray launcher on this machine."""

import importlib.util
from functools import partial

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
    spec = load_spec(spec_file)
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
