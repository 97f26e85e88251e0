"""`OrdinalClassifier` as an ensemble, which is the default."""

import pickle

import numpy as np
import pytest
import torch

from orcu import OrdinalClassifier, metrics
from orcu.calibrators import AutoCalibration, CalibrationWarning
from orcu.decisions.conformal import CrossConformalSets
from orcu.decisions.disagreement import mutual_information
from orcu.errors import InputError

QUICK = {"members": "network", "hidden": (16,), "epochs": 12, "learning_rate": 0.03, "random_state": 0}


def sample(rows=600, noise=0.8, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4))
    return x, np.digitize(x[:, 0] - x[:, 1] + noise * rng.normal(size=rows), [-1.5, 0, 1.5])


@pytest.fixture(scope="module")
def fitted():
    return OrdinalClassifier(**QUICK).fit(*sample())


def test_the_default_is_a_ensemble_that_is_better_than_one_network(fitted):
    x, y = sample(4000, seed=9)
    assert set(fitted.weights_) == {"ce", "sord", "orcu"}
    assert sum(fitted.weights_.values()) == pytest.approx(1)
    assert len(fitted.model_.members) == 5 * sum(weight > 0 for weight in fitted.weights_.values())
    assert isinstance(fitted.calibrator_, AutoCalibration)
    alone = OrdinalClassifier("orcu", folds=1, **QUICK).fit(*sample())
    ours, theirs = fitted.predict_proba(x), alone.predict_proba(x)
    assert metrics.unimodality(ours) == 1
    assert metrics.rps(ours, y) < metrics.rps(theirs, y)
    assert metrics.nll(ours, y) < metrics.nll(theirs, y)


def test_predictions_are_the_calibrated_mean_of_log_probabilities(fitted):
    x, _ = sample(50, seed=3)
    with torch.no_grad():
        said = fitted.model_.log_probs(fitted._tensor(fitted._checked(x, reset=False))).double().numpy()
    logits = np.einsum("m,mnc->nc", fitted.model_.weights.double().numpy(), said)
    np.testing.assert_allclose(fitted.predict_logits(x), logits, atol=1e-5)
    np.testing.assert_allclose(fitted.predict_proba(x), fitted.calibrator_.predict_proba(logits), atol=1e-5)


def test_members_disagree_more_where_they_have_seen_nothing(fitted):
    x, _ = sample(200, seed=3)
    members = fitted.predict_proba(x, members=True)
    assert members.shape == (len(fitted.model_.members), 200, 4)
    far = fitted.predict_proba(5 * np.random.default_rng(0).normal(size=(200, 4)) * [0, 0, 1, 1], members=True)
    assert mutual_information(far).mean() > mutual_information(members).mean()
    alone = OrdinalClassifier("ce", folds=1, **QUICK).fit(*sample())
    assert alone.predict_proba(x, members=True).shape == (1, 200, 4)
    with pytest.raises(InputError, match="shape"):
        mutual_information(members[0])


def test_the_same_seed_gives_the_same_bits_and_files_keep_the_model(fitted):
    x, y = sample()
    again = OrdinalClassifier(**QUICK).fit(x, y)
    assert (again.predict_proba(x) == fitted.predict_proba(x)).all()
    copied = pickle.loads(pickle.dumps(fitted))
    assert (copied.predict_proba(x) == fitted.predict_proba(x)).all()
    assert (copied.predict_sets(x) == fitted.predict_sets(x)).all()
    with pytest.raises(InputError, match="not kept in files"):
        copied.diagnose()


def test_groups_are_not_torn_apart():
    x, y = sample(300)
    groups = np.arange(300) % 30
    model = OrdinalClassifier(**QUICK).fit(x, y, groups=groups)
    for group in range(30):
        assert len(set(model.pool_.fold[groups == group])) == 1
    split = OrdinalClassifier(**QUICK, sets="split", calibration_fraction=0.2).fit(x, y, groups=groups)
    assert 40 <= len(split._sets[1]) <= 60
    with pytest.raises(InputError, match="4 groups cannot be dealt into 5"):
        model.fit(x, y, groups=np.arange(300) % 4)
    with pytest.raises(InputError, match="groups: with folds=1"):
        OrdinalClassifier(**QUICK, folds=1).fit(x, y, groups=groups)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        model.fit(x, y, groups=groups[:-1])


def test_few_rows_get_fewer_folds_and_a_word():
    x, y = sample(14)
    with pytest.warns(CalibrationWarning, match="14 rows are few for 5 folds: 3 are used"):
        model = OrdinalClassifier(**QUICK).fit(x, y)
    assert model.pool_.fold.max() == 2
    assert metrics.unimodality(model.predict_proba(x)) == 1


def test_a_class_with_one_row_is_no_accident():
    x, y = sample(200)
    y = np.minimum(y, 2)
    y[7] = 3
    model = OrdinalClassifier(**QUICK).fit(x, y)
    probs = model.predict_proba(x)
    assert probs.shape == (200, 4)
    assert (probs > 0).all()


def test_a_budget_stops_adding_losses():
    x, y = sample(300)
    hasty = OrdinalClassifier(**QUICK, budget=1e-6).fit(x, y)
    assert hasty.weights_ == {"ce": 1.0}
    assert len(hasty.model_.members) == 5
    patient = OrdinalClassifier(**QUICK, budget=1e6).fit(x, y)
    assert set(patient.weights_) == {"ce", "sord", "orcu"}


@pytest.mark.parametrize("loss", ["poe", "mdca", ("ce", "poe"), [{"name": "orcu", "scale": 1.0}, "orcu"]])
def test_losses_that_do_not_stack_and_losses_by_table(loss):
    x, y = sample(300)
    if isinstance(loss, list):
        with pytest.raises(InputError, match="'orcu' stands twice"):
            OrdinalClassifier(loss, **QUICK).fit(x, y)
        loss = [{"name": "orcu", "scale": 1.0, "label": "s = 1"}, "orcu"]
    model = OrdinalClassifier(loss, **QUICK | {"epochs": 6}).fit(x, y)
    assert model.score(x, y) > 0.5
    assert sum(model.weights_.values()) == pytest.approx(1)


def test_a_module_is_cross_fitted_too():
    x, y = sample(300)
    module = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    model = OrdinalClassifier(("ce", "orcu"), module=module, epochs=8, learning_rate=0.05, random_state=0).fit(x, y)
    assert len(model.model_.members) in {5, 10}
    assert model.score(x, y) > 0.6


def test_warm_starts_and_further_passes_are_for_one_network(fitted):
    x, y = sample(200)
    before = fitted.predict_proba(x)
    with pytest.raises(InputError, match="partial_fit: an ensemble does not go on"):
        fitted.partial_fit(x, y)
    assert (fitted.predict_proba(x) == before).all()
    with pytest.raises(InputError, match="warm_start: an ensemble is fitted anew"):
        OrdinalClassifier(**QUICK, warm_start=True).fit(x, y)


def test_the_baseline_of_a_diagnosis_is_dealt_as_the_ensemble_is(monkeypatch):
    x, y = sample(200)
    groups = np.arange(200) // 10
    model = OrdinalClassifier(("sord", "orcu"), **QUICK | {"epochs": 2}).fit(x, y, groups=groups)
    dealt = []
    real = OrdinalClassifier._cross_fitted
    monkeypatch.setattr(
        OrdinalClassifier, "_cross_fitted", lambda self, c, f, *rest: (dealt.append(f), real(self, c, f, *rest))[1]
    )
    model.diagnose()
    for fold in dealt[0]:
        assert not set(groups[fold.held]) & set(groups[np.concatenate([fold.train, fold.stop])])


def test_sets_that_were_to_be_split_are_not_something_else():
    x, y = sample(200)
    model = OrdinalClassifier(**QUICK | {"epochs": 2}, sets="split", calibration_fraction=0.0).fit(x, y)
    with pytest.raises(InputError, match="0 rows were held back for sets"):
        model.predict_sets(x)


@pytest.mark.parametrize("share", [-0.1, 0.6, float("nan")])
@pytest.mark.parametrize("option", ["validation_fraction", "calibration_fraction"])
def test_shares_of_rows_are_shares(option, share):
    x, y = sample(200)
    with pytest.raises(InputError, match=f"{option}: expected a share"):
        OrdinalClassifier(**QUICK, **{option: share}).fit(x, y)


def test_diagnosis_is_out_of_fold_on_all_rows(fitted):
    diagnosis = fitted.diagnose()
    assert diagnosis.rows == 600
    assert "the ensemble beside cross-entropy + temperature" in diagnosis.verdict
    ordinal = OrdinalClassifier(("sord", "orcu"), **QUICK).fit(*sample())
    assert ordinal.diagnose().rows == 600


@pytest.mark.slow
@pytest.mark.parametrize("sets", ["cv+", "split"])
def test_sets_cover(sets):
    """Over draws of data the true class is inside with about 1 - alpha."""
    inside = []
    for seed in range(6):
        x, y = sample(1400, noise=1.2, seed=seed)
        model = OrdinalClassifier(("ce",), folds=4, hidden=(8,), epochs=4, sets=sets, random_state=seed)
        model.fit(x[:400], y[:400])
        low, high = model.predict_sets(x[400:], 0.2).T
        inside.append(((low <= y[400:]) & (y[400:] <= high)).mean())
    # "split" has 40 rows for each threshold: the mean over draws has a deviation of about 0.065 / sqrt(6)
    assert np.mean(inside) > (0.78 if sets == "cv+" else 0.74)


def test_cross_conformal_sets_of_one_model_are_the_split_ones():
    """Where all folds say the same, CV+ is split-conformal on all rows, up to its ties."""
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
        (lambda: sets.predict(probs[500:]), "expected shape"),
        (lambda: sets.predict(np.stack([probs[500:]] * 4)), "expected shape"),
        (lambda: CrossConformalSets(alpha=0.1).predict(probs[None]), "not fitted"),
        (lambda: few.predict(probs[None]), "50 rows are too few for 0.01"),
        (lambda: CrossConformalSets(alpha=0.1).fit(probs[:50], y[:50], fold=np.zeros(49, int)), "fold: expected"),
    ):
        with pytest.raises(InputError, match=message):
            wrong()
