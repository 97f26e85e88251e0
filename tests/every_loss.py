"""All losses and regularizers, as tests of a contract take them."""

import pytest
import torch

from orcu import losses
from orcu.losses.base import LOSSES, REGULARIZERS

NEEDS_ITS_HEAD = {"poe", "committee"}  # tested in test_poe.py and test_committee.py
FACTORIES = {
    **{f"loss {name}": LOSSES.get(name) for name in LOSSES.names() if name not in NEEDS_ITS_HEAD},
    **{f"regularizer {name}": REGULARIZERS.get(name) for name in REGULARIZERS.names()},
    "composed": lambda num_classes, **options: losses.create(
        {"anchor": "huber", "regularizer": "softplus", "strength": 0.5}, num_classes=num_classes, **options
    ),
    "acls of the paper": lambda num_classes, **options: losses.create(
        {"name": "acls", "form": "paper"}, num_classes=num_classes, **options
    ),
    "cdw_ce with a margin": lambda num_classes, **options: losses.create(
        {"name": "cdw_ce", "margin": 0.05}, num_classes=num_classes, **options
    ),
    "mdca on focal": lambda num_classes, **options: losses.create(
        {"name": "mdca", "base": "focal"}, num_classes=num_classes, **options
    ),
}


def those(condition):
    chosen = {name: make for name, make in FACTORIES.items() if condition(make(5))}
    assert chosen
    return pytest.mark.parametrize("make", chosen.values(), ids=chosen.keys())


every_loss = those(lambda loss: True)
per_sample_losses = those(lambda loss: not loss.batch_statistic)
batch_statistics = those(lambda loss: loss.batch_statistic)
whole_gradients = those(lambda loss: not loss.stops_gradient)


def value_and_gradient(loss, logits, y, **kwargs):
    value = loss(logits, y, **kwargs)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    return value.detach(), gradient
