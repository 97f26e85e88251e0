"""Remote files on an S3 server on this machine.

The server is moto's, which needs an older python-dateutil than other packages and is no dependency of the tests:
``uv tool install 'moto[server]'`` puts ``moto_server`` on the PATH.
"""

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
from command import assert_usage_error, run
from prediction_tables import COLUMNS, OPTIONS, table_of
from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

import orcu
from orcu.errors import InputError
from orcu.evaluation import statistics
from orcu.io.locations import as_location
from orcu.io.reading import open_table, read_table
from orcu.io.writing import write_table
from orcu.launchers import LAUNCHERS
from orcu.predictions import Predictions, open_predictions

pytestmark = pytest.mark.slow
STARTING = 60  # seconds


@pytest.fixture(scope="module")
def server():
    """Address of an S3 server on the loopback interface."""
    program = shutil.which("moto_server")
    if program is None:
        pytest.skip("moto_server is not installed: uv tool install 'moto[server]'")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([program, "-H", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(STARTING * 10):
            try:
                urllib.request.urlopen(f"{address}/moto-api/", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        else:
            pytest.fail("moto_server did not start")
        if not completes_uploads(address):
            pytest.skip("this moto_server cannot complete an upload in parts: uv tool install 'moto[server]>=5.2.5'")
        yield address
    finally:
        process.terminate()
        process.wait()


def completes_uploads(address):
    """Whether the server accepts an upload by pyarrow; moto 5.2.1 fails when it completes one."""
    put(address, "probe")
    store = S3FileSystem(
        access_key="AKIATEST",
        secret_key="geheim99",
        region="us-east-1",
        endpoint_override=address,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=1),
    )
    try:
        with store.open_output_stream("probe/part") as stream:
            stream.write(b"x")
    except OSError:
        return False
    return True


@pytest.fixture
def bucket(server, monkeypatch, request):
    """An empty bucket; the address and credentials of the server are in the environment."""
    variables = {
        "AWS_ACCESS_KEY_ID": "AKIATEST",
        "AWS_SECRET_ACCESS_KEY": "geheim99",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    for name, value in (variables | {"AWS_ENDPOINT_URL": server, "AWS_EC2_METADATA_DISABLED": "true"}).items():
        monkeypatch.setenv(name, value)
    name = f"b{abs(hash(request.node.name))}"
    put(server, name)
    return f"s3://{name}"


def put(server, name, content=None):
    headers = {"Authorization": "AWS4-HMAC-SHA256 Credential=AKIATEST/20260101/us-east-1/s3/aws4_request"}
    request = urllib.request.Request(f"{server}/{name}", data=content or b"", method="PUT", headers=headers)
    urllib.request.urlopen(request, timeout=10).close()


def test_files_and_partitioned_folders_of_a_bucket_are_read(bucket, tmp_path):
    for name in ("p.parquet", "p.csv.gz", "d/site=a b/p.parquet", "d/site=c/p.parquet"):
        write_table(table_of(50, start=100 * len(name)), f"{bucket}/{name}")
    write_table(table_of(50, start=100 * len("p.parquet")), tmp_path / "p.parquet")
    expected = Predictions.read(tmp_path / "p.parquet", **COLUMNS)
    np.testing.assert_array_equal(Predictions.read(f"{bucket}/p.parquet", **COLUMNS).probs, expected.probs)
    assert len(Predictions.read(f"{bucket}/p.csv.gz", **COLUMNS)) == 50
    subgroups = Predictions.read(f"{bucket}/d/", **COLUMNS, subgroup="site").subgroup
    assert subgroups.tolist() == ["a b"] * 50 + ["c"] * 50


def test_commands_read_and_write_a_bucket(bucket):
    write_table(table_of(80), f"{bucket}/in/p.parquet")
    fit = run(
        "calibrate", "fit", f"{bucket}/in/p.parquet", *OPTIONS, "--calibrator", "temperature", "-o", f"{bucket}/c.json"
    )
    assert fit.returncode == 0, fit.stderr
    result = run(
        "calibrate", "apply", f"{bucket}/in/p.parquet", f"{bucket}/c.json", *OPTIONS, "-o", f"{bucket}/new.parquet"
    )
    assert result.returncode == 0, result.stderr
    outputs = ("--json", f"{bucket}/e.json", "--report", f"{bucket}/e.html", "--n-resamples", "30")
    result = run("evaluate", f"{bucket}/new.parquet", *outputs, "--jobs", "2")
    assert result.returncode == 0, result.stderr
    assert json.loads(as_location(f"{bucket}/e.json").read_text())["rows"] == 80
    assert as_location(f"{bucket}/e.html").read_text().rstrip().endswith("</html>")
    result = run("evaluate", f"{bucket}/in", *OPTIONS, "--n-resamples", "30", "--jobs", "2")
    assert "80 rows" in result.stdout, result.stderr


def test_report_has_the_type_of_a_page(bucket, server):
    write_table(table_of(80), f"{bucket}/p.parquet")
    result = run("evaluate", f"{bucket}/p.parquet", *OPTIONS, "--n-resamples", "30", "--report", f"{bucket}/e.html")
    assert result.returncode == 0, result.stderr
    filesystem, path = as_location(f"{bucket}/e.html")._connect()
    with filesystem.open_input_stream(path) as stream:
        assert stream.metadata()["Content-Type"] == b"text/html"


def test_credentials_and_server_may_be_in_the_uri(bucket, server, monkeypatch):
    write_table(table_of(20), f"{bucket}/p.parquet")
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    address = server.removeprefix("http://")
    uri = f"{bucket.replace('//', '//AKIATEST:geheim99@')}/p.parquet?scheme=http&endpoint_override={address}"
    assert open_table(uri).rows == 20
    result = run("evaluate", uri.replace("p.parquet", "q.parquet"), *OPTIONS)
    assert_usage_error(result, "q.parquet: there is no such file")
    assert "geheim99" not in result.stderr
    assert "AKIATEST" not in result.stderr


def test_missing_bucket_and_missing_file_are_told_apart(bucket, tmp_path):
    with pytest.raises(InputError, match=r"^s3://nowhere/p\.parquet: there is no bucket or container 'nowhere'\.$"):
        open_predictions("s3://nowhere/p.parquet", **COLUMNS)
    with pytest.raises(InputError, match=r"p\.parquet: there is no such file\.$"):
        open_predictions(f"{bucket}/p.parquet", **COLUMNS)
    write_table(table_of(20), tmp_path / "p.parquet")
    result = run("decide", tmp_path / "p.parquet", *OPTIONS, "-o", "s3://nowhere/d.csv")
    assert_usage_error(result, "there is no bucket or container 'nowhere'; create it first")
    with pytest.raises(InputError, match=r"^s3://nowhere/d\.csv: cannot be written \("):
        write_table(table_of(20), "s3://nowhere/d.csv")


def test_server_that_does_not_answer_is_an_error_without_credentials(bucket, monkeypatch):
    uri = bucket.replace("//", "//AKIATEST:geheim99@") + "/p.parquet?scheme=http&endpoint_override=127.0.0.1:9"
    with pytest.raises(InputError) as error:
        open_table(uri)
    assert "cannot be read" in str(error.value)
    assert "geheim99" not in str(error.value)


def test_failed_upload_leaves_the_object_unchanged(bucket, monkeypatch):
    write_table(table_of(20), f"{bucket}/p.csv")
    with pytest.raises(TypeError):
        write_table(None, f"{bucket}/p.csv")
    assert read_table(f"{bucket}/p.csv").num_rows == 20


def test_processes_read_the_files_of_a_bucket(bucket, monkeypatch):
    """As a stream, with a file system in each process: the same bits as with one process."""
    for name in "abc":
        write_table(table_of(200, start=1000 * ord(name)), f"{bucket}/d/{name}.parquet")
    monkeypatch.setattr(statistics, "IN_MEMORY_CELLS", 100)
    evaluations = []
    for jobs in (1, 2):
        with LAUNCHERS.create("local", jobs=jobs) as workers:
            source = open_predictions(f"{bucket}/d", **COLUMNS)
            evaluations.append(orcu.evaluate(source, n_resamples=50, launcher=workers).to_dict())
    assert evaluations[0] == evaluations[1]
