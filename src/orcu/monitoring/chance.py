"""Calibration errors that a perfectly calibrated model would show by chance, from binned sums alone."""

from dataclasses import dataclass

import numpy as np

from orcu.evaluation.tally import Tally
from orcu.inputs import FloatArray
from orcu.metrics.sums import VALUE, WEIGHT

N_DRAWS = 500
QUANTILE = 0.95


@dataclass(frozen=True)
class ChanceLimit:
    """Mean and 95 % quantile of a calibration error under perfect calibration, for the same number of rows."""

    expected: float
    limit: float


NO_LIMIT = ChanceLimit(np.nan, np.nan)


def chance_limit(tables: FloatArray, effective_rows: float, *, random_state: int = 0) -> ChanceLimit:
    r"""Distribution of the mean binned calibration error of some tables if the model is perfectly calibrated.

    .. math:: \frac1K \sum_k \sum_b \frac{n_{kb}}{N} \left| \frac{X_{kb}}{n_{kb}} - \bar p_{kb} \right|,
        \qquad X_{kb} \sim \mathrm{Binomial}(n_{kb}, \bar p_{kb})

    `orcu.evaluate` simulates the labels of single rows, which a log does not have. Here all rows of a bin have its
    mean probability, and the classes are independent. The limits differ by a few percent of their value.

    Args:
        tables: weight, predicted probability and outcome of each bin, shape (K, 3, B).
        effective_rows: number of independent rows; lower than the number of rows with weights or clusters.
        random_state: seed of the simulation.

    Example:
        >>> table = np.array([[[11.0], [8.8], [10.0]]])  # eleven rows with a probability of 0.8
        >>> limit = chance_limit(table, 11)
        >>> round(limit.expected, 2), round(limit.limit, 2)
        (0.1, 0.25)
    """
    weight = tables[:, WEIGHT]
    total = float(weight[0].sum())
    if not total > 0 or not effective_rows > 0:
        return NO_LIMIT
    table, column = np.nonzero(weight > 0)
    share = weight[table, column] / total
    mean = np.clip(tables[table, VALUE, column] / weight[table, column], 0, 1)
    count = np.maximum(np.rint(share * effective_rows), 1).astype(np.int64)
    rng = np.random.default_rng(random_state)
    gaps = share * np.abs(rng.binomial(count, mean, size=(N_DRAWS, len(count))) / count - mean)
    errors = gaps.sum(axis=1) / len(tables)
    return ChanceLimit(float(errors.mean()), float(np.quantile(errors, QUANTILE)))


def tally_limits(tally: Tally, effective_rows: float) -> tuple[ChanceLimit, ChanceLimit]:
    """Limits of the expected and the class-wise calibration error of a tally."""
    if not tally.rows:
        return NO_LIMIT, NO_LIMIT
    sums = tally.sums()
    classes = sums.classes[: 1 if tally.num_classes == 2 else None]  # the errors of two classes are equal
    return chance_limit(sums.top[None], effective_rows), chance_limit(classes, effective_rows)
