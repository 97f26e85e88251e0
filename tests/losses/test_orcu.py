"""ORCU compared with Eqs. 1-6 as loops and published numbers, and the fused with the composed form."""

import inspect
import math
import shutil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import orcu
from orcu.errors import InputError, UnknownNameError
from orcu.losses.ce import CrossEntropyLoss
from orcu.losses.compose import Composed
from orcu.losses.ensemble import EnsembleLoss
from orcu.losses.gap_regularizers import GapSoftPlus
from orcu.losses.orcu import ORCULoss

LOGITS = [[2.0, 1.0, 0.1, -1.0, 0.5], [-0.3, 0.8, 1.5, 0.2, -2.0], [0.0, 0.0, 0.0, 0.0, 0.0]]
LABELS = [1, 2, 4]


def by_hand(z, y, scale):
    """Eqs. 1-6 for one sample, with classes counted from 0."""
    num_classes = len(z)
    mass = [math.exp(-((y - k) ** 2)) for k in range(num_classes)]
    lse = max(z) + math.log(sum(math.exp(v - max(z)) for v in z))
    softce = -sum(m / sum(mass) * (v - lse) for m, v in zip(mass, z, strict=True))
    lbe = 0.0
    for k in range(num_classes - 1):
        r = z[k] - z[k + 1] if k < y else z[k + 1] - z[k]
        if r <= -1 / scale**2:
            lbe += -1 / scale * math.log(-r)
        else:
            lbe += scale * r - 1 / scale * math.log(1 / scale**2) + 1 / scale
    return softce, lbe


@pytest.mark.parametrize(
    ("scale", "value"),
    # from the fact sheet of this project, computed independently
    [(0.05, -397.9515001653), (1.0, 3.9985162752), (3.0, 5.9905459300), (10.0, 10.8740507564)],
)
def test_orcu_equals_published_values(scale, value):
    z = torch.tensor(LOGITS, dtype=torch.float64, requires_grad=True)
    assert ORCULoss(5, scale=scale)(z, torch.tensor(LABELS)).item() == pytest.approx(value, abs=1e-9)


def test_orcu_equals_reference_vectors(loss_vectors):
    y = torch.tensor(loss_vectors["labels"])
    cases = [name for name in loss_vectors["losses"] if name.startswith("orcu_s")]
    assert len(cases) == 4
    for name in cases:
        reference = loss_vectors["losses"][name]
        z = torch.tensor(loss_vectors["logits"], dtype=torch.float64, requires_grad=True)
        value = ORCULoss(5, scale=float(name.removeprefix("orcu_s")))(z, y)
        (gradient,) = torch.autograd.grad(value, z)
        expected = torch.tensor(reference["grad"], dtype=torch.float64)
        assert value.item() == pytest.approx(reference["value"], abs=1e-10)
        torch.testing.assert_close(gradient, expected, atol=1e-10, rtol=0)


cases = st.integers(2, 9).flatmap(
    lambda c: st.tuples(
        st.lists(
            st.tuples(st.lists(st.floats(-30, 30), min_size=c, max_size=c), st.integers(0, c - 1)),
            min_size=1,
            max_size=5,
        ),
        st.floats(-2, 2).map(lambda e: 10.0**e),
    )
)


@given(cases)
@settings(deadline=None)
def test_orcu_value_equals_the_formula_of_the_paper(case):
    samples, scale = case
    z = torch.tensor([row for row, _ in samples], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([label for _, label in samples])
    loss = ORCULoss(z.shape[1], scale=scale)
    value = loss(z, y)
    softce, lbe = torch.tensor([by_hand(*s, scale) for s in samples], dtype=torch.float64).mean(0).tolist()
    assert loss.parts["softce"].item() == pytest.approx(softce, rel=1e-9, abs=1e-9)
    assert loss.parts["lbe"].item() == pytest.approx(lbe, rel=1e-9, abs=1e-9)
    assert value.item() == pytest.approx(softce + lbe, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("small", [0, 1 << 30], ids=["torch", "numpy"])
@given(case=cases)
@settings(deadline=None)
def test_orcu_fused_gradient_equals_open_and_closed_form(case, small):
    samples, scale = case
    z = torch.tensor([row for row, _ in samples], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([label for _, label in samples])
    loss = ORCULoss(z.shape[1], scale=scale)
    for reduction in ("mean", "sum"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("orcu.losses.orcu.MAX_NUMPY_SIZE", small)
            (fused,) = torch.autograd.grad(loss.evaluate(z, y, None, reduction), z)
        for other in (loss.evaluate_open, super(ORCULoss, loss).evaluate):
            (gradient,) = torch.autograd.grad(other(z, y, None, reduction), z)
            torch.testing.assert_close(fused, gradient, rtol=1e-9, atol=1e-9 * max(1, scale))


@pytest.mark.parametrize("distance", ["absolute", "huber", "exponential", {"name": "huber", "delta": 2.0}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_orcu_fused_equals_composed_for_all_distances(distance, dtype):
    generator = torch.Generator().manual_seed(0)
    z = (3 * torch.randn(50, 7, generator=generator)).to(dtype).requires_grad_()
    y = torch.randint(7, (50,), generator=generator)
    loss = ORCULoss(7, distance=distance)
    fused = loss(z, y)
    with torch.no_grad():
        torch.testing.assert_close(fused.detach(), loss(z, y))


@pytest.mark.parametrize("scale", [0.01, 0.05, 3.0, 100.0])
@pytest.mark.parametrize("num_classes", [2, 9, 40, 1000])
@pytest.mark.parametrize("size", [0.0, 1e-6, 1.0, 1e4])
@pytest.mark.parametrize("small", [0, 1 << 30], ids=["torch", "numpy"])
def test_orcu_products_of_gaps_outside_the_float_range(scale, num_classes, size, small, monkeypatch):
    """The fused form takes logarithms of products, which may over- or underflow."""
    monkeypatch.setattr("orcu.losses.orcu.MAX_NUMPY_SIZE", small)
    monkeypatch.setattr("orcu.losses.orcu.DIRECT_LOG_SIZE", 0)
    y = torch.arange(num_classes)
    reach = (torch.arange(num_classes) - y[:, None]).abs()
    z = (-size * reach).clamp(min=-1e4).float().requires_grad_()
    loss = ORCULoss(num_classes, scale=scale)
    value = loss(z, y)
    (gradient,) = torch.autograd.grad(value, z)
    with torch.no_grad():
        expected = loss.double()(z.double(), y)
    assert value.item() == pytest.approx(expected.item(), rel=1e-5, abs=1e-5)
    assert torch.isfinite(gradient).all()


def test_orcu_parts_are_reduced_and_detached():
    z = torch.tensor(LOGITS, dtype=torch.float64, requires_grad=True)
    y = torch.tensor(LABELS)
    loss = ORCULoss(5)
    assert loss.parts == {}
    value = loss(z, y)
    assert list(loss.parts) == ["softce", "lbe"]
    assert not any(part.requires_grad for part in loss.parts.values())
    torch.testing.assert_close(sum(loss.parts.values()), value.detach())
    assert loss.parts["lbe"].item() == pytest.approx(4.5448823266, abs=1e-9)
    each = ORCULoss(5, reduction="none")
    each(z, y)
    assert each.parts["softce"].shape == (3,)


def test_orcu_parts_after_a_compiled_forward():
    loss = ORCULoss(5)
    z = torch.tensor(LOGITS, requires_grad=True)
    value = torch.compile(loss, fullgraph=True, backend="aot_eager")(z, torch.tensor(LABELS))
    torch.testing.assert_close(sum(loss.parts.values()), value.detach())


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_orcu_compiles_with_inductor():
    z = torch.tensor(LOGITS, requires_grad=True)
    y = torch.tensor(LABELS)
    compiled = torch.compile(ORCULoss(5), fullgraph=True)(z, y)
    torch.testing.assert_close(compiled, ORCULoss(5)(z, y))


def test_orcu_equals_softce_plus_lbe():
    loss = ORCULoss(4, scale=2.0, distance="huber")
    same = Composed(
        orcu.losses.create("sord", num_classes=4, distance="huber"),
        orcu.losses.regularizers.create("lbe", num_classes=4, scale=2.0),
    )
    z = torch.randn(8, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = torch.arange(8) % 4
    torch.testing.assert_close(loss(z, y), same(z, y))


@pytest.mark.parametrize("change", ["scale", "strength"])
def test_orcu_changed_option_applies_in_training_and_evaluation(change):
    z = torch.tensor(LOGITS, dtype=torch.float64, requires_grad=True)
    y = torch.tensor(LABELS)
    loss = ORCULoss(5)
    setattr(loss, change, 0.5)  # an annealed barrier
    trained = loss(z, y).item()
    with torch.no_grad():
        assert loss(z, y).item() == pytest.approx(trained)
    if change == "scale":
        assert trained == pytest.approx(ORCULoss(5, scale=0.5)(z, y).item())
        with pytest.raises(InputError, match="^scale:"):
            loss.scale = 0


def test_losses_signature_and_docstring_have_the_common_arguments():
    parameters = inspect.signature(ORCULoss).parameters
    assert list(parameters) == ["num_classes", "scale", "distance", "reduction", "weight", "ignore_index"]
    assert {name: p.default for name, p in parameters.items() if name != "num_classes"} == {
        "scale": 3.0,
        "distance": "squared",
        "reduction": "mean",
        "weight": None,
        "ignore_index": -100,
    }
    for loss in (ORCULoss, CrossEntropyLoss, GapSoftPlus, EnsembleLoss):
        for name in inspect.signature(loss).parameters:
            assert f"\n    {name}: " in loss.__doc__, (loss, name)
        assert loss.__doc__.count("Args:") == 1
        assert ">>>" in loss.__doc__


@pytest.mark.parametrize("options", [{"scal": 3.0}, {"strength": 2.0}, {"anchor": None}, {"penalty": "lbe"}])
def test_orcu_unknown_argument_raises_type_error(options):
    with pytest.raises(TypeError, match=next(iter(options))):
        ORCULoss(5, **options)


def test_orcu_defaults_are_those_of_the_paper():
    loss = orcu.ORCULoss(num_classes=5)
    assert (loss.scale, loss.distance, loss.reduction) == (3.0, "squared", "mean")
    assert loss.card.defaults == {"scale": 3.0, "distance": "squared"}


def test_orcu_trains_a_model():
    torch.manual_seed(0)
    x = torch.randn(64, 3)
    y = (x[:, 0] * 1.5 + 2.5).clamp(0, 4).long()
    model = torch.nn.Linear(3, 5)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)  # every adjacent pair ties at the first step
    criterion = ORCULoss(5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    values = []
    for _ in range(60):
        optimizer.zero_grad()
        value = criterion(model(x), y)
        value.backward()
        optimizer.step()
        values.append(value.item())
    assert values[-1] < 0.5 * values[0]


@pytest.mark.parametrize("scale", [0, -3.0, float("nan"), float("inf"), "3", None, True, 1e-20, 1e20])
def test_orcu_invalid_scale_raises(scale):
    with pytest.raises(InputError, match="^scale:"):
        ORCULoss(5, scale=scale)


def test_orcu_unknown_distance_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="distance 'sqaured'.*'squared'"):
        ORCULoss(5, distance="sqaured")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
def test_orcu_on_a_gpu():
    z = torch.tensor(LOGITS, requires_grad=True)
    y = torch.tensor(LABELS)
    value = ORCULoss(5).cuda()(z.cuda(), y.cuda())
    torch.testing.assert_close(value.cpu(), ORCULoss(5)(z, y))
