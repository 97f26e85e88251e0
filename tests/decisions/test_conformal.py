"""Tests of prediction sets: contiguity, nesting and coverage."""

import json
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from orcu import OrdinalPredictionSets
from orcu.calibrators import CalibrationWarning
from orcu.decisions.conformal import CrossConformalSets, scores
from orcu.decisions.coverage import coverage_interval
from orcu.errors import InputError
from orcu.predictions.used_rows import UsedRows


def sample(rows, seed, size=5, calibrated=False):
    """Predictions of a miscalibrated model, or of a calibrated one."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(size, 0.5), size=rows)
    y = (rng.random((rows, 1)) > np.cumsum(probs, axis=1)[:, :-1]).sum(axis=1)
    return (probs if calibrated else probs**3 / (probs**3).sum(1, keepdims=True)), y


@given(st.integers(0, 2**32 - 1), st.integers(2, 8))
@settings(deadline=None, max_examples=60)
def test_scores_equal_the_masses_of_growing_intervals(seed, size):
    probs = np.random.default_rng(seed).dirichlet(np.ones(size), size=4)
    for p, row_scores in zip(probs, scores(probs), strict=True):
        low = high = int(p.argmax())
        mass = p[low]
        expected = {low: 0.0}
        while len(expected) < size:
            below = p[low - 1] if low > 0 else -1
            above = p[high + 1] if high < size - 1 else -1
            low, high, new = (low - 1, high, low - 1) if below >= above else (low, high + 1, high + 1)
            expected[new] = mass
            mass += p[new]
        assert row_scores == pytest.approx([expected[k] for k in range(size)], abs=1e-7)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("calibrated", [True, False])
def test_prediction_sets_have_their_nominal_coverage_in_finite_samples(alpha, calibrated):
    """Mean coverage over many small fitting sets lies between 1 - alpha and 1 - alpha + 1/(n+1)."""
    rows, repeats = 39, 300
    coverages = []
    for seed in range(repeats):
        probs, y = sample(rows + 200, seed, calibrated=calibrated)
        sets = OrdinalPredictionSets(alpha=alpha).fit(probs[:rows], y[:rows])
        coverages.append(sets.coverage_report(probs[rows:], y[rows:]).coverage)
    slack = 3 * np.std(coverages) / np.sqrt(repeats)
    assert np.mean(coverages) >= 1 - alpha - slack


def test_prediction_sets_class_conditional_covers_each_class():
    probs, y = sample(20_000, 1, calibrated=True)
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.3, 4, y)  # class 4 is hard
    half = len(y) // 2
    plain = OrdinalPredictionSets(alpha=0.1).fit(probs[:half], y[:half])
    each = OrdinalPredictionSets(alpha=0.1, class_conditional=True).fit(probs[:half], y[:half])
    by_class = each.coverage_report(probs[half:], y[half:])
    assert (by_class.class_coverage > 0.88).all()
    assert plain.coverage_report(probs[half:], y[half:]).class_coverage.min() < 0.85


def test_prediction_sets_with_underflowing_tails_keep_their_coverage():
    probs, y = sample(4000, 1)
    sharp = probs**8 / (probs**8).sum(1, keepdims=True)  # masses reach 1 before all classes are in
    sets = OrdinalPredictionSets(alpha=0.1).fit(sharp[:2000], y[:2000])
    assert 0.87 < sets.coverage_report(sharp[2000:], y[2000:]).coverage < 0.935


def test_prediction_sets_contain_the_mode_and_grow_as_alpha_falls():
    probs, y = sample(500, 2)
    sizes = []
    for alpha in (0.5, 0.2, 0.05, 0.01):
        low, high = OrdinalPredictionSets(alpha=alpha).fit(probs, y).predict(probs)
        mode = probs.argmax(1)
        assert ((low <= mode) & (mode <= high)).all()
        sizes.append((high - low + 1).mean())
    assert sizes == sorted(sizes)


def test_prediction_sets_fit_too_few_rows_warns_and_predicts_all_classes():
    probs, y = sample(5, 3)
    with pytest.warns(CalibrationWarning, match="alpha = 0.1.*9 rows"):
        sets = OrdinalPredictionSets(alpha=0.1).fit(probs, y)
    low, high = sets.predict(probs)
    assert (low == 0).all()
    assert (high == 4).all()
    again = OrdinalPredictionSets.from_dict(json.loads(json.dumps(sets.to_dict())))
    assert np.isinf(again.thresholds_).all()
    with pytest.warns(CalibrationWarning, match="alpha = 0.1.*class 0"):
        OrdinalPredictionSets(class_conditional=True).fit(probs, y)


def test_prediction_sets_save_load_and_invalid_arguments(tmp_path):
    probs, y = sample(100, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sets = OrdinalPredictionSets().fit(probs, y)
    sets.save(tmp_path / "s.json")
    again = OrdinalPredictionSets.load(tmp_path / "s.json")
    assert all((a == b).all() for a, b in zip(again.predict(probs), sets.predict(probs), strict=True))
    with pytest.raises(InputError, match="5 classes, got 2"):
        sets.predict([[0.5, 0.5]])
    with pytest.raises(InputError, match="not fitted"):
        OrdinalPredictionSets().predict(probs)
    with pytest.raises(InputError, match=r"^alpha: .*\[0, 1\)"):
        OrdinalPredictionSets(alpha=1.5).fit(probs, y)
    with pytest.raises(InputError, match="^prediction_sets:"):
        OrdinalPredictionSets.from_dict({})
    with pytest.raises(InputError, match="absent.json"):
        OrdinalPredictionSets.load(tmp_path / "absent.json")


@pytest.mark.parametrize("damage", [{"thresholds": [float("nan")] * 5}, {"thresholds": [0.1]}, {"alpha": "x"}])
def test_prediction_sets_from_dict_damaged_data_raises(damage):
    state = OrdinalPredictionSets().fit(*sample(100, seed=0)).to_dict()
    with pytest.raises(InputError, match="thresholds|alpha"):
        OrdinalPredictionSets.from_dict(state | damage)


def test_prediction_sets_fit_rows_of_the_calibrator_raises():
    probs, y = sample(200, seed=0)
    used = SimpleNamespace(fitted_on_=UsedRows.from_values(probs[:100], ids=range(100)))
    with pytest.raises(InputError, match=r"^10 of the 110 rows .*'90'.*calibrator"):
        OrdinalPredictionSets().fit(probs[90:], y[90:], ids=range(90, 200), calibrator=used)
    OrdinalPredictionSets().fit(probs[100:], y[100:], ids=range(100, 200), calibrator=used)


def test_prediction_sets_load_reads_a_file_of_0_2():
    sets = OrdinalPredictionSets.load(Path(__file__).parents[1] / "data" / "written_by_0_2" / "prediction_sets.json")
    rng = np.random.default_rng(1)
    probs, y = rng.dirichlet(np.ones(3), size=60), rng.integers(3, size=60)
    again = OrdinalPredictionSets(alpha=0.2, class_conditional=True).fit(probs, y, ids=range(60))
    assert (sets.alpha, sets.class_conditional, sets.fitted_on_) == (0.2, True, again.fitted_on_)
    assert (sets.thresholds_ == again.thresholds_).all()


def test_prediction_sets_repr_names_options_rows_and_thresholds():
    probs, y = sample(200, seed=0)
    sets = OrdinalPredictionSets(alpha=0.2)
    assert repr(sets) == "OrdinalPredictionSets(alpha=0.2, class_conditional=False)"
    sets.fit(probs, y)
    for part in ("alpha=0.2", "5 classes", "200 rows", f"{sets.thresholds_[0]:.3g}"):
        assert part in repr(sets)
    cross = CrossConformalSets(alpha=0.3).fit(probs, y, fold=np.arange(200) % 4)
    for part in ("alpha=0.3", "5 classes", "200 rows", "4 folds"):
        assert part in repr(cross)


def clustered_sample(n_clusters, seed):
    """Few large clusters that are easy, and many small ones whose rows share a hidden shift of the label."""
    rng = np.random.default_rng(seed)
    large = rng.random(n_clusters) < 0.15
    size = np.where(large, rng.integers(40, 80, n_clusters), rng.integers(1, 4, n_clusters))
    cluster = np.repeat(np.arange(n_clusters), size)
    center = rng.uniform(-0.5, 4.5, size=(len(cluster), 1))
    shift = rng.normal(scale=np.where(large, 0.3, 1.5))[cluster][:, None]
    predicted, true = (np.exp(-((np.arange(5) - center - move) ** 2)) for move in (0.0, shift))
    true /= true.sum(axis=1, keepdims=True)
    y = (rng.random((len(cluster), 1)) > np.cumsum(true, axis=1)[:, :-1]).sum(axis=1)
    return predicted / predicted.sum(axis=1, keepdims=True), y, cluster


def test_prediction_sets_with_clusters_cover_rows_of_new_clusters():
    """Hierarchical conformal prediction: 30 clusters of unequal sizes, coverage of a row of a new cluster."""
    probs, y, cluster = clustered_sample(1000, 10**6)

    def coverage(sets):
        low, high = sets.predict(probs)
        covered = ((low <= y) & (y <= high)).astype(float)
        return (np.bincount(cluster, weights=covered) / np.bincount(cluster)).mean()

    ignored, counted = [], []
    for seed in range(60):
        fit_probs, fit_y, groups = clustered_sample(30, seed)
        ignored.append(coverage(OrdinalPredictionSets(alpha=0.1).fit(fit_probs, fit_y)))
        counted.append(coverage(OrdinalPredictionSets(alpha=0.1).fit(fit_probs, fit_y, groups=groups)))
    assert np.mean(ignored) < 0.82
    assert 0.88 <= np.mean(counted) < 0.96


def test_prediction_sets_clusters_of_one_row_change_nothing():
    probs, y = sample(150, 5)
    for options in ({}, {"class_conditional": True}):
        rows = OrdinalPredictionSets(**options).fit(probs, y)
        clusters = OrdinalPredictionSets(**options).fit(probs, y, groups=[f"patient {k}" for k in range(150)])
        assert (rows.thresholds_ == clusters.thresholds_).all()


def test_prediction_sets_fit_too_few_clusters_warns_and_predicts_all_classes():
    probs, y = sample(80, 5)
    with pytest.warns(CalibrationWarning, match="too few clusters for alpha = 0.1.*all classes.*9 clusters"):
        sets = OrdinalPredictionSets(alpha=0.1).fit(probs, y, groups=np.arange(80) // 10)
    assert np.isinf(sets.thresholds_).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(OrdinalPredictionSets().fit(probs, y, groups=np.arange(80) % 9).thresholds_).all()


def hard_subgroup(rows, seed):
    probs, y = sample(rows, seed, calibrated=True)
    rng = np.random.default_rng(seed)
    subgroup = rng.choice(["easy", "hard"], rows, p=[0.8, 0.2])
    return probs, np.where((subgroup == "hard") & (rng.random(rows) < 0.5), rng.integers(5, size=rows), y), subgroup


def test_prediction_sets_with_subgroups_cover_each_subgroup(tmp_path):
    probs, y, subgroup = hard_subgroup(8000, 0)
    half = np.arange(8000) < 4000
    plain = OrdinalPredictionSets().fit(probs[half], y[half])
    each = OrdinalPredictionSets().fit(probs[half], y[half], subgroup=subgroup[half])
    test = (probs[~half], y[~half])
    without = plain.coverage_report(*test, subgroup=subgroup[~half])
    assert without.by_subgroup["hard"].coverage < 0.85
    assert any("subgroup hard" in note and "--subgroup" in note for note in without.notes())
    report = each.coverage_report(*test, subgroup=subgroup[~half])
    assert min(part.coverage for part in report.by_subgroup.values()) > 0.87
    assert not any("subgroup" in note for note in report.notes())
    assert "2 subgroups" in repr(each)
    each.save(tmp_path / "s.json")
    again = OrdinalPredictionSets.load(tmp_path / "s.json")
    assert again.subgroup_thresholds_ == each.subgroup_thresholds_
    for loaded, other in zip(
        again.predict(probs, subgroup=subgroup), each.predict(probs, subgroup=subgroup), strict=True
    ):
        assert (loaded == other).all()
    with pytest.raises(InputError, match="^subgroup: missing.*2 subgroups"):
        each.predict(probs)
    with pytest.raises(InputError, match="class_conditional"):
        OrdinalPredictionSets(class_conditional=True).fit(probs, y, subgroup=subgroup)


def test_prediction_sets_small_and_unseen_subgroups_get_the_threshold_of_all_rows():
    probs, y, subgroup = hard_subgroup(500, 1)
    subgroup[:8] = "tiny"
    with pytest.warns(CalibrationWarning, match=r"subgroup tiny \(8 rows\) gets the threshold of all.*9 rows"):
        sets = OrdinalPredictionSets().fit(probs, y, subgroup=subgroup)
    assert set(sets.subgroup_thresholds_) == {"easy", "hard"}
    plain = OrdinalPredictionSets().fit(probs, y)
    for name in ("tiny", "never seen"):
        with pytest.warns(CalibrationWarning, match=f"1 subgroups had no rows.*: {name}"):
            predicted_sets = sets.predict(probs, subgroup=[name] * 500)
        assert all((a == b).all() for a, b in zip(predicted_sets, plain.predict(probs), strict=True))


def test_coverage_report_names_classes_below_the_target_and_the_option():
    probs, y = sample(6000, 1, calibrated=True)
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.2, 4, y)  # class 4 is hard
    half = len(y) // 2
    plain = OrdinalPredictionSets().fit(probs[:half], y[:half]).coverage_report(probs[half:], y[half:])
    (note,) = plain.notes(["a", "b", "c", "d", "worst"])
    assert note.startswith(f"class worst: coverage {plain.class_coverage[4]:.1%} of {plain.class_counts[4]:,} rows")
    assert "--class-conditional" in note
    assert note.replace("worst", "4") in str(plain)
    assert plain.class_counts.tolist() == np.bincount(y[half:]).tolist()
    each = OrdinalPredictionSets(class_conditional=True).fit(probs[:half], y[:half])
    assert each.coverage_report(probs[half:], y[half:]).notes() == []
    few = plain.by_class[4]
    assert not OrdinalPredictionSets().fit(probs[:half], y[:half]).coverage_report(probs[-12:], y[-12:]).notes()
    assert few.high < 0.9


def test_prediction_sets_class_conditional_states_the_rows_of_a_class_in_every_set():
    probs, y = sample(300, 3)
    keep = (y != 2) | (np.cumsum(y == 2) <= 4)
    with pytest.warns(CalibrationWarning, match=r"class 2 \(4 rows\) is in every set; each class needs at least 9"):
        OrdinalPredictionSets(class_conditional=True).fit(probs[keep], y[keep])


def test_coverage_interval_of_clusters_is_wider():
    covered = np.arange(200) % 10 < 8
    low, high = coverage_interval(covered)
    assert (low, high) == pytest.approx((0.7375, 0.8530), abs=1e-3)  # scipy.stats.binomtest(160, 200).proportion_ci()
    clustered = coverage_interval(np.repeat(np.arange(20) % 10 < 8, 10), np.repeat(np.arange(20), 10))
    assert clustered == pytest.approx(coverage_interval(np.arange(20) % 10 < 8))


@pytest.mark.parametrize("sets", [OrdinalPredictionSets(), CrossConformalSets()], ids=lambda sets: type(sets).__name__)
def test_prediction_sets_before_fit_raise_not_fitted_error(sets, tmp_path):
    probs, y = sample(20, 0)
    calls = {
        "predict": lambda: sets.predict(probs),
        "coverage_report": lambda: sets.coverage_report(probs, y),
        "to_dict": lambda: sets.to_dict(),
        "save": lambda: sets.save(tmp_path / "s.json"),
    }
    for name in set(calls) & set(dir(sets)):
        with pytest.raises(NotFittedError, match="not fitted") as caught:
            calls[name]()
        assert isinstance(caught.value, InputError)
    assert repr(sets).startswith(type(sets).__name__)


def test_cross_conformal_class_conditional_counts_only_rows_of_the_class(tmp_path):
    """The second class has much larger scores; marginal sets cover it rarely, class-conditional sets as often."""
    rng = np.random.default_rng(0)
    y = (rng.random(2000) < 0.2).astype(int)
    first = np.where(y == 1, rng.uniform(0.3, 1, 2000), rng.uniform(0.6, 1, 2000))
    probs, fold = np.stack([first, 1 - first], axis=1), np.arange(1000) % 5
    rates = []
    for flag in (False, True):
        sets = CrossConformalSets(class_conditional=flag).fit(probs[:1000], y[:1000], fold=fold)
        low, high = sets.predict(np.stack([probs[1000:]] * 5))
        rates.append(((low <= y[1000:]) & (y[1000:] <= high))[y[1000:] == 1].mean())
    assert rates[0] < 0.75
    assert rates[1] == pytest.approx(0.9, abs=0.04)
    with pytest.raises(InputError, match="class_conditional"):
        sets.save(tmp_path / "sets.json")
    few = CrossConformalSets(class_conditional=True).fit(probs[:20], np.arange(20) % 20 // 19, fold=fold[:20])
    assert few.unlimited_classes() == [1]
