"""A plain training loop that watches orcu's metrics through torchmetrics.

    python examples/torchmetrics_loop.py

ERA, which comes with the package skordinal: 1000 job offers rated by applicants in nine grades. The state of
the metrics is a few thousand integers that are summed over batches and processes, so that under DDP
every rank gets the numbers of one pass over all rows, to the last bit.
"""

import numpy as np
import torch
from skordinal.datasets import load_era
from torch import nn
from torchmetrics import MetricCollection

from orcu import losses
from orcu.calibrators.cross_validation import stratified_folds
from orcu.integrations.torchmetrics import OrdinalMetric, OrdinalMetrics

EPOCHS = 30
WATCHED = ["accuracy", "mae", "sce", "rps", "unimodality"]


def main() -> None:
    """Train, and print the metrics of the validation rows."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = load_era()
    x, y = torch.tensor(np.asarray(data.data, np.float32)), torch.tensor(data.target).long()
    held_out = torch.from_numpy(stratified_folds(y.numpy(), 5, random_state=0) == 0)
    x = (x - x[~held_out].mean(0)) / x[~held_out].std(0)
    train_x, train_y, val_x, val_y = x[~held_out], y[~held_out], x[held_out], y[held_out]

    model = nn.Sequential(nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, data.n_classes))
    criterion = losses.create("orcu", num_classes=data.n_classes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    watched = OrdinalMetrics(data.n_classes, names=WATCHED, prefix="val_")
    for epoch in range(1, EPOCHS + 1):
        for batch in torch.randperm(len(train_x)).split(64):
            optimizer.zero_grad()
            criterion(model(train_x[batch]), train_y[batch]).backward()
            optimizer.step()
        watched.reset()
        with torch.no_grad():
            for inputs, labels in zip(val_x.split(32), val_y.split(32), strict=True):
                watched.update(model(inputs), labels)
        if epoch == 1 or epoch % 10 == 0:
            found = "  ".join(f"{name} {value:.3f}" for name, value in watched.compute().items())
            print(f"epoch {epoch:2d}  {found}")

    # Single metrics in a collection share one state: one update serves them all.
    several = MetricCollection({name: OrdinalMetric(name, data.n_classes) for name in WATCHED})
    with torch.no_grad():
        several.update(model(val_x), val_y)  # all rows at once, in place of batches of 32
    same = all(several.compute()[name] == watched.compute()[f"val_{name}"] for name in WATCHED)
    print(f"{len(several)} metrics, {len(several.compute_groups)} state; same bits in one batch: {same}")


if __name__ == "__main__":
    main()
