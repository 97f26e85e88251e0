"""What each figure shows, against a computation of the test's own."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from matplotlib.figure import Figure as Canvas

from orcu import InputError, Predictions, losses
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
from orcu.figures.sources import Sources, matched
from orcu.figures.style import LOOKS, looks


def test_reliability_is_that_of_a_loop(results):
    told = Sources([results]).predictions("lev", "ce")
    found, ece = reliability.of_predictions(told)
    top, right = told.probs.max(1), told.probs.argmax(1) == told.labels
    bins, total = [], 0.0
    for b in range(15):
        mine = (top > b / 15) & (top <= (b + 1) / 15)
        if mine.any():
            bins.append((top[mine].mean(), right[mine].mean(), mine.sum(), (b + 0.5) / 15))
            total += mine.mean() * abs(right[mine].mean() - top[mine].mean())
    said, seen, count, center = np.array(bins).T
    assert found.said == pytest.approx(said)
    assert found.seen == pytest.approx(seen)
    assert found.count == pytest.approx(count)
    assert found.center == pytest.approx(center)
    assert ece == pytest.approx(total)


def test_bars_and_gaps_are_as_high_as_the_numbers_say():
    table = np.array([[0.0, 40.0, 60.0], [0.0, 24.0, 54.0], [0.0, 30.0, 36.0]])
    ax = Canvas().add_subplot()
    reliability.draw_bars(ax, reliability.data(table), ece=0.123)
    bars = [(round(p.get_y(), 6), round(p.get_y() + p.get_height(), 6)) for p in ax.patches]
    # first bin: said 0.6, seen 0.75; second: said 0.9, seen 0.6
    assert bars[:4] == [(0.0, 0.6), (0.0, 0.6), (0.6, 0.75), (0.6, 0.9)]
    caps = [segment[0][1] for lines in ax.collections for segment in lines.get_segments()]
    assert caps == pytest.approx([0.75, 0.6])
    assert ax.texts[0].get_text() == "ECE 12.3 %"


def test_test_rows_of_all_folds_stand_together(results):
    sources = Sources([results])
    told = sources.predictions("lev", "orcu")
    runs = sources.runs("lev", "orcu")
    parts = [pq.read_table(run.path / "test.parquet") for run in runs]
    assert [run.fold for run in runs] == [0, 1]
    assert told.ids.tolist() == [i for part in parts for i in part.column("id").to_pylist()]
    assert told.logits[-1, 0] == pytest.approx(parts[1].column("logit_1").to_pylist()[-1])
    assert sources.losses()[-1] == "orcu"
    assert sources.losses(("sord", "ce", "nothing")) == ["sord", "ce"]
    assert Sources([results], losses=["orcu", "ce"]).losses(("sord",)) == ["orcu", "ce"]


def test_shown_rows_follow_the_rule(results):
    sources = Sources([results])
    sord, orcu = (sources.predictions("lev", name) for name in ("sord", "orcu"))
    for right in (True, False):
        pairs = distributions.data(sord, orcu, right=right, count=4)
        assert len({pair.label for pair in pairs}) == len(pairs) <= 4
        for pair in pairs:
            row = orcu.ids.tolist().index(pair.id)
            hits = [one.probs[row].argmax() == pair.label for one in (sord, orcu)]
            assert hits == [right, right]
            assert pair.probs[1] == pytest.approx(orcu.probs[row])
            both = (sord.probs.argmax(1) == orcu.labels) == right
            both &= (orcu.probs.argmax(1) == orcu.labels) == right
            rivals = np.sort(orcu.probs.max(1)[both & (orcu.labels == pair.label)])
            assert orcu.probs[row].max() == rivals[(len(rivals) - 1) // 2]


def test_labels_are_spread_over_the_order():
    assert typical.labels_shown(np.repeat(np.arange(8), 3), 4) == [0, 2, 5, 7]
    assert typical.labels_shown(np.array([3, 1]), 4) == [1, 3]


def test_curves_are_means_over_folds(results):
    sources = Sources([results])
    band = curves.data(sources.runs("lev", "ce"))["qwk"]
    columns = [
        pq.read_table(run.path / "curves.parquet").column("validation_qwk").to_pylist()
        for run in sources.runs("lev", "ce")
    ]
    assert band.x.tolist() == [1, 2, 3]
    assert band.mean == pytest.approx(100 * np.mean(columns, axis=0))
    assert band.deviation == pytest.approx(100 * np.std(columns, axis=0, ddof=1))


def test_the_chosen_scale_has_the_least_validation_sce(results):
    runs = [run for run in Sources([results]).runs("lev") if scale.scale_of(run) is not None]
    found = scale.data(runs)
    by_scale = {}
    for file in results.parent.glob("runs/*/result.json"):
        told = json.loads(file.read_text())
        if isinstance(told["job"]["loss"], dict):
            by_scale.setdefault(told["job"]["loss"]["scale"], []).append(told["validation"]["sce"])
    means = {s: np.mean(values) for s, values in by_scale.items()}
    assert found.metrics["sce"].x.tolist() == sorted(means) == [1.0, 5.0]
    assert found.metrics["sce"].mean == pytest.approx([100 * means[s] for s in sorted(means)])
    assert found.chosen == min(means, key=means.get)


def test_two_stage_panels_hold_the_records(stages):
    told = Sources([stages]).two_stage()["lev"]
    found = two_stage.data(told, "feasible_sce")
    assert list(found) == ["sord", "hinge", "orcu"]
    assert "sord" not in two_stage.data(told, "zero_gradients")
    files = [pq.read_table(stages / f"fold_{fold}" / "two_stage.parquet") for fold in range(2)]
    last = [[row for row in file.to_pylist() if row["branch"] == "orcu"][-1]["feasible_sce"] for file in files]
    assert found["orcu"].mean[-1] == pytest.approx(100 * np.mean(last))
    assert found["orcu"].x.tolist() == [1, 2]


@pytest.mark.parametrize(("name", "side", "k"), [("below", "below", 1), ("above", "above", 2)])
def test_gradients_are_those_of_the_losses(name, side, k):
    """Table I: the derivative in z_k of SoftCE and of one pair's penalty, by torch."""
    found = gradient.data(scale=3.0, classes=5, label=2)
    target = torch.softmax(-((torch.arange(5.0, dtype=torch.float64) - 2) ** 2), 0)
    penalties = {
        "LBE": lambda r: -torch.log(-r) / 3 if r <= -1 / 9 else 3 * r,
        "hinge": lambda r: torch.clamp(r + 1 / 9, min=0),
        "SoftPlus": torch.nn.functional.softplus,
    }
    for place in (10, 300, 540):
        r0 = float(found.r[place])
        gaps = target.log().diff().numpy().copy()
        gaps[k] = -r0 if side == "below" else r0
        z = torch.tensor(np.concatenate([[0.0], np.cumsum(gaps)]), requires_grad=True)
        r = z[k] - z[k + 1] if side == "below" else z[k + 1] - z[k]
        softce = -(target * z.log_softmax(0)).sum()
        for penalty, function in penalties.items():
            (slope,) = torch.autograd.grad(softce + function(r), z, retain_graph=True)
            assert getattr(found, name)[penalty][place] == pytest.approx(float(slope[k]))
        (slope,) = torch.autograd.grad(softce, z, retain_graph=True)
        assert getattr(found, name)["SoftCE alone"][place] == pytest.approx(float(slope[k]))


def test_the_step_is_that_of_the_losses():
    found = update.data(update.VIOLATED, label=3, scale=3.0, step=0.3)
    for loss, after in (("sord", found.without), ("orcu", found.with_lbe)):
        z = torch.tensor([update.VIOLATED], dtype=torch.float64, requires_grad=True)
        losses.create(loss, num_classes=8)(z, torch.tensor([3])).backward()
        moved = (z - 0.3 * z.grad).softmax(1)[0].detach().numpy()
        assert after == pytest.approx(moved)
    for wrong, match in (
        ({"logits": [1.0]}, "at least two finite"),
        ({"logits": [1.0, 2.0], "label": 3}, r"expected 0\.\.1"),
    ):
        with pytest.raises(InputError, match=match):
            update.data(**wrong)


def test_the_equilibrium_is_where_the_loss_is_at_rest():
    found = equilibrium.data(3, scale=3.0)
    for y in range(3):
        z = torch.tensor(np.log(found.probs[y : y + 1]), requires_grad=True)
        losses.create("orcu", num_classes=3)(z, torch.tensor([y])).backward()
        assert z.grad.numpy() == pytest.approx(0, abs=1e-8)
    assert found.anchor[1] == pytest.approx(np.exp([-1, 0, -1]) / np.exp([-1, 0, -1]).sum())


def test_the_alignment_curve_visits_the_centroids_in_order(results):
    run = Sources([results]).runs("lev", "orcu")[0]
    y = run.predictions().labels
    found = tsne.data(run.features(), y, most=120)
    assert found.points.shape == (120, 2)
    assert np.abs(found.points).max() == pytest.approx(1)
    rows = tsne.evenly(len(y), 120)
    visited = []
    for number, label in enumerate(np.unique(y[rows])):
        centroid = found.points[y[rows] == label].mean(0)
        assert found.centroids[number] == pytest.approx(centroid)
        steps = np.linalg.norm(found.curve - centroid, axis=1)
        assert steps.min() < 0.05
        visited.append(int(steps.argmin()))
    assert visited == sorted(visited)
    again = tsne.data(run.features(), y, most=120)
    assert np.array_equal(found.points, again.points)


def made(unimodal, confidence, rows=200):
    """Predictions of three classes, always right half the time, with so many unimodal rows."""
    middle = (1 - confidence) * 0.8
    straight = [confidence, middle, 1 - confidence - middle]
    bent = [confidence, 1 - confidence - middle, middle]
    probs = [straight if row < unimodal * rows else bent for row in range(rows)]
    return Predictions(probs=probs, y=[row % 2 for row in range(rows)], classes=[0, 1, 2])


def test_each_kind_of_model_is_found():
    told = {
        "sure": made(0.5, 0.95),
        "surer": made(0.2, 0.99),
        "shaped": made(1.0, 0.95),
        "calm": made(0.3, 0.5),
        "good": made(1.0, 0.51),
    }
    found = intro.data(told)
    assert {kind: one.name for kind, one in found.items()} == {
        "neither": "surer",
        "unimodal only": "shaped",
        "calibrated only": "calm",
        "both": "good",
    }
    assert found["both"].ece == pytest.approx(0.01)
    assert found["neither"].unimodality == pytest.approx(0.2)
    assert intro.data({"good": told["good"]})["neither"] is None


def test_grad_cam_is_that_of_the_formula(image_runs):
    from orcu.training.model_file import load_model

    model, _ = load_model(image_runs[-1])
    images = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    layer = gradcam.last_convolution(model, images)
    kept, lowest = {}, []
    hook = layer.register_forward_hook(lambda _m, _i, output: kept.update(maps=output))
    logits = model(images).logits
    hook.remove()
    for target in range(3):
        (slopes,) = torch.autograd.grad(logits[0, target], kept["maps"], retain_graph=True)
        raw = (slopes.mean((2, 3), keepdim=True) * kept["maps"]).sum(1, keepdim=True).detach()
        lowest.append(float(raw.min()))
        heat = torch.nn.functional.interpolate(raw.relu(), (64, 64), mode="bilinear")[0, 0].numpy()
        heat = (heat - heat.min()) / ((heat - heat.min()).max() or 1.0)
        assert gradcam.grad_cam(model, images, target) == pytest.approx(heat, abs=1e-5)
    assert min(lowest) < 0  # so that cutting off below zero matters
    assert layer is model.backbone.body.layer4[-1].conv2


def test_shown_images_are_right_for_all(image_runs):
    sources = Sources(image_runs)
    runs = {loss: sources.runs(loss=loss)[0] for loss in sources.losses()}
    found = gradcam.data(runs, count=3)
    assert 1 <= len(found) <= 3
    for one in found:
        for loss, run in runs.items():
            told = run.predictions()
            row = told.ids.tolist().index(one.id)
            assert told.classes[told.probs[row].argmax()] == one.label == told.label_names()[row]
            assert one.maps[loss].shape == one.image.shape[:2] == (64, 64)
            assert 0 <= one.maps[loss].min() <= one.maps[loss].max() <= 1


def test_sources_say_what_is_wrong(results, tmp_path):
    with pytest.raises(InputError, match="no such file or folder"):
        Sources(["nowhere"])
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "runs.json").write_text("[]")
    with pytest.raises(InputError, match="Name one of the benchmarks in it: demo"):
        Sources([tmp_path]).runs()
    with pytest.raises(UnknownNameError, match="unknown loss 'orc'. Did you mean 'orcu'"):
        Sources([results], losses=["orc"]).runs()
    with pytest.raises(InputError, match="there is no run of ce on iris"):
        Sources([results]).predictions("iris", "ce")
    one = Predictions(probs=[[0.6, 0.4]], y=[0], ids=["a"])
    other = Predictions(probs=[[0.6, 0.4]], y=[0], ids=["b"])
    with pytest.raises(InputError, match="no row in common"):
        matched([one, other])


def test_names_may_hold_equals_signs_and_other_case(results, tmp_path):
    told = Predictions(probs=[[0.6, 0.4]], y=[0])
    for name in ("a.parquet", "b=c.parquet"):
        told.write(tmp_path / name)
    given = [f"s = {s}={tmp_path / 'a.parquet'}" for s in (10, 5)]
    assert Sources([*given, f"x={tmp_path / 'b=c.parquet'}"]).losses() == ["s = 10", "s = 5", "x"]
    assert Sources([tmp_path / "b=c.parquet"]).losses() == ["b=c"]
    chosen = Sources([results], data=["LEV"], losses=["ORCU", "Ce"])
    assert (chosen.datasets(), chosen.losses()) == (["lev"], ["orcu", "ce"])
    with pytest.raises(UnknownNameError, match="Did you mean 'lev'"):
        Sources([results], data=["LEW"]).runs()


def test_scales_stand_in_the_order_of_their_numbers(tmp_path):
    index = []
    for number, s in enumerate((10, 0.5, 5, 20)):
        folder = tmp_path / "runs" / f"{number}"
        folder.mkdir(parents=True)
        job = {"fold": 0, "seed": 0, "loss": {"name": "orcu", "scale": s}}
        (folder / "result.json").write_text(json.dumps({"job": job}))
        index.append({"run": f"{number}", "data": "lev", "loss": f"s = {s}", "fold": 0, "seed": 0})
    (tmp_path / "scales").mkdir()
    (tmp_path / "scales" / "runs.json").write_text(json.dumps(index))
    assert Sources([tmp_path / "scales"]).losses() == ["s = 0.5", "s = 5", "s = 10", "s = 20"]


def test_what_is_given_twice_is_refused(results, tmp_path):
    Predictions(probs=[[0.6, 0.4]], y=[0]).write(tmp_path / "a.parquet")
    path = tmp_path / "a.parquet"
    with pytest.raises(InputError, match=r"both hold 'a', .* name of its own: --from NAME="):
        Sources([path, f"a={path}"]).runs()
    assert Sources([path, f"b={path}"]).losses() == ["a", "b"]


def test_an_embedding_of_too_few_rows_is_refused():
    features, labels = np.eye(30), np.arange(30) % 3
    with pytest.raises(InputError, match="most: expected a whole number from 10, got 2"):
        tsne.data(features, labels, most=2)
    with pytest.raises(InputError, match="at least 10 rows, and the run has 5"):
        tsne.data(features[:5], labels[:5])


@pytest.mark.parametrize("s", [0.05, 0.3, 3.0, 40.0])
def test_the_margin_is_well_inside_the_slopes(s):
    found = gradient.data(scale=s)
    assert found.r[0] <= -4 / s**2
    assert found.r[-1] == pytest.approx(-found.r[0] / 6)
    assert found.slope["LBE"].max() == pytest.approx(s)


def test_a_run_that_was_done_again_counts_once(results, tmp_path):
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


def test_a_loss_of_ones_own_looks_like_none_of_the_papers():
    losses = ["ce", "sord", "orcu", "mine", "yours"]
    drawn = looks(losses)
    assert len({(look.color, str(look.line)) for look in drawn.values()}) == len(losses)
    assert drawn["sord"] == LOOKS["sord"]
    crowd = looks([*LOOKS, "mine"])  # every colour is taken: then no line of the same colour
    assert (crowd["mine"].color, crowd["mine"].line) not in {(look.color, look.line) for look in LOOKS.values()}
