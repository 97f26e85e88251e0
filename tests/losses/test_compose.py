"""Sums of an anchor and a regularizer, specs of losses, and registration of a loss."""

import pytest
import torch
import torch.nn.functional as F

from orcu import losses
from orcu.errors import InputError, UnknownNameError
from orcu.losses import Composed


def sord(distance="squared"):
    return losses.create("sord", num_classes=5, distance=distance)


def regularizer(name, **options):
    return losses.regularizers.create(name, num_classes=5, **options)


def test_ce_and_sord_equal_torch_cross_entropy():
    z = torch.randn(20, 5, generator=torch.Generator().manual_seed(0))
    y = torch.arange(20) % 5
    torch.testing.assert_close(losses.create("ce", num_classes=5)(z, y), F.cross_entropy(z, y))
    loss = sord()
    targets = loss.targets.float()[y]
    torch.testing.assert_close(loss(z, y), F.cross_entropy(z, targets))


def test_composed_any_anchor_with_any_regularizer():
    z = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    y = torch.arange(6) % 5
    for distance in losses.distances.names():
        for name in losses.regularizers.names():
            anchor, penalty = sord(distance), regularizer(name)
            both = Composed(anchor, penalty, strength=0.3)
            torch.testing.assert_close(both(z, y), anchor(z, y) + 0.3 * penalty(z, y))
            assert list(both.parts) == ["softce", name]


@pytest.mark.parametrize(
    ("anchor", "name"), [("orcu", "lbe"), ("mbls", "mbls"), ("acls", "acls"), ("mdca", "lbe"), ("mdca", "mdca")]
)
def test_composed_two_terms_of_the_same_name_both_count(anchor, name):
    z = (20 * torch.randn(6, 5, generator=torch.Generator().manual_seed(0))).requires_grad_()
    y = torch.arange(6) % 5
    first, second = losses.create(anchor, num_classes=5), regularizer(name)
    both = losses.create({"anchor": anchor, "regularizer": name, "strength": 0.5}, num_classes=5)
    expected = first(z, y) + 0.5 * second(z, y)
    torch.testing.assert_close(both(z, y), expected)
    torch.testing.assert_close(torch.autograd.grad(both(z, y), z)[0], torch.autograd.grad(expected, z)[0])
    torch.testing.assert_close(sum(both.parts.values()), expected.detach())


def test_composed_rejects_poe():
    with pytest.raises(InputError, match="^anchor: poe"):
        losses.create({"anchor": "poe", "regularizer": "lbe"}, num_classes=5)


def test_ordinal_loss_without_per_sample_raises():
    with pytest.raises(TypeError, match="per_sample"):
        losses.OrdinalLoss(5)(torch.zeros(2, 5), torch.tensor([0, 1]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda: (sord(), losses.regularizers.create("lbe", num_classes=4)), "^regularizer: .* 4 classes.* 5 "),
        (lambda: (sord(), torch.nn.MSELoss()), "^regularizer: .* MSELoss"),
        (lambda: ("sord", regularizer("lbe")), "^anchor: .* str"),
    ],
)
def test_composed_invalid_terms_raise(arguments, message):
    with pytest.raises(InputError, match=message):
        Composed(*arguments())


def test_composed_strength_must_be_positive():
    with pytest.raises(InputError, match="^strength:"):
        Composed(sord(), regularizer("lbe"), strength=0)


def test_composed_default_strength_is_that_of_the_authors():
    strengths = {name: Composed(sord(), regularizer(name)).strength for name in losses.regularizers.names()}
    assert strengths == {"acls": 0.1, "hinge": 1, "lbe": 1, "mbls": 0.1, "mdca": 1, "softplus": 1}


def test_registries_have_the_losses_of_the_paper():
    assert set(losses.names()) >= {
        *("acls", "cdw_ce", "ce", "co2", "flsd", "ls", "mbls", "mdca", "orcu", "poe", "sord")
    }
    regularizers = {"acls", "hinge", "lbe", "mbls", "mdca", "softplus"}
    assert set(losses.regularizers.names()) >= regularizers
    assert set(losses.distances.names()) >= {"absolute", "exponential", "huber", "squared"}


@pytest.mark.parametrize(
    ("spec", "same_as"),
    [
        ("orcu", {"name": "orcu"}),
        ({"name": "orcu", "scale": 3.0}, "orcu"),
        ('{name = "orcu", scale = 3.0}', "orcu"),
        ({"anchor": "squared", "regularizer": "lbe"}, "orcu"),
        ('{anchor = "squared", regularizer = {name = "lbe", scale = 3.0}}', "orcu"),
        ({"anchor": "ce", "regularizer": "mbls"}, "mbls"),
        ({"anchor": "ce", "regularizer": "mdca", "strength": 1}, "mdca"),
        ({"anchor": {"name": "ls", "alpha": 0.0}, "regularizer": "acls"}, "acls"),
        (
            {"anchor": {"name": "huber", "delta": 1.0}, "regularizer": "softplus"},
            {"anchor": "huber", "regularizer": "softplus"},
        ),
    ],
)
def test_create_equivalent_specs(spec, same_as):
    z = 20 * torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    y = torch.arange(6) % 5
    actual, expected = (losses.create(loss, num_classes=5) for loss in (spec, same_as))
    torch.testing.assert_close(actual(z, y), expected(z, y))


def test_create_composed_unknown_option_raises():
    spec = {"anchor": "ce", "regularizer": "lbe"}
    assert losses.create(spec, num_classes=5, strength=2).strength == 2
    with pytest.raises(UnknownNameError, match="'strenght'.*'strength'"):
        losses.create(spec, num_classes=5, strenght=2)


def test_create_all_anchors_with_all_regularizers():
    z = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    y = torch.arange(6) % 5
    values = {
        (anchor, name): losses.create({"anchor": anchor, "regularizer": name}, num_classes=5)(z, y).item()
        for anchor in (*losses.distances.names(), *losses.distributions.names())
        for name in losses.regularizers.names()
    }
    assert len(values) == 6 * 9


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ocru", "loss 'ocru'.*'orcu'"),
        ({"name": "orcu", "scal": 3.0}, "'orcu' 'scal'.*'scale'"),
        ({"anchor": "hubber", "regularizer": "lbe"}, "anchor 'hubber'.*'huber'"),
        ({"anchor": "huber", "regularizer": "lbee"}, "regularizer 'lbee'.*'lbe'"),
        ({"anchor": "huber"}, "^loss: .*'name'.*'anchor'.*'regularizer'"),
        ({"anchor": "huber", "regulariser": "lbe"}, "'regulariser'.*'regularizer'"),
        ("{name = orcu}", "^loss: '{name = orcu}'"),
        ({"name": "orcu", "num_classes": 7}, "^loss: .*num_classes"),
    ],
)
def test_create_invalid_spec_raises(spec, message):
    with pytest.raises(InputError, match=message):
        losses.create(spec, num_classes=5)


def test_register_loss_adds_a_loss():
    from orcu.losses.base import LOSSES, LossCard, OrdinalLoss, register_loss

    card = LossCard(name="power", title="Power", family="ordinal", paper="none", formula="|z_y|^power")
    try:

        @register_loss(card)
        class PowerLoss(OrdinalLoss):
            def __init__(self, num_classes, *, power=2.0, reduction="mean", weight=None):
                super().__init__(num_classes, reduction=reduction, weight=weight)
                self.power = power

            def per_sample(self, logits, y):
                return logits.gather(1, y[:, None])[:, 0].abs() ** self.power

        loss = losses.create({"name": "power", "power": 3.0}, num_classes=3)
        assert loss(torch.tensor([[0.0, 2.0, 0.0]]), torch.tensor([1])).item() == 8.0
        assert loss.card.defaults == {"power": 2.0}
    finally:
        LOSSES._components.pop("power", None)
