"""The command line as a user meets it: output, exit codes, one-line errors."""

import pytest
from command import run

import orcu
from orcu import losses
from orcu.losses.base import LOSSES, REGULARIZERS


def test_theory_prints_the_checks_and_the_sketch():
    result = run("theory", "--classes", "5", "--label", "2", "--scale", "3")
    assert result.returncode == 0, result.stderr
    assert "27 hold, 0 fail, 0 not tried" in result.stdout
    assert result.stdout.count("✓") == 27
    assert "→ 2" in result.stdout
    assert "0.8441 ████" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_theory_says_what_it_could_not_try():
    result = run("theory", "--classes", "9", "--label", "0", "--distance", "exponential")
    assert result.returncode == 0
    words = " ".join(result.stdout.split())
    assert "2 not tried (Eq. 31: a_min too small for any float R; Eq. 35: tail too thin for any float s)" in words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["theory", "--label", "9"], "label: row 0 has label 9, expected 0..4 for 5 classes."),
        (["theory", "--classes", "1"], "num_classes: expected a whole number of at least 2, got 1."),
        (["theory", "--scale", "0"], "scale: expected finite numbers above 0, got 0.0."),
        (["theory", "--distance", "sqared"], "Did you mean 'squared'?"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_2(arguments, message):
    result = run(*arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1


def test_losses_lists_everything():
    result = run("losses")
    assert result.returncode == 0, result.stderr
    listed = {line.split()[0] for line in result.stdout.splitlines() if line and not line.startswith(" ")}
    assert {*losses.names(), *losses.regularizers.names()} <= listed
    for text in ("Polat et al., 2022", "alpha=5, margin=0", "calibration", "exponential, huber"):
        assert text in result.stdout


@pytest.mark.parametrize("name", [*losses.names(), *losses.regularizers.names()])
def test_losses_show_prints_the_card(name):
    result = run("losses", "show", name, width=200)
    assert result.returncode == 0, result.stderr
    for registry in (LOSSES, REGULARIZERS):
        if name in registry.names():
            card = registry.get(name).card
            for text in (card.title, card.formula, card.paper):
                assert text in result.stdout


def test_losses_show_offers_the_nearest():
    result = run("losses", "show", "ocru")
    assert result.returncode == 2
    assert "unknown loss 'ocru'. Did you mean 'orcu'?" in result.stderr


def test_version_and_help():
    assert run("--version").stdout == f"orcu {orcu.__version__}\n"
    assert all(word in run("--help").stdout for word in ("theory", "losses"))
    assert run("nonsense").returncode == 2
