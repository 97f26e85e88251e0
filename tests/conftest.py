"""What the tests share: reference vectors, samples of predictions, small images, a small spec."""

import gc
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

VECTORS = Path(__file__).with_name("loss_vectors.json")
REAL_DATA = Path(__file__).parents[2] / "shared" / "data"  # outside the repository; tests of it skip without

SPEC = """
name = "small"
losses = ["ce", { label = "ours", name = "orcu", scale = 3.0 }]
calibrators = ["none", "temperature"]
columns = ["accuracy", "sce", "unimodality"]

[[data]]
set = "lev"
folds = [0, 1]
hidden_layer_sizes = [16]
training = { epochs = 2 }
"""

torch.set_num_threads(1)  # the tests themselves run in parallel


@pytest.fixture(autouse=True, scope="session")
def store_of_the_session(tmp_path_factory):
    """What trainings on one's own data share is kept outside the repository, and apart for each process."""
    with pytest.MonkeyPatch.context() as patch:
        if "ORCU_DATA" not in os.environ:
            patch.setenv("ORCU_DATA", str(tmp_path_factory.mktemp("store")))
        yield


def pytest_collection_finish():
    gc.freeze()  # what is imported stays: the collector need not look through it again and again


def pytest_sessionfinish():
    gc.unfreeze()


@pytest.fixture(scope="session")
def loss_vectors():
    """Values and gradients of every loss, computed independently of this package."""
    return json.loads(VECTORS.read_text())


@pytest.fixture(scope="session")
def reference_logits():
    """The 200 rows of the reference vectors: logits and labels from a linear congruential generator."""
    state, rows, labels = 12345, [], []

    def uniform():
        nonlocal state
        state = (1664525 * state + 1013904223) % 2**32
        return state / 2**32

    for _ in range(200):
        z = np.array([6 * uniform() - 3 for _ in range(5)])
        p = np.exp(z / 1.5)
        rows.append(z)
        labels.append(int(np.searchsorted(np.cumsum(p / p.sum()), uniform())))
    return np.array(rows), np.array(labels)


@pytest.fixture(scope="session")
def reference_sample(reference_logits, softmax):
    """The 200 rows of the reference vectors: probabilities and labels."""
    logits, labels = reference_logits
    return softmax(logits), labels


@pytest.fixture(scope="session")
def ordinal_sample():
    """Makes over-confident ordinal predictions: logits (n, C) and labels drawn from the cooler softmax."""

    def make(rows, num_classes=5, *, sharpen=1.5, seed=0):
        rng = np.random.default_rng(seed)
        center = rng.uniform(-0.5, num_classes - 0.5, size=(rows, 1))
        logits = -((np.arange(num_classes) - center) ** 2) / 1.5
        logits += rng.normal(scale=0.3, size=logits.shape)
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        y = (rng.random(rows)[:, None] > np.cumsum(p, 1)[:, :-1]).sum(1)
        return logits * sharpen, y

    return make


@pytest.fixture(scope="session")
def softmax():
    def apply(logits):
        e = np.exp(logits - logits.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    return apply


@pytest.fixture
def real_data():
    """A folder of the real data that measurements use; skips where it is not on the machine."""

    def folder(name):
        path = REAL_DATA / name
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


@pytest.fixture
def spec_file(tmp_path, monkeypatch):
    """A spec of four quick runs, with data and results in a folder of their own."""
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "small.toml"
    path.write_text(SPEC)
    return path
