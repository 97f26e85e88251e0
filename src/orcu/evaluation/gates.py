"""Gates: conditions on metrics that make a pipeline fail, such as ``sce.low>0.05``."""

import math
import operator
import re
from dataclasses import dataclass

from orcu.errors import InputError, UnknownNameError
from orcu.evaluation.evaluation import Evaluation
from orcu.evaluation.mean_cost import COST
from orcu.metrics.base import METRICS

_OPERATORS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_PATTERN = re.compile(r"^\s*(?:(.+):)?\s*(\w+)(?:\.(value|low|high))?\s*(>=|<=|>|<)\s*([-+.\deE]+)\s*$")


@dataclass(frozen=True)
class Gate:
    """Comparison ``[SUBGROUP:] metric[.value|.low|.high]`` with a number; values are fractions, not percentages.

    The subgroup is one of the evaluation's, or ``*`` for any of them.

    Example:
        >>> gate = Gate.parse("sce.low > 0.05")
        >>> gate.metric, gate.end, gate.sign, gate.bound
        ('sce', 'low', '>', 0.05)
    """

    text: str
    subgroup: str
    metric: str
    end: str
    sign: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> "Gate":
        """Parse a gate; raises `InputError`."""
        match = _PATTERN.match(text)
        try:
            bound = float(match[5]) if match else math.nan
        except ValueError:
            match = None
        if match is None:
            raise InputError(
                f"--fail-if {text!r}: expected a metric, a comparison and a number, such as 'sce>0.05' or "
                "'sce.low>0.05'; for a subgroup 'north: sce.low>0.05', for any subgroup '*: sce.low>0.05'."
            )
        subgroup, name, end, sign = (match[1] or "").strip(), match[2], match[3] or "value", match[4]
        if name != COST and METRICS.get(name).percent and abs(bound) > 1:
            raise InputError(f"--fail-if {text!r}: expected a fraction, such as 0.05 for 5 %, got {bound:g}.")
        return cls(text.strip(), subgroup, name, end, sign, bound)

    def fails(self, evaluation: Evaluation) -> bool:
        """Whether the condition holds for all rows, the subgroup or any subgroup; also if the value is not defined."""
        return any(self._holds(value) for value in self._values(evaluation).values())

    def reason(self, evaluation: Evaluation) -> str:
        """The decisive value in words: of several subgroups the first that fails, or the closest."""
        values = self._values(evaluation)
        closest = max if self.sign.startswith(">") else min
        subgroup = next((name for name, value in values.items() if self._holds(value)), "")
        subgroup = subgroup or closest(values, key=values.__getitem__)
        value, name = values[subgroup], self.metric if self.end == "value" else f"{self.metric}.{self.end}"
        where = f" in {subgroup}" if subgroup else ""
        return f"{name}{where} is not defined" if math.isnan(value) else f"{name}{where} = {value:.4g}"

    def _holds(self, value: float) -> bool:
        return math.isnan(value) or bool(_OPERATORS[self.sign](value, self.bound))

    def _values(self, evaluation: Evaluation) -> dict[str, float]:
        """Compared value of each subgroup; under the name "" that of all rows."""
        evaluations = {"": evaluation} if not self.subgroup else evaluation.subgroups
        if not evaluations:
            raise InputError(f"--fail-if {self.text!r}: there are no subgroups; name their column with --subgroup.")
        if self.subgroup not in ("", "*"):
            if self.subgroup not in evaluations:
                raise UnknownNameError(f"subgroup of --fail-if {self.text!r}", self.subgroup, list(evaluations))
            evaluations = {self.subgroup: evaluations[self.subgroup]}
        if self.metric not in evaluation.metrics:
            raise InputError(f"--fail-if {self.text!r}: the cost needs a cost matrix, --rule costs.csv.")
        return {name: float(getattr(part.metrics[self.metric], self.end)) for name, part in evaluations.items()}
