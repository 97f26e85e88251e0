"""The results on disk: a folder per finished run, locks for those under way, a note of each failure.

    RESULTS/runs/ID/             a run: predictions, curves, result.json; shared by all specs that ask for it
    RESULTS/calibrated/ID/*.json what its test rows are worth after a calibrator
    RESULTS/SPEC/                what belongs to one spec: the list of its runs, its report

Any number of processes may work on one folder. Who holds a run's lock does it; a lock whose owner has
been silent for a minute is taken over, and an owner that has lost its lock throws its result away.
"""

import json
import os
import shutil
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from orcu.errors import InputError
from orcu.io.files import atomic_write

HEARTBEAT, SILENCE = 10.0, 60.0  # seconds
RESULT, TIMINGS = "result.json", "timings.json"


class LostLockError(RuntimeError):
    """Another process has taken the run over."""


class Store:
    """A folder of results.

    Args:
        folder: of the results of all specs; made with the first run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"

    def make(self) -> None:
        """Make the folder.

        Raises:
            InputError: if it cannot be made.
        """
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{self.folder}: results cannot be kept there ({error.strerror}); choose another folder (--results)."
            ) from None

    def is_finished(self, run: str) -> bool:
        """Whether the run's result is there, with all its files as they were written."""
        folder = self.runs / run
        if not isinstance(_read(folder / RESULT), dict):
            return False
        sizes = _timings(folder).get("sizes", {})  # results of 0.1.0 have none
        return all(_size(folder / name) == size for name, size in sizes.items())

    def is_damaged(self, run: str) -> bool:
        """Whether a result is there but not whole, as a full disk or a broken copy leaves it; it is done again."""
        return (self.runs / run).exists() and not self.is_finished(run)

    def result(self, run: str) -> dict[str, Any]:
        """The result of a finished run."""
        result: dict[str, Any] = json.loads((self.runs / run / RESULT).read_text())
        return result

    def calibrated(self, run: str, key: str) -> dict[str, Any] | None:
        """What is kept of a calibrator on a run, by the calibrator's key."""
        kept = _read(self.folder / "calibrated" / run / f"{key}.json")
        return kept if isinstance(kept, dict) else None

    def keep_calibrated(self, run: str, key: str, values: dict[str, Any]) -> None:
        """Keep what a calibrator gives on a run; where the folder cannot be written to, it is computed again."""
        folder = self.folder / "calibrated" / run
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with atomic_write(folder / f"{key}.json") as temporary:
                temporary.write_text(json.dumps(values, indent=1, sort_keys=True) + "\n")

    def seconds(self, run: str) -> float | None:
        """How long a finished run took, if it is known."""
        seconds = _timings(self.runs / run).get("seconds")
        return float(seconds) if isinstance(seconds, (int, float)) else None

    def failure(self, run: str) -> str | None:
        """The error of the last attempt, if it failed."""
        path = self.runs / f"{run}.error"
        return path.read_text() if path.exists() else None

    def fail(self, run: str, error: str) -> None:
        """Note an error; the next attempt removes it."""
        with atomic_write(self.runs / f"{run}.error") as temporary:
            temporary.write_text(error)

    def is_held(self, run: str) -> bool:
        """Whether some process is at it now."""
        return _age(self.runs / f"{run}.lock") < SILENCE

    def claim(self, run: str) -> "Claim | None":
        """The right to do a run, or ``None`` if it is finished or another process is at it."""
        if self.is_finished(run):
            return None
        self.make()
        claim = Claim(self, run)
        return claim if claim.take() else None


class Claim:
    """The right to do a run; a context that keeps the lock warm.

    ``work`` is a folder for checkpoints, with what an earlier owner has left in it.
    """

    def __init__(self, store: Store, run: str) -> None:
        self.store, self.run, self.owner = store, run, uuid.uuid4().hex
        self.lock = store.runs / f"{run}.lock"
        self.work = store.runs / f"{run}.work.{self.owner}"
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self) -> bool:
        """Make the lock; a silent owner's is moved out of the way first, which only one can do."""
        if _age(self.lock) >= SILENCE and self.lock.exists():
            stale = self.lock.with_name(f"{self.lock.name}.{self.owner}")
            try:
                self.lock.rename(stale)
            except FileNotFoundError:
                return False
            if _age(stale) < SILENCE:  # it was a third process's, made since we looked
                stale.rename(self.lock)
                return False
            stale.unlink()
        try:
            with self.lock.open("x") as file:
                file.write(self.owner)
        except FileExistsError:
            return False
        if self.store.is_finished(self.run):  # it was finished in between
            self.lock.unlink()
            return False
        if self.store.is_damaged(self.run):  # out of the way, for whoever wants to look at it
            (self.store.runs / self.run).rename(self.store.runs / f"{self.run}.damaged.{self.owner}")
        left = sorted(self.store.runs.glob(f"{self.run}.work.*"))
        if left:
            left[0].rename(self.work)  # a slower owner finds its folder gone, and stops
        for other in left[1:]:
            shutil.rmtree(other, ignore_errors=True)
        self.work.mkdir(exist_ok=True)
        (self.store.runs / f"{self.run}.error").unlink(missing_ok=True)
        return True

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self.is_mine():
            self.lock.unlink(missing_ok=True)

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT):
            if not self.is_mine():
                return
            os.utime(self.lock)

    def is_mine(self) -> bool:
        """Whether the lock still names this owner."""
        try:
            return self.lock.read_text() == self.owner
        except FileNotFoundError:
            return False

    def finish(self, files: Path, result: dict[str, Any], seconds: float) -> None:
        """Publish a folder of files with the result; at once, and only if the lock is still ours.

        Raises:
            LostLockError: if another process has taken the run over.
        """
        (files / RESULT).write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
        sizes = {path.name: path.stat().st_size for path in sorted(files.iterdir()) if path.name != TIMINGS}
        timings = {"seconds": seconds, "finished": time.time(), "sizes": sizes}
        (files / TIMINGS).write_text(json.dumps(timings) + "\n")
        if not self.is_mine() or not files.exists():
            raise LostLockError(f"{self.run}: taken over by another process; its result counts.")
        try:
            files.rename(self.store.runs / self.run)
        except OSError:  # another owner was quicker
            raise LostLockError(f"{self.run}: another process has finished it.") from None
        shutil.rmtree(self.work, ignore_errors=True)


def _age(lock: Path) -> float:
    """Seconds since the owner's last sign of life; endless if there is no lock, or one from the future.

    An owner sets its lock to the present every few seconds: one that lies ahead by more than its silence was left by a
    clock that has been set back.
    """
    try:
        age = time.time() - lock.stat().st_mtime
    except FileNotFoundError:
        return float("inf")
    return age if age > -SILENCE else float("inf")


def _read(path: Path) -> Any:
    """What a JSON file holds; ``None`` if it is not there or not whole."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _timings(folder: Path) -> dict[str, Any]:
    timings = _read(folder / TIMINGS)
    return timings if isinstance(timings, dict) else {}


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1
