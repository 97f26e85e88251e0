"""Penalties: numpy and torch forms, derivatives, and published values."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from orcu import geometry
from orcu.kernels import penalties

gaps = arrays(np.float64, 5, elements=st.floats(-100, 100).map(lambda x: round(x, 3)))


@given(gaps, st.floats(0.1, 10))
def test_penalties_numpy_equals_torch(r, scale):
    for function in (
        lambda r: penalties.log_barrier(r, scale=scale),
        lambda r: penalties.log_barrier_gradient(r, scale=scale),
        lambda r: penalties.log_barrier_hessian(r, scale=scale),
        lambda r: penalties.hinge(r, margin=scale),
        lambda r: penalties.hinge_gradient(r, margin=scale),
        penalties.softplus,
    ):
        tensor = function(torch.from_numpy(r))
        assert isinstance(tensor, torch.Tensor)
        np.testing.assert_allclose(function(r), tensor.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", [0.01, 0.05, 1.0, 3.0, 100.0])
def test_log_barrier_is_smooth_at_the_margin(scale):
    margin = -1 / scale**2
    around = margin * np.array([1 + 1e-7, 1.0, 1 - 1e-7])
    value = penalties.log_barrier(around, scale=scale)
    assert np.ptp(value) < 1e-6 * max(1, abs(value[1]))  # no jump: the constant is +1/s, not +s
    np.testing.assert_allclose(penalties.log_barrier_gradient(around, scale=scale), scale, rtol=1e-6)


def test_log_barrier_equals_the_published_table(loss_vectors):
    for scale, table in loss_vectors["lbe_scalar"].items():
        for r, value in table.items():
            barrier = penalties.log_barrier(np.array(float(r)), scale=float(scale))
            assert barrier == pytest.approx(value, abs=1e-12)


def test_penalties_gradients_are_finite_at_ties():
    z = torch.zeros(1, 4, dtype=torch.float64, requires_grad=True)
    r = geometry.directed_gaps(z, torch.tensor([1]))
    (gradient,) = torch.autograd.grad(penalties.log_barrier(r, scale=3.0).sum(), z)
    assert torch.isfinite(gradient).all()
    tie = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(penalties.softplus(tie).sum(), tie)
    assert gradient.item() == 0.5
