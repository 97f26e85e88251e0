"""`read_inspect`: logs written by the ``inspect_ai`` package."""

import importlib.util

import pytest

from orcu.errors import InputError, MissingExtraError
from orcu.judges.inspect_logs import read_inspect
from orcu.judges.levels import GradeLevels

LEVELS = GradeLevels.parse("1..5")


def test_read_inspect_without_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'orcu\[inspect\]'"):
        read_inspect(tmp_path / "log.eval", LEVELS)


@pytest.fixture
def inspect():
    return pytest.importorskip("inspect_ai.log", reason="pip install 'orcu[inspect]'")


@pytest.fixture(params=["eval", "json"])
def read(tmp_path, inspect, request):
    """Write a log of samples (id, epoch, scores by scorer or an error message) and read it."""
    from inspect_ai.scorer import Score

    def outcome(scores):
        if isinstance(scores, str):
            return {"error": inspect.EvalError(message=scores, traceback="", traceback_ansi="")}
        values = (scores or {}).items()
        return {"scores": {name: v if isinstance(v, Score) else Score(value=v) for name, v in values} or None}

    def read(*samples, status="success", levels=LEVELS, **options):
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
        return read_inspect(path, levels, **options)

    return read


def summary(replies):
    return [(reply.item, reply.judge, reply.grade) for reply in replies.replies]


def reasons(replies):
    return [(failure.where.partition(", ")[2], failure.reason) for failure in replies.failures]


def test_read_inspect_every_epoch_of_a_sample_is_a_reply(read):
    replies = read(("a", 1, {"quality": 4}), ("a", 2, {"quality": 5.0}), (7, 1, {"quality": "3"}))
    assert sorted(summary(replies)) == [("7", "quality", 2), ("a", "quality", 3), ("a", "quality", 4)]
    assert all(reply.probs is None for reply in replies.replies)
    assert replies.failures == []
    assert replies.notes == []


def test_read_inspect_scorers_are_judges(read):
    samples = [("a", 1, {"quality": 4, "style": 2}), ("b", 1, {"style": 1})]
    assert summary(read(*samples)) == [("a", "quality", 3), ("a", "style", 1), ("b", "style", 0)]
    named = read(*samples, scorer="quality")
    assert summary(named) == [("a", "quality", 3)]
    assert reasons(named) == [("sample b, epoch 1", "no score of 'quality'")]
    with pytest.raises(InputError, match="unknown scorer 'qualty'. Did you mean 'quality'"):
        read(*samples, scorer="qualty")


def test_read_inspect_judge_name_includes_model(read):
    from inspect_ai.scorer import Score

    replies = read(("a", 1, {"quality": Score(value=4, metadata={"model": "m"})}))
    assert summary(replies) == [("a", "quality (m)", 3)]


def test_read_inspect_score_with_several_values_needs_a_key(read):
    samples = [("a", 1, {"rubric": {"depth": 4, "tone": 2}}), ("b", 1, {"rubric": {"tone": 1, "depth": None}})]
    with pytest.raises(InputError, match=r"^scorer: 'rubric' .*\(depth, tone\).*scorer='rubric.depth'"):
        read(*samples)
    replies = read(*samples, scorer="rubric.depth")
    assert summary(replies) == [("a", "rubric.depth", 3)]
    assert reasons(replies) == [("sample b, epoch 1, scorer rubric", "not scored")]
    with pytest.raises(InputError, match="unknown scorer 'rubric.dept'. Did you mean 'rubric.depth'"):
        read(*samples, scorer="rubric.dept")


def test_read_inspect_letters_are_grades_only_if_levels_have_them(read):
    replies = read(("a", 1, {"quality": "C"}), ("b", 1, {"quality": 4}))
    assert summary(replies) == [("b", "quality", 3)]
    assert replies.failures[0].reason.startswith("'C'")
    letters = read(("a", 1, {"quality": "C"}), ("b", 1, {"quality": "I"}), levels=GradeLevels.parse("I,P,C"))
    assert summary(letters) == [("a", "quality", 2), ("b", "quality", 0)]


def test_read_inspect_failure_has_location_and_reason(read):
    values = [float("nan"), [4, 5], True, 6, 4]
    replies = read(*((str(k), 1, {"quality": value}) for k, value in enumerate(values)), ("none", 1, None))
    assert summary(replies) == [("4", "quality", 3)]
    reason_of = dict(reasons(replies))
    assert reason_of["sample 0, epoch 1, scorer quality"] == "not scored"
    assert reason_of["sample 1, epoch 1, scorer quality"] == "the score is a list of values; expected one value"
    assert "'True'" in reason_of["sample 2, epoch 1, scorer quality"]
    assert "1..6" in reason_of["sample 3, epoch 1, scorer quality"]
    assert reason_of["sample none, epoch 1"] == "no score"


def test_read_inspect_failed_sample_has_its_error(read):
    replies = read(("a", 1, "out of time\nat line 3"), ("b", 1, {"quality": 4}))
    assert reasons(replies) == [("sample a, epoch 1", "the sample failed: out of time")]


def test_read_inspect_notes_unsuccessful_status(read):
    replies = read(("a", 1, {"quality": 4}), status="cancelled")
    (note,) = replies.notes
    assert "'cancelled'" in note


def test_read_inspect_without_any_grade_raises(read):
    with pytest.raises(InputError, match=r"none of the 2 replies .* 2 of them: 'C'"):
        read(("a", 1, {"quality": "C"}), ("b", 1, {"quality": "C"}))


@pytest.mark.parametrize("name", ["log.eval", "log.json"])
def test_read_inspect_invalid_file_raises(tmp_path, inspect, name):
    with pytest.raises(InputError, match="no such file"):
        read_inspect(tmp_path / name, LEVELS)
    (tmp_path / name).write_text("{}")
    with pytest.raises(InputError, match="not an Inspect log"):
        read_inspect(tmp_path / name, LEVELS)
