"""Tests of the display of a training without a terminal."""

from orcu.cli import progress
from orcu.cli.progress import TrainingDisplay

NAN = float("nan")


def test_training_display_without_a_terminal_prints_a_line_every_few_seconds(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    display = TrainingDisplay()
    for step in range(1, 41):  # 40 steps of a second
        now[0] += 1.0
        display.member("ce", step, 40, NAN)
    display.close()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "ensemble, ce: epoch 5/40 at most"
    assert len(lines) == 8


def test_training_display_without_a_terminal_short_training_prints_no_progress(capsys):
    display = TrainingDisplay()
    display.member("ce trees", 1, 5, NAN)
    display.features(1, 2)
    display.close()
    assert capsys.readouterr().err == ""
