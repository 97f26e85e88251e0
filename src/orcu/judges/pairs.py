"""Leaderboard of systems from preferences of a judge: position bias, calibrated preferences, strengths."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu import metrics
from orcu.errors import InputError, UnknownNameError
from orcu.inputs import FloatArray, IntArray, as_count
from orcu.judges.bradley_terry import PairCounts, Strengths, fit_strengths, outcome_scores, position_is_estimable
from orcu.judges.levels import GradeLevels
from orcu.judges.preferences import Comparisons, Preferences, calibrate, combine_orders
from orcu.resampling import Interval, interval, resampled_sums, resampling_units, small_sample_factor

N_RESAMPLES = 500
MAX_UNDEFINED = 0.01  # share of resamples without finite strengths, up to which they are left out
MIN_UNITS = 10  # prompts; of fewer the bootstrap says little


@dataclass(frozen=True)
class SystemStrength:
    """Strength of a system, with a 95 % interval.

    Attributes:
        system: name of the system.
        n_comparisons: number of comparisons of the system.
        strength: log odds of the best against the worst outcome in a comparison with an average system.
        low: lower end of the interval.
        high: upper end.
        score: expected score against the other systems, with 1 for the best outcome and 0 for the worst.
        ranks: share of the resamples in which the system has rank 1 (the strongest), 2, ...; empty without resamples.
    """

    system: str
    n_comparisons: int
    strength: float
    low: float
    high: float
    score: float
    ranks: tuple[float, ...]


@dataclass(frozen=True)
class PositionBias:
    """Preference of the judge for the answer that is shown first, in comparisons that it judged in both orders.

    Attributes:
        n_comparisons: number of comparisons in both orders.
        first_score: mean score of the answer that is shown first; 1/2 without bias.
        low: lower end of its 95 % interval.
        high: upper end.
        inconsistent: share of the comparisons in which the most probable outcomes of the two orders contradict.
    """

    n_comparisons: int
    first_score: float
    low: float
    high: float
    inconsistent: float

    def __str__(self) -> str:
        if self.low <= 0.5 <= self.high:
            verdict = "No significant position bias"
        else:
            verdict = f"Position bias towards the {'first' if self.first_score > 0.5 else 'second'} answer"
        return (
            f"{verdict}: in {self.n_comparisons:,} comparisons in both orders, the first answer gets a score of "
            f"{self.first_score:.3f} (95 % interval {self.low:.3f} to {self.high:.3f}; 0.5 without bias), and "
            f"{100 * self.inconsistent:.0f} % of the verdicts change with the order."
        )


@dataclass(frozen=True)
class PairRanking:
    """Leaderboard of systems, the strongest first.

    Attributes:
        levels: outcomes from "the first is better" to "the second is better".
        systems: strengths of the systems.
        model: fitted strengths and weights of the outcomes, with the systems in the order of ``names``.
        names: names of the systems, sorted.
        position_bias: bias from comparisons in both orders; ``None`` without such comparisons.
        comparisons: comparisons with both orders combined.
        probs: distribution of the outcome of each comparison, calibrated if there are human preferences, shape (n, C).
        is_calibrated: whether the distributions are calibrated to human preferences.
        rps: ranked probability score against human preferences before and after calibration; ``None`` without these.
        notes: what was done, and the limits of the result.
    """

    levels: GradeLevels
    systems: tuple[SystemStrength, ...]
    model: Strengths
    names: tuple[str, ...]
    position_bias: PositionBias | None
    comparisons: Comparisons
    probs: FloatArray
    is_calibrated: bool
    rps: tuple[float, float] | None
    notes: tuple[str, ...]

    def __getitem__(self, system: str) -> SystemStrength:
        rows: Mapping[str, SystemStrength] = {row.system: row for row in self.systems}
        if system not in rows:
            raise UnknownNameError("system", system, rows)
        return rows[system]

    def predict_proba(self, first: str, second: str) -> FloatArray:
        """Distribution of the outcome of a comparison of two systems, shape (C,)."""
        return self.model.probs(self[first].strength - self[second].strength)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; ``None`` where a number is not defined."""
        pairs = [
            {
                "first": one.system,
                "second": other.system,
                "probs": self.predict_proba(one.system, other.system).tolist(),
            }
            for number, one in enumerate(self.systems)
            for other in self.systems[number + 1 :]
        ]
        rows = [
            {name: None if isinstance(v, float) and not np.isfinite(v) else v for name, v in asdict(row).items()}
            for row in self.systems
        ]
        weights = np.exp(self.model.intercepts).tolist()
        return {
            "levels": list(self.levels.names),
            "systems": rows,
            "outcome_weights": dict(zip(self.levels.names, weights, strict=True)),
            "position_effect": self.model.position,
            "position_bias": None if self.position_bias is None else asdict(self.position_bias),
            "pairs": pairs,
            "is_calibrated": self.is_calibrated,
            "rps": None if self.rps is None else {"uncalibrated": self.rps[0], "calibrated": self.rps[1]},
            "notes": list(self.notes),
        }

    def to_arrow(self) -> Any:
        """Pyarrow table with a row for each comparison: item, first, second, p_OUTCOME."""
        import pyarrow

        rows = self.comparisons
        columns: dict[str, Any] = {"item": rows.item.tolist(), "first": rows.first.tolist()}
        columns["second"] = rows.second.tolist()
        columns |= {f"p_{name}": self.probs[:, k] for k, name in enumerate(self.levels.names)}
        return pyarrow.table(columns)

    def to_markdown(self) -> str:
        """Markdown table with a row per system."""
        from orcu.report.text_tables import markdown

        rows = [
            [
                row.system,
                f"{row.n_comparisons:,}",
                f"{row.strength:+.2f}",
                f"{row.low:+.2f} to {row.high:+.2f}",
                f"{row.score:.2f}",
                f"{100 * row.ranks[0]:.0f} %" if row.ranks else "–",
            ]
            for row in self.systems
        ]
        return markdown(["system", "comparisons", "strength", "95 % interval", "score", "P(first)"], rows, "lrrrrr")

    def __str__(self) -> str:
        return "\n".join([self.to_markdown(), *self.notes])


def rank_pairs(preferences: Preferences, *, n_resamples: int = N_RESAMPLES, random_state: int = 0) -> PairRanking:
    r"""Rank systems by preferences of a judge between two answers.

    1. The two orders of a comparison are combined (`combine_orders`), which removes the position bias of the judge. The
       bias is estimated from the comparisons in both orders.
    2. With human preferences, the distributions are calibrated to them (`calibrate`).
    3. The expected outcomes are counts of a Bradley-Terry model with ties (`fit_strengths`). With h the human shares, f
       the calibrated distributions, n comparisons of which m have human preferences, the counts are

       .. math:: \sum_{all} f + \frac n m \sum_{human} (h - f).

       The second sum corrects a calibrated judge that prefers a system, or that sees the differences between systems
       less clearly than people (prediction-powered inference). It needs a random choice of the comparisons with human
       preferences. Without human preferences, the strengths are those in the eyes of the judge.
    4. Intervals are those of the bootstrap over clusters (prompts), which repeats step 3.

    Args:
        preferences: preferences of the judge, and of people for some rows.
        n_resamples: number of resamples; 0 for no intervals.
        random_state: seed of folds and resamples.

    Raises:
        InputError: if the comparisons do not connect all systems, or a system always wins or always loses.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> item, strength = np.repeat(np.arange(200), 2), {"a": 0.0, "b": 1.0}
        >>> first, second = np.tile(["a", "b"], 200), np.tile(["b", "a"], 200)
        >>> gap = np.where(first == "a", -1.0, 1.0) + rng.logistic(size=400) + 0.5  # prefers the first answer
        >>> votes = np.eye(3)[np.where(gap > 0.5, 0, np.where(gap > -0.5, 1, 2))]
        >>> preferences = Preferences.from_arrays("A,tie,B", item=item, first=first, second=second, votes=votes)
        >>> ranking = rank_pairs(preferences, n_resamples=100)
        >>> [row.system for row in ranking.systems], ranking.position_bias.low > 0.5
        (['b', 'a'], True)
    """
    n_resamples = as_count(n_resamples, name="n_resamples", minimum=0)
    comparisons = combine_orders(preferences)
    has_human = comparisons.grades.human_mask
    unit, n_units = resampling_units(len(comparisons), comparisons.cluster)
    notes = [*preferences.notes]
    rps = None
    probs = comparisons.probs
    if has_human.any():
        probs = calibrate(comparisons, random_state=random_state)
        rps = _rps(comparisons, comparisons.probs), _rps(comparisons, probs)
        notes.append(
            f"Calibrated to {int(has_human.sum()):,} human preferences: the ranked probability score changes from "
            f"{rps[0]:.3f} to {rps[1]:.3f}. The strengths are those of human preferences, if these are of a random "
            "part of the comparisons."
        )
    else:
        notes.append("No human preferences: the strengths are those in the eyes of the judge.")
    bias = _position_bias(comparisons, unit, n_units, n_resamples, random_state)
    if bias is not None:
        notes.append(str(bias))
    cells, cell_of = _cells(preferences.systems, comparisons, uses_order=not has_human.any())
    estimate_position = bool(cells.order.any()) and position_is_estimable(cells)
    notes += _order_notes(comparisons, estimate_position, has_human=bool(has_human.any()))
    sums = _unit_sums(comparisons, probs, cell_of, len(cells.first), unit, n_units)

    def fit(total: FloatArray, start: Strengths | None = None) -> Strengths:
        return fit_strengths(_with_counts(cells, total), estimate_position=estimate_position, start=start)

    model = fit(sums.sum(axis=0))
    strengths, ends, ranks = model.values, [Interval(np.nan, np.nan)] * len(cells.systems), None
    if n_resamples and n_units >= MIN_UNITS:
        draws = np.array([_try(fit, total, model) for total in resampled_sums(sums, n_resamples, random_state)])
        is_finite = ~np.isnan(draws[:, 0])
        if (~is_finite).mean() <= MAX_UNDEFINED:
            factor = small_sample_factor(np.bincount(unit, minlength=n_units).astype(np.float64))
            ends = [interval(float(strengths[k]), draws[is_finite, k], factor) for k in range(len(strengths))]
            order = np.argsort(-draws[is_finite], axis=1)
            ranks = np.stack([(order == k).mean(axis=0) for k in range(len(strengths))])
        else:
            notes.append(
                f"No intervals: in {100 * (~is_finite).mean():.0f} % of the resamples of prompts the strengths are not "
                "finite. Compare on more prompts."
            )
    elif n_resamples:
        notes.append(f"No intervals: {n_units} prompts are fewer than {MIN_UNITS}.")
    scores = outcome_scores(len(preferences.levels)) + 0.5
    rows = []
    for k, name in enumerate(cells.systems):
        others = [model.probs(strengths[k] - strengths[j]) @ scores for j in range(len(strengths)) if j != k]
        count = int(((comparisons.first == name) | (comparisons.second == name)).sum())
        chances = () if ranks is None else tuple(ranks[k].tolist())
        rows.append(SystemStrength(name, count, float(strengths[k]), *ends[k], float(np.mean(others)), chances))
    rows.sort(key=lambda row: (-row.strength, row.system))
    return PairRanking(
        preferences.levels,
        tuple(rows),
        model,
        cells.systems,
        bias,
        comparisons,
        probs,
        bool(has_human.any()),
        rps,
        tuple(notes),
    )


def _try(fit: Any, total: FloatArray, start: Strengths) -> FloatArray:
    """Strengths of a resample; NaN if they are not finite."""
    try:
        return np.asarray(fit(total, start).values)
    except InputError:
        return np.full(len(start.values), np.nan)


def _rps(comparisons: Comparisons, probs: FloatArray) -> float:
    """Ranked probability score against the human preferences, each comparison with the weight 1."""
    item, outcome = np.nonzero(comparisons.human > 0)
    return metrics.rps(probs[item], outcome, sample_weight=comparisons.human[item, outcome])


def _position_bias(
    comparisons: Comparisons, unit: npt.NDArray[np.intp], n_units: int, n_resamples: int, random_state: int
) -> PositionBias | None:
    """Mean score of the first position in the comparisons in both orders."""
    rows = ~np.isnan(comparisons.both[:, 0, 0])
    if not rows.any():
        return None
    scores = outcome_scores(comparisons.probs.shape[1])
    forward, swapped = comparisons.both[rows, 0], comparisons.both[rows, 1]
    # In the direction of the first system of the comparison, its score is high in one order and low in the other.
    first_score = 0.5 + (forward @ scores - swapped @ scores) / 2
    directions = [np.sign(scores[each.argmax(axis=1)]) for each in (forward, swapped)]
    inconsistent = float((directions[0] != directions[1]).mean())
    value, ends = float(first_score.mean()), Interval(np.nan, np.nan)
    if n_resamples:
        counts = np.bincount(unit[rows], minlength=n_units).astype(np.float64)
        sums = np.column_stack([np.bincount(unit[rows], weights=first_score, minlength=n_units), counts])
        sums = sums[counts > 0]
        if len(sums) > 1:
            draws = resampled_sums(sums, n_resamples, random_state)
            ends = interval(value, draws[:, 0] / draws[:, 1], small_sample_factor(sums[:, 1]))
    return PositionBias(int(rows.sum()), value, *ends, inconsistent)


def _order_notes(comparisons: Comparisons, estimate_position: bool, *, has_human: bool) -> list[str]:
    """What was done about comparisons in one order."""
    single = int((comparisons.order != 0).sum())
    if not single:
        return []
    counted = f"{single:,} of {len(comparisons):,} comparisons were judged in one order"
    if has_human:
        return [f"{counted}; the human preferences correct the effect of the position on average."]
    if estimate_position:
        return [f"{counted}; an effect of the position is part of the model."]
    return [
        f"{counted}, and its effect cannot be distinguished from the strengths of the systems. Judge each pair in both "
        "orders."
    ]


def _cells(systems: tuple[str, ...], comparisons: Comparisons, *, uses_order: bool) -> tuple[PairCounts, IntArray]:
    """Cells of the model without counts, and the cell of each comparison."""
    code = {name: number for number, name in enumerate(systems)}
    order = comparisons.order if uses_order else np.zeros(len(comparisons), dtype=np.int64)
    first, second = ([code[name] for name in column.tolist()] for column in (comparisons.first, comparisons.second))
    keys, cell_of = np.unique(np.column_stack([first, second, order]), axis=0, return_inverse=True)
    num_outcomes = comparisons.probs.shape[1]
    counts = np.zeros((len(keys), num_outcomes))
    return PairCounts(systems, keys[:, 0], keys[:, 1], keys[:, 2], counts), cell_of.reshape(-1)


def _unit_sums(
    comparisons: Comparisons,
    probs: FloatArray,
    cell_of: IntArray,
    n_cells: int,
    unit: npt.NDArray[np.intp],
    n_units: int,
) -> Any:
    """Sums of each unit, sparse: expected outcomes and errors of the judge by cell, and the two numbers of rows."""
    from scipy import sparse

    size, has_human = probs.shape[1], comparisons.grades.human_mask
    width = n_cells * size
    column = cell_of[:, None] * size + np.arange(size)
    errors = np.where(has_human[:, None], comparisons.human - probs, 0.0)
    ones = np.ones(len(probs))
    rows = [np.repeat(unit, size), np.repeat(unit, size), unit, unit]
    columns = [column.ravel(), width + column.ravel(), np.full(len(unit), 2 * width), np.full(len(unit), 2 * width + 1)]
    values = [probs.ravel(), errors.ravel(), ones, has_human.astype(np.float64)]
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return sparse.csr_array(entries, shape=(n_units, 2 * width + 2))


def _with_counts(cells: PairCounts, total: FloatArray) -> PairCounts:
    """Cells with the counts of step 3 of `rank_pairs`."""
    width = cells.counts.size
    counts = np.array(total[:width])
    n_rows, n_human = total[-2:]
    if n_human:
        counts += n_rows / n_human * total[width : 2 * width]
    return PairCounts(cells.systems, cells.first, cells.second, cells.order, counts.reshape(cells.counts.shape))
