"""What the documentation's numbers are kept in, and their intervals."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
archive = pytest.importorskip("archive")


def row(loss, fold, sce, calibrator="none", data="lev", **more):
    return {"data": data, "loss": loss, "calibrator": calibrator, "fold": fold, "seed": 0, "sce": sce, **more}


def test_the_interval_is_that_of_the_t_corrected_for_folds():
    assert archive.interval([1.0, 2.0, 3.0]) == pytest.approx((2 - 2.48414, 2 + 2.48414), abs=1e-5)
    # 4.30265 standard deviations (t with two degrees of freedom) times sqrt(1 / 3 + 1 / 4)
    assert archive.interval([1.0, 2.0, 3.0], 1 / 4) == pytest.approx((2 - 3.28621, 2 + 3.28621), abs=1e-5)
    assert archive.interval([1.0, 1.0, 1.0], 1 / 4) == (1.0, 1.0)


def test_pipelines_are_paired_by_fold_where_both_were_run():
    rows = [row("orcu", fold, 0.1 + 0.1 * fold) for fold in range(4)] + [row("ce", f, 0.2 + 0.1 * f) for f in range(3)]
    (difference,) = archive.Folds(rows).differences("sce", ("orcu", "none"), ("ce", "none"))
    assert difference.value == pytest.approx(-0.1)
    assert difference.sign == -1
    assert archive.Folds(rows[:2]).differences("sce", ("orcu", "none"), ("ce", "none")) == []
    once = archive.Folds([row("orcu", 0, 0.1), row("ce", 0, 0.2)])
    assert once.differences("sce", ("orcu", "none"), ("ce", "none")) == []


def test_marks_say_what_is_better_in_each_metric_beside_the_same_calibrator():
    rows = [row("ce", fold, 0.2, accuracy=0.5) for fold in range(3)]
    rows += [row("orcu", fold, 0.1, accuracy=0.4) for fold in range(3)]
    rows += [row("sord", fold, 0.1 * (fold + 1), accuracy=0.5) for fold in range(3)]
    rows += [row("orcu", fold, 0.1, "gap", accuracy=0.4) for fold in range(3)]  # cross-entropy has none to compare with
    assert archive.Folds(rows).marks(["sce", "accuracy"], "ce") == {
        ("lev", "orcu", "none", "sce"): "▲",
        ("lev", "orcu", "none", "accuracy"): "▼",
        ("lev", "sord", "none", "sce"): "",
        ("lev", "sord", "none", "accuracy"): "",
    }


def test_a_table_is_kept_with_where_it_comes_from(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "FOLDER", tmp_path)
    assert archive.rows("one") == []
    archive.keep("one", [{"a": 1}, {"a": 2, "b": 0.5}], command="python it.py")
    assert archive.rows("one") == [{"a": 1}, {"a": 2, "b": 0.5}]
    assert archive.about("one")["command"] == "python it.py"
    assert set(archive.about("one")["versions"]) >= {"python", "orcu", "torch"}
