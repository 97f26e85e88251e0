"""Figures: shared parts here, and one module for each figure in `orcu.figures.panels`.

The registry ``orcu.figures.base.FIGURES`` has the complete figures that ``orcu.figures.base.make`` and ``orcu figure``
draw.
"""

import importlib
import importlib.util
from typing import Any


def __getattr__(name: str) -> Any:
    """Import a figure's module on first use: ``from orcu.figures import equilibrium``."""
    path = f"orcu.figures.panels.{name}"
    if importlib.util.find_spec(path) is None:
        raise AttributeError(f"module 'orcu.figures' has no attribute {name!r}")
    return importlib.import_module(path)
