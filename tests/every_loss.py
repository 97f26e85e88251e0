"""All losses and regularizers, for tests that are parametrised over them."""

import pytest

from orcu import losses
from orcu.losses.base import LOSSES, REGULARIZERS

HEAD_LOSSES = {"poe", "ensemble"}  # take the output of a head; tested in test_poe.py and test_ensemble.py
SPECS = {  # arguments of orcu.testing.check_loss
    **{f"loss {name}": name for name in LOSSES.names() if name not in HEAD_LOSSES},
    **{f"regularizer {name}": REGULARIZERS.get(name) for name in REGULARIZERS.names()},
    "composed": {"anchor": "huber", "regularizer": "softplus", "strength": 0.5},
    "sord on binomial targets": {"name": "sord", "distance": "binomial"},
    "orcu on triangular targets": {"name": "orcu", "distance": "triangular"},
    "beta with a hinge": {"anchor": "beta", "regularizer": "hinge"},
    "acls of the paper": {"name": "acls", "form": "paper"},
    "cdw_ce with a margin": {"name": "cdw_ce", "margin": 0.05},
    "mdca on focal": {"name": "mdca", "base": "focal"},
}


def factory(spec):
    if isinstance(spec, type):
        return spec
    return lambda num_classes, **options: losses.create(spec, num_classes=num_classes, **options)


FACTORIES = {title: factory(spec) for title, spec in SPECS.items()}


def parametrize_losses(condition):
    factories = {name: make for name, make in FACTORIES.items() if condition(make(5))}
    assert factories
    return pytest.mark.parametrize("make", factories.values(), ids=factories.keys())


every_loss = parametrize_losses(lambda loss: True)
per_sample_losses = parametrize_losses(lambda loss: not loss.batch_statistic)
