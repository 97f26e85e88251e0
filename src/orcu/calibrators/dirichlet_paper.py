"""Dirichlet calibration as the paper's code seems to have fitted it: a random start, few epochs."""

import numpy as np

from orcu import geometry
from orcu.calibrators.base import CALIBRATORS
from orcu.calibrators.dirichlet import LAMBDAS, MUS
from orcu.calibrators.linear_map import LinearMap
from orcu.inputs import FloatArray, IntArray, as_count, as_positive

_BATCH = 128
_BETAS, _SMALL = (0.9, 0.999), 1e-8  # Adam's


@CALIBRATORS.register("dirichlet_paper")
class PaperDirichletCalibration(LinearMap):
    """p = softmax(W log p + b) by a few epochs of Adam from a random W and b; for studies, not for use.

    The released code of MDCA, on which the paper's seems to build, starts a linear layer at random
    (uniform within 1/sqrt(C)), descends for a number of epochs, repeats this for the 13 x 5 penalties of
    Appendix II-B and keeps the one with the least likelihood loss on the fitting rows. `dirichlet` solves the
    same problem to its optimum from the identity; beside it this one tells how much of the paper's row
    "DC" is the fit and not the method.

    Args:
        epochs: over the fitting rows, in batches of 128.
        learning_rate: Adam's.
        random_state: of the start and the batches.

    Raises:
        InputError: if an option is not positive.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z, y = 2 * rng.normal(size=(500, 3)), rng.integers(3, size=500)
        >>> from orcu.metrics import nll
        >>> short = PaperDirichletCalibration(epochs=1).fit(z, y)
        >>> long = PaperDirichletCalibration(epochs=200).fit(z, y)
        >>> [round(nll(logits=one.predict_logits(z), y=y), 2) for one in (short, long)]
        [2.02, 1.1]
    """

    name = "dirichlet_paper"
    weight_repeats = False  # its batches hold rows, whatever they weigh
    on = "log-probabilities"

    def __init__(self, *, epochs: int = 20, learning_rate: float = 1e-3, random_state: int = 0) -> None:
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.random_state = random_state

    def parameters(self, num_classes: int) -> int:
        """C (C + 1)."""
        return num_classes * (num_classes + 1)

    def _is_as_published(self) -> bool:
        return True

    def _fit(self, logits: FloatArray, y: IntArray, weight: FloatArray) -> None:
        epochs = as_count(self.epochs, name="epochs", minimum=1)
        rate = as_positive(self.learning_rate, name="learning_rate")
        rng = np.random.default_rng(self.random_state)
        features, size = self._features(logits), self.num_classes_
        grid = np.array([(penalty, mu) for penalty in LAMBDAS for mu in MUS], dtype=np.float64)
        pull = np.zeros((len(grid), size, size + 1))
        pull[:, :, :-1] = grid[:, 0, None, None] * (1 - np.eye(size)) / (size * (size - 1))
        pull[:, :, -1] = grid[:, 1, None] / size
        start = rng.uniform(-1, 1, size=(size, size + 1)) / np.sqrt(size)
        maps = np.repeat(start[None], len(grid), axis=0)  # all penalties descend side by side
        first, second, step = np.zeros_like(maps), np.zeros_like(maps), 0
        for _ in range(epochs):
            order = rng.permutation(len(y))
            for rows in np.split(order, range(_BATCH, len(y), _BATCH)):
                miss = geometry.probs(features[rows] @ maps.transpose(0, 2, 1))
                miss[:, np.arange(len(rows)), y[rows]] -= 1
                miss *= weight[rows, None] / len(rows)
                slope = miss.transpose(0, 2, 1) @ features[rows] + 2 * pull * maps
                step += 1
                first += (1 - _BETAS[0]) * (slope - first)
                second += (1 - _BETAS[1]) * (slope**2 - second)
                scale = np.sqrt(second / (1 - _BETAS[1] ** step)) + _SMALL
                maps -= rate * first / (1 - _BETAS[0] ** step) / scale
        log_probs = geometry.log_probs(features @ maps.transpose(0, 2, 1))
        best = int(np.argmax(log_probs[:, np.arange(len(y)), y] @ weight))
        self.off_diagonal_, self.bias_penalty_ = map(float, grid[best])
        self._keep(maps[best], True)
