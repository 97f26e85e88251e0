"""Weights of a logarithmic pool, and an ensemble of user-defined base learners."""

from dataclasses import dataclass

import numpy as np
import pytest

from orcu import geometry
from orcu.calibrators import CalibrationWarning, UnimodalProjection
from orcu.ensemble.ensemble import fit_ensemble
from orcu.ensemble.learner import NO_DEADLINE, BaseLearner, FoldLearner, TrainingData
from orcu.ensemble.pool import log_pool, pool_weights
from orcu.errors import InputError
from orcu.model_selection import cross_fit_folds
from orcu.preprocessing import Inputs


def sample(rows=600, classes=4, sharpen=2.5, seed=0):
    rng = np.random.default_rng(seed)
    z = -((np.arange(classes) - rng.uniform(-0.5, classes - 0.5, size=(rows, 1))) ** 2)
    y = (rng.random((rows, 1)) > geometry.probs(z).cumsum(axis=1)[:, :-1]).sum(axis=1)
    return sharpen * z, y


@dataclass(frozen=True)
class FixedLearner(BaseLearner):
    """A learner that knows the log-probabilities of all rows already; a model is nothing."""

    name: str
    log_probs: np.ndarray
    subfolder = "fixed"

    def cross_fit(self, data, folds, *, folder=None, progress=None, deadline=NO_DEADLINE):
        return [self.cross_fitted([None] * len(folds), data, folds)]

    def predict_log_proba(self, model, inputs):
        return self.log_probs[inputs.features]


@dataclass(frozen=True)
class FrequencyLearner(FoldLearner):
    """Predicts the class frequencies of its training rows."""

    name: str = "frequencies"
    subfolder = "frequencies"
    suffix = "npy"

    def fit(self, data, fold, deadline=NO_DEADLINE):
        return np.bincount(data.y[fold.train], minlength=data.num_classes) / len(fold.train)

    def predict_log_proba(self, model, inputs):
        return np.tile(np.log(model), (len(inputs.features), 1))

    def shape(self, model):
        return 1, len(model)

    def save(self, model, path):
        with path.open("wb") as file:
            np.save(file, model)

    def load(self, path):
        return np.load(path)


def fixed_ensemble(members, y, **options):
    data = TrainingData(Inputs(None, np.arange(len(y))), y, 4)
    learners = [FixedLearner(name, log_probs) for name, log_probs in members.items()]
    return fit_ensemble(learners, data, cross_fit_folds(y, 5), **options)


def test_pool_weights_drop_noise_and_share_between_equal_members():
    rng = np.random.default_rng(0)
    z, y = sample(2000, sharpen=1.0)
    good, noise = geometry.log_probs(z), geometry.log_probs(rng.normal(size=z.shape))
    assert pool_weights(np.stack([good, noise]), y).tolist() == [1.0, 0.0]
    assert pool_weights(np.stack([noise, good]), y).tolist() == [0.0, 1.0]
    noisy = [geometry.log_probs(z + rng.normal(scale=1.0, size=z.shape)) for _ in range(3)]
    weights = pool_weights(np.stack(noisy), y)
    assert weights == pytest.approx(np.full(3, 1 / 3), abs=0.15)
    assert weights.sum() == pytest.approx(1)
    single = [-log[np.arange(2000), y].mean() for log in noisy]
    pooled = -geometry.log_probs(log_pool(np.stack(noisy), weights))[np.arange(2000), y].mean()
    assert pooled < min(single)
    # an accurate member that is too sharp keeps its weight: the calibrator corrects the sharpness
    assert pool_weights(np.stack([geometry.log_probs(6 * z), noisy[0]]), y)[0] > 0.5


def test_pool_weights_of_few_rows_are_nearly_equal_and_count_sample_weights():
    z, y = sample(12)
    rng = np.random.default_rng(0)
    members = np.stack([geometry.log_probs(z + rng.normal(size=z.shape)) for _ in range(3)])
    assert pool_weights(members, y) == pytest.approx(np.full(3, 1 / 3), abs=0.25)
    assert pool_weights(members[:1], y).tolist() == [1.0]
    repeated = pool_weights(members[:, [0, 0, 1, 2]], y[[0, 0, 1, 2]])
    weighted = pool_weights(members[:, :3], y[:3], np.array([2.0, 1.0, 1.0]))
    assert weighted == pytest.approx(repeated, abs=0.02)
    with pytest.raises(InputError, match="^log_probs:"):
        pool_weights(members[:0], y)


def test_fit_ensemble_weights_do_not_depend_on_the_sharpness_of_a_member():
    z, y = sample(600)
    rng = np.random.default_rng(0)
    first, second = (geometry.log_probs(z + rng.normal(size=z.shape)) for _ in range(2))
    expected = fixed_ensemble({"a": first, "b": second}, y).weights["a"]
    sharp = fixed_ensemble({"a": geometry.log_probs(60 * first), "b": second}, y).weights["a"]
    assert sharp == pytest.approx(expected, abs=0.05)
    assert fixed_ensemble({"a": geometry.log_probs(60 * z), "b": second}, y).weights["a"] > 0.55


def test_fit_ensemble_without_calibrator_and_with_few_rows():
    z, y = sample(200)
    ensemble = fixed_ensemble({"a": geometry.log_probs(z)}, y, calibrator=None)
    assert ensemble.calibrator is None
    np.testing.assert_allclose(ensemble.calibrate(z), geometry.probs(z))
    with pytest.warns(CalibrationWarning, match="^8 rows"):
        few = fixed_ensemble({"a": geometry.log_probs(z[:8])}, y[:8])
    assert isinstance(few.calibrator, UnimodalProjection)


def test_fold_learner_writes_models_and_reads_them_again(tmp_path):
    _, y = sample(100)
    data, folds = TrainingData(Inputs(None, np.arange(100)), y, 4), cross_fit_folds(y, 5)
    steps = []
    (first,) = FrequencyLearner().cross_fit(data, folds, folder=tmp_path, progress=lambda *step: steps.append(step[:3]))
    assert steps == [("frequencies", done, 5) for done in range(1, 6)]
    assert len(list((tmp_path / "frequencies").glob("frequencies.*.npy"))) == 5
    np.testing.assert_allclose(np.exp(first.log_probs).sum(axis=1), 1)
    np.save(tmp_path / "frequencies" / "frequencies.2.npy", np.full(4, 0.25))
    (second,) = FrequencyLearner().cross_fit(data, folds, folder=tmp_path)
    assert (np.exp(second.log_probs[folds[2].test]) == 0.25).all()
    assert (second.log_probs[folds[1].test] == first.log_probs[folds[1].test]).all()


def test_fit_ensemble_with_a_time_limit_always_fits_the_first_learner():
    _, y = sample(100)
    data, folds = TrainingData(Inputs(None, np.arange(100)), y, 4), cross_fit_folds(y, 5)
    learners = [FrequencyLearner("first"), FrequencyLearner("second")]
    assert list(fit_ensemble(learners, data, folds, calibrator=None, time_limit=1e-9).weights) == ["first"]
    assert list(fit_ensemble(learners, data, folds, calibrator=None).weights) == ["first", "second"]
