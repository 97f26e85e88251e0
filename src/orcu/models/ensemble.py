"""Ensembles: several networks on the same rows, trained as one and answering as one."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from orcu.models.classifier import Classifier, Output
from orcu.models.tabular import Mlp


class Ensemble(nn.Module):
    """Members whose log-probabilities are averaged: logits sum_m w_m log p_m, shape (n, C).

    Args:
        members: from inputs to logits (n, C), or to an output with ``logits``.
        weights: of the members' log-probabilities.

    Example:
        >>> always = [nn.Linear(1, 2, bias=True) for _ in range(2)]
        >>> Ensemble(always, [0.5, 0.5])(torch.ones(3, 1)).shape
        torch.Size([3, 2])
    """

    weights: Tensor

    def __init__(self, members: Sequence[nn.Module], weights: Sequence[float]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.register_buffer("weights", torch.tensor(weights, dtype=torch.float32))

    def log_probs(self, inputs: Any) -> Tensor:
        """The log-probabilities of every member, shape (M, n, C)."""
        outputs = [member(inputs) for member in self.members]
        return torch.stack([getattr(output, "logits", output).log_softmax(-1) for output in outputs])

    def forward(self, inputs: Any) -> Tensor:
        """The pool's logits."""
        return (self.weights[:, None, None] * self.log_probs(inputs)).sum(0)


class EnsembleClassifier(Ensemble):
    """An ensemble on the features of one backbone.

    Args:
        backbone: a module with an attribute ``width``, from inputs to features (n, width).
        num_classes: how many classes, C.
        hidden: layers of each member's perceptron.
        weights: of the members' log-probabilities.
    """

    def __init__(self, backbone: Any, num_classes: int, *, hidden: Sequence[int], weights: Sequence[float]) -> None:
        members = [Classifier(Mlp(backbone.width, hidden=tuple(hidden)), num_classes) for _ in weights]
        super().__init__(members, weights)
        self.backbone = backbone
        self.num_classes = num_classes

    def forward(self, inputs: Any) -> Output:  # type: ignore[override]
        """Inputs as the backbone takes them, to an `Output`; features are the backbone's."""
        return self.on_features(self.backbone(inputs))

    def on_features(self, features: Tensor) -> Output:
        """As `forward`, where the backbone's features are at hand."""
        logits = super().forward(features)
        return Output(logits, features, logits)

    def member_log_probs(self, inputs: Any) -> Tensor:
        """The log-probabilities of every member, shape (M, n, C)."""
        features = self.backbone(inputs)
        if not len(self.members):  # trees did better than all of them
            return features.new_zeros(0, len(features), self.num_classes)
        return self.log_probs(features)


class Stack(nn.Module):
    """Many perceptrons of one shape as one: a matrix product for all first layers, a batched one for each further.

    Args:
        networks: classifiers of an `Mlp` and a linear head, all of the same shape.

    Example:
        >>> networks = [Classifier(Mlp(4, hidden=(8,)), num_classes=3) for _ in range(5)]
        >>> stack = Stack(networks)
        >>> x = torch.randn(6, 4)
        >>> bool(torch.allclose(stack(x)[2], networks[2](x).logits, atol=1e-6))
        True
    """

    def __init__(self, networks: Sequence[Classifier]) -> None:
        super().__init__()
        layers = [[*network.backbone.layers, network.head] for network in networks]
        linear = [[layer for layer in each if isinstance(layer, nn.Linear)] for each in layers]
        # (B, in, out), so that inputs stand on the left of a batched product
        self.matrices = nn.ParameterList(
            torch.stack([layer.weight.detach().t() for layer in same]) for same in zip(*linear, strict=True)
        )
        self.offsets = nn.ParameterList(
            torch.stack([layer.bias.detach() for layer in same])[:, None] for same in zip(*linear, strict=True)
        )

    def forward(self, matrix: Tensor) -> Tensor:
        """(n, in) to the logits of every network, (B, n, C)."""
        first = self.matrices[0]
        size, width, units = first.shape
        # one product for all: (n, in) times (in, B units)
        whole = matrix @ first.permute(1, 0, 2).reshape(width, size * units)
        hidden = whole.view(len(matrix), size, units).transpose(0, 1) + self.offsets[0]
        for weight, offset in zip(list(self.matrices)[1:], list(self.offsets)[1:], strict=True):
            hidden = torch.baddbmm(offset, hidden.relu(), weight)
        return hidden

    def state_of(self, network: int) -> dict[str, Tensor]:
        """The weights of one network, as a `Classifier` of an `Mlp` loads them."""
        matrices = [weight[network].detach().t().clone() for weight in self.matrices]
        offsets = [offset[network, 0].detach().clone() for offset in self.offsets]
        names = [f"backbone.layers.{2 * k}" for k in range(len(matrices) - 1)] + ["head"]
        state: dict[str, Tensor] = {}
        for name, weight, offset in zip(names, matrices, offsets, strict=True):
            state |= {f"{name}.weight": weight, f"{name}.bias": offset}
        return state


def perceptrons(count: int, width: int, num_classes: int, *, hidden: Sequence[int], seed: int) -> list[Classifier]:
    """Perceptrons of one shape, each with weights of its own; torch's own state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return [Classifier(Mlp(width, hidden=tuple(hidden)), num_classes) for _ in range(count)]
