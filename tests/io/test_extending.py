"""Writing a user's table back with columns replaced or added."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orcu.errors import InputError
from orcu.io.extending import write_extended
from orcu.io.reading import open_table, read_table

TEXT = 'id;näme;p;note\n007;für, x;0,5;\n1e5;"a;b""";0,25;=SUM(A1)\n'


@pytest.fixture
def visits(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_write_extended_csv_keeps_every_cell_separator_decimal_and_encoding(tmp_path, encoding):
    path = tmp_path / "visits.csv"
    path.write_text(TEXT, encoding=encoding)
    table = open_table(path, encoding=encoding if encoding == "cp1252" else None)
    write_extended([table], tmp_path / "copy.csv")
    assert (tmp_path / "copy.csv").read_text(encoding=encoding) == TEXT
    assert (tmp_path / "copy.csv").read_bytes() == path.read_bytes()


def test_write_extended_replaced_and_added_columns_use_the_decimal_sign(visits, tmp_path):
    write_extended([open_table(visits)], tmp_path / "new.csv", overwrite={"p": [0.125, 1.0]}, add={"n": [1, 2]})
    assert (tmp_path / "new.csv").read_text(encoding="utf-8") == (
        'id;näme;p;note;n\n007;für, x;0,125;;1\n1e5;"a;b""";1,0;=SUM(A1);2\n'
    )


def test_write_extended_rows_selects_rows(visits, tmp_path):
    write_extended([open_table(visits)], tmp_path / "new.csv.gz", rows=[1])
    assert gzip.decompress((tmp_path / "new.csv.gz").read_bytes()).decode().splitlines()[1].startswith("1e5;")


def test_write_extended_csv_as_parquet_keeps_texts(visits, tmp_path):
    write_extended([open_table(visits)], tmp_path / "new.parquet", overwrite={"p": [0.5, 0.5]}, metadata={"orcu": "{}"})
    table = pq.read_table(tmp_path / "new.parquet")
    assert table["id"].to_pylist() == ["007", "1e5"]
    assert table["p"].type == pa.float64()
    assert table.schema.metadata[b"orcu"] == b"{}"


def test_write_extended_parquet_keeps_types_and_metadata(tmp_path):
    table = pa.table({"id": [1, None], "p": [0.5, 0.5], "when": pa.array([1, 2], pa.timestamp("ms"))})
    pq.write_table(table.replace_schema_metadata({"mine": "1"}), tmp_path / "a.parquet")
    write_extended([open_table(tmp_path / "a.parquet")] * 2, tmp_path / "b.parquet", add={"x": list("abcd")})
    copy = pq.read_table(tmp_path / "b.parquet")
    assert copy.schema.types[:3] == table.schema.types
    assert copy["id"].to_pylist() == [1, None, 1, None]
    assert copy.schema.metadata == {b"mine": b"1"}


def test_write_extended_existing_column_is_refused_and_nothing_is_written(visits, tmp_path):
    with pytest.raises(InputError, match="already has a column 'note'"):
        write_extended([open_table(visits)], tmp_path / "new.csv", add={"note": [1, 2]})
    assert not (tmp_path / "new.csv").exists()


def test_write_extended_text_outside_the_encoding_is_refused_and_nothing_is_written(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text(TEXT, encoding="cp1252")
    with pytest.raises(InputError, match=r"'≥' cannot be written in the encoding cp1252.*\.parquet"):
        write_extended([open_table(path, encoding="cp1252")], tmp_path / "new.csv", add={"x": ["≥2", "1"]})
    assert [file.name for file in tmp_path.iterdir()] == ["visits.csv"]


def test_write_extended_escape_formulas_quotes_only_formulas(visits, tmp_path):
    write_extended([open_table(visits)], tmp_path / "new.csv", escape_formulas=True)
    assert (tmp_path / "new.csv").read_text(encoding="utf-8") == TEXT.replace("=SUM", "'=SUM")


def test_write_extended_unknown_ending_is_refused(visits, tmp_path):
    with pytest.raises(InputError, match="expected a file name that ends in"):
        write_extended([open_table(visits)], tmp_path / "new.xlsx")


@pytest.mark.parametrize("rows", [0, 100])  # the first lines decide about the dialect, the others are read by pyarrow
@pytest.mark.parametrize("read", [read_table, lambda path: list(open_table(path).batches(["id"]))])
def test_open_table_file_that_is_not_utf_8_names_the_option_encoding(tmp_path, rows, read):
    path = tmp_path / "visits.csv"
    path.write_text("id;p\n" + "a;1\n" * rows + "für;1\n", encoding="cp1252")
    with pytest.raises(InputError, match=r"visits\.csv: not text in the encoding utf-8.*--encoding"):
        read(path)


def test_open_table_unknown_encoding_is_refused(visits):
    with pytest.raises(InputError, match="encoding: 'klingon' is unknown"):
        open_table(visits, encoding="klingon")
