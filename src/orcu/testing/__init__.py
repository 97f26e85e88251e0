"""Contracts for what others add: ``check_loss``, ``check_metric``, ``check_calibrator``, ``check_dataset``.

Each runs the rules that orcu's own things are held to, and raises `ContractError` with the rule, the numbers and how to
mend it: one line in a test of yours. ``loss_checks`` and its like give the same rules one by one, for a test of each.
No test runner is needed.
"""

from typing import TYPE_CHECKING, Any

from orcu.testing.calibrators import calibrator_checks, check_calibrator
from orcu.testing.contract import ContractError
from orcu.testing.datasets import check_dataset, dataset_checks
from orcu.testing.metrics import check_metric, metric_checks

if TYPE_CHECKING:
    from orcu.testing.losses import check_loss, loss_checks

__all__ = [
    "ContractError",
    "calibrator_checks",
    "check_calibrator",
    "check_dataset",
    "check_loss",
    "check_metric",
    "dataset_checks",
    "loss_checks",
    "metric_checks",
]


if not TYPE_CHECKING:  # or a checker would believe in any name

    def __getattr__(name: str) -> Any:
        if name in ("check_loss", "loss_checks"):  # which need torch
            from orcu.testing import losses

            return getattr(losses, name)
        raise AttributeError(f"module 'orcu.testing' has no attribute {name!r}")
