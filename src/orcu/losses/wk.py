"""WK: one minus the quadratic weighted kappa of a batch."""

from typing import Any, Unpack

import numpy as np

from orcu.geometry import array_namespace
from orcu.kernels.terms import ClassFirst, Term, weighted_disagreement
from orcu.losses.base import LossCard, LossOptions, register_loss
from orcu.losses.closed_form import ClosedFormLoss


@register_loss(
    LossCard(
        name="wk",
        title="WK (quadratic weighted kappa)",
        family="ordinal",
        paper="de la Torre, Puig and Valls, 2018",
        formula="1 - kappa = sum_n sum_k (y_n - k)^2 p_nk / sum_i sum_k f_i (i - k)^2 sum_n p_nk,  "
        "f_i = mean_n 1[y_n = i]",
        notes="The ratio 1 - kappa instead of the authors' log(1 - kappa), which is -inf for a perfect batch. A "
        "statistic of the batch: use batches that contain several classes. In a batch of one class it is 1 and has no "
        "gradient. Not a proper score: the probabilities become too certain.",
    )
)
class WeightedKappaLoss(ClosedFormLoss):
    """One minus the quadratic weighted kappa of labels and predicted probabilities of a batch.

    The squared error sum_n sum_k (y_n - k)^2 p_nk is divided by its value for independent labels and predictions with
    the same frequencies. The loss is 0 for perfect predictions, 1 for independent ones, and at most 2.

    Weights apply to all means. ``"sum"`` is the value times the number of samples (or the sum of their weights), which
    makes it comparable to a summed loss.

    Example:
        >>> import torch
        >>> loss = WeightedKappaLoss(num_classes=3)
        >>> probs = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.2, 0.7]])
        >>> round(loss(probs.log(), torch.tensor([0, 2])).item(), 4)
        0.2973
    """

    batch_statistic = True

    def __init__(self, num_classes: int, **common: Unpack[LossOptions]) -> None:
        super().__init__(num_classes, **common)
        share = np.arange(num_classes) / (num_classes - 1)
        self.add_table("costs", np.subtract.outer(share, share) ** 2)

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """Statistic of the batch and its gradient."""
        is_numpy = array_namespace(batch.z) is np
        table = self.array("costs", batch.z.dtype) if is_numpy else self.table("costs", batch.z)
        return {self.term: weighted_disagreement(batch, self.columns("costs", batch, y), table, y)}
