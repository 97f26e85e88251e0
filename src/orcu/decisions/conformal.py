"""Contiguous prediction sets with guaranteed coverage (conformal prediction), such as "grade 2 to 3"."""

import os
import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from orcu import errors
from orcu.decisions.coverage import CoverageReport, measure_coverage
from orcu.errors import CalibrationWarning, InputError
from orcu.inputs import (
    BoolArray,
    FloatArray,
    IntArray,
    ObjectArray,
    as_codes,
    as_fraction,
    as_labels,
    as_probs,
    as_strings,
)
from orcu.io.files import check_digest, read_json, with_digest, write_json
from orcu.predictions.calibration import SupportsCalibration
from orcu.predictions.used_rows import UsedRows
from orcu.raters.votes import Targets, as_votes, is_votes, majority_grade, weighted_rows

STATE_VERSION = 2
SUBGROUP_STATE_VERSION = 3  # of sets with thresholds by subgroup, which orcu 0.2 would ignore
MAX_NAMED = 5  # subgroups that a warning names
TARGETS = ("vote", "majority")
REUSED = (
    "were used to fit the calibrator, so sets fitted on them would not have the stated coverage. "
    "Use other labelled rows."
)


class OrdinalPredictionSets:
    """Split-conformal prediction sets that are always contiguous.

    The classes of each row are added around its mode, the more probable neighbour first, so the sets are nested
    intervals. The score of a class is the mass of the interval that it joins. A set contains the classes whose score
    is at most the ceil((n+1)(1-alpha))-th smallest score of the labels of the fitting rows, and always the mode. For
    exchangeable rows it contains the true class with probability of at least 1 - alpha, for any model.

    Three options make the guarantee stronger. ``class_conditional`` and ``subgroup=`` of `fit` compute a threshold for
    the rows of each true class or of each subgroup (Vovk, 2012). ``groups=`` of `fit` are clusters of dependent rows:
    each row then counts 1 / (rows of its cluster), K clusters take the place of n rows, and the guarantee is for a row
    of a new cluster (Lee, Barber and Willett, 2023, hierarchical conformal prediction):
    the threshold is the smallest score whose weighted count of scores is at least (K + 1)(1 - alpha).

    With votes of several raters, ``target`` is what the guarantee is for. "vote" is the vote of a new rater of a new
    case: the votes of a case share the weight of one row, so the number of cases takes the place of n (a case is a
    cluster of votes). "majority" is the grade with the most votes (see `orcu.raters.votes.majority_grade` for ties).

    A finite threshold needs 1/alpha - 1 rows, or clusters: 9 for alpha = 0.1. With fewer rows of a class, the class is
    in every set. A subgroup with fewer rows, or none, gets the threshold of all rows, so its coverage is not
    guaranteed. With fewer rows altogether, every set contains all classes. Each case is a `CalibrationWarning`.

    Args:
        alpha: target miscoverage, the share of rows whose set may miss the true class.
        class_conditional: whether the guarantee holds for each true class separately. Each class then has its own
            threshold, and gaps in a set are filled.
        target: "vote" or "majority": what sets fitted on votes contain with the stated probability; no effect on sets
            fitted on labels.

    Attributes:
        thresholds_: threshold of each class, shape (C,); infinite if the class is in every set.
        subgroup_thresholds_: threshold of each subgroup with enough rows; empty without subgroups.
        n_clusters_: number of clusters of the fit, or ``None``.
        fitted_on_votes_: whether the sets were fitted on votes, not on labels.
        fitted_on_: record of the fitting rows.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> probs = rng.dirichlet(np.ones(4), size=500)
        >>> y = (rng.random((500, 1)) > np.cumsum(probs, axis=1)[:, :-1]).sum(axis=1)
        >>> sets = OrdinalPredictionSets(alpha=0.1).fit(probs[:250], y[:250])
        >>> sets
        OrdinalPredictionSets(alpha=0.1, class_conditional=False; 4 classes, 250 rows, threshold 0.827)
        >>> low, high = sets.predict(probs[250:])
        >>> bool(sets.coverage_report(probs[250:], y[250:]).coverage > 0.85)
        True
    """

    num_classes_: int
    thresholds_: FloatArray
    subgroup_thresholds_: dict[str, float]
    n_clusters_: int | None
    fitted_on_votes_: bool
    fitted_on_: UsedRows

    def __init__(self, *, alpha: float = 0.1, class_conditional: bool = False, target: str = "vote") -> None:
        self.alpha = alpha
        self.class_conditional = class_conditional
        self.target = target

    def __repr__(self) -> str:
        options = f"alpha={self.alpha}, class_conditional={self.class_conditional}"
        if not hasattr(self, "thresholds_"):
            return f"OrdinalPredictionSets({options})"
        values = ", ".join(f"{value:.3g}" for value in dict.fromkeys(self.thresholds_.tolist()))
        if self.fitted_on_votes_:
            options += f", target={self.target!r}"
        rows = f"{self.num_classes_} classes, {self.fitted_on_.count} rows"
        if self.n_clusters_ is not None:
            rows += f" of {self.n_clusters_} clusters"
        if self.subgroup_thresholds_:
            values += f", {len(self.subgroup_thresholds_)} subgroups with their own"
        return f"OrdinalPredictionSets({options}; {rows}, threshold {values})"

    def fit(
        self,
        probs: Any,
        y: Any,
        *,
        subgroup: Any = None,
        groups: Any = None,
        ids: Any = None,
        calibrator: SupportsCalibration | None = None,
    ) -> Self:
        """Compute the thresholds from labelled rows that were used neither for training nor for calibration.

        Args:
            probs: calibrated class probabilities, shape (n, C).
            y: labels 0..C-1, shape (n,); or votes of several raters, counts or shares of shape (n, C).
            subgroup: subgroup of each row, such as its hospital, for a guarantee within each subgroup.
            groups: cluster of each row, such as its patient (scikit-learn's name), for a guarantee for new clusters.
            ids: row ids, recorded in ``fitted_on_`` so that these rows are not used again for evaluation.
            calibrator: calibrator of the probabilities, also fitted with ids; its rows are refused.

        Raises:
            InputError: if an argument is invalid, or a row was used to fit the calibrator.

        Warns:
            CalibrationWarning: if a class, a subgroup or the whole has too few rows or clusters for alpha.
        """
        if subgroup is not None and self.class_conditional:
            raise InputError(
                "subgroup: cannot be combined with class_conditional=True (--class-conditional); choose one guarantee."
            )
        alpha = as_fraction(self.alpha, name="alpha")
        checked = as_probs(probs)
        num_classes = checked.shape[1]
        targets = _as_targets(y, self.target, num_classes, rows=len(checked))
        used = UsedRows.from_values(checked, ids)
        if calibrator is not None and calibrator.fitted_on_.count:
            if used.ids is None or calibrator.fitted_on_.ids is None:
                raise InputError(
                    "ids: pass them to the calibrator's fit and to this fit, so that reused rows can be detected."
                )
            calibrator.fitted_on_.check_disjoint(used, reason=REUSED)
        clusters = None if groups is None else as_codes(groups, rows=len(targets), name="groups")
        names = None if subgroup is None else as_strings(subgroup, rows=len(targets), name="subgroup")
        case, labels, share = weighted_rows(targets)
        label_scores = scores(checked)[case][np.arange(len(labels)), labels]
        row_clusters = None if clusters is None else clusters[case]
        row_names = None if names is None else names[case]

        def threshold(rows: BoolArray, cases: BoolArray | None = None) -> float:
            if share is None:
                return _threshold(label_scores[rows], alpha, None if clusters is None else clusters[rows])
            weights = share[rows]
            if clusters is not None and row_clusters is not None:
                n_cases = np.bincount(clusters if cases is None else clusters[cases], minlength=clusters.max() + 1)
                weights = weights / n_cases[row_clusters[rows]]
            return _weighted_threshold(label_scores[rows], weights, float(weights.sum()), alpha)

        parts = [labels == k for k in range(num_classes)] if self.class_conditional else [labels >= 0]
        thresholds = [threshold(rows) for rows in parts]
        by_subgroup = (
            {}
            if names is None or row_names is None
            else {name: threshold(row_names == name, names == name) for name in sorted(set(names.tolist()))}
        )
        units = row_clusters if share is None or clusters is not None else case
        unit = "rows" if units is None else "cases" if clusters is None else "clusters"
        self._warn_of_few_rows(alpha, thresholds, parts, by_subgroup, row_names, units, unit)
        self.num_classes_, self.fitted_on_votes_ = num_classes, is_votes(y)
        self.fitted_on_ = used
        self.n_clusters_ = None if clusters is None else int(clusters.max()) + 1
        self.subgroup_thresholds_ = {name: value for name, value in by_subgroup.items() if np.isfinite(value)}
        self.thresholds_ = np.array(thresholds if self.class_conditional else thresholds * num_classes)
        return self

    def _warn_of_few_rows(
        self,
        alpha: float,
        thresholds: list[float],
        parts: list[BoolArray],
        by_subgroup: Mapping[str, float],
        names: ObjectArray | None,
        clusters: IntArray | None,
        unit: str,
    ) -> None:
        """Warn of infinite thresholds, with the numbers of rows, cases or clusters and what is done instead."""

        def count(rows: BoolArray) -> int:
            return int(rows.sum()) if clusters is None else len(np.unique(clusters[rows]))

        needed = f"at least {int(np.ceil(1 / alpha)) - 1} {unit}" if alpha > 0 else "alpha above 0"
        infinite = [k for k, value in enumerate(thresholds) if np.isinf(value)]
        small = [name for name, value in by_subgroup.items() if np.isinf(value)]
        if infinite and self.class_conditional:
            listed = ", ".join(f"{k} ({count(parts[k])} {unit})" for k in infinite)
            effect = f"class {listed} is in every set; each class needs {needed}"
        elif infinite:
            effect = f"every set contains all classes; use {needed}"
        elif small:
            listed = ", ".join(f"{name} ({count(np.asarray(names == name))} {unit})" for name in small[:MAX_NAMED])
            more = ", ..." if len(small) > MAX_NAMED else ""
            effect = (
                f"subgroup {listed}{more} gets the threshold of all rows, without a guarantee within the subgroup; "
                f"each subgroup needs {needed}"
            )
        else:
            return
        warnings.warn(
            f"prediction sets: too few {unit} for alpha = {alpha:g}: {effect}.", CalibrationWarning, stacklevel=3
        )

    def _check_is_fitted(self) -> None:
        if not hasattr(self, "thresholds_"):
            raise errors.NotFittedError("OrdinalPredictionSets is not fitted; call fit(probs, y) first.")

    def predict(self, probs: Any, *, subgroup: Any = None) -> tuple[IntArray, IntArray]:
        """Lowest and highest class of each row's set, both included.

        Args:
            probs: class probabilities, shape (n, C).
            subgroup: subgroup of each row; required if the sets were fitted with subgroups.

        Raises:
            NotFittedError: if the sets are not fitted.
            InputError: if an argument is invalid, or the sets were fitted for another number of classes.

        Warns:
            CalibrationWarning: if a subgroup has no threshold, so that the threshold of all rows is used.
        """
        self._check_is_fitted()
        checked = as_probs(probs)
        if checked.shape[1] != self.num_classes_:
            raise InputError(
                f"OrdinalPredictionSets was fitted for {self.num_classes_} classes, got {checked.shape[1]}."
            )
        return _ends(scores(checked) <= self._row_thresholds(len(checked), subgroup), checked)

    def _row_thresholds(self, rows: int, subgroup: Any) -> FloatArray:
        """Thresholds that broadcast to (n, C)."""
        if not self.subgroup_thresholds_:
            return self.thresholds_
        if subgroup is None:
            raise InputError(
                f"subgroup: missing, but these sets have thresholds for {len(self.subgroup_thresholds_)} subgroups; "
                "pass the subgroup of each row (--subgroup COLUMN)."
            )
        names = as_strings(subgroup, rows=rows, name="subgroup")
        other = sorted(set(names.tolist()) - set(self.subgroup_thresholds_))
        if other:
            listed = ", ".join(other[:MAX_NAMED]) + (", ..." if len(other) > MAX_NAMED else "")
            warnings.warn(
                f"subgroup: {len(other)} subgroups had no rows in the fit, or too few, and get the threshold of all "
                f"rows, without a guarantee within the subgroup: {listed}.",
                CalibrationWarning,
                stacklevel=3,
            )
        shared = float(self.thresholds_[0])
        return np.array([[self.subgroup_thresholds_.get(name, shared)] for name in names.tolist()])

    def coverage_report(
        self, probs: Any, y: Any, *, ids: Any = None, subgroup: Any = None, cluster: Any = None
    ) -> CoverageReport:
        """Coverage and size of the sets on labelled rows that were not used for fitting.

        ``notes()`` of the report names the classes and subgroups whose interval lies below the target, and the option
        that helps.

        Args:
            probs: class probabilities, shape (n, C).
            y: labels 0..C-1, shape (n,); or votes of several raters, shape (n, C), of which ``target`` is measured.
            ids: row ids, to detect rows of the fit.
            subgroup: subgroup of each row, whose coverage is then reported as well.
            cluster: cluster of each row; the intervals then take its dependence into account.

        Raises:
            NotFittedError: if the sets are not fitted.
            InputError: if an argument is invalid, or a row was used to fit the sets.
        """
        low, high = self.predict(probs, subgroup=subgroup)
        self.fitted_on_.check_disjoint(
            UsedRows.from_values(as_probs(probs), ids),
            reason="were used to fit these sets, so the coverage on them is biased. Use other labelled rows.",
        )
        targets = _as_targets(y, self.target, self.num_classes_, rows=len(low))
        case, labels, share = weighted_rows(targets)
        names = None if subgroup is None else as_strings(subgroup, rows=len(low), name="subgroup")[case]
        if cluster is not None:
            cluster = as_codes(cluster, rows=len(low), name="cluster")[case]
        return measure_coverage(
            (low[case] <= labels) & (labels <= high[case]),
            (high - low + 1)[case],
            labels,
            self.num_classes_,
            target_coverage=1 - self.alpha,
            class_conditional=self.class_conditional,
            subgroup=names,
            cluster=case if cluster is None and share is not None else cluster,
            sample_weight=share,
        )

    def to_dict(self) -> dict[str, Any]:
        """Options and thresholds as plain data for JSON; ``None`` for a class that is in every set."""
        self._check_is_fitted()
        state = {
            "prediction_sets": "ordinal",
            "state_version": SUBGROUP_STATE_VERSION if self.subgroup_thresholds_ else STATE_VERSION,
            "alpha": self.alpha,
            "conditional": self.class_conditional,
            "num_classes": self.num_classes_,
            "fitted_on": self.fitted_on_.to_dict(),
            "thresholds": [value if np.isfinite(value) else None for value in self.thresholds_.tolist()],
        }
        if self.n_clusters_ is not None:
            state["n_clusters"] = self.n_clusters_
        if self.fitted_on_votes_:
            state["target"] = self.target
        return state | ({"subgroups": self.subgroup_thresholds_} if self.subgroup_thresholds_ else {})

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "OrdinalPredictionSets":
        """Fitted sets from the plain data of `to_dict`.

        Raises:
            InputError: if the data are of another kind or version, or damaged.
        """
        _check_kind(state, "ordinal", "`orcu sets fit`", (STATE_VERSION, SUBGROUP_STATE_VERSION))
        from orcu.decisions.schemas import PredictionSetsSchema
        from orcu.io.schema import validate

        checked = validate(PredictionSetsSchema, state, "the prediction sets")
        sets = cls(alpha=checked.alpha, class_conditional=checked.conditional, target=checked.target or "vote")
        sets.fitted_on_votes_ = checked.target is not None
        sets.num_classes_ = checked.num_classes
        sets.fitted_on_ = UsedRows.from_dict(checked.fitted_on.model_dump())
        sets.thresholds_ = np.array([np.inf if t is None else t for t in checked.thresholds], dtype=np.float64)
        sets.subgroup_thresholds_, sets.n_clusters_ = checked.subgroups, checked.n_clusters
        return sets

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `to_dict` and its digest as JSON; the file is written completely or not at all."""
        write_json(path, with_digest(self.to_dict()))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "OrdinalPredictionSets":
        """Read the sets from a JSON file written by `save`.

        Raises:
            InputError: if the file cannot be read as such, or was changed or damaged after it was written.
        """
        return read_json(path, lambda content: cls.from_dict(check_digest(content)))


class CrossConformalSets:
    """Contiguous prediction sets from out-of-fold predictions (CV+), which need no separate rows.

    With the scores s of `OrdinalPredictionSets`, s_i of row i by the members of its fold k(i), and s_k(x, c) of class c
    of a new row by the members of fold k, the set is

        {c : #{i : s_i < s_k(i)(x, c)} < (1 - alpha)(n + 1)},

    with gaps filled, and always contains the mode. For exchangeable rows and members that treat them symmetrically it
    contains the true class with probability of at least
    1 - 2 alpha - min(2 (1 - 1/K) / (n/K + 1), (1 - K/n) / (K + 1)) (Barber et al., 2021; Romano et al., 2020); in
    practice with 1 - alpha. Anything that all folds share, such as a calibrator fitted on all out-of-fold rows, is not
    covered by the proof; the documentation shows its effect on coverage.

    With ``class_conditional`` the rows of class c alone decide whether c is in the set: i runs over its n_c rows, and
    n_c replaces n. The coverage then holds within each class. With ``groups=`` of `fit`, the count must be below
    (1 - alpha)(1 + 1/G)(n + 1), with G the number of clusters (of the class), because rows of a new cluster are
    exchangeable with clusters of the fit and not with their rows.

    With votes of several raters, a row counts with the shares of its votes, and n stays the number of rows; ``target``
    is that of `OrdinalPredictionSets`.

    Args:
        alpha: target miscoverage.
        class_conditional: whether the coverage holds for each true class separately; not with votes.
        target: "vote" or "majority": what sets fitted on votes contain.

    Attributes:
        scores_: sorted scores of the labels of each fold.
        weights_: weights of these scores, shares of votes; ``None`` for labels.
        class_scores_: the scores of each class; empty without ``class_conditional``.
        n_clusters_: number of clusters, of each class with ``class_conditional``; empty without clusters.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> probs = rng.dirichlet(np.ones(4), size=600)
        >>> y = (rng.random((600, 1)) > np.cumsum(probs, axis=1)[:, :-1]).sum(axis=1)
        >>> sets = CrossConformalSets(alpha=0.1).fit(probs[:400], y[:400], fold=np.arange(400) % 5)
        >>> low, high = sets.predict(np.stack([probs[400:]] * 5))
        >>> bool(((low <= y[400:]) & (y[400:] <= high)).mean() > 0.85)
        True
    """

    num_classes_: int
    scores_: list[FloatArray]
    weights_: list[FloatArray] | None = None
    class_scores_: list[list[FloatArray]]
    n_clusters_: list[int]

    def __init__(self, *, alpha: float = 0.1, class_conditional: bool = False, target: str = "vote") -> None:
        self.alpha = alpha
        self.class_conditional = class_conditional
        self.target = target

    def __repr__(self) -> str:
        if not hasattr(self, "scores_"):
            return f"CrossConformalSets(alpha={self.alpha})"
        rows = f"{self._n_rows} rows in {len(self.scores_)} folds"
        return f"CrossConformalSets(alpha={self.alpha}; {self.num_classes_} classes, {rows})"

    def fit(self, probs: Any, y: Any, *, fold: Any, groups: Any = None) -> Self:
        """Compute the scores of labelled rows.

        Args:
            probs: out-of-fold class probabilities, shape (n, C).
            y: labels 0..C-1, shape (n,); or votes of several raters, counts or shares of shape (n, C).
            fold: fold 0..K-1 of each row, shape (n,).
            groups: cluster of each row (scikit-learn's name), for coverage of rows of new clusters.

        Raises:
            InputError: if an argument is invalid.
        """
        checked = as_probs(probs)
        self.num_classes_ = checked.shape[1]
        targets = _as_targets(y, self.target, self.num_classes_, rows=len(checked))
        folds = np.asarray(fold)
        if folds.shape != (len(targets),) or folds.dtype.kind not in "iu" or folds.min() < 0:
            raise InputError(f"fold: expected {len(targets)} integers 0..K-1, the fold of each row.")
        case, labels, share = weighted_rows(targets)
        if share is not None and self.class_conditional:
            raise InputError(
                'class_conditional: not available for votes of several raters; use target="majority" or labels.'
            )
        label_scores, row_folds = scores(checked)[case][np.arange(len(labels)), labels], folds[case]
        clusters = None if groups is None else as_codes(groups, rows=len(targets), name="groups")[case]

        def by_fold(rows: BoolArray) -> list[IntArray]:
            fold_rows = [np.flatnonzero(rows & (row_folds == k)) for k in range(int(folds.max()) + 1)]
            return [part[np.argsort(label_scores[part], kind="stable")] for part in fold_rows]

        every = np.ones(len(labels), dtype=bool)
        parts = [labels == c for c in range(self.num_classes_)] if self.class_conditional else [every]
        fold_rows = by_fold(every)
        self.scores_ = [label_scores[rows] for rows in fold_rows]
        self.weights_ = None if share is None else [share[rows] for rows in fold_rows]
        self.class_scores_ = []
        if self.class_conditional:
            self.class_scores_ = [[label_scores[rows] for rows in by_fold(part)] for part in parts]
        self.n_clusters_ = [] if clusters is None else [len(np.unique(clusters[rows])) for rows in parts]
        return self

    @property
    def _n_rows(self) -> int:
        """Number of fitting rows, n."""
        if self.weights_ is None:
            return sum(map(len, self.scores_))
        return round(sum(float(weights.sum()) for weights in self.weights_))

    def _part_rows(self) -> list[int]:
        """Number of fitting rows of each part: of all rows, or of each class."""
        return [sum(map(len, part)) for part in self.class_scores_] or [self._n_rows]

    def unlimited_classes(self) -> list[int]:
        """Classes with too few rows or clusters for alpha, which are in every set; without classes, all or none."""
        self._check_is_fitted()
        rows = np.array(self._part_rows())
        allowed = (1 - self._coverage()) * (rows + 1)
        too_few = np.broadcast_to((rows == 0) | (allowed < 1 - 1e-9), self.num_classes_)
        return np.flatnonzero(too_few).tolist()

    def _coverage(self) -> FloatArray:
        """Share of the rows of each part whose scores must be covered."""
        alpha = as_fraction(self.alpha, name="alpha")
        if not self.n_clusters_:
            return np.full(max(1, len(self.class_scores_)), 1 - alpha)
        return (1 - alpha) * (1 + 1 / np.maximum(self.n_clusters_, 1))

    def predict(self, probs: Any) -> tuple[IntArray, IntArray]:
        """Lowest and highest class of each row's set, both included.

        Args:
            probs: class probabilities by the members of each fold, shape (K, n, C).

        Raises:
            NotFittedError: if the sets are not fitted.
            InputError: if the shape is wrong, or there are too few fitting rows for alpha.
        """
        self._check_is_fitted()
        unlimited, rows = self.unlimited_classes(), self._n_rows
        if unlimited and not self.class_conditional:
            raise InputError(f"alpha: {rows} fitting rows are too few for {self.alpha:g}; use a larger alpha.")
        if np.ndim(probs) != 3 or len(probs) != len(self.scores_) or np.shape(probs)[2] != self.num_classes_:
            raise InputError(
                f"probs: expected shape ({len(self.scores_)}, n, {self.num_classes_}), (folds, rows, classes); "
                f"got {np.shape(probs)}."
            )
        by_fold = [as_probs(fold_probs) for fold_probs in probs]
        new_scores = [scores(new) for new in by_fold]
        inside = np.ones(new_scores[0].shape, dtype=bool)
        parts = zip(self.class_scores_ or [self.scores_], self._part_rows(), self._coverage(), strict=True)
        for k, (part, rows, coverage) in enumerate(parts):
            columns = slice(k, k + 1) if self.class_conditional else slice(None)
            counts = [np.searchsorted(fitted, new[:, columns]) for fitted, new in zip(part, new_scores, strict=True)]
            if self.weights_ is not None:  # the weight of the smaller scores in place of their number
                counts = [np.append(0.0, np.cumsum(w))[count] for w, count in zip(self.weights_, counts, strict=True)]
            inside[:, columns] = np.sum(counts, axis=0) < coverage * (rows + 1) - 1e-9
        inside[:, unlimited] = True
        return _ends(inside, np.mean(by_fold, axis=0))

    def _check_is_fitted(self) -> None:
        if not hasattr(self, "scores_"):
            raise errors.NotFittedError("CrossConformalSets is not fitted; call fit(probs, y, fold=...) first.")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the scores and their digest as JSON; the file is written completely or not at all.

        Raises:
            InputError: if the sets have clusters or a guarantee per class, which the file does not hold.
        """
        self._check_is_fitted()
        if self.class_conditional or self.n_clusters_:
            raise InputError("class_conditional, groups: such sets are not saved; fit them again.")
        state = {
            "prediction_sets": "cross",
            "state_version": STATE_VERSION,
            "num_classes": self.num_classes_,
            "scores": [fold_scores.tolist() for fold_scores in self.scores_],
        }
        if self.weights_ is not None:
            state |= {"target": self.target, "weights": [weights.tolist() for weights in self.weights_]}
        write_json(path, with_digest(state))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, alpha: float = 0.1) -> "CrossConformalSets":
        """Read the sets from a JSON file written by `save`, for any alpha.

        Raises:
            InputError: if the file cannot be read as such, or was changed or damaged after it was written.
        """
        return read_json(path, lambda content: cls(alpha=alpha)._restore(check_digest(content)))

    def _restore(self, state: Any) -> "CrossConformalSets":
        _check_kind(state, "cross", "`orcu train` in sets.json", (STATE_VERSION,))
        from orcu.decisions.schemas import CrossConformalSchema
        from orcu.io.schema import validate

        checked = validate(CrossConformalSchema, state, "the prediction sets")
        self.num_classes_, self.target = checked.num_classes, checked.target or self.target
        self.scores_ = [np.array(fold_scores, dtype=np.float64) for fold_scores in checked.scores]
        orders = [np.argsort(fold_scores, kind="stable") for fold_scores in self.scores_]
        self.scores_ = [fold_scores[order] for fold_scores, order in zip(self.scores_, orders, strict=True)]
        if checked.weights is not None:
            weights = [np.array(fold_weights, dtype=np.float64) for fold_weights in checked.weights]
            self.weights_ = [fold_weights[order] for fold_weights, order in zip(weights, orders, strict=True)]
        self.class_scores_, self.n_clusters_ = [], []
        return self


def scores(probs: FloatArray) -> FloatArray:
    """Mass of the interval around the mode before each class joins it, shape (n, C).

    Of two neighbours the more probable joins first, the lower one on a tie. (Including the mass of the class itself
    would give the last class of every row a score of 1, a tie that makes sets too large.) Each step also adds
    1e-9, so that classes with negligible mass keep their order.

    Example:
        >>> scores(np.array([[0.1, 0.5, 0.3, 0.1]])).round(3)
        array([[0.8, 0. , 0.5, 0.9]])
    """
    n, size = probs.shape
    rows = np.arange(n)
    low = high = probs.argmax(axis=1)
    mass = probs[rows, low]
    out = np.zeros_like(probs)
    padded = np.concatenate([np.full((n, 1), -1.0), probs, np.full((n, 1), -1.0)], axis=1)
    for step in range(1, size):
        below, above = padded[rows, low], padded[rows, high + 2]
        down = below >= above
        low, high = low - down, high + ~down
        out[rows, np.where(down, low, high)] = mass + 1e-9 * step
        mass = mass + np.where(down, below, above)
    return out


def _ends(inside: BoolArray, probs: FloatArray) -> tuple[IntArray, IntArray]:
    """Lowest and highest class of each set, after adding the mode."""
    inside[np.arange(len(inside)), probs.argmax(axis=1)] = True
    return inside.argmax(axis=1), inside.shape[1] - 1 - inside[:, ::-1].argmax(axis=1)


def _threshold(label_scores: FloatArray, alpha: float, clusters: IntArray | None) -> float:
    """The smallest score up to which the scores weigh at least (K+1)(1-alpha); infinite if all weigh less.

    A score weighs 1 / (rows of its cluster), so all weigh K, the number of clusters. Without clusters each row is one:
    the threshold is the ceil((n+1)(1-alpha))-th smallest score.
    """
    counts = np.ones(len(label_scores)) if clusters is None else np.bincount(clusters)[clusters]
    n_clusters = len(label_scores) if clusters is None else len(np.unique(clusters))
    return _weighted_threshold(label_scores, 1 / counts, n_clusters, alpha)


def _weighted_threshold(label_scores: FloatArray, weights: FloatArray, total: float, alpha: float) -> float:
    """The smallest score up to which the weights sum to at least (total + 1)(1 - alpha); infinite if all sum to less.

    ``total`` is the sum of the weights. A new case has a weight of at most 1, so the coverage of a random vote is at
    least 1 - alpha for exchangeable cases: the weighted share of scores above the threshold is at most alpha among the
    cases and the new one.
    """
    order = np.argsort(label_scores, kind="stable")
    enough = np.cumsum(weights[order]) >= (total + 1) * (1 - alpha) - 1e-9  # rounding
    return float(label_scores[order][enough.argmax()]) if enough.any() else np.inf


def check_target(target: Any) -> None:
    """Raise `UnknownNameError` unless a target of prediction sets is "vote" or "majority"."""
    if target not in TARGETS:
        raise errors.UnknownNameError("target of prediction sets", str(target), TARGETS)


def _as_targets(y: Any, target: str, num_classes: int, *, rows: int) -> Targets:
    """Labels, votes if they are to be covered, or the majority grades of votes."""
    check_target(target)
    if not is_votes(y):
        return as_labels(y, num_classes, rows=rows)
    votes = as_votes(y, num_classes, rows=rows)
    return votes if target == "vote" else majority_grade(votes)


def _check_kind(state: Any, kind: str, writer: str, versions: tuple[int, ...]) -> None:
    if not isinstance(state, Mapping) or state.get("prediction_sets") != kind:
        raise InputError(f"prediction_sets: expected the JSON data of prediction sets that {writer} writes.")
    version = state.get("state_version")
    if not isinstance(version, int) or version not in versions:
        raise InputError(f"state_version: expected {' or '.join(map(str, versions))}, got {version!r}; fit again.")
