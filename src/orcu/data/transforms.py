"""Augmentation and normalisation of whole batches, on the device that trains.

The paper's (Appendix II-B): horizontal and vertical flips and a rotation by up to 20 degrees, each
with probability 0.5, then normalisation with the training set's statistics.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

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

    def __call__(self, images: "torch.Tensor", generator: "torch.Generator") -> "torch.Tensor":
        """Augmented images, float, shape (B, 3, H, W).

        Args:
            images: float, shape (B, 3, H, W).
            generator: on the CPU, so that every device sees the same choices.
        """
        import torch

        chance = torch.rand((4, len(images)), generator=generator)
        for axis, share, roll in ((3, self.horizontal, chance[0]), (2, self.vertical, chance[1])):
            chosen = (roll < share).nonzero().squeeze(1).to(images.device)
            images[chosen] = images[chosen].flip(axis)
        chosen = (chance[2] < self.rotation).nonzero().squeeze(1)
        angles = (2 * chance[3][chosen] - 1) * math.radians(self.degrees)
        where = chosen.to(images.device)
        images[where] = rotated(images[where], angles.to(images.device))
        return images


def rotated(images: "torch.Tensor", angles: "torch.Tensor") -> "torch.Tensor":
    """Images turned about their centres, bilinear, black where nothing was.

    Args:
        images: float, shape (B, C, H, W).
        angles: radians, counter-clockwise, shape (B,).
    """
    import torch
    import torch.nn.functional as F

    height, width = images.shape[-2:]
    cos, sin, zero = angles.cos(), angles.sin(), torch.zeros_like(angles)
    # Coordinates run from -1 to 1 along both sides, so a turn of pixels needs the aspect.
    turn = torch.stack(
        [
            torch.stack([cos, -sin * height / width, zero], dim=1),
            torch.stack([sin * width / height, cos, zero], dim=1),
        ],
        dim=1,
    )
    grid = F.affine_grid(turn.to(images.dtype), list(images.shape), align_corners=False)
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
