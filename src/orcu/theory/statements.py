"""Numerical checks of the statements in Section III-C and Appendices IV-V of the paper.

Each function measures one statement for a `Setting` (a label, scale and distance) and returns a `Check`. `verify` runs
all of them in the order of the paper.
"""

import dataclasses
import functools
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from orcu import geometry
from orcu.inputs import FloatArray, IntArray
from orcu.kernels import penalties
from orcu.metrics.scoring import rps_per_row
from orcu.theory.equilibrium import equilibrium

EXACT = 1e-8  # largest error of an identity
ROUNDING = 1e-12  # largest rounding error of a sum of probabilities in float64


@dataclasses.dataclass(frozen=True)
class Check:
    """Result of checking one statement.

    Attributes:
        source: equation or section of the paper.
        statement: the statement.
        measured: measured number.
        requirement: condition on that number.
        passed: whether the condition holds; ``None`` if the statement could not be checked.
        note: reason why it could not be checked, else empty.
    """

    source: str
    statement: str
    measured: float
    requirement: str
    passed: bool | None
    note: str = ""


def verify(
    num_classes: int,
    label: int,
    scale: float = 3.0,
    distance: str | Mapping[str, Any] = "squared",
    *,
    random_state: int = 0,
) -> list[Check]:
    """Check all statements of the theory for one label, scale and distance.

    Args:
        num_classes: number of classes, C.
        label: class 0..C-1.
        scale: barrier scale s > 0.
        distance: distance of the soft targets, see `orcu.kernels.soft_targets`.
        random_state: seed of the random logits for statements about all logits.

    Returns:
        One `Check` per statement, in the order of the paper.

    Raises:
        InputError: if an argument has an invalid value.

    Example:
        >>> results = verify(num_classes=5, label=2, scale=3.0)
        >>> len(results), [check.statement for check in results if check.passed is False]
        (30, [])
    """
    setting = Setting(num_classes, label, scale, distance, random_state=random_state)
    return [statement(setting) for statement in STATEMENTS]


class Setting:
    """One label, scale and distance, with its equilibrium and random logits and reference distributions."""

    def __init__(
        self,
        num_classes: int,
        label: int,
        scale: float,
        distance: str | Mapping[str, Any] = "squared",
        *,
        samples: int = 200,
        random_state: int = 0,
    ) -> None:
        self.distance = distance
        self.solution = equilibrium(num_classes, label, scale, distance)
        self.num_classes, self.label, self.scale = num_classes, int(label), float(scale)
        self.anchor = self.solution.anchor
        rng = np.random.default_rng(random_state)
        spread = rng.choice([0.1, 1.0, 5.0], size=(samples, 1))
        self.logits: FloatArray = spread * rng.standard_normal((samples, num_classes))
        self.y: IntArray = np.full(samples, self.label)
        self.log_probs: FloatArray = geometry.log_probs(self.logits)
        self.gaps: FloatArray = geometry.directed_gaps(self.logits, self.y)
        self.signs = geometry.gap_signs(num_classes)[self.label]  # directions of the gaps around the label
        # unimodal distributions with mode y: sorted probabilities, assigned by distance to y
        distances = np.abs(np.arange(num_classes) - self.label)
        descending = -np.sort(-rng.dirichlet(np.ones(num_classes), size=samples), axis=1)
        raw = descending[:, distances]
        self.references: FloatArray = raw / raw.sum(axis=1, keepdims=True)

    def softce(self, logits: FloatArray) -> FloatArray:
        """-sum_k a_k log p_k of each row."""
        return -(geometry.log_probs(logits) @ self.anchor)

    def lbe(self, logits: FloatArray) -> FloatArray:
        """sum_k I(r_k) of each row."""
        r = geometry.directed_gaps(logits, np.full(len(logits), self.label))
        return penalties.log_barrier(r, scale=self.scale).sum(axis=-1)

    def ray(self, t: FloatArray) -> FloatArray:
        """Points z_j = -t |j - y| of the ordinal ray, one row per t."""
        return -t[:, None] * np.abs(np.arange(self.num_classes) - self.label)

    def pair_masses(self) -> tuple[FloatArray, FloatArray]:
        """Probabilities of the farther and of the nearer class of each adjacent pair, for the random logits."""
        p, upward = np.exp(self.log_probs), self.signs > 0
        return np.where(upward, p[:, 1:], p[:, :-1]), np.where(upward, p[:, :-1], p[:, 1:])

    def interval_mass(self, probs: FloatArray) -> FloatArray:
        """P(l <= K <= r) for l = 0..y (rows) and r = y..C-1 (columns)."""
        below = np.concatenate([[0.0], np.cumsum(probs)])
        return below[self.label + 1 :] - below[: self.label + 1, None]


STATEMENTS: list[Callable[[Setting], Check]] = []
_Outcome = tuple[float, str, bool | None] | tuple[float, str, bool | None, str]  # the last fields of a `Check`


def _statement(source: str, text: str) -> Callable[[Callable[[Setting], _Outcome]], Callable[[Setting], Check]]:
    """Decorator that adds a measurement to `STATEMENTS` as a check of a statement."""

    def decorate(measure: Callable[[Setting], _Outcome]) -> Callable[[Setting], Check]:
        @functools.wraps(measure)
        def check(case: Setting) -> Check:
            return Check(source, text, *measure(case))

        STATEMENTS.append(check)
        return check

    return decorate


def _identity(error: FloatArray, positive: FloatArray | None = None) -> _Outcome:
    """An equation with an error of at most `EXACT`; all values of ``positive`` must be above 0."""
    worst = float(np.abs(error).max())
    strict = positive is None or bool((np.asarray(positive) > 0).all())
    return worst, f"≤ {EXACT:.0e}", worst <= EXACT and strict


def _positive(slack: FloatArray, *, strict: bool = True) -> _Outcome:
    """An inequality: the smallest slack is above 0, or at least 0 up to rounding if not strict."""
    smallest = float(np.min(slack))
    return smallest, "> 0" if strict else "≥ 0", smallest > 0 if strict else smallest >= -ROUNDING


def _at_most(value: float, bound: float) -> _Outcome:
    return value, f"≤ {bound:.4g}", value <= bound * (1 + EXACT) + ROUNDING


@_statement("Eq. 19", "a CE step widens every margin")
def ce_margin_growth(case: Setting) -> _Outcome:
    """A CE step widens every margin by eta [(1 - p_y) + p_k]."""
    step = 0.1
    p = np.exp(case.log_probs)
    others = np.arange(case.num_classes) != case.label
    after = case.logits - step * (p - ~others)
    before_margin = case.logits[:, [case.label]] - case.logits
    growth = (after[:, [case.label]] - after - before_margin)[:, others]
    stated = step * (p[:, others].sum(axis=1, keepdims=True) + p[:, others])
    return _identity(growth - stated, stated)


@_statement("Eqs. 18-20", "CE has no finite optimum")
def ce_has_no_finite_optimum(case: Setting) -> _Outcome:
    """CE decreases along z = t e_y without bound: it is positive and decreasing at every finite t."""
    t = np.linspace(1.0, 700.0, 100)
    return _positive(-np.diff(np.log1p((case.num_classes - 1) * np.exp(-t))))


@_statement("Sec. III-C", "an LBE step gives r - 2ηI'(r) < r")
def pair_update(case: Setting) -> _Outcome:
    """A gradient step on one LBE pair gives r_new = r - 2 eta I'(r) < r."""
    step = 0.1
    gradient = penalties.log_barrier_gradient(case.gaps, scale=case.scale)
    signed = case.signs * gradient  # dI(r_k)/dz_{k+1}
    higher = case.logits[:, 1:] - step * signed
    lower = case.logits[:, :-1] + step * signed
    error = (case.signs * (higher - lower) - case.gaps + 2 * step * gradient) / max(1.0, case.scale)
    return _identity(error, gradient)


@_statement("Sec. III-C", "SoftPlus' slope ≤ eʳ, LBE's is 1/(s|r|)")
def softplus_decay(case: Setting) -> _Outcome:
    """The gradient of SoftPlus is at most e^r, that of LBE is 1/(s |r|), which is larger for large |r|."""
    t = (20 + 4 * np.log1p(case.scale) + 1 / case.scale**2) * np.linspace(1.0, 4.0, 10)
    gradient = penalties.log_barrier_gradient(-t, scale=case.scale)
    log_softplus = -t - np.log1p(np.exp(-t))  # log of the derivative of log(1 + e^r) at r = -t
    error = np.concatenate([gradient * case.scale * t - 1, np.maximum(log_softplus + t, 0.0)])
    return _identity(error, np.log(gradient) - log_softplus)


@_statement("Sec. III-D", "feasible: y is the unique maximum")
def feasible_is_correct(case: Setting) -> _Outcome:
    """Logits in F, all r_k <= -1/s^2, have their unique maximum at y, by at least the margin."""
    margin = 1 / case.scale**2
    steps = -case.signs * (margin + np.abs(case.gaps))  # away from y each step falls by at least the margin
    logits = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
    others = np.delete(logits, case.label, axis=1)
    lead = (logits[:, case.label] - others.max(axis=1)) / margin
    rounding = np.finfo(np.float64).eps * np.abs(logits).max() / margin
    inside = bool(geometry.is_feasible(logits * (1 + 4 * np.finfo(np.float64).eps), case.y, scale=case.scale).all())
    passed = float(lead.min()) >= 1 - 8 * max(rounding, EXACT) and (inside or rounding > EXACT)
    return float(lead.min()), "≥ 1 margin", passed


@_statement("Eqs. 79-82", "two-pair gradient = autograd's")
def two_pair_gradient(case: Setting) -> _Outcome:
    """The closed-form gradients of LBE and SoftCE (p - a) equal those of autograd."""
    if importlib.util.find_spec("torch") is None:
        return np.nan, f"≤ {EXACT:.0e}", None, "needs orcu[train]"
    import torch

    z = torch.tensor(case.logits, requires_grad=True)
    r = geometry.directed_gaps(z, torch.tensor(case.y))
    softce = -(z.log_softmax(-1) * torch.tensor(case.anchor)).sum()
    total = softce + penalties.log_barrier(r, scale=case.scale).sum()
    (by_autograd,) = torch.autograd.grad(total, z)
    signed = case.signs * penalties.log_barrier_gradient(case.gaps, scale=case.scale)
    stated = np.exp(case.log_probs) - case.anchor
    stated[:, 1:] += signed
    stated[:, :-1] -= signed
    return _identity((by_autograd.numpy() - stated) / max(1.0, case.scale))


@_statement("Eq. 25", "SoftCE strictly proper: KL(a‖p) > 0")
def strict_propriety(case: Setting) -> _Outcome:
    """SoftCE exceeds its value at p = a by KL(a || p) > 0 for every other p."""
    at_anchor = -(case.solution.anchor * case.solution.log_anchor).sum()
    return _positive(case.softce(case.logits) - at_anchor)


@_statement("Eq. 26", "LBE, CE+LBE unbounded on the ray")
def lbe_is_unbounded(case: Setting) -> _Outcome:
    """Along the ordinal ray LBE is -((C-1)/s) log t, and CE + LBE decreases."""
    t = max(1.0, 1 / case.scale**2) * np.logspace(1, 8, 8)  # all gaps are in the logarithmic branch
    lbe = case.lbe(case.ray(t))
    stated = -(case.num_classes - 1) / case.scale * np.log(t)
    ce = -geometry.log_probs(case.ray(t))[:, case.label]
    return _identity((lbe - stated) * case.scale / (case.num_classes - 1), -np.diff(ce + lbe))


@_statement("Eq. 27", "SoftCE+LBE rises on the ray")
def softce_dominates_on_the_ray(case: Setting) -> _Outcome:
    """SoftCE grows like t sum_j a_j |j - y|, faster than LBE decreases, so their sum eventually rises."""
    drift = float(case.anchor @ np.abs(np.arange(case.num_classes) - case.label))
    turning_point = max(1.0, (case.num_classes - 1) / (case.scale * drift), 1 / case.scale**2)
    t = turning_point * np.logspace(1, 7, 13)
    return _positive(np.diff(case.softce(case.ray(t)) + case.lbe(case.ray(t))))


@_statement("Eq. 28", "F_s strictly convex: one minimiser")
def strict_convexity(case: Setting) -> _Outcome:
    """The Hessian at the optimum is positive definite in relative gaps, so the optimum is unique."""
    eq, upward = case.solution, case.signs > 0
    p_tails = np.where(upward, np.cumsum(eq.probs[::-1])[::-1][1:], geometry.cumulative(eq.probs))  # beyond each gap
    size = np.where(p_tails > 0, -np.where(p_tails > 0, eq.gaps, 0.0), 0.0)
    joint = np.where(upward[:, None] == upward, np.minimum(p_tails[:, None], p_tails), 0.0)
    matrix = (joint - p_tails[:, None] * p_tails) * size[:, None] * size
    matrix[np.diag_indices_from(matrix)] += (eq.log_shift < np.log(case.scale)) / case.scale
    return _positive(np.linalg.eigvalsh(matrix)[:1].astype(np.float64))


@_statement("Eq. 28", "F_s strictly convex at random points")
def convexity_everywhere(case: Setting) -> _Outcome:
    """The Hessian diag(p) - p p^T + B^T diag(I''(r)) B is positive definite off the constants at random logits too.

    The range of the logits is limited to 10; beyond it the smallest eigenvalue is below the rounding of float64.
    """
    logits = case.logits[: max(2, 1_000_000 // case.num_classes**2)]  # fewer rows for very many classes
    logits = logits * np.minimum(1.0, 10 / np.ptp(logits, axis=1, keepdims=True))
    p = geometry.probs(logits)
    r = geometry.directed_gaps(logits, case.y[: len(logits)])
    inside = r <= -1 / case.scale**2
    second = np.where(inside, 1 / (case.scale * np.where(inside, r, 1.0) ** 2), 0.0)  # I'' of the logarithmic branch
    hessian = p[:, :, None] * np.eye(case.num_classes) - p[:, :, None] * p[:, None]
    pairs = np.diff(np.eye(case.num_classes), axis=0)  # B up to signs, which cancel in the product
    hessian += (pairs.T * second[:, None]) @ pairs
    hessian += 1.0 / case.num_classes  # gives the constant vector, to which softmax is invariant, an eigenvalue of 1
    return _positive(np.linalg.eigvalsh(hessian)[:, 0])


@_statement("Eq. 29", "SoftCE ≥ a_min (max z - min z)")
def coercivity(case: Setting) -> _Outcome:
    """SoftCE >= a_min (max z - min z)."""
    spread = case.logits.max(axis=1) - case.logits.min(axis=1)
    lse = case.logits.max(axis=1) - case.log_probs.max(axis=1)
    softce = lse - case.logits @ case.anchor
    return _positive(softce - case.anchor.min() * spread, strict=False)


def _lbe_lower_bound(case: Setting, spread: FloatArray) -> FloatArray:
    """The right-hand side of Eq. 30 for logits of range R."""
    constant = (case.num_classes - 1) * 2 / case.scale * max(0.0, -np.log(case.scale))
    return -(case.num_classes - 1) / case.scale * np.log1p(spread) - constant


@_statement("Eq. 30", "LBE ≥ -(C-1)/s log(1+R) - C_s")
def lbe_lower_bound(case: Setting) -> _Outcome:
    """LBE >= -((C-1)/s) log(1 + R) - C_s, with C_s = (C-1) (2/s) max(0, -log s)."""
    slack = case.lbe(case.logits) - _lbe_lower_bound(case, np.ptp(case.logits, axis=1))
    return _positive(slack / max(1.0, case.scale), strict=False)


@_statement("Eq. 31", "F_s coercive: above a_min R - O(log R)")
def objective_is_coercive(case: Setting) -> _Outcome:
    """F_s >= a_min R - ((C-1)/s) log(1 + R) - C_s, which grows without bound in R."""
    spread = np.ptp(case.logits, axis=1)
    least = float(case.anchor.min())
    with np.errstate(over="ignore", divide="ignore"):
        turning_point = float(np.divide(case.num_classes - 1, case.scale * least))  # the bound rises beyond it
    if not turning_point < 1e290:
        return np.nan, "≥ 0", None, "a_min too small for any float R"
    slack = case.softce(case.logits) + case.lbe(case.logits) - least * spread - _lbe_lower_bound(case, spread)
    far = max(1.0, turning_point) * np.logspace(0.5, 6, 12)
    rising = np.diff(least * far + _lbe_lower_bound(case, far))
    smallest = float(min(slack.min() / max(1.0, case.scale), np.sign(rising).min()))
    return smallest, "≥ 0", smallest >= -ROUNDING


@_statement("Eq. 32", "optimum strictly unimodal, mode y")
def strict_unimodality(case: Setting) -> _Outcome:
    """All directed gaps of the optimum are negative: it is strictly unimodal with mode y."""
    return _positive(-case.solution.gaps)


@_statement("Eqs. 33-34", "p = a - Bᵀq")
def stationarity(case: Setting) -> _Outcome:
    """P = a - B^T q, coordinate by coordinate."""
    signed = case.signs * case.solution.shift
    balance = case.solution.probs - case.solution.anchor
    balance[1:] += signed
    balance[:-1] -= signed
    return _identity(balance)


@_statement("Eq. 36", "0 < q ≤ s")
def shift_range(case: Setting) -> _Outcome:
    """0 < q <= s."""
    log_shift = case.solution.log_shift
    inside = bool(np.isfinite(log_shift).all() and (log_shift <= np.log(case.scale)).all())
    return float(np.exp(log_shift.max())), f"≤ {case.scale:g}", inside


def _distance_to_anchor(case: Setting, scales: FloatArray, distance: str | Mapping[str, Any]) -> FloatArray:
    """||z* - log a|| after fixing the shift, for each scale."""
    eq = equilibrium(case.num_classes, case.label, scales, distance)
    steps = case.signs * (eq.gaps - geometry.directed_gaps(eq.log_anchor, eq.center))
    moved = np.concatenate([np.zeros((len(scales), 1)), np.cumsum(steps, axis=1)], axis=1)
    return np.linalg.norm(moved - moved.mean(axis=1, keepdims=True), axis=1)


def _inverse_proportional(values: FloatArray, argument: FloatArray) -> _Outcome:
    """Two values are proportional to 1/argument: the exponent between them is 1."""
    exponent = float(np.log(values[0] / values[1]) / np.log(argument[1] / argument[0]))
    return exponent, "1 ± 0.05", abs(exponent - 1) <= 0.05


@_statement("Eq. 35", "‖z* - log a‖ ~ 1/s for large s")
def large_scale_rate(case: Setting) -> _Outcome:
    """The distance between the logits of the optimum and of the anchor decreases like 1/s; measures the exponent."""
    with np.errstate(divide="ignore", over="ignore"):
        start = 1e3 / np.exp(case.solution.log_tails.min())
    if not start < 1e300:
        return np.nan, "1 ± 0.05", None, "tail too thin for any float s"
    scales = start * np.array([1.0, 10.0])
    return _inverse_proportional(_distance_to_anchor(case, scales, case.distance), scales)


@_statement("Eq. 35", "‖z* - log a‖ ~ 1/α for large s")
def small_gap_rate(case: Setting) -> _Outcome:
    """The same distance decreases like 1/alpha in the gap of the anchor; measures the exponent.

    The constant of Eq. 35 depends on the curvature at the anchor. Two anchors with gaps of about alpha = 0.01/C and
    0.001/C, by Huber's distance with a small delta, have nearly the same curvature, so that alpha alone differs. The
    scale is so large that the optimum moves a gap by 2 % at most.
    """
    alphas = np.array([1e-2, 1e-3]) / case.num_classes
    scales = np.array([100 * case.num_classes / alphas.min() ** 2])
    moved = [_distance_to_anchor(case, scales, {"name": "huber", "delta": float(alpha)})[0] for alpha in alphas]
    return _inverse_proportional(np.array(moved), alphas)


@_statement("Eqs. 8, 37", "thresholds move by q: F_p = F_a ∓ q")
def cumulative_identity(case: Setting) -> _Outcome:
    """F_p(k) = F_a(k) - q_k left of y and F_a(k) + q_k from y on."""
    eq = case.solution
    return _identity(geometry.cumulative(eq.probs) - geometry.cumulative(eq.anchor) - case.signs * eq.shift)


@_statement("Eq. 38", "intervals around y gain q_(l-1) + q_r")
def interval_concentration(case: Setting) -> _Outcome:
    """Every proper interval around y gains q_{l-1} + q_r."""
    eq, y = case.solution, case.label
    left = np.concatenate([[0.0], eq.shift[:y]])  # q_{l-1} for l = 0..y
    right = np.concatenate([eq.shift[y:], [0.0]])  # q_r for r = y..C-1
    gains = left[:, None] + right
    error = case.interval_mass(eq.probs) - case.interval_mass(eq.anchor) - gains
    # gains that underflow to 0 are positive too: their logarithms are finite
    log_left = np.concatenate([[-np.inf], eq.log_shift[:y]])
    log_right = np.concatenate([eq.log_shift[y:], [-np.inf]])
    log_gains = np.maximum(log_left[:, None], log_right)
    proper = np.ones_like(gains, dtype=bool)
    proper[0, -1] = False  # the interval of all classes gains nothing
    return _identity(error, np.isfinite(log_gains[proper]).astype(np.float64))


@_statement("Eqs. 39-40", "RPS(a) - RPS(p) = stated sum > 0")
def rps_gain(case: Setting) -> _Outcome:
    """RPS(a) - RPS(p) equals the stated sum over thresholds and is positive."""
    eq, y = case.solution, np.array([case.label])
    gain = rps_per_row(eq.anchor[None], y) - rps_per_row(eq.probs[None], y)
    tails = np.exp(eq.log_tails)  # F_a left of y, 1 - F_a from y on
    stated = eq.shift * (2 * tails - eq.shift)  # each positive: q <= F_a, or 1 - F_a
    return _identity(gain - stated.sum(), stated.sum())


def _kl_to_equilibrium(case: Setting) -> float:
    """KL(a || p); remote gaps enter as sum_k A_k u_k, which does not overflow."""
    eq = case.solution
    entropy = -(eq.anchor * eq.log_anchor).sum()
    return float(np.exp(eq.log_tails + eq.log_gaps).sum() - np.log(eq.probs[case.label]) - entropy)


def _slope_to_equilibrium(case: Setting) -> float:
    """<grad SoftCE(z), z - z_a> = <p - a, z - z_a>, summed over the gaps: sum_k (A_k - P_k) (u_k - u_a,k)."""
    eq = case.solution
    p_tails = np.where(case.signs > 0, np.cumsum(eq.probs[::-1])[::-1][1:], geometry.cumulative(eq.probs))
    tails, anchor_gaps = np.exp(eq.log_tails), -geometry.directed_gaps(eq.log_anchor[None], eq.center[None])[0]
    gaps = -np.where(p_tails > 0, eq.gaps, 0.0)
    near = (tails - p_tails) * (gaps - anchor_gaps)
    remote = np.exp(eq.log_tails + eq.log_gaps) - tails * anchor_gaps  # P = 0
    return float(np.where(p_tails > 0, near, remote).sum())


@_statement("Eq. 41", "KL(a‖p) ≤ (C-1)/s")
def kl_bound(case: Setting) -> _Outcome:
    """KL(a || p) <= (C-1)/s."""
    return _at_most(_kl_to_equilibrium(case), (case.num_classes - 1) / case.scale)


@_statement("Eq. 42", "KL(a‖p) ≤ ∇ᵀ(z - z_a), ∇ of SoftCE")
def kl_below_slope(case: Setting) -> _Outcome:
    """KL(a || p) <= <grad SoftCE(z), z - z_a>, by convexity of SoftCE."""
    return _at_most(_kl_to_equilibrium(case), _slope_to_equilibrium(case))


@_statement("Eq. 43", "∇ᵀ(z - z_a) = qᵀ(r_a - r), -qr ≤ 1/s")
def slope_by_gaps(case: Setting) -> _Outcome:
    """<grad SoftCE(z), z - z_a> = q^T r_a - q^T r, where -q_k r_k <= 1/s for each gap."""
    eq = case.solution
    products = np.exp(eq.log_shift + eq.log_gaps)  # -q_k r_k
    anchor_gaps = geometry.directed_gaps(eq.log_anchor[None], eq.center[None])[0]
    stated = products.sum() + (eq.shift * anchor_gaps).sum()
    error = np.array([_slope_to_equilibrium(case) - stated]) / max(1.0, abs(stated))
    return _identity(error, 1 + EXACT - case.scale * products)


@_statement("Eq. 41", "‖p - a‖₁ ≤ √(2(C-1)/s)")
def l1_bound(case: Setting) -> _Outcome:
    """||p - a||_1 <= sqrt(2 (C-1)/s)."""
    distance = float(np.abs(case.solution.probs - case.solution.anchor).sum())
    return _at_most(distance, float(np.sqrt(2 * (case.num_classes - 1) / case.scale)))


@_statement("Appx. IV-E", "farther side's share of a pair = σ(r)")
def farther_fraction(case: Setting) -> _Outcome:
    """The farther class's share of a pair's mass is sigmoid(r)."""
    farther, nearer = case.pair_masses()
    return _identity(farther / (farther + nearer) - geometry.farther_fraction(case.logits, case.y))


@_statement("Eqs. 46-47", "v/m = max(0, tanh(r/2))")
def violation_identity(case: Setting) -> _Outcome:
    """V > 0 exactly where r > 0, and v / m = [tanh(r/2)]_+."""
    farther, nearer = case.pair_masses()
    v = geometry.adjacent_violations(np.exp(case.log_probs), case.y)
    imbalance = np.maximum(geometry.mass_imbalance(case.logits, case.y), 0.0)
    agree = ((case.gaps > 0) == (farther > nearer)).astype(np.float64)
    return _identity(v / (farther + nearer) - imbalance, agree)


@_statement("Eq. 48", "v ≤ 2 TV(ref, p)")
def violation_bound(case: Setting) -> _Outcome:
    """v_k <= |p_k - ref_k| + |p_{k+1} - ref_{k+1}| <= 2 TV for every unimodal reference."""
    p = np.exp(case.log_probs)
    v = geometry.adjacent_violations(p, case.y)
    difference = np.abs(p - case.references)
    pairwise = difference[:, :-1] + difference[:, 1:]
    slack = np.concatenate([pairwise - v, difference.sum(axis=1, keepdims=True) - pairwise], axis=1)
    return _positive(slack, strict=False)


@_statement("Eq. 49", "KL(ref‖p) ≥ v²/2")
def kl_floor(case: Setting) -> _Outcome:
    """KL(ref || p) >= v^2 / 2 for every unimodal reference."""
    v = geometry.adjacent_violations(np.exp(case.log_probs), case.y)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = case.references * (np.log(case.references) - case.log_probs)
    kl = np.where(case.references > 0, terms, 0.0).sum(axis=1, keepdims=True)
    return _positive(kl - v**2 / 2, strict=False)
