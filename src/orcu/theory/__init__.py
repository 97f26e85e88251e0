"""Theory of the ORCU paper: free-logit equilibrium, numerical checks of the statements, suggestion of a scale."""

from orcu.theory.equilibrium import Equilibrium, equilibrium
from orcu.theory.statements import Check, verify
from orcu.theory.suggest_scale import ScaleSuggestion, suggest_scale

__all__ = ["Check", "Equilibrium", "ScaleSuggestion", "equilibrium", "suggest_scale", "verify"]
