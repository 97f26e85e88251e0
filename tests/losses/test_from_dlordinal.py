"""Losses of dlordinal in `losses.create`, compared with orcu's: equal where dlordinal's are right, and where not."""

import importlib.util

import numpy as np
import pytest
import torch

from orcu import bench, losses
from orcu.errors import InputError, MissingExtraError, UnknownNameError
from orcu.kernels.soft_targets import log_targets
from orcu.losses import from_dlordinal

pytest.importorskip("dlordinal", reason="dlordinal is not installed")

EQUAL = {  # spec of dlordinal's loss, and of orcu's
    "EMDLoss": ({}, "rps"),
    "WKLoss": ({}, "wk"),
    "BinomialLoss": ({}, {"name": "sord", "distance": "binomial"}),
    "BetaLoss": ({}, {"name": "sord", "distance": "beta"}),
    "ExponentialLoss": ({"p": 1.5, "tau": 2.0}, {"name": "sord", "distance": {"name": "power", "p": 1.5, "tau": 2.0}}),
    "CDWCELoss": ({"alpha": 2.0}, {"name": "cdw_ce", "alpha": 2.0}),
    "SORDLoss": ({"alpha": 1.0}, {"name": "sord", "distance": "absolute"}),
}
ROUNDING = {"rtol": 2e-6, "atol": 2e-6}  # of float32; dlordinal's WKLoss refuses float64, and its targets are float32


def batch(num_classes=5, size=2.0):
    generator = torch.Generator().manual_seed(0)
    logits = size * torch.randn(40, num_classes, generator=generator)
    return logits.requires_grad_(), torch.randint(num_classes, (40,), generator=generator)


def value_and_gradient(spec, logits, y, **options):
    value = losses.create(spec, num_classes=logits.shape[1], **options)(logits, y)
    return value.detach(), torch.autograd.grad(value, logits)[0]


def table(name, **options):
    return {"name": f"dlordinal:{name}", **options}


@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.parametrize("num_classes", [3, 5, 9])
def test_loss_equals_that_of_dlordinal(name, num_classes):
    options, ours = EQUAL[name]
    logits, y = batch(num_classes)
    expected = value_and_gradient(table(name, **options), logits, y)
    for actual, reference in zip(value_and_gradient(ours, logits, y), expected, strict=True):
        torch.testing.assert_close(actual, reference.to(actual.dtype), **ROUNDING)


def test_triangular_targets_equal_those_of_dlordinal_except_for_the_highest_label():
    """dlordinal computes another width for the highest label, so its loss changes with reversed classes."""
    from dlordinal.soft_labelling import get_triangular_soft_labels

    for num_classes in (2, 3, 5, 8):
        ours = np.exp(log_targets(num_classes, {"name": "triangular", "alpha": 0.05}))
        theirs = get_triangular_soft_labels(num_classes, 0.05)
        np.testing.assert_allclose(ours[:-1], theirs[:-1], atol=1e-7)
        np.testing.assert_allclose(ours, ours[::-1, ::-1], atol=1e-12)
        assert np.abs(theirs - theirs[::-1, ::-1]).max() > 0.01
    logits, y = batch()
    rows = y < 4
    loss = table("TriangularLoss", alpha2=0.05)
    ours = value_and_gradient({"name": "sord", "distance": "triangular"}, logits, y)[0]
    assert not torch.isclose(ours, value_and_gradient(loss, logits, y)[0], rtol=1e-4)
    lower = logits.detach()[rows].requires_grad_()
    ours, theirs = (
        value_and_gradient(s, lower, y[rows])[0] for s in ({"name": "sord", "distance": "triangular"}, loss)
    )
    torch.testing.assert_close(ours, theirs, **ROUNDING)


def test_poisson_targets_of_dlordinal_have_two_modes_and_are_almost_uniform():
    """The rate y + 1 has the modes y and y + 1, and a softmax of probabilities, not of their logarithms, is flat."""
    from dlordinal.soft_labelling import get_poisson_soft_labels

    theirs, ours = get_poisson_soft_labels(5), np.exp(log_targets(5, "poisson"))
    np.testing.assert_allclose(theirs[range(4), range(4)], theirs[range(4), range(1, 5)], rtol=1e-12)
    assert theirs.max() < 0.24
    assert (ours.argmax(1) == np.arange(5)).all()
    assert ours.max() > 0.6


def test_binomial_targets_of_dlordinal_miss_the_outer_labels_of_many_classes():
    from dlordinal.soft_labelling import get_binomial_soft_labels

    assert get_binomial_soft_labels(12)[0].argmax() == 1  # the mode of label 0 is class 1
    for num_classes in (12, 100):
        assert (log_targets(num_classes, "binomial").argmax(1) == np.arange(num_classes)).all()


def test_beta_targets_of_dlordinal_are_twice_as_wide_for_14_classes():
    """Its parameters of 14 classes do not follow the others; it has none for 2 classes or for more than 14."""
    from dlordinal.soft_labelling import get_beta_soft_labels

    assert get_beta_soft_labels(13)[1, 1] == pytest.approx(0.69, abs=0.005)
    assert get_beta_soft_labels(14)[1, 1] == pytest.approx(0.38, abs=0.005)
    assert np.exp(log_targets(14, "beta"))[1, 1] == pytest.approx(0.69, abs=0.02)
    with pytest.raises(ValueError, match="not in params_set"):
        get_beta_soft_labels(15)


def test_cdw_ce_of_dlordinal_is_nan_for_large_logits():
    logits, y = batch(size=500.0)
    assert torch.isnan(value_and_gradient(table("CDWCELoss", alpha=2.0), logits, y)[0])
    value, gradient = value_and_gradient({"name": "cdw_ce", "alpha": 2.0}, logits, y)
    assert torch.isfinite(value)
    assert torch.isfinite(gradient).all()


def test_wk_of_dlordinal_refuses_double_precision():
    logits, y = batch()
    with pytest.raises(RuntimeError, match="Double"):
        losses.create("dlordinal:WKLoss", num_classes=5)(logits.double(), y)


def test_wk_of_dlordinal_refuses_logits_that_sum_to_one():
    logits, y = torch.full((4, 5), 0.2, requires_grad=True), torch.tensor([0, 1, 2, 3])
    with pytest.raises(ValueError, match="should be logits, not probabilities"):
        losses.create("dlordinal:WKLoss", num_classes=5)(logits, y)
    assert losses.create("wk", num_classes=5)(logits, y).item() == pytest.approx(1)


def test_wk_of_dlordinal_changes_from_one_to_zero_in_a_batch_of_one_class():
    """Its epsilon in the denominator makes the value depend on the size of a rounding error."""
    y, values = torch.full((4,), 2), {}
    for size in (10.0, 30.0):
        logits = torch.zeros(4, 5)
        logits[:, 2] = size
        values[size] = [losses.create(name, num_classes=5)(logits, y).item() for name in ("dlordinal:WKLoss", "wk")]
    assert values[10.0] == pytest.approx([1, 1], abs=1e-3)
    assert values[30.0] == pytest.approx([0, 1], abs=0.01)


def test_slace_of_dlordinal_is_limited_by_an_epsilon():
    """orcu has no SLACE; dlordinal adds 1e-9 in the logarithm, so the loss of a wrong label is at most 20.7."""
    logits, y = torch.tensor([[1e4, 0.0, 0.0]], requires_grad=True), torch.tensor([2])
    value, gradient = value_and_gradient(table("SLACELoss", alpha=50.0), logits, y)
    assert value.item() == pytest.approx(-np.log(1e-9), rel=1e-3)
    assert gradient.abs().max().item() == 0


def test_create_of_dlordinal_trains_a_classifier():
    from orcu import OrdinalClassifier

    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 2))
    y = np.digitize(x[:, 0], [-0.5, 0.5])
    model = OrdinalClassifier("dlordinal:EMDLoss", estimators="network", cv=2, epochs=3, random_state=0)
    assert np.isfinite(model.fit(x, y).predict_proba(x)).all()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("dlordinal:TriangularLos", "loss of dlordinal 'TriangularLos'.*'TriangularLoss'"),
        ({"name": "dlordinal:CDWCELoss", "alhpa": 2.0}, "'alhpa'.*'alpha'"),
        ("dlordinal:SORDLoss", "needs the argument alpha"),
        ("dlordinal:CORNLoss", "C - 1 conditional logits"),
        ("dlordinal:BetaCrossEntropyLoss", "deprecated.*'dlordinal:BetaLoss'"),
    ],
)
def test_create_invalid_loss_of_dlordinal_raises(spec, message):
    with pytest.raises(InputError, match=message) as error:
        losses.create(spec, num_classes=5)
    assert isinstance(error.value, UnknownNameError) or str(error.value).startswith("loss: ")


def test_create_without_dlordinal_raises(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "dlordinal" else find(name))
    with pytest.raises(MissingExtraError, match="'dlordinal:WKLoss' needs dlordinal.*pip install dlordinal"):
        from_dlordinal.create_from_dlordinal("dlordinal:WKLoss", 5, {})


def test_spec_runs_losses_of_dlordinal_beside_ours(spec_file, tmp_path):
    head, _, rest = spec_file.read_text().partition("losses = ")
    entries = '["rps", "wk", {anchor = "poisson", regularizer = "lbe"}, "dlordinal:EMDLoss"]'
    spec_file.write_text(f"{head}losses = {entries}\n{rest.partition(chr(10))[2]}")
    assert bench.run(spec_file, results=tmp_path / "results", jobs=1).outcomes == {"done": 8}
    records = bench.status(spec_file, results=tmp_path / "results").records()
    values = {(row["loss"], row["fold"]): row["rps"] for row in records}
    assert values["dlordinal:EMDLoss", 0] == pytest.approx(values["rps", 0], abs=1e-5)
    assert "dlordinal:EMDLoss" in bench.report(spec_file, results=tmp_path / "results").read_text()
