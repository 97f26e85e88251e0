"""All losses and regularizers, as tests of a contract take them."""

import pytest

from orcu import losses
from orcu.losses.base import LOSSES, REGULARIZERS

NEEDS_ITS_HEAD = {"poe", "ensemble"}  # tested in test_poe.py and test_ensemble.py
SPECS = {  # as orcu.testing.check_loss takes them
    **{f"loss {name}": name for name in LOSSES.names() if name not in NEEDS_ITS_HEAD},
    **{f"regularizer {name}": REGULARIZERS.get(name) for name in REGULARIZERS.names()},
    "composed": {"anchor": "huber", "regularizer": "softplus", "strength": 0.5},
    "acls of the paper": {"name": "acls", "form": "paper"},
    "cdw_ce with a margin": {"name": "cdw_ce", "margin": 0.05},
    "mdca on focal": {"name": "mdca", "base": "focal"},
}


def factory(spec):
    if isinstance(spec, type):
        return spec
    return lambda num_classes, **options: losses.create(spec, num_classes=num_classes, **options)


FACTORIES = {title: factory(spec) for title, spec in SPECS.items()}


def those(condition):
    chosen = {name: make for name, make in FACTORIES.items() if condition(make(5))}
    assert chosen
    return pytest.mark.parametrize("make", chosen.values(), ids=chosen.keys())


every_loss = those(lambda loss: True)
per_sample_losses = those(lambda loss: not loss.batch_statistic)
