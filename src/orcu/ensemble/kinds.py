"""Kinds of base learners: their names, and which of them suit a table."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orcu.defaults import NETWORK_LOSSES
from orcu.errors import InputError, UnknownNameError, import_problem

LINEAR, FOREST, NETWORK, BOOSTING, CATBOOST = "linear", "forest", "network", "boosting", "catboost"
KINDS = (LINEAR, FOREST, NETWORK, BOOSTING, CATBOOST)
# On wider tables forests and linear models cost much. Networks are as good on features of images or texts, and boosted
# trees are far better where few columns matter (benchmarks/training_cost.py).
MAX_TABLE_COLUMNS = 100
WIDE_KINDS = (NETWORK, BOOSTING)
PACKAGES = {BOOSTING: "lightgbm", CATBOOST: "catboost"}
INSTALL = {BOOSTING: "pip install 'orcu[boosting]'", CATBOOST: "pip install catboost"}


@dataclass(frozen=True)
class Preset:
    """Base learners of an ensemble.

    Attributes:
        kinds: kinds of base learners, cheap and strong ones first, so that a time limit keeps these.
        network_losses: losses of the networks.
        boosting_losses: losses of the boosted trees.
    """

    kinds: tuple[str, ...]
    network_losses: tuple[str, ...] = NETWORK_LOSSES
    boosting_losses: tuple[str, ...] = ("ce",)


PRESETS = {
    "fast": Preset((LINEAR, FOREST, NETWORK), ("ce",)),
    "default": Preset((LINEAR, FOREST, NETWORK, BOOSTING)),
    "best": Preset((LINEAR, FOREST, NETWORK, BOOSTING, CATBOOST), boosting_losses=("ce", "orcu")),
}


def check_kinds(kinds: Any) -> None:
    """Raise `InputError` if there is no kind, a kind is unknown, or a kind's package is missing."""
    if not isinstance(kinds, (tuple, list)) or not kinds:
        raise InputError(f"estimators: expected some of {', '.join(KINDS)}; got {kinds!r}.")
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownNameError("estimator", str(kind), KINDS)
        problem = import_problem(PACKAGES[kind]) if kind in PACKAGES else ""
        if problem:
            raise InputError(f"estimators: {kind} needs {PACKAGES[kind]}, which {problem}: {INSTALL[kind]}.")


def default_kinds(preset: Preset, columns: int, *, without_boosting: str) -> Sequence[str]:
    """The kinds of a preset that suit a table of so many columns and are installed; warns where LightGBM is missing.

    ``without_boosting`` is the option that requests other kinds, for the warning.
    """
    kinds = [kind for kind in preset.kinds if columns <= MAX_TABLE_COLUMNS or kind in WIDE_KINDS]
    problems = {kind: import_problem(PACKAGES[kind]) for kind in kinds if kind in PACKAGES}
    if problems.get(BOOSTING):
        warnings.warn(
            f"LightGBM {problems[BOOSTING]}: the ensemble has no boosted trees, which help on most tables: "
            f"{INSTALL[BOOSTING]}. Use {without_boosting} to fit without them and without this warning.",
            UserWarning,
            stacklevel=6,
        )
    return tuple(kind for kind in kinds if not problems.get(kind))
