"""Geometry: numpy and torch forms compared with each other, with loops and with cases of the paper."""

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
def test_directed_gaps_equal_loop(case):
    z, y = case
    assert geometry.directed_gaps(z, np.array(y)).tolist() == pytest.approx(loop_gaps(z, y))


@given(rows)
def test_is_unimodal_equals_loop(case):
    z, _ = case
    assert bool(geometry.is_unimodal(z)) == loop_unimodal(z)


@given(rows, st.floats(0.1, 10))
def test_geometry_numpy_equals_torch(case, scale):
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
        (geometry.sigmoid(r), geometry.sigmoid(tr)),
    ]
    for array, tensor in pairs:
        assert isinstance(tensor, torch.Tensor)
        np.testing.assert_allclose(array, tensor.numpy(), rtol=1e-12, atol=1e-12)


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
def test_is_unimodal_of_examples(probs, unimodal):
    assert bool(geometry.is_unimodal(np.array(probs))) is unimodal


def test_is_unimodal_tolerance_is_the_largest_wrong_step():
    p = np.array([0.1, 0.30, 0.296, 0.299, 0.005])
    assert not geometry.is_unimodal(p, tolerance=0.0029)
    assert geometry.is_unimodal(p, tolerance=0.0031)


def test_is_feasible_requires_the_margin_for_all_gaps():
    z = np.array([[0.0, 1.0, 0.8], [0.0, 1.0, 0.75]])
    assert geometry.is_feasible(z, np.array([1, 1]), scale=2.0).tolist() == [False, True]
