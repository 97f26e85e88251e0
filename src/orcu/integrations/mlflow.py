"""Alignment of an MLflow judge by calibration: no model is called, and the prompt is not changed."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orcu.errors import InputError, require

require("mlflow", extra="mlflow", feature="orcu.integrations.mlflow")

from mlflow.entities import Feedback  # noqa: E402
from mlflow.entities.trace import Trace  # noqa: E402
from mlflow.genai.judges.base import AlignmentOptimizer, Judge, JudgeField  # noqa: E402
from pydantic import PrivateAttr  # noqa: E402

from orcu.integrations.calibrated_scores import ScoreCalibration  # noqa: E402
from orcu.judges.panel import JudgePanel  # noqa: E402
from orcu.judges.reading import read  # noqa: E402
from orcu.judges.replies import ReplyError  # noqa: E402


class CalibratedMlflowJudge(Judge):
    """A judge whose feedback is the calibrated decision; the distribution is in the metadata.

    ``judge.panel`` is the fitted `orcu.judges.JudgePanel`. The judge cannot be registered with an MLflow server, which
    stores prompts only: save the panel, and align again or wrap the judge.
    """

    _judge: Judge = PrivateAttr()
    _calibration: ScoreCalibration = PrivateAttr()

    def __init__(self, judge: Judge, calibration: ScoreCalibration) -> None:
        super().__init__(name=judge.name, description=judge.description, aggregations=judge.aggregations)
        self._judge, self._calibration = judge, calibration

    @property
    def panel(self) -> JudgePanel:
        """The calibrated panel."""
        return self._calibration.panel

    @property
    def instructions(self) -> str:
        """Instructions of the judge that is calibrated."""
        return str(self._judge.instructions)

    @property
    def feedback_value_type(self) -> Any:
        """Type of the feedback of the judge that is calibrated."""
        return self._judge.feedback_value_type

    def get_input_fields(self) -> list[JudgeField]:
        """Input fields of the judge that is calibrated."""
        return list(self._judge.get_input_fields())

    def __call__(
        self,
        *,
        inputs: Any = None,
        outputs: Any = None,
        expectations: dict[str, Any] | None = None,
        trace: Trace | None = None,
        session: list[Trace] | None = None,
    ) -> Feedback:
        """Call the judge, and calibrate its feedback; feedback that is not a grade is returned as an error.

        The arguments are those of the judge.
        """
        feedback = self._judge.run(  # type: ignore[no-untyped-call, unused-ignore]
            inputs=inputs, outputs=outputs, expectations=expectations, trace=trace, session=session
        )
        value: Any = feedback.value if isinstance(feedback, Feedback) else feedback
        original = feedback if isinstance(feedback, Feedback) else Feedback(name=self.name, value=value)
        if original.error is not None:
            return original
        metadata = dict(original.metadata or {})
        error = None
        try:
            score = self._calibration(value)
        except ReplyError as problem:
            value, error = None, problem
        else:
            value = _as_type(score.decision, value)
            metadata |= {f"orcu.{name}": json.dumps(entry) for name, entry in score.to_dict().items()}
        return Feedback(
            name=original.name,
            value=value,
            error=error,
            source=original.source,
            rationale=original.rationale,
            metadata=metadata,
        )


def _as_type(decision: str, value: Any) -> Any:
    """The decided grade in the type of the judge's value, so that tables have one type."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return decision
    number = float(decision)
    return int(number) if isinstance(value, int) and number.is_integer() else number


class CalibrationOptimizer(AlignmentOptimizer):
    """Alignment optimizer for ``judge.align(traces, CalibrationOptimizer(levels="1..5"))``.

    Each trace needs feedback of the judge and, for some traces, of people with the same name, as for other optimizers
    of MLflow. Feedback of different versions of the judge is averaged.

    Args:
        levels: grade levels, lowest first, as for `orcu.judges.read`: ``"1..5"`` or ``"no,yes"``.
        scale: scale of the feedback if it is not that of the levels, such as ``"0..1"``.
        calibrator: name of the calibrator.
        rule: decision rule, as for `orcu.judges.JudgePanel.apply`.
        random_state: seed of the folds.

    Raises:
        InputError: if the traces have too few human grades, or feedback is not one of the levels.
    """

    def __init__(
        self,
        levels: str | Sequence[Any],
        *,
        scale: str | None = None,
        calibrator: str = "auto",
        rule: Any = "argmax",
        random_state: int = 0,
    ) -> None:
        self.levels, self.scale, self.calibrator = levels, scale, calibrator
        self.rule, self.random_state = rule, random_state

    def align(self, judge: Judge, traces: list[Trace]) -> Judge:
        """Return the judge with calibrated feedback."""
        if not traces:
            raise InputError("traces: expected traces with feedback of the judge and of people; got none.")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "traces.jsonl"
            path.write_text("\n".join(trace.to_json() for trace in traces), encoding="utf-8")
            grades = read(path, levels=self.levels, scorer=judge.name, scale=self.scale)
        if not grades.human_mask.any():
            raise InputError(f"traces: no trace has feedback of a person with the name {judge.name!r}.")
        if len(grades.judges) > 1:
            grades = grades.average_judges()
        panel = JudgePanel(calibrator=self.calibrator, random_state=self.random_state).fit(grades)
        return CalibratedMlflowJudge(judge, ScoreCalibration(panel, scale=self.scale, rule=self.rule))
