"""Reading of predictions from files and frames: formats, columns, batches, rounding, and bad input."""

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orcu import Predictions, evaluate
from orcu.errors import InputError, UnknownNameError
from orcu.predictions import open_predictions
from orcu.predictions.source import open_frame

CLASSES = ["none", "mild", "severe"]
OPTIONS = {"label": "grade", "probs": "p_*", "subgroup": "site", "sample_weight": "w", "id": "image"}
WRITTEN_BY_0_2 = Path(__file__).parents[1] / "data" / "written_by_0_2"


def frame(rows=40, seed=0):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(3), size=rows)
    data = pd.DataFrame(probs, columns=[f"p_{name}" for name in CLASSES])
    data["grade"] = np.array(CLASSES)[rng.integers(3, size=rows)]
    data["site"] = rng.choice(["A", "B"], rows)
    data["w"] = rng.random(rows)
    data["image"] = [f"img{i}" for i in range(rows)]
    return data


def assert_equal(a, b):
    assert (a.probs == b.probs).all()
    assert (a.y == b.y).all()
    assert a.classes == b.classes
    assert a.sample_weight == pytest.approx(b.sample_weight)
    assert a.subgroup.tolist() == b.subgroup.tolist()
    assert a.ids.astype(str).tolist() == b.ids.astype(str).tolist()


def read_text(tmp_path, text, name="p.csv", **options):
    path = tmp_path / name
    path.write_text(text)
    return Predictions.read(path, **({"label": "y", "probs": "p_*"} | options))


@pytest.mark.parametrize("kind", ["parquet", "csv", "gz", "tsv", "european", "bom", "polars", "pandas", "arrow"])
def test_read_and_from_frame_give_the_same_rows_for_every_container(kind, tmp_path):
    data = frame()
    expected = Predictions(
        probs=data[[f"p_{c}" for c in CLASSES]],
        y=data["grade"],
        classes=CLASSES,
        subgroup=data["site"],
        sample_weight=data["w"],
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
        predictions = Predictions.from_frame(pl.from_pandas(data), **OPTIONS)
    elif kind == "pandas":
        predictions = Predictions.from_frame(data, **OPTIONS)
    elif kind == "arrow":
        predictions = Predictions.from_frame(pa.Table.from_pandas(data), **OPTIONS)
    else:
        predictions = Predictions.read(path, **OPTIONS)
    assert_equal(predictions, expected)
    if kind == "european":
        assert "separator semicolon, decimal comma" in predictions.notes[0]


@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz"])
@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_read_returns_what_write_wrote_bit_for_bit(ending, kind, tmp_path):
    rng = np.random.default_rng(1)
    values = rng.dirichlet(np.ones(3), size=20) if kind == "probs" else rng.normal(size=(20, 3))
    written = Predictions(
        **{kind: values},
        y=rng.integers(3, size=20),
        classes=CLASSES,
        ids=np.arange(20),
        sample_weight=rng.random(20),
        uncertainty=rng.normal(size=20),
        subgroup=["g"] * 20,
        cluster=[str(i // 2) for i in range(20)],
        split=["test"] * 20,
        fold=[1] * 20,
    )
    path = tmp_path / f"predictions.{ending}"
    written.write(path)
    options = {}
    if ending != "parquet":
        roles = ("label", "id", "sample_weight", "uncertainty", "subgroup", "cluster", "split", "fold")
        options = {role: role for role in roles} | {kind: "prob_*" if kind == "probs" else "logit_*"}
    predictions = Predictions.read(path, **options)
    assert_equal(predictions, written)
    assert predictions.kind == kind
    assert predictions.logits is None or (predictions.logits == written.logits).all()
    assert predictions.uncertainty == pytest.approx(written.uncertainty)
    assert predictions.cluster.tolist() == written.cluster.tolist()
    assert predictions.split.tolist() == ["test"] * 20
    assert predictions.fold.astype(str).tolist() == ["1"] * 20
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name]


@pytest.mark.parametrize("name", ["predictions_logits.parquet", "predictions_probs.parquet"])
def test_read_file_written_by_0_2_gives_the_same_values(name):
    expected = json.loads((WRITTEN_BY_0_2 / "predictions_as_read_by_0_2.json").read_text())[name]
    predictions = Predictions.read(WRITTEN_BY_0_2 / name)
    for field, values in expected.items():
        array = getattr(predictions, field)
        if values is None:
            assert array is None
        elif isinstance(array, np.ndarray):
            assert array.tolist() == values, field
        else:
            assert list(array) == values, field
    renamed = Predictions.read(WRITTEN_BY_0_2 / name, subgroup="subject")  # an option replaces the column
    assert renamed.subgroup.tolist() == expected["cluster"]


@pytest.mark.parametrize("version", [0, 9])
def test_read_unknown_schema_version_raises(version, tmp_path):
    path = tmp_path / "x.parquet"
    Predictions(probs=[[0.5, 0.5]]).write(path)
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({"orcu": f'{{"schema_version": {version}}}'}), path)
    with pytest.raises(InputError, match="^x.parquet: .*schema_version: .*--probs"):
        Predictions.read(path)


def test_read_numbered_columns_must_be_in_numeric_order(tmp_path):
    names = [f"p_{k}" for k in range(11)]
    row = ["0"] * 10 + ["1"]
    predictions = read_text(tmp_path, ",".join([*names, "y"]) + "\n" + ",".join([*row, "10"]) + "\n")
    assert predictions.classes[-1] == "10"
    assert predictions.y.tolist() == [10]
    by_text = sorted(names)
    with pytest.raises(InputError, match=r"p.csv: .*0, 1, 10, 2.*--classes 0,1,2,3"):
        read_text(tmp_path, ",".join([*by_text, "y"]) + "\n")
    order = [str(k) for k in range(11)]
    text = ",".join([*by_text, "y"]) + "\n" + ",".join(["0", "0", "1", *["0"] * 8, "10"]) + "\n"
    predictions = read_text(tmp_path, text, classes=order)
    assert predictions.probs[0, 10] == 1  # columns follow the class names


def test_read_classes_rename_or_reorder_columns(tmp_path):
    text = "p_severe,p_none,p_mild,y\n0.1,0.7,0.2,none\n"
    predictions = read_text(tmp_path, text, classes=CLASSES)
    assert predictions.probs[0].tolist() == [0.7, 0.2, 0.1]
    text = "p_0,p_1,p_2,y\n0.1,0.7,0.2,mild\n"
    predictions = read_text(tmp_path, text, classes=CLASSES)
    assert predictions.classes == tuple(CLASSES)
    assert predictions.y.tolist() == [1]
    assert "0 = none (p_0), 1 = mild (p_1), 2 = severe (p_2)" in " ".join(predictions.notes)
    from_list = read_text(tmp_path, text, probs="p_0, p_1, p_2", classes=CLASSES)
    assert (from_list.probs == predictions.probs).all()


def test_read_percentages_and_rounded_values_are_normalised(tmp_path):
    predictions = read_text(tmp_path, "p_0,p_1,p_2,y\n33,33,33,0\n50,25,25,1\n", percent=True)
    assert predictions.probs.sum(1) == pytest.approx([1, 1])
    assert (predictions.normalised_rows, predictions.max_sum_error) == (1, pytest.approx(0.01))
    assert predictions.notes[-1].startswith("1 rows were normalised")
    two_digits = "p_0,p_1,p_2,y\n0.33,0.33,0.33,0\n0.12,0.34,0.54,1\n"
    assert read_text(tmp_path, two_digits).probs.sum(1) == pytest.approx([1, 1])
    # With more digits in the file, a sum of 0.99 is not explained by rounding.
    four_digits = "p_0,p_1,p_2,y\n0.33,0.33,0.33,0\n0.1234,0.34,0.5366,1\n"
    with pytest.raises(InputError, match=r"p.csv: row 1 sums to 0.99, expected 1 ± 0.001"):
        read_text(tmp_path, four_digits)
    with pytest.raises(InputError, match=r"p.csv: row 1 has 33 in column 'p_0'.*--logits.*--percent"):
        read_text(tmp_path, "p_0,p_1,p_2,y\n33,33,34,0\n")


BAD_FILES = {
    "p_0,p_1,y\n": "no rows",
    "": "empty",
    "p_0,p_1,y\n0.5,abc,0\n": "column 'p_1': row 1 has 'abc'",
    "p_0,p_1,y\n0.5,0.5,0\n0.5,,1\n": "column 'p_1': row 2 is empty",
    "p_0,p_1,y\n0.5,nan,0\n": "row 1 has nan",
    "p_0,p_1,y\n0.5,inf,0\n": "row 1 has inf",
    "p_0,p_1,y\n0.5,0.1,0\n": "row 1 sums to 0.6",
    "p_0,p_1,y\n2.5,-1.5,0\n": "row 1 has 2.5 in column 'p_0'.*--logits",
    "p_0,p_1,y\n0.5,0.5,2\n": "y: row 1 has label '2'.*--classes",
    "p_0,p_1,y\n0.5,0.5,\n": "y: row 1 has no label",
    "p_0,p_1,z\n0.5,0.5,1\n": r"no column 'y' \(label\).*p_0, p_1, z",
    "p_0,q_1,y\n0.5,0.5,1\n": r"'p_\*' matches p_0,",
    "a,b,y\n0.5,0.5,1\n": r"'p_\*' matches no column",
    "p_0,p_0,y\n0.5,0.5,1\n": "duplicate column 'p_0'",
    "p_0,p_1,y\n0.5,0.5,1\n0.5,0.5\n": "Expected 3 columns, got 2",
    "p_0,p_1,y\n50%,50%,0\n": "column 'p_0': row 1 has '50%'.*--percent",
}


@pytest.mark.parametrize("text", BAD_FILES, ids=range(len(BAD_FILES)))
def test_read_bad_file_names_the_file_and_the_fault(text, tmp_path):
    with pytest.raises(InputError, match=f"^p.csv: .*{BAD_FILES[text]}"):
        read_text(tmp_path, text)


def test_read_damaged_or_missing_file_names_the_file(tmp_path):
    complete = tmp_path / "complete.parquet"
    frame().to_parquet(complete)
    truncated = tmp_path / "truncated.parquet"
    truncated.write_bytes(complete.read_bytes()[:-50])
    with pytest.raises(InputError, match=r"^truncated.parquet: "):
        Predictions.read(truncated, **OPTIONS)
    compressed = tmp_path / "truncated.csv.gz"
    compressed.write_bytes(gzip.compress(frame(5000).to_csv(index=False).encode())[:-4000])
    with pytest.raises(InputError, match=r"^truncated.csv.gz: "):
        Predictions.read(compressed, **OPTIONS)
    latin = tmp_path / "latin.csv"
    latin.write_bytes("p_0,p_1,y\n0.5,0.5,é\n".encode("latin-1"))
    with pytest.raises(InputError, match="^latin.csv: .*UTF-8"):
        Predictions.read(latin, label="y", probs="p_*")
    with pytest.raises(InputError, match="absent.csv: there is no such file"):
        Predictions.read(tmp_path / "absent.csv", label="y", probs="p_*")
    with pytest.raises(InputError, match=r"x\.xlsx: .*\.parquet, \.csv"):
        Predictions.read(latin.rename(tmp_path / "x.xlsx"), label="y", probs="p_*")


def test_read_duplicate_id_names_the_id_and_its_rows(tmp_path):
    text = "id,p_0,p_1,y\na,0.5,0.5,0\nb,0.5,0.5,1\na,0.5,0.5,1\n"
    with pytest.raises(InputError, match="^p.csv: .*'a' in rows 1 and 3"):
        read_text(tmp_path, text, id="id")


def test_read_invalid_option_names_the_option(tmp_path):
    text = "p_0,p_1,y\n1,0,0\n"
    with pytest.raises(UnknownNameError, match="unknown option 'labels'. Did you mean 'label'"):
        read_text(tmp_path, text, labels="y")
    with pytest.raises(InputError, match="^p.csv: .*probs= or logits="):
        read_text(tmp_path, text, probs=None)
    with pytest.raises(InputError, match="^classes: 3 names .* for 2 columns"):
        read_text(tmp_path, text, classes=CLASSES)
    with pytest.raises(InputError, match="^classes: .*got a, a"):
        read_text(tmp_path, text, classes=["a", "a"])
    with pytest.raises(InputError, match="^percent: "):
        read_text(tmp_path, text, probs=None, logits="p_*", percent=True)
    with pytest.raises(InputError, match=r"'\*_\*': expected one star"):
        read_text(tmp_path, text, probs="*_*")
    with pytest.raises(InputError, match="column 'w': row 1 has -1"):
        read_text(tmp_path, "p_0,p_1,y,w\n1,0,0,-1\n", sample_weight="w")


def test_batches_stream_the_rows_of_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("orcu.io.reading.BATCH_ROWS", 7)
    data = frame(40)
    data.to_parquet(tmp_path / "d.parquet", row_group_size=5)
    source = open_predictions(tmp_path / "d.parquet", **OPTIONS)
    sizes = [len(batch) for batch in source.batches()]
    assert sum(sizes) == 40
    assert max(sizes) <= 7
    assert_equal(source.load(), Predictions.from_frame(data, **OPTIONS))
    data.loc[33, "p_none"] = np.nan
    data.to_parquet(tmp_path / "d.parquet")
    with pytest.raises(InputError, match="row 34"):
        open_predictions(tmp_path / "d.parquet", **OPTIONS).load()


def test_read_labels_that_may_start_at_one_are_rejected(tmp_path):
    text = "p_a,p_b,p_c,y\n0.5,0.25,0.25,1\n0.5,0.25,0.25,2\n"
    with pytest.raises(InputError, match="^y: .*none is 0"):
        read_text(tmp_path, text, classes=["none", "mild", "severe"])
    with pytest.raises(InputError, match=r"y: row 1 .*`y - 1`.*--classes 1,2,3"):
        read_text(tmp_path, "p_0,p_1,p_2,y\n0.5,0.25,0.25,3\n")


def test_read_empty_subgroup_or_cluster_names_the_row(tmp_path):
    text = "p_0,p_1,y,g\n0.5,0.5,0,a\n0.5,0.5,1,\n"
    with pytest.raises(InputError, match="column 'g': row 2 is empty"):
        read_text(tmp_path, text, subgroup="g")
    data = pd.DataFrame({"p_0": [0.5, 0.5], "p_1": [0.5, 0.5], "y": [0, 1], "g": [1.0, np.nan]})
    with pytest.raises(InputError, match="column 'g': row 2 is empty"):
        Predictions.from_frame(data, label="y", probs="p_*", cluster="g")


def test_read_column_of_another_type_names_the_column(tmp_path):
    data = frame(3)
    data["p_none"] = ["0.5", "x", "0.1"]
    data.to_parquet(tmp_path / "d.parquet")
    with pytest.raises(InputError, match="column 'p_none': row 2 has 'x'"):
        Predictions.read(tmp_path / "d.parquet", **OPTIONS)
    data["p_none"] = [True, False, True]
    data.to_parquet(tmp_path / "d.parquet")
    with pytest.raises(InputError, match="column 'p_none': expected numbers, got bool"):
        Predictions.read(tmp_path / "d.parquet", **OPTIONS)


def test_read_quoted_cells_with_commas_and_line_breaks(tmp_path):
    text = 'name,p_0,p_1,y\n"Doe, J.",0.5,0.5,0\n"two\nlines",0.25,0.75,1\n'
    assert read_text(tmp_path, text, id="name").ids.tolist() == ["Doe, J.", "two\nlines"]


def test_open_predictions_weights_of_a_part_may_be_zero(tmp_path, monkeypatch):
    table = pa.table({"y": [0, 1] * 4, "p_0": [0.9, 0.2] * 4, "p_1": [0.1, 0.8] * 4, "w": [0.0] * 6 + [1.0, 2.0]})
    monkeypatch.setattr("orcu.predictions.source.BATCH_ROWS", 3)
    options = {"label": "y", "probs": "p_*", "sample_weight": "w"}
    predictions = Predictions.from_frame(table, **options)
    assert predictions.sample_weight.tolist() == [0.0] * 6 + [1.0, 2.0]
    monkeypatch.setattr("orcu.evaluation.statistics.IN_MEMORY_CELLS", 4)
    assert evaluate(open_frame(table, **options), n_resamples=0)["accuracy"].value == 1
    zero = table.set_column(3, "w", pa.array([0.0] * 8))
    for in_memory in (4, 10**6):
        monkeypatch.setattr("orcu.evaluation.statistics.IN_MEMORY_CELLS", in_memory)
        with pytest.raises(InputError, match="frame: column 'w': all weights are 0"):
            evaluate(open_frame(zero, **options), n_resamples=0)


def test_read_empty_id_raises(tmp_path):
    (tmp_path / "p.csv").write_text("id,y,p_0,p_1\na,0,0.9,0.1\n,1,0.2,0.8\n")
    with pytest.raises(InputError, match=r"p.csv: column 'id': row 2 is empty"):
        Predictions.read(tmp_path / "p.csv", id="id", label="y", probs="p_*")


def test_read_labels_that_differ_in_case_only_get_a_hint(tmp_path):
    (tmp_path / "p.csv").write_text("y,p_low,p_high\nLow,0.9,0.1\nHigh,0.2,0.8\n")
    with pytest.raises(InputError, match=r"label 'Low'.* differs from the class 'low' only in upper and lower case"):
        Predictions.read(tmp_path / "p.csv", label="y", probs="p_*")


def test_read_implausible_logits_are_noted(tmp_path):
    (tmp_path / "p.csv").write_text("y,z_0,z_1\n0,2,1\n1,1e300,2\n")
    predictions = Predictions.read(tmp_path / "p.csv", label="y", logits="z_*")
    assert any("WARNING: a logit has the size 1e+300 (row 2)" in note for note in predictions.notes)
    (tmp_path / "p.csv").write_text("y,z_0,z_1\n0,2,1\n1,inf,2\n")
    with pytest.raises(InputError, match="row 2 has inf in column 'z_0', expected finite values"):
        Predictions.read(tmp_path / "p.csv", label="y", logits="z_*")


def test_predictions_texts_with_lone_surrogates_raise():
    arguments = {"probs": [[0.9, 0.1], [0.2, 0.8]], "y": [0, 1]}
    for role in ("ids", "subgroup", "cluster"):
        with pytest.raises(InputError, match=rf"^{role}: row 1 has '\\ud800b', which is not valid Unicode"):
            Predictions(**arguments, **{role: ["a", "\ud800b"]})
    with pytest.raises(InputError, match=r"^classes: the name '\\ud800' is not valid"):
        Predictions(probs=arguments["probs"], classes=["a", "\ud800"])


def test_evaluate_mixed_numbers_and_texts_are_accepted():
    probs = [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.4, 0.6]]
    mixed = np.array([0, "1", "0", 1], dtype=object)
    evaluation = evaluate(probs=probs, y=mixed, cluster=mixed, subgroup=mixed, n_resamples=30)
    assert evaluation["accuracy"].value == 1
    assert list(evaluation.subgroups) == ["0", "1"]
