"""Losses with the shapes and options of `torch.nn.CrossEntropyLoss`, beyond the contract of `orcu.testing`."""

import pytest
import torch
import torch.nn.functional as F
from every_loss import FACTORIES, every_loss, per_sample_losses

from orcu import losses
from orcu.errors import InputError
from orcu.losses import closed_form
from orcu.losses import orcu as fused
from orcu.losses.base import OrdinalLoss
from orcu.losses.functional import orcu_loss, ordinal_loss
from orcu.losses.poe import POEOutput
from orcu.testing.losses import value_and_gradient

WEIGHT = [1.0, 2.0, 3.0, 4.0, 5.0]
SHAPES = [(6, 5), (6, 5, 7), (2, 5, 3, 4), (1, 5, 6, 2), (2, 5, 2, 3, 2)]


def dense(shape=(2, 5, 3, 4), *, dtype=torch.float64, ignored=0, label=-100):
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    y = torch.randint(5, (shape[0], *shape[2:]), generator=generator)
    y.view(-1)[:ignored] = label
    return logits.requires_grad_(), y


def distributions(logits):
    return torch.rand(logits.shape, dtype=logits.dtype, generator=torch.Generator().manual_seed(1)).softmax(1)


@pytest.mark.parametrize("shape", [(5,), *SHAPES])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignored", [0, 1])
def test_ce_and_ls_equal_torch(shape, reduction, ignored):
    logits, y = dense(shape if len(shape) > 1 else (2, 5), ignored=ignored)
    if len(shape) == 1:
        logits, y = logits[1], y[1]
    weight = torch.tensor(WEIGHT, dtype=torch.float64)
    value = losses.create("ce", num_classes=5, reduction=reduction, weight=WEIGHT)(logits, y)
    torch.testing.assert_close(value, F.cross_entropy(logits, y, weight, reduction=reduction))
    value = losses.create("ls", num_classes=5, reduction=reduction, alpha=0.1)(logits, y)
    torch.testing.assert_close(value, F.cross_entropy(logits, y, label_smoothing=0.1, reduction=reduction))
    soft = distributions(logits if len(shape) > 1 else logits[None]).reshape(logits.shape)
    value = losses.create("ce", num_classes=5, reduction=reduction)(logits, soft)
    torch.testing.assert_close(value, F.cross_entropy(logits, soft, reduction=reduction))


@every_loss
def test_dense_loss_in_blocks_of_any_size_is_the_same(make, monkeypatch):
    logits, y = dense((2, 5, 3, 7))
    value, gradient = value_and_gradient(make(5), logits, y)
    for module in (closed_form, fused):
        monkeypatch.setattr(module, "MAX_NUMPY_SIZE", 0)
    for size in (5, 30, 1000):  # parts of an output, single outputs, all outputs
        for module in (closed_form, fused):
            monkeypatch.setattr(module, "BLOCK_SIZE", size)
        blockwise, blockwise_gradient = value_and_gradient(make(5), logits, y)
        torch.testing.assert_close(blockwise, value)
        torch.testing.assert_close(blockwise_gradient, gradient)


@every_loss
def test_dense_loss_of_channels_last_logits_is_the_same(make):
    logits, y = dense()
    value, gradient = value_and_gradient(make(5), logits, y)
    last = logits.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    last_value, last_gradient = value_and_gradient(make(5), last, y)
    torch.testing.assert_close(last_value, value)
    torch.testing.assert_close(last_gradient, gradient)


@pytest.mark.slow
@every_loss
def test_dense_loss_compiles_to_one_graph(make):
    torch.compiler.reset()
    logits, y = dense(dtype=torch.float32, ignored=3)
    loss = make(5)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    value, gradient = value_and_gradient(compiled, logits, y)
    expected, expected_gradient = value_and_gradient(loss, logits, y)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient, expected_gradient)


@per_sample_losses
def test_dense_loss_gradient_per_image_with_vmap(make):
    logits, y = dense(ignored=2)
    loss = make(5, reduction="sum")
    each = torch.func.vmap(torch.func.grad(lambda z, labels: loss(z[None], labels[None])))
    if loss.stops_gradient:
        pytest.skip("part of the formula is detached")
    torch.testing.assert_close(each(logits.detach(), y), value_and_gradient(loss, logits, y)[1])


def test_orcu_dense_double_backward():
    logits, y = dense((1, 5, 2))
    assert torch.autograd.gradgradcheck(lambda z: losses.create("orcu", num_classes=5)(z, y), logits)


class RowsOnly(OrdinalLoss):
    """A loss without support for dense outputs."""

    def per_sample(self, logits, y):
        assert logits.dim() == 2
        assert y.dim() == 1
        return logits.gather(1, y[:, None])[:, 0]


def test_loss_without_dense_support_accepts_dense_outputs():
    logits, y = dense(ignored=2)
    each = RowsOnly(5, reduction="none")(logits, y)
    assert each.shape == y.shape
    torch.testing.assert_close(RowsOnly(5)(logits, y), each.sum() / (y.numel() - 2))


def test_functional_losses_equal_modules():
    logits, y = dense(ignored=2)
    options = {"reduction": "sum", "weight": WEIGHT}
    torch.testing.assert_close(
        orcu_loss(logits, y, scale=2.0, **options), losses.ORCULoss(5, scale=2.0, **options)(logits, y)
    )
    spec = {"anchor": "huber", "regularizer": "softplus"}
    weight = torch.rand(y.shape, dtype=torch.float64)
    torch.testing.assert_close(
        ordinal_loss(logits, y, spec, sample_weight=weight),
        losses.create(spec, num_classes=5)(logits, y, sample_weight=weight),
    )
    torch.testing.assert_close(
        orcu_loss(logits[0, :, 0, 0], torch.tensor(1)), orcu_loss(logits[:1, :, 0, 0], torch.tensor([1]))
    )
    with pytest.raises(InputError, match="^logits: .* list"):
        ordinal_loss([[0.0, 1.0]], y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": torch.zeros(2, 4, 3).long()}, r"^y: .*\(2, 3, 4\).* int64 of shape \(2, 4, 3\)"),
        ({"y": torch.zeros(2, 5, 3, 4).long()}, r"^y: .*\(2, 3, 4\).* int64 of shape \(2, 5, 3, 4\)"),
        ({"y": torch.full((2, 3, 4), 7)}, r"^y: row \(0, 0, 0\) has label 7, expected 0..4"),
        ({"y": torch.full((2, 5, 3, 4), 0.3)}, r"^y: row 0 is \[0.3, "),
        ({"logits": torch.zeros(2, 3, 4, 5)}, r"^logits: .*\(n, 5\).*\(2, 3, 4, 5\)"),
        ({"logits": torch.zeros(2, 5, 0, 4)}, r"^logits: .*\(2, 5, 0, 4\)"),
        ({"sample_weight": torch.ones(2)}, r"^sample_weight: .*\(2, 3, 4\).*\(2,\)"),
    ],
)
def test_orcu_invalid_dense_shape_raises(change, message):
    arguments = {"logits": torch.zeros(2, 5, 3, 4), "y": torch.zeros(2, 3, 4).long()} | change
    with pytest.raises(InputError, match=message):
        losses.ORCULoss(5)(arguments.pop("logits"), arguments.pop("y"), **arguments)


@pytest.mark.parametrize("value", [1.5, "255", True])
def test_ignore_index_must_be_an_integer(value):
    with pytest.raises(InputError, match="^ignore_index:"):
        FACTORIES["loss orcu"](5, ignore_index=value)


def test_ignore_index_none_rejects_other_labels():
    with pytest.raises(InputError, match="^y: row 1 has label -100"):
        losses.ORCULoss(5, ignore_index=None)(torch.zeros(2, 5), torch.tensor([0, -100]))


def test_poe_and_ensemble_reject_dense_outputs():
    output = POEOutput(torch.zeros(2, 5, 3), torch.zeros(2, 4), torch.zeros(2, 4), None)
    with pytest.raises(InputError, match=r"^output: .*\(2, 5, 3\)"):
        losses.create("poe", num_classes=5)(output, torch.zeros(2, 3).long())
    from orcu.losses.ensemble import EnsembleOutput

    with pytest.raises(InputError, match=r"^output: .*\(3, 2, 5, 4\)"):
        losses.create("ensemble", num_classes=5)(
            EnsembleOutput(torch.zeros(2, 5, 4), torch.zeros(3, 2, 5, 4)), torch.zeros(2, 4).long()
        )
