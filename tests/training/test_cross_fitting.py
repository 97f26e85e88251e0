"""Cross-fitting: who may learn from which rows, and many networks as one."""

import numpy as np
import pytest
import torch

from orcu import geometry, losses
from orcu.calibrators.pool import pool
from orcu.errors import InputError
from orcu.model_selection import deal
from orcu.models.ensemble import Ensemble, Stack, perceptrons
from orcu.training.config import TrainConfig
from orcu.training.cross_fitting import out_of_fold, train_together
from orcu.training.ensemble import as_module

RECIPE = TrainConfig(epochs=8, batch_size=64, rate=0.02, head_rate=0.02, schedule="cosine", select="rps", patience=5)


def sample(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4))
    return torch.from_numpy(x).float(), np.digitize(x[:, 0] - x[:, 1] + 0.5 * rng.normal(size=rows), [-1.5, 0, 1.5])


def test_every_row_trains_and_is_held_once_and_none_does_both():
    _, y = sample()
    folds = deal(y, 5)
    assert sorted(np.concatenate([fold.held for fold in folds]).tolist()) == list(range(400))
    trained = np.zeros(400, dtype=int)
    for fold in folds:
        parts = [set(fold.train.tolist()), set(fold.stop.tolist()), set(fold.held.tolist())]
        assert len(set.union(*parts)) == 400 == sum(map(len, parts))
        trained[fold.train] += 1
        assert np.bincount(y[fold.held], minlength=4) / len(fold.held) == pytest.approx(np.bincount(y) / 400, abs=0.02)
    assert trained.min() >= 3  # of five
    assert sum(len(fold.stop) for fold in folds) == 5 * 40


def test_groups_stay_together_and_classes_are_spread():
    _, y = sample(600)
    groups = np.repeat(np.arange(60), 10)
    for fold in deal(y, 5, groups=groups):
        for rows in (fold.train, fold.stop, fold.held):
            others = np.setdiff1d(np.arange(600), rows)
            assert not set(groups[rows]) & set(groups[others])
        assert 90 <= len(fold.held) <= 150
    with pytest.raises(InputError, match="3 groups cannot be dealt into 5 folds"):
        deal(y, 5, groups=np.arange(600) % 3)
    with pytest.raises(InputError, match="4 rows cannot be dealt into 5"):
        deal(y[:4], 5)
    for share in (-0.1, 1.0, float("nan")):
        with pytest.raises(InputError, match="stop: expected a share"):
            deal(y, 5, stop=share)


def test_a_stack_is_its_networks():
    x, _ = sample(30)
    for hidden in ((8,), (8, 6), (8, 6, 5)):
        networks = perceptrons(4, 4, 3, hidden=hidden, seed=1)
        stack = Stack(networks)
        together = stack(x)
        for place, network in enumerate(networks):
            torch.testing.assert_close(together[place], network(x).logits)
            state = stack.state_of(place)
            assert state.keys() == network.state_dict().keys()
            assert all(torch.equal(state[name], value) for name, value in network.state_dict().items())


def criteria(*names):
    return {name: losses.create(name, num_classes=4, reduction="sum") for name in names}


def test_networks_learn_nothing_of_the_rows_they_are_held_from():
    """Other labels of a fold's rows change every network but those of the fold."""
    x, y = sample()
    folds = deal(y, 4, stop=0.0)
    other = y.copy()
    other[folds[2].held] = (y[folds[2].held] + 1) % 4
    options = {"num_classes": 4, "hidden": (8,), "seed": 3}
    first = train_together(criteria("ce", "orcu"), x, y, folds, RECIPE.but(select=None, patience=None), **options)
    second = train_together(criteria("ce", "orcu"), x, other, folds, RECIPE.but(select=None, patience=None), **options)
    for one, two in zip(first, second, strict=True):
        same = [
            all(torch.equal(a, b) for a, b in zip(p.parameters(), q.parameters(), strict=True))
            for p, q in zip(one.networks, two.networks, strict=True)
        ]
        assert same == [False, False, True, False]


def test_losses_do_not_see_each_other():
    x, y = sample()
    folds = deal(y, 3)
    options = {"num_classes": 4, "hidden": (8,)}
    both = train_together(criteria("ce", "orcu"), x, y, folds, RECIPE, seed=3, **options)
    alone = train_together(criteria("ce"), x, y, folds, RECIPE, seed=3, **options)
    np.testing.assert_allclose(both[0].log_probs, alone[0].log_probs, atol=1e-5)
    assert both[0].epochs == alone[0].epochs


def test_each_network_keeps_its_best_epoch():
    x, y = sample()
    folds = deal(y, 3)
    fitted = train_together(
        criteria("ce"), x, y, folds, RECIPE.but(epochs=40, schedule="constant", rate=0.1), num_classes=4, hidden=(32,)
    )[0]
    assert max(fitted.epochs) < 40  # stopped
    assert len(set(fitted.epochs)) > 1
    again = out_of_fold(fitted.networks, x, folds, 4)
    assert (again == fitted.log_probs).all()


def test_a_pool_answers_as_its_members_weighed():
    x, y = sample()
    folds = deal(y, 4)
    fitted = train_together(criteria("ce", "sord", "orcu"), x, y, folds, RECIPE, num_classes=4, hidden=(16,))
    ensemble = pool(fitted, folds, y)
    assert sum(ensemble.weights.values()) == pytest.approx(1)
    module = as_module(ensemble)
    assert len(module.members) == 4 * len(ensemble.kept)
    assert isinstance(module, Ensemble)
    with torch.no_grad():
        together = module(x).double().numpy()
    by_fold = ensemble.by_fold(np.stack([one.said(x) for one in ensemble.kept]))
    np.testing.assert_allclose(by_fold.mean(axis=0), together, atol=1e-5)
    mine = by_fold[ensemble.fold, np.arange(len(y))]
    np.testing.assert_allclose(mine, ensemble.logits, atol=1e-5)  # out of fold
    assert -geometry.log_probs(ensemble.logits)[np.arange(len(y)), y].mean() < 0.9


def test_weights_of_rows_count_and_a_training_that_diverges_says_so():
    x, y = sample()
    folds = deal(y, 3, stop=0.0)
    options = {"num_classes": 4, "hidden": (8,), "seed": 3}
    recipe = RECIPE.but(select=None, patience=None, epochs=20)
    heavy = np.where(y == 3, 20.0, 1.0).astype(np.float32)
    plain = train_together(criteria("ce"), x, y, folds, recipe, **options)[0]
    moved = train_together(criteria("ce"), x, y, folds, recipe, weight=heavy, **options)[0]
    assert np.exp(moved.log_probs[:, 3]).mean() > np.exp(plain.log_probs[:, 3]).mean() + 0.05
    with pytest.raises(InputError, match="training diverged in epoch"):
        train_together(criteria("ce"), x * 1e30, y, folds, recipe.but(rate=1e10, head_rate=1e10), **options)
