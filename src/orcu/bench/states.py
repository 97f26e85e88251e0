"""Where a run stands, and how an attempt at it ends."""

from enum import StrEnum


class State(StrEnum):
    """Where a run stands."""

    FINISHED = "finished"
    RUNNING = "running"
    FAILED = "failed"
    WAITING = "waiting"
    NO_DATA = "no data"


class Outcome(StrEnum):
    """How an attempt at a run ends; it is skipped if it is finished, or under way elsewhere."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
