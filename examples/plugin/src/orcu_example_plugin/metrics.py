"""Share of decisions that are far off."""

from typing import Any

import numpy as np

from orcu.metrics.base import metric, metric_function
from orcu.metrics.sums import Sums, decision_sums


@metric_function(decision_sums)
@metric("far_off", "Two classes off or more", family="decision", better="lower", percent=True)
def far_off(sums: Sums) -> Any:
    """Share of decisions that are two classes off or more.

    Example:
        >>> far_off(y=[0, 1, 2, 2], pred=[1, 1, 2, 0])
        0.25
    """
    k = np.arange(sums.confusion.shape[-1])  # (..., label, decision)
    return (sums.confusion * (np.abs(k - k[:, None]) > 1)).sum((-2, -1)) / sums.total
