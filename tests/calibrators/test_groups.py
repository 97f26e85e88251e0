"""`GroupedCalibration`: a shared calibrator and an adjustment for each subgroup."""

import numpy as np
import pytest

from orcu import Predictions, calibrators, geometry, metrics
from orcu.calibrators import CalibrationWarning, GroupedCalibration
from orcu.errors import InputError


def sample(rows=1500, factors=(4.0, 1.0, 0.5), seed=0, num_classes=4):
    """Logits that are over-confident by another factor on each site."""
    rng = np.random.default_rng(seed)
    center = rng.uniform(-0.5, num_classes - 0.5, size=(rows, 1))
    logits = -((np.arange(num_classes) - center) ** 2)
    y = (rng.random(rows)[:, None] > np.cumsum(geometry.probs(logits), axis=1)[:, :-1]).sum(axis=1)
    site = rng.integers(len(factors), size=rows)
    return logits * np.array(factors)[site, None], y, np.array(["north", "south", "west"])[site]


@pytest.mark.parametrize("shared", ["temperature", "gap+projection", "auto", {"name": "temperature"}])
def test_grouped_calibration_corrects_subgroups_that_differ(shared):
    z, y, site = sample()
    new, labels, new_site = sample(seed=1)
    alone = calibrators.create(shared).fit(z, y).predict_proba(new)
    adjusted = GroupedCalibration(shared).fit(z, y, subgroup=site).predict_proba(new, subgroup=new_site)
    assert metrics.nll(adjusted, labels) < metrics.nll(alone, labels) - 0.03
    for name in ("north", "south", "west"):
        rows = new_site == name
        assert abs(metrics.overconfidence(adjusted[rows], labels[rows])) < 0.06
    assert abs(metrics.overconfidence(alone[new_site == "north"], labels[new_site == "north"])) > 0.06


def test_grouped_calibration_of_equal_subgroups_equals_the_shared_calibrator():
    for seed in range(5):
        z, y, site = sample(factors=(2.0, 2.0, 2.0), seed=seed)
        fitted = GroupedCalibration("temperature").fit(z, y, subgroup=site)
        expected = calibrators.create("temperature").fit(z, y).predict_proba(z)
        if fitted.adjustment_:  # rarely, by chance
            assert max(abs(u) for u, _ in fitted.adjustment_.by_subgroup.values()) < 0.3
        else:
            assert fitted.predict_proba(z, subgroup=site) == pytest.approx(expected, abs=1e-12)
            assert fitted.predict_proba(z) == pytest.approx(expected, abs=1e-12)


def test_adjustment_of_a_subgroup_with_few_rows_is_shrunk():
    z, y, site = sample(rows=3000, factors=(3.0, 1.0, 1.0))
    few = np.flatnonzero(site == "north")[:6]
    rows = np.concatenate([few, np.flatnonzero(site != "north")])
    of_few = GroupedCalibration("temperature").fit(z[rows], y[rows], subgroup=site[rows]).adjustment_
    of_all = GroupedCalibration("temperature").fit(z, y, subgroup=site).adjustment_
    assert not of_few or abs(of_few.by_subgroup["north"][0]) < abs(of_all.by_subgroup["north"][0])


def test_grouped_calibration_keeps_rows_unimodal_and_does_not_adjust_unknown_subgroups():
    z, y, site = sample(num_classes=5)
    noise = np.random.default_rng(1).normal(size=z.shape)
    fitted = GroupedCalibration("gap+projection").fit(z + noise, y, subgroup=site)
    assert fitted.adjustment_
    assert metrics.unimodality(fitted.predict_proba(z, subgroup=site)) == 1
    shared = fitted.fitted_.predict_proba(z)
    with pytest.warns(CalibrationWarning, match="^subgroup: 1 .*: east"):
        unknown = fitted.predict_proba(z, subgroup=["east"] * len(z))
    assert unknown == pytest.approx(shared, abs=1e-9)
    logits, probs = fitted.predict_logits(z, subgroup=site), fitted.predict_proba(z, subgroup=site)
    assert geometry.probs(logits) == pytest.approx(probs, abs=1e-12)


def test_grouped_calibration_requires_subgroups_and_is_saved(tmp_path):
    z, y, site = sample()
    fitted = GroupedCalibration("temperature").fit(z, y, subgroup=site)
    with pytest.raises(InputError, match="^subgroup: .* 3 subgroups"):
        fitted.predict_proba(z)
    with pytest.raises(InputError, match=r"^subgroup: .*1500"):
        fitted.predict_proba(z, subgroup=site[:-1])
    with pytest.raises(InputError, match="^subgroup: row 1"):
        GroupedCalibration().fit(z[:2], y[:2], subgroup=["north", None])
    fitted.save(tmp_path / "c.json")
    loaded = calibrators.load(tmp_path / "c.json")
    assert (loaded.predict_proba(z, subgroup=site) == fitted.predict_proba(z, subgroup=site)).all()
    assert "3 subgroups" in loaded.reason_
    assert f"prior strength of {fitted.adjustment_.prior_strength:g} rows" in loaded.reason_
    damaged = fitted.to_dict()
    damaged["state"]["adjustments"]["north"] = [float("nan"), 0.0]
    with pytest.raises(InputError, match="damaged"):
        calibrators.from_dict(damaged)


def test_grouped_calibration_ignores_rows_of_weight_0():
    z, y, site = sample()
    weight = (np.arange(len(y)) % 3 > 0).astype(float)
    used = weight > 0
    weighted = GroupedCalibration("temperature").fit(z, y, subgroup=site, sample_weight=weight).adjustment_
    selected = GroupedCalibration("temperature").fit(z[used], y[used], subgroup=site[used]).adjustment_
    assert weighted.by_subgroup == selected.by_subgroup


def test_predictions_pass_their_subgroup_to_the_calibrator():
    z, y, site = sample()
    predictions = Predictions(logits=z, y=y, subgroup=site)
    fitted = predictions.fit_calibrator(GroupedCalibration("temperature"))
    assert list(fitted.adjustment_.by_subgroup) == ["north", "south", "west"]
    assert (predictions.calibrated(fitted).logits == fitted.predict_logits(z, subgroup=site)).all()
    with pytest.raises(InputError, match="^subgroup:"):
        Predictions(logits=z, y=y).calibrated(fitted)


def test_calibrator_module_refuses_adjusted_subgroups():
    modules = pytest.importorskip("orcu.integrations.calibrator_modules")
    z, y, site = sample()
    with pytest.raises(InputError, match="^calibrator: .*3 subgroups"):
        modules.calibrator_module(GroupedCalibration("temperature").fit(z, y, subgroup=site))


def test_reason_describes_the_last_fit():
    z, y, site = sample()
    fitted = GroupedCalibration("temperature").fit(z, y, subgroup=site)
    assert "3 subgroups" in fitted.reason_
    assert "3 subgroups" not in fitted.fit(z, y).reason_
