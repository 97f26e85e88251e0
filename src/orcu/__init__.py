"""Ordinal classifiers whose probabilities can be trusted: unimodal and calibrated at once.

Names are resolved on first use, so ``import orcu`` is fast and does not import torch.
"""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from orcu import (
        bench,
        boosting,
        calibrators,
        data,
        decisions,
        estimators,
        evaluation,
        explain,
        explore,
        figures,
        geometry,
        integrations,
        io,
        judges,
        kernels,
        launchers,
        losses,
        metrics,
        model_selection,
        models,
        monitoring,
        predictions,
        raters,
        report,
        testing,
        theory,
        training,
    )
    from orcu.decisions.conformal import OrdinalPredictionSets
    from orcu.decisions.rules import decide
    from orcu.errors import InputError, MissingExtraError, UnknownNameError
    from orcu.estimators.boosting import OrdinalBoosting
    from orcu.estimators.calibrated import CalibratedOrdinal
    from orcu.estimators.classifier import OrdinalClassifier
    from orcu.estimators.logistic import OrdinalLogistic
    from orcu.evaluation.evaluate import evaluate
    from orcu.evaluation.evaluation import Evaluation
    from orcu.evaluation.partial import PartialEvaluation
    from orcu.evaluation.tally import Tally
    from orcu.losses.orcu import ORCULoss
    from orcu.predictions import Predictions
    from orcu.theory.suggest_scale import ScaleSuggestion, suggest_scale

# Public classes and functions and the modules that define them; the other names of `__all__` are modules.
_OBJECTS = {
    "CalibratedOrdinal": "estimators.calibrated",
    "Evaluation": "evaluation.evaluation",
    "InputError": "errors",
    "MissingExtraError": "errors",
    "ORCULoss": "losses.orcu",
    "OrdinalBoosting": "estimators.boosting",
    "OrdinalClassifier": "estimators.classifier",
    "OrdinalLogistic": "estimators.logistic",
    "OrdinalPredictionSets": "decisions.conformal",
    "PartialEvaluation": "evaluation.partial",
    "Predictions": "predictions",
    "ScaleSuggestion": "theory.suggest_scale",
    "Tally": "evaluation.tally",
    "UnknownNameError": "errors",
    "decide": "decisions.rules",
    "evaluate": "evaluation.evaluate",
    "suggest_scale": "theory.suggest_scale",
}
_NEED_TORCH = {"ORCULoss", "losses", "models", "training"}

__all__ = [
    "CalibratedOrdinal",
    "Evaluation",
    "InputError",
    "MissingExtraError",
    "ORCULoss",
    "OrdinalBoosting",
    "OrdinalClassifier",
    "OrdinalLogistic",
    "OrdinalPredictionSets",
    "PartialEvaluation",
    "Predictions",
    "ScaleSuggestion",
    "Tally",
    "UnknownNameError",
    "__version__",
    "bench",
    "boosting",
    "calibrators",
    "data",
    "decide",
    "decisions",
    "estimators",
    "evaluate",
    "evaluation",
    "explain",
    "explore",
    "figures",
    "geometry",
    "integrations",
    "io",
    "judges",
    "kernels",
    "launchers",
    "losses",
    "metrics",
    "model_selection",
    "models",
    "monitoring",
    "predictions",
    "raters",
    "report",
    "suggest_scale",
    "testing",
    "theory",
    "training",
]


if not TYPE_CHECKING:  # so that type checkers report unknown names

    def __getattr__(name: str) -> Any:
        if name in _OBJECTS:
            return getattr(importlib.import_module(f"orcu.{_OBJECTS[name]}"), name)
        if name in __all__:
            return importlib.import_module(f"orcu.{name}")
        raise AttributeError(f"module 'orcu' has no attribute {name!r}")


def __dir__() -> list[str]:
    # help() and editors resolve every listed name: omit those that would raise without torch.
    missing = _NEED_TORCH if importlib.util.find_spec("torch") is None else set()
    return sorted(set(__all__) - missing)
