"""Tests of the progress lines of a fit."""

import numpy as np
import pytest

from orcu import OrdinalBoosting, OrdinalClassifier
from orcu.ensemble.progress import ProgressPrinter
from orcu.errors import InputError
from orcu.threads import available_cpus, cores, limit_threads, map_ordered

NAN = float("nan")


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self):
        return self.now


def printer(verbose, **options):
    lines, clock = [], Clock()
    return ProgressPrinter("fit", verbose, write=lines.append, clock=clock, **options), lines, clock


def run(progress, clock, steps, seconds, name="trees"):
    for done in range(1, steps + 1):
        clock.now += seconds
        progress(name, done, steps, NAN)


@pytest.mark.parametrize(("verbose", "expected"), [(-1, 0), (0, 0), (1, 1), (2, 5)])
def test_progress_printer_short_fit_prints_by_verbosity(verbose, expected):
    progress, lines, clock = printer(verbose)
    run(progress, clock, steps=5, seconds=0.5)
    assert len(lines) == expected


def test_progress_printer_long_fit_announces_its_time_once_after_the_first_fold():
    progress, lines, clock = printer(0)
    run(progress, clock, steps=5, seconds=0.1, name="linear")
    run(progress, clock, steps=5, seconds=60)
    assert lines == ["[fit] trees needs about 4 minutes more (step 1 of 5 is done)."]
    silent, lines, clock = printer(-1)
    run(silent, clock, steps=5, seconds=60)
    assert lines == []


def test_progress_printer_slow_first_epoch_is_not_taken_for_the_others():
    progress, lines, clock = printer(0)
    clock.now = 30.0
    run(progress, clock, steps=50, seconds=0.1)
    assert lines == []


def test_progress_printer_time_limit_bounds_the_expected_time():
    progress, lines, clock = printer(0, time_limit=50.0)
    run(progress, clock, steps=5, seconds=9)
    assert lines == []


def test_progress_printer_verbose_prints_at_most_one_line_in_five_seconds():
    progress, lines, clock = printer(1)
    run(progress, clock, steps=50, seconds=1.0)
    assert len(lines) == 10
    assert lines[-1] == "[fit] trees: step 50 of 50, 50 s"


@pytest.mark.parametrize(
    "model",
    [
        OrdinalClassifier(estimators="linear", cv=2),
        OrdinalClassifier("ce", cv=1, epochs=2, hidden_layer_sizes=(4,)),
        OrdinalBoosting("ce", cv=2, n_estimators=2, num_leaves=4),
    ],
    ids=["ensemble", "network", "boosting"],
)
def test_fit_verbose_prints_lines_on_stderr_and_is_silent_by_default(model, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model.set_params(random_state=0, calibrator=None, verbose=-1).fit(X, y)
    silent = model.predict_proba(X)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
    model.set_params(verbose=2, n_jobs=1).fit(X, y)
    assert f"[{type(model).__name__}] " in capsys.readouterr().err
    np.testing.assert_allclose(model.predict_proba(X), silent, atol=1e-6)


@pytest.mark.parametrize(("name", "value"), [("n_jobs", 0), ("n_jobs", 1.5), ("verbose", "yes"), ("verbose", -2)])
def test_fit_invalid_n_jobs_or_verbose_raises(name, value):
    with pytest.raises(InputError, match=f"^{name}: expected"):
        OrdinalBoosting(**{name: value}).fit(np.zeros((10, 1)), np.arange(10) % 2)


def test_fit_n_jobs_limits_the_threads_of_base_learners(monkeypatch):
    seen = []
    monkeypatch.setattr(OrdinalBoosting, "_config", lambda self: seen.append(cores()) or StoppedError.stop())
    for n_jobs in (1, 3):
        with pytest.raises(StoppedError):
            OrdinalBoosting("ce", cv=2, n_jobs=n_jobs).fit(np.arange(20.0)[:, None] % 7, np.arange(20) % 2)
    assert seen == [1, 3]


class StoppedError(Exception):
    """Ends a fit before the training."""

    @classmethod
    def stop(cls):
        raise cls


def test_limit_threads_holds_in_the_threads_of_map_ordered_and_ends_afterwards():
    before = cores()
    with limit_threads(before + 2):
        assert list(map_ordered(lambda _: cores(), range(4), threads=2)) == [before + 2] * 4
    assert cores() == before
    with limit_threads(-1):
        assert cores() == available_cpus()
