"""A LightningModule with orcu's loss and metrics; orcu itself does not depend on Lightning.

    python examples/lightning_module.py

LEV, which comes with the package skordinal: 1000 lecturers graded 0 to 4 by their students.
"""

import logging
import tempfile
import warnings

import lightning
import numpy as np
import torch
from skordinal.datasets import load_lev
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from orcu import losses
from orcu.calibrators.cross_validation import stratified_folds
from orcu.integrations.torchmetrics import OrdinalMetrics

WATCHED = ["accuracy", "mae", "sce", "rps", "unimodality"]


class OrdinalModule(lightning.LightningModule):
    """A small network; the loss is a plain module and the metrics are torchmetrics'."""

    def __init__(self, inputs: int, num_classes: int, loss: str = "orcu") -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, num_classes))
        self.criterion = losses.create(loss, num_classes=num_classes)
        self.watched = OrdinalMetrics(num_classes, names=WATCHED, prefix="val_")

    def training_step(self, batch, index):
        """The loss of a batch, and its terms in the log."""
        x, y = batch
        value = self.criterion(self.model(x), y)
        self.log_dict({f"train_{term}": part for term, part in self.criterion.parts.items()})
        return value

    def validation_step(self, batch, index) -> None:
        """Rows for the metrics."""
        x, y = batch
        self.watched.update(self.model(x), y)

    def on_validation_epoch_end(self) -> None:
        """The metrics of all rows, of all devices."""
        self.log_dict({name: value.float() for name, value in self.watched.compute().items()})
        self.watched.reset()

    def configure_optimizers(self):
        """AdamW."""
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def main() -> None:
    """Train with two losses and print the metrics of the validation rows."""
    torch.set_num_threads(1)
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")  # rows in memory
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")  # Lightning's own use of torch
    data = load_lev()
    x, y = torch.tensor(np.asarray(data.data, np.float32)), torch.tensor(data.target).long()
    held_out = torch.from_numpy(stratified_folds(y.numpy(), 5, random_state=0) == 0)
    x = (x - x[~held_out].mean(0)) / x[~held_out].std(0)

    for loss in ("ce", "orcu"):
        lightning.seed_everything(0, verbose=False)
        module = OrdinalModule(x.shape[1], data.n_classes, loss)
        train = TensorDataset(x[~held_out], y[~held_out])
        with tempfile.TemporaryDirectory() as folder:
            trainer = lightning.Trainer(
                max_epochs=25,
                accelerator="cpu",
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
                num_sanity_val_steps=0,
                default_root_dir=folder,
            )
            trainer.fit(
                module,
                DataLoader(train, batch_size=64, shuffle=True),
                DataLoader(TensorDataset(x[held_out], y[held_out]), batch_size=64),
            )
        found = {name: float(trainer.callback_metrics[f"val_{name}"]) for name in WATCHED}
        print(f"{loss:5s}" + "  ".join(f"{name} {value:.3f}" for name, value in found.items()))


if __name__ == "__main__":
    main()
