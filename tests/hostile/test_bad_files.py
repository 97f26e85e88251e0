"""Commands on bad files: exit code 2, 3 or 4, a message that names the file, and no traceback."""

import gzip
import io
import json
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import run

from orcu import Predictions
from orcu.calibrators import TemperatureScaling

GOOD = "id,y,p_0,p_1,p_2\n" + "".join(f"{k},{k % 3},0.5,0.3,0.2\n" for k in range(30))


def parquet(table, metadata=None):
    stream = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), stream)
    return stream.getvalue()


COLUMNS = pa.table({"y": [0, 1], "p_0": [0.5, 0.5], "p_1": [0.3, 0.3], "p_2": [0.2, 0.2]})
# name of the file -> its bytes; every command that reads predictions rejects each of them
BAD_FILES = {
    "empty.csv": b"",
    "blank.csv": b"\n \n\n",
    "header_only.csv": b"y,p_0,p_1,p_2\n",
    "latin.csv": "y,p_0,p_1,p_2\nä,0.5,0.3,0.2\n".encode("latin-1"),
    "binary.csv": bytes(range(256)) * 40,
    "nul.csv": b"y,p_0,p_1,p_2\n0,0.5,0.3\x00,0.2\n",
    "ragged.csv": b"y,p_0,p_1,p_2\n0,0.5,0.3,0.2\n1,0.5,0.3\n",
    "twice.csv": b"y,p_0,p_0,p_2\n0,0.5,0.3,0.2\n",
    "nan.csv": b"y,p_0,p_1,p_2\n0,nan,0.3,0.2\n1,0.5,0.3,0.2\n",
    "infinite.csv": b"y,p_0,p_1,p_2\n0,inf,0.3,0.2\n1,0.5,0.3,0.2\n",
    "words.csv": b"y,p_0,p_1,p_2\n0,high,0.3,0.2\n1,0.5,0.3,0.2\n",
    "sum_two.csv": b"y,p_0,p_1,p_2\n0,1,1,0\n1,0,1,0\n2,0,0,1\n",
    "sum_zero.csv": b"y,p_0,p_1,p_2\n0,1,0,0\n1,0,0,0\n2,0,0,1\n",
    "no_label.csv": b"y,p_0,p_1,p_2\n0,0.5,0.3,0.2\n,0.5,0.3,0.2\n",
    "other_label.csv": b"y,p_0,p_1,p_2\n0,0.5,0.3,0.2\n7,0.5,0.3,0.2\n",
    "one_line.csv": b"y" * 3_000_000,
    "one_long_line.csv.gz": gzip.compress(b"y" * 30_000_000, mtime=0),
    "cut.csv.gz": gzip.compress(GOOD.encode() * 500, mtime=0)[:-200],
    "not_packed.csv.gz": GOOD.encode(),
    "zlib.csv.gz": zlib.compress(GOOD.encode()),
    "cut.parquet": parquet(COLUMNS)[:-20],
    "magic.parquet": b"PAR1",
    "text.parquet": GOOD.encode(),
    "no_rows.parquet": parquet(COLUMNS.slice(0, 0)),
    "booleans.parquet": parquet(COLUMNS.set_column(1, "p_0", pa.array([True, False]))),
    "nulls.parquet": parquet(COLUMNS.set_column(1, "p_0", pa.array([0.5, None]))),
    "lists.parquet": parquet(COLUMNS.set_column(1, "p_0", pa.array([[0.5], [0.5]]))),
    "null_label.parquet": parquet(COLUMNS.set_column(0, "y", pa.array([0, None]))),
    "list_label.parquet": parquet(COLUMNS.set_column(0, "y", pa.array([[0], [1]]))),
}
READING = ("--label", "y", "--probs", "p_*")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The bad files, a good one, and a calibrator."""
    where = tmp_path_factory.mktemp("hostile")
    for name, content in BAD_FILES.items():
        (where / name).write_bytes(content)
    (where / "good.csv").write_text(GOOD)
    rng = np.random.default_rng(0)
    TemperatureScaling().fit(rng.normal(size=(50, 3)), rng.integers(3, size=50)).save(where / "temperature.json")
    return where


COMMANDS = {
    "evaluate": ("evaluate", "{file}", *READING),
    "compare with": ("evaluate", "good.csv", "{file}", *READING),
    "calibrate fit": ("calibrate", "fit", "{file}", "-o", "fitted.json", "--calibrator", "temperature", *READING),
    "calibrate apply": ("calibrate", "apply", "{file}", "temperature.json", "-o", "moved.csv", *READING),
    "sets fit": ("sets", "fit", "{file}", "-o", "sets.json", *READING),
}


def assert_rejected(result, name=""):
    assert result.returncode in {2, 3, 4}, f"{result.returncode}: {result.stdout}{result.stderr}"
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip()) > 20, "no message"
    assert name in result.stderr.replace("\n", "")


UNLABELLED = {"no_label.csv", "null_label.parquet"}  # labels are missing, and `calibrate apply` needs none


@pytest.mark.parametrize(
    ("name", "command"),
    [(name, command) for name in BAD_FILES for command in COMMANDS if name not in UNLABELLED or "apply" not in command],
)
def test_command_with_bad_predictions_fails_and_writes_nothing(command, name, folder):
    arguments = [part.format(file=name) for part in COMMANDS[command]]
    assert_rejected(run(*arguments, cwd=folder, width=500), name)
    assert not {"fitted.json", "moved.csv", "sets.json"} & {path.name for path in folder.iterdir()}


# Bad JSON of a calibrator, or changes of a good one.
DAMAGES = {
    "empty": "",
    "no JSON": "{",
    "a list": "[]",
    "a number": "1",
    "NaN": '{"calibrator": NaN}',
    "deep": "[" * 100_000,
    "another kind": '{"calibrator": "gradient"}',
    "another version": {"state_version": 99},
    "no state": {"state": None},
    "no options": {"options": 5},
    "an unknown option": {"options": {"speed": 3}},
    "classes that are a number": {"classes": 5},
    "endless classes": {"num_classes": 10**13},
    "no classes": {"num_classes": 0},
    "a class": {"num_classes": 1},
    "classes as text": {"num_classes": "three"},
    "an infinite temperature": {"state": {"temperature": float("inf")}},
    "no temperature": {"state": {"temperature": 0.0}},
    "a negative temperature": {"state": {"temperature": -1.0}},
    "a denormal temperature": {"state": {"temperature": 5e-324}},
    "a temperature in words": {"state": {"temperature": "warm"}},
    "a floor above one": {"floor": 7.0},
    "a negative floor": {"floor": -1.0},
    "rows that are none": {"fitted_on": {"count": -1, "sha256": 3, "ids": 5}},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_calibrate_apply_with_a_damaged_calibrator_fails_and_writes_nothing(damage, folder, tmp_path):
    change = DAMAGES[damage]
    state = json.loads((folder / "temperature.json").read_text())
    state.pop("sha256")  # as in files of 0.2, so that the values themselves are checked
    text = change if isinstance(change, str) else json.dumps(state | change)
    (tmp_path / "damaged.json").write_text(text)
    (tmp_path / "good.csv").write_text(GOOD)
    result = run("calibrate", "apply", "good.csv", "damaged.json", "-o", "out.csv", *READING, cwd=tmp_path, width=500)
    assert_rejected(result, "damaged.json")
    assert not (tmp_path / "out.csv").exists()


METADATA = {
    "no JSON": "{",
    "a number": "5",
    "no classes": '{"schema_version": 1, "kind": "probs"}',
    "classes that are a number": '{"schema_version": 1, "kind": "probs", "classes": 5}',
    "another kind": '{"schema_version": 1, "kind": "odds", "classes": ["0", "1"]}',
    "another version": '{"schema_version": 7}',
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("damage", METADATA)
def test_evaluate_ignores_damaged_metadata_if_columns_are_given(damage, tmp_path):
    (tmp_path / "file.parquet").write_bytes(parquet(COLUMNS, {"orcu": METADATA[damage]}))
    result = run("evaluate", "file.parquet", *READING, cwd=tmp_path, width=500)
    assert result.returncode == 0, result.stderr
    assert "file.parquet: orcu's metadata of the file are ignored" in result.stdout
    assert_rejected(run("evaluate", "file.parquet", cwd=tmp_path, width=500), "--probs")


def test_read_ignores_long_texts_in_other_columns(tmp_path):
    header, *rows = GOOD.splitlines()
    lines = [f"{header},text", *(f'{row},"{"word " * 40_000}"' for row in rows)]
    (tmp_path / "long.csv").write_text("\n".join(lines) + "\n")
    assert Predictions.read(tmp_path / "long.csv", label="y", probs="p_*").num_classes == 3
