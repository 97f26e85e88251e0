"""The torchmetrics classes are the tally, whatever the split and the number of processes."""

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
from orcu.integrations import torchmetrics as bridge
from orcu.integrations.torchmetrics import OrdinalMetric, OrdinalMetrics, names

PROCESS = """
import json, os, sys
import torch
from torchmetrics import MetricCollection
from orcu.integrations.torchmetrics import OrdinalMetric, OrdinalMetrics

folder = sys.argv[1]
child = os.fork()  # one import for both: torchmetrics takes long to import
rank = 0 if child else 1
torch.distributed.init_process_group(
    "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
)
kept = torch.load(f"{folder}/rows.pt")
mine = slice(0, 317) if rank == 0 else slice(317, None)  # unequal parts
metric = MetricCollection(
    {"all": OrdinalMetrics(5, prefix="val_"), "sce": OrdinalMetric("sce", 5)}
)
for logits, y in zip(kept["logits"][mine].split(50), kept["y"][mine].split(50)):
    metric.update(logits, y)
found = metric.compute()
with open(f"{folder}/{rank}.json", "w") as file:
    json.dump({name: value.double().item().hex() for name, value in found.items()}, file)
torch.distributed.destroy_process_group()
if child:
    sys.exit(os.waitpid(child, 0)[1] != 0)
"""


@pytest.fixture(scope="module")
def sample():
    torch.manual_seed(0)
    return torch.randn(1000, 5) * 2, torch.randint(5, (1000,))


def as_bits(found):
    return {name: value.double().item().hex() for name, value in found.items()}


def test_it_is_the_tally(sample):
    logits, y = sample
    tally = Tally(5)
    tally.update(logits=logits, y=y)
    metric = OrdinalMetrics(5)
    metric.update(logits, y)
    found = metric.compute()
    assert list(found) == names() == [name for name in tally.compute() if name != "ace"]
    assert all(value.dtype == torch.float64 and torch.isfinite(value) for value in found.values())
    assert {name: value.item() for name, value in found.items()} == {
        name: value for name, value in tally.compute().items() if name != "ace"
    }
    assert found["sce"].item() == pytest.approx(metrics.sce(logits.double().softmax(1), y))


def test_no_split_changes_a_bit(sample):
    logits, y = sample
    whole = OrdinalMetrics(5)
    whole.update(logits, y)
    order = torch.randperm(len(y))
    parts = OrdinalMetrics(5)
    for rows in order.split(37):
        parts(logits[rows], y[rows])  # forward: also gives the batch's own values
    assert as_bits(parts.compute()) == as_bits(whole.compute())

    first, second = OrdinalMetrics(5), OrdinalMetrics(5)
    first.update(logits[:100], y[:100])
    second.update(logits[100:], y[100:])
    first.merge_state(second)
    assert as_bits(first.compute()) == as_bits(whole.compute())
    assert first.tally().rows == 1000


@pytest.mark.slow
def test_two_processes_give_the_bits_of_one(sample, tmp_path):
    logits, y = sample
    torch.save({"logits": logits, "y": y}, tmp_path / "rows.pt")
    script = tmp_path / "process.py"
    script.write_text(PROCESS)
    done = subprocess.run(
        [sys.executable, script, tmp_path],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(Path(orcu.__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    one = OrdinalMetrics(5, prefix="val_")
    one.update(logits, y)
    wanted = as_bits(one.compute())
    assert told[0] == told[1] == {**wanted, "sce": wanted["val_sce"]}


def test_a_collection_shares_one_state(sample):
    metric = MetricCollection({name: OrdinalMetric(name, 5) for name in ("sce", "qwk", "rps")})
    metric.update(*sample)
    assert len(metric.compute_groups) == 1
    one = OrdinalMetrics(5, names=["sce", "qwk", "rps"])
    one.update(*sample)
    assert metric.compute() == one.compute()
    assert metric["qwk"].higher_is_better is True
    assert metric["sce"].higher_is_better is False


def test_probabilities_weights_bins_and_names(sample):
    logits, y = sample
    probs, weight = logits.double().softmax(1), torch.rand(len(y))
    metric = OrdinalMetric("ece", 5, bins=7, inputs="probs")
    metric.update(probs, y, weight)
    assert metric.compute().item() == pytest.approx(metrics.ece(probs, y, bins=7, weight=weight))
    some = OrdinalMetrics(5, names=["mae", "accuracy"], prefix="test/")
    some.update(logits, y)
    assert list(some.compute()) == ["test/mae", "test/accuracy"]


def test_reset_copies_and_types(sample):
    logits, y = sample
    metric = OrdinalMetrics(5).half().set_dtype(torch.float16).to(torch.float16)
    assert metric.limbs.dtype == metric.rows.dtype == torch.int64
    metric.update(logits, y)
    before = as_bits(metric.compute())
    copied = copy.deepcopy(metric)
    metric.reset()
    assert metric.limbs.abs().sum() == 0
    metric.update(logits[:1], y[:1])
    assert metric.tally().rows == 1
    assert as_bits(copied.compute()) == before
    kept = OrdinalMetrics(5)
    copied.persistent(True)
    kept.persistent(True)
    kept.load_state_dict(copied.state_dict())
    assert np.array_equal(kept.tally().limbs, copied.tally().limbs)


def test_what_cannot_be_used_is_told(sample):
    logits, y = sample
    with pytest.raises(InputError, match="'ace' needs the sorted order of all rows"):
        OrdinalMetric("ace", 5)
    with pytest.raises(InputError, match="unknown metric 'ecee'. Did you mean 'ece'"):
        OrdinalMetrics(5, names=["ecee"])
    with pytest.raises(InputError, match="expected names such as"):
        OrdinalMetrics(5, names="ece")
    with pytest.raises(InputError, match="unknown kind of inputs 'logit'"):
        OrdinalMetrics(5, inputs="logit")
    with pytest.raises(InputError, match="Say inputs='probs'"):
        OrdinalMetrics(5).update(logits.softmax(1), y)
    with pytest.raises(InputError, match="If these are logits"):
        OrdinalMetrics(5, inputs="probs").update(logits, y)
    with pytest.raises(InputError, match="for 4 classes, got 5"):
        OrdinalMetrics(4).update(logits, y)


def test_without_torchmetrics_it_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, bridge.__name__)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None)
    with pytest.raises(ImportError, match="pip install torchmetrics"):
        importlib.import_module(bridge.__name__)
