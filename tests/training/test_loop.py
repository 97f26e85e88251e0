"""The loop: it learns, it goes on to the bit, it keeps to its recipe."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from orcu import losses, metrics
from orcu.data.batches import ArrayBatches
from orcu.errors import InputError, UnknownNameError
from orcu.models.classifier import Classifier, predict
from orcu.models.tabular import Mlp
from orcu.training import checkpoint
from orcu.training.config import TRAIN_CONFIGS, TrainConfig
from orcu.training.loop import fit
from orcu.training.optim import Plateau, adamw, rates, schedule
from orcu.training.run import Run, RunConfig

QUICK = TrainConfig(epochs=6, batch_size=32, head_rate=3e-3, rate=3e-3)


def sample(seed=0, rows=300):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4)).astype(np.float32)
    y = np.clip(np.round(2 + x[:, 0] + 0.5 * x[:, 1]), 0, 4).astype(np.int64)
    return torch.from_numpy(x), y


def batches(x, y, **options):
    rows = np.arange(len(y))
    train = ArrayBatches(x, rows[:200], y, batch_size=32, shuffle=True, **options)
    return train, ArrayBatches(x, rows[200:], y, batch_size=64)


def model(seed=0, head="linear", dropout=0.2):
    torch.manual_seed(seed)
    return Classifier(Mlp(4, hidden=(16,), dropout=dropout), 5, head=head)


def trained(recipe=QUICK, loss="orcu", head="linear", folder=None, **options):
    x, y = sample()
    made = model(head=head)
    curves = fit(made, losses.create(loss, num_classes=5), *batches(x, y), recipe, folder=folder, **options)
    return made, curves


def same(one, two):
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), two.state_dict().values(), strict=True))


def test_the_papers_settings_are_the_defaults():
    images, texts = TRAIN_CONFIGS["images"], TRAIN_CONFIGS["texts"]
    assert (images.epochs, images.batch_size, images.head_rate, images.rate) == (100, 64, 0.01, 0.001)
    assert (images.weight_decay, images.schedule) == (0.01, "plateau")
    assert (images.plateau_factor, images.plateau_patience, images.plateau_threshold) == (0.1, 10, 1e-4)
    assert (texts.epochs, texts.batch_size, texts.head_rate, texts.rate) == (100, 256, 5e-4, 5e-4)
    assert (texts.weight_decay, texts.schedule) == (0.01, "linear")
    assert images.select is None


def test_recipes_refuse_what_they_cannot_do():
    with pytest.raises(UnknownNameError, match="Did you mean 'epochs'"):
        QUICK.but(epoch=3)
    for wrong, message in (
        ({"epochs": 0}, "epochs"),
        ({"batch_size": 1}, "batch_size"),
        ({"rate": -1.0}, "rate"),
        ({"schedule": "steps"}, "schedule"),
        ({"select": "f1"}, "criterion"),
        ({"patience": 3}, "name the criterion"),
        ({"clip": -1.0}, "clip"),
        ({"mixed_precision": "maybe"}, "true or false"),
        ({"rate": "fast"}, "rate"),
    ):
        with pytest.raises(InputError, match=message):
            QUICK.but(**wrong)


@pytest.mark.parametrize(("loss", "head"), [("orcu", "linear"), ("mdca", "linear"), ("poe", "poe"), ("ce", "unimodal")])
def test_the_loss_falls(loss, head):
    _, curves = trained(loss=loss, head=head, recipe=QUICK.but(epochs=12))
    assert curves[-1]["train_loss"] < curves[0]["train_loss"]
    assert curves[-1]["validation_accuracy"] > curves[0]["validation_accuracy"]
    assert {"validation_ece", "validation_sce", "validation_ace", "validation_qwk", "rate_0"} <= curves[-1].keys()


def test_the_parts_of_the_loss_are_told():
    _, curves = trained()
    assert curves[0]["train_softce"] + curves[0]["train_lbe"] == pytest.approx(curves[0]["train_loss"], abs=1e-5)


def test_labels_that_mean_nothing_do_worse(lev):
    splits = lev.split("five_folds", 0)
    every = np.arange(len(lev.manifest))
    matrix, _ = next(Run(lev, splits, RunConfig(loss="ce")).batches("train", rows=every).epoch(0))
    rng = np.random.default_rng(0)

    def accuracy(labels):
        torch.manual_seed(0)
        made = Classifier(Mlp(matrix.shape[1], hidden=(32,)), 5)
        parts = [ArrayBatches(matrix, splits[name], labels, shuffle=name == "train") for name in splits]
        fit(made, losses.create("orcu", num_classes=5), parts[0], parts[1], QUICK.but(epochs=10))
        probs = predict(made, parts[2].epoch(0))[0].softmax(1).double().numpy()
        return metrics.accuracy(probs, labels[splits["test"]])

    assert accuracy(lev.manifest.labels) > accuracy(rng.permutation(lev.manifest.labels)) + 0.1


def test_a_training_that_was_cut_off_goes_on_to_the_bit(tmp_path):
    whole, curves = trained(folder=tmp_path / "whole")

    def cut(moment):
        if moment.epoch == 3 and moment.step == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(folder=tmp_path / "cut", progress=cut)
    resumed, again = trained(folder=tmp_path / "cut")
    assert again == curves
    assert same(resumed, whole)
    plain, without = trained()
    assert without == curves
    assert same(plain, whole)


@pytest.mark.parametrize("schedule_name", ["linear", "plateau"])
def test_schedules_are_resumed_too(tmp_path, schedule_name):
    recipe = QUICK.but(schedule=schedule_name, plateau_patience=0, plateau_threshold=10.0)
    _, curves = trained(recipe)
    for count in (2, 6):  # the first call stops early, as if the epochs had been fewer
        stop = {"epochs": 6}
        if count == 2:

            def cut(moment):
                if moment.epoch == 2:
                    raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                trained(recipe.but(**stop), folder=tmp_path, progress=cut)
        else:
            _, again = trained(recipe, folder=tmp_path)
    assert again == curves
    assert curves[-1]["rate_0"] < curves[0]["rate_0"]


@pytest.mark.parametrize(("every", "saved"), [(0.0, 6), (3600.0, 1)])
def test_quick_epochs_share_a_checkpoint_and_the_last_has_one(tmp_path, monkeypatch, every, saved):
    epochs = []
    real = checkpoint.save

    def save(folder, **told):
        epochs.append(len(told["state"]["curves"]))
        real(folder, **told)

    monkeypatch.setattr(checkpoint, "save", save)
    monkeypatch.setattr("orcu.training.loop.SAVE_EVERY", every)
    trained(folder=tmp_path)
    assert len(epochs) == saved
    assert epochs[-1] == QUICK.epochs == 6


def test_a_checkpoint_survives_a_cut_between_its_two_renames(tmp_path):
    whole, _ = trained(folder=tmp_path)
    (tmp_path / "checkpoint").rename(tmp_path / ".checkpoint.old")
    again, curves = trained(folder=tmp_path)
    assert len(curves) == QUICK.epochs
    assert same(again, whole)
    state = json.loads((tmp_path / "checkpoint" / "state.json").read_text())
    (tmp_path / "checkpoint" / "state.json").write_text(json.dumps(state | {"version": 99}))
    with pytest.raises(InputError, match="another version"):
        trained(folder=tmp_path)


KILLED = """
import os, pathlib, signal, sys, torch
from orcu import data
from orcu.training import loop
from orcu.training.run import Run, RunConfig

def kill(moment):
    if moment.epoch == 3 and moment.step == 2:
        os.kill(os.getpid(), signal.SIGKILL)

loop.SAVE_EVERY = 0.0
torch.set_num_threads(1)
prepared = data.load(sys.argv[1])
run = Run(prepared, prepared.split("five_folds", 0), RunConfig(recipe={"epochs": 6}), device="cpu")
run.train(pathlib.Path(sys.argv[2]), progress=kill)
"""


def test_a_killed_process_goes_on_to_the_bit(tmp_path, lev):
    killed = subprocess.run([sys.executable, "-c", KILLED, lev.folder, tmp_path / "killed"], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "killed" / "checkpoint" / "state.json").exists()
    for name in ("killed", "whole"):
        run = Run(lev, lev.split("five_folds", 0), RunConfig(recipe={"epochs": 6}), device="cpu")
        run.train(tmp_path / name)
    for file in ("model.safetensors", "test.parquet", "curves.parquet"):
        assert (tmp_path / "killed" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_a_negative_loss_that_falls_is_no_plateau():
    made = model()
    optimizer = adamw(made, QUICK)
    plan = Plateau(optimizer, QUICK.but(plateau_patience=0))
    for loss in (-1.0, -1.01, -1.02, -1.03):
        plan.epoch(loss)
    assert rates(optimizer) == [3e-3, 3e-3]
    plan.epoch(-1.03)
    assert rates(optimizer) == pytest.approx([3e-4, 3e-4])


def test_head_and_body_have_rates_of_their_own_and_linear_ends_at_zero():
    made = model()
    recipe = QUICK.but(head_rate=0.01, rate=0.001, schedule="linear")
    optimizer = adamw(made, recipe)
    assert rates(optimizer) == [0.01, 0.001]
    assert len(optimizer.param_groups[0]["params"]) == 2
    plan = schedule(optimizer, recipe, steps=4)
    for _ in range(2):
        plan.step()
    assert rates(optimizer) == pytest.approx([0.005, 0.0005])
    for _ in range(2):
        plan.step()
    assert rates(optimizer) == [0, 0]


def test_a_cosine_is_at_half_halfway_and_a_constant_stays():
    for name, shares in (("cosine", [0.85355339, 0.5, 0.14644661, 0]), ("constant", [1, 1, 1, 1])):
        recipe = QUICK.but(head_rate=0.01, rate=0.001, schedule=name)
        optimizer = adamw(model(), recipe)
        plan = schedule(optimizer, recipe, steps=4)
        for share in shares:
            plan.step()
            assert rates(optimizer) == pytest.approx([0.01 * share, 0.001 * share])


def test_a_module_without_a_head_is_trained_on_weighted_rows_that_nobody_judges():
    x, y = sample()
    rows = np.arange(len(y))
    weights = (y > 1).astype(np.float32)  # the others do not count
    made = nn.Linear(4, 5)
    train = ArrayBatches(x, rows, y, weights=weights, batch_size=32, shuffle=True)
    curves = fit(made, losses.create("ce", num_classes=5), train, None, QUICK.but(epochs=30, rate=0.1))
    assert curves[-1]["train_loss"] < curves[0]["train_loss"]
    assert set(curves[0]) == {"epoch", "train_loss", "train_ce", "rate_0"}
    assert set(made(x).argmax(1).tolist()) <= {2, 3, 4}


def test_what_is_judged_after_an_epoch_may_select_it():
    x, y = sample()
    train, _ = batches(x, y)
    criterion = losses.create("ce", num_classes=5)
    recipe = QUICK.but(select="rps", patience=2)
    with pytest.raises(InputError, match="no validation rps is measured"):
        fit(model(), criterion, train, None, recipe)
    kept = {}

    def judge(epoch, made):
        kept[epoch] = {name: value.clone() for name, value in made.state_dict().items()}
        return {"validation_rps": [3.0, 2.0, 1.0, 4.0, 4.0, 0.0][epoch]}

    made = model()
    curves = fit(made, criterion, train, None, recipe, after_epoch=judge)
    assert len(curves) == 5
    assert all(torch.equal(value, kept[2][name]) for name, value in made.state_dict().items())


def test_orders_may_be_drawn_one_after_another():
    x, y = sample(rows=10)
    one, two = (
        ArrayBatches(x, np.arange(10), y, batch_size=4, generator=torch.Generator().manual_seed(0)) for _ in range(2)
    )
    first, second = ([inputs for inputs, _ in one.epoch(0)] for _ in range(2))
    assert len(one) == len(first) == 3
    assert torch.equal(torch.cat(first).sort(0).values, x.sort(0).values)
    assert not torch.equal(torch.cat(first), torch.cat(second))
    assert torch.equal(torch.cat(first), torch.cat([inputs for inputs, _ in two.epoch(0)]))


def test_the_best_epoch_is_selected_and_patience_ends_it(tmp_path):
    recipe = QUICK.but(epochs=30, select="sce", patience=3)
    made, curves = trained(recipe, folder=tmp_path)
    values = [curve["validation_sce"] for curve in curves]
    assert len(curves) < 30
    assert len(values) - 1 - int(np.argmin(values)) == 3
    x, y = sample()
    logits, _ = predict(made, batches(x, y)[1].epoch(0))
    assert metrics.sce(logits.double().softmax(1).numpy(), y[200:]) == pytest.approx(min(values), abs=1e-9)
    again, _ = trained(recipe, folder=tmp_path)
    assert same(again, made)


def test_half_precision_clipping_and_determinism_train():
    _, curves = trained(QUICK.but(mixed_precision=True, clip=1.0, deterministic=True))
    torch.use_deterministic_algorithms(False)
    assert curves[-1]["train_loss"] < curves[0]["train_loss"]


def test_a_loss_that_is_not_finite_is_told():
    class Broken(nn.Module):
        def forward(self, logits, y):
            return logits.sum() * float("nan")

    x, y = sample()
    with pytest.raises(InputError, match="epoch 1: the training loss is nan"):
        fit(model(), Broken(), *batches(x, y), QUICK)


@pytest.mark.slow
def test_two_processes_train_one_model(tmp_path, lev):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "orcu"]
    subprocess.run(
        [
            *torchrun,
            "train",
            "--folds",
            "1",
            "--data",
            str(lev.folder),
            "-o",
            str(tmp_path / "two"),
            "--set",
            "epochs=5",
        ],
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    from orcu import Predictions
    from orcu.training.model_file import load_model

    told = Predictions.read(tmp_path / "two" / "validation.parquet")
    curves = json.loads((tmp_path / "two" / "checkpoint" / "state.json").read_text())["curves"]
    assert curves[-1]["validation_sce"] == pytest.approx(metrics.sce(told.probs, told.y), abs=1e-9)
    assert curves[-1]["train_loss"] < curves[0]["train_loss"]
    load_model(tmp_path / "two")
