"""RPS, EMD and weighted kappa compared with loops over samples and classes, and with the metrics."""

import numpy as np
import pytest
import torch
from sklearn.metrics import cohen_kappa_score

from orcu import losses, metrics
from orcu.errors import InputError

CLASSES = 6
STEP = 1e-30  # of the complex-step derivative, which has no cancellation


def batch(rows=9, seed=0):
    rng = np.random.default_rng(seed)
    return 2 * rng.normal(size=(rows, CLASSES)), rng.integers(CLASSES, size=rows), rng.uniform(0.1, 2.0, size=rows)


def softmax(row):
    exps = [np.exp(value) for value in row]
    return [value / sum(exps) for value in exps]


def rps_loop(logits, labels, weights):
    total = 0.0
    for row, y, weight in zip(logits, labels, weights, strict=True):
        probs = softmax(row)
        for k in range(CLASSES - 1):
            total += weight * (sum(probs[: k + 1]) - (y <= k)) ** 2
    return total / sum(weights)


def emd_loop(logits, labels, weights):
    total = 0.0
    for row, y, weight in zip(logits, labels, weights, strict=True):
        probs = softmax(row)
        for k in range(CLASSES - 1):
            error = sum(probs[: k + 1]) - (y <= k)
            total += weight * (error if error.real > 0 else -error)  # |error|, also of a complex number
    return total / sum(weights)


def wk_loop(logits, labels, weights):
    table = [[0.0] * CLASSES for _ in range(CLASSES)]
    for row, y, weight in zip(logits, labels, weights, strict=True):
        for k, prob in enumerate(softmax(row)):
            table[y][k] += weight * prob
    observed = expected = 0.0
    for i in range(CLASSES):
        for k in range(CLASSES):
            column = sum(row[k] for row in table)
            observed += (i - k) ** 2 * table[i][k]
            expected += (i - k) ** 2 * sum(table[i]) * column / sum(weights)
    return observed / expected


LOOPS = {"rps": rps_loop, "emd": emd_loop, "wk": wk_loop}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("rows", [2, 9])
def test_loss_value_and_gradient_equal_a_loop(name, rows):
    z, y, weight = batch(rows)
    logits = torch.from_numpy(z).requires_grad_()
    value = losses.create(name, num_classes=CLASSES)(
        logits, torch.from_numpy(y), sample_weight=torch.from_numpy(weight)
    )
    (gradient,) = torch.autograd.grad(value, logits)
    assert value.item() == pytest.approx(LOOPS[name](z, y, weight), abs=1e-10)
    for index in np.ndindex(z.shape):
        moved = z.astype(complex)
        moved[index] += STEP * 1j
        assert gradient[index].item() == pytest.approx(LOOPS[name](moved, y, weight).imag / STEP, abs=1e-10)


def test_rps_equals_the_metric_for_labels_and_one_row_per_label():
    z, y, weight = batch()
    probs = torch.from_numpy(z).softmax(1).numpy()
    loss = losses.create("rps", num_classes=CLASSES)
    value = loss(torch.from_numpy(z), torch.from_numpy(y), sample_weight=torch.from_numpy(weight)).item()
    assert value == pytest.approx(metrics.rps(probs, y, sample_weight=weight), abs=1e-12)


def test_rps_of_a_distribution_is_the_squared_earth_movers_distance_and_a_constant():
    z, _, _ = batch()
    target = np.random.default_rng(1).dirichlet(np.ones(CLASSES), size=len(z))
    logits = torch.from_numpy(z).requires_grad_()
    value = losses.create("rps", num_classes=CLASSES, reduction="none")(logits, torch.from_numpy(target))
    observed = target.cumsum(1)[:, :-1]
    predicted = torch.softmax(logits, 1).cumsum(1)[:, :-1]
    squared = ((predicted - torch.from_numpy(observed)) ** 2).sum(1)
    constant = (observed * (1 - observed)).sum(1)
    np.testing.assert_allclose(value.detach(), squared.detach().numpy() + constant, atol=1e-12)
    gradients = [torch.autograd.grad(loss.sum(), logits)[0] for loss in (value, squared)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)
    at_target = losses.create("rps", num_classes=CLASSES)(
        torch.from_numpy(target).log().requires_grad_(), torch.from_numpy(target)
    )
    assert at_target.item() == pytest.approx(constant.mean(), abs=1e-12)  # lowest where p is the label distribution


def test_emd_equals_the_expected_absolute_error_and_has_a_gradient_where_all_errors_are_zero():
    z, y, _ = batch()
    probs = torch.from_numpy(z).softmax(1).numpy()
    expected = (probs * np.abs(np.arange(CLASSES) - y[:, None])).sum(1).mean()
    loss = losses.create("emd", num_classes=CLASSES)
    assert loss(torch.from_numpy(z), torch.from_numpy(y)).item() == pytest.approx(expected, abs=1e-12)
    logits = torch.full((1, CLASSES), -40.0, dtype=torch.float64)  # F_k - 1[y <= k] rounds to 0 for every k
    logits[0, 2] = 0.0
    logits.requires_grad_()
    (gradient,) = torch.autograd.grad(loss(logits, torch.tensor([2])), logits)
    assert gradient[0, 5].item() == pytest.approx(3 * np.exp(-40), rel=1e-9)


def test_wk_of_certain_predictions_equals_one_minus_kappa():
    rng = np.random.default_rng(2)
    y, predicted = rng.integers(CLASSES, size=(2, 50))
    logits = torch.nn.functional.one_hot(torch.from_numpy(predicted), CLASSES).double() * 1e4
    value = losses.create("wk", num_classes=CLASSES)(logits, torch.from_numpy(y)).item()
    assert value == pytest.approx(1 - cohen_kappa_score(y, predicted, weights="quadratic"), abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0.0, 1.0, 30.0, 1e4])
def test_wk_of_a_batch_of_one_class_is_one_without_gradient(dtype, size):
    logits = torch.zeros(4, CLASSES, dtype=dtype)
    logits[:, 2] = size
    logits.requires_grad_()
    value = losses.create("wk", num_classes=CLASSES)(logits, torch.full((4,), 2))
    (gradient,) = torch.autograd.grad(value, logits)
    assert value.item() == pytest.approx(1, abs=1e-6)
    assert gradient.abs().max().item() < 1e-6


def test_wk_without_reduction_raises():
    with pytest.raises(InputError, match="statistic of the whole batch"):
        losses.create("wk", num_classes=CLASSES, reduction="none")


@pytest.mark.parametrize("name", ["rps", "emd"])
def test_bounded_losses_have_their_largest_value_where_the_opposite_class_is_certain(name):
    """The gradient vanishes there, which the card says."""
    logits = torch.zeros(1, CLASSES)
    logits[0, -1] = 1e4
    logits.requires_grad_()
    value = losses.create(name, num_classes=CLASSES)(logits, torch.tensor([0]))
    assert value.item() == CLASSES - 1
    assert torch.autograd.grad(value, logits)[0].abs().max().item() == 0
