"""Every loss and regularizer keeps the contract of `orcu.testing`; a new file is tested without a new test."""

import pytest
import torch
from every_loss import SPECS, every_loss

from orcu import losses
from orcu.errors import InputError
from orcu.losses import closed_form
from orcu.testing import loss_checks
from orcu.testing.losses import value_and_gradient

RULES = {f"{title}: {rule}": check for title, spec in SPECS.items() for rule, check in loss_checks(spec).items()}


@pytest.mark.parametrize("check", RULES.values(), ids=RULES)
def test_every_loss_keeps_the_contract(check):
    check()


@pytest.mark.parametrize("num_classes", [2, 7])
def test_the_contract_is_kept_for_another_number_of_classes(num_classes):
    for name, check in loss_checks("orcu", num_classes=num_classes, scale=3.0).items():
        if "compiles" not in name:
            check()


@every_loss
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_large_batches_by_torch_in_chunks_are_as_small_ones_by_numpy(make, reduction, monkeypatch):
    if reduction == "none" and make(5).batch_statistic:
        pytest.skip("a statistic of the batch")
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(16, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    y = torch.randint(5, (16,), generator=generator)
    loss = make(5, reduction=reduction, weight=[1.0, 2.0, 3.0, 4.0, 5.0])
    value, gradient = value_and_gradient(loss, logits, y)
    parts = dict(loss.parts)
    monkeypatch.setattr(closed_form, "SMALL", 0)  # torch, where numpy has been
    monkeypatch.setattr(closed_form, "CHUNK", 5)  # 16 rows in four pieces, the last one short
    in_pieces, gradient_in_pieces = value_and_gradient(loss, logits, y)
    torch.testing.assert_close(in_pieces, value)
    torch.testing.assert_close(gradient_in_pieces, gradient)
    torch.testing.assert_close(loss.parts, parts)


def test_an_unknown_loss_offers_the_nearest():
    with pytest.raises(InputError, match="unknown loss 'ocru'. Did you mean 'orcu'"):
        losses.create("ocru", num_classes=5)
    with pytest.raises(InputError, match="Did you mean 'scale'"):
        losses.create("orcu", num_classes=5, scal=3.0)
