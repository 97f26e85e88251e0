"""`check_loss`: broken rules and invalid arguments."""

import pytest
import torch
from torch import nn

from orcu.errors import InputError, UnknownNameError
from orcu.losses.base import LOSSES, LossCard, OrdinalLoss, register_loss
from orcu.testing import ContractError, check_loss, loss_checks


class Plain(OrdinalLoss):
    """Cross-entropy in its simplest form.

    Example:
        >>> Plain(num_classes=3)
        Plain(num_classes=3, reduction='mean')
    """

    soft_labels = False

    def per_sample(self, logits, y):
        return -logits.log_softmax(1).gather(1, y[:, None])[:, 0]


@pytest.fixture
def registered():
    """Registers a class as 'example' during a test."""
    classes = []

    def add(cls, **card):
        classes.append(cls)
        fields = {"title": "Example", "family": "ordinal", "paper": "none", "formula": "none"} | card
        return register_loss(LossCard(name="example", **fields))(cls)

    yield add
    LOSSES._components.pop("example", None)
    for cls in classes:
        del cls.card


def test_check_loss_valid_loss_passes(registered):
    registered(Plain)
    check_loss("example", num_classes=3)


class BatchMean(Plain):
    def per_sample(self, logits, y):
        return super().per_sample(logits, y) - logits.mean()


class Unstable(Plain):
    def per_sample(self, logits, y):
        return -logits.softmax(1).log().gather(1, y[:, None])[:, 0]


class HalfGradient(Plain):
    def per_sample(self, logits, y):
        return super().per_sample((logits + logits.detach()) / 2, y)


class Lopsided(Plain):
    def per_sample(self, logits, y):
        return super().per_sample(logits, y) * (1 + y)


class InPlace(Plain):
    def per_sample(self, logits, y):
        with torch.no_grad():
            logits.clamp_(-1, 1)
        return super().per_sample(logits, y)


class OfLogits(Plain):
    def per_sample(self, logits, y):
        return logits.square().sum(1)


class NotForDistributions(Plain):
    soft_labels = True

    def per_sample(self, logits, y):
        return super().per_sample(logits, y.argmax(1) if y.dim() == 2 else y)


class Numpy(Plain):
    def per_sample(self, logits, y):
        return super().per_sample(logits * float(logits.detach().numpy().max() > -torch.inf), y)


class FiveClasses(Plain):
    def per_sample(self, logits, y):
        return super().per_sample(logits[:, :5], y)


class Buffer(Plain):
    def __init__(self, num_classes, **common):
        super().__init__(num_classes, **common)
        self.register_buffer("numbers", torch.ones(1))


class Rescued(Plain):
    def per_sample(self, logits, y):
        return super().per_sample(logits.nan_to_num(), y)


class Unchecked(Plain):
    def _check(self, logits, y, sample_weight):
        return None


@pytest.mark.parametrize(
    ("cls", "rule", "details"),
    [
        (BatchMean, "independent samples", r"[\d.-]+ at \[0\], expected .*batch_statistic = True"),
        (Unstable, "finite values and gradients", r"torch.float32 logits up to 10000: \d+ of .*log_softmax"),
        (HalfGradient, "gradient", "GradcheckError.*stops_gradient = True"),
        (Lopsided, "reversed classes", r"is [\d.]+, expected [\d.]+\."),
        (InPlace, "inputs unchanged", "logits of 1 rows"),
        (OfLogits, "shift invariance", "shift_invariant = False"),
        (NotForDistributions, "label distributions", "soft_labels = False"),
        (Numpy, "function transforms", "raises .*numpy"),
        (FiveClasses, "any number of classes", r"raises .*self\.num_classes"),
        (Buffer, "constant tables", "numbers.*add_table"),
        (Rescued, "nan logits", r"[\d.]+, expected NaN"),
        (Unchecked, "invalid inputs", r"y tensor.* raises .*, expected InputError with '\^y: row 1 has label 5"),
    ],
)
def test_loss_checks_name_the_broken_rule(cls, rule, details):
    with pytest.raises(ContractError, match=rf"^loss {cls.__name__}: {rule}: .*{details}"):
        loss_checks(cls)[rule]()


def test_check_loss_reports_all_broken_rules(registered):
    registered(BatchMean, paper="")
    with pytest.raises(ContractError, match=r"\d of \d\d rules are broken:\n- loss 'example': ") as error:
        check_loss("example")
    assert "independent samples: " in str(error.value)
    assert "card: the card has no paper" in str(error.value)


def test_loss_checks_invalid_card(registered):
    class Cardless(Plain):
        pass

    with pytest.raises(ContractError, match=": card: .*@register_loss"):
        loss_checks(Cardless)["card"]()
    registered(Plain, family="unknown")
    with pytest.raises(ContractError, match=": card: .*'unknown', expected one of calibration, nominal, ordinal"):
        loss_checks("example")["card"]()


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (nn.CrossEntropyLoss, r"^loss: .*orcu\.losses\.OrdinalLoss, got CrossEntropyLoss"),
        (nn.CrossEntropyLoss(), "^loss: .* instance of CrossEntropyLoss"),
        (Plain(5), r"^loss: .* instance of Plain\. Pass its class\."),
        (nn.functional.cross_entropy, "^loss: .* instance of function"),
        (3, "^loss: .* instance of int"),
        (None, "^loss: .* instance of NoneType"),
        ("poe", "^loss 'poe': .* head 'poe'"),
        ({"anchor": "ce"}, "^loss: .*'name'.*'anchor'.*'regularizer'"),
    ],
)
def test_check_loss_invalid_argument_raises(loss, message):
    with pytest.raises(InputError, match=message):
        check_loss(loss)


def test_check_loss_unknown_name_or_option_raises():
    with pytest.raises(UnknownNameError, match="'ocru'.*'orcu'"):
        check_loss("ocru")
    with pytest.raises(UnknownNameError, match="'scal'.*'scale'"):
        check_loss("orcu", scal=3.0)
    with pytest.raises(InputError, match="^num_classes: .* 1"):
        check_loss("orcu", num_classes=1)
