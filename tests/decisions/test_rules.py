"""Tests of `orcu.decide`."""

import numpy as np
import pytest

from orcu import decide
from orcu.errors import InputError, UnknownNameError


def costs(rule, size):
    k = np.arange(size)
    off = np.abs(k[:, None] - k)
    return {"argmax": (off > 0) * 1.0, "median": off, "mean": off**2}[rule]


@pytest.mark.parametrize("rule", ["argmax", "median", "mean"])
@pytest.mark.parametrize("size", [2, 3, 7])
def test_decide_rule_minimises_its_expected_cost(rule, size):
    probs = np.random.default_rng(0).dirichlet(np.ones(size), size=500)
    cost = costs(rule, size)
    decisions = decide(probs, rule)
    assert (decisions == decide(probs, cost)).all()
    loop = [min(range(size), key=lambda d, p=p: sum(p[t] * cost[t, d] for t in range(size))) for p in probs]
    assert decisions.tolist() == loop


def test_decide_ties_go_to_the_lower_class():
    assert decide([[0.5, 0.5], [0.25, 0.75]]).tolist() == [0, 1]
    assert decide([[0.5, 0.0, 0.5]], "median").tolist() == [0]
    assert decide([[0.5, 0.5, 0.0]], "mean").tolist() == [0]
    assert decide([[0.1, 0.2, 0.7]], np.zeros((3, 3))).tolist() == [0]
    # 0.03 + 0.29 + 0.18 rounds below 1/2
    assert decide([[0.03, 0.29, 0.18, 0.5]], "median").tolist() == [2]


def test_decide_invalid_rule_raises():
    with pytest.raises(UnknownNameError, match="rule 'modus'"):
        decide([[0.5, 0.5]], "modus")
    with pytest.raises(InputError, match=r"^rule: .*\(2, 2\).*\(3, 3\)"):
        decide([[0.5, 0.5]], np.eye(3))
    with pytest.raises(InputError, match="^rule: row 0 has nan"):
        decide([[0.5, 0.5]], [[np.nan, 0], [0, 0]])
    with pytest.raises(InputError, match="^probs: row 0 "):
        decide([[0.5, 0.6]])
