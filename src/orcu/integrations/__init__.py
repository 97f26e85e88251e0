"""Integrations with torchmetrics, transformers, skorch and ONNX; each is imported on its own."""
