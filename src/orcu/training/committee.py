"""Cross-fitted networks as one: weights by what they say out of fold, one calibrator for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orcu.calibrators.base import Calibrator
from orcu.calibrators.pool import pool_weights, pooled
from orcu.dealing import Fold
from orcu.inputs import FloatArray, IntArray
from orcu.models.committee import Committee
from orcu.training.cross_fitting import CrossFitted


@dataclass(frozen=True)
class Pool:
    """A committee, and what it says of the rows that it was trained on, each by members that have not seen it."""

    committee: Committee
    weights: dict[str, float]  # of the losses, summing to 1; those that cannot help have 0
    kept: list[CrossFitted]  # the losses that help, in the order of the committee's members
    logits: FloatArray  # out of fold, (n, C)
    fold: IntArray  # of each row

    def by_fold(self, log_probs: FloatArray) -> FloatArray:
        """What the members of each fold say together, (K, n, C), from what every member says, (M, n, C)."""
        folds = int(self.fold.max()) + 1
        shape = (len(self.kept), folds, *log_probs.shape[1:])
        weights = np.array([self.weights[one.name] for one in self.kept])
        by_loss: FloatArray = np.einsum("l,lknc->knc", weights, log_probs.reshape(shape))
        return by_loss


def pool(fitted: Sequence[CrossFitted], folds: Sequence[Fold], y: IntArray, weight: FloatArray | None = None) -> Pool:
    """Weigh cross-fitted losses by the log score of what they say out of fold, and keep those that help.

    Args:
        fitted: as `orcu.training.cross_fitting.train_together` gives them.
        folds: as `orcu.training.cross_fitting.deal` gives them.
        y: labels 0..C-1.
        weight: one per row, or ``None``.
    """
    out_of_fold = np.stack([one.log_probs for one in fitted])
    weights = pool_weights(out_of_fold, y, weight)
    kept = [(one, share) for one, share in zip(fitted, weights.tolist(), strict=True) if share > 0]
    members = [network for one, _ in kept for network in one.networks]
    shares = [share / len(one.networks) for one, share in kept for _ in one.networks]
    fold = np.empty(len(y), dtype=np.int64)
    for number, part in enumerate(folds):
        fold[part.held] = number
    return Pool(
        Committee(members, shares),
        {one.name: share for one, share in zip(fitted, weights.tolist(), strict=True)},
        [one for one, _ in kept],
        pooled(out_of_fold, weights),
        fold,
    )


def described(pool: Pool, calibrator: Calibrator | None) -> str:
    """What was put together, in a sentence or two."""
    shares = ", ".join(f"{name} {share:.2f}" for name, share in pool.weights.items() if share > 0)
    dropped = [name for name, share in pool.weights.items() if share == 0]
    folds = int(pool.fold.max()) + 1
    text = f"{folds} folds; weights {shares}"
    text += f" ({', '.join(dropped)} cannot help)" if dropped else ""
    reason = getattr(calibrator, "reason_", "" if calibrator is None else f"{calibrator.name}.")
    return f"{text}. Calibrator: {reason or 'none.'}"
