"""Calibrated judges in evaluation tools: the score of a tool becomes a distribution over the human grades."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcu.errors import InputError
from orcu.judges.grades import PROBS, VOTES, Grades
from orcu.judges.levels import parse_scale
from orcu.judges.panel import JudgePanel
from orcu.judges.scores import grade_of


@dataclass(frozen=True)
class CalibratedScore:
    """Calibrated score of an item.

    Attributes:
        expected: expected human grade, in the values of the levels.
        decision: name of the decided grade.
        set_low: lowest grade of the prediction set.
        set_high: highest grade of the prediction set.
        probs: probability of each human grade, by its name.
        uncalibrated: score of the judge.
    """

    expected: float
    decision: str
    set_low: str
    set_high: str
    probs: dict[str, float]
    uncalibrated: Any

    def to_dict(self) -> dict[str, Any]:
        """Plain data for logs."""
        return dict(vars(self))


class ScoreCalibration:
    """Apply a fitted panel with one judge to single scores.

    Args:
        panel: fitted `orcu.judges.JudgePanel`, or its file written by ``orcu judge fit``. Fit it on scores of the same
            judge and tool.
        scale: scale of the scores, such as ``"0..1"``, if it is not that of the levels; as in the fit.
        rule: decision rule, as for `orcu.judges.JudgePanel.apply`.
        alpha: target miscoverage of the prediction sets.

    Raises:
        InputError: if the panel is not fitted, needs several judges, or was fitted on other scores.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> human = rng.integers(1, 6, size=200)
        >>> judged = (human + rng.integers(0, 3, size=200)).clip(1, 5)  # too generous
        >>> grades = Grades.from_arrays("1..5", {"gpt": np.eye(5)[judged - 1]}, kind="votes", human=human)
        >>> score = ScoreCalibration(JudgePanel().fit(grades))(4)
        >>> round(score.expected, 1), score.decision
        (3.1, '4')
    """

    def __init__(
        self,
        panel: JudgePanel | str | os.PathLike[str],
        *,
        scale: str | None = None,
        rule: Any = "argmax",
        alpha: float = 0.1,
    ) -> None:
        self.panel = panel if isinstance(panel, JudgePanel) else JudgePanel.load(panel)
        judges = self.panel.required_judges
        if len(judges) != 1:
            raise InputError(
                f"panel: it needs the scores of {len(judges)} judges ({', '.join(judges)}), and a tool has one at a "
                "time. Fit a panel on one judge."
            )
        if self.panel.pool_.adjustment:
            raise InputError("panel: it has adjustments per subgroup, which a tool does not pass on. Fit it without.")
        self.judge, self.scale = judges[0], None if scale is None else parse_scale(scale)
        kind = VOTES if scale is None else PROBS
        if self.panel.kind_ != kind:
            fitted = "single grades" if self.panel.kind_ == VOTES else "probabilities or scores with a scale"
            raise InputError(
                f"scale: the panel was fitted on {fitted}; {'leave scale out' if kind == PROBS else 'pass scale='}."
            )
        self.rule, self.alpha = rule, alpha

    def __call__(self, value: Any) -> CalibratedScore:
        """Calibrate a score.

        Raises:
            ReplyError: if the score is missing, is not one of the levels, or not on the scale.
        """
        levels = self.panel.levels_
        probs, grade = grade_of(value, levels, self.scale)
        rating = np.eye(len(levels))[grade] if probs is None else probs
        grades = Grades.from_arrays(levels, {self.judge: [rating]}, kind=self.panel.kind_)
        result = self.panel.apply(grades, rule=self.rule, alpha=self.alpha)
        names = levels.names
        return CalibratedScore(
            expected=float(result.expected_grade[0]),
            decision=names[result.decision[0]],
            set_low=names[result.low[0]],
            set_high=names[result.high[0]],
            probs=dict(zip(names, result.probs[0].tolist(), strict=True)),
            uncalibrated=value,
        )
