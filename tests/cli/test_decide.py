"""``orcu decide``, and decision rules of ``orcu evaluate``."""

import json

import numpy as np
import pandas as pd
import pytest
from command import assert_data_error, assert_usage_error, run

from orcu import Predictions, decide

NAMES = ["none", "mild", "moderate", "severe"]
COSTS = "true,none,severe,mild,moderate\nsevere,10,0,5,2\nnone,0,1,1,1\nmild,1,1,0,1\nmoderate,2,1,1,0\n"
MATRIX = np.array([[0, 1, 1, 1], [1, 0, 1, 1], [2, 1, 0, 1], [10, 5, 2, 0]])
READ = ("--label", "grade", "--probs", "p_*", "--classes", "none,mild,moderate,severe")


@pytest.fixture
def labelled_file(tmp_path):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(4), size=200)
    y = (rng.random((200, 1)) > probs.cumsum(axis=1)[:, :-1]).sum(axis=1)
    frame = pd.DataFrame(probs, columns=[f"p_{name}" for name in NAMES])
    frame["grade"] = np.array(NAMES)[y]
    frame.to_csv(tmp_path / "preds.csv", index=False)
    (tmp_path / "costs.csv").write_text(COSTS)
    return tmp_path, probs, y


def test_decide_weights_the_printed_cost_by_sample_weight(labelled_file):
    folder, probs, y = labelled_file
    weights = np.where(y == 3, 5.0, 1.0)
    predictions = Predictions(probs=probs, y=np.array(NAMES)[y], classes=NAMES, sample_weight=weights)
    predictions.write(folder / "weighted.parquet")
    result = run("decide", "weighted.parquet", "--rule", "costs.csv", "-o", "weighted.csv", cwd=folder)
    cost = np.average(MATRIX[y, decide(probs, MATRIX)], weights=weights)
    assert f"cost per row: {cost:.4g};" in result.stdout


def test_decide_uses_a_cost_matrix(labelled_file):
    folder, probs, y = labelled_file
    expected = decide(probs, MATRIX)
    result = run("decide", "preds.csv", *READ, "--rule", "costs.csv", "-o", "out.csv", cwd=folder)
    assert result.returncode == 0, result.stderr
    table = pd.read_csv(folder / "out.csv")
    names = np.array(NAMES)
    assert table["decision"].tolist() == names[expected].tolist()
    assert table["expected_cost"].tolist() == pytest.approx((probs @ MATRIX)[np.arange(200), expected])
    cost, argmax_cost = (MATRIX[y, decisions].mean() for decisions in (expected, probs.argmax(axis=1)))
    assert f"cost per row: {cost:.4g}; {argmax_cost:.4g}" in result.stdout
    evaluated = run(
        "evaluate", "preds.csv", *READ, "--rule", "costs.csv", "--n-resamples", "0", "--json", "e.json", cwd=folder
    )
    assert evaluated.returncode == 0, evaluated.stderr
    numbers = json.loads((folder / "e.json").read_text())
    assert numbers["rule"] == MATRIX.tolist()
    assert numbers["metrics"]["accuracy"]["value"] == pytest.approx((expected == y).mean())
    run("decide", "preds.csv", *READ, "--rule", "median", "-o", "median.csv", cwd=folder)
    assert pd.read_csv(folder / "median.csv")["decision"].tolist() == names[decide(probs, "median")].tolist()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (COSTS.replace("severe", "sever"), ["sever"]),
        (COSTS.replace("true,none,severe,mild,moderate", "true,none,severe,mild,mild2"), ["mild2"]),
        (COSTS.replace("5", "-5"), ["'severe'", "-5"]),
        (COSTS.replace("5", "much"), ["much"]),
        ("true,none,mild,moderate,severe\n" + "\n".join(f"{c},true,true,true,true" for c in NAMES), ["True"]),
        (COSTS + "mild,1,1,0,1\n", ["mild"]),
    ],
)
def test_decide_invalid_cost_matrix_is_a_data_error(labelled_file, table, words):
    folder, _, _ = labelled_file
    (folder / "bad.csv").write_text(table)
    result = run("decide", "preds.csv", *READ, "--rule", "bad.csv", "-o", "out.csv", cwd=folder)
    assert_data_error(result, "bad.csv", *words)
    assert not (folder / "out.csv").exists()


def test_evaluate_unknown_rule_is_a_usage_error(labelled_file):
    result = run("evaluate", "preds.csv", *READ, "--rule", "nowhere.csv", cwd=labelled_file[0])
    assert_usage_error(result, "--rule: nowhere.csv: no such file", "argmax, median, mean")
    result = run("evaluate", "preds.csv", *READ, "--rule", "argmaxx", cwd=labelled_file[0])
    assert_usage_error(result, "'argmaxx'", "'argmax'")


@pytest.mark.parametrize(
    ("corner", "rows"),
    [
        ("truth", "true"),
        ("True class", "true"),
        ("label", "true"),
        ("", "true"),
        ("grade", "true"),
        ("decision", "decisions"),
        ("Predicted label", "decisions"),
        ("y_pred", "decisions"),
        ("predicted \\ true", "decisions"),
        ("true / predicted", "true"),
        ("class | truth", "decisions"),
    ],
)
def test_decide_corner_of_the_cost_matrix_says_what_the_rows_are(labelled_file, corner, rows):
    folder, probs, _ = labelled_file
    matrix = MATRIX if rows == "true" else MATRIX.T
    lines = [",".join([f'"{corner}"', *NAMES])]
    lines += [",".join([name, *map(str, row)]) for name, row in zip(NAMES, matrix.tolist(), strict=True)]
    (folder / "corner.csv").write_text("\n".join(lines) + "\n")
    result = run("decide", "preds.csv", *READ, "--rule", "corner.csv", "-o", "out.csv", cwd=folder, width=200)
    assert result.returncode == 0, result.stderr
    expected = np.array(NAMES)[decide(probs, MATRIX)]
    assert pd.read_csv(folder / "out.csv")["decision"].tolist() == expected.tolist()
    assert f"rows are {rows}" in result.stderr
    true, decided = np.unravel_index(np.argmax(MATRIX - MATRIX.T), MATRIX.shape)
    example = f"predicting '{NAMES[decided]}' when the truth is '{NAMES[true]}' costs {MATRIX[true, decided]:g}"
    assert example in result.stderr


def test_decide_symmetric_costs_are_not_echoed_and_an_ambiguous_corner_is_refused(labelled_file):
    folder, _, _ = labelled_file
    lines = [",".join([name, *("0" if other == name else "1" for other in NAMES)]) for name in NAMES]
    (folder / "same.csv").write_text("\n".join(["grade," + ",".join(NAMES), *lines]))
    result = run("decide", "preds.csv", *READ, "--rule", "same.csv", "-o", "out.csv", cwd=folder)
    assert (result.returncode, result.stderr) == (0, "")
    (folder / "both.csv").write_text("\n".join(["true predicted," + ",".join(NAMES), *lines]))
    result = run("decide", "preds.csv", *READ, "--rule", "both.csv", "-o", "out.csv", cwd=folder, width=200)
    assert_data_error(result, "'true predicted' does not say", "write 'truth' or 'decision'")


def test_decide_reads_a_cost_table_in_the_encoding_of_the_file_or_utf_8(tmp_path):
    (tmp_path / "preds.csv").write_text("p_mäßig;p_schwer;grade\n0,9;0,1;mäßig\n0,2;0,8;schwer\n", encoding="cp1252")
    options = ("--encoding", "cp1252", "--label", "grade", "--probs", "p_*", "--classes", "mäßig,schwer")
    for encoding in ("cp1252", "utf-8"):
        (tmp_path / "costs.csv").write_text("truth;mäßig;schwer\nmäßig;0;1\nschwer;50;0\n", encoding=encoding)
        result = run("decide", "preds.csv", *options, "--rule", "costs.csv", "-o", "d.csv", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert "mäßig 0, schwer 2" in result.stdout
        result = run("evaluate", "preds.csv", *options, "--rule", "costs.csv", "--n-resamples", "0", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
    (tmp_path / "costs.csv").write_text("truth;mild;schwer\n", encoding="utf-8")
    result = run("decide", "preds.csv", *options, "--rule", "costs.csv", "-o", "d.csv", cwd=tmp_path)
    assert_data_error(result, "costs.csv")
