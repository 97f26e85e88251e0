"""Training of prepared data on votes of several raters."""

import json

import numpy as np
import pytest

from orcu import bench
from orcu.bench.execution import execute
from orcu.bench.jobs import jobs
from orcu.bench.significance import marks
from orcu.bench.spec import Spec, load_spec
from orcu.data.base import DATASETS
from orcu.data.prepare import prepare
from orcu.decisions.conformal import CrossConformalSets
from orcu.errors import InputError, UnknownNameError
from orcu.metrics.scoring import rps_per_row
from orcu.predictions import Predictions
from orcu.raters.votes import majority_grade
from orcu.training.experiment import train

FAST = {"training": {"epochs": 2}, "calibrator": "temperature", "device": "cpu", "estimators": ["linear", "network"]}


@pytest.fixture
def table(tmp_path):
    """A table of 120 rows with two columns, grades of three raters (some missing), and the shares of the grades."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 2))
    grades = np.clip(np.digitize(x[:, :1] + rng.normal(scale=0.7, size=(120, 3)), [-0.6, 0.6]), 0, 2)
    present = rng.random((120, 3)) < 0.8
    present[:, 0] = True
    votes = np.stack([((grades == k) & present).sum(axis=1) for k in range(3)], axis=1)
    lines = ["a,b,r_ann,r_bob,r_eve,y_0,y_1,y_2"]
    for row in range(120):
        cells = [str(grades[row, k]) if present[row, k] else "" for k in range(3)]
        lines.append(",".join([*map(str, x[row]), *cells, *map(str, votes[row])]))
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    return folder, votes


def _rows(experiment, predictions):
    """Row numbers of predictions in the prepared data."""
    row_of_id = {name: row for row, name in enumerate(experiment.prepared.manifest.ids)}
    return [row_of_id[name] for name in predictions.ids.tolist()]


def _mean_over_votes(score, probs, votes):
    """Mean over cases of a score's mean over the votes of a case, without orcu's expansion of votes."""
    by_class = np.stack([score(probs, np.full(len(probs), k)) for k in range(probs.shape[1])], axis=1)
    return float((by_class * votes / votes.sum(axis=1, keepdims=True)).sum(axis=1).mean())


def test_table_with_raters_and_with_label_shares_has_the_same_votes(table, tmp_path):
    folder, votes = table
    by_rater, _ = prepare("table", folder, output=tmp_path / "a", options={"rater": "r_*", "drop": "y_0,y_1,y_2"})
    by_share, _ = prepare(
        "table", folder, output=tmp_path / "b", options={"label_shares": "y_*", "drop": "r_ann,r_bob,r_eve"}
    )
    for prepared in (by_rater, by_share):
        assert np.array_equal(prepared.manifest.votes, votes)
        assert np.array_equal(prepared.manifest.labels, majority_grade(votes.astype(float)))
        assert prepared.manifest.classes == ("0", "1", "2")
        assert prepared.manifest.about.features == ["a", "b"]


@pytest.mark.parametrize("cv", [2, 1])
def test_train_on_votes_fits_calibrator_and_sets_on_votes(table, tmp_path, cv):
    folder, _ = table
    settings = FAST | ({} if cv > 1 else {"estimators": None})
    options = {"rater": "r_*", "drop": "y_0,y_1,y_2"}
    experiment = train("table", tmp_path / "run", root=folder, options=options, label="votes", cv=cv, **settings)
    n_rows = sum(len(experiment.splits[name]) for name in (("train", "validation") if cv > 1 else ("validation",)))
    assert experiment.calibrator.votes_["cases"] == n_rows
    assert CrossConformalSets.load(tmp_path / "run" / "sets.json").weights_ is not None
    assert json.loads((tmp_path / "run" / "run.json").read_text())["spec"]["config"]["label"] == "votes"
    for name, predictions in experiment.result.predictions.items():
        written = Predictions.read(tmp_path / "run" / f"{name}.parquet")
        assert np.array_equal(written.votes, predictions.votes), name
        assert np.array_equal(predictions.votes, experiment.prepared.manifest.votes[_rows(experiment, predictions)])
    evaluation, test = experiment.evaluation, Predictions.read(tmp_path / "run" / "test_calibrated.parquet")
    assert evaluation["rps"].value == pytest.approx(_mean_over_votes(rps_per_row, test.probs, test.votes), rel=1e-6)
    assert [ceiling.metric for ceiling in evaluation.raters.ceilings] == ["accuracy", "mae", "rps", "brier"]
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Perfect model" in page
    assert "(NLL), because its value for a perfect model has no unbiased estimate" in page
    assert experiment.explanation.importance.rps == pytest.approx(evaluation["rps"].value, rel=1e-6)
    with pytest.raises(InputError, match="different label"):
        train("table", tmp_path / "run", root=folder, options=options, cv=cv, **settings)


def test_train_on_votes_of_data_without_votes_is_refused(tmp_path):
    with pytest.raises(InputError, match="lev has no votes"):
        train("lev", tmp_path / "run", label="votes", **FAST)
    with pytest.raises(UnknownNameError, match="label of a run"):
        train("lev", tmp_path / "run", label="shares", **FAST)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "'table': pass exactly one of the options"),
        ({"label": "r_ann", "rater": "r_*"}, "'table': pass exactly one of the options"),
        ({"label_shares": "z_*"}, "'z_\\*' matches no column"),
        ({"label_shares": "a,b"}, "expected 0 or more|classes"),
        ({"rater": "r_*", "classes": "0,1"}, "column 'r_"),
    ],
)
def test_table_with_invalid_columns_of_votes_is_refused(table, tmp_path, options, message):
    folder, _ = table
    with pytest.raises(InputError, match=message):
        prepare("table", folder, output=tmp_path / "out", options=options)


def test_table_with_a_row_without_votes_is_refused(table, tmp_path):
    folder, _ = table
    lines = (folder / "rows.csv").read_text().splitlines()
    lines[5] = "1.0,1.0,,,,0,0,0"
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    for options in ({"rater": "r_*"}, {"label_shares": "y_*"}):
        with pytest.raises(InputError, match="row 4 has no vote"):
            prepare("table", folder, output=tmp_path / "out", options=options)


def test_ratings_of_vader_become_votes_of_the_classes():
    words, tweets = DATASETS.create("vader_words"), DATASETS.create("vader")
    assert [words.rating_code(rating) for rating in (-4, -3, 0, 4)] == [0, 0, 3, 6]
    assert [tweets.rating_code(rating) for rating in (-4, 0, 4)] == [0, 4, 8]
    assert DATASETS.create("image_aesthetics", ratings="true").rating_code(5) == 4


def test_image_aesthetics_rows_hold_votes_only_if_requested(tmp_path):
    (tmp_path / "1.png").touch()
    header = "#flickr_photo_id\tcategory\tbeauty_scores"
    (tmp_path / "beauty-icwsm15-dataset.tsv").write_text(f"{header}\n1\tnature\t3,4,4,5,2\n")
    (plain,) = DATASETS.create("image_aesthetics", halves="down").rows(tmp_path)
    (rated,) = DATASETS.create("image_aesthetics", halves="down", ratings=True).rows(tmp_path)
    assert plain.extra == {"category": "nature"}
    assert rated.extra["ratings"] == [3, 4, 4, 5, 2]
    assert plain.label == rated.label == 3


def test_run_ids_change_only_for_runs_on_votes():
    def run_id(**options):
        data = {"set": "vader", "folds": [0], **options}
        (job,) = jobs(Spec.model_validate({"name": "s", "title": "s", "losses": ["ce"], "data": [data]}))
        return job.id("digest")

    assert run_id() == run_id(label="label") == "88f70c63b0a14c9c30c0"
    assert run_id(label="votes") != run_id()


SPEC = """
name = "votes"
losses = ["ce", "sord", { label = "ensemble", cv = 2, losses = ["ce"], estimators = ["linear"] }]
calibrators = ["none", "temperature"]
columns = ["accuracy", "rps", "sce"]

[[data]]
set = "table"
prepared = "rated"
options = { rater = "r_*", drop = "y_0,y_1,y_2" }
folds = [0]
hidden_layer_sizes = [8]
training = { epochs = 2 }
label = "votes"
"""


def test_benchmark_on_votes_has_metrics_that_are_means_over_votes(table, tmp_path, monkeypatch):
    folder, votes = table
    monkeypatch.setenv("ORCU_DATA", str(tmp_path / "data"))
    options = {"rater": "r_*", "drop": "y_0,y_1,y_2"}
    prepared, _ = prepare("table", folder, output=tmp_path / "data" / "rated", options=options)
    (tmp_path / "spec.toml").write_text(SPEC)
    spec, results = load_spec(tmp_path / "spec.toml"), tmp_path / "results"
    for job in jobs(spec):
        assert execute(job, results) == "done"
    plan = bench.status(spec, results=results)
    records = {(r["loss"], r["calibrator"], s): r for s in ("test", "validation") for r in plan.records(s)}
    for run in plan.finished:
        for split in ("test", "validation"):
            part = Predictions.read(plan.file(run, f"{split}.parquet"))
            row_of_id = {name: row for row, name in enumerate(prepared.manifest.ids)}
            assert np.array_equal(part.votes, votes[[row_of_id[name] for name in part.ids.tolist()]])
            record = records[run.job.loss_name, "none", split]
            assert record["rps"] == pytest.approx(_mean_over_votes(rps_per_row, part.probs, part.votes))
            shares = part.votes / part.votes.sum(axis=1, keepdims=True)
            agreement = shares[np.arange(len(part)), part.probs.argmax(axis=1)].mean()
            assert record["accuracy"] == pytest.approx(agreement)
    assert records["ce", "temperature", "test"]["rps"] != records["ce", "none", "test"]["rps"]
    assert len(marks(plan, "ce")) == 2 * 2 * 3
    assert bench.report(plan).exists()


def test_two_stage_diagnostic_on_votes_is_refused(table, tmp_path):
    text = SPEC.replace("losses = [", "# losses = [").replace("columns = ", "two_stage = { scale = 3.0 }\n# columns = ")
    (tmp_path / "spec.toml").write_text(text)
    with pytest.raises(InputError, match="two-stage diagnostic needs one label per row"):
        load_spec(tmp_path / "spec.toml")


def test_figures_of_a_run_on_votes_use_the_median_vote():
    from orcu.figures.panels import distributions, intro

    rng = np.random.default_rng(0)
    predictions = Predictions(probs=rng.dirichlet(np.ones(3), size=60), y=rng.multinomial(5, [0.3, 0.4, 0.3], size=60))
    median = predictions.with_median_labels()
    assert [pair.id for pair in distributions.data(predictions, predictions, correct=True)] == [
        pair.id for pair in distributions.data(median, median, correct=True)
    ]
    assert np.array_equal(intro.select_rows([predictions]), intro.select_rows([median]))
