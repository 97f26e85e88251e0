"""The recommendation and the scikit-learn wrapper."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from orcu import CalibratedOrdinal, decide, metrics
from orcu.calibrators import GapScaling, recommend
from orcu.calibrators.cross_validation import cross_validated
from orcu.calibrators.recommend import cross_fitted
from orcu.errors import InputError
from orcu.estimators.calibrated import ordered_labels
from orcu.model_selection import stratified_folds


def sample(rows=600, num_classes=4, sharpen=2.5, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    center = rng.uniform(-0.5, num_classes - 0.5, size=(rows, 1))
    logits = -((np.arange(num_classes) - center) ** 2) + rng.normal(scale=noise, size=(rows, num_classes))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random(rows)[:, None] > np.cumsum(p, 1)[:, :-1]).sum(1)
    return sharpen * logits, y


def test_the_rule_is_kept():
    z, y = sample(noise=1.0)
    found = recommend(z, y, methods=("temperature", "gap"), unimodality=0.99)
    assert set(found.table) == {"none", "temperature", "temperature+projection", "gap", "gap+projection", "projection"}
    allowed = {name: row["rps"] for name, row in found.table.items() if row["unimodality"] >= 0.99}
    assert found.chosen == min(allowed, key=allowed.get)
    assert "projection" in found.chosen
    assert metrics.unimodality(found.calibrator.predict_proba(z)) == 1
    free = recommend(z, y, methods=("temperature", "gap"), unimodality=0.0)
    assert free.table[free.chosen]["rps"] == min(row["rps"] for row in free.table.values())
    assert f"→ {found.chosen}" in str(found)


def test_a_calibrated_model_may_be_left_alone():
    z, y = sample(4000, sharpen=1.0, noise=0.0)
    found = recommend(z, y, methods=("temperature",))
    assert found.table[found.chosen]["rps"] == pytest.approx(found.table["none"]["rps"], abs=2e-3)
    if found.chosen == "none":
        assert found.calibrator is None


def test_too_few_rows_are_refused():
    z, y = sample(30)
    with pytest.raises(InputError, match="30 rows are too few to compare calibrators"):
        recommend(z, y)


def test_cross_fitting_never_uses_a_row_on_itself():
    z, y = sample(200)
    fold = stratified_folds(y, 5)
    told = cross_fitted(GapScaling(shrinkage=0.1), z, y)
    for k in range(5):
        fitted = GapScaling(shrinkage=0.1).fit(z[fold != k], y[fold != k])
        assert told[fold == k] == pytest.approx(fitted.predict_proba(z[fold == k]))


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(1200, 4))
    grade = np.digitize(features[:, 0] + features[:, 1] + rng.normal(size=1200), [-1.2, 0.3, 1.5])
    return features, grade


NAMES = np.array(["none", "mild", "moderate", "severe"])


def test_a_forest_is_calibrated_out_of_fold(table):
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
    median = model.set_params(decide="median").predict(x[test])
    assert (median == NAMES[decide(probs, "median")]).all()
    # a row's prediction does not depend on the rows beside it
    assert model.predict_proba(x[test][:1]) == pytest.approx(probs[:1])


def test_columns_follow_the_given_order_not_the_alphabet(table):
    x, y = table
    logistic = LogisticRegression()
    by_name = CalibratedOrdinal(logistic, method="temperature", classes=NAMES).fit(x, NAMES[y]).predict_proba(x)
    by_number = CalibratedOrdinal(logistic, method="temperature").fit(x, y).predict_proba(x)
    assert by_name == pytest.approx(by_number, abs=1e-6)
    ordered = pd.Series(pd.Categorical(NAMES[y], categories=NAMES, ordered=True))
    assert ordered_labels(ordered, None).tolist() == NAMES.tolist()
    with pytest.raises(InputError, match=r"their order cannot be told from the alphabet.*classes=\[lowest"):
        CalibratedOrdinal(logistic).fit(x, NAMES[y])
    with pytest.raises(InputError, match="has label 'severe', which is none of the classes"):
        CalibratedOrdinal(logistic, classes=NAMES[:3]).fit(x, NAMES[y])


def test_it_keeps_scikit_learns_manners(table):
    x, y = table
    model = CalibratedOrdinal(LogisticRegression(), method="gap+projection", cv=3)
    copy = clone(model)
    assert copy.get_params()["method"] == "gap+projection"
    scores = cross_val_score(copy, pd.DataFrame(x), y, cv=3)
    assert scores.mean() > 0.5
    weight = np.random.default_rng(0).random(len(y))
    weighted = clone(model).fit(x, y, sample_weight=weight)
    assert metrics.unimodality(weighted.predict_proba(x)) == 1
    given = CalibratedOrdinal(LogisticRegression(), method=GapScaling(shrinkage=0.1)).fit(x, y)
    assert isinstance(given.calibrator_, GapScaling)
    assert not hasattr(given.method, "num_classes_")


def test_progress_is_told_before_each_method():
    z, y = sample(200)
    told = []
    recommend(z, y, methods=("temperature",), progress=lambda *step: told.append(step))
    assert told == [("temperature", 0, 1)]


def test_of_maps_that_are_level_the_strongest_pull_is_chosen():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=400)
    noise = rng.normal(scale=0.3, size=(2, 400))
    noise -= noise.mean(axis=1, keepdims=True)

    def told(gain):
        """Two candidates; the second is better by ``gain`` on average."""

        def log_probs(fit, judge):
            own = -np.array([1.0 + noise[0], 1.0 + noise[1] - gain])
            return [np.repeat(one[judge, None], 2, axis=1) for one in own]

        return cross_validated(y, np.ones(400), log_probs).simplest()

    assert told(0.005) == 0  # a quarter of the standard error of the difference, 0.3 sqrt(2) / 20
    assert told(0.2) == 1


def test_labels_and_classes_that_cannot_be_ordered_are_refused():
    with pytest.raises(InputError, match="row 1 has no label"):
        ordered_labels(np.array([1.0, np.nan, 2.0]), None)
    for wrong in ("abc", ["a"], ["a", "b", "a"]):
        with pytest.raises(InputError, match="two or more different labels"):
            ordered_labels(["a", "b"], wrong)
    z, y = sample(100)
    for wrong in ("gap", ()):
        with pytest.raises(InputError, match="methods: expected names"):
            recommend(z, y, methods=wrong)
