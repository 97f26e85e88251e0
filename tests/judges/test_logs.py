"""Recognition and reading of every log format: `recognise`, `read_scores`, and JSON records, through `read`."""

import importlib.util
import json

import judge_logs as example
import numpy as np
import pytest

from orcu.errors import InputError, UnknownNameError
from orcu.judges.logs import INSPECT, RECORDS, REPLIES, recognise
from orcu.judges.reading import read


def lines(*entries, folder, name="log.jsonl"):
    return example.write_lines(folder / name, entries)


def rated(grades):
    """Expected grade by item and judge."""
    return {
        (item, judge): round(float(grades.expected_grade(judge)[row]), 6)
        for judge in grades.judges
        for row, item in enumerate(grades.items)
        if grades.rated_mask(judge)[row]
    }


def reasons(grades):
    return [failure.reason for failure in grades.failures]


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        (example.promptfoo_output([example.promptfoo_result(0, 1.0)]), "promptfoo results"),
        (example.promptfoo_result(0, 1.0), "promptfoo results"),
        (example.deepeval_run([example.deepeval_case(0, 0.5)]), "a DeepEval test run"),
        ({"testRunData": example.deepeval_run([example.deepeval_case(0, 0.5)])}, "a DeepEval test run"),
        (example.lm_eval_sample(0, 4), "lm-eval samples"),
        (example.mlflow_trace(0, example.assessment("quality", 4)), "MLflow traces"),
        ({"trace_id": "tr-1", "assessments": [example.assessment("quality", 4)]}, "MLflow traces"),
        (example.chat_completion("4"), REPLIES),
        ({"custom_id": "a", "response": {"body": example.openai_response("4")}}, REPLIES),
        (example.anthropic_result("a", {"type": "expired"}), REPLIES),
        ({"version": 2, "eval": {}}, INSPECT),
        ({"item": "a", "score": 4}, RECORDS),
        ({"question": "?", "choices": ["yes", "no"]}, RECORDS),
    ],
)
def test_recognise_by_content(tmp_path, entry, name):
    found = recognise(example.write_json(tmp_path / "log.json", entry))
    assert (found if isinstance(found, str) else found.name) == name


def test_recognise_by_extension_or_a_later_line(tmp_path):
    assert recognise(tmp_path / "run.eval") == INSPECT
    assert recognise(lines("{broken", "[]", example.lm_eval_sample(0, 4), folder=tmp_path)).name == "lm-eval samples"
    assert recognise(lines("{broken", folder=tmp_path)) == REPLIES


@pytest.mark.parametrize(
    ("entry", "note"),
    [
        (example.chat_completion("Score: 4"), "1 OpenAI chat completions, grades in choices[].message.content"),
        (example.openai_response("Score: 4"), "1 OpenAI responses, grades in output[].content[].text"),
        (example.anthropic_message("Score: 4"), "1 Anthropic messages, grades in content[].text"),
    ],
)
def test_read_replies_says_the_format_and_the_field(tmp_path, entry, note):
    grades = read(lines({"item": "a", **entry}, folder=tmp_path), levels="1..5")
    assert list(rated(grades).values()) == [4.0]
    assert grades.notes[0] == note


def test_read_anthropic_batch_counts_what_did_not_succeed(tmp_path):
    result = {"type": "error", "error": {"type": "invalid_request_error", "message": "too long"}}
    path = lines(
        example.anthropic_result("a", {"type": "succeeded", "message": example.anthropic_message("Score: 4")}),
        example.anthropic_result("b", {"type": "errored", "error": result}),
        example.anthropic_result("c", {"type": "canceled"}),
        example.anthropic_result("d", {"type": "expired"}),
        example.anthropic_result(
            "e", {"type": "succeeded", "message": example.anthropic_message("", stop_reason="refusal")}
        ),
        example.anthropic_result(
            "f",
            {
                "type": "succeeded",
                "message": example.anthropic_message(
                    "", content=[{"type": "tool_use", "id": "t", "name": "grade", "input": {"score": 4}}]
                ),
            },
        ),
        example.anthropic_result(
            "g", {"type": "succeeded", "message": example.anthropic_message("Score: 1", stop_reason="max_tokens")}
        ),
        folder=tmp_path,
    )
    grades = read(path, levels="1..10")
    assert rated(grades) == {("a", "claude"): 4.0}
    assert [failure.item for failure in grades.failures] == list("bcdefg")
    words = ["too long", "canceled", "expired", "refused", "tool call", "token limit"]
    assert all(word in reason for word, reason in zip(words, reasons(grades), strict=True))


def test_read_openai_response_uses_logprobs_and_the_token_limit(tmp_path):
    top = [
        {"token": "4", "bytes": [52], "logprob": np.log(0.75)},
        {"token": "5", "bytes": [53], "logprob": np.log(0.25)},
    ]
    token = {**top[0], "top_logprobs": top}
    body = {"custom_id": "a", "response": {"body": example.openai_response("4", [token])}, "error": None}
    grades = read(lines(body, folder=tmp_path), levels="1..5")
    assert rated(grades) == {("a", "gpt"): 4.25}
    cut = example.openai_response("4", status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    refused = example.openai_response(
        "", output=[{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}]
    )
    path = lines(*({"item": item, **entry} for item, entry in (("a", cut), ("b", refused))), folder=tmp_path)
    with pytest.raises(InputError, match=r"token limit.*refused"):
        read(path, levels="1..40")


def test_read_promptfoo_maps_the_scale_and_names_other_scores(tmp_path):
    results = [example.promptfoo_result(0, 0.75), example.promptfoo_result(1, 0.8)]
    path = example.write_json(tmp_path / "results.json", example.promptfoo_output(results))
    grades = read(path, levels="1..5", scale="0..1")
    assert rated(grades) == {("0:0", "llm-rubric"): 4.0, ("1:0", "llm-rubric"): 4.2}
    np.testing.assert_allclose(grades.ratings["llm-rubric"][1], [0, 0, 0, 0.8, 0.2], atol=1e-12)
    assert grades.notes[:2] == (
        "2 entries of promptfoo results, grades in gradingResult.componentResults[].score, items in testIdx:promptIdx",
        "other scores of the file are not read: contains",
    )
    assert list(rated(read(path, levels="0..1", scale="0..1", item="vars.id"))) == [
        ("a0", "llm-rubric"),
        ("a1", "llm-rubric"),
    ]


@pytest.mark.parametrize("levels", ["1..5", "0..3", "bad,good"])
def test_read_unit_scores_without_scale_raises(tmp_path, levels):
    """A score of 1 is the best of 0..1 and the worst of 1..5, so it must not be read as the grade 1."""
    promptfoo = example.promptfoo_output([example.promptfoo_result(0, 1)])
    deepeval = example.deepeval_run([example.deepeval_case(0, 1)])
    for content in (promptfoo, deepeval):
        path = example.write_json(tmp_path / "log.json", content)
        with pytest.raises(InputError, match=r"from 0 to 1.*--scale 0\.\.1.*--levels"):
            read(path, levels=levels)
        assert list(rated(read(path, levels="0,0.5,1")).values()) == [1.0]


def test_read_promptfoo_failures(tmp_path):
    failed = example.promptfoo_result(0, 0)
    failed["gradingResult"]["componentResults"][0]["metadata"] = {"graderError": True}
    results = [failed, example.promptfoo_result(1, 0.6), example.promptfoo_result(2, 7.0)]
    path = example.write_json(tmp_path / "results.json", example.promptfoo_output(results))
    grades = read(path, levels="1..5", scale="0..1")
    assert "the grader failed" in reasons(grades)[0]
    assert "not on the scale from 0 to 1" in reasons(grades)[1]


def test_read_promptfoo_without_model_graded_assertion_names_the_scorers(tmp_path):
    path = lines(example.promptfoo_result(0, 0.5, kind="python"), folder=tmp_path)
    with pytest.raises(InputError, match="--scorer.*python, contains"):
        read(path, levels="1..5", scale="0..1")
    assert rated(read(path, levels="1..5", scale="0..1", scorer="python")) == {("0:0", "python"): 3.0}
    with pytest.raises(UnknownNameError, match="pyton"):
        read(path, levels="1..5", scale="0..1", scorer="pyton")


def test_read_promptfoo_with_two_assertions_of_a_name_raises(tmp_path):
    result = example.promptfoo_result(0, 0.5)
    result["gradingResult"]["componentResults"] *= 2
    with pytest.raises(InputError, match="several scores of the item '0:0'"):
        read(lines(result, folder=tmp_path), levels="1..5", scale="0..1")


def test_read_deepeval_names_judge_and_model_and_reports_errors(tmp_path):
    cases = [example.deepeval_case(0, 0.25), example.deepeval_case(1, None, error="no key")]
    path = example.write_json(tmp_path / "run.json", {"testRunData": example.deepeval_run(cases)})
    grades = read(path, levels="1..5", scale="0..1")
    assert rated(grades) == {("test_case_0", "Quality [GEval] (gpt-4.1)"): 2.0}
    assert reasons(grades) == ["no key"]


def test_read_deepeval_with_repeated_names_raises_unless_item_is_given(tmp_path):
    cases = [{**example.deepeval_case(number, 0.5), "name": "test_quality"} for number in range(2)]
    path = example.write_json(tmp_path / "run.json", example.deepeval_run(cases))
    with pytest.raises(InputError, match="item 'test_quality'.*--item"):
        read(path, levels="1..5", scale="0..1")
    assert [item for item, _ in rated(read(path, levels="1..5", scale="0..1", item="order"))] == ["0", "1"]


def test_read_lm_eval_uses_listed_metrics_and_filters(tmp_path):
    samples = [
        example.lm_eval_sample(0, 4),
        example.lm_eval_sample(0, 5, filter="strict"),
        example.lm_eval_sample(1, 2, metrics=["judge_score", "bleu"], bleu=0.5),
    ]
    path = lines(*samples, "{broken", folder=tmp_path, name="samples_task_2025.jsonl")
    grades = read(path, levels="1..5", scorer="judge_score")
    expected = {("0", "judge_score"): 4.0, ("0", "judge_score (strict)"): 5.0, ("1", "judge_score"): 2.0}
    assert rated(grades) == expected
    assert reasons(grades) == ["not an entry of lm-eval samples"]


def test_read_mlflow_feedback_of_judges_and_people(tmp_path):
    traces = [
        example.mlflow_trace(
            0,
            example.assessment("quality", 2, valid=False),  # replaced by the next one
            example.assessment("quality", 4.0),
            example.assessment("quality", 5, "HUMAN", "ann"),
            example.assessment("quality", 4, "HUMAN", "bob"),
            {"assessment_name": "quality", "source": {"source_type": "HUMAN"}, "expectation": {"value": 1}},
        ),
        example.mlflow_trace(1, example.assessment("quality", None, feedback={"error": {"error_message": "timeout"}})),
        example.mlflow_trace(2, example.assessment("length", 3, "CODE", "")),
    ]
    grades = read(lines(*traces, folder=tmp_path), levels="1..5")
    assert rated(grades) == {("tr-0", "quality (gpt)"): 4.0}
    np.testing.assert_allclose(grades.human, [[0, 0, 0, 0.5, 0.5]])
    assert grades.n_raters.tolist() == [2]
    assert reasons(grades) == ["timeout"]
    assert "1 entries have no score of quality" in grades.notes


def test_read_mlflow_with_human_grades_of_several_scorers_raises(tmp_path):
    feedback = [example.assessment(name, 4, *source) for name in ("tone", "facts") for source in ((), ("HUMAN", "ann"))]
    path = lines(example.mlflow_trace(0, *feedback), folder=tmp_path)
    with pytest.raises(InputError, match="--scorer.*tone, facts"):
        read(path, levels="1..5")
    assert list(rated(read(path, levels="1..5", scorer="tone"))) == [("tr-0", "tone (gpt)")]


def test_read_records_as_a_table_with_nested_keys(tmp_path):
    path = lines(
        {"id": "007", "scores": {"tone": 4}, "grade": 5, "model": "x"},
        {"id": "7", "scores": {"tone": 2}, "model": "y"},
        folder=tmp_path,
    )
    grades = read(path, grade="scores.tone", levels="1..5", item="id", human="grade", system="model")
    assert grades.items.tolist() == ["007", "7"]
    assert grades.human_mean[0] == 5
    assert np.isnan(grades.human_mean[1])
    assert grades.notes[0] == "2 JSON records, grades in scores.tone"
    with pytest.raises(InputError, match=r"--grade COLUMN.*scores\.tone"):
        read(path, levels="1..5")


def test_read_records_with_texts_needs_a_pattern(tmp_path):
    path = lines({"id": 1, "reply": "Score: 4"}, {"id": 2, "reply": "no idea"}, folder=tmp_path)
    with pytest.raises(InputError, match="row 1, 'reply'"):
        read(path, grade="reply", levels="1..5", item="id")
    grades = read(path, grade="reply", levels="1..5", item="id", pattern=r"Score: (\d+)")
    assert list(rated(grades).values()) == [4.0]
    assert reasons(grades) == ["the pattern does not match the text"]
    assert "1 replies could not be parsed" in grades.notes


def test_read_records_with_a_line_that_is_no_object_raises(tmp_path):
    with pytest.raises(InputError, match="line 2: expected a JSON object"):
        read(lines({"score": 4}, "[4]", folder=tmp_path), grade="score", levels="1..5")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": "0-1"}, "^scale: expected LOW..HIGH"),
        ({"scale": "1..0"}, "^scale:"),
        ({"pattern": "(4)"}, "promptfoo results with scores.*--pattern"),
        ({"judge": "model"}, "--judge"),
        ({"grade": "score"}, "this file is promptfoo results"),
    ],
)
def test_read_scores_with_unsuitable_options_raises(tmp_path, options, message):
    path = lines(example.promptfoo_result(0, 0.5), folder=tmp_path)
    with pytest.raises(InputError, match=message):
        read(path, levels="1..5", **{"scale": "0..1"} | options)


def test_read_replies_with_scorer_or_scale_raises(tmp_path):
    path = lines({"item": "a", **example.chat_completion("4")}, folder=tmp_path)
    with pytest.raises(InputError, match=r"texts and has no scorers.*--scorer.*--scale"):
        read(path, levels="1..5", scorer="x", scale="0..1")


def has(package):
    return importlib.util.find_spec(package) is not None


@pytest.mark.skipif(not has("deepeval"), reason="pip install deepeval")
def test_read_test_run_of_the_real_deepeval(tmp_path):
    from deepeval.test_run.api import LLMApiTestCase
    from deepeval.test_run.test_run import TestRun
    from deepeval.tracing.api import MetricData

    metric = MetricData(name="Quality [GEval]", score=0.75, evaluationModel="gpt", success=True)
    run = TestRun(testCases=[LLMApiTestCase(name="a", input="?", metricsData=[metric])])
    with (tmp_path / "run.json").open("w") as file:
        run.save(file)
    assert rated(read(tmp_path / "run.json", levels="1..5", scale="0..1")) == {("a", "Quality [GEval] (gpt)"): 4.0}


@pytest.mark.skipif(not has("mlflow"), reason="pip install mlflow")
def test_read_traces_of_the_real_mlflow(tmp_path):
    from mlflow.entities import AssessmentSource, Feedback, Trace, TraceData, TraceInfo, TraceLocation, TraceState

    feedback = [
        Feedback(name="quality", value=value, source=AssessmentSource(source_type=kind, source_id=who))
        for value, kind, who in ((4, "LLM_JUDGE", "gpt"), (5, "HUMAN", "ann"))
    ]
    location = TraceLocation.from_experiment_id("0")
    info = TraceInfo("tr-1", location, request_time=0, state=TraceState.OK, assessments=feedback)
    grades = read(lines(Trace(info, TraceData([])).to_json(), folder=tmp_path), levels="1..5")
    assert rated(grades) == {("tr-1", "quality (gpt)"): 4.0}
    assert grades.human_mean.tolist() == [5.0]


@pytest.mark.skipif(not has("anthropic"), reason="pip install anthropic")
def test_read_batch_of_the_real_anthropic_types(tmp_path):
    from anthropic.types.messages import MessageBatchIndividualResponse

    message = example.anthropic_message("Score: 4", usage={"input_tokens": 1, "output_tokens": 3})
    line = MessageBatchIndividualResponse.model_validate(
        example.anthropic_result("a", {"type": "succeeded", "message": message})
    )
    assert rated(read(lines(line.model_dump_json(), folder=tmp_path), levels="1..5")) == {("a", "claude"): 4.0}


@pytest.mark.skipif(not has("openai"), reason="pip install openai")
def test_read_response_of_the_real_openai_types(tmp_path):
    from openai.types.responses import Response

    fields = {"created_at": 0, "instructions": None, "metadata": {}, "parallel_tool_calls": True, "tools": []}
    body = Response.model_validate(example.openai_response("Score: 4", tool_choice="auto", **fields)).model_dump()
    line = {"custom_id": "a", "response": {"body": body}}
    assert rated(read(lines(json.dumps(line), folder=tmp_path), levels="1..5")) == {("a", "gpt"): 4.0}
