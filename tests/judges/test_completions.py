"""`read_completions`: wrappers, names, choices and parse failures."""

import gzip
import json
import math

import numpy as np
import pytest

from orcu.errors import InputError
from orcu.judges.completions import read_completions
from orcu.judges.levels import GradeLevels

LEVELS = GradeLevels.parse("1..5")


def entry(token, p):
    return {"token": token, "bytes": list(token.encode()), "logprob": math.log(p)}


def position(returned):
    """A position with the probabilities of the returned tokens; the first one was sampled."""
    sampled = next(iter(returned))
    return {**entry(sampled, returned[sampled]), "top_logprobs": [entry(token, p) for token, p in returned.items()]}


def choice(content, returned=None, **fields):
    """A choice with a text, and with logprobs if tokens at its end are given."""
    logprobs = None
    if returned is not None:
        before = content.removesuffix(next(iter(returned)))
        logprobs = {"content": [position({before: 1.0}), position(returned)] if before else [position(returned)]}
    return {"message": {"role": "assistant", "content": content}, "logprobs": logprobs, **fields}


def completion(*choices, **fields):
    return {"id": "chatcmpl-1", "model": "m", "choices": list(choices), **fields}


def answer(item, content, returned=None):
    return {"item": item, **completion(choice(content, returned))}


def write(folder, *lines, name="answers.jsonl"):
    path = folder / name
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


def read(folder, *lines, levels=LEVELS, **options):
    return read_completions(write(folder, *lines), levels, **options)


def reasons(log):
    return [failure.reason for failure in log.failures]


SURE = {"4": 0.75, "5": 0.25}


def test_read_completions_returns_probabilities_and_grade(tmp_path):
    replies = read(tmp_path, answer("a", "Score: 4", {"4": 0.6, "5": 0.3, "The": 0.1}))
    (reply,) = replies.replies
    assert (reply.item, reply.judge, reply.grade) == ("a", "m", 3)
    np.testing.assert_allclose(reply.probs, [0, 0, 0, 2 / 3, 1 / 3], atol=1e-12)
    assert replies.failures == replies.notes == []


def test_read_completions_uses_tokens_at_the_pattern(tmp_path):
    tokens = [
        position({"Score: ": 1.0}),
        position({"2": 0.9, "3": 0.1}),
        position({" of 5, sure: ": 1.0}),
        position({"5": 1.0}),
    ]
    line = {"item": "a", **completion({**choice("Score: 2 of 5, sure: 5"), "logprobs": {"content": tokens}})}
    by_pattern = read(tmp_path, line, pattern=r"Score: (\d)").replies[0]
    np.testing.assert_allclose(by_pattern.probs, [0, 0.9, 0.1, 0, 0], atol=1e-12)
    assert read(tmp_path, line).replies[0].grade == 1  # announced as the score
    assert read(tmp_path, line, pattern=r"sure: (\d)").replies[0].grade == 4


@pytest.mark.parametrize(
    ("text", "grade", "ambiguous"),
    [
        ("Score: 4\n\nReasoning: step 2 is wrong and 3 of 5 facts are right", 4, 0),
        ("Score:4/5. Confidence: 3", 4, 1),
        ("**Rating**: 2 because of point 3", 2, 1),
        ("The grade is 5. I checked 2 facts", 5, 0),
        ("Step 2 is wrong, so 3", 3, 1),
        ("Score: 2. On reflection, score: 3", 3, 1),
        ("3", 3, 0),
        ("3. Yes, 3", 3, 0),
    ],
)
def test_read_completions_prefers_announced_grade_and_notes_ambiguous_ones(tmp_path, text, grade, ambiguous):
    replies = read(tmp_path, {"item": "a", **completion(choice(text))})
    assert replies.replies[0].grade == grade - 1
    assert sum("several candidate grades" in note for note in replies.notes) == ambiguous


def test_read_completions_rejects_many_grades_outside_the_levels_but_not_one(tmp_path):
    lines = [{"item": str(k), **completion(choice(str(k % 5)))} for k in range(50)]
    with pytest.raises(InputError, match="10 of 50 replies .*line 1:.*pattern="):
        read(tmp_path, *lines)
    lines = [{"item": str(k), **completion(choice("0" if k == 7 else "4"))} for k in range(50)]
    assert [failure.is_out_of_range for failure in read(tmp_path, *lines).failures] == [True]


@pytest.mark.parametrize(
    "line",
    [
        {"custom_id": "a", "response": {"status_code": 200, "body": completion(choice("4", SURE))}, "error": None},
        {"item": "a", "completion": completion(choice("4", SURE))},
        {"item": "a", "choices": ["yes", "no"], "completion": completion(choice("4", SURE))},
        {"item": "a", "response": completion(choice("4", SURE))},
        {"item": "a", "body": completion(choice("4", SURE))},
        {"item": "a", **completion(choice("4", SURE))},
    ],
)
def test_read_completions_finds_completion_in_every_wrapper(tmp_path, line):
    (reply,) = read(tmp_path, line).replies
    assert (reply.item, reply.judge) == ("a", "m")
    np.testing.assert_allclose(reply.probs, [0, 0, 0, 0.75, 0.25], atol=1e-12)


def test_read_completions_choices_and_lines_of_an_item_are_samples(tmp_path):
    first = {"item": "a", **completion(choice("4", SURE), choice("", {"x": 1.0}), choice("5", {"5": 0.5, "4": 0.5}))}
    replies = read(tmp_path, first, answer("a", "4", SURE))
    assert [(reply.item, reply.grade) for reply in replies.replies] == [("a", 3), ("a", 4), ("a", 3)]
    assert replies.failures[0].where == "answers.jsonl, line 1, choice 2"


def test_read_completions_item_and_judge_keys(tmp_path):
    line = {"meta": {"id": 7, "who": "x"}, "item": "a", "judge": "j", **completion(choice("4"))}
    assert read(tmp_path, line).replies[0].judge == "j"
    (reply,) = read(tmp_path, line, item="meta.id", judge="meta.who").replies
    assert (reply.item, reply.judge) == ("7", "x")
    dotted = {"meta.id": "b", **line}
    assert read(tmp_path, dotted, item="meta.id").replies[0].item == "b"


def test_read_completions_does_not_use_completion_id_as_item(tmp_path):
    with pytest.raises(InputError, match="custom_id or item.*item="):
        read(tmp_path, completion(choice("4")))
    assert read(tmp_path, completion(choice("4")), item="id").replies[0].item == "chatcmpl-1"


def test_read_completions_without_judge_name_notes_default_judge(tmp_path):
    replies = read(tmp_path, {"item": "a", "choices": [choice("4")]})
    assert replies.replies[0].judge == "judge"
    assert replies.notes[0].startswith("1 of 1 replies do not name a judge")


def test_read_completions_without_logprobs_returns_grades(tmp_path):
    replies = read(tmp_path, answer("a", "4"), answer("b", "5"))
    assert [(r.probs, r.grade) for r in replies.replies] == [(None, 3), (None, 4)]
    (note,) = replies.notes
    assert note.startswith("2 of 2 replies have no logprobs")


def test_read_completions_with_some_logprobs_fails_replies_without(tmp_path):
    replies = read(tmp_path, answer("a", "4"), answer("b", "5", {"5": 1.0}), "{")
    assert [reply.item for reply in replies.replies] == ["b"]
    assert [(u.where, u.item) for u in replies.failures] == [
        ("answers.jsonl, line 1", "a"),
        ("answers.jsonl, line 3", ""),
    ]
    assert replies.failures[0].reason.startswith("no logprobs")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ("[1]", "not a JSON object"),
        ({"custom_id": "b", "response": None, "error": {"code": "expired", "message": "too late"}}, "too late"),
        (
            {"custom_id": "b", "response": {"status_code": 400, "body": {"error": {"message": "bad"}}}},
            "completion: bad",
        ),
        ({"item": "b", "error": "full"}, "an error instead of a completion: full"),
        ({"item": "b", "model": "m"}, "no choices"),
        ({"item": "b", **completion()}, "no choices"),
        ({"item": "b", **completion({"text": "4"})}, "no message; expected chat completions"),
        ({"item": "b", **completion({"message": {"content": None, "refusal": "I will not"}})}, "refused to answer"),
        ({"item": "b", **completion(choice(None, finish_reason="stop"))}, "empty content (finish_reason stop)"),
        (answer("b", " \n"), "empty content"),
        ({"item": "b", **completion({"message": {"content": [{"text": "4"}]}})}, "the content is not a text"),
        ({"item": "b", **completion(choice("I think", finish_reason="length"))}, "the text (cut at the token limit)"),
        (answer("b", "I think"), "no grade in the text"),
        (
            answer("b", "7", {"7": 1.0}),
            "'7' is not one of the grades 1, 2, 3, 4, 5. Set levels= (--levels) to the full scale: 1..7",
        ),
        (answer("b", "4/10", {"4/10": 1.0}), "the highest grade is 5, not 10"),
        ({"item": "b", **completion({**choice("4"), "logprobs": {"content": "x"}})}, "not a list of tokens"),
        ({"item": "b", **completion({**choice("4"), "logprobs": {"content": [{}]}})}, "neither text nor bytes"),
        (
            {
                "item": "b",
                **completion({**choice("4"), "logprobs": {"content": [{"token": "4", "logprob": math.nan}]}}),
            },
            "logprob nan",
        ),
        (completion(choice("4", SURE)), "no item name"),
        ({"item": ["b"], **completion(choice("4", SURE))}, "'item' is neither a string nor a number"),
        ({"item": True, **completion(choice("4", SURE))}, "'item' is neither a string nor a number"),
        ({"item": "", **completion(choice("4", SURE))}, "'item' is neither a string nor a number"),
        ({"item": "b", **completion(choice("4", SURE), model={})}, "'judge or model' is neither"),
    ],
)
def test_read_completions_failure_has_location_and_reason(tmp_path, line, reason):
    replies = read(tmp_path, answer("a", "4", SURE), "", line)
    (failure,) = replies.failures
    assert failure.where == "answers.jsonl, line 3"
    assert reason in failure.reason
    assert failure.item in {"", "b"}
    assert len(replies.replies) == 1


@pytest.mark.parametrize("key", ["item", "judge"])
def test_read_completions_line_without_given_key_is_a_failure(tmp_path, key):
    lines = [{**answer("a", "4"), "meta": {"x": "n"}}, answer("b", "4")]
    replies = read(tmp_path, *lines, **{key: "meta.x"})
    assert reasons(replies) == [f"the line has no key 'meta.x' for the {key} name"]


def test_read_completions_without_any_reply_raises_with_most_frequent_reasons(tmp_path):
    lines = ["{", "{", "{", answer("a", ""), answer("b", ""), {"item": "c"}, {"item": "c"}, answer("d", "good")]
    with pytest.raises(InputError) as error:
        read(tmp_path, *lines)
    text = str(error.value)
    assert "none of the 8 replies" in text
    assert "3 of them: not a JSON object; 2 of them: empty content; 2 of them: no choices" in text
    assert "no grade" not in text


def test_read_completions_empty_file_raises(tmp_path):
    with pytest.raises(InputError, match=r"^answers.jsonl: .*no replies"):
        read(tmp_path, "")


def broken(value):
    """Copies of a value with one of its parts replaced by something else."""
    yield from (None, 5, -1.5, "x", "", [], {}, [[]], [{}], True, math.nan)
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        for part in broken(value[key]):
            copy = value.copy()
            copy[key] = part
            yield copy


def test_read_completions_damaged_lines_are_read_or_counted(tmp_path):
    batch = {"custom_id": "a", "response": {"body": completion(choice("It: 4", SURE))}, "error": None}
    lines = list(broken(batch))
    replies = read(tmp_path, *map(json.dumps, lines), answer("b", "4", SURE))
    assert {"x", "b"} <= {reply.item for reply in replies.replies}
    failures = [failure for failure in replies.failures if "choice" not in failure.where]
    assert len(replies.replies) + len(failures) == len(lines) + 1
    assert all(reply.probs.sum() == pytest.approx(1) for reply in replies.replies)


def test_read_completions_reads_gzip_and_json_lists(tmp_path):
    packed = tmp_path / "answers.jsonl.gz"
    packed.write_bytes(gzip.compress(json.dumps(answer("a", "4")).encode()))
    assert read_completions(packed, LEVELS).replies[0].grade == 3
    listed = write(tmp_path, [answer("a", "4"), answer("b", "?")], name="answers.json")
    replies = read_completions(listed, LEVELS)
    assert (replies.replies[0].grade, replies.failures[0].where) == (3, "answers.json, entry 2")


def test_read_completions_accepts_byte_order_mark_and_fails_invalid_utf8_lines(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(answer("a", "4")).encode() + b'\n{"item": "\xff"}\r\n')
    replies = read_completions(path, LEVELS)
    assert (len(replies.replies), reasons(replies)) == (1, ["not a JSON object"])


def test_read_completions_unreadable_file_raises(tmp_path):
    with pytest.raises(InputError, match="none.jsonl: "):
        read_completions(tmp_path / "none.jsonl", LEVELS)
    with pytest.raises(InputError, match="not readable"):
        read_completions(write(tmp_path, "plain", name="a.jsonl.gz"), LEVELS)
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(json.dumps(answer("a", "4")).encode() * 100)[:-20])
    with pytest.raises(InputError, match="not readable"):
        read_completions(cut, LEVELS)
    with pytest.raises(InputError, match="a.json: "):
        read_completions(write(tmp_path, "{", name="a.json"), LEVELS)


def test_read_completions_notes_count_imputed_divided_and_low_mass_replies(tmp_path):
    lines = [
        answer("a", "4", {"4": 0.75, "5": 0.25}),
        answer("b", "4", {"4": 0.3, "I": 0.6}),
        answer("c", "9", {"9": 0.5, "1": 0.5}),
        answer("d", "9", {"9": 0.9}),
    ]
    notes = read(tmp_path, *lines, levels=GradeLevels.parse("1..10")).notes
    assert [note.split(" replies ")[0] for note in notes] == ["1 of 4", "2 of 4", "1 of 4", "1 of 4"]
    for note, words in zip(notes, ("top_logprobs", "lack some grades", "begin several grades", "half"), strict=True):
        assert words in note


def test_read_completions_judge_with_two_digit_tokens_does_not_divide_one(tmp_path):
    nine, ten = answer("a", "9", {"9": 0.6, "1": 0.4}), answer("b", "10", {"10": 0.6, "1": 0.4})
    to_ten = GradeLevels.parse("1..10")
    divided = read(tmp_path, nine, levels=to_ten)
    np.testing.assert_allclose(divided.replies[0].probs[[0, 8, 9]], [0.2, 0.6, 0.2])
    joined = read(tmp_path, nine, ten, levels=to_ten)
    np.testing.assert_allclose(joined.replies[0].probs[[0, 8, 9]], [0.4, 0.6, 0], atol=1e-12)
    np.testing.assert_allclose(joined.replies[1].probs[[0, 8, 9]], [0.4, 0, 0.6], atol=1e-12)
    assert joined.notes == []
    other = read(tmp_path, nine, {**ten, "model": "other"}, levels=to_ten)
    np.testing.assert_allclose(other.replies[0].probs[[0, 8, 9]], [0.2, 0.6, 0.2])


def test_read_completions_reply_cut_inside_grade_is_a_failure(tmp_path):
    def cut(item, content, returned=None):
        return {"item": item, **completion(choice(content, returned, finish_reason="length"))}

    ten = GradeLevels.parse("1..10")
    bare = read(tmp_path, cut("a", "1"), cut("b", "2"), cut("c", "1\n"), levels=ten)
    assert [reply.item for reply in bare.replies] == ["b", "c"]
    assert bare.failures[0].reason.startswith("cut at the token limit")
    joined = read(tmp_path, cut("a", "1", {"1": 0.75, "10": 0.25}), levels=ten)
    np.testing.assert_allclose(joined.replies[0].probs[[0, 9]], [0.75, 0.25])
    halves = read(tmp_path, cut("a", "4."), cut("b", "5"), levels=GradeLevels.parse("1..5:0.5"))
    assert [failure.item for failure in halves.failures] == ["a"]


def test_read_completions_notes_replies_cut_at_the_token_limit(tmp_path):
    line = {"item": "a", **completion(choice("It has 3 faults", finish_reason="length"))}
    assert "1 of 1 replies were cut at the token limit" in read(tmp_path, line).notes[0]
    assert "cut" not in read(tmp_path, line, pattern=r"(\d)").notes[0]


def test_read_completions_number_words_and_word_levels(tmp_path):
    four = read(tmp_path, answer("a", "Four", {"Four": 0.5, "4": 0.25, "five": 0.25}), number_words=True).replies[0]
    np.testing.assert_allclose(four.probs, [0, 0, 0, 0.75, 0.25], atol=1e-12)
    fair = read(
        tmp_path, answer("a", "It is fair", {"fair": 0.75, "Poor": 0.25}), levels=GradeLevels.parse("poor,fair,good")
    )
    np.testing.assert_allclose(fair.replies[0].probs, [0.25, 0.75, 0], atol=1e-12)


def test_read_completions_invalid_pattern_raises_before_reading(tmp_path):
    with pytest.raises(InputError, match=r"^pattern:"):
        read_completions(tmp_path / "none.jsonl", LEVELS, pattern="Score")


def test_read_completions_lists_ambiguous_replies(tmp_path):
    log = read(tmp_path, answer("a", "4"), answer("b", "The student wrote: Score: 5. Final: 2"))
    (reply,) = log.ambiguous
    assert (reply.where, reply.item, reply.grade, reply.others) == ("answers.jsonl, line 2", "b", "2", ("5",))
    assert any(note.startswith("1 of 2 replies have several candidate grades") for note in log.notes)


@pytest.mark.parametrize("value", [1.1, 1e19, -0.5])
def test_read_completions_item_that_is_a_float_is_a_failure(tmp_path, value):
    log = read(tmp_path, answer("a", "4"), answer(value, "4"))
    assert "write names as strings" in log.failures[0].reason


def test_read_completions_lone_surrogates_are_escaped(tmp_path):
    lone = "\ud83d"
    log = read(
        tmp_path,
        {**answer(f"a{lone}", "4"), "model": f"m{lone}"},
        {"custom_id": f"b{lone}", "error": {"message": f"bad {lone}"}},
        answer("c", f"{lone} 7 {lone}"),
        {**answer("d", "4"), "judge": f"j{lone}"},
    )
    assert [(reply.item, reply.judge) for reply in log.replies] == [("a\\ud83d", "m\\ud83d"), ("d", "j\\ud83d")]
    assert log.failures[0].item == "b\\ud83d"
    for failure in log.failures:
        (failure.item + failure.reason).encode()  # raises for lone surrogates
