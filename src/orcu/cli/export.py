"""``orcu export``: a trained model of tables as one ONNX file."""

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from orcu.cli.console import say, say_wrote, task
from orcu.cli.files import check_paths


def export(
    model: Annotated[Path, Argument(help="Model folder that `orcu train` has written for a table.")],
    output: Annotated[Path, Option("--output", "-o", help="ONNX file to write.")],
    matrix: Annotated[
        bool, Option("--matrix", help="One input of all columns, which must be numbers, not one input per column.")
    ] = False,
) -> None:
    """Export a model of tables to ONNX, from its columns to calibrated probabilities.

    The file has the encoder, all members of the ensemble, the calibrator and the projection. onnxruntime predicts
    random rows before the file gets its name, and must give the probabilities of orcu.
    """
    check_paths([], [output])
    with task(f"exporting {model}"):
        from orcu.integrations.onnx import model_to_onnx

        model_to_onnx(model, output, matrix=matrix)
        import onnx

        graph = onnx.load(output)
    properties = {entry.key: entry.value for entry in graph.metadata_props}
    texts = sum(value.type.tensor_type.elem_type == onnx.TensorProto.STRING for value in graph.graph.input)
    say(f"inputs: {len(graph.graph.input) - texts} of numbers, {texts} of texts")
    say(f"classes: {', '.join(json.loads(properties['orcu.classes']))}")
    say_wrote(output, f"{output.stat().st_size / 1e6:.1f} MB")
