"""Archive of the documentation's numbers: tables, paired intervals and significance marks."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
archive = pytest.importorskip("archive")


def row(loss, fold, sce, calibrator="none", data="lev", **more):
    sizes = {"train_rows": 600, "test_rows": 200}
    return {"data": data, "loss": loss, "calibrator": calibrator, "fold": fold, "seed": 0, "sce": sce, **sizes, **more}


def test_interval_over_folds_is_the_corrected_t_interval():
    assert archive.interval([1.0, 2.0, 3.0]) == pytest.approx((2 - 2.48414, 2 + 2.48414), abs=1e-5)
    # 4.30265 standard deviations (t with two degrees of freedom) times sqrt(1 / 3 + 1 / 4)
    assert archive.interval([1.0, 2.0, 3.0], 1 / 4) == pytest.approx((2 - 3.28621, 2 + 3.28621), abs=1e-5)
    assert archive.interval([1.0, 1.0, 1.0], 1 / 4) == (1.0, 1.0)


def test_overlap_is_the_ratio_of_the_actual_split():
    assert archive.overlap([row("ce", fold, 0.1) for fold in range(5)]) == pytest.approx(1 / 3)  # 200 of 600 rows
    assert archive.overlap([row("ce", 0, 0.1), row("ce", 0, 0.2)]) == 0  # seeds of one split
    with pytest.raises(ValueError, match="lev, fold 1"):
        archive.overlap([row("ce", 0, 0.1), {"data": "lev", "fold": 1}])


def test_difference_has_the_p_value_of_its_interval():
    values = [0.02, 0.05, 0.03, 0.04, 0.06]
    difference = archive.Difference.of_values("lev", values, 1 / 3)
    assert (difference.p < 0.05) == (difference.low > 0)
    edge = archive.Difference.of_values("lev", values, 1 / 3, margin=-difference.low)
    assert edge.low == pytest.approx(0)
    assert edge.p == pytest.approx(0.05)
    assert archive.Difference.of_values("lev", [0.0, 0.0]).p == 1
    bootstrap = archive.Difference.of_bootstrap("lev", 0.196, 0.0, 0.392)
    assert bootstrap.p == pytest.approx(0.05)


def test_differences_are_paired_by_fold():
    rows = [row("orcu", fold, 0.1 + 0.1 * fold) for fold in range(4)] + [row("ce", f, 0.2 + 0.1 * f) for f in range(3)]
    (difference,) = archive.PairedRuns(rows).differences("sce", ("orcu", "none"), ("ce", "none"))
    assert difference.value == pytest.approx(-0.1)
    assert difference.sign == -1
    assert archive.PairedRuns(rows[:2]).differences("sce", ("orcu", "none"), ("ce", "none")) == []
    single = archive.PairedRuns([row("orcu", 0, 0.1), row("ce", 0, 0.2)])
    assert single.differences("sce", ("orcu", "none"), ("ce", "none")) == []


def test_marks_compare_with_the_baseline_of_the_same_calibrator():
    rows = [row("ce", fold, 0.2, accuracy=0.5) for fold in range(3)]
    rows += [row("orcu", fold, 0.1, accuracy=0.4) for fold in range(3)]
    rows += [row("sord", fold, 0.1 * (fold + 1), accuracy=0.5) for fold in range(3)]
    rows += [row("orcu", fold, 0.1, "gap", accuracy=0.4) for fold in range(3)]  # no baseline with this calibrator
    assert archive.PairedRuns(rows).marks(["sce", "accuracy"], "ce") == {
        ("lev", "orcu", "none", "sce"): "▲",
        ("lev", "orcu", "none", "accuracy"): "▼",
        ("lev", "sord", "none", "sce"): "",
        ("lev", "sord", "none", "accuracy"): "",
    }


def test_save_rows_stores_rows_and_metadata(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "FOLDER", tmp_path)
    assert archive.load_rows("one") == []
    archive.save_rows("one", [{"a": 1}, {"a": 2, "b": 0.5}], command="python it.py")
    assert archive.load_rows("one") == [{"a": 1}, {"a": 2, "b": 0.5}]
    assert archive.load_metadata("one")["command"] == "python it.py"
    assert set(archive.load_metadata("one")["versions"]) >= {"python", "orcu", "torch"}


def test_run_statistics_have_the_split_sizes_of_the_result_tables():
    statistics = archive.load_rows("run_statistics")
    sizes = {
        (spec, row["run"]): (row["train_rows"], row["test_rows"])
        for spec in {row["spec"] for row in statistics}
        for row in archive.load_rows(spec)
    }
    wrong = [row for row in statistics if (row["train_rows"], row["test_rows"]) != sizes[row["spec"], row["run"]]]
    assert wrong == []
