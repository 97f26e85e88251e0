"""Calibrated judges in MLflow, Inspect and DeepEval, with the real packages and without calls of a model."""

import asyncio
import json

import numpy as np
import pytest

from orcu.errors import InputError
from orcu.integrations.calibrated_scores import ScoreCalibration
from orcu.judges import Grades, JudgePanel
from orcu.judges.replies import ReplyError

RNG = np.random.default_rng(0)
HUMAN = RNG.integers(1, 6, size=120)
JUDGED = (HUMAN + RNG.integers(0, 3, size=120)).clip(1, 5)  # too generous


def panel_of(kind):
    grades = Grades.from_arrays("1..5", {"gpt": np.eye(5)[JUDGED - 1]}, kind=kind, human=HUMAN)
    return JudgePanel(calibrator="vector+projection").fit(grades)


@pytest.fixture(scope="module")
def panel():
    return panel_of("votes")


def test_score_calibration_equals_the_panel(panel, tmp_path):
    panel.save(tmp_path / "judge.json")
    score = ScoreCalibration(tmp_path / "judge.json", rule="median")(4)
    grades = Grades.from_arrays("1..5", {"gpt": np.eye(5)[[3]]}, kind="votes")
    result = panel.apply(grades, rule="median")
    assert score.expected == result.expected_grade[0] < 4
    assert list(score.probs.values()) == result.probs[0].tolist()
    assert (score.set_low, score.set_high) == tuple(panel.levels_.names[k] for k in (result.low[0], result.high[0]))
    json.dumps(score.to_dict())


def test_score_calibration_refuses_other_scores_and_panels(panel):
    calibration = ScoreCalibration(panel)
    for value in (None, 6, "great", float("nan")):
        with pytest.raises(ReplyError):
            calibration(value)
    with pytest.raises(InputError, match="fitted on single grades; leave scale out"):
        ScoreCalibration(panel, scale="0..1")
    with pytest.raises(InputError, match=r"fitted on probabilities or scores with a scale; pass scale="):
        ScoreCalibration(panel_of("probs"))


def test_mlflow_judge_aligned_by_calibration_returns_calibrated_feedback():
    base = pytest.importorskip("mlflow.genai.judges.base", reason="mlflow is not installed")
    from mlflow.entities import AssessmentSource, Feedback, Trace, TraceData, TraceInfo, TraceLocation, TraceState

    from orcu.integrations.mlflow import CalibrationOptimizer

    class Echo(base.Judge):
        """A judge whose grade is the output."""

        @property
        def instructions(self):
            return "Repeat the output."

        @property
        def feedback_value_type(self):
            return int

        def get_input_fields(self):
            return []

        def __call__(self, *, outputs=None, **_):
            return Feedback(name=self.name, value=outputs, rationale="because", metadata={"run": "1"})

    def trace(number, *, with_human=True):
        sources = [("LLM_JUDGE", "gpt", JUDGED[number])] + [("HUMAN", "ann", HUMAN[number])] * with_human
        feedback = [
            Feedback(name="quality", value=int(value), source=AssessmentSource(source_type=kind, source_id=name))
            for kind, name, value in sources
        ]
        location = TraceLocation.from_experiment_id("0")
        info = TraceInfo(
            trace_id=f"tr-{number}", trace_location=location, request_time=0, state=TraceState.OK, assessments=feedback
        )
        return Trace(info=info, data=TraceData(spans=[]))

    traces = [trace(number) for number in range(120)]
    optimizer = CalibrationOptimizer("1..5", rule="median", calibrator="vector+projection")
    aligned = Echo(name="quality").align(traces, optimizer)
    assert isinstance(aligned, base.Judge)
    assert (aligned.name, aligned.instructions, aligned.panel.n_items_) == ("quality", "Repeat the output.", 120)
    feedback = aligned(outputs=4)
    expected = ScoreCalibration(panel_of("votes"), rule="median")(4)
    assert feedback.value == int(expected.decision) == 3
    assert json.loads(feedback.metadata["orcu.probs"]) == pytest.approx(expected.probs, abs=1e-6)
    assert (feedback.metadata["orcu.uncalibrated"], feedback.metadata["run"]) == ("4", "1")
    assert feedback.rationale == "because"
    assert "not one of" in str(aligned(outputs=9).error)
    assert aligned.run(outputs=4).value == 3  # as mlflow.genai.evaluate calls it
    with pytest.raises(InputError, match="no trace has feedback of a person with the name 'quality'"):
        optimizer.align(Echo(name="quality"), [trace(number, with_human=False) for number in range(120)])
    with pytest.raises(InputError, match="got none"):
        optimizer.align(Echo(name="quality"), [])


def test_inspect_scorer_writes_calibrated_scores_into_its_log(panel, tmp_path, monkeypatch):
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed")
    from inspect_ai import Task
    from inspect_ai import eval as run_eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import Score, scorer
    from inspect_ai.solver import solver

    from orcu.integrations.inspect import calibrated

    @scorer(metrics=[])
    def echo():
        async def score(state, target):
            text = state.output.completion
            return Score(value=int(text) if text.isdigit() else text, answer=text, explanation="because")

        return score

    @solver
    def repeat():
        async def solve(state, generate):
            state.output = ModelOutput.from_content("mockllm", state.input_text)
            return state

        return solve

    monkeypatch.chdir(tmp_path)
    panel.save(tmp_path / "judge.json")
    task = Task(
        dataset=[Sample(input=text, target="x") for text in ("4", "5", "great")],
        solver=repeat(),
        scorer=calibrated(echo(), str(tmp_path / "judge.json")),
    )
    (log,) = run_eval(task, model="mockllm/model", display="none", log_dir=str(tmp_path / "logs"))
    assert log.status == "success", log.error
    scores = [sample.scores["calibrated"] for sample in log.samples]
    expected = [ScoreCalibration(panel)(value) for value in (4, 5)]
    assert [score.value for score in scores[:2]] == pytest.approx([each.expected for each in expected])
    assert scores[0].metadata["orcu"]["probs"] == pytest.approx(expected[0].probs)
    assert np.isnan(scores[2].value)
    assert "Not calibrated" in scores[2].explanation


def test_deepeval_metric_calibrates_scores(tmp_path, monkeypatch):
    monkeypatch.setenv("DEEPEVAL_TELEMETRY_OPT_OUT", "YES")
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("deepeval", reason="deepeval is not installed")
    from deepeval.metrics import BaseMetric
    from deepeval.test_case import LLMTestCase

    from orcu.integrations.deepeval import CalibratedMetric

    class Echo(BaseMetric):
        threshold, async_mode, evaluation_model = 0.7, True, "gpt"

        def measure(self, test_case, *args, **kwargs):
            self.score, self.reason = float(test_case.actual_output), "because"
            return self.score

        async def a_measure(self, test_case, *args, **kwargs):
            return self.measure(test_case)

        @property
        def __name__(self):
            return "Echo"

    fitted = panel_of("probs")
    metric = CalibratedMetric(Echo(), fitted)
    case = LLMTestCase(input="question", actual_output="0.75")
    expected = ScoreCalibration(fitted, scale="0..1")(0.75)
    assert metric.measure(case) == pytest.approx((expected.expected - 1) / 4)
    assert asyncio.run(metric.a_measure(case)) == metric.score < 0.75
    assert metric.score_breakdown == expected.probs
    assert metric.is_successful() == (metric.score >= 0.7)
    assert (metric.__name__, metric.reason, metric.threshold) == ("Echo [calibrated]", "because", 0.7)
    with pytest.raises(InputError, match="leave scale out"):
        CalibratedMetric(Echo(), panel_of("votes"))
