"""Several losses on one body: the head, its loss, and a training with both."""

import pytest
import torch

from orcu import losses
from orcu.errors import InputError
from orcu.losses.ensemble import EnsembleLoss
from orcu.models.classifier import Classifier
from orcu.models.heads import EnsembleHead
from orcu.models.tabular import Mlp

Y = torch.tensor([0, 1, 3, 4])


def test_the_loss_is_the_mean_of_the_losses_of_each_head():
    torch.manual_seed(0)
    head = EnsembleHead(8, 5)
    output = head(torch.randn(4, 8))
    each = [
        losses.create(name, num_classes=5)(z, Y) for name, z in zip(("ce", "sord", "orcu"), output.by_loss, strict=True)
    ]
    assert head.loss(output, Y).item() == pytest.approx(sum(value.item() for value in each) / 3)
    parts = [value.item() for value in head.loss.parts.values()]
    assert parts == pytest.approx([value.item() for value in each])
    torch.testing.assert_close(output.logits, output.by_loss.log_softmax(-1).mean(0))
    weight = torch.tensor([1.0, 0.0, 2.0, 1.0])
    counted = head.loss(output, Y, sample_weight=weight)
    each = [
        losses.create(n, num_classes=5)(z, Y, sample_weight=weight)
        for n, z in zip(("ce", "sord", "orcu"), output.by_loss, strict=True)
    ]
    assert counted.item() == pytest.approx(sum(value.item() for value in each) / 3)


def test_each_loss_moves_its_own_head_and_all_of_them_the_body():
    torch.manual_seed(0)
    body, head = torch.nn.Linear(3, 8), EnsembleHead(8, 5, losses=("ce", "orcu"))
    x = torch.randn(4, 3)
    losses.create("ce", num_classes=5)(head(body(x)).by_loss[0], Y).backward()
    moved = head.heads.weight.grad.abs().sum(1)
    assert (moved[:5] > 0).all()
    assert (moved[5:] == 0).all()
    body.zero_grad()
    head.loss(head(body(x)), Y).backward()
    assert (head.heads.weight.grad.abs().sum(1) > 0).all()
    assert body.weight.grad.abs().sum() > 0


def test_a_model_with_the_head_learns_and_its_distributions_can_be_labels():
    torch.manual_seed(0)
    x = torch.randn(300, 4)
    y = torch.bucketize(x[:, 0] - x[:, 1], torch.tensor([-1.0, 0.0, 1.0]))
    model, loss = Classifier(Mlp(4, hidden=(16,)), 4, head="ensemble"), losses.create("ensemble", num_classes=4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(80):
        optimizer.zero_grad()
        loss(model(x).for_loss, y).backward()
        optimizer.step()
    assert (model(x).logits.argmax(1) == y).float().mean() > 0.85
    soft = loss(model(x).for_loss, torch.nn.functional.one_hot(y, 4).float())
    assert soft.item() == pytest.approx(loss(model(x).for_loss, y).item(), abs=1e-5)


def test_what_cannot_be_one_of_several_is_told():
    with pytest.raises(InputError, match="poe needs a head of its own"):
        EnsembleLoss(5, losses=("ce", "poe"))
    for wrong in ("ce", ()):
        with pytest.raises(InputError, match="losses: expected names"):
            EnsembleLoss(5, losses=wrong)
    with pytest.raises(InputError, match="ensemble of 3 losses needs the output of its own head, got Tensor"):
        EnsembleLoss(5)(torch.zeros(4, 5), Y)
    with pytest.raises(InputError, match="got 2 heads"):
        EnsembleLoss(5)(EnsembleHead(8, 5, losses=("ce", "sord"))(torch.zeros(4, 8)), Y)
    with pytest.raises(InputError, match="label 5"):
        EnsembleLoss(5)(EnsembleHead(8, 5)(torch.zeros(4, 8)), Y + 1)
