"""Calibrators one after the other."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from orcu.calibrators.base import CALIBRATORS, Calibrator, from_dict
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray


@CALIBRATORS.register("chain")
class Chain(Calibrator):
    """Each calibrator is fitted on what the one before it gives.

    ``Chain(DirichletCalibration(), UnimodalProjection())`` calibrates, then restores the shape.

    Args:
        calibrators: in order, also by name: ``Chain("dirichlet", "projection")``.
        steps: the same as a list, as scikit-learn's ``clone`` and JSON give them.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> z, y = rng.normal(size=(500, 4)), rng.integers(4, size=500)
        >>> from orcu import metrics
        >>> metrics.unimodality(Chain("temperature", "projection").fit(z, y).predict_proba(z))
        1.0
    """

    name = "chain"
    weight_repeats = False  # its steps shrink by themselves

    def __init__(self, *calibrators: Any, steps: Any = None) -> None:
        self.steps = list(calibrators) if steps is None else steps

    def _calibrators(self) -> list[Calibrator]:
        if not self.steps:
            raise InputError("chain: give at least one calibrator.")
        return [CALIBRATORS.create(s) if isinstance(s, (str, Mapping)) else s for s in self.steps]

    def parameters(self, num_classes: int) -> int:
        """Of all steps."""
        return sum(step.parameters(num_classes) for step in self._calibrators())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The steps; plain names where they were given so."""
        return {"steps": self.steps}

    @cached_property
    def steps_(self) -> list[Calibrator]:
        """The fitted steps; of a chain that has nothing to fit, the steps themselves.

        Raises:
            InputError: if it is not fitted.
        """
        self._need_fit()
        return self._calibrators()

    def _fit(self, logits: FloatArray, y: IntArray, weight: FloatArray) -> None:
        self.steps_ = []
        for step in self._calibrators():
            fitted = type(step)(**step.get_params()).fit(logits, y, weight=weight, subject=self._subject)
            logits = fitted.predict_logits(logits)
            self.steps_.append(fitted)

    def _is_as_published(self) -> bool:
        return True  # each step spreads its own share

    def _check(self, logits: FloatArray, y: IntArray) -> None:
        """Each step checks for itself."""

    def _transform(self, logits: FloatArray) -> FloatArray:
        for step in self.steps_:
            logits = step.predict_logits(logits)
        return logits

    def _transform_probs(self, logits: FloatArray) -> FloatArray:
        for step in self.steps_[:-1]:
            logits = step.predict_logits(logits)
        probs: FloatArray = self.steps_[-1].predict_proba(logits)
        return probs

    def to_dict(self) -> dict[str, Any]:
        """Options and learned state as plain data, fit for JSON; steps are told by name and options."""
        plain = super().to_dict()
        steps = [{"name": step["calibrator"], **step["options"]} for step in plain["state"]["steps"]]
        return plain | {"options": {"steps": steps}}

    def _learned(self) -> list[list[str]]:
        return [[f"{step.name}: {name}", value] for step in self.steps_ for name, value in step._learned()]

    def _state(self) -> dict[str, Any]:
        return {"steps": [step.to_dict() for step in self.steps_]}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.steps_ = [from_dict(step) for step in state["steps"]]


def create(spec: str | dict[str, Any], **options: Any) -> Calibrator:
    """The calibrator that a name or table describes; names joined by "+" are a chain.

    Raises:
        UnknownNameError: if a name or option does not exist.
        InputError: if options are given for a chain.

    Example:
        >>> create("gap+projection")
        Chain(steps=['gap', 'projection'])
    """
    if isinstance(spec, str) and "+" in spec:
        steps = [name.strip() for name in spec.split("+")]
        if options:
            raise InputError(f"{spec}: options belong to the steps; use Chain(...) with calibrators.")
        for name in steps:
            CALIBRATORS.get(name)
        return Chain(*steps)
    calibrator: Calibrator = CALIBRATORS.create(spec, **options)
    return calibrator
