"""Example rows of a report: typical, worst, and multimodal predictions."""

import numpy as np

from orcu import geometry
from orcu.evaluation.evaluation import Evaluation
from orcu.evaluation.statistics import subsample_index
from orcu.metrics.rows import Rows
from orcu.metrics.scoring import rps_per_row
from orcu.raters.votes import label_shares

PER_KIND = 3
MAX_ROWS = 200_000  # rows that are searched
MANY_CLASSES = 60  # a figure of more classes shows little and takes long
KINDS = ("typical", "worst", "more than one mode")


def examples(evaluation: Evaluation) -> list[tuple[int, str, float]]:
    """Row, kind and RPS of at most three rows of each kind, or one for very many classes."""
    number = subsample_index(len(evaluation.sample), MAX_ROWS)
    rows = Rows.from_predictions(evaluation.sample[number])
    per_kind = PER_KIND if rows.num_classes <= MANY_CLASSES else 1
    score = rps_per_row(rows.probs, rows.y)
    if rows.case is not None and evaluation.sample.votes is not None:  # means over the votes of each case
        shares = label_shares(evaluation.sample.votes[number])[rows.case, rows.y]
        score = np.asarray(np.bincount(rows.case, weights=shares * score), dtype=np.float64)
        rows = rows[rows.first_rows]
    order = np.argsort(score, kind="stable")
    quartiles = [order[int(q * (len(order) - 1))] for q in ((0.25, 0.5, 0.75) if per_kind > 1 else (0.5,))]
    multimodal = np.flatnonzero(~geometry.is_unimodal(rows.probs))
    # Depth of the valley between two modes: the largest step in the wrong direction.
    steps = geometry.adjacent_violations(rows.probs[multimodal], rows.pred[multimodal]).max(axis=1)
    deepest = multimodal[np.argsort(-steps, kind="stable")][:per_kind]
    return [
        (int(number[row]), kind, float(score[row]))
        for kind, chosen in zip(KINDS, (np.array(quartiles), order[::-1][:per_kind], deepest), strict=True)
        for row in dict.fromkeys(chosen.tolist())
    ]
