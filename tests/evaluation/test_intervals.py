"""Tests of the bootstrap intervals and of the calibrated reference."""

import numpy as np
import pytest

from orcu import Predictions, evaluate
from orcu.errors import InputError
from orcu.evaluation.comparison import paired_differences
from orcu.evaluation.evaluate import _estimate
from orcu.evaluation.intervals import calibrated_sums, gap_difference_interval, gap_interval, unit_sums
from orcu.evaluation.statistics import collect, plain_sums
from orcu.metrics.base import METRICS, all_metrics, total_gap
from orcu.metrics.layout import Layout
from orcu.metrics.rows import Rows
from orcu.predictions import open_predictions
from orcu.resampling import N_BLOCKS, interval, random_blocks, resampled_sums, resampling_units, small_sample_factor


def parts(logits, y, softmax, weight=None):
    rows = Rows(softmax(logits), y, weight).with_adaptive_bins(15)
    return Layout(rows.num_classes, 15), rows


@pytest.fixture
def fewer_draws(monkeypatch):
    """Use 200 instead of 1000 simulated outcomes: the 95 % limit is then one of 93.5 to 96.5 %."""
    monkeypatch.setattr("orcu.evaluation.evaluate.default_draws", lambda rows, layout: 200)


def test_resampled_sums_give_the_metrics_of_the_resampled_rows(ordinal_sample, softmax):
    logits, y = ordinal_sample(150)
    layout, rows = parts(logits, y, softmax)
    sums = unit_sums(layout, rows, np.arange(150), 150)
    resampled = layout.sums(resampled_sums(sums, 5, random_state=3))
    rng = np.random.default_rng(3)
    picks = rng.integers(150, size=(5, 150))
    for r in range(5):
        again = unit_sums(layout, rows[picks[r]], np.arange(150), 150)
        expected = layout.sums(np.asarray(again.sum(0)).ravel())
        for metric in all_metrics():
            assert metric(resampled)[r] == pytest.approx(float(metric(expected)), abs=1e-9), metric.name


def test_unit_sums_with_weights_and_clusters_add_up(ordinal_sample, softmax):
    logits, y = ordinal_sample(120)
    weight = np.random.default_rng(0).random(120)
    layout, rows = parts(logits, y, softmax, weight)
    cluster = np.repeat(np.arange(40), 3).astype(str)
    unit, units = resampling_units(120, cluster)
    assert units == 40
    sums = unit_sums(layout, rows, unit, units)
    assert sums.shape == (40, layout.size)
    plain = unit_sums(layout, rows, np.arange(120), 120)
    assert np.asarray(sums.sum(0)).ravel() == pytest.approx(np.asarray(plain.sum(0)).ravel())


def test_resampling_units_of_many_rows_are_even_blocks():
    unit, units = resampling_units(200_000, None)
    assert units == N_BLOCKS
    counts = np.bincount(unit, minlength=N_BLOCKS)
    assert abs(counts.mean() - 100) < 1e-9
    assert 60 < counts.min() < counts.max() < 150
    assert (random_blocks(np.arange(100)) == random_blocks(np.arange(100))).all()


@pytest.mark.usefixtures("fewer_draws")
def test_evaluate_intervals_of_blocks_match_those_of_rows(monkeypatch, ordinal_sample):
    logits, y = ordinal_sample(10_000)
    by_row = evaluate(logits=logits, y=y, n_resamples=400)
    monkeypatch.setattr("orcu.resampling.MAX_UNITS", 8_000)
    by_block = evaluate(logits=logits, y=y, n_resamples=400)
    for name, estimate in by_row.metrics.items():
        other = by_block.metrics[name]
        assert other.value == estimate.value
        if name not in {"unimodality", "mce"}:
            width = estimate.high - estimate.low
            assert other.high - other.low == pytest.approx(width, rel=0.2), name


@pytest.mark.slow
@pytest.mark.usefixtures("fewer_draws")
def test_evaluate_intervals_have_their_nominal_coverage(ordinal_sample):
    """95 % intervals of 60 data sets; percentile intervals of binned errors would almost never contain the truth.

    A 95 % interval contains the truth in fewer than 48 of 60 sets once in 100,000, a 70 % interval usually. The
    truth is computed from 250 times as many rows, so its noise is a sixteenth of theirs.
    """
    truth = evaluate(logits=(big := ordinal_sample(100_000, seed=99))[0], y=big[1], n_resamples=0)
    covered, below = dict.fromkeys(truth.metrics, 0), 0
    for seed in range(60):
        logits, y = ordinal_sample(400, seed=seed)
        evaluation = evaluate(logits=logits, y=y, n_resamples=200, random_state=seed)
        for name, estimate in evaluation.metrics.items():
            covered[name] += estimate.low - 1e-9 <= truth.metrics[name].value <= estimate.high + 1e-9
        below += evaluation["sce"].value <= truth["sce"].value
    assert below <= 5  # the value itself lies above the truth
    for name in ("sce", "ace", "ece", "threshold_ce", "accuracy", "qwk", "rps", "overconfidence"):
        assert covered[name] >= 48, (name, covered[name])


@pytest.mark.slow
@pytest.mark.usefixtures("fewer_draws")
def test_evaluate_reference_covers_a_calibrated_model(ordinal_sample, softmax):
    significant = 0
    for seed in range(40):
        logits, y = ordinal_sample(300, sharpen=1.0, seed=seed)
        evaluation = evaluate(logits=logits, y=y, n_resamples=0)
        significant += evaluation["sce"].value > evaluation["sce"].limit
        assert evaluation["sce"].expected < evaluation["sce"].limit
    assert significant <= 6  # 5 % of 40 is 2
    sharp = evaluate(logits=3 * logits, y=y, n_resamples=0)
    assert sharp["sce"].value > sharp["sce"].limit


def test_calibrated_sums_have_the_predicted_means(softmax):
    rng = np.random.default_rng(0)
    probs = softmax(rng.normal(size=(500, 3)))
    weight = rng.random(500)
    layout = Layout(3, 15)
    for w in (None, weight):
        rows = Rows(probs, rng.integers(3, size=500), w).with_adaptive_bins(15)
        vector = np.asarray(unit_sums(layout, rows, np.arange(500), 500).sum(0)).ravel()
        resampled = calibrated_sums(layout, rows, vector, 400, random_state=1)
        for name in ("top", "classes", "thresholds", "adaptive"):
            table = getattr(resampled, name).mean(0)
            predicted, observed = table[..., 1, :], table[..., 2, :]
            assert observed == pytest.approx(predicted, abs=4 * np.sqrt(predicted.max() / 400) + 0.2), name
            assert table[..., 0, :].sum() == pytest.approx(
                (500 if w is None else w.sum()) * table[..., 0, :].size / table.shape[-1]
            )


@pytest.mark.parametrize("weighted", [False, True])
def test_calibrated_sums_by_bin_match_those_by_row(weighted, monkeypatch, softmax):
    rng = np.random.default_rng(11)
    probs = softmax(2 * rng.normal(size=(6_000, 4)))
    weight = rng.random(6_000) if weighted else None
    layout = Layout(4, 15)
    rows = Rows(probs, rng.integers(4, size=6_000), weight).with_adaptive_bins(15)
    vector = plain_sums(layout, rows)
    by_bin = calibrated_sums(layout, rows, vector, 2000, random_state=1)
    monkeypatch.setattr("orcu.evaluation.intervals.NORMAL_ROWS", 10_000)
    by_row = calibrated_sums(layout, rows, vector, 600, random_state=2)
    for metric in all_metrics():
        if metric.binned:
            binned, simulated = metric(by_bin), metric(by_row)
            close = 0.1 if metric.name == "mce" else 0.04  # the mean of 600 draws has an error of about 2 %
            assert binned.mean() == pytest.approx(simulated.mean(), rel=close), metric.name
            assert np.quantile(binned, 0.95) == pytest.approx(np.quantile(simulated, 0.95), rel=2 * close), metric.name
    # in each draw the outcomes of all classes sum to the number of rows, or to their weight
    total = 6_000 if weight is None else weight.sum()
    assert by_bin.classes[:, :, 2].sum((1, 2)) == pytest.approx(np.full(2000, total), rel=1e-6)


def test_interval_of_undefined_and_zero_values():
    assert np.isnan(interval(np.nan, np.array([1.0, 2.0])).low)
    assert np.isnan(interval(np.inf, np.array([np.inf, 2.0])).high)
    quiet = gap_interval(np.array([0.001, -0.001]), np.random.default_rng(0).normal(0, 0.1, (500, 2)), total_gap)
    assert quiet.low == 0
    exact = gap_interval(np.zeros(3), np.zeros((10, 3)), total_gap)
    assert (exact.low, exact.high) == (0, 0)


def test_evaluate_same_random_state_gives_the_same_intervals(ordinal_sample):
    logits, y = ordinal_sample(200)
    first, again, other = (evaluate(logits=logits, y=y, n_resamples=50, random_state=s) for s in (1, 1, 2))
    assert first.metrics == again.metrics
    assert first["rps"].low != other["rps"].low
    assert first["rps"].value == other["rps"].value


def draw_clusters(rng, sizes, effect=0.4):
    """Logits of two models, labels and clusters; a random effect shifts all labels of a cluster by part of a class."""
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    score = rng.normal(1.5, 1.3, size=len(cluster))
    shift = effect * rng.normal(size=len(sizes))[cluster]
    y = np.clip(np.rint(score + shift + 0.6 * rng.normal(size=len(cluster))), 0, 3).astype(int)
    noisy = score + 0.5 * rng.normal(size=len(cluster))
    first, second = (-width * (np.arange(4) - x[:, None]) ** 2 for width, x in ((1.2, score), (0.6, noisy)))
    return first, second, y, cluster


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[20] * 5, [10, 10, 15, 25, 60]], ids=["equal", "unequal"])
def test_evaluate_intervals_of_five_clusters_have_their_coverage(sizes):
    """Percentiles of the resamples of five clusters contain the truth in 74 to 83 % of the data sets."""
    names = ("accuracy", "mae", "rps", "brier", "nll", "qwk", "overconfidence")
    first, second, y, _ = draw_clusters(np.random.default_rng(1), [10] * 4000)
    truth, other = (evaluate(logits=logits, y=y, n_resamples=0) for logits in (first, second))
    sets, covered = 150, {name: np.zeros(2) for name in names}
    rng = np.random.default_rng(3)
    for seed in range(sets):
        first, second, y, cluster = draw_clusters(rng, sizes)
        # The parts of `evaluate` that are needed: the intervals of binned errors would take most of the time.
        statistics, compared = (
            collect(Predictions(logits=logits, y=y, cluster=cluster), n_bins=15)[0] for logits in (first, second)
        )
        differences = paired_differences(statistics, compared, 200, seed)
        sums, draws, factor = statistics.totals, statistics.resampled(200, seed), statistics.small_sample_factor
        for name in names:
            estimate, difference = _estimate(METRICS.get(name), sums, draws, None, factor), differences[name]
            covered[name] += (
                estimate.low <= truth[name].value <= estimate.high,
                difference.low <= truth[name].value - other[name].value <= difference.high,
            )
    shares = np.array(list(covered.values())) / sets
    # Of 500 sets: 92 to 95 % for equal clusters, 97 to 98 % for unequal ones; 94 to 98 % for differences. The standard
    # error of 92 % of 150 sets is 2.2 %, and the sets of all metrics are the same.
    assert shares.mean(axis=0).min() >= 0.89, covered
    assert shares.min() >= 0.86, covered


def draw_calibrated(rng, sizes, effect=0.4):
    """As `draw_clusters`, but the first model is nearly calibrated and the second the same, over-confident."""
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    score = rng.normal(1.5, 1.3, size=(len(cluster), 1))
    logits = -1.2 * (np.arange(4) - score - effect * rng.normal(size=(len(sizes), 1))[cluster]) ** 2
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (rng.random((len(cluster), 1)) > probs.cumsum(axis=1)[:, :-1]).sum(axis=1)
    first = -1.2 * (np.arange(4) - score) ** 2
    return first, 2.2 * first, y, cluster


def difference_coverage(draw, sizes, sets):
    """Share of data sets whose interval of the difference contains the true one, for each binned error."""
    names = ("ece", "sce", "ace", "threshold_ce")

    def differences(rng, sizes, n_resamples, clusters):
        first, second, y, cluster = draw(rng, sizes)
        statistics = (
            collect(Predictions(logits=logits, y=y, cluster=cluster if clusters else None), n_bins=15)[0]
            for logits in (first, second)
        )
        return paired_differences(*statistics, n_resamples, 0)

    truth = differences(np.random.default_rng(1), [10] * 5_000, 0, False)
    rng, covered = np.random.default_rng(3), np.zeros(len(names))
    for _ in range(sets):
        intervals = differences(rng, sizes, 200, max(sizes) > 1)
        covered += [intervals[name].low <= truth[name].value <= intervals[name].high for name in names]
    return dict(zip(names, covered / sets, strict=True))


def test_paired_differences_of_binned_errors_contain_the_truth():
    """Percentiles around the observed difference contain it in 15 to 35 % of these sets, but for the ECE.

    Noise increases the error of the calibrated model, so the observed differences are too small.
    """
    coverage = difference_coverage(draw_calibrated, [10] * 40, 20)
    assert min(coverage.values()) >= 0.8, coverage


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[10] * 40, [1] * 400], ids=["clusters", "rows"])
@pytest.mark.parametrize("draw", [draw_clusters, draw_calibrated])
def test_paired_differences_of_binned_errors_have_their_coverage(draw, sizes):
    """Of 100 sets 91 to 100 %; percentiles around the observed difference 0 to 100 %, by metric and models."""
    coverage = difference_coverage(draw, sizes, 150)
    assert np.mean(list(coverage.values())) >= 0.91, coverage  # the standard error of a share of 93 % is 2.1 %
    assert min(coverage.values()) >= 0.88, coverage


def test_gap_difference_interval_of_equal_and_similar_models():
    rng = np.random.default_rng(0)
    gaps, noise = rng.normal(0, 0.1, 6), rng.normal(0, 0.1, (300, 6))
    assert gap_difference_interval((gaps, gaps), (gaps + noise, gaps + noise), total_gap) == (0, 0)
    similar = gaps + 0.01
    low, high = gap_difference_interval((gaps, similar), (gaps + noise, similar + noise), total_gap)
    assert -0.0601 < low < 0 < high < 0.0601  # six gaps that differ by 0.01, with shared noise
    assert np.isnan(gap_difference_interval((gaps, gaps), (noise, noise * np.nan), total_gap).low)
    zero = np.zeros(3), np.zeros(3)
    assert gap_difference_interval(zero, (np.zeros((9, 3)), np.zeros((9, 3))), total_gap) == (0, 0)


def test_small_sample_factor_of_many_clusters_is_negligible():
    assert small_sample_factor(np.ones(20)) == pytest.approx(np.sqrt(20 / 19) * 2.093024 / 1.959964, abs=1e-5)
    assert 1 < small_sample_factor(np.ones(1000)) < 1.003
    assert small_sample_factor(np.array([1.0, 1, 1, 1, 30])) > 3 * small_sample_factor(np.ones(5))
    assert small_sample_factor(np.array([2.0, 0, 2, 0, 2])) == small_sample_factor(np.ones(3))  # without weight


def test_interval_with_a_factor_keeps_the_bounds_of_a_metric():
    draws = np.linspace(0.0, 0.4, 101)
    assert interval(0.2, draws, 3.0) == pytest.approx((-0.37, 0.77))
    for bounds in ((0, 1), (0, np.inf), (-1, 1)):
        low, high = interval(0.2, draws, 3.0, bounds)
        assert bounds[0] < low < 0.02
        assert 0.6 < high < bounds[1]
    assert interval(1.0, np.ones(50), 3.0, (0, 1)) == (1.0, 1.0)  # all rows are right
    assert interval(0.0, np.zeros(50), 3.0, (0, np.inf)) == (0.0, 0.0)


def test_evaluate_without_clusters_has_unwidened_percentiles(ordinal_sample, softmax):
    logits, y = ordinal_sample(120)
    layout, rows = parts(logits, y, softmax)
    draws = layout.sums(resampled_sums(unit_sums(layout, rows, np.arange(120), 120), 100, 0))
    evaluation = evaluate(probs=softmax(logits), y=y, n_resamples=100)
    for metric in all_metrics():
        if not metric.binned:
            low, high = np.quantile(metric(draws), (0.025, 0.975))
            assert (evaluation[metric.name].low, evaluation[metric.name].high) == pytest.approx((low, high), rel=1e-12)


@pytest.mark.parametrize(("clusters", "message"), [(1, "one cluster, so there are no"), (4, "only 4 clusters")])
def test_evaluate_few_clusters_warns(clusters, message, ordinal_sample):
    logits, y = ordinal_sample(100)
    evaluation = evaluate(logits=logits, y=y, cluster=np.arange(100) % clusters, n_resamples=50)
    assert any(note.startswith("WARNING") and message in note for note in evaluation.notes)
    assert np.isnan(evaluation["accuracy"].low) == (clusters == 1)
    evaluation = evaluate(logits=logits, y=y, cluster=np.arange(100) % 5, n_resamples=50)
    assert not any("cluster" in note for note in evaluation.notes)


def test_evaluate_subgroups_of_few_clusters_are_named(ordinal_sample):
    logits, y = ordinal_sample(120)
    cluster, site = np.arange(120) // 10, np.repeat(["north", "south"], [90, 30])
    evaluation = evaluate(logits=logits, y=y, cluster=cluster, subgroup=site, n_resamples=50)
    [note] = [note for note in evaluation.notes if "clusters" in note]
    assert note.startswith("WARNING")
    assert "south (3)" in note
    assert "north" not in note


def test_evaluate_stream_of_few_clusters_gives_the_intervals_of_memory(tmp_path, monkeypatch, ordinal_sample):
    logits, y = ordinal_sample(400)
    Predictions(logits=logits, y=y, cluster=np.arange(400) % 6).write(tmp_path / "p.parquet")
    in_memory = evaluate(open_predictions(tmp_path / "p.parquet"), n_resamples=100)
    monkeypatch.setattr("orcu.evaluation.statistics.IN_MEMORY_CELLS", 100)
    streamed = evaluate(open_predictions(tmp_path / "p.parquet"), n_resamples=100)
    for name in ("accuracy", "rps", "ece"):
        width = in_memory[name].high - in_memory[name].low
        # the blocks have another order, so other clusters are drawn
        assert streamed[name].high - streamed[name].low == pytest.approx(width, rel=0.3), name


def test_evaluate_too_few_resamples_raises(ordinal_sample):
    logits, y = ordinal_sample(50)
    for n_resamples in (1, 29):
        with pytest.raises(InputError, match=f"n_resamples: expected 0 .* at least 30, got {n_resamples}"):
            evaluate(logits=logits, y=y, n_resamples=n_resamples)
