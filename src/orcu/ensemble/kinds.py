"""Kinds of base learners: their names, and which of them suit a table."""

import warnings
from collections.abc import Sequence
from typing import Any

from orcu.errors import InputError, UnknownNameError, import_problem

BOOSTING, NETWORK = "boosting", "network"
KINDS = (BOOSTING, NETWORK)
MAX_BOOSTING_COLUMNS = 200  # wider tables are usually features of images or texts, on which trees do worse


def check_kinds(kinds: Any) -> None:
    """Raise `InputError` if there is no kind, a kind is unknown, or boosting is requested and LightGBM is missing."""
    if not isinstance(kinds, (tuple, list)) or not kinds:
        raise InputError(f"estimators: expected some of {', '.join(KINDS)}; got {kinds!r}.")
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownNameError("estimator", str(kind), KINDS)
    problem = import_problem("lightgbm") if BOOSTING in kinds else ""
    if problem:
        raise InputError(f"estimators: {BOOSTING} needs LightGBM, which {problem}: pip install 'orcu[boosting]'.")


def default_kinds(columns: int, *, networks_only: str) -> Sequence[str]:
    """The kinds of base learners for a table of so many columns; warns where LightGBM is missing.

    ``networks_only`` is the option that requests networks only, for the warning.
    """
    if columns > MAX_BOOSTING_COLUMNS:
        return (NETWORK,)
    problem = import_problem("lightgbm")
    if problem:
        warnings.warn(
            f"LightGBM {problem}: the ensemble has networks only. On tables boosted trees usually help: "
            f"pip install 'orcu[boosting]'. Use {networks_only} to fit networks only without this warning.",
            UserWarning,
            stacklevel=6,
        )
        return (NETWORK,)
    return (BOOSTING, NETWORK)
