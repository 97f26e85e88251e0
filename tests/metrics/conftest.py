import numpy as np
import pytest


@pytest.fixture(scope="session")
def reference_sample():
    """The 200 rows of the reference vectors: logits and labels from a linear congruential generator."""
    state, rows, labels = 12345, [], []

    def uniform():
        nonlocal state
        state = (1664525 * state + 1013904223) % 2**32
        return state / 2**32

    for _ in range(200):
        z = [6 * uniform() - 3 for _ in range(5)]
        p = np.exp(np.array(z) / 1.5)
        cumulative = np.cumsum(p / p.sum())
        rows.append(z)
        labels.append(int(np.searchsorted(cumulative, uniform())))
    z = np.array(rows)
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True), np.array(labels)


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
