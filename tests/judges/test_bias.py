"""`bias_effects`: planted biases are found, false alarms are rare, and intervals cover."""

import judge_logs
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from orcu import judges
from orcu.errors import InputError
from orcu.judges import Grades
from orcu.judges.bias import bias_effects

PLANTED = ("words: per unit", "language: de against the others", "position: second against first")


def simulate(seed, *, items=200, per_cluster=1, german=0.0, words_effect=0.0):
    """Grades of a judge with planted effects, next to a column that has none."""
    rng = np.random.default_rng(seed)
    quality = rng.uniform(2, 3.5, size=items)
    human = np.rint(quality + rng.normal(scale=0.6, size=items)).clip(1, 5)
    cluster = np.arange(items) // per_cluster
    shared = rng.normal(scale=0.4, size=items)[cluster] if per_cluster > 1 else 0
    words = rng.lognormal(sigma=0.4, size=items)
    language = rng.choice(["en", "de", "fr"], p=[0.8, 0.12, 0.08], size=items)
    position = np.where(cluster % 2, "first", "second")  # constant within a cluster
    expected = human + shared + german * (language == "de") + words_effect * words + rng.normal(scale=0.6, size=items)
    share = np.clip(expected, 1, 5) - 1
    probs = np.maximum(0, 1 - np.abs(np.arange(5) - share[:, None]))  # whose mean is the expected grade
    bias = {"words": words, "language": language, "position": position}
    return Grades.from_arrays("1..5", {"gpt": probs}, human=human, cluster=cluster, bias=bias)


def test_bias_effects_match_ols_of_statsmodels():
    grades = simulate(0)
    words = bias_effects(grades)[0]
    error = grades.expected_grade("gpt") - grades.human_mean
    design = sm.add_constant(grades.rating_rows.columns["words"])
    fitted = sm.OLS(error, design).fit(cov_type="HC3")  # the jackknife without the factor (n - 1) / n
    assert words.effect == pytest.approx(fitted.params[1])
    assert (words.high - words.low) / 2 == pytest.approx(1.98 * fitted.bse[1], rel=0.15)
    controls = sm.OLS(error, np.column_stack([design, grades.human[:, 1:]])).fit()
    assert words.at_equal_grade[0] == pytest.approx(controls.params[1])


def test_bias_effects_find_planted_effects_only():
    grades = simulate(1, items=400, german=0.6, words_effect=0.4)
    effects = {effect.comparison: effect for effect in bias_effects(grades)}
    words, german, position = (effects[name] for name in PLANTED)
    assert words.is_significant
    assert german.is_significant
    assert not position.is_significant
    assert words.low < 0.4 < words.high
    assert german.low < 0.6 < german.high
    assert "is higher by 0." in str(german)


@pytest.mark.parametrize("per_cluster", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_bias_effects_without_bias_have_few_false_alarms_and_cover(per_cluster):
    draws = 150 if per_cluster == 1 else 500
    alarms, covered, tested = 0, 0, 0
    for seed in range(draws):
        effects = [
            effect for effect in bias_effects(simulate(seed, items=120, per_cluster=per_cluster)) if not effect.note
        ]
        alarms += any(effect.is_significant for effect in effects)
        covered += sum(effect.low <= 0 <= effect.high for effect in effects)
        tested += len(effects)
    assert alarms / draws <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / draws)
    assert covered / tested >= 0.93


def test_bias_effects_use_the_rows_of_an_item_that_has_several():
    rng = np.random.default_rng(0)
    person = rng.integers(1, 6, size=60)
    first = (person + rng.integers(0, 2, size=60)).clip(1, 5)
    frame = pd.DataFrame({"item": [*range(60)] * 2, "score": [*first, *person], "human": [*person] * 2})
    frame["position"] = ["first"] * 60 + ["second"] * 60
    options = {"levels": "1..5", "grade": "score", "item": "item", "human": "human"}
    (effect,) = bias_effects(judges.read(frame, **options, bias="position"))
    assert effect.effect == pytest.approx((person - first).mean())
    assert (effect.n_ratings, effect.n_clusters) == (120, 60)
    paired = (person - first).std(ddof=1) / np.sqrt(60)  # the interval is that of the paired differences
    assert (effect.high - effect.low) / 2 == pytest.approx(2.0 * paired, rel=0.02)


def test_bias_columns_of_a_text_are_length_and_formatting():
    frame = pd.DataFrame({"score": [1, 2, 3], "human": [1, 2, 3], "text": ["", "a * b, 2 of 3", "Yes:\n- one\n- two"]})
    grades = judges.read(frame, levels="1..3", grade="score", human="human", text="text")
    columns = grades.rating_rows.columns
    assert columns["log2 length of text"].tolist() == pytest.approx(np.log2([1, 14, 17]))
    assert columns["formatting of text"].tolist() == ["plain", "plain", "Markdown"]


def test_bias_columns_with_empty_cells_leave_out_numbers_and_keep_a_category():
    words, language = [*range(30), None], ["en"] * 15 + ["de"] * 8 + [None] * 8
    human = [1, 2, 3, 4, 5] * 6 + [1]
    ratings = {"gpt": np.eye(5)[[k % 4 for k in range(31)]]}
    grades = Grades.from_arrays("1..5", ratings, human=human, bias={"words": words, "language": language})
    effects = bias_effects(grades)
    assert effects[0].n_ratings == 30
    assert [effect.category for effect in effects[1:]] == ["(blank)", "de", "en"]


@pytest.mark.parametrize(
    ("column", "note"),
    [
        (["x"] * 40, "all entries of the column are equal"),
        (["x"] * 36 + ["y"] * 4, "fewer than 5 clusters or items on one side"),
        ([1.0] * 31 + [None] * 32 + [2.0], None),
    ],
)
def test_bias_effects_without_enough_rows_say_why(column, note):
    column = column[:40]
    human = [1, 2, 3, 4, 5] * 8
    grades = Grades.from_arrays("1..5", {"gpt": np.eye(5)[[k % 4 for k in range(40)]]}, human=human, bias={"c": column})
    (effect,) = bias_effects(grades)
    assert (note or "all entries of the column are equal") in effect.note
    assert not effect.is_significant
    assert "no test" in str(effect)


def test_bias_effects_refuse_a_column_of_names():
    human = [1, 2, 3, 4, 5] * 8
    ratings = {"gpt": np.eye(5)[[k % 4 for k in range(40)]]}
    grades = Grades.from_arrays("1..5", ratings, human=human, bias={"id": [f"a{k}" for k in range(40)]})
    with pytest.raises(InputError, match="column 'id' has 40 different texts, such as 'a0'"):
        bias_effects(grades)


def test_read_bias_refuses_unknown_and_infinite_entries(tmp_path):
    frame = pd.DataFrame({"score": [1, 2], "human": [1, 2], "words": [1.0, np.inf]})
    options = {"levels": "1..3", "grade": "score", "human": "human"}
    with pytest.raises(InputError, match="'wrods'"):
        judges.read(frame, **options, bias="wrods")
    with pytest.raises(InputError, match="words: row 1 has inf, expected a finite number"):
        judges.read(frame, **options, bias="words")
    with pytest.raises(InputError, match="duplicate column"):
        judges.read(frame, **options, bias="score,score")


def test_read_bias_columns_of_a_log_from_the_table_of_human_grades(tmp_path):
    judge, person = judge_logs.grades()
    lines = [
        {"custom_id": f"a{k}", "response": {"body": judge_logs.chat_completion(f"Score: {grade}")}}
        for k, grade in enumerate(judge)
    ]
    log = judge_logs.write_lines(tmp_path / "log.jsonl", lines)
    people = pd.DataFrame({"custom_id": [f"a{k}" for k in range(60)], "person": person, "words": np.arange(60.0)})
    people.to_csv(tmp_path / "people.csv", index=False)
    options = {"levels": "1..5", "item": "custom_id"}
    grades = judges.read(log, **options, human_file=tmp_path / "people.csv", human="person", bias="words")
    (effect,) = bias_effects(grades)
    errors = np.array(judge) - person
    assert effect.effect == pytest.approx(np.polyfit(np.arange(60), errors, 1)[0])
    with pytest.raises(InputError, match=r"log.jsonl is a log; name the table of these columns with human_file="):
        judges.read(log, **options, bias="words")
