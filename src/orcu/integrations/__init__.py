"""Bridges to other libraries: torchmetrics, transformers, skorch, ONNX. One module each; none is imported by orcu."""
