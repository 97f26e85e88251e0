"""Copies of rows in `train`: kept in one split and one fold, counted in the card; images and texts by content."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from orcu import data
from orcu.models.kinds import ModelConfig
from orcu.training.config import TRAIN_CONFIGS
from orcu.training.ensemble_run import EnsembleRun
from orcu.training.experiment import Callback, split_rows, train
from orcu.training.run import RunConfig, row_copies

SETTINGS = {"training": {"epochs": 1}, "device": "cpu", "calibrator": "temperature", "estimators": ["linear"], "cv": 2}


def write_table(path, x, y):
    path.mkdir()
    rows = [",".join(map(str, [*row, k])) for row, k in zip(x.round(4).tolist(), y.tolist(), strict=True)]
    header = ",".join([*(f"x{k}" for k in range(x.shape[1])), "grade"])
    (path / "t.csv").write_text("\n".join([header, *rows]) + "\n")
    return path


class Recorder(Callback):
    def __init__(self):
        self.counts = []

    def copies(self, rows, total, leaking):
        self.counts.append((rows, total, leaking))


@pytest.fixture
def repeated(tmp_path):
    """80 rows with random labels, five times each."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 3)), np.arange(80) % 3
    return write_table(tmp_path / "rows", np.repeat(x, 5, axis=0), np.repeat(y, 5))


def test_train_on_repeated_rows_keeps_copies_in_one_split_and_reports_them(repeated, tmp_path):
    recorder = Recorder()
    options = {"root": repeated, "options": {"label": "grade"}, "callback": recorder}
    experiment = train("table", tmp_path / "model", **options, **SETTINGS)
    assert recorder.counts == [(400, 400, 0)]
    assert experiment.evaluation.metrics["accuracy"].value < 0.7  # 0.2 reports 1.0 on copies of the training rows
    values = experiment.prepared.manifest.feature("x0")
    splits = [{values[row] for row in rows} for rows in experiment.splits.values()]
    assert not any(splits[a] & splits[b] for a, b in ((0, 1), (0, 2), (1, 2)))
    assert json.loads((tmp_path / "model" / "card.json").read_text())["data"]["copies"] == 400


def test_train_with_a_protocol_reports_copies_in_several_splits(repeated, tmp_path):
    recorder = Recorder()
    options = {"root": repeated, "options": {"label": "grade"}, "callback": recorder, "protocol": "five_folds"}
    train("table", tmp_path / "model", **options, **SETTINGS)
    (rows, total, leaking) = recorder.counts[0]
    assert (rows, total) == (400, 400)
    assert leaking > 50


def test_split_rows_with_natural_ties_is_the_split_without_groups(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.integers(4, size=(300, 3)).astype(float)
    y = np.digitize(x.sum(axis=1) + 2 * rng.normal(size=300), [3, 5])
    prepared, _ = data.prepare(
        "table", write_table(tmp_path / "rows", x, y), output=tmp_path / "p", options={"label": "grade"}
    )
    assert row_copies(prepared) is None
    assert [len(rows) for rows in split_rows(prepared, (70, 15, 15), 0).values()] == [211, 45, 44]


def test_split_rows_and_folds_keep_equal_texts_together(tmp_path):
    """Before, equal texts (and images) were in several folds of an ensemble."""
    rng, texts = np.random.default_rng(0), tmp_path / "texts"
    texts.mkdir()
    words = [f"text {rng.integers(20)},{k % 3}" for k in range(100)]
    (texts / "t.csv").write_text("text,label\n" + "\n".join(words) + "\n")
    prepared, _ = data.prepare("texts", texts, output=tmp_path / "t", options={"label": "label"})
    copies = row_copies(prepared)
    assert len(np.unique(copies)) == len(set(prepared.manifest.column("text"))) < 21
    splits = split_rows(prepared, (60, 20, 20), 0)
    parts = [set(copies[rows]) for rows in splits.values()]
    assert not parts[0] & parts[1]
    assert not (parts[0] | parts[1]) & parts[2]
    run = SimpleNamespace(  # a `Run` would load a backbone
        prepared=prepared,
        splits=splits,
        labels=prepared.manifest.labels,
        targets=prepared.manifest.labels,
        config=RunConfig(),
        model_config=ModelConfig("texts", ["0", "1", "2"]),
        train_config=TRAIN_CONFIGS["frozen"],
    )
    ensemble_run = EnsembleRun(run, ["ce"], cv=3)
    content = copies[ensemble_run.rows]
    for fold in ensemble_run.folds:
        assert not set(content[fold.test]) & set(content[fold.all_training])
