"""The sums from which every metric follows.

A metric is a function of `Tables`: weighted counts and sums over rows. Sums can be added, so one formula serves a
whole file, a group, a bootstrap resample (rows counted several times), a simulated outcome and partial states from
other machines. The leading axes of a table are whatever is judged side by side.
"""

import functools
import operator
from collections.abc import Iterable
from dataclasses import dataclass

from orcu.inputs import FloatArray

WEIGHT, VALUE, OUTCOME = range(3)  # the second-last axis of a binned table


@dataclass(frozen=True)
class Tables:
    """Sums over rows, each with the same leading axes (...).

    Binned tables hold weight, value and outcome (3) per bin (B): of the top label, of each class's
    probability, of each cumulative probability, and of each class over groups of equal count.
    """

    top: FloatArray  # (..., 3, B)
    classes: FloatArray  # (..., C, 3, B)
    thresholds: FloatArray  # (..., C-1, 3, B)
    adaptive: FloatArray  # (..., C, 3, B); zero where the groups were not given
    confusion: FloatArray  # (..., C, C): label, decision
    threshold_squares: FloatArray  # (..., C-1): sum of (F(k) - 1[y <= k])^2
    scores: dict[str, FloatArray]  # (...) each: sums of the registered row scores

    @property
    def total(self) -> FloatArray:
        """N, the number or weight of the rows."""
        total: FloatArray = self.confusion.sum((-2, -1))
        return total

    def mean(self, score: str) -> FloatArray:
        """The average of a row score."""
        return self.scores[score] / self.total


def summed(terms: Iterable[FloatArray]) -> FloatArray:
    """The sum of arrays, one after the other: a row's result does not depend on the rows beside it.

    ``numpy.sum`` orders its additions by the shape of the whole array, which would break the
    promise of `Tally` in the last bit.
    """
    return functools.reduce(operator.add, terms)
