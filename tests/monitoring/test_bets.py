"""Bets of clusters and weighted rows: the mean of a factor is at most 1 for any dependence inside a cluster."""

import itertools

import numpy as np
import pytest

from orcu import InputError, Predictions, Tally
from orcu.metrics.rows import Rows
from orcu.monitoring.bets import Bets, Contribution
from orcu.monitoring.e_process import STAKES, cell_sums, log_wealth
from orcu.monitoring.log import Day
from orcu.monitoring.schemas import BetsSchema

PROBS = np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3]])
Y = np.array([0, 1, 2, 0])


def test_log_wealth_of_a_dependent_cluster_has_mean_at_most_one():
    # Three rows of a cluster with any joint distribution that has the marginal probabilities: here one uniform number
    # decides all rows, the strongest dependence. The weights sum to 1 or less.
    probs, grid = np.array([0.2, 0.5, 0.8]), (np.arange(1000) + 0.5) / 1000
    events = grid[:, None] < probs
    for weights in ([1 / 3] * 3, [0.5, 0.5, 0.0], [0.2, 0.3, 0.1]):
        count, predicted = np.sum(weights), weights @ probs
        wealth = [np.exp(log_wealth(np.array(count), np.array(predicted), np.array(weights @ row))) for row in events]
        assert np.mean(wealth, axis=0).max() <= 1 + 1e-9
    naive = [np.exp(log_wealth(np.array(3.0), np.array(1.5), np.array(float(row.sum())))) for row in events]
    assert np.mean(naive, axis=0).max() > 1.05  # rows that are counted as independent


@pytest.mark.parametrize("weight", [0.1, 0.5, 1.0])
def test_log_wealth_of_weighted_rows_has_mean_at_most_one(weight):
    probs = np.array([0.1, 0.5, 0.9])
    mean = np.zeros(len(STAKES))
    for outcome in itertools.product((0, 1), repeat=3):
        chance = np.prod(np.where(outcome, probs, 1 - probs))
        sums = (np.array(3 * weight), np.array(weight * 1.5), np.array(weight * float(sum(outcome))))
        mean += chance * np.exp(log_wealth(*sums))
    assert mean.max() <= 1 + 1e-12


def test_contribution_without_weights_equals_the_tally():
    tally = Tally(3, n_bins=5)
    tally.update(PROBS, Y)
    bets, occasions = Contribution.from_rows(Rows(PROBS, Y), n_bins=5, subgroup=list("abab")).assign({})
    assert occasions is None
    assert bets.table("", 0, 3, 5) == pytest.approx(cell_sums(tally))
    parts = [bets.table(name, 0, 3, 5) for name in "ab"]
    assert sum(parts) == pytest.approx(cell_sums(tally))


def test_contribution_rows_of_a_cluster_sum_to_one_bet():
    contribution = Contribution.from_rows(Rows(PROBS, Y), n_bins=5, cluster=["p", "q", "p", "p"])
    bets, occasions = contribution.assign({"p": {0, 1}, "r": {0}})
    assert occasions == {"p": 2, "q": 0}
    for occasion in (0, 2):
        weight, predicted, observed = bets.table("", occasion, 3, 5)[0].sum(-1)
        rows = [1] if occasion == 0 else [0, 2, 3]
        assert weight == pytest.approx(1)
        assert predicted == pytest.approx(PROBS[rows].max(1).mean())
        assert observed == pytest.approx((PROBS[rows].argmax(1) == Y[rows]).mean())


def test_contribution_merge_equals_all_rows_at_once():
    cluster, subgroup, weight = ["p", "q", "p", "p"], list("abab"), np.array([1.0, 2.0, 4.0, 1.0])
    options = {"n_bins": 5}
    parts = [
        Contribution.from_rows(
            Rows(PROBS[part], Y[part], weight[part]), cluster=cluster[part], subgroup=subgroup[part], **options
        )
        for part in (slice(0, 2), slice(2, 4))
    ]
    whole = Contribution.from_rows(Rows(PROBS, Y, weight), cluster=cluster, subgroup=subgroup, **options)
    merged = parts[0].merge(parts[1])
    assert merged.squares == pytest.approx(whole.squares) == 36 + 4
    for name in ("", "a", "b"):
        ours, others = (part.assign({})[0].table(name, 0, 3, 5) for part in (merged, whole))
        assert ours == pytest.approx(others)


def test_contribution_weights_are_relative_to_the_largest():
    tables = []
    for factor in (1, 1000):
        rows = Rows(PROBS, Y, factor * np.array([1.0, 2.0, 4.0, 0.0]))
        tables.append(Contribution.from_rows(rows, n_bins=5).assign({})[0].table("", 0, 3, 5))
    assert tables[0] == pytest.approx(tables[1])
    assert tables[0][0, 0].sum() == pytest.approx(1.75)


def test_day_round_trip_keeps_subgroups_clusters_and_weights():
    rows = Predictions(probs=PROBS, sample_weight=[1, 2, 1, 1], subgroup=list("abab"), cluster=["p", "q", "p", "p"])
    day = Day.from_predictions("2026-11-01", rows, np.array([0, -1, 2, 0]), n_bins=5).with_occasions({})
    restored = Day.from_dict(day.to_dict())
    assert restored.columns == "--sample-weight, --subgroup, --cluster"
    assert restored.clusters == day.clusters == {next(iter(day.clusters)): (0,)}
    assert (restored.bets.keys == day.bets.keys).all()
    assert (restored.bets.sums == day.bets.sums).all()
    assert (restored.subgroups["b"].rows, restored.subgroups["b"].unlabelled) == (1, 1)
    assert restored.effective_rows == pytest.approx(1)  # one cluster


@pytest.mark.parametrize(
    "cell", [[2**31, 0, 0, 0], [0, 1, 0, 0], [0, 0, 3, 0], [0, 0, 0, 5], [0.5, 0, 0, 0], [-1, 0, 0, 0]]
)
def test_bets_from_dict_damaged_cells_raise(cell):
    def restore(*cells, populations=("",)):
        state = BetsSchema.model_construct(populations=list(populations), cells=[*cells])
        return Bets.from_dict(state, 3, 5)

    good = [0, 0, 0, 4, 1.0, 0.9, 1.0]
    assert len(restore(good).keys) == 1
    for cells in ([[*cell, 1.0, 0.1, 0.0]], [good, good], [[0, 0, 0, 4, 1.0, 0.9, 2.0]], [[0, 0, 0, 4, 1.0, 0.1, 1.0]]):
        with pytest.raises(InputError, match=r"^bets\.cells"):
            restore(*cells)
    for value in (1e308, float("nan"), float("inf")):
        with pytest.raises(InputError, match=r"^bets\.cells"):
            restore([0, 0, 0, value, 1.0, 0.9, 1.0])
    with pytest.raises(InputError, match=r"^bets\.populations"):
        restore(good, populations=("a",))
