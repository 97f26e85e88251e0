"""Downloads: verified, atomic, and unpacked inside the root folder."""

import hashlib
import http.server
import threading
import zipfile

import pytest

from orcu.data.download import Download
from orcu.errors import InputError


@pytest.fixture
def server(tmp_path):
    """A local web server for the files of a folder: the folder and the address."""
    folder = tmp_path / "served"
    folder.mkdir()

    class QuietHandler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), QuietHandler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def test_download_valid_file_is_not_fetched_again(server, tmp_path):
    folder, address = server
    (folder / "data.bin").write_bytes(b"hello" * 1000)
    md5 = hashlib.md5(b"hello" * 1000).hexdigest()
    steps = []
    download = Download(f"{address}/data.bin", "data.bin", md5=md5)
    path = download.fetch(tmp_path / "root", lambda done, total: steps.append((done, total)))
    assert path.read_bytes() == b"hello" * 1000
    assert steps == [(5000, 5000)]
    (folder / "data.bin").unlink()
    download.fetch(tmp_path / "root")


def test_download_wrong_checksum_or_missing_file_leaves_no_file(server, tmp_path):
    folder, address = server
    (folder / "data.bin").write_bytes(b"other")
    with pytest.raises(InputError, match=rf"{address}/data.bin: .*MD5.*{'0' * 32}"):
        Download(f"{address}/data.bin", "data.bin", md5="0" * 32).fetch(tmp_path / "root")
    with pytest.raises(InputError, match=rf"{address}/absent: .*{tmp_path / 'root' / 'absent'}"):
        Download(f"{address}/absent", "absent").fetch(tmp_path / "root")
    assert list((tmp_path / "root").iterdir()) == []


def test_download_archive_is_unpacked_inside_the_root_only(server, tmp_path):
    folder, address = server
    with zipfile.ZipFile(folder / "good.zip", "w") as archive:
        archive.writestr("inside/a.txt", "a")
    Download(f"{address}/good.zip", "good.zip", unpack=True).fetch(tmp_path / "root")
    assert (tmp_path / "root" / "inside" / "a.txt").read_text() == "a"
    with zipfile.ZipFile(folder / "bad.zip", "w") as archive:
        archive.writestr("../outside.txt", "a")
    with pytest.raises(InputError, match=r"bad.zip: .*'../outside.txt'"):
        Download(f"{address}/bad.zip", "bad.zip", unpack=True).fetch(tmp_path / "root")
    assert not (tmp_path / "outside.txt").exists()
