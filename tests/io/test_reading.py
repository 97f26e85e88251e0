"""The one reader of tables: any dialect of CSV, packed or not, and Parquet."""

import gzip

import pandas as pd
import pytest

from orcu import data
from orcu.errors import InputError
from orcu.io.dialect import dialect_of
from orcu.io.reading import open_table, read_table

ROWS = pd.DataFrame({"size": [0.5, 1.25, 3.0], "kind": ["a", "b, c", "d"], "grade": [1, 2, 3]})


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("t.csv", {}, "separator comma, decimal point"),
        ("t.csv", {"sep": ";", "decimal": ","}, "separator semicolon, decimal comma"),
        ("t.txt", {"sep": "|"}, "separator bar, decimal point"),
        ("t.tsv", {"sep": "\t"}, "separator tab, decimal point"),
        ("t.csv.gz", {"sep": ";"}, "separator semicolon, decimal point"),
    ],
)
def test_every_dialect_gives_the_same_table(name, options, words, tmp_path):
    ROWS.to_csv(tmp_path / name, index=False, **options)
    assert read_table(tmp_path / name).to_pydict() == ROWS.to_dict("list")
    assert open_table(tmp_path / name).notes == [f"{name}: {words} (recognised)"]


def test_parquet_has_no_dialect(tmp_path):
    ROWS.to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").to_pydict() == ROWS.to_dict("list")
    assert open_table(tmp_path / "t.parquet").notes == []


def test_texts_with_line_breaks_do_not_hide_the_separator(tmp_path):
    lines = ["text;grade", *(f'"one, two\nthree, four\n\nfive {k}";{k}' for k in range(30))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    table = read_table(tmp_path / "t.csv").to_pydict()
    assert table["grade"] == list(range(30))
    assert table["text"][29] == "one, two\nthree, four\n\nfive 29"


def test_a_comma_between_commas_is_no_decimal_sign_where_points_are(tmp_path):
    (tmp_path / "t.csv").write_text('size,range,grade\n0.5,"1,2",0\n0.75,"3,4",1\n')
    assert dialect_of(tmp_path / "t.csv").decimal == "."
    assert read_table(tmp_path / "t.csv").column("size").to_pylist() == [0.5, 0.75]
    (tmp_path / "t.csv").write_text('size,grade\n"0,5",0\n"0,75",1\n')
    assert read_table(tmp_path / "t.csv").column("size").to_pylist() == [0.5, 0.75]


def test_what_is_said_is_not_recognised(tmp_path):
    (tmp_path / "t.csv").write_text("a;b,c\n1;2,5\n")
    assert str(dialect_of(tmp_path / "t.csv", sep=";", decimal=",")) == "separator semicolon, decimal comma (given)"
    assert dialect_of(tmp_path / "t.csv", sep=",").header == ("a;b", "c")
    with pytest.raises(InputError, match="decimal: expected '.' or ',', got ';'"):
        dialect_of(tmp_path / "t.csv", decimal=";")


def test_blank_lines_above_the_header_are_no_rows(tmp_path):
    (tmp_path / "t.csv").write_text("\n\na,b\n1,2\n")
    assert read_table(tmp_path / "t.csv").to_pydict() == {"a": [1], "b": [2]}


def test_a_header_alone_is_a_table_without_rows(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n")
    assert read_table(tmp_path / "t.csv").num_rows == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "the file is empty"),
        ("t.csv", b"\n \n", "the file is empty"),
        ("t.csv", b"a,a\n1,2\n", "'a' stands twice"),
        ("t.csv", b"a,b\n1,2\n1,2,3\n", "cannot be read"),
        ("t.csv", "a,b\n1,é\n".encode("latin-1"), "UTF-8"),
        ("t.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 9999, mtime=0)[:-50], "t.csv.gz"),
        ("t.parquet", b"PAR1", "not a whole Parquet file"),
        ("t.xlsx", b"a", "expected a name that ends in"),
    ],
)
def test_bad_files_are_named(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / name)


def test_a_european_table_is_prepared_as_any_other(tmp_path):
    rows = pd.concat([ROWS] * 10, ignore_index=True)
    for name, options in (("european", {"sep": ";", "decimal": ","}), ("plain", {})):
        (tmp_path / name).mkdir()
        rows.to_csv(tmp_path / name / "t.csv", index=False, **options)
    prepared = {
        name: data.prepare("table", tmp_path / name, out=tmp_path / f"{name}_out", options={"label": "grade"})
        for name in ("european", "plain")
    }
    assert prepared["european"][0].manifest.digest == prepared["plain"][0].manifest.digest
    assert "note: t.csv: separator semicolon, decimal comma (recognised)" in prepared["european"][1].lines()
