"""`TableEncoder`: numbers outside of the training range, missing values and columns."""

import re

import numpy as np
import pytest

from orcu import OrdinalBoosting, OrdinalClassifier
from orcu.errors import InputError
from orcu.preprocessing import TableEncoder


def encoder(robust=True):
    table = {"age": [20.0, 30.0, 40.0, 80.0], "site": ["n", "s", "n", "s"]}
    return TableEncoder.fit(table, robust=robust)


@pytest.mark.parametrize("robust", [True, False])
def test_encode_with_an_infinite_number_raises(robust):
    for value in (float("inf"), -np.inf, "inf"):
        with pytest.raises(InputError, match=r"^column 'age': row 1 \(from 0\) is -?inf, expected a finite"):
            encoder(robust).encode({"age": [30.0, value], "site": ["n", "s"]})
    with pytest.raises(InputError, match="^column 'x': row 0"):
        TableEncoder.fit({"x": np.array([np.inf, 1.0])}, robust=robust)


def test_encode_with_numbers_far_outside_of_the_training_range_warns_and_stays_bounded():
    for value in (1e30, -1e300, 1e308):
        with pytest.warns(UserWarning, match=r"^column 'age': 1 of 2 values, such as .*e\+3.*range 20 to 80"):
            features = encoder().encode({"age": [30.0, value], "site": ["n", "s"]}).features
        assert np.isfinite(features).all()
        assert abs(features[1, 0]) == pytest.approx(3.0)
    encoder().encode({"age": [500.0, -400.0], "site": ["n", "s"]})  # a few ranges away: no warning


def test_encode_for_a_single_network_warns_of_large_numbers_and_refuses_what_single_precision_does_not_hold():
    with pytest.warns(UserWarning, match="such as 1e"):
        encoder(robust=False).encode({"age": [1e10], "site": ["n"]})
    for value in (1e30, 1e300):
        with (
            pytest.warns(UserWarning, match="such as 1e"),
            pytest.raises(InputError, match=r"^column 'age': row 0 \(from 0\) is 1e\+30.*too far from the training"),
        ):
            encoder(robust=False).encode({"age": [value], "site": ["n"]})


def test_fit_with_numbers_too_large_to_scale_raises():
    for robust, largest in ((False, 1e300), (True, 1.7e308)):
        values = np.array([-largest, -largest, largest, largest])
        with pytest.raises(InputError, match="^column 'x': its numbers, from .* too large to be scaled"):
            TableEncoder.fit({"x": values}, robust=robust)


@pytest.mark.parametrize("robust", [True, False])
def test_encode_with_missing_values_that_training_had_not_warns_with_column_and_count(robust):
    with pytest.warns(UserWarning, match=r"^column 'age': 2 of 3 values are missing, but none was missing in training"):
        encoder(robust).encode({"age": [None, 30.0, np.nan], "site": ["n", "s", "n"]})
    with pytest.warns(UserWarning, match="^column 'site': 1 of 1 values are missing"):
        encoder(robust).encode({"age": [30.0], "site": [None]})
    gaps = TableEncoder.fit({"age": [20.0, None, 40.0], "site": ["n", None, "s"]}, robust=robust)
    gaps.encode({"age": [None], "site": [None]})


def test_encode_without_a_column_names_it_and_the_nearest_one():
    for given, hint in (("Age", "Is it 'Age'?"), ("ages", "Is it 'ages'?"), ("weight", "It has 'weight', 'site'.")):
        with pytest.raises(InputError, match=rf"no column 'age', .*{re.escape(hint)}"):
            encoder().encode({given: [30.0], "site": ["n"]})


def test_range_of_the_training_rows_is_kept_in_plain_data():
    again = TableEncoder.from_dict(encoder().to_dict())
    assert (again.columns[0].low, again.columns[0].high) == (20.0, 80.0)
    old = TableEncoder.from_dict([{"name": "x", "mean": 0.0, "std": 1.0, "gaps": False, "categories": None}])
    old.encode({"x": [1e6]})  # the range is not known, so there is no warning


def test_predict_of_an_estimator_with_unlike_rows_warns():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    model = OrdinalClassifier(estimators=["linear"], cv=2, random_state=0).fit(x, np.arange(60) % 3)
    with pytest.warns(UserWarning, match="^column 'x1': 1 of 2 values are missing"):
        model.predict_proba([[0.0, np.nan], [1.0, 1.0]])
    with pytest.warns(UserWarning, match="^column 'x0': 1 of 1 values, such as 1e"):
        model.predict_proba([[1e30, 0.0]])


def test_xgboost_with_numbers_beyond_float32_is_fitted():
    pytest.importorskip("xgboost", reason="pip install 'orcu[boosting]'")
    x = np.linspace(-1, 1, 60)[np.random.default_rng(0).permutation(60)][:, None] * [[1e300]]
    y = np.digitize(x[:, 0], [-3e299, 3e299])
    model = OrdinalBoosting(library="xgboost", n_estimators=3, cv=2, random_state=0).fit(x, y)
    assert model.predict([[-1e300]])[0] == 0
