"""Calibrators: maps from a model's logits to probabilities that can be trusted, ordinal shape included."""

from typing import Any

from orcu.calibrators.base import CALIBRATORS, CalibrationWarning, Calibrator, from_dict, load
from orcu.calibrators.chain import Chain
from orcu.calibrators.dirichlet import DirichletCalibration
from orcu.calibrators.gap import GapScaling
from orcu.calibrators.ordinal_dirichlet import OrdinalDirichlet
from orcu.calibrators.projection import UnimodalProjection
from orcu.calibrators.recommend import Recommendation, recommend
from orcu.calibrators.temperature import TemperatureScaling
from orcu.calibrators.vector import VectorScaling
from orcu.errors import InputError

__all__ = [
    "CalibrationWarning",
    "Calibrator",
    "Chain",
    "DirichletCalibration",
    "GapScaling",
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
    """The names that `create` knows.

    Example:
        >>> names()
        ['chain', 'dirichlet', 'dirichlet_paper', 'gap', 'ordinal_dirichlet', 'projection', 'temperature', 'vector']
    """
    return CALIBRATORS.names()


def create(spec: str | dict[str, Any], **options: Any) -> Calibrator:
    """The calibrator that a name or table describes; names joined by "+" are a chain.

    Raises:
        UnknownNameError: if a name or option does not exist.
        InputError: if options are given for a chain.

    Example:
        >>> create("gap+projection")
        Chain(steps=['gap', 'projection'])
    """
    if isinstance(spec, str) and "+" in spec:
        steps = [name.strip() for name in spec.split("+")]
        if options:
            raise InputError(f"{spec}: options belong to the steps; use Chain(...) with calibrators.")
        for name in steps:
            CALIBRATORS.get(name)
        return Chain(*steps)
    made: Calibrator = CALIBRATORS.create(spec, **options)
    return made
