"""The two-stage diagnostic and its formulas."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orcu import geometry, losses
from orcu.errors import UnknownNameError
from orcu.theory.alignment import activity, alignment, regularizer_gradient
from orcu.training.run import RunConfig
from orcu.training.two_stage import branches, summary, train, two_stage


@given(st.integers(0, 10**6), st.sampled_from(["lbe", "hinge"]), st.sampled_from([1.0, 3.0, 7.0]))
@settings(deadline=None, max_examples=60)
def test_alignment_equals_the_numerical_derivative(seed, regularizer, scale):
    rng = np.random.default_rng(seed)
    z, y = rng.normal(scale=2, size=(5, 6)), rng.integers(6, size=5)
    step = -regularizer_gradient(z, y, regularizer=regularizer, scale=scale)

    def half_squared_gap(eta):
        moved = z + eta * step
        top = z.argmax(1)  # unchanged by a small step
        confidence = np.exp(geometry.log_probs(moved))[np.arange(5), top]
        return 0.5 * ((top == y) - confidence) ** 2

    eta = 1e-6
    expected = -(half_squared_gap(eta) - half_squared_gap(-eta)) / (2 * eta)
    assert alignment(z, y, -step) == pytest.approx(expected, abs=1e-6 * max(1, np.abs(step).max() ** 2))


@pytest.mark.parametrize("regularizer", ["lbe", "hinge"])
def test_regularizer_gradient_equals_autograd(regularizer):
    rng = np.random.default_rng(0)
    z, y = rng.normal(scale=2, size=(20, 5)), rng.integers(5, size=20)
    logits = torch.tensor(z, requires_grad=True)
    loss, _ = branches(3.0)["orcu" if regularizer == "lbe" else "hinge"]
    losses.create(loss, num_classes=5, reduction="sum")(logits, torch.tensor(y)).backward()
    anchor = torch.tensor(z, requires_grad=True)
    losses.create("sord", num_classes=5, reduction="sum")(anchor, torch.tensor(y)).backward()
    expected = (logits.grad - anchor.grad).numpy()
    assert regularizer_gradient(z, y, regularizer=regularizer, scale=3.0) == pytest.approx(expected, abs=1e-9)
    with pytest.raises(UnknownNameError, match="Did you mean 'hinge'"):
        regularizer_gradient(z, y, regularizer="hing", scale=3.0)


def test_activity_inside_the_margin_is_zero_for_hinge_and_positive_for_barrier():
    z, y = np.array([[0.0, 3.0, 9.0, 3.0, 0.0]]), np.array([2])
    hinge, barrier = (activity(z, y, regularizer=name, scale=3.0) for name in ("hinge", "lbe"))
    assert (hinge.interior_slope, hinge.zero_gradients, hinge.alignment) == (0.0, 1.0, 0.0)
    assert barrier.interior_slope > 0
    assert barrier.zero_gradients == 0
    assert barrier.alignment > 0


def test_two_stage_shows_the_findings_of_the_paper(lev, tmp_path):
    records = two_stage(lev, lev.split("five_folds", 0), RunConfig(), tmp_path, scale=3.0, epochs=(8, 6), device="cpu")
    assert len(records) == 3 * 6
    table = {row["branch"]: row for row in summary(records)}
    assert set(table) == {"sord", "hinge", "orcu"}
    assert np.isnan(table["sord"]["alignment"])
    assert table["orcu"]["feasible_active"] == 1
    assert table["hinge"]["feasible_active"] < 0.5
    assert table["orcu"]["alignment"] > table["hinge"]["alignment"]
    assert table["orcu"]["feasible_sce"] < table["sord"]["feasible_sce"]
    assert all(row["feasible_unimodality"] > 0.95 for row in table.values())
    shares = {record["feasible_share"] for record in records}
    assert len(shares) == 1
    assert (tmp_path / "two_stage.parquet").exists()
    again = two_stage(lev, lev.split("five_folds", 0), RunConfig(), tmp_path, scale=3.0, epochs=(8, 6), device="cpu")
    assert str(again) == str(records)


def test_train_runs_the_diagnostic_on_all_folds(lev, tmp_path):
    diagnostic = train(lev.folder, tmp_path, max_folds=2, epochs=(3, 2), hidden_layer_sizes=(16,), device="cpu")
    assert {record["fold"] for record in diagnostic.records} == {0, 1}
    assert [row["branch"] for row in diagnostic.table] == ["sord", "hinge", "orcu"]
    assert 0 < diagnostic.feasible_share < 1
    assert (tmp_path / "curves.parquet").exists()
    assert (tmp_path / "table.csv").exists()
    with pytest.raises(UnknownNameError, match="protocol of .* 'papr'"):
        train(lev.folder, tmp_path, protocol="papr", device="cpu")
