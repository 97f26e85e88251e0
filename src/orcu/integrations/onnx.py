"""A model and its calibrator as one ONNX graph: inputs to calibrated, projected probabilities."""

import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from orcu import __version__, geometry
from orcu.errors import InputError, require

for _package in ("torch", "onnx", "onnxscript"):
    require(_package, extra="onnx", what="orcu.integrations.onnx")

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from orcu.calibrators.base import Calibrator  # noqa: E402
from orcu.inputs import as_positive  # noqa: E402
from orcu.integrations.calibrator_modules import calibrator_module  # noqa: E402
from orcu.io.files import atomic_write  # noqa: E402

_LOGITS_TOLERANCE = 1e-4  # of a network in float32, relative to its largest logit


class CalibratedModel(nn.Module):
    """A model that gives logits, and a calibrator behind it.

    Args:
        model: gives logits (n, C), or an output with ``logits``.
        calibrator: fitted, or ``None`` for plain softmax.

    Example:
        >>> whole = CalibratedModel(nn.Identity(), None)
        >>> whole(torch.tensor([[0.0, 0.0]]))[0].tolist()
        [[0.5, 0.5]]
    """

    def __init__(self, model: nn.Module, calibrator: Calibrator | None) -> None:
        super().__init__()
        self.model = model
        self.calibrate = calibrator_module(calibrator)
        self.num_classes = getattr(calibrator, "num_classes_", None)  # None where nothing was fitted

    def forward(self, *inputs: Tensor, **named: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities and logits, both (n, C); at least float32."""
        logits = _logits(self.model(*inputs, **named))
        if self.num_classes not in (None, logits.shape[1]):
            raise InputError(f"calibrator: fitted for {self.num_classes} classes, the model gives {logits.shape[1]}.")
        if logits.dtype != torch.float64:
            logits = logits.float()
        # the calibrating maths is in float64, as everywhere in orcu; only its result is rounded
        # (a model may hand its input through, and a graph's output needs a name of its own)
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
    """Write a model and its calibrator as one ONNX file, and check it with onnxruntime.

    The graph gives ``probs`` (calibrated, and unimodal if the calibrator ends in "projection") and
    ``logits`` (the model's own), both (n, C); the first axis of inputs and outputs is free. Class names, the
    calibrator and orcu's version are in the file's metadata as ``orcu.classes`` (JSON),
    ``orcu.calibrator`` and ``orcu.version``. The file appears whole and checked, or not at all; weights of
    more than 2 GB do not fit into one.

    If onnxruntime is installed, the example and its first row go through the file: the logits must be
    the model's, and the probabilities those of ``calibrator.predict_proba`` on these logits.

    Args:
        model: any module that gives logits (n, C), or an output with ``logits``, such as
            `orcu.models.classifier.Classifier` or a classifier of transformers. It is exported in
            evaluation mode and left as it was.
        path: of the file.
        example: inputs for a few rows; a dict if the model takes them by name.
        calibrator: fitted; any of orcu's, chains too, or ``None`` for plain softmax.
        classes: their names from lowest to highest.
        input_name: of the input in the graph; a dict's inputs keep their names.
        opset: of ONNX; torch's own choice by default.
        tolerance: how far the file's probabilities may be from orcu's.

    Raises:
        InputError: if an argument cannot be used, the calibrator has no ONNX form, or the file's
            results differ.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "model.onnx"
        >>> _ = to_onnx(nn.Linear(4, 3), file, example=torch.randn(2, 4))
        >>> file.exists()
        True
    """
    tolerance = as_positive(tolerance, name="tolerance")
    inputs = _as_inputs(example, input_name)
    modes = [(module, module.training) for module in model.modules()]
    whole = CalibratedModel(model, calibrator).eval()
    whole.calibrate.to(next(iter(inputs.values())).device)
    try:
        with torch.no_grad():
            named = isinstance(example, Mapping)
            logits = whole(**inputs)[1] if named else whole(*inputs.values())[1]
            meta = _metadata(logits, calibrator, classes)
            program = _exported(whole, inputs, by_name=named, opset=opset)
    finally:
        for module, training in modes:
            module.training = training
    _forget_origin(program.model)
    program.model.metadata_props.update(meta)
    path = Path(path)
    with atomic_write(path) as temporary:
        program.save(str(temporary), external_data=False)
        if importlib.util.find_spec("onnxruntime") is not None:
            _check(temporary, inputs, logits, calibrator, tolerance)
    return path


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
        raise InputError("example: expected inputs with the same number of rows.")
    # torch takes a single row for a fixed size
    return {name: torch.cat([value, value]) if len(value) == 1 else value for name, value in inputs.items()}


def _metadata(logits: Tensor, calibrator: Calibrator | None, classes: Sequence[str] | None) -> dict[str, str]:
    num_classes = logits.shape[1]
    names = [str(k) for k in range(num_classes)] if classes is None else list(map(str, classes))
    if len(names) != num_classes:
        raise InputError(f"classes: {len(names)} names for {num_classes} classes.")
    return {
        "orcu.version": __version__,
        "orcu.classes": json.dumps(names),
        "orcu.calibrator": "none" if calibrator is None else repr(calibrator),
    }


def _exported(
    whole: CalibratedModel, inputs: dict[str, Tensor], *, by_name: bool, opset: int | None
) -> torch.onnx.ONNXProgram:
    rows, same = torch.export.Dim("rows"), torch.export.Dim.DYNAMIC
    shapes: Any = {name: {0: same if i else rows} for i, name in enumerate(inputs)}
    program = torch.onnx.export(
        whole,
        () if by_name else tuple(inputs.values()),
        kwargs=inputs if by_name else None,
        input_names=list(inputs),
        output_names=["probs", "logits"],
        dynamic_shapes={"named": shapes} if by_name else {"inputs": tuple(shapes.values())},
        opset_version=opset,
        dynamo=True,
        verbose=False,
    )
    assert program is not None  # noqa: S101
    return program


def _forget_origin(model: Any) -> None:
    """Drop the exporter's stack traces: they hold paths of this machine, and most of a small file's size."""
    for node in model.graph.all_nodes():
        node.metadata_props.clear()
        node.doc_string = None
        for value in node.outputs:
            value.metadata_props.clear()


def _check(
    file: Path, inputs: dict[str, Tensor], logits: Tensor, calibrator: Calibrator | None, tolerance: float
) -> None:
    """Raise unless onnxruntime says of the example, and of its first row, what orcu says."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    for rows in (slice(None), slice(1)):
        arrays = {name: value[rows].detach().cpu().numpy() for name, value in inputs.items()}
        probs, of_file = session.run(["probs", "logits"], arrays)
        wanted = logits[rows].double().cpu().numpy()
        off = float(np.abs(of_file - wanted).max())
        if not off <= _LOGITS_TOLERANCE * max(1.0, float(np.abs(wanted).max())):
            raise InputError(
                f"{file.name}: onnxruntime's logits differ from the model's by {off:.1e}; "
                "the model cannot be exported faithfully."
            )
        # of the file's own logits: the maps have jumps, at which the last digit of a logit decides
        own = of_file.astype(np.float64)
        exact = geometry.probs(own) if calibrator is None else calibrator.predict_proba(own)
        off = float(np.abs(probs - exact).max())
        if not off <= tolerance:
            raise InputError(
                f"{file.name}: onnxruntime's probabilities differ from orcu's by {off:.1e}, more than "
                f"the tolerance {tolerance:g}."
            )
