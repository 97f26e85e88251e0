"""Tests of the conventions against other libraries, and of cases that these get wrong."""

import warnings

import numpy as np
import pytest
import torch
from torchmetrics.functional.classification import multiclass_calibration_error

from orcu import Tally, metrics
from orcu.errors import UnknownNameError
from orcu.metrics import binning

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its docstrings hold invalid escapes
    from netcal.metrics import ACE, ECE, MCE


@pytest.fixture(params=["smooth", "on edges", "certain"])
def case(request):
    rng = np.random.default_rng(7)
    probs = rng.dirichlet(np.full(5, 0.6), size=700)
    if request.param == "on edges":  # multiples of 1/8: bin edges for 8 bins, exact in any float
        probs = rng.multinomial(8, np.full(5, 0.2), size=700) / 8
    if request.param == "certain":
        probs[::3] = np.eye(5)[rng.integers(5, size=len(probs[::3]))]
    return probs, rng.integers(5, size=700)


@pytest.mark.parametrize("bins", [8, 15])
def test_ece_and_mce_torchmetrics_convention_reproduces_torchmetrics(case, bins):
    probs, y = case
    expected_error = multiclass_calibration_error(torch.tensor(probs), torch.tensor(y), 5, n_bins=bins)
    assert metrics.ece(probs, y, n_bins=bins, convention="torchmetrics") == pytest.approx(
        float(expected_error), abs=2e-6
    )
    largest = multiclass_calibration_error(torch.tensor(probs), torch.tensor(y), 5, n_bins=bins, norm="max")
    assert metrics.mce(probs, y, n_bins=bins, convention="torchmetrics") == pytest.approx(float(largest), abs=2e-6)


@pytest.mark.parametrize("bins", [8, 15])
def test_netcal_convention_reproduces_netcal(case, bins):
    probs, y = case
    for netcal_error, function in ((ECE, metrics.ece), (MCE, metrics.mce), (ACE, metrics.ace)):
        expected = netcal_error(bins).measure(probs, y)
        assert function(probs, y, n_bins=bins, convention="netcal") == pytest.approx(expected, abs=1e-12)


def nixon_error(values, outcome, edges):
    """np.digitize, [a, b), weighted by rows, as Nixon's general_calibration_error does."""
    bins = np.digitize(values, edges)
    return sum(
        abs(np.mean(outcome[bins == b]) - np.mean(values[bins == b])) * np.mean(bins == b) for b in np.unique(bins)
    )


@pytest.mark.parametrize("bins", [8, 15, 30])
def test_sce_nixon_convention_reproduces_nixon(case, bins):
    probs, y = case
    edges = np.arange(1, bins + 1) / bins
    expected = np.mean([nixon_error(probs[:, k], (y == k).astype(float), edges) for k in range(5)])
    assert metrics.sce(probs, y, n_bins=bins, convention="nixon") == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("bins", [8, 15])
def test_sce_mdca_convention_omits_zeros(case, bins):
    probs, y = case
    expected = 0.0
    for k in range(5):
        for b in range(bins):
            inside = (probs[:, k] > b / bins) & (probs[:, k] <= (b + 1) / bins)
            if inside.any():
                expected += abs(np.mean(y[inside] == k) - probs[inside, k].mean()) * inside.mean()
    assert metrics.sce(probs, y, n_bins=bins, convention="mdca") == pytest.approx(expected / 5, abs=1e-12)


def test_ace_conventions_equal_the_reference_values(reference_sample, loss_vectors):
    probs, y = reference_sample
    reference = loss_vectors["metrics_200"]
    for convention, key in {
        "paper": "ace15_sorted_array_split_unweighted",
        "weighted": "ace15_sorted_array_split_weighted",
        "mdca": "ace15_index_edges_right_closed_weighted",
        "nixon": "ace15_digitize_left_closed_weighted",
    }.items():
        assert metrics.ace(probs, y, convention=convention) == pytest.approx(reference[key], abs=1e-12)
    assert metrics.nll(probs, y) == pytest.approx(reference["nll"], abs=1e-12)
    assert metrics.sce(probs, y, convention="nixon") == pytest.approx(reference["sce15_left_closed"], abs=1e-12)


@pytest.mark.parametrize("rows", [3, 15, 16, 29, 200])
def test_ace_equals_a_loop_over_array_split(rows):
    rng = np.random.default_rng(rows)
    probs = rng.dirichlet(np.ones(4), size=rows).round(1)  # many ties, resolved by the stable order
    probs /= probs.sum(1, keepdims=True)
    y = rng.integers(4, size=rows)
    gaps = []
    for k in range(4):
        order = np.argsort(probs[:, k], kind="stable")
        parts = [g for g in np.array_split(order, 15) if len(g)]
        gaps.append(np.mean([abs(np.mean(y[g] == k) - probs[g, k].mean()) for g in parts]))
    assert metrics.ace(probs, y) == pytest.approx(np.mean(gaps), abs=1e-12)


@pytest.mark.parametrize("excess", [1e-16, 1e-9, 9e-7, 1e-6, 1e-4])
@pytest.mark.parametrize("convention", ["paper", "mdca", "netcal"])
def test_bin_index_value_above_one_by_rounding_is_in_the_last_bin(excess, convention):
    values = np.array([0.5, 1 + excess])
    assert binning.bin_index(values, 15, binning.CONVENTIONS[convention]).tolist() == [7, 14]


def test_threshold_ce_is_the_mean_error_of_cumulative_probabilities():
    rng = np.random.default_rng(3)
    probs, y = rng.dirichlet(np.ones(4), size=300), rng.integers(4, size=300)
    parts = []
    for k in range(3):
        below = probs[:, : k + 1].sum(1)
        binary = np.stack([below, 1 - below], axis=1).clip(0, 1)
        parts.append(metrics.classwise_ece(binary, (y > k).astype(int))[0])
    assert metrics.threshold_ce(probs, y) == pytest.approx(np.mean(parts), abs=1e-12)


def test_classwise_ece_mdca_convention_omits_zeros_of_a_single_bin():
    probs, y = [[1.0, 0.0], [0.7, 0.3]], [1, 0]
    gaps = [abs((0.0 - 1.0) + (1.0 - 0.7)) / 2, abs(0.0 - 0.3) / 2]  # the 0 of the true class does not count
    assert metrics.classwise_ece(probs, y, n_bins=1, convention="mdca") == pytest.approx(gaps)
    weighted = metrics.classwise_ece(probs, y, n_bins=1, convention="mdca", sample_weight=[2, 2])
    assert weighted == pytest.approx(gaps)


def test_ece_unknown_convention_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="'torchmetrics'"):
        metrics.ece([[0.5, 0.5]], [0], convention="torchmetric")


# Cases that other libraries get wrong.


def test_ece_stays_exact_where_float32_sums_drift():
    # torchmetrics keeps float32 sums; here 4 million rows in one bin would already show it
    rows = 4_000_000
    probs = np.repeat(np.array([[0.7, 0.3]]), rows, axis=0)
    y = (np.arange(rows) % 10 >= 7).astype(int)
    expected_error = multiclass_calibration_error(
        torch.tensor(probs, dtype=torch.float32), torch.tensor(y), 2, n_bins=15
    )
    ours = metrics.ece(probs, y)
    assert ours < 1e-9
    assert ours < float(expected_error) / 100
    tally = Tally(2)
    tally.update(probs, y)
    assert tally.compute()["ece"] < 1e-15


def test_ece_value_slightly_above_one_raises():
    probs = np.array([[0.7, 0.3], [1.0000001, 0.0]])
    with pytest.raises(ValueError, match="row 1 .*1.0000001.*column 0"):
        metrics.ece(probs, [0, 0])


def test_ece_logits_that_look_like_probabilities_raise():
    with pytest.raises(ValueError, match="row 0 .*1.5.*logits"):
        metrics.ece([[0.9, 0.6], [0.2, 0.8]], [0, 1])


def test_ace_fewer_rows_than_bins_is_finite():  # TorchUncertainty gives NaN
    assert metrics.ace([[0.9, 0.1], [0.2, 0.8]], [0, 1]) == pytest.approx(0.15)


def test_classwise_ece_includes_an_absent_highest_class():  # torrvision averages over max(label) + 1
    probs = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]])
    assert len(metrics.classwise_ece(probs, [0, 1])) == 3


def test_rps_label_minus_one_raises():  # dlordinal accepts it
    with pytest.raises(ValueError, match="^y: row 0 .*-1"):
        metrics.rps([[0.5, 0.5]], [-1])


def test_unimodality_of_a_u_shape_is_zero():
    assert metrics.unimodality([[0.5, 0.1, 0.05, 0.35]]) == 0


def test_qwk_has_quadratic_weights(reference_sample):  # skordinal's default is linear
    from sklearn.metrics import cohen_kappa_score

    probs, y = reference_sample
    assert metrics.qwk(probs, y) == pytest.approx(cohen_kappa_score(y, probs.argmax(1), weights="quadratic"))
