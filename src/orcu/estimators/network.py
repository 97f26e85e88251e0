"""The network of an `OrdinalClassifier`: rows as it takes them, its training, its logits."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from orcu import geometry
from orcu.data.batches import ArrayBatches
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray
from orcu.metrics.scoring import rps
from orcu.training.config import TrainConfig
from orcu.training.loop import Curve, DivergedError, fit, logits_of, threads_for
from orcu.training.optim import fused_adamw

AT_ONCE = 8192  # rows of a forward without gradients
LOOKED_AT = 1000  # training rows whose logits must stay finite, where no rows validate


@dataclass(frozen=True)
class Cases:
    """Inputs, labels and weights, a row per case."""

    x: Tensor
    y: IntArray
    weight: npt.NDArray[np.float32] | None = None

    def __getitem__(self, rows: IntArray) -> "Cases":
        return Cases(self.x[rows], self.y[rows], None if self.weight is None else self.weight[rows])


def train(
    model: nn.Module, criterion: nn.Module, cases: Cases, validation: Cases | None, recipe: TrainConfig, *, seed: int
) -> list[float]:
    """Train in place; the validation RPS of each epoch, or the training loss where no rows validate.

    Args:
        model: from inputs to logits (n, C), or to an output with ``logits``.
        criterion: of logits and labels.
        cases: to train on.
        validation: to select the best epoch by.
        recipe: how long and how fast.
        seed: of the order of the rows and of all else that is drawn; torch's own state is left as it was.

    Raises:
        InputError: if loss or logits are no longer finite.
    """
    batches = ArrayBatches(
        cases.x,
        np.arange(len(cases.y)),
        cases.y,
        weights=cases.weight,
        batch_size=recipe.batch_size,
        generator=torch.Generator().manual_seed(seed),
    )

    def judge(epoch: int, model: nn.Module) -> Curve:
        z = logits(model, cases.x[:LOOKED_AT] if validation is None else validation.x)
        if not np.isfinite(z).all():
            raise DivergedError(epoch, "logits are not finite.")
        if validation is None:
            return {}
        return {"validation_rps": rps(geometry.probs(z), validation.y, weight=validation.weight)}

    try:
        with threads_for(model, recipe.batch_size), torch.random.fork_rng(devices=[]):
            curves = fit(
                model,
                criterion,
                batches,
                None,
                recipe,
                seed=seed,
                make_optimizer=fused_adamw,
                after_epoch=judge,
                alone=True,
            )
    except DivergedError as error:
        raise InputError(
            f"training diverged in epoch {error.epoch}: loss or logits are not finite; lower learning_rate (it is "
            f"{recipe.rate:g}), or look for columns with extreme values."
        ) from None
    return [curve["train_loss" if validation is None else "validation_rps"] for curve in curves]


@torch.no_grad()
def logits(model: nn.Module, x: Tensor) -> FloatArray:
    """The logits of rows, in float64, shape (n, C)."""
    model.eval()
    parts = [logits_of(model(part)) for part in torch.split(x, AT_ONCE)]
    values: FloatArray = torch.cat(parts).double().cpu().numpy()
    return values
