"""The equilibrium compared with gradient descent on logits, and its properties at extreme scales."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orcu import geometry
from orcu.errors import InputError
from orcu.kernels.soft_targets import distances
from orcu.losses import ORCULoss
from orcu.theory import equilibrium

SCALES = [0.01, 0.05, 0.3, 1.0, 3.0, 10.0, 100.0]


def descend(num_classes, weights, scale, distance):
    """The minimiser of the average loss over labels, by L-BFGS on the logits."""
    loss = ORCULoss(num_classes, scale=scale, distance=distance, reduction="none")
    z = torch.zeros(num_classes, dtype=torch.float64, requires_grad=True)
    w = torch.as_tensor(weights, dtype=torch.float64)
    labels = torch.arange(num_classes)
    optimizer = torch.optim.LBFGS(
        [z], max_iter=3000, tolerance_grad=1e-12, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )

    def closure():
        optimizer.zero_grad()
        value = (w * loss(z.expand(num_classes, num_classes), labels)).sum()
        value.backward()
        return value

    optimizer.step(closure)
    return z.detach().softmax(0).numpy()


def test_equilibrium_of_known_cases():
    center = equilibrium(5, 2, 3.0)
    np.testing.assert_allclose(center.probs, [0, 0.078, 0.844, 0.078, 0], atol=5e-4)
    np.testing.assert_allclose(center.anchor, [0.0103, 0.2076, 0.5642, 0.2076, 0.0103], atol=5e-5)
    edge = equilibrium(8, 0, 3.0)
    # stationarity forces |r| >= 1/(s A), which is 8.8e20 at the far end
    assert 8.7e20 < -edge.gaps[-1] < 8.9e20
    np.testing.assert_allclose(-equilibrium(5, 0, 3.0).gaps[1:], [25.1, 3.74e3, 4.11e6], rtol=2e-3)


@pytest.mark.parametrize("distance", distances.names())
@pytest.mark.parametrize("scale", [0.3, 3.0])
@pytest.mark.parametrize("label", [0, 1, 2])
def test_equilibrium_equals_gradient_descent(distance, scale, label):
    probs = equilibrium(4, label, scale, distance).probs
    np.testing.assert_allclose(probs, descend(4, np.eye(4)[label], scale, distance), atol=1e-5)


@pytest.mark.parametrize("scale", [0.05, 0.5, 3.0, 10.0])
@pytest.mark.parametrize(
    "pi", [[0.1, 0.6, 0.3], [0.5, 0.0, 0.5], [0.0, 0.7, 0.3], [0.25, 0.25, 0.25, 0.25], [0.9, 0.0, 0.0, 0.0, 0.1]]
)
def test_equilibrium_of_a_label_distribution_equals_gradient_descent(pi, scale):
    solution = equilibrium(len(pi), scale=scale, label_distribution=pi)
    np.testing.assert_allclose(solution.probs, descend(len(pi), pi, scale, "squared"), atol=1e-6)
    assert solution.residual < 1e-12


@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.sampled_from([1e-3, 0.05, 1.0, 10.0, 1e5, 1e8]))
@settings(deadline=None, max_examples=60)
def test_equilibrium_of_a_label_distribution_converges_at_all_scales(seed, num_classes, scale):
    rng = np.random.default_rng(seed)
    pi = rng.dirichlet(np.full(num_classes, 0.3))
    assert equilibrium(num_classes, scale=scale, label_distribution=pi).residual < 1e-10


@pytest.mark.parametrize(
    ("pi", "scale"),
    [
        ([0.04, 0.593, 0.342, 0.025], 1e5),
        ([0.021, 0.316, 0.262, 0.06, 0.027, 0.207, 0.107], 1e5),
        ([0.0, 0.0, 0.97, 0.03], 1e8),
        ([0.0, 0.066, 0.0, 0.011, 0.868, 0.0, 0.055], 1e8),
    ],
)
def test_equilibrium_of_a_label_distribution_converges_by_continuation(pi, scale):
    pi = np.array(pi) / sum(pi)
    assert equilibrium(len(pi), scale=scale, label_distribution=pi).residual < 1e-10


def test_equilibrium_of_a_one_hot_distribution_equals_label():
    by_label = equilibrium(5, [0, 3], 3.0)
    by_distribution = equilibrium(5, scale=3.0, label_distribution=np.eye(5)[[0, 3]])
    np.testing.assert_allclose(by_distribution.probs, by_label.probs, atol=1e-12)
    np.testing.assert_allclose(by_distribution.log_gaps, by_label.log_gaps, rtol=1e-12)


def test_equilibrium_labels_and_scales_broadcast():
    labels = np.arange(5)
    grid = equilibrium(5, labels[:, None], SCALES)
    assert grid.probs.shape == (5, 7, 5)
    assert grid.gaps.shape == (5, 7, 4)
    assert grid.residual.shape == (5, 7)
    for i, j in [(0, 0), (2, 4), (4, 6)]:
        single = equilibrium(5, labels[i], SCALES[j])
        np.testing.assert_allclose(grid.probs[i, j], single.probs, atol=1e-14)
        assert single.probs.shape == (5,)


@given(
    st.integers(2, 30), st.integers(0, 29), st.floats(-8, 8).map(lambda e: 10.0**e), st.sampled_from(distances.names())
)
@settings(deadline=None, max_examples=200)
def test_equilibrium_is_strictly_unimodal_at_all_scales(num_classes, label, scale, distance):
    label %= num_classes
    solution = equilibrium(num_classes, label, scale, distance)
    assert solution.residual < 1e-9
    assert (solution.gaps < 0).all()
    for logarithm in (solution.log_gaps, solution.log_shift, solution.log_anchor, solution.log_tails):
        assert np.isfinite(logarithm).all()
    assert solution.probs.argmax() == label
    assert solution.probs.sum() == pytest.approx(1)
    np.testing.assert_allclose(
        geometry.cumulative(solution.probs) - geometry.cumulative(solution.anchor),
        geometry.gap_signs(num_classes)[label] * solution.shift,
        atol=1e-8,
    )


@pytest.mark.parametrize("distance", distances.names())
@pytest.mark.parametrize("scale", [1e-300, 1e-8, 0.05, 3.0, 1e4, 1e30, 1e300])
def test_equilibrium_at_extreme_scales(distance, scale):
    solution = equilibrium(8, [0, 3, 7], scale, distance)
    assert (solution.gaps < 0).all()
    assert np.isfinite(solution.log_gaps).all()


@pytest.mark.parametrize("distance", distances.names())
def test_equilibrium_of_a_thousand_classes(distance):
    solution = equilibrium(1000, [0, 1, 500, 999], 3.0, distance)
    assert np.isfinite(solution.log_anchor).all()
    assert np.isfinite(solution.log_gaps).all()
    assert (solution.gaps < 0).all()
    assert solution.residual.max() < 1e-12


def test_equilibrium_reports_overflow_and_underflow():
    remote = equilibrium(8, 0, 3.0, "exponential")
    assert remote.overflowed
    assert remote.underflowed
    assert remote.anchor[-1] == 0
    assert np.isinf(remote.gaps[-1])
    near = equilibrium(3, 1, 3.0)
    assert not near.overflowed
    assert not near.underflowed


def test_equilibrium_at_large_scales_approaches_the_anchor():
    scales = np.array([1e3, 1e6, 1e9])
    solution = equilibrium(5, 2, scales)
    distance = np.abs(solution.probs - solution.anchor).sum(axis=1)
    assert (distance[1:] < distance[:-1] / 100).all()


def test_equilibrium_emits_no_warnings(recwarn):
    equilibrium(100, [0, 50], [[1e-100], [3.0], [1e100]], "exponential")
    assert len(recwarn) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 1, "label": 0}, "^num_classes:"),
        ({"num_classes": 5, "label": 5}, "^label: row 0 has label 5, expected 0..4"),
        ({"num_classes": 5, "label": 1.5}, "^label: .* float64"),
        ({"num_classes": 5}, "^label: .*label_distribution"),
        ({"num_classes": 2, "label": 0, "label_distribution": [0.5, 0.5]}, "^label: .*label_distribution"),
        ({"num_classes": 5, "label": 0, "scale": 0.0}, r"^scale: .*\[0.0\]"),
        ({"num_classes": 5, "label": 0, "scale": [1.0, np.nan]}, r"^scale: .*\[nan\]"),
        ({"num_classes": 5, "label": 0, "scale": "abc"}, "^scale: .*'abc'"),
        ({"num_classes": 5, "label": 0, "scale": []}, r"^scale: .*\[\]"),
        ({"num_classes": 5, "label": [0, 1], "scale": [1.0, 2.0, 3.0]}, r"^scale: .*\(3,\).*label.*\(2,\)"),
        ({"num_classes": 5, "label": 0, "distance": "cubic"}, "distance 'cubic'"),
        ({"num_classes": 5, "label": 0, "distance": "triangular"}, "^distance: .*class 2 is 0.*'squared'"),
        ({"num_classes": 3, "label_distribution": [0.5, 0.5]}, r"^label_distribution: .* 3 classes.*\(2,\)"),
        ({"num_classes": 2, "label_distribution": [0.5, 0.6]}, "^label_distribution: row 0 sums to 1.1"),
    ],
)
def test_equilibrium_invalid_argument_raises(arguments, message):
    with pytest.raises(InputError, match=message):
        equilibrium(**arguments)
