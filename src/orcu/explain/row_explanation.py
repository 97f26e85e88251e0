"""Explanation of one prediction: Shapley values of its columns, in words and numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from orcu.explain.cells import (
    MAX_BACKGROUND,
    Classifier,
    as_row,
    as_rows,
    column_names,
    grade_values,
    predict_cells,
    sample_rows,
    stack_rows,
)
from orcu.inputs import FloatArray, as_count, as_probs
from orcu.io.frames import is_frame
from orcu.model_selection import take_rows
from orcu.predictions.labels import canonical_label

MAX_EXACT = 8  # columns up to which all coalitions are evaluated
MAX_NAMED = 3  # columns named in the sentences
NEGLIGIBLE = 0.005  # of the expected grade


@dataclass(frozen=True)
class RowExplanation:
    """What moved the predicted distribution of one row away from the mean prediction.

    Attributes:
        columns: names of the columns, largest absolute contribution to the expected grade first.
        values: values of the row in these columns, as text.
        contributions: contribution of each column to the probability of each class, (D, C). The contributions sum to
            ``probs - mean_probs``.
        probs: predicted distribution of the row, (C,).
        mean_probs: mean predicted distribution of the background rows, (C,).
        std_error: standard error of each column's contribution to the expected grade, (D,); 0 if exact.
        grades: number of each class, (C,).
        classes: names of the classes.
        about: how the contributions were computed, in words.
    """

    columns: tuple[str, ...]
    values: tuple[str, ...]
    contributions: FloatArray
    probs: FloatArray
    mean_probs: FloatArray
    std_error: FloatArray
    grades: FloatArray
    classes: tuple[str, ...]
    about: str

    @property
    def expected_grade(self) -> float:
        """Expected grade of the row."""
        return float(self.probs @ self.grades)

    @property
    def mean_grade(self) -> float:
        """Mean of the expected grade over the background rows."""
        return float(self.mean_probs @ self.grades)

    @property
    def grade_contributions(self) -> FloatArray:
        """Contribution of each column to the expected grade, (D,); they sum to its difference from the mean."""
        return self.contributions @ self.grades

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "expected_grade": self.expected_grade,
            "mean_grade": self.mean_grade,
            "probs": dict(zip(self.classes, self.probs.tolist(), strict=True)),
            "mean_probs": dict(zip(self.classes, self.mean_probs.tolist(), strict=True)),
            "columns": [
                {"name": name, "value": value, "contribution": float(contribution), "std_error": float(error)}
                for name, value, contribution, error in zip(
                    self.columns, self.values, self.grade_contributions, self.std_error, strict=True
                )
            ],
            "about": self.about,
        }

    def sentences(self) -> list[str]:
        """What moved the prediction, in words."""
        likeliest = int(np.argmax(self.probs))
        shift = self.expected_grade - self.mean_grade
        side = "about the same as" if abs(shift) < NEGLIGIBLE else "above" if shift > 0 else "below"
        sentences = [
            f"The most likely class is {self.classes[likeliest]} ({100 * self.probs[likeliest]:.0f} %; the average "
            f"case has {100 * self.mean_probs[likeliest]:.0f} %).",
            f"The expected grade is {self.expected_grade:.2f}, {side} the average of {self.mean_grade:.2f}.",
        ]
        directions = (("up", 1), ("down", -1))
        for word, sign in directions if shift > 0 else directions[::-1]:
            moved = [
                f"{name} = {value} ({contribution:+.2f})"
                for name, value, contribution in zip(self.columns, self.values, self.grade_contributions, strict=True)
                if sign * contribution >= NEGLIGIBLE
            ]
            if moved:
                more = f" and {len(moved) - MAX_NAMED} more" if len(moved) > MAX_NAMED else ""
                sentences.append(f"Moved {word} by {', '.join(moved[:MAX_NAMED])}{more}.")
        return sentences

    def __str__(self) -> str:
        # Names and values come from the user's table: no control characters in the terminal.
        return "".join(c if c.isprintable() else "?" for c in " ".join(self.sentences()))

    def _repr_html_(self) -> str:
        from orcu.report.card_html import card
        from orcu.report.explanation import row_picture

        return card(
            "Explanation of one prediction",
            sentences=self.sentences(),
            headings=["column", "value", "contribution to the expected grade"],
            rows=[
                [name, value, f"{contribution:+.3f}"]
                for name, value, contribution in zip(self.columns, self.values, self.grade_contributions, strict=True)
            ],
            note=self.about,
            picture=row_picture(self),
        )


def explain_row(
    estimator: Classifier,
    x: Any,
    background: Any,
    *,
    n_permutations: int = 20,
    feature_names: Sequence[str] | None = None,
    random_state: int = 0,
) -> RowExplanation:
    """Shapley values of one row's columns for its predicted distribution (interventional).

    v(S) is the mean prediction of the background rows in which the columns of S have the values of the row. A column's
    contribution is the mean of v(S + column) - v(S) over all orders of the columns. With up to 8 columns it is exact,
    otherwise the mean over random orders, each used in both directions. In both cases the contributions sum to the
    prediction minus the mean prediction.

    Args:
        estimator: fitted classifier with ``predict_proba``.
        x: one row: a frame of one row, an array, a dictionary or a series.
        background: rows that stand for the population, such as the training rows; at most 100 are used.
        n_permutations: number of random orders for more than 8 columns, at least 2; each is used twice.
        feature_names: names of the columns of an array.
        random_state: seed.

    Raises:
        InputError: if the classes have no order, or ``x`` is not one row of these columns.

    Example:
        >>> from orcu import OrdinalLogistic
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(400, 2))
        >>> y = np.digitize(2 * X[:, 0] + rng.logistic(size=400), [-1, 1])
        >>> explanation = explain_row(OrdinalLogistic().fit(X, y), [1.5, 0.0], X)
        >>> explanation.columns, explanation.grade_contributions.round(1).tolist()
        (('x0', 'x1'), [1.0, 0.0])
    """
    grades = grade_values(estimator)
    background = as_rows(background)
    n_permutations = as_count(n_permutations, name="n_permutations", minimum=2)
    names = column_names(background, feature_names)
    rng = np.random.default_rng(random_state)
    background = take_rows(background, sample_rows(len(background), MAX_BACKGROUND, random_state))
    row = as_row(x, background)
    cells, n = stack_rows(background, row), len(background)

    def values(coalitions: npt.NDArray[np.bool_]) -> FloatArray:
        """v(S) of each coalition, (m, C)."""
        source = np.where(coalitions[:, None], n, np.arange(n)[None, :, None])
        probs = as_probs(predict_cells(estimator, cells, source.reshape(-1, len(names))))
        return probs.reshape(len(coalitions), n, -1).mean(axis=1)

    if len(names) <= MAX_EXACT:
        contributions, errors = _exact(values, len(names)), np.zeros(len(names))
        about = f"Exact interventional Shapley values over {n} background rows."
    else:
        by_order = _by_order(values, len(names), n_permutations, rng)
        contributions = by_order.mean(axis=0)
        errors = (by_order @ grades).std(axis=0, ddof=1) / np.sqrt(n_permutations)
        about = f"Interventional Shapley values, {2 * n_permutations} orders of the columns, {n} background rows."
    ends = values(np.stack([np.zeros(len(names), dtype=bool), np.ones(len(names), dtype=bool)]))
    order = np.argsort(-np.abs(contributions @ grades), kind="stable")
    texts = _texts(row)
    return RowExplanation(
        tuple(names[k] for k in order),
        tuple(texts[k] for k in order),
        contributions[order],
        ends[1],
        ends[0],
        errors[order],
        grades,
        tuple(canonical_label(label) for label in np.asarray(estimator.classes_).tolist()),
        about,
    )


def _exact(values: Any, width: int) -> FloatArray:
    """Shapley values of all coalitions, (D, C)."""
    coalitions = np.array([[bool(code >> k & 1) for k in range(width)] for code in range(2**width)])
    value = values(coalitions)
    contributions = np.zeros((width, value.shape[1]))
    for column in range(width):
        others = [k for k in range(width) if k != column]
        for size in range(width):
            weight = 1 / (width * comb(width - 1, size))
            for members in combinations(others, size):
                code = sum(1 << k for k in members)
                contributions[column] += weight * (value[code | 1 << column] - value[code])
    return contributions


def _by_order(values: Any, width: int, n_permutations: int, rng: np.random.Generator) -> FloatArray:
    """Contributions by random order, each averaged with its reverse, (R, D, C)."""
    results = []
    for _ in range(n_permutations):
        order = rng.permutation(width)
        both = []
        for direction in (order, order[::-1]):
            coalitions = np.zeros((width + 1, width), dtype=bool)
            for step, column in enumerate(direction):
                coalitions[step + 1 :, column] = True
            steps = np.diff(values(coalitions), axis=0)
            contributions = np.empty_like(steps)
            contributions[direction] = steps
            both.append(contributions)
        results.append(np.mean(both, axis=0))
    return np.array(results)


def _texts(row: Any) -> list[str]:
    """Values of a row as text."""
    cells = [row[name].to_list()[0] for name in row.columns] if is_frame(row) else np.asarray(row).ravel().tolist()
    return [f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells]
