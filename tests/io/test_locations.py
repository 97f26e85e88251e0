"""Remote files: the memory file system of fsspec, errors, credentials, partitioned data sets."""

import functools
import http.server
import importlib
import json
import pickle
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import assert_data_error, assert_usage_error, run
from prediction_tables import COLUMNS, OPTIONS, table_of

import orcu
from orcu.calibrators import TemperatureScaling, load
from orcu.errors import InputError
from orcu.io import locations
from orcu.io.files import atomic_write, read_json, write_json
from orcu.io.locations import RemotePath, as_location, hide_credentials, list_files
from orcu.io.reading import open_table, read_table
from orcu.io.writing import write_table
from orcu.monitoring.log import Log
from orcu.predictions import Predictions, open_predictions

fsspec = pytest.importorskip("fsspec", reason="needs fsspec")


@pytest.fixture
def memory():
    """The memory file system of fsspec, empty before and after the test."""
    filesystem = fsspec.filesystem("memory")
    filesystem.store.clear()
    yield filesystem
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]


@pytest.fixture
def upload(memory, tmp_path):
    """Writes tables into the memory file system and, with the same names, into a local folder."""

    def write(files):
        for name, table in files.items():
            local = tmp_path / "bucket" / name
            local.parent.mkdir(parents=True, exist_ok=True)
            write_table(table, local)
            memory.pipe_file(f"/bucket/{name}", local.read_bytes())
        return tmp_path / "bucket"

    return write


@pytest.mark.parametrize("name", ["p.parquet", "p.csv", "p.csv.gz"])
def test_predictions_of_a_uri_are_those_of_the_local_file(upload, name):
    local = upload({name: table_of(50)})
    remote = Predictions.read(f"memory://bucket/{name}", **COLUMNS)
    expected = Predictions.read(local / name, **COLUMNS)
    np.testing.assert_array_equal(remote.probs, expected.probs)
    np.testing.assert_array_equal(remote.y, expected.y)
    assert remote.ids.tolist() == expected.ids.tolist()
    assert remote.notes == expected.notes


def test_commands_write_the_same_bytes_to_a_uri_as_to_a_local_file(upload, memory):
    local = upload({"p.csv": table_of(120)})
    for root in ("memory://bucket", str(local)):
        commands = [
            ("calibrate", "fit", f"{root}/p.csv", *OPTIONS, "--calibrator", "temperature", "-o", f"{root}/c.json"),
            ("calibrate", "apply", f"{root}/p.csv", f"{root}/c.json", *OPTIONS, "-o", f"{root}/new.csv"),
            ("calibrate", "compare", f"{root}/p.csv", *OPTIONS, "--test", f"{root}/p.csv"),
            ("decide", f"{root}/new.csv", *OPTIONS, "--rule", "median", "-o", f"{root}/decided.csv.gz"),
            ("sets", "fit", f"{root}/p.csv", *OPTIONS, "-o", f"{root}/sets.json"),
            ("evaluate", f"{root}/new.csv", *OPTIONS, "--n-resamples", "30", "--json", f"{root}/e.json"),
        ]
        for command in commands:
            result = run(*command)
            if command[1] == "compare":
                assert_data_error(result, "are also in p.csv")
            else:
                assert result.returncode == 0, result.stderr
    for name in ("c.json", "new.csv", "sets.json"):
        assert memory.cat_file(f"/bucket/{name}") == (local / name).read_bytes()
    remote, expected = (
        json.loads(text) for text in (memory.cat_file("/bucket/e.json"), (local / "e.json").read_text())
    )
    assert remote.pop("provenance")["files"] == expected.pop("provenance")["files"]
    assert remote == expected
    decided = read_table("memory://bucket/decided.csv.gz")
    assert decided.equals(read_table(local / "decided.csv.gz"))
    assert not [name for name in memory.ls("/bucket", detail=False) if name.endswith(".part")]


def test_sets_and_monitor_commands_read_uris(upload, tmp_path):
    upload({"a.csv": table_of(60), "b.csv": table_of(60, start=100)})
    assert run("sets", "fit", "memory://bucket/a.csv", *OPTIONS, "-o", "memory://bucket/s.json").returncode == 0
    command = ("sets", "apply", "memory://bucket/b.csv", "memory://bucket/s.json", *OPTIONS)
    result = run(*command, "-o", "memory://bucket/in.parquet")
    assert "wrote memory://bucket/in.parquet: 60 rows" in result.stdout, result.stderr
    assert "set_low" in read_table("memory://bucket/in.parquet").column_names
    log = tmp_path / "log"
    result = run("monitor", "add", "memory://bucket/a.csv", *OPTIONS, "--log", log, "--day", "2026-11-01")
    assert "60 labelled rows" in result.stdout, result.stderr
    result = run("monitor", "check", log, "--plot", "memory://bucket/chart.svg")
    assert "wrote memory://bucket/chart.svg" in result.stdout, result.stderr
    with pytest.raises(InputError, match="a log is a local folder"):
        Log("memory://bucket/log")


def test_partitioned_data_set_has_its_folders_as_text_columns(upload):
    local = upload(
        {
            "d/site=north%20east/year=2025/p.parquet": table_of(20),
            "d/site=south/year=2026/p.parquet": table_of(30, start=100),
            "d/_temporary.parquet": table_of(1, start=500),
        }
    )
    for root in ("memory://bucket", local):
        predictions = Predictions.read(as_location(str(root)) / "d", **COLUMNS, subgroup="site", cluster="year")
        assert predictions.subgroup.tolist() == ["north east"] * 20 + ["south"] * 30
        assert predictions.cluster.tolist() == ["2025"] * 20 + ["2026"] * 30
        assert predictions.notes[0] == "2 Parquet files, 2 of them in subfolders"
    result = run("decide", "memory://bucket/d", *OPTIONS, "-o", "memory://bucket/decided.parquet")
    assert_usage_error(result, "is a folder, expected a file")


def test_partition_of_the_labels_in_a_folder_of_csv_files(upload):
    """Cells of empty partitions are empty, and a folder of CSV files is read where there are no Parquet files."""
    table = table_of(20)
    files = {
        f"d/label={name}/p.csv": table.filter(pa.compute.equal(table["label"], name)).drop_columns("label")
        for name in ("none", "mild")
    }
    upload(files | {f"d/label={locations.NULL_PARTITION}/p.csv": table_of(5, start=50).drop_columns("label")})
    options = COLUMNS | {"classes": ["none", "mild", "severe"], "unlabelled": "skip"}
    predictions = Predictions.read("memory://bucket/d", **options)
    assert len(predictions) == sum(table.num_rows for table in files.values())
    assert "5 of" in " ".join(predictions.notes)
    assert "3 CSV files, 3 of them in subfolders" in predictions.notes


def test_partition_column_that_is_also_a_column_must_agree(upload):
    """Polars writes the columns of the partitions into the files as well."""
    same, other = ["7"] * 20, ["7"] * 19 + ["8"]
    upload({"same/site=7/p.parquet": table_of(20, site=[7] * 20), "other/site=7/p.parquet": table_of(20, site=other)})
    assert Predictions.read("memory://bucket/same", **COLUMNS, subgroup="site").subgroup.tolist() == same
    with pytest.raises(InputError, match=r"column 'site' has '8' in row 20, but the file is in the folder site=7"):
        Predictions.read("memory://bucket/other", **COLUMNS, subgroup="site")


def test_folder_of_mixed_schemas_names_the_file(upload):
    upload(
        {
            "classes/a.parquet": table_of(20),
            "classes/b.parquet": table_of(20, start=50).rename_columns(["id", "label", "p_none", "p_mild", "p_bad"]),
            "columns/a.parquet": table_of(20),
            "columns/b.parquet": table_of(20, start=50).drop_columns("label"),
            "partitions/site=n/a.parquet": table_of(20),
            "partitions/b.parquet": table_of(20, start=50),
        }
    )
    with pytest.raises(
        InputError, match="a.parquet has probs of none, mild, severe.*b.parquet has probs of none, mild, bad"
    ):
        open_predictions("memory://bucket/classes", **COLUMNS)
    with pytest.raises(InputError, match="b.parquet.*'label'"):
        open_predictions("memory://bucket/columns", **COLUMNS)
    with pytest.raises(InputError, match="b.parquet.*'site'"):
        open_predictions("memory://bucket/partitions", **COLUMNS, subgroup="site")


def test_write_back_of_a_partitioned_data_set_has_the_columns_of_the_folders(upload):
    from orcu.predictions.write_back import write_back

    upload({"d/site=n/a.parquet": table_of(5), "d/site=s/a.parquet": table_of(5, start=50)})
    source = open_predictions("memory://bucket/d", **COLUMNS)
    write_back(source, "memory://bucket/all.parquet", add={"decision": ["none"] * 10})
    assert read_table("memory://bucket/all.parquet")["site"].to_pylist() == ["n"] * 5 + ["s"] * 5


def test_calibrator_is_saved_to_and_loaded_from_a_uri(memory):
    logits = np.random.default_rng(0).normal(size=(60, 3))
    fitted = TemperatureScaling().fit(logits, np.arange(60) % 3)
    fitted.save("memory://bucket/c.json")
    np.testing.assert_array_equal(load("memory://bucket/c.json").predict_proba(logits), fitted.predict_proba(logits))


def test_missing_file_missing_folder_and_damaged_file_are_named(upload, memory):
    upload({"p.csv": table_of(5)})
    with pytest.raises(InputError, match=r"^memory://bucket/q\.csv: there is no such file\.$"):
        open_predictions("memory://bucket/q.csv", **COLUMNS)
    with pytest.raises(InputError, match=r"^memory://bucket/c\.json: there is no such file\.$"):
        read_json("memory://bucket/c.json", dict)
    memory.pipe_file("/bucket/empty/readme.md", b"text")
    with pytest.raises(InputError, match="memory://bucket/empty: there is no .parquet or .csv file in this folder"):
        open_predictions("memory://bucket/empty", **COLUMNS)
    memory.pipe_file("/bucket/bad.parquet", b"PAR1")
    with pytest.raises(InputError, match="bad.parquet: damaged or incomplete Parquet file"):
        open_table("memory://bucket/bad.parquet")
    assert_usage_error(run("evaluate", "memory://bucket/q.csv", *OPTIONS), "q.csv: there is no such file")


def test_output_over_an_input_is_refused(upload):
    upload({"p.csv": table_of(5)})
    result = run("decide", "memory://bucket/p.csv", *OPTIONS, "-o", "memory://bucket/p.csv")
    assert_usage_error(result, "is also an input")


def test_failed_write_leaves_the_file_of_a_uri_unchanged(memory):
    write_json("memory://bucket/a.json", {"a": 1})
    with pytest.raises(TypeError), atomic_write("memory://bucket/a.json") as temporary:
        temporary.write_text(None)
    assert read_json("memory://bucket/a.json", dict) == {"a": 1}


def test_failed_upload_leaves_the_file_of_a_uri_unchanged(memory, monkeypatch):
    write_json("memory://bucket/a.json", {"a": 1})

    def fail(*_, **__):
        raise RuntimeError("connection lost")

    monkeypatch.setattr(type(memory), "mv", fail)
    with pytest.raises(InputError, match=r"memory://bucket/a\.json: cannot be written \(connection lost\)"):
        write_json("memory://bucket/a.json", {"a": 2})
    assert read_json("memory://bucket/a.json", dict) == {"a": 1}
    assert memory.ls("/bucket", detail=False) == ["/bucket/a.json"]


def test_unknown_scheme_and_missing_packages_are_named(monkeypatch):
    with pytest.raises(InputError, match="unknown scheme 'foo'; expected a local path, or a URI such as s3://"):
        open_table("foo://bucket/p.csv")
    if importlib.util.find_spec("paramiko") is None:
        with pytest.raises(InputError, match=r'Install it with: pip install "fsspec\[sftp\]"'):
            open_table("sftp://user:word@host/p.csv")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="need fsspec, which is not installed. Install it with: pip install fsspec"):
        open_table("memory://bucket/p.csv")


def test_credentials_are_in_no_message(monkeypatch):
    path = as_location("s3://AKIA:se%2Fcret@bucket/p.csv?session=token99")
    assert str(path) == "s3://bucket/p.csv"
    assert repr(path) == "RemotePath('s3://bucket/p.csv')"

    def fail(*_):
        raise OSError("403 for AKIA with se/cret or se%2Fcret in session=token99")

    monkeypatch.setattr(locations, "_arrow_filesystem", fail)
    with pytest.raises(InputError) as error:
        open_predictions("s3://AKIA:se%2Fcret@bucket/p.csv?session=token99", **COLUMNS)
    assert str(error.value) == "s3://bucket/p.csv: cannot be read (403 for *** with *** or *** in session=***)."
    assert hide_credentials("abfs://box:key@account/p.csv") == "abfs://***@account/p.csv"


@pytest.mark.slow
def test_credentials_of_the_command_are_in_no_report(upload, memory):
    upload({"p.csv": table_of(80)})
    outputs = ("--report", "memory://bucket/e.html", "--json", "memory://bucket/e.json")
    about = ("--n-resamples", "30", "--title", "s3://AKIA:secret@b/p")
    result = run("evaluate", "memory://bucket/p.csv", *OPTIONS, *about, *outputs)
    assert result.returncode == 0, result.stderr
    assert b"AKIA" not in memory.cat_file("/bucket/e.json")
    assert b"</html>" in memory.cat_file("/bucket/e.html")


def test_remote_path_is_sent_to_other_processes_with_its_credentials():
    path = as_location("s3://key:secret@bucket/folder/p.csv?region=x")
    assert pickle.loads(pickle.dumps(path)) == path
    assert (path.name, path.suffix, (path / "q").key) == ("p.csv", ".csv", "folder/p.csv/q")


def test_pathlib_path_of_a_uri_has_a_hint():
    with pytest.raises(InputError, match="For a URI pass a text, because pathlib.Path removes a slash"):
        open_table(Path("s3://bucket/p.csv"))


def test_file_uri_is_a_local_path(tmp_path):
    pq.write_table(table_of(5), tmp_path / "a b.parquet")
    assert open_table(f"file://{tmp_path}/a%20b.parquet").path == tmp_path / "a b.parquet"


def test_files_of_a_remote_folder_are_in_the_order_of_local_ones(upload):
    local = upload({name: table_of(1) for name in ("d/b/x.csv", "d/b-1/x.csv", "d/a.csv", "d/.hidden.csv")})
    names = [name for _, name in list_files(local / "d")]
    assert (
        names
        == [name for _, name in list_files(RemotePath("memory", "bucket", "d/"))]
        == ["a.csv", "b/x.csv", "b-1/x.csv"]
    )


def test_evaluation_of_a_remote_folder_is_that_of_the_local_folder(upload, monkeypatch):
    """Also as a stream, whose bits depend on the batches."""
    from orcu.evaluation import statistics

    local = upload({"d/a.parquet": table_of(300), "d/b.parquet": table_of(300, start=1000)})
    monkeypatch.setattr(statistics, "IN_MEMORY_CELLS", 100)
    evaluations = [
        orcu.evaluate(open_predictions(root, **COLUMNS), n_resamples=50).to_dict()
        for root in ("memory://bucket/d", local / "d")
    ]
    assert evaluations[0] == evaluations[1]


@pytest.fixture
def web_server(tmp_path):
    """Address of a server of files on the loopback interface."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_files_of_a_web_server_are_read_only(web_server, tmp_path):
    pytest.importorskip("aiohttp", reason="needs aiohttp")
    for name in ("p.parquet", "p.csv.gz"):
        write_table(table_of(30), tmp_path / name)
        assert len(Predictions.read(f"{web_server}/{name}?signature=secret", **COLUMNS)) == 30
    with pytest.raises(InputError, match=r"q\.csv: there is no such file\.$"):
        open_table(f"{web_server}/q.csv?signature=secret")
    result = run("decide", f"{web_server}/p.csv.gz", *OPTIONS, "-o", f"{web_server}/d.csv")
    assert_usage_error(result, "files are only read from a web server")


def test_split_divides_a_remote_table(upload):
    upload({"p.csv": table_of(40)})
    parts = ("--part", "memory://bucket/a.csv=0.5", "--part", "memory://bucket/b.csv=0.5")
    result = run("split", "memory://bucket/p.csv", *parts)
    assert result.returncode == 0, result.stderr
    assert sum(read_table(f"memory://bucket/{name}.csv").num_rows for name in "ab") == 40
