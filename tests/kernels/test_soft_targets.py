"""Soft targets and their distances."""

import numpy as np
import pytest

from orcu.errors import InputError
from orcu.kernels.soft_targets import distances, log_targets


def test_distances_registered_names():
    assert distances.names() == ["absolute", "exponential", "huber", "squared"]


def test_log_targets_squared_equals_reference(loss_vectors):
    table = np.exp(log_targets(5))
    for label, target in zip(loss_vectors["labels"], loss_vectors["soft_targets_squared"], strict=True):
        np.testing.assert_allclose(table[label], target, rtol=1e-12)


@pytest.mark.parametrize("distance", distances.names())
@pytest.mark.parametrize("num_classes", [2, 5, 8, 1000])
def test_log_targets_are_distributions_with_full_support(distance, num_classes):
    logs = log_targets(num_classes, distance)
    assert np.isfinite(logs).all()  # full support, also where the target underflows
    np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(logs, logs[::-1, ::-1], rtol=1e-12)  # reversing the order changes nothing
    in_range = np.abs(np.subtract.outer(range(num_classes), range(num_classes))) < 700
    for row in range(num_classes):
        upper = logs[row, row:][in_range[row, row:]]
        assert (np.diff(upper) < 0).all()  # strictly unimodal around the label


def test_log_targets_huber_with_delta():
    d = np.arange(4.0)
    assert distances.get("huber")(d).tolist() == [0.0, 0.5, 1.5, 2.5]
    assert distances.get("huber")(d, delta=2.0).tolist() == [0.0, 0.5, 2.0, 4.0]
    wide = log_targets(4, {"name": "huber", "delta": 1e9})
    narrow = log_targets(4, "huber")
    assert wide[0, 3] < narrow[0, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1,), "^num_classes: .* 1"),
        ((5, "sqared"), "'sqared'.*'squared'"),
        ((5, {"name": "huber", "detla": 1.0}), "'detla'.*'delta'"),
        ((5, {"name": "huber", "delta": 0.0}), "^delta: .* 0.0"),
        ((5, {"delta": 1.0}), "^distance: .*'name'"),
        ((5, {"name": "huber", "d": 5}), "distance 'd'"),
    ],
)
def test_log_targets_invalid_argument_raises(arguments, message):
    with pytest.raises(InputError, match=message):
        log_targets(*arguments)
