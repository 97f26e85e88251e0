"""The definition of a metric, the registry of all metrics, and the decorators that build the public functions."""

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, ParamSpec, TypeVar, get_args

import numpy as np

from orcu.errors import UnknownNameError
from orcu.inputs import FloatArray
from orcu.metrics.sums import Sums
from orcu.registry import Registry

Family = Literal["calibration", "decision", "distribution"]
Better = Literal["higher", "lower", "zero", ""]
Formula = Callable[[Sums], Any]
P = ParamSpec("P")
Checked = TypeVar("Checked")
Result = TypeVar("Result")
# Arguments of the public functions, documented once: `documented` writes them into the docstrings.
ARGUMENTS = {
    "probs": "class probabilities, shape (n, C).",
    "y": "labels 0..C-1, shape (n,), or votes of several raters (counts or shares), shape (n, C).",
    "pred": "decided classes, shape (n,), instead of probs.",
    "logits": "logits, shape (n, C), instead of probs: no probability then underflows to 0.",
    "n_bins": "number of bins; the paper does not state it, 15 is usual.",
    "convention": "bin convention: paper, mdca, torchmetrics, nixon or netcal (ace: weighted, not torchmetrics).",
    "normalized": "whether to divide by C - 1, so that the score lies in [0, 1].",
    "tolerance": "largest step in the wrong direction that is ignored; 0 is the paper's definition.",
    "uncertainty": "score of each row, shape (n,), such as the disagreement of an ensemble, instead of the confidence.",
    "threshold_probabilities": "probabilities from which a row is treated, each above 0 and below 1, shape (m,).",
    "num_classes": "number of classes, C.",
    "risk": "cost of a miss relative to that of a miss and a false alarm, above 0 and below 1.",
    "threshold_weights": "importance of each threshold k = 1..C-1, above 0; all 1 by default.",
    "sample_weight": "non-negative row weights, shape (n,).",
}


def total_gap(gaps: FloatArray) -> FloatArray:
    """Sum over the bins (..., G)."""
    return gaps.sum(-1)


def largest_gap(gaps: FloatArray) -> FloatArray:
    """Maximum over the bins (..., G)."""
    return gaps.max(-1)


@dataclass(frozen=True)
class Metric:
    """A number of a report: its name, how to read it, and its formula."""

    name: str
    title: str
    family: Family
    better: Better
    percent: bool  # a fraction, printed as a percentage in tables
    convention: str  # {bins} is replaced by the number of bins, see `convention_for`
    rank: int
    formula: Formula
    # For a binned error the formula returns the signed gap of every bin, and `reduce` turns |gaps| into the error.
    reduce: Callable[[FloatArray], FloatArray] | None = None
    bounds: tuple[float, float] = (-np.inf, np.inf)  # smallest and largest possible value

    def __call__(self, sums: Sums) -> FloatArray:
        """Value of the metric for each leading index of the sums, shape (...)."""
        with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 is NaN: not defined
            value = np.asarray(self.formula(sums), dtype=np.float64)
        return value if self.reduce is None else self.reduce(np.abs(value))

    def cost(self, value: Any) -> Any:
        """Value, or array of values, transformed so that lower is better; unchanged if no direction is better.

        Example:
            >>> accuracy = Metric("accuracy", "Accuracy", "decision", "higher", True, "", 0, lambda sums: sums)
            >>> accuracy.cost(0.75)
            -0.75
        """
        if self.better == "higher":
            return -value
        return abs(value) if self.better == "zero" else value

    def convention_for(self, n_bins: int = 15) -> str:
        """Definition in words, with this number of bins."""
        return self.convention.replace("{bins}", str(n_bins))

    @property
    def binned(self) -> bool:
        """Whether it sums absolute gaps, so that noise alone increases it."""
        return self.reduce is not None


METRICS: Registry[Metric] = Registry("metric", package="orcu.metrics", plugins="orcu.metrics")
_ranks = count()


def metric(
    name: str,
    title: str,
    *,
    family: Family,
    better: Better,
    percent: bool = False,
    convention: str = "",
    reduce: Callable[[FloatArray], FloatArray] | None = None,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> Callable[[Formula], Metric]:
    """Decorator that registers a formula of `Sums` as a metric of all evaluations.

    Put `metric_function` above it to turn the formula into a public function.

    Args:
        name: name of the metric in results, gates and tables.
        title: title in reports.
        family: part of a report in which the metric is listed.
        better: direction in which the metric is better; empty if neither is.
        percent: whether tables show the value as a percentage.
        convention: definition in words; ``{bins}`` is replaced by the number of bins.
        reduce: for a binned error, whose formula returns signed gaps (..., G): the metric is reduce(|gaps|).
        bounds: smallest and largest possible value, which intervals do not exceed.

    Raises:
        UnknownNameError: if the family or the direction does not exist.
    """
    if family not in get_args(Family):
        raise UnknownNameError(f"family of the metric {name!r}", family, get_args(Family))
    if better not in get_args(Better):
        raise UnknownNameError(f"direction of the metric {name!r}", better, get_args(Better))

    def register(formula: Formula) -> Metric:
        return METRICS.register(name, source=formula)(
            Metric(name, title, family, better, percent, convention, next(_ranks), formula, reduce, bounds)
        )

    return register


def metric_function(inputs: Callable[P, Sums]) -> Callable[[Metric], Callable[P, float]]:
    """Decorator that builds the public function of a metric, see `function_of`."""

    def decorate(registered: Metric) -> Callable[P, float]:
        def value(sums: Sums) -> float:
            return float(registered(sums))

        functools.update_wrapper(value, registered.formula, updated=()).__annotations__ = {"return": float}
        return function_of(inputs)(value)

    return decorate


def function_of(inputs: Callable[P, Checked]) -> Callable[[Callable[[Checked], Result]], Callable[P, Result]]:
    """Decorator that builds a public function from a function of checked rows or sums.

    The public function has the signature of ``inputs``, which checks the arguments and returns what the decorated
    function takes, and is documented by `documented`.

    Example:
        >>> from orcu.metrics.sums import decision_sums
        >>> @function_of(decision_sums)
        ... def row_count(sums: Sums) -> int:
        ...     return int(sums.total)
        >>> row_count(y=[0, 1, 1], pred=[0, 0, 1])
        3
    """

    def decorate(function: Callable[[Checked], Result]) -> Callable[P, Result]:
        @functools.wraps(function)
        def public(*args: P.args, **kwargs: P.kwargs) -> Result:
            return function(inputs(*args, **kwargs))

        public.__annotations__ = {**inputs.__annotations__, "return": function.__annotations__.get("return", Any)}
        returned = public.__annotations__["return"]
        vars(public)["__signature__"] = inspect.signature(inputs).replace(return_annotation=returned)
        return documented(public)

    return decorate


def documented(function: Callable[P, Result]) -> Callable[P, Result]:
    """Decorator that adds the sections Args and Raises to a docstring, before its example."""
    text, _, example = inspect.cleandoc(function.__doc__ or "").partition("\n\nExample:\n")
    arguments = [
        f"    {name}: {ARGUMENTS[name]}" for name in inspect.signature(function).parameters if name in ARGUMENTS
    ]
    raises = "Raises:\n    InputError: if an argument is invalid; the message names the row."
    function.__doc__ = "\n".join([text, "", "Args:", *arguments, "", raises, "", "Example:", example])
    return function


def all_metrics(names: Iterable[str] | None = None) -> list[Metric]:
    """Registered metrics in the order of a report: those with the names, or all."""
    families = get_args(Family)
    metrics = [METRICS.get(name) for name in (METRICS.names() if names is None else names)]
    return sorted(metrics, key=lambda m: (families.index(m.family), m.rank))
