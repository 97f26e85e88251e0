"""`OrdinalLogistic`: coefficients, standard errors, tests and messages, beside statsmodels, MASS and Brant's test."""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

from orcu import OrdinalLogistic, metrics
from orcu.errors import InputError, UnknownNameError
from orcu.estimators.proportional_odds import fit_cumulative_logit
from orcu.kernels import cumulative

# The data set "housing" of R's MASS (Madsen 1976): satisfaction low, medium, high of each line; the lines are the
# influences low, medium, high, within the types of house, within the contact with other residents low, high.
HOUSING = """
21 21 28  34 22 36  10 11 36   61 23 17  43 35 40  26 18 54   13 9 10  8 8 12  6 7 9   18 6 7  15 13 13  7 5 11
14 19 37  17 23 40  3 5 23     78 46 43  48 45 86  15 25 62   20 23 20 10 22 24 7 10 21 57 23 13 31 21 13 5 6 13
"""
# The data set "survey" of R's MASS (Venables and Ripley 1999): heights in cm by smoking and sex.
SMOKERS = {
    ("Occas", "F"): "168 172 160.02 169.2 165.1 170 167 168",
    ("Occas", "M"): "190 171 175.26 177 182.88 172 176 185",
    ("Regul", "F"): "152.4 160.02 167",
    ("Regul", "M"): "177.8 180 182 190 180.34 178.5 189 187.96 187 172.72 179.1",
    ("Heavy", "F"): "166.4 170 165.1 163 170.18",
    ("Heavy", "M"): "176 179 193.04 184 171",
    ("Never", "F"): """
        173 172.72 157 156.2 155 155 156 157 168 169 154.94 176.5 180.34 165 157.48 167.64 178 170 164 172 170 171
        167.64 165 165 165.1 167 162.56 170 165 168 166.5 175.26 159 175 170 175 170.18 162.56 158 159 171 172 172.72
        157 152 167 175 165 172.72 172 165 164 165 167.64 167 168 170 168 165 157.48 170 164 162.56 162.5 163 160.02
        157.48 165 170.18 164 160 153.5 171.5 160 163 168.9 173 167.64 162.56 150 169 165.1 160 170 168.5""",
    ("Never", "M"): """
        160 165 182.88 175 167 182.88 190.5 177 190.5 180.34 180.34 184 172.72 175.26 167 180 180 182.5 185 172 180.34
        170 200 190 170.18 179 171 177.8 187 183 180 185.42 176.5 167.64 179 183 165 187 170 180 190.5 185 180 175.26
        180.34 187.96 178 175.26 182.88 170 180 185 185.42 195 172.72 180.34 173 187.96 168 191.8 177 189 180.34 170
        175 168 165 173 196 179.1 180 154.94 174 160 165 165 170 185 188 185 180.34 183""",
}


def housing():
    levels = ["Low", "Medium", "High"]
    rows = [
        (satisfaction, influence, kind, contact)
        for contact in ("Low", "High")
        for kind in ("1 Tower", "2 Apartment", "3 Atrium", "4 Terrace")
        for influence in ("1 Low", "2 Medium", "3 High")
        for satisfaction in levels
    ]
    frame = pd.DataFrame(rows, columns=["Sat", "Infl", "Type", "Cont"])
    frame["Cont"] = (frame["Cont"] == "High").astype(float)
    return frame[["Infl", "Type", "Cont"]], frame["Sat"], np.array(HOUSING.split(), dtype=float), levels


def survey():
    rows = [
        (smoke, float(sex == "M"), float(height))
        for (smoke, sex), heights in SMOKERS.items()
        for height in heights.split()
    ]
    frame = pd.DataFrame(rows, columns=["Smoke", "Male", "Height"])
    return frame[["Male", "Height"]], frame["Smoke"], ["Never", "Occas", "Regul", "Heavy"]


def applications():
    """The UCLA example of ordered logit, which statsmodels ships with its tests."""
    results = pytest.importorskip("statsmodels.miscmodels.tests.results.results_ordinal_model")
    frame = results.data_store.df
    return frame[["pared", "public", "gpa"]], frame["apply"]


def sample(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    return x, np.digitize(x[:, 0] - 0.5 * x[:, 1] + rng.logistic(size=rows), [-1.5, 0, 1.5])


def test_fit_equals_statsmodels_ordered_model_on_its_example():
    ordinal = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    x, y = applications()
    theirs = ordinal.OrderedModel(y, x, distr="logit").fit(method="newton", disp=0, tol=1e-12, maxiter=200)
    model = OrdinalLogistic().fit(x, y)
    np.testing.assert_allclose(model.coef_, theirs.params.to_numpy()[:3], atol=1e-6)
    np.testing.assert_allclose(model.std_errors_, theirs.bse.to_numpy()[:3], atol=1e-5)
    np.testing.assert_allclose(
        model.thresholds_, theirs.model.transform_threshold_params(theirs.params)[1:-1], atol=1e-6
    )
    np.testing.assert_allclose(model.summary().p_value, theirs.pvalues.to_numpy()[:3], atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(x), theirs.predict(), atol=1e-6)
    assert model.log_likelihood_ == pytest.approx(theirs.llf, abs=1e-8)


def test_fit_with_groups_equals_statsmodels_cluster_covariance():
    ordinal = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    x, y = applications()
    groups = np.random.default_rng(0).integers(40, size=len(y))
    theirs = ordinal.OrderedModel(y, x, distr="logit").fit(
        method="bfgs", disp=0, gtol=1e-8, maxiter=2000, cov_type="cluster", cov_kwds={"groups": groups}
    )
    model = OrdinalLogistic().fit(x, y, groups=groups)
    np.testing.assert_allclose(model.std_errors_, theirs.bse.to_numpy()[:3], atol=1e-5)
    assert "cluster-robust, with 40 groups" in str(model.summary())
    with pytest.raises(InputError, match="groups: every row has the same group"):
        OrdinalLogistic().fit(x, y, groups=np.zeros(len(y)))


def test_fit_with_weights_equals_the_published_polr_example():
    """``example(polr)`` of R's MASS: polr(Sat ~ Infl + Type + Cont, weights = Freq, data = housing)."""
    x, y, counts, levels = housing()
    model = OrdinalLogistic(classes=levels).fit(x, y, sample_weight=counts)
    names = ("Infl=2 Medium", "Infl=3 High", "Type=2 Apartment", "Type=3 Atrium", "Type=4 Terrace", "Cont")
    assert model.coef_names_ == names
    expected = [0.5663937, 1.2888191, -0.5723501, -0.3661866, -1.0910149, 0.3602841]
    np.testing.assert_allclose(model.coef_, expected, atol=1e-5)
    np.testing.assert_allclose(model.std_errors_, [0.10465, 0.12716, 0.11924, 0.15517, 0.15149, 0.09554], atol=1e-5)
    np.testing.assert_allclose(model.thresholds_, [-0.4961, 0.6907], atol=1e-4)
    assert -2 * model.log_likelihood_ == pytest.approx(3479.149, abs=5e-4)
    assert "1,681 rows" in str(model.summary())


def test_fit_with_weights_equals_repeated_rows():
    x, y = sample()
    weight = np.random.default_rng(1).integers(0, 4, size=len(y))
    weighted = OrdinalLogistic().fit(x, y, sample_weight=weight)
    repeated = OrdinalLogistic().fit(np.repeat(x, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-8)
    np.testing.assert_allclose(weighted.covariance_, repeated.covariance_, rtol=1e-8)


def test_brant_test_equals_the_published_example_of_the_r_package_brant():
    """``example(brant)`` 0.3-0: Smoke ~ Sex + Height of MASS::survey; X2 3.28 (4), 1.58 (2) and 0.02 (2)."""
    x, y, levels = survey()
    model = OrdinalLogistic(classes=levels).fit(x, y)
    np.testing.assert_allclose(model.coef_, [0.09478, 0.02785], atol=2e-4)  # polr stops at a relative change of 1e-8
    np.testing.assert_allclose(model.std_errors_, [0.4808, 0.0243], rtol=1e-2)  # and differentiates numerically
    np.testing.assert_allclose(model.thresholds_, [6.3113, 6.9224, 7.8802], atol=2e-3)
    assert -2 * model.log_likelihood_ == pytest.approx(287.0276, abs=1e-4)
    test = model.brant_test(x, y)
    assert (round(test.statistic, 2), test.df, round(test.p_value, 2)) == (3.28, 4, 0.51)
    columns = {name: (round(value, 2), df, round(p, 2)) for name, (value, df, p) in test.columns.items()}
    assert columns == {"Male": (1.58, 2, 0.45), "Height": (0.02, 2, 0.99)}
    assert "all columns" in str(test)
    assert "evidence against proportional odds" in str(test)


def test_brant_test_of_stata_example_has_the_published_statistics():
    """UCLA's page on ordered logistic regression in Stata: brant after ologit apply pared public gpa."""
    x, y = applications()
    test = OrdinalLogistic().fit(x, y).brant_test(x, y)
    assert (round(test.statistic, 2), test.df, round(test.p_value, 3)) == (4.34, 3, 0.227)
    assert [round(value, 2) for value, _, _ in test.columns.values()] == [0.13, 3.44, 0.18]


def test_brant_test_of_a_category_tests_its_coefficients_together():
    x, y, counts, levels = housing()
    model = OrdinalLogistic(classes=levels).fit(x, y, sample_weight=counts)
    test = model.brant_test(x, y, sample_weight=counts)
    assert test.df == 6
    assert {name: df for name, (_, df, _) in test.columns.items()} == {"Infl": 2, "Type": 3, "Cont": 1}


def test_brant_test_of_separated_thresholds_or_two_classes_raises():
    x = np.arange(30.0)[:, None] % 10
    y = np.where(x[:, 0] < 5, 0, np.arange(30) % 2 + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = OrdinalLogistic().fit(x, y)
    with pytest.raises(InputError, match="column 'x0' separates the classes up to number 0"):
        model.brant_test(x, y)
    x, y = sample()
    with pytest.raises(InputError, match="three classes or more"):
        OrdinalLogistic().fit(x, y // 2).brant_test(x, y // 2)


def test_fit_of_two_classes_equals_logistic_regression():
    x, y = sample()
    for strength in (np.inf, 0.05):
        theirs = LogisticRegression(C=strength, tol=1e-10, max_iter=1000).fit(x, y > 1)
        ours = OrdinalLogistic(C=strength).fit(x, (y > 1).astype(int))
        np.testing.assert_allclose(ours.coef_, theirs.coef_[0], atol=1e-6)
        np.testing.assert_allclose(ours.thresholds_, -theirs.intercept_, atol=1e-6)


def test_fit_without_proportional_odds_in_any_column_is_a_stationary_point_with_the_right_covariance():
    """The gradient and the Hessian of the partial model, beside finite differences of the likelihood."""
    x, y = sample()
    names = ["x0", "x1", "x2"]
    model = OrdinalLogistic(partial=names[:2]).fit(x, y)
    assert model.coef_names_[:4] == ("x0 [y > 0]", "x0 [y > 1]", "x0 [y > 2]", "x1 [y > 0]")
    parameters = np.concatenate([model.thresholds_, model.coef_])

    def log_likelihood(p):
        beta = np.stack([p[3:6], p[6:9], np.full(3, p[9])])
        below = 1 / (1 + np.exp(x @ beta - p[:3]))
        probs = np.diff(np.column_stack([np.zeros(len(x)), below, np.ones(len(x))]), axis=1)
        return np.log(probs[np.arange(len(y)), y]).sum()

    assert log_likelihood(parameters) == pytest.approx(model.log_likelihood_, abs=1e-9)
    gradient = approx_fprime(parameters, log_likelihood, 1e-6)
    assert np.abs(gradient).max() < 0.02
    shifts = np.eye(10) * 1e-4
    hessian = np.array(
        [
            [
                sum(
                    a * b * log_likelihood(parameters + a * shifts[i] + b * shifts[j]) / 4e-8
                    for a in (-1, 1)
                    for b in (-1, 1)
                )
                for j in range(10)
            ]
            for i in range(10)
        ]
    )
    np.testing.assert_allclose(model.covariance_, np.linalg.inv(-hessian), rtol=1e-3, atol=1e-6)
    assert model.predict_proba(x).sum(axis=1) == pytest.approx(np.ones(len(x)))


def test_fit_does_not_depend_on_units_of_the_columns():
    x, y = sample()
    model, shifted = OrdinalLogistic().fit(x, y), OrdinalLogistic().fit(1e6 + 1e-3 * x, y)
    np.testing.assert_allclose(shifted.coef_, 1e3 * model.coef_, rtol=1e-5)
    np.testing.assert_allclose(shifted.std_errors_, 1e3 * model.std_errors_, rtol=1e-5)


def test_log_interval_derivatives_equal_finite_differences():
    ends = np.array([0.7, -0.4])

    def value(p):
        return cumulative.log_interval(p[:1], p[1:], p[:1] - p[1:])[0][0]

    _, by_upper, by_lower = cumulative.log_interval(ends[:1], ends[1:], ends[:1] - ends[1:])
    np.testing.assert_allclose([by_upper[0], by_lower[0]], approx_fprime(ends, value, 1e-7), atol=1e-6)
    upper, lower, cross = (part[0] for part in cumulative.log_interval_hessian(ends[:1], ends[1:], ends[:1] - ends[1:]))

    def gradient(p):
        return np.concatenate(cumulative.log_interval(p[:1], p[1:], p[:1] - p[1:])[1:])

    np.testing.assert_allclose([[upper, cross], [cross, lower]], approx_fprime(ends, gradient, 1e-7), atol=1e-6)


def test_fit_of_separated_classes_warns_and_gives_no_standard_errors():
    x, y = sample()
    x = np.column_stack([x, y >= 2])
    with pytest.warns(ConvergenceWarning, match="column 'x3' separates classes perfectly"):
        model = OrdinalLogistic().fit(x, y)
    assert np.isnan(model.std_errors_).tolist() == [False, False, False, True]
    assert "–" in str(model.summary())
    assert model.summary().to_dict()["coefficients"][3]["p_value"] is None
    penalised = OrdinalLogistic(C=1.0).fit(x, y)
    assert np.isfinite(penalised.std_errors_).all()
    assert "penalised (C=1)" in str(penalised.summary())


def test_fit_of_rows_that_are_nearly_separated_gives_finite_coefficients_without_a_warning():
    x, y = sample()
    x = np.column_stack([x, y >= 2])
    x[np.flatnonzero(y >= 2)[0], 3] = 0
    x[np.flatnonzero(y < 2)[0], 3] = 1
    model = OrdinalLogistic().fit(x, y)
    assert np.isfinite(model.std_errors_).all()
    assert 5 < model.coef_[3] < 20


def test_fit_of_dependent_columns_warns_and_predicts_as_without_them():
    x, y = sample()
    reference = OrdinalLogistic().fit(x, y)
    with pytest.warns(UserWarning, match="column 'x0', 'x3' is constant, or a linear combination"):
        model = OrdinalLogistic().fit(np.column_stack([x, 2 * x[:, 0]]), y)
    assert np.isnan(model.std_errors_).tolist() == [True, False, False, True]
    np.testing.assert_allclose(model.std_errors_[1:3], reference.std_errors_[1:], rtol=1e-6)
    np.testing.assert_allclose(
        model.predict_proba(np.column_stack([x, 2 * x[:, 0]])), reference.predict_proba(x), rtol=1e-6
    )
    with pytest.warns(UserWarning, match="column 'x3' is constant"):
        OrdinalLogistic().fit(np.column_stack([x, np.ones(len(x))]), y)


def test_partial_columns_whose_thresholds_cross_warn_in_fit_and_raise_in_predict():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 1))
    noise = rng.logistic(size=300)
    y = (2 * x[:, 0] + noise > -1).astype(int) + ((x[:, 0] + noise > 1) & (2 * x[:, 0] + noise > -1))
    model = OrdinalLogistic(partial=["x0"]).fit(x[np.abs(x[:, 0]) < 1.5], y[np.abs(x[:, 0]) < 1.5])
    with pytest.raises(InputError, match=r"X: 1 of 2 rows have a negative probability \(row 1, from 0\)"):
        model.predict_proba([[0.0], [-20.0]])
    far = np.concatenate([x, np.full((3, 1), -30.0)])
    with pytest.warns(UserWarning, match="partial: 10 of 303 training rows have a negative probability"):
        OrdinalLogistic(partial=["x0"]).fit(far, np.concatenate([y, [0, 0, 0]]))
    with pytest.raises(UnknownNameError, match="column of partial 'age'"):
        OrdinalLogistic(partial=["age"]).fit(x, y)
    with pytest.raises(InputError, match="partial: expected a list of column names"):
        OrdinalLogistic(partial="x0").fit(x, y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": [np.nan, *range(1, 60)]}, r"column 'age' has 1 missing values.*first in row 0.*no coefficient"),
        ({"site": [None, *["n", "s"] * 29, "n"]}, r"column 'site' has 1 missing values"),
    ],
)
def test_fit_with_missing_values_raises(change, message):
    frame = pd.DataFrame({"age": np.arange(60.0) % 7, "site": ["n", "s", "t"] * 20})
    y = np.arange(60) % 4
    with pytest.raises(InputError, match=message):
        OrdinalLogistic().fit(frame.assign(**change), y)
    model = OrdinalLogistic().fit(frame, y)
    with pytest.raises(InputError, match=message):
        model.predict(frame.assign(**change))


def test_predict_of_unseen_categories_raises():
    frame = pd.DataFrame({"age": np.arange(60.0) % 7, "site": ["n", "s", "t"] * 20})
    model = OrdinalLogistic().fit(frame, np.arange(60) % 4)
    assert model.coef_names_ == ("age", "site=s", "site=t")
    with pytest.raises(InputError, match="'site': 60 of 60 values did not occur.*no coefficient"):
        model.predict(frame.assign(site="west"))


def test_fit_with_invalid_arguments_raises():
    x, y = sample(60)
    with pytest.raises(InputError, match="C: expected a number above 0"):
        OrdinalLogistic(C=0).fit(x, y)
    with pytest.raises(InputError, match="class 4 has no rows"):
        OrdinalLogistic(classes=[0, 1, 2, 3, 4]).fit(x, y)
    with pytest.raises(NotFittedError):
        OrdinalLogistic().summary()
    with pytest.raises(InputError, match="predict_sets: OrdinalLogistic holds no rows out"):
        OrdinalLogistic().fit(x, y).predict_sets(x)


def test_summary_is_a_table_in_text_html_and_arrow():
    x, y, counts, levels = housing()
    frame = x.rename(columns={"Cont": "<b>\x1b[31m"})
    summary = OrdinalLogistic(classes=levels).fit(frame, y, sample_weight=counts).summary()
    text = str(summary)
    assert "<b>?[31m" in text
    assert "\x1b" not in text
    assert "1.762  1.435 to 2.163  < 0.001" in text
    assert "Low | Medium" in text
    html = summary._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>\x1b" not in html
    table = summary.to_arrow()
    assert table.column_names == ["name", "coef", "std_error", "odds_ratio", "low", "high", "p_value"]
    assert table.num_rows == 6
    assert json.loads(json.dumps(summary.to_dict()))["thresholds"][0]["name"] == "Low | Medium"


def test_model_is_a_pickle_and_its_probabilities_are_ordered():
    x, y = sample()
    model = pickle.loads(pickle.dumps(OrdinalLogistic().fit(x, y)))
    probs = model.predict_proba(x)
    assert metrics.rps(probs, y) < metrics.rps(np.tile(np.bincount(y) / len(y), (len(y), 1)), y)
    assert model.score(x, y) == np.mean(model.predict(x) == y)
    assert "fitted on 4 classes: 3 coefficients" in repr(model)


def test_newton_of_extreme_weights_converges():
    x, y = sample()
    model = fit_cumulative_logit(x, y, 4, sample_weight=np.full(len(y), 1e-9))
    np.testing.assert_allclose(model.parameters, fit_cumulative_logit(x, y, 4).parameters, rtol=1e-7)


@pytest.mark.filterwarnings("ignore")  # separated classes, and scikit-learn's own
def test_ordinal_logistic_passes_scikit_learn_checks():
    expected = {
        "check_classifiers_classes": "strings without an order are refused: the alphabetical order may be wrong",
        "check_sample_weight_equivalence_on_dense_data": "separated classes have infinite coefficients",
    }
    results = check_estimator(OrdinalLogistic(), on_fail=None, on_skip=None, expected_failed_checks=expected)
    assert {result["check_name"] for result in results if result["status"] in {"failed", "xfail"}} == set(expected)
    results = check_estimator(OrdinalLogistic(C=1.0), on_fail=None, on_skip=None)
    failed = {result["check_name"] for result in results if result["status"] == "failed"}
    assert failed == {"check_classifiers_classes"}
