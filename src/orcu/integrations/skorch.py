"""For skorch: a criterion with which ``NeuralNetClassifier`` gives probabilities."""

from collections.abc import Mapping
from typing import Any

from orcu.errors import InputError, require

require("torch", extra="train", what="orcu.integrations.skorch")

from torch import Tensor, nn  # noqa: E402

from orcu import losses  # noqa: E402


class OrdinalCriterion(nn.CrossEntropyLoss):
    """Any loss of orcu as ``NeuralNetClassifier(..., criterion=OrdinalCriterion)``.

    skorch turns a module's outputs into probabilities only for criteria it knows: with any other one
    ``predict_proba`` silently returns logits. It knows `torch.nn.CrossEntropyLoss`, and this class
    is one by name, so that the softmax is added; the value is that of orcu's loss.

    The module gives logits (n, C); labels are int64, 0..C-1.

    Args:
        num_classes: C; ``criterion__num_classes`` in skorch.
        loss: a name or spec, see `orcu.losses.create`; ``criterion__loss``.
        options: of the loss, such as ``criterion__scale``.

    Raises:
        InputError: if an argument cannot be used, or the loss needs a head of its own (POE).

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
            raise InputError(f"loss: {loss!r} takes the output of its own head, which skorch cannot hand over.")

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch."""
        value: Tensor = self.criterion(input, target)
        return value
