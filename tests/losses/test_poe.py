"""POE: head, loss compared with reference values and a loop, errors."""

import copy

import pytest
import torch

from orcu import losses
from orcu.errors import InputError
from orcu.losses.poe import DISTANCES, POELoss, POEOutput
from orcu.models import heads
from orcu.models.heads import POEHead


@pytest.fixture
def output():
    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    return POEOutput(draw(7, 5), draw(7, 3), 0.5 * draw(7, 3), draw(4, 7, 5))


LABELS = torch.tensor([0, 1, 2, 4, 4, 1, 3])


def loop_triplet(mean, log_var, y, margin, between):
    violations = []
    n = len(y)
    for i in range(n):
        j = (i + 1) % n
        wanted = abs(y[i] - y[j])
        best = None
        for k in range(n):
            apart = abs(y[i] - y[k])
            if k == i or apart == wanted:
                continue
            if best is None or abs(apart - wanted) < abs(abs(y[i] - y[best]) - wanted):
                best = k
        if best is None:
            continue
        sign = 1 if wanted > abs(y[i] - y[best]) else -1
        d_j = between(mean[i], log_var[i], mean[j], log_var[j])
        d_k = between(mean[i], log_var[i], mean[best], log_var[best])
        violation = sign * (d_k - d_j) + margin
        if violation > 0:
            violations.append(violation)
    return sum(violations) / len(violations) if violations else 0.0


def test_poe_equals_reference_values(loss_vectors):
    case = loss_vectors["poe"]
    tensors = [
        torch.tensor(values, dtype=torch.float64, requires_grad=True)
        for values in (loss_vectors["logits"], case["mu"], case["log_var"])
    ]
    loss = POELoss(num_classes=5)
    value = loss(POEOutput(*tensors, None), torch.tensor(loss_vectors["labels"]))
    assert value.item() == pytest.approx(case["total"], abs=1e-12)
    assert loss.parts["ce"].item() == pytest.approx(case["ce"], abs=1e-12)
    assert loss.parts["kl"].item() == pytest.approx(1e-4 * case["kl_unweighted"], abs=1e-12)
    assert loss.parts["triplet"].item() == pytest.approx(1e-4 * case["triplet_unweighted"], abs=1e-12)
    for gradient, name in zip(
        torch.autograd.grad(value, tensors), ("grad_logits", "grad_mu", "grad_log_var"), strict=True
    ):
        torch.testing.assert_close(gradient, torch.tensor(case[name], dtype=torch.float64), atol=1e-12, rtol=0)


@pytest.mark.parametrize("distance", DISTANCES)
def test_poe_triplet_term_equals_loop(output, distance):
    loss = POELoss(num_classes=5, kl=0, triplet=1.0, margin=0.5, distance=distance)
    loss(output, LABELS)
    expected = loop_triplet(output.mean, output.log_var, LABELS.tolist(), 0.5, DISTANCES[distance])
    assert loss.parts["triplet"].item() == pytest.approx(float(expected))


@pytest.mark.parametrize("distance", DISTANCES)
def test_poe_distances_are_symmetric_and_positive(output, distance):
    between = DISTANCES[distance]
    a, b = (output.mean[0], output.log_var[0]), (output.mean[1], output.log_var[1])
    assert between(*a, *a).item() == pytest.approx(0, abs=1e-12)
    assert between(*a, *b).item() > 0
    torch.testing.assert_close(between(*a, *b), between(*b, *a))


def test_poe_symmetric_kl_equals_torch(output):
    normal = torch.distributions.Normal
    a = normal(output.mean[0], (output.log_var[0] / 2).exp())
    b = normal(output.mean[1], (output.log_var[1] / 2).exp())
    kl = torch.distributions.kl_divergence
    expected = (kl(a, b) + kl(b, a)).sum()
    value = DISTANCES["symmetric_kl"](a.mean, 2 * a.scale.log(), b.mean, 2 * b.scale.log())
    torch.testing.assert_close(value, expected)


def test_poe_cross_entropy_is_averaged_over_samples(output):
    loss = POELoss(num_classes=5, kl=0, triplet=0)
    each = torch.stack([losses.create("ce", num_classes=5)(z, LABELS) for z in output.sample_logits])
    torch.testing.assert_close(loss(output, LABELS), each.mean())


def test_poe_weights_and_sum(output):
    weight = torch.linspace(0.5, 2, 7, dtype=torch.float64)
    mean = POELoss(num_classes=5, weight=[1, 2, 3, 4, 5])(output, LABELS, sample_weight=weight)
    total = POELoss(num_classes=5, weight=[1, 2, 3, 4, 5], reduction="sum")(output, LABELS, sample_weight=weight)
    factor = (weight * (LABELS + 1)).sum()
    torch.testing.assert_close(total, mean * factor)


def test_poe_single_label_has_no_triplets(output):
    loss = POELoss(num_classes=5)
    loss(output, torch.full((7,), 2))
    assert loss.parts["triplet"].item() == 0


@pytest.mark.parametrize("extreme", [0.0, 50.0])
def test_poe_value_and_gradients_are_finite(extreme):
    leaves = [extreme * torch.ones(4, 5), extreme * torch.ones(4, 3), torch.zeros(4, 3)]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    value = POELoss(num_classes=5)(POEOutput(*leaves, None), torch.tensor([0, 1, 2, 4]))
    assert torch.isfinite(value)
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(value, leaves))


def test_poe_half_outputs_give_a_float32_loss(output):
    half = POEOutput(*(t.bfloat16() for t in output))
    assert POELoss(num_classes=5)(half, LABELS).dtype == torch.float32


def test_poe_head_samples_in_training_and_uses_the_mean_at_inference():
    torch.manual_seed(0)
    head = POEHead(6, 4, samples=8)
    x = torch.randn(5, 6)
    first, second = head(x), head(x)
    assert first.sample_logits.shape == (8, 5, 4)
    assert not torch.equal(first.sample_logits, second.sample_logits)
    head.eval()
    once, again = head(x), head(x)
    assert once.sample_logits is None
    assert torch.equal(once.logits, again.logits)
    torch.testing.assert_close(once.logits, head.classifier(once.mean))


def test_poe_head_shapes_and_initialization():
    head = POEHead(6, 4)
    assert head.to_mean.weight.shape == (6, 6)
    assert POEHead(6, 4, embedding=3).classifier.weight.shape == (4, 3)
    assert head.standardise.eps == 1e-3
    assert not head.standardise.affine
    assert head.classifier.weight.std() < 0.03
    assert head.classifier.bias.abs().max() == 0


def test_poe_head_average_samples_at_inference():
    torch.manual_seed(0)
    head = POEHead(6, 4, samples=2000, average_samples=True).eval()
    with torch.no_grad():
        head.classifier.weight.mul_(300)
        x = torch.randn(5, 6)
        probs = head(x).logits.softmax(-1)
        mean, log_var = head(x).mean, head(x).log_var
        noise = torch.randn(20000, *mean.shape)
        expected = head.classifier(mean + (log_var / 2).exp() * noise).softmax(-1).mean(0)
    torch.testing.assert_close(probs, expected, atol=0.03, rtol=0)
    assert (probs - head.classifier(mean).softmax(-1)).abs().max() > 0.03  # not the mean embedding


def test_poe_head_in_chunks_gives_the_same_samples(monkeypatch):
    torch.manual_seed(0)
    single = POEHead(6, 4, samples=10, dropout=0.0)
    chunked = copy.deepcopy(single)
    x, y = torch.randn(5, 6), torch.tensor([0, 1, 2, 3, 3])
    results = []
    for head, budget in ((single, 10**9), (chunked, 3 * 5 * 6)):  # all ten at once; three at a time
        monkeypatch.setattr(heads, "SAMPLE_BUDGET", budget)
        # the noise of a chunked draw differs from that of a single one, so both use the same numbers
        noise = iter(torch.randn(10, 5, 6, generator=torch.Generator().manual_seed(1)))
        monkeypatch.setattr(
            torch, "randn", lambda shape, noise=noise, **_: torch.stack([next(noise) for _ in range(shape[0])])
        )
        output = head(x)
        assert output.sample_logits.shape == (10, 5, 4)
        results.append(output.sample_logits.detach())
        monkeypatch.undo()
    torch.testing.assert_close(*results)
    monkeypatch.setattr(heads, "SAMPLE_BUDGET", 3 * 5 * 6)
    POELoss(num_classes=4)(chunked(x), y).backward()
    assert all(torch.isfinite(p.grad).all() for p in chunked.parameters() if p.grad is not None)
    assert chunked.to_mean.weight.grad.abs().sum() > 0


def test_poe_trains_a_network():
    torch.manual_seed(0)
    x = torch.randn(128, 4)
    y = (x[:, 0] * 1.5 + 2.5).clamp(0, 4).long()
    model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), POEHead(16, 5, samples=10))
    loss = POELoss(num_classes=5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
    model.eval()
    assert (model(x).logits.argmax(1) == y).float().mean() > 0.7


def test_poe_rejects_logits():
    with pytest.raises(InputError, match="^output: .* Tensor.*POEHead"):
        POELoss(num_classes=5)(torch.zeros(2, 5), torch.tensor([0, 1]))


def test_poe_head_rejects_a_training_batch_of_one_row():
    with pytest.raises(InputError, match="^features: 1 row"):
        POEHead(4, 3)(torch.zeros(1, 4))


def test_poe_rejects_reduction_none():
    with pytest.raises(InputError, match="^reduction:"):
        POELoss(num_classes=5, reduction="none")


@pytest.mark.parametrize("options", [{"in_features": 0}, {"num_classes": 1}, {"samples": 0}, {"embedding": 0}])
def test_poe_head_invalid_option_raises(options):
    with pytest.raises(InputError, match=f"^{next(iter(options))}:"):
        POEHead(**({"in_features": 4, "num_classes": 3} | options))
