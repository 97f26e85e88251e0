"""Heads: the contract of all heads, and their distributions compared with loops, coral-pytorch and dlordinal."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from coral_pytorch.layers import CoralLayer
from dlordinal.output_layers import CLM, COPOC, StickBreakingLayer
from safetensors.torch import load, save
from scipy.stats import norm

from orcu import losses, metrics
from orcu.errors import InputError, UnknownNameError
from orcu.kernels import cumulative
from orcu.models.heads import (
    HEADS,
    LINKS,
    LOGIT_HEADS,
    CoralHead,
    CornHead,
    CumulativeHead,
    StickBreakingHead,
    UnimodalHead,
    UnimodalNetHead,
)

NORMALISED = [name for name in LOGIT_HEADS if name not in ("linear", "unimodal")]
UNIMODAL = ["unimodal", "unimodalnet"]
WITH_THRESHOLDS = [name for name in LOGIT_HEADS if name.startswith("cumulative") or name == "coral"]
every_head = pytest.mark.parametrize("name", LOGIT_HEADS)


def make_head(name, width=3, num_classes=5, dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    return HEADS[name](width, num_classes).to(dtype)


def features(rows=40, width=3, dtype=torch.float32, scale=1.0):
    return scale * torch.randn(rows, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


# Contract of all heads


@pytest.mark.parametrize("num_classes", [2, 3, 9])
@pytest.mark.parametrize("name", NORMALISED)
def test_head_outputs_are_log_probabilities(name, num_classes):
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        for rows, scale in ((40, 1.0), (40, 30.0), (1, 1.0)):
            output = make_head(name, num_classes=num_classes, dtype=dtype)(features(rows, dtype=dtype, scale=scale))
            assert output.shape == (rows, num_classes)
            assert output.dtype == dtype
            torch.testing.assert_close(output.exp().sum(1), torch.ones(rows, dtype=dtype), rtol=0, atol=tolerance)


@every_head
@pytest.mark.parametrize("loss", ["ce", "orcu", "coral", "corn"])
def test_head_with_extreme_features_has_finite_losses_and_gradients(name, loss):
    for dtype in (torch.float32, torch.float64):
        for sign in (-1e4, 1e4):
            head = make_head(name, dtype=dtype)
            x = torch.full((5, 3), sign, dtype=dtype, requires_grad=True)
            output = head(x)
            value = losses.create(loss, num_classes=5)(output, torch.arange(5))
            gradients = torch.autograd.grad(value, [x, *head.parameters()])
            assert torch.isfinite(output).all()
            assert torch.isfinite(value)
            assert all(torch.isfinite(gradient).all() for gradient in gradients)


@every_head
def test_head_gradient_equals_finite_differences(name):
    head = make_head(name, dtype=torch.float64)
    names = [key for key, _ in head.named_parameters()]

    def output(x, *parameters):
        return torch.func.functional_call(head, dict(zip(names, parameters, strict=True)), (x,))

    x = features(3, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(output, (x, *head.parameters()))


@every_head
def test_head_state_is_restored_from_a_file(name):
    head, other = make_head(name), make_head(name, seed=1)
    x = features()
    assert not torch.equal(head(x), other(x))
    other.load_state_dict(load(save(dict(head.state_dict()))))
    assert torch.equal(head(x), other(x))


@every_head
def test_head_under_autocast_and_in_half_precision_is_close_to_float32(name):
    head, x = make_head(name), features()
    expected = head(x).softmax(1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = head(x)
        value = losses.create("ce", num_classes=5)(output, torch.arange(40) % 5)
    value.backward()
    assert value.dtype == torch.float32
    torch.testing.assert_close(output.float().softmax(1), expected, rtol=0, atol=0.02)
    half = make_head(name, dtype=torch.bfloat16)(x.bfloat16())
    assert half.dtype == (torch.float32 if name in NORMALISED else torch.bfloat16)
    torch.testing.assert_close(half.float().softmax(1), expected, rtol=0, atol=0.05)


@pytest.mark.parametrize("name", UNIMODAL)
def test_unimodal_head_is_unimodal_for_all_features(name):
    for scale in (0.1, 10.0, 1e4):
        output = make_head(name, num_classes=7)(features(500, scale=scale))
        assert metrics.unimodality(output.softmax(1).detach().numpy()) == 1


@pytest.mark.parametrize("name", WITH_THRESHOLDS)
def test_cumulative_head_thresholds_stay_ordered_and_probabilities_follow_them(name):
    head, x = make_head(name), features()
    generator = torch.Generator().manual_seed(2)
    for _ in range(20):
        with torch.no_grad():
            head.first_threshold.copy_(3 * torch.randn(1, generator=generator))
            head.steps.copy_(5 * torch.randn(3, generator=generator))
        assert (head.thresholds.diff() > 0).all()
        below = head(x).exp().cumsum(1)[:, :-1]
        assert (below.diff(dim=1) > -1e-6).all()
        thresholds = head.thresholds.detach().double()
        for k in range(4):  # P(y <= k) increases in threshold k, and no other cumulative probability changes
            moved = thresholds.clone()
            moved[k] += 0.5 * (moved[k + 1] - moved[k]) if k < 3 else 1.0
            other = make_head(name)
            other.set_thresholds(moved)
            change = other(x).exp().cumsum(1)[:, :-1] - below
            assert (change[:, k] > -1e-6).all()
            assert change[:, [j for j in range(4) if j != k]].abs().max() < 1e-5


@pytest.mark.parametrize("name", NORMALISED)
def test_head_learns_every_class_of_an_ordered_table(name):
    head = make_head(name, width=1)
    x = torch.linspace(-2, 2, 200)[:, None]
    y = torch.clamp(((x[:, 0] + 2) * 5 / 4).long(), max=4)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.1)
    for _ in range(300):
        optimizer.zero_grad()
        F.nll_loss(head(x), y).backward()
        optimizer.step()
    assert metrics.accuracy(head(x).exp().detach().numpy(), y.numpy()) > 0.9


def test_head_with_invalid_arguments_raises():
    for name in LOGIT_HEADS[1:]:
        with pytest.raises(InputError, match="^in_features: "):
            HEADS[name](0, 3)
        with pytest.raises(InputError, match="^num_classes: .* 2, got 1"):
            HEADS[name](3, 1)
    with pytest.raises(UnknownNameError, match=r"link 'logits'.*'logit'"):
        CumulativeHead(3, 4, link="logits")


# Cumulative link models and CORAL


def cumulative_head(link, thresholds, dtype=torch.float64):
    head = CumulativeHead(1, len(thresholds) + 1, link=link).to(dtype)
    head.set_thresholds(torch.tensor(thresholds, dtype=torch.float64))
    torch.nn.init.ones_(head.score.weight)
    return head


def test_cumulative_head_equals_the_proportional_odds_kernel():
    thresholds, scores = np.array([-1.5, -0.2, 0.1, 3.0]), np.linspace(-50, 50, 41)
    head = cumulative_head("logit", thresholds.tolist())
    expected = cumulative.log_probs(scores, thresholds)
    output = head(torch.from_numpy(scores)[:, None]).detach().numpy()
    assert output == pytest.approx(expected, rel=1e-6)  # parameters are set in float32


@pytest.mark.parametrize("link", LINKS)
def test_cumulative_head_equals_differences_of_the_distribution_function(link):
    functions = {
        "logit": lambda t: 1 / (1 + np.exp(-t)),
        "probit": norm.cdf,
        "cloglog": lambda t: -np.expm1(-np.exp(t)),
    }
    scores = np.linspace(-3, 3, 13)
    head = cumulative_head(link, [-1.0, 0.5, 0.75])
    inner = functions[link](head.thresholds.detach().numpy() - scores[:, None])
    padded = np.concatenate([np.zeros((13, 1)), inner, np.ones((13, 1))], axis=1)
    output = head(torch.from_numpy(scores)[:, None]).exp().detach().numpy()
    assert output == pytest.approx(np.diff(padded, axis=1), rel=1e-9)


@pytest.mark.parametrize("gap", [1e-8, 1e-5, 1e-3, 1.0, 10.0])
@pytest.mark.parametrize("link", LINKS)
def test_cumulative_head_tails_and_narrow_classes_equal_many_digits(link, gap):
    mpmath = pytest.importorskip("mpmath")
    head = cumulative_head(link, [-gap, 0.0, gap])
    functions = {
        "logit": lambda t: 1 / (1 + mpmath.exp(-t)),
        "probit": mpmath.ncdf,
        "cloglog": lambda t: 1 - mpmath.exp(-mpmath.exp(t)),
    }
    with mpmath.workdps(60):
        thresholds = [mpmath.mpf(t) for t in head.thresholds.tolist()]
        for score in (-20.0, -5.0, -0.5, 0.0, 2.0, 20.0):
            below = [mpmath.mpf(0), *(functions[link](t - score) for t in thresholds), mpmath.mpf(1)]
            output = head(torch.tensor([[score]], dtype=torch.float64))[0].tolist()
            for k, value in enumerate(output):
                exact = below[k + 1] - below[k]
                if exact > mpmath.mpf(10) ** -50:
                    assert value == pytest.approx(float(mpmath.log(exact)), rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("link", LINKS)
def test_cumulative_head_equals_dlordinal_clm_where_it_does_not_underflow(link):
    clm = CLM(5, link)
    with torch.no_grad():
        clm.thresholds_b_.fill_(-1.0)
        clm.thresholds_a_.copy_(torch.tensor([0.5, 1.0, 1.5]))
    head = cumulative_head(link, [-1.0, -0.75, 0.25, 2.5], dtype=torch.float32)
    x = torch.linspace(-3, 3, 20)[:, None]
    torch.testing.assert_close(head(x).exp(), clm(x), rtol=1e-5, atol=1e-6)
    far = torch.tensor([[-40.0]])  # dlordinal subtracts probabilities close to 1: the logarithm of 0 is -inf
    assert torch.isinf(clm(far)[0, 1:].log()).all()
    assert torch.isfinite(head(far)).all()


def test_coral_head_equals_coral_pytorch_with_decreasing_biases():
    layer, head = CoralLayer(3, 5), CoralHead(3, 5)
    head.score.weight = layer.coral_weights.weight
    x = features()
    above = torch.sigmoid(layer(x))  # P(y > k) at the first biases
    torch.testing.assert_close(1 - head(x).exp().cumsum(1)[:, :-1], above, rtol=1e-5, atol=1e-6)
    # Biases that increase, which a step of coral-pytorch may produce, give a negative probability there.
    with torch.no_grad():
        layer.coral_bias.copy_(torch.tensor([0.0, 1.0, -1.0, -2.0]))
    above = torch.sigmoid(layer(x))
    assert (above[:, 0] - above[:, 1] < 0).all()


def test_corn_head_equals_coral_pytorch_and_a_loop():
    head, x = make_head("corn", dtype=torch.float64), features(dtype=torch.float64)
    conditional = torch.sigmoid(head.conditional(x))
    above = torch.cumprod(conditional, dim=1)  # as in coral_pytorch.dataset.corn_label_from_logits
    probs = head(x).exp()
    torch.testing.assert_close(1 - probs.cumsum(1)[:, :-1], above)
    for k in range(5):
        expected = torch.stack([conditional[:, j] for j in range(k)], 0).prod(0) if k else torch.ones(len(x)).double()
        torch.testing.assert_close(probs[:, k], expected * (1 - conditional[:, k] if k < 4 else 1))


def test_stick_breaking_head_is_corn_with_negated_logits_and_starts_uniform():
    corn, stick = make_head("corn"), StickBreakingHead(3, 5)
    with torch.no_grad():
        stick.conditional.weight.copy_(-corn.conditional.weight)
        stick.conditional.bias.copy_(-corn.conditional.bias)
    torch.testing.assert_close(stick(features()), corn(features()))
    torch.testing.assert_close(StickBreakingHead(3, 5)(torch.zeros(1, 3)).exp(), torch.full((1, 5), 0.2))


def test_stick_breaking_head_is_normalised_where_dlordinal_is_not():
    """dlordinal multiplies class k by its own rest 1 - s_k too, clamps s to [0.1, 0.9], and has a share of the last."""
    layer, head = StickBreakingLayer(3, 5), StickBreakingHead(3, 5)
    with torch.no_grad():
        head.conditional.weight.copy_(layer.fcn1.weight[:4])
        head.conditional.bias.copy_(layer.fcn1.bias[:4])
    x = features()
    share = torch.sigmoid(layer.fcn1(x)).clamp(0.1, 0.9)
    inside = (share == torch.sigmoid(layer.fcn1(x))).all(1)
    assert inside.any()
    theirs = layer(x).exp()
    assert (theirs.sum(1) < 0.9).all()
    torch.testing.assert_close(head(x).exp()[inside, :4], (theirs / (1 - share))[inside, :4], rtol=1e-4, atol=1e-6)


# Unimodal heads


def test_unimodalnet_head_equals_a_loop():
    head, x = make_head("unimodalnet", dtype=torch.float64), features(dtype=torch.float64)
    steps = F.softplus(head.steps(x))
    for row, probs in zip(steps, head(x).exp(), strict=True):
        logits = torch.stack([min(row[: k + 1].sum(), row[k:].sum()) for k in range(5)])
        torch.testing.assert_close(probs, logits.softmax(0))
    assert isinstance(head, UnimodalNetHead)


def test_unimodal_head_equals_copoc_of_dlordinal_with_softplus_steps():
    head, x = UnimodalHead(3, 5), features()
    torch.testing.assert_close(head(x), COPOC(phi=F.softplus)(head.steps(x)))


def test_corn_head_cumulative_probabilities_decrease():
    above = 1 - CornHead(3, 6)(features(scale=5.0)).exp().cumsum(1)
    assert (above.diff(dim=1) < 1e-6).all()
