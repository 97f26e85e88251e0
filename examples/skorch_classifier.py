"""A skorch classifier with orcu's losses: probabilities, cross-validation, a grid search.

    python examples/skorch_classifier.py

SWD, which comes with the package skordinal: 1000 judgements by social workers of the risk that children
face, in four grades.
"""

import numpy as np
import torch
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from skorch import NeuralNetClassifier
from skordinal.datasets import load_swd
from torch import nn

from orcu import metrics
from orcu.integrations.skorch import OrdinalCriterion


class Network(nn.Module):
    """Two layers."""

    def __init__(self, inputs: int, num_classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, num_classes))

    def forward(self, x):
        """Logits."""
        return self.layers(x)


def classifier(loss: str, inputs: int, num_classes: int) -> NeuralNetClassifier:
    """A scikit-learn classifier that trains with the named loss."""
    return NeuralNetClassifier(
        Network,
        module__inputs=inputs,
        module__num_classes=num_classes,
        criterion=OrdinalCriterion,
        criterion__loss=loss,
        criterion__num_classes=num_classes,
        optimizer=torch.optim.AdamW,
        lr=0.005,
        max_epochs=20,
        batch_size=64,
        train_split=None,
        verbose=0,
    )


def main() -> None:
    """Compare two losses by cross-validation, then choose ORCU's scale."""
    torch.set_num_threads(1)
    data = load_swd()
    x = np.asarray(data.data, np.float32)
    x, y = (x - x.mean(0)) / x.std(0), np.asarray(data.target, np.int64)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)

    print(f"{'loss':8s}{'accuracy %':>12s}{'MAE':>8s}{'SCE %':>8s}{'unimodal %':>12s}")
    for loss in ("ce", "orcu"):
        torch.manual_seed(0)
        net = classifier(loss, x.shape[1], data.n_classes)
        probs = cross_val_predict(net, x, y, cv=folds, method="predict_proba")
        assert np.allclose(probs.sum(1), 1, atol=1e-5)  # noqa: S101  # not logits
        found = [metrics.accuracy(probs, y), metrics.mae(probs, y), metrics.sce(probs, y)]
        cells = f"{100 * found[0]:12.1f}{found[1]:8.3f}{100 * found[2]:8.1f}"
        print(f"{loss:8s}{cells}{100 * metrics.unimodality(probs):12.1f}")

    def negative_rps(net, x, y) -> float:
        return -metrics.rps(net.predict_proba(x), y)

    torch.manual_seed(0)
    net = classifier("orcu", x.shape[1], data.n_classes)
    grid = {"criterion__scale": [0.5, 1.0, 3.0]}
    search = GridSearchCV(net, grid, scoring=negative_rps, cv=3, refit=False).fit(x, y)
    scores = zip(grid["criterion__scale"], -search.cv_results_["mean_test_score"], strict=True)
    print("RPS by scale of ORCU: " + ", ".join(f"{scale:g}: {rps:.3f}" for scale, rps in scores))


if __name__ == "__main__":
    main()
