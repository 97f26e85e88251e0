"""Rows to show: chosen by a rule that can be stated, never by hand."""

import numpy as np

from orcu.inputs import FloatArray, IntArray

RULE = "one per label, at the median confidence"


def labels_shown(labels: IntArray, count: int) -> list[int]:
    """At most ``count`` of the labels that occur, evenly over their order, the ends included.

    Example:
        >>> labels_shown(np.array([0, 1, 2, 3, 4, 5, 6, 7]), 4)
        [0, 2, 5, 7]
    """
    present = np.unique(labels)
    if len(present) <= count:
        return [int(k) for k in present]
    places = np.linspace(0, len(present) - 1, count).round().astype(np.intp)
    return [int(present[place]) for place in places]


def typical_rows(labels: IntArray, confidence: FloatArray, *, among: IntArray, count: int) -> list[int]:
    """One row for each of the labels shown: of the rows ``among``, the one at the median confidence.

    Of an even number the lower middle one is taken; rows of equal confidence keep their order.

    Example:
        >>> labels, confidence = np.array([0, 0, 0, 1]), np.array([0.9, 0.5, 0.7, 0.6])
        >>> typical_rows(labels, confidence, among=np.arange(4), count=3)
        [2, 3]
    """
    rows = []
    for label in labels_shown(labels[among], count):
        mine = among[labels[among] == label]
        order = np.argsort(confidence[mine], kind="stable")
        rows.append(int(mine[order[(len(mine) - 1) // 2]]))
    return rows
