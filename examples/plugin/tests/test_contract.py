"""What this package adds keeps the contracts of orcu."""

import pytest
from orcu_example_plugin.metrics import far_off

from orcu.testing import check_calibrator, check_dataset, check_metric, loss_checks

CHECKS = loss_checks("expected_distance", num_classes=4, power=2.0)


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_the_loss(check):  # a test for each rule; check_loss("expected_distance") is all of them in one line
    check()


def test_the_metric():
    check_metric("far_off", far_off)


def test_the_calibrator():
    check_calibrator("smoothing")


def test_the_data_set():
    check_dataset("example_exams")
