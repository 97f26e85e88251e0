"""Image batches and their augmentation."""

import numpy as np
import pytest
import torch
from PIL import Image

from orcu import data
from orcu.data.batches import ImageBatches
from orcu.data.transforms import Augmentation, normalize, rotate
from orcu.errors import InputError, UnknownNameError


@pytest.fixture
def prepared(class_folders, tmp_path):
    return data.prepare("folder", class_folders, output=tmp_path / "out", size=24)[0]


def batches(prepared, **options):
    split = prepared.split("five_folds", 0)
    mean, std = prepared.cache(24).mean_and_std(split["train"])
    return ImageBatches(
        prepared.cache(24), split["train"], prepared.manifest.labels, mean=mean, std=std, batch_size=16, **options
    )


def test_image_batches_epoch_has_each_row_once_and_normalised(prepared):
    loader = batches(prepared, shuffle=True)
    epoch = list(loader.epoch(0))
    assert len(epoch) == len(loader) == 3
    images, labels = (torch.cat(parts) for parts in zip(*epoch, strict=True))
    assert images.shape == (36, 3, 24, 24)
    assert np.bincount(labels).tolist() == [12, 12, 12]
    assert images.mean(dim=(0, 2, 3)).numpy() == pytest.approx(np.zeros(3), abs=1e-5)
    assert images.std(dim=(0, 2, 3), unbiased=False).numpy() == pytest.approx(np.ones(3), abs=1e-4)


def test_image_batches_epoch_depends_on_seed_and_number_only(prepared):
    loader = batches(prepared, shuffle=True, augmentation=Augmentation())
    list(loader.epoch(0))
    again = [image for image, _ in loader.epoch(1)]
    fresh = [image for image, _ in batches(prepared, shuffle=True, augmentation=Augmentation()).epoch(1)]
    assert all(torch.equal(a, b) for a, b in zip(again, fresh, strict=True))
    assert not torch.equal(again[0], next(loader.epoch(2))[0])
    with pytest.raises(InputError, match="^rows:"):
        ImageBatches(loader.cache, np.array([], dtype=int), loader.labels, mean=loader.mean, std=loader.std)


def test_augmentation_flips_have_their_probability():
    images = torch.arange(16, dtype=torch.uint8).view(1, 1, 4, 4).repeat(4000, 3, 1, 1)
    flipped = Augmentation(rotation=0)(images.clone(), torch.Generator().manual_seed(0))
    kinds = {
        "not flipped": images[0],
        "left-right": images[0].flip(2),
        "up-down": images[0].flip(1),
        "both": images[0].flip(1, 2),
    }
    for kind in kinds.values():
        share = (flipped == kind).all(dim=(1, 2, 3)).float().mean()
        assert share == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize("degrees", [-20, 7, 20])
@pytest.mark.parametrize("shape", [(64, 64), (48, 80)])
def test_rotate_equals_pillow(degrees, shape):
    y, x = np.mgrid[: shape[0], : shape[1]]
    smooth = (127 + 80 * np.sin(x / 9) * np.cos(y / 7)).astype(np.float32)
    rotated = rotate(torch.from_numpy(smooth)[None, None], torch.tensor([np.radians(degrees)]))[0, 0]
    expected = np.asarray(Image.fromarray(smooth).rotate(degrees, Image.Resampling.BILINEAR))
    inside = (slice(14, -14), slice(20, -20))
    assert np.abs(rotated.numpy()[inside] - expected[inside]).max() < 0.5
    assert rotated[0, 0] == 0  # corners outside of the image are black


def reflect_101(position, size):
    """OpenCV's BORDER_REFLECT_101: ... 2 1 | 0 1 2 ... n-1 | n-2 n-3 ..."""
    position = np.abs(position) % (2 * (size - 1))
    return np.where(position < size, position, 2 * (size - 1) - position)


@pytest.mark.parametrize("degrees", [-20, 7, 20, 90])
@pytest.mark.parametrize("shape", [(64, 64), (31, 52), (5, 3)])
def test_rotate_reflect_equals_bilinear_interpolation_of_reflect_101_pixels(degrees, shape):
    height, width = shape
    image = np.random.default_rng(0).uniform(0, 255, shape)
    rotated = rotate(torch.from_numpy(image)[None, None], torch.tensor([np.radians(degrees)]), border="reflect")[0, 0]
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    y, x = np.mgrid[:height, :width] - np.array([(height - 1) / 2, (width - 1) / 2])[:, None, None]
    x, y = cos * x - sin * y + (width - 1) / 2, sin * x + cos * y + (height - 1) / 2
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    expected = np.zeros(shape)
    for dx, dy in ((0, 0), (1, 0), (0, 1), (1, 1)):
        weight = (1 - np.abs(x - left - dx)) * (1 - np.abs(y - top - dy))
        expected += weight * image[reflect_101(top + dy, height), reflect_101(left + dx, width)]
    assert np.abs(rotated.numpy() - expected).max() < 1e-3  # of 255; the grid is float32
    black = rotate(torch.from_numpy(image)[None, None], torch.tensor([np.radians(degrees)]))[0, 0].numpy()
    inside = (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)
    assert np.abs(black - expected)[inside].max() < 1e-3  # the border alone differs
    assert (np.abs(black - expected)[~inside] > 1).mean() > 0.5 or degrees == 90


def test_augmentation_border_reflect_leaves_no_black_corner_and_unknown_border_is_refused():
    images = torch.full((64, 3, 16, 16), 200, dtype=torch.uint8)
    draws = torch.Generator().manual_seed(0)
    assert (Augmentation(border="reflect")(images.clone(), draws) - 200).abs().max() < 1e-3
    assert Augmentation()(images.clone(), draws).min() == 0
    with pytest.raises(UnknownNameError, match="rotation_border 'mirror'.*constant.*reflect"):
        Augmentation(border="mirror")


def test_augmentation_rotates_half_of_the_images_within_the_angle():
    images = torch.zeros(2000, 1, 9, 9, dtype=torch.uint8)
    images[:, :, 4, 8] = 200  # a point to the right of the centre
    turned = Augmentation(horizontal=0, vertical=0)(images.clone(), torch.Generator().manual_seed(1))
    still = (turned == images).all(dim=(1, 2, 3))
    assert still.float().mean() == pytest.approx(0.5, abs=0.04)
    rows = torch.arange(9.0).view(1, 9, 1)
    height = (turned[:, 0] * (rows - 4)).sum(dim=(1, 2)) / turned[:, 0].sum(dim=(1, 2)).clamp(min=1e-6)
    assert height.abs().max() <= 4 * np.sin(np.radians(20)) + 0.35


def test_normalize_constant_channel_stays_finite():
    images = torch.full((2, 3, 4, 4), 51.0)
    out = normalize(images, torch.full((3,), 0.2), torch.zeros(3))
    assert out.abs().max() < 1e-6
