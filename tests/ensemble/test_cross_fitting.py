"""Cross-fitting folds, batched perceptrons, and the pooled ensemble."""

import numpy as np
import pytest
import torch
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit

from orcu import geometry, losses
from orcu.ensemble.ensemble import fit_ensemble
from orcu.ensemble.learner import TrainingData
from orcu.errors import InputError
from orcu.model_selection import cross_fit_folds
from orcu.models.ensemble import NetworkEnsemble, NetworkStack, make_perceptrons
from orcu.preprocessing import Inputs, TableEncoder
from orcu.training.config import TrainConfig
from orcu.training.networks import PerceptronLearner, as_module

CONFIG = TrainConfig(
    epochs=8, batch_size=64, learning_rate=0.02, head_learning_rate=0.02, scheduler="cosine", select="rps", patience=5
)
LAST_EPOCH = CONFIG.replace(select=None, patience=None)


def sample(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4))
    return x.astype(np.float32), np.digitize(x[:, 0] - x[:, 1] + 0.5 * rng.normal(size=rows), [-1.5, 0, 1.5])


def learner(*names, config=CONFIG, hidden_layer_sizes=(8,), seed=3):
    criteria = {name: losses.create(name, num_classes=4, reduction="sum") for name in names}
    return PerceptronLearner(criteria, config, hidden_layer_sizes, seed)


def data(x, y, sample_weight=None):
    return TrainingData(Inputs(None, x), y, 4, sample_weight)


def test_cross_fit_folds_partition_the_rows_and_stratify():
    _, y = sample()
    folds = cross_fit_folds(y, 5)
    assert sorted(np.concatenate([fold.test for fold in folds]).tolist()) == list(range(400))
    assert [fold.number for fold in folds] == [0, 1, 2, 3, 4]
    trained = np.zeros(400, dtype=int)
    for fold in folds:
        parts = [set(fold.train.tolist()), set(fold.early_stopping.tolist()), set(fold.test.tolist())]
        assert len(set.union(*parts)) == 400 == sum(map(len, parts))
        trained[fold.train] += 1
        assert np.bincount(y[fold.test], minlength=4) / len(fold.test) == pytest.approx(np.bincount(y) / 400, abs=0.02)
    assert trained.min() >= 3  # of five
    assert sum(len(fold.early_stopping) for fold in folds) == 5 * 40


def test_cross_fit_folds_with_groups_keep_groups_together():
    _, y = sample(600)
    groups = np.repeat(np.arange(60), 10)
    for fold in cross_fit_folds(y, 5, groups=groups):
        for rows in (fold.train, fold.early_stopping, fold.test):
            others = np.setdiff1d(np.arange(600), rows)
            assert not set(groups[rows]) & set(groups[others])
        assert 90 <= len(fold.test) <= 150
    with pytest.raises(InputError, match="^groups: 3 groups .* 5 folds"):
        cross_fit_folds(y, 5, groups=np.arange(600) % 3)


def test_cross_fit_folds_with_wrong_arguments_raise():
    _, y = sample(600)
    with pytest.raises(InputError, match="^cv: 4 rows .* 5 folds"):
        cross_fit_folds(y[:4], 5)
    for share in (-0.1, 1.0, float("nan")):
        with pytest.raises(InputError, match="^early_stopping:"):
            cross_fit_folds(y, 5, early_stopping=share)


def test_cross_fit_folds_of_a_splitter_are_its_test_folds():
    _, y = sample(60)
    splitter = KFold(4, shuffle=True, random_state=1)
    folds = cross_fit_folds(y, splitter)
    expected = [test for _, test in splitter.split(y)]
    assert all(np.array_equal(fold.test, np.sort(test)) for fold, test in zip(folds, expected, strict=True))
    groups = np.arange(60) // 6
    for fold in cross_fit_folds(y, GroupKFold(3), groups=groups):
        assert not set(groups[fold.test]) & set(groups[fold.train])
    with pytest.raises(InputError, match="^cv: .*GroupKFold"):
        cross_fit_folds(y, list(splitter.split(y)), groups=groups)
    with pytest.raises(InputError, match="^cv: "):
        cross_fit_folds(y, ShuffleSplit(3, test_size=0.5, random_state=0))
    with pytest.raises(InputError, match="^cv: row 0 "):
        cross_fit_folds(y, [(np.arange(30), np.arange(30, 45)), (np.arange(30), np.arange(45, 60))])
    with pytest.raises(InputError, match="^cv: "):
        cross_fit_folds(y, [(np.arange(0), np.arange(60))])


def test_table_encoder_codes_and_features_of_missing_and_unseen_values():
    table = {"age": [20.0, 40.0, None], "site": ["n", "s", None], "flat": [3.0, 3.0, 3.0]}
    encoder = TableEncoder.from_dict(TableEncoder.fit(table).to_dict())
    new = {"age": [30.0, None, 40.0], "site": ["other", "s", None], "flat": [3.0, 4.0, 3.0], "more": ["x", "y", "z"]}
    inputs = encoder.encode(new)
    np.testing.assert_array_equal(inputs.codes, [[30, np.nan, 3], [np.nan, 1, 4], [40, np.nan, 3]])
    scaled, missing, n_bins = inputs.features[:, 0], inputs.features[:, 1], len(encoder.columns[0].edges) - 1
    assert scaled.tolist() == [0.0, 0.0, pytest.approx(10 / (10 / 1.349) / np.hypot(1, 1.349 / 3), rel=1e-6)]
    assert missing.tolist() == [0, 1, 0]
    bins = inputs.features[:, 2 : 2 + n_bins]
    assert bins.sum(axis=1) == pytest.approx([n_bins / 2, n_bins / 2, n_bins])  # missing is the median
    assert inputs.features[:, 2 + n_bins :].tolist() == [
        [0, 0, 0, 0],
        [0, 1, 0, pytest.approx(1 / np.hypot(1, 1 / 3))],
        [0, 0, 1, 0],
    ]
    assert encoder.width == 6 + n_bins
    assert encoder.categorical == [1]
    (note,) = encoder.unseen(new)
    assert note.startswith("column 'site': 1 of 3 ")
    assert note.endswith("'other'")
    assert encoder.encode(new, features=False).features is None
    assert inputs[np.array([1])].codes.tolist() == [[pytest.approx(np.nan, nan_ok=True), 1, 4]]


def test_table_encoder_distinguishes_the_text_none_from_a_missing_value():
    encoder = TableEncoder.fit({"site": ["None", "north", None]})
    codes = encoder.encode({"site": ["None", None, "north"]}).codes
    np.testing.assert_array_equal(codes[:, 0], [0, np.nan, 1])


def test_table_encoder_with_wrong_columns_raises():
    encoder = TableEncoder.fit({"age": [20.0, 40.0], "site": ["n", "s"]})
    with pytest.raises(InputError, match="'site'"):
        encoder.encode({"age": [1.0]})
    with pytest.raises(InputError, match="^column 'age': .*'old'"):
        encoder.encode({"age": ["old"], "site": ["n"]})
    with pytest.raises(InputError, match="^column 'site':"):
        encoder.encode({"age": [1.0], "site": np.array([1.0])})
    with pytest.raises(InputError, match="^column 'x':"):
        TableEncoder.fit({"x": [1.0, float("inf")]})


def test_network_stack_equals_its_networks():
    x = torch.from_numpy(sample(30)[0])
    for sizes in ((8,), (8, 6), (8, 6, 5)):
        networks = make_perceptrons(4, 4, 3, sizes, seed=1)
        stack = NetworkStack(networks)
        logits = stack(x)
        for index, network in enumerate(networks):
            torch.testing.assert_close(logits[index], network(x).logits)
            state = stack.state_of(index)
            assert state.keys() == network.state_dict().keys()
            assert all(torch.equal(state[name], value) for name, value in network.state_dict().items())


def test_perceptrons_of_a_fold_do_not_depend_on_its_test_labels():
    """Other labels of a fold's test rows change every network but those of the fold."""
    x, y = sample()
    folds = cross_fit_folds(y, 4, early_stopping=0.0)
    other = y.copy()
    other[folds[2].test] = (y[folds[2].test] + 1) % 4
    first, second = (
        learner("ce", "orcu", config=LAST_EPOCH).cross_fit(data(x, labels), folds) for labels in (y, other)
    )
    for before, after in zip(first, second, strict=True):
        same = [
            all(torch.equal(a, b) for a, b in zip(p.parameters(), q.parameters(), strict=True))
            for p, q in zip(before.models, after.models, strict=True)
        ]
        assert same == [False, False, True, False]


def test_perceptrons_of_a_loss_do_not_depend_on_the_other_losses():
    x, y = sample()
    folds = cross_fit_folds(y, 3)
    both = learner("ce", "orcu").cross_fit(data(x, y), folds)
    single = learner("ce").cross_fit(data(x, y), folds)
    assert [member.name for member in both] == ["ce", "orcu"]
    np.testing.assert_allclose(both[0].log_probs, single[0].log_probs, atol=1e-5)
    assert both[0].n_iter == single[0].n_iter


def test_perceptrons_stop_early_and_predict_out_of_fold():
    x, y = sample()
    folds = cross_fit_folds(y, 3)
    config = CONFIG.replace(epochs=40, scheduler="constant", learning_rate=0.1)
    (member,) = learner("ce", config=config, hidden_layer_sizes=(32,)).cross_fit(data(x, y), folds)
    assert 0 < member.n_iter < 40
    for model, fold in zip(member.models, folds, strict=True):
        again = member.learner.predict_log_proba(model, Inputs(None, x[fold.test]))
        assert (again == member.log_probs[fold.test]).all()


def test_ensemble_logits_are_the_weighted_member_log_probabilities():
    x, y = sample()
    folds = cross_fit_folds(y, 4)
    ensemble = fit_ensemble([learner("ce", "sord", "orcu", hidden_layer_sizes=(16,))], data(x, y), folds)
    assert sum(ensemble.weights.values()) == pytest.approx(1)
    assert ensemble.n_folds == 4
    module = as_module(ensemble)
    assert len(module.members) == 4 * len(ensemble.members)
    assert isinstance(module, NetworkEnsemble)
    inputs = Inputs(None, x)
    with torch.no_grad():
        module_logits = module(torch.from_numpy(x)).double().numpy()
    np.testing.assert_allclose(ensemble.predict_logits(inputs), module_logits, atol=1e-5)
    by_fold = ensemble.fold_logits(ensemble.member_log_probs(inputs))
    np.testing.assert_allclose(by_fold[ensemble.fold, np.arange(len(y))], ensemble.logits, atol=1e-5)
    assert -geometry.log_probs(ensemble.logits)[np.arange(len(y)), y].mean() < 0.9
    for name, weight in ensemble.weights.items():
        assert f"{name} {weight:.2f}" in ensemble.summary() or weight == 0


def test_ensemble_fits_conformal_scores_once(monkeypatch):
    x, y = sample()
    ensemble = fit_ensemble([learner("ce")], data(x, y), cross_fit_folds(y, 3))
    calls = []
    fit = type(ensemble.sets).fit
    monkeypatch.setattr(
        type(ensemble.sets), "fit", lambda self, *args, **options: calls.append(1) or fit(self, *args, **options)
    )
    narrow, wide = (ensemble.predict_sets(Inputs(None, x), alpha) for alpha in (0.4, 0.05))
    assert calls == []
    assert (wide[0] <= narrow[0]).all()
    assert (wide[1] >= narrow[1]).all()


def test_perceptrons_with_sample_weights_favour_heavy_rows():
    x, y = sample()
    folds = cross_fit_folds(y, 3, early_stopping=0.0)
    config = LAST_EPOCH.replace(epochs=20)
    (plain,) = learner("ce", config=config).cross_fit(data(x, y), folds)
    (weighted,) = learner("ce", config=config).cross_fit(data(x, y, np.where(y == 3, 20.0, 1.0)), folds)
    assert np.exp(weighted.log_probs[:, 3]).mean() > np.exp(plain.log_probs[:, 3]).mean() + 0.05


def test_perceptrons_that_diverge_raise_with_the_epoch():
    x, y = sample()
    config = LAST_EPOCH.replace(learning_rate=1e10, head_learning_rate=1e10)
    with pytest.raises(InputError, match="epoch 0.*learning_rate"):
        learner("ce", config=config).cross_fit(data(x * 1e30, y), cross_fit_folds(y, 3))
