"""Metamorphic tests: transformations of the input that must not change an evaluation or a calibration."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orcu import Predictions, calibrators, evaluate, geometry
from orcu.predictions import open_predictions

EXAMPLES = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def samples(draw):
    """Probabilities (n, C), labels in which each class occurs, weights."""
    num_classes, rows = draw(st.integers(2, 6)), draw(st.integers(12, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    center = rng.uniform(-0.5, num_classes - 0.5, size=(rows, 1))
    logits = -draw(st.sampled_from([0.3, 1.0, 4.0])) * (np.arange(num_classes) - center) ** 2
    y = np.concatenate([np.arange(num_classes), rng.integers(num_classes, size=rows - num_classes)])
    return geometry.probs(logits), y, rng.uniform(0.1, 3.0, size=rows)


def values(predictions=None, **arguments):
    evaluation = evaluate(predictions, n_resamples=0, **arguments)
    return {name: estimate.value for name, estimate in evaluation.metrics.items()}


def assert_close(first, other, tolerance):
    assert first.keys() == other.keys()
    for name, value in first.items():
        assert other[name] == pytest.approx(value, abs=tolerance, rel=tolerance, nan_ok=True), name


@EXAMPLES
@given(samples(), st.randoms())
def test_evaluate_order_of_rows_does_not_matter(sample, random):
    probs, y, weight = sample
    order = list(range(len(y)))
    random.shuffle(order)
    here, there = (
        values(probs=probs, y=y, sample_weight=weight),
        values(probs=probs[order], y=y[order], sample_weight=weight[order]),
    )
    tied = {"ace"}  # equal-count bins divide rows of equal probability by their order
    assert {name: here[name] for name in here.keys() - tied} == {name: there[name] for name in here.keys() - tied}


@EXAMPLES
@given(samples(), st.integers(1, 5))
def test_evaluate_number_of_files_does_not_matter(sample, files):
    probs, y, weight = sample
    with tempfile.TemporaryDirectory() as folder:
        Predictions(probs=probs, y=y, sample_weight=weight).write(Path(folder) / "whole.parquet")
        (Path(folder) / "parts").mkdir()
        for number, rows in enumerate(np.array_split(np.arange(len(y)), files)):
            names = [str(k) for k in range(probs.shape[1])]
            part = Predictions(probs=probs[rows], y=y[rows], sample_weight=weight[rows], classes=names)
            part.write(Path(folder) / "parts" / f"{number}.parquet")
        single_file, parts = (values(open_predictions(Path(folder) / name)) for name in ("whole.parquet", "parts"))
    assert single_file == parts


@EXAMPLES
@given(samples(), st.sampled_from([1e-7, 0.37, 5.0, 1e6, 1e11]))
def test_evaluate_factor_of_all_weights_does_not_matter(sample, factor):
    probs, y, weight = sample
    assert_close(
        values(probs=probs, y=y, sample_weight=weight), values(probs=probs, y=y, sample_weight=weight * factor), 1e-9
    )


@EXAMPLES
@given(samples())
def test_evaluate_class_names_do_not_matter(sample):
    probs, y, weight = sample
    names = [f"grade {chr(ord('z') - k)}" for k in range(probs.shape[1])]  # against the alphabet
    named = values(probs=probs, y=np.array(names)[y], classes=names, sample_weight=weight)
    assert named == values(probs=probs, y=y, sample_weight=weight)


@EXAMPLES
@given(samples())
def test_evaluate_single_precision_changes_only_rounding(sample):
    probs, y, weight = sample
    single = probs.astype(np.float32)
    # Rounded first, since a value that rounds across a bin edge may change an error.
    assert_close(
        values(probs=single.astype(np.float64), y=y, sample_weight=weight),
        values(probs=single, y=y, sample_weight=weight),
        1e-6,
    )


@pytest.mark.slow
@EXAMPLES
@given(samples())
def test_evaluate_file_format_does_not_matter(sample):
    probs, y, weight = sample
    predictions = Predictions(probs=probs, y=y, sample_weight=weight)
    named = {"label": "label", "probs": "prob_*", "sample_weight": "sample_weight"}
    with tempfile.TemporaryDirectory() as folder:
        results = []
        for name in ("file.parquet", "file.csv", "file.csv.gz"):
            predictions.write(Path(folder) / name)
            results.append(values(open_predictions(Path(folder) / name, **named)))
    assert results[0] == results[1] == results[2] == values(predictions)


@pytest.mark.parametrize("name", [name for name in calibrators.names() if name not in {"chain", "dirichlet_paper"}])
@EXAMPLES
@given(sample=samples(), kind=st.sampled_from(["logits", "probs"]))
@pytest.mark.filterwarnings("ignore::orcu.calibrators.CalibrationWarning")
def test_calibrator_row_does_not_depend_on_other_rows(name, sample, kind):
    probs, y, _ = sample
    probs = np.where(
        probs < 0.02, 0.0, probs
    )  # zeros have no logit: they are replaced by a value determined in the fit
    probs = probs / probs.sum(axis=1, keepdims=True)
    values = probs if kind == "probs" else np.log(np.maximum(probs, 1e-6))
    half = len(y) // 2
    predictions = Predictions(**{kind: values}, classes=[str(k) for k in range(probs.shape[1])], y=y)
    fitted = calibrators.create(name)
    calibrated = predictions[half:].calibrated_on(predictions[:half], fitted)
    for row in range(half, len(y)):
        alone = predictions[row : row + 1].calibrated(fitted)
        np.testing.assert_allclose(alone.probs, calibrated.probs[row - half : row - half + 1], rtol=1e-9, atol=1e-300)
