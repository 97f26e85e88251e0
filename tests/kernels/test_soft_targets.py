"""Soft targets and their distances."""

import numpy as np
import pytest
from scipy import stats

from orcu.errors import InputError
from orcu.kernels.soft_targets import BETA_PARAMETERS, distances, distributions, log_targets


def test_distances_registered_names():
    assert distances.names() == ["absolute", "exponential", "huber", "power", "squared"]
    assert distributions.names() == ["beta", "binomial", "poisson", "triangular"]


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


@pytest.mark.parametrize("name", distributions.names())
@pytest.mark.parametrize("num_classes", [2, 3, 5, 9, 10, 13, 14, 100])
def test_distributions_are_unimodal_with_the_label_as_the_mode(name, num_classes):
    targets = distributions.create(name, num_classes=num_classes)
    np.testing.assert_allclose(targets.sum(axis=1), 1, rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.exp(log_targets(num_classes, name)), targets, rtol=1e-12)
    steps = np.diff(targets, axis=1)
    rising = np.arange(num_classes - 1) < np.arange(num_classes)[:, None]
    assert (np.where(rising, steps, -steps) >= 0).all()
    assert (np.where(rising, steps, -steps)[range(num_classes - 1), range(num_classes - 1)] > 0).all()  # no tie at y
    if name != "poisson":
        np.testing.assert_allclose(targets, targets[::-1, ::-1], rtol=1e-9, atol=1e-300)


def test_binomial_and_poisson_targets_equal_scipy():
    k = np.arange(7)
    for y in range(7):
        expected = stats.binom.pmf(k, 6, 0.1 + 0.8 * y / 6)
        np.testing.assert_allclose(distributions.create("binomial", num_classes=7)[y], expected, rtol=1e-12)
        expected = stats.poisson.pmf(k, y + 0.5) / stats.poisson.cdf(6, y + 0.5)
        np.testing.assert_allclose(distributions.create("poisson", num_classes=7)[y], expected, rtol=1e-12)


def test_beta_targets_equal_scipy_and_the_rule_approximates_the_published_parameters(monkeypatch):
    for num_classes, parameters in BETA_PARAMETERS.items():
        published, edges = distributions.create("beta", num_classes=num_classes), np.linspace(0, 1, num_classes + 1)
        for y, (a, b) in enumerate(parameters):
            np.testing.assert_allclose(published[y], np.diff(stats.beta.cdf(edges, a, b)), atol=1e-12)
        with monkeypatch.context() as patch:
            patch.delitem(BETA_PARAMETERS, num_classes)
            rule = distributions.create("beta", num_classes=num_classes)
        assert np.abs(rule - published).max() < 0.1


def test_triangular_targets_have_the_mass_alpha_in_each_adjacent_class():
    targets = distributions.create("triangular", num_classes=6, alpha=0.12)
    for y in range(1, 5):
        np.testing.assert_allclose(targets[y, y - 1 : y + 2], [0.12, 0.76, 0.12], rtol=1e-12)
        assert np.count_nonzero(targets[y]) == 3
    expected = stats.triang(c=0.0, loc=0.0, scale=1 / (1 - np.sqrt(targets[0, 1])))  # right triangle, peak at 0
    np.testing.assert_allclose(targets[0], np.diff(expected.cdf(np.arange(7))), atol=1e-12)


def test_power_targets_equal_absolute_and_squared():
    for p, name in ((1.0, "absolute"), (2.0, "squared")):
        np.testing.assert_allclose(log_targets(6, {"name": "power", "p": p}), log_targets(6, name), rtol=1e-12)
    half = log_targets(6, {"name": "power", "tau": 2.0})
    np.testing.assert_allclose(np.diff(half[0]), -0.5, rtol=1e-12)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (lambda c: np.eye(c + 1), r"expected a table of shape \(4, 4\), got \(5, 5\)"),
        (lambda c: 2 * np.eye(c), r"targets of label 0 are \[2.0, 0.0, 0.0, 0.0\], expected .* sum to 1"),
        (lambda c: np.eye(c) * 2 - 1 / c, "targets of label 0"),
    ],
)
def test_log_targets_of_a_registered_distribution_that_is_none_raises(table, message):
    distributions.register("example", source=test_power_targets_equal_absolute_and_squared)(
        lambda num_classes: table(num_classes)
    )
    try:
        with pytest.raises(InputError, match=f"^distribution 'example': .*{message}"):
            log_targets(4, "example")
    finally:
        distributions._components.pop("example")


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
        ((5, {"name": "huber", "d": 5}), "distance 'huber' 'd'"),
        ((5, "binomal"), "distance 'binomal'.*'binomial'"),
        ((5, {"name": "binomial", "num_classes": 3}), "distance 'binomial' 'num_classes'"),
        ((5, {"name": "power", "p": -1.0}), "^p: .* -1.0"),
        ((5, {"name": "triangular", "alpha": 0.5}), "^alpha: .*below 0.5"),
    ],
)
def test_log_targets_invalid_argument_raises(arguments, message):
    with pytest.raises(InputError, match=message):
        log_targets(*arguments)
