"""Boosting objectives: value, gradient and Hessian diagonal of a loss in the logits of every row."""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
from scipy.optimize import minimize

from orcu import geometry
from orcu.errors import InputError, UnknownNameError
from orcu.inputs import FloatArray, as_count, as_fraction, as_labels, as_positive, as_sample_weight
from orcu.kernels import penalties, terms
from orcu.kernels.soft_targets import log_targets, target_names
from orcu.kernels.terms import ClassFirst, Term
from orcu.raters.votes import Targets, as_votes, is_votes, label_shares, weighted_rows
from orcu.threads import cores, map_ordered

CHUNK_ROWS = 16384  # rows that fit into a core's cache
MIN_HESSIAN = 1e-6  # lower bound that keeps the steps of leaves finite
Terms = Callable[[ClassFirst, Targets], list[Term]]


class Objective:
    """A loss as boosting libraries use it.

    The Hessian is its diagonal, exact where the loss is convex (cross-entropy of any targets, LBE, hinge, SoftPlus)
    and an upper bound where it is not (CDW-CE, FLSD, RPS). It is multiplied by C / (C - 1) for the softmax, as in
    LightGBM's own ``multiclass``, and by 2 for gap penalties, which couple neighbouring logits.

    Args:
        name: name of the objective.
        num_classes: number of classes, C.
        terms: function from logits and labels to the loss terms.
    """

    def __init__(self, name: str, num_classes: int, terms: Terms) -> None:
        self.name, self.num_classes, self._terms = name, num_classes, terms

    def __repr__(self) -> str:
        return f"Objective({self.name}, num_classes={self.num_classes})"

    def value(self, logits: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean loss of rows."""
        z, labels, weight = self._check(logits, y, sample_weight)
        losses = sum(term.factor * term.value for term in self._terms(ClassFirst(z.T.copy()), labels))
        return float(np.average(losses, weights=weight))

    def gradient_and_hessian(self, logits: Any, y: Any, sample_weight: Any = None) -> tuple[FloatArray, FloatArray]:
        """Gradient and Hessian diagonal of each row's loss in its logits, times the sample weights; shapes (n, C).

        Args:
            logits: logits, shape (n, C).
            y: labels 0..C-1, shape (n,); or votes of several raters, counts or shares of shape (n, C), over which the
                loss is averaged.
            sample_weight: weight of each row, or ``None``.

        Raises:
            InputError: if an argument cannot be used.

        Example:
            >>> loss = objective("orcu", num_classes=3)
            >>> gradient, hessian = loss.gradient_and_hessian([[0.0, 1.0, 0.0]], [1])
            >>> gradient.round(3).tolist(), bool((hessian > 0).all())
            ([[0.333, -0.667, 0.333]], True)
        """
        return self.gradient_and_hessian_unchecked(*self._check(logits, y, sample_weight))

    def gradient_and_hessian_unchecked(
        self, z: FloatArray, y: Targets, sample_weight: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """As `gradient_and_hessian` without input validation, in the type of ``z``; called every boosting round.

        ``y`` are labels, or shares of votes in the type of ``z``.
        """
        # Classes are contiguous in memory, as the terms and LightGBM use them.
        gradient, hessian = (np.empty((z.shape[1], len(z)), dtype=z.dtype).T for _ in range(2))

        def compute_chunk(start: int) -> None:
            rows = slice(start, start + CHUNK_ROWS)
            batch_terms = self._terms(ClassFirst(np.ascontiguousarray(z[rows].T)), y[rows])
            gradient[rows] = reduce(np.add, [term.factor * term.gradient() for term in batch_terms]).T
            hessian_sum = reduce(np.add, [term.factor * term.hessian() for term in batch_terms])  # type: ignore[misc]
            np.maximum(hessian_sum.T, MIN_HESSIAN, out=hessian[rows])

        starts = range(0, len(z), CHUNK_ROWS)
        for _ in map_ordered(compute_chunk, starts, threads=cores() if len(starts) > 1 else 1):
            pass
        if sample_weight is not None:
            gradient *= sample_weight[:, None]
            hessian *= sample_weight[:, None]
        return gradient, hessian

    def init_score(self, y: Any, sample_weight: Any = None) -> FloatArray:
        """Initial logits, (C,): the constant logits with the lowest mean loss, centred at 0.

        Trees that start there need no rounds to learn the class frequencies.

        Example:
            >>> objective("ce", num_classes=2).init_score([0, 0, 0, 1]).round(3).tolist()
            [0.549, -0.549]
        """
        targets = self._targets(y, rows=len(y))
        weight = np.ones(len(targets)) if sample_weight is None else as_sample_weight(sample_weight, rows=len(targets))
        _, label, row_weight = weighted_rows(targets, weight)
        counts = np.bincount(label, weights=row_weight, minlength=self.num_classes)
        smoothed = np.maximum(counts, 1 / self.num_classes)  # a class without rows has a finite logit
        frequencies = smoothed / smoothed.sum()
        classes = np.arange(self.num_classes)

        def cost(z: FloatArray) -> tuple[float, FloatArray]:
            rows = np.tile(z, (self.num_classes, 1))
            gradient, _ = self.gradient_and_hessian_unchecked(rows, classes, None)
            return self.value(rows, classes, frequencies), frequencies @ gradient

        optimum = minimize(
            cost, np.log(frequencies), jac=True, method="L-BFGS-B", options={"maxiter": 500, "ftol": 1e-14}
        )
        score: FloatArray = optimum.x - optimum.x.mean()
        return score

    def _targets(self, y: Any, *, rows: int) -> Targets:
        """Labels, or shares of votes."""
        if is_votes(y):
            return label_shares(as_votes(y, self.num_classes, rows=rows))
        return as_labels(y, self.num_classes, rows=rows)

    def _check(self, logits: Any, y: Any, sample_weight: Any) -> tuple[FloatArray, Targets, FloatArray | None]:
        z = np.asarray(logits, dtype=np.float64)
        if z.ndim != 2 or z.shape[1] != self.num_classes:
            raise InputError(f"logits: expected shape (n, {self.num_classes}), got {z.shape}.")
        if not np.isfinite(z).all():
            raise InputError(f"logits: row {int(np.argmin(np.isfinite(z).all(axis=1)))} is not finite.")
        targets = self._targets(y, rows=len(z))
        return z, targets, None if sample_weight is None else as_sample_weight(sample_weight, rows=len(z))


def objective(spec: str | Mapping[str, Any] = "orcu", *, num_classes: int, **options: Any) -> Objective:
    """Create an objective by name or table, with the names and options of `orcu.losses`.

    Args:
        spec: "ce", "ls", "sord", "orcu", "cdw_ce", "flsd" or "rps"; a table such as ``{"name": "orcu", "scale": 5.0}``;
            or a table of an anchor and a regularizer, ``{"anchor": "huber", "regularizer": "softplus"}``, where the
            anchor is a distance or distribution of soft targets, or one of these names, and the regularizer "lbe",
            "hinge" or "softplus".
        num_classes: number of classes, C.
        options: options of the objective, such as ``scale``.

    Raises:
        InputError: if a name or option is unknown.

    Example:
        >>> objective("orcu", num_classes=5, scale=3.0)
        Objective(orcu, num_classes=5)
        >>> objective({"anchor": "huber", "regularizer": "softplus"}, num_classes=5)
        Objective(huber + softplus, num_classes=5)
    """
    classes = as_count(num_classes, name="num_classes", minimum=2)
    table = {"name": spec} if isinstance(spec, str) else dict(spec)
    table |= options
    if "name" in table:
        name = table.pop("name")
        if name not in LOSSES:
            raise UnknownNameError("objective", name, LOSSES)
        return Objective(name, classes, _build_terms(name, LOSSES[name], classes, table))
    unknown = set(table) - {"anchor", "regularizer", "strength", "scale"}
    if unknown or not {"anchor", "regularizer"} <= set(table):
        raise InputError(f"objective: expected a name, or an anchor and a regularizer; got {dict(spec)!r}.")  # type: ignore[arg-type]
    anchor, name = table["anchor"], table["regularizer"]
    if name not in REGULARIZERS:
        raise UnknownNameError("regularizer of an objective", name, REGULARIZERS)
    if (anchor.get("name") if isinstance(anchor, Mapping) else anchor) in target_names():
        first = _build_terms("sord", LOSSES["sord"], classes, {"distance": anchor})
    elif anchor in LOSSES:
        first = _build_terms(anchor, LOSSES[anchor], classes, {})
    else:
        raise UnknownNameError("anchor of an objective", anchor, [*target_names(), *LOSSES])
    second = REGULARIZERS[name](classes, {"scale": table["scale"]} if "scale" in table else {})
    strength = as_positive(table.get("strength", 1.0), name="strength")

    def both(batch: ClassFirst, y: Targets) -> list[Term]:
        return first(batch, y) + [term._replace(factor=strength * term.factor) for term in second(batch, y)]

    return Objective(f"{anchor} + {name}", classes, both)


def _build_terms(name: str, build: Callable[..., Terms], classes: int, options: dict[str, Any]) -> Terms:
    try:
        return build(classes, **options)
    except TypeError as error:
        raise InputError(f"{name}: {error}") from None


def _soft(targets: FloatArray) -> Terms:
    factor = len(targets) / (len(targets) - 1)

    def build(batch: ClassFirst, y: Targets) -> list[Term]:
        term = terms.soft_cross_entropy(batch, terms.columns(targets.astype(batch.z.dtype), y))
        assert term.hessian is not None  # noqa: S101
        exact = term.hessian
        return [term._replace(hessian=lambda: factor * exact())]

    return build


def _ce(classes: int) -> Terms:
    return _soft(np.eye(classes))


def _ls(classes: int, *, alpha: float = 0.05) -> Terms:
    share = as_fraction(alpha, name="alpha")
    return _soft((1 - share) * np.eye(classes) + share / classes)


def _sord(classes: int, *, distance: str | Mapping[str, Any] = "squared") -> Terms:
    return _soft(np.exp(log_targets(classes, distance)))


def _orcu(classes: int, *, scale: float = 3.0, distance: str | Mapping[str, Any] = "squared") -> Terms:
    anchor, barrier = _sord(classes, distance=distance), _lbe(classes, {"scale": scale})
    return lambda batch, y: anchor(batch, y) + barrier(batch, y)


def _cdw_ce(classes: int, *, alpha: float = 5.0) -> Terms:
    apart = np.abs(np.subtract.outer(np.arange(classes), np.arange(classes))).astype(np.float64)
    costs = apart ** as_positive(alpha, name="alpha")
    return lambda batch, y: [terms.distance_weighted(batch, terms.columns(costs.astype(batch.z.dtype), y))]


def _flsd(classes: int, *, gamma_hard: float = 5.0, gamma: float = 3.0, threshold: float = 0.2) -> Terms:
    least = -np.log(as_positive(threshold, name="threshold"))
    low, high = as_positive(gamma, name="gamma"), as_positive(gamma_hard, name="gamma_hard")

    def exponent(nll: FloatArray) -> FloatArray:
        return low + (high - low) * (nll > least)

    def build(batch: ClassFirst, y: Targets) -> list[Term]:
        if y.ndim == 2:
            return [terms.expected_term(lambda label: terms.focal(batch, label, exponent), y)]
        return [terms.focal(batch, y, exponent)]

    return build


def _rps(classes: int) -> Terms:
    observed = np.triu(np.ones((classes, classes)))[:, :-1]
    factor = classes / (classes - 1)

    def build(batch: ClassFirst, y: Targets) -> list[Term]:
        term = terms.ranked_probability_score(batch, terms.columns(observed.astype(batch.z.dtype), y))
        assert term.hessian is not None  # noqa: S101
        bound = term.hessian
        return [term._replace(hessian=lambda: factor * bound())]

    return build


def _gaps(
    classes: int, penalty: Callable[[Any], Any], gradient: Callable[[Any], Any], hessian: Callable[[Any], Any]
) -> Terms:
    signs = geometry.gap_signs(classes)

    def build(batch: ClassFirst, y: Targets) -> list[Term]:
        if y.ndim == 2:
            return [terms.expected_gap_penalty(batch.z, y, penalty, gradient, lambda r: 2 * hessian(r))]
        directed = terms.columns(signs.astype(batch.z.dtype), y)
        return [terms.gap_penalty(batch.z, directed, penalty, gradient, lambda r: 2 * hessian(r))]

    return build


def _lbe(classes: int, options: Mapping[str, Any]) -> Terms:
    s = as_positive(options.get("scale", 3.0), name="scale")
    return _gaps(
        classes,
        lambda r: penalties.log_barrier(r, scale=s),
        lambda r: penalties.log_barrier_gradient(r, scale=s),
        lambda r: penalties.log_barrier_hessian(r, scale=s),
    )


def _hinge(classes: int, options: Mapping[str, Any]) -> Terms:
    margin = 1 / as_positive(options.get("scale", 3.0), name="scale") ** 2
    return _gaps(
        classes,
        lambda r: penalties.hinge(r, margin=margin),
        lambda r: penalties.hinge_gradient(r, margin=margin),
        np.zeros_like,
    )


def _softplus(classes: int, options: Mapping[str, Any]) -> Terms:
    def hessian(r: FloatArray) -> FloatArray:
        share: FloatArray = geometry.sigmoid(r)
        return share * (1 - share)

    return _gaps(classes, penalties.softplus, geometry.sigmoid, hessian)


LOSSES: dict[str, Callable[..., Terms]] = {
    "ce": _ce,
    "ls": _ls,
    "sord": _sord,
    "orcu": _orcu,
    "cdw_ce": _cdw_ce,
    "flsd": _flsd,
    "rps": _rps,
}
REGULARIZERS: dict[str, Callable[[int, Mapping[str, Any]], Terms]] = {
    "lbe": _lbe,
    "hinge": _hinge,
    "softplus": _softplus,
}
