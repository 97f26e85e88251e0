"""One case of the theory: a label, a scale and a distance, with what the statements are tried on."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from orcu import geometry
from orcu.inputs import FloatArray, IntArray
from orcu.theory.equilibrium import equilibrium


class Setting:
    """One label, scale and distance, with its equilibrium and random logits to test on."""

    def __init__(
        self,
        num_classes: int,
        label: int,
        scale: float,
        distance: str | Mapping[str, Any] = "squared",
        *,
        samples: int = 200,
        seed: int = 0,
    ) -> None:
        self.distance = distance
        self.solution = equilibrium(num_classes, label, scale, distance)
        self.num_classes, self.label, self.scale = num_classes, int(label), float(scale)
        self.anchor = self.solution.anchor
        rng = np.random.default_rng(seed)
        spread = rng.choice([0.1, 1.0, 5.0], size=(samples, 1))
        self.logits: FloatArray = spread * rng.standard_normal((samples, num_classes))
        self.y: IntArray = np.full(samples, self.label)
        # reference distributions that are unimodal with mode y: sorted masses, laid outward
        reach = np.abs(np.arange(num_classes) - self.label)
        falling = -np.sort(-rng.dirichlet(np.ones(num_classes), size=samples), axis=1)
        raw = falling[:, reach]
        self.references: FloatArray = raw / raw.sum(axis=1, keepdims=True)

    @functools.cached_property
    def log_probs(self) -> FloatArray:
        """Log softmax of the random logits."""
        log_probs: FloatArray = geometry.log_probs(self.logits)
        return log_probs

    @functools.cached_property
    def gaps(self) -> FloatArray:
        """Directed gaps of the random logits."""
        gaps: FloatArray = geometry.directed_gaps(self.logits, self.y)
        return gaps

    def softce(self, logits: FloatArray) -> FloatArray:
        """-sum_k a_k log p_k of each row."""
        value: FloatArray = -(geometry.log_probs(logits) @ self.anchor)
        return value

    def lbe(self, logits: FloatArray) -> FloatArray:
        """sum_k I(r_k) of each row."""
        r = geometry.directed_gaps(logits, np.full(len(logits), self.label))
        total: FloatArray = geometry.log_barrier(r, scale=self.scale).sum(axis=-1)
        return total

    def ray(self, t: FloatArray) -> FloatArray:
        """The ordinal ray z_j = -t |j - y|, one row per t."""
        return -t[:, None] * np.abs(np.arange(self.num_classes) - self.label)

    def kl_from_anchor(self) -> float:
        """KL(a || p_s), with the remote part as sum_k A_k u_k so that nothing overflows."""
        eq = self.solution
        entropy = -(eq.anchor * eq.log_anchor).sum()
        linear = np.exp(eq.log_tails + eq.log_gaps).sum()
        return float(linear - np.log(eq.probs[self.label]) - entropy)

    def margin_multiples(self) -> FloatArray:
        """Ray lengths beyond the margin 1/s^2, where every gap lies in the log branch."""
        return max(1.0, 1 / self.scale**2) * np.logspace(1, 8, 8)

    def pair_masses(self) -> tuple[FloatArray, FloatArray]:
        """Mass of the farther and of the nearer class of each adjacent pair of the random logits."""
        p = np.exp(self.log_probs)
        right = geometry.gap_signs(self.num_classes)[self.label] > 0
        return np.where(right, p[:, 1:], p[:, :-1]), np.where(right, p[:, :-1], p[:, 1:])

    def outward_tails(self, probs: FloatArray) -> FloatArray:
        """Mass beyond each gap, summed from the outside in."""
        right = geometry.gap_signs(self.num_classes)[self.label] > 0
        from_right = np.cumsum(probs[::-1])[::-1][1:]
        return np.where(right, from_right, geometry.cumulative(probs))

    def interval_mass(self, probs: FloatArray) -> FloatArray:
        """P(l <= K <= r) for l = 0..y (rows) and r = y..C-1 (columns)."""
        below = np.concatenate([[0.0], np.cumsum(probs)])
        y = self.label
        mass: FloatArray = below[y + 1 :] - below[: y + 1, None]
        return mass
