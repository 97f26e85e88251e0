"""Human grades that are not missing at random: a check, and weights that correct it.

The comparison of systems, prediction sets and error rates hold for items of the kind that people graded. They hold for
all judged items if the graded ones are a random part of them.
"""

from dataclasses import replace

import numpy as np

from orcu.errors import InputError
from orcu.evaluation.findings import adjust
from orcu.inputs import FloatArray, ObjectArray
from orcu.judges.bias import ColumnEffect, estimate_effect, regressors
from orcu.judges.grades import Grades

LEVEL = 0.01  # of the check of all columns together
MIN_PROBABILITY = 0.01  # smaller probabilities of being graded count as this one, so that no item dominates
REGULARISATION = 1.0  # inverse strength of the ridge penalty of the logistic regression (scikit-learn's default)


def missingness_effects(grades: Grades) -> tuple[ColumnEffect, ...]:
    """Test whether the grades of the judges or other columns predict which items have a human grade.

    The effect is the change of the share of graded items per unit of the column, or that of a category against the
    others, within systems if there are several. Its interval and p-value are those of `orcu.judges.bias.bias_effects`.
    The columns are the expected grade of each judge, and the columns of ``grades.rating_rows`` that are constant within
    items, or the subgroup.

    Returns:
        The effects; empty if all items have a human grade, or none has.

    Raises:
        InputError: if a column has too many categories.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> judged = rng.integers(5, size=400)
        >>> human = [int(k) + 1 if k < 2 or rng.random() < 0.3 else None for k in judged]
        >>> (effect,) = missingness_effects(Grades.from_arrays("1..5", {"gpt": np.eye(5)[judged]}, human=human))
        >>> print(effect)
        human grades: the share of graded items falls by 0.218 (95 % interval 0.196 to 0.24) per unit of grade of gpt.
    """
    is_graded = grades.human_mask
    if is_graded.all() or not is_graded.any():
        return ()
    controls, cluster = _system_controls(grades), grades.cluster_codes()
    effects = []
    for name, column in _item_columns(grades).items():
        for category, reference, x in regressors(name, column, np.full(len(grades), True)):
            used = ~np.isnan(x)
            n_clusters = len(set(cluster[used].tolist()))
            names = ("human grades", name, category, reference, int(used.sum()), n_clusters)
            effect = ColumnEffect(*names, outcome="share of graded items")
            outcome = is_graded[used].astype(np.float64)
            effects.append(estimate_effect(effect, outcome, x[used], cluster[used], controls=controls[used]))
    adjusted = adjust({number: effect.p_value for number, effect in enumerate(effects)})
    return tuple(replace(effect, adjusted_p_value=adjusted[number]) for number, effect in enumerate(effects))


def missingness_message(grades: Grades) -> str:
    """Warning about the columns that predict which items have a human grade; empty if none does at the level of 1 %."""
    significant = [effect for effect in missingness_effects(grades) if effect.adjusted_p_value <= LEVEL]
    if not significant:
        return ""
    effect = min(significant, key=lambda effect: effect.adjusted_p_value)
    more = f" So do {len(significant) - 1} more columns." if len(significant) > 1 else ""
    return (
        f"The items with human grades are not a random part of the judged items. {effect}{more} Coverage and error "
        "rates hold for items of the graded kind. Draw the graded items at random. For a comparison of systems, "
        "weights can correct it (graded_weights, --reweight)."
    )


def graded_weights(grades: Grades) -> FloatArray:
    """Inverse of the estimated probability that an item has a human grade, shape (n,).

    The probability is that of a logistic regression with a ridge penalty on the columns of `missingness_effects`, the
    squares of the numbers and the systems, and at least 1 %. The weights correct a choice that depends on these columns
    only.

    Raises:
        InputError: if no item lacks a human grade, or none has one.

    Example:
        >>> judged = np.repeat([0, 4], 100)
        >>> human = [1] * 80 + [None] * 20 + [5] * 20 + [None] * 80
        >>> grades = Grades.from_arrays("1..5", {"gpt": np.eye(5)[judged]}, human=human)
        >>> graded_weights(grades)[[0, 100]].round(1)
        array([1.3, 4.8])
    """
    from sklearn.linear_model import LogisticRegression

    is_graded = grades.human_mask
    if is_graded.all() or not is_graded.any():
        raise InputError("human: weights need items with and without a human grade.")
    columns = [_system_controls(grades)]
    for column in _item_columns(grades).values():
        if column.dtype == object:
            categories = sorted(set(column.tolist()))[1:]
            columns.append(np.array([column == category for category in categories], dtype=np.float64).T)
        else:
            is_missing = np.isnan(column)
            values = np.where(is_missing, np.nanmean(column), column)
            scaled = (values - values.mean()) / (values.std() or 1.0)
            columns.append(np.column_stack([scaled, scaled**2, is_missing]))
    design = np.column_stack([column.reshape(len(grades), -1) for column in columns])
    model = LogisticRegression(C=REGULARISATION, max_iter=1000).fit(design, is_graded)
    return 1 / np.maximum(model.predict_proba(design)[:, 1], MIN_PROBABILITY)


def _system_controls(grades: Grades) -> FloatArray:
    """Indicators of all systems but the first, shape (n, S - 1)."""
    if grades.system is None:
        return np.zeros((len(grades), 0))
    names = sorted(set(grades.system.tolist()))[1:]
    return np.array([grades.system == name for name in names], dtype=np.float64).T.reshape(len(grades), -1)


def _item_columns(grades: Grades) -> dict[str, FloatArray | ObjectArray]:
    """Expected grade of each judge, and the other columns, with an entry for each item."""
    columns: dict[str, FloatArray | ObjectArray] = {
        f"grade of {judge}": grades.expected_grade(judge) for judge in grades.judges
    }
    rows = grades.rating_rows
    if rows is not None:
        first: dict[str, int] = {}
        for number, item in enumerate(rows.item.tolist()):
            first.setdefault(item, number)
        index = np.array([first.get(item, -1) for item in grades.items.tolist()], dtype=np.intp)
        row_of = np.array([first[item] for item in rows.item.tolist()], dtype=np.intp)
        for name, column in rows.columns.items():
            if column.dtype == object:
                differs = column != column[row_of]
                values: FloatArray | ObjectArray = np.where(index >= 0, column[index], "(blank)").astype(object)
            else:
                differs = ~np.isclose(column, column[row_of], equal_nan=True)
                values = np.where(index >= 0, column[index], np.nan)
            if not np.any(differs):  # a position differs within items, and cannot decide which items are graded
                columns[name] = values
    elif grades.subgroup is not None:
        columns["subgroup"] = grades.subgroup
    return columns
