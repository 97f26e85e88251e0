"""The free-logit equilibrium of ORCU: the unique minimiser of F_s (Appendix IV, Eq. 23).

In outward gaps u_k = -r_k around the label, the per-sample objective is

    F_s(u) = log sum_j e^{z_j} + sum_k A_k u_k + sum_k I(-u_k),

where A_k is the anchor's mass beyond gap k. It is stationary where A_k - P_k = q_k, with P_k the prediction's mass
beyond the gap and q_k = I'(-u_k). Where the anchor's tail is thin, the gap is remote (1e20 and more): P_k is negligible
and u_k = 1/(s A_k) in floating point. Remote gaps are computed as logarithms, the others by Newton's method.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from orcu import geometry
from orcu.errors import ConvergenceError, InputError
from orcu.inputs import BoolArray, FloatArray, IntArray, as_count, as_labels, as_probs
from orcu.kernels.soft_targets import check_positive, log_targets

REMOTE = 80.0  # a gap is remote if P_k / A_k <= e^-80, far below the last bit of A_k
TOLERANCE = 1e-9  # largest accepted residual |A_k - P_k - q_k| / A_k; 1e-15 is usual
ROUNDING = 1e-11  # a residual below it that no longer decreases is rounding
MAX_STEPS = 200  # of Newton's method


@dataclasses.dataclass(frozen=True)
class Equilibrium:
    """Minimiser of F_s for one or several labels and scales; the leading axes are the batch shape.

    Gaps are directed around ``center``: the label, or the median of a label distribution.

    Attributes:
        probs: equilibrium p_s, shape (..., C); far classes may underflow to 0.
        gaps: directed gaps r, shape (..., C - 1); remote ones may overflow to -inf.
        log_gaps: log |r|, shape (..., C - 1); finite for a label. With a label distribution a gap can be 0 and its
            logarithm -inf.
        shift: mass q moved inward across each gap, shape (..., C - 1). It is I'(r) for a label; for a label
            distribution it is the net of both directions and can be negative.
        log_shift: log |q|, finite for a label.
        anchor: soft target a (averaged over a label distribution), shape (..., C).
        log_anchor: log a, always finite.
        log_tails: log A_k, the anchor's mass beyond each gap, shape (..., C - 1).
        residual: largest |A_k - P_k - q_k| / A_k, the relative error of stationarity, shape (...).
        center: class that the gaps point away from, shape (...).
        scale: scale s, shape (...).
    """

    probs: FloatArray
    gaps: FloatArray
    log_gaps: FloatArray
    shift: FloatArray
    log_shift: FloatArray
    anchor: FloatArray
    log_anchor: FloatArray
    log_tails: FloatArray
    residual: FloatArray
    center: IntArray
    scale: FloatArray

    @property
    def overflowed(self) -> bool:
        """Whether a gap is too large for a float and is -inf in ``gaps``."""
        return bool(np.isinf(self.gaps).any())

    @property
    def underflowed(self) -> bool:
        """Whether a probability, a target or a shift is too small for a float and is 0."""
        return any(bool((values == 0).any()) for values in (self.probs, self.anchor, self.shift))


def equilibrium(
    num_classes: int,
    label: Any = None,
    scale: Any = 3.0,
    distance: str | Mapping[str, Any] = "squared",
    *,
    label_distribution: Any = None,
) -> Equilibrium:
    """Compute the unique free-logit minimiser of the ORCU objective F_s (Eq. 23).

    This is the prediction to which ORCU converges if nothing else restricts the logits: for one label, or, with
    ``label_distribution``, for inputs with overlapping labels (the minimiser of the average of F_s).

    Args:
        num_classes: number of classes, C.
        label: class 0..C-1, or an array of classes.
        scale: scale s > 0, or an array that broadcasts with the labels.
        distance: distance or distribution of the soft targets, see `orcu.kernels.soft_targets`; a target of 0,
            as in "triangular", is refused.
        label_distribution: probabilities over labels, shape (..., C), instead of ``label``.

    Returns:
        `Equilibrium` whose arrays have the broadcast shape of label and scale as leading axes.

    Raises:
        InputError: if an argument has an invalid value.
        ConvergenceError: if the residual of stationarity is above 1e-9.

    Example:
        >>> equilibrium(5, label=2, scale=3.0).probs.round(3)
        array([0.   , 0.078, 0.844, 0.078, 0.   ])
        >>> print(f"{equilibrium(8, label=0, scale=3.0).gaps[-1]:.2e}")
        -8.81e+20
        >>> equilibrium(5, label=np.arange(5), scale=3.0).probs.max(axis=-1).round(3)
        array([0.885, 0.847, 0.844, 0.847, 0.885])
    """
    num_classes = as_count(num_classes, name="num_classes", minimum=2)
    scales = _as_scales(scale)
    if (label is None) == (label_distribution is None):
        raise InputError("label: give either a label or a label_distribution.")
    if label_distribution is None:
        labels = np.asarray(label)
        batch = _broadcast("label", labels.shape, scales.shape)
        center = as_labels(np.broadcast_to(labels, batch).reshape(-1), num_classes, name="label")
        pi = np.eye(num_classes)[center]
        log_anchor = log_targets(num_classes, distance)[center]
    else:
        pi = _as_distributions(label_distribution, num_classes)
        batch = _broadcast("label_distribution", pi.shape[:-1], scales.shape)
        pi = np.broadcast_to(pi, (*batch, num_classes)).reshape(-1, num_classes)
        center = (geometry.cumulative(pi) < 0.5).sum(-1)
        with np.errstate(divide="ignore"):
            log_pi = np.log(pi)
        log_table = log_targets(num_classes, distance)
        log_anchor = np.stack([np.logaddexp.reduce(row[:, None] + log_table) for row in log_pi])
    check_positive(log_anchor, distance)
    s = np.broadcast_to(scales, batch).reshape(-1)
    fields = _solve(log_anchor, pi, center, s)
    fields |= {"center": center, "scale": s}
    return Equilibrium(**{name: a.reshape((*batch, *a.shape[1:]))[()] for name, a in fields.items()})


def _broadcast(name: str, shape: tuple[int, ...], scales: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(shape, scales)
    except ValueError as error:
        raise InputError(
            f"scale: shape {scales} does not broadcast with {name} of shape {shape}; "
            "to combine all pairs, add an axis of length 1 to one of them."
        ) from error


def _as_scales(scale: Any) -> FloatArray:
    try:
        scales = np.asarray(scale, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"scale: expected numbers above 0, got {scale!r}.") from error
    invalid = ~(np.isfinite(scales) & (scales > 0))
    if invalid.any() or not scales.size:
        raise InputError(f"scale: expected finite numbers above 0, got {scales[invalid].tolist()}.")
    return scales


def _as_distributions(values: Any, num_classes: int) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape[-1:] != (num_classes,):
        raise InputError(
            f"label_distribution: expected {num_classes} classes on the last axis, got shape {array.shape}."
        )
    pi = as_probs(array.reshape(-1, num_classes), name="label_distribution")
    return (pi / pi.sum(axis=1, keepdims=True)).reshape(array.shape)


def _solve(log_anchor: FloatArray, pi: FloatArray, center: IntArray, s: FloatArray) -> dict[str, Any]:
    """Solve a flat batch of problems and return the fields of `Equilibrium`."""
    log_s = np.log(s)[:, None, None]
    layout = _Outward(center, pi.shape[1])
    log_mass = layout.classes(log_anchor)
    log_a = _tails(log_mass, np.logaddexp)
    beyond = _tails(layout.classes(pi, fill=0.0), np.add)  # share of the labels beyond the gap
    outside = beyond == 0

    log_far = -log_s - log_a  # log u where P = 0
    with np.errstate(over="ignore", invalid="ignore"):  # padding entries are inf
        remote = layout.padding | (outside & (log_a <= log_s) & (np.exp(log_far) + log_a > REMOTE))
        near = int((~remote).sum(-1).max(initial=0))  # remote gaps are the outermost ones
        bound = np.exp(np.where(outside & (log_a <= log_s), log_far, -np.inf))
        # start from the gaps of the anchor, widened where 1/(s A_k) is a lower bound of the solution
        log_inner = np.concatenate([layout.center(log_anchor), log_mass[..., :-1]], axis=-1)
        start = np.where(remote, np.inf, log_inner - log_mass + bound)
    cut = np.s_[..., :near]
    problem = _Problem(np.exp(log_a[cut]), beyond[cut], remote[cut], s[:, None, None])
    u = np.full_like(log_a, np.inf)
    u[cut] = problem.solve(start[cut])

    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        log_gaps = np.where(remote, log_far, np.log(np.abs(u)))
        gaps = -np.where(remote, np.exp(log_far), u)
        shift = np.where(remote, np.exp(log_a), 0.0)
        shift[cut] = np.where(remote[cut], shift[cut], problem.shift(u[cut]))
        log_shift = np.where(remote, log_a, np.log(np.abs(shift)))
    worst = problem.residual(u[cut]).max(axis=(1, 2), initial=0.0)
    if worst.max(initial=0.0) > TOLERANCE:
        case = int(worst.argmax())
        raise ConvergenceError(
            f"equilibrium: no convergence at scale {s[case]:g}; the residual is {worst[case]:.1e}, expected at most "
            f"{TOLERANCE:g}."
        )
    return {
        "probs": layout.to_classes(*problem.probs(u[cut])),
        "gaps": layout.to_gaps(gaps),
        "log_gaps": layout.to_gaps(log_gaps),
        "shift": layout.to_gaps(shift),
        "log_shift": layout.to_gaps(log_shift),
        "anchor": np.exp(log_anchor),
        "log_anchor": log_anchor,
        "log_tails": layout.to_gaps(log_a),
        "residual": worst,
    }


class _Outward:
    """Outward layout of classes and gaps, shape (n, 2, C - 1): the two sides of the center.

    Entry (i, 0, j) is class center + 1 + j and the gap before it, (i, 1, j) is class center - 1 - j; ``padding`` marks
    entries outside the classes.
    """

    def __init__(self, center: IntArray, num_classes: int) -> None:
        self._center = center
        reach = np.arange(1, num_classes)
        index = center[:, None, None] + np.stack([reach, -reach])
        self.padding = (index < 0) | (index >= num_classes)
        self._index = np.where(self.padding, 0, index)
        gap = np.arange(num_classes - 1)
        self._side = (gap < center[:, None]).astype(np.int64)
        self._reach = np.where(self._side == 0, gap - center[:, None], center[:, None] - 1 - gap)

    def classes(self, values: FloatArray, *, fill: float = -np.inf) -> FloatArray:
        rows = np.arange(len(values))[:, None, None]
        return np.where(self.padding, fill, values[rows, self._index])

    def center(self, values: FloatArray) -> FloatArray:
        at_center = np.take_along_axis(values, self._center[:, None], axis=1)
        return np.broadcast_to(at_center[:, :, None], (len(values), 2, 1))

    def to_gaps(self, outward: FloatArray) -> FloatArray:
        rows = np.arange(len(outward))[:, None]
        return outward[rows, self._side, self._reach]

    def to_classes(self, outward: FloatArray, center: FloatArray) -> FloatArray:
        values = np.zeros((len(outward), self._side.shape[1] + 1))
        used = ~self.padding[..., : outward.shape[-1]]
        rows = np.broadcast_to(np.arange(len(outward))[:, None, None], used.shape)
        values[rows[used], self._index[..., : outward.shape[-1]][used]] = outward[used]
        np.put_along_axis(values, self._center[:, None], center[:, None], axis=1)
        return values


def _tails(outward: FloatArray, add: np.ufunc) -> FloatArray:
    """Cumulative sums from the outermost entry inwards, which are accurate for thin tails."""
    return add.accumulate(outward[..., ::-1], axis=-1)[..., ::-1]


class _Problem:
    """Minimisation of F_s over the gaps that are not remote, for a batch of problems in outward layout.

    Newton steps are taken in w = du / size with size = u: the barrier then adds about 1/s to each diagonal entry for
    gaps of all sizes, which makes the linear system well-conditioned.
    """

    def __init__(self, a: FloatArray, beyond: FloatArray, remote: BoolArray, s: FloatArray) -> None:
        self.a, self.beyond, self.remote = a, beyond, remote
        self._set_scale(s)

    def _set_scale(self, s: FloatArray) -> None:
        self.s = s
        with np.errstate(over="ignore", under="ignore"):
            self.margin = 1 / s / s

    def probs(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Probabilities of the classes beyond each gap, and of the center."""
        z = -np.cumsum(u, axis=-1)
        top = np.maximum(z.max(axis=(1, 2), keepdims=True, initial=0.0), 0.0)
        e = np.exp(z - top)
        total = np.exp(-top) + e.sum(axis=(1, 2), keepdims=True)
        return e / total, (np.exp(-top) / total)[:, 0, 0]

    def shift(self, u: FloatArray) -> FloatArray:
        """q(u) of the labels on this side of the gap minus that of the labels beyond it."""
        return (1 - self.beyond) * self._barrier_gradient(u) - self.beyond * self._barrier_gradient(-u)

    def _barrier_gradient(self, u: FloatArray) -> FloatArray:
        log_branch = u > self.margin
        return np.where(log_branch, 1 / (self.s * np.where(log_branch, u, 1.0)), self.s)

    def gradient(self, u: FloatArray) -> FloatArray:
        """dF/du_k = A_k - P_k - q_k; zero for remote gaps, which satisfy the equation by construction."""
        return np.where(self.remote, 0.0, self.a - _tails(self.probs(u)[0], np.add) - self.shift(u))

    def residual(self, u: FloatArray) -> FloatArray:
        """|A_k - P_k - q_k| relative to A_k plus, for overlapping labels, the opposing shifts."""
        opposing = self.beyond * (self._barrier_gradient(u) + self._barrier_gradient(-u))
        return np.abs(self.gradient(u)) / np.where(self.remote, 1.0, self.a + opposing)

    def solve(self, u: FloatArray) -> FloatArray:
        """Minimise F_s; overlapping labels, whose gaps shrink like 1/s^2, by continuation in s."""
        target, limit = self.s, float(self.s.max(initial=0.0))
        scale = 1.0
        while (self.beyond > 0).any() and scale < limit:
            self._set_scale(np.minimum(target, scale))
            u = self.newton(u)
            scale *= 2
        self._set_scale(target)
        return self.newton(u)

    def newton(self, u: FloatArray) -> FloatArray:
        """Minimise F_s by Newton's method with a line search, which converges because F_s is convex.

        A problem leaves the batch when it is solved, or when rounding prevents further progress.
        """
        u, rows = u.copy(), np.arange(len(u))
        previous = np.full(len(u), np.inf)
        for _ in range(MAX_STEPS):
            part = _Problem(self.a[rows], self.beyond[rows], self.remote[rows], self.s[rows])
            u[rows], w = part._step(u[rows])
            residual = part.residual(u[rows]).max(axis=(1, 2), initial=0.0)
            solved = (np.abs(w).max(axis=(1, 2), initial=0.0) < 1e-14) | (residual < 1e-14)
            stalled = (residual >= previous[rows]) & (residual < ROUNDING)
            previous[rows] = residual
            rows = rows[~(solved | stalled)]
            if not len(rows):
                break
        return u

    def _step(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Take one Newton step; returns the new gaps and the direction w."""
        one_sided = self.beyond == 0
        two_sided_size = np.maximum(np.abs(u), np.minimum(self.margin, 1.0))
        size = np.where(self.remote, 1.0, np.where(one_sided, u, two_sided_size))
        gradient = self.gradient(u) * size
        direction = -np.linalg.solve(self._hessian(u, size), gradient.reshape(len(u), -1, 1))
        w: FloatArray = np.where(self.remote, 0.0, direction.reshape(u.shape)).clip(-1e100, 1e100)
        slope = (gradient * w).sum(axis=(1, 2))
        # a one-sided gap stays positive: a step removes at most nine tenths of it
        shrink = np.where(one_sided, -w, 0.0).max(axis=(1, 2), initial=0.0)
        t = np.minimum(1.0, 0.9 / np.maximum(shrink, 1e-300))
        # where the curvature is almost 0 the step is limited to a hundred sizes
        t = np.minimum(t, 100 / np.maximum(np.abs(w).max(axis=(1, 2), initial=0.0), 1e-300))
        for _ in range(400):
            candidate = np.where(self.remote, np.inf, u + t[:, None, None] * size * w)
            steep = (self.gradient(candidate) * size * w).sum(axis=(1, 2)) > -0.25 * slope
            if not steep.any():
                break
            t = np.where(steep, t / 2, t)
        return candidate, w

    def _hessian(self, u: FloatArray, size: FloatArray) -> FloatArray:
        """Hessian in w, with the identity in the rows of remote gaps."""
        tails = _tails(self.probs(u)[0], np.add)
        count = u.shape[-1]
        reach = np.arange(count)
        farther = np.maximum(reach[:, None], reach)
        joint = np.zeros((len(u), 2, count, 2, count))
        for side in range(2):
            joint[:, side, :, side, :] = tails[:, side][:, farther]
        joint -= tails[:, :, :, None, None] * tails[:, None, None, :, :]
        joint *= size[:, :, :, None, None]  # one after the other: the product of two sizes may overflow
        joint *= size[:, None, None, :, :]
        # u^2 I''(-u) is 1/s in the logarithmic branch and 0 in the linear one
        finite = np.where(self.remote, 1.0, np.where(u == 0, 1.0, u))
        share = (1 - self.beyond) * (u > self.margin) + self.beyond * (-u > self.margin)
        diagonal = np.where(self.remote, 1.0, share / self.s * (size / finite) ** 2)
        matrix = joint.reshape(len(u), 2 * count, 2 * count)
        index = np.arange(2 * count)
        matrix[:, index, index] += diagonal.reshape(len(u), -1)
        # Between overlapping labels both directions can be linear with zero curvature. A ridge far below rounding
        # keeps the step finite; the line search ensures the decrease.
        matrix[:, index, index] += np.where(self.beyond > 0, 1e-16, 0.0).reshape(len(u), -1)
        return matrix
