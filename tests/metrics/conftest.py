import numpy as np
import pytest


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
