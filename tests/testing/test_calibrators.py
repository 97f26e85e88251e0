"""`check_calibrator` says which rule a wrong calibrator breaks, and refuses what is none."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from orcu import geometry
from orcu.calibrators import TemperatureScaling
from orcu.calibrators.base import CALIBRATORS, Calibrator
from orcu.errors import InputError, UnknownNameError
from orcu.testing import ContractError, calibrator_checks, check_calibrator


class Flatten(Calibrator):
    """p = softmax(a z): one slope by likelihood."""

    name = "of_a_test"

    def __init__(self, *, highest=4.0):
        self.highest = highest

    def parameters(self, num_classes):
        return 1

    def _fit(self, logits, y, weight):
        def loss(slope):
            return -float(weight @ geometry.log_probs(slope * logits)[np.arange(len(y)), y])

        self.slope_ = float(minimize_scalar(loss, bounds=(0.01, self.highest), method="bounded").x)

    def _transform(self, logits):
        return self.slope_ * logits

    def _state(self):
        return {"slope": self.slope_}

    def _restore(self, state):
        self.slope_ = state["slope"]


@pytest.fixture
def registered():
    """Files a class as 'of_a_test' as long as the test runs."""
    yield CALIBRATORS.register("of_a_test")
    CALIBRATORS._things.pop("of_a_test", None)


def test_a_right_calibrator_keeps_every_rule(registered):
    check_calibrator(registered(Flatten))
    check_calibrator("of_a_test", highest=3.0)
    check_calibrator("of_a_test+projection")


class Idle(Flatten):
    def _fit(self, logits, y, weight):
        self.slope_ = 1.0


class Forgetful(Flatten):
    def _restore(self, state):
        self.slope_ = 1.0


class Renames(Flatten):
    def __init__(self, *, highest=4.0):
        self.most = self.highest = highest + 1e-9


class NoWeights(Flatten):
    def _fit(self, logits, y, weight):
        super()._fit(logits, y, np.ones_like(weight))


class Batch(Flatten):
    def _transform(self, logits):
        return self.slope_ * (logits / np.abs(logits).max())


class InPlace(Flatten):
    def _transform(self, logits):
        logits *= self.slope_
        return logits


class Warm(Flatten):
    slope_ = 0.0

    def _fit(self, logits, y, weight):
        before = self.slope_
        super()._fit(logits, y, weight)
        self.slope_ += before / 10


class Unbounded(Flatten):
    def _transform(self, logits):
        with np.errstate(over="ignore", invalid="ignore"):
            return np.exp(self.slope_ * logits) * np.inf * 0


class NotNamed(Flatten):
    name = "of_another_test"


@pytest.mark.parametrize(
    ("cls", "rule", "says"),
    [
        (
            Idle,
            "it lowers the likelihood loss of overconfident rows",
            r"it is 0\.\d+ after, 0\.\d+ before; .*likelihood",
        ),
        (Forgetful, "it travels as json", "the probability after JSON is .*_restore takes it back"),
        (Renames, "scikit learn can clone it", "it raises RuntimeError: Cannot clone .*under their own names"),
        (NoWeights, "weights count rows several times", "a weighted probability is .*weight_repeats = False"),
        (Batch, "a calibrated row does not depend on its company", "the probability of a row alone is .*beside it"),
        (Warm, "a fit does not depend on the one before", "the probability after a second fit is .*start from nothing"),
        (Unbounded, "absurd rows give no nan", "NaN or infinite.*Bound what is learned"),
        (NotNamed, "it is registered under its name", "its name is 'of_another_test', which is not registered"),
    ],
)
def test_a_wrong_calibrator_is_told_which_rule_it_breaks(cls, rule, says, registered):
    registered(cls)
    with pytest.raises(ContractError, match=rf"^calibrator 'of_a_test': {rule}: .*{says}"):
        calibrator_checks("of_a_test")[rule]()


def test_another_class_of_the_name_is_told(registered):
    registered(Flatten)
    with pytest.raises(ContractError, match="its name is 'of_a_test', under which another calibrator is registered"):
        calibrator_checks(Idle)["it is registered under its name"]()


def test_what_is_no_calibrator_is_refused():
    for thing, message in (
        (dict, "expected a registered name, a table, or a class that derives .* got dict"),
        (TemperatureScaling(), "got an instance of TemperatureScaling. Hand in its class."),
        (3, "got an instance of int"),
        ({"temperature": 2}, "needs a 'name'"),
    ):
        with pytest.raises(InputError, match=message):
            check_calibrator(thing)
    with pytest.raises(UnknownNameError, match="unknown calibrator 'temprature'. Did you mean 'temperature'"):
        check_calibrator("temprature")
    with pytest.raises(UnknownNameError, match="option of calibrator 'gap'"):
        check_calibrator("gap", nonsense=1)
