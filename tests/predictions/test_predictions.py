"""The waist: containers in, files out and in again, labels, rounding, and bad input."""

import gzip

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from orcu import Predictions
from orcu.errors import InputError, UnknownNameError
from orcu.predictions.labels import canonical, label_codes
from orcu.predictions.predictions import open_predictions

CLASSES = ["none", "mild", "severe"]


def frame(rows=40, seed=0):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(3), size=rows)
    data = pd.DataFrame(probs, columns=[f"p_{name}" for name in CLASSES])
    data["grade"] = np.array(CLASSES)[rng.integers(3, size=rows)]
    data["site"] = rng.choice(["A", "B"], rows)
    data["w"] = rng.random(rows)
    data["image"] = [f"img{i}" for i in range(rows)]
    return data


OPTIONS = {"label": "grade", "probs": "p_*", "group": "site", "weight": "w", "id": "image"}


def same(a, b):
    assert (a.probs == b.probs).all()
    assert (a.y == b.y).all()
    assert a.classes == b.classes
    assert a.weight == pytest.approx(b.weight)
    assert a.group.tolist() == b.group.tolist()
    assert a.ids.astype(str).tolist() == b.ids.astype(str).tolist()


@pytest.mark.parametrize("kind", ["parquet", "csv", "gz", "tsv", "european", "bom", "polars", "pandas", "arrow"])
def test_every_container_gives_the_same_rows(kind, tmp_path):
    data = frame()
    expected = Predictions(
        probs=data[[f"p_{c}" for c in CLASSES]],
        y=data["grade"],
        classes=CLASSES,
        group=data["site"],
        weight=data["w"],
        ids=data["image"],
    )
    path = tmp_path / {"parquet": "d.parquet", "gz": "d.csv.gz", "tsv": "d.tsv"}.get(kind, "d.csv")
    if kind == "parquet":
        data.to_parquet(path)
    elif kind == "european":
        data.to_csv(path, index=False, sep=";", decimal=",")
    elif kind == "bom":
        path.write_text(data.to_csv(index=False), encoding="utf-8-sig")
    elif kind in {"csv", "gz", "tsv"}:
        data.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    if kind == "polars":
        found = Predictions.from_frame(pl.from_pandas(data), **OPTIONS)
    elif kind == "pandas":
        found = Predictions.from_frame(data, **OPTIONS)
    elif kind == "arrow":
        found = Predictions.from_frame(pa.Table.from_pandas(data), **OPTIONS)
    else:
        found = Predictions.read(path, **OPTIONS)
    same(found, expected)
    if kind == "european":
        assert "separator semicolon, decimal comma (recognised)" in found.notes[0]


@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz"])
@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_written_files_come_back_bit_for_bit(ending, kind, tmp_path):
    rng = np.random.default_rng(1)
    values = rng.dirichlet(np.ones(3), size=20) if kind == "probs" else rng.normal(size=(20, 3))
    told = Predictions(
        **{kind: values},
        y=rng.integers(3, size=20),
        classes=CLASSES,
        ids=np.arange(20),
        weight=rng.random(20),
        group=["g"] * 20,
        subject=[str(i // 2) for i in range(20)],
        split=["test"] * 20,
        fold=[1] * 20,
    )
    path = tmp_path / f"told.{ending}"
    told.write(path)
    options = {}
    if ending != "parquet":
        prefix = "prob_*" if kind == "probs" else "logit_*"
        options = {
            "label": "label",
            kind: prefix,
            "id": "id",
            "weight": "weight",
            "group": "group",
            "subject": "subject",
            "split": "split",
            "fold": "fold",
        }
    again = Predictions.read(path, **options)
    same(again, told)
    assert again.kind == kind
    assert again.logits is None or (again.logits == told.logits).all()
    assert again.subject.tolist() == told.subject.tolist()
    assert again.split.tolist() == ["test"] * 20
    assert again.fold.astype(str).tolist() == ["1"] * 20
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name]


def test_a_later_schema_is_refused(tmp_path):
    path = tmp_path / "x.parquet"
    Predictions(probs=[[0.5, 0.5]]).write(path)
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({"orcu": '{"schema_version": 9}'}), path)
    with pytest.raises(InputError, match="schema version 9, this orcu reads 1"):
        Predictions.read(path)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.parquet"
    told = Predictions(probs=[[0.5, 0.5]], y=[0])
    told.write(path)
    before = path.read_bytes()

    def broken(table, where):
        where.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(pq, "write_table", broken)
    with pytest.raises(OSError, match="disk full"):
        told.write(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["x.parquet"]
    with pytest.raises(InputError, match=r"ends in .parquet, .csv or .csv.gz"):
        told.write(tmp_path / "x.xlsx")


def test_arrays_tensors_and_lists_are_taken():
    values = [[0.2, 0.8], [0.6, 0.4]]
    for probs in (
        values,
        np.array(values),
        torch.tensor(values),
        pd.DataFrame(values),
        pl.DataFrame(values, orient="row"),
    ):
        told = Predictions(probs=probs, y=[1, 0])
        assert told.probs == pytest.approx(np.array(values), abs=1e-7)
    assert len(told) == 2
    assert repr(told) == "Predictions(2 rows, probs of 0, 1; with labels)"
    assert told[1:].y.tolist() == [0]
    assert Predictions(logits=values).probs.sum(1) == pytest.approx(np.ones(2))


def test_labels_may_be_absent_and_then_cannot_be_judged():
    told = Predictions(probs=[[0.2, 0.8]])
    assert told.y is None
    with pytest.raises(InputError, match="no labels"):
        _ = told.labels


def test_zeros_become_half_the_smallest_positive_value():
    logits, replaced = Predictions(probs=[[0.9, 0.1, 0.0], [0.98, 0.0, 0.02]]).as_logits()
    assert replaced == 2
    assert np.exp(logits[0, 2]) == pytest.approx(0.01)
    assert Predictions(logits=[[0.0, 1.0]]).as_logits()[1] == 0


@pytest.mark.parametrize(
    ("labels", "classes", "given", "codes"),
    [
        (["mild", "none"], ("none", "mild"), True, [1, 0]),
        ([2, 1], ("1", "2"), False, [1, 0]),  # by value, not by position
        ([2.0, 1.0], ("1", "2"), False, [1, 0]),
        (["2", "1.0"], ("1", "2"), False, [1, 0]),
        ([0, 1], ("0", "1"), False, [0, 1]),
        ([0, 1], ("none", "mild"), True, [0, 1]),  # positions, since the names were given
        (np.array(["b", "a"], dtype=object), ("a", "b"), False, [1, 0]),
    ],
)
def test_labels_are_matched_by_value(labels, classes, given, codes):
    assert label_codes(labels, classes, given=given)[0].tolist() == codes


@pytest.mark.parametrize(
    ("labels", "classes", "given", "message"),
    [
        ([0, 1], ("none", "mild"), False, r"row 0 has label '0'.*\(none, mild\).*--classes"),
        ([0, 1, 2], ("1", "2", "3"), True, r"row 0 has label '0'.*\(1, 2, 3\)"),
        ([1, 2], ("none", "mild"), True, r"row 1 has label '2'.*\(0, 1\).*start at 1 need `y - 1`"),
        (["mild", None], ("none", "mild"), True, "row 1 has no label"),
        (["mild", float("nan")], ("none", "mild"), True, "row 1 has no label"),
        (["mild", ""], ("none", "mild"), True, "row 1 has no label"),
        ([0.5, 1.0], ("0", "1"), False, "row 0 has label '0.5'"),
        ([True, False], ("0", "1"), False, "got booleans"),
        ([[0], [1]], ("0", "1"), False, "one label per row"),
    ],
)
def test_labels_that_are_no_class_are_named(labels, classes, given, message):
    if isinstance(labels, list) and None in labels:
        labels = np.array(labels, dtype=object)
    if "mild" in labels and len(labels) == 2 and isinstance(labels[1], float):
        labels = np.array(labels, dtype=object)
    with pytest.raises(InputError, match=message):
        label_codes(labels, classes, given=given)


def test_a_class_may_be_called_none():
    assert label_codes(["None", "NA"], ("None", "NA"), given=True)[0].tolist() == [0, 1]
    assert canonical("inf") == "inf"


def read_text(tmp_path, text, name="p.csv", **options):
    path = tmp_path / name
    path.write_text(text)
    return Predictions.read(path, **({"label": "y", "probs": "p_*"} | options))


def test_columns_stand_in_file_order_and_ten_comes_last(tmp_path):
    names = [f"p_{k}" for k in range(11)]
    row = ["0"] * 10 + ["1"]
    told = read_text(tmp_path, ",".join([*names, "y"]) + "\n" + ",".join([*row, "10"]) + "\n")
    assert told.classes[-1] == "10"
    assert told.y.tolist() == [10]
    textual = sorted(names)
    with pytest.raises(InputError, match=r"0, 1, 10, 2.*not their numeric order.*--classes 0,1,2,3"):
        read_text(tmp_path, ",".join([*textual, "y"]) + "\n")
    order = [str(k) for k in range(11)]
    text = ",".join([*textual, "y"]) + "\n" + ",".join(["0", "0", "1", *["0"] * 8, "10"]) + "\n"
    told = read_text(tmp_path, text, classes=order)
    assert told.probs[0, 10] == 1  # columns follow the names given


def test_classes_rename_or_reorder_columns(tmp_path):
    text = "p_severe,p_none,p_mild,y\n0.1,0.7,0.2,none\n"
    told = read_text(tmp_path, text, classes=CLASSES)
    assert told.probs[0].tolist() == [0.7, 0.2, 0.1]
    text = "p_0,p_1,p_2,y\n0.1,0.7,0.2,mild\n"
    told = read_text(tmp_path, text, classes=CLASSES)
    assert told.classes == tuple(CLASSES)
    assert told.y.tolist() == [1]
    assert "0 = none (p_0), 1 = mild (p_1), 2 = severe (p_2)" in " ".join(told.notes)
    listed = read_text(tmp_path, text, probs="p_0, p_1, p_2", classes=CLASSES)
    assert (listed.probs == told.probs).all()


def test_percent_and_rounding(tmp_path):
    told = read_text(tmp_path, "p_0,p_1,p_2,y\n33,33,33,0\n50,25,25,1\n", percent=True)
    assert told.probs.sum(1) == pytest.approx([1, 1])
    assert "1 rows missed a sum of 1 by up to 0.01 and were normalised" in told.notes[-1]
    two_digits = "p_0,p_1,p_2,y\n0.33,0.33,0.33,0\n0.12,0.34,0.54,1\n"
    assert read_text(tmp_path, two_digits).probs.sum(1) == pytest.approx([1, 1])
    # a digit more makes the same miss an error: 0.99 is then no rounding
    four_digits = "p_0,p_1,p_2,y\n0.33,0.33,0.33,0\n0.1234,0.34,0.5366,1\n"
    with pytest.raises(InputError, match=r"p.csv: row 1 sums to 0.99, expected 1 ± 0.001"):
        read_text(tmp_path, four_digits)
    with pytest.raises(InputError, match=r"row 1 has 33 in column 'p_0'.*--logits.*--percent"):
        read_text(tmp_path, "p_0,p_1,p_2,y\n33,33,34,0\n")


BAD = {
    "p_0,p_1,y\n": "there is no row below the header",
    "": "the file is empty",
    "p_0,p_1,y\n0.5,abc,0\n": "column 'p_1': row 1 has 'abc', which is no number",
    "p_0,p_1,y\n0.5,0.5,0\n0.5,,1\n": "column 'p_1': row 2 is empty",
    "p_0,p_1,y\n0.5,nan,0\n": "row 1 has nan",
    "p_0,p_1,y\n0.5,inf,0\n": "row 1 has inf",
    "p_0,p_1,y\n0.5,0.1,0\n": "row 1 sums to 0.6",
    "p_0,p_1,y\n2.5,-1.5,0\n": "row 1 has 2.5 in column 'p_0'.*--logits",
    "p_0,p_1,y\n0.5,0.5,2\n": "y: row 1 has label '2'.*--classes",
    "p_0,p_1,y\n0.5,0.5,\n": "row 1 has no label",
    "p_0,p_1,z\n0.5,0.5,1\n": r"no column 'y' \(label\).*The columns are: p_0, p_1, z",
    "p_0,q_1,y\n0.5,0.5,1\n": r"'p_\*' matches p_0; one column per class",
    "a,b,y\n0.5,0.5,1\n": r"'p_\*' matches no column",
    "p_0,p_0,y\n0.5,0.5,1\n": "'p_0' stands twice in the header",
    "p_0,p_1,y\n0.5,0.5,1\n0.5,0.5\n": "Expected 3 columns, got 2",
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_bad_files_are_named(text, tmp_path):
    with pytest.raises(InputError, match=BAD[text]):
        read_text(tmp_path, text)


def test_damaged_files_are_named(tmp_path):
    whole = tmp_path / "whole.parquet"
    frame().to_parquet(whole)
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(whole.read_bytes()[:-50])
    with pytest.raises(InputError, match=r"cut.parquet: not a whole Parquet file.*cut off"):
        Predictions.read(cut, **OPTIONS)
    packed = tmp_path / "cut.csv.gz"
    packed.write_bytes(gzip.compress(frame(5000).to_csv(index=False).encode())[:-4000])
    with pytest.raises(InputError, match=r"cut.csv.gz"):
        Predictions.read(packed, **OPTIONS)
    latin = tmp_path / "latin.csv"
    latin.write_bytes("p_0,p_1,y\n0.5,0.5,é\n".encode("latin-1"))
    with pytest.raises(InputError, match="UTF-8"):
        Predictions.read(latin, label="y", probs="p_*")
    with pytest.raises(InputError, match="there is no such file"):
        Predictions.read(tmp_path / "absent.csv", label="y", probs="p_*")
    with pytest.raises(InputError, match="ends in .parquet, .csv"):
        Predictions.read(latin.rename(tmp_path / "x.xlsx"), label="y", probs="p_*")


def test_duplicate_ids_are_named(tmp_path):
    text = "id,p_0,p_1,y\na,0.5,0.5,0\nb,0.5,0.5,1\na,0.5,0.5,1\n"
    with pytest.raises(InputError, match="the id 'a' stands in rows 1 and 3"):
        read_text(tmp_path, text, id="id")
    with pytest.raises(InputError, match="'7' stands in rows 0 and 1"):
        Predictions(probs=[[0.5, 0.5]] * 2, ids=[7, 7])


def test_bad_options_are_named(tmp_path):
    with pytest.raises(UnknownNameError, match="unknown option 'labels'. Did you mean 'label'"):
        read_text(tmp_path, "p_0,p_1,y\n1,0,0\n", labels="y")
    with pytest.raises(InputError, match="say where the predictions are"):
        read_text(tmp_path, "p_0,p_1,y\n1,0,0\n", probs=None)
    with pytest.raises(InputError, match="2 names .* for 3 columns|3 names .* for 2 columns"):
        read_text(tmp_path, "p_0,p_1,y\n1,0,0\n", classes=CLASSES)
    with pytest.raises(InputError, match="must be different"):
        read_text(tmp_path, "p_0,p_1,y\n1,0,0\n", classes=["a", "a"])
    with pytest.raises(InputError, match="logits are not percentages"):
        read_text(tmp_path, "p_0,p_1,y\n1,0,0\n", probs=None, logits="p_*", percent=True)
    with pytest.raises(InputError, match="expected one star"):
        read_text(tmp_path, "p_0,p_1,y\n1,0,0\n", probs="*_*")
    with pytest.raises(InputError, match="column 'w': row 1 has -1"):
        read_text(tmp_path, "p_0,p_1,y,w\n1,0,0,-1\n", weight="w")
    for wrong in ({"probs": [[0.5, 0.5]], "logits": [[0.0, 0.0]]}, {}):
        with pytest.raises(InputError, match="exactly one of the two"):
            Predictions(**wrong)
    with pytest.raises(InputError, match="group: expected one entry per row"):
        Predictions(probs=[[0.5, 0.5]], group=["a", "b"])


def test_files_are_streamed_in_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("orcu.io.reading.BATCH_ROWS", 7)
    data = frame(40)
    data.to_parquet(tmp_path / "d.parquet", row_group_size=5)
    source = open_predictions(tmp_path / "d.parquet", **OPTIONS)
    sizes = [len(batch) for batch in source.batches()]
    assert sum(sizes) == 40
    assert max(sizes) <= 7
    same(source.load(), Predictions.from_frame(data, **OPTIONS))
    data.loc[33, "p_none"] = np.nan
    data.to_parquet(tmp_path / "d.parquet")
    with pytest.raises(InputError, match="row 34"):
        open_predictions(tmp_path / "d.parquet", **OPTIONS).load()


def test_labels_that_may_start_at_one_are_refused(tmp_path):
    text = "p_a,p_b,p_c,y\n0.5,0.25,0.25,1\n0.5,0.25,0.25,2\n"
    with pytest.raises(InputError, match="y: .*none is 0, so they may start at 1"):
        read_text(tmp_path, text, classes=["none", "mild", "severe"])
    with pytest.raises(InputError, match="none is 0"):
        Predictions(probs=[[0.5, 0.5], [0.5, 0.5]], y=[1, 1], classes=["a", "b"])
    with pytest.raises(InputError, match=r"start at 1 need `y - 1`, or classes= \(--classes 1,2,3\)"):
        read_text(tmp_path, "p_0,p_1,p_2,y\n0.5,0.25,0.25,3\n")
    assert Predictions(probs=[[0.5, 0.5], [0.5, 0.5]], y=[1, 0], classes=["a", "b"]).y.tolist() == [1, 0]


def test_empty_groups_and_subjects_are_named(tmp_path):
    text = "p_0,p_1,y,g\n0.5,0.5,0,a\n0.5,0.5,1,\n"
    with pytest.raises(InputError, match="column 'g': row 2 is empty"):
        read_text(tmp_path, text, group="g")
    data = pd.DataFrame({"p_0": [0.5, 0.5], "p_1": [0.5, 0.5], "y": [0, 1], "g": [1.0, np.nan]})
    with pytest.raises(InputError, match="column 'g': row 2 is empty"):
        Predictions.from_frame(data, label="y", probs="p_*", subject="g")
    with pytest.raises(InputError, match="subject: row 1 is empty"):
        Predictions(probs=[[0.5, 0.5]] * 2, subject=["a", None])


def test_frames_that_do_not_fit_together_are_refused():
    data = frame(10)
    with pytest.raises(InputError, match="columns stand in the order severe, none, mild"):
        Predictions(probs=data[["p_severe", "p_none", "p_mild"]], y=data["grade"], classes=CLASSES)
    shuffled = data["grade"].sample(frac=1, random_state=0)
    with pytest.raises(InputError, match="its index is not that of the predictions"):
        Predictions(probs=data[[f"p_{c}" for c in CLASSES]], y=shuffled, classes=CLASSES)
    with pytest.raises(InputError, match="expected a list of names"):
        Predictions(probs=[[0.5, 0.5]], classes="a,b")


def test_cells_with_percent_signs_are_explained(tmp_path):
    with pytest.raises(InputError, match="has '50%', which is no number. Write .* say --percent"):
        read_text(tmp_path, "p_0,p_1,y\n50%,50%,0\n")


def test_the_smallest_float_is_no_trap():
    told = Predictions(probs=[[5e-324, 1.0, 0.0], [0.5, 0.5, 0.0]])
    assert np.isfinite(told.as_logits()[0]).all()


def test_mixed_types_in_a_parquet_column(tmp_path):
    data = frame(3)
    data["p_none"] = ["0.5", "x", "0.1"]
    data.to_parquet(tmp_path / "d.parquet")
    with pytest.raises(InputError, match="column 'p_none': row 2 has 'x'"):
        Predictions.read(tmp_path / "d.parquet", **OPTIONS)
    data["p_none"] = [True, False, True]
    data.to_parquet(tmp_path / "d.parquet")
    with pytest.raises(InputError, match="column 'p_none': expected numbers, got bool"):
        Predictions.read(tmp_path / "d.parquet", **OPTIONS)


def test_quoted_cells_and_line_breaks_are_read(tmp_path):
    text = 'name,p_0,p_1,y\n"Doe, J.",0.5,0.5,0\n"two\nlines",0.25,0.75,1\n'
    assert read_text(tmp_path, text, id="name").ids.tolist() == ["Doe, J.", "two\nlines"]


def test_half_precision_rows_are_taken():
    probs = torch.softmax(torch.randn(500, 8), 1)
    for dtype in (torch.float16, torch.bfloat16):
        told = Predictions(probs=probs.to(dtype))
        assert told.probs.sum(1) == pytest.approx(np.ones(500), abs=1e-6)


@pytest.mark.parametrize("strange", [["a"], {"k": 1}, {"a"}], ids=["list", "dict", "set"])
def test_a_group_that_is_no_text_or_number_is_refused(strange):
    group = np.empty(2, dtype=object)
    group[:] = ["a", strange]
    with pytest.raises(InputError, match="group: row 1 holds .* expected a text or a number"):
        Predictions(probs=[[0.6, 0.4], [0.5, 0.5]], y=[0, 1], group=group)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (
            ["low", "hgih", "mid"],
            r"row 1 has label 'hgih'.*Did you mean 'high'\? .*1 of 3 have a label that is no class",
        ),
        (["low", "High", "mid"], r"Did you mean 'high'\?"),
        (["low", "ungradable", "ungradable"], r"\(low, mid, high\)\. Mend it, or leave such rows out \(2 of 3"),
        (["a", "b", "c"], "Name the classes in their order"),
    ],
)
def test_a_label_that_is_no_class_is_told_with_what_to_do(labels, words):
    with pytest.raises(InputError, match=words):
        Predictions(probs=[[0.2, 0.3, 0.5]] * 3, y=labels, classes=["low", "mid", "high"])
