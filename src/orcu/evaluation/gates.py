"""Gates: conditions on metrics that stop a pipeline, such as ``sce.low>0.05``."""

import math
import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orcu.errors import InputError, UnknownNameError
from orcu.metrics.base import METRICS

if TYPE_CHECKING:
    from orcu.evaluation.evaluate import Evaluation

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
        found = _FORM.match(text)
        try:
            if found is None:
                raise ValueError
            bound = float(found[4])
        except ValueError:
            raise InputError(
                f"--fail-if {text!r}: expected a metric, a comparison and a number, such as 'sce>0.05' "
                "or 'sce.low>0.05'."
            ) from None
        if found[1] not in METRICS.names():
            raise UnknownNameError("metric", found[1], METRICS.names())
        if METRICS.get(found[1]).percent and abs(bound) > 1:
            raise InputError(f"--fail-if {text!r}: values are fractions, so this could never change; 5 % is 0.05.")
        return cls(text.strip(), found[1], found[2] or "value", found[3], bound)

    def trips(self, found: "Evaluation") -> bool:
        """Whether the condition holds; a value that is not defined trips, since it proves nothing."""
        value = self._value(found)
        return math.isnan(value) or bool(_OPERATORS[self.sign](value, self.bound))

    def told(self, found: "Evaluation") -> str:
        """The value that decided, in words."""
        value = self._value(found)
        name = self.metric if self.end == "value" else f"{self.metric}.{self.end}"
        return f"{name} is not defined" if math.isnan(value) else f"{name} = {value:.4g}"

    def _value(self, found: "Evaluation") -> float:
        return float(getattr(found.metrics[self.metric], self.end))
