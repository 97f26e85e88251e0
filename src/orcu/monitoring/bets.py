r"""Sums of weighted bets: rows of a cluster together are at most one bet, for any dependence between them.

A row with event y, probability p and weight w multiplies the wealth of the stake lambda by
exp(lambda w y) / (1 - p + p exp(lambda))^w. If the weights of a cluster sum to at most 1, Hölder's inequality gives

.. math:: E \prod_i e^{\lambda w_i y_i} \le \prod_i (E\, e^{\lambda y_i})^{w_i}
    = \prod_i (1 - p_i + p_i e^\lambda)^{w_i}

for any dependence between the rows of the cluster, so the mean of its factor is at most 1. The weights are
w_i = s_i / (m max s): the sample weight s_i of the row relative to the largest, divided by the number m of rows of the
cluster. The logarithm of the wealth depends on the sums of w, w p and w y, as for rows without weights.

A cluster that was seen before is not independent of the past. Its contributions are numbered (*occasions*), and each
occasion has an e-process, in which every cluster occurs once; see `orcu.monitoring.check`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.inputs import SUM_TOLERANCE, FloatArray, IntArray
from orcu.metrics.binning import bin_index
from orcu.metrics.rows import Rows
from orcu.metrics.sums import OUTCOME, VALUE, WEIGHT

UNIT, POPULATION, EVENT, BIN = range(4)  # columns of the keys


@dataclass(frozen=True)
class Bets:
    """Sums of weight, predicted probability and event of each cell, for each population and occasion."""

    populations: tuple[str, ...]  # all rows (""), then the subgroups
    keys: IntArray  # unit (occasion, or cluster before the occasions are known), population, event, bin; shape (n, 4)
    sums: FloatArray  # shape (n, 3)

    def table(self, population: str, occasion: int, num_classes: int, n_bins: int) -> FloatArray:
        """Sums of a population and an occasion, shape (C, 3, B)."""
        table = np.zeros((num_classes, 3, n_bins))
        if population in self.populations:
            index = self.populations.index(population)
            chosen = (self.keys[:, UNIT] == occasion) & (self.keys[:, POPULATION] == index)
            table[self.keys[chosen, EVENT], :, self.keys[chosen, BIN]] = self.sums[chosen]
        return table

    @property
    def occasions(self) -> list[int]:
        """Numbers of the occasions, ascending."""
        return np.unique(self.keys[:, UNIT]).tolist()

    def merge(self, other: "Bets") -> "Bets":
        """Sums of both."""
        names = (*self.populations, *(name for name in other.populations if name not in self.populations))
        keys = other.keys.copy()
        keys[:, POPULATION] = np.array([names.index(name) for name in other.populations], dtype=np.int64)[
            keys[:, POPULATION]
        ]
        return _aggregate(names, np.concatenate([self.keys, keys]), np.concatenate([self.sums, other.sums]))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        cells = [[*key, *values] for key, values in zip(self.keys.tolist(), self.sums.tolist(), strict=True)]
        return {"populations": list(self.populations), "cells": cells}

    @classmethod
    def from_dict(cls, state: Any, num_classes: int, n_bins: int) -> "Bets":
        """Restore bets from `to_dict`; an InputError says what is damaged."""
        names = tuple(state.populations)
        if not names or names[0] != "" or len(set(names)) < len(names):
            raise InputError("bets.populations: expected all rows ('') and different subgroups")
        try:
            cells = np.array(state.cells, dtype=np.float64).reshape(-1, 7)
        except (ValueError, OverflowError):
            raise InputError("bets.cells: expected rows of 7 numbers") from None
        limits = np.array([2**31, len(names), num_classes, n_bins])
        inside = (cells[:, :4] >= 0) & (cells[:, :4] < limits)  # false for NaN
        if not np.isfinite(cells).all() or not inside.all() or (cells[:, :4] % 1).any():
            raise InputError("bets.cells: a cell does not exist")
        keys, sums = cells[:, :4].astype(np.int64), cells[:, 4:]
        if len(np.unique(keys, axis=0)) < len(keys):
            raise InputError("bets.cells: a cell occurs twice")
        check_cells(sums.T, keys[:, BIN], n_bins, name="bets.cells")
        return cls(names, keys, sums)


@dataclass(frozen=True)
class Contribution:
    """Bets of new rows by cluster, before their occasions are known and their weights are scaled."""

    bets: Bets  # the unit is the position in ``clusters``; 0 without clusters
    clusters: tuple[str, ...] | None  # hashed names
    rows: FloatArray  # number of rows of each cluster
    weights: FloatArray  # sum of the sample weights of each cluster
    max_weight: float
    squares: float  # sum of squared weights of independent units: clusters, or rows

    @classmethod
    def from_rows(
        cls, rows: Rows, *, n_bins: int, cluster: Sequence[str] | None = None, subgroup: Sequence[str] | None = None
    ) -> "Contribution":
        """Sums of labelled rows; ``cluster`` and ``subgroup`` have one text per row."""
        count, weight = len(rows), rows.weights
        clusters, unit = (None, np.zeros(count, np.int64)) if cluster is None else _codes(cluster)
        names, group = ((), None) if subgroup is None else _codes(subgroup)
        parts = [(np.zeros(count, np.int64))] + ([] if group is None else [group + 1])
        tables = [(rows.confidence, rows.correct)]
        tables += [(below, rows.y <= k) for k, below in enumerate(rows.cumulative)]
        keys, sums = [], []
        for event, (value, outcome) in enumerate(tables):
            index, events = bin_index(value, n_bins), np.full(count, event)
            for part in parts:
                keys.append(np.stack([unit, part, events, index], axis=1))
                sums.append(np.stack([weight, weight * value, weight * outcome], axis=1))
        bets = _aggregate(("", *(names or ())), np.concatenate(keys), np.concatenate(sums))
        units = 1 if clusters is None else len(clusters)
        totals: FloatArray = np.bincount(unit, weight, units).astype(np.float64)
        squares = float((weight**2).sum() if clusters is None else (totals**2).sum())
        max_weight = float(weight.max(initial=0.0))
        return cls(bets, clusters, np.bincount(unit, minlength=units).astype(np.float64), totals, max_weight, squares)

    def merge(self, other: "Contribution") -> "Contribution":
        """Contribution of the rows of both, which belong to one day."""
        if self.clusters is None or other.clusters is None:
            clusters, index = None, np.zeros(1, np.int64)
            squares = self.squares + other.squares
        else:
            numbers = {name: k for k, name in enumerate(self.clusters)}
            index = np.array([numbers.setdefault(name, len(numbers)) for name in other.clusters], dtype=np.int64)
            clusters = tuple(numbers)
        units = 1 if clusters is None else len(clusters)
        rows, weights = np.zeros(units), np.zeros(units)
        for total, ours, others in ((rows, self.rows, other.rows), (weights, self.weights, other.weights)):
            total[: len(ours)] += ours
            total[index] += others
        if clusters is not None:
            squares = float((weights**2).sum())
        keys = other.bets.keys.copy()
        keys[:, UNIT] = index[keys[:, UNIT]]
        bets = self.bets.merge(Bets(other.bets.populations, keys, other.bets.sums))
        return Contribution(bets, clusters, rows, weights, max(self.max_weight, other.max_weight), squares)

    def assign(self, used: Mapping[str, set[int]]) -> tuple[Bets, dict[str, int] | None]:
        """Bets by occasion, and the occasion of each cluster: the lowest number that is not among the ``used``."""
        scale = np.full(len(self.rows), self.max_weight or 1.0)
        occasion = np.zeros(len(self.rows), np.int64)
        occasions: dict[str, int] | None = None
        if self.clusters is not None:
            scale = scale * np.maximum(self.rows, 1)
            occasions = {}
            for name in self.clusters:
                taken = used.get(name, ())
                occasions[name] = next(k for k in range(len(taken) + 1) if k not in taken)
            occasion = np.array([*occasions.values()], dtype=np.int64)
        keys, sums = self.bets.keys.copy(), self.bets.sums / scale[self.bets.keys[:, UNIT], None]
        keys[:, UNIT] = occasion[keys[:, UNIT]]
        return _aggregate(self.bets.populations, keys, sums), occasions


def check_cells(cells: FloatArray, index: IntArray, n_bins: int, *, name: str) -> None:
    """Raise an InputError if sums of cells, shape (3, ...), are impossible for the bins with this index."""
    count, predicted, observed = cells[WEIGHT], cells[VALUE], cells[OUTCOME]
    slack = SUM_TOLERANCE * np.maximum(count, 1)  # rows may sum to slightly more than 1
    low, high = count * index / n_bins, count * (index + 1) / n_bins
    outside = (predicted < low - slack) | (predicted > high + slack)
    if ((count < 0) | (observed < -slack) | (observed > count + slack) | outside).any():
        raise InputError(f"{name}: sums that no rows have")


def _codes(texts: Sequence[str]) -> tuple[tuple[str, ...], IntArray]:
    """Distinct texts in sorted order, and the position of each row's text."""
    names, codes = np.unique(np.asarray(texts, dtype=str), return_inverse=True)
    return tuple(names.tolist()), codes.reshape(-1).astype(np.int64)


def _aggregate(populations: tuple[str, ...], keys: IntArray, sums: FloatArray) -> Bets:
    """Bets with one row per key, in the order of the keys."""
    shape = tuple((keys.max(axis=0, initial=0) + 1).tolist())
    codes, index = np.unique(np.ravel_multi_index(tuple(keys.T), shape), return_inverse=True)
    totals = np.stack([np.bincount(index, column, len(codes)) for column in sums.T], axis=1).astype(np.float64)
    return Bets(populations, np.stack(np.unravel_index(codes, shape), axis=1).astype(np.int64), totals)
