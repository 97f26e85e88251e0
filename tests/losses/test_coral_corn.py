"""Losses of CORAL and CORN compared with loops and with coral-pytorch."""

import pytest
import torch
from coral_pytorch.dataset import levels_from_labelbatch
from coral_pytorch.losses import coral_loss, corn_loss

from orcu import losses
from orcu.models.heads import CoralHead, CornHead


def batch(rows=30, num_classes=6):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 4, generator=generator, dtype=torch.float64)
    return x, torch.randint(num_classes, (rows,), generator=generator)


def test_coral_loss_equals_coral_pytorch_in_value_and_gradient():
    x, y = batch()
    torch.manual_seed(0)
    head = CoralHead(4, 6).double()
    logits = head.score(x) - head.thresholds
    expected = coral_loss(logits, levels_from_labelbatch(y, 6, dtype=torch.float64))
    value = losses.create("coral", num_classes=6)(head(x), y)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)
    gradients = torch.autograd.grad(value, head.parameters())
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, head.parameters()), rtol=1e-9, atol=1e-12)


def test_coral_loss_equals_a_loop_over_thresholds_for_logits_of_any_head():
    z = 3 * torch.randn(20, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = torch.arange(20) % 5
    values = losses.create("coral", num_classes=5, reduction="none")(z, y)
    for row, label, value in zip(z.softmax(1), y.tolist(), values, strict=True):
        expected = -sum(row[k + 1 :].sum().log() if label > k else row[: k + 1].sum().log() for k in range(4))
        assert value.item() == pytest.approx(expected.item(), rel=1e-12)


def test_coral_loss_gradient_in_the_tails_equals_autograd():
    generator = torch.Generator().manual_seed(2)
    z = 700 * torch.randn(12, 6, generator=generator, dtype=torch.float64)  # probabilities underflow
    z.requires_grad_()
    y = torch.arange(12) % 6
    value = losses.create("coral", num_classes=6)(z, y)
    (gradient,) = torch.autograd.grad(value, z)
    log_probs = z.log_softmax(1)
    below = torch.stack([log_probs[:, : k + 1].logsumexp(1) for k in range(5)], 1)
    above = torch.stack([log_probs[:, k + 1 :].logsumexp(1) for k in range(5)], 1)
    expected = -torch.where(y[:, None] > torch.arange(5), above, below).sum(1).mean()
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, z)[0], rtol=1e-9, atol=1e-12)


def test_corn_loss_equals_coral_pytorch_in_value_and_gradient():
    x, y = batch()
    torch.manual_seed(0)
    head = CornHead(4, 6).double()
    expected = corn_loss(head.conditional(x), y, 6)
    value = losses.create("corn", num_classes=6)(head(x), y)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)
    gradients = torch.autograd.grad(value, head.parameters())
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, head.parameters()), rtol=1e-9, atol=1e-12)


def test_corn_loss_is_cross_entropy_with_another_divisor():
    x, y = batch()
    z = CornHead(4, 6).double()(x)
    questions = torch.clamp(y + 1, max=5).sum()
    ce = losses.create("ce", num_classes=6)(z, y)
    torch.testing.assert_close(losses.create("corn", num_classes=6)(z, y), ce * len(y) / questions)


@pytest.mark.parametrize("name", ["coral", "corn"])
def test_loss_of_a_head_is_a_loss_of_logits_too(name):
    loss = losses.create(name, num_classes=4)
    assert loss.head == name
    assert not loss.needs_head
    composed = losses.create({"anchor": "coral", "regularizer": "lbe"}, num_classes=4)
    assert torch.isfinite(composed(torch.zeros(2, 4), torch.tensor([0, 3])))
