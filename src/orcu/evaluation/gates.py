"""Gates: conditions on metrics that stop a pipeline, such as ``sce.low>0.05``."""

import math
import operator
import re
from dataclasses import dataclass

from orcu.errors import InputError
from orcu.evaluation.evaluation import Evaluation
from orcu.metrics.base import METRICS

_OPERATORS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_FORM = re.compile(r"^\s*(\w+)(?:\.(value|low|high))?\s*(>=|<=|>|<)\s*([-+.\deE]+)\s*$")


@dataclass(frozen=True)
class Gate:
    """``metric[.value|.low|.high]`` compared with a number; values are fractions, not percent.

    Example:
        >>> gate = Gate.parse("sce.low > 0.05")
        >>> gate.metric, gate.end, gate.sign, gate.bound
        ('sce', 'low', '>', 0.05)
    """

    text: str
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
            bound = float(form[4])
        except ValueError:
            raise InputError(
                f"--fail-if {text!r}: expected a metric, a comparison and a number, such as 'sce>0.05' "
                "or 'sce.low>0.05'."
            ) from None
        name, end, sign = form[1], form[2] or "value", form[3]
        if METRICS.get(name).percent and abs(bound) > 1:
            raise InputError(f"--fail-if {text!r}: values are fractions, so this could never change; 5 % is 0.05.")
        return cls(text.strip(), name, end, sign, bound)

    def trips(self, evaluation: Evaluation) -> bool:
        """Whether the condition holds; a value that is not defined trips, since it proves nothing."""
        value = self._value(evaluation)
        return math.isnan(value) or bool(_OPERATORS[self.sign](value, self.bound))

    def reason(self, evaluation: Evaluation) -> str:
        """The value that decided, in words."""
        value = self._value(evaluation)
        name = self.metric if self.end == "value" else f"{self.metric}.{self.end}"
        return f"{name} is not defined" if math.isnan(value) else f"{name} = {value:.4g}"

    def _value(self, evaluation: Evaluation) -> float:
        return float(getattr(evaluation.metrics[self.metric], self.end))
