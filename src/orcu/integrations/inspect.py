"""Scorer of Inspect that calibrates the scores of another scorer."""

import os
from typing import Any

from orcu.errors import require

require("inspect_ai", extra="inspect", feature="orcu.integrations.inspect")

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr  # noqa: E402
from inspect_ai.solver import TaskState  # noqa: E402

from orcu.integrations.calibrated_scores import ScoreCalibration  # noqa: E402
from orcu.judges.replies import ReplyError  # noqa: E402


@scorer(metrics=[mean(), stderr()])  # type: ignore[untyped-decorator, unused-ignore]
def calibrated(inner: Scorer, panel: str | os.PathLike[str], *, scale: str | None = None, alpha: float = 0.1) -> Scorer:
    """Calibrate the scores of a scorer: the value is the expected human grade, and the metadata has the distribution.

    Args:
        inner: scorer of the judge, such as ``model_graded_qa()``.
        panel: file of the calibrated judge, written by ``orcu judge fit`` from a log of the same scorer.
        scale: scale of the scores, as in the fit; by default they are grades.
        alpha: target miscoverage of the prediction sets.

    Raises:
        InputError: if the file is not a calibrated judge, or needs several judges.
    """
    calibration = ScoreCalibration(os.fspath(panel), scale=scale, alpha=alpha)

    async def score(state: TaskState, target: Target) -> Score | None:
        judged = await inner(state, target)
        if judged is None:
            return None
        metadata: dict[str, Any] = dict(judged.metadata or {})
        try:
            result = calibration(judged.value)
        except ReplyError as error:
            explanation = f"{judged.explanation or ''}\nNot calibrated: {error}.".strip()
            return Score(value=float("nan"), answer=judged.answer, explanation=explanation, metadata=metadata)
        metadata["orcu"] = result.to_dict()
        return Score(value=result.expected, answer=judged.answer, explanation=judged.explanation, metadata=metadata)

    return score
