"""The Ray launcher, for real on this machine."""

import importlib.util

import pytest

from orcu import data
from orcu.bench.collect import planned, records
from orcu.bench.launchers import LAUNCHERS
from orcu.bench.plan import jobs
from orcu.bench.spec import load_spec
from orcu.bench.tables import lines, rendered

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed"),
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]


def test_ray_and_local_give_the_same_bytes(spec_file, tmp_path):
    spec = load_spec(spec_file)
    data.prepare("lev", out=tmp_path / "data" / "lev")
    tables, files = [], []
    for launcher in ("local", "ray"):
        results, told = tmp_path / launcher, []
        LAUNCHERS.get(launcher)(
            jobs(spec), results, jobs=2, told=lambda job, how, told=told: told.append(how)
        )
        assert told == ["done"] * 4
        assert {one.state for one in planned(spec, results)} == {"finished"}
        tables.append(rendered(spec, lines(spec, records(spec, results)), "csv"))
        files.append(
            {
                path.name: (path / "result.json").read_bytes()
                for path in (results / "runs").iterdir()
            }
        )
    assert tables[0] == tables[1]
    assert files[0] == files[1]
