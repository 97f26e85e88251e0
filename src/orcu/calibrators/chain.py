"""Calibrators applied one after the other."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from orcu.calibrators.base import CALIBRATORS, Calibrator, clone, from_dict
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray


@CALIBRATORS.register("chain")
class Chain(Calibrator):
    """Calibrators in sequence; each is fitted on the output of the one before it.

    ``Chain(DirichletCalibration(), UnimodalProjection())`` calibrates, then makes the predictions unimodal.

    Args:
        calibrators: calibrators in order, also by name: ``Chain("dirichlet", "projection")``.
        steps: the same as a list, as in JSON and in scikit-learn's ``clone``.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> z, y = rng.normal(size=(500, 4)), rng.integers(4, size=500)
        >>> from orcu import metrics
        >>> metrics.unimodality(Chain("temperature", "projection").fit(z, y).predict_proba(z))
        1.0
    """

    name = "chain"
    expands_votes = False  # the steps do
    frequency_weights = False  # the steps shrink

    def __init__(self, *calibrators: Any, steps: Any = None) -> None:
        self.steps = list(calibrators) if steps is None else steps

    def _calibrators(self) -> list[Calibrator]:
        if not self.steps or isinstance(self.steps, (str, Mapping)):
            raise InputError(f"steps: expected a list of at least one calibrator, got {self.steps!r}.")
        steps = [CALIBRATORS.create(s) if isinstance(s, (str, Mapping)) else s for s in self.steps]
        for step in steps:
            if not isinstance(step, Calibrator):
                raise InputError(f"steps: expected calibrators or their names, got {step!r}.")
        return steps

    def n_parameters(self, num_classes: int) -> int:
        """Number of parameters of all steps."""
        return sum(step.n_parameters(num_classes) for step in self._calibrators())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The steps, by name or as calibrators, as they were given."""
        return {"steps": self.steps}

    @cached_property
    def steps_(self) -> list[Calibrator]:
        """The fitted steps; the steps themselves if there is nothing to fit."""
        self._check_is_fitted()
        return self._calibrators()

    def _fit(self, logits: FloatArray, y: IntArray, sample_weight: FloatArray, groups: IntArray | None) -> None:
        self.steps_ = []
        for step in self._calibrators():
            fitted = clone(step).fit(logits, y, sample_weight=sample_weight, groups=groups)
            logits = fitted.predict_logits(logits)
            self.steps_.append(fitted)

    def _shrinks(self) -> bool:
        return False  # the steps do

    def _check_rows(self, logits: FloatArray, y: IntArray) -> None:
        """Nothing: each step checks its rows."""

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
        """Options and fitted state as JSON-serialisable data; the option ``steps`` holds names and options."""
        state = super().to_dict()
        steps = [{"name": step["calibrator"], **step["options"]} for step in state["state"]["steps"]]
        return state | {"options": {"steps": steps}}

    def _summary(self) -> list[list[str]]:
        return [[f"{step.name}: {name}", value] for step in self.steps_ for name, value in step._summary()]

    def _fitted_values(self) -> dict[str, Any]:
        return {"steps": self.steps_}

    def _state(self) -> dict[str, Any]:
        return {"steps": [step.to_dict() for step in self.steps_]}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.steps_ = [from_dict(step) for step in state["steps"]]
        names = [step.name for step in self._calibrators()]
        if names != [step.name for step in self.steps_]:
            raise ValueError(f"steps: expected {', '.join(names)}, as in the options")


def create(spec: str | dict[str, Any], **options: Any) -> Calibrator:
    """Create a calibrator from its name or a table of name and options; names joined by "+" make a chain.

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
            raise InputError(f"{spec}: a chain has no options; create its steps with options and use Chain(...).")
        for name in steps:
            CALIBRATORS.get(name)
        return Chain(*steps)
    calibrator: Calibrator = CALIBRATORS.create(spec, **options)
    return calibrator
