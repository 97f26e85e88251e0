"""Downloads: only on demand, checked, whole or not at all."""

import hashlib
import http.server
import threading
import zipfile

import pytest

from orcu.data.download import Download
from orcu.errors import InputError


@pytest.fixture
def server(tmp_path):
    """A web server on this machine for the files of a folder."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def test_a_file_is_fetched_checked_and_kept(server, tmp_path):
    folder, address = server
    (folder / "data.bin").write_bytes(b"hello" * 1000)
    md5 = hashlib.md5(b"hello" * 1000).hexdigest()
    steps = []
    one = Download(f"{address}/data.bin", "data.bin", md5=md5)
    path = one.fetch(tmp_path / "root", lambda done, total: steps.append((done, total)))
    assert path.read_bytes() == b"hello" * 1000
    assert steps == [(5000, 5000)]
    (folder / "data.bin").unlink()
    one.fetch(tmp_path / "root")  # what is there and right is kept


def test_a_wrong_or_absent_file_leaves_nothing(server, tmp_path):
    folder, address = server
    (folder / "data.bin").write_bytes(b"other")
    with pytest.raises(InputError, match="does not have the published MD5"):
        Download(f"{address}/data.bin", "data.bin", md5="0" * 32).fetch(tmp_path / "root")
    with pytest.raises(InputError, match=r"cannot be fetched .*Fetch it by hand and put it at"):
        Download(f"{address}/absent", "absent").fetch(tmp_path / "root")
    assert list((tmp_path / "root").iterdir()) == []


def test_archives_are_unpacked_inside_the_root(server, tmp_path):
    folder, address = server
    with zipfile.ZipFile(folder / "good.zip", "w") as archive:
        archive.writestr("inside/a.txt", "a")
    Download(f"{address}/good.zip", "good.zip", unpack=True).fetch(tmp_path / "root")
    assert (tmp_path / "root" / "inside" / "a.txt").read_text() == "a"
    with zipfile.ZipFile(folder / "bad.zip", "w") as archive:
        archive.writestr("../outside.txt", "a")
    with pytest.raises(InputError, match="outside the root"):
        Download(f"{address}/bad.zip", "bad.zip", unpack=True).fetch(tmp_path / "root")
    assert not (tmp_path / "outside.txt").exists()
