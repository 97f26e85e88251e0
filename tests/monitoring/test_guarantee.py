"""False-alarm rates with clusters and subgroups, and the power to detect a drift in them, by simulation."""

from datetime import date, timedelta

import numpy as np
import pytest

from orcu import Predictions
from orcu.monitoring.check import check_days
from orcu.monitoring.log import Day

FIRST = date(2026, 1, 1)


def simulate_days(
    rng, *, days=12, patients=40, rows=20, sites=0, cluster=True, shift=0.0, drift_day=0, site=None, dependent=True
):
    """Days of a two-class model; the uniform number of a patient decides the label on all of its visits."""
    patient_uniform = rng.random(patients)
    used, result = {}, []
    for day in range(days):
        patient = rng.integers(patients, size=rows)
        confidence = rng.choice([0.6, 0.8], size=rows)
        site_of_row = patient % sites if sites else np.zeros(rows, int)
        affected = (day >= drift_day) & ((site_of_row == site) if site is not None else np.ones(rows, bool))
        truth = confidence - shift * affected
        y = ((patient_uniform[patient] if dependent else rng.random(rows)) > truth).astype(int)
        predictions = Predictions(
            probs=np.stack([confidence, 1 - confidence], axis=1),
            cluster=[f"p{k}" for k in patient] if cluster else None,
            subgroup=[f"s{k}" for k in site_of_row] if sites else None,
        )
        part = Day.from_predictions(FIRST + timedelta(days=day), predictions, y, n_bins=5)
        result.append(part.with_occasions(used))
    return result


def alarm_rate(count, *, seed, **options):
    """Share of logs in which a daily check has ever had an alarm; also the last check of each."""
    rng = np.random.default_rng(seed)
    checks = [check_days(simulate_days(rng, **options), reference=[], alpha=0.05, tolerance=0.0) for _ in range(count)]
    ever = [max(day.log_e_value for day in check.days) >= np.log(check.alarm_threshold) for check in checks]
    return float(np.mean(ever)), checks


def test_check_dependent_clusters_keep_the_false_alarm_rate():
    options = {"seed": 0, "patients": 12, "rows": 30, "days": 8}
    naive, _ = alarm_rate(10, **options, cluster=False)
    rate, _ = alarm_rate(10, **options)
    assert naive >= 0.3  # rows of a patient counted as independent
    assert rate == 0


def test_check_subgroups_keep_the_false_alarm_rate():
    rate, checks = alarm_rate(10, seed=1, days=8, sites=4, cluster=False, dependent=False)
    assert rate == 0
    assert all(len(check.subgroups) == 4 for check in checks)


def test_check_drift_of_a_subgroup_is_named():
    rng = np.random.default_rng(2)
    days = simulate_days(
        rng, days=30, rows=60, sites=3, cluster=False, dependent=False, shift=0.35, drift_day=10, site=2
    )
    result = check_days(days, reference=[], alpha=0.05, tolerance=0.02)
    assert result.alarm
    assert result.drift.subgroup == "s2"
    assert abs((result.since - FIRST).days - 10) <= 3
    assert "of subgroup 's2'" in result.findings[0]
    assert [part.name for part in result.subgroups if part.alarm] == ["s2"]
    assert result.subgroups[0].alarm_threshold == pytest.approx(20 * 2 * 2 * 3)
    assert sum(part.rows for part in result.subgroups) == result.tally.rows
    assert result.to_dict()["subgroups"][2]["alarm"] is True


def test_check_late_drift_of_a_fixed_cohort_is_found():
    rng = np.random.default_rng(3)
    # The same patients every day: only later occasions can show the drift.
    days = simulate_days(rng, days=14, patients=300, rows=250, shift=0.45, drift_day=9, dependent=False)
    result = check_days(days, reference=[], alpha=0.05, tolerance=0.02)
    assert result.alarm
    assert "effective rows" in result.findings[1]
    # The rates are those of all rows since then, not of the occasion that gave the alarm.
    drift, (num_classes, n_bins) = result.drift, (days[0].tally.num_classes, days[0].tally.n_bins)
    bins = slice(None) if drift.bin is None else round(drift.bin[0] * n_bins)
    event = 0 if drift.threshold is None else drift.threshold + 1
    tables = [
        day.bets.table("", occasion, num_classes, n_bins)[event][:, bins]
        for day in days
        if day.day >= drift.since
        for occasion in day.bets.occasions
    ]
    weight, predicted, observed = np.sum(tables, axis=0).reshape(3, -1).sum(axis=1)
    assert drift.rows == round(weight)
    assert (drift.prob_pred, drift.prob_true) == pytest.approx((predicted / weight, observed / weight))
    assert "with each cluster once" in str(result)


def test_check_reference_with_subgroups_and_clusters():
    rng = np.random.default_rng(4)
    days = simulate_days(rng, days=20, patients=2000, rows=60, sites=2, shift=0.1, dependent=False)
    same = check_days(days[10:], reference=days[:10], alpha=0.05, tolerance=0.0)
    assert not same.alarm
    assert same.reference.missing_subgroups == ()
    assert check_days(days, reference=[], alpha=0.05, tolerance=0.0).e_value > same.e_value


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sites": 4},
        {"sites": 4, "cluster": False, "dependent": False},
        {"patients": 20, "rows": 20, "days": 25},
        {"patients": 400, "rows": 40},
    ],
    ids=["clusters", "clusters and subgroups", "subgroups", "few clusters", "many clusters"],
)
def test_check_false_alarm_rate_of_many_logs(options):
    rate, _ = alarm_rate(400, seed=10, **options)
    assert rate <= 0.05
