"""Benchmarks: TOML specs, runs that are computed once and stored, and result tables.

Each ``orcu bench`` command is a function here:

    from orcu import bench

    bench.run("demo")
    print(bench.table("demo").text())
"""

# The names `plan`, `ranks`, `run` and `report` are the functions, not the modules of the same names.
from orcu.bench.paper import compare
from orcu.bench.plan import plan, status
from orcu.bench.ranks import ranks
from orcu.bench.report import report
from orcu.bench.run import run
from orcu.bench.spec import Spec, load_spec
from orcu.bench.tables import table

__all__ = ["Spec", "compare", "load_spec", "plan", "ranks", "report", "run", "status", "table"]
