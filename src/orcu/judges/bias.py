"""Bias of judges: whether the error of a judge depends on a column such as the length or the position of an answer."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from orcu.errors import InputError
from orcu.evaluation.findings import LEVEL, adjust
from orcu.inputs import FloatArray, IntArray, ObjectArray, as_codes
from orcu.judges.grades import Grades
from orcu.judges.ppi import intraclass_correlation
from orcu.resampling import CONFIDENCE_LEVEL

MIN_CLUSTERS = 5  # clusters on each side of a comparison; with fewer there is no test
MAX_CATEGORIES = 30  # of a column of texts; more are names of items rather than kinds of them
LOG2 = "log2 "  # start of the name of a column whose unit is a doubling


@dataclass(frozen=True)
class ColumnEffect:
    """Dependence of a judge's error on a column, or of the share of graded items (`orcu.judges.missingness`).

    The error of a rating is the expected grade of the judge minus the mean human grade of the item, in the values of
    the levels. The effect of a column of numbers is the change of the error per unit. That of a category is the mean
    error of its ratings minus the mean error of all others.

    Attributes:
        judge: name of the judge; its ratings before calibration. "human grades" for the share of graded items.
        column: name of the column.
        category: category that is compared; ``None`` for a column of numbers.
        reference: category that it is compared with; ``None`` for all others.
        n_ratings: number of ratings with a human grade and an entry in the column.
        n_clusters: number of clusters, or of items without clusters.
        effect: estimated effect.
        low: lower end of its 95 % interval, robust to the correlation within clusters.
        high: upper end.
        p_value: two-sided p-value of "no effect".
        adjusted_p_value: p-value adjusted by the method of Holm for all effects of the audit.
        at_equal_grade: effect among ratings of equal human grade, with its interval.
        note: reason why there is no estimate, or an empty text.
        outcome: "error", or "share of graded items".
    """

    judge: str
    column: str
    category: str | None
    reference: str | None
    n_ratings: int
    n_clusters: int
    effect: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")
    p_value: float = float("nan")
    adjusted_p_value: float = float("nan")
    at_equal_grade: tuple[float, float, float] = (float("nan"),) * 3
    note: str = ""
    outcome: str = "error"

    @property
    def is_significant(self) -> bool:
        """Whether the adjusted p-value is at most 5 %."""
        return self.adjusted_p_value <= LEVEL

    @property
    def comparison(self) -> str:
        """What the effect compares."""
        if self.category is not None:
            return f"{self.column}: {self.category} against {self.reference or 'the others'}"
        if self._is_log2:
            return f"{self.column.removeprefix(LOG2)}: per doubling"
        return f"{self.column}: per unit"

    def __str__(self) -> str:
        if self.note:
            return f"{self.judge}, {self.comparison}: no test, because {self.note}."
        is_lower, size = self.effect < 0, self._size()
        if self.category is None:
            column, unit = (self.column.removeprefix(LOG2), "doubling") if self._is_log2 else (self.column, "unit")
            return (
                f"{self.judge}: the {self.outcome} {'falls' if is_lower else 'rises'} by {size} per {unit} of {column}."
            )
        direction = f"{'lower' if is_lower else 'higher'} by {size}"
        sides = f"for {self.column} {self.category} than for {self.reference or 'the others'}"
        return f"{self.judge}: the {self.outcome} is {direction} {sides}."

    @property
    def _is_log2(self) -> bool:
        return self.category is None and self.column.startswith(LOG2)

    def _size(self) -> str:
        ends = sorted(abs(end) for end in (self.low, self.high))
        if self.low < 0 < self.high:
            return f"{abs(self.effect):.3g} (95 % interval of the change {self.low:+.3g} to {self.high:+.3g})"
        return f"{abs(self.effect):.3g} (95 % interval {ends[0]:.3g} to {ends[1]:.3g})"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; ``None`` where a number is not defined."""
        names = ("value", "low", "high")
        plain = asdict(self) | {"at_equal_grade": dict(zip(names, map(_plain, self.at_equal_grade), strict=True))}
        return {name: _plain(value) for name, value in plain.items()} | {"is_significant": self.is_significant}


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def bias_effects(grades: Grades) -> tuple[ColumnEffect, ...]:
    r"""Test whether the errors of the judges depend on the columns of ``grades.rating_rows``.

    With e the errors and x the column, the effect is the slope of a least-squares line. Its variance is that of the
    jackknife over the G clusters, which are items without a cluster column,

    .. math:: V = \frac{G - 1}{G} \sum_g (\hat\beta^{-g} - \bar\beta)^2.

    The quantiles are those of t with :math:`(\sum_g v_g)^2 / \sum_g v_g^2 - 1` degrees of freedom. Here
    :math:`v_g = (1 - \rho) \sum_{i \in g} a_i^2 + \rho (\sum_{i \in g} a_i)^2` is the variance that the cluster adds,
    with :math:`a_i` the weight of rating i in the slope and ρ the intraclass correlation of the residuals. A rare
    category therefore has few degrees of freedom. Each column is tested on its own, so columns that go together share
    an effect. P-values are adjusted by the method of Holm over all columns, categories and judges: if no judge has a
    bias, the probability of any significant effect is at most 5 %.

    Returns:
        The effects, by judge and column. A column of numbers has one, a column with two categories one, and a column
        with more categories one for each.

    Raises:
        InputError: if a column of texts has too many categories.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> human, words = rng.integers(1, 6, size=400), rng.uniform(0, 4, size=400)
        >>> graded = np.rint(human + 0.3 * words - 0.6 + rng.normal(scale=0.5, size=400)).clip(1, 5)
        >>> grades = Grades.from_arrays(
        ...     "1..5", {"gpt": np.eye(5)[graded.astype(int) - 1]}, human=human, bias={"words": words}
        ... )
        >>> print(bias_effects(grades)[0])
        gpt: the error rises by 0.234 (95 % interval 0.186 to 0.282) per unit of words.
    """
    rows = grades.rating_rows
    if rows is None:
        return ()
    row_of_item = {item: row for row, item in enumerate(grades.items.tolist())}
    item = np.array([row_of_item.get(name, -1) for name in rows.item.tolist()], dtype=np.intp)
    is_graded = (item >= 0) & grades.human_mask[item]
    error = rows.expected - np.where(is_graded, grades.human_mean[item], np.nan)
    cluster = grades.cluster_codes()[item]
    effects = []
    for judge in grades.judges:
        of_judge = is_graded & (rows.judge == judge)
        for name, column in rows.columns.items():
            for category, reference, x in regressors(name, column, of_judge):
                used = of_judge & ~np.isnan(x)
                controls = grades.human[item[used]]
                effect = ColumnEffect(
                    judge, name, category, reference, int(used.sum()), len(set(cluster[used].tolist()))
                )
                effects.append(estimate_effect(effect, error[used], x[used], cluster[used], equal=controls[:, 1:]))
    adjusted = adjust({number: effect.p_value for number, effect in enumerate(effects)})
    return tuple(replace(effect, adjusted_p_value=adjusted[number]) for number, effect in enumerate(effects))


def regressors(name: str, column: Any, used: Any) -> list[tuple[str | None, str | None, FloatArray]]:
    """Category, category that it is compared with, and values of each regressor; NaN where the column has no entry."""
    if column.dtype != object:
        return [(None, None, column)]
    categories = sorted(set(column[used].tolist()))
    if len(categories) > MAX_CATEGORIES:
        raise InputError(
            f"bias: column {name!r} has {len(categories)} different texts, such as {categories[0]!r}; expected numbers "
            f"or at most {MAX_CATEGORIES} categories. Correct the entries that are not numbers, or group them."
        )
    compared = categories[-1:] if len(categories) <= 2 else categories
    reference = categories[0] if len(categories) == 2 else None
    return [(category, reference, (column == category).astype(np.float64)) for category in compared]


def estimate_effect(
    effect: ColumnEffect,
    outcome: FloatArray,
    x: FloatArray,
    cluster: IntArray,
    *,
    controls: FloatArray | None = None,
    equal: FloatArray | None = None,
) -> ColumnEffect:
    """Effect of x on an outcome with its interval and p-value, or the reason why there is none.

    Args:
        effect: names of what is estimated.
        outcome: outcome of each row, shape (m,).
        x: values of the column, or the indicator of a category, shape (m,).
        cluster: cluster of each row, shape (m,).
        controls: further regressors, shape (m, k).
        equal: further regressors of ``at_equal_grade``, shape (m, k).
    """
    spread = float(np.ptp(x)) if len(x) else 0.0
    if spread == 0:
        return replace(effect, note="all entries of the column are equal")
    if effect.category is not None:
        smaller = min(len(set(cluster[x == value].tolist())) for value in (0, 1))
    else:
        smaller = effect.n_clusters // 2
    if smaller < MIN_CLUSTERS:
        kind = "clusters or items" if effect.category is None else "clusters or items on one side"
        least = 2 * MIN_CLUSTERS if effect.category is None else MIN_CLUSTERS
        return replace(effect, note=f"it has fewer than {least} {kind}")
    scaled = (x - float(x.mean())) / spread
    none = np.zeros((len(x), 0))
    slope, standard_error, freedom = _slope(outcome, scaled, none if controls is None else controls, cluster)
    if not standard_error > 0:
        return replace(effect, note=f"the {effect.outcome} does not vary")
    low, high = _interval(slope, standard_error, freedom)
    effect = replace(
        effect,
        effect=slope / spread,
        low=low / spread,
        high=high / spread,
        p_value=float(2 * stdtr(freedom, -abs(slope) / standard_error)),
    )
    if equal is None:
        return effect
    value, error, freedom = _slope(outcome, scaled, equal, cluster)
    low, high = _interval(value, error, freedom)
    return replace(effect, at_equal_grade=(value / spread, low / spread, high / spread))


def _interval(value: float, error: float, freedom: float) -> tuple[float, float]:
    half = float(stdtrit(freedom, (1 + CONFIDENCE_LEVEL) / 2)) * error
    return value - half, value + half


def _slope(
    error: FloatArray, x: FloatArray, controls: FloatArray, cluster: Sequence[Any] | ObjectArray | IntArray
) -> tuple[float, float, float]:
    """Least-squares slope of x next to a constant and controls, its standard error, and the degrees of freedom."""
    design = np.column_stack([x, np.ones(len(x)), controls])
    codes = as_codes(np.asarray(cluster), rows=len(x), name="cluster")
    n_clusters, size = int(codes.max()) + 1, design.shape[1]
    cells = np.column_stack([design[:, [k]] * np.column_stack([design, error]) for k in range(size)])
    sums = np.stack([np.bincount(codes, weights=cell, minlength=n_clusters) for cell in cells.T], axis=1)
    sums = sums.reshape(n_clusters, size, size + 1)
    total = sums.sum(axis=0)
    inverse = np.linalg.pinv(total[:, :size], hermitian=True)
    slopes = inverse @ total[:, size]
    left = total - sums
    without = (np.linalg.pinv(left[:, :, :size], hermitian=True) @ left[:, :, size:])[:, 0, 0]
    variance = (n_clusters - 1) / n_clusters * float(((without - without.mean()) ** 2).sum())

    weights, residuals = design @ inverse[0], error - design @ slopes
    count, totals = (np.bincount(codes, weights=values).astype(np.float64) for values in (np.ones(len(x)), residuals))
    correlation = intraclass_correlation(count, totals, float((residuals**2).sum()))
    added = (1 - correlation) * np.bincount(codes, weights=weights**2)
    added += correlation * np.bincount(codes, weights=weights) ** 2
    freedom = max(1.0, float(added.sum() ** 2 / (added**2).sum() - 1))
    return float(slopes[0]), float(np.sqrt(variance)), freedom
