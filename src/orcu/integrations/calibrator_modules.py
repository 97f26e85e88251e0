"""Fitted calibrators as torch modules in float64, built from operations that ONNX supports."""

from collections.abc import Callable

import numpy as np

from orcu import geometry
from orcu.errors import InputError, require

require("torch", extra="train", feature="orcu.integrations.calibrator_modules")

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from orcu import calibrators  # noqa: E402
from orcu.calibrators.base import MAX_LOGIT, Calibrator  # noqa: E402
from orcu.calibrators.dirichlet import PaperDirichletCalibration  # noqa: E402
from orcu.calibrators.linear_map import LinearMap  # noqa: E402
from orcu.calibrators.projection import TIE_TOLERANCE  # noqa: E402
from orcu.inputs import FloatArray  # noqa: E402


class CalibratorModule(nn.Module):
    """A fitted calibrator: a map from logits (n, C) to calibrated probabilities (n, C), in float64.

    Args:
        map_logits: map of the logits in float64, before the mixture with the uniform distribution; its further
            arguments are the constants.
        calibrator: the fitted calibrator whose mixture is applied, or ``None`` for no mixture.
        constants: arrays that become buffers of the module.
    """

    def __init__(
        self, map_logits: Callable[..., Tensor], calibrator: Calibrator | None = None, **constants: FloatArray
    ) -> None:
        super().__init__()
        self.map_logits, self.names = map_logits, list(constants)
        self.mixes = calibrator is not None and calibrator.uniform_share_ > 0
        if calibrator is not None and self.mixes:
            share, num_classes = calibrator.uniform_share_, calibrator.num_classes_
            constants["model_share"] = np.full(num_classes, 1 - share)
            constants["uniform_probs"] = np.full(num_classes, share / num_classes)
        for name, values in constants.items():
            assert values.size > 1  # noqa: S101  # the exporter takes a single factor of 1.000005 for 1 and drops it
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64))

    def transform(self, logits: Tensor) -> Tensor:
        """Calibrated logits, from float64 logits."""
        if self.mixes:
            return self.forward(logits).log()
        return self.map_logits(logits.clamp(-MAX_LOGIT, MAX_LOGIT), *map(self.get_buffer, self.names))

    def forward(self, logits: Tensor) -> Tensor:
        """Calibrated probabilities."""
        return self.probs(logits.double().clamp(-MAX_LOGIT, MAX_LOGIT))

    def probs(self, logits: Tensor) -> Tensor:
        """Calibrated probabilities, from clamped float64 logits."""
        probs = self.map_logits(logits, *map(self.get_buffer, self.names)).softmax(-1)
        return self.get_buffer("model_share") * probs + self.get_buffer("uniform_probs") if self.mixes else probs


def _temperature_module(calibrator: calibrators.TemperatureScaling) -> CalibratorModule:
    temperature = np.full(calibrator.num_classes_, calibrator.temperature_)
    return CalibratorModule(torch.div, calibrator, temperature=temperature)


def _linear_module(calibrator: LinearMap) -> CalibratorModule:
    def map_logits(logits: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return (logits.log_softmax(-1) if calibrator.on == "log-probabilities" else logits) @ weight.T + bias

    return CalibratorModule(map_logits, calibrator, weight=calibrator.weight_, bias=calibrator.bias_)


def _gap_module(calibrator: calibrators.GapScaling) -> CalibratorModule:
    def map_logits(logits: Tensor, rise: Tensor, fall: Tensor, power: Tensor) -> Tensor:
        gaps = logits - torch.cat([logits[:, :1], logits[:, :-1]], dim=1)
        sizes = gaps.abs() ** power
        return torch.where(gaps > 0, rise * sizes, -fall * sizes).cumsum(-1)

    rise, fall = np.pad(calibrator.scales_, ((0, 0), (1, 0)), constant_values=1.0)
    power = np.full(calibrator.num_classes_, calibrator.power_)
    return CalibratorModule(map_logits, calibrator, rise=rise, fall=fall, power=power)


class ProjectionModule(CalibratorModule):
    """The nearest unimodal distribution in least squares.

    The stack of `orcu.calibrators.projection` cannot be written as an ONNX graph. Here each split into a rising and a
    falling part is fitted by the max-min formula of isotonic regression, g_i = max_{j <= i} min_{k >= i} mean(p_j ..
    p_k), which gives the same values.
    """

    def __init__(self) -> None:
        super().__init__(lambda logits: logits)

    def probs(self, logits: Tensor) -> Tensor:
        """The nearest unimodal probabilities."""
        return self.project(logits.softmax(-1))

    def transform(self, logits: Tensor) -> Tensor:
        """Their logarithms, with the smallest normal number in place of smaller probabilities."""
        return self.forward(logits).clamp(min=float(np.finfo(np.float64).tiny)).log()

    def project(self, probs: Tensor) -> Tensor:
        """The nearest unimodal rows of probabilities (n, C)."""
        extra = torch.ones_like(probs[:1].sum(0, keepdim=True)) / probs.shape[1]
        return self._project(torch.cat([probs, extra]))[:-1]  # onnxruntime cannot compare empty tensors

    def _project(self, probs: Tensor) -> Tensor:
        rising = self._isotonic(probs)
        falling = self._isotonic(probs.flip(-1)).flip(-1)  # (n, last, i), last counted from the end
        # split after class m: rising fit of 0..m, and falling fit of the other C-1-m classes
        rest = torch.cat([falling[:, :-1].flip(1), torch.zeros_like(falling[:, :1])], dim=1)
        fits = rising + rest
        distance = (fits - probs.unsqueeze(1)).square().sum(-1).sqrt()
        nearest = distance - distance.amin(-1, keepdim=True) <= TIE_TOLERANCE
        first = nearest.to(torch.int64).argmax(-1)  # ties as in `orcu.calibrators.projection`
        chosen = fits.gather(1, first[:, None, None].expand(-1, 1, probs.shape[1])).squeeze(1)
        return torch.where(geometry.is_unimodal(probs)[:, None], probs, chosen)

    def _isotonic(self, values: Tensor) -> Tensor:
        """Increasing fits of the classes 0..last for every last, 0 above it: (n, last, i)."""
        k = torch.arange(values.shape[1], device=values.device)
        upto_last, below = k[:, None] >= k, k[:, None] <= k  # (last, i): i <= last; (j, i): j <= i
        counts = (k - k[:, None] + 1).clamp(min=1).to(values.dtype)  # number of classes j..k
        sums = values.cumsum(-1)
        before = torch.cat([torch.zeros_like(sums[:, :1]), sums[:, :-1]], dim=1)
        means = (sums.unsqueeze(1) - before.unsqueeze(2)) / counts  # (n, j, k)
        infinite = torch.full_like(means, float("inf"))
        lowest, fits = infinite, []  # lowest[j, i]: smallest mean of j..k over i <= k <= last
        for last in range(len(k)):
            lowest = torch.minimum(lowest, torch.where(upto_last[last], means[:, :, last : last + 1], infinite))
            highest = torch.where(below, lowest, -infinite).amax(1)
            fits.append(torch.where(upto_last[last], highest, torch.zeros_like(highest)))
        return torch.stack(fits, dim=1)


class ChainModule(CalibratorModule):
    """Calibrators in sequence."""

    def __init__(self, calibrator: calibrators.Chain) -> None:
        super().__init__(lambda logits: logits)
        *steps, last = map(calibrator_module, calibrator.steps_)
        self.steps, self.last = nn.ModuleList(steps), last

    def _before_last(self, logits: Tensor) -> Tensor:
        for step in self.steps:
            logits = step.transform(logits)  # type: ignore[operator]
        return logits

    def transform(self, logits: Tensor) -> Tensor:
        """Calibrated logits, from float64 logits."""
        return self.last.transform(self._before_last(logits))

    def probs(self, logits: Tensor) -> Tensor:
        """Calibrated probabilities, from float64 logits."""
        probs: Tensor = self.last.probs(self._before_last(logits))
        return probs


class AutoModule(ProjectionModule):
    """The weighted average of calibrators, projected on the unimodal distributions."""

    def __init__(self, calibrator: calibrators.AutoCalibration) -> None:
        super().__init__()
        self.members = nn.ModuleList(calibrator_module(calibrator.calibrators_[name]) for name in calibrator.weights_)
        weights = np.repeat(list(calibrator.weights_.values()), calibrator.num_classes_)
        self.register_buffer("weights", torch.tensor(weights.reshape(len(self.members), 1, -1), dtype=torch.float64))

    def probs(self, logits: Tensor) -> Tensor:
        """The projected average."""
        probs = torch.stack([member.probs(logits) for member in self.members])  # type: ignore[operator]
        return self.project((self.get_buffer("weights") * probs).sum(0))


def _grouped_module(calibrator: calibrators.GroupedCalibration) -> CalibratorModule:
    if calibrator.adjustment_:
        raise InputError(
            f"calibrator: it adjusts {len(calibrator.adjustment_.by_subgroup)} subgroups, and the exported graph has "
            "no subgroup input. Export one model per subgroup, or use a calibrator without subgroups."
        )
    return calibrator_module(calibrator.fitted_)


_MODULES: dict[type[Calibrator], Callable[..., CalibratorModule]] = {
    calibrators.AutoCalibration: AutoModule,
    calibrators.Chain: ChainModule,
    calibrators.DirichletCalibration: _linear_module,
    calibrators.GapScaling: _gap_module,
    calibrators.GroupedCalibration: _grouped_module,
    calibrators.OrdinalDirichlet: _linear_module,
    PaperDirichletCalibration: _linear_module,
    calibrators.TemperatureScaling: _temperature_module,
    calibrators.UnimodalProjection: lambda _: ProjectionModule(),
    calibrators.VectorScaling: _linear_module,
}


def calibrator_module(calibrator: Calibrator | None) -> CalibratorModule:
    """Convert a fitted calibrator to a torch module; ``None`` becomes plain softmax.

    Example:
        >>> fitted = calibrators.TemperatureScaling().fit([[2.0, 0.0]] * 5, [0, 1, 0, 0, 0])
        >>> calibrator_module(fitted)(torch.tensor([[2.0, 0.0]])).round(decimals=3).tolist()
        [[0.839, 0.161]]
    """
    if calibrator is None:
        return CalibratorModule(lambda logits: logits)
    make_module = _MODULES.get(type(calibrator))  # the exact class: a subclass may compute another map
    if make_module is None:
        supported = ", ".join(sorted(cls.name for cls in _MODULES))
        raise InputError(f"calibrator: {type(calibrator).__name__} cannot be exported; supported are: {supported}.")
    calibrator._check_is_fitted()
    return make_module(calibrator)
