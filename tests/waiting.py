"""Waiting for what other processes and threads do."""

import time


def eventually(happened):
    """Whether it happens within two minutes: a bound on a hang, not on the machine."""
    end = time.monotonic() + 120
    while not happened() and time.monotonic() < end:
        time.sleep(0.02)
    return happened()
