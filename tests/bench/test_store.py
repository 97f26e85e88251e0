"""The store: one run, one doer, whatever happens to the processes."""

import os
import signal
import subprocess
import sys
import time

import pytest

from orcu.bench import store as store_module
from orcu.bench.store import LostLockError, Store


@pytest.fixture
def quick(monkeypatch):
    """Locks that go stale in a second."""
    monkeypatch.setattr(store_module, "HEARTBEAT", 0.1)
    monkeypatch.setattr(store_module, "SILENCE", 1.0)


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


def test_what_an_owner_left_is_handed_on(tmp_path, quick):
    store = Store(tmp_path)
    first = store.claim("r")
    (first.work / "checkpoint").write_text("epoch 3")
    time.sleep(1.2)  # it is silent
    second = store.claim("r")
    assert (second.work / "checkpoint").read_text() == "epoch 3"
    with pytest.raises((LostLockError, FileNotFoundError)):
        finish(first)
    with second:
        finish(second, "second")
    assert store.result("r") == {"value": "second"}


def test_a_beating_heart_keeps_the_lock(tmp_path, quick):
    store = Store(tmp_path)
    with store.claim("r") as claim:
        time.sleep(1.5)
        assert store.claim("r") is None
        assert claim.is_mine()
    assert store.claim("r") is not None


CODE = """
import sys, time, pathlib
from orcu.bench import store as module
module.HEARTBEAT, module.SILENCE = 0.1, 1.0
store = module.Store(pathlib.Path(sys.argv[1]))
claim = store.claim("r")
with claim:
    print("claimed", flush=True)
    time.sleep(float(sys.argv[2]))
    try:
        files = claim.work / "finished"
        files.mkdir()
        claim.finish(files, {"value": "slow"}, 1.0)
        print("published", flush=True)
    except (module.LostLockError, FileNotFoundError):
        print("discarded", flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_a_stopped_or_killed_owner_loses_its_run(tmp_path, quick, how):
    slow = subprocess.Popen([sys.executable, "-c", CODE, str(tmp_path), "2.5"], stdout=subprocess.PIPE, text=True)
    assert slow.stdout.readline() == "claimed\n"
    os.kill(slow.pid, how)
    time.sleep(1.5)
    store = Store(tmp_path)
    with store.claim("r") as claim:
        finish(claim, "quick")
    if how == signal.SIGSTOP:
        os.kill(slow.pid, signal.SIGCONT)
        assert slow.communicate(timeout=30)[0] == "discarded\n"
    else:
        slow.communicate(timeout=30)
    assert store.result("r") == {"value": "quick"}


def test_an_owner_whose_lock_names_another_publishes_nothing(tmp_path):
    store = Store(tmp_path)
    claim = store.claim("r")
    claim.lock.write_text("someone else")
    with pytest.raises(LostLockError, match="taken over"):
        finish(claim)
    assert not store.is_finished("r")
