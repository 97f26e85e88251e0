"""`Predictions`: accepted containers, validation, selection of rows, and writing."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
import torch

from orcu import Predictions
from orcu.errors import InputError

CLASSES = ["none", "mild", "severe"]


def test_predictions_accept_lists_arrays_tensors_and_frames():
    values = [[0.2, 0.8], [0.6, 0.4]]
    for probs in (
        values,
        np.array(values),
        torch.tensor(values),
        pd.DataFrame(values),
        pl.DataFrame(values, orient="row"),
    ):
        predictions = Predictions(probs=probs, y=[1, 0])
        assert predictions.probs == pytest.approx(np.array(values), abs=1e-7)
    assert len(predictions) == 2
    assert repr(predictions) == "Predictions(2 rows, probs of 0, 1; with labels)"
    assert predictions[1:].y.tolist() == [0]
    assert Predictions(logits=values).probs.sum(1) == pytest.approx(np.ones(2))


def test_predictions_without_labels_have_no_label_indices():
    predictions = Predictions(probs=[[0.2, 0.8]])
    assert predictions.y is None
    with pytest.raises(InputError, match="^y: .*--label"):
        _ = predictions.labels


def test_as_logits_replaces_zeros_by_half_the_smallest_positive_value():
    logits, replaced = Predictions(probs=[[0.9, 0.1, 0.0], [0.98, 0.0, 0.02]]).as_logits()
    assert replaced == 2
    assert np.exp(logits[0, 2]) == pytest.approx(0.01)
    assert Predictions(logits=[[0.0, 1.0]]).as_logits()[1] == 0
    denormal = Predictions(probs=[[5e-324, 1.0, 0.0], [0.5, 0.5, 0.0]])
    assert np.isfinite(denormal.as_logits()[0]).all()


def test_predictions_half_precision_rows_are_normalised():
    probs = torch.softmax(torch.randn(500, 8), 1)
    for dtype in (torch.float16, torch.bfloat16):
        assert Predictions(probs=probs.to(dtype)).probs.sum(1) == pytest.approx(np.ones(500), abs=1e-6)


def test_predictions_need_either_probs_or_logits():
    for arguments in ({"probs": [[0.5, 0.5]], "logits": [[0.0, 0.0]]}, {}):
        with pytest.raises(InputError, match="^probs, logits:"):
            Predictions(**arguments)
    with pytest.raises(InputError, match="^y, codes, ratings:"):
        Predictions(probs=[[0.5, 0.5]], y=[0], codes=[0])


def test_predictions_invalid_columns_name_the_argument_and_the_row():
    with pytest.raises(InputError, match=r"^subgroup: .*shape \(1,\); got \(2,\)"):
        Predictions(probs=[[0.5, 0.5]], subgroup=["a", "b"])
    with pytest.raises(InputError, match="^cluster: row 1 "):
        Predictions(probs=[[0.5, 0.5]] * 2, cluster=["a", None])
    with pytest.raises(InputError, match="^sample_weight: row 1 has -1"):
        Predictions(probs=[[0.5, 0.5]] * 2, sample_weight=[1, -1])
    with pytest.raises(InputError, match="^uncertainty: row 0 has nan"):
        Predictions(probs=[[0.5, 0.5]] * 2, uncertainty=[np.nan, 1])
    with pytest.raises(InputError, match="^ids: .*'7' in rows 0 and 1"):
        Predictions(probs=[[0.5, 0.5]] * 2, ids=[7, 7])
    with pytest.raises(InputError, match="^classes: .*'a,b'"):
        Predictions(probs=[[0.5, 0.5]], classes="a,b")


@pytest.mark.parametrize("entry", [["a"], {"k": 1}, {"a"}], ids=["list", "dict", "set"])
def test_predictions_subgroup_with_a_collection_names_the_row(entry):
    subgroup = np.empty(2, dtype=object)
    subgroup[:] = ["a", entry]
    with pytest.raises(InputError, match="^subgroup: row 1 holds "):
        Predictions(probs=[[0.6, 0.4], [0.5, 0.5]], y=[0, 1], subgroup=subgroup)


def test_predictions_labels_as_positions_must_start_at_zero():
    with pytest.raises(InputError, match="^y: .*none is 0"):
        Predictions(probs=[[0.5, 0.5], [0.5, 0.5]], y=[1, 1], classes=["a", "b"])
    assert Predictions(probs=[[0.5, 0.5], [0.5, 0.5]], y=[1, 0], classes=["a", "b"]).y.tolist() == [1, 0]


def test_predictions_frames_with_other_columns_or_index_are_rejected():
    rng = np.random.default_rng(0)
    probs = pd.DataFrame(rng.dirichlet(np.ones(3), size=10), columns=[f"p_{name}" for name in CLASSES])
    y = pd.Series(np.array(CLASSES)[rng.integers(3, size=10)])
    with pytest.raises(InputError, match="^probs: .*severe, none, mild"):
        Predictions(probs=probs[["p_severe", "p_none", "p_mild"]], y=y, classes=CLASSES)
    with pytest.raises(InputError, match="^y: .*index"):
        Predictions(probs=probs, y=y.sample(frac=1, random_state=0), classes=CLASSES)


def test_write_failure_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.parquet"
    predictions = Predictions(probs=[[0.5, 0.5]], y=[0])
    predictions.write(path)
    before = path.read_bytes()

    def fail(table, where):
        where.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(pq, "write_table", fail)
    with pytest.raises(OSError, match="disk full"):
        predictions.write(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["x.parquet"]
    with pytest.raises(InputError, match=r"x\.xlsx: .*\.parquet, \.csv or \.csv\.gz"):
        predictions.write(tmp_path / "x.xlsx")
