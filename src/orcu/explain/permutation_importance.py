"""Permutation importance in RPS: how much the ranked probability score rises if a column is shuffled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import ndtri
from sklearn.utils import check_random_state

from orcu.errors import InputError
from orcu.explain.cells import Classifier, as_rows, column_index, column_names, grade_values, predict_cells
from orcu.inputs import FloatArray, IntArray, as_codes, as_count, as_probs, as_sample_weight
from orcu.metrics.scoring import rps_per_row
from orcu.predictions.labels import canonical_label, label_codes
from orcu.raters.votes import Targets, as_votes, expand_votes, is_votes

_Z = float(ndtri(0.975))


@dataclass(frozen=True)
class PermutationImportance:
    """Rise of the RPS when the values of columns are permuted between the rows, with 95 % intervals.

    Attributes:
        names: names of the columns, or of the groups of columns; the most important first.
        importance: mean rise of the RPS over rows and repeats, (D,).
        std_error: standard error of the importance, (D,); rows and permutations both vary.
        repeats: rise of the RPS in each repeat, (D, R), as ``importances`` of scikit-learn.
        rps: RPS of the rows as they are.
        rows: number of rows.
        clusters: number of clusters of the rows, or ``None``.
    """

    names: tuple[str, ...]
    importance: FloatArray
    std_error: FloatArray
    repeats: FloatArray
    rps: float
    rows: int
    clusters: int | None = None

    @property
    def low(self) -> FloatArray:
        """Lower end of the 95 % interval, (D,)."""
        return self.importance - _Z * self.std_error

    @property
    def high(self) -> FloatArray:
        """Upper end of the 95 % interval, (D,)."""
        return self.importance + _Z * self.std_error

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        columns = (self.names, self.importance.tolist(), self.low.tolist(), self.high.tolist())
        keys = ("name", "importance", "low", "high")
        return {
            "rps": self.rps,
            "rows": self.rows,
            "clusters": self.clusters,
            "columns": [dict(zip(keys, values, strict=True)) for values in zip(*columns, strict=True)],
        }

    def to_arrow(self) -> pa.Table:
        """A pyarrow table with a row for each column."""
        return pa.Table.from_pylist(self.to_dict()["columns"])

    def __str__(self) -> str:
        width = max(map(len, self.names))
        lines = [f"{'':{width}}  importance  95 % interval"]
        lines += [
            f"{name:{width}}  {value:10.4f}  {low:.4f} to {high:.4f}"
            for name, value, low, high in zip(self.names, self.importance, self.low, self.high, strict=True)
        ]
        return "\n".join([*lines, "", f"RPS {self.rps:.4f} on {self.rows:,} rows; importance is its rise."])


def permutation_importance(
    estimator: Classifier,
    X: Any,
    y: Any,
    *,
    columns: Sequence[Any] | Mapping[str, Sequence[Any]] | None = None,
    n_repeats: int = 5,
    sample_weight: Any = None,
    cluster: Any = None,
    feature_names: Sequence[str] | None = None,
    random_state: Any = 0,
) -> PermutationImportance:
    """Mean rise of the ranked probability score (RPS) when a column is permuted, with an interval.

    Use rows that the model was not trained on. Columns that carry the same information share their importance; permute
    them together by a group. The permutations are those of scikit-learn's function of the same name, so a seed gives
    the same result there.

    The interval is normal. The variance is that of the rows' mean rise (of the clusters' with ``cluster``) plus that of
    the mean over repeats.

    Args:
        estimator: fitted classifier with ``predict_proba``.
        X: frame or array.
        y: labels; or votes of several raters, shape (n, C), whose mean RPS is used.
        columns: columns to permute, by name or index; or a dictionary from the name of a group to its columns, which
            are permuted together. By default each column.
        n_repeats: number of permutations, at least 2.
        sample_weight: weight of each row.
        cluster: cluster of each row, such as its patient; intervals then treat clusters as independent.
        feature_names: names of the columns of an array.
        random_state: seed, or numpy's ``RandomState``.

    Raises:
        InputError: if the classes have no order, a column is unknown, or there are fewer than two clusters.

    Example:
        >>> from orcu import OrdinalLogistic
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(400, 2))
        >>> y = np.digitize(2 * X[:, 0] + rng.logistic(size=400), [-1, 1])
        >>> result = permutation_importance(OrdinalLogistic().fit(X, y), X, y)
        >>> result.names, result.importance.round(2).tolist()
        (('x0', 'x1'), [0.38, 0.0])
    """
    grade_values(estimator)  # checks the estimator
    X, n_repeats = as_rows(X), as_count(n_repeats, name="n_repeats", minimum=2)
    n, width = X.shape
    names = column_names(X, feature_names)
    groups = _groups(columns, names)
    classes = tuple(canonical_label(label) for label in np.asarray(estimator.classes_).tolist())
    if is_votes(y):
        labels: Targets = as_votes(y, len(classes), rows=n)
    else:
        labels, _ = label_codes(y, classes, explicit_order=True, rows=n)
    weight = np.ones(n) if sample_weight is None else as_sample_weight(sample_weight, rows=n)
    share = weight / weight.sum()
    units = None if cluster is None else as_codes(cluster, rows=n, name="cluster")
    clusters = None if units is None else int(units.max()) + 1
    if clusters is not None and clusters < 2:
        raise InputError("cluster: every row has the same cluster; intervals need two clusters or more.")
    as_is = np.tile(np.arange(n)[:, None], (1, width))
    base = _rps(as_probs(predict_cells(estimator, X, as_is)), labels)
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max + 1)
    rises = np.stack(
        [
            _rises(estimator, X, labels, base, members, n_repeats, np.random.RandomState(seed))
            for members in groups.values()
        ]
    )  # (groups, repeats, rows)
    importance = np.einsum("grn,n->g", rises, share) / n_repeats
    std_error = np.array([_std_error(part, share, units) for part in rises])
    order = np.argsort(-importance, kind="stable")
    return PermutationImportance(
        tuple(list(groups)[k] for k in order),
        importance[order],
        std_error[order],
        np.einsum("grn,n->gr", rises, share)[order],
        float(share @ base),
        n,
        clusters,
    )


def _groups(columns: Any, names: Sequence[str]) -> dict[str, list[int]]:
    """Indices of the columns of each group."""
    if columns is None:
        columns = names
    if isinstance(columns, str):
        raise InputError(f"columns: expected a list of columns, or a dictionary of groups; got {columns!r}.")
    if not isinstance(columns, Mapping):
        chosen = [column_index(column, names) for column in columns]
        groups = {names[k]: [k] for k in chosen}
    else:
        groups = {str(name): [column_index(column, names) for column in part] for name, part in columns.items()}
    empty = next((name for name, part in groups.items() if not part), None)
    if not groups or empty is not None:
        raise InputError(f"columns: expected at least one column{'' if empty is None else f' in {empty!r}'}, got none.")
    return groups


def _rises(
    estimator: Classifier,
    X: Any,
    labels: Targets,
    base: FloatArray,
    members: Sequence[int],
    n_repeats: int,
    rng: np.random.RandomState,
) -> FloatArray:
    """Rise of each row's RPS in each repeat, (R, n)."""
    n, width = X.shape
    cells = np.tile(np.arange(n)[:, None], (n_repeats, width))
    shuffled, order = np.arange(n), np.arange(n)
    for repeat in range(n_repeats):
        rng.shuffle(shuffled)
        order = order[shuffled]  # scikit-learn shuffles the column of the repeat before
        cells[repeat * n : (repeat + 1) * n, members] = order[:, None]
    probs = as_probs(predict_cells(estimator, X, cells))
    repeated = np.tile(labels, (n_repeats, *(1,) * (labels.ndim - 1)))
    return _rps(probs, repeated).reshape(n_repeats, n) - base


def _rps(probs: FloatArray, labels: Targets) -> FloatArray:
    """RPS of each row, (n,); of votes its mean over the votes of the row."""
    if labels.ndim == 1:
        return rps_per_row(probs, labels)
    case, label, share = expand_votes(labels)
    scores = np.zeros(len(probs))
    np.add.at(scores, case, share * rps_per_row(probs[case], label))
    return scores


def _std_error(rises: FloatArray, share: FloatArray, units: IntArray | None) -> float:
    """Standard error of the mean over rows and repeats: both vary."""
    by_row = rises.mean(axis=0)
    terms = share * (by_row - share @ by_row)
    if units is not None:
        terms = np.bincount(units, terms)
    of_rows = len(terms) / max(1, len(terms) - 1) * float(terms @ terms)
    of_repeats = float(np.var(rises @ share, ddof=1)) / len(rises)
    return float(np.sqrt(of_rows + of_repeats))
