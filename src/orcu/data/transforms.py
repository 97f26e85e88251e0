"""Augmentation and normalisation of whole batches, on the device that trains.

The paper's (Appendix II-B): horizontal and vertical flips and a rotation by up to 20 degrees, each
with probability 0.5, then normalisation with the training set's statistics.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orcu.errors import InputError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Augmentation:
    """Flips and rotations.

    Args:
        horizontal: probability of a horizontal flip.
        vertical: probability of a vertical flip.
        rotation: probability of a rotation.
        degrees: the largest angle, either way.
    """

    horizontal: float = 0.5
    vertical: float = 0.5
    rotation: float = 0.5
    degrees: float = 20.0

    def __post_init__(self) -> None:
        for name in ("horizontal", "vertical", "rotation"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name}: expected a probability, got {getattr(self, name)!r}.")

    def __call__(self, images: "torch.Tensor", generator: "torch.Generator") -> "torch.Tensor":
        """Augmented images, float values 0..255, shape (B, 3, H, W).

        Args:
            images: uint8, shape (B, 3, H, W); it is changed in place.
            generator: on the CPU, so that every device sees the same choices.
        """
        import torch

        chance = torch.rand((4, len(images)), generator=generator)
        for axis, share, roll in ((3, self.horizontal, chance[0]), (2, self.vertical, chance[1])):
            for part in _portions((roll < share).nonzero().squeeze(1), images):
                images[part] = images[part].flip(axis)
        angles = (2 * chance[3] - 1) * math.radians(self.degrees)
        floats = images.float()
        for part in _portions((chance[2] < self.rotation).nonzero().squeeze(1), images):
            floats[part] = rotated(floats[part], angles.to(images.device)[part])
        return floats


def _portions(chosen: "torch.Tensor", images: "torch.Tensor") -> "list[torch.Tensor]":
    """The chosen rows in portions: on a CPU a few, whose copies stay in its cache; else all at once."""
    size = 4 if images.device.type == "cpu" else max(1, len(chosen))
    return [chosen[i : i + size].to(images.device) for i in range(0, len(chosen), size)]


def rotated(images: "torch.Tensor", angles: "torch.Tensor") -> "torch.Tensor":
    """Images turned about their centres, bilinear, black where nothing was.

    Args:
        images: float, shape (B, C, H, W).
        angles: radians, counter-clockwise, shape (B,).
    """
    import torch
    import torch.nn.functional as F

    height, width = images.shape[-2:]
    cos, sin = angles.to(images.dtype).cos(), angles.to(images.dtype).sin()
    # Pixel centres in coordinates that run from -1 to 1 along both sides, so that a turn of pixels
    # needs the aspect. (torch's affine_grid takes four times as long.)
    x = (torch.arange(width, device=images.device) + 0.5) * (2 / width) - 1
    y = (torch.arange(height, device=images.device) + 0.5) * (2 / height) - 1
    grid = images.new_empty((len(images), height, width, 2))
    torch.add((cos[:, None] * x)[:, None, :], (-sin[:, None] * y * (height / width))[:, :, None], out=grid[..., 0])
    torch.add((sin[:, None] * x * (width / height))[:, None, :], (cos[:, None] * y)[:, :, None], out=grid[..., 1])
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def normalized(images: "torch.Tensor", mean: "torch.Tensor", std: "torch.Tensor") -> "torch.Tensor":
    """(x / 255 - mean) / std for each colour, in place.

    Args:
        images: float values 0..255, shape (B, 3, H, W).
        mean: of values in [0, 1], shape (3,).
        std: likewise; a colour without spread is divided by 1.
    """
    scale = 1 / (255 * std.where(std > 0, std.new_ones(())))
    shift = 255 * mean * scale
    return images.mul_(scale.view(1, -1, 1, 1)).sub_(shift.view(1, -1, 1, 1))
