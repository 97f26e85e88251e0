"""The Ray launcher, for real on this machine."""

import importlib.util
from functools import partial

import numpy as np
import pyarrow.parquet as pq
import pytest

from orcu import Predictions, data, evaluate
from orcu.bench.collect import planned, records
from orcu.bench.execution import execute
from orcu.bench.jobs import jobs
from orcu.bench.spec import load_spec
from orcu.bench.tables import lines, rendered
from orcu.errors import InputError
from orcu.launchers import LAUNCHERS
from orcu.predictions.predictions import open_predictions

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed"),
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]


def test_ray_and_local_give_the_same_bytes(spec_file, tmp_path):
    spec = load_spec(spec_file)
    data.prepare("lev", out=tmp_path / "data" / "lev")
    tables, files = [], []
    for launcher, count in (("local", 1), ("ray", 2)):
        results = tmp_path / launcher
        with LAUNCHERS.create(launcher, jobs=count) as workers:
            ended = list(workers.map_ordered(partial(execute, results=results), jobs(spec)))
        assert ended == ["done"] * 4
        assert {one.state for one in planned(spec, results)} == {"finished"}
        tables.append(rendered(spec, lines(spec, records(spec, results)), "csv"))
        files.append({path.name: (path / "result.json").read_bytes() for path in (results / "runs").iterdir()})
    assert tables[0] == tables[1]
    assert files[0] == files[1]


def test_a_folder_judged_by_ray_has_the_same_bits(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(3000, 4)).round(1), rng.integers(4, size=3000)
    for k in range(3):
        part = slice(1000 * k, 1000 * (k + 1))
        Predictions(logits=logits[part], y=y[part]).write(tmp_path / f"part-{k}.parquet")
    monkeypatch.setattr("orcu.evaluation.evidence.IN_MEMORY_CELLS", 4000)
    here = evaluate(open_predictions(tmp_path), bootstrap=50)
    with LAUNCHERS.create("ray", jobs=2) as workers:
        there = evaluate(open_predictions(tmp_path), bootstrap=50, launcher=workers)
        assert here.sampled
        assert there.to_dict() == here.to_dict()
        table = pq.read_table(tmp_path / "part-1.parquet").to_pandas()
        table.loc[7, "logit_0"] = np.nan
        table.to_parquet(tmp_path / "part-1.parquet")
        with pytest.raises(InputError, match=r"^\S+/part-1\.parquet: .*row 8"):
            evaluate(open_predictions(tmp_path, label="label", logits="logit_*"), launcher=workers)
