"""`check_metric`: broken rules and invalid arguments."""

import numpy as np
import pytest

from orcu import metrics
from orcu.errors import InputError, UnknownNameError
from orcu.metrics.base import METRICS, metric
from orcu.metrics.sums import decision_sums
from orcu.testing import ContractError, check_metric, metric_checks


@pytest.fixture
def registered():
    """Registers a formula as 'example' during a test."""

    def add(formula, name="example", title="Example", family="decision", better="lower", **options):
        return metric(name, title, family=family, better=better, **options)(formula)

    yield add
    for name in ("example", "an example"):
        METRICS._components.pop(name, None)


def far(sums):
    """Share of decisions that are two or more classes off."""
    k = np.arange(sums.confusion.shape[-1])
    return (sums.confusion * (abs(k - k[:, None]) > 1)).sum((-2, -1)) / sums.total


def far_decisions(probs=None, y=None, *, pred=None, sample_weight=None):
    return float(far(decision_sums(probs, y, pred=pred, sample_weight=sample_weight)))


def test_check_metric_valid_metric_passes(registered):
    check_metric(registered(far), far_decisions)
    check_metric("example")


def unweighted(probs=None, y=None, *, sample_weight=None):
    return far_decisions(probs, y)


@pytest.mark.parametrize(
    ("formula", "function", "rule", "details"),
    [
        (far, unweighted, "value of the function", "weighted rows is "),
        (lambda sums: sums.confusion[0, 0] / sums.total, None, "batched resamples", "from the end"),
        (lambda sums: far(sums) * sums.total, None, "weights equal repetition", "8 times .*sums.total"),
        (lambda sums: sums.total * np.nan, None, "finite interval", "3 of 3 numbers"),
        (lambda sums: 1 - far(sums), None, "direction", "1 for perfect .*'lower'"),
        (lambda sums: [][0], None, "degenerate data", "raises IndexError"),
    ],
)
def test_metric_checks_name_the_broken_rule(formula, function, rule, details, registered):
    with pytest.raises(ContractError, match=rf"^metric 'example': {rule}: .*{details}"):
        metric_checks(registered(formula), function)[rule]()


@pytest.mark.parametrize(
    ("options", "details"),
    [
        ({"title": " "}, "title is empty"),
        ({"convention": "with {n} bins"}, "with {n} bins"),
        ({"name": "an example"}, "'an example'"),
    ],
)
def test_metric_checks_invalid_description(options, details, registered):
    with pytest.raises(ContractError, match=f": description: .*{details}"):
        metric_checks(registered(far, **options))["description"]()


def test_metric_unknown_family_or_direction_raises(registered):
    with pytest.raises(UnknownNameError, match="'example' 'decisions'.*'decision'"):
        registered(far, family="decisions")
    with pytest.raises(UnknownNameError, match="'example' 'low'.*'lower'"):
        registered(far, better="low")


def test_metric_checks_random_metric_fails(registered):
    rng = np.random.default_rng(0)
    noisy = registered(lambda sums: far(sums) + rng.random())
    with pytest.raises(ContractError, match=": exact streaming: "):
        metric_checks(noisy)["exact streaming"]()


def test_check_metric_invalid_argument_raises():
    with pytest.raises(InputError, match="^metric: .* rps.*function="):
        check_metric(metrics.rps)
    with pytest.raises(InputError, match="^metric: .* int"):
        check_metric(3)
    with pytest.raises(InputError, match="^function: .* str"):
        check_metric("rps", "rps")
    with pytest.raises(UnknownNameError, match="'sec'.*'sce'"):
        check_metric("sec")
