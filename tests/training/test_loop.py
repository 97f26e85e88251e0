"""The training loop: learning, checkpoints, schedulers, epoch selection and hyperparameters."""

import json
import os
import signal
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn

from orcu import losses, metrics
from orcu.data.batches import ArrayBatches
from orcu.errors import InputError, UnknownNameError
from orcu.models.classifier import Classifier, predict_batches
from orcu.models.tabular import Mlp
from orcu.training import checkpoint
from orcu.training.config import TRAIN_CONFIGS, TrainConfig
from orcu.training.loop import fit
from orcu.training.optim import Scheduler, adamw, learning_rates
from orcu.training.run import Run, RunConfig

QUICK = TrainConfig(epochs=6, batch_size=32, head_learning_rate=3e-3, learning_rate=3e-3)


def make_rows(seed=0, rows=300):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4)).astype(np.float32)
    y = np.clip(np.round(2 + x[:, 0] + 0.5 * x[:, 1]), 0, 4).astype(np.int64)
    return torch.from_numpy(x), y


def make_batches(x, y, **options):
    rows = np.arange(len(y))
    train = ArrayBatches(x, rows[:200], y, batch_size=32, shuffle=True, **options)
    return train, ArrayBatches(x, rows[200:], y, batch_size=64)


def make_model(seed=0, head="linear", dropout=0.2):
    torch.manual_seed(seed)
    return Classifier(Mlp(4, hidden_layer_sizes=(16,), dropout=dropout), 5, head=head)


def fit_model(train_config=QUICK, loss="orcu", head="linear", folder=None, **options):
    """A trained model, and its curves."""
    x, y = make_rows()
    model, criterion = make_model(head=head), losses.create(loss, num_classes=5)
    return model, fit(model, criterion, *make_batches(x, y), train_config, folder=folder, **options)


def equal_weights(first, second):
    pairs = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_train_configs_defaults_are_those_of_the_paper():
    images, texts = TRAIN_CONFIGS["images"], TRAIN_CONFIGS["texts"]
    assert (images.epochs, images.batch_size, images.head_learning_rate, images.learning_rate) == (100, 64, 0.01, 0.001)
    assert (images.weight_decay, images.scheduler) == (0.01, "plateau")
    assert (images.plateau_factor, images.plateau_patience, images.plateau_threshold) == (0.1, 10, 1e-4)
    assert (texts.epochs, texts.batch_size, texts.head_learning_rate, texts.learning_rate) == (100, 256, 5e-4, 5e-4)
    assert (texts.weight_decay, texts.scheduler) == (0.01, "linear")
    assert images.select is None


def test_train_config_refuses_invalid_values():
    with pytest.raises(UnknownNameError, match="Did you mean 'epochs'"):
        QUICK.replace(epoch=3)
    for wrong, message in (
        ({"epochs": 0}, "^epochs: "),
        ({"batch_size": 1}, "^batch_size: "),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"scheduler": "steps"}, "scheduler 'steps'"),
        ({"select": "f1"}, "select.*'f1'"),
        ({"patience": 3}, "^patience: .*select"),
        ({"max_grad_norm": -1.0}, "^max_grad_norm: "),
        ({"mixed_precision": "maybe"}, "^mixed_precision: "),
        ({"learning_rate": "fast"}, "learning_rate"),
    ):
        with pytest.raises(InputError, match=message):
            QUICK.replace(**wrong)


@pytest.mark.parametrize(("loss", "head"), [("orcu", "linear"), ("mdca", "linear"), ("poe", "poe"), ("ce", "unimodal")])
def test_fit_lowers_the_loss(loss, head):
    _, curves = fit_model(loss=loss, head=head, train_config=QUICK.replace(epochs=12))
    assert curves[-1]["train_loss"] < curves[0]["train_loss"]
    assert curves[-1]["validation_accuracy"] > curves[0]["validation_accuracy"]
    assert {"validation_ece", "validation_sce", "validation_ace", "validation_qwk", "learning_rate_0"} <= curves[
        -1
    ].keys()


def test_fit_curves_have_the_terms_of_the_loss():
    _, curves = fit_model()
    assert curves[0]["train_softce"] + curves[0]["train_lbe"] == pytest.approx(curves[0]["train_loss"], abs=1e-5)


def test_fit_random_labels_have_lower_accuracy(lev):
    splits = lev.split("five_folds", 0)
    all_rows = np.arange(len(lev.manifest))
    matrix, _ = next(Run(lev, splits, RunConfig(loss="ce")).batches("train", rows=all_rows).epoch(0))
    rng = np.random.default_rng(0)

    def accuracy(labels):
        torch.manual_seed(0)
        model = Classifier(Mlp(matrix.shape[1], hidden_layer_sizes=(32,)), 5)
        parts = [ArrayBatches(matrix, splits[name], labels, shuffle=name == "train") for name in splits]
        fit(model, losses.create("orcu", num_classes=5), parts[0], parts[1], QUICK.replace(epochs=10))
        probs = predict_batches(model, parts[2].epoch(0))[0].softmax(1).double().numpy()
        return metrics.accuracy(probs, labels[splits["test"]])

    assert accuracy(lev.manifest.labels) > accuracy(rng.permutation(lev.manifest.labels)) + 0.1


def test_fit_interrupted_training_resumes_with_equal_weights(tmp_path):
    complete, curves = fit_model(folder=tmp_path / "complete")

    def cut(progress):
        if progress.epoch == 3 and progress.step == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_model(folder=tmp_path / "cut", progress=cut)
    resumed, again = fit_model(folder=tmp_path / "cut")
    assert again == curves
    assert equal_weights(resumed, complete)
    without_folder, same_curves = fit_model()
    assert same_curves == curves
    assert equal_weights(without_folder, complete)


@pytest.mark.parametrize("scheduler", ["linear", "plateau"])
def test_fit_resumes_the_scheduler(tmp_path, scheduler):
    train_config = QUICK.replace(scheduler=scheduler, plateau_patience=0, plateau_threshold=10.0)
    _, curves = fit_model(train_config)
    for count in (2, 6):  # the first call stops early, as if the epochs had been fewer
        stop = {"epochs": 6}
        if count == 2:

            def cut(progress):
                if progress.epoch == 2:
                    raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                fit_model(train_config.replace(**stop), folder=tmp_path, progress=cut)
        else:
            _, again = fit_model(train_config, folder=tmp_path)
    assert again == curves
    assert curves[-1]["learning_rate_0"] < curves[0]["learning_rate_0"]


@pytest.mark.parametrize(("seconds", "checkpoints"), [(0.0, 6), (3600.0, 1)])
def test_fit_writes_a_checkpoint_after_some_seconds_and_at_the_end(tmp_path, monkeypatch, seconds, checkpoints):
    epochs = []
    real = checkpoint.save

    def save(folder, **content):
        epochs.append(len(content["state"]["curves"]))
        real(folder, **content)

    monkeypatch.setattr(checkpoint, "save", save)
    monkeypatch.setattr("orcu.training.loop.CHECKPOINT_SECONDS", seconds)
    fit_model(folder=tmp_path)
    assert len(epochs) == checkpoints
    assert epochs[-1] == QUICK.epochs == 6


def test_restore_checkpoint_after_interrupted_rename_or_of_another_version(tmp_path):
    complete, _ = fit_model(folder=tmp_path)
    (tmp_path / "checkpoint").rename(tmp_path / ".checkpoint.old")
    again, curves = fit_model(folder=tmp_path)
    assert len(curves) == QUICK.epochs
    assert equal_weights(again, complete)
    state = json.loads((tmp_path / "checkpoint" / "state.json").read_text())
    (tmp_path / "checkpoint" / "state.json").write_text(json.dumps(state | {"version": 99}))
    with pytest.raises(InputError, match="checkpoint: .*version 99"):
        fit_model(folder=tmp_path)


KILLED = """
import os, pathlib, signal, sys, torch
from orcu import data
from orcu.training import loop
from orcu.training.run import Run, RunConfig

def kill(progress):
    if progress.epoch == 3 and progress.step == 2:
        os.kill(os.getpid(), signal.SIGKILL)

loop.CHECKPOINT_SECONDS = 0.0
torch.set_num_threads(1)
prepared = data.load(sys.argv[1])
run = Run(prepared, prepared.split("five_folds", 0), RunConfig(training={"epochs": 6}), device="cpu")
run.train(pathlib.Path(sys.argv[2]), progress=kill)
"""


@pytest.mark.slow
def test_run_killed_process_resumes_with_equal_files(tmp_path, lev):
    killed = subprocess.run([sys.executable, "-c", KILLED, lev.folder, tmp_path / "killed"], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "killed" / "checkpoint" / "state.json").exists()
    for name in ("killed", "complete"):
        run = Run(lev, lev.split("five_folds", 0), RunConfig(training={"epochs": 6}), device="cpu")
        run.train(tmp_path / name)
    for file in ("model.safetensors", "test.parquet", "curves.parquet"):
        assert (tmp_path / "killed" / file).read_bytes() == (tmp_path / "complete" / file).read_bytes()


def test_scheduler_plateau_threshold_is_absolute_for_negative_losses():
    optimizer = adamw(make_model(), QUICK)
    scheduler = Scheduler(optimizer, QUICK.replace(plateau_patience=0), steps=4)
    for loss in (-1.0, -1.01, -1.02, -1.03):
        scheduler.end_epoch(loss)
    assert learning_rates(optimizer) == [3e-3, 3e-3]
    scheduler.end_epoch(-1.03)
    assert learning_rates(optimizer) == pytest.approx([3e-4, 3e-4])


@pytest.mark.parametrize(
    ("scheduler", "factors"),
    [("linear", [0.75, 0.5, 0.25, 0]), ("cosine", [0.85355339, 0.5, 0.14644661, 0]), ("constant", [1, 1, 1, 1])],
)
def test_scheduler_factors_apply_to_head_and_backbone(scheduler, factors):
    train_config = QUICK.replace(head_learning_rate=0.01, learning_rate=0.001, scheduler=scheduler)
    optimizer = adamw(make_model(), train_config)
    assert learning_rates(optimizer) == [0.01, 0.001]
    assert len(optimizer.param_groups[0]["params"]) == 2
    schedule = Scheduler(optimizer, train_config, steps=4)
    for factor in factors:
        schedule.step()
        assert learning_rates(optimizer) == pytest.approx([0.01 * factor, 0.001 * factor])


def test_fit_module_without_head_and_validation_uses_sample_weights():
    x, y = make_rows()
    rows = np.arange(len(y))
    weights = (y > 1).astype(np.float32)  # classes 0 and 1 have weight 0
    model = nn.Linear(4, 5)
    train = ArrayBatches(x, rows, y, weights=weights, batch_size=32, shuffle=True)
    curves = fit(model, losses.create("ce", num_classes=5), train, None, QUICK.replace(epochs=30, learning_rate=0.1))
    assert curves[-1]["train_loss"] < curves[0]["train_loss"]
    assert set(curves[0]) == {"epoch", "train_loss", "train_ce", "learning_rate_0"}
    assert set(model(x).argmax(1).tolist()) <= {2, 3, 4}


def test_fit_selects_an_epoch_by_a_metric_of_after_epoch():
    x, y = make_rows()
    train, _ = make_batches(x, y)
    criterion = losses.create("ce", num_classes=5)
    train_config = QUICK.replace(select="rps", patience=2)
    with pytest.raises(InputError, match="^select: .*rps"):
        fit(make_model(), criterion, train, None, train_config)
    weights = {}

    def evaluate(epoch, model):
        weights[epoch] = {name: value.clone() for name, value in model.state_dict().items()}
        return {"validation_rps": [3.0, 2.0, 1.0, 4.0, 4.0, 0.0][epoch]}

    model = make_model()
    curves = fit(model, criterion, train, None, train_config, after_epoch=evaluate)
    assert len(curves) == 5
    assert all(torch.equal(value, weights[2][name]) for name, value in model.state_dict().items())


def test_array_batches_with_generator_draw_a_new_order_each_epoch():
    x, y = make_rows(rows=10)
    loader, equal_loader = (
        ArrayBatches(x, np.arange(10), y, batch_size=4, generator=torch.Generator().manual_seed(0)) for _ in range(2)
    )
    first, second = ([inputs for inputs, _ in loader.epoch(0)] for _ in range(2))
    assert len(loader) == len(first) == 3
    assert torch.equal(torch.cat(first).sort(0).values, x.sort(0).values)
    assert not torch.equal(torch.cat(first), torch.cat(second))
    assert torch.equal(torch.cat(first), torch.cat([inputs for inputs, _ in equal_loader.epoch(0)]))


def test_fit_keeps_the_best_epoch_and_stops_after_patience(tmp_path):
    train_config = QUICK.replace(epochs=30, select="sce", patience=3)
    model, curves = fit_model(train_config, folder=tmp_path)
    values = [curve["validation_sce"] for curve in curves]
    assert len(curves) < 30
    assert len(values) - 1 - int(np.argmin(values)) == 3
    x, y = make_rows()
    logits, _ = predict_batches(model, make_batches(x, y)[1].epoch(0))
    assert metrics.sce(logits.double().softmax(1).numpy(), y[200:]) == pytest.approx(min(values), abs=1e-9)
    again, _ = fit_model(train_config, folder=tmp_path)
    assert equal_weights(again, model)


def test_fit_with_mixed_precision_gradient_clipping_and_determinism():
    _, curves = fit_model(QUICK.replace(mixed_precision=True, max_grad_norm=1.0, deterministic=True))
    torch.use_deterministic_algorithms(False)
    assert curves[-1]["train_loss"] < curves[0]["train_loss"]


def test_fit_checkpoint_keeps_the_state_of_the_gradient_scaler(tmp_path, monkeypatch):
    scalers = []

    def float16(device, enabled):
        scalers.append(torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3))
        return nullcontext(), scalers[-1]

    monkeypatch.setattr("orcu.training.loop.half_precision", float16)
    fit_model(QUICK.replace(epochs=2), folder=tmp_path)
    fit_model(QUICK.replace(epochs=2), folder=tmp_path)  # finished: restores the checkpoint, trains nothing
    assert scalers[0].get_scale() > 2.0**10
    assert scalers[1].state_dict() == scalers[0].state_dict()


def test_fit_loss_that_is_not_finite_raises():
    class NanLoss(nn.Module):
        def forward(self, logits, y):
            return logits.sum() * float("nan")

    x, y = make_rows()
    with pytest.raises(InputError, match="^epoch 1: .*nan"):
        fit(make_model(), NanLoss(), *make_batches(x, y), QUICK)


@pytest.mark.slow
def test_torchrun_two_processes_train_one_model(tmp_path, lev):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "orcu"]
    subprocess.run(
        [*torchrun, "train", "--cv", "1", "--data", str(lev.folder), "-o", str(tmp_path / "two"), "--set", "epochs=5"],
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    from orcu import Predictions
    from orcu.training.model_file import load_model

    validation = Predictions.read(tmp_path / "two" / "validation.parquet")
    curves = json.loads((tmp_path / "two" / "checkpoint" / "state.json").read_text())["curves"]
    assert curves[-1]["validation_sce"] == pytest.approx(metrics.sce(validation.probs, validation.y), abs=1e-9)
    assert curves[-1]["train_loss"] < curves[0]["train_loss"]
    load_model(tmp_path / "two")
