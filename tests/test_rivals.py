"""benchmarks/rivals.py: rows with twins, the store of predictions, written tables, and significance."""

import importlib
import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from orcu import metrics

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TASK, METHOD = "LEV", "ExtraTrees"  # names only: the rows are made below


@pytest.fixture(scope="module")
def rivals():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        module = importlib.import_module("rivals")
        patch.setattr(module, "TREES", 5)
        yield module
    for name in ("rivals", "defaults"):
        sys.modules.pop(name, None)


def table(rows=120, classes=4):
    """A frame of one number and two categories with many equal rows, and labels."""
    rng = np.random.default_rng(0)
    value = rng.integers(6, size=rows)
    x = pd.DataFrame(
        {
            "value": value / 2,
            "colour": rng.choice(["red", "blue"], rows),
            "size": pd.Categorical(rng.choice(["S", "M"], rows), categories=["S", "M", "L"], ordered=True),
        }
    )
    return x, np.clip(value + rng.integers(-1, 2, rows), 0, classes - 1)


def a_uniform_default(rivals):
    """A stand-in for orcu's default, which takes too long here."""

    def predict(x, y, new):
        return [np.full((len(new), int(y.max()) + 1), 1 / (int(y.max()) + 1))]

    return rivals.Family((rivals.DEFAULT,), predict, package="orcu")


def stored(rivals, folder, folds=5, methods=("ExtraTrees", "RandomForest")):
    families = [a_uniform_default(rivals), *(family for family in rivals.RIVALS if family.methods[0] in methods)]
    console = Console(file=io.StringIO(), width=200)
    rivals.run(folder, {TASK: table()}, families, range(folds), console)
    return console.file.getvalue()


def test_has_twin_needs_exactly_equal_features_in_the_training_rows(rivals):
    x = pd.DataFrame({"a": [1.0, 1.0, 1.0, np.nan, np.nan, 2.0], "b": ["x", "x", "y", "x", "x", "x"]})
    train, test = np.array([0, 3]), np.array([1, 2, 4, 5])
    assert rivals.has_twin(x, train, test).tolist() == [True, False, True, False]


def test_run_resumes_and_records_the_cost(rivals, tmp_path):
    assert stored(rivals, tmp_path, folds=1).count("fold 0") == 3
    again = stored(rivals, tmp_path, folds=2)
    assert again.count("fold 0") == 0
    assert again.count("fold 1") == 3
    with np.load(rivals.prediction_file(tmp_path, TASK, 1, METHOD)) as file:
        assert set(file) == {"probs", "y", "seconds", "cpu_seconds", "version", "time_limit"}
        assert str(file["version"]).startswith("scikit-learn ")
        assert file["seconds"] > 0
        assert np.isnan(file["time_limit"])


def test_write_reports_both_subsets_and_archives_the_row_scores(rivals, tmp_path):
    stored(rivals, tmp_path)
    x, y = table()
    rows = rivals.load_rows(tmp_path, TASK, x, y)
    console = Console(file=io.StringIO(), width=250)
    rivals.write({TASK: rows}, tmp_path / "out", console)
    assert "rows: without twin" in console.file.getvalue()

    lines = pd.read_csv(tmp_path / "out" / "rivals.csv")
    columns = "task subset method folds rows rps nll accuracy qwk mae unimodal seconds cpu_seconds time_limit version"
    assert list(lines)[:15] == columns.split()
    for score in ("rps", "nll"):
        assert {f"{score} {name}" for name in ("difference", "low", "high", "verdict")} <= set(lines)
    assert len(lines) == 2 * 3
    line = lines[(lines["method"] == METHOD) & (lines["subset"] == "all")].iloc[0]
    probs = np.concatenate([forecast.probs for forecast in rows.forecasts[METHOD].values()])
    assert line["rows"] == len(y)
    assert line["rps"] == pytest.approx(metrics.rps(probs, rows.y))
    assert line["nll"] == pytest.approx(metrics.nll(probs, rows.y))
    assert line["rps low"] <= line["rps difference"] <= line["rps high"] < 0
    assert line["rps verdict"] == "better"  # than uniform probabilities

    archived = pq.read_table(tmp_path / "out" / "rival_rows.parquet")
    assert archived.column_names[:6] == ["task", "fold", "row", "twin", "scale", f"rps:{rivals.DEFAULT}"]
    scores = np.square(archived[f"rps:{METHOD}"].to_numpy() / archived["scale"].to_numpy())
    np.testing.assert_allclose(
        np.sqrt(scores), np.sqrt(rows.scores["rps", METHOD]), atol=0.51 / archived["scale"][0].as_py()
    )
    assert scores.mean() == pytest.approx(line["rps"], rel=2e-3)
    without_twin = lines[(lines["method"] == METHOD) & (lines["subset"] == "without twin")].iloc[0]
    assert without_twin["rows"] == (~archived["twin"].to_numpy(zero_copy_only=False)).sum()


def test_archived_rivals_are_compared_with_a_new_default(rivals, tmp_path):
    old, new, out = tmp_path / "old", tmp_path / "new", tmp_path / "out"
    stored(rivals, old, folds=2)
    rivals.write({TASK: rivals.load_rows(old, TASK, *table())}, out, Console(file=io.StringIO()))
    stored(rivals, new, methods=())
    by_task = {TASK: rivals.load_rows(new, TASK, *table())}
    rivals.add_archived(by_task, out / "rival_rows.parquet")
    expected = {line["method"]: line for line in rivals.summaries(by_task) if line["subset"] == "all"}
    assert expected[rivals.DEFAULT]["folds"] == 5
    assert expected[METHOD]["folds"] == 2  # of the archive
    assert expected[METHOD]["rps verdict"] == "better"
    assert "accuracy" not in expected[METHOD]
    assert expected[f"{rivals.DEFAULT} (archived)"]["rps verdict"] == "tie"


@pytest.mark.parametrize(("low", "high", "expected"), [(-2, -1, "better"), (-1, 1, "tie"), (1, 2, "worse")])
def test_verdict_follows_from_the_interval(rivals, low, high, expected):
    assert rivals.verdict(low, high) == expected


def test_missing_package_is_skipped_with_what_to_install(rivals):
    console = Console(file=io.StringIO(), width=200)
    family = a_uniform_default(rivals)
    assert rivals.installed([family, family._replace(package="no-such-package")], console) == [family]
    assert "pip install no-such-package" in console.file.getvalue()
