"""Tests of `Evaluation.log` with the real trackers, offline: the logged values are read back."""

import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from orcu import Predictions, evaluate
from orcu.errors import InputError

PREDICTIONS = """
import json, sys
import numpy as np
from orcu import evaluate

rng = np.random.default_rng(0)
logits, y = rng.normal(size=(60, 3)), rng.integers(3, size=60)
evaluation = evaluate(logits=logits, y=y, n_resamples=50)
folder = sys.argv[1]
"""


class Notebook:
    """A minimal tracker of a user."""

    def __init__(self):
        self.pages = []

    def log_metrics(self, metrics, step=None):
        self.pages.append((step, metrics))


@pytest.fixture(scope="module")
def evaluation():
    rng = np.random.default_rng(0)
    return evaluate(logits=rng.normal(size=(60, 3)), y=rng.integers(3, size=60), n_resamples=50)


def expected(evaluation, prefix="orcu/"):
    """All values and the ends of their intervals by their names in a tracker."""
    values = {}
    for name, estimate in evaluation.metrics.items():
        values |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    return {prefix + name: value for name, value in values.items()}


def test_log_to_an_object_with_log_metrics_gives_values_and_intervals(evaluation):
    tracker = Notebook()
    evaluation.log(tracker, step=4, prefix="val/")
    assert tracker.pages == [(4, expected(evaluation, "val/"))]
    assert all(type(value) is float for value in tracker.pages[0][1].values())


def test_log_infinite_values_are_omitted_with_a_warning():
    tracker = Notebook()
    impossible = evaluate(probs=[[0.0, 1.0], [0.5, 0.5], [0.3, 0.7]], y=[0, 1, 1], n_resamples=0)
    with pytest.warns(UserWarning, match=r"nll = inf") as caught:
        impossible.log(tracker)
    assert caught[0].filename == __file__  # where the user called it
    logged = tracker.pages[0][1]
    assert "orcu/nll" not in logged
    assert logged["orcu/accuracy"] == impossible["accuracy"].value
    assert not any(name.endswith(("_low", "_high")) for name in logged)  # none were drawn


def test_log_subgroup_under_another_prefix():
    rng = np.random.default_rng(1)
    probs, y = rng.dirichlet(np.ones(3), size=40), rng.integers(3, size=40)
    evaluation = evaluate(Predictions(probs=probs, y=y, subgroup=["n", "s"] * 20), n_resamples=50)
    tracker = Notebook()
    evaluation.log(tracker)
    evaluation.subgroups["n"].log(tracker, prefix="orcu/n/")
    assert tracker.pages[1][1]["orcu/n/mae"] == evaluation.subgroups["n"]["mae"].value


@pytest.mark.parametrize("target", [None, "mlflow", 3, Notebook, object()])
def test_log_to_an_object_that_is_no_tracker_raises(target, evaluation):
    with pytest.raises(InputError, match=r"^to: .*mlflow.*SummaryWriter.*wandb"):
        evaluation.log(target)


def test_log_to_tensorboard_writes_scalars_and_tables(evaluation, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        evaluation.log(writer, step=7)
    events = EventAccumulator(str(tmp_path)).Reload()
    values = expected(evaluation)
    assert set(events.Tags()["scalars"]) == set(values)
    for name, value in values.items():
        (event,) = events.Scalars(name)
        assert (event.step, event.value) == (7, pytest.approx(value, rel=1e-6))
    (text,) = events.Tensors("orcu/report/text_summary")
    assert "Expected calibration error" in text.tensor_proto.string_val[0].decode()


def run_script(package, script, folder, **settings):
    """JSON output of a script in its own process, since these packages start threads and processes."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    environment = os.environ | {"HOME": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)} | settings
    command = [sys.executable, "-c", PREDICTIONS + script, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


MLFLOW = """
import mlflow

mlflow.set_tracking_uri("file:" + folder + "/mlruns")
with mlflow.start_run() as run:
    evaluation.log(mlflow, step=2)
    evaluation.log(mlflow, step=3, report=False)
client = mlflow.MlflowClient()
history = {name: [(one.step, one.value) for one in client.get_metric_history(run.info.run_id, name)]
           for name in client.get_run(run.info.run_id).data.metrics}
page = mlflow.artifacts.load_text(run.info.artifact_uri + "/orcu/report.html")
print(json.dumps({"history": history, "page": page == evaluation.to_html()}))
"""


@pytest.mark.slow
def test_log_to_mlflow_writes_metrics_and_the_report(evaluation, tmp_path):
    logged = run_script("mlflow", MLFLOW, tmp_path, MLFLOW_ALLOW_FILE_STORE="true", MLFLOW_DISABLE_TELEMETRY="true")
    assert logged["page"]
    values = expected(evaluation)
    assert logged["history"] == {name: [[2, value], [3, value]] for name, value in values.items()}


WANDB = """
from pathlib import Path

import wandb
from wandb.proto.wandb_internal_pb2 import Record
from wandb.sdk.internal.datastore import DataStore

quiet = wandb.Settings(silent=True, x_disable_stats=True, x_disable_meta=True, disable_git=True, disable_code=True)
with wandb.init(mode="offline", dir=folder, project="grades", settings=quiet) as run:
    evaluation.log(run)
    evaluation.log(wandb, report=False)  # the module logs to its current run
wandb.teardown()  # its process has written all when it has ended
store, steps = DataStore(), []
store.open_for_scan(str(next(Path(folder).glob("wandb/offline-run-*/*.wandb"))))
while (data := store.scan_data()) is not None:
    record = Record()
    record.ParseFromString(data)
    if record.WhichOneof("record_type") == "history":
        steps.append({"/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item})
(page,) = Path(folder).glob("wandb/offline-run-*/files/media/html/orcu/report_*.html")
print(json.dumps({"steps": steps, "page": page.read_text() == evaluation.to_html()}))
"""


@pytest.mark.slow
def test_log_to_wandb_writes_metrics_and_the_report_in_one_step(evaluation, tmp_path):
    logged = run_script("wandb", WANDB, tmp_path, WANDB_ERROR_REPORTING="false")
    assert logged["page"]
    first, second = logged["steps"]
    values = expected(evaluation)
    for number, step in enumerate((first, second)):
        assert step["_step"] == number
        assert {name: value for name, value in step.items() if name in values} == pytest.approx(values)
    assert first["orcu/report/_type"] == "html-file"
    assert "orcu/report/_type" not in second
