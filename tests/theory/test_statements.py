"""Checks of the paper's statements for random settings, and checks that fail for wrong inputs."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orcu import geometry
from orcu.kernels import penalties
from orcu.kernels.soft_targets import distances
from orcu.theory import statements, verify
from orcu.theory.statements import STATEMENTS, Setting


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.__name__)
@given(
    st.integers(2, 12),
    st.integers(0, 11),
    st.floats(-2, 2).map(lambda e: 10.0**e),
    st.sampled_from(distances.names()),
    st.integers(0, 1000),
)
@settings(deadline=None, max_examples=20)
def test_statement_holds_for_random_settings(statement, num_classes, label, scale, distance, seed):
    case = Setting(num_classes, label % num_classes, scale, distance, samples=50, random_state=seed)
    check = statement(case)
    assert check.passed is not False, check
    if check.passed is None:
        assert check.note


def test_verify_runs_all_statements_in_order():
    checks = verify(5, 2, 3.0)
    assert len(checks) == len(STATEMENTS) == 30
    assert all(check.passed for check in checks)
    assert checks[0].source == "Eq. 19"
    assert checks[-1].source == "Eq. 49"


@pytest.mark.parametrize("scale", [1e-100, 1e-9, 1e9, 1e100])
def test_verify_at_extreme_scales_passes(scale):
    assert [check for check in verify(5, 2, scale) if check.passed is False] == []


def test_verify_of_a_thousand_classes_passes():
    assert all(check.passed is not False for check in verify(1000, 400, 3.0))


BROKEN = {
    # factors of fields that make the equilibrium wrong
    "stationarity": {"shift": 0.5},
    "cumulative_identity": {"shift": 0.5},
    "interval_concentration": {"shift": 0.5},
    "rps_gain": {"shift": 0.5},
    "shift_range": {"log_shift": -100.0},
    "strict_unimodality": {"gaps": -1.0},
    "l1_bound": {"probs": 10.0},
    "kl_bound": {"probs": 1e-9},
    "kl_below_slope": {"probs": 1e-9},
    "slope_by_gaps": {"shift": 0.5},
}


@pytest.mark.parametrize("name", BROKEN)
def test_statement_fails_for_a_wrong_equilibrium(name):
    case = Setting(5, 2, 3.0)
    assert getattr(statements, name)(case).passed
    factors = {field: getattr(case.solution, field) * k for field, k in BROKEN[name].items()}
    case.solution = dataclasses.replace(case.solution, **factors)
    assert not getattr(statements, name)(case).passed


@pytest.mark.parametrize(
    ("name", "function", "wrong"),
    [
        ("two_pair_gradient", "log_barrier_gradient", lambda r, scale: 0.9 * np.ones_like(r)),
        ("softplus_decay", "log_barrier_gradient", lambda r, scale: np.exp(r)),
        ("feasible_is_correct", "gap_signs", lambda c: np.ones((c, c - 1))),
        ("convexity_everywhere", "probs", lambda z: np.eye(z.shape[-1])[np.zeros(len(z), dtype=int)]),
        ("lbe_lower_bound", "log_barrier", lambda r, scale: 10 * r),
        ("objective_is_coercive", "log_barrier", lambda r, scale: 10 * r),
        ("lbe_is_unbounded", "log_barrier", lambda r, scale: np.zeros_like(r)),
        ("softce_dominates_on_the_ray", "log_probs", lambda z: np.zeros_like(z)),
        ("strict_propriety", "log_probs", lambda z: np.zeros_like(z)),
        ("coercivity", "log_probs", lambda z: np.ones_like(z) * 100),
        ("farther_fraction", "sigmoid", lambda r: np.zeros_like(r)),
        ("violation_identity", "adjacent_violations", lambda p, y: np.zeros((len(p), 4))),
        ("violation_bound", "adjacent_violations", lambda p, y: 2 * np.ones((len(p), 4))),
        ("kl_floor", "adjacent_violations", lambda p, y: 9 * np.ones((len(p), 4))),
    ],
)
def test_statement_fails_for_wrong_geometry(monkeypatch, name, function, wrong):
    monkeypatch.setattr(geometry if hasattr(geometry, function) else penalties, function, wrong)
    case = Setting(5, 2, 3.0)
    assert not getattr(statements, name)(case).passed


def test_slope_by_gaps_fails_if_a_gap_exceeds_its_bound():
    case = Setting(5, 2, 3.0)
    case.scale = 4.0  # the identity still holds, but the products -q_k r_k are those of s = 3
    check = statements.slope_by_gaps(case)
    assert check.measured <= statements.EXACT
    assert not check.passed


@pytest.mark.parametrize(
    ("name", "power_of_scale", "power_of_gap"),
    [("large_scale_rate", -2, -1), ("small_gap_rate", -1, -2), ("small_gap_rate", -1, 0)],
)
def test_rate_towards_the_anchor_fails_for_another_exponent(monkeypatch, name, power_of_scale, power_of_gap):
    solve = statements.equilibrium

    def moved(num_classes, label, scale, distance):
        right = solve(num_classes, label, scale, distance)
        anchor_gaps = geometry.directed_gaps(right.log_anchor, right.center)
        change = np.abs(anchor_gaps) ** power_of_gap * np.asarray(scale)[:, None] ** power_of_scale
        return dataclasses.replace(right, gaps=anchor_gaps - change)

    case = Setting(5, 2, 3.0)
    assert getattr(statements, name)(case).passed
    monkeypatch.setattr(statements, "equilibrium", moved)
    assert not getattr(statements, name)(case).passed
