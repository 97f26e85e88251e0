"""What every registered loss and regularizer must do; a new file is tested without a new test."""

import copy
import dataclasses
import pickle

import pytest
import torch
from every_loss import batch_statistics, every_loss, per_sample_losses, those, value_and_gradient, whole_gradients

from orcu import losses
from orcu.errors import InputError
from orcu.losses import closed_form
from orcu.losses.base import LOSSES, REGULARIZERS, OrdinalLoss


def batch(n=16, c=5, *, dtype=torch.float64, scale=2.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n, c, generator=generator, dtype=torch.float64)
    y = torch.randint(c, (n,), generator=generator)
    return logits.to(dtype).requires_grad_(), y


@per_sample_losses
def test_reductions_are_of_the_same_samples(make):
    logits, y = batch()
    each = make(5, reduction="none")(logits, y)
    assert each.shape == (16,)
    torch.testing.assert_close(make(5)(logits, y), each.mean())
    torch.testing.assert_close(make(5, reduction="sum")(logits, y), each.sum())


@per_sample_losses
def test_samples_do_not_see_each_other(make):
    logits, y = batch()
    loss = make(5, reduction="none")
    order = torch.randperm(16, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(loss(logits[order], y[order]), loss(logits, y)[order])


@per_sample_losses
def test_weights_multiply_samples_and_mean_divides_by_their_sum(make):
    logits, y = batch()
    class_weight = torch.tensor([0.5, 1.0, 2.0, 0.0, 3.0])
    sample_weight = torch.linspace(0.1, 2.0, 16, dtype=torch.float64)
    each = make(5, reduction="none")(logits, y)
    weight = class_weight[y].double() * sample_weight
    for reduction, expected in [
        ("none", each * weight),
        ("sum", (each * weight).sum()),
        ("mean", (each * weight).sum() / weight.sum()),
    ]:
        loss = make(5, reduction=reduction, weight=class_weight)
        value, gradient = value_and_gradient(loss, logits, y, sample_weight=sample_weight)
        torch.testing.assert_close(value, expected.detach())
        (expected_gradient,) = torch.autograd.grad(expected.sum(), logits, retain_graph=True)
        torch.testing.assert_close(gradient, expected_gradient)


@every_loss
def test_repeating_a_sample_is_weighing_it_twice(make):
    logits, y = batch(n=6)
    twice = torch.cat([logits, logits[:1]]), torch.cat([y, y[:1]])
    weight = torch.tensor([2.0, 1, 1, 1, 1, 1], dtype=torch.float64)
    torch.testing.assert_close(make(5)(logits, y, sample_weight=weight), make(5)(*twice))


@whole_gradients
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_gradient_is_the_derivative(make, reduction):
    if reduction == "none" and make(5).batch_statistic:
        pytest.skip("a statistic of the batch")
    logits, y = batch(n=4)
    assert torch.autograd.gradcheck(lambda z: make(5, reduction=reduction)(z, y), logits)


@whole_gradients
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_double_backward_works(make, reduction):
    if reduction == "none" and make(5).batch_statistic:
        pytest.skip("a statistic of the batch")
    logits, y = batch(n=3)
    assert torch.autograd.gradgradcheck(lambda z: make(5, reduction=reduction)(z, y), logits)


@those(lambda loss: loss.shift_invariant)
def test_adding_a_constant_to_a_row_changes_nothing(make):
    logits, y = batch()
    value, gradient = value_and_gradient(make(5), logits, y)
    shifted, _ = value_and_gradient(make(5), logits + 7.0, y)
    torch.testing.assert_close(shifted, value)
    torch.testing.assert_close(gradient.sum(1), torch.zeros(16, dtype=torch.float64), atol=1e-9, rtol=0)


@batch_statistics
def test_batch_statistics_refuse_per_sample_values(make):
    with pytest.raises(InputError, match="reduction: .*'mean' or 'sum'"):
        make(5, reduction="none")


@batch_statistics
def test_the_sum_of_a_batch_statistic_is_its_mean_times_the_samples(make):
    logits, y = batch()
    torch.testing.assert_close(make(5, reduction="sum")(logits, y), 16 * make(5)(logits, y))


@those(lambda loss: loss.soft_labels)
def test_one_hot_labels_are_labels(make):
    logits, y = batch()
    onehot = torch.nn.functional.one_hot(y, 5).double()
    loss = make(5, weight=[1.0, 2.0, 3.0, 4.0, 5.0])
    value, gradient = value_and_gradient(loss, logits, onehot)
    expected, expected_gradient = value_and_gradient(loss, logits, y)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient, expected_gradient)


@those(lambda loss: loss.soft_labels and not loss.batch_statistic)
def test_soft_labels_average_over_labels(make):
    logits, _ = batch()
    pi = torch.rand(16, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    pi = pi / pi.sum(1, keepdim=True)
    loss = make(5, reduction="none")
    each = torch.stack([loss(logits, torch.full((16,), k)) for k in range(5)], dim=1)
    torch.testing.assert_close(loss(logits, pi), (pi * each).sum(1))


@those(lambda loss: loss.soft_labels)
@pytest.mark.parametrize(
    ("pi", "message"),
    [
        ([[0.5, 0.5, 0.0, 0.0, 0.0], [0.5, 0.6, 0.0, 0.0, 0.0]], r"y: row 1 is \[0.5, 0.6, .*sum to 1"),
        ([[1.5, -0.5, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0]], "y: row 0 is"),
        ([[1.0, 0.0, 0.0, 0.0, 0.0], [torch.nan, 1.0, 0.0, 0.0, 0.0]], "y: row 1 is"),
        (
            [[0.5, 0.5], [0.5, 0.5]],
            r"y: expected integer labels .* floating-point label distributions of shape \(2, 5\)",
        ),
    ],
)
def test_bad_soft_labels_are_named(make, pi, message):
    with pytest.raises(InputError, match=message):
        make(5)(torch.zeros(2, 5), torch.tensor(pi))


@those(lambda loss: not loss.soft_labels)
def test_losses_of_hard_labels_refuse_soft_ones(make):
    with pytest.raises(InputError, match="takes integer labels, not label distributions"):
        make(5)(torch.zeros(2, 5), torch.full((2, 5), 0.2))


@every_loss
def test_reversing_the_order_of_the_classes_changes_nothing(make):
    logits, y = batch()
    torch.testing.assert_close(make(5)(logits.flip(1), 4 - y), make(5)(logits, y))


@every_loss
@pytest.mark.parametrize("num_classes", [2, 3, 9, 1000])
def test_any_number_of_classes(make, num_classes):
    logits, y = batch(n=4, c=num_classes)
    value, gradient = value_and_gradient(make(num_classes), logits, y)
    assert torch.isfinite(value)
    assert torch.isfinite(gradient).all()


@every_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e4])
def test_finite_with_finite_gradient_everywhere(make, dtype, size):
    logits, y = batch(dtype=dtype)
    # size 0 is a zero-initialised head: every adjacent pair ties
    logits = (size * logits.detach().double().clamp(-1, 1)).to(dtype).requires_grad_()
    value, gradient = value_and_gradient(make(5), logits, y)
    assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert gradient.dtype == dtype
    assert torch.isfinite(value)
    assert torch.isfinite(gradient).all()


@every_loss
def test_autocast_keeps_the_precision_of_the_loss(make):
    logits, y = batch(dtype=torch.bfloat16)
    plain, _ = value_and_gradient(make(5), logits.detach().float().requires_grad_(), y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value, _ = value_and_gradient(make(5), logits, y)
    torch.testing.assert_close(value, plain)


@every_loss
def test_nan_logits_give_a_nan_loss_as_cross_entropy_does(make):
    logits, y = batch()
    broken = logits.detach().clone()
    broken[2, 1] = torch.nan
    value, _ = value_and_gradient(make(5), broken.requires_grad_(), y)
    assert torch.isnan(value)


@every_loss
@pytest.mark.parametrize("rows", [1, 16, 200])  # 200 rows are transposed column by column
@pytest.mark.parametrize("class_first", [False, True])
def test_inputs_are_not_changed(make, rows, class_first):
    logits, y = batch(n=rows)
    if class_first:  # memory laid out so that a transpose is free, and must be a copy all the same
        logits = logits.detach().t().contiguous().t().requires_grad_()
    before = logits.detach().clone(), y.clone()
    value_and_gradient(make(5), logits, y)
    assert torch.equal(logits, before[0])
    assert torch.equal(y, before[1])


@every_loss
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_large_batches_by_torch_in_chunks_are_as_small_ones_by_numpy(make, reduction, monkeypatch):
    if reduction == "none" and make(5).batch_statistic:
        pytest.skip("a statistic of the batch")
    logits, y = batch()
    loss = make(5, reduction=reduction, weight=[1.0, 2.0, 3.0, 4.0, 5.0])
    value, gradient = value_and_gradient(loss, logits, y)
    parts = dict(loss.parts)
    monkeypatch.setattr(closed_form, "SMALL", 0)  # torch, where numpy has been
    monkeypatch.setattr(closed_form, "CHUNK", 5)  # 16 rows in four pieces, the last one short
    in_pieces, gradient_in_pieces = value_and_gradient(loss, logits, y)
    torch.testing.assert_close(in_pieces, value)
    torch.testing.assert_close(gradient_in_pieces, gradient)
    torch.testing.assert_close(loss.parts, parts)


@every_loss
def test_function_transforms_see_the_same_gradient(make):
    logits, y = batch()
    loss = make(5, weight=[1.0, 2.0, 3.0, 4.0, 5.0])
    _, expected = value_and_gradient(loss, logits, y)
    torch.testing.assert_close(torch.func.grad(lambda z: loss(z, y))(logits.detach()), expected)
    fresh = make(5, weight=[1.0, 2.0, 3.0, 4.0, 5.0])
    torch.func.grad(lambda z: fresh(z, y))(logits.detach())
    copy.deepcopy(fresh)  # fails if a wrapper of the transform was kept


@whole_gradients
def test_per_sample_gradients_by_vmap(make):
    if make(5).batch_statistic:
        pytest.skip("a statistic of the batch")
    logits, y = batch()
    loss = make(5)
    each = torch.func.vmap(torch.func.grad(lambda z, label: loss(z[None], label[None])))
    _, expected = value_and_gradient(make(5, reduction="sum"), logits, y)
    torch.testing.assert_close(each(logits.detach(), y), expected)


@every_loss
def test_a_first_call_in_inference_mode_leaves_nothing_behind(make):
    logits, y = batch()
    loss = make(5)
    with torch.inference_mode():
        loss(logits.detach(), y)
    value_and_gradient(loss, logits, y)
    if loss.soft_labels:  # autograd saves the tables for the gradient in y
        soft = torch.full((16, 5), 0.2, dtype=torch.float64, requires_grad=True)
        torch.autograd.grad(loss(logits, soft), [logits, soft], allow_unused=True)


@every_loss
def test_no_grad_gives_the_same_value(make):
    logits, y = batch()
    with torch.no_grad():
        value = make(5)(logits, y)
    assert not value.requires_grad
    torch.testing.assert_close(value, make(5)(logits, y).detach())


@every_loss
def test_labels_of_every_integer_type(make):
    logits, y = batch()
    for dtype in (torch.int32, torch.int16, torch.int8, torch.uint8):
        torch.testing.assert_close(make(5)(logits, y.to(dtype)), make(5)(logits, y))


@every_loss
def test_non_contiguous_logits(make):
    logits, y = batch()
    strided = logits.detach().t().contiguous().t().requires_grad_()
    ours, gradient = value_and_gradient(make(5), strided, y)
    theirs, expected = value_and_gradient(make(5), logits, y)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradient, expected)


@every_loss
def test_gradient_can_be_taken_twice_and_scaled(make):
    logits, y = batch()
    value = make(5)(logits, y)
    (first,) = torch.autograd.grad(value, logits, retain_graph=True)
    (second,) = torch.autograd.grad(3 * value, logits)
    torch.testing.assert_close(second, 3 * first)


@every_loss
def test_copies_and_pickles_compute_the_same(make):
    logits, y = batch()
    loss = make(5, weight=[1.0, 2.0, 3.0, 4.0, 5.0])
    value = loss(logits, y)
    for clone in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        torch.testing.assert_close(clone(logits, y), value)


@every_loss
def test_half_modules_keep_exact_tables(make):
    logits, y = batch()
    exact = make(5, weight=[1.0, 2.0, 3.0, 4.0, 5.1])
    rounded = make(5, weight=[1.0, 2.0, 3.0, 4.0, 5.1]).half().float()
    assert torch.equal(rounded(logits, y), exact(logits, y))


@every_loss
def test_tables_follow_the_device_and_stay_out_of_checkpoints(make):
    loss = make(5, weight=[1.0] * 5)
    loss(*batch())
    moved = loss.to("meta")
    assert {buffer.device.type for buffer in moved.buffers()} == {"meta"}
    assert moved.state_dict() == {}


@every_loss
def test_compiles_to_one_graph(make):
    torch.compiler.reset()  # the losses share one forward, which may be compiled only so often
    logits, y = batch(dtype=torch.float32)
    loss = make(5, weight=[1.0, 2.0, 3.0, 4.0, 5.0])
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    value, gradient = value_and_gradient(compiled, logits, y)
    expected, expected_gradient = value_and_gradient(loss, logits, y)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient, expected_gradient)


@every_loss
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": torch.tensor([0, 5])}, r"y: row 1 has label 5, expected 0..4 .* `y - 1`"),
        ({"y": torch.tensor([-1, 0])}, "y: row 0 has label -1"),
        ({"y": torch.tensor([0.0, 1.0])}, r"got float32 of shape \(2,\)"),
        ({"y": torch.tensor([True, False])}, "got bool"),
        ({"y": [0, 1]}, "got list"),
        ({"y": torch.tensor([[0], [1]])}, r"y: expected integer labels of shape \(2,\).*got int64 of shape \(2, 1\)"),
        ({"y": torch.tensor([0, 1, 2])}, r"y: expected integer labels of shape \(2,\)"),
        ({"logits": torch.zeros(2, 4)}, r"logits: expected shape \(n, 5\) .* got \(2, 4\)"),
        (
            {"logits": torch.zeros(2, 5, 1)},
            r"y: expected integer labels of shape \(2, 1\), .*got int64 of shape \(2,\)",
        ),
        ({"logits": torch.tensor(0.0)}, r"logits: expected shape \(n, 5\) .* got \(\)"),
        ({"logits": torch.zeros(2, 3, 5)}, r"logits: expected shape \(n, 5\) or \(n, 5, ...\) .* got \(2, 3, 5\)"),
        ({"logits": torch.zeros(2, 5, dtype=torch.int64)}, "logits: expected a floating-point"),
        ({"logits": torch.zeros(0, 5), "y": torch.zeros(0).long()}, "the batch is empty"),
        ({"sample_weight": torch.ones(3)}, r"sample_weight: expected a tensor of shape \(2,\)"),
        ({"sample_weight": [1.0, 1.0]}, "sample_weight: .* got list"),
        ({"sample_weight": torch.tensor([1.0, -1.0])}, "at least 0, not all 0; got values from -1"),
        ({"sample_weight": torch.zeros(2)}, "not all 0"),
        ({"sample_weight": torch.tensor([1.0, torch.nan])}, "finite weights"),
    ],
)
def test_bad_input_is_named(make, change, message):
    arguments = {"logits": torch.zeros(2, 5), "y": torch.tensor([0, 1])} | change
    logits, y = arguments.pop("logits"), arguments.pop("y")
    with pytest.raises(InputError, match=message):
        make(5)(logits, y, **arguments)


@every_loss
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_classes": 1}, "num_classes: expected a whole number of at least 2, got 1"),
        ({"num_classes": 5.0}, "num_classes"),
        ({"reduction": "avg"}, "unknown reduction 'avg'. .*Known: mean, sum, none"),
        ({"weight": [1.0, 2.0]}, r"weight: expected one weight per class, shape \(5,\), got \(2,\)"),
        ({"weight": [1.0, -1.0, 1.0, 1.0, 1.0]}, "weight: class 1 has -1.0"),
        ({"weight": [0.0] * 5}, "weight: all are 0"),
    ],
)
def test_bad_options_are_named(make, options, message):
    with pytest.raises(InputError, match=message):
        make(**({"num_classes": 5} | options))


@pytest.mark.parametrize("registry", [LOSSES, REGULARIZERS], ids=["losses", "regularizers"])
def test_cards_are_complete(registry):
    for name in registry.names():
        loss = registry.get(name)
        card = loss.card
        assert card.name == name
        assert card.family in {"nominal", "ordinal", "calibration", "ordinal calibration"}
        empty = [f.name for f in dataclasses.fields(card) if not getattr(card, f.name)]
        assert set(empty) <= {"notes", "defaults"}
        assert issubclass(loss, OrdinalLoss)
        for option in card.defaults:
            assert option in loss.__doc__  # every option is explained
        assert ">>>" in loss.__doc__


def test_an_unknown_loss_offers_the_nearest():
    with pytest.raises(InputError, match="unknown loss 'ocru'. Did you mean 'orcu'"):
        losses.create("ocru", num_classes=5)
    with pytest.raises(InputError, match="Did you mean 'scale'"):
        losses.create("orcu", num_classes=5, scal=3.0)
