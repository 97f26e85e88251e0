"""Multilayer perceptron for tables and features."""

from collections.abc import Sequence

from torch import Tensor, nn


class Mlp(nn.Module):
    """A multilayer perceptron from a matrix to its last hidden layer.

    Args:
        in_features: number of columns of the matrix.
        hidden_layer_sizes: units of each hidden layer.
        dropout: dropout probability after each layer.
    """

    def __init__(self, in_features: int, *, hidden_layer_sizes: Sequence[int] = (256,), dropout: float = 0.0) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = in_features
        for units in hidden_layer_sizes:
            layers += [nn.Linear(width, units), nn.ReLU()]
            layers += [nn.Dropout(dropout)] if dropout else []
            width = units
        self.layers = nn.Sequential(*layers)
        self.width = width

    def forward(self, matrix: Tensor) -> Tensor:
        """(n, in_features) to (n, width)."""
        features: Tensor = self.layers(matrix)
        return features
