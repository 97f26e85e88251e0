"""An ONNX graph under construction, and the encoder of a table as a part of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu.errors import InputError, require
from orcu.inputs import IntArray
from orcu.preprocessing import CLIP, FLOAT32_MAX, MAX_SCALED, MISSING, Column, TableEncoder

for _package in ("torch", "onnx", "onnxscript"):
    require(_package, extra="onnx", feature="orcu.integrations.onnx_graph")

import onnx  # noqa: E402
import torch  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from torch import Tensor, nn  # noqa: E402

TREES_DOMAIN, TREES_OPSET = "ai.onnx.ml", 5  # the first version of TreeEnsemble
ROWS = "rows"  # name of the dimension of the rows
OUTPUTS = ("probs", "logits")
PREFIXES = ("table/", "model/")  # of the names of values in the two parts of an exported graph
_MISSING_CODE, _UNSEEN_CODE = -2, -1  # codes of the cells of categories that are not a category of the training rows


class Graph:
    """Nodes and constants of a graph; values are known by their names.

    Args:
        prefix: start of all names, which no column and no other graph may have.

    Example:
        >>> graph = Graph("example/")
        >>> graph.add("Add", "x", graph.constant([1.0, 2.0]))
        'example/1'
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._n_values = 0

    def name(self) -> str:
        """A new name."""
        self._n_values += 1
        return f"{self.prefix}{self._n_values - 1}"

    def constant(self, values: Any, dtype: Any = np.float64) -> str:
        """Add an array, by default of float64; returns its name."""
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype=dtype), self.name()))
        return self.constants[-1].name

    def add(self, operator: str, *inputs: str, domain: str = "", output: str | None = None, **attributes: Any) -> str:
        """Add a node with one output; returns the name of the output."""
        output = self.name() if output is None else output
        self.nodes.append(helper.make_node(operator, inputs, [output], domain=domain, **attributes))
        return output

    def cast(self, value: str, to: int) -> str:
        """The value in another type, such as ``TensorProto.DOUBLE``."""
        return self.add("Cast", value, to=to)

    def columns(self, value: str, numbers: Sequence[int] | IntArray) -> str:
        """Some columns of a matrix, in this order."""
        return self.add("Gather", value, self.constant(numbers, np.int64), axis=1)

    def concatenate(self, values: Sequence[str]) -> str:
        """Matrices beside each other."""
        return values[0] if len(values) == 1 else self.add("Concat", *values, axis=1)


@dataclass(frozen=True)
class EncodedTable:
    """Values of a graph that `add_encoder` has added.

    Attributes:
        inputs: inputs of the graph.
        codes: numbers and codes of categories with NaN for missing values, (n, D), float64.
        features: features of networks and linear models, (n, F), float32; ``None`` if they were not requested.
        unusable: whether `TableEncoder.encode` would refuse a row, (n,); ``None`` if it refuses none.
    """

    inputs: list[onnx.ValueInfoProto]
    codes: str
    features: str | None
    unusable: str | None


def add_encoder(graph: Graph, encoder: TableEncoder, *, features: bool, matrix: str | None) -> EncodedTable:
    """Add the inputs of a table and its encoder, as `TableEncoder.encode` computes it.

    Args:
        graph: graph that gets the nodes.
        encoder: fitted encoder.
        features: whether the features of networks and linear models are needed.
        matrix: name of the one input of all columns, (n, D); ``None`` for an input per column.

    Raises:
        InputError: if the columns cannot be inputs.
    """
    columns, categorical = encoder.columns, encoder.categorical
    numeric = [k for k in range(len(columns)) if k not in set(categorical)]
    if matrix is None:
        inputs = _column_inputs(columns)
        numbers = _side_by_side(graph, [columns[k].name for k in numeric])
    else:
        if categorical:
            raise InputError(
                f"matrix: column {columns[categorical[0]].name!r} holds categories, which are texts, so that the "
                "columns are not one matrix of numbers; export an input per column."
            )
        inputs = [helper.make_tensor_value_info(matrix, TensorProto.DOUBLE, [ROWS, len(columns)])]
        numbers = matrix
    cells = _side_by_side(graph, [_add_category_codes(graph, columns[k]) for k in categorical])
    parts = [numbers] if numeric else []
    if categorical:
        is_unknown = graph.add("Less", cells, graph.constant(0, np.int64))
        parts.append(graph.add("Where", is_unknown, graph.constant(np.nan), graph.cast(cells, TensorProto.DOUBLE)))
    codes = graph.columns(graph.concatenate(parts), np.argsort([*numeric, *categorical]))
    flags, blocks, positions = [], [], []
    first = np.cumsum([0, *(column.width for column in columns)])  # feature of each column
    if numeric:
        flags.append(graph.add("IsInf", numbers))
    if features and numeric:
        block, position, too_far = _add_number_features(graph, [columns[k] for k in numeric], first[numeric], numbers)
        blocks.append(block)
        positions += position
        flags += too_far
    if features and categorical:
        names = [(index, code, columns[k]) for index, k in enumerate(categorical) for code in range(columns[k].width)]
        sought = [_MISSING_CODE if _is_missing_mark(column, code) else code for _, code, column in names]
        repeated = graph.columns(cells, [index for index, _, _ in names])
        blocks.append(graph.cast(graph.add("Equal", repeated, graph.constant(sought, np.int64)), TensorProto.FLOAT))
        positions += [int(first[k]) + code for k in categorical for code in range(columns[k].width)]
    return EncodedTable(
        inputs,
        codes,
        graph.columns(graph.concatenate(blocks), np.argsort(positions)) if blocks else None,
        _add_any(graph, flags) if flags else None,
    )


def _column_inputs(columns: Sequence[Column]) -> list[onnx.ValueInfoProto]:
    """An input of shape (n,) per column: float64 numbers, or texts."""
    for column in columns:
        if not column.name or column.name in OUTPUTS or column.name.startswith(PREFIXES):
            raise InputError(
                f"column {column.name!r}: cannot be the name of an input of the graph, whose outputs are "
                f"{' and '.join(OUTPUTS)}. Rename the column and fit again, or export one matrix (matrix=True)."
            )
    return [
        helper.make_tensor_value_info(
            column.name, TensorProto.DOUBLE if column.categories is None else TensorProto.STRING, [ROWS]
        )
        for column in columns
    ]


def _side_by_side(graph: Graph, values: Sequence[str]) -> str:
    """Values of shape (n,) as the columns of a matrix; no name without values."""
    if not values:
        return ""
    axis = graph.constant([1], np.int64)
    return graph.concatenate([graph.add("Unsqueeze", value, axis) for value in values])


def _add_category_codes(graph: Graph, column: Column) -> str:
    """Codes of the categories of a column, negative for cells that are missing or unseen."""
    codes = {"": _MISSING_CODE}  # ONNX has no missing text
    codes |= {name: code for code, name in enumerate(column.categories or ())} | {MISSING: _MISSING_CODE}
    return graph.add(
        "LabelEncoder",
        column.name,
        domain=TREES_DOMAIN,
        keys_strings=list(codes),
        values_int64s=list(codes.values()),
        default_int64=_UNSEEN_CODE,
    )


def _is_missing_mark(column: Column, code: int) -> bool:
    """Whether a category of a column stands for its missing values."""
    names = column.categories or ()
    return code == len(names) - 1 and names[code] == MISSING


def _add_number_features(
    graph: Graph, columns: Sequence[Column], first: IntArray, numbers: str
) -> tuple[str, list[int], list[str]]:
    """Features of numbers, their positions among all features, and flags of numbers that are too large."""
    is_missing = graph.add("IsNaN", numbers)
    center = graph.constant([column.center for column in columns])
    filled = graph.add("Where", is_missing, center, numbers)
    scale = graph.constant([column.scale for column in columns])
    scaled = graph.add("Div", graph.add("Sub", filled, center), scale)
    flags, positions = [], [int(start) for start in first]
    if not all(column.clip for column in columns):
        limit = graph.constant([np.inf if column.clip else MAX_SCALED for column in columns])
        flags.append(graph.add("Greater", graph.add("Abs", scaled), limit))
    bounded = graph.add("Clip", scaled, graph.constant(-FLOAT32_MAX), graph.constant(FLOAT32_MAX))
    ratio = graph.add("Div", bounded, graph.constant([CLIP if column.clip else np.inf for column in columns]))
    squares = graph.add("Add", graph.add("Mul", ratio, ratio), graph.constant(1.0))
    parts = [graph.add("Div", bounded, graph.add("Sqrt", squares))]
    with_gaps = [k for k, column in enumerate(columns) if column.gaps]
    if with_gaps:
        parts.append(graph.columns(graph.cast(is_missing, TensorProto.DOUBLE), with_gaps))
        positions += [int(first[k]) + 1 for k in with_gaps]
    bins = [k for k, column in enumerate(columns) for _ in column.edges[1:]]
    if bins:
        lower = np.concatenate([column.edges[:-1] for column in columns])
        widths = np.concatenate([np.diff(column.edges) for column in columns if column.edges])
        above = graph.add("Sub", graph.columns(filled, bins), graph.constant(lower))
        share = graph.add("Div", above, graph.constant(widths))
        parts.append(graph.add("Clip", share, graph.constant(0.0), graph.constant(1.0)))
        positions += [
            int(first[k]) + 1 + column.gaps + number
            for k, column in enumerate(columns)
            for number in range(len(column.edges) - 1)
        ]
    return graph.cast(graph.concatenate(parts), TensorProto.FLOAT), positions, flags


def _add_any(graph: Graph, flags: Sequence[str]) -> str:
    """Whether a flag of a row is true, (n,), from matrices of flags."""
    numbers = graph.cast(graph.concatenate(flags), TensorProto.FLOAT)
    total = graph.add("ReduceSum", numbers, graph.constant([1], np.int64), keepdims=0)
    return graph.add("Greater", total, graph.constant(0.0, np.float32))


def export_program(
    model: nn.Module, inputs: Mapping[str, Tensor], *, by_name: bool, opset: int | None = None
) -> torch.onnx.ONNXProgram:
    """A module as an ONNX program with a dynamic number of rows.

    Args:
        model: module from ``*inputs``, or from ``**named``, to probabilities and logits.
        inputs: example inputs of at least two rows.
        by_name: whether the module takes the inputs by name.
        opset: version of the ONNX operators; chosen by torch by default.
    """
    first, others = torch.export.Dim(ROWS), torch.export.Dim.DYNAMIC
    shapes: Any = {name: {0: others if i else first} for i, name in enumerate(inputs)}
    program = torch.onnx.export(
        model,
        () if by_name else tuple(inputs.values()),
        kwargs=dict(inputs) if by_name else None,
        input_names=list(inputs),
        output_names=list(OUTPUTS),
        dynamic_shapes={"named": shapes} if by_name else {"inputs": tuple(shapes.values())},
        opset_version=opset,
        dynamo=True,
        verbose=False,
    )
    assert program is not None  # noqa: S101
    _clear_stack_traces(program.model)
    return program


def _clear_stack_traces(model: Any) -> None:
    """Remove the stack traces of the exporter: they contain local paths, and are most of a small file."""
    for node in model.graph.all_nodes():
        node.metadata_props.clear()
        node.doc_string = None
        for value in node.outputs:
            value.metadata_props.clear()
