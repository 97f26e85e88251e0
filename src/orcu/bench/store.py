"""Benchmark results on disk: a folder for each finished run, lock files and error logs.

    RESULTS/runs/ID/             predictions, curves and result.json of a run; shared by all specs
    RESULTS/calibrated/ID/*.json test metrics of the run after a calibrator
    RESULTS/SPEC/                list of the spec's runs, and its report

Several processes may work on one folder. The owner of a run's lock executes it and renews the lock regularly. A lock
without renewal for a minute is taken over; a process that has lost its lock discards its result.
"""

import json
import os
import shutil
import threading
import time
import uuid
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from orcu.bench.versions import package_versions
from orcu.errors import InputError
from orcu.io.files import atomic_write

HEARTBEAT, LOCK_TIMEOUT = 10.0, 60.0  # seconds
RESULT, TIMINGS = "result.json", "timings.json"
FEATURES = "features.safetensors"  # nearly all bytes of a run of images; only t-SNE needs them
_RENAMED_METRICS = {"within_one": "off_by_one_accuracy"}  # names in results of version 0.2


class LostLockError(RuntimeError):
    """Another process has taken over the run."""


class Store:
    """A results folder.

    Args:
        folder: folder of the results of all specs; created by the first run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"

    def create(self) -> None:
        """Create the folder.

        Raises:
            InputError: if the folder cannot be created.
        """
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{self.folder}: the results folder cannot be created ({error.strerror}); choose another (--results)."
            ) from None

    def is_finished(self, run: str, required: Collection[str] = ()) -> bool:
        """Whether the run has a result with the required files, and all its files have their original sizes.

        A copy of the run may leave out the features.
        """
        folder = self.runs / run
        if not isinstance(_read_json(folder / RESULT), dict):
            return False
        files = {path.name: path.stat().st_size for path in folder.iterdir()}
        sizes = {
            name: size for name, size in _timings(folder).get("sizes", {}).items() if name in files or name != FEATURES
        }
        return files.keys() >= set(required) and sizes.items() <= files.items()

    def is_damaged(self, run: str) -> bool:
        """Whether the run has an incomplete result, for example after a full disk; it is executed again."""
        return (self.runs / run).exists() and not self.is_finished(run)

    def result(self, run: str) -> dict[str, Any]:
        """The result of a finished run."""
        result: dict[str, Any] = json.loads((self.runs / run / RESULT).read_text())
        return _with_new_metric_names(result)

    def calibrated(self, run: str, key: str) -> dict[str, Any] | None:
        """Stored metrics of a run after a calibrator, or ``None``."""
        content = _read_json(self.folder / "calibrated" / run / f"{key}.json")
        return _with_new_metric_names(content) if isinstance(content, dict) else None

    def save_calibrated(self, run: str, key: str, content: dict[str, Any]) -> None:
        """Store the metrics of a run after a calibrator; a read-only folder is ignored."""
        folder = self.folder / "calibrated" / run
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with atomic_write(folder / f"{key}.json") as temporary:
                temporary.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")

    def seconds(self, run: str) -> float | None:
        """Duration of a finished run, or ``None`` if it is not recorded."""
        seconds = _timings(self.runs / run).get("seconds")
        return float(seconds) if isinstance(seconds, (int, float)) else None

    def versions(self, run: str) -> dict[str, str]:
        """Versions of the packages that computed a finished run; empty if they are not recorded (before 0.3)."""
        versions: dict[str, str] = _timings(self.runs / run).get("versions", {})
        return versions

    def size(self, run: str) -> int:
        """Bytes of a finished run's files."""
        return sum(path.stat().st_size for path in (self.runs / run).iterdir())

    def failure(self, run: str) -> str | None:
        """Error message of the last attempt, or ``None``."""
        path = self.runs / f"{run}.error"
        return path.read_text() if path.exists() else None

    def record_failure(self, run: str, error: str) -> None:
        """Record an error message; the next attempt removes it."""
        with atomic_write(self.runs / f"{run}.error") as temporary:
            temporary.write_text(error)

    def is_locked(self, run: str) -> bool:
        """Whether a process is executing the run now."""
        return _lock_age(self.runs / f"{run}.lock") < LOCK_TIMEOUT

    def claim(self, run: str, required: Collection[str] = ()) -> "Claim | None":
        """Lock a run, or ``None`` if it is finished with the required files or locked by another process."""
        if self.is_finished(run, required):
            return None
        self.create()
        claim = Claim(self, run, required)
        return claim if claim.acquire() else None


class Claim:
    """Ownership of a run; as a context manager it renews the lock in the background.

    A finished run without a required file keeps its result until the new one is published.

    Attributes:
        work: folder for checkpoints; it contains the checkpoints of an earlier owner, if there are any.
    """

    def __init__(self, store: Store, run: str, required: Collection[str] = ()) -> None:
        self.store, self.run, self.required, self.owner = store, run, required, uuid.uuid4().hex
        self.folder = store.runs / run
        self.lock = store.runs / f"{run}.lock"
        self.work = store.runs / f"{run}.work.{self.owner}"
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self) -> bool:
        """Create the lock; an expired lock is renamed first, which succeeds in one process only."""
        if _lock_age(self.lock) >= LOCK_TIMEOUT and self.lock.exists():
            stale = self.lock.with_name(f"{self.lock.name}.{self.owner}")
            try:
                self.lock.rename(stale)
            except FileNotFoundError:
                return False
            if _lock_age(stale) < LOCK_TIMEOUT:  # a third process has created it in the meantime
                stale.rename(self.lock)
                return False
            stale.unlink()
        try:
            with self.lock.open("x") as file:
                file.write(self.owner)
        except FileExistsError:
            return False
        self._restore()
        if self.store.is_finished(self.run, self.required):  # finished in the meantime
            self.lock.unlink()
            return False
        if self.store.is_damaged(self.run):  # keep it for inspection
            self.folder.rename(self.store.runs / f"{self.run}.damaged.{self.owner}")
        leftovers = sorted(self.store.runs.glob(f"{self.run}.work.*"))
        if leftovers:
            leftovers[0].rename(self.work)  # an earlier owner that still runs fails at its next write
        for folder in leftovers[1:]:
            shutil.rmtree(folder, ignore_errors=True)
        self.work.mkdir(exist_ok=True)
        (self.store.runs / f"{self.run}.error").unlink(missing_ok=True)
        return True

    def _restore(self) -> None:
        """Restore the result that a process had set aside when it was stopped during `publish`."""
        for replaced in self.store.runs.glob(f"{self.run}.replaced.*"):
            if self.folder.exists():
                shutil.rmtree(replaced, ignore_errors=True)
            else:
                replaced.rename(self.folder)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self.is_owner():
            self.lock.unlink(missing_ok=True)

    def _renew(self) -> None:
        while not self._stop.wait(HEARTBEAT):
            if not self.is_owner():
                return
            os.utime(self.lock)

    def is_owner(self) -> bool:
        """Whether the lock still belongs to this claim."""
        try:
            return self.lock.read_text() == self.owner
        except FileNotFoundError:
            return False

    def publish(self, files: Path, result: dict[str, Any], seconds: float) -> None:
        """Move a folder of files with the result to the finished runs, in one atomic step.

        An earlier result without a required file is set aside until then; its metrics after calibrators are deleted.

        Raises:
            LostLockError: if another process has taken over the run.
        """
        (files / RESULT).write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
        sizes = {path.name: path.stat().st_size for path in sorted(files.iterdir()) if path.name != TIMINGS}
        timings = {"seconds": seconds, "finished": time.time(), "sizes": sizes, "versions": package_versions()}
        (files / TIMINGS).write_text(json.dumps(timings) + "\n")
        if not self.is_owner() or not files.exists():
            raise LostLockError(f"run {self.run}: another process has taken it over.")
        replaced = self.store.runs / f"{self.run}.replaced.{self.owner}"
        if self.folder.exists() and not self.store.is_finished(self.run, self.required):
            self.folder.rename(replaced)
        try:
            files.rename(self.folder)
        except OSError:  # another owner has published first
            self._restore()
            raise LostLockError(f"run {self.run}: another process has finished it.") from None
        if replaced.exists():
            shutil.rmtree(self.store.folder / "calibrated" / self.run, ignore_errors=True)
            shutil.rmtree(replaced, ignore_errors=True)
        shutil.rmtree(self.work, ignore_errors=True)


def _lock_age(lock: Path) -> float:
    """Seconds since the lock was renewed; infinite without a lock or with a time far in the future.

    A time in the future comes from a clock that was set back. The file is opened because a network file system may
    answer `stat` with a time that is a minute old, but asks the server when a file is opened.
    """
    try:
        with lock.open("rb") as file:
            age = time.time() - os.fstat(file.fileno()).st_mtime
    except FileNotFoundError:
        return float("inf")
    return age if age > -LOCK_TIMEOUT else float("inf")


def _read_json(path: Path) -> Any:
    """Content of a JSON file, or ``None`` if it is missing or incomplete."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _with_new_metric_names(content: dict[str, Any]) -> dict[str, Any]:
    metrics = {
        split: {_RENAMED_METRICS.get(name, name): value for name, value in content[split].items()}
        for split in ("test", "validation")
        if split in content
    }
    return content | metrics


def _timings(folder: Path) -> dict[str, Any]:
    timings = _read_json(folder / TIMINGS)
    return timings if isinstance(timings, dict) else {}
