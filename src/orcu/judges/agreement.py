"""How far graders agree: people with each other, which is the ceiling, and judges with people."""

from typing import NamedTuple

import numpy as np

from orcu.errors import InputError
from orcu.inputs import FloatArray

LEVELS = ("nominal", "ordinal", "interval")


class Agreement(NamedTuple):
    """Of graders who graded the same items.

    Attributes:
        qwk: quadratic weighted kappa over all pairs of grades of an item.
        alpha: Krippendorff's, ordinal.
        items: how many have two grades or more.
        exact: the share of pairs that are the same grade.
    """

    qwk: float
    alpha: float
    items: int
    exact: float


def agreement(counts: FloatArray, values: FloatArray | None = None) -> Agreement | None:
    """Of items with two grades or more; ``None`` where there is no such item.

    Args:
        counts: how often each grade was given to each item, shape (n, C).
        values: of the grades, for the kappa; 0, 1, ... if not given.

    Example:
        >>> agreement(np.array([[2, 0, 0], [0, 1, 1], [0, 0, 2]]))  # doctest: +ELLIPSIS
        Agreement(qwk=0.793..., alpha=0.777..., items=3, exact=0.666...)
    """
    several = counts[counts.sum(axis=1) >= 2]
    if not len(several):
        return None
    pairs = coincidences(several)
    grades = np.arange(counts.shape[1], dtype=np.float64) if values is None else values
    squares = (grades[:, None] - grades) ** 2
    shares = pairs.sum(axis=0) / pairs.sum()
    expected = float((squares * np.outer(shares, shares)).sum())
    kappa = float("nan") if expected == 0 else 1 - float((squares * pairs).sum() / pairs.sum()) / expected
    return Agreement(kappa, krippendorff(several), len(several), float(np.trace(pairs) / pairs.sum()))


def coincidences(counts: FloatArray) -> FloatArray:
    """How often two grades meet in an item, each item's pairs weighing as many as it has grades, shape (C, C).

    o_ck = sum_i n_ic (n_ik - [c = k]) / (m_i - 1), with m_i the grades of item i.
    """
    totals = counts.sum(axis=1)
    weighed = counts / (totals - 1)[:, None]
    pairs: FloatArray = weighed.T @ counts - np.diag(weighed.sum(axis=0))
    return pairs


def krippendorff(counts: FloatArray, level: str = "ordinal") -> float:
    """Krippendorff's alpha, 1 - observed over expected disagreement; NaN where all grades are the same.

    With o as in `coincidences`, n_c its row sums and n their sum: alpha = 1 - (n - 1) sum o_ck d_ck / sum n_c n_k d_ck.
    The ordinal distance of two grades is the square of the grades given from one to the other, the two themselves
    counting half: d_ck = (sum_{c <= g <= k} n_g - (n_c + n_k) / 2)^2.

    Args:
        counts: how often each grade was given to each item, shape (n, C); items with a single grade do not count.
        level: "nominal", "ordinal" or "interval".

    Raises:
        InputError: if there is no such level.

    Example:
        >>> round(krippendorff(np.array([[2, 0, 0], [0, 1, 1], [0, 0, 2]])), 3)
        0.778
    """
    several = counts[counts.sum(axis=1) >= 2]
    pairs = coincidences(several)
    totals = pairs.sum(axis=0)
    if level == "nominal":
        distance = 1.0 - np.eye(len(totals))
    elif level == "ordinal":
        middles = np.cumsum(totals) - totals / 2  # what lies between the middles of two grades
        distance = (middles[:, None] - middles) ** 2
    elif level == "interval":
        grades = np.arange(len(totals))
        distance = (grades[:, None] - grades).astype(np.float64) ** 2
    else:
        raise InputError(f"level: expected one of {', '.join(LEVELS)}, got {level!r}.")
    expected = float((np.outer(totals, totals) * distance).sum())
    if expected == 0:
        return float("nan")
    return 1 - (float(totals.sum()) - 1) * float((pairs * distance).sum()) / expected
