"""Ordinal classifiers whose probabilities can be trusted: unimodal and calibrated at once.

Names are resolved on first use, so ``import orcu`` stays quick and does not import torch.
"""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from orcu import (
        boosting,
        calibrators,
        data,
        estimators,
        figures,
        geometry,
        judges,
        losses,
        metrics,
        targets,
        theory,
    )
    from orcu.decisions.conformal import OrdinalPredictionSets
    from orcu.decisions.rules import decide
    from orcu.errors import InputError, MissingExtraError, UnknownNameError
    from orcu.estimators.boosting import OrdinalBoosting
    from orcu.estimators.calibrated import CalibratedOrdinal
    from orcu.estimators.classifier import OrdinalClassifier
    from orcu.evaluation.evaluate import evaluate
    from orcu.evaluation.evaluation import Evaluation
    from orcu.evaluation.tally import Tally
    from orcu.losses.orcu import ORCULoss
    from orcu.predictions.predictions import Predictions
    from orcu.theory.suggest_scale import Suggestion, suggest_scale

# public name -> the module that holds it ("" = the name is itself a module of orcu)
_HOMES = {
    "CalibratedOrdinal": "estimators.calibrated",
    "Evaluation": "evaluation.evaluation",
    "ORCULoss": "losses.orcu",
    "OrdinalBoosting": "estimators.boosting",
    "OrdinalClassifier": "estimators.classifier",
    "OrdinalPredictionSets": "decisions.conformal",
    "Predictions": "predictions",
    "Suggestion": "theory.suggest_scale",
    "Tally": "evaluation.tally",
    "decide": "decisions.rules",
    "evaluate": "evaluation.evaluate",
    "suggest_scale": "theory.suggest_scale",
    "InputError": "errors",
    "MissingExtraError": "errors",
    "UnknownNameError": "errors",
    "boosting": "",
    "calibrators": "",
    "data": "",
    "estimators": "",
    "figures": "",
    "geometry": "",
    "judges": "",
    "losses": "",
    "metrics": "",
    "targets": "",
    "theory": "",
}

__all__ = [
    "CalibratedOrdinal",
    "Evaluation",
    "InputError",
    "MissingExtraError",
    "ORCULoss",
    "OrdinalBoosting",
    "OrdinalClassifier",
    "OrdinalPredictionSets",
    "Predictions",
    "Suggestion",
    "Tally",
    "UnknownNameError",
    "__version__",
    "boosting",
    "calibrators",
    "data",
    "decide",
    "estimators",
    "evaluate",
    "figures",
    "geometry",
    "judges",
    "losses",
    "metrics",
    "suggest_scale",
    "targets",
    "theory",
]


if not TYPE_CHECKING:  # or a checker would believe in any name

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'orcu' has no attribute {name!r}")
        if home == "":
            return importlib.import_module(f"orcu.{name}")
        return getattr(importlib.import_module(f"orcu.{home}"), name)


def __dir__() -> list[str]:
    # help() and editors ask for all that is listed: where torch is missing, not for what would refuse.
    missing = {"ORCULoss", "losses"} if importlib.util.find_spec("torch") is None else set()
    return sorted(set(__all__) - missing)
