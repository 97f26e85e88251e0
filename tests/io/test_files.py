"""Files that are whole or not there, and locks between processes."""

import subprocess
import sys

import pytest

from orcu.errors import InputError
from orcu.io.files import atomic_write, locked, read_json, write_json

HOLD = """
import sys
from orcu.io.files import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds tmp_path/.lock until its input ends, or it is killed."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_lock_is_held_against_other_processes_and_free_when_they_are_killed(holder, tmp_path):
    with (
        pytest.raises(InputError, match=f"{tmp_path.name}: another process is writing here; wait for it"),
        locked(tmp_path / ".lock"),
    ):
        pass
    holder.kill()
    holder.wait()
    with locked(tmp_path / ".lock"):
        pass


def test_who_waits_gets_the_lock_when_it_is_free(holder, tmp_path):
    holder.stdin.close()
    with locked(tmp_path / ".lock", wait=True):
        pass
    assert holder.wait() == 0


def test_a_lock_is_free_after_an_error(tmp_path):
    with pytest.raises(KeyError), locked(tmp_path / ".lock"):
        raise KeyError
    with locked(tmp_path / ".lock"):
        pass


def test_a_block_that_fails_leaves_the_file_as_it_was(tmp_path):
    write_json(tmp_path / "a.json", [1])
    with pytest.raises(KeyError), atomic_write(tmp_path / "a.json") as temporary:
        raise KeyError(temporary.write_text("half"))
    assert read_json(tmp_path / "a.json", list) == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_faults_of_a_json_file_name_it(tmp_path):
    def refuse(content):
        raise InputError(f"nobody wants {content}.")

    for text, message in (("{", r"a.json: not a JSON file \("), ("7", "a.json: nobody wants 7.")):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(InputError, match=message):
            read_json(tmp_path / "a.json", refuse)
    with pytest.raises(InputError, match="b.json: there is no such file"):
        read_json(tmp_path / "b.json", refuse)
