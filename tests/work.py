"""Work for the processes that the launchers' tests start; a module of its own, so that they import little."""

import os
import signal
import time
from pathlib import Path


def seen_card(item):
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def dying(item, *, folder, always=False):
    """Kill the process at item 2, the first time or always."""
    mark = Path(folder) / "died"
    if item == 2 and (always or not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return item * 10


def sleeping(item, *, folder):
    """Note the process, then wait to be stopped."""
    (Path(folder) / f"{item}.{os.getpid()}").touch()
    time.sleep(600)
