"""Soft targets of each label: from a distance between classes (Eq. 1), or from a distribution around the label.

A distance maps class differences d = |y - k| (float64) to phi(d), and the targets are softmax_k(-phi(|y - k|)). A
distribution maps the number of classes C to a (C, C) table whose row y has the targets of label y. To add one,
decorate a function with ``@distances.register("name")`` or ``@distributions.register("name")``, in this module or in
a module of an entry point of the group ``orcu.targets``.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import betainc, gammaln, xlog1py, xlogy

from orcu.errors import InputError, UnknownNameError
from orcu.inputs import FloatArray, as_count, as_positive
from orcu.registry import Registry, accepted_parameters

distances: Registry[Callable[..., FloatArray]] = Registry("distance", plugins="orcu.targets")
distributions: Registry[Callable[..., FloatArray]] = Registry("distribution", plugins="orcu.targets")

# Parameters of the beta distributions of the labels below the middle class, by number of classes (Vargas et al., 2022,
# as in dlordinal 2.7). Labels above the middle have them in reverse order.
BETA_PARAMETERS: dict[int, tuple[tuple[int, int], ...]] = {
    3: ((1, 4), (4, 4)),
    4: ((1, 6), (6, 10)),
    5: ((1, 8), (6, 14), (12, 12)),
    6: ((1, 10), (7, 20), (15, 20)),
    7: ((1, 12), (7, 26), (16, 28), (24, 24)),
    8: ((1, 14), (7, 31), (17, 37), (27, 35)),
    9: ((1, 16), (8, 40), (18, 47), (30, 47), (40, 40)),
    10: ((1, 18), (8, 45), (19, 57), (32, 59), (45, 55)),
    11: ((1, 21), (8, 51), (20, 68), (34, 73), (48, 69), (60, 60)),
    12: ((1, 23), (8, 56), (20, 76), (35, 85), (51, 85), (65, 77)),
    13: ((1, 25), (8, 61), (20, 84), (36, 98), (53, 100), (70, 95), (84, 84)),
}


@distances.register("squared")
def squared(d: FloatArray) -> FloatArray:
    """Phi(d) = d^2, the paper's choice."""
    return d**2


@distances.register("absolute")
def absolute(d: FloatArray) -> FloatArray:
    """Phi(d) = d."""
    return d


@distances.register("huber")
def huber(d: FloatArray, *, delta: float = 1.0) -> FloatArray:
    """Phi(d) = d^2 / 2 up to delta, then delta (d - delta / 2).

    The paper does not give its delta; the default 1 is our choice.
    """
    delta = as_positive(delta, name="delta")
    return np.where(d <= delta, d**2 / 2, delta * (d - delta / 2))


@distances.register("exponential")
def exponential(d: FloatArray) -> FloatArray:
    """Phi(d) = e^d, capped at the largest float (reached at d = 710).

    The paper does not give its formula; e^d - 1 would give the same targets.
    """
    with np.errstate(over="ignore"):
        return np.minimum(np.exp(d), np.finfo(np.float64).max)


@distances.register("power")
def power(d: FloatArray, *, p: float = 1.0, tau: float = 1.0) -> FloatArray:
    """Phi(d) = d^p / tau: the exponential targets of Liu et al. (2020) and Vargas et al. (2023).

    The name "exponential" is the distance e^d of the ORCU paper.
    """
    return d ** as_positive(p, name="p") / as_positive(tau, name="tau")


@distributions.register("binomial")
def binomial(num_classes: int) -> FloatArray:
    """Binomial(C - 1, q_y) with equally spaced q_y from min(0.1, 1 / (C + 1)) to 1 minus that (Liu et al., 2020).

    The mode is the label for every C. With the authors' 0.1 it is not for the outer labels of 10 classes and more.

    Example:
        >>> binomial(5)[0].round(4).tolist()
        [0.6561, 0.2916, 0.0486, 0.0036, 0.0001]
    """
    lowest, k = min(0.1, 1 / (num_classes + 1)), np.arange(num_classes, dtype=np.float64)
    q = np.linspace(lowest, 1 - lowest, num_classes)[:, None]
    n = num_classes - 1.0
    log_count = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return _normalised(log_count + xlogy(k, q) + xlog1py(n - k, -q))


@distributions.register("poisson")
def poisson(num_classes: int) -> FloatArray:
    """Poisson(y + 1/2), truncated to the classes: t_k proportional to (y + 1/2)^k / k! (Liu et al., 2020).

    The mode is the label. A whole number as the rate, as in dlordinal, has two equal modes. The targets are not
    symmetric: they are wider for high labels.

    Example:
        >>> poisson(5)[2].round(4).tolist()
        [0.0921, 0.2303, 0.2878, 0.2399, 0.1499]
    """
    k = np.arange(num_classes, dtype=np.float64)
    return _normalised(k * np.log(k[:, None] + 0.5) - gammaln(k + 1))


@distributions.register("beta")
def beta(num_classes: int) -> FloatArray:
    """Mass of a beta distribution of the label in each of C equal parts of [0, 1] (Vargas et al., 2022).

    The parameters of 3 to 13 classes are the published ones, `BETA_PARAMETERS`. For other C the mean is the centre of
    the label's part, and the standard deviation is half of its width, which approximates the published parameters.

    Example:
        >>> beta(5)[2].round(4).tolist()
        [0.0006, 0.163, 0.6727, 0.163, 0.0006]
    """
    if num_classes in BETA_PARAMETERS:
        lower = np.array(BETA_PARAMETERS[num_classes], dtype=np.float64)
        a, b = np.concatenate([lower, lower[: num_classes // 2][::-1, ::-1]]).T[:, :, None]
    else:
        mean = (2 * np.arange(num_classes)[:, None] + 1) / (2 * num_classes)
        total = 4 * num_classes**2 * mean * (1 - mean) - 1
        a, b = mean * total, (1 - mean) * total
    edges = np.arange(num_classes + 1) / num_classes
    below, above = betainc(a, b, edges), betainc(b, a, edges[::-1])  # 1 - below, with all digits in the upper tail
    return np.maximum(np.where(edges[1:] <= a / (a + b), np.diff(below), -np.diff(above)), 0.0)


@distributions.register("triangular")
def triangular(num_classes: int, *, alpha: float = 0.05) -> FloatArray:
    """Mass of a triangular distribution around the label in each of C equal parts of [0, 1] (Vargas et al., 2023).

    An inner label has a symmetric triangle with the mass alpha on each side of its part. An outer label has a right
    triangle with its peak at the end of the scale. Its mass outside of its part is the authors' alpha_1, with
    sqrt(alpha_1) (1 + sqrt(alpha_1)) = s (1 - s) (1 - s^2) and s = sqrt(2 alpha). dlordinal uses another mass for the
    highest label, so that its targets are not symmetric.

    Args:
        num_classes: number of classes, C.
        alpha: mass on each side, above 0 and below 0.5. Above 2/9 it extends beyond the adjacent classes.

    Example:
        >>> triangular(5)[2].round(4).tolist()
        [0.0, 0.05, 0.9, 0.05, 0.0]
    """
    s = np.sqrt(2 * as_positive(alpha, name="alpha"))
    if s >= 1:
        raise InputError(f"alpha: expected a number above 0 and below 0.5, got {alpha}.")
    root = (np.sqrt(1 + 4 * s * (1 - s) * (1 - s**2)) - 1) / 2  # sqrt(alpha_1)
    # widths in parts of the scale; an outer triangle is one half of a symmetric one around the end of the scale
    centre, half_width = np.arange(num_classes)[:, None] + 0.5, np.full((num_classes, 1), 0.5 / (1 - s))
    centre[[0, -1]], half_width[[0, -1]] = [[0.0], [float(num_classes)]], 1 / (1 - root)
    steps = np.clip((np.arange(num_classes + 1) - centre) / half_width, -1, 1)
    mass = np.diff(np.where(steps < 0, (1 + steps) ** 2, 2 - (1 - steps) ** 2))
    return mass / mass.sum(axis=1, keepdims=True)


def _normalised(log_mass: FloatArray) -> FloatArray:
    mass = np.exp(log_mass - log_mass.max(axis=1, keepdims=True))
    normalised: FloatArray = mass / mass.sum(axis=1, keepdims=True)
    return normalised


def target_names() -> list[str]:
    """Names of all soft targets: distances and distributions, sorted.

    Example:
        >>> target_names()
        ['absolute', 'beta', 'binomial', 'exponential', 'huber', 'poisson', 'power', 'squared', 'triangular']
    """
    return sorted({*distances.names(), *distributions.names()})


def log_targets(num_classes: int, distance: str | Mapping[str, Any] = "squared") -> FloatArray:
    """Logarithms of the soft targets of all labels (Eq. 1): row y is log softmax_k(-phi(|y - k|)).

    Args:
        num_classes: number of classes, C.
        distance: distance or distribution: a name from `target_names`, or a table of the name and its options such as
            ``{"name": "huber", "delta": 2.0}``.

    Returns:
        Array of shape (C, C). The entries of a distance are finite, also where the target itself underflows to 0. The
        entries of a distribution are -inf where the target is 0.

    Raises:
        InputError: if num_classes is below 2, the name or an option is unknown, or a distribution gives another table
            than distributions over the classes.

    Example:
        >>> np.exp(log_targets(5))[2].round(4)
        array([0.0103, 0.2076, 0.5642, 0.2076, 0.0103])
    """
    num_classes = as_count(num_classes, name="num_classes", minimum=2)
    table = {"name": distance} if isinstance(distance, str) else dict(distance)
    if "name" not in table:
        raise InputError(f"distance: the table {table!r} needs a 'name'.")
    name = str(table["name"])
    if name not in target_names():
        raise UnknownNameError("distance", name, target_names())
    registry, argument = (distributions, "num_classes") if name in distributions.names() else (distances, "d")
    if argument in table:
        options = [key for key in accepted_parameters(registry.get(name)) if key != argument]
        raise UnknownNameError(f"option of distance {name!r}", argument, options)
    if registry is distributions:
        with np.errstate(divide="ignore"):
            return np.log(_check_targets(name, registry.create(table, num_classes=num_classes), num_classes))
    classes = np.arange(num_classes, dtype=np.float64)
    phi: FloatArray = registry.create(table, d=np.abs(classes[:, None] - classes))
    log_mass = phi.min(axis=1, keepdims=True) - phi
    return log_mass - np.log(np.exp(log_mass).sum(axis=1, keepdims=True))


def check_positive(log_targets: FloatArray, distance: str | Mapping[str, Any]) -> None:
    """Raise `InputError` if a target is 0; the gaps of the ORCU equilibrium are then infinite."""
    if np.isneginf(log_targets).any():
        k = int(np.argwhere(np.isneginf(log_targets))[0, -1])
        raise InputError(
            f"distance: with {distance!r} the target of class {k} is 0, so the logits have no finite optimum; use a "
            "distance such as 'squared', whose targets are above 0."
        )


def _check_targets(name: str, targets: Any, num_classes: int) -> FloatArray:
    """Check that a distribution, which may be a plugin's, gives one distribution over the classes per label."""
    table = np.asarray(targets, dtype=np.float64)
    shape = (num_classes, num_classes)
    if table.shape != shape:
        raise InputError(f"distribution {name!r}: expected a table of shape {shape}, got {table.shape}.")
    invalid = ~((table >= 0).all(axis=1) & np.isclose(table.sum(axis=1), 1, rtol=0, atol=1e-9))
    if invalid.any():
        label = int(np.argmax(invalid))
        raise InputError(
            f"distribution {name!r}: the targets of label {label} are {table[label].round(4).tolist()}, expected "
            "values of at least 0 that sum to 1."
        )
    return table
