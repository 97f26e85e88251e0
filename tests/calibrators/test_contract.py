"""What every registered calibrator keeps: containers, checks, JSON, scikit-learn's manners."""

import json
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from orcu import OrdinalPredictionSets, Predictions, calibrators, geometry, metrics
from orcu.calibrators import CalibrationWarning, Chain, UnimodalProjection
from orcu.errors import InputError, UnknownNameError

SPECS = [*(name for name in calibrators.names() if name != "chain"), "gap+projection", "dirichlet+projection"]
DIRICHLET = {"name": "dirichlet", "off_diagonal": 0.1, "bias": 0.1}
QUICK = {  # without the search over 65 penalties
    "dirichlet": DIRICHLET,
    "dirichlet_paper": {"name": "dirichlet_paper", "epochs": 100},  # by default it stops too early
    "dirichlet+projection": {"name": "chain", "steps": [DIRICHLET, "projection"]},
}


def sample(rows=600, num_classes=4, sharpen=2.0, seed=0):
    rng = np.random.default_rng(seed)
    center = rng.uniform(-0.5, num_classes - 0.5, size=(rows, 1))
    logits = -((np.arange(num_classes) - center) ** 2) + rng.normal(scale=0.5, size=(rows, num_classes))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random(rows)[:, None] > np.cumsum(p, 1)[:, :-1]).sum(1)
    return sharpen * logits, y


@pytest.fixture(params=SPECS)
def calibrator(request):
    return calibrators.create(QUICK.get(request.param, request.param))


def test_it_gives_distributions_and_helps(calibrator):
    z, y = sample(2000)
    new, labels = sample(2000, seed=1)
    fitted = calibrator.fit(z, y)
    assert fitted is calibrator
    probs = fitted.predict_proba(new)
    assert probs.dtype == np.float64
    assert probs.sum(1) == pytest.approx(np.ones(len(new)))
    assert (probs >= 0).all()
    again = np.exp(geometry.log_probs(fitted.predict_logits(new)))
    assert again == pytest.approx(probs, abs=1e-12)
    if calibrator.name != "projection":
        before = metrics.nll(logits=new, y=labels)
        assert metrics.nll(logits=fitted.predict_logits(new), y=labels) < before - 0.05


def test_torch_in_torch_out(calibrator):
    z, y = sample()
    expected = calibrator.fit(z, y).predict_proba(z)
    for dtype in (torch.float32, torch.float64):
        tensor = torch.tensor(z, dtype=dtype)
        found = calibrator.fit(tensor, torch.tensor(y)).predict_proba(tensor)
        assert isinstance(found, torch.Tensor)
        assert found.dtype == dtype
        assert found.numpy() == pytest.approx(expected, abs=1e-3)


def test_probabilities_are_given_by_name(calibrator):
    z, y = sample()
    probs = np.exp(geometry.log_probs(z))
    centered = geometry.log_probs(z)
    by_probs = calibrator.fit(probs=probs, y=y).predict_proba(probs=probs)
    assert by_probs == pytest.approx(calibrator.fit(centered, y).predict_proba(centered), abs=1e-8)
    with pytest.raises(InputError, match="exactly one of the two"):
        calibrator.fit(z, y, probs=probs)
    with pytest.raises(InputError, match="exactly one of the two"):
        calibrator.predict_proba()


def test_it_travels_as_json(calibrator, tmp_path):
    z, y = sample()
    names = [f"case {row}" for row in range(len(y))]
    expected = calibrator.fit(z, y, ids=names).predict_proba(z)
    again = calibrators.from_dict(json.loads(json.dumps(calibrator.to_dict())))
    assert (again.predict_proba(z) == expected).all()
    calibrator.save(tmp_path / "c.json")
    assert (calibrators.load(tmp_path / "c.json").predict_proba(z) == expected).all()
    assert again.fitted_on_ == calibrator.fitted_on_
    assert again.fitted_on_.ids == tuple(names)


def test_scikit_learn_can_clone_it(calibrator):
    copy = clone(calibrator)
    assert type(copy) is type(calibrator)
    assert copy.get_params().keys() == calibrator.get_params().keys()
    with pytest.raises(InputError, match="no option 'nonsense'"):
        copy.set_params(nonsense=1)


def test_what_has_parameters_asks_to_be_fitted(calibrator):
    if calibrator.parameters(4) == 0:
        pytest.skip("the projection, which has a test of its own")
    assert get_tags(calibrator).requires_fit
    for ask in (lambda: calibrator.predict_proba([[0.0, 1.0]]), lambda: calibrator.fitted_on_):
        with pytest.raises(InputError, match="is not fitted; call fit"):
            ask()
    with pytest.raises(InputError, match="is not fitted"):
        calibrator.to_dict()
    with pytest.raises(NotFittedError):
        check_is_fitted(calibrator)
    check_is_fitted(calibrator.fit(*sample()))


def test_the_projection_predicts_and_travels_unfitted(tmp_path):
    z, y = sample()
    expected = UnimodalProjection().fit(z, y).predict_proba(z)
    for calibrator in (UnimodalProjection(), Chain("projection"), Chain(UnimodalProjection(), "projection")):
        assert not get_tags(calibrator).requires_fit
        check_is_fitted(calibrator)
        assert calibrator.predict_proba(z) == pytest.approx(expected, abs=1e-12)
        assert calibrator.predict_proba(z[:, :3]).shape == (len(z), 3)  # any number of classes
        assert calibrator.predict_proba(torch.tensor(z)).dtype == torch.float64
        calibrator.save(tmp_path / "c.json")
        again = calibrators.load(tmp_path / "c.json")
        assert (again.predict_proba(z) == calibrator.predict_proba(z)).all()
        assert again.fitted_on_ == calibrator.fitted_on_
        moved = Predictions(logits=z, y=y).calibrated(again)
        assert metrics.unimodality(moved.probs) == 1
        assert moved.history[-1]["shared"] == 0
        OrdinalPredictionSets().fit(moved.probs, y, calibrator=again)  # no rows to share, so no ids are asked for
    damaged = calibrators.create("temperature").fit(z, y).to_dict() | {"num_classes": None}
    with pytest.raises(InputError, match="the calibrator's data are damaged"):
        calibrators.from_dict(damaged)


def test_weights_count_rows_several_times(calibrator):
    z, y = sample(400)
    weight = np.random.default_rng(0).integers(1, 4, size=400).astype(float)
    again = np.repeat(np.arange(400), weight.astype(int))
    if calibrator.name in {"chain", "auto"}:
        pytest.skip("its steps, or candidates, are tested alone")
    if calibrator.name == "dirichlet_paper":
        pytest.skip("its batches hold rows, whatever they weigh")
    if "shrinkage" in calibrator.get_params():  # a pull is worth a number of rows, whatever they weigh
        calibrator.set_params(shrinkage=0.0)
    weighted = calibrator.fit(z, y, weight=weight).predict_proba(z)
    assert weighted == pytest.approx(calibrator.fit(z[again], y[again]).predict_proba(z), abs=1e-4)


def test_bad_input_is_named(calibrator):
    z, y = sample()
    fitted = calibrator.fit(z, y)
    with pytest.raises(InputError, match="fitted for 4 classes, got 3"):
        fitted.predict_proba(z[:, :3])
    with pytest.raises(InputError, match="row 0 has label 4"):
        calibrator.fit(z, np.full(len(y), 4))
    bad = z.copy()
    bad[3, 1] = np.nan
    with pytest.raises(InputError, match="row 3 has nan"):
        calibrator.fit(bad, y)
    with pytest.raises(InputError, match="row 3 has nan"):
        fitted.predict_proba(bad)


def test_absurd_rows_give_warnings_and_no_nan(calibrator):
    z, y = sample(40)
    cases = {
        "few rows": (z[:3], y[:3]),
        "a class missing": (z[y != 2], y[y != 2]),
        "one class only": (z, np.zeros_like(y)),
        "perfect separation": (50 * np.eye(4)[y], y),
        "equal logits": (np.zeros_like(z), y),
        "large logits": (1e4 * z, y),
    }
    for name, (logits, labels) in cases.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            probs = calibrator.fit(logits, labels).predict_proba(z)
        assert np.isfinite(probs).all(), name
        assert probs.sum(1) == pytest.approx(np.ones(len(z))), name


def test_warnings_say_why():
    z, y = sample(200)
    with pytest.warns(CalibrationWarning, match="20 rows for 7 parameters; 35 or more"):
        calibrators.create("gap").fit(z[:20], y[:20])
    with pytest.warns(CalibrationWarning, match="no row has class 2"):
        calibrators.create("vector").fit(z[y != 2], y[y != 2])
    with pytest.warns(CalibrationWarning, match="every row is predicted right"):
        calibrators.create("temperature").fit(50 * np.eye(4)[y], y)
    with pytest.warns(CalibrationWarning, match="T stays at 1"):
        assert calibrators.create("temperature", shrinkage=0).fit(50 * np.eye(4)[y], y).temperature_ == 1
    with pytest.warns(CalibrationWarning, match="say nothing about the labels"):
        calibrators.create("temperature").fit(-z, y)


def test_unknown_names_and_files_are_answered(tmp_path):
    with pytest.raises(UnknownNameError, match="unknown calibrator 'temprature'. Did you mean 'temperature'"):
        calibrators.create("temprature")
    with pytest.raises(UnknownNameError, match="search of temperature scaling"):
        calibrators.create("temperature", search="binary").fit(*sample(50))
    with pytest.raises(UnknownNameError, match="select of Dirichlet"):
        calibrators.create("dirichlet", select="aic").fit(*sample(200))
    with pytest.raises(InputError, match="this is no calibrator"):
        calibrators.from_dict({"a": 1})
    with pytest.raises(InputError, match="state_version"):
        calibrators.from_dict({"calibrator": "gap", "state_version": 9})
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(InputError, match="not a JSON file"):
        calibrators.load(tmp_path / "x.json")
    with pytest.raises(InputError, match="at least one calibrator"):
        Chain().fit(*sample(50))


def test_probabilities_handed_over_as_logits_are_refused(ordinal_sample, softmax):
    logits, y = ordinal_sample(60)
    with pytest.raises(InputError, match="logits: every row is a distribution.* Hand them over as probs="):
        calibrators.create("temperature").fit(softmax(logits), y)
    calibrators.create("temperature").fit(probs=softmax(logits), y=y)
    calibrators.create("temperature").fit(softmax(logits) - 0.1, y)  # odd, but no distributions
