"""Files of predictions written back with all their columns and rows; rows without a label."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from orcu import evaluate
from orcu.errors import InputError
from orcu.predictions import Predictions, open_predictions
from orcu.predictions.write_back import write_back

TEXT = "patient,grade,p_low,p_high,site\n007,low,90,10,north\n008,,50,50,south\n009,high,20,80,south\n"
OPTIONS = {"label": "grade", "probs": "p_*", "percent": True, "subgroup": "site"}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "preds.csv"
    path.write_text(TEXT)
    return path


def test_write_back_csv_replaces_percentages_in_place(path, tmp_path):
    write_back(open_predictions(path, **OPTIONS), tmp_path / "new.csv", values=[[0.5, 0.5]] * 3, add={"x": [1, 2, 3]})
    lines = (tmp_path / "new.csv").read_text().splitlines()
    assert lines[:2] == ["patient,grade,p_low,p_high,site,x", "007,low,50.0,50.0,north,1"]


def test_write_back_parquet_is_read_without_options_and_keeps_history(path, tmp_path):
    source = open_predictions(path, **OPTIONS)
    write_back(source, tmp_path / "new.parquet", history=[{"step": "calibrate", "method": "gap", "rows": 3}])
    predictions = Predictions.read(tmp_path / "new.parquet", unlabelled="skip")
    assert predictions.classes == ("low", "high")
    assert predictions.probs.tolist() == [[0.9, 0.1], [0.2, 0.8]]
    assert predictions.subgroup.tolist() == ["north", "south"]
    assert predictions.history[0]["method"] == "gap"
    assert pq.read_table(tmp_path / "new.parquet")["patient"].to_pylist() == ["007", "008", "009"]
    with pytest.raises(InputError, match="row 2 has no label"):
        Predictions.read(tmp_path / "new.parquet")


def test_write_back_of_a_frame_is_refused(tmp_path):
    from orcu.predictions.source import open_frame

    source = open_frame({"p_a": [0.5], "p_b": [0.5]}, probs="p_*")
    with pytest.raises(InputError, match="only files"):
        write_back(source, tmp_path / "new.csv")


def test_read_unlabelled_skip_leaves_rows_out_and_counts_them(path):
    predictions = Predictions.read(path, **OPTIONS, unlabelled="skip")
    assert predictions.y.tolist() == [0, 1]
    assert "1 of 3 rows have no label and are skipped" in predictions.notes


def test_read_unlabelled_error_counts_the_rows(path):
    with pytest.raises(InputError, match=r"row 2 has no label \(1 of 3 rows have none\).*--unlabelled skip"):
        Predictions.read(path, **OPTIONS)


def test_read_unlabelled_skip_without_any_label_is_refused(path):
    path.write_text("grade,p_low,p_high\n,0.5,0.5\nnan,0.5,0.5\n")
    with pytest.raises(InputError, match="none of the 2 rows has a label in the column 'grade'"):
        Predictions.read(path, label="grade", probs="p_*", unlabelled="skip")


def test_read_unlabelled_unknown_value_is_refused(path):
    with pytest.raises(InputError, match="unlabelled"):
        open_predictions(path, **OPTIONS, unlabelled="drop")


def test_load_all_rows_has_labels_where_they_are(path):
    predictions, codes = open_predictions(path, **OPTIONS).load_all_rows()
    assert (len(predictions), codes.tolist()) == (3, [0, -1, 1])
    assert open_predictions(path, probs="p_*", percent=True).load_all_rows()[1] is None


@pytest.mark.parametrize("in_memory", [True, False])
def test_evaluate_unlabelled_skip_equals_the_evaluation_of_the_labelled_rows(tmp_path, monkeypatch, in_memory):
    from orcu.evaluation import statistics

    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), size=600).round(6)
    labels = np.array(["a", "b", "c"])[[rng.choice(3, p=row / row.sum()) for row in probs]]
    # The first and last batches have no labels at all.
    labels = np.where((np.arange(600) < 200) | (np.arange(600) >= 500) | (rng.random(600) < 0.1), "", labels)
    lines = [",".join(map(repr, row)) + f",{label}" for row, label in zip(probs.tolist(), labels, strict=True)]
    for name, chosen in {"all": lines, "labelled": [line for line in lines if not line.endswith(",")]}.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(["p_a,p_b,p_c,grade", *chosen, ""]))
    if not in_memory:
        monkeypatch.setattr(statistics, "IN_MEMORY_CELLS", 0)
        monkeypatch.setattr("orcu.io.reading.BLOCK_BYTES", 4096)
    options = {"label": "grade", "probs": "p_*", "classes": ["a", "b", "c"]}
    values = [
        evaluate(open_predictions(tmp_path / f"{name}.csv", **options, unlabelled="skip"), n_resamples=0).metrics
        for name in ("all", "labelled")
    ]
    assert {name: estimate.value for name, estimate in values[0].items()} == pytest.approx(
        {name: estimate.value for name, estimate in values[1].items()}, abs=1e-12
    )
