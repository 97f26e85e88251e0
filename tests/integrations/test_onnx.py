"""One ONNX graph from inputs to calibrated, projected probabilities, held against orcu itself."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import orcu
from orcu import calibrators, geometry
from orcu.calibrators.base import CALIBRATORS, Calibrator
from orcu.calibrators.projection import nearest_unimodal
from orcu.errors import InputError
from orcu.integrations import onnx as bridge
from orcu.integrations.calibrator_modules import ProjectionModule, calibrator_module
from orcu.integrations.onnx import to_onnx
from orcu.models.classifier import Classifier
from orcu.models.tabular import Mlp

CHAINS = ["gap+projection", "dirichlet+projection", "projection+temperature"]
ALONE = [name for name in calibrators.names() if name != "chain"]


def rows(num_classes=4, n=500):
    rng = np.random.default_rng(0)
    middle = rng.uniform(-0.5, num_classes - 0.5, size=(n, 1))
    z = -((np.arange(num_classes) - middle) ** 2) + rng.normal(size=(n, num_classes))
    probs = np.exp(geometry.log_probs(z))
    return 2 * z, (rng.random((n, 1)) > probs.cumsum(1)[:, :-1]).sum(1)


def hard_logits(num_classes=4):
    """Large, small, equal and tied logits."""
    rng = np.random.default_rng(1)
    parts = [rng.normal(size=(500, num_classes)) * scale for scale in (1e-8, 0.1, 1, 30)]
    parts += [np.zeros((1, num_classes)), 1e4 * np.eye(num_classes)]
    parts.append(rng.integers(-2, 3, size=(500, num_classes)).astype(float))
    return np.concatenate(parts)


@pytest.fixture(scope="module")
def fitted():
    return {name: calibrators.create(name).fit(*rows()) for name in ALONE + CHAINS}


@pytest.mark.parametrize("num_classes", [2, 3, 5, 9])
def test_the_projection_without_a_stack_is_the_projection(num_classes):
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, size=(3000, num_classes)) + 1e-300  # many exact ties
    nearly_even = 1 / num_classes + 1e-9 * rng.integers(-1, 2, size=(500, num_classes))
    mirrored = rng.dirichlet(np.ones(num_classes), size=500)
    parts = [rng.dirichlet(np.full(num_classes, a), size=1000) for a in (0.05, 1, 1e4)]
    parts += [counts, nearly_even, mirrored + mirrored[:, ::-1], np.eye(num_classes)]
    parts.append(np.ones((1, num_classes)))
    probs = np.concatenate(parts)
    probs /= probs.sum(1, keepdims=True)
    found = ProjectionModule().project(torch.from_numpy(probs)).numpy()
    assert np.abs(found - nearest_unimodal(probs)).max() < 1e-12
    unimodal = geometry.is_unimodal(probs)
    assert unimodal.any()
    assert (found[unimodal] == probs[unimodal]).all()


@pytest.mark.parametrize("name", ALONE + CHAINS)
def test_every_calibrator_has_a_module_that_maps_alike(fitted, name):
    logits = hard_logits()
    found = calibrator_module(fitted[name])(torch.from_numpy(logits))
    assert found.dtype == torch.float64
    assert np.abs(found.numpy() - fitted[name].predict_proba(logits)).max() < 1e-12


def test_matrix_scaling_works_on_logits():
    matrix = calibrators.create("dirichlet", off_diagonal=0.1, bias=0.1, on="logits").fit(*rows())
    logits = hard_logits()
    found = calibrator_module(matrix)(torch.from_numpy(logits)).numpy()
    assert np.abs(found - matrix.predict_proba(logits)).max() < 1e-12


@pytest.mark.parametrize("name", [*ALONE, "projection+temperature"])
def test_onnxruntime_says_what_orcu_says(fitted, name, tmp_path):
    logits = hard_logits()
    to_onnx(nn.Identity(), tmp_path / "map.onnx", example=torch.from_numpy(rows()[0][:8]), calibrator=fitted[name])
    session = onnxruntime.InferenceSession(tmp_path / "map.onnx")
    (found,) = session.run(["probs"], {"inputs": logits})
    assert np.abs(found - fitted[name].predict_proba(logits)).max() < 1e-12


def test_a_classifier_with_its_calibrator_is_one_file(fitted, tmp_path):
    torch.manual_seed(0)
    model = Classifier(Mlp(6, hidden=(16,)), num_classes=4).train()
    whole = fitted["gap+projection"]
    names = ["none", "mild", "moderate", "severe"]
    file = to_onnx(
        model,
        tmp_path / "model.onnx",
        example=torch.randn(1, 6),
        calibrator=whole,
        classes=names,
        input_name="features",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    assert model.training
    assert model.backbone.training

    session = onnxruntime.InferenceSession(file)
    inputs = torch.randn(1000, 6)
    probs, logits = session.run(["probs", "logits"], {"features": inputs.numpy()})
    with torch.no_grad():
        own = model.eval()(inputs).logits
    assert logits == pytest.approx(own.numpy(), abs=1e-5)
    assert probs == pytest.approx(whole.predict_proba(own).numpy(), abs=1e-6)
    assert probs.dtype == np.float32
    assert geometry.is_unimodal(probs).all()
    assert len(session.run(["probs"], {"features": inputs[:1].numpy()})[0]) == 1

    meta = session.get_modelmeta().custom_metadata_map
    assert json.loads(meta["orcu.classes"]) == names
    assert meta["orcu.version"] == orcu.__version__
    assert "projection" in meta["orcu.calibrator"]
    onnx.checker.check_model(file)
    assert b".py" not in file.read_bytes()  # no stack traces, no paths of the exporting machine


def test_a_projection_needs_no_fit(tmp_path):
    logits = rows()[0]
    projection = calibrators.create("projection")
    file = to_onnx(nn.Identity(), tmp_path / "map.onnx", example=torch.from_numpy(logits[:8]), calibrator=projection)
    (found,) = onnxruntime.InferenceSession(file).run(["probs"], {"inputs": logits})
    assert np.abs(found - projection.predict_proba(logits)).max() < 1e-12


def test_inputs_by_name_and_no_calibrator(tmp_path):
    class Two(nn.Module):
        def forward(self, left, right):
            return left + right

    given = {"left": torch.randn(3, 4), "right": torch.randn(3, 4)}
    file = to_onnx(Two(), tmp_path / "two.onnx", example=given)
    session = onnxruntime.InferenceSession(file)
    (probs,) = session.run(["probs"], {name: value.numpy() for name, value in given.items()})
    assert probs == pytest.approx((given["left"] + given["right"]).softmax(1).numpy(), abs=1e-6)


def test_a_temperature_next_to_one_is_not_left_out(tmp_path):
    near = calibrators.create("temperature").fit(*rows())
    near.temperature_ = 1.000005  # the exporter would take a single such number for 1
    to_onnx(nn.Identity(), tmp_path / "t.onnx", example=torch.zeros(2, 4), calibrator=near)
    nodes = onnx.load(tmp_path / "t.onnx").graph.node
    assert "Div" in [node.op_type for node in nodes]


def test_a_file_that_differs_is_refused_and_leaves_nothing(fitted, tmp_path, monkeypatch):
    kept = bridge.calibrator_module
    other = calibrators.create("temperature").fit(*rows())
    other.temperature_ *= 1.001
    monkeypatch.setattr(bridge, "calibrator_module", lambda given: kept(other))
    with pytest.raises(InputError, match="probabilities differ from orcu's by"):
        to_onnx(
            nn.Identity(),
            tmp_path / "bad.onnx",
            example=torch.from_numpy(rows()[0][:8]),
            calibrator=fitted["temperature"],
        )
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_told(fitted, tmp_path):
    class Doubled(type(fitted["temperature"])):
        def _transform(self, logits):
            return 2 * super()._transform(logits)

    example = torch.zeros(2, 4)
    own = Doubled().fit(*rows())
    file = tmp_path / "no.onnx"
    for wrong, message in (
        ({"calibrator": own}, "Doubled has no form that can be exported; known: auto, chain, dirichlet"),
        ({"calibrator": calibrators.create("gap")}, "is not fitted"),
        ({"example": torch.zeros(2, 3), "calibrator": fitted["gap"]}, "fitted for 4 classes"),
        ({"classes": ["a", "b"]}, "2 names for 4 classes"),
        ({"example": torch.zeros(2, 3, 4)}, r"expected logits of shape \(n, C\)"),
        ({"example": [1.0]}, "must be a tensor"),
        ({"example": {"a": torch.zeros(2, 1), "b": torch.zeros(3, 1)}}, "same number of rows"),
        ({"tolerance": 0}, "tolerance"),
    ):
        with pytest.raises(InputError, match=message):
            to_onnx(nn.Identity(), file, **({"example": example} | wrong))
    assert not list(tmp_path.iterdir())


def test_no_registered_calibrator_is_forgotten():
    from orcu.integrations.calibrator_modules import _MODULES

    assert {CALIBRATORS.get(name) for name in CALIBRATORS.names()} == set(_MODULES)
    assert all(issubclass(kind, Calibrator) for kind in _MODULES)


@pytest.mark.parametrize("name", ["temperature", "gap+projection"])
def test_no_rows_give_no_rows_and_nan_gives_nan(name, tmp_path):
    z, y = rows()
    model = nn.Linear(3, 4)
    to_onnx(model, tmp_path / "m.onnx", example=torch.randn(5, 3), calibrator=calibrators.create(name).fit(z, y))
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")

    def probs(inputs):
        return session.run(["probs"], {"inputs": np.array(inputs, dtype=np.float32).reshape(-1, 3)})[0]

    assert probs([]).shape == (0, 4)
    beside = probs([[np.nan, 0, 0], [1, 2, 3]])
    assert np.isnan(beside[0]).all()
    assert beside[1] == pytest.approx(probs([[1, 2, 3]])[0])
