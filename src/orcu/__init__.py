"""Ordinal classifiers whose probabilities can be trusted: unimodal and calibrated at once.

Names are resolved on first use, so ``import orcu`` stays quick and does not import torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from orcu import calibrators, geometry, losses, metrics, targets, theory
    from orcu.calibrated import CalibratedOrdinal
    from orcu.conformal import OrdinalPredictionSets
    from orcu.decisions import decide
    from orcu.errors import InputError, MissingExtraError, UnknownNameError
    from orcu.estimator import OrdinalClassifier
    from orcu.losses.orcu import ORCULoss
    from orcu.metrics.evaluate import Evaluation, evaluate
    from orcu.metrics.tally import Tally
    from orcu.predictions import Predictions
    from orcu.scale import Suggestion, suggest_scale

# public name -> the module that holds it ("" = the name is itself a module of orcu)
_HOMES = {
    "CalibratedOrdinal": "calibrated",
    "Evaluation": "metrics.evaluate",
    "ORCULoss": "losses.orcu",
    "OrdinalClassifier": "estimator",
    "OrdinalPredictionSets": "conformal",
    "Predictions": "predictions",
    "Suggestion": "scale",
    "Tally": "metrics.tally",
    "decide": "decisions",
    "evaluate": "metrics.evaluate",
    "suggest_scale": "scale",
    "InputError": "errors",
    "MissingExtraError": "errors",
    "UnknownNameError": "errors",
    "calibrators": "",
    "data": "",
    "geometry": "",
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
    "OrdinalClassifier",
    "OrdinalPredictionSets",
    "Predictions",
    "Suggestion",
    "Tally",
    "UnknownNameError",
    "__version__",
    "calibrators",
    "data",
    "decide",
    "evaluate",
    "geometry",
    "losses",
    "metrics",
    "suggest_scale",
    "targets",
    "theory",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'orcu' has no attribute {name!r}")
    if home == "":
        return importlib.import_module(f"orcu.{name}")
    return getattr(importlib.import_module(f"orcu.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
