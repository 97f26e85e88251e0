"""Export of a fitted table model with its encoder, members, pool and calibrator as one ONNX graph."""

import copy
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from orcu import __version__
from orcu.ensemble.ensemble import calibrated_probs
from orcu.ensemble.learner import CrossFitted
from orcu.errors import InputError, first_line, require
from orcu.inputs import FloatArray, as_positive
from orcu.io.files import atomic_write
from orcu.preprocessing import Inputs, TableEncoder

for _package in ("torch", "onnx", "onnxscript"):
    require(_package, extra="onnx", feature="orcu.integrations.onnx_tables")

import onnx  # noqa: E402
import torch  # noqa: E402
from onnx import TensorProto, compose, helper  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from orcu.estimators.boosting import OrdinalBoosting  # noqa: E402
from orcu.estimators.classifier import OrdinalClassifier  # noqa: E402
from orcu.integrations.calibrator_modules import calibrator_module  # noqa: E402
from orcu.integrations.onnx_graph import (  # noqa: E402
    OUTPUTS,
    PREFIXES,
    ROWS,
    TREES_DOMAIN,
    TREES_OPSET,
    Graph,
    add_encoder,
    export_program,
)
from orcu.integrations.onnx_members import add_member, needs_features  # noqa: E402
from orcu.models.ensemble import EnsembleClassifier  # noqa: E402
from orcu.training.model_file import CONFIG  # noqa: E402
from orcu.training.networks import network_members, predict_logits  # noqa: E402
from orcu.training.predict import TableModel  # noqa: E402

MATRIX = "inputs"  # name of the input of an exported matrix
MAX_BYTES = 2**31 - 1  # of a protobuf file
CHECK_ROWS = 200


@dataclass(frozen=True)
class _Model:
    """The parts of a model of tables.

    Attributes:
        classes: class names from lowest to highest.
        encoder: encoder of the columns.
        members: members that are not networks, each with its factor.
        networks: networks, each with its factor; one network alone has the factor ``None`` and gives the logits.
        calibrator: fitted calibrator, or ``None``.
        predict_logits: logits of encoded rows before the calibrator, (n, C), as orcu predicts them.
        has_names: whether the columns have names.
        metadata: further metadata of the file.
    """

    classes: Sequence[str]
    encoder: TableEncoder
    members: Sequence[tuple[CrossFitted, float]]
    networks: Sequence[tuple[nn.Module, float | None]]
    calibrator: Any
    predict_logits: Callable[[Inputs], FloatArray]
    has_names: bool
    metadata: Mapping[str, str]

    def predict_proba(self, inputs: Inputs) -> FloatArray:
        """Calibrated probabilities as orcu predicts them, (n, C)."""
        return calibrated_probs(self.calibrator, self.predict_logits(inputs))


class _Pool(nn.Module):
    """Logits of the other members, plus the log-probabilities of networks times their factors, then the calibrator.

    Networks compute in float64: of two that round to float32 both differ from the exact logits.
    """

    def __init__(self, model: _Model) -> None:
        super().__init__()
        self.networks = nn.ModuleList(copy.deepcopy(network).double() for network, _ in model.networks)
        self.factors = [factor for _, factor in model.networks]
        self.calibrate = calibrator_module(model.calibrator)

    def forward(self, **named: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities and logits, (n, C), in float64, of the inputs "features" and "others"."""
        parts = [named["others"]] if "others" in named else []
        for network, factor in zip(self.networks, self.factors, strict=True):
            output = network(named["features"].double())
            logits = getattr(output, "logits", output).double()
            parts.append(logits if factor is None else factor * logits.log_softmax(-1))
        total = torch.stack(parts).sum(0)
        return self.calibrate(total), total.clone()


def model_to_onnx(
    model: Any, path: str | os.PathLike[str], *, matrix: bool | None = None, tolerance: float = 1e-6
) -> Path:
    """Write a fitted model of tables to an ONNX file, from its columns to calibrated probabilities.

    The graph has the encoder of the columns, all members of the ensemble with their folds and weights, the calibrator
    and the unimodal projection. It returns ``probs`` and ``logits`` (before the calibrator), both (n, C) in float64.
    onnxruntime then predicts 200 random rows, with missing values, unseen categories and numbers next to thresholds
    and outside of the training range. Their probabilities must be those of orcu.

    Inputs are one array of shape (n,) per column, named as the column: float64 for numbers (NaN where missing), texts
    for categories (the empty text where missing). With ``matrix`` there is one input ``inputs`` of shape (n, D). A row
    with an infinite number, which orcu refuses, gets NaN. The metadata hold the class names (JSON), the version of
    orcu and the SHA-256 of the graph as ``orcu.classes``, ``orcu.version`` and ``orcu.graph_sha256``, and for a
    folder that of its model.json as ``orcu.model_sha256``.

    Args:
        model: fitted `orcu.OrdinalClassifier` or `orcu.OrdinalBoosting`, or the folder of a table that ``orcu train``
            has written.
        path: path of the file.
        matrix: whether all columns, which must be numbers, are one input; ``None`` for a model that was fitted on an
            array of numbers without names.
        tolerance: largest difference of the probabilities of the file from those of orcu.

    Raises:
        InputError: if the model cannot be exported, or the probabilities of the file differ.

    Example:
        >>> import tempfile
        >>> from orcu import OrdinalBoosting
        >>> x = np.random.default_rng(0).normal(size=(200, 2))
        >>> fitted = OrdinalBoosting(cv=2, n_estimators=5, calibrator="temperature", random_state=0)
        >>> _ = fitted.fit(x, np.digitize(x[:, 0], [-1, 1]))
        >>> file = model_to_onnx(fitted, Path(tempfile.mkdtemp()) / "model.onnx")
        >>> import onnxruntime
        >>> onnxruntime.InferenceSession(file).run(["probs"], {"inputs": x[:2]})[0].shape
        (2, 3)
    """
    require("onnxruntime", extra="onnx", feature="model_to_onnx")
    tolerance = as_positive(tolerance, name="tolerance")
    table_model = _read_folder(Path(model)) if isinstance(model, (str, os.PathLike)) else _read_estimator(model)
    if matrix is None:
        matrix = not (table_model.has_names or table_model.encoder.categorical)
    proto = _build(table_model, MATRIX if matrix else None)
    if proto.ByteSize() > MAX_BYTES:
        raise InputError(
            f"model: the graph has {proto.ByteSize() / 1e9:.1f} GB, more than the 2 GB of an ONNX file. Fit without "
            "the forest, or on fewer rows."
        )
    path = Path(path)
    with atomic_write(path) as temporary:
        temporary.write_bytes(proto.SerializeToString())
        _check(temporary, path.name, table_model, matrix=matrix, tolerance=tolerance)
    return path


def _read_estimator(model: Any) -> _Model:
    kind = type(model).__name__
    if not isinstance(model, (OrdinalClassifier, OrdinalBoosting)):
        raise InputError(
            f"model: expected an OrdinalClassifier, an OrdinalBoosting or a folder of `orcu train`, got {kind}. "
            "Networks of your own are exported by orcu.integrations.onnx.to_onnx."
        )
    if not hasattr(model, "weights_"):
        raise InputError(f"model: this {kind} is not fitted; call fit(X, y) first.")
    if model.module is not None:
        raise InputError(
            "model: it has a network of your own (module=), which takes other rows than tables. Export it with "
            "to_onnx(model.model_, path, example=rows, calibrator=model.calibrator_)."
        )
    ensemble = model.ensemble_
    common = {
        "classes": model._class_names(),
        "encoder": model.encoder_,
        "calibrator": model.calibrator_,
        "has_names": hasattr(model, "feature_names_in_"),
        "metadata": {},
    }
    if ensemble is None:
        network = model.model_
        return _Model(
            members=[],
            networks=[(network, None)],
            predict_logits=lambda inputs: predict_logits(network, inputs.features),
            **common,
        )
    networks = network_members(ensemble)
    return _Model(
        members=[(member, ensemble.factors[member.name]) for member in ensemble.members if member not in networks],
        networks=[
            (network, ensemble.factors[member.name] / len(member.models))
            for member in networks
            for network in member.models
        ],
        predict_logits=ensemble.predict_logits,
        **common,
    )


def _read_folder(folder: Path) -> _Model:
    loaded = TableModel.load(folder)
    model, config = loaded.network, loaded.config
    factors = {entry["name"]: float(entry["weight"]) for entry in config.estimators}
    networks: list[tuple[nn.Module, float | None]]
    if isinstance(model, EnsembleClassifier):
        backbone = model.backbone
        networks = [
            (nn.Sequential(backbone, network), weight)
            for network, weight in zip(model.members, config.weights, strict=True)
        ]
    else:
        networks = [(model, None)]

    return _Model(
        classes=config.classes,
        encoder=loaded.encoder,
        members=[(member, factors[member.name]) for member in loaded.others],
        networks=networks,
        calibrator=loaded.calibrator,
        predict_logits=loaded.predict_logits,
        has_names=True,
        metadata={"orcu.model_sha256": json.loads((folder / CONFIG).read_text()).get("sha256", "")},
    )


def _build(model: _Model, matrix: str | None) -> onnx.ModelProto:
    """The graph of a model: encoder and members, then networks, pool and calibrator as torch exports them."""
    table_prefix, model_prefix = PREFIXES
    graph = Graph(table_prefix)
    features = bool(model.networks) or any(needs_features(member) for member, _ in model.members)
    table = add_encoder(graph, model.encoder, features=features, matrix=matrix)
    parts = [
        graph.add("Mul", add_member(graph, member, table), graph.constant(factor)) for member, factor in model.members
    ]
    example: dict[str, Tensor] = {}
    sources: dict[str, str] = {}
    if model.networks:
        assert table.features is not None  # noqa: S101
        example["features"], sources["features"] = torch.zeros(2, model.encoder.width), table.features
    if parts:
        example["others"] = torch.zeros(2, len(model.classes), dtype=torch.float64)
        sources["others"] = parts[0] if len(parts) == 1 else graph.add("Sum", *parts)
    pool = _Pool(model).eval()
    with torch.no_grad():
        program = export_program(pool, example, by_name=True)
    tail = compose.add_prefix(program.model_proto, model_prefix)
    assert not tail.functions  # noqa: S101 -- torch inlines them
    for name, value in sources.items():
        graph.add("Identity", value, output=model_prefix + name)
    after = Graph(model_prefix + "end/")
    for name, value in zip(OUTPUTS, (output.name for output in tail.graph.output), strict=True):
        if table.unusable is None:
            after.add("Identity", value, output=name)
        else:
            row = after.add("Unsqueeze", table.unusable, after.constant([1], np.int64))
            after.add("Where", row, after.constant(np.nan), value, output=name)
    shape: list[str | int | None] = [ROWS, len(model.classes)]
    proto = helper.make_model(
        helper.make_graph(
            [*graph.nodes, *tail.graph.node, *after.nodes],
            "orcu",
            table.inputs,
            [helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape) for name in OUTPUTS],
            [*graph.constants, *tail.graph.initializer, *after.constants],
        ),
        opset_imports=[*tail.opset_import, helper.make_opsetid(TREES_DOMAIN, TREES_OPSET)],
        ir_version=tail.ir_version,
        producer_name="orcu",
        producer_version=__version__,
    )
    metadata = {
        "orcu.version": __version__,
        "orcu.classes": json.dumps(list(model.classes)),
        "orcu.calibrator": "none" if model.calibrator is None else repr(model.calibrator),
        "orcu.graph_sha256": sha256(proto.graph.SerializeToString(deterministic=True)).hexdigest(),
        **model.metadata,
    }
    helper.set_model_props(proto, metadata)
    return proto


def _check(file: Path, name: str, model: _Model, *, matrix: bool, tolerance: float) -> None:
    """Raise if onnxruntime and orcu differ on random rows, or on the first of them alone."""
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions have no common type
        raise InputError(f"{name}: onnxruntime cannot run the exported model ({first_line(error)}).") from error
    table = _check_rows(model.encoder)
    for rows in (slice(None), slice(1)):
        part = {column: values[rows] for column, values in table.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of unseen categories and numbers outside of the range
            expected = model.predict_proba(model.encoder.encode(part))
        probs = session.run(["probs"], session_inputs(model.encoder, part, matrix=matrix))[0]
        difference = float(np.abs(probs - expected).max())
        if not difference <= tolerance:
            raise InputError(
                f"{name}: the probabilities of onnxruntime differ from orcu's by {difference:.1e}, more than the "
                f"tolerance {tolerance:g}."
            )


def session_inputs(encoder: TableEncoder, table: Mapping[str, Any], *, matrix: bool) -> dict[str, Any]:
    """The inputs of an exported graph for columns of float64 numbers, and of texts with ``None`` for missing ones."""
    if matrix:
        return {MATRIX: np.stack([table[column.name] for column in encoder.columns], axis=1)}
    return {
        column.name: table[column.name]
        if column.categories is None
        else np.array(["" if cell is None else cell for cell in table[column.name]], dtype=object)
        for column in encoder.columns
    }


def _check_rows(encoder: TableEncoder) -> dict[str, Any]:
    """Random rows: numbers in and outside of the training range, bin edges, unseen categories, missing values."""
    rng = np.random.default_rng(0)
    table: dict[str, Any] = {}
    for column in encoder.columns:
        is_missing = rng.random(CHECK_ROWS) < (0.1 if len(encoder.columns) > 1 else 0.05)
        if column.categories is None:
            numbers = column.center + column.scale * rng.normal(scale=1.5, size=CHECK_ROWS)
            special = np.array([*column.edges, column.low or 0.0, column.high or 0.0, 0.0, column.center])
            chosen = rng.random(CHECK_ROWS) < 0.3
            numbers[chosen] = rng.choice(special, chosen.sum())
            numbers[is_missing] = np.nan
            table[column.name] = numbers
        else:
            names = np.array([*column.categories, "(a category that did not occur in training)"], dtype=object)
            cells = rng.choice(names, CHECK_ROWS)
            cells[is_missing] = None
            table[column.name] = cells
    return table
