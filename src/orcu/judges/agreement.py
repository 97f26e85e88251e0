"""Inter-rater agreement: quadratic weighted kappa, exact agreement and Krippendorff's alpha."""

from typing import NamedTuple

import numpy as np

from orcu.errors import InputError
from orcu.inputs import FloatArray


class Agreement(NamedTuple):
    """Agreement of raters on items with two or more grades."""

    qwk: float  # quadratic weighted kappa over all pairs of grades of an item
    alpha: float  # Krippendorff's alpha for ordinal data
    n_items: int  # number of items with two or more grades
    exact: float  # share of pairs with equal grades


def agreement(counts: FloatArray, values: FloatArray | None = None) -> Agreement | None:
    """Compute the agreement of raters; ``None`` if no item has two or more grades.

    Args:
        counts: count of each grade for each item, shape (n, C).
        values: numeric values of the grades for the kappa; by default 0, 1, ...

    Example:
        >>> agreement(np.array([[2, 0, 0], [0, 1, 1], [0, 0, 2]]))  # doctest: +ELLIPSIS
        Agreement(qwk=0.793..., alpha=0.777..., n_items=3, exact=0.666...)
    """
    paired = counts[counts.sum(axis=1) >= 2]
    if not len(paired):
        return None
    pairs = coincidences(paired)
    values = np.arange(counts.shape[1], dtype=np.float64) if values is None else values
    squares = (values[:, None] - values) ** 2
    shares = pairs.sum(axis=0) / pairs.sum()
    expected = float((squares * np.outer(shares, shares)).sum())
    kappa = float("nan") if expected == 0 else 1 - float((squares * pairs).sum() / pairs.sum()) / expected
    return Agreement(kappa, krippendorff_alpha(paired), len(paired), float(np.trace(pairs) / pairs.sum()))


def coincidences(counts: FloatArray) -> FloatArray:
    """Coincidence matrix of the grades, shape (C, C); the pairs of an item have a total weight of its grades.

    o_ck = sum_i n_ic (n_ik - [c = k]) / (m_i - 1), with m_i the number of grades of item i.
    """
    totals = counts.sum(axis=1)
    weighted = counts / (totals - 1)[:, None]
    return weighted.T @ counts - np.diag(weighted.sum(axis=0))


def krippendorff_alpha(counts: FloatArray, level_of_measurement: str = "ordinal") -> float:
    """Krippendorff's alpha, 1 - observed / expected disagreement; NaN if all grades are equal.

    With o the `coincidences`, n_c its row sums and n their sum, alpha = 1 - (n - 1) sum o_ck d_ck / sum n_c n_k d_ck.
    The ordinal distance is d_ck = (sum_{c <= g <= k} n_g - (n_c + n_k) / 2)^2.

    Args:
        counts: count of each grade for each item, shape (n, C); items with one grade are ignored.
        level_of_measurement: "nominal", "ordinal" or "interval".

    Raises:
        InputError: if the level of measurement is unknown.

    Example:
        >>> round(krippendorff_alpha(np.array([[2, 0, 0], [0, 1, 1], [0, 0, 2]])), 3)
        0.778
    """
    pairs = coincidences(counts[counts.sum(axis=1) >= 2])
    totals = pairs.sum(axis=0)
    if level_of_measurement == "nominal":
        distance = 1.0 - np.eye(len(totals))
    elif level_of_measurement == "ordinal":
        midranks = np.cumsum(totals) - totals / 2
        distance = (midranks[:, None] - midranks) ** 2
    elif level_of_measurement == "interval":
        values = np.arange(len(totals))
        distance = (values[:, None] - values).astype(np.float64) ** 2
    else:
        raise InputError(f"level_of_measurement: expected nominal, ordinal or interval, got {level_of_measurement!r}.")
    expected = float((np.outer(totals, totals) * distance).sum())
    if expected == 0:
        return float("nan")
    return 1 - (float(totals.sum()) - 1) * float((pairs * distance).sum()) / expected
