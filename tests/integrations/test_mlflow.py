"""Tests of models of orcu in MLflow."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from orcu import CalibratedOrdinal, OrdinalBoosting, OrdinalClassifier

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # MLflow uses deprecated functions
CLASSES = ["none", "mild", "severe"]


@pytest.mark.parametrize("serialization", ["cloudpickle", "skops"])
@pytest.mark.parametrize(
    "model",
    [
        OrdinalClassifier(estimators=["linear", "forest"], cv=2, classes=CLASSES, random_state=0),
        OrdinalBoosting("ce", cv=2, n_estimators=5, classes=CLASSES, random_state=0),
        CalibratedOrdinal(LogisticRegression(), cv=2, classes=CLASSES),
    ],
    ids=["classifier", "boosting", "calibrated"],
)
def test_mlflow_save_model_loaded_model_predicts_the_same(model, serialization, tmp_path):
    mlflow_sklearn = pytest.importorskip("mlflow.sklearn", reason="mlflow is not installed")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.array(CLASSES)[np.digitize(X[:, 0], [-0.5, 0.5])]
    model.fit(X, y)
    options = {}
    if serialization == "skops":
        skops_io = pytest.importorskip("skops.io", reason="skops is not installed")
        options["skops_trusted_types"] = skops_io.get_untrusted_types(data=skops_io.dumps(model))
    mlflow_sklearn.save_model(model, tmp_path / "model", serialization_format=serialization, **options)
    loaded = mlflow_sklearn.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
