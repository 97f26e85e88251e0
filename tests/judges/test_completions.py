"""Files of chat completions: their wrappers, names, choices, and what cannot be read."""

import gzip
import json
import math

import numpy as np
import pytest

from orcu.errors import InputError
from orcu.judges.completions import read_completions
from orcu.judges.scale import Scale

SCALE = Scale.of("1..5")


def entry(token, p):
    return {"token": token, "bytes": list(token.encode()), "logprob": math.log(p)}


def place(returned):
    """A place at which tokens were returned, with their probabilities; the first was taken."""
    taken = next(iter(returned))
    return {**entry(taken, returned[taken]), "top_logprobs": [entry(token, p) for token, p in returned.items()]}


def choice(content, returned=None, **more):
    """A choice with a text, and with logprobs if tokens of its end are named."""
    logprobs = None
    if returned is not None:
        before = content.removesuffix(next(iter(returned)))
        logprobs = {"content": [place({before: 1.0}), place(returned)] if before else [place(returned)]}
    return {"message": {"role": "assistant", "content": content}, "logprobs": logprobs, **more}


def completion(*choices, **more):
    return {"id": "chatcmpl-1", "model": "m", "choices": list(choices), **more}


def answer(item, content, returned=None):
    return {"item": item, **completion(choice(content, returned))}


def written(folder, *lines, name="answers.jsonl"):
    path = folder / name
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


def read(folder, *lines, scale=SCALE, **options):
    return read_completions(written(folder, *lines), scale, **options)


def reasons(replies):
    return [unread.reason for unread in replies.unread]


SURE = {"4": 0.75, "5": 0.25}


def test_a_completion_becomes_probabilities_a_grade_and_the_mass_of_the_grades(tmp_path):
    replies = read(tmp_path, answer("a", "Score: 4", {"4": 0.6, "5": 0.3, "The": 0.1}))
    (reply,) = replies.replies
    assert (reply.item, reply.judge, reply.grade) == ("a", "m", 3)
    np.testing.assert_allclose(reply.probs, [0, 0, 0, 2 / 3, 1 / 3], atol=1e-12)
    assert reply.mass == pytest.approx(0.9)
    assert replies.unread == replies.notes == []


def test_the_place_is_that_of_the_pattern(tmp_path):
    tokens = [place({"Score: ": 1.0}), place({"2": 0.9, "3": 0.1}), place({" of 5, sure: ": 1.0}), place({"5": 1.0})]
    line = {"item": "a", **completion({**choice("Score: 2 of 5, sure: 5"), "logprobs": {"content": tokens}})}
    by_pattern = read(tmp_path, line, pattern=r"Score: (\d)").replies[0]
    np.testing.assert_allclose(by_pattern.probs, [0, 0.9, 0.1, 0, 0], atol=1e-12)
    assert read(tmp_path, line).replies[0].grade == 1  # it is called the score
    assert read(tmp_path, line, pattern=r"sure: (\d)").replies[0].grade == 4


@pytest.mark.parametrize(
    ("text", "grade", "doubtful"),
    [
        ("Score: 4\n\nReasoning: step 2 is wrong and 3 of 5 facts are right", 4, 0),
        ("Score:4/5. Confidence: 3", 4, 0),
        ("**Rating**: 2 because of point 3", 2, 0),
        ("The grade is 5. I checked 2 facts", 5, 0),
        ("Step 2 is wrong, so 3", 3, 1),
        ("Score: 2. On reflection, score: 3", 3, 1),
        ("3", 3, 0),
        ("3. Yes, 3", 3, 0),
    ],
)
def test_a_grade_that_is_called_so_counts_and_doubts_are_counted(tmp_path, text, grade, doubtful):
    replies = read(tmp_path, {"item": "a", **completion(choice(text))})
    assert replies.replies[0].grade == grade - 1
    assert sum("hold several grades" in note for note in replies.notes) == doubtful


def test_a_file_of_another_scale_is_refused_and_a_slip_is_not(tmp_path):
    lines = [{"item": str(k), **completion(choice(str(k % 5)))} for k in range(50)]
    with pytest.raises(InputError, match="10 of 50 replies give a grade outside the scale"):
        read(tmp_path, *lines)
    one = [{"item": str(k), **completion(choice("0" if k == 7 else "4"))} for k in range(50)]
    assert [unread.outside for unread in read(tmp_path, *one).unread] == [True]


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
def test_every_wrapper_of_a_completion_is_recognised(tmp_path, line):
    (reply,) = read(tmp_path, line).replies
    assert (reply.item, reply.judge) == ("a", "m")
    np.testing.assert_allclose(reply.probs, [0, 0, 0, 0.75, 0.25], atol=1e-12)


def test_several_choices_and_several_lines_of_an_item_are_samples(tmp_path):
    first = {"item": "a", **completion(choice("4", SURE), choice("", {"x": 1.0}), choice("5", {"5": 0.5, "4": 0.5}))}
    replies = read(tmp_path, first, answer("a", "4", SURE))
    assert [(reply.item, reply.grade) for reply in replies.replies] == [("a", 3), ("a", 4), ("a", 3)]
    assert replies.unread[0].where == "answers.jsonl, line 1, choice 2"


def test_names_of_item_and_judge_come_from_the_keys_that_are_named(tmp_path):
    line = {"meta": {"id": 7, "who": "x"}, "item": "a", "judge": "j", **completion(choice("4"))}
    assert read(tmp_path, line).replies[0].judge == "j"
    (reply,) = read(tmp_path, line, item="meta.id", judge="meta.who").replies
    assert (reply.item, reply.judge) == ("7", "x")
    dotted = {"meta.id": "b", **line}
    assert read(tmp_path, dotted, item="meta.id").replies[0].item == "b"


def test_an_item_is_never_named_by_the_completions_own_id(tmp_path):
    with pytest.raises(InputError, match="neither custom_id nor item; name its key with item="):
        read(tmp_path, completion(choice("4")))
    assert read(tmp_path, completion(choice("4")), item="id").replies[0].item == "chatcmpl-1"


def test_judges_without_a_name_are_one_and_said_to_be(tmp_path):
    replies = read(tmp_path, {"item": "a", "choices": [choice("4")]})
    assert replies.replies[0].judge == "judge"
    assert "1 of 1 replies name no judge" in replies.notes[0]


def test_bare_grades_are_read_where_no_reply_has_logprobs(tmp_path):
    replies = read(tmp_path, answer("a", "4"), answer("b", "5"))
    assert [(r.probs, r.grade, r.mass) for r in replies.replies] == [(None, 3, None), (None, 4, None)]
    assert replies.notes == ["2 of 2 replies have no logprobs: their grades were read, without probabilities"]


def test_bare_grades_beside_probabilities_are_left_unread(tmp_path):
    replies = read(tmp_path, answer("a", "4"), answer("b", "5", {"5": 1.0}), "{")
    assert [reply.item for reply in replies.replies] == ["b"]
    assert [(u.where, u.item) for u in replies.unread] == [
        ("answers.jsonl, line 1", "a"),
        ("answers.jsonl, line 3", ""),
    ]
    assert "no logprobs, where other lines have them" in replies.unread[0].reason


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
        ({"item": "b", **completion({"message": {"content": [{"text": "4"}]}})}, "the content is no text"),
        ({"item": "b", **completion(choice("I think", finish_reason="length"))}, "the text (cut at its token limit)"),
        (answer("b", "I think"), "no grade in the text"),
        (answer("b", "7", {"7": 1.0}), "'7' is no grade of 1, 2, 3, 4, 5. Does the scale run from 1 to 7?"),
        (answer("b", "4/10", {"4/10": 1.0}), "the highest grade is 5, not 10"),
        ({"item": "b", **completion({**choice("4"), "logprobs": {"content": "x"}})}, "no list of tokens"),
        ({"item": "b", **completion({**choice("4"), "logprobs": {"content": [{}]}})}, "neither text nor bytes"),
        (
            {
                "item": "b",
                **completion({**choice("4"), "logprobs": {"content": [{"token": "4", "logprob": math.nan}]}}),
            },
            "the logprob nan is no logarithm of a probability",
        ),
        (completion(choice("4", SURE)), "nothing names the item"),
        ({"item": ["b"], **completion(choice("4", SURE))}, "'item' is neither a text nor a number"),
        ({"item": True, **completion(choice("4", SURE))}, "'item' is neither a text nor a number"),
        ({"item": "", **completion(choice("4", SURE))}, "'item' is neither a text nor a number"),
        ({"item": "b", **completion(choice("4", SURE), model={})}, "'judge or model' is neither"),
    ],
)
def test_what_cannot_be_read_is_counted_with_its_place_and_reason(tmp_path, line, reason):
    replies = read(tmp_path, answer("a", "4", SURE), "", line)
    (unread,) = replies.unread
    assert unread.where == "answers.jsonl, line 3"
    assert reason in unread.reason
    assert unread.item in {"", "b"}
    assert len(replies.replies) == 1


@pytest.mark.parametrize("key", ["item", "judge"])
def test_a_line_without_the_key_that_was_named_is_unread(tmp_path, key):
    lines = [{**answer("a", "4"), "meta": {"x": "n"}}, answer("b", "4")]
    replies = read(tmp_path, *lines, **{key: "meta.x"})
    assert reasons(replies) == [f"no 'meta.x' in the line, which should name the {key}"]


def test_a_file_in_which_nothing_can_be_read_is_refused_with_the_most_frequent_reasons(tmp_path):
    lines = ["{", "{", "{", answer("a", ""), answer("b", ""), {"item": "c"}, {"item": "c"}, answer("d", "good")]
    with pytest.raises(InputError) as error:
        read(tmp_path, *lines)
    text = str(error.value)
    assert "none of its 8 replies can be read" in text
    assert "3 of them: not a JSON object; 2 of them: empty content; 2 of them: no choices" in text
    assert "no grade" not in text


def test_an_empty_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no replies"):
        read(tmp_path, "")


def broken(value):
    """A value with each of its parts replaced by something else, one at a time."""
    yield from (None, 5, -1.5, "x", "", [], {}, [[]], [{}], True, math.nan)
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        for part in broken(value[key]):
            copy = value.copy()
            copy[key] = part
            yield copy


def test_whatever_stands_in_place_of_a_part_every_line_is_read_or_counted(tmp_path):
    batch = {"custom_id": "a", "response": {"body": completion(choice("It: 4", SURE))}, "error": None}
    lines = list(broken(batch))
    replies = read(tmp_path, *map(json.dumps, lines), answer("b", "4", SURE))
    assert {"x", "b"} <= {reply.item for reply in replies.replies}
    unread = [where.where for where in replies.unread if "choice" not in where.where]
    assert len(replies.replies) + len(unread) == len(lines) + 1
    assert all(reply.probs.sum() == pytest.approx(1) for reply in replies.replies)


def test_files_may_be_compressed_or_hold_a_list(tmp_path):
    packed = tmp_path / "answers.jsonl.gz"
    packed.write_bytes(gzip.compress(json.dumps(answer("a", "4")).encode()))
    assert read_completions(packed, SCALE).replies[0].grade == 3
    listed = written(tmp_path, [answer("a", "4"), answer("b", "?")], name="answers.json")
    replies = read_completions(listed, SCALE)
    assert (replies.replies[0].grade, replies.unread[0].where) == (3, "answers.json, entry 2")


def test_a_byte_order_mark_is_no_fault_and_bytes_that_are_no_text_cost_their_line_only(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(answer("a", "4")).encode() + b'\n{"item": "\xff"}\r\n')
    replies = read_completions(path, SCALE)
    assert (len(replies.replies), reasons(replies)) == (1, ["not a JSON object"])


def test_files_that_cannot_be_opened_are_refused(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        read_completions(tmp_path / "none.jsonl", SCALE)
    with pytest.raises(InputError, match="not readable"):
        read_completions(written(tmp_path, "plain", name="a.jsonl.gz"), SCALE)
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(json.dumps(answer("a", "4")).encode() * 100)[:-20])
    with pytest.raises(InputError, match="not readable"):
        read_completions(cut, SCALE)
    with pytest.raises(InputError, match="not a JSON file"):
        read_completions(written(tmp_path, "{", name="a.json"), SCALE)


def test_notes_count_what_was_filled_in_divided_and_mostly_no_grade(tmp_path):
    lines = [
        answer("a", "4", {"4": 0.75, "5": 0.25}),
        answer("b", "4", {"4": 0.3, "I": 0.6}),
        answer("c", "9", {"9": 0.5, "1": 0.5}),
        answer("d", "9", {"9": 0.9}),
    ]
    assert read(tmp_path, *lines, scale=Scale.of("1..10")).notes == [
        "1 of 4 replies returned no token beside the one taken; ask the server for top_logprobs",
        "2 of 4 replies did not return all grades: the missing probability was divided evenly among those left out, "
        "each at most as likely as the least likely token returned",
        "1 of 4 replies returned tokens that begin several grades and were not taken; their probability was divided "
        "evenly among these grades",
        "1 of 4 replies put less than half of their probability on grades",
    ]


def test_a_judge_that_writes_ten_in_one_token_means_one_by_one(tmp_path):
    nine, ten = answer("a", "9", {"9": 0.6, "1": 0.4}), answer("b", "10", {"10": 0.6, "1": 0.4})
    ten_scale = Scale.of("1..10")
    divided = read(tmp_path, nine, scale=ten_scale)
    np.testing.assert_allclose(divided.replies[0].probs[[0, 8, 9]], [0.2, 0.6, 0.2])
    joined = read(tmp_path, nine, ten, scale=ten_scale)
    np.testing.assert_allclose(joined.replies[0].probs[[0, 8, 9]], [0.4, 0.6, 0], atol=1e-12)
    np.testing.assert_allclose(joined.replies[1].probs[[0, 8, 9]], [0.4, 0, 0.6], atol=1e-12)
    assert joined.notes == []
    other = read(tmp_path, nine, {**ten, "model": "other"}, scale=ten_scale)
    np.testing.assert_allclose(other.replies[0].probs[[0, 8, 9]], [0.2, 0.6, 0.2])


def test_a_reply_cut_where_its_grade_may_go_on_is_unread(tmp_path):
    def cut(item, content, returned=None):
        return {"item": item, **completion(choice(content, returned, finish_reason="length"))}

    ten = Scale.of("1..10")
    bare = read(tmp_path, cut("a", "1"), cut("b", "2"), cut("c", "1\n"), scale=ten)
    assert [reply.item for reply in bare.replies] == ["b", "c"]
    assert "where the grade may go on" in bare.unread[0].reason
    joined = read(tmp_path, cut("a", "1", {"1": 0.75, "10": 0.25}), scale=ten)
    np.testing.assert_allclose(joined.replies[0].probs[[0, 9]], [0.75, 0.25])
    halves = read(tmp_path, cut("a", "4."), cut("b", "5"), scale=Scale.of("1..5:0.5"))
    assert [unread.item for unread in halves.unread] == ["a"]


def test_a_reply_that_was_cut_may_not_have_come_to_its_grade_and_is_counted(tmp_path):
    line = {"item": "a", **completion(choice("It has 3 faults", finish_reason="length"))}
    assert "1 of 1 replies were cut at their token limit" in read(tmp_path, line).notes[0]
    assert "cut" not in read(tmp_path, line, pattern=r"(\d)").notes[0]


def test_number_words_and_names_of_grades_are_read(tmp_path):
    four = read(tmp_path, answer("a", "Four", {"Four": 0.5, "4": 0.25, "five": 0.25}), words=True).replies[0]
    np.testing.assert_allclose(four.probs, [0, 0, 0, 0.75, 0.25], atol=1e-12)
    fair = read(tmp_path, answer("a", "It is fair", {"fair": 0.75, "Poor": 0.25}), scale=Scale.of("poor,fair,good"))
    np.testing.assert_allclose(fair.replies[0].probs, [0.25, 0.75, 0], atol=1e-12)


def test_a_bad_pattern_is_refused_before_the_file_is_read(tmp_path):
    with pytest.raises(InputError, match="pattern: expected one group"):
        read_completions(tmp_path / "none.jsonl", SCALE, pattern="Score")
