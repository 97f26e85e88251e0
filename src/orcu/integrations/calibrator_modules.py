"""Fitted calibrators as torch modules: the same maps in float64, in operations that ONNX has."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from orcu import geometry
from orcu.errors import InputError, require

require("torch", extra="train", what="orcu.integrations.calibrator_modules")

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from orcu.calibrators import (  # noqa: E402
    AutoCalibration,
    Calibrator,
    Chain,
    DirichletCalibration,
    GapScaling,
    GroupedCalibration,
    OrdinalDirichlet,
    TemperatureScaling,
    UnimodalProjection,
    VectorScaling,
)
from orcu.calibrators.base import LARGEST  # noqa: E402
from orcu.calibrators.dirichlet_paper import PaperDirichletCalibration  # noqa: E402
from orcu.calibrators.linear_map import LinearMap  # noqa: E402
from orcu.calibrators.projection import TIE  # noqa: E402
from orcu.inputs import FloatArray  # noqa: E402


class CalibratorModule(nn.Module, ABC):
    """A calibrator without its fit: logits (n, C) to calibrated probabilities (n, C), in float64."""

    own: Tensor
    for_all: Tensor

    def __init__(self, fitted: Calibrator | None = None) -> None:
        super().__init__()
        share = 0.0 if fitted is None else fitted.share_for_all_
        if fitted is not None and share:
            self._keep("own", np.full(fitted.num_classes_, 1 - share))
            self._keep("for_all", np.full(fitted.num_classes_, share / fitted.num_classes_))
        self.spreads = share > 0

    @abstractmethod
    def moved(self, logits: Tensor) -> Tensor:
        """The logits that its map gives, from float64 logits."""

    def transform(self, logits: Tensor) -> Tensor:
        """The calibrated logits, from float64 logits."""
        return self.forward(logits).log() if self.spreads else self.moved(logits.clamp(-LARGEST, LARGEST))

    def forward(self, logits: Tensor) -> Tensor:
        """The calibrated probabilities."""
        probs = self.moved(logits.double().clamp(-LARGEST, LARGEST)).softmax(-1)
        return self.own * probs + self.for_all if self.spreads else probs

    def _keep(self, name: str, values: FloatArray) -> None:
        """Keep numbers, never a single one: the exporter takes a factor of 1.000005 for 1 and drops it."""
        assert values.size > 1  # noqa: S101
        self.register_buffer(name, torch.tensor(values, dtype=torch.float64))


class NoCalibration(CalibratorModule):
    """Plain softmax, for a model without a calibrator."""

    def moved(self, logits: Tensor) -> Tensor:
        """The logits."""
        return logits


class TemperatureModule(CalibratorModule):
    """z / T."""

    temperature: Tensor

    def __init__(self, fitted: TemperatureScaling) -> None:
        super().__init__(fitted)
        self._keep("temperature", np.full(fitted.num_classes_, fitted.temperature_))

    def moved(self, logits: Tensor) -> Tensor:
        """Z / T."""
        return logits / self.temperature


class LinearMapModule(CalibratorModule):
    """W x + b with x the logits or log-probabilities."""

    weight: Tensor
    bias: Tensor

    def __init__(self, fitted: LinearMap) -> None:
        super().__init__(fitted)
        self.on_log_probs = fitted.on == "log-probabilities"
        self._keep("weight", fitted.weight_)
        self._keep("bias", fitted.bias_)

    def moved(self, logits: Tensor) -> Tensor:
        """W x + b."""
        values = logits.log_softmax(-1) if self.on_log_probs else logits
        return values @ self.weight.T + self.bias


class GapModule(CalibratorModule):
    """Each adjacent gap d to sign(d) a(sign d) |d|^b."""

    rise: Tensor
    fall: Tensor
    power: Tensor

    def __init__(self, fitted: GapScaling) -> None:
        super().__init__(fitted)
        rise, fall = np.pad(fitted.scales_, ((0, 0), (1, 0)), constant_values=1.0)
        self._keep("rise", rise)
        self._keep("fall", fall)
        self._keep("power", np.full(fitted.num_classes_, fitted.power_))

    def moved(self, logits: Tensor) -> Tensor:
        """Logits that start at 0, where a gap of 0 is put, and go on by the moved gaps."""
        gaps = logits - torch.cat([logits[:, :1], logits[:, :-1]], dim=1)
        sizes = gaps.abs() ** self.power
        return torch.where(gaps > 0, self.rise * sizes, -self.fall * sizes).cumsum(-1)


class ProjectionModule(CalibratorModule):
    """The nearest unimodal distribution in least squares.

    `orcu.calibrators.projection` pools blocks on a stack, which no ONNX graph can do for many rows
    at once. Here every split is fitted by the max-min formula of isotonic regression,
    g_i = max_{j <= i} min_{k >= i} mean(p_j .. p_k), which needs no stack and gives the same fit.
    """

    def forward(self, logits: Tensor) -> Tensor:
        """The nearest unimodal probabilities."""
        return self.project(logits.double().softmax(-1))

    def moved(self, logits: Tensor) -> Tensor:
        """Their logarithms, with the smallest normal number in place of what underflows."""
        return self.forward(logits).clamp(min=float(np.finfo(np.float64).tiny)).log()

    def project(self, probs: Tensor) -> Tensor:
        """The nearest unimodal rows of probabilities (n, C)."""
        extra = torch.ones_like(probs[:1].sum(0, keepdim=True)) / probs.shape[1]
        return self._project(torch.cat([probs, extra]))[:-1]  # onnxruntime does not compare empty tables

    def _project(self, probs: Tensor) -> Tensor:
        rising = self._rising(probs)
        falling = self._rising(probs.flip(-1)).flip(-1)  # (n, last, i), last counted from the end
        # a split after class m: the rising fit of 0..m, and the falling fit of the other C-1-m classes
        rest = torch.cat([falling[:, :-1].flip(1), torch.zeros_like(falling[:, :1])], dim=1)
        fits = rising + rest
        distance = (fits - probs.unsqueeze(1)).square().sum(-1).sqrt()
        nearest = distance - distance.amin(-1, keepdim=True) <= TIE
        first = nearest.to(torch.int64).argmax(-1)  # the library's rule for ties
        chosen = fits.gather(1, first[:, None, None].expand(-1, 1, probs.shape[1])).squeeze(1)
        return torch.where(geometry.is_unimodal(probs)[:, None], probs, chosen)

    def _rising(self, values: Tensor) -> Tensor:
        """The increasing fit of classes 0..last for every last, 0 behind it: (n, last, i)."""
        k = torch.arange(values.shape[1], device=values.device)
        started, below = k[:, None] >= k, k[:, None] <= k  # (last, i): i <= last; (j, i): j <= i
        counts = (k - k[:, None] + 1).clamp(min=1).to(values.dtype)  # of the classes j..k
        sums = values.cumsum(-1)
        before = torch.cat([torch.zeros_like(sums[:, :1]), sums[:, :-1]], dim=1)
        means = (sums.unsqueeze(1) - before.unsqueeze(2)) / counts  # (n, j, k)
        infinite = torch.full_like(means, float("inf"))
        lowest, fits = infinite, []  # lowest[j, i]: the least mean of j..k over i <= k <= last
        for last in range(len(k)):
            reached = torch.where(started[last], means[:, :, last : last + 1], infinite)
            lowest = torch.minimum(lowest, reached)
            highest = torch.where(below, lowest, -infinite).amax(1)
            fits.append(torch.where(started[last], highest, torch.zeros_like(highest)))
        return torch.stack(fits, dim=1)


class ChainModule(CalibratorModule):
    """One after the other."""

    def __init__(self, fitted: Chain) -> None:
        super().__init__()
        self.steps = nn.ModuleList(calibrator_module(step) for step in fitted.steps_)

    def moved(self, logits: Tensor) -> Tensor:
        """Through the logits of every step."""
        for step in self.steps:
            logits = step.transform(logits)  # type: ignore[operator]
        return logits

    def forward(self, logits: Tensor) -> Tensor:
        """Through the logits of all steps but the last, and its probabilities."""
        *others, last = self.steps
        logits = logits.double()
        for step in others:
            logits = step.transform(logits)  # type: ignore[operator]
        probs: Tensor = last(logits)
        return probs


def _common(fitted: GroupedCalibration) -> CalibratorModule:
    """The common map of groups that do not differ."""
    if fitted.turns_:
        raise InputError(
            "calibrator: it turns each group by itself, and a graph that takes features alone does not know the group. "
            "Export one model for each group, with a calibrator fitted on its rows, or one calibrator for all."
        )
    return calibrator_module(fitted.fitted_)


_MODULES: dict[type[Calibrator], Callable[..., CalibratorModule]] = {
    AutoCalibration: lambda chosen: calibrator_module(chosen.fitted_),
    Chain: ChainModule,
    DirichletCalibration: LinearMapModule,
    GapScaling: GapModule,
    GroupedCalibration: _common,
    OrdinalDirichlet: LinearMapModule,
    PaperDirichletCalibration: LinearMapModule,
    TemperatureScaling: TemperatureModule,
    UnimodalProjection: lambda _: ProjectionModule(),
    VectorScaling: LinearMapModule,
}


def calibrator_module(calibrator: Calibrator | None) -> CalibratorModule:
    """The map of a fitted calibrator as a torch module, or plain softmax for ``None``.

    Raises:
        InputError: if it is not fitted, or of a kind that has no module.

    Example:
        >>> fitted = TemperatureScaling().fit([[2.0, 0.0]] * 5, [0, 1, 0, 0, 0])
        >>> calibrator_module(fitted)(torch.tensor([[2.0, 0.0]])).round(decimals=3).tolist()
        [[0.839, 0.161]]
    """
    if calibrator is None:
        return NoCalibration()
    make = _MODULES.get(type(calibrator))  # the very class: a subclass may map otherwise
    if make is None:
        known = ", ".join(sorted(kind.name for kind in _MODULES))
        raise InputError(f"calibrator: {type(calibrator).__name__} has no form that can be exported; known: {known}.")
    calibrator._need_fit()
    return make(calibrator)
