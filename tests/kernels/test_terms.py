"""Sums of an anchor and a regularizer, the specs that name them, and how a loss is added."""

import pytest
import torch
import torch.nn.functional as F

from orcu import losses
from orcu.errors import InputError
from orcu.losses import Composed


def sord(distance="squared"):
    return losses.create("sord", num_classes=5, distance=distance)


def regularizer(name, **options):
    return losses.regularizers.create(name, num_classes=5, **options)


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
            both = Composed(anchor, penalty, strength=0.3)
            torch.testing.assert_close(both(z, y), anchor(z, y) + 0.3 * penalty(z, y))
            assert list(both.parts) == ["softce", name]


@pytest.mark.parametrize(
    ("anchor", "name"), [("orcu", "lbe"), ("mbls", "mbls"), ("acls", "acls"), ("mdca", "lbe"), ("mdca", "mdca")]
)
def test_two_terms_of_a_kind_both_count(anchor, name):
    z = (20 * torch.randn(6, 5, generator=torch.Generator().manual_seed(0))).requires_grad_()
    y = torch.arange(6) % 5
    first, second = losses.create(anchor, num_classes=5), regularizer(name)
    both = losses.create({"anchor": anchor, "regularizer": name, "strength": 0.5}, num_classes=5)
    expected = first(z, y) + 0.5 * second(z, y)
    torch.testing.assert_close(both(z, y), expected)
    torch.testing.assert_close(torch.autograd.grad(both(z, y), z)[0], torch.autograd.grad(expected, z)[0])
    torch.testing.assert_close(sum(both.parts.values()), expected.detach())


def test_poe_is_no_term():
    with pytest.raises(InputError, match="anchor: poe needs its own head"):
        losses.create({"anchor": "poe", "regularizer": "lbe"}, num_classes=5)


def test_a_loss_must_define_its_value():
    with pytest.raises(TypeError, match="must define per_sample or evaluate"):
        losses.OrdinalLoss(5)(torch.zeros(2, 5), torch.tensor([0, 1]))


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


def test_the_regularizer_knows_the_strength_of_its_authors():
    strengths = {name: Composed(sord(), regularizer(name)).strength for name in losses.regularizers.names()}
    assert strengths == {"acls": 0.1, "hinge": 1, "lbe": 1, "mbls": 0.1, "mdca": 1, "softplus": 1}


def test_the_registries_hold_what_the_paper_compares():
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
def test_specs_name_losses(spec, same_as):
    z = 20 * torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    y = torch.arange(6) % 5
    ours, theirs = losses.create(spec, num_classes=5), losses.create(same_as, num_classes=5)
    torch.testing.assert_close(ours(z, y), theirs(z, y))


def test_options_of_a_sum_are_checked():
    spec = {"anchor": "ce", "regularizer": "lbe"}
    assert losses.create(spec, num_classes=5, strength=2).strength == 2
    with pytest.raises(InputError, match="option of a sum 'strenght'. Did you mean 'strength'"):
        losses.create(spec, num_classes=5, strenght=2)


def test_the_ablation_is_two_loops():
    z = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    y = torch.arange(6) % 5
    values = {
        (anchor, name): losses.create({"anchor": anchor, "regularizer": name}, num_classes=5)(z, y).item()
        for anchor in losses.distances.names()
        for name in losses.regularizers.names()
    }
    assert len(values) == 24


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ocru", "unknown loss 'ocru'. Did you mean 'orcu'"),
        ({"name": "orcu", "scal": 3.0}, "option of loss 'orcu' 'scal'. Did you mean 'scale'"),
        ({"anchor": "hubber", "regularizer": "lbe"}, "unknown anchor 'hubber'. Did you mean 'huber'"),
        ({"anchor": "huber", "regularizer": "lbee"}, "unknown regularizer 'lbee'. Did you mean 'lbe'"),
        ({"anchor": "huber"}, "needs a 'name', or an 'anchor' and a 'regularizer'"),
        ({"anchor": "huber", "regulariser": "lbe"}, "key of a loss 'regulariser'. Did you mean 'regularizer'"),
        ("{name = orcu}", "is no TOML table"),
        ({"name": "orcu", "num_classes": 7}, "num_classes is given by the data"),
    ],
)
def test_bad_specs_are_named(spec, message):
    with pytest.raises(InputError, match=message):
        losses.create(spec, num_classes=5)


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
