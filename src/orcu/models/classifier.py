"""A classifier: a backbone that gives features, and a head that gives logits."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from orcu.errors import UnknownNameError
from orcu.models.heads import HEADS
from orcu.models.tabular import Mlp


class Output(NamedTuple):
    """What a classifier gives.

    Attributes:
        logits: shape (n, C); what predictions are made from.
        features: shape (n, D).
        for_loss: what the loss takes: the logits, or the output of the loss's own head.
    """

    logits: Tensor
    features: Tensor
    for_loss: Any


class Classifier(nn.Module):
    """Backbone and head.

    Args:
        backbone: a module with an attribute ``width``, from inputs to features (n, width).
        num_classes: how many classes, C.
        head: one of `orcu.models.heads.HEADS`.

    Example:
        >>> from orcu.models.tabular import Mlp
        >>> model = Classifier(Mlp(4, hidden=(8,)), num_classes=3, head="unimodal")
        >>> output = model(torch.randn(5, 4))
        >>> tuple(output.logits.shape), tuple(output.features.shape)
        ((5, 3), (5, 8))
    """

    def __init__(self, backbone: Any, num_classes: int, *, head: str = "linear") -> None:
        super().__init__()
        if head not in HEADS:
            raise UnknownNameError("head", head, HEADS)
        self.backbone = backbone
        self.head: nn.Module = HEADS[head](backbone.width, num_classes)

    def forward(self, inputs: Any) -> Output:
        """Inputs as the backbone takes them, to an `Output`."""
        features = self.backbone(inputs)
        output = self.head(features)
        return Output(getattr(output, "logits", output), features, output)


class Frozen(nn.Module):
    """A backbone that keeps its weights, and a perceptron on its features.

    Args:
        body: from inputs to features.
        hidden: layers of the perceptron.
    """

    def __init__(self, body: Any, hidden: list[int]) -> None:
        super().__init__()
        self.body = body.eval().requires_grad_(False)
        self.mlp = Mlp(body.width, hidden=hidden)
        self.width = self.mlp.width

    def train(self, mode: bool = True) -> "Frozen":
        """The body stays as it is."""
        super().train(mode)
        self.body.eval()
        return self

    def forward(self, inputs: Any) -> Tensor:
        """Inputs of the body to features (n, width)."""
        features: Tensor = self.mlp(self.body(inputs))
        return features


@torch.no_grad()
def predict(model: nn.Module, batches: Any) -> tuple[Tensor, Tensor]:
    """Logits (float32) and features of all batches, on the CPU.

    Args:
        model: it is put into evaluation mode.
        batches: an iterable of tuples whose first part are inputs.
    """
    model.eval()
    outputs = [model(inputs) for inputs, *_ in batches]
    logits, features = [output.logits for output in outputs], [output.features for output in outputs]
    return torch.cat(logits).float().cpu(), torch.cat(features).float().cpu()
