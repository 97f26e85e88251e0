"""One implementation for numpy and torch, checked against loops and against the paper's cases."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from orcu import geometry

rows = st.integers(2, 8).flatmap(
    lambda c: st.tuples(
        arrays(np.float64, c, elements=st.floats(-50, 50).map(lambda x: round(x, 3))), st.integers(0, c - 1)
    )
)


def loop_gaps(z, y):
    """Eq. 3 with 0-based classes."""
    return [z[k] - z[k + 1] if k < y else z[k + 1] - z[k] for k in range(len(z) - 1)]


def loop_unimodal(p):
    top = int(np.argmax(p))
    rising = all(p[k] <= p[k + 1] for k in range(top))
    falling = all(p[k] >= p[k + 1] for k in range(top, len(p) - 1))
    return rising and falling


@given(rows)
def test_directed_gaps_are_the_loop(case):
    z, y = case
    assert geometry.directed_gaps(z, np.array(y)).tolist() == pytest.approx(loop_gaps(z, y))


@given(rows)
def test_unimodality_is_the_loop(case):
    z, _ = case
    assert bool(geometry.is_unimodal(z)) == loop_unimodal(z)


@given(rows, st.floats(0.1, 10))
def test_numpy_and_torch_agree(case, scale):
    z, y = case[0][None], np.array([case[1]])
    tz, ty = torch.from_numpy(z), torch.from_numpy(y)
    r, tr = geometry.directed_gaps(z, y), geometry.directed_gaps(tz, ty)
    pairs = [
        (r, tr),
        (geometry.is_unimodal(z), geometry.is_unimodal(tz)),
        (geometry.is_feasible(z, y, scale=scale), geometry.is_feasible(tz, ty, scale=scale)),
        (geometry.adjacent_violations(z, y), geometry.adjacent_violations(tz, ty)),
        (geometry.mass_imbalance(z, y), geometry.mass_imbalance(tz, ty)),
        (geometry.farther_fraction(z, y), geometry.farther_fraction(tz, ty)),
        (geometry.cumulative(z), geometry.cumulative(tz)),
        (geometry.log_probs(z), geometry.log_probs(tz)),
        (geometry.log_barrier(r, scale=scale), geometry.log_barrier(tr, scale=scale)),
        (geometry.log_barrier_slope(r, scale=scale), geometry.log_barrier_slope(tr, scale=scale)),
        (geometry.hinge(r, margin=scale), geometry.hinge(tr, margin=scale)),
        (geometry.hinge_slope(r, margin=scale), geometry.hinge_slope(tr, margin=scale)),
        (geometry.softplus(r), geometry.softplus(tr)),
        (geometry.sigmoid(r), geometry.sigmoid(tr)),
    ]
    for ours, theirs in pairs:
        assert isinstance(theirs, torch.Tensor)
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("probs", "unimodal"),
    [
        ([0.5, 0.1, 0.05, 0.35], False),  # a U-shape, which counting sign changes lets pass
        ([0.4, 0.1, 0.05, 0.1, 0.35], False),
        ([0.1, 0.30, 0.296, 0.299, 0.005], False),  # passes only with a tolerance
        ([0.25, 0.25, 0.25, 0.25], True),
        ([0.0, 0.5, 0.5, 0.0], True),
        ([0.3, 0.3, 0.1, 0.3], False),
        ([1.0, 0.0, 0.0], True),
        ([0.0, 0.0, 1.0], True),
    ],
)
def test_unimodality_of_known_shapes(probs, unimodal):
    assert bool(geometry.is_unimodal(np.array(probs))) is unimodal


def test_tolerance_is_the_largest_wrong_step():
    p = np.array([0.1, 0.30, 0.296, 0.299, 0.005])
    assert not geometry.is_unimodal(p, tolerance=0.0029)
    assert geometry.is_unimodal(p, tolerance=0.0031)


def test_feasibility_needs_the_margin_everywhere():
    z = np.array([[0.0, 1.0, 0.8], [0.0, 1.0, 0.75]])
    assert geometry.is_feasible(z, np.array([1, 1]), scale=2.0).tolist() == [False, True]


@pytest.mark.parametrize("scale", [0.01, 0.05, 1.0, 3.0, 100.0])
def test_barrier_is_smooth_at_its_joint(scale):
    joint = -1 / scale**2
    around = joint * np.array([1 + 1e-7, 1.0, 1 - 1e-7])
    value = geometry.log_barrier(around, scale=scale)
    assert np.ptp(value) < 1e-6 * max(1, abs(value[1]))  # no jump: the constant is +1/s, not +s
    np.testing.assert_allclose(geometry.log_barrier_slope(around, scale=scale), scale, rtol=1e-6)


def test_barrier_equals_the_published_table(loss_vectors):
    for scale, table in loss_vectors["lbe_scalar"].items():
        for r, value in table.items():
            ours = geometry.log_barrier(np.array(float(r)), scale=float(scale))
            assert ours == pytest.approx(value, abs=1e-12)


def test_gradients_flow_and_are_finite_at_ties():
    z = torch.zeros(1, 4, dtype=torch.float64, requires_grad=True)
    r = geometry.directed_gaps(z, torch.tensor([1]))
    (gradient,) = torch.autograd.grad(geometry.log_barrier(r, scale=3.0).sum(), z)
    assert torch.isfinite(gradient).all()
    r0 = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(geometry.softplus(r0).sum(), r0)
    assert slope.item() == 0.5
