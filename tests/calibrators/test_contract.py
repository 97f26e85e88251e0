"""Every registered calibrator keeps the contract of `orcu.testing`; and what some of them warn of and refuse."""

import numpy as np
import pytest
import torch
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from orcu import OrdinalPredictionSets, Predictions, calibrators, metrics
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


RULES = {f"{spec}: {rule}": check for spec in SPECS for rule, check in calibrator_checks(QUICK.get(spec, spec)).items()}


@pytest.mark.parametrize("check", RULES.values(), ids=RULES)
def test_every_calibrator_keeps_the_contract(check):
    check()


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
