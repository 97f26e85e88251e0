"""The explanation of a model that was trained on a table."""

import json

import numpy as np
import pandas as pd
import pytest

from orcu.training.experiment import train


@pytest.mark.parametrize("cv", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_train_on_a_table_explains_its_predictions_in_the_report_and_card(tmp_path, cv):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.uniform(20, 80, 300), "site": rng.choice(["north", "south"], 300), "noise": rng.normal(size=300)}
    )
    frame["grade"] = np.digitize(frame["age"] / 20 + (frame["site"] == "south") + rng.normal(size=300) / 4, [2.2, 3.4])
    frame.loc[::11, "age"] = np.nan
    frame.to_csv(tmp_path / "table.csv", index=False)
    experiment = train(
        "table",
        tmp_path / "out",
        root=tmp_path,
        options={"label": "grade", "file": "table.csv"},
        cv=cv,
        estimators=["linear"] if cv > 1 else None,
        training={"epochs": 5} if cv == 1 else None,
        calibrator="temperature",
        device="cpu",
    )
    importance = experiment.explanation.importance
    assert importance.names[0] == "age"
    assert importance.rps == pytest.approx(experiment.evaluation.metrics["rps"].value)
    assert "What the predictions depend on" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    card = json.loads((tmp_path / "out" / "card.json").read_text(encoding="utf-8"))
    assert card["explanation"]["importance"]["columns"][0]["name"] == "age"
