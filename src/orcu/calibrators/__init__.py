"""Calibrators: maps from logits to calibrated, optionally unimodal probabilities."""

from orcu.calibrators.auto import AutoCalibration
from orcu.calibrators.base import CALIBRATORS, Calibrator, from_dict, load
from orcu.calibrators.chain import Chain, create
from orcu.calibrators.dirichlet import DirichletCalibration
from orcu.calibrators.gap import GapScaling
from orcu.calibrators.groups import GroupedCalibration
from orcu.calibrators.linear_map import OrdinalDirichlet, VectorScaling
from orcu.calibrators.projection import UnimodalProjection
from orcu.calibrators.recommend import Recommendation, recommend
from orcu.calibrators.temperature import TemperatureScaling
from orcu.errors import CalibrationWarning

__all__ = [
    "AutoCalibration",
    "CalibrationWarning",
    "Calibrator",
    "Chain",
    "DirichletCalibration",
    "GapScaling",
    "GroupedCalibration",
    "OrdinalDirichlet",
    "Recommendation",
    "TemperatureScaling",
    "UnimodalProjection",
    "VectorScaling",
    "create",
    "from_dict",
    "load",
    "names",
    "recommend",
]


def names() -> list[str]:
    """Names of the registered calibrators, for `create`.

    Example:
        >>> names()  # doctest: +NORMALIZE_WHITESPACE
        ['auto', 'chain', 'dirichlet', 'dirichlet_paper', 'gap', 'grouped', 'ordinal_dirichlet', 'projection',
         'temperature', 'vector']
    """
    return CALIBRATORS.names()
