"""Criterion for skorch with which ``NeuralNetClassifier.predict_proba`` returns probabilities."""

from collections.abc import Mapping
from typing import Any

from orcu.errors import InputError, require

require("torch", extra="train", feature="orcu.integrations.skorch")

from torch import Tensor, nn  # noqa: E402

from orcu import losses  # noqa: E402


class OrdinalCriterion(nn.CrossEntropyLoss):
    """Any loss of orcu, for ``NeuralNetClassifier(..., criterion=OrdinalCriterion)``.

    skorch applies softmax in ``predict_proba`` only for criteria it knows; with others it silently returns logits.
    This class derives from `torch.nn.CrossEntropyLoss`, which it knows, and computes the loss of orcu. The module
    returns logits of shape (n, C); labels are int64, 0..C-1.

    Args:
        num_classes: number of classes; ``criterion__num_classes`` in skorch.
        loss: name or spec of the loss, see `orcu.losses.create`; ``criterion__loss`` in skorch.
        options: options of the loss, such as ``criterion__scale`` in skorch.

    Raises:
        InputError: if an argument is invalid, or the loss needs a special head (POE).

    Example:
        >>> import torch
        >>> criterion = OrdinalCriterion(num_classes=3, loss="sord")
        >>> round(criterion(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([1])).item(), 4)
        0.9753
    """

    def __init__(self, num_classes: int, *, loss: str | Mapping[str, Any] = "orcu", **options: Any) -> None:
        super().__init__()
        self.criterion = losses.create(loss, num_classes=num_classes, **options)
        if self.criterion.needs_head:
            raise InputError(f"loss: {loss!r} needs a special model head, which skorch does not support.")

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch."""
        loss: Tensor = self.criterion(input, target)
        return loss
