"""Reading of tables: CSV in any format, compressed or not, and Parquet."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from orcu import data
from orcu.errors import InputError
from orcu.io.dialect import detect_dialect
from orcu.io.reading import open_table, read_table, to_float64, to_numpy
from orcu.io.writing import write_table

ROWS = pd.DataFrame({"size": [0.5, 1.25, 3.0], "kind": ["a", "b, c", "d"], "grade": [1, 2, 3]})


@pytest.mark.parametrize(
    ("name", "options", "dialect"),
    [
        ("t.csv", {}, "separator comma, decimal point"),
        ("t.csv", {"sep": ";", "decimal": ","}, "separator semicolon, decimal comma"),
        ("t.txt", {"sep": "|"}, "separator bar, decimal point"),
        ("t.tsv", {"sep": "\t"}, "separator tab, decimal point"),
        ("t.csv.gz", {"sep": ";"}, "separator semicolon, decimal point"),
    ],
)
def test_read_table_gives_the_same_table_for_every_dialect(name, options, dialect, tmp_path):
    ROWS.to_csv(tmp_path / name, index=False, **options)
    assert read_table(tmp_path / name).to_pydict() == ROWS.to_dict("list")
    assert open_table(tmp_path / name).notes == [f"{name}: {dialect} (detected)"]


def test_open_table_parquet_has_no_dialect_note(tmp_path):
    ROWS.to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").to_pydict() == ROWS.to_dict("list")
    assert open_table(tmp_path / "t.parquet").notes == []


def test_read_table_detects_the_separator_between_texts_with_line_breaks(tmp_path):
    lines = ["text;grade", *(f'"one, two\nthree, four\n\nfive {k}";{k}' for k in range(30))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    table = read_table(tmp_path / "t.csv").to_pydict()
    assert table["grade"] == list(range(30))
    assert table["text"][29] == "one, two\nthree, four\n\nfive 29"


def test_detect_dialect_comma_is_not_a_decimal_sign_if_numbers_have_points(tmp_path):
    (tmp_path / "t.csv").write_text('size,range,grade\n0.5,"1,2",0\n0.75,"3,4",1\n')
    assert detect_dialect(tmp_path / "t.csv").decimal == "."
    assert read_table(tmp_path / "t.csv").column("size").to_pylist() == [0.5, 0.75]
    (tmp_path / "t.csv").write_text('size,grade\n"0,5",0\n"0,75",1\n')
    assert read_table(tmp_path / "t.csv").column("size").to_pylist() == [0.5, 0.75]


def test_detect_dialect_uses_the_given_separator_and_decimal_sign(tmp_path):
    (tmp_path / "t.csv").write_text("a;b,c\n1;2,5\n")
    assert str(detect_dialect(tmp_path / "t.csv", sep=";", decimal=",")) == "separator semicolon, decimal comma (given)"
    assert detect_dialect(tmp_path / "t.csv", sep=",").header == ("a;b", "c")
    with pytest.raises(InputError, match="^decimal: .*got ';'"):
        detect_dialect(tmp_path / "t.csv", decimal=";")


def test_read_table_skips_blank_lines_above_the_header(tmp_path):
    (tmp_path / "t.csv").write_text("\n\na,b\n1,2\n")
    assert read_table(tmp_path / "t.csv").to_pydict() == {"a": [1], "b": [2]}


def test_read_table_empty_cells_are_null(tmp_path):
    (tmp_path / "t.csv").write_text("grade;size\nlow;0,9\nhigh;\n")
    assert read_table(tmp_path / "t.csv").to_pydict() == {"grade": ["low", "high"], "size": [0.9, None]}


def test_to_float64_converts_numbers_written_as_text():
    assert to_float64(pa.array(["0,5", " 1 "]), "p_low", first_row=1, decimal=",").tolist() == [0.5, 1.0]


def test_to_numpy_respects_the_offset_of_a_slice():
    assert to_numpy(pa.array([1, 2, 3])[1:], np.int64).tolist() == [2, 3]


def test_write_table_escapes_formulas_in_cells_and_names(tmp_path):
    table = pa.table({"=id": ["=cmd|x", "-1.5", "plain"]})
    write_table(table, tmp_path / "t.csv", escape_formulas=True)
    assert (tmp_path / "t.csv").read_text().split() == ['"\'=id"', '"\'=cmd|x"', '"-1.5"', '"plain"']


def test_read_table_header_only_has_no_rows(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n")
    assert read_table(tmp_path / "t.csv").num_rows == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "empty"),
        ("t.csv", b"\n \n", "empty"),
        ("t.csv", b"a,a\n1,2\n", "duplicate column 'a'"),
        ("t.csv", b"a,b\n1,2\n1,2,3\n", "Expected 2 columns, got 3"),
        ("t.csv", "a,b\n1,é\n".encode("latin-1"), "UTF-8"),
        ("t.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 9999, mtime=0)[:-50], ""),
        ("t.parquet", b"PAR1", "Parquet"),
        ("t.xlsx", b"a", r"\.parquet, \.csv, \.tsv"),
    ],
)
def test_read_table_bad_file_names_the_file(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=f"{name}: .*{message}"):
        read_table(tmp_path / name)


def test_prepare_gives_the_same_data_for_every_dialect(tmp_path):
    rows = pd.concat([ROWS] * 10, ignore_index=True)
    for name, options in (("european", {"sep": ";", "decimal": ","}), ("plain", {})):
        (tmp_path / name).mkdir()
        rows.to_csv(tmp_path / name / "t.csv", index=False, **options)
    prepared = {
        name: data.prepare("table", tmp_path / name, output=tmp_path / f"{name}_out", options={"label": "grade"})
        for name in ("european", "plain")
    }
    assert prepared["european"][0].manifest.digest == prepared["plain"][0].manifest.digest
    assert "note: t.csv: separator semicolon, decimal comma (detected)" in prepared["european"][1].lines()


def test_read_table_first_line_of_excel_gives_the_separator(tmp_path):
    path = tmp_path / "t.csv"
    for first, separator in (("sep=;", ";"), ('"sep=|"', "|"), ("\nSEP=,", ",")):
        path.write_text(f"{first}\ngrade{separator}size\nlow{separator}1\n")
        assert read_table(path).to_pydict() == {"grade": ["low"], "size": [1]}
    path.write_text("sep=;\n")
    with pytest.raises(InputError, match="the file is empty"):
        read_table(path)
    path.write_text("sep=\nlow\n")  # a column with that name
    assert read_table(path).column_names == ["sep="]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_read_table_line_break_in_a_quoted_header_is_one_name(newline, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(f'grade,"size{newline}in mm{newline}{newline}"{newline}low,1{newline}high,2{newline}'.encode())
    table = read_table(path)
    assert table.column_names == ["grade", "size in mm"]
    assert table.to_pydict()["grade"] == ["low", "high"]
    assert [batch.to_pydict() for batch in open_table(path).batches(["grade"])] == [{"grade": ["low", "high"]}]


def test_read_table_thousands_separators_are_not_taken_for_decimal_commas(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("grade;size\nlow;1,250\nhigh;39,550\n")
    with pytest.raises(InputError, match=r"t.csv: '1,250' may have a decimal comma or a thousands separator"):
        read_table(path)
    assert read_table(path, decimal=",").to_pydict()["size"] == [1.25, 39.55]
    path.write_text("grade;size\nlow;0,250\nhigh;39,550\n")  # no thousands start with 0
    assert read_table(path).to_pydict()["size"] == [0.25, 39.55]


@pytest.mark.parametrize("cell", ["0.1_5", "\uff10.5", "1.5.2", "0x1"])
def test_to_float64_names_the_row_of_a_text_that_python_would_read(cell):
    with pytest.raises(InputError, match=r"column 'p': row 3 has '.*', expected a number"):
        to_float64(pa.array(["0.5", "1e-3", cell]), "p", first_row=1)
