"""`check_calibrator`: broken rules and invalid arguments."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from orcu import geometry
from orcu.calibrators import TemperatureScaling
from orcu.calibrators.base import CALIBRATORS, Calibrator
from orcu.errors import InputError, UnknownNameError
from orcu.testing import ContractError, calibrator_checks, check_calibrator


class Flatten(Calibrator):
    """p = softmax(a z), with the factor a fitted by likelihood."""

    name = "example"

    def __init__(self, *, highest=4.0):
        self.highest = highest

    def n_parameters(self, num_classes):
        return 1

    def _fit(self, logits, y, sample_weight, groups):
        def loss(slope):
            return -float(sample_weight @ geometry.log_probs(slope * logits)[np.arange(len(y)), y])

        self.slope_ = float(minimize_scalar(loss, bounds=(0.01, self.highest), method="bounded").x)

    def _transform(self, logits):
        return self.slope_ * logits

    def _state(self):
        return {"slope": self.slope_}

    def _restore(self, state):
        self.slope_ = state["slope"]


@pytest.fixture
def registered():
    """Registers a class as 'example' during a test."""
    yield CALIBRATORS.register("example")
    CALIBRATORS._components.pop("example", None)


def test_check_calibrator_valid_calibrator_passes(registered):
    check_calibrator(registered(Flatten))
    check_calibrator("example", highest=3.0)
    check_calibrator("example+projection")


class Idle(Flatten):
    def _fit(self, logits, y, sample_weight, groups):
        self.slope_ = 1.0


class Forgetful(Flatten):
    def _restore(self, state):
        self.slope_ = 1.0


class Renames(Flatten):
    def __init__(self, *, highest=4.0):
        self.most = self.highest = highest + 1e-9


class NoWeights(Flatten):
    def _fit(self, logits, y, sample_weight, groups):
        super()._fit(logits, y, np.ones_like(sample_weight), groups)


class Batch(Flatten):
    def _transform(self, logits):
        return self.slope_ * (logits / np.abs(logits).max())


class InPlace(Flatten):
    def _transform(self, logits):
        logits *= self.slope_
        return logits


class Warm(Flatten):
    slope_ = 0.0

    def _fit(self, logits, y, sample_weight, groups):
        before = self.slope_
        super()._fit(logits, y, sample_weight, groups)
        self.slope_ += before / 10


class Unbounded(Flatten):
    def _transform(self, logits):
        with np.errstate(over="ignore", invalid="ignore"):
            return np.exp(self.slope_ * logits) * np.inf * 0


class NotNamed(Flatten):
    name = "other"


@pytest.mark.parametrize(
    ("cls", "rule", "details"),
    [
        (Idle, "log likelihood improves", r"0\.\d+ after .* 0\.\d+ before"),
        (Forgetful, "json round trip", "_restore"),
        (Renames, "scikit learn clone", "RuntimeError: Cannot clone"),
        (NoWeights, "weights equal repetition", "frequency_weights = False"),
        (Batch, "independent rows", "a single row is"),
        (Warm, "repeated fit", "a second fit is"),
        (Unbounded, "degenerate data", r"\d+ of \d+ numbers"),
        (NotNamed, "registered name", "'other'"),
    ],
)
def test_calibrator_checks_name_the_broken_rule(cls, rule, details, registered):
    registered(cls)
    with pytest.raises(ContractError, match=rf"^calibrator 'example': {rule}: .*{details}"):
        calibrator_checks("example")[rule]()


def test_calibrator_checks_name_registered_for_another_class(registered):
    registered(Flatten)
    with pytest.raises(ContractError, match="^calibrator Idle: registered name: .*'example'.* another"):
        calibrator_checks(Idle)["registered name"]()


def test_check_calibrator_invalid_argument_raises():
    for value, message in (
        (dict, r"^calibrator: .*orcu\.calibrators\.Calibrator, got dict"),
        (TemperatureScaling(), "^calibrator: .* instance of TemperatureScaling"),
        (3, "^calibrator: .* instance of int"),
        ({"temperature": 2}, "'name'"),
    ):
        with pytest.raises(InputError, match=message):
            check_calibrator(value)
    with pytest.raises(UnknownNameError, match="'temprature'.*'temperature'"):
        check_calibrator("temprature")
    with pytest.raises(UnknownNameError, match="'gap'.*'nonsense'"):
        check_calibrator("gap", nonsense=1)
