"""Progress lines of a fit, and the announcement of a long one."""

import math
import sys
import time
from collections.abc import Callable

LINE_INTERVAL = 5.0  # least seconds between two progress lines
LONG_FIT = 60.0  # seconds from which the expected time is announced
MANY_STEPS = 10  # learners with more steps, such as epochs, are timed without the first, which includes loading torch


class ProgressPrinter:
    """Prints the progress of base learners on stderr; an instance is a `orcu.ensemble.learner.Progress`.

    The expected time of a base learner is the mean time of its finished steps (folds or epochs) times the steps that
    are left. It is an upper limit for networks, which may stop early. The time of later base learners is not known.

    Args:
        title: start of each line, such as the name of the estimator.
        verbose: -1 prints nothing; 0 announces a fit of more than a minute, once; 1 adds a line every 5 seconds and
            for each finished base learner; 2 prints every step.
        time_limit: seconds after which the fit ends anyway, or ``None``.
        write: prints a line.
        clock: current time in seconds.

    Example:
        >>> printer = ProgressPrinter("fit", 2, write=print, clock=lambda: 0.0)
        >>> printer("linear", 1, 5, float("nan"))
        [fit] linear: step 1 of 5, 0 s
    """

    def __init__(
        self,
        title: str,
        verbose: int,
        *,
        time_limit: float | None = None,
        write: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.title, self.verbose, self.clock = title, verbose, clock
        self.write = write or (lambda line: print(line, file=sys.stderr, flush=True))
        self._start = self._last_line = self._last_step = self._learner_start = self._first_step = clock()
        self._learner = ""
        self._end = math.inf if time_limit is None else self._start + time_limit
        self._announced = False

    def __call__(self, name: str, done: int, total: int, rps: float) -> None:
        """Report that a base learner has done a step."""
        now = self.clock()
        if name != self._learner:
            self._learner, self._learner_start = name, self._last_step
            self._first_step = now
        self._last_step = now
        if total <= MANY_STEPS:
            per_step = (now - self._learner_start) / done
        else:
            per_step = (now - self._first_step) / max(1, done - 1)
        left = min(per_step * (total - done), self._end - now)
        if self.verbose >= 0 and not self._announced and now + left - self._start > LONG_FIT:
            self._announced = True
            self._print(f"{name} needs about {duration(left)} more (step {done} of {total} is done).", now)
        elif self.verbose >= 2 or (self.verbose == 1 and (done == total or now - self._last_line >= LINE_INTERVAL)):
            score = "" if math.isnan(rps) else f", validation RPS {rps:.4f}"
            self._print(f"{name}: step {done} of {total}, {now - self._start:.0f} s{score}", now)

    def _print(self, line: str, now: float) -> None:
        self.write(f"[{self.title}] {line}")
        self._last_line = now


def duration(seconds: float) -> str:
    """A time in words.

    Example:
        >>> duration(45), duration(300), duration(2 * 3600)
        ('45 seconds', '5 minutes', '2.0 hours')
    """
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
