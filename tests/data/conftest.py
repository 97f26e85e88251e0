from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def real_data():
    """A folder of the real data that measurements use; skips where it is not on the machine."""

    def folder(name):
        path = SHARED / name
        if not path.exists():
            pytest.skip(f"the real data are not on this machine ({name})")
        return path

    return folder


@pytest.fixture
def image():
    """A maker of small image files with content of their own."""
    rng = np.random.default_rng(0)

    def make(path, size=(20, 16), pixels=None):
        path.parent.mkdir(parents=True, exist_ok=True)
        if pixels is None:
            pixels = rng.integers(256, size=(size[1], size[0], 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
        return path

    return make


@pytest.fixture
def class_folders(tmp_path, image):
    """Sixty images in three class folders, two of each subject."""
    for label, name in enumerate(("0_none", "1_mild", "2_severe")):
        for number in range(20):
            image(tmp_path / "images" / name / f"patient{label}{number // 2}_{number}.png")
    return tmp_path / "images"
