"""Contract of `orcu.testing` for all registered calibrators; warnings, errors and representations."""

import pickle
from functools import cached_property, partial

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from orcu import OrdinalPredictionSets, Predictions, calibrators, errors, metrics
from orcu.calibrators import CalibrationWarning, Chain, UnimodalProjection
from orcu.errors import InputError, UnknownNameError
from orcu.testing import calibrator_checks

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


CHECKS = {
    f"{spec}: {rule}": check for spec in SPECS for rule, check in calibrator_checks(QUICK.get(spec, spec)).items()
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_calibrator_passes_the_contract(check):
    check()


def test_projection_predicts_and_is_saved_without_fit(tmp_path):
    z, y = sample()
    expected = UnimodalProjection().fit(z, y).predict_proba(z)
    for calibrator in (UnimodalProjection(), Chain("projection"), Chain(UnimodalProjection(), "projection")):
        assert not get_tags(calibrator).requires_fit
        check_is_fitted(calibrator)
        assert calibrator.predict_proba(z) == pytest.approx(expected, abs=1e-12)
        assert calibrator.predict_proba(z[:, :3]).shape == (len(z), 3)  # any number of classes
        assert calibrator.predict_proba(torch.tensor(z)).dtype == torch.float64
        calibrator.save(tmp_path / "c.json")
        loaded = calibrators.load(tmp_path / "c.json")
        assert (loaded.predict_proba(z) == calibrator.predict_proba(z)).all()
        assert loaded.fitted_on_ == calibrator.fitted_on_
        calibrated = Predictions(logits=z, y=y).calibrated(loaded)
        assert metrics.unimodality(calibrated.probs) == 1
        assert calibrated.history[-1]["shared"] == 0
        OrdinalPredictionSets().fit(calibrated.probs, y, calibrator=loaded)  # needs no ids: no rows were used
    damaged = calibrators.create("temperature").fit(z, y).to_dict() | {"num_classes": None}
    with pytest.raises(InputError, match="damaged"):
        calibrators.from_dict(damaged)


def test_fit_warns_with_numbers():
    z, y = sample(200)
    with pytest.warns(CalibrationWarning, match="20 rows for 7 parameters; at least 35"):
        calibrators.create("gap").fit(z[:20], y[:20])
    with pytest.warns(CalibrationWarning, match="no row has class 2"):
        calibrators.create("vector").fit(z[y != 2], y[y != 2])
    with pytest.warns(CalibrationWarning, match="all 200 rows are predicted correctly"):
        calibrators.create("temperature").fit(50 * np.eye(4)[y], y)
    with pytest.warns(CalibrationWarning, match="T stays at 1"):
        assert calibrators.create("temperature", shrinkage=0).fit(50 * np.eye(4)[y], y).temperature_ == 1
    with pytest.warns(CalibrationWarning, match="^temperature: .*fitted temperature is"):
        calibrators.create("temperature").fit(-z, y)


def test_unknown_names_and_invalid_files_are_refused(tmp_path):
    with pytest.raises(UnknownNameError, match="unknown calibrator 'temprature'. Did you mean 'temperature'"):
        calibrators.create("temprature")
    with pytest.raises(UnknownNameError, match="search of temperature scaling"):
        calibrators.create("temperature", search="binary").fit(*sample(50))
    with pytest.raises(UnknownNameError, match="select of Dirichlet"):
        calibrators.create("dirichlet", select="aic").fit(*sample(200))
    with pytest.raises(InputError, match="^not a calibrator"):
        calibrators.from_dict({"a": 1})
    with pytest.raises(InputError, match="^state_version:"):
        calibrators.from_dict({"calibrator": "gap", "state_version": 9})
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(InputError, match="x.json"):
        calibrators.load(tmp_path / "x.json")
    with pytest.raises(InputError, match="^steps:"):
        Chain().fit(*sample(50))


def test_fit_refuses_probabilities_as_logits(ordinal_sample, softmax):
    logits, y = ordinal_sample(60)
    with pytest.raises(InputError, match="^logits:.*probs="):
        calibrators.create("temperature").fit(softmax(logits), y)
    calibrators.create("temperature").fit(probs=softmax(logits), y=y)
    calibrators.create("temperature").fit(softmax(logits) - 0.1, y)  # unusual, but not distributions


@pytest.mark.filterwarnings("ignore::orcu.calibrators.CalibrationWarning")
def test_repr_names_changed_options_and_fitted_values():
    z, y = sample(200)
    temperature = calibrators.create("temperature")
    assert repr(temperature) == "TemperatureScaling()"
    assert repr(clone(temperature.fit(z, y))) == "TemperatureScaling()"
    assert repr(temperature) == f"TemperatureScaling(temperature={temperature.temperature_:.3g}, n_rows=200)"
    auto = calibrators.create("auto").fit(z, y)
    weights = {name: round(weight, 2) for name, weight in auto.weights_.items()}
    assert str(auto) == f"AutoCalibration(weights={weights}, n_rows=200)"
    assert repr(calibrators.create("gap", shrinkage=1.0)) == "GapScaling(shrinkage=1)"
    chain = Chain("temperature", "projection").fit(z, y)
    assert repr(chain) == f"Chain(steps=[{temperature!r}, UnimodalProjection(n_rows=200)])"
    site = np.array(["north", "south"])[np.arange(200) % 2]
    grouped = calibrators.GroupedCalibration("temperature").fit(
        z * (1 + 5 * (site == "north"))[:, None], y, subgroup=site
    )
    assert (
        repr(grouped)
        == f"GroupedCalibration(calibrator={grouped.fitted_!r}, n_adjusted=2, prior_strength=2, n_rows=200)"
    )
    assert repr(calibrators.from_dict(grouped.to_dict())) == repr(grouped)


def test_fit_warns_at_the_line_of_the_caller():
    z, y = sample(20)
    for name in ("gap", "auto", "gap+projection"):
        with pytest.warns(CalibrationWarning) as caught:
            calibrators.create(name).fit(z[:4] if name == "auto" else z, y[:4] if name == "auto" else y)
        assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("name", [*calibrators.names(), "grouped gap"])
def test_calibrator_before_fit_raises_not_fitted_error_in_every_public_member(name, tmp_path):
    special = {"chain": Chain("temperature", "projection"), "grouped gap": calibrators.GroupedCalibration("gap")}
    calibrator = special.get(name) or calibrators.create(name)
    arguments = {"predict_proba": ([[0.0, 1.0]],), "predict_logits": ([[0.0, 1.0]],), "save": (tmp_path / "c.json",)}
    arguments |= {"to_dict": (), "n_parameters": (3,), "get_params": (), "set_params": (), "fit": None}
    assert repr(calibrator).startswith(type(calibrator).__name__)
    assert "not fitted" in calibrator._repr_html_() or calibrator.n_parameters(3) == 0
    public = [member for member in dir(type(calibrator)) if not member.startswith("_")]
    for member in public:
        attribute = getattr(type(calibrator), member)
        if not callable(attribute) and not isinstance(attribute, property | cached_property):
            continue  # a class attribute
        call = partial(getattr, calibrator, member)
        if callable(attribute):
            assert member in arguments, f"{member} is new: add its arguments to this test"
            if arguments[member] is None:
                continue
            call = partial(getattr(calibrator, member), *arguments[member])
        if member in {"n_parameters", "get_params", "set_params"} or calibrator.n_parameters(3) == 0:
            call()
            continue
        with pytest.raises(NotFittedError, match="not fitted") as caught:
            call()
        assert isinstance(caught.value, InputError)
    assert not hasattr(calibrator, "num_classes_")


def test_not_fitted_error_can_be_pickled():
    with pytest.raises(NotFittedError) as caught:
        calibrators.create("gap").predict_proba([[0.0, 1.0]])
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value) is errors.NotFittedError


@pytest.mark.filterwarnings("ignore::orcu.calibrators.CalibrationWarning")
@pytest.mark.parametrize("name", [*calibrators.names(), "auto by subgroup"])
def test_fit_with_a_common_factor_of_the_weights_predicts_the_same(name):
    z, y = sample(200)
    site = np.array(["north", "south"])[np.arange(200) % 2]
    z = z * np.where(site == "north", 1.0, 4.0)[:, None]
    weight = np.random.default_rng(0).uniform(0.1, 5, size=200)
    special = {"dirichlet_paper": {"name": "dirichlet_paper", "epochs": 2}, "chain": "gap+projection"}
    special |= {"grouped": {"name": "grouped", "calibrator": "temperature"}, "auto by subgroup": "grouped"}

    def predict(factor):
        calibrator = calibrators.create(special.get(name, name))
        options = {"subgroup": site} if calibrator.accepts_subgroup else {}
        return calibrator.fit(z, y, sample_weight=factor * weight, **options).predict_proba(z, **options)

    expected = predict(1.0)
    for factor in (1e-6, 1 / 200, 100.0):
        assert np.abs(predict(factor) - expected).max() < 1e-12
