"""Comparison with other libraries: versions, missing features, different definitions, errors, and speed.

    python -m venv peers
    peers/bin/pip install . safetensors plotnine dlordinal skordinal coral-pytorch condor-pytorch spacecutter \
        mord statsmodels netcal torchmetrics 'torch-uncertainty[cpu]' 'probmetrics[extra]' mapie skorch
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 peers/bin/python benchmarks/peers.py --write docs/results

It writes `peers.json`, from which `python tools/results.py write` makes the tables of docs/comparison.md. Libraries
that are not installed are skipped and listed. Every case is a function that returns three values: the expected value
(an independent computation), the value of the library, and the value of orcu. `tests/test_peers.py` checks the cases
whose packages are installed. Times are CPU times, medians of interleaved rounds, as ratios to a reference of the run.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import math
import platform
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from orcu import losses, metrics
from orcu.errors import InputError
from orcu.io.files import atomic_write

REFUSED = "refused"  # value of a case whose correct result is an error


@dataclass(frozen=True)
class Peer:
    """Another library.

    Args:
        name: name in the package index.
        module: name of the module.
        features: features in words.
        missing: missing features in words.
        defines: names of classes and functions that prove ``features``.
        lacks: pattern that no class and no function matches if ``missing`` is correct.
    """

    name: str
    module: str
    features: str
    missing: str
    defines: tuple[str, ...]
    lacks: str


PEERS = (
    Peer(
        "dlordinal",
        "dlordinal",
        "18 ordinal losses, output layers (some unimodal by construction), soft labels",
        "calibration errors, calibrators, share of unimodal rows, QWK",
        ("CDWCELoss", "SORDLoss", "EMDLoss", "COPOC", "StickBreakingLayer", "BinomialLayer", "get_beta_soft_labels"),
        r"calib|unimodal|kappa|qwk|temperature",
    ),
    Peer(
        "skordinal",
        "skordinal",
        "10 scikit-learn ordinal classifiers, metrics, a benchmark runner, 5 data sets",
        "calibration, share of unimodal rows",
        ("POM", "LogisticAT", "SVOR", "ORBoost", "weighted_kappa", "Benchmark", "load_lev"),
        r"calib|unimodal|temperature",
    ),
    Peer(
        "coral-pytorch",
        "coral_pytorch",
        "CORAL and CORN: output layers with C - 1 outputs, and their losses",
        "class probabilities, sample weights",
        ("CoralLayer", "coral_loss", "corn_loss"),
        r"softmax|class_?prob|sample_?weight|calib",
    ),
    Peer(
        "condor-pytorch",
        "condor_pytorch",
        "CONDOR, with class probabilities (`ordinal_softmax`)",
        "sample weights, other methods",
        ("ordinal_softmax", "CondorOrdinalCrossEntropy"),
        r"sample_?weight|calib",
    ),
    Peer(
        "spacecutter",
        "spacecutter",
        "a cumulative link layer with class weights for skorch",
        "other losses, metrics",
        ("LogisticCumulativeLink", "CumulativeLinkLoss"),
        r"calib|metric|score",
    ),
    Peer(
        "mord",
        "mord",
        "linear threshold models",
        "string labels, calibration, metrics",
        ("LogisticAT", "LogisticIT", "OrdinalRidge"),
        r"calib|kappa",
    ),
    Peer(
        "statsmodels",
        "statsmodels.miscmodels.ordinal_model",
        "`OrderedModel`: linear, with standard errors",
        "sample weights, nonlinear models, calibration",
        ("OrderedModel",),
        r"calib|kappa",
    ),
    Peer(
        "netcal",
        "netcal",
        "ECE, binning and scaling calibrators, reliability diagrams",
        "class-wise errors, ordinal methods",
        ("ECE", "ACE", "TemperatureScaling", "BBQ", "ReliabilityDiagram"),
        r"class_?wise|ordinal|unimodal|kappa",
    ),
    Peer(
        "torchmetrics",
        "torchmetrics",
        "ECE, kappa, metric classes",
        "class-wise and adaptive calibration errors, ordinal metrics",
        ("MulticlassCalibrationError", "MulticlassCohenKappa"),
        r"class_?wise_?calib|adaptive_?calib|ordinal|unimodal",
    ),
    Peer(
        "torch-uncertainty",
        "torch_uncertainty",
        "class-wise errors, 7 scaling calibrators, conformal prediction sets, Lightning routines",
        "ordinal methods",
        ("ClasswiseCalibrationError", "AdaptiveCalibrationError", "DirichletScaler", "ConformalClsAPS"),
        r"ordinal|unimodal|kappa",
    ),
    Peer(
        "probmetrics",
        "probmetrics",
        "exact temperature scaling, many calibrators, separate refinement and calibration errors",
        "ordinal methods, plots",
        ("TemperatureScalingCalibrator", "MetricsWithCalibration", "SVSCalibrator"),
        r"ordinal|unimodal|kappa|plot",
    ),
    Peer(
        "scikit-learn",
        "sklearn",
        "temperature and isotonic calibration, kappa, all kinds of classifiers",
        "ECE, ordinal classifiers",
        ("CalibratedClassifierCV", "_TemperatureScaling", "cohen_kappa_score"),
        r"expected_calibration|calibration_error|ordinal_?(class|regress|log)|unimodal|ranked_prob",
    ),
    Peer(
        "MAPIE",
        "mapie",
        "conformal prediction sets, ECE, calibration tests",
        "contiguous sets, ordinal methods",
        ("SplitConformalClassifier", "expected_calibration_error", "spiegelhalter_p_value"),
        r"ordinal|unimodal|contiguous|kappa",
    ),
)


def version(name: str) -> str | None:
    """Installed version of a package, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def definitions(module: str) -> set[str]:
    """Names of all classes and functions in a module's source files, without its tests."""
    package, *rest = module.split(".")
    spec = importlib.util.find_spec(package)  # find_spec of a submodule would import the package
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(package)
    home = Path(spec.origin).parent.joinpath(*rest)
    files = home.rglob("*.py") if home.is_dir() else [home.with_suffix(".py")]
    names: set[str] = set()
    for file in files:
        if not {"tests", "test", "testing"} & set(file.relative_to(home.parent).parts):
            text = file.read_text(encoding="utf-8", errors="replace")
            names.update(re.findall(r"^\s*(?:class|def) (\w+)", text, re.MULTILINE))
    return names


def changes(peer: Peer) -> list[str]:
    """Differences between the table and the installed version; empty if the table is correct."""
    names = definitions(peer.module)
    removed = [f"{name} was removed" for name in peer.defines if name not in names]
    return removed + [f"{name} was added" for name in sorted(names) if re.search(peer.lacks, name, re.IGNORECASE)]


class Outcome(NamedTuple):
    """Expected value, value of the other library and value of orcu: numbers, or `REFUSED`."""

    expected: float | str
    peer_value: float | str
    orcu_value: float | str


@dataclass(frozen=True)
class Case:
    """A wrong result of another library, or another quantity under the same name.

    Args:
        peer: name of the library in the package index; "copies" for code on the web without a package.
        what: quantity in words.
        why: reason for the difference in words.
        kind: "differs" for another quantity, "breaks" for a wrong result.
        run: function that returns the outcome.
        slow: whether it takes more than two seconds.
    """

    peer: str
    what: str
    why: str
    kind: str
    run: Callable[[], Outcome]
    slow: bool = False


CASES: list[Case] = []


def case(peer: str, what: str, why: str, *, kind: str, slow: bool = False) -> Callable[[Any], Any]:
    """Register a function as a case."""

    def add(run: Callable[[], Outcome]) -> Callable[[], Outcome]:
        CASES.append(Case(peer, what, why, kind, run, slow))
        return run

    return add


def agree(value: float | str, expected: float | str) -> bool:
    """Whether a value equals the expected one within one percent; NaN never does."""
    if isinstance(value, str) or isinstance(expected, str):
        return value == expected
    return math.isclose(value, expected, rel_tol=0.01, abs_tol=1e-6)


def softmax(logits: Any) -> Any:
    """Probabilities of logits."""
    raised = np.exp(logits - logits.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)


def sharp_model(rows: int = 4000) -> tuple[Any, Any]:
    """Over-confident logits (scaled by 1.7) and labels."""
    rng = np.random.default_rng(0)
    logits = -((np.arange(5) - rng.uniform(-0.5, 4.5, size=(rows, 1))) ** 2) / 1.5
    y = (rng.random((rows, 1)) > softmax(logits).cumsum(1)[:, :-1]).sum(1)
    return 1.7 * logits, y


def adaptive_error(probs: Any, y: Any, groups: int = 15) -> float:
    """The paper's ACE: rows of each class sorted by probability, in groups of equal size."""
    total = 0.0
    for k in range(probs.shape[1]):
        order = np.argsort(probs[:, k], kind="stable")
        gap = np.array_split((y[order] == k) - probs[order, k], groups)
        total += sum(abs(part.mean()) for part in gap if len(part)) / min(groups, len(y))
    return float(total / probs.shape[1])


def best_temperature(logits: Any, y: Any) -> float:
    """Maximum-likelihood temperature, by bounded scalar minimisation."""
    from scipy.optimize import minimize_scalar

    def cost(temperature: float) -> float:
        scaled = logits / temperature
        return float((np.logaddexp.reduce(scaled, axis=1) - scaled[np.arange(len(y)), y]).mean())

    return float(minimize_scalar(cost, bounds=(0.1, 10), method="bounded", options={"xatol": 1e-8}).x)


CERTAIN = np.array([[1.0, 0.0], [1.0, 0.0], [0.95, 0.05], [0.95, 0.05]]), np.array([0, 1, 0, 0])


@case(
    "torchmetrics",
    "ECE of four rows, two of them with p = 1",
    "bins are [a, b), and p = 1 has an extra bin",
    kind="differs",
)
def certain_rows_of_torchmetrics() -> Outcome:
    """All four are in the last bin, (14/15, 1]: mean confidence 0.975, three of four correct."""
    from torchmetrics.functional.classification import multiclass_calibration_error

    probs, y = CERTAIN
    value = multiclass_calibration_error(torch.tensor(probs).float(), torch.tensor(y), 2, n_bins=15)
    return Outcome(0.975 - 0.75, float(value), metrics.ece(probs, y))


@case("netcal", "ACE", "*average* gap of equal-width bins of the predicted class", kind="differs")
def ace_of_netcal() -> Outcome:
    """Its abbreviation means average calibration error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from netcal.metrics import ACE

    logits, y = sharp_model()
    probs = softmax(logits)
    return Outcome(adaptive_error(probs, y), float(ACE(15).measure(probs, y)), metrics.ace(probs, y))


@case("torch-uncertainty", "ACE", "adaptive, but only for the predicted class", kind="differs")
def ace_of_torch_uncertainty() -> Outcome:
    """The class-wise error is smaller because most classes of a row have probabilities near 0."""
    logits, y = sharp_model()
    probs = softmax(logits)
    return Outcome(adaptive_error(probs, y), _adaptive_of_torch_uncertainty(probs, y), metrics.ace(probs, y))


def _adaptive_of_torch_uncertainty(probs: Any, y: Any) -> float:
    from torch_uncertainty.metrics import AdaptiveCalibrationError

    metric = AdaptiveCalibrationError(task="multiclass", num_classes=probs.shape[1], num_bins=15)
    metric.update(torch.tensor(probs).float(), torch.tensor(y))
    return float(metric.compute())


@case("skordinal", "weighted kappa", "linear weights without an option for quadratic ones", kind="differs")
def kappa_of_skordinal() -> Outcome:
    """Leaderboards and papers use quadratic weights."""
    from skordinal.metrics import weighted_kappa

    logits, y = sharp_model()
    pred = logits.argmax(1)
    counts = np.bincount(5 * y + pred, minlength=25).reshape(5, 5)
    cost = (np.arange(5)[:, None] - np.arange(5)) ** 2
    expected_counts = np.outer(counts.sum(1), counts.sum(0)) / len(y)
    quadratic = 1 - (cost * counts).sum() / (cost * expected_counts).sum()
    return Outcome(float(quadratic), float(weighted_kappa(y, pred)), metrics.qwk(y=y, pred=pred))


@case("dlordinal", "SORD", 'absolute distances; orcu with `distance="absolute"` gives the same value', kind="differs")
def sord_of_dlordinal() -> Outcome:
    """Targets are softmax(-|y - k|^2) in the ORCU paper, softmax(-|y - k|) in dlordinal."""
    from dlordinal.losses import SORDLoss

    logits, labels = sharp_model(64)
    z, y = torch.tensor(logits), torch.tensor(labels)
    targets = softmax(-((labels[:, None] - np.arange(5.0)) ** 2))
    expected = -(targets * (logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))).sum(1).mean()
    value = SORDLoss(num_classes=5, train_targets=y, alpha=1.0)(z, y)
    return Outcome(float(expected), float(value), losses.create("sord", num_classes=5)(z, y).item())


@case("copies", "unimodality of 50, 10, 5, 35 %", "counts sign changes, so U-shapes count as unimodal", kind="differs")
def unimodality_of_copies() -> Outcome:
    """The row decreases and increases again: one sign change, but not unimodal by Eq. 15."""
    row = np.array([0.5, 0.1, 0.05, 0.35])
    changes = np.count_nonzero(np.diff(np.sign(np.diff(row))))
    return Outcome(0.0, float(changes <= 1), metrics.unimodality(row[None]))


@case("dlordinal", "CDW-CE at a logit of 100", "exponentiates raw logits", kind="breaks")
def cdw_ce_of_dlordinal() -> Outcome:
    """Three classes with the middle one true: -log(1 - p_0) = 100 - log 2, and nearly 0 for the last class."""
    from dlordinal.losses import CDWCELoss

    logits, y = torch.tensor([[100.0, 0.0, 0.0]]), torch.tensor([1])
    ours = losses.create({"name": "cdw_ce", "alpha": 1.0}, num_classes=3)
    return Outcome(100 - math.log(2), CDWCELoss(num_classes=3, alpha=1.0)(logits, y).item(), ours(logits, y).item())


@case("dlordinal", "gradient of CDW-CE at a logit of 60", "the same in float32", kind="breaks")
def cdw_ce_gradient_of_dlordinal() -> Outcome:
    """The loss is 60 - log(exp(z_1) + exp(z_2)): the middle class has half of the gradient."""
    from dlordinal.losses import CDWCELoss

    logits, y = torch.tensor([[60.0, 0.0, 0.0]], requires_grad=True), torch.tensor([1])
    gradients = [
        float(torch.autograd.grad(loss(logits, y), logits)[0][0, 1])
        for loss in (
            CDWCELoss(num_classes=3, alpha=1.0),
            losses.create({"name": "cdw_ce", "alpha": 1.0}, num_classes=3),
        )
    ]
    return Outcome(-0.5, *gradients)


@case("dlordinal", "bits of the SORD loss for float32 logits", "targets are float64", kind="breaks")
def precision_of_dlordinal() -> Outcome:
    """A float64 loss is slower and does not run on Apple GPUs."""
    from dlordinal.losses import SORDLoss

    logits, y = torch.zeros(4, 3), torch.tensor([0, 1, 2, 2])
    bits = [
        torch.finfo(loss(logits, y).dtype).bits
        for loss in (SORDLoss(num_classes=3, train_targets=y, alpha=1.0), losses.create("sord", num_classes=3))
    ]
    return Outcome(32, *bits)


@case("dlordinal", "RPS of a label -1", "is treated as a class below all others", kind="breaks")
def negative_label_of_dlordinal() -> Outcome:
    """A label that is not a class is an error."""
    from dlordinal.metrics import ranked_probability_score

    y, probs = np.array([-1, 0]), np.full((2, 2), 0.5)
    return Outcome(
        REFUSED,
        _value_or_refused(lambda: ranked_probability_score(y, probs)),
        _value_or_refused(lambda: metrics.rps(probs, y)),
    )


def _value_or_refused(call: Callable[[], Any]) -> float | str:
    try:
        return float(call())
    except (InputError, ValueError, IndexError):
        return REFUSED


@case(
    "netcal",
    "temperature of float32 probabilities",
    "finite differences are zero in float32, so it stays at its initial value",
    kind="breaks",
)
def temperature_of_netcal() -> Outcome:
    """Softmax in torch returns float32. See EFS-OpenSource/calibration-framework#48 and #61."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from netcal.scaling import TemperatureScaling

    logits, y = sharp_model()
    calibrator = TemperatureScaling()
    calibrator.fit(softmax(logits).astype(np.float32), y)
    return Outcome(best_temperature(logits, y), 1 / float(calibrator.weights[0]), _orcu_temperature(logits, y))


def _orcu_temperature(logits: Any, y: Any) -> float:
    from orcu.calibrators import TemperatureScaling

    return TemperatureScaling(shrinkage=0).fit(logits.astype(np.float32), y).temperature_


@case(
    "copies",
    "temperature with a widely copied training loop",
    "LBFGS with learning rate 0.01 and 50 steps stops early",
    kind="breaks",
)
def temperature_of_copies() -> Outcome:
    """Initial value 1.5, LBFGS, learning rate 0.01, at most 50 iterations, as in gpleiss/temperature_scaling."""
    logits, y = sharp_model()
    z, labels = torch.tensor(logits).float(), torch.tensor(y)
    temperature = torch.nn.Parameter(torch.full((1,), 1.5))
    optimizer = torch.optim.LBFGS([temperature], lr=0.01, max_iter=50)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(z / temperature, labels)
        loss.backward()
        return loss

    optimizer.step(closure)
    return Outcome(best_temperature(logits, y), temperature.item(), _orcu_temperature(logits, y))


@case("torchmetrics", "ECE with one probability of 1.0000002", "treats the whole batch as logits", kind="breaks")
def above_one_of_torchmetrics() -> Outcome:
    """One value with a rounding error changes all rows; orcu raises an error that names the row."""
    from torchmetrics.functional.classification import multiclass_calibration_error

    logits, y = sharp_model()
    probs = softmax(logits).astype(np.float32)
    probs[0] = [1.0000002, 0, 0, 0, 0]
    value = multiclass_calibration_error(torch.tensor(probs), torch.tensor(y), 5, n_bins=15)
    return Outcome(REFUSED, float(value), _value_or_refused(lambda: metrics.ece(probs, y)))


@case("torchmetrics", "ECE of 30 million calibrated rows", "sums in float32", kind="breaks", slow=True)
def many_rows_of_torchmetrics() -> Outcome:
    """Pixels and tokens have such sizes. The expected value is summed in float64."""
    from torchmetrics.functional.classification import multiclass_calibration_error

    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1, 30_000_000).astype(np.float32)
    y = (rng.random(len(confidence)) >= confidence).astype(np.int64)
    bins = np.minimum((15 * confidence.astype(np.float64)).astype(np.int64), 14)
    gaps = np.bincount(bins, weights=(y == 0) - confidence.astype(np.float64))
    probs = np.stack([confidence, 1 - confidence], 1)
    value = multiclass_calibration_error(torch.from_numpy(probs), torch.from_numpy(y), 2, n_bins=15)
    return Outcome(float(np.abs(gaps).sum() / len(y)), float(value), metrics.ece(probs, y))


@case("torch-uncertainty", "ACE of four rows in 15 bins", "divides by empty bins", kind="breaks")
def few_rows_of_torch_uncertainty() -> Outcome:
    """Four groups of one row each."""
    probs, y = CERTAIN
    return Outcome(adaptive_error(probs, y), _adaptive_of_torch_uncertainty(probs, y), metrics.ace(probs, y))


@case("MAPIE", "class-wise ECE in two bins", "counts edges as bins, so one bin is missing", kind="breaks")
def bins_of_mapie() -> Outcome:
    """Outcomes with 25 % happen and those with 75 % do not: an error of 0.75, unless both are in one bin."""
    from mapie.metrics.calibration import expected_calibration_error

    probs, y = np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([1, 0])
    options = {"num_bins": 2, "split_strategy": "uniform", "classwise": True, "class_labels": y}
    value = expected_calibration_error(probs.argmax(1) == y, probs, **options)
    return Outcome(0.75, float(value), metrics.sce(probs, y, n_bins=2))


@case("skorch", "sum of `predict_proba` with a custom loss", "returns logits for unknown losses", kind="breaks")
def probabilities_of_skorch() -> Outcome:
    """A row of probabilities sums to 1. skorch recognises `OrdinalCriterion`."""
    from skorch import NeuralNetClassifier

    from orcu import ORCULoss
    from orcu.integrations.skorch import OrdinalCriterion

    logits, y = sharp_model(64)
    x, sums = logits.astype(np.float32), []
    for criterion in (ORCULoss, OrdinalCriterion):
        torch.manual_seed(0)
        options = {"criterion__num_classes": 5, "max_epochs": 1, "train_split": None, "verbose": 0}
        net = NeuralNetClassifier(torch.nn.Linear(5, 5), criterion=criterion, **options)
        sums.append(float(net.fit(x, y).predict_proba(x)[0].sum()))
    return Outcome(1.0, *sums)


@case(
    "MAPIE",
    "share of non-contiguous sets, cut of the diamonds",
    "takes the most probable classes regardless of their order",
    kind="breaks",
    slow=True,
)
def holes_of_mapie() -> Outcome:
    """An MLP of scikit-learn with APS at 90 %: {fair, ideal} is a possible set; orcu's sets are contiguous."""
    from estimator import task
    from mapie.classification import SplitConformalClassifier
    from sklearn.neural_network import MLPClassifier

    from orcu import OrdinalPredictionSets

    diamonds = task()
    x, y, rest = diamonds.x, diamonds.y, diamonds.test
    network = MLPClassifier((64,), max_iter=10, random_state=0).fit(x[diamonds.train], y[diamonds.train])
    calibration, new = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    sets = SplitConformalClassifier(network, confidence_level=0.9, conformity_score="aps", prefit=True, random_state=0)
    members = sets.conformalize(x[calibration], y[calibration]).predict_set(x[new])[1][:, :, 0]
    ordinal_sets = OrdinalPredictionSets(alpha=0.1).fit(network.predict_proba(x[calibration]), y[calibration])
    low, high = ordinal_sets.predict(network.predict_proba(x[new]))
    classes = np.arange(members.shape[1])
    inside = (low[:, None] <= classes) & (classes <= high[:, None])
    return Outcome(0.0, _non_contiguous(members), _non_contiguous(inside))


def _non_contiguous(members: Any) -> float:
    """Share of rows whose members (0 or 1 for each class) are not contiguous."""
    starts = np.diff(members.astype(int), axis=1, prepend=0) == 1
    return float(np.mean(starts.sum(1) > 1))


@case(
    "dlordinal",
    "share of rows with NaN probabilities after 10 epochs of CDW-CE, diamonds",
    "the loss is NaN",
    kind="breaks",
    slow=True,
)
def training_with_dlordinal() -> Outcome:
    """The same skorch network with the loss of dlordinal and with orcu's."""
    from dlordinal.losses import CDWCELoss
    from estimator import fit_skorch, task

    diamonds = task()
    x, y = diamonds.x, diamonds.y
    shares = []
    for loss in (CDWCELoss(num_classes=5), losses.create({"name": "cdw_ce", "alpha": 0.5}, num_classes=5)):
        net = fit_skorch(lambda loss=loss: loss, x[diamonds.train], y[diamonds.train])
        probs = net.predict_proba(x[diamonds.test].astype(np.float32))
        shares.append(float(np.mean(~np.isfinite(probs).all(1))))
    return Outcome(0.0, *shares)


@case("copies", "jump of the ORCU barrier at the margin, s = 3", "adds s instead of 1/s", kind="breaks")
def barrier_of_a_copy() -> Outcome:
    """Left limit -(1/s) log(1/s^2); right limit s r + (2/s) log s + 1/s at r = -1/s^2, or + s in the copy."""
    s = 3.0
    margin, left = -1 / s**2, -math.log(1 / s**2) / s
    copied = s * margin + 2 / s * math.log(s) + s
    barrier = losses.create("orcu", num_classes=2, scale=s)
    values = []
    for side in (margin - 1e-6, margin + 1e-6):  # two logits with the directed gap `side`
        barrier(torch.tensor([[-side, 0.0]], dtype=torch.float64), torch.tensor([0]))
        values.append(float(barrier.parts["lbe"]))
    return Outcome(0.0, copied - left, round(values[1] - values[0], 4))


@case("copies", "NaN in the gradient of ORCU at equal logits", "log of the unused branch of torch.where", kind="breaks")
def ties_of_a_copy() -> Outcome:
    """A zero-initialised output layer has equal logits in its first step."""
    s, logits, y = 3.0, torch.zeros(1, 3, requires_grad=True), torch.tensor([0])
    gaps = logits[:, 1:] - logits[:, :-1]  # directed gaps: the label is the first class
    barrier = torch.where(gaps <= -1 / s**2, -torch.log(-gaps) / s, s * gaps + 2 / s * math.log(s) + 1 / s)
    copied = torch.autograd.grad(barrier.sum(), logits)[0]
    ours = torch.autograd.grad(losses.create("orcu", num_classes=3, scale=s)(logits, y), logits)[0]
    return Outcome(0.0, float(copied.isnan().any()), float(ours.isnan().any()))


def run_cases() -> list[dict[str, Any]]:
    """Results of all cases whose package is installed."""
    rows = []
    for entry in CASES:
        number = version(entry.peer) if entry.peer != "copies" else ""
        if number is not None:
            outcome = entry.run()
            rows.append(
                {
                    "kind": entry.kind,
                    "peer": entry.peer,
                    "version": number,
                    "what": entry.what,
                    "why": entry.why,
                    **{name: _json_number(value) for name, value in outcome._asdict().items()},
                    "reproduced": not agree(outcome.peer_value, outcome.expected),
                    "orcu_correct": agree(outcome.orcu_value, outcome.expected),
                }
            )
            print(f"{entry.peer} {number}, {entry.what}: {outcome}", flush=True)
    return rows


def _json_number(value: float | str) -> float | str:
    """A number with three digits; NaN and infinity as text."""
    if isinstance(value, str):
        return value
    return float(f"{value:.3g}") if math.isfinite(value) else str(value)


def run_timings(rounds: int) -> list[dict[str, Any]]:
    """Time ratios to the reference of each task: metrics, temperature scaling, losses, fits."""
    import calibrators as calibrator_bench
    import losses as loss_bench
    import metrics as metric_bench

    rows = []

    def add(what: str, size: str, times: dict[str, float]) -> None:
        reference = next(iter(times))
        ratios = {who: float(f"{seconds / times[reference]:.2g}") for who, seconds in times.items()}
        rows.append({"what": what, "size": size, "reference": reference, "seconds": times[reference], "ratios": ratios})
        print(what, size, ratios, flush=True)

    probs, y = metric_bench.sample(1_000_000, 8)
    for name, contenders in metric_bench.candidates(probs, y).items():
        functions = {"plain numpy": contenders.pop("reference"), **contenders}
        del functions["orcu, checked rows"]
        add(name, "1,000,000 x 8", loss_bench.median_times(functions, repeats=1, rounds=rounds))

    logits, y = calibrator_bench.sample(10_000, 5)
    fits = calibrator_bench.candidates(logits, y, small=True)
    functions = {who.split(":")[0]: run for who, run in fits.items() if who.endswith(": temperature")}
    add("temperature scaling, fit", "10,000 x 5", loss_bench.median_times(functions, repeats=1, rounds=rounds))

    families = {"SORD": "sord", "CDW-CE": "cdw_ce", "ORCU": "orcu", "CORAL": "coral"}
    for size in ((4096, 5), (262_144, 5)):
        steps = loss_bench.steps(*size)
        orcu_steps = {f"orcu: {name}": title for title, name in families.items()}
        wanted = {"F.cross_entropy": "", **orcu_steps} | {
            who: who.split(": ")[1] for who in steps if who.split(": ")[-1] in families and who not in orcu_steps
        }
        functions = {who: steps[who] for who in wanted if who in steps}
        times = loss_bench.median_times(functions, repeats=max(1, 60_000 // size[0]), rounds=rounds)
        for title in families:
            group = {"F.cross_entropy": times["F.cross_entropy"]}
            group |= {who.split(":")[0]: seconds for who, seconds in times.items() if wanted[who] == title}
            if len(group) > 1:
                add(f"{title}, forward and backward", f"{size[0]:,} x {size[1]}", group)

    add("fit on the diamonds, 10 epochs", "43,152 rows", fit_seconds())
    return rows


def fit_seconds() -> dict[str, float]:
    """Median time of three interleaved fits, after a small warm-up fit."""
    from estimator import fits, task
    from losses import median_times

    names = {
        "skorch, cross-entropy": "skorch, one network",
        "orcu's ce, one network": "orcu, one network",
        "orcu, an ensemble of networks": "orcu, ensemble of networks",
        "scikit-learn's MLP": "scikit-learn, one network",
        "mord (LogisticAT)": "mord, linear",
        "skordinal (POM)": "skordinal, linear",
    }
    diamonds = task()
    by_name = fits(diamonds)
    for name in names:
        by_name[name](diamonds.train[:1000])
    runs = {title: partial(by_name[name], diamonds.train) for name, title in names.items()}
    return median_times(runs, repeats=1, rounds=3, warm_ups=0)


def main() -> None:
    """Run all comparisons, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="folder of peers.json")
    parser.add_argument("--rounds", type=int, default=5, help="number of interleaved rounds (default 5)")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    peers = []
    for peer in PEERS:
        number = version(peer.name)
        if number is not None:
            peers.append(
                {
                    "name": peer.name,
                    "version": number,
                    "features": peer.features,
                    "missing": peer.missing,
                    "changes": changes(peer),
                }
            )
    content = {
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "numpy", "scikit-learn")},
        },
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "not_installed": [peer.name for peer in PEERS if version(peer.name) is None],
        "peers": peers,
        "cases": run_cases(),
        "speed": run_timings(options.rounds),
    }
    show(content)
    if options.write:
        with atomic_write(options.write / "peers.json") as fresh:
            fresh.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def show(content: dict[str, Any]) -> None:
    """Print the results as tables."""
    console = Console(width=150)
    console.print(content["date"], content["versions"], "not installed:", content["not_installed"])
    tables = {
        "peers": ("name", "version", "changes"),
        "cases": ("peer", "version", "what", "expected", "peer_value", "orcu_value", "reproduced"),
        "speed": ("what", "size", "reference", "ratios"),
    }
    for name, columns in tables.items():
        table = Table(title=name)
        for column in columns:
            table.add_column(column)
        for row in content[name]:
            table.add_row(*(str(row[column]) for column in columns))
        console.print(table)


if __name__ == "__main__":
    main()
