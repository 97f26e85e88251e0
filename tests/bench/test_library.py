"""``orcu.bench`` from Python."""

from collections import Counter

import pytest

from orcu import bench
from orcu.bench.columns import column
from orcu.bench.spec import load_spec
from orcu.bench.tables import lines, render_table
from orcu.data import store
from orcu.errors import InputError, UnknownNameError


def test_run_then_table_report_and_compare_use_one_plan(spec_file, tmp_path, monkeypatch):
    spec, results = load_spec(spec_file), tmp_path / "results"
    with pytest.raises(InputError, match="small: no run is finished.*`orcu bench run .*small.toml`"):
        bench.table(spec_file, results=results)
    steps = []
    summary = bench.run(spec_file, results=results, jobs=1, progress=steps.append)
    assert summary.outcomes == {"done": 4}
    assert summary.plan.states == {"pending": 4}  # before the runs
    assert [step.line for step in steps[:2]] == ["lev: preparing", "starting 4 runs, 1 in parallel"]
    assert [step.done for step in steps[1:]] == [0, 1, 2, 3, 4]
    assert steps[2].line == "1 of 4 runs: lev, fold 0, ce: done"
    assert steps[-1].outcomes == summary.outcomes
    assert bench.run(spec, results=results, jobs=1).outcomes == Counter()

    loads = []
    original = store.Manifest.read
    monkeypatch.setattr(store.Manifest, "read", lambda path: loads.append(path) or original(path))
    table = bench.table(spec_file, results=results, baseline="ce")
    assert len(loads) == 1  # one plan, so the manifest is read once
    plan = table.plan
    assert str(plan) == "Plan(small: 4 finished)"
    assert [(cost.data, cost.runs, cost.remaining, cost.hours) for cost in plan.costs()] == [("lev", 4, 0, 0)]
    assert (len(plan.records()), len(plan.records("validation"))) == (8, 4)
    assert table.text().startswith("| data | loss | calibrator | accuracy % ↑ |")
    assert bench.table(plan).lines == bench.table(spec, results=results).lines
    page = bench.report(plan)
    assert page == results / "small" / "report.html"
    assert bench.report(plan, output=tmp_path / "page.html").read_bytes() == page.read_bytes()
    with pytest.raises(InputError, match="^small: .*paper"):
        bench.compare(plan)
    assert len(loads) == 2  # one for the spec above; a plan is not made again


def test_run_invalid_spec_or_option_raises_before_the_first_run(spec_file, tmp_path, monkeypatch):
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "nothing"))
    with pytest.raises(InputError, match="main: .*`orcu data prepare"):
        bench.run("main", results=tmp_path)
    spec = load_spec(spec_file)
    with pytest.raises(UnknownNameError, match="Did you mean 'ce'"):
        bench.run(spec.model_copy(update={"losses": ["cee"]}), results=tmp_path)
    with pytest.raises(InputError, match="small: losses: duplicate 'ce'"):
        bench.plan(spec.model_copy(update={"losses": ["ce", "ce"]}), results=tmp_path)
    with pytest.raises(UnknownNameError, match="Did you mean 'local'"):
        bench.run(spec, results=tmp_path, launcher="locl")
    with pytest.raises(InputError, match="^--devices: .*7000"):
        bench.run(spec, results=tmp_path, devices="7000")
    assert not (tmp_path / "small").exists()


def test_all_names_are_callable():
    assert all(callable(getattr(bench, name)) for name in bench.__all__)


def test_render_table_escapes_special_characters_in_every_format(spec_file):
    text = (
        spec_file.read_text()
        .replace('"ours"', "'<i>a|b & 5 %</i>'")
        .replace('set = "lev"', 'set = "lev"\nname = "x_y|z"')
    )
    spec_file.write_text(text)
    spec = load_spec(spec_file)
    record = {"data": "x_y|z", "calibrator": "none", "fold": 0, "seed": 0, **dict.fromkeys(spec.columns, 0.5)}
    table = lines(spec, [{**record, "loss": name} for name in spec.row_names])
    assert r"| x_y\|z | \<i>a\|b \& 5 %\</i> | none | 50.00 |" in render_table(spec, table, "markdown")
    assert "<td>x_y|z</td><td>&lt;i&gt;a|b &amp; 5 %&lt;/i&gt;</td>" in render_table(spec, table, "html")
    latex = render_table(spec, table, "latex")
    assert r"\multirow{2}{*}{x\_y\textbar{}z} & \multirow{2}{*}{none} & CE & 50.00" in latex
    assert r" &  & \textless{}i\textgreater{}a\textbar{}b \& 5 \%\textless{}/i\textgreater{} & 50.00" in latex
    assert "x_y|z,<i>a|b & 5 %</i>,none,0.5," in render_table(spec, table, "csv")


def test_lines_ranks_follow_the_direction_of_the_metric():
    spec = load_spec("text").model_copy(update={"columns": ["overconfidence", "accuracy"]})
    values = {"ce": -0.3, "sord": 0.1, "orcu": 0.2}
    records = [
        {"data": "sst5", "loss": loss, "calibrator": "none", "fold": 0, "seed": 0, **dict.fromkeys(spec.columns, value)}
        for loss, value in values.items()
    ]
    ranks = {line.loss: (line.rank("overconfidence"), line.rank("accuracy")) for line in lines(spec, records)}
    assert ranks == {"ce": (0, 0), "sord": (1, 2), "orcu": (2, 1)}  # near zero is better, higher is better
    assert column("feasible_active").cost(0.25) == -0.25
