"""Store: locks and atomic publishing of runs."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waiting import eventually

from orcu.bench import store as store_module
from orcu.bench.store import LostLockError, Store


def expire(lock):
    """Make a lock older than the timeout."""
    past = time.time() - 2 * store_module.LOCK_TIMEOUT
    os.utime(lock, (past, past))


def publish(claim, text="x"):
    files = claim.work / "finished"
    files.mkdir(exist_ok=True)
    (files / "a.txt").write_text(text)
    claim.publish(files, {"value": text}, 1.0)


def test_claim_is_exclusive_and_publishes_the_run(tmp_path):
    store = Store(tmp_path)
    claim = store.claim("r")
    assert store.claim("r") is None
    assert store.is_locked("r")
    with claim:
        publish(claim)
    assert store.is_finished("r")
    assert store.result("r") == {"value": "x"}
    assert store.claim("r") is None
    assert sorted(path.name for path in store.runs.iterdir()) == ["r"]
    assert store.versions("r").keys() >= {"python", "orcu", "numpy"}


def test_claim_of_an_expired_lock_takes_over_the_checkpoints(tmp_path):
    store = Store(tmp_path)
    first = store.claim("r")
    (first.work / "checkpoint").write_text("epoch 3")
    expire(first.lock)
    second = store.claim("r")
    assert (second.work / "checkpoint").read_text() == "epoch 3"
    with pytest.raises((LostLockError, FileNotFoundError)):
        publish(first)
    with second:
        publish(second, "second")
    assert store.result("r") == {"value": "second"}


def test_claim_renews_its_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "HEARTBEAT", 0.1)
    store = Store(tmp_path)
    with store.claim("r") as claim:
        expire(claim.lock)
        assert eventually(lambda: store.is_locked("r"))
        assert store.claim("r") is None
        assert claim.is_owner()
    assert store.claim("r") is not None


def test_is_locked_old_time_from_the_cache_of_a_network_file_system_is_not_believed(tmp_path, monkeypatch):
    store = Store(tmp_path)
    claim = store.claim("r")
    past = time.time() - 2 * store_module.LOCK_TIMEOUT
    stat = Path.stat

    def cached_stat(path, **options):
        result = stat(path, **options)
        return os.stat_result((*result[:8], past, past)) if path.suffix == ".lock" else result

    monkeypatch.setattr(Path, "stat", cached_stat)
    assert claim.lock.stat().st_mtime == past
    assert store.is_locked("r")
    assert store.claim("r") is None
    assert claim.is_owner()


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
        claim.publish(files, {"value": "slow"}, 1.0)
        print("published", flush=True)
    except (module.LostLockError, FileNotFoundError):
        print("discarded", flush=True)
"""


@pytest.mark.parametrize("signal_number", [signal.SIGSTOP, signal.SIGKILL])
def test_claim_of_a_stopped_or_killed_process_is_taken_over(tmp_path, signal_number):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    slow = subprocess.Popen([sys.executable, "-c", CODE, str(tmp_path)], **pipes)
    assert slow.stdout.readline() == "claimed\n"
    os.kill(slow.pid, signal_number)
    if signal_number == signal.SIGSTOP:
        os.waitpid(slow.pid, os.WUNTRACED)  # until it is stopped
    else:
        slow.wait(timeout=120)
    store = Store(tmp_path)
    expire(store.runs / "r.lock")
    with store.claim("r") as claim:
        publish(claim, "quick")
    if signal_number == signal.SIGSTOP:
        os.kill(slow.pid, signal.SIGCONT)
        assert slow.communicate("\n", timeout=120)[0] == "discarded\n"
    else:
        slow.communicate(timeout=120)
    assert store.result("r") == {"value": "quick"}


def test_publish_after_losing_the_lock_raises(tmp_path):
    store = Store(tmp_path)
    claim = store.claim("r")
    claim.lock.write_text("someone else")
    with pytest.raises(LostLockError, match="run r"):
        publish(claim)
    assert not store.is_finished("r")


def test_is_finished_copy_without_features_is_complete_and_a_truncated_one_is_not(tmp_path):
    store = Store(tmp_path)
    with store.claim("r") as claim:
        files = claim.work / "finished"
        files.mkdir()
        for name in ("features.safetensors", "test.parquet"):
            (files / name).write_text("content")
        claim.publish(files, {}, 1.0)
    features = store.runs / "r" / "features.safetensors"
    features.write_text("cont")
    assert not store.is_finished("r")
    features.unlink()
    assert store.is_finished("r")
    (store.runs / "r" / "test.parquet").unlink()
    assert not store.is_finished("r")


def test_claim_of_a_result_without_a_required_file_replaces_it_on_publish(tmp_path):
    store = Store(tmp_path)
    with store.claim("r") as claim:
        publish(claim, "first")
    store.save_calibrated("r", "temperature", {"test": {}})
    assert store.claim("r", ["b.txt"]) is not None  # abandoned
    assert store.result("r") == {"value": "first"}
    expire(store.runs / "r.lock")
    with store.claim("r", ["b.txt"]) as claim:
        files = claim.work / "finished"
        files.mkdir()
        (files / "b.txt").write_text("second")
        claim.publish(files, {"value": "second"}, 1.0)
    assert store.is_finished("r", ["b.txt"])
    assert store.result("r") == {"value": "second"}
    assert store.calibrated("r", "temperature") is None
    assert sorted(path.name for path in store.runs.iterdir()) == ["r"]


def test_claim_restores_a_result_that_was_set_aside_by_a_stopped_process(tmp_path):
    store = Store(tmp_path)
    with store.claim("r") as claim:
        publish(claim, "first")
    (store.runs / "r").rename(store.runs / "r.replaced.1")
    assert not store.is_finished("r")
    assert store.claim("r") is None
    assert store.result("r") == {"value": "first"}
