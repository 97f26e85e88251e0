import json
from pathlib import Path

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
