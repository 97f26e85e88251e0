"""Networks of an ensemble: one module that averages them, and one that trains many perceptrons at once."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from orcu.models.classifier import Classifier, Output
from orcu.models.tabular import Mlp


class NetworkEnsemble(nn.Module):
    """Weighted sum of the members' log-probabilities: logits sum_m w_m log p_m, shape (n, C).

    Args:
        members: networks from inputs to logits (n, C), or to an output with ``logits``.
        weights: weight of each member's log-probabilities.

    Example:
        >>> members = [nn.Linear(1, 2, bias=True) for _ in range(2)]
        >>> NetworkEnsemble(members, [0.5, 0.5])(torch.ones(3, 1)).shape
        torch.Size([3, 2])
    """

    weights: Tensor

    def __init__(self, members: Sequence[nn.Module], weights: Sequence[float]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.register_buffer("weights", torch.tensor(weights, dtype=torch.float32))

    def log_probs(self, inputs: Any) -> Tensor:
        """Log-probabilities of every member, shape (M, n, C)."""
        outputs = [member(inputs) for member in self.members]
        return torch.stack([getattr(output, "logits", output).log_softmax(-1) for output in outputs])

    def forward(self, inputs: Any) -> Tensor:
        """Logits of the ensemble, shape (n, C)."""
        return (self.weights[:, None, None] * self.log_probs(inputs)).sum(0)


class EnsembleClassifier(NetworkEnsemble):
    """An ensemble of perceptrons on the features of one backbone.

    Args:
        backbone: module with an attribute ``width``, from inputs to features (n, width).
        num_classes: number of classes, C.
        hidden_layer_sizes: number of units of each hidden layer of a perceptron.
        weights: weight of each member's log-probabilities.
    """

    def __init__(
        self, backbone: Any, num_classes: int, *, hidden_layer_sizes: Sequence[int], weights: Sequence[float]
    ) -> None:
        sizes = tuple(hidden_layer_sizes)
        members = [Classifier(Mlp(backbone.width, hidden_layer_sizes=sizes), num_classes) for _ in weights]
        super().__init__(members, weights)
        self.backbone = backbone
        self.num_classes = num_classes

    def forward(self, inputs: Any) -> Output:  # type: ignore[override]
        """Inputs of the backbone to an `Output`, whose features are the backbone's."""
        features = self.backbone(inputs)
        logits = super().forward(features)
        return Output(logits, features, logits)

    def member_log_probs(self, inputs: Any) -> Tensor:
        """Log-probabilities of every member, shape (M, n, C)."""
        features = self.backbone(inputs)
        if not len(self.members):  # other members have all the weight
            return features.new_zeros(0, len(features), self.num_classes)
        return self.log_probs(features)


class NetworkStack(nn.Module):
    """Many perceptrons of one shape as one module: one matrix product for the first layers, batched ones after it.

    Args:
        networks: classifiers of an `Mlp` and a linear head, all of the same shape.

    Example:
        >>> networks = [Classifier(Mlp(4, hidden_layer_sizes=(8,)), num_classes=3) for _ in range(5)]
        >>> stack = NetworkStack(networks)
        >>> x = torch.randn(6, 4)
        >>> bool(torch.allclose(stack(x)[2], networks[2](x).logits, atol=1e-6))
        True
    """

    def __init__(self, networks: Sequence[Classifier]) -> None:
        super().__init__()
        layers = [[*network.backbone.layers, network.head] for network in networks]
        linear = [[layer for layer in network if isinstance(layer, nn.Linear)] for network in layers]
        # Shape (B, in, out), so that inputs are the left factor of a batched product.
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
        # One product for all networks: (n, in) times (in, B units).
        product = matrix @ first.permute(1, 0, 2).reshape(width, size * units)
        hidden = product.view(len(matrix), size, units).transpose(0, 1) + self.offsets[0]
        for weight, offset in zip(list(self.matrices)[1:], list(self.offsets)[1:], strict=True):
            hidden = torch.baddbmm(offset, hidden.relu(), weight)
        return hidden

    def state_of(self, index: int) -> dict[str, Tensor]:
        """The weights of one network, as a `Classifier` of an `Mlp` loads them."""
        matrices = [weight[index].detach().t().clone() for weight in self.matrices]
        offsets = [offset[index, 0].detach().clone() for offset in self.offsets]
        names = [f"backbone.layers.{2 * k}" for k in range(len(matrices) - 1)] + ["head"]
        state: dict[str, Tensor] = {}
        for name, weight, offset in zip(names, matrices, offsets, strict=True):
            state |= {f"{name}.weight": weight, f"{name}.bias": offset}
        return state


def make_perceptrons(
    count: int, width: int, num_classes: int, hidden_layer_sizes: Sequence[int], *, seed: int
) -> list[Classifier]:
    """Perceptrons of one shape with different initial weights; torch's global random state does not change."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return [Classifier(Mlp(width, hidden_layer_sizes=tuple(hidden_layer_sizes)), num_classes) for _ in range(count)]
