"""`check_metric` says which rule a wrong metric breaks, and refuses what is no metric."""

import numpy as np
import pytest

from orcu import metrics
from orcu.errors import InputError, UnknownNameError
from orcu.metrics.base import METRICS, metric
from orcu.metrics.sums import decision_sums
from orcu.testing import ContractError, check_metric, metric_checks


@pytest.fixture
def registered():
    """Files a formula as 'of_a_test' as long as the test runs."""

    def add(formula, name="of_a_test", title="Of a test", family="decision", better="lower", **options):
        return metric(name, title, family=family, better=better, **options)(formula)

    yield add
    for name in ("of_a_test", "of a test"):
        METRICS._things.pop(name, None)


def far(sums):
    """The share of decisions two classes off or more."""
    k = np.arange(sums.confusion.shape[-1])
    return (sums.confusion * (abs(k - k[:, None]) > 1)).sum((-2, -1)) / sums.total


def far_decisions(probs=None, y=None, *, pred=None, weight=None):
    return float(far(decision_sums(probs, y, pred, weight)))


def test_a_right_metric_keeps_every_rule(registered):
    check_metric(registered(far), far_decisions)
    check_metric("of_a_test")


def unweighted(probs=None, y=None, *, weight=None):
    return far_decisions(probs, y)


@pytest.mark.parametrize(
    ("formula", "function", "rule", "says"),
    [
        (far, unweighted, "its value is that of the function", "the metric of weighted rows is .*same formula"),
        (
            lambda sums: sums.confusion[0, 0] / sums.total,
            None,
            "several sums at once give the metric of each",
            "from the end",
        ),
        (
            lambda sums: far(sums) * sums.total,
            None,
            "weights count rows several times",
            "8 times the weight is .*sums.total",
        ),
        (
            lambda sums: sums.total * np.nan,
            None,
            "it is finite with a finite interval on ordinary rows",
            "3 of 3 numbers",
        ),
        (lambda sums: 1 - far(sums), None, "certain and right predictions are the best", r"it is 1 for them .*'lower'"),
        (lambda sums: [][0], None, "one row and missing classes raise nothing", "raises IndexError.*0 / 0 is"),
    ],
)
def test_a_wrong_metric_is_told_which_rule_it_breaks(formula, function, rule, says, registered):
    with pytest.raises(ContractError, match=rf"^metric 'of_a_test': {rule}: .*{says}"):
        metric_checks(registered(formula), function)[rule]()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"title": " "}, "its title is empty"),
        ({"convention": "with {n} bins"}, "brace that is not {bins}"),
        ({"name": "of a test"}, "its name is 'of a test', which gates such as 'sce>0.05' cannot name"),
    ],
)
def test_what_a_metric_says_of_itself_is_checked(options, says, registered):
    with pytest.raises(ContractError, match=f"it says what it is: .*{says}"):
        metric_checks(registered(far, **options))["it says what it is"]()


def test_families_and_directions_that_reports_do_not_know_are_refused(registered):
    with pytest.raises(UnknownNameError, match="family of the metric 'of_a_test' 'decisions'. Did you mean 'decision'"):
        registered(far, family="decisions")
    with pytest.raises(UnknownNameError, match="direction of the metric 'of_a_test' 'low'. Did you mean 'lower'"):
        registered(far, better="low")


def test_a_random_metric_is_told(registered):
    rng = np.random.default_rng(0)
    noisy = registered(lambda sums: far(sums) + rng.random())
    with pytest.raises(
        ContractError, match="order and split of the rows change no bit: the metric of merged tallies is"
    ):
        metric_checks(noisy)["order and split of the rows change no bit"]()


def test_what_is_no_metric_is_refused():
    with pytest.raises(
        InputError, match="metric: expected a registered name.* got rps. A plain function goes into func"
    ):
        check_metric(metrics.rps)
    with pytest.raises(InputError, match="got int"):
        check_metric(3)
    with pytest.raises(InputError, match="function: expected a function of probs, y and weight, got str"):
        check_metric("rps", "rps")
    with pytest.raises(UnknownNameError, match="unknown metric 'sec'. Did you mean 'sce'"):
        check_metric("sec")
