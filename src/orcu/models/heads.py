"""Heads: modules that map features to logits."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from orcu.defaults import NETWORK_LOSSES
from orcu.errors import InputError
from orcu.inputs import as_count
from orcu.losses.ensemble import EnsembleLoss, EnsembleOutput
from orcu.losses.poe import POEOutput

SAMPLE_BUDGET = 2**26  # largest number of sampled embedding values in memory (256 MiB in float32)


class POEHead(nn.Module):
    """Probabilistic ordinal embedding (Li et al., 2021): a Gaussian embedding and a linear classifier.

    mean = relu(W_m x), log-variance = BatchNorm(W_v x). In training, T samples mean + exp(log_var / 2) * noise pass
    dropout and the classifier; at inference the mean embedding does, as in the paper.

    Samples are drawn in chunks of at most 2^26 embedding values. With more than one chunk the activations are
    recomputed in the backward pass, which bounds the memory and does not change the distribution of the samples.

    Args:
        in_features: number of input features.
        num_classes: number of classes, C.
        embedding: dimension D of the embedding; ``in_features`` by default.
        samples: number of samples, T.
        dropout: dropout probability of the sampled embedding, in training.
        average_samples: whether inference averages the softmax over T samples instead of using the mean embedding.

    Raises:
        InputError: if an argument has an invalid value, or a training batch has a single row, for which BatchNorm has
            no variance.

    Example:
        >>> import torch
        >>> head = POEHead(in_features=8, num_classes=5)
        >>> output = head(torch.randn(4, 8))
        >>> tuple(output.sample_logits.shape), tuple(head.eval()(torch.randn(4, 8)).logits.shape)
        ((50, 4, 5), (4, 5))
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        embedding: int | None = None,
        samples: int = 50,
        dropout: float = 0.5,
        average_samples: bool = False,
    ) -> None:
        super().__init__()
        in_features = as_count(in_features, name="in_features", minimum=1)
        num_classes = as_count(num_classes, name="num_classes", minimum=2)
        width = in_features if embedding is None else as_count(embedding, name="embedding", minimum=1)
        self.samples = as_count(samples, name="samples", minimum=1)
        self.average_samples = average_samples
        self.to_mean = nn.Linear(in_features, width)
        self.to_log_var = nn.Linear(in_features, width)
        self.standardise = nn.BatchNorm1d(width, eps=1e-3, affine=False)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(width, num_classes)
        for layer in (self.to_mean, self.to_log_var, self.classifier):
            nn.init.normal_(layer.weight, std=0.01)
            nn.init.zeros_(layer.bias)

    def forward(self, features: Tensor) -> POEOutput:
        """Map features (n, in_features) to a `POEOutput`."""
        if self.training and len(features) < 2:
            raise InputError(
                f"features: {len(features)} row(s) in a training batch, expected at least 2 for BatchNorm. "
                "Use larger batches, or drop the last incomplete one (drop_last=True)."
            )
        mean = self.to_mean(features).relu()
        log_var = self.standardise(self.to_log_var(features))
        if self.average_samples and not self.training:
            return POEOutput(self._sample(mean, log_var).log_softmax(-1).logsumexp(0), mean, log_var, None)
        sampled = self._sample(mean, log_var) if self.training else None
        return POEOutput(self.classifier(self.dropout(mean)), mean, log_var, sampled)

    def _sample(self, mean: Tensor, log_var: Tensor) -> Tensor:
        chunk = max(1, SAMPLE_BUDGET // mean.numel())
        counts = [min(chunk, self.samples - start) for start in range(0, self.samples, chunk)]
        if len(counts) == 1:
            return self._classify_samples(mean, log_var, self.samples)
        parts = [checkpoint(self._classify_samples, mean, log_var, count, use_reentrant=False) for count in counts]
        return torch.cat(parts)

    def _classify_samples(self, mean: Tensor, log_var: Tensor, count: int) -> Tensor:
        noise = torch.randn((count, *mean.shape), dtype=mean.dtype, device=mean.device)
        logits: Tensor = self.classifier(self.dropout(mean + (log_var / 2).exp() * noise))
        return logits


class UnimodalHead(nn.Module):
    """Head with unimodal predictions (after Cardoso et al., 2023): logits -|v_k| of an increasing sequence v.

    v_0 = w_0 x, v_k = v_{k-1} + softplus(w_k x). The sequence increases, so -|v| rises until v crosses zero and falls
    after it, for all weights. Works with every loss that takes logits.

    Args:
        in_features: number of input features.
        num_classes: number of classes, C.

    Example:
        >>> import torch
        >>> from orcu import metrics
        >>> probs = UnimodalHead(8, 5)(torch.randn(100, 8)).softmax(1)
        >>> metrics.unimodality(probs)
        1.0
    """

    def __init__(self, in_features: int, num_classes: int) -> None:
        super().__init__()
        in_features = as_count(in_features, name="in_features", minimum=1)
        self.steps = nn.Linear(in_features, as_count(num_classes, name="num_classes", minimum=2))
        # the initial sequence crosses zero in the middle, so that all classes are reachable
        nn.init.constant_(self.steps.bias[:1].detach(), -(num_classes - 1) / 2)
        nn.init.constant_(self.steps.bias[1:].detach(), 0.5413)  # softplus(0.5413) = 1

    def forward(self, features: Tensor) -> Tensor:
        """Map features (n, in_features) to logits (n, C)."""
        steps = self.steps(features)
        sequence = torch.cat([steps[:, :1], F.softplus(steps[:, 1:])], dim=1).cumsum(dim=1)
        return -sequence.abs()


class EnsembleHead(nn.Module):
    """One linear head per loss on shared features.

    The heads are trained with the mean of their losses (the attribute ``loss``); predictions use the mean of the
    heads' log-probabilities.

    Args:
        in_features: number of input features.
        num_classes: number of classes, C.
        losses: names or tables of the losses, as for `orcu.losses.create`.

    Example:
        >>> head = EnsembleHead(8, 5, losses=("ce", "orcu"))
        >>> output = head(torch.randn(4, 8))
        >>> tuple(output.logits.shape), tuple(output.by_loss.shape)
        ((4, 5), (2, 4, 5))
        >>> bool(head.loss(output, torch.tensor([0, 1, 3, 4])) > 0)
        True
    """

    def __init__(self, in_features: int, num_classes: int, *, losses: Sequence[Any] = NETWORK_LOSSES) -> None:
        super().__init__()
        self.num_classes = as_count(num_classes, name="num_classes", minimum=2)
        self.loss = EnsembleLoss(self.num_classes, losses=losses)
        width = as_count(in_features, name="in_features", minimum=1)
        self.heads = nn.Linear(width, len(self.loss.members) * self.num_classes)

    def forward(self, features: Tensor) -> EnsembleOutput:
        """Map features (n, in_features) to an `EnsembleOutput`."""
        by_loss = self.heads(features).unflatten(-1, (-1, self.num_classes)).transpose(0, 1)
        return EnsembleOutput(by_loss.log_softmax(-1).mean(0), by_loss)


HEADS: dict[str, Callable[[int, int], nn.Module]] = {
    "linear": nn.Linear,
    "poe": POEHead,
    "unimodal": UnimodalHead,
    "ensemble": EnsembleHead,
}
