"""Groups that differ: a turn for each, and one map for all where they do not."""

import numpy as np
import pytest

from orcu import Predictions, calibrators, geometry, metrics
from orcu.calibrators import CalibrationWarning, GroupedCalibration
from orcu.errors import InputError


def sample(rows=1500, factors=(4.0, 1.0, 0.5), seed=0, num_classes=4):
    """Logits that are over-confident by a factor of their own on each site."""
    rng = np.random.default_rng(seed)
    center = rng.uniform(-0.5, num_classes - 0.5, size=(rows, 1))
    logits = -((np.arange(num_classes) - center) ** 2)
    y = (rng.random(rows)[:, None] > np.cumsum(geometry.probs(logits), axis=1)[:, :-1]).sum(axis=1)
    place = rng.integers(len(factors), size=rows)
    return logits * np.array(factors)[place, None], y, np.array(["north", "south", "west"])[place]


@pytest.mark.parametrize("common", ["temperature", "gap+projection", "auto", {"name": "temperature"}])
def test_sites_that_differ_are_each_mended(common):
    z, y, site = sample()
    new, truth, where = sample(seed=1)
    alone = calibrators.create(common).fit(z, y).predict_proba(new)
    turned = GroupedCalibration(common).fit(z, y, group=site).predict_proba(new, group=where)
    assert metrics.nll(turned, truth) < metrics.nll(alone, truth) - 0.03
    for one in ("north", "south", "west"):
        mine = where == one
        assert abs(metrics.overconfidence(turned[mine], truth[mine])) < 0.06
    assert abs(metrics.overconfidence(alone[where == "north"], truth[where == "north"])) > 0.06


def test_sites_that_do_not_differ_share_one_map():
    for seed in range(5):
        z, y, site = sample(factors=(2.0, 2.0, 2.0), seed=seed)
        fitted = GroupedCalibration("temperature").fit(z, y, group=site)
        expected = calibrators.create("temperature").fit(z, y).predict_proba(z)
        if fitted.turns_:  # in doubt there are none, but chance has its say
            assert max(abs(u) for u, _ in fitted.turns_.by_group.values()) < 0.3
        else:
            assert fitted.predict_proba(z, group=site) == pytest.approx(expected, abs=1e-12)
            assert fitted.predict_proba(z) == pytest.approx(expected, abs=1e-12)


def test_a_site_of_few_rows_is_pulled_to_all_others():
    z, y, site = sample(rows=3000, factors=(3.0, 1.0, 1.0))
    few = np.flatnonzero(site == "north")[:6]
    rows = np.concatenate([few, np.flatnonzero(site != "north")])
    turns = GroupedCalibration("temperature").fit(z[rows], y[rows], group=site[rows]).turns_
    whole = GroupedCalibration("temperature").fit(z, y, group=site).turns_
    assert not turns or abs(turns.by_group["north"][0]) < abs(whole.by_group["north"][0])


def test_unimodal_rows_stay_unimodal_and_strangers_get_the_common_map():
    z, y, site = sample(num_classes=5)
    fitted = GroupedCalibration("gap+projection").fit(z + np.random.default_rng(1).normal(size=z.shape), y, group=site)
    assert fitted.turns_
    assert metrics.unimodality(fitted.predict_proba(z, group=site)) == 1
    common = fitted.fitted_.predict_proba(z)
    with pytest.warns(CalibrationWarning, match="not fitted on get the common map: east"):
        strangers = fitted.predict_proba(z, group=["east"] * len(z))
    assert strangers == pytest.approx(common, abs=1e-9)
    logits, probs = fitted.predict_logits(z, group=site), fitted.predict_proba(z, group=site)
    assert geometry.probs(logits) == pytest.approx(probs, abs=1e-12)


def test_groups_are_needed_where_there_are_turns_and_travel_with_the_calibrator(tmp_path):
    z, y, site = sample()
    fitted = GroupedCalibration("temperature").fit(z, y, group=site)
    with pytest.raises(InputError, match="group: this calibrator has a turn for each of 3 groups"):
        fitted.predict_proba(z)
    with pytest.raises(InputError, match=r"group: expected one entry per row, shape \(1500,\)"):
        fitted.predict_proba(z, group=site[:-1])
    with pytest.raises(InputError, match="group: row 1 is empty"):
        GroupedCalibration().fit(z[:2], y[:2], group=["north", None])
    fitted.save(tmp_path / "c.json")
    again = calibrators.load(tmp_path / "c.json")
    assert (again.predict_proba(z, group=site) == fitted.predict_proba(z, group=site)).all()
    assert "3 groups have a turn of their own" in again.reason_
    damaged = fitted.to_dict()
    damaged["state"]["turns"]["north"] = [float("nan"), 0.0]
    with pytest.raises(InputError, match="damaged"):
        calibrators.from_dict(damaged)


def test_rows_of_no_weight_are_no_rows():
    z, y, site = sample()
    weight = (np.arange(len(y)) % 3 > 0).astype(float)
    there = weight > 0
    one = GroupedCalibration("temperature").fit(z, y, group=site, weight=weight).turns_
    two = GroupedCalibration("temperature").fit(z[there], y[there], group=site[there]).turns_
    assert one.by_group == two.by_group


def test_predictions_hand_over_their_groups():
    z, y, site = sample()
    held = Predictions(logits=z, y=y, group=site)
    fitted = held.fit_calibrator(GroupedCalibration("temperature"))
    assert list(fitted.turns_.by_group) == ["north", "south", "west"]
    assert (held.calibrated(fitted).logits == fitted.predict_logits(z, group=site)).all()
    with pytest.raises(InputError, match="group"):
        Predictions(logits=z, y=y).calibrated(fitted)


def test_a_graph_without_groups_takes_no_turns():
    modules = pytest.importorskip("orcu.integrations.calibrator_modules")
    z, y, site = sample()
    with pytest.raises(InputError, match="does not know the group"):
        modules.calibrator_module(GroupedCalibration("temperature").fit(z, y, group=site))


def test_what_is_said_of_a_fit_is_of_the_last_one():
    z, y, site = sample()
    fitted = GroupedCalibration("temperature").fit(z, y, group=site)
    assert "3 groups have a turn" in fitted.reason_
    assert "3 groups" not in fitted.fit(z, y).reason_
