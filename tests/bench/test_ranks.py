"""Ranks of a benchmark's losses, from stored results."""

import csv
import io

import pytest

from orcu import bench
from orcu.bench.jobs import State, jobs
from orcu.bench.plan import Plan, PlannedRun
from orcu.bench.ranks import group_letters, rank_rows, render_ranks
from orcu.bench.spec import Spec
from orcu.errors import InputError, UnknownNameError

LOSSES = ["ce", "cdw_ce", "orcu"]
ERRORS = {"ce": 0.3, "cdw_ce": 0.2, "orcu": 0.1}


class StoredPlan(Plan):
    """A plan whose records are given."""

    def records(self, split=None):
        return [
            {"data": run.job.data.title, "loss": run.job.loss_name, "calibrator": calibrator, "fold": run.job.fold}
            | {"seed": run.job.seed, "qwk": 0.5}
            | {"sce": ERRORS[run.job.loss_name] if calibrator == "none" else 1 - ERRORS[run.job.loss_name]}
            for run in reversed(self.finished)
            for calibrator in self.spec.calibrator_names
        ]


@pytest.fixture
def plan(tmp_path):
    data = [{"set": "lev", "name": f"set {i}", "folds": [i % 5], "seeds": [i]} for i in range(12)]
    spec = Spec(name="many", losses=LOSSES, calibrators=["none", "temperature"], data=data)
    return StoredPlan(spec, tmp_path, [PlannedRun(job, State.FINISHED, "id") for job in jobs(spec)], "many")


def test_ranks_are_those_of_the_records_in_the_order_of_the_spec(plan):
    test = bench.ranks(plan)
    assert test.models == ("orcu", "cdw_ce", "ce")
    assert test.mean_ranks.tolist() == [1, 2, 3]
    assert test.datasets == tuple(f"set {i}" for i in range(12))
    assert test.chi_square == pytest.approx(24)
    assert bench.ranks(plan, calibrator="temperature").models == ("ce", "cdw_ce", "orcu")
    assert bench.ranks(plan, losses=["ce", "orcu"]).models == ("orcu", "ce")
    assert any("have the same rows" in line for line in test.lines())


def test_ranks_invalid_arguments_raise_and_name_them(plan):
    with pytest.raises(UnknownNameError, match="calibrator of many"):
        bench.ranks(plan, calibrator="dirichlet")
    with pytest.raises(UnknownNameError, match="'orcu'"):
        bench.ranks(plan, losses=["ce", "orc"])
    with pytest.raises(UnknownNameError, match="metric"):
        bench.ranks(plan, metric="feasible_sce")
    stages = Spec(name="stages", two_stage={}, data=[{"set": "lev"}])
    finished = [PlannedRun(job, State.FINISHED, "id") for job in jobs(stages)]
    with pytest.raises(InputError, match="no test metrics to rank"):
        bench.ranks(Plan(stages, plan.results, finished, "stages"))


def test_render_ranks_in_every_format(plan):
    test = bench.ranks(plan)
    assert group_letters(test) == ["", "", ""]  # the critical difference is 0.96
    assert "all pairs are distinguished" in test.lines()
    headings, rows = rank_rows(test)
    assert headings[:4] == ["loss", "mean rank", "group", "set 0"]
    assert rows[0][:2] == ["orcu", "1.000"]
    read = list(csv.DictReader(io.StringIO(render_ranks(test, "csv"))))
    assert [row["loss"] for row in read] == list(test.models)
    assert {row["set 11"] for row in read} == {"1", "2", "3"}
    latex = render_ranks(test, "latex")
    assert latex.startswith(
        "% \\usepackage{booktabs}\n% Friedman test on 12 data sets: chi-square(2) = 24.00, F(2, 22) = inf"
    )
    assert "CDW-CE & 2.000" in latex
    assert "| cdw_ce | 2.000 |" in render_ranks(test, "markdown")
    assert "<td>cdw_ce</td><td>2.000</td>" in render_ranks(test, "html")
    with pytest.raises(UnknownNameError, match="'latex'"):
        render_ranks(test, "latx")
