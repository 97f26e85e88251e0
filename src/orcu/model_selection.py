"""Rows dealt into folds for cross-fitting: what may train, stop and be predicted by the members of each fold."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.inputs import IntArray

FEWEST_STOPPING = 8  # rows that may stop a training; with fewer it goes on to its end


@dataclass(frozen=True)
class Fold:
    """What the networks of one fold may do with which rows."""

    train: IntArray
    stop: IntArray  # stops the training; empty where rows are too few
    held: IntArray  # is predicted


def deal(
    y: IntArray, folds: int, *, stop: float = 0.1, groups: npt.NDArray[Any] | None = None, seed: int = 0
) -> list[Fold]:
    """Rows dealt into folds, each class evenly; the rows of a group stay together.

    The rows that stop the networks of a fold are part of the next one: so each of them trains the networks of the other
    folds.

    Args:
        y: labels 0..C-1.
        folds: K, at least 2.
        stop: the share of all rows that stops a training, at most that of a fold.
        groups: of each row, such as its subject; or ``None``.
        seed: of the order.

    Raises:
        InputError: if there are fewer rows, or groups, than folds, or ``stop`` is no share.

    Example:
        >>> dealt = deal(np.arange(40) % 4, 5)
        >>> [(len(fold.train), len(fold.stop), len(fold.held)) for fold in dealt][:2]
        [(32, 0, 8), (32, 0, 8)]
        >>> [len(fold.stop) for fold in deal(np.arange(200) % 4, 5)]
        [20, 20, 20, 20, 20]
    """
    if not 0 <= stop < 1:
        raise InputError(f"stop: expected a share of the rows from 0 to below 1, got {stop!r}.")
    if len(y) < folds:
        raise InputError(f"folds: {len(y)} rows cannot be dealt into {folds} folds; use fewer folds, or more rows.")
    fold = stratified_folds(y, folds, seed) if groups is None else _by_group(y, groups, folds, seed)
    order = np.random.default_rng([seed, 1]).permutation(len(y))
    dealt = []
    for k in range(folds):
        following = order[fold[order] == (k + 1) % folds]
        stopping = first_rows(following, min(stop, 1 / folds) * len(y), groups)
        if len(stopping) < FEWEST_STOPPING or len(stopping) == len(y) - (fold == k).sum():
            stopping = stopping[:0]
        train = np.flatnonzero(fold != k)
        dealt.append(Fold(np.setdiff1d(train, stopping), np.sort(stopping), np.flatnonzero(fold == k)))
    return dealt


def stratified_folds(y: IntArray, folds: int, seed: int = 0) -> IntArray:
    """The fold of each row: every class is dealt out evenly, in random order.

    Example:
        >>> np.bincount(stratified_folds(np.array([0] * 10 + [1] * 5), folds=5)).tolist()
        [3, 3, 3, 3, 3]
    """
    order = np.random.default_rng(seed).permutation(len(y))
    fold = np.empty(len(y), dtype=np.int64)
    fold[order[np.argsort(y[order], kind="stable")]] = np.arange(len(y)) % folds
    return fold


def _by_group(y: IntArray, groups: npt.NDArray[Any], folds: int, seed: int) -> IntArray:
    """Groups from the largest on, each to the fold that has the fewest rows of its classes so far."""
    _, member = np.unique(groups, return_inverse=True)
    count = int(member.max()) + 1
    if count < folds:
        raise InputError(
            f"groups: {count} groups cannot be dealt into {folds} folds, since the rows of a group stay together; use "
            f"folds={max(count, 1)} at most."
        )
    classes = np.zeros((count, int(y.max()) + 1))
    np.add.at(classes, (member, y), 1.0)
    order = np.random.default_rng(seed).permutation(count)
    order = order[np.argsort(-classes[order].sum(axis=1), kind="stable")]
    share = 1 / np.maximum(classes.sum(axis=0), 1)
    filled, chosen = np.zeros((folds, classes.shape[1])), np.empty(count, dtype=np.int64)
    for one in order:
        after = ((filled + classes[one]) * share) ** 2
        worse = (after.sum(axis=1) - ((filled * share) ** 2).sum(axis=1)).round(12)
        chosen[one] = int(np.lexsort((filled.sum(axis=1), worse))[0])  # of equals the emptiest: none stays empty
        filled[chosen[one]] += classes[one]
    return chosen[member]


def first_rows(rows: IntArray, wanted: float, groups: npt.NDArray[Any] | None) -> IntArray:
    """The first rows, as many as wanted; of groups whole ones, as long as they fit."""
    if groups is None:
        return rows[: round(wanted)]
    taken: list[IntArray] = []
    for group in dict.fromkeys(groups[rows].tolist()):
        mine = rows[groups[rows] == group]
        if sum(map(len, taken)) + len(mine) > wanted:
            break
        taken.append(mine)
    return np.concatenate(taken) if taken else rows[:0]
