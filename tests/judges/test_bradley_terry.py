"""`fit_strengths`: published estimates, an independent maximisation, and refusals."""

import numpy as np
import pytest
from scipy.optimize import minimize

from orcu.errors import InputError
from orcu.judges.bradley_terry import PairCounts, fit_strengths, outcome_scores, position_is_estimable

# Brands of chocolate pudding (Davidson 1970, Journal of the American Statistical Association 65): the two brands, and
# the counts of preferences for the first, ties, and preferences for the second.
PUDDING = [
    (1, 2, 19, 16, 22),
    (1, 3, 16, 12, 19),
    (2, 3, 19, 10, 19),
    (1, 4, 18, 13, 23),
    (2, 4, 23, 9, 19),
    (3, 4, 19, 15, 20),
    (1, 5, 13, 18, 19),
    (2, 5, 16, 12, 20),
    (3, 5, 16, 17, 15),
    (4, 5, 17, 16, 14),
    (1, 6, 18, 12, 21),
    (2, 6, 22, 12, 20),
    (3, 6, 13, 10, 18),
    (4, 6, 14, 18, 19),
    (5, 6, 11, 12, 21),
]


def counts_of(rows, *, systems=None, order=None):
    table = np.array(rows, dtype=np.float64)
    first, second = (table[:, k].astype(int) for k in (0, 1))
    lowest = min(first.min(), second.min())
    first, second = first - lowest, second - lowest
    names = tuple("abcdefgh"[: systems or 1 + max(first.max(), second.max())])
    order = np.zeros(len(table), dtype=np.int64) if order is None else np.asarray(order)
    return PairCounts(names, first, second, order, table[:, 2:])


def test_fit_strengths_match_the_published_estimates_of_davidson():
    fitted = fit_strengths(counts_of(PUDDING))
    worth = np.exp(fitted.values)
    published = [0.1388, 0.1730, 0.1617, 0.1654, 0.1587, 0.2024]
    assert worth / worth.sum() == pytest.approx(published, abs=1e-4)
    assert np.exp(fitted.intercepts) == pytest.approx([1, 0.7468, 1], abs=1e-4)


@pytest.mark.parametrize("num_outcomes", [2, 3, 5])
def test_fit_strengths_match_an_independent_maximisation(num_outcomes):
    rng = np.random.default_rng(num_outcomes)
    pairs = [(s, t) for s in range(4) for t in range(s + 1, 4)] * 2
    order = np.repeat([1, -1], len(pairs) // 2)
    rows = [(*pair, *rng.uniform(0.2, 9.0, size=num_outcomes)) for pair in pairs]
    cells = counts_of(rows, order=order)
    fitted = fit_strengths(cells, estimate_position=True)

    def loss(values):
        total, half = 0.0, (num_outcomes - 1) // 2
        for (s, t, *counts), z in zip(rows, order, strict=True):
            strength = [0.0, *values[:3]]
            weights = []
            for k in range(num_outcomes):
                share = 1 - k / (num_outcomes - 1)  # of the first system, between 0 and 1
                middle = min(k, num_outcomes - 1 - k)
                extra = values[4 + middle - 1] if middle else 0.0
                weights.append(share * (strength[s] + z * values[3]) + (1 - share) * strength[t] + extra)
            total -= np.dot(counts, np.array(weights) - np.logaddexp.reduce(weights))
        assert len(values) == 4 + half
        return total

    best = minimize(loss, np.zeros(4 + (num_outcomes - 1) // 2), method="BFGS", options={"gtol": 1e-8}).x
    assert fitted.values[1:] - fitted.values[0] == pytest.approx(best[:3], abs=1e-4)
    assert fitted.position == pytest.approx(best[3], abs=1e-4)
    assert fitted.intercepts[1 : (num_outcomes + 1) // 2] == pytest.approx(best[4:], abs=1e-4)
    assert fitted.values.sum() == pytest.approx(0)


def test_fit_strengths_of_unused_outcomes_gives_them_probability_zero():
    rows = [(0, 1, 0, 6, 0, 2, 0), (1, 2, 0, 5, 0, 4, 0), (0, 2, 0, 7, 0, 3, 0)]
    fitted = fit_strengths(counts_of(rows))
    without = fit_strengths(counts_of([(s, t, a, b) for s, t, _, a, _, b, _ in rows]))
    assert fitted.probs(0.3)[[0, 2, 4]].tolist() == [0, 0, 0]
    assert fitted.values * (outcome_scores(5)[1] / 0.5) == pytest.approx(without.values)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(0, 1, 3, 1, 2), (2, 3, 3, 1, 2)], r"no comparison connects \(a, b\) with \(c, d\)"),
        ([(0, 1, 3, 1, 2), (0, 2, 5, 0, 0), (1, 2, 4, 0, 0)], r"\(c\) loses all comparisons"),
        ([(1, 2, 3, 1, 2), (0, 1, 0, 0, 5)], r"\(a\) loses all comparisons"),
        ([(0, 1, 0, 5, 0)], "all outcomes are ties"),
        ([(0, 1, 0, 5, 0), (0, 2, 3, 3, 0), (1, 2, 3, 3, 0)], "no finite maximum"),
    ],
)
def test_fit_strengths_without_a_finite_maximum_say_why(rows, message):
    with pytest.raises(InputError, match=message):
        fit_strengths(counts_of(rows))


def test_position_is_not_estimable_if_one_system_is_always_first():
    rows = [(0, 1, 3, 1, 2), (0, 2, 3, 1, 2)]
    assert not position_is_estimable(counts_of(rows, order=[1, 1]))
    assert position_is_estimable(counts_of([*rows, (1, 2, 3, 1, 2)], order=[1, 1, 1]))
