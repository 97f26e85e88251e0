"""ONNX export of models with calibrators, compared with orcu."""

import json
from pathlib import Path

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
from orcu.integrations import onnx as onnx_export
from orcu.integrations.calibrator_modules import ProjectionModule, calibrator_module
from orcu.integrations.onnx import to_onnx
from orcu.models.classifier import Classifier
from orcu.models.tabular import Mlp

CHAINS = ["gap+projection", "dirichlet+projection", "projection+temperature"]
ALONE = [name for name in calibrators.names() if name != "chain"]


def rows(num_classes=4, n=500):
    rng = np.random.default_rng(0)
    center = rng.uniform(-0.5, num_classes - 0.5, size=(n, 1))
    z = -((np.arange(num_classes) - center) ** 2) + rng.normal(size=(n, num_classes))
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
def test_projection_module_equals_nearest_unimodal(num_classes):
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, size=(3000, num_classes)) + 1e-300  # many exact ties
    nearly_even = 1 / num_classes + 1e-9 * rng.integers(-1, 2, size=(500, num_classes))
    mirrored = rng.dirichlet(np.ones(num_classes), size=500)
    parts = [rng.dirichlet(np.full(num_classes, a), size=1000) for a in (0.05, 1, 1e4)]
    parts += [counts, nearly_even, mirrored + mirrored[:, ::-1], np.eye(num_classes)]
    parts.append(np.ones((1, num_classes)))
    probs = np.concatenate(parts)
    probs /= probs.sum(1, keepdims=True)
    projected = ProjectionModule().project(torch.from_numpy(probs)).numpy()
    assert np.abs(projected - nearest_unimodal(probs)).max() < 1e-12
    unimodal = geometry.is_unimodal(probs)
    assert unimodal.any()
    assert (projected[unimodal] == probs[unimodal]).all()


@pytest.mark.parametrize("name", ALONE + CHAINS)
def test_calibrator_module_equals_predict_proba(fitted, name):
    logits = hard_logits()
    probs = calibrator_module(fitted[name])(torch.from_numpy(logits))
    assert probs.dtype == torch.float64
    assert np.abs(probs.numpy() - fitted[name].predict_proba(logits)).max() < 1e-12


def test_calibrator_module_of_auto_of_0_2_equals_predict_proba():
    file = Path(__file__).parents[1] / "data" / "written_by_0_2" / "calibrators" / "auto.json"
    auto = calibrators.load(file)
    logits = hard_logits(auto.num_classes_)
    probs = calibrator_module(auto)(torch.from_numpy(logits)).numpy()
    assert np.abs(probs - auto.predict_proba(logits)).max() < 1e-12


def test_calibrator_module_of_matrix_scaling_uses_logits():
    matrix = calibrators.create("dirichlet", off_diagonal=0.1, bias=0.1, on="logits").fit(*rows())
    logits = hard_logits()
    probs = calibrator_module(matrix)(torch.from_numpy(logits)).numpy()
    assert np.abs(probs - matrix.predict_proba(logits)).max() < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ALONE, "projection+temperature"])
def test_to_onnx_calibrator_equals_predict_proba(fitted, name, tmp_path):
    logits = hard_logits()
    to_onnx(nn.Identity(), tmp_path / "map.onnx", example=torch.from_numpy(rows()[0][:8]), calibrator=fitted[name])
    session = onnxruntime.InferenceSession(tmp_path / "map.onnx")
    (probs,) = session.run(["probs"], {"inputs": logits})
    assert np.abs(probs - fitted[name].predict_proba(logits)).max() < 1e-12


def test_to_onnx_writes_classifier_calibrator_and_metadata_to_one_file(fitted, tmp_path):
    torch.manual_seed(0)
    model = Classifier(Mlp(6, hidden_layer_sizes=(16,)), num_classes=4).train()
    calibrator = fitted["gap+projection"]
    names = ["none", "mild", "moderate", "severe"]
    file = to_onnx(
        model,
        tmp_path / "model.onnx",
        example=torch.randn(1, 6),
        calibrator=calibrator,
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
        expected = model.eval()(inputs).logits
    assert logits == pytest.approx(expected.numpy(), abs=1e-5)
    assert probs == pytest.approx(calibrator.predict_proba(expected).numpy(), abs=1e-6)
    assert probs.dtype == np.float32
    assert geometry.is_unimodal(probs).all()
    assert len(session.run(["probs"], {"features": inputs[:1].numpy()})[0]) == 1

    meta = session.get_modelmeta().custom_metadata_map
    assert json.loads(meta["orcu.classes"]) == names
    assert meta["orcu.version"] == orcu.__version__
    assert "UnimodalProjection" in meta["orcu.calibrator"]
    onnx.checker.check_model(file)
    assert b".py" not in file.read_bytes()  # no stack traces, no paths of the exporting machine


def test_to_onnx_of_an_unfitted_projection(tmp_path):
    logits = rows()[0]
    projection = calibrators.create("projection")
    file = to_onnx(nn.Identity(), tmp_path / "map.onnx", example=torch.from_numpy(logits[:8]), calibrator=projection)
    (probs,) = onnxruntime.InferenceSession(file).run(["probs"], {"inputs": logits})
    assert np.abs(probs - projection.predict_proba(logits)).max() < 1e-12


def test_to_onnx_with_named_inputs_and_without_calibrator(tmp_path):
    class Sum(nn.Module):
        def forward(self, left, right):
            return left + right

    inputs = {"left": torch.randn(3, 4), "right": torch.randn(3, 4)}
    file = to_onnx(Sum(), tmp_path / "two.onnx", example=inputs)
    session = onnxruntime.InferenceSession(file)
    (probs,) = session.run(["probs"], {name: value.numpy() for name, value in inputs.items()})
    assert probs == pytest.approx((inputs["left"] + inputs["right"]).softmax(1).numpy(), abs=1e-6)


def test_to_onnx_keeps_a_temperature_close_to_1(tmp_path):
    near = calibrators.create("temperature").fit(*rows())
    near.temperature_ = 1.000005  # the exporter would replace a scalar by 1
    to_onnx(nn.Identity(), tmp_path / "t.onnx", example=torch.zeros(2, 4), calibrator=near)
    nodes = onnx.load(tmp_path / "t.onnx").graph.node
    assert "Div" in [node.op_type for node in nodes]


def test_to_onnx_refuses_a_file_with_other_probabilities(fitted, tmp_path, monkeypatch):
    real_module = onnx_export.calibrator_module
    other = calibrators.create("temperature").fit(*rows())
    other.temperature_ *= 1.001
    monkeypatch.setattr(onnx_export, "calibrator_module", lambda calibrator: real_module(other))
    with pytest.raises(InputError, match=r"bad\.onnx.*: .* differ .* 1e-06"):
        to_onnx(
            nn.Identity(),
            tmp_path / "bad.onnx",
            example=torch.from_numpy(rows()[0][:8]),
            calibrator=fitted["temperature"],
        )
    assert not list(tmp_path.iterdir())


def test_to_onnx_refuses_invalid_arguments(fitted, tmp_path):
    class Doubled(type(fitted["temperature"])):
        def _transform(self, logits):
            return 2 * super()._transform(logits)

    example = torch.zeros(2, 4)
    doubled = Doubled().fit(*rows())
    file = tmp_path / "no.onnx"
    for changed, message in (
        ({"calibrator": doubled}, "^calibrator: Doubled .*: auto, chain, dirichlet"),
        ({"calibrator": calibrators.create("gap")}, "is not fitted"),
        ({"example": torch.zeros(2, 3), "calibrator": fitted["gap"]}, "^calibrator: .* 4 classes"),
        ({"classes": ["a", "b"]}, "^classes: .*4.* 2"),
        ({"example": torch.zeros(2, 3, 4)}, r"^model: .*\(n, C\)"),
        ({"example": [1.0]}, "^example: "),
        ({"example": {"a": torch.zeros(2, 1), "b": torch.zeros(3, 1)}}, "^example: "),
        ({"tolerance": 0}, "^tolerance:"),
    ):
        with pytest.raises(InputError, match=message):
            to_onnx(nn.Identity(), file, **({"example": example} | changed))
    assert not list(tmp_path.iterdir())


def test_every_registered_calibrator_has_a_module():
    from orcu.integrations.calibrator_modules import _MODULES

    assert {CALIBRATORS.get(name) for name in CALIBRATORS.names()} == set(_MODULES)
    assert all(issubclass(cls, Calibrator) for cls in _MODULES)


@pytest.mark.parametrize("name", ["temperature", "gap+projection"])
def test_onnx_file_with_no_rows_and_with_nan(name, tmp_path):
    z, y = rows()
    model = nn.Linear(3, 4)
    to_onnx(model, tmp_path / "m.onnx", example=torch.randn(5, 3), calibrator=calibrators.create(name).fit(z, y))
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")

    def probs(inputs):
        return session.run(["probs"], {"inputs": np.array(inputs, dtype=np.float32).reshape(-1, 3)})[0]

    assert probs([]).shape == (0, 4)
    both = probs([[np.nan, 0, 0], [1, 2, 3]])
    assert np.isnan(both[0]).all()
    assert both[1] == pytest.approx(probs([[1, 2, 3]])[0])


def test_to_onnx_of_an_estimator_says_what_can_be_exported(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2)), np.arange(60) % 3
    file, example = tmp_path / "model.onnx", torch.zeros(2, 2)
    linear = orcu.OrdinalClassifier(estimators=["linear"], cv=2, random_state=0).fit(x, y)
    with pytest.raises(InputError, match=r"^model: only torch .*OrdinalClassifier.*model_to_onnx\(estimator, path\)"):
        to_onnx(linear, file, example=example)
    network = orcu.OrdinalClassifier(estimators="network", loss="ce", cv=2, epochs=1, random_state=0).fit(x, y)
    with pytest.raises(InputError, match=r"^model: .*estimator\.model_"):
        to_onnx(network, file, example=example)
    encoded = torch.from_numpy(network.encoder_.encode({"x0": x[:3, 0], "x1": x[:3, 1]}).features)
    to_onnx(network.model_, file, example=encoded, calibrator=network.calibrator_)  # as the message says
    with pytest.raises(InputError, match=r"^model: .*got str\. Pass a torch\.nn\.Module"):
        to_onnx("model", file, example=example)
    with pytest.raises(InputError, match="^calibrator: expected a fitted calibrator of orcu, got str"):
        to_onnx(nn.Linear(2, 3), file, example=example, calibrator="temperature")


@pytest.mark.parametrize("head", ["cumulative", "cumulative_cloglog", "coral", "corn", "stick_breaking", "unimodalnet"])
def test_to_onnx_every_head_equals_the_model(head, tmp_path):
    model = Classifier(Mlp(4, hidden_layer_sizes=(8,)), 5, head=head)
    assert to_onnx(model, tmp_path / "model.onnx", example=torch.randn(3, 4)).exists()


def test_to_onnx_operator_that_onnxruntime_does_not_have_raises(tmp_path):
    model = Classifier(Mlp(4, hidden_layer_sizes=(8,)), 5, head="cumulative_probit")
    with pytest.raises(InputError, match="onnxruntime cannot run"):  # the error function in float64
        to_onnx(model, tmp_path / "model.onnx", example=torch.randn(3, 4))
    assert not (tmp_path / "model.onnx").exists()
