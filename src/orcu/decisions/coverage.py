"""Coverage and size of prediction sets on labelled rows, judged against the target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import beta

from orcu.inputs import BoolArray, FloatArray, IntArray, ObjectArray, as_codes

CONFIDENCE = 0.95  # of all intervals of the classes, or of the subgroups, together


@dataclass(frozen=True)
class Coverage:
    """Coverage and mean size of the sets of some rows.

    Attributes:
        rows: number of rows.
        coverage: share of the rows whose set contains the true class; NaN without rows.
        size: mean number of classes in a set; NaN without rows.
        low: lower end of the exact binomial interval (Clopper and Pearson) of the coverage.
        high: upper end.
    """

    rows: int
    coverage: float
    size: float
    low: float
    high: float

    def below(self, target_coverage: float) -> bool:
        """Whether the whole interval lies below the target coverage."""
        return self.rows > 0 and self.high < target_coverage

    def __str__(self) -> str:
        if not self.rows:
            return "no rows"
        return f"coverage {self.coverage:.1%} of {self.rows:,} rows ({self.low:.1%} to {self.high:.1%})"


@dataclass(frozen=True)
class CoverageReport:
    """Coverage of prediction sets on labelled rows: overall, by true class and by subgroup.

    Attributes:
        target_coverage: coverage that the sets aim at, 1 - alpha.
        class_conditional: whether the sets have a guarantee for each class.
        overall: coverage of all rows, with a 95 % interval.
        by_class: coverage of each true class; the intervals of all classes together have a confidence of 95 %.
        by_subgroup: coverage of each subgroup, likewise; empty without subgroups.
    """

    target_coverage: float
    class_conditional: bool
    overall: Coverage
    by_class: tuple[Coverage, ...]
    by_subgroup: Mapping[str, Coverage] = field(default_factory=dict)

    @property
    def coverage(self) -> float:
        """Share of all rows whose set contains the true class."""
        return self.overall.coverage

    @property
    def size(self) -> float:
        """Mean number of classes in a set."""
        return self.overall.size

    @property
    def class_counts(self) -> IntArray:
        """Number of rows of each true class, shape (C,)."""
        return np.array([part.rows for part in self.by_class])

    @property
    def class_coverage(self) -> FloatArray:
        """Coverage of each true class, shape (C,); NaN for a class without rows."""
        return np.array([part.coverage for part in self.by_class])

    @property
    def class_size(self) -> FloatArray:
        """Mean size of the sets of each true class, shape (C,); NaN for a class without rows."""
        return np.array([part.size for part in self.by_class])

    def notes(self, classes: Sequence[str] | None = None) -> list[str]:
        """Sentences on what is below the target, each with the option that helps; empty if nothing is.

        Args:
            classes: names of the classes; their numbers if omitted.
        """
        target = f"the target of {self.target_coverage:.1%}"
        notes = []
        if self.overall.below(self.target_coverage):
            notes.append(
                f"{self.overall}: below {target}. These rows differ from the fitting rows, or depend on each other; "
                "fit the sets on rows like these, with groups= (--cluster) if rows belong together."
            )
        low = [k for k, part in enumerate(self.by_class) if part.below(self.target_coverage)]
        if low:
            names = list(map(str, range(len(self.by_class)))) if classes is None else list(classes)
            listed = "; ".join(f"class {names[k]}: {self.by_class[k]}" for k in low)
            fix = (
                "The sets were fitted for each class; fit them again on rows like these, with more rows of these "
                "classes."
                if self.class_conditional
                else "The guarantee is an average over all classes; fit with class_conditional=True "
                "(--class-conditional) for a guarantee within each class."
            )
            notes.append(f"{listed}: below {target}. {fix}")
        low_subgroups = [name for name, part in self.by_subgroup.items() if part.below(self.target_coverage)]
        if low_subgroups:
            listed = "; ".join(f"subgroup {name}: {self.by_subgroup[name]}" for name in low_subgroups)
            notes.append(
                f"{listed}: below {target}. Fit with subgroup= (--subgroup) for a guarantee within each subgroup, on "
                "rows of these subgroups."
            )
        return notes

    def __str__(self) -> str:
        lines = [f"{self.overall}, target {self.target_coverage:.1%}, mean size {self.size:.2f}"]
        parts = [(f"class {k}", part) for k, part in enumerate(self.by_class)]
        parts += [(f"subgroup {name}", part) for name, part in self.by_subgroup.items()]
        lines += [f"  {name}: {part}, mean size {part.size:.2f}" for name, part in parts if part.rows]
        return "\n".join([*lines, *self.notes()])


def measure_coverage(
    covered: BoolArray,
    size: IntArray,
    y: IntArray,
    num_classes: int,
    *,
    target_coverage: float,
    class_conditional: bool = False,
    subgroup: ObjectArray | None = None,
    cluster: Any = None,
    sample_weight: FloatArray | None = None,
) -> CoverageReport:
    """Measure coverage and size overall, by class and by subgroup.

    Args:
        covered: whether the set of each row contains its true class, shape (n,).
        size: number of classes in each set, shape (n,).
        y: true classes, shape (n,).
        num_classes: number of classes, C.
        target_coverage: coverage that the sets aim at.
        class_conditional: whether the sets have a guarantee for each class.
        subgroup: subgroup of each row.
        cluster: cluster of each row; rows of a cluster are dependent, so the intervals are wider.
        sample_weight: share of each row in its case, if rows are the votes of cases, shape (n,); the coverage is then
            that of a random vote, and cases are counted.
    """
    clusters = None if cluster is None else as_codes(cluster, rows=len(y), name="cluster")

    def part(rows: BoolArray, n_parts: int) -> Coverage:
        n = int(rows.sum())
        if not n:
            return Coverage(0, *[float("nan")] * 4)
        part_clusters = None if clusters is None else clusters[rows]
        part_weight = None if sample_weight is None else sample_weight[rows]
        confidence = 1 - (1 - CONFIDENCE) / n_parts
        low, high = coverage_interval(covered[rows], part_clusters, part_weight, confidence=confidence)
        if part_weight is None:
            return Coverage(n, float(covered[rows].mean()), float(size[rows].mean()), low, high)
        coverage, mean_size = (float(np.average(values[rows], weights=part_weight)) for values in (covered, size))
        return Coverage(max(1, round(float(part_weight.sum()))), coverage, mean_size, low, high)

    names = [] if subgroup is None else sorted(set(subgroup.tolist()))
    return CoverageReport(
        target_coverage,
        class_conditional,
        part(np.ones(len(y), dtype=bool), 1),
        tuple(part(y == k, num_classes) for k in range(num_classes)),
        {name: part(np.asarray(subgroup == name), len(names)) for name in names},
    )


def coverage_interval(
    covered: BoolArray,
    cluster: IntArray | None = None,
    sample_weight: FloatArray | None = None,
    *,
    confidence: float = CONFIDENCE,
) -> tuple[float, float]:
    """Exact binomial interval (Clopper and Pearson) of the share of true entries.

    With clusters, the number of rows is divided by their design effect. With weights, their sum is the number of rows.

    Example:
        >>> [round(end, 3) for end in coverage_interval(np.arange(100) < 90)]
        [0.824, 0.951]
    """
    effect = design_effect(covered, cluster, sample_weight)
    total, hits = (
        (len(covered), covered.sum()) if sample_weight is None else (sample_weight.sum(), sample_weight @ covered)
    )
    n, hits = total / effect, float(min(hits, total)) / effect
    tail = (1 - confidence) / 2
    low = 0.0 if hits == 0 else float(beta.ppf(tail, hits, n - hits + 1))
    high = 1.0 if hits == n else float(beta.ppf(1 - tail, hits + 1, n - hits))
    return low, high


def design_effect(events: BoolArray, cluster: Any, sample_weight: FloatArray | None = None) -> float:
    """Number of clustered rows with the information of one independent row about the rate of an event, at least 1."""
    rate = float(np.average(events, weights=sample_weight))
    if cluster is None or rate in (0.0, 1.0):
        return 1.0
    errors = events - rate if sample_weight is None else sample_weight * (events - rate)
    total = len(events) if sample_weight is None else float(sample_weight.sum())
    sums = np.bincount(as_codes(cluster, rows=len(events), name="cluster"), weights=errors)
    return max(1.0, float(sums @ sums) / (total * rate * (1 - rate)))
