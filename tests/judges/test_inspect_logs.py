"""Logs of Inspect, written by its own package."""

import importlib.util

import pytest

from orcu.errors import InputError, MissingExtraError
from orcu.judges.inspect_logs import is_inspect_log, read_inspect
from orcu.judges.scale import Scale

SCALE = Scale.of("1..5")


def test_without_its_package_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'orcu\[inspect\]'"):
        read_inspect(tmp_path / "log.eval", SCALE)


@pytest.fixture
def inspect():
    return pytest.importorskip("inspect_ai.log", reason="pip install 'orcu[inspect]'")


@pytest.fixture(params=["eval", "json"])
def read(tmp_path, inspect, request):
    """Write a log of samples (id, epoch, scores by scorer or the text of an error) and read it."""
    from inspect_ai.scorer import Score

    def outcome(scores):
        if isinstance(scores, str):
            return {"error": inspect.EvalError(message=scores, traceback="", traceback_ansi="")}
        values = (scores or {}).items()
        return {"scores": {name: v if isinstance(v, Score) else Score(value=v) for name, v in values} or None}

    def read(*samples, status="success", grades=SCALE, **options):
        spec = inspect.EvalSpec(
            created="2025-01-01T00:00:00+00:00",
            task="grading",
            model="none/none",
            dataset=inspect.EvalDataset(name="answers"),
            config=inspect.EvalConfig(epochs=max(epoch for _, epoch, _ in samples)),
        )
        entries = [
            inspect.EvalSample(id=id, epoch=epoch, input="?", target="", **outcome(scores))
            for id, epoch, scores in samples
        ]
        path = tmp_path / f"log.{request.param}"
        inspect.write_eval_log(inspect.EvalLog(status=status, eval=spec, samples=entries), str(path))
        return read_inspect(path, grades, **options)

    return read


def summary(replies):
    return [(reply.item, reply.judge, reply.grade) for reply in replies.replies]


def reasons(replies):
    return [(unread.where.partition(", ")[2], unread.reason) for unread in replies.unread]


def test_every_epoch_of_a_sample_is_a_reply(read):
    replies = read(("a", 1, {"quality": 4}), ("a", 2, {"quality": 5.0}), (7, 1, {"quality": "3"}))
    assert sorted(summary(replies)) == [("7", "quality", 2), ("a", "quality", 3), ("a", "quality", 4)]
    assert all(reply.probs is None and reply.mass is None for reply in replies.replies)
    assert replies.unread == []
    assert replies.notes == []


def test_scorers_are_judges_unless_one_is_named(read):
    samples = [("a", 1, {"quality": 4, "style": 2}), ("b", 1, {"style": 1})]
    assert summary(read(*samples)) == [("a", "quality", 3), ("a", "style", 1), ("b", "style", 0)]
    named = read(*samples, scorer="quality")
    assert summary(named) == [("a", "quality", 3)]
    assert reasons(named) == [("sample b, epoch 1", "no score of 'quality'")]
    with pytest.raises(InputError, match="unknown scorer 'qualty'. Did you mean 'quality'"):
        read(*samples, scorer="qualty")


def test_a_model_in_the_metadata_joins_the_name_of_the_judge(read):
    from inspect_ai.scorer import Score

    replies = read(("a", 1, {"quality": Score(value=4, metadata={"model": "m"})}))
    assert summary(replies) == [("a", "quality (m)", 3)]


def test_which_of_several_values_is_meant_is_asked_for(read):
    samples = [("a", 1, {"rubric": {"depth": 4, "tone": 2}}), ("b", 1, {"rubric": {"tone": 1, "depth": None}})]
    with pytest.raises(InputError, match=r"several values \(depth, tone\); name one, such as scorer='rubric.depth'"):
        read(*samples)
    replies = read(*samples, scorer="rubric.depth")
    assert summary(replies) == [("a", "rubric.depth", 3)]
    assert reasons(replies) == [("sample b, epoch 1, scorer rubric", "not scored")]
    with pytest.raises(InputError, match="unknown scorer 'rubric.dept'. Did you mean 'rubric.depth'"):
        read(*samples, scorer="rubric.dept")


def test_letters_are_no_grades_unless_the_scale_names_them(read):
    replies = read(("a", 1, {"quality": "C"}), ("b", 1, {"quality": 4}))
    assert summary(replies) == [("b", "quality", 3)]
    assert "'C' is no grade of 1, 2, 3, 4, 5" in replies.unread[0].reason
    letters = read(("a", 1, {"quality": "C"}), ("b", 1, {"quality": "I"}), grades=Scale.of("I,P,C"))
    assert summary(letters) == [("a", "quality", 2), ("b", "quality", 0)]


def test_what_is_no_grade_is_counted_with_its_reason(read):
    values = [float("nan"), [4, 5], True, 6, 4]
    replies = read(*((str(k), 1, {"quality": value}) for k, value in enumerate(values)), ("none", 1, None))
    assert summary(replies) == [("4", "quality", 3)]
    said = dict(reasons(replies))
    assert said["sample 0, epoch 1, scorer quality"] == "not scored"
    assert said["sample 1, epoch 1, scorer quality"] == "the score is a list of values, not one"
    assert "'True' is no grade" in said["sample 2, epoch 1, scorer quality"]
    assert "Does the scale run from 1 to 6?" in said["sample 3, epoch 1, scorer quality"]
    assert said["sample none, epoch 1"] == "no score"


def test_a_sample_that_failed_says_why(read):
    replies = read(("a", 1, "out of time\nat line 3"), ("b", 1, {"quality": 4}))
    assert reasons(replies) == [("sample a, epoch 1", "the sample failed: out of time")]


def test_a_log_that_did_not_end_well_is_said_to_be_one(read):
    replies = read(("a", 1, {"quality": 4}), status="cancelled")
    assert replies.notes == ["the log's status is 'cancelled': samples may be missing"]


def test_a_log_without_a_grade_is_refused(read):
    with pytest.raises(InputError, match=r"none of its 2 replies can be read. 2 of them: 'C' is no grade"):
        read(("a", 1, {"quality": "C"}), ("b", 1, {"quality": "C"}))


@pytest.mark.parametrize("name", ["log.eval", "log.json"])
def test_files_that_are_no_logs_are_refused(tmp_path, inspect, name):
    with pytest.raises(InputError, match="there is no such file"):
        read_inspect(tmp_path / name, SCALE)
    (tmp_path / name).write_text("{}")
    with pytest.raises(InputError, match="not a log of Inspect"):
        read_inspect(tmp_path / name, SCALE)


def test_a_log_is_known_by_its_ending_or_by_what_it_holds(tmp_path):
    (tmp_path / "log.json").write_text('{"version": 2, "eval": {}}')
    (tmp_path / "answers.json").write_text("[]")
    (tmp_path / "broken.json").write_text("{")
    names = ("run.eval", "log.json", "answers.json", "broken.json", "a.jsonl")
    assert [is_inspect_log(tmp_path / name) for name in names] == [True, True, False, False, False]
