import numpy as np
import pytest

from orcu.errors import InputError
from orcu.kernels.soft_targets import distances, log_targets


def test_the_four_distances():
    assert distances.names() == ["absolute", "exponential", "huber", "squared"]


def test_squared_targets_are_the_papers(loss_vectors):
    table = np.exp(log_targets(5))
    for label, target in zip(loss_vectors["labels"], loss_vectors["soft_targets_squared"], strict=True):
        np.testing.assert_allclose(table[label], target, rtol=1e-12)


@pytest.mark.parametrize("distance", distances.names())
@pytest.mark.parametrize("num_classes", [2, 5, 8, 1000])
def test_targets_are_distributions_with_full_support(distance, num_classes):
    logs = log_targets(num_classes, distance)
    assert np.isfinite(logs).all()  # full support, also where the target underflows
    np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(logs, logs[::-1, ::-1], rtol=1e-12)  # reversing the order changes nothing
    near = np.abs(np.subtract.outer(range(num_classes), range(num_classes))) < 700
    for row in range(num_classes):
        falling = logs[row, row:][near[row, row:]]
        assert (np.diff(falling) < 0).all()  # strictly unimodal around the label


def test_huber_takes_its_delta_from_a_table():
    d = np.arange(4.0)
    assert distances.get("huber")(d).tolist() == [0.0, 0.5, 1.5, 2.5]
    assert distances.get("huber")(d, delta=2.0).tolist() == [0.0, 0.5, 2.0, 4.0]
    wide = log_targets(4, {"name": "huber", "delta": 1e9})
    narrow = log_targets(4, "huber")
    assert wide[0, 3] < narrow[0, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1,), "num_classes: expected a whole number of at least 2, got 1"),
        ((5, "sqared"), "Did you mean 'squared'"),
        ((5, {"name": "huber", "detla": 1.0}), "Did you mean 'delta'"),
        ((5, {"name": "huber", "delta": 0.0}), "delta: expected a finite number above 0"),
        ((5, {"delta": 1.0}), "needs a 'name'"),
        ((5, {"name": "huber", "d": 5}), "option of a distance 'd'"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        log_targets(*arguments)
