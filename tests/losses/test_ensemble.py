"""EnsembleHead and EnsembleLoss: values, gradients, training, errors."""

import pytest
import torch

from orcu import losses
from orcu.errors import InputError
from orcu.losses.ensemble import EnsembleLoss
from orcu.models.classifier import Classifier
from orcu.models.heads import EnsembleHead
from orcu.models.tabular import Mlp

Y = torch.tensor([0, 1, 3, 4])


def test_ensemble_loss_is_the_mean_over_heads():
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
    weighted = head.loss(output, Y, sample_weight=weight)
    each = [
        losses.create(n, num_classes=5)(z, Y, sample_weight=weight)
        for n, z in zip(("ce", "sord", "orcu"), output.by_loss, strict=True)
    ]
    assert weighted.item() == pytest.approx(sum(value.item() for value in each) / 3)


def test_ensemble_loss_gradients_of_heads_and_backbone():
    torch.manual_seed(0)
    body, head = torch.nn.Linear(3, 8), EnsembleHead(8, 5, losses=("ce", "orcu"))
    x = torch.randn(4, 3)
    losses.create("ce", num_classes=5)(head(body(x)).by_loss[0], Y).backward()
    gradients = head.heads.weight.grad.abs().sum(1)
    assert (gradients[:5] > 0).all()
    assert (gradients[5:] == 0).all()
    body.zero_grad()
    head.loss(head(body(x)), Y).backward()
    assert (head.heads.weight.grad.abs().sum(1) > 0).all()
    assert body.weight.grad.abs().sum() > 0


def test_ensemble_head_trains_and_accepts_label_distributions():
    torch.manual_seed(0)
    x = torch.randn(300, 4)
    y = torch.bucketize(x[:, 0] - x[:, 1], torch.tensor([-1.0, 0.0, 1.0]))
    model, loss = (
        Classifier(Mlp(4, hidden_layer_sizes=(16,)), 4, head="ensemble"),
        losses.create("ensemble", num_classes=4),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(80):
        optimizer.zero_grad()
        loss(model(x).for_loss, y).backward()
        optimizer.step()
    assert (model(x).logits.argmax(1) == y).float().mean() > 0.85
    soft = loss(model(x).for_loss, torch.nn.functional.one_hot(y, 4).float())
    assert soft.item() == pytest.approx(loss(model(x).for_loss, y).item(), abs=1e-5)


def test_ensemble_loss_invalid_losses_and_outputs_raise():
    with pytest.raises(InputError, match="^losses: poe"):
        EnsembleLoss(5, losses=("ce", "poe"))
    for wrong in ("ce", ()):
        with pytest.raises(InputError, match="^losses:"):
            EnsembleLoss(5, losses=wrong)
    with pytest.raises(InputError, match="^output: .* 3 heads.* Tensor"):
        EnsembleLoss(5)(torch.zeros(4, 5), Y)
    with pytest.raises(InputError, match="^output: .* 3 heads.* 2 heads"):
        EnsembleLoss(5)(EnsembleHead(8, 5, losses=("ce", "sord"))(torch.zeros(4, 8)), Y)
    with pytest.raises(InputError, match="^y: row 3 has label 5"):
        EnsembleLoss(5)(EnsembleHead(8, 5)(torch.zeros(4, 8)), Y + 1)
