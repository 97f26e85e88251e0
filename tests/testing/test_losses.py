"""`check_loss` says which rule a wrong loss breaks, and refuses what is no loss."""

import pytest
import torch
from torch import nn

from orcu.errors import InputError, UnknownNameError
from orcu.losses.base import LOSSES, LossCard, OrdinalLoss, register_loss
from orcu.testing import ContractError, check_loss, loss_checks


class Plain(OrdinalLoss):
    """Cross-entropy, written as simply as can be.

    Example:
        >>> Plain(num_classes=3)
        Plain(num_classes=3, reduction='mean')
    """

    soft_labels = False

    def per_sample(self, logits, y):
        return -logits.log_softmax(1).gather(1, y[:, None])[:, 0]


@pytest.fixture
def registered():
    """Files a class as 'of_a_test' as long as the test runs."""

    cards = []

    def add(cls, **card):
        cards.append(cls)
        about = {"title": "Of a test", "family": "ordinal", "paper": "none", "formula": "none"} | card
        return register_loss(LossCard(name="of_a_test", **about))(cls)

    yield add
    LOSSES._things.pop("of_a_test", None)
    for cls in cards:
        del cls.card


def test_a_right_loss_keeps_every_rule(registered):
    registered(Plain)
    check_loss("of_a_test", num_classes=3)


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
    ("cls", "rule", "says"),
    [
        (
            BatchMean,
            "samples do not see each other",
            r"the loss of a row alone is [\d.-]+ at \[0\], expected .*batch_stat",
        ),
        (
            Unstable,
            "it is finite with a finite gradient everywhere",
            r"torch.float32 logits up to 10000: \d+ of .*log_soft",
        ),
        (HalfGradient, "the gradient is the derivative", "raises GradcheckError.*stops_gradient = True"),
        (Lopsided, "reversing the order of the classes changes nothing", r"is [\d.]+, expected [\d.]+\. Count classes"),
        (InPlace, "inputs are not changed", "the logits of 1 rows were changed.*in place"),
        (OfLogits, "adding a constant to a row changes nothing", "the loss of logits . 7 is .*shift_invariant = False"),
        (NotForDistributions, "soft labels average over labels", "label distributions is .*soft_labels = False"),
        (Numpy, "function transforms see the same gradient", "it raises .*without numpy"),
        (FiveClasses, "any number of classes", "it raises .*self.num_classes"),
        (Buffer, "tables follow the device and stay out of checkpoints", "checkpoint holds numbers.*add_table"),
        (Rescued, "nan logits give a nan loss as cross entropy does", r"the loss is [\d.]+, expected NaN"),
        (
            Unchecked,
            "bad input is named",
            r"y tensor.* raises .*, expected InputError with 'y: row 1 has label 5.*override",
        ),
    ],
)
def test_a_wrong_loss_is_told_which_rule_it_breaks(cls, rule, says):
    with pytest.raises(ContractError, match=rf"^loss {cls.__name__}: {rule}: .*{says}"):
        loss_checks(cls)[rule]()


def test_all_broken_rules_are_told_at_once(registered):
    registered(BatchMean, paper="")
    with pytest.raises(ContractError, match=r"\d of \d\d rules are broken:\n- loss 'of_a_test': ") as fault:
        check_loss("of_a_test")
    assert "samples do not see each other" in str(fault.value)
    assert "its card says nothing under paper" in str(fault.value)


def test_a_class_without_a_card_is_told(registered):
    class Cardless(Plain):
        pass

    with pytest.raises(ContractError, match="it has no card. Register it by @register_loss"):
        loss_checks(Cardless)["the card is complete"]()
    registered(Plain, family="of mine")
    with pytest.raises(ContractError, match="its family is 'of mine', expected one of calibration, nominal, ordinal"):
        loss_checks("of_a_test")["the card is complete"]()


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (nn.CrossEntropyLoss, "expected a registered name, a table, or a class that derives .* got CrossEntropyLoss"),
        (nn.CrossEntropyLoss(), "got an instance of CrossEntropyLoss"),
        (Plain(5), "got an instance of Plain. Hand in its class."),
        (nn.functional.cross_entropy, "got an instance of function"),
        (3, "got an instance of int"),
        (None, "got an instance of NoneType"),
        ("poe", "takes the output of the head 'poe', not logits"),
        ({"anchor": "ce"}, "needs a 'name', or an 'anchor' and a 'regularizer'"),
    ],
)
def test_what_is_no_loss_is_refused(loss, message):
    with pytest.raises(InputError, match=message):
        check_loss(loss)


def test_unknown_names_and_options_are_answered():
    with pytest.raises(UnknownNameError, match="unknown loss 'ocru'. Did you mean 'orcu'"):
        check_loss("ocru")
    with pytest.raises(UnknownNameError, match="Did you mean 'scale'"):
        check_loss("orcu", scal=3.0)
    with pytest.raises(InputError, match="num_classes: expected a whole number of at least 2, got 1"):
        check_loss("orcu", num_classes=1)
