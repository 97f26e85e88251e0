"""CORP against an independent algorithm, model-diagnostics 1.5.0 and relplot 1.0.3."""

import numpy as np
import pytest

from orcu import metrics
from orcu.errors import InputError
from orcu.metrics.corp import corp_fit, pool_adjacent_violators

MODEL_DIAGNOSTICS = 0.03375, 0.125, 0.25
RELPLOT = 0.17302742366031573


def pooled(outcomes, weights):
    """Isotonic regression by merging neighbouring blocks one at a time."""
    blocks = []
    for outcome, weight in zip(outcomes, weights, strict=True):
        blocks.append([outcome, weight, 1])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            (a, v, n), (b, w, m) = blocks[-2:]
            blocks[-2:] = [[(a * v + b * w) / (v + w), v + w, n + m]]
    return np.concatenate([[value] * count for value, _, count in blocks])


def example(rows=400, num_classes=4, seed=0, weighted=True):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(num_classes), size=rows).round(2)
    probs /= probs.sum(axis=1, keepdims=True)
    return probs, rng.integers(num_classes, size=rows), rng.uniform(0.2, 3, size=rows) if weighted else None


@pytest.mark.parametrize("weighted", [False, True])
def test_corp_decomposition_equals_a_loop_of_pooled_blocks(weighted):
    probs, y, weight = example(weighted=weighted)
    parts = metrics.corp_decomposition(probs, y, sample_weight=weight)
    w = np.ones(len(y)) if weight is None else weight
    for k in range(3):
        prob, event = (1 - probs.cumsum(1)[:, k]).round(12), y > k
        values = np.unique(prob)
        mass = np.array([w[prob == v].sum() for v in values])
        rates = np.array([np.average(event[prob == v], weights=w[prob == v]) for v in values])
        recalibrated = pooled(rates, mass)[np.searchsorted(values, prob)]
        score, best, base = (
            np.average((p - event) ** 2, weights=w) for p in (prob, recalibrated, np.average(event, weights=w))
        )
        assert parts.miscalibration[k] == pytest.approx(score - best, abs=1e-10)
        assert parts.discrimination[k] == pytest.approx(base - best, abs=1e-10)
        assert parts.uncertainty[k] == pytest.approx(base, abs=1e-10)
    assert parts.score.sum() == pytest.approx(metrics.rps(probs, y, sample_weight=weight), abs=1e-12)


def test_corp_decomposition_equals_model_diagnostics():
    # model_diagnostics.scoring.decompose(y_obs, y_pred, SquaredError()) of model-diagnostics 1.5.0
    prob = np.array([0.1, 0.4, 0.3, 0.9, 0.6, 0.6, 0.2, 0.8])
    event = np.array([0, 0, 1, 1, 1, 0, 0, 1])
    parts = metrics.corp_decomposition(np.stack([1 - prob, prob], axis=1), event)
    assert parts.miscalibration[0] == pytest.approx(MODEL_DIAGNOSTICS[0], abs=1e-12)
    assert parts.discrimination[0] == pytest.approx(MODEL_DIAGNOSTICS[1], abs=1e-12)
    assert parts.uncertainty[0] == pytest.approx(MODEL_DIAGNOSTICS[2], abs=1e-12)


def test_corp_decomposition_weights_equal_repeated_rows():
    probs, y, _ = example(rows=60, weighted=False)
    counts = np.random.default_rng(1).integers(0, 4, size=60)
    weighted = metrics.corp_decomposition(probs, y, sample_weight=counts)
    repeated = metrics.corp_decomposition(np.repeat(probs, counts, axis=0), np.repeat(y, counts))
    for name in ("miscalibration", "discrimination", "uncertainty"):
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), abs=1e-12)
    assert metrics.smooth_ece(probs, y, sample_weight=counts) == pytest.approx(
        metrics.smooth_ece(np.repeat(probs, counts, axis=0), np.repeat(y, counts)), abs=1e-12
    )


def test_corp_decomposition_of_class_frequencies_has_no_miscalibration_and_no_discrimination():
    y = np.array([0, 1, 1, 2])
    parts = metrics.corp_decomposition(np.tile([0.25, 0.5, 0.25], (4, 1)), y)
    assert parts.miscalibration == pytest.approx([0, 0])
    assert parts.discrimination == pytest.approx([0, 0])


def test_corp_fit_influence_predicts_the_change_by_a_little_more_weight_of_a_row():
    probs, y, weight = example(rows=80)
    prob, event = 1 - probs.cumsum(1)[:, 1], y > 1
    fit, step = corp_fit(prob, event, weight), 1e-6
    for row in (0, 17, 63):
        more = weight.copy()
        more[row] *= 1 + step
        change = (corp_fit(prob, event, more).parts - fit.parts) / step
        assert change == pytest.approx(fit.influence[:, row] / len(y), abs=1e-6)
    assert fit.influence.sum(axis=1) == pytest.approx(np.zeros(3), abs=1e-10)


def test_pool_adjacent_violators_fills_cells_without_mass():
    rates = pool_adjacent_violators(np.array([0.0, 1.0, 0.0, 3.0]), np.array([0.0, 2.0, 0.0, 3.0]))
    assert rates.tolist() == [0.5, 0.5, 0.5, 1.0]


def test_smooth_ece_equals_relplot():
    # relplot.smECE(prob, event) of relplot 1.0.3, whose grid has a resolution of about 0.0005
    rng = np.random.default_rng(4)
    prob = rng.random(2000)
    event = rng.random(2000) < prob**2
    assert metrics.smooth_ece(np.stack([1 - prob, prob], axis=1), event.astype(int))[0] == pytest.approx(
        RELPLOT, abs=0.001
    )


def test_smooth_ece_equals_the_direct_integral_of_reflected_gaussians():
    prob, event = np.array([0.05, 0.3, 0.32, 0.9]), np.array([1, 0, 1, 0])
    value = metrics.smooth_ece(np.stack([1 - prob, prob], axis=1), event)[0]
    t = (np.arange(20_000) + 0.5) / 20_000
    images = np.concatenate([2 * j + sign * prob for j in range(-6, 7) for sign in (1, -1)])
    residual = np.tile(event - prob, 26) / 4
    density = np.exp(-(((t[:, None] - images) / value) ** 2) / 2) / (value * np.sqrt(2 * np.pi))
    assert np.abs(density @ residual).mean() == pytest.approx(value, abs=1e-3)


def test_corp_decomposition_bad_probabilities_name_the_row():
    with pytest.raises(InputError, match="row 1"):
        metrics.corp_decomposition([[0.5, 0.5], [0.9, 0.9]], [0, 1])
