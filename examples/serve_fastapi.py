"""Serve a model of a table with FastAPI, from an ONNX file or from a folder of `orcu train`.

    python examples/serve_fastapi.py           # fits a small model, exports it, and sends requests to it
    MODEL=model.onnx uvicorn --app-dir examples --factory serve_fastapi:service

`create_app` reads the columns from the model: numbers and texts, each of which may be null. FastAPI refuses
requests with other columns, other types or too many rows. With an ONNX file the service needs neither orcu nor
torch.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI
from pydantic import ConfigDict, Field, create_model

MAX_ROWS = 1000  # of a request
Number = Annotated[float, Field(allow_inf_nan=False)]
Predict = Callable[[dict[str, list[Any]]], np.ndarray]


def load_onnx(file: Path) -> tuple[Predict, dict[str, type], list[str]]:
    """Prediction, type of each column, and class names of an exported model."""
    import onnxruntime

    session = onnxruntime.InferenceSession(file)
    kinds = {value.name: str if "string" in value.type else float for value in session.get_inputs()}

    def predict(columns: dict[str, list[Any]]) -> np.ndarray:
        inputs = {
            name: np.array(["" if cell is None else cell for cell in columns[name]], dtype=object)
            if kind is str
            else np.array(columns[name], dtype=np.float64)  # None becomes NaN
            for name, kind in kinds.items()
        }
        return session.run(["probs"], inputs)[0]

    return predict, kinds, json.loads(session.get_modelmeta().custom_metadata_map["orcu.classes"])


def load_folder(folder: Path) -> tuple[Predict, dict[str, type], list[str]]:
    """The same of a folder that `orcu train` has written."""
    from orcu.training.predict import TableModel

    model = TableModel.load(folder)
    kinds = {column.name: str if column.categories else float for column in model.encoder.columns}
    return model.predict_proba, kinds, list(model.classes)


def create_app(path: Path) -> FastAPI:
    """A service with the model of an ONNX file or of a folder."""
    predict, kinds, classes = load_folder(path) if path.is_dir() else load_onnx(path)
    types = {name: (str if kind is str else Number) | None for name, kind in kinds.items()}
    Row = create_model(  # noqa: N806 -- a class
        "Row", __config__=ConfigDict(extra="forbid"), **{name: (kind, ...) for name, kind in types.items()}
    )
    Rows = Annotated[list[Row], Field(min_length=1, max_length=MAX_ROWS)]  # noqa: N806
    app = FastAPI(title="Grades")

    @app.post("/predict")
    def predict_rows(rows: Rows) -> dict[str, Any]:
        cells = [row.model_dump() for row in rows]
        probs = predict({name: [row[name] for row in cells] for name in kinds})
        return {"classes": classes, "probs": probs.tolist()}

    return app


def service() -> FastAPI:
    """The service of the file or folder in the environment variable MODEL."""
    return create_app(Path(os.environ["MODEL"]))


def main() -> None:
    """Fit and export a small model, and send requests to its service."""
    import tempfile

    import pandas as pd
    from fastapi.testclient import TestClient

    from orcu import OrdinalClassifier
    from orcu.integrations.onnx import model_to_onnx

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(20, 80, 400), "site": rng.choice(["north", "south"], 400)})
    frame.loc[::10, "site"] = None
    latent = frame["age"] + 10 * (frame["site"] == "north") + rng.normal(scale=8, size=400)
    grade = np.array(["none", "mild", "severe"])[np.digitize(latent, [40, 65])]
    model = OrdinalClassifier(
        estimators=["linear", "boosting"], classes=["none", "mild", "severe"], random_state=0, verbose=-1
    ).fit(frame, grade)
    with tempfile.TemporaryDirectory() as folder:
        client = TestClient(create_app(model_to_onnx(model, Path(folder) / "model.onnx")))
    rows = [{"age": 47.5, "site": "north"}, {"age": None, "site": None}, {"age": 71, "site": "a new one"}]
    reply = client.post("/predict", json=rows).json()
    for row, probs in zip(rows, reply["probs"], strict=True):
        print(row, {name: round(p, 3) for name, p in zip(reply["classes"], probs, strict=True)})
    known = frame[:50].astype(object).where(frame[:50].notna(), None)
    probs = client.post("/predict", json=known.to_dict("records")).json()["probs"]
    print(f"largest difference from orcu over 50 rows: {np.abs(probs - model.predict_proba(frame[:50])).max():.1e}")
    for wrong in ([{"age": "old", "site": "north"}], [{"age": 40}], [{"age": 40, "site": "north", "x": 1}], []):
        answer = client.post("/predict", json=wrong)
        print(f"{wrong}: status {answer.status_code}, {answer.json()['detail'][0]['msg']}")


if __name__ == "__main__":
    main()
