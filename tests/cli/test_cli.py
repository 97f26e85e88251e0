"""The command line in general: help, versions, errors, exit codes; ``orcu theory`` and ``orcu losses``."""

import re
import warnings

import pytest
from command import assert_usage_error, plain, run

import orcu
from orcu import cli, losses
from orcu.cli.console import EXIT_CODES
from orcu.losses.base import LOSSES, REGULARIZERS


def test_theory_prints_checks_and_sketch():
    result = run("theory", "--num-classes", "5", "--true-class", "2", "--scale", "3")
    assert result.returncode == 0, result.stderr
    assert "30 passed, 0 failed, 0 skipped" in result.stdout
    assert result.stdout.count("✓") == 30
    assert "→ 2" in result.stdout
    assert "0.8441 ████" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_theory_names_skipped_checks():
    result = run("theory", "--num-classes", "9", "--true-class", "0", "--distance", "exponential")
    assert result.returncode == 0
    assert re.search(r"2 skipped \(Eq\. 31: .*; Eq\. 35: .*\)", plain(result.stdout))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["theory", "--true-class", "9"], ["label 9", "0..4"]),
        (["theory", "--num-classes", "1"], ["num_classes:", "got 1"]),
        (["theory", "--scale", "0"], ["scale:", "0.0"]),
        (["theory", "--distance", "sqared"], ["'sqared'", "Did you mean 'squared'?"]),
        (["theory", "--classes", "5"], ["--classes", "--num-classes"]),
        (["losses", "show", "ocru"], ["unknown loss 'ocru'", "Did you mean 'orcu'?"]),
        (["nonsense"], ["nonsense"]),
    ],
)
def test_usage_errors_exit_with_2(arguments, words):
    result = run(*arguments)
    assert_usage_error(result, *words)
    assert result.stdout == ""


def test_losses_lists_all_losses():
    result = run("losses")
    assert result.returncode == 0, result.stderr
    listed = {line.split()[0] for line in result.stdout.splitlines() if line and not line.startswith(" ")}
    assert {*losses.names(), *losses.regularizers.names()} <= listed
    for text in ("Polat et al., 2022", "alpha=5, margin=0", "calibration", "exponential, huber"):
        assert text in result.stdout


@pytest.mark.parametrize("name", [*losses.names(), *losses.regularizers.names()])
def test_losses_show_prints_title_formula_and_paper(name):
    result = run("losses", "show", name, width=200)
    assert result.returncode == 0, result.stderr
    for registry in (LOSSES, REGULARIZERS):
        if name in registry.names():
            card = registry.get(name).card
            for text in (card.title, card.formula, card.paper):
                assert text in result.stdout


def test_version_and_help():
    assert run("--version").stdout == f"orcu {orcu.__version__}\n"
    result = run("--help")
    assert all(name in result.stdout for name in ("evaluate", "theory", "losses"))
    assert EXIT_CODES in plain(result.stdout)


def test_warnings_are_lines_on_stderr(monkeypatch):
    def warn_twice(**_):
        for _ in range(2):
            warnings.warn("the log is [old]", UserWarning, stacklevel=1)
        warnings.warn("for developers", PendingDeprecationWarning, stacklevel=1)

    monkeypatch.setattr(cli, "app", warn_twice)
    result = run("evaluate")
    assert result.returncode == 0
    assert result.stderr.splitlines()[0] == "warning: the log is [old]"
    assert result.stderr.count("the log is") == 1
