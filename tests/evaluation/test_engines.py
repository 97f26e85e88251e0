"""The recipes of docs/guides/large.md with the engines themselves: the bits of one process.

``pip install duckdb dask pyspark`` and Debian's default-jre-headless (Java 17) install the engines that are not among
the packages for development.
"""

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import orcu

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "large.md"
ignored = pytest.mark.filterwarnings("ignore")  # of the engines


def recipe(heading):
    """The Python blocks below a heading of the page."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return "\n".join(re.findall(r"```python\n(.*?)```", section, re.DOTALL))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working directory, set before an engine starts, since its workers have that of their start."""
    monkeypatch.chdir(tmp_path)


def run_recipe(heading):
    """Compare the state of a recipe with that of the page's first recipe, which reads the files in one process."""
    # A function of __main__ is sent to workers by value.
    names = {"__name__": "__main__"}
    exec(recipe("Parts that merge"), names)
    expected, evaluation = names.pop("total"), names["evaluation"]
    tally = orcu.Tally(3)
    table = orcu.Predictions.read("predictions", **names["columns"])
    tally.update(table.probs, table.y)
    exec(recipe(heading), names)
    total = names["total"]
    assert total is not expected
    np.testing.assert_array_equal(total._state, expected._state)
    np.testing.assert_array_equal(total.tally.state, tally.state)
    assert total.evaluate().to_dict() == evaluation.to_dict()


@pytest.mark.slow
@ignored
@pytest.mark.parametrize(
    ("heading", "package"), [("Polars", "polars"), ("DuckDB", "duckdb"), ("Dask", "dask.dataframe")]
)
def test_recipe_gives_the_bits_of_one_process(heading, package):
    pytest.importorskip(package, reason=f"needs {package}, see the top of this file")
    run_recipe(heading)


@pytest.mark.ray
@ignored
def test_recipe_of_ray_gives_the_bits_of_one_process():
    ray = pytest.importorskip("ray", reason="needs ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        run_recipe("Ray")
    finally:
        ray.shutdown()


@pytest.mark.slow
@ignored
def test_recipe_of_spark_gives_the_bits_of_one_process(monkeypatch):
    sql = pytest.importorskip("pyspark.sql", reason="needs pyspark, see the top of this file")
    if shutil.which("java") is None:
        pytest.skip("needs Java, see the top of this file")
    for name, value in {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    spark = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        run_recipe("Spark")
    finally:
        spark.stop()
