"""Export of a network with its calibrator, or of a fitted model of tables, as one ONNX graph."""

import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from orcu import __version__, geometry
from orcu.errors import InputError, first_line, require

for _package in ("torch", "onnx", "onnxscript"):
    require(_package, extra="onnx", feature="orcu.integrations.onnx")

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from orcu.calibrators.base import Calibrator  # noqa: E402
from orcu.inputs import as_positive  # noqa: E402
from orcu.integrations.calibrator_modules import calibrator_module  # noqa: E402
from orcu.integrations.onnx_graph import export_program  # noqa: E402
from orcu.integrations.onnx_tables import model_to_onnx  # noqa: E402
from orcu.io.files import atomic_write  # noqa: E402

__all__ = ["CalibratedModel", "model_to_onnx", "to_onnx"]
_LOGITS_TOLERANCE = 1e-4  # for a network in float32, relative to its largest logit


class CalibratedModel(nn.Module):
    """A model that returns logits, followed by a calibrator.

    Args:
        model: module that returns logits (n, C), or an output with ``logits``.
        calibrator: fitted calibrator, or ``None`` for plain softmax.

    Example:
        >>> model = CalibratedModel(nn.Identity(), None)
        >>> model(torch.tensor([[0.0, 0.0]]))[0].tolist()
        [[0.5, 0.5]]
    """

    def __init__(self, model: nn.Module, calibrator: Calibrator | None) -> None:
        super().__init__()
        self.model = model
        self.calibrate = calibrator_module(calibrator)
        self.num_classes = getattr(calibrator, "num_classes_", None)  # None if nothing was fitted

    def forward(self, *inputs: Tensor, **named: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities and logits, both (n, C); at least float32."""
        logits = _logits(self.model(*inputs, **named))
        if self.num_classes not in (None, logits.shape[1]):
            raise InputError(
                f"calibrator: fitted for {self.num_classes} classes, but the model returns {logits.shape[1]}."
            )
        if logits.dtype != torch.float64:
            logits = logits.float()
        # The calibrator computes in float64, as everywhere in orcu; only its result is rounded. The clone gives the
        # output its own name in the graph, even if the model returns its input.
        return self.calibrate(logits).to(logits.dtype), logits.clone()


def to_onnx(
    model: nn.Module,
    path: str | os.PathLike[str],
    *,
    example: Tensor | Mapping[str, Tensor],
    calibrator: Calibrator | None = None,
    classes: Sequence[str] | None = None,
    input_name: str = "inputs",
    opset: int | None = None,
    tolerance: float = 1e-6,
) -> Path:
    """Write a model and its calibrator to an ONNX file, and check the file with onnxruntime.

    The graph returns ``probs`` (calibrated; unimodal if the calibrator ends in "projection") and ``logits`` (of the
    model), both (n, C); the number of rows is dynamic. The metadata hold the class names, the calibrator and the
    version of orcu as ``orcu.classes`` (JSON), ``orcu.calibrator`` and ``orcu.version``. The write is atomic. Weights
    of more than 2 GB do not fit into one file.

    If onnxruntime is installed, it predicts the example and its first row: the logits must equal those of the model,
    and the probabilities those of ``calibrator.predict_proba``.

    Args:
        model: module that returns logits (n, C), or an output with ``logits``, such as
            `orcu.models.classifier.Classifier` or a classifier of transformers. It is exported in evaluation mode;
            its mode is restored.
        path: path of the file.
        example: example inputs of a few rows; a dict if the model takes them by name.
        calibrator: fitted calibrator of orcu, or ``None`` for plain softmax.
        classes: class names from lowest to highest.
        input_name: name of the input in the graph; inputs in a dict keep their names.
        opset: version of the ONNX operators; chosen by torch by default.
        tolerance: largest difference of the probabilities of the file from those of orcu.

    Raises:
        InputError: if an argument is invalid, the calibrator cannot be exported, or the results of the file differ.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "model.onnx"
        >>> _ = to_onnx(nn.Linear(4, 3), file, example=torch.randn(2, 4))
        >>> file.exists()
        True
    """
    tolerance = as_positive(tolerance, name="tolerance")
    if not isinstance(model, nn.Module):
        raise InputError(f"model: {_module_hint(model)}")
    if calibrator is not None and not isinstance(calibrator, Calibrator):
        raise InputError(f"calibrator: expected a fitted calibrator of orcu, got {type(calibrator).__name__}.")
    inputs = _as_inputs(example, input_name)
    modes = [(module, module.training) for module in model.modules()]
    calibrated_model = CalibratedModel(model, calibrator).eval()
    calibrated_model.calibrate.to(next(iter(inputs.values())).device)
    try:
        with torch.no_grad():
            named = isinstance(example, Mapping)
            logits = (calibrated_model(**inputs) if named else calibrated_model(*inputs.values()))[1]
            metadata = _metadata(logits, calibrator, classes)
            program = export_program(calibrated_model, inputs, by_name=named, opset=opset)
    finally:
        for module, training in modes:
            module.training = training
    program.model.metadata_props.update(metadata)
    path = Path(path)
    with atomic_write(path) as temporary:
        program.save(str(temporary), external_data=False)
        if importlib.util.find_spec("onnxruntime") is not None:
            _check(temporary, inputs, logits, calibrator, tolerance)
    return path


def _module_hint(model: Any) -> str:
    """What can be exported in place of something that is not a torch module."""
    text = f"only torch modules can be exported, got {type(model).__name__}."
    if not hasattr(model, "predict_proba"):
        return f"{text} Pass a torch.nn.Module that returns logits of shape (n, C)."
    network = getattr(model, "model_", None)
    if isinstance(network, nn.Module):
        return (
            f"{text} Export the estimator with its encoder: model_to_onnx(estimator, path); or its network alone: "
            "to_onnx(estimator.model_, path, example=encoded_rows, calibrator=estimator.calibrator_)."
        )
    return f"{text} Export an estimator of orcu with its encoder: model_to_onnx(estimator, path)."


def _logits(output: Any) -> Tensor:
    logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    if not isinstance(logits, Tensor) or logits.dim() != 2:
        kind = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(output).__name__
        raise InputError(f"model: expected logits of shape (n, C) or an output with `logits`, got {kind}.")
    return logits


def _as_inputs(example: Any, input_name: str) -> dict[str, Tensor]:
    inputs = dict(example) if isinstance(example, Mapping) else {input_name: example}
    for name, value in inputs.items():
        if not isinstance(value, Tensor) or value.dim() == 0 or len(value) == 0:
            raise InputError(f"example: {name!r} must be a tensor with at least one row, got {type(value).__name__}.")
    if not inputs or len({len(value) for value in inputs.values()}) > 1:
        raise InputError("example: expected inputs with equal numbers of rows.")
    # torch would export a single row as a fixed size
    return {name: torch.cat([value, value]) if len(value) == 1 else value for name, value in inputs.items()}


def _metadata(logits: Tensor, calibrator: Calibrator | None, classes: Sequence[str] | None) -> dict[str, str]:
    num_classes = logits.shape[1]
    names = [str(k) for k in range(num_classes)] if classes is None else list(map(str, classes))
    if len(names) != num_classes:
        raise InputError(f"classes: expected {num_classes} names, got {len(names)}.")
    return {
        "orcu.version": __version__,
        "orcu.classes": json.dumps(names),
        "orcu.calibrator": "none" if calibrator is None else repr(calibrator),
    }


def _check(
    file: Path, inputs: dict[str, Tensor], logits: Tensor, calibrator: Calibrator | None, tolerance: float
) -> None:
    """Raise if onnxruntime and orcu differ on the example or its first row."""
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions have no common type
        raise InputError(f"{file.name}: onnxruntime cannot run the exported model ({first_line(error)}).") from error
    for rows in (slice(None), slice(1)):
        arrays = {name: value[rows].detach().cpu().numpy() for name, value in inputs.items()}
        probs, file_logits = session.run(["probs", "logits"], arrays)
        expected = logits[rows].double().cpu().numpy()
        difference = float(np.abs(file_logits - expected).max())
        if not difference <= _LOGITS_TOLERANCE * max(1.0, float(np.abs(expected).max())):
            raise InputError(
                f"{file.name}: the logits of onnxruntime differ from the model's by {difference:.1e}; the model cannot "
                "be exported exactly."
            )
        # from the logits of the file: the maps have jumps, where the last digit of a logit matters
        file_logits = file_logits.astype(np.float64)
        exact = geometry.probs(file_logits) if calibrator is None else calibrator.predict_proba(file_logits)
        difference = float(np.abs(probs - exact).max())
        if not difference <= tolerance:
            raise InputError(
                f"{file.name}: the probabilities of onnxruntime differ from orcu's by {difference:.1e}, more than the "
                f"tolerance {tolerance:g}."
            )
