"""Heads: modules that map features to logits.

The heads of `LOGIT_HEADS` return logits of shape (n, C), so every loss of logits and every calibrator works with them.
Except for ``linear`` and ``unimodal``, these logits are log-probabilities: each row of exp(logits) sums to one.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from orcu.defaults import NETWORK_LOSSES
from orcu.errors import InputError, UnknownNameError
from orcu.inputs import as_count
from orcu.losses.base import OUTPUT_HEADS, OrdinalLoss
from orcu.losses.ensemble import EnsembleLoss, EnsembleOutput
from orcu.losses.poe import POEOutput

SAMPLE_BUDGET = 2**26  # largest number of sampled embedding values in memory (256 MiB in float32)
LINKS = ("logit", "probit", "cloglog")
SMALL_GAP = 1e-4  # gap of thresholds below which a difference of log-probabilities loses digits in float64
MAX_LOG_HAZARD = 7.0  # exp(-exp(7)) is 0 in float64; above it the cumulative hazard of cloglog continues linearly


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
    """Head with unimodal predictions: logits -|v_k| of an increasing sequence v.

    v_0 = w_0 x, v_k = v_{k-1} + softplus(w_k x). The sequence increases, so -|v| rises until v crosses zero and falls
    after it, for all weights. Works with every loss that takes logits. Yamasaki (2022) has squared steps in place of
    softplus, and Dey et al. (2023, COPOC) absolute values. `UnimodalNetHead` is the head of Cardoso et al. (2025).

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


class UnimodalNetHead(nn.Module):
    """UnimodalNet (Cardoso et al., 2025): the minimum of an increasing and a decreasing sequence.

    a = softplus(W x), z_k = min(a_0 + ... + a_k, a_k + ... + a_{C-1}), p = softmax(z). The first sum increases in k and
    the second one decreases, so their minimum is unimodal for all weights.

    Args:
        in_features: number of input features.
        num_classes: number of classes, C.

    Example:
        >>> head = UnimodalNetHead(1, 4)
        >>> _ = nn.init.zeros_(head.steps.weight), nn.init.constant_(head.steps.bias, 0.5413)  # a = 1
        >>> [round(p, 3) for p in head(torch.ones(1, 1)).exp()[0].tolist()]  # z = 1, 2, 2, 1
        [0.134, 0.366, 0.366, 0.134]
    """

    def __init__(self, in_features: int, num_classes: int) -> None:
        super().__init__()
        in_features, num_classes = _sizes(in_features, num_classes)
        self.steps = nn.Linear(in_features, num_classes)

    def forward(self, features: Tensor) -> Tensor:
        """Map features (n, in_features) to log-probabilities (n, C)."""
        steps = F.softplus(_single_precision(self.steps(features)))
        rising, falling = steps.cumsum(-1), steps.flip(-1).cumsum(-1).flip(-1)
        return torch.minimum(rising, falling).log_softmax(-1)


class CumulativeHead(nn.Module):
    """Cumulative link model (CLM, proportional odds): one score and ordered thresholds, P(y <= k) = F(theta_k - w x).

    theta_k = theta_{k-1} + softplus(d_k), so the thresholds are ordered for all parameters, and
    p_k = F(theta_k - w x) - F(theta_{k-1} - w x) > 0 with theta_{-1} = -inf and theta_{C-1} = inf. The logarithm of
    the difference is computed without cancellation:

    - logit: log sigma(b) + log sigma(-a) + log sigma(d_k), since 1 - exp(-softplus(d)) = sigma(d);
    - probit: log Phi(b) + log(1 - Phi(a) / Phi(b)) in the lower tail, by symmetry, in float64;
    - cloglog: the difference of two survival functions exp(-exp(a)) - exp(-exp(b)), from the difference of their
      hazards, in float64. A logarithm below -1096, where the probability is 0 in float64, continues linearly.

    The first thresholds make all classes equally likely at the score 0.

    Args:
        in_features: number of input features.
        num_classes: number of classes, C.
        link: distribution function F: ``"logit"`` (logistic), ``"probit"`` (normal) or ``"cloglog"``,
            F(t) = 1 - exp(-exp(t)).

    Raises:
        InputError: if an argument has an invalid value.

    Example:
        >>> head = CumulativeHead(1, 3)
        >>> _ = nn.init.ones_(head.score.weight)
        >>> [round(threshold, 3) for threshold in head.thresholds.tolist()]
        [-0.693, 0.693]
        >>> [round(p, 3) for p in head(torch.ones(1, 1)).exp()[0].tolist()]
        [0.155, 0.269, 0.576]
    """

    def __init__(self, in_features: int, num_classes: int, *, link: str = "logit") -> None:
        super().__init__()
        in_features, num_classes = _sizes(in_features, num_classes)
        if link not in LINKS:
            raise UnknownNameError("link", link, LINKS)
        self.link = link
        self.score = nn.Linear(in_features, 1, bias=False)  # the thresholds are its offset
        self.first_threshold = nn.Parameter(torch.zeros(1))
        self.steps = nn.Parameter(torch.zeros(num_classes - 2))
        self.set_thresholds(_quantiles(link, torch.arange(1, num_classes, dtype=torch.float64) / num_classes))

    @property
    def thresholds(self) -> Tensor:
        """Increasing thresholds theta, shape (C - 1,)."""
        return torch.cat([self.first_threshold, F.softplus(self.steps)]).cumsum(0)

    @torch.no_grad()
    def set_thresholds(self, thresholds: Tensor) -> None:
        """Set the thresholds to increasing values, shape (C - 1,)."""
        gaps = thresholds.diff()
        self.first_threshold.copy_(thresholds[:1])
        self.steps.copy_(gaps + (-torch.expm1(-gaps)).log())  # the inverse of softplus

    def forward(self, features: Tensor) -> Tensor:
        """Map features (n, in_features) to log-probabilities (n, C)."""
        score = _single_precision(self.score(features))
        dtype = score.dtype
        first, steps = self.first_threshold.to(dtype), self.steps.to(dtype)
        if self.link != "logit" and score.device.type != "mps":  # which has no float64
            score, first, steps = score.double(), first.double(), steps.double()
        distances = torch.cat([first, F.softplus(steps)]).cumsum(0) - score
        return _LOG_PROBS[self.link](distances, steps).to(dtype)


class CoralHead(CumulativeHead):
    """CORAL (Cao, Mirjalili and Raschka, 2020): shared weights and one bias per threshold, P(y > k) = sigma(w x + b_k).

    With b_k = -theta_k this is `CumulativeHead` with the logit link. It differs in the first biases, which are those
    of the authors: (C - 1 - k) / (C - 1). A distribution needs decreasing biases. The authors prove that those which
    minimise their loss decrease, but during training they may not, and then a probability is negative. Here they
    decrease for all parameters. The loss of the authors is `orcu.losses.coral.CoralLoss`.

    Args:
        in_features: number of input features.
        num_classes: number of classes, C.

    Example:
        >>> head = CoralHead(8, 4)
        >>> [round(bias, 3) for bias in (-head.thresholds).tolist()]
        [1.0, 0.667, 0.333]
    """

    def __init__(self, in_features: int, num_classes: int) -> None:
        super().__init__(in_features, num_classes)
        self.set_thresholds(torch.arange(1 - num_classes, 0, dtype=torch.float64) / (num_classes - 1))


class CornHead(nn.Module):
    """CORN (Shi, Cao and Raschka, 2021): conditional probabilities P(y > k | y >= k) = sigma(u_k), u = W x + b.

    By the chain rule log p_k = log sigma(-u_k) + sum_{j < k} log sigma(u_j), where the first term is missing for the
    last class. This is a distribution for all weights, and P(y > k) decreases in k. The loss of the authors is
    `orcu.losses.corn.CornLoss`.

    Args:
        in_features: number of input features.
        num_classes: number of classes, C.

    Example:
        >>> head = CornHead(1, 4)
        >>> _ = nn.init.zeros_(head.conditional.weight), nn.init.zeros_(head.conditional.bias)
        >>> head(torch.ones(1, 1)).exp().tolist()
        [[0.5, 0.25, 0.125, 0.125]]
    """

    def __init__(self, in_features: int, num_classes: int) -> None:
        super().__init__()
        in_features, num_classes = _sizes(in_features, num_classes)
        self.conditional = nn.Linear(in_features, num_classes - 1)

    def forward(self, features: Tensor) -> Tensor:
        """Map features (n, in_features) to log-probabilities (n, C)."""
        return _chain_rule(self.conditional(features))


class StickBreakingHead(CornHead):
    """Stick breaking: class k takes the share P(y = k | y >= k) = sigma(v_k) of the stick that is left, v = W x + b.

    log p_k = log sigma(v_k) + sum_{j < k} log sigma(-v_j); the last class takes the rest. With v = -u these are the
    distributions of `CornHead`. The first biases are -log(C - 1 - k), so that the features 0 give equal probabilities,
    where those of `CornHead` give about 1/2, 1/4, 1/8 and so on.

    Args:
        in_features: number of input features.
        num_classes: number of classes, C.

    Example:
        >>> probs = StickBreakingHead(1, 4)(torch.zeros(1, 1)).exp()
        >>> [round(p, 3) for p in probs[0].tolist()]
        [0.25, 0.25, 0.25, 0.25]
    """

    def __init__(self, in_features: int, num_classes: int) -> None:
        super().__init__(in_features, num_classes)
        with torch.no_grad():
            self.conditional.bias.copy_(-torch.arange(num_classes - 1, 0, -1).log())

    def forward(self, features: Tensor) -> Tensor:
        """Map features (n, in_features) to log-probabilities (n, C)."""
        return _chain_rule(-self.conditional(features))


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


def _sizes(in_features: int, num_classes: int) -> tuple[int, int]:
    width = as_count(in_features, name="in_features", minimum=1)
    return width, as_count(num_classes, name="num_classes", minimum=2)


def _single_precision(values: Tensor) -> Tensor:
    """Half types as float32: the log-probabilities of a tail need more than three digits."""
    return values.float() if values.dtype.itemsize == 2 else values


def _chain_rule(logits: Tensor) -> Tensor:
    """Log-probabilities (n, C) from the logits of P(y > k | y >= k), shape (n, C - 1)."""
    logits = _single_precision(logits)
    above, stop = F.logsigmoid(logits).cumsum(-1), F.logsigmoid(-logits)  # log P(y > k), log P(y = k | y >= k)
    return torch.cat([stop[..., :1], above[..., :-1] + stop[..., 1:], above[..., -1:]], dim=-1)


def _quantiles(link: str, probs: Tensor) -> Tensor:
    """Inverse of the distribution function of a link."""
    if link == "logit":
        return probs.logit()
    return torch.special.ndtri(probs) if link == "probit" else (-torch.log1p(-probs)).log()


def _logit_log_probs(distances: Tensor, steps: Tensor) -> Tensor:
    """Log-probabilities (n, C) of the logit link, from theta_k - f (n, C - 1) and the steps d of the thresholds."""
    below, above = F.logsigmoid(distances), F.logsigmoid(-distances)  # log P(y <= k), log P(y > k)
    inner = below[..., 1:] + above[..., :-1] + F.logsigmoid(steps)
    return torch.cat([below[..., :1], inner, above[..., -1:]], dim=-1)


def _probit_log_probs(distances: Tensor, steps: Tensor) -> Tensor:
    """Log-probabilities (n, C) of the probit link; see `_logit_log_probs`."""
    lower, upper, gaps = distances[..., :-1], distances[..., 1:], F.softplus(steps)
    flip = lower + upper > 0  # the interval (a, b) has the probability of (-b, -a)
    low, high = torch.where(flip, -upper, lower), torch.where(flip, -lower, upper)
    # log Phi(b) - log Phi(a), for small gaps from the derivative of log Phi in the middle
    slope = math.sqrt(2 / math.pi) / torch.special.erfcx((low + high) / -math.sqrt(8))
    difference = torch.where(gaps < SMALL_GAP, gaps * slope, torch.special.log_ndtr(high) - torch.special.log_ndtr(low))
    inner = torch.special.log_ndtr(high) + _log1mexp(difference.log())
    ends = torch.special.log_ndtr(distances[..., :1]), torch.special.log_ndtr(-distances[..., -1:])
    return torch.cat([ends[0], inner, ends[1]], dim=-1)


def _cloglog_log_probs(distances: Tensor, steps: Tensor) -> Tensor:
    """Log-probabilities (n, C) of the cloglog link; see `_logit_log_probs`."""
    gaps, limit = F.softplus(steps), MAX_LOG_HAZARD
    capped = distances.clamp(max=limit)
    hazard = capped.exp() + math.exp(limit) * (distances - capped)  # -log P(y > k)
    lower, upper = distances[..., :-1], distances[..., 1:]
    curved = torch.where(upper <= limit, gaps, (limit - lower).clamp(min=0))  # part of the gap below the limit
    log_difference = capped[..., 1:] + (-torch.expm1(-curved) + gaps - curved).log()
    inner = -hazard[..., :-1] + _log1mexp(log_difference)
    first = _log1mexp(distances[..., :1])  # log(1 - exp(-exp(t)))
    return torch.cat([first, inner, -hazard[..., -1:]], dim=-1)


def _log1mexp(log_values: Tensor) -> Tensor:
    """log(1 - exp(-x)) from log x, for x that may underflow or overflow."""
    bounded = log_values.clamp(-30.0, 30.0)  # below, the result is log x to 14 digits; above, it is 0
    values = (-torch.expm1(-bounded.exp())).log()
    return torch.where(log_values < -30.0, log_values, values)


_LOG_PROBS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "logit": _logit_log_probs,
    "probit": _probit_log_probs,
    "cloglog": _cloglog_log_probs,
}

HEADS: dict[str, Callable[[int, int], nn.Module]] = {
    "linear": nn.Linear,
    "cumulative": CumulativeHead,
    "cumulative_probit": partial(CumulativeHead, link="probit"),
    "cumulative_cloglog": partial(CumulativeHead, link="cloglog"),
    "coral": CoralHead,
    "corn": CornHead,
    "stick_breaking": StickBreakingHead,
    "unimodal": UnimodalHead,
    "unimodalnet": UnimodalNetHead,
    "poe": POEHead,
    "ensemble": EnsembleHead,
}
LOGIT_HEADS = tuple(name for name in HEADS if name not in OUTPUT_HEADS)  # heads for any loss of logits


def check_head(head: str, criterion: OrdinalLoss, loss: str) -> None:
    """Check that a head exists and gives what a loss takes: logits, or the output of the head of the loss.

    Raises:
        InputError: if it does not; ``loss`` is the name of the loss in the message.

    Example:
        >>> from orcu import losses
        >>> check_head("linear", losses.create("poe", num_classes=3), "poe")
        Traceback (most recent call last):
        orcu.errors.InputError: head: the loss 'poe' takes the output of the head 'poe', got linear.
    """
    if head not in HEADS:
        raise UnknownNameError("head", head, HEADS)
    if criterion.needs_head and head != criterion.head:
        raise InputError(f"head: the loss {loss!r} takes the output of the head {criterion.head!r}, got {head}.")
    if not criterion.needs_head and head not in LOGIT_HEADS:
        raise InputError(f"head: the loss {loss!r} takes logits; expected one of {', '.join(LOGIT_HEADS)}, got {head}.")
