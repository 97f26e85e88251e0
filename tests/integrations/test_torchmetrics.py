"""`OrdinalMetrics` and `OrdinalMetric` equal a tally, for any split and number of processes."""

import copy
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection

import orcu
from orcu import Tally, metrics
from orcu.errors import InputError
from orcu.integrations import torchmetrics as integration
from orcu.integrations.torchmetrics import OrdinalMetric, OrdinalMetrics, names

PROCESS = """
import json, os, sys
import torch
from torchmetrics import MetricCollection
from orcu.integrations.torchmetrics import OrdinalMetric, OrdinalMetrics

folder = sys.argv[1]
child = os.fork()  # shares the slow import of torchmetrics
rank = 0 if child else 1
torch.distributed.init_process_group(
    "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
)
data = torch.load(f"{folder}/rows.pt")
part = slice(0, 317) if rank == 0 else slice(317, None)  # unequal parts
metric = MetricCollection(
    {"all": OrdinalMetrics(5, prefix="val_"), "sce": OrdinalMetric("sce", 5)}
)
for logits, y in zip(data["logits"][part].split(50), data["y"][part].split(50)):
    metric.update(logits, y)
values = metric.compute()
with open(f"{folder}/{rank}.json", "w") as file:
    json.dump({name: value.double().item().hex() for name, value in values.items()}, file)
torch.distributed.destroy_process_group()
if child:
    sys.exit(os.waitpid(child, 0)[1] != 0)
"""


@pytest.fixture(scope="module")
def sample():
    torch.manual_seed(0)
    return torch.randn(1000, 5) * 2, torch.randint(5, (1000,))


def as_bits(values):
    return {name: value.double().item().hex() for name, value in values.items()}


def test_ordinal_metrics_equals_the_tally(sample):
    logits, y = sample
    tally = Tally(5)
    tally.update(logits=logits, y=y)
    metric = OrdinalMetrics(5)
    metric.update(logits, y)
    values = metric.compute()
    assert list(values) == names() == [name for name in tally.compute() if name != "ace"]
    assert all(value.dtype == torch.float64 and torch.isfinite(value) for value in values.values())
    assert {name: value.item() for name, value in values.items()} == {
        name: value for name, value in tally.compute().items() if name != "ace"
    }
    assert values["sce"].item() == pytest.approx(metrics.sce(logits.double().softmax(1), y))


def test_ordinal_metrics_is_bit_equal_for_any_split(sample):
    logits, y = sample
    at_once = OrdinalMetrics(5)
    at_once.update(logits, y)
    order = torch.randperm(len(y))
    parts = OrdinalMetrics(5)
    for rows in order.split(37):
        parts(logits[rows], y[rows])  # forward also returns the values of the batch
    assert as_bits(parts.compute()) == as_bits(at_once.compute())

    first, second = OrdinalMetrics(5), OrdinalMetrics(5)
    first.update(logits[:100], y[:100])
    second.update(logits[100:], y[100:])
    first.merge_state(second)
    assert as_bits(first.compute()) == as_bits(at_once.compute())
    assert first.tally().rows == 1000


@pytest.mark.slow
def test_ordinal_metrics_of_two_processes_is_bit_equal(sample, tmp_path):
    logits, y = sample
    torch.save({"logits": logits, "y": y}, tmp_path / "rows.pt")
    script = tmp_path / "process.py"
    script.write_text(PROCESS)
    process = subprocess.run(
        [sys.executable, script, tmp_path],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(Path(orcu.__file__).parents[1])},
    )
    assert process.returncode == 0, process.stderr
    values = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    metric = OrdinalMetrics(5, prefix="val_")
    metric.update(logits, y)
    expected = as_bits(metric.compute())
    assert values[0] == values[1] == {**expected, "sce": expected["val_sce"]}


def test_ordinal_metric_in_a_collection_shares_one_state(sample):
    metric = MetricCollection({name: OrdinalMetric(name, 5) for name in ("sce", "qwk", "rps")})
    metric.update(*sample)
    assert len(metric.compute_groups) == 1
    metrics_at_once = OrdinalMetrics(5, names=["sce", "qwk", "rps"])
    metrics_at_once.update(*sample)
    assert metric.compute() == metrics_at_once.compute()
    assert metric["qwk"].higher_is_better is True
    assert metric["sce"].higher_is_better is False


def test_ordinal_metric_with_probs_sample_weight_n_bins_names_and_prefix(sample):
    logits, y = sample
    probs, weight = logits.double().softmax(1), torch.rand(len(y))
    metric = OrdinalMetric("ece", 5, n_bins=7, inputs="probs")
    metric.update(probs, y, weight)
    assert metric.compute().item() == pytest.approx(metrics.ece(probs, y, n_bins=7, sample_weight=weight))
    some = OrdinalMetrics(5, names=["mae", "accuracy"], prefix="test/")
    some.update(logits, y)
    assert list(some.compute()) == ["test/mae", "test/accuracy"]


def test_ordinal_metrics_reset_copy_dtype_and_state_dict(sample):
    logits, y = sample
    metric = OrdinalMetrics(5).half().set_dtype(torch.float16).to(torch.float16)
    assert metric.sums.dtype == metric.rows.dtype == torch.int64
    metric.update(logits, y)
    before = as_bits(metric.compute())
    copied = copy.deepcopy(metric)
    metric.reset()
    assert metric.sums.abs().sum() == 0
    metric.update(logits[:1], y[:1])
    assert metric.tally().rows == 1
    assert as_bits(copied.compute()) == before
    restored = OrdinalMetrics(5)
    copied.persistent(True)
    restored.persistent(True)
    restored.load_state_dict(copied.state_dict())
    assert np.array_equal(restored.tally().state, copied.tally().state)


def test_ordinal_metrics_refuses_invalid_arguments(sample):
    logits, y = sample
    with pytest.raises(InputError, match="^names: 'ace'"):
        OrdinalMetric("ace", 5)
    with pytest.raises(InputError, match="'ecee'.*'ece'"):
        OrdinalMetrics(5, names=["ecee"])
    with pytest.raises(InputError, match="^names:"):
        OrdinalMetrics(5, names="ece")
    with pytest.raises(InputError, match="'logit'"):
        OrdinalMetrics(5, inputs="logit")
    with pytest.raises(InputError, match="^preds:.*inputs='probs'"):
        OrdinalMetrics(5).update(logits.softmax(1), y)
    with pytest.raises(InputError, match="^probs:.*logits"):
        OrdinalMetrics(5, inputs="probs").update(logits, y)
    with pytest.raises(InputError, match="^logits: .*4.* 5"):
        OrdinalMetrics(4).update(logits, y)


def test_import_without_torchmetrics_names_the_package(monkeypatch):
    monkeypatch.delitem(sys.modules, integration.__name__)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None)
    with pytest.raises(ImportError, match="pip install torchmetrics"):
        importlib.import_module(integration.__name__)
