"""`recommend`, cross-validated predictions, and `CalibratedOrdinal`."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from orcu import CalibratedOrdinal, Predictions, decide, evaluate, metrics
from orcu.calibrators import AutoCalibration, GapScaling, recommend
from orcu.calibrators.cross_validation import cross_val_log_losses
from orcu.calibrators.recommend import cross_val_predict_proba
from orcu.errors import InputError
from orcu.estimators.labels import ordered_labels
from orcu.model_selection import stratified_folds


def sample(rows=600, num_classes=4, sharpen=2.5, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    center = rng.uniform(-0.5, num_classes - 0.5, size=(rows, 1))
    logits = -((np.arange(num_classes) - center) ** 2) + rng.normal(scale=noise, size=(rows, num_classes))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random(rows)[:, None] > np.cumsum(p, 1)[:, :-1]).sum(1)
    return sharpen * logits, y


def test_recommend_chooses_the_lowest_log_loss_among_unimodal_candidates():
    z, y = sample(noise=1.0)
    recommendation = recommend(z, y, calibrators=("temperature", "gap"), min_unimodality=0.99)
    table, chosen = recommendation.table, recommendation.chosen
    assert set(table) == {"none", "temperature", "temperature+projection", "gap", "gap+projection", "projection"}
    allowed = {name: row["nll"] for name, row in table.items() if row["unimodality"] >= 0.99}
    assert chosen == min(allowed, key=allowed.get)
    assert "projection" in chosen
    assert metrics.unimodality(recommendation.calibrator.predict_proba(z)) == 1
    free = recommend(z, y, calibrators=("temperature", "gap"), min_unimodality=0.0)
    assert free.table[free.chosen]["nll"] == min(row["nll"] for row in free.table.values())
    assert f"→ {chosen}" in str(recommendation)
    assert recommendation.reason.startswith(f"{chosen}:")
    assert f"{table[chosen]['nll']:.4f}" in recommendation.reason
    assert f"{len(allowed)} of 6" in recommendation.reason


def test_recommend_compares_auto_without_a_second_projection():
    z, y = sample(200)
    table = recommend(z, y, calibrators=("auto", "temperature")).table
    assert set(table) == {"none", "auto", "temperature", "temperature+projection", "projection"}
    assert table["auto"]["unimodality"] == 1


def test_recommend_for_a_calibrated_model_changes_little():
    z, y = sample(4000, sharpen=1.0, noise=0.0)
    recommendation = recommend(z, y, calibrators=("temperature",))
    table, chosen = recommendation.table, recommendation.chosen
    assert table[chosen]["rps"] == pytest.approx(table["none"]["rps"], abs=2e-3)
    if chosen == "none":
        assert recommendation.calibrator is None


def test_recommend_with_30_rows_is_refused():
    z, y = sample(30)
    with pytest.raises(InputError, match="^y: 30 rows"):
        recommend(z, y)


def test_cross_val_predict_proba_predicts_out_of_fold():
    z, y = sample(200)
    fold = stratified_folds(y, 5)
    probs = cross_val_predict_proba(GapScaling(shrinkage=0.1), z, y)
    for k in range(5):
        fitted = GapScaling(shrinkage=0.1).fit(z[fold != k], y[fold != k])
        assert probs[fold == k] == pytest.approx(fitted.predict_proba(z[fold == k]))


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(1200, 4))
    grade = np.digitize(features[:, 0] + features[:, 1] + rng.normal(size=1200), [-1.2, 0.3, 1.5])
    return features, grade


NAMES = np.array(["none", "mild", "moderate", "severe"])


def test_calibrated_ordinal_improves_a_random_forest(table):
    x, y = table
    forest = RandomForestClassifier(50, random_state=0)
    train, test = np.arange(1200) < 800, np.arange(1200) >= 800
    model = CalibratedOrdinal(forest, classes=NAMES).fit(x[train], NAMES[y[train]])
    assert model.classes_.tolist() == NAMES.tolist()
    probs = model.predict_proba(x[test])
    raw = clone(forest).fit(x[train], y[train]).predict_proba(x[test])
    assert metrics.rps(probs, y[test]) < metrics.rps(raw, y[test])
    assert metrics.sce(probs, y[test]) < metrics.sce(raw, y[test])
    assert (model.predict(x[test]) == NAMES[probs.argmax(1)]).all()
    median = model.set_params(rule="median").predict(x[test])
    assert (median == NAMES[decide(probs, "median")]).all()
    # the prediction of a row does not depend on other rows
    assert model.predict_proba(x[test][:1]) == pytest.approx(probs[:1])


def test_calibrated_ordinal_columns_follow_the_order_of_classes(table):
    x, y = table
    logistic = LogisticRegression()
    by_name = CalibratedOrdinal(logistic, calibrator="temperature", classes=NAMES).fit(x, NAMES[y]).predict_proba(x)
    by_number = CalibratedOrdinal(logistic, calibrator="temperature").fit(x, y).predict_proba(x)
    assert by_name == pytest.approx(by_number, abs=1e-6)
    ordered = pd.Series(pd.Categorical(NAMES[y], categories=NAMES, ordered=True))
    assert ordered_labels(ordered, None).tolist() == NAMES.tolist()
    with pytest.raises(InputError, match="classes="):
        CalibratedOrdinal(logistic).fit(x, NAMES[y])
    with pytest.raises(InputError, match="'severe'"):
        CalibratedOrdinal(logistic, classes=NAMES[:3]).fit(x, NAMES[y])


def test_calibrated_ordinal_supports_clone_cross_validation_and_weights(table):
    x, y = table
    model = CalibratedOrdinal(LogisticRegression(), calibrator="gap+projection", cv=3)
    copy = clone(model)
    assert copy.get_params()["calibrator"] == "gap+projection"
    scores = cross_val_score(copy, pd.DataFrame(x), y, cv=3)
    assert scores.mean() > 0.5
    weight = np.random.default_rng(0).random(len(y))
    weighted = clone(model).fit(x, y, sample_weight=weight)
    assert metrics.unimodality(weighted.predict_proba(x)) == 1
    gap = CalibratedOrdinal(LogisticRegression(), calibrator=GapScaling(shrinkage=0.1)).fit(x, y)
    assert isinstance(gap.calibrator_, GapScaling)
    assert not hasattr(gap.calibrator, "num_classes_")


def test_recommend_calls_progress_before_each_calibrator():
    z, y = sample(200)
    calls = []
    recommend(z, y, calibrators=("temperature",), progress=lambda *step: calls.append(step))
    assert calls == [("temperature", 0, 1)]


def test_simplest_chooses_the_first_candidate_within_the_standard_error():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=400)
    noise = rng.normal(scale=0.3, size=(2, 400))
    noise -= noise.mean(axis=1, keepdims=True)

    def choice(gain):
        """The choice among two candidates, the second better by ``gain`` on average."""

        def log_probs(train, test):
            candidates = -np.array([1.0 + noise[0], 1.0 + noise[1] - gain])
            return [np.repeat(values[test, None], 2, axis=1) for values in candidates]

        return cross_val_log_losses(y, np.ones(400), log_probs).simplest()

    assert choice(0.005) == 0  # a quarter of the standard error of the difference, 0.3 sqrt(2) / 20
    assert choice(0.2) == 1


def test_ordered_labels_and_recommend_refuse_invalid_arguments():
    with pytest.raises(InputError, match="row 1"):
        ordered_labels(np.array([1.0, np.nan, 2.0]), None)
    for wrong in ("abc", ["a"], ["a", "b", "a"]):
        with pytest.raises(InputError, match="^classes:"):
            ordered_labels(["a", "b"], wrong)
    z, y = sample(100)
    for wrong in ("gap", ()):
        with pytest.raises(InputError, match="^calibrators:"):
            recommend(z, y, calibrators=wrong)


def test_recommend_and_auto_score_calibrators_alike():
    z, y = sample(300)
    weight = np.random.default_rng(1).uniform(0.2, 3.0, size=300)
    cluster = np.arange(300) // 3
    for columns in ({}, {"sample_weight": weight}, {"cluster": cluster}):
        table = recommend(z, y, calibrators=("temperature", "gap"), **columns).table
        groups = {"groups": columns["cluster"]} if "cluster" in columns else columns
        auto = AutoCalibration().fit(z, y, **groups)
        for name in ("temperature", "gap"):
            assert table[name]["nll"] == pytest.approx(auto.scores_[name], abs=1e-12)


def test_recommend_ignores_rows_of_weight_0_and_a_common_factor():
    z, y = sample(240)
    weight = np.where(np.arange(240) < 160, np.random.default_rng(1).uniform(0.5, 2, size=240), 0.0)
    table = recommend(z, y, calibrators=("temperature",), sample_weight=weight).table
    for factor in (1e-6, 100.0):
        again = recommend(z[:160], y[:160], calibrators=("temperature",), sample_weight=factor * weight[:160]).table
        for name, row in table.items():
            assert row == pytest.approx(again[name], abs=1e-12)
    unweighted = recommend(z[:160], y[:160], calibrators=("temperature",)).table
    assert unweighted["none"]["nll"] != pytest.approx(table["none"]["nll"], abs=1e-6)


def test_recommend_keeps_clusters_in_one_fold():
    """Each patient has copies of one row with one label: without clusters a flexible map learns the copies."""
    rng = np.random.default_rng(0)
    z = np.repeat(rng.normal(size=(40, 4)), 10, axis=0)
    y = np.repeat(rng.integers(4, size=40), 10)
    patient = np.repeat([f"patient {k}" for k in range(40)], 10)
    leaking = recommend(z, y, calibrators=("dirichlet",)).table["dirichlet"]["nll"]
    honest = recommend(z, y, calibrators=("dirichlet",), cluster=patient).table["dirichlet"]["nll"]
    assert honest > leaking + 0.1
    with pytest.raises(InputError, match="^cluster: all rows are of one cluster"):
        recommend(z, y, cluster=["a"] * 400)


def test_recommend_reports_subgroups_and_compares_a_correction_per_subgroup():
    z, y = sample(300)
    site = np.array(["north", "south"])[np.arange(300) % 2]
    z = z * np.where(site == "north", 4.0, 0.3)[:, None]
    recommendation = recommend(z, y, subgroup=site, calibrators=("temperature",))
    assert recommendation.chosen == "grouped"
    assert set(recommendation.by_subgroup) == {"north", "south"}
    for name, rows in recommendation.by_subgroup.items():
        here = site == name
        assert rows["none"]["nll"] == pytest.approx(metrics.nll(logits=z[here], y=y[here]))
        assert rows["grouped"]["nll"] < rows["temperature"]["nll"]
    assert recommendation.calibrator.predict_proba(z[:3], subgroup=site[:3]).shape == (3, 4)


def test_recommend_of_probabilities_has_an_infinite_log_loss_where_evaluate_has_one():
    z, y = sample(400, sharpen=4.0)
    probs = np.round(np.exp(z) / np.exp(z).sum(1, keepdims=True), 2)
    probs /= probs.sum(axis=1, keepdims=True)
    impossible = int((probs[np.arange(400), y] == 0).sum())
    assert impossible > 0
    recommendation = recommend(probs=probs, y=y, calibrators=("temperature",))
    evaluation = evaluate(Predictions(probs=probs, y=y), n_resamples=0)
    assert evaluation.impossible_rows == impossible
    assert recommendation.table["none"]["nll"] == evaluation.metrics["nll"].value == np.inf
    assert "uncalibrated infinite" in recommendation.reason
    assert np.isfinite(recommendation.table["temperature"]["nll"])
    for arguments in ({}, {"logits": z, "probs": probs}):
        with pytest.raises(InputError, match="^logits, probs"):
            recommend(y=y, **arguments)


@pytest.mark.filterwarnings("ignore::orcu.calibrators.CalibrationWarning")
def test_recommend_of_extreme_logits_has_the_log_loss_of_evaluate():
    z, y = sample(200)
    z[0] = [2000.0, 0.0, 0.0, 0.0]  # e^-2000 underflows as a probability
    y[0] = 3
    assert recommend(z, y, calibrators=("temperature",)).table["none"]["nll"] == metrics.nll(logits=z, y=y) < np.inf
