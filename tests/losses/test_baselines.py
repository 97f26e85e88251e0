"""Baseline losses compared with loops and with dlordinal, and regressions of earlier bugs."""

import math

import pytest
import torch
import torch.nn.functional as F

from orcu import losses
from orcu.errors import InputError


def batch(n=12, c=6, *, scale=2.0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    z = scale * torch.randn(n, c, generator=generator, dtype=torch.float64)
    return z.to(dtype), torch.randint(c, (n,), generator=generator)


def softmax(row):
    e = [math.exp(v - max(row)) for v in row]
    return [v / sum(e) for v in e]


def loop_mean(per_sample, z, y):
    return sum(per_sample(row, label) for row, label in zip(z.tolist(), y.tolist(), strict=True)) / len(y)


def cdw(row, label, alpha=5, margin=0.0):
    p = softmax(row)
    return -sum(abs(k - label) ** alpha * math.log(min(1, 1 - p[k] + margin)) for k in range(len(p)))


def co2(row, label, strength=0.01, omega=0.05):
    p = softmax(row)
    term = 0.0
    for k in range(len(p) - 1):
        term += max(0, omega + (p[k + 1] - p[k] if k >= label else p[k] - p[k + 1]))
    return -math.log(p[label]) + strength * term


def smoothed(row, label, alpha=0.05):
    p = softmax(row)
    return -sum(((k == label) * (1 - alpha) + alpha / len(p)) * math.log(p[k]) for k in range(len(p)))


def flsd(row, label):
    p = softmax(row)[label]
    return -((1 - p) ** (5 if p < 0.2 else 3)) * math.log(p)


def mbls(row, label, margin=1.0, strength=0.1):
    hinge = sum(max(0, max(row) - v - margin) for v in row) / len(row)
    return -math.log(softmax(row)[label]) + strength * hinge


def acls(row, label, margin=1.0, strength=0.1):
    top = max(row)
    above = max(0, top - margin) ** 2
    below = sum(max(0, top - v - margin) ** 2 for v in row if v != top) / (len(row) - 1)
    return -math.log(softmax(row)[label]) + strength * (above + 0.1 * below)


@pytest.mark.parametrize(
    ("spec", "loop"),
    [
        ("cdw_ce", cdw),
        ({"name": "cdw_ce", "alpha": 2, "margin": 0.05}, lambda r, y: cdw(r, y, 2, 0.05)),
        ("co2", co2),
        ("ls", smoothed),
        ("flsd", flsd),
        ({"name": "mbls", "margin": 1.0}, mbls),
        ({"name": "acls", "margin": 1.0}, acls),
    ],
    ids=["cdw_ce", "cdw_ce margin", "co2", "ls", "flsd", "mbls", "acls"],
)
def test_baseline_equals_loop(spec, loop):
    z, y = batch()
    value = losses.create(spec, num_classes=6)(z, y)
    assert value.item() == pytest.approx(loop_mean(loop, z, y), rel=1e-10)


def test_mdca_equals_loop():
    z, y = batch()
    probs = [softmax(row) for row in z.tolist()]
    gaps = [abs(sum(p[k] for p in probs) / len(probs) - (y == k).double().mean().item()) for k in range(6)]
    expected = F.cross_entropy(z, y).item() + sum(gaps) / 6
    assert losses.create("mdca", num_classes=6)(z, y).item() == pytest.approx(expected)


def test_mdca_weights_both_means():
    z, y = batch(n=4)
    weight = torch.tensor([2.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    repeated = torch.cat([z[:1], z[:3]]), torch.cat([y[:1], y[:3]])
    penalty = losses.regularizers.create("mdca", num_classes=6)
    torch.testing.assert_close(penalty(z, y, sample_weight=weight), penalty(*repeated))


def test_ls_equals_torch_label_smoothing():
    z, y = batch()
    for alpha in (0.0, 0.05, 0.3):
        value = losses.create("ls", num_classes=6, alpha=alpha)(z, y)
        torch.testing.assert_close(value, F.cross_entropy(z, y, label_smoothing=alpha))
    spared = losses.create("ls", num_classes=6, alpha=0.05, over="K-1")(z, y)
    torch.testing.assert_close(spared, F.cross_entropy(z, y, label_smoothing=0.05 * 6 / 5))


def test_acls_second_part_has_no_gradient_in_the_top_logit():
    z = torch.tensor([[5.0, 0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    value = losses.regularizers.create("acls", num_classes=3, margin=2.0)(z, torch.tensor([0]))
    (gradient,) = torch.autograd.grad(value, z)
    # above: 2 (5 - 2); below: -2 neg/(C-1) (5 - z_k - 2)
    expected = torch.tensor([[6.0, -0.1 * 3.0, -0.1 * 2.0]], dtype=torch.float64)
    torch.testing.assert_close(gradient, expected)


def test_acls_paper_form_is_shift_invariant_and_released_form_is_not():
    z, y = batch(scale=8.0)
    released = losses.create("acls", num_classes=6, margin=1.0)
    paper = losses.create("acls", num_classes=6, margin=1.0, form="paper")
    assert abs(released(z + 5, y) - released(z, y)) > 1
    torch.testing.assert_close(paper(z + 5, y), paper(z, y))


def test_flsd_tie_at_the_threshold_is_the_same_in_all_precisions():
    y = torch.tensor([4])
    values = [
        losses.create("flsd", num_classes=5)(torch.zeros(1, 5, dtype=dtype), y).item()
        for dtype in (torch.float64, torch.float32, torch.bfloat16)
    ]
    expected = -(0.8**3) * math.log(0.2)  # the exponent 3: 0.2 is not below the threshold
    assert values == pytest.approx([expected] * 3, rel=1e-6)


def test_cdw_ce_gradient_of_a_certain_wrong_class_is_exact():
    z = torch.tensor([[0.0, 0.0, 0.0, 0.0, 1e4]], requires_grad=True)
    value = losses.create("cdw_ce", num_classes=5, alpha=5)(z, torch.tensor([0]))
    (gradient,) = torch.autograd.grad(value, z)
    assert value.item() == pytest.approx(1024 * (1e4 - math.log(4)), rel=1e-5)
    torch.testing.assert_close(gradient, torch.tensor([[-256.0, -256, -256, -256, 1024]]))


def test_co2_margin_is_directed_away_from_the_label():
    term = losses.create("co2", num_classes=3).regularizer
    ordered = torch.tensor([[0.0, 5.0, 0.0]], dtype=torch.float64)
    assert term(ordered, torch.tensor([1])).item() == 0
    assert term(ordered, torch.tensor([0])).item() > 0.9


dlordinal = pytest.importorskip("dlordinal.losses", reason="dlordinal is not installed")


@pytest.mark.parametrize("alpha", [0.5, 2.0, 5.0])
def test_cdw_ce_equals_dlordinal_for_small_logits(alpha):
    z, y = batch(dtype=torch.float64)
    reference = dlordinal.CDWCELoss(num_classes=6, alpha=alpha)(z, y)
    value = losses.create("cdw_ce", num_classes=6, alpha=alpha)(z, y)
    torch.testing.assert_close(value.float(), reference.float(), rtol=1e-5, atol=1e-5)


def test_cdw_ce_is_finite_where_dlordinal_is_nan():
    z, y = torch.tensor([[0.0, 0.0, 100.0]]), torch.tensor([0])
    assert torch.isnan(dlordinal.CDWCELoss(num_classes=3, alpha=5.0)(z, y))
    assert losses.create("cdw_ce", num_classes=3)(z, y).item() == pytest.approx(32 * (100 - math.log(2)), rel=1e-5)


def test_sord_with_absolute_distance_equals_dlordinal():
    z, y = batch()
    reference = dlordinal.SORDLoss(num_classes=6, train_targets=y, alpha=1.0)(z, y)
    absolute = losses.create("sord", num_classes=6, distance="absolute")(z, y)
    squared = losses.create("sord", num_classes=6)(z, y)
    torch.testing.assert_close(absolute.float(), reference.float(), rtol=1e-5, atol=1e-5)
    assert abs(squared - reference) > 0.05


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"name": "ls", "alpha": 1.0}, "^alpha: .* 1.0"),
        ({"name": "ls", "over": "C"}, "'C'.* K, K-1"),
        ({"name": "flsd", "threshold": 0}, "^threshold:"),
        ({"name": "cdw_ce", "alpha": -1}, "^alpha:"),
        ({"name": "cdw_ce", "margin": 1.0}, "^margin:"),
        ({"name": "co2", "omega": 0}, "^omega:"),
        ({"name": "flsd", "gamma": 0.5}, "^gamma: .* 0.5"),
        ({"name": "ls", "alpha": "0.1"}, "^alpha: .* '0.1'"),
        ({"name": "poe", "kl": "x"}, "^kl:"),
        ({"name": "ce", "weight": "abc"}, "^weight: .* 'abc'"),
        ({"name": "mbls", "margin": float("nan")}, "^margin:"),
        ({"name": "mdca", "base": "mse"}, "base of mdca 'mse'"),
        ({"name": "mdca", "beta": 0}, "^strength:"),
        ({"name": "acls", "form": "papr"}, "'papr'.*'paper'"),
        ({"name": "poe", "margin": -1}, "^margin:"),
        ({"name": "poe", "distance": "helinger"}, "'helinger'.*'hellinger'"),
    ],
    ids=str,
)
def test_create_invalid_option_raises(spec, message):
    with pytest.raises(InputError, match=message):
        losses.create(spec, num_classes=5)
