"""Augmentation and normalisation of image batches, on the device that trains.

As in the paper (Appendix II-B): horizontal flip, vertical flip and rotation by up to 20 degrees, each with
probability 0.5, then normalisation with the statistics of the training set.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orcu.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    import torch

BORDERS = ("constant", "reflect")  # as in numpy.pad


@dataclass(frozen=True)
class Augmentation:
    """Random flips and rotations.

    Args:
        horizontal: probability of a horizontal flip.
        vertical: probability of a vertical flip.
        rotation: probability of a rotation.
        degrees: maximum angle of rotation, in either direction.
        border: pixels outside of a rotated image, as for `rotate`.
    """

    horizontal: float = 0.5
    vertical: float = 0.5
    rotation: float = 0.5
    degrees: float = 20.0
    border: str = "constant"

    def __post_init__(self) -> None:
        for name in ("horizontal", "vertical", "rotation"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name}: expected a probability from 0 to 1, got {getattr(self, name)!r}.")
        if self.border not in BORDERS:
            raise UnknownNameError("rotation_border", self.border, BORDERS)

    def __call__(self, images: "torch.Tensor", generator: "torch.Generator") -> "torch.Tensor":
        """Augmented float images of uint8 images, both (B, 3, H, W) in 0..255; the latter are modified in place.

        The generator is on the CPU, so that the draws are the same for every device.
        """
        import torch

        draws = torch.rand((4, len(images)), generator=generator)
        for axis, probability, draw in ((3, self.horizontal, draws[0]), (2, self.vertical, draws[1])):
            for rows in _chunks((draw < probability).nonzero().squeeze(1), images):
                images[rows] = images[rows].flip(axis)
        angles = (2 * draws[3] - 1) * math.radians(self.degrees)
        floats = images.float()
        for rows in _chunks((draws[2] < self.rotation).nonzero().squeeze(1), images):
            floats[rows] = rotate(floats[rows], angles.to(images.device)[rows], border=self.border)
        return floats


def _chunks(rows: "torch.Tensor", images: "torch.Tensor") -> "list[torch.Tensor]":
    """The rows in chunks: of four on a CPU, whose copies then stay in its cache, else all at once."""
    size = 4 if images.device.type == "cpu" else max(1, len(rows))
    return [rows[i : i + size].to(images.device) for i in range(0, len(rows), size)]


def rotate(images: "torch.Tensor", angles: "torch.Tensor", *, border: str = "constant") -> "torch.Tensor":
    """Rotate float images (B, C, H, W) by angles (B,) in radians, counter-clockwise, bilinear.

    Args:
        images: images.
        angles: angles.
        border: pixels outside of the image: "constant" for black, or "reflect" for the image mirrored at the centres
            of its outermost pixels (``BORDER_REFLECT_101`` of OpenCV, the default of Albumentations before version 2).

    Example:
        >>> import torch
        >>> row = torch.tensor([[[[1.0, 2.0, 3.0]]]])
        >>> quarter = torch.tensor([torch.pi / 2])
        >>> rotate(row, quarter).round().tolist(), rotate(row, quarter, border="reflect").round().tolist()
        ([[[[0.0, 2.0, 0.0]]]], [[[[2.0, 2.0, 2.0]]]])
    """
    import torch
    import torch.nn.functional as F

    height, width = images.shape[-2:]
    cos, sin = angles.to(images.dtype).cos(), angles.to(images.dtype).sin()
    # Pixel centres in coordinates from -1 to 1 along both sides, so the rotation needs the aspect ratio. (torch's
    # affine_grid takes four times as long.)
    x = (torch.arange(width, device=images.device) + 0.5) * (2 / width) - 1
    y = (torch.arange(height, device=images.device) + 0.5) * (2 / height) - 1
    grid = images.new_empty((len(images), height, width, 2))
    torch.add((cos[:, None] * x)[:, None, :], (-sin[:, None] * y * (height / width))[:, :, None], out=grid[..., 0])
    torch.add((sin[:, None] * x * (width / height))[:, None, :], (cos[:, None] * y)[:, :, None], out=grid[..., 1])
    if border == "constant":
        return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    # With align_corners, torch mirrors at the centres of the outermost pixels, which are then at -1 and 1.
    grid *= grid.new_tensor([width / max(1, width - 1), height / max(1, height - 1)])
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="reflection", align_corners=True)


def normalize(images: "torch.Tensor", mean: "torch.Tensor", std: "torch.Tensor") -> "torch.Tensor":
    """(x / 255 - mean) / std for each colour channel, in place; a standard deviation of 0 counts as 1."""
    scale = 1 / (255 * std.where(std > 0, std.new_ones(())))
    shift = 255 * mean * scale
    return images.mul_(scale.view(1, -1, 1, 1)).sub_(shift.view(1, -1, 1, 1))
