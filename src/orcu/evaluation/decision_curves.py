"""Decision curves of an evaluation: net benefit with intervals, and paired differences between models."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from orcu.inputs import FloatArray
from orcu.metrics.net_benefit import POINTS, row_benefits, treat_all
from orcu.metrics.rows import Rows
from orcu.resampling import Estimate, intervals, resampled_sums

MAX_CLASSES = 25  # of more classes, no decision curves are computed


@dataclass(frozen=True)
class DecisionCurve:
    """Net benefit of acting on "class k or above" over threshold probabilities; treating no row has net benefit 0.

    ``differences`` are those to other models on the same rows, by their name.
    """

    event: str
    threshold_probability: FloatArray  # (m,)
    net_benefit: list[Estimate]
    treat_all: FloatArray  # (m,)
    differences: dict[str, list[Estimate]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """All numbers by name, for JSON."""
        return {
            "event": self.event,
            "threshold_probability": self.threshold_probability.tolist(),
            "net_benefit": self.net_benefit,
            "treat_all": self.treat_all.tolist(),
            "differences": self.differences,
        }


def decision_curves(
    rows: Rows,
    unit: npt.NDArray[np.intp],
    units: int,
    events: Iterable[str],
    *,
    n_resamples: int,
    factor: float,
    random_state: int,
    others: dict[str, Rows] | None = None,
) -> list[DecisionCurve]:
    """Decision curve of each threshold; ``others`` are the same rows of other models. Empty for very many classes.

    The net benefit is a mean over rows, so each resample has its exact value.
    """
    if rows.num_classes > MAX_CLASSES:
        return []

    def estimates(benefits: Iterable[FloatArray]) -> list[Estimate]:
        weights = rows.weights
        columns = [np.bincount(unit, weights=weights * benefit, minlength=units) for benefit in benefits]
        sums = np.stack([*columns, np.bincount(unit, weights=weights, minlength=units)], axis=1)
        total, draws = sums.sum(axis=0), None
        if n_resamples:
            resampled = resampled_sums(sums, n_resamples, random_state)
            draws = resampled[:, :-1] / resampled[:, -1:]
        values = total[:-1] / total[-1]
        ends = intervals(values, draws, factor)
        return [Estimate(float(value), *pair) for value, pair in zip(values, ends, strict=True)]

    own = estimates(row_benefits(rows))
    differences = {
        name: estimates(first - second for first, second in zip(row_benefits(rows), row_benefits(other), strict=True))
        for name, other in (others or {}).items()
    }
    parts = [slice(k * len(POINTS), (k + 1) * len(POINTS)) for k in range(rows.num_classes - 1)]
    return [
        DecisionCurve(event, POINTS, own[part], all_rows, {name: values[part] for name, values in differences.items()})
        for event, part, all_rows in zip(events, parts, treat_all(rows), strict=True)
    ]
