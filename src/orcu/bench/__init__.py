"""The benchmark: specs in TOML, runs that are done once, tables as the paper prints them.

What ``orcu bench`` does, a function for each of its commands:

    from orcu import bench

    bench.run("demo")
    print(bench.table("demo").text())
"""

# Here `plan`, `run` and `report` are the functions, not the modules that hold them: these are read first.
from orcu.bench.paper import compare
from orcu.bench.plan import plan, status
from orcu.bench.report import report
from orcu.bench.run import run
from orcu.bench.spec import Spec, load_spec
from orcu.bench.tables import table

__all__ = ["Spec", "compare", "load_spec", "plan", "report", "run", "status", "table"]
