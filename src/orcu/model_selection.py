"""Splits of rows: cross-fitting folds, train/calibration splits, and out-of-fold predictions of any estimator."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray
from orcu.predictions.labels import check_class_order

MIN_EARLY_STOPPING_ROWS = 8  # with fewer rows, training runs to its last epoch
MAX_EARLY_STOPPING_ROWS = 5_000  # more rows are worth more in the training
SPLIT_NAMES = ("train", "validation", "calibration", "sets")
_UNTESTED = -1  # fold number of rows that are in no test fold
_GOLDEN_RATIO = 0.6180339887498949


@dataclass(frozen=True)
class Fold:
    """Row numbers of one cross-fitting fold."""

    train: IntArray
    early_stopping: IntArray  # stops the training; empty where rows are too few
    test: IntArray  # predicted out of fold
    number: int = 0

    @property
    def all_training(self) -> IntArray:
        """All rows that the fold may train on: the training and the early-stopping rows, sorted."""
        return np.sort(np.concatenate([self.train, self.early_stopping]))


def cross_fit_folds(
    y: IntArray,
    cv: Any = 5,
    *,
    early_stopping: float = 0.1,
    groups: npt.NDArray[Any] | None = None,
    random_state: int = 0,
) -> list[Fold]:
    """Split rows into stratified folds for cross-fitting; the rows of a group stay in one fold.

    The early-stopping rows of a fold are part of the next fold's test rows, so each of them trains the models of the
    other folds.

    A single fold is a held-out part: its test rows are some of the rows, and the others train.

    Args:
        y: labels 0..C-1.
        cv: number of folds, at least 2; or a scikit-learn splitter, or a list of (training rows, test rows), with
            test rows that partition the rows, or with one split.
        early_stopping: share of all rows that stops a training, at most that of a fold.
        groups: group of each row, such as its patient, or ``None``.
        random_state: seed of the row order.

    Raises:
        InputError: if there are fewer rows or groups than folds, ``early_stopping`` is not a share, or several test
            folds of a splitter do not partition the rows.

    Example:
        >>> folds = cross_fit_folds(np.arange(40) % 4, 5)
        >>> [(len(fold.train), len(fold.early_stopping), len(fold.test)) for fold in folds][:2]
        [(32, 0, 8), (32, 0, 8)]
        >>> [len(fold.early_stopping) for fold in cross_fit_folds(np.arange(200) % 4, 5)]
        [20, 20, 20, 20, 20]
    """
    if not 0 <= early_stopping < 1:
        raise InputError(f"early_stopping: expected a share of the rows from 0 to below 1, got {early_stopping!r}.")
    test_fold = _test_folds(y, cv, groups, random_state)
    n_folds = int(test_fold.max()) + 1
    order = np.random.default_rng([random_state, 1]).permutation(len(y))
    folds = []
    for k in range(n_folds):
        next_fold = order[test_fold[order] == ((k + 1) % n_folds if n_folds > 1 else _UNTESTED)]
        largest = len(y) / n_folds if n_folds > 1 else len(y) / 2
        stopping = first_rows(next_fold, min(early_stopping * len(y), largest, MAX_EARLY_STOPPING_ROWS), groups)
        if len(stopping) < MIN_EARLY_STOPPING_ROWS or len(stopping) == len(y) - (test_fold == k).sum():
            stopping = stopping[:0]
        train = np.flatnonzero(test_fold != k)
        folds.append(Fold(np.setdiff1d(train, stopping), np.sort(stopping), np.flatnonzero(test_fold == k), k))
    return folds


def _test_folds(y: IntArray, cv: Any, groups: npt.NDArray[Any] | None, random_state: int) -> IntArray:
    """Fold number of each row, (n,)."""
    if isinstance(cv, (int, np.integer)):
        if len(y) < cv:
            raise InputError(f"cv: {len(y)} rows cannot be split into {cv} folds; use fewer folds or more rows.")
        return (
            stratified_folds(y, int(cv), random_state)
            if groups is None
            else _grouped_folds(y, groups, int(cv), random_state)
        )
    splits: Iterable[Any] = cv.split(np.zeros((len(y), 1)), y, groups) if hasattr(cv, "split") else cv
    test_fold = np.full(len(y), _UNTESTED, dtype=np.int64)
    for number, (_, test) in enumerate(splits):
        if (test_fold[test] != _UNTESTED).any():
            raise InputError("cv: a row is in two test folds; use a splitter whose test folds partition the rows.")
        test_fold[test] = number
    n_untested = int((test_fold == _UNTESTED).sum())
    if n_untested and test_fold.max() > 0:
        row = int(np.argmax(test_fold == _UNTESTED))
        raise InputError(f"cv: row {row} is in no test fold; use a splitter whose test folds partition the rows.")
    if n_untested in (0, len(y)) and test_fold.max() < 1:
        raise InputError("cv: the splitter makes one fold without training rows, or without test rows.")
    if groups is not None:
        _, group_index = np.unique(groups, return_inverse=True)
        if len(np.unique(np.stack([group_index, test_fold]), axis=1).T) > group_index.max() + 1:
            raise InputError("cv: the splitter puts rows of a group into several test folds; use GroupKFold.")
    return test_fold


def hold_out(
    y: IntArray, rows: int, *, groups: npt.NDArray[Any] | None = None, random_state: int = 0
) -> list[tuple[IntArray, IntArray]]:
    """One stratified split into training rows and about ``rows`` test rows, as ``cv`` of `cross_fit_folds`.

    Example:
        >>> ((train, test),) = hold_out(np.arange(1000) % 4, 200)
        >>> len(train), len(test), np.bincount(test % 4).tolist()
        (800, 200, [50, 50, 50, 50])
    """
    test = _test_folds(y, max(2, round(len(y) / rows)), groups, random_state) == 0
    return [(np.flatnonzero(~test), np.flatnonzero(test))]


def is_splitter(cv: Any) -> bool:
    """Whether ``cv`` is a scikit-learn splitter rather than a number of folds."""
    return hasattr(cv, "split") and not isinstance(cv, str)


def fold_numbers(folds: Iterable[Fold], rows: int) -> IntArray:
    """The fold whose test rows contain each row, (n,); -1 for rows that are in none."""
    numbers = np.full(rows, _UNTESTED, dtype=np.int64)
    for number, fold in enumerate(folds):
        numbers[fold.test] = number
    return numbers


def stratified_folds(y: IntArray, n_splits: int, random_state: int = 0) -> IntArray:
    """Assign a fold number to each row: every class is spread evenly over the folds, in random order.

    scikit-learn's StratifiedKFold may give folds whose sizes differ by more than one row; these do not.

    Example:
        >>> np.bincount(stratified_folds(np.array([0] * 10 + [1] * 5), n_splits=5)).tolist()
        [3, 3, 3, 3, 3]
    """
    order = np.random.default_rng(random_state).permutation(len(y))
    fold = np.empty(len(y), dtype=np.int64)
    fold[order[np.argsort(y[order], kind="stable")]] = np.arange(len(y)) % n_splits
    return fold


def _grouped_folds(y: IntArray, groups: npt.NDArray[Any], n_splits: int, random_state: int) -> IntArray:
    """Assign whole groups to folds, the largest first, each to the fold with the fewest rows of its classes."""
    _, group_index = np.unique(groups, return_inverse=True)
    n_groups = int(group_index.max()) + 1
    if n_groups < n_splits:
        raise InputError(
            f"groups: {n_groups} groups cannot be split into {n_splits} folds, because the rows of a group stay "
            f"together; use cv={max(n_groups, 1)} or fewer."
        )
    class_counts = np.zeros((n_groups, int(y.max()) + 1))
    np.add.at(class_counts, (group_index, y), 1.0)
    order = np.random.default_rng(random_state).permutation(n_groups)
    order = order[np.argsort(-class_counts[order].sum(axis=1), kind="stable")]
    share = 1 / np.maximum(class_counts.sum(axis=0), 1)
    fold_counts, fold_of_group = np.zeros((n_splits, class_counts.shape[1])), np.empty(n_groups, dtype=np.int64)
    for group in order:
        after = ((fold_counts + class_counts[group]) * share) ** 2
        increase = (after.sum(axis=1) - ((fold_counts * share) ** 2).sum(axis=1)).round(12)
        # Ties go to the fold with the fewest rows, so that no fold stays empty.
        fold_of_group[group] = int(np.lexsort((fold_counts.sum(axis=1), increase))[0])
        fold_counts[fold_of_group[group]] += class_counts[group]
    return fold_of_group[group_index]


def first_rows(rows: IntArray, count: float, groups: npt.NDArray[Any] | None) -> IntArray:
    """The first ``count`` rows; with groups, as many whole groups as fit."""
    if groups is None:
        return rows[: round(count)]
    parts: list[IntArray] = []
    for group in dict.fromkeys(groups[rows].tolist()):
        group_rows = rows[groups[rows] == group]
        if sum(map(len, parts)) + len(group_rows) > count:
            break
        parts.append(group_rows)
    return np.concatenate(parts) if parts else rows[:0]


def train_calibration_split(
    y: IntArray, *, validation: float, calibration: float, groups: npt.NDArray[Any] | None = None, random_state: int
) -> dict[str, IntArray]:
    """Split rows into train, validation, calibration and sets, stratified; a class of one or two rows trains.

    Args:
        y: labels 0..C-1.
        validation: share of the rows for early stopping and choosing the scale.
        calibration: share that fits the calibrator, and as much again for the prediction sets.
        groups: group of each row, such as its patient, or ``None``; the rows of a group stay together.
        random_state: seed of the row order.

    Raises:
        InputError: if a share is not from 0 to below 0.5.

    Example:
        >>> splits = train_calibration_split(
        ...     np.repeat([0, 1], 50), validation=0.1, calibration=0.2, random_state=0
        ... )
        >>> {name: len(rows) for name, rows in splits.items()}
        {'train': 50, 'validation': 10, 'calibration': 20, 'sets': 20}
    """
    check_share(validation, "validation_fraction")
    check_share(calibration, "calibration_fraction")
    if validation + 2 * calibration > 0.8:
        raise InputError(
            f"calibration_fraction: {validation:g} + 2 x {calibration:g} of the rows would not train; at least a "
            "fifth must. Use a smaller share."
        )
    if groups is not None:
        _, first_row, group_index = np.unique(groups, return_index=True, return_inverse=True)
        # One row stands for its group.
        parts = train_calibration_split(
            y[first_row], validation=validation, calibration=calibration, random_state=random_state
        )
        return {name: np.flatnonzero(np.isin(group_index, members)) for name, members in parts.items()}
    order = np.random.default_rng(random_state).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    # Multiples of the golden ratio spread each split evenly over the sorted rows, and so over the classes.
    rank = np.argsort(np.argsort((np.arange(len(y)) * _GOLDEN_RATIO) % 1.0))
    splits, start = {}, 0
    for name, share in zip(SPLIT_NAMES[1:], (validation, calibration, calibration), strict=True):
        stop = start + round(share * len(y))
        splits[name] = np.sort(order[(rank >= start) & (rank < stop)])
        start = stop
    train = np.sort(order[rank >= start])
    for k in set(np.unique(y).tolist()) - set(y[train].tolist()):
        first = int(np.flatnonzero(y == k)[0])
        train = np.sort(np.append(train, first))
        splits = {name: rows[rows != first] for name, rows in splits.items()}
    return {"train": train, **splits}


def check_share(share: float, name: str) -> None:
    """Raise `InputError` unless a share of the rows is from 0 to below 0.5."""
    if not 0 <= share < 0.5:
        raise InputError(f"{name}: expected a share from 0 to below 0.5, got {share!r}.")


def cross_val_predict(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    groups: Any = None,
    method: Literal["predict_proba", "predict", "predict_logits"] = "predict_proba",
) -> npt.NDArray[Any]:
    """Out-of-fold predictions of an ordinal estimator.

    scikit-learn's function of this name encodes labels alphabetically before it fits, so an estimator that is given
    the order of class names cannot be used with it. This function passes the labels unchanged; columns are in the
    order of the estimator's ``classes_``.

    Args:
        estimator: `OrdinalClassifier`, `CalibratedOrdinal`, or another classifier with ``classes_``.
        X: rows.
        y: labels.
        cv: number of folds, stratified by the labels, or a scikit-learn splitter.
        groups: group of each row, for splitters that keep groups together.
        method: method of the estimator to call.

    Returns:
        Shape (n, C) for probabilities and logits, (n,) for predicted labels.

    Raises:
        InputError: if a row is in no test fold or in several, the training rows of a fold lack a class, or the
            estimator has sorted class names alphabetically.

    Example:
        >>> from orcu import CalibratedOrdinal
        >>> from sklearn.linear_model import LogisticRegression
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 1))
        >>> y = np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
        >>> model = CalibratedOrdinal(LogisticRegression(), classes=["low", "mid", "high"])
        >>> cross_val_predict(model, X, y, cv=3).shape
        (300, 3)
    """
    from sklearn.base import clone
    from sklearn.model_selection import check_cv

    labels = np.asarray(y)
    splits = list(check_cv(cv, labels, classifier=True).split(X, labels, groups))
    tested = np.concatenate([test for _, test in splits])
    if not np.array_equal(np.sort(tested), np.arange(len(labels))):
        raise InputError("cv: every row must be in exactly one test fold; use a splitter that partitions the rows.")
    parts, classes = [], None
    for train, test in splits:
        fitted = clone(estimator).fit(take_rows(X, train), take_rows(y, train))
        if classes is not None and list(fitted.classes_) != classes:
            raise InputError(
                "y: the folds do not have the same classes, because some classes have few rows; use fewer folds, or "
                "give the estimator classes=[lowest, ..., highest]."
            )
        check_class_order(fitted)
        classes = list(fitted.classes_)
        parts.append(getattr(fitted, method)(take_rows(X, test)))
    predictions = np.concatenate(parts)
    out: FloatArray = np.empty_like(predictions)
    out[tested] = predictions
    return out


def take_rows(values: Any, rows: npt.NDArray[np.intp]) -> Any:
    """Some rows of an array, a frame, a list, or a dictionary of columns."""
    if isinstance(values, dict):
        return {name: column[rows] for name, column in values.items()}
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    return (values if hasattr(values, "shape") else np.asarray(values))[rows]


MIN_COPIES = 0.01  # share of the rows; fewer copies hardly change what out-of-fold predictions say
MIN_DISTINCT_ROWS = 20  # with fewer, equal rows are levels rather than copies, and folds could not keep them together
MIN_COPY_SHARE = 0.5  # share of the rows with an equal row whose label the equality explains
MAX_NATURAL_AGREEMENT = 0.98  # equal rows of a table of few levels may agree always, without being copies


def copy_groups(table: Any, y: IntArray) -> IntArray | None:
    """Group numbers of rows that are copies of one another, or ``None`` if fewer than 1 % of the rows are copies.

    Copies (rows entered twice, oversampled classes, bootstrap samples) must stay in one fold, because a model that has
    seen a copy is not evaluated on new rows. Equal rows of a table of few levels are usually different cases, and stay
    apart. Two rules find copies:

    1. The table, or a class, was repeated k times: the number of rows with the same values and label is always a
       multiple of k > 1, for 20 different rows or more. Then k of these rows are one group, so that cases that were
       equal before the repetition stay apart.
    2. Labels of equal rows agree far more often than those of rows that differ in one column only, or, where there are
       few such rows, than those of random rows: (a - b) / (1 - b) > 1/2 for the agreement a of equal rows and b of the
       others. Then all equal rows are one group.

    Rows of a table of few levels that were drawn at random (oversampled or bootstrap rows) look like equal cases and
    are not found. Remove such copies before the training.

    Args:
        table: columns by name, or a matrix with one row per sample.
        y: labels 0..C-1, (n,).

    Returns:
        A number for each row, (n,), equal for copies.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(50, 2)), rng.integers(3, size=50)
        >>> copy_groups(x, y) is None
        True
        >>> int(copy_groups(np.tile(x, (2, 1)), np.tile(y, 2)).max()) + 1
        50
    """
    columns = list(table.values()) if isinstance(table, dict) else list(np.reshape(table, (len(y), -1)).T)
    rng = np.random.default_rng(0)
    hashes = []
    for values in columns:
        levels = _levels(values)
        hashes.append(rng.integers(2**63, size=int(levels.max()) + 1).astype(np.uint64)[levels])
    repeated = _repeated_rows(_row_hashes(hashes), y)
    if repeated is None:
        return _agreeing_rows(hashes, y)
    first_row = np.unique(repeated, return_index=True)[1]
    groups = _agreeing_rows([column[first_row] for column in hashes], y[first_row])
    return repeated if groups is None else groups[repeated]


def n_copies(copies: IntArray) -> int:
    """Number of rows that have a copy, from the result of `copy_groups`.

    Example:
        >>> n_copies(np.array([0, 1, 1, 2, 2, 2]))
        5
    """
    return int(np.count_nonzero(np.bincount(copies)[copies] > 1))


def _row_hashes(hashes: list[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    return np.asarray(np.sum(hashes, axis=0, dtype=np.uint64))


def _repeated_rows(total: npt.NDArray[np.uint64], y: IntArray) -> IntArray | None:
    """Groups of k rows of the same values and label where a class or the table was repeated k times, or ``None``."""
    (_, row), n_classes = np.unique(total, return_inverse=True), int(y.max()) + 1
    pairs, pair, counts = np.unique(row * n_classes + y, return_inverse=True, return_counts=True)
    label = pairs % n_classes
    if len(pairs) < MIN_DISTINCT_ROWS:
        return None
    factor = np.full(n_classes, np.gcd.reduce(counts))
    for k in range(n_classes):
        if np.count_nonzero(label == k) >= MIN_DISTINCT_ROWS:
            factor[k] = np.gcd.reduce(counts[label == k])
    if (factor == 1).all():
        return None
    order = np.argsort(pair, kind="stable")
    rank = np.empty(len(y), dtype=np.int64)
    rank[order] = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.unique(np.stack([pair, rank // factor[y]]), axis=1, return_inverse=True)[1].ravel()


def _agreeing_rows(hashes: list[npt.NDArray[np.uint64]], y: IntArray) -> IntArray | None:
    """Groups of equal rows where their labels agree far more often than those of other rows, or ``None``."""
    total = _row_hashes(hashes)
    group, size, same = _partners(total, y)
    if not size.any() or np.count_nonzero(size) < MIN_COPIES * len(y) or int(group.max()) + 1 < MIN_DISTINCT_ROWS:
        return None
    agreement = float(np.mean(same[size > 0] / size[size > 0]))
    near_same, near_size = np.zeros(len(y)), np.zeros(len(y))
    with_near = []  # rows that some other row equals in all columns but one, for each column
    for column in hashes if len(hashes) > 1 else []:
        _, others, others_same = _partners(np.asarray(total - column), y)
        near_size, near_same = near_size + others - size, near_same + others_same - same
        with_near.append(np.count_nonzero(others - size))
    # The median: without a constant column no rows become equal, without a single column of many levels most do.
    few_levels = len(with_near) > 0 and sorted(with_near)[(len(with_near) - 1) // 2] >= np.count_nonzero(size)
    if few_levels:
        if agreement > MAX_NATURAL_AGREEMENT:
            return None
        expected = float(np.mean(near_same[near_size > 0] / near_size[near_size > 0]))
    else:
        expected = float(((np.bincount(y) / len(y)) ** 2).sum())
    return group if agreement - expected > MIN_COPY_SHARE * (1 - expected) else None


def _levels(values: Any) -> IntArray:
    """Number of each value among the distinct values of a column; missing values are equal."""
    array = np.asarray(values)
    if array.dtype.kind in "OUS":
        numbers: dict[Any, int] = {}
        return np.array([numbers.setdefault(None if v is None else str(v), len(numbers)) for v in array.tolist()])
    return np.unique(array, return_inverse=True)[1].ravel()


def _partners(hashes: npt.NDArray[np.uint64], y: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Number of the group of rows with an equal hash; number of other rows in it, and of those with the same label."""
    _, group, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    n_classes = int(y.max()) + 1
    with_label = np.bincount(group * n_classes + y, minlength=len(counts) * n_classes)
    return group, counts[group] - 1, with_label[group * n_classes + y] - 1


def merge_groups(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> IntArray:
    """Groups in which rows are together that share a group of either division, directly or by way of others.

    Example:
        >>> merge_groups(np.array([0, 0, 1, 2]), np.array([5, 6, 6, 7])).tolist()
        [0, 0, 0, 1]
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    (_, a), (_, b) = (np.unique(groups, return_inverse=True) for groups in (first, second))
    edges = coo_matrix((np.ones(len(a)), (a, int(a.max()) + 1 + b)), shape=(int(a.max()) + int(b.max()) + 2,) * 2)
    return np.asarray(connected_components(edges, directed=False)[1][a], dtype=np.int64)
