"""The TRIPOD+AI checklist of an evaluation: its items, numbers and formats."""

import numpy as np
import pytest

from orcu import evaluate
from orcu.errors import InputError
from orcu.report.checklist import checklist, write_checklist
from orcu.report.page import Provenance

# Numbers of all items of the checklist of 11 January 2024.
TRIPOD_AI = """
1 2 3a 3b 3c 4 5a 5b 6a 6b 6c 7 8a 8b 8c 9a 9b 9c 10 11 12a 12b 12c 12d 12e 12f 12g 13 14 15 16 17
18a 18b 18c 18d 18e 18f 19 20a 20b 20c 21 22 23a 23b 24 25 26 27a 27b 27c
"""
LEFT_TO_AUTHORS = """
1 2 3a 3b 3c 4 5a 5b 6a 6b 6c 7 8b 8c 9a 9b 9c 12a 12b 12c 13 16 17 18a 18b 18c 18d 18e 19 20c 22 27a 27b 27c
"""


@pytest.fixture(scope="module")
def evaluation():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), size=240)
    y = (rng.random((240, 1)) > probs.cumsum(1)[:, :-1]).sum(1)
    site, patient = np.array(["<north>", "so|uth"])[np.arange(240) % 2], np.arange(240) // 2
    return evaluate(probs=probs, y=y, classes=["a", "b", "c"], subgroup=site, cluster=patient, n_resamples=60)


def test_checklist_items_and_those_of_the_authors_are_all_items_of_the_guideline(evaluation):
    numbers = [item.number for item in checklist(evaluation)]
    order = TRIPOD_AI.split()
    assert sorted([*numbers, *LEFT_TO_AUTHORS.split()], key=order.index) == order
    assert numbers == sorted(numbers, key=order.index)


def test_checklist_states_the_numbers_of_the_evaluation(evaluation):
    items = {item.number: item for item in checklist(evaluation, Provenance([("p.csv", "ab12")], command="orcu x"))}
    counts = np.bincount(evaluation.sample.labels)
    assert items["10"].answer == f"240 rows of 120 clusters. By class: a: {counts[0]}, b: {counts[1]}, c: {counts[2]}."
    accuracy = evaluation["accuracy"]
    expected = f"Accuracy {accuracy.value:.1%} ({accuracy.low * 100:.1f} – {accuracy.high:.1%})".replace("%", " %")
    assert expected in items["23a"].answer
    slope = evaluation.per_threshold[1]["slope"]
    assert f"slope {slope.value:.3f} ({slope.low:.3f} – {slope.high:.3f})" in items["23a"].answer
    assert "so|uth (120 rows): Accuracy" in items["23a"].answer
    assert items["12g"].answer == "Read from p.csv (SHA-256 ab12)."
    assert items["18f"].answer.endswith("Command: orcu x.")
    assert items["26"].answer == "The evaluation gave no warnings."
    assert all(item.answer and item.missing for item in items.values())


def test_checklist_without_intervals_and_subgroups_says_so():
    items = {item.number: item.answer for item in checklist(evaluate(probs=[[0.9, 0.1], [0.2, 0.8]], y=[0, 1]))}
    assert items["12d"] == "Not examined: no clusters and no subgroups were given."
    assert items["23b"].startswith("Not examined")
    assert items["14"] == "No subgroups were evaluated."
    assert "too few rows to assess the classes 0, 1" in items["26"]
    without = evaluate(probs=[[0.9, 0.1], [0.2, 0.8]], y=[0, 1], n_resamples=0)
    assert "No intervals were computed." in {item.number: item.answer for item in checklist(without)}["23a"]


def test_write_checklist_escapes_names(evaluation, tmp_path):
    write_checklist(evaluation, tmp_path / "c.md")
    rows = [line for line in (tmp_path / "c.md").read_text().splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(checklist(evaluation))
    assert all(line.replace("\\|", "").count("|") == 5 for line in rows)
    write_checklist(evaluation, tmp_path / "c.html")
    page = (tmp_path / "c.html").read_text()
    assert "&lt;north&gt;" in page
    assert "<north>" not in page
    with pytest.raises(InputError, match=r"\.md or \.html"):
        write_checklist(evaluation, tmp_path / "c.docx")
