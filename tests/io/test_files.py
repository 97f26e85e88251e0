"""Atomic writes, JSON files, and locks between processes."""

import subprocess
import sys

import pytest

from orcu.errors import InputError
from orcu.io.files import atomic_write, file_lock, read_json, write_json

HOLD_LOCK = """
import sys
from orcu.io.files import file_lock
with file_lock(sys.argv[1]):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def lock_holder(tmp_path):
    """A process that holds tmp_path/.lock until its input ends, or it is killed."""
    command = [sys.executable, "-c", HOLD_LOCK, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_file_lock_excludes_other_processes_until_they_are_killed(lock_holder, tmp_path):
    with pytest.raises(InputError, match=rf"{tmp_path.name}/\.lock: another process"), file_lock(tmp_path / ".lock"):
        pass
    lock_holder.kill()
    lock_holder.wait()
    with file_lock(tmp_path / ".lock"):
        pass


def test_file_lock_waits_until_the_lock_is_released(lock_holder, tmp_path):
    lock_holder.stdin.close()
    with file_lock(tmp_path / ".lock", wait=True):
        pass
    assert lock_holder.wait() == 0


def test_file_lock_is_released_after_an_error(tmp_path):
    with pytest.raises(KeyError), file_lock(tmp_path / ".lock"):
        raise KeyError
    with file_lock(tmp_path / ".lock"):
        pass


def test_atomic_write_failure_leaves_the_file_unchanged(tmp_path):
    write_json(tmp_path / "a.json", [1])
    with pytest.raises(KeyError), atomic_write(tmp_path / "a.json") as temporary:
        raise KeyError(temporary.write_text("half"))
    assert read_json(tmp_path / "a.json", list) == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_read_json_errors_name_the_file(tmp_path):
    def fail(content):
        raise InputError(f"unexpected {content}.")

    for text, message in (("{", r"a.json: .*JSON \("), ("7", "a.json: unexpected 7.")):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(InputError, match=message):
            read_json(tmp_path / "a.json", fail)
    with pytest.raises(InputError, match="b.json: there is no such file"):
        read_json(tmp_path / "b.json", fail)
