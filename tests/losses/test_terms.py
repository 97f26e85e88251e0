"""Anchors, gap regularizers and their sums, against torch, loops and the reference vectors."""

import pytest
import torch
import torch.nn.functional as F

from orcu import losses
from orcu.errors import InputError
from orcu.losses import Composed


def reference(loss_vectors, name):
    case = loss_vectors["losses"][name]
    z = torch.tensor(loss_vectors["logits"], dtype=torch.float64, requires_grad=True)
    y = torch.tensor(loss_vectors["labels"])
    return z, y, case["value"], torch.tensor(case["grad"], dtype=torch.float64)


def sord(distance="squared"):
    return losses.create("sord", num_classes=5, distance=distance)


def regularizer(name, **options):
    return losses.regularizers.create(name, num_classes=5, **options)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("ce", lambda: losses.create("ce", num_classes=5)),
        ("sord_squared", sord),
        ("sord_absolute", lambda: sord("absolute")),
        ("sord_huber", lambda: sord("huber")),
        ("sord_exponential", lambda: sord("exponential")),
        ("lbe_s0.05", lambda: regularizer("lbe", scale=0.05)),
        ("lbe_s1.0", lambda: regularizer("lbe", scale=1.0)),
        ("lbe_s3.0", lambda: regularizer("lbe", scale=3.0)),
        ("lbe_s10.0", lambda: regularizer("lbe", scale=10.0)),
        ("softce_plus_hinge_s3", lambda: Composed(sord(), regularizer("hinge", scale=3.0))),
        ("softce_plus_softplus_gaps", lambda: Composed(sord(), regularizer("softplus"))),
    ],
)
def test_values_and_gradients_of_the_reference_vectors(loss_vectors, name, make):
    z, y, value, gradient = reference(loss_vectors, name)
    ours = make()(z, y)
    (our_gradient,) = torch.autograd.grad(ours, z)
    assert ours.item() == pytest.approx(value, abs=1e-10)
    torch.testing.assert_close(our_gradient, gradient, atol=1e-10, rtol=0)


def test_ce_and_sord_are_torchs_cross_entropies():
    z = torch.randn(20, 5, generator=torch.Generator().manual_seed(0))
    y = torch.arange(20) % 5
    torch.testing.assert_close(losses.create("ce", num_classes=5)(z, y), F.cross_entropy(z, y))
    loss = sord()
    targets = loss.targets.float()[y]
    torch.testing.assert_close(loss(z, y), F.cross_entropy(z, targets))


def test_any_anchor_goes_with_any_regularizer():
    z = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    y = torch.arange(6) % 5
    for distance in losses.distances.names():
        for name in losses.regularizers.names():
            anchor, penalty = sord(distance), regularizer(name)
            both = Composed(anchor, penalty, strength=0.1)
            torch.testing.assert_close(both(z, y), anchor(z, y) + 0.1 * penalty(z, y))
            assert list(both.parts) == ["softce", name]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda: (sord(), losses.regularizers.create("lbe", num_classes=4)), "made for 4 classes"),
        (lambda: (sord(), torch.nn.MSELoss()), "regularizer: expected a loss of orcu, got MSELoss"),
        (lambda: ("sord", regularizer("lbe")), "anchor: expected a loss of orcu, got str"),
    ],
)
def test_terms_must_fit(arguments, message):
    with pytest.raises(InputError, match=message):
        Composed(*arguments())


def test_strength_must_be_positive():
    with pytest.raises(InputError, match="strength"):
        Composed(sord(), regularizer("lbe"), strength=0)


def test_a_new_loss_is_one_decorated_class():
    from orcu.losses.base import LOSSES, LossCard, OrdinalLoss, register_loss

    card = LossCard(name="mine", title="Mine", family="ordinal", paper="me", formula="z_y^2")
    try:

        @register_loss(card)
        class Mine(OrdinalLoss):
            def __init__(self, num_classes, *, power=2.0, reduction="mean", weight=None):
                super().__init__(num_classes, reduction=reduction, weight=weight)
                self.power = power

            def per_sample(self, logits, y):
                return logits.gather(1, y[:, None])[:, 0].abs() ** self.power

        loss = losses.create({"name": "mine", "power": 3.0}, num_classes=3)
        assert loss(torch.tensor([[0.0, 2.0, 0.0]]), torch.tensor([1])).item() == 8.0
        assert loss.card.defaults == {"power": 2.0}
    finally:
        LOSSES._things.pop("mine", None)
