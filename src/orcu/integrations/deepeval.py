"""Metric of DeepEval that calibrates the scores of another metric."""

import os
from typing import Any

from orcu.errors import require

require("deepeval", extra="deepeval", feature="orcu.integrations.deepeval")

from deepeval.metrics import BaseMetric  # noqa: E402
from deepeval.test_case import LLMTestCase  # noqa: E402

from orcu.integrations.calibrated_scores import CalibratedScore, ScoreCalibration  # noqa: E402
from orcu.judges.panel import JudgePanel  # noqa: E402

SCALE = "0..1"  # of the scores of DeepEval


class CalibratedMetric(BaseMetric):  # type: ignore[misc, unused-ignore]
    """A metric whose score is the expected human grade, mapped to the scale of DeepEval from 0 to 1.

    ``calibrated`` has the distribution, the decision and the prediction set of the last test case, and
    ``score_breakdown`` the probability of each human grade.

    Args:
        metric: metric of the judge, such as ``GEval(...)``.
        panel: fitted `orcu.judges.JudgePanel`, or its file written by ``orcu judge fit --scale 0..1`` from a test run.
        threshold: score from which a test case passes; by default that of the metric.
        alpha: target miscoverage of the prediction sets.

    Raises:
        InputError: if the panel needs several judges, or was fitted on grades instead of scores from 0 to 1.
    """

    calibrated: CalibratedScore | None = None

    def __init__(
        self,
        metric: BaseMetric,
        panel: JudgePanel | str | os.PathLike[str],
        *,
        threshold: float | None = None,
        alpha: float = 0.1,
    ) -> None:
        self.metric = metric
        self.threshold = metric.threshold if threshold is None else threshold
        self.async_mode, self.include_reason = metric.async_mode, metric.include_reason
        self.evaluation_model = metric.evaluation_model
        self._required_params = metric._required_params
        self._calibration = ScoreCalibration(panel, scale=SCALE, alpha=alpha)

    def measure(self, test_case: LLMTestCase, *args: Any, **kwargs: Any) -> float:
        """Score a test case."""
        self.metric.measure(test_case, *args, **kwargs)
        return self._calibrate()

    async def a_measure(self, test_case: LLMTestCase, *args: Any, **kwargs: Any) -> float:
        """Score a test case asynchronously."""
        await self.metric.a_measure(test_case, *args, **kwargs)
        return self._calibrate()

    def _calibrate(self) -> float:
        values = self._calibration.panel.levels_.values
        self.calibrated = self._calibration(self.metric.score)
        self.score = float((self.calibrated.expected - values[0]) / (values[-1] - values[0]))
        self.score_breakdown = self.calibrated.probs
        self.reason, self.error = self.metric.reason, self.metric.error
        self.evaluation_cost = self.metric.evaluation_cost
        self.success = self.threshold is None or self.score >= self.threshold
        return self.score

    def is_successful(self) -> bool:
        """Whether the calibrated score reaches the threshold."""
        return bool(self.success) and self.error is None

    @property
    def __name__(self) -> str:
        return f"{self.metric.__name__} [calibrated]"
