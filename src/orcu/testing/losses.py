"""What every loss keeps: gradient, reductions, weights, shapes, half precision, compilation, errors, the card."""

import copy
import dataclasses
import pickle
import re
from collections.abc import Callable, Mapping
from typing import Any

from orcu.errors import InputError, require

require("torch", extra="train", what="orcu.testing.check_loss")

import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from orcu import losses  # noqa: E402
from orcu.losses.base import LOSSES, REDUCTIONS, REGULARIZERS, OrdinalLoss, as_rows  # noqa: E402
from orcu.testing.contract import Contract, ContractError, close, demand, finite, refuses  # noqa: E402

FAMILIES = {"nominal", "ordinal", "calibration", "ordinal calibration"}
SINGLE = {"rtol": 1.3e-6, "atol": 1e-5}  # of float32
SHAPES = ((6,), (6, 7), (2, 3, 4), (1, 6, 2), (2, 2, 3, 2))  # of labels


@dataclasses.dataclass(frozen=True)
class _Loss:
    title: str
    num_classes: int
    maker: Callable[..., OrdinalLoss]
    example: OrdinalLoss
    registered: type[OrdinalLoss] | None  # not for a table, which has no card

    def make(self, num_classes: int | None = None, **options: Any) -> OrdinalLoss:
        return self.maker(num_classes=self.num_classes if num_classes is None else num_classes, **options)

    @property
    def weight(self) -> list[float]:
        """A weight for each class."""
        return [1.0 + k for k in range(self.num_classes)]

    def batch(
        self, *shape: int, dtype: torch.dtype = torch.float64, num_classes: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Logits that ask for their gradient, and labels of this shape; 16 rows by default."""
        shape, c = shape or (16,), num_classes or self.num_classes
        generator = torch.Generator().manual_seed(0)
        logits = 2 * torch.randn((shape[0], c, *shape[1:]), generator=generator, dtype=torch.float64)
        return logits.to(dtype).requires_grad_(), torch.randint(c, shape, generator=generator)

    @property
    def reductions(self) -> tuple[str, ...]:
        return tuple(one for one in REDUCTIONS if one != "none" or not self.example.batch_statistic)


CONTRACT: Contract[_Loss] = Contract()
BASE = "The base class does this; do not override forward, and hand all common options on to super().__init__()."
PER_SAMPLE = (
    "per_sample gives the unweighted loss of each row from that row alone; a statistic of the batch sets "
    "batch_statistic = True and writes evaluate."
)
TORCH = "Compute with torch's functions on the tensors that per_sample gets, without numpy, .item() or .data."


def check_loss(loss: str | Mapping[str, Any] | type[OrdinalLoss], num_classes: int = 5, **options: Any) -> None:
    """Run the contract of losses on one of yours.

    Args:
        loss: a registered name, a table as for `orcu.losses.create`, or the class, also of a regularizer.
        num_classes: C of most checks; some have their own.
        options: of the loss, in all checks.

    Raises:
        ContractError: if it breaks rules; a line for each, with the numbers and how to mend it.
        InputError: if it is no loss, or one that takes the output of its own head in place of logits.

    Example:
        >>> check_loss("ce", num_classes=3)
    """
    CONTRACT.check(_subject(loss, num_classes, options))


def loss_checks(
    loss: str | Mapping[str, Any] | type[OrdinalLoss], num_classes: int = 5, **options: Any
) -> dict[str, Callable[[], None]]:
    """The rules that concern a loss by name, for a test of each; see `check_loss` for the arguments.

    Example:
        >>> loss_checks("mdca")["the sum of a batch statistic is its mean times the samples"]()
    """
    return CONTRACT.checks(_subject(loss, num_classes, options))


def _subject(loss: Any, num_classes: int, options: dict[str, Any]) -> _Loss:
    registered = None
    if isinstance(loss, str | Mapping):
        title = f"loss {loss!r}"

        def maker(*, num_classes: int, **more: Any) -> OrdinalLoss:
            return losses.create(loss, num_classes=num_classes, **options, **more)

        if isinstance(loss, str) and loss in LOSSES.names():
            registered = LOSSES.get(loss)
    elif isinstance(loss, type) and issubclass(loss, OrdinalLoss):
        title, registered = f"loss {loss.__name__}", loss

        def maker(*, num_classes: int, **more: Any) -> OrdinalLoss:
            return loss(num_classes, **options, **more)

    else:
        kind = loss.__name__ if isinstance(loss, type) else f"an instance of {type(loss).__name__}"
        raise InputError(
            f"loss: expected a registered name, a table, or a class that derives from orcu.losses.OrdinalLoss, got "
            f"{kind}." + (" Hand in its class." if isinstance(loss, OrdinalLoss) else "")
        )
    if registered is not None and registered.head != OrdinalLoss.head:
        raise InputError(
            f"{title} takes the output of the head {registered.head!r}, not logits; this contract is not for it."
        )
    return _Loss(title, num_classes, maker, maker(num_classes=num_classes), registered)


def value_and_gradient(loss: Any, logits: Tensor, y: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """The detached value, and the gradient of its sum in the logits."""
    value = loss(logits, y, **options)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    return value.detach(), gradient


def _per_sample(loss: _Loss) -> bool:
    return not loss.example.batch_statistic


def _soft(loss: _Loss) -> bool:
    return loss.example.soft_labels


def _whole_gradient(loss: _Loss) -> bool:
    return not loss.example.stops_gradient


def _distributions(logits: Tensor) -> Tensor:
    return torch.rand(logits.shape, dtype=logits.dtype, generator=torch.Generator().manual_seed(1)).softmax(1)


# What it is worth.


@CONTRACT.rule(BASE)
def _it_is_one_number_for_a_batch(loss: _Loss) -> None:
    value = loss.make()(*loss.batch())
    demand(isinstance(value, Tensor) and value.shape == (), f"it gives {value!r}, expected a tensor of shape ()")


@CONTRACT.rule(PER_SAMPLE, _per_sample)
def _reductions_are_of_the_same_samples(loss: _Loss) -> None:
    logits, y = loss.batch()
    each = loss.make(reduction="none")(logits, y)
    demand(each.shape == (16,), f"reduction='none' gives shape {tuple(each.shape)} for 16 rows, expected (16,)")
    close(loss.make()(logits, y), each.mean(), "the mean")
    close(loss.make(reduction="sum")(logits, y), each.sum(), "the sum")


@CONTRACT.rule(PER_SAMPLE, _per_sample)
def _samples_do_not_see_each_other(loss: _Loss) -> None:
    logits, y = loss.batch()
    make = loss.make(reduction="none")
    order = torch.randperm(16, generator=torch.Generator().manual_seed(1))
    close(make(logits[order], y[order]), make(logits, y)[order], "the loss of rows in another order")
    close(make(logits[:1], y[:1]), make(logits, y)[:1], "the loss of a row alone")


@CONTRACT.rule("per_sample must not weigh by itself. " + BASE, _per_sample)
def _weights_multiply_samples_and_the_mean_divides_by_their_sum(loss: _Loss) -> None:
    logits, y = loss.batch()
    class_weight = 0.5 * torch.arange(loss.num_classes)
    sample_weight = torch.linspace(0.1, 2.0, 16, dtype=torch.float64)
    each = loss.make(reduction="none")(logits, y)
    weight = class_weight[y].double() * sample_weight
    for reduction, expected in (
        ("none", each * weight),
        ("sum", (each * weight).sum()),
        ("mean", (each * weight).sum() / weight.sum()),
    ):
        weighted = loss.make(reduction=reduction, weight=class_weight)
        value, gradient = value_and_gradient(weighted, logits, y, sample_weight=sample_weight)
        close(value, expected, f"the weighted {reduction}")
        (wanted,) = torch.autograd.grad(expected.sum(), logits, retain_graph=True)
        close(gradient, wanted, f"the gradient of the weighted {reduction}")


@CONTRACT.rule("A batch statistic must weigh its samples by the weight that evaluate gets.")
def _repeating_a_sample_is_weighing_it_twice(loss: _Loss) -> None:
    logits, y = loss.batch(6)
    weight = torch.tensor([2.0, 1, 1, 1, 1, 1], dtype=torch.float64)
    twice = loss.make()(torch.cat([logits, logits[:1]]), torch.cat([y, y[:1]]))
    close(loss.make()(logits, y, sample_weight=weight), twice, "the loss with a weight of 2")


@CONTRACT.rule(
    "A batch statistic has no per-sample values: leave reduction to super().__init__().",
    lambda loss: not _per_sample(loss),
)
def _batch_statistics_refuse_per_sample_values(loss: _Loss) -> None:
    refuses(lambda: loss.make(reduction="none"), "reduction: .*'mean' or 'sum'", "reduction='none'")


@CONTRACT.rule(
    "Multiply the mean by the sum of the weights, or the number of samples.", lambda loss: not _per_sample(loss)
)
def _the_sum_of_a_batch_statistic_is_its_mean_times_the_samples(loss: _Loss) -> None:
    logits, y = loss.batch()
    close(loss.make(reduction="sum")(logits, y), 16 * loss.make()(logits, y), "the sum")


@CONTRACT.rule("Count classes from both ends alike, or sort out which class the formula takes for the lowest.")
def _reversing_the_order_of_the_classes_changes_nothing(loss: _Loss) -> None:
    logits, y = loss.batch()
    close(loss.make()(logits.flip(1), loss.num_classes - 1 - y), loss.make()(logits, y), "the loss of reversed classes")


@CONTRACT.rule(
    "A loss of logits as they are, not of softmax, sets shift_invariant = False.",
    lambda loss: loss.example.shift_invariant,
)
def _adding_a_constant_to_a_row_changes_nothing(loss: _Loss) -> None:
    logits, y = loss.batch()
    value, gradient = value_and_gradient(loss.make(), logits, y)
    shifted, _ = value_and_gradient(loss.make(), logits + 7.0, y)
    close(shifted, value, "the loss of logits + 7")
    close(gradient.sum(1), torch.zeros(16), "the sum of a row's gradient", atol=1e-9)


@CONTRACT.rule(
    "per_sample gets distributions (n, C) as y too; if the formula has none for them set soft_labels = False.", _soft
)
def _one_hot_labels_are_labels(loss: _Loss) -> None:
    logits, y = loss.batch()
    weighted = loss.make(weight=loss.weight)
    onehot = torch.nn.functional.one_hot(y, loss.num_classes).double()
    value, gradient = value_and_gradient(weighted, logits, onehot)
    expected, wanted = value_and_gradient(weighted, logits, y)
    close(value, expected, "the loss of one-hot labels")
    close(gradient, wanted, "the gradient of one-hot labels")


@CONTRACT.rule(
    "With label distributions the loss is the average over labels; else set soft_labels = False.",
    lambda loss: _soft(loss) and _per_sample(loss),
)
def _soft_labels_average_over_labels(loss: _Loss) -> None:
    logits, _ = loss.batch()
    soft = _distributions(logits.detach())
    each = loss.make(reduction="none")
    columns = [each(logits, torch.full((16,), k)) for k in range(loss.num_classes)]
    close(each(logits, soft), (soft * torch.stack(columns, dim=1)).sum(1), "the loss of label distributions")


@CONTRACT.rule(BASE, lambda loss: not _soft(loss))
def _losses_of_hard_labels_refuse_soft_ones(loss: _Loss) -> None:
    soft = torch.full((2, loss.num_classes), 1 / loss.num_classes)
    refuses(
        lambda: loss.make()(torch.zeros_like(soft), soft),
        "takes integer labels, not label distributions",
        "a label distribution",
    )


# Its derivative.


@CONTRACT.rule(
    "Mend the gradient; a loss that detaches a part of its formula sets stops_gradient = True.", _whole_gradient
)
def _the_gradient_is_the_derivative(loss: _Loss) -> None:
    logits, y = loss.batch(4)
    for reduction in loss.reductions:
        made = loss.make(reduction=reduction)
        torch.autograd.gradcheck(lambda z, made=made: made(z, y), logits)


@CONTRACT.rule("A backward of your own must be made of differentiable operations.", _whole_gradient)
def _double_backward_works(loss: _Loss) -> None:
    logits, y = loss.batch(3)
    for reduction in loss.reductions:
        made = loss.make(reduction=reduction)
        torch.autograd.gradgradcheck(lambda z, made=made: made(z, y), logits)


@CONTRACT.rule("A backward of your own must not change what it has saved.")
def _the_gradient_can_be_taken_twice_and_scaled(loss: _Loss) -> None:
    logits, y = loss.batch()
    value = loss.make()(logits, y)
    (first,) = torch.autograd.grad(value, logits, retain_graph=True)
    (second,) = torch.autograd.grad(3 * value, logits)
    close(second, 3 * first, "the gradient of 3 times the loss")


@CONTRACT.rule(TORCH)
def _function_transforms_see_the_same_gradient(loss: _Loss) -> None:
    logits, y = loss.batch()
    weighted = loss.make(weight=loss.weight)
    _, expected = value_and_gradient(weighted, logits, y)
    close(torch.func.grad(lambda z: weighted(z, y))(logits.detach()), expected, "the gradient by torch.func.grad")
    fresh = loss.make(weight=loss.weight)
    torch.func.grad(lambda z: fresh(z, y))(logits.detach())
    copy.deepcopy(fresh)  # fails if a wrapper of the transform was kept


@CONTRACT.rule(TORCH, lambda loss: _whole_gradient(loss) and _per_sample(loss))
def _per_sample_gradients_by_vmap(loss: _Loss) -> None:
    logits, y = loss.batch()
    alone = loss.make()
    each = torch.func.vmap(torch.func.grad(lambda z, label: alone(z[None], label[None])))
    _, expected = value_and_gradient(loss.make(reduction="sum"), logits, y)
    close(each(logits.detach(), y), expected, "the gradient of each sample")


@CONTRACT.rule(TORCH)
def _no_grad_gives_the_same_value(loss: _Loss) -> None:
    logits, y = loss.batch()
    with torch.no_grad():
        value = loss.make()(logits, y)
    demand(not value.requires_grad, "the value asks for a gradient under no_grad")
    close(value, loss.make()(logits, y), "the loss under no_grad")


@CONTRACT.rule("Keep constant tables by add_table and read them by table, which knows of inference mode.")
def _a_first_call_in_inference_mode_leaves_nothing_behind(loss: _Loss) -> None:
    logits, y = loss.batch()
    made = loss.make()
    with torch.inference_mode():
        made(logits.detach(), y)
    value_and_gradient(made, logits, y)
    if made.soft_labels:  # autograd saves the tables for the gradient in y
        soft = _distributions(logits.detach()).requires_grad_()
        torch.autograd.grad(made(logits, soft), [logits, soft], allow_unused=True)


@CONTRACT.rule(TORCH)
def _it_compiles_to_one_graph(loss: _Loss) -> None:
    torch.compiler.reset()  # the losses share one forward, which may be compiled only so often
    logits, y = loss.batch(dtype=torch.float32)
    made = loss.make(weight=loss.weight)
    value, gradient = value_and_gradient(torch.compile(made, fullgraph=True, backend="aot_eager"), logits, y)
    expected, wanted = value_and_gradient(made, logits, y)
    close(value, expected, "the compiled loss", **SINGLE)
    close(gradient, wanted, "the gradient of the compiled loss", **SINGLE)


# What it takes.


@CONTRACT.rule("Take the number of classes from self.num_classes, and keep large powers and exponentials in range.")
def _any_number_of_classes(loss: _Loss) -> None:
    for num_classes in (2, 3, 9, 1000):
        logits, y = loss.batch(4, num_classes=num_classes)
        value, gradient = value_and_gradient(loss.make(num_classes), logits, y)
        finite(value, f"the loss of {num_classes} classes")
        finite(gradient, f"the gradient of {num_classes} classes")


@CONTRACT.rule("Work with logarithms of probabilities (log_softmax, logsumexp), not with logarithms of softmax.")
def _it_is_finite_with_a_finite_gradient_everywhere(loss: _Loss) -> None:
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        for size in (0.0, 1.0, 1e4):  # 0 is a zero-initialised head: every adjacent pair ties
            logits, y = loss.batch()
            logits = (size * logits.detach().clamp(-1, 1)).to(dtype).requires_grad_()
            value, gradient = value_and_gradient(loss.make(), logits, y)
            expected = torch.float64 if dtype == torch.float64 else torch.float32
            demand(value.dtype == expected, f"the loss of {dtype} is {value.dtype}, expected {expected}")
            demand(gradient.dtype == dtype, f"the gradient of {dtype} is {gradient.dtype}")
            finite(value, f"the loss of {dtype} logits up to {size:g}")
            finite(gradient, f"the gradient of {dtype} logits up to {size:g}")


@CONTRACT.rule("Do not clean logits with nan_to_num or where: a training that has gone wrong must show it.")
def _nan_logits_give_a_nan_loss_as_cross_entropy_does(loss: _Loss) -> None:
    logits, y = loss.batch()
    broken = logits.detach().clone()
    broken[2, 1] = torch.nan
    value, _ = value_and_gradient(loss.make(), broken.requires_grad_(), y)
    demand(torch.isnan(value), f"the loss is {value.item():g}, expected NaN")


@CONTRACT.rule(BASE)
def _autocast_keeps_the_precision_of_the_loss(loss: _Loss) -> None:
    for shape in ((16,), (2, 3, 4)):
        logits, y = loss.batch(*shape, dtype=torch.bfloat16)
        plain, _ = value_and_gradient(loss.make(), logits.detach().float().requires_grad_(), y)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value, _ = value_and_gradient(loss.make(), logits, y)
        demand(value.dtype == torch.float32, f"the loss under autocast is {value.dtype}, expected torch.float32")
        close(value, plain, "the loss under autocast", **SINGLE)


@CONTRACT.rule("Do not work in place on logits and labels, nor on views of them.")
def _inputs_are_not_changed(loss: _Loss) -> None:
    for rows in (1, 16, 200):
        logits, y = loss.batch(rows)
        class_first = logits.detach().t().contiguous().t().requires_grad_()  # whose transpose is no copy
        for one in (logits, class_first, loss.batch(rows, 2, 2)[0]):
            labels = y if one.dim() == 2 else loss.batch(rows, 2, 2)[1]
            before = one.detach().clone(), labels.clone()
            value_and_gradient(loss.make(), one, labels)
            demand(torch.equal(one, before[0]), f"the logits of {rows} rows were changed")
            demand(torch.equal(labels, before[1]), f"the labels of {rows} rows were changed")


@CONTRACT.rule(BASE)
def _labels_may_be_of_every_integer_type(loss: _Loss) -> None:
    logits, y = loss.batch()
    for dtype in (torch.int32, torch.int16, torch.int8, torch.uint8):
        close(loss.make()(logits, y.to(dtype)), loss.make()(logits, y), f"the loss of {dtype} labels")


@CONTRACT.rule("Use reshape in place of view.")
def _logits_need_not_be_contiguous(loss: _Loss) -> None:
    logits, y = loss.batch()
    value, gradient = value_and_gradient(loss.make(), logits.detach().t().contiguous().t().requires_grad_(), y)
    expected, wanted = value_and_gradient(loss.make(), logits, y)
    close(value, expected, "the loss of a transposed tensor")
    close(gradient, wanted, "the gradient of a transposed tensor")


# Dense outputs, in the shapes of nn.CrossEntropyLoss.

DENSE = "The base class makes rows of dense outputs; with dense = True, evaluate gets (n, C, ...) and (n, ...) itself."


@CONTRACT.rule(DENSE)
def _a_dense_output_is_its_rows(loss: _Loss) -> None:
    for shape in SHAPES:
        logits, y = loss.batch(*shape)
        sample_weight = torch.linspace(0.1, 2.0, y.numel(), dtype=torch.float64).view(y.shape)
        rows = as_rows(logits.detach()).requires_grad_()
        for weight in (None, loss.weight):
            made = loss.make(weight=weight)
            value, gradient = value_and_gradient(made, logits, y, sample_weight=sample_weight)
            expected, wanted = value_and_gradient(made, rows, y.flatten(), sample_weight=sample_weight.flatten())
            close(value, expected, f"the loss of labels of shape {shape}")
            close(as_rows(gradient), wanted, f"the gradient of labels of shape {shape}")


@CONTRACT.rule(DENSE, _soft)
def _dense_label_distributions_are_their_rows(loss: _Loss) -> None:
    logits, _ = loss.batch(2, 3, 4)
    soft, made = _distributions(logits.detach()), loss.make(weight=loss.weight)
    value, gradient = value_and_gradient(made, logits, soft)
    expected, wanted = value_and_gradient(made, as_rows(logits.detach()).requires_grad_(), as_rows(soft))
    close(value, expected, "the loss")
    close(as_rows(gradient), wanted, "the gradient")


@CONTRACT.rule(DENSE, _per_sample)
def _values_have_the_shape_of_the_labels(loss: _Loss) -> None:
    for shape in ((16,), (2, 3, 4)):
        logits, y = loss.batch(*shape)
        each = loss.make(reduction="none")(logits, y)
        demand(each.shape == y.shape, f"the values have shape {tuple(each.shape)}, the labels {shape}")
        close(loss.make()(logits, y), each.mean(), "the mean")
        upstream = torch.rand(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        (gradient,) = torch.autograd.grad(each, logits, upstream)
        _, wanted = value_and_gradient(loss.make(reduction="sum"), logits, y, sample_weight=upstream)
        close(gradient, wanted, "the gradient of the values, weighed")
    logits, y = loss.batch(1)
    for reduction in REDUCTIONS:
        made = loss.make(reduction=reduction)
        close(made(logits[0], y[0]), made(logits, y).reshape(()), f"the {reduction} of one sample without a batch")


@CONTRACT.rule(BASE)
def _ignored_samples_might_as_well_not_be_there(loss: _Loss) -> None:
    for label in (-100, 255, loss.num_classes - 1):
        logits, y = loss.batch(2, 3, 4)
        y.view(-1)[:5] = label
        ignored = y == label
        with torch.no_grad():
            logits[ignored.unsqueeze(1).expand_as(logits)] = torch.nan
        value, gradient = value_and_gradient(loss.make(ignore_index=label, weight=loss.weight), logits, y)
        kept = ~ignored.flatten()
        rows = as_rows(logits.detach())[kept].requires_grad_()
        expected, wanted = value_and_gradient(loss.make(weight=loss.weight), rows, y.flatten()[kept])
        close(value, expected, f"the loss with ignore_index={label}")
        close(as_rows(gradient)[kept], wanted, f"the gradient with ignore_index={label}")
        close(
            as_rows(gradient)[~kept], torch.zeros(int((~kept).sum()), loss.num_classes), "an ignored gradient", atol=0
        )
    if _per_sample(loss):
        logits, y = loss.batch()
        y[:5] = -100
        each = loss.make(reduction="none")(logits, y)
        close(each[:5], torch.zeros(5), "the value of an ignored sample", atol=0)
        close(loss.make()(logits, y), each.sum() / 11, "the mean over what is not ignored")


@CONTRACT.rule("Divide by orcu.kernels.terms.total_weight, which is 1 where all weights are 0.")
def _where_all_samples_are_ignored_the_loss_is_0(loss: _Loss) -> None:
    logits, y = loss.batch(2, 3, 4)
    value, gradient = value_and_gradient(loss.make(), logits, torch.full_like(y, -100))
    close(value, 0.0, "the loss", atol=0)
    close(gradient, torch.zeros_like(logits), "the gradient", atol=0)


# As a module.


@CONTRACT.rule("Define the class at the top of a module, and keep nothing in it that cannot be pickled.")
def _copies_and_pickles_compute_the_same(loss: _Loss) -> None:
    logits, y = loss.batch()
    made = loss.make(weight=loss.weight)
    value = made(logits, y)
    for name, clone in (("copy", copy.deepcopy(made)), ("pickle", pickle.loads(pickle.dumps(made)))):  # noqa: S301
        close(clone(logits, y), value, f"the loss of the {name}")


@CONTRACT.rule("Keep constant tables by add_table, which holds them in float64.")
def _half_modules_keep_exact_tables(loss: _Loss) -> None:
    logits, y = loss.batch()
    weight = [1.1 + k for k in range(loss.num_classes)]
    exact, rounded = loss.make(weight=weight), loss.make(weight=weight).half().float()
    close(rounded(logits, y), exact(logits, y), "the loss after .half().float()", rtol=0, atol=0)


@CONTRACT.rule("Keep constant tables by add_table.")
def _tables_follow_the_device_and_stay_out_of_checkpoints(loss: _Loss) -> None:
    made = loss.make(weight=loss.weight)
    made(*loss.batch())
    moved = made.to("meta")
    devices = {buffer.device.type for buffer in moved.buffers()}
    demand(devices == {"meta"}, f"after .to('meta') there are tables on {', '.join(sorted(devices))}")
    demand(moved.state_dict() == {}, f"its checkpoint holds {', '.join(moved.state_dict())}, expected nothing")


# What it refuses.


@CONTRACT.rule(BASE)
def _bad_input_is_named(loss: _Loss) -> None:
    c = loss.num_classes
    shape = rf"logits: expected shape \(n, {c}\) or \(n, {c}, ...\) .* got "
    cases: list[tuple[dict[str, Any], str]] = [
        ({"y": torch.tensor([0, c])}, rf"y: row 1 has label {c}, expected 0..{c - 1} .* `y - 1`"),
        ({"y": torch.tensor([-1, 0])}, "y: row 0 has label -1"),
        ({"y": torch.tensor([0.0, 1.0])}, r"got float32 of shape \(2,\)"),
        ({"y": torch.tensor([True, False])}, "got bool"),
        ({"y": [0, 1]}, "got list"),
        ({"y": torch.tensor([[0], [1]])}, r"y: expected integer labels of shape \(2,\).*got int64 of shape \(2, 1\)"),
        ({"y": torch.tensor([0, 1, 0])}, r"y: expected integer labels of shape \(2,\)"),
        ({"logits": torch.zeros(2, c - 1)}, shape + re.escape(f"(2, {c - 1})")),
        (
            {"logits": torch.zeros(2, c, 1)},
            r"y: expected integer labels of shape \(2, 1\), .*got int64 of shape \(2,\)",
        ),
        ({"logits": torch.tensor(0.0)}, shape + r"\(\)"),
        ({"logits": torch.zeros(2, c + 1, c)}, shape + re.escape(f"(2, {c + 1}, {c})")),
        ({"logits": torch.zeros(2, c, dtype=torch.int64)}, "logits: expected a floating-point"),
        ({"logits": torch.zeros(0, c), "y": torch.zeros(0).long()}, "the batch is empty"),
        ({"sample_weight": torch.ones(3)}, r"sample_weight: expected a tensor of shape \(2,\)"),
        ({"sample_weight": [1.0, 1.0]}, "sample_weight: .* got list"),
        ({"sample_weight": torch.tensor([1.0, -1.0])}, "at least 0, not all 0; got values from -1"),
        ({"sample_weight": torch.zeros(2)}, "not all 0"),
        ({"sample_weight": torch.tensor([1.0, torch.nan])}, "finite weights"),
    ]
    for change, message in cases:
        call = {"logits": torch.zeros(2, c), "y": torch.tensor([0, 1])} | change
        (name, value), *_ = change.items()
        refuses(lambda call=call: loss.make()(**call), message, f"{name} {value!r}")  # type: ignore[misc]


@CONTRACT.rule(BASE, _soft)
def _bad_soft_labels_are_named(loss: _Loss) -> None:
    c = loss.num_classes
    rest = [0.0] * (c - 2)
    for rows, message in (
        ([[0.5, 0.5, *rest], [0.5, 0.6, *rest]], r"y: row 1 is \[0.5, 0.6.*sum to 1"),
        ([[1.5, -0.5, *rest], [1.0, 0.0, *rest]], "y: row 0 is"),
        ([[1.0, 0.0, *rest], [torch.nan, 1.0, *rest]], "y: row 1 is"),
        (
            [[0.5, 0.5, *rest, 0.0]] * 2,
            rf"y: expected integer labels .* floating-point label distributions of shape \(2, {c}\)",
        ),
    ):
        soft = torch.tensor(rows)
        refuses(lambda soft=soft: loss.make()(torch.zeros(2, c), soft), message, f"y {rows!r}")  # type: ignore[misc]


@CONTRACT.rule(BASE)
def _bad_options_are_named(loss: _Loss) -> None:
    c = loss.num_classes
    cases: list[tuple[dict[str, Any], str]] = [
        ({"num_classes": 1}, "num_classes: expected a whole number of at least 2, got 1"),
        ({"num_classes": 5.0}, "num_classes"),
        ({"reduction": "avg"}, "unknown reduction 'avg'. .*Known: mean, sum, none"),
        ({"weight": [1.0] * (c + 1)}, rf"weight: expected one weight per class, shape \({c},\), got \({c + 1},\)"),
        ({"weight": [1.0, -1.0, *[1.0] * (c - 2)]}, "weight: class 1 has -1.0"),
        ({"weight": [0.0] * c}, "weight: all are 0"),
    ]
    for options, message in cases:
        refuses(lambda options=options: loss.make(**options), message, f"the option {options}")  # type: ignore[misc]


@CONTRACT.rule(
    "Register it by @register_loss(LossCard(...)); explain every option in the docstring, and give an example there.",
    lambda loss: loss.registered is not None,
)
def _the_card_is_complete(loss: _Loss) -> None:
    cls = loss.registered
    card = getattr(cls, "card", None)
    if cls is None or card is None:
        raise ContractError("it has no card")
    known = [registry.get(card.name) for registry in (LOSSES, REGULARIZERS) if card.name in registry.names()]
    demand(cls in known, f"its card says {card.name!r}, under which another loss, or none, is registered")
    demand(card.family in FAMILIES, f"its family is {card.family!r}, expected one of {', '.join(sorted(FAMILIES))}")
    empty = [field.name for field in dataclasses.fields(card) if not getattr(card, field.name)]
    empty = [name for name in empty if name not in {"notes", "defaults"}]
    demand(not empty, f"its card says nothing under {', '.join(empty)}")
    text = cls.__doc__ or ""
    missing = [option for option in card.defaults if option not in text]
    demand(not missing, f"its docstring does not explain {', '.join(missing)}")
    demand(">>>" in text, "its docstring has no example (>>>)")
