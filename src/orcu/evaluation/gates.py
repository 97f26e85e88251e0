"""Gates: conditions on metrics that stop a pipeline, such as ``sce.low>0.05``."""

import math
import operator
import re
from dataclasses import dataclass

from orcu.errors import InputError, UnknownNameError
from orcu.evaluation.evaluation import Evaluation
from orcu.metrics.base import METRICS

_OPERATORS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_FORM = re.compile(r"^\s*(?:(.+):)?\s*(\w+)(?:\.(value|low|high))?\s*(>=|<=|>|<)\s*([-+.\deE]+)\s*$")


@dataclass(frozen=True)
class Gate:
    """``[GROUP:] metric[.value|.low|.high]`` compared with a number; values are fractions, not percent.

    The group is one of the evaluation's, or ``*`` for any of them.

    Example:
        >>> gate = Gate.parse("sce.low > 0.05")
        >>> gate.metric, gate.end, gate.sign, gate.bound
        ('sce', 'low', '>', 0.05)
    """

    text: str
    group: str
    metric: str
    end: str
    sign: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> "Gate":
        """Read a gate.

        Raises:
            InputError: if it is not of the form.
            UnknownNameError: if there is no such metric.
        """
        form = _FORM.match(text)
        try:
            if form is None:
                raise ValueError
            bound = float(form[5])
        except ValueError:
            raise InputError(
                f"--fail-if {text!r}: expected a metric, a comparison and a number, such as 'sce>0.05', "
                "'sce.low>0.05', or of a group 'north: sce.low>0.05', of any group '*: sce.low>0.05'."
            ) from None
        group, name, end, sign = (form[1] or "").strip(), form[2], form[3] or "value", form[4]
        if METRICS.get(name).percent and abs(bound) > 1:
            raise InputError(f"--fail-if {text!r}: values are fractions, so this could never change; 5 % is 0.05.")
        return cls(text.strip(), group, name, end, sign, bound)

    def trips(self, evaluation: Evaluation) -> bool:
        """Whether the condition holds, of a group or of any; a value that is not defined trips: it proves nothing.

        Raises:
            InputError: if it is of a group and there are none.
            UnknownNameError: if there is no such group.
        """
        return any(self._holds(value) for value in self._values(evaluation).values())

    def reason(self, evaluation: Evaluation) -> str:
        """The value that decided, in words: of several groups the first that trips, or the one nearest to it."""
        values = self._values(evaluation)
        nearest = max if self.sign.startswith(">") else min
        group = next((name for name, value in values.items() if self._holds(value)), "")
        group = group or nearest(values, key=values.__getitem__)
        value, name = values[group], self.metric if self.end == "value" else f"{self.metric}.{self.end}"
        of_group = f" in {group}" if group else ""
        return f"{name}{of_group} is not defined" if math.isnan(value) else f"{name}{of_group} = {value:.4g}"

    def _holds(self, value: float) -> bool:
        return math.isnan(value) or bool(_OPERATORS[self.sign](value, self.bound))

    def _values(self, evaluation: Evaluation) -> dict[str, float]:
        """What is compared, by group; of all rows under no name."""
        evaluations = {"": evaluation} if not self.group else evaluation.groups
        if not evaluations:
            raise InputError(f"--fail-if {self.text!r}: there are no groups; name their column with --group.")
        if self.group not in ("", "*"):
            if self.group not in evaluations:
                raise UnknownNameError(f"group of --fail-if {self.text!r}", self.group, list(evaluations))
            evaluations = {self.group: evaluations[self.group]}
        return {name: float(getattr(one.metrics[self.metric], self.end)) for name, one in evaluations.items()}
