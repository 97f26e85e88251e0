"""Figures: what all of them share, and the figures themselves in `orcu.figures.panels`, one file each.

Those of the registry ``orcu.figures.base.FIGURES`` are whole figures of the paper's kinds, made by
``orcu.figures.base.make`` and ``orcu figure``.
"""

import importlib
import importlib.util
from typing import Any


def __getattr__(name: str) -> Any:
    """A figure's module: ``from orcu.figures import equilibrium``."""
    path = f"orcu.figures.panels.{name}"
    if importlib.util.find_spec(path) is None:
        raise AttributeError(f"module 'orcu.figures' has no attribute {name!r}")
    return importlib.import_module(path)
