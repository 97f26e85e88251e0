"""What few rows cannot tell: a prior on sharpness, a pull of all other parameters to it, a share for every class.

Each is worth a fixed number of rows, so it decides on ten rows and is gone on ten thousand. ``benchmarks/few_rows.py``
shows what they give; the strengths were chosen there.
"""

import numpy as np

from orcu import geometry
from orcu.errors import InputError
from orcu.inputs import FloatArray

# How far log(1/T) goes for one unit of log-likelihood: predictions sharper than the model's claim more than it does,
# so it takes more rows to believe in them than in flatter ones.
SHARPER, FLATTER = 0.2, 0.35
FEWEST = 40  # parameters that a map counts for at least


def sharpness_prior(log_sharpness: float) -> tuple[float, float, float]:
    """The negative log prior of u = log(1/T) with its first and second derivative.

    sqrt(1 + (u/t)^2) - 1 with t = 0.2 above 0 and 0.35 below: a parabola near the model as it is, and straight further
    out, so that rows that clearly ask for another temperature get it.

    Example:
        >>> [round(value, 3) for value in sharpness_prior(0.2)]
        [0.414, 3.536, 8.839]
    """
    width = SHARPER if log_sharpness > 0 else FLATTER
    root = float(np.sqrt(1 + (log_sharpness / width) ** 2))
    return root - 1, log_sharpness / (width**2 * root), 1 / (width**2 * root**3)


def strength(shrinkage: float, parameters: int) -> float:
    """How many rows the pull of a map's parameters is worth, from how many each of them is.

    Example:
        >>> strength(0.25, parameters=56)
        14.0
    """
    return shrinkage * max(parameters, FEWEST)


def effective_rows(weight: FloatArray) -> float:
    """How many rows of equal weight tell as much as these, (sum w)^2 / sum w^2 (Kish).

    Example:
        >>> effective_rows(np.ones(3)), round(effective_rows(np.array([8.0, 1.0, 1.0])), 2)
        (3.0, 1.52)
    """
    return float(weight.sum() ** 2 / (weight @ weight))


def share_for_all(rows: float, num_classes: int) -> float:
    """The share of every prediction that is spread evenly over all classes, 1 / (2 (n + C)).

    A class that never came true among n rows may still come true in the next: no calibrator fitted on n rows says less
    than 1 / (2 C (n + C)) of any class. Unimodal rows stay unimodal, with the same mode.

    Example:
        >>> share_for_all(rows=95, num_classes=5)
        0.005
    """
    return 0.5 / (rows + num_classes)


def softened(logits: FloatArray, share: float) -> FloatArray:
    """log((1 - share) softmax(z) + share / C): a share of every distribution spread evenly over all classes.

    Example:
        >>> np.exp(softened(np.array([100.0, 0.0]), share=0.1)).round(3).tolist()
        [0.95, 0.05]
    """
    own = geometry.log_probs(logits) + np.log1p(-share)
    mixed: FloatArray = np.logaddexp(own, np.log(share / own.shape[-1]))
    return mixed


def as_shrinkage(value: float) -> float:
    """An option that is 0 (plain likelihood) or above.

    Raises:
        InputError: if it is anything else.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise InputError(f"shrinkage: expected a number of 0 or more, got {value!r}.")
    return float(value)
