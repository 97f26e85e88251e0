"""Rows worth looking at: typical, worst, and those with several humps."""

from dataclasses import dataclass

import numpy as np

from orcu import geometry
from orcu.evaluation.evaluation import Evaluation
from orcu.evaluation.evidence import spread
from orcu.inputs import IntArray
from orcu.metrics.rows import Rows
from orcu.metrics.scoring import rps_rows

PER_KIND = 3
MOST_ROWS = 200_000  # that are looked through
MANY_CLASSES = 60  # of which a picture shows little, and takes long


@dataclass(frozen=True)
class Example:
    """A row of the sample and why it is shown."""

    row: int
    kind: str
    caption: str


def examples(evaluation: Evaluation) -> list[Example]:
    """At most three rows of each kind, the same for the same predictions; of very many classes one.

    Of very many rows they are chosen among an even part.
    """
    number = spread(len(evaluation.sample), MOST_ROWS)
    rows = Rows.of(evaluation.sample[number])
    per_kind = PER_KIND if rows.num_classes <= MANY_CLASSES else 1
    score = rps_rows(rows.probs, rows.y)
    order = np.argsort(score, kind="stable")
    quartiles = [order[int(q * (len(order) - 1))] for q in ((0.25, 0.5, 0.75) if per_kind > 1 else (0.5,))]
    worst = order[::-1][:per_kind]
    # How deep the valley between two humps is: the largest step the wrong way.
    humps = np.flatnonzero(~geometry.is_unimodal(rows.probs))
    steps = geometry.adjacent_violations(rows.probs[humps], rows.pred[humps]).max(axis=1)
    humps = humps[np.argsort(-steps, kind="stable")][:per_kind]

    def listed(kind: str, picked: IntArray) -> list[Example]:
        unique = dict.fromkeys(int(row) for row in picked)
        return [Example(int(number[row]), kind, f"RPS {score[row]:.2f}") for row in unique]

    return [*listed("typical", np.array(quartiles)), *listed("worst", worst), *listed("several humps", humps)]
