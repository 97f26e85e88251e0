"""The paper's theory as code: the free-logit equilibrium and a check of every statement."""

from orcu.theory.equilibrium import Equilibrium, equilibrium
from orcu.theory.statements import Check, verify

__all__ = ["Check", "Equilibrium", "equilibrium", "verify"]
