"""`OrdinalClassifier` as an ensemble of networks."""

import pickle

import numpy as np
import pytest
import torch

from orcu import OrdinalClassifier, metrics
from orcu.calibrators import AutoCalibration, CalibrationWarning
from orcu.decisions.conformal import CrossConformalSets
from orcu.decisions.disagreement import mutual_information
from orcu.errors import InputError
from orcu.models.heads import CoralHead, CumulativeHead
from orcu.training.networks import PerceptronLearner

QUICK = {"estimators": "network", "hidden_layer_sizes": (16,), "epochs": 12, "learning_rate": 0.03, "random_state": 0}


def sample(rows=600, noise=0.8, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4))
    return x, np.digitize(x[:, 0] - x[:, 1] + noise * rng.normal(size=rows), [-1.5, 0, 1.5])


@pytest.fixture(scope="module")
def fitted():
    return OrdinalClassifier(**QUICK).fit(*sample())


def test_ensemble_has_lower_rps_than_a_single_network(fitted):
    x, y = sample(4000, seed=9)
    assert set(fitted.weights_) == {"ce", "sord", "orcu"}
    assert sum(fitted.weights_.values()) == pytest.approx(1)
    assert len(fitted.model_.members) == 5 * sum(weight > 0 for weight in fitted.weights_.values())
    assert isinstance(fitted.calibrator_, AutoCalibration)
    single = OrdinalClassifier("orcu", cv=1, **QUICK).fit(*sample())
    ours, theirs = fitted.predict_proba(x), single.predict_proba(x)
    assert metrics.unimodality(ours) == 1
    assert metrics.rps(ours, y) < metrics.rps(theirs, y)
    assert metrics.nll(ours, y) < metrics.nll(theirs, y)


def test_predict_proba_is_the_calibrated_mean_of_log_probabilities(fitted):
    x, _ = sample(50, seed=3)
    with torch.no_grad():
        log_probs = fitted.model_.log_probs(torch.from_numpy(fitted._encode(x).features)).double().numpy()
    logits = np.einsum("m,mnc->nc", fitted.model_.weights.double().numpy(), log_probs)
    np.testing.assert_allclose(fitted.predict_logits(x), logits, atol=1e-5)
    np.testing.assert_allclose(fitted.predict_proba(x), fitted.calibrator_.predict_proba(logits), atol=1e-5)


def test_mutual_information_of_members_is_higher_far_from_the_training_rows(fitted):
    x, _ = sample(200, seed=3)
    members = fitted.predict_proba_members(x)
    assert members.shape == (len(fitted.model_.members), 200, 4)
    far = fitted.predict_proba_members(5 * np.random.default_rng(0).normal(size=(200, 4)) * [0, 0, 1, 1])
    assert mutual_information(far).mean() > mutual_information(members).mean()
    single = OrdinalClassifier("ce", cv=1, **QUICK).fit(*sample())
    assert single.predict_proba_members(x).shape == (1, 200, 4)
    with pytest.raises(InputError, match="shape"):
        mutual_information(members[0])


def test_ensemble_same_random_state_and_pickle_give_the_same_bits(fitted):
    x, y = sample()
    again = OrdinalClassifier(**QUICK).fit(x, y)
    assert (again.predict_proba(x) == fitted.predict_proba(x)).all()
    copied = pickle.loads(pickle.dumps(fitted))
    assert (copied.predict_proba(x) == fitted.predict_proba(x)).all()
    assert (copied.predict_sets(x) == fitted.predict_sets(x)).all()
    with pytest.raises(InputError, match="^diagnose:"):
        copied.diagnose()


def test_ensemble_with_groups_keeps_each_group_in_one_fold():
    x, y = sample(300)
    groups = np.arange(300) % 30
    model = OrdinalClassifier(**QUICK).fit(x, y, groups=groups)
    for group in range(30):
        assert len(set(model.ensemble_.fold[groups == group])) == 1
    split = OrdinalClassifier(**QUICK, sets="split", calibration_fraction=0.2).fit(x, y, groups=groups)
    assert 40 <= len(split._set_rows[1]) <= 60
    with pytest.raises(InputError, match="^groups: 4 groups .* 5 folds"):
        model.fit(x, y, groups=np.arange(300) % 4)
    single = OrdinalClassifier(**QUICK, cv=1).fit(x, y, groups=groups)
    parts = [set(groups[rows]) for rows in single._training_rows.splits.values()]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 30
    with pytest.raises(ValueError, match="^groups: expected one entry per row"):
        model.fit(x, y, groups=groups[:-1])


def test_ensemble_with_few_rows_warns_and_uses_fewer_folds():
    x, y = sample(14)
    with pytest.warns(CalibrationWarning, match="^cv: 14 rows .* 5 folds; using 3"):
        model = OrdinalClassifier(**QUICK).fit(x, y)
    assert model.ensemble_.fold.max() == 2
    assert metrics.unimodality(model.predict_proba(x)) == 1


def test_ensemble_with_a_class_of_one_row_gives_positive_probabilities():
    x, y = sample(200)
    y = np.minimum(y, 2)
    y[7] = 3
    model = OrdinalClassifier(**QUICK).fit(x, y)
    probs = model.predict_proba(x)
    assert probs.shape == (200, 4)
    assert (probs > 0).all()


def test_time_limit_reached_keeps_the_first_loss():
    x, y = sample(300)
    limited = OrdinalClassifier(**QUICK, time_limit=1e-6).fit(x, y)
    assert limited.weights_ == {"ce": 1.0}
    assert len(limited.model_.members) == 5
    unlimited = OrdinalClassifier(**QUICK, time_limit=1e6).fit(x, y)
    assert set(unlimited.weights_) == {"ce", "sord", "orcu"}


@pytest.mark.parametrize("loss", ["poe", "mdca", ("ce", "poe"), [{"name": "orcu", "scale": 1.0}, "orcu"]])
def test_ensemble_accepts_unbatchable_losses_and_loss_tables(loss):
    x, y = sample(300)
    if isinstance(loss, list):
        with pytest.raises(InputError, match="^loss: .*'orcu'"):
            OrdinalClassifier(loss, **QUICK).fit(x, y)
        loss = [{"name": "orcu", "scale": 1.0, "label": "s = 1"}, "orcu"]
    model = OrdinalClassifier(loss, **QUICK | {"epochs": 15}).fit(x, y)
    assert model.score(x, y) > 0.5
    assert sum(model.weights_.values()) == pytest.approx(1)


def test_ensemble_of_a_module_is_cross_fitted():
    x, y = sample(300)
    module = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    model = OrdinalClassifier(("ce", "orcu"), module=module, epochs=8, learning_rate=0.05, random_state=0).fit(x, y)
    assert len(model.model_.members) in {5, 10}
    assert model.score(x, y) > 0.6


def test_warm_start_and_partial_fit_of_an_ensemble_raise(fitted):
    x, y = sample(200)
    before = fitted.predict_proba(x)
    with pytest.raises(InputError, match="^partial_fit:"):
        fitted.partial_fit(x, y)
    assert (fitted.predict_proba(x) == before).all()
    with pytest.raises(InputError, match="^warm_start:"):
        OrdinalClassifier(**QUICK, warm_start=True).fit(x, y)


def test_diagnose_fits_the_baseline_on_the_folds_of_the_ensemble(monkeypatch):
    x, y = sample(200)
    groups = np.arange(200) // 10
    model = OrdinalClassifier(("sord", "orcu"), **QUICK | {"epochs": 2}).fit(x, y, groups=groups)
    used_folds = []
    cross_fit = PerceptronLearner.cross_fit
    monkeypatch.setattr(
        PerceptronLearner,
        "cross_fit",
        lambda self, data, folds: (used_folds.append(folds), cross_fit(self, data, folds))[1],
    )
    model.diagnose()
    for fold in used_folds[0]:
        assert not set(groups[fold.test]) & set(groups[np.concatenate([fold.train, fold.early_stopping])])


def test_predict_sets_split_without_held_out_rows_raises():
    x, y = sample(200)
    model = OrdinalClassifier(**QUICK | {"epochs": 2}, sets="split", calibration_fraction=0.0).fit(x, y)
    with pytest.raises(InputError, match="^alpha: 0 rows"):
        model.predict_sets(x)


@pytest.mark.parametrize("share", [-0.1, 0.6, float("nan")])
@pytest.mark.parametrize("option", ["validation_fraction", "calibration_fraction"])
def test_fraction_out_of_range_raises(option, share):
    x, y = sample(200)
    with pytest.raises(InputError, match=f"{option}: expected a share"):
        OrdinalClassifier(**QUICK, **{option: share}).fit(x, y)


def test_diagnose_of_an_ensemble_uses_all_rows_out_of_fold(fitted):
    diagnosis = fitted.diagnose()
    assert diagnosis.rows == 600
    assert "the ensemble compared with cross-entropy + temperature scaling" in diagnosis.verdict
    ordinal = OrdinalClassifier(("sord", "orcu"), **QUICK).fit(*sample())
    assert ordinal.diagnose().rows == 600


@pytest.mark.slow
@pytest.mark.parametrize("sets", ["cv+", "split"])
def test_predict_sets_cover_with_the_requested_probability(sets):
    """Over draws of data the true class is inside with about 1 - alpha."""
    inside = []
    for seed in range(6):
        x, y = sample(1400, noise=1.2, seed=seed)
        model = OrdinalClassifier(("ce",), cv=4, hidden_layer_sizes=(8,), epochs=4, sets=sets, random_state=seed)
        model.fit(x[:400], y[:400])
        low, high = model.predict_sets(x[400:], 0.2).T
        inside.append(((low <= y[400:]) & (y[400:] <= high)).mean())
    # "split" has 40 rows for each threshold: the mean over draws has a deviation of about 0.065 / sqrt(6)
    assert np.mean(inside) > (0.78 if sets == "cv+" else 0.74)


def test_cross_conformal_sets_of_equal_folds_equal_split_conformal_sets():
    """Where all folds predict the same, CV+ is split conformal on all rows, up to ties."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(5), size=900)
    y = (rng.random((900, 1)) > probs.cumsum(axis=1)[:, :-1]).sum(axis=1)
    sets = CrossConformalSets(alpha=0.1).fit(probs[:500], y[:500], fold=np.arange(500) % 5)
    low, high = sets.predict(np.stack([probs[500:]] * 5))
    from orcu import OrdinalPredictionSets

    split_low, split_high = OrdinalPredictionSets(alpha=0.1).fit(probs[:500], y[:500]).predict(probs[500:])
    assert (low == split_low).all()
    assert (high == split_high).all()
    few = CrossConformalSets(alpha=0.01).fit(probs[:50], y[:50], fold=np.zeros(50, int))
    for wrong, message in (
        (lambda: sets.predict(probs[500:]), "^probs:"),
        (lambda: sets.predict(np.stack([probs[500:]] * 4)), "^probs:"),
        (lambda: CrossConformalSets(alpha=0.1).predict(probs[None]), "not fitted"),
        (lambda: few.predict(probs[None]), "^alpha: 50 .*0.01"),
        (lambda: CrossConformalSets(alpha=0.1).fit(probs[:50], y[:50], fold=np.zeros(49, int)), "^fold:"),
    ):
        with pytest.raises(InputError, match=message):
            wrong()


@pytest.mark.parametrize("cv", [1, 3])
def test_classifier_head_is_that_of_the_networks(cv):
    x, y = sample(300)
    settings = {"estimators": "network", "hidden_layer_sizes": (8,), "epochs": 3, "random_state": 0}
    model = OrdinalClassifier("ce", head="cumulative", cv=cv, **settings).fit(x, y)
    networks = [model.model_] if cv == 1 else list(model.model_.members)
    assert all(isinstance(network.head, CumulativeHead) for network in networks)
    assert np.isfinite(model.predict_proba(x)).all()
    own = OrdinalClassifier("coral", cv=cv, **settings).fit(x, y)
    networks = [own.model_] if cv == 1 else list(own.model_.members)
    assert all(isinstance(network.head, CoralHead) for network in networks)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": "cumulativ"}, "unknown head 'cumulativ'.*'cumulative'"),
        ({"head": "poe"}, "^head: the loss 'ce' takes logits"),
        ({"loss": "poe", "head": "corn"}, "^head: the loss 'poe' takes the output of the head 'poe'"),
        ({"head": "corn", "estimators": ["linear"]}, "^head: .*estimators has none"),
        ({"head": "corn", "module": torch.nn.Linear(4, 4)}, "^head: .*module="),
    ],
    ids=str,
)
def test_classifier_head_that_no_network_can_have_raises(options, message):
    x, y = sample(100)
    with pytest.raises(InputError, match=message):
        OrdinalClassifier(**options).fit(x, y)
