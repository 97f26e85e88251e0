import json
from pathlib import Path

import numpy as np
import pytest
import torch

FACTS = Path(__file__).parents[2] / "shared" / "facts"

torch.set_num_threads(1)  # the tests themselves run in parallel


@pytest.fixture(scope="session")
def loss_vectors():
    """Values and gradients of every loss, computed independently of this package."""
    path = FACTS / "loss_vectors.json"
    if not path.exists():
        pytest.skip(f"the reference vectors are not on this machine ({path.name})")
    return json.loads(path.read_text())


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
