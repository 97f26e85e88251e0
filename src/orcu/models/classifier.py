"""A classifier: a backbone that computes features, and a head that computes logits."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from orcu.errors import UnknownNameError
from orcu.models.heads import HEADS
from orcu.models.tabular import Mlp


class Output(NamedTuple):
    """Output of a classifier.

    Attributes:
        logits: shape (n, C).
        features: shape (n, D).
        for_loss: input of the loss: the logits, or the output of a head that the loss requires.
    """

    logits: Tensor
    features: Tensor
    for_loss: Any


class Classifier(nn.Module):
    """Backbone and head.

    Args:
        backbone: module with an attribute ``width``, from inputs to features (n, width).
        num_classes: number of classes, C.
        head: name in `orcu.models.heads.HEADS`.

    Example:
        >>> from orcu.models.tabular import Mlp
        >>> model = Classifier(Mlp(4, hidden_layer_sizes=(8,)), num_classes=3, head="unimodal")
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
        """Inputs of the backbone to an `Output`."""
        features = self.backbone(inputs)
        output = self.head(features)
        return Output(getattr(output, "logits", output), features, output)


class FrozenBackbone(nn.Module):
    """A frozen backbone, and a perceptron on its features.

    Args:
        body: module from inputs to features, with an attribute ``width``.
        hidden_layer_sizes: units of each hidden layer of the perceptron.
    """

    def __init__(self, body: Any, hidden_layer_sizes: Sequence[int]) -> None:
        super().__init__()
        self.body = body.eval().requires_grad_(False)
        self.mlp = Mlp(body.width, hidden_layer_sizes=hidden_layer_sizes)
        self.width = self.mlp.width

    def train(self, mode: bool = True) -> "FrozenBackbone":
        """Set the mode of the perceptron; the body stays in evaluation mode."""
        super().train(mode)
        self.body.eval()
        return self

    def forward(self, inputs: Any) -> Tensor:
        """Inputs of the body to features (n, width)."""
        features: Tensor = self.mlp(self.body(inputs))
        return features


@torch.no_grad()
def predict_batches(model: nn.Module, batches: Any) -> tuple[Tensor, Tensor]:
    """Logits (float32) and features of all batches, on the CPU.

    Args:
        model: classifier; it is set to evaluation mode.
        batches: iterable of tuples that start with the inputs.
    """
    model.eval()
    outputs = [model(inputs) for inputs, *_ in batches]
    logits, features = [output.logits for output in outputs], [output.features for output in outputs]
    return torch.cat(logits).float().cpu(), torch.cat(features).float().cpu()
