"""Data of each figure against an independent computation."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from matplotlib.figure import Figure as Canvas

from orcu import InputError, Predictions, losses
from orcu.bench.calibrated import calibrate, compute_metrics
from orcu.bench.run import write_index
from orcu.bench.spec import Spec
from orcu.errors import UnknownNameError
from orcu.figures import typical
from orcu.figures.panels import (
    curves,
    distributions,
    equilibrium,
    gradcam,
    gradient,
    intro,
    reliability,
    scale,
    tsne,
    two_stage,
    update,
)
from orcu.figures.sources import RunFiles, Sources, match_rows
from orcu.figures.style import LOSS_STYLES, loss_styles


def test_reliability_of_predictions_equals_a_loop(results):
    predictions = Sources([results]).predictions("lev", "ce")
    diagram, ece = reliability.of_predictions(predictions)
    top, correct = predictions.probs.max(1), predictions.probs.argmax(1) == predictions.labels
    bins, total = [], 0.0
    for b in range(15):
        rows = (top > b / 15) & (top <= (b + 1) / 15)
        if rows.any():
            bins.append((top[rows].mean(), correct[rows].mean(), rows.sum(), (b + 0.5) / 15))
            total += rows.mean() * abs(correct[rows].mean() - top[rows].mean())
    prob_pred, prob_true, count, center = np.array(bins).T
    assert diagram.prob_pred == pytest.approx(prob_pred)
    assert diagram.prob_true == pytest.approx(prob_true)
    assert diagram.count == pytest.approx(count)
    assert diagram.center == pytest.approx(center)
    assert ece == pytest.approx(total)


def test_reliability_bars_have_the_heights_of_the_bins():
    table = np.array([[0.0, 40.0, 60.0], [0.0, 24.0, 54.0], [0.0, 30.0, 36.0]])
    ax = Canvas().add_subplot()
    reliability.draw_bars(ax, reliability.data(table), ece=0.123)
    bars = [(round(p.get_y(), 6), round(p.get_y() + p.get_height(), 6)) for p in ax.patches]
    # first bin: predicted 0.6, observed 0.75; second bin: predicted 0.9, observed 0.6
    assert bars[:4] == [(0.0, 0.6), (0.0, 0.6), (0.6, 0.75), (0.6, 0.9)]
    caps = [segment[0][1] for lines in ax.collections for segment in lines.get_segments()]
    assert caps == pytest.approx([0.75, 0.6])
    assert ax.texts[0].get_text() == "ECE 12.3 %"


def test_sources_predictions_concatenate_the_folds(results):
    sources = Sources([results])
    predictions = sources.predictions("lev", "orcu")
    runs = sources.runs("lev", "orcu")
    parts = [pq.read_table(run.path / "test.parquet") for run in runs]
    assert [run.fold for run in runs] == [0, 1]
    assert predictions.ids.tolist() == [i for part in parts for i in part.column("id").to_pylist()]
    assert predictions.logits[-1, 0] == pytest.approx(parts[1].column("logit_1").to_pylist()[-1])
    assert sources.losses() == ["ce", "sord", "ls", "orcu", "s = 1", "s = 5"]
    assert Sources([results], losses=["orcu", "ce"]).losses() == ["orcu", "ce"]


def test_distributions_select_the_row_at_the_median_confidence(results):
    sources = Sources([results])
    sord, orcu = (sources.predictions("lev", name) for name in ("sord", "orcu"))
    for correct in (True, False):
        pairs = distributions.data(sord, orcu, correct=correct, n_examples=4)
        assert len({pair.label for pair in pairs}) == len(pairs) <= 4
        for pair in pairs:
            row = orcu.ids.tolist().index(pair.id)
            hits = [model.probs[row].argmax() == pair.label for model in (sord, orcu)]
            assert hits == [correct, correct]
            assert pair.probs[1] == pytest.approx(orcu.probs[row])
            both = (sord.probs.argmax(1) == orcu.labels) == correct
            both &= (orcu.probs.argmax(1) == orcu.labels) == correct
            confidences = np.sort(orcu.probs.max(1)[both & (orcu.labels == pair.label)])
            assert orcu.probs[row].max() == confidences[(len(confidences) - 1) // 2]


def test_labels_shown_are_evenly_spaced():
    assert typical.labels_shown(np.repeat(np.arange(8), 3), 4) == [0, 2, 5, 7]
    assert typical.labels_shown(np.array([3, 1]), 4) == [1, 3]


def test_curves_data_is_the_mean_over_folds(results):
    sources = Sources([results])
    band = curves.data(sources.runs("lev", "ce"))["qwk"]
    columns = [
        pq.read_table(run.path / "curves.parquet").column("validation_qwk").to_pylist()
        for run in sources.runs("lev", "ce")
    ]
    assert band.x.tolist() == [1, 2, 3]
    assert band.mean == pytest.approx(100 * np.mean(columns, axis=0))
    assert band.deviation == pytest.approx(100 * np.std(columns, axis=0, ddof=1))


def test_scale_data_best_scale_has_the_lowest_validation_sce(results):
    runs = [run for run in Sources([results]).runs("lev") if scale.scale_of(run) is not None]
    scale_curves = scale.data(runs)
    by_scale = {}
    for file in results.parent.glob("runs/*/result.json"):
        result = json.loads(file.read_text())
        if isinstance(result["job"]["loss"], dict):
            by_scale.setdefault(result["job"]["loss"]["scale"], []).append(result["validation"]["sce"])
    means = {s: np.mean(values) for s, values in by_scale.items()}
    assert scale_curves.metrics["sce"].x.tolist() == sorted(means) == [1.0, 5.0]
    assert scale_curves.metrics["sce"].mean == pytest.approx([100 * means[s] for s in sorted(means)])
    assert scale_curves.best_scale == min(means, key=means.get)


def test_two_stage_data_is_the_mean_of_the_records(stages):
    records = Sources([stages]).two_stage()["lev"]
    branches = two_stage.data(records, "feasible_sce")
    assert list(branches) == ["sord", "hinge", "orcu"]
    assert "sord" not in two_stage.data(records, "zero_gradients")
    files = [pq.read_table(stages / f"fold_{fold}" / "two_stage.parquet") for fold in range(2)]
    last = [[row for row in file.to_pylist() if row["branch"] == "orcu"][-1]["feasible_sce"] for file in files]
    assert branches["orcu"].mean[-1] == pytest.approx(100 * np.mean(last))
    assert branches["orcu"].x.tolist() == [1, 2]


@pytest.mark.parametrize(("side", "k"), [("below", 1), ("above", 2)])
def test_gradient_data_equals_autograd(side, k):
    """Table I: the derivative of SoftCE and of one pair's penalty with respect to z_k."""
    gradients = gradient.data(scale=3.0, num_classes=5, true_class=2)
    target = torch.softmax(-((torch.arange(5.0, dtype=torch.float64) - 2) ** 2), 0)
    penalties = {
        "LBE": lambda r: -torch.log(-r) / 3 if r <= -1 / 9 else 3 * r,
        "hinge": lambda r: torch.clamp(r + 1 / 9, min=0),
        "SoftPlus": torch.nn.functional.softplus,
    }
    for index in (10, 300, 540):
        r0 = float(gradients.r[index])
        gaps = target.log().diff().numpy().copy()
        gaps[k] = -r0 if side == "below" else r0
        z = torch.tensor(np.concatenate([[0.0], np.cumsum(gaps)]), requires_grad=True)
        r = z[k] - z[k + 1] if side == "below" else z[k + 1] - z[k]
        softce = -(target * z.log_softmax(0)).sum()
        for penalty, function in penalties.items():
            (expected,) = torch.autograd.grad(softce + function(r), z, retain_graph=True)
            assert getattr(gradients, side)[penalty][index] == pytest.approx(float(expected[k]))
        (expected,) = torch.autograd.grad(softce, z, retain_graph=True)
        assert getattr(gradients, side)["SoftCE alone"][index] == pytest.approx(float(expected[k]))


def test_update_data_equals_a_step_of_the_losses():
    step = update.data(update.VIOLATED, true_class=3, scale=3.0, step_size=0.3)
    for loss, after in (("sord", step.without), ("orcu", step.with_lbe)):
        z = torch.tensor([update.VIOLATED], dtype=torch.float64, requires_grad=True)
        losses.create(loss, num_classes=8)(z, torch.tensor([3])).backward()
        expected = (z - 0.3 * z.grad).softmax(1)[0].detach().numpy()
        assert after == pytest.approx(expected)
    for options, message in (
        ({"logits": [1.0]}, "^logits:"),
        ({"logits": [1.0, 2.0], "true_class": 3}, r"^true_class: .*0\.\.1"),
    ):
        with pytest.raises(InputError, match=message):
            update.data(**options)


def test_equilibrium_data_has_a_zero_gradient():
    equilibria = equilibrium.data(3, scale=3.0)
    for y in range(3):
        z = torch.tensor(np.log(equilibria.probs[y : y + 1]), requires_grad=True)
        losses.create("orcu", num_classes=3)(z, torch.tensor([y])).backward()
        assert z.grad.numpy() == pytest.approx(0, abs=1e-8)
    assert equilibria.anchor[1] == pytest.approx(np.exp([-1, 0, -1]) / np.exp([-1, 0, -1]).sum())


def test_alignment_curve_passes_the_centroids_in_class_order(results):
    run = Sources([results]).runs("lev", "orcu")[0]
    y = run.predictions().labels
    embedding = tsne.data(run.features(), y, max_rows=120)
    assert embedding.points.shape == (120, 2)
    assert np.abs(embedding.points).max() == pytest.approx(1)
    rows = tsne.evenly_spaced(len(y), 120)
    positions = []
    for number, label in enumerate(np.unique(y[rows])):
        centroid = embedding.points[y[rows] == label].mean(0)
        assert embedding.centroids[number] == pytest.approx(centroid)
        distances = np.linalg.norm(embedding.curve - centroid, axis=1)
        assert distances.min() < 0.05
        positions.append(int(distances.argmin()))
    assert positions == sorted(positions)
    repeated = tsne.data(run.features(), y, max_rows=120)
    assert np.array_equal(embedding.points, repeated.points)


def make_predictions(unimodal, confidence, rows=200):
    """Predictions of three classes with an accuracy of 1/2 and a share of unimodal rows."""
    middle = (1 - confidence) * 0.8
    one_mode = [confidence, middle, 1 - confidence - middle]
    two_modes = [confidence, 1 - confidence - middle, middle]
    probs = [one_mode if row < unimodal * rows else two_modes for row in range(rows)]
    return Predictions(probs=probs, y=[row % 2 for row in range(rows)], classes=[0, 1, 2])


def test_intro_data_assigns_models_to_kinds():
    models = {
        "sure": make_predictions(0.5, 0.95),
        "surer": make_predictions(0.2, 0.99),
        "shaped": make_predictions(1.0, 0.95),
        "calm": make_predictions(0.3, 0.5),
        "good": make_predictions(1.0, 0.51),
    }
    kinds = intro.data(models)
    assert {kind: quality.name for kind, quality in kinds.items()} == {
        "neither": "surer",
        "unimodal only": "shaped",
        "calibrated only": "calm",
        "both": "good",
    }
    assert kinds["both"].ece == pytest.approx(0.01)
    assert kinds["neither"].unimodality == pytest.approx(0.2)
    assert intro.data({"good": models["good"]})["neither"] is None


def test_grad_cam_equals_the_formula(image_runs):
    from orcu.training.model_file import load_model

    model, _ = load_model(image_runs[-1])
    images = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    layer = gradcam.last_convolution(model, images)
    outputs, lowest = {}, []
    hook = layer.register_forward_hook(lambda _m, _i, output: outputs.update(maps=output))
    logits = model(images).logits
    hook.remove()
    for target in range(3):
        (gradients,) = torch.autograd.grad(logits[0, target], outputs["maps"], retain_graph=True)
        raw = (gradients.mean((2, 3), keepdim=True) * outputs["maps"]).sum(1, keepdim=True).detach()
        lowest.append(float(raw.min()))
        heat = torch.nn.functional.interpolate(raw.relu(), (64, 64), mode="bilinear")[0, 0].numpy()
        heat = (heat - heat.min()) / ((heat - heat.min()).max() or 1.0)
        assert gradcam.grad_cam(model, images, target) == pytest.approx(heat, abs=1e-5)
    assert min(lowest) < 0  # so the ReLU matters
    assert layer is model.backbone.body.layer4[-1].conv2


def test_gradcam_data_images_are_correct_for_all_losses(image_runs):
    sources = Sources(image_runs)
    runs = {loss: sources.runs(loss=loss)[0] for loss in sources.losses()}
    examples = gradcam.data(runs, n_examples=3)
    assert 1 <= len(examples) <= 3
    for example in examples:
        for loss, run in runs.items():
            predictions = run.predictions()
            row = predictions.ids.tolist().index(example.id)
            predicted = predictions.classes[predictions.probs[row].argmax()]
            assert predicted == example.label == predictions.label_names()[row]
            assert example.maps[loss].shape == example.image.shape[:2] == (64, 64)
            assert 0 <= example.maps[loss].min() <= example.maps[loss].max() <= 1


def test_sources_invalid_input_raises_and_names_it(results, tmp_path):
    with pytest.raises(InputError, match="^--from nowhere:"):
        Sources(["nowhere"])
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "runs.json").write_text("[]")
    with pytest.raises(InputError, match="^--from .*demo"):
        Sources([tmp_path]).runs()
    with pytest.raises(UnknownNameError, match="loss 'orc'.*'orcu'"):
        Sources([results], losses=["orc"]).runs()
    with pytest.raises(InputError, match="ce on iris"):
        Sources([results]).predictions("iris", "ce")
    first = Predictions(probs=[[0.6, 0.4]], y=[0], ids=["a"])
    second = Predictions(probs=[[0.6, 0.4]], y=[0], ids=["b"])
    with pytest.raises(InputError, match="ids"):
        match_rows([first, second])


def test_sources_names_with_equals_signs_and_other_case(results, tmp_path):
    predictions = Predictions(probs=[[0.6, 0.4]], y=[0])
    for name in ("a.parquet", "b=c.parquet"):
        predictions.write(tmp_path / name)
    arguments = [f"s = {s}={tmp_path / 'a.parquet'}" for s in (10, 5)]
    assert Sources([*arguments, f"x={tmp_path / 'b=c.parquet'}"]).losses() == ["s = 10", "s = 5", "x"]
    assert Sources([tmp_path / "b=c.parquet"]).losses() == ["b=c"]
    sources = Sources([results], data=["LEV"], losses=["ORCU", "Ce"])
    assert (sources.datasets(), sources.losses()) == (["lev"], ["orcu", "ce"])
    with pytest.raises(UnknownNameError, match="'lev'"):
        Sources([results], data=["LEW"]).runs()


def test_sources_losses_and_data_sets_have_the_order_of_the_spec(tmp_path):
    index = []
    for number, (name, loss) in enumerate(
        [("swd", "orcu"), ("swd", "s = 10"), ("swd", "ce"), ("lev", "ce"), ("lev", "orcu")]
    ):
        folder = tmp_path / "runs" / f"{number}"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps({"job": {"fold": 9 - number, "seed": 0, "loss": loss}}))
        index.append({"run": f"{number}", "data": name, "loss": loss, "fold": 9 - number, "seed": 0})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "runs.json").write_text(json.dumps(index))
    sources = Sources([tmp_path / "mine"])
    assert sources.datasets() == ["swd", "lev"]
    assert sources.losses() == sources.losses("swd") == ["orcu", "s = 10", "ce"]
    assert sources.losses("lev") == ["ce", "orcu"]
    for name in ("b", "a"):
        Predictions(probs=[[0.6, 0.4]], y=[0]).write(tmp_path / f"{name}.parquet")
    assert Sources([tmp_path / "b.parquet", tmp_path / "a.parquet"]).losses() == ["b", "a"]


@pytest.mark.parametrize("calibrator", ["temperature", "gap+projection", "mine"])
def test_sources_calibrator_is_fitted_on_the_validation_rows_of_each_run(results, calibrator, tmp_path):
    folder = tmp_path / "results" / "small"
    folder.mkdir(parents=True)
    (folder.parent / "runs").symlink_to(results.parent / "runs")
    shutil.copy2(results / "runs.json", folder)
    options = {"label": "mine", "name": "temperature", "search": "grid"}
    (folder / "spec.json").write_text(json.dumps({"calibrators": ["none", options]}))
    sources = Sources([folder], calibrator=calibrator)
    runs = sources.runs("lev", "orcu")
    expected = [
        calibrate(
            options if calibrator == "mine" else calibrator,
            *(Predictions.read(run.path / f"{split}.parquet") for split in ("validation", "test")),
        )
        for run in runs
    ]
    assert np.array_equal(sources.predictions("lev", "orcu").probs, np.concatenate([part.probs for part in expected]))
    assert sources.metrics(runs[0]).items() >= compute_metrics(expected[0]).items()
    assert sources.rows_caption("lev") == f"test rows of all folds (calibrator: {calibrator})"
    plain = Sources([folder], calibrator="none")
    assert plain.metrics(runs[0]) == json.loads((runs[0].path / "result.json").read_text())["test"]
    assert plain.rows_caption("lev") == "test rows of all folds"


def test_sources_calibrator_without_validation_rows_or_unknown_raises(tmp_path):
    path = tmp_path / "a.parquet"
    Predictions(probs=[[0.6, 0.4], [0.3, 0.7]], y=[0, 1]).write(path)
    with pytest.raises(InputError, match=r"--calibrator: .*a.parquet has no validation rows"):
        Sources([path], calibrator="temperature").predictions("", "a")
    with pytest.raises(UnknownNameError, match="'temperature'"):
        Sources([path], calibrator="temprature")


def test_scale_data_best_scale_follows_the_criterion_of_the_data_set():
    validation = {
        1.0: {"sce": 0.1, "ace": 0.1, "ece": 0.3, "qwk": 0.5},
        5.0: {"sce": 0.2, "ace": 0.2, "ece": 0.1, "qwk": 0.6},
    }
    for select, best in (("", 1.0), ("sce", 1.0), ("ece", 5.0), ("qwk", 5.0)):
        runs = [
            RunFiles(Path(), "sst5", f"s = {s:g}", fold, loss_spec={"scale": s}, validation=values, select=select)
            for s, values in validation.items()
            for fold in (0, 1)
        ]
        assert scale.data(runs).best_scale == best


def test_write_index_records_the_criterion_of_each_data_set(home, results):
    small = {"hidden_layer_sizes": [16], "training": {"epochs": 3}}  # a run of the fixture
    spec = Spec(name="selects", losses=["ce"], data=[{"set": "lev", "folds": [0], "select": "ece", **small}])
    write_index(spec, results.parent)
    (entry,) = json.loads((results.parent / "selects" / "runs.json").read_text())
    assert entry["select"] == "ece"
    assert Sources([results.parent / "selects"]).runs("lev")[0].select == "ece"


def test_sources_duplicate_name_raises(results, tmp_path):
    Predictions(probs=[[0.6, 0.4]], y=[0]).write(tmp_path / "a.parquet")
    path = tmp_path / "a.parquet"
    with pytest.raises(InputError, match=r"^--from: duplicate 'a' .*--from NAME="):
        Sources([path, f"a={path}"]).runs()
    assert Sources([path, f"b={path}"]).losses() == ["a", "b"]


def test_tsne_data_too_few_rows_raise():
    features, labels = np.eye(30), np.arange(30) % 3
    with pytest.raises(InputError, match="^max_rows: .*10, got 2"):
        tsne.data(features, labels, max_rows=2)
    with pytest.raises(InputError, match="10 rows, got 5"):
        tsne.data(features[:5], labels[:5])


@pytest.mark.parametrize("s", [0.05, 0.3, 3.0, 40.0])
def test_gradient_data_range_contains_the_margin(s):
    gradients = gradient.data(scale=s)
    assert gradients.r[0] <= -4 / s**2
    assert gradients.r[-1] == pytest.approx(-gradients.r[0] / 6)
    assert gradients.derivative["LBE"].max() == pytest.approx(s)


def test_sources_runs_use_the_newest_of_repeated_runs(results, tmp_path):
    import shutil

    shutil.copytree(results.parent, tmp_path / "results")
    copy = tmp_path / "results" / "small"
    old = next(run.path for run in Sources([copy]).runs("lev", "ce"))
    new = old.with_name("0" * 20)
    shutil.copytree(old, new)
    index = json.loads((copy / "runs.json").read_text())
    entry = next(entry for entry in index if entry["run"] == old.name)
    (copy / "runs.json").write_text(json.dumps([{**entry, "run": new.name}, *index]))
    (new / "timings.json").write_text(json.dumps({"seconds": 1.0, "finished": 4e9}))
    runs = Sources([copy]).runs("lev", "ce")
    assert [run.path.name for run in runs if run.fold == 0] == [new.name]
    assert len(runs) == 2


def test_loss_styles_of_unknown_losses_differ_from_the_papers():
    losses = ["ce", "sord", "orcu", "mine", "yours"]
    styles = loss_styles(losses)
    assert len({(style.color, str(style.line)) for style in styles.values()}) == len(losses)
    assert styles["sord"] == LOSS_STYLES["sord"]
    new = loss_styles([*LOSS_STYLES, "mine"])["mine"]  # no colour is left, so the line differs
    assert (new.color, new.line) not in {(style.color, style.line) for style in LOSS_STYLES.values()}
