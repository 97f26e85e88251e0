"""POE: cross-entropy over sampled embeddings plus a KL term and an ordinal triplet term."""

import numbers
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from orcu.errors import InputError, UnknownNameError
from orcu.losses.base import LossCard, OrdinalLoss, reduce, register_loss


class POEOutput(NamedTuple):
    """Output of `orcu.models.heads.POEHead` and input of `POELoss`.

    The logits, used for predictions, are those of the mean embedding, or with ``average_samples`` the logarithm of the
    averaged softmax up to a constant.
    """

    logits: Tensor  # (n, C)
    mean: Tensor  # mean of the embedding, (n, D)
    log_var: Tensor  # log-variance of the embedding, (n, D)
    sample_logits: Tensor | None  # logits of the sampled embeddings, (T, n, C), in training


def symmetric_kl(mean_a: Tensor, log_var_a: Tensor, mean_b: Tensor, log_var_b: Tensor) -> Tensor:
    """KL(a || b) + KL(b || a) of diagonal Gaussians, over the last axis."""
    squared = (mean_a - mean_b).square()
    ratio = log_var_a - log_var_b
    terms = ratio.exp() + (-ratio).exp() - 2 + squared * ((-log_var_a).exp() + (-log_var_b).exp())
    return terms.sum(-1) / 2


def bhattacharyya(mean_a: Tensor, log_var_a: Tensor, mean_b: Tensor, log_var_b: Tensor) -> Tensor:
    """Bhattacharyya distance of diagonal Gaussians, over the last axis."""
    log_middle = torch.logaddexp(log_var_a, log_var_b) - torch.log(log_var_a.new_tensor(2.0))
    spread = log_middle - (log_var_a + log_var_b) / 2
    return ((mean_a - mean_b).square() * (-log_middle).exp() / 8 + spread / 2).sum(-1)


def wasserstein(mean_a: Tensor, log_var_a: Tensor, mean_b: Tensor, log_var_b: Tensor) -> Tensor:
    """Squared 2-Wasserstein distance of diagonal Gaussians, over the last axis."""
    spread = (log_var_a / 2).exp() - (log_var_b / 2).exp()
    return ((mean_a - mean_b).square() + spread.square()).sum(-1)


def hellinger(mean_a: Tensor, log_var_a: Tensor, mean_b: Tensor, log_var_b: Tensor) -> Tensor:
    """Squared Hellinger distance of diagonal Gaussians, 1 - exp(-Bhattacharyya)."""
    return -torch.expm1(-bhattacharyya(mean_a, log_var_a, mean_b, log_var_b))


DISTANCES: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "symmetric_kl": symmetric_kl,
    "bhattacharyya": bhattacharyya,
    "wasserstein": wasserstein,
    "hellinger": hellinger,
}


@register_loss(
    LossCard(
        name="poe",
        title="POE (probabilistic ordinal embeddings)",
        family="ordinal",
        paper="Li et al., 2021",
        formula="mean_t -log p_y(e_t) + kl KL(N(mu, var) || N(0, I)) + triplet max(0, D_near - D_far + m)",
        notes="Changes the architecture: it takes the output of orcu.models.heads.POEHead instead of "
        "logits. KL 1e-4, triplet 1e-4, margin 5 and symmetric KL as in the authors' training script; "
        "the ORCU paper gives none. A statistic of the batch.",
    )
)
class POELoss(OrdinalLoss):
    """Cross-entropy over the samples + kl * KL to a standard normal + triplet * ordinal triplet term.

    For anchor i, j = i + 1 and k is the sample whose label distance to i is closest to that of j without being equal;
    the embedding distances D must have the order of the label distances, by a margin. The triplet term averages over
    the violated triplets and is not weighted. After a forward pass, ``parts`` holds the weighted terms ``ce``, ``kl``
    and ``triplet``.

    Args:
        kl: factor of the KL term.
        triplet: factor of the triplet term.
        margin: margin m of the triplet term.
        distance: distance D between Gaussians: ``"symmetric_kl"``, ``"bhattacharyya"``, ``"wasserstein"`` or
            ``"hellinger"``.

    Example:
        >>> import torch
        >>> from orcu.models.heads import POEHead
        >>> head = POEHead(in_features=8, num_classes=5)
        >>> value = POELoss(num_classes=5)(head(torch.randn(4, 8)), torch.tensor([0, 1, 3, 4]))
        >>> value.backward()
        >>> torch.isfinite(value).item()
        True
    """

    head = "poe"
    batch_statistic = True
    soft_labels = False

    def __init__(
        self,
        num_classes: int,
        *,
        kl: float = 1e-4,
        triplet: float = 1e-4,
        margin: float = 5.0,
        distance: str = "symmetric_kl",
        reduction: str = "mean",
        weight: Sequence[float] | Tensor | None = None,
    ) -> None:
        super().__init__(num_classes, reduction=reduction, weight=weight, ignore_index=None)
        for name, value in (("kl", kl), ("triplet", triplet), ("margin", margin)):
            if not isinstance(value, numbers.Real) or not float(value) >= 0:
                raise InputError(f"{name}: expected a number of at least 0, got {value!r}.")
        if distance not in DISTANCES:
            raise UnknownNameError("distance between Gaussians", distance, DISTANCES)
        self.kl, self.triplet, self.margin, self.distance = kl, triplet, margin, distance

    def forward(  # type: ignore[override]  # takes the output of its head instead of logits
        self, output: POEOutput, y: Tensor, *, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Compute the loss of a batch of head outputs; see `OrdinalLoss.forward` for the other arguments."""
        if not isinstance(output, POEOutput):
            raise InputError(
                f"output: expected a POEOutput, got {type(output).__name__}. "
                "Put orcu.models.heads.POEHead(in_features, num_classes) on the model's features."
            )
        if output.logits.dim() != 2:
            raise InputError(
                f"output: expected logits of shape (n, {self.num_classes}), got {tuple(output.logits.shape)}; "
                "the POE loss does not take dense outputs."
            )
        self._check(output.logits, y, sample_weight)
        y = y.long()
        logits, mean, log_var = (t.float() if t.dtype.itemsize == 2 else t for t in output[:3])
        sampled = logits[None] if output.sample_logits is None else output.sample_logits.to(logits.dtype)
        weight = self._weights(logits, y, sample_weight)
        each = F.cross_entropy(sampled.flatten(0, 1), y.repeat(len(sampled)), reduction="none")
        ce = reduce(each.view(len(sampled), -1).mean(0), weight, self.reduction)
        divergence = (mean.square() + log_var.exp() - log_var - 1).sum(-1) / 2
        kl = self.kl * reduce(divergence, weight, self.reduction)
        triplet = self.triplet * self._triplet(mean, log_var, y)
        if self.reduction == "sum":
            triplet = triplet * (len(y) if weight is None else weight.sum())
        self.record({"ce": ce, "kl": kl, "triplet": triplet})
        return ce + kl + triplet

    def _triplet(self, mean: Tensor, log_var: Tensor, y: Tensor) -> Tensor:
        second = torch.arange(1, len(y) + 1, device=y.device) % len(y)
        label_distance = (y[:, None] - y).abs()
        to_second = (y - y[second]).abs()
        # the third sample: label distance closest to that of the second but not equal, and not the anchor itself
        offset = (label_distance - to_second[:, None]).abs()
        masked = offset.masked_fill(offset == 0, 2 * self.num_classes).fill_diagonal_(4 * self.num_classes)
        third = masked.argmin(1)
        order = torch.sign(to_second - label_distance.gather(1, third[:, None])[:, 0])
        distance = DISTANCES[self.distance]
        to_second_embedding = distance(mean, log_var, mean[second], log_var[second])
        to_third_embedding = distance(mean, log_var, mean[third], log_var[third])
        violation = order * (to_third_embedding - to_second_embedding) + self.margin
        active = (order != 0) & (violation > 0)
        return (violation * active).sum() / active.sum().clamp(min=1)
