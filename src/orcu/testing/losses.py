"""Contract of losses: values, gradients, weights, shapes, precision, compilation, serialization, errors, card."""

import copy
import pickle
import re
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any

from orcu.errors import InputError, require

require("torch", extra="train", feature="orcu.testing.check_loss")

import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from orcu import losses  # noqa: E402
from orcu.losses.base import LOSSES, OUTPUT_HEADS, REDUCTIONS, REGULARIZERS, OrdinalLoss, as_rows  # noqa: E402
from orcu.testing.contract import Contract, Rule, expect, expect_close, expect_error, expect_finite, wrong_type  # noqa: E402

FAMILIES = {"nominal", "ordinal", "calibration", "ordinal calibration"}
SINGLE = {"rtol": 1.3e-6, "atol": 1e-5}  # tolerance of float32
SHAPES = ((6,), (6, 7), (2, 3, 4), (1, 6, 2), (2, 2, 3, 2))  # shapes of labels
BASE = "The base class does this; do not override forward, and pass all common options to super().__init__()."
PER_SAMPLE = (
    "per_sample returns the unweighted loss of each row from that row alone; a statistic of the batch sets "
    "batch_statistic = True and defines evaluate."
)
TORCH = "Use torch functions on the tensors that per_sample receives, without numpy, .item() or .data."
DENSE = "The base class reshapes dense outputs to rows; with dense = True, evaluate receives (n, C, ...) and (n, ...)."


def check_loss(loss: str | Mapping[str, Any] | type[OrdinalLoss], num_classes: int = 5, **options: Any) -> None:
    """Check the contract of losses.

    Args:
        loss: registered name, table as for `orcu.losses.create`, or class of a loss or regularizer.
        num_classes: number of classes in most checks.
        options: options of the loss, used in all checks.

    Raises:
        ContractError: if rules are broken; the message has a line for each, with the numbers and how to fix it.
        InputError: if it is not a loss, or takes the output of a specific head instead of logits.

    Example:
        >>> check_loss("ce", num_classes=3)
    """
    _LossContract(loss, num_classes, options).check()


def loss_checks(
    loss: str | Mapping[str, Any] | type[OrdinalLoss], num_classes: int = 5, **options: Any
) -> dict[str, Callable[[], None]]:
    """Return the rules that apply to a loss, by name; see `check_loss` for the arguments.

    Example:
        >>> loss_checks("mdca")["reductions"]()
    """
    return _LossContract(loss, num_classes, options).checks()


def value_and_gradient(loss: Any, logits: Tensor, y: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """The detached value, and the gradient of its sum in the logits."""
    value = loss(logits, y, **options)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    return value.detach(), gradient


def _expect_same(what: str, actual: tuple[Any, Any], expected: tuple[Any, Any], **tolerance: float) -> None:
    """Compare values and gradients."""
    expect_close(actual[0], expected[0], f"the loss of {what}", **tolerance)
    expect_close(actual[1], expected[1], f"the gradient of {what}", **tolerance)


def _distributions(logits: Tensor) -> Tensor:
    return torch.rand(logits.shape, dtype=logits.dtype, generator=torch.Generator().manual_seed(1)).softmax(1)


class _LossContract(Contract):
    def __init__(self, loss: Any, num_classes: int, options: dict[str, Any]) -> None:
        self.registered: type[OrdinalLoss] | None = None  # a table has no card
        self.create: Callable[..., OrdinalLoss]
        if isinstance(loss, str | Mapping):
            self.title, self.create = f"loss {loss!r}", partial(losses.create, loss, **options)
            if isinstance(loss, str) and loss in LOSSES.names():
                self.registered = LOSSES.get(loss)
        elif isinstance(loss, type) and issubclass(loss, OrdinalLoss):
            self.title, self.create, self.registered = f"loss {loss.__name__}", partial(loss, **options), loss
        else:
            raise wrong_type("loss", "a registered name, a table", loss, OrdinalLoss)
        if self.registered is not None and self.registered.head in OUTPUT_HEADS:
            head = self.registered.head
            raise InputError(f"{self.title}: takes the output of the head {head!r}, expected a loss of logits.")
        self.num_classes, self.weight = num_classes, [1.0 + k for k in range(num_classes)]
        self.example = self.make()
        self.soft, self.per_sample = self.example.soft_labels, not self.example.batch_statistic
        self.supported_reductions = REDUCTIONS if self.per_sample else REDUCTIONS[:2]
        self.complete_gradient = not self.example.stops_gradient

    def make(self, num_classes: int | None = None, **options: Any) -> OrdinalLoss:
        return self.create(num_classes=self.num_classes if num_classes is None else num_classes, **options)

    def batch(
        self, *shape: int, dtype: torch.dtype = torch.float64, num_classes: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Logits that require a gradient, and labels of a shape; 16 rows by default."""
        shape, c = shape or (16,), num_classes or self.num_classes
        generator = torch.Generator().manual_seed(0)
        logits = 2 * torch.randn((shape[0], c, *shape[1:]), generator=generator, dtype=torch.float64)
        return logits.to(dtype).requires_grad_(), torch.randint(c, shape, generator=generator)

    # Values, weights and labels

    @Rule(PER_SAMPLE)
    def reductions(self) -> None:
        logits, y = self.batch()
        mean, total = self.make()(logits, y), self.make(reduction="sum")(logits, y)
        expect(isinstance(mean, Tensor) and mean.shape == (), f"the value is {mean!r}, expected a tensor of shape ()")
        if not self.per_sample:
            expect_error(lambda: self.make(reduction="none"), "reduction: .*'mean' or 'sum'", "reduction='none'")
            expect_close(total, 16 * mean, "the sum")
            return
        values = self.make(reduction="none")(logits, y)
        expect(values.shape == (16,), f"reduction='none' gives shape {tuple(values.shape)} for 16 rows, expected (16,)")
        expect_close(mean, values.mean(), "the mean")
        expect_close(total, values.sum(), "the sum")

    @Rule(PER_SAMPLE, attrgetter("per_sample"))
    def independent_samples(self) -> None:
        logits, y = self.batch()
        module = self.make(reduction="none")
        order = torch.randperm(16, generator=torch.Generator().manual_seed(1))
        expect_close(module(logits[order], y[order]), module(logits, y)[order], "the loss of permuted rows")
        expect_close(module(logits[:1], y[:1]), module(logits, y)[:1], "the loss of a single row")

    @Rule("per_sample must not apply weights. " + BASE, attrgetter("per_sample"))
    def weights(self) -> None:
        logits, y = self.batch()
        class_weight = 0.5 * torch.arange(self.num_classes)
        sample_weight = torch.linspace(0.1, 2.0, 16, dtype=torch.float64)
        weight = class_weight[y].double() * sample_weight
        weighted = self.make(reduction="none")(logits, y) * weight
        reduced = {"none": weighted, "sum": weighted.sum(), "mean": weighted.sum() / weight.sum()}
        for reduction, expected in reduced.items():
            module = self.make(reduction=reduction, weight=class_weight)
            (gradient,) = torch.autograd.grad(expected.sum(), logits, retain_graph=True)
            actual = value_and_gradient(module, logits, y, sample_weight=sample_weight)
            _expect_same(f"weighted samples with reduction={reduction!r}", actual, (expected, gradient))

    @Rule("A batch statistic must apply the weight that evaluate receives.")
    def weight_equals_repetition(self) -> None:
        logits, y = self.batch(6)
        weight = torch.tensor([2.0, 1, 1, 1, 1, 1], dtype=torch.float64)
        repeated = self.make()(torch.cat([logits, logits[:1]]), torch.cat([y, y[:1]]))
        expect_close(self.make()(logits, y, sample_weight=weight), repeated, "the loss with a weight of 2")

    @Rule(
        "Treat both ends of the scale alike, or set reversible = False; check which class the formula takes as the "
        "lowest.",
        attrgetter("example.reversible"),
    )
    def reversed_classes(self) -> None:
        logits, y = self.batch()
        reversed_classes = self.make()(logits.flip(1), self.num_classes - 1 - y)
        expect_close(reversed_classes, self.make()(logits, y), "the loss of reversed classes")

    @Rule(
        "A loss of raw logits, not of their softmax, sets shift_invariant = False.",
        attrgetter("example.shift_invariant"),
    )
    def shift_invariance(self) -> None:
        logits, y = self.batch()
        value, gradient = value_and_gradient(self.make(), logits, y)
        expect_close(self.make()(logits + 7.0, y), value, "the loss of logits + 7")
        expect_close(gradient.sum(1), torch.zeros(16), "the sum of a row's gradient", atol=1e-9)

    @Rule(
        "per_sample receives distributions (n, C) as y too and returns the average over labels; a loss without them "
        "sets soft_labels = False."
    )
    def label_distributions(self) -> None:
        logits, y = self.batch()
        soft, module = _distributions(logits.detach()), self.make(weight=self.weight)
        if not self.soft:
            expect_error(lambda: module(logits, soft), "^y: .*integer labels", "a label distribution")
            return
        onehot = torch.nn.functional.one_hot(y, self.num_classes).double()
        _expect_same(
            "one-hot labels", value_and_gradient(module, logits, onehot), value_and_gradient(module, logits, y)
        )
        if self.per_sample:
            each = self.make(reduction="none")
            columns = [each(logits, torch.full((16,), k)) for k in range(self.num_classes)]
            expected = (soft * torch.stack(columns, dim=1)).sum(1)
            expect_close(each(logits, soft), expected, "the loss of label distributions")

    # Derivatives

    @Rule(
        "Correct the gradient; a loss that detaches a part of its formula sets stops_gradient = True.",
        attrgetter("complete_gradient"),
    )
    def gradient(self) -> None:
        logits, y = self.batch(4)
        for reduction in self.supported_reductions:
            module = self.make(reduction=reduction)
            torch.autograd.gradcheck(lambda z, module=module: module(z, y), logits)

    @Rule("A custom backward must consist of differentiable operations.", attrgetter("complete_gradient"))
    def double_backward(self) -> None:
        logits, y = self.batch(3)
        for reduction in self.supported_reductions:
            module = self.make(reduction=reduction)
            torch.autograd.gradgradcheck(lambda z, module=module: module(z, y), logits)

    @Rule("A custom backward must not change the tensors it has saved.")
    def repeated_backward(self) -> None:
        logits, y = self.batch()
        value = self.make()(logits, y)
        (first,) = torch.autograd.grad(value, logits, retain_graph=True)
        (second,) = torch.autograd.grad(3 * value, logits)
        expect_close(second, 3 * first, "the gradient of 3 times the loss")

    @Rule(TORCH)
    def function_transforms(self) -> None:
        logits, y = self.batch()
        module = self.make(weight=self.weight)
        _, expected = value_and_gradient(module, logits, y)
        new = self.make(weight=self.weight)
        for loss in (module, new):
            gradient = torch.func.grad(lambda z, loss=loss: loss(z, y))(logits.detach())
            expect_close(gradient, expected, "the gradient by torch.func.grad")
        copy.deepcopy(new)  # fails if a wrapper tensor of the transform is still referenced

    @Rule(TORCH, lambda contract: contract.complete_gradient and contract.per_sample)
    def per_sample_gradients_with_vmap(self) -> None:
        logits, y = self.batch()
        module = self.make()
        gradients = torch.func.vmap(torch.func.grad(lambda z, label: module(z[None], label[None])))
        _, expected = value_and_gradient(self.make(reduction="sum"), logits, y)
        expect_close(gradients(logits.detach(), y), expected, "the gradient of each sample")

    @Rule("Register constant tables with add_table and read them with table, which supports inference mode.")
    def no_grad_and_inference_mode(self) -> None:
        logits, y = self.batch()
        module = self.make()
        with torch.no_grad():
            value = self.make()(logits, y)
        expect(not value.requires_grad, "the value requires a gradient under no_grad")
        with torch.inference_mode():
            module(logits.detach(), y)
        expect_close(value, value_and_gradient(module, logits, y)[0], "the loss under no_grad")
        if module.soft_labels:  # autograd saves the tables for the gradient in y
            soft = _distributions(logits.detach()).requires_grad_()
            torch.autograd.grad(module(logits, soft), [logits, soft], allow_unused=True)

    @Rule(TORCH)
    def torch_compile(self) -> None:
        torch.compiler.reset()  # all losses share one forward, whose number of recompilations is limited
        logits, y = self.batch(dtype=torch.float32)
        module = self.make(weight=self.weight)
        compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
        expected = value_and_gradient(module, logits, y)
        _expect_same("the compiled module", value_and_gradient(compiled, logits, y), expected, **SINGLE)

    # Inputs

    @Rule("Use self.num_classes, and keep large powers and exponentials in range.")
    def any_number_of_classes(self) -> None:
        for num_classes in (2, 3, 9, 1000):
            logits, y = self.batch(4, num_classes=num_classes)
            value, gradient = value_and_gradient(self.make(num_classes), logits, y)
            expect_finite(value, f"the loss of {num_classes} classes")
            expect_finite(gradient, f"the gradient of {num_classes} classes")

    @Rule("Compute with log-probabilities (log_softmax, logsumexp), not with logarithms of softmax.")
    def finite_values_and_gradients(self) -> None:
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            for size in (0.0, 1.0, 1e4):  # 0 is a zero-initialised head, where all adjacent pairs tie
                logits, y = self.batch()
                logits = (size * logits.detach().clamp(-1, 1)).to(dtype).requires_grad_()
                value, gradient = value_and_gradient(self.make(), logits, y)
                expected = torch.float64 if dtype == torch.float64 else torch.float32
                expect(value.dtype == expected, f"the loss of {dtype} is {value.dtype}, expected {expected}")
                expect(gradient.dtype == dtype, f"the gradient of {dtype} is {gradient.dtype}")
                expect_finite(value, f"the loss of {dtype} logits up to {size:g}")
                expect_finite(gradient, f"the gradient of {dtype} logits up to {size:g}")

    @Rule("Do not replace NaN with nan_to_num or where: a diverged training must be visible.")
    def nan_logits(self) -> None:
        logits, y = self.batch()
        broken = logits.detach().clone()
        broken[2, 1] = torch.nan
        value, _ = value_and_gradient(self.make(), broken.requires_grad_(), y)
        expect(torch.isnan(value), f"the loss is {value.item():g}, expected NaN")

    @Rule(BASE)
    def autocast(self) -> None:
        for shape in ((16,), (2, 3, 4)):
            logits, y = self.batch(*shape, dtype=torch.bfloat16)
            expected, _ = value_and_gradient(self.make(), logits.detach().float().requires_grad_(), y)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                value, _ = value_and_gradient(self.make(), logits, y)
            expect(value.dtype == torch.float32, f"the loss under autocast is {value.dtype}, expected torch.float32")
            expect_close(value, expected, "the loss under autocast", **SINGLE)

    @Rule("Do not modify logits and labels, or views of them, in place.")
    def inputs_unchanged(self) -> None:
        for rows in (1, 16, 200):
            logits, y = self.batch(rows)
            class_first = logits.detach().t().contiguous().t().requires_grad_()  # its transpose is not a copy
            for z, labels in ((logits, y), (class_first, y), self.batch(rows, 2, 2)):
                before = z.detach().clone(), labels.clone()
                value_and_gradient(self.make(), z, labels)
                expect(torch.equal(z, before[0]), f"the logits of {rows} rows were changed")
                expect(torch.equal(labels, before[1]), f"the labels of {rows} rows were changed")

    @Rule(BASE)
    def integer_label_types(self) -> None:
        logits, y = self.batch()
        for dtype in (torch.int32, torch.int16, torch.int8, torch.uint8):
            expect_close(self.make()(logits, y.to(dtype)), self.make()(logits, y), f"the loss of {dtype} labels")

    @Rule("Use reshape instead of view.")
    def non_contiguous_logits(self) -> None:
        logits, y = self.batch()
        transposed = logits.detach().t().contiguous().t().requires_grad_()
        expected = value_and_gradient(self.make(), logits, y)
        _expect_same("a transposed tensor", value_and_gradient(self.make(), transposed, y), expected)

    # Dense outputs, in the shapes of nn.CrossEntropyLoss, and ignored samples

    @Rule(DENSE)
    def dense_outputs(self) -> None:
        for shape in SHAPES:
            logits, y = self.batch(*shape)
            sample_weight = torch.linspace(0.1, 2.0, y.numel(), dtype=torch.float64).view(y.shape)
            rows, soft = as_rows(logits.detach()).requires_grad_(), _distributions(logits.detach())
            for weight in (None, self.weight):
                module = self.make(weight=weight)
                value, gradient = value_and_gradient(module, logits, y, sample_weight=sample_weight)
                expected = value_and_gradient(module, rows, y.flatten(), sample_weight=sample_weight.flatten())
                _expect_same(f"labels of shape {shape}", (value, as_rows(gradient)), expected)
                if self.soft:
                    value, gradient = value_and_gradient(module, logits, soft)
                    expected = value_and_gradient(module, rows, as_rows(soft))
                    _expect_same(f"distributions of shape {shape}", (value, as_rows(gradient)), expected)

    @Rule(DENSE, attrgetter("per_sample"))
    def shape_of_values(self) -> None:
        for shape in ((16,), (2, 3, 4)):
            logits, y = self.batch(*shape)
            values = self.make(reduction="none")(logits, y)
            expect(values.shape == y.shape, f"the values have shape {tuple(values.shape)}, expected {shape}")
            expect_close(self.make()(logits, y), values.mean(), "the mean")
            upstream = torch.rand(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
            (gradient,) = torch.autograd.grad(values, logits, upstream)
            _, expected = value_and_gradient(self.make(reduction="sum"), logits, y, sample_weight=upstream)
            expect_close(gradient, expected, "the gradient of weighted values")
        logits, y = self.batch(1)
        for reduction in REDUCTIONS:
            module = self.make(reduction=reduction)
            expect_close(
                module(logits[0], y[0]), module(logits, y).reshape(()), f"the {reduction} of an unbatched sample"
            )

    @Rule(BASE + " A mean is divided by orcu.kernels.terms.total_weight, which is 1 where all weights are 0.")
    def ignored_samples(self) -> None:
        for label in (-100, 255, self.num_classes - 1):
            logits, y = self.batch(2, 3, 4)
            y.view(-1)[:5] = label
            ignored = y == label
            with torch.no_grad():
                logits[ignored.unsqueeze(1).expand_as(logits)] = torch.nan
            value, gradient = value_and_gradient(self.make(ignore_index=label, weight=self.weight), logits, y)
            used = ~ignored.flatten()
            rows = as_rows(logits.detach())[used].requires_grad_()
            expected = value_and_gradient(self.make(weight=self.weight), rows, y.flatten()[used])
            _expect_same(f"samples with ignore_index={label}", (value, as_rows(gradient)[used]), expected)
            zeros = torch.zeros(int((~used).sum()), self.num_classes)
            expect_close(as_rows(gradient)[~used], zeros, "the gradient of an ignored sample", atol=0)
        if self.per_sample:
            logits, y = self.batch()
            y[:5] = -100
            values = self.make(reduction="none")(logits, y)
            expect_close(values[:5], torch.zeros(5), "the value of an ignored sample", atol=0)
            expect_close(self.make()(logits, y), values.sum() / 11, "the mean over the other samples")
        logits, y = self.batch(2, 3, 4)
        actual = value_and_gradient(self.make(), logits, torch.full_like(y, -100))
        _expect_same("ignored samples only", actual, (0.0, torch.zeros_like(logits)), atol=0)

    # Module

    @Rule("Define the class at module level, with attributes that can be pickled.")
    def copy_and_pickle(self) -> None:
        logits, y = self.batch()
        module = self.make(weight=self.weight)
        value = module(logits, y)
        for name, clone in (("copy", copy.deepcopy(module)), ("pickle", pickle.loads(pickle.dumps(module)))):  # noqa: S301
            expect_close(clone(logits, y), value, f"the loss of the {name}")

    @Rule("Register constant tables with add_table, which stores them in float64 and not in the checkpoint.")
    def constant_tables(self) -> None:
        logits, y = self.batch()
        weight = [1.1 + k for k in range(self.num_classes)]
        module, rounded = self.make(weight=weight), self.make(weight=weight).half().float()
        expect_close(rounded(logits, y), module(logits, y), "the loss after .half().float()", rtol=0, atol=0)
        moved = module.to("meta")
        devices = {buffer.device.type for buffer in moved.buffers()}
        expect(devices == {"meta"}, f"after .to('meta') there are tables on {', '.join(sorted(devices))}")
        expect(moved.state_dict() == {}, f"state_dict has the keys {', '.join(moved.state_dict())}, expected none")

    # Errors and card

    @Rule(BASE)
    def invalid_inputs(self) -> None:
        c = self.num_classes
        cases: list[tuple[dict[str, Any], str]] = [
            ({"y": torch.tensor([0, c])}, f"^y: row 1 has label {c}, expected 0..{c - 1} "),
            ({"y": torch.tensor([-1, 0])}, "^y: row 0 has label -1"),
            ({"y": torch.tensor([0.0, 1.0])}, r"^y: .* float32 of shape \(2,\)"),
            ({"y": torch.tensor([True, False])}, "^y: .* bool"),
            ({"y": [0, 1]}, "^y: .* list"),
            ({"y": torch.tensor([[0], [1]])}, r"^y: .*\(2,\).* int64 of shape \(2, 1\)"),
            ({"y": torch.tensor([0, 1, 0])}, r"^y: .*\(2,\).* int64 of shape \(3,\)"),
            ({"logits": torch.zeros(2, c - 1)}, "^logits: .*" + re.escape(f"(2, {c - 1})")),
            ({"logits": torch.zeros(2, c, 1)}, r"^y: .*\(2, 1\).* int64 of shape \(2,\)"),
            ({"logits": torch.tensor(0.0)}, r"^logits: .*\(\)"),
            ({"logits": torch.zeros(2, c + 1, c)}, "^logits: .*" + re.escape(f"(2, {c + 1}, {c})")),
            ({"logits": torch.zeros(2, c, dtype=torch.int64)}, "^logits: .*floating-point.* int64"),
            ({"logits": torch.zeros(0, c), "y": torch.zeros(0).long()}, "^logits: .*empty"),
            ({"sample_weight": torch.ones(3)}, r"^sample_weight: .*\(2,\).*\(3,\)"),
            ({"sample_weight": [1.0, 1.0]}, "^sample_weight: .* list"),
            ({"sample_weight": torch.tensor([1.0, -1.0])}, "^sample_weight: .* -1 "),
            ({"sample_weight": torch.zeros(2)}, "^sample_weight: .*not all 0"),
            ({"sample_weight": torch.tensor([1.0, torch.nan])}, "^sample_weight: .*nan"),
        ]
        if self.soft:
            rest = [0.0] * (c - 2)
            cases += [
                ({"y": torch.tensor([[0.5, 0.5, *rest], [0.5, 0.6, *rest]])}, r"^y: row 1 is \[0.5, 0.6"),
                ({"y": torch.tensor([[1.5, -0.5, *rest], [1.0, 0.0, *rest]])}, "^y: row 0 is"),
                ({"y": torch.tensor([[1.0, 0.0, *rest], [torch.nan, 1.0, *rest]])}, "^y: row 1 is"),
                ({"y": torch.tensor([[0.5, 0.5, *rest, 0.0]] * 2)}, rf"^y: .*\(2, {c}\).*\(2, {c + 1}\)"),
            ]
        for change, match in cases:
            call = partial(self.make(), **({"logits": torch.zeros(2, c), "y": torch.tensor([0, 1])} | change))
            (name, value), *_ = change.items()
            expect_error(call, match, f"{name} {value!r}")

    @Rule(BASE)
    def invalid_options(self) -> None:
        c = self.num_classes
        cases: list[tuple[dict[str, Any], str]] = [
            ({"num_classes": 1}, "^num_classes: .* 2, got 1"),
            ({"num_classes": 5.0}, "^num_classes: "),
            ({"reduction": "avg"}, "reduction 'avg'.* mean, sum, none"),
            ({"weight": [1.0] * (c + 1)}, rf"^weight: .*\({c},\).*\({c + 1},\)"),
            ({"weight": [1.0, -1.0, *[1.0] * (c - 2)]}, "^weight: class 1 has -1.0"),
            ({"weight": [0.0] * c}, "^weight: all are 0"),
        ]
        for options, match in cases:
            expect_error(partial(self.make, **options), match, f"the option {options}")

    @Rule(
        "Use @register_loss(LossCard(...)); the docstring of the class describes all options and has an example.",
        lambda contract: contract.registered is not None,
    )
    def card(self) -> None:
        card: Any = getattr(self.registered, "card", None)
        expect(card is not None, "the class has no card")
        registered = [registry.get(card.name) for registry in (LOSSES, REGULARIZERS) if card.name in registry.names()]
        expect(
            self.registered in registered,
            f"the card's name {card.name!r} is not registered, or registered for another loss",
        )
        expect(card.family in FAMILIES, f"the family is {card.family!r}, expected one of {', '.join(sorted(FAMILIES))}")
        empty = [name for name in ("name", "title", "family", "paper", "formula") if not getattr(card, name)]
        expect(not empty, f"the card has no {', '.join(empty)}")
        text = self.registered.__doc__ or ""
        missing = [option for option in card.defaults if option not in text]
        expect(not missing, f"the docstring does not describe {', '.join(missing)}")
        expect(">>>" in text, "the docstring has no example (>>>)")
