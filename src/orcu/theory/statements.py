"""Every statement of Section III-C and Appendices IV-V as a function that measures it.

Each takes a `Setting` and answers with a `Check`: the number measured, what it must satisfy, and
whether it does. `verify` runs them all, in the order of the paper.
"""

import dataclasses
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from orcu import geometry
from orcu.inputs import FloatArray
from orcu.metrics.scoring import rps_rows
from orcu.theory.equilibrium import equilibrium
from orcu.theory.setting import Setting

EXACT = 1e-8  # the error up to which an identity counts as met
ROUNDING = 1e-12  # what a sum of probabilities may be off in float64


@dataclasses.dataclass(frozen=True)
class Check:
    """One statement and how it fared.

    Attributes:
        source: where the paper says it.
        statement: what it says.
        measured: the number measured.
        requirement: what that number must satisfy.
        passed: whether it does; ``None`` if it could not be tried here.
        note: why it could not be tried, else empty.
    """

    source: str
    statement: str
    measured: float
    requirement: str
    passed: bool | None
    note: str = ""


def verify(
    num_classes: int, label: int, scale: float = 3.0, distance: str | Mapping[str, Any] = "squared", *, seed: int = 0
) -> list[Check]:
    """Check every statement of the theory for one label, scale and distance.

    Args:
        num_classes: how many classes, C.
        label: a class 0..C-1.
        scale: s > 0.
        distance: of the soft targets, see `orcu.kernels.soft_targets`.
        seed: of the random logits that statements about all logits are tried on.

    Returns:
        One `Check` per statement, in the order of the paper.

    Raises:
        InputError: if an argument cannot be used.

    Example:
        >>> results = verify(num_classes=5, label=2, scale=3.0)
        >>> len(results), [check.statement for check in results if check.passed is False]
        (27, [])
    """
    setting = Setting(num_classes, label, scale, distance, seed=seed)
    return [statement(setting) for statement in STATEMENTS]


def ce_margin_growth(case: Setting) -> Check:
    """A CE step widens every margin by eta [(1 - p_y) + p_k]."""
    step = 0.1
    p = np.exp(case.log_probs)
    others = np.arange(case.num_classes) != case.label
    after = case.logits - step * (p - ~others)
    before_margin = case.logits[:, [case.label]] - case.logits
    growth = (after[:, [case.label]] - after - before_margin)[:, others]
    stated = step * (p[:, others].sum(axis=1, keepdims=True) + p[:, others])
    return _identity("Eq. 19", "a CE step widens every margin", growth - stated, stated)


def ce_has_no_finite_optimum(case: Setting) -> Check:
    """CE falls along z = t e_y without end: it is positive, and decreasing, at every finite t."""
    t = np.linspace(1.0, 700.0, 100)
    ce = np.log1p((case.num_classes - 1) * np.exp(-t))
    return _positive("Eqs. 18-20", "CE has no finite optimum", -np.diff(ce))


def pair_update(case: Setting) -> Check:
    """One LBE pair moves its gap by r_new = r - 2 eta I'(r) < r."""
    step = 0.1
    slope = geometry.log_barrier_slope(case.gaps, scale=case.scale)
    signed = geometry.gap_signs(case.num_classes)[case.label] * slope  # dI(r_k)/dz_{k+1}
    higher = case.logits[:, 1:] - step * signed
    lower = case.logits[:, :-1] + step * signed
    moved = geometry.gap_signs(case.num_classes)[case.label] * (higher - lower)
    error = (moved - case.gaps + 2 * step * slope) / max(1.0, case.scale)
    return _identity("Sec. III-C", "an LBE step gives r - 2ηI'(r) < r", error, slope)


def two_pair_gradient(case: Setting) -> Check:
    """The closed-form gradient of LBE equals autograd's, and so does SoftCE's p - a."""
    source, statement = "Eqs. 80-83", "two-pair gradient = autograd's"
    if importlib.util.find_spec("torch") is None:
        note = "needs orcu[train]"
        return Check(source, statement, np.nan, f"≤ {EXACT:.0e}", None, note)
    import torch

    z = torch.tensor(case.logits, requires_grad=True)
    r = geometry.directed_gaps(z, torch.tensor(case.y))
    softce = -(z.log_softmax(-1) * torch.tensor(case.anchor)).sum()
    total = softce + geometry.log_barrier(r, scale=case.scale).sum()
    (by_autograd,) = torch.autograd.grad(total, z)
    signed = geometry.gap_signs(case.num_classes)[case.label] * geometry.log_barrier_slope(case.gaps, scale=case.scale)
    stated = np.exp(case.log_probs) - case.anchor
    stated[:, 1:] += signed
    stated[:, :-1] -= signed
    return _identity(source, statement, (by_autograd.numpy() - stated) / max(1.0, case.scale))


def strict_propriety(case: Setting) -> Check:
    """SoftCE exceeds its value at p = a by KL(a || p) > 0 for every other p."""
    eq = case.solution
    at_anchor = -(eq.anchor * eq.log_anchor).sum()
    excess = case.softce(case.logits) - at_anchor
    return _positive("Eq. 25", "SoftCE strictly proper: KL(a‖p) > 0", excess)


def lbe_is_unbounded(case: Setting) -> Check:
    """Along the ordinal ray LBE is -((C-1)/s) log t, and CE + LBE falls with it."""
    t = case.margin_multiples()
    lbe = case.lbe(case.ray(t))
    stated = -(case.num_classes - 1) / case.scale * np.log(t)
    ce = -geometry.log_probs(case.ray(t))[:, case.label]
    error = (lbe - stated) * case.scale / (case.num_classes - 1)
    return _identity("Eq. 26", "LBE, CE+LBE unbounded on the ray", error, -np.diff(ce + lbe))


def softce_holds_the_ray(case: Setting) -> Check:
    """SoftCE grows like t sum_j a_j |j - y|, faster than LBE falls, so their sum turns upward."""
    reach = np.abs(np.arange(case.num_classes) - case.label)
    drift = float(case.anchor @ reach)
    turn = max(1.0, (case.num_classes - 1) / (case.scale * drift), 1 / case.scale**2)
    t = turn * np.logspace(1, 7, 13)
    total = case.softce(case.ray(t)) + case.lbe(case.ray(t))
    return _positive("Eq. 27", "SoftCE+LBE rises on the ray", np.diff(total))


def strict_convexity(case: Setting) -> Check:
    """The Hessian at the optimum is positive definite in relative gaps, so the optimum is unique."""
    eq = case.solution
    p_tails = case.outward_tails(eq.probs)
    right = np.arange(case.num_classes - 1) >= case.label
    size = np.where(p_tails > 0, -np.where(p_tails > 0, eq.gaps, 0.0), 0.0)
    joint = np.where(right[:, None] == right, np.minimum(p_tails[:, None], p_tails), 0.0)
    matrix = (joint - p_tails[:, None] * p_tails) * size[:, None] * size
    matrix[np.diag_indices_from(matrix)] += (eq.log_shift < np.log(case.scale)) / case.scale
    smallest: FloatArray = np.linalg.eigvalsh(matrix)[:1].astype(np.float64)
    return _positive("Eq. 28", "F_s strictly convex: one minimiser", smallest)


def convexity_everywhere(case: Setting) -> Check:
    """The Hessian diag(p) - p p^T + B^T diag(I''(r)) B is positive definite off the constants at random logits too.

    The logits are held within a range of 10: beyond, its smallest eigenvalue drowns in the rounding of float64.
    """
    logits = case.logits[: max(2, 1_000_000 // case.num_classes**2)]  # of very many classes a few rows
    logits = logits * np.minimum(1.0, 10 / np.ptp(logits, axis=1, keepdims=True))
    p = geometry.probs(logits)
    r = geometry.directed_gaps(logits, case.y[: len(logits)])
    inside = r <= -1 / case.scale**2
    bend = np.where(inside, 1 / (case.scale * np.where(inside, r, 1.0) ** 2), 0.0)  # I'' of the barrier branch
    hessian = p[:, :, None] * np.eye(case.num_classes) - p[:, :, None] * p[:, None]
    pairs = np.diff(np.eye(case.num_classes), axis=0)  # B, up to signs that squares do not see
    hessian += (pairs.T * bend[:, None]) @ pairs
    hessian += 1.0 / case.num_classes  # the constants, which softmax does not see, get an eigenvalue of 1
    return _positive("Eq. 28", "F_s strictly convex at random points", np.linalg.eigvalsh(hessian)[:, 0])


def lbe_lower_bound(case: Setting) -> Check:
    """LBE >= -((C-1)/s) log(1 + R) - C_s, with C_s = (C-1) (2/s) max(0, -log s): each branch on its own."""
    slack = case.lbe(case.logits) - _lbe_floor(case, np.ptp(case.logits, axis=1))
    return _positive("Eq. 30", "LBE ≥ -(C-1)/s log(1+R) - C_s", slack / max(1.0, case.scale), strict=False)


def objective_is_coercive(case: Setting) -> Check:
    """F_s >= a_min R - ((C-1)/s) log(1 + R) - C_s, which grows without end in R."""
    source, statement, requirement = "Eq. 31", "F_s coercive: above a_min R - O(log R)", "≥ 0"
    reach = np.ptp(case.logits, axis=1)
    least = float(case.anchor.min())
    with np.errstate(over="ignore", divide="ignore"):
        turn = float(np.divide(case.num_classes - 1, case.scale * least))  # from here on the bound rises
    if not turn < 1e290:
        return Check(source, statement, np.nan, requirement, None, "a_min too small for any float R")
    slack = case.softce(case.logits) + case.lbe(case.logits) - least * reach - _lbe_floor(case, reach)
    far = max(1.0, turn) * np.logspace(0.5, 6, 12)
    rising = np.diff(least * far + _lbe_floor(case, far))
    smallest = float(min(slack.min() / max(1.0, case.scale), np.sign(rising).min()))
    return Check(source, statement, smallest, requirement, smallest >= -ROUNDING)


def feasible_is_right(case: Setting) -> Check:
    """Logits in F, all r_k <= -1/s^2, have their unique maximum at y, by at least the margin."""
    margin = 1 / case.scale**2
    drops = margin + np.abs(case.gaps)  # outward, each at least the margin
    signs = geometry.gap_signs(case.num_classes)[case.label]
    steps = -signs * drops
    logits = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
    others = np.delete(logits, case.label, axis=1)
    lead = (logits[:, case.label] - others.max(axis=1)) / margin
    rounding = np.finfo(np.float64).eps * np.abs(logits).max() / margin
    inside = bool(geometry.is_feasible(logits * (1 + 4 * np.finfo(np.float64).eps), case.y, scale=case.scale).all())
    passed = float(lead.min()) >= 1 - 8 * max(rounding, EXACT) and (inside or rounding > EXACT)
    return Check("Sec. III-D", "feasible: y is the unique maximum", float(lead.min()), "≥ 1 margin", passed)


def softplus_decay(case: Setting) -> Check:
    """SoftPlus' slope is at most e^r, LBE's is 1/(s |r|): deep inside only the latter is felt."""
    t = (20 + 4 * np.log1p(case.scale) + 1 / case.scale**2) * np.linspace(1.0, 4.0, 10)
    slope = geometry.log_barrier_slope(-t, scale=case.scale)
    log_softplus = -t - np.log1p(np.exp(-t))  # log of the derivative of log(1 + e^r) at r = -t
    stronger = np.log(slope) - log_softplus
    error = np.concatenate([slope * case.scale * t - 1, np.maximum(log_softplus + t, 0.0)])
    return _identity("Sec. III-C", "SoftPlus' slope ≤ eʳ, LBE's is 1/(s|r|)", error, stronger)


def _lbe_floor(case: Setting, reach: FloatArray) -> FloatArray:
    """The right-hand side of Eq. 30 for logits that lie R apart."""
    constant = (case.num_classes - 1) * 2 / case.scale * max(0.0, -np.log(case.scale))
    floor: FloatArray = -(case.num_classes - 1) / case.scale * np.log1p(reach) - constant
    return floor


def coercivity(case: Setting) -> Check:
    """SoftCE >= a_min (max z - min z)."""
    spread = case.logits.max(axis=1) - case.logits.min(axis=1)
    lse = case.logits.max(axis=1) - case.log_probs.max(axis=1)
    softce = lse - case.logits @ case.anchor
    slack = softce - case.anchor.min() * spread
    return _positive("Eq. 29", "SoftCE ≥ a_min (max z - min z)", slack, strict=False)


def strict_unimodality(case: Setting) -> Check:
    """All directed gaps of the optimum are negative: strictly unimodal with mode y."""
    return _positive("Eq. 32", "optimum strictly unimodal, mode y", -case.solution.gaps)


def stationarity(case: Setting) -> Check:
    """P = a - B^T q, coordinate by coordinate."""
    eq = case.solution
    signed = geometry.gap_signs(case.num_classes)[case.label] * eq.shift
    balance = eq.probs - eq.anchor
    balance[1:] += signed
    balance[:-1] -= signed
    return _identity("Eqs. 33-34", "p = a - Bᵀq", balance)


def shift_range(case: Setting) -> Check:
    """0 < q <= s."""
    eq = case.solution
    inside = bool(np.isfinite(eq.log_shift).all() and (eq.log_shift <= np.log(case.scale)).all())
    return Check("Eq. 36", "0 < q ≤ s", float(np.exp(eq.log_shift.max())), f"≤ {case.scale:g}", inside)


def large_scale_rate(case: Setting) -> Check:
    """The distance of the optimum's logits from the anchor's falls like 1/s; the exponent is measured."""
    source, statement = "Eq. 35", "‖z* - log a‖ ~ 1/s for large s"
    requirement = "1 ± 0.05"
    with np.errstate(divide="ignore", over="ignore"):
        start = 1e3 / np.exp(case.solution.log_tails.min())
    if not start < 1e300:
        note = "tail too thin for any float s"
        return Check(source, statement, np.nan, requirement, None, note)
    scales = start * np.array([1.0, 10.0])
    eq = equilibrium(case.num_classes, case.label, scales, case.distance)
    anchor_gaps = geometry.directed_gaps(eq.log_anchor, np.full(2, case.label))
    steps = geometry.gap_signs(case.num_classes)[case.label] * (eq.gaps - anchor_gaps)
    moved = np.concatenate([np.zeros((2, 1)), np.cumsum(steps, axis=1)], axis=1)
    distance = np.linalg.norm(moved - moved.mean(axis=1, keepdims=True), axis=1)
    exponent = float(np.log10(distance[0] / distance[1]))
    return Check(source, statement, exponent, requirement, abs(exponent - 1) <= 0.05)


def cumulative_identity(case: Setting) -> Check:
    """F_p(k) = F_a(k) - q_k left of y and F_a(k) + q_k from y on."""
    eq = case.solution
    inward = geometry.gap_signs(case.num_classes)[case.label] * eq.shift
    error = geometry.cumulative(eq.probs) - geometry.cumulative(eq.anchor) - inward
    return _identity("Eqs. 8, 37", "thresholds move by q: F_p = F_a ∓ q", error)


def interval_concentration(case: Setting) -> Check:
    """Every proper interval around y gains q_{l-1} + q_r."""
    eq, y = case.solution, case.label
    left = np.concatenate([[0.0], eq.shift[:y]])  # q_{l-1} for l = 0..y
    right = np.concatenate([eq.shift[y:], [0.0]])  # q_r for r = y..C-1
    gains = left[:, None] + right
    error = case.interval_mass(eq.probs) - case.interval_mass(eq.anchor) - gains
    # gains that underflow are positive all the same: their logarithms are finite
    log_left = np.concatenate([[-np.inf], eq.log_shift[:y]])
    log_right = np.concatenate([eq.log_shift[y:], [-np.inf]])
    log_gains = np.maximum(log_left[:, None], log_right)
    proper = np.ones_like(gains, dtype=bool)
    proper[0, -1] = False  # all classes: nothing to gain
    return _identity(
        "Eq. 38", "intervals around y gain q_(l-1) + q_r", error, np.isfinite(log_gains[proper]).astype(np.float64)
    )


def rps_gain(case: Setting) -> Check:
    """RPS(a) - RPS(p) is the stated sum over thresholds, and positive."""
    eq = case.solution
    y = np.array([case.label])
    gain = rps_rows(eq.anchor[None], y) - rps_rows(eq.probs[None], y)
    tails = np.exp(eq.log_tails)  # F_a left of y, 1 - F_a from y on
    stated = eq.shift * (2 * tails - eq.shift)  # each positive: q <= F_a, or 1 - F_a
    error = gain - stated.sum()
    return _identity("Eqs. 39-40", "RPS(a) - RPS(p) = stated sum > 0", error, stated.sum())


def kl_bound(case: Setting) -> Check:
    """KL(a || p) <= (C-1)/s."""
    bound = (case.num_classes - 1) / case.scale
    return _at_most("Eq. 41", "KL(a‖p) ≤ (C-1)/s", case.kl_from_anchor(), bound)


def l1_bound(case: Setting) -> Check:
    """||p - a||_1 <= sqrt(2 (C-1)/s)."""
    eq = case.solution
    distance = float(np.abs(eq.probs - eq.anchor).sum())
    bound = float(np.sqrt(2 * (case.num_classes - 1) / case.scale))
    return _at_most("Eq. 41", "‖p - a‖₁ ≤ √(2(C-1)/s)", distance, bound)


def farther_fraction(case: Setting) -> Check:
    """The farther class's share of a pair's mass is sigmoid(r)."""
    farther, nearer = case.pair_masses()
    error = farther / (farther + nearer) - geometry.farther_fraction(case.logits, case.y)
    return _identity("Appx. IV-E", "farther side's share of a pair = σ(r)", error)


def violation_identity(case: Setting) -> Check:
    """V > 0 exactly where r > 0, and v / m = [tanh(r/2)]_+."""
    farther, nearer = case.pair_masses()
    v = geometry.adjacent_violations(np.exp(case.log_probs), case.y)
    imbalance = np.maximum(geometry.mass_imbalance(case.logits, case.y), 0.0)
    agree = ((case.gaps > 0) == (farther > nearer)).astype(np.float64)
    return _identity("Eqs. 46-47", "v/m = max(0, tanh(r/2))", v / (farther + nearer) - imbalance, agree)


def violation_bound(case: Setting) -> Check:
    """v_k <= |p_k - ref_k| + |p_{k+1} - ref_{k+1}| <= 2 TV against any unimodal reference."""
    p = np.exp(case.log_probs)
    v = geometry.adjacent_violations(p, case.y)
    difference = np.abs(p - case.references)
    pairwise = difference[:, :-1] + difference[:, 1:]
    slack = np.concatenate([pairwise - v, difference.sum(axis=1, keepdims=True) - pairwise], axis=1)
    return _positive("Eq. 48", "v ≤ 2 TV(ref, p)", slack, strict=False)


def kl_floor(case: Setting) -> Check:
    """KL(ref || p) >= v^2 / 2 against any unimodal reference."""
    v = geometry.adjacent_violations(np.exp(case.log_probs), case.y)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = case.references * (np.log(case.references) - case.log_probs)
    kl = np.where(case.references > 0, terms, 0.0).sum(axis=1, keepdims=True)
    return _positive("Eq. 49", "KL(ref‖p) ≥ v²/2", kl - v**2 / 2, strict=False)


STATEMENTS: tuple[Callable[[Setting], Check], ...] = (
    ce_margin_growth,
    ce_has_no_finite_optimum,
    pair_update,
    softplus_decay,
    feasible_is_right,
    two_pair_gradient,
    strict_propriety,
    lbe_is_unbounded,
    softce_holds_the_ray,
    strict_convexity,
    convexity_everywhere,
    coercivity,
    lbe_lower_bound,
    objective_is_coercive,
    strict_unimodality,
    stationarity,
    shift_range,
    large_scale_rate,
    cumulative_identity,
    interval_concentration,
    rps_gain,
    kl_bound,
    l1_bound,
    farther_fraction,
    violation_identity,
    violation_bound,
    kl_floor,
)


def _identity(source: str, statement: str, error: FloatArray, positive: FloatArray | None = None) -> Check:
    """An equation, met to 1e-8; ``positive`` holds what must be above zero besides."""
    worst = float(np.abs(error).max())
    strict = positive is None or bool((np.asarray(positive) > 0).all())
    return Check(source, statement, worst, f"≤ {EXACT:.0e}", worst <= EXACT and strict)


def _positive(source: str, statement: str, slack: FloatArray, *, strict: bool = True) -> Check:
    """An inequality: the smallest slack is above zero, or, if not strict, not below by more than rounding."""
    smallest = float(np.min(slack))
    passed = smallest > 0 if strict else smallest >= -ROUNDING
    return Check(source, statement, smallest, "> 0" if strict else "≥ 0", passed)


def _at_most(source: str, statement: str, value: float, bound: float) -> Check:
    return Check(source, statement, value, f"≤ {bound:.4g}", value <= bound * (1 + EXACT) + ROUNDING)
