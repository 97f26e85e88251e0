"""Maximum likelihood of the cumulative logit model: Newton's method, covariances, separation, Brant's test.

The model is P(y <= k | x) = sigma(theta_k - x beta_k) for the thresholds k = 0..C-2. The coefficients beta_k are the
same for all thresholds (proportional odds), except for the columns that are excluded from this assumption.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.stats import chi2

from orcu.errors import ConvergenceError, InputError
from orcu.inputs import FloatArray, IntArray
from orcu.kernels import cumulative

MAX_ITERATIONS = 200
TOLERANCE = 1e-11  # of Newton's decrement, the squared distance to the optimum in standard errors
MIN_INFORMATION = 1e-6  # in rows: less information on a direction may be a sign of separation
MIN_SEPARATION = 1e-4  # distance, in standard deviations, by which a direction must move a row to separate it
RANK_TOLERANCE = 1e-9


@dataclass(frozen=True)
class CumulativeLogit:
    """A fitted cumulative logit model.

    The parameters are ordered: C - 1 thresholds, then the coefficients in the order of the columns. A column without
    the assumption of proportional odds has C - 1 of them, one per threshold.

    Attributes:
        parameters: thresholds and coefficients, (P,).
        covariance: inverse of the penalised information, (P, P).
        scores: derivative of each row's weighted log-likelihood in the parameters, (n, P).
        log_likelihood: weighted sum of log p(y | x), without the penalty.
        separating: whether each column is part of a direction in which the likelihood grows for ever, (F,).
        undetermined: whether each column is constant or part of a linear dependence, (F,). Such coefficients are those
            of the smallest norm, in standard deviations of the columns.
        partial: whether each column has a coefficient per threshold, (F,).
        num_classes: number of classes, C.
    """

    parameters: FloatArray
    covariance: FloatArray
    scores: FloatArray
    log_likelihood: float
    separating: npt.NDArray[np.bool_]
    undetermined: npt.NDArray[np.bool_]
    partial: npt.NDArray[np.bool_]
    num_classes: int

    def predict_cumulative_logits(self, x: FloatArray) -> FloatArray:
        """theta_k - x beta_k of each row and threshold, (n, C - 1)."""
        return cumulative_logits(self.parameters, x, self.partial, self.num_classes)

    def cluster_covariance(self, groups: IntArray) -> FloatArray:
        """Cluster-robust covariance A (sum_g s_g s_g^T) A of the parameters, with the inverse information A.

        s_g is the sum of a group's scores. The factor G / (G - 1) (n - 1) / (n - P) corrects for few groups G, as in
        statsmodels.

        Args:
            groups: number of each row's group, (n,).
        """
        n, size = self.scores.shape
        n_groups = int(groups.max()) + 1
        sums = np.zeros((n_groups, size))
        np.add.at(sums, groups, self.scores)
        factor = n_groups / (n_groups - 1) * (n - 1) / (n - size)
        return factor * self.covariance @ (sums.T @ sums) @ self.covariance


def cumulative_logits(
    parameters: FloatArray, x: FloatArray, partial: npt.NDArray[np.bool_], num_classes: int
) -> FloatArray:
    """theta_k - x beta_k of each row and threshold, (n, C - 1); the parameters are ordered as in `CumulativeLogit`."""
    n_thresholds = num_classes - 1
    owner = column_of_coefficient(partial, num_classes)
    coef, logits = parameters[n_thresholds:], np.tile(parameters[:n_thresholds], (len(x), 1))
    common = ~partial[owner]
    logits -= (x[:, ~partial] @ coef[common])[:, None]
    if partial.any():
        logits -= x[:, partial] @ coef[~common].reshape(-1, n_thresholds)
    return logits


def column_of_coefficient(partial: npt.NDArray[np.bool_], num_classes: int) -> IntArray:
    """Number of the column of each coefficient.

    Example:
        >>> column_of_coefficient(np.array([False, True]), num_classes=4).tolist()
        [0, 1, 1, 1]
    """
    return np.repeat(np.arange(len(partial)), np.where(partial, num_classes - 1, 1))


def fit_cumulative_logit(
    x: FloatArray,
    y: IntArray,
    num_classes: int,
    *,
    penalty: float = 0.0,
    sample_weight: FloatArray | None = None,
    partial: npt.NDArray[np.bool_] | None = None,
) -> CumulativeLogit:
    """Maximise sum_i w_i log p(y_i | x_i) - penalty / 2 |beta|^2 by Newton's method.

    The log-likelihood is concave, so the maximum is unique. The columns are standardised inside, which changes rounding
    errors only.

    Args:
        x: columns, (n, F).
        y: labels 0..C-1, each of which occurs, (n,).
        num_classes: number of classes, C.
        penalty: strength of the ridge penalty on the coefficients.
        sample_weight: weight of each row, or ``None``.
        partial: whether each column has a coefficient per threshold, (F,); none by default.

    Raises:
        ConvergenceError: if the iterations do not end.

    Example:
        >>> x = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
        >>> model = fit_cumulative_logit(x, np.array([0, 1, 0, 2, 1, 2]), 3)
        >>> model.parameters.round(3).tolist()
        [1.447, 3.851, 1.06]
    """
    partial = np.zeros(x.shape[1], dtype=bool) if partial is None else partial
    weight = np.ones(len(x)) if sample_weight is None else sample_weight
    center, scale = x.mean(axis=0), x.std(axis=0)
    constant = scale <= RANK_TOLERANCE * np.maximum(1.0, np.abs(center))
    scale = np.where(constant, 1.0, scale)
    z = (x - center) / scale
    owner, n_thresholds = column_of_coefficient(partial, num_classes), num_classes - 1
    ends = _Ends(z, y, partial, num_classes)
    ridge = np.concatenate([np.zeros(n_thresholds), penalty / scale[owner] ** 2])
    below = np.cumsum(np.bincount(y, weight, num_classes))[:-1] / weight.sum()
    start = np.concatenate([np.log(below / (1 - below)), np.zeros(len(owner))])
    parameters = _newton(ends, weight, ridge, start)
    log_likelihood, by_row, hessian = ends.derivatives(parameters, weight)
    information = np.diag(ridge) - hessian
    separating, undetermined = np.zeros((2, x.shape[1]), dtype=bool)
    if not penalty:
        undetermined = _undetermined(z)
    smallest = float(np.linalg.eigvalsh(information)[0])
    if not penalty and smallest < MIN_INFORMATION * weight.mean():
        separating[np.unique(owner[ends.separating_direction()[n_thresholds:] != 0])] = True
    # Undo the standardisation: beta = beta_z / scale, and theta moves by center beta.
    to_raw = np.diag(np.concatenate([np.ones(n_thresholds), 1 / scale[owner]]))
    threshold = 0
    for index, column in enumerate(owner):
        rows: slice | int = slice(0, n_thresholds)
        if partial[column]:
            rows, threshold = threshold, (threshold + 1) % n_thresholds
        to_raw[rows, n_thresholds + index] = center[column] / scale[column]
    covariance = to_raw @ np.linalg.pinv(information, hermitian=True) @ to_raw.T
    # Scores in the raw parameters: the chain rule with the inverse of the transformation.
    scores: FloatArray = np.linalg.solve(to_raw.T, by_row.T).T.astype(np.float64)
    return CumulativeLogit(
        to_raw @ parameters, covariance, scores, log_likelihood, separating, undetermined, partial, num_classes
    )


class _Ends:
    """Upper and lower end of each row's interval, as linear functions of the parameters."""

    def __init__(self, z: FloatArray, y: IntArray, partial: npt.NDArray[np.bool_], num_classes: int) -> None:
        n, n_thresholds = len(z), num_classes - 1
        owner = column_of_coefficient(partial, num_classes)
        position = np.full(len(owner), -1)  # threshold of a coefficient; -1 for all
        position[partial[owner]] = np.tile(np.arange(n_thresholds), int(partial.sum()))
        self.has_upper, self.has_lower = y < n_thresholds, y > 0
        self.upper, self.lower = (
            np.concatenate(
                [
                    np.eye(n_thresholds)[np.clip(threshold, 0, n_thresholds - 1)],
                    np.where((position < 0) | (position == threshold[:, None]), -z[:, owner], 0.0),
                ],
                axis=1,
            )
            * exists[:, None]
            for threshold, exists in ((y, self.has_upper), (y - 1, self.has_lower))
        )
        self.difference = self.upper - self.lower  # columns with one coefficient cancel exactly
        self.inner = self.has_upper & self.has_lower
        self.n = n

    def __call__(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Upper ends, lower ends and widths of the intervals, (n,) each."""
        upper = np.where(self.has_upper, self.upper @ parameters, np.inf)
        lower = np.where(self.has_lower, self.lower @ parameters, -np.inf)
        return upper, lower, np.where(self.inner, self.difference @ parameters, np.inf)

    def value(self, parameters: FloatArray, weight: FloatArray) -> float:
        """The log-likelihood; minus infinity where an interval is empty."""
        upper, lower, width = self(parameters)
        if (width <= 0).any():
            return -np.inf
        return float(weight @ cumulative.log_interval(upper, lower, width)[0])

    def derivatives(self, parameters: FloatArray, weight: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """The log-likelihood, its derivatives by row, (n, P), and its Hessian, (P, P)."""
        ends = self(parameters)
        log_prob, by_upper, by_lower = cumulative.log_interval(*ends)
        by_row = weight[:, None] * (by_upper[:, None] * self.upper + by_lower[:, None] * self.lower)
        of_upper, of_lower, cross = (weight * part for part in cumulative.log_interval_hessian(*ends))
        mixed = self.upper.T @ (cross[:, None] * self.lower)
        hessian = self.upper.T @ (of_upper[:, None] * self.upper) + self.lower.T @ (of_lower[:, None] * self.lower)
        return float(weight @ log_prob), by_row, hessian + mixed + mixed.T

    def separating_direction(self) -> FloatArray:
        """A direction in which no row's likelihood falls and some row's grows, (P,); zeros if there is none.

        It is the solution of a linear programme: the largest sum of the rows' gains within a box.
        """
        at_most = np.concatenate([-self.upper[self.has_upper], self.lower[self.has_lower]])
        solution = linprog(-self.difference.sum(axis=0), A_ub=at_most, b_ub=np.zeros(len(at_most)), bounds=(-1, 1))
        direction = np.zeros(self.upper.shape[1]) if solution.x is None else solution.x
        if np.abs(self.difference @ direction).max() < MIN_SEPARATION:
            return np.zeros(len(direction))
        return np.where(np.abs(direction) > MIN_SEPARATION, direction, 0.0)


def _newton(ends: _Ends, weight: FloatArray, ridge: FloatArray, start: FloatArray) -> FloatArray:
    """Parameters of the highest penalised log-likelihood, by Newton's method with step halving."""

    def value(at: FloatArray) -> float:
        return ends.value(at, weight) - float(ridge @ at**2) / 2

    parameters, current = start, value(start)
    for _ in range(MAX_ITERATIONS):
        _, by_row, hessian = ends.derivatives(parameters, weight)
        gradient = by_row.sum(axis=0) - ridge * parameters
        direction = np.linalg.lstsq(np.diag(ridge) - hessian, gradient, rcond=None)[0]
        decrement = float(gradient @ direction) / weight.mean()
        step = 1.0
        while (following := value(parameters + step * direction)) < current and step > TOLERANCE:
            step /= 2
        if step > TOLERANCE:
            parameters, current = parameters + step * direction, following
        if decrement < TOLERANCE or step <= TOLERANCE:
            return parameters
    raise ConvergenceError(
        f"the likelihood did not converge in {MAX_ITERATIONS} iterations; use a penalty, such as C=1.0."
    )


def _undetermined(z: FloatArray) -> npt.NDArray[np.bool_]:
    """Whether each column of a standardised matrix is constant or part of a linear dependence, (F,)."""
    _, singular, directions = np.linalg.svd(z, full_matrices=z.shape[0] < z.shape[1])
    rank = np.count_nonzero(singular > RANK_TOLERANCE * max(z.shape) * max(singular.max(initial=0.0), 1.0))
    return (np.abs(directions[rank:]) > RANK_TOLERANCE**0.5).any(axis=0)


@dataclass(frozen=True)
class BrantTest:
    """Brant's test of proportional odds: chi-squared statistic, degrees of freedom and p-value.

    A small p-value says that the effect of the column differs between the thresholds.

    Attributes:
        statistic: statistic of all columns together.
        df: its degrees of freedom, (C - 2) times the number of coefficients.
        p_value: its p-value.
        columns: statistic, degrees of freedom and p-value of each column.
    """

    statistic: float
    df: int
    p_value: float
    columns: dict[str, tuple[float, int, float]]

    def __str__(self) -> str:
        tests = {"all columns": (self.statistic, self.df, self.p_value)} | self.columns
        width = max(map(len, tests))
        lines = [f"{'':{width}}  {'chi2':>8}  {'df':>3}  {'p-value':>7}"]
        lines += [f"{name:{width}}  {value:8.2f}  {df:3d}  {p:7.3f}" for name, (value, df, p) in tests.items()]
        return "\n".join([*lines, "", "A small p-value is evidence against proportional odds."])


def brant_test(
    x: FloatArray,
    y: IntArray,
    num_classes: int,
    *,
    names: Sequence[str],
    columns: Sequence[str],
    sample_weight: FloatArray | None = None,
) -> BrantTest:
    """Test whether the coefficients of the logistic regressions of y > k are equal (Brant, Biometrics 46, 1990).

    The covariance of the coefficients of the thresholds k <= m is A_k (X' W_km X) A_m with
    W_km = pi_m - pi_k pi_m, the inverse information A_k and pi_k = P(y > k). The statistic is Wald's for the
    differences from the first threshold.

    Args:
        x: columns, (n, F).
        y: labels 0..C-1, each of which occurs, (n,).
        num_classes: number of classes, C, at least 3.
        names: names of the columns of ``x``.
        columns: the user's column that each column of ``x`` belongs to.
        sample_weight: weight of each row, or ``None``.

    Raises:
        InputError: if a threshold is separated by the columns, or a column is a linear combination of others.
    """
    weight = np.ones(len(x)) if sample_weight is None else sample_weight
    n_thresholds, width = num_classes - 1, x.shape[1]
    design, coefs, above = np.column_stack([np.ones(len(x)), x]), [], []
    for threshold in range(n_thresholds):
        model = fit_cumulative_logit(x, (y > threshold).astype(np.int64), 2, sample_weight=weight)
        if model.undetermined.any():
            column = names[int(np.argmax(model.undetermined))]
            raise InputError(
                f"X: column {column!r} is constant or a linear combination of others, so that its coefficient is not "
                "determined. Drop it."
            )
        if model.separating.any():
            column = names[int(np.argmax(model.separating))]
            raise InputError(
                f"X: column {column!r} separates the classes up to number {threshold} (from 0) from those above, so "
                "that their logistic regression has no finite coefficients. Leave the column out, or merge classes."
            )
        coefs.append(model.parameters[1:])
        above.append(np.exp(cumulative.log_probs(x @ coefs[-1], model.parameters[:1])[:, 1]))
    inverse = [np.linalg.inv(design.T @ ((weight * pi * (1 - pi))[:, None] * design)) for pi in above]
    covariance = np.empty((n_thresholds, width, n_thresholds, width))
    for k in range(n_thresholds):
        for m in range(k, n_thresholds):
            middle = design.T @ ((weight * (above[m] - above[k] * above[m]))[:, None] * design)
            covariance[k, :, m] = (inverse[k] @ middle @ inverse[m])[1:, 1:]
            covariance[m, :, k] = covariance[k, :, m].T
    difference = (np.array(coefs[1:]) - coefs[0]).ravel()
    contrast = np.kron(np.column_stack([-np.ones(n_thresholds - 1), np.eye(n_thresholds - 1)]), np.eye(width))
    variance = contrast @ covariance.reshape(n_thresholds * width, -1) @ contrast.T
    owner = np.tile(np.array(columns, dtype=object), n_thresholds - 1)

    def wald(chosen: npt.NDArray[np.bool_]) -> tuple[float, int, float]:
        part = difference[chosen]
        statistic = float(part @ np.linalg.solve(variance[np.ix_(chosen, chosen)], part))
        return statistic, len(part), float(chi2.sf(statistic, len(part)))

    tests = {name: wald(owner == name) for name in dict.fromkeys(columns)}
    return BrantTest(*wald(np.ones(len(difference), dtype=bool)), tests)
