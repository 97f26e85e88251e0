"""Train, calibrate, and write model, calibrator and projection as one ONNX file.

    python examples/onnx_export.py

A small network is trained on LEV, 1000 lecturers graded 0 to 4 by their students (the table comes with
the package skordinal); gap scaling and the unimodal projection are fitted on rows it was not
trained on. The file then needs nothing but onnxruntime: no torch, no orcu.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from skordinal.datasets import load_lev
from torch import nn

from orcu import ORCULoss, metrics
from orcu.calibrators import create
from orcu.calibrators.cross_validation import stratified_folds
from orcu.integrations.onnx import to_onnx

GRADES = ["very poor", "poor", "fair", "good", "excellent"]


def trained(x: torch.Tensor, y: torch.Tensor) -> nn.Module:
    """A small network, with the scaling of its inputs inside."""
    torch.manual_seed(0)
    scale = nn.BatchNorm1d(x.shape[1], affine=False)
    model = nn.Sequential(scale, nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, 5))
    criterion = ORCULoss(num_classes=5, scale=3.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(40):
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            criterion(model(x[batch]), y[batch]).backward()
            optimizer.step()
    return model.eval()


def main() -> None:
    """Train, export, and compare."""
    torch.set_num_threads(1)
    data = load_lev()
    x = torch.tensor(data.data, dtype=torch.float32)
    y = torch.tensor(data.target, dtype=torch.int64)
    fold = torch.from_numpy(stratified_folds(y.numpy(), 4, random_state=0))
    train, held_out, test = (fold >= 2), (fold == 1), (fold == 0)

    model = trained(x[train], y[train])
    with torch.no_grad():
        calibrator = create("gap+projection").fit(model(x[held_out]), y[held_out])

    with tempfile.TemporaryDirectory() as folder:
        file = to_onnx(
            model,
            Path(folder) / "lecturers.onnx",
            example=x[:16],
            calibrator=calibrator,
            classes=GRADES,
            input_name="marks",
        )
        # from here on: what a service does, without torch and orcu
        session = onnxruntime.InferenceSession(file)
        names = json.loads(session.get_modelmeta().custom_metadata_map["orcu.classes"])
        probs, logits = session.run(["probs", "logits"], {"marks": x[test].numpy()})
        size = file.stat().st_size / 1024

    with torch.no_grad():
        same = calibrator.predict_proba(model(x[test])).numpy()
    before = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    print(f"one file of {size:.0f} KiB, classes {names}")
    print(f"largest difference from orcu over {len(probs)} rows: {np.abs(probs - same).max():.1e}")
    print(f"{'':12s}{'SCE %':>8s}{'RPS':>8s}{'unimodal %':>12s}")
    for name, told in (("softmax", before), ("the file", probs)):
        sce, rps = metrics.sce(told, y[test]), metrics.rps(told, y[test])
        print(f"{name:12s}{100 * sce:8.1f}{rps:8.3f}{100 * metrics.unimodality(told):12.1f}")
    likely = names[int(probs[0].argmax())]
    row = " ".join(f"{p:.2f}" for p in probs[0])
    print(f"the first lecturer: {row}, most likely {likely!r}")


if __name__ == "__main__":
    main()
