"""`OrdinalCriterion` in skorch's classifier."""

import numpy as np
import pytest
import torch
from sklearn.model_selection import GridSearchCV, cross_val_predict
from skorch import NeuralNetClassifier
from torch import nn

from orcu import losses, metrics
from orcu.errors import InputError
from orcu.integrations.skorch import OrdinalCriterion


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 3)).astype(np.float32)
    score = x[:, 0] + 0.3 * rng.normal(size=240)
    return x, np.digitize(score, [-0.5, 0.5]).astype(np.int64)


def net(loss="orcu", **options):
    torch.manual_seed(0)
    return NeuralNetClassifier(
        nn.Linear,
        module__in_features=3,
        module__out_features=3,
        criterion=OrdinalCriterion,
        criterion__loss=loss,
        criterion__num_classes=3,
        max_epochs=15,
        lr=0.2,
        batch_size=32,
        verbose=0,
        **options,
    )


@pytest.mark.parametrize("loss", [name for name in losses.names() if name not in {"poe", "ensemble"}])
def test_ordinal_criterion_makes_skorch_return_probabilities(table, loss):
    fitted = net(loss).fit(*table)
    probs = fitted.predict_proba(table[0])
    assert probs.sum(1) == pytest.approx(np.ones(240), abs=1e-5)
    assert (probs >= 0).all()
    with torch.no_grad():
        logits = fitted.module_(torch.from_numpy(table[0]))
    assert probs == pytest.approx(logits.softmax(1).numpy(), abs=1e-6)
    assert metrics.accuracy(probs, table[1]) > 0.6


def test_ordinal_criterion_works_in_cross_validation_and_grid_search(table):
    probs = cross_val_predict(net(criterion__scale=2.0), *table, cv=3, method="predict_proba")
    assert metrics.mae(probs, table[1]) < 0.5
    search = GridSearchCV(net(), {"criterion__scale": [0.5, 3.0]}, cv=2).fit(*table)
    assert search.best_estimator_.criterion_.criterion.scale in (0.5, 3.0)


def test_ordinal_criterion_equals_the_loss_and_refuses_invalid_losses(table):
    logits, y = torch.randn(8, 3), torch.randint(3, (8,))
    value = OrdinalCriterion(3, loss={"anchor": "huber", "regularizer": "softplus"})(logits, y)
    created = losses.create({"anchor": "huber", "regularizer": "softplus"}, num_classes=3)
    assert value == created(logits, y)
    with pytest.raises(InputError, match="'orcuu'"):
        net("orcuu").fit(*table)
    with pytest.raises(InputError, match="^loss: 'poe'"):
        OrdinalCriterion(3, loss="poe")
