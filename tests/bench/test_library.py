"""``orcu.bench`` from Python: what every command does is one call."""

import importlib
from collections import Counter

import pytest

from orcu import bench
from orcu.bench.columns import column
from orcu.bench.spec import load_spec
from orcu.bench.tables import lines, rendered
from orcu.data import store
from orcu.errors import InputError, UnknownNameError


def test_a_benchmark_is_run_once_and_read_in_many_ways(spec_file, tmp_path, monkeypatch):
    spec, results = load_spec(spec_file), tmp_path / "results"
    with pytest.raises(InputError, match="no run of small is finished yet; `orcu bench run .*small.toml` does them"):
        bench.table(spec_file, results=results)
    moments = []
    summary = bench.run(spec_file, results=results, jobs=1, progress=moments.append)
    assert summary.outcomes == {"done": 4}
    assert summary.plan.states == {"waiting": 4}  # as it was
    assert [moment.what for moment in moments[:2]] == ["lev: shared work", "runs"]
    assert [moment.done for moment in moments[1:]] == [0, 1, 2, 3, 4]
    assert moments[-1].outcomes == summary.outcomes
    assert bench.run(spec, results=results, jobs=1).outcomes == Counter()

    loads = []
    real = store.Manifest.read
    monkeypatch.setattr(store.Manifest, "read", lambda path: loads.append(path) or real(path))
    whole = bench.table(spec_file, results=results, against="ce")
    assert len(loads) == 1  # the plan is made once, and with it the data looked at
    plan = whole.plan
    assert str(plan) == "Plan(small: 4 finished)"
    assert [(cost.data, cost.runs, cost.to_do, cost.hours) for cost in plan.costs()] == [("lev", 4, 0, 0)]
    assert (len(plan.records()), len(plan.records("validation"))) == (8, 4)
    assert whole.text().startswith("| data | loss | calibrator | accuracy % ↑ |")
    assert bench.table(plan).lines == bench.table(spec, results=results).lines
    page = bench.report(plan)
    assert page == results / "small" / "report.html"
    assert bench.report(plan, out=tmp_path / "page.html").read_bytes() == page.read_bytes()
    with pytest.raises(InputError, match="small answers no table of the paper"):
        bench.compare(plan)
    assert len(loads) == 2  # that of the spec above; a plan is taken as it is


def test_a_mistake_is_told_before_the_first_run(spec_file, tmp_path, monkeypatch):
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "nothing"))
    with pytest.raises(InputError, match="none of the data are prepared; bring them by `orcu data prepare"):
        bench.run("main", results=tmp_path)
    spec = load_spec(spec_file)
    with pytest.raises(UnknownNameError, match="Did you mean 'ce'"):
        bench.run(spec.model_copy(update={"losses": ["cee"]}), results=tmp_path)
    with pytest.raises(InputError, match="small: losses: 'ce' stands twice"):
        bench.plan(spec.model_copy(update={"losses": ["ce", "ce"]}), results=tmp_path)
    with pytest.raises(UnknownNameError, match="Did you mean 'local'"):
        bench.run(spec, results=tmp_path, launcher="locl")
    with pytest.raises(InputError, match="expected cpu, or numbers of GPUs"):
        bench.run(spec, results=tmp_path, devices="7000")
    assert not (tmp_path / "small").exists()


def test_modules_are_importable_beside_the_functions_of_their_names():
    """The guides of version 0.1.0 import from these modules."""
    for module, names in {
        "plan": ["jobs", "Job"],
        "run": ["execute"],
        "collect": ["planned", "records", "Planned"],
        "spec": ["load_spec"],
    }.items():
        loaded = importlib.import_module(f"orcu.bench.{module}")
        assert all(hasattr(loaded, name) for name in names)
    assert all(callable(getattr(bench, name)) for name in bench.__all__)


def test_hostile_names_are_written_out_in_every_format(spec_file):
    text = (
        spec_file.read_text()
        .replace('"ours"', "'<i>a|b & 5 %</i>'")
        .replace('set = "lev"', 'set = "lev"\nname = "x_y|z"')
    )
    spec_file.write_text(text)
    spec = load_spec(spec_file)
    record = {"data": "x_y|z", "calibrator": "none", "fold": 0, "seed": 0, **dict.fromkeys(spec.columns, 0.5)}
    table = lines(spec, [{**record, "loss": name} for name in spec.row_names])
    assert r"| x_y\|z | \<i>a\|b \& 5 %\</i> | none | 50.00 |" in rendered(spec, table, "markdown")
    assert "<td>x_y|z</td><td>&lt;i&gt;a|b &amp; 5 %&lt;/i&gt;</td>" in rendered(spec, table, "html")
    written = r"x\_y\textbar{}z & \textless{}i\textgreater{}a\textbar{}b \& 5 \%\textless{}/i\textgreater{} & none"
    assert written in rendered(spec, table, "latex")
    assert "x_y|z,<i>a|b & 5 %</i>,none,0.5," in rendered(spec, table, "csv")


def test_the_best_is_what_the_metric_says():
    spec = load_spec("text").model_copy(update={"columns": ["overconfidence", "accuracy"]})
    values = {"ce": -0.3, "sord": 0.1, "orcu": 0.2}
    records = [
        {"data": "sst5", "loss": loss, "calibrator": "none", "fold": 0, "seed": 0, **dict.fromkeys(spec.columns, value)}
        for loss, value in values.items()
    ]
    ranks = {line.loss: (line.rank("overconfidence"), line.rank("accuracy")) for line in lines(spec, records)}
    assert ranks == {"ce": (0, 0), "sord": (1, 2), "orcu": (2, 1)}  # near zero is better, and higher is
    assert column("feasible_active").cost(0.25) == -0.25
