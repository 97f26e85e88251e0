"""The contract of `orcu.testing` for every loss and regularizer; a new file is tested without a new test."""

import pytest
import torch
from every_loss import SPECS, every_loss

from orcu import losses
from orcu.errors import UnknownNameError
from orcu.losses import closed_form
from orcu.testing import loss_checks
from orcu.testing.losses import value_and_gradient

RULES = {f"{title}: {rule}": check for title, spec in SPECS.items() for rule, check in loss_checks(spec).items()}
COMPILED = "loss orcu: torch compile"  # torch compiles for seconds; the other losses are compiled by the slow tests


def is_slow(rule):
    return rule.endswith(": torch compile") and rule != COMPILED


@pytest.mark.parametrize(
    "check",
    [pytest.param(check, id=rule, marks=pytest.mark.slow if is_slow(rule) else ()) for rule, check in RULES.items()],
)
def test_loss_contract(check):
    check()


@pytest.mark.parametrize("num_classes", [2, 7])
def test_orcu_contract_with_other_numbers_of_classes(num_classes):
    for name, check in loss_checks("orcu", num_classes=num_classes, scale=3.0).items():
        if name != "torch compile":
            check()


@every_loss
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_loss_in_torch_blocks_equals_loss_in_numpy(make, reduction, monkeypatch):
    if reduction == "none" and make(5).batch_statistic:
        pytest.skip("batch statistic")
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(16, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    y = torch.randint(5, (16,), generator=generator)
    loss = make(5, reduction=reduction, weight=[1.0, 2.0, 3.0, 4.0, 5.0])
    value, gradient = value_and_gradient(loss, logits, y)
    parts = dict(loss.parts)
    monkeypatch.setattr(closed_form, "MAX_NUMPY_SIZE", 0)  # torch instead of numpy
    monkeypatch.setattr(closed_form, "BLOCK_SIZE", 5)  # 16 rows in four blocks, the last one incomplete
    blockwise, blockwise_gradient = value_and_gradient(loss, logits, y)
    torch.testing.assert_close(blockwise, value)
    torch.testing.assert_close(blockwise_gradient, gradient)
    torch.testing.assert_close(loss.parts, parts)


def test_create_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match=r"'ocru'.*'orcu'"):
        losses.create("ocru", num_classes=5)
    with pytest.raises(UnknownNameError, match=r"'scal'.*'scale'"):
        losses.create("orcu", num_classes=5, scal=3.0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_loss_with_invalid_targets_or_weights_raises(backend):
    """A compiled graph cannot read values, so torch asserts them when it runs."""
    torch.compiler.reset()
    loss = losses.create("orcu", num_classes=3)
    compiled = torch.compile(loss, fullgraph=True, backend=backend)
    z, soft, hard = torch.randn(4, 3), torch.full((4, 3), 1 / 3), torch.tensor([0, 1, 2, 0])
    torch.testing.assert_close(compiled(z, soft), loss(z, soft))
    with pytest.raises(RuntimeError, match="y: a row is not a distribution"):
        compiled(z, 2 * soft)
    torch.testing.assert_close(compiled(z, hard), loss(z, hard))
    with pytest.raises(RuntimeError, match=r"y: a label is outside 0\.\.2"):
        compiled(z, hard + 1)
    with pytest.raises(RuntimeError, match="sample_weight: expected finite weights"):
        compiled(z, hard, sample_weight=torch.tensor([1.0, -1.0, 1.0, 1.0]))
    ignoring = torch.compile(losses.create("ce", num_classes=3, ignore_index=-1), fullgraph=True, backend=backend)
    assert ignoring(z, hard - 1).isfinite()
