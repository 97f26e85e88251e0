"""Selection of example rows by a fixed rule."""

import numpy as np

from orcu.inputs import FloatArray, IntArray

RULE = "one row per label, at the median confidence"


def labels_shown(labels: IntArray, count: int) -> list[int]:
    """At most ``count`` of the labels that occur, evenly spaced, including lowest and highest.

    Example:
        >>> labels_shown(np.array([0, 1, 2, 3, 4, 5, 6, 7]), 4)
        [0, 2, 5, 7]
    """
    present = np.unique(labels)
    if len(present) <= count:
        return [int(k) for k in present]
    positions = np.linspace(0, len(present) - 1, count).round().astype(np.intp)
    return [int(present[position]) for position in positions]


def typical_rows(labels: IntArray, confidence: FloatArray, *, among: IntArray, count: int) -> list[int]:
    """One row for each of at most ``count`` labels: the one at the median confidence of the rows ``among``.

    The lower median is used for an even number of rows; ties keep their order.

    Example:
        >>> labels, confidence = np.array([0, 0, 0, 1]), np.array([0.9, 0.5, 0.7, 0.6])
        >>> typical_rows(labels, confidence, among=np.arange(4), count=3)
        [2, 3]
    """
    rows = []
    for label in labels_shown(labels[among], count):
        candidates = among[labels[among] == label]
        order = np.argsort(confidence[candidates], kind="stable")
        rows.append(int(candidates[order[(len(candidates) - 1) // 2]]))
    return rows
