"""Tests of the metrics against loops, scikit-learn and reference vectors."""

import inspect
import math
import pickle
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, mean_absolute_error

from orcu import metrics
from orcu.errors import InputError
from orcu.metrics.base import METRICS, function_of
from orcu.metrics.binning import bin_index
from orcu.metrics.rows import Rows
from orcu.metrics.scoring import rps_unchecked
from orcu.metrics.sums import PARTS, Sums, decision_sums, row_score, row_sums


def loop_bins(confidence, outcome, bins):
    """sum_b n_b/N |acc - conf| with (a, b] bins, 0 in the first."""
    total = 0.0
    for b in range(bins):
        low, high = b / bins, (b + 1) / bins
        inside = [i for i, c in enumerate(confidence) if (low < c <= high) or (b == 0 and c == 0.0)]
        if inside:
            acc = sum(outcome[i] for i in inside) / len(inside)
            conf = sum(confidence[i] for i in inside) / len(inside)
            total += len(inside) / len(confidence) * abs(acc - conf)
    return total


@st.composite
def predictions(draw):
    c = draw(st.integers(2, 6))
    n = draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    probs = rng.dirichlet(np.full(c, draw(st.sampled_from([0.05, 1.0, 20.0]))), size=n)
    return probs, rng.integers(c, size=n)


@given(predictions(), st.integers(1, 20))
@settings(deadline=None)
def test_ece_and_sce_equal_a_loop_over_bins(case, bins):
    probs, y = case
    top = [int(np.argmax(p)) for p in probs]
    confidence = [float(p[t]) for p, t in zip(probs, top, strict=True)]
    correct = [float(t == label) for t, label in zip(top, y, strict=True)]
    assert metrics.ece(probs, y, n_bins=bins) == pytest.approx(loop_bins(confidence, correct, bins))
    classes = range(probs.shape[1])
    expected = np.mean([loop_bins(probs[:, k], (y == k).astype(float), bins) for k in classes])
    assert metrics.sce(probs, y, n_bins=bins) == pytest.approx(expected)


@given(predictions())
@settings(deadline=None)
def test_accuracy_mae_and_rps_equal_their_definitions(case):
    probs, y = case
    pred = probs.argmax(axis=1)
    assert metrics.accuracy(probs, y) == pytest.approx(accuracy_score(y, pred))
    assert metrics.mae(probs, y) == pytest.approx(mean_absolute_error(y, pred))
    total = 0.0
    for p, label in zip(probs, y, strict=True):
        total += sum((math.fsum(p[: k + 1]) - (label <= k)) ** 2 for k in range(len(p) - 1))
    assert metrics.rps(probs, y) == pytest.approx(total / len(y))


@given(predictions())
@settings(deadline=None)
def test_metrics_do_not_depend_on_the_order_of_rows(case):
    probs, y = case
    order = np.random.default_rng(0).permutation(len(y))
    for metric in (metrics.ece, metrics.sce, metrics.accuracy, metrics.mae, metrics.rps):
        assert metric(probs[order], y[order]) == pytest.approx(metric(probs, y))
    assert metrics.unimodality(probs[order]) == metrics.unimodality(probs)


def test_metrics_equal_the_reference_vectors(loss_vectors):
    probs = np.array(loss_vectors["softmax"])
    y = np.array(loss_vectors["labels"])
    expected = loss_vectors["metrics_on_common_3_samples"]
    assert metrics.ece(probs, y) == pytest.approx(expected["ece15"], abs=1e-12)
    assert metrics.sce(probs, y) == pytest.approx(expected["sce15"], abs=1e-12)
    assert metrics.unimodality(probs) == pytest.approx(np.mean(expected["unimodal_strict"]))


def test_metrics_equal_published_values_on_200_rows(reference_sample):
    probs, y = reference_sample
    assert metrics.accuracy(probs, y) == pytest.approx(0.455)
    assert metrics.ece(probs, y) == pytest.approx(0.14838700126294121, abs=1e-12)
    assert metrics.ece(probs, y, n_bins=10) == pytest.approx(0.14632063962264907, abs=1e-12)
    assert metrics.sce(probs, y) == pytest.approx(0.0862717583307473, abs=1e-12)
    assert metrics.unimodality(probs) == pytest.approx(0.11)


def test_metric_computes_only_the_sums_it_reads(monkeypatch):
    rows = Rows(np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]]), np.array([0, 1]))
    computed = []

    def recording(name, part):
        def terms(*arguments):
            computed.append(name)
            return part.terms(*arguments)

        return type(part)(part.shape, terms)

    METRICS.names()  # imports all row scores
    for name, part in PARTS.items():
        monkeypatch.setitem(PARTS, name, recording(name, part))
    for name, reads in {
        "ece": ["top"],
        "sce": ["classes"],
        "threshold_ce": ["thresholds"],
        "qwk": ["confusion"],
        "rps": ["threshold_squares"],
        "nll": ["impossible", "nll"],
        "unimodality": ["unimodal"],
    }.items():
        computed.clear()
        METRICS.get(name)(row_sums(rows))
        assert computed == reads, name


def test_metric_convention_for_states_the_number_of_bins():
    assert METRICS.get("ece").convention_for(7) == "top label, 7 equal-width bins (a, b], 0 in the first bin"
    assert METRICS.get("mce").convention_for(7) == "largest gap of any bin of the ECE"


def test_row_score_name_of_another_sum_raises():
    with pytest.raises(InputError, match="row score 'top'"):
        row_score("top")


def test_metric_functions_document_their_arguments():
    for name in set(metrics.__all__) - {"CorpDecomposition", "Decomposition", "scorer"}:
        function = getattr(metrics, name)
        assert function.__name__ == name
        parameters = inspect.signature(function).parameters
        arguments = function.__doc__.split("Args:\n")[1].split("\n\n")[0]
        assert re.findall(r"^    (\w+): ", arguments, re.MULTILINE) == list(parameters)
        assert "Raises:" in function.__doc__
        assert (
            f">>> {name}(" in function.__doc__ or f"{name}([[" in function.__doc__ or f"{name}(y=" in function.__doc__
        )
        assert pickle.loads(pickle.dumps(function)) is function


def test_metric_function_builds_the_public_function():
    @function_of(decision_sums)
    def rows(sums: Sums) -> int:
        """Number of rows.

        Example:
            >>> rows(y=[0], pred=[0])
            1
        """
        return int(sums.total)

    assert rows(y=[0, 1, 1], pred=[0, 0, 1]) == 3
    assert str(inspect.signature(rows)) == str(inspect.signature(decision_sums)).replace(
        "orcu.metrics.sums.Sums", "int"
    )
    assert rows.__doc__.startswith("Number of rows.\n\nArgs:\n    probs: ")


def test_rps_unchecked_gives_the_bits_of_rps():
    rng = np.random.default_rng(0)
    probs, y, weight = rng.dirichlet(np.ones(4), size=300), rng.integers(4, size=300), rng.random(300)
    assert rps_unchecked(probs, y) == metrics.rps(probs, y)
    assert rps_unchecked(probs, y, weight) == metrics.rps(probs, y, sample_weight=weight)


def test_bin_index_is_closed_on_the_right_with_zero_in_the_first_bin():
    edges = np.arange(16) / 15
    assert bin_index(edges, 15).tolist() == [0, *range(15)]
    assert bin_index(np.nextafter(edges[:-1], 1), 15).tolist() == list(range(15))


def test_ece_certain_prediction_is_in_the_last_bin():
    # torchmetrics 1.9 opens a 16th bin for p = 1.0 and so reports 0.367 here
    probs = [[1.0, 0.0], [0.95, 0.05], [0.95, 0.05]]
    assert metrics.ece(probs, [1, 0, 0]) == pytest.approx(abs(2 / 3 - 2.9 / 3))


def test_ece_and_sce_of_calibrated_bins_are_zero():
    probs = np.repeat([[0.75, 0.25]], 4, axis=0)
    assert metrics.ece(probs, [0, 0, 0, 1]) == 0
    assert metrics.sce(probs, [0, 0, 0, 1]) == 0


def test_sce_counts_classes_without_rows():
    probs = [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]
    assert metrics.sce(probs, [0, 0]) == pytest.approx((0.5 + 0.5 + 0.0) / 3)


def test_metrics_return_plain_floats_from_any_container():
    probs, y = [[0.2, 0.5, 0.3]], [1]
    for metric in (metrics.ece, metrics.sce, metrics.accuracy, metrics.mae, metrics.rps):
        assert type(metric(torch.tensor(probs), torch.tensor(y))) is float
        assert metric(torch.tensor(probs, dtype=torch.float64), y) == metric(probs, y)
    assert type(metrics.unimodality(probs)) is float


@pytest.mark.parametrize("metric", [metrics.ece, metrics.sce, metrics.accuracy, metrics.mae, metrics.rps])
def test_metrics_invalid_rows_raise(metric):
    with pytest.raises(InputError, match="row 1 .*0.9"):
        metric([[0.5, 0.5], [0.4, 0.5]], [0, 1])
    with pytest.raises(InputError, match="^y: row 0 .*2"):
        metric([[0.5, 0.5]], [2])
    with pytest.raises(InputError, match="^y: 2 .* 1 "):
        metric([[0.5, 0.5]], [0, 1])


@pytest.mark.parametrize("bins", [0, -1, 2.5, None])
def test_ece_invalid_n_bins_raises(bins):
    with pytest.raises(InputError, match="^n_bins: .*1"):
        metrics.ece([[0.5, 0.5]], [0], n_bins=bins)
