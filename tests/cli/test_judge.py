"""``orcu judge`` as a user meets it."""

import json

import numpy as np
import pandas as pd
import pytest
from command import run

from orcu import geometry

BASIC = ("--probs", "p_*", "--item", "item")
QUICK = ("--method", "vector+projection")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judge")
    rng = np.random.default_rng(0)
    quality = rng.uniform(0.5, 5.5, size=300)
    person = np.rint(quality + rng.normal(scale=0.7, size=300)).clip(1, 5).astype(int)
    heard = quality + 0.5 + rng.normal(scale=0.8, size=300)
    probs = geometry.probs(-6 * (np.arange(1, 6) - heard[:, None]) ** 2)
    frame = pd.DataFrame(probs, columns=[f"p_{k}" for k in range(1, 6)])
    frame["item"], frame["system"] = [f"a{k}" for k in range(300)], np.where(np.arange(300) % 2, "new", "old")
    frame["person"] = np.where(np.arange(300) < 120, person, np.nan)
    frame.to_csv(folder / "said.csv", index=False)
    frame.drop(columns="person").to_csv(folder / "new.csv", index=False)
    frame[["item", "person"]].dropna().to_csv(folder / "people.csv", index=False)
    votes = pd.DataFrame({"item": np.repeat(frame["item"], 3), "score": np.repeat(probs.argmax(1) + 1, 3)})
    votes.to_csv(folder / "votes.csv", index=False)
    return folder


def test_fit_and_apply(folder):
    result = run("judge", "fit", "said.csv", *BASIC, "--human", "person", *QUICK, "-o", "j.json", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "fitted on 120 human grades of 120 items" in result.stdout
    assert "180 of 300 items have no human grade" in result.stdout
    assert json.loads((folder / "j.json").read_text())["file"] == "said.csv"
    result = run(
        "judge", "apply", "new.csv", "j.json", *BASIC, "--cost", "absolute", "--error", "0.3", "-o", "o.csv", cwd=folder
    )
    assert result.returncode == 0, result.stderr
    assert "go to a person" in result.stdout
    out = pd.read_csv(folder / "o.csv")
    assert len(out) == 300
    assert out[[f"p_{k}" for k in range(1, 6)]].sum(axis=1).to_numpy() == pytest.approx(1)
    assert set(out["decision"]) <= {1, 2, 3, 4, 5}
    assert (out["low"] <= out["decision"]).all()
    assert (out["decision"] <= out["high"]).all()


def test_human_grades_from_another_table_give_the_same(folder):
    for name, where in (("one.json", ("said.csv",)), ("two.json", ("new.csv", "--humans", "people.csv"))):
        result = run("judge", "fit", *where, *BASIC, "--human", "person", *QUICK, "-o", name, cwd=folder)
        assert result.returncode == 0, result.stderr
    one, two = (json.loads((folder / name).read_text()) for name in ("one.json", "two.json"))
    assert one["held_probs"] == two["held_probs"]


def test_reading_writes_a_table_that_can_be_read_again(folder):
    result = run(
        "judge",
        "read",
        "votes.csv",
        "--grade",
        "score",
        "--grades",
        "1..5",
        "--item",
        "item",
        "-o",
        "v.csv",
        cwd=folder,
    )
    assert result.returncode == 0, result.stderr
    table = pd.read_csv(folder / "v.csv")
    assert list(table.columns) == ["item", "judge", "n_1", "n_2", "n_3", "n_4", "n_5"]
    assert (table.filter(like="n_").sum(axis=1) == 3).all()
    again = ("--votes", "n_*", "--item", "item", "--judge", "judge", "--humans", "people.csv", "--human", "person")
    result = run("judge", "fit", "v.csv", *again, *QUICK, "-o", "votes.json", cwd=folder)
    assert result.returncode == 0, result.stderr


def test_a_page_about_the_judge_whose_name_is_escaped(folder):
    frame = pd.read_csv(folder / "said.csv").assign(who="<b>gpt</b>")
    frame.to_csv(folder / "bold.csv", index=False)
    options = ("--judge", "who", "--human", "person", *QUICK, "-o", "r.html")
    result = run("judge", "report", "bold.csv", *BASIC, *options, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "milder than people" in result.stdout
    page = (folder / "r.html").read_text()
    for words in (
        "One item, before and after",
        "Milder or stricter",
        "How many human grades",
        "people say",
        "bold.csv",
    ):
        assert words in page
    assert "<script" not in page
    assert "<b>gpt</b>" not in page
    assert "&lt;b&gt;gpt&lt;/b&gt;" in page


def test_systems_are_compared_by_what_people_would_say(folder):
    result = run(
        "judge",
        "compare-systems",
        "said.csv",
        *BASIC,
        "--human",
        "person",
        "--system",
        "system",
        *QUICK,
        "--json",
        "c.json",
        cwd=folder,
    )
    assert result.returncode == 0, result.stderr
    assert "old" in result.stdout
    comparison = json.loads((folder / "c.json").read_text())
    assert {one["system"] for one in comparison["systems"]} == {"old", "new"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("fit", "said.csv", *BASIC, "-o", "x.json"), 3, "--human"),
        (("fit", "said.csv", "--item", "item", "--human", "person", "-o", "x.json"), 3, "say what its columns are"),
        (("fit", "votes.csv", "--grade", "score", "--item", "item", "-o", "x.json"), 3, "say the scale"),
        (("fit", "nothing.csv", *BASIC, "-o", "x.json"), 2, "no such file"),
        (("apply", "new.csv", "said.csv", *BASIC, "-o", "x.csv"), 3, "said.csv"),
        (("apply", "new.csv", "j.json", *BASIC, "--cost", "money", "-o", "x.csv"), 2, "wrong, absolute, squared"),
        (("apply", "votes.csv", "j.json", "--grade", "score", "--item", "item", "-o", "x.csv"), 3, "these are votes"),
    ],
)
def test_wrong_usage_and_bad_data_are_one_line(folder, arguments, code, words):
    run("judge", "fit", "said.csv", *BASIC, "--human", "person", *QUICK, "-o", "j.json", cwd=folder)
    result = run("judge", *arguments, cwd=folder)
    assert result.returncode == code, result.stdout + result.stderr
    assert words in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert not (folder / "x.json").exists()
