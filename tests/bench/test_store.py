"""The store: one run, one doer, whatever happens to the processes."""

import os
import signal
import subprocess
import sys
import time

import pytest
from waiting import eventually

from orcu.bench import store as store_module
from orcu.bench.store import LostLockError, Store


def silence(lock):
    """The lock of an owner that has been silent for too long."""
    past = time.time() - 2 * store_module.SILENCE
    os.utime(lock, (past, past))


def finish(claim, text="x"):
    files = claim.work / "finished"
    files.mkdir(exist_ok=True)
    (files / "a.txt").write_text(text)
    claim.finish(files, {"value": text}, 1.0)


def test_one_process_claims_a_run_and_publishes_it_whole(tmp_path):
    store = Store(tmp_path)
    claim = store.claim("r")
    assert store.claim("r") is None
    assert store.is_held("r")
    with claim:
        finish(claim)
    assert store.is_finished("r")
    assert store.result("r") == {"value": "x"}
    assert store.claim("r") is None
    assert sorted(path.name for path in store.runs.iterdir()) == ["r"]


def test_what_an_owner_left_is_handed_on(tmp_path):
    store = Store(tmp_path)
    first = store.claim("r")
    (first.work / "checkpoint").write_text("epoch 3")
    silence(first.lock)
    second = store.claim("r")
    assert (second.work / "checkpoint").read_text() == "epoch 3"
    with pytest.raises((LostLockError, FileNotFoundError)):
        finish(first)
    with second:
        finish(second, "second")
    assert store.result("r") == {"value": "second"}


def test_a_beating_heart_keeps_the_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "HEARTBEAT", 0.1)
    store = Store(tmp_path)
    with store.claim("r") as claim:
        silence(claim.lock)
        assert eventually(lambda: store.is_held("r"))
        assert store.claim("r") is None
        assert claim.is_mine()
    assert store.claim("r") is not None


CODE = """
import sys, pathlib
from orcu.bench import store as module
module.HEARTBEAT = 0.1
store = module.Store(pathlib.Path(sys.argv[1]))
claim = store.claim("r")
with claim:
    print("claimed", flush=True)
    sys.stdin.readline()
    try:
        files = claim.work / "finished"
        files.mkdir()
        claim.finish(files, {"value": "slow"}, 1.0)
        print("published", flush=True)
    except (module.LostLockError, FileNotFoundError):
        print("discarded", flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_a_stopped_or_killed_owner_loses_its_run(tmp_path, how):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    slow = subprocess.Popen([sys.executable, "-c", CODE, str(tmp_path)], **pipes)
    assert slow.stdout.readline() == "claimed\n"
    os.kill(slow.pid, how)
    if how == signal.SIGSTOP:
        os.waitpid(slow.pid, os.WUNTRACED)  # until it stands still
    else:
        slow.wait(timeout=120)
    store = Store(tmp_path)
    silence(store.runs / "r.lock")
    with store.claim("r") as claim:
        finish(claim, "quick")
    if how == signal.SIGSTOP:
        os.kill(slow.pid, signal.SIGCONT)
        assert slow.communicate("\n", timeout=120)[0] == "discarded\n"
    else:
        slow.communicate(timeout=120)
    assert store.result("r") == {"value": "quick"}


def test_an_owner_whose_lock_names_another_publishes_nothing(tmp_path):
    store = Store(tmp_path)
    claim = store.claim("r")
    claim.lock.write_text("someone else")
    with pytest.raises(LostLockError, match="taken over"):
        finish(claim)
    assert not store.is_finished("r")
