"""Training of prepared data on votes of several raters."""

import json

import numpy as np
import pytest

from orcu.bench.jobs import jobs
from orcu.bench.spec import Spec
from orcu.data.base import DATASETS
from orcu.data.prepare import prepare
from orcu.decisions.conformal import CrossConformalSets
from orcu.errors import InputError, UnknownNameError
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
