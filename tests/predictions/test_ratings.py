"""Files and frames with several raters per case."""

import numpy as np
import pyarrow
import pytest

from orcu import InputError, Predictions
from orcu.predictions import open_predictions
from orcu.raters import Ratings

HEADER = "image;p_low;p_mid;p_high;r_ann;r_bob;y_low;y_mid;y_high"
ROWS = ["a;0,7;0,2;0,1;low;mid;1;1;0", "b;0,1;0,2;0,7;high;;0;0;1"]
CLASSES = ["low", "mid", "high"]


@pytest.fixture
def preds(tmp_path):
    def write(*rows):
        path = tmp_path / "preds.csv"
        path.write_text("\n".join([HEADER, *(rows or ROWS)]) + "\n")
        return path

    return write


@pytest.fixture
def grades(tmp_path):
    def write(*rows):
        path = tmp_path / "grades.csv"
        path.write_text("\n".join(["image,reader,grade", *rows]) + "\n")
        return path

    return write


def read(path, **options):
    return Predictions.read(path, probs="p_*", classes=CLASSES, **options)


def test_rater_columns_become_votes_with_names(preds):
    predictions = read(preds(), rater="r_*")
    assert predictions.votes.tolist() == [[1, 1, 0], [0, 0, 1]]
    assert predictions.raters == ("ann", "bob")
    assert predictions.rating_codes.tolist() == [[0, 1], [2, -1]]
    assert "with 3 votes of 2 raters, 1 to 2 per case" in repr(predictions)


def test_rater_columns_may_be_listed_or_be_one_column(preds):
    assert read(preds(), rater="r_bob,r_ann").raters == ("bob", "ann")
    assert read(preds(ROWS[0]), rater="r_ann").votes.tolist() == [[1, 0, 0]]


def test_label_share_columns_become_votes_in_the_order_of_the_classes(preds):
    assert read(preds(), label_shares="y_high,y_low,y_mid").votes.tolist() == [[1, 1, 0], [0, 0, 1]]
    assert read(preds("a;0,7;0,2;0,1;;;0,5;0,3;0,2"), label_shares="y_*").votes.tolist() == [[0.5, 0.3, 0.2]]


def test_long_table_of_ratings_is_matched_by_id(preds, grades):
    path = grades("b,ann,high", "a,ann,low", "a,bob,mid", "c,ann,mid")
    predictions = read(preds(), id="image", ratings=path, rater="reader", label="grade")
    assert predictions.votes.tolist() == [[1, 1, 0], [0, 0, 1]]
    same = read(preds(), id="image").with_ratings(path, case="image", rater="reader", label="grade")
    assert same.votes.tolist() == predictions.votes.tolist()
    assert same.notes[-1] == "grades of 1 cases without predictions are ignored"


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (["a;0,7;0,2;0,1;;;;;"], {"rater": "r_*"}, r"preds.csv: row 1 has no vote \(1 of 1 rows have none\)"),
        (["a;0,7;0,2;0,1;;;;;"], {"label_shares": "y_*"}, "row 1 has no vote"),
        (["a;0,7;0,2;0,1;low;mild;1;1;0"], {"rater": "r_*"}, "r_bob: row 1 has label 'mild', which is not one of"),
        (["a;0,7;0,2;0,1;;;1;;0"], {"label_shares": "y_*"}, "column 'y_mid': row 1 is empty, but other classes"),
        (["a;0,7;0,2;0,1;;;-1;2;0"], {"label_shares": "y_*"}, "votes: row 0 has -1 votes"),
        (["a;0,7;0,2;0,1;;;0,5;0,2;0"], {"label_shares": "y_*"}, "votes: row 0 sums to 0.7"),
        (["a;0,7;0,2;0,1;;;x;2;0"], {"label_shares": "y_*"}, "x"),
        (ROWS, {"rater": "r_*", "label": "r_ann"}, "label, rater: pass only one of them"),
        (ROWS, {"rater": "q_*"}, "'q_\\*' matches no column, expected one column per rater"),
        (ROWS, {"rater": "r_cem"}, "there is no column 'r_cem'"),
        (ROWS, {"label_shares": "p_*"}, "'p_\\*' matches no column"),
        (ROWS, {"label_shares": "y_low,y_mid"}, "expected one column for each class: low, mid, high"),
        (ROWS, {"ratings": "missing.csv"}, "ratings: a long table of grades needs the names of its columns"),
    ],
)
def test_reading_raters_with_invalid_input_raises(preds, rows, options, message):
    with pytest.raises(InputError, match=message):
        read(preds(*rows), **options)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["a,ann,low", "a,ann,mid", "b,ann,low"], "grades.csv: rater: ann graded the case a in rows 0 and 1"),
        (["a,ann,low", "b,ann,severe"], "grades.csv: grade: row 2 has label 'severe'"),
        (["a,,low", "b,ann,low"], "column 'reader': row 1 has no rater"),
        ([",ann,low", "b,ann,low"], "column 'image': row 1 has no case"),
        (["a,ann,", "b,ann,"], "column 'grade': no row has a grade"),
        (["a,ann,low"], "row 2 has no vote"),
    ],
)
def test_reading_a_long_table_with_invalid_rows_raises(preds, grades, rows, message):
    with pytest.raises(InputError, match=message):
        read(preds(), id="image", ratings=grades(*rows), rater="reader", label="grade")


def test_cases_without_a_vote_can_be_skipped(preds):
    predictions = read(preds(*ROWS, "c;0,7;0,2;0,1;;;;;"), rater="r_*", unlabelled="skip")
    assert len(predictions) == 2
    assert "1 of 3 rows have no vote and are skipped" in predictions.notes
    with pytest.raises(InputError, match="none of the 1 rows has a vote"):
        read(preds("c;0,7;0,2;0,1;;;;;"), rater="r_*", unlabelled="skip")


def test_all_rows_of_a_file_with_raters_are_read_without_votes(preds):
    source = open_predictions(preds(*ROWS, "c;0,7;0,2;0,1;;;;;"), probs="p_*", classes=CLASSES, rater="r_*")
    predictions, codes = source.load_all_rows()
    assert (len(predictions), codes, predictions.has_labels) == (3, None, False)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("named", [True, False])
def test_written_votes_are_read_again(tmp_path, suffix, named):
    ratings = Ratings(np.array([[0, 1, -1], [2, 2, 1]]), ("ann", "bob", "cem"), 3)
    truth = {"ratings": ratings} if named else {"y": ratings.counts}
    written = Predictions(
        probs=[[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]], classes=CLASSES, ids=["a", "b"], subgroup=["x", "y"], **truth
    )
    path = tmp_path / f"preds{suffix}"
    written.write(path)
    options = {"rater": "rating_*"} if named else {"label_shares": "votes_*"}
    again = (
        Predictions.read(path)
        if suffix == ".parquet"
        else Predictions.read(path, probs="prob_*", classes=CLASSES, id="id", **options)
    )
    assert again.votes.tolist() == written.votes.tolist()
    assert again.raters == written.raters
    assert again.ids.tolist() == ["a", "b"]


def test_labels_of_votes_raise_and_name_the_median(preds):
    predictions = read(preds(), rater="r_*")
    with pytest.raises(InputError, match="with_median_labels"):
        _ = predictions.labels
    assert predictions.with_median_labels().y.tolist() == [0, 2]


def test_rows_and_replaced_fields_keep_the_votes(preds):
    predictions = read(preds(), rater="r_*")
    assert predictions[[1]].votes.tolist() == [[0, 0, 1]]
    assert predictions.replace(subgroup=["x", "y"]).rating_codes.tolist() == predictions.rating_codes.tolist()
    assert predictions.replace(y=["low", "high"]).votes is None


def test_frame_of_votes_needs_the_classes_as_columns():
    pandas = pytest.importorskip("pandas")
    probs = [[0.7, 0.2, 0.1]]
    votes = pandas.DataFrame({"y_low": [1], "y_mid": [0], "y_high": [2]})
    assert Predictions(probs=probs, y=votes, classes=CLASSES).votes.tolist() == [[1, 0, 2]]
    with pytest.raises(InputError, match="y: the columns of the votes are y_mid, y_low, y_high"):
        Predictions(probs=probs, y=votes[["y_mid", "y_low", "y_high"]], classes=CLASSES)


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        (Ratings(np.array([[0]]), ("ann",), 3), "ratings: 1 cases of 3 classes, expected 2 cases"),
        (Ratings(np.array([[0], [-1]]), ("ann",), 3), "ratings: row 1 has no vote"),
    ],
)
def test_predictions_with_invalid_ratings_raise(ratings, message):
    with pytest.raises(InputError, match=message):
        Predictions(probs=[[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]], ratings=ratings)


def test_with_ratings_without_ids_or_columns_raises():
    table = pyarrow.table({"case": ["a"], "who": ["ann"], "grade": [0]})
    with pytest.raises(InputError, match="ids: the predictions have no ids"):
        Predictions(probs=[[0.5, 0.5]]).with_ratings(table, case="case", rater="who", label="grade")
    with pytest.raises(InputError, match="there is no column 'reader'"):
        Predictions(probs=[[0.5, 0.5]], ids=["a"]).with_ratings(table, case="case", rater="reader", label="grade")
    with pytest.raises(InputError, match="the case b .row 0. has no grade"):
        Predictions(probs=[[0.5, 0.5]], ids=["b"]).with_ratings(table, case="case", rater="who", label="grade")
