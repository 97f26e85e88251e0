"""Model of raters that differ: a true grade per case, and a shift and a spread of each rater on a latent scale.

The model is that of Dawid and Skene (1979) with ordered structure: instead of a free confusion matrix, each rater has
two parameters. It is optional; orcu uses it nowhere unless you fit it.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, sparse, special

from orcu.errors import InputError
from orcu.geometry import log_probs
from orcu.inputs import FloatArray
from orcu.raters.votes import NOT_RATED, Ratings
from orcu.resampling import TAILS, Estimate

STATE_VERSION = 1
# Weak priors, which decide only what few ratings leave open. Shift, log spread and log gap have mean 0.
SHIFT_SD = 1.0  # of a rater's shift, in grades
LOG_SPREAD_SD = 0.5  # of a rater's log relative spread: 95 % within a factor of 2.7
LOG_GAP_SD = 0.5  # of the log gaps between neighbouring true grades
LOG_SCALE_MEAN, LOG_SCALE_SD = -1.0, 1.0  # of the log spread of all raters, in grades
PRIOR_CASES = 1.0  # imagined cases, spread equally over the classes, added to the shares of true grades
STARTS = (0.1, 0.3, 0.8)  # spreads from which the optimiser starts
SAME_OPTIMUM = 1e-3  # largest difference of the log posterior between starts that found the same optimum
GRADIENT_TOLERANCE = 1e-3  # of the log posterior per parameter at the optimum
MIN_CASES = 2  # raters with fewer cases have an infinite interval
_STEP = 1e-4  # of the central differences of the gradient


@dataclass(frozen=True)
class RaterEstimate:
    """Shift and spread of a rater, with 95 % intervals.

    Attributes:
        rater: name of the rater.
        n_cases: number of cases that the rater graded.
        shift: number of grades by which the rater grades higher than the average of all raters.
        spread: noise of the rater divided by the geometric mean of all raters.
    """

    rater: str
    n_cases: int
    shift: Estimate
    spread: Estimate

    @property
    def difference(self) -> str:
        """What distinguishes the rater where an interval excludes the average: milder means higher grades.

        Example:
            >>> RaterEstimate("ann", 90, Estimate(0.5, 0.2, 0.8), Estimate(1.1, 0.8, 1.5)).difference
            'milder'
        """
        parts = []
        if self.shift.low > 0 or self.shift.high < 0:
            parts.append("milder" if self.shift.low > 0 else "harsher")
        if self.spread.low > 1 or self.spread.high < 1:
            parts.append("noisier" if self.spread.low > 1 else "more consistent")
        return ", ".join(parts)


class _Parameters(NamedTuple):
    """Natural parameters of the model."""

    log_prior: FloatArray  # log share of each true grade, (C,)
    location: FloatArray  # mu_t, position of each true grade, from 0 to C - 1, (C,)
    shift: FloatArray  # b_r, sum 0, (R,)
    spread: FloatArray  # s_r, (R,)


class _Layout:
    """Positions of the parameters in the vector of the optimiser.

    Free logits of the prior (C - 1, the first is 0), log gaps (C - 1), log scale (1), raw shifts (R) and raw log
    spreads (R). The raw values are centred, which their priors make unique. Without differences between raters the last
    two are left out.
    """

    def __init__(self, num_classes: int, raters: int, differ: bool) -> None:
        self.num_classes, self.raters, self.differ = num_classes, raters, differ
        c = num_classes - 1
        self.prior, self.gaps, self.scale = slice(0, c), slice(c, 2 * c), 2 * c
        self.shift = slice(2 * c + 1, 2 * c + 1 + raters * differ)
        self.spread = slice(2 * c + 1 + raters * differ, 2 * c + 1 + 2 * raters * differ)
        self.size = 2 * c + 1 + 2 * raters * differ

    def parameters(self, vector: FloatArray) -> _Parameters:
        shift, log_spread = np.zeros(self.raters), np.zeros(self.raters)
        if self.differ:
            shift, log_spread = vector[self.shift], vector[self.spread]
        return _Parameters(
            log_probs(np.r_[0.0, vector[self.prior]]),
            np.r_[0.0, np.cumsum(self.gap(vector))],
            shift - shift.mean(),
            np.exp(vector[self.scale] + log_spread - log_spread.mean()),
        )

    def gap(self, vector: FloatArray) -> FloatArray:
        """Gaps between neighbouring true grades, mean 1, shape (C - 1,)."""
        gaps: FloatArray = (self.num_classes - 1) * np.exp(log_probs(vector[self.gaps]))
        return gaps


def _indicators(ratings: Ratings) -> Any:
    """Indicator of each rater and grade for each case, shape (n, R C), sparse."""
    case, rater = np.nonzero(ratings.codes != NOT_RATED)
    column = rater * ratings.num_classes + ratings.codes[case, rater]
    return sparse.csr_array(
        (np.ones(len(case)), (case, column)), shape=(len(ratings), len(ratings.raters) * ratings.num_classes)
    )


def _cuts(parameters: _Parameters) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Scaled thresholds z_rtk, (R, C, C - 1), and the ends of each grade's interval, (R, C, C)."""
    location = parameters.location
    thresholds = (location[1:] + location[:-1]) / 2
    scaled = (thresholds - location[:, None] - parameters.shift[:, None, None]) / parameters.spread[:, None, None]
    edge = np.full((*scaled.shape[:2], 1), np.inf)
    return scaled, np.concatenate([-edge, scaled], axis=-1), np.concatenate([scaled, edge], axis=-1)


def _log_grade_probs(parameters: _Parameters) -> FloatArray:
    """Log P(g | t, r) for each rater, true grade and grade, shape (R, C, C).

    P = F(high) - F(low) with the logistic function F, written as F(high) F(-low) (1 - exp(low - high)): exact in the
    tails.
    """
    _, low, high = _cuts(parameters)
    return -np.logaddexp(0, -high) - np.logaddexp(0, low) + np.log(-np.expm1(low - high))


class _Posterior(NamedTuple):
    log_likelihood: float
    true_grade: FloatArray  # posterior of the true grade, (n, C)


def _posterior(indicators: Any, parameters: _Parameters) -> _Posterior:
    log_grade = _log_grade_probs(parameters)
    by_grade = log_grade.transpose(0, 2, 1).reshape(-1, log_grade.shape[1])
    joint = indicators @ by_grade + parameters.log_prior
    case = special.logsumexp(joint, axis=1)
    return _Posterior(float(case.sum()), np.exp(joint - case[:, None]))


def _objective(vector: FloatArray, indicators: Any, layout: _Layout) -> tuple[float, FloatArray]:
    """Negative log posterior and its gradient."""
    parameters = layout.parameters(vector)
    posterior = _posterior(indicators, parameters)
    n, size = posterior.true_grade.shape
    expected = (indicators.T @ posterior.true_grade).reshape(layout.raters, size, size).transpose(0, 2, 1)
    scaled, low, high = _cuts(parameters)
    with np.errstate(over="ignore"):
        inner = 1 / np.expm1(high - low)
    upper, lower = special.expit(-high) + inner, special.expit(low) + inner  # of log P, the second with a minus sign
    by_cut = expected[..., :-1] * upper[..., :-1] - expected[..., 1:] * lower[..., 1:]  # d log L / d z_rtk
    by_value = by_cut / parameters.spread[:, None, None]
    by_spread = -(by_cut * scaled).sum(axis=(1, 2))
    by_threshold = by_value.sum(axis=(0, 1))
    by_location = -by_value.sum(axis=(0, 2))
    by_location[:-1] += by_threshold / 2
    by_location[1:] += by_threshold / 2
    by_gap = np.cumsum(by_location[::-1])[::-1][1:]
    gap, prior = layout.gap(vector), np.exp(parameters.log_prior)

    gradient = np.zeros(layout.size)
    pseudo = PRIOR_CASES / size
    gradient[layout.prior] = (posterior.true_grade.sum(axis=0) + pseudo - (n + PRIOR_CASES) * prior)[1:]
    gradient[layout.gaps] = gap * (by_gap - (gap @ by_gap) / gap.sum()) - vector[layout.gaps] / LOG_GAP_SD**2
    deviation = (vector[layout.scale] - LOG_SCALE_MEAN) / LOG_SCALE_SD
    gradient[layout.scale] = by_spread.sum() - deviation / LOG_SCALE_SD
    log_posterior = posterior.log_likelihood + pseudo * parameters.log_prior.sum() - deviation**2 / 2
    log_posterior -= float(vector[layout.gaps] @ vector[layout.gaps]) / (2 * LOG_GAP_SD**2)
    if layout.differ:
        by_shift = -by_value.sum(axis=(1, 2))
        for part, by, sd in ((layout.shift, by_shift, SHIFT_SD), (layout.spread, by_spread, LOG_SPREAD_SD)):
            gradient[part] = by - by.mean() - vector[part] / sd**2
            log_posterior -= float(vector[part] @ vector[part]) / (2 * sd**2)
    return -log_posterior, -gradient


class _Fit(NamedTuple):
    vector: FloatArray
    log_posterior: float
    log_likelihood: float
    converged: bool
    starts_agreeing: int


def _fit(ratings: Ratings, indicators: Any, layout: _Layout) -> _Fit:
    """Maximum of the posterior from several starts; the best one counts."""
    counts = ratings.counts.sum(axis=0) + 1.0
    results = []
    for spread in STARTS:
        start = np.zeros(layout.size)
        start[layout.prior] = np.log(counts[1:] / counts[0])
        start[layout.scale] = np.log(spread)
        results.append(
            optimize.minimize(
                _objective,
                start,
                args=(indicators, layout),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": 2000, "maxfun": 5000, "ftol": 1e-13, "gtol": GRADIENT_TOLERANCE / 10},
            )
        )
    best = min(results, key=lambda result: float(result.fun))
    agreeing = sum(float(result.fun) - float(best.fun) <= SAME_OPTIMUM for result in results)
    likelihood = _posterior(indicators, layout.parameters(best.x)).log_likelihood
    converged = bool(np.abs(best.jac).max() <= GRADIENT_TOLERANCE * max(1.0, abs(float(best.fun)) / 1000))
    return _Fit(best.x, -float(best.fun), likelihood, converged, agreeing)


def _covariance(vector: FloatArray, indicators: Any, layout: _Layout) -> FloatArray:
    """Inverse of the observed information of the penalised likelihood (central differences of the gradient)."""
    columns = []
    for index in range(layout.size):
        step = np.zeros(layout.size)
        step[index] = _STEP
        ahead, behind = (_objective(vector + sign * step, indicators, layout)[1] for sign in (1, -1))
        columns.append((ahead - behind) / (2 * _STEP))
    information = np.array(columns)
    return np.asarray(np.linalg.inv((information + information.T) / 2))


class RaterModel:
    """Latent-class model of raters that differ, with a true grade t of each case.

    Rater r gives a case of true grade t the grade nearest to mu_t + b_r + s_r e, with logistic noise e:
    P(g <= k | t, r) = F((tau_k - mu_t - b_r) / s_r) and tau_k = (mu_k + mu_{k+1}) / 2. Each rater has a shift b_r and a
    spread s_r; the true grades have free shares pi_t and positions mu_t.

    The scale is that of the grades: mu_0 = 0 and mu_{C-1} = C - 1. The average rater is the reference: the shifts sum
    to 0, and the relative spreads have the geometric mean 1. The fit maximises the likelihood times weak priors. These
    are normal with the standard deviations 1 grade (shift), 0.5 (log relative spread), 0.5 (log gaps of mu) and 1 (log
    of the common spread, mean -1), and one imagined case spread over the true grades. The intervals follow from the
    observed information. A rater with fewer than two cases has an infinite interval, since nothing is known about it.

    The model describes systematic differences between raters only if there are some. `fit` compares it with the model
    without differences and warns if that one has the smaller BIC.

    Attributes:
        raters_: a `RaterEstimate` for each rater.
        prior_: share of each true grade, shape (C,).
        locations_: position mu_t of each true grade, shape (C,).
        scale_: geometric mean of the spreads, in grades.
        log_likelihood_, log_likelihood_equal_: of this model, and of the one without differences between raters.
        bic_, bic_equal_: Bayesian information criterion of the two (n is the number of cases); smaller is better.
        p_value_: of the likelihood-ratio test with 2 (R - 1) degrees of freedom; approximate, too large if raters have
            few cases.
        raters_differ_: whether this model has the smaller BIC.
        converged_: whether the optimiser reached its tolerance.
        starts_agreeing_: number of the 3 starts that found the same optimum.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.integers(4, size=300)
        >>> noisy = truth[:, None] + [-0.5, 0.0, 0.5] + 0.4 * rng.logistic(size=(300, 3))
        >>> ratings = Ratings(np.rint(noisy).clip(0, 3).astype(int), ("ann", "bob", "eve"), 4)
        >>> model = RaterModel().fit(ratings)
        >>> [rater.difference for rater in model.raters_]
        ['harsher', '', 'milder']
        >>> model.predict_proba(ratings).shape
        (300, 4)
    """

    raters_: tuple[RaterEstimate, ...]
    prior_: FloatArray
    locations_: FloatArray
    scale_: float
    log_likelihood_: float
    log_likelihood_equal_: float
    bic_: float
    bic_equal_: float
    p_value_: float
    converged_: bool
    starts_agreeing_: int
    n_cases_: int

    def fit(self, ratings: Ratings) -> "RaterModel":
        """Fit the model.

        Raises:
            InputError: if there are fewer than two raters, no case has two grades, or a case has no grade.
        """
        _check_cases(ratings)
        n, raters, size = len(ratings), len(ratings.raters), ratings.num_classes
        if raters < 2:
            raise InputError(f"ratings: expected two or more raters, got {raters}; with one, nothing can be compared.")
        if ratings.counts.sum(axis=1).max() < 2:
            raise InputError("ratings: no case has two or more grades, so raters cannot be compared.")
        indicators = _indicators(ratings)
        layout, equal_layout = _Layout(size, raters, True), _Layout(size, raters, False)
        equal, full = _fit(ratings, indicators, equal_layout), _fit(ratings, indicators, layout)
        self.n_cases_ = n
        self.log_likelihood_, self.log_likelihood_equal_ = full.log_likelihood, equal.log_likelihood
        shared = 2 * (size - 1)  # shares, gaps of mean 1, and the scale
        self.bic_ = (shared + 2 * (raters - 1)) * np.log(n) - 2 * full.log_likelihood
        self.bic_equal_ = shared * np.log(n) - 2 * equal.log_likelihood
        ratio = max(0.0, 2 * (full.log_likelihood - equal.log_likelihood))
        self.p_value_ = float(special.chdtrc(2 * (raters - 1), ratio))
        self.converged_, self.starts_agreeing_ = full.converged and equal.converged, full.starts_agreeing
        parameters = layout.parameters(full.vector)
        self.prior_, self.locations_ = np.exp(parameters.log_prior), parameters.location
        self.scale_ = float(np.exp(full.vector[layout.scale]))
        self.raters_ = _rater_table(ratings, parameters, _covariance(full.vector, indicators, layout), layout)
        if not self.converged_:
            warnings.warn("RaterModel: the optimiser did not reach its tolerance; see converged_.", stacklevel=2)
        if not self.raters_differ_:
            warnings.warn(
                "RaterModel: these ratings do not show that raters differ (the model without differences has the "
                "smaller BIC). Use the votes as they are.",
                stacklevel=2,
            )
        return self

    @property
    def raters_differ_(self) -> bool:
        """Whether the ratings show differences between raters: this model has the smaller BIC."""
        self._check_is_fitted()
        return bool(self.bic_ < self.bic_equal_)

    def predict_proba(self, ratings: Ratings) -> FloatArray:
        """Posterior of the true grade of each case given its grades, shape (n, C).

        The parameters of the model are taken as known.

        Raises:
            InputError: if a rater was not in the fit, the number of classes differs, or a case has no grade.
        """
        self._check_is_fitted()
        _check_cases(ratings)
        if ratings.num_classes != len(self.prior_):
            raise InputError(f"ratings: {ratings.num_classes} classes, expected {len(self.prior_)} as in the fit.")
        row = {rater.rater: number for number, rater in enumerate(self.raters_)}
        unknown = [rater for rater in ratings.raters if rater not in row]
        if unknown:
            raise InputError(f"ratings: the rater {unknown[0]!r} was not in the fit. Fit again, or leave it out.")
        rows = [row[rater] for rater in ratings.raters]
        shift, spread = (
            np.array([getattr(self.raters_[number], name).value for number in rows]) for name in ("shift", "spread")
        )
        parameters = _Parameters(np.log(self.prior_), self.locations_, shift, self.scale_ * spread)
        return _posterior(_indicators(ratings), parameters).true_grade

    def to_dict(self) -> dict[str, Any]:
        """The fitted model as plain data for JSON."""
        self._check_is_fitted()
        return {
            "state_version": STATE_VERSION,
            "prior": self.prior_.tolist(),
            "locations": self.locations_.tolist(),
            "raters": [
                {
                    "rater": rater.rater,
                    "n_cases": rater.n_cases,
                    "shift": _plain(rater.shift),
                    "spread": _plain(rater.spread),
                }
                for rater in self.raters_
            ],
            **{name: getattr(self, f"{name}_") for name in _SCALARS},
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "RaterModel":
        """Restore a fitted model from the data of `to_dict`.

        Raises:
            InputError: if the data are not those of a rater model of this version.
        """
        if not isinstance(state, Mapping) or state.get("state_version") != STATE_VERSION:
            raise InputError(f"state: expected the data of a RaterModel with state_version {STATE_VERSION}.")
        model = cls()
        try:
            model.prior_ = np.array(state["prior"], dtype=np.float64)
            model.locations_ = np.array(state["locations"], dtype=np.float64)
            model.raters_ = tuple(
                RaterEstimate(
                    str(rater["rater"]),
                    int(rater["n_cases"]),
                    _restored(rater["shift"], -np.inf),
                    _restored(rater["spread"], 0),
                )
                for rater in state["raters"]
            )
            for name, kind in _SCALARS.items():
                setattr(model, f"{name}_", kind(state[name]))
        except (LookupError, TypeError, ValueError) as error:
            raise InputError(f"state: the data of the RaterModel are damaged ({error!r}); fit it again.") from None
        size = len(model.prior_)
        spreads = np.array([[rater.shift.value, rater.spread.value] for rater in model.raters_]).reshape(-1, 2)
        if (
            model.prior_.shape != (size,)
            or model.locations_.shape != (size,)
            or not (model.prior_ > 0).all()
            or abs(model.prior_.sum() - 1) > 1e-6
            or not (np.diff(model.locations_) > 0).all()
            or not len(spreads)
            or not np.isfinite(spreads).all()
            or not (spreads[:, 1] > 0).all()
            or not 0 < model.scale_ < np.inf
        ):
            raise InputError("state: the parameters of the RaterModel are out of range; fit it again.")
        return model

    def _check_is_fitted(self) -> None:
        if not hasattr(self, "raters_"):
            from orcu.errors import NotFittedError  # imports scikit-learn

            raise NotFittedError("RaterModel is not fitted; call fit(ratings) first.")


_SCALARS: dict[str, type] = {
    "scale": float,
    "n_cases": int,
    "log_likelihood": float,
    "log_likelihood_equal": float,
    "bic": float,
    "bic_equal": float,
    "p_value": float,
    "converged": bool,
    "starts_agreeing": int,
}


def _check_cases(ratings: Ratings) -> None:
    if not isinstance(ratings, Ratings):
        raise InputError(f"ratings: expected Ratings with the name of each rater, got {type(ratings).__name__}.")
    empty = (ratings.codes == NOT_RATED).all(axis=1)
    if empty.any():
        raise InputError(f"ratings: case {int(np.argmax(empty))} has no grade. Leave such cases out.")


def _rater_table(
    ratings: Ratings, parameters: _Parameters, covariance: FloatArray, layout: _Layout
) -> tuple[RaterEstimate, ...]:
    centring = np.eye(layout.raters) - 1 / layout.raters
    relative = np.log(parameters.spread) - np.log(parameters.spread).mean()
    z = special.ndtri(TAILS[1])
    half_shift, half_spread = (
        z * np.sqrt(np.diag(centring @ covariance[part, part] @ centring)) for part in (layout.shift, layout.spread)
    )
    n_cases = (ratings.codes != NOT_RATED).sum(axis=0)
    half_shift[n_cases < MIN_CASES] = half_spread[n_cases < MIN_CASES] = np.inf
    return tuple(
        RaterEstimate(
            rater,
            int(n),
            Estimate(float(b), float(b - db), float(b + db)),
            Estimate(float(np.exp(u)), float(np.exp(u - du)), float(np.exp(u + du))),
        )
        for rater, n, b, db, u, du in zip(
            ratings.raters, n_cases, parameters.shift, half_shift, relative, half_spread, strict=True
        )
    )


def _plain(estimate: Estimate) -> dict[str, float | None]:
    ends = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return {name: number if np.isfinite(number) else None for name, number in ends.items()}


def _restored(state: Mapping[str, Any], lowest: float) -> Estimate:
    """Estimate from plain data; ``None`` is an infinite end."""
    low, high = state["low"], state["high"]
    return Estimate(
        float(state["value"]), lowest if low is None else float(low), np.inf if high is None else float(high)
    )
