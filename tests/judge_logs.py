"""Examples of every log format, from the schemas that the tools document or their packages define."""

import json

import numpy as np

N_ITEMS = 60


def grades(n=N_ITEMS):
    """Grades 1..5 of a judge and of people, which agree often."""
    rng = np.random.default_rng(0)
    person = rng.integers(1, 6, size=n)
    return (person + rng.integers(-1, 2, size=n)).clip(1, 5).tolist(), person.tolist()


def chat_completion(text):
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": "gpt", "choices": [choice]}


def openai_response(text, logprobs=(), **fields):
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": list(logprobs)}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": []}
    body = {"id": "resp_1", "object": "response", "model": "gpt", "status": "completed", "error": None}
    return {**body, "incomplete_details": None, "output": [reasoning, message], **fields}


def anthropic_message(text, **fields):
    blocks = [{"type": "thinking", "thinking": "Score: 1?", "signature": "s"}, {"type": "text", "text": text}]
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": blocks}
    return {**body, "stop_reason": "end_turn", "stop_sequence": None, "usage": {"output_tokens": 3}, **fields}


def anthropic_result(item, result):
    return {"custom_id": item, "result": result}


def promptfoo_result(test, score, *, prompt=0, kind="llm-rubric", **fields):
    assertion = {"type": kind, "value": "Is polite"}
    part = {"pass": score >= 0.5, "score": score, "reason": "fine", "assertion": assertion}
    checks = {"pass": True, "score": 1, "reason": "ok", "assertion": {"type": "contains", "value": "a"}}
    grading = {"pass": True, "score": (score + 1) / 2, "reason": "", "componentResults": [part, checks]}
    result = {"id": f"uuid-{test}-{prompt}", "promptIdx": prompt, "testIdx": test, "vars": {"id": f"a{test}"}}
    return {**result, "provider": {"id": "openai:gpt"}, "score": score, "gradingResult": grading, **fields}


def promptfoo_output(results):
    return {"evalId": "eval-1", "results": {"version": 3, "results": results, "prompts": [], "stats": {}}, "config": {}}


def deepeval_case(number, score, **fields):
    metric = {"name": "Quality [GEval]", "threshold": 0.5, "success": True, "score": score, "reason": "fine"}
    case = {"name": f"test_case_{number}", "input": "?", "actualOutput": "!", "success": True, "order": number}
    return {**case, "metricsData": [{**metric, "evaluationModel": "gpt-4.1", **fields}]}


def deepeval_run(cases):
    return {"testCases": cases, "conversationalTestCases": [], "metricsScores": [], "testPassed": len(cases)}


def lm_eval_sample(number, value, **fields):
    sample = {"doc_id": number, "doc": {"question": "?"}, "target": "x", "arguments": {}, "resps": [["x"]]}
    hashes = {"doc_hash": "0", "prompt_hash": "0", "target_hash": "0"}
    return {**sample, "filtered_resps": ["x"], "filter": "none", "metrics": ["judge_score"], **hashes} | {
        "judge_score": value,
        **fields,
    }


def assessment(name, value, source="LLM_JUDGE", source_id="gpt", **fields):
    feedback = {"assessment_name": name, "source": {"source_type": source, "source_id": source_id}}
    return {"assessment_id": "a-1", **feedback, "feedback": {"value": value}, "valid": True, **fields}


def mlflow_trace(number, *assessments):
    info = {"trace_id": f"tr-{number}", "state": "OK", "assessments": list(assessments), "tags": {}}
    return {"info": info, "data": {"spans": []}}


def write_lines(path, lines):
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path


def write_json(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")
    return path
