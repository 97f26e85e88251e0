"""``orcu decide``, and costs of decisions as a user gives them."""

import json

import numpy as np
import pandas as pd
import pytest
from command import run

from orcu import Predictions, decide

NAMES = ["none", "mild", "moderate", "severe"]
COSTS = "true,none,severe,mild,moderate\nsevere,10,0,5,2\nnone,0,1,1,1\nmild,1,1,0,1\nmoderate,2,1,1,0\n"


@pytest.fixture
def graded(tmp_path):
    rng = np.random.default_rng(0)
    names = ["none", "mild", "moderate", "severe"]
    probs = rng.dirichlet(np.ones(4), size=200)
    y = (rng.random((200, 1)) > probs.cumsum(axis=1)[:, :-1]).sum(axis=1)
    frame = pd.DataFrame(probs, columns=[f"p_{name}" for name in names])
    frame["grade"] = np.array(names)[y]
    frame.to_csv(tmp_path / "preds.csv", index=False)
    (tmp_path / "costs.csv").write_text(COSTS)
    return tmp_path, probs, y


READ = ("--label", "grade", "--probs", "p_*", "--classes", "none,mild,moderate,severe")


def test_what_decisions_cost_counts_the_weights_of_a_file(graded):
    folder, probs, y = graded
    weight = np.where(y == 3, 5.0, 1.0)
    Predictions(probs=probs, y=np.array(NAMES)[y], classes=NAMES, weight=weight).write(folder / "weighted.parquet")
    result = run("decide", "weighted.parquet", "--by", "costs.csv", "-o", "weighted.csv", cwd=folder)
    matrix = np.array([[0, 1, 1, 1], [1, 0, 1, 1], [2, 1, 0, 1], [10, 5, 2, 0]])
    own = np.average(matrix[y, decide(probs, matrix)], weights=weight)
    assert f"they cost {own:.4g} a row" in result.stdout


def test_decisions_by_what_mistakes_cost(graded):
    folder, probs, y = graded
    matrix = [[0, 1, 1, 1], [1, 0, 1, 1], [2, 1, 0, 1], [10, 5, 2, 0]]
    expected = decide(probs, matrix)
    result = run("decide", "preds.csv", *READ, "--by", "costs.csv", "-o", "out.csv", cwd=folder)
    assert result.returncode == 0, result.stderr
    out = pd.read_csv(folder / "out.csv")
    names = np.array(["none", "mild", "moderate", "severe"])
    assert out["decision"].tolist() == names[expected].tolist()
    assert out["expected_cost"].tolist() == pytest.approx((probs @ np.array(matrix))[np.arange(200), expected])
    own, plain = (np.array(matrix)[y, one].mean() for one in (expected, probs.argmax(axis=1)))
    assert f"they cost {own:.4g} a row; the likeliest class would cost {plain:.4g}" in result.stdout
    result = run(
        "evaluate", "preds.csv", *READ, "--decide", "costs.csv", "--bootstrap", "0", "--json", "e.json", cwd=folder
    )
    assert result.returncode == 0, result.stderr
    told = json.loads((folder / "e.json").read_text())
    assert told["decide"] == matrix
    assert told["metrics"]["accuracy"]["value"] == pytest.approx((expected == y).mean())
    result = run("decide", "preds.csv", *READ, "--by", "median", "-o", "median.csv", cwd=folder)
    assert pd.read_csv(folder / "median.csv")["decision"].tolist() == names[decide(probs, "median")].tolist()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (COSTS.replace("severe", "sever"), "rows (its first column) are the classes"),
        (COSTS.replace("true,none,severe,mild,moderate", "true,none,severe,mild,mild2"), "columns are the classes"),
        (COSTS.replace("5", "-5"), "where 'severe' is true costs -5"),
        (COSTS.replace("5", "much"), "expected a number of 0 or more"),
        ("true,none,mild,moderate,severe\n" + "\n".join(f"{c},true,true,true,true" for c in NAMES), "costs True"),
        (COSTS + "mild,1,1,0,1\n", "there twice"),
    ],
)
def test_costs_that_cannot_be_used_are_told(graded, table, words):
    folder, _, _ = graded
    (folder / "bad.csv").write_text(table)
    result = run("decide", "preds.csv", *READ, "--by", "bad.csv", "-o", "out.csv", cwd=folder)
    assert result.returncode == 3
    assert words in " ".join(result.stderr.split())
    assert not (folder / "out.csv").exists()
    result = run("evaluate", "preds.csv", *READ, "--decide", "nowhere.csv", cwd=folder)
    assert result.returncode == 2
    assert "argmax, median, mean" in " ".join(result.stderr.split())
