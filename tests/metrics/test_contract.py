"""Tests that all registered metrics fulfil the contract of `orcu.testing`."""

import pytest

from orcu import metrics
from orcu.metrics.base import METRICS
from orcu.testing import metric_checks

RULES = {f"{name}: {rule}": check for name in METRICS.names() for rule, check in metric_checks(name).items()}


@pytest.mark.parametrize("check", RULES.values(), ids=RULES)
def test_metric_fulfils_the_contract(check):
    check()


@pytest.mark.parametrize("name", METRICS.names())
def test_metric_has_a_public_function_of_its_name(name):
    assert name in metrics.__all__
